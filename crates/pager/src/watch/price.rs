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
    /// goes through its memory quickly (measured here) than for one that waits at each page anyway.
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
        touch();
        let mut best = [Duration::MAX; 3];
        for _ in 0..TIMES {
            let warm = touch();
            let began = processor_time();
            for table in 0..PAGES / TABLE_PAGES {
                let address = start + table * TABLE_PAGES * PAGE_BYTES as usize;
                bits.find(std::process::id(), address as u64)?;
            }
            let read = processor_time();
            memory.cool();
            let cleared = processor_time();
            let measured = [read - began, cleared - read, touch().saturating_sub(warm)];
            best.iter_mut().zip(measured).for_each(|(best, now)| *best = now.min(*best));
        }
        let [read_ns, clear_ns, touch_ns] = best.map(|time| time.as_nanos() as f64 / PAGES as f64);
        // The bits of pages that were used are read once more, to see whether they are cleared.
        Ok(Self { read_ns, clear_ns: clear_ns + read_ns, touch_ns })
    }

    /// What a look costs at most, if the program uses all of so many pages in every epoch.
    pub fn most(&self, resident_pages: u64) -> Duration {
        let page_ns = self.read_ns + self.clear_ns + self.touch_ns;
        Duration::from_nanos((resident_pages as f64 * page_ns) as u64)
    }

    /// What a look has cost: processor time, and the program's next uses of the pages.
    pub fn of(&self, processor_time: Duration, cleared_pages: u64) -> Duration {
        processor_time + Duration::from_nanos((cleared_pages as f64 * self.touch_ns) as u64)
    }
}
