//! Simulations that results are made of. They are kept beside the results (`ITEM.cells.csv`), so
//! that a result can be made again without running them.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use sweephand_sim::Outcome;
use xxhash_rust::xxh3::xxh3_64;

/// A simulation: program, change of its trace (`-` for none), policy, frames, and the checksum of
/// the trace before the change.
pub(crate) type Key = (String, String, String, usize, u64);

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
    pub(crate) fn of(outcome: &Outcome) -> Self {
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
    /// Those that were used since [`Self::take_used`].
    used: BTreeMap<Key, Counts>,
    /// One in this many of those that come from a file is run again; 0 for none.
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
    pub(crate) fn wants(&self, key: &Key) -> bool {
        let is_checked = || {
            let text = format!("{};{};{};{}", key.0, key.1, key.2, key.3);
            self.check_one_in > 0 && xxh3_64(text.as_bytes()).is_multiple_of(self.check_one_in)
        };
        !self.known.contains_key(key) || (self.recalled.contains(key) && is_checked())
    }

    /// Takes over what a simulation gave. Panics if something else was kept.
    pub(crate) fn learn(&mut self, key: Key, counts: Counts) {
        if let Some(known) = self.known.get(&key) {
            assert_eq!(*known, counts, "the kept simulation of {key:?}");
        }
        self.recalled.remove(&key);
        self.known.insert(key, counts);
    }

    /// A known simulation, which is noted as used.
    pub(crate) fn used(&mut self, key: Key) -> Counts {
        let found = self.known[&key];
        self.used.insert(key, found);
        found
    }

    /// The simulations that were used since the last call, as CSV.
    pub(crate) fn take_used(&mut self) -> String {
        Self::csv(&std::mem::take(&mut self.used))
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

#[cfg(test)]
mod tests {
    use crate::Lab;
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
