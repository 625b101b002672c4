//! A memory cgroup around processes: a program, and what pages it. In it, the kernel counts what
//! they use together.
//!
//! ```text
//!   v1   mount/OWN/sweephand-PID-N              where this process is itself
//!   v2   mount/ANCESTOR/sweephand-PID-N         the nearest above it that hands the memory controller down
//! ```
//!
//! A cgroup counts more than a pager does: page tables, kernel stacks, and cached pages of files
//! that its processes read first. So `sweephand_pager_interface::memory::kernel_share` is added to
//! the memory that the user asks for. Under the kernel's paging, the sum is the cgroup's limit.
//! Under the pager it is each process's budget, and `sweephand-pager` changes the cgroup's limit
//! with the processes that are alive.
//!
//! When the cgroup hits its limit, the kernel reclaims cached files. Swap is off in the cgroup of a
//! paged program, so the kernel can take nothing else there. If that is not enough, it kills a
//! process or makes it wait. So the limit always holds, and a hit count of 0 shows that the
//! processes never asked for more.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use sweephand_pager_interface::memory::PAGE_BYTES;

/// Why there is no cgroup.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct CgroupError {
    /// The cgroup, or where it was looked for.
    path: PathBuf,
    /// What went wrong.
    reason: String,
}

/// Whether a program's anonymous memory may go to the kernel's swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swap {
    /// It may not.
    Off,
    /// It may.
    On,
}

/// What the kernel has counted for a run's cgroup. All counts are `None` if there is no cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CgroupCounts {
    /// Number of times that the memory cgroup hit its limit.
    #[serde(rename = "cgroup_failcnt")]
    pub failcnt: Option<u64>,
    /// The cgroup's limit.
    #[serde(rename = "cgroup_limit_bytes")]
    pub limit_bytes: Option<u64>,
    /// Most memory that the cgroup had at one time, including page tables, kernel memory and cached
    /// files.
    #[serde(rename = "cgroup_peak_bytes")]
    pub peak_bytes: Option<u64>,
    /// Why there was no cgroup.
    #[serde(rename = "cgroup_missing")]
    pub missing: Option<String>,
}

impl CgroupCounts {
    /// Those of a run without a cgroup, and why there is none.
    pub fn without(reason: &str) -> Self {
        Self { missing: Some(reason.to_string()), ..Self::default() }
    }
}

/// What is in a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// All memory.
    pub usage_bytes: u64,
    /// Anonymous memory, and private pages of files that the program wrote to.
    pub private_bytes: u64,
    /// Shared memory, and files in memory.
    pub shared_bytes: u64,
    /// Cached files.
    pub file_bytes: u64,
    /// Page tables, stacks and the like.
    pub kernel_bytes: u64,
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        write!(
            f,
            "{} MiB private, {} MiB shared memory, {} MiB of files, {} MiB page tables and the like",
            mib(self.private_bytes),
            mib(self.shared_bytes),
            mib(self.file_bytes),
            mib(self.kernel_bytes)
        )
    }
}

/// What is charged to a cgroup, and how much of that its limit could do without.
#[derive(Clone, Copy, Debug)]
pub struct Charged {
    /// All of it.
    pub all_bytes: u64,
    /// What the kernel takes back when memory is asked for: pages of the swap cache that no process
    /// has, and cached files that were not used lately.
    pub free_bytes: u64,
    /// Anonymous memory that processes have mapped.
    pub mapped_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// A memory cgroup. The code that makes one also has to remove it.
#[derive(Debug)]
pub struct Cgroup {
    version: Version,
    /// The cgroup of this process itself.
    home: PathBuf,
    path: PathBuf,
    limit_bytes: u64,
}

impl Cgroup {
    /// Makes a cgroup with this limit, if this process may.
    pub fn new(limit_bytes: u64, swap: Swap) -> Result<Self, CgroupError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (version, home, parent) = place()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("sweephand-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(error_at(&path))?;
        let cgroup = Self { version, home, path, limit_bytes };
        let limited = match version {
            Version::V1 => {
                let off = if swap == Swap::Off { cgroup.write("memory.swappiness", 0) } else { Ok(()) };
                off.and_then(|()| cgroup.write_limit(limit_bytes))
            }
            Version::V2 => {
                // Without the controller for swap, there is no swap to switch off.
                let off = match swap {
                    Swap::Off if cgroup.path.join("memory.swap.max").exists() => {
                        cgroup.write("memory.swap.max", 0)
                    }
                    _ => Ok(()),
                };
                off.and_then(|()| cgroup.write_limit(limit_bytes))
            }
        };
        if let Err(error) = limited {
            // There is no process in the cgroup.
            let _ = fs::remove_dir(&cgroup.path);
            return Err(error);
        }
        Ok(cgroup)
    }

    fn write(&self, name: &str, value: u64) -> Result<(), CgroupError> {
        let path = self.path.join(name);
        fs::write(&path, value.to_string()).map_err(error_at(&path))
    }

    fn write_limit(&self, limit_bytes: u64) -> Result<(), CgroupError> {
        let path = self.limit_file();
        fs::write(&path, limit_bytes.to_string()).map_err(error_at(&path))
    }

    /// Sets the limit that the cgroup's processes need. The limit never goes below what is charged
    /// now, because the kernel would have to take memory back. Returns the larger of the old and
    /// the new limit.
    pub fn fit(&self, limit_bytes: impl FnOnce(&[u32]) -> u64) -> u64 {
        let Ok(file) = File::options().write(true).open(self.limit_file()) else { return self.limit_bytes() };
        // Agents count processes and raise the limit too. The lock admits one at a time.
        let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive);
        let now = self.limit_bytes();
        let mut wanted = limit_bytes(&self.members());
        if wanted < now {
            let charged = self.usage_bytes().unwrap_or(now);
            wanted = wanted.max(charged + charged / 16 + (1 << 20)).min(now);
        }
        if wanted != now && self.write_limit(wanted).is_ok() { now.max(wanted) } else { now }
    }

    /// The processes in it.
    pub fn members(&self) -> Vec<u32> {
        let members = self.read("cgroup.procs").unwrap_or_default();
        members.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Whether [`Cgroup::have_processes_wait`] may work here.
    pub fn can_have_processes_wait() -> bool {
        place().is_ok_and(|(version, home, _)| {
            version == Version::V1 && home.join("memory.oom_control").exists()
        })
    }

    /// Makes processes wait when they ask for more than the limit, instead of being killed. Returns
    /// a descriptor that becomes readable when one waits. `None`: this kernel cannot do that, and
    /// kills them.
    pub fn have_processes_wait(&self) -> Option<OwnedFd> {
        if self.version == Version::V2 {
            return None;
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let control = File::open(self.path.join("memory.oom_control")).ok()?;
        let order = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
        fs::write(self.path.join("cgroup.event_control"), order).ok()?;
        self.write("memory.oom_control", 1).ok()?;
        Some(event)
    }

    /// Whether processes are waiting for memory.
    pub fn is_short(&self) -> bool {
        self.version == Version::V1
            && self.read("memory.oom_control").and_then(|text| field(&text, "under_oom")) == Some(1)
    }

    /// Has processes that wait for memory try again: they do when the limit is raised. So it is
    /// lowered first, for which the kernel takes memory back in this thread, and then what it was.
    /// If there is nothing to take back yet, the limit stays, and they go on waiting.
    pub fn have_processes_try(&self, limit_bytes: u64) {
        const LOWERED_BYTES: u64 = 256 << 10;
        self.make_room(limit_bytes, LOWERED_BYTES);
    }

    /// Has the kernel take memory back, in this thread: until `room_bytes` of the limit are free,
    /// or, under version 2 of cgroups, that many bytes.
    pub fn make_room(&self, limit_bytes: u64, room_bytes: u64) {
        match self.version {
            // A limit that cannot be kept is refused, after the kernel has tried.
            Version::V1 if self.write_limit(limit_bytes.saturating_sub(room_bytes)).is_ok() => {
                let _ = self.write_limit(limit_bytes);
            }
            Version::V1 => {}
            // Here it would kill processes.
            Version::V2 => {
                let _ = self.write("memory.reclaim", room_bytes);
            }
        }
    }

    /// Changes the limit, for which the kernel takes memory back if need be. Returns whether it
    /// could.
    pub fn change_limit(&self, limit_bytes: u64) -> bool {
        if self.version == Version::V2 {
            // A lower limit than what is charged would kill processes.
            let more = || self.usage_bytes().map_or(u64::MAX, |usage| usage.saturating_sub(limit_bytes));
            if more() > 0 {
                let _ = self.write("memory.reclaim", more());
            }
            if more() > 0 && self.limit_bytes() > limit_bytes {
                return false;
            }
        }
        self.write_limit(limit_bytes).is_ok()
    }

    /// Changes the limit, again and again, until it is what is asked for, nothing is asked for, or
    /// for a while. If it becomes lower, it does so in steps below what is charged: processes that
    /// take memory meanwhile would keep the kernel from a large one.
    pub fn follow_limit(&self, mut wanted_bytes: impl FnMut() -> Option<u64>) {
        const MOST_STEPS: u32 = 32;
        const STEP_PART: u64 = 256;
        let mut now_bytes = self.limit_bytes();
        for _ in 0..MOST_STEPS {
            let Some(wanted_bytes) = wanted_bytes() else { return };
            // The kernel keeps it in whole pages.
            let wanted_bytes = wanted_bytes / PAGE_BYTES * PAGE_BYTES;
            if wanted_bytes == now_bytes {
                return;
            }
            let charged_bytes = self.usage_bytes().unwrap_or(now_bytes).min(now_bytes);
            let next_bytes = wanted_bytes.max(charged_bytes - charged_bytes / STEP_PART);
            if !self.change_limit(next_bytes) {
                return;
            }
            now_bytes = next_bytes;
        }
    }

    /// Lets the kernel kill processes again.
    pub fn have_processes_end(&self) {
        if self.version == Version::V2 {
            return;
        }
        let _ = self.write("memory.oom_control", 0);
    }

    /// What is in the cgroup now.
    pub fn contents(&self) -> Contents {
        let stat = self.read("memory.stat").unwrap_or_default();
        let count = |v1: &str, v2: &str| {
            field(&stat, if self.version == Version::V1 { v1 } else { v2 }).unwrap_or_default()
        };
        let usage_bytes = self.usage_bytes().unwrap_or_default();
        let shared_bytes = count("shmem", "shmem");
        let private_bytes = count("rss", "anon");
        // Shared memory is in the page cache, too.
        let file_bytes = count("cache", "file").saturating_sub(shared_bytes);
        let kernel_bytes = usage_bytes.saturating_sub(shared_bytes + private_bytes + file_bytes);
        Contents { usage_bytes, private_bytes, shared_bytes, file_bytes, kernel_bytes }
    }

    /// The most that page tables and the like have taken, if the kernel keeps that (version 1).
    pub fn most_kernel_bytes(&self) -> Option<u64> {
        number(&self.read("memory.kmem.max_usage_in_bytes")?)
    }

    /// What is charged now.
    pub fn charged(&self) -> Option<Charged> {
        let stat = self.read("memory.stat")?;
        let count = |name: &str| field(&stat, name).unwrap_or_default();
        let mapped = count(if self.version == Version::V1 { "rss" } else { "anon" });
        let anonymous = count("inactive_anon") + count("active_anon");
        let unmapped = anonymous.saturating_sub(mapped + count("shmem"));
        let free_bytes = unmapped + count("inactive_file");
        Some(Charged { all_bytes: self.usage_bytes()?, free_bytes, mapped_bytes: mapped })
    }

    /// Raises the limit to this value if it is lower. The limit is never lowered, because the
    /// kernel would have to take memory back.
    pub fn widen_to(&self, limit_bytes: u64) -> Result<(), CgroupError> {
        if self.limit_bytes() < limit_bytes { self.write_limit(limit_bytes) } else { Ok(()) }
    }

    /// The cgroup's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cgroup of this process itself.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The file with the limit. A program's pagers raise the limit with every process that the
    /// program starts.
    pub fn limit_file(&self) -> PathBuf {
        self.path.join(if self.version == Version::V1 { "memory.limit_in_bytes" } else { "memory.max" })
    }

    /// The limit now.
    pub fn limit_bytes(&self) -> u64 {
        let now = fs::read_to_string(self.limit_file()).ok().and_then(|text| number(&text));
        now.unwrap_or(self.limit_bytes)
    }

    /// Makes a command start in the cgroup.
    pub fn enter(&self, command: &mut Command) -> Result<(), CgroupError> {
        let path = self.path.join("cgroup.procs");
        let members = File::options().write(true).open(&path).map_err(error_at(&path))?;
        // SAFETY: between fork and exec this makes one system call, on a descriptor of its own.
        unsafe {
            command.pre_exec(move || match rustix::io::write(&members, b"0") {
                Ok(_) => Ok(()),
                Err(error) => Err(error.into()),
            });
        }
        Ok(())
    }

    /// The kernel's counts until now.
    pub fn counts(&self) -> CgroupCounts {
        CgroupCounts {
            failcnt: self.failcnt(),
            limit_bytes: Some(self.limit_bytes()),
            peak_bytes: self.peak_bytes(),
            missing: None,
        }
    }

    /// Number of times that the limit was hit.
    fn failcnt(&self) -> Option<u64> {
        match self.version {
            Version::V1 => number(&self.read("memory.failcnt")?),
            Version::V2 => field(&self.read("memory.events")?, "max"),
        }
    }

    /// Number of processes that the kernel has killed because the limit left them no memory.
    pub fn oom_kills(&self) -> u64 {
        let file = if self.version == Version::V1 { "memory.oom_control" } else { "memory.events" };
        self.read(file).and_then(|text| field(&text, "oom_kill")).unwrap_or_default()
    }

    /// Memory charged now.
    pub fn usage_bytes(&self) -> Option<u64> {
        let file = if self.version == Version::V1 { "memory.usage_in_bytes" } else { "memory.current" };
        number(&self.read(file)?)
    }

    /// Most memory charged at a time.
    fn peak_bytes(&self) -> Option<u64> {
        let file = if self.version == Version::V1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        number(&self.read(file)?)
    }

    /// A count of `memory.stat`.
    pub fn stat(&self, name: &str) -> Option<u64> {
        self.stats([name])[0]
    }

    /// Counts of `memory.stat` at one moment.
    pub fn stats<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let text = self.read("memory.stat").unwrap_or_default();
        names.map(|name| field(&text, name))
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(name)).ok()
    }
}

fn error_at(path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_path_buf();
    move |error| CgroupError {
        path,
        reason: match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                "a memory cgroup cannot be made here: that is for root".to_string()
            }
            _ => error.to_string(),
        },
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number that follows a name, in a text with one name a line.
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(name)?.strip_prefix(' ')?))
}

/// Where this process is, and where it can make a cgroup beside or below that.
fn place() -> Result<(Version, PathBuf, PathBuf), CgroupError> {
    let error = |path: &Path, reason: &str| CgroupError { path: path.into(), reason: reason.into() };
    let read = |path: &str| fs::read_to_string(path).map_err(error_at(Path::new(path)));
    let (memberships, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
    let Some((version, mount, inside)) = find(&memberships, &mounts) else {
        return Err(error(Path::new("/proc/self/cgroup"), "there is no memory controller here"));
    };
    // In a container, the path in /proc may lie outside of what the container sees.
    let own = Some(mount.join(inside)).filter(|own| own.is_dir()).unwrap_or_else(|| mount.clone());
    if version == Version::V1 {
        return Ok((version, own.clone(), own));
    }
    let hands_down = |path: &&Path| {
        let controllers = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
        controllers.split_whitespace().any(|controller| controller == "memory")
    };
    let mut above = own.ancestors().take_while(|path| path.starts_with(&mount));
    match above.find(hands_down) {
        Some(parent) => Ok((version, own.clone(), parent.to_path_buf())),
        None => Err(error(
            &own,
            "no cgroup from here up hands the memory controller down; root can have the topmost do so: \
             echo +memory > cgroup.subtree_control in its directory",
        )),
    }
}

/// Reads `/proc/self/cgroup` and `/proc/self/mountinfo`. Returns the controller's version, where it
/// is mounted, and this process's cgroup below that.
fn find(memberships: &str, mounts: &str) -> Option<(Version, PathBuf, PathBuf)> {
    let has_memory = |list: &str| list.split(',').any(|controller| controller == "memory");
    // A line is hierarchy:controllers:path. Version 2 is hierarchy 0 and names no controllers.
    let line = |wanted: &dyn Fn(&str) -> bool| {
        memberships.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then_some(path)
        })
    };
    let mounted = |kind: &str, wanted: &dyn Fn(&str) -> bool| {
        mounts.lines().find_map(|line| {
            let (place, file_system) = line.split_once(" - ")?;
            let mut file_system = file_system.split(' ');
            let options = (file_system.next()? == kind).then(|| file_system.nth(1))??;
            let mut place = place.split(' ').skip(3);
            wanted(options).then_some((place.next()?, place.next()?))
        })
    };
    let (version, path, (root, mount)) = match line(&has_memory) {
        Some(path) => (Version::V1, path, mounted("cgroup", &has_memory)?),
        None => (Version::V2, line(&str::is_empty)?, mounted("cgroup2", &|_| true)?),
    };
    // The mount may show only a part of the hierarchy.
    let inside = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    Some((version, PathBuf::from(mount), PathBuf::from(inside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
    const V2: &str =
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

    fn found(memberships: &str, mounts: &str) -> Option<(Version, String, String)> {
        let text = |path: PathBuf| path.display().to_string();
        find(memberships, mounts).map(|(version, mount, inside)| (version, text(mount), text(inside)))
    }

    #[test]
    fn the_controller_is_found_in_either_version_and_in_both_at_once() {
        let expect =
            |version, mount: &str, inside: &str| Some((version, mount.to_string(), inside.to_string()));
        assert_eq!(
            found("4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/\n", &[V2, V1].concat()),
            expect(Version::V1, "/sys/fs/cgroup/memory", "jobs/7")
        );
        assert_eq!(
            found("1:cpu,cpuacct:/\n0::/user.slice/session-2.scope\n", &[V1, V2].concat()),
            expect(Version::V2, "/sys/fs/cgroup", "user.slice/session-2.scope")
        );
        // A part of the hierarchy, as containers have it.
        let part = "35 31 0:32 /docker/0a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(found("4:memory:/docker/0a\n", part), expect(Version::V1, "/sys/fs/cgroup/memory", ""));
        assert_eq!(found("4:memory:/\n", V2), None);
        assert_eq!(found("", ""), None);
    }

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let events = "low 0\nmax_other 7\nmax 12\noom_kill 1\n";
        assert_eq!((field(events, "max"), field(events, "oom_kill")), (Some(12), Some(1)));
        assert_eq!((field(events, "oom"), field(events, "high")), (None, None));
    }
}
