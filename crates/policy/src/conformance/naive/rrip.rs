//! RRIP, re-reference interval prediction, with hit priority.
//!
//! Decisions: one draw for every bimodal insertion and no other; in DRRIP a fault moves the
//! selector before the page is placed.

use super::{Given, Step};
use crate::SplitMix64;

/// Which insertion rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RripVariant {
    /// Static: always max - 1.
    Srrip,
    /// Bimodal: max, but max - 1 once in 32.
    Brrip,
    /// A duel between the two.
    Drrip,
}

/// RRIP with `frames` frames and predictions from 0 to `max`.
pub fn rrip(references: &[u32], frames: usize, variant: RripVariant, max: u32, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut random = SplitMix64::new(seed);
    let mut memory: Vec<(u32, u32)> = Vec::new(); // page and prediction
    let mut psel = 512;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(frame) = memory.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = 0;
            steps.push(Step::hit());
            continue;
        }
        if page % 64 == 0 {
            psel = 1023.min(psel + 1);
        } else if page % 64 == 1 {
            psel = 0.max(psel - 1);
        }
        let mut chosen = None;
        if memory.len() == frames {
            while memory.iter().all(|frame| frame.1 < max) {
                memory.iter_mut().for_each(|frame| frame.1 += 1);
            }
            chosen = memory.iter().position(|frame| frame.1 == max);
        }
        let bimodal = match (variant, page % 64) {
            (RripVariant::Srrip, _) | (RripVariant::Drrip, 0) => false,
            (RripVariant::Brrip, _) | (RripVariant::Drrip, 1) => true,
            (RripVariant::Drrip, _) => psel >= 512,
        };
        let near = !bimodal || random.below(32) == 0;
        let new = (page, if near { max - 1 } else { max });
        match chosen {
            Some(frame) => {
                steps.push(Step::fault(Some(memory[frame].0)));
                memory[frame] = new;
            }
            None => {
                steps.push(Step::fault(None));
                memory.push(new);
            }
        }
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let variant = match given.arguments.value("variant") {
        "srrip" => RripVariant::Srrip,
        "brrip" => RripVariant::Brrip,
        _ => RripVariant::Drrip,
    };
    rrip(references, frames, variant, (1 << given.whole("bits")) - 1, given.whole("seed"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{RripVariant, rrip};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = |variant| outcomes_on_examples(|refs, frames| rrip(refs, frames, variant, 3, 1));
        assert_eq!(row(RripVariant::Srrip), "10:1234534 | 15:12345123451 | 10:345678");
        assert_eq!(row(RripVariant::Brrip), "9:141514 | 9:15151 | 9:35678");
    }
}
