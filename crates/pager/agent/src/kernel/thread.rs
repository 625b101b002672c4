//! The agent's thread, made without the C library.
//!
//! It shares the program's memory, signal handlers and process, so whatever kills it kills the
//! program, and the other way round. It does not share the table of descriptors: the program cannot
//! close the agent's, and the agent does not keep the program's open. It does not share the root
//! directory and the mounts either. It has no thread-local storage and takes no signals.

use crate::kernel::PAGE_BYTES;
use crate::kernel::syscall::{call, refused};
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};
use linux_raw_sys::general as raw;
use rustix::io::Errno;

const FLAGS: u32 = raw::CLONE_VM | raw::CLONE_SIGHAND | raw::CLONE_THREAD | raw::CLONE_SYSVSEM;

const PROCESS_FLAGS: u32 = raw::CLONE_VM | raw::CLONE_FILES | raw::CLONE_FS | raw::CLONE_SYSVSEM;

/// All signals that can be blocked.
pub(crate) const EVERY_SIGNAL: u64 = u64::MAX;

/// Signals that come from what a thread does itself: ill, trap, bus, fpe, segv, sys. A program that
/// handles them has them even when it calls the agent.
const OWN_FAULTS: u64 = signal(4) | signal(5) | signal(7) | signal(8) | signal(11) | signal(31);

const fn signal(number: u32) -> u64 {
    1 << (number - 1)
}

/// How often the program has restricted its system calls, or is about to. The restriction may not
/// allow ours.
static RESTRICTIONS: AtomicUsize = AtomicUsize::new(0);

/// Makes a call by which the program restricts its system calls. If it succeeds, the program's
/// threads make no system calls for the agent from then on that they need not make. Other threads
/// are restricted before the call returns, so they stop before it is made.
pub(crate) fn restricting(call: impl FnOnce() -> isize) -> isize {
    RESTRICTIONS.fetch_add(1, Ordering::AcqRel);
    let result = call();
    if result < 0 {
        RESTRICTIONS.fetch_sub(1, Ordering::AcqRel);
    }
    result
}

/// Whether the program has restricted its system calls.
pub(crate) fn is_restricted() -> bool {
    RESTRICTIONS.load(Ordering::Acquire) != 0
}

/// Does something on a thread of the program that a signal handler must not interrupt, since it may
/// not come back, or may need the agent, who waits for this.
pub(crate) fn uninterrupted<R>(work: impl FnOnce() -> R) -> R {
    if is_restricted() {
        return work();
    }
    let mask = set_signal_mask(EVERY_SIGNAL & !OWN_FAULTS);
    let result = work();
    set_signal_mask(mask);
    result
}

/// Sets the calling thread's signal mask and returns the old one.
pub(crate) fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0_u64;
    let arguments = [raw::SIG_SETMASK as usize, &raw const mask as usize, &raw mut old as usize, 8, 0, 0];
    // SAFETY: rt_sigprocmask(2) reads and writes these words.
    unsafe { call(raw::__NR_rt_sigprocmask, arguments) };
    old
}

/// Starts a thread on the stack that ends at `stack_end` with `main(argument)`, which must not
/// return. Returns false if the kernel makes no more threads.
///
/// # Safety
/// The stack must be the thread's alone, and `argument` what `main` expects.
pub(crate) unsafe fn start(stack_end: usize, main: extern "C" fn(usize) -> !, argument: usize) -> bool {
    // SAFETY: as the caller promises.
    unsafe { clone(FLAGS, stack_end, main, argument) > 0 }
}

/// The same in a process of its own, which shares the memory and the calling thread's descriptors.
/// No signal tells of its end. Returns its number, or 0 or less.
///
/// # Safety
/// As for [`start`].
pub(crate) unsafe fn start_process(
    stack_end: usize,
    main: extern "C" fn(usize) -> !,
    argument: usize,
) -> i64 {
    // SAFETY: as the caller promises.
    unsafe { clone(PROCESS_FLAGS, stack_end, main, argument) }
}

/// # Safety
/// As for [`start`].
unsafe fn clone(flags: u32, stack_end: usize, main: extern "C" fn(usize) -> !, argument: usize) -> i64 {
    let old = set_signal_mask(EVERY_SIGNAL);
    let result: i64;
    // SAFETY: clone(flags, stack, ...) returns twice: here with the child's number, and in the
    // child with 0 on the new stack, from which `main` is called and never left.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") raw::__NR_clone as i64 => result,
            in("rdi") u64::from(flags),
            in("rsi") (stack_end & !15) as u64,
            in("rdx") 0_u64,
            in("r10") 0_u64,
            in("r8") 0_u64,
            in("r12") main,
            in("r13") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    set_signal_mask(old);
    result
}

/// Whether the kernel could read `bytes` at an address. If not, a system call that is given it
/// fails with `EFAULT`. A function that stands in place of the call and reads the memory itself
/// would end the program instead.
///
/// `rt_sigprocmask` with an action that there is none of reads a mask and does nothing else.
pub(crate) fn is_readable(address: usize, bytes: usize) -> bool {
    const NO_ACTION: usize = 99;
    const MASK_BYTES: usize = 8;
    // All of the program's memory is below this address.
    const END: usize = 1 << 47;
    let last = address.checked_add(bytes.saturating_sub(MASK_BYTES));
    let Some(last) = last.filter(|&last| address != 0 && last < END) else { return false };
    if is_restricted() {
        return true;
    }
    // SAFETY: the call changes nothing.
    let read = |at| unsafe { call(raw::__NR_rt_sigprocmask, [NO_ACTION, at, 0, MASK_BYTES, 0, 0]) };
    let is_missing = |at: usize| read(at) == refused(Errno::FAULT);
    !(address..last).step_by(PAGE_BYTES).chain([last]).any(is_missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own;

    #[test]
    fn what_the_kernel_cannot_read_is_told() {
        let start = own::map(2 * PAGE_BYTES).unwrap();
        assert!(is_readable(start, 16) && is_readable(start + 2 * PAGE_BYTES - 64, 64));
        assert!(is_readable(start, 2 * PAGE_BYTES));
        for (address, bytes) in [(0, 8), (8, 64), (usize::MAX, 8), (usize::MAX - 4, 16), (1 << 47, 8)] {
            assert!(!is_readable(address, bytes), "{address:#x}");
        }
    }

    #[test]
    fn a_restriction_that_is_refused_is_none() {
        assert_eq!(restricting(|| -22), -22);
        assert!(!is_restricted());
    }
}
