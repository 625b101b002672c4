//! `/proc/self/task` without the pager's threads.
//!
//! A program that looks through its threads (a collector, a profiler) would signal the agent and
//! wait for its answer, which never comes: the agent takes no signals. So the hook of `getdents64`,
//! by which the C library reads directories, leaves the agent out, and the kernel's threads that do
//! its ring's requests. Whoever reads the directory by system calls of its own finds them, and so
//! do counts of threads: `Threads` in `/proc/self/status`, the 20th field of `/proc/self/stat`.

use crate::entry::self_mem::write_number;
use crate::kernel::symbols::c_result;
use crate::kernel::syscall::call;
use crate::kernel::thread;
use crate::mailbox::MAILBOX;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as raw;

/// The number of the agent's thread.
static AGENT: AtomicU32 = AtomicU32::new(0);
/// Where the name of an entry begins, and what is before it.
const NAME_AT: usize = 19;
const LENGTH_AT: usize = 16;
const KIND_AT: usize = 18;
const DIRECTORY: u8 = 4;
/// What `statfs` says of `/proc`.
const PROC: u64 = 0x9fa0;

/// The calling thread is the agent's.
pub(crate) fn begin(thread: u32) {
    AGENT.store(thread, Ordering::Release);
}

/// The program's `getdents64`.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn list(file: usize, buffer: usize, bytes: usize) -> isize {
    // Ends: each turn goes on in the directory.
    loop {
        // SAFETY: as the caller promises.
        let length = unsafe { call(raw::__NR_getdents64, [file, buffer, bytes, 0, 0, 0]) };
        if length <= 0 || !MAILBOX.is_open() || thread::is_restricted() {
            return length;
        }
        // SAFETY: the kernel has written `length` bytes there.
        let entries = unsafe { core::slice::from_raw_parts_mut(buffer as *mut u8, length as usize) };
        if !may_be_threads(entries) || !is_of_proc(file) {
            return length;
        }
        match without(entries, |name| is_hidden(file, name)) {
            0 => {}
            left => return left as isize,
        }
    }
}

/// The name of an entry.
fn name(entry: &[u8]) -> &[u8] {
    let name = &entry[NAME_AT..];
    &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())]
}

/// The length of the first entry, if it is a whole one.
fn entry_length(entries: &[u8]) -> Option<usize> {
    let length = u16::from_ne_bytes([*entries.get(LENGTH_AT)?, *entries.get(LENGTH_AT + 1)?]) as usize;
    (length > NAME_AT && length <= entries.len()).then_some(length)
}

fn is_number(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

/// Whether one of the entries is a directory with a number for its name.
fn may_be_threads(entries: &[u8]) -> bool {
    let mut rest = entries;
    while let Some(length) = entry_length(rest) {
        let (entry, others) = rest.split_at(length);
        if entry[KIND_AT] == DIRECTORY && is_number(name(entry)) {
            return true;
        }
        rest = others;
    }
    false
}

/// Takes entries out of a list. Returns the length of what is left.
fn without(entries: &mut [u8], is_out: impl Fn(&[u8]) -> bool) -> usize {
    let (mut from, mut to) = (0, 0);
    while let Some(length) = entry_length(&entries[from..]) {
        if !is_out(name(&entries[from..from + length])) {
            entries.copy_within(from..from + length, to);
            to += length;
        }
        from += length;
    }
    to
}

fn is_of_proc(file: usize) -> bool {
    let mut status = [0_u64; 16];
    // SAFETY: the kernel writes its 120 bytes.
    let result = unsafe { call(raw::__NR_fstatfs, [file, status.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    result == 0 && status[0] == PROC
}

/// Whether an entry of a directory of `/proc` is a thread of the pager's.
fn is_hidden(directory: usize, name: &[u8]) -> bool {
    let agent = AGENT.load(Ordering::Acquire);
    let mut digits = [0_u8; 12];
    let count = write_number(agent, &mut digits);
    if !is_number(name) || name.len() > 10 {
        return false;
    }
    if name == &digits[..count] {
        return true;
    }
    let mut path = [0_u8; 20];
    path[..name.len()].copy_from_slice(name);
    path[name.len()..name.len() + 5].copy_from_slice(b"/comm");
    let mut text = [0_u8; 32];
    // SAFETY: these read a file that is closed again.
    let length = unsafe {
        let file =
            call(raw::__NR_openat, [directory, path.as_ptr() as usize, raw::O_CLOEXEC as usize, 0, 0, 0]);
        if file < 0 {
            return false;
        }
        let length = call(raw::__NR_read, [file as usize, text.as_mut_ptr() as usize, text.len(), 0, 0, 0]);
        call(raw::__NR_close, [file as usize, 0, 0, 0, 0, 0]);
        length
    };
    let text = &text[..usize::try_from(length).unwrap_or(0)];
    // The kernel names them so, and cuts the name off after 15 letters.
    text.strip_prefix(b"iou-wrk-").is_some_and(|rest| {
        let number = rest.strip_suffix(b"\n").unwrap_or(rest);
        number == &digits[..count.min(7)]
    })
}

pub(crate) extern "C" fn hook_getdents64(file: usize, buffer: usize, bytes: usize) -> isize {
    // SAFETY: this is the program's own call.
    c_result(unsafe { list(file, buffer, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn entry(name: &[u8], kind: u8) -> Vec<u8> {
        let length = (NAME_AT + name.len() + 1).next_multiple_of(8);
        let mut entry = alloc::vec![0; length];
        entry[LENGTH_AT..LENGTH_AT + 2].copy_from_slice(&(length as u16).to_ne_bytes());
        entry[KIND_AT] = kind;
        entry[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
        entry
    }

    #[test]
    fn entries_are_taken_out_wherever_they_are() {
        let names = [&b"."[..], b"..", b"12", b"345", b"6789012"];
        let entries: Vec<u8> = names.iter().flat_map(|name| entry(name, DIRECTORY)).collect();
        for out in names {
            let mut left = entries.clone();
            let length = without(&mut left, |name| name == out);
            let kept: Vec<u8> =
                names.iter().filter(|name| **name != out).flat_map(|name| entry(name, DIRECTORY)).collect();
            assert_eq!(left[..length], kept[..], "without {}", out.escape_ascii());
        }
        assert!(may_be_threads(&entries));
        assert!(!may_be_threads(&entry(b"12", 10)) && !may_be_threads(&entry(b"1a", DIRECTORY)));
        assert_eq!(without(&mut entry(b"12", DIRECTORY), |_| true), 0);
    }
}
