//! The `sweephand` command in the package.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use sweephand_cli::Home;

/// Does what the words of a command line say, and returns the exit status.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, words: Vec<OsString>, command: PathBuf) -> u8 {
    let status = py.detach(|| sweephand_cli::main(words, &Home { command }));
    // It does not tell its number to anybody but the system.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == status).unwrap_or(1)
}
