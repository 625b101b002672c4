//! What experiments share: where traces are, and running policies on them.

use std::path::{Path, PathBuf};
use sweephand_policy::registry::Spec;
use sweephand_sim::{Cell, Outcome, Sweep, Trajectory};
use sweephand_trace::Trace;

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such paper or item.
    #[error("'{name}' is no paper or item; known: {known}")]
    UnknownItem {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A trace that does not come with the project.
    #[error(
        "trace '{name}' is needed and does not come with Sweephand: put it at DIR/{file} and set SWEEPHAND_TRACES=DIR \
         or give --traces DIR (the README says where to get it)"
    )]
    NoTrace {
        /// Its name.
        name: &'static str,
        /// Where it is looked for.
        file: String,
    },
    /// A trace that comes with the project is not where the project was built.
    #[error("trace '{name}' comes with Sweephand and is not at {}: run from a checkout of the project", path.display())]
    NoBundledTrace {
        /// Its name.
        name: &'static str,
        /// Where it is looked for.
        path: PathBuf,
    },
    /// The simulation failed.
    #[error(transparent)]
    Sweep(#[from] sweephand_sim::SweepError),
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] sweephand_trace::Error),
}

/// The place where experiments run.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The folder with traces of others: `$SWEEPHAND_TRACES`.
    pub traces: Option<PathBuf>,
}

/// The traces that come with the project, beside this crate.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces");

impl Lab {
    /// Opens one of the classic traces of file system and database caches that came with LIRS.
    pub fn classic_trace(&self, name: &'static str) -> Result<Trace, Error> {
        self.trace_of_others(name, format!("lirs/{name}.trace.gz"))
    }

    /// Opens the recording of a SPLASH-3 program.
    pub fn splash_trace(&self, name: &'static str) -> Result<Trace, Error> {
        self.trace_of_others(name, format!("splash/{name}.pt.zst"))
    }

    /// Opens a trace that comes with the project, by its name in `traces/` without `.swt`.
    pub fn bundled_trace(&self, name: &'static str) -> Result<Trace, Error> {
        let path = Path::new(BUNDLED).join(format!("{name}.swt"));
        if path.exists() { Ok(Trace::open(&path)?) } else { Err(Error::NoBundledTrace { name, path }) }
    }

    fn trace_of_others(&self, name: &'static str, file: String) -> Result<Trace, Error> {
        match self.traces.as_ref().map(|traces| traces.join(&file)).filter(|path| path.exists()) {
            Some(path) => Ok(Trace::open(&path)?),
            None => Err(Error::NoTrace { name, file }),
        }
    }

    /// Runs policies at several memory sizes, every reference shown to them. The results are by policy, then by size.
    pub fn outcomes(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
    ) -> Result<Vec<Vec<Outcome>>, Error> {
        let sweep = Sweep { cells: cells(policies, frames)?, ..Sweep::default() };
        let outcomes: Vec<_> = sweep.run(trace, &|_| {})?.into_iter().map(|(outcome, _)| outcome).collect();
        Ok(by_policy(outcomes, frames))
    }

    /// Runs policies with references collapsed, as the experiments on classic traces want it. The results are by
    /// policy, then by size.
    pub fn collapsed(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
        sample_records: u64,
    ) -> Result<Vec<Vec<(Outcome, Trajectory)>>, Error> {
        let sweep =
            Sweep { cells: cells(policies, frames)?, collapse: true, sample_records, ..Sweep::default() };
        Ok(by_policy(sweep.run(trace, &|_| {})?, frames))
    }

    /// Hit ratios in percent with references collapsed, by policy and size, of all references of the trace.
    pub fn hit_ratios(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
    ) -> Result<Vec<Vec<f64>>, Error> {
        let references = trace.header().totals.references as f64;
        let percent =
            |(outcome, _): &(Outcome, Trajectory)| 100.0 * (1.0 - outcome.faults as f64 / references);
        let results = self.collapsed(trace, policies, frames, 0)?;
        Ok(results.iter().map(|by_size| by_size.iter().map(percent).collect()).collect())
    }
}

/// Every policy with every size, by policy.
fn cells(policies: &[&str], frames: &[usize]) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    for policy in policies {
        let spec = Spec::parse(policy).map_err(sweephand_sim::SweepError::from)?;
        cells.extend(frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
    }
    Ok(cells)
}

fn by_policy<T: Clone>(results: Vec<T>, frames: &[usize]) -> Vec<Vec<T>> {
    results.chunks(frames.len().max(1)).map(<[_]>::to_vec).collect()
}
