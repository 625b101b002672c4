//! `sweephand run --tasks`: real programs under one limit and one policy, with what they hold
//! verified.
//!
//! Where userfaultfd is not allowed (these tests want root) they say so.

mod live;
mod schema;

use live::{
    PATIENCE, Running, can_page, command, descendants, is_alive, left_by, output, signal, spawn, sweephand,
    text, wait, workshop,
};
use schema::keeps_to;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sweephand_checks::{Need, read_text, repeated, skip, trying};

/// One of the pager's test programs, compiled, as a file of tasks names it.
fn program(name: &str) -> String {
    live::program(name).to_str().unwrap().to_string()
}

/// `sweephand run --tasks` of a file with this text, counts going to another beside it.
fn run(name: &str, text: &str, options: &[&str]) -> Command {
    let directory = workshop().join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("tasks.toml"), text).unwrap();
    let mut command = sweephand();
    command.args(["run", "--swap"]).arg(workshop()).arg("--tasks").arg(directory.join("tasks.toml"));
    command.arg("--stats").arg(directory.join("stats.json")).args(options).stdin(Stdio::null());
    command
}

/// The counts of a run, which keep to their schema.
fn counts(name: &str) -> serde_json::Value {
    let document = read_text(workshop().join(name).join("stats.json"));
    if let Some(Err(error)) = keeps_to("run-tasks.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {document}");
    }
    serde_json::from_str(&document).unwrap()
}

fn number(value: &serde_json::Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn start(command: &mut Command) -> Running {
    spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Waits until a command has `count` descendants of a name.
fn await_descendants(pid: u32, name: &str, count: usize) -> Vec<u32> {
    let start = Instant::now();
    loop {
        let is_it =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
        let found: Vec<u32> = descendants(pid).into_iter().filter(is_it).collect();
        if found.len() >= count {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{name} is not started");
        sleep(Duration::from_millis(2));
    }
}

/// What the kernel says of a run's tasks and pagers together: that they never asked for more than
/// they may have. Returns that.
fn expect_within_the_cgroup(counts: &serde_json::Value) -> Option<u64> {
    if !counts["cgroup_missing"].is_null() {
        skip(Need::Swap, &counts["cgroup_missing"]);
        assert!(counts["cgroup_failcnt"].is_null(), "{counts}");
        return None;
    }
    assert_eq!((number(counts, "cgroup_failcnt"), number(counts, "cgroup_oom_kills")), (0, 0), "{counts}");
    let limit_bytes = number(counts, "cgroup_limit_bytes");
    assert!(number(counts, "cgroup_peak_bytes") <= limit_bytes, "{counts}");
    Some(limit_bytes)
}

/// Nothing is left of a command that has ended.
fn expect_nothing_left(command: u32) {
    let start = Instant::now();
    while !left_by(command).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "left: {:?}", left_by(command));
        sleep(Duration::from_millis(5));
    }
}

/// Tasks that go over more memory than there is, a few together, and check what they find.
fn churns(count: usize, mib: usize, rounds: usize, limit: &str) -> String {
    let churn = program("churn");
    format!(
        "memory = '{limit}'\n[[task]]\ncommand = ['{churn}', '{mib}', '{rounds}', '{{n}}']\nstdout = 'out.{{n}}'\ncount = {count}\n"
    )
}

fn expect_right(name: &str, command: &mut Command, tasks: usize) -> serde_json::Value {
    let child = start(command);
    let id = child.id();
    let output = wait(child);
    assert!(output.status.success(), "{command:?}: {}: {}", output.status, text(&output.stderr));
    assert_eq!(left_by(id), [""; 0], "the command itself waits for that");
    for task in 1..=tasks {
        let path = workshop().join(name).join(format!("out.{task}"));
        assert_eq!(read_text(path), "right\n", "{command:?}: task {task}");
    }
    let counts = counts(name);
    assert!(number(&counts, "peak_lent_pages") * 4096 <= number(&counts, "memory_limit_bytes"), "{counts}");
    if let Some(limit_bytes) = expect_within_the_cgroup(&counts) {
        // What they are given, and what each process has on top of it.
        let memory_bytes = number(&counts, "memory_limit_bytes");
        let share_bytes = sweephand_pager::kernel_share(memory_bytes);
        let bounds = memory_bytes + share_bytes..=memory_bytes + tasks as u64 * share_bytes;
        assert!(bounds.contains(&limit_bytes), "{bounds:?}: {counts}");
    }
    counts
}

#[test]
fn contents_are_right_under_every_kind_of_policy_with_and_without_load_control() {
    if !can_page() {
        return;
    }
    let text = churns(3, 12, 3, "20MiB");
    for (policy, options) in [
        ("wsclock", &[][..]),
        ("wsclock", &["--load-control", "none"]),
        ("wsclock:clean-list=on,lt-rt=off", &[]),
        ("ws:lr=sampled", &[]),
        ("pff", &[]),
        ("global-clock", &[]),
        ("global-clock", &["--load-control", "none", "--io", "sync", "--prefetch", "off"]),
        ("clock-pro", &["--load-control", "none"]),
        ("lifo", &["--load-control", "none"]),
    ] {
        let _input = trying(|| format!("{policy} {options:?}"));
        let counts = expect_right(
            "kinds",
            &mut run("kinds", &text, &[&["--policy", policy][..], options].concat()),
            3,
        );
        assert_eq!(counts["tasks"].as_array().unwrap().len(), 3);
        if options.contains(&"none") {
            assert_eq!(
                (number(&counts, "most_active_tasks"), number(&counts, "deactivations")),
                (3, 0),
                "{counts}"
            );
            assert!(number(&counts, "refaults") > 0, "three times 12 MiB do not fit: {counts}");
        }
    }
}

/// What the paper is about: tasks whose working sets do not fit together are not active together.
#[test]
fn tasks_give_way_when_their_working_sets_do_not_fit() {
    if !can_page() {
        return;
    }
    let file = churns(4, 16, 200, "26MiB");
    let counts = expect_right("give-way", &mut run("give-way", &file, &[]), 4);
    assert!(number(&counts, "deactivations") > 0, "{counts}");
    assert_eq!(number(&counts, "most_loading_tasks"), 1, "LT/RT: {counts}");
    assert!(counts["mean_active_tasks"].as_f64().unwrap() < 3.0, "{counts}");
    let of_tasks: u64 =
        counts["tasks"].as_array().unwrap().iter().map(|task| number(task, "deactivations")).sum();
    assert_eq!(of_tasks, number(&counts, "deactivations"));
    let counts = expect_right("serial", &mut run("serial", &file, &["--load-control", "serial"]), 4);
    assert_eq!((number(&counts, "most_active_tasks"), number(&counts, "deactivations")), (1, 0), "{counts}");
}

#[test]
fn a_lone_task_larger_than_memory_ends_by_forced_replacement() {
    if !can_page() {
        return;
    }
    let counts = expect_right("lone", &mut run("lone", &churns(1, 24, 8, "12MiB"), &[]), 1);
    assert!(number(&counts, "forced_replacements") > 0 && number(&counts, "refaults") > 0, "{counts}");
    assert_eq!(number(&counts, "deactivations"), 0);
}

/// Lines of a name and a time; how often the name changes along time.
fn changes(texts: &[String]) -> usize {
    let mut stamps: Vec<(u64, &str)> = texts
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| line.split_once(' ').map(|(name, time)| (time.parse().unwrap(), name)).unwrap())
        .collect();
    stamps.sort_unstable();
    stamps.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()
}

/// Tasks that never fault stand still all the same while others have their slices.
#[test]
fn a_task_that_does_not_fault_is_held() {
    if !can_page() {
        return;
    }
    let spin = program("spin");
    let file = format!(
        "memory = '32MiB'\n[load_control]\nmost_active = 1\nslice_ms = 400\n[[task]]\ncommand = ['{spin}', '2000', '{{n}}']\n\
         stdout = 'out.{{n}}'\ncount = 2\n"
    );
    let output = output(&mut run("no-faults", &file, &[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let texts = [1, 2].map(|task| read_text(workshop().join("no-faults").join(format!("out.{task}"))));
    let counts = counts("no-faults");
    let ends: u64 = counts["tasks"].as_array().unwrap().iter().map(|task| number(task, "slice_ends")).sum();
    assert!(ends >= 4, "{counts}");
    // At each end of a slice the next begins while the other comes to its stop.
    let changes = changes(&texts);
    assert!(changes as u64 <= 12 * (ends + 1), "{changes} changes at {ends} ends of slices");
    assert_eq!(number(&counts, "most_active_tasks"), 1);
}

/// One is stopped by hand and one killed, while they have the frames that the others need.
#[test]
fn others_go_on_without_a_task_that_is_stopped_or_dies() {
    if !can_page() {
        return;
    }
    for (name, options) in
        [("stopped", &[][..]), ("stopped-clock", &["--policy", "global-clock", "--load-control", "none"])]
    {
        let churn = program("churn");
        let file = format!(
            "memory = '24MiB'\n[[task]]\ncommand = ['{churn}', '12', '100000', '1']\n[[task]]\ncommand = ['{churn}', '12', \
             '30', '2']\nstdout = 'out.1'\n[[task]]\ncommand = ['{churn}', '12', '30', '3']\nstdout = 'out.2'\n"
        );
        let child = start(&mut run(name, &file, options));
        let first = await_descendants(child.id(), "churn", 1)[0];
        sleep(Duration::from_millis(300));
        signal(first, "STOP");
        let right = |task: u32| {
            fs::read_to_string(workshop().join(name).join(format!("out.{task}")))
                .is_ok_and(|text| text == "right\n")
        };
        let start = Instant::now();
        while !(right(1) && right(2)) {
            if start.elapsed() > PATIENCE {
                signal(first, "KILL");
                signal(child.id(), "KILL");
                panic!("{name}: the others wait for a task that is stopped");
            }
            sleep(Duration::from_millis(10));
        }
        assert!(is_alive(first), "it has not been waited for");
        signal(first, "KILL");
        let id = child.id();
        let output = wait(child);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stderr), "sweephand: task 'churn': exit status 137");
        assert_eq!(left_by(id), [""; 0]);
        let counts = counts(name);
        assert_eq!(counts["tasks"][0]["exit_status"], 137);
        expect_within_the_cgroup(&counts);
    }
}

#[test]
fn when_the_command_is_killed_all_tasks_die_with_a_line() {
    if !can_page() {
        return;
    }
    let churn = program("churn");
    let file = format!(
        "memory = '24MiB'\n[[task]]\ncommand = ['{churn}', '16', '100000', '{{n}}']\nstdout = 'out.{{n}}'\nstderr = \
         'err.{{n}}'\ncount = 3\n"
    );
    for options in [&[][..], &["--load-control", "none"]] {
        let _input = trying(|| format!("{options:?}"));
        let mut child = start(&mut run("orphans", &file, options));
        let wanted = if options.is_empty() { 2 } else { 3 };
        await_descendants(child.id(), "churn", wanted);
        sleep(Duration::from_millis(700));
        let family = await_descendants(child.id(), "churn", wanted);
        signal(child.id(), "KILL");
        child.wait().unwrap();
        let start = Instant::now();
        while family.iter().any(|&pid| is_alive(pid)) {
            assert!(start.elapsed() < Duration::from_secs(60), "{family:?} go on");
            sleep(Duration::from_millis(5));
        }
        let said = (1..=3).filter(|task| {
            let file = |kind| read_text(workshop().join("orphans").join(format!("{kind}.{task}")));
            assert_eq!(file("out"), "", "no wrong byte was read");
            let said = file("err");
            assert!(
                said.is_empty()
                    || said == "sweephand: sweephand run is gone, and its program was ended with it\n",
                "{said}"
            );
            !said.is_empty()
        });
        assert_eq!(said.count(), family.len(), "{family:?}");
        expect_nothing_left(child.id());
    }
}

#[test]
fn children_are_tasks_of_their_parents() {
    if !can_page() {
        return;
    }
    let (churn, forks) = (program("churn"), program("forks"));
    let file = format!(
        "memory = '40MiB'\n[[task]]\ncommand = ['sh', '-c', '{churn} 12 8 1 & {churn} 12 8 2; wait']\nstdout = 'out.1'\n[[task]]\n\
         command = ['{forks}', '16', '2', '2']\nstdout = 'out.2'\n"
    );
    for options in [&[][..], &["--policy", "global-clock", "--load-control", "none"]] {
        let _input = trying(|| format!("{options:?}"));
        let output = output(&mut run("children", &file, options));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = |task| read_text(workshop().join("children").join(format!("out.{task}")));
        assert_eq!((read(1).as_str(), read(2).as_str()), ("right\nright\n", "right\n"));
        let counts = counts("children");
        assert!(number(&counts["tasks"][0], "processes") >= 3);
        // Also where parents and children write to what they shared.
        expect_within_the_cgroup(&counts);
    }
}

/// Memory that nobody pages is in the cgroup as well: the kernel ends who takes too much of it, and
/// that is told.
#[test]
fn what_does_not_fit_the_cgroup_is_told_and_the_others_go_on() {
    if !can_page() {
        return;
    }
    let script = "import mmap; m = mmap.mmap(-1, 200 << 20); m.write(bytes(200 << 20))";
    let file = format!("{}[[task]]\ncommand = ['python3', '-c', '{script}']\n", churns(1, 16, 8, "24MiB"));
    let options = ["--policy", "global-clock", "--load-control", "none"];
    // While what was shared by a process just ended is being freed, the kernel may end another for
    // the same need: not every time.
    for attempt in 1.. {
        let output = output(&mut run("too-large", &file, &options));
        let counts = counts("too-large");
        if counts["cgroup_limit_bytes"].is_null() {
            skip(Need::Swap, &counts["cgroup_missing"]);
            return;
        }
        let killed = number(&counts, "cgroup_oom_kills");
        let (status, said) = (output.status.code(), text(&output.stderr));
        if killed == 2 && attempt < 3 {
            assert!(status == Some(2) && said.contains("the kernel ended 2 processes: "), "{said}");
            repeated("the kernel ended a second process for the same need");
            continue;
        }
        let expected = format!(
            "sweephand: task 'python3': exit status 137\nsweephand: the kernel ended a process: all memory of the tasks, with \
             page tables and files, did not fit the cgroup's {}; give them more with --memory",
            sweephand_results::bytes(number(&counts, "cgroup_limit_bytes"))
        );
        assert_eq!((status, said, killed), (Some(2), expected, 1), "{counts}");
        break;
    }
    assert_eq!(read_text(workshop().join("too-large/out.1")), "right\n");
}

/// On a terminal there is a line for all of them, which is gone at the end.
#[test]
fn a_live_line_tells_of_all_tasks() {
    if !can_page() {
        return;
    }
    let options = ["--progress", "--policy", "global-clock", "--load-control", "none"];
    let paged = run("progress", &churns(2, 12, 60, "16MiB"), &options);
    // Only what is on a terminal is shown, and as much of it as there is place for.
    let terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut wrapped = command("python3");
    wrapped.args(["-c", terminal, "sh", "-c", "stty columns 200; exec \"$@\"", "sh"]);
    let output = output(wrapped.arg(paged.get_program()).args(paged.get_args()).stdin(Stdio::null()));
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let is_told = |words: &str| shown.split('\r').any(|line| line.contains(words));
    for words in ["2 of 2 tasks active, ", " MiB resident, ", " faults/s, ", "iB/s read, ", "iB/s written, "]
    {
        assert!(is_told(words), "{words}: {shown}");
    }
}

/// A signal to the command is for all; those that are held get it too, and nobody is started any
/// more.
#[test]
fn a_signal_ends_all_tasks_also_those_that_are_held() {
    if !can_page() {
        return;
    }
    let spin = program("spin");
    let file = format!(
        "memory = '32MiB'\n[load_control]\nmost_active = 1\nslice_ms = 50\n[[task]]\ncommand = ['sh', '-c', 'trap \"exit 5\" TERM; \
         {spin} 600000 x > /dev/null & wait']\ncount = 2\n[[task]]\ncommand = ['true']\ndelay_ms = 600000\n"
    );
    let child = start(&mut run("signal", &file, &[]));
    await_descendants(child.id(), "spin", 2);
    sleep(Duration::from_millis(200));
    signal(child.id(), "TERM");
    let output = wait(child);
    let expected = "sweephand: task 'sh.1': exit status 5\nsweephand: task 'sh.2': exit status 5\nsweephand: task 'true': was not \
                    started\nsweephand: 2 processes that tasks had left behind were ended";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
}

#[test]
fn what_cannot_be_run_is_told_in_one_line_with_its_place() {
    let refuse = |file: &str, options: &[&str], expected: &str| {
        let output = output(&mut run("refusals", file, options));
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {words}");
        assert!(words.contains(expected) && words.lines().count() == 1, "{file}: {words}");
        assert!(!workshop().join("refusals/stats.json").exists(), "{file}");
    };
    let task = "[[task]]\ncommand = ['true']\n";
    let good = format!("memory = '16MiB'\n{task}");
    refuse(
        &format!("memory = '16MiB'\npolcy = 'x'\n{task}"),
        &[],
        "tasks.toml: line 2: unknown field `polcy`",
    );
    refuse("memory = '16MiB'\n", &[], "tasks.toml: line 1: missing field `task`");
    refuse(task, &[], "tasks.toml: says nothing of memory");
    refuse(&format!("memory = 'lots'\n{task}"), &[], "tasks.toml: memory =");
    refuse(&format!("memory = '1MiB'\n{task}"), &[], "give it 4.0 MiB at least");
    refuse(
        &format!("policy = 'lru'\n{good}"),
        &[],
        "tasks.toml: policy 'lru': sees every reference of one task",
    );
    refuse(&good, &["--policy", "apr"], "apr looks at addresses");
    refuse(
        &good,
        &["--policy", "ws"],
        "policy 'ws' needs every reference and can only be simulated; these can run live:",
    );
    refuse(&format!("{good}[[task]]\ncommand = ['/no/such']\n"), &[], "/no/such: there is no such program");
    refuse(&format!("{good}stdin = 'none'\n"), &[], "task 'true':");
    refuse(&format!("{good}directory = 'none'\n"), &[], "task 'true':");
    refuse(&format!("{good}stdout = 'same'\ncount = 2\n"), &[], "put {n} into its name");
    let output = output(sweephand().args(["run", "--print-tasks"]));
    assert_eq!(output.stdout, sweephand_pager::tasks::EXAMPLE.as_bytes());
}
