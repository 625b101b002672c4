//! A recency stack that is cut at fixed depths.

use crate::collections::Lists;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// Pages by their last reference, the latest on top, in segments that end at given depths; the page
/// on top has depth 1. What lies deeper than the last cut is one more segment without an end. At
/// most `N` segments.
///
/// A reference moves one page across each cut above it: O(1) within the first segment, and never a
/// walk. 9 bytes a page, as [`Lists`].
#[derive(Clone, Debug)]
pub(super) struct SegmentedStack<const N: usize> {
    /// The segments, the page on top of each at the back. A segment that is not full has only empty
    /// ones under it.
    segments: Lists<N>,
    /// The depth of the last page of each segment, rising.
    cuts: Vec<usize>,
}

impl<const N: usize> SegmentedStack<N> {
    /// An empty stack. Panics unless the depths rise, from at least 1, and are fewer than `N`.
    pub(super) fn new(cuts: Vec<usize>) -> Self {
        assert!(cuts.len() < N && !cuts.contains(&0), "{} cuts in {N} segments", cuts.len());
        assert!(cuts.is_sorted_by(|upper, lower| upper < lower), "cuts {cuts:?} do not rise");
        Self { segments: Lists::new(), cuts }
    }

    /// The segment that a page is in, counted from the top.
    #[inline]
    pub(super) fn segment_of(&self, page: PageId) -> Option<usize> {
        self.segments.list_of(page)
    }

    /// The depth at which each segment but the last ends.
    #[inline]
    pub(super) fn cuts(&self) -> &[usize] {
        &self.cuts
    }

    /// Pages in the stack.
    pub(super) fn len(&self) -> usize {
        (0..N).map(|segment| self.segments.len(segment)).sum()
    }

    /// The page at depth `cuts()[segment]`, if the stack is that deep.
    pub(super) fn at_cut(&self, segment: usize) -> Option<PageId> {
        self.segments.front(segment).filter(|_| self.segments.len(segment) == self.capacity(segment))
    }

    /// The least recently used page.
    pub(super) fn bottom(&self) -> Option<PageId> {
        (0..=self.cuts.len()).rev().find_map(|segment| self.segments.front(segment))
    }

    /// Puts a page, in the stack or not, on top.
    #[inline]
    pub(super) fn touch(&mut self, page: PageId) {
        if self.segment_of(page) == Some(0) {
            self.segments.move_to_back(0, page);
            return;
        }
        self.segments.remove(page);
        self.segments.push_back(0, page);
        for segment in 0..self.cuts.len() {
            if self.segments.len(segment) <= self.capacity(segment) {
                break;
            }
            if let Some(last) = self.segments.pop_front(segment) {
                self.segments.push_back(segment + 1, last);
            }
        }
    }

    /// Takes a page out, if it is in the stack; those under it move up.
    pub(super) fn remove(&mut self, page: PageId) {
        let Some(segment) = self.segments.remove(page) else { return };
        for segment in segment..self.cuts.len() {
            let Some(next) = self.segments.back(segment + 1) else { break };
            self.segments.remove(next);
            self.segments.push_front(segment, next);
        }
    }

    /// Takes out what lies deeper than the last cut. O(1) after a touch: there is one page at most.
    pub(super) fn truncate(&mut self) {
        while self.segments.pop_front(self.cuts.len()).is_some() {}
    }

    /// The pages from the top to the bottom.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> Vec<PageId> {
        let segment = |segment| self.segments.iter(segment).collect::<Vec<_>>().into_iter().rev();
        (0..=self.cuts.len()).flat_map(segment).collect()
    }

    /// Checks the lists and that only full segments have pages under them.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.segments.check()?;
        for segment in 0..self.cuts.len() {
            let (len, capacity) = (self.segments.len(segment), self.capacity(segment));
            ensure!(len <= capacity, "segment {segment}: {len} pages, {capacity} fit");
            let is_last = self.segments.is_empty(segment + 1);
            ensure!(len == capacity || is_last, "segment {segment}: {len} of {capacity} pages, more below");
        }
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

    /// The same pages at the same depths as in a plain vector, through touches and removals.
    #[test]
    fn cuts_stay_at_their_depths() {
        let mut random = SplitMix64::new(1);
        for cuts in [vec![], vec![1], vec![2, 3, 7], vec![1, 4, 5, 6]] {
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
