//! A program under the kernel's own paging, for comparison with a run.
//!
//! A limited program is in a memory cgroup. Its limit is the budget that a process would have under
//! the pager. Its swap file is where the pager's backing store would be. Before it there may be a
//! zram device, for which the limit becomes lower. An unlimited program starts as it would without
//! Sweephand.

use crate::cleanup::Cleanup;
use crate::error::{RunError, system};
use crate::fresh_counts::FreshCounts;
use crate::options::PoolSize;
use crate::program::ProgramError;
use crate::run::{Ended, Running, Watched, check_limit, check_pool, swap_directory};
use crate::statistics::{Snapshot, Statistics};
use crate::{PAGE_BYTES, swap_file};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Instant;
use sweephand_pager_interface::memory::kernel_share;
use sweephand_process::cgroup::{Cgroup, Contents, Swap, field};
use sweephand_process::following_limit::FollowingLimit;
use sweephand_process::usage;
use sweephand_process::zram::Zram;
use sweephand_program::ownership::{self, OwnershipError};

/// Memory for a program under the kernel.
#[derive(Clone, Debug)]
pub enum KernelMemory {
    /// All of the machine's memory.
    Unlimited,
    /// A memory cgroup with swap. Needs root.
    Limited {
        /// The memory that a pager would get. The cgroup gets [`kernel_share`] on top, which is
        /// part of a pager's budget as well.
        limit_bytes: u64,
        /// The directory of the swap file, or the name of a file in it.
        swap: PathBuf,
        /// The part of the memory for a zram device before the swap file. What the device takes is
        /// taken off the cgroup's limit, however much it is.
        pool: PoolSize,
    },
}

/// A program that is running under the kernel.
pub struct KernelRun {
    program: PathBuf,
    child: Child,
    started: Instant,
    limited: Option<Limited>,
}

struct Limited {
    limit_bytes: u64,
    pool_bytes: u64,
    cgroup: Arc<Cgroup>,
    /// The cgroup's limit, and what a zram device takes.
    budget_bytes: u64,
    zram: Option<Arc<Zram>>,
    swap: PathBuf,
    // These two are ended before the cgroup is removed.
    fresh_counts: FreshCounts,
    /// Has the cgroup's limit follow what the device takes, unless a director does.
    follower: Option<FollowingLimit>,
    cleanup: Cleanup,
    /// Pages swapped in and out on the whole machine before the start.
    before: (Option<u64>, Option<u64>),
}

impl KernelRun {
    /// Starts a program: its name and its arguments. `prepare` sets up its streams and everything
    /// else that is not memory.
    pub fn start(
        command: &[OsString],
        memory: &KernelMemory,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, RunError> {
        let mut run = Self::start_to_be_directed(command, memory, prepare)?;
        if let Some(limited) = &mut run.limited {
            limited.follow().map_err(system("the cgroup cannot be watched".into()))?;
        }
        Ok(run)
    }

    /// The same, but the caller has the limit follow what the zram device takes.
    pub(crate) fn start_to_be_directed(
        command: &[OsString],
        memory: &KernelMemory,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, RunError> {
        let name = command.first().cloned().unwrap_or_default();
        if let KernelMemory::Limited { limit_bytes, pool, .. } = memory {
            check_limit(*limit_bytes)?;
            check_pool(pool.device_bytes(*limit_bytes), *limit_bytes, 0)?;
        }
        let program = sweephand_program::locate(&name).map_err(ProgramError::from)?;
        let limited = match memory {
            KernelMemory::Unlimited => None,
            KernelMemory::Limited { limit_bytes, swap, pool } => {
                Some(Limited::new(*limit_bytes, swap, *pool)?)
            }
        };
        let mut start = Command::new(&name);
        start.args(command.get(1..).unwrap_or_default());
        if let Some(limited) = &limited {
            limited.cgroup.enter(&mut start)?;
        }
        prepare(&mut start);
        let started = Instant::now();
        let child = start.spawn().map_err(system(format!("{}: cannot be started", program.display())))?;
        Ok(Self { program, child, started, limited })
    }
}

impl Limited {
    fn new(limit_bytes: u64, swap: &Path, pool: PoolSize) -> Result<Self, RunError> {
        if !rustix::process::geteuid().is_root() {
            return Err(RunError::Root);
        }
        let directory = swap_directory(swap)?;
        // The kernel and the process that removes the swap file both find it by name.
        let refused = |error: OwnershipError| RunError::Swap { path: swap.into(), reason: error.to_string() };
        let directory = ownership::sticky_directory(&directory).map_err(refused)?;
        let budget_bytes = limit_bytes + kernel_share(limit_bytes);
        let cgroup = Cgroup::new(budget_bytes, Swap::On)?;
        let swap = swap_file::name(&directory, cgroup.path());
        let mut cleanup = Cleanup::start(Some(&cgroup), Some(&swap), None)
            .map_err(system("/bin/sh: cannot be started".into()))?;
        let pool_bytes = pool.device_bytes(limit_bytes);
        let zram = match pool_bytes {
            0 => Ok(None),
            bytes => swap_file::create_zram(&mut cleanup, bytes, limit_bytes, pool.is_auto())
                .map(|zram| Some(Arc::new(zram))),
        };
        // Nobody has asked for this one.
        let zram = if pool == PoolSize::AutoIfSlow { zram.unwrap_or_default() } else { zram? };
        swap_file::create(&swap, swap_file::rank_beside_others())?;
        let cgroup = Arc::new(cgroup);
        let fresh_counts =
            FreshCounts::keep(Arc::clone(&cgroup)).map_err(system("the cgroup cannot be watched".into()))?;
        Ok(Self {
            limit_bytes,
            pool_bytes,
            cgroup,
            budget_bytes,
            zram,
            swap,
            fresh_counts,
            follower: None,
            cleanup,
            before: (of_machine("pswpin"), of_machine("pswpout")),
        })
    }

    /// The limit is what the zram device leaves, from now on.
    fn follow(&mut self) -> io::Result<()> {
        if self.zram.is_some() {
            self.follower = Some(FollowingLimit::new(Arc::clone(&self.cgroup), self.zram.clone())?);
        }
        Ok(())
    }

    /// Pages moved since the start. The cgroup's own count if the kernel keeps one, otherwise the
    /// machine's.
    fn swapped(&self, name: &str, before: Option<u64>) -> Option<u64> {
        self.cgroup.stat(name).or_else(|| Some(of_machine(name)?.saturating_sub(before?)))
    }
}

/// Whether a program has ended as it does when a page of its memory cannot come: by a signal, or as
/// a shell has it of such a program.
fn has_crashed(status: ExitStatus) -> bool {
    const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
    let is_one = |number: i32| SIGNALS.contains(&number);
    status.signal().is_some_and(is_one) || status.code().is_some_and(|code| is_one(code - 128))
}

/// Whether page tables and the like, which cannot be paged, have taken most of the limit. A thread
/// whose page of restartable sequences is swapped out then gets a SIGSEGV from the kernel, which
/// cannot bring that page back as it resumes the thread. What the tables have not taken need not be
/// free: a director's own memory is part of the limit, pages on their way to swap count, and the
/// kernel charges in advance for each processor.
fn does_not_fit(contents: Contents, limit_bytes: u64) -> bool {
    contents.kernel_bytes > limit_bytes / 2
}

/// A counter of the whole machine.
pub(crate) fn of_machine(name: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/vmstat").ok()?, name)
}

impl Watched for KernelRun {
    fn snapshot(&self) -> Snapshot {
        let charged = self.limited.as_ref().and_then(|limited| limited.cgroup.usage_bytes());
        Snapshot::new(&self.statistics(), charged.unwrap_or_default() / PAGE_BYTES)
    }

    fn has_ended(&self) -> bool {
        usage::has_ended(&self.child)
    }
}

impl Running for KernelRun {
    fn child(&self) -> &Child {
        &self.child
    }

    fn statistics(&self) -> Statistics {
        let limit_bytes = self.limited.as_ref().map(|limited| limited.limit_bytes);
        let policy = if limit_bytes.is_some() { "kernel" } else { "native" };
        let mut statistics = Statistics::of_kernel(policy, limit_bytes, self.started.elapsed());
        if let Some(limited) = &self.limited {
            let (read, written) = limited.before;
            statistics.faults = limited.cgroup.stat("pgfault").unwrap_or_default();
            statistics.refaults = limited.cgroup.stat("workingset_refault_anon");
            statistics.pages_read = limited.swapped("pswpin", read);
            statistics.pages_written = limited.swapped("pswpout", written);
            statistics.budget_bytes = Some(limited.budget_bytes);
            statistics.cgroup = limited.cgroup.counts();
            statistics.cgroup.limit_bytes = Some(limited.budget_bytes);
            if let Some(zram) = &limited.zram {
                statistics.set_zram(zram.counts(), limited.pool_bytes);
            }
        }
        statistics
    }

    fn wait(self: Box<Self>) -> Result<Ended, RunError> {
        self.wait_and(|| {})
    }
}

impl KernelRun {
    /// The program's cgroup and its zram device, if it is limited and has one.
    pub(crate) fn memory(&self) -> Option<(Arc<Cgroup>, Option<Arc<Zram>>)> {
        self.limited.as_ref().map(|limited| (Arc::clone(&limited.cgroup), limited.zram.clone()))
    }

    /// The name that a second swap file would have.
    pub(crate) fn second_file(&self) -> Option<PathBuf> {
        self.limited.as_ref().map(|limited| swap_file::name_of_second(&limited.swap))
    }

    /// Waits for the program. `release` is called when it has ended, before its cgroup is removed.
    pub(crate) fn wait_and(self, release: impl FnOnce()) -> Result<Ended, RunError> {
        let waited = usage::wait(&self.child);
        // Whatever else uses the swap areas ends before they are removed.
        release();
        let (status, usage) =
            waited.map_err(system(format!("{}: cannot be waited for", self.program.display())))?;
        let mut statistics = self.statistics();
        statistics.ended(status, &usage);
        statistics.faults = usage.minor_faults + usage.major_faults;
        statistics.major_faults = Some(usage.major_faults);
        if let Some(limited) = self.limited {
            let (kills, limit_bytes) = (limited.cgroup.oom_kills(), limited.cgroup.limit_bytes());
            let mut contents = limited.fresh_counts.most_kernel();
            // Tables grow fast, and on a busy machine the last look was long before the end.
            let most_bytes = limited.cgroup.most_kernel_bytes().unwrap_or_default();
            contents.kernel_bytes = contents.kernel_bytes.max(most_bytes);
            if let Some(follower) = &limited.follower {
                let (user, system) = follower.processor_times();
                statistics.user_ns += user.as_nanos() as u64;
                statistics.sys_ns += system.as_nanos() as u64;
            }
            drop((limited.fresh_counts, limited.follower));
            limited.cleanup.finish();
            if kills > 0 || has_crashed(status) && does_not_fit(contents, limit_bytes) {
                let contents = Some(contents);
                return Err(RunError::TooLarge { program: self.program, limit_bytes, contents });
            }
        }
        Ok(Ended { status, statistics })
    }
}
