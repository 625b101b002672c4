//! `sweephand diff`: two traces side by side.

use crate::progress;
use crate::report;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_advice::{Changed, DIFF_POLICIES, DiffSide, SIZES, TraceDiff, sizes};
use sweephand_output::Output;
use sweephand_policy::registry::Spec;
use sweephand_report::{ChartLine, LineChart, plot_lines};
use sweephand_results::{Table, bytes, grouped};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The first trace, of any format
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The second
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Policies, comma list. Lines and objects are compared under the first
    #[arg(short, long, default_value = DIFF_POLICIES, value_name = "LIST")]
    policy: String,
    /// Memory sizes, the same for both, comma list: pages (300p), bytes (64MiB or 64M; 64MB is
    /// 64,000,000), shares of the larger program's pages (25%)
    #[arg(short, long, default_value = SIZES, value_name = "LIST")]
    memory: String,
    /// Most lines of code and most places that made memory to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Also draw the faults of both against memory size
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write the results to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    const STEPS: f64 = 1000.0;
    let specs = Spec::parse_list(&args.policy)?;
    let sizes = sizes(&args.memory)?;
    if args.before == Path::new("-") && args.after == Path::new("-") {
        bail!("standard input is one trace: name the other");
    }
    let mut in_use = vec![args.before.as_path(), &args.after];
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    in_use.extend(args.output.as_deref());
    let chart = args.chart.as_deref().map(|path| chart_file(path, &in_use)).transpose()?;
    let (before, after) = (report::open(&args.before)?, report::open(&args.after)?);
    let bar = progress::share(STEPS as u64);
    let diff =
        TraceDiff::of([&before, &after], &specs, &sizes, &|share| bar.set_position((share * STEPS) as u64));
    bar.finish_and_clear();
    let diff = diff.with_context(|| format!("{}, {}", args.before.display(), args.after.display()))?;
    match args.format {
        Format::Text => write_text(&mut out, &diff, args.lines)?,
        Format::Json => {
            let mut document = Map::new();
            document.insert("sweephand".into(), header(&args.policy, &args.memory).into());
            let Value::Object(compared) = serde_json::to_value(&diff)? else { unreachable!("a struct") };
            document.extend(compared);
            serde_json::to_writer_pretty(&mut out, &document).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    out.commit()?;
    if let Some(mut chart) = chart {
        chart.write_all(plot_lines(&chart_of(&diff)).as_bytes()).context("the chart cannot be written")?;
        chart.commit()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the JSON depends on besides the traces.
fn header(policy: &str, memory: &str) -> Map<String, Value> {
    let conventions = json!({
        "faults": "all page faults, first touches among them",
        "lines, places": "faults under the first policy; what only one trace has is named without its line's number",
    });
    sweephand_results::header([("policy", json!(policy)), ("memory", json!(memory))], conventions)
}

fn chart_file(path: &Path, in_use: &[&Path]) -> anyhow::Result<Output> {
    if path.extension().is_none_or(|extension| extension != "svg") {
        bail!("--chart {}: name a file that ends with .svg", path.display());
    }
    Ok(Output::create(path, in_use)?)
}

/// A change as a share of what was.
fn change(before: u64, after: u64) -> String {
    match before {
        _ if before == after => "=".to_string(),
        0 => "new".to_string(),
        _ => format!("{:+.1}%", 100.0 * (after as f64 / before as f64 - 1.0)),
    }
}

fn write_text(out: &mut Output, diff: &TraceDiff, most: usize) -> io::Result<()> {
    let TraceDiff { before, after, policies, memory_bytes, size, .. } = diff;
    // Two builds of a program have one name.
    let names = match before.name == after.name {
        true => ["before".to_string(), "after".to_string()],
        false => [before.name.clone(), after.name.clone()],
    };
    let heading = |first: &str| Table::new([first, &names[0], &names[1], "change"].map(str::to_string));
    let row = |table: &mut Table, what: String, before: u64, after: u64| {
        table.row([what, grouped(before), grouped(after), change(before, after)]);
    };
    let mut totals = heading("");
    row(&mut totals, "pages".into(), before.pages, after.pages);
    row(&mut totals, "references".into(), before.references, after.references);
    row(&mut totals, "first touches".into(), before.first_touch_faults, after.first_touch_faults);
    write!(out, "{totals}")?;
    for (policy, name) in policies.iter().enumerate() {
        writeln!(out, "\npage faults under {name}, by memory size:")?;
        let mut table = heading("memory");
        for (at, memory) in memory_bytes.iter().enumerate() {
            row(&mut table, bytes(*memory), before.faults[policy][at], after.faults[policy][at]);
        }
        write!(out, "{table}")?;
    }
    let memory = bytes(memory_bytes[*size]);
    for (what, changed) in [("lines of code", &diff.lines), ("places that made memory", &diff.places)] {
        if !changed.is_empty() {
            writeln!(out, "\n{what} whose faults changed most, in {memory} under {}:", policies[0])?;
            let mut table = heading("");
            for Changed { name, before, after } in changed.iter().take(most) {
                row(&mut table, name.clone(), *before, *after);
            }
            write!(out, "{table}")?;
        }
    }
    Ok(())
}

fn chart_of(diff: &TraceDiff) -> LineChart {
    const MIB: f64 = (1 << 20) as f64;
    let line = |side: &DiffSide, which: &str, policy: usize| ChartLine {
        name: format!("{which} ({}), {}", side.name, diff.policies[policy]),
        points: diff
            .memory_bytes
            .iter()
            .zip(&side.faults[policy])
            .map(|(memory, faults)| (*memory as f64 / MIB, *faults as f64))
            .collect(),
        published: Vec::new(),
    };
    let lines = (0..diff.policies.len())
        .flat_map(|policy| [line(&diff.before, "before", policy), line(&diff.after, "after", policy)])
        .collect();
    LineChart {
        name: format!("Page faults of {} and {}", diff.before.name, diff.after.name),
        x: "memory, MiB".into(),
        y: "page faults".into(),
        logarithmic: false,
        lines,
    }
}
