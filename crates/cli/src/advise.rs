//! `sweephand advise`: conclusions about a trace, in five lines. Given a program, it records the
//! program first.

use crate::report::{self, Options};
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_pager::LEAST_BYTES;
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
    /// A program and its arguments, to be recorded as `sweephand record` does it, into PROGRAM.swt
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
    let (path, status) = match args.trace {
        Some(path) => (path, ExitCode::SUCCESS),
        None => crate::record::program(args.command)?,
    };
    let trace = report::open(&path)?;
    let bar = report::bar(&trace);
    let study =
        CurveStudy::of(&trace, specs, &sizes, &|share| report::show(&bar, share), &Interrupt::default())?;
    bar.finish_and_clear();
    let mut out = io::stdout().lock();
    match args.format {
        Format::Text => write_text(&mut out, &path, &study)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &as_json(&path, &study)).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    study.notes.iter().for_each(|note| eprintln!("sweephand: note: {note}"));
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
/// memory to save, and if one of the policies simulated can run live. (The policy advised is the
/// best of those, if there is any.)
fn live(study: &CurveStudy) -> Option<(String, &str)> {
    let CurveStudy { conclusion, curves, command, .. } = study;
    let policy = &curves.curves[conclusion.policy];
    let whole = curves.distinct_pages * curves.page_bytes;
    if !policy.runs_live || command.is_empty() || whole <= LEAST_BYTES {
        return None;
    }
    // Where only nearly all of it would be enough: where the policy gains most, or else where its
    // curve gets flatter.
    let pages = match (conclusion.wants_nearly_all(curves), conclusion.best, conclusion.steepest_from) {
        (true, Some(best), _) if best.policy == conclusion.policy && best.policy != best.baseline => {
            curves.memory_pages[best.most_at]
        }
        (true, _, Some(from)) => curves.memory_pages[from + 1],
        _ => conclusion.enough.memory_pages,
    };
    let mebibytes = (pages * curves.page_bytes).max(LEAST_BYTES).div_ceil(1 << 20);
    Some((format!("{mebibytes}MiB"), &policy.policy))
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
