//! Pages in order of their last use.

use super::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// The entries between the oldest and that which is fetched meanwhile.
const AHEAD: u32 = 16;
/// Slots of an order that has just come to be.
const FIRST_SLOTS: usize = 64;

/// An order of pages in which a use moves a page to the recent end.
///
/// A use appends the page to a log and writes down where. It looks at no neighbour, as a list would
/// have to. An entry of the log holds if it is the latest of its page and the page has not been
/// taken out. Entries that do not hold are skipped when they come to the old end, and dropped when
/// the log is full. So every operation is amortised O(1).
///
/// The log is a ring of slots, a power of two, that doubles if three eighths of it hold when it is
/// full. So fewer than two entries are looked at for each that is written. 4 bytes a page seen, and
/// 10 to 22 for a page in the order.
#[derive(Clone, Debug, Default)]
pub struct RecencyOrder {
    /// The page of each entry; entry number n is in slot n modulo the number of slots.
    log: Vec<u32>,
    /// 1 + the number of the entry that holds for a page; 0 for a page that is not in the order.
    place: PageMap<u32>,
    /// The number of the oldest entry, which holds unless the order is empty.
    oldest: u32,
    /// The number that the next entry gets.
    next: u32,
    /// Pages in the order.
    len: usize,
}

impl RecencyOrder {
    /// No pages.
    pub const fn new() -> Self {
        Self { log: Vec::new(), place: PageMap::new(), oldest: 0, next: 0, len: 0 }
    }

    /// Pages in the order.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no pages in the order.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a page is in the order.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.place.get(page) != 0
    }

    /// The page whose last use is longest ago.
    #[inline]
    pub fn oldest(&self) -> Option<PageId> {
        (self.len > 0).then(|| self.page(self.oldest))
    }

    /// The page used last.
    #[inline]
    pub fn newest(&self) -> Option<PageId> {
        (self.len > 0).then(|| self.page(self.next - 1))
    }

    /// A use of a page, which may be in the order or not: it is the newest now.
    #[inline]
    pub fn touch(&mut self, page: PageId) {
        let place = self.place.get(page);
        if place == self.next && place != 0 {
            return;
        }
        if self.next.wrapping_sub(self.oldest) as usize == self.log.len() || self.next == u32::MAX {
            self.make_room();
        }
        self.place.cover(page);
        let number = self.next;
        let slot = self.slot(number);
        self.log[slot] = page.0;
        self.next = number + 1;
        let before = core::mem::replace(&mut self.place[page], number + 1);
        self.len += usize::from(before == 0);
        if before == self.oldest + 1 {
            self.skip_oldest();
        }
    }

    /// Takes a page out, and says whether it was in.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> bool {
        if !self.contains(page) {
            return false;
        }
        let before = core::mem::take(&mut self.place[page]);
        self.len -= 1;
        if before == self.oldest + 1 {
            self.skip_oldest();
        } else if before == self.next {
            self.skip_newest();
        }
        true
    }

    /// Asks for what a use of a page will look at.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.place.prefetch(page);
    }

    /// The pages from the oldest to the newest.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        (self.oldest..self.next).filter(|&number| self.holds(number)).map(|number| self.page(number))
    }

    /// Checks that each page of the order has one entry that holds, and both ends.
    pub fn check(&self) -> Result<(), Violation> {
        let entries = self.iter().count();
        let members = self.place.iter().filter(|&(_, place)| place != 0).count();
        ensure!(
            entries == self.len && members == self.len,
            "{entries} entries hold for {members} pages of {}",
            self.len
        );
        let ends_hold = self.is_empty() || (self.holds(self.oldest) && self.holds(self.next - 1));
        ensure!(ends_hold, "an end of the order does not hold");
        ensure!((self.next - self.oldest) as usize <= self.log.len(), "more entries than slots");
        Ok(())
    }

    #[inline]
    fn slot(&self, number: u32) -> usize {
        number as usize & self.log.len().wrapping_sub(1)
    }

    #[inline]
    fn page(&self, number: u32) -> PageId {
        PageId(self.log[self.slot(number)])
    }

    #[inline]
    fn holds(&self, number: u32) -> bool {
        self.place[self.page(number)] == number + 1
    }

    /// The page of an entry that comes to the old end soon, whether it will hold then or not.
    #[inline]
    pub fn soon_oldest(&self) -> PageId {
        let slot = self.slot(self.oldest.wrapping_add(AHEAD));
        PageId(self.log.get(slot).copied().unwrap_or_default())
    }

    /// The oldest entry holds no longer.
    #[inline]
    fn skip_oldest(&mut self) {
        loop {
            self.oldest += 1;
            self.place.prefetch(self.soon_oldest());
            if self.oldest == self.next || self.holds(self.oldest) {
                return;
            }
        }
    }

    /// The newest entry holds no longer.
    fn skip_newest(&mut self) {
        loop {
            self.next -= 1;
            if self.oldest == self.next || self.holds(self.next - 1) {
                return;
            }
        }
    }

    /// Drops the entries that do not hold and numbers the others from 0, in twice as many slots if
    /// too few would be free.
    #[cold]
    fn make_room(&mut self) {
        let slots = self.log.len();
        if slots == 0 || self.len > slots / 8 * 3 {
            let pages: Vec<u32> = self.iter().map(|page| page.0).collect();
            self.log = Vec::new();
            self.log.reserve_exact((2 * slots).max(FIRST_SLOTS));
            self.log.extend_from_slice(&pages);
            self.log.resize((2 * slots).max(FIRST_SLOTS), 0);
            pages.iter().zip(1..).for_each(|(&page, place)| self.place[PageId(page)] = place);
            (self.oldest, self.next) = (0, pages.len() as u32);
            return;
        }
        // In place: entries only move to older slots. Numbers begin anew in the first round of the
        // ring, at the slot that the oldest entry has.
        let first = self.slot(self.oldest) as u32;
        let mut free = first;
        for number in self.oldest..self.next {
            if self.holds(number) {
                let page = self.page(number);
                let slot = self.slot(free);
                self.log[slot] = page.0;
                free += 1;
                self.place[page] = free;
            }
        }
        (self.oldest, self.next) = (first, free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use alloc::vec;
    use sweephand_checks::trying;

    /// A page moves to the end of a plain vector.
    fn agrees_with_a_vector(mut order: RecencyOrder, pages: u64, steps: usize) {
        let mut random = SplitMix64::new(pages);
        let mut plain = vec![];
        for step in 0..steps {
            let _input = trying(|| format!("{pages} pages, step {step}"));
            let page = PageId(random.below(pages) as u32);
            plain.retain(|&other| other != page);
            match random.below(8) {
                0 => assert_eq!(order.contains(page), order.remove(page)),
                1 if !plain.is_empty() => {
                    order.touch(page);
                    plain.push(page);
                    let end = if random.below(2) == 0 { 0 } else { plain.len() - 1 };
                    order.remove(plain.remove(end));
                }
                _ => {
                    order.touch(page);
                    plain.push(page);
                }
            }
            assert_eq!((order.oldest(), order.newest()), (plain.first().copied(), plain.last().copied()));
            assert_eq!(order.len(), plain.len());
            if step % 64 == 0 {
                order.check().unwrap();
                assert_eq!(order.iter().collect::<Vec<_>>(), plain);
            }
        }
        assert!(order.log.len() <= (6 * pages as usize).max(FIRST_SLOTS), "{} slots", order.log.len());
    }

    #[test]
    fn agrees_with_a_list_that_is_searched() {
        for pages in [1, 3, 40, 41, 100, 1000] {
            agrees_with_a_vector(RecencyOrder::new(), pages, 20_000);
        }
    }

    #[test]
    fn numbers_begin_anew_when_they_run_out() {
        for before_the_end in 0..100 {
            let number = u32::MAX - before_the_end;
            let order = RecencyOrder { log: vec![0; 64], oldest: number, next: number, ..Default::default() };
            agrees_with_a_vector(order, 30, 300);
        }
    }
}
