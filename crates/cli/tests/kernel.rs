//! `sweephand run --kernel`, `sweephand compare`, and the cgroup of all runs: what they tell, and
//! that nothing is left.
//!
//! Cgroups and swap files are for root. Where they cannot be had these tests say so, and check that
//! the command says so too.

mod live;
mod schema;

use live::*;
use schema::keeps_to;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sweephand_checks::{Need, read_text, repeated, skip, trying};

fn statistics(options: &[&str], command: &[&str]) -> serde_json::Value {
    let path = workshop().join(format!("{}.{:?}.json", options.join(""), std::thread::current().id()));
    let attempt = || output(run(options).arg("--stats").arg(&path).arg("--").args(command));
    let mut output = attempt();
    // Now and then the kernel takes a cgroup to be full while all that it could swap out is just
    // being written. Once is enough: 25 runs on a busy machine had none.
    if options.contains(&"--kernel") && text(&output.stderr).contains("the kernel ended it") {
        repeated("the kernel took a cgroup to be full");
        output = attempt();
    }
    assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let document = read_text(&path);
    if let Some(Err(error)) = keeps_to("run.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{options:?}: {error}: {document}");
    }
    let statistics = serde_json::from_str(&document).unwrap();
    fs::remove_file(path).unwrap();
    statistics
}

#[test]
fn the_kernels_replacement_is_counted_under_the_pagers_names() {
    if !can_swap() {
        return;
    }
    let churn = program("churn");
    let churn = [churn.to_str().unwrap(), "48", "4", "1"];
    let kernel = statistics(&["--kernel", "--memory", "16MiB"], &churn);
    let count = |name: &str| kernel[name].as_u64().unwrap_or_else(|| panic!("{name} in {kernel}"));
    assert_eq!((&kernel["policy"], &kernel["exit_status"]), (&"kernel".into(), &0.into()));
    // 12,288 pages, of which 16 MiB and what the kernel is given on top hold less than 5,400.
    assert!(count("faults") > 12_288, "{kernel}");
    for name in ["refaults", "pages_read", "pages_written", "cgroup_failcnt"] {
        assert!(count(name) > 5000, "{name} in {kernel}");
    }
    assert!(count("major_faults") > 0 && count("major_faults") < count("faults"), "{kernel}");
    assert!(count("cgroup_peak_bytes") <= count("cgroup_limit_bytes"), "{kernel}");
    for name in ["rescues", "hand_steps", "evictions", "processes", "cgroup_missing"] {
        assert!(kernel[name].is_null(), "{name} in {kernel}");
    }
    if can_page() {
        let pager = statistics(&["--memory", "16MiB"], &churn);
        let names = |statistics: &serde_json::Value| {
            statistics.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&kernel), names(&pager));
        let count_of = |statistics: &serde_json::Value, name: &str| statistics[name].as_u64().unwrap();
        assert_eq!(kernel["cgroup_limit_bytes"], pager["budget_bytes"]);
        assert_eq!(kernel["budget_bytes"], pager["budget_bytes"]);
        assert!(count_of(&pager, "peak_memory_pages") * 4096 <= count_of(&pager, "budget_bytes"), "{pager}");
        assert_eq!(pager["cgroup_failcnt"], 0, "{pager}");
    }
}

#[test]
fn nothing_is_left_however_it_ends() {
    if !can_swap() {
        return;
    }
    let churn = program("churn");
    let churn = churn.to_str().unwrap();
    let variants: [(&[&str], bool); 4] = [
        (&["--kernel"], true),
        (&["--policy", "clock-pro"], can_page()),
        (&["--policy", "clock-pro", "--backend", "swap"], can_direct()),
        (&[], can_direct()),
    ];
    for (variant, _) in variants.into_iter().filter(|(_, can)| *can) {
        for end in ["TERM", "INT", "KILL", "USR1", "exit"] {
            let _input = trying(|| format!("it ends by {end}"));
            let mut command = run_as_is(&["--memory", "16MiB"]);
            command.args(variant);
            // A shell, so that there is more than one process; its child outlives it when it exits.
            let script = match end {
                "exit" => "sleep 2 & exit 0".to_string(),
                _ => format!("trap 'exit 3' INT TERM; {churn} 32 1000 1 & wait"),
            };
            command.args(["--", "sh", "-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = spawn(&mut command);
            let start = Instant::now();
            while program_of(child.id()).is_empty() && child.try_wait().unwrap().is_none() {
                assert!(start.elapsed() < PATIENCE, "it does not begin");
                sleep(Duration::from_millis(5));
            }
            let mut family = Vec::new();
            if end != "exit" {
                sleep(Duration::from_millis(500));
                family = child.family();
                assert!(
                    !family.is_empty() && !left_by(child.id()).is_empty(),
                    "{variant:?} {end}: it has no cgroup"
                );
                // TERM and INT go to the shell, not to its child; the others end the command
                // itself.
                signal(child.id(), end);
            }
            let start = Instant::now();
            while child.try_wait().unwrap().is_none() {
                assert!(start.elapsed() < PATIENCE, "{variant:?} {end}: it does not end");
                sleep(Duration::from_millis(5));
            }
            // Pages of other tests are there, too. While the memory of one of these is full, the
            // area cannot be switched off.
            let start = Instant::now();
            while !left_by(child.id()).is_empty() {
                assert!(start.elapsed() < PATIENCE, "{variant:?} {end}: left: {:?}", left_by(child.id()));
                sleep(Duration::from_millis(5));
            }
            // Whoever is killed takes the program along; who ends in good order leaves its other
            // processes to themselves.
            let is_killed = matches!(end, "KILL" | "USR1");
            for &pid in &family {
                assert!(!is_killed || !is_alive(pid), "{variant:?} {end}: process {pid} goes on");
                if is_alive(pid) {
                    signal(pid, "KILL");
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_the_cgroup_is_told_in_one_line() {
    if !can_swap() {
        return;
    }
    // Locked memory goes to no swap.
    let script = "import ctypes, mmap\nlibc = ctypes.CDLL(None)\nlibc.mlockall(3)\nx = bytearray(b'1') * (200 << 20)\nprint(len(x))";
    let output = output(run(&["--kernel", "--memory", "32MiB", "--", "python3", "-c"]).arg(script));
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{words}");
    assert!(words.contains("did not fit the cgroup's") && words.lines().count() == 1, "{words}");
}

/// Of each 2 MiB one page is touched, so each needs a page table: 31 MiB for 8,000. The kernel does
/// not say that. It ends the program by a SIGSEGV, if it may not kill it.
#[test]
fn page_tables_that_do_not_fit_are_told_in_one_line() {
    if !can_swap() {
        return;
    }
    for options in [&["--kernel"][..], &["--backend", "swap", "--policy", "clock"], &["--backend", "swap"]] {
        let mut command = run_as_is(&[&["--memory", "16MiB"], options].concat());
        let output = output(command.arg("--").arg(program("sparse")).args(["8000", "512", "1"]));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {message}");
        let tables =
            message.split(" MiB page tables and the like").next().and_then(|words| words.rsplit(' ').next());
        let tables: u64 = tables.and_then(|number| number.parse().ok()).unwrap_or_default();
        assert!(tables >= 16 && message.contains("give it more with --memory"), "{options:?}: {message}");
        assert_eq!(
            message.lines().filter(|line| line.starts_with("sweephand: ")).count(),
            1,
            "{options:?}: {message}"
        );
    }
}

#[test]
fn two_runs_at_a_time_say_so() {
    if !can_swap() {
        return;
    }
    let mut first = run_as_is(&["--kernel", "--memory", "16MiB"]);
    let first = spawn(first.args(["--", "sleep", "1000"]).stdout(Stdio::null()).stderr(Stdio::null()));
    let areas = || fs::read_to_string("/proc/swaps").unwrap_or_default();
    let name = format!("sweephand-{}-", first.id());
    let began = Instant::now();
    while !areas().contains(&name) {
        assert!(began.elapsed() < PATIENCE, "the first run has no swap file");
        sleep(Duration::from_millis(5));
    }
    let mut second = run_as_is(&["--kernel", "--memory", "16MiB"]);
    // `live::output` leaves the line out.
    let said = second.args(["--", "cat", "/proc/swaps"]).output().expect("sweephand");
    let message = text(&said.stderr);
    // It names one of them, which may be of another test.
    assert!(message.contains("another run has a swap file, too (/"), "{message}");
    let list = text(&said.stdout);
    // Not the last line: an area takes the place of one that is gone.
    let priority = |line: &str| line.split_whitespace().last()?.parse::<i32>().ok();
    let firsts = list.lines().find(|line| line.contains(&name)).and_then(priority);
    let highest = list.lines().filter(|line| line.contains("/sweephand-")).filter_map(priority).max();
    assert!(firsts.is_some() && highest > firsts, "{list}");
    drop(first);
}

/// `sweephand compare` with options, of a command.
fn compare(options: &[&str], command: &[&str]) -> Output {
    let mut compare = sweephand();
    compare.args(["compare", "--swap"]).arg(workshop()).args(options).arg("--").args(command);
    output(&mut compare)
}

#[test]
fn a_comparison_has_every_variant_in_every_round() {
    if !can_swap() || !can_page() {
        return;
    }
    let churn = program("churn");
    let churn = [churn.to_str().unwrap(), "24", "2", "1"];
    let options = ["--memory", "16MiB,64MiB", "--policy", "clock,fifo", "--rounds", "2", "--format", "csv"];
    let result = compare(&options, &churn);
    assert!(result.status.success(), "{}", text(&result.stderr));
    let csv = text(&result.stdout);
    let columns = "policy,memory_limit_bytes,round,wall_ns,user_ns,sys_ns,faults,zero_fill_faults,refaults,evictions,\
                   pages_read,pages_written,peak_resident_pages,hand_steps,exit_status,cgroup_failcnt,\
                   cgroup_limit_bytes,output,failure";
    assert_eq!(csv.lines().next().unwrap(), columns);
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let mut expected = Vec::new();
    let variants = [("16777216", "kernel"), ("16777216", "clock"), ("16777216", "fifo")];
    let larger = variants.map(|(_, policy)| ("67108864", policy));
    for (memory, policy) in [("", "native")].into_iter().chain(variants).chain(larger) {
        expected.extend(["0", "1"].map(|round| [policy, memory, round]));
    }
    assert_eq!(rows.iter().map(|row| [row[0], row[1], row[2]]).collect::<Vec<_>>(), expected);
    for row in &rows {
        assert_eq!((row[14], row[17]), ("0", rows[0][17]), "{row:?}");
        let short_of_memory = row[8].parse::<u64>().is_ok_and(|refaults| refaults > 0);
        assert_eq!(short_of_memory, row[1] == "16777216", "{row:?}");
    }
}

#[test]
fn a_comparison_is_a_table_and_exported_to_markdown() {
    if !can_swap() || !can_page() {
        return;
    }
    let churn = program("churn");
    let churn = [churn.to_str().unwrap(), "24", "2", "1"];
    let markdown = workshop().join("comparison.md");
    let words = markdown.to_str().unwrap();
    let table = compare(
        &[
            "--memory",
            "64MiB",
            "--policy",
            "clock",
            "--rounds",
            "1",
            "--warmup",
            "1",
            "--export-markdown",
            words,
        ],
        &churn,
    );
    assert!(table.status.success(), "{}", text(&table.stderr));
    let rows = read_text(&markdown);
    fs::remove_file(&markdown).unwrap();
    assert!(rows.starts_with("|  | memory | seconds |") && rows.contains("\n| native | all |"), "{rows}");
    assert_eq!(rows.lines().count(), 2 + 3, "{rows}");
    let table = compare(&["--memory", "16MiB", "--policy", "clock", "--rounds", "1"], &churn);
    let table = text(&table.stdout);
    assert!(table.contains("to kernel") && table.contains("20.2 MiB for 16.0 MiB"), "{table}");
}

#[test]
fn a_program_that_does_not_print_the_same_is_a_finding() {
    if !can_swap() || !can_page() {
        return;
    }
    let json = compare(
        &["--memory", "16MiB", "--policy", "clock", "--rounds", "1", "--format", "json"],
        &["sh", "-c", "echo $$; exit 3"],
    );
    assert_eq!(json.status.code(), Some(1));
    assert!(text(&json.stderr).contains("did not always do the same"), "{}", text(&json.stderr));
    if let Some(Err(error)) =
        keeps_to("compare.json", &text(&json.stdout), tempfile::tempdir().unwrap().path())
    {
        panic!("{error}: {}", text(&json.stdout));
    }
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["sweephand"]["memory"], "16MiB");
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    assert_eq!(json["runs"][1]["exit_status"], 3);
}

/// The same of CLOCK in 32 MiB.
fn compare_clock(options: &[&str], command: &[&str]) -> Output {
    compare(&[&["--memory", "32MiB", "--policy", "clock"], options].concat(), command)
}

/// Rows of a comparison: policy, exit status and failure.
fn outcomes(csv: &str) -> Vec<[String; 3]> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader
        .records()
        .map(Result::unwrap)
        .map(|row| [&row[0], &row[14], &row[18]].map(str::to_string))
        .collect()
}

#[test]
fn a_comparison_of_a_program_that_fails_says_so() {
    if !can_swap() || !can_page() {
        return;
    }
    // It crashes: no times, no ratio.
    let crash = ["sh", "-c", "kill -SEGV $$"];
    let table = compare_clock(&["--rounds", "2"], &crash);
    assert_eq!(table.status.code(), Some(1), "{}", text(&table.stderr));
    let (shown, notes) = (text(&table.stdout), text(&table.stderr));
    assert_eq!(shown.matches("2 of 2").count(), 3, "{shown}");
    assert!(!shown.contains("1.00"), "no ratio: {shown}");
    let expected = "note: Failed: native, 2 times in 2 rounds, first in round 1: was ended by signal 11.";
    assert!(notes.contains(expected), "{notes}");
    let csv = compare_clock(&["--rounds", "1", "--format", "csv"], &crash);
    assert_eq!(csv.status.code(), Some(1));
    let expected = ["native", "kernel", "clock"].map(|policy| [policy, "139", "was ended by signal 11"]);
    assert_eq!(outcomes(&text(&csv.stdout)), expected);

    // It ends with a status of its own every time: its times can be compared, and that is said.
    let fails = compare_clock(&["--rounds", "1"], &["sh", "-c", "exit 3"]);
    assert_eq!(fails.status.code(), Some(1));
    assert!(
        text(&fails.stderr).contains("ends with exit status 3 even with all memory"),
        "{}",
        text(&fails.stderr)
    );
    assert!(!text(&fails.stdout).contains("failed") && text(&fails.stdout).contains("\nOne round. "));

    // It fails only where memory is short: the preload library tells the pager's runs apart.
    let script = "test -z \"$LD_PRELOAD\" || exit 7";
    let csv = compare_clock(&["--rounds", "2", "--format", "csv"], &["sh", "-c", script]);
    assert_eq!(csv.status.code(), Some(1));
    let expected = [("native", "0", ""), ("kernel", "0", ""), ("clock", "7", "exit status 7")];
    let expected = expected.map(|(policy, status, failure)| [policy, status, failure]);
    assert_eq!(
        outcomes(&text(&csv.stdout)),
        [expected[0], expected[0], expected[1], expected[1], expected[2], expected[2]]
    );
}

/// Locked memory goes to no swap, so the kernel ends the program in its cgroup; what else was
/// measured is kept.
#[test]
fn a_comparison_keeps_what_was_measured_when_a_run_is_ended() {
    if !can_swap() || !can_page() {
        return;
    }
    let script = "import ctypes, mmap\nlibc = ctypes.CDLL(None)\nlibc.mlockall(3)\nx = bytearray(b'1') * (200 << 20)\nprint(len(x))";
    let json = compare_clock(&["--rounds", "1", "--format", "json"], &["python3", "-c", script]);
    assert_eq!(json.status.code(), Some(1), "{}", text(&json.stderr));
    let document = text(&json.stdout);
    if let Some(Err(error)) = keeps_to("compare.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {document}");
    }
    let runs: serde_json::Value = serde_json::from_str(&document).unwrap();
    let runs = runs["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(runs[0]["wall_ns"].as_u64() > Some(0) && runs[0]["failure"].is_null(), "{document}");
    assert!(runs[1]["failure"].as_str().unwrap().contains("did not fit the cgroup's"), "{document}");
    assert!(runs[1]["wall_ns"].is_null() && runs[1]["exit_status"].is_null(), "{document}");
    assert!(text(&json.stderr).contains("note: Failed: kernel, 32.0 MiB: "), "{}", text(&json.stderr));
}

/// Ctrl-C ends a comparison, and what was measured until then is shown.
#[test]
fn a_comparison_that_is_interrupted_shows_what_it_has() {
    if !can_swap() || !can_page() {
        return;
    }
    let begun = workshop().join(format!("begun.{}", std::process::id()));
    let script = format!("if [ -e {0} ]; then exec sleep 1000; fi; touch {0}", begun.display());
    let mut command = sweephand();
    command.args(["compare", "--memory", "32MiB", "--policy", "clock", "--format", "csv", "--swap"]);
    command.arg(workshop()).args(["--", "sh", "-c", &script]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sweephand");
    let start = Instant::now();
    while !program_of(child.id())
        .iter()
        .any(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n"))
    {
        assert!(start.elapsed() < PATIENCE, "the second run does not begin");
        sleep(Duration::from_millis(5));
    }
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    fs::remove_file(begun).unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", text(&output.stderr));
    assert_eq!(outcomes(&text(&output.stdout)), [["native", "0", ""]]);
}

#[test]
fn what_cannot_be_compared_is_told_in_one_line() {
    let refuse = |arguments: &[&str], expected: &str| {
        let output = output(sweephand().args(arguments).stdin(Stdio::null()));
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains(expected) && words.lines().count() == 1, "{arguments:?}: {words}");
    };
    refuse(&["compare", "--memory", "9999999999999p", "--", "true"], "4294967295p is the most there is");
    refuse(&["compare", "--memory", "25%", "--", "true"], "write bytes as in 64MiB or pages as in 16384p");
    refuse(&["compare", "--memory", "16MiB", "--policy", "lur", "--", "true"], "there is no such policy");
    if !can_swap() {
        return;
    }
    refuse(
        &["compare", "--memory", "16MiB", "--policy", "lru", "--", "true"],
        "policy 'lru': needs every reference",
    );
    refuse(&["compare", "--memory", "16MiB", "--", "/no/such/program"], "there is no such program");
    refuse(&["run", "--kernel", "--memory", "1MiB", "--", "true"], "give it 4.0 MiB at least");
    refuse(&["run", "--kernel", "--memory", "16MiB", "--", "/etc/passwd"], "is not an executable file");
    refuse(
        &["run", "--kernel", "--memory", "16MiB", "--swap", "/dev/shm", "--", "true"],
        "cannot hold a swap file",
    );
}

/// As another user: no cgroup, so the pager does without and says why, and the others say that they
/// cannot.
#[test]
fn without_root_the_kernel_refuses_and_the_pager_runs_without_a_cgroup() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "changing the user");
    }
    // Where that user can get at it, and nobody else.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(directory.path(), Some(65534), Some(65534)).unwrap();
    let copy = directory.path().join("sweephand");
    fs::copy(SWEEPHAND, &copy).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = command(&copy);
        command.args(arguments).current_dir(directory.path()).uid(65534).gid(65534).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", directory.path().join("cache"));
        output(&mut command)
    };
    for arguments in [
        &["run", "--kernel", "--memory", "16MiB", "--", "true"][..],
        &["compare", "--memory", "16MiB", "--", "true"],
    ] {
        let output = as_nobody(arguments);
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains("that is for root") && words.lines().count() == 1, "{arguments:?}: {words}");
    }
    let output =
        as_nobody(&["run", "--memory", "16MiB", "--swap", ".", "--stats", "stats.json", "--", "true"]);
    let words = text(&output.stderr);
    if !output.status.success() {
        assert!(words.contains("userfaultfd is not allowed here"), "{words}");
        return skip(Need::Machine, format_args!("nobody but root can page: {words}"));
    }
    let stats = fs::read(directory.path().join("stats.json")).unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
    assert!(stats["cgroup_failcnt"].is_null(), "{stats}");
    assert!(stats["cgroup_missing"].as_str().unwrap().contains("that is for root"), "{stats}");
}
