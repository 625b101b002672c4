//! The thread of the agent, and the place where it keeps its state: for the first process of a
//! program (`start`) and for children (`fork`).

use crate::entry::agent::Agent;
use crate::kernel;
use crate::kernel::thread;
use crate::mailbox::MAILBOX;
use crate::process::own;
use alloc::boxed::Box;
use core::arch::asm;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use linux_raw_sys::general as raw;
use rustix::fd::{AsRawFd, BorrowedFd};

/// The agent's stack.
const STACK_BYTES: usize = 256 << 10;

static AGENT: AtomicPtr<Agent> = AtomicPtr::new(ptr::null_mut());

/// Keeps the agent of this process, for good and where a child's thread finds its copy.
pub(crate) fn keep(agent: Agent) -> &'static mut Agent {
    let agent = Box::leak(Box::new(agent));
    AGENT.store(agent, Ordering::Release);
    agent
}

/// Starts the agent's thread.
pub(crate) fn start_thread(main: extern "C" fn(usize) -> !, argument: usize) -> bool {
    let Some(stack) = own::map(STACK_BYTES) else { return false };
    // SAFETY: a stack of its own.
    unsafe { thread::start(stack + STACK_BYTES, main, argument) }
}

/// Waits for an agent that has just been started. Ends: the agent opens the mailbox, or ends the
/// process if it cannot begin.
pub(crate) fn wait_for_agent() {
    let mut turns = 0;
    while !MAILBOX.is_open() {
        turns += 1;
        if turns < 1000 {
            kernel::sched_yield();
        } else {
            // The memory to begin with may have to be waited for.
            kernel::sleep(1_000_000);
        }
    }
}

/// The state of this process's agent.
///
/// # Safety
/// Only the thread that becomes the agent may call this, and only while there is no other.
pub(crate) unsafe fn agent() -> &'static mut Agent {
    // SAFETY: it was leaked by `keep`, in this process or the one that it was forked from.
    unsafe { &mut *AGENT.load(Ordering::Acquire) }
}

/// Closes a range of descriptors, both ends included, in the calling thread's table.
fn close_range(first: u32, last: u32) {
    if first > last {
        return;
    }
    // SAFETY: close_range(2) with no flags; the caller's table holds nothing that anyone relies on.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") u64::from(raw::__NR_close_range) => _,
            in("rdi") u64::from(first),
            in("rsi") u64::from(last),
            in("rdx") 0_u64,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
}

/// Closes all descriptors of the calling thread's table.
pub(crate) fn close_all() {
    close_range(0, u32::MAX);
}

/// Closes all descriptors of the calling thread's table but one.
pub(crate) fn close_all_but(keep: BorrowedFd<'_>) {
    let keep = keep.as_raw_fd() as u32;
    if keep > 0 {
        close_range(0, keep - 1);
    }
    close_range(keep + 1, u32::MAX);
}
