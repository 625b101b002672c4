//! Reference bits that can be read.
//!
//! | | a page was referenced if | cleared by |
//! |---|---|---|
//! | the processor's accessed bits | its accessed bit is set | `MADV_COLD` |
//! | the kernel's read-write protection | it is not protected | protecting it |
//!
//! To read a bit and to clear it are two steps. In between, the page waits in a queue, and its bit
//! reads as clear. A queue is emptied before the agent waits for anything.
//!
//! One call reads the bits of 64 neighbours, and what it saw is remembered. It is not used any more
//! once bits are cleared, a page comes in among those neighbours, the agent begins with the next
//! fault or with pages to move out, or it has waited. So what is remembered is never from before
//! the page's bit was last cleared, and at most as old as the work between two faults.

use crate::accessed::GROUP_PAGES;
use crate::kernel::{self, ACCESSED, PAGE_BYTES, scan};
use crate::process::pagemap::NOTHING;
use crate::state::pages::{Flag, Pages};
use alloc::vec::Vec;
use rustix::fd::BorrowedFd;
use sweephand_policy::PageId;

/// Bytes of the pages that one look is about, at most.
const GROUP_BYTES: usize = GROUP_PAGES * PAGE_BYTES;
/// Looks that are remembered. A policy made of several policies has several hands, which go through
/// memory at different places.
const REMEMBERED: usize = 128;

/// Where bits are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// By the program that reads accessed bits.
    Accessed(BorrowedFd<'a>),
    /// In the pagemap: a page that is mapped and not protected was referenced.
    Tracked(BorrowedFd<'a>),
    /// For tests, in the pagemap: a page that is mapped was referenced.
    #[cfg(test)]
    Mapped(BorrowedFd<'a>),
}

impl Source<'_> {
    /// Looks at the page at `address` and its neighbours of one group: [`GROUP_PAGES`] pages,
    /// aligned to as many.
    fn look(self, address: usize, period: u64) -> Seen {
        let from = address & !(GROUP_BYTES - 1);
        let referenced = match self {
            Self::Accessed(program) => kernel::accessed(program, address).ok(),
            Self::Tracked(pagemap) => bits_of(pagemap, from, ACCESSED),
            #[cfg(test)]
            Self::Mapped(pagemap) => bits_of(pagemap, from, kernel::PRESENT),
        };
        Seen { from, referenced, period }
    }

    /// Those of `count` neighbours that have been referenced since their bits were last cleared, by
    /// address. A page of which the kernel does not tell is not among them.
    pub(crate) fn referenced(self, start: usize, count: usize) -> impl Iterator<Item = usize> {
        let mut looks = LookCache::<1>::default();
        (start..start + count * PAGE_BYTES)
            .step_by(PAGE_BYTES)
            .filter(move |&address| looks.is_referenced(self, address) == Some(true))
    }
}

/// Which pages of a group are of a category, a bit each. `None` if the kernel does not tell.
fn bits_of(pagemap: BorrowedFd<'_>, from: usize, category: u64) -> Option<u64> {
    let mut found = [NOTHING; GROUP_PAGES];
    let (regions, _) = scan(pagemap, from, from + GROUP_BYTES, category, &mut found).ok()?;
    let index = |address: u64| (address as usize - from) / PAGE_BYTES;
    let pages = found[..regions].iter().flat_map(|region| index(region.start)..index(region.end));
    Some(pages.fold(0, |bits, page| bits | 1 << page))
}

/// What was seen of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    from: usize,
    /// A bit for each page that was referenced, the first page's lowest. `None` if the kernel does
    /// not tell.
    referenced: Option<u64>,
    /// In which period of the [`LookCache`].
    period: u64,
}

impl Seen {
    fn has(&self, address: usize) -> bool {
        (self.from..self.from + GROUP_BYTES).contains(&address)
    }

    /// Whether a page was referenced. `None` if it was not looked at, or the kernel does not tell.
    fn of(&self, address: usize) -> Option<bool> {
        let referenced = self.referenced.filter(|_| self.has(address));
        referenced.map(|pages| pages >> ((address - self.from) / PAGE_BYTES) & 1 != 0)
    }
}

/// What was seen lately, for as long as it counts as the present. See the head of this file.
#[derive(Debug)]
struct LookCache<const LOOKS: usize> {
    /// The last look at one of the groups that share a place.
    seen: [Seen; LOOKS],
    /// Rises whenever the present is over. So nothing needs to be written to forget all looks.
    period: u64,
}

impl<const LOOKS: usize> Default for LookCache<LOOKS> {
    fn default() -> Self {
        Self { seen: [Seen::default(); LOOKS], period: 1 }
    }
}

impl<const LOOKS: usize> LookCache<LOOKS> {
    /// Where a look at this page's group is remembered.
    fn place(address: usize) -> usize {
        address / GROUP_BYTES % LOOKS
    }

    /// Whether a page was referenced, if that was seen lately.
    fn of(&self, address: usize) -> Option<bool> {
        let seen = &self.seen[Self::place(address)];
        seen.of(address).filter(|_| seen.period == self.period)
    }

    fn forget(&mut self, address: usize) {
        self.seen[Self::place(address)] = Seen::default();
    }

    fn forget_all(&mut self) {
        self.period += 1;
    }

    /// Whether a page has been referenced since its bit was last cleared. `None` if the kernel does
    /// not tell.
    fn is_referenced(&mut self, source: Source<'_>, address: usize) -> Option<bool> {
        let seen = &mut self.seen[Self::place(address)];
        if seen.period != self.period || !seen.has(address) {
            *seen = source.look(address, self.period);
        }
        seen.of(address)
    }
}

/// The reference bits, for as long as a policy looks at them.
#[derive(Debug)]
pub struct ExactBits<'a> {
    source: Source<'a>,
    queues: &'a mut Queues,
}

impl<'a> ExactBits<'a> {
    /// The bits of a source. Pages whose bits have to be cleared go to `queues`.
    pub(crate) fn new(source: Source<'a>, queues: &'a mut Queues) -> Self {
        Self { source, queues }
    }

    /// The same, for a shorter time.
    pub fn again(&mut self) -> ExactBits<'_> {
        ExactBits { source: self.source, queues: self.queues }
    }

    /// Whether a page has been referenced since this was last asked. If the kernel does not tell,
    /// it has.
    pub fn test_and_clear(&mut self, pages: &mut Pages, page: PageId) -> bool {
        if !pages.is_resident(page) {
            return false;
        }
        if pages.has(page, Flag::Queued) {
            if self.queues.has_shared_pages {
                // Perhaps its bit can be cleared by now.
                self.queues.cleared.push(page.0);
            }
            return false;
        }
        let address = pages.address(page);
        let is_referenced = self.queues.looks.is_referenced(self.source, address).unwrap_or(true);
        if is_referenced {
            self.queues.add(pages, page, Queue::Cleared);
        }
        is_referenced
    }
}

/// Pages whose bits wait to be cleared, by the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Queue {
    /// Pages put in for an access that has been made by the program's next fault.
    Awaited,
    /// Pages whose bits the hands have cleared.
    Cleared,
}

/// Both queues. The pages in them have the flag `Queued`.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    awaited: Vec<u32>,
    cleared: Vec<u32>,
    looks: LookCache<REMEMBERED>,
    /// Whether there may be pages whose bits cannot be cleared, because another process has them
    /// too. Such a page keeps the flag `Queued` after its turn, so that its bit reads as clear.
    /// Otherwise a hand would find all of them in use, turn after turn. It is tried again when the
    /// policy asks.
    pub(crate) has_shared_pages: bool,
}

impl Queues {
    /// A page's bit reads as clear from now on, and will be cleared.
    pub(crate) fn add(&mut self, pages: &mut Pages, page: PageId, queue: Queue) {
        if pages.is_resident(page) && !pages.mark(page, Flag::Queued, true) {
            self.of(queue).push(page.0);
        }
    }

    /// The same for a page whose next touch matters. If its bit has just been seen clear, nothing
    /// needs to be done.
    pub(crate) fn watch(&mut self, pages: &mut Pages, page: PageId) {
        if self.looks.of(pages.address(page)) != Some(false) {
            self.add(pages, page, Queue::Cleared);
        }
    }

    /// Whether a page has been referenced since its bit was last cleared. A page of which the
    /// kernel does not tell has not.
    pub(crate) fn is_touched(&mut self, source: Source<'_>, address: usize) -> bool {
        self.looks.is_referenced(source, address) == Some(true)
    }

    /// A page has come in: what was seen at its place is no longer the present.
    pub(crate) fn look_again_at(&mut self, address: usize) {
        self.looks.forget(address);
    }

    /// Time has passed: bits are looked at anew.
    pub(crate) fn look_again(&mut self) {
        self.looks.forget_all();
    }

    fn of(&mut self, queue: Queue) -> &mut Vec<u32> {
        match queue {
            Queue::Awaited => &mut self.awaited,
            Queue::Cleared => &mut self.cleared,
        }
    }

    /// How many pages are waiting in a queue.
    pub(crate) fn count(&self, queue: Queue) -> usize {
        match queue {
            Queue::Awaited => self.awaited.len(),
            Queue::Cleared => self.cleared.len(),
        }
    }

    /// Takes the first pages of a queue, at most `count`. `clear` gets those that are still
    /// there: an address, and how many neighbours from there on.
    pub(crate) fn drain(
        &mut self,
        pages: &mut Pages,
        (queue, count): (Queue, usize),
        mut clear: impl FnMut(usize, usize),
    ) {
        let list = self.of(queue);
        let count = count.min(list.len());
        let mut there = 0;
        for index in 0..count {
            let page = PageId(list[index]);
            if pages.mark(page, Flag::Queued, false) && pages.is_resident(page) {
                list.swap(there, index);
                there += 1;
            }
        }
        list[..there].sort_unstable_by_key(|&page| pages.address(PageId(page)));
        let follows = |one: &u32, other: &u32| {
            pages.address(PageId(*one)) + PAGE_BYTES == pages.address(PageId(*other))
        };
        for run in list[..there].chunk_by(follows) {
            clear(pages.address(PageId(run[0])), run.len());
        }
        list.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own;
    use crate::process::pagemap::Pagemap;
    use crate::state::pages::State;
    use rustix::fd::AsFd;

    #[test]
    fn a_page_that_is_mapped_was_referenced_once() {
        const PAGES: usize = 4;
        let start = own::map(PAGES * PAGE_BYTES).unwrap();
        // SAFETY: this is a mapping of the test.
        unsafe { ((start + PAGE_BYTES) as *mut u8).write(1) };
        let (mut pages, mut queues, pagemap) = (Pages::new(), Queues::default(), Pagemap::open());
        let ids: Vec<PageId> =
            (0..PAGES).map(|page| pages.find_or_insert(start + page * PAGE_BYTES)).collect();
        ids.iter().for_each(|&page| pages.set(page, State::RESIDENT));
        let mut bits = ExactBits::new(Source::Mapped(pagemap.file().unwrap().as_fd()), &mut queues);
        let referenced: Vec<bool> = ids.iter().map(|&page| bits.test_and_clear(&mut pages, page)).collect();
        assert_eq!(referenced, [false, true, false, false]);
        assert!(!bits.test_and_clear(&mut pages, ids[1]), "it is about to be unmapped");
        assert_eq!(queues.cleared, [ids[1].0]);
    }

    /// Two hands at two places do not make each other's looks worthless.
    #[test]
    fn looks_at_several_places_are_remembered_until_time_has_passed() {
        let start = own::map(4 * GROUP_BYTES).unwrap().next_multiple_of(GROUP_BYTES);
        let pagemap = Pagemap::open();
        let source = Source::Mapped(pagemap.file().unwrap().as_fd());
        let mut queues = Queues::default();
        let [here, there] = [start, start + 2 * GROUP_BYTES];
        let near = |hand: usize, pages: usize| hand + pages * PAGE_BYTES;
        for hand in [here, there] {
            assert!(!queues.is_touched(source, hand), "{hand:#x}");
        }
        for hand in [here, there] {
            // SAFETY: this is a mapping of the test.
            unsafe { (near(hand, GROUP_PAGES - 1) as *mut u8).write(1) };
        }
        let last = [near(here, GROUP_PAGES - 1), near(there, GROUP_PAGES - 1)];
        assert_eq!(last.map(|page| queues.is_touched(source, page)), [false; 2]);
        queues.look_again_at(here);
        assert_eq!(last.map(|page| queues.is_touched(source, page)), [true, false]);
        queues.look_again();
        assert_eq!(last.map(|page| queues.is_touched(source, page)), [true; 2]);
    }

    #[test]
    fn a_page_waits_in_one_queue_once_and_a_page_that_is_gone_in_none() {
        let (mut queues, mut pages) = (Queues::default(), Pages::new());
        let ids: Vec<PageId> = (0..4).map(|page| pages.find_or_insert(crate::testing::at(page))).collect();
        ids.iter().for_each(|&page| pages.set(page, State::RESIDENT));
        queues.add(&mut pages, ids[0], Queue::Awaited);
        queues.add(&mut pages, ids[0], Queue::Awaited);
        queues.add(&mut pages, ids[0], Queue::Cleared);
        ids[1..].iter().for_each(|&page| queues.add(&mut pages, page, Queue::Cleared));
        assert_eq!(
            (&queues.awaited[..], &queues.cleared[..]),
            (&[ids[0].0][..], &[ids[1].0, ids[2].0, ids[3].0][..])
        );
        // A page loses the flag when it leaves: its bit is not cleared then.
        pages.set(ids[0], State::Stored(1));
        pages.set(ids[1], State::Absent);
        let mut cleared = Vec::new();
        for queue in [Queue::Awaited, Queue::Cleared] {
            let count = queues.count(queue);
            assert!(count > 0, "{queue:?}");
            queues.drain(&mut pages, (queue, count), |address, count| cleared.push((address, count)));
            assert_eq!(queues.count(queue), 0, "{queue:?}");
        }
        assert_eq!(cleared, [(crate::testing::at(2), 2)]);
    }
}
