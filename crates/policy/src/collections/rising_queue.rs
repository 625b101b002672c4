//! A queue of pages by a key that only rises.

use super::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::collections::{BinaryHeap, binary_heap::PeekMut};
use core::cmp::Reverse;

/// What a page is ordered by, and the time of its last reference, which decides ties. No two pages
/// have the same time, and a key never falls while its page is in the queue.
pub type RisingKey = (u64, u64);

/// Pages, the one with the least key first, where keys rise with every reference to a page.
///
/// The queue does not learn of a reference. A page is filed under a key that it once had, which is
/// a lower bound of its key. Only a page that comes to the front has its key looked up, and goes
/// back if it has risen. So references cost nothing, and a page goes back at most once for each of
/// its references: amortised O(log n). 24 bytes a page of the queue, and 8 a page seen.
#[derive(Clone, Debug, Default)]
pub struct RisingQueue {
    /// Pages with the keys that they are filed under, and entries of pages that have left.
    heap: BinaryHeap<Reverse<(RisingKey, PageId)>>,
    /// By page: 1 + the time in its key that holds; 0 for a page that is not in the queue.
    filed: PageMap<u64>,
    len: usize,
}

impl RisingQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), filed: PageMap::new(), len: 0 }
    }

    /// Pages in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no page in the queue.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a page is in the queue.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.filed.get(page) != 0
    }

    /// Takes in a page that is not in the queue.
    pub fn insert(&mut self, page: PageId, key: RisingKey) {
        debug_assert!(!self.contains(page), "page {page} is in the queue already");
        self.filed.set(page, key.1 + 1);
        self.heap.push(Reverse((key, page)));
        self.len += 1;
    }

    /// Takes a page out, if it is in the queue.
    pub fn remove(&mut self, page: PageId) {
        if !self.contains(page) {
            return;
        }
        self.filed[page] = 0;
        self.len -= 1;
        if self.heap.len() > 2 * self.len + 64 {
            let filed = &self.filed;
            self.heap.retain(|&Reverse((key, page))| filed[page] == key.1 + 1);
        }
    }

    /// The page with the least key, as `key_of` has it now.
    pub fn first(&mut self, key_of: impl Fn(PageId) -> RisingKey) -> Option<PageId> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let Reverse((filed_under, page)) = *top;
            if self.filed[page] != filed_under.1 + 1 {
                PeekMut::pop(top);
                continue;
            }
            let key = key_of(page);
            debug_assert!(key >= filed_under, "the key of page {page} fell from {filed_under:?} to {key:?}");
            if key == filed_under {
                return Some(page);
            }
            *top = Reverse((key, page));
            self.filed[page] = key.1 + 1;
        }
    }

    /// Checks that each page of the queue has one entry that holds, under a key that is not above
    /// its own.
    pub fn check(&self, key_of: impl Fn(PageId) -> RisingKey) -> Result<(), Violation> {
        let mut entries = 0;
        for &Reverse((filed_under, page)) in &self.heap {
            if self.filed[page] == filed_under.1 + 1 {
                entries += 1;
                let key = key_of(page);
                ensure!(filed_under <= key, "page {page} is filed under {filed_under:?}, its key is {key:?}");
            }
        }
        let members = self.filed.iter().filter(|&(_, filed)| filed != 0).count();
        ensure!(
            entries == self.len && members == self.len,
            "{entries} entries hold for {members} pages of {}",
            self.len
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use alloc::collections::BTreeMap;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_sorted_map() {
        let mut random = SplitMix64::new(5);
        let mut queue = RisingQueue::new();
        let mut plain: BTreeMap<PageId, RisingKey> = BTreeMap::new();
        for time in 1..40_000 {
            let _input = trying(|| format!("time {time}"));
            let page = PageId(random.below(60) as u32);
            match plain.get(&page).copied() {
                // A page that comes back may have a lower key than it had.
                None => {
                    let key = (random.below(50), time);
                    queue.insert(page, key);
                    plain.insert(page, key);
                }
                Some(_) if random.below(8) == 0 => {
                    queue.remove(page);
                    plain.remove(&page);
                }
                Some((key, _)) => {
                    plain.insert(page, (key + random.below(20), time));
                }
            }
            if random.below(3) == 0 {
                let least = plain.iter().min_by_key(|&(_, &key)| key).map(|(&page, _)| page);
                assert_eq!(queue.first(|page| plain[&page]), least);
            }
            assert_eq!((queue.len(), queue.contains(page)), (plain.len(), plain.contains_key(&page)));
            if time % 100 == 0 {
                queue.check(|page| plain[&page]).unwrap();
                assert!(queue.heap.len() <= 2 * queue.len() + 65, "entries that do not hold pile up");
            }
        }
    }
}
