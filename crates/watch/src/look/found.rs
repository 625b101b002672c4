//! What a look finds.

use std::ops::Range;
use std::time::Duration;

/// What a look has found.
#[derive(Debug)]
pub enum Seen {
    /// The pages used since the look before.
    Look(Look),
    /// The process has become another program. The next look begins anew.
    NewProgram,
    /// The process has ended.
    Ended,
}

/// The pages used in an epoch.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Pages of the sample that were used since the look before, ascending. In the first look:
    /// since their bits were last cleared, whenever that was.
    pub pages: Vec<UsedPage>,
    /// One page in this many is in the sample.
    pub one_page_in: u64,
    /// Pages in memory.
    pub resident_pages: u64,
    /// Those of them that are in the sample.
    pub sampled_pages: u64,
    /// The standard error of [`used_pages`](Self::used_pages). 0: all pages were looked at.
    pub used_pages_error: f64,
    /// Those of them whose dirty bit is set.
    pub dirty_pages: u64,
    /// Pages that became dirty since the look before: written to for the first time since they
    /// came into memory.
    pub newly_dirty_pages: u64,
    /// Pages of the sample of which it is not known whether they were used.
    pub unknown_pages: u64,
    /// Pages that some look has reported and whose contents are gone.
    pub dropped: Vec<Range<u64>>,
    /// Calls of the program that reads the page table.
    pub calls: u64,
    /// Processor time of this look.
    pub processor_time: Duration,
    /// Pages whose bits were cleared.
    pub cleared_pages: u64,
    /// The ranges in which they were cleared.
    pub cleared_ranges: u64,
    /// Processors that have run the process since the look before, on average.
    pub running: f64,
}

impl Look {
    /// How many pages there are for each page of the sample.
    pub fn weight(&self) -> f64 {
        match self.one_page_in {
            1 => 1.0,
            _ if self.sampled_pages == 0 => self.one_page_in as f64,
            _ => self.resident_pages as f64 / self.sampled_pages as f64,
        }
    }

    /// How many pages of the process this many pages of the sample stand for.
    pub fn of_all(&self, sampled: u64) -> u64 {
        (sampled as f64 * self.weight()).round() as u64
    }

    /// Pages used since the look before: an estimate, if not all were looked at.
    pub fn used_pages(&self) -> u64 {
        self.of_all(self.pages.len() as u64)
    }
}

/// A page that was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedPage {
    /// Its number: address / page size.
    pub number: u64,
    /// Whether its dirty bit is set.
    pub dirty: bool,
}
