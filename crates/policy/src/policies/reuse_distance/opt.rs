//! OPT (Belady's MIN): evicts the page whose next use is furthest away.
//!
//! The lower bound for demand paging (L. A. Belady 1966; Mattson et al. 1970). The incoming page
//! always gets a frame; it never bypasses memory. Among pages that are never used again, the one
//! loaded earliest goes. This choice does not change the number of faults.
//!
//! Resident pages that are used again are in a queue by next use ([`DueQueue`]), and those that are
//! not in a heap by load. A hit files the page anew. Its old entry is of the time that is now, and
//! ends with it. Entries of pages that have left are dropped when they are met, or with others when
//! such entries outnumber the rest.
//!
//! Cost: hit and fault amortised O(1). 8 bytes a page seen, some 16 a frame and 24 for 4096
//! references. The driver holds the future, 4 bytes a reference.

use crate::collections::{Due, DueQueue, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, NEVER, OfflineModel, PageId, Policy, Reference, Violation};
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Time of the next use of a resident page, or `NEVER`; 0, which is no time to come, for a page
    /// that is not resident.
    next_use: u32,
    /// How many pages were loaded before it, ever.
    loaded: u32,
}

/// The optimal policy, for recorded strings.
#[derive(Debug)]
pub struct Opt {
    frames: usize,
    entries: PageMap<Entry>,
    /// Resident pages.
    resident: usize,
    /// Pages loaded so far.
    loads: u32,
    /// The resident pages that have a next use, and stale entries.
    by_next_use: DueQueue,
    /// (load number, page) of the resident pages that are never used again, and stale entries.
    never_used: BinaryHeap<Reverse<(u32, PageId)>>,
}

/// Stale entries are no reason to look through all of them while there are no more than these.
const FEW_STALE: usize = 1 << 13;

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
            resident: 0,
            loads: 0,
            by_next_use: DueQueue::new(),
            never_used: BinaryHeap::new(),
        })
    }
}

impl Opt {
    /// Files a resident page under its next use.
    #[inline]
    fn file(&mut self, page: PageId, next_use: u32) {
        self.entries[page].next_use = next_use;
        if next_use == NEVER {
            self.never_used.push(Reverse((self.entries[page].loaded, page)));
        } else {
            self.by_next_use.push((next_use, page));
        }
        if self.by_next_use.len() + self.never_used.len() > 2 * self.resident + FEW_STALE {
            self.drop_stale();
        }
    }

    #[cold]
    fn drop_stale(&mut self) {
        let entries = &self.entries;
        self.by_next_use.retain(|due| entries[due.1].is_due(due));
        self.never_used.retain(|&Reverse((loaded, page))| entries[page].is_dead(loaded));
    }
}

impl Entry {
    fn is_resident(&self) -> bool {
        self.next_use != 0
    }

    fn is_due(&self, (next_use, _): Due) -> bool {
        self.next_use == next_use
    }

    fn is_dead(&self, loaded: u32) -> bool {
        self.next_use == NEVER && self.loaded == loaded
    }
}

impl Policy for Opt {
    type Model = OfflineModel;

    #[inline]
    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        while let Some(&Reverse((loaded, page))) = self.never_used.peek() {
            if self.entries[page].is_dead(loaded) {
                return Some(page);
            }
            self.never_used.pop();
        }
        while let Some(due) = self.by_next_use.latest() {
            if self.entries[due.1].is_due(due) {
                return Some(due.1);
            }
            self.by_next_use.pop();
        }
        None
    }

    #[inline]
    fn evict(&mut self, page: PageId) {
        let next_use = core::mem::take(&mut self.entries[page].next_use);
        self.resident -= 1;
        // The victim is mostly the latest. The one behind it is the next.
        if next_use != NEVER && self.by_next_use.latest() == Some((next_use, page)) {
            self.by_next_use.pop();
            if let Some((_, next)) = self.by_next_use.latest() {
                self.entries.prefetch(next);
            }
        }
    }

    #[inline]
    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let Reference { page, next_use, .. } = reference;
        self.entries.set(page, Entry { next_use, loaded: self.loads });
        self.loads = self.loads.wrapping_add(1);
        self.resident += 1;
        self.file(page, next_use);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        // Within a run of references to the page its next use stays what it is, and it is filed
        // already.
        let now = self.entries[reference.page].next_use;
        if now != reference.next_use {
            self.by_next_use.pass(now);
            self.file(reference.page, reference.next_use);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.entries.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        if self.entries.get(page).is_resident() {
            self.evict(page);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let resident = self.entries.iter().filter(|(_, entry)| entry.is_resident());
        let mut count = 0;
        for (page, entry) in resident {
            count += 1;
            let filed = match entry.next_use {
                NEVER => self.never_used.iter().any(|Reverse(dead)| *dead == (entry.loaded, page)),
                next_use => self.by_next_use.iter().any(|due| due == (next_use, page)),
            };
            ensure!(filed, "page {page} is not filed under its next use {}", entry.next_use);
        }
        ensure!(count == self.resident, "{count} pages resident, counted {}", self.resident);
        ensure!(count <= self.frames, "{count} pages resident");
        let entries = self.by_next_use.len() + self.never_used.len();
        ensure!(entries <= 2 * self.frames + FEW_STALE, "{entries} entries");
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
