//! A few small numbers for each page, such as its neighbours in a list.

use super::PageMap;
use crate::PageId;

#[derive(Clone, Copy, Debug)]
struct Low<const N: usize>([[u8; 3]; N]);

#[derive(Clone, Copy, Debug)]
struct High<const N: usize>([u8; N]);

impl<const N: usize> Default for Low<N> {
    fn default() -> Self {
        Self([[0; 3]; N])
    }
}

impl<const N: usize> Default for High<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

/// `N` numbers for each page, 0 until they are set.
///
/// A number takes 3 bytes while all are below 2^24, and 4 from then on.
#[derive(Clone, Debug, Default)]
pub struct Links<const N: usize> {
    low: PageMap<Low<N>>,
    /// The fourth bytes. Pages that this does not cover have none that is not 0.
    high: PageMap<High<N>>,
}

impl<const N: usize> Links<N> {
    /// No pages.
    pub const fn new() -> Self {
        Self { low: PageMap::new(), high: PageMap::new() }
    }

    /// Makes `page` and all smaller ids valid.
    #[inline]
    pub fn cover(&mut self, page: PageId) {
        self.low.cover(page);
    }

    /// One of the numbers of a page that is covered.
    #[inline]
    pub fn get(&self, page: PageId, number: usize) -> u32 {
        let [a, b, c] = self.low[page].0[number];
        u32::from_le_bytes([a, b, c, self.high.get(page).0[number]])
    }

    /// Sets one of the numbers of a page that is covered.
    #[inline]
    pub fn set(&mut self, page: PageId, number: usize, value: u32) {
        let [a, b, c, high] = value.to_le_bytes();
        self.low[page].0[number] = [a, b, c];
        if self.high.get(page).0[number] != high {
            self.high.cover(page);
            self.high[page].0[number] = high;
        }
    }

    /// Asks for the numbers of a page that will be looked at soon.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.low.prefetch(page);
    }
}

/// What [`super::Lists`] keep of each page: its two neighbours, as numbers that are 0 until set.
pub trait Neighbours: Default {
    /// Makes `page` and all smaller ids valid.
    fn cover(&mut self, page: PageId);
    /// A neighbour of a page that is covered.
    fn get(&self, page: PageId, way: usize) -> u32;
    /// Sets a neighbour of a page that is covered.
    fn set(&mut self, page: PageId, way: usize, value: u32);
    /// Asks for the neighbours of a page that will be looked at soon.
    fn prefetch(&self, page: PageId);
}

/// Neighbours in 8 bytes a page: the fastest.
pub type Wide = PageMap<[u32; 2]>;

impl Neighbours for Wide {
    #[inline]
    fn cover(&mut self, page: PageId) {
        self.cover(page);
    }

    #[inline]
    fn get(&self, page: PageId, way: usize) -> u32 {
        self[page][way]
    }

    #[inline]
    fn set(&mut self, page: PageId, way: usize, value: u32) {
        self[page][way] = value;
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.prefetch(page);
    }
}

/// Neighbours in 6 bytes a page, and 8 from page 2^24 - 1 on.
pub type Packed = Links<2>;

impl Neighbours for Packed {
    #[inline]
    fn cover(&mut self, page: PageId) {
        self.cover(page);
    }

    #[inline]
    fn get(&self, page: PageId, way: usize) -> u32 {
        self.get(page, way)
    }

    #[inline]
    fn set(&mut self, page: PageId, way: usize, value: u32) {
        self.set(page, way, value);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.prefetch(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_by_a_byte_when_one_is_large() {
        let mut links = Links::<2>::new();
        let [one, nine] = [1, 9].map(PageId);
        links.cover(nine);
        links.set(one, 0, 0x00ff_ffff);
        assert_eq!((links.get(one, 0), links.get(one, 1), links.high.iter().count()), (0x00ff_ffff, 0, 0));
        links.set(one, 1, u32::MAX);
        links.set(nine, 1, 7);
        assert!(links.high.iter().count() > 0);
        assert_eq!([0, 1].map(|number| links.get(one, number)), [0x00ff_ffff, u32::MAX]);
        assert_eq!([0, 1].map(|number| links.get(nine, number)), [0, 7]);
        links.set(one, 1, 3);
        assert_eq!(links.get(one, 1), 3);
    }
}
