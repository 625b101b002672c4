//! The limit of a run's cgroup follows what others take of a budget: a zram device to which pages
//! of the cgroup go, and the command itself.
//!
//! ```text
//!   budget  =  limit of the cgroup  +  memory of the zram device  +  own memory
//! ```
//!
//! A thread changes it. While processes take new memory, the kernel may keep the writer of a lower
//! limit waiting for a second or more, and others have to go on meanwhile.

use crate::cgroup::Cgroup;
use crate::periodic::Periodic;
use crate::usage;
use crate::zram::Zram;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the limit is looked at. A device fills in about ten periods.
const PERIOD: Duration = Duration::from_millis(4);
/// How often, without a device.
const LONG_PERIOD: Duration = Duration::from_millis(10);

/// Changes the limit until it is dropped or let go.
#[derive(Debug)]
pub struct FollowingLimit {
    follower: Arc<Follower>,
    /// None: it has been let go.
    thread: Option<Periodic>,
}

#[derive(Debug)]
struct Follower {
    cgroup: Arc<Cgroup>,
    zram: Option<Arc<Zram>>,
    budget_bytes: u64,
    own_bytes: AtomicU64,
    is_held: AtomicBool,
    /// Whoever changes the limit has this.
    change: Mutex<()>,
    user_ns: AtomicU64,
    system_ns: AtomicU64,
}

impl Follower {
    fn follow(&self) {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        self.cgroup.follow_limit(|| self.wanted_bytes());
    }

    fn wanted_bytes(&self) -> Option<u64> {
        let zram_bytes = self.zram.as_ref().map_or(0, |zram| zram.share_of(self.budget_bytes));
        let left_bytes = self.budget_bytes.saturating_sub(self.own_bytes.load(Relaxed) + zram_bytes);
        (!self.is_held.load(Relaxed) || left_bytes > self.cgroup.limit_bytes()).then_some(left_bytes)
    }

    fn count_time(&self) {
        let (user, system) = usage::of_this_thread();
        self.user_ns.store(user.as_nanos() as u64, Relaxed);
        self.system_ns.store(system.as_nanos() as u64, Relaxed);
    }
}

impl FollowingLimit {
    /// Changes the limit of a cgroup from now on. The budget is its limit now.
    ///
    /// # Errors
    /// That of starting a thread.
    pub fn new(cgroup: Arc<Cgroup>, zram: Option<Arc<Zram>>) -> io::Result<Self> {
        let follower = Arc::new(Follower {
            budget_bytes: cgroup.limit_bytes(),
            cgroup,
            zram,
            own_bytes: AtomicU64::new(0),
            is_held: AtomicBool::new(false),
            change: Mutex::new(()),
            user_ns: AtomicU64::new(0),
            system_ns: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&follower);
        let period = if follower.zram.is_some() { PERIOD } else { LONG_PERIOD };
        let thread = Periodic::start("limit", period, move || {
            of_thread.follow();
            of_thread.count_time();
        })?;
        Ok(Self { follower, thread: Some(thread) })
    }

    /// The cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        &self.follower.cgroup
    }

    /// The zram device, if there is one.
    pub fn zram(&self) -> Option<&Arc<Zram>> {
        self.follower.zram.as_ref()
    }

    /// Bytes of the budget.
    pub fn budget_bytes(&self) -> u64 {
        self.follower.budget_bytes
    }

    /// The command itself takes this much of the budget from now on.
    pub fn set_own_bytes(&self, own_bytes: u64) {
        self.follower.own_bytes.store(own_bytes, Relaxed);
    }

    /// Whether the limit becomes no lower for the time being: while processes wait for memory,
    /// there is none to take.
    pub fn hold(&self, is_held: bool) {
        self.follower.is_held.store(is_held, Relaxed);
    }

    /// See [`Cgroup::make_room`]. Does nothing while the limit is being changed: that makes room.
    pub fn make_room(&self, room_bytes: u64) {
        self.at_rest(|cgroup| cgroup.make_room(cgroup.limit_bytes(), room_bytes));
    }

    /// See [`Cgroup::have_processes_try`]. Returns whether they try: not while the limit is being
    /// changed.
    pub fn have_processes_try(&self) -> bool {
        self.at_rest(|cgroup| cgroup.have_processes_try(cgroup.limit_bytes()))
    }

    /// The cgroup has all of the budget but what the device takes, from now on.
    pub fn let_go(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // It may be lowering the limit.
        self.hold(true);
        drop(thread);
        self.hold(false);
        self.set_own_bytes(0);
        self.follower.follow();
    }

    /// Acts if the limit is not being changed. Returns whether it does.
    fn at_rest(&self, act: impl FnOnce(&Cgroup)) -> bool {
        let change = self.follower.change.try_lock();
        if change.is_ok() {
            act(&self.follower.cgroup);
        }
        change.is_ok()
    }

    /// Processor time that this has taken, in user mode and in the kernel.
    pub fn processor_times(&self) -> (Duration, Duration) {
        let of = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Relaxed));
        (of(&self.follower.user_ns), of(&self.follower.system_ns))
    }
}

impl Drop for FollowingLimit {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Swap;
    use std::time::Instant;

    /// Waits until the cgroup has this limit.
    fn comes_to(cgroup: &Cgroup, limit_bytes: u64) -> bool {
        let start = Instant::now();
        while cgroup.limit_bytes() != limit_bytes && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        cgroup.limit_bytes() == limit_bytes
    }

    #[test]
    fn a_limit_is_what_is_left_until_it_is_let_go() {
        const MIB: u64 = 1 << 20;
        let Ok(cgroup) = Cgroup::new(64 * MIB, Swap::Off) else {
            return sweephand_checks::skip(sweephand_checks::Need::Swap, "a memory cgroup");
        };
        let cgroup = Arc::new(cgroup);
        let limit = FollowingLimit::new(Arc::clone(&cgroup), None).unwrap();
        limit.set_own_bytes(MIB);
        assert!(comes_to(&cgroup, 63 * MIB));
        // What somebody else sets does not last.
        assert!(cgroup.change_limit(60 * MIB) && comes_to(&cgroup, 63 * MIB));
        limit.hold(true);
        limit.set_own_bytes(2 * MIB);
        std::thread::sleep(5 * LONG_PERIOD);
        assert_eq!(cgroup.limit_bytes(), 63 * MIB, "it is held");
        limit.set_own_bytes(0);
        assert!(comes_to(&cgroup, 64 * MIB), "it rises");
        limit.set_own_bytes(2 * MIB);
        limit.make_room(MIB);
        assert_eq!(cgroup.limit_bytes(), 64 * MIB, "room is made below it");
        limit.hold(false);
        assert!(comes_to(&cgroup, 62 * MIB));
        drop(limit);
        assert_eq!(cgroup.limit_bytes(), 64 * MIB);
        std::fs::remove_dir(cgroup.path()).unwrap();
    }
}
