//! `sweephand simulate --whole-objects`: misses and missed bytes of objects that have sizes.

use crate::progress;
use crate::simulate::{Args, FormatName, MeasureName, open};
use anyhow::{Context, bail};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_results::{ObjectsFormat, ObjectsReport, ObjectsTrace};
use sweephand_sim::{MemorySize, SizedPolicyName, SizedTotals, simulate_sized, sized_totals};
use sweephand_trace::Interrupt;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let policies = SizedPolicyName::parse_list(&args.policy)?;
    let sizes = MemorySize::parse_list(&args.memory)?;
    let format = match (args.format, args.measure) {
        (FormatName::Csv, _) => ObjectsFormat::Csv,
        (FormatName::Json, _) => ObjectsFormat::Json,
        #[cfg(feature = "parquet")]
        (FormatName::Parquet, _) => ObjectsFormat::Parquet,
        (FormatName::Table, MeasureName::MissRatio) => ObjectsFormat::Table { bytes: false },
        (FormatName::Table, MeasureName::ByteMissRatio) => ObjectsFormat::Table { bytes: true },
        (FormatName::Table, _) => {
            bail!("--measure: whole objects have miss-ratio and byte-miss-ratio; give one of these")
        }
    };
    let in_use: Vec<&Path> = args.traces.iter().map(|path| path.as_path()).collect();
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    let options = [("policy", json!(args.policy)), ("memory", json!(args.memory))];
    let mut report =
        ObjectsReport { sweephand: ObjectsReport::header(options), traces: Vec::new(), rows: Vec::new() };
    let interrupt = Interrupt::default();
    for path in &args.traces {
        let trace = open(path)?;
        let totals = sized_totals(&trace, &interrupt)?;
        let capacities = capacities(&sizes, &totals)?;
        let bar = progress::bar(trace.header().totals.records, "requests");
        bar.set_message(path.display().to_string());
        let outcomes =
            simulate_sized(&trace, &policies, &capacities, &interrupt, &|records| bar.set_position(records))?;
        bar.finish_and_clear();
        let described = ObjectsTrace::new(path.display().to_string(), &trace, &totals);
        let cells = policies.iter().flat_map(|policy| capacities.iter().map(move |&bytes| (policy, bytes)));
        for ((policy, bytes), outcome) in cells.zip(&outcomes) {
            report.rows.push(described.row(policy.name(), bytes, outcome));
        }
        report.traces.push(described);
    }
    report.write(format, &mut out).context("the results cannot be written")?;
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
