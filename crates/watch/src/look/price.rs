//! What watching costs, measured on memory of this process.

use super::found::Look;
use super::sample::BLOCK_PAGES;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{hint, io, thread};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::accessed::{OneProcessor, ScratchMemory, TABLE_PAGES, TableBits};
use sweephand_process::usage::processor_time;

/// Pages that are measured with.
const PAGES: usize = 16 * TABLE_PAGES;
/// Words of a page. A program that reads and writes them all loses most: see [`Price::touch_ns`].
const WORDS: usize = PAGE_BYTES as usize / 8;
/// Pages from one page to the next, where pages are touched in no order.
const STEP: usize = 3001;
/// Measurements, of which the least counts: the others were disturbed.
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
    /// What clearing takes longer for each range of pages. The kernel interrupts the processors
    /// that run the program and waits for them, so each of them loses about as much.
    pub range_ns: f64,
}

impl Price {
    /// Measures.
    pub(crate) fn measure(bits: &TableBits) -> io::Result<Self> {
        let stay = OneProcessor::here()?;
        let memory = ScratchMemory::map(PAGES + TABLE_PAGES)?;
        let start = memory.start.next_multiple_of(TABLE_PAGES * PAGE_BYTES as usize);
        // Processor time: other programs may take the processor meanwhile.
        let touch = || {
            let began = processor_time();
            memory.increment(start, PAGES * WORDS);
            processor_time() - began
        };
        // Visits all pages: the step has no factor in common with their number.
        let jump = || {
            let began = processor_time();
            let mut page = 0;
            for _ in 0..PAGES {
                page = (page + STEP) % PAGES;
                memory.increment(start + page * PAGE_BYTES as usize, 1);
            }
            processor_time() - began
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
        let block_ns = clear_block_ns(&memory, start, &stay);
        let range_ns = (block_ns - BLOCK_PAGES as f64 * clear_ns).max(0.0);
        // The bits of pages that were used are read once more, to see whether they are cleared.
        Ok(Self { read_ns, clear_ns: clear_ns + read_ns, touch_ns, range_ns })
    }

    /// What a look costs at most: it looks at all of this many pages, and the program uses all of
    /// them in every epoch.
    pub fn most(&self, resident_pages: u64) -> Duration {
        let used_ns = resident_pages as f64 * (self.clear_ns + self.touch_ns);
        self.reading(resident_pages) + Duration::from_nanos(used_ns as u64)
    }

    /// The same if pages are cleared block by block, as those of a sample are, and without the
    /// reading: nanoseconds a page. One processor runs the program.
    pub fn most_ns_in_blocks(&self) -> f64 {
        self.clear_ns + self.touch_ns + 2.0 * self.range_ns / BLOCK_PAGES as f64
    }

    /// What it takes to read the bits of this many pages: the part of the cost that a sample does
    /// not make less.
    pub fn reading(&self, resident_pages: u64) -> Duration {
        Duration::from_nanos((resident_pages as f64 * self.read_ns) as u64)
    }

    /// What a look has cost: its processor time, the program's next uses of the pages, and the
    /// interrupts of the processors that run the program.
    pub fn of(&self, look: &Look) -> Duration {
        let touches_ns = look.cleared_pages as f64 * self.touch_ns;
        let interrupts_ns = look.cleared_ranges as f64 * self.range_ns * look.running;
        look.processor_time + Duration::from_nanos((touches_ns + interrupts_ns) as u64)
    }
}

/// The processor time, in nanoseconds, that it takes to clear the bits of a block of pages while
/// another processor runs the program. The most of some measurements counts: in the others, that
/// processor may have done something else.
fn clear_block_ns(memory: &ScratchMemory, start: usize, stay: &OneProcessor) -> f64 {
    const BLOCK: usize = BLOCK_PAGES as usize;
    /// Blocks of a measurement: it is short, so that the other processor stays with the program.
    const BLOCKS: usize = 16;
    /// The longest time to wait for that processor.
    const PATIENCE: Duration = Duration::from_millis(5);
    let (is_over, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let at = |page: usize| start + page * PAGE_BYTES as usize;
    thread::scope(|scope| {
        scope.spawn(|| {
            // With one processor, there is nobody to interrupt.
            if stay.leave().is_ok() {
                while !is_over.load(Ordering::Relaxed) {
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let measure = |first: usize| {
            (0..BLOCKS * BLOCK).for_each(|page| memory.increment(at(first + page), 1));
            let (waiting, turn) = (Instant::now(), turns.load(Ordering::Relaxed));
            while turns.load(Ordering::Relaxed) == turn && waiting.elapsed() < PATIENCE {
                hint::spin_loop();
            }
            let began = processor_time();
            (0..BLOCKS).for_each(|block| memory.cool_pages(at(first + block * BLOCK), BLOCK));
            (processor_time() - began).as_nanos() as f64 / BLOCKS as f64
        };
        let most = (0..PAGES).step_by(BLOCKS * BLOCK).map(measure).fold(0.0, f64::max);
        is_over.store(true, Ordering::Relaxed);
        most
    })
}
