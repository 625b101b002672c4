//! `sweephand record`: run a program under the recorder and keep the pages it touches.

mod args;
mod live;

pub(crate) use args::Args;

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
    let Args { command, output, children, anonymous, window, quiet, no_contents, .. } = args;
    let window = window.unwrap_or(DEFAULT_WINDOW);
    let contents = !no_contents;
    let options = Options { command, output, children, anonymous, min_object_bytes, window, contents };
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
