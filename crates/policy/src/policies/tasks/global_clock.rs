//! Global CLOCK: one hand for the pages of all tasks.
//!
//! Paper: F. J. Corbató, "A paging experiment with the Multics system", 1968, over the frames of
//! all tasks, in the form that R. W. Carr and J. L. Hennessy ("WSCLOCK", SOSP 1981) describe: dirty
//! pages whose use bit is clear are cleaned and passed.
//!
//! The policy does not know what a task needs, so feedback from the paging devices controls the
//! load. Pages of inactive tasks get no special treatment. Nothing sets their bits, so they go
//! within one turn.
//!
//! The reference that waited for a page sets its use bit, as hardware does. If a turn finds only
//! pages that are being cleaned, the policy waits for those. If every bit was set, the second turn
//! finds them clear.
//!
//! Cost: hit nothing; replacement amortised O(1), at worst two turns.

use super::cleaning_clock::CleaningClock;
use crate::registered::{Made, RegisteredTaskPolicy, VM_NEEDS};
use crate::{ArgumentError, Arguments, Info, LoadControl, PageId, Reclaim, TaskMmu, TaskPolicy, Violation};
use alloc::boxed::Box;

/// CLOCK over the frames of all tasks.
#[derive(Debug)]
pub struct GlobalClock {
    clock: CleaningClock,
}

impl RegisteredTaskPolicy for GlobalClock {
    const INFO: Info = Info {
        name: "global-clock",
        summary: "one clock for the pages of all tasks; load controlled by feedback",
        paper: "Corbató, A paging experiment with the Multics system, 1968",
        parameters: &[],
        presets: &[],
    };
    const NEEDS: &'static str = VM_NEEDS;

    fn make<M: TaskMmu>(frames: usize, arguments: &Arguments) -> Result<Option<Made<M>>, ArgumentError> {
        Ok(Some(Box::new(Self::from_arguments(frames, arguments)?)))
    }
}

impl GlobalClock {
    /// Makes the policy for `frames` >= 1 page frames.
    pub fn from_arguments(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { clock: CleaningClock::new(frames) })
    }
}

impl<M: TaskMmu> TaskPolicy<M> for GlobalClock {
    fn load_control(&self) -> LoadControl {
        LoadControl::Feedback
    }

    fn reclaim(&mut self, mmu: &mut M) -> Reclaim {
        for _ in 0..2 {
            match self.clock.circuit(mmu, |page, _, mmu| !mmu.test_and_clear_referenced(page)) {
                Reclaim::Overcommitted => {}
                answer => return answer,
            }
        }
        // No page is in any frame: all are on their way in.
        Reclaim::Wait
    }

    fn reclaim_anyway(&mut self, mmu: &mut M) -> Reclaim {
        self.reclaim(mmu)
    }

    fn evict(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn insert(&mut self, page: PageId, _: &mut M) -> bool {
        self.clock.insert(page);
        true
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn hand_steps(&self) -> Option<u64> {
        Some(self.clock.steps())
    }

    fn check(&self) -> Result<(), Violation> {
        self.clock.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn referenced_pages_are_spared_once_and_dirty_ones_cleaned() {
        let mut desk = Desk::default();
        desk.tasks([(0, true), (0, false)]);
        let [a, b, c] = [0, 1, 0].map(|owner| desk.load(owner));
        let mut policy = GlobalClock { clock: CleaningClock::new(3) };
        for page in desk.pages() {
            assert!(policy.insert(page, &mut desk), "{page:?}");
        }
        desk.reference(a);
        desk.dirty(b);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(c));
        assert_eq!(desk.cleaning(), [b]);
        TaskPolicy::<Desk>::evict(&mut policy, c);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(a), "its bit was cleared in passing");
        desk.reference(a);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Wait, "b is still being written");
        desk.finish_cleaning();
        desk.reference(a);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(b));
        desk.reference(a);
        desk.reference(b);
        assert_eq!(
            policy.reclaim(&mut desk),
            Reclaim::Evict(a),
            "every bit was set: the second turn decides"
        );
    }
}
