//! Sweeps: the plan, the dataset, a cell. `sweephand/_sweep.py` decides which process computes
//! which cell.

use crate::error::raise;
use crate::wait::Watch;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use sweephand_sweep::local::{self, Options};
use sweephand_sweep::{Cell, Cells, Error, Failure, Hash, NamedTrace, Runner, worker};

/// A plan.
#[pyclass(frozen, module = "sweephand._sweephand")]
pub(crate) struct Plan {
    plan: sweephand_sweep::Plan,
}

/// A trace of a plan: what it is called, where it lies, its hash if that is known.
type PyTrace = (String, String, Option<String>);

#[pymethods]
impl Plan {
    /// Reads a TOML file.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        sweephand_sweep::Plan::open(&path).map(|plan| Self { plan }).map_err(raise)
    }

    /// Reads the same as JSON; relative paths begin in `folder`.
    #[staticmethod]
    fn parse_json(text: &str, folder: PathBuf) -> PyResult<Self> {
        let plan = sweephand_sweep::Plan::parse_json(text, &folder);
        plan.map(|plan| Self { plan }).map_err(|reason| raise(format!("plan: {reason}")))
    }

    /// The traces, patterns of paths filled in; those of URLs are not.
    fn traces(&self) -> PyResult<Vec<PyTrace>> {
        let traces = self.plan.traces().map_err(raise)?;
        let parts = |trace: NamedTrace| (trace.name, trace.location, trace.hash.map(String::from));
        Ok(traces.into_iter().map(parts).collect())
    }
}

/// A dataset that is open for a plan: what is there, what is missing.
#[pyclass(frozen, module = "sweephand._sweephand")]
pub(crate) struct Dataset {
    /// Nothing once it is closed.
    state: Mutex<Option<State>>,
}

struct State {
    dataset: sweephand_sweep::Dataset,
    cells: Cells,
    /// Places among the cells.
    missing: Vec<usize>,
}

impl Dataset {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().expect("no panic while it is held")
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Error>) -> PyResult<T> {
        match &mut *self.state() {
            Some(state) => work(state).map_err(raise),
            None => Err(raise("the dataset is closed")),
        }
    }
}

#[pymethods]
impl Dataset {
    /// Opens or makes one, for this process only.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let dataset = py.detach(|| sweephand_sweep::Dataset::open(&folder)).map_err(raise)?;
        let state = State { dataset, cells: Cells::default(), missing: Vec::new() };
        Ok(Self { state: Mutex::new(Some(state)) })
    }

    /// The hash of a trace that had this token when it was hashed; the token is another one when
    /// the trace is.
    fn known_hash(&self, location: &str, token: &str) -> PyResult<Option<String>> {
        self.with(|state| Ok(state.dataset.known_hash(location, token).map(String::from)))
    }

    /// Keeps the hashes of traces: location, token, hash.
    fn remember_hashes(&self, traces: Vec<(String, String, String)>) -> PyResult<()> {
        let hash = |(location, token, hash): (String, String, String)| {
            Ok((location, token, hash.parse::<Hash>().map_err(raise)?))
        };
        let traces = traces.into_iter().map(hash).collect::<PyResult<Vec<_>>>()?;
        self.with(|state| state.dataset.remember_hashes(traces))
    }

    /// Says what is wanted. Local traces are hashed here, unless their hash is known. Returns how
    /// many cells there are, how many of them are missing, and how many rows are of other cells.
    fn want(
        &self,
        py: Python<'_>,
        plan: &Plan,
        traces: Vec<PyTrace>,
        prune: bool,
    ) -> PyResult<(usize, usize, usize)> {
        let named = |(name, location, hash): PyTrace| {
            let hash = hash.map(|hash| hash.parse::<Hash>().map_err(raise)).transpose()?;
            Ok(NamedTrace { name, location, hash })
        };
        let traces = traces.into_iter().map(named).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            self.with(|state| {
                state.cells = plan.plan.cells(state.dataset.identify(&traces)?);
                state.missing = state.dataset.missing(&state.cells);
                if prune {
                    state.dataset.prune(&state.cells)?;
                }
                Ok((state.cells.len(), state.missing.len(), state.dataset.others(&state.cells)))
            })
        })
    }

    /// A missing cell, as workers take it: 0 is the first.
    fn cell(&self, missing: usize) -> PyResult<String> {
        self.with(|state| {
            let cell = state.cells.get(state.missing[missing]);
            Ok(serde_json::to_string(&cell).expect("words only"))
        })
    }

    /// Takes in rows, as workers give them. They are on the disk when this returns.
    fn add(&self, py: Python<'_>, rows: Vec<String>) -> PyResult<()> {
        let rows = rows.iter().map(|row| serde_json::from_str(row).map_err(raise));
        let rows = rows.collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.with(|state| state.dataset.add(rows)))
    }

    /// Records that a missing cell failed for good; returns the record as JSON.
    fn fail(&self, missing: usize, attempts: u32, error: &str) -> PyResult<String> {
        self.with(|state| {
            let failure = Failure::of(&state.cells.get(state.missing[missing]), attempts, error);
            state.dataset.fail(&failure)?;
            Ok(serde_json::to_string(&failure).expect("words and numbers"))
        })
    }

    /// Computes what is missing by processes of this machine. Returns how many cells were computed,
    /// and the records of those that failed, as JSON.
    #[allow(clippy::too_many_arguments)]
    fn run_local(
        &self,
        py: Python<'_>,
        workers: Option<usize>,
        retries: u32,
        command: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(usize, Vec<String>)> {
        let options = Options { workers, retries, command, environment };
        let watch = Watch { threads: Some(1), progress, ..Watch::default() };
        let summary = watch.over(py, || {
            self.with(|state| {
                watch.total.store(state.missing.len() as u64, Ordering::Relaxed);
                local::run(&state.cells, &state.missing, &mut state.dataset, &options, &mut |so_far| {
                    watch.done.store((so_far.computed + so_far.failures.len()) as u64, Ordering::Relaxed);
                    !watch.interrupt.is_raised()
                })
            })
        })??;
        let json = |failure| serde_json::to_string(failure).expect("words and numbers");
        Ok((summary.computed, summary.failures.iter().map(json).collect()))
    }

    /// Makes the dataset whole and gives it free.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match self.state().take() {
            Some(mut state) => state.dataset.fold().map_err(raise),
            None => Ok(()),
        })
    }
}

/// Computes a cell whose trace lies at `path`: its row, as JSON; or `False` and why there is none,
/// however often it is tried. What may pass is raised.
#[pyfunction]
pub(crate) fn run_cell(py: Python<'_>, cell: &str, path: PathBuf) -> PyResult<(bool, String)> {
    thread_local! {
        static RUNNER: RefCell<Runner> = RefCell::default();
    }
    let cell: Cell = serde_json::from_str(cell).map_err(raise)?;
    match py.detach(|| RUNNER.with_borrow_mut(|runner| runner.run(&cell, &path))) {
        Ok(row) => Ok((true, serde_json::to_string(&row).expect("words and numbers"))),
        Err(error) if error.may_pass() => Err(raise(error)),
        Err(error) => Ok((false, error.to_string())),
    }
}

/// Is a worker process until its input ends. `fetch` is called with a cell and returns the path of
/// its trace.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, fetch: Py<PyAny>) -> PyResult<()> {
    let path = |cell: &Cell| {
        let cell = serde_json::to_string(cell).expect("words only");
        Python::attach(|py| {
            let path = fetch.call1(py, (cell,)).and_then(|path| path.extract::<PathBuf>(py));
            path.map_err(|error| error.value(py).to_string())
        })
    };
    py.detach(|| worker::serve(io::stdin().lock(), io::stdout().lock(), path)).map_err(PyErr::from)
}

/// Checks that the file at `path` has a hash; `name` is what the error calls it.
#[pyfunction]
pub(crate) fn check_hash(py: Python<'_>, path: PathBuf, hash: &str, name: &str) -> PyResult<()> {
    let hash: Hash = hash.parse().map_err(raise)?;
    py.detach(|| hash.check(Path::new(&path), name)).map_err(raise)
}

/// Makes the hash of bytes that come piece by piece: that which a local file with them has in a
/// plan.
#[pyclass(module = "sweephand._sweephand")]
#[derive(Default)]
pub(crate) struct Hasher {
    // Its state has to lie at a multiple of 64, which Python's objects do not.
    hasher: Box<sweephand_sweep::Hasher>,
}

#[pymethods]
impl Hasher {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    fn update(&mut self, py: Python<'_>, bytes: &[u8]) {
        py.detach(|| self.hasher.update(bytes));
    }

    /// The hash of all of them.
    fn finish(&self) -> String {
        self.hasher.finish().to_string()
    }
}

/// Whether a location is a URL rather than a path.
#[pyfunction]
pub(crate) fn is_url(location: &str) -> bool {
    sweephand_sweep::is_url(location)
}
