//! Estimates from samples: exact if all pages are sampled, unbiased if not, and refused if they
//! could not be right.

use std::io::Cursor;
use sweephand_checks::trying;
use sweephand_policy::SplitMix64;
use sweephand_policy::registry::{POLICIES, Spec};
use sweephand_sim::{
    Cell, Estimates, LEAST_FRAMES, LEAST_PAGES, MeasuredError, Outcome, SampleSize, Sampling, Sweep,
};
use sweephand_trace::generate::{Generator, Pattern};
use sweephand_trace::{Chunk, EndTotals, Metadata, PageSample, Repeats, SampleWriter, Trace, Writer};

fn trace(fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Trace {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    fill(&mut writer);
    let (file, _) = writer.finish(EndTotals::default()).unwrap();
    Trace::from_bytes(file.into_inner()).unwrap()
}

/// Loops, bursts and references by popularity, with pages unmapped and moved now and then.
fn program(seed: u64, references: usize, pages: u64) -> Trace {
    let mut random = SplitMix64::new(seed);
    trace(|writer| {
        let mut scan = 0;
        for _ in 0..references {
            match random.below(300) {
                0 => writer.unmap(random.below(pages), 1 + random.below(4)).unwrap(),
                1 => writer.remap(random.below(pages), pages + random.below(pages), 2).unwrap(),
                _ => {}
            }
            scan = (scan + 1) % pages;
            let near = 1 + random.below(pages);
            let page = if random.below(3) == 0 { scan } else { random.below(near) };
            for _ in 0..1 + random.below(3) {
                writer.reference(page, random.below(4) == 0).unwrap();
            }
        }
    })
}

fn zipf(pages: u64, references: u64, seed: u64) -> Trace {
    let mut generator = Generator::new(&Pattern::Zipf { pages, exponent: 0.9 }, seed, 0.0).unwrap();
    trace(|writer| {
        for _ in 0..references {
            let (page, write) = generator.next().unwrap();
            writer.reference(page, write).unwrap();
        }
    })
}

fn sweep(policies: &str, frames: &[usize], collapse: bool) -> Sweep {
    let specs = Spec::parse_list(policies).unwrap();
    let cells =
        specs.iter().flat_map(|spec| frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
    Sweep { cells: cells.collect(), collapse, ..Sweep::default() }
}

fn estimates(trace: &Trace, size: &str, seed: u64, sweep: &Sweep) -> Estimates {
    let sampling = Sampling { size: size.parse().unwrap(), seed };
    sampling.run(trace, sweep, &|_| {}).unwrap_or_else(|error| panic!("{size}: {error}"))
}

fn sampled_policies() -> String {
    let names = POLICIES.iter().filter(|entry| entry.not_sampled.is_none()).map(|entry| entry.info.name);
    names.collect::<Vec<_>>().join(",")
}

/// The pages of a trace that are in a sample, as a trace.
fn reduced(trace: &Trace, sample: &PageSample, collapse: bool) -> Trace {
    let mut writer = SampleWriter::new(trace).unwrap();
    let (mut chunk, mut repeats) = (Chunk::new(), Repeats::default());
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        let before = repeats;
        repeats.pass(&chunk);
        sample.reduce(&mut chunk, collapse.then_some(before));
        writer.push(&chunk).unwrap();
    }
    writer.finish().unwrap()
}

fn outcomes(trace: &Trace, sweep: &Sweep) -> Vec<Outcome> {
    sweep.run(trace, &|_| {}).unwrap().into_iter().map(|(outcome, _)| outcome).collect()
}

/// Through the same way as any sample: a set of all pages, not the short cut for it.
#[test]
fn a_sample_of_all_pages_is_the_whole() {
    let whole = program(1, 30_000, 600);
    let pages = whole.header().totals.page_ids;
    let all = PageSample::parts(pages, &[pages], 5).remove(0);
    assert_eq!(all.pages(), pages);
    let policies = sampled_policies();
    let frames = [1, 2, 40, 200];
    let expected = outcomes(&whole, &sweep(&policies, &frames, false));
    assert_eq!(outcomes(&reduced(&whole, &all, false), &sweep(&policies, &frames, false)), expected);
    // Repeats that are taken out before are as good as hidden.
    let hidden = outcomes(&whole, &sweep(&policies, &frames, true));
    assert_ne!(hidden, expected);
    let uncounted = |outcomes: Vec<Outcome>| -> Vec<_> {
        outcomes.into_iter().map(|outcome| Outcome { records: 0, ..outcome }).collect()
    };
    let taken_out = outcomes(&reduced(&whole, &all, true), &sweep(&policies, &frames, false));
    assert_eq!(uncounted(taken_out), uncounted(hidden));

    let exact = estimates(&whole, "100%", 1, &sweep(&policies, &frames, false));
    let counts = |outcome: Outcome| Outcome { cold_allocation: None, ..outcome };
    let expected: Vec<_> = expected.into_iter().map(counts).collect();
    assert_eq!(exact.cells.iter().map(|cell| cell.outcome).collect::<Vec<_>>(), expected);
    assert!(exact.cells.iter().all(|cell| cell.hit_ratio_error == 0.0));
    assert_eq!((exact.sampled_pages, exact.pages), (pages, pages));
    // A number of pages that there are not is all of them, and objects are no trouble then.
    let more = estimates(&whole, "1000000p", 1, &sweep("apr", &[40], false));
    assert_eq!(counts(outcomes(&whole, &sweep("apr", &[40], false))[0]), more.cells[0].outcome);
}

#[test]
fn disjoint_samples_add_up_to_the_whole() {
    let whole = program(2, 40_000, 900);
    let pages = whole.header().totals.page_ids;
    let parts = [pages / 7, 0, pages / 3, pages - pages / 7 - pages / 3];
    let samples = PageSample::parts(pages, &parts, 9);
    for page in 0..pages {
        assert_eq!(samples.iter().filter(|sample| sample.contains(page)).count(), 1, "page {page}");
    }
    for collapse in [false, true] {
        let _input = trying(|| format!("collapse: {collapse}"));
        let (mut records, mut first_touches, mut touched) = (0, 0, 0);
        for (sample, part) in samples.iter().zip(parts) {
            assert_eq!(sample.pages(), part);
            let part = reduced(&whole, sample, collapse);
            part.verify(&mut |_| {}).unwrap();
            records += part.header().totals.records;
            touched += part.header().totals.page_ids;
            // In all the memory there is, only first touches fault.
            if sample.pages() > 0 {
                let outcome = outcomes(&part, &sweep("lru", &[pages as usize], false))[0];
                assert_eq!(outcome.faults, outcome.first_touch_faults);
                first_touches += outcome.first_touch_faults;
            }
        }
        let everything = outcomes(&whole, &sweep("lru", &[pages as usize], false))[0];
        assert_eq!(first_touches, everything.first_touch_faults);
        // A page that moves to where a page outside of the sample was may get another id.
        assert!((pages..pages + pages / 20).contains(&touched), "{touched} of {pages}");
        // `runs` are what is left when repeats are hidden, but for repeats behind an unmapping.
        let totals = &whole.header().totals;
        if collapse {
            assert!((totals.runs..totals.records).contains(&records), "{records} of {}", totals.runs);
        } else {
            assert_eq!(records, totals.records);
        }
    }
}

#[test]
fn a_smaller_sample_of_a_seed_is_part_of_a_larger() {
    let of = |pages, seed| PageSample::parts(5_000, &[pages], seed).remove(0);
    let in_both =
        |a: &PageSample, b: &PageSample| (0..5_000).filter(|p| a.contains(*p) && b.contains(*p)).count();
    for seed in 0..20 {
        assert_eq!(in_both(&of(300, seed), &of(1_000, seed)), 300, "seed {seed}");
        // Those of other seeds have as many in common as chance will have it: 200 of 1,000, give or
        // take 11.
        let common = in_both(&of(1_000, seed), &of(1_000, seed + 1));
        assert!((150..250).contains(&common), "{common} of seeds {seed} and {}", seed + 1);
    }
}

#[test]
fn equal_seeds_give_equal_samples() {
    let whole = zipf(20_000, 200_000, 3);
    let cells = sweep("lru,clock-pro,lirs,random", &[1_000, 5_000], false);
    let first = estimates(&whole, "10%", 7, &cells);
    let again = estimates(&whole, "10%", 7, &cells);
    assert_eq!(first.cells, again.cells);
    let another = estimates(&whole, "10%", 8, &cells);
    assert_ne!(first.cells, another.cells);
    let size: SampleSize = "10%".parse().unwrap();
    let pages = Sampling { size, seed: 7 }.pages(&whole);
    assert_eq!(first.sampled_pages, pages);
    assert_eq!(pages, (f64::from(whole.header().totals.page_ids) / 10.0).round() as u32);
    assert_eq!(estimates(&whole, &format!("{pages}p"), 7, &cells).cells, first.cells);
}

/// The mean over many samples is the truth, within what their number leaves open and what a
/// miniature's rounding costs; and the errors that the samples tell of themselves are as large as
/// those that they have.
#[test]
fn estimates_are_right_on_average_and_their_errors_of_the_right_size() {
    const SEEDS: u64 = 24;
    let whole = zipf(30_000, 300_000, 1);
    let cells = sweep("lru,fifo,clock,opt,lirs,2q", &[1_000, 3_000, 9_000], false);
    let truth = outcomes(&whole, &cells);
    let samples: Vec<_> = (0..SEEDS).map(|seed| estimates(&whole, "8%", seed, &cells)).collect();
    let mut told_to_real = Vec::new();
    for (cell, truth) in truth.iter().enumerate() {
        let name = format!("{} with {} frames", cells.cells[cell].spec, cells.cells[cell].frames);
        let references = whole.header().totals.references as f64;
        let errors = samples
            .iter()
            .map(|sample| (sample.cells[cell].outcome.faults as f64 - truth.faults as f64) / references);
        let mean = errors.clone().sum::<f64>() / SEEDS as f64;
        let square = (errors.map(|error| error * error).sum::<f64>() / SEEDS as f64).sqrt();
        let by_chance = square / (SEEDS as f64).sqrt();
        assert!(mean.abs() < 3.5 * by_chance, "{name}: off by {mean} on average, by chance {by_chance}");
        assert!(square < 0.05, "{name}: off by {square}");
        let told = samples.iter().map(|sample| sample.cells[cell].hit_ratio_error.powi(2)).sum::<f64>();
        let told = (told / SEEDS as f64).sqrt();
        assert!((0.4..2.5).contains(&(told / square)), "{name}: off by {square}, told {told}");
        told_to_real.push(told / square);
        // First touches are one a page here, and a sample has exactly its share of pages.
        assert!(
            samples.iter().all(|sample| {
                sample.cells[cell].outcome.first_touch_faults.abs_diff(truth.first_touch_faults) <= 1
            }),
            "{name}"
        );
    }
    let logarithms = told_to_real.iter().map(|ratio| ratio.ln()).sum::<f64>();
    let mean = (logarithms / told_to_real.len() as f64).exp();
    assert!((0.7..1.4).contains(&mean), "errors are told {mean} times as large as they are");
}

#[test]
fn policies_that_look_at_order_or_objects_are_not_sampled() {
    for name in ["seq", "seq-lru", "ubm", "lifo-plus", "apr", "lifo", "mru"] {
        assert!(Spec::parse(name).unwrap().not_sampled().is_some(), "{name}");
    }
}

#[test]
fn what_cannot_be_right_is_refused_with_what_to_do() {
    let whole = zipf(20_000, 200_000, 3);
    let pages = whole.header().totals.page_ids;
    let refused = |size: &str, policies: &str, frames: usize| {
        let sampling = Sampling { size: size.parse().unwrap(), seed: 1 };
        let cells = sweep(policies, &[frames], false);
        let error = sampling.run(&whole, &cells, &|_| {}).unwrap_err().to_string();
        assert_eq!(sampling.check(&whole, &cells.cells).unwrap_err().to_string(), error);
        error
    };
    for policy in POLICIES.iter().filter(|entry| entry.not_sampled.is_some()) {
        let error = refused("10%", policy.info.name, 5_000);
        let expected = format!(
            "{0} cannot be told from a sample of the pages: {1}; leave out the sample, or {0}",
            policy.info.name,
            policy.not_sampled.unwrap()
        );
        assert_eq!(error, expected);
    }
    let sampled = (f64::from(pages) / 100.0).round();
    let error = refused("1%", "lru", 5_000);
    let expected = format!(
        ": sample 1%: {sampled} of {pages} pages are too few to tell anything (at least {LEAST_PAGES}): take "
    );
    assert!(error.contains(&expected), "{error}");
    let error = refused("10%", "lru", 300);
    let expected = format!(
        ": sample 10%: 30 of 300 pages of memory are too few to tell anything (at least {LEAST_FRAMES}): take 11% or more, or leave it out"
    );
    assert!(error.ends_with(&expected), "{error}");
    let error = refused("10%", "lru", 20);
    assert!(error.ends_with("(at least 32): leave it out"), "{error}");
    // What the message says is enough.
    assert!(estimates(&whole, "11%", 1, &sweep("lru", &[300], false)).sampled_pages > 0);
}

#[test]
fn what_is_no_size_of_a_sample_is_refused() {
    for size in ["1", "0%", "101%", "-1%", "0p", "1.5p", "x%", "NaN%", ""] {
        let error = size.parse::<SampleSize>().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("sample '{size}': write a share of the pages as in 1%, or a number as in 8192p")
        );
    }
}

#[test]
fn what_is_given_in_references_or_pages_is_scaled() {
    let whole = zipf(20_000, 200_000, 3);
    let sampling = Sampling { size: SampleSize::Percent(10.0), seed: 1 };
    let run = |policy: &str| sampling.run(&whole, &sweep(policy, &[2_000], false), &|_| {});
    // A tenth of the references makes up for a rate ten times as high.
    let (slow, slow_exactly) = (
        run("lrfu:lambda=0.00001").unwrap(),
        outcomes(&whole, &sweep("lrfu:lambda=0.00001", &[2_000], false)),
    );
    let off = slow.cells[0].outcome.faults.abs_diff(slow_exactly[0].faults);
    assert!(off < 6_000, "{off}");
    let error = run("lru-2:crp=100").unwrap_err().to_string();
    assert!(error.starts_with("policy 'lru-2': crp=100: a sample of 10."), "{error}");
    assert!(error.ends_with("% of the pages has too few references in that time; sample more"), "{error}");
    assert!(run("lru-2:crp=1000").is_ok());
    // In pages or as a share, it is the same part of memory.
    assert_eq!(run("clock-pro:cold=200").unwrap().cells, run("clock-pro:cold=10%").unwrap().cells);
}

#[test]
fn all_sizes_are_those_that_the_sample_tells_apart() {
    let whole = zipf(20_000, 200_000, 3);
    let sampling = Sampling { size: SampleSize::Percent(10.0), seed: 1 };
    let sizes = sampling.memory_sizes(&whole);
    assert_eq!(sizes.len(), sampling.pages(&whole) as usize - LEAST_FRAMES + 1);
    assert!(sizes.is_sorted() && sizes.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))));
    let estimates = estimates(&whole, "10%", 1, &sweep("lru", &sizes, false));
    assert!(estimates.cells.windows(2).all(|pair| pair[0].outcome.faults >= pair[1].outcome.faults));
}

#[test]
fn measured_cells_are_found_by_policy_and_size() {
    for entry in POLICIES.iter().filter(|entry| entry.not_sampled.is_none()) {
        let error =
            MeasuredError::of(entry.info.name, 1 << 20).unwrap_or_else(|| panic!("{}", entry.info.name));
        assert!(error.mean <= error.largest && error.largest < 1.0 && error.cells > 0, "{error:?}");
    }
    for entry in POLICIES.iter().filter(|entry| entry.not_sampled.is_some()) {
        assert_eq!(MeasuredError::of(entry.info.name, 1 << 20), None, "{}", entry.info.name);
    }
    assert_eq!(MeasuredError::of("lru", 1), None);
}
