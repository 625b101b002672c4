//! CLOCK-Pro+: CLOCK-Pro with another rule for the cold allocation. The rule asks which kind of
//! page, hot or cold, would have gained from more frames.
//!
//! Paper: C. Li, "CLOCK-pro+: improving CLOCK-pro cache replacement with utility-driven
//! adaptation", ACM SYSTOR 2019.
//!
//! Everything but the adaptation is [`ClockPro`], with the hands and the list as drawn there. A
//! page that HAND_hot turns cold is *demoted* until HAND_cold finds it referenced or it is evicted.
//!
//! ```text
//!   fault on a non-resident page in test        a larger cold allocation would have kept it:
//!                                               m_c + max(1, demoted / non-resident)
//!   HAND_cold finds a demoted page referenced   a larger hot allocation would have left it hot:
//!                                               m_c - max(1, non-resident / demoted)
//!   a test that ends, a page found referenced in its test: no change
//! ```
//!
//! Choices where public descriptions of the policy, from which the rules are taken, are silent: the
//! divisions are of whole numbers, and the page in question still counts. The frame is freed before
//! the faulting page is looked up, as in CLOCK-Pro. The author's experiments let m_c grow to half
//! of memory, so `cold-max` is 50 %. (With all of memory, m_c only grows on loops.) With
//! `referenced-cold=evict` a demoted page found referenced still counts against m_c.
//!
//! The simulator of Caffeine refuses to turn a page hot if HAND_hot meets it before an unreferenced
//! hot page. The paper's predecessor has no such rule, and nor has this. On a loop of 150 pages in
//! 90 frames (9,000 references) it decides: all hot pages are referenced when a page comes back, so
//! Caffeine refuses 3,599 times and takes 3,749 faults. Here m_c rises to its bound as well, hot
//! pages give way, and 5,355 pages fault. `lab/papers/clock-pro-2005/caffeine.py` compares the two.
//!
//! Cost: as CLOCK-Pro.

use super::clock_pro::{Adaptation, COLD, COLD_MIN, ClockPro, HISTORY, PageCounts, REFERENCED_COLD, WARM};
use crate::arguments::{Parameter, Rounding};
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info};

/// The rule of CLOCK-Pro+.
#[derive(Clone, Copy, Debug)]
pub enum ByUtility {}

impl Adaptation for ByUtility {
    fn faulted_in_test(pages: PageCounts) -> isize {
        (pages.demoted / pages.non_resident).max(1) as isize
    }
    fn demoted_reused(pages: PageCounts) -> isize {
        -((pages.non_resident / pages.demoted).max(1) as isize)
    }
}

/// CLOCK-Pro with utility-driven adaptation.
pub type ClockProPlus = ClockPro<ByUtility>;

impl Registered for ClockProPlus {
    const INFO: Info = Info {
        name: "clock-pro-plus",
        summary: "CLOCK-Pro whose shares of memory follow hits that either would have gained",
        paper: "Li, CLOCK-pro+, ACM SYSTOR 2019",
        parameters: &[
            COLD,
            COLD_MIN,
            Parameter { name: "cold-max", default: "50%", meaning: "its upper bound, shares rounded down" },
            HISTORY,
            WARM,
            REFERENCED_COLD,
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let pages = |name, rounding| arguments.pages(name, frames, rounding);
        let range = (pages("cold-min", Rounding::Nearest)?, pages("cold-max", Rounding::Down)?);
        Self::with_cold_allocation(frames, pages("cold", Rounding::Nearest)?, range, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::ClockProPlus;
    use crate::conformance::{E1, E2, Machine, faults};
    use crate::{ColdAllocation, Policy};

    /// `resident cold pages/m_c`. When 3 comes back in its test, at time 10, m_c rises to 2, and
    /// HAND_hot turns two pages cold: 3 itself, then 1.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<ClockProPlus>::new("clock-pro-plus:cold-max=100%", 3);
        let targets = machine.trace(E1, |machine| {
            let ColdAllocation { resident_cold_pages, target_pages } =
                machine.policy().cold_allocation().unwrap();
            format!("{resident_cold_pages}/{target_pages}")
        });
        let mut expected = ["1/1"; 12];
        expected[..2].fill("0/1");
        expected[9..].fill("2/2");
        assert_eq!(targets, expected);
    }

    /// Half of memory at most is cold, so that a loop keeps hitting the rest.
    #[test]
    fn the_bound_keeps_a_loop_in_memory() {
        let looped: Vec<u32> = (0..2000).map(|time| time % 50).collect();
        let bounded = faults("clock-pro-plus", &looped, 40);
        let unbounded = faults("clock-pro-plus:cold-max=100%", &looped, 40);
        assert!(bounded <= unbounded, "{bounded} faults, {unbounded} without the bound");
        assert!(faults("clock-pro-plus", E2, 4) < E2.len());
    }
}
