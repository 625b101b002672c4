//! GDSF (Greedy-Dual Size Frequency): the object that earns the fewest hits for its bytes goes.
//!
//! Paper: L. Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
//! policy", HP Laboratories technical report HPL-98-69R1, 1998. Each miss costs the same here.
//!
//! An object's priority is `L + uses / bytes`, set anew at each hit. The one with the lowest goes,
//! and `L` becomes its priority. So what is not used any more grows old beside what comes in. A new
//! object competes as well: if its priority is the lowest, it does not come in.
//!
//! Choices where the paper is silent: of equal priorities the one set first goes. Uses are counted
//! from when an object comes in; they are forgotten when it goes. Objects with lower priorities
//! than a new one go even if it then does not come in (libCacheSim does the same).
//!
//! Cost: hit and miss O(log n). 40 bytes an object in the cache, and tree nodes.

use super::SizedPolicy;
use std::collections::BTreeSet;
use sweephand_policy::PageId;
use sweephand_policy::collections::PageMap;

/// What orders objects: priority, when it was set, object. A priority is never negative, so its
/// bits are in the order of the number.
type Key = (u64, u64, PageId);

#[derive(Clone, Copy, Debug, Default)]
struct Object {
    bytes: u64,
    uses: u64,
    priority: f64,
    set_at: u64,
}

impl Object {
    fn key(&self, object: PageId) -> Key {
        (self.priority.to_bits(), self.set_at, object)
    }
}

/// Greedy-Dual Size Frequency.
#[derive(Debug, Default)]
pub struct Gdsf {
    order: BTreeSet<Key>,
    objects: PageMap<Object>,
    /// The priority of the object that went last: L.
    inflation: f64,
    /// Priorities set so far.
    time: u64,
}

impl SizedPolicy for Gdsf {
    fn hit(&mut self, object: PageId) {
        self.time += 1;
        let of = &mut self.objects[object];
        self.order.remove(&of.key(object));
        of.uses += 1;
        of.priority = self.inflation + of.uses as f64 / of.bytes as f64;
        of.set_at = self.time;
        self.order.insert(of.key(object));
    }

    fn miss(&mut self, object: PageId, bytes: u64) {
        self.time += 1;
        let priority = self.inflation + 1.0 / bytes as f64;
        self.objects.set(object, Object { bytes, uses: 1, priority, set_at: self.time });
    }

    fn evict_for(&mut self, incoming: PageId, _: u64) -> Option<PageId> {
        let own = self.objects[incoming].key(incoming);
        let lowest = self.order.first().copied().filter(|first| *first < own);
        self.inflation = f64::from_bits(lowest.unwrap_or(own).0);
        let (_, _, victim) = lowest?;
        self.order.pop_first();
        Some(victim)
    }

    fn admit(&mut self, object: PageId, _: u64) {
        self.order.insert(self.objects[object].key(object));
    }

    fn remove(&mut self, object: PageId) {
        self.order.remove(&self.objects.get(object).key(object));
    }
}
