//! `sweephand sweep`: traces x policies x memory sizes, on all processors. It continues where it
//! stopped.

use crate::stderr::eprint_line;
use crate::{Home, progress};
use anyhow::{Context, anyhow, bail};
use std::io::{self, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use sweephand_sweep::local::{self, Options, Summary};
use sweephand_sweep::{Cells, Dataset, Failure, Plan, is_url, worker};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to sweep over: a TOML file with lists of traces, policies and memory sizes
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Directory of the results; cells that are in it already are not computed again
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Processes that compute, no more than processors [default: one a processor]
    #[arg(long, value_name = "N")]
    workers: Option<NonZero<usize>>,
    /// How often to try a cell again that fails or ends its process
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
    /// Count from there on in each trace: after this many references (100000), a share of them
    /// (20%), or a time (2h), as with warmup in the plan
    #[arg(long, value_name = "N|TIME|PERCENT")]
    warmup: Option<String>,
    /// Remove results that are not, or no longer, in the plan
    #[arg(long)]
    prune: bool,
}

pub(crate) fn run(args: Args, home: &Home) -> anyhow::Result<ExitCode> {
    let plan = Plan::open(&args.plan)?;
    let plan = plan
        .with_warmup(args.warmup.as_deref())
        .map_err(|reason| anyhow!("{}: {reason}", args.plan.display()))?;
    let traces = plan.traces()?;
    if let Some(trace) = traces.iter().find(|trace| is_url(&trace.location)) {
        bail!(
            "{}: the command reads local files; fetch it first, or use sweephand.sweep from Python, which fetches traces itself",
            trace.name
        );
    }
    let mut dataset = Dataset::open(&args.output)?;
    let cells = plan.cells(dataset.identify(&traces)?);
    let missing = dataset.missing(&cells);
    if args.prune {
        dataset.prune(&cells)?;
    }
    let others = dataset.others(&cells);
    if others > 0 {
        eprint_line!(
            "sweephand: note: {}: {others} rows are of cells that this plan does not have; --prune removes them",
            dataset.results().display()
        );
    }
    let signals = Arc::new(AtomicUsize::new(0));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_usize(signal, Arc::clone(&signals), signal as usize)?;
    }
    let options = Options {
        workers: args.workers.map(NonZero::get),
        retries: args.retries,
        command: vec![home.command.clone().into(), "sweep-worker".into()],
        environment: Vec::new(),
    };
    let bar = progress::bar(missing.len() as u64, "cells");
    bar.set_message(args.plan.display().to_string());
    let summary = local::run(&cells, &missing, &mut dataset, &options, &mut |so_far| {
        bar.set_position((so_far.computed + so_far.failures.len()) as u64);
        signals.load(Ordering::Relaxed) == 0
    })?;
    bar.finish_and_clear();

    report(&cells, &missing, &summary, &dataset).context("the summary cannot be written")?;
    Ok(match signals.load(Ordering::Relaxed) {
        _ if !summary.stopped => ExitCode::from(u8::from(!summary.failures.is_empty())),
        signal => ExitCode::from(128 + signal as u8),
    })
}

/// Failures that are printed; the rest are counted.
const MOST_FAILURES: usize = 20;

fn report(cells: &Cells, missing: &[usize], summary: &Summary, dataset: &Dataset) -> io::Result<()> {
    let Summary { computed, failures, stopped } = summary;
    let mut out = io::stdout().lock();
    if !failures.is_empty() {
        // An error that concerns a whole trace is printed once.
        let mut told: Vec<(&Failure, usize)> = Vec::new();
        for failure in failures {
            match told
                .iter_mut()
                .find(|(known, _)| known.trace == failure.trace && known.error == failure.error)
            {
                Some((_, cells)) => *cells += 1,
                None => told.push((failure, 1)),
            }
        }
        for (Failure { trace, policy, memory, attempts, error, .. }, cells) in told.iter().take(MOST_FAILURES)
        {
            match cells {
                1 if *attempts == 1 => writeln!(out, "{trace}, {policy}, {memory}: {error}")?,
                1 => writeln!(out, "{trace}, {policy}, {memory}: {error} (tried {attempts} times)")?,
                cells => writeln!(out, "{trace}, {cells} cells: {error}")?,
            }
        }
        if told.len() > MOST_FAILURES {
            writeln!(out, "and {} more", told.len() - MOST_FAILURES)?;
        }
        writeln!(
            out,
            "All that failed is in {}; the next run tries it again.\n",
            dataset.failures().display()
        )?;
    }
    let left = missing.len() - computed - failures.len();
    writeln!(
        out,
        "{} cells: {computed} computed, {} there before, {} failed{}: {}",
        cells.len(),
        cells.len() - missing.len(),
        failures.len(),
        if *stopped { format!(", {left} left") } else { String::new() },
        dataset.results().display()
    )
}

/// What a worker process does: cells in, rows out.
pub(crate) fn work() -> anyhow::Result<ExitCode> {
    worker::serve(io::stdin().lock(), io::stdout().lock(), |cell| Ok(PathBuf::from(&cell.trace.location)))?;
    Ok(ExitCode::SUCCESS)
}
