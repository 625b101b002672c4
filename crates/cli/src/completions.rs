//! `sweephand completions`: what a shell needs to complete the command's words.

use clap::Command;
use clap_complete::{Shell, generate};
use std::io::{self, Write};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: Args, command: Command) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_string();
    // What is hidden is for our own processes; clap would complete it all the same.
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    let mut command = Command::new("sweephand").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    // Into memory first: a reader that goes away is no error.
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
