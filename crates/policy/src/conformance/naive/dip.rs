//! LIP, BIP and DIP: LRU with other places for new pages.
//!
//! Decisions: one draw for every bimodal insertion and no other; the rule holds while memory fills;
//! in DIP a fault moves the selector before the page is placed.

use super::{Given, Step};
use crate::SplitMix64;

/// Which insertion rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DipVariant {
    /// A duel between LRU and bimodal insertion.
    Dip,
    /// Bimodal.
    Bip,
    /// Always at the LRU end.
    Lip,
}

/// DIP with `frames` frames; a bimodal insertion goes to the MRU end once in `one_in` times.
pub fn dip(references: &[u32], frames: usize, variant: DipVariant, one_in: u64, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut random = SplitMix64::new(seed);
    let mut stack: Vec<u32> = Vec::new(); // LRU end first
    let mut psel = 512;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(position) = stack.iter().position(|&other| other == page) {
            stack.remove(position);
            stack.push(page);
            steps.push(Step::hit());
            continue;
        }
        let victim = if stack.len() == frames { Some(stack.remove(0)) } else { None };
        if page % 64 == 0 {
            psel = 1023.min(psel + 1);
        } else if page % 64 == 1 {
            psel = 0.max(psel - 1);
        }
        let bimodal = match variant {
            DipVariant::Dip if page % 64 == 0 => false,
            DipVariant::Dip if page % 64 == 1 => true,
            DipVariant::Dip => psel >= 512,
            DipVariant::Bip | DipVariant::Lip => true,
        };
        let to_lru_end = bimodal && (variant == DipVariant::Lip || random.below(one_in) != 0);
        stack.insert(if to_lru_end { 0 } else { stack.len() }, page);
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let variant = match given.arguments.value("variant") {
        "dip" => DipVariant::Dip,
        "bip" => DipVariant::Bip,
        _ => DipVariant::Lip,
    };
    dip(references, frames, variant, given.whole("one-in"), given.whole("seed"))
}

#[cfg(test)]
mod tests {
    use super::super::lru;
    use super::super::tests::{for_random_strings, outcomes_on_examples};
    use super::{DipVariant, dip};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| dip(refs, frames, DipVariant::Bip, 32, 1));
        assert_eq!(row, "8:34534 | 9:45454 | 9:45678");
    }

    #[test]
    fn always_at_the_mru_end_it_is_lru() {
        for_random_strings(|refs, frames| {
            assert_eq!(dip(refs, frames, DipVariant::Bip, 1, 1), lru(refs, frames));
        });
    }
}
