//! `sweephand watch` and `advise --pid`: processes seen from outside, and left as they are.
//!
//! `epochs.c` uses pages by a pattern when it is told to, and verifies every word at the end. Where
//! accessed bits cannot be had (these tests want root and BPF), the tests check that the command
//! says what is missing.

mod live;
mod schema;
mod watching;

use live::*;
use schema::keeps_to;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use sweephand_checks::{Need, skip, trying};
use sweephand_trace::{Chunk, Trace};
use watching::Watch;

/// A user who is nobody else here.
const NOBODY: u32 = 65534;
const PAGES: u64 = 20_000;

/// The program, waiting for orders.
struct Subject {
    process: Running,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    first_page: u64,
}

impl Subject {
    fn start(options: &[&str], then: &[&str]) -> Self {
        Self::start_by(&[], options, then)
    }

    /// Has it started by a launcher.
    fn start_by(launcher: &[&str], options: &[&str], then: &[&str]) -> Self {
        let epochs = compiled("epochs", options);
        let mut program = match launcher {
            [] => command(epochs),
            [launcher, words @ ..] => {
                let mut program = command(launcher);
                program.args(words).arg(epochs);
                program
            }
        };
        program.arg(PAGES.to_string()).args(then).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn(&mut program);
        let orders = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = answers.next().unwrap().unwrap();
        let first_page = said.strip_prefix("at ").unwrap().parse().unwrap();
        Self { process, orders, answers, first_page }
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.answers.next().unwrap().unwrap()
    }

    /// Has it use every `step`th page, and returns them.
    fn use_every(&mut self, step: u64) -> BTreeSet<u64> {
        assert_eq!(self.order(&step.to_string()), format!("used {step}"));
        (0..PAGES).step_by(step as usize).map(|page| self.first_page + page).collect()
    }

    /// It ends, and has found every word as it was.
    fn ends_right(mut self) {
        assert_eq!(self.order("q"), "right");
        assert!(self.process.wait().unwrap().success());
    }
}

fn watch(arguments: &[&str], process: u32) -> Watch {
    Watch::start("watch.json", &[arguments, &[&process.to_string()]].concat())
}

/// Whether processes can be watched here.
fn can_watch() -> bool {
    watching::can_watch("--pid")
}

fn place(name: &str) -> PathBuf {
    let path = workshop().join(name);
    let _ = fs::remove_file(&path);
    path
}

/// The epochs of a trace: the pages of each, by number.
fn epochs(path: &Path) -> Vec<BTreeSet<u64>> {
    let trace = Trace::open(path).unwrap();
    let (mut chunk, mut numbers, mut all) = (Chunk::new(), Vec::new(), Vec::new());
    let mut epoch = BTreeSet::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
        let mut events = chunk.events.iter().peekable();
        for at in 0..=chunk.references.len() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize == at) {
                if matches!(event, sweephand_trace::Event::Mark { .. }) {
                    all.push(std::mem::take(&mut epoch));
                }
            }
            if let Some(reference) = chunk.references.get(at) {
                assert!(epoch.insert(numbers[reference.page() as usize]), "once an epoch");
            }
        }
    }
    all
}

/// Uses of pages are told exactly, by lines and in the trace, for a dynamic and a static program.
#[test]
fn an_epoch_has_the_pages_that_were_used_in_it() {
    if !can_watch() {
        return;
    }
    for options in [&[][..], &["-static"]] {
        let _input = trying(|| format!("{options:?}"));
        let mut subject = Subject::start(options, &[]);
        let path = place(&format!("exact{}.swt", options.len()));
        let path_text = path.to_str().unwrap();
        let mut watch = watch(&["--every", "400ms", "-o", path_text], subject.process.id());
        let range = subject.first_page..subject.first_page + PAGES;
        watch.next_of("begin");
        let mut used = Vec::new();
        for step in [1, 3, 7, 50] {
            // An epoch has just begun, and lasts longer than the uses.
            let epoch = watch.next_of("epoch");
            used.push(subject.use_every(step));
            let mapping = epoch["mappings"].as_array().unwrap();
            let is_it = |of: &&Value| {
                let first = of["first_page"].as_u64().unwrap();
                (first..first + of["pages"].as_u64().unwrap()).contains(&subject.first_page)
            };
            let mapping = mapping.iter().find(is_it).unwrap();
            assert!(mapping["resident_pages"].as_u64().unwrap() >= PAGES, "{mapping}");
        }
        watch.next_of("epoch");
        subject.ends_right();
        assert_eq!(watch.next_of("end")["words"], "the program ended");
        assert!(watch.process.wait().unwrap().success());
        let seen: Vec<BTreeSet<u64>> =
            epochs(&path).iter().map(|epoch| epoch.range(range.clone()).copied().collect()).collect();
        // In the order of the uses, and nothing besides; the kernel may have cleared some bits for
        // purposes of its own.
        let mut at = 0;
        for (step, expected) in [1, 3, 7, 50].into_iter().zip(used) {
            let mut all = BTreeSet::new();
            // The end of an epoch may come between.
            while expected.difference(&all).count() >= 50 {
                let epoch = seen.get(at).unwrap_or_else(|| panic!("step {step} in no epoch"));
                all.extend(epoch);
                at += 1;
            }
            let lost = expected.difference(&all).count();
            assert!(all.is_subset(&expected), "step {step}: {lost} lost of {}", expected.len());
        }
        let info = output(sweephand().args(["info", path_text]));
        assert!(text(&info.stdout).contains("epochs "), "{}", text(&info.stdout));
        let simulated = output(sweephand().args(["simulate", path_text, "--policy", "lru,clock"]));
        assert!(simulated.status.success(), "{}", text(&simulated.stderr));
        assert!(text(&simulated.stderr).contains("epochs"), "{}", text(&simulated.stderr));
        // One of the epochs has all pages.
        let advice = output(sweephand().args(["advise", path_text]));
        assert_eq!(advice.status.code(), Some(2));
        assert!(text(&advice.stderr).contains("shorter epochs (--every)"), "{}", text(&advice.stderr));
    }
}

/// A process that becomes another program is watched on; one that it starts is reported.
#[test]
fn exec_is_followed_and_fork_is_reported() {
    if !can_watch() {
        return;
    }
    let program = program("epochs");
    let mut subject = Subject::start(&[], &[program.to_str().unwrap(), "3000"]);
    let path = place("exec.swt");
    let mut watch = watch(&["--every", "200ms", "-o", path.to_str().unwrap()], subject.process.id());
    watch.next_of("epoch");
    let forked = subject.order("f");
    let child: u64 = forked.strip_prefix("forked ").unwrap().parse().unwrap();
    assert_eq!(watch.next_of("fork")["pid"].as_u64(), Some(child));
    // The new program says where its memory is.
    let at = subject.order("e");
    subject.first_page = at.strip_prefix("at ").unwrap().parse().unwrap();
    assert_eq!(watch.next_of("exec")["program"], "epochs");
    let after = watch.next_of("epoch");
    assert!(after["resident_pages"].as_u64().unwrap() > 3000, "{after}");
    subject.ends_right();
    watch.next_of("end");
    assert!(watch.process.wait().unwrap().success());
    let notes = Trace::open(&path).unwrap().header().metadata.notes.clone();
    assert!(notes.iter().any(|note| note.contains("became another program")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains(&format!("process {child}"))), "{notes:?}");
}

/// The program goes on unharmed when the watcher is killed, and the trace is there.
#[test]
fn a_killed_watcher_leaves_the_program_and_a_readable_trace() {
    if !can_watch() {
        return;
    }
    for round in 0..5 {
        let _input = trying(|| format!("round {round}"));
        let mut subject = Subject::start(&[], &[]);
        let path = place("killed.swt");
        let mut watch = watch(&["--every", "100ms", "-o", path.to_str().unwrap()], subject.process.id());
        // Before the first epoch there is a look that only clears bits.
        watch.next_of("epoch");
        for step in 1..3 {
            subject.use_every(step);
            watch.next_of("epoch");
        }
        std::thread::sleep(Duration::from_millis(37 * round));
        watch.process.kill().unwrap();
        watch.process.wait().unwrap();
        subject.use_every(5);
        subject.ends_right();
        let mut patience = 100;
        while !path.exists() && patience > 0 {
            std::thread::sleep(Duration::from_millis(100));
            patience -= 1;
        }
        let trace = Trace::open(&path).unwrap();
        let metadata = &trace.header().metadata;
        assert!(!metadata.complete && metadata.ended == "the watcher was killed", "{metadata:?}");
        assert!(metadata.epochs.unwrap().epochs >= 2 && trace.header().totals.records >= PAGES);
    }
}

/// `watch -- PROGRAM` and `advise --pid`.
#[test]
fn a_program_is_started_and_its_status_is_passed_on() {
    if !can_watch() {
        return;
    }
    let ended =
        output(sweephand().args(["watch", "--every", "100ms", "--", "sh", "-c", "sleep 0.5; exit 7"]));
    assert_eq!(ended.status.code(), Some(7), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).contains("the program ended"), "{}", text(&ended.stdout));
    let mut subject = Subject::start(&[], &[]);
    let pid = subject.process.id().to_string();
    let advise = spawn(
        sweephand()
            .args(["advise", "--pid", &pid, "--for", "1s", "--every", "250ms", "--format", "json"])
            .args(["--overhead", "100%"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    for _ in 0..100 {
        subject.use_every(2);
        std::thread::sleep(Duration::from_millis(20));
    }
    let advice = advise.output();
    assert!(advice.status.success(), "{}", text(&advice.stderr));
    let document = text(&advice.stdout);
    if let Some(Err(error)) = keeps_to("advise-live.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {document}");
    }
    let advice: Value = serde_json::from_str(&document).unwrap();
    let most = advice["enough_at_most_pages"].as_u64().unwrap();
    assert!((PAGES / 2..PAGES / 2 + 500).contains(&most), "{document}");
    subject.ends_right();
}

/// `--listen` tells the last epoch over HTTP, of a process and of a service.
#[test]
fn the_last_epoch_is_told_to_prometheus() {
    if !can_watch() {
        return;
    }
    let mut subject = Subject::start(&[], &[]);
    let pid = subject.process.id().to_string();
    for option in ["--pid", "--tree"] {
        let _input = trying(|| option.to_owned());
        let mut watch = sweephand();
        watch.args(["watch", option, &pid, "--every", "200ms", "--overhead", "100%", "--device", "ssd"]);
        watch.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut watch = spawn(&mut watch);
        let mut said = BufReader::new(watch.stderr.take().unwrap()).lines();
        let address = said.by_ref().find_map(|line| {
            let line = line.unwrap();
            let address = line.strip_prefix("sweephand: http://")?.strip_suffix("/metrics")?;
            Some(address.to_string())
        });
        let address = address.unwrap();
        let mut metrics = String::new();
        let value = |metrics: &str, name: &str| -> Option<f64> {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line?.parse().ok()
        };
        for _ in 0..100 {
            subject.use_every(2);
            let mut stream = TcpStream::connect(&address).unwrap();
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            metrics.clear();
            stream.read_to_string(&mut metrics).unwrap();
            if value(&metrics, "sweephand_epochs").is_some_and(|epochs| epochs >= 3.0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
        let pages =
            |name: &str| value(&metrics, name).unwrap_or_else(|| panic!("{name}: {metrics}")) / 4096.0;
        assert_eq!(value(&metrics, "sweephand_processes"), Some(1.0), "{metrics}");
        assert!(pages("sweephand_resident_bytes") >= PAGES as f64, "{metrics}");
        let half = PAGES as f64 / 2.0;
        let least = pages("sweephand_least_memory_bytes{slowdown=\"1.05\",bound=\"at_most\"}");
        assert!((half * 0.9..half * 1.2).contains(&least), "{metrics}");
        assert!(metrics.contains(&format!("target=\"{option} {pid}\"")), "{metrics}");
        // A second watch cannot listen at the same place.
        let taken = ["watch", option, &pid, "--for", "1s", "--listen", &address];
        let taken = output(sweephand().args(taken));
        let said = text(&taken.stderr);
        assert_eq!((taken.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("--listen {address}: cannot listen there")), "{said}");
        // Nor can it look at the same process: each would clear what the other reads.
        let second = output(sweephand().args(["watch", option, &pid, "--for", "1s"]));
        let said = text(&second.stderr);
        assert_eq!((second.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("process {pid}: another watch clears its accessed bits")), "{said}");
        watch.kill().unwrap();
        watch.wait().unwrap();
    }
    subject.ends_right();
    let refused = output(sweephand().args(["watch", "--listen", "0.0.0.0:0", &pid]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("only this machine may connect"), "{}", text(&refused.stderr));
}

/// In a namespace of its own a process has another number, and many mappings are no hindrance.
#[test]
fn processes_in_namespaces_and_with_very_many_mappings_are_watched() {
    if !can_watch() {
        return;
    }
    let unshare = ["unshare", "--pid", "--mount", "--fork", "--kill-child"];
    let mut subject = Subject::start_by(&unshare, &[], &[]);
    let inside = descendants(subject.process.id());
    assert_eq!(inside.len(), 1, "{inside:?}");
    assert_eq!(subject.order("m"), "mapped");
    let mut watch = watch(&["--every", "300ms"], inside[0]);
    watch.next_of("epoch");
    let used = subject.use_every(2).len() as u64;
    // The end of an epoch may come between the uses.
    let mut seen = 0;
    let mut epoch = watch.next_of("epoch");
    for _ in 0..3 {
        seen += epoch["used_pages"].as_u64().unwrap();
        epoch = watch.next_of("epoch");
    }
    assert!((used - 50..used + 1000).contains(&seen), "{seen} of {used}");
    assert!(epoch["mappings"].as_array().unwrap().len() > 14_000);
    subject.ends_right();
    watch.next_of("end");
}

/// Where all pages cost too much, a sample says how many were used, and how exactly it knows.
#[test]
fn a_sample_of_the_pages_holds_the_budget() {
    if !can_watch() {
        return;
    }
    let mut subject = Subject::start(&[], &[]);
    let path = place("sampled.swt");
    let budget = ["--every", "300ms", "--overhead", "1%"];
    let options = [&budget[..], &["-o", path.to_str().unwrap()]].concat();
    let mut watch = watch(&options, subject.process.id());
    // All pages would cost some 10 ms, and 3 ms are allowed.
    watch.next_of("epoch");
    let mut sampled = 0;
    for _ in 0..12 {
        subject.use_every(1);
        let epoch = watch.next_of("epoch");
        let number = |name: &str| epoch[name].as_f64().unwrap();
        if number("one_page_in") > 1.0 {
            sampled += 1;
            let (used, error) = (number("used_pages"), number("used_pages_error"));
            assert!((used - PAGES as f64).abs() < 4.0 * error + 1000.0, "{epoch}");
        }
    }
    assert!(sampled >= 3, "{sampled} epochs with a sample");
    subject.ends_right();
    watch.next_of("end");
    let info = output(sweephand().args(["info", path.to_str().unwrap()]));
    assert!(text(&info.stdout).contains("it holds one page in"), "{}", text(&info.stdout));
}

/// Programs with a runtime of their own, which start threads and manage their memory.
#[test]
fn go_and_java_are_watched() {
    if !can_watch() {
        return;
    }
    let churn = workshop().join("watched-churn.go.bin");
    let go = ["go", "/usr/local/go/bin/go"].into_iter();
    let mut programs: Vec<Vec<String>> = Vec::new();
    match go.into_iter().find(|go| command(go).arg("version").output().is_ok()) {
        None => skip(Need::Language, "Go"),
        Some(go) => {
            let mut build = command(go);
            build.args(["build", "-o"]).arg(&churn).arg(sources().join("churn.go"));
            build
                .env("CGO_ENABLED", "0")
                .env("GOCACHE", workshop().join("go-cache"))
                .env("GOFLAGS", "-mod=mod");
            assert!(output(&mut build).status.success());
            programs.push(vec![churn.display().to_string(), "48".to_string(), "60".to_string()]);
        }
    }
    let has = |program: &str| command(program).arg("-version").output().is_ok();
    if has("javac") && has("java") {
        let folder = workshop().join("watched-java");
        fs::create_dir_all(&folder).unwrap();
        let mut build = command("javac");
        assert!(output(build.arg("-d").arg(&folder).arg(sources().join("Churn.java"))).status.success());
        let words = ["java", "-XX:+UseSerialGC", "-Xms96m", "-Xmx96m", "-cp", folder.to_str().unwrap()];
        programs.push(words.into_iter().chain(["Churn", "48", "6"]).map(String::from).collect());
    } else {
        skip(Need::Language, "Java");
    }
    for program in programs {
        let mut watch = sweephand();
        watch.args(["watch", "--json", "--every", "100ms", "--overhead", "100%", "--"]).args(&program);
        let output = output(watch.stdin(Stdio::null()));
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("right"), "{program:?}: {said}");
        let printed = text(&output.stdout);
        let epochs = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let used = epochs.filter_map(|line| line["used_pages"].as_u64()).max();
        // It works on 48 MiB.
        assert!(used > Some(4_000), "{program:?}: {used:?}");
    }
}

/// Who may not watch is told in one line what is missing; so is who names no process.
#[test]
fn what_is_missing_is_named() {
    let refused = |command: &mut Command, status: i32, words: &str| {
        let output = output(command.stdin(Stdio::null()));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{said}");
        assert!(said.contains(words), "{said}");
    };
    let mut own = sweephand();
    own.args(["watch", &std::process::id().to_string()]);
    if rustix::process::geteuid().is_root() {
        // The command is copied to where this user may read it.
        let copy = place("sweephand-for-nobody");
        fs::copy(SWEEPHAND, &copy).unwrap();
        let mut own = command(&copy);
        own.args(["watch", &std::process::id().to_string()]).uid(NOBODY);
        refused(&mut own, 2, "root is missing");
        fs::remove_file(copy).unwrap();
    } else {
        refused(&mut own, 2, "root is missing");
        return;
    }
    if can_watch() {
        refused(sweephand().args(["watch", "4194305"]), 2, "process 4194305: there is none");
        // A thread of the kernel.
        refused(sweephand().args(["watch", "2"]), 2, "process 2: there is none");
        let mut nowhere = sweephand();
        let sleeper = spawn(command("sleep").arg("600"));
        nowhere.args(["watch", "-o", "/no/such/place.swt", &sleeper.id().to_string()]);
        let output = output(&mut nowhere);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("/no/such/place.swt"), "{}", text(&output.stderr));
    }
}
