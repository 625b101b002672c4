//! The test commands: `cargo quick` and `cargo full` (see `.cargo/config.toml`).
//!
//! They run `cargo test`, pass on what it prints and its exit status, and say at the end how many
//! tests ran and which were skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use sweephand_checks::{Need, REPEATED, SKIPS};

/// The Debian packages that the full suite needs: a line each, with a shell command that succeeds
/// if it is there.
const PACKAGES: &str = include_str!("../../.ci/packages");

/// The crates whose tests `cargo quick` runs, by folder: the core, without live paging. Besides
/// come some tests of the command.
const QUICK: [(&str, &str); 5] = [
    ("crates/policy", "sweephand-policy"),
    ("crates/trace", "sweephand-trace"),
    ("crates/sim", "sweephand-sim"),
    ("crates/machine", "sweephand-machine"),
    ("crates/pager/agent", "sweephand-agent"),
];
/// Tests of these crates that it leaves out: `real_traces` and `tools` need other programs or the
/// traces of others, `tasks` is also a test of the command that needs root, and `agreement` and
/// `tiers` simulate for minutes if they are not optimised.
const LEFT_OUT: [&str; 5] = ["agreement", "real_traces", "tasks", "tiers", "tools"];
/// Tests by name that it leaves out: they damage a trace at every place, which takes minutes, too.
const SKIPPED: &str = "damage::";
/// Seeds of the agent's simulation in `cargo quick`.
const QUICK_SEEDS: &str = "300";

fn main() -> ExitCode {
    let mut words = env::args().skip(1);
    let which = words.next().unwrap_or_default();
    let more: Vec<String> = words.collect();
    let arguments = match which.as_str() {
        "quick" if more.is_empty() => quick(),
        "full" => ["--workspace", "--no-fail-fast"].map(String::from).into(),
        _ => {
            eprintln!("write quick, or full and perhaps options of cargo test");
            return ExitCode::from(2);
        }
    };
    if which == "full" {
        tell_missing_packages();
    }
    let skips = Path::new("target/skips.txt");
    let _ = fs::create_dir_all("target");
    let _ = fs::remove_file(skips);
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.arg("test").args(arguments).args(&more);
    command.env(SKIPS, env::current_dir().unwrap_or_default().join(skips));
    if which == "quick" {
        command.env("SWEEPHAND_SEEDS", env::var("SWEEPHAND_SEEDS").unwrap_or(QUICK_SEEDS.into()));
        // Nothing is paged live.
        command.env("SWEEPHAND_WITHOUT_AGENT", "1");
    }
    let is_good = pass_on(&mut command, &mut counts);
    let skipped = fs::read_to_string(skips).unwrap_or_default();
    println!("{}; {}", counts.in_words(start.elapsed().as_secs()), skips_in_words(&skipped));
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What `cargo quick` gives to `cargo test`. It has a profile of its own, in which little is
/// optimised: compiling takes longer than the tests.
fn quick() -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--profile",
        "quick",
        "--no-fail-fast",
        "--lib",
        "-p",
        "sweephand",
        "--test",
        "command",
        "--test",
        "import",
    ]
    .map(String::from)
    .into();
    for (folder, package) in QUICK {
        arguments.extend(["-p", package].map(String::from));
        let tests = tests_of(folder).into_iter().filter(|test| !LEFT_OUT.contains(&test.as_str()));
        arguments.extend(tests.flat_map(|test| ["--test".into(), test]));
    }
    arguments.extend(["--", "--skip", SKIPPED].map(String::from));
    arguments
}

/// The names of a crate's test programs: the files in its folder, and the folders with a `main.rs`.
fn tests_of(folder: &str) -> Vec<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("tests");
    let entries = fs::read_dir(tests).into_iter().flatten().flatten().map(|entry| entry.path());
    let sources = entries.filter(|path| {
        path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
    });
    let mut names: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

/// What cargo's test programs have reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds a line that begins with `test result:`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let count = |what: &str| -> u64 {
            let before = result.split(what).next().filter(|before| before.len() < result.len());
            before.and_then(|before| before.split_whitespace().next_back()?.parse().ok()).unwrap_or(0)
        };
        self.passed += count(" passed");
        self.failed += count(" failed");
        self.ignored += count(" ignored");
    }

    fn in_words(self, seconds: u64) -> String {
        format!(
            "{} tests passed, {} failed, {} ignored in {seconds} s",
            self.passed, self.failed, self.ignored
        )
    }
}

/// Runs a command, prints what it prints, and counts. Returns whether it succeeded.
fn pass_on(command: &mut Command, counts: &mut Counts) -> bool {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cargo cannot be started: {error}");
            return false;
        }
    };
    let mut out = io::stdout().lock();
    for line in BufReader::new(child.stdout.take().expect("piped")).split(b'\n') {
        let Ok(line) = line else { break };
        counts.add(&String::from_utf8_lossy(&line));
        // Who does not read on still wants the tests to end.
        let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Which tests were skipped, by what they lacked, and how many tried again.
fn skips_in_words(skipped: &str) -> String {
    let mut tests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in skipped.lines() {
        let mut parts = line.split('\t');
        if let (Some(need), Some(test)) = (parts.next(), parts.next()) {
            tests.entry(need).or_default().insert(test);
        }
    }
    let repeated = match tests.remove(REPEATED) {
        None => String::new(),
        Some(tests) => format!("; {} tried again (target/skips.txt says why)", tests.len()),
    };
    let all: BTreeSet<&str> = tests.values().flatten().copied().collect();
    if all.is_empty() {
        return format!("none skipped{repeated}");
    }
    let by_need = Need::ALL.iter().filter_map(|need| Some((need.name(), tests.get(need.name())?.len())));
    let by_need: Vec<String> = by_need.map(|(need, count)| format!("{count} need {need}")).collect();
    format!("{} skipped: {} (target/skips.txt says why){repeated}", all.len(), by_need.join(", "))
}

/// Says in the first line which packages are missing.
fn tell_missing_packages() {
    let missing: Vec<&str> = PACKAGES
        .lines()
        .filter_map(|line| line.split_once(char::is_whitespace))
        .filter(|(name, _)| !name.starts_with('#'))
        .filter(|(_, test)| {
            let status =
                Command::new("sh").args(["-c", test]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            !status.is_ok_and(|status| status.success())
        })
        .map(|(name, _)| name)
        .collect();
    if !missing.is_empty() {
        println!("missing, so that some tests will be skipped: apt-get install {}", missing.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut counts = Counts::default();
        counts.add(
            "test result: ok. 13 passed; 0 failed; 1 ignored; 0 measured; 5 filtered out; finished in 2.01s",
        );
        counts.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out");
        counts.add("test a_result ... ok");
        assert_eq!(counts, Counts { passed: 15, failed: 3, ignored: 1 });
    }

    #[test]
    fn a_test_counts_once_for_each_need() {
        let skipped = "root\tone\twhy\nroot\tone\twhy\nroot\ttwo\twhy\ntraces\ttwo\twhy\n";
        assert_eq!(
            skips_in_words(skipped),
            "2 skipped: 2 need root, 1 need traces (target/skips.txt says why)"
        );
        assert_eq!(skips_in_words(""), "none skipped");
        assert_eq!(
            skips_in_words("repeated\tone\twhy\n"),
            "none skipped; 1 tried again (target/skips.txt says why)"
        );
    }

    #[test]
    fn quick_has_the_conformance_suite_and_leaves_out_only_tests_that_there_are() {
        assert!(quick().windows(2).any(|words| words == ["--test", "conformance"]));
        let tests: Vec<String> = QUICK.iter().flat_map(|(folder, _)| tests_of(folder)).collect();
        for test in LEFT_OUT {
            assert!(tests.iter().any(|there| there == test), "{test}");
        }
    }

    #[test]
    fn every_package_has_a_test() {
        for line in PACKAGES.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.split_whitespace().count() > 1, "{line}");
        }
    }
}
