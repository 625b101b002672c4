//! `sweephand advise`: conclusions about a trace, in five lines. Given a program, it records the
//! program first.

use crate::output::Output;
use crate::report::{self, Options};
use crate::run::named_by;
use crate::talk::say;
use anyhow::bail;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_pager::{PAGE_BYTES, memory_for};
use sweephand_report::{CurveStudy, bytes, grouped};
use sweephand_trace::Interrupt;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace of any format; - is standard input
    #[arg(value_name = "T", required_unless_present = "command", conflicts_with = "command")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
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

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (specs, sizes) = args.options.parse()?;
    let mut in_use = named_by(&args.command);
    in_use.extend(args.trace.as_deref());
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    let (path, status) = match &args.trace {
        Some(path) => (path.clone(), ExitCode::SUCCESS),
        None => crate::record::program(args.command.clone(), report::stdout_beside(args.output.as_deref())?)?,
    };
    let trace = report::open(&path)?;
    if let Some(launcher) = sweephand_report::launcher(trace.header()) {
        bail!("{}: there is no advice on a launcher. {launcher}", path.display());
    }
    let bar = report::bar(&trace);
    let study =
        CurveStudy::of(&trace, specs, &sizes, &|share| report::show(&bar, share), &Interrupt::default())?;
    bar.finish_and_clear();
    match args.format {
        Format::Text => write_text(&mut out, &path, &study)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &as_json(&path, &study)).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    out.commit()?;
    study.notes.iter().for_each(|note| say!("sweephand: note: {note}"));
    // What is recorded passes on its program's status, as with `record`.
    Ok(status)
}

/// What a study comes to, as the five lines and as JSON. `path` is where the trace lies, `-` if
/// it has no file.
pub fn told(path: &Path, study: &CurveStudy) -> io::Result<(String, serde_json::Value)> {
    let mut lines = Vec::new();
    write_text(&mut lines, path, study)?;
    Ok((String::from_utf8_lossy(&lines).into_owned(), as_json(path, study)))
}

/// Five lines: what it is, how much memory, which policy, what is left to gain, what to do next.
fn write_text(out: &mut impl Write, path: &Path, study: &CurveStudy) -> io::Result<()> {
    let trace = &study.trace;
    let sentences = study.conclusion.sentences(&study.curves);
    let mut line = |name: &str, text: &str| writeln!(out, "{name:<9} {text}");
    line(
        "program",
        &format!(
            "{}: {} references to {} pages ({}).",
            study.name,
            grouped(trace.references),
            grouped(trace.distinct_pages),
            bytes(trace.distinct_pages * trace.page_bytes)
        ),
    )?;
    line("memory", &sentences.enough)?;
    line("policy", &sentences.policy)?;
    line("headroom", &sentences.headroom)?;
    let next =
        next(path, study).map(|words| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
    line("next", &next.unwrap_or("sweephand report T -o report.html, with the trace in a file T".into()))
}

/// The command to run next: the program itself, live, under the policy advised, in the memory that
/// is enough; the report where that cannot be had. `None` for a trace without a name.
fn next(path: &Path, study: &CurveStudy) -> Option<Vec<String>> {
    if let Some((memory, policy)) = live(study) {
        let run = ["sweephand", "run", "--memory", &memory, "--policy", policy, "--"].map(String::from);
        return Some(run.into_iter().chain(study.command.iter().cloned()).collect());
    }
    if path == Path::new("-") {
        return None;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let page = format!("{}.html", name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("report"));
    Some(["sweephand", "report", &path.display().to_string(), "-o", &page].map(String::from).to_vec())
}

/// Memory and policy for a live run, if the trace says how its program was called, if there is
/// memory to save beside what the pager itself takes, and if one of the policies simulated can run
/// live. (The policy advised is the best of those, if there is any.) Where nothing short of nearly
/// all memory is enough a run in less would thrash: there is none.
fn live(study: &CurveStudy) -> Option<(String, &str)> {
    let CurveStudy { conclusion, curves, command, .. } = study;
    let policy = &curves.curves[conclusion.policy];
    let whole = curves.distinct_pages * curves.page_bytes;
    if !policy.runs_live || command.is_empty() || conclusion.wants_nearly_all(curves) {
        return None;
    }
    let frames = (conclusion.enough.memory_pages * curves.page_bytes).div_ceil(PAGE_BYTES);
    let memory = memory_for(frames).div_ceil(1 << 20) << 20;
    (memory < whole).then(|| (format!("{}MiB", memory >> 20), &*policy.policy))
}

/// A word of a command, so that it can be pasted into a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The curves and what they come to; policies by name.
fn as_json(path: &Path, study: &CurveStudy) -> serde_json::Value {
    let conclusion = &study.conclusion;
    let name = |index: usize| &study.curves.curves[index].policy;
    let comparison = |comparison: &sweephand_report::Comparison| {
        let at = comparison.most_at;
        json!({
            "policy": name(comparison.policy),
            "baseline": name(comparison.baseline),
            "saved": comparison.saved,
            "most_at_pages": study.curves.memory_pages[at],
            "faults_there": study.curves.curves[comparison.policy].faults[at],
            "baseline_faults_there": study.curves.curves[comparison.baseline].faults[at],
        })
    };
    json!({
        "sweephand": { "version": env!("CARGO_PKG_VERSION") },
        "trace": study.trace,
        "program": study.name,
        "curves": study.curves,
        "conclusion": {
            "policy": name(conclusion.policy),
            "enough": conclusion.enough,
            "best": conclusion.best.as_ref().map(comparison),
            "headroom": conclusion.headroom.as_ref().map(comparison),
            "sentences": conclusion.sentences(&study.curves),
        },
        "next": next(path, study),
        "notes": study.notes,
    })
}
