//! The command's side of several tasks: the loop that takes what happens to the decisions, and what
//! is decided to the processes.
//!
//! ```text
//!   processes ── reports, calls, ends, clocks ──▶ decisions (schedule, frames)
//!       ▲                                              │
//!       └──────── instructions, programs to start ─────┘
//! ```
//!
//! `schedule` says which tasks are active, `frames` who has which frames and whose pages go.
//! Neither has sockets. `processes` has the agents' sockets, the programs and the cgroup, and
//! decides nothing.

use super::decisions::Decisions;
use super::file::Job;
use super::frames::Frames;
use super::ledger::{Ledger, MappedState};
use super::link::processor_ns;
use super::options::TaskOptions;
use super::processes::{Processes, prepare};
use super::schedule::{Next, Schedule, TICK};
use super::statistics::{TaskStatistics, TasksStatistics};
use super::watch::TasksWatch;
use crate::PAGE_BYTES;
use crate::error::{RunError, system};
use crate::run::{check_limit, check_swap};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use sweephand_policy::task_registry::{Made, TASK_POLICIES, TaskSpec};

/// How often to look at the clocks if nothing waits.
const IDLE: Duration = Duration::from_millis(100);
/// The least that pagers take. The policy is made for what is left.
const PAGER_PAGES: u64 = 224;

/// Runs tasks until they end. Each byte from `signals` is the number of a signal for all tasks. The
/// running tasks get the signal, no other task starts, and no task is held any more. Another thread
/// can look at `watch` meanwhile.
pub fn run_tasks(
    jobs: &[Job],
    options: &TaskOptions,
    signals: OwnedFd,
    watch: &TasksWatch,
) -> Result<TasksStatistics, RunError> {
    let _running = watch.until_the_end();
    check_limit(options.limit_bytes)?;
    let directory = check_swap(&options.swap)?;
    let programs = prepare(jobs)?;
    let policy_frames = (options.limit_bytes / PAGE_BYTES - PAGER_PAGES) as usize;
    let policy = make_policy(&options.policy, policy_frames)?;
    let limits_loading = options.policy.limits_loading().unwrap_or(options.load_control.lt_rt);
    let now = Instant::now();
    let delays = jobs.iter().map(|job| (job.name.clone(), Duration::from_millis(job.delay_ms)));
    let schedule = Schedule::new(delays, &options.load_control, policy.load_control(), limits_loading, now);
    let all_frames = (options.limit_bytes / PAGE_BYTES) as usize;
    let frames = Frames::new(policy, policy_frames, all_frames, jobs.len(), schedule.needs_claims(), now);
    let processes = Processes::new(options, directory, programs, signals, watch)?;
    let supervisor = Supervisor { decisions: Decisions { schedule, frames }, processes };
    let mut statistics = supervisor.run(watch)?;
    statistics.policy = options.policy.to_string();
    statistics.theta_us = options.policy.theta();
    statistics.lt_rt = limits_loading;
    statistics.memory_limit_bytes = options.limit_bytes;
    Ok(statistics)
}

fn make_policy(spec: &TaskSpec, frames: usize) -> Result<Made<Ledger>, RunError> {
    let made = spec.make(frames);
    let made = made.map_err(|error| system("policy".to_string())(io::Error::other(error.to_string())))?;
    made.ok_or_else(|| {
        let others = TASK_POLICIES.iter().map(|entry| entry.info.name);
        let live = others.map(|name| if name == "ws" { "ws:lr=sampled" } else { name });
        RunError::Policy { policy: spec.to_string(), live: live.collect::<Vec<_>>().join(" ") }
    })
}

struct Supervisor<'a> {
    decisions: Decisions,
    processes: Processes<'a>,
}

impl Supervisor<'_> {
    fn run(mut self, watch: &TasksWatch) -> Result<TasksStatistics, RunError> {
        loop {
            self.decisions.look_at_clocks(self.processes.processor_ns());
            self.start_programs()?;
            self.decisions.answer_questions();
            self.send_instructions();
            let (active, left) = self.decisions.schedule.counts();
            watch.set(active, left, self.decisions.frames.resident_pages());
            if left == 0 {
                return Ok(self.finish());
            }
            self.wait()?;
        }
    }

    /// Starts the programs of tasks that are active for the first time.
    fn start_programs(&mut self) -> Result<(), RunError> {
        while let Some(next) = self.decisions.next() {
            match next {
                Next::Start(task) => {
                    self.processes.widen_cgroup(self.decisions.frames.lent(), 1)?;
                    if !self.processes.start(task)? {
                        self.decisions.end(task);
                    }
                }
                Next::Drop(task) => self.decisions.end(task),
            }
        }
        Ok(())
    }

    fn send_instructions(&mut self) {
        for number in self.processes.numbers() {
            let words = self.decisions.frames.take_instructions(number);
            if !self.processes.send(number, &words) {
                self.hang_up(number);
            }
        }
    }

    /// Waits until something happens, and handles it.
    fn wait(&mut self) -> Result<(), RunError> {
        let timeout = if self.decisions.is_busy() { TICK } else { IDLE };
        let events = self.processes.wait(timeout)?;
        self.decisions.set_now(Instant::now());
        // What an agent has reported comes before any later call.
        for number in events.speaking {
            let heard = self.processes.listen(number);
            self.decisions.frames.hear(number, &heard.reports);
            if heard.has_ended {
                self.hang_up(number);
            }
        }
        if events.has_callers {
            self.take_calls()?;
        }
        for task in events.ended {
            if self.processes.reap(task) {
                self.decisions.end(task);
            }
        }
        if events.has_signals && self.processes.take_signals() {
            self.decisions.schedule.stop();
        }
        Ok(())
    }

    fn take_calls(&mut self) -> Result<(), RunError> {
        for call in self.processes.take_calls() {
            let Ok(shared) = MappedState::map(&call.shared) else { continue };
            let first_ns = processor_ns(call.pid).unwrap_or(0);
            if let Some(number) = self.decisions.admit(call.task, call.granted, first_ns, shared) {
                self.processes.connect(number, call);
            }
        }
        // The cgroup must have the room before any of them learns that it is admitted.
        Ok(self.processes.widen_cgroup(self.decisions.frames.lent(), 0)?)
    }

    fn hang_up(&mut self, number: usize) {
        self.processes.hang_up(number);
        self.decisions.frames.dismiss(number);
    }

    /// Ends the run. Returns what was counted.
    fn finish(self) -> TasksStatistics {
        let mut statistics = self.decisions.finish();
        self.processes.finish(&mut statistics);
        let tasks = &statistics.tasks;
        // The counts come from the tasks' processes, so they may be any numbers.
        let sum = |of: fn(&TaskStatistics) -> u64| tasks.iter().map(of).fold(0, u64::saturating_add);
        TasksStatistics {
            user_ns: sum(|task| task.user_ns),
            sys_ns: sum(|task| task.sys_ns),
            utilization: sum(|task| task.virtual_ns) as f64 / statistics.wall_ns as f64,
            faults: sum(|task| task.faults),
            refaults: sum(|task| task.refaults),
            evictions: sum(|task| task.evictions),
            ..statistics
        }
    }
}
