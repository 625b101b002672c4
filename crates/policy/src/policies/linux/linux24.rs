//! The two lists of Linux 2.4: pages found referenced on the inactive list move to the active one.
//!
//! As described in S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK
//! replacement", USENIX ATC 2005, section 5.2. The kernel's code (mm/vmscan.c) does more than that.
//!
//! New pages come in at the head of the inactive list. Memory is reclaimed from its tail. A page
//! whose bit is set moves to the active list instead. So promotion happens only when the scan gets
//! there, not when the page is used. The active list is a clock. It gives pages back to the
//! inactive list while it has more than two thirds of memory.
//!
//! Choices where the description is silent: the active list has two thirds of memory, rounded down
//! (`active`). The refill looks at a page at most twice. With an empty inactive list, the oldest
//! active page becomes inactive whatever its bit says.
//!
//! Cost: hit nothing; fault amortised O(1). `hand_steps` counts list entries looked at.
//!
//! ```text
//!   insert --> [ inactive: FIFO ] -- bit clear --> evicted
//!                |            ^
//!        bit set |            | bit clear, while |active| > 2 M / 3
//!      (cleared) v            |
//!              [ active: clock ] <--+ bit set (cleared): to the head
//!                        +----------+
//! ```

use crate::arguments::{Parameter, Rounding};
use crate::collections::Lists;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

const ACTIVE: usize = 0;
const INACTIVE: usize = 1;

/// Active and inactive list.
#[derive(Debug)]
pub struct Linux24 {
    frames: usize,
    /// Tails in front, heads at the back.
    lists: Lists<2>,
    /// Target length of the active list.
    active_pages: usize,
    /// List entries looked at.
    hand_steps: u64,
}

impl Registered for Linux24 {
    const INFO: Info = Info {
        name: "linux24",
        summary: "active and inactive list of Linux 2.4",
        paper: "Jiang, Chen, Zhang, CLOCK-Pro, USENIX ATC 2005, section 5.2",
        parameters: &[
            Parameter {
                name: "active",
                default: "2/3",
                meaning: "length above which the active list gives up pages: 2/3, pages or share",
            },
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let active_pages = match arguments.value("active") {
            "2/3" => 2 * frames / 3,
            _ => arguments.pages("active", frames, Rounding::Down)?,
        };
        Ok(Self { frames, lists: Lists::new(), active_pages, hand_steps: 0 })
    }
}

impl Linux24 {
    /// Looks at a page's bit and clears it.
    fn look<M: Mmu>(&mut self, page: PageId, mmu: &mut M) -> bool {
        self.hand_steps += 1;
        mmu.test_and_clear_referenced(page)
    }

    fn move_to_head(&mut self, list: usize, page: PageId) {
        self.lists.remove(page);
        self.lists.push_back(list, page);
    }

    /// Makes active pages inactive until the active list is short enough and the inactive one not
    /// empty.
    fn refill<M: Mmu>(&mut self, mmu: &mut M) {
        for _ in 0..2 * self.lists.len(ACTIVE) {
            if self.lists.len(ACTIVE) <= self.active_pages {
                break;
            }
            let Some(page) = self.lists.front(ACTIVE) else { break };
            let list = if self.look(page, mmu) { ACTIVE } else { INACTIVE };
            self.move_to_head(list, page);
        }
        if self.lists.is_empty(INACTIVE)
            && let Some(page) = self.lists.front(ACTIVE)
        {
            self.look(page, mmu);
            self.move_to_head(INACTIVE, page);
        }
    }
}

impl Policy for Linux24 {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        // Every promotion clears a bit, and nothing sets one meanwhile.
        for _ in 0..=self.lists.len(ACTIVE) + self.lists.len(INACTIVE) {
            self.refill(mmu);
            let page = self.lists.front(INACTIVE)?;
            if !self.look(page, mmu) {
                return Some(page);
            }
            self.move_to_head(ACTIVE, page);
        }
        unreachable!("all bits have been cleared")
    }

    fn evict(&mut self, page: PageId) {
        self.lists.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.lists.push_back(INACTIVE, reference.page);
        false
    }

    fn remove(&mut self, page: PageId) {
        self.lists.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let (active, inactive) = (self.lists.len(ACTIVE), self.lists.len(INACTIVE));
        ensure!(active + inactive <= self.frames, "{active} + {inactive} pages resident");
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `active | inactive`, tails first; `*` marks a set bit.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Linux24>::new("linux24", 3);
        let states = machine.trace(&[1, 2, 3, 1, 2, 4, 2, 5, 4, 5, 6], |machine| {
            let show = |page| if machine.is_referenced(page) { format!("{page}*") } else { page.to_string() };
            let list = |list| machine.policy().lists.iter(list).map(show).collect::<Vec<_>>().join(" ");
            format!("{} | {}", list(ACTIVE), list(INACTIVE))
        });
        assert_eq!(
            states,
            [
                " | 1",
                " | 1 2",
                " | 1 2 3",
                " | 1* 2 3",
                " | 1* 2* 3", // not promoted yet
                "1 2 | 4",    // now 1 and 2 are, and 3 goes
                "1 2* | 4",
                "1 2* | 5",
                "1 2* | 4",
                "1 2* | 5",
                "1 2* | 6",
            ]
        );
        // With 6 referenced too the active list has three pages; 1 was not used and comes back to
        // be evicted.
        assert_eq!([6, 7].map(|page| machine.access(page).victim), [None, Some(1)]);
    }
}
