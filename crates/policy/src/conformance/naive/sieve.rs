//! SIEVE: a FIFO list with a visited bit a page, and a hand that goes from the tail to the head.
//!
//! Decision: the hand is at the tail at first, and again after it has evicted the page at the head.

use super::Step;

/// SIEVE with `frames` frames.
pub fn sieve(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut list: Vec<(u32, bool)> = Vec::new(); // tail (oldest) first
    let mut hand = 0; // a position in the list
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = list.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        if list.len() == frames {
            while list[hand].1 {
                list[hand].1 = false;
                hand = (hand + 1) % frames;
            }
            victim = Some(list.remove(hand).0);
            if hand == list.len() {
                hand = 0;
            }
        }
        list.push((page, false));
        steps.push(Step::fault(victim));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::sieve;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(sieve), "10:1234512 | 15:12345123451 | 10:345678");
    }
}
