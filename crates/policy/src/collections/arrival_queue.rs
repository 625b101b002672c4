//! Pages in the order in which they came.

use super::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::collections::VecDeque;

/// A queue of pages from which any page can be taken out.
///
/// Pages that come and go by the two ends leave no trace elsewhere: 4 bytes a page of the queue,
/// and nothing for others. Only after a page has been taken out of the middle for the first time is
/// there a count for each page, because then an entry may be of a page that is gone. Such entries
/// are skipped when they come to the front, and dropped when they outnumber the rest.
#[derive(Clone, Debug, Default)]
pub struct ArrivalQueue {
    entries: VecDeque<u32>,
    /// By page, once a page has been taken out of the middle.
    counts: Option<PageMap<Count>>,
    /// Entries of pages that are gone.
    gone: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Entries of the page.
    entries: u32,
    /// Whether the last of them holds; the others do not.
    waits: bool,
}

impl ArrivalQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { entries: VecDeque::new(), counts: None, gone: 0 }
    }

    /// Pages in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - self.gone
    }

    /// Whether there is no page in the queue.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The page that came first.
    #[inline]
    pub fn front(&self) -> Option<PageId> {
        self.entries.front().map(|&page| PageId(page))
    }

    /// Appends a page that is not in the queue.
    #[inline]
    pub fn push_back(&mut self, page: PageId) {
        self.entries.push_back(page.0);
        if let Some(counts) = &mut self.counts {
            counts.cover(page);
            debug_assert!(!counts[page].waits, "page {page} is in the queue already");
            counts[page] = Count { entries: counts[page].entries + 1, waits: true };
        }
    }

    /// Takes a page out, if it is in the queue.
    #[inline]
    pub fn remove(&mut self, page: PageId) {
        if self.counts.is_none() && self.front() == Some(page) {
            self.entries.pop_front();
        } else {
            self.remove_counted(page);
        }
    }

    #[cold]
    fn remove_counted(&mut self, page: PageId) {
        let counts = self.counts.get_or_insert_with(|| {
            let mut counts = PageMap::new();
            self.entries.iter().for_each(|&page| counts.set(PageId(page), Count { entries: 1, waits: true }));
            counts
        });
        if !counts.get(page).waits {
            return;
        }
        counts[page].waits = false;
        self.gone += 1;
        while let Some(front) = self.front()
            && !self.holds(front)
        {
            self.entries.pop_front();
            self.forget(front);
        }
        if self.gone > self.entries.len() / 2 {
            for _ in 0..self.entries.len() {
                let Some(page) = self.entries.pop_front() else { break };
                if self.holds(PageId(page)) {
                    self.entries.push_back(page);
                } else {
                    self.forget(PageId(page));
                }
            }
        }
    }

    /// Whether the foremost entry of a page holds.
    fn holds(&self, page: PageId) -> bool {
        self.counts.as_ref().is_none_or(|counts| counts[page].waits && counts[page].entries == 1)
    }

    /// The foremost entry of a page, which does not hold, has been dropped.
    fn forget(&mut self, page: PageId) {
        if let Some(counts) = &mut self.counts {
            counts[page].entries -= 1;
        }
        self.gone -= 1;
    }

    /// Checks the counts and that the front holds.
    pub fn check(&self) -> Result<(), Violation> {
        let Some(counts) = &self.counts else { return Ok(()) };
        let mut entries = PageMap::<u32>::new();
        self.entries.iter().for_each(|&page| entries.set(PageId(page), entries.get(PageId(page)) + 1));
        let mut gone = 0;
        for (page, count) in counts.iter() {
            let found = entries.get(page);
            ensure!(found == count.entries, "page {page} has {found} entries, counted {}", count.entries);
            ensure!(!count.waits || found > 0, "page {page} waits without an entry");
            gone += (found - u32::from(count.waits)) as usize;
        }
        ensure!(gone == self.gone, "{gone} entries of pages that are gone, counted {}", self.gone);
        ensure!(self.front().is_none_or(|front| self.holds(front)), "the front does not hold");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_queue_that_is_searched() {
        for removals in [0, 1, 4] {
            let mut random = SplitMix64::new(removals);
            let (mut queue, mut plain) = (ArrivalQueue::new(), VecDeque::new());
            for step in 0..30_000 {
                let _input = trying(|| format!("{removals} of 10 removed, step {step}"));
                let page = PageId(random.below(100) as u32);
                let front = plain.front().copied();
                assert_eq!((queue.front(), queue.len()), (front, plain.len()));
                if random.below(10) < removals {
                    queue.remove(page);
                    plain.retain(|other| *other != page);
                } else if plain.len() == 60 || (plain.contains(&page) && !plain.is_empty()) {
                    queue.remove(front.unwrap());
                    plain.pop_front();
                } else {
                    queue.push_back(page);
                    plain.push_back(page);
                }
                if step % 64 == 0 {
                    queue.check().unwrap();
                }
                assert!(queue.entries.len() <= 2 * queue.len() + 1, "entries pile up");
            }
            assert_eq!(queue.counts.is_some(), removals > 0, "{removals} of 10 removed");
        }
    }
}
