//! FIFO: evict the page that has been resident longest.
//!
//! The baseline, first measured against others by L. A. Belady, "A study of replacement algorithms
//! for a virtual-storage computer", IBM Systems Journal 5(2), 1966. Not a stack policy: with more
//! memory it can fault more (Belady's anomaly, in the tests below).
//!
//! Cost: hit nothing; fault O(1).
//!
//! ```text
//! insert -> [ back ... front ] -> evict
//! ```

use crate::collections::ArrivalQueue;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// First in, first out.
#[derive(Debug)]
pub struct Fifo {
    frames: usize,
    /// Resident pages, oldest in front.
    resident: ArrivalQueue,
}

impl Registered for Fifo {
    const INFO: Info = Info {
        name: "fifo",
        summary: "evicts the page that has been resident longest",
        paper: "Belady, A study of replacement algorithms for a virtual-storage computer, 1966",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, resident: ArrivalQueue::new() })
    }
}

impl Policy for Fifo {
    type Model = VmModel;

    #[inline]
    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.resident.front()
    }

    #[inline]
    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    #[inline]
    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.resident.push_back(reference.page);
        false
    }

    fn remove(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
        self.resident.check()
    }
}

#[cfg(test)]
mod tests {
    use crate::conformance::{E1, faults};

    /// More memory, more faults: 9 with 3 frames, 10 with 4.
    #[test]
    fn shows_beladys_anomaly() {
        assert_eq!([1, 2, 3, 4, 5].map(|frames| faults("fifo", E1, frames)), [12, 12, 9, 10, 5]);
    }
}
