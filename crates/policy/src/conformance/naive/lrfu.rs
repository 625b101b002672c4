//! LRFU: evict the page with the smallest sum of decayed past references.

use super::Step;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    resident: bool,
    value: f64, // as of the last reference
    last: u64,
}

/// LRFU with `frames` frames. With `retain` a page's value outlives its stay in memory.
pub fn lrfu(references: &[u32], frames: usize, lambda: f64, retain: bool) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut entries: Vec<Entry> = Vec::new();
    let mut steps = Vec::new();
    for (time, &page) in (1_u64..).zip(references) {
        let decayed = |entry: &Entry| entry.value * 0.5_f64.powf(lambda * (time - entry.last) as f64);
        let hit = entries.iter().any(|entry| entry.page == page && entry.resident);
        let mut victim = None;
        if !hit && entries.iter().filter(|entry| entry.resident).count() == frames {
            let least = entries
                .iter_mut()
                .filter(|entry| entry.resident)
                .min_by(|a, b| decayed(a).total_cmp(&decayed(b)).then(a.last.cmp(&b.last)))
                .expect("memory is full");
            least.resident = false;
            victim = Some(least.page);
        }
        entries.retain(|entry| entry.resident || retain);
        let old = entries.iter().position(|entry| entry.page == page).map(|at| entries.remove(at));
        let value = 1.0 + old.as_ref().map_or(0.0, decayed);
        entries.push(Entry { page, resident: true, value, last: time });
        steps.push(if hit { Step::hit() } else { Step::fault(victim) });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::lru;
    use super::super::tests::{for_random_strings, outcomes_on_examples};
    use super::lrfu;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = |lambda| outcomes_on_examples(|refs, frames| lrfu(refs, frames, lambda, false));
        assert_eq!(row(0.001), "10:1234534 | 15:12345123451 | 10:345678");
        assert_eq!(row(0.5), "10:1234512 | 15:12345123451 | 10:345678");
    }

    #[test]
    fn with_lambda_1_it_is_lru() {
        for_random_strings(|refs, frames| {
            assert_eq!(lrfu(refs, frames, 1.0, false), lru(refs, frames));
        });
    }
}
