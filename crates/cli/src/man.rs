//! `sweephand man`: the manual pages, generated from the definition of the command line.

use anyhow::{Context, bail};
use clap::Command;
use clap_mangen::Man;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use sweephand_output::Output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write sweephand.1 and a page for each subcommand to this directory; otherwise the first goes
    /// to standard output
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn run(args: Args, command: Command) -> anyhow::Result<ExitCode> {
    let Some(directory) = args.directory else {
        io::stdout().write_all(&page(command)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    if !directory.is_dir() {
        bail!("{}: is no directory; make it first", directory.display());
    }
    let name = command.get_name().to_string();
    // Subcommands learn what they are called in full.
    let mut command = command;
    command.build();
    let subcommands = command.get_subcommands().filter(|subcommand| {
        // What is hidden is for our own processes.
        subcommand.get_name() != "help" && !subcommand.is_hide_set()
    });
    let subcommands = subcommands.cloned().map(|subcommand| {
        let name = format!("{name}-{}", subcommand.get_name());
        (name.clone(), subcommand.display_name(name))
    });
    let pages: Vec<_> = subcommands.chain([(name.clone(), command.clone())]).collect();
    for (name, command) in pages {
        let path = directory.join(format!("{name}.1"));
        let mut file = Output::create(&path, &[])?;
        file.write_all(&page(command)?).with_context(|| format!("{}: cannot be written", path.display()))?;
        file.commit()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A page in roff.
fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).source(concat!("sweephand ", env!("CARGO_PKG_VERSION"))).render(&mut page)?;
    Ok(page)
}
