//! The counts of a simulation.

use crate::RefaultDistances;
use sweephand_policy::ColdAllocation;

/// The counts of one policy with one memory size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// References simulated (the records of the trace).
    pub records: u64,
    /// References to pages that were not resident.
    pub faults: u64,
    /// Those of them that were the first reference to the page, or the first after its contents
    /// were dropped: a zero-fill, no disk read.
    pub first_touch_faults: u64,
    /// Those of them that found a free frame.
    pub warmup_faults: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Entries that the policy's hands looked at.
    pub hand_steps: u64,
    /// The cold allocation at the end, for policies that have one.
    pub cold_allocation: Option<ColdAllocation>,
    /// Refault distances, where they were measured.
    pub refault_distances: Option<RefaultDistances>,
}

impl Outcome {
    /// Faults on pages that had been in memory before: all but the first touches.
    pub fn refaults(&self) -> u64 {
        self.faults - self.first_touch_faults
    }
}
