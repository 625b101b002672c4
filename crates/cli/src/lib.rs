//! The `sweephand` command, one file for each subcommand. It serves as a program of its own and
//! inside the Python package.
//!
//! Results go to standard output or to `-o FILE`. Notes, progress and errors go to standard error.
//! Exit status: 0 success, 1 a finding (a check that failed), 2 an error, reported in one line.
//! `record` and `run` return the status of the program that they ran.

// Both panic where they cannot write: see `stderr`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod about;
mod advise;
mod advise_try;
mod as_root;
mod awake;
mod bare_pid;
mod compare;
mod completions;
mod devices;
mod diff;
mod doctor;
mod export;
mod formats;
mod generate;
mod help;
mod import;
mod info;
mod keeper;
mod live;
mod man;
mod multiprogram;
mod needs;
mod over_time;
mod partition;
mod plot;
mod policies;
mod processes;
mod progress;
mod record;
mod report;
mod run;
mod run_pid;
mod run_summary;
mod run_tasks;
mod simulate;
mod simulate_misses;
mod simulate_objects;
mod simulate_tiers;
mod stderr;
#[cfg(feature = "parquet")]
mod sweep;
mod time;
mod usage;
mod watch;
mod watched;

pub use about::Home;

use about::{ON_EVERY_PROCESSOR, VERSION};
use anyhow::anyhow;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use sweephand_sim::{bounded_threads, rayon_threads};

/// Record which pages a program touches, and see how many page faults it takes in less memory.
#[derive(Parser)]
#[command(name = "sweephand", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program and record the pages it touches
    Record(record::Args),
    /// Show which pages a running program uses, from outside, and how much memory it needs
    Watch(watch::Args),
    /// The process that writes the trace of a watch
    #[command(hide = true)]
    WatchKeeper(keeper::KeeperArgs),
    /// Show what is in a trace
    Info(info::Args),
    /// Convert a trace of another format to ours
    Import(import::Args),
    /// Write a trace in a format of others
    Export(export::Args),
    /// Make a synthetic trace
    Generate(generate::Args),
    /// Count the page faults of a trace under every policy, at every memory size
    Simulate(simulate::Args),
    /// Count page faults for every trace, policy and memory size of a plan
    #[cfg(feature = "parquet")]
    Sweep(sweep::Args),
    /// The work of a sweep's processes
    #[cfg(feature = "parquet")]
    #[command(hide = true)]
    SweepWorker,
    /// Write an HTML report on a trace: curves, pictures, objects, how much memory is enough
    Report(report::Args),
    /// Say how much memory is enough, which policy is best, and which lines have the faults
    Advise(advise::Args),
    /// Hold two traces side by side: faults by memory size, by line and by object
    Diff(diff::Args),
    /// Draw one picture of a trace
    Plot(plot::Args),
    /// Divide a memory among the tenants of a log
    Partition(partition::Args),
    /// Run many tasks in one simulated memory, with paging devices and load control
    Multiprogram(multiprogram::Args),
    /// Run a program in less memory than it wants, under a policy
    Run(run::Args),
    /// Run a program with all memory, under the kernel's swap and under policies, side by side
    Compare(compare::Args),
    /// What `sweephand-lab` does
    #[command(hide = true, disable_help_flag = true)]
    Reproduce {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _words: Vec<OsString>,
    },
    /// Say which commands work on this machine, and what the others need
    Doctor(doctor::Args),
    /// List the paging devices that time is predicted for, or measure one
    Devices(devices::Args),
    /// List the policies with their parameters
    Policies(policies::Args),
    /// Print a script for a shell that completes the command's options
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

impl Command {
    /// The name of a command that records, watches or pages a process: it is for x86-64.
    fn for_x86_64(&self) -> Option<&'static str> {
        match self {
            Self::Record(_) => Some("record"),
            Self::Watch(_) => Some("watch"),
            Self::Run(_) => Some("run"),
            Self::Compare(_) => Some("compare"),
            Self::Advise(args) if args.is_on_process() => Some("advise on a process"),
            _ => None,
        }
    }

    /// Does what the command says.
    fn run(self, home: &Home) -> anyhow::Result<ExitCode> {
        match self {
            Self::Record(args) => record::run(args, home),
            Self::Watch(args) => watch::run(args, home),
            Self::WatchKeeper(args) => keeper::keep_trace(args),
            Self::Info(args) => info::run(args),
            Self::Import(args) => import::run(args),
            Self::Export(args) => export::run(&args),
            Self::Generate(args) => generate::run(args),
            Self::Simulate(args) if args.whole_objects => simulate_objects::run(&args),
            Self::Simulate(args) if args.tiers.is_some() => simulate_tiers::run(&args),
            Self::Simulate(args) => simulate::run(args),
            #[cfg(feature = "parquet")]
            Self::Sweep(args) => sweep::run(args, home),
            #[cfg(feature = "parquet")]
            Self::SweepWorker => sweep::work(),
            Self::Report(args) => report::run(args),
            Self::Advise(args) => advise::run(args),
            Self::Diff(args) => diff::run(args),
            Self::Plot(args) => plot::run(args),
            Self::Partition(args) => partition::run(&args),
            Self::Multiprogram(args) => multiprogram::run(args),
            Self::Run(args) if args.is_of_tasks() => run_tasks::run(args),
            Self::Run(args) if args.pid.is_some() => run_pid::run(&args),
            Self::Run(args) => run::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Reproduce { .. } => Err(anyhow!(
                "reproduce is a command of sweephand-lab; in a checkout: cargo run --release -p sweephand-lab -- reproduce"
            )),
            Self::Devices(args) => devices::run(args),
            Self::Doctor(args) => doctor::run(args, home),
            Self::Policies(args) => policies::run(args),
            Self::Completions(args) => completions::run(args, Cli::command()),
            Self::Man(args) => man::run(args, Cli::command()),
        }
    }
}

/// If `RAYON_NUM_THREADS` asks for more threads than there are processors, there are only as many
/// as processors.
fn bound_threads() {
    let Some(asked) = rayon_threads() else { return };
    let threads = bounded_threads(Some(asked), usize::MAX);
    if threads < asked {
        // It fails only if there are threads already, which there are not.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
}

/// Does what the words of a command line say, the first of which is the command's own name.
pub fn main(words: impl IntoIterator<Item = OsString>, home: &Home) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = help::complete(Cli::command());
    let spelled_out = bare_pid::spelled_out(words.clone(), &cli);
    let found = cli.clone().try_get_matches_from(&spelled_out);
    let parsed =
        found.and_then(|found| Ok((Cli::from_arg_matches(&found)?.command, needs::check(&found, &cli))));
    let command = match parsed {
        Ok((command, Ok(()))) => command,
        Ok((_, Err(error))) => return exit_code_of(&error, &words),
        Err(error) => {
            match usage::complaint(&error, &words, &cli) {
                Some(complaint) => stderr::eprint_line!("sweephand: {complaint}"),
                // If the terminal is gone, there is no one to print help for.
                None => drop(error.print()),
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    if !cfg!(target_arch = "x86_64")
        && let Some(name) = command.for_x86_64()
    {
        stderr::eprint_line!("sweephand: {name} works on x86-64 only; {ON_EVERY_PROCESSOR} work here");
        return ExitCode::from(2);
    }
    bound_threads();
    command.run(home).unwrap_or_else(|error| exit_code_of(&error, &words))
}

/// Reports an error, in one line.
fn exit_code_of(error: &anyhow::Error, words: &[OsString]) -> ExitCode {
    // Nobody reads on: that is their choice, not an error.
    let pipe_closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(pipe_closed) {
        return ExitCode::SUCCESS;
    }
    match as_root::hint(error, words) {
        Some(command) => stderr::eprint_line!("sweephand: {error:#}: {command}"),
        None => stderr::eprint_line!("sweephand: {error:#}"),
    }
    ExitCode::from(2)
}
