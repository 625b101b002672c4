//! APR: CLOCK over all pages and LIFO+ over the pages of an object each name a victim; the better
//! judge decides.
//!
//! A ghost is in the list of the policy that did not name it only: the other has done with it.

use super::{Given, Rounding, Step};

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
    replacements: u32,
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
    /// At equal scores LIFO+ decides, or else CLOCK.
    pub ties_to_fallback: bool,
    /// A ghost met in a search is taken for named, and the search goes on; or else it is the
    /// choice.
    pub search_on: bool,
    /// Resident pages that LIFO+ named stay in its stack, to be passed; or else they leave it when
    /// they are passed, until they are used.
    pub named_stay: bool,
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
                replacements: 0,
                named: Vec::new(),
            });
        }
        if let Some((judge, time)) = record {
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
        // Multiplied in the order of the policy: equal scores decide, so the last bit counts.
        let (mut weight, mut factor, mut age) = (1.0, decay, object.replacements - time);
        while age > 0 {
            if age % 2 == 1 {
                weight *= factor;
            }
            factor *= factor;
            age /= 2;
        }
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

    /// What CLOCK names; ghosts may be left out altogether.
    fn clock_choice(&mut self, ghosts_too: bool) -> Option<u32> {
        for _ in 0..2 * self.ring.len() {
            let id = self.ring[self.hand];
            self.fold(id);
            self.hand = (self.hand + 1) % self.ring.len();
            if (ghosts_too || self.page(id).resident) && self.would_name(id, Clock) {
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
            let is_named = self.page(id).record.is_some_and(|(judge, _)| judge == LifoPlus);
            if is_named && !self.options.named_stay {
                self.leave_stack(id);
                self.object(number).named.push(id);
            } else if self.would_name(id, LifoPlus) {
                return Some(id);
            }
        }
        None
    }

    /// Whether a judge names the page that it looks at. It spares what it has named before, and
    /// what has its bit set, once; in a ghost, as a rule, it just sees its rival proved right.
    fn would_name(&mut self, id: u32, by: Judge) -> bool {
        let search_on = self.options.search_on;
        let page = self.page(id);
        if page.record.is_some_and(|(judge, _)| judge == by) {
            return false;
        }
        if std::mem::take(if by == Clock { &mut page.clock_bit } else { &mut page.stack_bit }) {
            return false;
        }
        let is_passed = !page.resident && search_on;
        if is_passed {
            self.end_record(id, true);
        }
        !is_passed
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
        if self.page(id).record.is_some() {
            return self.end_record(id, true);
        }
        let number = self.page(id).object;
        let time = self.object(number).replacements;
        self.page(id).record = Some((judge, time));
        if judge == Clock {
            self.named.push(id);
        } else if self.options.named_stay {
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
        let Some(by_clock) = self.clock_choice(true) else { return self.oldest_of_clock() };
        let number = self.page(by_clock).object;
        let by_lifo = self.lifo_choice(number).unwrap_or(by_clock);
        let AprOptions { decay, ties_to_fallback, .. } = self.options;
        let object = self.object(number);
        let lifo_decides = if object.lifo_score == object.clock_score {
            ties_to_fallback
        } else {
            object.lifo_score > object.clock_score
        };
        object.replacements += 1;
        object.lifo_score *= decay;
        object.clock_score *= decay;
        if by_clock != by_lifo {
            self.name(by_clock, Clock);
            self.name(by_lifo, LifoPlus);
        }
        let (winner, choice, other) =
            if lifo_decides { (LifoPlus, by_lifo, by_clock) } else { (Clock, by_clock, by_lifo) };
        if self.is_resident(choice) {
            return choice;
        }
        if let Some(page) = self.first_named(winner, number) {
            return page;
        }
        if self.is_resident(other) {
            return other;
        }
        self.clock_choice(false).unwrap_or_else(|| self.oldest_of_clock())
    }

    /// All resident pages have been named by CLOCK.
    fn oldest_of_clock(&self) -> u32 {
        *self.named.first().expect("memory is full")
    }
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let options = AprOptions {
        decay: given.factor("decay"),
        ghosts: given.pages("ghosts", Rounding::Nearest),
        ties_to_fallback: given.arguments.value("ties") == "fallback",
        search_on: given.arguments.value("search") == "search-on",
        named_stay: given.arguments.value("named") == "stay",
    };
    apr(references, frames, &options, |_| 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, outcome, verification_row};
    use super::{AprOptions, apr};

    fn options(frames: usize) -> AprOptions {
        AprOptions { decay: 0.7, ghosts: frames, ties_to_fallback: true, search_on: false, named_stay: false }
    }

    #[test]
    fn verification_table() {
        let row = verification_row(|refs, frames| apr(refs, frames, &options(frames), |_| 0));
        assert_eq!(row, "9:234523 | 11:3453453 | 10:345678");
    }

    #[test]
    fn worked_example() {
        let options = AprOptions { decay: 0.5, ..options(3) };
        let steps = apr(&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], 3, &options, |_| 0);
        assert_eq!(outcome(&steps), "10:2342342");
    }

    #[test]
    fn long_loop() {
        let references: Vec<u32> = (0..1800).map(|time| time % 60).collect();
        assert_eq!(faults(&apr(&references, 40, &options(40), |_| 0)), 698);
    }
}
