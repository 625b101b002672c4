//! DLIRS: LIRS whose share of memory for HIR pages follows hits that either kind of page would have
//! gained from more frames.
//!
//! Paper: C. Li, "DLIRS: improving low inter-reference recency set cache replacement policy with
//! dynamics", ACM SYSTOR 2018.
//!
//! Everything but the sizes is [`Lirs`], with its stack S and queue Q. A LIR page that turns HIR is
//! *demoted* until it is referenced or evicted.
//!
//! ```text
//!   fault on a non-resident page in S   more frames for HIR pages would have kept it:
//!                                       L_hirs + max(1, demoted / non-resident)
//!   hit on a demoted page               more frames for LIR pages would have left it LIR:
//!                                       L_hirs - max(1, non-resident / demoted)
//! ```
//!
//! L_hirs is the number of frames meant for resident HIR pages. It stays between 1 and all but one.
//! When it grows, LIR pages from the bottom of S are demoted at once. When it shrinks, later pages
//! that turn LIR find room.
//!
//! The rules are taken from public descriptions and from the code of the authors of CACHEUS, who
//! compare it (github.com/sylab/cacheus). Choices: the page in question still counts, and the
//! divisions are rounded to the nearest number, as in that code. At most as many non-resident pages
//! as there are frames are remembered; beyond that the one nearest the bottom of S is forgotten.
//! (That code also drops resident pages from S.) Memory fills as in [`Lirs`], and L_hirs starts
//! with the same value.
//!
//! Cost: hit and fault amortised O(1) list moves. 29 bytes a page seen.

use super::lirs::{HIR, HIR_MIN, Lirs, Sizing, hir_frames};
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, Info, PageId, Violation};

/// The one list of [`ByUtility::non_resident`].
const LIST: usize = 0;

/// The rule of DLIRS.
#[derive(Debug, Default)]
pub struct ByUtility {
    /// Pages that are demoted.
    demoted: PageMap<bool>,
    /// How many.
    demoted_pages: usize,
    /// Pages in S that are not resident, in the order of S.
    non_resident: Lists<1>,
}

/// The ratio of two counts, rounded to the nearest whole number, but at least 1.
fn step(dividend: usize, divisor: usize) -> isize {
    ((2 * dividend + divisor) / (2 * divisor)).max(1) as isize
}

impl Sizing for ByUtility {
    fn demoted(&mut self, page: PageId) {
        self.demoted.set(page, true);
        self.demoted_pages += 1;
    }

    fn hit_in_queue(&mut self, page: PageId) -> isize {
        if !self.demoted.get(page) {
            return 0;
        }
        let change = -step(self.non_resident.len(LIST), self.demoted_pages);
        self.gone(page);
        change
    }

    fn faulted_in_stack(&mut self, page: PageId) -> isize {
        self.non_resident.move_to_back(LIST, page);
        step(self.demoted_pages, self.non_resident.len(LIST))
    }

    fn evicted(&mut self, page: PageId) {
        self.non_resident.push_back(LIST, page);
    }

    fn too_many(&self, frames: usize) -> Option<PageId> {
        self.non_resident.front(LIST).filter(|_| self.non_resident.len(LIST) > frames)
    }

    fn gone(&mut self, page: PageId) {
        self.non_resident.remove(page);
        if self.demoted.get(page) {
            self.demoted[page] = false;
            self.demoted_pages -= 1;
        }
    }

    fn check(&self, only_queued: &[PageId], non_resident: &[PageId]) -> Result<(), Violation> {
        self.non_resident.check()?;
        let demoted = only_queued.iter().filter(|&&page| self.demoted.get(page)).count();
        ensure!(demoted == self.demoted_pages, "{} demoted, {demoted} of them in Q", self.demoted_pages);
        let marked = self.demoted.iter().filter(|&(_, demoted)| demoted).count();
        ensure!(marked == demoted, "{marked} pages marked as demoted, {demoted} of them in Q");
        let known = non_resident.iter().filter(|&&page| self.non_resident.list_of(page).is_some()).count();
        ensure!(
            known == non_resident.len() && known == self.non_resident.len(LIST),
            "{known} of {} non-resident pages in the list of {}",
            non_resident.len(),
            self.non_resident.len(LIST)
        );
        Ok(())
    }
}

/// LIRS with dynamic sizes.
pub type DLirs = Lirs<ByUtility>;

impl Registered for DLirs {
    const INFO: Info = Info {
        name: "dlirs",
        summary: "LIRS whose shares of memory follow hits that either would have gained",
        paper: "Li, DLIRS, ACM SYSTOR 2018",
        parameters: &[HIR, HIR_MIN],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self::new(frames, hir_frames(frames, arguments)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// L_hirs, the demoted pages and those that are not resident, in the order of S.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<DLirs>::new("dlirs:hir-min=1", 4);
        let states = machine.trace(&[1, 2, 3, 4, 5, 4, 1, 1, 6, 2], |machine| {
            let dlirs = machine.policy();
            let show = |page: PageId| page.to_string();
            let demoted = dlirs.sizing().demoted.iter().filter(|&(_, demoted)| demoted);
            let demoted: Vec<_> = demoted.map(|(page, _)| show(page)).collect();
            let non_resident: Vec<_> = dlirs.sizing().non_resident.iter(LIST).map(show).collect();
            format!("{} [{}] [{}]", dlirs.hir_frames(), demoted.join(" "), non_resident.join(" "))
        });
        assert_eq!(
            states,
            [
                "1 [] []",
                "1 [] []",
                "1 [] []",
                "1 [] []",
                "1 [] [4]",
                "2 [1 2] [5]", // 4 was not resident: L_hirs grows, 1 makes room for it, 2 for 4
                "1 [2] [5]",   // 1 was demoted: L_hirs shrinks by 1 / 2, rounded
                "1 [2] [5]",   // 1 is LIR again, and finds room
                "1 [] [5]",    // 2 is evicted; it is not in S
                "1 [] [5 6]",
            ]
        );
    }
}
