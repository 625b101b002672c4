//! The active and the inactive list of Linux 2.4.
//!
//! Decision: when the inactive list is empty after the refill, the active tail becomes inactive
//! with its bit cleared.

use super::{Given, Step};
use crate::arguments::Rounding;

/// Linux 2.4 with `frames` frames and `target` of them meant for the active list.
pub fn linux24(references: &[u32], frames: usize, target: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut active: Vec<(u32, bool)> = Vec::new(); // tail first
    let mut inactive: Vec<(u32, bool)> = Vec::new(); // tail first
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = active.iter_mut().chain(&mut inactive).find(|entry| entry.0 == page) {
            entry.1 = true;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        while active.len() + inactive.len() == frames {
            while active.len() > target {
                let (tail, referenced) = active.remove(0);
                let list = if referenced { &mut active } else { &mut inactive };
                list.push((tail, false));
            }
            if inactive.is_empty() {
                let (tail, _) = active.remove(0);
                inactive.push((tail, false));
            }
            let (tail, referenced) = inactive.remove(0);
            if referenced {
                active.push((tail, false));
            } else {
                victim = Some(tail);
            }
        }
        inactive.push((page, false));
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let active = given.arguments.pages("active", frames, Rounding::Down).unwrap_or(2 * frames / 3);
    linux24(references, frames, active)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::linux24;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| linux24(refs, frames, 2 * frames / 3));
        assert_eq!(row, "10:1234534 | 15:12345123451 | 10:345678");
    }
}
