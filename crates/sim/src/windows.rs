//! Windows of a trace, for series over time.

use crate::warmup::{Span, first_record_after};
use std::path::PathBuf;
use std::str::FromStr;
use sweephand_trace::{Error, Event, Trace, VirtualTime};

/// How long windows are: `100` windows of as many references each, or `1h` of the time that the
/// trace has from its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Windows {
    /// This many, of as many references each.
    Number(u64),
    /// Each of that time.
    Each(Span),
}

/// Most windows of a trace.
pub const MOST_WINDOWS: u64 = 100_000;

/// Why there are no such windows.
#[derive(Debug, thiserror::Error)]
pub enum WindowsError {
    /// Words that are no windows.
    #[error("windows '{text}': {reason}")]
    Words {
        /// The words.
        text: String,
        /// What is wrong, and what would be right.
        reason: &'static str,
    },
    /// The trace does not say when.
    #[error(
        "{}: has no times; give a number of windows, or import the log again with its column of times",
        .0.display()
    )]
    NoTimes(PathBuf),
    /// There would be too many.
    #[error("{}: has more than {MOST_WINDOWS} such windows; give longer ones", .0.display())]
    TooMany(PathBuf),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] Error),
}

/// Where a window begins. It ends where the next one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowStart {
    /// Its number, from 1. A window of time without references has none here.
    pub number: u64,
    /// Records of the trace before it.
    pub record: u64,
    /// References of the program before it.
    pub references: u64,
    /// Milliseconds from the first reference of the trace to the beginning of the window; of
    /// windows of as many references, to its first reference. `None` if the trace has no times.
    pub start_ms: Option<u64>,
    /// Instructions of the program before it: right at the trace's marks, an estimate between.
    /// `None` if the trace does not count them.
    pub instructions: Option<u64>,
}

impl FromStr for Windows {
    type Err = WindowsError;

    fn from_str(text: &str) -> Result<Self, WindowsError> {
        let error = |reason| WindowsError::Words { text: text.to_string(), reason };
        if let Ok(number) = text.trim().parse() {
            return match number {
                1..=MOST_WINDOWS => Ok(Self::Number(number)),
                _ => Err(error("from 1 to 100000 windows")),
            };
        }
        match text.parse::<Span>() {
            Ok(Span { milliseconds: 0 }) => Err(error("a window takes time")),
            Ok(span) => Ok(Self::Each(span)),
            Err(_) => {
                Err(error("write a number of windows as in 100, or their length as in 90s, 15min or 1h"))
            }
        }
    }
}

impl Windows {
    /// The windows of a trace, in order. Each has a reference at least.
    ///
    /// # Errors
    /// The trace has no times, too many windows, or cannot be read.
    pub fn of(self, trace: &Trace) -> Result<Vec<WindowStart>, WindowsError> {
        let time = VirtualTime::of(trace)?;
        let records = trace.header().totals.records;
        let path = || trace.name().to_owned();
        match self {
            Self::Number(number) => {
                let mut windows: Vec<WindowStart> = Vec::new();
                // No more windows than there are records.
                let number = number.min(records);
                for window in 0..number {
                    let least = (u128::from(time.total()) * u128::from(window) / u128::from(number)) as u64;
                    let record = first_record_after(least, &time, records);
                    let is_new = windows.last().is_none_or(|last| last.record < record);
                    if is_new && record < records {
                        let references = time.before(record);
                        let (start_ms, instructions) = (None, None);
                        let number = window + 1;
                        windows.push(WindowStart { number, record, references, start_ms, instructions });
                    }
                }
                add_times(trace, &mut windows)?;
                add_instructions(trace, &mut windows)?;
                Ok(windows)
            }
            Self::Each(Span { milliseconds }) => {
                let times = trace.header().metadata.times.ok_or_else(|| WindowsError::NoTimes(path()))?;
                if times.last_ms.abs_diff(times.first_ms) / milliseconds >= MOST_WINDOWS {
                    return Err(WindowsError::TooMany(path()));
                }
                let mut windows: Vec<WindowStart> = Vec::new();
                trace.for_each_time(&mut |record, now| {
                    let window = now.abs_diff(times.first_ms) / milliseconds;
                    if windows.last().is_none_or(|last| last.number <= window) {
                        let (references, start_ms) = (time.before(record), Some(window * milliseconds));
                        let (number, instructions) = (window + 1, None);
                        windows.push(WindowStart { number, record, references, start_ms, instructions });
                    }
                })?;
                add_instructions(trace, &mut windows)?;
                Ok(windows)
            }
        }
    }
}

/// Adds how many instructions come before each window, if the trace counts them.
fn add_instructions(trace: &Trace, windows: &mut [WindowStart]) -> Result<(), Error> {
    let totals = &trace.header().totals;
    let Some(all) = totals.instructions else { return Ok(()) };
    let mut next = 0;
    let mut last = (0, 0);
    let mut pass = |mark: (u64, u64)| {
        let (from, to) = (last, mark);
        while let Some(window) = windows.get_mut(next).filter(|window| window.record < to.0) {
            let share = (window.record - from.0) as f64 / (to.0 - from.0) as f64;
            window.instructions = Some(from.1 + (share * (to.1 - from.1) as f64) as u64);
            next += 1;
        }
        last = mark;
    };
    let mut marked = 0u64;
    trace.for_each_event(&mut |record, event| {
        if let Event::Mark { instructions, .. } = event {
            marked = marked.saturating_add(*instructions).min(all);
            pass((record, marked));
        }
    })?;
    pass((totals.records, all));
    Ok(())
}

/// Adds when windows begin, if the trace says so.
fn add_times(trace: &Trace, windows: &mut [WindowStart]) -> Result<(), Error> {
    let Some(times) = trace.header().metadata.times else { return Ok(()) };
    let mut next = 0;
    let mut before = 0;
    trace.for_each_time(&mut |record, now| {
        while let Some(window) = windows.get_mut(next).filter(|window| window.record < record) {
            window.start_ms = Some(before);
            next += 1;
        }
        before = now.abs_diff(times.first_ms);
    })?;
    windows.iter_mut().skip(next).for_each(|window| window.start_ms = Some(before));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_trace::{EndTotals, Metadata, Writer};

    fn trace(times: &[Option<i64>]) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        for time in times {
            time.iter().for_each(|time| writer.time(*time));
            writer.reference(1, false).unwrap();
        }
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    #[test]
    fn instructions_are_counted_at_marks_and_spread_between_them() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        for page in 0..8 {
            writer.reference(page, false).unwrap();
            if page == 3 {
                writer.mark(1000, 4).unwrap();
            }
        }
        let end = EndTotals { instructions: Some(3000), ..EndTotals::default() };
        let trace = Trace::from_bytes(writer.finish(end).unwrap().0.into_inner()).unwrap();
        let windows = Windows::Number(4).of(&trace).unwrap();
        let found: Vec<_> = windows.iter().map(|window| window.instructions.unwrap()).collect();
        assert_eq!(found, [0, 500, 1000, 2000]);
    }

    fn starts(trace: &Trace, windows: &str) -> Vec<(u64, u64, Option<u64>)> {
        let windows = windows.parse::<Windows>().unwrap().of(trace).unwrap();
        windows.iter().map(|window| (window.number, window.record, window.start_ms)).collect()
    }

    #[test]
    fn windows_are_of_references_or_of_time() {
        let timed = trace(&[Some(500), Some(500), Some(999), Some(1_500), None, Some(4_700), Some(4_800)]);
        assert_eq!(starts(&timed, "1s"), [(1, 0, Some(0)), (2, 3, Some(1_000)), (5, 5, Some(4_000))]);
        assert_eq!(starts(&timed, "3"), [(1, 0, Some(0)), (2, 2, Some(499)), (3, 4, Some(1_000))]);
        let plain = trace(&[None; 5]);
        assert_eq!(starts(&plain, "2"), [(1, 0, None), (2, 2, None)]);
        // No more windows than references.
        assert_eq!(starts(&plain, "100000").len(), 5);
        let error = "1s".parse::<Windows>().unwrap().of(&plain).unwrap_err().to_string();
        assert!(error.contains("has no times; give a number of windows"), "{error}");
        let error = "1ms".parse::<Windows>().unwrap().of(&trace(&[Some(0), Some(100_000)])).unwrap_err();
        assert!(error.to_string().contains("has more than 100000 such windows"), "{error}");
    }

    #[test]
    fn words_that_are_no_windows_are_refused() {
        for text in ["0", "100001", "0s", "x", "10%", "-1"] {
            let error = text.parse::<Windows>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("windows '{text}': ")), "{text}: {error}");
        }
    }
}
