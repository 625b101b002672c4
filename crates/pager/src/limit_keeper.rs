//! Keeps a cgroup's limit while a program runs, in a thread of the command.
//!
//! The limit is for each process that is alive. Agents make room for theirs before its program
//! begins. The keeper takes room away when processes have ended, and makes it for those that no
//! pager limits: statically linked programs and the like, whose memory is theirs, and counted.
//!
//! ```text
//!   --memory, and what comes on top     what a pager goes by
//!   the limit                           an eighth more and 8 MiB: memory is counted a moment late
//!   the limit at most                   half as much again and 64 MiB, while pagers make room
//! ```
//!
//! Under version 1 the kernel ends no process at once. Processes that ask for more than the limit
//! wait, and the keeper raises the limit. Only if that has not helped for a while, the kernel may
//! end a process. The message says what was in the cgroup then. Under version 2 no process can be
//! kept waiting, so the limit is as wide as it may become from the start.

use crate::cgroup::{Cgroup, Contents};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often processes are counted.
const PERIOD: Duration = Duration::from_millis(100);
/// How often, while some wait for memory.
const PERIOD_IN_NEED: Duration = Duration::from_millis(5);
/// What is added then, each time, and how often.
const DROP_BYTES: u64 = 128 << 10;
const DROP_PERIOD: Duration = Duration::from_millis(50);
/// How long no process must have waited before anything is taken away again.
const CALM: Duration = Duration::from_secs(1);
/// When so many pages have gone, the processes that wait may wait on.
const PROGRESS_PAGES: u64 = 256;
/// How long they wait at the widest limit before the kernel may end one.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// How wide the limit is for each process whose pager has so much for everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    /// As long as all goes well.
    pub(crate) process_bytes: u64,
    /// What may be added to that while pagers make room, for all processes together.
    reserve_bytes: u64,
}

impl Width {
    pub(crate) fn new(budget_bytes: u64, can_wait: bool) -> Self {
        let (margin, reserve) = (budget_bytes / 8 + (8 << 20), budget_bytes / 2 + (64 << 20));
        match can_wait {
            true => Self { process_bytes: budget_bytes + margin, reserve_bytes: reserve - margin },
            false => Self { process_bytes: budget_bytes + reserve, reserve_bytes: 0 },
        }
    }
}

/// What has been seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The widest limit.
    limit_bytes: u64,
    /// What was in the cgroup when it was fullest.
    contents: Contents,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct LimitKeeper {
    seen: Arc<Mutex<Seen>>,
    /// Written to, to end it.
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl LimitKeeper {
    /// Begins to watch over a cgroup.
    ///
    /// `directory`: where processes with a pager have their library from.
    pub(crate) fn start(cgroup: Arc<Cgroup>, width: Width, directory: &Path) -> std::io::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen { limit_bytes: cgroup.limit_bytes(), ..Seen::default() }));
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        // None: the kernel ends processes by itself.
        let need = cgroup.have_processes_wait();
        let mut watch = Watch {
            cgroup,
            width,
            hits: 0,
            extra_bytes: 0,
            added: Instant::now(),
            stuck_since: None,
            directory: directory.to_path_buf(),
            paged: HashMap::new(),
        };
        let (seen_there, stop_there) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = thread::Builder::new().name("limit-keeper".to_string()).spawn(move || {
            let mut in_need = false;
            loop {
                let period = if in_need { PERIOD_IN_NEED } else { PERIOD };
                let timeout = Timespec { tv_sec: 0, tv_nsec: period.as_nanos() as i64 };
                let stop = PollFd::from_borrowed_fd(stop_there.as_fd(), PollFlags::IN);
                let news = need.as_ref().map(|need| PollFd::from_borrowed_fd(need.as_fd(), PollFlags::IN));
                let mut descriptors: Vec<PollFd<'_>> = [Some(stop), news].into_iter().flatten().collect();
                if poll(&mut descriptors, Some(&timeout)).is_err() {
                    continue;
                }
                let is_ready =
                    |index: usize| descriptors.get(index).is_some_and(|fd| !fd.revents().is_empty());
                if is_ready(0) {
                    return;
                }
                if let Some(need) = need.as_ref().filter(|_| is_ready(1)) {
                    let _ = rustix::io::read(need, &mut [0; 8]);
                }
                in_need = watch.look(&mut seen_there.lock().unwrap_or_else(|error| error.into_inner()));
            }
        })?;
        Ok(Self { seen, stop, thread: Some(thread) })
    }

    /// The widest that the limit has been so far.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.seen().limit_bytes
    }

    /// What was in the cgroup when it was seen to be fullest.
    pub(crate) fn contents(&self) -> Contents {
        self.seen().contents
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(|error| error.into_inner()).clone()
    }
}

impl Drop for LimitKeeper {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Watch {
    cgroup: Arc<Cgroup>,
    width: Width,
    /// How often the limit had been hit at the last look.
    hits: u64,
    /// What the limit has in addition at the moment.
    extra_bytes: u64,
    /// When something was last added.
    added: Instant,
    /// Since when all has been added and nothing has gone, and how many pages had gone by then.
    stuck_since: Option<(Instant, u64)>,
    /// Where processes with a pager have their library from.
    directory: PathBuf,
    /// Whether large processes have a pager.
    paged: HashMap<u32, bool>,
}

impl Watch {
    /// Sets the limit to what it should be. Returns whether processes wait for memory.
    fn look(&mut self, seen: &mut Seen) -> bool {
        let contents = self.cgroup.contents();
        let is_short = self.cgroup.is_short() || self.is_refused(&contents);
        if contents.usage_bytes >= seen.contents.usage_bytes {
            seen.contents = contents;
        }
        let now = Instant::now();
        self.relieve(is_short, now);
        // Pages that went, of any kind: pagers are making room.
        let gone = self.cgroup.stat("pgpgout").unwrap_or_default();
        if self.stuck_since.is_some_and(|(_, before)| gone > before + PROGRESS_PAGES) {
            self.stuck_since = Some((now, gone));
        }
        match self.stuck_since {
            Some((since, _)) if now - since > STUCK_AFTER => {
                seen.contents = contents;
                self.cgroup.have_processes_end();
            }
            _ => {}
        }
        let (cgroup, width, extra) = (&self.cgroup, self.width, self.extra_bytes);
        let (directory, paged) = (&self.directory, &mut self.paged);
        let limit = cgroup.fit(|pids| {
            paged.retain(|pid, _| pids.contains(pid));
            let most = width.process_bytes;
            pids.iter()
                .map(|&pid| most.max(unlimited_bytes(pid, most, directory, paged)))
                .sum::<u64>()
                .max(most)
                + extra
        });
        seen.limit_bytes = seen.limit_bytes.max(limit);
        is_short
    }

    /// Whether the kernel has refused memory since the last look. A thread that asks for memory by
    /// a system call, as agents do, is refused at once instead of waiting. Where there are files to
    /// drop, the kernel has dropped some and refused nothing.
    fn is_refused(&mut self, contents: &Contents) -> bool {
        let hits = self.cgroup.counts().failcnt.unwrap_or_default();
        let more = hits > std::mem::replace(&mut self.hits, hits);
        more && contents.file_bytes < self.width.process_bytes / 32
    }

    /// Adds to the limit while processes wait, and takes it away again when none has for a while.
    fn relieve(&mut self, is_short: bool, now: Instant) {
        if is_short && self.extra_bytes < self.width.reserve_bytes {
            // All of it at once: meanwhile the kernel refuses what it cannot have anyone wait for.
            self.extra_bytes = self.width.reserve_bytes;
            self.added = now;
        } else if is_short && now - self.added > DROP_PERIOD {
            // For the pagers, who need a little themselves to make room.
            self.extra_bytes += DROP_BYTES;
            self.added = now;
            let gone = self.cgroup.stat("pgpgout").unwrap_or_default();
            self.stuck_since.get_or_insert((now, gone));
        } else if now - self.added > CALM {
            self.extra_bytes = self.extra_bytes.saturating_sub(self.width.process_bytes / 16);
            self.stuck_since = None;
        }
    }
}

/// What a process takes that no pager limits, and some more: it may be growing. 0 for all others,
/// and those that take less than each may have.
fn unlimited_bytes(pid: u32, most: u64, directory: &Path, paged: &mut HashMap<u32, bool>) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut numbers =
        statm.split_whitespace().skip(1).map(|number| number.parse::<u64>().unwrap_or_default());
    let resident_bytes = numbers.next().unwrap_or_default() * crate::PAGE_BYTES;
    if resident_bytes + (8 << 20) < most {
        return 0;
    }
    // A child of a paged program may have become another since it was last seen.
    let is_paged = match paged.get(&pid) {
        Some(false) => false,
        _ => {
            let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let name = directory.as_os_str().as_bytes();
            maps.windows(name.len()).any(|bytes| bytes == name)
        }
    };
    paged.insert(pid, is_paged);
    if is_paged { 0 } else { resident_bytes + resident_bytes / 4 + (32 << 20) }
}
