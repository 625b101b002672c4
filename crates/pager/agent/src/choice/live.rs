//! The interface between the agent and its policy. The agent is compiled once, and each policy is
//! compiled for itself.
//!
//! A policy can run live if it needs only faults and reference bits: `P: Policy<Model = VmModel>`.
//! Two more can, in a form of their own:
//!
//! - GCLOCK counts how often its hand found a page used, instead of the hits
//!   ([`GClockBits`](sweephand_policy::policies::GClockBits)).
//! - WSCLOCK has the program as its only task ([`OneTask`]).

use crate::choice::bits::Bits;
use crate::choice::exact_bits::ExactBits;
use crate::kernel::clock;
use crate::spec::LiveSpec;
use alloc::boxed::Box;
use sweephand_policy::policies::WsClock;
use sweephand_policy::registry::{Registered, VmVisitor};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_policy::{
    ArgumentError, Arguments, Leader, Mmu, PageId, Policy, Reclaim, Reference, TaskId, TaskMmu, TaskPolicy,
    VirtualTime, VmModel,
};

/// What the agent asks of a policy; see [`Policy`].
pub trait LivePolicy {
    /// See [`Policy::fault`].
    fn fault(&mut self, reference: Reference);
    /// See [`Policy::victim`].
    fn victim(&mut self, bits: &mut Bits) -> Option<PageId>;
    /// See [`Policy::evict`].
    fn evict(&mut self, page: PageId);
    /// See [`Policy::insert`].
    fn insert(&mut self, reference: Reference, bits: &mut Bits) -> bool;
    /// See [`Policy::remove`].
    fn remove(&mut self, page: PageId);
    /// See [`Policy::assign`].
    fn assign(&mut self, page: PageId, object: u32, bits: &mut Bits) {
        let _ = (page, object, bits);
    }
    /// See [`Policy::free_object`].
    fn free_object(&mut self, object: u32) {
        let _ = object;
    }
    /// See [`Policy::NEEDS_OBJECTS`].
    fn needs_objects(&self) -> bool {
        false
    }
    /// See [`Policy::hand_steps`].
    fn hand_steps(&self) -> u64;
    /// See [`Policy::leader`].
    fn leader(&self) -> Option<Leader> {
        None
    }
}

impl<P: Policy<Model = VmModel>> LivePolicy for P {
    fn fault(&mut self, reference: Reference) {
        Policy::fault(self, reference);
    }
    fn victim(&mut self, bits: &mut Bits) -> Option<PageId> {
        Policy::victim(self, bits)
    }
    fn evict(&mut self, page: PageId) {
        Policy::evict(self, page);
    }
    fn insert(&mut self, reference: Reference, bits: &mut Bits) -> bool {
        Policy::insert(self, reference, bits)
    }
    fn remove(&mut self, page: PageId) {
        Policy::remove(self, page);
    }
    fn assign(&mut self, page: PageId, object: u32, bits: &mut Bits) {
        Policy::assign(self, page, object, bits);
    }
    fn free_object(&mut self, object: u32) {
        Policy::free_object(self, object);
    }
    fn needs_objects(&self) -> bool {
        P::NEEDS_OBJECTS
    }
    fn hand_steps(&self) -> u64 {
        Policy::hand_steps(self)
    }
    fn leader(&self) -> Option<Leader> {
        Policy::leader(self)
    }
}

/// Makes the policy that a spec names, for this many frames.
pub fn make(spec: &LiveSpec, frames: usize) -> Result<Box<dyn LivePolicy>, ArgumentError> {
    struct Make<'a>(&'a Arguments, usize);
    impl VmVisitor for Make<'_> {
        type Output = Result<Box<dyn LivePolicy>, ArgumentError>;
        fn visit<P: Registered<Model = VmModel> + Send + 'static>(self) -> Self::Output {
            Ok(Box::new(P::configure(self.1, self.0)?))
        }
    }
    match spec {
        LiveSpec::OneTask(spec) => Ok(Box::new(one_task(spec, frames)?)),
        LiveSpec::Ordinary(_) => {
            let made = spec.visit(Make(spec.arguments(), frames));
            made.expect("a spec that runs live is of a vm policy")
        }
    }
}

fn one_task(spec: &TaskSpec, frames: usize) -> Result<OneTask, ArgumentError> {
    let policy = WsClock::from_arguments(frames, spec.arguments())?;
    let overcommitted = Overcommitted { most: frames / VICTIMS_A_CIRCUIT, left: 0 };
    Ok(OneTask { policy, overcommitted, now: clock::program_us, time: 0, until_look: 0 })
}

/// WSCLOCK with one task: the program. The task's virtual time is the processor time, in
/// microseconds, that the process has used. (The paper's machine made about one reference in each
/// microsecond.)
///
/// To the policy every page is clean and none is busy. A victim leaves the program's memory at once
/// and is written from the staging area while its frame serves another page, so there is nothing to
/// wait for. The one task is always active.
///
/// If its working set fills the memory, the page that was used longest ago is the victim. The hand
/// learns this after it has looked at every page. It does not go round again for the next few
/// victims: few pages can have left the working set since. These are then the pages used
/// longest ago, as far as that circuit and their own use bits tell.
#[derive(Debug)]
pub struct OneTask {
    policy: WsClock,
    overcommitted: Overcommitted,
    /// The clock.
    now: fn() -> VirtualTime,
    /// The virtual time when the clock was last read.
    time: VirtualTime,
    /// Calls until the clock is read again. A system call costs more than most calls of the policy,
    /// and a microsecond does not matter.
    until_look: u32,
}

/// Victims that need no circuit of the hand, because the last circuit found the memory full with
/// the working set.
#[derive(Debug)]
struct Overcommitted {
    /// After each such circuit.
    most: usize,
    /// From now on.
    left: usize,
}

/// A circuit that finds nothing serves for this part of the frames. So the hand looks at no more
/// than this many pages for each victim, in the long run.
const VICTIMS_A_CIRCUIT: usize = 16;

/// Calls of the policy between two readings of the clock.
const CALLS_A_LOOK: u32 = 32;

impl OneTask {
    fn task<'a>(&mut self, bits: &'a mut Bits) -> Task<'a> {
        if self.until_look == 0 {
            self.time = (self.now)().max(self.time);
            self.until_look = CALLS_A_LOOK;
        }
        self.until_look -= 1;
        let Bits { pages, sampler, exact, choosing } = bits;
        let exact = exact.as_mut().map(ExactBits::again);
        Task { bits: Bits { pages, sampler, exact, choosing: *choosing }, time: self.time }
    }
}

impl LivePolicy for OneTask {
    fn fault(&mut self, _: Reference) {}

    fn victim(&mut self, bits: &mut Bits) -> Option<PageId> {
        let mut task = self.task(bits);
        if self.overcommitted.left > 0 {
            self.overcommitted.left -= 1;
            if let Some(page) = self.policy.oldest_unused(&mut task) {
                return Some(page);
            }
        }
        self.overcommitted.left = 0;
        let mut answer = self.policy.reclaim(&mut task);
        if answer == Reclaim::Overcommitted {
            self.overcommitted.left = self.overcommitted.most;
            answer = self.policy.reclaim_anyway(&mut task);
        }
        match answer {
            Reclaim::Evict(page) => Some(page),
            Reclaim::Wait | Reclaim::Overcommitted => None,
        }
    }

    fn evict(&mut self, page: PageId) {
        TaskPolicy::<Task>::evict(&mut self.policy, page);
    }

    fn insert(&mut self, reference: Reference, bits: &mut Bits) -> bool {
        let mut task = self.task(bits);
        self.policy.insert(reference.page, &mut task)
    }

    fn remove(&mut self, page: PageId) {
        TaskPolicy::<Task>::remove(&mut self.policy, page);
    }

    fn hand_steps(&self) -> u64 {
        TaskPolicy::<Task>::hand_steps(&self.policy).unwrap_or_default()
    }
}

/// The one task, as a policy for many tasks sees it.
#[derive(Debug)]
struct Task<'a> {
    bits: Bits<'a>,
    time: VirtualTime,
}

impl Mmu for Task<'_> {
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        self.bits.test_and_clear_referenced(page)
    }
}

impl TaskMmu for Task<'_> {
    fn owner(&self, _: PageId) -> TaskId {
        TaskId(0)
    }

    fn virtual_time(&self, _: TaskId) -> VirtualTime {
        self.time
    }

    fn is_active(&self, _: TaskId) -> bool {
        true
    }

    fn is_dirty(&self, _: PageId) -> bool {
        false
    }

    fn is_busy(&self, _: PageId) -> bool {
        false
    }

    fn start_cleaning(&mut self, _: PageId) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::bits::Sampler;
    use crate::state::pages::{Flag, Pages, State};

    /// Pages that are all mapped. The tests set their bits.
    #[derive(Default)]
    struct MappedPages {
        pages: Pages,
        sampler: Sampler,
    }

    impl MappedPages {
        fn bits(&mut self, choosing: bool) -> Bits<'_> {
            Bits { pages: &mut self.pages, sampler: &mut self.sampler, exact: None, choosing }
        }

        /// Loads a page. Its bit is set after the access that faulted, if the policy counts that
        /// access.
        fn load(&mut self, policy: &mut dyn LivePolicy, number: usize) -> PageId {
            let page = self.pages.find_or_insert(0x10_0000 + number * 0x1000);
            self.pages.set(page, State::RESIDENT);
            let reference = Reference { page, page_number: 0, object: 0, next_use: sweephand_policy::NEVER };
            policy.fault(reference);
            let referenced = policy.insert(reference, &mut self.bits(false));
            self.pages.mark(page, Flag::Referenced, referenced);
            page
        }

        fn victim(&mut self, policy: &mut dyn LivePolicy) -> PageId {
            let page = policy.victim(&mut self.bits(true)).unwrap();
            policy.evict(page);
            self.pages.set(page, State::Absent);
            page
        }
    }

    /// The hand goes round once for the first of three victims: a sixteenth of 32 frames is two.
    #[test]
    fn wsclock_in_too_little_memory_goes_round_once_for_several_victims() {
        let LiveSpec::OneTask(spec) = LiveSpec::parse("wsclock").unwrap() else { panic!() };
        let mut policy = OneTask { now: || 1, ..one_task(&spec, 32).unwrap() };
        let mut memory = MappedPages::default();
        for number in 0..32 {
            memory.load(&mut policy, number);
        }
        let mut steps = |policy: &mut OneTask| {
            let before = LivePolicy::hand_steps(policy);
            memory.victim(policy);
            LivePolicy::hand_steps(policy) - before
        };
        let steps: Vec<u64> = (0..5).map(|_| steps(&mut policy)).collect();
        assert_eq!(steps, [32, 0, 0, 29, 0]);
    }

    /// With `increment=2`, a page that the hand finds used once stays for one more turn of the hand
    /// than under CLOCK.
    #[test]
    fn gclock_counts_the_visits_that_found_a_page_used() {
        let outlasts = |policy: &str| {
            let mut policy = make(&LiveSpec::parse(policy).unwrap(), 3).unwrap();
            let (policy, mut memory) = (policy.as_mut(), MappedPages::default());
            let hot = memory.load(policy, 0);
            memory.load(policy, 1);
            memory.load(policy, 2);
            memory.pages.mark(hot, Flag::Referenced, true);
            let mut victims = Vec::new();
            for number in 3..8 {
                victims.push(memory.victim(policy));
                memory.load(policy, number);
            }
            victims.iter().position(|&victim| victim == hot)
        };
        assert_eq!(outlasts("clock"), Some(2));
        assert_eq!(outlasts("gclock:init=0"), Some(2));
        assert_eq!(outlasts("gclock:init=0,increment=2"), Some(4));
    }

    /// Theta is 100 us. At 150 the first page has been used again, and the second one has left the
    /// working set and is evicted. At 160 all pages are in the working set, and the one used
    /// longest ago is evicted.
    #[test]
    fn wsclock_goes_by_the_time_that_it_is_given() {
        use core::sync::atomic::{AtomicU64, Ordering};
        static NOW: AtomicU64 = AtomicU64::new(0);
        let LiveSpec::OneTask(spec) = LiveSpec::parse("wsclock:theta=100").unwrap() else { panic!() };
        let mut policy = OneTask { now: || NOW.load(Ordering::Relaxed), ..one_task(&spec, 3).unwrap() };
        let mut memory = MappedPages::default();
        let at = |policy: &mut OneTask, time| {
            NOW.store(time, Ordering::Relaxed);
            policy.until_look = 0;
        };
        let pages = [(0, 0), (1, 10), (2, 120)].map(|(number, time)| {
            at(&mut policy, time);
            let page = memory.load(&mut policy, number);
            // The use that the load was for has been seen.
            memory.pages.mark(page, Flag::Referenced, false);
            page
        });
        memory.pages.mark(pages[0], Flag::Referenced, true);
        at(&mut policy, 150);
        assert_eq!(memory.victim(&mut policy), pages[1]);
        assert!(!memory.pages.has(pages[0], Flag::Referenced), "the hand has passed it");
        at(&mut policy, 160);
        let new = memory.load(&mut policy, 3);
        memory.pages.mark(new, Flag::Referenced, false);
        assert_eq!(memory.victim(&mut policy), pages[2]);
    }

    #[test]
    fn the_programs_time_is_without_the_agents() {
        let before = clock::program_us();
        let other =
            std::thread::spawn(|| (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
        other.join().unwrap();
        assert!(clock::program_us() > before);
    }
}
