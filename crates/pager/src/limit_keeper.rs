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
//! end a process. The message says what was in the cgroup then. A system call that asks for more is
//! refused and does not wait: for those the limit rises once, so a program that fills pipes or
//! shared memory comes to an end of it. Under version 2 no process can be kept waiting, so the
//! limit is as wide as it may become from the start.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use sweephand_process::cgroup::{Cgroup, Contents};

/// How often processes are counted.
const PERIOD: Duration = Duration::from_millis(100);
/// How often, while some wait for memory.
const PERIOD_IN_NEED: Duration = Duration::from_millis(5);
/// What is added then beyond the reserve, each time, and how often.
const DROP_BYTES: u64 = 128 << 10;
/// The most that is added so for system calls that are refused, for agents that make room.
const REFUSED_DROPS_BYTES: u64 = 32 * DROP_BYTES;
const DROP_PERIOD: Duration = Duration::from_millis(50);
/// How long no process must have waited before anything is taken away again.
const CALM: Duration = Duration::from_secs(1);
/// When this many pages have gone, the processes that wait may wait on.
const PROGRESS_PAGES: u64 = 256;
/// How long they wait at the widest limit before the kernel may end one.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// How wide the limit is for each process, whose pager has its budget for everything.
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
    /// `directory`: where processes with a pager have their block from.
    pub(crate) fn start(cgroup: Arc<Cgroup>, width: Width, directory: &Path) -> std::io::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen { limit_bytes: cgroup.limit_bytes(), ..Seen::default() }));
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        // None: the kernel ends processes by itself.
        let need = cgroup.have_processes_wait();
        let mut watch = Watch {
            cgroup,
            relief: Relief::new(width),
            hits: 0,
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
    relief: Relief,
    /// How often the limit had been hit at the last look.
    hits: u64,
    /// Where processes with a pager have their block from.
    directory: PathBuf,
    /// Whether large processes have a pager.
    paged: HashMap<u32, bool>,
}

/// Who is short of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shortage {
    Nobody,
    /// The kernel has refused memory to a system call.
    Refused,
    /// Threads wait for memory.
    Waiting,
}

/// What the limit has in addition.
#[derive(Debug)]
struct Relief {
    width: Width,
    /// At the moment.
    extra_bytes: u64,
    /// When something was last added.
    added: Instant,
    /// Since when threads wait although the reserve has been added, and how many pages had gone by
    /// then.
    stuck_since: Option<(Instant, u64)>,
}

impl Relief {
    fn new(width: Width) -> Self {
        Self { width, extra_bytes: 0, added: Instant::now(), stuck_since: None }
    }

    /// Adds to the limit during a shortage, and takes it away again when there has been none for a
    /// while. `gone`: how many pages have gone so far, of any kind. Returns whether the kernel may
    /// end a process.
    fn relieve(&mut self, shortage: Shortage, gone: u64, now: Instant) -> bool {
        let reserve = self.width.reserve_bytes;
        let is_due = now - self.added > DROP_PERIOD;
        match shortage {
            // All of it at once: meanwhile the kernel refuses what it cannot have anyone wait for.
            Shortage::Refused | Shortage::Waiting if self.extra_bytes < reserve => {
                self.extra_bytes = reserve;
                self.added = now;
            }
            Shortage::Waiting if is_due => {
                self.drop(now);
                self.stuck_since.get_or_insert((now, gone));
            }
            Shortage::Refused if is_due && self.extra_bytes < reserve + REFUSED_DROPS_BYTES => self.drop(now),
            _ if now - self.added > CALM && shortage == Shortage::Nobody => {
                self.extra_bytes = self.extra_bytes.saturating_sub(self.width.process_bytes / 16);
                self.stuck_since = None;
            }
            _ => {}
        }
        // Pagers are making room.
        if self.stuck_since.is_some_and(|(_, before)| gone > before + PROGRESS_PAGES) {
            self.stuck_since = Some((now, gone));
        }
        self.stuck_since.is_some_and(|(since, _)| now - since > STUCK_AFTER)
    }

    /// For the pagers, who need a little themselves to make room.
    fn drop(&mut self, now: Instant) {
        self.extra_bytes += DROP_BYTES;
        self.added = now;
    }
}

impl Watch {
    /// Sets the limit to what it should be. Returns whether processes wait for memory.
    fn look(&mut self, seen: &mut Seen) -> bool {
        let contents = self.cgroup.contents();
        let is_refused = self.is_refused(&contents);
        let shortage = match self.cgroup.is_short() {
            true => Shortage::Waiting,
            false if is_refused => Shortage::Refused,
            false => Shortage::Nobody,
        };
        if contents.usage_bytes >= seen.contents.usage_bytes {
            seen.contents = contents;
        }
        let gone = self.cgroup.stat("pgpgout").unwrap_or_default();
        if self.relief.relieve(shortage, gone, Instant::now()) {
            seen.contents = contents;
            self.cgroup.have_processes_end();
        }
        let (cgroup, width, extra) = (&self.cgroup, self.relief.width, self.relief.extra_bytes);
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
        shortage != Shortage::Nobody
    }

    /// Whether the kernel has refused memory since the last look. A thread that asks for memory by
    /// a system call, as agents do, is refused at once instead of waiting. Where there are files to
    /// drop, the kernel has dropped some and refused nothing.
    fn is_refused(&mut self, contents: &Contents) -> bool {
        let hits = self.cgroup.counts().failcnt.unwrap_or_default();
        let more = hits > std::mem::replace(&mut self.hits, hits);
        more && contents.file_bytes < self.relief.width.process_bytes / 32
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
            // The library alone is also in those that may have no agent.
            let block = directory.join("control-");
            let block = block.as_os_str().as_bytes();
            maps.windows(block.len()).any(|bytes| bytes == block)
        }
    };
    paged.insert(pid, is_paged);
    if is_paged { 0 } else { resident_bytes + resident_bytes / 4 + (32 << 20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Looks each 5 ms for a minute. Returns what the limit has in addition then.
    fn after_a_minute(relief: &mut Relief, shortage: Shortage, gone: impl Fn(u64) -> u64) -> (u64, bool) {
        let (start, mut may_end) = (Instant::now(), false);
        for look in 0..60_000 / 5 {
            may_end |= relief.relieve(shortage, gone(look), start + PERIOD_IN_NEED * look as u32);
        }
        (relief.extra_bytes, may_end)
    }

    #[test]
    fn a_limit_does_not_grow_with_each_system_call_that_is_refused() {
        let width = Width::new(24 * MIB, true);
        let (extra, may_end) = after_a_minute(&mut Relief::new(width), Shortage::Refused, |look| 100 * look);
        assert_eq!((extra, may_end), (width.reserve_bytes + REFUSED_DROPS_BYTES, false));
    }

    #[test]
    fn threads_that_wait_get_a_little_again_and_again_until_nothing_goes() {
        let width = Width::new(24 * MIB, true);
        let (extra, may_end) = after_a_minute(&mut Relief::new(width), Shortage::Waiting, |look| 100 * look);
        assert!(extra > width.reserve_bytes + 60 * 15 * DROP_BYTES && !may_end, "{extra}");
        assert!(after_a_minute(&mut Relief::new(width), Shortage::Waiting, |_| 7).1);
    }

    #[test]
    fn what_was_added_is_taken_away_when_nobody_is_short() {
        let mut relief = Relief::new(Width::new(24 * MIB, true));
        after_a_minute(&mut relief, Shortage::Refused, |_| 0);
        let start = Instant::now() + Duration::from_secs(120);
        for look in 0..100 {
            relief.relieve(Shortage::Nobody, 0, start + PERIOD * look);
        }
        assert_eq!(relief.extra_bytes, 0);
    }
}
