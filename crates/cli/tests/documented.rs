//! Runs the README and the book: every command in a block of shell commands, as it stands, in a
//! folder with the files that it names. If a block of text follows, the output must look like it;
//! numbers may differ.
//!
//! The tutorial makes its own files and has its own test (`docs.rs`). The Python package's tests
//! run the blocks of Python.

mod sandbox;

use sandbox::{Sandbox, text};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use sweephand_checks::{Need, entries, read_text, skip};

const SWEEPHAND: &str = env!("CARGO_BIN_EXE_sweephand");

/// Commands that are not run here: page, how the line begins, and why. Each has to be there.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo run --release -- simulate", "a build from scratch: .ci/try-it does it"),
    ("README.md", "cargo quick", "it runs tests: .ci/try-it does it"),
    (
        "docs/own-policies.md",
        "cargo run --release -p own-policy",
        "a release build; examples/own-policy tests itself",
    ),
    ("docs/advice.md", "mkdir /var/tmp/advice", "is for the next two"),
    ("docs/advice.md", "python3 lab/bench/advice/run.py record", "compiles and records programs for minutes"),
    ("docs/advice.md", "python3 lab/bench/advice/run.py count", "needs the recordings of the one before"),
    ("docs/logs.md", "perf script ", "needs a recording of perf"),
    ("docs/papers.md", "cargo run --release -p sweephand-lab", "a release build; lab tests itself"),
    ("docs/python.md", "pip install", "builds the package: .ci/run does it"),
    ("docs/report.md", "node crates/report/browser/check.mjs", "needs a browser: reports.rs does it"),
    ("docs/run.md", "ls -d /sys/fs/cgroup", "is for what a killed run may leave behind, with a placeholder"),
    (
        "docs/run.md",
        "grep sweephand- /proc/swaps",
        "is for what a killed run may leave behind, with a placeholder",
    ),
    ("docs/run.md", "grep zram /proc/swaps", "as above"),
    ("docs/trace-formats.md", "sweephand import drmemtrace.app", "needs DynamoRIO"),
    ("docs/trace-formats.md", "drrun ", "needs DynamoRIO"),
    (
        "docs/trace-formats.md",
        "blktrace ",
        "traces a disk for a minute: tools.rs of crates/trace has blkparse print records",
    ),
    (
        "docs/watch.md",
        "sweephand watch --for 60s 1234",
        "watches a process that is not there: watch.rs does it",
    ),
    ("docs/watch.md", "sweephand watch --for 60s -o", "takes root and BPF: watch.rs does it"),
    ("docs/watch.md", "sweephand watch --for 60s --json", "as above"),
    ("docs/watch.md", "sweephand advise --pid 1234", "as above"),
    (
        "docs/services.md",
        "sweephand watch --unit nginx",
        "watches a service that is not there: services.rs watches others",
    ),
    ("docs/watch.md", "sweephand watch --unit nginx --listen", "as above"),
    ("docs/watch.md", "curl http://127.0.0.1:9877/metrics", "asks the watch of the one before"),
    ("docs/services.md", "sweephand watch --cgroup /system.slice", "as above"),
    ("README.md", "sudo sweephand advise --unit", "as above"),
    ("README.md", "sudo sweephand watch --container", "as above"),
    ("docs/services.md", "sweephand watch --container", "as above"),
    ("docs/services.md", "sweephand watch --tree", "as above"),
    ("docs/services.md", "sweephand watch --unit postgresql", "as above"),
    ("docs/services.md", "sweephand advise --unit", "as above"),
    ("docs/services.md", "sweephand advise --cgroup /kubepods", "as above"),
    ("docs/services.md", "sweephand advise --container", "as above"),
];

/// What is elsewhere on a reader's machine, and here in the sandbox; and what is small here, and
/// open to all users.
const ELSEWHERE: &[(&str, &str)] =
    &[("/mnt/fast", "fast"), ("/mnt/traces", "mounted"), ("ls -R /usr", "ls -R /usr/bin")];

/// Twenty lines that make a table of 24 MiB and look things up in it.
const JOB: &str = r#"import random

random.seed(7)
ENTRIES = 60_000


def make_table():
    return {f"key-{number}": [number] * 20 for number in range(ENTRIES)}


def look_up(table, turns):
    total = 0
    for _ in range(turns):
        number = min(int(random.expovariate(1 / 9000)), ENTRIES - 1)
        total += sum(table[f"key-{number}"])
    return total


table = make_table()
print(look_up(table, 20_000))
"#;

/// A program that goes through its memory.
const SOLVER: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n  size_t n = 6 << 20, t = 0; int *x = calloc(n, 4);\n  \
                      for (int r = 0; r < 3; r++) for (size_t i = 0; i < n; i += 512) t += x[i] += i;\n  printf(\"%zu\\n\", t);\n}\n";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The README and the pages of the book, without the tutorial, the pages made from the policies'
/// sources, and the page that checks every published number, which takes half an hour.
fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_string()];
    for path in entries(project().join("docs")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".md") && !["tutorial.md", "artifact.md"].contains(&name) {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    names
        .into_iter()
        .map(|name| (read_text(project().join(&name)), name))
        .map(|(text, name)| (name, text))
        .collect()
}

/// The blocks of a page: their kind, and what is in them.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            blocks.push((kind.to_string(), block.join("\n") + "\n"));
        }
    }
    blocks
}

/// A folder with what the pages speak of, and a `python3` that is a launcher script, as many are.
struct Reader {
    sandbox: Sandbox,
}

impl Reader {
    fn new() -> Self {
        // On a disk: programs are paged to it.
        let reader = Self {
            sandbox: Sandbox { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() },
        };
        let sandbox = &reader.sandbox;
        for folder in ["bin", "home", "recorded", "fast", "mounted"] {
            fs::create_dir(sandbox.path(folder)).unwrap();
        }
        symlink(project().join("traces"), sandbox.path("traces")).unwrap();
        let script = |name: &str, text: &str| {
            sandbox.write(name, text);
            fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("bin/python3", "#!/usr/bin/env bash\nset -e\nexec \"${0%/*}/version-of\" python3 \"$@\"\n");
        script(
            "bin/version-of",
            "#!/bin/sh\nreal=/usr/bin/$1\nshift\nexec env LAUNCHED=yes \"$real\" \"$@\"\n",
        );
        // Who runs the tests as root may have no sudo.
        script("bin/sudo", "#!/bin/sh\nexec \"$@\"\n");
        symlink(SWEEPHAND, sandbox.path("bin/sweephand")).unwrap();
        sandbox.write("job.py", JOB);
        sandbox.write("solver.c", SOLVER);
        reader.must("cc -O1 -o solver solver.c");
        let numbers: String =
            (0..60_000u64).map(|n| format!("{}\n", n * 2_654_435_761 % 1_000_003)).collect();
        sandbox.write("numbers.txt", numbers);
        fs::copy(project().join("traces/gzip.swt"), sandbox.path("ls.swt")).unwrap();
        reader
            .must("sweephand generate zipf --pages 100k --references 1M --seed 1 -o large.swt 2> /dev/null");
        reader.must(
            "sweephand generate zipf --pages 2k --references 20k --seed 1 -o db.swt 2> /dev/null; cp db.swt mounted/web-0417.swt\n\
             for n in $(seq 16); do cp db.swt recorded/$n.swt; done",
        );
        let requests: String = (0..300u64)
            .map(|n| {
                let kind = if n % 3 == 0 { "Write" } else { "Read" };
                format!("{},hm,0,{kind},{},4096,100\n", 128_166_372_003_061_629 + n * 1000, n % 40 * 4096)
            })
            .collect();
        sandbox.write("hm_0.csv", requests);
        reader.must("gzip hm_0.csv");
        reader
    }

    fn shell(&self, script: &str) -> Output {
        let path = format!("{}:{}", self.sandbox.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(self.sandbox.directory.path());
        command.env("PATH", path).env("HOME", self.sandbox.path("home")).env("LC_ALL", "C");
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).env_remove("SWEEPHAND_TRACES");
        command.stdin(Stdio::null()).output().expect("bash")
    }

    fn must(&self, script: &str) -> String {
        let output = self.shell(script);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {}\n{}{said}", output.status, text(&output.stdout));
        text(&output.stdout)
    }
}

fn why_not_paged() -> &'static Option<String> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(|| {
        let output = Command::new(SWEEPHAND)
            .args([
                "run",
                "--kernel",
                "--memory",
                "16MiB",
                "--swap",
                env!("CARGO_TARGET_TMPDIR"),
                "--",
                "true",
            ])
            .output()
            .expect("sweephand");
        let paged = Command::new(SWEEPHAND)
            .args(["run", "--memory", "16MiB", "--policy", "clock", "--swap", env!("CARGO_TARGET_TMPDIR")])
            .args(["--", "true"])
            .output()
            .expect("sweephand");
        [output, paged].iter().find(|output| !output.status.success()).map(|output| text(&output.stderr))
    })
}

fn why_not_directed() -> &'static Option<String> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(|| {
        let output = Command::new(SWEEPHAND)
            .args(["run", "--backend", "swap", "--memory", "16MiB", "--swap", env!("CARGO_TARGET_TMPDIR")])
            .args(["--", "true"])
            .output()
            .expect("sweephand");
        (!output.status.success()).then(|| text(&output.stderr))
    })
}

/// Why a command cannot be run on this machine, if it cannot.
fn missing_here(line: &str) -> Option<(Need, String)> {
    let is_live = line.contains("sweephand record --live");
    let records = line.contains("sweephand record") && !is_live
        || line.contains("advise --")
        || line.contains("valgrind");
    if records && Command::new("valgrind").arg("--version").output().is_err() {
        return Some((Need::Program, "valgrind".to_string()));
    }
    if line.contains("sweephand run --backend swap") {
        return why_not_directed().clone().map(|why| (Need::Bpf, why));
    }
    let pages = line.contains("sweephand run -") && !line.contains("--print-tasks")
        || line.contains("sweephand compare")
        || is_live;
    let zram = Path::new("/sys/class/zram-control");
    if line.contains("sweephand run --kernel") && line.contains("--compress") && !zram.exists() {
        return Some((Need::Zram, zram.display().to_string()));
    }
    why_not_paged().clone().filter(|_| pages).map(|why| (Need::Userfaultfd, why))
}

/// A line of text, any digit as good as another, and blanks.
fn shape(line: &str) -> String {
    let words: Vec<String> = line
        .split_whitespace()
        .map(|word| {
            if word.bytes().any(|letter| letter.is_ascii_digit()) {
                "0".to_string()
            } else {
                word.to_string()
            }
        })
        .collect();
    words.join(" ")
}

/// Runs the blocks of a page one after the other; returns how many commands were run.
fn run_page(reader: &Reader, page: &str, contents: &str) -> usize {
    let mut ran = 0;
    let blocks = blocks(contents);
    let known = |line: &str| {
        ["sweephand ", "sudo ", "cargo ", "pip ", "taskset "].iter().any(|word| line.starts_with(word))
    };
    for line in contents.lines().filter_map(|line| line.strip_prefix("    ")) {
        assert!(
            !known(line) || blocks.iter().any(|(_, block)| block.contains(line)),
            "{page}: put it into a block of sh: {line}"
        );
    }
    for (index, (kind, block)) in blocks.iter().enumerate() {
        let mut block = block.clone();
        for (there, here) in ELSEWHERE {
            block = block.replace(there, here);
        }
        if kind == "toml" && page == "docs/sweep.md" {
            // The hash is that of the reader's file: the command says it.
            let said = reader.must("sweephand info --verify db.swt");
            let hash =
                said.lines().find_map(|line| line.strip_prefix("file hash")).expect("it is shown").trim();
            let (before, rest) = block.split_once("xxh3:").expect("the plan names a hash");
            reader.sandbox.write("plan.toml", format!("{before}{hash}{}", &rest[16..]));
        }
        if kind == "toml" && page == "docs/tasks.md" {
            reader.must("ln -f solver solve; touch input.1 input.2 input.3 input.4");
            reader.sandbox.write("FILE.toml", &block);
        }
        if kind != "sh" {
            continue;
        }
        let mut script = String::new();
        // What cannot be run, and so the rest of its block, which may need what it makes.
        let mut missing = None;
        for line in block.lines() {
            if NOT_RUN.iter().any(|(of, begins, _)| *of == page && line.starts_with(begins)) {
                continue;
            }
            missing = missing.or_else(|| missing_here(line));
            if let Some((need, why)) = &missing {
                skip(*need, format_args!("{page}: {line}: {why}"));
                continue;
            }
            script += line;
            script += "\n";
            ran += usize::from(!line.trim().is_empty());
        }
        let said = reader.must(&script);
        if let Some((_, expected)) =
            blocks.get(index + 1).filter(|(kind, _)| kind == "text" && script == block)
        {
            let mut lines = said.lines().map(shape);
            for line in expected.lines() {
                assert!(
                    lines.any(|said| said == shape(line)),
                    "{page}: {block} does not print '{line}': {said}"
                );
            }
        }
    }
    ran
}

#[test]
fn commands_that_are_not_run_are_there() {
    let pages = pages();
    for (page, begins, _) in NOT_RUN {
        let contents =
            &pages.iter().find(|(name, _)| name == page).unwrap_or_else(|| panic!("there is no {page}")).1;
        let there =
            blocks(contents).iter().any(|(_, block)| block.lines().any(|line| line.starts_with(begins)));
        assert!(there, "{page} has no '{begins}' any more");
    }
}

/// Runs the commands of these pages in a folder of their own. At least `least` have to be run.
fn run_pages(are_chosen: fn(&str) -> bool, least: usize) {
    let reader = Reader::new();
    let chosen = pages().into_iter().filter(|(name, _)| are_chosen(name));
    let ran: usize = chosen.map(|(name, contents)| run_page(&reader, &name, &contents)).sum();
    assert!(ran > least, "{ran} commands were run");
}

fn is_in_first_half(page: &str) -> bool {
    page < "docs/o"
}

#[test]
fn commands_of_the_readme_and_half_of_the_book_work_as_they_stand() {
    run_pages(is_in_first_half, 25);
}

#[test]
fn commands_of_the_other_half_of_the_book_work_as_they_stand() {
    run_pages(|page| !is_in_first_half(page), 25);
}
