//! The lab of the experiments, tested on traces that come with the project.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sweephand_lab::Lab;

const POLICIES: [&str; 4] = ["opt", "lru", "clock", "apr"];

#[test]
fn the_faults_of_all_parts_are_those_of_the_whole() {
    let lab = Lab::default();
    let trace = lab.bundled_trace("sqlite3").unwrap();
    let frames = 1000;
    let whole = lab.outcomes(&trace, &POLICIES, &[frames]).unwrap();
    for parts in [1, 10, 13] {
        let by_part = lab.faults_over_time(&trace, &POLICIES, frames, parts).unwrap();
        for ((policy, outcomes), by_part) in POLICIES.iter().zip(&whole).zip(by_part) {
            assert_eq!(by_part.len() as u64, parts, "{policy} in {parts} parts");
            let faults = outcomes[0].faults - outcomes[0].warmup_faults;
            assert_eq!(by_part.iter().sum::<u64>(), faults, "{policy} in {parts} parts");
        }
    }
}

#[test]
fn what_was_simulated_before_is_not_simulated_again() {
    let passes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&passes);
    // The records of a trace are reported as they are done; `done == all` is the end of a pass over
    // it.
    let lab = Lab::new(None).watched(move |_, done, all| {
        counted.fetch_add(u64::from(done == all), Ordering::Relaxed);
    });
    let passes = || passes.load(Ordering::Relaxed);
    let trace = lab.bundled_trace("sqlite3").unwrap();
    let both = lab.outcomes(&trace, &["clock", "lru"], &[500, 1000]).unwrap();
    assert_eq!(passes(), 1);
    assert_eq!(lab.outcomes(&trace, &["lru"], &[1000, 500]).unwrap(), [[both[1][1], both[1][0]]]);
    assert_eq!(passes(), 1);
    let more = lab.outcomes(&trace, &["clock"], &[500, 2000]).unwrap();
    assert_eq!((passes(), more[0][0]), (2, both[0][0]));
    assert_ne!(more[0][1], more[0][0]);
}
