//! What a fault costs that a thread of the same process answers, measured on memory of this
//! process.

use crate::PAGE_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use sweephand_uffd::{Event, Message, OpenError, Userfaultfd};

/// Faults that are measured.
const FAULTS: usize = 200;
/// The time between two of them, for which the program computes. The thread that answers goes to
/// sleep meanwhile, and to wake it takes longest.
const BETWEEN: Duration = Duration::from_micros(100);
/// This many of a hundred measurements count. In the others, other programs have taken the
/// processor.
const COUNTED_PERCENT: usize = 90;
const PAGE: usize = PAGE_BYTES as usize;

/// Why there is no live recording here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoFaults {
    /// The kernel keeps userfaultfd from this user.
    #[error(
        "userfaultfd is missing: run as root, or with CAP_SYS_PTRACE, or allow it to all: sudo sysctl -w \
         vm.unprivileged_userfaultfd=1"
    )]
    NotPermitted,
    /// The kernel is too old.
    #[error("userfaultfd that moves pages is missing: Linux 6.8 or later is needed")]
    NotSupported,
    /// Something else.
    #[error("userfaultfd: {0}")]
    System(#[from] io::Error),
}

fn open() -> Result<Userfaultfd, NoFaults> {
    Userfaultfd::open(sweephand_uffd::MOVE).map_err(|error| match error {
        OpenError::NotPermitted => NoFaults::NotPermitted,
        OpenError::NotSupported => NoFaults::NotSupported,
        OpenError::Other(error) => NoFaults::System(error.into()),
    })
}

/// Whether programs can be recorded here.
pub fn check() -> Result<(), NoFaults> {
    open().map(drop)
}

/// What a fault takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// A thread of a program that touches the page, which another thread moves to its place again.
    pub(super) fault_ns: u32,
    /// Of that, the other thread's move. An agent's answer takes longer, and in a large program
    /// longer still: agents measure theirs, and correct the price by the difference.
    pub(super) answer_ns: u32,
}

/// Measures what a fault takes.
pub(super) fn measured() -> Result<Price, NoFaults> {
    let uffd = open()?;
    // The pages, as many places for them while they are unmapped, and what new ones are filled
    // with.
    let bytes = (2 * FAULTS + 1) * PAGE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
    let start = start.map_err(io::Error::from)? as usize;
    // SAFETY: this changes how the kernel keeps the pages, and not what is in them.
    let _ = unsafe { madvise(start as *mut _, bytes, Advice::LinuxNoHugepage) };
    let registered = uffd.register(start, 2 * FAULTS * PAGE);
    let measured = registered.map_err(io::Error::from).and_then(|()| measure(&uffd, start));
    drop(uffd);
    // SAFETY: nothing refers to the mapping any more.
    let _ = unsafe { munmap(start as *mut _, bytes) };
    Ok(measured?)
}

fn measure(uffd: &Userfaultfd, start: usize) -> io::Result<Price> {
    let (is_over, latest_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| answer(uffd, start, &is_over, &latest_ns));
        let touch = |page: usize| {
            let began = Instant::now();
            // SAFETY: within the mapping; the other thread brings the page.
            unsafe { ptr::write_volatile((start + page * PAGE) as *mut u8, 1) };
            (began.elapsed(), Duration::from_nanos(latest_ns.load(Ordering::Relaxed)))
        };
        for page in 0..FAULTS {
            touch(page);
        }
        // SAFETY: from pages of the mapping to places of it where pages are missing.
        let progress = unsafe { uffd.move_pages(start + FAULTS * PAGE, start, FAULTS * PAGE) };
        let times: Vec<(Duration, Duration)> = match progress.error {
            Some(_) => Vec::new(),
            None => (0..FAULTS).map(|page| (compute(), touch(page)).1).collect(),
        };
        is_over.store(true, Ordering::Relaxed);
        if let Some(error) = progress.error {
            return Err(error.into());
        }
        let (faults, answers) = times.into_iter().unzip();
        Ok(Price { fault_ns: mean_ns(faults), answer_ns: mean_ns(answers) })
    })
}

/// The mean of the measurements that count.
fn mean_ns(mut times: Vec<Duration>) -> u32 {
    times.sort_unstable();
    let counted = &times[..times.len() * COUNTED_PERCENT / 100];
    let mean = counted.iter().sum::<Duration>() / counted.len().max(1) as u32;
    mean.as_nanos().min(u32::MAX.into()) as u32
}

/// Computes for a while.
fn compute() {
    let began = Instant::now();
    while began.elapsed() < BETWEEN {
        std::hint::spin_loop();
    }
}

/// Answers faults until it is over: moves the page back, or fills it if it is new. Says how long
/// the answer before took.
fn answer(uffd: &Userfaultfd, start: usize, is_over: &AtomicBool, latest_ns: &AtomicU64) {
    let soon = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    while !is_over.load(Ordering::Relaxed) {
        let mut waiting = [PollFd::from_borrowed_fd(uffd.as_fd(), PollFlags::IN)];
        let _ = poll(&mut waiting, Some(&soon));
        let mut message = [Message::EMPTY; 1];
        if uffd.read(&mut message) == Ok(1)
            && let Some(Event::Fault { address }) = message[0].event()
        {
            let (page, began) = (address & !(PAGE - 1), Instant::now());
            // SAFETY: pages of the mapping, to a page of it that is missing.
            unsafe {
                if uffd.move_pages(page, page + FAULTS * PAGE, PAGE).bytes == 0 {
                    let _ = uffd.copy(page, start + 2 * FAULTS * PAGE, PAGE);
                }
            }
            latest_ns.store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_costs_some_microseconds() {
        match measured() {
            Ok(Price { fault_ns, answer_ns }) => {
                assert!((500..5_000_000).contains(&fault_ns), "{fault_ns}");
                assert!((100..fault_ns).contains(&answer_ns), "{answer_ns} of {fault_ns}");
            }
            Err(error @ (NoFaults::NotPermitted | NoFaults::NotSupported)) => {
                sweephand_checks::skip(sweephand_checks::Need::Userfaultfd, error);
            }
            Err(error) => panic!("{error}"),
        }
    }
}
