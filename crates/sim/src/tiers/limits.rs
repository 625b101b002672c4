//! What a pool may hold, and the memory that it takes beside the compressed pages.
//!
//! The kernel has tables of what is in a pool. They count as memory of the pool:
//!
//! - zswap: 64 bytes for each page in it, an entry (`struct zswap_entry`, 56 bytes) and its place
//!   in a tree of 64 such places a node;
//! - zram: 16 bytes for each page that fits its size (`struct zram_table_entry`), used or not. If
//!   no size is given, the device is as large as what is in it.
//!
//! Entries share pages with others, so only whole pages of them count. What zsmalloc has for each
//! chain of pages (`struct zspage`, 64 bytes at most) is left out.

use super::kind::TierKind;
use super::size_classes::SizeClass;

/// How much a pool may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// Memory, in pages.
    pub(super) pages: usize,
    /// Pages in the pool before they are compressed; `usize::MAX` if that is not limited.
    pub(super) stored_pages: usize,
    /// What the tables have for a page.
    entry_bytes: usize,
    page_bytes: usize,
}

impl Limits {
    /// Those of a pool that may take `pages` of `memory_pages`.
    pub(super) fn new(kind: TierKind, memory_pages: usize, pages: usize, page_bytes: u32) -> Self {
        let (entry_bytes, stored_pages) = match kind {
            TierKind::Zswap { .. } => (64, usize::MAX),
            TierKind::Zram { disksize_percent: None } => (16, usize::MAX),
            TierKind::Zram { disksize_percent: Some(percent) } => {
                (16, (memory_pages as u64 * u64::from(percent) / 100) as usize)
            }
        };
        let limits = Self { pages, stored_pages, entry_bytes, page_bytes: page_bytes as usize };
        // A device whose table alone takes more than there is holds nothing.
        let stored_pages = if limits.table_pages(0) > pages { 0 } else { stored_pages };
        Self { stored_pages, ..limits }
    }

    /// Pages that the tables take when `stored` pages are in the pool.
    pub(super) fn table_pages(&self, stored: usize) -> usize {
        let entries = if self.stored_pages == usize::MAX { stored } else { self.stored_pages };
        entries * self.entry_bytes / self.page_bytes
    }

    /// What a page of a class takes, in bytes, a part of its zspage and its entry.
    pub(super) fn room_bytes(&self, class: SizeClass) -> usize {
        class.zspage_pages * self.page_bytes / class.zspage_objects + self.entry_bytes
    }

    /// Most pages of one class that fit.
    pub(super) fn places(&self, class: SizeClass) -> usize {
        let mut fits = 0;
        let mut too_many = class.objects_in(self.pages).min(self.stored_pages) + 1;
        while too_many - fits > 1 {
            let middle = fits.midpoint(too_many);
            if class.pages_of(middle) + self.table_pages(middle) <= self.pages {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::super::size_classes::SizeClasses;
    use super::*;

    const ZSWAP: TierKind = TierKind::Zswap { accept_percent: 100 };

    #[test]
    fn tables_take_memory_of_the_pool() {
        let half = SizeClasses::new(4096).class_of(2040);
        let zswap = Limits::new(ZSWAP, 1000, 330, 4096);
        // 640 pages at two a page take 320, and their entries 10.
        assert_eq!((zswap.places(half), zswap.table_pages(640)), (640, 10));
        assert_eq!(zswap.room_bytes(half), 2048 + 64);
        let zram =
            |disksize_percent| Limits::new(TierKind::Zram { disksize_percent }, 1000, 330, 4096).places(half);
        assert_eq!([zram(None), zram(Some(50)), zram(Some(200))], [656, 500, 646]);
    }

    /// Seven pages hold none of the zspages of eight that pages at 3:1 and 2:1 go to.
    #[test]
    fn a_pool_smaller_than_a_zspage_holds_nothing() {
        let classes = SizeClasses::new(4096);
        let places = |pages, bytes| Limits::new(ZSWAP, 20, pages, 4096).places(classes.class_of(bytes));
        assert_eq!([1365, 2048, 1950].map(|bytes| places(7, bytes)), [0, 0, 14]);
        assert_eq!([1365, 2048, 1950].map(|bytes| places(8, bytes)), [23, 15, 16]);
    }

    #[test]
    fn a_device_whose_table_does_not_fit_holds_nothing() {
        let zram = Limits::new(TierKind::Zram { disksize_percent: Some(1000) }, 1000, 30, 4096);
        assert_eq!((zram.stored_pages, zram.table_pages(0)), (0, 0));
    }
}
