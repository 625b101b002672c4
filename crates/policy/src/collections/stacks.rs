//! Stacks of pages by number, each with a pointer that goes from the top to the bottom and round.

use super::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The page above; the bottom, for the top.
    above: u32,
    /// The page below; the top, for the bottom.
    below: u32,
    /// The stack that the page is in, or `NIL`.
    stack: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self { above: NIL, below: NIL, stack: NIL }
    }
}

#[derive(Clone, Copy, Debug)]
struct Stack {
    /// The page pushed last, or `NIL`.
    top: u32,
    /// The page to look at next; meaningless while the stack is empty.
    pointer: u32,
    len: usize,
}

/// Any number of stacks over the same pages, a page being in at most one of them. Pages can leave from anywhere.
///
/// Stacks are named by number and come to be when something is pushed on them, so numbers should be small. The bottom
/// is at hand too: pushed on top and taken from the bottom, pages queue.
/// Every operation is O(1). 12 bytes a page, 16 a stack.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    links: PageMap<Link>,
    stacks: Vec<Stack>,
    /// Stacks that are not empty.
    occupied: usize,
}

impl Stacks {
    /// No stacks.
    pub const fn new() -> Self {
        Self { links: PageMap::new(), stacks: Vec::new(), occupied: 0 }
    }

    /// The stack that a page is in.
    #[inline]
    pub fn stack_of(&self, page: PageId) -> Option<u32> {
        let stack = self.links.get(page).stack;
        (stack != NIL).then_some(stack)
    }

    /// Pages in a stack.
    #[inline]
    pub fn len(&self, stack: u32) -> usize {
        self.stacks.get(stack as usize).map_or(0, |stack| stack.len)
    }

    /// Stacks that are not empty.
    #[inline]
    pub fn occupied(&self) -> usize {
        self.occupied
    }

    /// The page pushed last.
    #[inline]
    pub fn top(&self, stack: u32) -> Option<PageId> {
        self.stacks.get(stack as usize).filter(|stack| stack.top != NIL).map(|stack| PageId(stack.top))
    }

    /// The page pushed first.
    #[inline]
    pub fn bottom(&self, stack: u32) -> Option<PageId> {
        self.top(stack).map(|top| PageId(self.links[top].above))
    }

    /// The page that the pointer is at.
    #[inline]
    pub fn pointer(&self, stack: u32) -> Option<PageId> {
        self.top(stack).map(|_| PageId(self.stacks[stack as usize].pointer))
    }

    /// Moves the pointer one page on, from the bottom to the top.
    #[inline]
    pub fn advance(&mut self, stack: u32) {
        let stack = &mut self.stacks[stack as usize];
        stack.pointer = self.links[PageId(stack.pointer)].below;
    }

    /// Puts a page that is in no stack on top. The pointer goes to the page that was on top before, which is returned.
    #[inline]
    pub fn push(&mut self, stack: u32, page: PageId) -> Option<PageId> {
        let second = self.top(stack);
        self.link_between_ends(stack, page);
        let stack = &mut self.stacks[stack as usize];
        stack.top = page.0;
        stack.pointer = second.unwrap_or(page).0;
        second
    }

    /// Puts a page that is in no stack at the bottom. The pointer stays.
    pub fn push_to_bottom(&mut self, stack: u32, page: PageId) {
        self.link_between_ends(stack, page);
    }

    /// Takes a page out of the stack that it is in, if any, and returns that stack. A pointer at it moves on.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> Option<u32> {
        let Link { above, below, stack: number } = self.links.get(page);
        let stack = self.stacks.get_mut(number as usize)?;
        stack.len -= 1;
        if stack.len == 0 {
            stack.top = NIL;
            self.occupied -= 1;
        } else {
            for place in [&mut stack.top, &mut stack.pointer] {
                if *place == page.0 {
                    *place = below;
                }
            }
            self.links[PageId(above)].below = below;
            self.links[PageId(below)].above = above;
        }
        self.links[page].stack = NIL;
        Some(number)
    }

    /// A stack's pages from the top down.
    pub fn iter(&self, stack: u32) -> impl Iterator<Item = PageId> + '_ {
        let below = |page: &PageId| Some(PageId(self.links[*page].below));
        core::iter::successors(self.top(stack), below).take(self.len(stack))
    }

    /// All pages that are in stacks, with the stack of each.
    pub fn members(&self) -> impl Iterator<Item = (PageId, u32)> + '_ {
        self.links.iter().filter(|(_, link)| link.stack != NIL).map(|(page, link)| (page, link.stack))
    }

    /// Checks links, lengths, membership and pointers.
    pub fn check(&self) -> Result<(), Violation> {
        let (mut stacked, mut occupied) = (0, 0);
        for (number, stack) in self.stacks.iter().enumerate() {
            let number = number as u32;
            ensure!((stack.len == 0) == (stack.top == NIL), "stack {number}: {} pages", stack.len);
            if stack.len == 0 {
                continue;
            }
            occupied += 1;
            stacked += stack.len;
            let mut above = self.links[PageId(stack.top)].above;
            for page in self.iter(number) {
                let link = self.links[page];
                ensure!(link.stack == number, "page {page} is not marked as in stack {number}");
                ensure!(link.above == above, "stack {number}: broken link at {page}");
                above = page.0;
            }
            ensure!(self.links[PageId(above)].below == stack.top, "stack {number} does not close");
            let pointer = self.links[PageId(stack.pointer)];
            ensure!(pointer.stack == number, "stack {number}: the pointer is elsewhere");
        }
        let members = self.members().count();
        ensure!(members == stacked, "{members} pages marked as in a stack, {stacked} in the stacks");
        ensure!(occupied == self.occupied, "{occupied} stacks, not {}", self.occupied);
        Ok(())
    }

    /// Puts a page below the bottom, which is above the top.
    #[inline]
    fn link_between_ends(&mut self, number: u32, page: PageId) {
        debug_assert_eq!(self.links.get(page).stack, NIL, "page {page} is in a stack already");
        if self.stacks.len() <= number as usize {
            self.stacks.resize(number as usize + 1, Stack { top: NIL, pointer: NIL, len: 0 });
        }
        self.links.cover(page);
        let stack = &mut self.stacks[number as usize];
        stack.len += 1;
        let (mut above, mut below) = (page.0, page.0);
        if stack.top == NIL {
            (stack.top, stack.pointer) = (page.0, page.0);
            self.occupied += 1;
        } else {
            below = stack.top;
            above = core::mem::replace(&mut self.links[PageId(below)].above, page.0);
            self.links[PageId(above)].below = page.0;
        }
        self.links[page] = Link { above, below, stack: number };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages from the top down, the pointer's in brackets.
    fn show(stacks: &Stacks, stack: u32) -> alloc::string::String {
        let show = |page: PageId| match stacks.pointer(stack) == Some(page) {
            true => alloc::format!("[{page}]"),
            false => alloc::format!("{page}"),
        };
        stacks.iter(stack).map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_pointer_is_below_the_top_after_a_push_and_moves_on_when_its_page_leaves() {
        let mut stacks = Stacks::new();
        assert_eq!(stacks.push(7, PageId(1)), None);
        assert_eq!(show(&stacks, 7), "[1]");
        assert_eq!(stacks.push(7, PageId(2)), Some(PageId(1)));
        stacks.push(7, PageId(3));
        assert_eq!(show(&stacks, 7), "3 [2] 1");
        stacks.push_to_bottom(7, PageId(4));
        stacks.remove(PageId(2));
        assert_eq!(show(&stacks, 7), "3 [1] 4");
        stacks.advance(7);
        stacks.remove(PageId(4));
        assert_eq!(show(&stacks, 7), "[3] 1", "from the bottom to the top");
        stacks.remove(PageId(3));
        assert_eq!((show(&stacks, 7).as_str(), stacks.bottom(7)), ("[1]", Some(PageId(1))));
        assert_eq!(stacks.remove(PageId(1)), Some(7));
        assert_eq!((stacks.remove(PageId(1)), stacks.occupied(), stacks.top(7)), (None, 0, None));
        stacks.push_to_bottom(0, PageId(1));
        assert_eq!(show(&stacks, 0), "[1]");
        stacks.check().unwrap();
    }
}
