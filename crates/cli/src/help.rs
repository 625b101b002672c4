//! What help and manual pages say beyond the options: examples, and the groups of subcommands.

use clap::Command;
use std::fmt::Write;

/// The subcommands as `sweephand --help` lists them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Record", &["record", "watch", "import", "export", "generate", "info"]),
    ("Simulate", &["simulate", "sweep", "advise", "report", "plot", "diff", "multiprogram"]),
    ("Run", &["run", "compare"]),
    ("Caches", &["partition"]),
    ("Tools", &["doctor", "devices", "policies", "completions", "man", "help"]),
];

/// A command line, and what it does.
type Example = (&'static str, &'static str);

/// Examples by subcommand.
const EXAMPLES: [(&str, &[Example]); 22] = [
    (
        "record",
        &[
            ("sweephand record -- python3 job.py", "record a program into python3.swt"),
            ("sweephand record --live -o job.swt -- ./job", "the same at nearly full speed"),
        ],
    ),
    (
        "watch",
        &[
            ("sweephand watch 4711 --for 5m", "watch process 4711 for five minutes"),
            ("sweephand watch --pid 4711 -o server.swt", "until it ends, into a trace"),
            ("sweephand watch --unit nginx --for 5m", "all processes of a service, each page once"),
        ],
    ),
    ("info", &[("sweephand info job.swt", "what the trace holds")]),
    (
        "import",
        &[
            ("sweephand import --show requests.csv", "look at a log, and suggest how to import it"),
            ("sweephand import requests.csv -o requests.swt --columns time,key,size", "import it"),
        ],
    ),
    ("export", &[("sweephand export job.swt -o job.csv --format csv", "a trace as text")]),
    (
        "generate",
        &[("sweephand generate loop --pages 1000 --rounds 20 -o loop.swt", "20 rounds over 1,000 pages")],
    ),
    (
        "simulate",
        &[
            ("sweephand simulate job.swt", "page faults at a tenth to nine tenths of the program's memory"),
            ("sweephand simulate job.swt -p all -m 64MiB", "all policies in 64 MiB"),
        ],
    ),
    (
        "sweep",
        &[("sweephand sweep plan.toml -o faults", "every trace, policy and size of a plan, into a folder")],
    ),
    (
        "report",
        &[
            ("sweephand report job.swt -o job.html", "write a page"),
            ("sweephand report -o job.html -- ./job", "record a program first"),
        ],
    ),
    (
        "advise",
        &[
            ("sweephand advise job.swt", "how much memory is enough, and which lines have the faults"),
            ("sweephand advise 4711 --for 2m", "of a running process"),
            ("sweephand advise --budget 64MiB -- ./job", "fail if a program needs more than 64 MiB"),
        ],
    ),
    ("plot", &[("sweephand plot pages job.swt -o pages.svg", "which pages were touched when")]),
    ("diff", &[("sweephand diff before.swt after.swt", "what a change of a program has changed")]),
    ("partition", &[("sweephand partition tenants.swt -m 25%", "divide a memory among tenants")]),
    ("multiprogram", &[("sweephand multiprogram A -p wsclock,ws", "configuration A of the WSCLOCK paper")]),
    (
        "run",
        &[
            ("sweephand run -m 64MiB -- python3 job.py", "in 64 MiB"),
            ("sweephand run -m 64MiB -p clock-pro -- ./job", "under a policy"),
            ("sweephand run -m 2GiB 4711", "limit a running process"),
        ],
    ),
    ("compare", &[("sweephand compare -m 64MiB -- ./job", "beside the kernel's swap and all memory")]),
    ("doctor", &[("sweephand doctor", "what works on this machine")]),
    ("devices", &[("sweephand devices /var/tmp", "measure the disk that holds /var/tmp")]),
    ("policies", &[("sweephand policies clock-pro", "the parameters of a policy")]),
    ("completions", &[("sweephand completions bash", "a script for bash")]),
    ("man", &[("sweephand man man1", "write the pages into a directory")]),
    ("help", &[("sweephand help run", "the options of a subcommand")]),
];

/// Examples of a subcommand.
pub(crate) fn examples(subcommand: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(name, _)| *name == subcommand).map_or(&[], |(_, examples)| examples)
}

/// Adds the groups to the help of the command, and the examples to that of its subcommands.
pub(crate) fn complete(command: Command) -> Command {
    let names: Vec<_> =
        command.get_subcommands().map(|subcommand| subcommand.get_name().to_owned()).collect();
    let groups = groups(&command);
    let command = command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}\n"
    ));
    names.iter().fold(command, |command, name| {
        let examples = examples(name);
        command.mut_subcommand(name, |subcommand| match examples.is_empty() {
            true => subcommand,
            false => subcommand.after_help(paragraph(examples)),
        })
    })
}

fn paragraph(examples: &[Example]) -> String {
    let mut text = "Examples:".to_string();
    for (line, meaning) in examples {
        let _ = write!(text, "\n  {line}\n      {meaning}");
    }
    text
}

/// The subcommands by group, each with a line.
fn groups(command: &Command) -> String {
    const WIDTH: usize = 14;
    let mut text = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for name in names {
            let about = match command.find_subcommand(name) {
                Some(subcommand) => subcommand.get_about().map(ToString::to_string),
                None if *name == "help" => Some("Print this message or the help of a subcommand".to_string()),
                // It is not in this build.
                None => continue,
            };
            let _ = writeln!(text, "  {name:WIDTH$}{}", about.unwrap_or_default());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{EXAMPLES, GROUPS};
    use crate::Cli;
    use clap::{CommandFactory, Parser};

    fn shown() -> Vec<String> {
        let command = Cli::command();
        let names = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let mut names: Vec<_> = names.map(|subcommand| subcommand.get_name().to_string()).collect();
        names.push("help".to_string());
        names.sort();
        names
    }

    #[test]
    fn every_subcommand_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort();
        assert_eq!(grouped, shown());
    }

    #[test]
    fn every_subcommand_has_examples_that_are_accepted() {
        let mut names: Vec<_> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        names.sort();
        assert_eq!(names, shown());
        for (name, examples) in EXAMPLES {
            for (line, _) in examples {
                let words = shlex::split(line).unwrap().into_iter().map(Into::into).collect();
                let words = crate::bare_pid::spelled_out(words, &Cli::command());
                assert!(words[1] == name, "{line}");
                if name != "help" {
                    assert!(Cli::try_parse_from(&words).is_ok(), "{line}");
                }
            }
        }
    }
}
