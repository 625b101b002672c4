//! What is counted below the resident pages.

/// What one pool and the disk behind it have done. Faults on pages that were evicted are either
/// `same_filled_faults`, `pool_faults` or `disk_faults`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierCounts {
    /// Faults on pages whose words are all equal: filled again.
    pub same_filled_faults: u64,
    /// Faults on pages in the pool.
    pub pool_faults: u64,
    /// Faults on pages on the disk: as many pages are read.
    pub disk_faults: u64,
    /// Evicted pages that were compressed, those among them that did not become smaller.
    pub compressions: u64,
    /// Pages decompressed, for faults and for write-backs.
    pub decompressions: u64,
    /// Pages written from the pool to the disk to make room.
    pub write_backs: u64,
    /// Evicted pages that went to the disk because they did not become smaller.
    pub rejected: u64,
    /// Evicted pages that went to the disk because the pool had no room.
    pub turned_away: u64,
    /// The most memory that the pool took, in pages.
    pub peak_pool_pages: u64,
    /// The most pages that were in the pool, before they were compressed, and the most same-filled
    /// ones that were evicted. A device for swap with as many pages has room for all of them.
    pub peak_stored_pages: u64,
}

impl TierCounts {
    /// Pages written to the disk.
    pub fn disk_writes(&self) -> u64 {
        self.write_backs + self.rejected + self.turned_away
    }
}
