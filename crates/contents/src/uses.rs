//! Pages that a recorder sees in use, and when each was used last.
//!
//! A recorder sees very many references. The last use is known of a sample of the pages only: those
//! whose hash has enough zeros in its lowest bits, so that there are no more than [`MOST_USES`].
//! When there are, another bit has to be zero. A page that leaves does not come back.

use crate::hash::hash;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Pages whose last use is known. After that, half of them.
const MOST_USES: usize = 4096;

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
#[derive(Debug, Default)]
pub struct LastUses {
    uses: FxHashMap<u64, Use>,
    /// Bits of the hash that have to be zero.
    bits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    last: u64,
    kept_at: Option<u64>,
}

impl LastUses {
    /// A page is used. `now` grows.
    #[inline]
    pub fn used(&mut self, page: u64, now: u64) {
        if hash(page) & ((1 << self.bits) - 1) == 0 {
            self.uses.entry(page).or_default().last = now;
            if self.uses.len() > MOST_USES {
                self.thin();
            }
        }
    }

    /// The frame of a page is at another page number while the page is not mapped.
    pub fn kept_at(&mut self, page: u64, place: u64) {
        if let Some(of_page) = self.uses.get_mut(&page) {
            of_page.kept_at = Some(place);
        }
    }

    /// The contents of pages are gone.
    pub fn forget(&mut self, pages: Range<u64>) {
        if pages.end.saturating_sub(pages.start) < self.uses.len() as u64 {
            pages.for_each(|page| _ = self.uses.remove(&page));
        } else {
            self.uses.retain(|page, _| !pages.contains(page));
        }
    }

    /// Ends: with all bits there is at most one page.
    fn thin(&mut self) {
        while self.uses.len() > MOST_USES {
            self.bits += 1;
            let mask = (1 << self.bits) - 1;
            self.uses.retain(|page, _| hash(*page) & mask == 0);
        }
    }

    /// Some of the pages, chosen by a hash of page and moment.
    pub fn choose(&self, pages: usize, moment: u64) -> Vec<Candidate> {
        let candidate = |(&page, of_page): (&u64, &Use)| Candidate {
            page,
            last_use: Some(of_page.last),
            kept_at: of_page.kept_at,
        };
        let mut all: Vec<Candidate> = self.uses.iter().map(candidate).collect();
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
        assert!((MOST_USES / 4..=MOST_USES).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|of| of.last_use == Some(200_000 + of.page)));
        // All parts of memory are in it.
        let of_first_half = all.iter().filter(|of| of.page < 50_000).count() as f64;
        assert!((of_first_half / all.len() as f64 - 0.5).abs() < 0.05, "{of_first_half}");
        uses.forget(0..50_000);
        uses.forget(60_000..60_001);
        assert!(uses.choose(usize::MAX, 0).iter().all(|of| of.page >= 50_000 && of.page != 60_000));
    }

    #[test]
    fn choices_are_repeatable_and_differ_by_moment() {
        let mut uses = LastUses::default();
        (0..1000).for_each(|page| uses.used(page, page));
        uses.kept_at(7, 5007);
        uses.kept_at(5000, 1);
        let numbers = |moment| uses.choose(100, moment).iter().map(|of| of.page).collect::<Vec<_>>();
        assert_eq!(numbers(1), numbers(1));
        assert_eq!(numbers(1).len(), 100);
        let both = numbers(1).iter().filter(|page| numbers(2).contains(page)).count();
        assert!((1..30).contains(&both), "a tenth by chance: {both}");
        let kept: Vec<_> = uses.choose(1000, 1).into_iter().filter(|of| of.kept_at.is_some()).collect();
        assert_eq!(kept, [Candidate { page: 7, last_use: Some(7), kept_at: Some(5007) }]);
        assert!(uses.choose(0, 1).is_empty());
    }
}
