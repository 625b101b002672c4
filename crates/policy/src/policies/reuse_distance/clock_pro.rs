//! CLOCK-Pro: judges pages by reuse distance, like LIRS, at the cost of CLOCK.
//!
//! Paper: S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK
//! replacement", USENIX Annual Technical Conference 2005, sections 3 and 4.
//!
//! One circular list holds resident hot, resident cold and non-resident cold pages. A page that
//! comes in is cold and in its test period. If it is referenced again before the period ends, its
//! reuse distance is small, and it turns hot. Three hands go round, all from older towards newer
//! pages:
//!
//! ```text
//!                hand_hot                 HAND_hot: turns the oldest unreferenced hot page cold; ends the tests of
//!     head |  tail  v                               cold pages that it passes. New pages go in just behind it: the
//!     C9t  |  H1*  n3t  C4  H2  n5t  C7t            list head.
//!      ^ newest ^ oldest ^ hand_cold      HAND_cold: evicts the first unreferenced resident cold page.
//!                     ^ hand_test         HAND_test: ends the oldest tests when too many pages are remembered.
//!
//!   H hot   C resident cold   n non-resident   t in test   * reference bit
//!
//!                        fault in test, or bit found set in test: m_c + 1
//!       +---------------------------------------------------------------+
//!       v                                                               |
//!      hot --- HAND_hot, bit clear ---> cold <--- test ends --- cold in test <--- fault, unknown
//!                                         | (bit set: m_c + 1,       |
//!                                         |  bit clear: m_c - 1)     |
//!                                         |                          |
//!                                         | HAND_cold                | HAND_cold, bit clear
//!                                         v                          v
//!                                     forgotten <-- test ends -- non-resident in test
//!                                                   (m_c - 1)
//! ```
//!
//! m_c is the cold allocation. It grows when cold pages are used again during their test, and
//! shrinks when tests end without a use. m_h = M - m_c frames are for hot pages. A change of m_c
//! takes effect only at the next promotion.
//!
//! A hand that ends the test of a resident page sees from the page's bit whether the page was used
//! in its test (`test-end=grow`). The page stays cold, and HAND_cold will still find it referenced.
//! With `keep` such a page leaves m_c as it is, and with `shrink` each test that a hand ends takes
//! 1 from m_c. The latter is no reading of the paper, but mostly the better policy for programs,
//! so it has a name of its own, `clock-pro-strict`. `lab/papers/clock-pro-2005` compares the three.
//!
//! Where the paper is silent or contradicts itself:
//! - Direction: its text has all hands go clockwise *and* the head clockwise after the tail. Then
//!   HAND_hot would visit the newest page next. Here hands go from the tail to newer pages, and "at
//!   the head" is just behind HAND_hot.
//! - First fill (`warm=hot`): pages come in hot until there are m_h of them, then cold in test.
//!   With `warm=cold` no page of a loop ever turns hot, unlike in the paper's Figure 2.
//! - A referenced cold page that is not in test goes to the head with "no status change"
//!   (`referenced-cold=keep`). `new-test` starts a test for it as LIRS would. `evict` evicts it
//!   anyway.
//! - History: at most `history` x M non-resident pages. The text says 1. Tables 1 and 2 need about
//!   3 (their LIRS column has unlimited history), so `preset=clockpro2005` sets 3.
//! - A reference to a remembered page while a frame is being freed: the frame is freed first, and
//!   only then is the faulting page looked up.
//! - Filling frames that unmapped pages left free is not a first fill.
//! - A page used in its test always turns hot, as the text says. The simulator of Caffeine refuses
//!   that if HAND_hot meets the page before an unreferenced hot page, as it says the authors'
//!   program does. So do hot pages that it passes go to a head of their own, and cold ones stay.
//!   With a history of 3 M its hit ratios are further off Tables 1 and 2 on average than ours.
//!
//! Cost: hit nothing; fault amortised O(1). `hand_steps` counts resident cold pages looked at by
//! HAND_cold and all entries looked at by the other two. 9 bytes a page seen.

use crate::arguments::{Parameter, Preset, Rounding};
use crate::collections::{PageMap, Ring};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{
    ArgumentError, Arguments, ColdAllocation, Info, Mmu, PageId, Policy, Reference, Violation, VmModel,
};
use core::marker::PhantomData;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Status {
    /// Not in the list.
    #[default]
    Absent,
    Hot,
    /// Resident and cold, test over.
    Cold,
    /// The same, and not found referenced since HAND_hot turned it cold.
    Demoted,
    /// The same, and its bit was set when its test ended. Reading the bit has cleared it, but for
    /// HAND_cold the page is referenced.
    ColdUsed,
    /// Resident and cold, in its test period.
    ColdInTest,
    /// Evicted in its test period, which goes on.
    NonResident,
}

impl Status {
    fn is_resident_cold(self) -> bool {
        matches!(self, Status::Cold | Status::Demoted | Status::ColdUsed | Status::ColdInTest)
    }
}

/// What becomes of a resident cold page that HAND_cold finds referenced when its test is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReferencedCold {
    Keep,
    NewTest,
    Evict,
}

/// What a resident page that is referenced when a hand ends its test does to m_c.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TestEnd {
    /// It was used in its test: m_c grows.
    Grow,
    /// m_c stays.
    Keep,
    /// The bit is not looked at: as any test that ends.
    Unread,
}

/// The numbers of pages that a rule of adaptation may go by.
#[derive(Clone, Copy, Debug)]
pub struct PageCounts {
    /// Resident cold pages not found referenced since they were hot.
    pub demoted: usize,
    /// Non-resident pages in their test period.
    pub non_resident: usize,
}

/// What moves the cold allocation m_c: the change, in frames, that an event makes to it. None
/// unless said.
pub trait Adaptation {
    /// A page was found referenced in its test period: by HAND_cold, or by the hand that ends the
    /// test.
    fn reused_in_test() -> isize {
        0
    }
    /// A page faulted in its test period; it is still counted as non-resident.
    fn faulted_in_test(_: PageCounts) -> isize {
        0
    }
    /// A test ended without that.
    fn test_ended() -> isize {
        0
    }
    /// HAND_cold found a demoted page referenced; it is still counted as demoted.
    fn demoted_reused(_: PageCounts) -> isize {
        0
    }
}

/// CLOCK-Pro's own rule: one more for a reference in the test period, one less for a test that ends
/// without.
#[derive(Clone, Copy, Debug)]
pub enum ByTests {}

impl Adaptation for ByTests {
    fn reused_in_test() -> isize {
        1
    }
    fn faulted_in_test(_: PageCounts) -> isize {
        1
    }
    fn test_ended() -> isize {
        -1
    }
}

/// CLOCK-Pro, its cold allocation adapting by one rule or another. The fields are the clock, its
/// three hands and the counts that the paper compares.
#[derive(Debug)]
pub struct ClockPro<A: Adaptation = ByTests> {
    frames: usize,
    ring: Ring,
    status: PageMap<Status>,
    /// At the tail of the list: where HAND_hot stopped last, on a hot page if there was one, or
    /// what has come after that page since it left. New pages go in just before it.
    hand_hot: PageId,
    /// At the next resident cold page to consider for eviction, or on the way to it.
    hand_cold: PageId,
    /// At the next entry to consider for the end of its test.
    hand_test: PageId,
    /// Pages with status `Hot`.
    hot: usize,
    /// Pages with status `Cold`, `Demoted` or `ColdInTest`.
    cold: usize,
    /// Pages with status `Demoted`.
    demoted: usize,
    /// Pages with status `NonResident`.
    non_resident: usize,
    /// Upper bound of `non_resident`.
    history: usize,
    /// m_c: how many frames are meant for cold pages.
    cold_target: usize,
    /// Bounds of m_c.
    cold_target_range: (usize, usize),
    /// Memory has not been full yet, and pages come in hot.
    warming: bool,
    referenced_cold: ReferencedCold,
    test_end: TestEnd,
    /// Entries looked at by the hands.
    hand_steps: u64,
    adaptation: PhantomData<fn() -> A>,
}

pub(super) const COLD: Parameter =
    Parameter { name: "cold", default: "1", meaning: "cold allocation at the start, pages or share" };
pub(super) const COLD_MIN: Parameter =
    Parameter { name: "cold-min", default: "1", meaning: "lower bound of the cold allocation" };
pub(super) const COLD_MAX: Parameter = Parameter {
    name: "cold-max",
    default: "100%",
    meaning: "upper bound of the cold allocation (one frame is always left for hot pages)",
};
pub(super) const HISTORY: Parameter = Parameter {
    name: "history",
    default: "1",
    meaning: "most non-resident pages remembered, as a multiple of memory",
};
pub(super) const WARM: Parameter = Parameter {
    name: "warm",
    default: "hot",
    meaning: "how pages come in while memory first fills: hot (up to the hot allocation) or cold",
};
pub(super) const REFERENCED_COLD: Parameter = Parameter {
    name: "referenced-cold",
    default: "keep",
    meaning: "a cold page found referenced after its test: keep, new-test or evict",
};

/// The parameter that says what a [`TestEnd`] is.
const TEST_END: &str = "test-end";

impl Registered for ClockPro {
    const INFO: Info = Info {
        name: "clock-pro",
        summary: "tests cold pages for reuse; hot and cold shares of memory adapt",
        paper: "Jiang, Chen, Zhang, CLOCK-Pro, USENIX ATC 2005",
        parameters: &[
            COLD,
            COLD_MIN,
            COLD_MAX,
            HISTORY,
            WARM,
            REFERENCED_COLD,
            Parameter {
                name: TEST_END,
                default: "grow",
                meaning: "the cold allocation when a test ends on a referenced page: grow, keep or shrink",
            },
            SETTLE,
        ],
        presets: &[Preset {
            name: "clockpro2005",
            meaning: "the reading nearest to the paper's Tables 1 and 2",
            arguments: &[("history", "3"), ("referenced-cold", "new-test"), ("collapse", "on")],
        }],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let ends = [("grow", TestEnd::Grow), ("keep", TestEnd::Keep), ("shrink", TestEnd::Unread)];
        let test_end = arguments.choice(TEST_END, &ends)?;
        Ok(Self { test_end, ..Self::adapting(frames, arguments)? })
    }
}

impl<A: Adaptation> ClockPro<A> {
    /// A policy with the cold allocation of the parameters `cold`, `cold-min` and `cold-max`.
    pub(super) fn adapting(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let pages = |name| arguments.pages(name, frames, Rounding::Nearest);
        let (min, max) = (pages("cold-min")?, pages("cold-max")?);
        // Small memories round shares as they must; what makes no sense in a large one is a
        // mistake.
        let in_large_memory = |name| arguments.pages(name, 1 << 30, Rounding::Nearest);
        for name in ["cold", "cold-min", "cold-max"] {
            if in_large_memory(name)? == 0 {
                return Err(arguments.bad(name, arguments.value(name), "at least one page"));
            }
        }
        if in_large_memory("cold-min")? > in_large_memory("cold-max")? {
            return Err(arguments.bad("cold-min", arguments.value("cold-min"), "at most cold-max"));
        }
        Self::with_cold_allocation(frames, pages("cold")?, (min, max), arguments)
    }

    /// A policy with a cold allocation of `cold` frames to start with, kept within `range` and
    /// 1..M - 1.
    pub(super) fn with_cold_allocation(
        frames: usize,
        cold: usize,
        range: (usize, usize),
        arguments: &Arguments,
    ) -> Result<Self, ArgumentError> {
        let most = (frames - 1).max(1);
        let min = range.0.clamp(1, most);
        let max = range.1.clamp(min, most);
        let referenced_cold = [
            ("keep", ReferencedCold::Keep),
            ("new-test", ReferencedCold::NewTest),
            ("evict", ReferencedCold::Evict),
        ];
        Ok(Self {
            frames,
            ring: Ring::new(),
            status: PageMap::new(),
            hand_hot: PageId(0),
            hand_cold: PageId(0),
            hand_test: PageId(0),
            hot: 0,
            cold: 0,
            demoted: 0,
            non_resident: 0,
            history: (arguments.factor(HISTORY.name)? * frames as f64) as usize,
            cold_target: cold.clamp(min, max),
            cold_target_range: (min, max),
            warming: arguments.choice(WARM.name, &[("hot", true), ("cold", false)])?,
            referenced_cold: arguments.choice(REFERENCED_COLD.name, &referenced_cold)?,
            test_end: TestEnd::Unread,
            hand_steps: 0,
            adaptation: PhantomData,
        })
    }

    /// m_h: how many frames are meant for hot pages.
    fn hot_target(&self) -> usize {
        self.frames - self.cold_target
    }

    /// The only place where a page's status and the counters change.
    #[inline]
    fn set_status(&mut self, page: PageId, status: Status) {
        let old = core::mem::replace(&mut self.status[page], status);
        for (status, is_new) in [(old, false), (status, true)] {
            let counter = match status {
                Status::Absent => continue,
                Status::Hot => &mut self.hot,
                Status::Cold | Status::Demoted | Status::ColdUsed | Status::ColdInTest => &mut self.cold,
                Status::NonResident => &mut self.non_resident,
            };
            *counter = if is_new { *counter + 1 } else { *counter - 1 };
            if status == Status::Demoted {
                self.demoted = if is_new { self.demoted + 1 } else { self.demoted - 1 };
            }
        }
    }

    /// Puts an absent page in at the head.
    fn add(&mut self, page: PageId, status: Status) {
        self.link_at_head(page);
        self.status.cover(page);
        self.set_status(page, status);
    }

    /// Takes a page off the list for good.
    fn drop_entry(&mut self, page: PageId) {
        self.unlink(page);
        self.set_status(page, Status::Absent);
    }

    fn link_at_head(&mut self, page: PageId) {
        if self.ring.is_empty() {
            self.ring.insert_first(page);
            (self.hand_hot, self.hand_cold, self.hand_test) = (page, page, page);
        } else {
            self.ring.insert_before(self.hand_hot, page);
        }
    }

    /// Hands on the page move on first.
    fn unlink(&mut self, page: PageId) {
        let next = self.ring.next(page);
        for hand in [&mut self.hand_hot, &mut self.hand_cold, &mut self.hand_test] {
            if *hand == page {
                *hand = next;
            }
        }
        self.ring.remove(page);
    }

    /// Moves m_c within its bounds.
    #[inline]
    fn adapt(&mut self, change: isize) {
        let (min, max) = self.cold_target_range;
        self.cold_target = self.cold_target.saturating_add_signed(change).clamp(min, max);
    }

    fn counts(&self) -> PageCounts {
        PageCounts { demoted: self.demoted, non_resident: self.non_resident }
    }

    /// Ends the test of an entry that is in one. A non-resident entry is dropped by that.
    fn end_test<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        match self.status[page] {
            Status::ColdInTest => {
                if self.test_end != TestEnd::Unread && mmu.test_and_clear_referenced(page) {
                    self.set_status(page, Status::ColdUsed);
                    if self.test_end == TestEnd::Grow {
                        self.adapt(A::reused_in_test());
                    }
                    return;
                }
                self.set_status(page, Status::Cold);
            }
            Status::NonResident => self.drop_entry(page),
            Status::Absent | Status::Hot | Status::Cold | Status::Demoted | Status::ColdUsed => return,
        }
        self.adapt(A::test_ended());
    }

    /// HAND_hot, after a promotion: hot pages give way until they are within their allocation
    /// again.
    fn shrink_hot<M: Mmu>(&mut self, mmu: &mut M) {
        // m_c changes as tests end under the hand, so the condition is looked at anew each time.
        for _ in 0..self.hot {
            if self.hot <= self.hot_target() {
                return;
            }
            self.run_hot(mmu);
        }
    }

    /// Turns one hot page cold and comes to rest on the next hot page.
    fn run_hot<M: Mmu>(&mut self, mmu: &mut M) {
        let mut demoted = false;
        // Within one turn every hot page's bit has been cleared; the second finds a victim and
        // stops behind it.
        for _ in 0..=2 * self.ring.len() + 1 {
            let page = self.hand_hot;
            self.hand_steps += 1;
            if self.status[page] == Status::Hot {
                if demoted {
                    return;
                }
                if !mmu.test_and_clear_referenced(page) {
                    self.set_status(page, Status::Demoted);
                    demoted = true;
                }
                self.pass_hot(page);
            } else {
                self.end_test(page, mmu);
                if self.hand_hot == page {
                    self.pass_hot(page);
                }
            }
            if self.hot == 0 {
                return;
            }
        }
    }

    /// HAND_hot leaves an entry and pushes HAND_test along.
    fn pass_hot(&mut self, page: PageId) {
        self.hand_hot = self.ring.next(page);
        if self.hand_test == page {
            self.hand_test = self.hand_hot;
        }
    }

    /// HAND_test: ends the oldest tests until the history is within its bound.
    fn run_test<M: Mmu>(&mut self, mmu: &mut M) {
        for _ in 0..self.ring.len() {
            if self.non_resident <= self.history {
                return;
            }
            let page = self.hand_test;
            self.hand_steps += 1;
            self.hand_test = self.ring.next(page);
            self.prefetch(self.hand_test);
            self.end_test(page, mmu);
        }
    }

    /// Moves HAND_cold, unless it is there, on to the next resident cold page, if there is one.
    fn settle_cold(&mut self) {
        // The only cold page is mostly the one that came in last, and the way there from the one
        // before it is all the way round: on a loop with m_c = 1 that would be the length of the
        // list at every fault.
        let newest = self.ring.previous(self.hand_hot);
        if self.cold == 1 && self.status[newest].is_resident_cold() {
            self.hand_cold = newest;
        } else if self.cold > 0 {
            for _ in 0..self.ring.len() {
                if self.status[self.hand_cold].is_resident_cold() {
                    return;
                }
                self.hand_cold = self.ring.next(self.hand_cold);
            }
        }
    }

    /// HAND_cold has found a cold page referenced: it goes to the head, hot if it was in test.
    fn spare_cold<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        self.hand_cold = self.ring.next(page);
        if self.ring.len() > 1 {
            self.unlink(page);
            self.ring.insert_before(self.hand_hot, page);
        }
        match self.status[page] {
            Status::ColdInTest => {
                self.set_status(page, Status::Hot);
                self.adapt(A::reused_in_test());
                self.shrink_hot(mmu);
            }
            _ if self.referenced_cold == ReferencedCold::NewTest => self.set_status(page, Status::ColdInTest),
            _ => {}
        }
    }
}

impl<A: Adaptation> Policy for ClockPro<A> {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        self.warming = false;
        self.run_test(mmu);
        if self.cold == 0 && self.hot > 0 {
            // Only after unmaps or when evicting ahead of need: otherwise some frame is always
            // cold.
            self.run_hot(mmu);
        }
        let mut candidate = None;
        for _ in 0..=2 * (self.hot + self.cold) {
            if self.cold == 0 {
                break;
            }
            self.settle_cold();
            let page = self.hand_cold;
            candidate = Some(page);
            self.hand_steps += 1;
            let mut referenced = mmu.test_and_clear_referenced(page);
            if self.status[page] == Status::ColdUsed {
                referenced = true;
                self.set_status(page, Status::Cold);
            } else if referenced && self.status[page] == Status::Demoted {
                self.adapt(A::demoted_reused(self.counts()));
                self.set_status(page, Status::Cold);
            }
            let evict_anyway =
                self.referenced_cold == ReferencedCold::Evict && self.status[page] == Status::Cold;
            if !referenced || evict_anyway {
                break;
            }
            self.spare_cold(page, mmu);
        }
        candidate
    }

    fn evict(&mut self, page: PageId) {
        if self.hand_cold == page {
            self.hand_cold = self.ring.next(page);
        }
        if self.status[page] == Status::ColdInTest {
            // HAND_test runs when reference bits can be read: before a page comes in, or the next
            // one goes.
            self.set_status(page, Status::NonResident);
        } else {
            self.drop_entry(page);
        }
        if !self.ring.is_empty() {
            self.settle_cold();
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        let page = reference.page;
        self.run_test(mmu);
        if self.status.get(page) == Status::NonResident {
            self.adapt(A::faulted_in_test(self.counts()));
            self.drop_entry(page);
            self.add(page, Status::Hot);
            self.shrink_hot(mmu);
        } else if self.warming && self.hot < self.hot_target() {
            self.add(page, Status::Hot);
        } else {
            self.add(page, Status::ColdInTest);
        }
        false
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.status.prefetch(page);
        self.ring.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        if self.status.get(page) != Status::Absent {
            self.drop_entry(page);
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn cold_allocation(&self) -> Option<ColdAllocation> {
        Some(ColdAllocation { resident_cold_pages: self.cold, target_pages: self.cold_target })
    }

    fn check(&self) -> Result<(), Violation> {
        let (hot, cold, non_resident) = (self.hot, self.cold, self.non_resident);
        ensure!(hot + cold <= self.frames, "{hot} hot + {cold} cold pages resident");
        // One more until HAND_test runs.
        ensure!(non_resident <= self.history + 1, "{non_resident} non-resident pages, not {}", self.history);
        ensure!(self.ring.len() == hot + cold + non_resident, "list of {} entries", self.ring.len());
        let (min, max) = self.cold_target_range;
        ensure!(
            (min..=max).contains(&self.cold_target),
            "m_c = {} is not within {min}..={max}",
            self.cold_target
        );
        ensure!(hot <= self.frames - min, "{hot} hot pages leave less than {min} cold ones");
        let mut counts = [0; 4];
        for (_, status) in self.status.iter() {
            match status {
                Status::Absent => {}
                Status::Hot => counts[0] += 1,
                Status::Cold | Status::ColdUsed | Status::ColdInTest => counts[1] += 1,
                Status::Demoted => {
                    counts[1] += 1;
                    counts[3] += 1;
                }
                Status::NonResident => counts[2] += 1,
            }
        }
        let kept = [hot, cold, non_resident, self.demoted];
        ensure!(counts == kept, "counted {counts:?}, not {kept:?}");
        if self.ring.is_empty() {
            return Ok(());
        }
        for hand in [self.hand_hot, self.hand_cold, self.hand_test] {
            ensure!(
                self.status[hand] != Status::Absent,
                "a hand is on page {hand}, which is not in the list"
            );
        }
        for page in self.ring.iter_from(self.hand_hot) {
            ensure!(self.status[page] != Status::Absent, "page {page} is in the list without a status");
        }
        self.ring.check(self.hand_hot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E1, Machine, faults};

    /// The list from HAND_hot on, and m_c. Hands follow the entry they are on.
    fn state(machine: &Machine<ClockPro>) -> String {
        let policy = machine.policy();
        let entry = |page: PageId| {
            let status = policy.status[page];
            let letter = match status {
                Status::Absent => '?',
                Status::Hot => 'H',
                Status::Cold | Status::Demoted | Status::ColdUsed | Status::ColdInTest => 'C',
                Status::NonResident => 'n',
            };
            let test = if matches!(status, Status::ColdInTest | Status::NonResident) { "t" } else { "" };
            let is_referenced = machine.is_referenced(page) || status == Status::ColdUsed;
            let bit = if is_referenced { "*" } else { "" };
            let mut text = format!("{letter}{page}{test}{bit}");
            for (hand, name) in
                [(policy.hand_hot, "<hot"), (policy.hand_cold, "<cold"), (policy.hand_test, "<test")]
            {
                if hand == page {
                    text += name;
                }
            }
            text
        };
        let list: Vec<_> = policy.ring.iter_from(policy.hand_hot).map(entry).collect();
        format!("{} | {}", list.join(" "), policy.cold_target)
    }

    #[test]
    fn follows_the_worked_example_with_three_frames() {
        let mut machine = Machine::<ClockPro>::new("clock-pro", 3);
        let states: Vec<_> = E1
            .iter()
            .map(|&page| {
                machine.access(page);
                state(&machine)
            })
            .collect();
        assert_eq!(
            states,
            [
                "H1<hot<cold<test | 1",
                "H1<hot<cold<test H2 | 1",
                "H1<hot<cold<test H2 C3t | 1",
                "H1<hot<cold<test H2 n3t C4t | 1",
                "H1*<hot<cold<test H2 n3t C4t | 1",
                "H1*<hot<cold<test H2* n3t C4t | 1",
                "H1*<hot<cold<test H2* n3t n4t C5t | 1",
                "H1*<hot<cold<test H2* n3t n4t C5t | 1",
                "H1*<hot<cold<test H2* n3t n4t C5t | 1",
                "H1<hot<cold<test H2 C3 | 1",
                "H1<hot<cold<test H2 C4t | 1",
                "H1<hot<cold<test H2 n4t C5t | 1",
            ]
        );
    }

    #[test]
    fn follows_the_worked_example_with_four_frames() {
        let mut machine = Machine::<ClockPro>::new("clock-pro:cold=2", 4);
        let states = [1, 2, 3, 4, 5, 6, 4, 2, 7, 5, 1, 6, 3, 4, 8, 1, 2, 5].map(|page| {
            machine.access(page);
            state(&machine)
        });
        assert_eq!(
            states,
            [
                "H1<hot<cold<test | 2",
                "H1<hot<cold<test H2 | 2",
                "H1<hot<cold<test H2 C3t | 2",
                "H1<hot<cold<test H2 C3t C4t | 2",
                "H1<hot<test H2 n3t C4t<cold C5t | 2",
                "H1<hot<test H2 n3t n4t C5t<cold C6t | 2",
                "H4<hot<test C1 C2 C6<cold | 1",
                "H4<hot<test C1 C2* C6<cold | 1",
                "H4<hot<test C1<cold C2* C7t | 1",
                "H4<hot<test C2*<cold C7t C5t | 1",
                "H4<hot<test n7t C5t<cold C2 C1t | 1",
                "H4<hot<test n7t n5t C2<cold C1t C6t | 1",
                "H4<hot<test n7t n5t C1t<cold C6t C3t | 1",
                "H4*<hot<test n7t n5t C1t<cold C6t C3t | 1",
                "H4*<hot<test n7t n5t n1t C6t<cold C3t C8t | 1",
                "H4*<hot<test n7t n5t n6t C3t<cold C8t H1 | 2",
                "H4*<hot<test n7t n5t n6t n3t C8t<cold H1 C2t | 2",
                "H5<hot<test H4 C1 C2<cold | 1",
            ]
        );
    }

    /// The second fault on 2 makes 5 hot. HAND_hot spares 4, turns 3 cold and ends the test of 1,
    /// which has been used: m_c + 1. So 5 must turn cold, too, and is evicted. With `shrink` m_c is
    /// back at 2, and 5 stays hot.
    #[test]
    fn a_page_that_is_referenced_when_its_test_ends_has_been_used() {
        let string = [1, 2, 4, 3, 3, 5, 1, 4, 1, 5, 1, 2, 5];
        let states = |spec| Machine::<ClockPro>::new(spec, 4).trace(&string, state);
        let before = [
            "H1<hot<cold<test | 1",
            "H1<hot<cold<test H2 | 1",
            "H1<hot<cold<test H2 H4 | 1",
            "H1<hot<cold<test H2 H4 C3t | 1",
            "H1<hot<cold<test H2 H4 C3t* | 1",
            "H4<hot<test H3 C2<cold C5t | 2",
            "H4<hot<test H3 C5t<cold C1t | 2",
            "H4*<hot<test H3 C5t<cold C1t | 2",
            "H4*<hot<test H3 C5t<cold C1t* | 2",
            "H4*<hot<test H3 C5t*<cold C1t* | 2",
            "H4*<hot<test H3 C5t*<cold C1t* | 2",
        ];
        let grown = ["H4<hot<test C3 C1<cold C2t | 3", "H4<hot<test C3 C2t<cold C5t | 3"];
        let shrunk = ["H5<hot<test H4 C1<cold C2t | 2", "H5*<hot<test H4 C1<cold C2t | 2"];
        assert_eq!(states("clock-pro"), [&before[..], &grown].concat());
        assert_eq!(states("clock-pro:test-end=shrink"), [&before[..], &shrunk].concat());
        assert_eq!(faults("clock-pro", &string, 4), 8);
        assert_eq!(faults("clock-pro-strict", &string, 4), 7);

        let string = [4, 7, 2, 5, 1, 2, 1, 3, 8, 3, 8, 7, 4, 7, 5, 2, 8, 4, 1, 3];
        let readings = ["grow", "keep", "shrink"];
        let of = |reading: &str| faults(&format!("clock-pro:test-end={reading}"), &string, 5);
        assert_eq!(readings.map(of), [12, 13, 14]);
    }

    /// On a loop longer than memory the hot pages stay, and each round hits all of them.
    #[test]
    fn keeps_the_hot_allocation_of_a_loop() {
        let mut machine = Machine::<crate::policies::ClockProFixed>::new("clock-pro-fixed:cold=2", 8);
        let hits = |machine: &mut Machine<_>| (1..=20).filter(|&page| !machine.access(page).fault).count();
        assert_eq!([hits(&mut machine), hits(&mut machine), hits(&mut machine)], [0, 6, 6]);
    }
}
