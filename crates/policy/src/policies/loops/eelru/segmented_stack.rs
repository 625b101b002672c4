//! A recency stack that is cut at fixed depths.

use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// Pages by their last reference, the latest on top, in segments that end at given depths; the page
/// on top has depth 1. What lies deeper than the last cut is one more segment without an end. At
/// most `N` segments.
///
/// A reference has one page cross each cut above the page referenced: O(1) within the first
/// segment, and never a walk. A page that crosses a cut keeps its place in the list, and only its
/// segment's number changes. 10 bytes a page.
#[derive(Clone, Debug)]
pub(super) struct SegmentedStack<const N: usize> {
    /// All pages, the one on top at the back.
    stack: Lists<1>,
    /// 1 + the segment of each page; 0 for none.
    segment: PageMap<u8>,
    /// By segment. One that is not full has only empty ones under it.
    segments: [Segment; N],
    /// The depth of the last page of each segment, rising.
    cuts: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// Its deepest page.
    bottom: Option<PageId>,
    len: usize,
}

/// The list of a stack.
const STACK: usize = 0;

impl<const N: usize> SegmentedStack<N> {
    /// An empty stack. Panics unless the depths rise, from at least 1, and are fewer than `N`.
    pub(super) fn new(cuts: Vec<usize>) -> Self {
        assert!(cuts.len() < N && !cuts.contains(&0), "{} cuts in {N} segments", cuts.len());
        assert!(cuts.is_sorted_by(|upper, lower| upper < lower), "cuts {cuts:?} do not rise");
        Self { stack: Lists::new(), segment: PageMap::new(), segments: [Segment::default(); N], cuts }
    }

    /// The segment that a page is in, counted from the top.
    #[inline]
    pub(super) fn segment_of(&self, page: PageId) -> Option<usize> {
        (self.segment.get(page) as usize).checked_sub(1)
    }

    /// The depth at which each segment but the last ends.
    #[inline]
    pub(super) fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// Pages in the stack.
    pub(super) fn len(&self) -> usize {
        self.stack.len(STACK)
    }

    /// The page at depth `cuts()[segment]`, if the stack is that deep.
    pub(super) fn at_cut(&self, segment: usize) -> Option<PageId> {
        let Segment { bottom, len } = self.segments[segment];
        bottom.filter(|_| len == self.capacity(segment))
    }

    /// The least recently used page.
    #[inline]
    pub(super) fn bottom(&self) -> Option<PageId> {
        self.stack.front(STACK)
    }

    /// Puts a page, in the stack or not, on top.
    #[inline]
    pub(super) fn touch(&mut self, page: PageId) {
        if self.stack.back(STACK) == Some(page) {
            return;
        }
        match self.segment_of(page) {
            // It is not on top, so a page is above it.
            Some(0) => {
                if self.segments[0].bottom == Some(page) {
                    self.segments[0].bottom = self.stack.next(page);
                }
                self.stack.move_to_back(STACK, page);
            }
            from => {
                if let Some(from) = from {
                    self.leave(from, page);
                }
                self.stack.move_to_back(STACK, page);
                self.segment.set(page, 1);
                let first = &mut self.segments[0];
                first.len += 1;
                first.bottom = first.bottom.or(Some(page));
                self.sink();
            }
        }
    }

    /// Has the last page of each segment that is too long, from the top on, cross its cut.
    fn sink(&mut self) {
        for segment in 0..self.cuts.len() {
            if self.segments[segment].len <= self.capacity(segment) {
                break;
            }
            let Some(last) = self.segments[segment].bottom else { break };
            self.leave(segment, last);
            self.segment[last] = segment as u8 + 2;
            let next = &mut self.segments[segment + 1];
            next.len += 1;
            next.bottom = next.bottom.or(Some(last));
        }
    }

    /// Counts a page out of a segment. The page keeps its place in the list.
    #[inline]
    fn leave(&mut self, segment: usize, page: PageId) {
        let Segment { bottom, len } = &mut self.segments[segment];
        *len -= 1;
        if *bottom == Some(page) {
            *bottom = self.stack.next(page).filter(|_| *len > 0);
        }
    }

    /// Takes a page out, if it is in the stack; those under it move up.
    pub(super) fn remove(&mut self, page: PageId) {
        let Some(segment) = self.segment_of(page) else { return };
        let mut under = self.stack.previous(page);
        self.leave(segment, page);
        self.stack.remove(page);
        self.segment[page] = 0;
        for segment in segment..self.cuts.len() {
            // The page on top of the next segment becomes the bottom of this one.
            if let Some(bottom) = self.segments[segment].bottom {
                under = self.stack.previous(bottom);
            }
            let Some(rises) = under else { break };
            under = self.stack.previous(rises);
            self.leave(segment + 1, rises);
            self.segment[rises] = segment as u8 + 1;
            self.segments[segment].bottom = Some(rises);
            self.segments[segment].len += 1;
        }
    }

    /// Takes out what lies deeper than the last cut. O(1) after a touch: there is one page at most.
    #[inline]
    pub(super) fn truncate(&mut self) {
        while self.segments[self.cuts.len()].len > 0
            && let Some(page) = self.stack.front(STACK)
        {
            self.remove(page);
        }
    }

    /// The pages from the top to the bottom.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> Vec<PageId> {
        let mut pages: Vec<_> = self.stack.iter(STACK).collect();
        pages.reverse();
        pages
    }

    /// Checks the list, and that the segments follow one another, all full but the last with pages.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.stack.check()?;
        let mut pages = self.stack.iter(STACK).peekable();
        for number in (0..=self.cuts.len()).rev() {
            let Segment { bottom, len } = self.segments[number];
            ensure!(
                bottom == pages.peek().copied().filter(|_| len > 0),
                "segment {number}: bottom {bottom:?}"
            );
            let capacity = self.capacity(number);
            ensure!(len <= capacity, "segment {number}: {len} pages, {capacity} fit");
            let above = number.checked_sub(1);
            let is_full = above.is_none_or(|above| self.segments[above].len == self.capacity(above));
            ensure!(len == 0 || is_full, "segment {number}: {len} pages, the one above is not full");
            for _ in 0..len {
                let page = pages.next();
                let is_marked = page.is_some_and(|page| self.segment_of(page) == Some(number));
                ensure!(is_marked, "segment {number}: page {page:?} is not marked as in it");
            }
        }
        ensure!(pages.next().is_none(), "a page is in no segment");
        let members = self.segment.iter().filter(|&(_, segment)| segment != 0).count();
        ensure!(members == self.len(), "{members} pages marked, {} in the stack", self.len());
        Ok(())
    }

    fn capacity(&self, segment: usize) -> usize {
        let end = self.cuts.get(segment).copied().unwrap_or(usize::MAX);
        end - segment.checked_sub(1).map_or(0, |upper| self.cuts[upper])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use sweephand_checks::trying;

    /// The same pages at the same depths as in a plain vector, through touches and removals.
    #[test]
    fn cuts_stay_at_their_depths() {
        let mut random = SplitMix64::new(1);
        for cuts in [vec![], vec![1], vec![2, 3, 7], vec![1, 4, 5, 6]] {
            let _input = trying(|| format!("cuts at {cuts:?}"));
            let mut stack = SegmentedStack::<5>::new(cuts.clone());
            let mut plain: Vec<PageId> = Vec::new();
            for _ in 0..3000 {
                let page = PageId(random.below(12) as u32);
                plain.retain(|other| *other != page);
                if random.below(4) == 0 {
                    stack.remove(page);
                } else {
                    stack.touch(page);
                    plain.insert(0, page);
                }
                stack.check().unwrap();
                assert_eq!(stack.pages(), plain);
                assert_eq!((stack.len(), stack.bottom()), (plain.len(), plain.last().copied()));
                for (segment, &cut) in cuts.iter().enumerate() {
                    assert_eq!(stack.at_cut(segment), plain.get(cut - 1).copied(), "cut {cut}");
                }
                for (depth, &page) in plain.iter().enumerate() {
                    let segment = cuts.iter().filter(|cut| **cut <= depth).count();
                    assert_eq!(stack.segment_of(page), Some(segment));
                }
            }
            stack.truncate();
            plain.truncate(cuts.last().copied().unwrap_or(0));
            assert_eq!(stack.pages(), plain);
        }
    }
}
