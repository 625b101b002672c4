//! A value for every page id. The value is the default until it is set.

use crate::{PageId, prefetch};
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// A dense array by page id that grows on demand. Pages never set hold `T::default()`.
#[derive(Clone, Debug, Default)]
pub struct PageMap<T> {
    values: Vec<T>,
}

impl<T: Copy + Default> PageMap<T> {
    /// An empty map.
    pub const fn new() -> Self {
        Self { values: Vec::new() }
    }

    /// The value of a page, known or not.
    #[inline]
    pub fn get(&self, page: PageId) -> T {
        self.values.get(page.index()).copied().unwrap_or_default()
    }

    /// Sets the value of a page, growing the map if needed.
    #[inline]
    pub fn set(&mut self, page: PageId, value: T) {
        self.cover(page);
        self.values[page.index()] = value;
    }

    /// Makes indexing valid for `page` and all smaller ids.
    #[inline]
    pub fn cover(&mut self, page: PageId) {
        if page.index() >= self.values.len() {
            self.grow(page.index() + 1);
        }
    }

    /// Asks for the value of a page that will be looked at soon.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        if let Some(value) = self.values.get(page.index()) {
            prefetch(value);
        }
    }

    /// By a sixteenth more than asked for: growing costs O(1) a page, and a live pager pays for
    /// what is allocated.
    #[cold]
    fn grow(&mut self, len: usize) {
        if len > self.values.capacity() {
            self.values.reserve_exact(len + len / 16 + 16 - self.values.len());
        }
        self.values.resize(len, T::default());
    }

    /// Changes the values of all covered pages.
    pub fn change_all(&mut self, mut change: impl FnMut(T) -> T) {
        for value in &mut self.values {
            *value = change(*value);
        }
    }

    /// All covered pages with their values, in id order.
    pub fn iter(&self) -> impl Iterator<Item = (PageId, T)> + '_ {
        self.values.iter().enumerate().map(|(id, &value)| (PageId(id as u32), value))
    }
}

/// Panics for a page that was never covered.
impl<T> Index<PageId> for PageMap<T> {
    type Output = T;
    #[inline]
    fn index(&self, page: PageId) -> &T {
        &self.values[page.index()]
    }
}

impl<T> IndexMut<PageId> for PageMap<T> {
    #[inline]
    fn index_mut(&mut self, page: PageId) -> &mut T {
        &mut self.values[page.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_that_grows_page_by_page_is_seldom_allocated_anew() {
        let mut map = PageMap::new();
        let mut allocations = 0;
        for page in 0..100_000 {
            let before = map.values.capacity();
            map.set(PageId(page), 1u8);
            let capacity = map.values.capacity();
            allocations += u32::from(capacity != before);
            assert!(capacity <= (page as usize + 1) * 17 / 16 + 17, "{capacity} at page {page}");
        }
        // 17 pages, 35, 54 and so on: past 100,000 at the 98th.
        assert!(allocations <= 98, "{allocations}");
    }
}
