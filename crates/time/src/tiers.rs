//! The time that paging takes in tiers: what is counted, each with its cost.
//!
//! One thread waits for one thing at a time, so times add up. Writes to the disk go on beside the
//! program and are not waited for. So the time is too short where the disk cannot keep up.
//!
//! Where the costs come from:
//! - a fault and an eviction: what [`Paging::Kernel`] has for them, rough estimates;
//! - compressing and decompressing: a write and a read of the built-in device `zram`, which were
//!   measured with lzo-rle. They include the block layer and the file system on the device, so they
//!   are upper bounds. Other compressors cost more or less. A device that was measured on zram
//!   elsewhere (`sweephand devices`) can take its place;
//! - a read of the disk: its latency, alone on the device.

use crate::observer::service;
use crate::{Device, Paging};
use sweephand_sim::{Outcome, SplitCosts, TierCounts};

/// What latencies of devices are of.
const REQUEST_BYTES: u64 = 4096;

/// What each step of paging in tiers costs, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierCosts {
    /// A fault on a page that was evicted, wherever the page is.
    pub fault_ns: u64,
    /// A page evicted, wherever it goes.
    pub evict_ns: u64,
    /// A page filled with a word.
    pub fill_ns: u64,
    /// A page compressed.
    pub compress_ns: u64,
    /// A page decompressed.
    pub decompress_ns: u64,
    /// A page read from the disk.
    pub disk_read_ns: u64,
}

impl TierCosts {
    /// The costs of pages of `page_bytes`, compressed as fast as the device `compressed` does it,
    /// before a disk.
    pub fn of(compressed: &Device, disk: &Device, page_bytes: u64) -> Self {
        let kernel = Paging::Kernel.costs();
        let alone = |figures| service(figures, figures.latency_us, page_bytes, REQUEST_BYTES).0;
        Self {
            fault_ns: kernel.fault_ns + kernel.page_in_ns,
            evict_ns: kernel.evict_ns,
            fill_ns: kernel.zero_page_ns,
            compress_ns: alone(&compressed.write),
            decompress_ns: alone(&compressed.read),
            disk_read_ns: alone(&disk.read),
        }
    }

    /// What an adaptive split weighs.
    pub fn of_splits(&self) -> SplitCosts {
        SplitCosts {
            fault_ns: self.fault_ns + self.evict_ns,
            compression_ns: self.compress_ns + self.decompress_ns,
            disk_read_ns: self.disk_read_ns,
        }
    }

    /// What the pool takes of that: faults on what is in memory, pages that go to the pool, and
    /// their compression. What the disk takes comes on top.
    pub fn pool_seconds(&self, outcome: &Outcome, counts: &TierCounts) -> f64 {
        let to_pool = outcome.evictions - counts.rejected - counts.turned_away;
        added_up(&[
            (counts.same_filled_faults + counts.pool_faults, self.fault_ns),
            (to_pool, self.evict_ns),
            (counts.same_filled_faults, self.fill_ns),
            (counts.compressions, self.compress_ns),
            (counts.decompressions, self.decompress_ns),
        ])
    }

    /// Seconds of paging, apart from first touches. They come on top of what the program takes with
    /// all memory.
    pub fn seconds(&self, outcome: &Outcome, counts: &TierCounts) -> f64 {
        added_up(&[
            (outcome.refaults(), self.fault_ns),
            (outcome.evictions, self.evict_ns),
            (counts.same_filled_faults, self.fill_ns),
            (counts.compressions, self.compress_ns),
            (counts.decompressions, self.decompress_ns),
            (counts.disk_faults, self.disk_read_ns),
        ])
    }
}

/// The seconds of some steps: how often, and how many nanoseconds each.
fn added_up(steps: &[(u64, u64)]) -> f64 {
    steps.iter().map(|(count, cost_ns)| *count as f64 * *cost_ns as f64).sum::<f64>() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_counts_times_costs() {
        let (zram, hdd) = (Device::named("zram").unwrap(), Device::named("hdd").unwrap());
        let costs = TierCosts::of(&zram, &hdd, 4096);
        assert_eq!((costs.compress_ns, costs.decompress_ns, costs.disk_read_ns), (5_000, 3_400, 12_660_000));
        let outcome = Outcome { faults: 5, first_touch_faults: 2, evictions: 4, ..Outcome::default() };
        let counts =
            TierCounts { compressions: 2, decompressions: 1, disk_faults: 2, ..TierCounts::default() };
        let expected = 3 * costs.fault_ns + 4 * costs.evict_ns + 2 * 5_000 + 3_400 + 2 * 12_660_000;
        assert_eq!(costs.seconds(&outcome, &counts), expected as f64 / 1e9);
        // The disk's part: two reads with their faults, and one page that goes there at once.
        let counts = TierCounts { pool_faults: 1, turned_away: 1, ..counts };
        let of_disk = 2 * costs.fault_ns + costs.evict_ns + 2 * 12_660_000;
        assert_eq!(costs.pool_seconds(&outcome, &counts), (expected - of_disk) as f64 / 1e9);
        let expected = SplitCosts { fault_ns: 5_000, compression_ns: 8_400, disk_read_ns: 12_660_000 };
        assert_eq!(costs.of_splits(), expected);
        // Larger pages take longer to compress and to read.
        let large = TierCosts::of(&zram, &hdd, 16_384);
        assert!(large.compress_ns > costs.compress_ns && large.disk_read_ns > costs.disk_read_ns);
    }
}
