//! Runs an unmodified program with a limit on its anonymous memory. Pages that do not fit go to a
//! file. A policy of `sweephand-policy` chooses them.
//!
//! ```text
//!   this process                         the program                          kernel
//!   Run::start: order, library --------> LD_PRELOAD: the agent's thread <---> userfaultfd: faults, moves
//!   Run::wait:  counts, last words <---- (crates/pager/agent)           <---> backing store, direct I/O
//! ```
//!
//! The agent does the paging inside the program, because only there can pages be moved. This side
//! makes all checks that are possible before the program starts. It stays the program's parent, and
//! reports how the program ended. Neither side outlives the other: if this process is killed, the
//! agents kill their processes.
//!
//! [`KernelRun`] runs a program under the kernel's own paging, for comparison. [`tasks`] runs
//! several programs under one limit. Limited programs are in a memory cgroup (`cgroup`,
//! `enclosure`), whether the pager or the kernel pages them. A thread (`witness`) adjusts the
//! cgroup's limit to the processes that are alive.
//!
//! The files that a run's processes open by name are in a directory that only root or the user can
//! write to (`run_directory`, `ownership`). A separate process (`tidy`) removes this directory and
//! the cgroup at the end. `docs/security.md` explains who may do what to a run.

mod cgroup;
mod enclosure;
mod kernel;
mod launch;
pub mod ownership;
mod program;
mod run;
mod run_directory;
mod statistics;
mod swap_file;
pub mod tasks;
mod tidy;
mod usage;
mod witness;

pub use cgroup::{CgroupCounts, CgroupError, Contents, kernel_share};
pub use enclosure::CgroupLimit;
pub use kernel::{KernelMemory, KernelRun};
pub use program::ProgramError;
pub use run::{Ended, Options, Run, RunError, Running, Watched};
pub use statistics::{Glance, Statistics};
pub use sweephand_agent::control::Backend;
pub use sweephand_agent::live::{LiveSpec, names as live_policies};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// The least memory that a program can run in, in bytes.
pub const LEAST_BYTES: u64 = sweephand_agent::agent::LEAST_PAGES * PAGE_BYTES;
/// The least `--memory`, in bytes, in which a policy has this many frames. The pager itself takes
/// the rest.
pub fn memory_for(frames: u64) -> u64 {
    let enough = |pages: &u64| sweephand_agent::agent::policy_frames(*pages) >= frames;
    let (mut short, mut pages) = (0, sweephand_agent::agent::LEAST_PAGES);
    while !enough(&pages) {
        (short, pages) = (pages, 2 * pages);
    }
    while pages - short > 1 {
        let between = short + (pages - short) / 2;
        if enough(&between) { pages = between } else { short = between }
    }
    pages.max(sweephand_agent::agent::LEAST_PAGES) * PAGE_BYTES
}

/// The most pages to read ahead at once.
pub const MOST_PREFETCH_PAGES: u32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_for_some_frames_has_them_and_the_pagers_own() {
        for frames in [1, 500, 3000, 16_000, 1 << 20] {
            let bytes = memory_for(frames);
            let has = |bytes: u64| sweephand_agent::agent::policy_frames(bytes / PAGE_BYTES);
            assert!(bytes >= LEAST_BYTES && has(bytes) >= frames, "{frames}: {bytes}");
            assert!(
                bytes == LEAST_BYTES || has(bytes - PAGE_BYTES) < frames,
                "{frames}: no more than it takes"
            );
        }
    }
}
