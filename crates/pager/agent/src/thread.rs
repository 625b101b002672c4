//! The agent's thread, made without the C library.
//!
//! It shares the program's memory, signal handlers and process, so that whatever kills it kills the program and the other
//! way round. It does not share the table of descriptors: the program cannot close the agent's, nor does the agent
//! keep the program's open. It has no thread-local storage, and takes no signals.

use core::arch::asm;
use linux_raw_sys::general as raw;

const FLAGS: u32 =
    raw::CLONE_VM | raw::CLONE_FS | raw::CLONE_SIGHAND | raw::CLONE_THREAD | raw::CLONE_SYSVSEM;

/// All signals that can be blocked.
pub(crate) const EVERY_SIGNAL: u64 = u64::MAX;

/// Sets the calling thread's signal mask and returns the old one.
pub(crate) fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0_u64;
    // SAFETY: rt_sigprocmask(SIG_SETMASK, &mask, &old, 8) reads and writes these words.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") raw::__NR_rt_sigprocmask as u64 => _,
            in("rdi") raw::SIG_SETMASK as u64,
            in("rsi") &raw const mask,
            in("rdx") &raw mut old,
            in("r10") 8_u64,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    old
}

/// Starts a thread on the stack that ends at `stack_end` with `main(argument)`, which must not return. Returns false if
/// the kernel makes no more threads.
///
/// # Safety
/// The stack must be the thread's alone, and `argument` what `main` expects.
pub(crate) unsafe fn start(stack_end: usize, main: extern "C" fn(usize) -> !, argument: usize) -> bool {
    let old = set_signal_mask(EVERY_SIGNAL);
    let result: i64;
    // SAFETY: clone(flags, stack, ...) returns twice: here with the child's number, and in the child with 0 on the new
    // stack, from which `main` is called and never left.
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
