//! How many pages the kernel reads at once from swap on a disk that turns.
//!
//! There it reads an aligned block of slots: pages that went together come together. The block
//! grows with what was used of the last one (`mm/swap_state.c`, `swap_cluster_readahead`). On
//! devices without an arm it goes by addresses instead.

use std::ops::Range;

/// The state behind the block's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwapIn {
    /// The largest block, in slots: 2 to the power of `vm.page-cluster`.
    most: u32,
    /// Slots of the last block.
    last: u32,
    /// Pages read ahead that were used since the last fault.
    hits: u32,
    /// The slot of the last fault.
    slot: u32,
}

impl SwapIn {
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most as u32, last: 0, hits: 0, slot: 0 }
    }

    /// A page that was read ahead is used.
    pub(crate) fn was_used(&mut self) {
        self.hits += 1;
    }

    /// A fault on the page in a slot: the slots to read, its own among them.
    pub(crate) fn fault(&mut self, slot: u32) -> Range<u32> {
        let is_next = slot.abs_diff(self.slot) == 1;
        let wished = match self.hits {
            0 if is_next => 2,
            0 => 1,
            hits => (hits + 2).next_power_of_two().max(4),
        };
        // It does not shrink at once.
        let slots = wished.min(self.most).max(self.last / 2).max(1);
        (self.hits, self.slot, self.last) = (0, slot, slots);
        let first = slot & !(slots.next_power_of_two() - 1);
        first..first + slots.next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes by the kernel's rules: 1 without hits, 2 next to the last, 4 and more with hits,
    /// at most half as many as before.
    #[test]
    fn a_block_grows_with_hits_and_shrinks_by_half() {
        let mut swap_in = SwapIn::new(8);
        assert_eq!(swap_in.fault(100), 100..101);
        assert_eq!(swap_in.fault(101), 100..102);
        swap_in.was_used();
        assert_eq!(swap_in.fault(230), 228..232);
        (0..4).for_each(|_| swap_in.was_used());
        assert_eq!(swap_in.fault(515), 512..520);
        assert_eq!(swap_in.fault(700), 700..704);
        assert_eq!(swap_in.fault(900), 900..902);
        assert_eq!(swap_in.fault(300), 300..301);
    }
}
