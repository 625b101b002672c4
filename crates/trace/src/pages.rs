//! The writer's address table: page numbers to page ids.
//!
//! It is an open-addressing hash table of *leaves*. A leaf covers eight neighbouring pages: their
//! ids, and three bit sets that say which of them have contents (*live*), were ever touched, and
//! were ever written. Key and ids lie side by side, so a random reference costs one cache miss. A
//! reference near the one before finds its leaf without hashing. Counting pages is a population
//! count at the end. A leaf has only eight pages because page numbers need not be dense: a lone
//! page costs 48 bytes (over the load factor), whatever its number, and a dense million take about
//! ten megabytes. (Importing random references to a million pages took twice as long with a
//! directory of larger leaves.)
//!
//! Unmapping must not walk a range of 2^40 pages of which three were touched, nor walk the same
//! dead leaves again and again. From the first unmapping on, an ordered set holds the leaves with
//! live pages. Unmapping empties leaves and removes them from the set, so its total cost is at most
//! the number of times that pages come to life.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::MAX_PAGES;

const LEAF_BITS: u32 = 3;
const LEAF_PAGES: u64 = 1 << LEAF_BITS;
/// No id: page ids are below [`MAX_PAGES`].
const NONE: u32 = u32::MAX;
/// No leaf has this number: there are fewer.
const EMPTY: u64 = u64::MAX;
/// Slots to begin with.
const SLOTS: usize = 1 << 10;

#[derive(Clone)]
struct Leaf {
    /// Page number / 8, or [`EMPTY`].
    number: u64,
    /// The ids of its pages, or [`NONE`]. A dropped page keeps its id for its next life.
    ids: [u32; LEAF_PAGES as usize],
    /// Pages with contents; each has an id.
    live: u8,
    /// Pages referenced at any time at this number.
    touched: u8,
    /// Pages written to at any time at this number.
    written: u8,
}

impl Leaf {
    const fn new(number: u64) -> Self {
        Self { number, ids: [NONE; LEAF_PAGES as usize], live: 0, touched: 0, written: 0 }
    }
}

/// The table.
pub(crate) struct Pages {
    /// Slots, a power of two of them; a leaf lies at its home or behind it, with no empty slot
    /// between.
    slots: Vec<Leaf>,
    /// Slots in use: at most five of eight.
    used: usize,
    /// Slot of the last leaf found.
    last: usize,
    /// Numbers of the leaves with a live page; not kept before it is needed.
    live: Option<BTreeSet<u64>>,
    /// Ids given out.
    ids: u32,
}

/// What [`Pages::touch`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A page that has an id (and now has contents).
    Known(u32),
    /// A page never touched before; the next id is its.
    New(u32),
}

/// There are no more ids.
#[derive(Debug)]
pub(crate) struct Exhausted;

impl Pages {
    pub(crate) fn new() -> Self {
        Self { slots: vec![Leaf::new(EMPTY); SLOTS], used: 0, last: 0, live: None, ids: 0 }
    }

    /// The id of a page that is referenced now.
    #[inline]
    pub(crate) fn touch(&mut self, page: u64, write: bool) -> Result<Touch, Exhausted> {
        let slot = self.leaf(page >> LEAF_BITS);
        let leaf = &mut self.slots[slot];
        let place = (page % LEAF_PAGES) as usize;
        leaf.touched |= 1 << place;
        leaf.written |= u8::from(write) << place;
        if leaf.live >> place & 1 != 0 {
            return Ok(Touch::Known(leaf.ids[place]));
        }
        self.revive(slot, place)
    }

    /// The slot of a leaf, which is made if there is none.
    #[inline]
    fn leaf(&mut self, number: u64) -> usize {
        if self.slots[self.last].number != number {
            let slot = self.find(number);
            self.last = if self.slots[slot].number == EMPTY { self.insert(number) } else { slot };
        }
        self.last
    }

    /// The slot where a leaf is, or the empty one where it would be.
    #[inline]
    fn find(&self, number: u64) -> usize {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: the high bits of the product are the good ones.
        let home = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.slots.len().trailing_zeros());
        let mut slot = home as usize;
        // Ends: there always is an empty slot.
        while self.slots[slot].number != number && self.slots[slot].number != EMPTY {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[cold]
    fn insert(&mut self, number: u64) -> usize {
        if (self.used + 1) * 8 > self.slots.len() * 5 {
            let larger = vec![Leaf::new(EMPTY); 2 * self.slots.len()];
            for leaf in std::mem::replace(&mut self.slots, larger) {
                if leaf.number != EMPTY {
                    let slot = self.find(leaf.number);
                    self.slots[slot] = leaf;
                }
            }
            self.last = 0;
        }
        self.used += 1;
        let slot = self.find(number);
        self.slots[slot] = Leaf::new(number);
        slot
    }

    /// Gives a page without contents contents, and an id if it has none.
    #[cold]
    fn revive(&mut self, slot: usize, place: usize) -> Result<Touch, Exhausted> {
        let leaf = &mut self.slots[slot];
        let known = leaf.ids[place] != NONE;
        if !known {
            if self.ids == MAX_PAGES {
                return Err(Exhausted);
            }
            leaf.ids[place] = self.ids;
            self.ids += 1;
        }
        let id = leaf.ids[place];
        self.set_live(slot, place);
        Ok(if known { Touch::Known(id) } else { Touch::New(id) })
    }

    fn set_live(&mut self, slot: usize, place: usize) {
        let leaf = &mut self.slots[slot];
        if leaf.live == 0
            && let Some(live) = &mut self.live
        {
            live.insert(leaf.number);
        }
        leaf.live |= 1 << place;
    }

    /// Ids given out so far.
    pub(crate) fn ids(&self) -> u32 {
        self.ids
    }

    /// Page numbers ever touched.
    pub(crate) fn touched(&self) -> u64 {
        self.slots.iter().map(|leaf| u64::from(leaf.touched.count_ones())).sum()
    }

    /// Page numbers ever written to.
    pub(crate) fn written(&self) -> u64 {
        self.slots.iter().map(|leaf| u64::from(leaf.written.count_ones())).sum()
    }

    /// The live pages of a range, ascending.
    fn live_pages(&mut self, range: &Range<u64>) -> Vec<u64> {
        let Some(last) = range.end.checked_sub(1).filter(|last| range.start <= *last) else {
            return Vec::new();
        };
        let slots = &self.slots;
        let live = self.live.get_or_insert_with(|| {
            slots.iter().filter(|leaf| leaf.live != 0).map(|leaf| leaf.number).collect()
        });
        let numbers: Vec<u64> = live.range(range.start >> LEAF_BITS..=last >> LEAF_BITS).copied().collect();
        let mut pages = Vec::new();
        for number in numbers {
            let mut live = self.slots[self.find(number)].live;
            while live != 0 {
                let page = number << LEAF_BITS | u64::from(live.trailing_zeros());
                live &= live - 1;
                if range.contains(&page) {
                    pages.push(page);
                }
            }
        }
        pages
    }

    /// Takes a live page's contents away.
    fn kill(&mut self, page: u64) -> u32 {
        let slot = self.leaf(page >> LEAF_BITS);
        let (leaf, place) = (&mut self.slots[slot], (page % LEAF_PAGES) as usize);
        leaf.live &= !(1 << place);
        if leaf.live == 0
            && let Some(live) = &mut self.live
        {
            live.remove(&leaf.number);
        }
        leaf.ids[place]
    }

    /// Takes the contents of a range of pages away; gives the ids that had any, ascending.
    pub(crate) fn unmap(&mut self, range: Range<u64>) -> Vec<u32> {
        let mut ids: Vec<u32> = self.live_pages(&range).into_iter().map(|page| self.kill(page)).collect();
        ids.sort_unstable();
        ids
    }

    /// Moves the contents of `pages` pages from `from` to `to`, as `memmove` would if they overlap.
    /// What the target held is dropped; a dead id met there changes places with the one that moves
    /// in, so that there are never more ids than page numbers.
    pub(crate) fn remap(&mut self, from: u64, to: u64, pages: u64) -> Remapped {
        let (source, target) = (from..from + pages, to..to + pages);
        let mut moving = self.live_pages(&source);
        if to > from {
            moving.reverse();
        }
        // The part of the target that is not source as well.
        let outside = if to > from {
            target.start.max(source.end)..target.end
        } else {
            target.start..target.end.min(source.start)
        };
        let dropped = self.unmap(outside);
        let mut moved = Vec::with_capacity(moving.len());
        if from == to {
            return Remapped { dropped, moved };
        }
        for page in moving {
            let new = page - from + to;
            let id = self.kill(page);
            let (slot, place) = (self.leaf(new >> LEAF_BITS), (new % LEAF_PAGES) as usize);
            let displaced = std::mem::replace(&mut self.slots[slot].ids[place], id);
            self.set_live(slot, place);
            moved.push((id, new));
            let (slot, place) = (self.leaf(page >> LEAF_BITS), (page % LEAF_PAGES) as usize);
            self.slots[slot].ids[place] = displaced;
            if displaced != NONE {
                moved.push((displaced, page));
            }
        }
        Remapped { dropped, moved }
    }
}

/// What [`Pages::remap`] did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remapped {
    /// Ids whose contents the moved pages replaced, ascending.
    pub(crate) dropped: Vec<u32>,
    /// Ids and their new page numbers, in order.
    pub(crate) moved: Vec<(u32, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    fn touch(pages: &mut Pages, page: u64) -> u32 {
        match pages.touch(page, false).unwrap() {
            Touch::Known(id) | Touch::New(id) => id,
        }
    }

    #[test]
    fn ids_are_dense_in_order_of_first_touch_and_outlive_an_unmapping() {
        let mut pages = Pages::new();
        assert_eq!(pages.touch(1 << 40, false).unwrap(), Touch::New(0));
        assert_eq!(pages.touch(7, true).unwrap(), Touch::New(1));
        assert_eq!(pages.touch(1 << 40, true).unwrap(), Touch::Known(0));
        assert_eq!(pages.unmap(0..u64::MAX), [0, 1]);
        assert!(pages.unmap(0..u64::MAX).is_empty());
        assert_eq!(pages.touch(7, false).unwrap(), Touch::Known(1));
        assert_eq!((pages.touched(), pages.written(), pages.ids()), (2, 2, 2));
    }

    #[test]
    fn unmapping_takes_exactly_the_live_pages_of_the_range() {
        let mut pages = Pages::new();
        for page in [100, 10, 40, 41, 90] {
            touch(&mut pages, page);
        }
        assert_eq!(pages.unmap(40..91), [2, 3, 4]);
        assert_eq!(pages.unmap(11..101), [0]);
        assert!(pages.unmap(5..5).is_empty());
        assert_eq!(pages.unmap(10..11), [1]);
    }

    #[test]
    fn contents_move_and_dead_ids_change_places() {
        let mut pages = Pages::new();
        for page in 0..4 {
            touch(&mut pages, page);
        }
        // 0 and 1 move onto 2 and 3, whose contents are gone.
        let moved = pages.remap(0, 2, 2);
        assert_eq!(moved, Remapped { dropped: vec![2, 3], moved: vec![(1, 3), (3, 1), (0, 2), (2, 0)] });
        assert_eq!([0, 1, 2, 3].map(|page| touch(&mut pages, page)), [2, 3, 0, 1]);
        assert_eq!(pages.touched(), 4);
    }

    #[test]
    fn overlapping_moves_are_as_memmove() {
        for (from, to) in [(10u64, 12u64), (12, 10)] {
            let _input = trying(|| format!("{from} to {to}"));
            let mut pages = Pages::new();
            for page in from..from + 4 {
                touch(&mut pages, page);
            }
            assert!(pages.remap(from, to, 4).dropped.is_empty());
            assert_eq!([0, 1, 2, 3].map(|i| touch(&mut pages, to + i)), [0, 1, 2, 3]);
            // Two ids are live at the target only; the source's other two pages are new.
            let fresh = if to > from { from } else { from + 2 };
            assert_eq!(pages.touch(fresh, false).unwrap(), Touch::New(4));
        }
    }

    #[test]
    fn a_target_is_dropped_even_where_nothing_moves_in() {
        let mut pages = Pages::new();
        touch(&mut pages, 5);
        assert_eq!(pages.remap(0, 5, 1), Remapped { dropped: vec![0], moved: vec![] });
        assert_eq!(pages.remap(5, 5, 1), Remapped { dropped: vec![], moved: vec![] });
    }
}
