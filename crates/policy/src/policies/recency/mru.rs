//! MRU: evict the page referenced last, that is, just before the fault.
//!
//! H.-T. Chou, D. J. DeWitt, "An evaluation of buffer management strategies for relational database
//! systems", VLDB 1985, use it for loops: on a loop longer than memory the page just used is the
//! one needed last.
//!
//! Cost: hit one list move; fault O(1).
//!
//! ```text
//! insert, hit -> [ back ... front ]
//!       evict <-
//! ```

use crate::collections::Lists;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

const STACK: usize = 0;

/// Most recently used.
#[derive(Debug)]
pub struct Mru {
    frames: usize,
    /// Resident pages, the least recently used in front.
    resident: Lists<1>,
}

impl Registered for Mru {
    const INFO: Info = Info {
        name: "mru",
        summary: "evicts the page referenced last: the optimum on a loop",
        paper: "Chou, DeWitt, An evaluation of buffer management strategies for relational database systems, VLDB 1985",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, resident: Lists::new() })
    }
}

impl Policy for Mru {
    type Model = ExactModel;

    const NOT_SAMPLED: Option<&'static str> =
        Some("the frame used last decides, and one frame of a sample's memory stands for many");

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.resident.back(STACK)
    }

    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.resident.push_back(STACK, reference.page);
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
        self.resident.check()
    }
}

#[cfg(test)]
mod tests {
    use crate::conformance::{E2, faults, for_random_strings, run};

    #[test]
    fn the_victim_is_the_page_of_the_reference_before() {
        for_random_strings(|string, frames| {
            for (pair, step) in string.windows(2).zip(&run("mru", string, frames)[1..]) {
                assert!(step.victim.is_none_or(|victim| victim == pair[0]));
            }
        });
    }

    #[test]
    fn is_the_optimum_on_a_loop() {
        assert_eq!(faults("mru", E2, 4), faults("opt", E2, 4));
    }
}
