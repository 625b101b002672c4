//! The system calls themselves.

use crate::accessed::{Query, RUN_PROGRAM, RunProgram};
use crate::kernel::passing::send_file;
use core::ffi::c_void;
use linux_raw_sys::general as raw;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use rustix::event::Timespec;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{PidfdGetfdFlags, Signal, getpid, kill_process};
use xxhash_rust::xxh3::xxh3_64_with_secret;

pub use rustix::event::{PollFd, poll};
pub use rustix::fs::{fallocate, openat};
pub use rustix::mm::mmap_anonymous;
pub use rustix::net::socketpair;
pub use rustix::process::{pidfd_getfd, pidfd_open};
pub use rustix::thread::{disable_transparent_huge_pages, sched_getaffinity, sched_yield};
pub use sweephand_uffd::{Userfaultfd, scan, scan_present};

/// Makes a system call and returns the raw result. A negative number is an error.
///
/// # Safety
/// The same as for the system call.
pub unsafe fn call(number: u32, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: this follows the x86-64 convention, and the caller answers for the call.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as usize as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Maps zeros for the pager itself, at a place that is free.
pub fn map_own(place: usize, bytes: usize) -> Result<usize, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: this is a new mapping. Should the place not be free after all, the kernel takes
    // another.
    let start = unsafe { mmap_anonymous(place as *mut c_void, bytes, protection, flags) };
    start.map(|start| start as usize)
}

/// Touches a page to read it.
///
/// # Safety
/// The page must be mapped readable.
pub unsafe fn touch(address: usize) {
    // SAFETY: as the caller promises.
    unsafe { core::ptr::read_volatile(address as *const u8) };
}

/// A copy of one of the command's descriptors, if this process may have it.
pub fn fetch_from_command(command: Option<&OwnedFd>, number: i32) -> Option<OwnedFd> {
    pidfd_getfd(command?, number, PidfdGetfdFlags::empty()).ok()
}

/// Asks the command, by the socket of its server, for the program that reads accessed bits. The
/// answer comes to the socket that is returned.
pub fn ask_for_program(server: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    send_file(server, &[0], theirs.as_fd())?;
    Ok(ours)
}

/// Which pages of a group this process has used since their accessed bits were last cleared, by the
/// command's BPF program: see [`crate::accessed`].
pub fn accessed(program: BorrowedFd<'_>, address: usize) -> Result<u64, Errno> {
    let mut query = Query { address: address as u64, accessed: 0 };
    let mut run = RunProgram::new(program.as_raw_fd(), &mut query);
    let arguments = [RUN_PROGRAM, &raw mut run as usize, size_of::<RunProgram>(), 0, 0, 0];
    // SAFETY: the kernel reads the query and overwrites it with the answer.
    match unsafe { call(raw::__NR_bpf, arguments) } {
        0 if run.has_failed() => Err(Errno::FAULT),
        0 => Ok(query.accessed),
        error => Err(Errno::from_raw_os_error(-error as i32)),
    }
}

/// Gives this process a frame of its own in place of one that it shares since a fork. The contents
/// stay as they are, whoever writes to them meanwhile. Fails where no page is present or writable.
///
/// A futex operation does that: it ors a word with 0. Any other access to a missing page would wait
/// for the agent, and it is the agent that asks.
pub fn unshare(address: usize) -> Result<(), Errno> {
    // Or with 0; wake threads that wait for the word if it was less than -2048, which counts of
    // waiters and owners never are.
    const OR_ZERO: usize = 2 << 28 | 2 << 24 | 0x800;
    let nobody_waits_here = 0_u32;
    let operation = (raw::FUTEX_WAKE_OP | raw::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [&raw const nobody_waits_here as usize, operation, 0, 0, address, OR_ZERO];
    // SAFETY: this leaves every word as it is. A thread that it wakes too early looks again, as
    // all must who wait for a futex.
    match unsafe { call(raw::__NR_futex, arguments) } {
        0.. => Ok(()),
        error => Err(Errno::from_raw_os_error(-error as i32)),
    }
}

/// Sleeps for this many nanoseconds, or until a signal comes.
pub fn sleep(nanoseconds: i64) {
    let time = Timespec { tv_sec: nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 };
    let _ = rustix::thread::nanosleep(&time);
}

/// The number of the calling thread.
pub fn thread_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The number of this process.
pub fn process_number() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// Ends this process by a signal that cannot be caught. Returns if the kernel refuses that.
pub fn kill_own_process() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Reads from a file to memory.
///
/// # Safety
/// Nothing else may use the memory meanwhile.
pub unsafe fn read_at(
    file: BorrowedFd<'_>,
    address: usize,
    length: usize,
    offset: u64,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    pread(file, unsafe { core::slice::from_raw_parts_mut(address as *mut u8, length) }, offset)
}

/// Writes memory to a file.
///
/// # Safety
/// Nothing may change the memory meanwhile.
pub unsafe fn write_at(
    file: BorrowedFd<'_>,
    address: usize,
    length: usize,
    offset: u64,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    pwrite(file, unsafe { core::slice::from_raw_parts(address as *const u8, length) }, offset)
}

/// The keys of a checksum.
#[derive(Debug)]
pub struct SumKeys([[u8; 192]; 2]);

impl SumKeys {
    /// Keys that nobody else has.
    pub fn random() -> Self {
        let mut keys = [[0; 192]; 2];
        for key in &mut keys {
            let arguments = [key.as_mut_ptr() as usize, key.len(), 0, 0, 0, 0];
            // SAFETY: the kernel writes to the key.
            let length = unsafe { call(raw::__NR_getrandom, arguments) };
            assert_eq!(length, key.len() as isize, "the kernel has random bytes once it has booted");
        }
        Self(keys)
    }
}

/// The checksum of a page.
///
/// # Safety
/// Nothing may change the page meanwhile.
pub unsafe fn sum_page(address: usize, keys: &SumKeys) -> u64 {
    // SAFETY: as the caller promises.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, sweephand_uffd::PAGE_BYTES) };
    let [one, other] = keys.0.each_ref().map(|key| xxh3_64_with_secret(bytes, key));
    one ^ other
}

/// Most bytes that a codec makes of a page.
pub const MOST_COMPRESSED_BYTES: usize = get_maximum_output_size(sweephand_uffd::PAGE_BYTES);

/// The memory that a codec (LZ4, its block format) needs.
pub struct Codec(CompressTable);

impl Default for Codec {
    fn default() -> Self {
        Self(CompressTable::small())
    }
}

impl core::fmt::Debug for Codec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

/// Compresses a page to a buffer of [`MOST_COMPRESSED_BYTES`]. Returns how many bytes that makes.
///
/// # Safety
/// Nothing may change the page meanwhile.
pub unsafe fn compress_page(address: usize, codec: &mut Codec, to: &mut [u8]) -> Option<usize> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, sweephand_uffd::PAGE_BYTES) };
    compress_into_with_table(bytes, to, &mut codec.0).ok()
}

/// Decompresses a page. Returns whether the bytes were a page's.
///
/// # Safety
/// The page must be mapped, and nothing else may use it meanwhile.
pub unsafe fn decompress_page(bytes: &[u8], to: usize) -> bool {
    // SAFETY: as the caller promises.
    let page = unsafe { core::slice::from_raw_parts_mut(to as *mut u8, sweephand_uffd::PAGE_BYTES) };
    decompress_into(bytes, page).is_ok_and(|bytes| bytes == sweephand_uffd::PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::PAGE_BYTES;
    use crate::process::own;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn a_page_is_unshared_without_a_wait_and_without_a_change() {
        const ROUNDS: u32 = 100_000;
        let start = own::map(2 * PAGE_BYTES).unwrap();
        let (word, missing) = (start as *const AtomicU32, start + PAGE_BYTES);
        let Ok(uffd) = sweephand_uffd::Userfaultfd::open(0) else {
            return sweephand_checks::skip(sweephand_checks::Need::Userfaultfd, "userfaultfd");
        };
        uffd.register(missing, PAGE_BYTES).unwrap();
        assert_eq!(unshare(missing), Err(Errno::FAULT));
        assert_eq!(unshare(0x1000), Err(Errno::FAULT));
        // SAFETY: this is a mapping of the test.
        let word = unsafe { &*word };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..ROUNDS).for_each(|_| _ = word.fetch_add(1, Relaxed)));
            for _ in 0..ROUNDS / 10 {
                unshare(start).unwrap();
            }
        });
        assert_eq!(word.load(Relaxed), ROUNDS);
    }
}
