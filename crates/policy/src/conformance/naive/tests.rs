//! The example strings, the notation of the worked examples, and what holds for every model.

use std::collections::BTreeSet;

use super::*;

pub(super) use crate::conformance::{E1, E2, E3};

/// CLOCK-Pro's longer example, four frames.
pub(super) const SECOND: &[u32] = &[1, 2, 3, 4, 5, 6, 4, 2, 7, 5, 1, 6, 3, 4, 8, 1, 2, 5];
/// The string of the ARC, CAR and LIRS traces, three frames.
pub(super) const THIRD: &[u32] = &[1, 2, 3, 1, 4, 2, 5, 1, 6, 3, 2, 4];

/// How many steps are faults.
pub(super) fn faults(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.fault).count()
}

/// `faults:victims`, the notation of worked examples.
pub(super) fn outcome(steps: &[Step]) -> String {
    let victims: String = steps.iter().flat_map(|step| &step.victims).map(u32::to_string).collect();
    if victims.is_empty() { faults(steps).to_string() } else { format!("{}:{victims}", faults(steps)) }
}

/// A policy's outcomes on the example strings.
pub(super) fn verification_row(policy: impl Fn(&[u32], usize) -> Vec<Step>) -> String {
    [(E1, 3), (E2, 4), (E3, 4)].map(|(references, frames)| outcome(&policy(references, frames))).join(" | ")
}

/// A state trace: page, fault or hit, victims and what `access` says of the state.
pub(super) fn trace(references: &[u32], mut access: impl FnMut(u32) -> (Step, String)) -> String {
    let mut lines = Vec::new();
    for &page in references {
        let (step, state) = access(page);
        lines.push(format!("{page} {} {:?} {state}", if step.fault { 'F' } else { 'h' }, step.victims));
    }
    lines.join("\n")
}

/// Calls `check` with random strings of three shapes and 1 to 10 frames.
pub(super) fn for_random_strings(check: impl Fn(&[u32], usize)) {
    let mut random = crate::SplitMix64::new(1);
    let mut below = move |bound| random.below(bound);
    for frames in 1..=10 {
        for pages in [frames as u64, frames as u64 + 1, 2 * frames as u64, 5 * frames as u64] {
            let uniform: Vec<u32> = (0..300).map(|_| below(pages) as u32).collect();
            check(&uniform, frames);
            // Mostly low pages.
            let mut skewed = Vec::new();
            for _ in 0..300 {
                let top = below(pages);
                skewed.push(below(top + 1) as u32);
            }
            check(&skewed, frames);
            // Loops with random pages between.
            let mixed: Vec<u32> = (0..300)
                .map(|i| if below(4) == 0 { below(pages) as u32 } else { (i % pages) as u32 })
                .collect();
            check(&mixed, frames);
        }
    }
}

type Policy = Box<dyn Fn(&[u32], usize) -> Vec<Step>>;

/// Policies whose hardware sets a bit on a hit and tells nothing else.
fn reference_bit_policies() -> Vec<(&'static str, Policy)> {
    let mut policies: Vec<(&'static str, Policy)> = vec![
        ("fifo", Box::new(fifo)),
        ("clock page table", Box::new(clock_page_table)),
        ("clock 0", Box::new(|refs, frames| clock(refs, frames, false, false))),
        ("clock 1", Box::new(|refs, frames| clock(refs, frames, true, true))),
        ("clock 0, fill 1", Box::new(|refs, frames| clock(refs, frames, false, true))),
        ("car", Box::new(|refs, frames| car(refs, frames, true))),
        ("car, real ratio", Box::new(|refs, frames| car(refs, frames, false))),
    ];
    let cold = ClockProOptions { warm: Warm::Cold, ..ClockProOptions::default() };
    let evict = ClockProOptions { ref_not_in_test: ReferencedNotInTest::Evict, ..ClockProOptions::default() };
    for (name, options) in [
        ("clock-pro", ClockProOptions::default()),
        ("clock-pro 2005", ClockProOptions::clockpro2005()),
        ("clock-pro, fixed 2", ClockProOptions::fixed(2)),
        ("clock-pro, cold start", cold),
        ("clock-pro, evict", evict),
    ] {
        policies.push((name, Box::new(move |refs, frames| clock_pro(refs, frames, &options))));
    }
    policies
}

fn policies() -> Vec<(&'static str, Policy)> {
    let mut policies = reference_bit_policies();
    policies.push(("lru", Box::new(lru)));
    policies.push(("opt", Box::new(opt)));
    policies.push(("lirs 1", Box::new(|refs, frames| lirs(refs, frames, 1, None))));
    policies.push(("lirs 2", Box::new(|refs, frames| lirs(refs, frames, 2, None))));
    policies.push(("lirs bounded", Box::new(|refs, frames| lirs(refs, frames, 1, Some(2 * frames)))));
    policies
}

/// The rules of demand paging, and the invariants of every policy.
#[test]
fn every_policy_keeps_an_honest_resident_set() {
    let policies = policies();
    for_random_strings(|references, frames| {
        let distinct: BTreeSet<u32> = references.iter().copied().collect();
        let least = faults(&opt(references, frames));
        for (name, policy) in &policies {
            let steps = policy(references, frames);
            let mut resident = BTreeSet::new();
            for (&page, step) in references.iter().zip(&steps) {
                assert_eq!(step.fault, !resident.contains(&page), "{name}, {frames} frames, {references:?}");
                let full = resident.len() == frames;
                assert_eq!(step.victims.len(), usize::from(step.fault && full), "{name}");
                for victim in &step.victims {
                    assert!(resident.remove(victim), "{name}");
                }
                resident.insert(page);
            }
            assert!(faults(&steps) >= least, "{name}");
            if distinct.len() <= frames {
                assert_eq!(faults(&steps), distinct.len(), "{name}");
            }
            assert_eq!(steps, policy(references, frames), "{name}");
            let renamed: Vec<u32> = references.iter().map(|&page| 3 * page + 7).collect();
            let renamed_steps = policy(&renamed, frames);
            for (step, renamed) in steps.iter().zip(&renamed_steps) {
                assert_eq!(step.fault, renamed.fault, "{name}");
                let victims: Vec<u32> = step.victims.iter().map(|&page| 3 * page + 7).collect();
                assert_eq!(victims, renamed.victims, "{name}");
            }
        }
    });
}

/// Between two faults one hit to a page is as good as many.
#[test]
fn reference_bits_cannot_count_hits() {
    let policies = reference_bit_policies();
    for_random_strings(|references, frames| {
        for (name, policy) in &policies {
            let steps = policy(references, frames);
            let mut squeezed = Vec::new();
            let mut hit_since_fault = BTreeSet::new();
            for (&page, step) in references.iter().zip(&steps) {
                if step.fault {
                    hit_since_fault.clear();
                    squeezed.push(page);
                } else if hit_since_fault.insert(page) {
                    squeezed.push(page);
                }
            }
            assert_eq!(outcome(&policy(&squeezed, frames)), outcome(&steps), "{name}");
        }
    });
}

#[test]
fn clock_without_hits_is_fifo() {
    let references: Vec<u32> = (0..40).collect();
    for frames in 1..=8 {
        for (init, fill_init) in [(false, false), (true, true), (false, true), (true, false)] {
            assert_eq!(clock(&references, frames, init, fill_init), fifo(&references, frames));
        }
    }
}

#[test]
fn stack_algorithms_fault_no_more_in_a_larger_memory() {
    for_random_strings(|references, frames| {
        assert!(faults(&lru(references, frames)) >= faults(&lru(references, frames + 1)));
        let all_sizes = opt_all_sizes(references);
        assert!(all_sizes.is_sorted_by(|smaller, larger| smaller >= larger));
        let distinct = all_sizes.len();
        assert_eq!(all_sizes[frames.min(distinct) - 1], faults(&opt(references, frames)) as u64);
    });
}

#[test]
fn one_frame_makes_all_policies_equal() {
    for_random_strings(|references, _| {
        let expected = fifo(references, 1);
        for (name, policy) in policies() {
            assert_eq!(policy(references, 1), expected, "{name}");
        }
    });
}
