//! The command's end of an agent's socket.

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recv, recvmsg, send, socket_with, sockopt,
};
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use sweephand_agent::lease::{HELLO, HELLO_WORDS, MESSAGE_WORDS, Order, Report};

/// Where agents call.
#[derive(Debug)]
pub(crate) struct Switchboard {
    socket: OwnedFd,
    /// The socket's name, which agents are told.
    pub(crate) name: String,
    /// Sockets that have not said who they are.
    callers: Vec<OwnedFd>,
}

/// An agent that has said who it is.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) socket: OwnedFd,
    pub(crate) board: OwnedFd,
    pub(crate) task: usize,
    pub(crate) pid: i32,
    /// Frames that it has already.
    pub(crate) granted: usize,
}

impl Switchboard {
    /// A socket with a name that nobody guesses.
    pub(crate) fn new() -> io::Result<Self> {
        let mut random = [0_u8; 16];
        let urandom = rustix::fs::open("/dev/urandom", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::read(&urandom, &mut random)?;
        let number = random.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let name = format!("sweephand-{}-{number}", std::process::id());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&socket, 1024)?;
        Ok(Self { socket, name, callers: Vec::new() })
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::once(&self.socket).chain(&self.callers).map(|fd| PollFd::new(fd, PollFlags::IN))
    }

    /// Agents that have called since.
    pub(crate) fn answer(&mut self) -> Vec<Call> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(caller) = accept_with(&self.socket, flags) {
            // Of this user's processes only.
            let own = rustix::process::geteuid();
            if sockopt::socket_peercred(&caller).is_ok_and(|peer| peer.uid == own || own.is_root()) {
                self.callers.push(caller);
            }
        }
        let mut calls = Vec::new();
        for caller in std::mem::take(&mut self.callers) {
            match hello(caller) {
                Ok(call) => calls.push(call),
                // It has said nothing yet.
                Err(Some(caller)) => self.callers.push(caller),
                Err(None) => {}
            }
        }
        calls
    }
}

/// What a caller says of itself. Its socket comes back if it has not spoken.
fn hello(socket: OwnedFd) -> Result<Call, Option<OwnedFd>> {
    let mut bytes = [0_u8; 4 * HELLO_WORDS];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    match recvmsg(&socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
        Ok(received) if received.bytes == 4 * HELLO_WORDS => {}
        Err(Errno::AGAIN | Errno::INTR) => return Err(Some(socket)),
        _ => return Err(None),
    }
    let file = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let word = |index: usize| bytes[4 * index..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let peer = sockopt::socket_peercred(&socket).map_err(|_| None)?;
    match file {
        Some(board) if word(0) == HELLO => Ok(Call {
            socket,
            board,
            task: word(1) as usize,
            pid: peer.pid.as_raw_nonzero().get(),
            granted: word(2) as usize,
        }),
        _ => Err(None),
    }
}

/// An agent, as far as frames and messages go.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    pub(crate) task: usize,
    pub(crate) pid: i32,
    /// Frames lent.
    pub(crate) granted: usize,
    /// Of these, those that are not for pages of the policy's.
    pub(crate) apart: usize,
    /// Frames asked for, while the question has no answer.
    pub(crate) asked: Option<usize>,
    /// Frames that it has been ordered to give and has not said to have done.
    pub(crate) owed: usize,
    /// Since when it owes some, without a word.
    pub(crate) owes_since: Option<Instant>,
    /// It has owed for long: its pages have been taken from the policy.
    pub(crate) is_aside: bool,
    /// Processor time of the process when it called, and at the last look, in nanoseconds.
    pub(crate) first_ns: u64,
    pub(crate) used_ns: u64,
    /// Orders to be sent, and how many frames they say to give.
    orders: Vec<u32>,
    giving: usize,
    /// Messages that did not fit the socket.
    unsent: VecDeque<Vec<u8>>,
}

/// Longer than an agent takes for an order, if it is not stopped.
const PATIENCE: Duration = Duration::from_secs(1);

impl Link {
    pub(crate) fn new(call: Call) -> (Self, OwnedFd) {
        let Call { socket, board, task, pid, granted } = call;
        let link = Self {
            socket,
            task,
            pid,
            granted,
            apart: 0,
            asked: None,
            owed: 0,
            owes_since: None,
            is_aside: false,
            first_ns: processor_ns(pid).unwrap_or(0),
            used_ns: 0,
            orders: Vec::new(),
            giving: 0,
            unsent: VecDeque::new(),
        };
        (link, board)
    }

    pub(crate) fn descriptor(&self) -> PollFd<'_> {
        let writes = if self.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN | writes)
    }

    /// To be sent with [`Link::flush`].
    pub(crate) fn order(&mut self, order: Order, operand: usize) {
        self.orders.push(order.word(operand));
    }

    /// This page is to go; its frame is to be given back, or is part of an answer.
    pub(crate) fn order_eviction(&mut self, id: u32, gives: bool) {
        self.order(Order::Evict, id as usize);
        if gives {
            self.giving += 1;
            self.owed += 1;
        }
    }

    /// Sends what there is to say. What the socket does not take is kept.
    pub(crate) fn flush(&mut self, now: Instant) {
        if self.giving > 0 {
            let giving = std::mem::take(&mut self.giving);
            self.order(Order::Give, giving);
            self.owes_since.get_or_insert(now);
        }
        for words in std::mem::take(&mut self.orders).chunks(MESSAGE_WORDS) {
            self.unsent.push_back(words.iter().flat_map(|word| word.to_ne_bytes()).collect());
        }
        while let Some(message) = self.unsent.front() {
            match send(&self.socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => drop(self.unsent.pop_front()),
                Err(Errno::INTR) => {}
                // Later, or never: then its end is read from the socket.
                Err(_) => break,
            }
        }
    }

    /// What the agent has told since the last look; and whether it is still there.
    pub(crate) fn reports(&mut self) -> (Vec<(Report, u32)>, bool) {
        let mut reports = Vec::new();
        let mut bytes = vec![0_u8; 4 * MESSAGE_WORDS];
        loop {
            match recv(&self.socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((0, _)) => return (reports, false),
                Ok((length, _)) => {
                    let words = bytes[..length].as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
                    reports.extend(words.filter_map(Report::parse));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (reports, true),
                Err(_) => return (reports, false),
            }
        }
    }

    /// Whether it has not answered for long: its program has been stopped, say.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.owes_since.is_some_and(|since| now.duration_since(since) > PATIENCE)
    }
}

/// Processor time of a process, in nanoseconds.
pub(crate) fn processor_ns(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions fill in what they are given.
    let known = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    known.then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
