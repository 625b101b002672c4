//! Slots of a backing store: which are in use, and which are handed out next.
//!
//! Slots are handed out in runs from the head of a log on, so that a batch of evicted pages is one
//! write or a few. The store is extended while at least half of it is in use. Up to four times what
//! is in use, it looks for runs of at least 8 free slots. Beyond that it takes any slot.

use alloc::vec::Vec;

/// Free slots that are worth a write of their own.
const WORTHY_RUN: usize = 8;

/// The slots of one store.
#[derive(Debug, Default)]
pub struct Slots {
    /// A bit a slot: set if in use.
    used: Vec<u64>,
    /// How many there are.
    count: usize,
    /// Bits set.
    in_use: usize,
    /// The slot at which the log continues.
    head: usize,
}

impl Slots {
    /// How many there are, in use or free.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many are in use.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Whether a slot is in use.
    pub fn is_used(&self, slot: usize) -> bool {
        self.used[slot / 64] >> (slot % 64) & 1 != 0
    }

    fn flip(&mut self, slot: usize) {
        self.used[slot / 64] ^= 1 << (slot % 64);
    }

    /// Takes free slots from the head of the log on, in runs of at least `shortest`, once round at
    /// most.
    fn take(&mut self, wanted: usize, shortest: usize, taken: &mut impl FnMut(usize)) -> usize {
        let (mut left, mut looked) = (wanted, 0);
        while left > 0 && looked < self.count {
            if self.head >= self.count {
                self.head = 0;
            }
            let start = self.head;
            let mut end = start;
            while end < self.count && end - start < left && !self.is_used(end) {
                end += 1;
            }
            if end - start >= shortest.min(left) {
                for slot in start..end {
                    self.flip(slot);
                    taken(slot);
                }
                self.in_use += end - start;
                left -= end - start;
            }
            looked += end - start;
            self.head = end;
            // Over what is in use, by words where they are full.
            while self.head < self.count && self.is_used(self.head) {
                let step = if self.head.is_multiple_of(64) && self.used[self.head / 64] == u64::MAX {
                    64
                } else {
                    1
                };
                self.head += step;
                looked += step;
            }
            looked += 1;
        }
        wanted - left
    }

    /// Hands out `pages` slots, neighbours where possible. [`Self::count`] may be larger then.
    pub fn allocate(&mut self, pages: usize, mut taken: impl FnMut(usize)) {
        let mut left = pages;
        if self.count >= 2 * (self.in_use + pages) {
            left -= self.take(left, WORTHY_RUN, &mut taken);
        }
        if left > 0 && self.count >= 4 * (self.in_use + left) {
            left -= self.take(left, 1, &mut taken);
        }
        if left == 0 {
            return;
        }
        let end = self.count;
        self.count += left;
        self.used.resize(self.count.div_ceil(64), 0);
        for slot in end..end + left {
            self.flip(slot);
            taken(slot);
        }
        self.in_use += left;
        self.head = self.count;
    }

    /// Takes a slot back.
    pub fn free(&mut self, slot: usize) {
        debug_assert!(self.is_used(slot), "slot {slot} is free already");
        self.flip(slot);
        self.in_use -= 1;
    }
}
