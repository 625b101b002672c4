//! Fork: the child gets all of its parent's memory, including paged-out pages, and an agent of its
//! own.
//!
//! The agent's state is ordinary memory, so the child has a copy of it. The state only has to be at
//! rest when the copy is made (`rest`). The descriptors that the state refers to come through a
//! socket.
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

use crate::agent::{Agent, open_store};
use crate::failure::give_up;
use crate::gate::GATE;
use crate::hooks::{Wrapped, c_result, redirect_calls, symbol};
use crate::io::Io;
use crate::mailbox::{Call, MAILBOX};
use crate::memfd::{self, Memfd};
use crate::pagemap::Pagemap;
use crate::rest::moves;
use crate::rlimits::{self, Raised};
use crate::roots;
use crate::start;
use crate::store::MOST_FILES;
use crate::tenant::send_file;
use crate::thread::{EVERY_SIGNAL, set_signal_mask};
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, forget, replace};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use linux_raw_sys::general as raw;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sweephand_uffd::{Event, Userfaultfd};

/// The most pages that a child may miss before its agent runs: pages of its stack and of the C
/// library's memory.
pub(crate) const MOST_ANSWERED: usize = 256;

/// The most descriptors that a child gets: two directories, two userfaultfds, the command, the
/// store's files.
const MOST_DESCRIPTORS: usize = MOST_FILES + 5;

/// One fork at a time.
static FORKING: AtomicBool = AtomicBool::new(false);
/// The C library's `_Fork`. `fork` takes the library's locks, calls `_Fork` and releases the locks.
/// 0 if these calls were not found; then a jump replaces the beginning of `_Fork`.
static SYSTEM_FORK: AtomicUsize = AtomicUsize::new(0);
static FORK: Wrapped = Wrapped::new();

/// An announced fork, as the agent sees it.
pub(crate) struct Forking {
    /// The agent's end of the child's socket.
    pub(crate) socket: OwnedFd,
    /// The thread that forks.
    pub(crate) thread: u32,
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
    let Some(real) = symbol(c"clone") else { return c_result(-(Errno::NOSYS.raw_os_error() as isize)) };
    type Clone = extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> c_int;
    // SAFETY: this is the C library's function of that name. Its further arguments may be anything.
    let real: Clone = unsafe { core::mem::transmute(real) };
    if flags as u32 & raw::CLONE_VM != 0 || function == 0 || stack == 0 {
        return real(function, stack, flags, argument, parents_id, storage, childs_id) as isize;
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
    while FORKING.swap(true, Ordering::Acquire) {
        rustix::thread::sched_yield();
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
    // Without a free descriptor there is no socket, and the child has no agent (see the module's
    // text).
    let make = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let pair = match make() {
        Err(Errno::MFILE) => rlimits::without(Raised::Descriptors, make),
        pair => pair,
    };
    let (parents, childs) = pair.ok()?;
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
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
    GATE.forget_others();
    rlimits::in_child();
    if let Some([parents, childs]) = sockets {
        drop(parents);
        MAILBOX.close();
        if !start::start_thread(child_main, childs.as_raw_fd() as usize) {
            give_up(format_args!("a child cannot have a thread for its pager"));
        }
        start::wait_for_agent();
    }
}

/// The agent's thread of a child.
extern "C" fn child_main(socket: usize) -> ! {
    // SAFETY: this is the end that `in_child` keeps open until there is an agent. The descriptor is
    // in this thread's own copy of the table.
    let socket = unsafe { OwnedFd::from_raw_fd(socket as i32) };
    start::close_all_but(socket.as_fd());
    // SAFETY: this is the state as it was when the parent's agent was at rest. The thread that used
    // it is not in this process.
    let agent = unsafe { start::agent() };
    rlimits::without(Raised::Descriptors, || agent.take_over(socket));
    agent.run()
}

/// What the parent's agent sends to the child's, besides descriptors.
#[derive(Clone, Copy)]
#[repr(C)]
struct Handover {
    /// Whether the last descriptor is the command.
    has_supervisor: u32,
    /// How many addresses follow.
    answered: u32,
    /// How many moves of mappings the parent's agent knew of when it had read every change from
    /// before the fork.
    moves: usize,
    /// Addresses of pages that the child has, although its copied state says that they are absent
    /// or in the store.
    addresses: [usize; MOST_ANSWERED],
}

impl Handover {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: this is plain data without padding.
        unsafe { core::slice::from_raw_parts_mut((self as *mut Self).cast(), size_of::<Self>()) }
    }
}

impl Agent {
    /// Prepares for the fork of a thread. Nothing may be under way while the thread's memory is
    /// copied.
    pub(crate) fn before_fork(&mut self, descriptor: usize, thread: usize) {
        if self.memfd.is_some() && self.managed {
            give_up(format_args!("{}", memfd::FORKED));
        }
        // Without the socket the child will have no agent.
        let fetch = || fetch_descriptor(descriptor, thread);
        let socket = fetch().or_else(|| rlimits::without(Raised::Descriptors, fetch));
        let Some(socket) = socket else { return };
        match self.announce_child().map(|lease| send_file(&socket, &[0], lease?.as_fd())) {
            None | Some(Ok(())) => {}
            Some(Err(error)) => give_up(format_args!("sweephand run cannot be told of a child: {error}")),
        }
        self.forking = Some(Forking { socket, thread: thread as u32 });
        self.come_to_rest();
    }

    /// In the parent: gives the child's agent what its copied state refers to.
    pub(crate) fn hand_over(
        &mut self,
        socket: &OwnedFd,
        uffds: Option<(Userfaultfd, Userfaultfd)>,
        moves: usize,
        answered: &[usize],
    ) {
        let mut handover = Handover {
            has_supervisor: u32::from(self.supervisor.is_some()),
            answered: answered.len() as u32,
            moves,
            addresses: [0; MOST_ANSWERED],
        };
        handover.addresses[..answered.len()].copy_from_slice(answered);
        // Without these the child cannot go on, and it says so.
        let (Some((uffd, staging)), Some(proc), Some(directory)) = (&uffds, roots::proc(), roots::store())
        else {
            return;
        };
        let mut descriptors: Vec<BorrowedFd> = vec![proc, directory, uffd.as_fd(), staging.as_fd()];
        descriptors.extend(self.store.files().map(|(_, file)| file.as_fd()));
        descriptors.extend(self.supervisor.as_ref().map(AsFd::as_fd));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let parts = [IoSlice::new(handover.bytes())];
        // A child that has died meanwhile does not need it.
        let _ = sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL);
    }

    /// In a child: goes on with the copied state and descriptors of its own.
    fn take_over(&mut self, socket: OwnedFd) {
        let lost =
            |_| -> ! { give_up(format_args!("a child has lost its parent's pager before it had its own")) };
        if self.policy.tenant().is_some() {
            // The parent sent this before it forked.
            self.renew_lease(receive_file(&socket).unwrap_or_else(|error| lost(error)));
        }
        send(&socket, &[1], SendFlags::NOSIGNAL).unwrap_or_else(|error| lost(error));
        let mut handover =
            Handover { has_supervisor: 0, answered: 0, moves: 0, addresses: [0; MOST_ANSWERED] };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(handover.bytes())];
        let expected = size_of::<Handover>();
        let received = recvmsg(&socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .unwrap_or_else(|error| lost(error));
        if received.bytes != expected {
            lost(Errno::PIPE);
        }
        let mut descriptors = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten();
        let mut next = || descriptors.next().unwrap_or_else(|| lost(Errno::BADF));
        roots::keep(next(), next());
        // The copied state contains descriptor numbers of the parent's table. They must not be
        // closed here.
        forget(replace(&mut self.uffd, Userfaultfd::from(next())));
        forget(replace(&mut self.staging_uffd, Userfaultfd::from(next())));
        forget(replace(&mut self.pagemap, Pagemap::open()));
        self.account.reopen();
        if let Some(memfd) = &mut self.memfd {
            // Nothing is managed yet. Otherwise the fork would have ended the program.
            forget(replace(memfd, Memfd::open(self.staging.batch_pages())));
        }
        forget(replace(&mut self.io, Io::new(self.control.order.use_ring != 0)));
        forget(self.forking.take());
        self.orphans.drain(..).for_each(forget);
        let numbers: Vec<usize> = self.store.files().map(|(number, _)| number).collect();
        for number in numbers {
            forget(self.store.replace_descriptor(number, next()));
        }
        forget(replace(&mut self.supervisor, (handover.has_supervisor != 0).then(next)));
        // The parent goes on writing to its file. The child makes its own, empty one.
        let number = self.store.current();
        drop(self.store.replace_descriptor(number, open_store(self.control)));
        self.drop_bells();
        self.register_own();
        self.tell_pages();
        if moves(&self.parked) != handover.moves {
            give_up(format_args!(
                "a mapping was moved while another thread forked, by a system call of the program's own: where the \
                 child's memory is cannot be known"
            ));
        }
        // Changes that the parent had read but not applied happened to this process's memory too.
        // The faults are the parent's.
        self.messages.retain(|message| !matches!(message.event(), Some(Event::Fault { .. }) | None));
        self.catch_up();
        self.make_up(false);
        for (start, end) in self.not_inherited.iter().collect::<Vec<_>>() {
            self.drop_contents(start, end);
            self.forget_guards(start, end);
            self.regions.remove(start, end);
        }
        handover.addresses[..handover.answered as usize].iter().for_each(|&address| self.adopt(address, &[]));
    }

    /// Takes the descriptor of a child whose fork was not announced.
    pub(crate) fn forked(&mut self, descriptor: i32) {
        // SAFETY: the kernel has just put this descriptor into our table.
        let child = Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        if !self.managed {
            // No page is paged out, and no page of the child will be.
            return;
        }
        if self.memfd.is_some() {
            // The thread that forks waits until this message is read. It is killed before its child
            // runs.
            give_up(format_args!("{}", memfd::FORKED));
        }
        self.orphans.push(child);
    }
}

/// Receives a file that comes with a message.
fn receive_file(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0_u8; 4];
    recvmsg(socket, &mut [IoSliceMut::new(&mut word)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    file.ok_or(Errno::PIPE)
}

/// Copies one of the program's descriptors into the agent's table.
fn fetch_descriptor(descriptor: usize, thread: usize) -> Option<OwnedFd> {
    // The thread is used, because the first thread may have ended. Older kernels know only
    // processes.
    const PIDFD_THREAD: u32 = 0x80;
    let thread = Pid::from_raw(thread as i32)?;
    let pidfd = pidfd_open(thread, PidfdFlags::from_bits_retain(PIDFD_THREAD))
        .or_else(|_| pidfd_open(getpid(), PidfdFlags::empty()));
    pidfd_getfd(pidfd.ok()?, descriptor as i32, PidfdGetfdFlags::empty()).ok()
}
