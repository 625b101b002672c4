//! APR: CLOCK and LIFO+ each name a page to evict. The policy whose choices have proved better
//! decides.
//!
//! Source: Y. Lee, "An adaptive page replacement scheme for scientific applications", master's
//! thesis, Seoul National University, 2020, chapter 3.
//!
//! The *default* policy is CLOCK over all pages. It fails on loops a little larger than memory. The
//! *fallback* is LIFO+ on the stack of one object, which is made for such loops. Each policy works
//! on a *virtual memory* of M pages: the memory that it would have if it alone decided. At a
//! replacement each names one page of its virtual memory.
//!
//! - The default names the page that CLOCK would evict. That page's object gives up a frame. The
//!   fallback names the page that LIFO+ would evict from that object's stack. The object's scores
//!   choose the *winner*.
//! - A page that a policy named leaves that policy's virtual memory, resident or not. A page that
//!   was evicted on the other policy's choice stays in it as a *ghost*. Both kinds of page carry a
//!   *record*: which policy named the page, and when.
//! - If the other policy names the page before the program uses it, the choice was good, and the
//!   policy is praised. If the program uses the page first, the policy is punished. Praise and
//!   punishment weigh d^(replacements in the object since then), and all scores of the object decay
//!   by d at a replacement. Then the record ends.
//! - If the winner names a ghost, it only brings its virtual memory down to M pages. The frame then
//!   comes from the resident page that the winner named longest ago.
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
//!   searched by CLOCK:   resident, named, ghosts of the fallback       (one ring; passes what it named)
//!   searched by LIFO+:   resident, named, ghosts of the default     (a stack an object; what it
//!                                                                    named leaves when passed)
//! ```
//!
//! Two lists read one reference bit, so the bit is copied into one bit for each list. The use of a
//! named page is noticed at that moment, or when the page faults.
//!
//! Choices where the thesis is silent. `papers/apr-2020/README.md` says what each gives on
//! SPLASH-3.
//! - A page that the fallback named and that stays resident keeps its place in the stack. That
//!   follows from section 3.2: a fetch puts a page on top, a use only sets its bit. When the
//!   pointer comes to the page again and the page has not been used, the page leaves the stack
//!   (`named=pass`). A later use puts it behind the pointer, with its bit set. So a search looks at
//!   a named page once more at most. If named pages stayed for good (`named=stay`), they would
//!   collect where each search begins: 40 to 80 of them on fft. In the ring named pages stay,
//!   because CLOCK's hand comes by only once a turn.
//! - Scores are equal at first. At equal scores the fallback decides, not the default
//!   (`ties=default`).
//! - A policy that meets a ghost names it, and nothing else (`search=one-choice`). The alternative
//!   is to praise the ghost away and to search on for a resident page (`search=search-on`). That
//!   takes several pages a fault out of the virtual memory, until only the newest are left, and the
//!   policy praises itself until it always wins.
//! - M ghosts at most (`ghosts`), and d = 0.7 (`decay`).
//! - A fault on a ghost is judged after the replacement that it causes, as in Figure 3.4. If both
//!   policies name one page, there is no record. If the fallback finds no page to name, it agrees.
//!   If the winner has named no resident page, the loser's choice goes, else the next resident page
//!   that CLOCK comes to.
//! - When an object is freed, its ghosts, records and scores end. Its resident pages go on top of
//!   the default object's stack, as if just fetched (`freed=bottom`: to its bottom). Pages that
//!   come under an allocation go on top of its stack in the same way.
//!
//! Cost: hit nothing; fault amortised O(1) but for CLOCK's hand. A look at an entry clears a bit,
//! ends in a choice, takes a named page from its stack, or passes a page in the ring that the
//! default named. The hand passes such a page once a turn, so where the fallback decides for long
//! and there are few faults, a search takes up to 75 looks (radiosity). `hand_steps` counts the
//! entries of either list looked at. 21 bytes a page seen, 4 a page that the default named, 56 an
//! object; object numbers should be small. Only a page that the default named can be in the lists
//! of both policies and in a queue as well; every other page has a free node, and the queue uses
//! it.

mod lazy_queue;

use super::stacks::{Node, Stacks};
use crate::arguments::{Parameter, Rounding};
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};
use alloc::vec::Vec;
use lazy_queue::LazyQueue;

/// One of the two policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Voice {
    /// CLOCK over all pages.
    Default,
    /// LIFO+ on the stack of an object.
    Fallback,
}
use Voice::{Default as ByDefault, Fallback as ByFallback};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Status {
    /// In no list.
    #[default]
    Absent,
    /// Resident, without a record.
    Resident,
    /// Resident, and named by a policy that lost, or whose word has not been carried out yet.
    Named(Voice),
    /// The same, named by the fallback, and not used when the pointer came by again.
    Passed,
    /// Evicted on the word of a policy, and remembered to judge it.
    Ghost(Voice),
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
    fn record(self) -> Option<Voice> {
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

    const fn flag(list: Voice) -> u32 {
        1 << (Self::STATUS_BITS + list as u32)
    }

    /// The page is referenced, as far as CLOCK and LIFO+ know.
    fn set_referenced(&mut self) {
        self.packed |= Self::flag(ByDefault) | Self::flag(ByFallback);
    }

    /// Returns whether the page is referenced as far as one of them knows, and clears that.
    fn take_referenced(&mut self, list: Voice) -> bool {
        let flag = Self::flag(list);
        let referenced = self.packed & flag != 0;
        self.packed &= !flag;
        referenced
    }
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, Default)]
struct Object {
    default_score: f64,
    fallback_score: f64,
    /// Replacements so far that began with a page of this object.
    replacements: u32,
}

impl Object {
    /// A replacement begins: what was judged before counts less.
    fn decay(&mut self, decay: f64) {
        self.replacements = self.replacements.wrapping_add(1);
        self.default_score *= decay;
        self.fallback_score *= decay;
    }

    /// A word given in the replacement `named_at` has proved good or bad.
    fn judge(&mut self, by: Voice, is_good: bool, named_at: u32, decay: f64) {
        let weight = power(decay, self.replacements.wrapping_sub(named_at));
        let score = match by {
            ByDefault => &mut self.default_score,
            ByFallback => &mut self.fallback_score,
        };
        *score += if is_good { weight } else { -weight };
    }

    fn winner(&self, ties: Voice) -> Voice {
        if self.default_score == self.fallback_score {
            ties
        } else if self.default_score > self.fallback_score {
            ByDefault
        } else {
            ByFallback
        }
    }
}

/// What CLOCK does about a ghost that its hand comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ghosts {
    /// Names it like a resident page.
    Name,
    /// Takes it for named, and searches on.
    Judge,
    /// Passes it.
    Pass,
}

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

/// CLOCK and LIFO+, each judged by what becomes of the pages that it names.
#[derive(Debug)]
pub struct Apr {
    frames: usize,
    /// d: what a judgement is worth one replacement later.
    decay: f64,
    /// Most ghosts.
    ghosts: usize,
    /// The winner at equal scores.
    ties: Voice,
    /// What the searches do about ghosts.
    search: Ghosts,
    /// Whether resident pages that the fallback named stay in its list for good.
    named_stay: bool,
    /// Whether pages that pass to another object go to the bottom of its stack.
    freed_to_bottom: bool,
    pages: PageMap<Page>,
    /// By number.
    objects: Vec<Object>,
    /// CLOCK's list, a stack and a queue an object, and the queue of ghosts.
    lists: Stacks,
    /// Resident pages that the default named.
    named_by_default: LazyQueue,
    /// The queues of the resident pages that the fallback named, if these stay in its stacks.
    stayed: Stacks,
    /// Resident pages.
    residents: usize,
    /// A page that faulted as a ghost: who had named it, and when. Judged when it comes in.
    faulted_ghost: Option<(Voice, u32)>,
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
                default: "fallback",
                meaning: "who decides at equal scores: fallback (LIFO+) or default (CLOCK)",
            },
            Parameter {
                name: "search",
                default: "one-choice",
                meaning: "a ghost met in a search: one-choice (it is the choice) or search-on",
            },
            Parameter {
                name: "named",
                default: "pass",
                meaning: "a page that LIFO+ named and that stays resident: pass (it leaves its stack when passed) or stay",
            },
            Parameter {
                name: "freed",
                default: "top",
                meaning: "where in its new stack a page goes that passes to another object: top or bottom",
            },
            SETTLE,
        ],
        presets: &[],
    };
    const BYTES_A_PAGE: usize = 25;

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let decay = arguments.factor("decay")?;
        if decay > 1.0 {
            return Err(arguments.bad("decay", arguments.value("decay"), "a number from 0 to 1"));
        }
        Ok(Self {
            frames,
            decay,
            ghosts: arguments.pages("ghosts", frames, Rounding::Nearest)?,
            ties: arguments.choice("ties", &[("fallback", ByFallback), ("default", ByDefault)])?,
            search: arguments
                .choice("search", &[("one-choice", Ghosts::Name), ("search-on", Ghosts::Judge)])?,
            named_stay: arguments.choice("named", &[("pass", false), ("stay", true)])?,
            freed_to_bottom: arguments.choice("freed", &[("top", false), ("bottom", true)])?,
            pages: PageMap::new(),
            objects: Vec::new(),
            lists: Stacks::new(),
            named_by_default: LazyQueue::new(),
            stayed: Stacks::new(),
            residents: 0,
            faulted_ghost: None,
            hand_steps: 0,
        })
    }
}

impl Apr {
    /// Whether pages of a status are in the list that a policy searches.
    fn is_in_list(status: Status, voice: Voice) -> bool {
        match status {
            Status::Absent => false,
            Status::Resident | Status::Named(_) => true,
            Status::Passed => voice == ByDefault,
            Status::Ghost(by) => by != voice,
        }
    }

    /// The queues of the resident pages that the fallback named, and whether a status is that of
    /// the pages in them.
    fn fallback_queues(&self) -> (&Stacks, Status) {
        if self.named_stay {
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
        self.residents += usize::from(status.is_resident());
        self.residents -= usize::from(old.is_resident());
        match old {
            Status::Ghost(ByDefault) => self.lists.remove(GHOSTS, in_clock),
            Status::Ghost(ByFallback) => self.lists.remove(GHOSTS, in_stack),
            Status::Named(ByDefault) => self.named_by_default.remove(page),
            Status::Named(ByFallback) if self.named_stay => {
                self.stayed.remove(named_by_fallback(object), in_stack);
            }
            Status::Passed => self.lists.remove(named_by_fallback(object), in_stack),
            Status::Absent | Status::Resident | Status::Named(ByFallback) => {}
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
            Status::Named(ByDefault) => self.named_by_default.push(page),
            Status::Named(ByFallback) if self.named_stay => {
                self.stayed.push(named_by_fallback(object), in_stack);
            }
            Status::Passed => {
                self.lists.push(named_by_fallback(object), in_stack);
            }
            Status::Absent | Status::Resident | Status::Named(ByFallback) => {}
        }
    }

    /// Takes a page's record, if it has one, and judges the policy that named it. A ghost is
    /// forgotten by that.
    fn judge(&mut self, page: PageId, is_good: bool) {
        let entry = self.pages[page];
        let status = entry.status();
        if let Some(by) = status.record() {
            self.objects[entry.object() as usize].judge(by, is_good, entry.named_at, self.decay);
            self.set_status(page, if status.is_resident() { Status::Resident } else { Status::Absent });
        }
    }

    /// A policy has named a page: a record, unless the page has one of the other policy, which is
    /// praised for it.
    fn name(&mut self, page: PageId, by: Voice) {
        let entry = &mut self.pages[page];
        if entry.status().record().is_some() {
            self.judge(page, true);
        } else {
            entry.named_at = self.objects[entry.object() as usize].replacements;
            self.set_status(page, Status::Named(by));
        }
    }

    /// The winner of a replacement, by what was judged before it; and the records of the two
    /// choices.
    fn decide(&mut self, by_default: PageId, by_fallback: PageId) -> Voice {
        let object = &mut self.objects[self.pages[by_default].object() as usize];
        let winner = object.winner(self.ties);
        object.decay(self.decay);
        if by_default != by_fallback {
            self.name(by_default, ByDefault);
            self.name(by_fallback, ByFallback);
        }
        winner
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
    fn choose_by_default<M: Mmu>(&mut self, ghosts: Ghosts, mmu: &mut M) -> Option<PageId> {
        let mut spared = None;
        // One turn clears all bits; a second ends it, unless pages are referenced meanwhile.
        for _ in 0..2 * self.lists.len(CLOCK) {
            let page = self.lists.pass(CLOCK)?;
            self.hand_steps += 1;
            self.fold(page, mmu);
            let entry = &mut self.pages[page];
            let status = entry.status();
            let is_ghost = !status.is_resident();
            if status.record() == Some(ByDefault) || (is_ghost && ghosts == Ghosts::Pass) {
                continue;
            }
            if entry.take_referenced(ByDefault) {
                if !is_ghost {
                    spared = Some(page);
                }
            } else if is_ghost && ghosts == Ghosts::Judge {
                self.judge(page, true);
            } else {
                return Some(page);
            }
        }
        spared
    }

    /// The page that LIFO+ would evict from its virtual memory of an object; the pointer moves past
    /// it. `None` if it has named all pages.
    fn choose_by_fallback<M: Mmu>(&mut self, object: u32, mmu: &mut M) -> Option<PageId> {
        let stack = stack_of(object);
        for _ in 0..2 * self.lists.len(stack) {
            let page = self.lists.pass(stack)?;
            self.hand_steps += 1;
            self.fold(page, mmu);
            let entry = &mut self.pages[page];
            let status = entry.status();
            if status == Status::Named(ByFallback) {
                if !self.named_stay {
                    self.set_status(page, Status::Passed);
                }
                continue;
            }
            if entry.take_referenced(ByFallback) {
                continue;
            }
            if !status.is_resident() && self.search == Ghosts::Judge {
                self.judge(page, true);
            } else {
                return Some(page);
            }
        }
        None
    }

    /// The resident page that a policy named longest ago, in an object if it was the fallback, not
    /// used since.
    fn oldest_named<M: Mmu>(&mut self, by: Voice, object: u32, mmu: &mut M) -> Option<PageId> {
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

    /// Makes room for what is known of an object.
    fn cover(&mut self, object: u32) {
        assert!(object < Page::OBJECTS, "object {object}: APR tells apart {} objects", Page::OBJECTS);
        if self.objects.len() <= object as usize {
            self.objects.resize(object as usize + 1, Object::default());
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
        self.faulted_ghost = entry.status().record().map(|by| (by, entry.named_at));
        self.remove(reference.page);
    }

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        if self.residents == 0 {
            return None;
        }
        let Some(by_default) = self.choose_by_default(self.search, mmu) else {
            return self.named_by_default.first();
        };
        let object = self.pages[by_default].object();
        let by_fallback = self.choose_by_fallback(object, mmu).unwrap_or(by_default);
        let winner = self.decide(by_default, by_fallback);
        let (choice, other) = match winner {
            ByDefault => (by_default, by_fallback),
            ByFallback => (by_fallback, by_default),
        };
        if self.pages[choice].status().is_resident() {
            return Some(choice);
        }
        let oldest = self.oldest_named(winner, object, mmu);
        oldest
            .or_else(|| Some(other).filter(|page| self.pages[*page].status().is_resident()))
            .or_else(|| self.choose_by_default(Ghosts::Pass, mmu))
            .or_else(|| self.named_by_default.first())
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
            self.objects[object as usize].judge(by, false, named_at, self.decay);
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
        self.pages[page].set_object(object);
        if self.freed_to_bottom {
            self.lists.push_to_bottom(stack_of(object), Node::second(page));
        } else {
            self.push(page, mmu);
        }
    }

    fn free_object(&mut self, object: u32) {
        if let Some(object) = self.objects.get_mut(object as usize) {
            *object = Object::default();
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
        let mut in_clock = self.lists.iter(CLOCK);
        ensure!(
            in_clock.all(|page| Self::is_in_list(self.pages[page].status(), ByDefault)),
            "a page in CLOCK's list does not belong there"
        );
        let mut in_ghosts = self.lists.iter(GHOSTS);
        let is_ghost = |page| matches!(self.pages[page].status(), Status::Ghost(_));
        ensure!(in_ghosts.all(is_ghost), "a page among the ghosts is none");
        let (fallback_queues, queued_status) = self.fallback_queues();
        let (mut stacked, mut queued) = (0, 0);
        for object in 0..self.objects.len() as u32 {
            let is_here = |page, in_list| self.pages[page].object() == object && in_list;
            let mut stack = self.lists.iter(stack_of(object));
            ensure!(
                stack.all(|page| is_here(page, Self::is_in_list(self.pages[page].status(), ByFallback))),
                "a page in the stack of object {object} does not belong there"
            );
            let mut queue = fallback_queues.iter(named_by_fallback(object));
            ensure!(
                queue.all(|page| is_here(page, self.pages[page].status() == queued_status)),
                "a page in the queue of object {object} does not belong there"
            );
            stacked += self.lists.len(stack_of(object));
            queued += fallback_queues.len(named_by_fallback(object));
        }
        let (mut residents, mut listed) = (0, [0; 4]);
        for (page, entry) in self.pages.iter() {
            let (status, named_at) = (entry.status(), entry.named_at);
            residents += usize::from(status.is_resident());
            let in_lists = [
                Self::is_in_list(status, ByDefault),
                Self::is_in_list(status, ByFallback),
                matches!(status, Status::Ghost(_)),
                status == queued_status,
            ];
            in_lists.iter().zip(&mut listed).for_each(|(is_in, pages)| *pages += usize::from(*is_in));
            ensure!(
                self.named_by_default.contains(page) == (status == Status::Named(ByDefault)),
                "page {page}, {status:?}: the queue of what the default named is wrong"
            );
            if status.record().is_some() {
                let replacements = self.objects[entry.object() as usize].replacements;
                ensure!(
                    (1..=replacements).contains(&named_at),
                    "page {page} was named at {named_at} of {replacements}"
                );
            }
        }
        ensure!(residents == self.residents, "{residents} pages resident, not {}", self.residents);
        let lens = [self.lists.len(CLOCK), stacked, ghosts, queued];
        ensure!(listed == lens, "{listed:?} pages in CLOCK's list, stacks, ghosts, named, not {lens:?}");
        let scores = |object: &Object| object.default_score.is_finite() && object.fallback_score.is_finite();
        ensure!(self.objects.iter().all(scores), "a score is not a number");
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
    fn figure_3_4() {
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
        policy.objects[0] = Object { default_score: 0.6, fallback_score: 0.4, replacements: 11 };
        for (replacement, [by_default, by_fallback, evicted], faulting, scores) in rows {
            let object = policy.objects[0];
            assert_eq!(object.replacements + 1, replacement);
            assert_eq!([object.default_score, object.fallback_score], scores);
            let faulting = reference(faulting.map_or(PageId(100 + replacement), id));
            policy.fault(faulting);
            let winner = policy.decide(id(by_default), id(by_fallback));
            assert_eq!(if winner == ByDefault { by_default } else { by_fallback }, evicted);
            policy.evict(id(evicted));
            policy.insert(faulting, &mut NoHits);
            policy.check().unwrap();
        }
    }

    /// The loop 1 2 3 4 in three frames, d = 0.5: scores of default and fallback after each
    /// reference, and the pages with a record: who named it, `d` or `f`, in which replacement, and
    /// in brackets if it is a ghost.
    #[test]
    fn worked_example() {
        let mut machine = Machine::<Apr>::new("apr:decay=0.5", 3);
        let states = machine.trace(&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], |machine| {
            let policy = machine.policy();
            let Object { default_score, fallback_score, .. } = policy.objects[0];
            let record = |(page, entry): (PageId, Page)| {
                let by = if entry.status().record()? == ByDefault { 'd' } else { 'f' };
                let record = format!("{page}{by}{}", entry.named_at);
                Some(if entry.status().is_resident() { record } else { format!("[{record}]") })
            };
            let records: Vec<_> = policy.pages.iter().filter_map(record).collect();
            format!("{default_score} {fallback_score} {}", records.join(" "))
        });
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
        assert_eq!(outcome(&run("apr:decay=0.5", &string, 3)), "10:2342342");
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
        let readings = [
            (2, "apr", false, false),
            (3, "apr", false, false),
            (5, "apr:search=search-on", true, false),
            (3, "apr:named=stay", false, true),
        ];
        for (objects, spec, search_on, named_stay) in readings {
            for_random_strings(|string, frames| {
                let mut machine = Machine::<Apr>::new(spec, frames).with_objects(move |page| page % objects);
                let victims: Vec<_> = string.iter().map(|&page| machine.access(page).victim).collect();
                let options = naive::AprOptions {
                    decay: 0.7,
                    ghosts: frames,
                    ties_to_fallback: true,
                    search_on,
                    named_stay,
                };
                let model = naive::apr(string, frames, &options, |page| page % objects);
                let expected: Vec<_> = model.iter().map(|step| step.victims.first().copied()).collect();
                assert_eq!(victims, expected, "{spec}, {objects} objects, {frames} frames, {string:?}");
            });
        }
    }

    /// Looks at list entries per fault stay few in a large memory, whichever way its contents are
    /// used.
    #[test]
    fn the_cost_of_a_fault_does_not_grow_with_memory() {
        let steps_per_fault = |frames: u32, shape: u64| {
            let mut random = crate::SplitMix64::new(shape);
            let mut below = |bound: u32| random.below(u64::from(bound)) as u32;
            let mut bits = Bits(Vec::new());
            let mut policy = apr("apr", frames as usize);
            let (mut resident, mut free, mut faults) = (PageMap::<bool>::new(), frames, 0_u32);
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
                let reference = Reference { page, page_number: 0, object: 0, next_use: crate::NEVER };
                if resident.get(page) {
                    bits.0[page.index()] = true;
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
            policy.hand_steps() as f64 / f64::from(faults)
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
        assert_eq!(after_free("apr"), "13 12 10 1");
        assert_eq!(after_free("apr:freed=bottom"), "1 10 12 13");
    }

    #[test]
    fn a_resident_page_that_comes_under_an_allocation_changes_its_stack() {
        let mut machine = Machine::<Apr>::new("apr", 4);
        for page in [1, 2, 3, 4, 5] {
            machine.access(page);
        }
        assert_eq!(show(&machine, 0), "5 4 2 1!");
        machine.allocate(1, 1..4).unwrap();
        assert_eq!((show(&machine, 0), show(&machine, 1)), ("5 4".into(), "2 1".into()));
        assert_eq!(machine.policy().lists.len(GHOSTS), 0, "3 is forgotten");
    }
}
