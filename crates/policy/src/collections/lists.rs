//! Doubly linked lists of pages that share one array of links.

use super::{Neighbours, PageMap, Wide};
use crate::interface::ensure;
use crate::{PageId, Violation};

const NIL: u32 = u32::MAX;

/// The neighbours of a page, as [`Neighbours`] have them: 1 + the page, or 0 for none.
const PREVIOUS: usize = 0;
const NEXT: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Ends {
    front: u32,
    back: u32,
    len: usize,
}

/// `N` lists over the same pages, a page being in at most one of them.
///
/// Lists are named by number, and a page knows its list, so a policy whose pages move between lists
/// (T1, T2, B1, B2) keeps no other status. By this crate's habit the front is the old end and the
/// back the recent one. Every operation is O(1). 9 bytes a page, and 7 with
/// [`super::Packed`] neighbours.
#[derive(Clone, Debug)]
pub struct Lists<const N: usize, L = Wide> {
    links: L,
    /// 1 + the list that the page is in; 0 for none.
    list: PageMap<u8>,
    ends: [Ends; N],
}

impl<const N: usize, L: Neighbours> Default for Lists<N, L> {
    fn default() -> Self {
        Self { links: L::default(), list: PageMap::new(), ends: [Ends { front: NIL, back: NIL, len: 0 }; N] }
    }
}

impl<const N: usize> Lists<N> {
    /// `N` empty lists.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<const N: usize, L: Neighbours> Lists<N, L> {
    /// The list that a page is in.
    #[inline]
    pub fn list_of(&self, page: PageId) -> Option<usize> {
        (self.list.get(page) as usize).checked_sub(1)
    }

    /// Pages in a list.
    #[inline]
    pub fn len(&self, list: usize) -> usize {
        self.ends[list].len
    }

    /// Whether a list has no pages.
    #[inline]
    pub fn is_empty(&self, list: usize) -> bool {
        self.ends[list].len == 0
    }

    /// The old end of a list.
    #[inline]
    pub fn front(&self, list: usize) -> Option<PageId> {
        page(self.ends[list].front)
    }

    /// The recent end of a list.
    #[inline]
    pub fn back(&self, list: usize) -> Option<PageId> {
        page(self.ends[list].back)
    }

    /// The page after one that is in a list, towards the recent end.
    #[inline]
    pub fn next(&self, current: PageId) -> Option<PageId> {
        page(self.neighbour(current, NEXT))
    }

    /// The page before one that is in a list, towards the old end.
    #[inline]
    pub fn previous(&self, current: PageId) -> Option<PageId> {
        page(self.neighbour(current, PREVIOUS))
    }

    /// Appends a page that is in no list.
    #[inline]
    pub fn push_back(&mut self, list: usize, page: PageId) {
        self.links.cover(page);
        self.list.cover(page);
        debug_assert_eq!(self.list[page], 0, "page {page} is in a list already");
        self.list[page] = list as u8 + 1;
        self.link_back(list, page);
        self.ends[list].len += 1;
    }

    /// Puts a page that is in no list at the old end.
    #[inline]
    pub fn push_front(&mut self, list: usize, page: PageId) {
        self.links.cover(page);
        self.list.cover(page);
        debug_assert_eq!(self.list[page], 0, "page {page} is in a list already");
        self.list[page] = list as u8 + 1;
        let front = core::mem::replace(&mut self.ends[list].front, page.0);
        self.join(page.0, PREVIOUS, NIL);
        self.join(page.0, NEXT, front);
        match front {
            NIL => self.ends[list].back = page.0,
            front => self.join(front, PREVIOUS, page.0),
        }
        self.ends[list].len += 1;
    }

    /// Takes a page out of the list it is in, if any, and returns that list.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> Option<usize> {
        let list = self.list_of(page)?;
        self.list[page] = 0;
        self.unlink(list, page);
        self.ends[list].len -= 1;
        Some(list)
    }

    /// Takes the old end of a list out.
    pub fn pop_front(&mut self, list: usize) -> Option<PageId> {
        let page = self.front(list)?;
        self.remove(page);
        Some(page)
    }

    /// Moves a page from whichever list it is in to the recent end of `list`.
    #[inline]
    pub fn move_to_back(&mut self, list: usize, page: PageId) {
        if self.ends[list].back == page.0 {
            return;
        }
        if self.list_of(page) == Some(list) {
            self.unlink(list, page);
            self.link_back(list, page);
        } else {
            self.remove(page);
            self.push_back(list, page);
        }
    }

    /// Asks for what will be looked at of a page soon.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.links.prefetch(page);
        self.list.prefetch(page);
    }

    /// A list's pages from the old end to the recent one.
    pub fn iter(&self, list: usize) -> impl Iterator<Item = PageId> + '_ {
        core::iter::successors(self.front(list), move |&current| self.next(current))
    }

    /// Checks links, lengths and membership.
    pub fn check(&self) -> Result<(), Violation> {
        for list in 0..N {
            let mut previous = NIL;
            let mut len = 0;
            for current in self.iter(list) {
                ensure!(
                    self.neighbour(current, PREVIOUS) == previous,
                    "list {list}: broken back link at {current}"
                );
                ensure!(
                    self.list_of(current) == Some(list),
                    "page {current} is not marked as in list {list}"
                );
                previous = current.0;
                len += 1;
                ensure!(len <= self.len(list), "list {list}: longer than its length {}", self.len(list));
            }
            ensure!(previous == self.ends[list].back, "list {list}: wrong back end");
            ensure!(len == self.len(list), "list {list}: {len} pages, length says {}", self.len(list));
        }
        let members = self.list.iter().filter(|&(_, list)| list != 0).count();
        let total: usize = self.ends.iter().map(|ends| ends.len).sum();
        ensure!(members == total, "{members} pages marked as in a list, {total} in the lists");
        Ok(())
    }

    #[inline]
    fn link_back(&mut self, list: usize, page: PageId) {
        let back = core::mem::replace(&mut self.ends[list].back, page.0);
        self.join(page.0, PREVIOUS, back);
        self.join(page.0, NEXT, NIL);
        match back {
            NIL => self.ends[list].front = page.0,
            back => self.join(back, NEXT, page.0),
        }
    }

    #[inline]
    fn unlink(&mut self, list: usize, page: PageId) {
        let (previous, next) = (self.neighbour(page, PREVIOUS), self.neighbour(page, NEXT));
        match previous {
            NIL => self.ends[list].front = next,
            previous => self.join(previous, NEXT, next),
        }
        match next {
            NIL => self.ends[list].back = previous,
            next => self.join(next, PREVIOUS, previous),
        }
    }

    #[inline]
    fn neighbour(&self, page: PageId, way: usize) -> u32 {
        self.links.get(page, way).wrapping_sub(1)
    }

    #[inline]
    fn join(&mut self, page: u32, way: usize, neighbour: u32) {
        self.links.set(PageId(page), way, neighbour.wrapping_add(1));
    }
}

#[inline]
fn page(id: u32) -> Option<PageId> {
    (id != NIL).then_some(PageId(id))
}
