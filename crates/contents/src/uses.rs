//! Pages that a recorder sees in use, and when each was used last.
//!
//! A recorder sees very many references, so a use has to cost a few nanoseconds. The last use is
//! known of a sample of the pages: the hash of a page gives it one of [`SLOTS`] slots, and a slot
//! belongs to the page with the smallest hash of those that were seen in it. Chance alone decides
//! which these are, however often a page is used. A page that leaves does not come back, unless it
//! is used again.

use crate::hash::hash;
use std::ops::Range;

/// Pages whose last use is known, at most. A power of two.
const SLOTS: usize = 4096;

/// A page that may be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its number: address / page size.
    pub page: u64,
    /// When it was used last: the later, the larger. `None`: its use was not seen.
    pub last_use: Option<u64>,
    /// The page number at which its frame is while it is not mapped, if it is kept anywhere.
    pub kept_at: Option<u64>,
}

/// The last uses of a sample of the pages.
#[derive(Debug)]
pub struct LastUses {
    slots: Vec<Slot>,
}

/// The page that has a slot, or none.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The hash of the page, which no other page has; [`NO_HASH`] if there is no page.
    hash: u64,
    page: u64,
    last_use: u64,
    kept_at: Option<u64>,
}

/// More than the hash of any page that matters: the one page with this hash has no slot.
const NO_HASH: u64 = u64::MAX;
const EMPTY: Slot = Slot { hash: NO_HASH, page: 0, last_use: 0, kept_at: None };

impl Default for LastUses {
    fn default() -> Self {
        Self { slots: vec![EMPTY; SLOTS] }
    }
}

impl LastUses {
    /// The slot that a page has if no other has it.
    #[inline]
    fn slot(&mut self, hash: u64) -> &mut Slot {
        &mut self.slots[(hash >> (u64::BITS - SLOTS.ilog2())) as usize]
    }

    /// The slot that a page has.
    fn own_slot(&mut self, page: u64) -> Option<&mut Slot> {
        let hash = hash(page);
        Some(self.slot(hash)).filter(|slot| slot.hash == hash)
    }

    /// A page is used. `now` grows.
    #[inline]
    pub fn used(&mut self, page: u64, now: u64) {
        let hash = hash(page);
        let slot = self.slot(hash);
        if hash == slot.hash {
            slot.last_use = now;
        } else if hash < slot.hash {
            *slot = Slot { hash, page, last_use: now, kept_at: None };
        }
    }

    /// The frame of a page is at another page number while the page is not mapped.
    pub fn kept_at(&mut self, page: u64, place: u64) {
        if let Some(slot) = self.own_slot(page) {
            slot.kept_at = Some(place);
        }
    }

    /// The contents of pages are gone.
    pub fn forget(&mut self, pages: Range<u64>) {
        if pages.end.saturating_sub(pages.start) < SLOTS as u64 {
            for page in pages {
                if let Some(slot) = self.own_slot(page) {
                    *slot = EMPTY;
                }
            }
        } else {
            self.slots.iter_mut().filter(|slot| pages.contains(&slot.page)).for_each(|slot| *slot = EMPTY);
        }
    }

    /// Some of the pages, chosen by a hash of page and moment.
    pub fn choose(&self, pages: usize, moment: u64) -> Vec<Candidate> {
        let candidate =
            |slot: &Slot| Candidate { page: slot.page, last_use: Some(slot.last_use), kept_at: slot.kept_at };
        let mut all: Vec<Candidate> =
            self.slots.iter().filter(|slot| slot.hash != NO_HASH).map(candidate).collect();
        let key = |candidate: &Candidate| hash(candidate.page ^ hash(moment));
        if all.len() > pages && pages > 0 {
            all.select_nth_unstable_by_key(pages - 1, key);
        }
        all.truncate(pages);
        all.sort_unstable_by_key(key);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_of_a_sample_is_known_that_never_grows_too_large() {
        let mut uses = LastUses::default();
        for now in 0..3 {
            (0..100_000).for_each(|page| uses.used(page, 100_000 * now + page));
        }
        let all = uses.choose(usize::MAX, 0);
        assert_eq!(all.len(), SLOTS, "24 pages for each");
        assert!(all.iter().all(|of| of.last_use == Some(200_000 + of.page)));
        // All parts of memory are in it.
        let of_first_half = all.iter().filter(|of| of.page < 50_000).count() as f64;
        assert!((of_first_half / all.len() as f64 - 0.5).abs() < 0.05, "{of_first_half}");
        uses.forget(0..50_000);
        uses.forget(60_000..60_001);
        assert!(uses.choose(usize::MAX, 0).iter().all(|of| of.page >= 50_000 && of.page != 60_000));
    }

    #[test]
    fn how_often_a_page_is_used_does_not_decide_whether_its_last_use_is_known() {
        let mut uses = LastUses::default();
        // The first half is used ten times, and before the second half.
        (0..10).for_each(|now| (0..10_000).for_each(|page| uses.used(page, now)));
        (10_000..20_000).for_each(|page| uses.used(page, 10));
        let of_first_half = uses.choose(usize::MAX, 0).iter().filter(|of| of.page < 10_000).count();
        assert!((SLOTS * 45 / 100..SLOTS * 55 / 100).contains(&of_first_half), "{of_first_half}");
    }

    #[test]
    fn choices_are_repeatable_and_differ_by_moment() {
        let mut uses = LastUses::default();
        (0..1000).for_each(|page| uses.used(page, page));
        let page = uses.choose(1, 0)[0].page;
        uses.kept_at(page, 5007);
        uses.kept_at(5000, 1);
        let numbers = |moment| uses.choose(100, moment).iter().map(|of| of.page).collect::<Vec<_>>();
        assert_eq!(numbers(1), numbers(1));
        assert_eq!(numbers(1).len(), 100);
        let both = numbers(1).iter().filter(|page| numbers(2).contains(page)).count();
        assert!((1..30).contains(&both), "a tenth by chance: {both}");
        let kept: Vec<_> = uses.choose(1000, 1).into_iter().filter(|of| of.kept_at.is_some()).collect();
        assert_eq!(kept, [Candidate { page, last_use: Some(page), kept_at: Some(5007) }]);
        assert!(uses.choose(0, 1).is_empty());
    }
}
