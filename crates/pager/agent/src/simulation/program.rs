//! The program: threads that do with their memory what programs do.
//!
//! A program without mistakes of its own: each mapping has one thread that changes it, and threads
//! share some mappings that all of them read, write and drop, and none changes. But threads also
//! touch each other's memory, most of all what is about to be dropped, unmapped or moved, as a
//! collector of garbage or a debugger in the same process does. There, a SIGSEGV is what they are
//! prepared for.

use super::kernel::{Touched, access, end_process, sched_yield};
use super::memory::Entry;
use super::schedule::{Until, block};
use super::{Held, World, with};
use crate::entry::hooks::{hook_madvise, hook_mmap, hook_mprotect, hook_mremap};
use crate::kernel::{PAGE_BYTES, call};
use crate::mailbox::{Call, MAILBOX};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{SendFlags, send};
use sweephand_policy::SplitMix64;

/// What a thread knows of a page of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Writable,
    Readable,
    Closed,
    Guarded,
    Locked,
}

/// What a program is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Character {
    pub(super) threads: usize,
    /// What each thread does, how often.
    pub(super) actions: usize,
    /// Most pages that a thread has of its own.
    pub(super) most_pages: usize,
    /// Most pages that a thread makes such that they cannot be paged out: locked, or not writable.
    pub(super) most_unmovable: usize,
    /// Pages of the mappings that all share: start and count.
    pub(super) shared: (usize, usize),
    /// How likely each action is.
    pub(super) chances: [u64; ACTIONS],
}

/// Actions: read or write some pages in a row, some at random, map, unmap, move, drop, guard,
/// protect, transfer by a device, hold in a pipe, lock, touch what others change, handle faults of
/// its own, fork.
pub(super) const ACTIONS: usize = 14;
/// Ranges that are remembered because a thread has set about to change them.
const CHANGES_REMEMBERED: usize = 6;
/// Most children of a program, of which one lives at a time.
const MOST_CHILDREN: usize = 8;
/// Most pages that a child touches before it would have an agent.
const MOST_TOUCHED: usize = 150;

/// A thread of the program.
struct Thread {
    random: SplitMix64,
    character: Character,
    own: BTreeMap<usize, Kind>,
    /// Where the thread goes on in a row.
    cursor: usize,
    held: Vec<Held>,
}

fn random(number: u64) -> usize {
    number as usize
}

/// Runs a thread.
pub(super) fn run(seed: u64, character: Character) {
    let mut thread = Thread {
        random: SplitMix64::new(seed),
        character,
        own: BTreeMap::new(),
        cursor: character.shared.0,
        held: Vec::new(),
    };
    // Programs begin when their pager has.
    while !crate::mailbox::MAILBOX.is_open() {
        sched_yield();
    }
    for _ in 0..character.actions {
        if with(|world| world.model.failure.is_some()) {
            return;
        }
        thread.act();
    }
    while let Some(held) = thread.held.pop() {
        release(held);
    }
    let pages: Vec<usize> = thread.own.keys().copied().collect();
    for page in pages {
        thread.look(page);
    }
}

/// A number that no other write has; one in 16 clears the page, as new memory is.
fn new_value() -> u64 {
    with(|world| match world.random.below(16) {
        0 => 0,
        _ => world.hash ^ world.now_ns | 1,
    })
}

/// Reads or writes a page that may be read or written.
fn use_page(page: usize, is_write: bool) -> bool {
    let touched = try_page(page, is_write);
    if touched == Touched::Segv {
        with(|world| world.model.fail(&format!("{page:#x} gets a SIGSEGV")));
    }
    matches!(touched, Touched::Value(_))
}

/// Reads or writes a page that may be anything.
fn try_page(page: usize, is_write: bool) -> Touched {
    let touched = access(page, is_write.then(new_value));
    if touched == Touched::Bus {
        with(|world| {
            let lost = world.model.may_hold(page).iter().any(|value| world.disk.lost.contains(value));
            if !lost {
                world.model.fail(&format!("{page:#x} gets a SIGBUS, and nothing was lost"));
            }
        });
    }
    touched
}

/// A thread sets about to change a range.
fn announce(start: usize, count: usize) {
    with(|world| {
        if world.changed.len() == CHANGES_REMEMBERED {
            world.changed.pop_front();
        }
        world.changed.push_back((start, count));
    });
}

/// The pipe is read: it has what the program last wrote there.
fn release(held: Held) {
    with(|world| {
        let index = world.held.iter().position(|other| other.frame == held.frame);
        let Held { frame, content } = world.held.remove(index.expect("it is held"));
        let found = world.memory.frames[frame].content;
        if found != content {
            world.model.fail(&format!("a pipe that holds {content} gives {found}"));
        }
        world.memory.let_go(frame);
    });
}

impl Thread {
    fn below(&mut self, bound: usize) -> usize {
        random(self.random.below(bound as u64))
    }

    /// Reads a page of its own, whatever kind it is.
    fn look(&mut self, page: usize) {
        match self.own[&page] {
            Kind::Writable | Kind::Readable | Kind::Locked => _ = use_page(page, false),
            Kind::Closed => {}
            Kind::Guarded => {
                let touched = access(page, None);
                if touched != Touched::Segv {
                    with(|world| world.model.fail(&format!("the guard at {page:#x} is gone: {touched:?}")));
                }
            }
        }
    }

    /// Some page that may be used, of the thread's own or shared.
    fn any_page(&mut self) -> (usize, bool) {
        let (start, count) = self.character.shared;
        if self.own.is_empty() || self.below(3) == 0 {
            return (start + self.below(count) * PAGE_BYTES, true);
        }
        let index = self.below(self.own.len());
        let (&page, &kind) = self.own.iter().nth(index).expect("the index is below the count");
        (page, matches!(kind, Kind::Writable | Kind::Locked))
    }

    /// Pages of the thread's own in a row: the first, and how many. Of one kind, if `alike`.
    fn own_run(&mut self, most: usize, alike: bool) -> Option<(usize, usize)> {
        if self.own.is_empty() {
            return None;
        }
        let (index, most) = (self.below(self.own.len()), 1 + self.below(most));
        let (&start, &kind) = self.own.iter().nth(index)?;
        let follows = |count: &usize| match self.own.get(&(start + count * PAGE_BYTES)) {
            Some(&other) => !alike || other == kind,
            None => false,
        };
        let count = (1..most).take_while(follows).count() + 1;
        Some((start, count))
    }

    fn is_in_use(&self, start: usize, count: usize) -> bool {
        let frames = with(|world| frames(world, start, count));
        self.held.iter().any(|held| frames.contains(&Some(held.frame)))
    }

    fn act(&mut self) {
        let chances = self.character.chances;
        let mut left = self.random.below(chances.iter().sum());
        let mut action = 0;
        while left >= chances[action] {
            left -= chances[action];
            action += 1;
        }
        match action {
            0 => self.go_along(),
            1 => self.jump_about(),
            2 => self.map(),
            3 => self.unmap(),
            4 => self.move_mapping(),
            5 => self.drop_contents(),
            6 => self.guard(),
            7 => self.protect(),
            8 => self.transfer(),
            9 => self.hold(),
            10 => self.lock(),
            11 => self.meddle(),
            12 => self.handle_faults(),
            _ => self.fork(),
        }
    }

    fn unmovable(&self) -> usize {
        let is_movable = |kind: &&Kind| matches!(kind, Kind::Writable | Kind::Guarded);
        self.own.values().filter(|kind| !is_movable(kind)).count()
    }

    fn may_use(&self, page: usize) -> Option<bool> {
        let (start, count) = self.character.shared;
        if (start..start + count * PAGE_BYTES).contains(&page) {
            return Some(true);
        }
        match self.own.get(&page)? {
            Kind::Writable | Kind::Locked => Some(true),
            Kind::Readable => Some(false),
            Kind::Closed | Kind::Guarded => None,
        }
    }

    fn go_along(&mut self) {
        if self.below(4) == 0 {
            self.cursor = self.any_page().0;
        }
        let is_write = self.below(2) == 0;
        for _ in 0..1 + self.below(40) {
            match self.may_use(self.cursor) {
                Some(is_writable) => _ = use_page(self.cursor, is_write && is_writable),
                None => {
                    self.cursor = self.any_page().0;
                    break;
                }
            }
            self.cursor += PAGE_BYTES;
        }
    }

    fn jump_about(&mut self) {
        for _ in 0..1 + self.below(12) {
            let (page, _) = self.any_page();
            let is_write = self.below(2) == 0;
            if let Some(is_writable) = self.may_use(page) {
                use_page(page, is_write && is_writable);
            }
        }
    }

    fn map(&mut self) {
        let count = 1 + self.below(24);
        if self.own.len() + count > self.character.most_pages {
            return self.unmap();
        }
        let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS;
        // Sometimes in place of what is there, or where there may have been something.
        let way = self.below(4);
        let place = match way {
            0 => self.own_run(count, false).filter(|&(start, count)| !self.is_in_use(start, count)),
            _ => None,
        };
        let protection = (raw::PROT_READ | raw::PROT_WRITE) as i32;
        let (address, count, flags) = match place {
            Some((start, count)) => (start, count, flags | raw::MAP_FIXED),
            None if way == 1 => (self.changed().map_or(0, |(start, _)| start), count, flags),
            None => (0, count, flags),
        };
        if address > 0 {
            announce(address, count);
        }
        let start = hook_mmap(address, count * PAGE_BYTES, protection, flags as i32, -1, 0) as usize;
        with(|world| {
            let thread = world.schedule.current();
            let World { unreturned, model, .. } = world;
            unreturned
                .extract_if(.., |(other, _)| *other == thread)
                .for_each(|(_, number)| model.end_drop(number));
        });
        self.note(start, count, Kind::Writable);
    }

    fn note(&mut self, start: usize, count: usize, kind: Kind) {
        for page in 0..count {
            self.own.insert(start + page * PAGE_BYTES, kind);
        }
    }

    fn forget(&mut self, start: usize, count: usize) {
        for page in 0..count {
            self.own.remove(&(start + page * PAGE_BYTES));
        }
    }

    fn unmap(&mut self) {
        let Some((start, count)) = self.own_run(32, false) else { return };
        self.forget(start, count);
        announce(start, count);
        // SAFETY: the memory is simulated.
        unsafe { call(raw::__NR_munmap, [start, count * PAGE_BYTES, 0, 0, 0, 0]) };
    }

    fn move_mapping(&mut self) {
        let Some((old, count)) = self.own_run(24, true) else { return };
        let kind = self.own[&old];
        if kind == Kind::Locked {
            return;
        }
        let way = self.below(6);
        // The kernel chooses a place for what has grown and has no room where it is, as a buffer
        // does in realloc.
        let new_count = match self.below(3) {
            0 => count,
            1 if way > 3 => 1 + self.below(count),
            _ if matches!(kind, Kind::Guarded | Kind::Readable | Kind::Closed) => count,
            _ if self.own.len() + count > self.character.most_pages => return self.unmap(),
            _ => count + 1 + self.below(count),
        };
        let (length, new_length) = (count * PAGE_BYTES, new_count * PAGE_BYTES);
        let may_move = raw::MREMAP_MAYMOVE;
        announce(old, count);
        let result = match way {
            0 => hook_mremap(old, length, new_length, 0, 0),
            1..4 => hook_mremap(old, length, new_length, may_move as i32, 0),
            _ => {
                let place = self.place_for(old, count, new_count);
                let flags = may_move | raw::MREMAP_FIXED;
                hook_mremap(old, length, new_length, flags as i32, place)
            }
        };
        if result < 0 {
            return;
        }
        self.forget(old, count);
        self.note(result as usize, count.min(new_count), kind);
        // What is new has no guards.
        let rest = if kind == Kind::Guarded { Kind::Writable } else { kind };
        for page in count..new_count {
            self.own.insert(result as usize + page * PAGE_BYTES, rest);
        }
    }

    /// A place for what is moved: in place of other memory of the thread's own, or reserved.
    fn place_for(&mut self, old: usize, count: usize, new_count: usize) -> usize {
        let length = new_count * PAGE_BYTES;
        let over = self.own_run(2 * new_count, false).filter(|&(start, found)| {
            let is_apart = start + length <= old || old + count * PAGE_BYTES <= start;
            found >= new_count && is_apart && !self.is_in_use(start, new_count)
        });
        if let Some((start, _)) = over {
            announce(start, new_count);
            return start;
        }
        let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE;
        let place = hook_mmap(0, length, raw::PROT_NONE as i32, flags as i32, -1, 0) as usize;
        self.note(place, new_count, Kind::Closed);
        place
    }

    /// A range that some thread has set about to change.
    fn changed(&mut self) -> Option<(usize, usize)> {
        let count = with(|world| world.changed.len());
        let index = self.below(count.max(1));
        with(|world| world.changed.get(index).copied())
    }

    /// Touches pages that others are about to change, or have just changed.
    fn meddle(&mut self) {
        for _ in 0..1 + self.below(12) {
            let Some((start, count)) = self.changed() else { return };
            let page = start + self.below(count) * PAGE_BYTES;
            let is_write = self.below(2) == 0;
            try_page(page, is_write);
        }
    }

    fn drop_contents(&mut self) {
        let (start, count) = match self.below(2) {
            0 => {
                let (start, count) = self.character.shared;
                let first = self.below(count);
                (start + first * PAGE_BYTES, 1 + self.below((count - first).min(40)))
            }
            _ => match self.own_run(24, false) {
                Some(run) => run,
                None => return,
            },
        };
        announce(start, count);
        if self.below(8) == 0 {
            // SAFETY: the memory is simulated.
            unsafe {
                call(raw::__NR_madvise, [start, count * PAGE_BYTES, raw::MADV_DONTNEED as usize, 0, 0, 0])
            };
            return;
        }
        let before = with(|world| world.model.now());
        if hook_madvise(start, count * PAGE_BYTES, raw::MADV_DONTNEED as i32) == 0 {
            with(|world| world.model.expect_dropped(start, start + count * PAGE_BYTES, before));
        }
    }

    fn guard(&mut self) {
        let Some((start, count)) = self.own_run(8, true) else { return };
        announce(start, count);
        match self.own[&start] {
            Kind::Writable => {
                if hook_madvise(start, count * PAGE_BYTES, raw::MADV_GUARD_INSTALL as i32) == 0 {
                    self.note(start, count, Kind::Guarded);
                }
            }
            Kind::Guarded => {
                if hook_madvise(start, count * PAGE_BYTES, raw::MADV_GUARD_REMOVE as i32) == 0 {
                    self.note(start, count, Kind::Writable);
                }
            }
            Kind::Readable | Kind::Closed | Kind::Locked => {}
        }
    }

    fn protect(&mut self) {
        let Some((start, count)) = self.own_run(8, true) else { return };
        let all = raw::PROT_READ | raw::PROT_WRITE;
        let is_too_much = self.unmovable() + count > self.character.most_unmovable;
        let (kind, protection) = match (self.own[&start], self.below(3)) {
            (Kind::Guarded | Kind::Locked, _) => return,
            (Kind::Writable, _) if is_too_much => return,
            (Kind::Writable, 0) => (Kind::Closed, raw::PROT_NONE),
            (Kind::Writable, _) => (Kind::Readable, raw::PROT_READ),
            (Kind::Readable | Kind::Closed, _) => (Kind::Writable, all),
        };
        if hook_mprotect(start, count * PAGE_BYTES, protection as i32) == 0 {
            self.note(start, count, kind);
        }
    }

    /// A device writes to a page: it pins the frame, and is done some time later.
    fn transfer(&mut self) {
        let Some((page, _)) = self.own_run(1, true) else { return };
        if self.own[&page] != Kind::Writable || !use_page(page, true) {
            return;
        }
        // The kernel pins what is there, and brings in what is not.
        let frame = loop {
            let pinned = with(|world| match frames(world, page, 1)[0] {
                Some(frame) => {
                    let space = world.space();
                    let frame = world.memory.unshare(space, page).unwrap_or(frame);
                    world.memory.hold(frame);
                    world.memory.frames[frame].pins += 1;
                    Some(frame)
                }
                None => None,
            });
            match pinned {
                Some(frame) => break frame,
                None if use_page(page, false) => {}
                None => return,
            }
        };
        for _ in 0..self.below(60) {
            sched_yield();
        }
        let value = new_value();
        with(|world| {
            world.put(frame, value);
            world.memory.frames[frame].pins -= 1;
            world.memory.let_go(frame);
            world.model.write(page, value);
            world.log(|| format!("a device has written {value} to {page:#x}"));
        });
    }

    /// Puts a page into a pipe, or reads what has been put there.
    fn hold(&mut self) {
        if self.held.len() > 4 || !self.held.is_empty() && self.below(3) == 0 {
            let index = self.below(self.held.len());
            return release(self.held.swap_remove(index));
        }
        let (page, _) = self.any_page();
        if self.may_use(page).is_none() || !use_page(page, false) {
            return;
        }
        let held = with(|world| {
            let frame = frames(world, page, 1)[0]?;
            let content = world.memory.frames[frame].content;
            world.memory.hold(frame);
            world.held.push(Held { frame, content });
            world.log(|| format!("a pipe holds {content} of {page:#x}"));
            Some(Held { frame, content })
        });
        self.held.extend(held);
    }

    fn lock(&mut self) {
        let Some((start, count)) = self.own_run(4, true) else { return };
        let is_too_much = self.unmovable() + count > self.character.most_unmovable;
        let (number, kind) = match self.own[&start] {
            Kind::Writable if !is_too_much => (raw::__NR_mlock, Kind::Locked),
            Kind::Locked => (raw::__NR_munlock, Kind::Writable),
            _ => return,
        };
        // SAFETY: the memory is simulated.
        unsafe { call(number, [start, count * PAGE_BYTES, 0, 0, 0, 0]) };
        self.note(start, count, kind);
    }
}

impl Thread {
    /// Has some of its memory for itself, as for a userfaultfd of its own, and gives it back.
    fn handle_faults(&mut self) {
        let Some((start, count)) = self.own_run(6, true) else { return };
        let is_too_much = self.unmovable() + count > self.character.most_unmovable;
        if self.own[&start] != Kind::Writable || is_too_much {
            return;
        }
        MAILBOX.call(Call::Cede, start, count * PAGE_BYTES);
        for page in (start..start + count * PAGE_BYTES).step_by(PAGE_BYTES) {
            let is_write = self.below(3) == 0;
            use_page(page, is_write);
        }
        MAILBOX.call(Call::Resume, start, count * PAGE_BYTES);
        self.look(start);
    }

    /// Makes a child, unless another lives. The thread uses its memory while it is being copied.
    fn fork(&mut self) {
        let may_fork = with(|world| {
            let forks = world.memory.spaces.len() - 1;
            world.child.model.is_none() && forks < MOST_CHILDREN
        });
        if !may_fork {
            return;
        }
        crate::entry::fork::forking(|| {
            // Another thread may have been faster.
            if with(|world| world.child.model.is_some()) {
                return -1;
            }
            self.jump_about();
            // SAFETY: the process is simulated.
            let result = unsafe { call(raw::__NR_fork, [0; 6]) };
            self.jump_about();
            result
        });
    }
}

/// A child until it would have an agent: its parent's agent answers it.
pub(super) fn child(seed: u64, character: Character, socket: OwnedFd) {
    let mut random = SplitMix64::new(seed);
    let (shared, count) = character.shared;
    let (own, changed, has_agent) = with(|world| {
        world.random.next_u64();
        random = SplitMix64::new(world.random.next_u64());
        let model = world.child.model.as_ref().expect("a child lives");
        (model.written(), world.changed.clone(), random.below(3) > 0)
    });
    for _ in 0..random.below(MOST_TOUCHED as u64) {
        if with(|world| world.model.failure.is_some()) {
            return;
        }
        let page = match random.below(4) {
            0 => shared + random.below(count as u64) as usize * PAGE_BYTES,
            // What was about to be changed when it was copied, or soon after.
            1 if !changed.is_empty() => {
                let (start, count) = changed[random.below(changed.len() as u64) as usize];
                start + random.below(count as u64) as usize * PAGE_BYTES
            }
            _ if own.is_empty() => continue,
            _ => own[random.below(own.len() as u64) as usize],
        };
        // Memory may be closed, guarded or gone in this process.
        let value = (random.below(4) == 0).then(new_value);
        access(page, value);
    }
    if has_agent {
        let _ = send(&socket, &[1], SendFlags::NOSIGNAL);
        block(Until::Readable(alloc::vec![socket.as_raw_fd()], None));
    }
    drop(socket);
    end_process();
}

/// The frames of some pages in a row.
fn frames(world: &World, start: usize, count: usize) -> Vec<Option<usize>> {
    let space = &world.memory.spaces[world.space()];
    let pages = (start..start + count * PAGE_BYTES).step_by(PAGE_BYTES);
    pages
        .map(|page| match space.table.get(&page) {
            Some(Entry::Present { frame, .. }) => Some(*frame),
            _ => None,
        })
        .collect()
}
