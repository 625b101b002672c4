//! `sweephand report`: an HTML report on one trace or more.

use crate::output::Output;
use crate::progress;
use crate::record;
use crate::run::named_by;
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_policy::registry::Spec;
use sweephand_report::{HtmlReport, Study};
use sweephand_sim::MemorySize;
use sweephand_trace::{Interrupt, Trace};

/// Policies to compare unless others are asked for: the bound, the classics, those that could run
/// live.
pub const POLICIES: &str = "opt,lru,clock,car,clock-pro,lirs,mglru,sieve";
/// Memory sizes to compare them at; all of the program's pages come besides.
pub const SIZES: &str = "5%,10%,20%,30%,40%,50%,60%,70%,80%,90%";
/// More sizes than this make no better chart.
const MOST_SIZES: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Traces of any format; - is standard input
    #[arg(value_name = "T", required_unless_present = "command", conflicts_with = "command")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Page to write; - is standard output
    #[arg(short, long, value_name = "FILE.html")]
    output: PathBuf,
    /// A program and its arguments, to be recorded as `sweephand record` does it, into PROGRAM.swt
    #[arg(last = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

/// What to simulate.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Policies, comma list; `all`, or names with parameters as in clock-pro:cold=5%
    #[arg(short, long, default_value = POLICIES, value_name = "LIST")]
    pub(crate) policy: String,
    /// Memory sizes, comma list: pages (300p), bytes (64MiB), shares of the trace's pages (25%)
    #[arg(short, long, default_value = SIZES, value_name = "LIST")]
    pub(crate) memory: String,
}

impl Options {
    pub(crate) fn parse(&self) -> anyhow::Result<(Vec<Spec>, Vec<MemorySize>)> {
        let sizes = sizes(&self.memory)?;
        Ok((Spec::parse_list(&self.policy)?, sizes))
    }
}

/// Reads a comma list of memory sizes, no more than a chart can show.
pub fn sizes(memory: &str) -> anyhow::Result<Vec<MemorySize>> {
    let sizes = MemorySize::parse_list(memory)?;
    if sizes.contains(&MemorySize::All) || sizes.len() > MOST_SIZES {
        bail!(
            "--memory: name {MOST_SIZES} sizes at most; for all of them use sweephand simulate --format csv"
        );
    }
    Ok(sizes)
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (specs, sizes) = args.options.parse()?;
    let mut in_use = named_by(&args.command);
    in_use.extend(args.traces.iter().map(PathBuf::as_path));
    let mut out = Output::create(&args.output, &in_use)?;
    let (traces, status) = if args.command.is_empty() {
        (args.traces, ExitCode::SUCCESS)
    } else {
        let (path, status) = record::program(args.command, stdout_beside(Some(&args.output))?)?;
        (vec![path], status)
    };
    let mut studies = Vec::new();
    for path in &traces {
        let trace = open(path)?;
        let bar = bar(&trace);
        let study =
            Study::of(&trace, specs.clone(), &sizes, &|share| show(&bar, share), &Interrupt::default())?;
        bar.finish_and_clear();
        studies.push(study);
    }
    let html = html(studies, args.options.policy, args.options.memory);
    out.write_all(html.as_bytes()).context("the report cannot be written")?;
    out.commit()?;
    // What is recorded passes on its program's status, as with `record`.
    Ok(status)
}

/// Where a program prints that is recorded on the way to a result: to standard error, if the result
/// goes to standard output.
pub(crate) fn stdout_beside(output: Option<&Path>) -> io::Result<Option<OwnedFd>> {
    let is_taken = output.is_none_or(|output| output == Path::new("-"));
    is_taken.then(|| io::stderr().as_fd().try_clone_to_owned()).transpose()
}

/// The report on some traces, with the policies and memory sizes that were asked for.
pub fn html(studies: Vec<Study>, policies: String, sizes: String) -> String {
    HtmlReport { studies, version: env!("CARGO_PKG_VERSION").to_string(), policies, sizes }.render()
}

/// Whether a trace has something to study.
pub fn check(trace: &Trace) -> anyhow::Result<()> {
    if trace.header().totals.records == 0 {
        bail!("{}: has no references to simulate", trace.name().display());
    }
    Ok(())
}

/// Opens a trace that has something to study.
pub(crate) fn open(path: &Path) -> anyhow::Result<Trace> {
    let is_name = path.components().count() == 1 && !path.exists();
    if is_name && path != Path::new("-") && record::find_program(path.as_os_str()).is_ok() {
        bail!(
            "{0}: there is no such trace; if the program is meant, write -- before it: -- {0}",
            path.display()
        );
    }
    let trace = crate::simulate::open(path)?;
    check(&trace)?;
    Ok(trace)
}

/// Steps of a bar that shows shares.
const STEPS: f64 = 1000.0;

/// A bar over everything that is done with a trace.
pub(crate) fn bar(trace: &Trace) -> ProgressBar {
    let bar = progress::share(STEPS as u64);
    bar.set_message(trace.name().display().to_string());
    bar
}

pub(crate) fn show(bar: &ProgressBar, share: f64) {
    bar.set_position((share * STEPS) as u64);
}
