//! `sweephand report`: an HTML report on one trace or more.

use crate::progress;
use crate::record;
use crate::stderr::eprint_line;
use crate::time::{TimeOptions, compression};
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use sweephand_advice::{DeviceSeconds, POLICIES, SIZES, Study, check, sizes};
use sweephand_output::{Output, named_by};
use sweephand_policy::registry::Spec;
use sweephand_report::HtmlReport;
use sweephand_sim::MemorySize;
use sweephand_time::{Device, Paging, TimeModel};
use sweephand_trace::{Interrupt, Trace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Traces of any format; - is standard input
    #[arg(value_name = "T", required_unless_present = "command", conflicts_with = "command")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Page to write; - is standard output [default: the trace's name with .html, in this
    /// directory; report.html for several traces]
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Open the page in the browser (xdg-open)
    #[arg(long)]
    open: bool,
    /// Also write the faults at the size of the page's tables by call stack, for flame graphs
    #[arg(long, value_name = "FILE", visible_alias = "folded")]
    stacks: Option<PathBuf>,
    /// Whose call stacks: the code whose references met the faults, or what made the objects that
    /// they were on [default: code, if the trace has it]
    #[arg(long, value_name = "WHOSE")]
    stacks_of: Option<StacksOf>,
    /// How: folded has the faults under the first policy of the tables, and the stacks of several
    /// traces begin with the trace; speedscope and pprof have those under each policy of the
    /// tables, of code only
    #[arg(long, value_name = "FORMAT", default_value = "folded")]
    format: StacksFormat,
    /// Also predict seconds, on these devices, comma list: as in `simulate --device`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device: Vec<String>,
    /// Seconds that the program takes with all memory [default: its instructions, 3 billion a
    /// second]
    #[arg(long, value_name = "SECONDS")]
    native: Option<f64>,
    /// A program and its arguments, to be recorded as `sweephand record` does it, into PROGRAM.swt
    #[arg(last = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

/// Whose call stacks are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum StacksOf {
    Code,
    Objects,
}

/// Formats of call stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum StacksFormat {
    Folded,
    Speedscope,
    Pprof,
}

/// What to simulate.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Policies, comma list; `all`, or names with parameters as in clock-pro:cold=5%
    #[arg(short, long, default_value = POLICIES, value_name = "LIST")]
    pub(crate) policy: String,
    /// Memory sizes, comma list: pages (300p), bytes (64MiB or 64M; 64MB is 64,000,000), shares of
    /// the trace's pages (25%)
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
    let devices = args
        .device
        .iter()
        .map(|name| TimeOptions { device: Some(name.clone()), native: args.native }.device())
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut in_use = named_by(&args.command);
    in_use.extend(args.traces.iter().map(PathBuf::as_path));
    let device_files: Vec<_> = args.device.iter().filter_map(|name| Device::file_of(name)).collect();
    in_use.extend(device_files.iter().map(PathBuf::as_path));
    let (output, is_named) = match &args.output {
        Some(output) => (output.clone(), true),
        None => (default_output(&args.traces, &args.command)?, false),
    };
    if args.open && output == Path::new("-") {
        bail!("--open: needs a file; leave -o - out");
    }
    let mut out = Output::create(&output, &in_use)?;
    in_use.push(&output);
    let stacks = args.stacks.as_deref().map(|path| Output::create(path, &in_use)).transpose()?;
    let (traces, status) = if args.command.is_empty() {
        (args.traces, ExitCode::SUCCESS)
    } else {
        let (path, status) = record::program(args.command, stdout_beside(Some(&output))?)?;
        (vec![path], status)
    };
    let mut studies = Vec::new();
    for path in &traces {
        let trace = open(path)?;
        let bar = bar(&trace);
        let study =
            Study::of(&trace, specs.clone(), &sizes, &|share| show(&bar, share), &Interrupt::default())?;
        let study = Study { seconds: seconds(&trace, &study, &devices, args.native)?, ..study };
        bar.finish_and_clear();
        studies.push(study);
    }
    if let Some(mut output) = stacks {
        write_stacks(&mut output, &studies, args.stacks_of, args.format)?;
        output.commit()?;
    }
    let page = HtmlReport::new(studies, args.options.policy, args.options.memory).render();
    out.write_all(page.as_bytes()).context("the report cannot be written")?;
    out.commit()?;
    if !is_named {
        eprint_line!("{}", output.display());
    }
    if args.open {
        open_in_browser(&output)?;
    }
    // What is recorded passes on its program's status, as with `record`.
    Ok(status)
}

/// What the page is called if nobody says so.
fn default_output(traces: &[PathBuf], command: &[OsString]) -> anyhow::Result<PathBuf> {
    let of = match (traces, command) {
        ([trace], _) if trace == Path::new("-") => bail!("-: name the page, as in -o report.html"),
        ([trace], _) => trace,
        ([], [program, ..]) => Path::new(program),
        _ => Path::new("report"),
    };
    // Compressed traces have two endings.
    let mut name = PathBuf::from(of.file_name().context("the trace has no name")?);
    if [".gz", ".xz", ".zst", ".bz2", ".lz4"]
        .iter()
        .any(|ending| name.as_os_str().as_encoded_bytes().ends_with(ending.as_bytes()))
    {
        name.set_extension("");
    }
    Ok(name.with_extension("html"))
}

/// Shows a page in the user's browser.
fn open_in_browser(page: &Path) -> anyhow::Result<()> {
    let status = Command::new("xdg-open").arg(page).stdin(Stdio::null()).status();
    let failed = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("xdg-open: {status}"),
        Err(error) => format!("xdg-open: {error}"),
    };
    bail!("--open: {failed}; the page is in {}", page.display())
}

/// Predicted seconds on each of the devices.
fn seconds(
    trace: &Trace,
    study: &Study,
    devices: &[Option<Device>],
    native: Option<f64>,
) -> anyhow::Result<Vec<DeviceSeconds>> {
    let mut tables = Vec::new();
    let mut model: Option<TimeModel> = None;
    for device in devices.iter().flatten() {
        let of_device = match &model {
            Some(known) => known.with(device.clone(), Paging::Run),
            None => TimeModel::of(trace, device.clone(), Paging::Run, native)?,
        };
        let seconds = DeviceSeconds::of(&study.curves, &of_device, &Interrupt::default())?;
        let compression = compression(&study.curves, &of_device)?;
        tables.push(DeviceSeconds { compression, ..seconds });
        model = Some(of_device);
    }
    Ok(tables)
}

fn write_stacks(
    output: &mut impl Write,
    studies: &[Study],
    of: Option<StacksOf>,
    format: StacksFormat,
) -> anyhow::Result<()> {
    if format != StacksFormat::Folded {
        let name = if format == StacksFormat::Pprof { "pprof" } else { "speedscope" };
        let [study] = studies else { bail!("--format {name}: one trace at a time") };
        let StacksOf::Code = of.unwrap_or(StacksOf::Code) else {
            bail!("--format {name}: only with --stacks-of code")
        };
        if study.objects.code.is_empty() {
            bail!("{}: the trace does not say which code touches pages: record it again", study.curves.name);
        }
        let names: Vec<String> =
            study.objects.policies.iter().map(|at| study.curves.curves.curves[*at].policy.clone()).collect();
        match format {
            StacksFormat::Pprof => output.write_all(&study.objects.code.pprof(&names))?,
            _ => writeln!(output, "{}", study.objects.code.speedscope(&study.curves.name, &names))?,
        }
        return Ok(());
    }
    for study in studies {
        let code = &study.objects.code;
        let has_code = !code.is_empty();
        let of = of.unwrap_or(if has_code { StacksOf::Code } else { StacksOf::Objects });
        let folded = if of == StacksOf::Code { code.folded(0) } else { study.objects.folded() };
        for line in folded.lines() {
            match studies {
                [_] => writeln!(output, "{line}")?,
                _ => writeln!(output, "{};{line}", study.curves.name.replace(';', ":"))?,
            }
        }
    }
    Ok(())
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
