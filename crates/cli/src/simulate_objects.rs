//! `sweephand simulate --whole-objects`: misses and missed bytes of objects that have sizes.

use crate::over_time::OverTime;
use crate::progress;
use crate::simulate::{Args, MeasureName, open};
use anyhow::{Context, bail};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use sweephand_objects::{SizedPolicyName, SizedTotals};
use sweephand_output::Output;
use sweephand_results::{ObjectsMeasure, ObjectsReport, ObjectsTrace};
use sweephand_sim::MemorySize;
use sweephand_trace::Interrupt;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let policies = SizedPolicyName::parse_list(&args.policy)?;
    let sizes = MemorySize::parse_list(&args.memory)?;
    let format = args.format.showing(|| match args.measure {
        MeasureName::MissRatio => Ok(ObjectsMeasure::Misses),
        MeasureName::ByteMissRatio => Ok(ObjectsMeasure::MissedBytes),
        _ => bail!("--measure: whole objects have miss-ratio and byte-miss-ratio; give one of these"),
    })?;
    let mut in_use: Vec<&Path> = args.traces.iter().map(|path| path.as_path()).collect();
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    in_use.extend(args.output.as_deref());
    let over_time = args.over_time.as_deref();
    let over_time = over_time.map(|path| OverTime::create(path, args.windows, true, &in_use));
    let mut over_time = over_time.transpose()?;
    let mut options = vec![("policy", json!(args.policy)), ("memory", json!(args.memory))];
    options.extend(args.warmup.map(|warmup| ("warmup", json!(warmup.to_string()))));
    let mut report =
        ObjectsReport { sweephand: ObjectsReport::header(options), traces: Vec::new(), rows: Vec::new() };
    let interrupt = Interrupt::default();
    for path in &args.traces {
        let trace = open(path)?;
        let start = args.warmup.map(|warmup| warmup.end(&trace)).transpose()?;
        let warmup = start.map_or(0, |start| start.records);
        let totals = sweephand_objects::totals(&trace, &interrupt)?;
        let windows = over_time.as_ref().map(|over_time| over_time.windows(&trace)).transpose()?;
        let windows = windows.unwrap_or_default();
        let cuts: Vec<u64> = windows.iter().map(|window| window.record).collect();
        let capacities = capacities(&sizes, &totals)?;
        let bar = progress::bar(trace.header().totals.records, "requests");
        bar.set_message(path.display().to_string());
        let progress = |requests| bar.set_position(requests);
        let runs = sweephand_objects::simulate(
            &trace,
            &policies,
            &capacities,
            warmup,
            &cuts,
            &interrupt,
            &progress,
        )?;
        bar.finish_and_clear();
        let described =
            ObjectsTrace::new(path.display().to_string(), &trace, &totals, args.warmup.map(|_| warmup));
        let cells = policies.iter().flat_map(|policy| capacities.iter().map(move |&bytes| (policy, bytes)));
        for ((policy, bytes), run) in cells.zip(&runs) {
            report.rows.push(described.row(policy.name(), bytes, &run.outcome));
            if let Some(over_time) = &mut over_time {
                let named = (&described.trace[..], policy.name(), bytes);
                over_time.write_objects(named, &windows, &run.at_cuts, &run.end)?;
            }
        }
        report.traces.push(described);
    }
    report.write(format, &mut out).context("the results cannot be written")?;
    if let Some(over_time) = over_time {
        over_time.commit()?;
    }
    out.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// The capacities in bytes, each once. Shares are of the bytes of all objects.
fn capacities(sizes: &[MemorySize], totals: &SizedTotals) -> anyhow::Result<Vec<u64>> {
    let mut capacities = Vec::new();
    for size in sizes {
        let bytes = match size {
            MemorySize::Bytes(bytes) => *bytes,
            MemorySize::Percent(percent) => (percent * totals.object_bytes as f64 / 100.0).round() as u64,
            MemorySize::Pages(_) | MemorySize::All => {
                bail!("--memory: {size}: whole objects have no pages; give bytes (64MiB) or a share (25%)")
            }
        };
        if !capacities.contains(&bytes.max(1)) {
            capacities.push(bytes.max(1));
        }
    }
    Ok(capacities)
}
