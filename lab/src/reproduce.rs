//! `sweephand-lab reproduce`: a paper's published results beside measured ones.

use crate::say::say;
use anyhow::{Context, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_lab::{
    Grade, Item, Lab, Machine, Program, Report, Reproduction, State, all_items, checksum, every_item,
    html_page, items, measured_items,
};
use sweephand_output::{Output, make_folder};
use xxhash_rust::xxh3::xxh3_64;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Papers or items, such as clock-pro or clock-pro/table-1 [default: all]. Items that run
    /// programs live (see --list) have to be named in full
    names: Vec<String>,
    /// List what can be reproduced
    #[arg(long)]
    list: bool,
    /// All items, with --page; items that run programs live come last
    #[arg(long, requires = "output", conflicts_with_all = ["names", "list"])]
    all: bool,
    /// Also write DIR/index.html, a page with all items of all papers. Items that DIR holds from
    /// the same program and the same traces are not measured again. Items that cannot be measured
    /// here do not stop the rest
    #[arg(long, requires = "output", conflicts_with = "list")]
    page: bool,
    /// The folder with the papers' traces
    #[arg(long, env = "SWEEPHAND_TRACES", value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Also write each result as Markdown to DIR/PAPER/results/ITEM.md
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The command for items that run programs live [default: the sweephand beside this command]
    #[arg(long, value_name = "FILE")]
    sweephand: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        let mut stdout = io::stdout().lock();
        for item in all_items() {
            writeln!(stdout, "{:<20} {}", item.id, item.title)?;
        }
        writeln!(stdout, "\nmeasured on this machine, when named in full; for root, some minutes each:")?;
        for item in measured_items() {
            writeln!(stdout, "{:<32} {}", item.id, item.title)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let items = if args.all { every_item().collect() } else { items(&args.names)? };
    let on_one_page = args.all || args.page;
    let bars = Bars::new(items.len());
    let watch = bars.references.clone();
    let lab = Lab::new(args.traces.clone()).watched(move |trace, done, records| {
        watch.set_length(records);
        watch.set_message(trace.to_string());
        watch.set_position(done);
    });
    let bench = Bench::new(lab, args.sweephand)?;
    let results = match &args.output {
        Some(folder) if on_one_page => onto_a_page(&items, &bench, folder, &bars, args.format)?,
        folder => one_by_one(&items, &bench, folder.as_deref(), &bars, args.format)?,
    };
    bars.items.finish_and_clear();
    if args.format == Format::Json {
        let results: Vec<_> = results.iter().map(|result| &result.found).collect();
        let results = json!({ "sweephand": { "version": env!("CARGO_PKG_VERSION") }, "items": results });
        let mut stdout = io::stdout().lock();
        serde_json::to_writer_pretty(&mut stdout, &results).map_err(io::Error::from)?;
        writeln!(stdout)?;
    }
    // A claim that does not hold is a finding, not an error; so is an item that cannot be measured
    // here.
    let holds = |result: &Done| result.found.report.as_ref().is_some_and(Report::holds);
    Ok(if results.iter().all(holds) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What items are measured with.
struct Bench {
    lab: Lab,
    /// This program.
    program: Program,
    /// This program and the command that it runs, for what is measured live.
    live: Program,
    machine: Machine,
}

impl Bench {
    fn new(lab: Lab, sweephand: Option<PathBuf>) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("this program's own file cannot be found")?;
        let sum = |path: &Path| checksum(path).with_context(|| format!("{}: cannot be read", path.display()));
        let program = Program { version: env!("CARGO_PKG_VERSION").into(), checksum: sum(&this)? };
        let beside = Some(this.with_file_name("sweephand")).filter(|path| path.exists());
        let (lab, live) = match sweephand.or(beside) {
            Some(command) => {
                let both = program.checksum.clone() + &sum(&command)?;
                let checksum = format!("{:016x}", xxh3_64(both.as_bytes()));
                // Live runs have working directories of their own.
                let command = std::path::absolute(command)?;
                (lab.live(command), Program { checksum, ..program.clone() })
            }
            None => (lab, program.clone()),
        };
        Ok(Self { lab, program, live, machine: Machine::this() })
    }

    /// What an item is measured by.
    fn program(&self, item: &Item) -> &Program {
        let is_live = measured_items().any(|measured| measured.id == item.id);
        if is_live { &self.live } else { &self.program }
    }

    fn measure(&self, item: &Item) -> Reproduction {
        Reproduction::run(item, &self.lab, self.program(item), &self.machine, now)
    }
}

/// An item that has had its turn.
struct Done {
    found: Reproduction,
    /// Whether it was found in the folder, not measured now.
    kept: bool,
}

/// Measures each item that can be measured here, and names the others at the end. It is an error if
/// there is none.
fn one_by_one(
    items: &[&Item],
    bench: &Bench,
    folder: Option<&Path>,
    bars: &Bars,
    format: Format,
) -> anyhow::Result<Vec<Done>> {
    let mut results: Vec<Done> = Vec::new();
    for item in items {
        bars.begin(item);
        let found = bench.measure(item);
        bars.end();
        if let Some(report) = &found.report {
            if format == Format::Text {
                let is_first = results.iter().all(|done| done.found.report.is_none());
                bars.say(&format!("{}{}", if is_first { "" } else { "\n\n" }, report.text()))?;
            }
            if let Some(folder) = folder {
                write_report(folder, item, report)?;
            }
        }
        results.push(Done { found, kept: false });
    }
    let missing = || results.iter().filter(|done| done.found.report.is_none());
    let why =
        |done: &Done| format!("{}: {}", done.found.item, done.found.reason.as_deref().unwrap_or_default());
    if let (Some(first), true) = (missing().next(), missing().count() == results.len()) {
        bail!("{}", why(first));
    }
    for done in missing() {
        say(format_args!("not measured: {}", why(done)));
    }
    Ok(results)
}

/// Measures what is not in the folder yet, and keeps its page up to date.
fn onto_a_page(
    items: &[&Item],
    bench: &Bench,
    folder: &Path,
    bars: &Bars,
    format: Format,
) -> anyhow::Result<Vec<Done>> {
    // The page has every item. Items that were not asked for are shown if they are in the folder.
    let mut found: Vec<Reproduction> = every_item().filter_map(|item| kept(folder, item, bench)).collect();
    let write_page = |found: &[Reproduction]| {
        write_file(&folder.join("index.html"), html_page(found, env!("CARGO_PKG_VERSION")).as_bytes())
    };
    make_folder(folder)?;
    // What cannot be written is found out before anything is measured.
    write_page(&found)?;
    let mut results = Vec::new();
    for item in items {
        let done = match found.iter().find(|found| found.item == item.id) {
            Some(kept) => Done { found: kept.clone(), kept: true },
            None => {
                bars.begin(item);
                let measured = bench.measure(item);
                bars.end();
                if let Some(report) = &measured.report {
                    // The result itself last: if it is there, so is what goes with it.
                    write_report(folder, item, report)?;
                    let text = serde_json::to_string_pretty(&measured)? + "\n";
                    write_file(&path_in(folder, item, "json")?, text.as_bytes())?;
                }
                found.push(measured.clone());
                write_page(&found)?;
                Done { found: measured, kept: false }
            }
        };
        if format == Format::Text {
            bars.say(&format!("{}\n", line(&done)))?;
        }
        results.push(done);
    }
    if format == Format::Text {
        let count = |state: State| results.iter().filter(|done| done.found.state == state).count();
        let reports: Vec<_> = results.iter().filter_map(|done| done.found.report.as_ref()).collect();
        bars.say(&format!(
            "\n{} of {} items measured; {}: {}\n",
            count(State::Measured),
            results.len(),
            tally(&reports),
            folder.join("index.html").display()
        ))?;
    }
    Ok(results)
}

/// Claims by grade, then checks, in words.
fn tally(reports: &[&Report]) -> String {
    let claims = || reports.iter().flat_map(|report| &report.claims);
    let mut parts: Vec<String> = Vec::new();
    for grade in Grade::ALL {
        let count = claims().filter(|claim| claim.grade() == grade).count();
        if count > 0 {
            parts.push(format!("{count} {}", grade.words()));
        }
    }
    let checks: Vec<_> = reports.iter().flat_map(|report| &report.checks).collect();
    if !checks.is_empty() {
        let hold = checks.iter().filter(|check| check.holds).count();
        parts.push(format!("{hold} of {} own checks hold", checks.len()));
    }
    parts.join(", ")
}

/// What became of an item, in a line.
fn line(done: &Done) -> String {
    let found = &done.found;
    let words = match (&found.report, &found.origin) {
        (Some(report), Some(origin)) => {
            let when = if done.kept {
                format!("kept, measured {}", origin.date)
            } else {
                format!("measured in {:.1} s", origin.seconds)
            };
            format!("{}; {when}", tally(&[report]))
        }
        _ => format!("not measured: {}", found.reason.as_deref().unwrap_or("no reason is known")),
    };
    format!("{:<28} {words}", found.item)
}

/// What the folder has of an item, if measuring it again would give the same. A file that is not
/// what we write is none.
fn kept(folder: &Path, item: &Item, bench: &Bench) -> Option<Reproduction> {
    let text = fs::read_to_string(file_in(folder, item, "json")).ok()?;
    let found: Reproduction = serde_json::from_str(&text).ok()?;
    found.is_current(item, &bench.lab, bench.program(item)).then_some(found)
}

/// Where a result goes.
fn file_in(folder: &Path, item: &Item, extension: &str) -> PathBuf {
    folder.join(item.folder).join("results").join(format!("{}.{extension}", item.name()))
}

/// The same; its folder is made.
fn path_in(folder: &Path, item: &Item, extension: &str) -> anyhow::Result<PathBuf> {
    let path = file_in(folder, item, extension);
    let results = path.parent().expect("it is in a folder");
    make_folder(results)?;
    Ok(path)
}

/// A result as Markdown, and the files that go beside it.
fn write_report(folder: &Path, item: &Item, report: &Report) -> anyhow::Result<()> {
    let markdown = path_in(folder, item, "md")?;
    for (file, contents) in report.files(item.name()) {
        write_file(&markdown.with_file_name(file), contents.as_bytes())?;
    }
    write_file(&markdown, report.markdown().as_bytes())
}

fn write_file(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let mut file = Output::create(path, &[])?;
    file.write_all(contents).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(file.commit()?)
}

/// The time, UTC.
fn now() -> String {
    chrono::Utc::now().format("%Y-%m-%d %H:%M").to_string()
}

/// A bar over `total` steps of `unit`, on standard error.
fn bar(total: u64, unit: &str) -> ProgressBar {
    let template = format!("{{msg}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a fixed template");
    // indicatif hides it where standard error is no terminal.
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5)).with_style(style)
}

/// A bar over the items, and one over the references of the trace at work.
struct Bars {
    both: MultiProgress,
    items: ProgressBar,
    references: ProgressBar,
}

impl Bars {
    fn new(items: usize) -> Self {
        let both = MultiProgress::new();
        // A single item needs no bar over items.
        let over_items = bar(items as u64, "items");
        let over_items = if items > 1 { both.add(over_items) } else { ProgressBar::hidden() };
        let references = both.add(bar(0, "references"));
        Self { both, items: over_items, references }
    }

    fn begin(&self, item: &Item) {
        self.items.set_message(item.id);
        self.items.tick();
        self.references.reset();
    }

    fn end(&self) {
        self.references.finish_and_clear();
        self.items.inc(1);
    }

    /// Writes to standard output, with the bars out of the way.
    fn say(&self, text: &str) -> io::Result<()> {
        self.both.suspend(|| io::stdout().lock().write_all(text.as_bytes()))
    }
}
