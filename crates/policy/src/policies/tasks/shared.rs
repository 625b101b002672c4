//! A policy for one reference string that manages the pages of all tasks.

use super::cleaning_clock::available;
use crate::{
    LoadControl, NEVER, PageId, Policy, Reclaim, Reference, TaskMmu, TaskPolicy, Violation, VmModel,
};

/// Any [`VmModel`] policy as a *global* one over the pages of all tasks; load is
/// controlled by feedback.
///
/// Such a policy knows nothing of dirty pages: it names one victim. If that is dirty it is written
/// first, and when this is done the policy is asked again, so that a page used in the meantime can
/// still be spared. Page numbers are those of the tasks one after the other, and every page belongs
/// to the same object.
#[derive(Debug)]
pub struct Shared<P> {
    policy: P,
}

impl<P> Shared<P> {
    /// The policy over all tasks' pages.
    pub fn new(policy: P) -> Self {
        Self { policy }
    }
}

fn reference(page: PageId) -> Reference {
    Reference { page, page_number: u64::from(page.0), object: 0, next_use: NEVER }
}

impl<P: Policy<Model = VmModel>, M: TaskMmu> TaskPolicy<M> for Shared<P> {
    fn load_control(&self) -> LoadControl {
        LoadControl::Feedback
    }

    fn fault(&mut self, page: PageId, _: &mut M) {
        self.policy.fault(reference(page));
    }

    fn reclaim(&mut self, mmu: &mut M) -> Reclaim {
        match self.policy.victim(mmu) {
            Some(page) if available(page, mmu) => Reclaim::Evict(page),
            _ => Reclaim::Wait,
        }
    }

    fn reclaim_anyway(&mut self, mmu: &mut M) -> Reclaim {
        self.reclaim(mmu)
    }

    fn evict(&mut self, page: PageId) {
        self.policy.evict(page);
    }

    fn insert(&mut self, page: PageId, mmu: &mut M) -> bool {
        self.policy.insert(reference(page), mmu)
    }

    fn remove(&mut self, page: PageId) {
        self.policy.remove(page);
    }

    fn hand_steps(&self) -> Option<u64> {
        Some(self.policy.hand_steps())
    }

    fn check(&self) -> Result<(), Violation> {
        self.policy.check()
    }
}
