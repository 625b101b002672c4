//! What is missed over time, under the policies of a report's tables and at their memory size.

use crate::{CurveStudy, ObjectStudy};
use sweephand_sim::{Cell, Sweep, SweepError, WindowStart, Windows, WindowsError};
use sweephand_trace::{Interrupt, Trace};

/// Windows of the trace.
const WINDOWS: Windows = Windows::Number(100);

/// Miss ratios in windows of as many references.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTime {
    /// Memory in pages.
    pub memory_pages: u64,
    /// The windows, in order.
    pub windows: Vec<WindowStart>,
    /// By policy: its name, and its faults a reference in each window.
    pub miss_ratios: Vec<(String, Vec<f64>)>,
}

impl OverTime {
    /// Simulates the policies of `objects` at its size; one pass.
    ///
    /// # Errors
    /// As for [`Sweep::run`].
    pub fn of(
        trace: &Trace,
        study: &CurveStudy,
        objects: &ObjectStudy,
        interrupt: &Interrupt,
    ) -> Result<Self, SweepError> {
        let windows = match WINDOWS.of(trace) {
            Ok(windows) => windows,
            Err(WindowsError::Trace(error)) => return Err(error.into()),
            Err(error) => unreachable!("{error}: windows of references do not depend on the trace"),
        };
        let memory_pages = study.curves.memory_pages[objects.size];
        let cell =
            |policy: &usize| Cell { spec: study.specs[*policy].clone(), frames: memory_pages as usize };
        let sweep = Sweep {
            cells: objects.policies.iter().map(cell).collect(),
            cuts: windows.iter().map(|window| window.record).collect(),
            interrupt: interrupt.clone(),
            ..Sweep::default()
        };
        let results = sweep.run(trace, &|_| {})?;
        let all = trace.header().totals.references;
        let miss_ratios = sweep.cells.iter().zip(&results).map(|(cell, (outcome, series))| {
            let ratio = |(index, window): (usize, &WindowStart)| {
                let next = windows.get(index + 1).map_or(all, |next| next.references);
                let counted = series.at_cuts.get(index + 1).unwrap_or(outcome).since(&series.at_cuts[index]);
                counted.faults as f64 / next.saturating_sub(window.references).max(1) as f64
            };
            (cell.spec.to_string(), windows.iter().enumerate().map(ratio).collect())
        });
        let miss_ratios = miss_ratios.collect();
        Ok(Self { memory_pages, windows, miss_ratios })
    }
}
