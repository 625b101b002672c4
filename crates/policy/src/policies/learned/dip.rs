//! DIP: LRU that loads most pages at the end that is evicted next, if that takes fewer faults.
//!
//! Paper: M. K. Qureshi, A. Jaleel, Y. N. Patt, S. C. Steely Jr., J. Emer, "Adaptive insertion
//! policies for high performance caching", ISCA 2007.
//!
//! As in LRU, the victim is the least recently used page, and a hit makes a page the most recently
//! used one. The place of a new page differs:
//! - `variant=lip` loads pages at the LRU end. On a loop longer than memory, all but one frame keep
//!   their pages.
//! - `bip` (bimodal) does the same, but loads one page in `one-in` (32) at the MRU end, and so
//!   adapts.
//! - `dip` (dynamic) always loads pages with id mod 64 = 0 by LRU and pages with id mod 64 = 1 by
//!   BIP. A counter of the faults on these samples (PSEL, 10 bits) chooses for all other pages.
//!
//! Choices where the paper is silent: in a processor cache, samples are sets. Memory is one set, so
//! here samples are pages. They share memory, so a sample's faults say less than a set's: what BIP
//! loads for one page is evicted for all the others, which favours LRU. PSEL starts at 512, which
//! means BIP. The rule holds while memory fills, too.
//!
//! Cost: hit one list move; fault O(1).
//!
//! ```text
//!   insert (LRU; BIP once in 32) --> [ back ... front ] -> evict      hit: to the back
//!            insert (BIP, LIP otherwise) --------^
//! ```

use crate::arguments::Parameter;
use crate::collections::Lists;
use crate::interface::ensure;
use crate::policies::recency::random::{SEED, generator};
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, SplitMix64, Violation,
};

const STACK: usize = 0;

/// Set duelling with pages for sets: the faults of two samples of pages decide between two rules
/// for all the others.
#[derive(Debug)]
pub(super) struct Duel {
    /// PSEL: rises with faults on the first rule's sample, falls with those on the second's; 10
    /// bits.
    selector: u16,
}

impl Default for Duel {
    fn default() -> Self {
        Self { selector: Self::MIDDLE }
    }
}

impl Duel {
    /// Each rule has a sample of one page in this many.
    pub(super) const PAGES_A_SAMPLE: u32 = 64;
    const MIDDLE: u16 = 512;
    const MOST: u16 = 1023;

    pub(super) fn count_fault(&mut self, page: PageId) {
        match page.0 % Self::PAGES_A_SAMPLE {
            0 => self.selector = (self.selector + 1).min(Self::MOST),
            1 => self.selector = self.selector.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether the second rule applies to a page.
    pub(super) fn is_second(&self, page: PageId) -> bool {
        match page.0 % Self::PAGES_A_SAMPLE {
            0 => false,
            1 => true,
            _ => self.selector >= Self::MIDDLE,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Dynamic,
    Bimodal,
    LruEnd,
}

/// Dynamic insertion policy.
#[derive(Debug)]
pub struct Dip {
    frames: usize,
    /// Resident pages, the next to evict in front.
    resident: Lists<1>,
    variant: Variant,
    /// On average, one bimodal insertion in this many goes to the MRU end.
    one_in: u64,
    duel: Duel,
    random: SplitMix64,
}

impl Registered for Dip {
    const INFO: Info = Info {
        name: "dip",
        summary: "LRU that loads most pages at the LRU end where that takes fewer faults",
        paper: "Qureshi, Jaleel, Patt, Steely, Emer, Adaptive insertion policies for high performance caching, ISCA 2007",
        parameters: &[
            Parameter { name: "variant", default: "dip", meaning: "dip, bip or lip" },
            Parameter {
                name: "one-in",
                default: "32",
                meaning: "of how many pages loaded by bip one goes to the MRU end, on average",
            },
            SEED,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let variants = [("dip", Variant::Dynamic), ("bip", Variant::Bimodal), ("lip", Variant::LruEnd)];
        Ok(Self {
            frames,
            resident: Lists::new(),
            variant: arguments.choice("variant", &variants)?,
            one_in: arguments.whole("one-in", 1..=u64::MAX)?,
            duel: Duel::default(),
            random: generator(arguments)?,
        })
    }
}

impl Policy for Dip {
    type Model = ExactModel;
    const IDS_MATTER_MODULO: u32 = Duel::PAGES_A_SAMPLE;

    fn fault(&mut self, reference: Reference) {
        self.duel.count_fault(reference.page);
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.resident.front(STACK)
    }

    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let at_lru_end = match self.variant {
            Variant::LruEnd => true,
            Variant::Dynamic if !self.duel.is_second(reference.page) => false,
            Variant::Dynamic | Variant::Bimodal => self.random.below(self.one_in) != 0,
        };
        if at_lru_end {
            self.resident.push_front(STACK, reference.page);
        } else {
            self.resident.push_back(STACK, reference.page);
        }
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.resident.move_to_back(STACK, reference.page);
    }

    fn remove(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len(STACK) <= self.frames, "{} pages resident", self.resident.len(STACK));
        ensure!(self.duel.selector <= Duel::MOST, "PSEL = {}", self.duel.selector);
        self.resident.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E2, Machine, faults, for_random_strings, run};

    /// From the LRU end to the MRU end.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Dip>::new("dip:variant=lip", 3);
        let states = machine.trace(&[1, 2, 3, 1, 4, 5, 5, 6], |machine| {
            let pages = machine.policy().resident.iter(STACK).map(|page| page.to_string());
            pages.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(states, ["1", "2 1", "3 2 1", "3 2 1", "4 2 1", "5 2 1", "2 1 5", "6 1 5"]);
    }

    #[test]
    fn when_each_page_goes_to_the_mru_end_it_is_lru() {
        for_random_strings(|string, frames| {
            assert_eq!(run("dip:variant=bip,one-in=1", string, frames), run("lru", string, frames));
        });
    }

    /// Faults on a rule's sample count against it; page 1, the first here, speaks against BIP by a
    /// hair.
    #[test]
    fn faults_on_the_samples_decide_for_the_others() {
        let mut machine = Machine::<Dip>::new("dip", 3);
        let selector = |machine: &Machine<Dip>| machine.policy().duel.selector;
        let selectors = machine.trace(&[2, 1, 3, 64, 0, 65], |machine| selector(machine).to_string());
        assert_eq!(selectors, ["512", "511", "511", "512", "513", "512"]);
        let is_second = [0, 1, 2].map(|page| machine.policy().duel.is_second(PageId(page)));
        assert_eq!(is_second, [false, true, true]);
    }

    #[test]
    fn lip_keeps_all_but_one_frame_of_a_loop() {
        assert_eq!([faults("dip:variant=lip", E2, 4), faults("lru", E2, 4)], [9, 15]);
    }
}
