//! RANDOM: evict the page of a frame drawn by lot, one draw a replacement.

use super::Step;
use crate::SplitMix64;

/// RANDOM with `frames` frames.
pub fn random(references: &[u32], frames: usize, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut random = SplitMix64::new(seed);
    let mut memory: Vec<u32> = Vec::new();
    let mut steps = Vec::new();
    for &page in references {
        if memory.contains(&page) {
            steps.push(Step::hit());
        } else if memory.len() < frames {
            memory.push(page);
            steps.push(Step::fault(None));
        } else {
            let frame = random.below(frames as u64) as usize;
            steps.push(Step::fault(Some(memory[frame])));
            memory[frame] = page;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::random;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| random(refs, frames, 1));
        assert_eq!(row, "10:2324254 | 8:3542 | 11:3542872");
    }
}
