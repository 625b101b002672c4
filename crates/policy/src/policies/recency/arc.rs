//! ARC: recency and frequency share memory, and ghosts tell which of the two deserves more.
//!
//! Paper: N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", USENIX
//! FAST 2003, Figure 4.
//!
//! T1 holds the pages seen once recently, T2 those seen at least twice, both in LRU order. B1 and
//! B2 remember the pages that left them. A fault on a ghost of B1 says that T1 is too small and
//! raises its target size p. A fault on a ghost of B2 lowers p.
//!
//! Choices where the paper is silent: |B2|/|B1| is a real division here, not an integer one. The
//! target moves when the fault happens, with the sizes before anything else changes. Ghosts are
//! dropped when an unseen page comes in. This forgets the same pages as dropping them before the
//! replacement. If T2 is empty, T1 gives the victim.
//!
//! Cost: hit one list move; fault O(1). 9 bytes a page seen.
//!
//! ```text
//!   insert (unseen) --> [ T1, about p pages ] -- evict --> ( B1 ) --> forgotten
//!                          | hit                             | fault: p grows
//!                          v                                 v
//!                       [ T2, the rest ] <-------------------+
//!                          |    ^ hit; fault on B2: p shrinks
//!                          +--- evict --> ( B2 ) --> forgotten
//! ```

use crate::collections::Lists;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

/// The lists of the cache directory.
pub(super) const T1: usize = 0;
pub(super) const T2: usize = 1;
pub(super) const B1: usize = 2;
pub(super) const B2: usize = 3;

/// Adaptive replacement cache.
#[derive(Debug)]
pub struct Arc {
    frames: usize,
    /// All with the oldest page in front.
    lists: Lists<4>,
    /// Target size of T1, 0 to `frames`. Grows at faults on B1, shrinks at faults on B2.
    p: f64,
    /// The page faulted on, until it is inserted.
    faulting: Option<PageId>,
}

impl Registered for Arc {
    const INFO: Info = Info {
        name: "arc",
        summary: "LRU lists for pages seen once and seen again, whose sizes adapt by ghosts",
        paper: "Megiddo, Modha, ARC: a self-tuning, low overhead replacement cache, USENIX FAST 2003",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, lists: Lists::new(), p: 0.0, faulting: None })
    }
}

impl Policy for Arc {
    type Model = ExactModel;

    fn fault(&mut self, reference: Reference) {
        self.faulting = Some(reference.page);
        let (b1, b2) = (self.lists.len(B1) as f64, self.lists.len(B2) as f64);
        match self.lists.list_of(reference.page) {
            Some(B1) => self.p = (self.p + (b2 / b1).max(1.0)).min(self.frames as f64),
            Some(B2) => self.p = (self.p - (b1 / b2).max(1.0)).max(0.0),
            _ => {}
        }
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let t1 = self.lists.len(T1) as f64;
        let for_b2 = self.faulting.is_some_and(|page| self.lists.list_of(page) == Some(B2));
        let t1_is_large = t1 > self.p || (for_b2 && t1 == self.p);
        let from_t1 = self.lists.is_empty(T2) || (t1 > 0.0 && t1_is_large);
        self.lists.front(if from_t1 { T1 } else { T2 })
    }

    fn evict(&mut self, page: PageId) {
        let ghosts = if self.lists.list_of(page) == Some(T1) { B1 } else { B2 };
        self.lists.move_to_back(ghosts, page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.faulting = None;
        let list = if self.lists.remove(reference.page).is_some() {
            T2
        } else {
            let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| self.lists.len(list));
            if t1 + b1 >= self.frames {
                self.lists.pop_front(B1);
            } else if t1 + t2 + b1 + b2 >= 2 * self.frames {
                self.lists.pop_front(B2);
            }
            T1
        };
        self.lists.push_back(list, reference.page);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.lists.move_to_back(T2, reference.page);
    }

    fn remove(&mut self, page: PageId) {
        self.lists.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        let (t1, b1) = (self.lists.len(T1), self.lists.len(B1));
        ensure!(t1 + b1 <= self.frames, "|T1| + |B1| = {t1} + {b1} > {}", self.frames);
        check_directory(&self.lists, self.frames, self.p)
    }
}

/// What ARC and CAR have in common: at most as many ghosts as make 2 M entries with the resident
/// pages, and 0 <= p <= M.
pub(super) fn check_directory(lists: &Lists<4>, frames: usize, p: f64) -> Result<(), Violation> {
    let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| lists.len(list));
    ensure!(t1 + t2 <= frames, "{t1} + {t2} pages resident");
    ensure!(t1 + t2 + b1 + b2 <= 2 * frames, "{t1} + {t2} + {b1} + {b2} entries > 2 x {frames}");
    ensure!((0.0..=frames as f64).contains(&p), "p = {p} is not within 0..={frames}");
    lists.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `T1 | T2 | B1 | B2, p` after each reference, oldest pages first.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Arc>::new("arc", 3);
        let states = machine.trace(&[1, 2, 3, 1, 4, 2, 5, 1, 6, 3, 2, 4], |machine| {
            let arc = machine.policy();
            let list = |list| arc.lists.iter(list).map(|page| page.to_string()).collect::<Vec<_>>().join(" ");
            format!("{} | {} | {} | {}, {}", list(T1), list(T2), list(B1), list(B2), arc.p)
        });
        assert_eq!(
            states,
            [
                "1 |  |  | , 0",
                "1 2 |  |  | , 0",
                "1 2 3 |  |  | , 0",
                "2 3 | 1 |  | , 0",
                "3 4 | 1 | 2 | , 0",
                "4 | 1 2 | 3 | , 1",
                "4 5 | 2 | 3 | 1, 1", // |T1| = p, so T2 gives the victim
                "5 | 2 1 | 3 4 | , 0",
                "6 | 2 1 | 4 5 | , 0",
                "3 | 2 1 | 5 6 | , 0",
                "3 | 1 2 | 5 6 | , 0",
                "4 | 1 2 | 6 3 | , 0",
            ]
        );
    }
}
