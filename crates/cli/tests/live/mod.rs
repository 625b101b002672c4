//! What the tests of running programs share: programs to run, and running them within bounds.
// Not every test uses all of it.
#![allow(dead_code, unused_imports)]

pub(crate) mod cases;
#[path = "../children/mod.rs"]
mod children;
pub(crate) mod engine;

pub(crate) use children::{Running, command, descendants, ignoring, program_of, spawn};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::{JoinHandle, sleep, spawn as spawn_thread};
use std::time::{Duration, Instant};
use sweephand_checks::{Need, entries, skip};

pub(crate) const SWEEPHAND: &str = env!("CARGO_BIN_EXE_sweephand");
/// Longer than any of these takes, however busy the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// A directory on a disk. All users may make files there, as in /var/tmp: some programs become
/// others.
pub(crate) fn workshop() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run");
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).unwrap();
        directory
    })
}

/// One of the programs, compiled.
pub(crate) fn program(name: &str) -> PathBuf {
    compiled(name, &[])
}

pub(crate) fn compiled(name: &str, options: &[&str]) -> PathBuf {
    let name_here = Path::new(name).file_name().unwrap().to_str().unwrap();
    let path = workshop().join(format!("{name_here}{}", options.join("")));
    // Each process of tests compiles for itself, and puts the result there in one step.
    let new = workshop().join(format!(
        "{name_here}{}.{}.{:?}",
        options.join(""),
        std::process::id(),
        std::thread::current().id()
    ));
    let status = command("cc")
        .args(["-O2", "-pthread", "-o"])
        .arg(&new)
        .arg(sources().join(format!("{name}.c")))
        .args(options)
        .status()
        .expect("a C compiler: apt-get install gcc libc6-dev");
    assert!(status.success(), "{name}.c does not compile");
    fs::rename(new, &path).unwrap();
    path
}

/// The command.
pub(crate) fn sweephand() -> Command {
    command(SWEEPHAND)
}

/// `sweephand run` with arguments, its backing store beside the tests. An agent pages, under the
/// default policy, unless the arguments say otherwise.
pub(crate) fn run(arguments: &[&str]) -> Command {
    run_as_is(&with_policy(arguments, &["--policy", "--backend", "--kernel", "--tasks", "--pid"]))
}

/// Arguments, and the default policy by its name unless one of some options is among them.
pub(crate) fn with_policy<'a>(arguments: &[&'a str], unless: &[&str]) -> Vec<&'a str> {
    let is_said = arguments.iter().any(|argument| unless.contains(argument));
    let policy: &[&str] = if is_said { &[] } else { &["--policy", "clock-pro"] };
    [policy, arguments].concat()
}

/// The same, but who pages is left to the command.
pub(crate) fn run_as_is(arguments: &[&str]) -> Command {
    let mut command = sweephand();
    command.args(["run", "--swap"]).arg(workshop()).args(arguments);
    command.stdin(Stdio::null());
    command
}

/// Runs to the end, within bounds.
pub(crate) fn output(command: &mut Command) -> Output {
    wait(spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())))
}

/// Runs a test program to the end, and expects it to have found everything right.
pub(crate) fn expect_word_right(command: &mut Command) {
    let output = output(command);
    assert!(
        output.status.success() && text(&output.stdout) == "right",
        "{command:?}: {}: {} {}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Waits for the end, within bounds. Meanwhile it reads the streams: a program that has filled a
/// pipe waits for a reader.
pub(crate) fn wait(mut child: Running) -> Output {
    let start = Instant::now();
    let stdout = child.stdout.take().map(read_to_end);
    let stderr = child.stderr.take().map(read_to_end);
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "process {} does not end", child.id());
        sleep(Duration::from_millis(5));
    }
    let all =
        |reader: Option<JoinHandle<Vec<u8>>>| reader.map_or_else(Vec::new, |reader| reader.join().unwrap());
    let stderr = without_other_runs(all(stderr));
    Output { stdout: all(stdout), stderr, ..child.output() }
}

/// What a run says, without the line about other runs: tests run at the same time.
pub(crate) fn without_other_runs(said: Vec<u8>) -> Vec<u8> {
    const LINE: &[u8] = b"sweephand: note: another run has a swap file, too";
    said.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(LINE))
        .flatten()
        .copied()
        .collect()
}

fn read_to_end(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    spawn_thread(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

/// Whether programs can be paged here. If not, counts the test as skipped, and checks that the
/// command says why.
pub(crate) fn can_page() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let known = ["userfaultfd is not allowed here", "Linux 6.8 or later is needed"];
    is_there(Need::Userfaultfd, MISSING.get_or_init(|| missing(&[], &known)))
}

/// Why there is no cgroup or no swap file where there is none.
const NO_SWAP: [&str; 6] = [
    "that is for root",
    "there is no memory controller here",
    "cannot hold a swap file",
    "does not take it as a swap file",
    "there is no space for a swap file",
    "hands the memory controller down",
];

/// The same of the kernel's own replacement.
pub(crate) fn can_swap() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    is_there(Need::Swap, MISSING.get_or_init(|| missing(&["--kernel"], &NO_SWAP)))
}

/// The same of a zram device before the swap file.
pub(crate) fn can_zram() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let known = ["the kernel has no zram", "no zram device can be made here"];
    can_swap()
        && is_there(Need::Zram, MISSING.get_or_init(|| missing(&["--kernel", "--compress", "25%"], &known)))
}

/// The same of the kernel's paging, directed.
pub(crate) fn can_direct() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let known = [&NO_SWAP[..], &["--backend swap: "]].concat();
    let missing = MISSING.get_or_init(|| missing(&["--backend", "swap"], &known));
    let is_swap = missing.as_ref().is_some_and(|words| NO_SWAP.iter().any(|known| words.contains(known)));
    is_there(if is_swap { Need::Swap } else { Need::Bpf }, missing)
}

fn is_there(need: Need, missing: &Option<String>) -> bool {
    if let Some(words) = missing {
        skip(need, words);
    }
    missing.is_none()
}

/// What `run` says is missing for these options: in one line, one of the known reasons.
fn missing(options: &[&str], known: &[&str]) -> Option<String> {
    let output = output(&mut run(&[&["--memory", "16MiB"], options, &["--", "true"]].concat()));
    if output.status.success() {
        return None;
    }
    let words = text(&output.stderr);
    assert!(known.iter().any(|known| words.contains(known)) && words.lines().count() == 1, "{words}");
    assert_eq!(output.status.code(), Some(2));
    Some(words)
}

/// Expects `sweephand run` to fail with status 2 and one line.
pub(crate) fn refuse(arguments: &[&str], expected: &str) {
    let output = output(sweephand().arg("run").args(arguments).stdin(Stdio::null()));
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
    assert!(words.contains(expected) && words.lines().count() == 1, "{arguments:?}: {words}");
}

pub(crate) fn signal(pid: u32, name: &str) {
    assert!(command("kill").args(["-s", name, &pid.to_string()]).status().expect("kill").success());
}

/// What a command with this process id has made and not removed: cgroups, and swap files, in use or
/// not.
pub(crate) fn left_by(command: u32) -> Vec<String> {
    let name = format!("sweephand-{command}-");
    let mut left = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup"), workshop().to_path_buf(), "/run".into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                left.push(entry.path().display().to_string());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    left.extend(swaps.lines().filter(|line| line.contains(&name)).map(String::from));
    left
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state is behind the name, which is in brackets.
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    !matches!(state, None | Some("Z" | "X"))
}

/// The machine's zram devices.
pub(crate) fn zram_devices() -> BTreeSet<String> {
    let names =
        entries("/sys/block").into_iter().filter_map(|path| path.file_name()?.to_str().map(String::from));
    names.filter(|name| name.starts_with("zram")).collect()
}

/// Waits until something holds, for a minute at most.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        sleep(Duration::from_millis(5));
    }
}
