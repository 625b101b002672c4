//! The least memory in which what is watched is hardly slower: in the whole watch, and in each part
//! of it.
//!
//! What is looked for is the least size from which on all sizes do. A part also needs the pages of
//! its largest epoch: in less memory there are faults within epochs, which nobody has seen.

use crate::{EnoughPages, FaultCost, FaultCurve, History, Hour, Part};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_results::bytes;

/// How many times as long a service may take, unless something else is asked for.
pub const SLOWDOWN: f64 = 1.05;

/// A watch shorter than this says little of what comes later.
const SHORT: Duration = Duration::from_secs(3600);
/// Services have days.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The need of a part of the watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartNeed {
    /// The part.
    pub part: Part,
    /// The least memory.
    pub memory_pages: u64,
}

/// The least memory for a slowdown.
#[derive(Clone, PartialEq, Debug)]
pub struct Needs {
    /// How many times as long as with all memory everything may take.
    pub factor: f64,
    /// What a fault costs.
    pub cost: FaultCost,
    /// Over the whole watch, in which busy parts may be slower and others faster.
    pub memory_pages: u64,
    /// For LRU over the whole watch: bounds that hold for any order within the epochs.
    pub lru: EnoughPages,
    /// By part of the watch, or by hour if hours are kept.
    pub parts: Vec<PartNeed>,
    /// When the first of the hours began, in seconds since 1970, if hours are kept. Parts count
    /// from there.
    pub began_unix_s: Option<u64>,
}

impl Needs {
    /// The needs for a slowdown, on a device.
    pub fn of(history: &History, curve: &FaultCurve, cost: &FaultCost, factor: f64) -> Self {
        let sizes = &curve.estimates.memory_pages;
        let least = |faults: &dyn Fn(&Vec<u64>) -> u64, allowed: f64| {
            sizes[enough(curve.kernel().iter().map(faults), allowed)]
        };
        let parts = curve.estimates.parts.iter().enumerate();
        let parts = parts.map(|(index, part)| PartNeed {
            part: *part,
            memory_pages: least(&|faults| faults[index], cost.allowed_faults(part.length(), factor))
                .max(part.largest_epoch_pages),
        });
        let parts: Vec<PartNeed> = parts.collect();
        let whole = cost.allowed_faults(curve.estimates.watched(), factor);
        let floor = history.largest_epoch_pages();
        Self {
            factor,
            cost: cost.clone(),
            memory_pages: least(&|faults| faults.iter().sum(), whole).max(floor),
            lru: history.enough(whole as u64),
            parts,
            began_unix_s: None,
        }
    }

    /// The same by hours that were kept, also of earlier watches. Without any, by parts.
    pub fn by_hours(self, hours: &[Hour]) -> Self {
        let Some(first) = hours.first() else { return self };
        let part = |hour: &Hour| {
            let start = Duration::from_secs(hour.start_unix_s.saturating_sub(first.start_unix_s));
            let length = Duration::from_nanos(hour.watched_ns);
            let allowed = self.cost.allowed_faults(length, self.factor);
            let enough = enough(hour.faults.iter().copied(), allowed);
            PartNeed {
                part: Part { start, end: start + length, largest_epoch_pages: hour.largest_epoch_pages },
                memory_pages: hour.memory_pages[enough].max(hour.largest_epoch_pages),
            }
        };
        let parts = hours.iter().map(part).collect();
        Self { parts, began_unix_s: Some(first.start_unix_s), ..self }
    }

    /// The part at the start of the watch.
    pub fn start(&self) -> PartNeed {
        self.parts[0]
    }

    /// The part with the greatest need; the first of several.
    pub fn peak(&self) -> PartNeed {
        let later = self.parts.iter().rev();
        *later.max_by_key(|part| part.memory_pages).expect("a watch has a part")
    }

    /// The need of the part in the middle, by need.
    pub fn median_pages(&self) -> u64 {
        let mut pages: Vec<u64> = self.parts.iter().map(|part| part.memory_pages).collect();
        pages.sort_unstable();
        pages[pages.len() / 2]
    }

    /// What the watch was too short for, if it was.
    pub fn shortness(&self) -> Option<String> {
        // Hours that were kept have gaps between them.
        let watched = self.parts.iter().map(|part| part.part.length()).sum::<Duration>();
        let tip = "--for 24h sees a day";
        match watched {
            _ if watched < SHORT => Some(format!(
                "The watch was short ({}). Another load may need more: {tip}.",
                clock_time(watched)
            )),
            _ if watched < DAY => {
                Some(format!("The watch was shorter than a day, which may have peaks: {tip}."))
            }
            _ => None,
        }
    }

    /// What a fault takes where there are as many as are allowed.
    fn fault_seconds(&self) -> f64 {
        self.cost.seconds_at(self.cost.allowed_faults(Duration::from_secs(1), self.factor))
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let ns = |time: Duration| time.as_nanos() as u64;
        let part = |of: &PartNeed| {
            json!({
                "start_ns": ns(of.part.start),
                "end_ns": ns(of.part.end),
                "memory_pages": of.memory_pages,
                "largest_epoch_pages": of.part.largest_epoch_pages,
            })
        };
        json!({
            "slowdown": self.factor,
            "device": self.cost.device,
            "fault_seconds": self.fault_seconds(),
            "memory_pages": self.memory_pages,
            "lru_at_least_pages": self.lru.at_least,
            "lru_at_most_pages": self.lru.at_most,
            "start_pages": self.start().memory_pages,
            "median_pages": self.median_pages(),
            "peak": part(&self.peak()),
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
            "shortness": self.shortness(),
            "began_unix_s": self.began_unix_s,
        })
    }
}

/// The index of the first of some sizes from which on no more faults are taken than allowed. If
/// there is none, that of the last size.
fn enough(mut faults: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator, allowed: f64) -> usize {
    let last = faults.len() - 1;
    faults.rposition(|faults| faults as f64 > allowed).map_or(0, |short| short + 1).min(last)
}

/// A time from the start of the watch: `90 s`, `14:05` (hours and minutes).
fn clock_time(time: Duration) -> String {
    match time.as_secs() {
        seconds if time < SHORT => format!("{} s", seconds.max(1)),
        seconds => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |pages: u64| bytes(pages * PAGE_BYTES);
        writeln!(
            f,
            "A fault on {} takes {:.0} us. Slowdowns are upper bounds of what CLOCK's faults cost: \
             processes that fault side by side wait side by side.",
            self.cost.device,
            1e6 * self.fault_seconds()
        )?;
        write!(
            f,
            "Within {} times the time with all memory: {} over the whole watch",
            self.factor,
            size(self.memory_pages)
        )?;
        writeln!(
            f,
            " (LRU, whatever the order within epochs: {} at least, {} at most).",
            size(self.lru.at_least),
            size(self.lru.at_most)
        )?;
        let peak = self.peak();
        write!(
            f,
            "It varies: {} at the start, {} in the median of {} {}, {} in the peak, from {} to {} of the watch.",
            size(self.start().memory_pages),
            size(self.median_pages()),
            self.parts.len(),
            if self.began_unix_s.is_some() { "hours" } else { "parts" },
            size(peak.memory_pages),
            clock_time(peak.part.start),
            clock_time(peak.part.end)
        )?;
        if let Some(began) = self.began_unix_s {
            let minutes = (began + peak.part.start.as_secs()) / 60;
            write!(f, " The peak began at {}:{:02} UTC.", minutes / 60 % 24, minutes % 60)?;
        }
        if peak.memory_pages == peak.part.largest_epoch_pages {
            write!(
                f,
                "\nThe peak is all that was used in one epoch. Less may be enough: a shorter --every tells."
            )?;
        }
        self.shortness().map_or(Ok(()), |short| write!(f, "\n{short}"))
    }
}
