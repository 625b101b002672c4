//! The addresses under management: a set of ranges that do not touch.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A set of addresses, kept as ranges by start.
#[derive(Debug, Default)]
pub struct Regions {
    ends: BTreeMap<usize, usize>,
}

impl Regions {
    /// An empty set.
    pub const fn new() -> Self {
        Self { ends: BTreeMap::new() }
    }

    /// Takes a range in.
    pub fn add(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let (mut low, mut high) = (start, end);
        // Ranges that overlap or touch become one.
        while let Some((&other, &other_end)) = self.ends.range(..=high).next_back() {
            if other_end < low {
                break;
            }
            low = low.min(other);
            high = high.max(other_end);
            self.ends.remove(&other);
        }
        self.ends.insert(low, high);
    }

    /// Takes a range out.
    pub fn remove(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) = self.ends.range(..end).next_back() {
            if other_end <= start {
                break;
            }
            self.ends.remove(&other);
            if other < start {
                self.ends.insert(other, start);
            }
            if other_end > end {
                self.ends.insert(end, other_end);
            }
        }
    }

    /// The end of the range that an address is in.
    pub fn end_of(&self, address: usize) -> Option<usize> {
        let (_, &end) = self.ends.range(..=address).next_back()?;
        (address < end).then_some(end)
    }

    /// The parts of a range that are not in the set.
    pub fn gaps(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut gaps = Vec::new();
        let mut from = self.end_of(start).unwrap_or(start);
        for (&other, &other_end) in self.ends.range(start..end) {
            if from < other {
                gaps.push((from, other));
            }
            from = from.max(other_end);
        }
        if from < end {
            gaps.push((from, end));
        }
        gaps
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a set of single addresses.
    #[test]
    fn regions_agree_with_a_set_of_addresses() {
        use sweephand_policy::SplitMix64;
        for seed in 0..if cfg!(miri) { 2 } else { 50 } {
            let mut random = SplitMix64::new(seed);
            let (mut regions, mut naive) = (Regions::new(), [false; 64]);
            for _ in 0..40 {
                let (a, b) = (random.next_u64() as usize % 65, random.next_u64() as usize % 65);
                let (start, end) = (a.min(b), a.max(b));
                let put = random.next_u64().is_multiple_of(2);
                if put {
                    regions.add(start, end)
                } else {
                    regions.remove(start, end)
                }
                naive[start..end].fill(put);
                let listed: Vec<bool> =
                    (0..64).map(|address| regions.iter().any(|(s, e)| (s..e).contains(&address))).collect();
                assert_eq!(listed, naive, "seed {seed}");
                let mut gaps = [true; 64];
                regions.gaps(0, 64).iter().for_each(|&(s, e)| gaps[s..e].fill(false));
                assert_eq!(gaps, naive, "seed {seed}");
                for (address, inside) in naive.iter().enumerate() {
                    assert_eq!(regions.end_of(address).is_some(), *inside, "seed {seed}");
                }
                // No two ranges touch.
                let ranges: Vec<_> = regions.iter().collect();
                assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "seed {seed}");
            }
        }
    }
}
