//! Fork: the child gets all of its parent's memory, including paged-out pages, and an agent of its
//! own.
//!
//! The agent's state is ordinary memory, so the child has a copy of it. The state only has to be at
//! rest when the copy is made (`during_fork`). The descriptors that the state refers to come
//! through a socket (`handover`), and the child's agent goes on with both (`child`). This file is
//! what the program's threads do.
//!
//! ```text
//!   thread in _Fork             agent of the parent                            agent of the child
//!   before: call ------------>  comes to rest
//!           <-----------------
//!   system call ------------->  Event::Fork: holds the child's userfaultfd,
//!     |                         answers its faults by copies
//!     +-- child: starts an agent ------------------------------------------->  "ready"
//!     |                         userfaultfd, store files, pages answered --->  goes on with the copied state
//!   after: call ------------->  goes on
//! ```
//!
//! The C library's `fork` takes all locks that it needs and then makes the system call in `_Fork`.
//! From there on, it does not wait for any other thread. So the other threads can be kept waiting.
//! (A handler of `pthread_atfork` would run before the locks are taken.)
//!
//! The parent's agent keeps the child's userfaultfd until the child's agent has it. So missing
//! pages never read as zeros. None of this knows of a child made by a bare system call. Such a
//! child waits at its first missing page, and the agent ends the program with a message.

use crate::entry::agent_thread;
use crate::entry::hooks::{Wrapped, redirect_calls};
use crate::entry::locks;
use crate::kernel;
use crate::kernel::symbols::{c_result, symbol};
use crate::kernel::syscall::refused;
use crate::kernel::thread::{EVERY_SIGNAL, set_signal_mask};
use crate::mailbox::{Call, MAILBOX};
use crate::paging::child;
use crate::process::failure::abort;
use crate::process::outlive;
use crate::process::rlimits::{self, Raised};

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use linux_raw_sys::general as raw;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// One fork at a time.
static FORKING: AtomicBool = AtomicBool::new(false);
/// The C library's `_Fork`. `fork` takes the library's locks, calls `_Fork` and releases the locks.
/// 0 if these calls were not found; then a jump replaces the beginning of `_Fork`.
static SYSTEM_FORK: AtomicUsize = AtomicUsize::new(0);
static FORK: Wrapped = Wrapped::new();

/// For simulations: no fork is under way.
#[cfg(test)]
pub(crate) fn begin_anew() {
    FORKING.store(false, Ordering::Release);
}

/// Makes the C library's `fork` call our hook instead of `_Fork`. Returns the name of a function
/// that is missing or cannot be changed.
pub(crate) fn install() -> Result<(), &'static CStr> {
    let (Some(fork), Some(system)) = (symbol(c"fork"), symbol(c"_Fork")) else { return Err(c"_Fork") };
    let hook = hook_fork as *const c_void;
    // SAFETY: both functions are the C library's, and `_Fork` has this type.
    let calls = unsafe { redirect_calls(fork as usize, system as usize, hook as usize) };
    if calls.is_ok_and(|count| count > 0) {
        SYSTEM_FORK.store(system as usize, Ordering::Release);
        return Ok(());
    }
    FORK.install(c"_Fork", hook)
}

/// Replaces `_Fork`, also for programs that call it themselves.
pub extern "C" fn hook_fork() -> c_int {
    let system = SYSTEM_FORK.load(Ordering::Acquire);
    let fork = || match system {
        // SAFETY: the function has this type, and `FORKING` admits one thread at a time.
        0 => unsafe { FORK.call() as isize },
        system => {
            // SAFETY: this is the C library's function of that name.
            let system: extern "C" fn() -> c_int = unsafe { core::mem::transmute(system) };
            system() as isize
        }
    };
    forking(fork) as c_int
}

/// Makes a fork through a call that returns 0 in the child.
pub(crate) fn forking(fork: impl FnOnce() -> isize) -> isize {
    let begun = begin();
    let result = fork();
    match result {
        0 => begun.end_in_child(),
        _ => begun.end_in_parent(),
    }
    result
}

/// What `clone` needs to start a child with memory of its own.
struct Beginning {
    function: extern "C" fn(usize) -> c_int,
    argument: usize,
    begun: Option<Begun>,
}

/// Replaces the C library's `clone`.
///
/// # Safety
/// The same as for `clone`.
pub unsafe fn clone(
    function: usize,
    stack: usize,
    flags: usize,
    argument: usize,
    parents_id: usize,
    storage: usize,
    childs_id: usize,
) -> isize {
    let Some(real) = symbol(c"clone") else { return c_result(refused(Errno::NOSYS)) };
    type Clone = extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> c_int;
    // SAFETY: this is the C library's function of that name. Its further arguments may be anything.
    let real: Clone = unsafe { core::mem::transmute(real) };
    if flags as u32 & raw::CLONE_VM != 0 || function == 0 || stack == 0 {
        let make = || real(function, stack, flags, argument, parents_id, storage, childs_id) as isize;
        let is_process =
            flags as u32 & (raw::CLONE_VM | raw::CLONE_THREAD | raw::CLONE_VFORK) == raw::CLONE_VM;
        return if is_process && function != 0 && stack != 0 { outlive::sharing(make) } else { make() };
    }
    // SAFETY: the program passed this as a function.
    let function = unsafe { core::mem::transmute::<usize, extern "C" fn(usize) -> c_int>(function) };
    let mut beginning = Beginning { function, argument, begun: Some(begin()) };
    let place = (&raw mut beginning) as usize;
    let result =
        real(begin_child as *const c_void as usize, stack, flags, place, parents_id, storage, childs_id);
    if let Some(begun) = beginning.begun.take() {
        begun.end_in_parent();
    }
    result as isize
}

/// Where a child of `clone` begins. Its memory is a copy of its parent's, including the caller's
/// stack.
extern "C" fn begin_child(beginning: usize) -> c_int {
    // SAFETY: this points to the copy of the parent's `Beginning`.
    let beginning = unsafe { &mut *(beginning as *mut Beginning) };
    if let Some(begun) = beginning.begun.take() {
        begun.end_in_child();
    }
    (beginning.function)(beginning.argument)
}

/// An announced fork, as the thread sees it that makes the fork.
struct Begun {
    sockets: Option<[OwnedFd; 2]>,
    mask: u64,
}

fn begin() -> Begun {
    // A signal handler that runs in between could call the agent, which waits for this very thread.
    let mask = set_signal_mask(EVERY_SIGNAL);
    // Ends when the thread that forks has forked.
    while FORKING.swap(true, Ordering::Acquire) {
        kernel::sched_yield();
    }
    Begun { sockets: before(), mask }
}

impl Begun {
    fn end_in_parent(self) {
        in_parent(self.sockets);
        FORKING.store(false, Ordering::Release);
        set_signal_mask(self.mask);
    }

    fn end_in_child(self) {
        in_child(self.sockets);
        FORKING.store(false, Ordering::Release);
        set_signal_mask(self.mask);
    }
}

/// Announces a fork. Returns the sockets of the agents, the parent's first.
fn before() -> Option<[OwnedFd; 2]> {
    if !MAILBOX.is_open() {
        return None;
    }
    let make = || kernel::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let mut pair = make();
    for raised in [Raised::Descriptors, Raised::MoreDescriptors] {
        if pair.as_ref().is_err_and(|error| *error == Errno::MFILE) {
            pair = rlimits::without(raised, make);
        }
    }
    let (parents, childs) = match pair {
        Ok(pair) => pair,
        // The child needs no agent, as nothing is paged.
        Err(_) if !MAILBOX.is_managed() => return None,
        Err(error) => abort(format_args!(
            "forks, and its child cannot be paged: there is no socket for the child's pager: {error}"
        )),
    };
    let thread = kernel::thread_number();
    MAILBOX.call(Call::BeforeFork, parents.as_raw_fd() as usize, thread as usize);
    Some([parents, childs])
}

fn in_parent(sockets: Option<[OwnedFd; 2]>) {
    if sockets.is_some() {
        drop(sockets);
        MAILBOX.call(Call::AfterFork, 0, 0);
    }
}

fn in_child(sockets: Option<[OwnedFd; 2]>) {
    rlimits::in_child();
    locks::in_child();
    outlive::in_child();
    // The parent's agent is not in this process.
    MAILBOX.close();
    if let Some([parents, childs]) = sockets {
        drop(parents);
        if !agent_thread::start_thread(child_main, childs.as_raw_fd() as usize) {
            abort(format_args!("a child cannot have a thread for its pager"));
        }
        agent_thread::wait_for_agent();
    }
}

/// The agent's thread of a child.
extern "C" fn child_main(socket: usize) -> ! {
    // SAFETY: this is the end that `in_child` keeps open until there is an agent. The descriptor is
    // in this thread's own copy of the table.
    let socket = unsafe { OwnedFd::from_raw_fd(socket as i32) };
    agent_thread::close_all_but(socket.as_fd());
    // SAFETY: this is the state as it was when the parent's agent was at rest. The thread that used
    // it is not in this process.
    let agent = unsafe { agent_thread::agent() };
    rlimits::without(Raised::Descriptors, || child::take_over(agent.pager(), socket));
    agent.run()
}
