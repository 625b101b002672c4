//! Why a program is not recorded.

use std::io;
use std::path::PathBuf;
use sweephand_output::OutputError;
use sweephand_program::LocateError;
use sweephand_program::ownership::OwnershipError;

/// What recording takes.
const NEEDS: &str =
    "recording needs Valgrind with its headers and a C compiler: apt-get install valgrind gcc libc6-dev";

/// Why a program is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is none of that name.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// Valgrind does not run such programs.
    #[error("{}: is setuid or setgid and cannot be recorded; record a copy without that", .0.display())]
    Setuid(PathBuf),
    /// Valgrind has to read it.
    #[error("{}: cannot be read, and so not be recorded", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// It is for another processor.
    #[error("{}: only programs for 64-bit x86 can be recorded", .0.display())]
    Foreign(PathBuf),
    /// There is no Valgrind.
    #[error("{NEEDS}")]
    NoValgrind,
    /// The tool cannot be built.
    #[error("{NEEDS} (building the recorder said: {0})")]
    NotBuilt(String),
    /// Others could have put another tool in its place.
    #[error("{}: can be written to by others; remove it", .0.display())]
    SharedTool(PathBuf),
    /// The same of the directory that it is in.
    #[error("the recorder is kept there; set XDG_CACHE_HOME to a directory of your own")]
    SharedCache(#[source] OwnershipError),
    /// There is no place to keep the tool.
    #[error(transparent)]
    NoCache(io::Error),
    /// A file cannot be written.
    #[error("{}: cannot be written", .0.display())]
    NotWritten(PathBuf, #[source] io::Error),
    /// The system refuses something.
    #[error("{what}")]
    System {
        /// What does not work.
        what: String,
        /// The answer.
        #[source]
        error: io::Error,
    },
    /// The recorder says what it should not.
    #[error("{0}")]
    Protocol(String),
    /// A signal was quicker than the program.
    #[error("{}: was ended by signal {signal} before it began", .program.display())]
    EndedEarly {
        /// The program.
        program: PathBuf,
        /// The signal.
        signal: i32,
    },
    /// The recorder said why on standard error.
    #[error("{}: did not start under Valgrind", .0.display())]
    NotStarted(PathBuf),
    /// A result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A stream is damaged, or its trace cannot be written.
    #[error(transparent)]
    Trace(#[from] sweephand_trace::Error),
}

/// Says what the system has refused.
pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> RecordError {
    let what = what.into();
    |error| RecordError::System { what, error }
}
