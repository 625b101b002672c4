//! Which policies are stack policies: the pages resident with M frames are among those resident
//! with M + 1, at any time, for any string (R. L. Mattson et al., "Evaluation techniques for
//! storage hierarchies", IBM Systems Journal 9(2), 1970). Only of these one pass over a string can
//! give all sizes by distances in one stack.
//!
//! A policy is one if it evicts the last page of an order that does not depend on the size of
//! memory. LRU and MRU order all pages by their last use, LIFO by their first, if none is unmapped.
//! LRFU has such an order if the value of a page outlives its stay in memory (`retain=on`; with
//! `lambda=0` this is LFU). OPT's faults are those of a stack policy: pages that are not used again
//! may differ, and no fault depends on them (`sim::OptStack`).

use std::collections::BTreeSet;
use sweephand_policy::SplitMix64;
use sweephand_policy::conformance::run;
use sweephand_policy::registry::POLICIES;

/// Policies of the registry that have a stack with their defaults.
const STACK_POLICIES: &[&str] = &["lifo", "mru", "lru"];
/// Those of which these strings neither break the rule nor show that it holds: LRU-2 and LIRS, and
/// two that are LRU until they see long sequences or loops.
const UNDECIDED: &[&str] = &["lru-2", "lirs", "seq-lru", "ubm"];

/// The resident pages after each reference.
fn resident(spec: &str, string: &[u32], frames: usize) -> Vec<BTreeSet<u32>> {
    let mut pages = BTreeSet::new();
    let steps = run(spec, string, frames);
    let after = string.iter().zip(steps).map(|(&page, step)| {
        if let Some(victim) = step.victim {
            pages.remove(&victim);
        }
        pages.insert(page);
        pages.clone()
    });
    after.collect()
}

/// Whether a larger memory lacks a page that a smaller one has.
fn breaks_inclusion(spec: &str, string: &[u32], most_frames: usize) -> bool {
    let sizes: Vec<_> = (1..=most_frames).map(|frames| resident(spec, string, frames)).collect();
    sizes.windows(2).any(|pair| pair[0].iter().zip(&pair[1]).any(|(small, large)| !small.is_subset(large)))
}

/// Every string of some length over 4 pages that are numbered by first touch, then longer ones.
fn for_strings(mut holds: impl FnMut(&[u32], usize) -> bool) -> bool {
    fn extend(string: &mut Vec<u32>, holds: &mut impl FnMut(&[u32], usize) -> bool) -> bool {
        if string.len() == 8 {
            return holds(string, 4);
        }
        let new = string.iter().max().map_or(0, |page| page + 1);
        (0..=new.min(3)).all(|page| {
            string.push(page);
            let all = extend(string, holds);
            string.pop();
            all
        })
    }
    let mut random = SplitMix64::new(21);
    extend(&mut Vec::new(), &mut holds)
        && (0..200).all(|_| {
            let pages = 3 + random.below(12);
            let mut page = || {
                let near = 1 + random.below(pages);
                random.below(near) as u32
            };
            let string: Vec<u32> = (0..150).map(|_| page()).collect();
            holds(&string, pages as usize)
        })
}

fn has_a_stack(spec: &str) -> bool {
    for_strings(|string, most_frames| !breaks_inclusion(spec, string, most_frames))
}

#[test]
fn all_others_break_the_rule_on_a_short_string() {
    let found: Vec<_> =
        POLICIES.iter().map(|entry| entry.info.name).filter(|name| has_a_stack(name)).collect();
    assert_eq!(found, [STACK_POLICIES, UNDECIDED].concat());
}

#[test]
fn values_that_outlive_the_stay_in_memory_make_a_stack() {
    for spec in ["lrfu:retain=on", "lrfu:retain=on,lambda=0", "lrfu:lambda=1"] {
        assert!(has_a_stack(spec), "{spec}");
    }
}
