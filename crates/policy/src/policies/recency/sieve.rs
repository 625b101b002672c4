//! SIEVE: FIFO whose hand evicts unreferenced pages and leaves the others where they are.
//!
//! Paper: Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is simpler than LRU: an
//! efficient turn-key eviction algorithm for web caches", USENIX NSDI 2024.
//!
//! Unlike in CLOCK, new pages go to the head of the list, not to where the hand is, and pages that
//! the hand spares keep their position. So the hand soon passes old pages that stay in use only
//! rarely and works among the new ones.
//!
//! The paper leaves nothing open here. A new page's bit is clear. A hand past the head starts again
//! at the tail.
//!
//! Cost: hit nothing; fault amortised O(1), at worst one turn. `hand_steps` counts pages looked at.
//!
//! ```text
//! tail  a  B  C  d  E  head <- insert     upper case: bit set
//!          ^ hand                          B, C: clear, go on;  d: the victim, the hand goes on to E
//! ```

use crate::collections::{PageMap, Ring};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// SIEVE.
#[derive(Debug)]
pub struct Sieve {
    frames: usize,
    /// The resident pages from the tail to the head, which closes the ring.
    ring: Ring,
    is_resident: PageMap<bool>,
    /// The oldest page, unless there is none.
    tail: PageId,
    /// The next page to look at, unless there is none.
    hand: PageId,
    /// Pages looked at by the hand.
    hand_steps: u64,
}

impl Registered for Sieve {
    const INFO: Info = Info {
        name: "sieve",
        summary: "FIFO whose hand takes out unreferenced pages and leaves the others in place",
        paper: "Zhang, Yang, Yue, Vigfusson, Rashmi, SIEVE is simpler than LRU, USENIX NSDI 2024",
        parameters: &[SETTLE],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            ring: Ring::new(),
            is_resident: PageMap::new(),
            tail: PageId(0),
            hand: PageId(0),
            hand_steps: 0,
        })
    }
}

impl Policy for Sieve {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        if self.ring.is_empty() {
            return None;
        }
        // One turn clears every bit.
        for _ in 0..self.ring.len() {
            self.hand_steps += 1;
            if !mmu.test_and_clear_referenced(self.hand) {
                break;
            }
            self.hand = self.ring.next(self.hand);
        }
        Some(self.hand)
    }

    fn evict(&mut self, page: PageId) {
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        if self.ring.is_empty() {
            self.ring.insert_first(page);
            (self.tail, self.hand) = (page, page);
        } else {
            self.ring.insert_before(self.tail, page);
        }
        self.is_resident.set(page, true);
        false
    }

    fn remove(&mut self, page: PageId) {
        if !self.is_resident.get(page) {
            return;
        }
        self.is_resident[page] = false;
        let next = self.ring.next(page);
        for end in [&mut self.tail, &mut self.hand] {
            if *end == page {
                *end = next;
            }
        }
        self.ring.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.ring.len() <= self.frames, "{} pages resident", self.ring.len());
        let resident = self.is_resident.iter().filter(|(_, resident)| *resident).count();
        ensure!(resident == self.ring.len(), "{resident} pages marked, {} in the list", self.ring.len());
        if self.ring.is_empty() {
            return Ok(());
        }
        for page in [self.tail, self.hand].into_iter().chain(self.ring.iter_from(self.tail)) {
            ensure!(self.is_resident[page], "page {page} is in the list or under the hand, and not marked");
        }
        self.ring.check(self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// From tail to head; `*` marks a set bit, brackets the hand.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Sieve>::new("sieve", 3);
        let states = machine.trace(&[1, 2, 3, 1, 2, 4, 3, 1, 5, 6], |machine| {
            let sieve = machine.policy();
            let page = |page| {
                let text = if machine.is_referenced(page) { format!("{page}*") } else { page.to_string() };
                if page == sieve.hand { format!("[{text}]") } else { text }
            };
            sieve.ring.iter_from(sieve.tail).map(page).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "[1]",
                "[1] 2",
                "[1] 2 3",
                "[1*] 2 3",
                "[1*] 2* 3",
                "[1] 2 4", // 1 and 2 spared, 3 at the head goes: on at the tail
                "[2] 4 3", // 1 goes
                "[4] 3 1", // 2 goes
                "[3] 1 5", // 4 goes: what is new goes to the head, not to the hand
                "[1] 5 6",
            ]
        );
    }

    /// The difference from CLOCK: a page spared is not the last to be looked at again.
    #[test]
    fn a_page_spared_keeps_its_place() {
        let mut machine = Machine::<Sieve>::new("sieve", 3);
        let victims = [1, 2, 3, 1, 4, 5, 6].map(|page| machine.access(page).victim);
        assert_eq!(victims[4..], [Some(2), Some(3), Some(4)]);
        let mut machine = Machine::<crate::policies::Clock>::new("clock", 3);
        let victims = [1, 2, 3, 1, 4, 5, 6].map(|page| machine.access(page).victim);
        assert_eq!(victims[4..], [Some(2), Some(3), Some(1)]);
    }
}
