//! How well pages compress in a simulation of tiers, and how that is known.

use crate::grouped;
use serde::Serialize;
use std::fmt;
use sweephand_sim::{Compressibility, TierSpec};
use sweephand_trace::contents::Contents;

/// How well the pages of a trace compress in a simulation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TracePages {
    /// The codec whose sizes were recorded. `None`: nothing that was recorded is taken.
    pub codec: Option<&'static str>,
    /// Pages that were sampled in the recording, without those of files.
    pub sampled_pages: u64,
    /// Moments at which they were.
    pub moments: u64,
    /// What was given and not recorded: `ratio`, `same-filled`, `incompressible`.
    pub given: Vec<&'static str>,
    /// Bytes of a page by bytes of a compressed one, of the pages that compress.
    pub ratio: f64,
    /// Pages all of whose words are equal, in percent.
    pub same_filled_percent: f64,
    /// Pages that do not compress, in percent.
    pub incompressible_percent: f64,
    /// The pages whose time compression takes, if seconds are predicted.
    pub codec_times: Option<TimedPages>,
}

/// The pages for which codecs were timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimedPages {
    /// The program's own.
    Program,
    /// Those by which the device was measured.
    Test,
}

impl TracePages {
    /// Those below a trace with these contents.
    pub fn of(spec: &TierSpec, contents: Option<&Contents>) -> Self {
        let Compressibility { ratio, same_filled_percent, incompressible_percent, .. } =
            spec.compressibility(contents);
        let recorded = contents.filter(|_| spec.recorded(contents).is_some());
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        Self {
            codec: recorded.map(|_| spec.codec.name()),
            sampled_pages: recorded.map_or(0, |contents| contents.swappable().pages),
            moments: recorded.map_or(0, |contents| contents.moments),
            given: spec.given(),
            ratio: rounded(ratio),
            same_filled_percent: rounded(same_filled_percent),
            incompressible_percent: rounded(incompressible_percent),
            codec_times: None,
        }
    }

    /// The same where seconds are predicted, with the codec times of the program's own pages or not.
    pub fn timed(self, are_of_program: bool) -> Self {
        let timed = if are_of_program { TimedPages::Program } else { TimedPages::Test };
        Self { codec_times: Some(timed), ..self }
    }

    /// Whether it rests on a recording.
    pub fn is_recorded(&self) -> bool {
        self.codec.is_some()
    }
}

/// After "compressibility".
impl fmt::Display for TracePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codec, given, ratio, same_filled_percent, incompressible_percent, .. } = self;
        match codec {
            Some(codec) => {
                let (pages, moments) = (grouped(self.sampled_pages), self.moments);
                write!(f, "recorded ({codec}, {pages} pages at {moments} moments)")?;
            }
            None => f.write_str("assumed")?,
        }
        if !given.is_empty() {
            write!(f, ", but {} as given", given.join(" and "))?;
        }
        write!(
            f,
            ": {ratio:.2}:1, {same_filled_percent:.0}% same-filled, {incompressible_percent:.0}% incompressible"
        )?;
        match self.codec_times {
            None => Ok(()),
            Some(TimedPages::Program) => f.write_str(", codec times of the program's pages"),
            Some(TimedPages::Test) => f.write_str(", codec times of test pages"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_trace::contents::{ObjectContents, PageContents, SampledPages};

    #[test]
    fn it_is_said_where_the_numbers_come_from() {
        let mut sampled = SampledPages::default();
        sampled.add(PageContents::Zero);
        sampled.add(PageContents::Other { lz4_bytes: 1024, zstd_bytes: 512 });
        let objects = vec![ObjectContents { name: "[heap]".into(), sampled }];
        let contents = Contents { moments: 40, objects, ..Contents::default() };
        let pages = |text: &str, contents| TracePages::of(&text.parse().unwrap(), contents);
        let said = |text: &str, contents| pages(text, contents).to_string();
        assert_eq!(
            said("zswap", Some(&contents)),
            "recorded (lz4, 2 pages at 40 moments): 4.00:1, 50% same-filled, 0% incompressible"
        );
        assert_eq!(
            said("zswap:codec=zstd,ratio=2,incompressible=5%", Some(&contents)),
            "recorded (zstd, 2 pages at 40 moments), but ratio and incompressible as given: 2.00:1, \
             50% same-filled, 5% incompressible"
        );
        assert_eq!(said("zram", None), "assumed: 3.00:1, 0% same-filled, 0% incompressible");
        assert!(pages("zram", Some(&contents)).is_recorded() && !pages("zram", None).is_recorded());
    }

    #[test]
    fn it_is_said_whose_times_compression_takes() {
        let pages = TracePages::of(&"zram".parse().unwrap(), None);
        let assumed = "assumed: 3.00:1, 0% same-filled, 0% incompressible";
        for (are_of_program, whose) in [(true, "the program's pages"), (false, "test pages")] {
            let said = pages.clone().timed(are_of_program).to_string();
            assert_eq!(said, format!("{assumed}, codec times of {whose}"));
        }
    }
}
