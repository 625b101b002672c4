//! Page aging: a hand raises the ages of referenced pages and lowers the others' until one is 0.
//!
//! Decision: the new page takes the victim's frame, and the hand goes on to the next.

use super::{Given, Step};

/// The parameters of page aging.
#[derive(Clone, Copy, Debug)]
pub struct AgingOptions {
    /// Age of a new page.
    pub start: u64,
    /// Gain of a page found referenced.
    pub advance: u64,
    /// Loss of a page found unreferenced; `None` for half of its age.
    pub decline: Option<u64>,
    /// Largest age.
    pub max: u64,
}

/// Page aging with `frames` frames.
pub fn aging(references: &[u32], frames: usize, options: &AgingOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    struct Frame {
        page: u32,
        referenced: bool,
        age: u64,
    }
    let mut memory: Vec<Frame> = Vec::new();
    let mut hand = 0;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(frame) = memory.iter_mut().find(|frame| frame.page == page) {
            frame.referenced = true;
            steps.push(Step::hit());
            continue;
        }
        let new = Frame { page, referenced: false, age: options.start };
        if memory.len() < frames {
            memory.push(new);
            steps.push(Step::fault(None));
            continue;
        }
        loop {
            let frame = &mut memory[hand];
            if frame.referenced {
                frame.referenced = false;
                frame.age = options.max.min(frame.age + options.advance);
            } else {
                frame.age = match options.decline {
                    Some(decline) => frame.age.saturating_sub(decline),
                    None => frame.age >> 1,
                };
                if frame.age == 0 {
                    break;
                }
            }
            hand = (hand + 1) % frames;
        }
        steps.push(Step::fault(Some(memory[hand].page)));
        memory[hand] = new;
        hand = (hand + 1) % frames;
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let freebsd = given.arguments.value("flavour") == "freebsd";
    let constant = |name, default| given.arguments.whole(name, 0..=u64::MAX).unwrap_or(default);
    let options = AgingOptions {
        start: constant("start", if freebsd { 5 } else { 2 }),
        advance: constant("advance", 3),
        decline: (given.arguments.value("decline") != "halve").then(|| constant("decline", 1)),
        max: constant("max", if freebsd { 64 } else { 20 }),
    };
    aging(references, frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{AgingOptions, aging};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = |start, max| {
            let options = AgingOptions { start, advance: 3, decline: Some(1), max };
            outcomes_on_examples(|refs, frames| aging(refs, frames, &options))
        };
        assert_eq!(row(2, 20), "10:1234531 | 15:12345123451 | 10:345678");
        assert_eq!(row(5, 64), "9:123412 | 15:12345123451 | 10:345678");
    }
}
