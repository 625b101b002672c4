//! Many runs at once: every policy with every theta and seed, over programs that are decoded once.

use crate::analytic;
use crate::configuration::Configuration;
use crate::machine::{Job, Machine};
use crate::outcome::{Outcome, Sample};
use crate::program::{Program, ProgramError, ReferenceString};
use rayon::prelude::*;
use std::sync::Arc;
use sweephand_policy::policies::Vmin;
use sweephand_policy::task_registry::{RegisteredTaskPolicy, TaskSpec};
use sweephand_policy::{ArgumentError, SplitMix64};
use sweephand_trace::Interrupt;

/// Why a run cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A program cannot be executed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A policy does not take its arguments.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// VMIN is asked for what it is not defined for.
    #[error("policy 'vmin': looks ahead in the string of {reason}")]
    Vmin {
        /// What it needs.
        reason: &'static str,
    },
    /// It was asked to stop.
    #[error("was interrupted")]
    Interrupted,
}

/// A configuration with its programs in memory, and its sequence of tasks.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The machine.
    pub configuration: Configuration,
    /// The tasks in the order in which they become ready: the same for all runs.
    pub jobs: Vec<Job>,
    /// Has runs given up.
    pub interrupt: Interrupt,
}

/// A policy with one theta: what a line of results is about.
#[derive(Clone, Debug)]
pub struct Line {
    /// The policy, as it was named.
    pub policy: TaskSpec,
    /// Window of the working set in references; `None` for policies without one.
    pub theta_refs: Option<u64>,
}

/// A run of a [`Workload`].
#[derive(Clone, Debug)]
pub struct Cell {
    /// The policy with all its arguments.
    pub policy: TaskSpec,
    /// The seed of everything that is random.
    pub seed: u64,
}

impl Workload {
    /// Decodes the programs that the configuration names, in parallel.
    pub fn open(configuration: Configuration) -> Result<Self, MachineError> {
        let programs = configuration.tasks.programs.par_iter().map(|file| {
            let trace = file.trace();
            let name = trace.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            Program::open(trace, &name, configuration.irim).map(Arc::new)
        });
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(configuration, &programs))
    }

    /// A workload of programs that are in memory; the configuration's list of files is not looked
    /// at but for I/O.
    pub fn new(configuration: Configuration, programs: &[Arc<Program>]) -> Self {
        let mut random = SplitMix64::new(configuration.tasks.seed);
        let jobs = (0..configuration.tasks.count)
            .map(|_| {
                let choice = random.below(programs.len() as u64) as usize;
                let own = configuration.tasks.programs.get(choice).and_then(|file| file.io_interval_refs());
                let io_interval_refs = own.unwrap_or(configuration.io.interval_refs);
                Job { program: programs[choice].clone(), io_interval_refs }
            })
            .collect();
        Self { configuration, jobs, interrupt: Interrupt::default() }
    }

    /// References that a run executes.
    pub fn references(&self) -> u64 {
        self.jobs.iter().map(|job| job.program.references).sum()
    }

    /// The lines that come of some policies: one for each theta of the configuration. Policies
    /// without a theta, or with their own, have one.
    pub fn lines(&self, policies: &[TaskSpec]) -> Vec<Line> {
        let thetas = |policy: &TaskSpec| match policy.takes_theta() {
            true => self.configuration.theta.iter().copied().map(Some).collect(),
            false => vec![policy.theta()],
        };
        let line = |(policy, theta_refs): (&TaskSpec, _)| Line { policy: policy.clone(), theta_refs };
        let lines =
            policies.iter().flat_map(|policy| thetas(policy).into_iter().map(move |theta| (policy, theta)));
        lines.map(line).collect()
    }

    /// The runs of some lines: one for each seed of the configuration, by line.
    pub fn cells(&self, lines: &[Line]) -> Vec<Cell> {
        let seeds = &self.configuration.seeds;
        let cells = |line: &Line| {
            let policy = line.policy.with_theta(line.theta_refs);
            seeds.iter().map(move |&seed| Cell { policy: policy.clone(), seed })
        };
        lines.iter().flat_map(cells).collect()
    }

    /// Runs cells in parallel; results are in their order. `done` is called after each.
    pub fn run_all(
        &self,
        cells: &[Cell],
        sample_refs: u64,
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<(Outcome, Vec<Sample>)>, MachineError> {
        // One at a time, so that a slow run does not take others along to its processor.
        let runs = cells.par_iter().with_max_len(1).map(|cell| {
            let result = self.run(cell, sample_refs);
            done();
            result
        });
        runs.collect()
    }

    /// Runs one cell, with the machine described at every `sample_refs` of real time (0: never).
    pub fn run(&self, cell: &Cell, sample_refs: u64) -> Result<(Outcome, Vec<Sample>), MachineError> {
        if cell.policy.name() == Vmin::INFO.name {
            return Ok((self.look_ahead(cell)?, Vec::new()));
        }
        let Self { configuration, jobs, interrupt } = self;
        let policy = cell.policy.make_exact(configuration.frames)?;
        let limits_loading = cell.policy.limits_loading().unwrap_or(configuration.load_control.lt_rt);
        let mut machine = Machine::new(configuration, policy, jobs, cell.seed, limits_loading);
        machine.sample_every(sample_refs);
        machine.run_unless(interrupt).ok_or(MachineError::Interrupted)
    }

    /// VMIN: the single task alone, in as much memory as it wants, by closed form.
    fn look_ahead(&self, cell: &Cell) -> Result<Outcome, MachineError> {
        let [Job { program, .. }] = &self.jobs[..] else {
            return Err(MachineError::Vmin { reason: "one task alone: set tasks.count = 1" });
        };
        let ReferenceString::Full(references) = &program.string else {
            return Err(MachineError::Vmin { reason: "every reference: set irim = 0 and give a trace" });
        };
        let string: Vec<u32> = references.iter().map(|reference| reference.page()).collect();
        let tau = cell.policy.arguments().whole("theta", 1..=u64::MAX)?;
        let faults = analytic::vmin(&string, tau).faults;
        let (least, most) = self.configuration.devices.access_refs;
        let busy = faults * (least + most) / 2;
        let elapsed = program.references + busy;
        Ok(Outcome {
            references: program.references,
            elapsed_refs: elapsed,
            utilization: program.references as f64 / elapsed as f64,
            mean_mpl: 1.0,
            page_faults: faults,
            page_reads: faults,
            device_busy_refs: busy,
            activations: 1,
            ..Outcome::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(string: &[(u32, bool)]) -> Workload {
        let text = "name = 'test'\nframes = 10\ntheta = [4, 8]\nseeds = [1, 2, 3]\n[devices]\naccess_refs = [20, 40]\n\
                    [tasks]\nprograms = ['x']\ncount = 1\n";
        let program = Program::from_references("string", string.iter().copied());
        Workload::new(Configuration::parse(text).unwrap(), &[Arc::new(program)])
    }

    fn vmin(theta: u64) -> Cell {
        Cell { policy: TaskSpec::parse("vmin").unwrap().with_theta(Some(theta)), seed: 1 }
    }

    /// With tau = 4, VMIN takes eight faults on these twelve references (see `analytic`). Each
    /// takes a device 30 units of time on average.
    #[test]
    fn vmin_looks_ahead_and_waits_for_each_fault() {
        let e1 = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].map(|page| (page, false));
        let (outcome, samples) = workload(&e1).run(&vmin(4), 0).unwrap();
        assert!(samples.is_empty());
        let expected = Outcome {
            references: 12,
            elapsed_refs: 12 + 8 * 30,
            utilization: 12.0 / 252.0,
            mean_mpl: 1.0,
            page_faults: 8,
            page_reads: 8,
            device_busy_refs: 240,
            activations: 1,
            ..Outcome::default()
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn vmin_takes_one_task_with_every_reference() {
        let mut two = workload(&[(1, false)]);
        two.jobs.push(two.jobs[0].clone());
        assert!(two.run(&vmin(4), 0).unwrap_err().to_string().contains("one task alone"));
    }

    #[test]
    fn a_line_is_a_policy_with_a_theta_and_a_cell_has_a_seed_besides() {
        let workload = workload(&[(1, false), (2, true)]);
        assert_eq!(workload.references(), 2);
        let policies = ["wsclock", "ws:theta=5", "clock"].map(|policy| TaskSpec::parse(policy).unwrap());
        let lines = workload.lines(&policies);
        let told: Vec<_> = lines.iter().map(|line| (line.policy.name(), line.theta_refs)).collect();
        assert_eq!(told, [("wsclock", Some(4)), ("wsclock", Some(8)), ("ws", Some(5)), ("clock", None)]);
        let cells = workload.cells(&lines[1..3]);
        let told: Vec<_> =
            cells.iter().map(|cell| (cell.policy.name(), cell.policy.theta(), cell.seed)).collect();
        let of = |name, theta| [1, 2, 3].map(|seed| (name, Some(theta), seed));
        assert_eq!(told, [of("wsclock", 8), of("ws", 5)].concat());
    }
}
