//! A program that is started under the kernel's paging, directed by a policy.

use super::directing::{add, check, direct, no_events};
use crate::error::{RunError, system};
use crate::kernel::{KernelMemory, KernelRun};
use crate::options::{Options, PoolSize};
use crate::run::{Ended, Running, Watched, swap_directory};
use crate::statistics::{Snapshot, Statistics};
use crate::store_speed;
use crate::swap_file;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;
use sweephand_director::{Budget, Choosers, Counts, Direction, Faults, Order, ZramTrial};
use sweephand_process::following_limit::FollowingLimit;

/// From this read time on, a disk is so slow that compressed memory pays for most programs.
const SLOW_READ: Duration = Duration::from_micros(100);

/// A program that is running under the kernel's paging, directed by a policy.
pub struct SwapRun {
    // The director ends before the swap areas are removed.
    director: Direction,
    run: KernelRun,
    policy: String,
    choosers: Choosers,
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
        let is_auto = options.pool.is_auto();
        let read = match options.by_turns || is_auto {
            true => store_speed::measure(&swap_directory(&options.swap)?).ok(),
            false => None,
        };
        let is_slow = read.is_some_and(|read| read >= SLOW_READ);
        let pool =
            if options.pool == PoolSize::AutoIfSlow && !is_slow { PoolSize::Off } else { options.pool };
        let (limit_bytes, swap) = (options.limit_bytes, options.swap.clone());
        let memory = KernelMemory::Limited { limit_bytes, swap, pool };
        // Where a read cannot be measured, the director takes a usual value.
        let choosers = if options.by_turns { Choosers::Both { read } } else { Choosers::Policy };
        let mut faults = None;
        let run = KernelRun::start_to_be_directed(command, &memory, |command| {
            forbid_huge_pages(command);
            prepare(command);
            // The program inherits the events, and nothing else is started between.
            faults = Some(Faults::of_children());
        })?;
        let faults =
            faults.unwrap_or_else(|| Err(std::io::ErrorKind::Unsupported.into())).map_err(no_events)?;
        let (cgroup, zram) = run.memory().ok_or(RunError::Root)?;
        let zram_trial = run.second_file().filter(|_| is_auto).map(|second_file| ZramTrial {
            read: read.unwrap_or(SLOW_READ),
            second_file,
            create: swap_file::create_second,
        });
        let limit =
            FollowingLimit::new(cgroup, zram).map_err(system("the cgroup's limit cannot follow".into()))?;
        let budget = Budget::of_cgroup(limit);
        let director = direct(Order {
            bits,
            faults,
            budget,
            policy: options.policy.clone(),
            prefetch_pages: options.prefetch_pages,
            choosers,
            zram_trial,
            process: run.child().id(),
        })?;
        Ok(Self { director, run, policy, choosers })
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
        add_to_kernels(&mut statistics, &self.policy, self.choosers, self.director.counts());
        statistics
    }

    fn wait(self: Box<Self>) -> Result<Ended, RunError> {
        let Self { run, policy, choosers, director } = *self;
        let mut ended = run.wait_and(|| director.stop())?;
        let counts = director.counts();
        add_to_kernels(&mut ended.statistics, &policy, choosers, counts);
        ended.statistics.user_ns += counts.user.as_nanos() as u64;
        ended.statistics.sys_ns += counts.system.as_nanos() as u64;
        Ok(ended)
    }
}

/// Adds what the director has counted to what the kernel has. In turns, the kernel alone knows all
/// pages that came back.
fn add_to_kernels(statistics: &mut Statistics, policy: &str, choosers: Choosers, counts: Counts) {
    let (refaults, most) = (statistics.refaults, statistics.peak_resident_pages);
    add(statistics, policy, counts);
    if let Choosers::Both { read } = choosers {
        statistics.store_read_ns = read.map(|read| read.as_nanos() as u64);
        (statistics.refaults, statistics.peak_resident_pages) = (refaults, most);
    }
}
