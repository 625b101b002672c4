//! CLOCK for objects of different sizes.
//!
//! The hand goes round a queue: an object used since it last came by goes to the back, with its bit
//! clear. With objects of one size this is CLOCK over frames, where the new page takes the frame
//! that the hand has just passed.
//!
//! Cost: hit one bit; miss amortised O(1).

use super::SizedPolicy;
use sweephand_policy::PageId;
use sweephand_policy::collections::{Lists, PageMap};

const QUEUE: usize = 0;

/// FIFO with a second chance.
#[derive(Debug, Default)]
pub struct SizedClock {
    /// The hand is at its front.
    queue: Lists<1>,
    is_referenced: PageMap<bool>,
}

impl SizedPolicy for SizedClock {
    fn hit(&mut self, object: PageId) {
        self.is_referenced[object] = true;
    }

    fn evict_for(&mut self, _: PageId, _: u64) -> Option<PageId> {
        loop {
            let object = self.queue.pop_front(QUEUE)?;
            if !std::mem::take(&mut self.is_referenced[object]) {
                return Some(object);
            }
            self.queue.push_back(QUEUE, object);
        }
    }

    fn admit(&mut self, object: PageId, _: u64) {
        self.queue.push_back(QUEUE, object);
        self.is_referenced.set(object, false);
    }

    fn remove(&mut self, object: PageId) {
        self.queue.remove(object);
    }
}
