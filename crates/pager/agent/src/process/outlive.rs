//! Processes that share the program's memory (`clone` with `CLONE_VM`, without `CLONE_THREAD`).
//!
//! The agent is a thread of the program's first process. If that process ended first, the others
//! would be without an agent. So before such a child is made, the agent moves to a process of its
//! own, which shares the memory as well:
//!
//! ```text
//!   before   first process: [threads | agent]
//!   after    first process: [threads | guardian]   child: [threads]   agent's process: [agent]
//! ```
//!
//! The new process has the agent's descriptors and memory, so nothing else changes. It ends when
//! all processes that share the memory have ended. The thread that was the agent stays as the
//! guardian: it keeps the descriptors open, and ends the program if the agent's process is killed.
//! (When the first process is over there is no guardian.) A process that has become another program
//! by `execve` is waited for all the same.
//!
//! From then on the program's rights are followed no more, and a first process whose last thread
//! leaves by a bare system call stays.

use crate::kernel::syscall::call;
use crate::kernel::thread;
use crate::kernel::{self, PollFd};
use crate::mailbox::{Call, MAILBOX};
use crate::process::failure::{self, abort, end_process};
use crate::process::own;
use crate::process::wait::poll;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as raw;
use rustix::event::{PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The agent is a thread, has been asked to move, is a process.
const THREAD: u32 = 0;
const ASKED: u32 = 1;
const PROCESS: u32 = 2;
static PHASE: AtomicU32 = AtomicU32::new(THREAD);
const STACK_BYTES: usize = 256 << 10;

/// The processes that share the memory, for the agent.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    processes: Vec<OwnedFd>,
}

impl Sharers {
    /// Another process shares the memory.
    pub(crate) fn add(&mut self, process: i32) {
        failure::end_with(process);
        self.processes.extend(open(process));
    }

    /// Whether all of them have ended. They are forgotten then.
    fn are_over(&mut self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.processes.retain(|process| !has_ended(process, Some(&now)));
        self.processes.is_empty()
    }
}

fn open(process: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()
}

fn has_ended(process: &OwnedFd, timeout: Option<&Timespec>) -> bool {
    let mut descriptors = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    matches!(poll(&mut descriptors, timeout), Ok(1))
}

/// For a thread of the program: makes a child that shares its memory.
pub(crate) fn sharing(make: impl FnOnce() -> isize) -> isize {
    if !MAILBOX.is_open() {
        return make();
    }
    MAILBOX.call(Call::Outlive, 0, 0);
    // Ends: the agent moves as soon as it has answered, or ends the program.
    while PHASE.load(Ordering::Acquire) != PROCESS {
        kernel::sleep(100_000);
    }
    let child = make();
    if child > 0 {
        MAILBOX.call(Call::Sharer, child as usize, 0);
    }
    child
}

/// Asks the agent to move.
pub(crate) fn ask() {
    let _ = PHASE.compare_exchange(THREAD, ASKED, Ordering::AcqRel, Ordering::Relaxed);
}

/// For the agent: whether it has been asked to move.
pub(crate) fn is_asked() -> bool {
    PHASE.load(Ordering::Acquire) == ASKED
}

/// Whether the agent is in a process of its own.
pub(crate) fn is_process() -> bool {
    PHASE.load(Ordering::Acquire) == PROCESS
}

/// Moves the agent, which has nothing under way, to a process of its own. It goes on there with
/// `main(argument)`. The calling thread becomes the guardian.
///
/// # Safety
/// `argument` must be what `main` expects.
pub(crate) unsafe fn move_out(main: extern "C" fn(usize) -> !, argument: usize) -> ! {
    let stack = own::map(STACK_BYTES).unwrap_or_else(|| own::no_room("stack"));
    // SAFETY: a stack of its own. The process shares this one's memory and descriptors.
    let process = unsafe { thread::start_process(stack + STACK_BYTES, main, argument) };
    let Some(process) = open(process as i32) else {
        abort(format_args!("makes a process that shares its memory, and the pager cannot have one"))
    };
    // Ends with the agent's process.
    while !has_ended(&process, None) {}
    abort(format_args!("the pager's process has ended, and the program was ended with it"))
}

/// For the agent in its own process: it has begun there.
pub(crate) fn begun() {
    PHASE.store(PROCESS, Ordering::Release);
}

/// For the agent in its own process: ends it if no other process shares the memory any more.
pub(crate) fn end_if_over(sharers: &mut Sharers) {
    if sharers.are_over() {
        // SAFETY: no other code of this process runs.
        unsafe { call(raw::__NR_exit_group, [0; 6]) };
        end_process();
    }
}

/// In a child with memory of its own, whose agent is a thread.
pub(crate) fn in_child() {
    PHASE.store(THREAD, Ordering::Release);
    failure::end_alone();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_have_ended_are_forgotten() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut sharers = Sharers::default();
        sharers.processes.extend(open(child.id() as i32));
        assert!(!sharers.are_over());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(sharers.are_over());
    }
}
