//! `sweephand man`: the manual pages, generated from the definition of the command line.

use crate::help;
use anyhow::{Context, bail};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
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

/// Subcommands that pass on the status of the program that they run.
const PASS_ON_STATUS: [&str; 5] = ["record", "run", "watch", "advise", "report"];

/// What the commands look up in the environment.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("RAYON_NUM_THREADS", "The number of threads of a simulation, at most one for each processor."),
    ("TMPDIR", "Where temporary files are made, if not in /tmp."),
    ("XDG_CONFIG_HOME", "Where the figures of measured devices are, if not in ~/.config."),
    ("XDG_CACHE_HOME", "Where the recorder and the pager's library are kept, if not in ~/.cache."),
    ("XDG_RUNTIME_DIR", "Where what belongs to one run is kept, if the user is not root."),
];

/// Files that outlive a command.
const FILES: [(&str, &str); 3] = [
    ("~/.config/sweephand/device.toml", "The figures of the device that devices has measured."),
    ("~/.cache/sweephand", "The recorder and the pager's library, which the command unpacks."),
    ("/var/tmp", "Where run and compare page to, unless --swap names another place."),
];

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
    let name = command.get_name().to_string();
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command).source(format!("sweephand {}", crate::about::VERSION));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    exit_status(&name).to_writer(&mut page)?;
    if name == "sweephand" {
        list("ENVIRONMENT", &ENVIRONMENT).to_writer(&mut page)?;
        list("FILES", &FILES).to_writer(&mut page)?;
    } else {
        list("EXAMPLES", help::examples(&name)).to_writer(&mut page)?;
    }
    Ok(page)
}

fn exit_status(name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(
        "0: success. 1: a finding, such as a check that failed. 2: an error, which one line on standard error tells.",
    )]);
    if PASS_ON_STATUS.contains(&name) {
        roff.text([roman("If it runs a program to its end, its status is that of the program.")]);
    }
    roff
}

/// A section of terms and what they mean.
fn list(title: &str, entries: &[(&str, &str)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*meaning)]);
    }
    roff
}
