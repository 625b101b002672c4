//! Page-table clock: the hand walks page numbers, looking only at resident pages.
//!
//! One bit per page number: initially 1, set by hits, cleared when the hand passes, not touched by
//! loading. So a page is protected once after its first load and unprotected after a reload.
//!
//! Decisions:
//! * The hand starts below all page numbers and wraps from above the highest resident page to the
//!   lowest. Numbers without a resident page between two resident ones make no difference, so no
//!   table size enters the model.
//! * A replacement looks at no more than M + 1 pages: one round clears every bit.

use std::collections::HashMap;

use super::Step;

/// The page-table clock with a state that can be printed.
#[derive(Clone, Debug)]
pub struct PageTableClockModel {
    frames: usize,
    resident: Vec<u32>,       // ascending
    bits: HashMap<u32, bool>, // a page without an entry has its initial bit, 1
    /// The lowest page number not yet passed in this round; u64 for the page above u32::MAX.
    hand: u64,
}

impl PageTableClockModel {
    /// An empty memory.
    pub fn new(frames: usize) -> PageTableClockModel {
        assert!(frames >= 1, "a memory has at least one frame");
        PageTableClockModel { frames, resident: Vec::new(), bits: HashMap::new(), hand: 0 }
    }

    fn bit(&self, page: u32) -> bool {
        self.bits.get(&page).copied().unwrap_or(true)
    }

    /// One reference.
    pub fn access(&mut self, page: u32) -> Step {
        if self.resident.contains(&page) {
            self.bits.insert(page, true);
            return Step::hit();
        }
        let victim = if self.resident.len() == self.frames { Some(self.replace()) } else { None };
        self.resident.push(page);
        self.resident.sort_unstable();
        Step::fault(victim)
    }

    /// Frees one frame and returns its page.
    fn replace(&mut self) -> u32 {
        for _ in 0..=self.frames {
            let ahead = self.resident.iter().position(|&page| u64::from(page) >= self.hand);
            let position = ahead.unwrap_or(0);
            let page = self.resident[position];
            self.hand = u64::from(page) + 1;
            if !self.bit(page) {
                return self.resident.remove(position);
            }
            self.bits.insert(page, false);
        }
        unreachable!("one round clears every bit")
    }

    /// The resident pages in the order of their numbers as (page, bit), then the hand:
    /// `[(2, 1), (3, 0)] hand 2`.
    pub fn state(&self) -> String {
        let pages: Vec<(u32, u8)> =
            self.resident.iter().map(|&page| (page, u8::from(self.bit(page)))).collect();
        format!("{pages:?} hand {}", self.hand)
    }
}

/// The page-table clock with `frames` frames.
pub fn clock_page_table(references: &[u32], frames: usize) -> Vec<Step> {
    let mut model = PageTableClockModel::new(frames);
    references.iter().map(|&page| model.access(page)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{E1, E3, outcome, outcomes_on_examples};
    use super::{PageTableClockModel, clock_page_table};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(clock_page_table), "11:12312412 | 13:123412341 | 14:1341561237");
    }

    #[test]
    fn a_page_is_protected_after_its_first_load_only() {
        let mut model = PageTableClockModel::new(2);
        for page in [7, 9, 8] {
            model.access(page);
        }
        assert_eq!(model.state(), "[(8, 1), (9, 0)] hand 8");
        model.access(7);
        assert_eq!(model.state(), "[(7, 0), (8, 0)] hand 10");
    }

    #[test]
    fn the_highest_page_number_wraps() {
        for references in [E1, E3] {
            let top = *references.iter().max().unwrap();
            let raised: Vec<u32> = references.iter().map(|&page| page + (u32::MAX - top)).collect();
            let plain = outcome(&clock_page_table(references, 3));
            let back: Vec<_> = clock_page_table(&raised, 3)
                .into_iter()
                .map(|mut step| {
                    step.victims.iter_mut().for_each(|page| *page -= u32::MAX - top);
                    step
                })
                .collect();
            assert_eq!(outcome(&back), plain, "{references:?}");
        }
    }
}
