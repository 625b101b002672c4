//! PFF: page fault frequency. A task that faults rarely gives up the pages that it has not used.
//!
//! Paper: W. W. Chu, H. Opderbeck, "The page fault frequency replacement algorithm", AFIPS Fall
//! Joint Computer Conference, 1972.
//!
//! When a task faults, the policy looks at the task's virtual time since its last fault. If that is
//! `threshold` or more, the pages whose use bits are clear leave the task's resident set, and all
//! its use bits are cleared. Otherwise the resident set only grows.
//!
//! Use bits are cleared at rare faults only, so a page survives if it was used since the last rare
//! fault. In another reading every fault clears them: the authors' later model (Communications of
//! the ACM, May 1976) counts the pages referenced between two faults. A model of one program with
//! enough frames compares the two on cpp, glimpse and multi2. At thresholds from 2 to 200 the other
//! reading changes resident sets by -69 to 0 % and faults by -5 to +61 %. At the same mean resident
//! set it changes faults by -18 to +9 % on cpp (mean -4.6 %) and by -7 to +18 % on multi2 (mean
//! +1.2 %).
//!
//! As with the working set, a page that leaves stays in memory until its frame is needed. It comes
//! back without I/O if it is found referenced before that. A task's claim on memory (load control)
//! is its resident set. If resident sets fill all of memory, a task is deactivated. A lone task
//! loses pages in the order of the hand.
//!
//! Cost: hit nothing; fault O(M), over the frames.

use super::cleaning_clock::CleaningClock;
use crate::arguments::Parameter;
use crate::registered::{Made, RegisteredTaskPolicy, VM_NEEDS};
use crate::{
    ArgumentError, Arguments, Claim, Info, LoadControl, PageId, Reclaim, TaskMmu, TaskPolicy, Violation,
    VirtualTime,
};
use alloc::{boxed::Box, vec::Vec};

/// What a page is to its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// In the resident set.
    Member,
    /// In the resident set, and used since the task's last fault that cleared use bits though its
    /// bit is clear.
    UsedMember,
    /// Outside: replaceable.
    Left,
}

/// Page fault frequency, by task.
#[derive(Debug)]
pub struct Pff {
    /// Virtual time between faults from which on they count as rare.
    threshold: VirtualTime,
    clock: CleaningClock,
    /// By frame.
    standing: Vec<Standing>,
    /// By task: virtual time of its last fault, if it has had one.
    last_fault: Vec<Option<VirtualTime>>,
}

impl RegisteredTaskPolicy for Pff {
    const INFO: Info = Info {
        name: "pff",
        summary: "page fault frequency: tasks that fault rarely give up what they do not use",
        paper: "Chu and Opderbeck, The page fault frequency replacement algorithm, AFIPS FJCC, 1972",
        parameters: &[Parameter {
            name: "threshold",
            default: "20000",
            meaning: "references between faults from which on they are rare",
        }],
        presets: &[],
    };
    const NEEDS: &'static str = VM_NEEDS;

    fn make<M: TaskMmu>(frames: usize, arguments: &Arguments) -> Result<Option<Made<M>>, ArgumentError> {
        Ok(Some(Box::new(Self::from_arguments(frames, arguments)?)))
    }
}

impl Pff {
    /// Makes the policy for `frames` >= 1 page frames.
    pub fn from_arguments(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            threshold: arguments.whole("threshold", 1..=u64::MAX)?,
            clock: CleaningClock::new(frames),
            standing: alloc::vec![Standing::Left; frames],
            last_fault: Vec::new(),
        })
    }
}

/// Takes a page that has left back if it has been referenced since.
fn come_back<M: TaskMmu>(page: PageId, standing: &mut Standing, mmu: &mut M) {
    if *standing == Standing::Left && mmu.test_and_clear_referenced(page) {
        *standing = Standing::UsedMember;
    }
}

impl<M: TaskMmu> TaskPolicy<M> for Pff {
    fn load_control(&self) -> LoadControl {
        LoadControl::Claims
    }

    fn fault(&mut self, page: PageId, mmu: &mut M) {
        let task = mmu.owner(page);
        if task.index() >= self.last_fault.len() {
            self.last_fault.resize(task.index() + 1, None);
        }
        let now = mmu.virtual_time(task);
        let before = self.last_fault[task.index()].replace(now);
        let rare = before.is_some_and(|before| now - before >= self.threshold);
        for (frame, page) in self.clock.pages() {
            if mmu.owner(page) != task {
                continue;
            }
            let standing = &mut self.standing[frame];
            come_back(page, standing, mmu);
            if rare {
                let used = mmu.test_and_clear_referenced(page) || *standing == Standing::UsedMember;
                *standing = if used { Standing::Member } else { Standing::Left };
            }
        }
    }

    fn reclaim(&mut self, mmu: &mut M) -> Reclaim {
        let Self { clock, standing, .. } = self;
        clock.circuit(mmu, |page, frame, mmu| {
            let standing = &mut standing[frame];
            come_back(page, standing, mmu);
            *standing == Standing::Left || !mmu.is_active(mmu.owner(page))
        })
    }

    fn reclaim_anyway(&mut self, mmu: &mut M) -> Reclaim {
        // Every page counts as replaceable, so a turn without a clean one has found pages to wait
        // for, or none at all.
        match self.clock.circuit(mmu, |_, _, _| true) {
            Reclaim::Overcommitted => Reclaim::Wait,
            answer => answer,
        }
    }

    fn evict(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn insert(&mut self, page: PageId, _: &mut M) -> bool {
        let frame = self.clock.insert(page);
        self.standing[frame] = Standing::Member;
        true
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn claims(&self, mmu: &M, claims: &mut [Claim]) {
        for (_, page) in self.clock.pages().filter(|&(frame, _)| self.standing[frame] != Standing::Left) {
            claims[mmu.owner(page).index()].count(VirtualTime::MAX);
        }
    }

    fn hand_steps(&self) -> Option<u64> {
        Some(self.clock.steps())
    }

    fn check(&self) -> Result<(), Violation> {
        self.clock.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    #[test]
    fn a_rare_fault_clears_out_and_a_frequent_one_does_not() {
        let mut desk = Desk::default();
        desk.tasks([(0, true), (0, true)]);
        let [a, b, other] = [0, 0, 1].map(|owner| desk.load(owner));
        let arguments = Arguments::parse(&Pff::INFO, "threshold=10").unwrap();
        let mut policy = Pff::from_arguments(3, &arguments).unwrap();
        for page in [a, b, other] {
            policy.insert(page, &mut desk);
        }
        let claims = |policy: &Pff, desk: &Desk| {
            let mut claims = [Claim::NONE; 2];
            policy.claims(desk, &mut claims);
            claims.map(|claim| claim.frames)
        };
        policy.fault(a, &mut desk); // the first: nothing to compare with
        desk.reference(a);
        desk.tasks([(9, true), (0, true)]);
        policy.fault(a, &mut desk);
        assert_eq!(claims(&policy, &desk), [2, 1]);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Overcommitted);
        desk.tasks([(19, true), (0, true)]);
        policy.fault(a, &mut desk);
        assert_eq!(claims(&policy, &desk), [1, 1], "b was not used");
        desk.reference(b);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Overcommitted, "b is back in time");
        desk.tasks([(29, true), (0, true)]);
        policy.fault(a, &mut desk);
        assert_eq!(
            policy.reclaim(&mut desk),
            Reclaim::Evict(a),
            "b was used since, though its bit was cleared"
        );
    }
}
