//! The fast paths against the plain ones: engine against the conformance machine, one pass for all sizes against one
//! run a size, batches against whatever else cuts a trace.

use std::io::Cursor;
use sweephand_policy::conformance::{E1, E2, E3, naive_model, run};
use sweephand_policy::registry::{POLICIES, Spec};
use sweephand_policy::{NEVER, SplitMix64};
use sweephand_sim::{Cell, Future, OptStack, Outcome, Sweep, simulation};
use sweephand_trace::{Chunk, EndTotals, Metadata, Trace, Writer};

/// A trace in memory made by calls on a writer.
fn trace(fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Trace {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    fill(&mut writer);
    let (file, _) = writer.finish(EndTotals::default()).unwrap();
    Trace::from_bytes(file.into_inner()).unwrap()
}

fn string_trace(pages: &[u32]) -> Trace {
    trace(|writer| pages.iter().for_each(|&page| writer.reference(u64::from(page), false).unwrap()))
}

/// References to a few pages, now and then with pages unmapped; long enough for several chunks if asked.
fn random_trace(random: &mut SplitMix64, references: usize, pages: u64, unmaps: bool) -> Trace {
    trace(|writer| {
        let mut scan = 0;
        for _ in 0..references {
            if unmaps && random.below(40) == 0 {
                writer.unmap(random.below(pages), 1 + random.below(4)).unwrap();
            }
            scan = (scan + 1) % pages;
            let near = 1 + random.below(pages);
            let page = if random.below(3) == 0 { scan } else { random.below(near) };
            writer.reference(page, random.below(4) == 0).unwrap();
        }
    })
}

fn outcomes(trace: &Trace, policies: &str, frames: &[usize]) -> Vec<Outcome> {
    let specs = Spec::parse_list(policies).unwrap();
    let cell = |spec: &Spec, &frames| Cell { spec: spec.clone(), frames };
    let cells =
        specs.iter().flat_map(|spec| frames.iter().map(|frames| cell(spec, frames)).collect::<Vec<_>>());
    let sweep = Sweep { cells: cells.collect(), ..Sweep::default() };
    sweep.run(trace, &|_| {}).unwrap().into_iter().map(|(outcome, _)| outcome).collect()
}

/// One simulation a size, whatever a sweep would do.
fn one_by_one(trace: &Trace, policy: &str, frames: &[usize]) -> Vec<Outcome> {
    frames.iter().flat_map(|&frames| outcomes(trace, policy, &[frames])).collect()
}

#[test]
fn the_engine_counts_what_the_conformance_machine_counts() {
    let mut random = SplitMix64::new(3);
    let mut strings: Vec<Vec<u32>> = [E1, E2, E3].map(<[u32]>::to_vec).into();
    for _ in 0..30 {
        let pages = 2 + random.below(30);
        strings.push((0..500).map(|_| random.below(pages) as u32).collect());
    }
    for string in strings {
        // A trace numbers pages by first touch, and some policies look at the numbers.
        let mut seen = Vec::new();
        let string: Vec<u32> = string
            .iter()
            .map(|page| {
                let known = seen.iter().position(|other| other == page);
                known.unwrap_or_else(|| {
                    seen.push(*page);
                    seen.len() - 1
                }) as u32
            })
            .collect();
        let trace = string_trace(&string);
        for entry in POLICIES {
            for frames in [1, 2, 3, 4, 7, 13] {
                let steps = run(entry.info.name, &string, frames);
                let outcome = outcomes(&trace, entry.info.name, &[frames])[0];
                let faults = steps.iter().filter(|step| step.fault).count() as u64;
                let evictions = steps.iter().filter(|step| step.victim.is_some()).count() as u64;
                assert_eq!(
                    (outcome.faults, outcome.evictions),
                    (faults, evictions),
                    "{} {frames}",
                    entry.info.name
                );
                assert_eq!(outcome.faults, outcome.warmup_faults + outcome.evictions);
                assert_eq!(outcome.records, string.len() as u64);
            }
        }
    }
}

#[test]
fn stack_distances_give_lru_at_every_size_with_and_without_unmaps() {
    let mut random = SplitMix64::new(4);
    for round in 0..40 {
        let pages = 2 + random.below(60);
        let trace = random_trace(&mut random, 3000, pages, round % 2 == 0);
        let frames: Vec<usize> = (1..=pages as usize + 3).collect();
        assert_eq!(outcomes(&trace, "lru", &frames), one_by_one(&trace, "lru", &frames));
    }
}

#[test]
fn stack_distances_survive_moving_the_time_line_together() {
    // The time line starts with 32,768 slots; this takes several of them, with holes in it.
    let trace = random_trace(&mut SplitMix64::new(5), 200_000, 40_000, true);
    let frames = [1, 100, 5000, 20_000, 39_000, 50_000];
    assert_eq!(outcomes(&trace, "lru", &frames), one_by_one(&trace, "lru", &frames));
}

#[test]
fn one_pass_gives_opt_at_every_size() {
    let mut random = SplitMix64::new(6);
    for round in 0..40 {
        let pages = 2 + random.below(40);
        let unmaps = round % 2 == 0;
        let trace = random_trace(&mut random, 2000, pages, unmaps);
        let frames: Vec<usize> = (1..=pages as usize + 2).step_by(1 + round % 4).collect();
        let mut stack = OptStack::new(&frames);
        let future = Future::of(&trace).unwrap().unwrap();
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk).unwrap();
            stack.advance(&chunk, 0..chunk.references.len(), future.of_chunk(&chunk));
        }
        let faults =
            |outcomes: Vec<Outcome>| outcomes.iter().map(|outcome| outcome.faults).collect::<Vec<_>>();
        let direct = one_by_one(&trace, "opt", &frames);
        assert_eq!(faults(stack.outcomes().collect()), faults(direct.clone()));
        if !unmaps {
            assert_eq!(stack.outcomes().collect::<Vec<_>>(), direct);
            assert_eq!(outcomes(&trace, "opt", &frames), direct);
        }
    }
}

#[test]
fn one_pass_opt_takes_the_published_depths_of_the_classic_string() {
    let frames: Vec<usize> = (1..=8).collect();
    let faults =
        |string| outcomes(&string_trace(string), "opt", &frames).iter().map(|o| o.faults).collect::<Vec<_>>();
    assert_eq!(faults(E1)[..5], [12, 9, 7, 6, 5]);
    assert_eq!(faults(E3), [20, 14, 10, 9, 8, 8, 8, 8]);
}

#[test]
fn a_dropped_page_is_first_touched_again_and_its_frame_is_free() {
    let trace = trace(|writer| {
        for page in [1, 2] {
            writer.reference(page, true).unwrap();
        }
        writer.unmap(1, 1).unwrap();
        for page in [1, 2, 3] {
            writer.reference(page, false).unwrap();
        }
    });
    for entry in POLICIES {
        let outcome = outcomes(&trace, entry.info.name, &[2])[0];
        let expected = (4, 4, 3, 1);
        let found = (outcome.faults, outcome.first_touch_faults, outcome.warmup_faults, outcome.evictions);
        assert_eq!(found, expected, "{}", entry.info.name);
    }
}

#[test]
fn a_page_moved_by_mremap_keeps_its_contents() {
    let trace = trace(|writer| {
        writer.reference(10, true).unwrap();
        writer.remap(10, 500, 1).unwrap();
        writer.reference(500, false).unwrap();
        writer.reference(10, false).unwrap();
    });
    let outcome = outcomes(&trace, "clock-page-table", &[4])[0];
    assert_eq!((outcome.faults, outcome.first_touch_faults), (2, 2));
    assert_eq!(trace.header().totals.distinct_pages, 2);
}

#[test]
fn the_future_stops_at_dropped_contents_and_skips_runs() {
    let trace = trace(|writer| {
        for page in [1, 1, 2, 1] {
            writer.reference(page, false).unwrap();
        }
        writer.unmap(2, 1).unwrap();
        for page in [2, 1] {
            writer.reference(page, false).unwrap();
        }
    });
    let future = Future::of(&trace).unwrap().unwrap();
    let mut chunk = Chunk::new();
    trace.read_chunk(0, &mut chunk).unwrap();
    assert_eq!(future.of_chunk(&chunk), [3, 3, NEVER, 5, NEVER, NEVER]);
}

#[test]
fn however_a_trace_is_cut_the_counts_are_the_same() {
    // More than one batch of chunks, with samples taken at odd places.
    let trace = random_trace(&mut SplitMix64::new(8), 2_500_000, 3000, true);
    let whole = outcomes(&trace, "all", &[700]);
    for (entry, expected) in POLICIES.iter().zip(whole) {
        let spec = Spec::parse(entry.info.name).unwrap();
        let sweep =
            Sweep { cells: vec![Cell { spec, frames: 700 }], sample_records: 4321, ..Sweep::default() };
        let (outcome, trajectory) = sweep.run(&trace, &|_| {}).unwrap().remove(0);
        assert_eq!(outcome, expected, "{}", entry.info.name);
        let samples = if outcome.cold_allocation.is_some() { 2_500_000 / 4321 } else { 0 };
        assert_eq!(trajectory.points.len(), samples, "{}", entry.info.name);
    }
}

/// A drop of one page once ended the runs of all others, so that OPT was told of uses that collapsing then hid.
#[test]
fn opt_is_never_above_others_and_the_same_collapsed_where_contents_are_dropped() {
    let mut random = SplitMix64::new(9);
    for _ in 0..60 {
        let pages = 2 + random.below(8);
        let trace = trace(|writer| {
            for _ in 0..400 {
                if random.below(8) == 0 {
                    writer.unmap(random.below(pages), 1).unwrap();
                }
                let page = random.below(pages);
                for _ in 0..=random.below(3) {
                    writer.reference(page, false).unwrap();
                    if random.below(8) == 0 {
                        writer.unmap(random.below(pages), 1).unwrap();
                    }
                }
            }
        });
        for frames in [1, 2, 3, 5] {
            let opt = outcomes(&trace, "opt,opt:collapse=on", &[frames]);
            assert_eq!(opt[0].faults, opt[1].faults, "{frames} frames");
            for (entry, other) in POLICIES.iter().zip(outcomes(&trace, "all", &[frames])) {
                assert!(opt[0].faults <= other.faults, "{} with {frames} frames", entry.info.name);
            }
        }
    }
}

#[test]
fn collapsed_references_count_but_are_not_shown() {
    let trace = string_trace(&[1, 1, 2, 3, 1]);
    let faults = |spec: &str| {
        let mut simulation = simulation(&Spec::parse(spec).unwrap(), 2, false, 4096).unwrap();
        let mut chunk = Chunk::new();
        trace.read_chunk(0, &mut chunk).unwrap();
        simulation.advance(&chunk, 0..5, &[]);
        (simulation.outcome().records, simulation.outcome().faults)
    };
    // The second reference would have set page 1's bit and saved it from 3.
    assert_eq!(faults("clock:collapse=off"), (5, 3));
    assert_eq!(faults("clock:collapse=on"), (5, 4));
}

/// The classic traces are others' data: `SWEEPHAND_TRACES` says where they are.
#[test]
fn on_the_classic_traces_every_policy_counts_what_its_direct_reading_counts() {
    let Some(traces) = std::env::var_os("SWEEPHAND_TRACES") else {
        eprintln!("not checked: SWEEPHAND_TRACES is not set");
        return;
    };
    for name in ["cpp", "gli", "multi2"] {
        let path = std::path::Path::new(&traces).join(format!("lirs/{name}.trace.gz"));
        let trace = Trace::open(&path).unwrap();
        let mut chunk = Chunk::new();
        trace.read_chunk(0, &mut chunk).unwrap();
        let numbers = chunk.new_pages.clone();
        // By page number: the page-table clock goes by it.
        let string: Vec<u32> =
            chunk.references.iter().map(|reference| numbers[reference.page() as usize] as u32).collect();
        assert_eq!(string.len() as u64, trace.header().totals.records, "a short trace is one chunk");
        for policy in
            POLICIES.iter().map(|entry| entry.info.name).chain(["clock:init=1", "clock-pro:history=3"])
        {
            let spec = Spec::parse(policy).unwrap();
            for frames in [20, 150, 800] {
                let Some(steps) = naive_model(&spec, &string, frames) else { continue };
                let expected = steps.iter().filter(|step| step.fault).count() as u64;
                assert_eq!(
                    outcomes(&trace, policy, &[frames])[0].faults,
                    expected,
                    "{name} {policy} {frames}"
                );
            }
        }
    }
}
