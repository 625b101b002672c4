//! The end of a watch.

use crate::stderr::eprint_line;
use std::fs;
use std::path::Path;
use sweephand_results::{bytes, grouped};
use sweephand_watch::History;

/// How a watch ended.
pub(super) enum End {
    /// The program or the service has ended.
    Program,
    /// The time was over.
    Time,
    /// A signal came.
    Signal,
}

/// Says what is in the trace of a watch.
pub(super) fn tell_of_trace(path: &Path, history: &History) {
    let length = fs::metadata(path).map_or(0, |file| file.len());
    eprint_line!(
        "sweephand: {}: {} epochs, {} pages, {}",
        path.display(),
        grouped(history.epochs()),
        grouped(history.first_uses()),
        bytes(length)
    );
}
