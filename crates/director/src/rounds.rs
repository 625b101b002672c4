//! Rounds: how often a program has been through its memory.
//!
//! A program that hardly computes has hardly any user time by which to tell how far it comes
//! (`trial`). If it goes through its memory over and over, the faults tell. Whoever chooses the
//! pages that go, those that went come back once a round. So a round is over when a number of
//! different pages have come back. Only pages of a sample are followed.
//!
//! A policy that keeps throwing out the same few pages makes them come back soon. That is no round,
//! because they are too few.

use crate::pages::SpaceId;
use rustc_hash::FxHashMap;

/// One page in this many is followed.
const SAMPLED_PART: u64 = 64;
/// Different pages of the sample that come back in a round.
const RETURNS: usize = 32;
/// A page that faults again after so few other faults has come twice for one use.
const SAME: u64 = 64;
/// Pages that a round can go through, as a multiple of the limit. A program that goes through more
/// gains nothing by a policy, which can keep an eighth of them at most. A program that only takes
/// new memory never ends a round.
const MOST_PART: usize = 8;

/// The rounds so far, and what belongs to the present one.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Most pages to follow at a time.
    most: usize,
    /// Faults so far.
    faults: u64,
    /// By page of the sample: the first fault of this round. `None`: the page has come back.
    first: FxHashMap<(SpaceId, u64), Option<u64>>,
    returns: usize,
    done: u64,
}

impl Rounds {
    /// For a limit in pages.
    pub(crate) fn new(limit_pages: usize) -> Self {
        let most = (MOST_PART * limit_pages).div_ceil(SAMPLED_PART as usize).max(2 * RETURNS);
        Self { most, faults: 0, first: FxHashMap::default(), returns: 0, done: 0 }
    }

    /// A page was touched that was not mapped.
    pub(crate) fn fault(&mut self, space: SpaceId, number: u64) {
        self.faults += 1;
        // Neighbours are in different samples. Steps of a power of two do not hit or miss all.
        if number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (SAMPLED_PART - 1) != 0 {
            return;
        }
        let first = self.first.entry((space, number)).or_insert(Some(self.faults));
        if first.is_some_and(|first| self.faults - first > SAME) {
            *first = None;
            self.returns += 1;
        }
        if self.returns == RETURNS {
            self.done += 1;
            self.begin();
        } else if self.first.len() > self.most {
            self.begin();
        }
    }

    /// A round begins. What came before does not count.
    pub(crate) fn begin(&mut self) {
        self.first.clear();
        self.returns = 0;
    }

    /// Bytes that this takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.first.capacity() * (size_of::<((SpaceId, u64), Option<u64>)>() + 1)
    }

    /// Rounds that are over.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_policy::SplitMix64;

    const SPACE: SpaceId = SpaceId(0);
    const PAGES: u64 = 20_000;

    /// The faults until this many rounds are over.
    fn faults_for(rounds: u64, mut next: impl FnMut() -> u64) -> u64 {
        let mut seen = Rounds::new(PAGES as usize / 2);
        while seen.done() < rounds && seen.faults < 100 * PAGES * rounds {
            seen.fault(SPACE, next());
        }
        seen.faults
    }

    #[test]
    fn a_loop_is_counted_whether_all_of_its_pages_fault_or_few() {
        for faulting in [PAGES, PAGES / 2, PAGES / 4] {
            for step in [1, 64, 4096] {
                let mut at = 0;
                let faults = faults_for(10, || {
                    at += 1;
                    at % faulting * step
                });
                let rounds = faults as f64 / faulting as f64;
                assert!(
                    (10.0..20.0).contains(&rounds),
                    "{faulting} pages, step {step}: {rounds} times round for 10"
                );
            }
        }
    }

    #[test]
    fn a_few_pages_that_come_again_and_again_are_no_round() {
        let mut random = SplitMix64::new(5);
        assert_eq!(faults_for(1, || random.below(500)), 100 * PAGES, "it never ends");
    }

    #[test]
    fn a_program_that_only_takes_new_memory_is_not_remembered() {
        let mut seen = Rounds::new(PAGES as usize);
        (0..100 * PAGES).for_each(|page| seen.fault(SPACE, page));
        assert_eq!(seen.done(), 0);
        assert!(seen.bytes() < 16 * PAGES as usize, "{} bytes", seen.bytes());
    }

    #[test]
    fn a_page_that_faults_twice_for_one_use_has_not_come_back() {
        let mut at = 0;
        let faults = faults_for(1, || {
            at += 1;
            at / 2
        });
        assert_eq!(faults, 100 * PAGES, "each page is used once");
    }
}
