//! What shows a watch, whether to people or to programs.

use crate::processes::name_of;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use sweephand_watch::{Epoch, ServiceEpoch, ServiceWatching, Watching};

/// What a watch shows while it goes on.
pub(super) trait Show {
    /// An epoch is over.
    fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()>;
    /// The process has become another program.
    fn new_program(&mut self, watching: &Watching, name: &str) -> io::Result<()>;
    /// The process has started another.
    fn child(&mut self, watching: &Watching, pid: u32, name: &str) -> io::Result<()>;
}

/// What the processes of a service are called, also when they have gone.
#[derive(Default)]
pub(super) struct Names(BTreeMap<u32, String>);

impl Names {
    /// A process has come, or has become another program.
    pub(super) fn learn(&mut self, process: u32) {
        self.0.insert(process, name_of(process));
    }

    /// The name of a process.
    pub(super) fn of(&self, process: u32) -> &str {
        self.0.get(&process).map_or("", String::as_str)
    }
}

/// What shows the watch of a service.
pub(super) trait ShowService {
    /// The processes are known, and their bits are cleared.
    fn begin(&mut self, watching: &ServiceWatching, names: &Names) -> io::Result<()>;
    /// An epoch is over.
    fn epoch(&mut self, watching: &ServiceWatching, epoch: &ServiceEpoch, names: &Names) -> io::Result<()>;
}

/// A time in words.
pub(super) fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        time if time < 0.0995 => format!("{:.1} ms", 1e3 * time),
        time => format!("{time:.1} s"),
    }
}
