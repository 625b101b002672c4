//! What `sweephand record` follows: through every exec to the program that is meant, and to its
//! children. Needs Valgrind; where it is missing the tests say so.

mod sandbox;
mod schema;

use sandbox::{Sandbox, text};
use schema::keeps_to;
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::{env, fs};
use sweephand_checks::{has_program, read_text, trying};

/// Pages of the list that a job makes, far more than any launcher touches.
const JOB_PAGES: u64 = 3000;

/// A job, and launchers for it: scripts that become what they launch, and some that have it as a
/// child.
fn jobs() -> Sandbox {
    let sandbox = Sandbox::new();
    // Without site packages: what is recorded is quick.
    let job = format!(
        "#!/usr/bin/env -S python3 -I -S\nimport sys\nmemory = bytearray({JOB_PAGES} * 4096)\n\
         for start in range(0, len(memory), 4096):\n    memory[start] = 1\n\
         print('worked', *sys.argv[1:])\n"
    );
    let scripts = [
        ("job.py", job.as_str()),
        // As pyenv's: a shim that asks a script which version to run.
        ("python", "#!/usr/bin/env bash\nset -e\nexec \"${0%/*}/pyenv\" exec python \"$@\"\n"),
        (
            "pyenv",
            "#!/bin/bash\nversion=$(echo 3)\nshift 2\nexec env VERSION=$version python3 -I -S \"$@\"\n",
        ),
        // As npm's: it stays, and has a child.
        (
            "npm",
            "#!/usr/bin/env python3\nimport subprocess, sys\n\
             sys.exit(subprocess.run(['sh', '-c', 'python3 -I -S ' + sys.argv[2] + '; true']).returncode)\n",
        ),
        ("Makefile", "all:\n\t@python3 -I -S job.py made\n"),
        ("two.sh", "#!/bin/sh\npython3 -I -S job.py first\npython3 -I -S job.py second\n"),
        (
            "workers.py",
            "import os, time\nchild = os.fork()\nif child == 0:\n    memory = bytearray(2000 * 4096)\n    \
             for turn in range(1500):\n        for start in range(0, len(memory), 4096):\n            memory[start] = turn % 256\n    \
             os._exit(0)\nos.waitpid(child, 0)\n",
        ),
    ];
    for (name, script) in scripts {
        sandbox.write(name, script);
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox
}

/// A PATH on which `python3` is the interpreter, and no script of this machine that launches it.
fn path_with_python() -> OsString {
    let ask = ["-I", "-S", "-c", "import sys; print(sys.executable)"];
    let python = Command::new("python3").args(ask).output().expect("python3").stdout;
    let directory = PathBuf::from(String::from_utf8(python).unwrap().trim());
    let path = env::var_os("PATH").unwrap_or_default();
    let others = env::split_paths(&path);
    env::join_paths([directory.parent().unwrap().to_path_buf()].into_iter().chain(others)).unwrap()
}

fn run(sandbox: &Sandbox, options: &str, command: &[&str]) -> Output {
    let mut record = sandbox.command(options);
    record
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .env("PATH", path_with_python())
        .output()
        .expect("sweephand")
}

fn info(sandbox: &Sandbox, trace: &str) -> Value {
    serde_json::from_str(&sandbox.stdout(&format!("info {trace} --format json"))).unwrap()
}

fn pages(info: &Value) -> u64 {
    info["totals"]["distinct_pages"].as_u64().unwrap()
}

#[test]
fn a_recording_is_of_the_program_that_the_command_becomes() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = jobs();
    let launchers: [&[&str]; 6] = [
        &["./job.py", "x"],
        &["./python", "job.py", "x"],
        &["env", "-i", "PATH=/usr/bin:/bin", "nice", "-n", "1", "python3", "-I", "-S", "job.py", "x"],
        &["sh", "-c", "exec python3 -I -S job.py x"],
        &["bash", "-c", "python3 -I -S job.py x"],
        &["setsid", "-w", "nohup", "python3", "-I", "-S", "job.py", "x"],
    ];
    for launcher in launchers {
        let output = run(&sandbox, "record -o t.swt", launcher);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{launcher:?}: {said}");
        assert_eq!(text(&output.stdout), "worked x\n", "{launcher:?}: its output is its own");
        let info = info(&sandbox, "t.swt");
        assert!(pages(&info) > JOB_PAGES, "{launcher:?}: {said}");
        assert!(info["metadata"]["program"].as_str().unwrap().starts_with("python3"), "{launcher:?}: {info}");
        assert_eq!(info["metadata"]["complete"], true, "{launcher:?}");
        let command: Vec<&str> = info["metadata"]["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert_eq!(command, launcher, "the command is what was typed");
        assert!(said.contains("note: the command became "), "{launcher:?}: {said}");
        // Launchers have small children of their own, and so may the `python3` of this machine.
        let child = &info["metadata"]["largest_child"];
        assert!(child["pages"].as_u64().unwrap_or_default() < JOB_PAGES, "{launcher:?}: {child}");
    }
    // A program that becomes nothing else says nothing of that.
    let plain = run(&sandbox, "record -o t.swt", &["python3", "-I", "-S", "job.py"]);
    assert!(!text(&plain.stderr).contains("became"), "{}", text(&plain.stderr));
    // Its status is that of the last one.
    let status = run(&sandbox, "record -o t.swt", &["env", "sh", "-c", "exit 7"]);
    assert_eq!(status.status.code(), Some(7));
    assert!(sandbox.stdout("info t.swt").contains("complete: ended with exit status 7\n"));
    // An exec that fails changes nothing.
    let failed = run(&sandbox, "record -o t.swt", &["bash", "-c", "exec /no/such/program"]);
    assert_eq!(failed.status.code(), Some(127));
    let info = info(&sandbox, "t.swt");
    assert_eq!((&info["metadata"]["program"], &info["metadata"]["complete"]), (&"bash".into(), &true.into()));
}

#[test]
fn a_recording_of_a_launcher_names_the_child_and_gets_no_advice() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = jobs();
    let launchers: [(&[&str], &str); 3] = [
        (&["make", "-s"], "make: "),
        (&["./npm", "run", "job.py"], "python3: "),
        (&["sh", "./two.sh"], "sh: "),
    ];
    for (launcher, name) in launchers {
        let _input = trying(|| format!("{launcher:?}"));
        // So slowly that it is seen.
        let slow = "import time; time.sleep(0.5)\n";
        let job = read_text(sandbox.path("job.py"));
        if !job.contains(slow) {
            sandbox.write("job.py", job + slow);
        }
        let output = run(&sandbox, "record --quiet -o t.swt", launcher);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{launcher:?}: {said}");
        let line = said.lines().find(|line| line.contains("its child")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with(&format!("sweephand: {name}")), "{line}");
        assert!(
            line.contains("; its child python3 used ") && line.ends_with(": record with --children"),
            "{line}"
        );
        let child = &info(&sandbox, "t.swt")["metadata"]["largest_child"];
        assert_eq!(child["program"], "python3");
        assert!((JOB_PAGES..4 * JOB_PAGES).contains(&child["pages"].as_u64().unwrap()), "{child}");
        let advice = sandbox.error("advise t.swt");
        assert!(advice.starts_with("t.swt: there is no advice. "), "{advice}");
        let report = sandbox.stdout("report t.swt -m 50% -o -");
        assert!(report.contains("So nothing is concluded.") && !report.contains("Enough memory"));
    }
    let direct = run(&sandbox, "advise -m 50%", &["make", "-s"]);
    assert_eq!((direct.status.code(), text(&direct.stdout)), (Some(2), String::new()));
    assert!(text(&direct.stderr).contains("there is no advice. "), "{}", text(&direct.stderr));
    // A child that only forks has its parent's program, and works longer.
    let forked = run(&sandbox, "record --quiet -o t.swt", &["python3", "-I", "-S", "workers.py"]);
    let said = text(&forked.stderr);
    assert!(said.contains("worked longer than it did: record with --children"), "{said}");
    // A small child is not worth a word.
    let small = run(
        &sandbox,
        "record --quiet -o t.swt",
        &["python3", "-I", "-S", "-c", "import os; x = bytearray(b'x') * (1 << 23); os.system('sleep 0.3')"],
    );
    assert_eq!(text(&small.stderr), "");
    assert!(sandbox.run("advise t.swt -m 50%").status.success());
}

#[test]
fn with_children_each_process_has_a_trace() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = jobs();
    let output = run(&sandbox, "record --children -o traces", &["sh", "./two.sh"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(text(&output.stdout), "worked first\nworked second\n");
    let mut names: Vec<String> = fs::read_dir(sandbox.path("traces"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    // They are tasks of a machine, too.
    names.retain(|name| name != "multiprogram.toml");
    let csv = sandbox.stdout("multiprogram traces/multiprogram.toml -p wsclock --theta 100k --format csv");
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert_eq!(names.len(), 3, "{names:?}: {said}");
    let (python, sh): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.starts_with("python3"));
    assert_eq!((python.len(), sh.len()), (2, 1), "{names:?}");
    for name in &names {
        let (program, pid) = name.strip_suffix(".swt").unwrap().rsplit_once('-').unwrap();
        assert!(pid.parse::<u32>().is_ok() && ["sh", "python3", "python3.11"].contains(&program), "{name}");
        let info = info(&sandbox, &format!("traces/{name}"));
        assert_eq!(info["metadata"]["complete"], true, "{name}");
        assert_eq!(pages(&info) > JOB_PAGES, python.contains(&name), "{name}");
        assert!(info["metadata"].get("largest_child").is_none(), "{name}");
        sandbox.stdout(&format!("info traces/{name} --verify"));
    }
}

/// Its objects are its parent's.
#[test]
fn a_child_that_only_forks_has_pages_of_its_own() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = jobs();
    let output = run(&sandbox, "record --children -o forked", &["python3", "-I", "-S", "workers.py"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut counts: Vec<u64> = fs::read_dir(sandbox.path("forked"))
        .unwrap()
        .map(|entry| format!("forked/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|name| name.ends_with(".swt"))
        .map(|name| pages(&info(&sandbox, &name)))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts.len(), 2);
    assert!(counts[0] < 2000 && counts[1] > 2000, "{counts:?}");
}

/// It is refused before anything runs.
#[test]
fn children_are_not_recorded_into_a_file() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    let output = run(&sandbox, "record --children -o file", &["sh", "-c", "echo ran"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    assert_eq!(text(&output.stderr), "sweephand: file: is a file; name a directory\n");
}

#[test]
fn what_valgrind_cannot_run_is_run_without_it_and_said() {
    if !has_program("valgrind") || !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = jobs();
    let copy = sandbox.path("echo");
    fs::copy("/bin/echo", &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = run(&sandbox, "record -o t.swt", &["sh", "-c", "exec ./echo said"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(text(&output.stdout), "said\n", "as it would without us");
    assert!(
        said.contains("it became another program by exec, ./echo, which cannot be recorded: setuid"),
        "{said}"
    );
    assert!(sandbox.error("advise t.swt").contains("there is no advice. "));
}

#[test]
fn a_report_records_a_program_too() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = jobs();
    let output = run(&sandbox, "report -p opt,clock -m 50% -o r.html", &["env", "./job.py", "y"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "worked y\n");
    assert!(read_text(sandbox.path("r.html")).contains("Enough memory"));
    assert!(sandbox.files().contains(&"env.swt".to_string()));
}

/// Two arrays in turns, made by one function, and one that another function has made.
const ARRAYS: &str = r#"#include <stdlib.h>
static __attribute__((noipa)) char *array(size_t n)
{
    char *p = malloc(n);
    p[0] = 1;
    return p;
}
static __attribute__((noipa)) char *table(size_t n)
{
    char *p = calloc(n, 1);
    p[0] = 1;
    return p;
}
int main(void)
{
    size_t n = 1 << 20;
    char *a = array(n), *b = array(n), *c = table(n / 4);
    for (int round = 0; round < 8; round++)
        for (size_t at = 0; at < n; at += 4096) a[at] += b[at] + c[at / 4];
    return 0;
}
"#;

/// With debug information, faults are told by the line that made the object; without, by an offset.
/// One recording serves for the report and all files beside it, because Valgrind takes seconds.
#[test]
fn a_report_tells_faults_by_the_place_that_made_the_object() {
    if !has_program("valgrind") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("arrays.c", ARRAYS);
    for (option, places) in
        [("-g", ["arrays.c:4 in array", "arrays.c:10 in table"]), ("-s", ["arrays+0x"; 2])]
    {
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", option, "-o", "arrays", "arrays.c"]).current_dir(sandbox.path("."));
        assert!(compiler.status().expect("cc").success());
        let output = run(
            &sandbox,
            "report -p opt,clock -m 25%,50% -o r.html --stacks r.folded --stacks-of objects",
            &["./arrays"],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        let page = read_text(sandbox.path("r.html"));
        let table = &page[page.find("Faults by place that made it").expect(option)..];
        let rows: Vec<&str> = table.split("<tr>").skip(2).take(2).collect();
        // The two arrays are in one row, which has most faults.
        assert!(rows[0].contains(places[0]) && rows[0].contains("<td>2</td></tr>"), "{option}: {rows:?}");
        assert!(rows[1].contains(places[1]) && rows[1].contains("<td>1</td></tr>"), "{option}: {rows:?}");
        let folded = read_text(sandbox.path("r.folded"));
        let stacks: Vec<&str> = folded.lines().filter(|line| line.contains(places[1])).collect();
        assert!(
            !stacks.is_empty() && stacks[0].rsplit(' ').next().unwrap().parse::<u64>().unwrap() > 0,
            "{folded}"
        );
        // The line that touches the pages, and the flame graph of it.
        let lines = &page[page.find("Faults by line").expect(option)..];
        let line = if option == "-g" { "arrays.c:19 in main" } else { "arrays+0x" };
        assert!(lines.split("<tr>").nth(2).is_some_and(|row| row.contains(line)), "{option}: {lines}");
        assert!(page.contains("class=\"flame\""), "{option}");
        assert_eq!(page.contains("without debug information takes"), option == "-s");
        let speedscope =
            sandbox.stdout("report arrays.swt -p opt,clock -m 25% -o s.html --stacks - --format speedscope");
        assert!(speedscope.contains(line) && speedscope.contains("page faults under opt"), "{speedscope}");
        sandbox.stdout("report arrays.swt -p opt,clock -m 25% -o s.html --stacks s.pb.gz --format pprof");
        assert!(fs::read(sandbox.path("s.pb.gz")).unwrap().starts_with(b"\x1f\x8b"));
        let advice = sandbox.stdout("advise arrays.swt -p opt,clock -m 25%,50%");
        let lines = &advice[advice.find("\nlines     At ").expect(&advice)..];
        assert!(lines.lines().nth(2).is_some_and(|first| first.contains(line)), "{option}: {advice}");
        let made = &lines[lines.find("\nmade at   ").expect(lines)..];
        assert!(made.lines().nth(2).is_some_and(|first| first.contains(places[0])), "{option}: {advice}");
        assert!(made.contains("(2.0 MiB, 2 objects)"), "{option}: {advice}");
        assert!(made.contains("\nchange    ") && made.contains("used over and over"), "{option}: {advice}");
        assert_eq!(sandbox.stdout("advise arrays.swt -p opt,clock -m 25% --lines 0").lines().count(), 5);
        let json = sandbox.stdout("advise arrays.swt -p opt,clock -m 25% --format json");
        if let Some(kept) = keeps_to("advise.json", &json, &sandbox.path(".")) {
            kept.unwrap_or_else(|error| panic!("{error}: {json}"));
        }
        let list = sandbox.stdout("info arrays.swt");
        assert!(places.iter().all(|place| list.contains(place)), "{option}: {list}");
        fs::remove_file(sandbox.path("arrays.swt")).unwrap();
    }
}

/// The words that lead on where `--` is missing.
#[test]
fn a_program_without_dashes_before_it_is_told() {
    let sandbox = jobs();
    let said = |arguments: &str| {
        let output = sandbox.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        text(&output.stderr)
    };
    for (arguments, meant) in [
        ("record ls -l", "record -- ls -l"),
        ("record -o x.swt ls", "record -o x.swt -- ls"),
        ("run --memory 64MiB ls", "run --memory 64MiB -- ls"),
    ] {
        let words = said(arguments);
        assert!(
            words.contains(&format!("write -- before the program: sweephand {meant}\n")),
            "{arguments}: {words}"
        );
    }
    assert!(said("advise env").contains("if the program is meant, write -- before it: -- env"));
    assert!(!said("record --no-such-option -- ls").contains("write --"));
}
