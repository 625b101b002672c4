//! The way to the disk and what is there, or compressed in memory before it gets there. Only
//! `transfer` and `evict` move pages on it.

use crate::store::backing::Store;
use crate::store::io::Io;
use crate::store::pool::{Entry, Pool};
use crate::store::split::Split;
use crate::store::staging::Staging;
use sweephand_pager_interface::readahead::ReadAhead;
use sweephand_pager_interface::readaround::ReadAround;
use sweephand_policy::PageId;

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Pages on their way, in either direction.
    pub(crate) staging: Staging,
    /// Which slot has which page.
    pub(crate) store: Store,
    /// Compressed memory, if there is any.
    pub(crate) pool: Option<Pool>,
    /// Requests.
    pub(crate) io: Io,
    /// How far to read ahead.
    pub(crate) ahead: ReadAhead,
    /// How many neighbours to read with a page.
    pub(crate) around: ReadAround,
    /// Frames promised to pages that are being read.
    pub(crate) incoming: usize,
}

impl Disk {
    /// The pool, of which there are entries.
    pub(crate) fn pool(&mut self) -> &mut Pool {
        self.pool.as_mut().expect("a page that is pooled has a pool")
    }

    /// An entry of the pool is needed no more.
    pub(crate) fn forget_entry(&mut self, entry: Entry) {
        let slot = self.pool().slot(entry);
        self.pool().remove(entry);
        if let Some(slot) = slot {
            self.store.free(slot);
        }
    }

    /// Whether there is compressed memory now.
    pub(crate) fn has_pool(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.pages() > 0)
    }

    /// What says how large the pool should be, if anything does.
    pub(crate) fn split(&mut self) -> Option<&mut Split> {
        self.pool.as_mut().and_then(|pool| pool.split.as_mut())
    }

    /// A page that was evicted comes back. `is_awaited`: a thread waits for it.
    pub(crate) fn page_comes_back(&mut self, page: PageId, is_awaited: bool) {
        if let Some(pool) = &mut self.pool {
            pool.came_back(page, is_awaited);
        }
    }

    /// A page comes in along the run of the latest fault.
    pub(crate) fn page_comes(&mut self, page: PageId) {
        let window = self.ahead.latest_window();
        if let Some(pool) = &mut self.pool {
            pool.came_in(page, window);
        }
    }
}
