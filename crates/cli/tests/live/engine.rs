//! Tests that are the same whatever pages a program: an agent, or the kernel as it is directed.

use super::cases::Case;
use super::{command, output, program, signal, spawn, text, wait, workshop};
use std::fs;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use sweephand_checks::{Need, skip};

/// What pages a program.
pub(crate) trait Engine {
    /// Files of the tests begin with it.
    const NAME: &'static str;

    /// Whether it can page here. If not, counts the test as skipped.
    fn is_there() -> bool;

    /// `sweephand run` with further options.
    fn run(options: &[&str]) -> Command;

    /// Runs a test program, if that can be, and expects it to have found everything right.
    fn expect_right(options: &[&str], name: &str, arguments: &[&str]);
}

/// Expects the program of each case to find everything right.
pub(crate) fn expect_all_right<E: Engine>(cases: &[Case]) {
    for case in cases {
        E::expect_right(&case.options(), case.program, case.arguments);
    }
}

/// Expects the same of a program that says so if the machine lacks what it is about. Bare, it must
/// say the same, so that a pager that takes something away is found out.
pub(crate) fn expect_right_where_there_is<E: Engine>(options: &[&str], name: &str, arguments: &[&str]) {
    let bare = output(Command::new(program(name)).args(arguments));
    assert!(bare.status.success(), "{name} {arguments:?}: {}", text(&bare.stdout));
    let words = text(&bare.stdout);
    if words == "right" {
        return E::expect_right(options, name, arguments);
    }
    assert!(words.starts_with("cannot: "), "{name} {arguments:?}: {words}");
    skip(Need::Machine, format_args!("{name} {arguments:?}: {words}"));
}

/// Streams, status and signals are the program's own.
pub(crate) fn streams_and_status<E: Engine>() {
    if !E::is_there() {
        return;
    }
    let shell = |script: &str| E::run(&["--memory", "16MiB", "--", "sh", "-c", script]);
    let mut command = shell("cat; echo no >&2; exit 7");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command);
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    let ended = wait(child);
    assert_eq!(
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr)),
        (Some(7), "through".to_string(), "no".to_string())
    );
    assert_eq!(output(&mut shell("kill -SEGV $$")).status.code(), Some(128 + 11));
    // A signal to the command is the program's.
    let mut command = shell("trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done");
    let mut child = spawn(command.stdout(Stdio::piped()));
    let mut up = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// A real program, with the memory that it runs in: half of what it wants.
pub(crate) struct RealProgram {
    memory: &'static str,
    command: Vec<String>,
}

impl RealProgram {
    fn new(memory: &'static str, command: &[&str]) -> Self {
        Self { memory, command: command.iter().map(ToString::to_string).collect() }
    }

    /// Sorts lines, in two threads.
    pub(crate) fn sort<E: Engine>() -> Self {
        let lines = file::<E>("lines");
        let mut file = BufWriter::new(fs::File::create(&lines).unwrap());
        let mut number = 12345_u64;
        for _ in 0..400_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            writeln!(file, "{:016x} {}", number, number % 977).unwrap();
        }
        file.into_inner().unwrap().sync_all().unwrap();
        let lines = lines.to_str().unwrap();
        Self::new("24MiB", &["sort", "-S", "40M", "--parallel=2", "-k2,2n", "-k1,1", lines])
    }

    /// Sorts, packs and sums up a dictionary.
    pub(crate) fn python() -> Self {
        const SCRIPT: &str = "d={i:str(i)*5 for i in range(250000)}\n\
                              import hashlib,zlib,json\n\
                              t=json.dumps(sorted(d.items(),key=lambda e:e[1])).encode()\n\
                              print(hashlib.sha256(t).hexdigest(),zlib.crc32(t))";
        Self::new("40MiB", &["python3", "-c", SCRIPT])
    }

    /// Compiles a large file: a tree of processes.
    pub(crate) fn gcc<E: Engine>() -> Self {
        let source = file::<E>("large.c");
        let functions: String = (0..1500)
            .map(|n| format!("int f{n}(int x) {{ int a[8]; for (int i = 0; i < 8; i++) a[i] = x * {n} + i; return a[x & 7]; }}\n"))
            .collect();
        fs::write(&source, functions).unwrap();
        Self::new("12MiB", &["gcc", "-O1", "-S", "-o", "/dev/stdout", source.to_str().unwrap()])
    }

    /// Expects the same bytes as with all the memory in the world.
    pub(crate) fn expect_same_bytes<E: Engine>(&self) {
        let Self { memory, command: words } = self;
        let stats = file::<E>("real.json");
        let expected = printed::<E>(command(&words[0]).args(&words[1..]));
        for policy in ["clock", "clock-pro"] {
            let mut limited = E::run(&["--memory", memory, "--policy", policy, "--stats"]);
            limited.arg(&stats).arg("--").args(words);
            assert!(printed::<E>(&mut limited) == expected, "{words:?} under {policy}: other bytes");
            let stats: serde_json::Value = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
            assert!(stats["refaults"].as_u64() > Some(0), "{words:?} was never short of memory: {stats}");
        }
    }
}

/// What a command prints.
fn printed<E: Engine>(command: &mut Command) -> Vec<u8> {
    let path = file::<E>("printed");
    let status = command.stdout(fs::File::create(&path).unwrap()).status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
    fs::read(path).unwrap()
}

fn file<E: Engine>(name: &str) -> PathBuf {
    workshop().join(Path::new(&format!("{}.{name}", E::NAME)))
}
