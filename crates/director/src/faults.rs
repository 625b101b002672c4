//! The page faults of a program and of all that it starts, as the kernel's performance events
//! report them: which process, and which address.
//!
//! There are two events for each processor: faults that were answered from memory, and faults that
//! waited for a disk. (A third event, for all faults, comes too early: when a fault begins.) The
//! thread that is about to start the program opens the events, and whatever it starts inherits
//! them; for a process that runs already, they are opened for its threads. They stay off until the
//! program nears its limit, so until then they cost nothing.

use perf_event::events::Software;
use perf_event::{Builder, Counter, SampleFlag, Sampler};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;
use sweephand_process::family;

/// Bytes for the events of a processor that have not been read.
const RING_BYTES: usize = 32 << 10;
/// Events of a processor after which the reader is woken.
const EVENTS_A_WAKE: usize = 16;

// Types of records; see perf_event_open(2).
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const SAMPLE: u32 = 9;
/// The mark of a `COMM` record that comes of an exec.
const COMM_EXEC: u16 = 1 << 13;

/// What a process did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It touched a page that it could not use at once.
    Fault {
        /// The process.
        process: u32,
        /// The address.
        address: u64,
    },
    /// It became another program, with other memory.
    NewMemory {
        /// The process.
        process: u32,
    },
    /// One of its threads ended.
    ThreadEnded {
        /// The process.
        process: u32,
        /// The thread.
        thread: u32,
    },
    /// Events were lost, because they were not read in time.
    Lost,
}

/// The events.
pub struct Faults {
    /// For each processor the faults of a thread that were answered from memory, with a ring.
    samplers: Vec<Sampler>,
    /// Other events, which are in the same rings: faults that waited for a disk, and those of other
    /// threads.
    others: Vec<Counter>,
}

impl Faults {
    /// The events of what the calling thread starts from now on.
    pub fn of_children() -> io::Result<Self> {
        let mut faults = Self { samplers: Vec::new(), others: Vec::new() };
        faults.add(None)?;
        Ok(faults)
    }

    /// The events of all threads of some processes, and of what these start from now on.
    pub fn of_processes(processes: &[u32]) -> io::Result<Self> {
        let mut faults = Self { samplers: Vec::new(), others: Vec::new() };
        let mut known = HashSet::new();
        // What a thread starts before it has events is found in the next round.
        loop {
            let threads = processes.iter().flat_map(|&process| family::threads(process));
            let new: Vec<u32> = threads.filter(|&thread| known.insert(thread)).collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                match faults.add(Some(thread)) {
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    result => result?,
                }
            }
        }
        if faults.samplers.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(faults) }
    }

    /// Adds the events of a thread, or of the calling one, and of what it starts.
    fn add(&mut self, thread: Option<u32>) -> io::Result<()> {
        for (index, processor) in processors()?.enumerate() {
            let mut fast = builder(Software::PAGE_FAULTS_MIN, processor, thread);
            fast.task(true).comm(true).comm_exec(true);
            let fast = fast.build()?;
            let slow = builder(Software::PAGE_FAULTS_MAJ, processor, thread).build()?;
            match self.samplers.get(index) {
                Some(sampler) => {
                    share_ring(&fast, sampler)?;
                    share_ring(&slow, sampler)?;
                    self.others.push(fast);
                }
                None => {
                    let sampler = fast.sampled(RING_BYTES)?;
                    share_ring(&slow, &sampler)?;
                    self.samplers.push(sampler);
                }
            }
            self.others.push(slow);
        }
        Ok(())
    }

    /// Switches the events on.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.others.iter_mut().try_for_each(Counter::enable)?;
        self.samplers.iter_mut().try_for_each(|sampler| sampler.enable())
    }

    /// Switches the events off.
    pub(crate) fn end(&mut self) {
        for event in &mut self.others {
            let _ = event.disable();
        }
        for sampler in &mut self.samplers {
            let _ = sampler.disable();
        }
    }

    /// Bytes of the rings.
    pub(crate) fn bytes(&self) -> usize {
        self.samplers.len() * RING_BYTES
    }

    /// Hands over all events that have not been read.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Event)) {
        for sampler in &mut self.samplers {
            while let Some(record) = sampler.next_record() {
                let words = record.to_contiguous();
                let word =
                    |at: usize| words.get(at..at + 4)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
                let process = word(0).unwrap_or_default();
                match record.ty() {
                    SAMPLE => {
                        let address = words.get(8..).and_then(|bytes| bytes.first_chunk());
                        let address = address.map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                        take(Event::Fault { process, address });
                    }
                    COMM if record.misc() & COMM_EXEC != 0 => take(Event::NewMemory { process }),
                    // Process, its parent, the thread.
                    EXIT => take(Event::ThreadEnded { process, thread: word(8).unwrap_or_default() }),
                    LOST => take(Event::Lost),
                    _ => {}
                }
            }
        }
    }

    /// Waits until there are some events, one of other descriptors is readable, or it has been long
    /// enough.
    pub(crate) fn wait<'a>(&'a self, others: impl Iterator<Item = BorrowedFd<'a>>, timeout: Duration) {
        let events = self.samplers.iter().map(|sampler| {
            // SAFETY: the sampler has its descriptor open for as long as it is borrowed.
            unsafe { BorrowedFd::borrow_raw(sampler.as_raw_fd()) }
        });
        wait(events.chain(others), timeout);
    }
}

/// An event of a thread, or of the calling one, and of what it starts from now on.
fn builder<'a>(event: Software, processor: usize, thread: Option<u32>) -> Builder<'a> {
    let mut builder = Builder::new(event);
    match thread {
        Some(thread) => builder.observe_pid(thread as i32),
        None => builder.observe_self(),
    };
    builder.one_cpu(processor).inherit(true).include_kernel().enabled(false);
    builder.sample_period(1).sample(SampleFlag::TID | SampleFlag::ADDR).wakeup_events(EVENTS_A_WAKE);
    builder
}

/// Has an event be reported where another one is.
fn share_ring(event: &Counter, other: &Sampler) -> io::Result<()> {
    /// `_IO('$', 5)`.
    const PERF_EVENT_IOC_SET_OUTPUT: libc::Ioctl = 0x2405;
    // SAFETY: both descriptors are open, and nothing else is read or written.
    let shared = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_OUTPUT, other.as_raw_fd()) };
    if shared < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until one of the descriptors is readable, or it has been long enough.
pub(crate) fn wait<'a>(descriptors: impl Iterator<Item = BorrowedFd<'a>>, timeout: Duration) {
    let mut all: Vec<PollFd<'_>> =
        descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    // An interruption is a reason to look as well.
    let _ = poll(&mut all, Some(&timeout));
}

/// The processors that are online.
fn processors() -> io::Result<impl Iterator<Item = usize>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let ranges: Vec<(usize, usize)> = text
        .trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        })
        .collect();
    Ok(ranges.into_iter().flat_map(|(first, last)| first..=last))
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").field("processors", &self.samplers.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;
    use std::process::Command;

    /// A child that touches a thousand pages is seen to do so, and to become a program and to end.
    #[test]
    fn faults_of_children_are_seen() {
        let Ok(mut faults) = Faults::of_children() else {
            return sweephand_checks::skip(sweephand_checks::Need::Root, "events of page faults");
        };
        faults.begin().unwrap();
        let script = "head -c 4000000 /dev/zero | tail -c 3999999 > /dev/null";
        let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let never = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        faults.wait([never.as_fd()].into_iter(), Duration::from_secs(10));
        assert!(child.wait().unwrap().success());
        let (mut pages, mut renewed, own) = (0, Vec::new(), std::process::id());
        faults.drain(|event| match event {
            Event::Fault { process, address } if process != own => pages += usize::from(address > 0),
            Event::NewMemory { process } | Event::ThreadEnded { process, .. } => renewed.push(process),
            _ => {}
        });
        assert!(pages > 1000, "{pages}");
        let times = |process| renewed.iter().filter(|&&other| other == process).count();
        assert_eq!(times(child.id()), 2, "its exec and its end");
        // So did the shell's two children.
        assert_eq!(renewed.len(), 6, "{renewed:?}");
    }
}
