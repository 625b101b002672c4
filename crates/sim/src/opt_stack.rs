//! OPT at many memory sizes in one pass: Mattson's priority stack, in groups.
//!
//! R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
//! 1970: the pages that OPT holds with M frames are among those that it holds with more. On the
//! paper's stack a page that is pushed down meets the page of each depth in turn. The page that is
//! used sooner stays, and the other is carried on, until a page fills the hole that the referenced
//! page left.
//!
//! Here a group of the stack holds the pages between one memory size of interest and the next, as a
//! heap by next use. The page carried on from a group is the one used latest. With all sizes 1, 2,
//! 3, ... each group is one depth of the paper's stack. With ten sizes there are ten groups to
//! pass, however deep the stack is.
//!
//! A memory with a free frame evicts nothing, and the carried page stays. Frames that become free
//! when contents are dropped keep the order: if a memory has a free frame, every larger memory that
//! faults has one too. Among pages that are never used again any may be carried on. This changes no
//! number of faults, but if contents are dropped it can change how many faults find a free frame.

use crate::Outcome;
use crate::engine::for_each_segment;
use std::collections::BinaryHeap;
use std::ops::Range;
use sweephand_policy::NEVER;
use sweephand_trace::{Chunk, Event};

/// OPT's counts at several memory sizes.
#[derive(Debug)]
pub struct OptStack {
    sizes: Vec<Size>,
    pages: Vec<Page>,
    first_touch_faults: u64,
    records: u64,
}

/// A memory size, with the pages that it holds and the next smaller size does not.
#[derive(Debug)]
struct Size {
    frames: usize,
    /// Frames occupied, over all groups up to this one.
    resident: usize,
    faults: u64,
    warmup_faults: u64,
    /// (next use, page); entries that [`Page`] no longer agrees with are dropped when met.
    heap: BinaryHeap<(u32, u32)>,
    /// Entries of `heap` that still hold.
    pages: usize,
}

/// Where a page is. Group `sizes.len()` is outside all memories.
#[derive(Clone, Copy, Debug)]
struct Page {
    group: u32,
    next_use: u32,
    touched: bool,
}

impl OptStack {
    /// An empty stack for memories of `frames` pages each, in ascending order without repeats.
    pub fn new(frames: &[usize]) -> Self {
        assert!(frames.is_sorted_by(|a, b| a < b), "sizes ascend");
        let size = |&frames| Size {
            frames,
            resident: 0,
            faults: 0,
            warmup_faults: 0,
            heap: BinaryHeap::new(),
            pages: 0,
        };
        Self {
            sizes: frames.iter().map(size).collect(),
            pages: Vec::new(),
            first_touch_faults: 0,
            records: 0,
        }
    }

    /// The references of a chunk in `range` and the events among them, with the chunk's next uses;
    /// see [`Simulation::advance`](crate::Simulation::advance).
    pub fn advance(&mut self, chunk: &Chunk, range: Range<usize>, next_uses: &[u32]) {
        if self.pages.len() < chunk.pages as usize {
            let outside = Page { group: self.sizes.len() as u32, next_use: NEVER, touched: false };
            self.pages.resize(chunk.pages as usize, outside);
        }
        for_each_segment(chunk, range, |segment, event| {
            self.records += segment.len() as u64;
            for (reference, &next_use) in chunk.references[segment.clone()].iter().zip(&next_uses[segment]) {
                self.reference(reference.page(), next_use);
            }
            if let Some(Event::Drop { pages }) = event {
                for page in pages.clone() {
                    self.drop_contents(page);
                }
            }
        });
    }

    /// The counts of each size, in the order given.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> + '_ {
        self.sizes.iter().map(|size| Outcome {
            records: self.records,
            faults: size.faults,
            first_touch_faults: self.first_touch_faults,
            warmup_faults: size.warmup_faults,
            evictions: size.faults - size.warmup_faults,
            ..Outcome::default()
        })
    }

    fn reference(&mut self, page: u32, next_use: u32) {
        let Page { group, touched, .. } = self.pages[page as usize];
        let group = group as usize;
        self.first_touch_faults += u64::from(!touched);
        self.pages[page as usize].touched = true;
        if group == 0 {
            self.sizes[0].pages -= 1;
            self.put(0, page, next_use);
            return;
        }
        // The page leaves its group, the carried page takes its place there.
        if let Some(size) = self.sizes.get_mut(group) {
            size.pages -= 1;
        }
        self.pages[page as usize].group = self.sizes.len() as u32;
        let mut carried = None;
        for smaller in 0..group {
            let size = &mut self.sizes[smaller];
            size.faults += 1;
            if size.resident < size.frames {
                size.resident += 1;
                size.warmup_faults += 1;
                if let Some((next_use, page)) = carried.take() {
                    self.put(smaller, page, next_use);
                }
                continue;
            }
            let own = self.latest(smaller);
            carried = match (carried, own) {
                (Some(carried), Some(own)) if own > carried => {
                    self.take(smaller);
                    self.put(smaller, carried.1, carried.0);
                    Some(own)
                }
                (None, Some(own)) => {
                    self.take(smaller);
                    Some(own)
                }
                (carried, _) => carried,
            };
        }
        if let Some((next_use, page)) = carried {
            if group < self.sizes.len() {
                self.put(group, page, next_use);
            } else {
                self.pages[page as usize].group = group as u32;
            }
        }
        self.put(0, page, next_use);
    }

    /// Puts a page into a group.
    fn put(&mut self, group: usize, page: u32, next_use: u32) {
        let entry = &mut self.pages[page as usize];
        (entry.group, entry.next_use) = (group as u32, next_use);
        let size = &mut self.sizes[group];
        size.pages += 1;
        size.heap.push((next_use, page));
        if size.heap.len() > 2 * size.pages + 64 {
            let pages = &self.pages;
            size.heap.retain(|&(next_use, page)| holds(pages, group, next_use, page));
        }
    }

    /// The page of a group that is used latest.
    fn latest(&mut self, group: usize) -> Option<(u32, u32)> {
        let heap = &mut self.sizes[group].heap;
        while let Some(&(next_use, page)) = heap.peek() {
            if holds(&self.pages, group, next_use, page) {
                return Some((next_use, page));
            }
            heap.pop();
        }
        None
    }

    /// Takes [`OptStack::latest`] out of its group.
    fn take(&mut self, group: usize) {
        let size = &mut self.sizes[group];
        size.heap.pop();
        size.pages -= 1;
    }

    fn drop_contents(&mut self, page: u32) {
        let Some(entry) = self.pages.get_mut(page as usize) else { return };
        entry.touched = false;
        let group = std::mem::replace(&mut entry.group, self.sizes.len() as u32) as usize;
        if let Some(size) = self.sizes.get_mut(group) {
            size.pages -= 1;
        }
        for size in self.sizes.iter_mut().skip(group) {
            size.resident -= 1;
        }
    }
}

fn holds(pages: &[Page], group: usize, next_use: u32, page: u32) -> bool {
    let entry = pages[page as usize];
    entry.group as usize == group && entry.next_use == next_use
}
