//! Lines on standard error: notes, warnings, errors.

use std::fmt;
use std::io::{self, Write};

/// A line on standard error. If that cannot be written (a full disk, a reader that has left) the
/// command goes on: its results do not depend on it.
pub(crate) fn line(words: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Formats a line for standard error, as `eprintln` does, which would panic where nothing can be
/// written.
macro_rules! say {
    ($($words:tt)*) => { $crate::talk::line(format_args!($($words)*)) };
}
pub(crate) use say;
