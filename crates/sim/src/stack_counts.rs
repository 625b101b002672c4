//! What stack distances tell of every memory size.

use crate::Outcome;

/// The stack distances of a reference string, counted so that the faults of every memory size can
/// be told. With M frames a reference at distance d faults if M < d.
#[derive(Debug, Default)]
pub(crate) struct StackCounts {
    /// References so far.
    pub(crate) records: u64,
    /// How many references came at each finite distance.
    distances: Vec<u64>,
    /// References to pages not on the stack.
    first_touch_faults: u64,
    /// By memory size: how many more faults find a free frame than at the size below, modulo 2^64.
    warmup_change: Vec<u64>,
}

impl StackCounts {
    /// A reference at a distance, or (`None`) to a page that is not on the stack. Memories from
    /// `nearest_free` frames on have a free one.
    #[inline]
    pub(crate) fn count(&mut self, distance: Option<usize>, nearest_free: usize) {
        match distance {
            None => {
                self.first_touch_faults += 1;
                count(&mut self.warmup_change, nearest_free, 1);
            }
            Some(distance) => {
                count(&mut self.distances, distance, 1);
                if nearest_free < distance {
                    count(&mut self.warmup_change, nearest_free, 1);
                    count(&mut self.warmup_change, distance, u64::MAX);
                }
            }
        }
    }

    /// The counts at some memory sizes, in pages, in their order.
    pub(crate) fn outcomes(&self, frames: &[usize]) -> Vec<Outcome> {
        // By memory size: references deeper than it, and faults that found a free frame.
        let deeper: u64 = self.distances.iter().sum();
        let hits = running_sums(&self.distances);
        let warmups = running_sums(&self.warmup_change);
        let at = |sums: &[u64], frames: usize| sums.get(frames).or(sums.last()).copied().unwrap_or_default();
        let outcome = |&frames: &usize| {
            let faults = self.first_touch_faults + deeper - at(&hits, frames);
            let warmup_faults = at(&warmups, frames);
            Outcome {
                records: self.records,
                faults,
                first_touch_faults: self.first_touch_faults,
                warmup_faults,
                evictions: faults - warmup_faults,
                ..Outcome::default()
            }
        };
        frames.iter().map(outcome).collect()
    }

    /// How many references came at each finite distance (the index), and how many at an infinite
    /// one.
    pub(crate) fn distances(&self) -> (&[u64], u64) {
        (&self.distances, self.first_touch_faults)
    }
}

fn running_sums(changes: &[u64]) -> Vec<u64> {
    let add = |sum: &mut u64, change: &u64| {
        *sum = sum.wrapping_add(*change);
        Some(*sum)
    };
    changes.iter().scan(0, add).collect()
}

/// `counts[index] += change` in a table that grows; `change` may be -1 modulo 2^64.
#[inline]
fn count(counts: &mut Vec<u64>, index: usize, change: u64) {
    if index >= counts.len() {
        counts.resize(index + 1, 0);
    }
    counts[index] = counts[index].wrapping_add(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page comes back at distance 3, and memories of 2 pages and more have a frame that is free
    /// since something was unmapped: that of 2 pages fills it, and that of 3 has no fault.
    #[test]
    fn a_fault_may_find_a_frame_that_has_become_free() {
        let mut counts = StackCounts::default();
        counts.count(None, 1);
        counts.count(None, 2);
        counts.count(Some(3), 2);
        let faults = |outcome: &Outcome| (outcome.faults, outcome.warmup_faults, outcome.evictions);
        let outcomes = counts.outcomes(&[1, 2, 3]);
        assert_eq!(outcomes.iter().map(faults).collect::<Vec<_>>(), [(3, 1, 2), (3, 3, 0), (2, 2, 0)]);
    }
}
