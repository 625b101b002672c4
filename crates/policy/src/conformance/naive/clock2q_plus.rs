//! Clock2Q+: a small FIFO queue, a clock and a ghost queue, with a window after loading in which
//! references do not count.
//!
//! Decisions: a page is in the window while fewer than `window` pages have entered the small queue
//! after it. Whether the page faulted on is a ghost is asked after the eviction.

use super::{Given, Step};
use crate::arguments::Rounding;

/// A page of the small queue.
#[derive(Clone, Copy, Debug)]
struct New {
    page: u32,
    /// How many pages had entered the small queue before it.
    number: usize,
    referenced: bool,
}

/// Clock2Q+ with `frames` frames: `small` is the target length of the small queue, `window` counts
/// pages of it, and at most `most_ghosts` are remembered.
pub fn clock2q_plus(
    references: &[u32],
    frames: usize,
    small: usize,
    window: usize,
    most_ghosts: usize,
) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut queue: Vec<New> = Vec::new(); // oldest first
    let mut clock: Vec<(u32, bool)> = Vec::new(); // from the hand on
    let mut ghosts: Vec<u32> = Vec::new();
    let mut entered = 0;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(new) = queue.iter_mut().find(|new| new.page == page) {
            new.referenced |= entered - 1 - new.number >= window;
            steps.push(Step::hit());
            continue;
        }
        if let Some(entry) = clock.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        while queue.len() + clock.len() == frames {
            if queue.len() >= small || clock.is_empty() {
                let oldest = queue.remove(0);
                if oldest.referenced {
                    clock.push((oldest.page, false));
                } else {
                    ghosts.push(oldest.page);
                    victim = Some(oldest.page);
                }
            } else {
                let (at_hand, referenced) = clock.remove(0);
                if referenced {
                    clock.push((at_hand, false));
                } else {
                    victim = Some(at_hand);
                }
            }
        }
        while ghosts.len() > most_ghosts {
            ghosts.remove(0);
        }
        if ghosts.contains(&page) {
            ghosts.retain(|&ghost| ghost != page);
            clock.push((page, false));
        } else {
            queue.push(New { page, number: entered, referenced: false });
            entered += 1;
        }
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let small = given.pages("small", Rounding::Down).max(1);
    let window = Given { arguments: given.arguments, frames: small }.pages("window", Rounding::Down);
    let ghosts = given.pages("ghosts", Rounding::Down).max(1);
    clock2q_plus(references, given.frames, small, window, ghosts)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::clock2q_plus;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| clock2q_plus(refs, frames, 2, 1, frames / 2));
        assert_eq!(row, "10:1234153 | 12:12341251 | 10:345678");
    }
}
