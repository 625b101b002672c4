//! Lines on standard error: notes, warnings, errors.

use std::fmt;
use std::io::{self, Write};
use sweephand_trace::shown;

/// A line on standard error, or several, with nothing in them that a terminal would obey. If they
/// cannot be written (a full disk, a reader that has left) the command goes on: its results do not
/// depend on them.
pub(crate) fn line(words: fmt::Arguments) {
    for line in words.to_string().split('\n') {
        let _ = writeln!(io::stderr(), "{}", shown(line));
    }
}

/// Formats a line for standard error, as `eprintln` does, which would panic where nothing can be
/// written.
macro_rules! eprint_line {
    ($($words:tt)*) => { $crate::stderr::line(format_args!($($words)*)) };
}
pub(crate) use eprint_line;
