//! `sweephand doctor`: which commands work on this machine, and what to do for those that do not.
//!
//! It runs each of them on this program, which only prints its version, so the answers are those
//! that a user would get. Exit status: 1 if something does not work.

use crate::Home;
use crate::about::ON_EVERY_PROCESSOR;
use anyhow::Context;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

#[derive(clap::Args)]
pub(crate) struct Args {}

/// A command to try: what it is for, its words, and whether a program follows. DIR is a directory
/// for its files, PID this process.
struct Trial {
    purpose: &'static str,
    words: &'static str,
    runs_program: bool,
}

const fn of_program(purpose: &'static str, words: &'static str) -> Trial {
    Trial { purpose, words, runs_program: true }
}

const TRIALS: [Trial; 7] = [
    of_program("record, advise: with Valgrind", "record --quiet -o DIR/valgrind.swt"),
    of_program("record --live: at full speed", "record --live --quiet -o DIR/live.swt"),
    Trial {
        purpose: "watch, advise --pid: a running process",
        words: "watch --for 1s PID",
        runs_program: false,
    },
    of_program("run --policy: a pager in the program", "run --quiet --memory 64MiB --policy clock"),
    of_program(
        "the same, with the processor's accessed bits",
        "run --quiet --memory 64MiB --policy clock --reference-bits hardware",
    ),
    of_program("run --backend swap: any program", "run --quiet --memory 64MiB --backend swap"),
    of_program("run --kernel, compare: the kernel's swap", "run --quiet --memory 64MiB --kernel"),
];

pub(crate) fn run(_: Args, home: &Home) -> anyhow::Result<ExitCode> {
    let directory = tempfile::tempdir().context("no directory for temporary files; set TMPDIR")?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{ON_EVERY_PROCESSOR}: work everywhere")?;
    let mut all = true;
    for trial in &TRIALS {
        let answer = trial.answer(home, directory.path())?;
        all &= answer.is_none();
        writeln!(stdout, "{}: {}", trial.purpose, answer.as_deref().unwrap_or("works"))?;
        stdout.flush()?;
    }
    Ok(ExitCode::from(u8::from(!all)))
}

impl Trial {
    /// Why it does not work.
    fn answer(&self, home: &Home, directory: &Path) -> anyhow::Result<Option<String>> {
        if !cfg!(target_arch = "x86_64") {
            return Ok(Some("is for x86-64".to_owned()));
        }
        let mut command = Command::new(&home.command);
        for word in self.words.split(' ') {
            let word = word.replace("DIR", &directory.to_string_lossy());
            command.arg(word.replace("PID", &std::process::id().to_string()));
        }
        if self.runs_program {
            command.arg("--").arg(&home.command).arg("--version");
        }
        let output = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{}: cannot be started", home.command.display()))?;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().rev().find(|line| line.starts_with("sweephand: ")).or(said.lines().last());
        let line = line.map(|line| line.trim_start_matches("sweephand: ").to_string());
        Ok(Some(line.unwrap_or_else(|| output.status.to_string())))
    }
}
