//! LIFO: evict the page that was loaded last.
//!
//! Folklore; the simplest policy that does well on a loop longer than memory, where it keeps all
//! but one of the pages that came first and hits them in every round. Once memory is full a single
//! frame turns over, so it never adapts to anything else.
//!
//! Cost: hit nothing; fault O(1).
//!
//! ```text
//! insert -> [ back ... front ]
//!   evict <-
//! ```

use crate::collections::Lists;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

const STACK: usize = 0;

/// Last in, first out.
#[derive(Debug)]
pub struct Lifo {
    frames: usize,
    /// Resident pages, oldest in front.
    resident: Lists<1>,
}

impl Registered for Lifo {
    const INFO: Info = Info {
        name: "lifo",
        summary: "evicts the page that was loaded last",
        paper: "folklore",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, resident: Lists::new() })
    }
}

impl Policy for Lifo {
    type Model = VmModel;

    const NOT_SAMPLED: Option<&'static str> =
        Some("the frame filled last decides, and one frame of a sample's memory stands for many");

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
    fn the_pages_loaded_first_stay() {
        for_random_strings(|string, frames| {
            let steps = run("lifo", string, frames);
            let mut loaded: Vec<u32> = Vec::new();
            for (&page, step) in string.iter().zip(&steps) {
                loaded.extend(step.fault.then_some(page));
                let first = loaded.iter().take(frames - 1);
                assert!(step.victim.is_none_or(|victim| !first.clone().any(|&page| page == victim)));
            }
        });
    }

    /// A loop of 5 pages and 4 frames: one fault a round would be 5 + 2 x 1; LIFO takes 2 a round.
    #[test]
    fn is_near_the_optimum_on_a_loop() {
        assert_eq!([faults("lifo", E2, 4), faults("opt", E2, 4), faults("lru", E2, 4)], [9, 7, 15]);
    }
}
