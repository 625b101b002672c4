//! `sweephand partition`: divides a memory among the tenants of a log.

use crate::formats::TextFormatName;
use crate::simulate::open;
use anyhow::{Context, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_objects::Tenancy;
use sweephand_output::Output;
use sweephand_policy::registry::Spec;
use sweephand_results::{PartitionReport, PartitionRow};
use sweephand_sim::MemorySize;
use sweephand_trace::Interrupt;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace of a log that was imported with a column tenant=N
    #[arg(value_name = "T")]
    trace: PathBuf,
    /// Memory sizes, comma list: pages (300p), bytes (64MiB or 64M; 64MB is 64,000,000), shares of
    /// the trace's pages (25%)
    #[arg(short, long, default_value = "10%,50%", value_name = "LIST")]
    memory: String,
    /// The policy of the memory that all tenants share. Shares of their own are under LRU
    #[arg(short, long, default_value = "lru")]
    policy: String,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: TextFormatName,
    /// Write the results to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let policy = Spec::parse(&args.policy)?;
    let sizes = MemorySize::parse_list(&args.memory)?;
    if sizes.contains(&MemorySize::All) {
        bail!("--memory: all sizes are too many to divide; name some");
    }
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &[&args.trace])?;
    let trace = open(&args.trace)?;
    let interrupt = Interrupt::default();
    let tenancy = Tenancy::of(&trace, &interrupt)?;
    let options = [("policy", json!(args.policy)), ("memory", json!(args.memory))];
    let (totals, page_bytes) = (&trace.header().totals, trace.header().metadata.page_size);
    let mut report =
        PartitionReport { sweephand: PartitionReport::header(options), page_bytes, rows: Vec::new() };
    let mut frames = Vec::new();
    for size in sizes {
        frames.extend(size.frames(totals.distinct_pages, page_bytes)?);
    }
    frames.sort_unstable();
    frames.dedup();
    let name = args.trace.display().to_string();
    for frames in frames {
        let shares = tenancy.shares(&trace, &policy, frames, &interrupt)?;
        let rows = tenancy.names.iter().zip(&shares);
        report
            .rows
            .extend(rows.map(|(tenant, share)| PartitionRow::new(&name, frames as u64, tenant, share)));
    }
    report.write(args.format.into(), &mut out).context("the results cannot be written")?;
    out.commit()?;
    Ok(ExitCode::SUCCESS)
}
