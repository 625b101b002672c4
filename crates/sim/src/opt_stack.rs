//! OPT at many memory sizes in one pass: Mattson's priority stack, in groups.
//!
//! R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
//! 1970: the pages that OPT holds with M frames are among those that it holds with more. On the
//! paper's stack a page that is pushed down meets the page of each depth in turn. The page that is
//! used sooner stays, and the other is carried on, until a page fills the hole that the referenced
//! page left.
//!
//! Here a group of the stack holds the pages between one memory size of interest and the next, as a
//! heap by next use. The page carried on from a group is the one used latest. With all sizes 1, 2,
//! 3, ... each group is one depth of the paper's stack. With ten sizes there are ten groups to
//! pass, however deep the stack is.
//!
//! The stack holds live pages: those that are used again. A page that is not is dead, and a dead
//! page is as good as a free frame: OPT evicts dead pages before live ones. So a memory with fewer
//! live pages than frames evicts no live page, and the carried page stays. A page that dies makes
//! room in every memory that holds it. Thus if a memory has room, every larger memory that faults
//! has room too.
//!
//! Which dead page goes first changes no number of faults. But a dead page whose contents are
//! dropped leaves a free frame only in the memories that still have the page. So this order shows
//! in how many faults find a free frame. The policy `opt` evicts the dead page
//! that was loaded first, and one page is loaded at different times in different memories.
//! Where contents are dropped, [`DeadPages`] therefore keeps each memory's own order.
//!
//! Cost: a reference takes one heap operation, and up to two for each size at which it faults. A
//! page takes 12 bytes and, where contents are dropped, 4 more for each size.

use crate::Outcome;
use crate::engine::for_each_segment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use sweephand_policy::NEVER;
use sweephand_trace::{Chunk, Event};

/// OPT's counts at several memory sizes.
#[derive(Debug)]
pub struct OptStack {
    sizes: Vec<Size>,
    pages: Vec<Page>,
    /// `None` where no contents are dropped: then each memory is filled once.
    dead: Option<DeadPages>,
    first_touch_faults: u64,
    records: u64,
}

/// A memory size, with the live pages that it holds and the next smaller size does not.
#[derive(Debug)]
struct Size {
    frames: usize,
    /// Live pages, over all groups up to this one.
    live: usize,
    faults: u64,
    /// (next use, page); entries that [`Page`] no longer agrees with are dropped when met.
    heap: BinaryHeap<(u32, u32)>,
    /// Entries of `heap` that still hold.
    pages: usize,
}

/// Where a page is. Group `sizes.len()` is outside all memories, for live pages.
#[derive(Clone, Copy, Debug)]
struct Page {
    group: u32,
    /// `NEVER` for a dead page.
    next_use: u32,
    touched: bool,
}

impl OptStack {
    /// An empty stack for memories of `frames` pages each, in ascending order without repeats.
    /// `drops` says whether contents of pages may be dropped.
    pub fn new(frames: &[usize], drops: bool) -> Self {
        assert!(frames.is_sorted_by(|a, b| a < b), "sizes ascend");
        let size = |&frames| Size { frames, live: 0, faults: 0, heap: BinaryHeap::new(), pages: 0 };
        Self {
            sizes: frames.iter().map(size).collect(),
            pages: Vec::new(),
            dead: drops.then(|| DeadPages::new(frames)),
            first_touch_faults: 0,
            records: 0,
        }
    }

    /// The references of a chunk in `range` and the events among them, with the chunk's next uses;
    /// see [`Simulation::advance`](crate::Simulation::advance).
    pub fn advance(&mut self, chunk: &Chunk, range: Range<usize>, next_uses: &[u32]) {
        let pages = chunk.pages as usize;
        if self.pages.len() < pages {
            let outside = Page { group: self.sizes.len() as u32, next_use: NEVER, touched: false };
            self.pages.resize(pages, outside);
            if let Some(dead) = &mut self.dead {
                dead.loaded.resize(pages * self.sizes.len(), AWAY);
            }
        }
        for_each_segment(chunk, range, |segment, event| {
            for (reference, &next_use) in chunk.references[segment.clone()].iter().zip(&next_uses[segment]) {
                self.reference(reference.page(), next_use);
                self.records += 1;
            }
            if let Some(Event::Drop { pages }) = event {
                for page in pages.clone() {
                    self.drop_contents(page);
                }
            }
        });
    }

    /// The counts of each size, in the order given.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> + '_ {
        self.sizes.iter().enumerate().map(|(at, size)| {
            let warmup_faults = match &self.dead {
                None => size.faults.min(size.frames as u64),
                Some(dead) => dead.sizes[at].warmup_faults,
            };
            Outcome {
                records: self.records,
                faults: size.faults,
                first_touch_faults: self.first_touch_faults,
                warmup_faults,
                evictions: size.faults - warmup_faults,
                ..Outcome::default()
            }
        })
    }

    #[inline]
    fn reference(&mut self, page: u32, next_use: u32) {
        let Page { group, next_use: before, touched } = self.pages[page as usize];
        // Within a run of references to the page its next use stays what it is.
        if touched && before == next_use {
            return;
        }
        self.first_touch_faults += u64::from(!touched);
        self.pages[page as usize].touched = true;
        let group = group as usize;
        if let Some(size) = self.sizes.get_mut(group) {
            size.pages -= 1;
        }
        if group > 0 {
            self.fault(page, group);
        }
        if next_use == NEVER {
            self.die(page, group);
        } else {
            self.sizes[..group].iter_mut().for_each(|size| size.live += 1);
            self.put(0, page, next_use);
        }
    }

    /// Makes room for a page in the memories below that of its group, from where it has been taken.
    fn fault(&mut self, page: u32, group: usize) {
        // Its entry holds no longer.
        self.pages[page as usize].group = self.sizes.len() as u32;
        let mut carried = None;
        for smaller in 0..group {
            let size = &mut self.sizes[smaller];
            size.faults += 1;
            let has_room = size.live < size.frames;
            if let Some(dead) = &mut self.dead {
                dead.load(smaller, page, self.records as u32, has_room);
            }
            if has_room {
                if let Some((next_use, page)) = carried.take() {
                    self.put(smaller, page, next_use);
                }
                continue;
            }
            size.live -= 1;
            let own = self.latest(smaller);
            carried = match (carried, own) {
                (Some(carried), Some(own)) if own > carried => {
                    self.take(smaller);
                    self.put(smaller, carried.1, carried.0);
                    Some(own)
                }
                (None, Some(own)) => {
                    self.take(smaller);
                    Some(own)
                }
                (carried, _) => carried,
            };
        }
        if let Some((next_use, page)) = carried {
            if group < self.sizes.len() {
                self.put(group, page, next_use);
            } else {
                self.pages[page as usize].group = group as u32;
            }
        }
    }

    /// Makes a page dead that has just been referenced and was in a group before.
    fn die(&mut self, page: u32, group: usize) {
        let entry = &mut self.pages[page as usize];
        (entry.group, entry.next_use) = (self.sizes.len() as u32, NEVER);
        self.sizes[group..].iter_mut().for_each(|size| size.live -= 1);
        if let Some(dead) = &mut self.dead {
            dead.add(page);
        }
    }

    /// Puts a page into a group.
    fn put(&mut self, group: usize, page: u32, next_use: u32) {
        let entry = &mut self.pages[page as usize];
        (entry.group, entry.next_use) = (group as u32, next_use);
        let size = &mut self.sizes[group];
        size.pages += 1;
        size.heap.push((next_use, page));
        if size.heap.len() > 2 * size.pages + 64 {
            let pages = &self.pages;
            size.heap.retain(|&(next_use, page)| holds(pages, group, next_use, page));
        }
    }

    /// The page of a group that is used latest.
    fn latest(&mut self, group: usize) -> Option<(u32, u32)> {
        let heap = &mut self.sizes[group].heap;
        while let Some(&(next_use, page)) = heap.peek() {
            if holds(&self.pages, group, next_use, page) {
                return Some((next_use, page));
            }
            heap.pop();
        }
        None
    }

    /// Takes [`OptStack::latest`] out of its group.
    fn take(&mut self, group: usize) {
        let size = &mut self.sizes[group];
        size.heap.pop();
        size.pages -= 1;
    }

    fn drop_contents(&mut self, page: u32) {
        let Some(entry) = self.pages.get_mut(page as usize) else { return };
        assert!(entry.next_use == NEVER, "the future ends where contents are dropped");
        if std::mem::take(&mut entry.touched)
            && let Some(dead) = &mut self.dead
        {
            dead.remove(page);
        }
    }
}

fn holds(pages: &[Page], group: usize, next_use: u32, page: u32) -> bool {
    let entry = pages[page as usize];
    entry.group as usize == group && entry.next_use == next_use
}

/// [`DeadPages::loaded`] of a page that was evicted dead, or dropped.
const AWAY: u32 = u32::MAX;

/// The dead pages and the free frames of each memory size.
#[derive(Debug)]
struct DeadPages {
    sizes: Vec<Room>,
    /// For each page and size, the record that loaded the page last. What it says of a live page
    /// outside that memory is out of date.
    loaded: Vec<u32>,
}

/// The frames of a memory size that hold no live page.
#[derive(Debug)]
struct Room {
    free_frames: usize,
    warmup_faults: u64,
    /// (load, page) of dead pages; entries that [`DeadPages::loaded`] no longer agrees with are
    /// dropped when met.
    heap: BinaryHeap<Reverse<(u32, u32)>>,
    /// Entries of `heap` that still hold.
    pages: usize,
}

impl DeadPages {
    fn new(frames: &[usize]) -> Self {
        let room = |&free_frames| Room { free_frames, warmup_faults: 0, heap: BinaryHeap::new(), pages: 0 };
        Self { sizes: frames.iter().map(room).collect(), loaded: Vec::new() }
    }

    /// A page is loaded by a record: into a free frame, or else into that of a dead page, if the
    /// memory `has_room`.
    fn load(&mut self, size: usize, page: u32, record: u32, has_room: bool) {
        let sizes = self.sizes.len();
        let place = |page: u32| page as usize * sizes + size;
        let room = &mut self.sizes[size];
        if room.free_frames > 0 {
            room.free_frames -= 1;
            room.warmup_faults += 1;
        } else if has_room {
            while let Some(Reverse((load, dead))) = room.heap.pop() {
                if self.loaded[place(dead)] == load {
                    self.loaded[place(dead)] = AWAY;
                    break;
                }
            }
            room.pages -= 1;
        }
        self.loaded[place(page)] = record;
    }

    /// A page dies, which all memories hold.
    fn add(&mut self, page: u32) {
        let sizes = self.sizes.len();
        let loads = &self.loaded[page as usize * sizes..][..sizes];
        for (size, (room, &load)) in self.sizes.iter_mut().zip(loads).enumerate() {
            room.pages += 1;
            room.heap.push(Reverse((load, page)));
            if room.heap.len() > 2 * room.pages + 64 {
                let loaded = &self.loaded;
                room.heap.retain(|&Reverse((load, page))| loaded[page as usize * sizes + size] == load);
            }
        }
    }

    /// The contents of a dead page are dropped.
    fn remove(&mut self, page: u32) {
        let sizes = self.sizes.len();
        let loads = &mut self.loaded[page as usize * sizes..][..sizes];
        for (room, load) in self.sizes.iter_mut().zip(loads) {
            if std::mem::replace(load, AWAY) != AWAY {
                room.free_frames += 1;
                room.pages -= 1;
            }
        }
    }
}
