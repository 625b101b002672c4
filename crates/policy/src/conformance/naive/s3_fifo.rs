//! S3-FIFO: a small queue, the main queue and a ghost queue, all FIFO, and a count of hits up to 3.
//!
//! Decision: whether the page faulted on is a ghost is asked after the eviction.

use super::{Given, Step};
use crate::arguments::Rounding;

/// S3-FIFO with `frames` frames: `small` is the target length of the small queue, and a page with
/// more than `threshold` hits goes on to the main queue.
pub fn s3_fifo(references: &[u32], frames: usize, small: usize, threshold: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut s: Vec<(u32, u64)> = Vec::new(); // page and hits, oldest first
    let mut m: Vec<(u32, u64)> = Vec::new();
    let mut ghosts: Vec<u32> = Vec::new();
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = s.iter_mut().chain(&mut m).find(|entry| entry.0 == page) {
            entry.1 = (entry.1 + 1).min(3);
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        while s.len() + m.len() == frames {
            if s.len() >= small || m.is_empty() {
                let (oldest, hits) = s.remove(0);
                if hits > threshold {
                    m.push((oldest, 0));
                } else {
                    ghosts.push(oldest);
                    victim = Some(oldest);
                }
            } else {
                let (oldest, hits) = m.remove(0);
                if hits > 0 {
                    m.push((oldest, hits - 1));
                } else {
                    victim = Some(oldest);
                }
            }
        }
        while ghosts.len() > frames.saturating_sub(small).max(1) {
            ghosts.remove(0);
        }
        if ghosts.contains(&page) {
            ghosts.retain(|&ghost| ghost != page);
            m.push((page, 0));
        } else {
            s.push((page, 0));
        }
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let small = given.pages("small", Rounding::Down).max(1);
    s3_fifo(references, frames, small, given.whole("threshold"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::s3_fifo;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| s3_fifo(refs, frames, (frames / 10).max(1), 1));
        assert_eq!(row, "10:1234534 | 12:12345121 | 11:2345678");
    }
}
