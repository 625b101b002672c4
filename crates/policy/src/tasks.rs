//! The interface between a policy for many tasks in one memory and its driver.
//!
//! A [`Policy`](crate::Policy) divides a fixed number of frames among the pages of one reference
//! string. When tasks share memory, three things are different. Each page has an owner, and the
//! owner's *virtual time* passes only while it runs. A page that was written to must be *cleaned*
//! (written to the paging device) before its frame can be used again, and cleaning takes time.
//! Sometimes the active tasks need all of memory, so that no page can be replaced; then a task has
//! to be deactivated.
//!
//! ```text
//!   fault on x, no free frame        reclaim(mmu) -> Evict(v)        clean, not in transfer: take its frame
//!                                                    Wait            cleaning under way: ask again when it is done
//!                                                    Overcommitted   deactivate a task, ask again
//!   the driver takes v's frame       evict(v)
//!   the page has been read           insert(x, mmu)
//! ```

use crate::{Mmu, PageId, Violation};

/// A task, by dense number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The id as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Time that passes for a task only while it runs, in references that it has completed (a live
/// pager: in units of processor time). Starts at 0.
pub type VirtualTime = u64;

/// What a policy for many tasks may ask besides [`Mmu`]: what a kernel could know, and nothing
/// more.
pub trait TaskMmu: Mmu {
    /// The task that the page belongs to.
    fn owner(&self, page: PageId) -> TaskId;
    /// The task's virtual time now; it stands still while the task waits.
    fn virtual_time(&self, task: TaskId) -> VirtualTime;
    /// Whether the task takes part in multiprogramming (running, or waiting for a page or for I/O);
    /// pages of other tasks are replaceable whatever they were used for.
    fn is_active(&self, task: TaskId) -> bool;
    /// The dirty bit of a resident page: written to since it was loaded or since a device last
    /// began to write it.
    fn is_dirty(&self, page: PageId) -> bool;
    /// Whether a resident page cannot be replaced just now: it is being cleaned, or it was loaded
    /// for a reference that its task has still to repeat. This ends without anyone's doing.
    fn is_busy(&self, page: PageId) -> bool;
    /// Asks for the page to be written to the paging device. It is busy until that is done. It
    /// stays mapped, and may be referenced and dirtied meanwhile. The driver clears the dirty bit
    /// when the write begins, not when it is asked for.
    fn start_cleaning(&mut self, page: PageId);
}

/// What only a simulation knows: for policies that are ideals, to measure others against.
pub trait ExactMmu: TaskMmu {
    /// The owner's virtual time when its last reference to the page was completed; 0 if it never
    /// made one. A page, resident or not, is in the working set while the owner's virtual time less
    /// this is below theta.
    fn last_reference(&self, page: PageId) -> VirtualTime;
    /// Pages in the task's working set, resident or not.
    fn working_set_pages(&self, task: TaskId) -> usize;
}

/// The answer to a request for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaim {
    /// This page's frame: it is clean and not busy.
    Evict(PageId),
    /// No frame now: the replaceable pages are being cleaned or are busy otherwise. Ask again when
    /// one is done.
    Wait,
    /// No page is replaceable: the active tasks need all of memory.
    Overcommitted,
}

/// The part of memory that a task needs to run well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Frames.
    pub frames: usize,
    /// As long as nothing but this task's virtual time changes, the claim stays the same until that
    /// reaches this.
    pub until: VirtualTime,
}

impl Claim {
    /// No frames, for ever.
    pub const NONE: Self = Self { frames: 0, until: VirtualTime::MAX };

    /// Counts a page that stays in the claim until its owner's virtual time reaches `until`.
    #[inline]
    pub fn count(&mut self, until: VirtualTime) {
        self.frames += 1;
        self.until = self.until.min(until);
    }
}

/// How the driver decides how many tasks can be active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadControl {
    /// By the policy's claims: a task is activated when its claim fits beside those of the active
    /// tasks.
    Claims,
    /// By feedback from the paging devices, because the policy does not know what a task needs.
    Feedback,
}

/// A page replacement policy for many tasks in one memory, driven through an mmu of type `M`.
///
/// No method is called at a hit. So drivers take policies as objects (`dyn TaskPolicy<M>`), and are
/// compiled once for all of them. The loops of a policy are compiled for its driver's mmu.
///
/// The driver keeps the resident set, the reference and dirty bits, and the list of free frames. It
/// asks for a frame only when none is free. Pages are resident for the policy from `insert` (their
/// reading is done) to `evict` or `remove`.
pub trait TaskPolicy<M: TaskMmu> {
    /// How load is controlled under this policy.
    fn load_control(&self) -> LoadControl;

    /// Whether the policy needs [`ExactMmu`]: the driver then looks at every reference.
    fn is_exact(&self) -> bool {
        false
    }

    /// The window of the working sets that [`ExactMmu`] counts, where it is used.
    fn theta(&self) -> VirtualTime {
        VirtualTime::MAX
    }

    /// An active task has referenced a page that is not resident: called once a fault, before room
    /// is made.
    fn fault(&mut self, page: PageId, mmu: &mut M) {
        let _ = (page, mmu);
    }

    /// Looks for a page to replace, and has replaceable dirty pages cleaned on the way. As with
    /// [`Policy::victim`](crate::Policy::victim), the driver need not use the answer.
    fn reclaim(&mut self, mmu: &mut M) -> Reclaim;

    /// Chooses a page to replace although none is replaceable, because a lone task is larger than
    /// memory. Never answers [`Reclaim::Overcommitted`].
    fn reclaim_anyway(&mut self, mmu: &mut M) -> Reclaim;

    /// Confirms that `page`, the latest answer, has been evicted.
    fn evict(&mut self, page: PageId);

    /// Takes in a page that has been read. Returns its initial reference bit: whether it counts as
    /// referenced once the reference that waits for it has been repeated. Until then its bit reads
    /// clear.
    fn insert(&mut self, page: PageId, mmu: &mut M) -> bool;

    /// A page has been cleaned.
    fn cleaned(&mut self, page: PageId) {
        let _ = page;
    }

    /// Forgets a page, resident or not: its task has ended.
    fn remove(&mut self, page: PageId);

    /// Adds to the claim of each task (indexed by task; each starts as [`Claim::NONE`]). Claims of
    /// inactive tasks are ignored.
    fn claims(&self, mmu: &M, claims: &mut [Claim]) {
        let _ = (mmu, claims);
    }

    /// Frames examined in search of pages to replace since the start; `None` for policies without a
    /// hand.
    fn hand_steps(&self) -> Option<u64>;

    /// Scans made to find out which pages have left working sets.
    fn working_set_scans(&self) -> u64 {
        0
    }

    /// Looks at every page as a scan would in passing, and replaces none. Done after every
    /// reference, this makes the last references that a policy knows from use bits exact. Meant for
    /// tests.
    fn sample(&mut self, mmu: &mut M) {
        let _ = mmu;
    }

    /// Checks every invariant of the policy's state. Meant for tests: linear in the size of the
    /// state.
    fn check(&self) -> Result<(), Violation>;
}
