//! The command's end of an agent's socket.

use crate::error::{RunError, system};
use crate::run_directory::RunDirectory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, UCred, accept_with, bind, listen, recvmsg, send, socket_with, sockopt,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use sweephand_pager_interface::control::Secret;
use sweephand_pager_interface::lease::{HELLO, HELLO_WORDS, MESSAGE_WORDS, Report};

/// Where agents call.
#[derive(Debug)]
pub(crate) struct Switchboard {
    socket: OwnedFd,
    /// The socket's name, which agents get with their order.
    pub(crate) name: String,
    /// With this, an agent proves that it belongs to this run.
    pub(crate) secret: Secret,
    /// Sockets that have not said who they are, the oldest in front.
    callers: VecDeque<Caller>,
}

/// A process that has connected, or a child that its parent has announced.
#[derive(Debug)]
struct Caller {
    socket: OwnedFd,
    from: From,
}

/// How a caller came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// A process called by itself.
    Process(Pid),
    /// Its parent, of this task, has announced it.
    Task(usize),
}

/// Most processes that have connected and not said who they are. There is one for each that is just
/// being begun; more have come to be in the way.
const MOST_CALLERS: usize = 256;

/// An agent that has said who it is.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) socket: OwnedFd,
    /// The file of the state that it shares.
    pub(crate) shared: OwnedFd,
    pub(crate) task: usize,
    pub(crate) pid: i32,
    /// The process, whatever becomes of its number.
    pub(crate) process: OwnedFd,
    /// Frames that it has already.
    pub(crate) granted: usize,
}

impl Switchboard {
    /// A socket in the run's directory, for this user's processes alone.
    pub(crate) fn new(directory: &RunDirectory) -> Result<Self, RunError> {
        let path = directory.path().join("lender");
        let failed = |error: io::Error| system(format!("{}: the pagers' socket", path.display()))(error);
        let mut secret = [0; size_of::<Secret>()];
        File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut secret)).map_err(failed)?;
        let open = || -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            bind(&socket, &SocketAddrUnix::new(&path)?)?;
            // No process can call before it listens.
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            // Callers get that from it: the kernel says who speaks.
            sockopt::set_socket_passcred(&socket, true)?;
            listen(&socket, 1024)?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(failed)?,
            name: path.to_str().unwrap_or_default().to_string(),
            secret: std::array::from_fn(|word| {
                secret[4 * word..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
            }),
            callers: VecDeque::new(),
        })
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let callers = self.callers.iter().map(|caller| &caller.socket);
        std::iter::once(&self.socket).chain(callers).map(|fd| PollFd::new(fd, PollFlags::IN))
    }

    /// An agent has announced a child of its own.
    pub(crate) fn expect(&mut self, socket: OwnedFd, task: usize) {
        self.callers.push_back(Caller { socket, from: From::Task(task) });
    }

    /// Agents that have called since.
    ///
    /// Whoever has spoken is heard before anybody is sent away. A process calls once at a time, so
    /// one that calls again and again only takes its own place.
    pub(crate) fn answer(&mut self) -> Vec<Call> {
        // The others have their turn at the next look.
        for _ in 0..MOST_CALLERS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(&self.socket, flags) else { break };
            // Of this user's processes only.
            let own = rustix::process::geteuid();
            if let Some(peer) = sockopt::socket_peercred(&socket).ok().filter(|peer| peer.uid == own) {
                let from = From::Process(peer.pid);
                self.callers.retain(|caller| caller.from != from);
                self.callers.push_back(Caller { socket, from });
            }
        }
        let mut calls = Vec::new();
        for caller in std::mem::take(&mut self.callers) {
            match hello(caller, &self.secret) {
                Ok(call) => calls.push(call),
                // It has said nothing yet.
                Err(Some(caller)) => self.callers.push_back(caller),
                Err(None) => {}
            }
        }
        let called = self.callers.iter().filter(|caller| matches!(caller.from, From::Process(_))).count();
        let mut too_many = called.saturating_sub(MOST_CALLERS);
        self.callers.retain(|caller| {
            let is_sent_away = too_many > 0 && matches!(caller.from, From::Process(_));
            too_many -= usize::from(is_sent_away);
            !is_sent_away
        });
        calls
    }
}

/// What a caller says of itself. It comes back if it has not spoken.
fn hello(caller: Caller, secret: &Secret) -> Result<Call, Option<Caller>> {
    let mut bytes = [0_u8; 4 * HELLO_WORDS];
    let (received, file, peer) = match receive(&caller.socket, &mut bytes) {
        Ok(received) => received,
        Err(Errno::AGAIN | Errno::INTR) => return Err(Some(caller)),
        Err(_) => return Err(None),
    };
    let words = bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
    let words: Vec<u32> = words.collect();
    if received != bytes.len() || words[0] != HELLO || words[3..] != secret[..] {
        return Err(None);
    }
    let (shared, peer, task) = (file.ok_or(None)?, peer.ok_or(None)?, words[1] as usize);
    if matches!(caller.from, From::Task(expected) if task != expected) {
        return Err(None);
    }
    let process = pidfd_open(peer.pid, PidfdFlags::empty()).map_err(|_| None)?;
    // It had not ended when the socket was still open: so the process is the one that spoke.
    let mut open = [PollFd::new(&caller.socket, PollFlags::IN)];
    if poll(&mut open, Some(&Timespec::default())).is_err() || open[0].revents().contains(PollFlags::HUP) {
        return Err(None);
    }
    let pid = peer.pid.as_raw_nonzero().get();
    Ok(Call { socket: caller.socket, shared, task, pid, process, granted: words[2] as usize })
}

/// A message, with a file and the sender if they come with it.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>, Option<UCred>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    let (mut file, mut sender) = (None, None);
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(mut files) => file = files.next(),
            RecvAncillaryMessage::ScmCredentials(peer) => sender = Some(peer),
            _ => {}
        }
    }
    Ok((received.bytes, file, sender))
}

/// The command's end of an agent's socket.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    pub(crate) task: usize,
    pub(crate) pid: i32,
    process: OwnedFd,
    /// Messages that did not fit the socket, and how many words they have.
    unsent: VecDeque<Vec<u8>>,
    unsent_words: usize,
}

/// What an agent has reported since the latest look.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) reports: Vec<(Report, u32)>,
    /// Sockets of children to come.
    pub(crate) children: Vec<OwnedFd>,
    /// It is gone.
    pub(crate) has_ended: bool,
}

/// Most messages read from an agent at a look. No more fit a socket at a time, so an agent that
/// reports more meanwhile does so without having waited, and the others have their turn first.
const MOST_MESSAGES: usize = 512;

impl Link {
    pub(crate) fn new(call: Call) -> Self {
        let Call { socket, task, pid, process, .. } = call;
        Self { socket, task, pid, process, unsent: VecDeque::new(), unsent_words: 0 }
    }

    pub(crate) fn descriptor(&self) -> PollFd<'_> {
        let writes = if self.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN | writes)
    }

    /// Sends instructions. What the socket does not take is kept.
    pub(crate) fn send(&mut self, words: &[u32]) {
        for words in words.chunks(MESSAGE_WORDS) {
            self.unsent.push_back(words.iter().flat_map(|word| word.to_ne_bytes()).collect());
            self.unsent_words += words.len();
        }
        while let Some(message) = self.unsent.front() {
            match send(&self.socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => {
                    self.unsent_words -= message.len() / 4;
                    self.unsent.pop_front();
                }
                Err(Errno::INTR) => {}
                // Later, or never: then its end is read from the socket.
                Err(_) => break,
            }
        }
    }

    /// What the agent has reported since the latest look.
    pub(crate) fn listen(&mut self) -> Heard {
        let mut heard = Heard::default();
        let mut bytes = vec![0_u8; 4 * MESSAGE_WORDS];
        for _ in 0..MOST_MESSAGES {
            match receive(&self.socket, &mut bytes) {
                Ok((0, ..)) => heard.has_ended = true,
                Ok((length, file, _)) => {
                    let words = bytes[..length].as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
                    heard.reports.extend(words.filter_map(Report::parse));
                    heard.children.extend(file);
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(_) => heard.has_ended = true,
            }
            break;
        }
        heard
    }

    /// Words that the agent has not read. A process that is stopped reads none, but there is a
    /// limited number of pages and frames to instruct it about.
    pub(crate) fn unread_words(&self) -> usize {
        self.unsent_words
    }

    /// Ends the process.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
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
