//! A running process, with its memory limited from outside: `run --pid`.
//!
//! The director does for it what it does for a program that was started so. But the process stays
//! in its own cgroup: Linux moves no memory that a process already has to another one. So nothing
//! but the director keeps the limit. Between two of its turns, the process may have more.
//!
//! The limit is for the anonymous memory of the process and of all that it has started. Pages that
//! leave it take memory until they have been written, and are not counted meanwhile.
//!
//! When the process has ended, or is let go, the swap file is switched off. The kernel brings all
//! pages back then, which takes as much memory as the process had before.

use super::directing::{add, check, direct, no_events};
use crate::cleanup::Cleanup;
use crate::error::{RunError, system};
use crate::kernel::of_machine;
use crate::options::Options;
use crate::run::{Watched, check_limit, swap_directory};
use crate::statistics::{Snapshot, Statistics};
use crate::{PAGE_BYTES, swap_file};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use sweephand_director::{Budget, Choosers, Direction, Faults, Order};
use sweephand_process::family;
use sweephand_program::ownership;

/// A running process whose memory is limited.
pub struct AttachedRun {
    process: u32,
    /// Readable when the process has ended.
    end: OwnedFd,
    /// Whether `wait` has ended, for whichever reason.
    is_over: AtomicBool,
    director: Direction,
    options: Options,
    cleanup: Cleanup,
    started: Instant,
    /// Faults of the process, and pages moved by the whole machine, before.
    before: Before,
}

#[derive(Clone, Copy)]
struct Before {
    faults: (u64, u64),
    read: Option<u64>,
    written: Option<u64>,
}

impl AttachedRun {
    /// Limits the memory of a process and of all that it has started.
    ///
    /// # Errors
    /// There is no such process, the kernel cannot be directed, or there is no place for a swap
    /// file.
    pub fn to(process: u32, options: &Options) -> Result<Self, RunError> {
        let bits = check(&options.policy)?;
        check_limit(options.limit_bytes)?;
        let number = i32::try_from(process).ok().and_then(Pid::from_raw);
        let end = number.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let end = end.ok_or(RunError::NoProcess(process))?;
        if process == std::process::id() || family::anonymous_bytes(process) == 0 {
            return Err(RunError::NoProcess(process));
        }
        let faults = Faults::of_processes(&family::members(process)).map_err(no_events)?;
        let directory = swap_directory(&options.swap)?;
        let directory = ownership::sticky_directory(&directory)
            .map_err(|error| RunError::Swap { path: options.swap.clone(), reason: error.to_string() })?;
        let name = format!("sweephand-{}-of-{process}", std::process::id());
        let swap = swap_file::name(&directory, Path::new(&name));
        let cleanup =
            Cleanup::start(None, Some(&swap), None).map_err(system("/bin/sh: cannot be started".into()))?;
        swap_file::create(&swap, swap_file::rank_beside_others())?;
        let director = direct(Order {
            bits,
            faults,
            budget: Budget::of_family(process, options.limit_bytes),
            policy: options.policy.clone(),
            prefetch_pages: options.prefetch_pages,
            // The process has no limit but the director's.
            choosers: Choosers::Policy,
            zram_trial: None,
            process,
        })?;
        let before = Before {
            faults: family::faults(process).unwrap_or_default(),
            read: of_machine("pswpin"),
            written: of_machine("pswpout"),
        };
        let options = options.clone();
        let is_over = AtomicBool::new(false);
        Ok(Self { process, end, is_over, director, options, cleanup, started: Instant::now(), before })
    }

    /// Waits until the process has ended, or `signals` is readable.
    pub fn wait(&self, signals: BorrowedFd<'_>) {
        let mut both =
            [PollFd::new(&self.end, PollFlags::IN), PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        while poll(&mut both, None).is_err() {}
        self.is_over.store(true, Relaxed);
    }

    /// Lets the process go: its pages come back, and it has all memory again. Returns the counts.
    pub fn release(self) -> Statistics {
        self.director.stop();
        let statistics = self.statistics();
        self.cleanup.finish();
        statistics
    }

    fn statistics(&self) -> Statistics {
        let limit = Some(self.options.limit_bytes);
        let mut statistics = Statistics::of_kernel("", limit, self.started.elapsed());
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        statistics.pages_read = since(of_machine("pswpin"), self.before.read);
        statistics.pages_written = since(of_machine("pswpout"), self.before.written);
        let counts = self.director.counts();
        if let Some((minor, major)) = family::faults(self.process) {
            let (minor, major) = (minor - self.before.faults.0, major - self.before.faults.1);
            statistics.faults = minor + major;
            statistics.major_faults = Some(major);
        } else {
            statistics.faults = counts.first_touches + counts.refaults;
        }
        statistics.cgroup.missing = Some("a running process stays in its own".to_string());
        add(&mut statistics, &self.options.policy.to_string(), counts);
        statistics.user_ns = counts.user.as_nanos() as u64;
        statistics.sys_ns = counts.system.as_nanos() as u64;
        statistics
    }
}

impl Watched for AttachedRun {
    fn snapshot(&self) -> Snapshot {
        let bytes: u64 = family::members(self.process).into_iter().map(family::anonymous_bytes).sum();
        Snapshot::new(&self.statistics(), bytes / PAGE_BYTES)
    }

    fn has_ended(&self) -> bool {
        self.is_over.load(Relaxed)
    }
}
