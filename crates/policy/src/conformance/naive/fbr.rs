//! FBR, frequency-based replacement: an LRU stack in three sections, and counts.
//!
//! Decision: while memory fills, the sections are taken from the top of the stack.

use super::{Given, Step};
use crate::arguments::Rounding;

/// The parameters of FBR.
#[derive(Clone, Copy, Debug)]
pub struct FbrOptions {
    /// Pages in the new section.
    pub new: usize,
    /// Pages in the old section.
    pub old: usize,
    /// Average count above which all counts are halved.
    pub max_average: u64,
}

/// FBR with `frames` frames.
pub fn fbr(references: &[u32], frames: usize, options: &FbrOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut stack: Vec<(u32, u64)> = Vec::new(); // page and count, top first
    let mut steps = Vec::new();
    for &page in references {
        if let Some(position) = stack.iter().position(|entry| entry.0 == page) {
            let (_, count) = stack.remove(position);
            let counts = position >= options.new;
            stack.insert(0, (page, count + u64::from(counts)));
            let sum: u64 = stack.iter().map(|entry| entry.1).sum();
            if counts && sum > options.max_average * stack.len() as u64 {
                stack.iter_mut().for_each(|entry| entry.1 = entry.1.div_ceil(2));
            }
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        if stack.len() == frames {
            let old = frames - options.old..frames;
            // Of equal counts the first one found is taken: the lowest in the stack.
            let least = old.rev().min_by_key(|&position| stack[position].1).expect("old has a page");
            victim = Some(stack.remove(least).0);
        }
        stack.insert(0, (page, 1));
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let new = given.pages("new", Rounding::Down).min(frames - 1);
    let old = given.pages("old", Rounding::Up).clamp(1, frames - new);
    let options = FbrOptions { new, old, max_average: given.whole("max-average") };
    fbr(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{FbrOptions, fbr};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            let old = (frames * 3).div_ceil(5).max(1);
            fbr(refs, frames, &FbrOptions { new: frames / 4, old, max_average: 100 })
        });
        assert_eq!(row, "10:1234513 | 15:12345123451 | 10:345678");
    }
}
