//! Synthetic traces.

use crate::error::raise;
use crate::trace::Trace;
use crate::wait::Watch;
use pyo3::prelude::*;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use sweephand_output::Output;
use sweephand_trace::generate::{NamedPattern, SynthesisError};

/// The trace of a pattern with these parameters, in a file or in memory. A flag has no value.
#[pyfunction]
pub(crate) fn generate(
    py: Python<'_>,
    pattern: &str,
    given: Vec<(String, Option<String>)>,
    output: Option<PathBuf>,
) -> PyResult<Trace> {
    let given = given.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    let synthesis =
        NamedPattern::find(pattern).and_then(|pattern| pattern.synthesis(given)).map_err(raise)?;
    let name = PathBuf::from(&synthesis.metadata.program);
    let watch = Watch::default();
    let made = watch.over(py, || {
        let mut progress = |done| {
            watch.done.store(done, Ordering::Relaxed);
            !watch.interrupt.is_raised()
        };
        match output {
            None => {
                let (out, _) = synthesis.write(Cursor::new(Vec::new()), &mut progress)?;
                Ok(sweephand_trace::Trace::from_bytes(out.into_inner())?.with_name(&name))
            }
            Some(path) => {
                let (out, _) = synthesis
                    .write(Output::create(&path, &[])?, &mut progress)
                    .map_err(|error| named(error, &path))?;
                out.commit()?;
                Ok(sweephand_trace::Trace::open(&path)?)
            }
        }
    })?;
    made.map(Trace::from).map_err(|error: anyhow::Error| raise(error))
}

fn named(error: SynthesisError, path: &Path) -> SynthesisError {
    match error {
        SynthesisError::Write(error) => SynthesisError::Write(error.in_output(path)),
        error => error,
    }
}
