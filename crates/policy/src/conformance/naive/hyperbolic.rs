//! Hyperbolic caching: references divided by time in memory, the lowest of some pages drawn.
//!
//! Decisions: a page that leaves is replaced, in the row that is drawn from, by the last page of
//! it, and the new page goes to the end. No number is drawn while all pages are looked at.

use super::{Given, Step};
use crate::SplitMix64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    references: u64,
    since: u64,
}

/// Hyperbolic caching with `frames` frames that looks at `sample` pages for an eviction.
pub fn hyperbolic(references: &[u32], frames: usize, sample: u64, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut random = SplitMix64::new(seed);
    let mut row: Vec<Entry> = Vec::new();
    let mut steps = Vec::new();
    for (now, &page) in (1_u64..).zip(references) {
        if let Some(entry) = row.iter_mut().find(|entry| entry.page == page) {
            entry.references += 1;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        if row.len() == frames {
            let all = frames as u64 <= sample;
            let places: Vec<usize> = if all {
                (0..frames).collect()
            } else {
                (0..sample).map(|_| random.below(frames as u64) as usize).collect()
            };
            let priority = |place: usize| {
                let entry = row[place];
                entry.references as f64 / (now - entry.since) as f64
            };
            let lowest = places.into_iter().min_by(|&one, &other| {
                let by_priority = priority(one).total_cmp(&priority(other));
                by_priority.then(row[one].since.cmp(&row[other].since))
            });
            victim = Some(row.swap_remove(lowest.expect("some page is looked at")).page);
        }
        row.push(Entry { page, references: 1, since: now });
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    hyperbolic(references, given.frames, given.whole("sample"), given.whole("seed"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::hyperbolic;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| hyperbolic(refs, frames, 64, 1));
        assert_eq!(row, "10:1234512 | 15:12345123451 | 10:345678");
    }
}
