//! Circular, numbered lists of pages. Each has a pointer that goes from the top to the bottom and
//! starts again.

use crate::collections::{Links, PageMap};
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::vec::Vec;

/// What links a page into a stack. Every page has two, so that it can be in two stacks at a time.
///
/// There are nodes for 2^31 pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node(u32);

impl Node {
    const NIL: Self = Self(u32::MAX);

    /// A page's first node.
    #[inline]
    pub(super) const fn first(page: PageId) -> Self {
        Self(page.0 << 1)
    }

    /// A page's second node.
    #[inline]
    pub(super) const fn second(page: PageId) -> Self {
        Self(page.0 << 1 | 1)
    }

    /// The page that this is a node of.
    #[inline]
    pub(super) const fn page(self) -> PageId {
        PageId(self.0 >> 1)
    }

    const fn side(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// The node above another one: for the top, the bottom.
const ABOVE: usize = 0;
/// The node below: for the bottom, the top.
const BELOW: usize = 1;

#[inline]
fn neighbour(links: &Links<4>, node: Node, way: usize) -> Node {
    Node(links.get(node.page(), 2 * node.side() + way))
}

/// Puts two nodes, of pages that are covered, next to one another.
#[inline]
fn join(links: &mut Links<4>, above: Node, below: Node) {
    links.set(above.page(), 2 * above.side() + BELOW, below.0);
    links.set(below.page(), 2 * below.side() + ABOVE, above.0);
}

#[derive(Clone, Copy, Debug)]
struct Stack {
    /// The node pushed last, or `NIL`.
    top: Node,
    /// The node to look at next; meaningless while the stack is empty.
    pointer: Node,
    len: usize,
}

/// Any number of stacks over the same pages. Pages can leave from anywhere; in which stacks a page
/// is, the policy knows.
///
/// Stacks are named by number and come to be when something is pushed on them, so numbers should be
/// small. The bottom is at hand too: pushed on top and taken from the bottom, pages queue. And put
/// in behind the pointer, they make CLOCK's circle. Every operation is O(1). 12 bytes a page (16
/// from page 2^23 on), 16 a stack.
#[derive(Clone, Debug, Default)]
pub(super) struct Stacks {
    /// The neighbours of each page's two nodes.
    links: Links<4>,
    stacks: Vec<Stack>,
}

impl Stacks {
    /// No stacks.
    pub(super) const fn new() -> Self {
        Self { links: Links::new(), stacks: Vec::new() }
    }

    /// Pages in a stack.
    #[inline]
    pub(super) fn len(&self, stack: u32) -> usize {
        self.stacks.get(stack as usize).map_or(0, |stack| stack.len)
    }

    /// The page pushed first.
    #[inline]
    pub(super) fn bottom(&self, stack: u32) -> Option<PageId> {
        self.occupied(stack).map(|stack| neighbour(&self.links, stack.top, ABOVE).page())
    }

    /// The page that the pointer is at.
    #[inline]
    pub(super) fn pointer(&self, stack: u32) -> Option<PageId> {
        self.occupied(stack).map(|stack| stack.pointer.page())
    }

    /// The page that the pointer is at. The pointer moves one page on, from the bottom to the top.
    #[inline]
    pub(super) fn pass(&mut self, stack: u32) -> Option<PageId> {
        let stack = self.stacks.get_mut(stack as usize).filter(|stack| stack.len > 0)?;
        let passed = stack.pointer;
        stack.pointer = neighbour(&self.links, passed, BELOW);
        Some(passed.page())
    }

    /// Puts a node that is in no stack on top. The pointer goes to the page that was on top before,
    /// which is returned.
    #[inline]
    pub(super) fn push(&mut self, stack: u32, node: Node) -> Option<PageId> {
        let second = self.occupied(stack).map(|stack| stack.top);
        self.push_to_bottom(stack, node);
        let stack = &mut self.stacks[stack as usize];
        stack.top = node;
        stack.pointer = second.unwrap_or(node);
        second.map(Node::page)
    }

    /// Puts a node that is in no stack at the bottom. The pointer stays.
    #[inline]
    pub(super) fn push_to_bottom(&mut self, stack: u32, node: Node) {
        // Below the bottom is above the top.
        let top = self.occupied(stack).map(|stack| stack.top);
        self.insert_above(top, stack, node);
    }

    /// Puts a node that is in no stack where the pointer will come to last.
    #[inline]
    pub(super) fn push_behind_pointer(&mut self, stack: u32, node: Node) {
        let pointer = self.occupied(stack).map(|stack| stack.pointer);
        self.insert_above(pointer, stack, node);
    }

    /// Takes a node out of the stack that it is in. A pointer at it moves on.
    #[inline]
    pub(super) fn remove(&mut self, stack: u32, node: Node) {
        let (above, below) = (neighbour(&self.links, node, ABOVE), neighbour(&self.links, node, BELOW));
        let stack = &mut self.stacks[stack as usize];
        stack.len -= 1;
        if stack.len == 0 {
            stack.top = Node::NIL;
        } else {
            for place in [&mut stack.top, &mut stack.pointer] {
                if *place == node {
                    *place = below;
                }
            }
            join(&mut self.links, above, below);
        }
    }

    /// Asks for the links of a page that will be looked at soon.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.links.prefetch(page);
    }

    /// A stack's pages from the top down.
    pub(super) fn iter(&self, stack: u32) -> impl Iterator<Item = PageId> + '_ {
        self.nodes(stack).map(Node::page)
    }

    /// Checks links, lengths and pointers, and that no node is in two places.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let mut seen = PageMap::<[bool; 2]>::new();
        for (number, stack) in self.stacks.iter().enumerate() {
            ensure!((stack.len == 0) == (stack.top == Node::NIL), "stack {number}: {} pages", stack.len);
            let mut is_pointer_here = stack.len == 0;
            for node in self.nodes(number as u32) {
                let (page, below) = (node.page(), neighbour(&self.links, node, BELOW));
                ensure!(
                    neighbour(&self.links, below, ABOVE) == node,
                    "stack {number}: broken link below {page}"
                );
                seen.cover(page);
                let seen = core::mem::replace(&mut seen[page][node.side()], true);
                ensure!(!seen, "stack {number}: page {page} is there twice, or elsewhere too");
                is_pointer_here |= node == stack.pointer;
            }
            let last = self.nodes(number as u32).last();
            let after = last.map_or(stack.top, |last| neighbour(&self.links, last, BELOW));
            ensure!(after == stack.top, "stack {number} does not close after {} pages", stack.len);
            ensure!(is_pointer_here, "stack {number}: the pointer is elsewhere");
        }
        Ok(())
    }

    #[inline]
    fn occupied(&self, stack: u32) -> Option<&Stack> {
        self.stacks.get(stack as usize).filter(|stack| stack.len > 0)
    }

    fn nodes(&self, stack: u32) -> impl Iterator<Item = Node> + '_ {
        let below = |node: &Node| Some(neighbour(&self.links, *node, BELOW));
        let top = self.occupied(stack).map(|stack| stack.top);
        core::iter::successors(top, below).take(self.len(stack))
    }

    /// Puts a node above another one of the stack, or (`None`) into the empty stack.
    #[inline]
    fn insert_above(&mut self, below: Option<Node>, number: u32, node: Node) {
        if self.stacks.len() <= number as usize {
            let empty = Stack { top: Node::NIL, pointer: Node::NIL, len: 0 };
            self.stacks.resize(number as usize + 1, empty);
        }
        self.links.cover(node.page());
        let stack = &mut self.stacks[number as usize];
        stack.len += 1;
        if let Some(below) = below {
            let above = neighbour(&self.links, below, ABOVE);
            join(&mut self.links, above, node);
            join(&mut self.links, node, below);
        } else {
            (stack.top, stack.pointer) = (node, node);
            join(&mut self.links, node, node);
        }
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
        let node = |page| Node::first(PageId(page));
        let mut stacks = Stacks::new();
        assert_eq!(stacks.push(7, node(1)), None);
        assert_eq!(show(&stacks, 7), "[1]");
        assert_eq!(stacks.push(7, node(2)), Some(PageId(1)));
        stacks.push(7, node(3));
        assert_eq!(show(&stacks, 7), "3 [2] 1");
        stacks.push_to_bottom(7, node(4));
        stacks.remove(7, node(2));
        assert_eq!(show(&stacks, 7), "3 [1] 4");
        stacks.push_behind_pointer(7, node(5));
        assert_eq!(show(&stacks, 7), "3 5 [1] 4");
        stacks.check().unwrap();
        stacks.remove(7, node(5));
        assert_eq!(stacks.pass(7), Some(PageId(1)));
        stacks.remove(7, node(4));
        assert_eq!(show(&stacks, 7), "[3] 1", "from the bottom to the top");
        stacks.remove(7, node(3));
        assert_eq!((show(&stacks, 7).as_str(), stacks.bottom(7)), ("[1]", Some(PageId(1))));
        stacks.remove(7, node(1));
        assert_eq!((stacks.len(7), stacks.iter(7).next()), (0, None));
        stacks.push_to_bottom(0, node(1));
        assert_eq!(show(&stacks, 0), "[1]");
        stacks.check().unwrap();
    }

    /// A stack may have first nodes of some pages and second ones of others; a page's other node is
    /// elsewhere.
    #[test]
    fn a_page_is_in_two_stacks_at_a_time() {
        let (one, two) = (PageId(1), PageId(2));
        let mut stacks = Stacks::new();
        stacks.push(0, Node::first(one));
        stacks.push(1, Node::second(one));
        stacks.push(0, Node::second(two));
        stacks.push(1, Node::first(two));
        stacks.check().unwrap();
        assert_eq!([show(&stacks, 0), show(&stacks, 1)], ["2 [1]", "2 [1]"]);
        stacks.remove(0, Node::first(one));
        stacks.check().unwrap();
        assert_eq!([show(&stacks, 0), show(&stacks, 1)], ["[2]", "2 [1]"]);
    }

    /// Links lead to pages whose numbers take four bytes, and from them to pages whose numbers do
    /// not.
    #[test]
    fn links_grow_by_a_byte_when_there_are_many_pages() {
        let [near, far] = [5, (1 << 23) + 3].map(|page| Node::second(PageId(page)));
        let mut stacks = Stacks::new();
        stacks.push(0, near);
        stacks.push(0, far);
        stacks.check().unwrap();
        assert_eq!((stacks.iter(0).next(), stacks.bottom(0)), (Some(far.page()), Some(near.page())));
        stacks.remove(0, far);
        stacks.check().unwrap();
        assert_eq!((stacks.iter(0).next(), stacks.bottom(0)), (Some(near.page()), Some(near.page())));
    }
}
