//! An ordered set of integers that finds its smallest and largest elements quickly.

use alloc::vec::Vec;

/// A set of `u32` keys as a tree of 64-bit words: bit b of word w of a level says that word 64 w +
/// b of the level below is not empty. Insert, remove, minimum and maximum touch one word a level (5
/// levels for 10^9 keys).
///
/// One bit a key of the range, plus 1/63.
#[derive(Clone, Debug, Default)]
pub struct BitTree {
    /// Level 0 holds the keys; the last level is a single word.
    levels: Vec<Vec<u64>>,
}

impl BitTree {
    /// An empty set.
    pub const fn new() -> Self {
        Self { levels: Vec::new() }
    }

    /// Adds a key.
    #[inline]
    pub fn insert(&mut self, key: u32) {
        let mut index = key as usize;
        if index / 64 >= self.levels.first().map_or(0, Vec::len) {
            self.grow(index);
        }
        for level in &mut self.levels {
            let word = &mut level[index / 64];
            let was_empty = *word == 0;
            *word |= 1 << (index % 64);
            if !was_empty {
                break;
            }
            index /= 64;
        }
    }

    /// Removes a key that may or may not be in the set.
    #[inline]
    pub fn remove(&mut self, key: u32) {
        let mut index = key as usize;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(index / 64) else { return };
            *word &= !(1 << (index % 64));
            if *word != 0 {
                return;
            }
            index /= 64;
        }
    }

    /// The largest key.
    #[inline]
    pub fn max(&self) -> Option<u32> {
        self.descend(|word| 63 - word.leading_zeros())
    }

    /// The smallest key.
    #[inline]
    pub fn min(&self) -> Option<u32> {
        self.descend(u64::trailing_zeros)
    }

    #[inline]
    fn descend(&self, pick: impl Fn(u64) -> u32) -> Option<u32> {
        let mut index = 0;
        for level in self.levels.iter().rev() {
            let word = level[index];
            if word == 0 {
                return None;
            }
            index = index * 64 + pick(word) as usize;
        }
        (!self.levels.is_empty()).then_some(index as u32)
    }

    /// Makes room for key `index`: whole words at every level, doubling, and levels up to a single
    /// word.
    #[cold]
    fn grow(&mut self, index: usize) {
        let mut words = (index / 64 + 1).next_power_of_two();
        for depth in 0.. {
            match self.levels.get_mut(depth) {
                Some(level) => level.resize(words.max(level.len()), 0),
                None => {
                    let mut level = alloc::vec![0; words];
                    // A new top level must know which words of the level below are in use.
                    if let Some(below) = depth.checked_sub(1).map(|below| &self.levels[below]) {
                        for (word, _) in below.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                            level[word / 64] |= 1 << (word % 64);
                        }
                    }
                    self.levels.push(level);
                }
            }
            if words == 1 {
                break;
            }
            words = words.div_ceil(64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BitTree;
    use crate::SplitMix64;
    use std::collections::BTreeSet;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_btree_set_while_growing() {
        let mut random = SplitMix64::new(7);
        for range in [10, 64, 65, 4096, 5000, 300_000] {
            let (mut tree, mut model) = (BitTree::new(), BTreeSet::new());
            for step in 1..=4000 {
                let _input = trying(|| format!("keys below {range}, step {step}"));
                // Keys come from a range that widens, so that levels are added while the set is in
                // use.
                let key = random.below(1 + range * step / 4000) as u32;
                if random.below(2) == 0 {
                    tree.insert(key);
                    model.insert(key);
                } else {
                    tree.remove(key);
                    model.remove(&key);
                }
                assert_eq!(tree.max(), model.last().copied());
                assert_eq!(tree.min(), model.first().copied());
            }
        }
    }
}
