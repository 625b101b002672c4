//! A process named by its number alone, as in `sweephand watch 4711`.

use clap::Command;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The option for which a number stands.
const PID: &str = "pid";

/// Puts `--pid` before a number that stands alone, for subcommands that have this option. The name
/// of a file remains one, even if it is a number.
pub(crate) fn spelled_out(mut words: Vec<OsString>, cli: &Command) -> Vec<OsString> {
    let Some(subcommand) = words.get(1).and_then(|name| cli.find_subcommand(name)) else { return words };
    if !subcommand.get_arguments().any(|option| option.get_long() == Some(PID)) {
        return words;
    }
    let mut is_value = false;
    for word in words.iter_mut().skip(2).take_while(|word| *word != "--") {
        if is_value {
            is_value = false;
        } else if takes_next(subcommand, word) {
            is_value = true;
        } else if is_number(word) && !Path::new(word).exists() {
            *word = format!("--{PID}={}", word.display()).into();
        }
    }
    words
}

fn is_number(word: &OsStr) -> bool {
    !word.is_empty() && word.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

/// Whether a word is an option whose value is the next word.
pub(crate) fn takes_next(subcommand: &Command, word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    subcommand.get_arguments().filter(|option| option.get_action().takes_values()).any(|option| {
        option.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
            || option.get_short().is_some_and(|short| {
                word.strip_prefix('-').and_then(|word| word.strip_prefix(short)) == Some("")
            })
    })
}

#[cfg(test)]
mod tests {
    use super::spelled_out;
    use clap::CommandFactory;

    fn spelled(line: &str) -> String {
        let words = line.split(' ').map(Into::into).collect();
        let words = spelled_out(words, &crate::Cli::command());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_number_alone_is_a_process() {
        assert_eq!(spelled("sweephand watch 4711 --for 5s"), "sweephand watch --pid=4711 --for 5s");
        assert_eq!(spelled("sweephand run -m 64MiB 4711"), "sweephand run -m 64MiB --pid=4711");
        assert_eq!(spelled("sweephand advise --for 5s 4711"), "sweephand advise --for 5s --pid=4711");
    }

    #[test]
    fn numbers_that_are_not_a_bare_pid_are_left_alone() {
        for line in [
            "sweephand watch --pid 4711",
            "sweephand run --prefetch 4711 -m 4711 -- 4711",
            "sweephand simulate 4711",
            "sweephand watch",
            "sweephand",
        ] {
            assert_eq!(spelled(line), line);
        }
    }
}
