//! S4-FIFO: S3-FIFO with a window in which hits do not count, and ghosts that have to come back
//! several times.
//!
//! Decision: whether the page faulted on is a ghost is asked after the eviction.

use super::{Given, Step};
use crate::arguments::Rounding;

/// The constants of S4-FIFO.
#[derive(Clone, Copy, Debug)]
pub struct S4FifoOptions {
    /// Target length of the small queue.
    pub small: usize,
    /// Newest pages of it whose hits do not count.
    pub skip: usize,
    /// Hits needed to go on to the main queue.
    pub hits: u64,
    /// Most ghosts.
    pub ghosts: usize,
    /// Faults on a ghost that do not yet lead to the main queue.
    pub ghost_hits: u64,
}

/// A page of the small queue or the ghosts.
#[derive(Clone, Copy, Debug)]
struct Page {
    page: u32,
    hits: u64,
    ghost_hits: u64,
    /// How many pages had entered the small queue before it.
    number: usize,
}

/// S4-FIFO with `frames` frames.
pub fn s4_fifo(references: &[u32], frames: usize, options: &S4FifoOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut small: Vec<Page> = Vec::new(); // oldest first
    let mut main: Vec<(u32, u64)> = Vec::new(); // page and hits
    let mut ghosts: Vec<Page> = Vec::new();
    let mut entered = 0;
    let mut steps = Vec::new();
    for &page in references {
        if let Some(entry) = small.iter_mut().find(|entry| entry.page == page) {
            if entered - entry.number > options.skip {
                entry.hits += 1;
            }
            steps.push(Step::hit());
            continue;
        }
        if let Some(entry) = main.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = (entry.1 + 1).min(3);
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        while small.len() + main.len() == frames {
            if small.len() >= options.small || main.is_empty() {
                let oldest = small.remove(0);
                if oldest.hits >= options.hits {
                    main.push((oldest.page, 0));
                } else {
                    ghosts.push(oldest);
                    victim = Some(oldest.page);
                }
            } else {
                let (oldest, hits) = main.remove(0);
                if hits > 0 {
                    main.push((oldest, hits - 1));
                } else {
                    victim = Some(oldest);
                }
            }
        }
        while ghosts.len() > options.ghosts {
            ghosts.remove(0);
        }
        let ghost = ghosts.iter().position(|ghost| ghost.page == page).map(|at| ghosts.remove(at));
        match ghost {
            Some(ghost) if ghost.ghost_hits >= options.ghost_hits => main.push((page, 0)),
            _ => {
                let ghost_hits = ghost.map_or(0, |ghost| ghost.ghost_hits + 1);
                small.push(Page { page, hits: 0, ghost_hits, number: entered });
                entered += 1;
            }
        }
        steps.push(Step::fault(victim));
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let small = given.pages("small", Rounding::Down).max(1);
    let options = S4FifoOptions {
        small,
        skip: Given { arguments: given.arguments, frames: small }.pages("skip", Rounding::Down),
        hits: given.whole("hits"),
        ghosts: (given.factor("ghosts") * given.frames as f64) as usize,
        ghost_hits: given.whole("ghost-hits"),
    };
    s4_fifo(references, given.frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{S4FifoOptions, s4_fifo};

    /// That of S3-FIFO.
    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            let options = S4FifoOptions { small: 1, skip: 0, hits: 2, ghosts: frames - 1, ghost_hits: 0 };
            s4_fifo(refs, frames, &options)
        });
        assert_eq!(row, "10:1234534 | 12:12345121 | 11:2345678");
    }
}
