//! The faults of each policy on a few strings, as the file `revisions.csv` has them for its
//! revision. A policy whose faults change needs a new revision, so that nobody keeps old results.
//!
//! After a change of [`Registered::REVISION`](sweephand_policy::registry::Registered), or for a new
//! policy, `SWEEPHAND_WRITE_DOCS=1 cargo test -p sweephand-policy --all-features --test revisions`
//! writes the file.

use std::fmt::Write;
use sweephand_checks::read_text;
use sweephand_policy::SplitMix64;
use sweephand_policy::conformance::faults;
use sweephand_policy::registry::POLICIES;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/revisions.csv");
const PAGES: u64 = 120;
const REFERENCES: u64 = 3000;
const FRAMES: [usize; 2] = [30, 80];

/// A loop, pages at random, some of them more often, and a working set that moves on between scans.
fn strings() -> [(&'static str, Vec<u32>); 4] {
    let mut random = SplitMix64::new(1);
    let mut below = |limit| random.next_u64() % limit;
    let string = |page: &mut dyn FnMut(u64) -> u64| (0..REFERENCES).map(|time| page(time) as u32).collect();
    [
        ("loop", string(&mut |time| time % PAGES)),
        ("random", string(&mut |_| below(PAGES))),
        ("skewed", string(&mut |_| below(PAGES).min(below(PAGES)).min(below(PAGES)))),
        (
            "phases",
            string(&mut |time| {
                if time % 500 < 100 { time % PAGES } else { (time / 500 * 17 + below(40)) % PAGES }
            }),
        ),
    ]
}

#[test]
fn a_policy_that_takes_other_faults_has_another_revision() {
    let strings = strings();
    let mut table = String::from("policy,revision");
    for (name, _) in &strings {
        FRAMES.iter().for_each(|frames| write!(table, ",{name}-{frames}").unwrap());
    }
    for entry in POLICIES {
        write!(table, "\n{},{}", entry.info.name, entry.revision).unwrap();
        for (_, string) in &strings {
            FRAMES
                .iter()
                .for_each(|frames| write!(table, ",{}", faults(entry.info.name, string, *frames)).unwrap());
        }
    }
    table.push('\n');
    if std::env::var_os("SWEEPHAND_WRITE_DOCS").is_some() {
        std::fs::write(FILE, &table).unwrap();
    }
    let kept = read_text(FILE);
    let revision = |line: &str| line.split(',').take(2).map(str::to_owned).collect::<Vec<_>>();
    let changed = table.lines().zip(kept.lines()).find(|(now, before)| now != before);
    if let Some((now, before)) = changed {
        let what = match revision(now) == revision(before) {
            true => "takes other faults: raise its REVISION, and then write the file",
            false => "is not in the file with this revision: write the file",
        };
        panic!("{what} (see the head of this test)\n now: {now}\nfile: {before}");
    }
    assert_eq!(table.lines().count(), kept.lines().count(), "policies in the file");
}
