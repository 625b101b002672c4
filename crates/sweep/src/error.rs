//! Errors, each in one line that names the file and says what to do.

use std::io;
use std::path::{Path, PathBuf};

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
    Simulation(#[from] sweephand_sim::SweepError),
    /// A sample that could not give a right result.
    #[error(transparent)]
    Sampling(#[from] sweephand_sim::SamplingError),
    /// A word that is not the size of a sample.
    #[error(transparent)]
    SampleSize(#[from] sweephand_sim::SampleSizeError),
    /// A word that is not a policy.
    #[error(transparent)]
    Policy(#[from] sweephand_policy::ArgumentError),
    /// A word that is not a memory size.
    #[error(transparent)]
    Memory(#[from] sweephand_sim::MemorySizeError),
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}

impl Error {
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
