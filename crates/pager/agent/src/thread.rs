//! The agent's thread, made without the C library.
//!
//! It shares the program's memory, signal handlers and process, so whatever kills it kills the
//! program, and the other way round. It does not share the table of descriptors: the program cannot
//! close the agent's, and the agent does not keep the program's open. It does not share the root
//! directory and the mounts either. It has no thread-local storage and takes no signals.

use crate::syscall::call;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::general as raw;

const FLAGS: u32 = raw::CLONE_VM | raw::CLONE_SIGHAND | raw::CLONE_THREAD | raw::CLONE_SYSVSEM;

/// All signals that can be blocked.
pub(crate) const EVERY_SIGNAL: u64 = u64::MAX;

/// Signals that come from what a thread does itself: ill, trap, bus, fpe, segv, sys. A program that
/// handles them has them even when it calls the agent.
const OWN_FAULTS: u64 = signal(4) | signal(5) | signal(7) | signal(8) | signal(11) | signal(31);

const fn signal(number: u32) -> u64 {
    1 << (number - 1)
}

/// Whether the program has restricted its system calls by a filter. It may not allow ours.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// From now on the program's threads make no system calls for the agent that they need not make.
pub(crate) fn is_filtered_now() {
    IS_FILTERED.store(true, Ordering::Release);
}

/// Does something on a thread of the program that a signal handler must not interrupt, since it may
/// not come back, or may need the agent, who waits for this.
pub(crate) fn uninterrupted<R>(work: impl FnOnce() -> R) -> R {
    if IS_FILTERED.load(Ordering::Acquire) {
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
            in("rdi") u64::from(FLAGS),
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
    result > 0
}
