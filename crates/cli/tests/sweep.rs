//! `sweephand sweep`: the same rows as `simulate`, whatever is killed on the way.

mod sandbox;
mod schema;

use sandbox::{Running, Sandbox, spawn, text};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;
use sweephand_checks::{entries, read_text};
use sweephand_results::{SimulationRow, SweepRow};

const POLICIES: [&str; 13] = [
    "fifo",
    "lru",
    "clock",
    "clock:init=1",
    "2q",
    "arc",
    "car",
    "lirs",
    "clock-pro",
    "sieve",
    "s3-fifo",
    "mq",
    "opt",
];
const MEMORY: [&str; 8] = ["5%", "10%", "20%", "30%", "50%", "70%", "128p", "1MiB"];
/// What the test plan comes to: two traces.
const CELLS: usize = 2 * POLICIES.len() * MEMORY.len();

/// The rows of the test plan.
static UNDISTURBED: LazyLock<BTreeMap<String, Counts>> = LazyLock::new(|| {
    let sandbox = Sandbox::with_plan();
    sandbox.stdout("sweep plan.toml -o out");
    sandbox.rows("out")
});

/// The counts of a row; the time that it took is another one each time.
type Counts = Vec<String>;

impl Sandbox {
    /// With a plan over a trace that takes long enough to be killed in the middle, and a short one.
    fn with_plan() -> Self {
        let sandbox = Self::new();
        for (trace, name) in [("tasks/tcc.swt", "a-tcc.swt"), ("scan-cyclic.swt", "b-scan.swt")] {
            fs::copy(bundled(trace), sandbox.path(name)).unwrap();
        }
        sandbox.plan("*.swt", &POLICIES, &MEMORY);
        sandbox
    }

    fn plan(&self, traces: &str, policies: &[&str], memory: &[&str]) {
        let text = format!("traces = [{traces:?}]\npolicies = {policies:?}\nmemory = {memory:?}\n");
        self.write("plan.toml", text);
    }

    fn start(&self, arguments: &str) -> Running {
        let mut command = self.command(arguments);
        spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// The rows of a dataset by cell; no cell has two.
    fn rows(&self, dataset: &str) -> BTreeMap<String, Counts> {
        let mut rows = BTreeMap::new();
        for row in self.sweep_rows(dataset) {
            let key = row.cell.cell.clone();
            assert!(rows.insert(key.clone(), counts(row)).is_none(), "{key} has two rows");
        }
        rows
    }

    /// The same as lines of the CSV of `simulate`, in any order.
    fn lines(&self, dataset: &str) -> Vec<String> {
        self.sweep_rows(dataset).iter().map(|row| line(&row.simulation)).collect()
    }

    fn sweep_rows(&self, dataset: &str) -> Vec<SweepRow> {
        let read = |part: PathBuf| {
            let file = fs::File::open(&part).unwrap_or_else(|error| panic!("{}: {error}", part.display()));
            SweepRow::read_parquet(file).unwrap_or_else(|error| panic!("{}: {error}", part.display()))
        };
        entries(self.path(dataset).join("results")).into_iter().flat_map(read).collect()
    }

    /// Waits until the journal of a running sweep has that many rows.
    fn wait_for_rows(&self, dataset: &str, rows: usize) {
        let journal = self.path(dataset).join("_journal.jsonl");
        while fs::read(&journal).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count()) < rows {
            sleep(Duration::from_millis(1));
        }
    }
}

fn bundled(trace: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(trace)
}

fn counts(row: SweepRow) -> Counts {
    let row = serde_json::to_value(SweepRow {
        cell: sweephand_results::CellColumns { seconds: 0.0, ..row.cell },
        ..row
    });
    row.unwrap().as_object().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// A line of the CSV of `simulate`; two more columns if pages were sampled.
fn line(row: &SimulationRow) -> String {
    let six_decimals = |number: Option<f64>| number.map_or(String::new(), |number| format!("{number:.6}"));
    let mut values = vec![row.trace.clone(), row.policy.clone()];
    let counts = [
        row.memory_pages,
        row.references,
        row.distinct_pages,
        row.faults,
        row.first_touch_faults,
        row.warmup_faults,
        row.evictions,
    ];
    values.extend(counts.map(|count| count.to_string()));
    values.extend([row.hit_ratio, row.faults_per_million_instructions].map(six_decimals));
    values.push(row.hand_steps.to_string());
    if let Some(pages) = row.sampled_pages {
        values.extend([pages.to_string(), six_decimals(row.hit_ratio_error)]);
    }
    values.join(",")
}

/// The processes that a process has started.
fn children(process: u32) -> Vec<i32> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(list.split_whitespace().map(|pid| pid.parse::<i32>().unwrap()));
    }
    children
}

fn kill(process: i32, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    let _ = rustix::process::kill_process(process, signal);
}

/// `200` of `208 cells: 200 computed, 8 there before, 0 failed: …`.
fn number_before(summary: &str, word: &str) -> usize {
    let words: Vec<_> = summary.lines().last().unwrap().split_whitespace().collect();
    let at = words.iter().position(|found| found.trim_end_matches([',', ':']) == word);
    words[at.unwrap_or_else(|| panic!("{word} in {summary}")) - 1].parse().unwrap()
}

#[test]
fn rows_are_those_of_simulate() {
    let sandbox = Sandbox::with_plan();
    let summary = sandbox.stdout("sweep plan.toml -o out --workers 2");
    assert_eq!(summary, format!("{CELLS} cells: {CELLS} computed, 0 there before, 0 failed: out/results\n"));
    let simulated = sandbox.stdout(&format!(
        "simulate a-tcc.swt b-scan.swt --format csv -p {} -m {}",
        POLICIES.join(","),
        MEMORY.join(",")
    ));
    let mut lines: Vec<&str> = simulated.lines().skip(1).collect();
    assert_eq!(lines.len(), CELLS);
    let mut swept = sandbox.lines("out");
    lines.sort_unstable();
    swept.sort_unstable();
    assert_eq!(swept, lines);
}

#[test]
fn a_worker_that_is_killed_loses_nothing() {
    let sandbox = Sandbox::with_plan();
    let sweep = sandbox.start("sweep plan.toml -o out --workers 2");
    let mut killed = Vec::new();
    for rows in [5, 20, 35] {
        sandbox.wait_for_rows("out", rows);
        let worker = children(sweep.id()).into_iter().find(|worker| !killed.contains(worker)).unwrap();
        kill(worker, rustix::process::Signal::KILL);
        killed.push(worker);
    }
    let output = sweep.output();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(number_before(&text(&output.stdout), "computed"), CELLS);
    assert_eq!(sandbox.rows("out"), *UNDISTURBED);
}

#[test]
fn there_are_no_more_workers_than_processors() {
    let sandbox = Sandbox::with_plan();
    let mut sweep = sandbox.start("sweep plan.toml -o out --workers 1000000");
    sandbox.wait_for_rows("out", 10);
    let workers = children(sweep.id()).len();
    assert!((1..=processors()).contains(&workers), "{workers} workers");
    assert!(sweep.wait().unwrap().success());
    assert_eq!(sandbox.rows("out"), *UNDISTURBED);
}

/// The processors that this process may use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[test]
fn a_driver_that_is_killed_goes_on_with_what_is_missing() {
    let sandbox = Sandbox::with_plan();
    let mut sweep = sandbox.start("sweep plan.toml -o out --workers 2");
    sandbox.wait_for_rows("out", 10);
    let workers = children(sweep.id());
    assert_eq!(workers.len(), 2.min(processors()));
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    // Its workers go with it.
    for worker in workers {
        let ended = |state: String| state.contains("State:\tZ");
        while !fs::read_to_string(format!("/proc/{worker}/status")).map_or(true, ended) {
            sleep(Duration::from_millis(1));
        }
    }
    let journal = read_text(sandbox.path("out/_journal.jsonl"));
    let there = journal.matches('\n').count();
    assert!((10..CELLS).contains(&there), "{there}");
    let summary = sandbox.stdout("sweep plan.toml -o out");
    assert_eq!(number_before(&summary, "computed"), CELLS - there);
    assert_eq!(sandbox.rows("out"), *UNDISTURBED);
    assert_eq!(number_before(&sandbox.stdout("sweep plan.toml -o out"), "computed"), 0);
}

#[test]
fn ctrl_c_leaves_a_dataset_that_can_be_read_and_resumed() {
    let sandbox = Sandbox::with_plan();
    let sweep = sandbox.start("sweep plan.toml -o out --workers 1");
    sandbox.wait_for_rows("out", 3);
    kill(sweep.id() as i32, rustix::process::Signal::INT);
    let output = sweep.output();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    let (computed, left) = (number_before(&summary, "computed"), number_before(&summary, "left"));
    assert!(computed >= 3 && computed + left == CELLS, "{summary}");
    assert_eq!(sandbox.rows("out").len(), computed);
    assert_eq!(number_before(&sandbox.stdout("sweep plan.toml -o out"), "computed"), left);
}

#[test]
fn a_changed_plan_reuses_what_it_can() {
    let sandbox = Sandbox::with_plan();
    sandbox.plan("b-scan.swt", &["lru", "clock"], &["10%", "20%"]);
    sandbox.stdout("sweep plan.toml -o out");
    sandbox.plan("b-scan.swt", &["lru", "fifo"], &["10%", "20%", "30%"]);
    let output = sandbox.run("sweep plan.toml -o out");
    assert_eq!(text(&output.stdout), "6 cells: 4 computed, 2 there before, 0 failed: out/results\n");
    assert_eq!(
        text(&output.stderr),
        "sweephand: note: out/results: 2 rows are of cells that this plan does not have; --prune removes them\n"
    );
    assert_eq!(sandbox.rows("out").len(), 8);
    let pruned = sandbox.run("sweep plan.toml -o out --prune");
    assert_eq!(
        (text(&pruned.stdout), text(&pruned.stderr)).0,
        "6 cells: 0 computed, 6 there before, 0 failed: out/results\n"
    );
    assert_eq!(sandbox.rows("out").len(), 6);
    // Another file of the same name is another trace.
    fs::copy(bundled("scan-once.swt"), sandbox.path("b-scan.swt")).unwrap();
    let changed = sandbox.run("sweep plan.toml -o out");
    assert_eq!(number_before(&text(&changed.stdout), "computed"), 6);
}

#[test]
fn a_warm_up_gives_the_counts_of_simulate_and_is_part_of_a_cell() {
    let sandbox = Sandbox::new();
    sandbox.run("generate zipf --pages 2000 --references 20k -o zipf.swt");
    let plan = |lines: &str| {
        let text = format!(
            "traces = ['zipf.swt']\npolicies = ['lru,clock,opt']\nmemory = ['10%', '50%']\n{lines}\n"
        );
        sandbox.write("plan.toml", text);
    };
    let mut expected = Vec::new();
    for (lines, option, as_simulated) in [
        ("", "", ""),
        ("warmup = '25%'", "", "--warmup 25%"),
        ("", "--warmup 4000", "--warmup 4000"),
        ("warmup = '4001'", "--warmup 4001", "--warmup 4001"),
    ] {
        plan(lines);
        let summary = sandbox.stdout(&format!("sweep plan.toml -o out --workers 1 {option}"));
        assert_eq!(number_before(&summary, "computed"), 6, "{lines} {option}");
        let csv = sandbox
            .stdout(&format!("simulate zipf.swt -p lru,clock,opt -m 10%,50% --format csv {as_simulated}"));
        expected.extend(csv.lines().skip(1).map(str::to_string));
        let mut lines = sandbox.lines("out");
        lines.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }
    for (lines, option, words) in [
        ("warmup = '25%'", "--warmup 30%", "plan.toml: warmup: the plan has 25%; change it there"),
        ("warmup = '100%'", "", "plan.toml: warmup: warm-up '100%': a share is from 0% up"),
        ("sample = '50%'", "--warmup 30%", "plan.toml: warmup: not with a sample"),
        ("", "--warmup 1MiB", "plan.toml: warmup: warm-up '1MiB': write references"),
    ] {
        plan(lines);
        let error = sandbox.error(&format!("sweep plan.toml -o out {option}"));
        assert!(error.starts_with(words), "{lines} {option}: {error}");
    }
    // How many references a trace has is seen when it is opened.
    plan("warmup = '20000'");
    let output = sandbox.run("sweep plan.toml -o out --retries 0");
    let summary = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{summary}");
    assert!(summary.contains("zipf.swt: a warm-up of 20000 leaves nothing to count"), "{summary}");
}

#[test]
fn a_sample_gives_the_estimates_of_simulate_and_is_part_of_a_cell() {
    let sandbox = Sandbox::new();
    sandbox.run("generate zipf --pages 20000 --references 200k -o zipf.swt");
    let plan = |policies: &str, sample: &str| {
        let text =
            format!("traces = ['zipf.swt']\npolicies = ['{policies}']\nmemory = ['40%', '50%']\n{sample}\n");
        sandbox.write("plan.toml", text);
    };
    let mut expected = Vec::new();
    for (sample, options) in [
        ("", ""),
        ("sample = '10%'", "--sample 10%"),
        ("sample = '10%'\nsample_seed = 2", "--sample 10% --sample-seed 2"),
        ("sample = '2000p'\nsample_seed = 2", "--sample 2000p --sample-seed 2"),
    ] {
        plan("lru,clock", sample);
        let summary = sandbox.stdout("sweep plan.toml -o out --workers 1");
        assert_eq!(number_before(&summary, "computed"), 4, "{sample}");
        let csv =
            sandbox.stdout(&format!("simulate zipf.swt -p lru,clock -m 40%,50% --format csv {options}"));
        expected.extend(csv.lines().skip(1).map(str::to_string));
        let mut lines = sandbox.lines("out");
        lines.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{sample}");
    }
    let summary = sandbox.stdout("sweep plan.toml -o out --prune");
    assert_eq!(summary, "4 cells: 0 computed, 4 there before, 0 failed: out/results\n");
    for row in sandbox.rows("out").values() {
        let has = |value: &str| row.iter().any(|found| found == value);
        assert!(has("sample=\"2000p\"") && has("sample_seed=2") && has("sampled_pages=2000"), "{row:?}");
    }

    plan("lru,seq", "sample = '10%'");
    let error = sandbox.error("sweep plan.toml -o out");
    let words = "plan.toml: policies: seq cannot be told from a sample of the pages: it looks for";
    assert!(error.starts_with(words), "{error}");
    // How many pages a trace has is seen when it is opened.
    plan("lru", "sample = '1%'");
    let output = sandbox.run("sweep plan.toml -o out --retries 0");
    let summary = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{summary}");
    assert!(
        summary.contains("zipf.swt: sample 1%: ") && summary.contains(" are too few to tell"),
        "{summary}"
    );
}

#[test]
fn cells_that_would_fail_again_are_tried_once_told_and_tried_by_the_next_run() {
    let sandbox = Sandbox::with_plan();
    fs::write(sandbox.path("c.swt"), "one\ntwo\n").unwrap();
    sandbox.plan("[bc]*.swt", &["lru"], &["10%", "20%"]);
    for _ in 0..2 {
        let output = sandbox.run("sweep plan.toml -o out --retries 1");
        assert_eq!(output.status.code(), Some(1));
        let summary = text(&output.stdout);
        assert!(summary.starts_with("c.swt, 2 cells: "), "{summary}");
        assert!(summary.lines().next().unwrap().ends_with(": not a page number: \"one\""), "{summary}");
        assert_eq!(number_before(&summary, "failed"), 2);
        let failures = read_text(sandbox.path("out/_failures.jsonl"));
        assert_eq!(failures.lines().count(), 2);
        for line in failures.lines() {
            assert!(line.contains("\"attempts\":1,"), "{line}");
            let kept = schema::keeps_to("sweep-failure.json", line, sandbox.directory.path());
            assert_eq!(kept.unwrap_or(Ok(())), Ok(()), "{line}");
        }
    }
    assert_eq!(sandbox.rows("out").len(), 2);
    fs::write(sandbox.path("c.swt"), "1\n2\n").unwrap();
    let summary = sandbox.stdout("sweep plan.toml -o out");
    assert_eq!(summary, "4 cells: 2 computed, 2 there before, 0 failed: out/results\n");
    assert_eq!(read_text(sandbox.path("out/_failures.jsonl")), "");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_written() {
    let sandbox = Sandbox::with_plan();
    assert!(sandbox.error("sweep none.toml -o out").starts_with("none.toml: No such file"));
    sandbox.plan("b-scan.swt", &["lur"], &["10%"]);
    assert!(
        sandbox
            .error("sweep plan.toml -o out")
            .starts_with("plan.toml: policies: policy 'lur': there is no such policy")
    );
    sandbox.plan("s3://bucket/t.swt", &["lru"], &["10%"]);
    assert!(
        sandbox
            .error("sweep plan.toml -o out")
            .starts_with("s3://bucket/t.swt: the command reads local files")
    );
    sandbox.plan("*.gz", &["lru"], &["10%"]);
    assert!(sandbox.error("sweep plan.toml -o out").starts_with("*.gz: no file matches"));
    assert!(!sandbox.path("out").exists());
    sandbox.plan("b-scan.swt", &["lru"], &["10%"]);
    assert!(sandbox.error("sweep plan.toml -o .").starts_with(".: is not empty, and no dataset of a sweep"));
    let text = "traces = [{ file = 'b-scan.swt', hash = 'xxh3:0123456789abcdef' }]\npolicies = ['lru']\nmemory = ['10%']\n";
    fs::write(sandbox.path("plan.toml"), text).unwrap();
    let output = sandbox.run("sweep plan.toml -o out --retries 0");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(
        summary.starts_with("b-scan.swt, lru, 10%: b-scan.swt: is not the file that was planned with: xxh3:0123456789abcdef was expected"),
        "{summary}"
    );
    // Six cells: told once, and nothing is tried again.
    fs::write(
        sandbox.path("plan.toml"),
        text.replace("['lru']", "['lru', 'clock']").replace("['10%']", "['10%', '20%', '30%']"),
    )
    .unwrap();
    let output = sandbox.run("sweep plan.toml -o out --workers 1");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        summary.starts_with("b-scan.swt, 6 cells: b-scan.swt: is not the file that was planned with: "),
        "{summary}"
    );
    assert_eq!(summary.matches("is not the file").count(), 1, "{summary}");
    assert!(!summary.contains("tried") && summary.contains("6 failed"), "{summary}");
    fs::write(sandbox.path("file"), "").unwrap();
    assert_eq!(sandbox.error("sweep plan.toml -o file"), "file: is a file; name a directory");
}

#[test]
fn the_plan_in_the_book_is_one() {
    let page = read_text(bundled("../docs/sweep.md"));
    let plan = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    sweephand_sweep::Plan::parse(plan, Path::new("")).unwrap();
}

#[test]
fn two_sweeps_do_not_write_to_one_dataset() {
    let sandbox = Sandbox::with_plan();
    let mut first = sandbox.start("sweep plan.toml -o out --workers 1");
    sandbox.wait_for_rows("out", 1);
    let error = sandbox.error("sweep plan.toml -o out");
    assert!(
        error.starts_with(&format!("out: another sweep is writing to it (process {} on ", first.id())),
        "{error}"
    );
    first.kill().unwrap();
    first.wait().unwrap();
}
