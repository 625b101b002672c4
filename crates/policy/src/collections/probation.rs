//! The lists of policies in which new pages first have to prove themselves: 2Q, S3-FIFO and their
//! kin.

use super::Lists;
use crate::interface::ensure;
use crate::{PageId, Violation};

/// New pages that are in memory.
pub const SMALL: usize = 0;
/// The other pages in memory.
pub const MAIN: usize = 1;
/// Pages that left memory from the small queue.
pub const GHOSTS: usize = 2;

/// A small queue in front of the main list, and ghosts of the pages that left memory from the small
/// queue. A policy moves pages between the lists by itself, and may have more lists than these
/// three.
#[derive(Clone, Debug)]
pub struct Probation<const LISTS: usize> {
    /// All with the oldest page in front.
    pub lists: Lists<LISTS>,
    frames: usize,
    small_pages: usize,
    ghost_pages: usize,
}

impl<const LISTS: usize> Probation<LISTS> {
    /// Empty lists. The small queue gives up pages from a length of `small_pages` on, and there are
    /// `ghost_pages` ghosts at most.
    pub fn new(frames: usize, small_pages: usize, ghost_pages: usize) -> Self {
        Self { lists: Lists::new(), frames, small_pages, ghost_pages }
    }

    /// The list that gives up a page next, if the small queue has `small_len` pages.
    #[inline]
    pub fn next_list(&self, small_len: usize) -> usize {
        if small_len >= self.small_pages || self.lists.is_empty(MAIN) { SMALL } else { MAIN }
    }

    /// Takes a page out of memory. From the small queue it goes to the ghosts. Returns the ghost
    /// that is forgotten for it.
    #[inline]
    pub fn evict(&mut self, page: PageId) -> Option<PageId> {
        if self.lists.remove(page) != Some(SMALL) {
            return None;
        }
        self.lists.push_back(GHOSTS, page);
        let is_too_many = self.lists.len(GHOSTS) > self.ghost_pages;
        if is_too_many { self.lists.pop_front(GHOSTS) } else { None }
    }

    /// Checks the lists and their lengths, if the small queue has `small_len` pages.
    pub fn check(&self, small_len: usize) -> Result<(), Violation> {
        let (main, ghosts) = (self.lists.len(MAIN), self.lists.len(GHOSTS));
        ensure!(small_len + main <= self.frames, "{small_len} + {main} pages resident");
        ensure!(ghosts <= self.ghost_pages, "{ghosts} ghosts, at most {}", self.ghost_pages);
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_small_queue_leave_ghosts_and_the_oldest_is_forgotten() {
        let mut queues = Probation::<3>::new(4, 2, 1);
        for (list, page) in [(SMALL, 1), (MAIN, 2), (SMALL, 3)] {
            queues.lists.push_back(list, PageId(page));
        }
        assert_eq!([1, 2].map(|small_len| queues.next_list(small_len)), [MAIN, SMALL]);
        assert_eq!([1, 2, 3].map(|page| queues.evict(PageId(page))), [None, None, Some(PageId(1))]);
        assert_eq!(queues.lists.iter(GHOSTS).collect::<Vec<_>>(), [PageId(3)]);
        assert_eq!(queues.next_list(0), SMALL, "the main list is empty");
        queues.check(0).unwrap();
    }
}
