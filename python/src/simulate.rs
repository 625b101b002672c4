//! Simulations of one reference string: page faults by policy and memory size, reuse distances.

use crate::error::{raise, warn};
use crate::policy::Policies;
use crate::table::{PyColumn, columns};
use crate::trace::Trace;
use crate::wait::Watch;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sweephand_results::{Column, Field, SimulatedTrace, SimulationReport, SimulationRow, grouped};
use sweephand_sim::{
    DEFAULT_SEED, LruStack, MemorySize, SampleSize, Sampling, SamplingError, Sweep, SweepError, Warmup,
};
use sweephand_trace::{Chunk, Error};

/// What a row has here besides the columns of the command: its size as it was asked for, and which
/// trace it is of.
struct Asked {
    memory: String,
    trace_checksum: String,
}

const ASKED: [Column<Asked>; 2] =
    [("memory", Field::Text(|row| &row.memory)), ("trace_checksum", Field::Text(|row| &row.trace_checksum))];

/// The sizes that are asked for, each with its words.
fn sizes(memory: &[String]) -> PyResult<Vec<(String, MemorySize)>> {
    let words = memory.iter().flat_map(|list| list.split(',')).map(str::trim);
    let parsed = |words: &str| -> PyResult<(String, MemorySize)> {
        Ok((words.to_string(), words.parse::<MemorySize>().map_err(raise)?))
    };
    words.map(parsed).collect()
}

/// What is asked for, the same of every trace.
struct Request {
    policies: Policies,
    /// The words for the memory sizes, as they were given.
    memory: Vec<String>,
    sizes: Vec<(String, MemorySize)>,
    collapse: bool,
    sampling: Option<Sampling>,
    warmup: Option<Warmup>,
}

impl Request {
    /// What the results depend on besides the traces.
    fn options(&self) -> Vec<(&'static str, Value)> {
        let policies = self.policies.specs.iter().map(ToString::to_string);
        let mut options = vec![
            ("policy", policies.collect::<Vec<_>>().join(",").into()),
            ("memory", self.memory.join(",").into()),
            ("collapse", self.collapse.into()),
        ];
        options.extend(self.warmup.map(|warmup| ("warmup", warmup.to_string().into())));
        if let Some(Sampling { size, seed }) = &self.sampling {
            options.extend([("sample", size.to_string().into()), ("sample_seed", (*seed).into())]);
        }
        options
    }

    /// Makes the sweeps over all traces. Everything that can be wrong is found out here, before the
    /// first long run.
    fn prepare<'a>(&self, traces: &'a [Arc<sweephand_trace::Trace>]) -> PyResult<Vec<Prepared<'a>>> {
        let prepared = traces.iter().map(|trace| self.sweep(trace));
        let mut prepared = prepared.collect::<Result<Vec<_>, _>>().map_err(raise)?;
        for prepared in &mut prepared {
            let Some(warmup) = self.warmup else { continue };
            let start = warmup.end(prepared.trace).map_err(raise)?;
            prepared.sweep.cuts = vec![start.records];
            prepared.described.warmed_up(&start);
        }
        Ok(prepared)
    }

    /// The sweep over a trace, with the words for each of its memory sizes. Sizes that come to the
    /// same number of pages are one, by the words that came first.
    fn sweep<'a>(&self, trace: &'a sweephand_trace::Trace) -> Result<Prepared<'a>, SamplingError> {
        let header = trace.header();
        let mut words = HashMap::new();
        let mut all = Vec::new();
        for (asked, size) in &self.sizes {
            let told = self.sampling.map_or(vec![*size], |sampling| sampling.told_apart(&[*size], trace));
            for size in told {
                let frames = size.frames(header.totals.distinct_pages, header.metadata.page_size);
                for frames in frames.map_err(SweepError::from)? {
                    words.entry(frames).or_insert_with(|| asked.clone());
                }
                all.push(size);
            }
        }
        let sweep = Sweep::over(trace, &self.policies.specs, &all)?;
        self.sampling.map_or(Ok(()), |sampling| sampling.check(trace, &sweep.cells))?;
        let sweep = Sweep { collapse: self.collapse, ..sweep };
        Ok(Prepared { trace, described: SimulatedTrace::of(trace), sweep, words })
    }
}

/// A trace that is ready to be simulated.
struct Prepared<'a> {
    trace: &'a sweephand_trace::Trace,
    described: SimulatedTrace,
    /// With a warm-up it has one cut, where counting starts.
    sweep: Sweep,
    /// The words for a memory size, by its pages.
    words: HashMap<usize, String>,
}

impl Prepared<'_> {
    /// Counts the faults of every cell, or estimates them from a sample of the pages. Returns the
    /// rows of the report.
    fn simulate(
        &mut self,
        sampling: Option<&Sampling>,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<SimulationRow>, SamplingError> {
        let cells = &self.sweep.cells;
        if let Some(sampling) = sampling {
            let estimates = sampling.run(self.trace, &self.sweep, progress)?;
            self.described.sampled(&estimates);
            let estimates = cells.iter().zip(&estimates.cells);
            let rows = estimates
                .map(|(cell, estimate)| self.described.estimated_row(&cell.spec, cell.frames, estimate));
            return Ok(rows.collect());
        }
        let outcomes = self.sweep.run(self.trace, progress)?;
        let rows = cells.iter().zip(&outcomes).map(|(cell, (outcome, series))| {
            let counted = series.at_cuts.first().map_or(*outcome, |before| outcome.since(before));
            self.described.row(&cell.spec, cell.frames, &counted)
        });
        Ok(rows.collect())
    }
}

/// Counts the faults of every policy at every memory size on every trace: the columns of the
/// results, and what they depend on, as JSON.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub(crate) fn simulate(
    py: Python<'_>,
    traces: Vec<Py<Trace>>,
    policies: Vec<Bound<'_, PyAny>>,
    memory: Vec<String>,
    collapse: bool,
    sample: Option<String>,
    sample_seed: Option<u64>,
    warmup: Option<String>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<PyColumn>, String)> {
    let mut watch = Watch { threads, progress, ..Watch::default() };
    let policies = Policies::new(&policies, &watch.interrupt)?;
    let sizes = sizes(&memory)?;
    let size: Option<SampleSize> = sample.map(|size| size.parse().map_err(raise)).transpose()?;
    let sampling = size.map(|size| Sampling { size, seed: sample_seed.unwrap_or(DEFAULT_SEED) });
    let warmup: Option<Warmup> = warmup.map(|warmup| warmup.parse().map_err(raise)).transpose()?;
    let request = Request { policies, memory, sizes, collapse, sampling, warmup };
    let mut report = SimulationReport {
        sweephand: SimulationReport::header(request.options()),
        traces: Vec::new(),
        rows: Vec::new(),
    };
    let mut asked = Vec::new();
    let traces: Vec<_> = traces.iter().map(|trace| Arc::clone(&trace.get().trace)).collect();
    let prepared = request.prepare(&traces)?;
    watch.total.store(traces.iter().map(|trace| trace.header().totals.records).sum(), Ordering::Relaxed);
    // Each cell is a piece of work, and one thread decodes the trace ahead of them.
    watch.work = prepared.iter().map(|prepared| prepared.sweep.cells.len() + 1).max();
    for prepared in &prepared {
        prepared.sweep.note_on_small_memories(prepared.trace).map_or(Ok(()), |note| warn(py, note))?;
    }
    for mut prepared in prepared {
        prepared.sweep.interrupt = watch.interrupt.clone();
        let before = watch.done.load(Ordering::Relaxed);
        let progress = |records| watch.done.store(before + records, Ordering::Relaxed);
        let rows = watch.over(py, || prepared.simulate(sampling.as_ref(), &progress));
        let rows = rows.and_then(|rows| rows.map_err(raise));
        let rows = rows.map_err(|error| request.policies.error(&watch, error))?;
        asked.extend(rows.iter().map(|row| Asked {
            memory: prepared.words[&(row.memory_pages as usize)].clone(),
            trace_checksum: prepared.described.checksum.clone(),
        }));
        report.rows.extend(rows);
        report.traces.push(prepared.described);
    }
    let mut all = columns(py, &report.columns(), &report.rows)?;
    all.extend(columns(py, &ASKED, &asked)?);
    Ok((all, report.origin()))
}

/// How many references come at each LRU stack distance (the index), and how many are first touches.
#[pyfunction]
pub(crate) fn reuse_distances<'py>(
    py: Python<'py>,
    trace: &Trace,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyArray1<i64>>, u64)> {
    let trace = &trace.trace;
    trace.check_pages().map_err(raise)?;
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
    let window = trace.header().metadata.window;
    if window > 1 {
        let inside: u64 = distances.iter().take(window as usize + 1).sum();
        let note = format!(
            "{} is reduced with a window of {window}: {} of its {} distances lie inside of it, where the \
             trace leaves out most references; only counts of more than {window} pages are the program's",
            trace.name().display(),
            grouped(inside),
            grouped(distances.iter().sum()),
        );
        warn(py, note)?;
    }
    // There are no more of them than records.
    let counts: Vec<i64> = distances.iter().map(|count| *count as i64).collect();
    Ok((counts.into_pyarray(py), first_touches))
}
