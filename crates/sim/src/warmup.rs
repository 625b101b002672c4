//! Warm-up: the first part of a trace fills memory, and counting begins behind it.

use crate::Outcome;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use sweephand_trace::{Error, Event, Trace, VirtualTime};

/// How long the warm-up is: `100000` references, `20%` of those of a trace, or `90min` of the time
/// that it has from its log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Warmup {
    /// References of the program.
    References(u64),
    /// A share of its references, in percent.
    Percent(f64),
    /// Time by the clock of the trace's source.
    Time(Span),
}

/// A length of time as users write it: `500ms`, `90s`, `15min`, `2h`, `1d`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its milliseconds.
    pub milliseconds: u64,
}

/// Units of time, with their milliseconds. The longest name of those that end alike comes first.
const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("min", 60_000), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let small = text.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find_map(|(name, unit)| Some((small.strip_suffix(name)?, *unit)));
        let (digits, unit) = unit.ok_or("write a time as in 90s, 15min, 2h or 1d")?;
        let number: f64 = digits.trim().parse().map_err(|_| "write a time as in 90s, 15min, 2h or 1d")?;
        let milliseconds = (number * unit as f64).round();
        if !(0.0..9e15).contains(&milliseconds) {
            return Err("a time is from 0 up, and below 100 million days");
        }
        Ok(Self { milliseconds: milliseconds as u64 })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.milliseconds {
            thousands if thousands % 1000 == 0 => write!(f, "{}s", thousands / 1000),
            milliseconds => write!(f, "{milliseconds}ms"),
        }
    }
}

/// Why there is no such warm-up.
#[derive(Debug, thiserror::Error)]
pub enum WarmupError {
    /// Words that are no warm-up.
    #[error("warm-up '{text}': {reason}")]
    Words {
        /// The words.
        text: String,
        /// What is wrong, and what would be right.
        reason: &'static str,
    },
    /// The whole trace is warm-up.
    #[error("{}: a warm-up of {warmup} leaves nothing to count: there are {references} references", path.display())]
    NothingLeft {
        /// The trace.
        path: PathBuf,
        /// The warm-up that was asked for.
        warmup: Warmup,
        /// References of the trace.
        references: u64,
    },
    /// The trace ends before.
    #[error("{}: a warm-up of {warmup} leaves nothing to count: its times span {span}", path.display())]
    NoTimeLeft {
        /// The trace.
        path: PathBuf,
        /// The warm-up that was asked for.
        warmup: Warmup,
        /// The time from its first to its last reference.
        span: Span,
    },
    /// The trace does not say when.
    #[error(
        "{}: a warm-up of {warmup}: the trace has no times; give references or a share, or import the log again with its \
         column of times",
        path.display()
    )]
    NoTimes {
        /// The trace.
        path: PathBuf,
        /// The warm-up that was asked for.
        warmup: Warmup,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] Error),
}

/// Where counting begins in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountingStart {
    /// Records of the trace before it.
    pub records: u64,
    /// References of the program before it.
    pub references: u64,
    /// Instructions before it, where known. Between two marks they are spread evenly.
    pub instructions: Option<u64>,
}

impl FromStr for Warmup {
    type Err = WarmupError;

    fn from_str(text: &str) -> Result<Self, WarmupError> {
        let error = |reason| WarmupError::Words { text: text.to_string(), reason };
        let text = text.trim();
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| error("write a share as in 20%"))?;
            if !(0.0..100.0).contains(&percent) {
                return Err(error("a share is from 0% up, and below 100%"));
            }
            return Ok(Self::Percent(percent));
        }
        if let Ok(references) = text.parse() {
            return Ok(Self::References(references));
        }
        match text.parse() {
            Ok(span) => Ok(Self::Time(span)),
            Err(reason) if text.ends_with(|last: char| "smhd".contains(last)) => Err(error(reason)),
            Err(_) => {
                Err(error("write references as in 100000, a share of them as in 20%, or a time as in 90min"))
            }
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::References(references) => references.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Time(span) => span.fmt(f),
        }
    }
}

impl Warmup {
    /// Where counting begins in a trace: at the first record before which there are that many
    /// references, or that comes so long after the first one.
    ///
    /// # Errors
    /// That is behind the trace's last record, or the trace cannot be read.
    pub fn end(self, trace: &Trace) -> Result<CountingStart, WarmupError> {
        let time = VirtualTime::of(trace)?;
        let least = match self {
            Self::References(references) => references,
            Self::Percent(percent) => (percent * time.total() as f64 / 100.0).round() as u64,
            Self::Time(span) => return self.end_by_clock(span, trace, &time),
        };
        let all = trace.header().totals.records;
        let records = first_record_after(least, &time, all);
        if records == all || time.before(records) < least {
            let (path, references) = (trace.name().to_owned(), time.total());
            return Err(WarmupError::NothingLeft { path, warmup: self, references });
        }
        CountingStart::at(records, trace, &time)
    }

    fn end_by_clock(
        self,
        span: Span,
        trace: &Trace,
        time: &VirtualTime,
    ) -> Result<CountingStart, WarmupError> {
        let path = || trace.name().to_owned();
        let Some(times) = trace.header().metadata.times else {
            return Err(WarmupError::NoTimes { path: path(), warmup: self });
        };
        let start = i128::from(times.first_ms) + i128::from(span.milliseconds);
        let mut first = None;
        trace.for_each_time(&mut |record, time| {
            if i128::from(time) >= start {
                first.get_or_insert(record);
            }
        })?;
        let first = first.ok_or_else(|| {
            let milliseconds = times.last_ms.abs_diff(times.first_ms);
            WarmupError::NoTimeLeft { path: path(), warmup: self, span: Span { milliseconds } }
        })?;
        CountingStart::at(first, trace, time)
    }
}

/// The first record with at least `references` references before it; `all_records`, the number of
/// records, if there is none.
pub(crate) fn first_record_after(references: u64, time: &VirtualTime, all_records: u64) -> u64 {
    let (mut record, mut behind) = (0, all_records);
    while record < behind {
        let middle = record + (behind - record) / 2;
        if time.before(middle) < references { record = middle + 1 } else { behind = middle }
    }
    record
}

impl CountingStart {
    fn at(records: u64, trace: &Trace, time: &VirtualTime) -> Result<Self, WarmupError> {
        let instructions = instructions_before(trace, records)?;
        Ok(Self { records, references: time.before(records), instructions })
    }
}

/// Instructions before a record, where the trace has any.
fn instructions_before(trace: &Trace, record: u64) -> Result<Option<u64>, Error> {
    let totals = &trace.header().totals;
    let Some(all) = totals.instructions else { return Ok(None) };
    if record == 0 {
        return Ok(Some(0));
    }
    // The last mark at or before the record, and the first behind it.
    let (mut before, mut behind, mut now) = ((0, 0), None, 0u64);
    trace.for_each_event(&mut |at, event| {
        if let Event::Mark { instructions, .. } = event {
            now = now.saturating_add(*instructions);
            if at <= record {
                before = (at, now);
            } else {
                behind.get_or_insert((at, now));
            }
        }
    })?;
    let (to, high) = behind.unwrap_or((totals.records, all.max(before.1)));
    let (from, low) = before;
    let passed = u128::from(high - low) * u128::from(record - from) / u128::from((to - from).max(1));
    Ok(Some(low + passed as u64))
}

impl Outcome {
    /// What was counted since a moment, given the counts at that moment. The state of the policy,
    /// refault distances and predicted times are not differences: they stay those of the whole
    /// trace.
    #[must_use]
    pub fn since(&self, before: &Outcome) -> Outcome {
        Outcome {
            records: self.records - before.records,
            faults: self.faults - before.faults,
            first_touch_faults: self.first_touch_faults - before.first_touch_faults,
            warmup_faults: self.warmup_faults - before.warmup_faults,
            evictions: self.evictions - before.evictions,
            hand_steps: self.hand_steps - before.hand_steps,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Sweep};
    use std::io::Cursor;
    use sweephand_policy::SplitMix64;
    use sweephand_policy::registry::Spec;
    use sweephand_trace::{EndTotals, Metadata, Writer};

    /// A trace that `fill` writes: pages, marks, and pages unmapped.
    fn trace(window: u64, fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>) -> EndTotals) -> Trace {
        let metadata = Metadata { window, ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        let end = fill(&mut writer);
        Trace::from_bytes(writer.finish(end).unwrap().0.into_inner()).unwrap()
    }

    fn counts(outcome: &Outcome) -> [u64; 5] {
        let Outcome { records, faults, first_touch_faults, warmup_faults, evictions, .. } = *outcome;
        [records, faults, first_touch_faults, warmup_faults, evictions]
    }

    #[test]
    fn warmup_words_parse_as_references_share_or_time() {
        for (text, expected) in [
            ("0", Warmup::References(0)),
            (" 100000", Warmup::References(100_000)),
            ("20%", Warmup::Percent(20.0)),
            ("0.5 %", Warmup::Percent(0.5)),
            ("90s", Warmup::Time(Span { milliseconds: 90_000 })),
            ("1.5 min", Warmup::Time(Span { milliseconds: 90_000 })),
            ("2H", Warmup::Time(Span { milliseconds: 7_200_000 })),
            ("1d", Warmup::Time(Span { milliseconds: 86_400_000 })),
            ("250ms", Warmup::Time(Span { milliseconds: 250 })),
        ] {
            let warmup: Warmup = text.parse().unwrap();
            assert_eq!(warmup, expected, "{text}");
            assert_eq!(warmup.to_string().parse::<Warmup>().unwrap(), expected, "{text}");
        }
        for text in [
            "", "-1", "1.5", "100%", "-1%", "NaN%", "inf%", "x%", "1e3", "300p", "1MiB", "-1s", "xs", "s",
            "1e300d", "NaNh",
        ] {
            let error = text.parse::<Warmup>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("warm-up '{text}': ")), "{error}");
        }
    }

    #[test]
    fn counting_begins_at_a_reference_and_never_behind_the_last() {
        let all = trace(0, |writer| {
            (0..10).for_each(|page| writer.reference(page % 3, false).unwrap());
            EndTotals::default()
        });
        let records = |text: &str| text.parse::<Warmup>().unwrap().end(&all).map(|start| start.records);
        assert_eq!(records("0").unwrap(), 0);
        assert_eq!(records("9").unwrap(), 9);
        assert_eq!(records("25%").unwrap(), 3);
        for text in ["10", "11", "96%"] {
            let error = records(text).unwrap_err().to_string();
            assert!(error.ends_with("leaves nothing to count: there are 10 references"), "{text}: {error}");
        }
        // Of a trace that does not have every reference, the program's count.
        let reduced = trace(1, |writer| {
            for references in [20, 30] {
                (0..2).for_each(|page| writer.reference(page, false).unwrap());
                writer.mark(1_000, references).unwrap();
            }
            EndTotals::default()
        });
        let start = Warmup::References(15).end(&reduced).unwrap();
        assert_eq!(start, CountingStart { records: 2, references: 20, instructions: Some(1_000) });
        let start = Warmup::Percent(60.0).end(&reduced).unwrap();
        assert_eq!(start, CountingStart { records: 3, references: 35, instructions: Some(1_500) });
    }

    #[test]
    fn time_begins_with_the_first_reference() {
        let timed = trace(0, |writer| {
            for (page, time) in
                [(1, 5_000), (2, 5_000), (3, 5_500), (1, 5_999), (2, 6_000), (1, 9_000), (2, 9_000)]
            {
                writer.time(time);
                writer.reference(page, false).unwrap();
            }
            EndTotals::default()
        });
        let records = |text: &str| text.parse::<Warmup>().unwrap().end(&timed).map(|start| start.records);
        for (text, expected) in [("0s", 0), ("1ms", 2), ("500ms", 2), ("501ms", 3), ("1s", 4), ("4s", 5)] {
            assert_eq!(records(text).unwrap(), expected, "{text}");
        }
        let error = records("4001ms").unwrap_err().to_string();
        assert!(error.ends_with("a warm-up of 4001ms leaves nothing to count: its times span 4s"), "{error}");
        let plain = trace(0, |writer| {
            writer.reference(1, false).unwrap();
            EndTotals::default()
        });
        let error = "1s".parse::<Warmup>().unwrap().end(&plain).unwrap_err().to_string();
        assert!(error.contains("a warm-up of 1s: the trace has no times; give references"), "{error}");
    }

    /// What is counted behind each cut is what the whole has more than the trace that ends there,
    /// under policies that take all sizes in one pass and under others, and with dropped contents.
    #[test]
    fn counts_after_warmup_are_the_whole_less_the_beginning() {
        let mut random = SplitMix64::new(7);
        let mut step = || {
            let most = 2 << random.below(6);
            (random.below(most), random.below(50) == 0)
        };
        let steps: Vec<(u64, bool)> = (0..3_000).map(|_| step()).collect();
        let of = |steps: &[(u64, bool)]| {
            trace(0, |writer| {
                for (page, unmaps) in steps {
                    writer.reference(*page, false).unwrap();
                    if *unmaps {
                        writer.unmap(*page / 2, 1).unwrap();
                    }
                }
                EndTotals::default()
            })
        };
        let cells: Vec<Cell> = Spec::parse_list("lru,mru,opt,clock,clock-pro,lirs,arc")
            .unwrap()
            .into_iter()
            .flat_map(|spec| [1, 5, 20, 40, 63].map(|frames| Cell { spec: spec.clone(), frames }))
            .collect();
        let cuts = vec![1, 700, 701, 2_999];
        let whole = of(&steps);
        let cut = Sweep { cells: cells.clone(), cuts: cuts.clone(), ..Sweep::default() };
        let cut = cut.run(&whole, &|_| {}).unwrap();
        let plain = Sweep { cells: cells.clone(), ..Sweep::default() }.run(&whole, &|_| {}).unwrap();
        for (number, end) in cuts.iter().enumerate() {
            // OPT knows the future: its beginning is not that of a shorter trace.
            let beginning = of(&steps[..*end as usize]);
            let beginning =
                Sweep { cells: cells.clone(), ..Sweep::default() }.run(&beginning, &|_| {}).unwrap();
            for (((outcome, series), (before, _)), cell) in cut.iter().zip(&beginning).zip(&cells) {
                let at = &series.at_cuts[number];
                assert_eq!(at.records, *end);
                if cell.spec.name() != "opt" {
                    assert_eq!(counts(at), counts(before), "{} {}", cell.spec, cell.frames);
                }
                let rest = outcome.since(at);
                assert_eq!(rest.records, 3_000 - end);
                assert!(rest.warmup_faults + rest.evictions == rest.faults);
            }
        }
        for ((outcome, _), (plain, _)) in cut.iter().zip(&plain) {
            assert_eq!(counts(outcome), counts(plain));
        }
    }
}
