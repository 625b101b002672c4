//! Hands the BPF program to agents that ask for it: a socket, and the thread behind it.

use super::own_bits::AccessedBits;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use std::io;
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// The program, or why there is none; empty until an agent has asked.
type Loaded = OnceLock<Result<AccessedBits, String>>;

/// The socket at which agents ask, with its thread.
#[derive(Debug)]
pub struct ProgramServer {
    /// The side of the agents, which fetch it from this process.
    outside: OwnedFd,
    loaded: Arc<Loaded>,
    thread: Option<JoinHandle<()>>,
}

impl ProgramServer {
    /// Starts the thread. If the program is not loaded yet, the first agent that asks
    /// has it loaded.
    pub fn open(loaded: Option<AccessedBits>) -> io::Result<Self> {
        let (outside, inside) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // An agent goes on without the program if more have asked than can wait.
        fcntl_setfl(&outside, OFlags::NONBLOCK)?;
        let loaded = Arc::new(loaded.map_or_else(OnceLock::new, |bits| Ok(bits).into()));
        let shared = Arc::clone(&loaded);
        let thread = thread::Builder::new()
            .name("accessed-bits".to_string())
            .spawn(move || answer_all(&inside, &shared))?;
        Ok(Self { outside, loaded, thread: Some(thread) })
    }

    /// The number of the socket's descriptor in this process.
    pub fn number(&self) -> u32 {
        self.outside.as_raw_fd() as u32
    }

    /// Why there is no program, if an agent has asked for it in vain.
    pub fn refusal(&self) -> Option<&str> {
        self.loaded.get()?.as_ref().err().map(String::as_str)
    }
}

impl Drop for ProgramServer {
    fn drop(&mut self) {
        let _ = shutdown(&self.outside, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers agents until the socket is closed.
fn answer_all(inside: &OwnedFd, loaded: &Loaded) {
    loop {
        let answer = match receive(inside) {
            Ok(Question::From(answer)) => answer,
            Ok(Question::Empty) | Err(Errno::INTR) => continue,
            Ok(Question::NoMore) | Err(_) => return,
        };
        let load = || AccessedBits::load().map_err(|error| error.to_string());
        if let Ok(bits) = loaded.get_or_init(load) {
            // An agent that has ended meanwhile does not need it.
            let _ = send(&answer, bits.descriptor());
        }
    }
}

/// What has come through the socket.
enum Question {
    /// An agent waits for the answer at this socket.
    From(OwnedFd),
    /// A message without a socket.
    Empty,
    /// The socket is closed.
    NoMore,
}

fn receive(inside: &OwnedFd) -> Result<Question, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0; 4];
    let received =
        recvmsg(inside, &mut [IoSliceMut::new(&mut word)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(match socket {
        Some(socket) => Question::From(socket),
        None if received.bytes > 0 => Question::Empty,
        None => Question::NoMore,
    })
}

fn send(answer: &OwnedFd, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [program];
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    // Whoever has sent a socket that is full already does not hold up the others.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(answer, &[IoSlice::new(&[0; 4])], &mut ancillary, flags).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    /// Asks as an agent does. Returns whether a program was the answer.
    fn ask(server: &ProgramServer) -> bool {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        // Ends: the thread behind the socket makes place.
        while let Err(error) = send(&server.outside, theirs.as_fd()) {
            assert_eq!(error, Errno::AGAIN);
            thread::yield_now();
        }
        drop(theirs);
        matches!(receive(&ours).unwrap(), Question::From(_))
    }

    #[test]
    fn the_program_is_loaded_when_it_is_asked_for_and_once() {
        let server = ProgramServer::open(None).unwrap();
        assert!(server.loaded.get().is_none());
        let is_had = ask(&server);
        let program = || server.loaded.get().unwrap().as_ref().map(|bits| bits.descriptor().as_raw_fd());
        let first = program();
        assert_eq!((is_had, server.refusal().is_none()), (first.is_ok(), first.is_ok()));
        assert!((0..300).all(|_| ask(&server) == is_had));
        assert_eq!(program(), first);
    }

    #[test]
    fn a_refusal_says_why_and_ends_the_wait() {
        let server = ProgramServer::open(None).unwrap();
        server.loaded.set(Err("none here".to_string())).unwrap();
        assert!(!ask(&server));
        assert_eq!(server.refusal(), Some("none here"));
    }

    /// Messages without a socket, and more questions than anybody waits for.
    #[test]
    fn server_ignores_malformed_questions_and_ends() {
        let server = ProgramServer::open(None).unwrap();
        server.loaded.set(Err(String::new())).unwrap();
        let (_, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        for _ in 0..1000 {
            let _ = rustix::net::send(&server.outside, &[0; 4], SendFlags::NOSIGNAL);
            let _ = send(&server.outside, theirs.as_fd());
        }
        assert!(!ask(&server));
    }
}
