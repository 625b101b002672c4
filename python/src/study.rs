//! What the command says about a trace and about policies: `info`, `advise`, `report`, `policies`.

use crate::error::{raise, raise_command};
use crate::policy::Policies;
use crate::trace::Trace;
use crate::wait::Watch;
use pyo3::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sweephand_advice::{Advice, CurveStudy, Study, check, sizes};
use sweephand_report::HtmlReport;
use sweephand_results::{PolicyListing, TraceReport, json};
use sweephand_sim::SweepError;

/// Steps of progress for each trace.
const STEPS: f64 = 1000.0;

/// Every policy of a comma list, as JSON.
#[pyfunction]
pub(crate) fn policies(names: &str) -> PyResult<String> {
    let listed = PolicyListing::of_names(names).map_err(|error| raise_command(&error.into()))?;
    Ok(json(&listed.iter().map(PolicyListing::to_json).collect::<Vec<_>>()))
}

/// Everything about a trace, with its largest objects, as JSON.
#[pyfunction]
pub(crate) fn info(py: Python<'_>, trace: &Trace, objects: usize, verify: bool) -> PyResult<String> {
    let trace = &trace.trace;
    let watch = Watch::default();
    let described = watch.over(py, || -> anyhow::Result<_> {
        if verify {
            trace.verify(&mut |_| {})?;
        }
        Ok(TraceReport::of(trace, objects, verify)?.to_json())
    })?;
    described.map(|described| json(&described)).map_err(|error| raise_command(&error))
}

/// How much memory a trace's program needs, and which policy is best: in five lines, and as JSON.
#[pyfunction]
pub(crate) fn advise(
    py: Python<'_>,
    trace: &Trace,
    policies: Vec<Bound<'_, PyAny>>,
    memory: Vec<String>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let trace = &trace.trace;
    let watch = Watch { threads, progress, ..Watch::default() };
    let policies = Policies::new(&policies, &watch.interrupt)?;
    let sizes = sizes(&memory.join(",")).map_err(|error| raise_command(&error.into()))?;
    check(trace).map_err(|error| raise_command(&error.into()))?;
    watch.total.store(STEPS as u64, Ordering::Relaxed);
    let specs = policies.specs.clone();
    let study = watch.over(py, || {
        let progress = |share: f64| watch.done.store((STEPS * share) as u64, Ordering::Relaxed);
        CurveStudy::of(trace, specs, &sizes, &progress, &watch.interrupt)
    });
    let study = study.and_then(|study| study.map_err(raise));
    let study = study.map_err(|error| policies.error(&watch, error))?;
    // What has no file has no name that a command could take.
    let path = if trace.name().is_file() { trace.name() } else { Path::new("-") };
    let advice = Advice { path, study: &study };
    Ok((advice.to_string(), json(&advice.to_json())))
}

/// The report on some traces, as HTML, and its tables, as JSON.
#[pyfunction]
pub(crate) fn report(
    py: Python<'_>,
    traces: Vec<Py<Trace>>,
    policies: Vec<Bound<'_, PyAny>>,
    memory: Vec<String>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let watch = Watch { threads, progress, ..Watch::default() };
    let policies = Policies::new(&policies, &watch.interrupt)?;
    let sizes = sizes(&memory.join(",")).map_err(|error| raise_command(&error.into()))?;
    let traces: Vec<_> = traces.iter().map(|trace| Arc::clone(&trace.get().trace)).collect();
    for trace in &traces {
        check(trace).map_err(|error| raise_command(&error.into()))?;
    }
    watch.total.store(traces.len() as u64 * STEPS as u64, Ordering::Relaxed);
    let names = policies.specs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let specs = policies.specs.clone();
    let page = watch.over(py, || -> Result<(String, String), SweepError> {
        let mut studies = Vec::new();
        for (before, trace) in traces.iter().enumerate() {
            let progress = |share: f64| {
                watch.done.store((STEPS * (before as f64 + share)) as u64, Ordering::Relaxed);
            };
            studies.push(Study::of(trace, specs.clone(), &sizes, &progress, &watch.interrupt)?);
        }
        let tables = json(&studies.iter().map(Study::tables).collect::<Vec<_>>());
        Ok((HtmlReport::new(studies, names, memory.join(",")).render(), tables))
    });
    let page = page.and_then(|page| page.map_err(raise));
    page.map_err(|error| policies.error(&watch, error))
}
