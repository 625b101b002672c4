//! What a fault costs that a thread of the same process answers, measured on memory of this
//! process.

use crate::PAGE_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use sweephand_uffd::{Event, Message, OpenError, Userfaultfd};

/// Faults that are measured.
const FAULTS: usize = 1000;

/// Why there is no live recording here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoFaults {
    /// The kernel keeps userfaultfd from this user.
    #[error(
        "userfaultfd is missing: run as root, or with CAP_SYS_PTRACE, or have root allow it with sysctl vm.unprivileged_userfaultfd=1 or \
         by access to /dev/userfaultfd"
    )]
    NotPermitted,
    /// The kernel is too old.
    #[error("userfaultfd that moves pages is missing: Linux 6.8 or later is needed")]
    NotSupported,
    /// Something else.
    #[error("userfaultfd: {0}")]
    System(#[from] io::Error),
}

/// What a fault takes a thread of a program, in nanoseconds, that another thread answers: the
/// median, because other programs may take the processor for some of them.
pub fn fault_ns() -> Result<u32, NoFaults> {
    let uffd = Userfaultfd::open(sweephand_uffd::MOVE).map_err(|error| match error {
        OpenError::NotPermitted => NoFaults::NotPermitted,
        OpenError::NotSupported => NoFaults::NotSupported,
        OpenError::Other(error) => NoFaults::System(error.into()),
    })?;
    let bytes = (FAULTS + 1) * PAGE_BYTES as usize;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
    let start = start.map_err(io::Error::from)? as usize;
    // The last page is what the others are filled with.
    let registered = uffd.register(start, bytes - PAGE_BYTES as usize);
    let measured = registered.map(|()| measure(&uffd, start)).map_err(io::Error::from);
    drop(uffd);
    // SAFETY: nothing refers to the mapping any more.
    let _ = unsafe { munmap(start as *mut _, bytes) };
    Ok(measured?)
}

fn measure(uffd: &Userfaultfd, start: usize) -> u32 {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| answer(uffd, start + FAULTS * PAGE_BYTES as usize, &is_over));
        let touch = |page: usize| {
            let began = Instant::now();
            // SAFETY: within the mapping; the other thread fills the page.
            unsafe { ptr::write_volatile((start + page * PAGE_BYTES as usize) as *mut u8, 1) };
            began.elapsed()
        };
        let mut times: Vec<Duration> = (0..FAULTS).map(touch).collect();
        is_over.store(true, Ordering::Relaxed);
        times.sort_unstable();
        times[FAULTS / 2].as_nanos().min(u32::MAX.into()) as u32
    })
}

/// Answers faults until it is over.
fn answer(uffd: &Userfaultfd, from: usize, is_over: &AtomicBool) {
    let soon = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    while !is_over.load(Ordering::Relaxed) {
        let mut waiting = [PollFd::from_borrowed_fd(uffd.as_fd(), PollFlags::IN)];
        let _ = poll(&mut waiting, Some(&soon));
        let mut message = [Message::EMPTY; 1];
        if uffd.read(&mut message) == Ok(1)
            && let Some(Event::Fault { address }) = message[0].event()
        {
            let page = address & !(PAGE_BYTES as usize - 1);
            // SAFETY: from a page of the mapping to a page of it that is missing.
            let _ = unsafe { uffd.copy(page, from, PAGE_BYTES as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_costs_some_microseconds() {
        match fault_ns() {
            Ok(ns) => assert!((500..5_000_000).contains(&ns), "{ns}"),
            Err(NoFaults::NotPermitted | NoFaults::NotSupported) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
