//! Which pages of a process are looked at, if not all: blocks of pages whose number has a small
//! hash (spatial sampling, as in C. A. Waldspurger et al., "Efficient MRC construction with
//! SHARDS", USENIX FAST 2015).
//!
//! Blocks and not pages, because the kernel clears bits range by range. Each range interrupts the
//! processors that run the program, which costs more than to clear a page. A huge page has one bit,
//! so it is in the sample as a whole, or not at all.
//!
//! A thinner sample is part of a thicker one: a page that leaves does not come back unless the
//! sample becomes thicker.

use sweephand_contents::hash;
use sweephand_process::accessed::{TABLE_PAGES, Table};

/// Pages of a block: those of a word of a table's bits.
pub(crate) const BLOCK_PAGES: u64 = 64;
/// The thinnest sample has one block in 2 to this.
const THINNEST: u32 = 16;

/// A sample: one block in some power of two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Sample {
    halvings: u32,
}

impl Sample {
    /// All pages.
    pub const ALL: Self = Self { halvings: 0 };

    /// The thickest sample that has at most this part of the pages.
    pub fn at_most(part: f64) -> Self {
        let halvings = (0..THINNEST).find(|&halvings| 1.0 <= part * f64::from(1 << halvings));
        Self { halvings: halvings.unwrap_or(THINNEST) }
    }

    /// This sample, or the thinnest one that has at least this part of the pages if that is
    /// thicker.
    pub fn or_at_least(self, part: f64) -> Self {
        let thinnest = (0..=THINNEST).rev().find(|&halvings| part * f64::from(1 << halvings) <= 1.0);
        Self { halvings: self.halvings.min(thinnest.unwrap_or(0)) }
    }

    /// The sample has one page in this many.
    pub fn one_page_in(self) -> u64 {
        1 << self.halvings
    }

    /// Whether a page is in the sample that is not part of a huge one.
    pub fn contains(self, page: u64) -> bool {
        // The lowest bits of the hash are 0.
        hash(page / BLOCK_PAGES) & (self.one_page_in() - 1) == 0
    }

    /// The words of a table whose pages are in the sample.
    pub(super) fn words(self, number: u64, table: &Table) -> [bool; TABLE_PAGES / 64] {
        let first = number * TABLE_PAGES as u64;
        let block = |word: usize| if table.is_large { 0 } else { BLOCK_PAGES * word as u64 };
        std::array::from_fn(|word| self.contains(first + block(word)))
    }
}

/// What is known of the blocks of a sample in an epoch, for the error of what it says of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    blocks: f64,
    used: f64,
    resident: f64,
    /// Sums of products.
    used_used: f64,
    used_resident: f64,
    resident_resident: f64,
}

impl Spread {
    /// Takes in a block of the sample: how many of its pages are in memory, and how many were used.
    pub(super) fn add(&mut self, resident: u32, used: u32) {
        if resident > 0 {
            let (resident, used) = (f64::from(resident), f64::from(used));
            self.blocks += 1.0;
            self.used += used;
            self.resident += resident;
            self.used_used += used * used;
            self.used_resident += used * resident;
            self.resident_resident += resident * resident;
        }
    }

    /// The standard error of the number of pages used, if the sample has this part of all blocks.
    /// The number is that of the sample times all pages in memory by those of the sample: a ratio
    /// estimate (W. G. Cochran, *Sampling Techniques*, third edition, 1977, section 6.3).
    pub(super) fn error(&self, one_in: u64) -> f64 {
        if one_in == 1 || self.blocks < 2.0 {
            return 0.0;
        }
        let (part, ratio) = (1.0 / one_in as f64, self.used / self.resident);
        let squares =
            self.used_used - 2.0 * ratio * self.used_resident + ratio * ratio * self.resident_resident;
        let all = self.blocks / part;
        all * (squares.max(0.0) / (self.blocks - 1.0) * (1.0 - part) / self.blocks).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    #[test]
    fn a_sample_has_its_part_of_the_pages_and_is_part_of_a_thicker_one() {
        let least = [1.5, 1.0, 0.3, 0.25, 0.01].map(|part| Sample::at_most(0.0).or_at_least(part));
        assert_eq!(least.map(Sample::one_page_in), [1, 1, 2, 4, 64]);
        assert_eq!(Sample::at_most(0.5).or_at_least(0.01), Sample::at_most(0.5));
        let blocks = 1 << 16;
        let of = |part: f64| Sample::at_most(part);
        assert_eq!([1.0, 0.6, 0.5, 0.1, 0.0].map(|part| of(part).one_page_in()), [1, 2, 2, 16, 1 << 16]);
        assert!((0..blocks).all(|block| Sample::ALL.contains(block * BLOCK_PAGES)));
        for one_in in [2, 16, 64] {
            let _input = trying(|| format!("one in {one_in}"));
            let sample = of(1.0 / f64::from(one_in));
            let inside = (0..blocks).filter(|block| sample.contains(block * BLOCK_PAGES));
            let (mut count, expected) = (0, blocks as f64 / f64::from(one_in));
            for block in inside {
                count += 1;
                let pages = block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES;
                assert!(pages.into_iter().all(|page| sample.contains(page)));
                assert!(of(2.0 / f64::from(one_in)).contains(block * BLOCK_PAGES));
            }
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{count} of {expected}");
        }
    }

    #[test]
    fn a_huge_page_is_in_a_sample_as_a_whole() {
        let table = |is_large| Table { is_large, ..Table::default() };
        let sample = Sample::at_most(0.25);
        let all = |words: [bool; 8]| words.iter().all(|is_in| *is_in == words[0]);
        assert!((0..100).all(|number| all(sample.words(number, &table(true)))));
        assert!(!(0..100).all(|number| all(sample.words(number, &table(false)))));
    }

    /// The error that a sample tells is that which it has, over many samples.
    #[test]
    fn the_error_that_is_told_is_that_of_the_sample() {
        let mut random = sweephand_policy::SplitMix64::new(1);
        // Blocks of which a third is used in full, a third in part, and a third not at all.
        let blocks: Vec<(u32, u32)> = (0..4000)
            .map(|block| {
                let resident = 1 + random.below(64) as u32;
                (resident, [resident, random.below(u64::from(resident) + 1) as u32, 0][block % 3])
            })
            .collect();
        let all: f64 = blocks.iter().map(|(_, used)| f64::from(*used)).sum();
        let resident: f64 = blocks.iter().map(|(resident, _)| f64::from(*resident)).sum();
        let (mut squares, mut told) = (0.0, 0.0);
        const ROUNDS: u32 = 400;
        for _ in 0..ROUNDS {
            let mut spread = Spread::default();
            for (resident, used) in &blocks {
                if random.below(16) == 0 {
                    spread.add(*resident, *used);
                }
            }
            squares += (spread.used * resident / spread.resident - all).powi(2);
            told += spread.error(16);
        }
        let (is, told) = ((squares / f64::from(ROUNDS)).sqrt(), told / f64::from(ROUNDS));
        assert!((told / is - 1.0).abs() < 0.15, "{told} told, {is} is");
        let mut alike = Spread::default();
        (0..100).for_each(|_| alike.add(64, 64));
        assert_eq!((alike.error(1), alike.error(16)), (0.0, 0.0));
    }
}
