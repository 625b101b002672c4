//! MGLRU: generations of pages. The oldest generation is evicted, and a walk through the page
//! tables starts a new one.
//!
//! The multi-generational LRU of Linux (Yu Zhao, "Multi-Gen LRU", since version 6.1;
//! Documentation/mm/multigen_lru.rst), for one type of page and without its tiers.
//!
//! A loaded page enters the second youngest generation, as file pages do. Eviction takes the oldest
//! page of the oldest generation. If its bit is set, the page moves to the youngest generation
//! instead. When two generations are left and the older is empty, the pages are aged: the walk
//! moves pages whose bit is set to the youngest generation and clears the bits, and a new, empty
//! generation begins.
//!
//! There is no paper. The kernel does more, which is left out here. It ages as soon as two
//! generations are left, whether or not the older is empty. It walks ahead of need and so has up to
//! four generations. It looks for other referenced pages around one that it finds referenced.
//!
//! With the rule here, at most two generations have pages. The walk finds every page in the
//! youngest generation already. Each page keeps its place, and that generation becomes the older of
//! the two. So two lists that change roles are enough, much as in SIEVE: the youngest generation is
//! what SIEVE's hand has passed. Two things differ. The walk clears all bits, where SIEVE's hand
//! just starts again at the tail. And the walk comes late.
//!
//! A loaded page joins the older generation before the next page is evicted. So when every old page
//! has gone or moved, the loaded page alone is the older generation. It goes next unless it is used
//! before that, and so does the page loaded in its place. The walk comes only after a page was used
//! between two faults. Until then the young generation stays, however long it has been out of use.
//! A program that has moved on to other pages then faults at every page. `bench/throughput` has an
//! example.
//!
//! Cost: hit nothing; fault amortised O(1) in the pages moved: after a walk each page must be moved
//! or evicted before the next. `hand_steps` counts pages whose bit is read, by eviction or by the
//! walk.
//!
//! ```text
//!   insert --> [ older ] -- bit clear, oldest first --> evict
//!                 | bit set (cleared)
//!                 v
//!             [ youngest ] -- older is empty: all bits cleared, becomes the older
//! ```

use crate::collections::Lists;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// Multi-generational LRU.
#[derive(Debug)]
pub struct Mglru {
    frames: usize,
    /// The two generations, oldest pages in front.
    generations: Lists<2>,
    /// Which of the two is the youngest. Changes when pages are aged.
    youngest: usize,
    /// Pages whose bit was read.
    hand_steps: u64,
}

impl Registered for Mglru {
    const INFO: Info = Info {
        name: "mglru",
        summary: "generations of pages as in Linux's multi-generational LRU, simplified",
        paper: "Yu Zhao, Multi-Gen LRU, Linux 6.1 (Documentation/mm/multigen_lru.rst)",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, generations: Lists::new(), youngest: 1, hand_steps: 0 })
    }
}

impl Mglru {
    fn older(&self) -> usize {
        1 - self.youngest
    }

    /// Clears all bits and begins a new generation. The older one is empty.
    fn age<M: Mmu>(&mut self, mmu: &mut M) {
        for page in self.generations.iter(self.youngest) {
            self.hand_steps += 1;
            mmu.test_and_clear_referenced(page);
        }
        self.youngest = self.older();
    }
}

impl Policy for Mglru {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        // At most every page moves once, and then all bits are clear.
        for _ in 0..=self.generations.len(self.older()) {
            let Some(page) = self.generations.front(self.older()) else { break };
            self.hand_steps += 1;
            if !mmu.test_and_clear_referenced(page) {
                return Some(page);
            }
            self.generations.remove(page);
            self.generations.push_back(self.youngest, page);
        }
        self.age(mmu);
        let page = self.generations.front(self.older())?;
        self.hand_steps += 1;
        Some(page)
    }

    fn evict(&mut self, page: PageId) {
        self.generations.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.generations.push_back(self.older(), reference.page);
        false
    }

    fn remove(&mut self, page: PageId) {
        self.generations.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let residents = self.generations.len(0) + self.generations.len(1);
        ensure!(residents <= self.frames, "{residents} pages resident");
        self.generations.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `older | youngest`; `*` marks a set bit.
    #[test]
    fn worked_example() {
        let mut machine = Machine::<Mglru>::new("mglru", 3);
        let states = machine.trace(&[1, 2, 3, 1, 4, 3, 4, 5, 6], |machine| {
            let show = |page| if machine.is_referenced(page) { format!("{page}*") } else { page.to_string() };
            let mglru = machine.policy();
            let list = |list| mglru.generations.iter(list).map(show).collect::<Vec<_>>().join(" ");
            format!("{} | {}", list(mglru.older()), list(mglru.youngest))
        });
        assert_eq!(
            states,
            [
                "1 | ",
                "1 2 | ",
                "1 2 3 | ",
                "1* 2 3 | ",
                "3 4 | 1", // 1 was used, 2 goes
                "3* 4 | 1",
                "3* 4* | 1",
                "3 4 5 | ", // 3 and 4 were used: all young, so aged, and 1 goes as the oldest
                "4 5 6 | ",
            ]
        );
    }
}
