//! `sweephand run --backend swap`: the kernel pages, as a policy directs it from outside. Programs
//! of every kind in less memory than they want, with what they hold verified.
//!
//! The programs are in `crates/cli/tests/programs`: each checks every word that it reads, and
//! prints `right` at the end. Where the kernel cannot be directed (these tests want root, and a
//! file system for swap files) they say so, and check that the command says so too.

mod live;
mod schema;

use live::cases::*;
use live::engine::{self, Engine, RealProgram};
use live::*;
use schema::keeps_to;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sweephand_checks::{Need, read_text, skip, trying};

/// The user who is nobody else here.
const NOBODY: u32 = 65534;

/// `sweephand run --backend swap` with further options, and a policy that always chooses.
fn directed(options: &[&str]) -> Command {
    run(&with_policy(&[&["--backend", "swap"], options].concat(), &["--policy"]))
}

/// The policies that can direct the kernel.
fn policies() -> impl Iterator<Item = &'static str> {
    sweephand_pager::live_policies().filter(|&policy| policy != "wsclock")
}

/// Tries again if the kernel has ended a program or has refused it a fork: now and then it takes a
/// cgroup to be full while all that it could swap out is just being written.
fn unless_killed(mut attempt: impl FnMut() -> Output) -> Output {
    const REFUSED: [&str; 3] = ["the kernel ended it", "(errno 12)", "Cannot fork"];
    let mut output = attempt();
    for _ in 0..4 {
        let said = text(&output.stderr);
        if !REFUSED.iter().any(|words| said.contains(words)) {
            break;
        }
        output = attempt();
    }
    output
}

/// How a program under these options ended, and its counts.
fn run_counted(options: &[&str], program: &[&str]) -> (Output, Value) {
    let stats = workshop().join(format!("swap.{:?}.json", std::thread::current().id()));
    let mut command = directed(options);
    // Test programs try again when the kernel refuses them a process for a moment.
    command.env("FORKS_MAY_BE_REFUSED", "1").arg("--stats").arg(&stats).arg("--").args(program);
    let output = unless_killed(|| output(&mut command));
    let Ok(document) = fs::read_to_string(&stats) else {
        panic!("{command:?}: {}: {} {}", output.status, text(&output.stdout), text(&output.stderr));
    };
    if let Some(Err(error)) = keeps_to("run.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{command:?}: {error}: {document}");
    }
    fs::remove_file(stats).unwrap();
    (output, serde_json::from_str(&document).unwrap())
}

/// Runs a program and expects it to have found everything right, and the command to have been
/// silent. Returns its counts.
fn right_counts(options: &[&str], program: &[&str]) -> Value {
    let (output, counts) = run_counted(options, program);
    assert!(
        output.status.success() && text(&output.stdout) == "right" && text(&output.stderr).is_empty(),
        "{options:?} {program:?}: {}: {} {}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    expect_limit_kept(&counts);
    counts
}

fn expect_limit_kept(counts: &Value) {
    // Where the kernel can neither wait nor fail, it goes beyond the limit by a page or two.
    let most = count(counts, "cgroup_limit_bytes") + (64 << 10);
    assert!(count(counts, "cgroup_peak_bytes") <= most, "{counts}");
}

/// The same of a program that needs more memory than it has: the policy has chosen what went.
fn expect_directed(options: &[&str], program: &[&str]) -> Value {
    let counts = right_counts(options, program);
    assert!(count(&counts, "evictions") > 0, "{options:?} {program:?}: nobody directed: {counts}");
    counts
}

fn count(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("{name} in {counts}"))
}

/// The kernel pages, as a policy directs it.
struct Directed;

impl Engine for Directed {
    const NAME: &'static str = "directed";

    fn is_there() -> bool {
        can_direct()
    }

    fn run(options: &[&str]) -> Command {
        directed(options)
    }

    fn expect_right(options: &[&str], name: &str, arguments: &[&str]) {
        if !can_direct() {
            return;
        }
        let program = program(name);
        expect_directed(options, &[&[program.to_str().unwrap()], arguments].concat());
    }
}

fn expect_right(options: &[&str], name: &str, arguments: &[&str]) {
    Directed::expect_right(options, name, arguments);
}

fn expect_all_right(cases: &[Case]) {
    engine::expect_all_right::<Directed>(cases);
}

#[test]
fn contents_are_right_under_every_policy() {
    for policy in policies() {
        expect_right(&["--memory", "16MiB", "--policy", policy], "churn", &["32", "4", "1"]);
    }
}

/// Nobody has to name the backend for a program that can have no agent. Others have one if a policy
/// is named.
#[test]
fn a_program_that_can_have_no_agent_is_directed_by_default() {
    if !can_direct() {
        return;
    }
    let (fixed, ordinary) = (compiled("churn", &["-static"]), program("churn"));
    for (program, backend) in [(fixed, "swap"), (ordinary, "anon")] {
        let _input = trying(|| program.display().to_string());
        let stats = workshop().join("default.json");
        let mut command = run(&["--memory", "16MiB", "--policy", "clock-pro", "--stats"]);
        command.arg(&stats).arg("--").arg(&program).args(["24", "4", "2"]);
        let output = unless_killed(|| output(&mut command));
        assert!(output.status.success() && text(&output.stdout) == "right", "{}", text(&output.stderr));
        let counts: Value = serde_json::from_str(&read_text(&stats)).unwrap();
        assert_eq!(counts["backend"], backend);
        assert!(count(&counts, "evictions") > 0, "{counts}");
        let said = text(&output.stderr);
        assert_eq!(said.contains("is statically linked: the kernel pages it"), backend == "swap", "{said}");
        assert_eq!(said.lines().count(), usize::from(backend == "swap"), "{said}");
    }
}

/// The counts of a program that ends right and silently, if no policy is named.
fn counts_by_turns(options: &[&str], name: &str, arguments: &[&str]) -> Value {
    // Tests may run at the same time.
    let stats = workshop().join(format!("{name}{}{}.json", options.concat(), arguments.concat()));
    let mut command = run_as_is(options);
    command.arg("--stats").arg(&stats).arg("--").arg(program(name)).args(arguments);
    let output = unless_killed(|| output(&mut command));
    let said = text(&output.stderr);
    assert!(output.status.success() && text(&output.stdout) == "right" && said.is_empty(), "{said}");
    serde_json::from_str(&read_text(&stats)).unwrap()
}

/// Without a policy's name, the kernel begins, and the policy gets its turn where that promises
/// something.
#[test]
fn without_a_policy_the_kernel_and_the_default_policy_take_turns() {
    if !can_direct() {
        return;
    }
    let fits = counts_by_turns(&["--memory", "64MiB"], "churn", &["16", "4", "1"]);
    assert_eq!((&fits["backend"], &fits["policy"]), (&"swap".into(), &"clock-pro-strict".into()), "{fits}");
    assert_eq!(count(&fits, "directed_ns"), 0, "{fits}");
    expect_limit_kept(&fits);
    let short = counts_by_turns(&["--memory", "16MiB"], "churn", &["32", "4", "2"]);
    assert!(count(&short, "pages_read") > 0, "{short}");
    // What the policy gave up, it gave up in its turns.
    assert!(count(&short, "directed_ns") < count(&short, "wall_ns"), "{short}");
    assert!(count(&short, "directed_ns") > 0 || count(&short, "evictions") == 0, "{short}");
    expect_limit_kept(&short);
}

/// While the kernel chooses, pages are read ahead that come in the order of an earlier time, and
/// most of them are used. How many of them come before the program asks depends on how fast the
/// machine reads, so the program only has to wait for fewer pages.
#[test]
fn an_order_that_repeats_is_read_ahead() {
    if !can_direct() {
        return;
    }
    const PAGES: u64 = 32 << 8;
    const ROUNDS: u64 = 12;
    let counts = |prefetch: &str| {
        let options = ["--memory", "16MiB", "--prefetch", prefetch];
        counts_by_turns(&options, "rounds", &["32", &ROUNDS.to_string()])
    };
    let with = counts("128");
    assert!(count(&with, "unasked_pages") > PAGES, "{with}");
    assert!(count(&with, "unused_pages") < count(&with, "unasked_pages") / 2, "{with}");
    let without = counts("off");
    assert_eq!(count(&without, "unasked_pages"), 0, "{without}");
    assert!(count(&with, "major_faults") < count(&without, "major_faults"), "{with} {without}");
}

/// A loop over more memory than there is, which only touches its pages: there is no user time to
/// measure it by.
#[test]
fn a_loop_that_hardly_computes_gets_the_policy() {
    if !can_direct() {
        return;
    }
    let counts = counts_by_turns(&["--memory", "16MiB"], "rounds", &["32", "40", "touch"]);
    assert!(count(&counts, "store_read_ns") > 0, "{counts}");
    assert!(count(&counts, "directed_ns") > count(&counts, "wall_ns") / 8, "{counts}");
}

/// A program in half of its memory. Some of its pages go to a zram device, the others to the disk.
/// The device is gone afterwards, also if the command is killed. It is one test, so that the
/// devices are its own.
#[test]
fn compressed_memory_is_a_zram_device_that_goes_with_the_run() {
    if !can_direct() || !can_zram() {
        return;
    }
    let before = zram_devices();
    let compressed = ["--memory", "16MiB", "--compress", "25%"];
    for variant in
        [&["--kernel"][..], &["--backend", "swap"], &["--backend", "swap", "--policy", "clock-pro"]]
    {
        let _input = trying(|| format!("{variant:?}"));
        let counts = counts_by_turns(&[variant, &compressed].concat(), "pooled", &["32", "2", "1"]);
        for name in ["pool_puts", "pool_hits", "pool_whole_pages", "pages_written", "pages_read"] {
            assert!(count(&counts, name) > 0, "{name}: {counts}");
        }
        assert_eq!(count(&counts, "pool_limit_bytes"), 4 << 20, "{counts}");
        // It may hold twice that. Pages of other runs go to it, too, and may not become smaller.
        let peak_bytes = count(&counts, "peak_pool_bytes");
        assert!(peak_bytes > 3 << 20 && peak_bytes < 9 << 20, "{counts}");
        expect_limit_kept(&counts);
        assert_eq!(zram_devices(), before);
    }
    // As much as pays, whatever the disk.
    let auto = ["--memory", "16MiB", "--compress", "auto"];
    for variant in [&[][..], &["--backend", "swap", "--policy", "clock-pro"]] {
        let _input = trying(|| format!("{variant:?}, auto"));
        let counts = counts_by_turns(&[variant, &auto].concat(), "pooled", &["32", "2", "1"]);
        assert!(count(&counts, "pool_puts") > 0 && count(&counts, "pool_hits") > 0, "{counts}");
        expect_limit_kept(&counts);
        assert_eq!(zram_devices(), before);
    }
    let counts = counts_by_turns(&auto, "churn", &["32", "12", "1"]);
    assert!(count(&counts, "pool_changes") > 0, "it is switched off: {counts}");
    assert!(count(&counts, "pages_written") > 4 << 8, "what it held goes to the disk: {counts}");
    assert_eq!(zram_devices(), before);

    // Nothing compresses, and much is asked for: the device leaves a quarter.
    let script = "import os, hashlib; b = [os.urandom(4096) for _ in range(8192)]; \
                  [hashlib.md5(x).digest() for _ in range(2) for x in b]; print('right')";
    let mut command = run_as_is(&["--kernel", "--memory", "32MiB", "--compress", "70%"]);
    let output = unless_killed(|| self::output(command.args(["--", "python3", "-c", script])));
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("right".to_string(), String::new()));
    assert_eq!(zram_devices(), before);

    for variant in [&["--kernel"][..], &["--backend", "swap"]] {
        let _input = trying(|| format!("{variant:?}, killed"));
        let mut command = run_as_is(&[variant, &compressed].concat());
        command.arg("--").arg(program("churn")).args(["32", "1000", "1"]);
        let child = spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let is_filled = || {
            let mut new = zram_devices().into_iter().filter(|name| !before.contains(name));
            new.any(|name| {
                let taken = fs::read_to_string(format!("/sys/block/{name}/mm_stat")).unwrap_or_default();
                taken.split_whitespace().nth(2).and_then(|bytes| bytes.parse().ok()) > Some(1 << 20)
            })
        };
        wait_until("it pages to its device", is_filled);
        signal(child.id(), "KILL");
        wait_until("all is removed", || left_by(child.id()).is_empty() && zram_devices() == before);
    }
}

/// Without zram, and where devices may not be made: one line, and nothing is left.
#[test]
fn compressed_memory_without_zram_is_refused() {
    if !can_swap() {
        return;
    }
    for (size, expected) in
        [("80%", "12288 KiB at most"), ("auto", "--kernel does not go with --compress auto: ")]
    {
        refuse(&["--kernel", "--memory", "16MiB", "--compress", size, "--", "true"], expected);
    }
    if !can_zram() {
        return;
    }
    let (control, run) =
        ("/sys/class/zram-control", "\"$0\" run --kernel --memory 16MiB --compress 25% -- true");
    for (hidden, expected) in [
        (
            format!("mount -t tmpfs none {control}"),
            "the kernel has no zram, or has not loaded it (modprobe zram)",
        ),
        (
            format!("mount --bind {control} {control}; mount -o remount,bind,ro {control}"),
            "no zram device can be made here",
        ),
    ] {
        let script = format!("{hidden}; exec {run}");
        let output =
            output(command("unshare").args(["--mount", "sh", "-c", &script, SWEEPHAND]).stdin(Stdio::null()));
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.starts_with("sweephand: --compress: ") && words.contains(expected), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }
}

#[test]
fn contents_are_right_without_read_ahead_and_in_the_least_memory() {
    let options: [&[&str]; 4] = [
        &["--memory", "16MiB", "--policy", "clock", "--prefetch", "off"],
        &["--memory", "4MiB", "--policy", "clock-pro"],
        &["--memory", "1024p", "--policy", "lifo-plus", "--prefetch", "8"],
        &["--memory", "16MiB", "--policy", "clock", "--reference-bits", "hardware", "--io", "auto"],
    ];
    for options in options {
        expect_right(options, "churn", &["24", "4", "2"]);
    }
    expect_all_right(HUGE_PAGES);
}

#[test]
fn no_write_is_lost_and_threads_come_and_go() {
    expect_all_right(THREADS);
}

/// The director is told of no unmapping, and of no move.
#[test]
fn unmapped_dropped_moved_and_protected_memory_reads_as_without_a_pager() {
    expect_all_right(CHANGES);
    if !can_direct() {
        return;
    }
    // These may be over before anything has been chosen.
    for case in MOVES {
        let program = program(case.program);
        right_counts(&case.options(), &[&[program.to_str().unwrap()], case.arguments].concat());
    }
}

#[test]
fn parents_and_children_have_memory_of_their_own() {
    expect_all_right(FORKS);
    expect_all_right(FORK_LOCKS);
}

/// A guard stays where it is, and what was guarded reads as zeros.
#[test]
fn guards_survive_paging() {
    if !can_direct() {
        return;
    }
    for (policy, seed) in [("clock-pro", "1"), ("clock", "2"), ("lifo-plus", "3"), ("fifo", "4")] {
        let options = ["--memory", "8MiB", "--policy", policy];
        engine::expect_right_where_there_is::<Directed>(&options, "guards", &["12", seed]);
    }
}

/// What the kernel holds for others it takes care of itself.
#[test]
fn direct_io_and_pipes_see_memory_as_it_is() {
    let file = workshop().join("swap.direct.data");
    let file = file.to_str().unwrap();
    expect_right(&["--memory", "16MiB", "--policy", "clock"], "direct", &[file, "32", "1000"]);
    for way in ["vmsplice", "tee", "zerocopy", "direct"] {
        expect_right(&["--memory", "8MiB", "--policy", "clock"], "held", &[way, "12"]);
    }
}

#[test]
fn signals_and_exits_are_as_without_a_limit() {
    if !can_direct() {
        return;
    }
    expect_all_right(SIGNALS);
    // A program whose first thread ends goes on with its others.
    expect_all_right(ENDS);
    let ends = program("ends");
    let (output, _) = run_counted(&["--memory", "32MiB"], &[ends.to_str().unwrap(), "48", "last"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "right".to_string()));
}

#[test]
fn streams_and_status_are_the_programs_own() {
    engine::streams_and_status::<Directed>();
    if can_direct() {
        let (_, counts) = run_counted(&["--memory", "16MiB"], &["sh", "-c", "kill -SEGV $$"]);
        assert_eq!(count(&counts, "exit_status"), 128 + 11);
    }
}

/// The kernel asks itself for what is in the swap file: a core is complete, and as large as it
/// would be.
#[test]
fn a_program_that_crashes_leaves_the_core_that_it_would_leave() {
    if !can_direct() {
        return;
    }
    let pattern = read_text("/proc/sys/kernel/core_pattern");
    if pattern.starts_with('|') || pattern.contains('/') {
        return skip(Need::Machine, format_args!("core dumps go elsewhere: {pattern}"));
    }
    let program = program("crash");
    let folder = tempfile::tempdir_in(workshop()).unwrap();
    let script = format!(
        "ulimit -c unlimited && exec {SWEEPHAND} run --backend swap --swap {} --memory 8MiB -- {} 24",
        workshop().display(),
        program.display()
    );
    let output = output(command("sh").args(["-c", &script]).current_dir(folder.path()));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(128 + 6), String::new()));
    let core = fs::read_dir(folder.path()).unwrap().next().expect("there is a core").unwrap();
    let core = fs::read(core.path()).unwrap();
    // Each page has one letter, all letters by turns; a page of them may also be the library's.
    for letter in b'a'..=b'z' {
        let pages = core.chunks(4096).filter(|page| page.iter().all(|byte| *byte == letter)).count();
        assert!((24 * 256 / 26..24 * 256 / 26 + 4).contains(&pages), "{pages} pages of {}", letter as char);
    }
}

/// Programs that load no library, or bring their own idea of memory.
#[test]
fn programs_that_no_pager_could_be_loaded_into_run_as_others_do() {
    if !can_direct() {
        return;
    }
    let static_churn = compiled("churn", &["-static"]);
    let static_churn = static_churn.to_str().unwrap();
    for policy in ["clock", "clock-pro", "apr"] {
        expect_directed(&["--memory", "16MiB", "--policy", policy], &[static_churn, "32", "4", "1"]);
    }
    let nolibrary = compiled("nolibrary", &["-nostdlib", "-pie"]);
    right_counts(&["--memory", "16MiB"], &[nolibrary.to_str().unwrap()]);
    // Terabytes of addresses for its shadow.
    let sanitized = compiled("churn", &["-fsanitize=address"]);
    expect_directed(&["--memory", "24MiB"], &[sanitized.to_str().unwrap(), "32", "2", "1"]);
    // What needs another environment, and other rights.
    let script = format!("exec env -i {static_churn} 32 2 1");
    expect_directed(&["--memory", "16MiB"], &["sh", "-c", &script]);
}

/// Whoever begins it, it has the rights of another user. The kernel takes performance events off a
/// process that becomes such a program.
#[test]
fn a_setuid_program_and_a_setuid_child_are_directed_too() {
    if !can_direct() {
        return;
    }
    let setuid = compiled("churn", &["-DSETUID=swap"]);
    chown(&setuid, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    let setuid = setuid.to_str().unwrap();
    expect_directed(&["--memory", "16MiB"], &[setuid, "32", "8", "1"]);
    let script = format!("true; {setuid} 32 8 1; exit $?");
    let counts = expect_directed(&["--memory", "16MiB"], &["sh", "-c", &script]);
    assert!(count(&counts, "evictions") > 1000, "the kernel chose: {counts}");
}

#[test]
fn a_go_program_without_cgo_runs_in_less_memory() {
    if !can_direct() {
        return;
    }
    let go = ["go", "/usr/local/go/bin/go"].into_iter();
    let Some(go) = go.into_iter().find(|go| command(go).arg("version").output().is_ok()) else {
        return skip(Need::Language, "Go");
    };
    let churn = workshop().join("churn.go.bin");
    let mut build = command(go);
    build.args(["build", "-o"]).arg(&churn).arg(sources().join("churn.go"));
    build.env("CGO_ENABLED", "0").env("GOCACHE", workshop().join("go-cache")).env("GOFLAGS", "-mod=mod");
    let built = output(&mut build);
    assert!(built.status.success(), "{}", text(&built.stderr));
    for policy in ["clock", "clock-pro"] {
        expect_directed(&["--memory", "24MiB", "--policy", policy], &[churn.to_str().unwrap(), "32", "6"]);
    }
}

#[test]
fn a_jvm_runs_in_less_memory() {
    if !can_direct() {
        return;
    }
    if command("javac").arg("-version").output().is_err() || command("java").arg("-version").output().is_err()
    {
        return skip(Need::Language, "Java");
    }
    let mut build = command("javac");
    let built = output(build.arg("-d").arg(workshop()).arg(sources().join("Churn.java")));
    assert!(built.status.success(), "{}", text(&built.stderr));
    let workshop = workshop().to_str().unwrap();
    let java = ["java", "-XX:+UseSerialGC", "-Xms96m", "-Xmx96m", "-cp", workshop, "Churn", "48", "6"];
    expect_directed(&["--memory", "64MiB", "--policy", "clock-pro"], &java);
}

/// Two processes, each of which wants more than half, under one limit. Their pages compete.
#[test]
fn a_tree_of_processes_has_one_limit() {
    if !can_direct() {
        return;
    }
    let churn = program("churn");
    let static_churn = compiled("churn", &["-static"]);
    for policy in ["clock", "lifo-plus"] {
        let _input = trying(|| policy.into());
        let meeting = workshop().join(format!("meeting-{policy}"));
        let _ = fs::remove_file(&meeting);
        let script = format!(
            "{} 24 6 1 meet {meeting} & first=$!; {} 24 6 2 meet {meeting} & second=$!; \
             wait $first && wait $second",
            churn.display(),
            static_churn.display(),
            meeting = meeting.display()
        );
        let (output, counts) =
            run_counted(&["--memory", "32MiB", "--policy", policy], &["sh", "-c", &script]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{counts}");
        assert_eq!(text(&output.stdout), "right\nright");
        let limit = (32 << 20) + sweephand_pager::kernel_share(32 << 20);
        assert_eq!(count(&counts, "cgroup_limit_bytes"), limit);
        expect_limit_kept(&counts);
        // Half a limit would have been no limit for one of them.
        assert!(count(&counts, "cgroup_peak_bytes") > limit / 2, "{counts}");
        assert!(count(&counts, "evictions") > (48 << 20) / 4096 - limit / 4096, "{counts}");
    }
}

/// They come and go by the hundred while a large one is paged: each is forgotten when it has ended.
#[test]
fn a_thousand_short_processes_leave_nothing_with_the_director() {
    if !can_direct() {
        return;
    }
    let churn = program("churn");
    let script = format!(
        "{} 32 6 1 & large=$!; n=0; while [ $n -lt 1000 ]; do /bin/true; n=$((n+1)); done; \
         ls /proc/$PPID/fd | wc -l >&2; wait $large",
        churn.display()
    );
    let (output, counts) = run_counted(&["--memory", "16MiB"], &["sh", "-c", &script]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "right".to_string()), "{counts}");
    let open: usize = text(&output.stderr).parse().unwrap();
    assert!(open < 100, "{open} descriptors are open");
    assert!(count(&counts, "evictions") > 0, "{counts}");
}

#[test]
fn a_program_that_fits_is_left_to_the_kernel() {
    if !can_direct() {
        return;
    }
    let churn = program("churn");
    let counts = right_counts(&["--memory", "64MiB"], &[churn.to_str().unwrap(), "16", "4", "1"]);
    for name in
        ["zero_fill_faults", "refaults", "evictions", "overruled_pages", "unasked_pages", "hand_steps"]
    {
        assert_eq!(counts[name], 0, "{name} in {counts}");
    }
    assert_eq!(counts["cgroup_failcnt"], 0, "{counts}");
}

/// One run serves for all counts, because it takes seconds.
#[test]
fn counts_are_consistent_and_the_limit_holds() {
    if !can_direct() {
        return;
    }
    let churn = program("churn");
    let churn = [churn.to_str().unwrap(), "32", "4", "1"];
    // Pages that the kernel puts into the swap file of another run come back without a fault when
    // that run ends. So what came is compared with the faults in a run to which that did not
    // happen.
    let arrivals = |counts: &Value| count(counts, "zero_fill_faults") + count(counts, "refaults");
    let run = || expect_directed(&["--memory", "16MiB", "--policy", "CLOCK"], &churn);
    let mut counts = run();
    for _ in 0..7 {
        if arrivals(&counts) <= count(&counts, "faults") {
            break;
        }
        counts = run();
    }
    let count = |name| count(&counts, name);
    assert_eq!(
        ["policy", "backend", "reference_bits"].map(|name| counts[name].as_str().unwrap()),
        ["clock", "swap", "hardware"]
    );
    assert_eq!((count("exit_status"), count("memory_limit_bytes")), (0, 16 << 20));
    let budget = (16 << 20) + sweephand_pager::kernel_share(16 << 20);
    assert_eq!((count("budget_bytes"), count("cgroup_limit_bytes")), (budget, budget));
    let [first, back] = ["zero_fill_faults", "refaults"].map(count);
    // 8192 pages do not fit. Each that is gone has been there before, and what came back was gone.
    assert!((8192..10_000).contains(&first), "{counts}");
    assert!(back > 4096 && first + back <= count("faults"), "{counts}");
    let gone = count("evictions") + count("overruled_pages");
    assert!(gone <= first + back && back <= gone, "{counts}");
    assert!(count("evictions") > 4096, "{counts}");
    assert!(counts["overruled_pages"].is_u64(), "{counts}");
    assert!(count("unused_pages") <= count("unasked_pages"), "{counts}");
    assert!(count("peak_resident_pages") * 4096 <= budget, "{counts}");
    assert!(count("peak_resident_pages") * 4096 > budget / 2, "{counts}");
    // The director's own memory is part of the budget.
    assert!(count("peak_pager_pages") * 4096 < budget / 4, "{counts}");
    for name in [
        "peak_pager_pages",
        "pages_read",
        "pages_written",
        "hand_steps",
        "major_faults",
        "wall_ns",
        "user_ns",
        "sys_ns",
    ] {
        assert!(count(name) > 0, "{name} in {counts}");
    }
    for name in ["rescues", "refaults_in_flight", "io", "processes", "unpaged_programs"] {
        assert!(counts[name].is_null(), "{name} in {counts}");
    }
    // A policy that tells them apart knows mappings.
    let counts = expect_directed(&["--memory", "16MiB", "--policy", "apr"], &churn);
    assert!(self::count(&counts, "objects") > 0, "{counts}");
    let without = ["--memory", "16MiB", "--policy", "clock", "--prefetch", "off"];
    assert_eq!(self::count(&expect_directed(&without, &churn), "unasked_pages"), 0);
}

/// The environment, the descriptors and the libraries are those of a program that runs alone.
#[test]
fn directed_program_sees_nothing_of_the_run() {
    if !can_direct() {
        return;
    }
    let script = "env | grep -v '^_='; readlink /proc/$$/fd/* | grep -v 'pipe:\\|/dev/null'; \
                  awk '{print $6}' /proc/$$/maps | sort -u";
    let said = |command: &mut Command| text(&output(command.stdin(Stdio::null())).stdout);
    let alone = said(command("sh").args(["-c", script]));
    assert!(alone.contains("[stack]"), "{alone}");
    assert_eq!(said(&mut directed(&["--memory", "16MiB", "--", "sh", "-c", script])), alone);
}

/// Without it the kernel goes on by itself, as long as it finds memory. Then the program waits.
#[test]
fn a_director_that_stands_still_does_no_harm() {
    if !can_direct() {
        return;
    }
    let churn = program("churn");
    let attempt = || {
        let mut command = directed(&["--memory", "16MiB", "--"]);
        command.arg(&churn).args(["32", "40", "1"]);
        let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let start = Instant::now();
        while child.family().first().is_none_or(|&pid| swapped_kib(pid) == 0) {
            assert!(start.elapsed() < PATIENCE, "it does not begin to page");
            sleep(Duration::from_millis(5));
        }
        let program = child.family()[0];
        signal(child.id(), "STOP");
        let stopped = Instant::now();
        while is_alive(program) && stopped.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(20));
        }
        assert!(child.try_wait().unwrap().is_none());
        signal(child.id(), "CONT");
        wait(child)
    };
    let output = unless_killed(attempt);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "right".to_string()));
}

/// Memory of a process that is in a swap file.
fn swapped_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
}

/// A process beside the run is left alone.
#[test]
fn others_are_not_directed() {
    if !can_direct() {
        return;
    }
    let mut other = command(program("waits"));
    let mut other = spawn(other.arg("32").stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut said = [0; 5];
    other.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let churn = program("churn");
    let script = format!("{} 32 4 1; grep VmSwap /proc/{}/status >&2", churn.display(), other.id());
    let (output, counts) = run_counted(&["--memory", "16MiB"], &["sh", "-c", &script]);
    assert_eq!(text(&output.stdout), "right");
    assert!(count(&counts, "evictions") > 0, "{counts}");
    let words: Vec<String> = text(&output.stderr).split_whitespace().map(String::from).collect();
    assert_eq!(words, ["VmSwap:", "0", "kB"]);
    other.stdin.take().unwrap().write_all(b"on\n").unwrap();
    assert_eq!(text(&other.output().stdout), "right");
}

#[test]
fn real_programs_print_what_they_always_do() {
    if !can_direct() {
        return;
    }
    for program in [RealProgram::python(), RealProgram::gcc::<Directed>()] {
        program.expect_same_bytes::<Directed>();
    }
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let with = |options: &[&str], expected: &str| {
        let arguments = [&["--backend", "swap", "--memory", "16MiB"], options, &["--", "true"]].concat();
        refuse(&arguments, &format!("--backend swap does not go with {expected}"));
    };
    with(&["--io", "sync"], "--io");
    with(&["--read-delay", "8ms"], "--read-delay");
    with(&["--reference-bits", "software"], "--reference-bits software");
    with(&["--cgroup-limit", "none"], "--cgroup-limit");
    with(&["--cgroup-limit", "64MiB"], "--cgroup-limit");
    with(&["--kernel"], "--kernel");
    refuse(&["--backend", "swap", "--tasks", "none.toml"], "--backend swap does not go with --tasks");
}

/// A program that works on 48 MiB until there is such a file, without a limit so far.
fn start_unlimited(end: &Path) -> std::process::Child {
    let _ = fs::remove_file(end);
    let mut program = command(program("churn"));
    program.args(["48", "1", "1", "until"]).arg(end);
    program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("churn")
}

/// The command that limits a process.
fn attached(process: u32, stats: &Path) -> Command {
    let mut command = run(&["--memory", "24MiB", "--pid"]);
    command.arg(process.to_string()).arg("--stats").arg(stats);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The anonymous memory of a process that is resident, in KiB: none if the process has ended.
fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
}

/// The page faults of a process so far, those that read among them.
fn faults(process: u32) -> u64 {
    let stat = read_text(format!("/proc/{process}/stat"));
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split_whitespace().collect();
    fields[8].parse::<u64>().unwrap() + fields[10].parse::<u64>().unwrap()
}

fn no_swap_of(command: u32) {
    let swaps = read_text("/proc/swaps");
    assert!(!swaps.contains(&format!("sweephand-{command}-")), "{swaps}");
}

/// The memory of a running process is limited until it ends, or until the command does, by an
/// interrupt or for good. The process never notices.
#[test]
fn a_running_process_is_limited_and_let_go() {
    if !can_direct() {
        return;
    }
    for signal in [None, Some(libc::SIGINT), Some(libc::SIGKILL)] {
        let _input = trying(|| format!("signal {signal:?}"));
        let (stats, end) = (workshop().join("attached.json"), workshop().join("attached.end"));
        let _ = fs::remove_file(&stats);
        let program = start_unlimited(&end);
        let process = program.id();
        wait_until("the memory is filled", || resident_kib(process) > 48 << 10);
        let command = attached(process, &stats).spawn().expect("sweephand");
        let number = command.id();
        wait_until("the memory is limited", || resident_kib(process) < 26 << 10);
        // The director takes in what happens turn by turn, and its first turn is a long one. So
        // the program must go on for many turns.
        let before = faults(process);
        wait_until("there are faults", || faults(process) > before + 20_000);
        if let Some(signal) = signal {
            // SAFETY: no memory is concerned.
            assert_eq!(unsafe { libc::kill(number as i32, signal) }, 0);
            wait_until("all of it comes back", || resident_kib(process) > 48 << 10);
        }
        fs::write(&end, "").unwrap();
        let command = command.wait_with_output().unwrap();
        let program = program.wait_with_output().unwrap();
        assert!(program.status.success() && text(&program.stdout) == "right", "{signal:?}: {program:?}");
        if signal == Some(libc::SIGKILL) {
            // Another process removes the swap file.
            let swaps = || read_text("/proc/swaps");
            wait_until("the swap file is removed", || !swaps().contains(&format!("sweephand-{number}-")));
            continue;
        }
        let said = without_other_runs(command.stderr.clone());
        assert!(command.status.success() && said.is_empty(), "{signal:?}: {command:?}");
        no_swap_of(number);
        let document = read_text(&stats);
        if let Some(Err(error)) = keeps_to("run.json", &document, tempfile::tempdir().unwrap().path()) {
            panic!("{error}: {document}");
        }
        let counts: Value = serde_json::from_str(&document).unwrap();
        assert!(count(&counts, "evictions") > 5_000 && count(&counts, "refaults") > 100, "{counts}");
        assert_eq!((&counts["backend"], &counts["policy"]), (&"swap".into(), &"clock-pro-strict".into()));
    }
}

/// So are the processes that it has started, and those that it starts later.
#[test]
fn children_of_a_running_process_are_limited_with_it() {
    if !can_direct() {
        return;
    }
    let churn = program("churn");
    let end = workshop().join("attached-tree.end");
    let _ = fs::remove_file(&end);
    let script = format!(
        "{0} 48 1 1 until {1} & {0} 48 1 2 until {1}; {0} 48 10 3; wait",
        churn.display(),
        end.display()
    );
    let mut shell = command("sh");
    let shell = shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("sh");
    let children = format!("/proc/{0}/task/{0}/children", shell.id());
    let resident = || -> u64 {
        let children = read_text(&children);
        children.split_whitespace().map(|process| resident_kib(process.parse().unwrap())).sum()
    };
    wait_until("both have filled their memory", || resident() > 96 << 10);
    let stats = workshop().join("attached-tree.json");
    let command = attached(shell.id(), &stats).spawn().expect("sweephand");
    wait_until("both are limited together", || resident() < 26 << 10);
    fs::write(&end, "").unwrap();
    let output = command.wait_with_output().unwrap();
    let shell = shell.wait_with_output().unwrap();
    let said = without_other_runs(output.stderr.clone());
    assert!(output.status.success() && said.is_empty(), "{output:?}");
    assert_eq!(text(&shell.stdout).matches("right").count(), 3, "{shell:?}");
    let counts: Value = serde_json::from_str(&read_text(&stats)).unwrap();
    // Three quarters of what the first two have, then half of the third's.
    assert!(count(&counts, "evictions") > 18_000 + 5_000, "{counts}");
}

#[test]
fn what_cannot_be_attached_to_is_told_in_one_line() {
    let pid = std::process::id().to_string();
    refuse(&["--pid", &pid, "--memory", "16MiB", "--policy", "wsclock"], "wsclock");
    if !can_direct() {
        return;
    }
    refuse(&["--pid", "4194305", "--memory", "16MiB"], "process 4194305: there is none");
    // A thread of the kernel.
    refuse(&["--pid", "2", "--memory", "16MiB"], "process 2: there is none, or it has no memory");
    refuse(&["--pid", &pid, "--memory", "1MiB"], "give it 4.0 MiB at least");
}

#[test]
fn what_cannot_be_directed_is_told_in_one_line() {
    refuse(&["--backend", "swap", "--memory", "16MiB", "--policy", "lru", "--", "true"], "policy 'lru'");
    if !can_direct() {
        return;
    }
    refuse(
        &["--backend", "swap", "--memory", "16MiB", "--policy", "wsclock", "--", "true"],
        "--backend swap: policy 'wsclock' goes by the program's own time",
    );
    let refuse = |memory: &str, swap: &Path, program: &str, expected: &str| {
        let swap = swap.to_str().unwrap();
        let options = ["--backend", "swap", "--memory", memory, "--swap", swap, "--", program];
        self::refuse(&options, expected);
    };
    refuse("1MiB", workshop(), "true", "give it 4.0 MiB at least");
    refuse("16MiB", workshop(), "/no/such/program", "/no/such/program: there is no such program");
    refuse("16MiB", workshop(), "/etc/passwd", "/etc/passwd: is not an executable file");
    refuse("16MiB", Path::new("/dev/shm"), "true", "name another place with --swap");
    // Locked memory goes to no swap.
    let script = "import ctypes, mmap\nlibc = ctypes.CDLL(None)\nlibc.mlockall(3)\nx = bytearray(b'1') * (200 << 20)\nprint(len(x))";
    let output = output(directed(&["--memory", "32MiB", "--", "python3", "-c"]).arg(script));
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{words}");
    assert!(words.contains("did not fit the cgroup's") && words.lines().count() == 1, "{words}");
}

#[test]
fn run_without_root_is_refused_with_the_reason() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "changing the user");
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy: PathBuf = directory.path().join("sweephand");
    fs::copy(SWEEPHAND, &copy).unwrap();
    let mut command = command(&copy);
    command.args(["run", "--backend", "swap", "--memory", "16MiB", "--", "true"]);
    command.current_dir("/").uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
    let output = output(&mut command);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("that is for root") && words.lines().count() == 1, "{words}");
}
