//! MRU at every memory size in one pass.
//!
//! R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
//! 1970, show that the pages in a memory are among those in any larger one if a replacement
//! algorithm evicts the last page of an order that does not depend on the size of memory. MRU
//! evicts the page of the reference before. That is such an order: by last use, the latest last.
//!
//! On their stack the page at depth 1 is the page of the reference before. If another page is
//! referenced, at depth d, the page from depth 1 is pushed down. At each depth it meets a page that
//! was used before it, which stays. So it goes on to depth d, which the referenced page has left.
//! The two change places, and no other page moves. A page that was not on the stack sends the page
//! from depth 1 to the end of it.
//!
//! When a page's contents are dropped, its depth becomes a *hole*: a free frame for every memory
//! that had the page. The page pushed down stays in the first hole that it meets. If it has met one
//! before depth d, that depth becomes a hole: memories of d or more frames hit, and still have
//! their free frame.
//!
//! Cost: O(1) a reference, and O(log n) where contents are dropped. 8 bytes a page.

use crate::Outcome;
use crate::engine::for_each_segment;
use crate::stack_counts::StackCounts;
use std::ops::Range;
use sweephand_policy::collections::BitTree;
use sweephand_trace::{Chunk, Event};

/// No depth, or no page.
const NONE: u32 = u32::MAX;

/// MRU's stack, and the counts of its distances.
#[derive(Debug, Default)]
pub struct MruStack {
    /// The page at each depth, from depth 1 on; `NONE` for holes.
    pages: Vec<u32>,
    /// Depth of each page, less 1; `NONE` for a page that is not on the stack.
    depth: Vec<u32>,
    /// Depths that are holes, less 1.
    holes: BitTree,
    counts: StackCounts,
}

impl MruStack {
    /// An empty stack.
    pub fn new() -> Self {
        Self::default()
    }

    /// The references of a chunk in `range` and the events among them; see
    /// [`Simulation::advance`](crate::Simulation::advance).
    pub fn advance(&mut self, chunk: &Chunk, range: Range<usize>) {
        if self.depth.len() < chunk.pages as usize {
            self.depth.resize(chunk.pages as usize, NONE);
        }
        for_each_segment(chunk, range, |segment, event| {
            self.counts.records += segment.len() as u64;
            for reference in &chunk.references[segment] {
                self.reference(reference.page());
            }
            if let Some(Event::Drop { pages }) = event {
                for page in pages.clone() {
                    self.forget(page);
                }
            }
        });
    }

    /// What MRU counts at some memory sizes, in pages, in their order.
    pub fn outcomes(&self, frames: &[usize]) -> Vec<Outcome> {
        self.counts.outcomes(frames)
    }

    #[inline]
    fn reference(&mut self, page: u32) {
        let depth = self.depth[page as usize];
        let hole = self.holes.min().unwrap_or(self.pages.len() as u32);
        self.counts.count((depth != NONE).then_some(depth as usize + 1), hole as usize + 1);
        if depth == 0 {
            return;
        }
        // Where the page from depth 1 goes. Without one, the referenced page fills that hole.
        let place = hole.min(depth);
        if place as usize == self.pages.len() {
            self.pages.push(NONE);
        } else if place == hole {
            self.holes.remove(hole);
        }
        if depth != NONE && depth != place {
            self.pages[depth as usize] = NONE;
            self.holes.insert(depth);
        }
        let before = std::mem::replace(&mut self.pages[0], page);
        self.depth[page as usize] = 0;
        if place > 0 {
            self.pages[place as usize] = before;
            self.depth[before as usize] = place;
        }
    }

    /// The contents of a page are gone.
    fn forget(&mut self, page: u32) {
        if let Some(depth) = self.depth.get_mut(page as usize)
            && *depth != NONE
        {
            let depth = std::mem::replace(depth, NONE);
            self.pages[depth as usize] = NONE;
            self.holes.insert(depth);
        }
    }
}
