//! How large a pool pays, by what it would have cost and saved lately.
//!
//! P. R. Wilson, S. F. Kaplan, Y. Smaragdakis, "The case for compressed caching in virtual memory
//! systems", USENIX 1999, section 3. The pool has one of a few target sizes, or none. With M pages
//! of memory, a target T leaves u = M - T resident pages. If pages go on to compress as they have,
//! the pool holds k. A reference at stack distance d, in LRU order, then costs:
//!
//! ```text
//!                 d <= u    u < d <= M           M < d <= u + k       u + k < d
//!   no pool       nothing   nothing              fault, read          fault, read
//!   this target   nothing   fault, compression   fault, compression   fault, compression, read
//! ```
//!
//! where compression is that of a page and the decompression of another, and a read is the disk's.
//! The differences are added up for each target, and the best sum decides. Each event makes those
//! before it count less, so that the M-th most recent one has a weight of 20 %. An *event* is a
//! reference for which a target differs from no pool. References to recent pages are none, and so
//! time does not pass in them.
//!
//! **Differences from the paper.**
//! - A fault counts here, where it would not have happened without the pool. It was cheap beside
//!   the compression of that time.
//! - A page that no target would have had is an event here, and so is a first touch when memory is
//!   full: each pushes a page through the pool, which costs a compression and saves nothing. That
//!   was cheap beside a disk of 5 ms. On a disk of 50 µs, a program that goes through its pages
//!   once takes three times as long if this does not count.

/// The targets, in percent of memory (section 4.1 of the paper).
const TARGET_PERCENTS: [usize; 4] = [10, 23, 37, 50];
/// The weight of the M-th most recent event, if that of the most recent one is 1 (section 4.1).
const WEIGHT_AFTER_MEMORY: f64 = 0.2;

/// The costs that an adaptive split weighs, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitCosts {
    /// A fault, and the eviction that makes room for its page.
    pub fault_ns: u64,
    /// A page compressed and decompressed.
    pub compression_ns: u64,
    /// A page read from the disk.
    pub disk_read_ns: u64,
}

impl SplitCosts {
    /// A reference if there is no pool.
    fn without_pool(&self, faults: bool) -> f64 {
        if faults { (self.fault_ns + self.disk_read_ns) as f64 } else { 0.0 }
    }

    /// A reference if there is a pool, which may have the page.
    fn with_pool(&self, faults: bool, on_disk: bool) -> f64 {
        let fault_ns = if faults { self.fault_ns + self.compression_ns } else { 0 };
        (fault_ns + if on_disk { self.disk_read_ns } else { 0 }) as f64
    }
}

/// A size that the pool may have.
#[derive(Clone, Copy, Debug)]
struct Target {
    pool_pages: usize,
    /// What it would have saved, less what it would have cost, weighted by age.
    gain_ns: f64,
}

/// Weighs the targets.
#[derive(Debug)]
pub(super) struct Balance {
    memory_pages: usize,
    page_bytes: usize,
    costs: SplitCosts,
    /// The weight of an event after the next.
    decay: f64,
    /// By rising size.
    targets: [Target; TARGET_PERCENTS.len()],
    /// Pages that were evicted, and the memory that they take in a pool.
    evicted: usize,
    evicted_bytes: usize,
}

impl Balance {
    pub(super) fn new(memory_pages: usize, page_bytes: u32, costs: SplitCosts) -> Self {
        let target = |percent: usize| Target { pool_pages: memory_pages * percent / 100, gain_ns: 0.0 };
        Self {
            memory_pages,
            page_bytes: page_bytes as usize,
            costs,
            decay: libm::pow(WEIGHT_AFTER_MEMORY, 1.0 / memory_pages as f64),
            targets: TARGET_PERCENTS.map(target),
            evicted: 0,
            evicted_bytes: 0,
        }
    }

    /// The size that pays best, in pages; 0 if none pays. The smallest of equals.
    pub(super) fn target_pages(&self) -> usize {
        let mut best = Target { pool_pages: 0, gain_ns: 0.0 };
        for target in self.targets {
            if target.gain_ns > best.gain_ns {
                best = target;
            }
        }
        best.pool_pages
    }

    /// A page was evicted that takes some memory in a pool; a whole page if it does not compress.
    pub(super) fn evicted(&mut self, bytes: usize) {
        self.evicted += 1;
        self.evicted_bytes += bytes;
    }

    /// A reference at a stack distance.
    #[inline]
    pub(super) fn touched(&mut self, distance: usize) {
        let largest = self.targets[self.targets.len() - 1].pool_pages;
        if distance > self.memory_pages - largest {
            self.weigh(distance);
        }
    }

    /// A first touch, for which a page of a full memory is evicted.
    pub(super) fn pushed_out(&mut self) {
        for target in &mut self.targets {
            target.gain_ns = target.gain_ns * self.decay - self.costs.compression_ns as f64;
        }
    }

    fn weigh(&mut self, distance: usize) {
        let held = self.targets.map(|target| self.held_pages(target.pool_pages));
        for (target, held) in self.targets.iter_mut().zip(held) {
            let resident = self.memory_pages - target.pool_pages;
            let gain_ns = self.costs.without_pool(distance > self.memory_pages)
                - self.costs.with_pool(distance > resident, distance > held);
            target.gain_ns = target.gain_ns * self.decay + gain_ns;
        }
    }

    /// Pages in memory with a pool of some pages, resident and compressed.
    fn held_pages(&self, pool_pages: usize) -> usize {
        let compressed = match (self.evicted, self.evicted_bytes) {
            (0, _) => pool_pages,
            (_, 0) => usize::MAX / 2,
            (evicted, bytes) => {
                (pool_pages as u128 * self.page_bytes as u128 * evicted as u128 / bytes as u128) as usize
            }
        };
        self.memory_pages - pool_pages + compressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: SplitCosts = SplitCosts { fault_ns: 5, compression_ns: 10, disk_read_ns: 1000 };

    /// The paper's example: of 100 pages, 50 compressed at 2:1 hold 150. 200 references between 51
    /// and 100 cost a compression each, 30 from 101 to 150 save a disk access.
    #[test]
    fn a_pool_pays_if_what_it_saves_is_more_than_it_costs() {
        let weighed = |near: usize, far: usize| {
            let mut balance = Balance { decay: 1.0, ..Balance::new(100, 4096, COSTS) };
            balance.evicted(2048);
            (0..near).for_each(|_| balance.touched(70));
            (0..far).for_each(|_| balance.touched(140));
            (balance.target_pages(), balance.targets[3].gain_ns)
        };
        assert_eq!(weighed(200, 30), (50, 30.0 * 990.0 - 200.0 * 15.0));
        assert_eq!(weighed(200, 3), (0, 3.0 * 990.0 - 200.0 * 15.0));
    }

    #[test]
    fn the_smallest_target_that_holds_all_pays_best() {
        let mut balance = Balance::new(100, 4096, COSTS);
        balance.evicted(1024);
        for distance in [101, 110, 120, 129, 130] {
            balance.touched(distance);
            assert_eq!(balance.target_pages(), 10, "10 pages hold 40, so that 130 are in memory");
        }
        // Every target but the smallest has this page.
        balance.touched(131);
        balance.touched(131);
        assert_eq!(balance.target_pages(), 23);
    }

    #[test]
    fn what_only_passes_through_the_pool_costs_a_compression() {
        let mut balance = Balance { decay: 1.0, ..Balance::new(100, 4096, COSTS) };
        balance.evicted(2048);
        // A page that only the largest pool has saves a read less a compression.
        balance.touched(150);
        assert_eq!(balance.target_pages(), 50);
        // Pages that no pool has, and first touches.
        (0..50).for_each(|_| balance.touched(151));
        (0..49).for_each(|_| balance.pushed_out());
        assert_eq!(balance.targets[3].gain_ns, 990.0 - 99.0 * 10.0);
        assert_eq!(balance.target_pages(), 0);
    }

    #[test]
    fn an_event_loses_weight_only_by_other_events() {
        let mut balance = Balance::new(100, 4096, COSTS);
        balance.evicted(2048);
        balance.touched(140);
        let first = balance.targets[3].gain_ns;
        // Recent pages.
        (0..1000).for_each(|_| balance.touched(50));
        assert_eq!(balance.targets[3].gain_ns, first);
        // Hits with this target that cost it something, 99 times.
        let mut expected = first;
        for _ in 0..99 {
            balance.touched(60);
            expected = expected * balance.decay - 15.0;
        }
        assert_eq!(balance.targets[3].gain_ns, expected);
        assert!((libm::pow(balance.decay, 100.0) - 0.2).abs() < 1e-9);
    }
}
