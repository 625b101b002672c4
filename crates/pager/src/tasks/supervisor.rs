//! The command of several tasks: lends frames, asks the policy for victims, and says who may be active.
//!
//! ```text
//!   agents' reports ──▶ the policy is told ──▶ who may be active? ──▶ questions answered, oldest first ──▶ orders
//!          ▲             (ledger)               (load control)        free frames, or the policy's victims     │
//!          └────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A frame is free, lent to a process, or owed: ordered to be given back. The policy's answers lead to
//! * `Evict`: the page's agent is told. If it is the one that asks, the frame is its answer; otherwise it owes it;
//! * `Wait`: pages that were waited for have not been used yet, or an agent is silent. Asked again at the next report, and
//!   every few milliseconds;
//! * `Overcommitted`: a task gives way, the pages of which are replaceable from then on. If only one is active, or nobody
//!   has to give way, a page is replaced all the same.
//!
//! Questions of running tasks come before those of loading ones, as reads do in the paper's paging queue; a question is
//! answered with everything that was asked for, so that nobody sits on frames that are not enough.

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

/// While anyone waits, how often the clocks are looked at.
const TICK: Duration = Duration::from_millis(5);
/// How often otherwise.
const IDLE: Duration = Duration::from_millis(100);
/// Frames that are taken back at a time where more are lent than there are: a child has come with its parent's pages.
const OVERDRAFT_STEP: i64 = 256;
/// Virtual time that a task that is not active may have had before its pages are unmapped, in microseconds.
const GRACE_US: VirtualTime = 2_000;
/// Without any report for so long, a question that cannot be answered never will be.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// The least that pagers take: the policy is made for what is left.
const PAGER_PAGES: u64 = 224;
/// Words that an agent may have left unread, beside those that its pages and frames account for.
/// One that has more is none of ours.
const MOST_UNREAD_WORDS: usize = 1 << 16;
/// A task that has had no processor time for so long, and does not wait for a page, is idle: it sleeps, or was stopped.
const IDLE_AFTER: Duration = Duration::from_millis(500);

/// How to run tasks.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Memory of all tasks, their pagers' own included.
    pub limit_bytes: u64,
    /// Which pages go. Windows are in microseconds of processor time.
    pub policy: TaskSpec,
    /// Who may be active.
    pub load_control: LoadControlOptions,
    /// A directory for the backing stores, or a file's name in one.
    pub swap: PathBuf,
    /// Most pages to read ahead at once; 0 for none.
    pub prefetch_pages: u32,
    /// Whether to use io_uring where there is one.
    pub use_ring: bool,
}

/// Runs tasks to their ends. From `signals` numbers of signals are read, a byte each, that are meant for all of them: those
/// that run get them, no other is started, and nobody is held any more. `watch` is for another thread to look at meanwhile.
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

/// Finds the programs and opens the files, so that what is wrong is said before anything runs.
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
            // Both of a task's streams may go to one file.
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

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Its delay is not over.
    Delayed,
    /// In the ready queue: not started, or held.
    Ready,
    Active,
    Done,
}

/// A task, as the supervisor sees it.
struct Task {
    job: Job,
    /// Input, output, errors, until it is started.
    files: [Option<File>; 3],
    state: State,
    block: Option<ControlBlock>,
    /// Its first process: number and descriptor.
    process: Option<(Pid, OwnedFd)>,
    /// What it claimed of memory when it gave way.
    claim: usize,
    /// Number of its latest activation, over all tasks, and when that was.
    activation: u64,
    activated_us: VirtualTime,
    activated_at: Instant,
    first_activated_at: Option<Instant>,
    is_loading: bool,
    /// Its virtual time when it was deactivated; whether its pages have been unmapped since.
    held_us: VirtualTime,
    is_frozen: bool,
    /// When its virtual time was last seen to pass.
    ran_at: Instant,
    is_idle: bool,
    /// Virtual time of its processes that are gone.
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
            held_us: 0,
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
    /// That the policy is made for.
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

/// What became of a question.
#[derive(PartialEq, Eq)]
enum Outcome {
    Answered,
    /// Frames are on their way, or the policy says to wait.
    Later,
    /// Its task has been deactivated.
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
    /// Frames that there are, and those not lent. Fewer than none while a child has its parent's pages twice.
    frames: usize,
    free: i64,
    /// Frames that the policy was made for.
    policy_frames: usize,
    /// Links with questions, the oldest in front.
    questions: VecDeque<usize>,
    /// Inactive tasks, the next to be activated in front.
    ready: VecDeque<usize>,
    claims: Vec<Claim>,
    /// Memory is overcommitted for as long as no active task's virtual time reaches this, by task.
    overcommitted_until: Option<Vec<VirtualTime>>,
    /// The run is to end: nobody is started, nobody held.
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

    /// Waits until something happens, and takes note of it.
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
        // What an agent has told belongs to the time before anyone who called later.
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
            // A child has what its parent has, which cannot be more than there is and what is lent
            // twice.
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
        // Before any of them is told that it is admitted.
        Ok(self.widen_cgroup(0)?)
    }

    /// Makes room in the cgroup for what there is of processes, and for so many that are about to begin: beside the frames,
    /// each has what [`kernel_share`] is for. A child has its parent's pages as soon as one of the two writes to them, so
    /// what is lent twice after a fork has to have room as well.
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

    /// Reads what an agent has to tell.
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
            // Its socket has come with it.
            Report::Fork => {}
            _ if !Ledger::is_page(operand) => {}
            Report::Fault => {
                let page = self.ledger.page(number, operand);
                // Nobody waits for a page that is there.
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
            // The policy was told when it was named; unless the page has come in again meanwhile.
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
        // A child brings pages that nobody made room for.
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

    /// An agent is gone: its process has ended, or runs another program.
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
            // Each frame can be ordered back once, and each page watched.
            if link.unread_words() > MOST_UNREAD_WORDS + 4 * self.frames {
                link.kill();
                self.hang_up(number);
            }
        }
    }

    /// Tells a page's agent that it is to go. Its frame is the asker's, if that is whose it is.
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

    /// Brings virtual times up to date, and does what follows from them.
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
        // Others have to do without its pages until it answers.
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
                // It goes on: it does not fault. It will.
                State::Ready if of.process.is_some() && !of.is_frozen && time - of.held_us > GRACE_US => {
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

    /// Whether a process of a task waits for frames, or for a page to be read.
    fn waits_for_page(&self, task: usize) -> bool {
        let links = self.links.iter().enumerate().filter_map(|(number, link)| Some((number, link.as_ref()?)));
        links.filter(|(_, link)| link.task == task).any(|(number, link)| {
            link.asked.is_some()
                || self.ledger.board(number).is_some_and(|board| board.reading.load(Relaxed) > 0)
        })
    }

    /// An idle task is active, but for as long as it sleeps its pages are replaceable and it counts for nothing: others would
    /// wait for a clock that stands still. It is not loading any more, as the paper has it of a task that does I/O.
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

    /// Whether a task's processes get what they ask for. What it leaves behind when it ends does.
    fn is_served(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Active | State::Done)
    }

    /// Activates what may be.
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
                // Claims take a look at every frame: not at every report.
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

    /// Frames that the active tasks claim, with pages that their processes wait for; and those that there are for pages.
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
        // The hand passes only where there are faults. A task that has all of its pages takes none, and would seem to need
        // nothing as soon as its clock has gone on by theta: what it has used since the hand passed is claimed as well.
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

    /// Takes a task out of multiprogramming: to the end of the ready queue. What it asks for waits until it is active again.
    fn deactivate(&mut self, task: usize) {
        self.look_at_claims();
        let asked: usize = self.links_of(task).filter_map(|link| link.asked).sum();
        self.leave_active(task, State::Ready);
        let time = self.virtual_time(task);
        let of = &mut self.tasks[task];
        of.claim = self.claims[task].frames + asked;
        of.held_us = time;
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

    /// Deactivates an active task because of overcommitment, or too much paging; `faulting` is the task whose question
    /// showed it. At least one task stays active. Returns whether there was one to deactivate.
    fn give_way(&mut self, faulting: Option<usize>) -> bool {
        if self.stopping || self.lively().count() < 2 {
            return false;
        }
        let slice = self.options.load_control.slice_ms * 1000;
        // The largest key wins.
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

    /// Answers what can be answered, running tasks before loading ones.
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

    /// Answers a question, or sees to it that it can be answered.
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
                    // What is lent twice has to be covered first.
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

    /// Asks the policy for a victim. Answers `Overcommitted` only if there is a task to give way.
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

    /// Whether no page can have left a working set since memory was found to be overcommitted: each task's claim is
    /// the same until its virtual time reaches what the claim says.
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

    /// A question has no answer yet. If nothing has happened for long, and nobody owes anything, it never will.
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

    /// Starts a task's program. If that cannot be, the task is over.
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
            // It is here that the limit is raised, where all processes of all tasks are known.
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

    /// A task's first process has ended.
    fn reap(&mut self, task: usize) {
        let Some((pid, _)) = &self.tasks[task].process else { return };
        let (mut status, pid) = (0, pid.as_raw_nonzero().get());
        // SAFETY: wait4 fills in what it is given; rusage is plain data.
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
        // What it leaves behind is served, whatever it was.
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
            // Nobody is going to send any.
            _ => self.signals = None,
        }
    }

    // Measures.

    fn count_active_time(&mut self) {
        self.active_ns += self.active as u128 * (self.now - self.counted_until).as_nanos();
        self.counted_until = self.now;
    }

    /// The end: what was counted.
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
        // What a task's processes have counted may be anything.
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
