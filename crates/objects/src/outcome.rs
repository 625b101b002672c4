//! What was counted in a cache of objects.

/// What came of a simulation, or what the bound says.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SizedOutcome {
    /// Requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Requests for objects that were not in the cache.
    pub misses: u64,
    /// Their bytes.
    pub missed_bytes: u64,
    /// Misses after which the object did not come in: it is larger than the cache, or the policy
    /// refused it. None for the bound.
    pub passed: Option<u64>,
    /// Objects given up. None for the bound.
    pub evictions: Option<u64>,
    /// Misses of objects that were in the cache, but had lived longer than they were to. None for
    /// the bound.
    pub expired: Option<u64>,
}

impl SizedOutcome {
    /// What was counted since a moment, given the counts at that moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |count: Option<u64>, before: Option<u64>| Some(count? - before.unwrap_or(0));
        Self {
            requests: self.requests - before.requests,
            requested_bytes: self.requested_bytes - before.requested_bytes,
            misses: self.misses - before.misses,
            missed_bytes: self.missed_bytes - before.missed_bytes,
            passed: less(self.passed, before.passed),
            evictions: less(self.evictions, before.evictions),
            expired: less(self.expired, before.expired),
        }
    }
}
