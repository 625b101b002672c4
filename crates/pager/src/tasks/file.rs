//! The task file: which programs to run together, in how much memory, under which policy.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use sweephand_policy::line;
pub use sweephand_policy::load_control::{Control, Deactivate};

/// An example, with every key.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Several programs, one limit. Times are the processor time of a task unless they are said to be
/// real time.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFile {
    /// Memory for all of them together, their pagers' own included: `160MiB`, `40960p`.
    pub memory: Option<String>,
    /// Which pages go: `wsclock`, `global-clock`, `ws:lr=sampled`, `pff`, or one that `run` takes
    /// for a single program and that needs no addresses.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The window of working sets, in milliseconds, for policies that have one and are not given it
    /// themselves (where it is in microseconds, as in `wsclock:theta=200000`).
    #[serde(default = "default_theta")]
    pub theta_ms: u64,
    /// Who may be active.
    #[serde(default)]
    pub load_control: LoadControlOptions,
    /// The programs, in the order in which they are ready.
    #[serde(rename = "task")]
    pub tasks: Vec<TaskEntry>,
    /// The folder that the file is in.
    #[serde(skip)]
    folder: PathBuf,
}

/// Which tasks may be active, and which task is deactivated.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadControlOptions {
    /// What decides whether the first ready task is activated.
    pub control: Control,
    /// The task to deactivate when memory is overcommitted.
    pub deactivate: Deactivate,
    /// Whether the number of loading tasks is limited (LT/RT), unless the policy says so itself
    /// (`wsclock:lt-rt=off`).
    pub lt_rt: bool,
    /// A task is loading until it has had this much processor time since its activation.
    pub tau_ms: u64,
    /// Most tasks loading at one time (L): as many as there are paging devices.
    pub loading_tasks: usize,
    /// Frames that an activation has to leave unclaimed (K0).
    pub spare_pages: usize,
    /// Most active tasks; 0 for no limit.
    pub most_active: usize,
    /// Processor time after which an active task goes to the end of the ready queue; 0: never.
    pub slice_ms: u64,
    /// Real time after a deactivation in which no task is activated beside others.
    pub rest_ms: u64,
    /// The feedback controller, for policies that claim no memory.
    pub feedback: Feedback,
}

/// Feedback: after each period the number of active tasks follows the load of the paging device.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Feedback {
    /// Real time between two looks.
    pub period_ms: u64,
    /// Share of the period in which pages were being read, below which one more task may be active.
    pub low: f64,
    /// The share above which a task is deactivated.
    pub high: f64,
}

/// A program, run once or several times.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// What messages and counts call it; the program's name if it has none.
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs; relative to the file's folder, which is the default.
    #[serde(default)]
    pub directory: PathBuf,
    /// Its standard input; nothing by default. Relative paths are taken from its directory.
    pub stdin: Option<PathBuf>,
    /// Where its standard output goes; by default to that of the command.
    pub stdout: Option<PathBuf>,
    /// Where its errors go; by default to those of the command.
    pub stderr: Option<PathBuf>,
    /// Variables of its environment beside those of the command.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Real time from the start of it all until it is ready.
    #[serde(default)]
    pub delay_ms: u64,
    /// How often it is run. In every text `{n}` stands for the number of the copy, from 1.
    #[serde(default = "default_count")]
    pub count: usize,
}

/// One program to run, as the file has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// What it is called.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its standard input; none for nothing.
    pub stdin: Option<PathBuf>,
    /// Where its output goes; none for the command's.
    pub stdout: Option<PathBuf>,
    /// Where its errors go; none for the command's.
    pub stderr: Option<PathBuf>,
    /// Variables beside those of the command.
    pub environment: BTreeMap<String, String>,
    /// Real time until it is ready, in milliseconds.
    pub delay_ms: u64,
}

fn default_policy() -> String {
    "wsclock".to_string()
}

fn default_theta() -> u64 {
    200
}

fn default_count() -> usize {
    1
}

impl Default for LoadControlOptions {
    fn default() -> Self {
        Self {
            control: Control::Policy,
            deactivate: Deactivate::Last,
            lt_rt: true,
            tau_ms: 50,
            loading_tasks: 1,
            spare_pages: 0,
            most_active: 0,
            slice_ms: 0,
            rest_ms: 500,
            feedback: Feedback::default(),
        }
    }
}

impl Default for Feedback {
    fn default() -> Self {
        Self { period_ms: 500, low: 0.35, high: 0.65 }
    }
}

/// A file of tasks that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TaskFileError {
    /// The file.
    pub path: PathBuf,
    /// Where and what is wrong, and what would be right.
    pub reason: String,
}

/// Most tasks of a file.
const MOST_TASKS: usize = 1024;

impl TaskFile {
    /// Reads a TOML file.
    pub fn open(path: &Path) -> Result<Self, TaskFileError> {
        let error = |reason: String| TaskFileError { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|io| error(io.to_string()))?;
        let mut file = Self::parse(&text).map_err(error)?;
        file.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(file)
    }

    /// Reads the text of a TOML file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self =
            toml::from_str(text).map_err(|error| line::message(text, error.span(), error.message()))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        let LoadControlOptions { loading_tasks, feedback, .. } = &self.load_control;
        let wrong = [
            (self.tasks.is_empty(), "there is no task: begin with [[task]]".to_string()),
            (self.theta_ms == 0, "theta_ms = 0: the window takes at least a millisecond".to_string()),
            (*loading_tasks == 0, "load_control.loading_tasks = 0: one at least has to load".to_string()),
            (
                !(0.0 <= feedback.low && feedback.low <= feedback.high && feedback.high <= 1.0),
                "load_control.feedback: low and high are shares, with 0 <= low <= high <= 1".to_string(),
            ),
            (
                feedback.period_ms == 0,
                "load_control.feedback.period_ms = 0: it takes at least a millisecond".to_string(),
            ),
        ];
        let mut wrong: Vec<_> = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).collect();
        for (number, task) in self.tasks.iter().enumerate() {
            let place = format!("task {}", number + 1);
            if task.command.first().is_none_or(String::is_empty) {
                wrong.push((true, format!("{place}: command is empty: name the program and its arguments")));
            }
            if task.count == 0 {
                wrong.push((true, format!("{place}: count = 0: it is run once at least")));
            }
        }
        let count = self.tasks.iter().fold(0_usize, |sum, task| sum.saturating_add(task.count));
        if count > MOST_TASKS {
            wrong.push((true, format!("{count} tasks: {MOST_TASKS} at most")));
        }
        wrong.into_iter().next().map_or(Ok(()), |(_, reason)| Err(reason))
    }

    /// The programs, each copy by itself.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for entry in &self.tasks {
            for copy in 1..=entry.count {
                let text = |text: &str| text.replace("{n}", &copy.to_string());
                let path = |base: &Path, path: &Path| match path.to_str() {
                    Some(name) => base.join(text(name)),
                    None => base.join(path),
                };
                let directory = path(&self.folder, &entry.directory);
                let file = |of: &Option<PathBuf>| of.as_deref().map(|name| path(&directory, name));
                let mut command: Vec<OsString> = entry.command.iter().map(|word| text(word).into()).collect();
                let program = Path::new(&command[0]);
                let own_name =
                    program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                // A path, rather than a name to be looked for, is taken from where the program
                // runs.
                if program.components().count() > 1 && program.is_relative() {
                    command[0] = directory.join(program).into();
                }
                let name = entry.name.as_deref().map_or(own_name, text);
                let is_named = entry.name.as_deref().is_some_and(|name| name.contains("{n}"));
                jobs.push(Job {
                    name: if entry.count > 1 && !is_named { format!("{name}.{copy}") } else { name },
                    command,
                    stdin: file(&entry.stdin),
                    stdout: file(&entry.stdout),
                    stderr: file(&entry.stderr),
                    directory,
                    environment: entry
                        .environment
                        .iter()
                        .map(|(key, value)| (key.clone(), text(value)))
                        .collect(),
                    delay_ms: entry.delay_ms,
                });
            }
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str =
        "memory = '64MiB'\n[[task]]\ncommand = ['sort', 'in.{n}']\nstdout = 'out.{n}'\ncount = 2\n";

    #[test]
    fn a_short_file_gets_defaults() {
        let file = TaskFile::parse(SHORT).unwrap();
        assert_eq!((file.policy.as_str(), file.theta_ms), ("wsclock", 200));
        assert_eq!(file.load_control, LoadControlOptions::default());
        let jobs = file.jobs();
        let names: Vec<_> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["sort.1", "sort.2"]);
        assert_eq!(jobs[1].command, ["sort", "in.2"]);
        assert_eq!(jobs[1].stdout.as_deref(), Some(Path::new("out.2")));
    }

    /// The example has every key, and says the defaults.
    #[test]
    fn the_example_can_be_read_and_tells_the_defaults() {
        let file = TaskFile::parse(EXAMPLE).unwrap();
        assert_eq!(file.load_control, LoadControlOptions::default());
        assert_eq!((file.policy, file.theta_ms), (default_policy(), default_theta()));
        let bare: String = EXAMPLE.lines().filter(|line| !line.starts_with('#')).collect();
        for key in [
            "memory",
            "policy",
            "theta_ms",
            "control",
            "deactivate",
            "lt_rt",
            "tau_ms",
            "loading_tasks",
            "spare_pages",
            "most_active",
            "slice_ms",
            "rest_ms",
            "period_ms",
            "low",
            "high",
            "name",
            "command",
            "directory",
            "stdin",
            "stdout",
            "stderr",
            "environment",
            "delay_ms",
            "count",
        ] {
            assert!(bare.contains(&format!("{key} =")), "{key}");
        }
    }

    #[test]
    fn paths_are_taken_from_where_the_task_runs() {
        let mut file = TaskFile::parse(
            "[[task]]\ncommand = ['./solve', 'x']\ndirectory = 'work'\nstdin = 'a'\n[[task]]\nname = 'n{n}'\ncommand = ['/bin/true']",
        )
        .unwrap();
        file.folder = PathBuf::from("/here");
        let jobs = file.jobs();
        assert_eq!(
            (jobs[0].name.as_str(), jobs[0].command[0].to_str().unwrap()),
            ("solve", "/here/work/./solve")
        );
        assert_eq!(jobs[0].stdin.as_deref(), Some(Path::new("/here/work/a")));
        assert_eq!((jobs[1].name.as_str(), jobs[1].command[0].to_str().unwrap()), ("n1", "/bin/true"));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_with_its_place() {
        let error = |from: &str, to: &str| {
            let text = SHORT.replace(from, to);
            assert_ne!(text, SHORT);
            let error = TaskFile::parse(&text).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{error}");
            error
        };
        assert!(error("stdout", "sdtout").starts_with("line 4: unknown field `sdtout`, expected one of"));
        assert!(error("memory = '64MiB'", "theta_ms = 'x'").starts_with("line 1: invalid type"));
        assert!(error("command =", "command").starts_with("line 3: "));
        assert_eq!(error("count = 2", "count = 0"), "task 1: count = 0: it is run once at least");
        assert_eq!(
            error("['sort', 'in.{n}']", "[]"),
            "task 1: command is empty: name the program and its arguments"
        );
        assert!(error("count = 2", "count = 5000").starts_with("5000 tasks: 1024 at most"));
        assert_eq!(
            error("[[task]]", "[load_control]\nloading_tasks = 0\n[[task]]"),
            "load_control.loading_tasks = 0: one at least has to load"
        );
        assert!(
            error("[[task]]", "[load_control]\ndeactivate = 'biggest'\n[[task]]")
                .starts_with("line 3: unknown variant `biggest`")
        );
        assert!(TaskFile::parse("memory = '1MiB'\n").unwrap_err().contains("missing field `task`"));
    }
}
