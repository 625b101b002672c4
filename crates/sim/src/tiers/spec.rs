//! Tiers as users write them.

use super::compressed_sizes::Compressibility;
use super::kind::TierKind;
use std::fmt;
use std::str::FromStr;

/// Largest size of zram, in percent of memory.
const MOST_DISKSIZE_PERCENT: u32 = 1000;

/// A kind of pool, and how well pages compress: `zram`, or
/// `zswap:ratio=2.5,same-filled=10%,accept=90%`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TierSpec {
    /// What keeps compressed pages.
    pub kind: TierKind,
    /// How well they compress.
    pub compressibility: Compressibility,
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
    fn read(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let kind = match name {
            "zswap" => TierKind::Zswap { accept_percent: 100 },
            "zram" => TierKind::Zram { disksize_percent: None },
            _ => return Err("there are zswap and zram".into()),
        };
        let mut spec = Self { kind, compressibility: Compressibility::default() };
        for setting in settings.split(',').filter(|_| text.contains(':')) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            spec.set(name, value)?;
        }
        let Compressibility { same_filled_percent, incompressible_percent, .. } = spec.compressibility;
        if same_filled_percent + incompressible_percent > 100.0 {
            return Err("same-filled and incompressible come to more than 100%".into());
        }
        Ok(spec)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let pages = &mut self.compressibility;
        match (name, &mut self.kind) {
            ("ratio", _) => {
                let ratio = value.parse().ok().filter(|ratio: &f64| ratio.is_finite() && *ratio >= 1.0);
                pages.ratio = ratio.ok_or("write the ratio as in ratio=3, at least 1")?;
            }
            ("same-filled", _) => pages.same_filled_percent = percent(name, value)?,
            ("incompressible", _) => pages.incompressible_percent = percent(name, value)?,
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
                    "there is no '{name}'; there are ratio, same-filled, incompressible, for zswap accept, and for \
                     zram disksize"
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

/// With all of its settings.
impl fmt::Display for TierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compressibility { ratio, same_filled_percent, incompressible_percent } = self.compressibility;
        let name = match self.kind {
            TierKind::Zswap { .. } => "zswap",
            TierKind::Zram { .. } => "zram",
        };
        write!(
            f,
            "{name}:ratio={ratio},same-filled={same_filled_percent}%,incompressible={incompressible_percent}%"
        )?;
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

    #[test]
    fn tiers_are_read_and_written_with_all_settings() {
        let all = |text: &str| text.parse::<TierSpec>().unwrap().to_string();
        assert_eq!(all("zram"), "zram:ratio=3,same-filled=0%,incompressible=0%");
        assert_eq!(
            all("zswap:ratio=2.5,same-filled=10%,accept=90%"),
            "zswap:ratio=2.5,same-filled=10%,incompressible=0%,accept=90%"
        );
        assert_eq!(all("zram:disksize=50%"), "zram:ratio=3,same-filled=0%,incompressible=0%,disksize=50%");
        assert_eq!(all(&all("zswap:incompressible=12.5%")), all("zswap:incompressible=12.5%"));
    }

    #[test]
    fn what_cannot_be_read_says_what_can() {
        let error = |text: &str| text.parse::<TierSpec>().unwrap_err().to_string();
        assert_eq!(error("zsmalloc"), "tiers 'zsmalloc': there are zswap and zram");
        for (text, part) in [
            ("zswap:", "there is no ''; there are ratio"),
            ("zswap:colour=red", "there is no 'colour'; there are ratio"),
            ("zswap:ratio=0.5", "as in ratio=3, at least 1"),
            ("zswap:ratio=NaN", "as in ratio=3, at least 1"),
            ("zram:same-filled=10", "as in same-filled=10%"),
            ("zram:incompressible=101%", "from 0% to 100%"),
            ("zram:incompressible=60%,same-filled=41%", "more than 100%"),
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
