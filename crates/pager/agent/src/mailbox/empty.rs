//! Memory that is known to be empty, so that it can be dropped without the agent.
//!
//! For each `madvise(MADV_DONTNEED)` of managed memory, the kernel sends a message and has the
//! thread wait until the agent has read it. A program that drops the same memory again and again
//! (allocators do) would wait each time, although there is nothing to drop.
//!
//! So before the agent sleeps, it publishes the ranges around what was last dropped of which it
//! knows that no page of them is anywhere. A drop within such a range does nothing, and the hook
//! does not make it. This is right because the ranges are managed: a page comes there only through
//! the agent. The agent withdraws them when it wakes, before it reads the first message. So they
//! are withdrawn before any fault is answered, and before any call returns that has unmapped, moved
//! or replaced the memory. A thread that looks while another one touches or unmaps the same memory
//! could have come first.
//!
//! The version is odd while ranges are published. A reader that finds the same odd version before
//! and after has read ranges that belong together.

use crate::mailbox::atomic::{AtomicUsize, IS_MODELLED, Ordering, fence};
use alloc::vec::Vec;

/// The most ranges at a time.
const MOST_RANGES: usize = if IS_MODELLED { 1 } else { 8 };

/// The ranges, as the program's threads see them.
pub struct EmptyRanges {
    version: AtomicUsize,
    /// Start and end. Free entries are 0.
    ranges: [[AtomicUsize; 2]; MOST_RANGES],
}

impl EmptyRanges {
    pub(crate) const fn new() -> Self {
        Self {
            version: AtomicUsize::new(0),
            ranges: [const { [const { AtomicUsize::new(0) }; 2] }; MOST_RANGES],
        }
    }

    /// For the agent: publishes ranges, until [`Self::withdraw`].
    pub fn publish(&self, ranges: &[(usize, usize)]) {
        self.withdraw();
        if ranges.is_empty() {
            return;
        }
        for (index, place) in self.ranges.iter().enumerate() {
            let (start, end) = ranges.get(index).copied().unwrap_or_default();
            place[0].store(start, Ordering::Relaxed);
            place[1].store(end, Ordering::Relaxed);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// For the agent: nothing is known to be empty any more.
    pub fn withdraw(&self) {
        let version = self.version.load(Ordering::Relaxed);
        if !version.is_multiple_of(2) {
            self.version.store(version + 1, Ordering::SeqCst);
            // The ranges may be written only afterwards.
            fence(Ordering::SeqCst);
        }
    }

    /// Whether a range is known to be empty now.
    pub fn contains(&self, start: usize, end: usize) -> bool {
        let version = self.version.load(Ordering::Acquire);
        if version.is_multiple_of(2) || start >= end {
            return false;
        }
        let is_within = |[from, to]: &[AtomicUsize; 2]| {
            from.load(Ordering::Relaxed) <= start && end <= to.load(Ordering::Relaxed)
        };
        let found = self.ranges.iter().any(is_within);
        fence(Ordering::Acquire);
        found && self.version.load(Ordering::Relaxed) == version
    }
}

/// What was dropped last, for the agent: places around which memory may be empty.
#[derive(Debug, Default)]
pub(crate) struct LastDrops {
    places: Vec<usize>,
}

impl LastDrops {
    /// Memory at this address has been dropped.
    pub(crate) fn add(&mut self, address: usize) {
        self.places.retain(|&other| other != address);
        if self.places.len() == MOST_RANGES {
            self.places.remove(0);
        }
        self.places.push(address);
    }

    /// The places, the oldest first.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_empty_from_its_publication_to_its_withdrawal() {
        let empty = EmptyRanges::new();
        assert!(!empty.contains(0, 1) && !empty.contains(0, 0));
        empty.publish(&[(10, 20), (30, 40)]);
        assert!(empty.contains(10, 20) && empty.contains(35, 36));
        assert!(!empty.contains(19, 21) && !empty.contains(15, 35) && !empty.contains(0, 1));
        assert!(!empty.contains(12, 12), "there is nothing to drop, but the kernel may refuse it");
        empty.withdraw();
        assert!(!empty.contains(10, 20));
        empty.withdraw();
        empty.publish(&[(30, 40)]);
        assert!(empty.contains(30, 40) && !empty.contains(10, 20), "no range of before is left");
        empty.publish(&[]);
        assert!(!empty.contains(30, 40));
    }

    /// Two ranges take turns. Which of them is published is never mistaken.
    #[test]
    fn ranges_that_do_not_belong_together_are_not_taken_for_one() {
        use std::sync::atomic::AtomicBool;
        static EMPTY: EmptyRanges = EmptyRanges::new();
        static STOP: AtomicBool = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    assert!(!EMPTY.contains(15, 35), "the start of one and the end of the other");
                }
            });
            for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
                EMPTY.publish(&[(10, 20)]);
                EMPTY.publish(&[(30, 40)]);
            }
            STOP.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_last_drops_are_remembered_each_once() {
        let mut drops = LastDrops::default();
        (0..MOST_RANGES + 3).for_each(|address| drops.add(address));
        drops.add(5);
        assert_eq!(drops.places().len(), MOST_RANGES);
        assert_eq!(drops.places().last(), Some(&5));
        assert_eq!(drops.places().iter().filter(|&&address| address == 5).count(), 1);
    }
}
