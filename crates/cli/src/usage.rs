//! What is wrong with a command line, in one line.

use crate::bare_pid::takes_next;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::path::Path;

/// What the parser says, and where the options are explained or what was probably meant. `None` if
/// nothing is wrong: the words ask for help or for the version.
pub(crate) fn complaint(error: &clap::Error, words: &[OsString], cli: &Command) -> Option<String> {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let subcommand = words.get(1).and_then(|name| cli.find_subcommand(name));
    let said = in_one_line(&error.render().to_string());
    if let Some(meant) = subcommand.and_then(|subcommand| with_dashes(error, words, subcommand)) {
        return Some(format!("{said}; write -- before the program: {meant}"));
    }
    let name = subcommand.map_or_else(String::new, |subcommand| format!(" {}", subcommand.get_name()));
    Some(format!("{said}; see sweephand{name} --help"))
}

/// The paragraphs before the usage.
fn in_one_line(rendered: &str) -> String {
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    let ends = ["\n\nUsage:", "\n\nFor more information"];
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    let paragraphs = text[..end].split("\n\n");
    let lines = paragraphs.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("; ")
}

/// What was meant by a command line that names a program to run without `--` before it.
fn with_dashes(error: &clap::Error, words: &[OsString], subcommand: &Command) -> Option<String> {
    let runs_programs = subcommand.get_arguments().any(|argument| argument.is_last_set());
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument
        || !runs_programs
        || unknown.starts_with('-')
        || words.iter().any(|word| word == "--")
    {
        return None;
    }
    let unknown = words.iter().position(|word| word.to_str() == Some(unknown))?;
    // Where a trace may stand, the program was taken for one, and the unknown word is its argument.
    let program = match first_value(words, subcommand) {
        Some(at) if at < unknown && Path::new(&words[at]).exists() => return None,
        Some(at) => at.min(unknown),
        None => unknown,
    };
    let text =
        |words: &[OsString]| words.iter().map(|word| format!(" {}", word.display())).collect::<String>();
    Some(format!("sweephand{} --{}", text(&words[1..program]), text(&words[program..])))
}

/// Where the first word is that is neither an option nor its value.
fn first_value(words: &[OsString], subcommand: &Command) -> Option<usize> {
    let mut at = 2;
    while let Some(word) = words.get(at) {
        if takes_next(subcommand, word) {
            at += 1;
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::complaint;
    use clap::CommandFactory;
    use std::ffi::OsString;
    use sweephand_checks::trying;

    fn said(line: &str) -> Option<String> {
        let cli = crate::help::complete(crate::Cli::command());
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = cli.clone().try_get_matches_from(&words).unwrap_err();
        complaint(&error, &words, &cli)
    }

    #[test]
    fn a_complaint_is_one_line_that_says_where_to_look() {
        for (line, words) in [
            ("info", "the following required arguments were not provided: <T>; see sweephand info --help"),
            (
                "simulate t --memry 5",
                "unexpected argument '--memry' found; tip: a similar argument exists: '--memory'; \
                 see sweephand simulate --help",
            ),
            (
                "advise t --format xml",
                "invalid value 'xml' for '--format <FORMAT>' [possible values: text, json]; \
                 see sweephand advise --help",
            ),
            (
                "simulat t",
                "unrecognized subcommand 'simulat'; tip: a similar subcommand exists: 'simulate'; \
                 see sweephand --help",
            ),
        ] {
            let _input = trying(|| line.to_owned());
            assert_eq!(said(&format!("sweephand {line}")).as_deref(), Some(words));
        }
        assert_eq!([said("sweephand --version"), said("sweephand info --help")], [None, None]);
    }

    /// A file that is there is a trace, and what follows it is no argument of a program.
    #[test]
    fn dashes_go_before_the_program_not_before_its_argument() {
        for (line, meant) in [
            ("advise python3 script.py", Some("sweephand advise -- python3 script.py")),
            ("advise --format json awk x y", Some("sweephand advise --format json -- awk x y")),
            ("record -o x.swt ls", Some("sweephand record -o x.swt -- ls")),
            ("advise Cargo.toml b.swt", None),
            ("simulate t --slow", None),
        ] {
            let _input = trying(|| line.to_owned());
            let words = said(&format!("sweephand {line}")).unwrap();
            let found = words.split_once("; write -- before the program: ").map(|(_, meant)| meant);
            assert_eq!(found, meant, "{words}");
        }
    }
}
