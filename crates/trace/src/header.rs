//! The header of a trace: where the trace comes from ([`Metadata`]) and what it contains
//! ([`Totals`]).

use crate::contents::Contents;
use crate::places::Places;
use crate::tenants::Tenants;
use serde::{Deserialize, Serialize};

/// Everything known about a trace before its first reference is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Header {
    /// Version of the format ([`crate::format::VERSION`]).
    pub version: u32,
    /// The trace's identity: equal references and events have equal checksums, however they were
    /// compressed and whatever they were imported from.
    pub checksum: u64,
    /// What is in it.
    pub totals: Totals,
    /// Where it comes from.
    pub metadata: Metadata,
}

/// What is in a trace. The fields are the counts in the header of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// References stored here.
    pub records: u64,
    /// References the program made: more than `records` if runs were collapsed or the trace
    /// reduced.
    pub references: u64,
    /// Runs of consecutive references to one page (what a window of 1 would store).
    pub runs: u64,
    /// Instructions executed, where known.
    pub instructions: Option<u64>,
    /// Page numbers ever touched.
    pub distinct_pages: u64,
    /// Page ids in use: every id in the trace is below this. Differs from `distinct_pages` only if
    /// pages were moved to other page numbers.
    pub page_ids: u32,
    /// Page numbers ever written to.
    pub written_pages: u64,
    /// Objects allocated.
    pub objects: u64,
    /// Objects freed.
    pub frees: u64,
    /// Largest number of bytes in objects at one time.
    pub peak_object_bytes: u64,
    /// Pages touched by system calls on the program's behalf.
    pub system_call_touches: u64,
    /// Mappings that appeared.
    pub maps: u64,
    /// Mappings whose contents were given up.
    pub unmaps: u64,
    /// Mappings that moved.
    pub remaps: u64,
    /// Events stored (one unmapping can be none or many).
    pub events: u64,
    /// Chunks stored.
    pub chunks: u64,
}

/// Where a trace comes from. The fields are those of the JSON in the file: one that this version
/// does not know is ignored, one that is missing gets its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The program, or the generator, or the file's name where nothing better is known.
    pub program: String,
    /// Its command line, if known.
    pub command: Vec<String>,
    /// Bytes a page.
    pub page_size: u64,
    /// 0: every reference is stored. 1: runs of references to one page are stored as one. K > 1:
    /// only the first and the last run of each page in every stretch of K distinct pages (see
    /// [`crate::reduce`]).
    pub window: u64,
    /// Instruction fetches are included, as reads.
    pub instruction_fetches: bool,
    /// Pages touched by system calls are included.
    pub system_calls: bool,
    /// The format it was imported from, or how it was made.
    pub source: String,
    /// What wrote the file, with its version.
    pub producer: String,
    /// Whether the program was followed to its end.
    pub complete: bool,
    /// How it ended, if there is something to say ("the recorder's stream ended without END").
    pub ended: String,
    /// Anything else, a line each.
    pub notes: Vec<String>,
    /// If the trace was made by watching a running program: its epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Epochs>,
    /// If the trace was recorded live: how large its window was, and when. In order, without gaps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// The child of the program that did the most work, if it had any that were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_child: Option<LargestChild>,
    /// Where in the program its objects were made, if the recorder said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
    /// What its pages contained, if the recorder looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
    /// Whose the pages are, if the trace was made of a log that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Tenants>,
    /// A page stands for an object of any size, which the event has that begins it
    /// ([`Columns::whole_objects`](crate::columns::Columns::whole_objects)). So pages of such a
    /// trace say nothing about memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_objects: bool,
    /// When its first and its last reference were made, if it says when references were made
    /// ([`Chunk::times`](crate::Chunk::times)). The writer fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
}

/// The times of a trace, in milliseconds of the clock of its source: of a log, what its column of
/// times says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The first.
    pub first_ms: i64,
    /// The last.
    pub last_ms: i64,
}

/// The epochs of a trace that holds each page once for each epoch in which it was used. Behind each
/// epoch there is a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epochs {
    /// How many there are.
    pub epochs: u64,
    /// How long the longest was, in nanoseconds.
    pub longest_ns: u64,
    /// Pages used in the epoch that has the most.
    pub largest_pages: u64,
    /// Whether the pages of an epoch are in the order of their first touches in it. Otherwise they
    /// are in ascending order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
    /// The trace has one page in this many, chosen by a hash of the block that the page is in. If
    /// the number changed, this is the largest.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub one_page_in: u64,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { epochs: 0, longest_ns: 0, largest_pages: 0, ordered: false, one_page_in: 1 }
    }
}

fn one() -> u64 {
    1
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

/// A stretch of epochs of a trace that was recorded live, and its window: the pages that were
/// mapped when an epoch ended. A touch within the window is not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first record of the stretch.
    pub first_record: u64,
    /// When it began, from the start of the recording, in nanoseconds.
    pub start_ns: u64,
    /// How long it was, in nanoseconds.
    pub ns: u64,
    /// Its epochs.
    pub epochs: u64,
    /// Pages of the epoch that has the most.
    pub pages: u64,
}

/// A child of a recorded program that was not recorded itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestChild {
    /// Its program's name.
    pub program: String,
    /// Pages of anonymous memory that it was seen with. None: it made no exec, and worked longer
    /// than the program itself.
    pub pages: Option<u64>,
}

/// How the trace of a program that became another program begins to say so, in [`Metadata::ended`].
pub const BECAME_ANOTHER: &str = "became another program";

/// What the sources of logs with columns are called ([`Metadata::source`]).
const LOGS: [&str; 4] = ["separated columns", "JSON lines", "binary structs", "Parquet"];

impl Metadata {
    /// Fills in what versions before 0.2 left out: only whole objects make objects of a log.
    pub(crate) fn completed(mut self, totals: &Totals) -> Self {
        self.whole_objects |= totals.objects > 0 && LOGS.contains(&self.source.as_str());
        self
    }

    /// The memory size, in pages, from which on counts are nearly exact under every policy. A trace
    /// that is reduced with a window of K keeps LRU's and OPT's counts from K pages up; reference
    /// bits want some times that. Of a trace of epochs, the size from which on no fault is missing.
    pub fn nearly_exact_pages(&self) -> u64 {
        let of_window = if self.window > 1 { 8 * self.window } else { 1 };
        self.epochs.map_or(of_window, |epochs| of_window.max(epochs.largest_pages))
    }

    /// The smallest memory, in pages, at which LRU and OPT count all faults.
    pub fn exact_pages(&self) -> u64 {
        self.epochs.map_or(self.window, |epochs| self.window.max(epochs.largest_pages))
    }

    /// Of a trace that was recorded live: the window that was not exceeded in nine tenths of the
    /// time.
    pub fn usual_window_pages(&self) -> u64 {
        let mut windows: Vec<(u64, u64)> = self.windows.iter().map(|of| (of.pages, of.ns)).collect();
        windows.sort_unstable();
        let all: u64 = windows.iter().map(|(_, ns)| ns).sum();
        let mut left = all - all / 10;
        for (pages, ns) in windows {
            if ns >= left {
                return pages;
            }
            left -= ns;
        }
        0
    }

    /// How exact counts are if the trace is reduced, as a part of a sentence.
    pub fn exactness(&self) -> Option<String> {
        let (window, nearly) = (self.window, self.nearly_exact_pages());
        if let Some(epochs) = self.epochs.filter(|epochs| epochs.ordered) {
            let window = epochs.largest_pages;
            let mostly = self.usual_window_pages();
            return Some(format!(
                "with a window of up to {window} pages, and up to {mostly} in nine tenths of the time: counts hold from {window} \
                 pages up, and lru's are between those that it has with {window} pages more and with {window} fewer"
            ));
        }
        if let Some(epochs) = self.epochs {
            let sample = match epochs.one_page_in {
                0 | 1 => String::new(),
                some => format!(
                    "; it holds one page in {some}, so {some} times its faults in {some} times the memory are those of the program"
                ),
            };
            return Some(format!(
                "counts are estimates, because the order within an epoch is not known, and faults are missing below {} pages, \
                 the most of an epoch{sample}",
                epochs.largest_pages
            ));
        }
        (window > 1).then(|| {
            format!(
                "counts are exact for lru and opt from {window} pages up, and nearly so for the others from about {nearly} up"
            )
        })
    }

    /// In which way the trace holds less than every reference, if results depend on it: the rest of
    /// a sentence about it.
    pub fn reduction(&self) -> Option<String> {
        let exactness = self.exactness()?;
        Some(match self.epochs {
            Some(epochs) if epochs.ordered => format!("was recorded live, {exactness}"),
            Some(epochs) => format!("is of {} epochs: {exactness}", epochs.epochs),
            None => format!("is reduced with a window of {}: {exactness}", self.window),
        })
    }
}

impl Default for Metadata {
    fn default() -> Self {
        Self {
            program: String::new(),
            command: Vec::new(),
            page_size: 4096,
            window: 0,
            instruction_fetches: false,
            system_calls: false,
            source: String::new(),
            producer: concat!("sweephand ", env!("CARGO_PKG_VERSION")).to_owned(),
            complete: true,
            ended: String::new(),
            notes: Vec::new(),
            epochs: None,
            windows: Vec::new(),
            largest_child: None,
            places: None,
            contents: None,
            tenants: None,
            whole_objects: false,
            times: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_trace_says_how_it_was_made() {
        let of = |window, epochs| Metadata { window, epochs, ..Metadata::default() }.reduction();
        let epochs = |ordered| Some(Epochs { epochs: 7, ordered, ..Epochs::default() });
        assert_eq!([of(0, None), of(1, None)], [None, None]);
        for (reduction, begins) in [
            (of(16, None), "is reduced with a window of 16: counts are exact"),
            (of(0, epochs(true)), "was recorded live, with a window of up to"),
            (of(0, epochs(false)), "is of 7 epochs: counts are estimates"),
        ] {
            let reduction = reduction.unwrap();
            assert!(reduction.starts_with(begins), "{reduction}");
        }
    }
}
