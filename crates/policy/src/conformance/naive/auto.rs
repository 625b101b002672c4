//! AUTO over experts that are shown every reference at once.
//!
//! Each expert is a policy in a [`Machine`] of its own, which has its own reference bits; the
//! experts have models of their own beside this one. So nothing here copies bits. An expert that
//! settles its pages is a plain policy in a machine that does it.
//!
//! Memory holds pages that the leader does not. Those wait in `given_up`, and the front one goes.
//! A page in memory that an expert does not hold may be referenced. That expert hears of it when
//! the page is looked at.

use super::{Given, Step};
use crate::Arguments;
use crate::arguments::Rounding;
use crate::conformance::Machine;
use crate::registered::Registered;
use crate::registry::{Spec, Visitor};
use crate::settled::SETTLE;
use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};

/// A policy in a machine of its own.
trait Policy {
    /// Runs a reference, and returns the page given up for it.
    fn access(&mut self, page: u32) -> Option<u32>;
    /// Gives up a page before its frame is needed.
    fn give_up(&mut self) -> u32;
}

impl<P: Registered> Policy for Machine<P> {
    fn access(&mut self, page: u32) -> Option<u32> {
        Machine::access(self, page).victim
    }
    fn give_up(&mut self) -> u32 {
        self.evict_one().unwrap_or_else(|violation| panic!("{violation}")).0
    }
}

struct Expert {
    policy: Box<dyn Policy>,
    holds: BTreeSet<u32>,
    /// Pages in memory that it does not hold and that were referenced since it gave them up.
    missed: BTreeSet<u32>,
    /// The times of its misses.
    misses: Vec<u32>,
}

struct Model {
    experts: Vec<Expert>,
    memory: BTreeSet<u32>,
    /// The pages in memory that the leader does not hold.
    given_up: Watched,
    /// The pages in memory that the leader holds and another expert does not.
    kept: Watched,
    leader: usize,
    rest: usize,
    /// Events so far: faults, and looks that found a miss.
    time: u32,
    half_life: f64,
    margin: f64,
}

/// Pages that are looked at in turn.
#[derive(Default)]
struct Watched {
    pages: Vec<u32>,
    /// The place of the page to look at next; 0 if there is none.
    next: usize,
}

impl Watched {
    /// Adds a page, or takes it away, if that is not done.
    fn set(&mut self, page: u32, belongs: bool) {
        match self.pages.iter().position(|&other| other == page) {
            None if belongs => self.pages.push(page),
            Some(place) if !belongs => {
                self.pages.remove(place);
                self.next -= usize::from(place < self.next);
                self.wrap();
            }
            _ => {}
        }
    }

    fn look(&mut self) -> Option<u32> {
        let page = self.pages.get(self.next).copied()?;
        self.next += 1;
        self.wrap();
        Some(page)
    }

    /// Behind the last page comes the first.
    fn wrap(&mut self) {
        if self.next == self.pages.len() {
            self.next = 0;
        }
    }
}

impl Model {
    /// Files a page where it belongs now.
    fn file(&mut self, page: u32) {
        let in_memory = self.memory.contains(&page);
        let held = self.experts[self.leader].holds.contains(&page);
        let by_all = self.experts.iter().all(|expert| expert.holds.contains(&page));
        self.given_up.set(page, in_memory && !held);
        self.kept.set(page, in_memory && held && !by_all);
    }

    fn miss(&mut self, number: usize, page: u32) {
        let expert = &mut self.experts[number];
        expert.misses.push(self.time);
        let victim = expert.policy.access(page);
        if let Some(victim) = victim {
            expert.holds.remove(&victim);
        }
        expert.holds.insert(page);
        expert.missed.remove(&page);
        if let Some(victim) = victim {
            self.file(victim);
        }
        self.file(page);
    }

    /// Whether some expert had missed the page.
    fn look_at(&mut self, page: u32) -> bool {
        let missed = |expert: &Expert| expert.missed.contains(&page);
        let found = self.experts.iter().any(missed);
        self.time += u32::from(found);
        for number in 0..self.experts.len() {
            if self.experts[number].missed.contains(&page) {
                self.miss(number, page);
            }
        }
        found
    }

    /// The page given up first that has not been referenced since.
    fn find_victim(&mut self) -> u32 {
        loop {
            match self.given_up.pages.first().copied() {
                Some(page) if self.look_at(page) => {}
                Some(page) => return page,
                // The leader holds what memory holds: it gives up a page more.
                None => {
                    let page = self.experts[self.leader].policy.give_up();
                    self.experts[self.leader].holds.remove(&page);
                    self.file(page);
                }
            }
        }
    }

    /// The decayed misses. Those of more than 64 half-lives ago are less than rounding.
    fn score(&self, number: usize) -> f64 {
        let half_lives =
            self.experts[number].misses.iter().rev().map(|time| f64::from(self.time - time) / self.half_life);
        half_lives.take_while(|&ago| ago < 64.0).map(|ago| 0.5f64.powf(ago)).sum()
    }

    fn choose_leader(&mut self) {
        self.rest = self.rest.saturating_sub(1);
        let scores: Vec<f64> = (0..self.experts.len()).map(|number| self.score(number)).collect();
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        if self.rest == 0 && scores[self.leader] - least > self.margin {
            // Of equals the first: sums differ by what rounding does.
            let is_least = |score: &f64| *score - least < 1e-9;
            self.leader = scores.iter().position(is_least).expect("one of them");
            self.rest = (self.given_up.pages.len() + self.kept.pages.len()) / 16;
            let holds = &self.experts[self.leader].holds;
            let split = |pages: &[u32]| -> (Vec<u32>, Vec<u32>) {
                pages.iter().partition(|page| holds.contains(page))
            };
            let ((now_kept, still_given_up), (still_kept, now_given_up)) =
                (split(&self.given_up.pages), split(&self.kept.pages));
            self.given_up = Watched { pages: [still_given_up, now_given_up].concat(), next: 0 };
            self.kept = Watched { pages: [still_kept, now_kept].concat(), next: 0 };
        }
    }
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    auto(given.arguments, given.frames, references, 1)
}

/// AUTO with `frames` frames; a page belongs to the object that its number is modulo `objects`.
pub fn auto(arguments: &Arguments, frames: usize, references: &[u32], objects: u32) -> Vec<Step> {
    let given = Given { arguments, frames };
    let settle = given.pages(SETTLE.name, Rounding::Up) as u64;
    let make = |name: &str| {
        let (plain, settle) = name.strip_prefix("settled-").map_or((name, 0), |plain| (plain, settle));
        let spec = Spec::parse(plain).expect("checked by the spec");
        Expert {
            policy: spec.visit(Make { spec: &spec, frames, settle, objects }),
            holds: BTreeSet::new(),
            missed: BTreeSet::new(),
            misses: Vec::new(),
        }
    };
    let mut model = Model {
        experts: given.arguments.value("experts").split('+').map(make).collect(),
        memory: BTreeSet::new(),
        given_up: Watched::default(),
        kept: Watched::default(),
        leader: 0,
        rest: 0,
        time: 0,
        half_life: given.factor("half-life") * frames as f64,
        margin: given.factor("margin") * frames as f64,
    };
    let polls = given.whole("polls") as usize;
    references.iter().map(|&page| access(&mut model, frames, polls, page)).collect()
}

fn access(model: &mut Model, frames: usize, polls: usize, page: u32) -> Step {
    if model.memory.contains(&page) {
        for expert in &mut model.experts {
            if expert.holds.contains(&page) {
                assert_eq!(expert.policy.access(page), None);
            } else {
                expert.missed.insert(page);
            }
        }
        return Step::hit();
    }
    for poll in 0..polls {
        let watched = if poll % 2 == 0 { &mut model.given_up } else { &mut model.kept };
        if let Some(page) = watched.look() {
            model.look_at(page);
        }
    }
    model.time += 1;
    for number in 0..model.experts.len() {
        if model.experts[number].holds.contains(&page) {
            assert_eq!(model.experts[number].policy.access(page), None);
        } else {
            model.miss(number, page);
        }
    }
    model.choose_leader();
    let mut victim = None;
    if model.memory.len() == frames {
        let page = model.find_victim();
        victim = Some(page);
        model.memory.remove(&page);
        model.file(page);
    }
    model.memory.insert(page);
    model.file(page);
    Step::fault(victim)
}

/// Makes the machine of a policy.
struct Make<'a> {
    spec: &'a Spec,
    frames: usize,
    settle: u64,
    objects: u32,
}

impl Visitor for Make<'_> {
    type Output = Box<dyn Policy>;
    fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
        let machine = Machine::<P>::with_arguments(self.spec.arguments(), self.frames);
        let objects = self.objects;
        Box::new(machine.with_settling(self.settle).with_objects(move |page| page % objects))
    }
}
