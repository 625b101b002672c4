//! Lower bounds on what any policy misses.
//!
//! What an optimal policy would miss is hard to compute where sizes differ. Lower bounds are easy:
//! an object kept from one request to the next takes its bytes for as many requests, and a cache of
//! C bytes over N requests has C x N of that. The bound takes the cheapest intervals until that is
//! used up: for each hit, and for each byte of a hit. No policy can have more.
//!
//! Paper: D. S. Berger, N. Beckmann, M. Harchol-Balter, "Practical bounds on optimal caching with
//! variable object sizes", SIGMETRICS 2018: PFOO-L.

use crate::outcome::SizedOutcome;
use crate::requests::Step;

/// Finds the lower bounds.
#[derive(Default)]
pub(crate) struct Bound {
    /// Requests so far, and their bytes.
    requests: u64,
    bytes: u64,
    /// The same before counting began.
    before: (u64, u64),
    /// When each object was last requested, counted from 1, and its size; 0 if it is not there.
    last: Vec<(u64, u64)>,
    /// The last moment at which each object can live that was loaded by one of its requests so far.
    ends_ms: Vec<i64>,
    /// Requests from one request for an object to the next, as far as they are counted, and its
    /// bytes.
    intervals: Vec<(u64, u64)>,
}

impl Bound {
    /// Only hits from here on count, and the requests that an object waited for one from here on.
    pub(crate) fn begin_counting(&mut self) {
        self.before = (self.requests, self.bytes);
        self.intervals.clear();
    }

    pub(crate) fn step(&mut self, step: &Step) {
        let &Step { object, bytes, now_ms, .. } = step;
        if self.last.len() <= object.index() {
            self.last.resize(object.index() + 1, (0, 0));
            self.ends_ms.resize(object.index() + 1, i64::MIN);
        }
        let (last, end_ms) = (&mut self.last[object.index()], &mut self.ends_ms[object.index()]);
        if !step.is_request() {
            (*last, *end_ms) = ((0, 0), i64::MIN);
            return;
        }
        self.requests += 1;
        self.bytes += bytes;
        if last.1 != bytes {
            *end_ms = i64::MIN;
        } else if last.0 > 0 && *end_ms >= now_ms {
            self.intervals.push((self.requests - last.0.max(self.before.0), bytes));
        }
        *last = (self.requests, bytes);
        *end_ms = step.end_ms().max(*end_ms);
    }

    pub(crate) fn outcomes(mut self, capacities: &[u64]) -> Vec<SizedOutcome> {
        let volume = |&(length, bytes): &(u64, u64)| u128::from(length) * u128::from(bytes);
        let (requests, bytes) = (self.requests - self.before.0, self.bytes - self.before.1);
        let budget = |capacity: u64| u128::from(capacity) * u128::from(requests);
        // The cheapest hit first, for hits; the cheapest byte first, for bytes.
        self.intervals.sort_unstable_by_key(volume);
        let most_hits = |&capacity: &u64| {
            let mut left = budget(capacity);
            let fitting = self.intervals.iter().filter(|(_, bytes)| *bytes <= capacity);
            let taken = fitting.map_while(|interval| {
                left = left.checked_sub(volume(interval))?;
                Some(())
            });
            taken.count() as u64
        };
        let hits: Vec<u64> = capacities.iter().map(most_hits).collect();
        self.intervals.sort_unstable_by_key(|(length, _)| *length);
        let most_bytes = |&capacity: &u64| {
            let mut left = budget(capacity);
            let mut hit_bytes = 0;
            for interval in self.intervals.iter().filter(|(_, bytes)| *bytes <= capacity) {
                // The last one may fit in part. A bound may count that part.
                let part = volume(interval).min(left);
                hit_bytes += part.div_ceil(u128::from(interval.0)) as u64;
                left -= part;
            }
            hit_bytes
        };
        let hit_bytes: Vec<u64> = capacities.iter().map(most_bytes).collect();
        let outcome = |(hits, hit_bytes): (&u64, &u64)| SizedOutcome {
            requests,
            requested_bytes: bytes,
            misses: requests - hits,
            missed_bytes: bytes - hit_bytes,
            ..SizedOutcome::default()
        };
        hits.iter().zip(&hit_bytes).map(outcome).collect()
    }
}
