//! A circular list of pages, for policies whose hands go round.

use super::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    previous: u32,
    next: u32,
}

/// A circular doubly linked list. Hands are the policy's own: a page id each.
///
/// Every operation is O(1). 8 bytes a page. The ring does not know which pages are in it: the
/// policy does.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    links: PageMap<Link>,
    len: usize,
}

impl Ring {
    /// An empty ring.
    pub const fn new() -> Self {
        Self { links: PageMap::new(), len: 0 }
    }

    /// Pages in the ring.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the ring has no pages.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page after `page`, the way the hands go.
    #[inline]
    pub fn next(&self, page: PageId) -> PageId {
        PageId(self.links[page].next)
    }

    /// The page before `page`.
    #[inline]
    pub fn previous(&self, page: PageId) -> PageId {
        PageId(self.links[page].previous)
    }

    /// Puts a page into an empty ring.
    pub fn insert_first(&mut self, page: PageId) {
        debug_assert!(self.is_empty());
        self.links.cover(page);
        self.links[page] = Link { previous: page.0, next: page.0 };
        self.len = 1;
    }

    /// Puts a page just before `position`: the last place that a hand at `position` will come to.
    #[inline]
    pub fn insert_before(&mut self, position: PageId, page: PageId) {
        self.links.cover(page);
        let previous = core::mem::replace(&mut self.links[position].previous, page.0);
        self.links[PageId(previous)].next = page.0;
        self.links[page] = Link { previous, next: position.0 };
        self.len += 1;
    }

    /// Takes a page out. Hands on it must have moved on before.
    #[inline]
    pub fn remove(&mut self, page: PageId) {
        let Link { previous, next } = self.links[page];
        self.links[PageId(previous)].next = next;
        self.links[PageId(next)].previous = previous;
        self.len -= 1;
    }

    /// Asks for the links of a page that will be looked at soon.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.links.prefetch(page);
    }

    /// Once round, beginning at `start`.
    pub fn iter_from(&self, start: PageId) -> impl Iterator<Item = PageId> + '_ {
        core::iter::successors(Some(start), move |&page| Some(self.next(page))).take(self.len)
    }

    /// Checks that the links make one circle of the right length through `start`.
    pub fn check(&self, start: PageId) -> Result<(), Violation> {
        for (step, page) in self.iter_from(start).enumerate() {
            let next = self.next(page);
            ensure!(self.links[next].previous == page.0, "ring: broken back link at {next}");
            ensure!(
                (next == start) == (step + 1 == self.len),
                "ring: closes after {} of {}",
                step + 1,
                self.len
            );
        }
        Ok(())
    }
}
