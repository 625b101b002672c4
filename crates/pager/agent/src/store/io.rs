//! Reads and writes of the backing store while the program runs: through io_uring, or by single
//! system calls if there is no io_uring.

use crate::kernel::{read_at, sleep, write_at};
#[cfg(test)]
use crate::simulation::ring::Ring;
#[cfg(not(test))]
use crate::store::ring::Ring;
use alloc::collections::VecDeque;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

pub use crate::store::ring::{Completion, Direction, Request};

/// The way to the store.
#[derive(Debug)]
pub enum Io {
    /// Requests are under way until they are reaped.
    Ring(Ring),
    /// Requests are done when they are made.
    OneByOne {
        /// Completions that wait to be reaped.
        done: VecDeque<Completion>,
        /// What each read takes in addition, as of a disk with one arm.
        read_delay_ns: u64,
    },
}

impl Io {
    /// Through io_uring if that is wanted, there is one, and reads are not delayed.
    pub fn new(use_ring: bool, read_delay_ns: u64) -> Self {
        let ring = if use_ring && read_delay_ns == 0 { Ring::new() } else { None };
        ring.map_or_else(|| Io::OneByOne { done: VecDeque::new(), read_delay_ns }, Io::Ring)
    }

    /// Asks for a request. It may not be on its way before [`Io::submit`].
    ///
    /// # Safety
    /// The memory must be mapped, belong to the pager, and not be used otherwise until the request
    /// is reaped.
    pub unsafe fn request(&mut self, request: &Request) {
        match self {
            // SAFETY: as the caller promises.
            Io::Ring(ring) => unsafe { ring.push(request) },
            Io::OneByOne { done, read_delay_ns } => {
                if request.direction == Direction::Read && *read_delay_ns > 0 {
                    sleep(i64::try_from(*read_delay_ns).unwrap_or(i64::MAX));
                }
                // SAFETY: as the caller promises.
                let result = unsafe { transfer(request) };
                done.push_back(Completion { tag: request.tag, result });
            }
        }
    }

    /// Adds the completion of a request that was done without this.
    pub fn put_aside(&mut self, completion: Completion) {
        match self {
            Io::Ring(ring) => ring.put_aside(completion),
            Io::OneByOne { done, .. } => done.push_back(completion),
        }
    }

    /// Sends off what has been asked for.
    pub fn submit(&mut self) {
        if let Io::Ring(ring) = self {
            ring.submit();
        }
    }

    /// The next completion; waits for one with `wait`.
    pub fn reap(&mut self, wait: bool) -> Option<Completion> {
        match self {
            Io::OneByOne { done, .. } => done.pop_front(),
            Io::Ring(ring) => ring.reap(wait),
        }
    }

    /// Whether there are completions to reap.
    pub fn has_completions(&self) -> bool {
        match self {
            Io::OneByOne { done, .. } => !done.is_empty(),
            Io::Ring(ring) => ring.has_completions(),
        }
    }

    /// What is readable when there are completions.
    pub fn descriptor(&self) -> Option<&OwnedFd> {
        match self {
            Io::Ring(ring) => Some(ring.descriptor()),
            Io::OneByOne { .. } => None,
        }
    }
}

/// Does a request, now.
///
/// # Safety
/// As for [`Io::request`].
pub unsafe fn transfer(request: &Request) -> Result<u32, Errno> {
    let mut done = 0;
    while done < request.length as usize {
        let (address, left) = (request.address + done, request.length as usize - done);
        let offset = request.offset + done as u64;
        // SAFETY: as the caller promises.
        let result = unsafe {
            match request.direction {
                Direction::Read => read_at(request.file, address, left, offset),
                Direction::Write => write_at(request.file, address, left, offset),
            }
        };
        match result {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn without_a_ring_a_request_is_done_when_it_is_made() {
        let file = memfd_create(c"io", MemfdFlags::CLOEXEC).unwrap();
        let mut io = Io::new(false, 0);
        let mut bytes = [7_u8; 4096];
        let mut request = Request {
            direction: Direction::Write,
            file: file.as_fd(),
            offset: 8192,
            address: bytes.as_mut_ptr() as usize,
            length: 4096,
            tag: 1 << 40,
        };
        // SAFETY: the bytes are the test's.
        unsafe { io.request(&request) };
        assert!(io.has_completions() && io.descriptor().is_none());
        let completion = io.reap(false).unwrap();
        assert_eq!((completion.tag, completion.result), (1 << 40, Ok(4096)));
        bytes.fill(0);
        request.direction = Direction::Read;
        // SAFETY: as above.
        assert_eq!(unsafe { transfer(&request) }, Ok(4096));
        assert_eq!(bytes, [7; 4096]);
        // A delayed store takes its time for a read.
        let mut slow = Io::new(true, 20_000_000);
        let begun = std::time::Instant::now();
        // SAFETY: as above.
        unsafe { slow.request(&request) };
        assert!(begun.elapsed().as_millis() >= 20, "{:?}", begun.elapsed());
        assert_eq!(slow.reap(false).unwrap().result, Ok(4096));
        // Behind the end of the file there is nothing.
        request.offset = 8192 + 2048;
        // SAFETY: as above.
        assert_eq!(unsafe { transfer(&request) }, Ok(2048));
        assert!(io.reap(false).is_none());
    }
}
