//! Linux userfaultfd: user space receives a process's faults on missing pages, and answers them.
//!
//! A thin layer over the ioctls. It has what published wrappers lack: `UFFDIO_MOVE` (Linux 6.8),
//! which moves pages from one place of an address space to another without copying them. It uses no
//! allocation, no libc and no thread-local state, because it serves an agent inside a program that
//! must not touch the program's own memory.
//!
//! ```text
//!   program touches a missing page --> Event::Fault --> copy / move_pages --> the program goes on
//!   program calls munmap, madvise, mremap, fork --> Event::Unmap, Remove, Remap, Fork --> the call returns once it is read
//! ```
//!
//! While such a call is under way, the kernel answers copies and moves with `EAGAIN`.
//! [`Userfaultfd::read`] the events, then try again.
#![no_std]

use core::mem::{self, MaybeUninit};
use linux_raw_sys::general as raw;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Setter, Updater, opcode};
use rustix::mm::UserfaultfdFlags;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Tell of `fork` (needs CAP_SYS_PTRACE).
pub const EVENT_FORK: u64 = raw::UFFD_FEATURE_EVENT_FORK as u64;
/// Tell of `mremap`.
pub const EVENT_REMAP: u64 = raw::UFFD_FEATURE_EVENT_REMAP as u64;
/// Tell of `madvise(MADV_DONTNEED)` and its like.
pub const EVENT_REMOVE: u64 = raw::UFFD_FEATURE_EVENT_REMOVE as u64;
/// Tell of `munmap`.
pub const EVENT_UNMAP: u64 = raw::UFFD_FEATURE_EVENT_UNMAP as u64;
/// Tell which thread waits for a page: [`Message::thread`].
pub const THREAD: u64 = raw::UFFD_FEATURE_THREAD_ID as u64;
/// [`Userfaultfd::move_pages`] works (Linux 6.8).
pub const MOVE: u64 = raw::UFFD_FEATURE_MOVE as u64;
/// [`Userfaultfd::register_tracked`] works, and the kernel itself lets a thread go on that touches
/// a page protected by [`Userfaultfd::protect`]: no event, but [`scan`] tells (Linux 7.3, which
/// calls it RWP, for read-write protection).
pub const TRACKED: u64 = 1 << 17 | 1 << 18;
/// `UFFDIO_REGISTER_MODE_RWP`.
const REGISTER_MODE_RWP: u32 = 1 << 3;
/// `UFFDIO_RWPROTECT_MODE_RWP`.
const RWPROTECT_MODE_RWP: u64 = 1;

/// `struct uffdio_rwprotect`.
#[repr(C)]
struct ReadWriteProtect {
    range: raw::uffdio_range,
    mode: u64,
}

const GROUP: u8 = 0xAA;
const API: Opcode = opcode::read_write::<raw::uffdio_api>(GROUP, raw::_UFFDIO_API as u8);
const REGISTER: Opcode = opcode::read_write::<raw::uffdio_register>(GROUP, raw::_UFFDIO_REGISTER as u8);
const UNREGISTER: Opcode = opcode::read::<raw::uffdio_range>(GROUP, raw::_UFFDIO_UNREGISTER as u8);
const WAKE: Opcode = opcode::read::<raw::uffdio_range>(GROUP, raw::_UFFDIO_WAKE as u8);
const COPY: Opcode = opcode::read_write::<raw::uffdio_copy>(GROUP, raw::_UFFDIO_COPY as u8);
const MOVE_PAGES: Opcode = opcode::read_write::<raw::uffdio_move>(GROUP, raw::_UFFDIO_MOVE as u8);
const POISON: Opcode = opcode::read_write::<raw::uffdio_poison>(GROUP, raw::_UFFDIO_POISON as u8);
const RWPROTECT: Opcode = opcode::read_write::<ReadWriteProtect>(GROUP, 0x09);
const NEW: Opcode = opcode::none(GROUP, 0);
const PAGEMAP_SCAN: Opcode = opcode::read_write::<raw::pm_scan_arg>(b'f', 16);

/// Why there is no userfaultfd to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Neither the system call nor `/dev/userfaultfd` is allowed, or a feature asked for needs more
    /// rights.
    NotPermitted,
    /// The kernel lacks userfaultfd or a feature asked for.
    NotSupported,
    /// Something else.
    Other(Errno),
}

/// How far a call over a range came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes done, from the start.
    pub bytes: usize,
    /// What stopped it there; `None` if all is done or if a further call may go on.
    pub error: Option<Errno>,
}

/// What the kernel tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A thread waits for the page at this address.
    Fault {
        /// Within the page.
        address: usize,
    },
    /// The process has forked; the child's faults come to this descriptor, which is the reader's to
    /// close.
    Fork {
        /// A userfaultfd with the features of its parent.
        descriptor: i32,
    },
    /// `mremap` has moved pages.
    Remap {
        /// Where they were.
        from: usize,
        /// Where they are.
        to: usize,
        /// How many bytes.
        length: usize,
    },
    /// `madvise` is about to drop the contents of a range that stays mapped.
    Remove {
        /// First address.
        start: usize,
        /// First address behind.
        end: usize,
    },
    /// A range has been unmapped.
    Unmap {
        /// First address.
        start: usize,
        /// First address behind.
        end: usize,
    },
}

/// A message as the kernel writes it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Message(raw::uffd_msg);

impl Message {
    /// A message of no event, to be written over.
    pub const EMPTY: Self = Self(
        // SAFETY: the struct is plain data, for which zeros are a value.
        unsafe { mem::zeroed() },
    );

    /// The event told, or `None` for a kind that was not asked for.
    pub fn event(&self) -> Option<Event> {
        let arg = self.0.arg;
        // SAFETY: all variants are plain data; the event's number says which was written.
        unsafe {
            match u32::from(self.0.event) {
                raw::UFFD_EVENT_PAGEFAULT => Some(Event::Fault { address: arg.pagefault.address as usize }),
                raw::UFFD_EVENT_FORK => Some(Event::Fork { descriptor: arg.fork.ufd as i32 }),
                raw::UFFD_EVENT_REMAP => Some(Event::Remap {
                    from: arg.remap.from as usize,
                    to: arg.remap.to as usize,
                    length: arg.remap.len as usize,
                }),
                raw::UFFD_EVENT_REMOVE => {
                    Some(Event::Remove { start: arg.remove.start as usize, end: arg.remove.end as usize })
                }
                raw::UFFD_EVENT_UNMAP => {
                    Some(Event::Unmap { start: arg.remove.start as usize, end: arg.remove.end as usize })
                }
                _ => None,
            }
        }
    }

    /// Of a fault: the number of the thread that waits, in its own namespace. 0 unless [`THREAD`]
    /// was asked for.
    pub fn thread(&self) -> u32 {
        match u32::from(self.0.event) {
            // SAFETY: all variants are plain data; this is the one that was written.
            raw::UFFD_EVENT_PAGEFAULT => unsafe { self.0.arg.pagefault.feat.ptid },
            _ => 0,
        }
    }

    /// Of a fault: whether the thread was about to write.
    pub fn is_write(&self) -> bool {
        match u32::from(self.0.event) {
            // SAFETY: all variants are plain data; this is the one that was written.
            raw::UFFD_EVENT_PAGEFAULT => unsafe {
                self.0.arg.pagefault.flags & u64::from(raw::UFFD_PAGEFAULT_FLAG_WRITE) != 0
            },
            _ => false,
        }
    }
}

/// A userfaultfd of an address space. While any descriptor of it is open, missing pages in its
/// ranges fault to it; when the last is closed, they read as zeros.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: OwnedFd,
}

impl AsFd for Userfaultfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One that was received: from a fork event, or from another process.
impl From<OwnedFd> for Userfaultfd {
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl Userfaultfd {
    /// Opens one for the calling process, non-blocking, for faults in user and kernel mode.
    pub fn open(features: u64) -> Result<Self, OpenError> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: nothing is registered with it yet.
        let fd = match unsafe { rustix::mm::userfaultfd(flags) } {
            Ok(fd) => fd,
            Err(Errno::PERM) => Self::open_device(flags).ok_or(OpenError::NotPermitted)?,
            Err(Errno::NOSYS) => return Err(OpenError::NotSupported),
            Err(error) => return Err(OpenError::Other(error)),
        };
        let mut api = raw::uffdio_api { api: 0xAA, features, ioctls: 0 };
        // SAFETY: the opcode takes this struct.
        match unsafe { ioctl::ioctl(&fd, Updater::<API, _>::new(&mut api)) } {
            Ok(()) => Ok(Self { fd }),
            Err(Errno::PERM) => Err(OpenError::NotPermitted),
            Err(Errno::INVAL) => Err(OpenError::NotSupported),
            Err(error) => Err(OpenError::Other(error)),
        }
    }

    /// From `/dev/userfaultfd`, for users who may open that.
    fn open_device(flags: UserfaultfdFlags) -> Option<OwnedFd> {
        use rustix::fs::{Mode, OFlags, open};
        struct New(u32);
        // SAFETY: the opcode takes flags by value and returns a descriptor.
        unsafe impl ioctl::Ioctl for New {
            type Output = i32;
            const IS_MUTATING: bool = false;
            fn opcode(&self) -> Opcode {
                NEW
            }
            fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
                self.0 as usize as *mut _
            }
            unsafe fn output_from_ptr(
                out: ioctl::IoctlOutput,
                _: *mut rustix::ffi::c_void,
            ) -> rustix::io::Result<i32> {
                Ok(out)
            }
        }
        let device = open(c"/dev/userfaultfd", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        // SAFETY: as stated at the implementation.
        let raw = unsafe { ioctl::ioctl(&device, New(flags.bits())) }.ok()?;
        // SAFETY: the kernel has just made it for us.
        Some(unsafe { OwnedFd::from_raw_fd(raw) })
    }

    /// Makes missing pages of a range fault to this descriptor. Ranges registered with it before
    /// may be among it.
    pub fn register(&self, start: usize, length: usize) -> Result<(), Errno> {
        self.register_for(start, length, raw::UFFDIO_REGISTER_MODE_MISSING)
    }

    /// The same for private memory, whose pages [`Userfaultfd::protect`] can protect besides. Needs
    /// [`TRACKED`].
    pub fn register_tracked(&self, start: usize, length: usize) -> Result<(), Errno> {
        self.register_for(start, length, raw::UFFDIO_REGISTER_MODE_MISSING | REGISTER_MODE_RWP)
    }

    /// From now on, [`scan`] tells which of the pages of a range are [`ACCESSED`]. They stay where
    /// they are. The first touch of each takes the kernel a fault. Needs
    /// [`Userfaultfd::register_tracked`].
    pub fn protect(&self, start: usize, length: usize) -> Result<(), Errno> {
        let range = raw::uffdio_range { start: start as u64, len: length as u64 };
        let mut protect = ReadWriteProtect { range, mode: RWPROTECT_MODE_RWP };
        // SAFETY: the opcode takes this struct.
        unsafe { ioctl::ioctl(&self.fd, Updater::<RWPROTECT, _>::new(&mut protect)) }
    }

    fn register_for(&self, start: usize, length: usize, modes: u32) -> Result<(), Errno> {
        let mut register = raw::uffdio_register {
            range: raw::uffdio_range { start: start as u64, len: length as u64 },
            mode: u64::from(modes),
            ioctls: 0,
        };
        // SAFETY: the opcode takes this struct.
        unsafe { ioctl::ioctl(&self.fd, Updater::<REGISTER, _>::new(&mut register)) }
    }

    /// Leaves the missing pages of a range to the kernel again, and lets who waits for them go on.
    pub fn unregister(&self, start: usize, length: usize) -> Result<(), Errno> {
        let range = raw::uffdio_range { start: start as u64, len: length as u64 };
        // SAFETY: the opcode takes this struct and writes nothing.
        unsafe { ioctl::ioctl(&self.fd, Setter::<UNREGISTER, _>::new(range)) }
    }

    /// Lets the threads go on that wait for pages of a range, to try again.
    pub fn wake(&self, start: usize, length: usize) -> Result<(), Errno> {
        let range = raw::uffdio_range { start: start as u64, len: length as u64 };
        // SAFETY: the opcode takes this struct and writes nothing.
        unsafe { ioctl::ioctl(&self.fd, Setter::<WAKE, _>::new(range)) }
    }

    /// Fills missing pages with copies of readable memory at `from` and wakes who waits for them.
    ///
    /// # Safety
    /// `from` must be readable for `length` bytes, and what is at `to` must not be relied on to
    /// stay missing.
    pub unsafe fn copy(&self, to: usize, from: usize, length: usize) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.copy_as(to, from, length, 0) }
    }

    /// The same, but who waits for the pages is left waiting.
    ///
    /// # Safety
    /// As for [`Userfaultfd::copy`].
    pub unsafe fn copy_asleep(&self, to: usize, from: usize, length: usize) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.copy_as(to, from, length, raw::UFFDIO_COPY_MODE_DONTWAKE) }
    }

    /// # Safety
    /// As for [`Userfaultfd::copy`].
    unsafe fn copy_as(&self, to: usize, from: usize, length: usize, mode: u32) -> Progress {
        let mut copy = raw::uffdio_copy {
            dst: to as u64,
            src: from as u64,
            len: length as u64,
            mode: u64::from(mode),
            copy: 0,
        };
        // SAFETY: the opcode takes this struct; the addresses are the caller's promise.
        let result = unsafe { ioctl::ioctl(&self.fd, Updater::<COPY, _>::new(&mut copy)) };
        progress(result, copy.copy, length)
    }

    /// Has threads that touch missing pages of a range, or wait for them, get a SIGBUS (Linux 6.6).
    /// The pages stay so until they are unmapped.
    pub fn poison(&self, start: usize, length: usize) -> Result<(), Errno> {
        let range = raw::uffdio_range { start: start as u64, len: length as u64 };
        let mut poison = raw::uffdio_poison { range, mode: 0, updated: 0 };
        // SAFETY: the opcode takes this struct.
        unsafe { ioctl::ioctl(&self.fd, Updater::<POISON, _>::new(&mut poison)) }
    }

    /// Takes the pages at `from` out of there and puts them at `to`, which must be missing and
    /// registered with this descriptor; wakes who waits for them. What was at `from` is missing
    /// then.
    ///
    /// # Safety
    /// Both places must be anonymous memory that only such moves and the program they belong to
    /// rely on.
    pub unsafe fn move_pages(&self, to: usize, from: usize, length: usize) -> Progress {
        let mut moved =
            raw::uffdio_move { dst: to as u64, src: from as u64, len: length as u64, mode: 0, move_: 0 };
        // SAFETY: the opcode takes this struct; the addresses are the caller's promise.
        let result = unsafe { ioctl::ioctl(&self.fd, Updater::<MOVE_PAGES, _>::new(&mut moved)) };
        progress(result, moved.move_, length)
    }

    /// Whether some call of the program that changes its address space waits for its event to be
    /// read, or has had it read and not gone on yet. When this says no, every event of a call that
    /// has returned has been read.
    pub fn is_changing(&self) -> bool {
        // The kernel looks for changes before it looks at what is asked; a copy of nothing is
        // refused. SAFETY: nothing is copied.
        unsafe { self.copy(0, 0, 0) }.error == Some(Errno::AGAIN)
    }

    /// Reads messages into `buffer`, as many as there are; returns how many.
    pub fn read(&self, buffer: &mut [Message]) -> Result<usize, Errno> {
        let bytes = mem::size_of_val(buffer);
        // SAFETY: a message is plain data, for which any bytes are a value.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        match rustix::io::read(&self.fd, bytes) {
            Ok((read, _)) => Ok(read.len() / size_of::<Message>()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

fn progress(result: Result<(), Errno>, done: i64, length: usize) -> Progress {
    match result {
        Ok(()) => Progress { bytes: length, error: None },
        // The rest of the range has yet to be asked for: that call will say why it stopped.
        Err(_) if done > 0 => Progress { bytes: done as usize, error: None },
        Err(error) => Progress { bytes: 0, error: Some(error) },
    }
}

/// A run of pages that were found.
pub type Region = raw::page_region;

/// Mapped now.
pub const PRESENT: u64 = raw::PAGE_IS_PRESENT as u64;
/// In the swap file, or on its way there or back. The kernel lists guards and poisoned pages, too.
pub const SWAPPED: u64 = raw::PAGE_IS_SWAPPED as u64;
/// Not protected: touched since [`Userfaultfd::protect`], or never protected. Only memory of
/// [`Userfaultfd::register_tracked`] is listed.
pub const ACCESSED: u64 = 1 << 9;
/// A guard is there: a thread that touches it gets a SIGSEGV. Kernels before Linux 6.15 do not list
/// guards (`EINVAL`).
pub const GUARD: u64 = raw::PAGE_IS_GUARD as u64;

/// Finds the pages in `start..end` that are not missing; guards count as missing. Fills `found`
/// with runs. Returns how many there are, and the address where the scan stopped: go on there until
/// it is `end`. `pagemap` is `/proc/self/pagemap`.
pub fn scan_present(
    pagemap: impl AsFd,
    start: usize,
    end: usize,
    found: &mut [Region],
) -> Result<(usize, usize), Errno> {
    let present = PRESENT | SWAPPED;
    match scan_but(&pagemap, start, end, present, GUARD, 0, found) {
        Err(Errno::INVAL) => scan(pagemap, start, end, present, found),
        result => result,
    }
}

/// Finds the pages in `start..end` that are of any of some categories ([`PRESENT`], [`SWAPPED`],
/// [`ACCESSED`], [`GUARD`]), as [`scan_present`] does.
pub fn scan(
    pagemap: impl AsFd,
    start: usize,
    end: usize,
    categories: u64,
    found: &mut [Region],
) -> Result<(usize, usize), Errno> {
    scan_but(pagemap, start, end, categories, 0, 0, found)
}

/// The address of the first page in `start..end` that is of any of some categories. `None`: there
/// is no such page. The kernel passes over what is not mapped without looking at each page.
pub fn find(pagemap: impl AsFd, start: usize, end: usize, categories: u64) -> Result<Option<usize>, Errno> {
    let mut found = [Region { start: 0, end: 0, categories: 0 }];
    let (count, _) = scan_but(pagemap, start, end, categories, 0, 1, &mut found)?;
    Ok((count > 0).then_some(found[0].start as usize))
}

/// The same as [`scan`], but for pages of none of the categories `excluded`. Stops when
/// `most_pages` pages are found; 0: finds all.
fn scan_but(
    pagemap: impl AsFd,
    start: usize,
    end: usize,
    categories: u64,
    excluded: u64,
    most_pages: u64,
    found: &mut [Region],
) -> Result<(usize, usize), Errno> {
    struct Scan<'a>(&'a mut raw::pm_scan_arg);
    // SAFETY: the opcode takes this struct and returns a count.
    unsafe impl ioctl::Ioctl for Scan<'_> {
        type Output = usize;
        const IS_MUTATING: bool = true;
        fn opcode(&self) -> Opcode {
            PAGEMAP_SCAN
        }
        fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
            (self.0 as *mut raw::pm_scan_arg).cast()
        }
        unsafe fn output_from_ptr(
            out: ioctl::IoctlOutput,
            _: *mut rustix::ffi::c_void,
        ) -> rustix::io::Result<usize> {
            Ok(out as usize)
        }
    }
    let mut scan = raw::pm_scan_arg {
        size: size_of::<raw::pm_scan_arg>() as u64,
        flags: 0,
        start: start as u64,
        end: end as u64,
        walk_end: 0,
        vec: found.as_mut_ptr() as u64,
        vec_len: found.len() as u64,
        max_pages: most_pages,
        category_inverted: excluded,
        category_mask: excluded,
        category_anyof_mask: categories,
        return_mask: categories,
    };
    // SAFETY: as stated at the implementation; the kernel writes at most `found.len()` regions.
    let count = unsafe { ioctl::ioctl(pagemap, Scan(&mut scan)) }?;
    Ok((count, scan.walk_end as usize))
}

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
