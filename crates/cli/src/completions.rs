//! `sweephand completions`: what a shell needs to complete the command's words.

use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::{Shell, generate};
use std::io::{self, Write};
use std::process::ExitCode;
use sweephand_policy::Info;
use sweephand_results::PolicyListing;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: Args, command: Command) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_string();
    // What is hidden is for our own processes; clap would complete it all the same.
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let shown = shown.cloned().map(with_policies);
    let mut command = Command::new("sweephand").version(crate::about::VERSION).subcommands(shown);
    // Into memory first: a reader that goes away is no error.
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the names of policies wherever one is asked for. The command itself takes parameters and
/// lists, too.
fn with_policies(subcommand: Command) -> Command {
    let argument = if subcommand.get_name() == "policies" { "names" } else { "policy" };
    if !subcommand.get_arguments().any(|known| known.get_id() == argument) {
        return subcommand;
    }
    let takes_tasks = matches!(subcommand.get_name(), "run" | "multiprogram" | "policies");
    let is_live = matches!(subcommand.get_name(), "run" | "compare");
    let all = PolicyListing::of_names("all").expect("a name of all");
    let taken = all.iter().filter(|policy| match policy.is_for_tasks() {
        true => takes_tasks || is_live && policy.runs_live(),
        false => !is_live || policy.runs_live(),
    });
    let value = |info: &'static Info| PossibleValue::new(info.name).help(info.summary);
    let values: Vec<_> = taken.map(|policy| value(policy.info())).collect();
    subcommand.mut_arg(argument, |known| known.value_parser(PossibleValuesParser::new(values)))
}
