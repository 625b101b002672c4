//! A queue of pages that can leave from any place.

use crate::collections::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::collections::VecDeque;

/// Pages in the order in which they came. The entry of a page that leaves out of turn stays behind
/// and no longer counts: 4 bytes a page of the queue and 1 a page seen, where a linked list would
/// take 8 a page seen.
///
/// Entries that do not count are dropped when they come to the front, and all at once when room is
/// wanted. Every operation is amortised O(1), but that all are dropped, too, when some page has
/// come and gone 127 times meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct LazyQueue {
    /// The one in front counts.
    entries: VecDeque<PageId>,
    /// By page: twice the number of its entries, and 1 if it is in the queue. Then the last of its
    /// entries counts.
    state: PageMap<u8>,
}

impl LazyQueue {
    /// An empty queue.
    pub(super) const fn new() -> Self {
        Self { entries: VecDeque::new(), state: PageMap::new() }
    }

    /// The page that came first.
    #[inline]
    pub(super) fn first(&self) -> Option<PageId> {
        self.entries.front().copied()
    }

    /// Whether a page is in the queue.
    #[inline]
    pub(super) fn contains(&self, page: PageId) -> bool {
        self.state.get(page) & 1 == 1
    }

    /// Appends a page that is not in the queue.
    pub(super) fn push(&mut self, page: PageId) {
        debug_assert!(!self.contains(page), "page {page} is in the queue already");
        self.state.cover(page);
        if self.state[page] == u8::MAX - 1 || self.entries.len() == self.entries.capacity() {
            self.make_room();
        }
        self.state[page] += 2 + 1;
        self.entries.push_back(page);
    }

    /// Takes a page out that is in the queue.
    pub(super) fn remove(&mut self, page: PageId) {
        debug_assert!(self.contains(page), "page {page} is not in the queue");
        self.state[page] -= 1;
        while let Some(&first) = self.entries.front()
            && !counts(&mut self.state[first])
        {
            self.entries.pop_front();
        }
    }

    /// Drops entries that do not count; if that gives little room, makes more.
    #[cold]
    fn make_room(&mut self) {
        self.entries.retain(|page| counts(&mut self.state[*page]));
        let len = self.entries.len();
        if len + len / 16 >= self.entries.capacity() {
            self.entries.reserve_exact(len / 8 + 16);
        }
    }

    /// Checks what is known of each page against the entries, and that the first one counts.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let mut state = self.state.clone();
        for (place, &page) in self.entries.iter().enumerate() {
            let counts = counts(&mut state[page]);
            ensure!(counts || place > 0, "the first page, {page}, has left");
            if counts {
                state[page] = 0;
            }
        }
        let wrong = state.iter().find(|(_, state)| *state != 0);
        ensure!(wrong.is_none(), "{wrong:?} is left when all entries are counted");
        Ok(())
    }
}

/// Whether the first entry of a page, in this state, counts. If not, it is as good as dropped.
fn counts(state: &mut u8) -> bool {
    const ITS_ONLY_ENTRY_COUNTS: u8 = 2 + 1;
    let counts = *state == ITS_ONLY_ENTRY_COUNTS;
    if !counts {
        *state -= 2;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use alloc::vec::Vec;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_vector() {
        let mut random = SplitMix64::new(3);
        for pages in [1, 2, 10, 300] {
            let _input = trying(|| format!("{pages} pages"));
            let (mut queue, mut model) = (LazyQueue::new(), Vec::new());
            for _ in 0..5000 {
                let page = PageId(random.below(pages) as u32);
                assert_eq!(queue.contains(page), model.contains(&page));
                if queue.contains(page) {
                    queue.remove(page);
                    model.retain(|other| *other != page);
                } else {
                    queue.push(page);
                    model.push(page);
                }
                assert_eq!(queue.first(), model.first().copied());
                queue.check().unwrap();
            }
        }
    }

    /// Behind a page that stays, pages come and go: what they leave behind does not pile up.
    #[test]
    fn takes_room_for_its_pages_and_little_more() {
        let mut queue = LazyQueue::new();
        (0..1000).for_each(|page| queue.push(PageId(page)));
        for page in (1..1000).cycle().take(100_000) {
            queue.remove(PageId(page));
            queue.push(PageId(page));
        }
        assert!(queue.entries.capacity() < 1200, "room for {}", queue.entries.capacity());
    }
}
