//! `sweephand record`: run a program under the recorder and keep the pages it touches.

mod live;

use crate::keeper::share_of_program;
use crate::stderr::eprint_line;
use crate::{Home, progress};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use sweephand_program::exit_code;
use sweephand_record::{DEFAULT_MIN_OBJECT_BYTES, DEFAULT_WINDOW, Event, Options, Recorded, RecordedTrace};
use sweephand_results::{bytes, grouped};
use sweephand_sim::MemorySize;
use sweephand_trace::Header;

// With --live and without, the same allocations are objects.
const _: () = assert!(DEFAULT_MIN_OBJECT_BYTES == sweephand_pager::LEAST_OBJECT_BYTES as u64);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace to write [default: the program's name with .swt, in this directory]. With --children:
    /// the directory for the traces [default: the program's name with .traces]
    #[arg(short, long, value_name = "T")]
    output: Option<PathBuf>,
    /// Record every process that the program starts, too, each into a trace of its own,
    /// PROGRAM-PID.swt. multiprogram.toml beside them has them as tasks in one memory
    #[arg(long)]
    children: bool,
    /// Record at nearly full speed, without Valgrind: an agent in the program records the first
    /// touch of each page in each epoch. The window is as large as --overhead takes, and the trace
    /// says how large it was when. Needs userfaultfd (root, or CAP_SYS_PTRACE)
    #[arg(long)]
    live: bool,
    /// With --live: the part of the program's time that recording may take, up to 10000%; none is
    /// no limit: then the window is always --window
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share_of_program, requires = "live")]
    overhead: f64,
    /// With --live: keep processors from sleeping meanwhile, so that a fault costs less and the
    /// window can be smaller. Needs root, and a processor that is idle uses more power
    #[arg(long, requires = "live")]
    awake: bool,
    /// Record allocations of this size and more as objects
    #[arg(long, default_value = "40KiB", value_name = "SIZE", conflicts_with = "live")]
    min_object: String,
    /// Record only anonymous memory, which is what a program is paged with under `run`: no pages of
    /// files, no shared memory
    #[arg(long, conflicts_with = "live")]
    anonymous: bool,
    /// Keep only the first and last run of each page in every stretch of K distinct pages: the
    /// faults of LRU and OPT stay exact from K pages of memory up, those of other policies nearly
    /// so from about 8 K up. K is 256 at most. 1 keeps every run of references to one page, 0 every
    /// reference: what counts time in references needs that. With --live: the fewest pages of an
    /// epoch, from 8 up [default: 16, with --live 64]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(0..=256))]
    window: Option<u16>,
    /// No progress, no summary
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments. What is recorded is the program that the command becomes,
    /// through any number of launchers (env, a shell's exec, scripts that find the right version)
    #[arg(last = true, required = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

/// Records a program as `sweephand record -- PROGRAM ARG...` does; returns the trace, and the
/// program's status. What the program prints goes to `stdout`, if that is given.
pub(crate) fn program(
    command: Vec<OsString>,
    stdout: Option<OwnedFd>,
) -> anyhow::Result<(PathBuf, ExitCode)> {
    let (traces, status) = record(&Options::new(command), stdout, false)?;
    let main = traces.iter().find(|trace| trace.is_main).context("nothing was recorded")?;
    let path = main.path.clone();
    summarise(traces);
    Ok((path, status))
}

pub(crate) fn run(args: Args, home: &Home) -> anyhow::Result<ExitCode> {
    if args.live {
        return live::run(&args, home);
    }
    let Ok(MemorySize::Bytes(min_object_bytes)) = args.min_object.parse() else {
        bail!("--min-object {}: write bytes as in 40KiB, at least 1B", args.min_object);
    };
    let Args { command, output, children, anonymous, window, quiet, .. } = args;
    let window = window.unwrap_or(DEFAULT_WINDOW);
    let options = Options { command, output, children, anonymous, min_object_bytes, window };
    let (traces, status) = record(&options, None, quiet)?;
    if !quiet {
        summarise(traces);
    }
    Ok(status)
}

/// Records, and says what the reader of the traces has to know.
fn record(
    options: &Options,
    stdout: Option<OwnedFd>,
    quiet: bool,
) -> anyhow::Result<(Vec<RecordedTrace>, ExitCode)> {
    let bar = if quiet { indicatif::ProgressBar::hidden() } else { progress::line() };
    let line = bar.clone();
    let tell = move |event| match event {
        Event::BuildsTool if quiet => {}
        Event::BuildsTool => eprint_line!("sweephand: building the recorder, once"),
        Event::Progress(done) => {
            line.set_message(format!(
                "recording: {} instructions, {} records, {} read",
                grouped(done.instructions),
                grouped(done.records),
                bytes(done.bytes)
            ));
            line.tick();
        }
    };
    let recorded = sweephand_record::record(options, stdout, Arc::new(tell));
    bar.finish_and_clear();
    let Recorded { status, traces } = recorded?;
    for RecordedTrace { header, name, is_main, .. } in &traces {
        if !header.metadata.complete {
            eprint_line!(
                "sweephand: note: {name}: the recording ends before the program does: it {}",
                header.metadata.ended
            );
        } else if let Some(launcher) = sweephand_advice::launcher(header) {
            eprint_line!("sweephand: {launcher}");
        }
        if let (false, true, Some(note)) = (quiet, is_main, header.metadata.notes.last()) {
            eprint_line!("sweephand: note: {note}");
        }
    }
    Ok((traces, exit_code(status)))
}

/// A line for each trace, those with the most pages first, and a note on the processor.
fn summarise(mut traces: Vec<RecordedTrace>) {
    /// More lines are not read.
    const MOST_LINES: usize = 20;
    traces.sort_by_key(|trace| std::cmp::Reverse(trace.header.totals.distinct_pages));
    for RecordedTrace { path, header, .. } in traces.iter().take(MOST_LINES) {
        let totals = &header.totals;
        eprint_line!(
            "sweephand: {}: {} references to {} pages in {} instructions; {} records, {}",
            path.display(),
            grouped(totals.references),
            grouped(totals.distinct_pages),
            grouped(totals.instructions.unwrap_or_default()),
            grouped(totals.records),
            bytes(fs::metadata(path).map_or(0, |file| file.len()))
        );
    }
    if traces.len() > MOST_LINES {
        eprint_line!("sweephand: and {} smaller ones", traces.len() - MOST_LINES);
    }
    note_many_records(&traces);
    note_other_code();
}

/// Says how to record less if a trace is so long that simulations of it take minutes.
fn note_many_records(traces: &[RecordedTrace]) {
    const MANY_RECORDS: u64 = 50_000_000;
    const LARGER_WINDOW: u64 = 128;
    let is_long = |header: &Header| {
        header.totals.records >= MANY_RECORDS
            && header.metadata.window < LARGER_WINDOW
            && header.totals.distinct_pages >= 10 * LARGER_WINDOW
    };
    if traces.iter().any(|trace| is_long(&trace.header)) {
        eprint_line!(
            "sweephand: note: with this many records, simulate, advise and report take minutes. record \
             --window {LARGER_WINDOW} keeps fewer: counts hold from {LARGER_WINDOW} pages up"
        );
    }
}

/// Says, where the processor has instructions that Valgrind hides, that libraries may have run
/// other code than they do without it.
fn note_other_code() {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        eprint_line!(
            "sweephand: note: under Valgrind there is no AVX-512: libraries that choose code by the \
             processor (numpy, OpenBLAS) ran other code than here alone, and may print other results"
        );
    }
}
