//! `sweephand compare`: a program with all memory, under the kernel's replacement and under
//! policies, side by side.
//!
//! The variants take turns, and each round begins with another, so that what disturbs the machine
//! disturbs them all. What the program prints is not shown, but must be the same every time.

use crate::output::Output;
use crate::run::{limit_bytes, prefetch_pages};
use anyhow::{Context, bail};
use serde_json::json;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use sweephand_pager::{
    Backend, CgroupLimit, KernelMemory, KernelRun, LiveSpec, MOST_PREFETCH_PAGES, Options, Run, RunError,
    Running, Statistics, kernel_share,
};
use sweephand_report::{LiveFormat, LiveReport, LiveRun, bytes};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory, comma list: bytes (64MiB) or pages (16384p); what the kernel itself needs is added
    /// to each, for all alike
    #[arg(short, long, value_name = "LIST")]
    memory: String,
    /// Policies, comma list; see `sweephand policies` for those that run live
    #[arg(short, long, default_value = "clock,clock-pro", value_name = "LIST")]
    policy: String,
    /// How often to run each
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where to page to, the kernel as well: a directory on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    swap: PathBuf,
    /// Most pages that the policies' runs read ahead, or off
    #[arg(long, value_name = "off|N", default_value_t = MOST_PREFETCH_PAGES.to_string())]
    prefetch: String,
    /// How to print the results: a table of medians, or each run
    #[arg(long, value_enum, default_value = "table")]
    format: FormatName,
    /// Write the results to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments; it reads nothing from standard input
    #[arg(last = true, required = true, value_name = "PROGRAM ARG")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FormatName {
    Table,
    Csv,
    Json,
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
        bail!("compare makes memory cgroups and swap files: that is for root");
    }
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")))?;
    let mut variants = vec![Variant::Native];
    for &limit in &limits {
        variants.push(Variant::Kernel(limit));
        variants.extend(specs.iter().map(|spec| Variant::Policy(limit, spec.clone())));
    }
    let bar = crate::progress::bar(variants.len() as u64 * u64::from(args.rounds), "runs");
    let mut runs = vec![Vec::new(); variants.len()];
    for round in 0..args.rounds {
        for turn in 0..variants.len() {
            let index = (round as usize + turn) % variants.len();
            let variant = &variants[index];
            bar.set_message(variant.name());
            runs[index].push(variant.run(&args, prefetch_pages, round).with_context(|| variant.name())?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let comparison = LiveReport { sweephand: header(&args), runs };
    let format = match args.format {
        FormatName::Table => LiveFormat::Table,
        FormatName::Csv => LiveFormat::Csv,
        FormatName::Json => LiveFormat::Json,
    };
    comparison.write(format, &mut out).context("the results cannot be written")?;
    if args.format == FormatName::Table {
        let sizes = limits
            .iter()
            .map(|limit| format!("{} for {}", bytes(limit + kernel_share(*limit)), bytes(*limit)));
        writeln!(
            out,
            "\nMedians of {} rounds. To kernel: time beside the kernel's with as much memory; less than 1 is faster. Limit hits: the \
             most of\nany round. What the kernel itself needs comes on top of memory, for all alike: {}.",
            args.rounds,
            sizes.collect::<Vec<_>>().join(", ")
        )?;
    }
    out.commit()?;
    let native = &comparison.runs[0][0];
    let differs = |run: &&LiveRun| (&run.output, run.exit_status) != (&native.output, native.exit_status);
    match comparison.runs.iter().flatten().find(differs) {
        None => Ok(ExitCode::SUCCESS),
        Some(run) => {
            eprintln!(
                "sweephand: note: the program did not always do the same: round {} under {} printed other bytes, or ended with \
                 another status, than the first round by itself",
                run.round, run.policy
            );
            Ok(ExitCode::from(1))
        }
    }
}

/// What the results depend on besides the program.
fn header(args: &Args) -> serde_json::Map<String, serde_json::Value> {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let options = [
        ("command", json!(words)),
        ("memory", json!(args.memory)),
        ("policy", json!(args.policy)),
        ("rounds", json!(args.rounds)),
        ("prefetch", json!(args.prefetch)),
    ];
    let conventions = json!({
        "native": "all memory that there is, no cgroup",
        "kernel": "a memory cgroup of cgroup_limit_bytes, with a swap file",
        "faults": "those that the pager answered; natively and under the kernel all that the kernel counts",
        "refaults": "faults on pages that had been evicted; under the kernel pages that came back from the swap file",
        "cgroup_limit_bytes": "memory, and what comes on top, the same for all; around a pager some more, which it leaves alone",
    });
    sweephand_report::header(options, conventions)
}

impl Variant {
    fn name(&self) -> String {
        match self {
            Self::Native => "native".to_string(),
            Self::Kernel(limit) => format!("kernel, {}", bytes(*limit)),
            Self::Policy(limit, spec) => format!("{spec}, {}", bytes(*limit)),
        }
    }

    fn run(&self, args: &Args, prefetch_pages: u32, round: u32) -> anyhow::Result<LiveRun> {
        let (mut reader, writer) = std::io::pipe().context("no pipe")?;
        let prepare = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(writer);
        };
        let command = &args.command;
        let run: Result<Box<dyn Running>, RunError> = match self {
            Self::Native => KernelRun::start(command, &KernelMemory::Unlimited, prepare).map(boxed),
            Self::Kernel(limit_bytes) => {
                let memory = KernelMemory::Limited { limit_bytes: *limit_bytes, swap: args.swap.clone() };
                KernelRun::start(command, &memory, prepare).map(boxed)
            }
            Self::Policy(limit_bytes, spec) => {
                let options = Options {
                    limit_bytes: *limit_bytes,
                    policy: spec.clone(),
                    swap: args.swap.clone(),
                    prefetch_pages,
                    use_ring: true,
                    backend: Backend::Anon,
                    cgroup_limit: CgroupLimit::Fitting,
                };
                Run::start(command, &options, prepare).map(boxed)
            }
        };
        let run = run?;
        // Read beside the program, which would wait for a full pipe.
        let digest = thread::spawn(move || {
            let mut hash = xxhash_rust::xxh3::Xxh3::new();
            let mut buffer = [0; 1 << 16];
            loop {
                match reader.read(&mut buffer)? {
                    0 => return std::io::Result::Ok(hash.digest()),
                    count => hash.update(&buffer[..count]),
                }
            }
        });
        let ended = run.wait()?;
        let digest = digest.join().expect("it does not panic").context("what the program printed")?;
        let Statistics { policy, memory_limit_bytes, wall_ns, user_ns, sys_ns, .. } = ended.statistics;
        let Statistics { faults, zero_fill_faults, refaults, evictions, .. } = ended.statistics;
        let Statistics { pages_read, pages_written, peak_resident_pages, hand_steps, .. } = ended.statistics;
        let Statistics { exit_status, cgroup, .. } = ended.statistics;
        Ok(LiveRun {
            policy,
            memory_limit_bytes,
            round,
            wall_ns,
            user_ns,
            sys_ns,
            faults,
            zero_fill_faults,
            refaults,
            evictions,
            pages_read,
            pages_written,
            peak_resident_pages,
            hand_steps,
            exit_status,
            cgroup_failcnt: cgroup.failcnt,
            cgroup_limit_bytes: cgroup.limit_bytes,
            output: format!("{digest:016x}"),
        })
    }
}

fn boxed<R: Running + 'static>(run: R) -> Box<dyn Running> {
    Box::new(run)
}
