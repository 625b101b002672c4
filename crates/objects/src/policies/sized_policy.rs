//! What a policy for objects of different sizes is asked.

use sweephand_policy::PageId;

/// A replacement policy for objects of different sizes. Objects have dense ids, as pages have.
///
/// The driver knows which objects are in the cache, and how many bytes they take.
pub trait SizedPolicy {
    /// A request for an object that is in the cache.
    fn hit(&mut self, object: PageId);

    /// A request for an object of `bytes` bytes that is not in the cache. The driver makes room
    /// after this. An object larger than the cache gets no further.
    fn miss(&mut self, object: PageId, bytes: u64) {
        let _ = (object, bytes);
    }

    /// Gives up an object, because `incoming`, of `bytes` bytes, does not fit yet. `None` if the
    /// policy keeps `incoming` out. The cache is not empty.
    fn evict_for(&mut self, incoming: PageId, bytes: u64) -> Option<PageId>;

    /// Takes in an object of `bytes` bytes.
    fn admit(&mut self, object: PageId, bytes: u64);

    /// Forgets an object: it was deleted, or has been replaced by one of another size.
    fn remove(&mut self, object: PageId);
}
