//! WSCLOCK: working sets at the price of a clock.
//!
//! Paper: R. W. Carr, J. L. Hennessy, "WSCLOCK: a simple and effective algorithm for virtual memory
//! management", 8th Symposium on Operating Systems Principles (SOSP), 1981.
//!
//! A page is in its task's working set W while the task's virtual time since its last reference is
//! below theta. The hand looks for a page outside W, or of an inactive task. It learns of
//! references only from use bits, when it passes. If a bit is set, the hand clears it and takes the
//! page's last reference (LR, one cell a frame) to be now. So there are no scans for working sets
//! and no lists of available pages, and nothing has to be done when a page outside W is referenced
//! again.
//!
//! Load control uses the resident working set RW: the pages in frames with VT - LR < theta. Once a
//! task has run for theta of virtual time since its activation, RW is W itself, as far as LR is
//! known.
//!
//! Choices where the paper is silent: LR is also set when a page is loaded, so that the page counts
//! before its task has repeated the reference. RW uses LR as the hand left it; use bits set since
//! do not count. When a lone task needs more than memory, its page with the smallest LR goes.
//! `clean-list=on` prefers pages that were just cleaned to a scan. (The paper mentions such a list
//! and does without it.)
//!
//! Cost: hit nothing; replacement about 13 frames looked at in the paper's configurations, at worst
//! all.
//!
//! ```text
//!                     use bit set ────▶ clear it, LR := VT ─┐
//!   page under hand ┤                                       ├ VT - LR < theta and owner active: in W, go on
//!                     use bit clear ────────────────────────┘ else dirty: clean it, go on;  clean: the victim
//! ```

use super::cleaning_clock::{CleaningClock, available};
use crate::arguments::Parameter;
use crate::registered::{Made, RegisteredTaskPolicy, VM_NEEDS};
use crate::{
    ArgumentError, Arguments, Claim, Info, LoadControl, PageId, Reclaim, TaskMmu, TaskPolicy, Violation,
    VirtualTime,
};
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

/// WSCLOCK over the frames of memory.
#[derive(Debug)]
pub struct WsClock {
    /// The window of the working set.
    theta: VirtualTime,
    clock: CleaningClock,
    /// LR: by frame, the owner's virtual time when the page in it was last known to have been
    /// referenced.
    last_reference: Vec<VirtualTime>,
    /// Pages whose cleaning is done, the oldest in front, if that list is kept. Some may have gone
    /// since.
    clean_list: Option<VecDeque<PageId>>,
    /// Where a lone task needs more than memory: LR, frame and page of those with the smallest LR,
    /// these at the end, as of some earlier look; see [`WsClock::oldest`].
    oldest: Vec<(VirtualTime, usize, PageId)>,
}

/// Pages found at a look for those that were used longest ago.
const OLDEST: usize = 256;

impl RegisteredTaskPolicy for WsClock {
    const INFO: Info = Info {
        name: "wsclock",
        summary: "a clock that spares working sets, known from use bits and virtual time",
        paper: "Carr and Hennessy, WSCLOCK: a simple and effective algorithm for virtual memory management, SOSP 1981",
        parameters: &[
            THETA,
            Parameter { name: "clean-list", default: "off", meaning: "prefer pages just cleaned to a scan" },
        ],
        presets: &[],
    };
    const NEEDS: &'static str = VM_NEEDS;

    fn make<M: TaskMmu>(frames: usize, arguments: &Arguments) -> Result<Option<Made<M>>, ArgumentError> {
        Ok(Some(Box::new(Self::from_arguments(frames, arguments)?)))
    }
}

/// The window of the working set, in every policy that has one.
pub(crate) const THETA: Parameter = Parameter {
    name: "theta",
    default: "200000",
    meaning: "window of the working set, references of virtual time",
};

impl WsClock {
    /// Makes the policy for `frames` >= 1 page frames. Refuses values out of range.
    pub fn from_arguments(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            theta: arguments.whole(THETA.name, 1..=u64::MAX)?,
            clock: CleaningClock::new(frames),
            last_reference: alloc::vec![0; frames],
            clean_list: arguments.switch("clean-list")?.then(VecDeque::new),
            oldest: Vec::new(),
        })
    }
}

/// Whether a page was used since its use bit was last looked at. This is where LR changes.
#[inline]
fn was_used<M: TaskMmu>(page: PageId, last_reference: &mut VirtualTime, mmu: &mut M) -> bool {
    let used = mmu.test_and_clear_referenced(page);
    if used {
        *last_reference = mmu.virtual_time(mmu.owner(page));
    }
    used
}

/// Whether a page is in its task's working set, by what its use bit tells.
#[inline]
fn in_working_set<M: TaskMmu>(
    page: PageId,
    last_reference: &mut VirtualTime,
    theta: VirtualTime,
    mmu: &mut M,
) -> bool {
    was_used(page, last_reference, mmu);
    mmu.virtual_time(mmu.owner(page)) - *last_reference < theta
}

impl WsClock {
    /// The page with the smallest LR that is not busy; of several, that in the first frame.
    ///
    /// One look at all frames finds [`OLDEST`] pages. LR never gets smaller while a page is in its
    /// frame, so the others stay behind these, and of these those are right whose LR is what it
    /// was.
    fn oldest<M: TaskMmu>(&mut self, mmu: &M) -> Option<PageId> {
        let Self { clock, last_reference, oldest, .. } = self;
        for look in 0..2 {
            oldest.retain(|&(last, frame, page)| {
                clock.page(frame) == Some(page) && last_reference[frame] == last
            });
            if let Some(&(_, _, page)) = oldest.iter().rev().find(|&&(_, _, page)| !mmu.is_busy(page)) {
                return Some(page);
            }
            if look == 0 {
                oldest.clear();
                oldest.extend(clock.pages().map(|(frame, page)| (last_reference[frame], frame, page)));
                // Busy pages are few, unless all are.
                let busy = oldest.iter().filter(|&&(_, _, page)| mmu.is_busy(page)).count();
                let most = OLDEST + busy;
                if oldest.len() > most {
                    oldest.select_nth_unstable(most);
                    oldest.truncate(most);
                }
                oldest.sort_unstable_by(|one, other| other.cmp(one));
            }
        }
        None
    }

    /// The page with the smallest LR, where the policy's user knows that no page is outside W and
    /// wants to be spared a circuit. If the use bit of such a page is set, the page is used now,
    /// and the next one is looked at. There is no answer if many were used: a circuit is due.
    pub fn oldest_unused<M: TaskMmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        for _ in 0..OLDEST {
            let page = self.oldest(mmu)?;
            let frame = self.clock.frame_of(page)?;
            if !was_used(page, &mut self.last_reference[frame], mmu) {
                return available(page, mmu).then_some(page);
            }
        }
        None
    }

    /// The oldest page on the clean list that can be replaced as it is.
    fn just_cleaned<M: TaskMmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let clean_list = self.clean_list.as_mut()?;
        while let Some(&page) = clean_list.front() {
            if let Some(frame) = self.clock.frame_of(page)
                && !mmu.is_busy(page)
                && !mmu.is_dirty(page)
                && (!in_working_set(page, &mut self.last_reference[frame], self.theta, mmu)
                    || !mmu.is_active(mmu.owner(page)))
            {
                return Some(page);
            }
            clean_list.pop_front();
        }
        None
    }
}

impl<M: TaskMmu> TaskPolicy<M> for WsClock {
    fn load_control(&self) -> LoadControl {
        LoadControl::Claims
    }

    fn reclaim(&mut self, mmu: &mut M) -> Reclaim {
        if let Some(page) = self.just_cleaned(mmu) {
            return Reclaim::Evict(page);
        }
        let Self { theta, clock, last_reference, .. } = self;
        clock.circuit(mmu, |page, frame, mmu| {
            let in_use = in_working_set(page, &mut last_reference[frame], *theta, mmu);
            !in_use || !mmu.is_active(mmu.owner(page))
        })
    }

    fn reclaim_anyway(&mut self, mmu: &mut M) -> Reclaim {
        match self.oldest(mmu) {
            Some(page) if available(page, mmu) => Reclaim::Evict(page),
            _ => Reclaim::Wait,
        }
    }

    fn evict(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn insert(&mut self, page: PageId, mmu: &mut M) -> bool {
        let frame = self.clock.insert(page);
        let now = mmu.virtual_time(mmu.owner(page));
        self.last_reference[frame] = now;
        // The clock of another task may show less than what was looked at.
        if self.oldest.first().is_some_and(|&(last, other, _)| (now, frame) < (last, other)) {
            self.oldest.clear();
        }
        true
    }

    fn cleaned(&mut self, page: PageId) {
        if let Some(clean_list) = &mut self.clean_list {
            clean_list.push_back(page);
        }
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn claims(&self, mmu: &M, claims: &mut [Claim]) {
        for (frame, page) in self.clock.pages() {
            let owner = mmu.owner(page);
            let leaves = self.last_reference[frame].saturating_add(self.theta);
            if mmu.virtual_time(owner) < leaves {
                claims[owner.index()].count(leaves);
            }
        }
    }

    fn hand_steps(&self) -> Option<u64> {
        Some(self.clock.steps())
    }

    fn sample(&mut self, mmu: &mut M) {
        for (frame, page) in self.clock.pages() {
            in_working_set(page, &mut self.last_reference[frame], self.theta, mmu);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        self.clock.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;
    use sweephand_checks::trying;

    const A: u32 = 0;
    const B: u32 = 1;
    const C: u32 = 2;

    fn wsclock(desk: &mut Desk, arguments: &str, frames: usize) -> WsClock {
        let arguments = Arguments::parse(&WsClock::INFO, arguments).unwrap();
        let mut policy = WsClock::from_arguments(frames, &arguments).unwrap();
        for page in desk.pages() {
            policy.insert(page, desk);
        }
        policy
    }

    /// Six frames of three tasks; A at virtual time 100, B at 50, C at 10 and not active. Upper
    /// case: use bit set; `!`: dirty; the number is LR.
    #[test]
    fn scans_go_frame_by_frame_as_worked_by_hand() {
        let mut desk = Desk::default();
        desk.tasks([(100, true), (50, true), (10, false)]);
        let [a1, b1, a2, b2, c1, c2] = [A, B, A, B, C, C].map(|owner| desk.load(owner));
        let mut policy = wsclock(&mut desk, "theta=30", 6);
        policy.last_reference = alloc::vec![80, 45, 20, 10, 7, 9];
        desk.reference(a1);
        desk.reference(c2);
        desk.dirty(a2);

        let state = |policy: &WsClock, desk: &Desk| {
            let names = ["a", "b", "c"];
            let cell = |(frame, page): (usize, PageId)| {
                let name = names[desk.owner(page).index()];
                let name = if desk.is_referenced(page) { name.to_uppercase() } else { name.to_string() };
                let dirty = if desk.is_dirty(page) { "!" } else { "" };
                format!("{name}{}{dirty}", policy.last_reference[frame])
            };
            policy.clock.pages().map(cell).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(state(&policy, &desk), "A80 b45 a20! b10 c7 C9");
        let mut scan = |desk: &mut Desk, cleaned: &[PageId]| {
            desk.finish_cleaning();
            let before = policy.clock.steps();
            let answer = policy.reclaim(desk);
            assert_eq!(desk.cleaning(), cleaned);
            (answer, policy.clock.steps() - before, state(&policy, desk))
        };
        let scan_1 = scan(&mut desk, &[a2]);
        assert_eq!(scan_1, (Reclaim::Evict(b2), 4, "a100 b45 a20 b10 c7 C9".to_string()));
        assert_eq!(scan(&mut desk, &[]), (Reclaim::Evict(c1), 1, "a100 b45 a20 b10 c7 C9".to_string()));
        assert_eq!(scan(&mut desk, &[]), (Reclaim::Evict(c2), 1, "a100 b45 a20 b10 c7 c10".to_string()));
        assert_eq!(scan(&mut desk, &[]), (Reclaim::Evict(a2), 3, "a100 b45 a20 b10 c7 c10".to_string()));
        let mut claims = [Claim::NONE; 3];
        policy.claims(&desk, &mut claims);
        assert_eq!(claims.map(|claim| claim.frames), [1, 1, 2]);
        assert_eq!(claims.map(|claim| claim.until), [130, 75, 37]);
        assert_ne!(b1, b2);
    }

    #[test]
    fn working_sets_that_fill_memory_are_overcommitment() {
        let mut desk = Desk::default();
        desk.tasks([(100, true)]);
        let pages = [A, A].map(|owner| desk.load(owner));
        let mut policy = wsclock(&mut desk, "theta=30", 2);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Overcommitted);
        assert_eq!(policy.clock.steps(), 2, "one circuit");
        // A lone task: the page that was used longest ago goes, and is written first if it has to
        // be.
        policy.last_reference[1] = 90;
        desk.dirty(pages[1]);
        assert_eq!(policy.reclaim_anyway(&mut desk), Reclaim::Wait);
        desk.finish_cleaning();
        assert_eq!(policy.reclaim_anyway(&mut desk), Reclaim::Evict(pages[1]));
    }

    #[test]
    fn a_page_leaves_the_working_set_when_it_was_used_theta_ago() {
        let mut desk = Desk::default();
        desk.tasks([(100, true)]);
        let [first, _] = [A, A].map(|owner| desk.load(owner));
        let mut policy = wsclock(&mut desk, "theta=30", 2);
        policy.last_reference = alloc::vec![71, 71];
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Overcommitted, "29 ago");
        policy.last_reference = alloc::vec![70, 71];
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(first), "30 ago");
    }

    #[test]
    fn without_a_circuit_a_page_used_since_is_passed() {
        let mut desk = Desk::default();
        desk.tasks([(100, true)]);
        let [first, second] = [A, A].map(|owner| desk.load(owner));
        let mut policy = wsclock(&mut desk, "theta=30", 2);
        policy.last_reference = alloc::vec![80, 90];
        assert_eq!(policy.oldest_unused(&mut desk), Some(first));
        desk.reference(first);
        assert_eq!(policy.oldest_unused(&mut desk), Some(second));
        assert_eq!(policy.last_reference, [100, 90]);
        assert_eq!(policy.clock.steps(), 0);
    }

    #[test]
    fn pages_being_written_are_waited_for_and_not_taken() {
        let mut desk = Desk::default();
        desk.tasks([(100, false)]);
        let page = desk.load(A);
        desk.dirty(page);
        let mut policy = wsclock(&mut desk, "", 1);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Wait);
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Wait);
        assert_eq!(desk.cleaning(), [page], "it is written once");
        desk.finish_cleaning();
        assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(page));
    }

    /// Against a look at all frames each time, with hands that move, pages that come and go, and
    /// busy ones.
    #[test]
    fn forced_replacement_takes_the_smallest_last_reference() {
        use crate::SplitMix64;
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            let mut desk = Desk::default();
            desk.tasks([(0, true), (0, true)]);
            let mut policy = wsclock(&mut desk, "theta=100000", 700);
            let (mut now, mut pages, mut forced) = ([0; 2], Vec::new(), 0);
            for _ in 0..3000 {
                let task = random.below(2) as usize;
                now[task] += random.below(20);
                desk.tasks([(now[0], true), (now[1], true)]);
                if pages.len() == 700 {
                    let page = pages[random.below(700) as usize];
                    if random.below(4) == 0 && !desk.is_busy(page) {
                        desk.dirty(page);
                        desk.start_cleaning(page);
                    }
                    let frames = policy.clock.pages().filter(|&(_, page)| !desk.is_busy(page));
                    let expected =
                        frames.min_by_key(|&(frame, _)| policy.last_reference[frame]).map(|(_, page)| page);
                    assert_eq!(policy.oldest(&desk), expected, "seed {seed}");
                    forced += 1;
                    let victim = expected.unwrap();
                    TaskPolicy::<Desk>::evict(&mut policy, victim);
                    pages.retain(|&page| page != victim);
                    if random.below(8) == 0 {
                        desk.finish_cleaning();
                    }
                }
                let page = desk.load(task as u32);
                policy.insert(page, &mut desk);
                pages.push(page);
                desk.reference(pages[random.below(pages.len() as u64) as usize]);
                if random.below(50) == 0 {
                    let _ = policy.reclaim(&mut desk);
                }
            }
            assert!(forced > 1000, "seed {seed}: {forced}");
        }
    }

    #[test]
    fn a_page_just_cleaned_is_taken_without_a_scan_unless_it_was_used_meanwhile() {
        for used in [false, true] {
            let _input = trying(|| format!("used: {used}"));
            let mut desk = Desk::default();
            desk.tasks([(100, true)]);
            let [first, second] = [A, A].map(|owner| desk.load(owner));
            let mut policy = wsclock(&mut desk, "theta=30,clean-list=on", 2);
            policy.last_reference = alloc::vec![0, 0];
            desk.dirty(first);
            assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(second));
            desk.finish_cleaning();
            TaskPolicy::<Desk>::cleaned(&mut policy, first);
            if used {
                desk.reference(first);
            }
            let (steps, expected) = (policy.clock.steps(), if used { second } else { first });
            assert_eq!(policy.reclaim(&mut desk), Reclaim::Evict(expected));
            assert_eq!(policy.clock.steps() == steps, !used);
        }
    }
}
