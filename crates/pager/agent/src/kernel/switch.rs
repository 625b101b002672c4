//! For tests: the simulated kernel on threads that are simulated, the real one on others.
//!
//! Miri has no system calls but those of the C library. Under it, calls of `madvise` and of signal
//! masks do nothing, and memory comes from the allocator.

#![expect(missing_docs, reason = "as the real ones")]

use super::real;
use crate::kernel::PAGE_BYTES;
use crate::simulation::{self, is_on, kernel as simulated};
use crate::store::ring::Direction;
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

/// Functions by which a thread asks the kernel: the simulated one, as the expression says, or the
/// real one under the same name.
macro_rules! switch {
    (unsafe { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $simulated:expr;)* }) => {$(
        /// # Safety
        /// As for the real one.
        pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
            match is_on() {
                true => $simulated,
                // SAFETY: as the caller promises.
                false => unsafe { real::$name($($argument),*) },
            }
        }
    )*};
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $simulated:expr;)*) => {$(
        pub fn $name($($argument: $type),*) $(-> $result)? {
            match is_on() {
                true => $simulated,
                false => real::$name($($argument),*),
            }
        }
    )*};
}

switch! {
    fn accessed(program: BorrowedFd<'_>, address: usize) -> Result<u64, Errno> => Ok(simulated::accessed(address));
    fn ask_for_program(server: BorrowedFd<'_>) -> Result<OwnedFd, Errno> => simulated::ask_for_program();
    fn disable_transparent_huge_pages(disable: bool) -> Result<(), Errno> => Ok(());
    fn fallocate(file: impl AsFd, mode: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> =>
        simulated::reserve_space(file.as_fd(), offset, length);
    fn fetch_from_command(command: Option<&OwnedFd>, number: i32) -> Option<OwnedFd> =>
        Some(simulated::process());
    fn kill_own_process() => simulation::abort();
    fn openat(directory: impl AsFd, path: &CStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> =>
        simulated::open_proc(path);
    fn pidfd_getfd(process: impl AsFd, number: ForeignRawFd, flags: PidfdGetfdFlags) -> Result<OwnedFd, Errno> =>
        simulated::fetch(number);
    fn pidfd_open(process: Pid, flags: PidfdFlags) -> Result<OwnedFd, Errno> => Ok(simulated::process());
    fn scan(
        pagemap: impl AsFd, start: usize, end: usize, categories: u64, found: &mut [Region]
    ) -> Result<(usize, usize), Errno> => Ok(simulated::scan_categories(start, end, categories, found));
    fn scan_present(
        pagemap: impl AsFd, start: usize, end: usize, found: &mut [Region]
    ) -> Result<(usize, usize), Errno> => Ok(simulated::scan_present(start, end, found));
    fn sched_getaffinity(thread: Option<Pid>) -> Result<CpuSet, Errno> => Ok(simulated::processors());
    fn sched_yield() => simulated::sched_yield();
    fn sleep(nanoseconds: i64) => simulated::sleep(nanoseconds);
    fn thread_number() -> u32 => simulated::thread_number();
    fn unshare(address: usize) -> Result<(), Errno> => simulated::unshare(address);
}

switch! {
    unsafe {
        fn compress_page(address: usize, codec: &mut Codec, to: &mut [u8]) -> Option<usize> =>
            simulated::compress_page(address, to);
        fn decompress_page(bytes: &[u8], to: usize) -> bool => simulated::decompress_page(bytes, to);
        fn read_at(file: BorrowedFd<'_>, address: usize, length: usize, offset: u64) -> Result<usize, Errno> =>
            simulated::transfer_now(Direction::Read, file, address, length, offset);
        fn sum_page(address: usize, keys: &SumKeys) -> u64 => simulated::sum_page(address);
        fn touch(address: usize) => simulated::touch(address);
        fn write_at(file: BorrowedFd<'_>, address: usize, length: usize, offset: u64) -> Result<usize, Errno> =>
            simulated::transfer_now(Direction::Write, file, address, length, offset);
    }
}

pub use real::{Codec, MOST_COMPRESSED_BYTES, SumKeys, process_number};

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

/// A userfaultfd.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: real::Userfaultfd,
    of: Of,
}

/// Whose userfaultfd it is.
#[derive(Debug)]
enum Of {
    /// The real kernel's.
    Real,
    /// The simulated kernel's, by this number.
    Simulated(usize),
    /// One of [`testing`](crate::testing), which moves pages in a map.
    Map(Rc<RefCell<World>>),
}

impl AsFd for Userfaultfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Userfaultfd {
    fn from(fd: OwnedFd) -> Self {
        let of = if is_on() { Of::Simulated(simulated::context_of(fd.as_raw_fd())) } else { Of::Real };
        Self { fd: fd.into(), of }
    }
}

/// Methods of a userfaultfd: the simulated kernel's function of the same name, or the real method.
macro_rules! switch_methods {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        pub fn $name(&self, $($argument: $type),*) -> $result {
            match self.of {
                Of::Simulated(context) => simulated::$name(context, $($argument),*),
                Of::Real | Of::Map(_) => self.fd.$name($($argument),*),
            }
        }
    )*};
}

impl Userfaultfd {
    pub(crate) fn of(world: &Rc<RefCell<World>>, fd: OwnedFd) -> Self {
        Self { fd: fd.into(), of: Of::Map(world.clone()) }
    }

    pub fn open(features: u64) -> Result<Self, OpenError> {
        if is_on() {
            let (fd, context) = simulated::open_context(features)?;
            return Ok(Self { fd: fd.into(), of: Of::Simulated(context) });
        }
        real::Userfaultfd::open(features).map(|fd| Self { fd, of: Of::Real })
    }

    pub fn register(&self, start: usize, length: usize) -> Result<(), Errno> {
        match &self.of {
            Of::Simulated(context) => simulated::register(*context, start, length),
            // All pages are missing that are not in the map.
            Of::Map(world) => {
                world.borrow_mut().registered.push((start, start + length));
                Ok(())
            }
            Of::Real => self.fd.register(start, length),
        }
    }

    switch_methods! {
        fn is_changing() -> bool;
        fn poison(start: usize, length: usize) -> Result<(), Errno>;
        fn protect(start: usize, length: usize) -> Result<(), Errno>;
        fn read(buffer: &mut [Message]) -> Result<usize, Errno>;
        fn register_tracked(start: usize, length: usize) -> Result<(), Errno>;
        fn unregister(start: usize, length: usize) -> Result<(), Errno>;
        fn wake(start: usize, length: usize) -> Result<(), Errno>;
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn copy(&self, to: usize, from: usize, length: usize) -> Progress {
        match &self.of {
            Of::Simulated(context) => simulated::copy(*context, to, from, length, true),
            Of::Map(world) => world.borrow_mut().put(to, from, length, false),
            // SAFETY: as the caller promises.
            Of::Real => unsafe { self.fd.copy(to, from, length) },
        }
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn copy_asleep(&self, to: usize, from: usize, length: usize) -> Progress {
        match self.of {
            Of::Simulated(context) => simulated::copy(context, to, from, length, false),
            // SAFETY: as the caller promises.
            Of::Real | Of::Map(_) => unsafe { self.fd.copy_asleep(to, from, length) },
        }
    }

    /// # Safety
    /// As for the real one.
    pub unsafe fn move_pages(&self, to: usize, from: usize, length: usize) -> Progress {
        match &self.of {
            Of::Simulated(context) => simulated::move_pages(*context, to, from, length),
            Of::Map(world) => world.borrow_mut().put(to, from, length, true),
            // SAFETY: as the caller promises.
            Of::Real => unsafe { self.fd.move_pages(to, from, length) },
        }
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
