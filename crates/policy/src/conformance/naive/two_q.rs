//! 2Q, full version: the FIFO queue A1in, its ghosts A1out, and the LRU list Am.
//!
//! Decision: a ghost that is referenced leaves A1out before a frame is reclaimed.

use super::{Given, Step};
use crate::arguments::Rounding;

/// 2Q with `frames` frames, A1in giving up pages above `kin` and A1out bounded by `kout`.
pub fn two_q(references: &[u32], frames: usize, kin: usize, kout: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut a1in: Vec<u32> = Vec::new(); // oldest first
    let mut a1out: Vec<u32> = Vec::new(); // oldest first
    let mut am: Vec<u32> = Vec::new(); // least recently referenced first
    let mut steps = Vec::new();
    for &page in references {
        if let Some(position) = am.iter().position(|&other| other == page) {
            am.remove(position);
            am.push(page);
            steps.push(Step::hit());
            continue;
        }
        if a1in.contains(&page) {
            steps.push(Step::hit());
            continue;
        }
        let was_ghost = a1out.contains(&page);
        a1out.retain(|&ghost| ghost != page);
        let mut victim = None;
        if a1in.len() + am.len() == frames {
            if a1in.len() > kin || am.is_empty() {
                let oldest = a1in.remove(0);
                a1out.push(oldest);
                if a1out.len() > kout {
                    a1out.remove(0);
                }
                victim = Some(oldest);
            } else {
                victim = Some(am.remove(0));
            }
        }
        if was_ghost {
            am.push(page);
        } else {
            a1in.push(page);
        }
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let pages = |name| given.pages(name, Rounding::Down).max(1);
    two_q(references, frames, pages("in"), pages("out"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{outcome, outcomes_on_examples};
    use super::two_q;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            two_q(refs, frames, (frames / 4).max(1), (frames / 2).max(1))
        });
        assert_eq!(row, "11:12314513 | 12:12341251 | 12:12345672");
    }

    #[test]
    fn takes_the_known_victims_on_a_longer_string() {
        let string = [1, 2, 3, 4, 5, 1, 6, 2, 1, 7, 3, 2];
        assert_eq!(outcome(&two_q(&string, 4, 1, 2)), "10:123456");
    }
}
