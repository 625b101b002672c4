//! W-TinyLFU: an LRU window, an admission filter by frequency, and a segmented LRU behind it.
//!
//! Decisions: exact counts, saturating at 15; all are halved, rounding down, right after the
//! reference that completes a sample, and so is the number of references counted. The page faulted
//! on enters the window before the overflow of the window is judged.

use super::{Given, Step};
use crate::arguments::Rounding;

/// The parameters of W-TinyLFU.
#[derive(Clone, Copy, Debug)]
pub struct WTinyLfuOptions {
    /// Pages in the window, at least 1.
    pub window: usize,
    /// Pages in the protected segment.
    pub protected: usize,
    /// References counted when all is halved.
    pub sample: u64,
}

/// W-TinyLFU with `frames` frames.
pub fn w_tinylfu(references: &[u32], frames: usize, options: &WTinyLfuOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut window: Vec<u32> = Vec::new(); // all three: least recent first
    let mut probation: Vec<u32> = Vec::new();
    let mut protected: Vec<u32> = Vec::new();
    let mut counts: Vec<(u32, u32)> = Vec::new();
    let mut counted = 0;
    let mut steps = Vec::new();
    for &page in references {
        match counts.iter_mut().find(|count| count.0 == page) {
            Some(count) => count.1 = (count.1 + 1).min(15),
            None => counts.push((page, 1)),
        }
        counted += 1;
        if counted == options.sample {
            counted /= 2;
            counts.iter_mut().for_each(|count| count.1 /= 2);
        }
        let count = |page| counts.iter().find(|count| count.0 == page).map_or(0, |count| count.1);
        if window.contains(&page) {
            window.retain(|&other| other != page);
            window.push(page);
            steps.push(Step::hit());
        } else if probation.contains(&page) || protected.contains(&page) {
            probation.retain(|&other| other != page);
            protected.retain(|&other| other != page);
            protected.push(page);
            if protected.len() > options.protected {
                probation.push(protected.remove(0));
            }
            steps.push(Step::hit());
        } else {
            window.push(page);
            let mut victim = None;
            if window.len() > options.window {
                let candidate = window.remove(0);
                if probation.len() + protected.len() < frames - options.window {
                    probation.push(candidate);
                } else if probation.len() + protected.len() == 0 {
                    victim = Some(candidate);
                } else {
                    let segment = if probation.is_empty() { &mut protected } else { &mut probation };
                    if count(candidate) > count(segment[0]) {
                        victim = Some(segment.remove(0));
                        probation.push(candidate);
                    } else {
                        victim = Some(candidate);
                    }
                }
            }
            steps.push(Step::fault(victim));
        }
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let window = given.pages("window", Rounding::Down).clamp(1, frames);
    let protected = given.arguments.pages("protected", frames - window, Rounding::Down);
    let options = WTinyLfuOptions {
        window,
        protected: protected.expect("checked by the spec").min(frames - window),
        sample: ((given.factor("sample") * frames as f64) as u64).max(1),
    };
    w_tinylfu(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{WTinyLfuOptions, w_tinylfu};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            let window = (frames / 100).max(1);
            let options =
                WTinyLfuOptions { window, protected: (frames - window) * 4 / 5, sample: 10 * frames as u64 };
            w_tinylfu(refs, frames, &options)
        });
        assert_eq!(row, "8:34534 | 9:45454 | 9:45678");
    }
}
