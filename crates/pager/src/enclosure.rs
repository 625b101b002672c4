//! What is around a run under the pager: its memory cgroup, its directory, and the process that
//! removes both. One for a program and all that it starts, one for all tasks of a file.
//!
//! Without the right to make a cgroup the pager runs all the same, and the counts say why there is
//! none.

use crate::cgroup::{Cgroup, CgroupCounts, CgroupError, Swap};
use crate::run::{RunError, system};
use crate::run_directory::RunDirectory;
use crate::tidy::Tidy;
use std::path::PathBuf;
use std::process::Command;

/// A cgroup without swap, or why there is none, and a directory.
#[derive(Debug)]
pub(crate) struct Enclosure {
    cgroup: Result<Cgroup, String>,
    directory: RunDirectory,
    tidy: Tidy,
}

impl Enclosure {
    /// Makes a cgroup with this limit, if that is allowed here, and a directory.
    pub(crate) fn new(limit_bytes: u64) -> Result<Self, RunError> {
        let directory = RunDirectory::choose()?;
        let cgroup = Cgroup::new(limit_bytes, Swap::Off).map_err(|error| error.to_string());
        let tidy = Tidy::start(cgroup.as_ref().ok(), None, Some(&directory))
            .map_err(system("/bin/sh: cannot be started".into()))?;
        directory.make()?;
        Ok(Self { cgroup, directory, tidy })
    }

    /// The run's directory.
    pub(crate) fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref().ok()
    }

    /// Has a command begin in the cgroup.
    pub(crate) fn enter(&self, command: &mut Command) -> Result<(), CgroupError> {
        self.cgroup().map_or(Ok(()), |cgroup| cgroup.enter(command))
    }

    /// The file with the limit, for a program's agents; empty if there is none.
    pub(crate) fn limit_file(&self) -> PathBuf {
        self.cgroup().map(Cgroup::limit_file).unwrap_or_default()
    }

    /// Sees to it that the limit is no less than this.
    pub(crate) fn widen_to(&self, limit_bytes: u64) -> Result<(), CgroupError> {
        self.cgroup().map_or(Ok(()), |cgroup| cgroup.widen_to(limit_bytes))
    }

    /// What has been counted so far.
    pub(crate) fn counts(&self) -> CgroupCounts {
        match &self.cgroup {
            Ok(cgroup) => cgroup.counts(),
            Err(reason) => CgroupCounts { missing: Some(reason.clone()), ..Default::default() },
        }
    }

    /// Processes that the kernel has ended because the limit left them no memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.cgroup().map_or(0, Cgroup::oom_kills)
    }

    /// Removes cgroup and directory. Processes that are left in the cgroup go on, without a limit;
    /// if it is dropped instead, they are ended.
    pub(crate) fn finish(self) {
        self.tidy.finish();
    }
}
