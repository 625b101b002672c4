//! `sweephand compare`: a program with all memory, under the kernel's replacement and under
//! policies, side by side.
//!
//! The variants take turns, and each round begins with another, so that what disturbs the machine
//! disturbs them all. What the program prints is not shown, but must be the same every time. A run
//! that fails is shown as failed, and is in no median; the others count. Exit status: 1 if
//! something was not as it should be.

use crate::formats::TextFormatName;
use crate::live::{limit_bytes, note_on_swap, prefetch_pages};
use crate::stderr::eprint_line;
use anyhow::Context;
use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use sweephand_output::{Output, named_by};
use sweephand_pager::{
    Backend, CgroupLimit, Ended, KernelMemory, KernelRun, LiveSpec, MOST_PREFETCH_PAGES, Options, PoolSize,
    ReferenceBits, RunError, Running, Statistics, kernel_share,
};
use sweephand_program::Signals;
use sweephand_results::{LiveReport, LiveRun, bytes, median};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory, comma list: bytes (64MiB or 64M; 64MB is 64,000,000) or pages (16384p); what the
    /// kernel itself needs is added to each, for all alike
    #[arg(short, long, value_name = "LIST")]
    memory: String,
    /// Policies, comma list; see `sweephand policies` for those that run live
    #[arg(short, long, default_value = "clock,clock-pro-strict", value_name = "LIST")]
    policy: String,
    /// How often to run each
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How often to run the program first, with all memory: it finds its files in the page cache
    /// later. These runs do not count
    #[arg(long, default_value_t = 0, value_name = "N")]
    warmup: u32,
    /// Where to page to, the kernel as well: a directory on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    swap: PathBuf,
    /// Most pages that the policies' runs read ahead, or off
    #[arg(long, value_name = "off|N", default_value_t = MOST_PREFETCH_PAGES.to_string())]
    prefetch: String,
    /// How to print the results: a table of medians, or each run
    #[arg(long, value_enum, default_value = "table")]
    format: TextFormatName,
    /// Write the results to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the table of medians to a file, as Markdown
    #[arg(long, value_name = "FILE.md")]
    export_markdown: Option<PathBuf>,
    /// The program and its arguments; it reads nothing from standard input
    #[arg(last = true, required = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

/// What pages.
#[derive(Clone, Debug)]
enum Variant {
    Native,
    Kernel(u64),
    Policy(u64, LiveSpec),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let limits = args
        .memory
        .split(',')
        .map(|size| limit_bytes("--memory", size.trim()))
        .collect::<Result<Vec<_>, _>>()?;
    let specs = LiveSpec::parse_list(&args.policy)?;
    let prefetch_pages = prefetch_pages(&args.prefetch)?;
    if !rustix::process::geteuid().is_root() {
        return Err(RunError::Root.into());
    }
    note_on_swap(&args.swap);
    let mut in_use = named_by(&args.command);
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    in_use.extend(args.output.as_deref());
    let markdown = args.export_markdown.as_deref().map(|path| Output::create(path, &in_use)).transpose()?;
    let variants = Variant::all(&limits, &specs);
    let interruption = Interruption::watch()?;
    let programs = Programs { args: &args, prefetch_pages, interruption: &interruption };
    let mut runs = programs.take_turns(&variants)?;
    let findings = find(&mut runs, &variants);
    let comparison = LiveReport { sweephand: header(&args), runs };
    comparison.write(args.format.into(), &mut out).context("the results cannot be written")?;
    if args.format == TextFormatName::Table {
        write_key(&mut out, &comparison, &limits)?;
    }
    out.commit()?;
    if let Some(mut markdown) = markdown {
        markdown
            .write_all(comparison.table().markdown().as_bytes())
            .context("the table cannot be written")?;
        markdown.commit()?;
    }
    for outlier in outliers(&comparison.runs, &variants) {
        eprint_line!("sweephand: note: {outlier}");
    }
    for finding in &findings {
        eprint_line!("sweephand: note: {finding}");
    }
    if let Some(signal) = interruption.signal() {
        eprint_line!("sweephand: note: it was interrupted; only whole runs count");
        return Ok(ExitCode::from(128 + signal as u8));
    }
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

/// Writes below the table what its columns mean, and how much memory there was in all.
fn write_key(out: &mut Output, comparison: &LiveReport, limits: &[u64]) -> io::Result<()> {
    let sizes =
        limits.iter().map(|limit| format!("{} for {}", bytes(limit + kernel_share(*limit)), bytes(*limit)));
    let of = match comparison.runs.iter().map(Vec::len).max().unwrap_or_default() {
        1 => "One round".to_string(),
        rounds => format!("Medians of {rounds} rounds"),
    };
    writeln!(
        out,
        "\n{of}. To kernel: time beside the kernel's with as much memory; less than 1 is faster. Limit hits: the most of\n\
         any round. What the kernel itself needs comes on top of memory, for all alike: {}.",
        sizes.collect::<Vec<_>>().join(", ")
    )
}

/// Runs that took much longer than others of their kind, a line each.
fn outliers(runs: &[Vec<LiveRun>], variants: &[Variant]) -> Vec<String> {
    /// How many times the median.
    const MUCH_LONGER: f64 = 1.5;
    /// Of two runs nobody knows which is the odd one.
    const LEAST_RUNS: usize = 3;
    let mut told = Vec::new();
    for (rounds, variant) in runs.iter().zip(variants) {
        let good = rounds.iter().filter(|run| run.failure.is_none());
        let times: Vec<(u32, u64)> = good.filter_map(|run| Some((run.round, run.wall_ns?))).collect();
        let median = median(&times.iter().map(|(_, ns)| *ns).collect::<Vec<_>>());
        let Some(median) = median.filter(|_| times.len() >= LEAST_RUNS) else { continue };
        for (round, ns) in times.iter().filter(|(_, ns)| *ns as f64 > MUCH_LONGER * median as f64) {
            let why = match round {
                0 => "the first round may have had to read files: --warmup 1 reads them before",
                _ => "something else may have been running",
            };
            told.push(format!(
                "{}: round {} took {:.2} s, the median is {:.2} s: {why}",
                variant.name(),
                round + 1,
                *ns as f64 / 1e9,
                median as f64 / 1e9
            ));
        }
    }
    told
}

/// What was not as it should be, a line each. Runs that ended badly get their `failure`.
///
/// A program may have a status of its own to end with: natively, what it ends with the first time
/// is taken for that, unless a signal ended it.
fn find(runs: &mut [Vec<LiveRun>], variants: &[Variant]) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(native) = runs[0].first().cloned() else { return findings };
    let usual = native.exit_status.filter(|_| native.failure.is_none()).unwrap_or(0);
    if usual != 0 {
        findings.push(format!("The program ends with exit status {usual} even with all memory."));
    }
    for (rounds, variant) in runs.iter_mut().zip(variants) {
        for run in rounds.iter_mut().filter(|run| run.failure.is_none()) {
            let status = run.exit_status.filter(|status| *status != usual);
            run.failure = status.map(|status| format!("exit status {status}"));
        }
        let failed: Vec<&LiveRun> = rounds.iter().filter(|run| run.failure.is_some()).collect();
        if let Some(first) = failed.first() {
            let why = first.failure.as_deref().unwrap_or_default();
            let round = first.round + 1;
            findings.push(match (failed.len(), rounds.len()) {
                (1, 1) => format!("Failed: {}: {why}.", variant.name()),
                (1, all) => format!("Failed: {}, in round {round} of {all}: {why}.", variant.name()),
                (failed, all) => {
                    format!(
                        "Failed: {}, {failed} times in {all} rounds, first in round {round}: {why}.",
                        variant.name()
                    )
                }
            });
        }
    }
    let differs = |run: &&LiveRun| run.failure.is_none() && run.output != native.output;
    if let Some(run) = runs.iter().flatten().find(differs).filter(|_| native.failure.is_none()) {
        findings.push(format!(
            "The program did not always do the same: round {} under {} printed other bytes than the first round by itself.",
            run.round + 1,
            run.policy
        ));
    }
    findings
}

/// A signal that ends the comparison early. What has been measured until then is shown.
struct Interruption {
    signal: Arc<AtomicI32>,
    /// The program that is running; 0: none.
    child: Arc<AtomicI32>,
}

impl Interruption {
    fn watch() -> anyhow::Result<Self> {
        let signals = Signals::catch()?;
        let this = Self { signal: Arc::default(), child: Arc::default() };
        let (signal, child) = (Arc::clone(&this.signal), Arc::clone(&this.child));
        signals.for_each(move |received| {
            signal.store(received.number, Relaxed);
            // The terminal sends its own to the program as well.
            let pid = Pid::from_raw(child.load(Relaxed)).filter(|_| received.is_sent);
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::TERM);
            }
            true
        });
        Ok(this)
    }

    fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Relaxed)).filter(|signal| *signal != 0)
    }
}

/// The runs of the program, one after another.
struct Programs<'a> {
    args: &'a Args,
    prefetch_pages: u32,
    interruption: &'a Interruption,
}

impl Programs<'_> {
    /// Runs every variant in every round, after the warm-up, until all are done or a signal comes.
    /// Returns the runs of each variant.
    fn take_turns(&self, variants: &[Variant]) -> anyhow::Result<Vec<Vec<LiveRun>>> {
        let bar = crate::progress::bar(variants.len() as u64 * u64::from(self.args.rounds), "runs");
        self.warm_up(&bar)?;
        let mut runs = vec![Vec::new(); variants.len()];
        'rounds: for round in 0..self.args.rounds {
            for turn in 0..variants.len() {
                if self.interruption.signal().is_some() {
                    break 'rounds;
                }
                let index = (round as usize + turn) % variants.len();
                let variant = &variants[index];
                bar.set_message(variant.name());
                let result = self.run(variant, round);
                if self.interruption.signal().is_some() {
                    // The run that was under way says nothing.
                    break 'rounds;
                }
                match result {
                    Ok(run) => runs[index].push(run),
                    // What never began in the first round will not begin in the others.
                    Err(Failure::NotStarted(error)) if round == 0 => {
                        return Err(error).with_context(|| variant.name());
                    }
                    Err(Failure::NotStarted(error) | Failure::Broken(error)) => {
                        runs[index].push(variant.failed(round, &error));
                    }
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(runs)
    }

    /// Runs the program with all memory, as often as `--warmup` says. These runs do not count.
    fn warm_up(&self, bar: &ProgressBar) -> anyhow::Result<()> {
        for _ in (0..self.args.warmup).take_while(|_| self.interruption.signal().is_none()) {
            bar.set_message("warm-up");
            match self.run(&Variant::Native, 0) {
                Err(Failure::NotStarted(error)) => return Err(error).context("warm-up"),
                Ok(_) | Err(Failure::Broken(_)) => {}
            }
        }
        Ok(())
    }

    /// Runs the program once, to its end.
    fn run(&self, variant: &Variant, round: u32) -> Result<LiveRun, Failure> {
        let (reader, writer) = io::pipe().context("no pipe").map_err(Failure::NotStarted)?;
        let run = self.start(variant, writer).map_err(|error| Failure::NotStarted(error.into()))?;
        self.interruption.child.store(run.child().id() as i32, Relaxed);
        // Read beside the program, which would wait for a full pipe.
        let digest = thread::spawn(move || digest_of(reader));
        let ended = run.wait();
        self.interruption.child.store(0, Relaxed);
        let digest = digest.join().expect("it does not panic").context("what the program printed");
        let ended = ended.map_err(|error| Failure::Broken(error.into()))?;
        let digest = digest.map_err(Failure::Broken)?;
        Ok(counted(round, ended, digest))
    }

    /// Starts the program, which prints to a pipe.
    fn start(&self, variant: &Variant, writer: PipeWriter) -> Result<Box<dyn Running>, RunError> {
        let Args { command, swap, .. } = self.args;
        let prepare = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(writer);
        };
        match variant {
            Variant::Native => KernelRun::start(command, &KernelMemory::Unlimited, prepare).map(boxed),
            Variant::Kernel(limit_bytes) => {
                let memory = KernelMemory::Limited {
                    limit_bytes: *limit_bytes,
                    swap: swap.clone(),
                    pool: PoolSize::Off,
                };
                KernelRun::start(command, &memory, prepare).map(boxed)
            }
            Variant::Policy(limit_bytes, spec) => {
                let options = Options {
                    limit_bytes: *limit_bytes,
                    policy: spec.clone(),
                    swap: swap.clone(),
                    prefetch_pages: self.prefetch_pages,
                    use_ring: true,
                    read_delay: Duration::ZERO,
                    backend: Backend::Auto,
                    pool: PoolSize::Off,
                    by_turns: false,
                    reference_bits: ReferenceBits::Auto,
                    cgroup_limit: CgroupLimit::Fitting,
                };
                sweephand_pager::start(command, &options, prepare).map(|(run, _)| run)
            }
        }
    }
}

/// A hash of everything that comes out of a pipe until all its writers are gone.
fn digest_of(mut reader: PipeReader) -> io::Result<u64> {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut buffer = [0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hash.digest()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// The row of a run that came to its end, with the digest of what the program printed.
fn counted(round: u32, ended: Ended, digest: u64) -> LiveRun {
    let Statistics { policy, memory_limit_bytes, wall_ns, user_ns, sys_ns, .. } = ended.statistics;
    let Statistics { faults, zero_fill_faults, refaults, evictions, .. } = ended.statistics;
    let Statistics { pages_read, pages_written, peak_resident_pages, hand_steps, .. } = ended.statistics;
    let Statistics { exit_status, cgroup, .. } = ended.statistics;
    LiveRun {
        policy,
        memory_limit_bytes,
        round,
        wall_ns: Some(wall_ns),
        user_ns: Some(user_ns),
        sys_ns: Some(sys_ns),
        faults: Some(faults),
        zero_fill_faults,
        refaults,
        evictions,
        pages_read,
        pages_written,
        peak_resident_pages: Some(peak_resident_pages),
        hand_steps,
        exit_status: u32::try_from(exit_status).ok(),
        cgroup_failcnt: cgroup.failcnt,
        cgroup_limit_bytes: cgroup.limit_bytes,
        output: Some(format!("{digest:016x}")),
        failure: ended.status.signal().map(|signal| format!("was ended by signal {signal}")),
    }
}

/// Why there are no counts of a run.
enum Failure {
    /// It was not even started.
    NotStarted(anyhow::Error),
    /// It did not come to its own end.
    Broken(anyhow::Error),
}

/// What the results depend on besides the program.
fn header(args: &Args) -> serde_json::Map<String, serde_json::Value> {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let options = [
        ("command", json!(words)),
        ("memory", json!(args.memory)),
        ("policy", json!(args.policy)),
        ("rounds", json!(args.rounds)),
        ("warmup", json!(args.warmup)),
        ("prefetch", json!(args.prefetch)),
    ];
    let conventions = json!({
        "native": "all memory that there is, no cgroup",
        "kernel": "a memory cgroup of cgroup_limit_bytes, with a swap file",
        "faults": "those that the pager answered; natively and under the kernel all that the kernel counts",
        "refaults": "faults on pages that had been evicted; under the kernel pages that came back from the swap file",
        "cgroup_limit_bytes": "memory, and what comes on top, the same for all; around a pager some more, which it leaves alone",
    });
    sweephand_results::header(options, conventions)
}

impl Variant {
    /// All that are compared: one with all memory and, at each limit, the kernel and every policy.
    fn all(limits: &[u64], specs: &[LiveSpec]) -> Vec<Self> {
        let mut all = vec![Self::Native];
        for &limit in limits {
            all.push(Self::Kernel(limit));
            all.extend(specs.iter().map(|spec| Self::Policy(limit, spec.clone())));
        }
        all
    }

    fn name(&self) -> String {
        match self {
            Self::Native => "native".to_string(),
            Self::Kernel(limit) => format!("kernel, {}", bytes(*limit)),
            Self::Policy(limit, spec) => format!("{spec}, {}", bytes(*limit)),
        }
    }

    /// A run of which nothing is known but why.
    fn failed(&self, round: u32, error: &anyhow::Error) -> LiveRun {
        let (policy, memory_limit_bytes) = match self {
            Self::Native => ("native".to_string(), None),
            Self::Kernel(limit) => ("kernel".to_string(), Some(*limit)),
            Self::Policy(limit, spec) => (spec.to_string(), Some(*limit)),
        };
        let failure = Some(format!("{error:#}"));
        LiveRun { policy, memory_limit_bytes, round, failure, ..LiveRun::default() }
    }
}

fn boxed<R: Running + 'static>(run: R) -> Box<dyn Running> {
    Box::new(run)
}
