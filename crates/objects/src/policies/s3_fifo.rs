//! S3-FIFO for objects of different sizes: its queues have bytes instead of frames.
//!
//! Paper, queues and choices: [`sweephand_policy::policies::recency::s3_fifo`]. The small queue has
//! a tenth of the bytes, at least one, and gives up objects while it has as many. The ghosts of
//! objects have together as many bytes as the cache without the small queue.
//!
//! Cost: hit O(1), no list moves; miss amortised O(1) in the hits counted.

use super::SizedPolicy;
use super::byte_lists::ByteLists;
use sweephand_policy::PageId;
use sweephand_policy::collections::PageMap;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

/// The largest count of hits: two bits.
const MOST_HITS: u8 = 3;

/// Objects with more hits go from the small queue to the main one.
const THRESHOLD: u8 = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Object {
    bytes: u64,
    hits: u8,
}

/// S3-FIFO in bytes.
#[derive(Debug)]
pub struct SizedS3Fifo {
    /// All with the oldest object in front.
    lists: ByteLists,
    objects: PageMap<Object>,
    small_bytes: u64,
    ghost_bytes: u64,
}

impl SizedS3Fifo {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        let small_bytes = (capacity_bytes / 10).max(1);
        Self {
            lists: ByteLists::new(),
            objects: PageMap::new(),
            small_bytes,
            ghost_bytes: capacity_bytes.saturating_sub(small_bytes).max(1),
        }
    }

    fn push(&mut self, list: usize, object: PageId) {
        self.lists.push(list, object, self.objects[object].bytes);
    }

    fn take(&mut self, object: PageId) -> Option<usize> {
        self.lists.take(object, self.objects.get(object).bytes)
    }
}

impl SizedPolicy for SizedS3Fifo {
    fn hit(&mut self, object: PageId) {
        let hits = &mut self.objects[object].hits;
        *hits = (*hits + 1).min(MOST_HITS);
    }

    fn evict_for(&mut self, _: PageId, _: u64) -> Option<PageId> {
        loop {
            let is_small = self.lists.bytes(SMALL) >= self.small_bytes || self.lists.len(MAIN) == 0;
            let object = self.lists.front(if is_small { SMALL } else { MAIN })?;
            let hits = self.objects[object].hits;
            self.take(object);
            if is_small && hits > THRESHOLD {
                self.objects[object].hits = 0;
                self.push(MAIN, object);
            } else if !is_small && hits > 0 {
                self.objects[object].hits = hits - 1;
                self.push(MAIN, object);
            } else {
                if is_small {
                    self.push(GHOSTS, object);
                    while self.lists.bytes(GHOSTS) > self.ghost_bytes
                        && let Some(oldest) = self.lists.front(GHOSTS)
                    {
                        self.take(oldest);
                    }
                }
                return Some(object);
            }
        }
    }

    fn admit(&mut self, object: PageId, bytes: u64) {
        let was_ghost = self.take(object).is_some();
        self.objects.set(object, Object { bytes, hits: 0 });
        self.push(if was_ghost { MAIN } else { SMALL }, object);
    }

    fn remove(&mut self, object: PageId) {
        self.take(object);
    }
}
