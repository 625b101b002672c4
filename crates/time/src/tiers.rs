//! The time that paging takes in tiers: what is counted, each with its cost.
//!
//! One thread waits for one thing at a time, so times add up. Writes to the disk go on beside the
//! program and are not waited for. So the time is too short where the disk cannot keep up.
//!
//! Where the costs come from:
//! - a fault and an eviction: what [`Paging::Kernel`] has for them, rough estimates;
//! - compressing and decompressing: a write and a read of the built-in device `zram`, which were
//!   measured with lzo-rle. They include the block layer and the file system on the device, so they
//!   are upper bounds. A device that was measured on zram elsewhere (`sweephand devices`) can take
//!   its place;
//! - what the program's own pages take instead of the pages of that measurement, half random and
//!   half zeros: the difference between the codec's times for both, in user space
//!   ([`Device::codec_times`], [`Contents::codec_times`](sweephand_trace::contents::Contents)). The
//!   kernel's compressors are other code, and the two times may come from two machines. So these
//!   costs are estimates as well. No difference makes a page cheaper than one that is filled;
//! - a read of the disk: its latency, alone on the device.

use crate::observer::service;
use crate::{Device, Paging};
use sweephand_sim::{Codec, Outcome, SplitCosts, TierCounts};
use sweephand_trace::contents::{CodecTime, CodecTimes};

/// The built-in device that compresses pages: what compression costs if no other is named.
pub const POOL_DEVICE: &str = "zram";
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
    /// Whether compression takes the time of the program's own pages, and not that of test pages.
    pub are_of_program: bool,
}

impl TierCosts {
    /// The costs of pages of `page_bytes`, compressed as fast as the device `compressed` does it,
    /// before a disk. `own` is how long the codec takes for the program's own pages, of 4 KiB, if
    /// that is known.
    pub fn of(compressed: &Device, disk: &Device, page_bytes: u64, own: Option<CodecTime>) -> Self {
        let kernel = Paging::Kernel.costs();
        let alone = |figures| service(figures, figures.latency_us, page_bytes, REQUEST_BYTES).0;
        let of_test_pages = Self {
            fault_ns: kernel.fault_ns + kernel.page_in_ns,
            evict_ns: kernel.evict_ns,
            fill_ns: kernel.zero_page_ns,
            compress_ns: alone(&compressed.write),
            decompress_ns: alone(&compressed.read),
            disk_read_ns: alone(&disk.read),
            are_of_program: false,
        };
        match own.zip(test_pages(compressed)) {
            Some((own, test)) => of_test_pages.with(own, test, page_bytes / REQUEST_BYTES),
            None => of_test_pages,
        }
    }

    /// The same with the difference between the times of two kinds of pages.
    fn with(self, own: CodecTime, test: CodecTime, times: u64) -> Self {
        let instead = |cost_ns: u64, own_ns: u64, test_ns: u64| {
            (cost_ns + times * own_ns).saturating_sub(times * test_ns).max(self.fill_ns)
        };
        Self {
            compress_ns: instead(self.compress_ns, own.compress_ns, test.compress_ns),
            decompress_ns: instead(self.decompress_ns, own.decompress_ns, test.decompress_ns),
            are_of_program: true,
            ..self
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

/// How long the codec takes for the pages by which a device was measured that comes closest to the
/// device's compressor: LZ4 for the kernel's default, lzo-rle.
fn test_pages(compressed: &Device) -> Option<CodecTime> {
    let CodecTimes { lz4, zstd } = compressed.codec_times?;
    Some(if compressed.compressor.as_deref() == Some(Codec::Zstd.name()) { zstd } else { lz4 })
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
        let costs = TierCosts::of(&zram, &hdd, 4096, None);
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
        let large = TierCosts::of(&zram, &hdd, 16_384, None);
        assert!(large.compress_ns > costs.compress_ns && large.disk_read_ns > costs.disk_read_ns);
    }
    #[test]
    fn pages_of_the_program_cost_the_difference_and_no_less_than_filling_a_page() {
        let of = |compress_ns, decompress_ns| CodecTime { compress_ns, decompress_ns };
        let times = CodecTimes { lz4: of(1_500, 400), zstd: of(4_000, 900) };
        let hdd = Device::named("hdd").unwrap();
        let zram = Device { codec_times: Some(times), ..Device::named("zram").unwrap() };
        let costs = |device: &Device, page_bytes, own| {
            let TierCosts { compress_ns, decompress_ns, are_of_program, .. } =
                TierCosts::of(device, &hdd, page_bytes, own);
            (compress_ns, decompress_ns, are_of_program)
        };
        let test_pages = (5_000, 3_400, false);
        assert_eq!(costs(&zram, 4096, None), test_pages);
        assert_eq!(costs(&Device { codec_times: None, ..zram.clone() }, 4096, Some(of(1, 1))), test_pages);
        assert_eq!(costs(&zram, 4096, Some(times.lz4)), (5_000, 3_400, true));
        assert_eq!(costs(&zram, 4096, Some(of(2_500, 100))), (6_000, 3_100, true));
        assert_eq!(costs(&zram, 4096, Some(times.zstd)), (7_500, 3_900, true));
        let (fill_ns, fast) = (Paging::Kernel.costs().zero_page_ns, of(1, 1));
        let quick = Device {
            codec_times: Some(CodecTimes { lz4: of(4_999, 1_000_000_000), ..times }),
            ..zram.clone()
        };
        assert_eq!(costs(&quick, 4096, Some(fast)), (fill_ns, fill_ns, true));
        // A device that compresses by Zstandard has done that for the test pages.
        let by_zstd = Device { compressor: Some("zstd".into()), ..zram.clone() };
        assert_eq!(costs(&by_zstd, 4096, Some(times.zstd)), (5_000, 3_400, true));
        // A larger page takes as long as the four small ones in it.
        let (compress_ns, decompress_ns, _) = costs(&zram, 16_384, None);
        let expected = (compress_ns + 4_000, decompress_ns - 1_200, true);
        assert_eq!(costs(&zram, 16_384, Some(of(2_500, 100))), expected);
    }
}
