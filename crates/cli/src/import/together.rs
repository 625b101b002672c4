//! Which options of `sweephand import` go together. An option that would have no effect is refused.
//!
//! clap has such rules too, but it forgets that an option needs another where that one conflicts
//! with a third. So all of them stand here, in one table.

use anyhow::bail;

/// A rule about two options.
enum Rule {
    /// The first has an effect only beside the second.
    Needs,
    /// The first has no effect beside the second, or contradicts it.
    Without,
}

use Rule::{Needs, Without};

/// Every rule: an option, how it stands to another, that one, and why.
const RULES: [(&str, Rule, &str, &str); 18] = [
    ("--columns", Without, "--format", "a format has its columns"),
    ("--header", Needs, "--columns", "formats know their first line"),
    ("--separator", Needs, "--columns", "formats know what separates their columns"),
    ("--quote", Needs, "--columns", "formats know what quotes are in them"),
    ("--page-size", Needs, "--columns", "formats say how large their pages are"),
    ("--whole-objects", Needs, "--columns", "only logs have keys and sizes"),
    ("--whole-objects", Without, "--page-size", "whole objects have no pages"),
    ("--whole-objects", Without, "--window", "only pages can be left out"),
    ("--show", Without, "--output", "it writes no trace"),
    ("--show", Without, "--window", "it shows every reference"),
    ("--show", Without, "--irim", "it writes no string"),
    ("--show", Without, "--bad-rows", "it says why a row cannot be read"),
    ("--in-order", Without, "--show", "it shows one input"),
    ("--in-order", Without, "--irim", "a string is made of one trace"),
    ("--irim", Without, "--columns", "import the log first, and then the trace"),
    ("--irim", Without, "--format", "import the trace first, and then that"),
    ("--irim", Without, "--bad-rows", "a trace has none"),
    ("--irim", Without, "--window", "a string holds no references"),
];

/// Refuses options of which one has no effect. `given` says whether an option is on the command
/// line.
pub(super) fn check(given: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    for (option, rule, other, why) in &RULES {
        match rule {
            Without if given(option) && given(other) => {
                bail!("{option} does not go with {other}: {why}")
            }
            Needs if given(option) && !given(other) => bail!("{option} needs {other}: {why}"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Args;
    use super::{Needs, RULES, check};
    use clap::{Args as _, Command};

    /// Options that go with every other.
    const FREE: [&str; 1] = ["--help"];

    #[test]
    fn every_option_is_in_the_table_and_every_name_in_it_is_an_option() {
        let command = Args::augment_args(Command::new("import"));
        let options: Vec<String> =
            command.get_arguments().filter_map(|one| Some(format!("--{}", one.get_long()?))).collect();
        let ruled = |name: &str| RULES.iter().any(|(one, _, other, _)| *one == name || *other == name);
        for option in &options {
            assert!(ruled(option) || FREE.contains(&option.as_str()), "{option} has no rule");
        }
        for (one, _, other, _) in &RULES {
            for name in [one, other] {
                assert!(options.iter().any(|option| option == name), "{name} is no option");
            }
        }
    }

    #[test]
    fn pairs_are_refused_by_name() {
        let pair = |pair: &[&str]| check(|option| pair.contains(&option)).map_err(|error| error.to_string());
        for (one, rule, other, why) in &RULES {
            let given: &[&str] = if matches!(rule, Needs) { &[one] } else { &[one, other] };
            let error = pair(given).unwrap_err();
            // Of two that need a third, either may be named.
            assert!(error.starts_with("--"), "{given:?}: {error}");
            assert!(error.contains(one) || error.contains(other), "{given:?}: {error}");
            assert!(!why.is_empty(), "{given:?}");
        }
        assert!(pair(&["--columns", "--page-size", "--header", "--window", "--output"]).is_ok());
        assert!(pair(&["--format", "--window"]).is_ok());
        assert!(pair(&["--format", "--page-size"]).unwrap_err().starts_with("--page-size needs --columns"));
        assert!(pair(&["--irim", "--separator"]).unwrap_err().starts_with("--separator needs --columns"));
    }
}
