//! Why a process or a service cannot be watched.

use std::io;
use sweephand_process::group::GroupError;

/// Why a process or a service cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Only root may.
    #[error("root is missing: accessed bits of other processes are for root alone")]
    Root,
    /// The kernel does not let BPF programs read page tables, or has no description of its types.
    #[error("BPF is missing: {0}")]
    Bits(String),
    /// There is no such process, or it has no memory of its own.
    #[error("process {0}: there is none, or it has no memory: a thread of the kernel, or a zombie")]
    NoProcess(u32),
    /// There is no such service.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The system refuses something.
    #[error("{0}")]
    System(String, #[source] io::Error),
}
