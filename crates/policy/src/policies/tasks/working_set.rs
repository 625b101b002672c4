//! WS: the working set policy.
//!
//! Paper: P. J. Denning, "The working set model for program behavior", Communications of the ACM
//! 11(5), 1968; in the form in which R. W. Carr and J. L. Hennessy ("WSCLOCK", SOSP 1981) compare
//! it with WSCLOCK.
//!
//! A page is in its task's working set W while the task's virtual time since its last reference is
//! below theta. A page that leaves W stays where it is until its frame is needed. If it is
//! referenced before that, it comes back into W without I/O. The available set A has the pages
//! outside W and all pages of inactive tasks.
//!
//! `lr=exact` (the default) is *pure* WS: an ideal that knows the last reference of every page
//! exactly, as the paper's simulation does. `lr=sampled` is *practical* WS: it learns from use bits
//! when it scans.
//!
//! Choices where the papers are silent: A is a queue in the order in which pages were found to have
//! left W. Pages in it that have come back into W are dropped when they reach the front. When no
//! clean page is left, a *working set scan* over all frames fills A again. If it is still empty,
//! memory is overcommitted. With `scan-interval`, a task's pages are also scanned at its faults
//! when that much virtual time has passed since its last scan (0: at every fault).
//!
//! Cost: exact: a look at every reference; sampled: hit nothing; replacement O(1), and O(M) for a
//! scan.
//!
//! ```text
//!                  VT - LR >= theta, found by a scan
//!   ┌───────────┐ ─────────────────────────────────▶ ┌──────────────────┐  clean, at the front
//!   │     W     │                                    │ A (FIFO)         │ ───────────────────▶ replaced
//!   └───────────┘ ◀───────────────────────────────── └──────────────────┘
//!                  referenced again: no I/O             dirty: cleaned, to the back
//! ```

use super::cleaning_clock::available;
use super::wsclock::THETA;
use crate::arguments::Parameter;
use crate::collections::{FrameTable, PageMap};
use crate::interface::ensure;
use crate::registered::{Made, RegisteredTaskPolicy};
use crate::{
    ArgumentError, Arguments, Claim, ExactMmu, Info, LoadControl, PageId, Reclaim, TaskId, TaskMmu,
    TaskPolicy, Violation, VirtualTime,
};
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

/// The working set policy; `K` is where it knows last references from.
#[derive(Debug)]
pub struct WorkingSet<K> {
    /// The window of the working set.
    theta: VirtualTime,
    knowledge: K,
    frames: FrameTable,
    /// The available set, as far as it is known, the longest known in front; with entries that are
    /// stale.
    available: VecDeque<PageId>,
    /// Whether a page is in `available`; of its entries there the first counts.
    is_available: PageMap<bool>,
    /// Virtual time between scans of a task's pages at its faults, if they are made.
    scan_interval: Option<VirtualTime>,
    /// By task: virtual time of the last of those scans.
    scanned_at: Vec<VirtualTime>,
    scans: u64,
}

/// Where last references are known from.
pub trait Knowledge<M: TaskMmu> {
    /// [`TaskPolicy::is_exact`].
    const EXACT: bool;
    /// The owner's virtual time at the page's last reference, as far as it is known now.
    fn last_reference(&mut self, page: PageId, mmu: &mut M) -> VirtualTime;
    /// A page has been loaded.
    fn loaded(&mut self, page: PageId, mmu: &M);
    /// [`TaskPolicy::claims`].
    fn claims(&self, frames: &FrameTable, theta: VirtualTime, mmu: &M, claims: &mut [Claim]);
}

/// From every reference: pure WS.
#[derive(Debug, Default)]
pub struct Exact;

impl<M: ExactMmu> Knowledge<M> for Exact {
    const EXACT: bool = true;

    fn last_reference(&mut self, page: PageId, mmu: &mut M) -> VirtualTime {
        mmu.last_reference(page)
    }

    fn loaded(&mut self, _: PageId, _: &M) {}

    fn claims(&self, _: &FrameTable, _: VirtualTime, mmu: &M, claims: &mut [Claim]) {
        for (task, claim) in (0..).map(TaskId).zip(claims) {
            // The window moves with every reference.
            *claim = Claim { frames: mmu.working_set_pages(task), until: mmu.virtual_time(task) + 1 };
        }
    }
}

/// From use bits: practical WS.
#[derive(Debug, Default)]
pub struct Sampled {
    /// LR: the owner's virtual time when the page was last found to have been referenced.
    last_reference: PageMap<VirtualTime>,
}

impl<M: TaskMmu> Knowledge<M> for Sampled {
    const EXACT: bool = false;

    fn last_reference(&mut self, page: PageId, mmu: &mut M) -> VirtualTime {
        if mmu.test_and_clear_referenced(page) {
            self.last_reference[page] = mmu.virtual_time(mmu.owner(page));
        }
        self.last_reference[page]
    }

    fn loaded(&mut self, page: PageId, mmu: &M) {
        self.last_reference.set(page, mmu.virtual_time(mmu.owner(page)));
    }

    fn claims(&self, frames: &FrameTable, theta: VirtualTime, mmu: &M, claims: &mut [Claim]) {
        for page in frames.pages() {
            let owner = mmu.owner(page);
            let leaves = self.last_reference[page].saturating_add(theta);
            if mmu.virtual_time(owner) < leaves {
                claims[owner.index()].count(leaves);
            }
        }
    }
}

/// Entry in the registry.
#[derive(Debug)]
pub struct Ws;

impl RegisteredTaskPolicy for Ws {
    const INFO: Info = Info {
        name: "ws",
        summary: "the working set policy: pages not used for theta make room",
        paper: "Denning, The working set model for program behavior, CACM 11(5), 1968",
        parameters: &[
            THETA,
            Parameter {
                name: "lr",
                default: "exact",
                meaning: "last references: exact, or sampled from use bits",
            },
            Parameter {
                name: "scan-interval",
                default: "none",
                meaning: "also scan a faulting task's pages after this many references of virtual time",
            },
        ],
        presets: &[],
    };
    const NEEDS: &'static str = "every reference, or with lr=sampled bits and virtual time only; dirty bits";

    fn make<M: TaskMmu>(frames: usize, arguments: &Arguments) -> Result<Option<Made<M>>, ArgumentError> {
        if is_exact(arguments)? {
            return Ok(None);
        }
        Ok(Some(Box::new(WorkingSet::<Sampled>::configure(frames, arguments)?)))
    }

    fn make_exact<M: ExactMmu>(frames: usize, arguments: &Arguments) -> Result<Made<M>, ArgumentError> {
        Ok(match is_exact(arguments)? {
            true => Box::new(WorkingSet::<Exact>::configure(frames, arguments)?),
            false => Box::new(WorkingSet::<Sampled>::configure(frames, arguments)?),
        })
    }
}

/// Whether last references are those of the string.
fn is_exact(arguments: &Arguments) -> Result<bool, ArgumentError> {
    arguments.choice("lr", &[("exact", true), ("sampled", false)])
}

impl<K: Default> WorkingSet<K> {
    /// Makes the policy for that many frames.
    pub fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let scan_interval = match arguments.value("scan-interval") {
            "none" => None,
            _ => Some(arguments.whole("scan-interval", 0..=u64::MAX)?),
        };
        Ok(Self {
            theta: arguments.whole(THETA.name, 1..=u64::MAX)?,
            knowledge: K::default(),
            frames: FrameTable::new(frames),
            available: VecDeque::new(),
            is_available: PageMap::new(),
            scan_interval,
            scanned_at: Vec::new(),
            scans: 0,
        })
    }
}

impl<K> WorkingSet<K> {
    fn is_replaceable<M: TaskMmu>(&mut self, page: PageId, mmu: &mut M) -> bool
    where
        K: Knowledge<M>,
    {
        let owner = mmu.owner(page);
        mmu.virtual_time(owner) - self.knowledge.last_reference(page, mmu) >= self.theta
            || !mmu.is_active(owner)
    }

    /// Finds the pages that have left working sets: of one task, or of all.
    fn scan<M: TaskMmu>(&mut self, task: Option<TaskId>, mmu: &mut M)
    where
        K: Knowledge<M>,
    {
        self.scans += 1;
        for frame in 0..self.frames.used() {
            let Some(page) = self.frames.page(frame) else { continue };
            if task.is_none_or(|task| mmu.owner(page) == task)
                && self.is_replaceable(page, mmu)
                && !self.is_available[page]
            {
                self.is_available[page] = true;
                self.available.push_back(page);
            }
        }
    }

    /// The first clean page of A; `Wait` if all are dirty, `None` if there are none.
    fn take_available<M: TaskMmu>(&mut self, mmu: &mut M) -> Option<Reclaim>
    where
        K: Knowledge<M>,
    {
        let mut awaited = false;
        for _ in 0..self.available.len() {
            let page = *self.available.front().expect("counted above");
            if !self.is_available[page] {
                self.available.pop_front();
            } else if !self.is_replaceable(page, mmu) {
                self.is_available[page] = false;
                self.available.pop_front();
            } else if available(page, mmu) {
                return Some(Reclaim::Evict(page));
            } else {
                awaited = true;
                self.available.rotate_left(1);
            }
        }
        awaited.then_some(Reclaim::Wait)
    }

    fn leave(&mut self, page: PageId) {
        if let Some(frame) = self.frames.frame_of(page) {
            self.frames.vacate(frame);
            self.is_available[page] = false;
        }
    }
}

impl<K: Knowledge<M>, M: TaskMmu> TaskPolicy<M> for WorkingSet<K> {
    fn load_control(&self) -> LoadControl {
        LoadControl::Claims
    }

    fn is_exact(&self) -> bool {
        K::EXACT
    }

    fn theta(&self) -> VirtualTime {
        self.theta
    }

    fn fault(&mut self, page: PageId, mmu: &mut M) {
        let Some(interval) = self.scan_interval else { return };
        let task = mmu.owner(page);
        if task.index() >= self.scanned_at.len() {
            self.scanned_at.resize(task.index() + 1, 0);
        }
        let now = mmu.virtual_time(task);
        if now - self.scanned_at[task.index()] >= interval {
            self.scanned_at[task.index()] = now;
            self.scan(Some(task), mmu);
        }
    }

    fn reclaim(&mut self, mmu: &mut M) -> Reclaim {
        match self.take_available(mmu) {
            Some(Reclaim::Evict(page)) => Reclaim::Evict(page),
            // A clean page that is not known to have left would spare the wait.
            _ => {
                self.scan(None, mmu);
                self.take_available(mmu).unwrap_or(Reclaim::Overcommitted)
            }
        }
    }

    fn reclaim_anyway(&mut self, mmu: &mut M) -> Reclaim {
        let pages = self.frames.pages().filter(|&page| !mmu.is_busy(page)).collect::<Vec<_>>();
        match pages.into_iter().min_by_key(|&page| self.knowledge.last_reference(page, mmu)) {
            Some(page) if available(page, mmu) => Reclaim::Evict(page),
            _ => Reclaim::Wait,
        }
    }

    fn evict(&mut self, page: PageId) {
        self.leave(page);
    }

    fn insert(&mut self, page: PageId, mmu: &mut M) -> bool {
        self.frames.occupy(page);
        self.is_available.set(page, false);
        self.knowledge.loaded(page, mmu);
        true
    }

    fn remove(&mut self, page: PageId) {
        self.leave(page);
    }

    fn claims(&self, mmu: &M, claims: &mut [Claim]) {
        self.knowledge.claims(&self.frames, self.theta, mmu, claims);
    }

    fn hand_steps(&self) -> Option<u64> {
        None
    }

    fn working_set_scans(&self) -> u64 {
        self.scans
    }

    fn check(&self) -> Result<(), Violation> {
        let mut listed: Vec<_> = self.available.iter().filter(|&&page| self.is_available[page]).collect();
        listed.sort();
        listed.dedup();
        let marked = self.frames.pages().filter(|&page| self.is_available[page]).count();
        ensure!(
            marked == listed.len(),
            "{marked} resident pages marked as available, {} listed",
            listed.len()
        );
        self.frames.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    fn ws<K: Default + Knowledge<Desk>>(desk: &mut Desk, arguments: &str) -> WorkingSet<K> {
        let arguments = Arguments::parse(&Ws::INFO, arguments).unwrap();
        let mut policy = WorkingSet::configure(10, &arguments).unwrap();
        for page in desk.pages() {
            policy.insert(page, desk);
        }
        policy
    }

    #[test]
    fn pages_leave_the_working_set_by_scans_and_come_back_without_io() {
        let mut desk = Desk::default();
        desk.tasks([(10, true)]);
        let [a, b, c] = [0, 0, 0].map(|owner| desk.load(owner));
        let mut policy = ws::<Exact>(&mut desk, "theta=5");
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Overcommitted);
        desk.tasks([(14, true)]);
        desk.reference(b);
        desk.tasks([(15, true)]);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(a));
        assert_eq!(policy.available, [a, c]);
        TaskPolicy::<Desk>::evict(&mut policy, a);
        desk.reference(c);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Overcommitted, "c is in use again");
        assert_eq!(policy.scans, 3, "one for each time that no page was known");
        TaskPolicy::<Desk>::check(&policy).unwrap();
    }

    #[test]
    fn pages_of_inactive_tasks_are_available_and_dirty_ones_are_written_first() {
        let mut desk = Desk::default();
        desk.tasks([(10, true), (10, false)]);
        let [_, b, c] = [0, 1, 1].map(|owner| desk.load(owner));
        desk.dirty(b);
        let mut policy = ws::<Exact>(&mut desk, "theta=5");
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(c));
        assert_eq!(desk.cleaning(), [b]);
        TaskPolicy::<Desk>::evict(&mut policy, c);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Wait);
        desk.finish_cleaning();
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(b));
    }

    #[test]
    fn use_bits_tell_at_the_next_scan() {
        let mut desk = Desk::default();
        desk.tasks([(10, true)]);
        let [a, b] = [0, 0].map(|owner| desk.load(owner));
        let mut policy = ws::<Sampled>(&mut desk, "theta=5,lr=sampled,scan-interval=0");
        desk.reference(b);
        desk.tasks([(16, true)]);
        policy.fault(PageId(0), &mut desk);
        assert_eq!(policy.available, [a], "b was referenced at 10, but that is found out at 16");
        let mut claims = [Claim::NONE];
        policy.claims(&desk, &mut claims);
        assert_eq!(claims, [Claim { frames: 1, until: 21 }]);
    }
}
