//! A log of pages that knows how many marks precede each place.

use crate::collections::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// Places of a block: the bits of a word.
pub(super) const BLOCK_PLACES: usize = 64;
/// Blocks of a group.
pub(super) const GROUP_BLOCKS: usize = 8;
const GROUP_PLACES: usize = BLOCK_PLACES * GROUP_BLOCKS;

/// The numbers of the bits of a word that are set, rising.
#[inline]
pub(super) fn bits(word: u64) -> impl Iterator<Item = u32> {
    let words = core::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
    words.take_while(|word| *word != 0).map(u64::trailing_zeros)
}

/// Blocks that follow one another.
#[derive(Clone, Copy, Debug)]
struct Group<const SETS: usize> {
    /// Marks of each set in the group.
    marks: [u32; SETS],
    /// Marks of each set before the group, as of the last [`RankedLog::count`].
    before: [u32; SETS],
}

/// Pages in the order in which they were appended, and sets of them.
///
/// A page has one place, where it was appended last, and there a mark for each set that holds it.
/// Appending and unmarking cost O(1): they look at no other page. How many pages of a set come
/// before a place is counted group by group when it is wanted ([`count`](Self::count)), and from
/// there by words. A full log must be [`compact`](Self::compact)ed, after as many appended pages as
/// it kept the last time; so that is O(1) a page, too. 4 bytes a page seen, and 9 to 18 for a page
/// in a set.
#[derive(Clone, Debug)]
pub(super) struct RankedLog<const SETS: usize> {
    /// The page of each place.
    pages: Vec<PageId>,
    /// The marks of each block.
    marks: Vec<[u64; SETS]>,
    groups: Vec<Group<SETS>>,
    /// 1 + the place of each page; 0 for a page that is in no set, at least since the log was
    /// compacted.
    place: PageMap<u32>,
    /// Places that the log may have until it is compacted.
    room: usize,
    /// Pages in each set.
    len: [usize; SETS],
    /// There are no marks before this place.
    start: [usize; SETS],
}

impl<const SETS: usize> RankedLog<SETS> {
    /// An empty log.
    pub(super) const fn new() -> Self {
        Self {
            pages: Vec::new(),
            marks: Vec::new(),
            groups: Vec::new(),
            place: PageMap::new(),
            room: GROUP_PLACES,
            len: [0; SETS],
            start: [0; SETS],
        }
    }

    /// Pages in a set.
    #[inline]
    pub(super) fn len(&self, set: usize) -> usize {
        self.len[set]
    }

    /// The place of a page that is in one of the sets.
    #[inline]
    pub(super) fn place_of(&self, page: PageId) -> Option<usize> {
        let place = (self.place.get(page) as usize).checked_sub(1)?;
        self.is_marked(place).then_some(place)
    }

    /// The page of a place, still there or not.
    #[inline]
    pub(super) fn page(&self, place: usize) -> PageId {
        self.pages[place]
    }

    /// Whether there is such a place and it has a mark: its page is in a set, and was not appended
    /// again.
    #[inline]
    pub(super) fn is_marked(&self, place: usize) -> bool {
        let words = self.marks.get(place / BLOCK_PLACES).map_or(&[][..], |marks| &marks[..]);
        words.iter().fold(0, |all, word| all | word) >> (place % BLOCK_PLACES) & 1 != 0
    }

    /// Whether a set holds a page.
    #[inline]
    pub(super) fn contains(&self, page: PageId, set: usize) -> bool {
        let place = (self.place.get(page) as usize).checked_sub(1);
        place.is_some_and(|place| self.holds(place, set))
    }

    /// Whether a set holds the page of a place, which has not been appended again.
    #[inline]
    pub(super) fn holds(&self, place: usize, set: usize) -> bool {
        self.marks[place / BLOCK_PLACES][set] >> (place % BLOCK_PLACES) & 1 != 0
    }

    /// The place of a page that is in a set, or was in one since the log was compacted; otherwise
    /// the first place.
    #[inline]
    pub(super) fn last_place_of(&self, page: PageId) -> usize {
        self.place.get(page).saturating_sub(1) as usize
    }

    /// Asks for what says where a page is.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.place.prefetch(page);
    }

    /// The first page of a set, with its place.
    #[inline]
    pub(super) fn first(&mut self, set: usize) -> Option<(usize, PageId)> {
        if self.len[set] == 0 {
            return None;
        }
        let mut block = self.start[set] / BLOCK_PLACES;
        while self.marks[block][set] == 0 {
            block += 1;
        }
        self.start[set] = block * BLOCK_PLACES + self.marks[block][set].trailing_zeros() as usize;
        Some((self.start[set], self.pages[self.start[set]]))
    }

    /// The last page of a set, with its place.
    pub(super) fn last(&self, set: usize) -> Option<(usize, PageId)> {
        let block = self.marks.iter().rposition(|marks| marks[set] != 0)?;
        let place = block * BLOCK_PLACES + self.marks[block][set].ilog2() as usize;
        Some((place, self.pages[place]))
    }

    /// Places of the log.
    #[inline]
    pub(super) fn places(&self) -> usize {
        self.pages.len()
    }

    /// Whether the log must be compacted before a page can be appended.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pages.len() == self.room
    }

    /// Puts a page at the end, into all sets, and returns its place.
    #[inline]
    pub(super) fn append(&mut self, page: PageId) -> usize {
        debug_assert!(!self.is_full());
        self.place.cover(page);
        if let Some(old) = (self.place[page] as usize).checked_sub(1) {
            (0..SETS).for_each(|set| self.unmark_place(old, set));
        }
        let place = self.pages.len();
        self.pages.push(page);
        if place.is_multiple_of(BLOCK_PLACES) {
            self.marks.push([0; SETS]);
            if place.is_multiple_of(GROUP_PLACES) {
                self.groups.push(Group { marks: [0; SETS], before: [0; SETS] });
            }
        }
        let group = &mut self.groups[place / GROUP_PLACES];
        let marks = &mut self.marks[place / BLOCK_PLACES];
        marks.iter_mut().for_each(|word| *word |= 1 << (place % BLOCK_PLACES));
        group.marks.iter_mut().for_each(|marks| *marks += 1);
        self.len.iter_mut().for_each(|len| *len += 1);
        self.place[page] = place as u32 + 1;
        place
    }

    /// Takes a page out of a set, if it is there.
    #[inline]
    pub(super) fn unmark(&mut self, page: PageId, set: usize) {
        if let Some(place) = (self.place.get(page) as usize).checked_sub(1) {
            self.unmark_place(place, set);
        }
    }

    #[inline]
    fn unmark_place(&mut self, place: usize, set: usize) {
        let word = &mut self.marks[place / BLOCK_PLACES][set];
        let marked = *word >> (place % BLOCK_PLACES) & 1;
        *word &= !(1 << (place % BLOCK_PLACES));
        self.groups[place / GROUP_PLACES].marks[set] -= marked as u32;
        self.len[set] -= marked as usize;
        if place == self.start[set] {
            self.start[set] += 1;
        }
    }

    /// Closes the gaps: drops places without marks, and makes room for as many pages as are left.
    pub(super) fn compact(&mut self) {
        let old = core::mem::take(&mut self.pages);
        let marks = core::mem::take(&mut self.marks);
        self.groups.clear();
        (self.len, self.start) = ([0; SETS], [0; SETS]);
        self.room = usize::MAX;
        for (place, page) in old.into_iter().enumerate() {
            let words = marks[place / BLOCK_PLACES];
            let marked = |set: usize| words[set] >> (place % BLOCK_PLACES) & 1 != 0;
            if self.place[page] as usize != place + 1 {
                continue;
            }
            self.place[page] = 0;
            if (0..SETS).any(marked) {
                let place = self.append(page);
                (0..SETS).filter(|set| !marked(*set)).for_each(|set| self.unmark_place(place, set));
            }
        }
        self.room = (2 * self.pages.len()).next_multiple_of(GROUP_PLACES).max(GROUP_PLACES);
        self.pages.reserve_exact(self.room - self.pages.len());
    }

    /// Counts the marks before each group. O(groups).
    pub(super) fn count(&mut self) {
        let mut before = [0; SETS];
        for group in &mut self.groups {
            group.before = before;
            (0..SETS).for_each(|set| before[set] += group.marks[set]);
        }
    }

    /// Pages of a set before a place, or in all if there is no such place yet. As of the last
    /// count.
    #[inline]
    pub(super) fn rank(&self, place: usize, set: usize) -> usize {
        if place <= self.start[set] {
            return 0;
        }
        if place >= self.pages.len() {
            return self.len[set];
        }
        if self.start[set] + self.len[set] == self.pages.len() {
            return place - self.start[set]; // without gaps
        }
        let block = place / BLOCK_PLACES;
        let group = place / GROUP_PLACES;
        let ones = |block: usize| self.marks[block][set].count_ones() as usize;
        let before = self.groups[group].before[set] as usize;
        let partial = self.marks[block][set] & !(u64::MAX << (place % BLOCK_PLACES));
        before + (group * GROUP_BLOCKS..block).map(ones).sum::<usize>() + partial.count_ones() as usize
    }

    /// Groups of blocks.
    #[inline]
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The blocks of a group.
    #[inline]
    pub(super) fn blocks_of(&self, group: usize) -> core::ops::Range<usize> {
        group * GROUP_BLOCKS..((group + 1) * GROUP_BLOCKS).min(self.marks.len())
    }

    /// The marks of a block, a word a set.
    #[inline]
    pub(super) fn marks(&self, block: usize) -> [u64; SETS] {
        self.marks[block]
    }

    /// Marks of each set in a group, and before it as of the last count.
    #[inline]
    pub(super) fn group(&self, group: usize) -> ([u32; SETS], [u32; SETS]) {
        let Group { marks, before } = self.groups[group];
        (marks, before)
    }

    /// The pages of a set in order, with their places.
    pub(super) fn iter(&self, set: usize) -> impl Iterator<Item = (usize, PageId)> + '_ {
        let marked = move |place: usize| self.marks[place / BLOCK_PLACES][set] >> (place % BLOCK_PLACES) & 1;
        self.pages.iter().copied().enumerate().filter(move |(place, _)| marked(*place) != 0)
    }

    /// Checks marks, lengths and the place of every page.
    pub(super) fn check(&self) -> Result<(), Violation> {
        ensure!(self.pages.len() <= self.room, "{} places, room for {}", self.pages.len(), self.room);
        for set in 0..SETS {
            let mut len = 0;
            let mut in_group = alloc::vec![0; self.groups.len()];
            for (place, page) in self.iter(set) {
                ensure!(self.place.get(page) as usize == place + 1, "page {page} is marked at place {place}");
                ensure!(place >= self.start[set], "set {set} begins before place {}", self.start[set]);
                in_group[place / GROUP_PLACES] += 1;
                len += 1;
            }
            ensure!(len == self.len[set], "set {set} has {len} pages, counted {}", self.len[set]);
            ensure!(
                self.groups.iter().zip(in_group).all(|(group, marks)| group.marks[set] == marks),
                "a group is counted wrongly"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_vectors() {
        let mut random = SplitMix64::new(1);
        let mut log = RankedLog::<2>::new();
        let mut plain: Vec<(PageId, [bool; 2])> = Vec::new();
        for step in 0..40_000 {
            let _input = trying(|| format!("step {step}"));
            let page = PageId(random.below(1 + step / 50) as u32);
            let known = plain.iter().position(|entry| entry.0 == page);
            let set = random.below(2) as usize;
            assert_eq!(log.contains(page, set), known.is_some_and(|at| plain[at].1[set]));
            if random.below(3) == 0 {
                log.unmark(page, set);
                if let Some(at) = known {
                    plain[at].1[set] = false;
                }
            } else {
                if log.is_full() {
                    log.compact();
                    log.check().unwrap();
                }
                log.append(page);
                known.map(|at| plain.remove(at));
                plain.push((page, [true; 2]));
            }
            plain.retain(|entry| entry.1 != [false; 2]);
            for set in 0..2 {
                let mut held = plain.iter().filter(|entry| entry.1[set]).map(|entry| entry.0);
                assert_eq!(log.len(set), held.clone().count());
                assert_eq!(log.last(set).map(|(_, page)| page), held.clone().next_back());
                assert_eq!(log.first(set).map(|(_, page)| page), held.next());
            }
            if step % 500 == 0 {
                log.check().unwrap();
                log.count();
                for set in 0..2 {
                    let held = plain.iter().filter(|entry| entry.1[set]).map(|entry| entry.0);
                    assert!(log.iter(set).map(|(_, page)| page).eq(held.clone()));
                    for (rank, page) in held.enumerate() {
                        assert_eq!(log.rank(log.place_of(page).unwrap(), set), rank);
                    }
                }
            }
        }
    }
}
