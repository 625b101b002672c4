//! The interface between the agent and its policy. The agent is compiled once, and each policy is
//! compiled for itself.
//!
//! A policy can run live if it needs only faults and reference bits
//! ([`Model::SEES_HITS`](sweephand_policy::Model::SEES_HITS)). Two more can, in a form of their
//! own:
//!
//! - GCLOCK counts how often its hand found a page used, instead of the hits ([`GClockBits`]).
//! - WSCLOCK has the program as its only task ([`OneTask`]).

use crate::bits::Bits;
use crate::clock;
use crate::memfd::ExactBits;
use crate::tenant::Tenant;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use sweephand_policy::policies::{GClockBits, WsClock};
use sweephand_policy::registry::{POLICIES, Registered, Spec, Visitor, split_list};
use sweephand_policy::task_registry::{RegisteredTaskPolicy, TaskSpec};
use sweephand_policy::{
    ArgumentError, Arguments, Mmu, PageId, Policy, Reclaim, Reference, TaskId, TaskMmu, TaskPolicy,
    VirtualTime,
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
    /// Frames that this process may use, if the command lends them.
    fn granted(&self) -> Option<usize> {
        None
    }
    /// The policy as a tenant, if the command has the real policy.
    fn tenant(&mut self) -> Option<&mut Tenant> {
        None
    }
}

impl<P: Policy> LivePolicy for P {
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
}

/// A policy that runs live, with its arguments as typed.
#[derive(Clone, Debug)]
pub enum LiveSpec {
    /// A policy that a simulation drives in the same way.
    Ordinary(Spec),
    /// WSCLOCK.
    OneTask(TaskSpec),
}

impl LiveSpec {
    /// Reads one policy, `name` or `name:parameter=value,...`. Refuses policies that cannot run
    /// live.
    pub fn parse(text: &str) -> Result<Self, ArgumentError> {
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        let small = name.to_ascii_lowercase();
        let text = &(small.clone() + &text[name.len()..]);
        let name = small.as_str();
        if name == WSCLOCK {
            let spec = TaskSpec::parse(text)?;
            // Making the policy checks its values.
            one_task(&spec, 1000)?;
            return Ok(Self::OneTask(spec));
        }
        let entry = POLICIES.iter().find(|entry| entry.info.name == name);
        let reason = match entry.map(|entry| (entry.runs_live || name == GCLOCK, entry.model)) {
            None | Some((true, _)) => match Spec::parse(text)? {
                spec if spec.plugin().is_none() => return Ok(Self::Ordinary(spec)),
                _ => "is not one of the pager's own",
            },
            Some((false, "offline")) => "needs the future",
            Some((false, _)) => "needs every reference",
        };
        let live: Vec<_> = names().collect();
        let reason = format!("{reason} and can only be simulated; these can run live: {}", live.join(" "));
        Err(ArgumentError { policy: text.to_string(), reason })
    }

    /// Reads a comma list of policies, as [`Spec::parse_list`] does. `all` stands for all that run
    /// live.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ArgumentError> {
        split_list(text, names())?.iter().map(|spec| Self::parse(spec)).collect()
    }

    /// Makes the policy for this many frames.
    pub fn make(&self, frames: usize) -> Result<Box<dyn LivePolicy>, ArgumentError> {
        struct Make<'a>(&'a Arguments, usize);
        impl Visitor for Make<'_> {
            type Output = Result<Box<dyn LivePolicy>, ArgumentError>;
            fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
                Ok(Box::new(P::configure(self.1, self.0)?))
            }
        }
        match self {
            Self::OneTask(spec) => Ok(Box::new(one_task(spec, frames)?)),
            Self::Ordinary(spec) if spec.name() == GCLOCK => {
                Make(spec.arguments(), frames).visit::<GClockBits>()
            }
            Self::Ordinary(spec) => spec.visit(Make(spec.arguments(), frames)),
        }
    }
}

/// Prints the policy as it was typed.
impl fmt::Display for LiveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordinary(spec) => spec.fmt(f),
            Self::OneTask(spec) => spec.fmt(f),
        }
    }
}

const GCLOCK: &str = "gclock";
const WSCLOCK: &str = "wsclock";

/// The names of the policies that run live.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    let ordinary = POLICIES.iter().filter(|entry| entry.runs_live || entry.info.name == GCLOCK);
    ordinary.map(|entry| entry.info.name).chain([WSCLOCK])
}

fn one_task(spec: &TaskSpec, frames: usize) -> Result<OneTask, ArgumentError> {
    let policy = <WsClock as RegisteredTaskPolicy<Task>>::configure(frames, spec.arguments())?;
    Ok(OneTask { policy, now: clock::program_us, time: 0, until_look: 0 })
}

/// WSCLOCK with one task: the program. The task's virtual time is the processor time, in
/// microseconds, that the process has used. (The paper's machine made about one reference in each
/// microsecond.)
///
/// To the policy every page is clean and none is busy. A victim leaves the program's memory at once
/// and is written from the staging area while its frame serves another page, so there is nothing to
/// wait for. The one task is always active. If its working set fills the memory, the page that was
/// used longest ago is the victim.
#[derive(Debug)]
pub struct OneTask {
    policy: WsClock,
    /// The clock.
    now: fn() -> VirtualTime,
    /// The virtual time when the clock was last read.
    time: VirtualTime,
    /// Calls until the clock is read again. A system call costs more than most calls of the policy,
    /// and a microsecond does not matter.
    until_look: u32,
}

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
        let mut answer = self.policy.reclaim(&mut task);
        if answer == Reclaim::Overcommitted {
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
    use crate::bits::Sampler;
    use crate::pages::{Flag, Pages, State};

    #[test]
    fn those_that_cannot_run_say_why_and_which_can() {
        let message = |text: &str| LiveSpec::parse(text).unwrap_err().to_string();
        let lru = message("lru");
        assert!(lru.starts_with(
            "policy 'lru': needs every reference and can only be simulated; these can run live: fifo"
        ));
        for name in ["clock", "gclock", "clock-pro", "car", "seq", "apr", "lifo-plus", "wsclock"] {
            assert!(lru.split(' ').any(|word| word == name), "{name} in {lru}");
            assert!(LiveSpec::parse(name).unwrap().make(10).is_ok(), "{name}");
        }
        assert!(message("opt").contains("needs the future"));
        assert!(message("lur").contains("there is no such policy"));
        assert!(message("gclock:max=0").contains("max=0"));
        assert!(message("wsclock:theta=0").contains("theta=0"));
        assert!(message("ws").contains("is for many tasks"));
    }

    /// Pages that are all mapped. The tests set their bits.
    #[derive(Default)]
    struct Memory {
        pages: Pages,
        sampler: Sampler,
    }

    impl Memory {
        fn bits(&mut self, choosing: bool) -> Bits<'_> {
            Bits { pages: &mut self.pages, sampler: &mut self.sampler, exact: None, choosing }
        }

        /// Loads a page. Its bit is set after the access that faulted, if the policy counts that
        /// access.
        fn load(&mut self, policy: &mut dyn LivePolicy, number: usize) -> PageId {
            let page = self.pages.meet(0x10_0000 + number * 0x1000);
            self.pages.set(page, State::Resident, 0);
            let reference = Reference { page, page_number: 0, object: 0, next_use: sweephand_policy::NEVER };
            policy.fault(reference);
            let referenced = policy.insert(reference, &mut self.bits(false));
            self.pages.mark(page, Flag::Referenced, referenced);
            page
        }

        fn victim(&mut self, policy: &mut dyn LivePolicy) -> PageId {
            let page = policy.victim(&mut self.bits(true)).unwrap();
            policy.evict(page);
            self.pages.set(page, State::Absent, 0);
            page
        }
    }

    /// With `increment=2`, a page that the hand finds used once stays for one more turn of the hand
    /// than under CLOCK.
    #[test]
    fn gclock_counts_the_visits_that_found_a_page_used() {
        let outlasts = |policy: &str| {
            let mut policy = LiveSpec::parse(policy).unwrap().make(3).unwrap();
            let (policy, mut memory) = (policy.as_mut(), Memory::default());
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
        let mut memory = Memory::default();
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
