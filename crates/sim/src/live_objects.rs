//! Which object each page belongs to, as allocations come and go.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use sweephand_trace::objects::pages_of;

/// The live objects of a program by address: allocations of the recorder's least size and more.
///
/// A page belongs to the object allocated last among those that touch it; pages of no object belong
/// to the default object, 0. Objects are numbered from 1; the number of an object that is gone goes
/// to the next one allocated, so that what is kept by number stays small however many objects come
/// and go.
#[derive(Debug)]
pub(crate) struct LiveObjects {
    page_bytes: u64,
    /// First page -> (last page, object). An object can have several ranges, or none left.
    ranges: BTreeMap<u64, (u64, u32)>,
    /// Live objects: address -> (pages, object).
    live: BTreeMap<u64, (RangeInclusive<u64>, u32)>,
    /// Numbers given out so far.
    count: u32,
    /// Those of them that no live object has.
    unused: Vec<u32>,
}

impl LiveObjects {
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self { page_bytes, ranges: BTreeMap::new(), live: BTreeMap::new(), count: 0, unused: Vec::new() }
    }

    /// A new object. Returns its pages, which are its own from now on. One that began at the same
    /// address must have been freed.
    pub(crate) fn alloc(&mut self, address: u64, length: u64) -> RangeInclusive<u64> {
        let pages = pages_of(address, length, self.page_bytes);
        let (first, last) = (*pages.start(), *pages.end());
        self.cut_out(first, last, None);
        let object = self.unused.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count
        });
        self.ranges.insert(first, (last, object));
        let replaced = self.live.insert(address, (pages.clone(), object));
        debug_assert!(replaced.is_none(), "two objects at {address:#x}");
        pages
    }

    /// The object that begins at `address`, if there is one, is gone. Returns its number, which is
    /// free for another, and the pages that were its own when it was allocated.
    pub(crate) fn free(&mut self, address: u64) -> Option<(u32, RangeInclusive<u64>)> {
        let (pages, object) = self.live.remove(&address)?;
        self.cut_out(*pages.start(), *pages.end(), Some(object));
        self.unused.push(object);
        Some((object, pages))
    }

    /// The object of a page, now.
    pub(crate) fn of(&self, page: u64) -> u32 {
        match self.ranges.range(..=page).next_back() {
            Some((_, &(last, object))) if page <= last => object,
            _ => 0,
        }
    }

    /// Removes the owner of `first..=last`, or of the part that `only` owns. Ranges that reach
    /// beyond are shortened or split.
    fn cut_out(&mut self, first: u64, last: u64, only: Option<u32>) {
        let overlapping: Vec<(u64, (u64, u32))> = self
            .ranges
            .range(..=last)
            .rev()
            .take_while(|(_, (end, _))| *end >= first)
            .filter(|(_, (_, object))| only.is_none_or(|only| only == *object))
            .map(|(start, range)| (*start, *range))
            .collect();
        for (start, (end, object)) in overlapping {
            self.ranges.remove(&start);
            if start < first {
                self.ranges.insert(start, (first - 1, object));
            }
            if end > last {
                self.ranges.insert(last + 1, (end, object));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LiveObjects;

    #[test]
    fn pages_follow_allocations() {
        let mut objects = LiveObjects::new(4096);
        objects.alloc(0x10010, 0x3000);
        assert_eq!([0xf, 0x10, 0x13, 0x14].map(|page| objects.of(page)), [0, 1, 1, 0]);
        // The next block shares page 0x13.
        objects.alloc(0x13020, 0x2000);
        assert_eq!([0x12, 0x13, 0x15].map(|page| objects.of(page)), [1, 2, 2]);
        objects.free(0x10010);
        assert_eq!([0x10, 0x12, 0x13].map(|page| objects.of(page)), [0, 0, 2]);
        // Inside a larger one, which keeps what is left on both sides.
        objects.alloc(0x20000, 0x8000);
        objects.alloc(0x22000, 0x1000);
        assert_eq!([0x21, 0x22, 0x23].map(|page| objects.of(page)), [1, 3, 1]);
        assert_eq!(objects.free(0x20000), Some((1, 0x20..=0x27)));
        assert_eq!([0x21, 0x22, 0x23].map(|page| objects.of(page)), [0, 3, 0]);
        assert_eq!(objects.free(0x20000), None);
    }
}
