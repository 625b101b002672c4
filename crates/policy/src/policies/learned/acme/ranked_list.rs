//! A list of pages that knows how many pages precede each.

use crate::collections::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// Most pages of a block.
const BLOCK_PAGES: usize = 64;
const NIL: u32 = u32::MAX;

/// Pages that follow one another in the list.
#[derive(Clone, Debug, Default)]
struct Block {
    pages: Vec<PageId>,
    previous: u32,
    next: u32,
    /// Pages before the block, as of the last [`RankedList::count`].
    rank: usize,
    /// How often the block has taken pages in.
    version: u64,
}

/// A list in blocks of up to 64 pages, linked in order.
///
/// Insertion and removal cost a search and a move within one block; a block that empties joins the
/// next one. Ranks are counted block by block when they are wanted ([`count`](Self::count)), and
/// hold until the list changes. About 12 bytes a page.
#[derive(Clone, Debug)]
pub(super) struct RankedList {
    blocks: Vec<Block>,
    /// Blocks without pages, for reuse.
    unused: Vec<u32>,
    /// 1 + the block of each page, 0 for a page that is not in the list.
    block: PageMap<u32>,
    first: u32,
    last: u32,
    len: usize,
}

impl Default for RankedList {
    fn default() -> Self {
        Self::new()
    }
}

impl RankedList {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self { blocks: Vec::new(), unused: Vec::new(), block: PageMap::new(), first: NIL, last: NIL, len: 0 }
    }

    /// Pages in the list.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The block of a page in the list.
    #[inline]
    pub(super) fn block_of(&self, page: PageId) -> Option<usize> {
        (self.block.get(page) as usize).checked_sub(1)
    }

    /// Whether a page is in the list.
    #[inline]
    pub(super) fn contains(&self, page: PageId) -> bool {
        self.block.get(page) != 0
    }

    /// The first page.
    pub(super) fn front(&self) -> Option<PageId> {
        self.blocks.get(self.first as usize).and_then(|block| block.pages.first().copied())
    }

    /// The last page.
    pub(super) fn back(&self) -> Option<PageId> {
        self.blocks.get(self.last as usize).and_then(|block| block.pages.last().copied())
    }

    /// The page before one in the list.
    pub(super) fn before(&self, page: PageId) -> Option<PageId> {
        let (block, index) = self.place_of(page)?;
        let Block { pages, previous, .. } = &self.blocks[block];
        match index.checked_sub(1) {
            Some(before) => Some(pages[before]),
            None => self.blocks.get(*previous as usize).and_then(|block| block.pages.last().copied()),
        }
    }

    /// Appends a page that is not in the list.
    #[inline]
    pub(super) fn push_back(&mut self, page: PageId) {
        let block = match self.last {
            NIL => self.link_after(NIL),
            last if self.blocks[last as usize].pages.len() < BLOCK_PAGES => last,
            last => self.link_after(last),
        };
        let index = self.blocks[block as usize].pages.len();
        self.insert_at(block, index, page);
    }

    /// Inserts a page that is not in the list behind one that is, or (`None`) at the front.
    pub(super) fn insert_after(&mut self, anchor: Option<PageId>, page: PageId) {
        let (mut block, mut index) = match anchor {
            Some(anchor) => {
                let (block, index) = self.place_of(anchor).expect("the anchor is in the list");
                (block as u32, index + 1)
            }
            None if self.first == NIL => (self.link_after(NIL), 0),
            None => (self.first, 0),
        };
        if self.blocks[block as usize].pages.len() == BLOCK_PAGES {
            // At the end of a block nothing has to move: the next block begins with the page.
            let keep = if index == BLOCK_PAGES { BLOCK_PAGES } else { BLOCK_PAGES / 2 };
            let next = self.split(block, keep);
            if index >= keep {
                (block, index) = (next, index - keep);
            }
        }
        self.insert_at(block, index, page);
    }

    /// Takes a page out, if it is in the list.
    #[inline]
    pub(super) fn remove(&mut self, page: PageId) {
        let Some((index, position)) = self.place_of(page) else { return };
        let block = &mut self.blocks[index];
        block.pages.remove(position);
        let (left, next) = (block.pages.len(), block.next);
        self.block[page] = 0;
        self.len -= 1;
        if left == 0 {
            self.unlink(index as u32);
        } else if left < BLOCK_PAGES / 4 && next != NIL {
            self.merge(index as u32, next);
        }
    }

    /// Moves a page of the list to its end.
    #[inline]
    pub(super) fn move_to_back(&mut self, page: PageId) {
        if self.back() != Some(page) {
            self.remove(page);
            self.push_back(page);
        }
    }

    /// Counts the pages before each block. O(blocks).
    pub(super) fn count(&mut self) {
        let mut rank = 0;
        let mut next = self.first;
        while let Some(block) = self.blocks.get_mut(next as usize) {
            block.rank = rank;
            rank += block.pages.len();
            next = block.next;
        }
    }

    /// Pages before a page of the list that are in other blocks: its rank is at least this. As of
    /// the last count.
    #[inline]
    pub(super) fn least_rank(&self, page: PageId) -> Option<usize> {
        self.block_of(page).map(|block| self.blocks[block].rank)
    }

    /// Pages before a page of the list. As of the last count.
    #[inline]
    pub(super) fn rank(&self, page: PageId) -> Option<usize> {
        self.place_of(page).map(|(block, index)| self.blocks[block].rank + index)
    }

    /// Pages behind a page of the list that are in other blocks. As of the last count.
    #[inline]
    pub(super) fn least_rank_from_back(&self, page: PageId) -> Option<usize> {
        let block = &self.blocks[self.block_of(page)?];
        Some(self.len - block.rank - block.pages.len())
    }

    /// The blocks from the first to the last: number, pages, and how often the block has taken
    /// pages in.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, &[PageId], u64)> + '_ {
        core::iter::successors(self.first_block(), |&block| self.next_block(block))
            .map(|block| (block, &self.blocks[block].pages[..], self.blocks[block].version))
    }

    /// The block with the first pages.
    #[inline]
    pub(super) fn first_block(&self) -> Option<usize> {
        (self.first != NIL).then_some(self.first as usize)
    }

    /// The block behind one.
    #[inline]
    pub(super) fn next_block(&self, block: usize) -> Option<usize> {
        let next = self.blocks[block].next;
        (next != NIL).then_some(next as usize)
    }

    /// How often a block has taken pages in.
    #[inline]
    pub(super) fn version_of(&self, block: usize) -> u64 {
        self.blocks[block].version
    }

    /// The pages of a block; none if there is no such block.
    #[inline]
    pub(super) fn pages_of(&self, block: usize) -> &[PageId] {
        self.blocks.get(block).map_or(&[], |block| &block.pages)
    }

    /// The pages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.blocks().flat_map(|(_, pages, _)| pages.iter().copied())
    }

    /// Checks links, lengths and the block of every page.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let mut len = 0;
        let mut previous = NIL;
        for (number, pages, _) in self.blocks() {
            ensure!((1..=BLOCK_PAGES).contains(&pages.len()), "block {number} has {} pages", pages.len());
            ensure!(self.blocks[number].previous == previous, "block {number}: broken back link");
            let stray = pages.iter().find(|page| self.block_of(**page) != Some(number));
            ensure!(stray.is_none(), "{stray:?} is not marked as in block {number}");
            previous = number as u32;
            len += pages.len();
            ensure!(len <= self.len, "the list is longer than its length {}", self.len);
        }
        ensure!(previous == self.last, "wrong last block");
        let members = self.block.iter().filter(|(_, block)| *block != 0).count();
        ensure!(len == self.len && members == len, "{len} pages, {members} marked, length {}", self.len);
        Ok(())
    }

    #[inline]
    fn place_of(&self, page: PageId) -> Option<(usize, usize)> {
        let block = self.block_of(page)?;
        // From the back: recent pages are asked for most.
        let index = self.blocks[block].pages.iter().rposition(|other| *other == page);
        Some((block, index.expect("the page is in its block")))
    }

    #[inline]
    fn insert_at(&mut self, block: u32, index: usize, page: PageId) {
        let target = &mut self.blocks[block as usize];
        target.pages.insert(index, page);
        target.version += 1;
        self.block.cover(page);
        debug_assert_eq!(self.block[page], 0, "page {page} is in the list already");
        self.block[page] = block + 1;
        self.len += 1;
    }

    /// A new block behind one (`NIL`: in front).
    fn link_after(&mut self, previous: u32) -> u32 {
        let block = self.unused.pop().unwrap_or_else(|| {
            self.blocks.push(Block { pages: Vec::with_capacity(BLOCK_PAGES), ..Block::default() });
            self.blocks.len() as u32 - 1
        });
        let next = match previous {
            NIL => core::mem::replace(&mut self.first, block),
            previous => core::mem::replace(&mut self.blocks[previous as usize].next, block),
        };
        match next {
            NIL => self.last = block,
            next => self.blocks[next as usize].previous = block,
        }
        self.blocks[block as usize].previous = previous;
        self.blocks[block as usize].next = next;
        block
    }

    fn unlink(&mut self, block: u32) {
        let Block { previous, next, .. } = self.blocks[block as usize];
        match previous {
            NIL => self.first = next,
            previous => self.blocks[previous as usize].next = next,
        }
        match next {
            NIL => self.last = previous,
            next => self.blocks[next as usize].previous = previous,
        }
        self.unused.push(block);
    }

    /// Moves the pages of a block from `keep` on to a new one behind it.
    fn split(&mut self, block: u32, keep: usize) -> u32 {
        let next = self.link_after(block);
        let [from, to] = self.blocks.get_disjoint_mut([block as usize, next as usize]).expect("two blocks");
        to.pages.extend(from.pages.drain(keep..));
        to.version += 1;
        to.pages.iter().for_each(|&page| self.block[page] = next + 1);
        next
    }

    /// Takes the pages of the next block into one that has few left, if they fit.
    fn merge(&mut self, block: u32, next: u32) {
        let [to, from] = self.blocks.get_disjoint_mut([block as usize, next as usize]).expect("two blocks");
        if to.pages.len() + from.pages.len() <= BLOCK_PAGES * 3 / 4 {
            from.pages.iter().for_each(|&page| self.block[page] = block + 1);
            to.pages.append(&mut from.pages);
            to.version += 1;
            self.unlink(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn agrees_with_a_vector() {
        let mut random = SplitMix64::new(1);
        let mut list = RankedList::new();
        let mut plain: Vec<PageId> = Vec::new();
        for step in 0..20_000 {
            let page = PageId(random.below(400) as u32);
            let known = plain.contains(&page);
            assert_eq!(list.contains(page), known);
            match random.below(4) {
                0 => {
                    list.remove(page);
                    plain.retain(|other| *other != page);
                }
                1 if known => {
                    list.move_to_back(page);
                    plain.retain(|other| *other != page);
                    plain.push(page);
                }
                2 if !known => {
                    let at = random.below(plain.len() as u64 + 1) as usize;
                    list.insert_after(at.checked_sub(1).map(|before| plain[before]), page);
                    plain.insert(at, page);
                }
                _ if !known => {
                    list.push_back(page);
                    plain.push(page);
                }
                _ => {}
            }
            assert_eq!((list.front(), list.back()), (plain.first().copied(), plain.last().copied()));
            if step % 100 == 0 {
                list.check().unwrap();
                list.count();
                assert!(list.iter().eq(plain.iter().copied()));
                for (rank, &page) in plain.iter().enumerate() {
                    assert_eq!(list.rank(page), Some(rank));
                    assert!(list.least_rank(page).unwrap() <= rank);
                    assert!(list.least_rank_from_back(page).unwrap() < plain.len() - rank);
                    assert_eq!(list.before(page), rank.checked_sub(1).map(|before| plain[before]));
                }
            }
        }
    }
}
