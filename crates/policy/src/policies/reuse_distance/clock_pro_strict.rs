//! CLOCK-Pro that counts every test a hand ends as failed.
//!
//! Paper: none. It is [`ClockPro`] of S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective
//! improvement of the CLOCK replacement", USENIX Annual Technical Conference 2005, but for one
//! rule, and the same as `clock-pro:test-end=shrink`.
//!
//! In the paper, a resident page that was used in its test makes the cold allocation m_c grow,
//! whichever hand ends the test. Here it must be HAND_cold that finds the page used, or the page
//! must fault in its test. A test that HAND_hot or HAND_test ends takes 1 from m_c, whatever the
//! page's bit says.
//!
//! Why: a program touches a page many times in a burst, so nearly every new page has its bit set.
//! When a page turns hot, HAND_hot passes cold pages on its way to a victim. In the paper's policy
//! each of them makes m_c grow, and soon most of memory is cold: CLOCK-Pro does what CLOCK does.
//! Here m_c stays lower, and more of a loop's hot pages stay in memory. `lab/papers/clock-pro-2005`
//! compares the two on programs.
//!
//! Cost: as CLOCK-Pro, and hands that end a test need not read a bit.

use super::clock_pro::{Adaptation, ByTests, ClockPro, HISTORY, REFERENCED_COLD, WARM};
use super::clock_pro::{COLD, COLD_MAX, COLD_MIN, PageCounts};
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info};

/// The rule of CLOCK-Pro, without a look at bits at the end of a test.
#[derive(Clone, Copy, Debug)]
pub enum ByStrictTests {}

impl Adaptation for ByStrictTests {
    fn reused_in_test() -> isize {
        ByTests::reused_in_test()
    }
    fn faulted_in_test(pages: PageCounts) -> isize {
        ByTests::faulted_in_test(pages)
    }
    fn test_ended() -> isize {
        ByTests::test_ended()
    }
}

/// CLOCK-Pro in which every test that a hand ends has failed.
pub type ClockProStrict = ClockPro<ByStrictTests>;

impl Registered for ClockProStrict {
    const INFO: Info = Info {
        name: "clock-pro-strict",
        summary: "CLOCK-Pro in which every test that a hand ends counts as failed",
        paper: "none; after Jiang, Chen, Zhang, CLOCK-Pro, USENIX ATC 2005",
        parameters: &[COLD, COLD_MIN, COLD_MAX, HISTORY, WARM, REFERENCED_COLD, SETTLE],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Self::adapting(frames, arguments)
    }
}
