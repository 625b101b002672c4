//! A reproduced item: its report, and how, on what and when it was measured. It is kept as JSON, so
//! that a long run can continue where it stopped.

use crate::{Input, Item, Lab, Report};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The item's [`Item::id`].
    pub item: String,
    /// Its title.
    pub title: String,
    /// How far it came.
    pub state: State,
    /// Why it was not measured; `None` if it was.
    pub reason: Option<String>,
    /// The result; `None` if there is none.
    pub report: Option<Report>,
    /// What it comes from; `None` if it was not measured.
    pub origin: Option<Origin>,
}

/// How far an item came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It was measured.
    Measured,
    /// It cannot be measured here: its traces are missing, or the machine is not what it needs.
    Impossible,
    /// It has not been run.
    Waiting,
}

/// Where a result comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The program that measured.
    pub program: Program,
    /// The files it read.
    pub inputs: Vec<Input>,
    /// When it had finished: UTC, as in `2026-01-31 17:05`.
    pub date: String,
    /// How long it took.
    pub seconds: f64,
    /// Where.
    pub machine: Machine,
}

/// The program that measures. Two builds of a version may differ, and a result of one is not one of
/// the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// Checksum of its executable file.
    pub checksum: String,
}

/// A machine, as far as results may depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many processors the system has.
    pub processors: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The system and its release.
    pub system: String,
}

impl Machine {
    /// This one, as the system describes it; what it does not tell stays empty.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
            line.unwrap_or_default().trim().to_string()
        };
        let kibibytes = field(&read("/proc/meminfo"), "MemTotal");
        let kibibytes = kibibytes.strip_suffix(" kB").and_then(|number| number.parse().ok()).unwrap_or(0);
        let system = ["ostype", "osrelease"].map(|name| read(&format!("/proc/sys/kernel/{name}")));
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: 1024_u64.saturating_mul(kibibytes),
            system: system.map(|word| word.trim().to_string()).join(" ").trim().to_string(),
        }
    }
}

impl Reproduction {
    /// Of an item that has not been run.
    pub fn waiting(item: &Item) -> Self {
        Self {
            item: item.id.into(),
            title: item.title.into(),
            state: State::Waiting,
            reason: None,
            report: None,
            origin: None,
        }
    }

    /// Runs an item. What stops it is its result then. `date` is asked for the time when it has
    /// finished.
    pub fn run(
        item: &Item,
        lab: &Lab,
        program: &Program,
        machine: &Machine,
        date: impl Fn() -> String,
    ) -> Self {
        let start = Instant::now();
        lab.take_inputs();
        match item.measure(lab) {
            Ok(report) => Self {
                state: State::Measured,
                report: Some(report),
                origin: Some(Origin {
                    program: program.clone(),
                    inputs: lab.take_inputs(),
                    date: date(),
                    seconds: start.elapsed().as_secs_f64(),
                    machine: machine.clone(),
                }),
                ..Self::waiting(item)
            },
            Err(error) => {
                Self { state: State::Impossible, reason: Some(error.to_string()), ..Self::waiting(item) }
            }
        }
    }

    /// Whether running the item again would measure the same thing with the same program: then it
    /// need not be run.
    pub fn is_current(&self, item: &Item, lab: &Lab, program: &Program) -> bool {
        let Some(origin) = &self.origin else { return false };
        self.item == item.id
            && self.state == State::Measured
            && self.report.is_some()
            && origin.program == *program
            && origin.inputs.iter().all(|input| lab.has(input))
    }
}
