//! `sweephand policies`: every policy, what it needs, where it runs, its paper, its parameters.
//! Policies for many tasks come last.

use std::io::{self, Write};
use std::process::ExitCode;
use sweephand_results::PolicyListing;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Everything about these policies (comma list), or about all [default: a line on each]
    names: Option<String>,
    /// How to print them
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let entries = PolicyListing::of_names(args.names.as_deref().unwrap_or("all"))?;
    let text = match args.format {
        Format::Text if args.names.is_none() => {
            let lines: String = entries.iter().map(PolicyListing::line).collect();
            format!("{lines}\n`sweephand policies NAME` says what one needs, its paper and its parameters.\n")
        }
        Format::Text => entries.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Format::Json => {
            format!("{:#}\n", entries.iter().map(PolicyListing::to_json).collect::<serde_json::Value>())
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
