//! What pages contain, as each recorder samples it of a program whose pages are known: half random,
//! a quarter zero, a quarter text. Where a recorder cannot work, its test says what is missing.

mod live;
mod schema;

use live::*;
use schema::keeps_to;
use std::path::Path;
use std::process::Output;
use sweephand_checks::{Need, has_program, skip, trying};
use sweephand_trace::Trace;
use sweephand_trace::contents::Contents;

/// How long the program runs.
const SECONDS: &str = "4";
/// With this many pages, four standard errors of a share are within the slack.
const LEAST_PAGES: u64 = 100;
const SLACK: f64 = 0.2;

/// A simulation of tiers.
const TIERS: [&str; 7] = ["simulate", "-m", "50%", "--resident", "80%", "--tiers", "zram:codec=zstd"];

/// Runs a recorder on the program. `None`: it lacks something that it names.
fn recorded(options: &[&str], trace: &Path, needs: &[(&str, Need)]) -> Option<Output> {
    let program = compiled("contents", &["-g"]);
    let mut command = sweephand();
    command.args(options).arg("-o").arg(trace).arg("--").arg(program).arg(SECONDS);
    let output = output(&mut command);
    let said = text(&output.stderr);
    let missing = needs.iter().find(|(word, _)| output.status.code() == Some(2) && said.contains(word));
    if let Some((_, need)) = missing {
        skip(*need, said);
        return None;
    }
    assert!(output.status.success(), "{options:?}: {said}");
    Some(output)
}

/// The contents that a trace says, whose shares must be those of the program. Other memory than the
/// program's array may be in them, too, little beside it.
fn checked(trace: &Path) -> Contents {
    let contents = Trace::open(trace).unwrap().header().metadata.contents.clone().expect("contents");
    let all = contents.sampled();
    assert!(contents.moments >= 3 && all.pages >= LEAST_PAGES, "{} {}", contents.moments, all.pages);
    let shares = [(all.zero, 0.25), (all.incompressible, 0.5)];
    for (pages, expected) in shares {
        let share = all.share(pages);
        assert!((share - expected).abs() < SLACK, "{share} is not {expected}: {all:?}");
    }
    // Of the rest, two thirds are random and a third text: 3 / (2 + 1 / 2.2), and better by zstd.
    let (lz4, zstd) = (all.lz4_ratio().unwrap(), all.zstd_ratio().unwrap());
    assert!((1.05..2.0).contains(&lz4) && zstd > lz4, "{lz4} {zstd}");
    let times = contents.codec_times.expect("codec times");
    assert!(times.lz4.compress_ns > 100 && times.zstd.decompress_ns > 100, "{times:?}");
    assert!(contents.unread_pages <= all.pages / 4, "{} of {}", contents.unread_pages, all.pages);
    contents
}

#[test]
fn a_recording_under_valgrind_says_what_pages_contain() {
    if !has_program("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.swt");
    recorded(&["record"], &trace, &[]);
    let contents = checked(&trace);
    // The array has the name of the line that made it.
    let array = contents.objects.iter().find(|object| object.name.starts_with("contents.c:")).unwrap();
    assert!(array.sampled.share(array.sampled.same_filled) < 0.05);
    assert!(2 * array.sampled.pages > contents.sampled().pages, "{contents:?}");
    // All quarters have pages, and no use is unseen.
    let ages: Vec<u64> = contents.ages.iter().map(|age| age.pages).collect();
    assert!(ages[..4].iter().all(|pages| *pages > 0) && ages[4] == 0, "{ages:?}");
    let info = text(&output(sweephand().arg("info").arg(&trace)).stdout);
    assert!(info.contains("\ncontents of ") && info.contains("incompressible  object\n"), "{info}");
    assert!(info.contains(&array.name) && info.contains("\ncodecs: LZ4 "), "{info}");
    let json = text(&output(sweephand().args(["info", "--format", "json"]).arg(&trace)).stdout);
    if let Some(kept) = keeps_to("info.json", &json, folder.path()) {
        kept.unwrap_or_else(|error| panic!("{error}: {json}"));
    }
    let page = output(sweephand().args(["report", "-p", "clock", "-m", "50%", "-o", "-"]).arg(&trace)).stdout;
    let page = text(&page);
    assert!(page.contains(">Compressibility</h2>") && page.contains("<table class=\"contents\">"));
    let tiers = text(&output(sweephand().args(TIERS).arg(&trace)).stdout);
    assert!(tiers.contains("\ncompressibility recorded (zstd, "), "{tiers}");
    let timed = text(&output(sweephand().args(TIERS).args(["--device", "hdd"]).arg(&trace)).stdout);
    assert!(timed.contains(" incompressible, codec times of the program's pages\n"), "{timed}");
}

#[test]
fn a_live_recording_says_what_pages_contain() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.swt");
    let needs = [("userfaultfd", Need::Userfaultfd)];
    let Some(said) = recorded(&["record", "--live"], &trace, &needs) else { return };
    assert_eq!(text(&said.stdout), "right");
    let contents = checked(&trace);
    // Pages outside the window are read as well: those are in limbo.
    let ages: Vec<u64> = contents.ages.iter().map(|age| age.pages).collect();
    assert!(ages[..4].iter().all(|pages| 10 * pages > contents.sampled().pages), "{ages:?}");
}

#[test]
fn a_watch_says_what_pages_contain() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.swt");
    let needs = [("root is missing", Need::Root), ("BPF is missing", Need::Bpf)];
    let options = ["watch", "--every", "100ms", "--overhead", "100%"];
    if recorded(&options, &trace, &needs).is_none() {
        return;
    }
    let contents = checked(&trace);
    let names: Vec<&str> = contents.objects.iter().map(|object| object.name.as_str()).collect();
    assert!(names.iter().any(|name| name.starts_with("mapping of ")), "{names:?}");
}

/// With the option there is nothing of it, under each recorder.
#[test]
fn without_contents_no_page_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.swt");
    let needs = [
        ("userfaultfd", Need::Userfaultfd),
        ("root is missing", Need::Root),
        ("BPF is missing", Need::Bpf),
        ("Valgrind", Need::Program),
    ];
    for recorder in [&["record"][..], &["record", "--live"], &["watch", "--every", "100ms"]] {
        let _input = trying(|| recorder.join(" "));
        if recorded(&[recorder, &["--no-contents"]].concat(), &trace, &needs).is_some() {
            assert_eq!(Trace::open(&trace).unwrap().header().metadata.contents, None);
            assert!(!text(&output(sweephand().arg("info").arg(&trace)).stdout).contains("\ncontents of "));
        }
    }
}
