//! `advise` of a process or a service: it is watched for some time.

use super::{Args, Format};
use crate::advise_try::{self, Orders};
use crate::stderr::eprint_line;
use crate::watch;
use anyhow::bail;
use std::io::{self, Write};
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_time::{Device, measured_swap};
use sweephand_watch::{FaultCost, Hours, LiveAdvice};

/// What a service may be slowed down by, unless something else is asked for.
const DEFAULT_SLOWDOWN: f64 = 1.05;

/// Watches a process or a service for some time and says how much memory is enough for it. The
/// device is that which was named.
///
/// The first result is an error if nothing is known, the second if what is known is not all.
pub(super) fn advise(
    args: &Args,
    device: Option<Device>,
    out: &mut Output,
) -> anyhow::Result<anyhow::Result<ExitCode>> {
    if args.trial.is_wanted {
        return try_on_service(args, out);
    }
    let is_named = device.is_some();
    let Some(device) = device.or_else(measured_swap).map(Some).or(args.slowdown.is_none().then_some(None))
    else {
        bail!(
            "--slowdown needs --device: there is no swap here whose disk was measured (sweephand devices DIR)"
        );
    };
    let cost = device.as_ref().map(FaultCost::of);
    let wanted = cost.as_ref().map(|cost| (cost, args.slowdown.unwrap_or(DEFAULT_SLOWDOWN)));
    let advice = match (args.watched.service(), args.watched.pid) {
        (Some(service), _) => {
            let mut hours = args.how.hours(Some(&service))?;
            let watching = watch::observe_service(&service, args.how.options(), args.duration, &mut hours)?;
            LiveAdvice::of_service(&watching, wanted, hours.as_ref().map_or(&[], Hours::hours))?
        }
        (None, pid) => {
            args.how.hours(None)?;
            let watching = watch::observe(pid.unwrap_or_default(), &args.how, args.duration)?;
            LiveAdvice::of(&watching, wanted)?
        }
    };
    let Some(advice) = advice else {
        bail!("there was no epoch in which a page was used; watch for longer (--for)");
    };
    match args.format {
        Format::Text => writeln!(out, "{advice}")?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &advice.to_json()).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    if !is_named && let Some(device) = &device {
        eprint_line!("sweephand: note: seconds are those of {}, to which this machine swaps", device.source);
    }
    Ok(Ok(ExitCode::SUCCESS))
}

/// Lowers a service's memory for some time, and says how little is enough.
fn try_on_service(args: &Args, out: &mut Output) -> anyhow::Result<anyhow::Result<ExitCode>> {
    let Some(service) = args.watched.service() else { bail!("--try needs --cgroup, --unit or --container") };
    let (how, slowdown, duration) = (args.how.options(), args.slowdown, args.duration);
    let report = advise_try::run(&Orders { service, args: &args.trial, how, slowdown, duration })?;
    match args.format {
        Format::Text => write!(out, "{}", report.to_text())?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &report.to_json()).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(report.error.map_or(Ok(ExitCode::SUCCESS), Err))
}
