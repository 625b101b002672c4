//! Files that pass through sockets, from one process to another.

use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Sends words, and a file with them.
pub(crate) fn send_file(socket: impl AsFd, words: &[u32], file: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(words_as_bytes(words))], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a file that comes with a message.
pub(crate) fn receive_file(socket: impl AsFd) -> Result<OwnedFd, Errno> {
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

/// The words of a message.
pub(crate) fn words_as_bytes(words: &[u32]) -> &[u8] {
    // SAFETY: plain data.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn a_file_comes_with_a_message() {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        send_file(&one, &[7], one.as_fd()).unwrap();
        let file = receive_file(&other).unwrap();
        drop(one);
        assert!(rustix::io::fcntl_getfd(&file).is_ok());
        drop(file);
        assert!(receive_file(&other).is_err(), "nobody is left who could send one");
    }
}
