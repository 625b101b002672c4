//! A program under the kernel's paging, directed by a policy: `run --backend swap`.
//!
//! The kernel pages: it takes pages from the program, writes them to a swap file, and brings them
//! back. A thread of the command, the director, chooses: it makes the kernel page out what the
//! policy gives up, before the cgroup's limit is reached, and makes it read ahead. Nothing is
//! loaded into the program, so any program can be run: static, written in Go, setuid, a tree of
//! processes. If the director falls behind, the kernel goes on by itself.
//!
//! ```text
//!   faults      page faults of all processes (performance events)  --> a page has come
//!   memory      accessed bits (BPF), cleared by MADV_COLD          <-> the policy's question
//!   director    the policy's victims, in batches                   --> MADV_PAGEOUT
//!   streams     runs of faults                                     --> MADV_WILLNEED
//!   history     faults in the order of an earlier time             --> MADV_WILLNEED
//!   budget      what the cgroup has left                           --> the policy's frames
//! ```
//!
//! The advice goes by `process_madvise(2)`. A page that is paged out leaves the program at once and
//! stays in the kernel's swap cache until it has been written; then the kernel takes it back when
//! memory is asked for. That is what the budget keeps a little room for.
//!
//! **Who is faster.** The kernel's own choice is often as good as the policy's, and cheaper. With
//! [`Options::by_turns`], the director leaves the choice to the kernel until a trial shows that the
//! policy is faster (`trial`). Meanwhile it reads ahead, as long as that pays (`stage`), and has
//! the kernel take memory back before the program needs it (`budget`).
//!
//! **Whose pages.** All processes of the program are in one cgroup, have one limit, and their pages
//! compete under one policy. Pages that processes share after a fork are left to the kernel, until
//! one process has them alone. So are pages of files and of shared memory.
//!
//! **A running process** is limited by the same director, without a cgroup (`attached`).
//!
//! **When memory is short.** The kernel kills a process if it finds nothing to take back, even if
//! most of the memory is just being written. Under cgroups of version 1, processes wait instead,
//! and the director pages out more. What cannot wait fails: a fork may be refused. If the command
//! is stopped meanwhile, they wait until it continues.
//!
//! **What can be missed.** The director learns of a page a moment after it has come. It sees no
//! unmapping and no move; it finds the page missing when it looks. A page that is unmapped and used
//! anew between two looks counts as having come back. The kernel may take pages on its own, when
//! the director is late: these are counted (`overruled_pages`).

mod attached;
mod budget;
mod director;
mod faults;
mod history;
mod memory;
mod pages;
mod stage;
mod streams;
mod trial;
mod turns;

use crate::PAGE_BYTES;
use crate::error::{RunError, system};
use crate::kernel::{KernelMemory, KernelRun};
use crate::options::Options;
use crate::run::{Ended, Running, Watched};
use crate::statistics::{Glance, Statistics};
pub use attached::AttachedRun;
use budget::Budget;
use director::{Counts, Parts, direct};
use faults::Faults;
use memory::Memory;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use sweephand_pager_interface::spec::LiveSpec;
use sweephand_process::accessed::ProcessBits;

/// A program that is running under the kernel's paging, directed by a policy.
pub struct SwapRun {
    run: KernelRun,
    policy: String,
    by_turns: bool,
    director: Director,
}

/// The director's thread.
struct Director {
    counts: Arc<Mutex<Counts>>,
    stop: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Director {
    /// Starts it. `parts` gets what tells it to stop, and where it is to count.
    fn start(parts: impl FnOnce(OwnedFd, Arc<Mutex<Counts>>) -> Parts) -> Result<Self, RunError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = stop.map_err(|error| system("eventfd".into())(error.into()))?;
        let counts = Arc::new(Mutex::new(Counts::default()));
        let parts = parts(stop.try_clone().map_err(system("eventfd".into()))?, Arc::clone(&counts));
        let thread = thread::Builder::new().name("director".to_string()).spawn(move || direct(parts));
        let thread = thread.map_err(system("a thread cannot be started".into()))?;
        Ok(Self { counts, stop, thread: Mutex::new(Some(thread)) })
    }

    fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(|error| error.into_inner())
    }

    /// Has it end. The counts are complete then.
    fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        let thread = self.thread.lock().unwrap_or_else(|error| error.into_inner()).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
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
        let director = Director::start(|stop, counts| Parts {
            memory: Memory::new(bits),
            faults,
            budget,
            spec: options.policy.clone(),
            prefetch_pages: options.prefetch_pages,
            by_turns: options.by_turns,
            process: run.child().id(),
            stop,
            counts,
        })?;
        Ok(Self { run, policy, by_turns: options.by_turns, director })
    }
}

fn no_events(error: std::io::Error) -> RunError {
    RunError::NoDirection(format!("performance events: {error}"))
}

/// Whether the kernel can be directed here, by this policy. Returns what reads accessed bits.
fn check(policy: &LiveSpec) -> Result<ProcessBits, RunError> {
    const SOME_FRAMES: usize = 1000;
    if !rustix::process::geteuid().is_root() {
        return Err(RunError::Root);
    }
    match director::make(policy, SOME_FRAMES) {
        Some(Ok(_)) => {
            // The events are opened anew when the program starts.
            let _ = Faults::of_children().map_err(no_events)?;
            ProcessBits::load().map_err(|error| RunError::NoDirection(error.to_string()))
        }
        Some(Err(error)) => Err(RunError::NoDirection(error.to_string())),
        None => Err(RunError::NoDirection(format!(
            "policy '{policy}' goes by the program's own time, which is not known here; choose another with --policy"
        ))),
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

impl Drop for Director {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Watched for SwapRun {
    fn glance(&self) -> Glance {
        self.run.glance()
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

/// Adds what the director has counted.
fn add(statistics: &mut Statistics, policy: &str, counts: Counts) {
    statistics.policy = policy.to_string();
    statistics.backend = Some("swap".to_string());
    statistics.reference_bits = Some("hardware".to_string());
    statistics.zero_fill_faults = Some(counts.first_touches);
    statistics.refaults = Some(counts.refaults);
    statistics.evictions = Some(counts.evictions);
    statistics.overruled_pages = Some(counts.overruled);
    statistics.directed_ns = Some(counts.directed.as_nanos() as u64);
    statistics.unasked_pages = Some(counts.asked_ahead);
    statistics.unused_pages = Some(counts.unused_ahead);
    statistics.objects = Some(counts.objects);
    statistics.peak_pager_pages = Some(counts.peak_own_bytes.div_ceil(PAGE_BYTES as usize) as u64);
    statistics.hand_steps = Some(counts.hand_steps);
    if let Some(leader) = counts.leader {
        statistics.set_leader(policy, leader.expert, leader.changes);
    }
    if counts.peak_resident > 0 {
        statistics.peak_resident_pages = counts.peak_resident as u64;
    }
}
