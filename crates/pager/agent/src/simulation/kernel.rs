//! The simulated kernel, behind the functions of `crate::kernel`.
//!
//! Each function is called on a thread of the simulation, the agent or one of the program's. Where
//! the kernel holds no lock, [`step`] lets other threads run. Where it has a thread wait, so does
//! this.

use super::memory::{Area, ContextId, Entry, SimulatedMemory, Space, TaskId, Told, page_of};
use super::model::Model;
use super::schedule::{Until, block, step};
use super::{Object, World, with};
use crate::accessed::GROUP_PAGES;
use crate::kernel::passing::send_file;
use crate::kernel::{
    ACCESSED, EVENT_REMAP, EVENT_REMOVE, EVENT_UNMAP, GUARD, Message, OpenError, PAGE_BYTES, Progress,
    Region, SWAPPED, TRACKED,
};
use crate::store::ring::{Completion, Direction, Request};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;
use linux_raw_sys::general as raw;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pwrite};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::CpuSet;

/// The program's mappings are below this address, as the kernel places them.
pub(super) const TOP: usize = 0x7f00_0000_0000;
/// The pager's are from here on.
pub(super) const OWN: usize = 0x7800_0000_0000;

fn refused(error: Errno) -> isize {
    -(error.raw_os_error() as isize)
}

fn happens(world: &mut World, one_in: u64) -> bool {
    one_in > 0 && world.random.below(one_in) == 0
}

/// A descriptor that stands for something of the simulation.
pub(super) fn descriptor(object: Object) -> OwnedFd {
    let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    let fd = null.expect("/dev/null can be opened");
    with(|world| world.objects.insert(fd.as_raw_fd(), object));
    fd
}

fn file_of(world: &World, file: BorrowedFd<'_>) -> usize {
    match world.objects.get(&file.as_raw_fd()) {
        Some(Object::File(number)) => *number,
        other => panic!("a transfer of {other:?}"),
    }
}

// ---- userfaultfd

pub(crate) fn open_context(features: u64) -> Result<(OwnedFd, ContextId), OpenError> {
    let context = with(|world| {
        if features & TRACKED != 0 && world.behaviour.no_tracking {
            return Err(OpenError::NotSupported);
        }
        let space = world.space();
        Ok(world.memory.new_context(space, features))
    })?;
    Ok((descriptor(Object::Context(context)), context))
}

/// The userfaultfd of a descriptor that was received.
pub(crate) fn context_of(fd: i32) -> ContextId {
    with(|world| match world.objects.get(&fd) {
        Some(Object::Context(context)) => *context,
        other => panic!("descriptor {fd} is {other:?}"),
    })
}

pub(crate) fn register(context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
    step();
    with(|world| {
        world.note("register", start, length);
        world.memory.register(context, start, length)
    })
}

pub(crate) fn register_tracked(context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
    step();
    with(|world| {
        world.note("register tracked", start, length);
        world.memory.register_tracked(context, start, length)
    })
}

pub(crate) fn protect(context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
    step();
    with(|world| match world.memory.contexts[context].changing {
        0 => world.memory.protect(context, start, length),
        _ => Err(Errno::AGAIN),
    })
}

pub(crate) fn unregister(context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
    step();
    with(|world| {
        world.note("unregister", start, length);
        world.memory.unregister(context, start, length);
        world.wake(context, start, length);
    });
    Ok(())
}

pub(crate) fn wake(context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
    step();
    with(|world| world.wake(context, start, length));
    Ok(())
}

/// What the calls that fill a range have in common: no change may be under way, and they may stop
/// on the way for no reason of the caller's.
fn fill(
    context: ContextId,
    name: &'static str,
    (to, from, length): (usize, usize, usize),
    wakes: bool,
    fill: impl FnOnce(&mut World, usize) -> (usize, Option<Errno>),
) -> Progress {
    step();
    let progress = with(|world| {
        let is_refused = world.memory.contexts[context].changing > 0;
        let (bytes, error) = if is_refused {
            (0, Some(Errno::AGAIN))
        } else if length > 0 && happens(world, world.behaviour.no_memory) {
            (0, Some(Errno::NOMEM))
        } else if name == "move" && happens(world, world.behaviour.busy_locks) {
            (0, Some(Errno::AGAIN))
        } else {
            // A call may be interrupted after some of its pages.
            let pages = length / PAGE_BYTES;
            let most = match pages > 1 && happens(world, world.behaviour.partial) {
                true => 1 + world.random.below(pages as u64 - 1) as usize,
                false => pages,
            };
            match fill(world, if pages == 0 { length } else { most * PAGE_BYTES }) {
                (done, None) if done < length => (done, Some(Errno::AGAIN)),
                done => done,
            }
        };
        let (bytes, error) = match name == "move" && bytes > 0 && happens(world, world.behaviour.uncounted) {
            true => {
                (world.random.below((bytes / PAGE_BYTES) as u64) as usize * PAGE_BYTES, Some(Errno::EXIST))
            }
            false => (bytes, error),
        };
        world.note(name, to, from ^ bytes ^ error.map_or(0, |error| error.raw_os_error() as usize) << 40);
        world.log(|| format!("{name} {from:#x} -> {to:#x} +{length:#x}: {bytes:#x} {error:?}"));
        if bytes > 0 && wakes {
            world.wake(context, to, bytes);
        }
        match error {
            Some(_) if bytes > 0 => Progress { bytes, error: None },
            error => Progress { bytes, error },
        }
    });
    step();
    progress
}

pub(crate) fn copy(context: ContextId, to: usize, from: usize, length: usize, wakes: bool) -> Progress {
    fill(context, "copy", (to, from, length), wakes, |world, most| {
        let overwritten = world.behaviour.guards_are_overwritten;
        let caller = world.space();
        let World { memory, model, .. } = world;
        memory.copy((caller, context), (to, from, most), overwritten, model)
    })
}

pub(crate) fn move_pages(context: ContextId, to: usize, from: usize, length: usize) -> Progress {
    fill(context, "move", (to, from, length), true, |world, most| {
        world.memory.move_pages(context, to, from, most)
    })
}

pub(crate) fn poison(context: ContextId, start: usize, length: usize) -> Result<(), Errno> {
    step();
    with(|world| {
        if world.memory.contexts[context].changing > 0 {
            return Err(Errno::AGAIN);
        }
        let (bytes, error) = world.memory.poison(context, start, length);
        world.log(|| format!("poison {start:#x} +{length:#x}: {error:?}"));
        if bytes > 0 {
            world.wake(context, start, bytes);
        }
        error.map_or(Ok(()), Err)
    })
}

/// Whether a copy would be refused because of a change.
pub(crate) fn is_changing(context: ContextId) -> bool {
    step();
    with(|world| world.memory.contexts[context].changing > 0)
}

/// Reads messages: faults first, then events.
pub(crate) fn read(context: ContextId, buffer: &mut [Message]) -> Result<usize, Errno> {
    step();
    let messages = buffer.iter_mut().map_while(|place| {
        *place = match with(|world| next_message(world, context))? {
            Next::Message(message) => message,
            // The descriptor is there before the thread goes on.
            Next::Fork { task, child } => {
                let mut message = empty();
                message.event = raw::UFFD_EVENT_FORK as u8;
                message.arg.fork.ufd = descriptor(Object::Context(child)).into_raw_fd() as u32;
                with(|world| world.schedule.ready(task));
                as_message(message)
            }
        };
        Some(())
    });
    Ok(messages.count())
}

enum Next {
    Message(Message),
    Fork { task: TaskId, child: ContextId },
}

fn empty() -> raw::uffd_msg {
    // SAFETY: plain data, for which zeros are a value.
    unsafe { core::mem::zeroed() }
}

fn as_message(message: raw::uffd_msg) -> Message {
    // SAFETY: a `Message` is nothing but this struct.
    unsafe { core::mem::transmute(message) }
}

fn next_message(world: &mut World, context: ContextId) -> Option<Next> {
    let mut message = empty();
    let pending = world.memory.contexts[context].faults.iter_mut().find(|fault| !fault.is_read);
    if let Some(fault) = pending {
        fault.is_read = true;
        let (page, task) = (fault.page, fault.task);
        message.event = raw::UFFD_EVENT_PAGEFAULT as u8;
        message.arg.pagefault.address = page as u64;
        message.arg.pagefault.feat.ptid = task as u32;
        world.note("told fault", page, task);
        world.log(|| format!("told: fault at {page:#x} of thread {task}"));
        return Some(Next::Message(as_message(message)));
    }
    let (task, told) = world.memory.contexts[context].events.pop_front()?;
    world.note("told", task, 0);
    world.log(|| format!("told: {told:x?} of thread {task}"));
    match told {
        Told::Fork { child } => return Some(Next::Fork { task, child }),
        Told::Remap { from, to, length } => {
            message.event = raw::UFFD_EVENT_REMAP as u8;
            message.arg.remap.from = from as u64;
            message.arg.remap.to = to as u64;
            message.arg.remap.len = length as u64;
        }
        Told::Remove { start, end } => {
            message.event = raw::UFFD_EVENT_REMOVE as u8;
            message.arg.remove.start = start as u64;
            message.arg.remove.end = end as u64;
        }
        Told::Unmap { start, end } => {
            message.event = raw::UFFD_EVENT_UNMAP as u8;
            message.arg.remove.start = start as u64;
            message.arg.remove.end = end as u64;
        }
    }
    world.schedule.ready(task);
    Some(Next::Message(as_message(message)))
}

// ---- what is present

pub(crate) fn scan_present(start: usize, end: usize, found: &mut [Region]) -> (usize, usize) {
    scan(start, end, found, |_, _, entry| matches!(entry, Entry::Present { .. } | Entry::Poison))
}

pub(crate) fn scan_categories(
    start: usize,
    end: usize,
    categories: u64,
    found: &mut [Region],
) -> (usize, usize) {
    scan(start, end, found, |space, page, entry| match entry {
        Entry::Present { .. } => categories & ACCESSED != 0 && space.is_tracked_and_accessed(page),
        Entry::Guard => categories & (GUARD | SWAPPED) != 0,
        Entry::Poison => categories & SWAPPED != 0,
    })
}

fn scan(
    start: usize,
    end: usize,
    found: &mut [Region],
    is_meant: impl Fn(&Space, usize, Entry) -> bool,
) -> (usize, usize) {
    step();
    with(|world| {
        let space = &world.memory.spaces[world.space()];
        let mut count = 0;
        for (page, entry) in space.entries(start, end) {
            if !is_meant(space, page, entry) {
                continue;
            }
            let behind = (page + PAGE_BYTES) as u64;
            if count > 0 && found[count - 1].end == page as u64 {
                found[count - 1].end = behind;
            } else if count < found.len() {
                found[count] = Region { start: page as u64, end: behind, categories: 0 };
                count += 1;
            } else {
                return (count, page);
            }
        }
        (count, end)
    })
}

// ---- waiting and time

pub(crate) fn sched_yield() {
    block(Until::Others);
}

pub(crate) fn sleep(nanoseconds: i64) {
    let until = with(|world| world.now_ns + nanoseconds as u64);
    block(Until::Time(until));
}

/// Which of these descriptors are readable, when one is or the time is over.
pub(crate) fn poll(descriptors: &[Option<i32>], timeout_ns: Option<u64>) -> Vec<bool> {
    let deadline = with(|world| timeout_ns.map(|timeout| world.now_ns + timeout));
    block(Until::Readable(descriptors.iter().flatten().copied().collect(), deadline));
    with(|world| descriptors.iter().map(|fd| fd.is_some_and(|fd| world.is_readable(fd))).collect())
}

impl World {
    pub(super) fn is_readable(&self, fd: i32) -> bool {
        match self.objects.get(&fd) {
            Some(Object::Context(context)) => self.memory.contexts[*context].is_readable(),
            Some(Object::Ring) => self.disk.has_completions(),
            Some(Object::File(_) | Object::Pagemap) => false,
            None => is_socket_readable(fd),
        }
    }

    fn wake(&mut self, context: ContextId, start: usize, length: usize) {
        for task in self.memory.wake(context, start, length) {
            self.schedule.ready(task);
        }
    }
}

// ---- forks

/// Sockets are real ones. Those of a fork have been made.
pub(crate) fn has_sockets(pair: &(OwnedFd, OwnedFd)) {
    with(|world| {
        // Their numbers may have been something else's before.
        world.objects.remove(&pair.0.as_raw_fd());
        world.objects.remove(&pair.1.as_raw_fd());
        world.child.socket = pair.1.as_raw_fd();
    });
}

fn is_socket_readable(fd: i32) -> bool {
    // SAFETY: whoever waits for it keeps it open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut descriptors = [rustix::event::PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut descriptors, Some(&now)).is_ok_and(|count| count > 0)
}

/// The program as a process.
pub(crate) fn process() -> OwnedFd {
    descriptor(Object::Pagemap)
}

/// The command's answer: some file for the program, or none. It may take a while.
pub(crate) fn ask_for_program() -> Result<OwnedFd, Errno> {
    const LONGEST_NS: u64 = 10_000_000;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let (has_program, wait_ns) = with(|world| {
        world.log(|| "asks for accessed bits".into());
        // Its number may have been something else's before.
        world.objects.remove(&ours.as_raw_fd());
        (!world.behaviour.no_program, world.random.below(LONGEST_NS))
    });
    sleep(wait_ns as i64);
    if has_program {
        send_file(&theirs, &[0], theirs.as_fd())?;
    }
    Ok(ours)
}

/// Fails where no page is, and does not wait for one.
pub(crate) fn unshare(address: usize) -> Result<(), Errno> {
    step();
    with(|world| {
        let space = world.space();
        world.memory.unshare(space, address).map(drop).ok_or(Errno::FAULT)
    })
}

/// Which pages of a group the process has used since their accessed bits were last cleared.
pub(crate) fn accessed(address: usize) -> u64 {
    let start = address & !(GROUP_PAGES * PAGE_BYTES - 1);
    with(|world| {
        let Space { table, accessed, .. } = &world.memory.spaces[world.space()];
        let is_set = |page: usize| {
            let at = start + page * PAGE_BYTES;
            accessed.contains(&at) && matches!(table.get(&at), Some(Entry::Present { .. }))
        };
        (0..GROUP_PAGES).fold(0, |bits, page| bits | u64::from(is_set(page)) << page)
    })
}

/// A copy of a descriptor of the program.
pub(crate) fn fetch(number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: its owner waits for this call.
    let copy = fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 3)?;
    with(|world| world.objects.remove(&copy.as_raw_fd()));
    Ok(copy)
}

/// `fork`. The child is a thread that has an address space of its own.
fn fork() -> isize {
    let (child, copies) = with(|world| {
        world.log(|| "forks".into());
        let parent = world.space();
        let (child, copies) = world.memory.fork(parent);
        world.child.model = Some(world.model.clone());
        world.child.is_fork_told = false;
        (child, copies)
    });
    // The child begins when its parent's userfaultfds have been told.
    copies.into_iter().for_each(|(context, child)| tell(context, Told::Fork { child }));
    let socket = with(|world| {
        world.child.is_fork_told = true;
        world.child.socket
    });
    let socket = fetch(socket).expect("the child's socket is open");
    with(|world| {
        let task = world.schedule.add(child, false);
        world.child.newborn.push((task, socket));
    });
    child as isize
}

/// A child has ended.
pub(super) fn end_process() {
    with(|world| {
        let space = world.space();
        let (start, end) = (0, usize::MAX & !(PAGE_BYTES - 1));
        world.memory.unmap(space, start, end);
        world.child.model = None;
    });
}

// ---- the disk

pub(crate) fn begin_transfer(request: &Request) {
    step();
    with(|world| {
        let file = file_of(world, request.file);
        let (address, length) = (request.address, request.length as usize);
        world.note("transfer", address, length);
        world.log(|| {
            format!(
                "{:?} {address:#x} +{length:#x} of file {file} at {:#x}",
                request.direction, request.offset
            )
        });
        let World { disk, memory, model, random, now_ns, .. } = world;
        let (place, what) = ((file, request.offset), (address, length));
        disk.begin(memory, model, random, *now_ns, request.direction, place, what, request.tag);
    });
}

pub(crate) fn reap(wait: bool) -> Option<Completion> {
    step();
    if wait {
        if !with(|world| world.disk.has_completions() || world.disk.is_busy()) {
            with(|world| world.model.fail("the pager waits for a transfer, and there is none"));
        }
        block(Until::Completion);
    }
    with(|world| world.disk.reap())
}

pub(crate) fn has_completions() -> bool {
    step();
    with(|world| world.disk.has_completions())
}

/// `pread` and `pwrite` of the store.
pub(crate) fn transfer_now(
    direction: Direction,
    file: BorrowedFd<'_>,
    address: usize,
    length: usize,
    offset: u64,
) -> Result<usize, Errno> {
    step();
    with(|world| {
        let file = file_of(world, file);
        world.log(|| format!("{direction:?} now {address:#x} +{length:#x} of file {file} at {offset:#x}"));
        let space = world.space();
        let World { disk, memory, model, random, .. } = world;
        let mut frames = Vec::new();
        for page in (address..address + length).step_by(PAGE_BYTES) {
            let is_native = memory.spaces[space].area(page).is_some_and(|(_, area)| area.context.is_none());
            if !memory.spaces[space].table.contains_key(&page) && is_native {
                let frame = memory.new_frame(0);
                memory.spaces[space].table.insert(page, Entry::Present { frame, exclusive: true });
            }
            match memory.unshare(space, page) {
                Some(frame) => frames.push(frame),
                None => {
                    model.fail("a transfer of memory that is missing");
                    return Err(Errno::FAULT);
                }
            }
        }
        let first = offset / PAGE_BYTES as u64;
        disk.transfer(memory, random, direction, file, first, &frames).map(|bytes| bytes as usize)
    })
}

pub(crate) fn reserve_space(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
    step();
    with(|world| {
        let file = file_of(world, file);
        if happens(world, world.behaviour.no_reservation) {
            return Err(Errno::OPNOTSUPP);
        }
        world.disk.reserve(file, (offset + length) / PAGE_BYTES as u64)
    })
}

// ---- memory of the pager

pub(crate) fn map_own(bytes: usize) -> usize {
    with(|world| {
        let space = world.space();
        let place = world.memory.spaces[space].gap_above(OWN, bytes);
        let protection = raw::PROT_READ | raw::PROT_WRITE;
        let area =
            Area { end: place + bytes, protection, is_locked: false, context: None, is_tracked: false };
        world.memory.spaces[space].map(place, area);
        place
    })
}

/// The checksum of a page of the pager's own. Different contents have different ones.
pub(crate) fn sum_page(address: usize) -> u64 {
    const KEY: u64 = 0x9e37_79b9_7f4a_7c15;
    with(|world| {
        let Some(content) = world.memory.peek(world.space(), address) else {
            world.model.fail("the pager has read a page of its own that is missing");
            return KEY;
        };
        content ^ KEY
    })
}

/// Bytes that the agent itself reads and writes, until the run ends. Not every kernel has room for
/// them.
pub(crate) fn map_bytes(bytes: usize) -> Option<&'static mut [u8]> {
    with(|world| {
        if world.behaviour.no_room_for_pool {
            return None;
        }
        world.agents.bytes.push(alloc::vec![0; bytes]);
        let bytes = world.agents.bytes.last_mut().expect("it was pushed");
        // SAFETY: the bytes stay where they are until the world ends, and the agent ends before.
        Some(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len()) })
    })
}

/// What a codec makes of a page with some content: how many bytes, and each of them. Some pages do
/// not compress.
fn compressed(content: u64) -> (usize, impl Fn(usize) -> u8) {
    const FEWEST: usize = size_of::<u64>();
    let mixed = (content ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let most = [64, 1024, PAGE_BYTES - FEWEST, PAGE_BYTES][(mixed >> 62) as usize];
    let length = if most == PAGE_BYTES { PAGE_BYTES } else { FEWEST + (mixed >> 32) as usize % most };
    (length, move |index| match content.to_le_bytes().get(index) {
        Some(byte) => *byte,
        None => mixed.rotate_left(index as u32) as u8,
    })
}

/// Compresses a page of the pager's own.
pub(crate) fn compress_page(address: usize, to: &mut [u8]) -> Option<usize> {
    let content = with(|world| world.memory.peek(world.space(), address));
    let Some(content) = content else {
        with(|world| world.model.fail("the pager has compressed a page of its own that is missing"));
        return None;
    };
    let (length, byte) = compressed(content);
    to[..length].iter_mut().enumerate().for_each(|(index, place)| *place = byte(index));
    Some(length)
}

/// Decompresses to a page of the pager's own, if each byte is as it was made.
pub(crate) fn decompress_page(bytes: &[u8], to: usize) -> bool {
    let Some(Ok(content)) = bytes.get(..size_of::<u64>()).map(TryInto::try_into) else { return false };
    let content = u64::from_le_bytes(content);
    let (length, byte) = compressed(content);
    let is_right =
        bytes.len() == length && bytes.iter().enumerate().all(|(index, found)| *found == byte(index));
    with(|world| {
        let space = world.space();
        if !world.memory.spaces[space].table.contains_key(&to) {
            let frame = world.memory.new_frame(0);
            world.memory.spaces[space].table.insert(to, Entry::Present { frame, exclusive: true });
        }
        let frame = world.memory.unshare(space, to).expect("it is there now");
        world.put(frame, content);
    });
    is_right
}

/// Opens a file of `/proc`. There are those that the agent cannot do without.
pub(crate) fn open_proc(path: &CStr) -> Result<OwnedFd, Errno> {
    match path.to_bytes() {
        // A store, without a name.
        b"." => Ok(descriptor(Object::File(with(|world| world.disk.new_file())))),
        b"self/status" if with(|world| world.behaviour.shared.1 > 0) => {
            let file = memfd_create(c"status", MemfdFlags::CLOEXEC)?;
            let copy = fcntl_dupfd_cloexec(&file, 3)?;
            with(|world| world.agents.status = Some(copy));
            Ok(file)
        }
        b"self/pagemap" => Ok(descriptor(Object::Pagemap)),
        b"self/maps" => {
            let file = memfd_create(c"maps", MemfdFlags::CLOEXEC)?;
            pwrite(&file, maps().as_bytes(), 0)?;
            Ok(file)
        }
        _ => Err(Errno::NOENT),
    }
}

/// The program comes to have its shared memory when it is time.
fn share(world: &mut World) {
    let (time_ns, pages) = world.behaviour.shared;
    if world.now_ns < time_ns {
        return;
    }
    if let Some(file) = world.agents.status.take() {
        let written = pwrite(&file, format!("RssShmem: {} kB\n", 4 * pages).as_bytes(), 0);
        written.expect("a file in memory can be written to");
        world.log(|| format!("has {pages} pages of shared memory"));
    }
}

/// The list of mappings, as `/proc/self/maps` has it.
fn maps() -> String {
    step();
    with(|world| {
        let mut text = String::new();
        let space = world.space();
        for (start, area) in &world.memory.spaces[space].areas {
            let letter = |bit, letter| if area.protection & bit != 0 { letter } else { '-' };
            let (read, write) = (letter(raw::PROT_READ, 'r'), letter(raw::PROT_WRITE, 'w'));
            let _ = writeln!(text, "{start:x}-{:x} {read}{write}-p 00000000 00:00 0 ", area.end);
        }
        text
    })
}

// ---- what threads of the program do

/// What comes of touching a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Touched {
    Value(u64),
    Segv,
    Bus,
}

/// Touches a page, to read it or to write a value. Waits for it if it is missing.
pub(super) fn access(page: usize, value: Option<u64>) -> Touched {
    step();
    loop {
        let waits = with(|world| match touch_once(world, page, value) {
            Ok(touched) => Err(touched),
            Err(context) => {
                world.begin_fault(context, page);
                Ok(())
            }
        });
        match waits {
            Err(touched) => return touched,
            Ok(()) => block(Until::Woken),
        }
    }
}

impl World {
    fn begin_fault(&mut self, context: ContextId, page: usize) {
        let task = self.schedule.current();
        self.note("fault", page, task);
        self.log(|| format!("misses {page:#x}"));
        let fault = super::memory::Waiting { task, page, is_read: false };
        self.memory.contexts[context].faults.push_back(fault);
    }
}

/// The userfaultfd to wait for, or what comes of it.
fn touch_once(world: &mut World, page: usize, value: Option<u64>) -> Result<Touched, ContextId> {
    let space = world.space();
    let memory = &mut world.memory;
    let Some((_, area)) = memory.spaces[space].area(page) else { return Ok(Touched::Segv) };
    let needed = if value.is_some() { raw::PROT_READ | raw::PROT_WRITE } else { raw::PROT_READ };
    if area.protection & needed != needed {
        return Ok(Touched::Segv);
    }
    match (memory.spaces[space].table.get(&page), area.context) {
        (Some(Entry::Guard), _) => return Ok(Touched::Segv),
        (Some(Entry::Poison), _) => return Ok(Touched::Bus),
        (Some(Entry::Present { .. }), _) => {}
        (None, Some(context)) => return Err(context),
        (None, None) => {
            let frame = memory.new_frame(0);
            memory.spaces[space].table.insert(page, Entry::Present { frame, exclusive: true });
        }
    }
    memory.spaces[space].accessed.insert(page);
    let found = match value {
        Some(value) => {
            let frame = memory.unshare(space, page).expect("it is present");
            world.put(frame, value);
            value
        }
        None => memory.peek(space, page).expect("it is present"),
    };
    if (super::BOTTOM..TOP).contains(&page) {
        let model = match (space, &mut world.child.model) {
            (0, _) | (_, None) => &mut world.model,
            (_, Some(model)) => model,
        };
        match value {
            Some(value) => model.write(page, value),
            None => model.read(page, found),
        }
        if let Some(failure) = world.child.model.as_mut().and_then(|model| model.failure.take()) {
            world.model.fail(&format!("in a child, {failure}"));
        }
    }
    world.note(if value.is_some() { "write" } else { "read" }, page, found as usize);
    world.log(|| format!("{} {found} at {page:#x}", if value.is_some() { "writes" } else { "finds" }));
    Ok(Touched::Value(found))
}

/// A thread reads its doorbell.
pub(crate) fn touch(address: usize) {
    access(page_of(address), None);
}

/// A thread has let go of the lock of its address space, for which others have waited. So it may be
/// long until it goes on.
fn let_go() {
    let until = with(|world| happens(world, world.behaviour.late).then(|| world.later()));
    match until {
        Some(until) => block(Until::Time(until)),
        None => step(),
    }
}

/// Tells a userfaultfd of a change, and waits until that has been read.
fn tell(context: ContextId, told: Told) {
    let_go();
    with(|world| {
        let task = world.schedule.current();
        world.memory.contexts[context].events.push_back((task, told));
    });
    block(Until::Woken);
    // It has been read, and only now is the change over.
    with(|world| world.memory.contexts[context].changing -= 1);
    step();
}

/// From now on a change is under way for these userfaultfds.
fn prepare(memory: &mut SimulatedMemory, contexts: &[ContextId]) {
    contexts.iter().for_each(|&context| memory.contexts[context].changing += 1);
}

/// Takes a range away. Returns whom to tell.
fn unmap(
    memory: &mut SimulatedMemory,
    model: &mut Model,
    space: usize,
    start: usize,
    end: usize,
) -> Vec<ContextId> {
    let contexts = memory.contexts_in(space, start, end, EVENT_UNMAP);
    prepare(memory, &contexts);
    memory.unmap(space, start, end);
    if space == 0 {
        model.forget(start, end);
    }
    contexts
}

fn whole(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

fn tell_unmapped(contexts: Vec<ContextId>, start: usize, end: usize) {
    contexts.into_iter().for_each(|context| tell(context, Told::Unmap { start, end }));
}

fn munmap(start: usize, length: usize) -> isize {
    let end = start + whole(length);
    let contexts = with(|world| {
        world.log(|| format!("munmap {start:#x} +{length:#x}"));
        let space = world.space();
        unmap(&mut world.memory, &mut world.model, space, start, end)
    });
    tell_unmapped(contexts, start, end);
    0
}

fn mmap(address: usize, length: usize, protection: u32, flags: u32) -> isize {
    let length = whole(length);
    let (start, contexts) = with(|world| {
        let space = world.space();
        let World { memory, model, .. } = world;
        let is_fixed = flags & raw::MAP_FIXED != 0;
        // A place that is asked for and free is given.
        let is_given = is_fixed
            || address >= super::BOTTOM
                && address + length <= TOP
                && memory.spaces[space].areas_in(address, address + length).is_empty();
        let start = if is_given { address } else { memory.spaces[space].gap_below(TOP, length) };
        let contexts = match is_fixed {
            true => unmap(memory, model, space, start, start + length),
            false => Vec::new(),
        };
        let area =
            Area { end: start + length, protection, is_locked: false, context: None, is_tracked: false };
        memory.spaces[space].map(start, area);
        if space == 0 {
            model.forget(start, start + length);
            // What other threads write to new memory before its address is told is anybody's guess.
            if !is_fixed && protection & raw::PROT_WRITE != 0 {
                let number = model.begin_drop(start, start + length);
                world.unreturned.push((world.schedule.current(), number));
            }
        }
        world.log(|| format!("mmap {start:#x} +{length:#x} protection {protection}"));
        (start, contexts)
    });
    tell_unmapped(contexts, start, start + length);
    start as isize
}

fn mprotect(start: usize, length: usize, protection: u32) -> isize {
    let end = start + whole(length);
    with(|world| {
        let space = world.space();
        if !world.memory.spaces[space].is_mapped(start, end) {
            return refused(Errno::NOMEM);
        }
        world.log(|| format!("mprotect {start:#x} +{length:#x} protection {protection}"));
        world.memory.spaces[space].change(start, end, |area| Some(Area { protection, ..area }));
        0
    })
}

fn lock(start: usize, length: usize, is_locked: bool) -> isize {
    let end = start + whole(length);
    with(|world| {
        let space = world.space();
        world.log(|| format!("lock {start:#x} +{length:#x}: {is_locked}"));
        world.memory.spaces[space].change(start, end, |area| Some(Area { is_locked, ..area }));
    });
    if is_locked {
        // The kernel brings in what is missing.
        for page in (start..end).step_by(PAGE_BYTES) {
            access(page, None);
        }
    }
    0
}

/// What came of an `mremap`.
enum Remapped {
    Not(isize),
    InPlace,
    Shrunk(Vec<ContextId>),
    Moved { to: usize, early: Vec<ContextId>, moved: Vec<ContextId>, late: Vec<(ContextId, usize)> },
}

fn mremap(old: usize, old_length: usize, length: usize, flags: u32, new: usize) -> isize {
    let (old_length, length) = (whole(old_length), whole(length));
    let remapped = with(|world| {
        world.log(|| format!("mremap {old:#x} +{old_length:#x} to +{length:#x} flags {flags} at {new:#x}"));
        remap(world, old, old_length, length, flags, new)
    });
    match remapped {
        Remapped::Not(result) => result,
        Remapped::InPlace => old as isize,
        Remapped::Shrunk(contexts) => {
            tell_unmapped(contexts, old + length, old + old_length);
            old as isize
        }
        Remapped::Moved { to, early, moved, late } => {
            tell_unmapped(early, to, to + length);
            let kept = old_length.min(length);
            moved.into_iter().for_each(|context| tell(context, Told::Remap { from: old, to, length: kept }));
            for (context, start) in late {
                let end = if start == old { old + kept } else { old + old_length };
                tell(context, Told::Unmap { start, end });
            }
            to as isize
        }
    }
}

/// Decides whether a mapping stays where it is, shrinks or moves, and does it.
fn remap(
    world: &mut World,
    old: usize,
    old_length: usize,
    length: usize,
    flags: u32,
    new: usize,
) -> Remapped {
    let (is_fixed, may_move) = (flags & raw::MREMAP_FIXED != 0, flags & raw::MREMAP_MAYMOVE != 0);
    let space = world.space();
    let World { memory, model, .. } = world;
    if is_fixed && new < old + old_length && old < new + length {
        return Remapped::Not(refused(Errno::INVAL));
    }
    let area = memory.spaces[space].area(old).map(|(_, area)| area);
    let Some(area) = area.filter(|area| area.end >= old + old_length.min(length)) else {
        return Remapped::Not(refused(Errno::FAULT));
    };
    if !is_fixed && length <= old_length {
        if length == old_length {
            return Remapped::InPlace;
        }
        return Remapped::Shrunk(unmap(memory, model, space, old + length, old + old_length));
    }
    if area.end < old + old_length {
        return Remapped::Not(refused(Errno::FAULT));
    }
    let behind = old + old_length;
    let is_free = length > old_length && memory.spaces[space].areas_in(behind, old + length).is_empty();
    if !is_fixed && area.end == behind && is_free && old + length <= TOP {
        memory.spaces[space].map(behind, Area { end: old + length, ..area });
        if space == 0 {
            model.forget(behind, old + length);
        }
        return Remapped::InPlace;
    }
    if !may_move {
        return Remapped::Not(refused(Errno::NOMEM));
    }
    move_mapping(world, area, old, old_length, length, is_fixed.then_some(new))
}

/// Moves a mapping to `new`, or to where there is room. `area` is the mapping.
fn move_mapping(
    world: &mut World,
    area: Area,
    old: usize,
    old_length: usize,
    length: usize,
    new: Option<usize>,
) -> Remapped {
    let space = world.space();
    let World { memory, model, .. } = world;
    let early = new.map_or_else(Vec::new, |new| unmap(memory, model, space, new, new + length));
    // Shrinking, with a place named, begins with what is cut off.
    let mut cut = Vec::new();
    if length < old_length {
        cut = unmap(memory, model, space, old + length, old + old_length);
    }
    let kept = old_length.min(length);
    let to = new.unwrap_or_else(|| memory.spaces[space].gap_below(TOP, length));
    let moved = memory.contexts_in(space, old, old + kept, EVENT_REMAP);
    prepare(memory, &moved);
    memory.spaces[space].map(to, Area { end: to + length, ..area });
    memory.move_table(space, old, to, kept);
    if space == 0 {
        model.forget(to, to + length);
        model.relocate(old, to, kept);
    }
    // What is left of the old mapping is unmapped, and that is told as well.
    let left = memory.contexts_in(space, old, old + kept, EVENT_UNMAP);
    prepare(memory, &left);
    memory.unmap(space, old, old + kept);
    let cut = cut.into_iter().map(|context| (context, old + kept));
    let late = cut.chain(left.into_iter().map(|context| (context, old))).collect();
    Remapped::Moved { to, early, moved, late }
}

fn madvise(start: usize, length: usize, advice: u32) -> isize {
    let end = start + whole(length);
    match advice {
        raw::MADV_DONTNEED => drop_contents(start, end),
        raw::MADV_GUARD_INSTALL => with(|world| {
            let space = world.space();
            world.log(|| format!("guards {start:#x} +{length:#x}"));
            if !world.memory.spaces[space].is_mapped(start, end) {
                return refused(Errno::NOMEM);
            }
            if world.memory.spaces[space].areas_in(start, end).iter().any(|(_, area)| area.is_locked) {
                return refused(Errno::INVAL);
            }
            world.memory.zap(space, start, end);
            for page in (start..end).step_by(PAGE_BYTES) {
                world.memory.spaces[space].table.insert(page, Entry::Guard);
            }
            world.model.forget(start, end);
            0
        }),
        raw::MADV_GUARD_REMOVE => with(|world| {
            let space = world.space();
            world.log(|| format!("no guards {start:#x} +{length:#x}"));
            for page in (start..end).step_by(PAGE_BYTES) {
                if world.memory.spaces[space].table.get(&page) == Some(&Entry::Guard) {
                    world.memory.spaces[space].table.remove(&page);
                }
            }
            0
        }),
        raw::MADV_NOHUGEPAGE => 0,
        raw::MADV_COLD => with(|world| {
            let space = world.space();
            world.memory.cool(space, start, end);
            0
        }),
        _ => panic!("madvise {advice}"),
    }
}

fn drop_contents(start: usize, end: usize) -> isize {
    let (space, areas) = with(|world| {
        let space = world.space();
        world.note("drop", start, end);
        (space, world.memory.spaces[space].areas_in(start, end))
    });
    let is_modelled = space == 0 && (super::BOTTOM..TOP).contains(&start);
    if is_modelled {
        with(|world| world.log(|| format!("drops {start:#x}-{end:#x}")));
    }
    let mut drops = Vec::new();
    let mut result = 0;
    for (from, area) in areas {
        if area.is_locked {
            result = refused(Errno::INVAL);
            break;
        }
        let contexts = with(|world| {
            if is_modelled {
                drops.push(world.model.begin_drop(from, area.end));
                // A drop that begins after the copy may be told before the fork: nobody can know
                // then which was first.
                if let (false, Some(childs)) = (world.child.is_fork_told, &mut world.child.model) {
                    childs.begin_drop(from, area.end);
                }
            }
            let contexts = world.memory.contexts_in(space, from, area.end, EVENT_REMOVE);
            prepare(&mut world.memory, &contexts);
            contexts
        });
        // It is told before it happens. If there is nobody to tell, it happens under the lock.
        if !contexts.is_empty() {
            contexts
                .into_iter()
                .for_each(|context| tell(context, Told::Remove { start: from, end: area.end }));
            // It has to have the lock again.
            let_go();
        }
        with(|world| {
            if is_modelled {
                world.log(|| format!("has dropped {from:#x}-{:#x}", area.end));
            }
            world.memory.zap(space, from, area.end);
        });
    }
    with(|world| drops.into_iter().for_each(|drop| world.model.end_drop(drop)));
    result
}

/// A system call.
///
/// # Safety
/// As for the system call, of which only pointers are meant.
pub(crate) unsafe fn call(number: u32, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, _] = arguments;
    match number {
        raw::__NR_rt_sigprocmask => return 0,
        raw::__NR_getpid => return 1,
        raw::__NR_capget => return refused(Errno::PERM),
        raw::__NR_io_uring_setup => return refused(Errno::NOSYS),
        raw::__NR_prlimit64 => {
            if fourth != 0 {
                // SAFETY: the caller has a place for a limit of two words there.
                unsafe { (fourth as *mut [u64; 2]).write([u64::MAX; 2]) };
            }
            return 0;
        }
        raw::__NR_clock_gettime => {
            let now_ns = with(|world| {
                share(world);
                world.now_ns
            });
            // The agent's thread has had a part of the process's time.
            let now_ns = if first as u32 == raw::CLOCK_THREAD_CPUTIME_ID { now_ns / 4 } else { now_ns };
            let time = [(now_ns / 1_000_000_000) as i64, (now_ns % 1_000_000_000) as i64];
            // SAFETY: the caller has a place for a time of two words there.
            unsafe { (second as *mut [i64; 2]).write(time) };
            return 0;
        }
        _ => {}
    }
    step();
    with(|world| world.note("call", number as usize, first ^ second << 1 ^ third << 2));
    let result = match number {
        raw::__NR_fork => fork(),
        raw::__NR_mmap => mmap(first, second, third as u32, fourth as u32),
        raw::__NR_munmap => munmap(first, second),
        raw::__NR_mprotect => mprotect(first, second, third as u32),
        raw::__NR_mlock => lock(first, second, true),
        raw::__NR_munlock => lock(first, second, false),
        raw::__NR_mremap => mremap(first, second, third, fourth as u32, fifth),
        raw::__NR_madvise => madvise(first, second, third as u32),
        _ => panic!("system call {number} is not simulated"),
    };
    step();
    result
}

/// The number of the running thread.
pub(crate) fn thread_number() -> u32 {
    with(|world| world.schedule.current() as u32)
}

/// The processors that the agent may use.
pub(crate) fn processors() -> CpuSet {
    let mut set = CpuSet::new();
    (0..with(|world| world.behaviour.processors)).for_each(|number| set.set(number));
    set
}
