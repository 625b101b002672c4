//! Pools of every size at once, if all pages in them take the same room.
//!
//! A pool with k places has a free one for an evicted page just if k is at least the page's *rank*
//! then, and has a page that is needed just if k is at least the rank that the page has by now. So
//! two counts by rank tell what every pool does. The ranks are those of [the argument](super):
//!
//! - zswap: places from the top of the stack, down to the hole next to the top, or to the page;
//! - zram: the number of the lowest free place, which the page then keeps.
//!
//! In both, a place is new only if all places before it are taken. So the most places that were
//! ever taken are the largest rank, or all k.

use super::counts::TierCounts;
use super::kind::TierKind;
use super::limits::Limits;
use super::size_classes::SizeClass;
use crate::LruStack;
use sweephand_policy::PageId;
use sweephand_policy::collections::{BitTree, PageMap};

/// What pools of all sizes do.
#[derive(Debug)]
pub(super) struct EveryPool {
    kind: TierKind,
    /// That of all pages.
    class: SizeClass,
    order: Order,
    /// Evicted pages by rank. No page has rank 0.
    stores: Vec<u64>,
    /// Pages that were needed, by rank.
    loads: Vec<u64>,
}

#[derive(Debug)]
enum Order {
    Zswap(LruStack),
    Zram(Places),
}

impl EveryPool {
    /// Pools of pages of one class. There is no such order for zswap with an accept threshold.
    pub(super) fn new(kind: TierKind, class: SizeClass) -> Self {
        let order = match kind {
            TierKind::Zswap { .. } => Order::Zswap(LruStack::new()),
            TierKind::Zram { .. } => Order::Zram(Places::default()),
        };
        Self { kind, class, order, stores: vec![0], loads: vec![0] }
    }

    /// A page is evicted.
    pub(super) fn store(&mut self, page: PageId) {
        let rank = match &mut self.order {
            Order::Zswap(stack) => stack.put(page.0),
            Order::Zram(places) => places.put(page),
        };
        count(&mut self.stores, rank);
    }

    /// A page that was evicted is needed.
    pub(super) fn load(&mut self, page: PageId) {
        let rank = self.take(page);
        count(&mut self.loads, rank);
    }

    /// The contents of a page that was evicted are gone.
    pub(super) fn forget(&mut self, page: PageId) {
        self.take(page);
    }

    fn take(&mut self, page: PageId) -> usize {
        match &mut self.order {
            Order::Zswap(stack) => stack.take(page.0).expect("an evicted page is on the stack"),
            Order::Zram(places) => places.take(page),
        }
    }

    /// The counts of a pool with some limits.
    pub(super) fn counts(&self, limits: &Limits) -> TierCounts {
        let places = limits.places(self.class);
        let most = places.min(self.stores.len() - 1);
        let within = |by_rank: &[u64]| by_rank.iter().take(places + 1).sum::<u64>();
        let (stores, loads) = (self.stores.iter().sum::<u64>(), self.loads.iter().sum::<u64>());
        let (with_room, pool_faults) = (within(&self.stores), within(&self.loads));
        // A pool that can hold nothing has nothing to write back.
        let (write_backs, turned_away) = match self.kind {
            TierKind::Zswap { .. } if places > 0 => (stores - with_room, 0),
            _ => (0, stores - with_room),
        };
        let decompressions = if self.kind.compresses(self.class) { pool_faults + write_backs } else { 0 };
        TierCounts {
            pool_faults,
            disk_faults: loads - pool_faults,
            compressions: stores - turned_away,
            decompressions,
            write_backs,
            turned_away,
            peak_pool_pages: (self.class.pages_of(most) + limits.table_pages(most)) as u64,
            peak_stored_pages: most as u64,
            ..TierCounts::default()
        }
    }
}

/// Counts one in a table that grows.
fn count(by_rank: &mut Vec<u64>, rank: usize) {
    if rank >= by_rank.len() {
        by_rank.resize(rank + 1, 0);
    }
    by_rank[rank] += 1;
}

/// Places numbered from 1. A page takes the lowest free one.
#[derive(Debug, Default)]
struct Places {
    place_of: PageMap<u32>,
    /// Of the places that were ever taken.
    free: BitTree,
    /// How many were.
    taken: u32,
}

impl Places {
    fn put(&mut self, page: PageId) -> usize {
        let place = match self.free.min() {
            Some(place) => {
                self.free.remove(place);
                place
            }
            None => {
                self.taken += 1;
                self.taken
            }
        };
        self.place_of.set(page, place);
        place as usize
    }

    fn take(&mut self, page: PageId) -> usize {
        let place = self.place_of[page];
        self.free.insert(place);
        place as usize
    }
}
