//! GCLOCK: CLOCK with a counter of hits per frame.

use super::Step;

/// GCLOCK with `frames` frames: a new page's counter is `init`, a hit adds `increment`, and `max`
/// is the bound.
pub fn gclock(references: &[u32], frames: usize, init: u64, increment: u64, max: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut ring: Vec<(u32, u64)> = Vec::new();
    let mut hand = 0;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(frame) = ring.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = max.min(frame.1 + increment);
            steps.push(Step::hit());
        } else if ring.len() < frames {
            ring.push((page, init));
            steps.push(Step::fault(None));
        } else {
            while ring[hand].1 > 0 {
                ring[hand].1 -= 1;
                hand = (hand + 1) % frames;
            }
            steps.push(Step::fault(Some(ring[hand].0)));
            ring[hand] = (page, init);
            hand = (hand + 1) % frames;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::super::tests::{for_random_strings, outcomes_on_examples};
    use super::gclock;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| gclock(refs, frames, 1, 1, 7));
        assert_eq!(row, "9:123412 | 15:12345123451 | 11:3425678");
    }

    #[test]
    fn a_counter_of_one_bit_makes_it_clock() {
        for_random_strings(|refs, frames| {
            assert_eq!(gclock(refs, frames, 1, 1, 1), clock(refs, frames, true, true));
        });
    }
}
