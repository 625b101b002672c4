//! The processes of the tasks and their agents: sockets, programs, signals, the cgroup. What comes
//! from them goes to `decisions`, and what is decided is sent to them.

use super::file::Job;
use super::link::{Call, Heard, Link, Switchboard, processor_ns};
use super::options::TaskOptions;
use super::statistics::TasksStatistics;
use super::watch::TasksWatch;
use crate::error::{RunError, system};
use crate::launch::{ControlBlock, Library, text};
use crate::run_scope::RunScope;
use crate::{MOST_PREFETCH_PAGES, PAGE_BYTES, program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use sweephand_pager_interface::control::Order;
use sweephand_pager_interface::memory::kernel_share;
use sweephand_process::cgroup::CgroupError;

/// Words that an agent may leave unread, besides those that its pages and frames account for. A
/// process that leaves more is not one of our agents.
const MOST_UNREAD_WORDS: usize = 1 << 16;

/// The program of a task.
pub(super) struct Program {
    job: Job,
    /// Input, output and errors, until the program starts.
    files: [Option<File>; 3],
    block: Option<ControlBlock>,
    /// The task's first process: its number and its descriptor.
    process: Option<(Pid, OwnedFd)>,
    exit_status: Option<i32>,
    failure: Option<String>,
    user_ns: u64,
    sys_ns: u64,
}

/// Finds the programs and opens the files, so that errors are reported before any task runs.
pub(super) fn prepare(jobs: &[Job]) -> Result<Vec<Program>, RunError> {
    let mut written: Vec<(u64, u64, &Path)> = Vec::new();
    let mut programs = Vec::with_capacity(jobs.len());
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
        programs.push(Program {
            job: job.clone(),
            files: [input, output, errors],
            block: None,
            process: None,
            exit_status: None,
            failure: None,
            user_ns: 0,
            sys_ns: 0,
        });
    }
    Ok(programs)
}

/// What has happened.
#[derive(Default)]
pub(super) struct Events {
    /// Links with reports.
    pub(super) speaking: Vec<usize>,
    /// Whether agents have called.
    pub(super) has_callers: bool,
    /// Tasks whose first process may have ended.
    pub(super) ended: Vec<usize>,
    pub(super) has_signals: bool,
}

/// The processes, their links, and what they run in.
pub(super) struct Processes<'a> {
    options: &'a TaskOptions,
    /// Where backing stores are.
    directory: PathBuf,
    programs: Vec<Program>,
    switchboard: Switchboard,
    /// By the number of the process.
    links: Vec<Option<Link>>,
    signals: Option<OwnedFd>,
    library: Library,
    scope: RunScope,
    watch: &'a TasksWatch,
    /// Frames of all tasks.
    frames: usize,
}

impl<'a> Processes<'a> {
    pub(super) fn new(
        options: &'a TaskOptions,
        directory: PathBuf,
        programs: Vec<Program>,
        signals: OwnedFd,
        watch: &'a TasksWatch,
    ) -> Result<Self, RunError> {
        let scope = RunScope::new(options.limit_bytes + kernel_share(options.limit_bytes))?;
        Ok(Self {
            switchboard: Switchboard::new(scope.directory())?,
            links: Vec::new(),
            signals: Some(signals),
            library: Library::new(scope.directory())?,
            scope,
            watch,
            frames: (options.limit_bytes / PAGE_BYTES) as usize,
            options,
            directory,
            programs,
        })
    }

    /// Waits until something happens, but not for longer than this.
    pub(super) fn wait(&self, timeout: Duration) -> Result<Events, RunError> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as i64 };
        let mut descriptors: Vec<PollFd> = self.switchboard.descriptors().collect();
        let callers = descriptors.len();
        descriptors.extend(self.links.iter().flatten().map(Link::descriptor));
        let processes = self.programs.iter().filter_map(|program| program.process.as_ref());
        descriptors.extend(processes.map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)));
        descriptors.extend(self.signals.as_ref().map(|signals| PollFd::new(signals, PollFlags::IN)));
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(system("the pagers cannot be waited for".to_string())(error.into())),
        }
        let mut ready = descriptors.iter().map(|fd| !fd.revents().is_empty());
        let has_callers = ready.by_ref().take(callers).fold(false, |any, one| any | one);
        let mut those_ready = |numbers: Vec<usize>| -> Vec<usize> {
            numbers.into_iter().zip(ready.by_ref()).filter(|(_, is)| *is).map(|(number, _)| number).collect()
        };
        let linked = (0..self.links.len()).filter(|&number| self.links[number].is_some());
        let speaking = those_ready(linked.collect());
        let running = (0..self.programs.len()).filter(|&task| self.programs[task].process.is_some());
        let ended = those_ready(running.collect());
        let has_signals = ready.next() == Some(true);
        Ok(Events { speaking, has_callers, ended, has_signals })
    }

    // Agents.

    /// Agents that have called.
    pub(super) fn take_calls(&mut self) -> Vec<Call> {
        self.switchboard.answer()
    }

    /// Connects an agent that was given this number.
    pub(super) fn connect(&mut self, number: usize, call: Call) {
        self.links.resize_with(self.links.len().max(number + 1), || None);
        self.links[number] = Some(Link::new(call));
    }

    /// Reads an agent's reports. Children that they announce are expected.
    pub(super) fn listen(&mut self, number: usize) -> Heard {
        let Some(link) = &mut self.links[number] else { return Heard::default() };
        let (mut heard, task) = (link.listen(), link.task);
        for child in heard.children.drain(..) {
            self.switchboard.expect(child, task);
        }
        heard
    }

    /// Sends instructions to an agent. Returns whether the process takes them. A process that
    /// leaves more of them unread than there can be is ended.
    pub(super) fn send(&mut self, number: usize, words: &[u32]) -> bool {
        let Some(link) = &mut self.links[number] else { return true };
        link.send(words);
        // Each frame can be asked back once, and each page can be watched once.
        let is_reading = link.unread_words() <= MOST_UNREAD_WORDS + 4 * self.frames;
        if !is_reading {
            link.kill();
        }
        is_reading
    }

    /// Drops a link, whose agent has ended.
    pub(super) fn hang_up(&mut self, number: usize) {
        self.links[number] = None;
    }

    /// The links' numbers.
    pub(super) fn numbers(&self) -> Vec<usize> {
        (0..self.links.len()).filter(|&number| self.links[number].is_some()).collect()
    }

    /// Processor times of the processes, by number, in nanoseconds.
    pub(super) fn processor_ns(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        let links = self.links.iter().enumerate();
        links.filter_map(|(number, link)| Some((number, processor_ns(link.as_ref()?.pid))))
    }

    /// Makes room in the cgroup for the processes that there are, and for `more` that are about to
    /// begin. Besides its frames, each has what [`kernel_share`] covers. A child gets its own copy
    /// of a parent's page as soon as one of the two writes to it. So frames that are lent twice
    /// after a fork need room as well.
    pub(super) fn widen_cgroup(&self, lent: u64, more: usize) -> Result<(), CgroupError> {
        let calling = self.links.iter().flatten();
        let has_called =
            |pid: Pid| self.links.iter().flatten().any(|link| Pid::from_raw(link.pid) == Some(pid));
        let started = self.programs.iter().filter_map(|program| program.process.as_ref());
        let processes = calling.count() + started.filter(|(pid, _)| !has_called(*pid)).count() + more;
        let share_bytes = kernel_share(self.options.limit_bytes);
        let lent = lent.max(self.frames as u64);
        self.scope.widen_to(lent * PAGE_BYTES + processes.max(1) as u64 * share_bytes)
    }

    // Programs.

    /// Starts a task's program. Returns whether it runs; if not, its failure is noted.
    pub(super) fn start(&mut self, task: usize) -> Result<bool, RunError> {
        let options = self.options;
        let order = Order {
            secret: self.switchboard.secret,
            limit_pages: self.frames as u64,
            prefetch_pages: options.prefetch_pages.min(MOST_PREFETCH_PAGES),
            use_ring: u32::from(options.use_ring),
            policy: text("policy", Some(&options.policy.to_string()))?,
            directory: text("path of the backing store", self.directory.to_str())?,
            lender: text("name of the socket", Some(&self.switchboard.name))?,
            task: task as u32,
            // The policy and its bits are the supervisor's. It raises the cgroup's limit itself,
            // because it knows all processes of all tasks.
            ..Order::default()
        };
        let of = &mut self.programs[task];
        let mut command = Command::new(&of.job.command[0]);
        command.args(&of.job.command[1..]).envs(&of.job.environment);
        let block = self.library.equip(&mut command, order)?;
        self.scope.enter(&mut command)?;
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
            Err(error) => of.failure = Some(format!("cannot be started: {error}")),
        }
        Ok(of.process.is_some())
    }

    /// Takes the exit status of a task's first process. Returns whether it has ended.
    pub(super) fn reap(&mut self, task: usize) -> bool {
        let of = &mut self.programs[task];
        let Some((pid, _)) = &of.process else { return false };
        let (mut status, pid) = (0, pid.as_raw_nonzero().get());
        // SAFETY: wait4 fills in the variables that it gets, and rusage is plain data.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if ended != pid {
            return false;
        }
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        (of.user_ns, of.sys_ns) = (ns(usage.ru_utime), ns(usage.ru_stime));
        of.process = None;
        let status = ExitStatus::from_raw(status);
        of.exit_status = Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()));
        if let Some(block) = &of.block {
            of.failure = of.failure.take().or_else(|| block.failure());
            if block.control.counters.agents.load(Relaxed) == 0 && status.success() {
                let words = "did not load the pager: what it printed was made without a limit";
                of.failure = Some(words.to_string());
            }
        }
        true
    }

    /// Passes signals on to all programs. Returns whether there were any.
    pub(super) fn take_signals(&mut self) -> bool {
        let mut bytes = [0_u8; 16];
        let read = self.signals.as_ref().map(|signals| rustix::io::read(signals, &mut bytes[..]));
        match read {
            Some(Ok(count)) if count > 0 => {
                let named = |&byte: &u8| Signal::from_named_raw(i32::from(byte));
                for signal in bytes[..count].iter().filter_map(named) {
                    for (pid, _) in self.programs.iter().filter_map(|program| program.process.as_ref()) {
                        let _ = kill_process(*pid, signal);
                    }
                }
                return true;
            }
            Some(Err(Errno::INTR | Errno::AGAIN)) => {}
            // No more signals will come.
            _ => self.signals = None,
        }
        false
    }

    /// Ends the processes that have outlived their tasks, and adds what was counted.
    pub(super) fn finish(self, statistics: &mut TasksStatistics) {
        for link in self.links.iter().flatten() {
            statistics.left_behind += 1;
            link.kill();
        }
        for (task, program) in statistics.tasks.iter_mut().zip(self.programs) {
            task.exit_status = program.exit_status;
            task.failure = program.failure;
            (task.user_ns, task.sys_ns) = (program.user_ns, program.sys_ns);
            if let Some(block) = &program.block {
                task.count(&block.control.counters);
            }
        }
        (statistics.cgroup, statistics.cgroup_oom_kills) = (self.scope.counts(), self.scope.oom_kills());
        statistics.command_ns = processor_ns(0).unwrap_or(0);
    }
}
