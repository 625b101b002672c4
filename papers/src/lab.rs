//! What experiments share: where traces are, and running policies on them.

use std::path::PathBuf;
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

impl Lab {
    /// Opens one of the classic traces of file system and database caches that came with LIRS.
    pub fn classic_trace(&self, name: &'static str) -> Result<Trace, Error> {
        let file = format!("lirs/{name}.trace.gz");
        match self.traces.as_ref().map(|traces| traces.join(&file)).filter(|path| path.exists()) {
            Some(path) => Ok(Trace::open(&path)?),
            None => Err(Error::NoTrace { name, file }),
        }
    }

    /// Runs policies, with references collapsed, at several memory sizes. The results are by policy, then by size.
    pub fn sweep(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
        sample_records: u64,
    ) -> Result<Vec<Vec<(Outcome, Trajectory)>>, Error> {
        let mut cells = Vec::new();
        for policy in policies {
            let spec = Spec::parse(policy).map_err(sweephand_sim::SweepError::from)?;
            cells.extend(frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
        }
        let results = Sweep { cells, collapse: true, sample_records }.run(trace, &|_| {})?;
        Ok(results.chunks(frames.len().max(1)).map(<[_]>::to_vec).collect())
    }

    /// Hit ratios in percent, by policy and size, of all references of the trace.
    pub fn hit_ratios(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
    ) -> Result<Vec<Vec<f64>>, Error> {
        let references = trace.header().totals.references as f64;
        let percent =
            |(outcome, _): &(Outcome, Trajectory)| 100.0 * (1.0 - outcome.faults as f64 / references);
        let results = self.sweep(trace, policies, frames, 0)?;
        Ok(results.iter().map(|by_size| by_size.iter().map(percent).collect()).collect())
    }
}
