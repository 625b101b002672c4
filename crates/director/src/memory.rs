//! The memory of all processes of the program: their pages, and the processor's accessed bits of
//! them.

use crate::pages::{Page, Pages, SpaceId, State};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use sweephand_pager_interface::accessed::GROUP_PAGES;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_policy::{Mmu, PageId};
use sweephand_process::accessed::ProcessBits;
use sweephand_process::family;
use sweephand_process::space::{Advice, Space, ranges};

/// Faults after which the accessed bit of a new page is cleared. A program touches a page many
/// times right after it has come, and the page is in a list of the processor that brought it (of at
/// most 31 pages), where `MADV_COLD` leaves it alone.
const FRESH_PAGES: usize = 64;

/// If at most this many pages lie between two whose bits are cleared, their bits are cleared too.
/// For each range, the kernel has other processors forget what they know of it, which takes as long
/// as clearing some tens of bits. A page in between that is first used in just that turn counts as
/// not used.
const CLEARED_ALONG: u64 = 32;

/// The memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) pages: Pages,
    spaces: Vec<Option<Space>>,
    by_process: FxHashMap<u32, SpaceId>,
    bits: ProcessBits,
    /// Groups of pages whose bits have been read in this turn.
    looked_at: FxHashSet<(SpaceId, u64)>,
    /// Pages whose bits wait to be cleared.
    to_clear: Vec<PageId>,
    /// Pages that came a moment ago, the oldest first.
    fresh: VecDeque<PageId>,
}

impl Memory {
    pub(crate) fn new(bits: ProcessBits) -> Self {
        Self {
            pages: Pages::default(),
            spaces: Vec::new(),
            by_process: FxHashMap::default(),
            bits,
            looked_at: FxHashSet::default(),
            to_clear: Vec::new(),
            fresh: VecDeque::new(),
        }
    }

    /// Nothing is known any more.
    pub(crate) fn forget_all(&mut self) {
        self.let_go();
        self.pages = Pages::default();
        self.spaces.clear();
        self.by_process.clear();
    }

    /// The kernel chooses from now on: where pages are is not known any more.
    pub(crate) fn let_go(&mut self) {
        self.pages.let_go();
        self.looked_at.clear();
        self.to_clear.clear();
        self.fresh.clear();
    }

    /// The address space of a process. `None`: the process has ended, or its memory is its
    /// parent's, as between a vfork and an exec.
    pub(crate) fn space_of(&mut self, process: u32) -> Option<SpaceId> {
        if let Some(&id) = self.by_process.get(&process) {
            return Some(id);
        }
        if family::shares_memory_with_parent(process) {
            return None;
        }
        let space = Space::open(process).ok()?;
        let free = self.spaces.iter().position(Option::is_none).unwrap_or_else(|| {
            self.spaces.push(None);
            self.spaces.len() - 1
        });
        // With more processes at a time than that, the kernel has the others to itself.
        let id = SpaceId(u16::try_from(free).ok()?);
        self.spaces[free] = Some(space);
        self.by_process.insert(process, id);
        Some(id)
    }

    /// The address space of a process, if it is known.
    pub(crate) fn known_space(&self, process: u32) -> Option<SpaceId> {
        self.by_process.get(&process).copied()
    }

    /// The known address spaces.
    pub(crate) fn spaces(&self) -> Vec<SpaceId> {
        self.by_process.values().copied().collect()
    }

    pub(crate) fn space(&mut self, id: SpaceId) -> Option<&mut Space> {
        self.spaces.get_mut(id.0 as usize)?.as_mut()
    }

    /// A thread of a process has ended. Returns whether the process still has memory.
    pub(crate) fn go_on_without(&mut self, id: SpaceId, thread: u32) -> bool {
        let Some(space) = self.space(id) else { return false };
        if space.thread != thread {
            return true;
        }
        let Ok(other) = Space::open(space.process) else { return false };
        *space = other;
        true
    }

    /// An address space is gone. Its pages have been forgotten.
    pub(crate) fn forget_space(&mut self, id: SpaceId) {
        self.pages.forget_space(id);
        if let Some(space) = self.spaces[id.0 as usize].take() {
            self.by_process.remove(&space.process);
        }
    }

    /// A page has come for the policy, which counts it as used or not.
    pub(crate) fn has_come(&mut self, id: PageId, referenced: bool) {
        let page = &mut self.pages[id];
        (page.state, page.referenced, page.is_fresh) = (State::Resident, false, !referenced);
        // Of a page that counts as used, the processor's own bit says so.
        if !referenced {
            self.fresh.push_back(id);
        }
    }

    /// Clears bits: of the pages that were seen to be used in this turn, and of those that are not
    /// fresh any more. Of all fresh pages, if the program is quiet.
    pub(crate) fn end_turn(&mut self, is_quiet: bool) {
        let keep = if is_quiet { 0 } else { FRESH_PAGES };
        while self.fresh.len() > keep {
            let Some(id) = self.fresh.pop_front() else { break };
            self.pages[id].is_fresh = false;
            self.to_clear.push(id);
        }
        self.looked_at.clear();
        let ids = std::mem::take(&mut self.to_clear);
        self.advise(ids, State::Resident, Advice::Cold);
    }

    /// Advises the kernel about those of some pages that are in a state.
    pub(crate) fn advise(&self, mut ids: Vec<PageId>, state: State, advice: Advice) {
        ids.retain(|&id| self.pages[id].state == state);
        let gap = if advice == Advice::Cold { CLEARED_ALONG } else { 0 };
        for (space, numbers) in self.by_space(&mut ids) {
            if let Some(Some(space)) = self.spaces.get(space.0 as usize) {
                space.advise(&ranges(numbers, gap), advice);
            }
        }
    }

    /// Sorts pages by space and number.
    pub(crate) fn by_space(&self, ids: &mut Vec<PageId>) -> Vec<(SpaceId, Vec<u64>)> {
        let place = |id: PageId| (self.pages[id].space, self.pages[id].number());
        ids.sort_unstable_by_key(|&id| place(id));
        ids.dedup();
        ids.chunk_by(|&a, &b| place(a).0 == place(b).0)
            .map(|ids| (place(ids[0]).0, ids.iter().map(|&id| place(id).1).collect()))
            .collect()
    }

    /// Bytes that the pages take in this process, about.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.bytes()
    }

    /// Takes the processor's bits of the group that a page is in.
    fn look(&mut self, page: Page) {
        let group = page.number() & !(GROUP_PAGES as u64 - 1);
        if !self.looked_at.insert((page.space, group)) {
            return;
        }
        let Some(Some(space)) = self.spaces.get(page.space.0 as usize) else { return };
        // Of a process that has just ended nothing is known.
        let mut used = self.bits.query(space.thread, group * PAGE_BYTES).unwrap_or_default();
        while used != 0 {
            let number = group + u64::from(used.trailing_zeros());
            used &= used - 1;
            if let Some(id) = self.pages.find(page.space, number) {
                let page = &mut self.pages[id];
                if page.state == State::Resident && !page.is_fresh {
                    page.referenced = true;
                    self.to_clear.push(id);
                }
            }
        }
    }
}

impl Mmu for Memory {
    fn test_and_clear_referenced(&mut self, id: PageId) -> bool {
        let page = self.pages[id];
        if !page.is_fresh {
            self.look(page);
        }
        std::mem::take(&mut self.pages[id].referenced)
    }
}
