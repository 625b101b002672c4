//! Pages in the order of keys that their policy keeps.

use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

/// Most pages of a block.
const BLOCK_PAGES: usize = 64;
/// Two blocks with at most this many pages together are joined.
const JOINED_PAGES: usize = 48;

/// Pages by key, in blocks of up to 64, of which a tree holds the keys. The keys of pages are the
/// policy's: every call is passed the function that tells them, and they are distinct and stay the
/// same while the page is here.
///
/// Every operation takes O(log n) looks at keys. 4 bytes a page in full blocks, 6 as a rule.
#[derive(Clone, Debug)]
pub(super) struct SortedPages<K> {
    /// Blocks that are not empty, by a key from which on theirs begin and those of the block before
    /// have ended.
    blocks: BTreeMap<K, Vec<PageId>>,
    len: usize,
}

impl<K: Copy + Ord> Default for SortedPages<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Copy + Ord> SortedPages<K> {
    /// No pages.
    pub(super) const fn new() -> Self {
        Self { blocks: BTreeMap::new(), len: 0 }
    }

    /// How many pages are here.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes in a page that is not here.
    pub(super) fn insert(&mut self, page: PageId, key: impl Fn(PageId) -> K) {
        let own = key(page);
        self.len += 1;
        let Some((_, block)) = self.blocks.range_mut(..=own).next_back() else {
            // Before all others: the first block begins earlier now.
            let (_, block) = self.blocks.pop_first().unwrap_or((own, Vec::new()));
            self.blocks.insert(own, block);
            self.len -= 1;
            return self.insert(page, key);
        };
        let place = block.partition_point(|other| key(*other) < own);
        if block.len() < BLOCK_PAGES {
            return block.insert(place, page);
        }
        // Pages that come in order leave full blocks behind.
        let half = if place == BLOCK_PAGES { BLOCK_PAGES } else { BLOCK_PAGES / 2 };
        let mut upper = block.split_off(half);
        if place < half {
            block.insert(place, page);
        } else {
            upper.insert(place - half, page);
        }
        self.blocks.insert(key(upper[0]), upper);
    }

    /// Takes a page out that is here.
    pub(super) fn remove(&mut self, page: PageId, key: impl Fn(PageId) -> K) {
        let own = key(page);
        let block = self.blocks.range_mut(..=own).next_back();
        let (&start, block) = block.expect("a page that is here is in a block");
        let place = block.partition_point(|other| key(*other) < own);
        debug_assert_eq!(block.get(place), Some(&page));
        block.remove(place);
        self.len -= 1;
        let rest = block.len();
        if rest == 0 {
            self.blocks.remove(&start);
        } else if rest <= JOINED_PAGES / 2 {
            let next = self.blocks.range((Excluded(start), Unbounded)).next().map(|(next, _)| (start, *next));
            let before = self.blocks.range(..start).next_back().map(|(before, _)| (*before, start));
            let _ = next.into_iter().chain(before).any(|(lower, upper)| self.join(lower, upper));
        }
    }

    /// The first page from a key on.
    pub(super) fn first_from(&self, from: K, key: impl Fn(PageId) -> K) -> Option<PageId> {
        let block = self.blocks.range(..=from).next_back();
        let here = block.and_then(|(_, block)| block.get(block.partition_point(|page| key(*page) < from)));
        let next =
            || self.blocks.range((Excluded(from), Unbounded)).next().and_then(|(_, block)| block.first());
        here.or_else(next).copied()
    }

    /// The last page up to a key.
    pub(super) fn last_to(&self, to: K, key: impl Fn(PageId) -> K) -> Option<PageId> {
        let up_to = |block: &Vec<PageId>| block.partition_point(|page| key(*page) <= to).checked_sub(1);
        // The block may begin between the key and its first page: then it is the last page of the
        // block before.
        let mut blocks = self.blocks.range(..=to).rev();
        blocks.find_map(|(_, block)| up_to(block).map(|place| block[place]))
    }

    /// The pages in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.blocks.values().flatten().copied()
    }

    /// Checks the order and the blocks.
    pub(super) fn check(&self, key: impl Fn(PageId) -> K) -> Result<(), Violation> {
        ensure!(self.iter().map(&key).is_sorted_by(|one, next| one < next), "pages are out of order");
        let pages: usize = self.blocks.values().map(Vec::len).sum();
        ensure!(pages == self.len, "{pages} pages in blocks, not {}", self.len);
        let mut last = None;
        for (start, block) in &self.blocks {
            let len = block.len();
            ensure!((1..=BLOCK_PAGES).contains(&len), "a block of {len} pages");
            ensure!(
                *start <= key(block[0]) && last.is_none_or(|last| last < *start),
                "a block begins elsewhere"
            );
            last = Some(key(block[len - 1]));
        }
        Ok(())
    }

    /// Joins two neighbouring blocks, by where they start, if they have few pages together. Returns
    /// whether they have.
    fn join(&mut self, lower: K, upper: K) -> bool {
        let are_small = self.blocks[&lower].len() + self.blocks[&upper].len() <= JOINED_PAGES;
        if are_small {
            let pages = self.blocks.remove(&upper).unwrap_or_default();
            self.blocks.entry(lower).or_default().extend(pages);
        }
        are_small
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use sweephand_checks::trying;

    /// A page's key: the order of keys has nothing to do with that of the numbers.
    fn key(page: PageId) -> u32 {
        page.0.wrapping_mul(0x9e37_79b1)
    }

    #[test]
    fn agrees_with_a_btree_map() {
        let mut random = SplitMix64::new(5);
        for pages in [3, 70, 1000] {
            let (mut sorted, mut model) = (SortedPages::new(), BTreeMap::new());
            for step in 0..20_000_u64 {
                let _input = trying(|| format!("{pages} pages, step {step}"));
                // Now more and more, now fewer and fewer.
                let grows = step / 4000 % 2 == 0;
                let page = PageId(random.below(pages) as u32);
                if model.contains_key(&key(page)) && (!grows || random.below(4) == 0) {
                    sorted.remove(page, key);
                    model.remove(&key(page));
                } else if !model.contains_key(&key(page)) && (grows || random.below(4) == 0) {
                    sorted.insert(page, key);
                    model.insert(key(page), page);
                }
                let at = key(PageId(random.below(2 * pages) as u32));
                assert_eq!(sorted.first_from(at, key), model.range(at..).next().map(|(_, page)| *page));
                assert_eq!(sorted.last_to(at, key), model.range(..=at).next_back().map(|(_, page)| *page));
                assert_eq!(sorted.len(), model.len());
                if step % 50 == 0 {
                    sorted.check(key).unwrap();
                    assert!(sorted.iter().eq(model.values().copied()));
                }
            }
        }
    }

    #[test]
    fn pages_in_order_fill_blocks_and_blocks_that_empty_are_joined() {
        let key = |page: PageId| page.0;
        let mut sorted = SortedPages::new();
        (0..6400).for_each(|page| sorted.insert(PageId(page), key));
        assert_eq!(sorted.blocks.len(), 100);
        (0..6400).filter(|page| page % 8 != 0).for_each(|page| sorted.remove(PageId(page), key));
        assert!(sorted.blocks.len() < 50, "{} blocks", sorted.blocks.len());
        (0..6400).filter(|page| page % 8 == 0).for_each(|page| sorted.remove(PageId(page), key));
        assert!(sorted.len() == 0 && sorted.blocks.is_empty());
    }
}
