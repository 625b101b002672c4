//! What a live recording would have of a program that was recorded under Valgrind.
//!
//!     cargo run --release -p sweephand-trace --example as_live -- TRACE OUT.swt WINDOW [RANGES]
//!
//! Of each page in an epoch it keeps only the first touch. An epoch ends before a touch that would
//! be its (WINDOW + 1)th record, as with `record --live --overhead none`. With a window of 0 it
//! keeps all touches. RANGES is a file with a range of page numbers a line, the first and the one
//! behind the last. Pages in these ranges are left out: those of files, which live recordings do
//! not have. `lab/bench/record-live` uses it to tell the causes of differences apart.

use rustc_hash::FxHashSet;
use std::fs::{File, read_to_string};
use std::ops::Range;
use std::path::Path;
use sweephand_trace::{AllocKind, EndTotals, Epochs, Error, Metadata, Sink, Trace, Writer};

struct AsLive {
    writer: Writer<File>,
    window: u64,
    left_out: Vec<Range<u64>>,
    /// The pages of this epoch.
    touched: FxHashSet<u64>,
    /// Records of this epoch.
    records: u64,
    epochs: Epochs,
}

impl AsLive {
    fn end_epoch(&mut self) -> Result<(), Error> {
        self.epochs.epochs += 1;
        self.epochs.largest_pages = self.epochs.largest_pages.max(self.records);
        self.touched.clear();
        self.writer.mark(0, std::mem::take(&mut self.records))
    }
}

impl Sink for AsLive {
    fn reference(&mut self, page: u64, write: bool) -> Result<(), Error> {
        if self.left_out.iter().any(|range| range.contains(&page)) || self.touched.contains(&page) {
            return Ok(());
        }
        if self.window > 0 {
            if self.records == self.window {
                self.end_epoch()?;
            }
            self.touched.insert(page);
            self.records += 1;
        }
        self.writer.reference(page, write)
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        self.writer.alloc(address, length, kind)
    }
    fn free(&mut self, address: u64) -> Result<(), Error> {
        self.writer.free(address)
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        // Marks are the ends of epochs.
        if self.window == 0 { self.writer.mark(instructions, references) } else { Ok(()) }
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.writer.map(first_page, pages)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        // Such a page faults at its next touch, whatever the epoch.
        self.touched.retain(|page| !(first_page..first_page + pages).contains(page));
        self.writer.unmap(first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        let is_moved = |page: &u64| (from..from + pages).contains(page);
        let moved: Vec<u64> = self.touched.iter().copied().filter(is_moved).collect();
        for page in moved {
            self.touched.remove(&page);
            self.touched.insert(page - from + to);
        }
        self.writer.remap(from, to, pages)
    }
}

fn ranges(path: &str) -> Vec<Range<u64>> {
    let text = read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let range = |line: &str| {
        let (first, end) = line.split_once(' ')?;
        Some(first.parse().ok()?..end.parse().ok()?)
    };
    text.lines().map(|line| range(line).unwrap_or_else(|| panic!("{path}: {line}"))).collect()
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, window, rest @ ..] = &arguments[..] else {
        eprintln!("as_live: TRACE OUT.swt WINDOW [RANGES]");
        std::process::exit(2);
    };
    let trace = Trace::open(Path::new(from))?;
    let metadata = Metadata { places: None, ..trace.header().metadata.clone() };
    let file = File::create(to).unwrap_or_else(|error| panic!("{to}: {error}"));
    let mut live = AsLive {
        writer: Writer::new(file, metadata)?,
        window: window.parse().unwrap_or_else(|_| panic!("{window}: how many pages?")),
        left_out: rest.first().map_or(Vec::new(), |path| ranges(path)),
        touched: FxHashSet::default(),
        records: 0,
        epochs: Epochs { ordered: true, ..Epochs::default() },
    };
    trace.replay(&mut live, &mut |_| {})?;
    if live.window > 0 {
        live.end_epoch()?;
        live.writer.metadata_mut().epochs = Some(live.epochs);
    }
    live.writer.finish(EndTotals::default())?;
    Ok(())
}
