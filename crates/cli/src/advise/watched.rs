//! `advise` of a process or a service: it is watched for some time.

use crate::stderr::eprint_line;
use crate::watch::{self, How};
use crate::watched::Watched;
use anyhow::{Context, bail};
use std::time::Duration;
use sweephand_program::Signals;
use sweephand_time::{Device, measured_swap};
use sweephand_watch::{FaultCost, Hours, LiveAdvice, SLOWDOWN};

/// Watches a process or a service for some time and says how much memory is enough for it. The
/// device is that which was named, and so is the slowdown.
pub(super) fn advise(
    watched: &Watched,
    how: &How,
    duration: Duration,
    device: Option<Device>,
    slowdown: Option<f64>,
) -> anyhow::Result<LiveAdvice> {
    let is_named = device.is_some();
    let Some(device) = device.or_else(measured_swap).map(Some).or(slowdown.is_none().then_some(None)) else {
        bail!(
            "--slowdown needs --device: there is no swap here whose disk was measured (sweephand devices DIR)"
        );
    };
    let cost = device.as_ref().map(FaultCost::of);
    let wanted = cost.as_ref().map(|cost| (cost, slowdown.unwrap_or(SLOWDOWN)));
    let advice = match (watched.service(), watched.pid) {
        (Some(service), _) => {
            let mut hours = how.hours(Some(&service))?;
            let signals = Signals::catch().context("signals cannot be caught")?.into_pipe()?;
            let mut watching = watch::begin_service(&service, how.options_for_advice())?;
            watching.keep_uses();
            watch::observe_service(&mut watching, &service, duration, &mut hours, &signals)?;
            LiveAdvice::of_service(&watching, wanted, hours.as_ref().map_or(&[], Hours::hours))?
        }
        (None, pid) => {
            how.hours(None)?;
            let watching = watch::observe(pid.unwrap_or_default(), how, duration)?;
            LiveAdvice::of(&watching, wanted)?
        }
    };
    let Some(advice) = advice else {
        bail!("there was no epoch in which a page was used; watch for longer (--for)");
    };
    if !is_named && let Some(device) = &device {
        eprint_line!("sweephand: note: seconds are those of {}, to which this machine swaps", device.source);
    }
    Ok(advice)
}
