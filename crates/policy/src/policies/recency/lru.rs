//! LRU: evicts the page whose last reference is longest ago.
//!
//! CLOCK approximates this exact policy. LRU is a stack policy: the pages resident with M frames
//! are among those resident with M + 1 (R. L. Mattson et al., "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 9(2), 1970). So one pass gives the faults at every size; the
//! simulator's stack distances do that.
//!
//! Cost: hit and fault amortised O(1); a hit writes an entry of a log and looks at no other page.
//! 4 bytes a page seen, 10 to 22 more for a resident page.
//!
//! ```text
//! insert, hit -> [ newest ... oldest ] -> evict
//! ```

use crate::collections::RecencyOrder;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

/// Least recently used.
#[derive(Debug)]
pub struct Lru {
    frames: usize,
    /// Resident pages by their last use.
    resident: RecencyOrder,
}

impl Registered for Lru {
    const INFO: Info = Info {
        name: "lru",
        summary: "evicts the page whose last reference is longest ago",
        paper: "Mattson, Gecsei, Slutz, Traiger, Evaluation techniques for storage hierarchies, 1970",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self { frames, resident: RecencyOrder::new() })
    }
}

impl Policy for Lru {
    type Model = ExactModel;

    #[inline]
    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        mmu.prefetch(self.resident.soon_oldest());
        self.resident.oldest()
    }

    #[inline]
    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    #[inline]
    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.resident.touch(reference.page);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.resident.touch(reference.page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.resident.prefetch(page);
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
    use crate::conformance::{E1, E2, faults};

    #[test]
    fn a_cyclic_scan_of_one_page_more_than_memory_never_hits() {
        assert_eq!(faults("lru", E2, 4), E2.len());
        assert_eq!(faults("lru", E2, 5), 5);
    }

    #[test]
    fn faults_never_rise_with_memory() {
        assert_eq!([1, 2, 3, 4, 5].map(|frames| faults("lru", E1, frames)), [12, 12, 10, 8, 5]);
    }
}
