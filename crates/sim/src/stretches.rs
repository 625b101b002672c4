//! Cuts a chunk into stretches of one class each. A simulation is given one stretch at a time, and
//! the increase of its counts belongs to that class.
//!
//! So this works with any [`Simulation`], and simulations without classes pay nothing. It costs one
//! call a stretch.

use crate::{Outcome, Simulation};
use std::iter;
use sweephand_trace::Chunk;

/// References of a chunk in a row, up to `end`, that are of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) end: usize,
    pub(crate) class: usize,
}

/// Cuts references, given by their classes, where the class changes.
pub(crate) fn stretches(classes: impl Iterator<Item = usize>) -> impl Iterator<Item = Stretch> {
    let mut classes = classes.peekable();
    let mut end = 0;
    iter::from_fn(move || {
        let class = classes.next()?;
        end += 1;
        while classes.next_if_eq(&class).is_some() {
            end += 1;
        }
        Some(Stretch { end, class })
    })
}

/// Gives a chunk, with all of its events, to a simulation. `count(class, before, after)` gets
/// the counts before and after each stretch.
pub(crate) fn advance(
    simulation: &mut dyn Simulation,
    chunk: &Chunk,
    stretches: impl IntoIterator<Item = Stretch>,
    next_uses: &[u32],
    mut count: impl FnMut(usize, &Outcome, &Outcome),
) {
    if chunk.references.is_empty() {
        // Events only: none of them is a reference of any class.
        return simulation.advance(chunk, 0..0, next_uses);
    }
    let mut before = simulation.outcome();
    let mut start = 0;
    for Stretch { end, class } in stretches {
        simulation.advance(chunk, start..end, next_uses);
        let after = simulation.outcome();
        count(class, &before, &after);
        (start, before) = (end, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_ends_where_the_class_changes() {
        let cut = |classes: &[usize]| -> Vec<(usize, usize)> {
            stretches(classes.iter().copied()).map(|Stretch { end, class }| (end, class)).collect()
        };
        assert_eq!(cut(&[2, 2, 0, 2, 1, 1, 1]), [(2, 2), (3, 0), (4, 2), (7, 1)]);
        assert_eq!(cut(&[5]), [(1, 5)]);
        assert_eq!(cut(&[]), []);
    }
}
