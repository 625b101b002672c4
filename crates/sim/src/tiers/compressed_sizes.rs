//! What pages come to when they are compressed.

use sweephand_policy::{PageId, SplitMix64};
use sweephand_trace::contents::{CLASS_BYTES, Contents, PAGE_BYTES, SIZE_CLASSES};

/// What each page comes to when it is compressed. A page has the same size whenever it is evicted.
///
/// Any function of the page is such a source, so recorded sizes can be given as a look-up. A source
/// that knows all sizes in advance says so: one pass may do for all pools then.
pub trait CompressedSizes: Send + Sync {
    /// The bytes that a page of `page_bytes` comes to: 0 if all of its words are equal, and
    /// `page_bytes` or more if it does not compress.
    fn bytes(&self, page: PageId, page_bytes: u32) -> u32;

    /// All sizes that there are, if they are known.
    fn all_sizes(&self, page_bytes: u32) -> Option<Vec<u32>> {
        let _ = page_bytes;
        None
    }
}

impl<F: Fn(PageId) -> u32 + Send + Sync> CompressedSizes for F {
    fn bytes(&self, page: PageId, _: u32) -> u32 {
        self(page)
    }
}

/// A codec whose sizes a recording has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// LZ4. The kernel's default, LZO, makes pages about as small.
    #[default]
    Lz4,
    /// Zstandard at level -1.
    Zstd,
}

impl Codec {
    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// How well pages compress: some have equal words, some do not compress, and the others come to
/// sizes that are all the same or [spread](SizeSpread). A hash of its id decides what a page is.
///
/// There is no measurement behind the default, a third of a page. Programs differ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compressibility {
    /// Bytes of a page by bytes of a compressed one, of the pages that compress: at least 1.
    pub ratio: f64,
    /// Pages all of whose words are equal, mostly zeros, in percent.
    pub same_filled_percent: f64,
    /// Pages that do not compress, in percent.
    pub incompressible_percent: f64,
    /// How the sizes of the pages that compress differ. `None`: they are all the same.
    pub spread: Option<SizeSpread>,
}

/// Sizes of pages in the classes of a recording.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeSpread {
    /// The part of the pages that are in a class or one below. From the last class on that has
    /// pages, it is infinity.
    up_to: [f64; SIZE_CLASSES - 1],
    /// What a page has beyond the sizes of the classes below its own, the same in all classes.
    beyond_bytes: u64,
}

impl Default for Compressibility {
    fn default() -> Self {
        Self { ratio: 3.0, same_filled_percent: 0.0, incompressible_percent: 0.0, spread: None }
    }
}

impl Compressibility {
    /// What was recorded of the pages of a program that could go to swap. `None` if there are none.
    ///
    /// A recording has classes of sizes, and the sum of all sizes. Pages of the largest class take
    /// a page to themselves in any pool, so they count as pages that do not compress. The others
    /// come to what is left of the sum.
    pub fn recorded(contents: &Contents, codec: Codec) -> Option<Self> {
        let pages = contents.swappable();
        let sizes = match codec {
            Codec::Lz4 => &pages.lz4,
            Codec::Zstd => &pages.zstd,
        };
        let (whole, by_size) = sizes.by_size.split_last()?;
        let bytes = sizes.bytes.saturating_sub(whole * PAGE_BYTES);
        let percent = |some: u64| 100.0 * pages.share(some);
        let spread = SizeSpread::of(by_size, bytes);
        (pages.pages > 0).then(|| Self {
            ratio: spread.map_or(1.0, |spread| PAGE_BYTES as f64 / spread.mean_bytes()),
            same_filled_percent: percent(pages.zero + pages.same_filled),
            incompressible_percent: percent(*whole),
            spread,
        })
    }

    /// What a page comes to that compresses. `part` of the others that do come to less.
    fn compressed(&self, part: f64, page_bytes: u32) -> u32 {
        let bytes = match &self.spread {
            None => f64::from(page_bytes) / self.ratio,
            Some(spread) => spread.bytes(spread.class_at(part)) * f64::from(page_bytes) / PAGE_BYTES as f64,
        };
        (bytes.round() as u32).max(1)
    }
}

impl SizeSpread {
    /// Pages by class that come to `bytes` together. `None` if there are none.
    fn of(by_size: &[u64], bytes: u64) -> Option<Self> {
        let pages: u64 = by_size.iter().sum();
        if pages == 0 {
            return None;
        }
        let below: u64 = by_size.iter().zip(0_u64..).map(|(pages, class)| pages * class * CLASS_BYTES).sum();
        let beyond = bytes.saturating_sub(below) as f64 / pages as f64;
        let mut counted = 0;
        let mut up_to = [f64::INFINITY; SIZE_CLASSES - 1];
        for (part, in_class) in up_to.iter_mut().zip(by_size) {
            counted += in_class;
            if counted < pages {
                *part = counted as f64 / pages as f64;
            }
        }
        Some(Self { up_to, beyond_bytes: (beyond.round() as u64).clamp(1, CLASS_BYTES) })
    }

    /// The class of a page, if `part` of the others come to less.
    fn class_at(&self, part: f64) -> usize {
        self.up_to.partition_point(|up_to| *up_to <= part)
    }

    /// The bytes that the pages of a class come to, each of [`PAGE_BYTES`].
    fn bytes(&self, class: usize) -> f64 {
        (class as u64 * CLASS_BYTES + self.beyond_bytes) as f64
    }

    /// The part of the pages that are in smaller classes, for each class that has pages.
    fn parts_below(&self) -> Vec<f64> {
        let mut parts = vec![0.0];
        parts.extend(self.up_to.iter().filter(|up_to| up_to.is_finite()));
        parts.dedup();
        parts
    }

    fn mean_bytes(&self) -> f64 {
        let parts = self.parts_below();
        let ends = parts[1..].iter().chain([&1.0]);
        parts.iter().zip(ends).map(|(from, to)| (to - from) * self.bytes(self.class_at(*from))).sum()
    }
}

impl CompressedSizes for Compressibility {
    fn bytes(&self, page: PageId, page_bytes: u32) -> u32 {
        let percent = 100.0 * SplitMix64::new(page.0.into()).unit();
        let others_from = self.same_filled_percent + self.incompressible_percent;
        if percent < self.same_filled_percent {
            0
        } else if percent < others_from {
            page_bytes
        } else {
            self.compressed((percent - others_from) / (100.0 - others_from), page_bytes)
        }
    }

    fn all_sizes(&self, page_bytes: u32) -> Option<Vec<u32>> {
        let mut sizes = Vec::new();
        if self.same_filled_percent > 0.0 {
            sizes.push(0);
        }
        if self.incompressible_percent > 0.0 {
            sizes.push(page_bytes);
        }
        if self.same_filled_percent + self.incompressible_percent < 100.0 {
            let parts = self.spread.map_or_else(|| vec![0.0], |spread| spread.parts_below());
            sizes.extend(parts.into_iter().map(|part| self.compressed(part, page_bytes)));
        }
        Some(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_trace::contents::{AGES, ObjectContents, PageContents, SampledPages};

    #[test]
    fn pages_are_of_each_kind_in_the_shares_that_were_given() {
        let mixed = Compressibility {
            ratio: 4.0,
            same_filled_percent: 10.0,
            incompressible_percent: 30.0,
            spread: None,
        };
        let mut seen = [0; 3];
        for page in 0..100_000 {
            match mixed.bytes(PageId(page), 4096) {
                0 => seen[0] += 1,
                4096 => seen[1] += 1,
                1024 => seen[2] += 1,
                bytes => panic!("{bytes}"),
            }
        }
        for (count, percent) in seen.into_iter().zip([10, 30, 60]) {
            assert!((count - 1000_i32 * percent).abs() < 500, "{seen:?}");
        }
        assert_eq!(mixed.all_sizes(4096), Some(vec![0, 4096, 1024]));
        assert_eq!(Compressibility::default().all_sizes(4096), Some(vec![1365]));
    }

    /// A recording of some pages of the heap, and of a file.
    fn contents() -> Contents {
        let other = |lz4_bytes, zstd_bytes| PageContents::Other { lz4_bytes, zstd_bytes };
        let mut heap = SampledPages::default();
        [PageContents::Zero, PageContents::SameFilled, other(4096, 4096), other(4096, 3000)]
            .into_iter()
            .chain([other(500, 300), other(510, 310), other(1100, 610), other(1180, 620)])
            .for_each(|page| heap.add(page));
        let mut file = SampledPages::default();
        (0..100).for_each(|_| file.add(PageContents::Zero));
        let mut ages = vec![SampledPages::default(); AGES.len()];
        ages[0].merge(&heap);
        ages[0].merge(&file);
        let object = |name: &str, sampled| ObjectContents { name: name.to_owned(), sampled };
        let objects = vec![object("/usr/lib/a.so", file), object("[heap]", heap)];
        Contents { moments: 3, objects, ages, ..Contents::default() }
    }

    /// LZ4's: two pages of the second class and two of the fifth, 3290 bytes together. Without
    /// 2560 bytes of lower classes, 182.5 are left for each.
    #[test]
    fn recorded_pages_come_to_the_sizes_of_their_classes_and_to_as_many_bytes_together() {
        let recorded = Compressibility::recorded(&contents(), Codec::Lz4).unwrap();
        assert_eq!((recorded.same_filled_percent, recorded.incompressible_percent), (25.0, 25.0));
        let (small, large) = (256 + 183, 1024 + 183);
        assert_eq!(recorded.all_sizes(4096), Some(vec![0, 4096, small, large]));
        assert!((recorded.ratio - 4096.0 / 823.0).abs() < 1e-9, "{}", recorded.ratio);
        let mut seen = [0; 4];
        for page in 0..100_000 {
            let bytes = recorded.bytes(PageId(page), 4096);
            seen[[0, 4096, small, large].iter().position(|size| *size == bytes).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (count - 25_000_i32).abs() < 500), "{seen:?}");
        // Larger pages come to the same part.
        assert_eq!(recorded.all_sizes(16_384), Some(vec![0, 16_384, 4 * small, 4 * large]));
        let zstd = Compressibility::recorded(&contents(), Codec::Zstd).unwrap();
        assert_eq!((zstd.incompressible_percent, zstd.all_sizes(4096).unwrap().len()), (12.5, 5));
        assert!((zstd.ratio - 4096.0 * 5.0 / 4840.0).abs() < 0.01, "{}", zstd.ratio);
    }

    #[test]
    fn pages_that_never_compress_have_no_ratio_and_no_pages_no_compressibility() {
        let mut random = SampledPages::default();
        random.add(PageContents::Other { lz4_bytes: 4096, zstd_bytes: 4096 });
        let mut ages = vec![SampledPages::default(); AGES.len()];
        ages[0].merge(&random);
        let objects = vec![ObjectContents { name: "[heap]".into(), sampled: random }];
        let whole = Contents { objects, ages, ..Contents::default() };
        let whole = Compressibility::recorded(&whole, Codec::Lz4).unwrap();
        assert_eq!((whole.incompressible_percent, whole.spread), (100.0, None));
        assert!((0..1000).all(|page| whole.bytes(PageId(page), 4096) == 4096));
        assert_eq!(Compressibility::recorded(&Contents::default(), Codec::Lz4), None);
    }
}
