//! The fast implementations agree with the plain ones: the engine with the conformance machine, one
//! pass for all sizes with one run a size, and batches with other ways to cut a trace. With
//! `SWEEPHAND_AT_LENGTH` the direct readings of the policies run at more sizes.

use std::collections::BTreeMap;
use std::io::Cursor;
use sweephand_checks::{at_length, trying};
use sweephand_policy::conformance::{E1, E2, E3, Machine, naive_model, run};
use sweephand_policy::registry::{POLICIES, Registered, Spec, Visitor};
use sweephand_policy::{NEVER, PageId, SplitMix64};
use sweephand_sim::{Cell, ClassCounts, Future, Outcome, Sweep, simulation};
use sweephand_trace::{AllocKind, Chunk, EndTotals, Metadata, Trace, Writer};

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

/// References to a few pages, now and then with pages unmapped; long enough for several chunks if
/// asked.
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
            let _input = trying(|| format!("{}, {string:?}", entry.info.name));
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
        assert_eq!(outcomes(&trace, "lru", &frames), one_by_one(&trace, "lru", &frames), "round {round}");
    }
}

#[test]
fn exchanges_of_two_pages_give_mru_at_every_size_with_and_without_unmaps() {
    let mut random = SplitMix64::new(9);
    for round in 0..40 {
        let pages = 2 + random.below(60);
        let trace = random_trace(&mut random, 3000, pages, round % 2 == 0);
        let frames: Vec<usize> = (1..=pages as usize + 3).collect();
        for policy in ["mru", "mru:collapse=on"] {
            assert_eq!(
                outcomes(&trace, policy, &frames),
                one_by_one(&trace, policy, &frames),
                "{policy}, round {round}"
            );
        }
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
fn one_pass_gives_opt_at_every_size_with_and_without_unmaps() {
    let mut random = SplitMix64::new(6);
    for round in 0..80 {
        let pages = 2 + random.below(40);
        let trace = random_trace(&mut random, 2000, pages, round % 2 == 0);
        let frames: Vec<usize> = (1..=pages as usize + 4).step_by(1 + round % 4).collect();
        // From four sizes on a sweep takes them in one pass.
        let frames = if frames.len() < 4 { vec![1, 2, 3, 4] } else { frames };
        for policy in ["opt", "opt:collapse=on"] {
            let (at_once, direct) = (outcomes(&trace, policy, &frames), one_by_one(&trace, policy, &frames));
            assert_eq!(at_once, direct, "{policy}, round {round}");
        }
    }
}

/// Pages that are never used again stay as long as memory is not full of others: several chunks,
/// with many of them unmapped after some memories have evicted them.
#[test]
fn one_pass_opt_evicts_dead_pages_in_the_order_of_each_memory() {
    let mut random = SplitMix64::new(7);
    let trace = trace(|writer| {
        for round in 0..60_000_u64 {
            let first = 100 * random.below(40);
            for page in first..first + 1 + random.below(12) {
                writer.reference(page, false).unwrap();
            }
            if round % 3 == 0 {
                writer.unmap(100 * random.below(40) + random.below(12), 1 + random.below(12)).unwrap();
            }
        }
    });
    assert!(trace.chunks() > 1);
    let frames = [1, 2, 5, 17, 40, 80, 120, 200, 300, 479, 480, 481];
    let at_once = outcomes(&trace, "opt", &frames);
    assert_eq!(at_once, one_by_one(&trace, "opt", &frames));
    let mut sizes = at_once.iter().zip(frames);
    assert!(sizes.any(|(outcome, frames)| outcome.warmup_faults > frames as u64), "frames become free");
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
    // More than one batch of four chunks, with samples taken at odd places.
    let records = 1_200_000;
    let trace = random_trace(&mut SplitMix64::new(8), records, 3000, true);
    assert!(trace.chunks() > 4);
    let whole = outcomes(&trace, "all", &[700]);
    for (entry, expected) in POLICIES.iter().zip(whole) {
        let spec = Spec::parse(entry.info.name).unwrap();
        let sweep =
            Sweep { cells: vec![Cell { spec, frames: 700 }], sample_records: 4321, ..Sweep::default() };
        let (outcome, trajectory) = sweep.run(&trace, &|_| {}).unwrap().remove(0);
        assert_eq!(outcome, expected, "{}", entry.info.name);
        let is_sampled = outcome.cold_allocation.is_some() || outcome.leader.is_some();
        let samples = if is_sampled { records / 4321 } else { 0 };
        assert_eq!(trajectory.points.len(), samples, "{}", entry.info.name);
    }
}

/// Once, a drop of one page ended the runs of all other pages. OPT then knew of uses that
/// collapsing hid.
#[test]
fn counts_by_class_add_up_to_those_of_the_whole_for_every_policy() {
    let seed = 11;
    let trace = random_trace(&mut SplitMix64::new(seed), 300_000, 60, true);
    assert!(trace.chunks() > 1 && trace.header().totals.unmaps > 0);
    for entry in POLICIES {
        let policy = entry.info.name;
        let frames = 20;
        let cells = vec![Cell { spec: Spec::parse(policy).unwrap(), frames }];
        let sweep = Sweep { cells, ..Sweep::default() };
        // By parity of the page and by half of the run.
        let class_of = |record: u64, page: PageId| 2 * usize::from(record >= 150_000) + page.index() % 2;
        let classes = sweep.run_by_class(&trace, 4, class_of).unwrap().remove(0);
        let sum = |count: fn(&ClassCounts) -> u64| classes.iter().map(count).sum::<u64>();
        let whole = outcomes(&trace, policy, &[frames])[0];
        assert_eq!(sum(|class| class.records), whole.records, "{policy}");
        assert_eq!(sum(|class| class.faults), whole.faults, "{policy}, seed {seed}");
        assert_eq!(sum(|class| class.first_touch_faults), whole.first_touch_faults, "{policy}");
        assert_eq!(sum(|class| class.warmup_faults), whole.warmup_faults, "{policy}");
        let resident = sum(|class| class.resident_pages);
        assert!((frames as u64 - 4..=frames as u64).contains(&resident), "{policy}: {resident} resident");
        assert_eq!(classes[0].records + classes[1].records, 150_000, "{policy}");
    }
}

#[test]
fn a_class_has_its_own_faults_and_its_own_pages() {
    // LRU with 3 frames: 0 1 2 fault, 0 hits, 3 and 4 fault and push out 1 and 2, 0 hits, 1 faults
    // and pushes out 3.
    let trace = string_trace(&[0, 1, 2, 0, 3, 4, 0, 1]);
    let cells = vec![Cell { spec: Spec::parse("lru").unwrap(), frames: 3 }];
    let sweep = Sweep { cells, ..Sweep::default() };
    let class_of = |_, page: PageId| usize::from(page != PageId(0));
    let [of_page_0, others] = sweep.run_by_class(&trace, 2, class_of).unwrap()[0][..] else { panic!() };
    let counts = |records, faults, first_touch_faults, warmup_faults, resident_pages| ClassCounts {
        records,
        faults,
        first_touch_faults,
        warmup_faults,
        resident_pages,
    };
    assert_eq!(of_page_0, counts(3, 1, 1, 1, 1));
    assert_eq!(others, counts(5, 5, 4, 2, 2));
    assert!((of_page_0.hit_percent() - 66.7).abs() < 0.1);
}

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

/// Pages that are referenced, allocated, freed and unmapped.
enum Step {
    Reference(u32),
    Alloc { first: u32, pages: u32 },
    Free { first: u32 },
    Unmap(u32),
}

/// The engine gives the number of an object that is gone to the next one, the plain machine here
/// never does.
#[test]
fn objects_come_and_go_in_the_engine_as_in_the_conformance_machine() {
    struct Count<'a>(&'a [Step], &'a Spec, usize);
    impl Visitor for Count<'_> {
        type Output = (u64, u64);
        fn visit<P: Registered + Send + 'static>(self) -> (u64, u64) {
            let Count(steps, spec, frames) = self;
            let mut machine = Machine::<P>::with_arguments(spec.arguments(), frames);
            let (mut faults, mut evictions, mut objects) = (0, 0, 0);
            let mut live = BTreeMap::new();
            for step in steps {
                match *step {
                    Step::Reference(page) => {
                        let step = machine.access(page);
                        faults += u64::from(step.fault);
                        evictions += u64::from(step.victim.is_some());
                    }
                    Step::Alloc { first, pages } => {
                        if let Some(replaced) = live.remove(&first) {
                            machine.free_object(replaced).unwrap();
                        }
                        objects += 1;
                        live.insert(first, objects);
                        machine.allocate(objects, first..first + pages).unwrap();
                    }
                    Step::Free { first } => {
                        if let Some(object) = live.remove(&first) {
                            machine.free_object(object).unwrap();
                        }
                    }
                    Step::Unmap(page) => machine.unmap(page).unwrap(),
                }
            }
            (faults, evictions)
        }
    }
    let mut random = SplitMix64::new(10);
    for _ in 0..60 {
        let pages = 5 + random.below(40) as u32;
        let steps: Vec<Step> = (0..600)
            .map(|time| {
                let any = random.below(u64::from(pages)) as u32;
                // Few places to begin at, so that frees meet objects and objects one another.
                let first = any / 4 * 4;
                match random.below(24) {
                    0 => Step::Alloc { first, pages: 1 + random.below(12) as u32 },
                    1 => Step::Free { first },
                    2 => Step::Unmap(any),
                    3..12 => Step::Reference(time % pages),
                    _ => Step::Reference(any),
                }
            })
            .collect();
        let trace = trace(|writer| {
            for step in &steps {
                match *step {
                    Step::Reference(page) => writer.reference(u64::from(page), false),
                    Step::Alloc { first, pages } => {
                        let (address, length) = (u64::from(first) << 12, u64::from(pages) << 12);
                        writer.alloc(address, length, AllocKind::Malloc)
                    }
                    Step::Free { first } => writer.free(u64::from(first) << 12),
                    Step::Unmap(page) => writer.unmap(u64::from(page), 1),
                }
                .unwrap();
            }
        });
        for policy in
            ["lifo-plus", "apr", "apr:freed=bottom", "seq:length=2,faults=2,distance=1", "ubm:sequence=2"]
        {
            let spec = Spec::parse(policy).unwrap();
            for frames in [1, 3, 8, 20] {
                let outcome = outcomes(&trace, policy, &[frames])[0];
                let expected = spec.visit(Count(&steps, &spec, frames));
                assert_eq!((outcome.faults, outcome.evictions), expected, "{policy} {frames}");
            }
        }
    }
}

/// 10, 11, 12 are a sequence, which gives up the page behind its end. That page is elsewhere by
/// then, and 10 goes.
#[test]
fn a_resident_page_that_is_moved_leaves_its_sequence() {
    let trace = trace(|writer| {
        for page in [10, 11, 12, 50] {
            writer.reference(page, false).unwrap();
        }
        writer.remap(11, 100, 1).unwrap();
        for page in [60, 100] {
            writer.reference(page, false).unwrap();
        }
    });
    for policy in ["seq", "seq-lru"] {
        let outcome = outcomes(&trace, &format!("{policy}:length=3,faults=2,distance=1"), &[4])[0];
        assert_eq!(outcome.faults, 5, "{policy}: the moved page is in memory");
    }
}

/// Of 10, 11, 12 with their bits set the lowest number would go, but 10 has become 100.
#[test]
fn a_resident_page_that_is_moved_takes_another_place_in_the_page_table() {
    let trace = trace(|writer| {
        for page in [10, 11, 12] {
            writer.reference(page, false).unwrap();
        }
        writer.remap(10, 100, 1).unwrap();
        for page in [60, 100] {
            writer.reference(page, false).unwrap();
        }
    });
    assert_eq!(outcomes(&trace, "clock-page-table", &[3])[0].faults, 4, "the moved page is in memory");
}

/// Two arrays, one of them freed while its pages are in memory: what it leaves is evicted for the
/// other first.
#[test]
fn pages_of_a_freed_object_are_evicted_as_pages_of_the_default_object() {
    let faults = |freed: bool| {
        let trace = trace(|writer| {
            writer.alloc(100 << 12, 20 << 12, AllocKind::Malloc).unwrap();
            for page in (0..10).chain(100..110) {
                writer.reference(page, true).unwrap();
            }
            if freed {
                writer.free(100 << 12).unwrap();
            }
            // CLOCK comes to pages 0 to 9 first, so the default object gives up a page.
            for page in (10..15).chain(0..10) {
                writer.reference(page, false).unwrap();
            }
        });
        ["lifo-plus", "apr:ties=fallback"].map(|policy| outcomes(&trace, policy, &[20])[0].faults)
    };
    assert_eq!(faults(true), [25, 25]);
    assert!(faults(false).iter().all(|faults| *faults > 25), "{:?}", faults(false));
}

/// One of the classic traces. They are others' data: `SWEEPHAND_TRACES` says where they are.
fn classic_trace(name: &str) -> Option<Trace> {
    let path = sweephand_checks::traces()?.join(format!("lirs/{name}.trace.gz"));
    Some(Trace::open(&path).unwrap())
}

/// What APR does on two of the classic traces, as it is and where no policy names a page twice.
#[test]
fn apr_takes_these_faults_on_the_classic_traces() {
    for (name, frames, apr, once) in [
        ("cpp", [35, 100, 500], [5959, 2267, 1313], [5270, 2251, 1308]),
        ("sprite", [100, 400, 800], [101_884, 40_571, 17_093], [101_507, 40_924, 18_367]),
    ] {
        let Some(trace) = classic_trace(name) else { return };
        let faults =
            outcomes(&trace, "apr,apr:preset=once", &frames).into_iter().map(|outcome| outcome.faults);
        assert_eq!(
            faults.collect::<Vec<_>>(),
            [apr, once].concat(),
            "sweephand simulate lirs/{name}.trace.gz -p apr,apr:preset=once"
        );
    }
}

fn every_policy_counts_what_its_direct_reading_counts_on(name: &str) {
    let Some(trace) = classic_trace(name) else { return };
    let mut chunk = Chunk::new();
    trace.read_chunk(0, &mut chunk).unwrap();
    let numbers = chunk.new_pages.clone();
    // By page number: the page-table clock goes by it.
    let string: Vec<u32> =
        chunk.references.iter().map(|reference| numbers[reference.page() as usize] as u32).collect();
    assert_eq!(string.len() as u64, trace.header().totals.records, "a short trace is one chunk");
    let frames = if at_length() { &[20, 150, 800][..] } else { &[150] };
    let mut compared = 0;
    for policy in POLICIES.iter().map(|entry| entry.info.name).chain(["clock:init=1", "clock-pro:history=3"])
    {
        let spec = Spec::parse(policy).unwrap();
        for &frames in frames {
            let Some(steps) = naive_model(&spec, &string, frames) else { continue };
            let expected = steps.iter().filter(|step| step.fault).count() as u64;
            assert_eq!(
                outcomes(&trace, policy, &[frames])[0].faults,
                expected,
                "sweephand simulate lirs/{name}.trace.gz -p {policy} -m {frames}p"
            );
            compared += 1;
        }
    }
    assert!(compared > POLICIES.len() / 2, "{compared} cells have a naive model");
}

#[test]
fn on_cpp_every_policy_counts_what_its_direct_reading_counts() {
    every_policy_counts_what_its_direct_reading_counts_on("cpp");
}

#[test]
fn on_gli_every_policy_counts_what_its_direct_reading_counts() {
    every_policy_counts_what_its_direct_reading_counts_on("gli");
}

#[test]
fn on_multi2_every_policy_counts_what_its_direct_reading_counts() {
    every_policy_counts_what_its_direct_reading_counts_on("multi2");
}
