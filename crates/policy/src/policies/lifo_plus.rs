//! LIFO+: LIFO that spares pages in use near the top of the stack.
//!
//! Source: the APR thesis of 2020, section 3.2, where LIFO+ is the policy to fall back on when CLOCK does badly.
//! Every object (large allocation, file) has a stack of its own, the page fetched last on top. A pointer goes from
//! below the top to the bottom and round, clears the bits of referenced pages and stops at the first page without one.
//! Pages stay where they are when hit. So the pages that a loop is going through just now stay, and so do those
//! fetched long ago; the topmost page below the loop's window goes.
//!
//! ```text
//!   top                              bottom
//!    5   4*  3*  2   1               fault on 6: 4 and 3 are spared, 2 goes
//!        ^ pointer
//!    6   5   4   3   1               the page that was on top starts without a bit
//!        ^ pointer
//! ```
//!
//! What the source leaves open: which object gives up a page, as it chooses within one object only. Here, as in APR,
//! it is the object of the page that CLOCK (over all resident pages, new pages with a clear bit) would evict; with one
//! object there is nothing to choose. Two lists then read one reference bit, so it is folded into a bit for each, and
//! neither hides a reference from the other.
//!
//! Cost: hit nothing; fault amortised O(1): a list entry looked at loses a bit or is the choice. `hand_steps` counts
//! entries of either list looked at. 22 bytes a page seen, 8 bytes an object; object numbers are expected to be small.

use crate::collections::{PageMap, Ring};
use crate::interface::ensure;
use crate::registry::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    resident: bool,
    /// Referenced, as far as the stack knows.
    local: bool,
    /// Referenced, as far as CLOCK knows.
    global: bool,
    /// The object that it belongs to.
    object: u32,
    /// The page above it in the stack; the bottom, for the top.
    above: u32,
    /// The page below it; the top, for the bottom.
    below: u32,
}

/// The stack of an object.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// The page fetched last, or `NIL`.
    top: u32,
    /// The page to look at next; meaningless while the stack is empty.
    pointer: u32,
}

/// LIFO with spared pages.
#[derive(Debug)]
pub struct LifoPlus {
    frames: usize,
    pages: PageMap<Entry>,
    /// By object.
    stacks: Vec<Stack>,
    /// Stacks that are not empty.
    occupied_stacks: usize,
    /// CLOCK's list of the resident pages.
    clock: Ring,
    /// CLOCK's hand; meaningless while no page is resident.
    hand: PageId,
    hand_steps: u64,
}

impl Registered for LifoPlus {
    const INFO: Info = Info {
        name: "lifo-plus",
        summary: "LIFO, one stack an object, that spares referenced pages near the top",
        paper: "the APR thesis, 2020, section 3.2",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            pages: PageMap::new(),
            stacks: Vec::new(),
            occupied_stacks: 0,
            clock: Ring::new(),
            hand: PageId(0),
            hand_steps: 0,
        })
    }
}

impl LifoPlus {
    /// Takes over the reference bit of a resident page.
    fn fold<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        if mmu.test_and_clear_referenced(page) {
            let entry = &mut self.pages[page];
            (entry.local, entry.global) = (true, true);
        }
    }

    /// The object of the page that CLOCK would evict; the hand moves past that page.
    fn choose_object<M: Mmu>(&mut self, mmu: &mut M) -> u32 {
        // One turn clears all bits; more are looked at only if pages are referenced meanwhile.
        let mut looks = 2 * self.clock.len();
        loop {
            let page = self.hand;
            self.hand_steps += 1;
            looks -= 1;
            self.fold(page, mmu);
            self.hand = self.clock.next(page);
            if !core::mem::take(&mut self.pages[page].global) || looks == 0 {
                return self.pages[page].object;
            }
        }
    }

    /// The first page without a bit from the pointer on; the pointer moves past it.
    fn choose_page<M: Mmu>(&mut self, object: u32, mmu: &mut M) -> PageId {
        let mut looks = 2 * self.clock.len();
        loop {
            let page = PageId(self.stacks[object as usize].pointer);
            self.hand_steps += 1;
            looks -= 1;
            self.fold(page, mmu);
            self.stacks[object as usize].pointer = self.pages[page].below;
            if !core::mem::take(&mut self.pages[page].local) || looks == 0 {
                return page;
            }
        }
    }
}

impl Policy for LifoPlus {
    type Model = VmModel;

    const NEEDS_OBJECTS: bool = true;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        if self.clock.is_empty() {
            return None;
        }
        let object =
            if self.occupied_stacks == 1 { self.pages[self.hand].object } else { self.choose_object(mmu) };
        Some(self.choose_page(object, mmu))
    }

    fn evict(&mut self, page: PageId) {
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        let (page, object) = (reference.page, reference.object);
        self.pages.cover(page);
        if self.clock.is_empty() {
            self.clock.insert_first(page);
            self.hand = page;
        } else {
            self.clock.insert_before(self.hand, page);
        }
        if self.stacks.len() <= object as usize {
            self.stacks.resize(object as usize + 1, Stack { top: NIL, pointer: NIL });
        }
        let old_top = core::mem::replace(&mut self.stacks[object as usize].top, page.0);
        let mut entry = Entry { resident: true, object, above: page.0, below: page.0, ..Entry::default() };
        if old_top == NIL {
            self.occupied_stacks += 1;
            self.stacks[object as usize].pointer = page.0;
        } else {
            let second = PageId(old_top);
            self.fold(second, mmu);
            self.pages[second].local = false;
            let bottom = core::mem::replace(&mut self.pages[second].above, page.0);
            self.pages[PageId(bottom)].below = page.0;
            (entry.above, entry.below) = (bottom, old_top);
            self.stacks[object as usize].pointer = old_top;
        }
        self.pages[page] = entry;
        false
    }

    fn remove(&mut self, page: PageId) {
        let Entry { resident, object, above, below, .. } = self.pages.get(page);
        if !resident {
            return;
        }
        if self.hand == page {
            self.hand = self.clock.next(page);
        }
        self.clock.remove(page);
        let stack = &mut self.stacks[object as usize];
        if below == page.0 {
            stack.top = NIL;
            self.occupied_stacks -= 1;
        } else {
            for place in [&mut stack.top, &mut stack.pointer] {
                if *place == page.0 {
                    *place = below;
                }
            }
            self.pages[PageId(above)].below = below;
            self.pages[PageId(below)].above = above;
        }
        self.pages[page] = Entry::default();
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let residents = self.clock.len();
        ensure!(residents <= self.frames, "{residents} pages resident");
        let resident = self.pages.iter().filter(|(_, entry)| entry.resident).count();
        ensure!(resident == residents, "{resident} pages marked resident, {residents} in the list");
        if !self.clock.is_empty() {
            ensure!(self.pages[self.hand].resident, "the hand is on page {}", self.hand);
            ensure!(
                self.clock.iter_from(self.hand).all(|page| self.pages[page].resident),
                "a page in the list is not resident"
            );
            self.clock.check(self.hand)?;
        }
        let (mut stacked, mut occupied) = (0, 0);
        for (object, stack) in self.stacks.iter().enumerate().filter(|(_, stack)| stack.top != NIL) {
            occupied += 1;
            let (mut page, mut pointer_is_in_it) = (stack.top, false);
            loop {
                let entry = self.pages[PageId(page)];
                ensure!(
                    entry.resident && entry.object as usize == object,
                    "page {page} is in stack {object}"
                );
                let below = self.pages[PageId(entry.below)];
                ensure!(below.above == page, "stack {object}: broken link at {page}");
                pointer_is_in_it |= stack.pointer == page;
                stacked += 1;
                ensure!(stacked <= residents, "stack {object} does not close");
                page = entry.below;
                if page == stack.top {
                    break;
                }
            }
            ensure!(pointer_is_in_it, "stack {object}: the pointer is elsewhere");
        }
        ensure!(stacked == residents, "{stacked} of {residents} pages are in stacks");
        ensure!(occupied == self.occupied_stacks, "{occupied} stacks, not {}", self.occupied_stacks);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, naive};

    /// The stack from the top down, `*` for a bit and `<` for the pointer.
    #[test]
    fn worked_example() {
        let mut machine = Machine::<LifoPlus>::new("lifo-plus", 5);
        let states = machine.trace(&[1, 2, 3, 4, 5, 4, 3, 6, 6, 5, 7, 8], |machine| {
            let policy = machine.policy();
            let stack = policy.stacks[0];
            let show = |&page: &PageId| {
                let referenced = machine.is_referenced(page) || policy.pages[page].local;
                let marks = [(referenced, "*"), (stack.pointer == page.0, "<")];
                let marks = marks.map(|(holds, mark)| if holds { mark } else { "" });
                format!("{page}{}", marks.concat())
            };
            let below = |page: &PageId| Some(PageId(policy.pages[*page].below));
            let pages: Vec<_> =
                std::iter::successors(Some(PageId(stack.top)), below).take(policy.clock.len()).collect();
            pages.iter().map(show).collect::<Vec<_>>().join(" ")
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

    /// Several objects: the plain model says the same.
    #[test]
    fn agrees_with_the_naive_model_on_several_objects() {
        for objects in [2, 3, 5] {
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
