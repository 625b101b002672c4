//! Pages in order of use count, with their ranks.

use super::ranked_list::RankedList;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

/// The pages of one frequency: a run of the list.
#[derive(Clone, Copy, Debug)]
struct Group {
    frequency: u64,
    /// Pages of the run.
    pages: u32,
    /// The last page of the run.
    last: PageId,
    previous: u32,
    next: u32,
}

/// Pages by frequency, those of the same frequency by their last use, least in front. Every
/// operation is O(1) but for [`RankedList::count`]. About 16 bytes a page.
#[derive(Clone, Debug)]
pub(super) struct LfuList {
    order: RankedList,
    groups: Vec<Group>,
    /// Groups without pages, for reuse.
    unused: Vec<u32>,
    /// The group of each page of the list.
    group: PageMap<u32>,
    /// The group of the least frequency.
    first: u32,
}

impl Default for LfuList {
    fn default() -> Self {
        Self::new()
    }
}

impl LfuList {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self {
            order: RankedList::new(),
            groups: Vec::new(),
            unused: Vec::new(),
            group: PageMap::new(),
            first: NIL,
        }
    }

    /// The pages in order.
    #[inline]
    pub(super) fn order(&self) -> &RankedList {
        &self.order
    }

    /// How often a page of the list was used; 0 for others.
    #[inline]
    pub(super) fn frequency(&self, page: PageId) -> u64 {
        match self.order.contains(page) {
            true => self.groups[self.group[page] as usize].frequency,
            false => 0,
        }
    }

    /// See [`RankedList::rank`].
    pub(super) fn rank(&mut self, page: PageId) -> Option<usize> {
        self.order.rank(page)
    }

    /// See [`RankedList::least_rank`].
    #[inline]
    pub(super) fn least_rank(&mut self, page: PageId) -> Option<usize> {
        self.order.least_rank(page)
    }

    /// Counts ranks: see [`RankedList::count`].
    pub(super) fn count(&mut self) {
        self.order.count();
    }

    /// Takes a page in that is not in the list, as used once.
    pub(super) fn insert(&mut self, page: PageId) {
        self.group.cover(page);
        self.append(page, 1, NIL);
    }

    /// Counts a use of a page of the list.
    #[inline]
    pub(super) fn use_once_more(&mut self, page: PageId) {
        let group = self.group[page];
        let Group { frequency, pages, next, .. } = self.groups[group as usize];
        let is_next = self.groups.get(next as usize).is_some_and(|next| next.frequency == frequency + 1);
        if pages == 1 && !is_next {
            // It stays where it is, and so does its group.
            self.groups[group as usize].frequency += 1;
        } else {
            let previous = self.leave(page);
            self.append(page, frequency + 1, previous);
        }
    }

    /// Takes a page out, if it is in the list.
    pub(super) fn remove(&mut self, page: PageId) {
        if self.order.contains(page) {
            self.leave(page);
        }
    }

    /// Checks the order, the runs and their groups.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.order.check()?;
        let mut pages = self.order.iter().peekable();
        let mut number = self.first;
        let mut previous = NIL;
        let mut least = 0;
        while let Some(group) = self.groups.get(number as usize) {
            ensure!(group.frequency > least, "frequency {} behind {least}", group.frequency);
            ensure!(group.previous == previous, "frequency {}: broken back link", group.frequency);
            let run: Vec<_> =
                core::iter::from_fn(|| pages.next_if(|page| self.group[*page] == number)).collect();
            ensure!(run.last() == Some(&group.last), "frequency {}: {run:?}, {group:?}", group.frequency);
            ensure!(run.len() == group.pages as usize, "frequency {}: {run:?}, {group:?}", group.frequency);
            least = group.frequency;
            previous = number;
            number = group.next;
        }
        ensure!(pages.next().is_none(), "a page is in no run");
        Ok(())
    }

    /// Takes a page out of the list and of its group, and returns the group that its old frequency
    /// is in or behind.
    fn leave(&mut self, page: PageId) -> u32 {
        let before = self.order.remove(page);
        let number = self.group[page];
        let group = &mut self.groups[number as usize];
        group.pages -= 1;
        if group.pages > 0 {
            if group.last == page {
                group.last = before.expect("a page of its run is before it");
            }
            return number;
        }
        let group = *group;
        match group.previous {
            NIL => self.first = group.next,
            previous => self.groups[previous as usize].next = group.next,
        }
        if let Some(next) = self.groups.get_mut(group.next as usize) {
            next.previous = group.previous;
        }
        self.unused.push(number);
        group.previous
    }

    /// Makes a page the last of a frequency, which is the first one behind the group `previous` or
    /// comes before that.
    fn append(&mut self, page: PageId, frequency: u64, previous: u32) {
        let next = self.groups.get(previous as usize).map_or(self.first, |group| group.next);
        let number = match self.groups.get_mut(next as usize) {
            Some(group) if group.frequency == frequency => {
                self.order.insert_after(Some(group.last), page);
                group.last = page;
                group.pages += 1;
                next
            }
            _ => {
                let anchor = self.groups.get(previous as usize).map(|group| group.last);
                self.order.insert_after(anchor, page);
                self.link(Group { frequency, pages: 1, last: page, previous, next })
            }
        };
        self.group[page] = number;
    }

    fn link(&mut self, group: Group) -> u32 {
        let number = self.unused.pop().unwrap_or(self.groups.len() as u32);
        if number as usize == self.groups.len() {
            self.groups.push(group);
        } else {
            self.groups[number as usize] = group;
        }
        match group.previous {
            NIL => self.first = number,
            previous => self.groups[previous as usize].next = number,
        }
        if let Some(next) = self.groups.get_mut(group.next as usize) {
            next.previous = number;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_sorted_vector() {
        let mut random = SplitMix64::new(1);
        let mut list = LfuList::new();
        let mut plain: Vec<(u64, u64, PageId)> = Vec::new();
        for time in 0..30_000 {
            let _input = trying(|| format!("time {time}"));
            let page = PageId((random.below(20) * random.below(15)) as u32);
            let known = plain.iter().position(|entry| entry.2 == page).map(|index| plain.remove(index));
            match known {
                None => list.insert(page),
                Some(_) if random.below(40) == 0 => {
                    list.remove(page);
                    continue;
                }
                Some((frequency, ..)) => {
                    assert_eq!(list.frequency(page), frequency);
                    list.use_once_more(page);
                }
            }
            plain.push((known.map_or(0, |entry| entry.0) + 1, time, page));
            plain.sort_unstable();
            if time % 50 == 0 {
                list.check().unwrap();
                assert!(list.order().iter().eq(plain.iter().map(|entry| entry.2)));
            }
        }
    }
}
