//! `sweephand multiprogram`: many tasks, one memory.

use crate::formats::FormatName;
use crate::progress;
use crate::stderr::eprint_line;
use anyhow::{Context, anyhow, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_machine::configuration::ProgramFile;
use sweephand_machine::{Configuration, Line, Sample, Workload};
use sweephand_output::Output;
use sweephand_policy::task_registry::TaskSpec;
use sweephand_results::{MultiprogramReport, MultiprogramRow};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configurations: A, B, C (those of the WSCLOCK paper) or TOML files
    #[arg(default_values = ["A", "B", "C"], value_name = "CONFIG")]
    configurations: Vec<String>,
    /// Policies, comma list, such as wsclock,ws:lr=sampled,clock-pro; lt-rt=off for one without a
    /// limit of loading tasks [default: the configuration's]
    #[arg(short, long, value_name = "LIST")]
    policy: Option<String>,
    /// Windows of the working set, comma list of references, as in 200k or 2M [default: the
    /// configuration's]
    #[arg(long, value_name = "LIST", value_parser = parse_count, value_delimiter = ',')]
    theta: Vec<u64>,
    /// Seeds, comma list; results are means over them [default: the configuration's]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    seed: Vec<u64>,
    /// Simulate intervals (IRIM) of this omega instead of every reference; 0: every reference
    /// [default: the configuration's]
    #[arg(long, value_name = "OMEGA", value_parser = parse_count)]
    irim: Option<u64>,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    format: FormatName,
    /// Write the results to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write active, loading and blocked tasks, free frames and queue length over time to a CSV
    /// file
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Time between two lines of the timeline, in references
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1M")]
    timeline_step: u64,
    /// Print a built-in configuration as TOML, to start one of your own from
    #[arg(long)]
    print: bool,
}

/// A number of references: `200000`, `200k`, `2M`.
fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    let number = digits.replace('_', "").parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| "write a number of references as in 200000, 200k or 2M".to_string())
}

const TIMELINE_COLUMNS: [&str; 11] = [
    "configuration",
    "policy",
    "theta_refs",
    "seed",
    "time_refs",
    "active_tasks",
    "loading_tasks",
    "blocked_tasks",
    "free_frames",
    "paging_queue",
    "ready_tasks",
];

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.print {
        return print(&args);
    }
    let configurations =
        args.configurations.iter().map(|name| configuration(name, &args)).collect::<Result<Vec<_>, _>>()?;
    let policies = configurations.iter().map(|of| policies(of, &args)).collect::<Result<Vec<_>, _>>()?;
    let files = args.configurations.iter().map(Path::new);
    let traces = configurations.iter().flat_map(|of| of.tasks.programs.iter().map(ProgramFile::trace));
    let mut in_use: Vec<&Path> = files.chain(traces).collect();
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    in_use.extend(args.output.as_deref());
    if args.timeline_step == 0 {
        bail!("--timeline-step: must be at least 1");
    }
    let timeline = args.timeline.as_deref().map(|path| Output::create(path, &in_use));
    let mut timeline = timeline.transpose()?.map(csv::Writer::from_writer);
    if let Some(csv) = &mut timeline {
        csv.write_record(TIMELINE_COLUMNS)?;
    }
    let sample_refs = if timeline.is_some() { args.timeline_step } else { 0 };

    let mut report =
        MultiprogramReport { sweephand: header(&args), configurations: Vec::new(), rows: Vec::new() };
    for (configuration, policies) in configurations.into_iter().zip(&policies) {
        let workload = Workload::open(configuration)?;
        let configuration = &workload.configuration;
        let lines = workload.lines(policies);
        let cells = workload.cells(&lines);
        configuration.note_on_small_windows().iter().for_each(|note| eprint_line!("sweephand: note: {note}"));
        let bar = progress::bar(cells.len() as u64, "runs");
        bar.set_message(configuration.name.clone());
        let results = workload.run_all(&cells, sample_refs, &|| bar.inc(1))?;
        bar.finish_and_clear();
        let outcomes: Vec<_> = results.iter().map(|(outcome, _)| *outcome).collect();
        configuration
            .note_on_force(&outcomes)
            .iter()
            .for_each(|note| eprint_line!("sweephand: note: {note}"));
        let runs_of_a_line = configuration.seeds.len();
        for (Line { policy, theta_refs: theta }, results) in
            lines.into_iter().zip(results.chunks(runs_of_a_line))
        {
            let runs = results.iter().map(|(outcome, _)| *outcome).collect();
            report.rows.push(MultiprogramRow::new(&configuration.name, &policy, theta, runs));
            if let Some(csv) = &mut timeline {
                for ((_, samples), seed) in results.iter().zip(&configuration.seeds) {
                    let theta = theta.map_or(String::new(), |theta| theta.to_string());
                    let of = [configuration.name.clone(), policy.to_string(), theta, seed.to_string()];
                    samples.iter().try_for_each(|sample| csv.write_record(line(&of, sample)))?;
                }
            }
        }
        report.configurations.push(workload.configuration);
    }
    report.write(args.format.showing(|| Ok(()))?, &mut out).context("the results cannot be written")?;
    if let Some(csv) = timeline {
        csv.into_inner()
            .map_err(|error| anyhow!("the timeline cannot be written: {}", error.error()))?
            .commit()?;
    }
    out.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// A built-in configuration, or a file, with what the command line sets.
fn configuration(name: &str, args: &Args) -> anyhow::Result<Configuration> {
    let mut configuration = Configuration::named(name)?;
    configuration.set(&args.theta, &args.seed, args.irim)?;
    Ok(configuration)
}

/// The policies of the command line, or of the configuration.
fn policies(configuration: &Configuration, args: &Args) -> anyhow::Result<Vec<TaskSpec>> {
    Ok(match &args.policy {
        Some(list) => TaskSpec::parse_list(list)?,
        None => configuration.task_specs()?,
    })
}

fn print(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &[])?;
    let [name] = &args.configurations[..] else { bail!("--print: name one configuration, such as A") };
    let Some(text) = Configuration::built_in_copy(name) else {
        bail!(
            "--print: '{name}' is not built in; those are {}",
            Configuration::built_in_names().collect::<Vec<_>>().join(" ")
        );
    };
    std::io::Write::write_all(&mut out, text.as_bytes())?;
    out.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// What the results depend on besides the configurations.
fn header(args: &Args) -> serde_json::Map<String, serde_json::Value> {
    let options = [("configurations", json!(args.configurations)), ("policy", json!(args.policy))];
    MultiprogramReport::header(options)
}

fn line(of: &[String; 4], sample: &Sample) -> Vec<String> {
    let Sample {
        time_refs,
        active_tasks,
        loading_tasks,
        blocked_tasks,
        free_frames,
        paging_queue,
        ready_tasks,
    } = sample;
    let counts = [active_tasks, loading_tasks, blocked_tasks, free_frames, paging_queue, ready_tasks];
    let counts = counts.map(ToString::to_string);
    of.iter().cloned().chain([time_refs.to_string()]).chain(counts).collect()
}
