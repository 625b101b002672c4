//! Runs the command that `sweephand advise` names: it has about as many faults as was predicted.
//! Where only nearly all of the memory is enough, `advise` names none. The test needs Valgrind and
//! the right to page programs; where one is missing, it says so.

mod live;

use live::{can_page, text, workshop};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use sweephand_checks::{has_program, read_text};

const SWEEPHAND: &str = env!("CARGO_BIN_EXE_sweephand");

/// Faults on pages that were evicted, as a share of the program's pages. There are more than
/// predicted, because reference bits are late; a program that thrashes has many times as many.
const SLACK: f64 = 0.5;

fn sweephand(folder: &Path, words: &[&str]) -> std::process::Output {
    // A run that thrashes would go on for long.
    let mut command = Command::new("timeout");
    command
        .args(["900", SWEEPHAND])
        .args(words)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("LC_ALL", "C");
    command.stdin(Stdio::null()).output().expect("timeout")
}

/// Writes what the programs read.
fn write_inputs(path: &Path) {
    let pairs: String = (0..40_000u64).map(|n| format!("key{} {n}\n", n * 7919 % 30_000)).collect();
    fs::write(path.join("kv.txt"), pairs).unwrap();
    fs::write(
        path.join("agg.awk"),
        "{ sum[$1] += $2; last[$1] = $0 }\nEND { for (k in sum) n++; print n }\n",
    )
    .unwrap();
    fs::write(
        path.join("heat.pl"),
        "my @rod = (100, (0) x 120_000); for my $step (1 .. 3) { $rod[$_] = ($rod[$_ - 1] + $rod[$_] + $rod[$_ + 1]) / 3 for 1 .. $#rod - 1; }\n\
         printf \"%.3f\\n\", $_ for @rod[1 .. 3];\n",
    )
    .unwrap();
    fs::write(
        path.join("table.py"),
        "import random\nrandom.seed(7)\ntable = {n: [n] * 30 for n in range(30_000)}\n\
         print(sum(table[min(int(random.expovariate(1 / 3000)), 29_999)][3] for _ in range(30_000)))\n",
    )
    .unwrap();
}

/// Runs each program as `advise` says, in a folder of its own with the inputs. It must say so for
/// at least one of them.
fn expect_as_predicted(programs: &[&[&str]]) {
    if !has_program("valgrind") || !can_page() {
        return;
    }
    let folder = tempfile::tempdir_in(workshop()).unwrap();
    let path = folder.path();
    write_inputs(path);
    let mut advised = 0;
    for program in programs {
        let words = [&["advise", "--format", "json", "-o", "advice.json", "--"], *program].concat();
        let output = sweephand(path, &words);
        assert!(output.status.success(), "{program:?}: {}", text(&output.stderr));
        let advice: Value = serde_json::from_str(&read_text(path.join("advice.json"))).unwrap();
        let next: Vec<&str> =
            advice["next"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        if next[1] != "run" {
            assert_eq!(next[1], "report", "{program:?}: {next:?}");
            continue;
        }
        advised += 1;
        let words = [&["run", "--swap", ".", "--stats", "stats.json"], &next[2..]].concat();
        let output = sweephand(path, &words);
        assert!(output.status.success(), "{program:?}: {}", text(&output.stderr));
        let stats: Value = serde_json::from_str(&read_text(path.join("stats.json"))).unwrap();
        let count = |of: &Value| of.as_f64().unwrap();
        let least = count(&advice["curves"]["first_touch_faults"]);
        let predicted = count(&advice["conclusion"]["enough"]["faults"]) - least;
        let refaults = count(&stats["refaults"]);
        eprintln!(
            "{program:?}: {}: {refaults} refaults, {predicted} predicted, {least} first touches",
            next[3]
        );
        assert!(
            refaults <= predicted + SLACK * least,
            "{program:?}: {next:?}: {refaults}, {predicted} predicted, {least} first touches"
        );
    }
    assert!(advised > 0, "no run was advised for any of {programs:?}");
}

#[test]
fn the_run_that_is_advised_for_perl_or_awk_is_near_what_was_predicted() {
    expect_as_predicted(&[&["perl", "heat.pl"], &["awk", "-f", "agg.awk", "kv.txt"]]);
}

#[test]
fn the_run_that_is_advised_for_python_or_tools_is_near_what_was_predicted() {
    let python: &[&str] = &["python3", "-I", "-S", "table.py"];
    expect_as_predicted(&[python, &["ls", "-R", "/usr/share"], &["sort", "kv.txt"]]);
}
