//! A run: the order for the agents, the program as a child, and how both ended.

use crate::error::{RunError, system};
use crate::launch::{ControlBlock, Library, text};
use crate::options::{Options, PoolSize, ReferenceBits};
use crate::program;
use crate::run_scope::RunScope;
use crate::statistics::{Snapshot, Statistics};
use crate::{LEAST_BYTES, MOST_PREFETCH_PAGES, PAGE_BYTES};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use sweephand_pager_interface::control::{Control, Order};
use sweephand_pager_interface::division::{most_auto_pool_pages, most_pool_pages};
use sweephand_pager_interface::memory::kernel_share;
use sweephand_process::accessed::{AccessedBits, ProgramServer};
use sweephand_process::usage;
use sweephand_uffd::{OpenError, TRACKED, Userfaultfd};

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The program's status.
    pub status: ExitStatus,
    /// What was counted.
    pub statistics: Statistics,
}

/// A run that can be watched, of one program or of several.
pub trait Watched {
    /// How it stands now.
    fn snapshot(&self) -> Snapshot;
    /// Whether it has ended.
    fn has_ended(&self) -> bool;
}

/// A program that is running, under whichever means.
pub trait Running: Watched {
    /// The program's process.
    fn child(&self) -> &Child;
    /// The counts so far; of processor time and the exit status nothing is known yet.
    fn statistics(&self) -> Statistics;
    /// Waits for the program.
    fn wait(self: Box<Self>) -> Result<Ended, RunError>;
}

/// A program that is running under the pager.
pub struct Run {
    program: PathBuf,
    policy: String,
    child: Child,
    block: ControlBlock,
    started: Instant,
    scope: RunScope,
    /// Where agents ask for the program that reads accessed bits, if they are to.
    server: Option<ProgramServer>,
}

impl Run {
    /// Starts a program: its name, and its arguments. `prepare` sees to its streams and whatever
    /// else is not paging.
    pub fn start(
        command: &[OsString],
        options: &Options,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, RunError> {
        let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        check_limit(options.limit_bytes)?;
        let directory = check_swap(&options.swap)?;
        let program = program::find(name)?;
        let policy = options.policy.to_string();
        let share_bytes = kernel_share(options.limit_bytes);
        let budget_bytes = options.limit_bytes + share_bytes;
        let scope = RunScope::around(budget_bytes, options.cgroup_limit)?;
        let server = open_server(options.reference_bits)?;
        let may_track = may_track(options.reference_bits)?;
        let order = Order {
            limit_pages: options.limit_bytes / PAGE_BYTES,
            prefetch_pages: options.prefetch_pages.min(MOST_PREFETCH_PAGES),
            use_ring: u32::from(options.use_ring),
            read_delay_ns: u64::try_from(options.read_delay.as_nanos()).unwrap_or(u64::MAX),
            accessed_bits: server.as_ref().map_or(0, ProgramServer::number),
            may_track: u32::from(may_track),
            pool_pages: pool_pages(options)?,
            pool_is_auto: u32::from(options.pool == PoolSize::Auto),
            policy: text("policy", Some(&policy))?,
            directory: text("path of the backing store", directory.to_str())?,
            cgroup_limit: text("path of the cgroup", scope.limit_file().to_str())?,
            share_bytes,
            cgroup_process_bytes: scope.process_bytes(),
            ..Order::default()
        };
        let mut start = Command::new(name);
        start.args(command.get(1..).unwrap_or_default());
        allow_sanitizers(&mut start);
        let block = Library::new(scope.directory())?.equip(&mut start, order)?;
        scope.enter(&mut start)?;
        prepare(&mut start);
        let started = Instant::now();
        let child = start.spawn().map_err(system(format!("{}: cannot be started", program.display())))?;
        Ok(Self { program, policy, child, block, started, scope, server })
    }
}

impl Watched for Run {
    fn snapshot(&self) -> Snapshot {
        let resident_pages = self.block.control.counters.resident_pages.load(Relaxed);
        Snapshot::new(&self.statistics(), resident_pages)
    }

    fn has_ended(&self) -> bool {
        usage::has_ended(&self.child)
    }
}

impl Running for Run {
    fn child(&self) -> &Child {
        &self.child
    }

    fn statistics(&self) -> Statistics {
        let Control { order, counters, .. } = self.block.control;
        let mut statistics =
            Statistics::new(counters, &self.policy, order.limit_pages, self.started.elapsed());
        statistics.backend = Some("anon".to_string());
        let has_some = |counter: &AtomicU64| counter.load(Relaxed) > 0;
        statistics.reference_bits = Some(match self.server.as_ref().and_then(ProgramServer::refusal) {
            _ if has_some(&counters.hardware_bits) => "hardware".to_string(),
            _ if has_some(&counters.tracked_bits) => "rwp".to_string(),
            _ if !has_some(&counters.software_bits) => "none".to_string(),
            Some(reason) => format!("software: {reason}"),
            None => "software".to_string(),
        });
        statistics.set_pool(counters, u64::from(order.pool_pages) * PAGE_BYTES);
        statistics.budget_bytes = Some(order.budget_pages() as u64 * PAGE_BYTES);
        statistics.cgroup = self.scope.counts();
        statistics
    }

    fn wait(self: Box<Self>) -> Result<Ended, RunError> {
        let waited = usage::wait(&self.child);
        let (status, usage) =
            waited.map_err(system(format!("{}: cannot be waited for", self.program.display())))?;
        // Processes that it leaves behind go on as they would have.
        self.block.control.release();
        let mut statistics = self.statistics();
        statistics.ended(status, &usage);
        let too_large = self.scope.oom_kills() > 0;
        let contents = self.scope.contents();
        self.scope.finish();
        if let Some(words) = self.block.failure() {
            return Err(RunError::Pager { program: self.program, words });
        }
        if let (true, Some(limit_bytes)) = (too_large, statistics.cgroup.limit_bytes) {
            return Err(RunError::TooLarge { program: self.program, limit_bytes, contents });
        }
        if statistics.processes == Some(0) && status.success() {
            return Err(RunError::NotLoaded(self.program));
        }
        Ok(Ended { status, statistics })
    }
}

/// Where agents ask for the program that reads accessed bits; `None` if they must not ask. If
/// there is no run without those bits, it is loaded now.
fn open_server(reference_bits: ReferenceBits) -> Result<Option<ProgramServer>, RunError> {
    let bits = match reference_bits {
        ReferenceBits::Software | ReferenceBits::Rwp => return Ok(None),
        ReferenceBits::Auto => None,
        ReferenceBits::Hardware => {
            Some(AccessedBits::load().map_err(|error| RunError::NoHardwareBits(error.to_string()))?)
        }
    };
    let server =
        ProgramServer::open(bits).map_err(system("a socket for the pager cannot be made".to_string()))?;
    Ok(Some(server))
}

/// Whether reference bits may come from the kernel's read-write protection. If there is no run
/// without it, this finds out whether the kernel has it.
fn may_track(reference_bits: ReferenceBits) -> Result<bool, RunError> {
    match reference_bits {
        ReferenceBits::Hardware | ReferenceBits::Software => Ok(false),
        ReferenceBits::Auto => Ok(true),
        ReferenceBits::Rwp => match Userfaultfd::open(TRACKED) {
            // The agent says what to do if it may have no userfaultfd at all.
            Ok(_) | Err(OpenError::NotPermitted) => Ok(true),
            Err(OpenError::NotSupported) => Err(RunError::NoRwp(
                "this kernel has no read-write protection: Linux 7.3 is needed".to_string(),
            )),
            Err(OpenError::Other(error)) => {
                Err(RunError::NoRwp(format!("userfaultfd cannot be opened: {error}")))
            }
        },
    }
}

/// A program that is made with AddressSanitizer refuses to start behind a library that it does not
/// know, unless a variable allows it. The program may start such a program.
pub(crate) fn allow_sanitizers(command: &mut Command) {
    const VARIABLE: &str = "ASAN_OPTIONS";
    let mut options = std::env::var_os(VARIABLE).unwrap_or_default();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
    command.env(VARIABLE, options);
}

pub(crate) fn check_limit(bytes: u64) -> Result<(), RunError> {
    if bytes < LEAST_BYTES { Err(RunError::TooLittle { bytes }) } else { Ok(()) }
}

/// Fails if compressed pages of this many bytes leave too little for the rest, of which a policy
/// takes `policy_bytes` for each page.
pub(crate) fn check_pool(bytes: u64, limit_bytes: u64, policy_bytes: usize) -> Result<(), RunError> {
    let most_bytes = most_pool_pages(limit_bytes / PAGE_BYTES, policy_bytes) * PAGE_BYTES;
    match bytes <= most_bytes {
        true => Ok(()),
        false => Err(RunError::PoolTooLarge { bytes, limit_bytes, most_bytes }),
    }
}

/// The pages of memory that an agent's compressed pages have at most.
fn pool_pages(options: &Options) -> Result<u32, RunError> {
    let (limit_bytes, policy_bytes) = (options.limit_bytes, options.policy.bytes_a_page());
    let limit_pages = limit_bytes / PAGE_BYTES;
    Ok(match options.pool {
        PoolSize::Off | PoolSize::AutoIfSlow => 0,
        PoolSize::Auto => {
            most_auto_pool_pages(limit_pages).min(most_pool_pages(limit_pages, policy_bytes)) as u32
        }
        PoolSize::Bytes(bytes) => {
            check_pool(bytes, limit_bytes, policy_bytes)?;
            (bytes / PAGE_BYTES) as u32
        }
    })
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
