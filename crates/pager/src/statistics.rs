//! What a run counted.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use sweephand_agent::control::Counters;

/// Counts of a run, over all processes of the program.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The policy, as typed.
    pub policy: String,
    /// Memory of each process of the program, the pager's own included.
    pub memory_limit_bytes: u64,
    /// From start to end.
    pub wall_ns: u64,
    /// Processor time in user mode, of the program and of the pager in it.
    pub user_ns: u64,
    /// Processor time in the kernel, of the program and of the pager in it.
    pub sys_ns: u64,
    /// Faults that the pager answered, rescues apart.
    pub faults: u64,
    /// Of these, on pages never touched before, or dropped by the program.
    pub zero_fill_faults: u64,
    /// Of these, on pages that had been evicted.
    pub refaults: u64,
    /// Of the refaults, those on pages still on their way to the store: no read.
    pub refaults_in_flight: u64,
    /// Faults on pages unmapped only to see whether they are in use.
    pub rescues: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Pages read from the backing store.
    pub pages_read: u64,
    /// Pages written to the backing store.
    pub pages_written: u64,
    /// Largest number of pages that a process had resident. While a program fits its memory the pager does not count; if
    /// that is all the time, this is the kernel's own figure, files included.
    pub peak_resident_pages: u64,
    /// Largest number of pages that the pager needed for itself in a process.
    pub peak_pager_pages: u64,
    /// Largest number of pages that a process and its pager had together; 0 while everything fits.
    pub peak_memory_pages: u64,
    /// Largest number of pages that could not be paged out in a process.
    pub peak_pinned_pages: u64,
    /// List entries that the policy's hands looked at.
    pub hand_steps: u64,
    /// Processes of the program that had a pager.
    pub processes: u64,
    /// The program's exit status; 128 and the signal's number if a signal ended it.
    pub exit_status: i32,
    /// Times that the memory cgroup hit its limit; none if there was no cgroup.
    pub cgroup_failcnt: Option<u64>,
}

/// Processor time, user and system, and most resident pages, of children waited for.
pub(crate) fn children() -> (Duration, Duration, u64) {
    // SAFETY: getrusage fills in the struct, which is plain data.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime), usage.ru_maxrss as u64 * 1024 / crate::PAGE_BYTES)
}

impl Statistics {
    /// The counts so far.
    pub(crate) fn new(counters: &Counters, policy: &str, limit_pages: u64, wall: Duration) -> Self {
        Self {
            policy: policy.to_string(),
            memory_limit_bytes: limit_pages * crate::PAGE_BYTES,
            wall_ns: wall.as_nanos() as u64,
            user_ns: 0,
            sys_ns: 0,
            faults: counters.faults.load(Relaxed),
            zero_fill_faults: counters.zero_fill_faults.load(Relaxed),
            refaults: counters.refaults.load(Relaxed),
            refaults_in_flight: counters.refaults_in_flight.load(Relaxed),
            rescues: counters.rescues.load(Relaxed),
            evictions: counters.evictions.load(Relaxed),
            pages_read: counters.pages_read.load(Relaxed),
            pages_written: counters.pages_written.load(Relaxed),
            peak_resident_pages: counters.peak_resident_pages.load(Relaxed),
            peak_pager_pages: counters.peak_own_pages.load(Relaxed),
            peak_memory_pages: counters.peak_memory_pages.load(Relaxed),
            peak_pinned_pages: counters.peak_pinned_pages.load(Relaxed),
            hand_steps: counters.hand_steps.load(Relaxed),
            processes: counters.agents.load(Relaxed),
            exit_status: 0,
            cgroup_failcnt: None,
        }
    }
}
