//! Errors, each in one line that names the file and says what to do.

use std::io;
use std::path::{Path, PathBuf};
use sweephand_sim::{SamplingError, SweepError};

/// What can go wrong with a sweep.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that the sweep reads or writes.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A trace that cannot be simulated.
    #[error(transparent)]
    Trace(#[from] sweephand_trace::Error),
    /// A simulation that cannot be made.
    #[error(transparent)]
    Simulation(#[from] SweepError),
    /// A sample that could not give a right result.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A word that is not the size of a sample.
    #[error(transparent)]
    SampleSize(#[from] sweephand_sim::SampleSizeError),
    /// A word that is not a policy.
    #[error(transparent)]
    Policy(#[from] sweephand_policy::ArgumentError),
    /// A word that is not a memory size.
    #[error(transparent)]
    Memory(#[from] sweephand_sim::MemorySizeError),
    /// A warm-up that cannot be.
    #[error(transparent)]
    Warmup(#[from] sweephand_sim::WarmupError),
    /// A trace that is not the one that was planned with: no retry makes it so.
    #[error("{0}")]
    WrongTrace(String),
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Whether trying again may help: a disk or a network said no. What a trace or a plan says does
    /// not change by itself.
    pub fn may_pass(&self) -> bool {
        let of_trace = |error: &sweephand_trace::Error| matches!(error, sweephand_trace::Error::Io { .. });
        let of_sweep = |error: &SweepError| matches!(error, SweepError::Trace(error) if of_trace(error));
        match self {
            Self::File { .. } => true,
            Self::Trace(error) => of_trace(error),
            Self::Simulation(error) => of_sweep(error),
            Self::Sampling(SamplingError::Sweep(error)) => of_sweep(error),
            Self::Warmup(sweephand_sim::WarmupError::Trace(error)) => of_trace(error),
            _ => false,
        }
    }

    pub(crate) fn file(path: &Path, reason: impl ToString) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Names the file in what the system said of it.
pub(crate) trait InFile<T> {
    fn in_file(self, path: &Path) -> Result<T, Error>;
}

impl<T> InFile<T> for io::Result<T> {
    fn in_file(self, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::file(path, error))
    }
}
