//! What a parent's agent gives to the agent of a child: descriptors and a few numbers, through a
//! socket. Everything else the child has in its copy of the parent's memory.

use crate::kernel::{Userfaultfd, pidfd_getfd, pidfd_open};
use crate::process::roots;
use crate::state::program::Program;
use crate::store::backing::{MOST_FILES, Store};
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid};

/// The most pages that a child may miss before its agent runs: pages of its stack and of the C
/// library's memory.
pub(crate) const MOST_ANSWERED: usize = 256;

/// The most descriptors that a child gets: two directories, two userfaultfds, the command, the
/// program that reads accessed bits or the socket to ask for it, the store's files.
const MOST_DESCRIPTORS: usize = MOST_FILES + 6;

/// What the parent's agent sends to the child's, besides descriptors.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Handover {
    /// Whether the command's descriptor follows those that every child gets.
    pub(crate) has_supervisor: u32,
    /// Whether the last descriptor is the program that reads accessed bits, or the socket to ask
    /// for it.
    pub(crate) has_accessed_bits: u32,
    /// How many addresses follow.
    pub(crate) answered: u32,
    padding: u32,
    /// How many moves of mappings the parent's agent knew of when it had read every change from
    /// before the fork.
    pub(crate) moves: usize,
    /// Addresses of pages that the child has, although its copied state says that they are absent
    /// or in the store.
    pub(crate) addresses: [usize; MOST_ANSWERED],
}

impl Handover {
    /// A message to be overwritten.
    pub(crate) const EMPTY: Self = Self {
        has_supervisor: 0,
        has_accessed_bits: 0,
        answered: 0,
        padding: 0,
        moves: 0,
        addresses: [0; MOST_ANSWERED],
    };

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: this is plain data without padding.
        unsafe { core::slice::from_raw_parts_mut((self as *mut Self).cast(), size_of::<Self>()) }
    }
}

/// In the parent: gives the child's agent what its copied state refers to.
pub(crate) fn send(
    socket: &OwnedFd,
    (program, store): (&Program, &Store),
    accessed_bits: Option<BorrowedFd<'_>>,
    uffds: Option<(Userfaultfd, Userfaultfd)>,
    moves: usize,
    answered: &[usize],
) {
    let mut handover = Handover {
        has_supervisor: u32::from(program.supervisor.is_some()),
        has_accessed_bits: u32::from(accessed_bits.is_some()),
        answered: answered.len() as u32,
        moves,
        ..Handover::EMPTY
    };
    handover.addresses[..answered.len()].copy_from_slice(answered);
    // Without these the child cannot go on, and it says so.
    let (Some((uffd, staging)), Some(proc), Some(directory)) = (&uffds, roots::proc(), roots::store()) else {
        return;
    };
    let mut descriptors: Vec<BorrowedFd> = vec![proc, directory, uffd.as_fd(), staging.as_fd()];
    descriptors.extend(store.files().map(|(_, file)| file.as_fd()));
    descriptors.extend(program.supervisor.as_ref().map(AsFd::as_fd));
    descriptors.extend(accessed_bits);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let parts = [IoSlice::new(handover.bytes())];
    // A child that has died meanwhile does not need it.
    let _ = sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL);
}

/// In a child: waits for what the parent's agent gives. The descriptors are in the order in which
/// they were sent.
pub(crate) fn receive(socket: &OwnedFd) -> Result<(Handover, Vec<OwnedFd>), Errno> {
    let mut handover = Handover::EMPTY;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(handover.bytes())];
    let received = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes != size_of::<Handover>() {
        return Err(Errno::PIPE);
    }
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    Ok((handover, descriptors))
}

/// Copies one of the program's descriptors into the agent's table.
pub(crate) fn fetch_descriptor(descriptor: usize, thread: usize) -> Option<OwnedFd> {
    // The thread is used, because the first thread may have ended. Older kernels know only
    // processes.
    const PIDFD_THREAD: u32 = 0x80;
    let thread = Pid::from_raw(thread as i32)?;
    let pidfd = pidfd_open(thread, PidfdFlags::from_bits_retain(PIDFD_THREAD))
        .or_else(|_| pidfd_open(getpid(), PidfdFlags::empty()));
    pidfd_getfd(pidfd.ok()?, descriptor as i32, PidfdGetfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn a_child_without_a_parent_gets_nothing() {
        let (parents, childs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        drop(parents);
        assert!(receive(&childs).is_err());
    }
}
