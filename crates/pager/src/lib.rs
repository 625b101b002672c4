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
//! A program that can have no agent is paged by the kernel, directed from this process (`swap`, by
//! the crate `sweephand-director`). [`start()`] chooses between the two. If no policy is named, the
//! director has to know how fast the disk is (`store_speed`).
//!
//! [`KernelRun`] runs a program under the kernel's own paging, for comparison. [`tasks`] runs
//! several programs under one limit. Limited programs are in a memory cgroup (`run_scope`), whether
//! the pager or the kernel pages them. A thread (`limit_keeper`) adjusts the cgroup's limit to the
//! processes that are alive. Another (`fresh_counts`) keeps the counts up to date by which the
//! kernel pages.
//!
//! The files that a run's processes open by name are in a directory that only root or the user can
//! write to (`run_directory`). A separate process (`cleanup`) removes this directory and
//! the cgroup at the end. `docs/security.md` explains who may do what to a run.

mod cleanup;
mod error;
mod fresh_counts;
mod kernel;
mod launch;
mod limit_keeper;
mod options;
mod program;
pub mod recording;
mod run;
mod run_directory;
mod run_scope;
mod start;
mod statistics;
mod store_speed;
mod swap;
mod swap_file;
pub mod tasks;

pub use error::RunError;
pub use kernel::{KernelMemory, KernelRun};
pub use options::{Backend, Options, PoolSize, ReferenceBits};
pub use program::ProgramError;
pub use run::{Ended, Run, Running, Watched};
pub use run_scope::CgroupLimit;
pub use start::{Started, start};
pub use statistics::{Snapshot, Statistics};
pub use swap::{AttachedRun, SwapRun};
pub use sweephand_pager_interface::memory::kernel_share;
pub use sweephand_pager_interface::memory::{LEAST_BYTES, PAGE_BYTES, memory_for};
pub use sweephand_pager_interface::recording::LEAST_OBJECT_BYTES;
pub use sweephand_pager_interface::spec::{LiveSpec, names as live_policies};
pub use sweephand_process::cgroup::{CgroupCounts, CgroupError, Contents};

/// The most pages to read ahead at once.
pub const MOST_PREFETCH_PAGES: u32 = 128;
