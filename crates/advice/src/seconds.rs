//! Predicted seconds by memory size, on one device: what a report shows of it.

use crate::compression::Compression;
use crate::curve_study::CurveStudy;
use crate::slowdown::kernel_policy;
use sweephand_sim::{Cell, Sweep, SweepError};
use sweephand_time::{Paging, TimeModel};
use sweephand_trace::Interrupt;

/// Predicted seconds of a program on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSeconds {
    /// The device.
    pub device: String,
    /// Seconds with all memory.
    pub native_seconds: f64,
    /// Whether these come from a count of instructions alone.
    pub is_assumed: bool,
    /// What pages, with its policy: `clock, by run`.
    pub columns: Vec<String>,
    /// By column: seconds at each of [`Curves::memory_pages`](crate::Curves::memory_pages).
    pub seconds: Vec<Vec<f64>>,
    /// What compressed memory would do, if that was asked for; see [`Compression::of`].
    pub compression: Option<Compression>,
}

impl DeviceSeconds {
    /// Those on the device of `model`, which is that of the studied trace: under `sweephand run`
    /// with CLOCK and with the policy that the study advises, if that could run live, and under the
    /// kernel.
    ///
    /// # Errors
    /// See [`Sweep::run`].
    pub fn of(study: &CurveStudy, model: &TimeModel, interrupt: &Interrupt) -> Result<Self, SweepError> {
        let clock = kernel_policy();
        let advised = &study.specs[study.conclusion.policy];
        let mut wanted = vec![(clock.clone(), Paging::Run)];
        if advised.entry().runs_live && advised.to_string() != clock.to_string() {
            wanted.push((advised.clone(), Paging::Run));
        }
        wanted.push((clock, Paging::Kernel));
        let sizes = &study.curves.memory_pages;
        let (mut columns, mut seconds) = (Vec::new(), Vec::new());
        for (spec, paging) in wanted {
            let model = model.with(model.device().clone(), paging);
            let cells = sizes.iter().map(|frames| Cell { spec: spec.clone(), frames: *frames as usize });
            let sweep = Sweep { cells: cells.collect(), interrupt: interrupt.clone(), ..Sweep::default() };
            let predicted = model.predict(&sweep, &|_| {})?;
            seconds.push(predicted.iter().map(|time| time.seconds).collect());
            columns.push(match paging {
                Paging::Run => format!("{spec}, by run"),
                Paging::Kernel => "by the kernel".to_owned(),
            });
        }
        Ok(Self {
            device: model.device().name.clone(),
            native_seconds: model.native_seconds(),
            is_assumed: model.is_assumed(),
            columns,
            seconds,
            compression: None,
        })
    }
}
