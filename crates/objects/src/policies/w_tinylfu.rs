//! W-TinyLFU for objects of different sizes: its segments have bytes instead of frames.
//!
//! Paper, segments and frequencies: [`sweephand_policy::policies::frequency::w_tinylfu`]. The
//! window has a hundredth of the bytes, at least one; the protected segment has 80 % of the rest.
//! Frequencies are halved after ten times as many requests as there were objects when the cache was
//! first full.
//!
//! An object that is larger than the window is its own candidate: it comes in only if it was used
//! more often lately than each object that would have to go for it. Objects that went before the
//! comparison failed stay away.
//!
//! Cost: hit and miss O(1).

use super::SizedPolicy;
use super::byte_lists::ByteLists;
use sweephand_policy::PageId;
use sweephand_policy::collections::PageMap;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// The largest frequency: four bits.
const MOST: u8 = 15;

/// Requests counted when all is halved, for each object.
const SAMPLE: u64 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Object {
    bytes: u64,
    count: u8,
    /// How often all counts had been halved when this one was written.
    halvings: u32,
}

/// W-TinyLFU in bytes.
#[derive(Debug)]
pub struct SizedWTinyLfu {
    /// All with the least recently used object in front.
    lists: ByteLists,
    objects: PageMap<Object>,
    window_bytes: u64,
    protected_bytes: u64,
    /// Requests counted, halved together with the counts.
    counted: u64,
    /// The number at which all is halved; none before the cache is full.
    sample: Option<u64>,
    halvings: u32,
}

impl SizedWTinyLfu {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        let window_bytes = (capacity_bytes / 100).max(1);
        Self {
            lists: ByteLists::new(),
            objects: PageMap::new(),
            window_bytes,
            protected_bytes: (capacity_bytes - window_bytes.min(capacity_bytes)) * 4 / 5,
            counted: 0,
            sample: None,
            halvings: 0,
        }
    }

    fn frequency(&self, object: PageId) -> u8 {
        let Object { count, halvings, .. } = self.objects.get(object);
        count.checked_shr(self.halvings - halvings).unwrap_or(0)
    }

    fn count(&mut self, object: PageId) {
        let count = (self.frequency(object) + 1).min(MOST);
        self.objects.cover(object);
        let of = &mut self.objects[object];
        (of.count, of.halvings) = (count, self.halvings);
        self.counted += 1;
        if self.sample.is_some_and(|sample| self.counted >= sample) {
            self.counted /= 2;
            self.halvings += 1;
        }
    }

    fn push(&mut self, list: usize, object: PageId) {
        self.lists.push(list, object, self.objects[object].bytes);
    }

    fn take(&mut self, object: PageId) -> Option<usize> {
        self.lists.take(object, self.objects.get(object).bytes)
    }

    /// Moves the oldest objects of a list that has too many bytes to the probation segment.
    fn trim(&mut self, list: usize, most_bytes: u64) {
        while self.lists.bytes(list) > most_bytes
            && let Some(oldest) = self.lists.front(list)
        {
            self.take(oldest);
            self.push(PROBATION, oldest);
        }
    }
}

impl SizedPolicy for SizedWTinyLfu {
    fn hit(&mut self, object: PageId) {
        self.count(object);
        if self.take(object) == Some(WINDOW) {
            self.push(WINDOW, object);
        } else {
            self.push(PROTECTED, object);
            self.trim(PROTECTED, self.protected_bytes);
        }
    }

    fn miss(&mut self, object: PageId, _: u64) {
        self.count(object);
    }

    fn evict_for(&mut self, incoming: PageId, bytes: u64) -> Option<PageId> {
        if self.sample.is_none() {
            let objects: usize = [WINDOW, PROBATION, PROTECTED].map(|list| self.lists.len(list)).iter().sum();
            self.sample = Some(SAMPLE * objects as u64);
        }
        let of_window = self.lists.front(WINDOW);
        let of_main = self.lists.front(PROBATION).or_else(|| self.lists.front(PROTECTED));
        let is_own_candidate = bytes > self.window_bytes;
        let candidate = if is_own_candidate { Some(incoming) } else { of_window };
        let victim = match (candidate, of_main) {
            (Some(candidate), Some(main)) if self.frequency(candidate) > self.frequency(main) => main,
            (Some(_), Some(_)) if is_own_candidate => return None,
            (_, main) => of_window.or(main)?,
        };
        self.take(victim);
        Some(victim)
    }

    fn admit(&mut self, object: PageId, bytes: u64) {
        self.objects.cover(object);
        self.objects[object].bytes = bytes;
        self.push(WINDOW, object);
        self.trim(WINDOW, self.window_bytes);
    }

    fn remove(&mut self, object: PageId) {
        if self.take(object).is_some() || self.objects.get(object).count > 0 {
            self.objects[object].count = 0;
        }
    }
}
