//! LIFO: evict the page loaded most recently.

use super::Step;

/// LIFO with `frames` frames.
pub fn lifo(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut loaded: Vec<u32> = Vec::new(); // latest load last
    let mut steps = Vec::new();
    for &page in references {
        if loaded.contains(&page) {
            steps.push(Step::hit());
            continue;
        }
        let victim = if loaded.len() == frames { loaded.pop() } else { None };
        loaded.push(page);
        steps.push(Step::fault(victim));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::lifo;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(lifo), "8:34534 | 9:45454 | 9:45678");
    }
}
