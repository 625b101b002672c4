//! APR: CLOCK and LIFO+ each name a page to evict. The policy whose choices have proved better
//! decides.
//!
//! Source: Y. Lee, "An adaptive page replacement scheme for scientific applications", master's
//! thesis, Seoul National University, 2020, chapter 3.
//!
//! The *default* policy is CLOCK over all pages. It fails on loops a little larger than memory. The
//! *fallback* is LIFO+ on the stack of one object, which is made for such loops. At a replacement
//! each names one page.
//!
//! - The default names the page that CLOCK would evict. That page's object gives up a frame. The
//!   fallback names the page that LIFO+ would evict from that object's stack. The object's scores
//!   say which of the two policies is *in charge*: its choice is evicted.
//! - A page that a policy named carries a *record*: which policy named it, and when. If the page
//!   was evicted, it is a *ghost* and stays in the list of the other policy. If not, it stays in
//!   both.
//! - If the other policy names the page before the program uses it, the choice was good, and the
//!   policy is praised. If the program uses the page first, the policy is punished. Praise and
//!   punishment weigh d^(replacements in the object since then), and all scores of the object decay
//!   by d at a replacement. Then the record ends.
//! - The policy that is not in charge only says what it would do. It does not name a page twice,
//!   and if it names a ghost, that is its word for this replacement.
//! - The policy in charge has to give up a resident page. It may name one that it named when it was
//!   not in charge. If it comes to a ghost, it praises the other policy and searches on.
//!
//! ```text
//!                        named by X                   evicted
//!   fault ---> resident -------------------> named by X ---> ghost of X ---> forgotten
//!               |    ^                           |                 fault: punish X, and it comes in
//!               |    +---------------------------+                 named by the other: praise X
//!               |      used: punish X                              oldest of too many: nothing
//!               |      named by the other: praise X
//!               +---> forgotten: evicted on words that agree, or on a word that praised the other
//!
//!   searched by CLOCK:   resident, named, ghosts of the fallback       (one ring)
//!   searched by LIFO+:   resident, named, ghosts of the default     (a stack an object)
//! ```
//!
//! Two lists read one reference bit, so the bit is copied into one bit for each list. The use of a
//! named page is noticed at that moment, or when the page faults.
//!
//! Choices where the thesis is silent. `lab/papers/apr-2020/README.md` says what each gives on
//! SPLASH-3.
//! - A page that was named and stays resident may be named again by the policy in charge
//!   (`named=again`). In the other readings neither policy names it again: with `named=stay` both
//!   pass it, with `named=pass` LIFO+ also takes it from its stack when it passes it, until it is
//!   used. Then whoever is in charge goes without the pages that it named while the other was.
//!   `preset=once` is `named=pass,search=one-choice,ties=fallback`, which `apr` was.
//! - A ghost ends the search of the policy that is not in charge (`search=in-charge`). It could end
//!   both searches (`search=one-choice`): the frame then comes from the resident page that the
//!   policy in charge named longest ago. Or it could end neither (`search=search-on`).
//! - Scores are equal at first. At equal scores the default is in charge ("CLOCK by default"), not
//!   the fallback (`ties=fallback`; "otherwise the fallback") nor whoever was (`ties=last`). The
//!   thesis has both phrases. With the fallback in charge APR takes up to 48 % more faults than
//!   CLOCK (volrend).
//! - A fault on a ghost is judged after the replacement that it causes, as in Figure 3.4
//!   (`judged=before`: before it).
//! - M ghosts at most (`ghosts`), and d = 0.7 (`decay`).
//! - If both policies name one page, there is no record. If the fallback finds no page to name, the
//!   default's choice goes. Scores are kept as they were when a word was judged last, so they do
//!   not become equal by rounding to 0.
//! - When an object is freed, its ghosts, records and scores end. Its resident pages go on top of
//!   the default object's stack, as if just fetched (`freed=bottom`: to its bottom). Pages that
//!   come under an allocation go on top of its stack in the same way.
//! - For each replacement the two policies may pass eight pages because they have named them; what
//!   is not used is left for later. When nothing is left, CLOCK takes such a page for its choice,
//!   and LIFO+ names none. Ours, for the cost: no program of SPLASH-3 comes to it.
//!
//! Cost: hit nothing; fault amortised O(1). A look at an entry clears a bit, ends in a choice,
//! forgets a ghost, or is one of the eight passes. So F faults and B bits set by hits take 2 B + 11
//! F looks at most. `hand_steps` counts the entries of either list looked at. 20 bytes a page seen,
//! 64 an object; object numbers should be small. The readings with queues take 1 byte more a page,
//! and 4 a page that the default named. Only a page that the default named can be in the lists of
//! both policies and in a queue as well; every other page has a free node, and the queue uses it.

mod lazy_queue;

use super::stacks::{Node, Stacks};
use crate::arguments::{Parameter, Rounding};
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Preset, Reference, Violation, VmModel};
use alloc::vec::Vec;
use lazy_queue::LazyQueue;

/// One of the two policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SubPolicy {
    /// CLOCK over all pages.
    Default,
    /// LIFO+ on the stack of an object.
    Fallback,
}
use SubPolicy::{Default as ByDefault, Fallback as ByFallback};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Status {
    /// In no list.
    #[default]
    Absent,
    /// Resident, without a record.
    Resident,
    /// Resident, and named by a policy that lost, or whose word has not been carried out yet.
    Named(SubPolicy),
    /// The same, named by the fallback, and not used when the pointer came by again.
    Passed,
    /// Evicted on the word of a policy, and remembered to judge it.
    Ghost(SubPolicy),
}

impl Status {
    const ALL: [Self; 7] = [
        Self::Absent,
        Self::Resident,
        Self::Named(ByDefault),
        Self::Named(ByFallback),
        Self::Ghost(ByDefault),
        Self::Ghost(ByFallback),
        Self::Passed,
    ];

    /// Its place among all.
    fn index(self) -> usize {
        match self {
            Status::Absent => 0,
            Status::Resident => 1,
            Status::Named(by) => 2 + by as usize,
            Status::Ghost(by) => 4 + by as usize,
            Status::Passed => 6,
        }
    }

    fn is_resident(self) -> bool {
        matches!(self, Status::Resident | Status::Named(_) | Status::Passed)
    }

    /// Who named the page.
    fn record(self) -> Option<SubPolicy> {
        match self {
            Status::Named(by) | Status::Ghost(by) => Some(by),
            Status::Passed => Some(ByFallback),
            Status::Absent | Status::Resident => None,
        }
    }
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// The object that it belongs to, above the status and a shelter of the reference bit for each
    /// list.
    packed: u32,
    /// If it was named: in which replacement of the object.
    named_at: u32,
}

impl Page {
    const STATUS_BITS: u32 = 3;
    const FLAG_BITS: u32 = 2;
    const OBJECT_SHIFT: u32 = Self::STATUS_BITS + Self::FLAG_BITS;
    /// Objects have smaller numbers.
    const OBJECTS: u32 = 1 << (u32::BITS - Self::OBJECT_SHIFT);

    /// A page that is in no list.
    fn of(object: u32) -> Self {
        Self { packed: object << Self::OBJECT_SHIFT, named_at: 0 }
    }

    fn object(self) -> u32 {
        self.packed >> Self::OBJECT_SHIFT
    }

    fn set_object(&mut self, object: u32) {
        self.packed = self.packed & ((1 << Self::OBJECT_SHIFT) - 1) | object << Self::OBJECT_SHIFT;
    }

    fn status(self) -> Status {
        Status::ALL[(self.packed & ((1 << Self::STATUS_BITS) - 1)) as usize]
    }

    fn set_status(&mut self, status: Status) {
        self.packed = self.packed >> Self::STATUS_BITS << Self::STATUS_BITS | status.index() as u32;
    }

    const fn flag(list: SubPolicy) -> u32 {
        1 << (Self::STATUS_BITS + list as u32)
    }

    /// The page is referenced, as far as CLOCK and LIFO+ know.
    fn set_referenced(&mut self) {
        self.packed |= Self::flag(ByDefault) | Self::flag(ByFallback);
    }

    /// Returns whether the page is referenced as far as one of them knows, and clears that.
    fn take_referenced(&mut self, list: SubPolicy) -> bool {
        let flag = Self::flag(list);
        let referenced = self.packed & flag != 0;
        self.packed &= !flag;
        referenced
    }
}

/// What is known of an object.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// As they were right after the replacement `scored_at`: multiplied by the same power of d they
    /// compare alike, so neither comes to nothing while no word is judged.
    default_score: f64,
    fallback_score: f64,
    /// The latest replacement of which a word has been judged.
    scored_at: u32,
    /// Replacements so far that began with a page of this object.
    replacements: u32,
    /// Its resident pages.
    residents: u32,
    /// Whose choice is evicted. Stays as it is during a replacement.
    in_charge: SubPolicy,
    /// A word has been judged since that was decided.
    is_judged: bool,
}

impl Object {
    /// An object of which no word has been judged.
    const fn new(in_charge: SubPolicy) -> Self {
        Self {
            default_score: 0.0,
            fallback_score: 0.0,
            scored_at: 0,
            replacements: 0,
            residents: 0,
            in_charge,
            is_judged: false,
        }
    }

    /// A word given in the replacement `named_at` has proved good or bad.
    fn judge(&mut self, by: SubPolicy, is_good: bool, named_at: u32, decay: f64) {
        let later = named_at.wrapping_sub(self.scored_at);
        if later as i32 > 0 {
            let factor = power(decay, later);
            self.default_score *= factor;
            self.fallback_score *= factor;
            self.scored_at = named_at;
        }
        let weight = power(decay, self.scored_at.wrapping_sub(named_at));
        let score = match by {
            ByDefault => &mut self.default_score,
            ByFallback => &mut self.fallback_score,
        };
        *score += if is_good { weight } else { -weight };
        self.is_judged = true;
    }

    /// Decides who is in charge in the replacements to come. At equal scores it is `ties`, or if
    /// there is none whoever was.
    fn put_in_charge(&mut self, ties: Option<SubPolicy>) {
        self.is_judged = false;
        self.in_charge = if self.default_score > self.fallback_score {
            ByDefault
        } else if self.default_score < self.fallback_score {
            ByFallback
        } else {
            ties.unwrap_or(self.in_charge)
        };
    }
}

/// What becomes of a page that a policy named and that stays resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Named {
    /// The policy in charge may name it again. The other passes it.
    Again,
    /// It is passed; LIFO+ takes it from its stack then.
    Pass,
    /// It is passed, and stays in both lists.
    Stay,
}

/// What a policy does about a ghost that it comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Search {
    /// The policy in charge takes it for named and searches on. For the other it is the choice.
    InCharge,
    /// It is the choice.
    OneChoice,
    /// The policy takes it for named, and searches on.
    Both,
}

/// What a policy does about a page that it comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Regard {
    /// It is its choice.
    Choice,
    /// The other policy named it rightly.
    Praise,
    /// It has been named already.
    Pass,
}

/// How many pages the policies may pass for each replacement because they have named them; what is
/// not used is left for later ones.
const PASSES: usize = 8;

/// CLOCK's list, linked by first nodes; the pointer is the hand.
const CLOCK: u32 = 0;
/// Ghosts, the oldest at the bottom. They are linked by the node of the list that they are not in.
const GHOSTS: u32 = 1;

/// The list of LIFO+ for an object, linked by second nodes.
fn stack_of(object: u32) -> u32 {
    2 + 2 * object
}

/// Resident pages of an object that the fallback named and has passed since, the oldest at the
/// bottom. They are linked by second nodes.
fn named_by_fallback(object: u32) -> u32 {
    3 + 2 * object
}

/// CLOCK and LIFO+, each judged by what becomes of the pages that it names. The fields are the
/// parameters of the paper, the lists of both policies and what each is judged by.
#[derive(Debug)]
pub struct Apr {
    frames: usize,
    /// d: what a judgement is worth one replacement later.
    decay: f64,
    /// Most ghosts.
    ghosts: usize,
    /// Who is in charge at equal scores; `None`: whoever was before.
    ties: Option<SubPolicy>,
    search: Search,
    named: Named,
    /// Whether a fault on a ghost is judged before the replacement that it causes.
    judged_before: bool,
    /// Whether pages that pass to another object go to the bottom of its stack.
    freed_to_bottom: bool,
    pages: PageMap<Page>,
    /// By number.
    objects: Vec<Object>,
    /// Objects that have been judged since it was decided who is in charge of them.
    judged: Vec<u32>,
    /// CLOCK's list, a stack and a queue an object, and the queue of ghosts.
    lists: Stacks,
    /// Resident pages that the default named.
    named_by_default: LazyQueue,
    /// The queues of the resident pages that the fallback named, if these stay in its stacks.
    stayed: Stacks,
    /// Resident pages.
    residents: usize,
    /// Pages that the policies may pass because they named them.
    passes: usize,
    /// A page that faulted as a ghost: who had named it, and when, if that is judged when it comes
    /// in.
    faulted_ghost: Option<(SubPolicy, u32)>,
    /// Entries of either list looked at.
    hand_steps: u64,
}

impl Registered for Apr {
    const INFO: Info = Info {
        name: "apr",
        summary: "CLOCK or LIFO+ per object, whichever named better victims before",
        paper: "Lee, An adaptive page replacement scheme for scientific applications, thesis, 2020, chapter 3",
        parameters: &[
            Parameter {
                name: "decay",
                default: "0.7",
                meaning: "what a judgement is worth one replacement later, 0 to 1",
            },
            Parameter {
                name: "ghosts",
                default: "100%",
                meaning: "most evicted pages remembered, pages or share of memory",
            },
            Parameter {
                name: "ties",
                default: "default",
                meaning: "who is in charge at equal scores: default (CLOCK), fallback (LIFO+) or last (who was; CLOCK at first)",
            },
            Parameter {
                name: "search",
                default: "in-charge",
                meaning: "a ghost met in a search: one-choice (it is the choice), search-on (it is praised, and the search goes on) or in-charge (search-on for the policy in charge, one-choice for the other)",
            },
            Parameter {
                name: "named",
                default: "again",
                meaning: "a page that was named and stays resident: again (the policy in charge may name it again), pass (nobody does; it leaves LIFO+'s stack when passed) or stay (nobody does)",
            },
            Parameter {
                name: "judged",
                default: "after",
                meaning: "when a fault on a ghost counts: before or after the replacement that it causes",
            },
            Parameter {
                name: "freed",
                default: "top",
                meaning: "where in its new stack a page goes that passes to another object: top or bottom",
            },
            SETTLE,
        ],
        presets: &[Preset {
            name: "once",
            meaning: "no policy names a page twice",
            arguments: &[("named", "pass"), ("search", "one-choice"), ("ties", "fallback")],
        }],
    };
    const BYTES_A_PAGE: usize = 25;
    const REVISION: u32 = 2;

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let decay = arguments.factor("decay")?;
        if decay > 1.0 {
            return Err(arguments.bad("decay", arguments.value("decay"), "a number from 0 to 1"));
        }
        Ok(Self {
            frames,
            decay,
            ghosts: arguments.pages("ghosts", frames, Rounding::Nearest)?,
            ties: arguments.choice(
                "ties",
                &[("fallback", Some(ByFallback)), ("default", Some(ByDefault)), ("last", None)],
            )?,
            search: arguments.choice(
                "search",
                &[
                    ("in-charge", Search::InCharge),
                    ("one-choice", Search::OneChoice),
                    ("search-on", Search::Both),
                ],
            )?,
            named: arguments
                .choice("named", &[("again", Named::Again), ("pass", Named::Pass), ("stay", Named::Stay)])?,
            judged_before: arguments.choice("judged", &[("after", false), ("before", true)])?,
            freed_to_bottom: arguments.choice("freed", &[("top", false), ("bottom", true)])?,
            pages: PageMap::new(),
            objects: Vec::new(),
            judged: Vec::new(),
            lists: Stacks::new(),
            named_by_default: LazyQueue::new(),
            stayed: Stacks::new(),
            residents: 0,
            passes: 0,
            faulted_ghost: None,
            hand_steps: 0,
        })
    }
}

impl Apr {
    /// Whether pages of a status are in the list that a policy searches.
    fn is_in_list(status: Status, policy: SubPolicy) -> bool {
        match status {
            Status::Absent => false,
            Status::Resident | Status::Named(_) => true,
            Status::Passed => policy == ByDefault,
            Status::Ghost(by) => by != policy,
        }
    }

    /// The queues of the resident pages that the fallback named, and whether a status is that of
    /// the pages in them.
    fn fallback_queues(&self) -> (&Stacks, Status) {
        if self.named != Named::Pass {
            (&self.stayed, Status::Named(ByFallback))
        } else {
            (&self.lists, Status::Passed)
        }
    }

    /// The only place where a page's status, the counters and, but for pages that come in, the
    /// lists change.
    fn set_status(&mut self, page: PageId, status: Status) {
        let (in_clock, in_stack) = (Node::first(page), Node::second(page));
        let entry = &mut self.pages[page];
        let (object, old) = (entry.object(), entry.status());
        entry.set_status(status);
        let (comes, goes) = (status.is_resident(), old.is_resident());
        self.residents = self.residents + usize::from(comes) - usize::from(goes);
        let of_object = &mut self.objects[object as usize].residents;
        *of_object = *of_object + u32::from(comes) - u32::from(goes);
        match old {
            Status::Ghost(ByDefault) => self.lists.remove(GHOSTS, in_clock),
            Status::Ghost(ByFallback) => self.lists.remove(GHOSTS, in_stack),
            Status::Named(ByDefault) if self.has_queues() => self.named_by_default.remove(page),
            Status::Named(ByFallback) if self.has_queues() && self.named != Named::Pass => {
                self.stayed.remove(named_by_fallback(object), in_stack);
            }
            Status::Passed => self.lists.remove(named_by_fallback(object), in_stack),
            Status::Absent | Status::Resident | Status::Named(_) => {}
        }
        if Self::is_in_list(old, ByDefault) && !Self::is_in_list(status, ByDefault) {
            self.lists.remove(CLOCK, in_clock);
        }
        match (Self::is_in_list(old, ByFallback), Self::is_in_list(status, ByFallback)) {
            (true, false) => self.lists.remove(stack_of(object), in_stack),
            (false, true) if old != Status::Absent => {
                self.lists.push_behind_pointer(stack_of(object), in_stack);
            }
            _ => {}
        }
        match status {
            Status::Ghost(ByDefault) => {
                self.lists.push(GHOSTS, in_clock);
            }
            Status::Ghost(ByFallback) => {
                self.lists.push(GHOSTS, in_stack);
            }
            Status::Named(ByDefault) if self.has_queues() => self.named_by_default.push(page),
            Status::Named(ByFallback) if self.has_queues() && self.named != Named::Pass => {
                self.stayed.push(named_by_fallback(object), in_stack);
            }
            Status::Passed => {
                self.lists.push(named_by_fallback(object), in_stack);
            }
            Status::Absent | Status::Resident | Status::Named(_) => {}
        }
    }

    /// Whether it is known who was named in which order: the policy in charge may have named a
    /// ghost, and then it needs a page that it named before.
    fn has_queues(&self) -> bool {
        self.named != Named::Again || self.search == Search::OneChoice
    }

    /// A word of a policy on a page of an object has proved good or bad.
    fn score(&mut self, object: u32, by: SubPolicy, is_good: bool, named_at: u32) {
        let of_object = &mut self.objects[object as usize];
        if !of_object.is_judged {
            self.judged.push(object);
        }
        of_object.judge(by, is_good, named_at, self.decay);
    }

    /// Takes a page's record, if it has one, and judges the policy that named it. A ghost is
    /// forgotten by that.
    fn judge(&mut self, page: PageId, is_good: bool) {
        let entry = self.pages[page];
        let status = entry.status();
        if let Some(by) = status.record() {
            self.score(entry.object(), by, is_good, entry.named_at);
            self.set_status(page, if status.is_resident() { Status::Resident } else { Status::Absent });
        }
    }

    /// A policy has named a page: a record, unless the page has one. If it is of the other policy,
    /// that one is praised.
    fn name(&mut self, page: PageId, by: SubPolicy) {
        let entry = &mut self.pages[page];
        match entry.status().record() {
            Some(record) if record == by => {}
            Some(_) => self.judge(page, true),
            None => {
                entry.named_at = self.objects[entry.object() as usize].replacements;
                self.set_status(page, Status::Named(by));
            }
        }
    }

    /// A replacement: the records of the two choices. One that both name has been named rightly by
    /// the policy that named it before, if one did.
    fn record(&mut self, by_default: PageId, by_fallback: Option<PageId>) {
        let object = &mut self.objects[self.pages[by_default].object() as usize];
        object.replacements = object.replacements.wrapping_add(1);
        if by_fallback == Some(by_default) {
            self.judge(by_default, true);
        } else {
            self.name(by_default, ByDefault);
            if let Some(page) = by_fallback {
                self.name(page, ByFallback);
            }
        }
    }

    /// A replacement begins: from what was judged before it follows who is in charge.
    fn begin(&mut self) {
        self.passes = (self.passes + PASSES).min(self.lists.len(CLOCK));
        while let Some(object) = self.judged.pop() {
            self.objects[object as usize].put_in_charge(self.ties);
        }
    }

    /// What a policy does about a page with a record that has not been used: whether it may name
    /// it, and whether it praises the other instead.
    fn regard(&self, page: PageId, by: SubPolicy) -> Regard {
        let entry = self.pages[page];
        let status = entry.status();
        let object = &self.objects[entry.object() as usize];
        let in_charge = object.in_charge == by;
        if status.record() == Some(by) {
            return if in_charge && self.named == Named::Again { Regard::Choice } else { Regard::Pass };
        }
        let is_praised = match self.search {
            // The fallback has no page to give for it.
            Search::InCharge => in_charge || object.residents == 0,
            Search::OneChoice => false,
            Search::Both => true,
        };
        if !status.is_resident() && is_praised { Regard::Praise } else { Regard::Choice }
    }

    /// Takes over the reference bit of a page for both lists; if the page had been named, that was
    /// wrong.
    fn fold<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        let entry = &mut self.pages[page];
        if entry.status().is_resident() && mmu.test_and_clear_referenced(page) {
            entry.set_referenced();
            self.judge(page, false);
        }
    }

    /// The page that CLOCK would evict from its virtual memory; the hand moves past it. `None` if
    /// it has named all pages.
    fn choose_by_default<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        // One turn clears all bits; a second ends it, unless pages are referenced meanwhile.
        for _ in 0..2 * self.lists.len(CLOCK) {
            let page = self.lists.pass(CLOCK)?;
            self.hand_steps += 1;
            self.fold(page, mmu);
            if self.pages[page].take_referenced(ByDefault) {
                continue;
            }
            match self.regard(page, ByDefault) {
                Regard::Choice => return Some(page),
                Regard::Praise => self.judge(page, true),
                Regard::Pass if self.passes == 0 => return Some(page),
                Regard::Pass => self.passes -= 1,
            }
        }
        None
    }

    /// The page that LIFO+ would evict from its virtual memory of an object; the pointer moves past
    /// it. `None` if it has named all pages.
    fn choose_by_fallback<M: Mmu>(&mut self, object: u32, mmu: &mut M) -> Option<PageId> {
        let stack = stack_of(object);
        for _ in 0..2 * self.lists.len(stack) {
            let page = self.lists.pass(stack)?;
            self.hand_steps += 1;
            self.fold(page, mmu);
            if self.pages[page].take_referenced(ByFallback) {
                continue;
            }
            match self.regard(page, ByFallback) {
                Regard::Choice => return Some(page),
                Regard::Praise => self.judge(page, true),
                Regard::Pass if self.named == Named::Pass => self.set_status(page, Status::Passed),
                Regard::Pass if self.passes == 0 => return None,
                Regard::Pass => self.passes -= 1,
            }
        }
        None
    }

    /// The resident page that CLOCK's hand comes to next; one that CLOCK has not named, if there is
    /// any.
    fn next_resident<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let mut named = None;
        for _ in 0..2 * self.lists.len(CLOCK) {
            let page = self.lists.pass(CLOCK)?;
            self.hand_steps += 1;
            self.fold(page, mmu);
            let entry = &mut self.pages[page];
            let status = entry.status();
            if !status.is_resident() || entry.take_referenced(ByDefault) {
                continue;
            }
            if status.record() != Some(ByDefault) {
                return Some(page);
            }
            named = named.or(Some(page));
        }
        named
    }

    /// The resident page that a policy named longest ago, in an object if it was the fallback, not
    /// used since.
    fn oldest_named<M: Mmu>(&mut self, by: SubPolicy, object: u32, mmu: &mut M) -> Option<PageId> {
        loop {
            let page = match by {
                ByDefault => self.named_by_default.first()?,
                ByFallback => self.fallback_queues().0.bottom(named_by_fallback(object))?,
            };
            self.fold(page, mmu);
            if self.pages[page].status().record() == Some(by) {
                return Some(page);
            }
        }
    }

    /// Puts a page that is in no stack on its object's. The page below it starts again without a
    /// bit.
    fn push<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        let stack = stack_of(self.pages[page].object());
        if let Some(second) = self.lists.push(stack, Node::second(page)) {
            self.fold(second, mmu);
            self.pages[second].take_referenced(ByFallback);
        }
    }

    /// An object of which nothing is known.
    fn new_object(&self) -> Object {
        Object::new(self.ties.unwrap_or(ByDefault))
    }

    /// Makes room for what is known of an object.
    fn cover(&mut self, object: u32) {
        assert!(object < Page::OBJECTS, "object {object}: APR tells apart {} objects", Page::OBJECTS);
        if self.objects.len() <= object as usize {
            self.objects.resize(object as usize + 1, self.new_object());
        }
    }
}

impl Policy for Apr {
    type Model = VmModel;

    const NEEDS_OBJECTS: bool = true;
    const NOT_SAMPLED: Option<&'static str> =
        Some("an object's stack and scores decide, and of most objects a sample has no page or two");

    fn fault(&mut self, reference: Reference) {
        let entry = self.pages.get(reference.page);
        let record = entry.status().record().map(|by| (by, entry.named_at));
        self.faulted_ghost = record.filter(|_| !self.judged_before);
        if self.judged_before && record.is_some() {
            self.judge(reference.page, false);
        }
        self.remove(reference.page);
    }

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        if self.residents == 0 {
            return None;
        }
        self.begin();
        let Some(by_default) = self.choose_by_default(mmu) else {
            return self.named_by_default.first().or_else(|| self.next_resident(mmu));
        };
        let object = self.pages[by_default].object();
        let by_fallback = self.choose_by_fallback(object, mmu);
        self.record(by_default, by_fallback);
        let agreed = by_fallback.unwrap_or(by_default);
        let winner = self.objects[object as usize].in_charge;
        let (choice, other) = match winner {
            ByDefault => (by_default, agreed),
            ByFallback => (agreed, by_default),
        };
        let is_resident = |page: &PageId| self.pages[*page].status().is_resident();
        if is_resident(&choice) {
            return Some(choice);
        }
        let other = Some(other).filter(is_resident);
        let oldest = self.oldest_named(winner, object, mmu);
        oldest.or(other).or_else(|| self.next_resident(mmu))
    }

    fn evict(&mut self, page: PageId) {
        let record = self.pages[page].status().record();
        self.set_status(page, record.map_or(Status::Absent, Status::Ghost));
        if self.lists.len(GHOSTS) > self.ghosts
            && let Some(oldest) = self.lists.bottom(GHOSTS)
        {
            self.remove(oldest);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        let Reference { page, object, .. } = reference;
        self.cover(object);
        if let Some((by, named_at)) = self.faulted_ghost.take() {
            self.score(object, by, false, named_at);
        }
        self.pages.set(page, Page::of(object));
        self.lists.push_behind_pointer(CLOCK, Node::first(page));
        self.push(page, mmu);
        self.set_status(page, Status::Resident);
        false
    }

    fn remove(&mut self, page: PageId) {
        if self.pages.get(page).status() != Status::Absent {
            self.set_status(page, Status::Absent);
        }
    }

    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        let entry = self.pages.get(page);
        let (status, old) = (entry.status(), entry.object());
        if object == old || status == Status::Absent {
            return;
        }
        if !status.is_resident() {
            return self.remove(page);
        }
        self.cover(object);
        self.set_status(page, Status::Resident);
        self.lists.remove(stack_of(old), Node::second(page));
        self.objects[old as usize].residents -= 1;
        self.objects[object as usize].residents += 1;
        self.pages[page].set_object(object);
        if self.freed_to_bottom {
            self.lists.push_to_bottom(stack_of(object), Node::second(page));
        } else {
            self.push(page, mmu);
        }
    }

    fn free_object(&mut self, object: u32) {
        let fresh = self.new_object();
        if let Some(object) = self.objects.get_mut(object as usize) {
            // It may still be among the objects judged.
            *object = Object { residents: object.residents, is_judged: object.is_judged, ..fresh };
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.residents <= self.frames, "{} pages resident", self.residents);
        let ghosts = self.lists.len(GHOSTS);
        ensure!(ghosts <= self.ghosts, "{ghosts} ghosts");
        self.lists.check()?;
        self.named_by_default.check()?;
        self.stayed.check()?;
        self.check_lists_of_all()?;
        let (mut stacked, mut queued) = (0, 0);
        for object in 0..self.objects.len() as u32 {
            self.check_object(object)?;
            stacked += self.lists.len(stack_of(object));
            queued += self.fallback_queues().0.len(named_by_fallback(object));
        }
        let (mut residents, mut listed) = (0, [0; 4]);
        for (page, entry) in self.pages.iter() {
            self.check_page(page, entry)?;
            let status = entry.status();
            residents += usize::from(status.is_resident());
            let in_lists = [
                Self::is_in_list(status, ByDefault),
                Self::is_in_list(status, ByFallback),
                matches!(status, Status::Ghost(_)),
                self.is_queued(status),
            ];
            in_lists.iter().zip(&mut listed).for_each(|(is_in, pages)| *pages += usize::from(*is_in));
        }
        ensure!(residents == self.residents, "{residents} pages resident, not {}", self.residents);
        let lens = [self.lists.len(CLOCK), stacked, ghosts, queued];
        ensure!(listed == lens, "{listed:?} pages in CLOCK's list, stacks, ghosts, named, not {lens:?}");
        let scores = |object: &Object| object.default_score.is_finite() && object.fallback_score.is_finite();
        ensure!(self.objects.iter().all(scores), "a score is not a number");
        Ok(())
    }
}

/// What [`Policy::check`] looks at.
impl Apr {
    /// Whether a page of this status is in a queue of what the fallback named.
    fn is_queued(&self, status: Status) -> bool {
        self.has_queues() && status == self.fallback_queues().1
    }

    /// CLOCK's list and the ghosts have only pages that belong there.
    fn check_lists_of_all(&self) -> Result<(), Violation> {
        let mut in_clock = self.lists.iter(CLOCK);
        ensure!(
            in_clock.all(|page| Self::is_in_list(self.pages[page].status(), ByDefault)),
            "a page in CLOCK's list does not belong there"
        );
        let mut in_ghosts = self.lists.iter(GHOSTS);
        let is_ghost = |page| matches!(self.pages[page].status(), Status::Ghost(_));
        ensure!(in_ghosts.all(is_ghost), "a page among the ghosts is none");
        Ok(())
    }

    /// An object's stack and queue have only pages that belong there, and its residents are
    /// counted.
    fn check_object(&self, object: u32) -> Result<(), Violation> {
        let is_here = |page, in_list| self.pages[page].object() == object && in_list;
        let mut stack = self.lists.iter(stack_of(object));
        ensure!(
            stack.all(|page| is_here(page, Self::is_in_list(self.pages[page].status(), ByFallback))),
            "a page in the stack of object {object} does not belong there"
        );
        let is_resident = |entry: &Page| entry.object() == object && entry.status().is_resident();
        let residents = self.pages.iter().filter(|(_, entry)| is_resident(entry));
        ensure!(
            residents.count() == self.objects[object as usize].residents as usize,
            "the residents of object {object} are not counted right"
        );
        let mut queue = self.fallback_queues().0.iter(named_by_fallback(object));
        ensure!(
            queue.all(|page| is_here(page, self.is_queued(self.pages[page].status()))),
            "a page in the queue of object {object} does not belong there"
        );
        Ok(())
    }

    /// A page that the default named is in its queue, no other is, and a record says a replacement
    /// that has been.
    fn check_page(&self, page: PageId, entry: Page) -> Result<(), Violation> {
        let (status, named_at) = (entry.status(), entry.named_at);
        ensure!(
            self.named_by_default.contains(page) == (self.has_queues() && status == Status::Named(ByDefault)),
            "page {page}, {status:?}: the queue of what the default named is wrong"
        );
        if status.record().is_some() {
            let replacements = self.objects[entry.object() as usize].replacements;
            ensure!(
                (1..=replacements).contains(&named_at),
                "page {page} was named at {named_at} of {replacements}"
            );
        }
        Ok(())
    }
}

/// `base` to a whole power.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, faults, for_random_strings, naive, outcome, run};
    use crate::registry::Spec;

    fn apr(spec: &str, frames: usize) -> Apr {
        Apr::configure(frames, Spec::parse(spec).unwrap().arguments()).unwrap()
    }

    /// The scores of default and fallback in object 0, with what they have lost until now.
    fn scores_now(policy: &Apr) -> [f64; 2] {
        let object = policy.objects[0];
        let factor = power(policy.decay, object.replacements - object.scored_at);
        [object.default_score, object.fallback_score].map(|score| factor * score)
    }

    /// No page is ever referenced behind the policy's back.
    struct NoHits;
    impl Mmu for NoHits {
        fn test_and_clear_referenced(&mut self, _: PageId) -> bool {
            false
        }
    }

    /// Figure 3.4 of the thesis (d = 0.5): number of the replacement; the choices of default and
    /// fallback and the page evicted; the page that faults, if it is one of those; the scores of
    /// default and fallback before the replacement.
    #[test]
    fn scores_and_victims_are_those_of_figure_3_4() {
        let rows = [
            (12, ['A', 'B', 'A'], None, [0.6, 0.4]),
            (13, ['B', 'C', 'B'], None, [0.3, 0.2]),
            (14, ['D', 'E', 'E'], Some('A'), [0.15, 0.6]),
            (15, ['C', 'F', 'F'], None, [-0.175, 0.3]),
            (16, ['G', 'A', 'A'], None, [-0.0875, 0.4]),
        ];
        let id = |letter: char| PageId(letter as u32 - 'A' as u32);
        let reference = |page: PageId| Reference { page, page_number: 0, object: 0, next_use: crate::NEVER };
        let mut policy = apr("apr:decay=0.5", 7);
        for letter in 'A'..='G' {
            policy.insert(reference(id(letter)), &mut NoHits);
        }
        let object = &mut policy.objects[0];
        (object.default_score, object.fallback_score) = (0.6, 0.4);
        (object.scored_at, object.replacements) = (11, 11);
        policy.judged.push(0);
        for (replacement, [by_default, by_fallback, evicted], faulting, scores) in rows {
            assert_eq!(policy.objects[0].replacements + 1, replacement);
            assert_eq!(scores_now(&policy), scores);
            let faulting = reference(faulting.map_or(PageId(100 + replacement), id));
            policy.fault(faulting);
            policy.begin();
            policy.record(id(by_default), Some(id(by_fallback)));
            let is_default = policy.objects[0].in_charge == ByDefault;
            assert_eq!(if is_default { by_default } else { by_fallback }, evicted);
            policy.evict(id(evicted));
            policy.insert(faulting, &mut NoHits);
            policy.check().unwrap();
        }
    }

    /// The scores of default and fallback, and the pages with a record: who named it, `d` or `f`,
    /// in which replacement, and in brackets if it is a ghost.
    fn state(machine: &Machine<Apr>) -> String {
        let policy = machine.policy();
        let [default_score, fallback_score] = scores_now(policy);
        let record = |(page, entry): (PageId, Page)| {
            let by = if entry.status().record()? == ByDefault { 'd' } else { 'f' };
            let record = format!("{page}{by}{}", entry.named_at);
            Some(if entry.status().is_resident() { record } else { format!("[{record}]") })
        };
        let records: Vec<_> = policy.pages.iter().filter_map(record).collect();
        format!("{default_score} {fallback_score} {}", records.join(" "))
    }

    /// The loop 1 2 3 4 in three frames, d = 0.5.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Apr>::new("apr:decay=0.5,ties=fallback", 3);
        let states = machine.trace(&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], state);
        assert_eq!(
            states,
            [
                "0 0 ",
                "0 0 ",
                "0 0 ",
                "0 0 1d1 [2f1]", // 1 and 2 are named; the fallback decides at equal scores
                "0 0 1d1 [2f1]",
                "0 -0.5 1d1",   // the ghost was used: -0.5^1; both name 3
                "-0.25 -0.25 ", // 1 is found referenced: -0.5^2; both name 4
                "-0.125 -0.125 ",
                "-0.125 -0.125 ",
                "-0.0625 -0.0625 ",
                "-0.03125 -0.03125 ",
                "-0.015625 -0.015625 1d7 [2f7]",
            ]
        );
        let string = [1, 2, 3, 4].repeat(3);
        assert_eq!(outcome(&run("apr:decay=0.5,ties=fallback", &string, 3)), "10:2342342");
    }

    /// Four frames, d = 0.5, CLOCK in charge at first. At 6 LIFO+ is in charge: it spares 5 and
    /// comes to 4, which it named when CLOCK was.
    #[test]
    fn the_policy_in_charge_names_again_what_it_named_before() {
        let string = [1, 2, 3, 4, 5, 1, 5, 6, 4];
        let mut machine = Machine::<Apr>::new("apr:decay=0.5", 4);
        let states = machine.trace(&string, state);
        assert_eq!(
            states[4..],
            [
                "0 0 [1d1] 3f1",          // CLOCK names 1, which goes, and LIFO+ 3
                "-0.5 0 [2d2] 3f1 4f2",   // 2 and 4; the ghost 1 was used: -0.5^1 for CLOCK
                "-0.5 0 [2d2] 3f1 4f2",   // a hit on 5
                "-0.25 0.25 [2d2] [4f2]", // CLOCK names 3: 0.5^2 for LIFO+, which names 4 again
                "-0.125 -0.125 [2d2]",    // the ghost 4 was used: -0.5^2; both name 1
            ]
        );
        let outcome = |named: &str| outcome(&run(&format!("apr:decay=0.5{named}"), &string, 4));
        assert_eq!(outcome(""), "8:1241");
        // It passes 4 and 3, praises CLOCK for the ghost 2, and takes 1. So 4 stays, and is hit.
        assert_eq!(outcome(",named=stay"), "7:121");
    }

    #[test]
    fn a_loop_larger_than_memory_is_left_to_the_fallback() {
        let string: Vec<u32> = (0..60).collect::<Vec<_>>().repeat(30);
        let counts = ["apr", "lifo-plus", "clock", "opt"].map(|policy| faults(policy, &string, 40));
        assert_eq!(counts, [698, 698, 1800, 640]);
    }

    /// Several objects: the plain model says the same.
    #[test]
    fn agrees_with_the_naive_model_on_several_objects() {
        for (objects, spec) in [
            (2, "apr"),
            (3, "apr:ties=fallback"),
            (5, "apr:ties=last,judged=before"),
            (5, "apr:search=search-on"),
            (3, "apr:search=one-choice,ties=fallback"),
            (3, "apr:named=stay"),
            (2, "apr:preset=once"),
            (3, "apr:named=pass,search=search-on,judged=before"),
        ] {
            for_random_strings(|string, frames| {
                let mut machine = Machine::<Apr>::new(spec, frames).with_objects(move |page| page % objects);
                let victims: Vec<_> = string.iter().map(|&page| machine.access(page).victim).collect();
                let arguments = Spec::parse(spec).unwrap();
                let options = naive::AprOptions::new(arguments.arguments(), frames);
                let model = naive::apr(string, frames, &options, |page| page % objects);
                let expected: Vec<_> = model.iter().map(|step| step.victims.first().copied()).collect();
                assert_eq!(victims, expected, "{spec}, {objects} objects");
            });
        }
    }

    /// Looks at list entries per fault stay few in a large memory, whichever way its contents are
    /// used: two at most for each bit that was set, and eleven for each fault.
    #[test]
    fn the_cost_of_a_fault_does_not_grow_with_memory() {
        let steps_per_fault = |frames: u32, shape: u64| {
            let mut random = crate::SplitMix64::new(shape);
            let mut below = |bound: u32| random.below(u64::from(bound)) as u32;
            let mut bits = Bits(Vec::new());
            let mut policy = apr("apr", frames as usize);
            let (mut resident, mut free, mut faults) = (PageMap::<bool>::new(), frames, 0_u32);
            let mut bits_set = 0_u64;
            for time in 0..40 * frames {
                let page = match shape {
                    0 => time % (frames + frames / 2),
                    1 => below(2 * frames),
                    2 => {
                        let most = below(4 * frames);
                        below(most + 1)
                    }
                    // A scan that looks back, mostly at what it has just read.
                    3 => {
                        let farthest = if below(3) == 0 { frames / 4 } else { 2 };
                        time - below(farthest.min(time) + 1)
                    }
                    // A loop, and a hot set beside it.
                    _ if below(2) == 0 => below(frames / 2),
                    _ => frames / 2 + time / 2 % frames,
                };
                let page = PageId(page);
                // A part of the pages is of another object.
                let object = u32::from(page.0 < frames / 3);
                let reference = Reference { page, page_number: 0, object, next_use: crate::NEVER };
                if resident.get(page) {
                    bits_set += u64::from(!core::mem::replace(&mut bits.0[page.index()], true));
                    continue;
                }
                faults += 1;
                policy.fault(reference);
                if free > 0 {
                    free -= 1;
                } else {
                    let victim = policy.victim(&mut bits).unwrap();
                    resident.set(victim, false);
                    policy.evict(victim);
                }
                resident.set(page, true);
                bits.0.resize(bits.0.len().max(page.index() + 1), false);
                bits.0[page.index()] = false;
                policy.insert(reference, &mut bits);
            }
            let (looks, most) = (policy.hand_steps(), 2 * bits_set + 11 * u64::from(faults));
            assert!(looks <= most, "shape {shape}, {frames} frames: {looks} looks, {most} at most");
            looks as f64 / f64::from(faults)
        };
        for shape in 0..5 {
            let [small, large] = [100, 6400].map(|frames| steps_per_fault(frames, shape));
            assert!(
                large < 1.5 * small + 2.0 && large < 12.0,
                "shape {shape}: {small} steps a fault, then {large}"
            );
        }
    }

    /// Reference bits by page.
    struct Bits(Vec<bool>);
    impl Mmu for Bits {
        fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
            core::mem::take(&mut self.0[page.index()])
        }
    }

    /// The pages of an object's stack from the top down, with `'` for a ghost and `!` for a page
    /// that has been named.
    fn show(machine: &Machine<Apr>, object: u32) -> String {
        let policy = machine.policy();
        let show = |page: PageId| match policy.pages[page].status() {
            Status::Ghost(_) => format!("{page}'"),
            Status::Named(_) | Status::Passed => format!("{page}!"),
            Status::Resident | Status::Absent => format!("{page}"),
        };
        policy.lists.iter(stack_of(object)).map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_freed_object_leaves_its_resident_pages_to_the_default_object_and_nothing_else() {
        let after_free = |spec| {
            // Pages 10 to 19 are object 1.
            let mut machine = Machine::<Apr>::new(spec, 4).with_objects(|page| page / 10);
            for page in [10, 1, 11, 12, 13] {
                machine.access(page);
            }
            assert_eq!(show(&machine, 1), "13 12 10!");
            assert_eq!(machine.policy().objects[1].replacements, 1);
            assert_eq!(machine.policy().lists.len(GHOSTS), 1);
            machine.free_object(1).unwrap();
            assert_eq!(show(&machine, 1), "");
            assert_eq!(machine.policy().objects[1].replacements, 0);
            assert_eq!(machine.policy().lists.len(GHOSTS), 0);
            assert_eq!(machine.policy().residents, 4);
            show(&machine, 0)
        };
        assert_eq!(after_free("apr:ties=fallback"), "13 12 10 1");
        assert_eq!(after_free("apr:ties=fallback,freed=bottom"), "1 10 12 13");
    }

    #[test]
    fn a_resident_page_that_comes_under_an_allocation_changes_its_stack() {
        let mut machine = Machine::<Apr>::new("apr:ties=fallback", 4);
        for page in [1, 2, 3, 4, 5] {
            machine.access(page);
        }
        assert_eq!(show(&machine, 0), "5 4 2 1!");
        machine.allocate(1, 1..4).unwrap();
        assert_eq!((show(&machine, 0), show(&machine, 1)), ("5 4".into(), "2 1".into()));
        assert_eq!(machine.policy().lists.len(GHOSTS), 0, "3 is forgotten");
    }
}
