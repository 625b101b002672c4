//! `sweephand watch` and `advise` of services: several processes, and each page once.
//!
//! `prefork.c` shares memory with its workers, from before the fork and otherwise. Where accessed
//! bits cannot be had (these tests want root and BPF), the tests check that the command says what
//! is missing.

mod live;
mod schema;
mod watching;

use live::*;
use schema::keeps_to;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use sweephand_checks::{Need, skip, trying};
use sweephand_trace::Trace;
use watching::Watch;

/// Pages that the server has from before the fork, and as many of shared memory.
const PAGES: u64 = 10_000;
/// A process has this many pages of its own at most, besides those: its stack, and what the C
/// library keeps.
const OWN_PAGES: u64 = 100;

/// The least that a watch sees of this many pages that were used: if a look comes just then, it
/// misses what is used between its reading and its clearing.
fn most_of(pages: u64) -> u64 {
    pages * 9 / 10
}

/// The server with its workers, waiting for orders.
struct Server {
    process: Running,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(workers: u32, enter: impl FnOnce(&mut Command)) -> Self {
        let mut program = command(program("prefork"));
        program.arg(PAGES.to_string()).arg(workers.to_string());
        enter(program.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut process = spawn(&mut program);
        let orders = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "forked");
        Self { process, orders, answers }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        assert_eq!(self.answers.next().unwrap().unwrap(), "done", "{order}");
    }

    /// It ends, and has found every word as it was.
    fn ends_right(mut self) {
        writeln!(self.orders, "q").unwrap();
        assert_eq!(self.answers.next().unwrap().unwrap(), "right");
        assert!(self.process.wait().unwrap().success());
    }
}

fn watch(arguments: &[&str]) -> Watch {
    Watch::start("watch-service.json", &[arguments, &["--every", "400ms"]].concat())
}

fn number(line: &Value, path: &str) -> u64 {
    line.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {line}"))
}

/// Whether services can be watched here.
fn can_watch() -> bool {
    watching::can_watch("--tree")
}

/// What an order has used, which is carried out within an epoch or in two. On a busy machine, some
/// lines that come first are of epochs before it, in which next to nothing was used.
fn used_by(server: &mut Server, watch: &mut Watch, order: &str) -> (u64, u64) {
    const FEW: u64 = 500;
    const MOST_EPOCHS: usize = 50;
    watch.next_of("epoch");
    server.order(order);
    let (mut anonymous, mut shared) = (0, 0);
    for _ in 0..MOST_EPOCHS {
        let is_second = anonymous + shared > FEW;
        let epoch = watch.next_of("epoch");
        anonymous += number(&epoch, "/used/anonymous");
        shared += number(&epoch, "/used/shared");
        if is_second {
            break;
        }
    }
    (anonymous, shared)
}

/// Pages that workers share with the server since the fork, and shared memory, count once, and
/// their use is known.
#[test]
fn pages_of_a_server_that_forks_beforehand_count_once() {
    if !can_watch() {
        return;
    }
    const WORKERS: u64 = 6;
    let mut server = Server::start(WORKERS as u32, |_| {});
    let pid = server.process.id().to_string();
    let mut watch = watch(&["--tree", &pid]);
    assert_eq!(watch.next_of("begin")["processes"].as_array().unwrap().len() as u64, 1 + WORKERS);
    let slack = (1 + WORKERS) * OWN_PAGES;
    for step in [1, 7] {
        let _input = trying(|| format!("every {step}th page"));
        let (anonymous, shared) = used_by(&mut server, &mut watch, &format!("u {step}"));
        let expected = PAGES.div_ceil(step);
        let seen = |pages: u64, more: u64| (most_of(expected)..expected + more).contains(&pages);
        assert!(seen(anonymous, slack) && seen(shared, 50), "{anonymous} and {shared} of {expected}");
    }
    // The worker has mapped all pages of the shared memory by now.
    let before = watch.next_of("epoch");
    assert!((PAGES..PAGES + slack).contains(&number(&before, "/resident/anonymous")), "{before}");
    assert!((PAGES..PAGES + 50).contains(&number(&before, "/resident/shared")), "{before}");
    let of_all = before["processes"].as_array().unwrap().iter();
    let counted_in_each: u64 = of_all.map(|process| number(process, "/resident_pages")).sum();
    assert!(counted_in_each > WORKERS * PAGES, "{before}");
    // What a worker writes to is its own from then on.
    let (anonymous, _) = used_by(&mut server, &mut watch, "w 3000");
    assert!((most_of(3000)..3000 + 3000 + slack).contains(&anonymous), "{anonymous}");
    let after = number(&watch.next_of("epoch"), "/resident/anonymous");
    assert!((PAGES + 3000..PAGES + 3000 + slack).contains(&after), "{after}");
    server.ends_right();
    watch.ends_with("the service ended");
}

/// A process is in the watch from its first epoch, and what it has alone goes with it.
#[test]
fn processes_come_and_go_in_a_tree() {
    if !can_watch() {
        return;
    }
    let mut server = Server::start(1, |_| {});
    let path = workshop().join("tree.swt");
    let _ = fs::remove_file(&path);
    let pid = server.process.id().to_string();
    let mut watch = watch(&["--tree", &pid, "-o", path.to_str().unwrap()]);
    watch.next_of("epoch");
    watch.next_of("epoch");
    // The new worker uses all pages at once.
    server.order("f");
    assert_eq!(watch.next_of("came")["program"], "prefork");
    let first = watch.next_of("epoch");
    assert_eq!((first["processes"].as_array().unwrap().len(), number(&first, "/unknown_pages")), (3, 0));
    let second = watch.next_of("epoch");
    let both = |path: &str| number(&first, path) + number(&second, path);
    let (anonymous, shared) = (both("/used/anonymous"), both("/used/shared"));
    assert!(anonymous > most_of(PAGES) && shared > most_of(PAGES), "{first} {second}");
    let idle = watch.next_of("epoch");
    assert!(number(&idle, "/used_pages") < 500, "{idle}");
    server.order("k");
    assert_eq!(watch.next_of("went")["program"], "prefork");
    let after = watch.next_of("epoch");
    assert_eq!(after["processes"].as_array().unwrap().len(), 2);
    // The pages from before the fork are still the server's.
    assert!(number(&after, "/resident/anonymous") >= PAGES, "{after}");
    server.ends_right();
    watch.ends_with("the service ended");
    assert!(Trace::open(&path).unwrap().header().totals.records > most_of(2 * PAGES));
    let simulated = output(sweephand().args(["simulate", path.to_str().unwrap(), "--policy", "lru"]));
    assert!(simulated.status.success(), "{}", text(&simulated.stderr));
}

/// A memory cgroup for a test, removed at its end.
struct TestCgroup(PathBuf);

impl TestCgroup {
    /// `None`: there is no memory controller here.
    fn make() -> Option<Self> {
        let mounts = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(PathBuf::from);
        let files = ["memory.limit_in_bytes", "memory.stat"];
        let mount = mounts.iter().find(|mount| files.iter().any(|file| mount.join(file).exists()));
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = mount?.join(format!("sweephand-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        path.join("memory.stat").exists().then_some(Self(path))
    }

    /// Puts a program in it.
    fn holds(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt;
        let members = self.0.join("cgroup.procs");
        // SAFETY: between fork and exec it writes a file, with memory that it has already.
        unsafe { command.pre_exec(move || fs::write(&members, "0")) };
    }

    /// The file with the limit that a trial lowers.
    fn limit_file(&self) -> PathBuf {
        let files = ["memory.limit_in_bytes", "memory.high"].map(|file| self.0.join(file));
        files.into_iter().find(|file| file.exists()).unwrap()
    }

    fn limit(&self) -> String {
        fs::read_to_string(self.limit_file()).unwrap().trim().to_string()
    }

    /// Waits until the limit is another than this, or again this.
    fn wait_until_limit(&self, is: bool, limit: &str) {
        let start = Instant::now();
        while (self.limit() == limit) != is {
            assert!(start.elapsed() < Duration::from_secs(60), "the limit is {} for too long", self.limit());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Bytes of one of some names.
    fn stat(&self, names: [&str; 2]) -> u64 {
        let stat = fs::read_to_string(self.0.join("memory.stat")).unwrap();
        let counts: BTreeMap<&str, u64> = stat
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, of)| (name, of.parse().unwrap()))
            .collect();
        names.iter().find_map(|name| counts.get(name)).copied().unwrap()
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // Processes that have just been ended may still be there.
        let removed = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            fs::remove_dir(&self.0).is_ok()
        });
        assert!(removed || std::thread::panicking(), "{} is left over", self.0.display());
    }
}

/// What a cgroup has mapped is what the kernel has charged to it, before and after forks.
#[test]
fn a_cgroup_has_the_pages_that_the_kernel_charges_to_it() {
    if !can_watch() {
        return;
    }
    let Some(cgroup) = TestCgroup::make() else { return skip(Need::Swap, "no memory cgroup") };
    let place = cgroup.0.to_str().unwrap();
    let mut server = Server::start(3, |command| cgroup.holds(command));
    server.order("u 1");
    let mut watch = watch(&["--cgroup", place]);
    let agrees = |watch: &mut Watch| {
        // The kernel gathers its counts every two seconds.
        let epoch = (0..8).map(|_| watch.next_of("epoch")).last().unwrap();
        let anonymous = cgroup.stat(["rss", "anon"]);
        let mapped = cgroup.stat(["mapped_file", "file_mapped"]);
        let near = |pages: u64, bytes: u64| (pages as f64 * 4096.0 / bytes as f64 - 1.0).abs() < 0.02;
        assert!(near(number(&epoch, "/resident/anonymous"), anonymous), "{anonymous}: {epoch}");
        let of = |kind: &str| {
            let elsewhere = number(&epoch, &format!("/charged_elsewhere/{kind}"));
            number(&epoch, &format!("/resident/{kind}")) - elsewhere
        };
        assert!(near(of("shared") + of("file"), mapped), "{mapped}: {epoch}");
    };
    agrees(&mut watch);
    server.order("f");
    server.order("w 3000");
    agrees(&mut watch);
    // Each of two watches would clear what the other reads.
    let second = output(sweephand().args(["advise", "--for", "1s", "--cgroup", place]));
    let said = text(&second.stderr);
    assert_eq!((second.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("another watch clears its accessed bits"), "{said}");
    drop(watch);
    let how =
        ["--for", "3s", "--every", "250ms", "--overhead", "100%", "--format", "json", "--device", "ssd"];
    let mut advise = sweephand();
    let kept = tempfile::tempdir().unwrap();
    advise.args(["advise", "--cgroup", place]).args(how).arg("--keep").arg(kept.path());
    let mut advise = spawn(advise.stdout(Stdio::piped()).stderr(Stdio::piped()));
    while advise.try_wait().unwrap().is_none() {
        server.order("u 2");
        std::thread::sleep(Duration::from_millis(20));
    }
    let advice = advise.output();
    let document = text(&advice.stdout);
    assert!(advice.status.success(), "{}", text(&advice.stderr));
    if let Some(Err(error)) = keeps_to("advise-live.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {document}");
    }
    let advice: Value = serde_json::from_str(&document).unwrap();
    // Every other page from before the fork, and of the shared memory.
    let most = number(&advice, "/enough_at_most_pages");
    assert!((most_of(PAGES)..PAGES + 5 * OWN_PAGES).contains(&most), "{document}");
    // These and what else the cgroup is charged for: all other pages are not used.
    let (high, pages) = (number(&advice, "/limits/high_bytes"), number(&advice, "/limits/pages_bytes"));
    assert!((most_of(PAGES) * 4096..(PAGES + 5 * OWN_PAGES) * 4096).contains(&pages), "{document}");
    let others = number(&advice, "/limits/kernel_bytes") + number(&advice, "/limits/unseen_bytes");
    assert!((pages + others..=pages + others + (1 << 20)).contains(&high), "{document}");
    let charged = number(&advice, "/limits/charged_bytes");
    assert!((PAGES * 2 * 4096..PAGES * 3 * 4096).contains(&charged), "{document}");
    assert_eq!(advice["limits"]["saved_bytes"], charged.cast_signed() - high.cast_signed());
    assert!(advice["needs"]["shortness"].as_str().unwrap().contains("The watch was short"), "{document}");
    let sizes = advice["curve"]["sizes"].as_array().unwrap();
    assert!(sizes.len() > 30 && sizes[0]["slowdown"].as_f64() > sizes[sizes.len() - 1]["slowdown"].as_f64());
    has_kept_an_hour(kept.path(), place, &advice);
    server.ends_right();
}

/// A cgroup may be empty, at the start and later, and a file of it stands for it.
#[test]
fn a_cgroup_that_is_empty_is_watched() {
    if !can_watch() {
        return;
    }
    let Some(cgroup) = TestCgroup::make() else { return skip(Need::Swap, "no memory cgroup") };
    let place = cgroup.0.to_str().unwrap();
    let advice = output(sweephand().args(["advise", "--for", "1s", "--cgroup", place]));
    assert_eq!(advice.status.code(), Some(2));
    let said = text(&advice.stderr);
    assert!(said.contains("there was no epoch in which a page was used"), "{said}");
    let file = cgroup.0.join("cgroup.procs");
    let mut watch = watch(&["--cgroup", file.to_str().unwrap()]);
    assert_eq!(watch.next_of("begin")["processes"], Value::Array(Vec::new()));
    let server = Server::start(1, |command| cgroup.holds(command));
    watch.next_of("came");
    server.ends_right();
    drop(cgroup);
    watch.ends_with("the service ended");
}

/// Where there are descriptors for some processes only, the others are left out.
#[test]
fn processes_that_cannot_be_opened_are_left_out() {
    if !can_watch() {
        return;
    }
    const WORKERS: usize = 20;
    let server = Server::start(WORKERS as u32, |_| {});
    let watch = sweephand();
    let mut few = command(PathBuf::from("sh"));
    few.args(["-c", r#"ulimit -n 120; exec "$0" "$@""#]).arg(watch.get_program());
    let pid = server.process.id().to_string();
    let watched = output(few.args(["watch", "--json", "--for", "2s", "--overhead", "100%", "--tree", &pid]));
    let said = text(&watched.stderr);
    assert!(watched.status.success(), "{said}");
    let left_out = "sweephand: note: processes that cannot be opened are left out: ";
    assert_eq!(said.matches(left_out).count(), 1, "{said}");
    assert!(said.trim_end().ends_with(": Too many open files (os error 24)"), "{said}");
    let lines = text(&watched.stdout);
    let epoch = lines.lines().find(|line| line.contains("\"event\":\"epoch\"")).unwrap();
    if let Some(Err(error)) = keeps_to("watch-service.json", epoch, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {epoch}");
    }
    let epoch: Value = serde_json::from_str(epoch).unwrap();
    let [watched, unopened] = ["processes", "unopened"].map(|of| epoch[of].as_array().unwrap().len());
    assert!(watched > 0 && watched + unopened == 1 + WORKERS, "{epoch}");
    server.ends_right();
}

/// A program that uses a file round and round.
struct Filing {
    process: Running,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Filing {
    fn start(file: &Path, pages: u64, how: &str, enter: impl FnOnce(&mut Command)) -> Self {
        let mut program = command(program("filing"));
        program.arg(file).arg(pages.to_string()).arg(how);
        enter(program.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut process = spawn(&mut program);
        let input = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "ready");
        Self { process, input, answers }
    }

    fn ends(self) {
        let Self { mut process, input, mut answers } = self;
        drop(input);
        assert_eq!(answers.next().unwrap().unwrap(), "right");
        assert!(process.wait().unwrap().success());
    }
}

/// A file that programs of a test use, removed at its end.
struct UsedFile(PathBuf);

impl UsedFile {
    fn of(name: &str) -> Self {
        let path = workshop().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for UsedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Pages of a file that is used.
const FILE_PAGES: u64 = 20_000;

/// Pages of files that were used in an epoch, however that was.
fn used_files(epoch: &Value) -> u64 {
    number(epoch, "/used/cached") + number(epoch, "/used/file")
}

/// They are those of the file that is used, and at most 2 % more: programs and libraries.
fn assert_is_the_file(pages: u64, epoch: &Value) {
    assert!((FILE_PAGES..FILE_PAGES * 102 / 100).contains(&pages), "{epoch}");
}

/// A file that one process reads and another has mapped counts once, and is what the kernel has in
/// its cache. What another process reads does not count.
#[test]
fn a_file_that_is_read_and_mapped_counts_once() {
    if !can_watch() {
        return;
    }
    let Some(cgroup) = TestCgroup::make() else { return skip(Need::Swap, "no memory cgroup") };
    let (file, other) = (UsedFile::of("read"), UsedFile::of("other"));
    let enter = |command: &mut Command| cgroup.holds(command);
    let reader = Filing::start(&file.0, FILE_PAGES, "n", enter);
    let outside = Filing::start(&other.0, FILE_PAGES, "n", |_| {});
    let path = workshop().join("files.swt");
    let _ = fs::remove_file(&path);
    let arguments = ["--cgroup", cgroup.0.to_str().unwrap(), "-o", path.to_str().unwrap()];
    let mut watch = watch(&arguments);
    assert!(watch.next_of("begin")["files_missing"].is_null());
    let epoch = (0..3).map(|_| watch.next_of("epoch")).last().unwrap();
    assert_is_the_file(used_files(&epoch), &epoch);
    assert_is_the_file(number(&epoch, "/used/cached"), &epoch);
    let mapper = Filing::start(&file.0, FILE_PAGES, "m", enter);
    let epoch = (0..6).map(|_| watch.next_of("epoch")).last().unwrap();
    assert_is_the_file(used_files(&epoch), &epoch);
    assert_is_the_file(number(&epoch, "/resident/file"), &epoch);
    assert!(number(&epoch, "/used/file") >= most_of(FILE_PAGES), "{epoch}");
    let in_cache = cgroup.stat(["cache", "file"]) as f64 / 4096.0;
    assert!((used_files(&epoch) as f64 / in_cache - 1.0).abs() < 0.02, "{in_cache}: {epoch}");
    reader.ends();
    // The mapping alone.
    let epoch = (0..3).map(|_| watch.next_of("epoch")).last().unwrap();
    let used = number(&epoch, "/used/file");
    assert!((most_of(FILE_PAGES)..FILE_PAGES * 102 / 100).contains(&used), "{epoch}");
    assert!(number(&epoch, "/used/cached") < FILE_PAGES / 100, "{epoch}");
    mapper.ends();
    outside.ends();
    let idle = (0..3).map(|_| watch.next_of("epoch")).last().unwrap();
    assert_eq!(used_files(&idle), 0, "{idle}");
    let cached = number(&idle, "/cached_pages");
    assert!((cached as f64 / in_cache - 1.0).abs() < 0.02, "{in_cache}: {idle}");
    drop(cgroup);
    watch.ends_with("the service ended");
    // Whatever the file was used for, and whoever used it, its pages had the same numbers.
    let pages = Trace::open(&path).unwrap().header().totals.distinct_pages;
    assert!((FILE_PAGES..FILE_PAGES * 11 / 10).contains(&pages), "{pages} pages");
}

/// What a process writes counts, and ends with the file.
#[test]
fn a_file_that_is_written_counts() {
    if !can_watch() {
        return;
    }
    let file = UsedFile::of("written");
    fs::write(&file.0, vec![1; 4096 * FILE_PAGES as usize]).unwrap();
    let writer = Filing::start(&file.0, FILE_PAGES, "w", |_| {});
    let pid = writer.process.id().to_string();
    let mut watch = watch(&["--tree", &pid]);
    let epoch = (0..3).map(|_| watch.next_of("epoch")).last().unwrap();
    let written = number(&epoch, "/used/cached");
    assert!((FILE_PAGES / 2..FILE_PAGES / 2 * 102 / 100).contains(&written), "{epoch}");
    assert!(epoch["cached_pages"].is_null(), "{epoch}");
    assert_eq!(number(&epoch, "/lost_file_blocks"), 0);
    // There is nothing from the second page on.
    fs::File::options().write(true).open(&file.0).unwrap().set_len(4096).unwrap();
    let dropped: u64 = (0..2).map(|_| number(&watch.next_of("epoch"), "/dropped_pages")).sum();
    assert!(dropped >= FILE_PAGES / 2 - 1, "{dropped} of {FILE_PAGES}");
    writer.ends();
    watch.ends_with("the service ended");
}

/// What there was of an hour is kept, and the need is that of the hour.
fn has_kept_an_hour(folder: &Path, place: &str, advice: &Value) {
    let hours = fs::read_to_string(folder.join("hours.jsonl")).unwrap();
    assert!(hours.starts_with(&format!("{{\"service\":\"--cgroup {place}\"}}\n")), "{hours}");
    let hour: Value = serde_json::from_str(hours.lines().nth(1).unwrap()).unwrap();
    assert_eq!((hours.lines().count(), &hour["start_unix_s"]), (2, &advice["needs"]["began_unix_s"]));
}

/// A swap file for a test, removed at its end.
struct TestSwap(PathBuf);

impl TestSwap {
    /// `None`: swap files cannot be used here.
    fn make() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = workshop().join(format!("services-{}-{number}.swap", std::process::id()));
        let script = "rm -f $0 && fallocate -l 256M $0 && chmod 600 $0 && mkswap $0 && swapon $0";
        let made = output(Command::new("sh").args(["-c", script]).arg(&file));
        let swap = Self(file);
        made.status.success().then_some(swap)
    }
}

impl Drop for TestSwap {
    fn drop(&mut self) {
        let _ = output(Command::new("sh").args(["-c", "swapoff $0; rm -f $0"]).arg(&self.0));
    }
}

/// `served.c` in a cgroup: it has 64 MiB, and uses 24 of them all the time.
struct Served {
    process: Running,
    cgroup: TestCgroup,
    rate: PathBuf,
}

/// The limit of its cgroup.
const SERVED_LIMIT: &str = "134217728";

impl Served {
    fn start(cgroup: TestCgroup) -> Self {
        let rate = workshop().join(cgroup.0.file_name().unwrap());
        let _ = fs::remove_file(&rate);
        fs::write(cgroup.limit_file(), SERVED_LIMIT).unwrap();
        let mut program = command(program("served"));
        program.args(["16384", "6144"]).arg(&rate).stdin(Stdio::piped()).stdout(Stdio::piped());
        cgroup.holds(&mut program);
        let process = spawn(&mut program);
        while fs::read_to_string(&rate).map_or(0, |text| text.len()) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { process, cgroup, rate }
    }

    /// A trial of it, with further options.
    fn trial(&self, options: &[&str]) -> Command {
        let mut trial = sweephand();
        trial.args(["advise", "--try", "--format", "json", "--overhead", "100%", "--slowdown", "2"]);
        trial.arg("--cgroup").arg(&self.cgroup.0).args(["--metric-is", "throughput"]).args(options);
        if !options.contains(&"--metric") {
            trial.args(["--metric", &format!("cat {}", self.rate.display())]);
        }
        trial.stdout(Stdio::piped()).stderr(Stdio::piped());
        trial
    }

    /// A trial that has lowered the limit by now.
    fn lowered(&self) -> Running {
        let mut trial = spawn(&mut self.trial(&["--for", "60s", "--every", "100ms"]));
        while self.cgroup.limit() == SERVED_LIMIT {
            let has_ended = trial.try_wait().unwrap().is_some();
            assert!(!has_ended, "{}", text(&wait(trial).stderr));
            std::thread::sleep(Duration::from_millis(2));
        }
        trial
    }

    fn is_as_before(&self) {
        self.cgroup.wait_until_limit(true, SERVED_LIMIT);
        // After a kill, another process writes this, and only then.
        let start = Instant::now();
        while let Ok(control) = fs::read_to_string(self.cgroup.0.join("memory.oom_control"))
            && !control.contains("oom_kill_disable 0")
        {
            assert!(start.elapsed() < Duration::from_secs(10), "{control}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A trial, as it ended.
fn document_of(ended: &std::process::Output) -> Value {
    let document = text(&ended.stdout);
    if let Some(Err(error)) = keeps_to("advise-try.json", &document, tempfile::tempdir().unwrap().path()) {
        panic!("{error}: {document} {}", text(&ended.stderr));
    }
    serde_json::from_str(&document).unwrap_or_else(|_| panic!("{document} {}", text(&ended.stderr)))
}

/// A trial finds how much memory a service needs. However it ends, the limit is as it was.
#[test]
fn a_trial_finds_what_a_service_needs_and_puts_its_limit_back() {
    if !can_watch() {
        return;
    }
    let Some(cgroup) = TestCgroup::make() else { return skip(Need::Swap, "no memory cgroup") };
    let Some(_swap) = TestSwap::make() else { return skip(Need::Swap, "no swap file") };
    let mut served = Served::start(cgroup);

    let ended = output(&mut served.trial(&["--for", "60s", "--every", "300ms"]));
    served.is_as_before();
    let found = document_of(&ended);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let least = number(&found, "/least_bytes") >> 20;
    assert!((24..30).contains(&least), "{found:#}");
    assert_eq!(found["is_confirmed"], true, "{found:#}");
    let predicted = number(&found, "/predicted/at_most_bytes") >> 20;
    assert!((24..28).contains(&predicted), "{found:#}");

    // The terminal's stop (Ctrl-Z) ends it as well: it would leave the limit lower.
    for sent in ["INT", "TSTP"] {
        let _input = trying(|| sent.to_string());
        let interrupted = served.lowered();
        signal(interrupted.id(), sent);
        let ended = wait(interrupted);
        served.is_as_before();
        assert_eq!((ended.status.code(), &document_of(&ended)["end"]), (Some(2), &Value::from("signal")));
        assert!(text(&ended.stderr).contains("the trial was ended by a signal; the limit is as it was"));
    }

    let mut killed = served.lowered();
    killed.kill().unwrap();
    killed.wait().unwrap();
    served.is_as_before();

    let changed = served.lowered();
    let second = output(&mut served.trial(&[]));
    let said = text(&second.stderr);
    assert_eq!((second.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("another --try is lowering this limit"), "{said}");
    fs::write(served.cgroup.limit_file(), "209715200").unwrap();
    let ended = wait(changed);
    assert_eq!((ended.status.code(), served.cgroup.limit().as_str()), (Some(2), "209715200"));
    assert!(text(&ended.stderr).contains("somebody else has set it to 209715200"), "{}", text(&ended.stderr));
    fs::write(served.cgroup.limit_file(), SERVED_LIMIT).unwrap();

    let last = served.lowered();
    drop(served.process.stdin.take());
    let ended = wait(last);
    assert_eq!((ended.status.code(), &document_of(&ended)["end"]), (Some(0), &Value::from("service-ended")));
    served.is_as_before();
    assert!(served.process.wait().unwrap().success());
}

/// What keeps a trial from beginning is told in a line, and at once.
#[test]
fn trials_that_cannot_be_are_told_in_a_line() {
    if !can_watch() {
        return;
    }
    let Some(cgroup) = TestCgroup::make() else { return skip(Need::Swap, "no memory cgroup") };
    let topmost = cgroup.0.parent().unwrap().to_path_buf();
    let served = Served::start(cgroup);
    let refused = |trial: &mut Command, expected: &str| {
        let refused = output(trial);
        let said = text(&refused.stderr);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(expected), "{said}");
        served.is_as_before();
    };
    let mut of_topmost = sweephand();
    of_topmost.args(["advise", "--try", "--cgroup"]).arg(topmost);
    refused(&mut of_topmost, "the memory controller has no limit here");
    let mut of_none = sweephand();
    of_none.args(["advise", "--try", "--cgroup", "/no/such/cgroup"]);
    refused(&mut of_none, "--cgroup /no/such/cgroup: there is no such cgroup");
    // From inside, where it would wait for memory itself.
    let mut of_own = Command::new("/bin/sh");
    of_own.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$1\" advise --try --cgroup \"$0\""]);
    of_own.arg(&served.cgroup.0).arg(sweephand().get_program());
    refused(&mut of_own, "this command is in this cgroup itself; start it from outside");
    // No swap for this one.
    let files = [("memory.swappiness", "0", "60"), ("memory.swap.max", "0", "max")];
    let has = |(file, ..): &&(&str, &str, &str)| served.cgroup.0.join(file).exists();
    let (file, none, usual) = files.iter().find(has).unwrap();
    fs::write(served.cgroup.0.join(file), none).unwrap();
    refused(&mut served.trial(&[]), "are anonymous or shared memory, for which there is no swap");
    fs::write(served.cgroup.0.join(file), usual).unwrap();
    let Some(_swap) = TestSwap::make() else { return skip(Need::Swap, "no swap file") };
    for (metric, expected) in [
        (
            "echo cannot connect >&2; exit 1",
            "--metric: the command failed (exit status: 1): \"cannot connect\"",
        ),
        ("echo 5 requests", "--metric: its last line has to be one number, 0 or more, and is \"5 requests\""),
        ("sleep 60", "--metric: the command has not ended after 0.5 s (--metric-timeout)"),
        ("echo 0", "--metric: it printed 0 at the start: the service has to be at work"),
    ] {
        let _input = trying(|| metric.to_string());
        refused(&mut served.trial(&["--metric", metric, "--metric-timeout", "500ms"]), expected);
    }
    // During the first run of the metric, and during the watch.
    for (metric, sent) in [("sleep 60", "INT"), ("echo 5", "TSTP")] {
        let _input = trying(|| format!("{metric}, {sent}"));
        let began = Instant::now();
        let trial = spawn(&mut served.trial(&["--for", "300s", "--metric", metric]));
        std::thread::sleep(Duration::from_secs(2));
        signal(trial.id(), sent);
        let ended = wait(trial);
        assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
        assert!(text(&ended.stderr).contains("ended by a signal"), "{}", text(&ended.stderr));
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

/// What is not there, or is not one service, is told in a line.
#[test]
fn services_that_cannot_be_watched_are_told_in_a_line() {
    if !can_watch() {
        return;
    }
    for (words, said) in [
        ("watch --cgroup /no/such/cgroup", "--cgroup /no/such/cgroup: there is no such cgroup"),
        ("watch --cgroup /tmp", "--cgroup /tmp: it is no cgroup: it has no file cgroup.procs"),
        ("watch --unit no-such-unit", "--unit no-such-unit: no cgroup below"),
        (
            "watch --container 0123",
            "--container 0123: no container has this name; of an id, write at least 12 hex digits",
        ),
        ("watch --container 0123456789ab", "--container 0123456789ab: no cgroup below"),
        ("watch --tree 4194305", "process 4194305: there is none"),
        ("watch --tree 1 --no-contents -o /tmp/none.swt", "--no-contents has no effect"),
        ("advise --unit no-such-unit", "--unit no-such-unit: no cgroup below"),
        ("watch --pid 1 --keep /tmp/none", "--keep needs --tree, --cgroup, --unit or --container"),
        ("advise --tree 1 --slowdown 1", "--slowdown 1: write more than 1"),
        ("advise --tree 1 --device floppy", "--device: 'floppy' is neither"),
    ] {
        let _input = trying(|| words.to_owned());
        let refused = output(sweephand().args(words.split(' ')));
        let text = text(&refused.stderr);
        assert_eq!((refused.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains(said), "{text}");
    }
}

/// One service is watched, in one way.
#[test]
fn options_that_do_not_go_together_are_refused() {
    for words in [
        "watch --pid 1 --tree 1",
        "watch --cgroup a --unit b",
        "watch --container a -- true",
        "advise --tree 1 --policy lru",
        "advise --unit a --budget 1MiB",
        "advise --cgroup a --native 5",
        "advise --cgroup a --try --device ssd",
        "advise --tree 1 --try",
        "advise --pid 1 --try",
        "advise t.swt --tree 1",
    ] {
        let _input = trying(|| words.to_owned());
        let refused = output(sweephand().args(words.split(' ')));
        assert_eq!(refused.status.code(), Some(2));
        let said = text(&refused.stderr);
        assert!(said.contains("cannot be used with"), "{said}");
    }
}
