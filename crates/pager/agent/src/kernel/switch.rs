//! For tests: the simulated kernel on threads that are simulated, the real one on others.
//!
//! Miri has no system calls but those of the C library. Under it, calls of `madvise` and of signal
//! masks do nothing, and memory comes from the allocator.

#![expect(missing_docs, reason = "as the real ones")]

use super::real;
use crate::kernel::PAGE_BYTES;
use crate::simulation::{self, is_on, kernel as simulated};
use crate::testing::World;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ffi::CStr;
use linux_raw_sys::general as raw;
use rustix::event::{PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};
use rustix::process::{ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags};
use rustix::thread::CpuSet;
use sweephand_uffd::{Message, OpenError, Progress, Region};

/// A userfaultfd: real, simulated, or one of [`testing`](crate::testing) that moves pages in a map.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: real::Userfaultfd,
    context: Option<usize>,
    world: Option<Rc<RefCell<World>>>,
}

impl AsFd for Userfaultfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Userfaultfd {
    fn from(fd: OwnedFd) -> Self {
        let context = is_on().then(|| simulated::context_of(fd.as_raw_fd()));
        Self { fd: fd.into(), context, world: None }
    }
}

impl Userfaultfd {
    pub(crate) fn of(world: &Rc<RefCell<World>>, fd: OwnedFd) -> Self {
        Self { fd: fd.into(), context: None, world: Some(world.clone()) }
    }

    pub fn open(features: u64) -> Result<Self, OpenError> {
        if is_on() {
            let (fd, context) = simulated::open_context(features)?;
            return Ok(Self { fd: fd.into(), context: Some(context), world: None });
        }
        real::Userfaultfd::open(features).map(|fd| Self { fd, context: None, world: None })
    }

    pub fn register(&self, start: usize, length: usize) -> Result<(), Errno> {
        match (self.context, &self.world) {
            (Some(context), _) => simulated::register(context, start, length),
            // In a map, all pages are missing that are not in it.
            (None, Some(_)) => Ok(()),
            (None, None) => self.fd.register(start, length),
        }
    }

    pub fn register_tracked(&self, start: usize, length: usize) -> Result<(), Errno> {
        match self.context {
            Some(context) => simulated::register_tracked(context, start, length),
            None => self.fd.register_tracked(start, length),
        }
    }

    pub fn protect(&self, start: usize, length: usize) -> Result<(), Errno> {
        match self.context {
            Some(context) => simulated::protect(context, start, length),
            None => self.fd.protect(start, length),
        }
    }

    pub fn unregister(&self, start: usize, length: usize) -> Result<(), Errno> {
        match self.context {
            Some(context) => simulated::unregister(context, start, length),
            None => self.fd.unregister(start, length),
        }
    }

    pub fn wake(&self, start: usize, length: usize) -> Result<(), Errno> {
        match self.context {
            Some(context) => simulated::wake(context, start, length),
            None => self.fd.wake(start, length),
        }
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn copy(&self, to: usize, from: usize, length: usize) -> Progress {
        match (self.context, &self.world) {
            (Some(context), _) => simulated::copy(context, to, from, length, true),
            (None, Some(world)) => world.borrow_mut().put(to, from, length, false),
            // SAFETY: as the caller promises.
            (None, None) => unsafe { self.fd.copy(to, from, length) },
        }
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn copy_asleep(&self, to: usize, from: usize, length: usize) -> Progress {
        match self.context {
            Some(context) => simulated::copy(context, to, from, length, false),
            // SAFETY: as the caller promises.
            None => unsafe { self.fd.copy_asleep(to, from, length) },
        }
    }

    pub fn poison(&self, start: usize, length: usize) -> Result<(), Errno> {
        match self.context {
            Some(context) => simulated::poison(context, start, length),
            None => self.fd.poison(start, length),
        }
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn move_pages(&self, to: usize, from: usize, length: usize) -> Progress {
        match (self.context, &self.world) {
            (Some(context), _) => simulated::move_pages(context, to, from, length),
            (None, Some(world)) => world.borrow_mut().put(to, from, length, true),
            // SAFETY: as the caller promises.
            (None, None) => unsafe { self.fd.move_pages(to, from, length) },
        }
    }

    pub fn is_changing(&self) -> bool {
        match self.context {
            Some(context) => simulated::is_changing(context),
            None => self.fd.is_changing(),
        }
    }

    pub fn read(&self, buffer: &mut [Message]) -> Result<usize, Errno> {
        match self.context {
            Some(context) => simulated::read(context, buffer),
            None => self.fd.read(buffer),
        }
    }
}

pub fn fetch_from_command(command: Option<&OwnedFd>, number: i32) -> Option<OwnedFd> {
    match is_on() {
        true => Some(simulated::process()),
        false => real::fetch_from_command(command, number),
    }
}

pub fn ask_at_door(door: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    match is_on() {
        true => simulated::ask_at_door(),
        false => real::ask_at_door(door),
    }
}

pub fn accessed(program: BorrowedFd<'_>, address: usize) -> Result<u64, Errno> {
    match is_on() {
        true => Ok(simulated::accessed(address)),
        false => real::accessed(program, address),
    }
}

pub fn scan_present(
    pagemap: impl AsFd,
    start: usize,
    end: usize,
    found: &mut [Region],
) -> Result<(usize, usize), Errno> {
    match is_on() {
        true => Ok(simulated::scan_present(start, end, found)),
        false => real::scan_present(pagemap, start, end, found),
    }
}

pub fn scan(
    pagemap: impl AsFd,
    start: usize,
    end: usize,
    categories: u64,
    found: &mut [Region],
) -> Result<(usize, usize), Errno> {
    match is_on() {
        true => Ok(simulated::scan_categories(start, end, categories, found)),
        false => real::scan(pagemap, start, end, categories, found),
    }
}

/// # Safety
/// The same as for the system call.
pub unsafe fn call(number: u32, arguments: [usize; 6]) -> isize {
    // SAFETY: as the caller promises.
    unsafe {
        match is_on() {
            true => simulated::call(number, arguments),
            false if cfg!(miri) && matches!(number, raw::__NR_madvise | raw::__NR_rt_sigprocmask) => 0,
            false => real::call(number, arguments),
        }
    }
}

/// Zeros that are never freed.
fn allocate(bytes: usize) -> usize {
    let layout = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES).expect("whole pages");
    // SAFETY: nobody maps nothing.
    unsafe { std::alloc::alloc_zeroed(layout) as usize }
}

pub fn map_own(place: usize, bytes: usize) -> Result<usize, Errno> {
    match is_on() {
        true => Ok(simulated::map_own(bytes)),
        false if cfg!(miri) => Ok(allocate(bytes)),
        false => real::map_own(place, bytes),
    }
}

/// # Safety
/// The page must be mapped readable.
pub unsafe fn touch(address: usize) {
    match is_on() {
        true => simulated::touch(address),
        // SAFETY: as the caller promises.
        false => unsafe { real::touch(address) },
    }
}

pub fn sleep(nanoseconds: i64) {
    match is_on() {
        true => simulated::sleep(nanoseconds),
        false => real::sleep(nanoseconds),
    }
}

pub fn sched_yield() {
    match is_on() {
        true => simulated::sched_yield(),
        false => real::sched_yield(),
    }
}

pub fn unshare(address: usize) -> Result<(), Errno> {
    match is_on() {
        true => simulated::unshare(address),
        false => real::unshare(address),
    }
}

pub use real::SumKeys;

/// # Safety
/// As for the real one.
pub unsafe fn sum_page(address: usize, keys: &SumKeys) -> u64 {
    match is_on() {
        true => simulated::sum_page(address),
        // SAFETY: as the caller promises.
        false => unsafe { real::sum_page(address, keys) },
    }
}

pub fn thread_number() -> u32 {
    match is_on() {
        true => simulated::thread_number(),
        false => real::thread_number(),
    }
}

pub fn process_number() -> i32 {
    real::process_number()
}

pub fn kill_own_process() {
    match is_on() {
        true => simulation::abort(),
        false => real::kill_own_process(),
    }
}

pub fn disable_transparent_huge_pages(disable: bool) -> Result<(), Errno> {
    match is_on() {
        true => Ok(()),
        false => real::disable_transparent_huge_pages(disable),
    }
}

pub fn sched_getaffinity(thread: Option<rustix::process::Pid>) -> Result<CpuSet, Errno> {
    match is_on() {
        true => Ok(simulated::processors()),
        false => real::sched_getaffinity(thread),
    }
}

/// # Safety
/// Nothing else may use the memory meanwhile.
pub unsafe fn read_at(
    file: BorrowedFd<'_>,
    address: usize,
    length: usize,
    offset: u64,
) -> Result<usize, Errno> {
    match is_on() {
        true => simulated::transfer_now(crate::store::ring::Direction::Read, file, address, length, offset),
        // SAFETY: as the caller promises.
        false => unsafe { real::read_at(file, address, length, offset) },
    }
}

/// # Safety
/// Nothing may change the memory meanwhile.
pub unsafe fn write_at(
    file: BorrowedFd<'_>,
    address: usize,
    length: usize,
    offset: u64,
) -> Result<usize, Errno> {
    match is_on() {
        true => simulated::transfer_now(crate::store::ring::Direction::Write, file, address, length, offset),
        // SAFETY: as the caller promises.
        false => unsafe { real::write_at(file, address, length, offset) },
    }
}

pub fn fallocate(fd: impl AsFd, mode: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
    match is_on() {
        true => simulated::reserve_space(fd.as_fd(), offset, length),
        false => real::fallocate(fd, mode, offset, length),
    }
}

pub fn openat(directory: impl AsFd, path: &CStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    match is_on() {
        true => simulated::open_proc(path),
        false => real::openat(directory, path, flags, mode),
    }
}

pub fn socketpair(
    family: AddressFamily,
    kind: SocketType,
    flags: SocketFlags,
    protocol: Option<Protocol>,
) -> Result<(OwnedFd, OwnedFd), Errno> {
    let pair = real::socketpair(family, kind, flags, protocol)?;
    if is_on() {
        simulated::has_sockets(&pair);
    }
    Ok(pair)
}

pub fn pidfd_open(process: Pid, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    match is_on() {
        true => Ok(simulated::process()),
        false => real::pidfd_open(process, flags),
    }
}

pub fn pidfd_getfd(
    process: impl AsFd,
    number: ForeignRawFd,
    flags: PidfdGetfdFlags,
) -> Result<OwnedFd, Errno> {
    match is_on() {
        true => simulated::fetch(number),
        false => real::pidfd_getfd(process, number, flags),
    }
}

/// A descriptor to wait for.
#[derive(Clone, Debug)]
pub struct PollFd<'fd> {
    fd: BorrowedFd<'fd>,
    wanted: PollFlags,
    found: PollFlags,
}

impl<'fd> PollFd<'fd> {
    pub fn from_borrowed_fd(fd: BorrowedFd<'fd>, wanted: PollFlags) -> Self {
        Self { fd, wanted, found: PollFlags::empty() }
    }

    pub fn revents(&self) -> PollFlags {
        self.found
    }
}

impl AsFd for PollFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

pub fn poll(descriptors: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<usize, Errno> {
    if is_on() {
        let nanoseconds = |time: &Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let waited: Vec<Option<i32>> = descriptors
            .iter()
            .map(|entry| (!entry.wanted.is_empty()).then(|| entry.fd.as_raw_fd()))
            .collect();
        let readable = simulated::poll(&waited, timeout.map(nanoseconds));
        for (entry, is_readable) in descriptors.iter_mut().zip(&readable) {
            entry.found = if *is_readable { PollFlags::IN } else { PollFlags::empty() };
        }
        return Ok(readable.iter().filter(|is_readable| **is_readable).count());
    }
    let mut real: Vec<real::PollFd<'_>> =
        descriptors.iter().map(|entry| real::PollFd::from_borrowed_fd(entry.fd, entry.wanted)).collect();
    let count = real::poll(&mut real, timeout)?;
    let found: Vec<PollFlags> = real.iter().map(real::PollFd::revents).collect();
    descriptors.iter_mut().zip(found).for_each(|(entry, found)| entry.found = found);
    Ok(count)
}
