//! `sweephand record --live`: programs that run at their own speed, with an agent that records.
//!
//! Where userfaultfd cannot be had, the tests check that the command says so.

mod live;
mod schema;

use live::*;
use schema::keeps_to;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use sweephand_checks::{Need, read_text, skip, trying};
use sweephand_trace::{Chunk, Trace};

/// A user who is nobody else here.
const NOBODY: u32 = 65534;
/// Pages that a program has besides those that it is about: libraries, stack, what the C library
/// allocates.
const OTHER_PAGES: u64 = 60;

/// `sweephand record --live` with arguments.
fn record(trace: &Path, arguments: &[&str]) -> Command {
    let mut command = sweephand();
    command.args(["record", "--live", "-o"]).arg(trace).args(arguments).stdin(Stdio::null());
    command
}

/// Whether programs can be recorded here. If not, the command says in one line what is missing.
fn can_record() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let output = output(&mut record(&folder.path().join("t.swt"), &["--", "true"]));
    if output.status.success() {
        return true;
    }
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("userfaultfd"), "{said}");
    skip(Need::Userfaultfd, said);
    false
}

/// Records a program that ends well, and returns its trace and what it printed.
fn recorded(trace: &Path, options: &[&str], program: &[&str]) -> (Trace, Output) {
    let output = output(&mut record(trace, &[options, &["--"], program].concat()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    (Trace::open(trace).unwrap(), output)
}

/// LRU's faults in each of these sizes, naively.
fn lru_faults(references: &[u64], sizes: &[u64]) -> Vec<u64> {
    let (mut stack, mut faults): (Vec<u64>, _) = (Vec::new(), vec![0; sizes.len()]);
    for page in references {
        let depth = stack.iter().position(|on_stack| on_stack == page);
        depth.map(|depth| stack.remove(depth));
        stack.insert(0, *page);
        for (faults, &size) in faults.iter_mut().zip(sizes) {
            *faults += u64::from(depth.is_none_or(|depth| depth as u64 >= size));
        }
    }
    faults
}

fn references_of(trace: &Trace) -> Vec<u64> {
    let (mut chunk, mut references) = (Chunk::new(), Vec::new());
    for number in 0..trace.header().totals.chunks as usize {
        trace.read_chunk(number, &mut chunk).unwrap();
        references.extend(chunk.references.iter().map(|of| u64::from(of.page())));
    }
    references
}

fn path_of(program: &Path) -> &str {
    program.to_str().unwrap()
}

/// With a window of W pages, LRU's faults in a memory of n pages lie between those that it has
/// with W pages more and with W fewer.
#[test]
fn lrus_faults_are_within_the_window_of_the_true_ones() {
    if !can_record() {
        return;
    }
    const ORDER: [&str; 3] = ["2000", "30000", "7"];
    let (folder, order) = (tempfile::tempdir().unwrap(), program("order"));
    let path = folder.path().join("t.swt");
    let words = [&[path_of(&order)], &ORDER[..]].concat();
    // On a busy machine, faults can take so long that the window becomes as large as the memory.
    let is_small = |trace: &Trace| trace.header().metadata.exact_pages() < 1000;
    let tries = (0..5).map(|_| recorded(&path, &["--overhead", "100%"], &words));
    let (trace, said) = tries.into_iter().find(|(trace, _)| is_small(trace)).expect("a window that is small");
    assert_eq!(text(&said.stdout), "right");
    // This is more than fits a pipe.
    let printed = text(&command(&order).args(ORDER).arg("print").output().expect("order").stdout);
    let truth: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    let seen = references_of(&trace);
    let metadata = &trace.header().metadata;
    let epochs = metadata.epochs.unwrap();
    assert!(epochs.ordered && metadata.complete && metadata.command == words);
    let touched = trace.header().totals.distinct_pages;
    assert!((2000..2000 + OTHER_PAGES).contains(&touched), "{touched}");
    assert_eq!(metadata.windows.iter().map(|window| window.epochs).sum::<u64>(), epochs.epochs);
    assert_eq!(metadata.windows.iter().map(|window| window.pages).max(), Some(epochs.largest_pages));
    let slack = epochs.largest_pages + OTHER_PAGES;
    let sizes: Vec<u64> = (1..16).map(|part| part * 125).filter(|size| *size > slack).collect();
    assert!(!sizes.is_empty());
    let below: Vec<u64> = sizes.iter().map(|size| size - slack).collect();
    let above: Vec<u64> = sizes.iter().map(|size| size + slack).collect();
    let [most, least] = [below, above].map(|sizes| lru_faults(&truth, &sizes));
    for (place, faults) in lru_faults(&seen, &sizes).into_iter().enumerate() {
        let others = touched - 2000;
        assert!(
            (least[place]..=most[place] + others * epochs.epochs).contains(&faults),
            "{} pages: {faults} are not within {} and {}",
            sizes[place],
            least[place],
            most[place]
        );
    }
}

/// Every third page, and the first two and four of eight: pages between them are not in the trace.
#[test]
fn without_a_budget_only_what_is_touched_is_recorded() {
    if !can_record() {
        return;
    }
    let (folder, sparse) = (tempfile::tempdir().unwrap(), program("sparse"));
    let path = folder.path().join("t.swt");
    for [stride, together] in [["3", "1"], ["8", "2"], ["8", "4"]] {
        let words = [path_of(&sparse), "1000", stride, together];
        let touched = 1000 * together.parse::<u64>().unwrap();
        let (trace, said) = recorded(&path, &["--overhead", "none"], &words);
        assert_eq!(text(&said.stdout), "right", "{words:?}");
        let seen = trace.header().totals.distinct_pages;
        assert!((touched..touched + OTHER_PAGES).contains(&seen), "{words:?}: {seen}");
    }
}

/// What is downstream of a recording takes it, and says from which size counts hold. One recording
/// serves for all commands, because it takes seconds.
#[test]
fn a_live_recording_goes_through_the_whole_command() {
    if !can_record() {
        return;
    }
    let (folder, order) = (tempfile::tempdir().unwrap(), program("order"));
    let path = folder.path().join("t.swt");
    let (trace, _) = recorded(&path, &[], &[path_of(&order), "1000", "20000", "3"]);
    let window = trace.header().metadata.epochs.unwrap().largest_pages;
    let run = |arguments: &[&str]| {
        let output = output(sweephand().args(arguments).arg(&path).current_dir(&folder));
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (_, said) = run(&["simulate", "-m", "50%", "-p", "lru,clock"]);
    assert!(said.contains(&format!("counts hold from {window} pages up")), "{said}");
    let (table, _) = run(&["simulate", "-m", &format!("{}p,{window}p", window - 1), "-p", "opt,lru,clock"]);
    for policy in ["opt", "lru", "clock"] {
        let row = table.lines().find(|line| line.split_whitespace().next() == Some(policy));
        let cells: Vec<_> = row.into_iter().flat_map(str::split_whitespace).skip(1).collect();
        assert!(cells.len() == 2 && cells[0] == "?" && cells[1] != "?", "{policy}: {table}");
    }
    assert!(table.contains("faults are missing from the recording"), "{table}");
    let (info, _) = run(&["info", "--format", "json"]);
    if let Some(Err(error)) = keeps_to("info.json", &info, folder.path()) {
        panic!("{error}: {info}");
    }
    run(&["info"]);
    run(&["report", "-o", "report.html"]);
    // Epochs of all pages tell nothing about less memory; short ones do. Which these are depends on
    // the machine.
    let advise = |trace: &Path| output(sweephand().arg("advise").arg(trace).current_dir(&folder));
    if window >= trace.header().totals.distinct_pages {
        let refused = advise(&path);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused.stderr).contains("there is no advice. In less than "),
            "{}",
            text(&refused.stderr)
        );
    }
    let short = folder.path().join("short.swt");
    recorded(&short, &["--overhead", "none"], &[path_of(&order), "1000", "20000", "3"]);
    let advice = advise(&short);
    assert!(advice.status.success(), "{}", text(&advice.stderr));
}

#[test]
fn programs_that_fork_move_drop_and_guard_memory_get_their_own_contents() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let all = [cases::HUGE_PAGES, cases::THREADS, cases::CHANGES, cases::MOVES, cases::FORKS];
    for case in all.iter().filter_map(|cases| cases.first()) {
        let (path, program) = (folder.path().join("t.swt"), program(case.program));
        let words = [&[path_of(&program)], case.arguments].concat();
        let (_, said) = recorded(&path, &["--window", "8", "--overhead", "100%"], &words);
        assert_eq!(text(&said.stdout).lines().last(), Some("right"), "{case:?}");
    }
}

#[test]
fn a_killed_recorder_leaves_a_trace_and_a_program_that_goes_on() {
    if !can_record() {
        return;
    }
    let (folder, order) = (tempfile::tempdir().unwrap(), program("order"));
    for round in 0..5 {
        let _input = trying(|| format!("killed after {} ms", 60 * round));
        let path = folder.path().join(format!("{round}.swt"));
        let printed = folder.path().join(format!("{round}.txt"));
        let mut recorder = record(&path, &["--", path_of(&order), "1000", "20000", "5"]);
        recorder.stdout(fs::File::create(&printed).unwrap()).stderr(Stdio::null());
        let mut recorder = spawn(&mut recorder);
        starts(&recorder, "order");
        std::thread::sleep(Duration::from_millis(60 * round));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        eventually(|| fs::read_to_string(&printed).is_ok_and(|printed| printed == "right\n"));
        eventually(|| path.exists());
        let trace = Trace::open(&path).unwrap();
        let metadata = &trace.header().metadata;
        assert_eq!((metadata.complete, metadata.ended.as_str()), (false, "the recorder was killed"));
    }
}

/// The trace is on a disk of its own that becomes full. It ends there, and the program goes on.
#[test]
fn a_full_disk_ends_the_trace_and_not_the_program() {
    /// In a mount namespace, so that the disk is gone when the shell is.
    const SCRIPT: &str = r#"mount -t tmpfs -o size=4200k none "$0" || exit 9
        "$1" record --live --overhead none --window 8 -o "$0/t.swt" -- "$2" 32 2 200000
        status=$?; cp "$0/t.swt" "$3"; exit $status"#;
    if !can_record() || !rustix::process::geteuid().is_root() {
        return;
    }
    let (folder, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (copy, program) = (folder.path().join("t.swt"), program("threads"));
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", SCRIPT]).arg(disk.path()).args([
        Path::new(SWEEPHAND),
        &program,
        &copy,
    ]);
    let output = output(&mut shell);
    let said = text(&output.stderr);
    if output.status.code() == Some(9) {
        skip(Need::Root, format_args!("a full disk: {said}"));
        return;
    }
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.ends_with("t.swt: the disk is full; the trace ends there"), "{said}");
    assert_eq!(text(&output.stdout), "right");
    let trace = Trace::open(&copy).unwrap();
    let header = trace.header();
    assert_eq!((header.metadata.complete, header.metadata.ended.as_str()), (false, "the disk was full"));
    assert!(header.totals.records >= 1 << 16, "{}", header.totals.records);
    trace.verify(&mut |_| {}).unwrap();
}

/// Its children need nothing of the recorder: what it kept on the disk is gone.
#[test]
fn a_program_that_forks_goes_on_when_its_recorder_is_killed() {
    if !can_record() {
        return;
    }
    let (folder, forks) = (tempfile::tempdir().unwrap(), program("forks"));
    // Most of the times are within the start of the program, and of its pager.
    for (round, milliseconds) in [0, 0, 0, 1, 1, 2, 3, 5, 100, 200].into_iter().enumerate() {
        let _input = trying(|| format!("killed after {milliseconds} ms"));
        let path = folder.path().join(format!("{round}.swt"));
        let printed = folder.path().join(format!("{round}.txt"));
        let mut recorder = record(&path, &["--", path_of(&forks), "32", "3", "2"]);
        recorder.stdout(fs::File::create(&printed).unwrap()).stderr(Stdio::null());
        let mut recorder = spawn(&mut recorder);
        starts(&recorder, "forks");
        std::thread::sleep(Duration::from_millis(milliseconds));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        eventually(|| !read_text(&printed).is_empty());
        assert_eq!(read_text(&printed).lines().last(), Some("right"));
    }
}

/// Waits until a recorder has started its program.
fn starts(recorder: &Running, name: &str) {
    let is_it = |pid: u32| {
        let called = fs::read_to_string(format!("/proc/{pid}/comm"));
        called.is_ok_and(|called| called.trim_end() == name)
    };
    eventually(|| descendants(recorder.id()).into_iter().any(is_it));
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it does not come to this");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_programs_status_and_signals_are_its_own() {
    if !can_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.swt");
    let status = |script: &str| output(&mut record(&path, &["--", "sh", "-c", script])).status.code();
    assert_eq!(status("exit 5"), Some(5));
    assert_eq!(status("kill -TERM $$"), Some(128 + 15));
    let trace = Trace::open(&path).unwrap();
    assert_eq!(trace.header().metadata.ended, "was ended by signal 15");
    // What a launcher touches is not the program's.
    let (trace, _) = recorded(&path, &[], &["env", "sh", "-c", "exec true"]);
    assert_eq!(trace.header().metadata.program, "true");
}

#[test]
fn children_have_traces_of_their_own_if_that_is_asked_for() {
    if !can_record() {
        return;
    }
    let (folder, order) = (tempfile::tempdir().unwrap(), program("order"));
    let path = folder.path().join("all.traces");
    let script = format!("{0} 300 2000 1 & {0} 400 2000 2; wait", path_of(&order));
    let output = output(&mut record(&path, &["--children", "--", "sh", "-c", &script]));
    assert_eq!(text(&output.stdout), "right\nright", "{}", text(&output.stderr));
    let traces = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let of_order: Vec<PathBuf> =
        traces.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("order-")).collect();
    let mut pages: Vec<u64> =
        of_order.iter().map(|path| Trace::open(path).unwrap().header().totals.distinct_pages).collect();
    pages.sort_unstable();
    assert_eq!(pages.len(), 2, "{of_order:?}");
    assert!((300..400).contains(&pages[0]) && (400..500).contains(&pages[1]), "{pages:?}");
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.swt");
    let refused = |command: &mut Command, words: &str| {
        let output = output(command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(&mut record(&path, &["--window", "4", "--", "true"]), "at least 8 pages");
    refused(&mut record(&path, &["--min-object", "1MiB", "--", "true"]), "cannot be used with");
    if !can_record() {
        return;
    }
    let fixed = compiled("spin", &["-static"]);
    refused(&mut record(&path, &["--", path_of(&fixed)]), "sweephand watch sees such programs");
    refused(&mut record(Path::new("/no/such/t.swt"), &["--", "true"]), "/no/such/t.swt");
    if rustix::process::geteuid().is_root() {
        let copy = workshop().join("sweephand-for-nobody-live");
        fs::copy(SWEEPHAND, &copy).unwrap();
        let mut own = command(&copy);
        own.args(["record", "--live", "-o", "/tmp/none.swt", "--", "true"]).uid(NOBODY);
        let allowed = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
        if allowed.trim() == "0" {
            refused(&mut own, "userfaultfd is missing");
        }
        fs::remove_file(copy).unwrap();
    }
}
