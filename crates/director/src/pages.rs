//! The pages that the director knows, by address space and number, and by id.

use rustc_hash::FxHashMap;
use sweephand_policy::PageId;

/// The number of an address space, as long as it exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SpaceId(pub(crate) u16);

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// The id is free, or the kernel chooses what is in memory.
    Unknown,
    /// In memory, and with the policy.
    Resident,
    /// Chosen to go. It may stay in memory, if the kernel does not take it out.
    Leaving,
    /// In the swap file.
    Out,
    /// In the swap file; the kernel was asked to read it.
    Ahead,
}

/// A page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Its address divided by the size of a block of pages, and then of a page.
    block: u32,
    place: u16,
    pub(crate) space: SpaceId,
    pub(crate) state: State,
    /// Whether it was used, as far as that has been taken from the processor.
    pub(crate) referenced: bool,
    /// It came a moment ago, and the use for which it came still shows.
    pub(crate) is_fresh: bool,
}

impl Page {
    /// Its address divided by the size of a page.
    pub(crate) fn number(&self) -> u64 {
        u64::from(self.block) * BLOCK as u64 + u64::from(self.place)
    }
}

/// Pages of a block.
pub(crate) const BLOCK: usize = 512;
const NONE: u32 = u32::MAX;

/// Makes space for another item. The standard way takes twice as much memory each time, which the
/// program could use.
pub(crate) fn make_space<T>(items: &mut Vec<T>) {
    const LEAST: usize = 1024;
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 8).max(LEAST));
    }
}

/// All pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: Vec<Page>,
    free: Vec<u32>,
    /// Ids by space and block.
    blocks: FxHashMap<(SpaceId, u64), Box<[u32; BLOCK]>>,
}

impl Pages {
    /// The page with a number, if it is known.
    pub(crate) fn find(&self, space: SpaceId, number: u64) -> Option<PageId> {
        let block = self.blocks.get(&(space, number / BLOCK as u64))?;
        Some(block[number as usize % BLOCK]).filter(|&id| id != NONE).map(PageId)
    }

    /// The page with a number, which is known from now on.
    pub(crate) fn find_or_insert(&mut self, space: SpaceId, number: u64) -> PageId {
        let key = (space, number / BLOCK as u64);
        let block = self.blocks.entry(key).or_insert_with(|| Box::new([NONE; BLOCK]));
        let id = &mut block[number as usize % BLOCK];
        if *id == NONE {
            let (block, place) = ((number / BLOCK as u64) as u32, (number % BLOCK as u64) as u16);
            let page =
                Page { block, place, space, state: State::Unknown, referenced: false, is_fresh: false };
            *id = match self.free.pop() {
                Some(free) => {
                    self.pages[free as usize] = page;
                    free
                }
                None => {
                    make_space(&mut self.pages);
                    self.pages.push(page);
                    self.pages.len() as u32 - 1
                }
            };
        }
        PageId(*id)
    }

    /// A page is not known any more.
    pub(crate) fn forget(&mut self, id: PageId) {
        let page = self.pages[id.index()];
        let (space, number) = (page.space, page.number());
        if let Some(block) = self.blocks.get_mut(&(space, number / BLOCK as u64)) {
            block[number as usize % BLOCK] = NONE;
        }
        self.pages[id.index()].state = State::Unknown;
        self.free.push(id.0);
    }

    /// Where pages are is not known any more.
    pub(crate) fn let_go(&mut self) {
        for page in &mut self.pages {
            (page.state, page.referenced, page.is_fresh) = (State::Unknown, false, false);
        }
    }

    /// The known pages of a space.
    pub(crate) fn of_space(&self, space: SpaceId) -> Vec<PageId> {
        let mut ids: Vec<PageId> = self
            .blocks
            .iter()
            .filter(|((other, _), _)| *other == space)
            .flat_map(|(_, block)| block.iter().filter(|&&id| id != NONE).map(|&id| PageId(id)))
            .collect();
        ids.sort_unstable_by_key(|&id| self[id].number());
        ids
    }

    /// The blocks of a space that have had known pages.
    pub(crate) fn blocks_of(&self, space: SpaceId) -> impl Iterator<Item = u64> {
        self.blocks.keys().filter(move |(other, _)| *other == space).map(|&(_, block)| block)
    }

    /// A space is gone; its pages have been forgotten.
    pub(crate) fn forget_space(&mut self, space: SpaceId) {
        self.blocks.retain(|(other, _), _| *other != space);
    }

    /// Bytes that this takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page>() + self.blocks.len() * (BLOCK * 4 + 32)
    }
}

impl std::ops::Index<PageId> for Pages {
    type Output = Page;
    fn index(&self, id: PageId) -> &Page {
        &self.pages[id.index()]
    }
}

impl std::ops::IndexMut<PageId> for Pages {
    fn index_mut(&mut self, id: PageId) -> &mut Page {
        &mut self.pages[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_known_by_space_and_number_and_their_ids_are_used_again() {
        let mut pages = Pages::default();
        let (one, two) = (SpaceId(1), SpaceId(2));
        let a = pages.find_or_insert(one, 7);
        let b = pages.find_or_insert(two, 7);
        assert!(a != b && pages.find_or_insert(one, 7) == a && pages.find(two, 7) == Some(b));
        assert_eq!(pages.find(one, 8), None);
        pages.forget(a);
        assert_eq!(pages.find(one, 7), None);
        assert_eq!(pages.find_or_insert(two, 1 << 34), a);
        assert_eq!(pages.of_space(two), [b, a]);
        pages.forget_space(two);
        assert!(pages.of_space(two).is_empty());
    }
}
