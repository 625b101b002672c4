//! LRU: evict the page whose last reference is longest ago.

use super::Step;

/// LRU with `frames` frames.
pub fn lru(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut by_recency: Vec<u32> = Vec::new(); // least recently referenced first
    let mut steps = Vec::new();
    for &page in references {
        let found = by_recency.iter().rposition(|&resident| resident == page);
        let step = match found {
            Some(position) => {
                by_recency.remove(position);
                Step::hit()
            }
            None if by_recency.len() == frames => Step::fault(Some(by_recency.remove(0))),
            None => Step::fault(None),
        };
        by_recency.push(page);
        steps.push(step);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::{E1, SECOND, faults, outcome, outcomes_on_examples};
    use super::lru;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(lru), "10:1234512 | 15:12345123451 | 10:345678");
    }

    #[test]
    fn takes_the_known_faults_at_every_size() {
        let by_size: Vec<usize> = (1..=5).map(|frames| faults(&lru(E1, frames))).collect();
        assert_eq!(by_size, [12, 12, 10, 8, 5]);
    }

    #[test]
    fn takes_the_known_victims_on_the_second_string() {
        assert_eq!(outcome(&lru(SECOND, 4)), "17:1235642751634");
    }
}
