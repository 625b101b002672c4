//! Ends a process whose last thread has ended. The agent is a thread as well and would stay.
//!
//! When the C library ends its own last thread, it ends the process. A thread that ends by a bare
//! system call does not, and nothing reports its end. So the agent looks from time to time whether
//! it is alone.

use crate::kernel;
use crate::kernel::syscall::call;
use crate::kernel::thread::{EVERY_SIGNAL, set_signal_mask};
use crate::process::failure::end_process;
use crate::process::roots::open_proc;
use alloc::ffi::CString;
use alloc::format;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use linux_raw_sys::general::{self as raw, __NR_exit_group};
use rustix::fs::{OFlags, RawDir};

/// What `/proc` says of a thread.
struct Thread {
    /// In the namespace of `/proc`, which need not be ours.
    number: u32,
    name_is_kernels: bool,
    is_over: bool,
    /// How it has ended, as `wait` has it.
    status: usize,
}

/// Of a line of a `stat` file: `number (name) state ...`, with the exit status for its 52nd field.
fn parse(line: &[u8]) -> Option<Thread> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let name_start = line.iter().position(|&byte| byte == b'(')? + 1;
    let name = line.get(name_start..name_end)?;
    let number = core::str::from_utf8(line.get(..name_start)?).ok()?.split(' ').next()?;
    let rest = core::str::from_utf8(line.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Thread {
        number: number.parse().ok()?,
        // Those that do the ring's requests.
        name_is_kernels: name.starts_with(b"iou-"),
        is_over: matches!(state, "Z" | "X"),
        status: fields.nth(48)?.parse().ok()?,
    })
}

fn thread(path: &CStr) -> Option<Thread> {
    let file = open_proc(path, OFlags::RDONLY).ok()?;
    let mut line = [0_u8; 1024];
    let length = rustix::io::read(&file, &mut line).ok()?;
    parse(line.get(..length)?)
}

/// The number of threads of the program; `None` if it is unknown.
pub(crate) fn program_threads() -> Option<usize> {
    let directory = open_proc(c"self/task", OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let own = thread(c"thread-self/stat")?.number;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&directory, &mut buffer);
    let mut count = 0;
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        let Some(path) = entry.file_name().to_str().ok().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let path = CString::new(format!("self/task/{path}/stat")).ok()?;
        let Some(thread) = thread(&path) else { continue };
        count += usize::from(thread.number != own && !thread.is_over && !thread.name_is_kernels);
    }
    Some(count)
}

/// Ends the process if the agent is all that is left of it, as its first thread has ended: with its
/// status, or by the signal that ended it. (A filter of system calls may end a single thread, with
/// a signal that no handler sees.)
pub(crate) fn end_if_alone() {
    let Some(first) = thread(c"self/stat") else { return };
    if first.is_over && program_threads() == Some(0) {
        match first.status & 0x7f {
            // SAFETY: no thread of the program is left.
            0 => _ = unsafe { call(__NR_exit_group, [first.status >> 8 & 0xff, 0, 0, 0, 0, 0]) },
            signal => end_by(signal),
        }
        end_process();
    }
}

/// Ends the process by a signal. Returns if the process does not end by that one.
fn end_by(signal: usize) {
    // The kernel's form of an action: what to do, flags, a function to return by, a mask.
    let default = [0_usize; 4];
    // SAFETY: no thread of the program is left that would miss its handler. The last call is for
    // this thread.
    unsafe {
        call(raw::__NR_rt_sigaction, [signal, (&raw const default) as usize, 0, 8, 0, 0]);
        set_signal_mask(EVERY_SIGNAL & !(1 << (signal - 1)));
        let process = call(raw::__NR_getpid, [0; 6]) as usize;
        call(raw::__NR_tgkill, [process, kernel::thread_number() as usize, signal, 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_by_its_line() {
        let rest = "1 2 3 ".repeat(16);
        let line = |name: &str, state: &str| format!("12 ({name}) {state} {rest}768 0");
        // Field 3 is the state, so 48 fields are between it and the 52nd.
        let thread = parse(line("a) b (c", "Z").as_bytes()).unwrap();
        assert!(thread.is_over && !thread.name_is_kernels);
        assert_eq!(thread.status, 768);
        let thread = parse(line("iou-wrk-7", "S").as_bytes()).unwrap();
        assert!(!thread.is_over && thread.name_is_kernels);
        assert!(parse(b"12 (cut").is_none());
    }

    #[test]
    fn the_threads_of_this_process_are_counted() {
        let before = program_threads().unwrap();
        let (go, stop) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stop.recv().is_err());
        assert!(program_threads().unwrap() > 0 && before > 0);
        drop(go);
        assert!(thread.join().unwrap());
    }
}
