//! The faults of each policy on a few strings, and the entries that its hands examine, as the file
//! `revisions.csv` has them for its revision. A policy for which they change needs a new revision,
//! so that nobody keeps old results.
//!
//! After a change of [`Registered::REVISION`](sweephand_policy::registry::Registered), or for a new
//! policy, `SWEEPHAND_WRITE_DOCS=1 cargo test -p sweephand-policy --all-features --test revisions`
//! writes the file.

use std::fmt::Write;
use sweephand_checks::read_text;
use sweephand_policy::SplitMix64;
use sweephand_policy::conformance::Machine;
use sweephand_policy::registry::{POLICIES, Registered, Spec, Visitor};

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

/// A string and the memory for it.
struct Run<'a> {
    spec: &'a Spec,
    string: &'a [u32],
    frames: usize,
}

impl Visitor for Run<'_> {
    /// Faults, and entries examined by hands.
    type Output = (usize, u64);

    fn visit<P: Registered + Send + 'static>(self) -> Self::Output {
        let mut machine = Machine::<P>::with_arguments(self.spec.arguments(), self.frames);
        let steps = machine.run(self.string).unwrap_or_else(|violation| panic!("{violation}"));
        let faults = steps.iter().filter(|step| step.fault).count();
        (faults, machine.policy().hand_steps())
    }
}

#[test]
fn a_policy_that_takes_other_faults_or_steps_has_another_revision() {
    let strings = strings();
    let mut table = String::from("policy,revision");
    for (name, _) in &strings {
        FRAMES.iter().for_each(|frames| write!(table, ",{name}-{frames},{name}-{frames}-steps").unwrap());
    }
    for entry in POLICIES {
        write!(table, "\n{},{}", entry.info.name, entry.revision).unwrap();
        let spec = Spec::parse(entry.info.name).unwrap();
        for (_, string) in &strings {
            for frames in FRAMES {
                let (faults, steps) = spec.visit(Run { spec: &spec, string, frames });
                write!(table, ",{faults},{steps}").unwrap();
            }
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
            true => "takes other faults or steps: raise its REVISION, and then write the file",
            false => "is not in the file with this revision: write the file",
        };
        panic!("{what} (see the head of this test)\n now: {now}\nfile: {before}");
    }
    assert_eq!(table.lines().count(), kept.lines().count(), "policies in the file");
}
