//! What pages come to when they are compressed.

use sweephand_policy::{PageId, SplitMix64};

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

/// How well pages compress: some have equal words, some do not compress, and all others come to the
/// same part of a page. A hash of its id decides which kind a page is.
///
/// There is no measurement behind the default, a third of a page. Programs differ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compressibility {
    /// Bytes of a page by bytes of a compressed one: at least 1.
    pub ratio: f64,
    /// Pages all of whose words are equal, mostly zeros, in percent.
    pub same_filled_percent: f64,
    /// Pages that do not compress, in percent.
    pub incompressible_percent: f64,
}

impl Default for Compressibility {
    fn default() -> Self {
        Self { ratio: 3.0, same_filled_percent: 0.0, incompressible_percent: 0.0 }
    }
}

impl Compressibility {
    /// What a page comes to that compresses.
    fn compressed(&self, page_bytes: u32) -> u32 {
        ((f64::from(page_bytes) / self.ratio).round() as u32).max(1)
    }
}

impl CompressedSizes for Compressibility {
    fn bytes(&self, page: PageId, page_bytes: u32) -> u32 {
        let percent = 100.0 * SplitMix64::new(page.0.into()).unit();
        if percent < self.same_filled_percent {
            0
        } else if percent < self.same_filled_percent + self.incompressible_percent {
            page_bytes
        } else {
            self.compressed(page_bytes)
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
            sizes.push(self.compressed(page_bytes));
        }
        Some(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_of_each_kind_in_the_shares_that_were_given() {
        let mixed = Compressibility { ratio: 4.0, same_filled_percent: 10.0, incompressible_percent: 30.0 };
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
}
