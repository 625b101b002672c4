//! `sweephand-lab`: the experiments of the project, from a checkout. It shares nothing with the
//! `sweephand` command but the libraries, and runs that command where programs are measured live.
//!
//! Results go to standard output or to `-o DIR`, notes and errors to standard error. Exit status: 0
//! success, 1 a finding, 2 an error, reported in one line.

// Both panic where they cannot write.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod reproduce;
mod say;

use clap::{Parser, Subcommand};
use say::say;
use std::io;
use std::process::ExitCode;

/// Run the experiments of the project again.
#[derive(Parser)]
#[command(name = "sweephand-lab", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a paper's published results beside measured ones
    Reproduce(reproduce::Args),
}

fn main() -> ExitCode {
    let Cli { command: Command::Reproduce(args) } = Cli::parse();
    reproduce::run(args).unwrap_or_else(|error| {
        // Nobody reads on: that is their choice, not an error.
        let pipe_closed = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        };
        if error.chain().any(pipe_closed) {
            return ExitCode::SUCCESS;
        }
        say(format_args!("{error:#}"));
        ExitCode::from(2)
    })
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::Parser;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_commands_of_the_book_and_of_the_papers_are_accepted() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let papers = [
            "apr-2020",
            "clock-pro-2005",
            "compressed-caching-1999",
            "linux-mm-advanced-page-replacement",
            "wsclock-1981",
        ];
        let mut pages =
            ["README.md", "docs/papers.md", "docs/artifact.md", "lab/README.md"].map(String::from).to_vec();
        pages.extend(papers.map(|paper| format!("lab/papers/{paper}/README.md")));
        for page in pages {
            let text = fs::read_to_string(project.join(&page)).unwrap();
            let commands = text.match_indices("sweephand-lab").filter_map(|(at, name)| {
                let line = text[at + name.len()..].lines().next()?;
                let line = line.split(['`', '#']).next()?.trim_start_matches(" --").trim();
                line.starts_with("reproduce ").then_some(line)
            });
            let commands: Vec<&str> = commands.collect();
            assert!(!commands.is_empty(), "{page} has none");
            for command in commands {
                let words = shlex::split(command).unwrap();
                let words = std::iter::once("sweephand-lab".to_string()).chain(words);
                let parsed = Cli::try_parse_from(words);
                assert!(parsed.is_ok(), "{page}: {command}: {}", parsed.err().unwrap());
            }
        }
    }
}
