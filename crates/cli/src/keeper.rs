//! The process that writes the trace of a watch or of a live recording, so that there is a trace if
//! the command is killed.

use crate::Home;
use anyhow::{Context, bail};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use sweephand_watch::{READY, keep};

/// The process that writes the trace. Its words are for nobody else.
#[derive(clap::Args)]
pub(crate) struct KeeperArgs {
    path: PathBuf,
    in_use: Vec<PathBuf>,
}

/// A share such as `2%`, of at most `most` percent.
fn share_up_to(most: f64, text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    percent
        .filter(|percent| (0.01..=most).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("write a share of up to {most}%, as in 2% or 0.5%"))
}

/// A share such as `2%` of a processor's time.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    share_up_to(100.0, text)
}

/// A share such as `5%` of the time that a program takes by itself. It may be larger than all, and
/// `none` is no limit.
pub(crate) fn share_of_program(text: &str) -> Result<f64, String> {
    if text == "none" { Ok(f64::INFINITY) } else { share_up_to(10_000.0, text) }
}

/// Why a watch or a recording cannot go on.
pub(crate) const KEEPER_LOST: &str = "the process that writes the trace has ended";

/// The trace that a process of its own writes.
pub(crate) struct Keeper {
    process: Child,
    path: PathBuf,
}

impl Keeper {
    /// Starts that process, and waits until the trace can be written.
    pub(crate) fn start(home: &Home, path: &Path, in_use: &[&Path]) -> anyhow::Result<(Self, ChildStdin)> {
        let mut process = Command::new(&home.command)
            .arg("watch-keeper")
            .arg("--")
            .arg(path)
            .args(in_use)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What the terminal sends to the watcher is not for it: it ends when the watcher does.
            .process_group(0)
            .spawn()
            .context("the process that writes the trace cannot be started")?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("the process that writes the trace has no pipes");
        };
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let keeper = Self { process, path: path.to_path_buf() };
        if line.trim_end() != READY {
            keeper.finish()?;
            bail!("{}: the process that writes it has ended", path.display());
        }
        Ok((keeper, stdin))
    }

    /// Waits until the trace is there.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let mut said = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        if self.process.wait().context("the trace")?.success() {
            return Ok(());
        }
        // It has said why, unless it was killed.
        match said.trim_end().strip_prefix("sweephand: ") {
            Some(why) => bail!("{why}"),
            None => bail!("{}: was not written: {KEEPER_LOST}", self.path.display()),
        }
    }
}

/// The process of a trace: `sweephand watch-keeper`.
pub(crate) fn keep_trace(args: KeeperArgs) -> anyhow::Result<ExitCode> {
    let in_use: Vec<&Path> = args.in_use.iter().map(PathBuf::as_path).collect();
    keep(&mut io::stdin().lock(), &args.path, &in_use, io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
