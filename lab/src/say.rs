//! What the command says to people.

use std::fmt;
use std::io::{self, Write};
use sweephand_trace::shown;

/// A line on standard error, with nothing in it that a terminal would obey. If it cannot be
/// written, the command goes on: its results do not depend on it.
pub(crate) fn say(words: fmt::Arguments) {
    let _ = writeln!(io::stderr(), "sweephand-lab: {}", shown(&words.to_string()));
}
