//! A list of pages that knows how many pages precede each.

use crate::collections::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// Most pages of a block.
const BLOCK_PAGES: usize = 32;
/// Most blocks of a group.
const GROUP_BLOCKS: usize = 32;
const NIL: u32 = u32::MAX;

/// Pages that follow one another in the list.
#[derive(Clone, Debug, Default)]
struct Block {
    pages: Vec<PageId>,
    previous: u32,
    next: u32,
    /// The group that the block is in.
    group: u32,
    /// Pages before the block, if its group has been counted.
    rank: usize,
}

/// Blocks that follow one another in the list.
#[derive(Clone, Debug, Default)]
struct Group {
    blocks: Vec<u32>,
    /// Pages of the blocks.
    pages: usize,
    /// Pages before the group, as of the last [`RankedList::count`].
    rank: usize,
    /// The last count for which the ranks of its blocks have been found.
    counted: u64,
}

/// A list in blocks of up to 32 pages, which are linked in order, and groups of up to 32 blocks.
///
/// Insertion and removal cost a search and a move within one block; a block that empties joins the
/// next one. Ranks are counted group by group when they are wanted ([`count`](Self::count)), and
/// within a group when a page of it is asked for. They hold until the list changes. About 13 bytes
/// a page.
#[derive(Clone, Debug)]
pub(super) struct RankedList {
    blocks: Vec<Block>,
    /// Blocks without pages, for reuse.
    unused: Vec<u32>,
    groups: Vec<Group>,
    /// Groups without blocks, for reuse.
    unused_groups: Vec<u32>,
    /// The groups in order.
    order: Vec<u32>,
    /// 1 + the block of each page, 0 for a page that is not in the list.
    block: PageMap<u32>,
    first: u32,
    last: u32,
    len: usize,
    /// How often ranks have been counted.
    counts: u64,
}

impl Default for RankedList {
    fn default() -> Self {
        Self::new()
    }
}

impl RankedList {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self {
            blocks: Vec::new(),
            unused: Vec::new(),
            groups: Vec::new(),
            unused_groups: Vec::new(),
            order: Vec::new(),
            block: PageMap::new(),
            first: NIL,
            last: NIL,
            len: 0,
            counts: 0,
        }
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

    /// Asks for what says where a page is.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.block.prefetch(page);
    }

    /// The first page.
    pub(super) fn front(&self) -> Option<PageId> {
        self.blocks.get(self.first as usize).and_then(|block| block.pages.first().copied())
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

    /// Takes a page of the list out, and returns the one before it.
    #[inline]
    pub(super) fn remove(&mut self, page: PageId) -> Option<PageId> {
        let (index, position) = self.place_of(page).expect("the page is in the list");
        let block = &mut self.blocks[index];
        block.pages.remove(position);
        let (left, previous, next) = (block.pages.len(), block.previous, block.next);
        let before = match position {
            0 => self.blocks.get(previous as usize).and_then(|block| block.pages.last().copied()),
            _ => Some(block.pages[position - 1]),
        };
        let block = &self.blocks[index];
        self.groups[block.group as usize].pages -= 1;
        self.block[page] = 0;
        self.len -= 1;
        if left == 0 {
            self.unlink(index as u32);
        } else if left < BLOCK_PAGES / 4 && next != NIL {
            self.merge(index as u32, next);
        }
        before
    }

    /// Counts the pages before each group. O(groups).
    pub(super) fn count(&mut self) {
        self.counts += 1;
        let mut rank = 0;
        for &group in &self.order {
            let group = &mut self.groups[group as usize];
            group.rank = rank;
            rank += group.pages;
        }
    }

    /// Pages before a block, as of the last count.
    #[inline]
    fn rank_of_block(&mut self, block: usize) -> usize {
        let group = &mut self.groups[self.blocks[block].group as usize];
        if group.counted != self.counts {
            group.counted = self.counts;
            let mut rank = group.rank;
            for &block in &group.blocks {
                let block = &mut self.blocks[block as usize];
                block.rank = rank;
                rank += block.pages.len();
            }
        }
        self.blocks[block].rank
    }

    /// Pages before a page of the list that are in other blocks: its rank is at least this. As of
    /// the last count.
    #[inline]
    pub(super) fn least_rank(&mut self, page: PageId) -> Option<usize> {
        self.block_of(page).map(|block| self.rank_of_block(block))
    }

    /// Pages before a page of the list. As of the last count.
    #[inline]
    pub(super) fn rank(&mut self, page: PageId) -> Option<usize> {
        self.place_of(page).map(|(block, index)| self.rank_of_block(block) + index)
    }

    /// The blocks from the first to the last: number and pages.
    fn blocks(&self) -> impl Iterator<Item = (usize, &[PageId])> + '_ {
        let next = |&block: &u32| Some(self.blocks[block as usize].next).filter(|next| *next != NIL);
        core::iter::successors((self.first != NIL).then_some(self.first), next)
            .map(|block| (block as usize, &self.blocks[block as usize].pages[..]))
    }

    /// The pages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.blocks().flat_map(|(_, pages)| pages.iter().copied())
    }

    /// Checks links, lengths, groups and the block of every page.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let mut len = 0;
        let mut previous = NIL;
        let mut grouped =
            self.order.iter().flat_map(|&group| self.groups[group as usize].blocks.iter().copied());
        for (number, pages) in self.blocks() {
            ensure!((1..=BLOCK_PAGES).contains(&pages.len()), "block {number} has {} pages", pages.len());
            ensure!(self.blocks[number].previous == previous, "block {number}: broken back link");
            ensure!(grouped.next() == Some(number as u32), "block {number} is not next in its group");
            let stray = pages.iter().find(|page| self.block_of(**page) != Some(number));
            ensure!(stray.is_none(), "{stray:?} is not marked as in block {number}");
            previous = number as u32;
            len += pages.len();
            ensure!(len <= self.len, "the list is longer than its length {}", self.len);
        }
        ensure!(previous == self.last && grouped.next().is_none(), "wrong last block");
        for &number in &self.order {
            let group = &self.groups[number as usize];
            ensure!((1..=GROUP_BLOCKS).contains(&group.blocks.len()), "{} blocks", group.blocks.len());
            let mut pages = 0;
            for &block in &group.blocks {
                ensure!(self.blocks[block as usize].group == number, "block {block} is in another group");
                pages += self.blocks[block as usize].pages.len();
            }
            ensure!(pages == group.pages, "group {number}: {pages} pages, counted {}", group.pages);
        }
        let members = self.block.iter().filter(|(_, block)| *block != 0).count();
        ensure!(len == self.len && members == len, "{len} pages, {members} marked, length {}", self.len);
        Ok(())
    }

    #[inline]
    fn place_of(&self, page: PageId) -> Option<(usize, usize)> {
        let block = self.block_of(page)?;
        // Without a branch for each page: nobody knows where it is. It is there once.
        let pages = &self.blocks[block].pages;
        let index =
            pages.iter().zip(0..).fold(0_u32, |found, (other, at)| if *other == page { at } else { found });
        debug_assert_eq!(pages[index as usize], page);
        Some((block, index as usize))
    }

    #[inline]
    fn insert_at(&mut self, block: u32, index: usize, page: PageId) {
        let target = &mut self.blocks[block as usize];
        target.pages.insert(index, page);
        let group = &mut self.groups[target.group as usize];
        group.pages += 1;
        self.block.cover(page);
        debug_assert_eq!(self.block[page], 0, "page {page} is in the list already");
        self.block[page] = block + 1;
        self.len += 1;
    }

    /// A new block behind one (`NIL`: in front), without pages yet.
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
        self.join_group(block, previous);
        block
    }

    /// Puts a block into the group of the one before it, which is divided if it is full, or (`NIL`)
    /// into the first.
    fn join_group(&mut self, block: u32, previous: u32) {
        let first = self.order.first().copied();
        let (mut group, mut index) = match (previous, first) {
            (NIL, Some(first)) => (first, 0),
            (NIL, None) => (self.new_group(0), 0),
            (previous, _) => {
                let group = self.blocks[previous as usize].group;
                let blocks = &self.groups[group as usize].blocks;
                let index = blocks.iter().rposition(|other| *other == previous);
                (group, index.expect("the block is in its group") + 1)
            }
        };
        if self.groups[group as usize].blocks.len() == GROUP_BLOCKS {
            let place = self.order.iter().rposition(|other| *other == group);
            let behind = self.new_group(place.expect("the group is in order") + 1);
            // At the end of a group nothing has to move.
            let keep = if index == GROUP_BLOCKS { GROUP_BLOCKS } else { GROUP_BLOCKS / 2 };
            let moved = self.groups[group as usize].blocks.split_off(keep);
            let pages = moved.iter().map(|&block| self.blocks[block as usize].pages.len()).sum::<usize>();
            moved.iter().for_each(|&block| self.blocks[block as usize].group = behind);
            self.groups[group as usize].pages -= pages;
            let target = &mut self.groups[behind as usize];
            (target.blocks, target.pages) = (moved, pages);
            if index >= keep {
                (group, index) = (behind, index - keep);
            }
        }
        let target = &mut self.groups[group as usize];
        target.blocks.insert(index, block);
        self.blocks[block as usize].group = group;
    }

    /// A group without blocks at a place of the order.
    fn new_group(&mut self, place: usize) -> u32 {
        let group = self.unused_groups.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() as u32 - 1
        });
        self.order.insert(place, group);
        group
    }

    fn unlink(&mut self, block: u32) {
        let Block { previous, next, group, .. } = self.blocks[block as usize];
        match previous {
            NIL => self.first = next,
            previous => self.blocks[previous as usize].next = next,
        }
        match next {
            NIL => self.last = previous,
            next => self.blocks[next as usize].previous = previous,
        }
        self.unused.push(block);
        let blocks = &mut self.groups[group as usize].blocks;
        blocks.retain(|other| *other != block);
        if blocks.is_empty() {
            self.order.retain(|other| *other != group);
            self.unused_groups.push(group);
        }
    }

    /// Moves the pages of a block from `keep` on to a new one behind it.
    fn split(&mut self, block: u32, keep: usize) -> u32 {
        let next = self.link_after(block);
        let [from, to] = self.blocks.get_disjoint_mut([block as usize, next as usize]).expect("two blocks");
        to.pages.extend(from.pages.drain(keep..));
        to.pages.iter().for_each(|&page| self.block[page] = next + 1);
        let (moved, from, to) = (to.pages.len(), from.group, to.group);
        self.move_between_groups(moved, from, to);
        next
    }

    /// Takes the pages of the next block into one that has few left, if they fit.
    fn merge(&mut self, block: u32, next: u32) {
        let [to, from] = self.blocks.get_disjoint_mut([block as usize, next as usize]).expect("two blocks");
        if to.pages.len() + from.pages.len() <= BLOCK_PAGES * 3 / 4 {
            from.pages.iter().for_each(|&page| self.block[page] = block + 1);
            let moved = from.pages.len();
            to.pages.append(&mut from.pages);
            let (from, to) = (from.group, to.group);
            self.move_between_groups(moved, from, to);
            self.unlink(next);
        }
    }

    fn move_between_groups(&mut self, pages: usize, from: u32, to: u32) {
        self.groups[from as usize].pages -= pages;
        let to = &mut self.groups[to as usize];
        to.pages += pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_vector() {
        let mut random = SplitMix64::new(1);
        let mut list = RankedList::new();
        let mut plain: Vec<PageId> = Vec::new();
        for step in 0..20_000 {
            let _input = trying(|| format!("step {step}"));
            let page = PageId(random.below(400) as u32);
            let known = plain.contains(&page);
            assert_eq!(list.contains(page), known);
            if known && random.below(3) == 0 {
                let at = plain.iter().position(|other| *other == page).expect("it is known");
                assert_eq!(list.remove(page), at.checked_sub(1).map(|before| plain[before]));
                plain.remove(at);
            } else if !known {
                let at = random.below(plain.len() as u64 + 1) as usize;
                list.insert_after(at.checked_sub(1).map(|before| plain[before]), page);
                plain.insert(at, page);
            }
            assert_eq!(list.front(), plain.first().copied());
            if step % 100 == 0 {
                list.check().unwrap();
                list.count();
                assert!(list.iter().eq(plain.iter().copied()));
                for (rank, &page) in plain.iter().enumerate() {
                    assert_eq!(list.rank(page), Some(rank));
                    assert!(list.least_rank(page).unwrap() <= rank);
                }
            }
        }
    }
}
