//! Address spaces, frames and userfaultfds, as Linux 6.18 has them (`mm/userfaultfd.c`,
//! `fs/userfaultfd.c`, `mm/mremap.c`, `mm/madvise.c`).
//!
//! Everything here happens at once: what may happen in between is up to the callers in `kernel`,
//! which let other threads run where the kernel holds no lock.

use super::model::Model;
use crate::kernel::{PAGE_BYTES, TRACKED};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use rustix::io::Errno;

/// The number of a frame.
pub(super) type FrameId = usize;
/// The number of a userfaultfd.
pub(super) type ContextId = usize;
/// The number of a thread of the simulation.
pub(super) type TaskId = usize;

/// A page of memory. One number stands for its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    /// What is in it.
    pub(super) content: u64,
    /// Page tables that map it, and pipes and devices that hold it.
    references: u32,
    /// Devices that transfer it now: it cannot be moved.
    pub(super) pins: u32,
}

/// What a page table says of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// Mapped. A frame that a fork has shared is not exclusive, until it is written to.
    Present { frame: FrameId, exclusive: bool },
    /// A guard: a thread that touches it gets a SIGSEGV.
    Guard,
    /// Poisoned: a thread that touches it gets a SIGBUS.
    Poison,
}

/// A mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    pub(super) end: usize,
    pub(super) protection: u32,
    pub(super) is_locked: bool,
    /// The userfaultfd to which its missing pages fault.
    pub(super) context: Option<ContextId>,
    /// Whether that userfaultfd can protect its pages against reading.
    pub(super) is_tracked: bool,
}

/// An address space.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    pub(super) areas: BTreeMap<usize, Area>,
    pub(super) table: BTreeMap<usize, Entry>,
    /// Pages whose accessed bit is set. It counts while the page is present.
    pub(super) accessed: BTreeSet<usize>,
}

/// An event, before it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Fork { child: ContextId },
    Remap { from: usize, to: usize, length: usize },
    Remove { start: usize, end: usize },
    Unmap { start: usize, end: usize },
}

/// A thread that waits for a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) task: TaskId,
    pub(super) page: usize,
    pub(super) is_read: bool,
}

/// A userfaultfd.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    pub(super) space: usize,
    pub(super) features: u64,
    pub(super) faults: VecDeque<Waiting>,
    pub(super) events: VecDeque<(TaskId, Told)>,
    /// Calls that change the address space and have not been told of, or have not gone on.
    pub(super) changing: u32,
}

impl Context {
    pub(super) fn is_readable(&self) -> bool {
        !self.events.is_empty() || self.faults.iter().any(|fault| !fault.is_read)
    }
}

/// All memory.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedMemory {
    pub(super) frames: Vec<Frame>,
    free: Vec<FrameId>,
    pub(super) spaces: Vec<Space>,
    pub(super) contexts: Vec<Context>,
}

/// The start of the page of an address.
pub(super) fn page_of(address: usize) -> usize {
    address & !(PAGE_BYTES - 1)
}

fn pages(start: usize, end: usize) -> impl Iterator<Item = usize> {
    (start..end).step_by(PAGE_BYTES)
}

impl Space {
    /// The mapping at an address: its start and what it is.
    pub(super) fn area(&self, address: usize) -> Option<(usize, Area)> {
        let (&start, &area) = self.areas.range(..=address).next_back()?;
        (address < area.end).then_some((start, area))
    }

    /// Mappings that overlap a range, cut to it.
    pub(super) fn areas_in(&self, start: usize, end: usize) -> Vec<(usize, Area)> {
        let first = self.area(start).map_or(start, |(first, _)| first);
        let overlapping = self.areas.range(first..end).filter(|(_, area)| area.end > start);
        overlapping.map(|(&from, &area)| (from.max(start), Area { end: area.end.min(end), ..area })).collect()
    }

    /// Whether a page that is present is not protected, in memory where that is told.
    pub(super) fn is_tracked_and_accessed(&self, page: usize) -> bool {
        self.area(page).is_some_and(|(_, area)| area.is_tracked) && self.accessed.contains(&page)
    }

    /// Whether a range is mapped from end to end.
    pub(super) fn is_mapped(&self, start: usize, end: usize) -> bool {
        let mut from = start;
        for (area_start, area) in self.areas_in(start, end) {
            if area_start > from {
                return false;
            }
            from = area.end;
        }
        from >= end
    }

    fn split(&mut self, at: usize) {
        if let Some((start, area)) = self.area(at).filter(|(start, _)| *start < at) {
            self.areas.insert(start, Area { end: at, ..area });
            self.areas.insert(at, area);
        }
    }

    /// Changes the mappings of a range. `None` takes one away.
    pub(super) fn change(&mut self, start: usize, end: usize, change: impl Fn(Area) -> Option<Area>) {
        self.split(start);
        self.split(end);
        let within: Vec<usize> = self.areas.range(start..end).map(|(&start, _)| start).collect();
        for start in within {
            match change(self.areas[&start]) {
                Some(area) => _ = self.areas.insert(start, area),
                None => _ = self.areas.remove(&start),
            }
        }
        self.merge(start, end);
    }

    /// Neighbours that are alike become one.
    fn merge(&mut self, start: usize, end: usize) {
        let first = self.areas.range(..start).next_back().map_or(start, |(&first, _)| first);
        let near: Vec<usize> = self.areas.range(first..=end).map(|(&start, _)| start).collect();
        for pair in near.windows(2).rev() {
            let (one, other) = (self.areas[&pair[0]], self.areas[&pair[1]]);
            if one.end == pair[1] && (Area { end: other.end, ..one }) == other {
                self.areas.remove(&pair[1]);
                self.areas.insert(pair[0], other);
            }
        }
    }

    pub(super) fn map(&mut self, start: usize, area: Area) {
        let end = area.end;
        self.areas.insert(start, area);
        self.merge(start, end);
    }

    /// The highest free range of a size below `top`.
    pub(super) fn gap_below(&self, top: usize, bytes: usize) -> usize {
        let mut end = top;
        for (&start, area) in self.areas.range(..top).rev() {
            if area.end <= end && end - area.end >= bytes {
                break;
            }
            end = end.min(start);
        }
        end - bytes
    }

    /// The lowest free range of a size from `bottom` on.
    pub(super) fn gap_above(&self, bottom: usize, bytes: usize) -> usize {
        let mut start = bottom;
        for (&other, area) in self.areas.range(bottom..) {
            if other >= start + bytes {
                break;
            }
            start = area.end;
        }
        start
    }

    pub(super) fn entries(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, Entry)> {
        self.table.range(start..end).map(|(&page, &entry)| (page, entry))
    }
}

/// How far a call over a range came, and why no further.
pub(super) type Done = (usize, Option<Errno>);

impl SimulatedMemory {
    pub(super) fn new(space: Space) -> Self {
        Self { spaces: alloc::vec![space], ..Self::default() }
    }

    pub(super) fn new_frame(&mut self, content: u64) -> FrameId {
        let frame = Frame { content, references: 1, pins: 0 };
        match self.free.pop() {
            Some(id) => {
                self.frames[id] = frame;
                id
            }
            None => {
                self.frames.push(frame);
                self.frames.len() - 1
            }
        }
    }

    pub(super) fn hold(&mut self, frame: FrameId) {
        self.frames[frame].references += 1;
    }

    pub(super) fn let_go(&mut self, frame: FrameId) {
        self.frames[frame].references -= 1;
        if self.frames[frame].references == 0 {
            self.free.push(frame);
        }
    }

    pub(super) fn new_context(&mut self, space: usize, features: u64) -> ContextId {
        self.contexts.push(Context { space, features, ..Context::default() });
        self.contexts.len() - 1
    }

    fn clear(&mut self, space: usize, page: usize) {
        if let Some(Entry::Present { frame, .. }) = self.spaces[space].table.remove(&page) {
            self.let_go(frame);
        }
    }

    /// Drops what is in a range, poison too. Guards stay.
    pub(super) fn zap(&mut self, space: usize, start: usize, end: usize) {
        let all = self.spaces[space].entries(start, end).filter(|(_, entry)| *entry != Entry::Guard);
        let dropped: Vec<usize> = all.map(|(page, _)| page).collect();
        dropped.into_iter().for_each(|page| self.clear(space, page));
    }

    /// Takes a range away, with all that is there.
    pub(super) fn unmap(&mut self, space: usize, start: usize, end: usize) {
        let all: Vec<usize> = self.spaces[space].entries(start, end).map(|(page, _)| page).collect();
        all.into_iter().for_each(|page| self.clear(space, page));
        self.spaces[space].change(start, end, |_| None);
    }

    /// Moves the page table of a range.
    pub(super) fn move_table(&mut self, space: usize, from: usize, to: usize, length: usize) {
        let table = &mut self.spaces[space].table;
        let moved: Vec<(usize, Entry)> =
            table.range(from..from + length).map(|(&page, &entry)| (page, entry)).collect();
        for (page, entry) in moved {
            table.remove(&page);
            table.insert(page - from + to, entry);
        }
    }

    /// The userfaultfds of a range that have one of some features.
    pub(super) fn contexts_in(&self, space: usize, start: usize, end: usize, feature: u64) -> Vec<ContextId> {
        let mut contexts = Vec::new();
        for (_, area) in self.spaces[space].areas_in(start, end) {
            if let Some(context) = area.context
                && self.contexts[context].features & feature != 0
                && !contexts.contains(&context)
            {
                contexts.push(context);
            }
        }
        contexts
    }

    /// What is in a page of a space, for a transfer: zeros where nothing was ever put. `None` if a
    /// thread that touched it would wait for a userfaultfd.
    pub(super) fn peek(&self, space: usize, page: usize) -> Option<u64> {
        let space = &self.spaces[space];
        match space.table.get(&page) {
            Some(Entry::Present { frame, .. }) => Some(self.frames[*frame].content),
            Some(_) => None,
            None => space.area(page)?.1.context.is_none().then_some(0),
        }
    }

    /// `UFFDIO_COPY` of what the caller has, without waking anybody.
    pub(super) fn copy(
        &mut self,
        (caller, context): (usize, ContextId),
        (to, from, length): (usize, usize, usize),
        guards_are_overwritten: bool,
        model: &mut Model,
    ) -> Done {
        if length == 0 || to % PAGE_BYTES != 0 || length % PAGE_BYTES != 0 {
            return (0, Some(Errno::INVAL));
        }
        let space = self.contexts[context].space;
        // The whole range has to be in one mapping of this userfaultfd.
        match self.spaces[space].area(to) {
            Some((_, area)) if area.end >= to + length && area.context == Some(context) => {}
            _ => return (0, Some(Errno::NOENT)),
        }
        for offset in (0..length).step_by(PAGE_BYTES) {
            let stop = |error| (offset, Some(error));
            match self.spaces[space].table.get(&(to + offset)) {
                None => {}
                Some(Entry::Guard | Entry::Poison) if guards_are_overwritten => {}
                Some(_) => return stop(Errno::EXIST),
            }
            let Some(content) = self.peek(caller, from + offset) else {
                model.fail("the pager has read a page of its own that is missing");
                return stop(Errno::FAULT);
            };
            let frame = self.new_frame(content);
            self.spaces[space].table.insert(to + offset, Entry::Present { frame, exclusive: true });
            self.spaces[space].accessed.insert(to + offset);
        }
        (length, None)
    }

    /// `UFFDIO_MOVE`, without waking anybody.
    pub(super) fn move_pages(&mut self, context: ContextId, to: usize, from: usize, length: usize) -> Done {
        if length == 0 || [to, from, length].iter().any(|number| number % PAGE_BYTES != 0) {
            return (0, Some(Errno::INVAL));
        }
        let space = self.contexts[context].space;
        let areas = [to, from].map(|place| self.spaces[space].area(place).map(|(_, area)| area));
        let [Some(target), Some(source)] = areas else { return (0, Some(Errno::NOENT)) };
        let writable = raw::PROT_WRITE;
        if target.end < to + length
            || source.end < from + length
            || target.context != Some(context)
            || target.is_locked != source.is_locked
            || target.protection != source.protection
            || target.protection & writable == 0
        {
            return (0, Some(Errno::INVAL));
        }
        for offset in (0..length).step_by(PAGE_BYTES) {
            let stop = |error| (offset, Some(error));
            let table = &mut self.spaces[space].table;
            let (frame, exclusive) = match table.get(&(from + offset)) {
                Some(&Entry::Present { frame, exclusive }) => (frame, exclusive),
                Some(Entry::Guard | Entry::Poison) => return stop(Errno::FAULT),
                None => return stop(Errno::NOENT),
            };
            if table.contains_key(&(to + offset)) {
                return stop(Errno::EXIST);
            }
            if self.frames[frame].pins > 0 || !exclusive {
                return stop(Errno::BUSY);
            }
            table.remove(&(from + offset));
            table.insert(to + offset, Entry::Present { frame, exclusive });
            // Linux 7.3 moves a page to tracked memory as if it were protected.
            match target.is_tracked {
                true => self.spaces[space].accessed.remove(&(to + offset)),
                false => self.spaces[space].accessed.insert(to + offset),
            };
        }
        (length, None)
    }

    /// `MADV_COLD`: clears accessed bits, but for pages that another process has too or that are
    /// locked.
    pub(super) fn cool(&mut self, space: usize, start: usize, end: usize) {
        let Space { areas, table, accessed } = &mut self.spaces[space];
        for page in pages(start, end) {
            let is_exclusive = matches!(table.get(&page), Some(Entry::Present { exclusive: true, .. }));
            let area = areas.range(..=page).next_back().filter(|(_, area)| page < area.end);
            if is_exclusive && area.is_some_and(|(_, area)| !area.is_locked) {
                accessed.remove(&page);
            }
        }
    }

    /// `UFFDIO_POISON`, without waking anybody.
    pub(super) fn poison(&mut self, context: ContextId, start: usize, length: usize) -> Done {
        let space = self.contexts[context].space;
        match self.spaces[space].area(start) {
            Some((_, area)) if area.end >= start + length && area.context == Some(context) => {}
            _ => return (0, Some(Errno::NOENT)),
        }
        for page in pages(start, start + length) {
            if self.spaces[space].table.contains_key(&page) {
                return (page - start, Some(Errno::EXIST));
            }
            self.spaces[space].table.insert(page, Entry::Poison);
        }
        (length, None)
    }

    /// `UFFDIO_REGISTER`.
    pub(super) fn register(&mut self, context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
        let space = &mut self.spaces[self.contexts[context].space];
        let end = start + length;
        let areas = space.areas_in(start, end);
        if areas.is_empty() {
            return Err(Errno::INVAL);
        }
        if areas.iter().any(|(_, area)| area.context.is_some_and(|other| other != context)) {
            return Err(Errno::BUSY);
        }
        space.change(start, end, |area| Some(Area { context: Some(context), ..area }));
        Ok(())
    }

    /// Missing pages of a range are the kernel's again.
    pub(super) fn unregister(&mut self, context: ContextId, start: usize, length: usize) {
        let space = &mut self.spaces[self.contexts[context].space];
        space.change(start, start + length, |area| Some(Area { context: None, is_tracked: false, ..area }));
    }

    /// `UFFDIO_REGISTER_MODE_RWP` besides.
    pub(super) fn register_tracked(
        &mut self,
        context: ContextId,
        start: usize,
        length: usize,
    ) -> Result<(), Errno> {
        if self.contexts[context].features & TRACKED == 0 {
            return Err(Errno::INVAL);
        }
        self.register(context, start, length)?;
        let space = &mut self.spaces[self.contexts[context].space];
        space.change(start, start + length, |area| Some(Area { is_tracked: true, ..area }));
        Ok(())
    }

    /// `UFFDIO_RWPROTECT`: what is present counts as not accessed.
    pub(super) fn protect(&mut self, context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
        let space = &mut self.spaces[self.contexts[context].space];
        let is_meant = |area: &Area| area.is_tracked && area.context == Some(context);
        let areas = space.areas_in(start, start + length);
        if areas.is_empty() || !areas.iter().all(|(_, area)| is_meant(area)) {
            return Err(Errno::NOENT);
        }
        for page in pages(start, start + length) {
            space.accessed.remove(&page);
        }
        Ok(())
    }

    /// Wakes those who wait for pages of a range. Returns them.
    pub(super) fn wake(&mut self, context: ContextId, start: usize, length: usize) -> Vec<TaskId> {
        let mut woken = Vec::new();
        self.contexts[context].faults.retain(|fault| {
            let is_meant = (start..start + length).contains(&fault.page);
            if is_meant {
                woken.push(fault.task);
            }
            !is_meant
        });
        woken
    }

    /// A copy of an address space, for a child: pages are shared until they are written to. Returns
    /// its number, and of each userfaultfd that is told of it, its copy.
    pub(super) fn fork(&mut self, parent: usize) -> (usize, Vec<(ContextId, ContextId)>) {
        let mut child = self.spaces[parent].clone();
        for page in child.table.keys().copied().collect::<Vec<_>>() {
            let Some(&Entry::Present { frame, .. }) = child.table.get(&page) else { continue };
            if self.frames[frame].pins > 0 {
                // A page under a transfer is copied at once.
                let copy = self.new_frame(self.frames[frame].content);
                child.table.insert(page, Entry::Present { frame: copy, exclusive: true });
                continue;
            }
            self.hold(frame);
            let shared = Entry::Present { frame, exclusive: false };
            child.table.insert(page, shared);
            self.spaces[parent].table.insert(page, shared);
        }
        let number = self.spaces.len();
        let mut copies: Vec<(ContextId, ContextId)> = Vec::new();
        for area in child.areas.values_mut() {
            let Some(context) = area.context else { continue };
            let known = copies.iter().find(|(original, _)| *original == context).map(|(_, copy)| *copy);
            let copy = known.unwrap_or_else(|| {
                let copy = self.contexts.len();
                let features = self.contexts[context].features;
                self.contexts.push(Context { space: number, features, ..Context::default() });
                self.contexts[context].changing += 1;
                copies.push((context, copy));
                copy
            });
            area.context = Some(copy);
        }
        self.spaces.push(child);
        (number, copies)
    }

    /// Makes a present page one that this space alone maps, as a write does.
    pub(super) fn unshare(&mut self, space: usize, page: usize) -> Option<FrameId> {
        let Some(&Entry::Present { frame, exclusive }) = self.spaces[space].table.get(&page) else {
            return None;
        };
        if exclusive {
            return Some(frame);
        }
        // (The kernel counts what holds the frame, too: a pipe makes the writer copy.)
        let own = match self.frames[frame].references {
            1 => frame,
            _ => {
                let own = self.new_frame(self.frames[frame].content);
                self.let_go(frame);
                own
            }
        };
        self.spaces[space].table.insert(page, Entry::Present { frame: own, exclusive: true });
        Some(own)
    }
}
