//! How many pages the policy may have: what is left of the limit. The director's own memory and
//! that of a zram device are part of the limit. While the kernel chooses, some of it is kept free.

use crate::trial::Progress;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::cgroup::{Cgroup, Charged};
use sweephand_process::family::{self, UserTimes};
use sweephand_process::following_limit::FollowingLimit;
use sweephand_process::zram::Zram;

/// Part of the limit that is kept for pages on their way, at first, at least and at most. They are
/// being written, or were read ahead. The kernel takes them back when memory is asked for. If there
/// are not enough of them, it takes pages that the policy keeps.
const WAY_PART: u64 = 48;
const LEAST_WAY_PART: u64 = 64;
const MOST_WAY_PART: u64 = 8;
const LEAST_WAY_BYTES: u64 = 1 << 20;
/// Pages that the kernel charges in advance for each processor. They count, but nobody has them.
const ADVANCE_PAGES: u64 = 64;
/// Each time, the room grows by this part of what was taken against the policy's choice...
const OVERRULED_PART: u64 = 4;
/// ... and loses this part of itself.
const SHRINK_PART: u64 = 128;
/// While this part of the limit is free, the program fits.
const NEARLY_FULL_PART: u64 = 8;
const NEARLY_FULL_BYTES: u64 = 4 << 20;
/// Memory that is kept free while the kernel chooses: at most, and as part of the limit.
const MOST_ROOM_BYTES: u64 = 64 * PAGE_BYTES;
const ROOM_PART: u64 = 256;
/// Steps in which the limit follows the memory that the director takes.
const OWN_STEP_BYTES: u64 = 16 << 10;
/// It takes this part of the limit at most. With many processors, the events alone would take more
/// of a small one.
const LEAST_OWN_PART: u64 = 8;
/// The policy has at least this many frames, whatever else takes memory.
const LEAST_FRAMES: usize = 64;

/// The limit, and what it is for.
#[derive(Debug)]
pub struct Budget {
    account: Account,
    limit_bytes: u64,
    way_bytes: u64,
    least_way_bytes: u64,
}

/// Who knows how much memory the processes have.
#[derive(Debug)]
enum Account {
    /// The cgroup in which they were started, which also keeps the limit. It follows what the
    /// director and a zram device take.
    Cgroup(FollowingLimit),
    /// Nobody: a running process and those that it has started are asked one by one.
    Family(u32),
}

/// What the account says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The policy's frames.
    pub(crate) frames: usize,
    /// Pages that processes have mapped.
    pub(crate) mapped: usize,
}

/// Without a director, nobody would make room for processes that wait, and they have the whole
/// limit.
impl Drop for Budget {
    fn drop(&mut self) {
        if let Account::Cgroup(limit) = &mut self.account {
            limit.let_go();
        }
        self.have_processes_end();
    }
}

impl Budget {
    /// The budget of processes that were started in a cgroup.
    pub fn of_cgroup(limit: FollowingLimit) -> Self {
        let limit_bytes = limit.budget_bytes();
        Self::new(Account::Cgroup(limit), limit_bytes)
    }

    /// The budget of a running process and of those that it has started.
    pub fn of_family(process: u32, limit_bytes: u64) -> Self {
        Self::new(Account::Family(process), limit_bytes)
    }

    fn new(account: Account, limit_bytes: u64) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let least_way_bytes =
            (limit_bytes / LEAST_WAY_PART).max(LEAST_WAY_BYTES) + ADVANCE_PAGES * PAGE_BYTES * processors;
        let way_bytes = (limit_bytes / WAY_PART).max(least_way_bytes);
        Self { account, limit_bytes, way_bytes, least_way_bytes }
    }

    fn limit(&self) -> Option<&FollowingLimit> {
        match &self.account {
            Account::Cgroup(limit) => Some(limit),
            Account::Family(_) => None,
        }
    }

    fn cgroup(&self) -> Option<&Cgroup> {
        self.limit().map(FollowingLimit::cgroup)
    }

    /// The zram device, if there is one.
    pub(crate) fn zram(&self) -> Option<&Arc<Zram>> {
        self.limit()?.zram()
    }

    /// The processes of the program.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.account {
            Account::Cgroup(limit) => limit.cgroup().members(),
            Account::Family(process) => family::members(*process),
        }
    }

    /// How far the program has come, at the time `clock`. `users`: what has been seen of
    /// its processes. Without a cgroup, nobody counts what they wait for.
    pub(crate) fn progress(&self, clock: Duration, rounds: u64, users: &mut UserTimes) -> Progress {
        let names = ["pgmajfault", "workingset_refault_anon"];
        let counts = self.cgroup().map_or([None; 2], |cgroup| cgroup.stats(names));
        let [waits, refaults] = counts.map(Option::unwrap_or_default);
        let decompressed = self.zram().map_or(0, |zram| zram.pages_read());
        Progress { clock, user: users.look(&self.processes()), rounds, waits, refaults, decompressed }
    }

    /// Has processes wait for memory that there is not, instead of being killed: under load, the
    /// kernel gives up although most of what it needs is being written. Returns a descriptor that
    /// becomes readable when one waits. `None`: this kernel cannot do that, or keeps no limit.
    pub(crate) fn have_processes_wait(&self) -> Option<OwnedFd> {
        self.cgroup()?.have_processes_wait()
    }

    /// Whether processes wait for memory. Then the limit becomes no lower: there is none to take.
    pub(crate) fn is_short(&self) -> bool {
        let is_short = self.cgroup().is_some_and(Cgroup::is_short);
        if let Some(limit) = self.limit() {
            limit.hold(is_short);
        }
        is_short
    }

    /// Has processes that wait try again. Returns whether they do.
    pub(crate) fn have_processes_try(&self) -> bool {
        self.limit().is_some_and(FollowingLimit::have_processes_try)
    }

    /// Lets the kernel kill processes again: there is nothing left to page out.
    pub(crate) fn have_processes_end(&self) {
        if let Some(cgroup) = self.cgroup() {
            cgroup.have_processes_end();
        }
    }

    /// Whether the program may soon need more than there is.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let charged = match &self.account {
            Account::Cgroup(limit) => limit.cgroup().usage_bytes().unwrap_or_default(),
            Account::Family(process) => anonymous_bytes(*process),
        };
        let free = (self.limit_bytes / NEARLY_FULL_PART).max(NEARLY_FULL_BYTES);
        charged + free > self.limit_bytes
    }

    /// The director itself takes this much memory. The processes have what is left of the limit.
    pub(crate) fn set_own_bytes(&self, own_bytes: usize) {
        if let Some(limit) = self.limit() {
            let own_bytes = (own_bytes as u64).next_multiple_of(OWN_STEP_BYTES);
            limit.set_own_bytes(own_bytes.min(self.limit_bytes / LEAST_OWN_PART));
        }
    }

    /// Where the kernel chooses, it takes memory back when a process needs a page, and has the
    /// process wait for that. Here it does so ahead of need, and the caller waits.
    pub(crate) fn make_room(&self) {
        let Some(limit) = self.limit() else { return };
        let limit_bytes = limit.cgroup().limit_bytes();
        let room_bytes = MOST_ROOM_BYTES.min(limit_bytes / ROOM_PART);
        if limit.cgroup().usage_bytes().is_some_and(|bytes| bytes + room_bytes / 2 > limit_bytes) {
            limit.make_room(room_bytes);
        }
    }

    /// Processor time that the limit has taken, in user mode and in the kernel.
    pub(crate) fn processor_times(&self) -> (Duration, Duration) {
        self.limit().map(FollowingLimit::processor_times).unwrap_or_default()
    }

    /// Pages of the limit.
    pub(crate) fn limit_pages(&self) -> usize {
        (self.limit_bytes / PAGE_BYTES) as usize
    }

    /// Pages that may be on their way at a time.
    pub(crate) fn way_pages(&self) -> usize {
        (self.way_bytes / PAGE_BYTES) as usize
    }

    /// This many pages have gone lately although the policy kept them.
    pub(crate) fn adapt(&mut self, overruled: u64) {
        let most = (self.limit_bytes / MOST_WAY_PART).max(self.least_way_bytes);
        let more = overruled * PAGE_BYTES / OVERRULED_PART;
        let next = self.way_bytes - self.way_bytes / SHRINK_PART + more;
        self.way_bytes = next.clamp(self.least_way_bytes, most);
    }

    /// Looks at the account. `resident`: the frames that have pages now. `own_bytes`: memory that
    /// the director itself takes.
    pub(crate) fn look(&self, resident: usize, own_bytes: usize) -> Option<Look> {
        let Charged { all_bytes, free_bytes, mapped_bytes } = match &self.account {
            Account::Cgroup(limit) => limit.cgroup().charged()?,
            Account::Family(process) => {
                let bytes = anonymous_bytes(*process);
                Charged { all_bytes: bytes, free_bytes: 0, mapped_bytes: bytes }
            }
        };
        // If the limit has not followed what others take, the policy gives the pages up.
        let of_device = self.zram().map_or(0, |zram| zram.share_of(self.limit_bytes));
        let of_others = own_bytes as u64 + of_device;
        let is_lower_by =
            self.cgroup().map_or(0, |cgroup| self.limit_bytes.saturating_sub(cgroup.limit_bytes()));
        let taken = all_bytes.saturating_sub(free_bytes) + self.way_bytes + of_others.max(is_lower_by);
        let room = (self.limit_bytes as i64 - taken as i64) / PAGE_BYTES as i64;
        let frames = (resident as i64 + room).max(LEAST_FRAMES as i64) as usize;
        Some(Look { frames, mapped: (mapped_bytes / PAGE_BYTES) as usize })
    }
}

/// Bytes of anonymous memory that a process and those that it has started have mapped.
fn anonymous_bytes(process: u32) -> u64 {
    family::members(process).into_iter().map(family::anonymous_bytes).sum()
}
