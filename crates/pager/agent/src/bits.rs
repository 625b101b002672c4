//! Reference bits without hardware's.
//!
//! On a stock kernel user space cannot read a page's accessed bit. So the bit is kept in software, as VAX/VMS and early
//! Mach did on machines without one: a page whose bit is clear is unmapped, its frame kept in limbo; the first touch
//! faults, maps it again and sets the bit. That fault is what a reference bit costs here: once a page and turn of the
//! hands, and only for pages that are in use.
//!
//! Not every page with a clear bit can be in limbo: one that has just been loaded is about to be used by the access that
//! faulted. So pages whose bits are cleared, or come in clear, wait in a queue, the sampler's, and are unmapped from its
//! front, twice as many as are evicted, while some always stay behind at its end. The bit then tells whether a page
//! has been used since it left the queue. Nothing is unmapped for policies that never ask for a bit.
//!
//! A page read ahead reads as referenced while the program may not have come to it yet: the access that it was read for
//! is as good as made.

use crate::pages::{Flag, Pages, State};
use alloc::collections::VecDeque;
use sweephand_policy::{Mmu, PageId};

/// Entries of pages that have left that the sampler's queue may hold beside twice as many as there are pages.
const SPARE_ENTRIES: usize = 4096;

/// The sampler.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Pages with a clear bit that are mapped, by the time when that began. An entry counts while the page has the flag
    /// `Queued`, which it loses with its state.
    queue: VecDeque<u32>,
    /// Pages read ahead lately.
    recent: VecDeque<u32>,
    /// Whether the policy has ever asked for a bit to choose a victim by.
    wanted: bool,
}

impl Sampler {
    /// A page has come in, mapped, with this reference bit.
    pub fn loaded(&mut self, pages: &mut Pages, page: PageId, referenced: bool) {
        if referenced {
            pages.mark(page, Flag::Referenced, true);
        } else {
            self.enqueue(pages, page);
        }
    }

    fn enqueue(&mut self, pages: &mut Pages, page: PageId) {
        if !pages.mark(page, Flag::Queued, true) {
            self.queue.push_back(page.0);
        }
        if self.queue.len() > 2 * pages.resident() + SPARE_ENTRIES {
            self.compact(pages);
        }
    }

    /// Drops the entries of pages that have left, or that come again later in the queue.
    fn compact(&mut self, pages: &mut Pages) {
        self.queue.retain(|&page| pages.mark(PageId(page), Flag::Queued, false));
        for &page in &self.queue {
            pages.mark(PageId(page), Flag::Queued, true);
        }
    }

    /// A page has been read ahead. At most `most` count as recent.
    pub fn read_ahead(&mut self, pages: &mut Pages, page: PageId, most: usize) {
        if !pages.mark(page, Flag::Recent, true) {
            self.recent.push_back(page.0);
        }
        while self.recent.len() > most {
            if let Some(old) = self.recent.pop_front() {
                pages.mark(PageId(old), Flag::Recent, false);
            }
        }
    }

    /// The next page to unmap, if more than `keep` wait.
    pub fn next(&mut self, pages: &mut Pages, keep: usize) -> Option<PageId> {
        while self.wanted && self.queue.len() > keep {
            let page = PageId(self.queue.pop_front()?);
            if pages.mark(page, Flag::Queued, false) && pages.state(page) == State::Resident {
                if pages.has(page, Flag::Recent) {
                    self.enqueue(pages, page);
                    return None;
                }
                return Some(page);
            }
        }
        None
    }
}

/// The reference bits as a policy sees them.
#[derive(Debug)]
pub struct Bits<'a> {
    /// The page table.
    pub pages: &'a mut Pages,
    /// The sampler.
    pub sampler: &'a mut Sampler,
    /// Whether a victim is being chosen: only then do pages read ahead read as referenced.
    pub choosing: bool,
}

impl Mmu for Bits<'_> {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        self.sampler.wanted |= self.choosing;
        if self.choosing && self.pages.has(page, Flag::Recent) {
            return true;
        }
        let referenced = self.pages.mark(page, Flag::Referenced, false);
        if referenced && self.pages.state(page) == State::Resident {
            self.sampler.enqueue(self.pages, page);
        }
        referenced
    }
}
