//! CLOCK-Pro with a fixed cold allocation.
//!
//! Paper: S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK
//! replacement", USENIX Annual Technical Conference 2005, section 4.2: the policy before adaptation
//! is added.
//!
//! This is [`ClockPro`] with m_c held at `cold` (a share of memory, rounded to the nearest page, at
//! least one and at most all but one). Once memory is full, exactly M - m_c pages are hot, and
//! every promotion costs one demotion.

use super::clock_pro::{Adaptation, ClockPro, HISTORY, REFERENCED_COLD, WARM};
use crate::arguments::{Parameter, Rounding};
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info};

/// No adaptation.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {}

impl Adaptation for Fixed {}

/// CLOCK-Pro whose cold allocation does not adapt.
pub type ClockProFixed = ClockPro<Fixed>;

impl Registered for ClockProFixed {
    const INFO: Info = Info {
        name: "clock-pro-fixed",
        summary: "CLOCK-Pro with a fixed cold allocation",
        paper: "Jiang, Chen, Zhang, CLOCK-Pro, USENIX ATC 2005, section 4.2",
        parameters: &[
            Parameter { name: "cold", default: "1%", meaning: "cold allocation, pages or share" },
            HISTORY,
            WARM,
            REFERENCED_COLD,
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let cold = arguments.pages("cold", frames, Rounding::Nearest)?;
        if arguments.pages("cold", 1 << 30, Rounding::Nearest)? == 0 {
            return Err(arguments.bad("cold", arguments.value("cold"), "at least one page"));
        }
        Self::with_cold_allocation(frames, cold, (cold, cold), arguments)
    }
}
