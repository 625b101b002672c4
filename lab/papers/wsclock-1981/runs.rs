//! Runs of the machine for the WSCLOCK items: its workloads, and outcomes that are kept.
//!
//! Programs are folded: eight neighbouring pages become one. Today's programs use 155 to 617 pages
//! of 4 KiB; the paper's used about 79. Folded they use 33 to 100, so that the paper's memory and
//! devices fit them as they are.

use crate::kept_runs::KeptRuns;
use crate::lab::BUNDLED;
use crate::workload::folded;
use crate::{Error, Lab, Measurement, Published};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use sweephand_machine::{Cell, Configuration, Outcome, Program, Workload};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_trace::Trace;
use xxhash_rust::xxh3::xxh3_64;

/// The configurations.
pub(crate) const NAMES: [&str; 3] = ["A", "B", "C"];

/// Neighbouring pages that are taken for one.
pub(crate) const FOLD: u64 = 8;

/// Mean virtual time between a task's I/O requests: a page of I/O for as many instructions as the
/// page has bits (Amdahl's rule), at the paper's 4 million references for 2 to 2.5 million
/// instructions, is a request every 52,000 to 66,000 references.
pub(crate) const IO_INTERVAL_REFS: u64 = 60_000;

/// Mean time of a task's I/O request for each reference between two. With it the processor is busy
/// for about 60 % of the time, as in the paper.
pub(crate) const IO_LOAD: f64 = 7.5;

/// Omega of the intervals; 0 for every reference.
pub(crate) const OMEGA: u64 = 5_000;

/// The paper's configuration (Table 1) for folded programs.
pub(crate) fn configuration(number: usize) -> Configuration {
    let table = Published::read(include_str!("table-1.csv"));
    let column = table.column(NAMES[number]);
    let mut configuration =
        Configuration::built_in(NAMES[number], Path::new(BUNDLED)).expect("it is built in");
    configuration.frames = column[0] as usize;
    configuration.devices.access_refs = (1000 * column[1] as u64, 1000 * column[2] as u64);
    set_io(&mut configuration, IO_INTERVAL_REFS, IO_LOAD);
    configuration
}

/// Sets the tasks' I/O. `load` is what [`IO_LOAD`] is; a request takes a third less than the mean
/// to a third more.
pub(crate) fn set_io(configuration: &mut Configuration, interval_refs: u64, load: f64) {
    let mean = load * interval_refs as f64;
    configuration.io.interval_refs = interval_refs;
    configuration.io.service_refs = ((mean * 2.0 / 3.0) as u64, (mean * 4.0 / 3.0) as u64);
}

/// The folded programs, by fold and omega; made once.
fn programs(fold: u64, omega: u64) -> Result<Vec<Arc<Program>>, Error> {
    type Made = BTreeMap<(u64, u64), Vec<Arc<Program>>>;
    static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(programs) = made.get(&(fold, omega)) {
        return Ok(programs.clone());
    }
    let files = configuration(0).tasks.programs;
    let programs = files.iter().map(|file| {
        let name = file.trace().file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
        let trace = folded(&Trace::open(file.trace())?, fold)?;
        let program = Program::from_trace(&trace, &name, omega);
        Ok(Arc::new(program.map_err(sweephand_machine::MachineError::from)?))
    });
    let programs = programs.collect::<Result<Vec<_>, Error>>()?;
    made.insert((fold, omega), programs.clone());
    Ok(programs)
}

impl Lab {
    /// The runs of the machine that were used since the last call, as CSV.
    pub(crate) fn take_cells(&self) -> String {
        let mut kept = self.machine_runs.lock().unwrap_or_else(PoisonError::into_inner);
        KeptRuns::csv(&std::mem::take(&mut kept.used))
    }
}

/// The runs of one line of a table, by seed.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) theta: u64,
    pub(crate) runs: Vec<Outcome>,
}

impl Line {
    /// A measure by seed.
    pub(crate) fn each(&self, of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    pub(crate) fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.each(of).iter().sum::<f64>() / self.runs.len() as f64
    }

    /// In percent.
    pub(crate) fn utilization(&self) -> f64 {
        self.mean(utilization)
    }
}

/// The processor at work, in percent of the time.
pub(crate) fn utilization(run: &Outcome) -> f64 {
    100.0 * run.utilization
}

/// Pages looked at for each page replaced.
pub(crate) fn travel(run: &Outcome) -> f64 {
    run.pointer_travel().unwrap_or(f64::NAN)
}

/// The paging devices at work, in percent of the time; of several the mean.
pub(crate) fn busy(run: &Outcome, devices: usize) -> f64 {
    100.0 * run.device_busy_refs as f64 / run.elapsed_refs as f64 / devices as f64
}

/// What `b` is more than `a`, by seed, in a measure.
pub(crate) fn more(
    of: impl Into<String>,
    a: &Line,
    b: &Line,
    measure: impl Fn(&Outcome) -> f64,
    decimals: usize,
) -> Measurement {
    let differences: Vec<f64> = a.runs.iter().zip(&b.runs).map(|(a, b)| measure(b) - measure(a)).collect();
    Measurement::mean(of, &differences, decimals)
}

/// How much more `b` uses the processor than `a`, by seed, in percent of `a`.
pub(crate) fn gain(of: impl Into<String>, a: &Line, b: &Line) -> Measurement {
    let gains: Vec<f64> = a
        .runs
        .iter()
        .zip(&b.runs)
        .map(|(a, b)| 100.0 * (b.utilization - a.utilization) / a.utilization)
        .collect();
    Measurement::mean(of, &gains, 1)
}

/// Runs a policy on a configuration with every theta and seed. The results are by theta.
pub(crate) fn lines(
    lab: &Lab,
    configuration: &Configuration,
    policy: &str,
    thetas: &[u64],
    seeds: &[u64],
) -> Result<Vec<Line>, Error> {
    lines_folded(lab, FOLD, configuration, policy, thetas, seeds)
}

/// The same with `fold` neighbouring pages of the programs taken for one.
pub(crate) fn lines_folded(
    lab: &Lab,
    fold: u64,
    configuration: &Configuration,
    policy: &str,
    thetas: &[u64],
    seeds: &[u64],
) -> Result<Vec<Line>, Error> {
    let spec = TaskSpec::parse(policy).map_err(sweephand_machine::MachineError::from)?;
    let takes_theta = spec.takes_theta();
    // What decides the outcome, but for the programs.
    let mut shown = configuration.clone();
    shown.tasks.programs.clear();
    (shown.policies, shown.theta, shown.seeds) = (Vec::new(), Vec::new(), Vec::new());
    let shown = serde_json::to_string(&shown).expect("it is plain");
    let own_io: Vec<_> =
        configuration.tasks.programs.iter().filter_map(|program| program.io_interval_refs()).collect();
    let shown = if own_io.is_empty() { shown } else { format!("{shown} I/O {own_io:?}") };
    let shown = if fold == FOLD { shown } else { format!("{shown} fold {fold}") };
    let mut asked = Vec::new();
    for &theta in thetas {
        for &seed in seeds {
            let theta = if takes_theta { format!(" theta {theta}") } else { String::new() };
            let of = format!("{};{policy}{theta};{seed}", configuration.name);
            let key = format!("{:016x}", xxh3_64(format!("{of};{shown}").as_bytes()));
            asked.push((key, of));
        }
    }
    let mut kept = lab.machine_runs.lock().unwrap_or_else(PoisonError::into_inner);
    let checked =
        |key: &str| kept.check_one_in > 0 && xxh3_64(key.as_bytes()).is_multiple_of(kept.check_one_in);
    let places = thetas.iter().flat_map(|&theta| seeds.iter().map(move |&seed| (theta, seed)));
    let to_run: Vec<_> = asked
        .iter()
        .zip(places)
        .filter(|((key, _), _)| !kept.known.contains_key(key) || checked(key))
        .collect();
    if !to_run.is_empty() {
        let cells: Vec<Cell> = to_run
            .iter()
            .map(|(_, (theta, seed))| Cell {
                policy: if takes_theta { spec.with_theta(Some(*theta)) } else { spec.clone() },
                seed: *seed,
            })
            .collect();
        let workload = Workload::new(configuration.clone(), &programs(fold, configuration.irim)?);
        for (((key, of), _), (outcome, _)) in to_run.iter().zip(workload.run_all(&cells, 0, &|| {})?) {
            let outcome = KeptRuns::measures(&outcome);
            if let Some((_, known)) = kept.known.get(key) {
                assert_eq!(*known, outcome, "the kept outcome of {of}");
            }
            kept.known.insert(key.clone(), (of.clone(), outcome));
        }
    }
    let mut runs = Vec::new();
    for (key, _) in &asked {
        let found = kept.known[key].clone();
        runs.push(found.1);
        kept.used.insert(key.clone(), found);
    }
    let by_theta = runs.chunks(seeds.len()).map(<[Outcome]>::to_vec);
    Ok(thetas.iter().zip(by_theta).map(|(&theta, runs)| Line { theta, runs }).collect())
}

/// References of a run, and its transitions if they are intervals.
pub(crate) fn lengths(omega: u64) -> Result<(u64, u64), Error> {
    let workload = Workload::new(configuration(0), &programs(FOLD, omega)?);
    let transitions = workload.jobs.iter().map(|job| match &job.program.string {
        sweephand_machine::ReferenceString::Intervals { transitions, .. } => transitions.len() as u64,
        sweephand_machine::ReferenceString::Full(references) => references.len() as u64,
    });
    Ok((workload.references(), transitions.sum()))
}

/// A run with the time that it took.
pub(crate) struct Timed {
    pub(crate) references: u64,
    pub(crate) seconds: f64,
}

/// Runs a policy on configuration B, over intervals or every reference.
pub(crate) fn timed(policy: &str, intervals: bool) -> Result<Timed, Error> {
    let mut configuration = configuration(1);
    configuration.irim = if intervals { OMEGA } else { 0 };
    let policy = TaskSpec::parse(policy).map_err(sweephand_machine::MachineError::from)?;
    let programs = programs(FOLD, configuration.irim)?;
    let workload = Workload::new(configuration, &programs);
    let cell = Cell { policy: policy.with_theta(Some(700_000)), seed: 1 };
    let start = std::time::Instant::now();
    let (outcome, _) = workload.run(&cell, 0)?;
    Ok(Timed { references: outcome.references, seconds: start.elapsed().as_secs_f64() })
}

/// When memory is first full, in references of real time.
pub(crate) fn first_full(configuration: &Configuration, policy: &str, seed: u64) -> Result<f64, Error> {
    let policy = TaskSpec::parse(policy).map_err(sweephand_machine::MachineError::from)?;
    let workload = Workload::new(configuration.clone(), &programs(FOLD, configuration.irim)?);
    let (_, samples) = workload.run(&Cell { policy, seed }, 100_000)?;
    let full = samples.iter().find(|sample| sample.free_frames == 0);
    Ok(full.map_or(f64::INFINITY, |sample| sample.time_refs as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_outcomes_come_back_as_they_were() {
        let outcome = Outcome {
            references: 254_000_001,
            elapsed_refs: 400_000_003,
            mean_mpl: 1.0 / 3.0,
            replacements: 7,
            hand_steps: Some(91),
            ..Outcome::default()
        };
        let measures = KeptRuns::measures(&outcome);
        let without_hand = Outcome { hand_steps: None, ..measures };
        let cells = BTreeMap::from([
            ("a".to_string(), ("A;ws:lt-rt=off,lr=used theta 5;1".to_string(), measures)),
            ("b".to_string(), ("A;ws;2".to_string(), without_hand)),
        ]);
        let mut kept = KeptRuns::default();
        kept.recall(&KeptRuns::csv(&cells), 0);
        assert_eq!(kept.known.into_iter().collect::<BTreeMap<_, _>>(), cells);
        assert_eq!(travel(&measures), 13.0);
    }

    #[test]
    fn another_configuration_is_another_run() {
        let lab = Lab::default();
        let mut small = configuration(0);
        small.tasks.count = 1;
        let run = |configuration: &Configuration| {
            lines(&lab, configuration, "wsclock", &[200_000], &[1]).unwrap().remove(0).runs
        };
        let first = run(&small);
        assert_eq!(run(&small), first);
        small.frames = 20;
        assert_ne!(run(&small), first);
        assert_eq!(lab.take_cells().lines().count(), 3, "a heading and two runs");
    }

    #[test]
    #[should_panic(expected = "the kept outcome of A;wsclock theta 200000;1")]
    fn a_kept_outcome_that_is_not_what_comes_out_is_found() {
        let mut small = configuration(0);
        small.tasks.count = 1;
        let lab = Lab::default();
        let run = |lab: &Lab| lines(lab, &small, "wsclock", &[200_000], &[1]).unwrap();
        run(&lab);
        let folder = tempfile::tempdir().unwrap();
        let cells = lab.take_cells();
        let faults = cells.lines().nth(1).unwrap().split(';').nth(8).unwrap().to_string();
        let wrong = cells.replace(&format!(";{faults};"), ";1;");
        std::fs::write(folder.path().join("x.cells.csv"), wrong).unwrap();
        run(&Lab::default().recalling(folder.path(), 1));
    }
}
