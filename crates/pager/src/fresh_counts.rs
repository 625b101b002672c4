//! The counts by which the kernel pages a cgroup, kept fresh.
//!
//! Linux decides by a cgroup's statistics whether it looks for pages that are not used any more
//! (`inactive_is_low` in `mm/vmscan.c`), and brings these statistics up to date every two seconds
//! only. A program that fills its memory faster runs out of pages that the kernel would take, while
//! the statistics of some time ago say that there are enough. The kernel then finds nothing to
//! take and kills the program, although most of its memory could go to swap. Linux 6.18 did so in
//! five of five runs of a Python program with lists at 80 % of its memory, and in none of five
//! while somebody read `memory.stat`, for which the kernel brings the statistics up to date.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use sweephand_process::cgroup::{Cgroup, Contents};
use sweephand_process::periodic::Periodic;

/// How often. A time takes some ten microseconds.
const PERIOD: Duration = Duration::from_millis(10);

/// A thread that has the kernel count, until it is dropped.
#[derive(Debug)]
pub(crate) struct FreshCounts {
    /// What was in the cgroup when page tables and the like took most.
    most_kernel: Arc<Mutex<Contents>>,
    _thread: Periodic,
}

impl FreshCounts {
    /// Keeps the counts of this cgroup fresh.
    pub(crate) fn keep(cgroup: Arc<Cgroup>) -> io::Result<Self> {
        let most_kernel = Arc::new(Mutex::new(Contents::default()));
        let seen = Arc::clone(&most_kernel);
        let thread = Periodic::start("fresh-counts", PERIOD, move || {
            // The kernel brings its counts up to date for whoever reads them.
            let contents = cgroup.contents();
            let mut most = seen.lock().unwrap_or_else(|error| error.into_inner());
            if contents.kernel_bytes >= most.kernel_bytes {
                *most = contents;
            }
        })?;
        Ok(Self { most_kernel, _thread: thread })
    }

    /// What was in the cgroup when page tables and the like took most: memory that cannot be paged.
    pub(crate) fn most_kernel(&self) -> Contents {
        *self.most_kernel.lock().unwrap_or_else(|error| error.into_inner())
    }
}
