//! Which line of a program has most of each page that small allocations share.
//!
//! A recording has no object for each small allocation. It has the memory that allocators took for
//! them, the arenas, and a sample of the allocations, each with the place that made it and the time
//! at which it went. Of each page the place that had most bytes there for the longest time is kept.
//!
//! An allocator can be one that the recorder does not see. So who touches a page of an arena first
//! counts as well, for less than a sample: mostly that is who has the first block there.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The bytes that a sample stands for if it has fewer: the recorder takes one sample in this many.
const STEP: u64 = 1024;
/// What the first touch of a page stands for.
const FIRST_TOUCH: u64 = STEP / 2;
/// Most places of a page that are kept in mind.
const MOST_OF_PAGE: usize = 6;
const PAGE_SHIFT: u64 = 12;
/// The most bytes of an allocation that count. The recorder's default for objects is far less.
const MOST_BYTES: u64 = 4 << 20;
/// Pages of a [`Stretch`].
const STRETCH: u64 = 512;
/// Stands for the place of a page that has not been touched, and for that of one in no arena.
const NONE: u32 = u32::MAX;
const OUTSIDE: u32 = u32::MAX - 1;

/// The place of the first touch of each of some pages, and when that was.
type Stretch = Box<[(u32, u64)]>;

/// Gathers what a stream says of small allocations.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Arenas: the first page, and the one after the last. They may overlap.
    arenas: BTreeMap<u64, u64>,
    /// By their number: stretches of pages of which some are in an arena, `None` if none is.
    stretches: FxHashMap<u64, Option<Stretch>>,
    /// Samples that live, by address.
    live: FxHashMap<u64, Sample>,
    /// By page: places, and bytes times time.
    held: FxHashMap<u64, Vec<(u32, u128)>>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    bytes: u64,
    place: u32,
    /// References before it came.
    since: u64,
}

impl Gathered {
    /// An allocator keeps small blocks in these pages from now on.
    pub(crate) fn arena(&mut self, first: u64, pages: u64) {
        let end = first + pages;
        let known = self.arenas.entry(first).or_insert(end);
        *known = end.max(*known);
        // What is in there was given back, and is mapped again.
        for (number, stretch) in &mut self.stretches {
            let start = number * STRETCH;
            let from = first.clamp(start, start + STRETCH) - start;
            let to = end.clamp(start, start + STRETCH) - start;
            if from < to {
                let pages = stretch.get_or_insert_with(|| vec![(OUTSIDE, 0); STRETCH as usize].into());
                pages[from as usize..to as usize].fill((NONE, 0));
            }
        }
    }

    /// The code at `place` touches a page, after `now` references.
    #[inline]
    pub(crate) fn touch(&mut self, page: u64, place: u32, now: u64) {
        if self.arenas.is_empty() {
            return;
        }
        let number = page / STRETCH;
        match self.stretches.get_mut(&number) {
            Some(None) => {}
            Some(Some(pages)) => {
                if let first @ (NONE, _) = &mut pages[(page % STRETCH) as usize] {
                    *first = (place, now);
                }
            }
            None => {
                self.look_at(number);
                self.touch(page, place, now);
            }
        }
    }

    /// Finds the arenas that have a part of a stretch.
    fn look_at(&mut self, number: u64) {
        let start = number * STRETCH;
        let mut stretch = None;
        for (&first, &end) in self.arenas.range(..start + STRETCH) {
            let (from, to) = (first.max(start), end.min(start + STRETCH));
            if from < to {
                let pages =
                    stretch.get_or_insert_with(|| Stretch::from(vec![(OUTSIDE, 0); STRETCH as usize]));
                pages[(from - start) as usize..(to - start) as usize].fill((NONE, 0));
            }
        }
        self.stretches.insert(number, stretch);
    }

    /// A small allocation came after `now` references.
    pub(crate) fn came(&mut self, address: u64, bytes: u64, place: u32, now: u64) {
        self.went(address, now);
        let bytes = bytes.min(MOST_BYTES);
        self.live.insert(address, Sample { bytes, place, since: now });
    }

    /// It went.
    pub(crate) fn went(&mut self, address: u64, now: u64) {
        if let Some(sample) = self.live.remove(&address) {
            self.hold(address, sample, now);
        }
    }

    fn hold(&mut self, address: u64, sample: Sample, now: u64) {
        let Sample { bytes, place, since } = sample;
        let end = address.saturating_add(bytes.max(1));
        let time = u128::from(now - since + 1);
        for page in address >> PAGE_SHIFT..=(end - 1) >> PAGE_SHIFT {
            let from = address.max(page << PAGE_SHIFT);
            let to = end.min((page + 1) << PAGE_SHIFT);
            self.add(page, place, u128::from((to - from).max(STEP)) * time);
        }
    }

    fn add(&mut self, page: u64, place: u32, held: u128) {
        let of_page = self.held.entry(page).or_default();
        if let Some((_, sum)) = of_page.iter_mut().find(|(known, _)| *known == place) {
            *sum += held;
        } else if of_page.len() < MOST_OF_PAGE {
            of_page.push((place, held));
        } else if let Some(least) = of_page.iter_mut().min_by_key(|(_, held)| *held)
            && least.1 < held
        {
            *least = (place, held);
        }
    }

    /// The pages with the place that has most of each, after `now` references. `line_of` says which
    /// line a place is in, and whether it imports modules: places of one line count as one.
    pub(crate) fn finish(mut self, line_of: &dyn Fn(u32) -> (String, bool), now: u64) -> SmallBlocks {
        for (address, sample) in std::mem::take(&mut self.live) {
            self.hold(address, sample, now);
        }
        for (number, stretch) in std::mem::take(&mut self.stretches) {
            for (page, (place, since)) in (number * STRETCH..).zip(stretch.unwrap_or_default()) {
                if place < OUTSIDE {
                    self.add(page, place, u128::from(FIRST_TOUCH) * u128::from(now - since + 1));
                }
            }
        }
        let mut lines: FxHashMap<(String, bool), u32> = FxHashMap::default();
        let mut firsts: FxHashMap<u32, u32> = FxHashMap::default();
        let mut of_line = |place: u32| {
            *firsts.entry(place).or_insert_with(|| *lines.entry(line_of(place)).or_insert(place))
        };
        let mut pages: Vec<(u64, u32)> = Vec::with_capacity(self.held.len());
        let mut held: Vec<_> = self.held.into_iter().collect();
        held.sort_unstable_by_key(|(page, _)| *page);
        for (page, of_page) in held {
            let mut sums: Vec<(u32, u128)> = Vec::new();
            for (place, held) in of_page {
                let line = of_line(place);
                match sums.iter_mut().find(|(known, _)| *known == line) {
                    Some((_, sum)) => *sum += held,
                    None => sums.push((line, held)),
                }
            }
            let most = sums.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
            pages.extend(most.map(|(line, _)| (page, line)));
        }
        SmallBlocks::of_pages(&pages)
    }
}

/// Pages with small allocations, and the place that has most of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmallBlocks {
    /// First page, pages and place, ascending and apart.
    ranges: Vec<(u64, u64, u32)>,
}

impl SmallBlocks {
    fn of_pages(pages: &[(u64, u32)]) -> Self {
        let mut ranges: Vec<(u64, u64, u32)> = Vec::new();
        for (page, place) in pages {
            match ranges.last_mut() {
                Some((first, n, of)) if *first + *n == *page && of == place => *n += 1,
                _ => ranges.push((*page, 1, *place)),
            }
        }
        Self { ranges }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The place with most of a page; `None` if no small allocations are known there.
    pub fn of_page(&self, page: u64) -> Option<u32> {
        let after = self.ranges.partition_point(|(first, ..)| *first <= page);
        let (first, pages, place) = *self.ranges.get(after.checked_sub(1)?)?;
        (page - first < pages).then_some(place)
    }

    /// The places, ascending, each once.
    pub fn places(&self) -> Vec<u32> {
        let mut places: Vec<u32> = self.ranges.iter().map(|(.., place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// As numbers for a file: of each range the pages between it and the one before, its pages, its
    /// place.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        let mut end = 0;
        let mut numbers = Vec::with_capacity(3 * self.ranges.len());
        for &(first, pages, place) in &self.ranges {
            numbers.extend([first - end, pages, u64::from(place)]);
            end = first + pages;
        }
        numbers
    }

    /// What [`SmallBlocks::to_numbers`] has made. `None` if it makes no sense with `places` places.
    pub(crate) fn from_numbers(numbers: &[u64], places: usize) -> Option<Self> {
        let (triples, []) = numbers.as_chunks::<3>() else { return None };
        let mut end: u64 = 0;
        let mut ranges = Vec::with_capacity(triples.len());
        for &[gap, pages, place] in triples {
            let first = end.checked_add(gap)?;
            end = first.checked_add(pages)?;
            if pages == 0 || place >= places as u64 {
                return None;
            }
            ranges.push((first, pages, place as u32));
        }
        Some(Self { ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{Collector, Frame, Places, Stack};

    fn places(lines: u32) -> Places {
        let mut collector = Collector::default();
        for line in 0..lines {
            let line = Some(("a.c".to_owned(), line));
            collector.stack(Stack(vec![Frame { line, ..Frame::default() }]));
        }
        collector.finish()
    }

    #[test]
    fn a_page_is_of_the_line_that_had_most_there_for_longest() {
        let mut gathered = Gathered::default();
        gathered.arena(0x10, 4);
        // Line 0 comes first, everywhere; it goes, and line 1 has page 0x10 for most of the time.
        for page in 0x10..0x14 {
            gathered.touch(page, 0, 0);
            gathered.came(page << 12, 64, 0, 0);
        }
        for page in 0x10..0x13 {
            gathered.went(page << 12, 1000);
        }
        gathered.came(0x10_100, 64, 1, 1000);
        gathered.came(0x10_200, 64, 1, 1000);
        // Line 2 comes and goes at once.
        for time in 0..1000 {
            gathered.came(0x11_800, 64, 2, 2000 + time);
            gathered.went(0x11_800, 2000 + time);
        }
        // One that lies on two pages; and no arena there.
        gathered.came(0x1f_f00, 4096, 3, 0);
        let small = gathered.finish(&|place| places(4).line(place), 9999);
        let of: Vec<_> = (0x0f..0x22).map(|page| small.of_page(page)).collect();
        assert_eq!(of[..6], [None, Some(1), Some(0), Some(0), Some(0), None]);
        assert_eq!(of[0x10..], [Some(3), Some(3), None]);
        assert_eq!(small.places(), [0, 1, 3]);
        let again = SmallBlocks::from_numbers(&small.to_numbers(), 4);
        assert_eq!(again.as_ref(), Some(&small));
        assert_eq!(SmallBlocks::from_numbers(&small.to_numbers(), 3), None, "a place that is not there");
        assert_eq!(SmallBlocks::from_numbers(&[1, 2], 3), None);
        assert_eq!(SmallBlocks::from_numbers(&[u64::MAX, 2, 0], 3), None);
    }

    #[test]
    fn an_arena_that_grows_or_comes_again_is_touched_for_the_first_time() {
        let mut gathered = Gathered::default();
        gathered.touch(0x10, 0, 0);
        gathered.arena(0x10, 2);
        gathered.touch(0x10, 0, 1);
        gathered.touch(0x10, 1, 2);
        gathered.touch(0x12, 1, 2);
        gathered.arena(0x12, 2);
        gathered.touch(0x12, 2, 3);
        gathered.arena(0x11, 4);
        gathered.touch(0x12, 1, 4);
        gathered.touch(0x14, 1, 4);
        let small = gathered.finish(&|place| places(3).line(place), 9);
        let of: Vec<_> = (0x0f..0x16).map(|page| small.of_page(page)).collect();
        assert_eq!(of, [None, Some(0), None, Some(1), None, Some(1), None]);
    }
}
