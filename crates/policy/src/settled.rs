//! Settling: a page's reference bit is cleared once more, some faults after the page came in.
//!
//! A program touches a page many times right after it has faulted on it: it reads a line, then the
//! next line. Such a burst is one use, but it sets the reference bit. A policy that finds the bit
//! set takes the page for reused. CLOCK-Pro then turns every page of a long loop hot.
//!
//! [`Settled`] clears the bit again when `settle` faults have passed since the page came in. By
//! then the burst is over, and from then on the bit stands for another use.
//!
//! ```text
//!   fault on x            settle faults later               a hand comes by
//!   x comes in  * * * *   the bit is cleared     (nothing)  bit clear: not reused
//!                                                   *       bit set:   reused
//! ```
//!
//! The kin in the literature: 2Q and LRU-2 ignore correlated references for a while, and Clock2Q+
//! ignores the bits of the newest pages of its small queue.
//!
//! Settling is off unless asked for (`settle=0`), so that each policy stays what its paper says. It
//! does not always pay; `lab/bench/auto/` has a table of what it does to each policy.
//!
//! Choices: time counts in faults, because a kernel sees no other events. The bits of pages that
//! are due are cleared after a fault and before the victim is chosen. The page that is coming in is
//! never due. A policy that copies bits (LIFO+, APR, and CLOCK-Pro at the end of a test) keeps what
//! it has copied before.
//!
//! Cost: hit nothing; fault O(1): a page comes into the queue, and at most one is due. 2 bytes a
//! page seen, and 16 bytes a page in the queue, which has at most `settle` pages. Nothing while it
//! is off.

use crate::arguments::{Parameter, Rounding};
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ColdAllocation, Info, Leader, Mmu, PageId, Policy, Reference, Violation,
    VmModel,
};
use alloc::collections::VecDeque;

/// The parameter of each policy that reads bits: after how many faults they are cleared once more.
pub(crate) const SETTLE: Parameter = Parameter {
    name: "settle",
    default: "0",
    meaning: "faults after which a new page's bit is cleared once more, a number or a share of memory (1%); 0: never",
};

/// The value of [`SETTLE`], in faults.
pub(crate) fn settle_faults(frames: usize, arguments: &Arguments) -> Result<u64, ArgumentError> {
    Ok(arguments.pages(SETTLE.name, frames, Rounding::Up)? as u64)
}

/// A policy whose pages settle before their bits count.
#[derive(Debug)]
pub struct Settled<P> {
    policy: P,
    window: Window,
}

/// The pages that have come in lately.
#[derive(Debug)]
struct Window {
    /// Faults that a page takes to settle; 0 if bits count from the beginning.
    faults: u64,
    /// Faults so far.
    now: u64,
    /// Pages with the time at which each came in, the earliest in front. An entry counts while
    /// `came_in` says the same.
    queue: VecDeque<(PageId, u64)>,
    /// The [`stamp`] of the time at which a page came in; 0 for a page that has settled or left. If
    /// a page comes in again a multiple of 65,535 faults later, within the window, it settles by
    /// its first coming.
    came_in: PageMap<u16>,
}

impl Window {
    const fn new(faults: u64) -> Self {
        Self { faults, now: 0, queue: VecDeque::new(), came_in: PageMap::new() }
    }

    /// Clears the bits of the pages that are due.
    #[inline(always)]
    fn settle<M: Mmu>(&mut self, mmu: &mut M) {
        while let Some(&(page, time)) = self.queue.front()
            && time + self.faults <= self.now
        {
            self.queue.pop_front();
            if self.came_in[page] == stamp(time) {
                self.came_in[page] = 0;
                mmu.test_and_clear_referenced(page);
            }
        }
    }

    fn begin(&mut self, page: PageId) {
        self.came_in.set(page, stamp(self.now));
        self.queue.push_back((page, self.now));
    }

    /// The page has left.
    fn forget(&mut self, page: PageId) {
        if self.came_in.get(page) != 0 {
            self.came_in[page] = 0;
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let counts = |&&(page, time): &&(PageId, u64)| self.came_in.get(page) == stamp(time);
        let young = self.came_in.iter().filter(|&(_, time)| time != 0).count();
        let queued = self.queue.iter().filter(counts).count();
        ensure!(queued == young, "{young} pages have not settled, {queued} of them are in the queue");
        ensure!(self.queue.len() as u64 <= self.faults, "{} pages in the queue", self.queue.len());
        ensure!(self.queue.iter().is_sorted_by_key(|&(_, time)| time), "the queue is not in order of time");
        Ok(())
    }
}

/// A time as `Window::came_in` has it: never 0.
fn stamp(time: u64) -> u16 {
    (time % u64::from(u16::MAX)) as u16 + 1
}

impl<P: Registered<Model = VmModel>> Registered for Settled<P> {
    const INFO: Info = P::INFO;
    const BYTES_A_PAGE: usize = P::BYTES_A_PAGE;
    const REVISION: u32 = P::REVISION;

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let window = Window::new(settle_faults(frames, arguments)?);
        Ok(Self { policy: P::configure(frames, arguments)?, window })
    }
}

impl<P: Policy<Model = VmModel>> Policy for Settled<P> {
    type Model = VmModel;
    const NEEDS_PAGE_NUMBERS: bool = P::NEEDS_PAGE_NUMBERS;
    const NEEDS_OBJECTS: bool = P::NEEDS_OBJECTS;
    const IDS_MATTER_MODULO: u32 = P::IDS_MATTER_MODULO;
    const NOT_SAMPLED: Option<&'static str> = P::NOT_SAMPLED;

    #[inline]
    fn fault(&mut self, reference: Reference) {
        self.window.now += 1;
        self.policy.fault(reference);
    }

    #[inline]
    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        self.window.settle(mmu);
        self.policy.victim(mmu)
    }

    #[inline]
    fn evict(&mut self, page: PageId) {
        self.window.forget(page);
        self.policy.evict(page);
    }

    #[inline]
    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        if self.window.faults > 0 {
            self.window.settle(mmu);
            self.window.begin(reference.page);
        }
        self.policy.insert(reference, mmu)
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.window.came_in.prefetch(page);
        self.policy.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        self.window.forget(page);
        self.policy.remove(page);
    }

    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        self.policy.assign(page, object, mmu);
    }

    fn renumber(&mut self, page: PageId, page_number: u64) {
        self.policy.renumber(page, page_number);
    }

    fn free_object(&mut self, object: u32) {
        self.policy.free_object(object);
    }

    fn hand_steps(&self) -> u64 {
        self.policy.hand_steps()
    }

    fn cold_allocation(&self) -> Option<ColdAllocation> {
        self.policy.cold_allocation()
    }

    fn leader(&self) -> Option<Leader> {
        self.policy.leader()
    }

    fn check(&self) -> Result<(), Violation> {
        self.window.check()?;
        self.policy.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, run};
    use crate::policies::Clock;
    use crate::registry::POLICIES;
    use crate::told::expect_all_passed_on;

    /// The pages with their bits (`*`), and those that have not settled. 1 is touched again right
    /// after it came in, and 2 once it has settled. So 1 goes before 2.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Settled<Clock>>::new("clock:settle=2", 3);
        let states = machine.trace(&[1, 1, 2, 3, 2, 4, 2, 5, 6], |machine| {
            let Settled { policy: _, window } = machine.policy();
            let bits = (1..=6).map(PageId).filter(|&page| machine.is_referenced(page));
            let bits: Vec<_> = bits.map(|page| format!("{page}*")).collect();
            let young = window.came_in.iter().filter(|&(_, time)| time != 0);
            let young: Vec<_> = young.map(|(page, _)| page.to_string()).collect();
            format!("{} | {}", bits.join(" "), young.join(" "))
        });
        assert_eq!(
            states,
            [
                " | 1", "1* | 1", "1* | 1 2", " | 2 3", // the third fault: 1 has settled
                "2* | 2 3", " | 3 4", // 2 has settled, and 1 goes
                "2* | 3 4", " | 4 5", // the hand spares 2; 3 goes
                " | 5 6",
            ]
        );
        assert_eq!(run("clock:settle=2", &[1, 1, 2, 3, 4], 3)[4].victim, Some(1));
        assert_eq!(run("clock", &[1, 1, 2, 3, 4], 3)[4].victim, Some(2));
    }

    /// A page that leaves and comes back within the window settles by its second coming.
    #[test]
    fn a_page_that_comes_back_settles_anew() {
        let mut machine = Machine::<Settled<Clock>>::new("clock:settle=3", 2);
        for page in [1, 2, 3, 1, 1] {
            machine.access(page);
        }
        assert!(machine.is_referenced(PageId(1)));
        machine.unmap(3).unwrap();
        machine.access(4);
        assert!(machine.is_referenced(PageId(1)), "its first coming was due");
        for page in [5, 6] {
            machine.unmap(page - 1).unwrap();
            machine.access(page);
        }
        assert!(!machine.is_referenced(PageId(1)), "its second coming is due");
    }

    #[test]
    fn a_policy_whose_pages_settle_is_told_everything_and_its_answers_come_back() {
        expect_all_passed_on(|policy| Settled { policy, window: Window::new(2) });
    }

    #[test]
    fn every_policy_that_reads_bits_can_settle_its_pages() {
        for entry in POLICIES {
            let settles = entry.info.parameters.iter().any(|parameter| parameter.name == SETTLE.name);
            let reads_no_bits = ["fifo", "lifo", "random"].contains(&entry.info.name);
            assert_eq!(settles, entry.runs_live && !reads_no_bits, "{}", entry.info.name);
        }
    }
}
