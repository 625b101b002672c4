//! Advice in five lines: `sweephand advise`.

use crate::conclusion::Comparison;
use crate::curve_study::CurveStudy;
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use sweephand_pager_interface::memory::{PAGE_BYTES, memory_for};
use sweephand_results::{bytes, grouped};
use sweephand_trace::shown;

/// What a study comes to.
#[derive(Clone, Copy, Debug)]
pub struct Advice<'a> {
    /// Where the trace lies, `-` if it has no file.
    pub path: &'a Path,
    /// The study of it.
    pub study: &'a CurveStudy,
}

impl Advice<'_> {
    /// The curves and what they come to; policies by name.
    pub fn to_json(&self) -> Value {
        let Self { path, study } = self;
        let conclusion = &study.conclusion;
        let name = |index: usize| &study.curves.curves[index].policy;
        let comparison = |comparison: &Comparison| {
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
}

/// Five lines: what it is, how much memory, which policy, what is left to gain, what to do next.
impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, study } = self;
        let trace = &study.trace;
        let sentences = study.conclusion.sentences(&study.curves);
        let mut line = |name: &str, text: &str| writeln!(f, "{name:<9} {}", shown(text));
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
        let next = next(path, study)
            .map(|words| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        line("next", &next.unwrap_or("sweephand report T -o report.html, with the trace in a file T".into()))
    }
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
    let CurveStudy { conclusion, curves, command, specs, .. } = study;
    let policy = &curves.curves[conclusion.policy];
    let whole = curves.distinct_pages * curves.page_bytes;
    if !policy.runs_live || command.is_empty() || conclusion.wants_nearly_all(curves) {
        return None;
    }
    let frames = (conclusion.enough.memory_pages * curves.page_bytes).div_ceil(PAGE_BYTES);
    let memory = memory_for(frames, specs[conclusion.policy].entry().bytes_a_page).div_ceil(1 << 20) << 20;
    (memory < whole).then(|| (format!("{}MiB", memory >> 20), &*policy.policy))
}

/// A word of a command, so that it can be pasted into a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
