//! The limit of a running service's memory cgroup: lowered for some time, and put back.
//!
//! ```text
//!   v1   memory.limit_in_bytes   lowering it reclaims, and fails if that is not enough (EBUSY)
//!   v2   memory.high             lowering it reclaims; memory.reclaim first, where it is there, so
//!                                that the service's own threads need not
//! ```
//!
//! The limit belongs to somebody else: systemd, a container engine, an operator. So each change
//! first looks whether the limit is still the one that was set here last. If it is not, it stays as
//! it is from then on. A process of its own puts the limit back if this one is killed
//! (`limit_tidy`).
//!
//! In version 1 the kernel kills a process when the limit leaves no memory. While the limit is
//! lowered, it has processes wait instead (`memory.oom_control`), until the limit is raised again.

use crate::cgroup::field;
use crate::charge::{Charge, file_bytes, limit};
use crate::group::all_below;
use crate::limit_tidy::Tidy;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use sweephand_pager_interface::memory::PAGE_BYTES;

/// Why a limit cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The directory has no files of the memory controller.
    #[error(
        "{}: the memory controller has no limit here: this is the topmost cgroup, or one of another controller",
        .0.display()
    )]
    NoController(PathBuf),
    /// The limit cannot be written.
    #[error("{}: cannot be written: do this as root, on the host and not in a container", .0.display())]
    NoPermission(PathBuf, #[source] io::Error),
    /// Another process has the cgroup's lock.
    #[error("{}: another --try is lowering this limit; wait for its end", .0.display())]
    Busy(PathBuf),
    /// The kernel could not take back enough memory.
    #[error("{}: the kernel cannot take back enough memory for this limit", .0.display())]
    Refused(PathBuf),
    /// The limit is not what was set here.
    #[error("{}: somebody else has set it to {now}, and it stays so", .path.display())]
    Changed {
        /// The file with the limit.
        path: PathBuf,
        /// The limit now, as the file has it.
        now: String,
    },
    /// The cgroup has gone.
    #[error("{}: the cgroup is gone", .0.display())]
    Gone(PathBuf),
    /// A file is not as it was before the limit was lowered.
    #[error("{}: it is not as it was: write {original} to it", .path.display())]
    NotRestored {
        /// The file.
        path: PathBuf,
        /// What it had at first.
        original: String,
        /// Why it could not be put back.
        source: io::Error,
    },
    /// Something else went wrong.
    #[error("{}", .0.display())]
    System(PathBuf, #[source] io::Error),
}

/// Which version of cgroups the memory controller is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// What the kernel has counted in a cgroup and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Memory that is charged.
    pub usage_bytes: u64,
    /// Faults that waited for a disk or for the swap.
    pub major_faults: u64,
    /// Pages that came back after they had been reclaimed. `None`: the kernel does not count them.
    pub refaults: Option<u64>,
    /// Processes that the kernel has killed because there was no memory.
    pub oom_kills: u64,
    /// Processes wait because the limit leaves no memory (version 1).
    pub is_out_of_memory: bool,
}

/// What the memory of a cgroup and those below it consists of, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Makeup {
    /// All that is charged.
    pub usage_bytes: u64,
    /// Anonymous memory and shared memory: it goes to the swap or nowhere.
    pub swappable_bytes: u64,
    /// Cached files.
    pub file_bytes: u64,
    /// Page tables, stacks and the like, as [`Charge`] has them.
    pub kernel_bytes: u64,
    /// Memory that is locked.
    pub unevictable_bytes: u64,
}

/// The limit of a running service.
#[derive(Debug)]
pub struct ServiceLimit {
    version: Version,
    path: PathBuf,
    /// What the file had at first, as it is.
    original: String,
    /// What has been written here last. `None`: it is as it was.
    last_bytes: Option<u64>,
    /// Processes are killed when there is no memory, and wait for as long as the limit is lower.
    may_wait: bool,
    /// They wait at present.
    does_wait: bool,
    /// Somebody else has changed the limit.
    is_lost: bool,
    tidy: Option<Tidy>,
    /// Locked while this lives. The process that puts the limit back has it, too.
    lock: OwnedFd,
}

impl ServiceLimit {
    /// Takes the limit of a cgroup over. Nothing is changed yet. It fails if the cgroup has no
    /// limit, if the limit cannot be written, or if another process has taken it over.
    pub fn of(path: &Path) -> Result<Self, LimitError> {
        let files = [(Version::V1, "memory.limit_in_bytes"), (Version::V2, "memory.high")];
        let found = files.into_iter().find(|(_, file)| path.join(file).exists());
        let is_topmost = !path.parent().is_some_and(|above| above.join("cgroup.procs").exists());
        let Some((version, file)) = found.filter(|_| !is_topmost) else {
            return Err(LimitError::NoController(path.to_path_buf()));
        };
        let file = path.join(file);
        let failed = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => LimitError::NoPermission(file.clone(), error),
            _ => LimitError::System(file.clone(), error),
        };
        fs::File::options().write(true).open(&file).map_err(failed)?;
        let lock = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => LimitError::Busy(path.to_path_buf()),
            error => LimitError::System(path.to_path_buf(), error.into()),
        })?;
        let original = fs::read_to_string(&file).map_err(failed)?.trim().to_string();
        let control = fs::read_to_string(path.join("memory.oom_control")).unwrap_or_default();
        let may_wait = version == Version::V1 && field(&control, "oom_kill_disable") == Some(0);
        let path = path.to_path_buf();
        Ok(Self {
            version,
            path,
            original,
            last_bytes: None,
            may_wait,
            does_wait: false,
            is_lost: false,
            tidy: None,
            lock,
        })
    }

    /// The cgroup's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// 1 or 2.
    pub fn cgroup_version(&self) -> u32 {
        if self.version == Version::V1 { 1 } else { 2 }
    }

    /// The file with the limit.
    pub fn file(&self) -> PathBuf {
        self.path.join(match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.high",
        })
    }

    /// The limit before it was lowered. `None`: there was none.
    pub fn original_bytes(&self) -> Option<u64> {
        limit(&self.original)
    }

    /// The lowest limit of the cgroups above this one, with its file.
    pub fn lowest_above(&self) -> Option<(PathBuf, u64)> {
        let files: &[&str] = match self.version {
            Version::V1 => &["memory.limit_in_bytes"],
            Version::V2 => &["memory.high", "memory.max"],
        };
        self.with_those_above()
            .skip(1)
            .flat_map(|path| files.iter().map(|file| path.join(file)))
            .filter_map(|file| Some((file.clone(), number(&file)?)))
            .min_by_key(|(_, bytes)| *bytes)
    }

    fn with_those_above(&self) -> impl Iterator<Item = &Path> {
        self.path.ancestors().take_while(|path| path.join("cgroup.procs").exists())
    }

    /// How many bytes more the cgroup may swap out, as far as it says itself, with those above and
    /// below it. 0: it may not at all, or one below it that has processes may not.
    pub fn most_swap_bytes(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.swappiness",
            Version::V2 => "memory.swap.max",
        };
        let is_without = |path: &Path| number(&path.join(file)) == Some(0);
        let has_processes = |path: &Path| {
            fs::read_to_string(path.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty())
        };
        if is_without(&self.path)
            || all_below(&self.path).iter().any(|path| is_without(path) && has_processes(path))
        {
            return 0;
        }
        if self.version == Version::V1 {
            return u64::MAX;
        }
        let left = |path: &Path| {
            let used = number(&path.join("memory.swap.current")).unwrap_or_default();
            Some(number(&path.join(file))?.saturating_sub(used))
        };
        self.with_those_above().filter_map(left).min().unwrap_or(u64::MAX)
    }

    /// The counts until now. It fails when the cgroup is gone.
    pub fn counts(&self) -> Result<ServiceCounts, LimitError> {
        let stat = self.read("memory.stat").ok_or_else(|| self.gone())?;
        let refaults =
            ["workingset_refault_anon", "workingset_refault_file"].map(|name| self.stat(&stat, name));
        let refaults = refaults.into_iter().flatten().reduce(|all, more| all + more);
        let (events, is_out_of_memory) = match self.version {
            Version::V1 => {
                let control = self.read("memory.oom_control").unwrap_or_default();
                let is_short = field(&control, "under_oom") == Some(1);
                (control, is_short)
            }
            Version::V2 => (self.read("memory.events").unwrap_or_default(), false),
        };
        Ok(ServiceCounts {
            usage_bytes: self.usage_bytes().ok_or_else(|| self.gone())?,
            major_faults: self.stat(&stat, "pgmajfault").unwrap_or_default(),
            refaults: refaults.or_else(|| self.stat(&stat, "workingset_refault")),
            oom_kills: field(&events, "oom_kill").unwrap_or_default(),
            is_out_of_memory,
        })
    }

    /// What its memory consists of. It fails when the cgroup is gone.
    pub fn makeup(&self) -> Result<Makeup, LimitError> {
        let text = self.read("memory.stat").ok_or_else(|| self.gone())?;
        let charge = Charge::of(&self.path).ok_or_else(|| self.gone())?;
        let anonymous = match self.version {
            Version::V1 => "rss",
            Version::V2 => "anon",
        };
        let count = |name: &str| self.stat(&text, name).unwrap_or_default();
        Ok(Makeup {
            usage_bytes: charge.all_bytes,
            swappable_bytes: count(anonymous) + count("shmem"),
            file_bytes: file_bytes(&text).unwrap_or_default(),
            kernel_bytes: charge.kernel_bytes,
            unevictable_bytes: count("unevictable"),
        })
    }

    /// A count of `memory.stat` over the cgroup and those below it.
    fn stat(&self, text: &str, name: &str) -> Option<u64> {
        match self.version {
            Version::V1 => field(text, &format!("total_{name}")),
            Version::V2 => field(text, name),
        }
    }

    fn usage_bytes(&self) -> Option<u64> {
        let v1 = self.version == Version::V1;
        number(&self.path.join(if v1 { "memory.usage_in_bytes" } else { "memory.current" }))
    }

    /// Sets the limit, rounded down to whole pages, for which the kernel takes memory back if need
    /// be. It fails if the kernel cannot ([`LimitError::Refused`]), if somebody else has changed
    /// the limit, or if the cgroup is gone.
    pub fn set(&mut self, limit_bytes: u64) -> Result<(), LimitError> {
        let limit_bytes = limit_bytes / PAGE_BYTES * PAGE_BYTES;
        self.check()?;
        if self.tidy.is_none() {
            let oom_control = self.may_wait.then(|| self.path.join("memory.oom_control"));
            let lock = self.lock.try_clone().map_err(|error| self.system(error))?;
            let tidy = Tidy::start(&self.file(), &self.original, oom_control.as_deref(), lock);
            self.tidy = Some(tidy.map_err(|error| self.system(error))?);
        }
        let announced = self.tidy.as_mut().map_or(Ok(()), |tidy| tidy.announce(limit_bytes));
        announced.map_err(|error| self.system(error))?;
        self.have_processes_wait(self.may_wait)?;
        if self.version == Version::V2 {
            let more = self.usage_bytes().unwrap_or_default().saturating_sub(limit_bytes);
            if more > 0 {
                // What is missing is taken back by the write below.
                let _ = fs::write(self.path.join("memory.reclaim"), more.to_string());
            }
        }
        match fs::write(self.file(), limit_bytes.to_string()) {
            Ok(()) => {
                self.last_bytes = Some(limit_bytes);
                Ok(())
            }
            // The limit is what it was.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                Err(LimitError::Refused(self.path.clone()))
            }
            Err(_) if !self.path.exists() => Err(self.gone()),
            Err(error) => Err(self.system(error)),
        }
    }

    /// Whether the limit is still as it was set here last. It fails if it is not, or if the cgroup
    /// is gone.
    pub fn check(&mut self) -> Result<(), LimitError> {
        let now = self.read_limit()?;
        let is_ours = self.last_bytes.map_or(now == self.original, |bytes| now == bytes.to_string());
        if is_ours && !self.is_lost {
            return Ok(());
        }
        self.is_lost = true;
        Err(LimitError::Changed { path: self.file(), now })
    }

    /// Has processes that find no memory wait, or has the kernel kill them again.
    fn have_processes_wait(&mut self, wait: bool) -> Result<(), LimitError> {
        if self.does_wait == wait {
            return Ok(());
        }
        let control = self.path.join("memory.oom_control");
        fs::write(&control, if wait { "1" } else { "0" })
            .map_err(|error| LimitError::System(control, error))?;
        self.does_wait = wait;
        Ok(())
    }

    /// Puts the limit back as it was; it can be lowered again. Where somebody else has changed it,
    /// it stays, which is an error. [`LimitError::NotRestored`] says what has to be written where.
    pub fn restore(&mut self) -> Result<(), LimitError> {
        let result = match self.last_bytes {
            None => Ok(()),
            Some(_) => self.check().and_then(|()| {
                fs::write(self.file(), &self.original).map_err(|error| self.system(error))?;
                self.last_bytes = None;
                Ok(())
            }),
        };
        if !self.path.exists() {
            return result.map_err(|_| self.gone());
        }
        // Only then: the higher limit lets those go on that wait.
        let control = self.have_processes_wait(false);
        result.map_err(|error| not_restored(error, &self.original))?;
        control.map_err(|error| not_restored(error, "0"))
    }

    fn read_limit(&self) -> Result<String, LimitError> {
        match fs::read_to_string(self.file()) {
            Ok(text) => Ok(text.trim().to_string()),
            Err(_) if !self.path.exists() => Err(self.gone()),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => Err(self.gone()),
            Err(error) => Err(self.system(error)),
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    fn gone(&self) -> LimitError {
        LimitError::Gone(self.path.clone())
    }

    fn system(&self, error: io::Error) -> LimitError {
        LimitError::System(self.file(), error)
    }
}

impl Drop for ServiceLimit {
    fn drop(&mut self) {
        // The caller of `restore` has seen the error. If it fails here, the other process tries.
        if self.restore().is_ok() || self.is_lost {
            self.tidy.take().into_iter().for_each(Tidy::finish);
        }
    }
}

/// The number in a file. `None`: it is not there, or the file stands for no limit.
fn number(file: &Path) -> Option<u64> {
    limit(fs::read_to_string(file).ok()?.trim())
}

fn not_restored(error: LimitError, original: &str) -> LimitError {
    match error {
        LimitError::System(path, source) => {
            LimitError::NotRestored { path, original: original.to_string(), source }
        }
        error => error,
    }
}

/// How much of the machine's swap is free.
pub fn free_swap_bytes() -> u64 {
    free_swap(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn free_swap(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("SwapFree:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

#[cfg(test)]
mod tests;
