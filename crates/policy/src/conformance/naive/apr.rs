//! APR: CLOCK over all pages and LIFO+ over the pages of an object each name a victim; the better
//! judge decides.
//!
//! A ghost is in the list of the policy that did not name it only: the other has done with it.

use super::{Given, Step};
use crate::Arguments;
use crate::arguments::Rounding;

/// Who names pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judge {
    Clock,
    LifoPlus,
}
use Judge::{Clock, LifoPlus};

#[derive(Clone, Debug)]
struct Page {
    id: u32,
    object: u32,
    resident: bool,
    /// Set by hardware at a hit.
    hardware_bit: bool,
    clock_bit: bool,
    stack_bit: bool,
    /// Who named it, in which replacement of its object.
    record: Option<(Judge, u32)>,
}

struct Object {
    number: u32,
    /// Top first.
    stack: Vec<u32>,
    /// Index of the page to look at next.
    rhead: usize,
    clock_score: f64,
    lifo_score: f64,
    /// The latest replacement of which a word was judged: the scores are as they were then.
    scored_at: u32,
    replacements: u32,
    in_charge: Judge,
    /// Pages that LIFO+ named (if these leave its stack: those that have left), the oldest first.
    named: Vec<u32>,
}

/// How APR reads what its source leaves open.
#[derive(Clone, Copy, Debug)]
pub struct AprOptions {
    /// d.
    pub decay: f64,
    /// Most ghosts.
    pub ghosts: usize,
    /// Who is in charge at equal scores.
    pub ties: Ties,
    /// What a policy does about a ghost that it meets.
    pub search: Search,
    /// What it does about a resident page that it has named before.
    pub named: Named,
    /// A fault on a ghost is judged before the replacement.
    pub judged_before: bool,
}

/// Who is in charge at equal scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ties {
    /// LIFO+.
    Fallback,
    /// CLOCK.
    Default,
    /// Whoever was; CLOCK at first.
    Last,
}

/// What a policy does about a ghost that it meets: take it for its choice, or praise the other for
/// it and search on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// The policy in charge searches on.
    InCharge,
    /// None does.
    OneChoice,
    /// Both do.
    Both,
}

/// What a policy does about a resident page that it has named before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// It names it again if it is in charge, or else passes it.
    Again,
    /// It passes it. From the stack of LIFO+ the page is gone then, until it is used.
    Pass,
    /// It passes it.
    Stay,
}

struct Apr {
    options: AprOptions,
    /// Resident pages and ghosts, in no order.
    pages: Vec<Page>,
    /// CLOCK's list.
    ring: Vec<u32>,
    /// Index of the page to look at next.
    hand: usize,
    objects: Vec<Object>,
    /// Pages that CLOCK named, the oldest first.
    named: Vec<u32>,
    /// By age.
    ghosts: Vec<u32>,
    /// Pages that may be passed because they have been named: 8 more for each replacement, and at
    /// most all in the ring.
    passes: usize,
}

/// APR with `frames` frames; `object` tells which object a page belongs to.
pub fn apr(
    references: &[u32],
    frames: usize,
    options: &AprOptions,
    object: impl Fn(u32) -> u32,
) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut apr = Apr {
        options: *options,
        pages: Vec::new(),
        ring: Vec::new(),
        hand: 0,
        objects: Vec::new(),
        named: Vec::new(),
        ghosts: Vec::new(),
        passes: 0,
    };
    let mut steps = Vec::new();
    for &page in references {
        let known = apr.pages.iter().position(|entry| entry.id == page);
        if let Some(entry) = known.filter(|&entry| apr.pages[entry].resident) {
            apr.pages[entry].hardware_bit = true;
            steps.push(Step::hit());
            continue;
        }
        let object = object(page);
        let record = known.and_then(|entry| apr.pages[entry].record);
        if let Some((judge, time)) = record
            && options.judged_before
        {
            apr.evaluate(object, judge, time, false);
        }
        if known.is_some() {
            apr.forget(page);
        }
        let residents = apr.pages.iter().filter(|entry| entry.resident).count();
        let victim = (residents == frames).then(|| apr.replace());
        if !apr.objects.iter().any(|other| other.number == object) {
            apr.objects.push(Object {
                number: object,
                stack: Vec::new(),
                rhead: 0,
                clock_score: 0.0,
                lifo_score: 0.0,
                scored_at: 0,
                replacements: 0,
                in_charge: if options.ties == Ties::Fallback { LifoPlus } else { Clock },
                named: Vec::new(),
            });
        }
        if let Some((judge, time)) = record
            && !options.judged_before
        {
            apr.evaluate(object, judge, time, false);
        }
        apr.fetch(page, object);
        steps.push(Step::fault(victim));
    }
    steps
}

impl Apr {
    fn page(&mut self, id: u32) -> &mut Page {
        self.pages.iter_mut().find(|entry| entry.id == id).expect("a page in the lists")
    }

    fn object(&mut self, number: u32) -> &mut Object {
        self.objects.iter_mut().find(|object| object.number == number).expect("an object with pages")
    }

    /// Takes a page out of everything.
    fn forget(&mut self, id: u32) {
        self.leave_ring(id);
        self.leave_stack(id);
        self.leave_queues(id);
        self.ghosts.retain(|&page| page != id);
        self.pages.retain(|page| page.id != id);
    }

    fn leave_ring(&mut self, id: u32) {
        let Some(place) = self.ring.iter().position(|&page| page == id) else { return };
        self.ring.remove(place);
        if self.hand > place {
            self.hand -= 1;
        }
        if self.hand == self.ring.len() {
            self.hand = 0;
        }
    }

    fn leave_stack(&mut self, id: u32) {
        let object = self.page(id).object;
        let object = self.object(object);
        let Some(place) = object.stack.iter().position(|&page| page == id) else { return };
        object.stack.remove(place);
        if object.rhead > place {
            object.rhead -= 1;
        }
        if object.rhead == object.stack.len() {
            object.rhead = 0;
        }
    }

    fn leave_queues(&mut self, id: u32) {
        self.named.retain(|&page| page != id);
        self.objects.iter_mut().for_each(|object| object.named.retain(|&page| page != id));
    }

    fn fetch(&mut self, id: u32, number: u32) {
        self.pages.push(Page {
            id,
            object: number,
            resident: true,
            hardware_bit: false,
            clock_bit: false,
            stack_bit: false,
            record: None,
        });
        // Just behind the hand.
        self.ring.insert(self.hand, id);
        self.hand = (self.hand + 1) % self.ring.len();
        self.push(id, number);
    }

    fn push(&mut self, id: u32, number: u32) {
        if let Some(&top) = self.object(number).stack.first() {
            self.fold(top);
            self.page(top).stack_bit = false;
        }
        let object = self.object(number);
        object.stack.insert(0, id);
        object.rhead = 1.min(object.stack.len() - 1);
    }

    fn evaluate(&mut self, number: u32, judge: Judge, time: u32, good: bool) {
        let decay = self.options.decay;
        let object = self.object(number);
        if time > object.scored_at {
            let factor = power(decay, time - object.scored_at);
            object.clock_score *= factor;
            object.lifo_score *= factor;
            object.scored_at = time;
        }
        let weight = power(decay, object.scored_at - time);
        let score = if judge == Clock { &mut object.clock_score } else { &mut object.lifo_score };
        *score += if good { weight } else { -weight };
    }

    /// Ends a page's record.
    fn end_record(&mut self, id: u32, good: bool) {
        let page = self.page(id);
        let (object, resident) = (page.object, page.resident);
        let Some((judge, time)) = page.record.take() else { return };
        self.leave_queues(id);
        self.evaluate(object, judge, time, good);
        if !resident {
            self.forget(id);
        } else if judge == LifoPlus && !self.object(object).stack.contains(&id) {
            // Where the search comes last; nothing changes at the top.
            let object = self.object(object);
            if object.rhead == 0 {
                object.stack.push(id);
            } else {
                object.stack.insert(object.rhead, id);
                object.rhead += 1;
            }
        }
    }

    /// Passes the hardware's bit on to both lists.
    fn fold(&mut self, id: u32) {
        let page = self.page(id);
        if page.resident && std::mem::take(&mut page.hardware_bit) {
            (page.clock_bit, page.stack_bit) = (true, true);
            self.end_record(id, false);
        }
    }

    /// What CLOCK names.
    fn clock_choice(&mut self) -> Option<u32> {
        for _ in 0..2 * self.ring.len() {
            let id = self.ring[self.hand];
            self.fold(id);
            self.hand = (self.hand + 1) % self.ring.len();
            if self.would_name(id, Clock) {
                return Some(id);
            }
            if self.is_known(id) && self.is_named_by(id, Clock) && !self.may_pass() {
                return Some(id);
            }
        }
        None
    }

    /// What LIFO+ names in an object.
    fn lifo_choice(&mut self, number: u32) -> Option<u32> {
        for _ in 0..2 * self.object(number).stack.len() {
            let object = self.object(number);
            let id = *object.stack.get(object.rhead)?;
            self.fold(id);
            let object = self.object(number);
            object.rhead = (object.rhead + 1) % object.stack.len();
            if self.options.named == Named::Pass && self.is_named_by(id, LifoPlus) {
                self.leave_stack(id);
                self.object(number).named.push(id);
            } else if self.would_name(id, LifoPlus) {
                return Some(id);
            } else if self.is_known(id) && self.is_named_by(id, LifoPlus) && !self.may_pass() {
                return None;
            }
        }
        None
    }

    /// Whether one more page that has been named may be passed.
    fn may_pass(&mut self) -> bool {
        let may = self.passes > 0;
        self.passes -= usize::from(may);
        may
    }

    fn is_known(&self, id: u32) -> bool {
        self.pages.iter().any(|page| page.id == id)
    }

    fn is_named_by(&mut self, id: u32, by: Judge) -> bool {
        self.page(id).record.is_some_and(|(judge, _)| judge == by)
    }

    /// Whether a policy names the page that it looks at. It spares a page that has its bit set,
    /// once.
    fn would_name(&mut self, id: u32, by: Judge) -> bool {
        let AprOptions { search, named, .. } = self.options;
        let page = self.page(id);
        let (resident, number) = (page.resident, page.object);
        if std::mem::take(if by == Clock { &mut page.clock_bit } else { &mut page.stack_bit }) {
            return false;
        }
        let is_in_charge = self.object(number).in_charge == by;
        if self.is_named_by(id, by) {
            return is_in_charge && named == Named::Again;
        }
        let has_no_residents = !self.pages.iter().any(|page| page.resident && page.object == number);
        let searches_on = match search {
            Search::InCharge => is_in_charge || has_no_residents,
            Search::OneChoice => false,
            Search::Both => true,
        };
        if !resident && searches_on {
            self.end_record(id, true);
            return false;
        }
        true
    }

    /// The next resident page without its bit: one that CLOCK has not named, or else any.
    fn next_resident(&mut self) -> Option<u32> {
        let mut named = None;
        for _ in 0..2 * self.ring.len() {
            let id = self.ring[self.hand];
            self.fold(id);
            self.hand = (self.hand + 1) % self.ring.len();
            let page = self.page(id);
            if !page.resident || std::mem::take(&mut page.clock_bit) {
                continue;
            }
            if !self.is_named_by(id, Clock) {
                return Some(id);
            }
            named = named.or(Some(id));
        }
        named
    }

    /// The first of a queue that is not known to have been used since, now that it has been looked
    /// at.
    fn first_named(&mut self, judge: Judge, number: u32) -> Option<u32> {
        loop {
            let queue = if judge == Clock { &self.named } else { &self.object(number).named };
            let first = *queue.first()?;
            self.fold(first);
            if self.page(first).record.is_some() {
                return Some(first);
            }
        }
    }

    fn name(&mut self, id: u32, judge: Judge) {
        if self.is_named_by(id, judge) {
            return;
        }
        if self.page(id).record.is_some() {
            return self.end_record(id, true);
        }
        let number = self.page(id).object;
        let time = self.object(number).replacements;
        self.page(id).record = Some((judge, time));
        if judge == Clock {
            self.named.push(id);
        } else if self.options.named != Named::Pass {
            self.object(number).named.push(id);
        }
    }

    fn is_resident(&self, id: u32) -> bool {
        self.pages.iter().any(|page| page.id == id && page.resident)
    }

    /// Frees a frame.
    fn replace(&mut self) -> u32 {
        let victim = self.choose();
        let page = self.page(victim);
        page.resident = false;
        let Some((judge, _)) = page.record else {
            self.forget(victim);
            return victim;
        };
        if judge == Clock {
            self.leave_ring(victim);
        } else {
            self.leave_stack(victim);
        }
        self.leave_queues(victim);
        self.ghosts.push(victim);
        if self.ghosts.len() > self.options.ghosts {
            self.forget(self.ghosts[0]);
        }
        victim
    }

    fn choose(&mut self) -> u32 {
        let AprOptions { ties, search, named, .. } = self.options;
        self.passes = (self.passes + 8).min(self.ring.len());
        for object in &mut self.objects {
            object.in_charge = match (object.clock_score > object.lifo_score, ties) {
                (true, _) => Clock,
                _ if object.clock_score < object.lifo_score => LifoPlus,
                (_, Ties::Fallback) => LifoPlus,
                (_, Ties::Default) => Clock,
                (_, Ties::Last) => object.in_charge,
            };
        }
        // In this reading nobody asks who was named first.
        let has_queues = named != Named::Again || search == Search::OneChoice;
        let Some(by_clock) = self.clock_choice() else {
            let first = self.named.first().copied().filter(|_| has_queues);
            return first.or_else(|| self.next_resident()).expect("memory is full");
        };
        let number = self.page(by_clock).object;
        let by_lifo = self.lifo_choice(number);
        self.object(number).replacements += 1;
        if by_lifo == Some(by_clock) {
            self.end_record(by_clock, true);
        } else {
            self.name(by_clock, Clock);
            if let Some(page) = by_lifo {
                self.name(page, LifoPlus);
            }
        }
        let agreed = by_lifo.unwrap_or(by_clock);
        let winner = self.object(number).in_charge;
        let (choice, other) = if winner == LifoPlus { (agreed, by_clock) } else { (by_clock, agreed) };
        if self.is_resident(choice) {
            return choice;
        }
        let oldest = if has_queues { self.first_named(winner, number) } else { None };
        let other = Some(other).filter(|page| self.is_resident(*page));
        oldest.or(other).or_else(|| self.next_resident()).expect("memory is full")
    }
}

/// `base` to a whole power, multiplied in the order of the policy: equal scores decide, so the last
/// bit counts.
fn power(base: f64, mut exponent: u32) -> f64 {
    let (mut power, mut factor) = (1.0, base);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power *= factor;
        }
        factor *= factor;
        exponent /= 2;
    }
    power
}

impl AprOptions {
    /// What the policy's arguments say.
    pub fn new(arguments: &Arguments, frames: usize) -> Self {
        let given = Given { arguments, frames };
        Self {
            decay: given.factor("decay"),
            ghosts: given.pages("ghosts", Rounding::Nearest),
            ties: match arguments.value("ties") {
                "fallback" => Ties::Fallback,
                "default" => Ties::Default,
                _ => Ties::Last,
            },
            search: match arguments.value("search") {
                "in-charge" => Search::InCharge,
                "one-choice" => Search::OneChoice,
                _ => Search::Both,
            },
            named: match arguments.value("named") {
                "again" => Named::Again,
                "pass" => Named::Pass,
                _ => Named::Stay,
            },
            judged_before: arguments.value("judged") == "before",
        }
    }
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    apr(references, given.frames, &AprOptions::new(given.arguments, given.frames), |_| 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, outcome, outcomes_on_examples};
    use super::{AprOptions, Named, Search, Ties, apr};

    fn options(frames: usize) -> AprOptions {
        AprOptions {
            decay: 0.7,
            ghosts: frames,
            ties: Ties::Fallback,
            search: Search::InCharge,
            named: Named::Again,
            judged_before: false,
        }
    }

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| apr(refs, frames, &options(frames), |_| 0));
        assert_eq!(row, "9:234523 | 11:3453453 | 10:345678");
    }

    #[test]
    fn follows_the_worked_example() {
        let options = AprOptions { decay: 0.5, ..options(3) };
        let steps = apr(&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], 3, &options, |_| 0);
        assert_eq!(outcome(&steps), "10:2342342");
    }

    #[test]
    fn keeps_part_of_a_loop() {
        let references: Vec<u32> = (0..1800).map(|time| time % 60).collect();
        assert_eq!(faults(&apr(&references, 40, &options(40), |_| 0)), 698);
    }
}
