//! What is studied unless something else is asked for, and what can be studied.

use std::path::PathBuf;
use sweephand_sim::{MemorySize, MemorySizeError};
use sweephand_trace::Trace;

/// Policies to compare unless others are asked for: the bound, the classics, those that could run
/// live.
pub const POLICIES: &str = "opt,lru,clock,car,clock-pro-strict,lirs,mglru,sieve";
/// Memory sizes to compare them at; all of the program's pages come besides.
pub const SIZES: &str = "5%,10%,20%,30%,40%,50%,60%,70%,80%,90%";
/// More sizes than this make no better chart.
const MOST_SIZES: usize = 100;

/// Why there is nothing to study.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A memory size is none.
    #[error(transparent)]
    Size(#[from] MemorySizeError),
    /// There are more than a chart can show.
    #[error("--memory: name {MOST_SIZES} sizes at most; for all of them use sweephand simulate --format csv")]
    TooManySizes,
    /// The trace has no references.
    #[error("{}: has no references to simulate", .0.display())]
    Empty(PathBuf),
}

/// Reads a comma list of memory sizes, no more than a chart can show.
pub fn sizes(memory: &str) -> Result<Vec<MemorySize>, RequestError> {
    let sizes = MemorySize::parse_list(memory)?;
    if sizes.contains(&MemorySize::All) || sizes.len() > MOST_SIZES {
        return Err(RequestError::TooManySizes);
    }
    Ok(sizes)
}

/// Whether a trace has something to study.
pub fn check(trace: &Trace) -> Result<(), RequestError> {
    match trace.header().totals.records {
        0 => Err(RequestError::Empty(trace.name().to_path_buf())),
        _ => Ok(()),
    }
}
