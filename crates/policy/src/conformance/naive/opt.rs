//! OPT, Belady's MIN: evict the resident page whose next use is latest.
//!
//! `opt` is the direct algorithm for one memory size, `opt_all_sizes` Mattson's priority stack,
//! which counts the faults of every size in one pass. Demand paging: the incoming page always gets
//! a frame.
//!
//! Decisions:
//! * Tie (pages never used again): the one loaded earliest. A page that is loaded again counts from
//!   its last load.
//! * In the stack two pages never used again have equal priority; the one already at that depth
//!   stays. Either choice gives the same counts.

use std::collections::HashMap;

use super::Step;

/// The next use of a page that is not used again.
const NEVER: usize = usize::MAX;

/// For each reference the position of the next reference to the same page, or `NEVER`.
fn next_uses(references: &[u32]) -> Vec<usize> {
    let mut later: HashMap<u32, usize> = HashMap::new();
    let mut next_uses = vec![NEVER; references.len()];
    for (position, &page) in references.iter().enumerate().rev() {
        next_uses[position] = later.insert(page, position).unwrap_or(NEVER);
    }
    next_uses
}

/// OPT with `frames` frames.
pub fn opt(references: &[u32], frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    // Each page and its next use, in the order of loading.
    let mut resident: Vec<(u32, usize)> = Vec::new();
    let mut steps = Vec::new();
    for (&page, next_use) in references.iter().zip(next_uses(references)) {
        if let Some(entry) = resident.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = next_use;
            steps.push(Step::hit());
            continue;
        }
        let mut victim = None;
        if resident.len() == frames {
            let mut latest = 0;
            for position in 1..resident.len() {
                if resident[position].1 > resident[latest].1 {
                    latest = position;
                }
            }
            victim = Some(resident.remove(latest).0);
        }
        resident.push((page, next_use));
        steps.push(Step::fault(victim));
    }
    steps
}

/// OPT's fault counts for 1, 2, ... frames up to the number of distinct pages, in one pass.
///
/// The answer's first element belongs to one frame; it has one element per distinct page.
pub fn opt_all_sizes(references: &[u32]) -> Vec<u64> {
    let mut stack: Vec<(u32, usize)> = Vec::new(); // page and its next use; depth 1 is element 0
    // How many references found their page at each depth; element 0 as above.
    let mut at_depth: Vec<u64> = Vec::new();
    for (&page, next_use) in references.iter().zip(next_uses(references)) {
        let found = stack.iter().position(|entry| entry.0 == page);
        // The hole the carried page ends in: the referenced page's old place, or a new one below
        // the stack.
        let hole = found.unwrap_or(stack.len());
        if found.is_some() {
            at_depth[hole] += 1;
        } else {
            stack.push((page, next_use));
            at_depth.push(0);
        }
        let mut carried = (page, next_use);
        for (position, entry) in stack.iter_mut().enumerate().take(hole) {
            // The new top always displaces the old one; below it the page with the earlier next use
            // stays.
            if position == 0 || carried.1 < entry.1 {
                std::mem::swap(&mut carried, entry);
            }
        }
        stack[hole] = carried;
    }
    let mut faults = references.len() as u64;
    let mut by_size = Vec::new();
    for hits in at_depth {
        faults -= hits;
        by_size.push(faults);
    }
    by_size
}

#[cfg(test)]
mod tests {
    use super::super::tests::{E1, E2, E3, SECOND, faults, outcome, outcomes_on_examples};
    use super::{opt, opt_all_sizes};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(opt), "7:3412 | 7:431 | 9:45671");
    }

    #[test]
    fn takes_the_known_victims_on_the_second_string() {
        assert_eq!(outcome(&opt(SECOND, 4)), "11:3127641");
    }

    #[test]
    fn one_pass_takes_the_known_faults_at_every_size() {
        assert_eq!(opt_all_sizes(E1), [12, 9, 7, 6, 5]);
        assert_eq!(opt_all_sizes(E3), [20, 14, 10, 9, 8, 8, 8, 8]);
        assert_eq!(opt_all_sizes(&[]), []);
    }

    #[test]
    fn one_pass_equals_the_direct_algorithm() {
        for references in [E1, E2, E3, SECOND] {
            for (index, &count) in opt_all_sizes(references).iter().enumerate() {
                assert_eq!(
                    count,
                    faults(&opt(references, index + 1)) as u64,
                    "{references:?}, {} frames",
                    index + 1
                );
            }
        }
    }
}
