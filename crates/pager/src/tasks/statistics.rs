//! The counts of a run of tasks.

use std::sync::atomic::Ordering::Relaxed;
use sweephand_pager_interface::control::Counters;
use sweephand_process::cgroup::CgroupCounts;

/// Counts of a task, over all of its processes. Each field is written out under its own name, in
/// this order, so they are not grouped.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct TaskStatistics {
    /// What the file calls it.
    pub name: String,
    /// Its exit status; 128 and the signal's number if a signal ended it; none if it was never
    /// started, or could not be.
    pub exit_status: Option<i32>,
    /// Why its pager could not go on, or why it was not started.
    pub failure: Option<String>,
    /// From the start of the run until it was ready.
    pub ready_ns: u64,
    /// From then until it was first activated.
    pub waited_ns: u64,
    /// From its first activation to its end.
    pub wall_ns: u64,
    /// Of that, the time that it was active.
    pub active_ns: u64,
    /// Processor time in user mode, its pager's included.
    pub user_ns: u64,
    /// Processor time in the kernel, its pager's included.
    pub sys_ns: u64,
    /// Its virtual time: processor time without its pager's.
    pub virtual_ns: u64,
    /// Times that it was activated.
    pub activations: u64,
    /// Times that it was deactivated because memory was overcommitted, or the paging device too
    /// busy.
    pub deactivations: u64,
    /// Times that its slice ended.
    pub slice_ends: u64,
    /// Faults that the pager answered, rescues apart.
    pub faults: u64,
    /// Of these, on pages never touched before, or dropped by the program.
    pub zero_fill_faults: u64,
    /// Of these, on pages that had been evicted.
    pub refaults: u64,
    /// Faults on pages unmapped only to see whether they are in use.
    pub rescues: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Pages read from the backing store.
    pub pages_read: u64,
    /// Pages written to the backing store.
    pub pages_written: u64,
    /// Processes that had a pager.
    pub processes: u64,
}

impl TaskStatistics {
    pub(crate) fn count(&mut self, counters: &Counters) {
        self.faults = counters.faults.load(Relaxed);
        self.zero_fill_faults = counters.zero_fill_faults.load(Relaxed);
        self.refaults = counters.refaults.load(Relaxed);
        self.rescues = counters.rescues.load(Relaxed);
        self.evictions = counters.evictions.load(Relaxed);
        self.pages_read = counters.pages_read.load(Relaxed);
        self.pages_written = counters.pages_written.load(Relaxed);
        self.processes = counters.agents.load(Relaxed);
    }
}

/// Counts of a run. Each field is written out under its own name, in this order, so they are not
/// grouped.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct TasksStatistics {
    /// The policy, as typed.
    pub policy: String,
    /// The window of working sets, in microseconds of processor time, for policies that have one.
    pub theta_us: Option<u64>,
    /// Whether the number of loading tasks was limited.
    pub lt_rt: bool,
    /// Memory of all tasks and their pagers together.
    pub memory_limit_bytes: u64,
    /// From start to end.
    pub wall_ns: u64,
    /// Processor time in user mode, of all tasks and their pagers.
    pub user_ns: u64,
    /// Processor time in the kernel, of all tasks and their pagers.
    pub sys_ns: u64,
    /// Processor time of the command itself, which chooses the victims.
    pub command_ns: u64,
    /// Processor time of the tasks without that of pagers, as a share of what one processor had to
    /// give.
    pub utilization: f64,
    /// Mean number of active tasks: the level of multiprogramming.
    pub mean_active_tasks: f64,
    /// Most tasks active at a time.
    pub most_active_tasks: u64,
    /// Most tasks loading at a time.
    pub most_loading_tasks: u64,
    /// Faults that pagers answered, rescues apart.
    pub faults: u64,
    /// Of these, on pages that had been evicted.
    pub refaults: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Times that a task was deactivated.
    pub deactivations: u64,
    /// Victims that the policy named.
    pub replacements: u64,
    /// Of these, those named although no page was replaceable.
    pub forced_replacements: u64,
    /// Pages that the policy's hand looked at, for policies with a hand.
    pub hand_steps: Option<u64>,
    /// Largest number of frames lent at a time.
    pub peak_lent_pages: u64,
    /// Processes that outlived the task that they belonged to, and were ended with the run.
    pub left_behind: u64,
    /// What the kernel counted of the cgroup that all of them are in.
    #[serde(flatten)]
    pub cgroup: CgroupCounts,
    /// Processes that the kernel ended because the cgroup's limit left them no memory.
    pub cgroup_oom_kills: u64,
    /// Each task.
    pub tasks: Vec<TaskStatistics>,
}
