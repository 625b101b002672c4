//! The multiprogramming model.

use crate::error::{raise, warn};
use crate::table::{PyColumn, columns};
use crate::wait::Watch;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use sweephand_machine::{Configuration, Line, Workload};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_results::{MultiprogramReport, MultiprogramRow};

/// Runs the tasks of some configurations under their policies, or under others: the columns of the
/// results, and what they depend on, as JSON.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiprogram(
    py: Python<'_>,
    configurations: Vec<String>,
    policies: Option<Vec<String>>,
    theta: Vec<u64>,
    seeds: Vec<u64>,
    irim: Option<u64>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<PyColumn>, String)> {
    let mut work = Vec::new();
    for name in &configurations {
        let mut configuration = Configuration::named(name).map_err(raise)?;
        configuration.set(&theta, &seeds, irim).map_err(raise)?;
        let specs = match &policies {
            Some(policies) => TaskSpec::parse_list(&policies.join(",")).map_err(raise)?,
            None => configuration.task_specs().map_err(raise)?,
        };
        work.push((configuration, specs));
    }
    let options = [
        ("configurations", configurations.into()),
        ("policy", policies.map(|policies| policies.join(",")).into()),
    ];
    let mut report = MultiprogramReport {
        sweephand: MultiprogramReport::header(options),
        configurations: Vec::new(),
        rows: Vec::new(),
    };
    let watch = Watch { threads, progress, ..Watch::default() };
    for (configuration, specs) in work {
        configuration.note_on_small_windows().map_or(Ok(()), |note| warn(py, note))?;
        let (workload, lines, results) = watch
            .over(py, || {
                let mut workload = Workload::open(configuration)?;
                workload.interrupt = watch.interrupt.clone();
                let lines = workload.lines(&specs);
                let cells = workload.cells(&lines);
                watch.total.fetch_add(cells.len() as u64, Ordering::Relaxed);
                let done = || {
                    watch.done.fetch_add(1, Ordering::Relaxed);
                };
                let results = workload.run_all(&cells, 0, &done)?;
                Ok((workload, lines, results))
            })?
            .map_err(|error: sweephand_machine::MachineError| raise(error))?;
        let outcomes: Vec<_> = results.into_iter().map(|(outcome, _)| outcome).collect();
        workload.configuration.note_on_force(&outcomes).map_or(Ok(()), |note| warn(py, note))?;
        let runs_of_a_line = workload.configuration.seeds.len();
        for (Line { policy, theta_refs }, runs) in lines.into_iter().zip(outcomes.chunks(runs_of_a_line)) {
            let name = &workload.configuration.name;
            report.rows.push(MultiprogramRow::new(name, policy, theta_refs, runs.to_vec()));
        }
        report.configurations.push(workload.configuration);
    }
    let columns = columns(py, &MultiprogramRow::COLUMNS, &report.rows)?;
    Ok((columns, report.origin()))
}
