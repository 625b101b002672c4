//! What watching costs, measured on memory of this process.

use super::processor_time;
use crate::PAGE_BYTES;
use crate::accessed::{Memory, OneProcessor, TABLE_PAGES, TableBits};
use std::io;
use std::time::{Duration, Instant};

/// Pages that are measured with.
const PAGES: usize = 16 * TABLE_PAGES;
/// Words of a page. A program that reads and writes them all loses most: see [`Price::touch_ns`].
const WORDS: usize = PAGE_BYTES as usize / 8;
/// From one page to the next, if in no order.
const STEP: usize = 3001;
/// The least of so many measurements counts: the others were disturbed.
const TIMES: usize = 3;

/// What a look costs for each page, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// To read the bits of a page in memory.
    pub read_ns: f64,
    /// To clear the bit of a page that was used.
    pub clear_ns: f64,
    /// What the program's next use of that page takes longer. The processor walks the page table
    /// and sets the bit, and begins nothing else meanwhile. So this is much more for a program that
    /// goes through its memory quickly than for one that waits at each page anyway. It is measured
    /// of two that do so, in order and in no order, and the larger counts.
    pub touch_ns: f64,
}

impl Price {
    /// Measures.
    pub(super) fn measure(bits: &TableBits) -> io::Result<Self> {
        let _stay = OneProcessor::here()?;
        let memory = Memory::map(PAGES + TABLE_PAGES)?;
        let start = memory.start.next_multiple_of(TABLE_PAGES * PAGE_BYTES as usize);
        let touch = || {
            let began = Instant::now();
            memory.increment(start, PAGES * WORDS);
            began.elapsed()
        };
        // Visits all pages: the step has no factor in common with their number.
        let jump = || {
            let began = Instant::now();
            let mut page = 0;
            for _ in 0..PAGES {
                page = (page + STEP) % PAGES;
                memory.increment(start + page * PAGE_BYTES as usize, 1);
            }
            began.elapsed()
        };
        touch();
        let mut best = [Duration::MAX; 6];
        for _ in 0..TIMES {
            let (warm_jump, warm) = (jump(), touch());
            let began = processor_time();
            for table in 0..PAGES / TABLE_PAGES {
                let address = start + table * TABLE_PAGES * PAGE_BYTES as usize;
                bits.find(std::process::id(), address as u64)?;
            }
            let read = processor_time();
            memory.cool();
            let cleared = processor_time();
            let cold = touch();
            memory.cool();
            let measured = [read - began, cleared - read, warm, cold, warm_jump, jump()];
            best.iter_mut().zip(measured).for_each(|(best, now)| *best = now.min(*best));
        }
        let [read_ns, clear_ns, warm, cold, warm_jump, cold_jump] =
            best.map(|time| time.as_nanos() as f64 / PAGES as f64);
        // Each is the least of its kind: a difference of two single measurements may be anything.
        let touch_ns = (cold - warm).max(cold_jump - warm_jump).max(0.0);
        // The bits of pages that were used are read once more, to see whether they are cleared.
        Ok(Self { read_ns, clear_ns: clear_ns + read_ns, touch_ns })
    }

    /// What a look costs at most, if all of so many pages are looked at, and the program uses all
    /// of them in every epoch.
    pub fn most(&self, resident_pages: u64) -> Duration {
        self.of(self.reading(resident_pages), resident_pages)
            + Duration::from_nanos((resident_pages as f64 * self.clear_ns) as u64)
    }

    /// What it takes to read the bits of so many pages: the part of the cost that a sample does not
    /// make less.
    pub fn reading(&self, resident_pages: u64) -> Duration {
        Duration::from_nanos((resident_pages as f64 * self.read_ns) as u64)
    }

    /// What a look has cost: processor time, and the program's next uses of the pages.
    pub fn of(&self, processor_time: Duration, cleared_pages: u64) -> Duration {
        processor_time + Duration::from_nanos((cleared_pages as f64 * self.touch_ns) as u64)
    }
}
