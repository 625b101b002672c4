//! LRU with a pool that is as large as pays.
//!
//! Resident pages and the pool share the memory. When it is full, memory comes from the pool if
//! that is above the size that [`Balance`] aims at, and else from the resident pages, which go to
//! the pool. So a new target takes effect as pages are needed, and a program that fits is not
//! compressed.

use super::balance::{Balance, SplitCosts};
use super::observer::TierObserver;
use crate::engine::for_each_segment;
use crate::{LruStack, Observer, Outcome, Simulation};
use std::ops::Range;
use sweephand_policy::PageId;
use sweephand_policy::collections::Lists;
use sweephand_trace::{Chunk, Event};

/// The only list: the resident pages, that of the least recent reference first.
const RESIDENT: usize = 0;

/// A simulation of LRU in a memory whose split adapts.
pub(super) struct AdaptiveLru {
    memory_pages: usize,
    /// All pages that have contents, by last reference.
    recency: LruStack,
    resident: Lists<1>,
    /// The pool and the disk.
    below: TierObserver,
    balance: Balance,
    counts: Outcome,
}

impl AdaptiveLru {
    /// A memory whose pages go to the only pool of `below`.
    pub(super) fn new(memory_pages: usize, page_bytes: u32, costs: SplitCosts, below: TierObserver) -> Self {
        Self {
            memory_pages,
            recency: LruStack::new(),
            resident: Lists::new(),
            below,
            balance: Balance::new(memory_pages, page_bytes, costs),
            counts: Outcome::default(),
        }
    }

    fn reference(&mut self, page: PageId) {
        let distance = self.recency.touch(page.0);
        if let Some(distance) = distance {
            self.balance.touched(distance);
        }
        if self.resident.list_of(page).is_some() {
            self.resident.move_to_back(RESIDENT, page);
            return;
        }
        self.counts.faults += 1;
        self.counts.first_touch_faults += u64::from(distance.is_none());
        self.below.fault(page, 0);
        self.resident.push_back(RESIDENT, page);
        if distance.is_none() && self.used_pages() > self.memory_pages {
            self.balance.pushed_out();
        }
        let evictions = self.counts.evictions;
        self.make_room();
        self.counts.warmup_faults += u64::from(evictions == self.counts.evictions);
    }

    fn used_pages(&mut self) -> usize {
        self.resident.len(RESIDENT) + self.below.only_pool().pages()
    }

    fn make_room(&mut self) {
        let target_pages = self.balance.target_pages();
        while self.used_pages() > self.memory_pages {
            let pool = self.below.only_pool();
            if pool.pages() > target_pages {
                pool.write_back();
                continue;
            }
            let oldest = self.resident.pop_front(RESIDENT).expect("the pool has at most half of memory");
            self.counts.evictions += 1;
            self.balance.evicted(self.below.room_bytes(oldest));
            if target_pages == 0 {
                self.below.evicted_to_disk(oldest);
            } else {
                self.below.only_pool().set_limit(target_pages);
                self.below.evicted(oldest, 0);
            }
        }
    }

    fn drop_contents(&mut self, page: PageId) {
        self.recency.forget(page.0);
        self.resident.remove(page);
        self.below.dropped(page);
    }
}

impl Simulation for AdaptiveLru {
    fn advance(&mut self, chunk: &Chunk, range: Range<usize>, _: &[u32]) {
        for_each_segment(chunk, range, |segment, event| {
            self.counts.records += segment.len() as u64;
            for reference in &chunk.references[segment] {
                self.reference(PageId(reference.page()));
            }
            if let Some(Event::Drop { pages }) = event {
                for page in pages.clone() {
                    self.drop_contents(PageId(page));
                }
            }
        });
    }

    fn outcome(&self) -> Outcome {
        let mut outcome = self.counts;
        self.below.report(&mut outcome);
        outcome
    }

    fn is_resident(&self, page: PageId) -> bool {
        self.resident.list_of(page).is_some()
    }

    fn needs_future(&self) -> bool {
        false
    }
}
