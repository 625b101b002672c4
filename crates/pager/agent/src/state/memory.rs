//! What is known about the program's memory. Changes of the program change it (`changes`), and
//! pages that come and go (`faults`, `evict`, `transfer`).

use crate::kernel::PAGE_BYTES;
use crate::mailbox::empty::LastDrops;
use crate::state::objects::Objects;
use crate::state::pages::{Pages, State};
use crate::state::regions::Regions;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use sweephand_policy::{NEVER, PageId, Reference};

/// The program's memory.
#[derive(Debug, Default)]
pub(crate) struct ProgramMemory {
    /// Whether the agent manages the program's memory. If not, the kernel serves it.
    pub(crate) managed: bool,
    /// The managed ranges.
    pub(crate) regions: Regions,
    /// Memory that the program pages itself: see `ceded`.
    pub(crate) ceded: Regions,
    /// Memory that children do not inherit, or inherit wiped.
    pub(crate) not_inherited: Regions,
    /// Large allocations, if the policy tells them apart.
    pub(crate) objects: Objects,
    /// Whether a page could not be read back, and has been poisoned.
    pub(crate) has_lost: bool,
    /// What was dropped last.
    pub(crate) last_drops: LastDrops,
    /// Pages that must never be missing: thread descriptors. The kernel writes to them when a
    /// thread has ended.
    pub(crate) exempt: BTreeSet<usize>,
    /// Pages that must not be missing once they have been touched, each with its number of reasons.
    pub(crate) kept: BTreeMap<usize, usize>,
    /// The page table.
    pub(crate) pages: Pages,
    /// Pinned pages. The first is the next to try again. An entry is valid while its page is
    /// pinned.
    pub(crate) pinned: VecDeque<u32>,
}

impl ProgramMemory {
    /// The pages of a range about which something is known, in address order.
    pub(crate) fn known(&mut self, start: usize, end: usize) -> Vec<PageId> {
        let mut known = Vec::new();
        self.pages.for_each_in(start, end, |pages, page| {
            if pages.state(page) != State::Absent {
                known.push(page);
            }
        });
        known
    }

    /// The parts of a range that are managed.
    pub(crate) fn managed_parts(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut parts = Regions::new();
        parts.add(start, end);
        self.regions.gaps(start, end).into_iter().for_each(|(start, end)| parts.remove(start, end));
        parts.iter().collect()
    }

    /// The parts of a range that the agent may manage and does not.
    pub(crate) fn unmanaged(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let gaps = self.regions.gaps(start, end).into_iter();
        gaps.flat_map(|(start, end)| self.ceded.gaps(start, end)).collect()
    }

    /// There are no guards in a range any more.
    pub(crate) fn forget_guards(&mut self, start: usize, end: usize) {
        self.pages.for_each_in(start, end, |pages, page| {
            if pages.state(page) == State::Guarded {
                pages.set(page, State::Absent);
            }
        });
    }

    /// Whether a page must stay in memory now that it has been touched.
    pub(crate) fn is_kept(&self, page: PageId) -> bool {
        !self.kept.is_empty() && self.kept.contains_key(&self.pages.address(page))
    }

    /// Whether the page at an address is still this one, in this state.
    pub(crate) fn is_still(&self, page: PageId, address: usize, expected: State) -> bool {
        self.pages.find(address) == Some(page) && self.pages.state(page) == expected
    }

    /// Whether the page at an address is still this one, and mapped as far as is known.
    pub(crate) fn is_thought_mapped(&self, page: PageId, address: usize) -> bool {
        self.pages.find(address) == Some(page)
            && matches!(self.pages.state(page), State::Resident { .. } | State::Pinned)
    }

    /// A page in the form in which the policy sees it.
    pub(crate) fn reference(&self, page: PageId) -> Reference {
        let address = self.pages.address(page);
        let page_number = (address / PAGE_BYTES) as u64;
        Reference { page, page_number, object: self.objects.at(address), next_use: NEVER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::staging::Staged;

    const START: usize = 0x10_0000;

    #[test]
    fn known_pages_are_those_that_are_not_absent() {
        let mut memory = ProgramMemory::default();
        let ids: Vec<_> = (0..4).map(|n| memory.pages.find_or_insert(START + n * PAGE_BYTES)).collect();
        memory.pages.set(ids[1], State::Stored(3));
        memory.pages.set(ids[3], State::Guarded);
        assert_eq!(memory.known(START, START + 4 * PAGE_BYTES), [ids[1], ids[3]]);
        memory.forget_guards(START, START + 4 * PAGE_BYTES);
        assert_eq!(memory.known(START, START + 4 * PAGE_BYTES), [ids[1]]);
    }

    #[test]
    fn a_page_is_still_the_same_with_its_id_its_state_and_its_place() {
        let mut memory = ProgramMemory::default();
        let (page, other) =
            (memory.pages.find_or_insert(START), memory.pages.find_or_insert(START + PAGE_BYTES));
        memory.pages.set(page, State::Writing(Staged(5)));
        assert!(memory.is_still(page, START, State::Writing(Staged(5))));
        assert!(!memory.is_still(page, START, State::Writing(Staged(6))));
        assert!(!memory.is_still(page, START, State::Reading(Staged(5))));
        assert!(!memory.is_still(other, START, State::Absent));
        assert!(!memory.is_thought_mapped(page, START));
        memory.pages.set(page, State::Resident { kept: Some(1) });
        assert!(memory.is_thought_mapped(page, START));
    }

    #[test]
    fn managed_parts_are_what_the_gaps_leave() {
        let mut memory = ProgramMemory::default();
        memory.regions.add(10, 20);
        memory.regions.add(30, 40);
        assert_eq!(memory.managed_parts(15, 35), [(15, 20), (30, 35)]);
        assert!(memory.managed_parts(20, 30).is_empty());
    }

    #[test]
    fn a_kept_page_is_known_by_its_address() {
        let mut memory = ProgramMemory::default();
        let page = memory.pages.find_or_insert(START);
        assert!(!memory.is_kept(page));
        memory.kept.insert(START, 1);
        assert!(memory.is_kept(page));
    }
}
