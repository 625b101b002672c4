//! The service's own figure: a command that prints a number.

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Most bytes that are read of what the command prints.
const MOST_BYTES: u64 = 1 << 20;
/// Most of it that an error shows.
const SHOWN_CHARS: usize = 60;

/// What is said of a service that does no work at the start: every limit would be good enough.
pub(super) const IDLE: &str = "--metric: it printed 0 at the start: the service has to be at work";

/// What the number is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum MetricIs {
    /// Time: more is worse
    Latency,
    /// Work for each second, or the like: less is worse
    Throughput,
}

impl MetricIs {
    /// What grows as the service slows down.
    pub(super) fn cost(self, value: f64) -> f64 {
        match self {
            Self::Latency => value,
            Self::Throughput => 1.0 / value,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
        }
    }
}

/// The command, and how its number is read.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) command: String,
    pub(super) is: MetricIs,
    pub(super) timeout: Duration,
}

/// The command while it runs. It is killed with all that it has started when this is dropped.
#[derive(Debug)]
pub(super) struct MetricRun {
    shell: Child,
    stdout: File,
    stderr: File,
    began: Instant,
    status: Option<ExitStatus>,
}

impl Drop for MetricRun {
    fn drop(&mut self) {
        if self.status.is_none() {
            // The shell has not been waited for, so the group's number is still its own.
            let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
            let _ = self.shell.wait();
        }
    }
}

impl Metric {
    /// Starts the command.
    pub(super) fn start(&self) -> anyhow::Result<MetricRun> {
        let file = || tempfile::tempfile().context("a temporary file for what --metric prints");
        let (stdout, stderr) = (file()?, file()?);
        let shell = Command::new("/bin/sh")
            .args(["-c", &self.command])
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            // The terminal's interrupt is for this process, which then ends the command.
            .process_group(0)
            .spawn()
            .context("--metric: /bin/sh cannot be started")?;
        Ok(MetricRun { shell, stdout, stderr, began: Instant::now(), status: None })
    }

    /// The number, if the command has ended. It fails if there is none, or if the time is over.
    pub(super) fn value(&self, run: &mut MetricRun) -> anyhow::Result<Option<f64>> {
        run.status = run.shell.try_wait().context("--metric: the command cannot be waited for")?;
        let Some(status) = run.status else {
            if run.began.elapsed() > self.timeout {
                let seconds = self.timeout.as_secs_f64();
                bail!("--metric: the command has not ended after {seconds} s (--metric-timeout)");
            }
            return Ok(None);
        };
        let [printed, said] = [&mut run.stdout, &mut run.stderr].map(last_line);
        if !status.success() {
            let words = if said.is_empty() { printed } else { said };
            bail!("--metric: the command failed ({status}): {}", quoted(&words));
        }
        let value = printed.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
        let Some(value) = value else {
            bail!("--metric: its last line has to be one number, 0 or more, and is {}", quoted(&printed));
        };
        if value == 0.0 && self.is == MetricIs::Latency {
            bail!(
                "--metric: it printed 0, which is no latency; of work for each second, say --metric-is throughput"
            );
        }
        Ok(Some(value))
    }
}

/// The last line of a file that has something in it.
fn last_line(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |file| file.len());
    // What cannot be read is no number, which is told.
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)));
    let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_string()
}

fn quoted(words: &str) -> String {
    match words.chars().count() {
        0 => "empty".to_string(),
        1..=SHOWN_CHARS => format!("\"{words}\""),
        _ => format!("\"{}...\"", words.chars().take(SHOWN_CHARS).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use sweephand_checks::trying;

    fn value_of(command: &str, is: MetricIs) -> Result<f64, String> {
        let metric = Metric { command: command.to_string(), is, timeout: Duration::from_millis(500) };
        let mut run = metric.start().unwrap();
        loop {
            match metric.value(&mut run) {
                Ok(None) => sleep(Duration::from_millis(5)),
                Ok(Some(value)) => return Ok(value),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn the_last_line_is_the_number() {
        let latency = |command| value_of(command, MetricIs::Latency);
        assert_eq!(latency("echo requests; echo; echo ' 12.5 '; echo"), Ok(12.5));
        assert_eq!(value_of("echo 0", MetricIs::Throughput), Ok(0.0));
        for (command, said) in [
            ("echo 12 ms", "and is \"12 ms\""),
            ("true", "and is empty"),
            ("echo nan", "and is \"nan\""),
            ("echo -1", "and is \"-1\""),
            ("echo 0", "no latency"),
            ("echo 5; echo cannot connect >&2; exit 3", "(exit status: 3): \"cannot connect\""),
            ("sleep 60", "has not ended after 0.5 s"),
            ("head -c 100 /dev/zero | tr '\\0' x", "xxx...\""),
        ] {
            let _input = trying(|| command.to_string());
            let error = latency(command).unwrap_err();
            assert!(error.starts_with("--metric: ") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_cost_grows_as_the_service_slows_down() {
        assert_eq!((MetricIs::Latency.cost(4.0), MetricIs::Throughput.cost(4.0)), (4.0, 0.25));
        assert!(MetricIs::Throughput.cost(0.0).is_infinite());
    }
}
