//! The counts of a simulation.

use sweephand_policy::{ColdAllocation, Leader};

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
    /// The leader at the end, for policies that follow one of several.
    pub leader: Option<Leader>,
    /// Refault distances, where they were measured.
    pub refault_distances: Option<RefaultDistances>,
    /// What paging would take, where it was predicted.
    pub paging: Option<PagingTime>,
}

impl Outcome {
    /// Faults on pages that had been in memory before: all but the first touches.
    pub fn refaults(&self) -> u64 {
        self.faults - self.first_touch_faults
    }
}

/// What paging would take on a device, by a model of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PagingTime {
    /// Time for which the program would wait, in nanoseconds.
    pub stall_ns: u64,
    /// Pages that would be read from the device, those read ahead in vain among them.
    pub pages_read: u64,
    /// Pages that would be written to the device.
    pub pages_written: u64,
    /// Pages in memory that were read or filled ahead and not used yet: the mean over the faults in
    /// full memory.
    pub pages_ahead: u64,
}

/// The refault distances of a simulation, added up. A
/// [`RefaultObserver`](crate::RefaultObserver) measures them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RefaultDistances {
    /// Evictions of pages that came back.
    pub refaults: u64,
    /// Their distances, in references of the program.
    pub references: u128,
    /// Evictions of pages that did not come back, or whose contents were dropped before.
    pub never_refaulted: u64,
    /// The references from those evictions to the end of the trace.
    pub references_to_end: u128,
}

impl RefaultDistances {
    /// The mean over the evictions of pages that came back; `None` if there is none.
    pub fn mean(&self) -> Option<f64> {
        (self.refaults > 0).then(|| self.references as f64 / self.refaults as f64)
    }

    /// The mean over all evictions, those of pages that never came back counted as if they did at
    /// the end of the trace; `None` if there is none.
    pub fn mean_with_end(&self) -> Option<f64> {
        let evictions = self.refaults + self.never_refaulted;
        (evictions > 0).then(|| (self.references + self.references_to_end) as f64 / evictions as f64)
    }

    /// Counts a page that does not come back after its eviction.
    pub(crate) fn never(&mut self, evicted_at: u64, end: u64) {
        self.never_refaulted += 1;
        self.references_to_end += u128::from(end - evicted_at);
    }
}
