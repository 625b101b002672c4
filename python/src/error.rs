//! Errors as Python sees them.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::error::Error;

create_exception!(
    sweephand,
    SweephandError,
    PyException,
    "What Sweephand cannot do, in the words of the command: which file or policy, where, and what to do."
);

/// An exception with an error's words.
pub(crate) fn raise(error: impl Into<Box<dyn Error + Send + Sync>>) -> PyErr {
    SweephandError::new_err(error.into().to_string())
}

/// Warns the caller of this package of what a reader of the result has to know.
pub(crate) fn warn(py: Python<'_>, note: String) -> PyResult<()> {
    py.import("sweephand._notes")?.getattr("warn")?.call1((note,)).map(drop)
}

/// An exception with the words that the command prints for an error.
pub(crate) fn raise_command(error: &anyhow::Error) -> PyErr {
    // An option is an argument here.
    SweephandError::new_err(format!("{error:#}").trim_start_matches("--").to_string())
}
