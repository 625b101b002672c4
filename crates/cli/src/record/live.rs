//! `sweephand record --live`: a program at nearly its own speed, with an agent in it that records.

use super::args::Args;
use crate::Home;
use crate::awake::Awake;
use crate::keeper::{KEEPER_LOST, Keeper};
use crate::processes::{command_of, name_of};
use crate::progress;
use crate::stderr::eprint_line;
use anyhow::{Context, bail};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitCode, ExitStatus};
use std::time::Duration;
use sweephand_output::{make_folder, named_by};
use sweephand_pager::RunError;
use sweephand_pager::recording::{Image, Item, Recording, RecordingOptions, check};
use sweephand_program::{Signals, exit_code, wait_for};
use sweephand_results::{bytes, grouped};
use sweephand_trace::Trace;
use sweephand_watch::{LiveTrace, TraceSender};

/// The fewest pages of an epoch, unless another number is asked for.
const DEFAULT_WINDOW: u16 = 64;
/// In an epoch of fewer, a single instruction could need more pages than stay mapped.
const LEAST_WINDOW: u16 = 8;
/// How often what the agents have recorded is read.
const READ_EVERY: Duration = Duration::from_millis(5);

/// What else records, where this does not.
const OTHERWISE: &str = "sweephand watch sees such programs from outside, and sweephand record without \
                         --live records them under Valgrind";

/// The trace of a process.
struct Traced {
    keeper: Keeper,
    trace: LiveTrace<ChildStdin>,
    path: PathBuf,
    /// Which of the process's programs is recorded, and its name.
    image: u32,
    name: String,
}

/// The traces of a recording.
struct Traces<'a> {
    home: &'a Home,
    command: Vec<String>,
    in_use: Vec<&'a Path>,
    /// The directory for the traces of children, if they are recorded.
    folder: Option<PathBuf>,
    /// Whether the traces say what pages contain.
    contents: bool,
    all: BTreeMap<u32, Traced>,
}

impl Traces<'_> {
    fn begin(&self, path: PathBuf, program: &str, command: &[String]) -> anyhow::Result<Traced> {
        let (keeper, pipe) = Keeper::start(self.home, &path, &self.in_use)?;
        let sender = TraceSender::begin_recording(pipe, program, command).context(KEEPER_LOST)?;
        Ok(Traced { keeper, trace: LiveTrace::new(sender), path, image: 0, name: program.to_string() })
    }

    /// The trace is that of a process, which runs now.
    fn add(&mut self, process: u32, mut traced: Traced) {
        if self.contents {
            traced.trace.sample_contents(process);
        }
        self.all.insert(process, traced);
    }

    /// Takes in what a process has recorded.
    fn take(&mut self, main: u32, image: Image, items: &[Item]) -> anyhow::Result<()> {
        let Image { process, number } = image;
        if !self.all.contains_key(&process) {
            let Some(folder) = &self.folder else { return Ok(()) };
            let (name, command) = (name_of(process), command_of(process));
            let path = folder.join(format!("{name}-{process}.swt"));
            let traced = self.begin(path, &name, &command)?;
            self.add(process, traced);
        }
        let Some(traced) = self.all.get_mut(&process) else { return Ok(()) };
        if number > traced.image {
            traced.image = number;
            let command = if process == main { self.command.clone() } else { command_of(process) };
            traced.name = name_of(process);
            traced.trace.restart(&traced.name, &command).context(KEEPER_LOST)?;
        }
        traced.trace.take(items).context(KEEPER_LOST)
    }

    /// Ends all traces. Returns their files, and what kept them from being complete.
    fn end(self, main: u32, words: &str) -> (Vec<PathBuf>, anyhow::Result<()>) {
        let (mut paths, mut result) = (Vec::new(), Ok(()));
        for (process, traced) in self.all {
            // The process that writes has said why, if it has ended already.
            let _ = traced.trace.end(if process == main { words } else { "" }, true);
            let kept = traced.keeper.finish();
            // A child is named after its parent's program until it begins its own.
            let path = match &self.folder {
                Some(folder) => folder.join(format!("{}-{process}.swt", traced.name)),
                None => traced.path.clone(),
            };
            let named = kept.and_then(|()| match path == traced.path {
                true => Ok(()),
                false => fs::rename(&traced.path, &path).with_context(|| path.display().to_string()),
            });
            if named.is_ok() {
                paths.push(path);
            } else if result.is_ok() {
                result = named;
            }
        }
        (paths, result)
    }
}

/// How a program ended if not by itself.
fn how_it_ended(status: ExitStatus) -> String {
    status.signal().map_or(String::new(), |signal| format!("was ended by signal {signal}"))
}

pub(super) fn run(args: &Args, home: &Home) -> anyhow::Result<ExitCode> {
    let least_pages = args.window.unwrap_or(DEFAULT_WINDOW);
    if least_pages < LEAST_WINDOW {
        bail!("--live --window {least_pages}: an epoch has at least {LEAST_WINDOW} pages");
    }
    let _awake = args.awake.then(Awake::hold).transpose()?;
    check()
        .with_context(|| format!("record --live cannot work here; {OTHERWISE} (watch needs root and BPF)"))?;
    let program = sweephand_program::locate(&args.command[0])?;
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ending = if args.children { ".traces" } else { ".swt" };
    let place = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}{ending}")));
    let mut in_use = named_by(&args.command);
    in_use.push(&program);
    let mut traces = Traces {
        home,
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        in_use,
        folder: args.children.then(|| place.clone()),
        contents: !args.no_contents,
        all: BTreeMap::new(),
    };
    // What cannot be written is found out before anything runs.
    let mut first = None;
    if args.children {
        make_folder(&place)?;
    } else {
        first = Some(traces.begin(place, &name, &traces.command)?);
    }
    let options = RecordingOptions {
        overhead: args.overhead,
        least_pages: least_pages.into(),
        children: args.children,
    };
    let signals = Signals::catch().context("signals cannot be caught")?;
    let mut recording = Recording::start(&args.command, &options, |_| {}).map_err(|error| match error {
        error @ RunError::Program(_) => anyhow::Error::from(error).context(OTHERWISE),
        error => error.into(),
    })?;
    signals.pass_on(recording.child());
    let main = recording.child().id();
    if let Some(first) = first {
        traces.add(main, first);
    }
    let followed = follow(&mut recording, &mut traces, args.quiet);
    if followed.is_err() {
        // The program goes on without its agents.
        recording.stop();
    }
    let status = recording.wait()?;
    let (fault_ns, in_program) = (recording.fault_ns(), recording.fault_ns_in_program());
    let (paths, kept) = traces.end(main, &how_it_ended(status));
    let finished = recording.finish(status);
    kept?;
    followed?;
    finished.map_err(|error| match error {
        error @ RunError::NotLoaded(_) => anyhow::Error::from(error).context(OTHERWISE),
        error => error.into(),
    })?;
    if !args.quiet {
        let us = |ns: u32| f64::from(ns) / 1e3;
        let later = in_program.map_or(String::new(), |ns| format!(", {:.1} us in the program", us(ns)));
        eprint_line!("sweephand: a fault takes {:.1} us here{later}", us(fault_ns));
        paths.iter().try_for_each(|path| summarise(path))?;
    }
    Ok(exit_code(status))
}

/// Reads what the agents record until the program ends.
fn follow(recording: &mut Recording, traces: &mut Traces, quiet: bool) -> anyhow::Result<()> {
    let main = recording.child().id();
    let Ok(process) = pidfd_open(Pid::from_child(recording.child()), PidfdFlags::empty()) else {
        // A process that has just ended.
        return Ok(());
    };
    let line = if quiet { indicatif::ProgressBar::hidden() } else { progress::line() };
    loop {
        let [has_ended] = wait_for([&process], READ_EVERY);
        // Its name can be read until it is waited for.
        for (image, items) in recording.take()? {
            traces.take(main, image, &items)?;
        }
        if has_ended {
            line.finish_and_clear();
            return Ok(());
        }
        for traced in traces.all.values_mut() {
            traced.trace.look_at_contents().context(KEEPER_LOST)?;
        }
        let records: u64 = traces.all.values().map(|traced| traced.trace.records()).sum();
        line.set_message(format!("recording: {} records", grouped(records)));
        line.tick();
    }
}

/// A line for a trace.
fn summarise(path: &Path) -> anyhow::Result<()> {
    let trace = Trace::open(path)?;
    let (totals, metadata) = (&trace.header().totals, &trace.header().metadata);
    let epochs = metadata.epochs.map_or((0, 0), |epochs| (epochs.epochs, epochs.largest_pages));
    eprint_line!(
        "sweephand: {}: {} records of {} pages in {} epochs; window up to {} pages, up to {} in nine tenths of the time; {}",
        path.display(),
        grouped(totals.records),
        grouped(totals.distinct_pages),
        grouped(epochs.0),
        grouped(epochs.1),
        grouped(metadata.usual_window_pages()),
        bytes(fs::metadata(path).map_or(0, |file| file.len()))
    );
    Ok(())
}
