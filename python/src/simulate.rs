//! Simulations of one reference string: page faults by policy and memory size, reuse distances.

use crate::error::{raise, warn};
use crate::policy::Policies;
use crate::table::{PyColumn, columns};
use crate::trace::Trace;
use crate::wait::Watch;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sweephand_report::{SimulatedTrace, SimulationReport, SimulationRow};
use sweephand_sim::{LruStack, MemorySize, Sweep};
use sweephand_trace::{Chunk, Error};

/// Counts the faults of every policy at every memory size on every trace: the columns of the
/// results, and what they depend on, as JSON.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    traces: Vec<Py<Trace>>,
    policies: Vec<Bound<'_, PyAny>>,
    memory: Vec<String>,
    collapse: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<PyColumn>, String)> {
    let watch = Watch { threads, progress, ..Watch::default() };
    let policies = Policies::new(&policies, &watch.interrupt)?;
    let specs = &policies.specs;
    let sizes = MemorySize::parse_list(&memory.join(",")).map_err(raise)?;
    let options = [
        ("policy", specs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").into()),
        ("memory", memory.join(",").into()),
        ("collapse", collapse.into()),
    ];
    let mut report = SimulationReport {
        sweephand: SimulationReport::header(options),
        traces: Vec::new(),
        rows: Vec::new(),
    };
    let traces: Vec<_> = traces.iter().map(|trace| Arc::clone(&trace.get().trace)).collect();
    // Everything that can be wrong before the first long run.
    let sweeps = traces.iter().map(|trace| Sweep::over(trace, specs, &sizes));
    let sweeps = sweeps.collect::<Result<Vec<_>, _>>().map_err(raise)?;
    watch.total.store(traces.iter().map(|trace| trace.header().totals.records).sum(), Ordering::Relaxed);
    for (trace, sweep) in traces.iter().zip(&sweeps) {
        if let Some(note) = sweep.note_on_small_memories(trace) {
            warn(py, note)?;
        }
    }
    for (trace, sweep) in traces.iter().zip(sweeps) {
        let sweep = Sweep { collapse, interrupt: watch.interrupt.clone(), ..sweep };
        let before = watch.done.load(Ordering::Relaxed);
        let progress = |records| watch.done.store(before + records, Ordering::Relaxed);
        let results = watch.over(py, || sweep.run(trace, &progress));
        let results = results.and_then(|results| results.map_err(raise));
        let results = results.map_err(|error| policies.trouble().unwrap_or(error))?;
        let described = SimulatedTrace::of(trace);
        for (cell, (outcome, _)) in sweep.cells.iter().zip(&results) {
            report.rows.push(described.row(&cell.spec, cell.frames, outcome));
        }
        report.traces.push(described);
    }
    let columns = columns(py, &SimulationRow::COLUMNS, &report.rows)?;
    Ok((columns, report.origin()))
}

/// How many references come at each LRU stack distance (the index), and how many are first touches.
#[pyfunction]
pub(crate) fn reuse_distances<'py>(
    py: Python<'py>,
    trace: &Trace,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyArray1<u64>>, u64)> {
    let trace = &trace.trace;
    let watch = Watch { progress, ..Watch::default() };
    watch.total.store(trace.header().totals.records, Ordering::Relaxed);
    let stack = watch.over(py, || -> Result<_, Error> {
        let mut stack = LruStack::new();
        let mut chunk = Chunk::new();
        for index in (0..trace.chunks()).take_while(|_| !watch.interrupt.is_raised()) {
            trace.read_chunk(index, &mut chunk)?;
            stack.advance(&chunk, 0..chunk.references.len());
            watch.done.fetch_add(chunk.references.len() as u64, Ordering::Relaxed);
        }
        Ok(stack)
    })?;
    let stack = stack.map_err(raise)?;
    let (distances, first_touches) = stack.distances();
    Ok((distances.to_vec().into_pyarray(py), first_touches))
}
