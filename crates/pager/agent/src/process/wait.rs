//! Waiting for descriptors, however few of them the program may have.

use crate::kernel::{self, PollFd};
use crate::process::rlimits::{self, Raised};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::AsFd;
use rustix::io::Errno;

/// What `poll` does, for descriptors that are read. The system call refuses more descriptors than
/// the process may open.
pub(crate) fn poll(descriptors: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<usize, Errno> {
    match kernel::poll(descriptors, timeout) {
        Err(Errno::INVAL) => {}
        result => return result,
    }
    let all = rlimits::without(Raised::Descriptors, || {
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        for descriptor in &*descriptors {
            match epoll::add(&all, descriptor.as_fd(), EventData::new_u64(0), EventFlags::IN) {
                // It is in the list twice.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    })?;
    let mut first = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
    epoll::wait(&all, &mut first, timeout)?;
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rlimits::without(Raised::Descriptors, || kernel::poll(descriptors, Some(&now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;
    use rustix::pipe::pipe;

    #[test]
    fn a_descriptor_that_can_be_read_ends_the_wait() {
        let (from, to) = pipe().unwrap();
        let mut descriptors = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut descriptors, Some(&now)), Ok(0));
        rustix::io::write(&to, b"x").unwrap();
        assert_eq!(poll(&mut descriptors, None), Ok(1));
    }
}
