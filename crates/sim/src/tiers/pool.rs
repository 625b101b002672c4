//! One pool of compressed pages: what it holds, and what it does when it is full.
//!
//! ```text
//!                          zswap                                  zram
//!   a page is evicted      to the recent end of a list            in
//!   no room for it         pages at the old end are written       it goes to the disk
//!                          back to the disk
//!   a fault on it          it leaves the pool                     it leaves the pool
//! ```
//!
//! zswap (`mm/zswap.c`) gives up the pages that were evicted first, so the pool has recent ones.
//! zram (`drivers/block/zram`) is a swap device that is used before the disk, and gives up nothing.
//! So the pages that are evicted first fill it and stay, however cold. All others go to the disk,
//! however hot: an *inversion*.
//!
//! By default, zswap has made room in time, like a pool that is shrunk in the background. With an
//! accept threshold it does what the kernel's does at its limit (`zswap_store`): the page goes to
//! the disk, and the pool is written back down to the threshold before it takes another. The kernel
//! needs time for that and turns away more pages meanwhile.

use super::counts::TierCounts;
use super::kind::TierKind;
use super::limits::Limits;
use super::size_classes::{PoolMemory, SizeClass, SizeClasses};
use std::sync::Arc;
use sweephand_policy::PageId;
use sweephand_policy::collections::{Lists, PageMap};

/// The only list: the pages in the pool, in the order of their evictions.
const POOL: usize = 0;

/// A pool of a given size.
#[derive(Debug)]
pub(super) struct Pool {
    kind: TierKind,
    limits: Limits,
    classes: Arc<SizeClasses>,
    pages: Lists<1>,
    /// The size class of each page that is or was in the pool.
    class_of: PageMap<u16>,
    memory: PoolMemory,
    /// The peaks are kept up to date.
    counts: TierCounts,
}

impl Pool {
    pub(super) fn new(kind: TierKind, limits: Limits, classes: Arc<SizeClasses>) -> Self {
        let peak_pool_pages = limits.table_pages(0) as u64;
        Self {
            kind,
            limits,
            pages: Lists::new(),
            class_of: PageMap::new(),
            memory: PoolMemory::new(&classes),
            classes,
            counts: TierCounts { peak_pool_pages, ..TierCounts::default() },
        }
    }

    /// The memory that the pool takes, in pages.
    pub(super) fn pages(&self) -> usize {
        self.memory.pages() + self.limits.table_pages(self.pages.len(POOL))
    }

    /// Changes the memory that it may take. If that is less than it takes, it gives up pages when
    /// the next one comes.
    pub(super) fn set_limit(&mut self, pages: usize) {
        self.limits.pages = pages;
    }

    /// A page is evicted that would take an object of a class.
    pub(super) fn store(&mut self, page: PageId, class: SizeClass) {
        if !self.make_room(class) {
            self.counts.turned_away += 1;
            return;
        }
        self.counts.compressions += u64::from(!class.is_empty());
        self.memory.add(class);
        self.class_of.set(page, class.index);
        self.pages.push_back(POOL, page);
        self.counts.peak_pool_pages = self.counts.peak_pool_pages.max(self.pages() as u64);
        self.counts.peak_stored_pages = self.counts.peak_stored_pages.max(self.pages.len(POOL) as u64);
    }

    /// A page that was evicted is needed.
    pub(super) fn load(&mut self, page: PageId) {
        match self.take(page) {
            Some(class) if class.is_empty() => self.counts.same_filled_faults += 1,
            Some(class) => {
                self.counts.pool_faults += 1;
                self.decompress(class);
            }
            None => self.counts.disk_faults += 1,
        }
    }

    /// The contents of a page that was evicted are gone.
    pub(super) fn forget(&mut self, page: PageId) {
        self.take(page);
    }

    pub(super) fn counts(&self) -> TierCounts {
        self.counts
    }

    /// Makes room for an object, if that is what this kind of pool does. Returns whether the page
    /// that comes has room.
    fn make_room(&mut self, class: SizeClass) -> bool {
        // A pool that could not hold it if it were empty is not emptied for it.
        if class.zspage_pages + self.limits.table_pages(1) > self.limits.pages {
            return false;
        }
        if self.has_room(class) {
            return true;
        }
        match self.kind {
            TierKind::Zram { .. } => false,
            TierKind::Zswap { accept_percent } => {
                let accept_pages = self.limits.pages * usize::from(accept_percent) / 100;
                while self.pages() > accept_pages || !self.has_room(class) {
                    self.write_back();
                }
                accept_percent == 100
            }
        }
    }

    fn has_room(&self, class: SizeClass) -> bool {
        let stored = self.pages.len(POOL) + 1;
        let pages = self.memory.pages_with(class) + self.limits.table_pages(stored);
        stored <= self.limits.stored_pages && pages <= self.limits.pages
    }

    /// Writes the page that was evicted first to the disk.
    pub(super) fn write_back(&mut self) {
        let oldest = self.pages.front(POOL).expect("a pool without pages takes no memory");
        let class = self.take(oldest).expect("it is in the pool");
        self.counts.write_backs += 1;
        self.decompress(class);
    }

    /// Takes a page out, if it is in the pool.
    fn take(&mut self, page: PageId) -> Option<SizeClass> {
        self.pages.remove(page)?;
        let class = self.classes.class(self.class_of[page]);
        self.memory.remove(class);
        Some(class)
    }

    fn decompress(&mut self, class: SizeClass) {
        self.counts.decompressions += u64::from(self.kind.compresses(class));
    }
}
