//! `sweephand-lab reproduce`: the page and JSON, what is kept, what is missing, and a run that is
//! killed.

#[path = "../../crates/cli/tests/children/mod.rs"]
mod children;
#[path = "../../crates/cli/tests/schema/mod.rs"]
mod schema;

use children::spawn;
use schema::keeps_to;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use sweephand_checks::{entries, has_program};

const LAB: &str = env!("CARGO_BIN_EXE_sweephand-lab");

/// An item that needs no traces of others and little time, and one that needs some.
const QUICK: &str = "linux-mm/scans";
const NEEDS_TRACES: &str = "clock-pro/table-1";

fn reproduce(arguments: &[&str], folder: &Path) -> Command {
    let mut command = children::command(LAB);
    command.arg("reproduce").args(arguments).arg("-o").arg(folder);
    command.env_remove("SWEEPHAND_TRACES").stdin(Stdio::null());
    command
}

fn output(arguments: &[&str], folder: &Path) -> Output {
    reproduce(arguments, folder).output().expect("sweephand-lab")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every file under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in entries(folder) {
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

#[test]
fn what_is_measured_is_kept_and_what_is_missing_does_not_stop_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = output(&[NEEDS_TRACES, QUICK, "--page"], folder);
    let said = text(&first.stdout);
    assert_eq!(first.status.code(), Some(1), "one is missing: {said}{}", text(&first.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("clock-pro/table-1 ") && lines[0].contains("put it at DIR/lirs/cpp.trace.gz"),
        "{said}"
    );
    assert!(lines[1].starts_with("linux-mm/scans ") && lines[1].contains("measured in "), "{said}");
    assert!(lines[3].starts_with("1 of 2 items measured; "), "{said}");
    let results = folder.join("linux-mm-advanced-page-replacement/results");
    let expected = [folder.join("index.html"), results.join("scans.json"), results.join("scans.md")];
    assert_eq!(files(folder), expected);
    let page = fs::read_to_string(folder.join("index.html")).unwrap();
    assert!(page.contains("Not measured here: trace &#x27;cpp&#x27;") && page.contains("Not run yet."));

    // The same again: kept. Another item of the page is still shown.
    let again = text(&output(&[QUICK, "--page"], folder).stdout);
    assert!(again.starts_with("linux-mm/scans ") && again.contains("kept, measured 20"), "{again}");
    // Damaged, or of another program: measured again.
    let json = results.join("scans.json");
    let whole = fs::read_to_string(&json).unwrap();
    let checksum =
        serde_json::from_str::<serde_json::Value>(&whole).unwrap()["origin"]["program"]["checksum"].clone();
    for changed in
        [whole[..whole.len() / 2].to_string(), whole.replace(checksum.as_str().unwrap(), "0123456789abcdef")]
    {
        fs::write(&json, changed).unwrap();
        let said = text(&output(&[QUICK, "--page"], folder).stdout);
        assert!(said.contains("measured in "), "{said}");
    }
}

#[test]
fn a_killed_run_leaves_only_whole_files_and_the_next_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut command = reproduce(&["linux-mm/scans", "linux-mm", "--page"], folder);
    let mut child = spawn(command.stdout(Stdio::null()));
    let done = folder.join("linux-mm-advanced-page-replacement/results/scans.json");
    let start = Instant::now();
    while !done.exists() {
        assert!(start.elapsed() < Duration::from_secs(300), "the first item does not end");
        assert!(child.try_wait().unwrap().is_none(), "it has ended without a result");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for file in files(folder) {
        let contents = fs::read_to_string(&file).unwrap();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("html") => assert!(contents.trim_end().ends_with("</html>"), "{}", file.display()),
            Some("json") => drop(serde_json::from_str::<serde_json::Value>(&contents).unwrap()),
            Some("md") => assert!(
                contents.starts_with("# linux-mm: ") && contents.ends_with('\n'),
                "{}",
                file.display()
            ),
            _ => panic!("{} is left behind", file.display()),
        }
    }
    let measured = fs::metadata(&done).unwrap().modified().unwrap();
    let said = text(&output(&["linux-mm/scans", "--page"], folder).stdout);
    assert!(said.contains("kept, measured"), "{said}");
    assert_eq!(fs::metadata(&done).unwrap().modified().unwrap(), measured);
}

#[test]
fn a_page_needs_a_place() {
    for flag in ["--all", "--page"] {
        let output = children::command(LAB).args(["reproduce", flag]).output().expect("sweephand-lab");
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(text(&output.stderr).contains("--output <DIR>"), "{flag}: {}", text(&output.stderr));
    }
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    fs::write(&taken, "a file").unwrap();
    let refused = output(&[QUICK, "--page"], &taken);
    let message = text(&refused.stderr);
    assert_eq!((refused.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(
        message.starts_with("sweephand-lab: ") && message.contains("taken: is a file; name a directory"),
        "{message}"
    );
}

#[test]
fn an_item_whose_traces_are_missing_is_an_error_only_if_it_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let alone = output(&[NEEDS_TRACES], folder.path());
    let message = text(&alone.stderr);
    assert_eq!((alone.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.starts_with("sweephand-lab: clock-pro/table-1: trace 'cpp' is needed"), "{message}");
    assert_eq!(files(folder.path()), [] as [PathBuf; 0]);

    let beside_another = output(&[NEEDS_TRACES, QUICK], folder.path());
    let message = text(&beside_another.stderr);
    assert_eq!((beside_another.status.code(), message.lines().count()), (Some(1), 1), "{message}");
    assert!(message.starts_with("sweephand-lab: not measured: clock-pro/table-1: trace 'cpp'"), "{message}");
    assert!(text(&beside_another.stdout).starts_with("linux-mm: "), "{}", text(&beside_another.stdout));
    assert_eq!(files(folder.path()).len(), 1);
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (&["table-9"][..], "sweephand-lab: 'table-9' is no paper or item; known: clock-pro/table-1"),
        (&["--sweephand", "/no/such/command", QUICK], "sweephand-lab: /no/such/command: cannot be read"),
    ] {
        let refused = output(arguments, folder.path());
        let message = text(&refused.stderr);
        assert_eq!(
            (refused.status.code(), message.lines().count()),
            (Some(2), 1),
            "{arguments:?}: {message}"
        );
        assert!(message.starts_with(expected), "{arguments:?}: {message}");
    }
    assert_eq!(files(folder.path()), [] as [PathBuf; 0]);
}

#[test]
fn json_keeps_to_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let document = text(&output(&[QUICK, "--format", "json"], folder.path()).stdout);
    let keeps_to = |document: &str| keeps_to("reproduce.json", document, folder.path());
    let Some(kept) = keeps_to(&document) else { return };
    kept.unwrap();
    // The schema is strict: a name that changes is a breach.
    assert!(keeps_to(&document.replace("\"claims\"", "\"gist\"")).unwrap().is_err());
}

/// In a browser: needs Node and Chromium.
#[test]
fn the_page_works_in_a_browser() {
    if !has_program("node") || !has_program("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // With numbers that are published, and items that are not there.
    output(&["linux-mm/indexed-database", "--page"], folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/report/browser/check.mjs");
    let output =
        Command::new("node").arg(script).arg(folder.path().join("index.html")).output().expect("node");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.lines().filter(|line| line.starts_with("ok")).count() >= 20, "{said}");
}
