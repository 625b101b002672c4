//! ACME: four virtual caches vote on every resident page.
//!
//! Decisions: the vote takes place before the caches see the reference; LFU breaks ties by LRU and
//! forgets what it evicts.

use super::Step;

#[derive(Clone, Copy)]
enum Expert {
    Lru,
    Lfu,
    Fifo,
    Mru,
}

struct Entry {
    page: u32,
    last: usize,
    loaded: usize,
    count: usize,
}

struct VirtualCache {
    expert: Expert,
    entries: Vec<Entry>, // the next victim first
}

impl VirtualCache {
    fn sort(&mut self) {
        match self.expert {
            Expert::Lru => self.entries.sort_by_key(|entry| entry.last),
            Expert::Lfu => self.entries.sort_by_key(|entry| (entry.count, entry.last)),
            Expert::Fifo => self.entries.sort_by_key(|entry| entry.loaded),
            Expert::Mru => self.entries.sort_by_key(|entry| std::cmp::Reverse(entry.last)),
        }
    }

    /// Takes a reference and says whether it hit.
    fn reference(&mut self, page: u32, time: usize, frames: usize) -> bool {
        let found = self.entries.iter_mut().find(|entry| entry.page == page);
        let hit = found.is_some();
        if let Some(entry) = found {
            entry.last = time;
            entry.count += 1;
        } else {
            if self.entries.len() == frames {
                self.entries.remove(0);
            }
            self.entries.push(Entry { page, last: time, loaded: time, count: 1 });
        }
        self.sort();
        hit
    }

    fn vote(&self, page: u32) -> f64 {
        match self.entries.iter().position(|entry| entry.page == page) {
            Some(rank) => 1.0 - rank as f64 / self.entries.len() as f64,
            None => 1.0,
        }
    }
}

/// ACME with `frames` frames: a miss leaves `beta` of a weight, and a share `alpha` is dealt out
/// evenly.
pub fn acme(references: &[u32], frames: usize, beta: f64, alpha: f64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut caches = [Expert::Lru, Expert::Lfu, Expert::Fifo, Expert::Mru]
        .map(|expert| VirtualCache { expert, entries: Vec::new() });
    let mut weights = [0.25; 4];
    let mut resident: Vec<u32> = Vec::new(); // least recently used first
    let mut steps = Vec::new();
    for (time, &page) in references.iter().enumerate() {
        if resident.contains(&page) {
            steps.push(Step::hit());
        } else {
            let mut victim = None;
            if resident.len() == frames {
                let score = |page: u32| {
                    caches
                        .iter()
                        .zip(weights)
                        .fold(0.0, |sum, (cache, weight)| sum + weight * cache.vote(page))
                };
                let mut best = resident[0];
                for &candidate in &resident {
                    if score(candidate) > score(best) {
                        best = candidate;
                    }
                }
                victim = Some(best);
            }
            resident.retain(|other| Some(*other) != victim);
            steps.push(Step::fault(victim));
        }
        resident.retain(|other| *other != page);
        resident.push(page);
        for (cache, weight) in caches.iter_mut().zip(&mut weights) {
            if !cache.reference(page, time, frames) {
                *weight *= beta;
            }
        }
        let sum: f64 = weights.iter().sum();
        weights = weights.map(|weight| (1.0 - alpha) * (weight / sum) + alpha / 4.0);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::acme;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| acme(refs, frames, 0.9, 0.02));
        assert_eq!(row, "10:1234152 | 15:12345123452 | 10:345678");
    }
}
