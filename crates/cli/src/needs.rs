//! Options that only say something about another one, and are refused without it.
//!
//! clap could require the other one. But it does not if that does not go with a third option that
//! is given, and then nothing would say that the first has no effect.

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// A subcommand, one of its arguments, and what that needs, by the names of fields. A group of
/// arguments is one of them.
type Need = (&'static str, &'static str, &'static str);

/// Every need.
const NEEDS: [Need; 28] = [
    ("record", "overhead", "live"),
    ("record", "awake", "live"),
    ("watch", "no_contents", "output"),
    ("watch", "device", "listen"),
    ("simulate", "resident", "tiers"),
    ("simulate", "pool_device", "tiers"),
    ("simulate", "pool_device", "device"),
    ("simulate", "sample_seed", "sample"),
    ("simulate", "native", "device"),
    ("simulate", "paged_by", "device"),
    ("simulate", "evictions", "misses"),
    ("simulate", "windows", "over_time"),
    ("simulate", "trajectory_step", "trajectory"),
    ("report", "stacks_of", "stacks"),
    ("report", "format", "stacks"),
    ("report", "native", "device"),
    ("advise", "duration", "watched"),
    ("advise", "every", "watched"),
    ("advise", "overhead", "watched"),
    ("advise", "keep", "watched"),
    ("advise", "trial", "watched"),
    ("advise", "metric", "trial"),
    ("advise", "metric_is", "metric"),
    ("advise", "metric_timeout", "metric"),
    ("advise", "native", "device"),
    ("multiprogram", "timeline_step", "timeline"),
    ("devices", "seconds", "directory"),
    ("devices", "output", "directory"),
];

/// Refuses an argument whose other one is not given.
pub(crate) fn check(found: &ArgMatches, cli: &Command) -> anyhow::Result<()> {
    let Some((name, found)) = found.subcommand() else { return Ok(()) };
    let given = |id: &str| found.value_source(id) == Some(ValueSource::CommandLine);
    for (_, argument, other) in NEEDS.iter().filter(|(command, ..)| *command == name) {
        if given(argument) && !given(other) {
            let command = cli.find_subcommand(name).expect("it was found");
            bail!("{} needs {}", shown(command, argument), shown(command, other));
        }
    }
    Ok(())
}

/// An argument as it is written; of a group, all of its arguments.
fn shown(command: &Command, id: &str) -> String {
    if let Some(group) = command.get_groups().find(|group| group.get_id() == id) {
        let names: Vec<String> = group.get_args().map(|of| shown(command, of.as_str())).collect();
        let (last, others) = names.split_last().expect("a group has arguments");
        return format!("{} or {last}", others.join(", "));
    }
    let argument = command.get_arguments().find(|argument| argument.get_id() == id);
    let argument = argument.unwrap_or_else(|| panic!("{} has no {id}", command.get_name()));
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_value_names().expect("it takes a value").join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::{NEEDS, check, shown};
    use clap::CommandFactory;
    use sweephand_checks::trying;

    #[test]
    fn every_name_is_that_of_an_argument() {
        let cli = crate::Cli::command();
        for (command, argument, other) in NEEDS {
            let command = cli.find_subcommand(command).unwrap();
            assert_ne!(shown(command, argument), shown(command, other));
        }
    }

    #[test]
    fn what_has_no_effect_is_refused_whatever_else_is_given() {
        for (words, message) in [
            ("simulate t --resident 50%", "--resident needs --tiers"),
            ("simulate t --resident 50% --warmup 9", "--resident needs --tiers"),
            ("simulate t --whole-objects --resident 50%", "--resident needs --tiers"),
            ("simulate t --tiers zswap --windows 5", "--windows needs --over-time"),
            ("simulate t --tiers zswap --evictions all", "--evictions needs --misses"),
            ("simulate t --tiers zswap --sample-seed 5", "--sample-seed needs --sample"),
            ("simulate t --tiers zswap --trajectory-step 5", "--trajectory-step needs --trajectory"),
            ("simulate t --tiers zswap --pool-device zram", "--pool-device needs --device"),
            ("simulate t --over-time o --paged-by kernel", "--paged-by needs --device"),
            ("advise t --for 5s", "--for needs --pid, --tree, --cgroup, --unit or --container"),
            ("advise t --every 5s", "--every needs --pid, --tree, --cgroup, --unit or --container"),
            ("advise t --native 5", "--native needs --device"),
            ("advise t --try", "--try needs --pid, --tree, --cgroup, --unit or --container"),
            ("advise --cgroup a --metric b", "--metric needs --try"),
            ("advise --cgroup a --try --metric-is latency", "--metric-is needs --metric"),
            ("devices --seconds 5", "--seconds needs DIR"),
        ] {
            let _input = trying(|| words.to_owned());
            let cli = crate::Cli::command();
            let words = format!("sweephand {words}");
            let found = cli.clone().try_get_matches_from(words.split(' ')).unwrap();
            assert_eq!(check(&found, &cli).unwrap_err().to_string(), message);
        }
        for one in ["--pid 1", "--tree 1", "--cgroup a", "--unit a", "--container a"] {
            let _input = trying(|| one.to_owned());
            let cli = crate::Cli::command();
            let words = format!("sweephand advise {one} --for 5s --every 1s --overhead 1%");
            check(&cli.clone().try_get_matches_from(words.split(' ')).unwrap(), &cli).unwrap();
        }
        let cli = crate::Cli::command();
        let right = "sweephand simulate t --tiers zswap --resident 50% --device ssd --pool-device zram";
        check(&cli.clone().try_get_matches_from(right.split(' ')).unwrap(), &cli).unwrap();
    }
}
