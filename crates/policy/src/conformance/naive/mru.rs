//! MRU: evict the page referenced most recently.

use super::Step;

/// MRU with `frames` frames.
pub fn mru(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut resident: Vec<(u32, usize)> = Vec::new(); // page and time of its last reference
    let mut steps = Vec::new();
    for (time, &page) in references.iter().enumerate() {
        if let Some(entry) = resident.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = time;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        if resident.len() == frames {
            let latest = (0..frames).max_by_key(|&position| resident[position].1).expect("a frame");
            victim = Some(resident.remove(latest).0);
        }
        resident.push((page, time));
        steps.push(Step::fault(victim));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::mru;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(mru), "7:3212 | 7:432 | 13:126172131");
    }
}
