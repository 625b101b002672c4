//! Tiers as users write them.

use super::compressed_sizes::{Codec, Compressibility};
use super::kind::TierKind;
use super::simulation::Tiers;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use sweephand_trace::contents::{CodecTime, Contents};

/// Largest size of zram, in percent of memory.
const MOST_DISKSIZE_PERCENT: u32 = 1000;
/// Settings that say how well pages compress. If all are given, nothing recorded is needed.
const SETTINGS_OF_PAGES: usize = 3;

/// A kind of pool, and how well pages compress: `zram`, or
/// `zswap:ratio=2.5,same-filled=10%,accept=90%`. What is not given of the pages is as recorded, or
/// else as in [`Compressibility::default`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TierSpec {
    /// What keeps compressed pages.
    pub kind: TierKind,
    /// Whose sizes are taken, if sizes were recorded.
    pub codec: Codec,
    /// Bytes of a page by bytes of a compressed one, if given.
    pub ratio: Option<f64>,
    /// Pages all of whose words are equal, in percent, if given.
    pub same_filled_percent: Option<f64>,
    /// Pages that do not compress, in percent, if given.
    pub incompressible_percent: Option<f64>,
}

/// Tiers that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tiers '{text}': {reason}")]
pub struct TierSpecError {
    /// The tiers as typed.
    pub text: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl FromStr for TierSpec {
    type Err = TierSpecError;

    fn from_str(text: &str) -> Result<Self, TierSpecError> {
        Self::read(text).map_err(|reason| TierSpecError { text: text.to_string(), reason })
    }
}

impl TierSpec {
    /// A kind of pool, with pages as they were recorded.
    pub fn of(kind: TierKind) -> Self {
        Self { kind, codec: Codec::Lz4, ratio: None, same_filled_percent: None, incompressible_percent: None }
    }

    /// How well the pages of a program compress of which these contents were recorded.
    pub fn compressibility(&self, contents: Option<&Contents>) -> Compressibility {
        let recorded = self.recorded(contents).unwrap_or_default();
        let Self { same_filled_percent: same_filled, incompressible_percent: incompressible, .. } = *self;
        // What was given leaves the rest to what was recorded.
        let most = |given: Option<f64>| 100.0 - given.unwrap_or(0.0);
        Compressibility {
            ratio: self.ratio.unwrap_or(recorded.ratio),
            same_filled_percent: same_filled
                .unwrap_or_else(|| recorded.same_filled_percent.min(most(incompressible))),
            incompressible_percent: incompressible
                .unwrap_or_else(|| recorded.incompressible_percent.min(most(same_filled))),
            spread: recorded.spread.filter(|_| self.ratio.is_none()),
        }
    }

    /// What was recorded, if anything was and is asked for.
    pub fn recorded(&self, contents: Option<&Contents>) -> Option<Compressibility> {
        let is_asked_for = self.given().len() < SETTINGS_OF_PAGES;
        contents.filter(|_| is_asked_for).and_then(|of| Compressibility::recorded(of, self.codec))
    }

    /// How long the codec took for the program's own pages, if that was recorded, and their sizes
    /// are taken.
    pub fn codec_time(&self, contents: Option<&Contents>) -> Option<CodecTime> {
        self.recorded(contents).filter(|_| self.ratio.is_none())?;
        let times = contents?.codec_times?;
        Some(match self.codec {
            Codec::Lz4 => times.lz4,
            Codec::Zstd => times.zstd,
        })
    }

    /// Which settings of the pages were given.
    pub fn given(&self) -> Vec<&'static str> {
        let settings = [
            ("ratio", self.ratio),
            ("same-filled", self.same_filled_percent),
            ("incompressible", self.incompressible_percent),
        ];
        settings.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect()
    }

    /// The tiers below a program of which these contents were recorded.
    pub fn tiers(&self, contents: Option<&Contents>) -> Tiers {
        Tiers { kind: self.kind, sizes: Arc::new(self.compressibility(contents)) }
    }

    fn read(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let kind = match name {
            "zswap" => TierKind::Zswap { accept_percent: 100 },
            "zram" => TierKind::Zram { disksize_percent: None },
            _ => return Err("there are zswap and zram".into()),
        };
        let mut spec = Self::of(kind);
        let mut set = Vec::new();
        for setting in settings.split(',').filter(|_| text.contains(':')) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            spec.set(name, value)?;
            if set.contains(&name) {
                return Err(format!("{name} is there twice"));
            }
            set.push(name);
        }
        let percents = [spec.same_filled_percent, spec.incompressible_percent];
        if percents.into_iter().flatten().sum::<f64>() > 100.0 {
            return Err("same-filled and incompressible come to more than 100%".into());
        }
        Ok(spec)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, &mut self.kind) {
            ("ratio", _) => {
                let ratio = value.parse().ok().filter(|ratio: &f64| ratio.is_finite() && *ratio >= 1.0);
                self.ratio = Some(ratio.ok_or("write the ratio as in ratio=3, at least 1")?);
            }
            ("same-filled", _) => self.same_filled_percent = Some(percent(name, value)?),
            ("incompressible", _) => self.incompressible_percent = Some(percent(name, value)?),
            ("codec", _) => {
                let codec = [Codec::Lz4, Codec::Zstd].into_iter().find(|codec| codec.name() == value);
                self.codec = codec.ok_or("write the codec as in codec=lz4; there are lz4 and zstd")?;
            }
            ("accept", TierKind::Zswap { accept_percent }) => {
                let accept = percent(name, value)?;
                if accept.fract() != 0.0 {
                    return Err("write accept in whole percent, as in accept=90%".into());
                }
                *accept_percent = accept as u8;
            }
            ("disksize", TierKind::Zram { disksize_percent }) => {
                let percent = value.strip_suffix('%').and_then(|percent| percent.parse().ok());
                let percent = percent.filter(|percent: &u32| (1..=MOST_DISKSIZE_PERCENT).contains(percent));
                *disksize_percent = Some(percent.ok_or_else(|| {
                    format!(
                        "write disksize in whole percent of memory, up to {MOST_DISKSIZE_PERCENT}, as in \
                         disksize=50%"
                    )
                })?);
            }
            ("disksize", TierKind::Zswap { .. }) => {
                return Err("disksize is for zram; zswap has no size before compression".into());
            }
            ("accept", TierKind::Zram { .. }) => {
                return Err("accept is for zswap; zram writes nothing back".into());
            }
            _ => {
                return Err(format!(
                    "there is no '{name}'; there are codec, ratio, same-filled, incompressible, for zswap accept, \
                     and for zram disksize"
                ));
            }
        }
        Ok(())
    }
}

fn percent(name: &str, value: &str) -> Result<f64, String> {
    let percent = value.strip_suffix('%').and_then(|percent| percent.parse().ok());
    let percent = percent.filter(|percent: &f64| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| format!("write {name} as in {name}=10%, from 0% to 100%"))
}

/// With the settings that were given, and those that have a default.
impl fmt::Display for TierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            TierKind::Zswap { .. } => "zswap",
            TierKind::Zram { .. } => "zram",
        };
        write!(f, "{name}:codec={}", self.codec.name())?;
        if let Some(ratio) = self.ratio {
            write!(f, ",ratio={ratio}")?;
        }
        if let Some(percent) = self.same_filled_percent {
            write!(f, ",same-filled={percent}%")?;
        }
        if let Some(percent) = self.incompressible_percent {
            write!(f, ",incompressible={percent}%")?;
        }
        match self.kind {
            TierKind::Zswap { accept_percent } => write!(f, ",accept={accept_percent}%"),
            TierKind::Zram { disksize_percent: Some(percent) } => write!(f, ",disksize={percent}%"),
            TierKind::Zram { disksize_percent: None } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_trace::contents::{CodecTimes, ObjectContents, PageContents, SampledPages};

    #[test]
    fn tiers_are_read_and_written_with_the_settings_that_were_given() {
        let all = |text: &str| text.parse::<TierSpec>().unwrap().to_string();
        assert_eq!(all("zram"), "zram:codec=lz4");
        assert_eq!(
            all("zswap:ratio=2.5,same-filled=10%,accept=90%"),
            "zswap:codec=lz4,ratio=2.5,same-filled=10%,accept=90%"
        );
        assert_eq!(all("zram:disksize=50%,codec=zstd"), "zram:codec=zstd,disksize=50%");
        assert_eq!(all(&all("zswap:incompressible=12.5%")), all("zswap:incompressible=12.5%"));
    }

    /// Of ten pages, three are zero, four do not compress, and three come to 1024 bytes.
    #[test]
    fn what_is_not_given_is_as_recorded_and_else_as_assumed() {
        let mut sampled = SampledPages::default();
        (0..3).for_each(|_| sampled.add(PageContents::Zero));
        (0..4).for_each(|_| sampled.add(PageContents::Other { lz4_bytes: 4096, zstd_bytes: 4096 }));
        (0..3).for_each(|_| sampled.add(PageContents::Other { lz4_bytes: 1024, zstd_bytes: 512 }));
        let objects = vec![ObjectContents { name: "[heap]".into(), sampled }];
        let contents = Contents { objects, ..Contents::default() };
        let pages = |text: &str, contents: Option<&Contents>| {
            let spec = text.parse::<TierSpec>().unwrap();
            let Compressibility { ratio, same_filled_percent, incompressible_percent, .. } =
                spec.compressibility(contents);
            let is_recorded = spec.recorded(contents).is_some();
            (is_recorded, ratio, same_filled_percent.round(), incompressible_percent.round())
        };
        assert_eq!(pages("zswap", Some(&contents)), (true, 4.0, 30.0, 40.0));
        assert_eq!(pages("zram:codec=zstd", Some(&contents)), (true, 8.0, 30.0, 40.0));
        assert_eq!(pages("zswap:ratio=2", Some(&contents)), (true, 2.0, 30.0, 40.0));
        assert_eq!(pages("zswap:same-filled=90%", Some(&contents)), (true, 4.0, 90.0, 10.0));
        let given = "zswap:ratio=2,same-filled=1%,incompressible=2%";
        assert_eq!(pages(given, Some(&contents)), (false, 2.0, 1.0, 2.0));
        assert_eq!(pages("zswap", None), (false, 3.0, 0.0, 0.0));
        assert_eq!(pages("zram:incompressible=5%", None), (false, 3.0, 0.0, 5.0));
    }

    /// Pages of another ratio are other pages.
    #[test]
    fn codec_times_are_taken_with_the_sizes() {
        let mut sampled = SampledPages::default();
        sampled.add(PageContents::Other { lz4_bytes: 1024, zstd_bytes: 512 });
        let objects = vec![ObjectContents { name: "[heap]".into(), sampled }];
        let times = CodecTimes { lz4: CodecTime::new(2_000, 500), zstd: CodecTime::new(7_000, 900) };
        let contents = Contents { objects, codec_times: Some(times), ..Contents::default() };
        let older = Contents { codec_times: None, ..contents.clone() };
        let time = |text: &str, of: Option<&Contents>| text.parse::<TierSpec>().unwrap().codec_time(of);
        assert_eq!(time("zswap", Some(&contents)), Some(times.lz4));
        assert_eq!(time("zram:codec=zstd,same-filled=5%", Some(&contents)), Some(times.zstd));
        assert_eq!(time("zswap:ratio=2", Some(&contents)), None);
        assert_eq!((time("zram", Some(&older)), time("zram", None)), (None, None));
    }

    #[test]
    fn what_cannot_be_read_says_what_can() {
        let error = |text: &str| text.parse::<TierSpec>().unwrap_err().to_string();
        assert_eq!(error("zsmalloc"), "tiers 'zsmalloc': there are zswap and zram");
        for (text, part) in [
            ("zswap:", "there is no ''; there are codec, ratio"),
            ("zswap:colour=red", "there is no 'colour'; there are codec, ratio"),
            ("zswap:codec=lzo", "as in codec=lz4; there are lz4 and zstd"),
            ("zswap:ratio=0.5", "as in ratio=3, at least 1"),
            ("zswap:ratio=NaN", "as in ratio=3, at least 1"),
            ("zram:same-filled=10", "as in same-filled=10%"),
            ("zram:incompressible=101%", "from 0% to 100%"),
            ("zram:incompressible=60%,same-filled=41%", "more than 100%"),
            ("zram:ratio=2,codec=lz4,ratio=3", "ratio is there twice"),
            ("zram:accept=90%", "accept is for zswap"),
            ("zswap:accept=89.5%", "whole percent"),
            ("zswap:disksize=50%", "disksize is for zram"),
            ("zram:disksize=1GiB", "whole percent of memory, up to 1000"),
            ("zram:disksize=0%", "whole percent of memory, up to 1000"),
        ] {
            assert!(error(text).contains(part), "{}", error(text));
        }
    }
}
