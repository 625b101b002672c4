//! LeCaR: two experts, LRU and LFU, drawn by weights that ghosts teach.
//!
//! Decisions: one draw for every replacement, also when the experts agree; a page found in a
//! history leaves it before the replacement and goes on with its count.

use super::{Given, Step};
use crate::SplitMix64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    count: u64,
    time: u64, // of the last reference, or of the eviction
}

/// LeCaR with `frames` frames; `discount` is the factor for one reference.
pub fn lecar(references: &[u32], frames: usize, rate: f64, discount: f64, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut random = SplitMix64::new(seed);
    let mut resident: Vec<Entry> = Vec::new();
    let mut histories: [Vec<Entry>; 2] = [Vec::new(), Vec::new()]; // of LRU and LFU, earliest first
    let mut weights = [0.5, 0.5];
    let mut steps = Vec::new();
    for (time, &page) in (1_u64..).zip(references) {
        if let Some(entry) = resident.iter_mut().find(|entry| entry.page == page) {
            entry.count += 1;
            entry.time = time;
            steps.push(Step::hit());
            continue;
        }
        let mut count = 0;
        for expert in [0, 1] {
            if let Some(position) = histories[expert].iter().position(|entry| entry.page == page) {
                let ghost = histories[expert].remove(position);
                let regret = discount.powf((time - ghost.time) as f64);
                weights[1 - expert] *= (rate * regret).exp();
                let sum = weights[0] + weights[1];
                weights = weights.map(|weight| weight / sum);
                count = ghost.count;
            }
        }
        let mut victim = None;
        if resident.len() == frames {
            let lru = (0..frames).min_by_key(|&position| resident[position].time);
            let lfu = (0..frames).min_by_key(|&at| (resident[at].count, resident[at].time));
            let expert = usize::from(random.unit() >= weights[0]);
            let chosen = resident.remove([lru, lfu][expert].expect("memory is full"));
            if lru != lfu {
                histories[expert].push(Entry { time, ..chosen });
                if histories[expert].len() > frames {
                    histories[expert].remove(0);
                }
            }
            victim = Some(chosen.page);
        }
        resident.push(Entry { page, count: count + 1, time });
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let discount = given.factor("discount").powf(1.0 / frames as f64);
    lecar(references, frames, given.factor("rate"), discount, given.whole("seed"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::lecar;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            lecar(refs, frames, 0.45, 0.005_f64.powf(1.0 / frames as f64), 1)
        });
        assert_eq!(row, "10:1234534 | 15:12345123451 | 10:345678");
    }
}
