//! MRU: evict the page referenced last, that is, just before the fault.
//!
//! H.-T. Chou, D. J. DeWitt, "An evaluation of buffer management strategies for relational database
//! systems", VLDB 1985, use it for loops: on a loop longer than memory the page just used is the
//! one needed last.
//!
//! MRU is a stack policy: the pages resident with M frames are among those resident with M + 1 (R.
//! L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
//! 1970). The order by last use is the same in every memory. So the simulator takes all sizes in
//! one pass.
//!
//! Cost: hit and fault amortised O(1); a hit writes an entry of a log and looks at no other page.
//! 4 bytes a page seen, 10 to 22 more for a resident page.
//!
//! ```text
//! insert, hit -> [ newest ... oldest ]
//!       evict <-
//! ```

use crate::collections::RecencyOrder;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

/// Most recently used.
#[derive(Debug)]
pub struct Mru {
    frames: usize,
    /// Resident pages by their last use.
    resident: RecencyOrder,
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
        Ok(Self { frames, resident: RecencyOrder::new() })
    }
}

impl Policy for Mru {
    type Model = ExactModel;

    const NOT_SAMPLED: Option<&'static str> =
        Some("the frame used last decides, and one frame of a sample's memory stands for many");

    #[inline]
    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.resident.newest()
    }

    #[inline]
    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    #[inline]
    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.resident.touch(reference.page);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.resident.touch(reference.page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.resident.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
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
