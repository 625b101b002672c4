//! LIFO+: LIFO that spares pages in use near the top of the stack.
//!
//! Source: Y. Lee, "An adaptive page replacement scheme for scientific applications" (APR),
//! master's thesis, Seoul National University, 2020, section 3.2. There, LIFO+ is the policy to
//! fall back on when CLOCK does badly.
//!
//! Every object (large allocation, file) has a stack of its own, with the page fetched last on top.
//! A pointer goes from below the top to the bottom and starts again. It clears the bits of
//! referenced pages and stops at the first page without one. Pages stay where they are when hit. So
//! the pages that a loop is using right now stay, and so do those fetched long ago; the topmost
//! page below the loop's window goes.
//!
//! ```text
//!   top                              bottom
//!    5   4*  3*  2   1               fault on 6: 4 and 3 are spared, 2 goes
//!        ^ pointer
//!    6   5   4   3   1               the page that was on top starts without a bit
//!        ^ pointer
//! ```
//!
//! Choices where the source is silent: the source chooses within one object and does not say which
//! object gives up a page. Here, as in APR, it is the object of the page that CLOCK (over all
//! resident pages, new pages with a clear bit) would evict. With one object there is nothing to
//! choose. Two lists then read one reference bit, so the bit is copied into one bit for each list,
//! and neither hides a reference from the other.
//!
//! Pages may pass to another object while they stay resident, for example to the default object
//! when their own is freed. Such a page goes on top of the new object's stack, as if it had just
//! been fetched, and keeps its bits.
//!
//! Cost: hit nothing; fault amortised O(1): a list entry looked at loses a bit or is the choice.
//! `hand_steps` counts entries of either list looked at. 16 bytes a page seen, 16 bytes an object;
//! object numbers should be small.

use super::stacks::{Node, Stacks};
use crate::collections::{Links, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// A flag of a page; the others mean nothing if it is not resident.
const RESIDENT: u8 = 1;
/// Referenced, as far as its stack knows.
const LOCAL: u8 = 2;
/// Referenced, as far as CLOCK knows.
const GLOBAL: u8 = 4;

/// CLOCK's list of the resident pages, linked by their first nodes; the pointer is the hand.
const CLOCK: u32 = 0;

/// The stack of the resident pages of an object, linked by their second nodes.
fn stack_of(object: u32) -> u32 {
    CLOCK + 1 + object
}

/// LIFO with spared pages.
#[derive(Debug)]
pub struct LifoPlus {
    frames: usize,
    /// The flags of each page.
    flags: PageMap<u8>,
    /// The object that each resident page belongs to.
    objects: Links<1>,
    /// CLOCK's list and the stacks.
    lists: Stacks,
    hand_steps: u64,
}

impl Registered for LifoPlus {
    const INFO: Info = Info {
        name: "lifo-plus",
        summary: "LIFO, one stack an object, that spares referenced pages near the top",
        paper: "Lee, An adaptive page replacement scheme for scientific applications, thesis, 2020, section 3.2",
        parameters: &[SETTLE],
        presets: &[],
    };
    const BYTES_A_PAGE: usize = 18;

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, flags: PageMap::new(), objects: Links::new(), lists: Stacks::new(), hand_steps: 0 })
    }
}

impl LifoPlus {
    fn is_resident(&self, page: PageId) -> bool {
        self.flags.get(page) & RESIDENT != 0
    }

    /// The object of a page that has been resident.
    fn object(&self, page: PageId) -> u32 {
        self.objects.get(page, 0)
    }

    /// Clears a flag. Returns whether it was set.
    fn take(&mut self, page: PageId, flag: u8) -> bool {
        let flags = &mut self.flags[page];
        let was_set = *flags & flag != 0;
        *flags &= !flag;
        was_set
    }

    /// Takes over the reference bit of a resident page.
    fn fold<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        if mmu.test_and_clear_referenced(page) {
            self.flags[page] |= LOCAL | GLOBAL;
        }
    }

    /// Puts a resident page on its object's stack. The page below it starts again without a bit.
    fn push<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        let stack = stack_of(self.object(page));
        if let Some(second) = self.lists.push(stack, Node::second(page)) {
            self.fold(second, mmu);
            self.take(second, LOCAL);
        }
    }

    /// The object of the page that CLOCK would evict; the hand moves past that page.
    fn choose_object<M: Mmu>(&mut self, mmu: &mut M) -> Option<u32> {
        // One turn clears all bits; more are looked at only if pages are referenced meanwhile.
        let mut looks = 2 * self.lists.len(CLOCK);
        loop {
            let page = self.lists.pass(CLOCK)?;
            self.hand_steps += 1;
            looks -= 1;
            self.fold(page, mmu);
            if !self.take(page, GLOBAL) || looks == 0 {
                return Some(self.object(page));
            }
        }
    }

    /// The first page without a bit from the pointer on; the pointer moves past it.
    fn choose_page<M: Mmu>(&mut self, object: u32, mmu: &mut M) -> Option<PageId> {
        let stack = stack_of(object);
        let mut looks = 2 * self.lists.len(stack);
        loop {
            let page = self.lists.pass(stack)?;
            self.hand_steps += 1;
            looks -= 1;
            self.fold(page, mmu);
            if !self.take(page, LOCAL) || looks == 0 {
                return Some(page);
            }
        }
    }
}

impl Policy for LifoPlus {
    type Model = VmModel;

    const NEEDS_OBJECTS: bool = true;
    const NOT_SAMPLED: Option<&'static str> =
        Some("an object's stack decides, and of most objects a sample has no page or two");

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let object = self.object(self.lists.pointer(CLOCK)?);
        let is_alone = self.lists.len(stack_of(object)) == self.lists.len(CLOCK);
        let object = if is_alone { object } else { self.choose_object(mmu)? };
        self.choose_page(object, mmu)
    }

    fn evict(&mut self, page: PageId) {
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        let Reference { page, object, .. } = reference;
        self.flags.set(page, RESIDENT);
        self.objects.cover(page);
        self.objects.set(page, 0, object);
        self.lists.push_behind_pointer(CLOCK, Node::first(page));
        self.push(page, mmu);
        false
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.flags.prefetch(page);
        self.objects.prefetch(page);
        self.lists.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        if self.is_resident(page) {
            self.lists.remove(CLOCK, Node::first(page));
            self.lists.remove(stack_of(self.object(page)), Node::second(page));
            self.take(page, RESIDENT);
        }
    }

    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        if self.is_resident(page) && object != self.object(page) {
            self.lists.remove(stack_of(self.object(page)), Node::second(page));
            self.objects.set(page, 0, object);
            self.push(page, mmu);
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let residents = self.lists.len(CLOCK);
        ensure!(residents <= self.frames, "{residents} pages resident");
        self.lists.check()?;
        let mut in_clock = self.lists.iter(CLOCK);
        ensure!(in_clock.all(|page| self.is_resident(page)), "a page in CLOCK's list is not resident");
        let objects = self.flags.iter().map(|(page, _)| self.object(page) + 1).max().unwrap_or(0);
        let mut stacked = 0;
        for object in 0..objects {
            let mut stack = self.lists.iter(stack_of(object));
            let belongs = |page| self.is_resident(page) && self.object(page) == object;
            ensure!(stack.all(belongs), "a page in the stack of object {object} does not belong there");
            stacked += self.lists.len(stack_of(object));
        }
        ensure!(stacked == residents, "{stacked} of {residents} pages are in stacks");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, naive};
    use sweephand_checks::trying;

    /// The stack from the top down, `*` for a bit and `<` for the pointer.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<LifoPlus>::new("lifo-plus", 5);
        let states = machine.trace(&[1, 2, 3, 4, 5, 4, 3, 6, 6, 5, 7, 8], |machine| {
            let LifoPlus { lists, flags, .. } = machine.policy();
            let show = |page: PageId| {
                let referenced = machine.is_referenced(page) || flags[page] & LOCAL != 0;
                let marks = [(referenced, "*"), (lists.pointer(stack_of(0)) == Some(page), "<")];
                let marks = marks.map(|(holds, mark)| if holds { mark } else { "" });
                format!("{page}{}", marks.concat())
            };
            lists.iter(stack_of(0)).map(show).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "1<",
                "2 1<",
                "3 2< 1",
                "4 3< 2 1",
                "5 4< 3 2 1",
                "5 4*< 3 2 1",
                "5 4*< 3* 2 1",
                "6 5< 4 3 1", // 4 and 3 are spared, 2 goes
                "6* 5< 4 3 1",
                "6* 5*< 4 3 1",
                "7 6< 5 3 1", // 5 is spared, 4 goes; 6 starts again
                "8 7< 5 3 1",
            ]
        );
    }

    #[test]
    fn pages_follow_their_objects() {
        let mut machine = Machine::<LifoPlus>::new("lifo-plus", 5).with_objects(|page| page / 10);
        for page in [1, 10, 11, 12, 2] {
            machine.access(page);
        }
        let stacks = |machine: &Machine<LifoPlus>| {
            [0, 1, 2].map(|object| {
                let pages = machine.policy().lists.iter(stack_of(object)).map(|page| page.0);
                pages.collect::<Vec<_>>()
            })
        };
        assert_eq!(stacks(&machine), [vec![2, 1], vec![12, 11, 10], vec![]]);
        machine.free_object(1).unwrap();
        assert_eq!(stacks(&machine), [vec![12, 11, 10, 2, 1], vec![], vec![]]);
        machine.allocate(2, 11..20).unwrap();
        assert_eq!(stacks(&machine), [vec![10, 2, 1], vec![], vec![12, 11]]);
    }

    /// Several objects: the plain model says the same.
    #[test]
    fn agrees_with_the_naive_model_on_several_objects() {
        for objects in [2, 3, 5] {
            let _input = trying(|| format!("{objects} objects"));
            for_random_strings(|string, frames| {
                let mut machine =
                    Machine::<LifoPlus>::new("lifo-plus", frames).with_objects(move |page| page % objects);
                let victims: Vec<_> = string.iter().map(|&page| machine.access(page).victim).collect();
                let model = naive::lifo_plus(string, frames, |page| page % objects);
                let expected: Vec<_> = model.iter().map(|step| step.victims.first().copied()).collect();
                assert_eq!(victims, expected);
            });
        }
    }
}
