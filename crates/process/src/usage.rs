//! Processor time, faults and memory, as the kernel accounts for them: of a program that has ended,
//! and of the calling thread. Each child is accounted for by itself, however many others this
//! process has had.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// What a program and those of its children that it waited for have used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub sys: Duration,
    /// Page faults answered without a disk.
    pub minor_faults: u64,
    /// Page faults that waited for one.
    pub major_faults: u64,
    /// Most pages that the largest of its processes had in memory, files included.
    pub most_resident_pages: u64,
}

/// Waits for a child. It is gone then; nothing else may wait for it.
pub fn wait(child: &Child) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: plain data, which wait4 fills in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: a child of ours that has not been waited for, and places for the answer.
        if unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) } >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let usage = Usage {
        user: duration(usage.ru_utime),
        sys: duration(usage.ru_stime),
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        most_resident_pages: usage.ru_maxrss as u64 * 1024 / PAGE_BYTES,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// Processor time of the calling thread, in user mode and in the kernel.
pub fn of_this_thread() -> (Duration, Duration) {
    // SAFETY: plain data, which getrusage fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}

/// Processor time of the calling thread, to the nanosecond.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Whether a child has ended; it can still be waited for.
pub fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[expect(clippy::zombie_processes, reason = "it is `wait` of this file that waits")]
    fn each_child_is_counted_by_itself() {
        let start = |script: &str| Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let large = start("head -c 40000000 /dev/zero | tail -c 39999999 > /dev/null");
        let (status, usage) = wait(&large).unwrap();
        assert!(status.success());
        assert!(usage.most_resident_pages > 5000 && usage.minor_faults > 5000, "{usage:?}");
        let small = start("exit 3");
        while !has_ended(&small) {
            std::thread::yield_now();
        }
        assert!(has_ended(&small), "looking does not take it away");
        let (status, usage) = wait(&small).unwrap();
        assert_eq!(status.code(), Some(3));
        // (The most memory includes the time before its exec, when it was a copy of this process.)
        assert!(usage.minor_faults < 5000, "{usage:?}");
        assert!(wait(&small).is_err());
    }
}
