//! Why a run did not start, or did not come to its own end.

use crate::LEAST_BYTES;
use crate::program::ProgramError;
use std::io;
use std::path::PathBuf;
use sweephand_process::cgroup::{CgroupError, Contents};
use sweephand_process::zram::ZramError;

/// Why a run did not start, or did not come to its own end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The program is of a kind that cannot be run so.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The policy is for simulation.
    #[error("policy '{policy}' needs every reference and can only be simulated; these can run live: {live}")]
    Policy {
        /// As typed.
        policy: String,
        /// The names of those that can.
        live: String,
    },
    /// Nothing can be done in so little memory.
    #[error(
        "{} of memory are too few: the pager itself needs some; give it {} at least",
        mib(*bytes), mib(LEAST_BYTES)
    )]
    TooLittle {
        /// As asked for.
        bytes: u64,
    },
    /// Compressed memory would leave too little for pages as they are.
    #[error(
        "--compress: {} KiB for compressed pages are too much in {} of memory; it can have {} KiB at most",
        bytes >> 10, mib(*limit_bytes), most_bytes >> 10
    )]
    PoolTooLarge {
        /// As asked for.
        bytes: u64,
        /// Of all memory.
        limit_bytes: u64,
        /// The most that compressed pages can have of it.
        most_bytes: u64,
    },
    /// The backing store cannot be where it should.
    #[error("{}: {reason}; name another place with --swap", .path.display())]
    Swap {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is no place for what the program's processes open by name.
    #[error(
        "no directory for the pager's library, where only root and you can write: {0}; set XDG_CACHE_HOME \
         or XDG_RUNTIME_DIR to one"
    )]
    NoDirectory(String),
    /// The system refuses something.
    #[error("{what}: {error}")]
    System {
        /// What was asked for.
        what: String,
        /// The answer.
        error: io::Error,
    },
    /// The pager could not go on, and ended the program.
    #[error("{}: {words}", .program.display())]
    Pager {
        /// The program.
        program: PathBuf,
        /// Why.
        words: String,
    },
    /// The processor's accessed bits were asked for and cannot be had.
    #[error("--reference-bits hardware: {0}; leave the option out, and bits are kept in software")]
    NoHardwareBits(String),
    /// The kernel's read-write protection was asked for and cannot be had.
    #[error("--reference-bits rwp: {0}; leave the option out, and bits come from where they can be had")]
    NoRwp(String),
    /// The kernel's paging cannot be directed here.
    #[error("--backend swap: {0}")]
    NoDirection(String),
    /// There is no process to attach to.
    #[error("process {0}: there is none, or it has no memory of its own")]
    NoProcess(u32),
    /// Only root may do that.
    #[error("a memory cgroup or a swap file would have to be made: that is for root")]
    Root,
    /// There is no cgroup where one is needed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// There is no zram device where one is needed.
    #[error("--compress: {0}; leave --compress out, or add --backend anon if the program can have an agent")]
    Zram(#[from] ZramError),
    /// The cgroup's limit was no longer to be kept.
    #[error(
        "{}: the kernel ended it, or a process of it: all its memory, with page tables and files, did not fit the cgroup's \
         {}{}; give it more with --memory", .program.display(), mib(*limit_bytes), in_words(*contents)
    )]
    TooLarge {
        /// The program.
        program: PathBuf,
        /// The cgroup's limit.
        limit_bytes: u64,
        /// What was in it.
        contents: Option<Contents>,
    },
    /// The program ran without its pager.
    #[error("{}: did not load the pager: what it printed was made without a limit", .0.display())]
    NotLoaded(PathBuf),
}

/// What was in a cgroup, as a part of a sentence.
fn in_words(contents: Option<Contents>) -> String {
    contents.map(|contents| format!(" ({contents})")).unwrap_or_default()
}

/// What the system has refused.
pub(crate) fn system(what: String) -> impl FnOnce(io::Error) -> RunError {
    |error| RunError::System { what, error }
}

/// A size of memory for people.
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}
