//! Simulations that results are made of. They are kept beside the results (`ITEM.cells.csv`), so
//! that a result can be made again without running them.

use crate::{Error, Lab};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::sync::PoisonError;
use sweephand_policy::registry::Spec;
use sweephand_sim::{Cell, Outcome, SweepError};
use sweephand_trace::Trace;
use xxhash_rust::xxh3::xxh3_64;

/// What is done to a trace before policies see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Trace) -> Result<Trace, Error>,
}

/// A simulation: program, change of its trace (`-` for none), policy, frames, and the checksum of
/// the trace before the change.
type Key = (String, String, String, usize, u64);

/// What is kept of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) faults: u64,
    /// Those of them that found a free frame.
    pub(crate) warmup_faults: u64,
    /// Entries that the policy's hands looked at.
    pub(crate) hand_steps: u64,
}

impl Counts {
    fn of(outcome: &Outcome) -> Self {
        let Outcome { faults, warmup_faults, hand_steps, .. } = *outcome;
        Self { faults, warmup_faults, hand_steps }
    }

    /// Faults but those while a frame was free.
    pub(crate) fn when_full(&self) -> u64 {
        self.faults - self.warmup_faults
    }
}

/// Simulations by key.
#[derive(Debug, Default)]
pub(crate) struct KeptSimulations {
    known: BTreeMap<Key, Counts>,
    /// Those that come from a file.
    recalled: HashSet<Key>,
    /// Those that were asked for since [`Lab::take_simulations`].
    used: BTreeMap<Key, Counts>,
    /// Of those that come from a file, run one in so many again; 0 for none.
    check_one_in: u64,
}

/// The columns of kept simulations.
const COLUMNS: &str = "program;change;policy;frames;trace;faults;warmup_faults;hand_steps";

impl KeptSimulations {
    /// Takes over what a file keeps, if it keeps simulations.
    pub(crate) fn recall(&mut self, csv: &str, check_one_in: u64) {
        let mut lines = csv.lines();
        if lines.next() != Some(COLUMNS) {
            return;
        }
        self.check_one_in = check_one_in;
        for line in lines {
            let cells: Vec<&str> = line.split(';').collect();
            let number = |at: usize| cells[at].parse::<u64>().expect("a count");
            let word = |at: usize| cells[at].to_string();
            let trace = u64::from_str_radix(cells[4], 16).expect("a checksum");
            let key = (word(0), word(1), word(2), number(3) as usize, trace);
            let counts = Counts { faults: number(5), warmup_faults: number(6), hand_steps: number(7) };
            self.recalled.insert(key.clone());
            self.known.insert(key, counts);
        }
    }

    /// Whether a simulation has to be run: it is not known, or it is one of those that are checked.
    fn wants(&self, key: &Key) -> bool {
        let is_checked = || {
            let text = format!("{};{};{};{}", key.0, key.1, key.2, key.3);
            self.check_one_in > 0 && xxh3_64(text.as_bytes()).is_multiple_of(self.check_one_in)
        };
        !self.known.contains_key(key) || (self.recalled.contains(key) && is_checked())
    }

    /// Takes over what a simulation gave. Panics if something else was kept.
    fn learn(&mut self, key: Key, counts: Counts) {
        if let Some(known) = self.known.get(&key) {
            assert_eq!(*known, counts, "the kept simulation of {key:?}");
        }
        self.recalled.remove(&key);
        self.known.insert(key, counts);
    }

    fn csv(simulations: &BTreeMap<Key, Counts>) -> String {
        let mut csv = format!("{COLUMNS}\n");
        for ((program, change, policy, frames, trace), counts) in simulations {
            let Counts { faults, warmup_faults, hand_steps } = counts;
            writeln!(
                csv,
                "{program};{change};{policy};{frames};{trace:016x};{faults};{warmup_faults};{hand_steps}"
            )
            .expect("a string");
        }
        csv
    }
}

impl Lab {
    /// Runs policies at several memory sizes on a trace or on a change of it, by policy, then by
    /// size. What is known is not run again.
    pub(crate) fn simulations(
        &self,
        program: &str,
        trace: &Trace,
        change: Option<Change>,
        policies: &[&str],
        frames: &[usize],
    ) -> Result<Vec<Vec<Counts>>, Error> {
        let checksum = trace.header().checksum;
        let changed = change.map_or("-", |change| change.name);
        let mut wanted = Vec::new();
        for policy in policies {
            let spec = Spec::parse(policy).map_err(SweepError::from)?;
            for &frames in frames {
                let key = (program.to_string(), changed.to_string(), spec.to_string(), frames, checksum);
                wanted.push((key, Cell { spec: spec.clone(), frames }));
            }
        }
        let mut kept = self.simulations.lock().unwrap_or_else(PoisonError::into_inner);
        let (keys, cells): (Vec<_>, Vec<_>) =
            wanted.iter().filter(|(key, _)| kept.wants(key)).cloned().unzip();
        if !cells.is_empty() {
            let changed = change.map(|change| (change.make)(trace)).transpose()?;
            let outcomes = self.run_cells(changed.as_ref().unwrap_or(trace), cells)?;
            for (key, outcome) in keys.into_iter().zip(&outcomes) {
                kept.learn(key, Counts::of(outcome));
            }
        }
        let mut counts = Vec::new();
        for (key, _) in wanted {
            let found = kept.known[&key];
            kept.used.insert(key, found);
            counts.push(found);
        }
        Ok(counts.chunks(frames.len().max(1)).map(<[Counts]>::to_vec).collect())
    }

    /// The simulations that were used since the last call, as CSV.
    pub(crate) fn take_simulations(&self) -> String {
        let mut kept = self.simulations.lock().unwrap_or_else(PoisonError::into_inner);
        KeptSimulations::csv(&std::mem::take(&mut kept.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::string;

    fn faults(lab: &Lab) -> u64 {
        let trace = string((0..100).map(|time| time % 10)).unwrap();
        lab.simulations("loop", &trace, None, &["clock"], &[5]).unwrap()[0][0].when_full()
    }

    #[test]
    fn kept_simulations_come_back_as_they_were() {
        let lab = Lab::default();
        assert_eq!(faults(&lab), 95);
        let csv = lab.take_simulations();
        let again = Lab::default();
        again.simulations.lock().unwrap().recall(&csv, 0);
        assert_eq!(faults(&again), 95);
        assert_eq!(again.take_simulations(), csv);
        // What is kept is believed.
        let other = Lab::default();
        other.simulations.lock().unwrap().recall(&csv.replace(";100;", ";55;"), 0);
        assert_eq!(faults(&other), 50);
    }

    #[test]
    #[should_panic(expected = "the kept simulation of")]
    fn a_kept_simulation_that_is_not_what_comes_out_is_found() {
        let lab = Lab::default();
        faults(&lab);
        let csv = lab.take_simulations().replace(";100;", ";55;");
        let other = Lab::default();
        other.simulations.lock().unwrap().recall(&csv, 1);
        faults(&other);
    }
}
