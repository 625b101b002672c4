//! A program that is started under the kernel's paging, directed by a policy.

use super::directing::{add, check, direct, no_events};
use crate::error::RunError;
use crate::kernel::{KernelMemory, KernelRun};
use crate::options::Options;
use crate::run::{Ended, Running, Watched};
use crate::statistics::{Snapshot, Statistics};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use sweephand_director::{Budget, Counts, Direction, Faults, Order};

/// A program that is running under the kernel's paging, directed by a policy.
pub struct SwapRun {
    run: KernelRun,
    policy: String,
    by_turns: bool,
    director: Direction,
}

impl SwapRun {
    /// Starts a program: its name, and its arguments. `prepare` sees to its streams and whatever
    /// else is not paging.
    pub fn start(
        command: &[OsString],
        options: &Options,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, RunError> {
        let policy = options.policy.to_string();
        let bits = check(&options.policy)?;
        let memory = KernelMemory::Limited { limit_bytes: options.limit_bytes, swap: options.swap.clone() };
        let mut faults = None;
        let run = KernelRun::start(command, &memory, |command| {
            forbid_huge_pages(command);
            prepare(command);
            // The program inherits the events, and nothing else is started between.
            faults = Some(Faults::of_children());
        })?;
        let faults =
            faults.unwrap_or_else(|| Err(std::io::ErrorKind::Unsupported.into())).map_err(no_events)?;
        let budget = Budget::of_cgroup(run.cgroup().ok_or(RunError::Root)?);
        let director = direct(Order {
            bits,
            faults,
            budget,
            policy: options.policy.clone(),
            prefetch_pages: options.prefetch_pages,
            by_turns: options.by_turns,
            process: run.child().id(),
        })?;
        Ok(Self { run, policy, by_turns: options.by_turns, director })
    }
}

/// The policy chooses among small pages; huge ones would only be split.
fn forbid_huge_pages(command: &mut Command) {
    // SAFETY: between fork and exec this makes one system call.
    unsafe {
        command.pre_exec(|| {
            // A kernel without huge pages refuses, which does no harm.
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
            Ok(())
        });
    }
}

impl Watched for SwapRun {
    fn snapshot(&self) -> Snapshot {
        self.run.snapshot()
    }

    fn has_ended(&self) -> bool {
        self.run.has_ended()
    }
}

impl Running for SwapRun {
    fn child(&self) -> &Child {
        self.run.child()
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.run.statistics();
        add_to_kernels(&mut statistics, &self.policy, self.by_turns, self.director.counts());
        statistics
    }

    fn wait(self: Box<Self>) -> Result<Ended, RunError> {
        let Self { run, policy, by_turns, director } = *self;
        let mut ended = run.wait_and(|| director.stop())?;
        let counts = director.counts();
        add_to_kernels(&mut ended.statistics, &policy, by_turns, counts);
        ended.statistics.user_ns += counts.user.as_nanos() as u64;
        ended.statistics.sys_ns += counts.system.as_nanos() as u64;
        Ok(ended)
    }
}

/// Adds what the director has counted to what the kernel has. In turns, the kernel alone knows all
/// pages that came back.
fn add_to_kernels(statistics: &mut Statistics, policy: &str, by_turns: bool, counts: Counts) {
    let (refaults, most) = (statistics.refaults, statistics.peak_resident_pages);
    add(statistics, policy, counts);
    if by_turns {
        (statistics.refaults, statistics.peak_resident_pages) = (refaults, most);
    }
}
