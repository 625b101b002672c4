//! `sweephand run --tasks`: real programs under one limit and one policy, with what they hold verified.
//!
//! Where userfaultfd is not allowed (these tests want root) they say so.

mod schema;

use schema::keeps_to;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SWEEPHAND: &str = env!("CARGO_BIN_EXE_sweephand");
/// Longer than any of these takes, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A directory on a disk.
fn workshop() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tasks");
        fs::create_dir_all(&directory).unwrap();
        directory
    })
}

/// One of the pager's test programs, compiled.
fn program(name: &str) -> String {
    let path = workshop().join(name);
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../pager/tests/programs").join(format!("{name}.c"));
    // Each test compiles for itself, and puts the result there in one step.
    let new = workshop().join(format!("{name}.{}.{:?}", std::process::id(), std::thread::current().id()));
    let status = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&new).arg(source).status();
    assert!(status.expect("a C compiler: apt-get install gcc libc6-dev").success());
    fs::rename(new, &path).unwrap();
    path.to_str().unwrap().to_string()
}

/// `sweephand run --tasks` of a file with this text, counts going to another beside it.
fn run(name: &str, text: &str, options: &[&str]) -> Command {
    let directory = workshop().join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("tasks.toml"), text).unwrap();
    let mut command = Command::new(SWEEPHAND);
    command.args(["run", "--swap"]).arg(workshop()).arg("--tasks").arg(directory.join("tasks.toml"));
    command.arg("--stats").arg(directory.join("stats.json")).args(options).stdin(Stdio::null());
    command
}

/// The counts of a run, which keep to their schema.
fn counts(name: &str) -> serde_json::Value {
    let document = fs::read_to_string(workshop().join(name).join("stats.json")).unwrap();
    if let Some(Err(error)) = keeps_to("run-tasks.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {document}");
    }
    serde_json::from_str(&document).unwrap()
}

fn number(value: &serde_json::Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// Waits within bounds.
fn wait(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            descendants(child.id()).into_iter().for_each(|pid| signal(pid, "KILL"));
            child.kill().unwrap();
            panic!("it does not end");
        }
        sleep(Duration::from_millis(5));
    }
    // What these programs print fits a pipe.
    child.wait_with_output().unwrap()
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn output(command: &mut Command) -> Output {
    wait(spawn(command))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args(["-s", name, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// The children of a process, and theirs.
fn descendants(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let deeper: Vec<u32> = children.iter().flat_map(|&child| descendants(child)).collect();
    [children, deeper].concat()
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    !matches!(state, None | Some("Z" | "X"))
}

/// Waits until a command has so many descendants of a name.
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

/// Whether programs can be paged here.
fn can_page() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let output = output(&mut run("can", "memory = '16MiB'\n[[task]]\ncommand = ['true']\n", &[]));
        let words = text(&output.stderr);
        if output.status.success() {
            return true;
        }
        let known = ["userfaultfd is not allowed here", "Linux 6.8 or later is needed"];
        assert!(known.iter().any(|known| words.contains(known)), "{words}");
        eprintln!("NOT TESTED: programs cannot be paged here: {words}");
        false
    })
}

/// Tasks that go over more memory than there is, a few together, and check what they find.
fn churns(count: usize, mib: usize, rounds: usize, limit: &str) -> String {
    let churn = program("churn");
    format!(
        "memory = '{limit}'\n[[task]]\ncommand = ['{churn}', '{mib}', '{rounds}', '{{n}}']\nstdout = 'out.{{n}}'\ncount = {count}\n"
    )
}

fn expect_right(name: &str, command: &mut Command, tasks: usize) -> serde_json::Value {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}: {}", output.status, text(&output.stderr));
    for task in 1..=tasks {
        let path = workshop().join(name).join(format!("out.{task}"));
        assert_eq!(fs::read_to_string(path).unwrap(), "right\n", "{command:?}: task {task}");
    }
    let counts = counts(name);
    assert!(number(&counts, "peak_lent_pages") * 4096 <= number(&counts, "memory_limit_bytes"), "{counts}");
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
    let output = output(&mut run("held", &file, &[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let texts =
        [1, 2].map(|task| fs::read_to_string(workshop().join("held").join(format!("out.{task}"))).unwrap());
    let counts = counts("held");
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
        let child = spawn(&mut run(name, &file, options));
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
        let output = wait(child);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stderr), "sweephand: task 'churn': exit status 137");
        assert_eq!(counts(name)["tasks"][0]["exit_status"], 137);
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
        let mut child = spawn(&mut run("orphans", &file, options));
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
            let file =
                |kind| fs::read_to_string(workshop().join("orphans").join(format!("{kind}.{task}"))).unwrap();
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
        let output = output(&mut run("children", &file, options));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read =
            |task| fs::read_to_string(workshop().join("children").join(format!("out.{task}"))).unwrap();
        assert_eq!((read(1).as_str(), read(2).as_str()), ("right\nright\n", "right\n"));
        assert!(number(&counts("children")["tasks"][0], "processes") >= 3);
    }
}

/// A signal to the command is for all; those that are held get it too, and nobody is started any more.
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
    let child = spawn(&mut run("signal", &file, &[]));
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
        let output = output(&mut run("refused", file, options));
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {words}");
        assert!(words.contains(expected) && words.lines().count() == 1, "{file}: {words}");
        assert!(!workshop().join("refused/stats.json").exists(), "{file}");
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
    refuse(&format!("memory = '1MiB'\n{task}"), &[], "give it 4194304 at least");
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
    let output = output(Command::new(SWEEPHAND).args(["run", "--print-tasks"]));
    assert_eq!(output.stdout, sweephand_pager::tasks::EXAMPLE.as_bytes());
}
