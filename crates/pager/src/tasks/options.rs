//! How to run tasks.

use super::file::LoadControlOptions;
use std::path::PathBuf;
use sweephand_policy::task_registry::TaskSpec;

/// Options for running tasks.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Memory of all tasks, including their pagers'.
    pub limit_bytes: u64,
    /// The policy. Its windows are in microseconds of processor time.
    pub policy: TaskSpec,
    /// Which tasks may be active.
    pub load_control: LoadControlOptions,
    /// A directory for the backing stores, or the name of a file in one.
    pub swap: PathBuf,
    /// The most pages to read ahead at once; 0 for none.
    pub prefetch_pages: u32,
    /// Whether to use io_uring if the kernel has it.
    pub use_ring: bool,
}
