//! `sweephand run`: what counts, what cannot be paged out, and the cgroup that bears witness.
//!
//! No program is ended because it lacks memory that it was promised, whatever it has besides. If a
//! program takes more, a message says what took it.

mod live;

use live::*;
use std::fs;
use std::process::Command;
use sweephand_checks::{Need, skip};

/// What a program counted that found everything right.
fn right(options: &[&str], name: &str, arguments: &[&str]) -> serde_json::Value {
    let words = [options, &[name], arguments].concat().join(".").replace('/', "-");
    let stats = workshop().join(format!("limits.{words}.json"));
    let mut command = run(options);
    expect_word_right(command.arg("--stats").arg(&stats).arg("--").arg(program(name)).args(arguments));
    let counts = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    fs::remove_file(stats).unwrap();
    counts
}

fn count(counts: &serde_json::Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("{name} in {counts}"))
}

/// All that counts was within what there is, and the kernel was never asked for more than it
/// allows.
fn expect_within_the_limit(counts: &serde_json::Value) {
    assert!(count(counts, "peak_memory_pages") * 4096 <= count(counts, "budget_bytes"), "{counts}");
    if counts["cgroup_missing"].is_null() {
        assert_eq!(count(counts, "cgroup_failcnt"), 0, "{counts}");
    } else {
        skip(Need::Swap, &counts["cgroup_missing"]);
    }
}

/// Memory of a kind that cannot be paged out, a little and much of it, and the rest is paged.
fn expect_paged_beside(kind: &str) {
    if !can_page() {
        return;
    }
    for (kib, policy) in [("256", "clock-pro"), ("1024", "fifo"), ("4096", "clock")] {
        let counts = right(&["--memory", "24MiB", "--policy", policy], "fixed", &[kind, kib, "40"]);
        expect_within_the_limit(&counts);
        assert!(count(&counts, "refaults") > 0, "{kind}: {counts}");
    }
}

#[test]
fn locked_memory_stays_and_the_rest_is_paged() {
    expect_paged_beside("lock");
}

#[test]
fn code_and_files_stay_and_the_rest_is_paged() {
    ["code", "read", "ring"].into_iter().for_each(expect_paged_beside);
}

#[test]
fn mapped_memory_stays_and_the_rest_is_paged() {
    ["private", "shared"].into_iter().for_each(expect_paged_beside);
}

#[test]
fn memory_that_is_locked_by_turns_stays_and_the_rest_is_paged() {
    expect_paged_beside("turns");
}

/// Under policies that keep lists of other kinds.
#[test]
fn more_than_half_of_memory_may_be_unpageable() {
    if !can_page() {
        return;
    }
    for (kind, policy) in [("lock", "lifo-plus"), ("code", "apr"), ("turns", "car"), ("read", "wsclock")] {
        right(&["--memory", "24MiB", "--policy", policy], "fixed", &[kind, "12288", "30"]);
    }
}

#[test]
fn page_tables_count() {
    if !can_page() {
        return;
    }
    // 3000 pages in as many page tables: 24 MiB, and the pager's own tables for them.
    let counts = right(&["--memory", "40MiB", "--policy", "clock"], "fixed", &["tables", "12000", "24"]);
    expect_within_the_limit(&counts);
}

#[test]
fn more_than_the_limit_that_cannot_be_paged_out_is_told_in_one_line() {
    if !can_page() {
        return;
    }
    let mut command = run(&["--memory", "24MiB", "--"]);
    let output = output(command.arg(program("fixed")).args(["lock", "61440", "8"]));
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{words}");
    assert!(words.contains("the limit is too small") && words.lines().count() == 1, "{words}");
    assert!(words.contains("cannot be paged out (locked") && words.contains("--memory"), "{words}");
}

/// Slowly and quickly, while the pager has nothing else to do, and while it has much.
#[test]
fn memory_that_nobody_told_of_is_found_and_paged() {
    if !can_page() {
        return;
    }
    let cases: [(&str, [&str; 4]); 7] = [
        ("32MiB", ["96", "1024", "20000", "idle"]),
        ("32MiB", ["96", "64", "1000", "idle"]),
        ("32MiB", ["160", "1024", "0", "idle"]),
        ("32MiB", ["400", "16384", "0", "idle"]),
        ("24MiB", ["96", "1024", "5000", "busy"]),
        ("24MiB", ["160", "256", "0", "break"]),
        // Slowly enough that a child is still there when its pager looks for the first time.
        ("32MiB", ["64", "512", "2000", "fork"]),
    ];
    for (memory, arguments) in cases {
        let counts = right(&["--memory", memory, "--policy", "clock"], "bare", &arguments);
        assert!(count(&counts, "evictions") > 0, "{arguments:?}: {counts}");
    }
}

/// The counts of a run of the shell, and what it wrote.
fn shell(options: &[&str], name: &str, script: &str) -> (serde_json::Value, Option<i32>, String) {
    let stats = workshop().join(format!("limits.{name}.json"));
    let mut command = run(options);
    command.arg("--stats").arg(&stats).args(["--", "sh", "-c", script]);
    let output = output(&mut command);
    let counts = serde_json::from_slice(&fs::read(&stats).unwrap_or_else(|error| {
        panic!("{script}: {error}: {} {}", text(&output.stdout), text(&output.stderr))
    }));
    (counts.unwrap(), output.status.code(), text(&output.stderr))
}

#[test]
fn the_cgroups_limit_follows_the_processes_that_are_alive() {
    if !can_page() {
        return;
    }
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i + 1)); done";
    let (one_by_one, status, _) = shell(&["--memory", "16MiB"], "one-by-one", script);
    assert_eq!(status, Some(0));
    if !one_by_one["cgroup_missing"].is_null() {
        return skip(Need::Swap, &one_by_one["cgroup_missing"]);
    }
    // The shell, one child, and those that are just ending.
    let limit = |counts| count(counts, "cgroup_limit_bytes");
    assert!(count(&one_by_one, "processes") > 60, "{one_by_one}");
    assert!(limit(&one_by_one) < 12 * (40 << 20), "{one_by_one}");
    let (at_once, _, _) = shell(
        &["--memory", "16MiB"],
        "at-once",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 2 & done; wait",
    );
    // Each may have as much, and is given room before it begins.
    assert!(limit(&at_once) > 15 * (16 << 20), "{at_once}");
}

/// Such a child has no limit, and must not be the end of the processes that have one.
#[test]
fn memory_of_an_unpaged_child_does_not_count_against_the_limit() {
    if !can_page() {
        return;
    }
    let child = compiled("churn", &["-static"]);
    let script = format!("{} 160 2 1 && {} 24 2 1", child.display(), program("churn").display());
    let (counts, status, words) = shell(&["--memory", "16MiB"], "unpaged-child", &script);
    assert_eq!(status, Some(0), "{words} {counts}");
    assert!(words.contains("ran without a limit"), "{words}");
}

#[test]
fn message_names_what_filled_the_cgroup() {
    if !can_page() {
        return;
    }
    let mut command = run(&["--memory", "16MiB", "--"]);
    let output = output(command.arg(program("fixed")).args(["shared", "600000", "1"]));
    let words = text(&output.stderr);
    if output.status.success() {
        skip(Need::Swap, "no memory cgroup");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("did not fit the cgroup's") && words.contains("MiB shared memory"), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[test]
fn the_limit_that_a_program_reads_can_be_chosen() {
    if !can_page() {
        return;
    }
    let program = program("churn");
    let script = format!("{} 32 2 1", program.display());
    let options = ["--memory", "16MiB", "--cgroup-limit", "512MiB"];
    let (counts, status, words) = shell(&options, "chosen", &script);
    assert_eq!(status, Some(0), "{words}");
    if counts["cgroup_missing"].is_null() {
        assert_eq!(count(&counts, "cgroup_limit_bytes"), 512 << 20, "{counts}");
    }
    let (counts, status, words) = shell(&["--memory", "16MiB", "--cgroup-limit", "none"], "none", &script);
    assert_eq!(status, Some(0), "{words}");
    assert!(counts["cgroup_missing"].as_str().unwrap().contains("--cgroup-limit none"), "{counts}");
    let output = output(Command::new(SWEEPHAND).args([
        "run",
        "--memory",
        "16MiB",
        "--cgroup-limit",
        "much",
        "--",
        "true",
    ]));
    assert!(text(&output.stderr).contains("--cgroup-limit"), "{}", text(&output.stderr));
}
