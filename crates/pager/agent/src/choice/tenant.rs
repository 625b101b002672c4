//! The agent's side when several programs share one limit: the command has the policy and lends
//! frames.
//!
//! To the rest of the agent a [`Tenant`] is a policy. It passes reports on to the command, and
//! names the victims that the command has named. `lease` describes the messages and
//! the reasons for them.
//!
//! What the agent does with the frames and the orders is in `paging::mode::lent`.

use crate::choice::bits::Bits;
use crate::choice::live::LivePolicy;
use crate::control::Control;
use crate::kernel;
use crate::kernel::PollFd;
use crate::kernel::passing::{send_file, words_as_bytes};
use crate::lease::{HELLO, HELLO_WORDS, MESSAGE_WORDS, MOST_PAGES, Report, SHARED_BYTES, SharedState};
use crate::process::failure::{abort, orphaned};
use crate::process::own::{self, filled};
use crate::process::wait::poll;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with, socketpair, sockopt,
};
use rustix::process::geteuid;
use sweephand_policy::{PageId, Reference};

/// Words that are sent although there is nothing to ask.
const UNSENT_WORDS: usize = 128;

/// A process that lives on frames lent by the command.
#[derive(Debug)]
pub(crate) struct Tenant {
    socket: OwnedFd,
    /// Bits of pages, for both sides to see.
    pub(crate) shared: &'static SharedState,
    /// Frames lent and not given back.
    pub(crate) granted: usize,
    /// What has not been sent yet.
    outbox: Vec<u32>,
    /// Pages that have to go.
    pub(crate) victims: VecDeque<PageId>,
    /// Whether a question waits for its answer.
    pub(crate) asked: bool,
    /// Whether the task is not active.
    pub(crate) is_suspended: bool,
    /// Whether all pages have to be unmapped, as soon as they are managed.
    pub(crate) freeze_is_due: bool,
    /// For messages that are read.
    inbox: Vec<u32>,
}

impl Tenant {
    /// Calls the command. The process has `granted` frames already.
    pub(crate) fn connect(control: &Control, granted: usize) -> Self {
        Self::begin(control, granted, connect_to_lender(control))
    }

    /// Introduces the process to the command at the other end of a socket.
    pub(crate) fn begin(control: &Control, granted: usize, socket: Result<OwnedFd, Errno>) -> Self {
        let made = socket.and_then(|socket| {
            let shared = introduce(&socket, control, granted)?;
            Ok((socket, shared))
        });
        let (socket, shared) = made
            .unwrap_or_else(|error| abort(format_args!("sweephand run cannot be asked for memory: {error}")));
        Self {
            socket,
            shared,
            granted,
            outbox: Vec::with_capacity(MESSAGE_WORDS),
            victims: VecDeque::new(),
            asked: false,
            is_suspended: false,
            freeze_is_due: false,
            inbox: filled(0, MESSAGE_WORDS),
        }
    }

    /// In a child, whose copy of the parent's lease is worth nothing: calls for itself, and waits
    /// until the command has made room in the cgroup. The child has pages without having asked for
    /// them.
    pub(crate) fn reconnect(&mut self, control: &Control, granted: usize, socket: OwnedFd) {
        // The old socket's number is one of the parent's table, and must not be closed here.
        mem::forget(mem::replace(self, Self::begin(control, granted, Ok(socket))).socket);
        // Ends: the command admits the process, or ends and hangs up.
        let mut admitted = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        while let Err(error) = poll(&mut admitted, None) {
            if !matches!(error, Errno::INTR | Errno::AGAIN) {
                abort(format_args!("the pager cannot wait for memory: {error}"));
            }
        }
    }

    /// Asks the command to hear another process, which is about to be forked. The child's end.
    pub(crate) fn announce(&mut self) -> Result<OwnedFd, Errno> {
        self.flush();
        let (theirs, childs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // So that the kernel says which process speaks, although this one made the socket.
        sockopt::set_socket_passcred(&theirs, true)?;
        send_file(&self.socket, &[Report::Fork.word(0)], theirs.as_fd())?;
        Ok(childs)
    }

    /// Frames lent and not given back.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// Whether so much waits to be sent that it is worth a message.
    pub(crate) fn has_much_to_send(&self) -> bool {
        self.outbox.len() >= UNSENT_WORDS
    }

    /// What becomes readable when the command has an order.
    pub(crate) fn orders(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Puts a word into the next message.
    pub(crate) fn push(&mut self, word: u32) {
        if self.outbox.len() >= MESSAGE_WORDS {
            self.flush();
        }
        self.outbox.push(word);
    }

    /// Sends the words put in so far. Ends: the kernel lacks memory for a moment only, and any
    /// other error means that the command is gone.
    pub(crate) fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        loop {
            match send(&self.socket, words_as_bytes(&self.outbox), SendFlags::NOSIGNAL) {
                Ok(_) => break self.outbox.clear(),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS | Errno::NOMEM) => kernel::sched_yield(),
                Err(_) => orphaned(),
            }
        }
    }

    /// The next message, if there is one. The caller gives it back with [`Tenant::give_back`].
    pub(crate) fn receive(&mut self) -> Option<Vec<u32>> {
        let mut inbox = mem::take(&mut self.inbox);
        inbox.resize(MESSAGE_WORDS, 0);
        loop {
            match recv(&self.socket, words_as_bytes_mut(&mut inbox), RecvFlags::DONTWAIT) {
                Ok((0, _)) => orphaned(),
                Ok((bytes, _)) => {
                    inbox.truncate(bytes / size_of::<u32>());
                    return Some(inbox);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => orphaned(),
            }
        }
        self.inbox = inbox;
        None
    }

    /// A message has been read.
    pub(crate) fn give_back(&mut self, message: Vec<u32>) {
        self.inbox = message;
    }
}

/// Connects to the socket of the command that lends memory.
fn connect_to_lender(control: &Control) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let lender = control.order.lender.as_c_str().ok_or(Errno::NAMETOOLONG)?;
    connect(&socket, &SocketAddrUnix::new(lender)?)?;
    // Only root or this user can have put a socket there; but it costs nothing to look.
    let command = sockopt::socket_peercred(&socket)?.uid;
    if !command.is_root() && command != geteuid() {
        return Err(Errno::PERM);
    }
    Ok(socket)
}

/// Says who this is, and sends the file of the shared state.
fn introduce(socket: &OwnedFd, control: &Control, granted: usize) -> Result<&'static SharedState, Errno> {
    let file = memfd_create(c"sweephand-shared", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, SHARED_BYTES as u64)?;
    // A process that has mapped a file is ended by a signal when the file is made shorter. So the
    // command takes no file that can be.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which stays.
    let shared = unsafe {
        mmap(own::shared_place(SHARED_BYTES), SHARED_BYTES, protection, MapFlags::SHARED, &file, 0)
    }?;
    // A child shares a state of its own.
    // SAFETY: advice on our own mapping.
    unsafe { madvise(shared, SHARED_BYTES, Advice::LinuxDontFork) }?;
    let order = &control.order;
    let mut hello = [0; HELLO_WORDS];
    hello[..3].copy_from_slice(&[HELLO, order.task, granted as u32]);
    hello[3..].copy_from_slice(&order.secret);
    send_file(socket, &hello, file.as_fd())?;
    // SAFETY: zeros are a shared state, whose parts are atomic.
    Ok(unsafe { &*shared.cast::<SharedState>() })
}

fn words_as_bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: plain data, of which any bytes are a value.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

impl LivePolicy for Tenant {
    fn fault(&mut self, reference: Reference) {
        self.push(Report::Fault.word(reference.page.index()));
    }

    /// They are named by orders.
    fn victim(&mut self, _: &mut Bits) -> Option<PageId> {
        None
    }

    fn evict(&mut self, _: PageId) {}

    /// The policy's answer would come too late: the page counts as referenced, until the command
    /// clears the bit.
    fn insert(&mut self, reference: Reference, _: &mut Bits) -> bool {
        if reference.page.index() >= MOST_PAGES {
            abort(format_args!("a program among others can have {} GiB of addresses", MOST_PAGES >> 18));
        }
        self.push(Report::Insert.word(reference.page.index()));
        true
    }

    fn remove(&mut self, page: PageId) {
        self.push(Report::Remove.word(page.index()));
    }

    fn hand_steps(&self) -> u64 {
        0
    }
}
