//! The scope of a run under the pager: its memory cgroup, its directory, and the process that
//! removes both. One for a program and all that it starts, one for all tasks of a file.
//!
//! Without the right to make a cgroup the pager runs all the same, and the counts say why there is
//! none.

use crate::cleanup::Cleanup;
use crate::error::{RunError, system};
use crate::limit_keeper::{LimitKeeper, Width};
use crate::run_directory::RunDirectory;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use sweephand_process::cgroup::{Cgroup, CgroupCounts, CgroupError, Contents, Swap};

/// The limit of the cgroup around a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CgroupLimit {
    /// What the pagers of the processes that are alive go by, and some on top: the program is ended
    /// only if something has gone wrong.
    #[default]
    Fitting,
    /// This many bytes for all processes together, for programs that size their heaps by it.
    Bytes(u64),
    /// There is no cgroup: such programs see the machine's memory, or that of a cgroup around the
    /// command.
    Unlimited,
}

/// A cgroup without swap, or why there is none, a directory, and what removes them.
#[derive(Debug)]
pub(crate) struct RunScope {
    cgroup: Result<Arc<Cgroup>, String>,
    directory: RunDirectory,
    width: Option<Width>,
    // Ended before the cgroup is removed.
    limit_keeper: Option<LimitKeeper>,
    cleanup: Cleanup,
}

impl RunScope {
    /// Makes a cgroup with this limit, if that is allowed here, and a directory.
    pub(crate) fn new(limit_bytes: u64) -> Result<Self, RunError> {
        Self::with(Cgroup::new(limit_bytes, Swap::Off).map_err(|error| error.to_string()))
    }

    fn with(cgroup: Result<Cgroup, String>) -> Result<Self, RunError> {
        let directory = RunDirectory::choose()?;
        let cleanup = Cleanup::start(cgroup.as_ref().ok(), None, Some(&directory))
            .map_err(system("/bin/sh: cannot be started".into()))?;
        directory.make()?;
        Ok(Self { cgroup: cgroup.map(Arc::new), directory, width: None, limit_keeper: None, cleanup })
    }

    /// Makes a cgroup for a program whose processes have a budget of this many bytes each, if that
    /// is allowed here, and a directory.
    pub(crate) fn around(budget_bytes: u64, limit: CgroupLimit) -> Result<Self, RunError> {
        let width = match limit {
            CgroupLimit::Bytes(bytes) => return Self::new(bytes),
            CgroupLimit::Unlimited => {
                return Self::with(Err("--cgroup-limit none was given".to_string()));
            }
            CgroupLimit::Fitting => Width::new(budget_bytes, Cgroup::can_have_processes_wait()),
        };
        let mut scope = Self::new(width.process_bytes)?;
        if let Ok(cgroup) = &scope.cgroup {
            let limit_keeper = LimitKeeper::start(Arc::clone(cgroup), width, scope.directory.path());
            scope.limit_keeper = Some(limit_keeper.map_err(system("the cgroup cannot be watched".into()))?);
            scope.width = Some(width);
        }
        Ok(scope)
    }

    /// The run's directory.
    pub(crate) fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref().ok().map(|cgroup| &**cgroup)
    }

    /// Has a command begin in the cgroup.
    pub(crate) fn enter(&self, command: &mut Command) -> Result<(), CgroupError> {
        self.cgroup().map_or(Ok(()), |cgroup| cgroup.enter(command))
    }

    /// The file with the limit, for a program's agents; empty if there is none.
    pub(crate) fn limit_file(&self) -> PathBuf {
        self.cgroup().map(Cgroup::limit_file).unwrap_or_default()
    }

    /// How much of the limit is for each process; 0 if it stays as it is.
    pub(crate) fn process_bytes(&self) -> u64 {
        self.width.map_or(0, |width| width.process_bytes)
    }

    /// Sees to it that the limit is no less than this.
    pub(crate) fn widen_to(&self, limit_bytes: u64) -> Result<(), CgroupError> {
        self.cgroup().map_or(Ok(()), |cgroup| cgroup.widen_to(limit_bytes))
    }

    /// What has been counted so far. The limit is the widest that there has been.
    pub(crate) fn counts(&self) -> CgroupCounts {
        match &self.cgroup {
            Ok(cgroup) => {
                let mut counts = cgroup.counts();
                let widest = self.limit_keeper.as_ref().map(LimitKeeper::limit_bytes);
                counts.limit_bytes = counts.limit_bytes.max(widest);
                counts
            }
            Err(reason) => CgroupCounts::without(reason),
        }
    }

    /// Processes that the kernel has ended because the limit left them no memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.cgroup().map_or(0, Cgroup::oom_kills)
    }

    /// What was in it when it was seen to be fullest, if anyone has looked.
    pub(crate) fn contents(&self) -> Option<Contents> {
        self.limit_keeper.as_ref().map(LimitKeeper::contents)
    }

    /// Removes cgroup and directory. Processes that are left in the cgroup go on, without a limit;
    /// if it is dropped instead, they are ended.
    pub(crate) fn finish(self) {
        drop(self.limit_keeper);
        if let Ok(cgroup) = &self.cgroup {
            // The limit is not kept any more, so they would wait for ever.
            cgroup.have_processes_end();
        }
        self.cleanup.finish();
    }
}
