//! The options by which `simulate` and `advise` predict seconds, and what compressed memory would
//! do to these.

use crate::stderr::eprint_line;
use anyhow::bail;
use std::path::PathBuf;
use sweephand_advice::{Compression, CurveStudy};
use sweephand_results::seconds;
use sweephand_sim::TiersError;
use sweephand_time::{ASSUMED_INSTRUCTIONS_PER_SECOND, Device, Paging, TimeModel};
use sweephand_trace::{Interrupt, Trace};

#[derive(clap::Args)]
pub(crate) struct TimeOptions {
    /// What pages go to: hdd, cloud, ssd, nvme, zram, a TOML file, or `measured`, which is the
    /// device that `sweephand devices DIR` has measured
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Seconds that the program takes with all memory [default: its instructions, 3 billion a
    /// second]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) native: Option<f64>,
}

/// What pages, as users name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum PagedBy {
    /// `sweephand run`
    Run,
    /// The kernel's swap, as with `sweephand run --kernel`
    Kernel,
}

impl PagedBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Kernel => "kernel",
        }
    }

    pub(crate) fn paging(self) -> Paging {
        match self {
            Self::Run => Paging::Run,
            Self::Kernel => Paging::Kernel,
        }
    }
}

impl TimeOptions {
    /// The device, if one was named.
    pub(crate) fn device(&self) -> anyhow::Result<Option<Device>> {
        if let Some(native) = self.native.filter(|native| !native.is_finite() || *native <= 0.0) {
            bail!("--native {native}: write seconds, more than 0");
        }
        let device = self.device.as_deref().map(Device::named).transpose();
        device.map_err(|error| anyhow::Error::from(error).context("--device"))
    }

    /// The file that the device is read from, if it is.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.device.as_deref().and_then(Device::file_of)
    }

    /// The model of a trace on that device.
    pub(crate) fn model(
        &self,
        trace: &Trace,
        device: Device,
        paged_by: PagedBy,
    ) -> anyhow::Result<TimeModel> {
        let model = TimeModel::of(trace, device, paged_by.paging(), self.native)?;
        if model.is_assumed() {
            eprint_line!(
                "sweephand: note: {}: {} s of processor time are assumed, from its instructions at {} \
                 billion a second; --native SECONDS says how long it takes with all memory",
                trace.name().display(),
                seconds(model.native_seconds()),
                ASSUMED_INSTRUCTIONS_PER_SECOND / 1e9,
            );
        }
        Ok(model)
    }
}

/// What compressed memory would do, if tiers can be simulated and the device does not compress.
pub(crate) fn compression(study: &CurveStudy, model: &TimeModel) -> anyhow::Result<Option<Compression>> {
    if model.device().synchronous {
        eprint_line!(
            "sweephand: note: there is no advice on compressed memory before {}, which compresses pages itself; name \
             the disk behind it",
            model.device().name
        );
        return Ok(None);
    }
    match Compression::of(study, model, &Interrupt::default()) {
        Ok(compression) => Ok(compression),
        Err(error @ (TiersError::PageBytes { .. } | TiersError::TooMany { .. })) => {
            eprint_line!("sweephand: note: there is no advice on compressed memory: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
