//! Reference bits in software.
//!
//! Where the agent cannot read the processor's accessed bits (`exact_bits`), it keeps the bit in
//! software, as VAX/VMS and early Mach did on machines without one. It unmaps a page whose bit is
//! clear and keeps the page's frame in limbo. The first touch faults, maps the page again and sets
//! the bit. A reference bit costs this fault: once a page and turn of the hands, and only for pages
//! in use.
//!
//! Not every page with a clear bit can be in limbo. A page that has just been loaded is about to be
//! used by the access that faulted, and a page that was read ahead by accesses to come. So a page
//! that comes in is left alone for a while, then watched for a while, and only then handed to the
//! policy (see [`Arrivals`]). A page that was touched stays mapped until the policy clears its bit,
//! so a page that no hand reaches costs one fault at most. Under policies that never ask for a bit,
//! nothing is unmapped.
//!
//! A sweep over all ids finds the other pages to unmap: those that were there before the first
//! question, and those whose bits were cleared in large numbers. The sweep advances by a few pages
//! whenever the policy asks about a page that it has not looked at.
//!
//! Where bits can be read, all of this is unused but one thing: pages that were read ahead wait
//! among the arrivals until they are used.

use crate::choice::exact_bits::ExactBits;
use crate::state::pages::{Flag, Pages};
use alloc::collections::VecDeque;
use sweephand_policy::{Mmu, PageId};

/// Most pages that wait to be unmapped. The sweep finds the others.
const MOST_QUEUED: usize = 4096;
/// Pages that the sweep may unmap for each answer about a page that it had not looked at yet.
const SWEPT_PER_BLIND_ANSWER: usize = 4;
/// Most pages that the sweep may owe.
const MOST_OWED: usize = 4096;
/// Ids that one step of the sweep looks at.
const SWEEP_STEP: u32 = 256;

/// Pages that have come in lately, in order: the policy does not know of them yet.
///
/// ```text
///   newest                                                  oldest
///   | fresh: about to be used | watched: unmapped, in limbo | ---> the policy's
/// ```
///
/// For the policy a page comes in when it leaves here, with the bit that has been seen; until then
/// it is as if it were in use. This is also what puts the pages of a window read ahead before the
/// policy one by one, each with the eviction that it calls for, when the program has come by.
#[derive(Debug)]
pub struct Arrivals {
    /// An entry counts while the page has the flag `Arriving`.
    queue: VecDeque<u32>,
    /// Entries at the front that have been watched.
    watched: usize,
    /// Entries at the end that are fresh.
    fresh: usize,
    /// Most entries.
    most: usize,
    /// Whether only pages come here that no fault has asked for. They are not watched: their bits
    /// can be read.
    is_for_unasked: bool,
}

impl Arrivals {
    /// None yet; at most `most`, of which the newest `fresh` are left alone.
    pub fn new(most: usize, fresh: usize) -> Self {
        Self { queue: VecDeque::with_capacity(most + 1), watched: 0, fresh, most, is_for_unasked: false }
    }

    /// None yet; at most `most`, all of which were read ahead.
    pub fn of_unasked(most: usize) -> Self {
        Self { is_for_unasked: true, ..Self::new(most, 0) }
    }

    /// Whether only pages come here that no fault has asked for.
    pub fn is_for_unasked(&self) -> bool {
        self.is_for_unasked
    }

    /// Frames that the policy cannot count on because of the pages here.
    pub fn reserved(&self) -> usize {
        if self.is_for_unasked { self.queue.len() } else { self.most }
    }

    /// Most pages here at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A page has come in.
    pub fn add(&mut self, pages: &mut Pages, page: PageId) {
        pages.mark(page, Flag::Arriving, true);
        self.queue.push_back(page.0);
    }

    /// The oldest page, if more than `keep` are here: it is the policy's now.
    pub fn leave(&mut self, pages: &mut Pages, keep: usize) -> Option<PageId> {
        while self.queue.len() > keep {
            let page = PageId(self.queue.pop_front()?);
            self.watched = self.watched.saturating_sub(1);
            if pages.mark(page, Flag::Arriving, false) {
                return Some(page);
            }
        }
        None
    }

    /// The next page to watch.
    fn next(&mut self, pages: &Pages) -> Option<PageId> {
        while self.watched + self.fresh < self.queue.len() {
            let page = PageId(self.queue[self.watched]);
            self.watched += 1;
            if pages.has(page, Flag::Arriving)
                && !pages.has(page, Flag::Referenced)
                && pages.is_resident(page)
            {
                return Some(page);
            }
        }
        None
    }
}

/// The sampler.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Pages whose bits the policy has cleared, to be unmapped. An entry counts while the page has
    /// the flag `Queued`, which it loses with its state.
    queue: VecDeque<u32>,
    /// Whether the policy has ever asked for a bit in order to choose a victim.
    wanted: bool,
    /// Pages that the sweep may unmap.
    owed: usize,
    /// The id at which the sweep continues.
    sweep: u32,
}

impl Sampler {
    fn enqueue(&mut self, pages: &mut Pages, page: PageId) {
        if self.wanted && self.queue.len() < MOST_QUEUED && !pages.mark(page, Flag::Queued, true) {
            self.queue.push_back(page.0);
        }
    }

    /// The next page to unmap.
    pub fn next(&mut self, pages: &mut Pages, arrivals: &mut Arrivals) -> Option<PageId> {
        if !self.wanted {
            return None;
        }
        if let Some(page) = arrivals.next(pages) {
            return Some(page);
        }
        while let Some(page) = self.queue.pop_front().map(PageId) {
            if pages.mark(page, Flag::Queued, false)
                && pages.is_resident(page)
                && !pages.has(page, Flag::Referenced)
            {
                return Some(page);
            }
        }
        self.swept(pages)
    }

    /// A page with a clear bit that is mapped and in no queue, if any are owed and one is near.
    fn swept(&mut self, pages: &Pages) -> Option<PageId> {
        let ids = pages.ids();
        for _ in 0..SWEEP_STEP.min(if self.owed > 0 { ids } else { 0 }) {
            let page = PageId(self.sweep % ids);
            self.sweep = page.0 + 1;
            if pages.is_unwatched(page) {
                self.owed -= 1;
                return Some(page);
            }
        }
        None
    }

    /// The policy has chosen by the bit of a page that was not being watched.
    fn answered_blindly(&mut self) {
        self.owed = (self.owed + SWEPT_PER_BLIND_ANSWER).min(MOST_OWED);
    }
}

/// The reference bits as a policy sees them.
#[derive(Debug)]
pub struct Bits<'a> {
    /// The page table.
    pub pages: &'a mut Pages,
    /// The sampler.
    pub sampler: &'a mut Sampler,
    /// The bits themselves, if they can be read; the sampler has nothing to do then.
    pub exact: Option<ExactBits<'a>>,
    /// Whether a victim is being chosen: only then is it worth while to have looked.
    pub choosing: bool,
}

impl Mmu for Bits<'_> {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        self.sampler.wanted |= self.choosing;
        if self.choosing && self.pages.is_unwatched(page) {
            self.sampler.answered_blindly();
        }
        let referenced = self.pages.mark(page, Flag::Referenced, false);
        if let Some(exact) = &mut self.exact {
            return exact.test_and_clear(self.pages, page) || referenced;
        }
        if referenced && self.pages.is_resident(page) {
            self.sampler.enqueue(self.pages, page);
        }
        referenced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::pages::State;
    use alloc::vec::Vec;

    fn resident(count: usize) -> (Pages, Vec<PageId>) {
        let mut pages = Pages::new();
        let ids =
            (0..count).map(|number| pages.find_or_insert(0x10_0000 + number * 0x1000)).collect::<Vec<_>>();
        ids.iter().for_each(|&page| pages.set(page, State::RESIDENT));
        (pages, ids)
    }

    /// A sampler whose policy has asked for a bit.
    fn asked(pages: &mut Pages, page: PageId) -> Sampler {
        let mut sampler = Sampler::default();
        Bits { pages, sampler: &mut sampler, exact: None, choosing: true }.test_and_clear_referenced(page);
        sampler
    }

    #[test]
    fn a_page_is_left_alone_then_watched_then_the_policys() {
        let (mut pages, ids) = resident(6);
        let mut arrivals = Arrivals::new(4, 2);
        let mut sampler = asked(&mut pages, ids[5]);
        sampler.owed = 0;
        for (step, &page) in ids[..5].iter().enumerate() {
            arrivals.add(&mut pages, page);
            let watched = sampler.next(&mut pages, &mut arrivals);
            assert_eq!(watched, step.checked_sub(2).map(|before| ids[before]), "step {step}");
            assert_eq!(sampler.next(&mut pages, &mut arrivals), None, "step {step}");
            let leaving = arrivals.leave(&mut pages, arrivals.most());
            assert_eq!(leaving, step.checked_sub(4).map(|before| ids[before]), "step {step}");
        }
        assert_eq!(pages.owned(), 2, "the one that has left, and the one that was never here");
    }

    #[test]
    fn pages_that_are_gone_or_in_use_are_not_watched() {
        let (mut pages, ids) = resident(4);
        let mut arrivals = Arrivals::new(8, 0);
        let mut sampler = asked(&mut pages, ids[3]);
        sampler.owed = 0;
        ids[..3].iter().for_each(|&page| arrivals.add(&mut pages, page));
        pages.set(ids[0], State::Absent);
        pages.mark(ids[1], Flag::Referenced, true);
        assert_eq!(sampler.next(&mut pages, &mut arrivals), Some(ids[2]));
        assert_eq!(arrivals.leave(&mut pages, 0), Some(ids[1]));
        assert_eq!(arrivals.leave(&mut pages, 0), Some(ids[2]));
        assert_eq!(arrivals.leave(&mut pages, 0), None);
    }

    #[test]
    fn nothing_is_unmapped_for_a_policy_that_never_asks() {
        let (mut pages, ids) = resident(3);
        let (mut arrivals, mut sampler) = (Arrivals::new(8, 0), Sampler::default());
        ids.iter().for_each(|&page| arrivals.add(&mut pages, page));
        assert_eq!(sampler.next(&mut pages, &mut arrivals), None);
    }

    #[test]
    fn a_cleared_bit_is_watched_and_a_blind_answer_sends_the_sweep_on() {
        let (mut pages, ids) = resident(20);
        let mut arrivals = Arrivals::new(8, 0);
        pages.mark(ids[7], Flag::Referenced, true);
        let mut sampler = asked(&mut pages, ids[7]);
        assert!(!pages.has(ids[7], Flag::Referenced));
        let next = |sampler: &mut Sampler, pages: &mut Pages, arrivals: &mut Arrivals| {
            let page = sampler.next(pages, arrivals)?;
            pages.set(page, State::Limbo { kept: None });
            Some(page)
        };
        // Asked about a page that was known to be in use: it is watched from now on, and no others.
        sampler.owed = 0;
        assert_eq!(next(&mut sampler, &mut pages, &mut arrivals), Some(ids[7]));
        assert_eq!(next(&mut sampler, &mut pages, &mut arrivals), None);
        let mut bits = Bits { pages: &mut pages, sampler: &mut sampler, exact: None, choosing: true };
        assert!(!bits.test_and_clear_referenced(ids[12]));
        let swept: Vec<_> = (0..5).map(|_| next(&mut sampler, &mut pages, &mut arrivals)).collect();
        assert_eq!(swept[..SWEPT_PER_BLIND_ANSWER], [0, 1, 2, 3].map(|number| Some(ids[number])));
        assert_eq!(swept[SWEPT_PER_BLIND_ANSWER], None);
        // A page in limbo that was not touched is an answer.
        let mut bits = Bits { pages: &mut pages, sampler: &mut sampler, exact: None, choosing: true };
        assert!(!bits.test_and_clear_referenced(ids[0]));
        assert_eq!(sampler.owed, 0);
    }
}
