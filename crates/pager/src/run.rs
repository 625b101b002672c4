//! A run: the order for the agents, the program as a child, and how both ended.

use crate::cgroup::{Cgroup, CgroupError, Swap, kernel_share};
use crate::program::{self, ProgramError};
use crate::statistics::Statistics;
use crate::tidy::Tidy;
use crate::{LEAST_BYTES, MOST_PREFETCH_PAGES, PAGE_BYTES, usage};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;
use sweephand_agent::control::{Backend, CONTROL_BYTES, Control, MAGIC, Order, Text, VARIABLE};
use sweephand_agent::live::LiveSpec;

/// The library with the agent.
pub(crate) static PRELOAD: &[u8] = include_bytes!(env!("SWEEPHAND_PRELOAD"));

/// How to run a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// Anonymous memory of each process of the program, the pager's own included.
    pub limit_bytes: u64,
    /// Which pages go.
    pub policy: LiveSpec,
    /// A directory for the backing store, or a file's name in one.
    pub swap: PathBuf,
    /// Most pages to read ahead at once; 0 for none.
    pub prefetch_pages: u32,
    /// Whether to use io_uring where there is one.
    pub use_ring: bool,
    /// How pages are taken from the program.
    pub backend: Backend,
}

/// Why a run did not start, or did not come to its own end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The program is of a kind that cannot be run so.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The policy is for simulation.
    #[error("policy '{policy}' needs every reference and can only be simulated; these can run live: {live}")]
    Policy {
        /// As typed.
        policy: String,
        /// The names of those that can.
        live: String,
    },
    /// Nothing can be done in so little memory.
    #[error(
        "{bytes} bytes of memory are too few: the pager itself needs some; give it {LEAST_BYTES} at least"
    )]
    TooLittle {
        /// As asked for.
        bytes: u64,
    },
    /// The backing store cannot be where it should.
    #[error("{}: {reason}; name another place with --swap", .path.display())]
    Swap {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system refuses something.
    #[error("{what}: {error}")]
    System {
        /// What was asked for.
        what: String,
        /// The answer.
        error: io::Error,
    },
    /// The pager could not go on, and ended the program.
    #[error("{}: {words}", .program.display())]
    Pager {
        /// The program.
        program: PathBuf,
        /// Why.
        words: String,
    },
    /// Only root may do that.
    #[error("run --kernel makes a memory cgroup and a swap file: that is for root")]
    Root,
    /// There is no cgroup where one is needed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The cgroup's limit was no longer to be kept.
    #[error(
        "{}: the kernel ended it, or a process of it: all its memory, with page tables and files, did not fit the cgroup's \
         {limit_bytes} bytes; give it more with --memory", .program.display()
    )]
    TooLarge {
        /// The program.
        program: PathBuf,
        /// The cgroup's limit.
        limit_bytes: u64,
    },
    /// The program ran without its pager.
    #[error("{}: did not load the pager: what it printed was made without a limit", .0.display())]
    NotLoaded(PathBuf),
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The program's status.
    pub status: ExitStatus,
    /// What was counted.
    pub statistics: Statistics,
}

/// A program that is running, under whichever means.
pub trait Running {
    /// The program's process.
    fn child(&self) -> &Child;
    /// The counts so far; of processor time and the exit status nothing is known yet.
    fn statistics(&self) -> Statistics;
    /// Pages resident now: in the process of the program that said so last, or in its cgroup.
    fn resident_pages(&self) -> u64;
    /// Whether the program has ended.
    fn has_ended(&self) -> bool;
    /// Waits for the program.
    fn wait(self: Box<Self>) -> Result<Ended, RunError>;
}

/// A program that is running under the pager.
pub struct Run {
    program: PathBuf,
    policy: String,
    child: Child,
    control: &'static Control,
    started: Instant,
    /// Or why there is none.
    cgroup: Result<(Cgroup, Tidy), String>,
    /// The library and the control file, which the program names as files of this process.
    _files: [OwnedFd; 2],
}

impl Run {
    /// Starts a program: its name, and its arguments. `prepare` sees to its streams and whatever else is not paging.
    pub fn start(
        command: &[OsString],
        options: &Options,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, RunError> {
        let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        check_limit(options.limit_bytes)?;
        let directory = check_swap(&options.swap)?;
        let program = program::find(name)?;
        let text = |what: &str| RunError::System {
            what: format!("the {what} is too long for the pager"),
            error: io::ErrorKind::InvalidInput.into(),
        };
        let policy = options.policy.to_string();
        let share_bytes = kernel_share(options.limit_bytes);
        let cgroup = match Cgroup::new(options.limit_bytes + share_bytes, Swap::Off) {
            Ok(cgroup) => {
                let tidy = Tidy::start(&cgroup, None).map_err(system("/bin/sh: cannot be started".into()))?;
                Ok((cgroup, tidy))
            }
            Err(error) => Err(error.to_string()),
        };
        let limit_file = cgroup.as_ref().map(|(cgroup, _)| cgroup.limit_file()).unwrap_or_default();
        let order = Order {
            magic: MAGIC,
            supervisor: std::process::id() as i32,
            limit_pages: options.limit_bytes / PAGE_BYTES,
            prefetch_pages: options.prefetch_pages.min(MOST_PREFETCH_PAGES),
            use_ring: u32::from(options.use_ring),
            backend: options.backend as u32,
            policy: Text::new(&policy).ok_or_else(|| text("policy"))?,
            directory: directory
                .to_str()
                .and_then(Text::new)
                .ok_or_else(|| text("path of the backing store"))?,
            cgroup_limit: limit_file
                .to_str()
                .and_then(Text::new)
                .ok_or_else(|| text("path of the cgroup"))?,
            cgroup_share_bytes: share_bytes,
            lender: Text::default(),
            task: 0,
        };
        let library = memory_file("sweephand-pager", PRELOAD)?;
        let control_file = memory_file("sweephand-control", &[0; CONTROL_BYTES])?;
        let control = map_control(&control_file, order)?;
        let name_of = |file: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut preload = OsString::from(name_of(&library));
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut start = Command::new(name);
        start.args(command.get(1..).unwrap_or_default());
        start.env("LD_PRELOAD", preload).env(VARIABLE, name_of(&control_file));
        if let Ok((cgroup, _)) = &cgroup {
            cgroup.enter(&mut start)?;
        }
        prepare(&mut start);
        let started = Instant::now();
        let child = start.spawn().map_err(system(format!("{}: cannot be started", program.display())))?;
        Ok(Self { program, policy, child, control, started, cgroup, _files: [library, control_file] })
    }
}

impl Running for Run {
    fn child(&self) -> &Child {
        &self.child
    }

    fn statistics(&self) -> Statistics {
        let Control { order, counters, .. } = self.control;
        let mut statistics =
            Statistics::new(counters, &self.policy, order.limit_pages, self.started.elapsed());
        statistics.backend = Some(if order.is_memfd() { "memfd" } else { "anon" }.to_string());
        match &self.cgroup {
            Ok((cgroup, _)) => statistics.account(cgroup),
            Err(reason) => statistics.cgroup_missing = Some(reason.clone()),
        }
        statistics
    }

    fn resident_pages(&self) -> u64 {
        self.control.counters.resident_pages.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        usage::has_ended(&self.child)
    }

    fn wait(self: Box<Self>) -> Result<Ended, RunError> {
        let waited = usage::wait(&self.child);
        let (status, usage) =
            waited.map_err(system(format!("{}: cannot be waited for", self.program.display())))?;
        // Processes that it leaves behind go on as they would have.
        self.control.release();
        let mut statistics = self.statistics();
        statistics.ended(status, &usage);
        let mut too_large = false;
        if let Ok((cgroup, tidy)) = self.cgroup {
            too_large = cgroup.oom_kills() > 0;
            tidy.finish();
        }
        if let Some(words) = self.control.failure() {
            return Err(RunError::Pager { program: self.program, words: words.to_string() });
        }
        if let (true, Some(limit_bytes)) = (too_large, statistics.cgroup_limit_bytes) {
            return Err(RunError::TooLarge { program: self.program, limit_bytes });
        }
        if statistics.processes == Some(0) && status.success() {
            return Err(RunError::NotLoaded(self.program));
        }
        Ok(Ended { status, statistics })
    }
}

pub(crate) fn system(what: String) -> impl FnOnce(io::Error) -> RunError {
    |error| RunError::System { what, error }
}

pub(crate) fn check_limit(bytes: u64) -> Result<(), RunError> {
    if bytes < LEAST_BYTES { Err(RunError::TooLittle { bytes }) } else { Ok(()) }
}

/// The directory that is meant by a directory, or by a file's name in it.
pub(crate) fn swap_directory(swap: &Path) -> Result<PathBuf, RunError> {
    let directory = match swap.parent() {
        Some(parent) if !swap.is_dir() => {
            if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            }
        }
        _ => swap,
    };
    let refused = |reason: String| RunError::Swap { path: directory.to_path_buf(), reason };
    directory.canonicalize().map_err(|error| refused(error.to_string()))
}

/// The directory to page to, if files without a name and direct I/O can be had there.
pub(crate) fn check_swap(swap: &Path) -> Result<PathBuf, RunError> {
    let directory = swap_directory(swap)?;
    let refused = |reason: String| RunError::Swap { path: directory.clone(), reason };
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    let kind = rustix::fs::statfs(&directory).map_err(|error| refused(error.to_string()))?.f_type;
    if [TMPFS, RAMFS].contains(&(kind as i64)) {
        return Err(refused("is in memory, where paging saves nothing".to_string()));
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE | OFlags::DIRECT;
    match rustix::fs::open(&directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(directory),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::ISDIR) => {
            Err(refused("its file system lacks direct I/O or files without a name".to_string()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

pub(crate) fn memory_file(name: &str, contents: &[u8]) -> Result<OwnedFd, RunError> {
    use io::Write;
    let context = || system("a file in memory cannot be made for the pager".to_string());
    let file = memfd_create(name, MemfdFlags::CLOEXEC).map_err(|error| context()(error.into()))?;
    let mut file = std::fs::File::from(file);
    file.write_all(contents).map_err(context())?;
    Ok(file.into())
}

pub(crate) fn map_control(file: &OwnedFd, order: Order) -> Result<&'static Control, RunError> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file of that size, which is never unmapped.
    let block = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), CONTROL_BYTES, protection, MapFlags::SHARED, file, 0)
    };
    let block =
        block.map_err(|error| system("no memory for the pager's control block".to_string())(error.into()))?;
    let block = block.cast::<Control>();
    // SAFETY: nobody else knows the block yet, and it is large enough and aligned to a page.
    unsafe {
        block.write(Control::new(order));
        Ok(&*block)
    }
}
