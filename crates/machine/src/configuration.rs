//! The machine's parameters: the paper's three configurations, or a TOML file.
//!
//! Where the paper is silent, the default is here, beside a sentence that says so.

use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
pub use sweephand_policy::load_control::{Control, Deactivate};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_policy::{ArgumentError, line};

/// A virtual-memory computer and the work that it is given. Times are in references: the processor
/// executes one in each unit of time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// What it is called in results.
    pub name: String,
    /// Frames of main memory.
    pub frames: usize,
    /// The paging devices.
    #[serde(default)]
    pub devices: Devices,
    /// The processor.
    #[serde(default)]
    pub processor: Processor,
    /// I/O of the tasks themselves.
    #[serde(default)]
    pub io: Io,
    /// How many tasks may be active, and which.
    #[serde(default)]
    pub load_control: LoadControl,
    /// The tasks.
    pub tasks: Tasks,
    /// Policies, as on the command line.
    #[serde(default = "default_policies")]
    pub policies: Vec<String>,
    /// Windows of the working set to try, in references of virtual time.
    #[serde(default = "default_theta")]
    pub theta: Vec<u64>,
    /// Seeds of service times, I/O and random choices. Results are the means over them.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
    /// Simulate intervals (IRIM) of this omega in place of every reference; 0: every reference.
    #[serde(default)]
    pub irim: u64,
}

/// The paging devices: one request at a time each, reads and writes alike.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Devices {
    /// How many work in parallel.
    pub count: usize,
    /// Least and most time of a transfer; uniform in between.
    pub access_refs: (u64, u64),
    /// Which request is served first.
    pub queue: Discipline,
    /// Whether each device has a queue of its own, with a share of the pages. Otherwise a device
    /// that is free takes the next request of all.
    pub own_queues: bool,
    /// Whether a dirty page is written only when its frame is taken, by the device that then reads
    /// into it: one request of two transfers. Otherwise dirty pages are written ahead.
    #[serde(skip_serializing_if = "is_false")]
    pub coupled_writes: bool,
}

/// Entries that came later are left out where they are off: what was kept of earlier runs is found
/// by the configuration's text.
fn is_false(switch: &bool) -> bool {
    !switch
}

impl Devices {
    /// How many paging queues there are.
    pub(crate) fn queues(&self) -> usize {
        if self.own_queues { self.count } else { 1 }
    }
}

/// Which request in the paging queue is served first; within a class the oldest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// The oldest.
    Fifo,
    /// Reads before writes.
    ReadsFirst,
    /// Reads of running tasks, then of loading tasks, then writes (used in the paper).
    #[default]
    RunFirst,
}

/// The processor: active tasks that do not wait take turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Processor {
    /// Length of a turn. Not given in the paper.
    pub quantum_refs: u64,
    /// Virtual time after which an active task goes to the end of the ready queue. Not given in the
    /// paper; longer than loading takes.
    pub slice_refs: u64,
    /// Levels of the ready queue. A task begins in the first and goes one down with every slice
    /// that it uses up; a ready task of a higher level comes first. The paper names a multi-level
    /// queue and does not describe it.
    #[serde(skip_serializing_if = "is_one")]
    pub ready_levels: usize,
}

fn is_one(levels: &usize) -> bool {
    *levels == 1
}

/// I/O of the tasks themselves; it neither needs paging devices nor waits in a queue. A request
/// ends its task's loading phase. If requests come more often than tau, LT/RT limits little
/// (`lab/papers/wsclock-1981/README.md`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Io {
    /// Mean virtual time between requests of a task, exponentially distributed; 0 for none. Of each
    /// program; not given in the paper.
    pub interval_refs: u64,
    /// Least and most time that a request takes; uniform in between. Not given in the paper.
    pub service_refs: (u64, u64),
}

/// How many tasks may be active, and which.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadControl {
    /// What decides whether the first ready task is activated.
    pub control: Control,
    /// Which task is deactivated when memory is overcommitted.
    pub deactivate: Deactivate,
    /// Whether the number of loading tasks is limited (LT/RT), for policies that do not say it
    /// themselves.
    pub lt_rt: bool,
    /// Virtual time after its activation, or an I/O request if that comes before, until which a
    /// task is loading.
    pub tau_refs: u64,
    /// Most tasks loading at one time; 0 for as many as there are paging devices.
    pub loading_tasks: usize,
    /// Frames that activation has to leave unclaimed (K0).
    pub k0_frames: usize,
    /// Whether pages that may be replaced are gone at once, as in models that know no reclaim. For
    /// policies with exact knowledge. Dirty pages stay until they have been written.
    #[serde(skip_serializing_if = "is_false")]
    pub no_reclaim: bool,
    /// Most active tasks; 0 for no limit.
    pub most_active: usize,
    /// The feedback controller, for policies that claim no memory. The paper describes one in
    /// general terms only.
    pub feedback: Feedback,
}

/// Feedback: after each period the number of active tasks follows the load of the paging devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Feedback {
    /// Real time between two looks.
    pub period_refs: u64,
    /// Reads, as a share of what the paging devices can do in a period, below which one task more
    /// may be active.
    pub low: f64,
    /// Reads, as that share, above which a task is deactivated.
    pub high: f64,
}

/// The tasks: random choices among the programs, the same in every run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// Traces with write flags.
    pub programs: Vec<ProgramFile>,
    /// How many tasks are run. All are in the ready queue at the start, except that at most
    /// `at_once` are unfinished.
    #[serde(default = "default_count")]
    pub count: usize,
    /// Most tasks in the system at one time, the others wait outside; 0 for all. Not given in the
    /// paper.
    #[serde(default)]
    pub at_once: usize,
    /// Seed of the choice of programs.
    #[serde(default = "default_seed")]
    pub seed: u64,
}

/// A program: a trace, with what the trace does not say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgramFile {
    /// A trace, by path.
    Trace(PathBuf),
    /// A trace with its own I/O.
    WithIo {
        /// By path.
        trace: PathBuf,
        /// Mean virtual time between its I/O requests; 0 for none.
        io_interval_refs: u64,
    },
}

impl ProgramFile {
    /// The trace.
    pub fn trace(&self) -> &Path {
        match self {
            Self::Trace(trace) | Self::WithIo { trace, .. } => trace,
        }
    }

    /// Its own I/O interval, if it has one.
    pub fn io_interval_refs(&self) -> Option<u64> {
        match self {
            Self::Trace(_) => None,
            Self::WithIo { io_interval_refs, .. } => Some(*io_interval_refs),
        }
    }
}

fn default_policies() -> Vec<String> {
    ["ws:lt-rt=off", "ws", "wsclock"].map(String::from).to_vec()
}

fn default_theta() -> Vec<u64> {
    vec![50_000, 100_000, 200_000, 400_000, 600_000, 1_000_000, 2_000_000]
}

fn default_seeds() -> Vec<u64> {
    vec![1]
}

fn default_seed() -> u64 {
    1
}

fn default_count() -> usize {
    50
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            count: 1,
            access_refs: (20_000, 40_000),
            queue: Discipline::RunFirst,
            own_queues: false,
            coupled_writes: false,
        }
    }
}

impl Default for Processor {
    fn default() -> Self {
        Self { quantum_refs: 1_000, slice_refs: 500_000, ready_levels: 1 }
    }
}

impl Default for Io {
    fn default() -> Self {
        Self { interval_refs: 200_000, service_refs: (20_000, 40_000) }
    }
}

impl Default for LoadControl {
    fn default() -> Self {
        Self {
            control: Control::Policy,
            deactivate: Deactivate::Last,
            lt_rt: true,
            tau_refs: 15_000,
            loading_tasks: 0,
            k0_frames: 0,
            no_reclaim: false,
            most_active: 0,
            feedback: Feedback::default(),
        }
    }
}

impl Default for Feedback {
    fn default() -> Self {
        Self { period_refs: 500_000, low: 0.35, high: 0.65 }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ConfigurationError {
    /// The file, or the name of a built-in configuration.
    pub path: PathBuf,
    /// Where and what is wrong, and what would be right.
    pub reason: String,
}

/// The paper's configurations, with frames to the size of today's programs; see
/// [`Configuration::built_in`].
const BUILT_IN: [(&str, &str); 3] = [
    ("A", include_str!("../configurations/a.toml")),
    ("B", include_str!("../configurations/b.toml")),
    ("C", include_str!("../configurations/c.toml")),
];

/// Where their programs are: in the folder `traces` of a checkout. It is looked for from the
/// current folder upwards, then from the running command's, which may lie in the checkout's
/// `target`.
fn traces_of_the_project() -> Option<PathBuf> {
    let starts = [std::env::current_dir(), std::env::current_exe()];
    let folders = starts.iter().flatten().flat_map(|start| start.ancestors());
    folders.map(|folder| folder.join("traces")).find(|traces| has_programs(traces))
}

/// Whether a folder has the traces that the built-in configurations name.
fn has_programs(traces: &Path) -> bool {
    let configuration = Configuration::parse(BUILT_IN[0].1).expect("it comes with the project");
    configuration.tasks.programs.iter().all(|program| traces.join(program.trace()).is_file())
}

impl Configuration {
    /// The names of the built-in configurations.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The text of a built-in configuration, by its name in upper or lower case.
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| *text)
    }

    /// The text of a built-in configuration, to start one's own from. It names its traces by their
    /// full paths, so that the copy works in any folder; by relative ones if they are not found.
    pub fn built_in_copy(name: &str) -> Option<String> {
        let mut text = Self::built_in_text(name)?.to_string();
        if let Some(traces) = traces_of_the_project() {
            let programs = Self::parse(&text).expect("it comes with the project").tasks.programs;
            for trace in programs.iter().map(ProgramFile::trace) {
                let there = traces.join(trace);
                text = text.replace(&format!("\"{}\"", trace.display()), &format!("{there:?}"));
            }
        }
        Some(text)
    }

    /// A built-in configuration by its name, with the project's folder `traces`.
    pub fn built_in(name: &str, traces: &Path) -> Option<Self> {
        let configuration = Self::parse(Self::built_in_text(name)?);
        Some(configuration.expect("it comes with the project").with_traces_in(traces))
    }

    /// A built-in configuration by its name, or the TOML file of that name. The traces of a
    /// built-in one are looked for in the checkout that the current folder, or the running command,
    /// lies in.
    pub fn named(name: &str) -> Result<Self, ConfigurationError> {
        match Self::built_in_text(name) {
            Some(_) => Self::built_in_from(name, traces_of_the_project()),
            None if !Path::new(name).exists() && !name.contains(['.', '/']) => {
                let known: Vec<_> = Self::built_in_names().collect();
                let reason = format!("is not built in (those are {}) and no file", known.join(" "));
                Err(ConfigurationError { path: format!("configuration '{name}'").into(), reason })
            }
            None => Self::open(Path::new(name)),
        }
    }

    /// A built-in configuration, if its traces were found: an installed command comes without them.
    fn built_in_from(name: &str, traces: Option<PathBuf>) -> Result<Self, ConfigurationError> {
        let Some(configuration) = traces.and_then(|traces| Self::built_in(name, &traces)) else {
            let name = name.to_uppercase();
            let reason = "its programs are traces that come with the project, in its folder traces, which is neither here nor in a folder \
                          above: run this in a checkout of the project";
            let path = format!("configuration '{name}'").into();
            return Err(ConfigurationError { path, reason: reason.into() });
        };
        Ok(configuration)
    }

    /// Sets windows and seeds, where some are given, and the omega of the intervals.
    pub fn set(&mut self, theta: &[u64], seeds: &[u64], irim: Option<u64>) -> Result<(), ConfigurationError> {
        if !theta.is_empty() {
            self.theta = theta.to_vec();
        }
        if !seeds.is_empty() {
            self.seeds = seeds.to_vec();
        }
        self.irim = irim.unwrap_or(self.irim);
        self.check().map_err(|reason| ConfigurationError { path: self.name.clone().into(), reason })
    }

    /// What a reader of the results has to know where windows are small: intervals stand for
    /// references where windows are far longer than omega.
    pub fn note_on_small_windows(&self) -> Option<String> {
        let Self { name, irim, theta, .. } = self;
        let theta = theta.iter().find(|theta| **theta < 5 * irim)?;
        Some(format!(
            "{name}: theta {theta} is not far above the intervals' omega of {irim}: give --irim 0 for every reference"
        ))
    }

    /// What a reader has to know where a task is larger than memory: it runs all the same, when it
    /// is alone.
    pub fn note_on_force(&self, outcomes: &[Outcome]) -> Option<String> {
        let forced: u64 = outcomes.iter().map(|outcome| outcome.forced_replacements).sum();
        (forced > 0).then(|| {
            format!(
                "{}: a task alone used more than the {} frames there are; {forced} pages were replaced while in use",
                self.name, self.frames
            )
        })
    }

    /// The policies that it names.
    pub fn task_specs(&self) -> Result<Vec<TaskSpec>, ConfigurationError> {
        let specs = self.policies.iter().map(|policy| TaskSpec::parse(policy));
        let error = |error: ArgumentError| ConfigurationError {
            path: self.name.clone().into(),
            reason: error.to_string(),
        };
        specs.collect::<Result<_, _>>().map_err(error)
    }

    /// Looks for traces that are named by relative paths in a folder.
    fn with_traces_in(mut self, folder: &Path) -> Self {
        for program in &mut self.tasks.programs {
            let (ProgramFile::Trace(trace) | ProgramFile::WithIo { trace, .. }) = program;
            *trace = folder.join(&*trace);
        }
        self
    }

    /// Reads a TOML file. Traces are looked for beside it.
    pub fn open(path: &Path) -> Result<Self, ConfigurationError> {
        let error = |reason: String| ConfigurationError { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|io| error(io.to_string()))?;
        let configuration = Self::parse(&text).map_err(error)?;
        Ok(configuration.with_traces_in(path.parent().unwrap_or(Path::new(""))))
    }

    /// Reads the text of a TOML file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let configuration: Self =
            toml::from_str(text).map_err(|error| line::message(text, error.span(), error.message()))?;
        configuration.check()?;
        Ok(configuration)
    }

    /// Checks that the machine can work.
    pub fn check(&self) -> Result<(), String> {
        let Self { devices, processor, io, load_control, tasks, .. } = self;
        let feedback = &load_control.feedback;
        let (access, service) = (devices.access_refs, io.service_refs);
        let range = |name: &str, (least, most): (u64, u64)| {
            format!("{name} = [{least}, {most}]: give the smaller time first, at least 1")
        };
        let wrong = [
            (self.frames == 0, "frames = 0: memory has at least one frame".to_string()),
            (self.frames > 1 << 26, format!("frames = {}: at most 2^26", self.frames)),
            (devices.count == 0, "devices.count = 0: at least one paging device is needed".into()),
            (access.0 == 0 || access.0 > access.1, range("devices.access_refs", access)),
            (service.0 == 0 || service.0 > service.1, range("io.service_refs", service)),
            (processor.quantum_refs == 0, "processor.quantum_refs = 0: at least one reference a turn".into()),
            (processor.slice_refs == 0, "processor.slice_refs = 0: at least one reference a slice".into()),
            (
                processor.ready_levels == 0,
                "processor.ready_levels = 0: the ready queue has at least one".into(),
            ),
            (
                !(0.0 <= feedback.low && feedback.low <= feedback.high) || feedback.period_refs == 0,
                "load_control.feedback: needs 0 <= low <= high and a period of at least one reference".into(),
            ),
            (tasks.programs.is_empty(), "tasks.programs is empty: name at least one trace".into()),
            (tasks.count == 0, "tasks.count = 0: at least one task is needed".into()),
            (self.policies.is_empty(), "policies is empty: name at least one, such as \"wsclock\"".into()),
            (
                self.theta.is_empty() || self.theta.contains(&0),
                "theta: give windows of at least one reference".into(),
            ),
            (self.seeds.is_empty(), "seeds is empty: give at least one".into()),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, reason)) => Err(reason),
            None => Ok(()),
        }
    }

    /// Most tasks loading at one time, where that is limited.
    pub fn loading_limit(&self) -> usize {
        match self.load_control.loading_tasks {
            0 => self.devices.count,
            limit => limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str =
        "name = 'x'\nframes = 10\n[tasks]\nprograms = ['a.swt', { trace = 'b.swt', io_interval_refs = 7 }]\n";

    #[test]
    fn a_built_in_configuration_whose_traces_are_gone_says_what_to_do() {
        let here = Configuration::named("a").unwrap();
        assert!(here.tasks.programs.iter().all(|program| program.trace().is_file()));
        assert!(!has_programs(Path::new("gone/traces")));
        let error = Configuration::built_in_from("a", None).unwrap_err().to_string();
        assert!(error.starts_with("configuration 'A': its programs are traces that come with the project, "));
        assert!(error.ends_with(": run this in a checkout of the project"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }

    #[test]
    fn a_short_file_gets_the_papers_defaults() {
        let configuration = Configuration::parse(SHORT).unwrap();
        assert_eq!(configuration.devices.access_refs, (20_000, 40_000));
        assert_eq!(configuration.load_control.tau_refs, 15_000);
        assert_eq!(configuration.loading_limit(), 1);
        assert_eq!(configuration.tasks.count, 50);
        assert_eq!(configuration.tasks.programs[1].io_interval_refs(), Some(7));
        assert_eq!(configuration.policies, ["ws:lt-rt=off", "ws", "wsclock"]);
    }

    #[test]
    fn the_built_in_configurations_differ_in_memory_devices_and_theta_only() {
        let [a, b, c] =
            ["A", "b", "C"].map(|name| Configuration::built_in(name, Path::new("traces")).unwrap());
        assert_eq!(
            [&a, &b, &c].map(|of| of.devices.access_refs),
            [(6_667, 13_333), (10_000, 16_667), (16_667, 26_667)]
        );
        assert!(a.frames < b.frames && b.frames < c.frames);
        for of in [b, c] {
            let same = Configuration {
                name: "A".into(),
                frames: a.frames,
                devices: a.devices.clone(),
                theta: a.theta.clone(),
                ..of
            };
            assert_eq!(same, a);
        }
        assert!(Configuration::built_in("D", Path::new("traces")).is_none());
        assert_eq!(Configuration::built_in_names().collect::<String>(), "ABC");
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_with_its_place() {
        let error = |from: &str, to: &str| {
            let text = SHORT.replace(from, to);
            assert_ne!(text, SHORT);
            let error = Configuration::parse(&text).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{error}");
            error
        };
        assert_eq!(error("frames = 10", "frames = 0"), "frames = 0: memory has at least one frame");
        assert!(
            error("frames = 10", "frame = 10").starts_with("line 2: unknown field `frame`, expected one of")
        );
        assert!(error("frames = 10", "frames = 'ten'").starts_with("line 2: invalid type"));
        assert!(error("frames = 10\n", "").contains("missing field `frames`"));
        assert!(error("frames = 10", "frames = ").starts_with("line 2: "));
        assert_eq!(
            error("[tasks]", "[devices]\naccess_refs = [5, 4]\n[tasks]"),
            "devices.access_refs = [5, 4]: give the smaller time first, at least 1"
        );
        assert!(
            error("[tasks]", "[load_control]\ndeactivate = 'biggest'\n[tasks]")
                .starts_with("line 4: unknown variant `biggest`")
        );
        assert!(error("'a.swt', ", "7, ").starts_with("line 4: "));
    }

    #[test]
    fn machine_that_cannot_work_is_refused() {
        let error = |tables: &str| {
            let text = format!("name = 'x'\nframes = 10\n{tables}");
            let text = if tables.contains("[tasks]") { text } else { text + "\n[tasks]\nprograms = ['a']\n" };
            Configuration::parse(&text).err()
        };
        for (tables, reason) in [
            ("[devices]\ncount = 0", "devices.count = 0"),
            ("[devices]\naccess_refs = [0, 4]", "devices.access_refs = [0, 4]"),
            ("[devices]\naccess_refs = [5, 4]", "devices.access_refs = [5, 4]"),
            ("[io]\nservice_refs = [0, 4]", "io.service_refs = [0, 4]"),
            ("[io]\nservice_refs = [5, 4]", "io.service_refs = [5, 4]"),
            ("[processor]\nquantum_refs = 0", "processor.quantum_refs = 0"),
            ("[processor]\nslice_refs = 0", "processor.slice_refs = 0"),
            ("[processor]\nready_levels = 0", "processor.ready_levels = 0"),
            ("[load_control]\nfeedback = { period_refs = 0 }", "load_control.feedback"),
            ("[load_control]\nfeedback = { low = -0.1, high = 0.5 }", "load_control.feedback"),
            ("[load_control]\nfeedback = { low = 0.6, high = 0.5 }", "load_control.feedback"),
            ("[tasks]\nprograms = []", "tasks.programs is empty"),
            ("[tasks]\nprograms = ['a']\ncount = 0", "tasks.count = 0"),
            ("policies = []", "policies is empty"),
            ("theta = []", "theta: "),
            ("theta = [4, 0]", "theta: "),
            ("seeds = []", "seeds is empty"),
        ] {
            let error = error(tables).unwrap_or_else(|| panic!("{tables} is refused"));
            assert!(error.starts_with(reason), "{tables}: {error}");
        }
        for tables in [
            "[devices]\naccess_refs = [4, 4]",
            "[io]\nservice_refs = [1, 1]",
            "[load_control]\nfeedback = { low = 0.0, high = 0.0, period_refs = 1 }",
        ] {
            assert_eq!(error(tables), None, "{tables}");
        }
        let frames = |frames: usize| Configuration::parse(&SHORT.replace("10", &frames.to_string())).is_ok();
        assert!(frames(1 << 26) && !frames((1 << 26) + 1));
    }

    #[test]
    fn entries_that_came_later_are_in_the_text_only_where_they_are_on() {
        let text = |table: &str| {
            let text = format!("name = 'x'\nframes = 10\n{table}\n[tasks]\nprograms = ['a']\n");
            serde_json::to_string(&Configuration::parse(&text).unwrap()).unwrap()
        };
        for (table, entry, value) in [
            ("devices", "coupled_writes", "true"),
            ("processor", "ready_levels", "2"),
            ("load_control", "no_reclaim", "true"),
        ] {
            assert!(!text("").contains(entry), "{entry}");
            let on = text(&format!("[{table}]\n{entry} = {value}"));
            assert!(on.contains(&format!("\"{entry}\":{value}")), "{on}");
        }
    }

    #[test]
    fn limit_of_loading_tasks_is_the_number_of_devices_unless_given() {
        let mut configuration = Configuration::parse(SHORT).unwrap();
        configuration.devices.count = 3;
        assert_eq!(configuration.loading_limit(), 3);
        configuration.load_control.loading_tasks = 2;
        assert_eq!(configuration.loading_limit(), 2);
    }
}
