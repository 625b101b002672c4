//! What shows a watch, whether to people or to programs.

use std::io;
use std::time::Duration;
use sweephand_watch::{Epoch, Watching};

/// What a watch shows while it goes on.
pub(super) trait Show {
    /// An epoch is over.
    fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()>;
    /// The process has become another program.
    fn new_program(&mut self, watching: &Watching, name: &str) -> io::Result<()>;
    /// The process has started another.
    fn child(&mut self, watching: &Watching, pid: u32, name: &str) -> io::Result<()>;
}

/// A time in words.
pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        time if time < 0.0995 => format!("{:.1} ms", 1e3 * time),
        time => format!("{time:.1} s"),
    }
}
