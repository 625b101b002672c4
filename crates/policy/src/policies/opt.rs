//! OPT (Belady's MIN): evict the page whose next use is furthest away.
//!
//! The lower bound for demand paging (L. A. Belady 1966; Mattson et al. 1970). The incoming page always gets a
//! frame: it is never bypassed. Of several pages that are never used again the one loaded earliest goes; the
//! choice among them does not change the number of faults.
//!
//! Instead of a heap the resident pages are kept in a bit tree keyed by the time of their next use: those times
//! are distinct, so a time names a page, and the largest key is the victim.
//!
//! Cost: hit and fault a few words of a tree of depth 5. Memory: 4 bytes and a bit for every reference of the
//! string, beside 12 bytes a page.

use crate::collections::{BitTree, PageMap};
use crate::interface::ensure;
use crate::registry::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, NEVER, OfflineModel, PageId, Policy, Reference, Violation};
use alloc::vec::Vec;

/// What is known of a resident page. All zero for a page that is not resident.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    resident: bool,
    /// Time of its next use, or `NEVER`.
    next_use: u32,
    /// How many pages were loaded before it, ever.
    loaded: u32,
}

/// The optimal policy, for recorded strings.
#[derive(Debug)]
pub struct Opt {
    frames: usize,
    entries: PageMap<Entry>,
    /// Next uses of the resident pages that have one.
    next_uses: BitTree,
    /// The page used at a time, for the times in `next_uses`; stale elsewhere.
    page_used_at: Vec<PageId>,
    /// Load numbers of the resident pages that are never used again.
    never_used: BitTree,
    /// The page loaded as the n-th.
    loads: Vec<PageId>,
}

impl Registered for Opt {
    const INFO: Info = Info {
        name: "opt",
        summary: "evicts the page whose next use is furthest away: the lower bound",
        paper: "Belady, A study of replacement algorithms for a virtual-storage computer, 1966 (MIN)",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            entries: PageMap::new(),
            next_uses: BitTree::new(),
            page_used_at: Vec::new(),
            never_used: BitTree::new(),
            loads: Vec::new(),
        })
    }
}

impl Opt {
    /// Files a resident page under its next use.
    #[inline]
    fn file(&mut self, page: PageId, next_use: u32) {
        self.entries[page].next_use = next_use;
        if next_use == NEVER {
            self.never_used.insert(self.entries[page].loaded);
            return;
        }
        self.next_uses.insert(next_use);
        let time = next_use as usize;
        if time >= self.page_used_at.len() {
            // The tail is written before it is read, so its filling does not matter.
            self.page_used_at.resize((time + 1).next_power_of_two(), PageId(0));
        }
        self.page_used_at[time] = page;
    }

    #[inline]
    fn unfile(&mut self, page: PageId) {
        let entry = self.entries[page];
        if entry.next_use == NEVER {
            self.never_used.remove(entry.loaded);
        } else {
            self.next_uses.remove(entry.next_use);
        }
    }
}

impl Policy for Opt {
    type Model = OfflineModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        match self.never_used.min() {
            Some(load) => Some(self.loads[load as usize]),
            None => self.next_uses.max().map(|time| self.page_used_at[time as usize]),
        }
    }

    fn evict(&mut self, page: PageId) {
        self.unfile(page);
        self.entries[page].resident = false;
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let Reference { page, next_use, .. } = reference;
        self.entries.set(page, Entry { resident: true, next_use, loaded: self.loads.len() as u32 });
        self.loads.push(page);
        self.file(page, next_use);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.unfile(reference.page);
        self.file(reference.page, reference.next_use);
    }

    fn remove(&mut self, page: PageId) {
        if self.entries.get(page).resident {
            self.evict(page);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let resident = self.entries.iter().filter(|(_, entry)| entry.resident);
        let mut count = 0;
        for (page, entry) in resident {
            count += 1;
            ensure!(self.loads[entry.loaded as usize] == page, "page {page} is not at its load number");
            let filed = entry.next_use == NEVER || self.page_used_at[entry.next_use as usize] == page;
            ensure!(filed, "page {page} is not filed under its next use {}", entry.next_use);
        }
        ensure!(count <= self.frames, "{count} pages resident");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::conformance::{E1, E3, faults};

    #[test]
    fn takes_the_known_numbers_of_faults_at_every_size() {
        assert_eq!([1, 2, 3, 4, 5].map(|frames| faults("opt", E1, frames)), [12, 9, 7, 6, 5]);
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(|m| faults("opt", E3, m)), [20, 14, 10, 9, 8, 8, 8, 8]);
    }
}
