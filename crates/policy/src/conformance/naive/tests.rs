//! The example strings, the notation of the worked examples, and what holds for every model.

use std::collections::BTreeSet;

use super::*;

pub(super) use crate::conformance::{E1, E2, E3, for_random_strings};

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
pub(super) fn outcomes_on_examples(policy: impl Fn(&[u32], usize) -> Vec<Step>) -> String {
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
        ("lifo", Box::new(lifo)),
        ("linux 2.4", Box::new(|refs, frames| linux24(refs, frames, 2 * frames / 3))),
        ("mglru", Box::new(|refs, frames| mglru(refs, frames, 2, false))),
        (
            "clock2q+",
            Box::new(|refs, frames| clock2q_plus(refs, frames, frames.div_ceil(2), frames / 4, frames)),
        ),
        ("mglru, once", Box::new(|refs, frames| mglru(refs, frames, 1, true))),
        ("random", Box::new(|refs, frames| random(refs, frames, 1))),
        ("sieve", Box::new(sieve)),
        ("srrip", Box::new(|refs, frames| rrip(refs, frames, RripVariant::Srrip, 3, 1))),
        ("brrip", Box::new(|refs, frames| rrip(refs, frames, RripVariant::Brrip, 3, 1))),
    ];
    let cold = ClockProOptions { warm: Warm::Cold, ..ClockProOptions::default() };
    let evict = ClockProOptions { ref_not_in_test: ReferencedNotInTest::Evict, ..ClockProOptions::default() };
    let linux = AgingOptions { start: 2, advance: 3, decline: Some(1), max: 20 };
    for (name, options) in [("aging", linux), ("aging, halved", AgingOptions { decline: None, ..linux })] {
        policies.push((name, Box::new(move |refs, frames| aging(refs, frames, &options))));
    }
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
    policies.push(("mru", Box::new(mru)));
    policies.push(("arc", Box::new(arc)));
    policies
        .push(("2q", Box::new(|refs, frames| two_q(refs, frames, (frames / 4).max(1), (frames / 2).max(1)))));
    policies.push(("gclock", Box::new(|refs, frames| gclock(refs, frames, 1, 1, 7))));
    policies.push(("lrfu", Box::new(|refs, frames| lrfu(refs, frames, 0.001, false))));
    policies.push(("s3-fifo", Box::new(|refs, frames| s3_fifo(refs, frames, (frames / 10).max(1), 1))));
    policies.push(("bip", Box::new(|refs, frames| dip(refs, frames, DipVariant::Bip, 32, 1))));
    policies.push(("hyperbolic", Box::new(|refs, frames| hyperbolic(refs, frames, 4, 1))));
    let lru_2 = LruKOptions { k: 2, crp: 1, rip: u64::MAX, blocks: usize::MAX };
    policies.push(("lru-2", Box::new(move |refs, frames| lru_k(refs, frames, &lru_2))));
    policies.push((
        "mq",
        Box::new(|refs, frames| {
            mq(refs, frames, &MqOptions { queues: 8, life: 4 * frames as u64, history: 4 * frames })
        }),
    ));
    policies.push((
        "fbr",
        Box::new(|refs, frames| {
            let (new, old) = (frames / 4, (3 * frames).div_ceil(5));
            fbr(refs, frames, &FbrOptions { new, old, max_average: 100 })
        }),
    ));
    policies.push((
        "lecar",
        Box::new(|refs, frames| lecar(refs, frames, 0.45, 0.005_f64.powf(1.0 / frames as f64), 1)),
    ));
    policies.push((
        "w-tinylfu",
        Box::new(|refs, frames| {
            let options =
                WTinyLfuOptions { window: 1, protected: (frames - 1) * 4 / 5, sample: 10 * frames as u64 };
            w_tinylfu(refs, frames, &options)
        }),
    ));
    policies.push(("acme", Box::new(|refs, frames| acme(refs, frames, 0.9, 0.02))));
    policies.push((
        "eelru",
        Box::new(|refs, frames| {
            let points = |parts: &[usize]| parts.iter().map(|part| part * frames / 4).collect();
            let decay = 1.0 - 1.0 / (8.0 * frames as f64);
            let options = EelruOptions { early: points(&[1, 2, 3]), late: points(&[5, 6, 8, 12]), decay };
            eelru(refs, frames, &options)
        }),
    ));
    policies.push(("lirs 1", Box::new(|refs, frames| lirs(refs, frames, 1, None))));
    policies.push(("lirs 2", Box::new(|refs, frames| lirs(refs, frames, 2, None))));
    policies.push(("dlirs", Box::new(|refs, frames| dlirs(refs, frames, 1))));
    policies.push(("lirs2", Box::new(|refs, frames| lirs2(refs, frames, 2))));
    policies.push(("cacheus", Box::new(|refs, frames| cacheus(refs, frames, 1, 1))));
    let s4 = S4FifoOptions { small: 2, skip: 1, hits: 1, ghosts: 5, ghost_hits: 1 };
    policies.push(("s4-fifo", Box::new(move |refs, frames| s4_fifo(refs, frames, &s4))));
    let learning = LhdOptions { sample: 4, interval: 9, ages: 16, span: 2.0, seed: 1 };
    policies.push(("lhd", Box::new(move |refs, frames| lhd(refs, frames, &learning))));
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
                assert_eq!(step.fault, !resident.contains(&page), "{name}");
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
            assert_eq!(
                clock(&references, frames, init, fill_init),
                fifo(&references, frames),
                "{frames} frames, bits {init} and {fill_init}"
            );
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
