//! FIFO: evict the page that has been resident longest.

use super::Step;

/// FIFO with `frames` frames.
pub fn fifo(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut loaded: Vec<u32> = Vec::new(); // oldest load first
    let mut steps = Vec::new();
    for &page in references {
        if loaded.contains(&page) {
            steps.push(Step::hit());
            continue;
        }
        let victim = if loaded.len() == frames { Some(loaded.remove(0)) } else { None };
        loaded.push(page);
        steps.push(Step::fault(victim));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::{E1, faults, outcomes_on_examples};
    use super::fifo;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(fifo), "9:123412 | 15:12345123451 | 13:123456172");
    }

    #[test]
    fn shows_beladys_anomaly() {
        let by_size: Vec<usize> = (1..=5).map(|frames| faults(&fifo(E1, frames))).collect();
        assert_eq!(by_size, [12, 12, 9, 10, 5]);
    }
}
