//! Interrupted work gives no results and reads no more of the trace.

use std::cell::RefCell;
use std::io::Cursor;
use sweephand_policy::registry::Spec;
use sweephand_sim::{Cell, Sampling, SamplingError, Sweep, SweepError};
use sweephand_trace::{EndTotals, Interrupt, Metadata, Trace, Writer};

/// Pages of the trace, which are referenced in turn.
const PAGES: u64 = 4_000;

/// A trace of more chunks than are read at once.
fn trace() -> Trace {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    (0..2_300_000).for_each(|time| writer.reference(time % PAGES, false).unwrap());
    let (file, _) = writer.finish(EndTotals::default()).unwrap();
    let trace = Trace::from_bytes(file.into_inner()).unwrap();
    assert!(trace.chunks() > 8);
    trace
}

fn sweep(policies: &str, interrupt: &Interrupt) -> Sweep {
    let specs = Spec::parse_list(policies).unwrap();
    let cells = specs.into_iter().map(|spec| Cell { spec, frames: 1_000 });
    Sweep { cells: cells.collect(), interrupt: interrupt.clone(), ..Sweep::default() }
}

/// What comes of a sweep, sampled or not, that is interrupted as soon as this many records are
/// done, and what its progress was.
fn interrupted(
    trace: &Trace,
    policies: &str,
    sample: Option<&str>,
    at: u64,
) -> (Result<(), SamplingError>, Vec<u64>) {
    let interrupt = Interrupt::default();
    let sweep = sweep(policies, &interrupt);
    let seen = RefCell::new(Vec::new());
    let progress = |records| {
        seen.borrow_mut().push(records);
        if records >= at {
            interrupt.raise();
        }
    };
    let result = match sample {
        None => sweep.run(trace, &progress).map(drop).map_err(SamplingError::Sweep),
        Some(size) => {
            let sampling = Sampling { size: size.parse().unwrap(), seed: 1 };
            sampling.run(trace, &sweep, &progress).map(drop)
        }
    };
    (result, seen.into_inner())
}

fn is_given_up(result: &Result<(), SamplingError>) -> bool {
    matches!(result, Err(SamplingError::Sweep(SweepError::Interrupted)))
}

#[test]
fn interrupt_stops_a_sweep_at_once_with_and_without_a_sample() {
    let trace = trace();
    let records = trace.header().totals.records;
    // One simulation takes a chunk at a time, several take some; one that needs the future reads
    // all of it before.
    for policies in ["clock", "opt", "clock,lirs,opt"] {
        for sample in [None, Some("50%"), Some("100%")] {
            let (result, seen) = interrupted(&trace, policies, sample, 1);
            assert!(is_given_up(&result), "{policies}, {sample:?}: {result:?}");
            assert!(seen.len() == 1 && seen[0] < records, "{policies}, {sample:?}: {seen:?}");
            let (result, seen) = interrupted(&trace, policies, sample, records + 1);
            assert!(result.is_ok() && seen.last() == Some(&records), "{policies}, {sample:?}: {seen:?}");
        }
    }
}

#[test]
fn a_sample_that_has_been_taken_is_not_simulated() {
    let trace = trace();
    let records = trace.header().totals.records;
    // Reading the whole counts as fifteen sixteenths of the work.
    let (result, seen) = interrupted(&trace, "clock,lirs", Some("50%"), records - records / 16);
    assert!(is_given_up(&result), "{result:?}");
    assert_eq!(seen.last(), Some(&(records - records / 16)));
}

#[test]
fn what_is_interrupted_before_it_begins_gets_nowhere() {
    let trace = trace();
    for policies in ["clock", "opt", "clock,lirs,opt"] {
        let interrupt = Interrupt::default();
        let sweep = sweep(policies, &interrupt);
        interrupt.raise();
        let progress = |records| panic!("{policies}: {records} records");
        assert!(matches!(sweep.run(&trace, &progress), Err(SweepError::Interrupted)), "{policies}");
        for size in ["50%", "100%"] {
            let sampling = Sampling { size: size.parse().unwrap(), seed: 1 };
            let result = sampling.run(&trace, &sweep, &progress).map(drop);
            assert!(is_given_up(&result), "{policies}, {size}: {result:?}");
        }
    }
}
