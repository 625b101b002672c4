//! AUTO: follows the policy that misses least, of several that run on metadata.
//!
//! Paper: none. The idea is that of R. Gramacy, M. Warmuth, S. Brandt, I. Ari, "Adaptive caching by
//! refetching", NIPS 2002. Settling is explained in the glossary.
//!
//! Each expert is a policy in full, with as many frames as memory, but it holds page numbers only.
//! Every fault goes to all experts; one that does not hold the page takes a miss. Misses count
//! half after a half-life. The expert with fewest recent misses leads, once the leader is behind by
//! the margin. To find a victim, memory takes a page that the leader does not hold, the one that
//! the leader gave up first. So memory comes to hold what the leader holds.
//!
//! ```text
//!   fault on x --+--> expert 0: holds x?  no: a miss, takes x in, gives up a page
//!                +--> expert 1: holds x?  yes                                      recent misses
//!                +--> expert 2: ...                                                 | | |
//!                                                                                   v v v
//!   memory: evicts the page that the leader gave up first <------------------ leader: the fewest
//! ```
//!
//! A kernel cannot see a hit in memory on a page that an expert has given up. For that expert it is
//! a miss. So the pages of memory that some expert does not hold are on two lists of watched pages,
//! those that the leader gave up and the others. At each fault, the bits of a few of them are read
//! (`polls`). A page that was used goes to the experts that miss it. A page that the leader gave up
//! is looked at once more before it is evicted.
//!
//! Every expert has a copy of each reference bit. When one expert asks for the bit of a page in
//! memory, the processor's bit is cleared and all copies are set, so no expert takes a bit away
//! from another.
//!
//! Invariants: each expert holds at most as many pages as there are frames. A page is on a list if
//! and only if it is in memory and some expert does not hold it; which list, the leader decides. A
//! page that is not in memory has copies of its bit only for experts that hold it. With one expert,
//! `auto` is that expert.
//!
//! Choices: the experts hear of a fault when a victim or a place is asked for, because only then
//! can bits be read. When several experts miss the same hit, scores age once. After a change, the
//! leader stays for a sixteenth as many faults as pages are watched. Experts that need page numbers
//! (SEQ) are refused: they would take 8 bytes more a page. Samples of the pages cannot estimate
//! `auto`, because LIFO+ cannot be sampled.
//!
//! It is best where there are many faults to learn from: ten a frame or more. In a live run there
//! are mostly fewer, and pages that were read ahead leave the policy with fewer frames than it was
//! made for. So strict CLOCK-Pro is the default there. `lab/bench/auto` has the figures, and the
//! defaults of the parameters are from there.
//!
//! Cost: hit nothing. Fault amortised O(experts + polls), if each expert's faults are O(1); those
//! of EE-CLOCK look at up to 55 pages. The time goes to memory that is not in the processor's
//! caches: each expert looks at pages of its own, and the looks at watched pages follow links.
//! `hand_steps` counts what the experts' hands and the looks at watched pages examine. 12 bytes a
//! page seen, and the bytes of the experts; by their headers, 51 in all, and up to 4.8 a frame.

mod runner;

use crate::arguments::Parameter;
use crate::catalogue::{VmVisitor, visit_vm};
use crate::collections::{Links, Lists, Packed, PageMap};
use crate::interface::ensure;
use crate::math::pow;
use crate::policies::LifoPlus;
use crate::registered::Registered;
use crate::settled::{SETTLE, settle_faults};
use crate::{
    ArgumentError, Arguments, Info, Leader, Mmu, NEVER, PageId, Policy, Reference, Violation, VmModel,
};
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use runner::Runner;

/// The parameter of a policy that follows one of several: their names, joined by `+`.
pub(crate) const EXPERTS: &str = "experts";

/// What is known of a page. Bit e of a mask is that of expert e.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// The experts that hold the page; and [`IN_MEMORY`].
    held: u8,
    /// The experts that have yet to hear of a reference. For one that holds the page, this is its
    /// copy of the reference bit. For one that does not, it is a miss that has not been counted.
    referenced: u8,
}

/// The bit of [`Page::held`] that says that memory holds the page.
const IN_MEMORY: u8 = 1 << MOST_EXPERTS;

impl Page {
    fn is_in_memory(self) -> bool {
        self.held & IN_MEMORY != 0
    }
}

/// A policy that runs on metadata only.
struct Expert {
    /// As in the argument `experts`.
    name: String,
    policy: Runner,
    /// Pages it holds.
    held: usize,
    /// Its misses, each worth half as much after every half-life.
    score: f64,
}

impl fmt::Debug for Expert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, policy: _, held, score } = self;
        f.debug_struct("Expert").field("name", name).field("held", held).field("score", score).finish()
    }
}

/// Most experts: there is a bit for each in a byte, beside [`IN_MEMORY`].
const MOST_EXPERTS: usize = Leader::MOST_EXPERTS;

/// Follows the expert that misses least. The fields are the experts, the pages that each would hold
/// and the scores that choose between them.
#[derive(Debug)]
pub struct Auto {
    frames: usize,
    experts: Vec<Expert>,
    /// A bit for each expert.
    all: u8,
    /// Hands ask for these at random: two bytes a page stay in the processor's cache.
    pages: PageMap<Page>,
    /// The object of each page.
    objects: Links<1>,
    /// Pages in memory.
    resident: usize,
    /// The pages in memory that some expert does not hold, in two lists.
    watched: Lists<2, Packed>,
    /// At the page of each list to look at next; none if that is the front.
    hands: [Option<PageId>; 2],
    /// Looks at watched pages for each fault.
    polls: usize,
    leader: usize,
    /// Changes of the leader.
    changes: u64,
    /// What an event leaves of a score.
    decay: f64,
    /// By how many misses the leader must be behind.
    margin: f64,
    /// Faults until the leader may change again.
    rest: usize,
    /// The page of the fault that the experts have not heard of, and its object.
    pending: Option<(PageId, u32)>,
    /// Looks at watched pages.
    polled: u64,
}

/// The leader does not hold these pages. The one that it gave up first is in front.
const GIVEN_UP: usize = 0;
/// The leader holds these pages, and another expert does not.
const KEPT: usize = 1;

impl Registered for Auto {
    const INFO: Info = Info {
        name: "auto",
        summary: "runs several policies on metadata and follows the one that misses least",
        paper: "none; after Gramacy, Warmuth, Brandt, Ari, Adaptive caching by refetching, NIPS 2002",
        parameters: &[
            Parameter {
                name: EXPERTS,
                default: "settled-clock-pro-strict+lifo-plus+clock+ee-clock",
                meaning: "policies to choose from, joined by +; settled-NAME settles its pages",
            },
            Parameter {
                name: "half-life",
                default: "8",
                meaning: "faults until a miss counts half, as a multiple of memory",
            },
            Parameter {
                name: "margin",
                default: "0.01",
                meaning: "misses by which the leader must be behind to be replaced, as a multiple of memory",
            },
            Parameter {
                name: "polls",
                default: "8",
                meaning: "pages that experts gave up looked at for each fault",
            },
            Parameter {
                name: SETTLE.name,
                default: "1%",
                meaning: "faults that a page takes to settle for experts named settled-NAME",
            },
        ],
        presets: &[],
    };
    const BYTES_A_PAGE: usize = 53;
    const REVISION: u32 = 2;

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let names = arguments.value(EXPERTS);
        let settle = settle_faults(frames, arguments)?;
        let mut experts = Vec::new();
        for name in names.split('+') {
            experts.push(Expert {
                name: name.into(),
                policy: expert(name, frames, settle, arguments)?,
                held: 0,
                score: 0.0,
            });
        }
        if experts.len() > MOST_EXPERTS {
            return Err(arguments.bad(EXPERTS, names, "at most 7 policies"));
        }
        let half_life = arguments.factor("half-life")?;
        if half_life <= 0.0 {
            return Err(arguments.bad("half-life", arguments.value("half-life"), "a number above 0"));
        }
        Ok(Self {
            frames,
            all: (u16::MAX >> (16 - experts.len())) as u8,
            experts,
            pages: PageMap::new(),
            objects: Links::new(),
            resident: 0,
            watched: Lists::default(),
            hands: [None; 2],
            polls: arguments.whole("polls", 0..=1 << 40)? as usize,
            leader: 0,
            changes: 0,
            decay: pow(0.5, 1.0 / (half_life * frames as f64)),
            margin: arguments.factor("margin")? * frames as f64,
            rest: 0,
            pending: None,
            polled: 0,
        })
    }
}

/// Makes an expert by its name.
fn expert(name: &str, frames: usize, settle: u64, arguments: &Arguments) -> Result<Runner, ArgumentError> {
    /// Makes a policy; none of those that need page numbers, which cost 8 bytes a page.
    struct Make(usize, u64);
    impl VmVisitor for Make {
        type Output = Option<Result<Runner, ArgumentError>>;
        fn visit<P: Registered<Model = VmModel> + Send + 'static>(self) -> Self::Output {
            let Make(frames, settle) = self;
            let text = if settle > 0 { format!("{}={settle}", SETTLE.name) } else { String::new() };
            let make = |arguments| Ok(Runner::new(P::configure(frames, &arguments)?));
            (!P::NEEDS_PAGE_NUMBERS).then(|| Arguments::parse(&P::INFO, &text).and_then(make))
        }
    }
    let (plain, settle) = match name.strip_prefix("settled-") {
        Some(plain) => (plain, settle),
        None => (name, 0),
    };
    // `auto` is not in the catalogue: an expert that is made of experts would be counted twice.
    let made = visit_vm(plain, Make(frames, settle)).flatten();
    let wanted = "policies that run live and need no page numbers, joined by +";
    made.unwrap_or_else(|| Err(arguments.bad(EXPERTS, name, wanted)))
}

/// Memory as an expert sees it.
struct View<'a, M> {
    pages: &'a mut PageMap<Page>,
    bit: u8,
    mmu: &'a mut M,
}

impl<M: Mmu> Mmu for View<'_, M> {
    #[inline]
    fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
        fold(self.pages, page, self.mmu);
        let entry = &mut self.pages[page];
        let referenced = entry.referenced & self.bit != 0;
        entry.referenced &= !self.bit;
        referenced
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
        self.mmu.prefetch(page);
    }
}

/// Takes over the reference bit of a page in memory, for all experts.
#[inline]
fn fold<M: Mmu>(pages: &mut PageMap<Page>, page: PageId, mmu: &mut M) {
    let entry = &mut pages[page];
    if entry.is_in_memory() && mmu.test_and_clear_referenced(page) {
        entry.referenced = u8::MAX;
    }
}

impl Auto {
    /// The expert does not hold a page that has been referenced. It takes it in.
    #[inline(always)]
    fn miss<M: Mmu>(&mut self, number: usize, page: PageId, object: u32, mmu: &mut M) {
        let reference = Reference { page, page_number: u64::from(page.0), object, next_use: NEVER };
        let bit = 1 << number;
        let expert = &mut self.experts[number];
        expert.score += 1.0;
        expert.policy.fault(reference);
        if expert.held == self.frames {
            self.give_up(number, mmu);
        }
        self.pages[page].referenced &= !bit;
        let mut view = View { pages: &mut self.pages, bit, mmu };
        if self.experts[number].policy.insert(reference, &mut view) {
            self.pages[page].referenced |= bit;
        }
        self.experts[number].held += 1;
        self.set_held(page, self.pages[page].held | bit);
    }

    /// The expert gives up a page.
    #[inline(always)]
    fn give_up<M: Mmu>(&mut self, number: usize, mmu: &mut M) {
        let bit = 1 << number;
        let expert = &mut self.experts[number];
        let mut view = View { pages: &mut self.pages, bit, mmu };
        let page = expert.policy.victim(&mut view).expect("it holds pages");
        // A reference until now is none after it was given up.
        fold(&mut self.pages, page, mmu);
        self.pages[page].referenced &= !bit;
        expert.policy.evict(page);
        expert.held -= 1;
        self.set_held(page, self.pages[page].held & !bit);
    }

    /// The only place where it changes who holds a page.
    #[inline]
    fn set_held(&mut self, page: PageId, held: u8) {
        let old = core::mem::replace(&mut self.pages[page].held, held);
        self.resident += usize::from(held & IN_MEMORY != 0);
        self.resident -= usize::from(old & IN_MEMORY != 0);
        let (from, to) = (self.list(old), self.list(held));
        if from == to {
            return;
        }
        for hand in &mut self.hands {
            if *hand == Some(page) {
                *hand = self.watched.next(page);
            }
        }
        self.watched.remove(page);
        if let Some(list) = to {
            self.watched.push_back(list, page);
        }
    }

    fn set_object(&mut self, page: PageId, object: u32) {
        self.objects.cover(page);
        self.objects.set(page, 0, object);
    }

    /// The list for a page that these hold.
    fn list(&self, held: u8) -> Option<usize> {
        match held & IN_MEMORY != 0 && held != self.all | IN_MEMORY {
            true if held & 1 << self.leader == 0 => Some(GIVEN_UP),
            true => Some(KEPT),
            false => None,
        }
    }

    fn age(&mut self) {
        for expert in &mut self.experts {
            expert.score *= self.decay;
        }
    }

    /// Tells the experts of the fault.
    fn absorb<M: Mmu>(&mut self, mmu: &mut M) {
        let Some((page, object)) = self.pending.take() else { return };
        // What was referenced before the fault comes first.
        for poll in 0..self.polls {
            if let Some(page) = self.next_watched(poll % 2, mmu) {
                self.look_at(page, mmu);
            }
        }
        self.age();
        for number in 0..self.experts.len() {
            let bit = 1 << number;
            if self.pages[page].held & bit != 0 {
                self.pages[page].referenced |= bit;
            } else {
                self.miss(number, page, object, mmu);
            }
        }
        self.choose_leader();
    }

    /// Whether a page in memory was referenced since an expert gave it up; those experts take
    /// it in.
    fn look_at<M: Mmu>(&mut self, page: PageId, mmu: &mut M) -> bool {
        self.polled += 1;
        fold(&mut self.pages, page, mmu);
        let Page { held, referenced, .. } = self.pages[page];
        let missed = referenced & !held & self.all;
        if missed != 0 {
            self.age();
            for number in 0..self.experts.len() {
                if missed & 1 << number != 0 {
                    self.miss(number, page, self.objects.get(page, 0), mmu);
                }
            }
        }
        missed != 0
    }

    /// The next page to look at in one of the lists.
    #[inline(always)]
    fn next_watched<M: Mmu>(&mut self, list: usize, mmu: &M) -> Option<PageId> {
        let page = self.hands[list].or_else(|| self.watched.front(list))?;
        self.hands[list] = self.watched.next(page);
        if let Some(next) = self.hands[list] {
            self.watched.prefetch(next);
            self.pages.prefetch(next);
            mmu.prefetch(next);
        }
        Some(page)
    }

    fn choose_leader(&mut self) {
        self.rest = self.rest.saturating_sub(1);
        let best = (0..self.experts.len())
            .min_by(|&a, &b| self.experts[a].score.total_cmp(&self.experts[b].score))
            .expect("there are experts");
        if self.rest > 0 || self.experts[self.leader].score - self.experts[best].score <= self.margin {
            return;
        }
        self.leader = best;
        self.changes += 1;
        self.rest = (self.watched.len(GIVEN_UP) + self.watched.len(KEPT)) / 16;
        self.hands = [None; 2];
        // Each page goes to the list that is its own now, and keeps its place among the others.
        for list in [GIVEN_UP, KEPT] {
            for _ in 0..self.watched.len(list) {
                let Some(page) = self.watched.pop_front(list) else { break };
                let own = self.list(self.pages[page].held).expect("it is watched");
                self.watched.push_back(own, page);
            }
        }
    }
}

impl Policy for Auto {
    type Model = VmModel;

    const NEEDS_OBJECTS: bool = true;
    const NOT_SAMPLED: Option<&'static str> = LifoPlus::NOT_SAMPLED;

    fn fault(&mut self, reference: Reference) {
        self.pages.cover(reference.page);
        self.set_object(reference.page, reference.object);
        self.pending = Some((reference.page, reference.object));
    }

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        self.absorb(mmu);
        if self.resident == 0 {
            return None;
        }
        let mut looks = 2 * self.resident;
        loop {
            let Some(page) = self.watched.front(GIVEN_UP) else {
                self.give_up(self.leader, mmu);
                continue;
            };
            if looks == 0 || !self.look_at(page, mmu) {
                return Some(page);
            }
            looks -= 1;
        }
    }

    fn evict(&mut self, page: PageId) {
        self.set_held(page, self.pages[page].held & !IN_MEMORY);
        let entry = &mut self.pages[page];
        entry.referenced &= entry.held;
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        self.absorb(mmu);
        self.pages.cover(reference.page);
        self.set_object(reference.page, reference.object);
        self.set_held(reference.page, self.pages[reference.page].held | IN_MEMORY);
        false
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
        self.objects.prefetch(page);
        self.watched.prefetch(page);
        for expert in &self.experts {
            expert.policy.prefetch(page);
        }
    }

    fn remove(&mut self, page: PageId) {
        self.pages.cover(page);
        let held = self.pages[page].held;
        self.set_held(page, 0);
        for (number, expert) in self.experts.iter_mut().enumerate() {
            expert.held -= usize::from(held & 1 << number != 0);
            expert.policy.remove(page);
        }
        self.pages[page].referenced = 0;
    }

    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        self.pages.cover(page);
        self.set_object(page, object);
        for (number, expert) in self.experts.iter_mut().enumerate() {
            let mut view = View { pages: &mut self.pages, bit: 1 << number, mmu };
            expert.policy.assign(page, object, &mut view);
        }
    }

    fn free_object(&mut self, object: u32) {
        for expert in &mut self.experts {
            expert.policy.free_object(object);
        }
    }

    fn hand_steps(&self) -> u64 {
        self.polled + self.experts.iter().map(|expert| expert.policy.hand_steps()).sum::<u64>()
    }

    fn leader(&self) -> Option<Leader> {
        let mut recent_misses = [0; MOST_EXPERTS];
        for (misses, expert) in recent_misses.iter_mut().zip(&self.experts) {
            *misses = (expert.score + 0.5) as u64;
        }
        let Self { leader, changes, experts, .. } = self;
        Some(Leader { expert: *leader, changes: *changes, experts: experts.len(), recent_misses })
    }

    fn check(&self) -> Result<(), Violation> {
        for (number, expert) in self.experts.iter().enumerate() {
            expert.policy.check()?;
            let held = self.pages.iter().filter(|(_, page)| page.held & 1 << number != 0).count();
            ensure!(held == expert.held && held <= self.frames, "{}: {held} pages held", expert.name);
            ensure!(expert.score.is_finite(), "{}: score {}", expert.name, expert.score);
        }
        let resident = self.pages.iter().filter(|(_, page)| page.is_in_memory()).count();
        ensure!(resident == self.resident && resident <= self.frames, "{resident} pages in memory");
        for (page, entry) in self.pages.iter() {
            let list = self.watched.list_of(page);
            ensure!(list == self.list(entry.held), "page {page} is in list {list:?}: {entry:?}");
            let heard = entry.held | if entry.is_in_memory() { u8::MAX } else { 0 };
            ensure!(entry.referenced & !heard == 0, "page {page} has left memory: {entry:?}");
        }
        for (list, hand) in self.hands.iter().enumerate() {
            let at = hand.map(|page| self.watched.list_of(page));
            ensure!(at.is_none_or(|at| at == Some(list)), "the hand of list {list} is in list {at:?}");
        }
        self.watched.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, naive};
    use crate::registry::Spec;

    /// The pages in memory, and those that CLOCK and LIFO hold; `<` marks the leader. LIFO replaces
    /// the page that came last.
    #[test]
    fn follows_the_worked_example() {
        let spec = "auto:experts=clock+lifo,half-life=100,margin=0.4,polls=2";
        let mut machine = Machine::<Auto>::new(spec, 3);
        let states = machine.trace(&[1, 2, 3, 4, 1, 2, 3, 1, 4, 2, 5], |machine| {
            let auto = machine.policy();
            let held = |bit: u8| {
                let pages = auto.pages.iter().filter(|(_, entry)| entry.held & bit != 0);
                pages.map(|(page, _)| page.to_string()).collect::<Vec<_>>().join(" ")
            };
            let mark = |number| if auto.leader == number { "<" } else { "" };
            format!("{} | {}{} | {}{}", held(IN_MEMORY), held(1), mark(0), held(2), mark(1))
        });
        assert_eq!(
            states,
            [
                "1 | 1< | 1",
                "1 2 | 1 2< | 1 2",
                "1 2 3 | 1 2 3< | 1 2 3",
                "2 3 4 | 2 3 4< | 1 2 4", // memory does as CLOCK
                "1 3 4 | 1 3 4< | 1 2 4", // LIFO had 1: CLOCK is behind by one
                "1 2 4 | 1 2 4 | 1 2 4<", // by nearly 2, above 1.2: 3 goes, which LIFO gave up
                "1 2 3 | 1 2 3 | 1 2 3<",
                "1 2 3 | 1 2 3 | 1 2 3<",
                "1 2 4 | 1 3 4 | 1 2 4<", // CLOCK spares 1 and gives up 2
                "1 2 4 | 1 3 4 | 1 2 4<", // a hit: nobody is told that CLOCK misses 2
                "1 2 5 | 2 4 5 | 1 2 5<", // now it is: CLOCK takes 2 for 3, then 5 for 1
            ]
        );
    }

    #[test]
    fn experts_are_checked() {
        let refused = |experts: &str| {
            let error = Spec::parse(&format!("auto:experts={experts}")).unwrap_err();
            error.to_string()
        };
        for experts in ["lru", "auto", "seq", "clock+", "opt", "settled-lru", ""] {
            assert!(refused(experts).contains("experts takes policies that run live"), "{experts}");
        }
        assert!(refused("settled-fifo").contains("there is no parameter 'settle'"));
        assert!(refused("fifo+fifo+fifo+fifo+fifo+fifo+fifo+fifo").contains("at most 7 policies"));
    }

    /// One expert alone is that policy.
    #[test]
    fn with_one_expert_it_is_that_policy() {
        for expert in ["clock", "clock-pro", "lifo-plus", "clock2q-plus", "sieve"] {
            for_random_strings(|string, frames| {
                let alone = crate::conformance::run(expert, string, frames);
                let spec = format!("auto:experts={expert}");
                assert_eq!(crate::conformance::run(&spec, string, frames), alone, "{expert}");
            });
        }
    }

    /// Experts are told of objects.
    #[test]
    fn agrees_with_the_naive_model_on_several_objects() {
        for objects in [2, 3, 5] {
            for_random_strings(|string, frames| {
                let spec = Spec::parse("auto:experts=clock-pro+lifo-plus+clock").unwrap();
                let mut machine = Machine::<Auto>::with_arguments(spec.arguments(), frames)
                    .with_objects(move |page| page % objects);
                let victims: Vec<_> = string.iter().map(|&page| machine.access(page).victim).collect();
                let model = naive::auto(spec.arguments(), frames, string, objects);
                let expected: Vec<_> = model.iter().map(|step| step.victims.first().copied()).collect();
                assert_eq!(victims, expected, "{objects} objects");
            });
        }
    }

    /// On a loop larger than memory LIFO+ misses least, and then on a hot set that moves CLOCK
    /// does.
    #[test]
    fn it_follows_the_expert_that_misses_least() {
        let mut machine = Machine::<Auto>::new("auto:experts=clock+lifo-plus", 20);
        let leader = |machine: &Machine<Auto>| machine.policy().experts[machine.policy().leader].name.clone();
        assert_eq!(leader(&machine), "clock");
        for time in 0..600 {
            machine.access(time % 30);
        }
        assert_eq!(leader(&machine), "lifo-plus");
        for time in 0..4000 {
            machine.access(100 + time / 40 + time % 15);
        }
        assert_eq!(leader(&machine), "clock");
    }
}
