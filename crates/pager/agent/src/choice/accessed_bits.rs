//! How the agent gets the program that reads accessed bits: see [`crate::accessed`].

use crate::control::Control;
use crate::kernel::passing::receive_file;
use crate::kernel::{self, PollFd};
use crate::process::rlimits::{self, Raised};
use crate::process::wait::poll;
use alloc::vec;
use core::mem::{forget, replace, take};
use rustix::event::{PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// How long the agent waits for the program. The command loads it within milliseconds, unless it
/// has been stopped.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The program that reads accessed bits, or the way to it.
#[derive(Debug, Default)]
pub(crate) enum AccessedBits {
    /// There is none.
    #[default]
    None,
    /// The agent has not asked yet, because nothing is paged. The command's socket for asking.
    Unasked(OwnedFd),
    /// The program.
    Had(OwnedFd),
}

impl AccessedBits {
    /// With the command's socket, if it has one and this process may fetch it.
    pub(crate) fn open(control: &Control, command: Option<&OwnedFd>) -> Self {
        let number = control.order.accessed_bits as i32;
        let socket = (number != 0).then(|| kernel::fetch_from_command(command, number)).flatten();
        socket.map_or(Self::None, Self::Unasked)
    }

    /// Asks for the program, once. The process is about to be paged.
    pub(crate) fn ask(&mut self, command: Option<&OwnedFd>) {
        let program = match take(self) {
            Self::None => None,
            Self::Unasked(socket) => ask(&socket, command),
            Self::Had(program) => Some(program),
        };
        *self = Self::tried(program);
    }

    /// A process may have the program and still not be allowed to run it.
    fn tried(program: Option<OwnedFd>) -> Self {
        let program = program.filter(|program| kernel::accessed(program.as_fd(), 0).is_ok());
        program.map_or(Self::None, Self::Had)
    }

    /// The program.
    pub(crate) fn program(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Had(program) => Some(program.as_fd()),
            Self::None | Self::Unasked(_) => None,
        }
    }

    /// What a child needs: the program, or the socket.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unasked(descriptor) | Self::Had(descriptor) => Some(descriptor.as_fd()),
            Self::None => None,
        }
    }

    /// In a child, whose copy of a descriptor's number is worth nothing: continues with what
    /// [`Self::descriptor`] was in the parent.
    pub(crate) fn begin_in_child(&mut self, descriptor: Option<OwnedFd>) {
        let begun = match (&*self, descriptor) {
            (Self::Unasked(_), Some(socket)) => Self::Unasked(socket),
            (Self::Had(_), program) => Self::tried(program),
            _ => Self::None,
        };
        forget(replace(self, begun));
    }
}

/// Asks at the command's socket. `None` if the command has no program, or has ended.
fn ask(socket: &OwnedFd, command: Option<&OwnedFd>) -> Option<OwnedFd> {
    let send = || kernel::ask_for_program(socket.as_fd());
    let answer = send().or_else(|_| rlimits::without(Raised::Descriptors, send)).ok()?;
    let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut descriptors = vec![watch(answer.as_fd())];
    descriptors.extend(command.map(|command| watch(command.as_fd())));
    // Ends: it is repeated only after a signal.
    while let Err(Errno::INTR | Errno::AGAIN) = poll(&mut descriptors, Some(&PATIENCE)) {}
    let is_answered = !descriptors[0].revents().is_empty();
    // A message whose file has no place is lost, so there is place from the start.
    is_answered.then(|| rlimits::without(Raised::Descriptors, || receive_file(&answer)).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::passing::send_file;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn every_asking_thread_gets_the_commands_answer() {
        let (ours, socket) = pair();
        let (file, _) = pair();
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        std::thread::scope(|scope| {
            let askers: Vec<_> =
                (0..20).map(|_| scope.spawn(|| ask(&socket, None).map(|fd| inode(&fd)))).collect();
            for number in 0..20 {
                let answer = receive_file(&ours).unwrap();
                if number % 2 == 0 {
                    send_file(&answer, &[0], file.as_fd()).unwrap();
                }
            }
            let answers: Vec<_> = askers.into_iter().map(|asker| asker.join().unwrap()).collect();
            assert_eq!(answers.iter().filter(|answer| **answer == Some(inode(&file))).count(), 10);
            assert_eq!(answers.iter().filter(|answer| answer.is_none()).count(), 10);
        });
    }

    /// Whether it has closed the socket, or has died with the question unread.
    #[test]
    fn a_command_that_has_ended_is_not_waited_for() {
        let (ours, socket) = pair();
        let (command, other) = pair();
        drop(other);
        assert!(ask(&socket, Some(&command)).is_none());
        drop(ours);
        assert!(ask(&socket, None).is_none());
    }
}
