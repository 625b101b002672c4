//! What is in a cache of objects.

use crate::policies::SizedPolicy;
use sweephand_policy::PageId;
use sweephand_policy::collections::PageMap;

/// What came of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The object was in the cache.
    Hit,
    /// It was not, and came in.
    Admitted,
    /// It was not, and passed the cache by: it is larger than the cache, or the policy refused it.
    Passed,
}

/// A cache with a capacity in bytes, under a policy.
pub struct SizedCache {
    policy: Box<dyn SizedPolicy + Send>,
    capacity_bytes: u64,
    /// Bytes of the objects in the cache.
    used_bytes: u64,
    /// Size of each object in the cache, plus one; 0 for others.
    sizes: PageMap<u64>,
    evictions: u64,
}

impl SizedCache {
    /// An empty cache. The policy was made for the same number of bytes.
    pub fn new(policy: Box<dyn SizedPolicy + Send>, capacity_bytes: u64) -> Self {
        Self { policy, capacity_bytes, used_bytes: 0, sizes: PageMap::new(), evictions: 0 }
    }

    /// Asks for an object of at least one byte. If the object in the cache has another size, this
    /// one replaces it, and the request is a miss.
    pub fn request(&mut self, object: PageId, bytes: u64) -> Access {
        let known = self.sizes.get(object);
        if known == bytes + 1 {
            self.policy.hit(object);
            return Access::Hit;
        }
        if known > 0 {
            self.remove(object);
        }
        self.policy.miss(object, bytes);
        if bytes > self.capacity_bytes {
            return Access::Passed;
        }
        while self.used_bytes + bytes > self.capacity_bytes {
            let Some(victim) = self.policy.evict_for(object, bytes) else { return Access::Passed };
            self.take(victim);
            self.evictions += 1;
        }
        self.policy.admit(object, bytes);
        self.sizes.set(object, bytes + 1);
        self.used_bytes += bytes;
        Access::Admitted
    }

    /// Deletes an object, in the cache or not.
    pub fn remove(&mut self, object: PageId) {
        self.take(object);
        self.policy.remove(object);
    }

    fn take(&mut self, object: PageId) {
        let size = self.sizes.get(object);
        if size > 0 {
            self.sizes[object] = 0;
            self.used_bytes -= size - 1;
        }
    }

    /// Bytes of the objects in the cache.
    pub fn bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Objects that the policy has given up so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Whether an object is in the cache.
    pub fn contains(&self, object: PageId) -> bool {
        self.sizes.get(object) > 0
    }
}
