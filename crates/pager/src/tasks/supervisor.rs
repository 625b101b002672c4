//! The command's side of several tasks. It lends frames, asks the policy for victims, and decides
//! which tasks are active.
//!
//! ```text
//!   agents' reports ──▶ the policy is told ──▶ who may be active? ──▶ questions answered, oldest first ──▶ orders
//!          ▲             (ledger)               (load control)        free frames, or the policy's victims     │
//!          └────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A frame is free, lent to a process, or owed: its process has the order to give it back. These
//! are the policy's answers and what follows from them:
//!
//! - `Evict`: the page's agent gets an order. If that agent asked for frames, it keeps this frame
//!   as the answer. Otherwise it owes the frame.
//! - `Wait`: pages for which tasks waited have not been used yet, or an agent is silent. The
//!   supervisor asks again at the next report and every few milliseconds.
//! - `Overcommitted`: load control deactivates a task, and its pages become replaceable. If only
//!   one task is active, or load control deactivates none, the policy replaces a page regardless.
//!
//! Questions of running tasks come before those of loading tasks, like reads in the paper's paging
//! queue. The supervisor answers a question only with all the frames that were asked for. So no
//! process keeps frames that are too few to go on.

use super::file::{Deactivate, Job, LoadControlOptions};
use super::ledger::{Ledger, SharedBoard};
use super::link::{Heard, Link, Switchboard, processor_ns};
use super::load_control::{Load, LoadController};
use super::statistics::{TaskStatistics, TasksStatistics};
use super::watch::TasksWatch;
use crate::cgroup::{CgroupError, kernel_share};
use crate::enclosure::Enclosure;
use crate::launch::{ControlBlock, Library, text};
use crate::run::{RunError, check_limit, check_swap, file_bytes, pid_namespace, system};
use crate::{MOST_PREFETCH_PAGES, PAGE_BYTES, program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sweephand_agent::control::{Backend, MAGIC, Order as ControlOrder, Text};
use sweephand_agent::lease::{MOST_OPERAND, Order, Report};
use sweephand_policy::task_registry::{TaskSpec, TaskVisitor};
use sweephand_policy::{Claim, PageId, Reclaim, TaskId, TaskMmu, TaskPolicy, VirtualTime};

/// How often to look at the clocks while a question or a task waits, or load control may deactivate
/// a task.
const TICK: Duration = Duration::from_millis(5);
/// How often to look at them otherwise.
const IDLE: Duration = Duration::from_millis(100);
/// Frames to take back at a time when more are lent than there are. This happens when a child has
/// come with its parent's pages.
const OVERDRAFT_STEP: i64 = 256;
/// Virtual time, in microseconds, for which an inactive task may go on before its pages are
/// unmapped.
const GRACE_US: VirtualTime = 2_000;
/// If no report has come for this long, a question without an answer will never get one.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// The least that pagers take. The policy is made for what is left.
const PAGER_PAGES: u64 = 224;
/// Words that an agent may leave unread, besides those that its pages and frames account for. A
/// process that leaves more is not one of our agents.
const MOST_UNREAD_WORDS: usize = 1 << 16;
/// A task is idle if it has had no processor time for this long and waits for no page: it sleeps,
/// or was stopped.
const IDLE_AFTER: Duration = Duration::from_millis(500);

/// Options for running tasks.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Memory of all tasks, including their pagers'.
    pub limit_bytes: u64,
    /// The policy. Its windows are in microseconds of processor time.
    pub policy: TaskSpec,
    /// Which tasks may be active.
    pub load_control: LoadControlOptions,
    /// A directory for the backing stores, or the name of a file in one.
    pub swap: PathBuf,
    /// The most pages to read ahead at once; 0 for none.
    pub prefetch_pages: u32,
    /// Whether to use io_uring if the kernel has it.
    pub use_ring: bool,
}

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
    let tasks = prepare(jobs)?;
    let frames = (options.limit_bytes / PAGE_BYTES - PAGER_PAGES) as usize;
    let drive = Drive { options, directory, tasks, signals, watch, frames };
    let made = options.policy.visit::<Ledger, _>(frames, drive);
    made.map_err(|error| system("policy".to_string())(io::Error::other(error.to_string())))?
}

/// Finds the programs and opens the files, so that errors are reported before any task runs.
fn prepare(jobs: &[Job]) -> Result<Vec<Task>, RunError> {
    let mut written: Vec<(u64, u64, &Path)> = Vec::new();
    let mut tasks = Vec::with_capacity(jobs.len());
    for job in jobs {
        program::find(job.command.first().map_or(OsStr::new(""), OsString::as_os_str))?;
        let failed = |what: &Path| system(format!("task '{}': {}", job.name, what.display()));
        if !job.directory.as_os_str().is_empty() && !job.directory.is_dir() {
            return Err(failed(&job.directory)(io::ErrorKind::NotADirectory.into()));
        }
        let input = job.stdin.as_deref().map(|path| File::open(path).map_err(failed(path))).transpose()?;
        let mut create = |path: &Option<PathBuf>, other: Option<&(PathBuf, &File)>| {
            let Some(path) = path.as_deref() else { return Ok(None) };
            // A task's two output streams may go to one file.
            if let Some((_, file)) = other.filter(|(same, _)| same == path) {
                return Ok(Some(file.try_clone().map_err(failed(path))?));
            }
            let file = File::create(path).map_err(failed(path))?;
            let stat = rustix::fs::fstat(&file).map_err(|error| failed(path)(error.into()))?;
            let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
            if is_file
                && written.iter().any(|&(device, inode, _)| (device, inode) == (stat.st_dev, stat.st_ino))
            {
                let twice = io::Error::other("another task writes to this file; put {n} into its name");
                return Err(failed(path)(twice));
            }
            written.push((stat.st_dev, stat.st_ino, Path::new("")));
            Ok(Some(file))
        };
        let output = create(&job.stdout, None)?;
        let both = job.stdout.clone().zip(output.as_ref());
        let errors = create(&job.stderr, both.as_ref())?;
        tasks.push(Task::new(job, [input, output, errors]));
    }
    Ok(tasks)
}

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Its delay has not passed yet.
    Delayed,
    /// In the ready queue: not started, or deactivated.
    Ready,
    Active,
    Done,
}

/// A task, as the supervisor sees it.
struct Task {
    job: Job,
    /// Input, output and errors, until the task starts.
    files: [Option<File>; 3],
    state: State,
    block: Option<ControlBlock>,
    /// The task's first process: its number and its descriptor.
    process: Option<(Pid, OwnedFd)>,
    /// The memory that the task claimed when it was deactivated.
    claim: usize,
    /// Number of the latest activation, counted over all tasks, and its time.
    activation: u64,
    activated_us: VirtualTime,
    activated_at: Instant,
    first_activated_at: Option<Instant>,
    is_loading: bool,
    /// The task's virtual time when it was deactivated, and whether its pages have been unmapped
    /// since.
    deactivated_us: VirtualTime,
    is_frozen: bool,
    /// When the task's virtual time was last seen to advance.
    ran_at: Instant,
    is_idle: bool,
    /// Virtual time of the task's processes that have ended.
    past_ns: u64,
    statistics: TaskStatistics,
}

impl Task {
    fn new(job: &Job, files: [Option<File>; 3]) -> Self {
        Self {
            files,
            state: State::Delayed,
            block: None,
            process: None,
            claim: 0,
            activation: 0,
            activated_us: 0,
            activated_at: Instant::now(),
            first_activated_at: None,
            is_loading: false,
            deactivated_us: 0,
            is_frozen: false,
            ran_at: Instant::now(),
            is_idle: false,
            past_ns: 0,
            statistics: TaskStatistics { name: job.name.clone(), ..Default::default() },
            job: job.clone(),
        }
    }
}

struct Drive<'a> {
    options: &'a TaskOptions,
    directory: PathBuf,
    tasks: Vec<Task>,
    signals: OwnedFd,
    watch: &'a TasksWatch,
    /// Frames for which the policy is made.
    frames: usize,
}

impl TaskVisitor<Ledger> for Drive<'_> {
    type Output = Result<TasksStatistics, RunError>;

    fn visit<P: TaskPolicy<Ledger> + Send>(self, policy: P) -> Self::Output {
        if P::EXACT {
            let others = sweephand_policy::task_registry::TASK_POLICIES.iter().map(|entry| entry.info.name);
            return Err(RunError::Policy {
                policy: self.options.policy.to_string(),
                live: others
                    .map(|name| if name == "ws" { "ws:lr=sampled" } else { name })
                    .collect::<Vec<_>>()
                    .join(" "),
            });
        }
        Supervisor::new(self, policy)?.run()
    }
}

/// The outcome of a question.
#[derive(PartialEq, Eq)]
enum Outcome {
    Answered,
    /// Frames are on their way, or the policy says to wait.
    Later,
    /// The question's task has been deactivated.
    Suspended,
}

struct Supervisor<'a, P> {
    options: &'a TaskOptions,
    directory: PathBuf,
    policy: P,
    ledger: Ledger,
    load_control: LoadController,
    limits_loading: bool,
    tasks: Vec<Task>,
    switchboard: Switchboard,
    links: Vec<Option<Link>>,
    signals: Option<OwnedFd>,
    library: Library,
    enclosure: Enclosure,
    watch: &'a TasksWatch,
    /// All frames, and those that are not lent. The second is negative while a child's pages count
    /// twice.
    frames: usize,
    free: i64,
    /// Frames for which the policy was made.
    policy_frames: usize,
    /// Links with questions, the oldest first.
    questions: VecDeque<usize>,
    /// Inactive tasks. The first is the next to be activated.
    ready: VecDeque<usize>,
    claims: Vec<Claim>,
    /// Memory stays overcommitted until the virtual time of an active task reaches its entry here.
    overcommitted_until: Option<Vec<VirtualTime>>,
    /// Whether the run is to end. Then no task starts and none is held.
    stopping: bool,
    now: Instant,
    started: Instant,
    latest_report: Instant,
    latest_tick: Instant,
    latest_claims: Instant,
    active: usize,
    loading: usize,
    counts: TasksStatistics,
    active_ns: u128,
    counted_until: Instant,
}

impl<'a, P: TaskPolicy<Ledger>> Supervisor<'a, P> {
    fn new(drive: Drive<'a>, policy: P) -> Result<Self, RunError> {
        let Drive { options, directory, tasks, signals, watch, frames: policy_frames } = drive;
        let now = Instant::now();
        let limits_loading = options.policy.limits_loading().unwrap_or(options.load_control.lt_rt);
        let frames = (options.limit_bytes / PAGE_BYTES) as usize;
        let enclosure = Enclosure::new(options.limit_bytes + kernel_share(options.limit_bytes))?;
        Ok(Self {
            load_control: LoadController::new(&options.load_control, P::LOAD_CONTROL, limits_loading, now),
            limits_loading,
            ledger: Ledger::new(tasks.len()),
            switchboard: Switchboard::new(enclosure.directory())?,
            links: Vec::new(),
            signals: Some(signals),
            library: Library::new(enclosure.directory())?,
            enclosure,
            watch,
            frames,
            free: frames as i64,
            policy_frames,
            questions: VecDeque::new(),
            ready: VecDeque::new(),
            claims: vec![Claim::NONE; tasks.len()],
            overcommitted_until: None,
            stopping: false,
            now,
            started: now,
            latest_report: now,
            latest_tick: now,
            latest_claims: now,
            active: 0,
            loading: 0,
            counts: TasksStatistics::default(),
            active_ns: 0,
            counted_until: now,
            options,
            directory,
            policy,
            tasks,
        })
    }

    fn run(mut self) -> Result<TasksStatistics, RunError> {
        loop {
            self.look_at_clocks();
            self.schedule()?;
            self.answer_questions();
            self.send_orders();
            let left = self.tasks.iter().filter(|task| task.state != State::Done).count();
            self.watch.set(self.active, left, self.ledger.resident_pages());
            if left == 0 {
                return Ok(self.finish());
            }
            self.wait()?;
        }
    }

    /// Waits until something happens, and handles it.
    fn wait(&mut self) -> Result<(), RunError> {
        let is_busy = !self.questions.is_empty()
            || !self.ready.is_empty()
            || self.load_control.gives_way() && self.active > 1;
        let timeout = if is_busy { TICK } else { IDLE };
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as i64 };
        let mut descriptors: Vec<PollFd> = self.switchboard.descriptors().collect();
        let callers = descriptors.len();
        descriptors.extend(self.links.iter().flatten().map(Link::descriptor));
        let processes = self.tasks.iter().filter_map(|task| task.process.as_ref());
        descriptors.extend(processes.map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)));
        descriptors.extend(self.signals.as_ref().map(|signals| PollFd::new(signals, PollFlags::IN)));
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(system("the pagers cannot be waited for".to_string())(error.into())),
        }
        let ready: Vec<bool> = descriptors.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(descriptors);
        self.now = Instant::now();
        self.ledger.set_now(self.now);
        let mut ready = ready.into_iter();
        let has_callers = ready.by_ref().take(callers).fold(false, |any, one| any | one);
        let linked: Vec<usize> =
            (0..self.links.len()).filter(|&number| self.links[number].is_some()).collect();
        let speaking: Vec<usize> =
            linked.into_iter().zip(ready.by_ref()).filter(|(_, is)| *is).map(|(link, _)| link).collect();
        let running: Vec<usize> =
            (0..self.tasks.len()).filter(|&number| self.tasks[number].process.is_some()).collect();
        let ended: Vec<usize> =
            running.into_iter().zip(ready.by_ref()).filter(|(_, is)| *is).map(|(task, _)| task).collect();
        // What an agent has reported comes before any later call.
        speaking.into_iter().for_each(|number| self.hear(number));
        if has_callers {
            self.take_calls()?;
        }
        ended.into_iter().for_each(|task| self.reap(task));
        if ready.next() == Some(true) {
            self.take_signals();
        }
        Ok(())
    }

    // Agents.

    fn take_calls(&mut self) -> Result<(), RunError> {
        for call in self.switchboard.answer() {
            let task = call.task;
            // A child has what its parent has. That cannot be more than all frames together with
            // what is lent twice.
            let most = (self.frames as i64 + self.frames as i64 - self.free).max(0) as usize;
            let granted = call.granted;
            if task >= self.tasks.len() || granted > most {
                continue;
            }
            let (link, board) = Link::new(call);
            let Ok(board) = SharedBoard::map(board) else { continue };
            let number = self.links.iter().position(Option::is_none).unwrap_or_else(|| {
                self.links.push(None);
                self.links.len() - 1
            });
            self.ledger.admit(number, task, board);
            let link = self.links[number].insert(link);
            self.free -= granted as i64;
            link.order(Order::Admitted, 0);
            if !self.is_served(task)
                && let Some(link) = &mut self.links[number]
            {
                link.order(Order::Suspend, 0);
            }
        }
        // The cgroup must have the room before any of them learns that it is admitted.
        Ok(self.widen_cgroup(0)?)
    }

    /// Makes room in the cgroup for the processes that there are, and for `more` that are about to
    /// begin. Besides its frames, each has what [`kernel_share`] covers. A child gets its own copy
    /// of a parent's page as soon as one of the two writes to it. So frames that are lent twice
    /// after a fork need room as well.
    fn widen_cgroup(&self, more: usize) -> Result<(), CgroupError> {
        let calling = self.links.iter().flatten();
        let has_called =
            |pid: Pid| self.links.iter().flatten().any(|link| Pid::from_raw(link.pid) == Some(pid));
        let started = self.tasks.iter().filter_map(|task| task.process.as_ref());
        let processes = calling.count() + started.filter(|(pid, _)| !has_called(*pid)).count() + more;
        let lent = (self.frames as i64 - self.free).max(self.frames as i64) as u64;
        let share_bytes = kernel_share(self.options.limit_bytes);
        self.enclosure.widen_to(lent * PAGE_BYTES + processes.max(1) as u64 * share_bytes)
    }

    /// Reads an agent's reports.
    fn hear(&mut self, number: usize) {
        let Some(link) = &mut self.links[number] else { return };
        let Heard { reports, children, has_ended } = link.listen();
        let task = link.task;
        if link.owes_since.is_some() && !reports.is_empty() {
            link.owes_since = Some(self.now);
            if std::mem::take(&mut link.is_aside) {
                self.ledger.take_aside(number).into_iter().for_each(|id| self.insert(number, id));
            }
        }
        for (report, operand) in reports {
            self.latest_report = self.now;
            self.heard(number, report, operand);
        }
        children.into_iter().for_each(|child| self.switchboard.expect(child, task));
        if has_ended {
            self.hang_up(number);
        }
    }

    fn heard(&mut self, number: usize, report: Report, operand: u32) {
        let Some(link) = &mut self.links[number] else { return };
        let amount = operand as usize;
        match report {
            Report::Give => {
                let given = amount.min(link.granted);
                link.granted -= given;
                self.free += given as i64;
            }
            Report::Done => {
                link.owed = link.owed.saturating_sub(amount);
                if link.owed == 0 {
                    link.owes_since = None;
                }
            }
            Report::Own => link.apart = amount,
            Report::Ask if amount > self.frames => link.order(Order::Refuse, 0),
            Report::Ask => {
                if link.asked.replace(amount).is_none() {
                    self.questions.push_back(number);
                }
            }
            // The child's socket came with this report.
            Report::Fork => {}
            _ if !Ledger::is_page(operand) => {}
            Report::Fault => {
                let page = self.ledger.page(number, operand);
                // No thread waits for a page that is present.
                if !self.ledger.has(page) {
                    self.policy.fault(page, &mut self.ledger);
                    self.ledger.faulted(number, operand);
                }
            }
            Report::Insert => self.insert(number, operand),
            Report::Remove => {
                let page = self.ledger.page(number, operand);
                self.policy.remove(page);
                self.ledger.leave(page);
            }
            // The policy learned of the eviction when it named the page. But the page may have come
            // in again meanwhile.
            Report::Evicted => {
                let page = self.ledger.page(number, operand);
                if self.ledger.leave(page) {
                    self.policy.remove(page);
                }
            }
        }
    }

    fn insert(&mut self, number: usize, id: u32) {
        let page = self.ledger.page(number, id);
        if self.ledger.has(page) {
            return;
        }
        // A child brings pages for which no room was made.
        while self.ledger.resident_pages() >= self.policy_frames {
            match self.reclaim_anyway() {
                Some(victim) => {
                    self.order_eviction(victim, None);
                }
                None => {
                    if let Some(link) = &mut self.links[number] {
                        link.order_eviction(id, true);
                    }
                    return;
                }
            }
        }
        let referenced = self.policy.insert(page, &mut self.ledger);
        self.ledger.enter(number, id, page, referenced);
    }

    /// Handles the end of an agent: its process has ended, or runs another program.
    fn hang_up(&mut self, number: usize) {
        let Some(link) = self.links[number].take() else { return };
        self.free += link.granted as i64;
        self.questions.retain(|&other| other != number);
        let agent_ns = self.ledger.board(number).map_or(0, |board| board.agent_ns.load(Relaxed));
        self.tasks[link.task].past_ns += link.used_ns.saturating_sub(link.first_ns.saturating_add(agent_ns));
        for page in self.ledger.dismiss(number) {
            self.policy.remove(page);
        }
        self.overcommitted_until = None;
        self.latest_report = self.now;
    }

    fn send_orders(&mut self) {
        for number in 0..self.links.len() {
            let Some(link) = &mut self.links[number] else { continue };
            for id in self.ledger.take_to_watch(number) {
                link.order(Order::Watch, id as usize);
            }
            link.flush(self.now);
            // Each frame can be ordered back once, and each page can be watched once.
            if link.unread_words() > MOST_UNREAD_WORDS + 4 * self.frames {
                link.kill();
                self.hang_up(number);
            }
        }
    }

    /// Orders a page's agent to evict it. If the agent itself asked for frames, it keeps the frame.
    /// Returns whether it does.
    fn order_eviction(&mut self, page: PageId, asker: Option<usize>) -> bool {
        let (number, id) = self.ledger.whose(page);
        self.policy.evict(page);
        self.ledger.leave(page);
        self.counts.replacements += 1;
        let keeps = asker == Some(number);
        if let Some(link) = &mut self.links[number] {
            link.order_eviction(id, !keeps);
        }
        keeps
    }

    // Clocks.

    /// Updates the virtual times, and does what follows from them.
    fn look_at_clocks(&mut self) {
        let mut times: Vec<u64> = self.tasks.iter().map(|task| task.past_ns).collect();
        let mut silent = Vec::new();
        for (number, link) in self.links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            if let Some(used) = processor_ns(link.pid) {
                link.used_ns = used.max(link.used_ns);
            }
            let agent = self.ledger.board(number).map_or(0, |board| board.agent_ns.load(Relaxed));
            times[link.task] += link.used_ns.saturating_sub(link.first_ns.saturating_add(agent));
            if link.owed > 0 && link.is_silent(self.now) && !link.is_aside {
                link.is_aside = true;
                silent.push(number);
            }
        }
        // The other tasks go on without these pages until the agent answers.
        for number in silent {
            for page in self.ledger.set_aside(number) {
                self.policy.remove(page);
            }
        }
        for (task, time) in times.into_iter().enumerate() {
            let before = self.virtual_time(task);
            self.ledger.set_virtual_time(task, time / 1000);
            if self.virtual_time(task) > before || self.waits_for_page(task) {
                self.tasks[task].ran_at = self.now;
            }
            self.set_idle(task, self.now - self.tasks[task].ran_at > IDLE_AFTER);
        }
        let (tau, slice) =
            (self.options.load_control.tau_ms * 1000, self.options.load_control.slice_ms * 1000);
        for task in 0..self.tasks.len() {
            let time = self.virtual_time(task);
            let of = &mut self.tasks[task];
            match of.state {
                State::Delayed
                    if self.stopping || self.now - self.started >= Duration::from_millis(of.job.delay_ms) =>
                {
                    of.state = State::Ready;
                    of.statistics.ready_ns = (self.now - self.started).as_nanos() as u64;
                    self.ready.push_back(task);
                }
                State::Active => {
                    if of.is_loading && time - of.activated_us >= tau {
                        of.is_loading = false;
                        self.loading -= 1;
                    }
                    if slice > 0
                        && time - of.activated_us >= slice
                        && !self.ready.is_empty()
                        && !self.stopping
                    {
                        of.statistics.slice_ends += 1;
                        self.deactivate(task);
                    }
                }
                // The task still runs, because it has not faulted. Without its pages it will.
                State::Ready
                    if of.process.is_some() && !of.is_frozen && time - of.deactivated_us > GRACE_US =>
                {
                    of.is_frozen = true;
                    self.links_of(task).for_each(|link| link.order(Order::Freeze, 0));
                }
                _ => {}
            }
        }
        if self.now - self.latest_tick >= TICK {
            self.latest_tick = self.now;
            let is_reading = (0..self.links.len())
                .filter_map(|number| self.ledger.board(number))
                .any(|board| board.reading.load(Relaxed) > 0);
            if self.load_control.look(is_reading, self.active, !self.ready.is_empty(), self.now) {
                self.give_way(None);
            }
        }
    }

    /// Whether a process of a task waits for frames or for a page to be read.
    fn waits_for_page(&self, task: usize) -> bool {
        let links = self.links.iter().enumerate().filter_map(|(number, link)| Some((number, link.as_ref()?)));
        links.filter(|(_, link)| link.task == task).any(|(number, link)| {
            link.asked.is_some()
                || self.ledger.board(number).is_some_and(|board| board.reading.load(Relaxed) > 0)
        })
    }

    /// Marks a task as idle or not. An idle task stays active. But while it sleeps, its pages are
    /// replaceable and load control does not count it: others would wait for a clock that stands
    /// still. It is not loading any more, like a task that does I/O in the paper.
    fn set_idle(&mut self, task: usize, is_idle: bool) {
        let of = &mut self.tasks[task];
        if of.state != State::Active || of.is_idle == is_idle {
            return;
        }
        of.is_idle = is_idle;
        self.loading -= usize::from(std::mem::take(&mut of.is_loading));
        self.ledger.set_active(task, !is_idle);
        self.overcommitted_until = None;
    }

    /// Active tasks that are not idle.
    fn lively(&self) -> impl Iterator<Item = usize> {
        (0..self.tasks.len())
            .filter(|&task| self.tasks[task].state == State::Active && !self.tasks[task].is_idle)
    }

    fn virtual_time(&self, task: usize) -> VirtualTime {
        self.ledger.virtual_time(TaskId(task as u32))
    }

    fn links_of(&mut self, task: usize) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut().flatten().filter(move |link| link.task == task)
    }

    // Load control.

    /// Whether a task's processes get the frames that they ask for. Processes that outlive their
    /// task do.
    fn is_served(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Active | State::Done)
    }

    /// Activates the tasks that load control admits.
    fn schedule(&mut self) -> Result<(), RunError> {
        while let Some(&first) = self.ready.front() {
            if self.stopping && self.tasks[first].process.is_none() {
                self.ready.pop_front();
                self.end(first, None);
                continue;
            }
            if !self.stopping {
                let load = Load { active: self.lively().count(), loading: self.loading };
                if !self.load_control.admits_more(load, self.now) {
                    break;
                }
                // Computing claims looks at every frame. So it is not done at every report.
                if load.active > 0 && self.load_control.needs_claims() {
                    if self.now - self.latest_claims < TICK {
                        break;
                    }
                    let (claimed, frames) = self.claimed();
                    if !self.load_control.fits(self.tasks[first].claim, claimed, frames) {
                        break;
                    }
                }
            }
            self.ready.pop_front();
            self.activate(first)?;
        }
        Ok(())
    }

    /// The frames that the active tasks claim, with those that their processes wait for; and the
    /// frames that there are for pages.
    fn claimed(&mut self) -> (usize, usize) {
        self.latest_claims = self.now;
        self.look_at_claims();
        let active = |task: usize| self.tasks[task].state == State::Active;
        let claimed: usize = self.lively().map(|task| self.claims[task].frames).sum();
        let active = self.links.iter().flatten().filter(|link| active(link.task));
        let waiting: usize = active.filter_map(|link| link.asked).sum();
        let apart: usize = self.links.iter().flatten().map(|link| link.apart).sum();
        (claimed + waiting, self.frames.saturating_sub(apart).min(self.policy_frames))
    }

    fn look_at_claims(&mut self) {
        self.claims.fill(Claim::NONE);
        self.policy.claims(&self.ledger, &mut self.claims);
        // The hand moves only when there are faults. A task that has all of its pages takes none,
        // and would seem to need nothing as soon as theta has passed on its clock. So the pages
        // that it has used since the hand passed are claimed as well.
        if self.load_control.needs_claims() {
            for (claim, used) in self.claims.iter_mut().zip(self.ledger.used_pages()) {
                claim.frames = claim.frames.max(used);
            }
        }
    }

    fn activate(&mut self, task: usize) -> Result<(), RunError> {
        self.count_active_time();
        self.active += 1;
        self.counts.most_active_tasks = self.counts.most_active_tasks.max(self.active as u64);
        self.ledger.set_active(task, true);
        self.overcommitted_until = None;
        let number = self.tasks.iter().map(|task| task.activation).max().unwrap_or(0) + 1;
        let (now, started, time) = (self.now, self.started, self.virtual_time(task));
        let of = &mut self.tasks[task];
        of.state = State::Active;
        of.activation = number;
        of.activated_us = time;
        of.activated_at = now;
        of.ran_at = now;
        of.is_idle = false;
        of.statistics.activations += 1;
        of.is_frozen = false;
        if self.options.load_control.tau_ms > 0 {
            of.is_loading = true;
            self.loading += 1;
            self.counts.most_loading_tasks = self.counts.most_loading_tasks.max(self.loading as u64);
        }
        if of.process.is_some() {
            self.links_of(task).for_each(|link| link.order(Order::Resume, 0));
            return Ok(());
        }
        of.first_activated_at = Some(now);
        of.statistics.waited_ns = ((now - started).as_nanos() as u64).saturating_sub(of.statistics.ready_ns);
        self.start(task)
    }

    /// Takes a task out of multiprogramming and puts it at the end of the ready queue. Its
    /// questions wait until it is active again.
    fn deactivate(&mut self, task: usize) {
        self.look_at_claims();
        let asked: usize = self.links_of(task).filter_map(|link| link.asked).sum();
        self.leave_active(task, State::Ready);
        let time = self.virtual_time(task);
        let of = &mut self.tasks[task];
        of.claim = self.claims[task].frames + asked;
        of.deactivated_us = time;
        self.ready.push_back(task);
        self.links_of(task).for_each(|link| link.order(Order::Suspend, 0));
    }

    fn leave_active(&mut self, task: usize, state: State) {
        self.count_active_time();
        let of = &mut self.tasks[task];
        self.loading -= usize::from(std::mem::take(&mut of.is_loading));
        of.statistics.active_ns += (self.now - of.activated_at).as_nanos() as u64;
        of.state = state;
        self.active -= 1;
        self.ledger.set_active(task, false);
        self.overcommitted_until = None;
    }

    /// Deactivates an active task because of overcommitment or too much paging. `faulting` is the
    /// task whose question showed it. At least one task stays active. Returns whether a task was
    /// deactivated.
    fn give_way(&mut self, faulting: Option<usize>) -> bool {
        if self.stopping || self.lively().count() < 2 {
            return false;
        }
        let slice = self.options.load_control.slice_ms * 1000;
        // The task with the largest key is deactivated.
        let key = |task: usize| match self.options.load_control.deactivate {
            Deactivate::Smallest => u64::MAX - self.ledger.resident_pages_of(task) as u64,
            Deactivate::Largest => self.ledger.resident_pages_of(task) as u64,
            Deactivate::Last => 0,
            Deactivate::Slice => {
                slice.saturating_sub(self.virtual_time(task) - self.tasks[task].activated_us)
            }
            Deactivate::Faulting => u64::from(Some(task) == faulting),
        };
        let chosen = self.lively().max_by_key(|&task| (key(task), self.tasks[task].activation));
        let Some(chosen) = chosen else { return false };
        self.tasks[chosen].statistics.deactivations += 1;
        self.counts.deactivations += 1;
        self.load_control.gave_way(self.now);
        self.deactivate(chosen);
        true
    }

    // Frames.

    /// Answers the questions that can be answered, those of running tasks before those of loading
    /// ones.
    fn answer_questions(&mut self) {
        for loading in [false, true] {
            let mut index = 0;
            while let Some(&number) = self.questions.get(index) {
                let Some(task) = self.links[number].as_ref().map(|link| link.task) else {
                    self.questions.remove(index);
                    continue;
                };
                if !self.is_served(task) || self.tasks[task].is_loading != loading {
                    index += 1;
                    continue;
                }
                match self.answer(number) {
                    Outcome::Answered => drop(self.questions.remove(index)),
                    Outcome::Suspended => index += 1,
                    Outcome::Later => return self.refuse_if_stuck(number),
                }
            }
        }
    }

    /// Answers a question, or orders what is needed to answer it.
    fn answer(&mut self, number: usize) -> Outcome {
        let Some((task, mut wanted)) =
            self.links[number].as_ref().map(|link| (link.task, link.asked.unwrap_or(0)))
        else {
            return Outcome::Answered;
        };
        loop {
            if self.free >= wanted as i64 {
                let Some(link) = &mut self.links[number] else { return Outcome::Answered };
                link.order(Order::Grant, wanted.min(MOST_OPERAND));
                link.order(Order::Answered, 0);
                link.granted += wanted;
                link.asked = None;
                self.free -= wanted as i64;
                let lent = (self.frames as i64 - self.free).max(0) as u64;
                self.counts.peak_lent_pages = self.counts.peak_lent_pages.max(lent);
                return Outcome::Answered;
            }
            let owed: usize = self
                .links
                .iter()
                .flatten()
                .filter(|link| !link.is_silent(self.now))
                .map(|link| link.owed)
                .sum();
            let coming = self.free + owed as i64;
            if coming >= wanted as i64 || coming < 0 && owed as i64 >= OVERDRAFT_STEP {
                return Outcome::Later;
            }
            match self.reclaim() {
                Reclaim::Evict(page) => {
                    // Frames that are lent twice have to be covered first.
                    let asker = Some(number).filter(|_| coming >= 0);
                    if self.order_eviction(page, asker) {
                        wanted -= 1;
                        if let Some(link) = &mut self.links[number] {
                            link.asked = Some(wanted);
                        }
                    }
                }
                Reclaim::Wait => return Outcome::Later,
                Reclaim::Overcommitted => {
                    self.give_way(Some(task));
                    if !self.is_served(task) {
                        return Outcome::Suspended;
                    }
                }
            }
        }
    }

    /// Asks the policy for a victim. Answers `Overcommitted` only if there is a task to deactivate.
    fn reclaim(&mut self) -> Reclaim {
        let can_give_way = self.load_control.gives_way() && !self.stopping && self.lively().nth(1).is_some();
        let mut answer = Reclaim::Overcommitted;
        if can_give_way || !self.is_still_overcommitted() {
            self.overcommitted_until = None;
            answer = self.policy.reclaim(&mut self.ledger);
        }
        if answer == Reclaim::Overcommitted && !can_give_way {
            if self.overcommitted_until.is_none() {
                self.look_at_claims();
                self.overcommitted_until = Some(self.claims.iter().map(|claim| claim.until).collect());
            }
            answer = self.policy.reclaim_anyway(&mut self.ledger);
            self.counts.forced_replacements += u64::from(matches!(answer, Reclaim::Evict(_)));
        }
        answer
    }

    /// Whether no page can have left a working set since memory was found to be overcommitted. Each
    /// task's claim stays the same until its virtual time reaches the time in the claim.
    fn is_still_overcommitted(&self) -> bool {
        let Some(until) = &self.overcommitted_until else { return false };
        self.lively().all(|task| self.virtual_time(task) < until[task])
    }

    fn reclaim_anyway(&mut self) -> Option<PageId> {
        match self.policy.reclaim_anyway(&mut self.ledger) {
            Reclaim::Evict(page) => Some(page),
            Reclaim::Wait | Reclaim::Overcommitted => None,
        }
    }

    /// Refuses a question that will never get an answer: there has been no report for long, and no
    /// process owes a frame.
    fn refuse_if_stuck(&mut self, number: usize) {
        let owes = self.links.iter().flatten().any(|link| link.owed > 0);
        if owes || self.now - self.latest_report < STUCK_AFTER {
            return;
        }
        if let Some(link) = &mut self.links[number] {
            link.order(Order::Refuse, 0);
            self.latest_report = self.now;
        }
    }

    // Processes.

    /// Starts a task's program. If that fails, the task is over.
    fn start(&mut self, task: usize) -> Result<(), RunError> {
        self.widen_cgroup(1)?;
        let options = self.options;
        let order = ControlOrder {
            magic: MAGIC,
            secret: self.switchboard.secret,
            supervisor: std::process::id() as i32,
            pid_namespace: pid_namespace(),
            limit_pages: self.frames as u64,
            prefetch_pages: options.prefetch_pages.min(MOST_PREFETCH_PAGES),
            use_ring: u32::from(options.use_ring),
            backend: Backend::Anon as u32,
            policy: text("policy", Some(&options.policy.to_string()))?,
            directory: text("path of the backing store", self.directory.to_str())?,
            file_bytes: file_bytes(),
            lender: text("name of the socket", Some(&self.switchboard.name))?,
            task: task as u32,
            // The supervisor raises the limit itself, because it knows all processes of all tasks.
            cgroup_limit: Text::default(),
            share_bytes: 0,
            cgroup_process_bytes: 0,
            library: Text::default(),
            control: Text::default(),
        };
        let of = &mut self.tasks[task];
        let mut command = Command::new(&of.job.command[0]);
        command.args(&of.job.command[1..]).envs(&of.job.environment);
        let block = self.library.equip(&mut command, order)?;
        self.enclosure.enter(&mut command)?;
        if !of.job.directory.as_os_str().is_empty() {
            command.current_dir(&of.job.directory);
        }
        let [input, output, errors] = std::mem::take(&mut of.files);
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        if let Some(output) = output {
            command.stdout(output);
        }
        if let Some(errors) = errors {
            command.stderr(errors);
        }
        self.watch.add(block.control);
        of.block = Some(block);
        let child = command.spawn().and_then(|child| {
            let pid = Pid::from_child(&child);
            Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
        });
        match child {
            Ok(process) => of.process = Some(process),
            Err(error) => {
                of.statistics.failure = Some(format!("cannot be started: {error}"));
                self.end(task, None);
            }
        }
        Ok(())
    }

    /// Handles the end of a task's first process.
    fn reap(&mut self, task: usize) {
        let Some((pid, _)) = &self.tasks[task].process else { return };
        let (mut status, pid) = (0, pid.as_raw_nonzero().get());
        // SAFETY: wait4 fills in the variables that it gets, and rusage is plain data.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if ended != pid {
            return;
        }
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        let of = &mut self.tasks[task].statistics;
        (of.user_ns, of.sys_ns) = (ns(usage.ru_utime), ns(usage.ru_stime));
        self.end(task, Some(ExitStatus::from_raw(status)));
    }

    fn end(&mut self, task: usize, status: Option<ExitStatus>) {
        match self.tasks[task].state {
            State::Active => self.leave_active(task, State::Done),
            _ => self.tasks[task].state = State::Done,
        }
        self.ready.retain(|&other| other != task);
        let of = &mut self.tasks[task];
        of.process = None;
        let code =
            |status: ExitStatus| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        of.statistics.exit_status = status.map(code);
        of.statistics.wall_ns = of.first_activated_at.map_or(0, |since| (self.now - since).as_nanos() as u64);
        if let Some(block) = &of.block {
            of.statistics.failure = of.statistics.failure.take().or_else(|| block.failure());
            let is_bare = block.control.counters.agents.load(Relaxed) == 0;
            if is_bare && status.is_some_and(|status| status.success()) {
                let words = "did not load the pager: what it printed was made without a limit";
                of.statistics.failure = Some(words.to_string());
            }
        }
        // Processes that the task leaves behind are served, whatever its state was.
        self.links_of(task).for_each(|link| link.order(Order::Resume, 0));
    }

    fn take_signals(&mut self) {
        let mut bytes = [0_u8; 16];
        let read = self.signals.as_ref().map(|signals| rustix::io::read(signals, &mut bytes[..]));
        match read {
            Some(Ok(count)) if count > 0 => {
                self.stopping = true;
                for signal in
                    bytes[..count].iter().filter_map(|&byte| Signal::from_named_raw(i32::from(byte)))
                {
                    for (pid, _) in self.tasks.iter().filter_map(|task| task.process.as_ref()) {
                        let _ = kill_process(*pid, signal);
                    }
                }
            }
            Some(Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN)) => {}
            // No more signals will come.
            _ => self.signals = None,
        }
    }

    // Counts.

    fn count_active_time(&mut self) {
        self.active_ns += self.active as u128 * (self.now - self.counted_until).as_nanos();
        self.counted_until = self.now;
    }

    /// Ends the run. Returns what was counted.
    fn finish(mut self) -> TasksStatistics {
        self.count_active_time();
        for link in self.links.iter().flatten() {
            self.counts.left_behind += 1;
            link.kill();
        }
        for (number, task) in self.tasks.iter_mut().enumerate() {
            task.statistics.virtual_ns = self.ledger.virtual_time(TaskId(number as u32)) * 1000;
            if let Some(block) = &task.block {
                task.statistics.count(&block.control.counters);
            }
        }
        let (cgroup, cgroup_oom_kills) = (self.enclosure.counts(), self.enclosure.oom_kills());
        let tasks: Vec<TaskStatistics> = self.tasks.into_iter().map(|task| task.statistics).collect();
        // The counts come from the tasks' processes, so they may be any numbers.
        let sum = |of: fn(&TaskStatistics) -> u64| tasks.iter().map(of).fold(0, u64::saturating_add);
        let wall_ns = (self.now - self.started).as_nanos().max(1) as u64;
        TasksStatistics {
            policy: self.options.policy.to_string(),
            theta_us: self.options.policy.theta(),
            lt_rt: self.limits_loading,
            memory_limit_bytes: self.options.limit_bytes,
            wall_ns,
            user_ns: sum(|task| task.user_ns),
            sys_ns: sum(|task| task.sys_ns),
            command_ns: processor_ns(0).unwrap_or(0),
            utilization: sum(|task| task.virtual_ns) as f64 / wall_ns as f64,
            mean_active_tasks: self.active_ns as f64 / wall_ns as f64,
            faults: sum(|task| task.faults),
            refaults: sum(|task| task.refaults),
            evictions: sum(|task| task.evictions),
            hand_steps: self.policy.hand_steps(),
            cgroup,
            cgroup_oom_kills,
            tasks,
            ..self.counts
        }
    }
}
