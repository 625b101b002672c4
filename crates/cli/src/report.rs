//! `sweephand report`: an HTML report on one trace or more.

use crate::progress;
use crate::record;
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_advice::{POLICIES, SIZES, Study, check, sizes};
use sweephand_output::{Output, named_by};
use sweephand_policy::registry::Spec;
use sweephand_report::HtmlReport;
use sweephand_sim::MemorySize;
use sweephand_trace::{Interrupt, Trace};

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
    /// Also write the faults at the size of the page's tables, under the first policy of the
    /// tables, by the call stack that made the object: a file in the folded format, from which
    /// flame graphs are drawn. The stacks of several traces begin with the trace
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
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

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (specs, sizes) = args.options.parse()?;
    let mut in_use = named_by(&args.command);
    in_use.extend(args.traces.iter().map(PathBuf::as_path));
    let mut out = Output::create(&args.output, &in_use)?;
    in_use.push(&args.output);
    let folded = args.folded.as_deref().map(|path| Output::create(path, &in_use)).transpose()?;
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
    if let Some(mut output) = folded {
        for study in &studies {
            for line in study.objects.folded().lines() {
                match &studies[..] {
                    [_] => writeln!(output, "{line}")?,
                    _ => writeln!(output, "{};{line}", study.curves.name.replace(';', ":"))?,
                }
            }
        }
        output.commit()?;
    }
    let page = HtmlReport::new(studies, args.options.policy, args.options.memory).render();
    out.write_all(page.as_bytes()).context("the report cannot be written")?;
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

/// Opens a trace that has something to study.
pub(crate) fn open(path: &Path) -> anyhow::Result<Trace> {
    let is_name = path.components().count() == 1 && !path.exists();
    if is_name && path != Path::new("-") && sweephand_record::find_program(path.as_os_str()).is_ok() {
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
