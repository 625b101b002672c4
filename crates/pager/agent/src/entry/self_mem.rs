//! `/proc/self/mem`: the program's memory as a file, as debuggers within a process read it.
//!
//! The kernel reads such a file without waiting for a page (`access_remote_vm` allows no retry), so
//! a page that is paged out is an error to it: `EIO`. A userfaultfd never hears of it. So the
//! library stands in front of the functions that read and write files. It calls the C library's,
//! and if that fails with `EIO` and the file is the process's own memory, the pages are brought in
//! and the rest is done here. (`process_vm_readv` waits as the program does.)
//!
//! Reads by system calls of the program's own, and those that the C library makes by itself
//! (`fread`), find `EIO` as before. So do other processes.

use crate::kernel::PAGE_BYTES;
use crate::kernel::syscall::{advise, call};
use crate::kernel::thread;
use crate::mailbox::MAILBOX;
use linux_raw_sys::general as raw;
use rustix::io::Errno;

/// Pages that are brought in at a time.
const PAGES_AT_ONCE: usize = 16;
/// The most parts of a read into several places.
const MOST_PARTS: usize = 1024;
/// No memory of a program is below this address.
const LEAST_ADDRESS: usize = 1 << 16;

/// What a function does with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Read,
    Write,
}

/// The kinds of functions, as the library's code names them.
fn kind(number: u32) -> Option<(Way, bool, bool)> {
    // Whether there are several parts, and whether the place in the file is an argument.
    Some(match number {
        raw::__NR_read => (Way::Read, false, false),
        raw::__NR_pread64 => (Way::Read, false, true),
        raw::__NR_readv => (Way::Read, true, false),
        raw::__NR_preadv => (Way::Read, true, true),
        raw::__NR_write => (Way::Write, false, false),
        raw::__NR_pwrite64 => (Way::Write, false, true),
        raw::__NR_writev => (Way::Write, true, false),
        raw::__NR_pwritev => (Way::Write, true, true),
        _ => return None,
    })
}

/// Whether a call of this number is one that [`finish`] may go on with.
pub(crate) fn is_transfer(number: u32) -> bool {
    kind(number).is_some()
}

/// Goes on with a transfer of a file that has ended with `result`, the kernel's own. Returns what
/// it ends with then.
pub(crate) fn finish(number: u32, arguments: [usize; 4], result: isize) -> isize {
    let Some((way, has_parts, has_place)) = kind(number) else { return result };
    let [file, start, count, place] = arguments;
    if !MAILBOX.is_managed() || thread::is_restricted() {
        return result;
    }
    let has_failed = result == -(Errno::IO.raw_os_error() as isize);
    // A part was there, and the next page was not.
    let is_cut = result > 0
        && has_place
        && !has_parts
        && (result as usize) < count
        && place >= LEAST_ADDRESS
        && (place + result as usize).is_multiple_of(PAGE_BYTES);
    if !has_failed && !is_cut || !is_own_memory(file) {
        return result;
    }
    let from = if has_place { Some(place) } else { position(file) };
    let Some(from) = from else { return result };
    let mut done = result.max(0) as usize;
    let mut transfer = |start: usize, length: usize, skipped: usize| {
        let mut moved = skipped;
        while moved < length {
            match step(way, file, start + moved, length - moved, from + done) {
                0 => return false,
                bytes => {
                    moved += bytes;
                    done += bytes;
                }
            }
        }
        true
    };
    if has_parts {
        for index in 0..count.min(MOST_PARTS) {
            // SAFETY: the kernel has read this list.
            let [start, length] = unsafe { (start as *const [usize; 2]).add(index).read_unaligned() };
            if !transfer(start, length, 0) {
                break;
            }
        }
    } else {
        let skipped = result.max(0) as usize;
        transfer(start, count, skipped);
    }
    if done == 0 {
        return result;
    }
    if !has_place {
        // SAFETY: the place in the program's file, as its read would leave it.
        unsafe { call(raw::__NR_lseek, [file, from + done, raw::SEEK_SET as usize, 0, 0, 0]) };
    }
    done as isize
}

/// Brings in the next pages and transfers what it can of them. Returns how many bytes.
fn step(way: Way, file: usize, memory: usize, length: usize, place: usize) -> usize {
    let first = place & !(PAGE_BYTES - 1);
    let end = place + length.min(PAGES_AT_ONCE * PAGE_BYTES - (place - first));
    let (number, advice) = match way {
        Way::Read => (raw::__NR_pread64, raw::MADV_POPULATE_READ),
        Way::Write => (raw::__NR_pwrite64, raw::MADV_POPULATE_WRITE),
    };
    // Some of them may be paged out again before they are read. Ends as one at a time stays long
    // enough.
    for pages in [PAGES_AT_ONCE, 1, 1, 1] {
        let end = end.min(first + pages * PAGE_BYTES);
        // SAFETY: this brings in what is there. Where nothing is, the kernel says so.
        unsafe { advise(first, (end - first).next_multiple_of(PAGE_BYTES), advice) };
        // SAFETY: a part of the program's own call.
        let moved = unsafe { call(number, [file, memory, end - place, place, 0, 0]) };
        if moved > 0 {
            return moved as usize;
        }
    }
    0
}

/// Where the next read of a file begins.
fn position(file: usize) -> Option<usize> {
    // SAFETY: this changes nothing.
    let place = unsafe { call(raw::__NR_lseek, [file, 0, raw::SEEK_CUR as usize, 0, 0, 0]) };
    usize::try_from(place).ok()
}

/// Whether a descriptor is of this process's memory.
fn is_own_memory(file: usize) -> bool {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    write_number(file as u32, &mut path[14..]);
    let mut name = [0_u8; 64];
    let arguments = [
        raw::AT_FDCWD as isize as usize,
        path.as_ptr() as usize,
        name.as_mut_ptr() as usize,
        name.len(),
        0,
        0,
    ];
    // SAFETY: the kernel writes to `name`.
    let length = unsafe { call(raw::__NR_readlinkat, arguments) };
    // SAFETY: getpid(2) does nothing else.
    let process = unsafe { call(raw::__NR_getpid, [0; 6]) as u32 };
    usize::try_from(length).is_ok_and(|length| is_memory_of(&name[..length.min(name.len())], process))
}

/// Whether a name is `/proc/PID/mem` or `/proc/PID/task/TID/mem`.
fn is_memory_of(name: &[u8], process: u32) -> bool {
    let mut digits = [0_u8; 12];
    let count = write_number(process, &mut digits);
    let rest = name.strip_prefix(b"/proc/").and_then(|rest| rest.strip_prefix(&digits[..count]));
    rest.is_some_and(|rest| rest == b"/mem" || rest.starts_with(b"/task/") && rest.ends_with(b"/mem"))
}

/// Writes a number's digits. Returns how many.
pub(crate) fn write_number(number: u32, to: &mut [u8]) -> usize {
    let count = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for place in to[..count].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_told_by_its_name() {
        assert!(is_memory_of(b"/proc/12/mem", 12) && is_memory_of(b"/proc/12/task/13/mem", 12));
        for other in [&b"/proc/123/mem"[..], b"/proc/12/maps", b"/proc/1/mem", b"/tmp/proc/12/mem"] {
            assert!(!is_memory_of(other, 12), "{}", other.escape_ascii());
        }
        let mut digits = [0; 12];
        assert_eq!((write_number(0, &mut digits), digits[0]), (1, b'0'));
        assert_eq!((write_number(4096, &mut digits), &digits[..4]), (4, &b"4096"[..]));
    }

    #[test]
    fn only_reads_and_writes_are_continued() {
        assert!(is_transfer(raw::__NR_pread64) && is_transfer(raw::__NR_writev));
        assert!(!is_transfer(raw::__NR_mmap));
        assert_eq!(finish(raw::__NR_mmap, [0; 4], -5), -5);
    }
}
