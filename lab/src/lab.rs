//! Tools that experiments share: finding traces, and running policies on them.

use crate::kept::{self, KeptSimulations};
use crate::kept_runs::KeptRuns;
use crate::report::Report;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sweephand_policy::PageId;
use sweephand_policy::registry::Spec;
use sweephand_sim::{
    Cell, ClassCounts, Outcome, RefaultDistances, Split, Sweep, SweepError, TierCounts, Tiers, Trajectory,
};
use sweephand_trace::{Header, Interrupt, Metadata, Trace, Writer, import_trace};
use xxhash_rust::xxh3::Xxh3;

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
    /// A trace that comes with the project is not in the checkout that this was built in.
    #[error("trace '{name}' comes with Sweephand and is not at {}: run from a checkout of the project", path.display())]
    NoBundledTrace {
        /// Its name.
        name: &'static str,
        /// Where it is looked for.
        path: PathBuf,
    },
    /// An input cannot be read.
    #[error("{}: {error}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Live experiments run the `sweephand` command.
    #[error(
        "this is measured by running programs live: build sweephand beside sweephand-lab, or give --sweephand FILE"
    )]
    NoCommand,
    /// A program that the lab needs is not here.
    #[error("{program} is needed: apt-get install {package}")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// A live run failed.
    #[error("{what}: {said}")]
    Live {
        /// What was run.
        what: String,
        /// What it said.
        said: String,
    },
    /// The simulation failed.
    #[error(transparent)]
    Sweep(#[from] sweephand_sim::SweepError),
    /// The tiers could not be simulated.
    #[error(transparent)]
    Tiers(#[from] sweephand_sim::TiersError),
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] sweephand_time::DeviceError),
    /// The machine could not be run.
    #[error(transparent)]
    Machine(#[from] sweephand_machine::MachineError),
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] sweephand_trace::Error),
}

/// A file that an item was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its name, under the folder with the traces of others or under the project's own `traces/`.
    pub file: String,
    /// Whether it comes with the project.
    pub bundled: bool,
    /// Checksum of the file's bytes (XXH3, 64 bits), in hexadecimal.
    pub checksum: String,
}

/// What a live run counted: the row of a CSV, or statistics, by name; what is not known is not
/// there.
pub(crate) type Counts = HashMap<String, String>;

/// What is simulated, the records of the trace that are done, and all of them.
type Progress = dyn Fn(&str, u64, u64) + Send + Sync;

/// What is done to a trace before policies see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Trace) -> Result<Trace, Error>,
}

/// The place where experiments run. It remembers what it has read and simulated, so that items can
/// share it.
#[derive(Default)]
pub struct Lab {
    /// The folder with traces of others: `$SWEEPHAND_TRACES`.
    traces: Option<PathBuf>,
    progress: Option<Box<Progress>>,
    outcomes: Mutex<HashMap<Simulated, Outcome>>,
    /// Traces of others that had to be converted, by file.
    converted: Mutex<HashMap<PathBuf, Arc<Trace>>>,
    /// Files read since [`Lab::take_inputs`] was called.
    inputs: Mutex<Vec<Input>>,
    /// Checksums of files, by path.
    checksums: Mutex<HashMap<PathBuf, String>>,
    /// The `sweephand` command, for live experiments.
    sweephand: Option<PathBuf>,
    /// What has been measured live, by name.
    measured: Mutex<HashMap<&'static str, Arc<Vec<Counts>>>>,
    /// Simulations that are kept with the results.
    pub(crate) simulations: Mutex<KeptSimulations>,
    /// Outcomes of the machine.
    pub(crate) machine_runs: Mutex<KeptRuns>,
}

/// What has been simulated: the checksum of the trace, the policy, the frames.
type Simulated = (u64, String, usize);

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab").field("traces", &self.traces).finish_non_exhaustive()
    }
}

/// The traces that come with the project, in the checkout that this crate is part of.
pub(crate) const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces");

impl Lab {
    /// A lab with the traces of others in a folder, if it is known.
    pub fn new(traces: Option<PathBuf>) -> Self {
        Self { traces, ..Self::default() }
    }

    /// The same, which tells `progress` how far a simulation is: its trace, records done and
    /// records in all.
    #[must_use]
    pub fn watched(self, progress: impl Fn(&str, u64, u64) + Send + Sync + 'static) -> Self {
        Self { progress: Some(Box::new(progress)), ..self }
    }

    /// The same, which can run programs live, by this `sweephand` command.
    #[must_use]
    pub fn live(self, sweephand: PathBuf) -> Self {
        Self { sweephand: Some(sweephand), ..self }
    }

    /// The same, which takes runs of the machine and simulations that a folder keeps
    /// (`*.cells.csv`) for known. It runs one in `check_one_in` again (0: none), and panics if that
    /// gives another outcome.
    #[must_use]
    pub fn recalling(self, folder: &Path, check_one_in: u64) -> Self {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in files.filter(|path| path.to_string_lossy().ends_with(".cells.csv")) {
            let csv = fs::read_to_string(&file).unwrap_or_default();
            let mut runs = self.machine_runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.recall(&csv, check_one_in);
            drop(runs);
            let mut simulations = self.simulations.lock().unwrap_or_else(PoisonError::into_inner);
            simulations.recall(&csv, check_one_in);
        }
        self
    }

    /// The command.
    pub(crate) fn sweephand(&self) -> Result<&Path, Error> {
        self.sweephand.as_deref().ok_or(Error::NoCommand)
    }

    /// What `measure` measures, once: items that show the same runs share them.
    pub(crate) fn measured(
        &self,
        name: &'static str,
        measure: impl FnOnce() -> Result<Vec<Counts>, Error>,
    ) -> Result<Arc<Vec<Counts>>, Error> {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = measured.get(name) {
            return Ok(Arc::clone(known));
        }
        let result = Arc::new(measure()?);
        measured.insert(name, Arc::clone(&result));
        Ok(result)
    }

    /// Opens one of the classic traces of file system and database caches that came with LIRS.
    pub fn classic_trace(&self, name: &'static str) -> Result<Trace, Error> {
        self.trace_of_others(name, format!("lirs/{name}.trace.gz"))
    }

    /// The recording of a SPLASH-3 program.
    pub fn splash_trace(&self, name: &'static str) -> Result<Trace, Error> {
        self.trace_of_others(name, format!("splash12/{name}.swt"))
    }

    /// A recording of a SPLASH-3 program in the recorder's wire format (PGTR), converted once.
    pub fn pgtr_trace(&self, name: &'static str) -> Result<Arc<Trace>, Error> {
        let file = format!("splash/{name}.pt.zst");
        let path = PathBuf::from(&file);
        self.path_of_others(name, &file)?;
        let mut converted = self.converted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = converted.get(&path) {
            return Ok(Arc::clone(trace));
        }
        let trace = Arc::new(self.trace_of_others(name, file)?);
        converted.insert(path, Arc::clone(&trace));
        Ok(trace)
    }

    /// A trace reduced to a window of `window` pages, by what `sweephand import --window` does.
    pub fn reduced(&self, trace: &Trace, window: u64) -> Result<Trace, Error> {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default())?;
        let end = import_trace(trace, &mut writer, window, &mut |_| {})?;
        let (file, _) = writer.finish(end)?;
        Ok(Trace::from_bytes(file.into_inner())?)
    }

    /// Opens a trace that comes with the project, by its name in `traces/` without `.swt`.
    pub fn bundled_trace(&self, name: &'static str) -> Result<Trace, Error> {
        let file = format!("{name}.swt");
        let path = Path::new(BUNDLED).join(&file);
        if !path.exists() {
            return Err(Error::NoBundledTrace { name, path });
        }
        self.uses(file, true)?;
        Ok(Trace::open(&path)?)
    }

    /// Reads a text that comes with the project, by the name of its file in `traces/`.
    pub(crate) fn bundled_text(&self, file: &'static str) -> Result<String, Error> {
        let path = Path::new(BUNDLED).join(file);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoBundledTrace { name: file, path },
            _ => Error::Input { path, error },
        })?;
        self.uses(file.to_string(), true)?;
        Ok(text)
    }

    fn trace_of_others(&self, name: &'static str, file: String) -> Result<Trace, Error> {
        Ok(Trace::open(&self.path_of_others(name, &file)?)?)
    }

    /// Where a trace of others is, which is then noted as an input.
    fn path_of_others(&self, name: &'static str, file: &str) -> Result<PathBuf, Error> {
        match self.traces.as_ref().map(|traces| traces.join(file)).filter(|path| path.exists()) {
            Some(path) => {
                self.uses(file.to_string(), false)?;
                Ok(path)
            }
            None => Err(Error::NoTrace { name, file: file.to_string() }),
        }
    }

    /// Notes a trace that comes with the project, which an item reads in another way.
    pub(crate) fn uses_bundled(&self, path: &Path) -> Result<(), Error> {
        let file = path.strip_prefix(BUNDLED).unwrap_or(path);
        self.uses(file.display().to_string(), true)
    }

    fn uses(&self, file: String, bundled: bool) -> Result<(), Error> {
        let input = Input { file, bundled, checksum: String::new() };
        let path = self.path_of(&input).expect("it has been looked for");
        let checksum = self.checksum(&path).map_err(|error| Error::Input { path, error })?;
        let input = Input { checksum, ..input };
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        if !inputs.contains(&input) {
            inputs.push(input);
        }
        Ok(())
    }

    /// The files read since this was called last, in the order of their first use.
    pub fn take_inputs(&self) -> Vec<Input> {
        std::mem::take(&mut self.inputs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether an input is there and unchanged.
    pub fn has(&self, input: &Input) -> bool {
        let checksum = self.path_of(input).and_then(|path| self.checksum(&path).ok());
        checksum.as_ref() == Some(&input.checksum)
    }

    fn path_of(&self, input: &Input) -> Option<PathBuf> {
        let folder = if input.bundled { Some(Path::new(BUNDLED)) } else { self.traces.as_deref() };
        Some(folder?.join(&input.file))
    }

    /// The checksum of a file, worked out once.
    fn checksum(&self, path: &Path) -> io::Result<String> {
        let mut checksums = self.checksums.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = checksums.get(path) {
            return Ok(known.clone());
        }
        let checksum = checksum(path)?;
        checksums.insert(path.to_owned(), checksum.clone());
        Ok(checksum)
    }

    /// Runs policies at several memory sizes, every reference shown to them. The results are by
    /// policy, then by size. What was run before is not run again.
    pub fn outcomes(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
    ) -> Result<Vec<Vec<Outcome>>, Error> {
        let checksum = trace.header().checksum;
        let key = |cell: &Cell| (checksum, cell.spec.to_string(), cell.frames);
        let wanted = cells(policies, frames)?;
        let known = |cell: &Cell| self.known_outcomes().get(&key(cell)).copied();
        let cells: Vec<Cell> = wanted.iter().filter(|cell| known(cell).is_none()).cloned().collect();
        if !cells.is_empty() {
            let outcomes = self.run_cells(trace, cells.clone())?;
            self.known_outcomes().extend(cells.iter().map(key).zip(outcomes));
        }
        let outcomes = wanted.iter().map(|cell| known(cell).expect("it has been run")).collect();
        Ok(by_policy(outcomes, frames))
    }

    /// Refault distances of policies at one memory size.
    pub fn refault_distances(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: usize,
    ) -> Result<Vec<RefaultDistances>, Error> {
        let cells = cells(policies, &[frames])?;
        let results = self.sweep(trace, &Sweep { cells, refault_distances: true, ..Sweep::default() })?;
        Ok(results.iter().map(|(outcome, _)| outcome.refault_distances.expect("asked for")).collect())
    }

    /// Faults of policies at one memory size, those while a frame was free left out, in each of
    /// `parts` equal parts of the trace's records.
    pub fn faults_over_time(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: usize,
        parts: u64,
    ) -> Result<Vec<Vec<u64>>, Error> {
        let records = trace.header().totals.records;
        let part = |record, _| (record * parts / records) as usize;
        let counts = self.by_class(trace, policies, &[frames], parts as usize, part)?;
        let counted = |part: &ClassCounts| part.faults - part.warmup_faults;
        Ok(counts.iter().map(|by_size| by_size[0].iter().map(counted).collect()).collect())
    }

    fn known_outcomes(&self) -> MutexGuard<'_, HashMap<Simulated, Outcome>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs cells, every reference shown to them.
    pub(crate) fn run_cells(&self, trace: &Trace, cells: Vec<Cell>) -> Result<Vec<Outcome>, Error> {
        let results = self.sweep(trace, &Sweep { cells, ..Sweep::default() })?;
        Ok(results.into_iter().map(|(outcome, _)| outcome).collect())
    }

    /// Simulates splits of memories. The results are in their order.
    pub(crate) fn tiers(
        &self,
        trace: &Trace,
        tiers: &Tiers,
        splits: &[Split],
    ) -> Result<Vec<(Outcome, TierCounts)>, Error> {
        Ok(tiers.run(trace, splits, false, &Interrupt::default(), &self.progress_of(trace))?)
    }

    /// Says how far a simulation of a trace is.
    fn progress_of(&self, trace: &Trace) -> impl Fn(u64) {
        let Header { totals, metadata, .. } = trace.header();
        move |done| {
            if let Some(progress) = &self.progress {
                progress(&metadata.program, done, totals.records);
            }
        }
    }

    fn sweep(&self, trace: &Trace, sweep: &Sweep) -> Result<Vec<(Outcome, Trajectory)>, Error> {
        Ok(sweep.run(trace, &self.progress_of(trace))?)
    }

    /// Runs policies with references collapsed, as the experiments on classic traces want it. The
    /// results are by policy, then by size.
    pub fn collapsed(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
        sample_records: u64,
    ) -> Result<Vec<Vec<(Outcome, Trajectory)>>, Error> {
        let sweep =
            Sweep { cells: cells(policies, frames)?, collapse: true, sample_records, ..Sweep::default() };
        Ok(by_policy(self.sweep(trace, &sweep)?, frames))
    }

    /// Runs policies at several memory sizes, counts by class of reference (see
    /// [`Sweep::run_by_class`]). The results are by policy, then by size, then by class.
    pub fn by_class(
        &self,
        trace: &Trace,
        policies: &[&str],
        frames: &[usize],
        classes: usize,
        class_of: impl Fn(u64, PageId) -> usize + Sync,
    ) -> Result<Vec<Vec<Vec<ClassCounts>>>, Error> {
        let sweep = Sweep { cells: cells(policies, frames)?, ..Sweep::default() };
        Ok(by_policy(sweep.run_by_class(trace, classes, class_of)?, frames))
    }

    /// Hit ratios in percent with references collapsed, by policy and size, of all references of
    /// the trace.
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
    ) -> Result<Vec<Vec<kept::Counts>>, Error> {
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
        let mut known = self.simulations.lock().unwrap_or_else(PoisonError::into_inner);
        let (keys, cells): (Vec<_>, Vec<_>) =
            wanted.iter().filter(|(key, _)| known.wants(key)).cloned().unzip();
        if !cells.is_empty() {
            let changed = change.map(|change| (change.make)(trace)).transpose()?;
            let outcomes = self.run_cells(changed.as_ref().unwrap_or(trace), cells)?;
            for (key, outcome) in keys.into_iter().zip(&outcomes) {
                known.learn(key, kept::Counts::of(outcome));
            }
        }
        let counts: Vec<_> = wanted.into_iter().map(|(key, _)| known.used(key)).collect();
        Ok(counts.chunks(frames.len().max(1)).map(<[_]>::to_vec).collect())
    }

    /// Runs an item, and puts the simulations that it used beside its result.
    pub(crate) fn with_simulations(
        &self,
        run: impl FnOnce(&Self) -> Result<Report, Error>,
    ) -> Result<Report, Error> {
        self.take_simulations();
        let mut report = run(self)?;
        report.cells = self.take_simulations();
        Ok(report)
    }

    /// The simulations that were used since the last call, as CSV.
    pub(crate) fn take_simulations(&self) -> String {
        self.simulations.lock().unwrap_or_else(PoisonError::into_inner).take_used()
    }
}

/// The checksum of a file's bytes (XXH3, 64 bits), in hexadecimal.
pub fn checksum(path: &Path) -> io::Result<String> {
    let (mut file, mut state) = (File::open(path)?, Xxh3::new());
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(format!("{:016x}", state.digest())),
            read => state.update(&bytes[..read]),
        }
    }
}

/// Every policy with every size, by policy.
fn cells(policies: &[&str], frames: &[usize]) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    for policy in policies {
        let spec = Spec::parse(policy).map_err(SweepError::from)?;
        cells.extend(frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
    }
    Ok(cells)
}

fn by_policy<T: Clone>(results: Vec<T>, frames: &[usize]) -> Vec<Vec<T>> {
    results.chunks(frames.len().max(1)).map(<[_]>::to_vec).collect()
}
