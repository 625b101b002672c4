//! VMIN: the optimum among policies that use a variable amount of memory. It looks tau references
//! ahead.
//!
//! Paper: B. G. Prieve, R. S. Fabry, "VMIN: an optimal variable-space page replacement algorithm",
//! Communications of the ACM 19(5), 1976.
//!
//! After each reference the page is dropped at once unless its next reference is at most tau
//! references ahead. VMIN takes as many faults as the working set policy with theta = tau, in less
//! memory. tau is the cost of a fault divided by the cost of a page in memory for one reference.
//!
//! VMIN is defined for one task without a limit of memory, so it has no hand and no state: a
//! string's next uses decide everything. This file has its entry in the registry. The
//! multiprogramming model computes it in closed form.

use crate::arguments::Parameter;
use crate::registered::{Made, RegisteredTaskPolicy};
use crate::{ArgumentError, Arguments, Info, TaskMmu};
use alloc::string::ToString;

/// Entry in the registry.
#[derive(Debug)]
pub struct Vmin;

impl RegisteredTaskPolicy for Vmin {
    const INFO: Info = Info {
        name: "vmin",
        summary: "the optimum of variable space: keeps a page if its next use is at most theta ahead",
        paper: "Prieve and Fabry, VMIN: an optimal variable-space page replacement algorithm, CACM 19(5), 1976",
        parameters: &[Parameter {
            name: "theta",
            default: "200000",
            meaning: "how far it looks ahead (tau), references of virtual time",
        }],
        presets: &[],
    };
    const NEEDS: &'static str = "every reference and the next use of its page; one task alone";

    fn make<M: TaskMmu>(_: usize, _: &Arguments) -> Result<Option<Made<M>>, ArgumentError> {
        let reason = "has no frames: it looks ahead in the string of one task alone".to_string();
        Err(ArgumentError { policy: Self::INFO.name.to_string(), reason })
    }
}
