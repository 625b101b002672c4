//! `sweephand advise`: conclusions about a trace, in five lines, and where in the program its
//! faults are. Given a program, it records the program first. Given a process or a service, it
//! watches it for some time and says how much memory is enough.

mod watched;

use crate::advise_try::{self, Orders, TryArgs};
use crate::live::limit_bytes;
use crate::report::{self, Options};
use crate::stderr::eprint_line;
use crate::time::{PagedBy, TimeOptions, compression};
use crate::watch;
use crate::watched::Watched;
use anyhow::bail;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use sweephand_advice::{Advice, Budget, Compression, CurveStudy, FaultsInCode, Slowdown};
use sweephand_output::{Output, named_by};
use sweephand_trace::Interrupt;

/// What a program may be slowed down by, unless something else is asked for.
const DEFAULT_SLOWDOWN: f64 = 1.2;

/// Arguments that say nothing of what is watched, by the names of fields.
const NOT_OF_A_WATCH: [&str; 7] = ["trace", "command", "policy", "memory", "native", "budget", "lines"];

#[derive(clap::Args)]
#[command(mut_group("watched", |watched| watched.conflicts_with_all(NOT_OF_A_WATCH)))]
pub(crate) struct Args {
    /// Trace of any format; - is standard input
    #[arg(value_name = "T", required_unless_present_any = ["command", "watched"], conflicts_with = "command")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    watched: Watched,
    /// For what is watched: how long. What is enough is told with bounds, under LRU
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = watch::time)]
    duration: Duration,
    #[command(flatten)]
    how: watch::How,
    #[command(flatten)]
    trial: TryArgs,
    #[command(flatten)]
    options: Options,
    /// Also find the least memory in which the program takes at most this many times as long as
    /// with all memory, and print it as limits to set [default: 1.2, for what is watched 1.05].
    /// With --try: what the service may take
    #[arg(long, value_name = "FACTOR")]
    slowdown: Option<f64>,
    /// Exit with status 1 if the program needs more memory than this for its faults to be within a
    /// tenth of the fewest. The advice is then Markdown, for the summary of a build
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["slowdown", "device"])]
    budget: Option<String>,
    #[command(flatten)]
    time: TimeOptions,
    /// If the trace says which code touches pages: also print this many lines of the program with
    /// the most faults, the places that made the memory, and what to change there. 0: nothing of it
    #[arg(long, value_name = "N", default_value_t = 5)]
    lines: usize,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write the advice to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A program and its arguments, to be recorded as `sweephand record` does it, into PROGRAM.swt.
    /// Where the advice goes to standard output, what the program prints there goes to standard
    /// error
    #[arg(last = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

impl Args {
    /// Whether it watches or records a process, instead of reading a trace.
    pub(crate) fn is_on_process(&self) -> bool {
        self.watched.is_given() || !self.command.is_empty()
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (specs, sizes) = args.options.parse()?;
    let device = args.time.device()?;
    check_slowdown(&args, device.is_some())?;
    let budget = args.budget.as_deref().map(|size| limit_bytes("--budget", size)).transpose()?;
    let mut in_use = named_by(&args.command);
    in_use.extend(args.trace.as_deref());
    let device_file = args.time.file();
    in_use.extend(device_file.as_deref());
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    if args.watched.is_given() {
        if args.trial.is_wanted {
            return try_on_service(&args, out);
        }
        let advice = watched::advise(&args.watched, &args.how, args.duration, device, args.slowdown)?;
        match args.format {
            Format::Text => writeln!(out, "{advice}")?,
            Format::Json => write_json(&advice.to_json(), &mut out)?,
        }
        out.commit()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (path, status) = match &args.trace {
        Some(path) => (path.clone(), ExitCode::SUCCESS),
        None => crate::record::program(args.command.clone(), report::stdout_beside(args.output.as_deref())?)?,
    };
    let trace = report::open(&path)?;
    let bar = report::bar(&trace);
    let study =
        CurveStudy::of(&trace, specs, &sizes, &|share| report::show(&bar, share), &Interrupt::default())?;
    if let Some(reason) = &study.inconclusive {
        bail!("{}: there is no advice. {reason}", path.display());
    }
    let in_code = if args.lines > 0 && trace.header().metadata.places.is_some() {
        Some(FaultsInCode::of(&trace, &study, &|share| report::show(&bar, share))?)
    } else {
        None
    };
    bar.finish_and_clear();
    let (slowdown, compression) = match device {
        None => (None, None),
        Some(device) => {
            let model = args.time.model(&trace, device, PagedBy::Run)?;
            let factor = args.slowdown.unwrap_or(DEFAULT_SLOWDOWN);
            let slowdown = Slowdown::of(&study, &model, factor, &Interrupt::default())?;
            (Some(slowdown), compression(&study, &model)?)
        }
    };
    let budget = budget.map(|budget_bytes| Budget { budget_bytes, study: &study });
    let is_over_budget = budget.as_ref().is_some_and(|budget| !budget.is_kept());
    let advice = Advice { path: &path, study: &study };
    let conclusions = Conclusions { advice, in_code, slowdown, compression, budget, lines: args.lines };
    match args.format {
        Format::Text => conclusions.write_text(&mut out)?,
        Format::Json => write_json(&conclusions.to_json(), &mut out)?,
    }
    out.commit()?;
    let on_code = conclusions.in_code.iter().flat_map(|in_code| in_code.objects.code.notes());
    study.notes.iter().cloned().chain(on_code).for_each(|note| eprint_line!("sweephand: note: {note}"));
    if status == ExitCode::SUCCESS && is_over_budget {
        return Ok(ExitCode::FAILURE);
    }
    // What is recorded passes on its program's status, as with `record`.
    Ok(status)
}

fn check_slowdown(args: &Args, has_device: bool) -> anyhow::Result<()> {
    if let Some(factor) = args.slowdown.filter(|factor| !factor.is_finite() || *factor <= 1.0) {
        bail!("--slowdown {factor}: write more than 1, as in 1.2");
    }
    if args.slowdown.is_some() && !has_device && !args.watched.is_given() {
        bail!("--slowdown needs --device");
    }
    Ok(())
}

fn write_json(value: &serde_json::Value, out: &mut Output) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)
}

/// Lowers a service's memory for some time, and says how little is enough.
fn try_on_service(args: &Args, mut out: Output) -> anyhow::Result<ExitCode> {
    let Some(service) = args.watched.service() else { bail!("--try needs --cgroup, --unit or --container") };
    let (how, slowdown, duration) = (args.how.options(), args.slowdown, args.duration);
    let report = advise_try::run(&Orders { service, args: &args.trial, how, slowdown, duration })?;
    match args.format {
        Format::Text => write!(out, "{}", report.to_text())?,
        Format::Json => write_json(&report.to_json(), &mut out)?,
    }
    out.commit()?;
    report.error.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// What a trace comes to, as far as it was asked for.
struct Conclusions<'a> {
    advice: Advice<'a>,
    /// Where in the program its faults are.
    in_code: Option<FaultsInCode>,
    slowdown: Option<Slowdown>,
    compression: Option<Compression>,
    budget: Option<Budget<'a>>,
    /// Lines of the program that the text has at most.
    lines: usize,
}

impl Conclusions<'_> {
    /// For people: Markdown if there is a budget.
    fn write_text(&self, out: &mut Output) -> io::Result<()> {
        let Self { advice, in_code, slowdown, compression, budget, lines } = self;
        if let Some(budget) = budget {
            return out.write_all(budget.to_markdown(in_code.as_ref(), *lines).as_bytes());
        }
        write!(out, "{advice}")?;
        if let Some(in_code) = in_code {
            write!(out, "{}", in_code.to_text(advice.study, *lines))?;
        }
        if let Some(slowdown) = slowdown {
            writeln!(out, "{:<9} {slowdown}", "time")?;
            for (name, line) in slowdown.limits(&advice.study.command) {
                writeln!(out, "  {name:<11} {line}")?;
            }
        }
        if let Some(compression) = compression {
            write!(out, "{compression}")?;
        }
        Ok(())
    }

    /// For programs.
    fn to_json(&self) -> serde_json::Value {
        let study = self.advice.study;
        let mut all = self.advice.to_json();
        if let Some(budget) = &self.budget {
            all["budget"] = budget.to_json();
        }
        if let Some(in_code) = &self.in_code {
            all["code"] = in_code.to_json(study);
        }
        if let Some(slowdown) = &self.slowdown {
            all["time"] = slowdown.to_json(&study.command);
        }
        if let Some(compression) = &self.compression {
            all["compression"] = compression.to_json();
        }
        all
    }
}
