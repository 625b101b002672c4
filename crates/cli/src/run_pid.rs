//! `sweephand run --pid`: limits the memory of a process that runs already.

use crate::live::{forget_stats, note_on_swap, show};
use crate::run::Args;
use anyhow::Context;
use rustix::fd::AsFd;
use std::io::Write;
use std::process::ExitCode;
use std::thread;
use sweephand_output::Output;
use sweephand_pager::AttachedRun;
use sweephand_program::Signals;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let pid = args.pid.expect("the caller looked");
    let _awake = args.awake()?;
    note_on_swap(&args.swap);
    let options = args.options()?;
    let stats = args.stats.as_deref().map(|path| Output::create(path, &[])).transpose()?;
    forget_stats(args.stats.as_deref())?;
    let signals = Signals::catch().context("signals cannot be caught")?.into_pipe()?;
    let run = AttachedRun::to(pid, &options)?;
    thread::scope(|scope| {
        // What is shown ends with the process, or with this one.
        if args.progress {
            scope.spawn(|| show(&run));
        }
        run.wait(signals.as_fd());
    });
    let statistics = run.release();
    if let Some(mut output) = stats {
        serde_json::to_writer_pretty(&mut output, &statistics)?;
        writeln!(output)?;
        output.commit()?;
    }
    Ok(ExitCode::SUCCESS)
}
