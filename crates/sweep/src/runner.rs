//! Computes cells; every worker has one runner.

use crate::{Cell, Error, Sample, VERSION, revision};
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};
use sweephand_policy::registry::Spec;
use sweephand_results::{CellColumns, SimulatedTrace, SimulationRow, SweepRow};
use sweephand_sim::{MemorySize, Sampling, Sweep, Warmup};
use sweephand_trace::Trace;

/// Computes cells, one after the other, on one processor. It keeps the last trace open: cells of
/// one trace come together.
#[derive(Default)]
pub struct Runner {
    last: Option<(PathBuf, FileState, Trace)>,
    /// Files that have been hashed, with what they were like then and what they had to be.
    checked: HashMap<PathBuf, (FileState, String)>,
}

/// What a file is like without reading it.
type FileState = (u64, SystemTime);

impl Runner {
    /// Computes a cell whose trace lies at `path`.
    pub fn run(&mut self, cell: &Cell, path: &Path) -> Result<SweepRow, Error> {
        let start = Instant::now();
        if cell.version != VERSION {
            return Err(Error::Other(format!(
                "this worker has sweephand {VERSION}, the plan was made with {}: install the same version everywhere",
                cell.version
            )));
        }
        let [spec] = &Spec::parse_list(&cell.policy)?[..] else {
            return Err(Error::Other(format!("policy '{}': a cell has one", cell.policy)));
        };
        let ours = revision(spec);
        if cell.revision != ours {
            return Err(Error::Other(format!(
                "this worker's {spec} is revision {ours}, the plan's is {}: install the same version everywhere",
                cell.revision
            )));
        }
        let size: MemorySize = cell.memory.parse()?;
        let trace = self.open(cell, path)?;
        let mut described = SimulatedTrace { trace: cell.trace.name.clone(), ..SimulatedTrace::of(trace) };
        if described.records == 0 {
            return Err(Error::Other(format!("{}: has no references to simulate", cell.trace.name)));
        }
        let [frames] = size.frames(described.distinct_pages, described.page_bytes)?[..] else {
            return Err(Error::Other(format!("memory '{}': a cell has one size", cell.memory)));
        };
        let warmup = cell.warmup.as_ref().map(|warmup| warmup.parse::<Warmup>()?.end(trace)).transpose()?;
        warmup.iter().for_each(|start| described.warmed_up(start));
        let sweep = Sweep {
            cells: vec![sweephand_sim::Cell { spec: spec.clone(), frames }],
            cuts: warmup.iter().map(|start| start.records).collect(),
            ..Sweep::default()
        };
        // A worker has one processor; what else runs on the machine are other workers.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| Error::Other(format!("no thread to simulate with: {error}")))?;
        let simulation = pool.install(|| -> Result<SimulationRow, Error> {
            let Some(Sample { size, seed }) = &cell.sample else {
                let (outcome, series) = &sweep.run(trace, &|_| ())?[0];
                let counted = series.at_cuts.first().map_or(*outcome, |before| outcome.since(before));
                return Ok(described.row(spec, frames, &counted));
            };
            let sampling = Sampling { size: size.parse()?, seed: *seed };
            let estimates = sampling.run(trace, &sweep, &|_| ())?;
            described.sampled(&estimates);
            Ok(described.estimated_row(spec, frames, &estimates.cells[0]))
        })?;
        Ok(SweepRow {
            simulation,
            cell: CellColumns {
                memory: cell.memory.clone(),
                window: described.window,
                sample: cell.sample.as_ref().map(|sample| sample.size.clone()),
                sample_seed: cell.sample.as_ref().map(|sample| sample.seed),
                warmup: cell.warmup.clone(),
                trace_hash: cell.trace.hash.to_string(),
                version: cell.version.clone(),
                seconds: start.elapsed().as_secs_f64(),
                cell: cell.key().to_string(),
            },
        })
    }

    /// Opens the cell's trace, unless it is open, and checks that it is the one that was planned
    /// with.
    fn open(&mut self, cell: &Cell, path: &Path) -> Result<&Trace, Error> {
        let file = |error: io::Error| match error.kind() {
            // It will not be there the next time either.
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                Error::Other(format!("{}: {error}", cell.trace.name))
            }
            _ => Error::file(Path::new(&cell.trace.name), error),
        };
        let state = state(&path.metadata().map_err(file)?).map_err(file)?;
        let expected = cell.trace.hash.to_string();
        let is_checked = self.checked.get(path).is_some_and(|(at, hash)| *at == state && *hash == expected);
        if !is_checked {
            cell.trace.hash.check(path, &cell.trace.name)?;
            self.checked.insert(path.to_owned(), (state, expected));
        }
        if !self.last.as_ref().is_some_and(|(last, at, _)| last == path && *at == state) {
            // One at a time: a trace of another format is held in memory.
            self.last = None;
            self.last = Some((path.to_owned(), state, Trace::open(path)?));
        }
        Ok(&self.last.as_ref().expect("it was opened").2)
    }
}

fn state(metadata: &Metadata) -> io::Result<FileState> {
    Ok((metadata.len(), metadata.modified()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Hash, TraceFile};
    use std::fs;

    #[test]
    fn a_trace_that_is_replaced_between_two_cells_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        fs::write(&path, "1\n2\n1\n").unwrap();
        let spec = &Spec::parse_list("lru").unwrap()[0];
        let cell = |memory: &str| Cell {
            trace: TraceFile {
                name: "t".into(),
                location: path.display().to_string(),
                hash: Hash::of(&path, Algorithm::Xxh3).unwrap(),
            },
            policy: "lru".into(),
            memory: memory.into(),
            sample: None,
            warmup: None,
            revision: revision(spec),
            version: VERSION.into(),
        };
        let (one, two) = (cell("1p"), cell("2p"));
        let mut runner = Runner::default();
        assert_eq!(runner.run(&one, &path).unwrap().simulation.faults, 3);
        assert_eq!(runner.run(&two, &path).unwrap().simulation.faults, 2);
        fs::write(&path, "1\n2\n1\n2\n").unwrap();
        let error = runner.run(&one, &path).unwrap_err().to_string();
        assert!(
            error.starts_with("t: ") && error.contains("is not the file that was planned with"),
            "{error}"
        );
    }
}
