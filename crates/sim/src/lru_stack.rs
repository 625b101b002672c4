//! LRU at every memory size in one pass, by stack distances.
//!
//! R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
//! 1970: with M frames LRU keeps the M pages on top of the recency stack. So a reference at stack
//! distance d faults for every M < d.
//!
//! Every reference takes a new slot of a time line. A page's slot is that of its last reference.
//! The distance is the number of occupied slots from the page's own on. Slots are bits, counted by
//! block in a Fenwick tree. When the time line is used up, the occupied slots are moved together.
//! (After B. T. Bennett and V. J. Kruskal, "LRU stack processing", IBM Journal of Research and
//! Development 19(4), 1975.)
//!
//! When a page's contents are dropped, its slot becomes a *hole*: a free frame for every memory
//! that had the page. The next fault of such a memory fills the hole. So if a reference to x at
//! distance d finds the most recent hole at distance h < d, that hole is filled, and x's old slot
//! becomes a hole: memories of d or more frames hit x and still have their free frame.
//!
//! Cost: two updates and one count a reference, in a tree of (pages / 256) blocks. 16 bytes a page.

use crate::Outcome;
use crate::engine::for_each_segment;
use crate::stack_counts::StackCounts;
use std::ops::Range;
use sweephand_policy::collections::BitTree;
use sweephand_trace::{Chunk, Event};

/// No slot, or no page.
const NONE: u32 = u32::MAX;
/// Slots a block: one cache line of bits.
const BLOCK: usize = 512;

/// The stack distances of a reference string, counted so that the faults of every memory size can
/// be told.
#[derive(Debug)]
pub struct LruStack {
    time_line: TimeLine,
    /// Slot of each page, or `NONE` if it has not been touched since its contents were last
    /// dropped.
    slot: Vec<u32>,
    /// The page of each slot in use; `NONE` for holes.
    page: Vec<u32>,
    /// Slots that are holes.
    holes: BitTree,
    counts: StackCounts,
}

impl Default for LruStack {
    fn default() -> Self {
        Self::new()
    }
}

impl LruStack {
    /// An empty stack.
    pub fn new() -> Self {
        Self {
            time_line: TimeLine::new(64 * BLOCK),
            slot: Vec::new(),
            page: Vec::new(),
            holes: BitTree::new(),
            counts: StackCounts::default(),
        }
    }

    /// The references of a chunk in `range` and the events among them; see
    /// [`Simulation::advance`](crate::Simulation::advance).
    pub fn advance(&mut self, chunk: &Chunk, range: Range<usize>) {
        if self.slot.len() < chunk.pages as usize {
            self.slot.resize(chunk.pages as usize, NONE);
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

    /// What LRU counts at some memory sizes, in pages, in their order.
    pub fn outcomes(&self, frames: &[usize]) -> Vec<Outcome> {
        self.counts.outcomes(frames)
    }

    /// How many references came at each finite stack distance (the index), and how many at an
    /// infinite one.
    pub fn distances(&self) -> (&[u64], u64) {
        self.counts.distances()
    }

    /// A reference to a page. Returns its stack distance, the fewest frames of a memory that had
    /// the page; `None` if it is not on the stack.
    pub fn touch(&mut self, page: u32) -> Option<usize> {
        if self.slot.len() <= page as usize {
            self.slot.resize(page as usize + 1, NONE);
        }
        self.counts.records += 1;
        self.reference(page)
    }

    #[inline]
    fn reference(&mut self, page: u32) -> Option<usize> {
        let slot = self.slot[page as usize];
        if slot != NONE && slot + 1 == self.page.len() as u32 {
            self.counts.count(Some(1), 1);
            return Some(1);
        }
        let depth = self.time_line.occupied + 1;
        let distance = if slot == NONE { depth } else { self.time_line.occupied_from(slot as usize) };
        let hole = self.holes.max();
        let nearest_free = hole.map_or(depth, |hole| self.time_line.occupied_from(hole as usize));
        self.counts.count((slot != NONE).then_some(distance), nearest_free);
        match hole {
            Some(hole) if slot == NONE || nearest_free < distance => {
                self.holes.remove(hole);
                self.time_line.vacate(hole as usize);
                if slot != NONE {
                    self.make_hole(slot);
                }
            }
            _ if slot != NONE => self.time_line.vacate(slot as usize),
            _ => {}
        }
        self.push(page);
        (slot != NONE).then_some(distance)
    }

    fn push(&mut self, page: u32) {
        if self.page.len() == self.time_line.slots() {
            self.move_together();
        }
        let slot = self.page.len() as u32;
        self.time_line.occupy(slot as usize);
        self.page.push(page);
        self.slot[page as usize] = slot;
    }

    fn make_hole(&mut self, slot: u32) {
        self.page[slot as usize] = NONE;
        self.holes.insert(slot);
    }

    /// The contents of a page are gone.
    pub fn forget(&mut self, page: u32) {
        if let Some(slot) = self.slot.get_mut(page as usize)
            && *slot != NONE
        {
            let slot = std::mem::replace(slot, NONE);
            self.make_hole(slot);
        }
    }

    /// Puts a page that is not on the stack on top of it, uncounted. Returns the fewest frames of a
    /// memory that has a free one for it.
    pub(crate) fn put(&mut self, page: u32) -> usize {
        if self.slot.len() <= page as usize {
            self.slot.resize(page as usize + 1, NONE);
        }
        let nearest_free = match self.holes.max() {
            Some(hole) => {
                let nearest_free = self.time_line.occupied_from(hole as usize);
                self.holes.remove(hole);
                self.time_line.vacate(hole as usize);
                nearest_free
            }
            None => self.time_line.occupied + 1,
        };
        self.push(page);
        nearest_free
    }

    /// Takes a page off the stack, uncounted, and leaves a hole. Returns the fewest frames of a
    /// memory that had the page; `None` if it is not on the stack.
    pub(crate) fn take(&mut self, page: u32) -> Option<usize> {
        let slot = *self.slot.get(page as usize)?;
        if slot == NONE {
            return None;
        }
        let distance = self.time_line.occupied_from(slot as usize);
        self.forget(page);
        Some(distance)
    }

    /// Renumbers the occupied slots from 0 and leaves as many free ones behind them.
    #[cold]
    fn move_together(&mut self) {
        let occupied: Vec<u32> = self.time_line.iter().map(|slot| self.page[slot]).collect();
        self.time_line = TimeLine::new((2 * occupied.len()).max(64 * BLOCK).next_multiple_of(BLOCK));
        self.holes = BitTree::new();
        self.page.clear();
        for (slot, page) in occupied.into_iter().enumerate() {
            self.time_line.occupy(slot);
            self.page.push(page);
            match page {
                NONE => self.holes.insert(slot as u32),
                page => self.slot[page as usize] = slot as u32,
            }
        }
    }
}

/// Bits with fast counts of those from a place on.
#[derive(Debug)]
struct TimeLine {
    words: Vec<u64>,
    /// Fenwick tree over the numbers of set bits in each block (1-based).
    blocks: Vec<u32>,
    /// Set bits.
    occupied: usize,
}

impl TimeLine {
    fn new(slots: usize) -> Self {
        Self { words: vec![0; slots / 64], blocks: vec![0; slots / BLOCK + 1], occupied: 0 }
    }

    fn slots(&self) -> usize {
        self.words.len() * 64
    }

    #[inline]
    fn occupy(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        self.occupied += 1;
        self.change_block(slot / BLOCK, 1);
    }

    #[inline]
    fn vacate(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
        self.occupied -= 1;
        self.change_block(slot / BLOCK, u32::MAX);
    }

    #[inline]
    fn change_block(&mut self, block: usize, change: u32) {
        let mut index = block + 1;
        while index < self.blocks.len() {
            self.blocks[index] = self.blocks[index].wrapping_add(change);
            index += index & index.wrapping_neg();
        }
    }

    /// Occupied slots at `slot` and behind it.
    #[inline]
    fn occupied_from(&self, slot: usize) -> usize {
        let mut before = 0;
        let mut index = slot / BLOCK;
        let first_word = index * (BLOCK / 64);
        while index > 0 {
            before += self.blocks[index] as usize;
            index &= index - 1;
        }
        let word = slot / 64;
        for bits in &self.words[first_word..word] {
            before += bits.count_ones() as usize;
        }
        before += (self.words[word] & !(u64::MAX << (slot % 64))).count_ones() as usize;
        self.occupied - before
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(word, &bits)| {
            let remaining = std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)));
            remaining
                .take_while(|bits| *bits != 0)
                .map(move |bits| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}
