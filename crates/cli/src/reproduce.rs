//! `sweephand reproduce`: a paper's published results beside measured ones.

use crate::output::Output;
use crate::progress;
use anyhow::Context;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use sweephand_papers::{Lab, all_items, items};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Papers or items, such as clock-pro or clock-pro/table-1; all if none are named
    names: Vec<String>,
    /// List what can be reproduced
    #[arg(long)]
    list: bool,
    /// The folder with the papers' traces
    #[arg(long, env = "SWEEPHAND_TRACES", value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Also write each result as Markdown to DIR/PAPER/results/ITEM.md
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    if args.list {
        for item in all_items() {
            writeln!(stdout, "{:<20} {}", item.id, item.title)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bar = progress::bar(0, "references");
    let watch = bar.clone();
    let lab = Lab::new(args.traces).watched(move |trace, done, records| {
        watch.set_length(records);
        watch.set_message(trace.to_string());
        watch.set_position(done);
    });
    let mut all_hold = true;
    for (index, item) in items(&args.names)?.into_iter().enumerate() {
        bar.reset();
        let report = (item.run)(&lab).with_context(|| item.id)?;
        bar.finish_and_clear();
        all_hold &= report.holds();
        if index > 0 {
            writeln!(stdout, "\n")?;
        }
        write!(stdout, "{}", report.text())?;
        if let Some(directory) = &args.output {
            let directory = directory.join(item.folder).join("results");
            fs::create_dir_all(&directory)
                .with_context(|| format!("{}: cannot be made", directory.display()))?;
            let name = item.id.rsplit('/').next().expect("an id has parts");
            let mut file = Output::create(&directory.join(format!("{name}.md")))?;
            file.write_all(report.markdown().as_bytes())?;
            file.commit()?;
        }
    }
    // A claim that does not hold is a finding, not an error.
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
