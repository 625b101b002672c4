//! MGLRU, the multi-generational LRU of Linux 6.14, reduced to one type of page that is mapped.
//!
//! Decisions: the walk notes the generation that a page belongs to from now on, and the page keeps
//! its place in the old list until eviction comes to it. The walk happens when eviction finds that
//! two generations are left.

use super::{Given, Step};

#[derive(Clone, Copy, Debug)]
struct Page {
    page: u32,
    bit: bool,
    /// The generation in whose list the page is.
    list: u64,
    /// The generation that it belongs to.
    generation: u64,
    /// How often it was found referenced, up to `sightings`.
    seen: u64,
}

/// MGLRU with `frames` frames. A page belongs to the working set once it was found referenced
/// `sightings` times; with `sightings` 1 evicted pages are forgotten. `init` is the bit of a new
/// page.
pub fn mglru(references: &[u32], frames: usize, sightings: u64, init: bool) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut memory: Vec<Page> = Vec::new(); // within a list: those that entered it first in front
    let mut shadows: Vec<(u32, u64)> = Vec::new(); // evicted from the working set, and min_seq then
    let (mut min_seq, mut max_seq) = (0_u64, 2_u64);
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = memory.iter_mut().find(|entry| entry.page == page) {
            entry.bit = true;
            steps.push(Step::hit());
            continue;
        }
        let shadow = shadows.iter().position(|shadow| shadow.0 == page).map(|at| shadows.remove(at).1);
        let mut victim = None;
        while memory.len() == frames {
            let Some(at) = memory.iter().position(|entry| entry.list == min_seq) else {
                min_seq += 1;
                for entry in &mut memory {
                    if entry.bit {
                        entry.seen = (entry.seen + 1).min(sightings);
                        if entry.seen == sightings {
                            entry.generation = max_seq;
                        }
                    }
                    entry.bit = false;
                }
                max_seq += 1;
                continue;
            };
            let mut entry = memory.remove(at);
            if entry.generation == min_seq {
                if !entry.bit {
                    if entry.seen == sightings && sightings > 1 {
                        shadows.push((entry.page, min_seq));
                    }
                    victim = Some(entry.page);
                    continue;
                }
                entry.bit = false;
                entry.seen = (entry.seen + 1).min(sightings);
                entry.generation = if entry.seen == sightings { max_seq } else { max_seq - 1 };
            }
            entry.list = entry.generation;
            memory.push(entry);
        }
        let returns = shadow.is_some_and(|evicted| max_seq - evicted < 4);
        let generation = if returns { max_seq } else { max_seq - 1 };
        let seen = if returns { sightings } else { 0 };
        memory.push(Page { page, bit: init, list: generation, generation, seen });
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    mglru(references, given.frames, given.whole("sightings"), given.whole("init") == 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::mglru;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| mglru(refs, frames, 2, false));
        assert_eq!(row, "10:1234512 | 15:12345123451 | 11:1345678");
    }
}
