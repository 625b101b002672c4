//! Which pages stay in memory: the policy, and what it is shown of the pages.
//!
//! ```text
//!   a page comes in --> arrivals --> the policy --> condemned --> evicted
//!                       (watched)       ^  |        (spared if touched)
//!                                       +--+ reference bits: the sampler, or `anon`
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `anon` | private memory: what is known of the use of its pages |
//! | `tenant` | the lease of frames that the command lends |
//! | `live` | the policy, as the agent sees it |
//! | `bits` | reference bits in software |
//! | `bit_source` | where reference bits come from |
//! | `accessed_bits` | how the agent gets the program that reads the processor's bits |
//! | `exact_bits` | reference bits that can be read |

mod accessed_bits;
pub(crate) mod anon;
mod bit_source;
pub mod bits;
pub mod exact_bits;
pub mod live;
pub(crate) mod tenant;

use crate::choice::bits::{Arrivals, Bits, Sampler};
use crate::choice::exact_bits::ExactBits;
use crate::choice::live::LivePolicy;
use crate::choice::tenant::Tenant;
use crate::state::memory::ProgramMemory;
use crate::state::pages::{Flag, State};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sweephand_policy::PageId;

/// Who chooses the victims.
pub(crate) enum Chooser {
    /// A policy of this process.
    Own(Box<dyn LivePolicy>),
    /// The command, which lends frames to several programs.
    Lent(Tenant),
}

impl Chooser {
    /// The policy, or what passes for one.
    pub(crate) fn policy(&mut self) -> &mut dyn LivePolicy {
        match self {
            Self::Own(policy) => &mut **policy,
            Self::Lent(tenant) => tenant,
        }
    }

    /// The lease, if the command lends frames.
    pub(crate) fn lease(&self) -> Option<&Tenant> {
        match self {
            Self::Own(_) => None,
            Self::Lent(tenant) => Some(tenant),
        }
    }

    /// The same, to change it.
    pub(crate) fn tenant(&mut self) -> Option<&mut Tenant> {
        match self {
            Self::Own(_) => None,
            Self::Lent(tenant) => Some(tenant),
        }
    }
}

/// The choice of pages.
pub(crate) struct Choice {
    /// Who chooses.
    pub(crate) chooser: Chooser,
    /// Frames for which the policy was made.
    pub(crate) policy_frames: usize,
    /// Which pages to unmap, to see whether they are in use.
    pub(crate) sampler: Sampler,
    /// Pages that have come in and do not belong to the policy yet.
    pub(crate) arrivals: Arrivals,
    /// Pages that the policy has given up and that are not evicted yet. An entry is valid while its
    /// page has the flag `Condemned`.
    pub(crate) condemned: Vec<PageId>,
}

impl Choice {
    /// A page is not the policy's any more.
    pub(crate) fn remove(&mut self, page: PageId) {
        self.chooser.policy().remove(page);
    }

    /// Objects have ended. Their pages are gone or belong to other objects.
    pub(crate) fn end_objects(&mut self, ended: &[u32]) {
        ended.iter().for_each(|&object| self.chooser.policy().free_object(object));
    }

    /// A page belongs to this object now.
    pub(crate) fn assign(
        &mut self,
        memory: &mut ProgramMemory,
        page: PageId,
        object: u32,
        exact: Option<ExactBits>,
    ) {
        let Self { chooser, sampler, .. } = self;
        let mut bits = Bits { pages: &mut memory.pages, sampler, exact, choosing: false };
        chooser.policy().assign(page, object, &mut bits);
    }

    /// A page is in memory. If it may be evicted, it is on its way to the policy.
    pub(crate) fn arrive(&mut self, memory: &mut ProgramMemory, page: PageId) {
        match memory.is_kept(page) {
            true => memory.pages.set(page, State::Pinned),
            false => self.arrivals.add(&mut memory.pages, page),
        }
    }

    /// The page that has been longest on its way to the policy, if more than `keep` are on their
    /// way. The caller inserts it.
    pub(crate) fn leave(&mut self, memory: &mut ProgramMemory, keep: usize) -> Option<PageId> {
        self.arrivals.leave(&mut memory.pages, keep)
    }

    /// Reports a fault on a page to the policy.
    pub(crate) fn fault(&mut self, memory: &ProgramMemory, page: PageId) {
        self.chooser.policy().fault(memory.reference(page));
    }

    /// Gives a page to the policy. The caller has reported its fault, and made room for it.
    pub(crate) fn insert(&mut self, memory: &mut ProgramMemory, page: PageId, exact: Option<ExactBits>) {
        let reference = memory.reference(page);
        let Self { chooser, sampler, .. } = self;
        let mut bits = Bits { pages: &mut memory.pages, sampler, exact, choosing: false };
        if chooser.policy().insert(reference, &mut bits) {
            memory.pages.mark(page, Flag::Referenced, true);
        }
    }

    /// Lets the policy choose a page to evict, if it has one.
    pub(crate) fn condemn(&mut self, memory: &mut ProgramMemory, exact: Option<ExactBits>) -> Option<PageId> {
        let Self { chooser, sampler, .. } = self;
        let mut bits = Bits { pages: &mut memory.pages, sampler, exact, choosing: true };
        let page = chooser.policy().victim(&mut bits)?;
        chooser.policy().evict(page);
        self.mark_condemned(memory, page);
        Some(page)
    }

    /// A page has to go that the policy does not have, or no longer has.
    pub(crate) fn mark_condemned(&mut self, memory: &mut ProgramMemory, page: PageId) {
        memory.pages.mark(page, Flag::Condemned, true);
        self.condemned.push(page);
    }

    /// Takes this many entries, the oldest first, out of the list of the condemned. Pages that have
    /// gone meanwhile, or were touched, are left out. A page that was touched and condemned again
    /// has two entries, and is taken once.
    pub(crate) fn take_condemned(&mut self, memory: &ProgramMemory, count: usize) -> Vec<PageId> {
        let mut victims: Vec<PageId> = self.condemned.drain(..count).collect();
        victims.retain(|&page| memory.pages.has(page, Flag::Condemned));
        victims.sort_unstable_by_key(|page| page.0);
        victims.dedup();
        victims
    }

    /// Leaves those out of the list of the condemned that have gone meanwhile. They make no room.
    pub(crate) fn forget_spared(&mut self, memory: &ProgramMemory) {
        self.condemned.retain(|&page| memory.pages.has(page, Flag::Condemned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::live;
    use crate::spec::LiveSpec;

    fn choice(frames: usize, arriving: usize) -> Choice {
        let policy = live::make(&LiveSpec::parse("fifo").unwrap(), frames).unwrap();
        Choice {
            chooser: Chooser::Own(policy),
            policy_frames: frames,
            sampler: Sampler::default(),
            arrivals: Arrivals::new(arriving, 0),
            condemned: Vec::new(),
        }
    }

    fn come_in(choice: &mut Choice, memory: &mut ProgramMemory, number: usize) -> (PageId, Option<PageId>) {
        let page = memory.pages.find_or_insert(0x10_0000 + number * 0x1000);
        memory.pages.set(page, State::RESIDENT);
        choice.arrive(memory, page);
        let left = choice.leave(memory, choice.arrivals.most());
        if let Some(left) = left {
            choice.fault(memory, left);
            choice.insert(memory, left, None);
        }
        (page, left)
    }

    #[test]
    fn a_page_gets_to_the_policy_when_others_have_arrived_and_is_condemned_in_its_turn() {
        let (mut choice, mut memory) = (choice(8, 2), ProgramMemory::default());
        let pages: Vec<_> = (0..4).map(|number| come_in(&mut choice, &mut memory, number)).collect();
        let left: Vec<_> = pages.iter().map(|(_, left)| *left).collect();
        assert_eq!(left, [None, None, Some(pages[0].0), Some(pages[1].0)]);
        assert_eq!(choice.condemn(&mut memory, None), Some(pages[0].0));
        assert_eq!(choice.condemn(&mut memory, None), Some(pages[1].0));
        assert_eq!(choice.condemn(&mut memory, None), None, "the others have not got there yet");
        // The first is touched again.
        memory.pages.mark(pages[0].0, Flag::Condemned, false);
        assert_eq!(choice.take_condemned(&memory, 2), [pages[1].0]);
        assert!(choice.condemned.is_empty());
    }

    #[test]
    fn a_page_that_is_touched_and_condemned_again_is_taken_once() {
        let (mut choice, mut memory) = (choice(8, 0), ProgramMemory::default());
        let (page, _) = come_in(&mut choice, &mut memory, 0);
        assert_eq!(choice.condemn(&mut memory, None), Some(page));
        memory.pages.mark(page, Flag::Condemned, false);
        choice.insert(&mut memory, page, None);
        assert_eq!(choice.condemn(&mut memory, None), Some(page));
        assert_eq!(choice.take_condemned(&memory, 2), [page]);
    }

    #[test]
    fn a_page_that_must_stay_is_pinned_and_not_the_policys() {
        let (mut choice, mut memory) = (choice(8, 0), ProgramMemory::default());
        memory.kept.insert(0x10_0000, 1);
        let (page, left) = come_in(&mut choice, &mut memory, 0);
        assert_eq!((memory.pages.state(page), left), (State::Pinned, None));
        assert_eq!(choice.condemn(&mut memory, None), None);
    }
}
