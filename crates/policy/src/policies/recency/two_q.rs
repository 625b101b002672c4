//! 2Q: keeps a page for long only if it is referenced again after it has left a short queue.
//!
//! Paper: T. Johnson, D. Shasha, "2Q: a low overhead high performance buffer management replacement
//! algorithm", VLDB 1994, the full version.
//!
//! Pages come into the FIFO queue A1in. A1out, a FIFO queue of ghosts, remembers the pages that
//! leave it. A fault on a ghost brings the page into the LRU list Am. References to a page in A1in
//! count as correlated and do nothing.
//!
//! Choices where the paper is silent: it recommends 25 % of memory for A1in and ghosts for 50 %.
//! Here (`in`, `out`) both are rounded down and at least 1. A ghost that is faulted on leaves A1out
//! before room is made, so the page that makes room cannot push it out. If Am is empty, A1in gives
//! the victim.
//!
//! In the listing the ghost leaves A1out after room has been made, so the page that makes room
//! counts beside it. That order changes 2 of 27 cells of three small classic traces, by at most
//! 0.06 points of hit ratio. libCacheSim has the order that is here: 52 of 52 cells of four traces
//! (cpp, gli, multi2 and sprite) are equal.
//!
//! Cost: hit at most one list move; fault O(1). 9 bytes a page seen.
//!
//! ```text
//!   insert (unseen) --> [ A1in ] -- |A1in| > Kin --> ( A1out ) -- more than Kout --> forgotten
//!                                                        | fault
//!                                                        v
//!                    hit: to the recent end --> [ Am: LRU ] -- |A1in| <= Kin --> forgotten
//! ```

use crate::arguments::{Parameter, Rounding};
use crate::collections::{GHOSTS as A1_OUT, MAIN as AM, Probation, SMALL as A1_IN};
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

/// Former ghosts that are being loaded.
const RETURNING: usize = 3;

/// 2Q, full version.
#[derive(Debug)]
pub struct TwoQ {
    /// A1in has pages seen once lately, A1out its ghosts, and Am pages seen again, the least
    /// recently used in front.
    queues: Probation<4>,
}

impl Registered for TwoQ {
    const INFO: Info = Info {
        name: "2q",
        summary: "a queue for pages seen once, an LRU list for those seen again after leaving it",
        paper: "Johnson, Shasha, 2Q, VLDB 1994 (full version)",
        parameters: &[
            Parameter { name: "in", default: "25%", meaning: "length of the queue of pages seen once" },
            Parameter { name: "out", default: "50%", meaning: "pages remembered after leaving that queue" },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let pages = |name| arguments.pages(name, frames, Rounding::Down).map(|pages| pages.max(1));
        // A1in gives up pages when it is longer than Kin.
        Ok(Self { queues: Probation::new(frames, pages("in")?.saturating_add(1), pages("out")?) })
    }
}

impl Policy for TwoQ {
    type Model = ExactModel;

    fn fault(&mut self, reference: Reference) {
        if self.queues.lists.list_of(reference.page) == Some(A1_OUT) {
            self.queues.lists.move_to_back(RETURNING, reference.page);
        }
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.queues.lists.front(self.queues.next_list(self.queues.lists.len(A1_IN)))
    }

    fn evict(&mut self, page: PageId) {
        self.queues.evict(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        // A ghost that was loaded without a fault (ahead of need) has not been referenced again.
        let list = if self.queues.lists.remove(reference.page) == Some(RETURNING) { AM } else { A1_IN };
        self.queues.lists.push_back(list, reference.page);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        if self.queues.lists.list_of(reference.page) == Some(AM) {
            self.queues.lists.move_to_back(AM, reference.page);
        }
    }

    fn remove(&mut self, page: PageId) {
        self.queues.lists.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        self.queues.check(self.queues.lists.len(A1_IN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `A1in | A1out | Am`, oldest first.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<TwoQ>::new("2q", 4);
        let states = machine.trace(&[1, 2, 3, 4, 5, 1, 6, 2, 1, 7, 3, 2], |machine| {
            let list = |list| {
                let pages = machine.policy().queues.lists.iter(list).map(|page| page.to_string());
                pages.collect::<Vec<_>>().join(" ")
            };
            format!("{} | {} | {}", list(A1_IN), list(A1_OUT), list(AM))
        });
        assert_eq!(
            states,
            [
                "1 |  | ",
                "1 2 |  | ",
                "1 2 3 |  | ",
                "1 2 3 4 |  | ",
                "2 3 4 5 | 1 | ",
                "3 4 5 | 2 | 1", // 1 was a ghost
                "4 5 6 | 2 3 | 1",
                "5 6 | 3 4 | 1 2",
                "5 6 | 3 4 | 2 1",
                "6 7 | 4 5 | 2 1",
                "7 3 | 5 6 | 2 1", // 3 had been forgotten
                "7 3 | 5 6 | 1 2",
            ]
        );
    }
}
