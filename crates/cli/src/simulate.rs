//! `sweephand simulate`: page faults by policy and memory size.

use crate::formats::FormatName;
use crate::over_time::OverTime;
use crate::progress;
use crate::simulate_misses::{EvictionsName, Misses};
use crate::stderr::eprint_line;
use crate::time::{PagedBy, TimeOptions};
use anyhow::{Context, anyhow, bail};
use clap::builder::ArgPredicate;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_policy::registry::Spec;
use sweephand_results::{Format, Measure, SimulatedTrace, SimulationReport, SimulationRow};
use sweephand_sim::{
    Cell, DEFAULT_POLICIES, DEFAULT_SEED, DEFAULT_SIZES, Estimate, MemorySize, SampleSize, Sampling, Sweep,
    SweepError, Trajectory, Warmup, WindowStart, Windows,
};
use sweephand_time::{Device, TimeModel};
use sweephand_trace::Trace;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Traces of any format; - is standard input
    #[arg(required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Policies, comma list; `all`, or names with parameters as in clock-pro:cold=5%
    #[arg(short, long, default_value = DEFAULT_POLICIES, value_name = "LIST")]
    #[arg(default_value_if("whole_objects", "true", "all"))]
    #[arg(default_value_if("tiers", ArgPredicate::IsPresent, "lru"))]
    pub(crate) policy: String,
    /// Memory sizes, comma list: pages (300p), bytes (64MiB or 64M; 64MB is 64,000,000), shares of
    /// the trace's pages (25%), or all sizes
    #[arg(short, long, default_value = DEFAULT_SIZES, value_name = "LIST")]
    pub(crate) memory: String,
    /// The traces are of whole objects (import --whole-objects): count misses and missed bytes in a
    /// cache of `--memory` bytes. Policies: bound, fifo, lru, clock, sieve, lru-2, s3-fifo, gdsf,
    /// w-tinylfu. bound is below what any policy can reach
    #[arg(long, conflicts_with_all = ["collapse", "sample", "device", "trajectory"])]
    pub(crate) whole_objects: bool,
    /// Split each memory between resident pages and a pool of compressed ones, before a disk:
    /// zswap or zram. Pages compress as recorded with the trace, with codec=lz4 or zstd, or
    /// else with ratio=3 and, in percent of the pages, same-filled=0%, incompressible=0%.
    /// zswap:accept=90% is the kernel's behaviour at the limit, zram:disksize=50% a size before
    /// compression, in percent of memory. --device is the disk behind the pool
    #[arg(long, value_name = "POOL")]
    #[arg(conflicts_with_all = ["whole_objects", "warmup", "sample", "measure", "native", "paged_by"])]
    #[arg(conflicts_with_all = ["misses", "over_time", "trajectory"])]
    pub(crate) tiers: Option<String>,
    /// Shares of memory that have resident pages, comma list; the pool may take the rest.
    /// `adaptive` follows recent costs and savings, under lru before zswap with --device [default:
    /// 100%,90%,77%,63%,50%, and adaptive where it can be]
    #[arg(long, value_name = "LIST")]
    pub(crate) resident: Option<String>,
    /// The device whose writes and reads say how long compression takes, as measured on zram by
    /// `sweephand devices DIR` [default: zram]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) pool_device: Option<String>,
    /// Count from there on: after this many references (100000), a share of them (20%), or a time
    /// of the log that the trace was imported from (2h). What comes before fills memory
    #[arg(long, value_name = "N|TIME|PERCENT", conflicts_with_all = ["sample", "device"])]
    pub(crate) warmup: Option<Warmup>,
    /// Hide references that repeat the one before them from the policies (they still count)
    #[arg(long)]
    pub(crate) collapse: bool,
    /// Estimate from a sample of the pages, a share (1%) or a number (8192p): many times faster on
    /// large traces. Refused for policies that use neighbouring pages, objects or single frames,
    /// and for samples that are too small
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["trajectory", "device"])]
    sample: Option<SampleSize>,
    /// Seed of the sample: another seed takes another sample
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    sample_seed: u64,
    /// How to print the results
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: FormatName,
    /// What the table shows
    #[arg(long, value_enum, default_value = "faults")]
    #[arg(default_value_if("whole_objects", "true", "byte-miss-ratio"))]
    pub(crate) measure: MeasureName,
    #[command(flatten)]
    pub(crate) time: TimeOptions,
    /// What pages, for --device
    #[arg(long, value_enum, value_name = "WHAT", default_value = "run")]
    paged_by: PagedBy,
    /// Write the results to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write what one policy at one memory size asks of the memory below it as a trace: its misses
    /// as reads, evictions as writes. Simulate that trace for the second level of a cache
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["whole_objects", "sample", "device", "trajectory", "warmup"])]
    misses: Option<PathBuf>,
    /// Which evictions are written
    #[arg(long, value_enum, value_name = "WHICH", default_value = "written")]
    evictions: EvictionsName,
    /// Write what is missed in each window of the trace to a CSV file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sample", "device", "misses"])]
    pub(crate) over_time: Option<PathBuf>,
    /// Windows of --over-time: how many, of as many references each (100), or how long, by the
    /// times of the log that the trace was imported from (1h)
    #[arg(long, value_name = "N|TIME", default_value = "100")]
    pub(crate) windows: Windows,
    /// Write the cold allocation of CLOCK-Pro, and which policy `auto` follows, over time to a CSV
    /// file
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    trajectory: Option<PathBuf>,
    /// Records of the trace between two samples of the trajectory [default: a thousandth of them]
    #[arg(long, value_name = "N")]
    trajectory_step: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum MeasureName {
    Faults,
    Refaults,
    HitRatio,
    FaultsPerMillionInstructions,
    /// Seconds that the program would take; needs --device
    Time,
    /// Misses, of all requests for whole objects
    MissRatio,
    /// Bytes missed, of all bytes requested; the default with --whole-objects
    ByteMissRatio,
}

const TRAJECTORY_COLUMNS: [&str; 10] = [
    "trace",
    "policy",
    "memory_pages",
    "time_records",
    "resident_cold_pages",
    "resident_cold_percent",
    "cold_target_pages",
    "leader",
    "leader_changes",
    "recent_misses",
];

/// A table for people has no more columns than this.
const MOST_COLUMNS: usize = 40;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let request = Request::of(&args)?;
    let mut outputs = Outputs::create(&args)?;
    if outputs.trajectory.is_some() && !request.specs.iter().any(has_trajectory) {
        bail!(
            "--trajectory: none of the policies has a cold allocation or a leader; add clock-pro or auto to \
             --policy"
        );
    }
    let mut report = SimulationReport { sweephand: header(&args), traces: Vec::new(), rows: Vec::new() };
    for path in &args.traces {
        let mut prepared = request.prepare(path, &outputs)?;
        report.rows.append(&mut prepared.simulate(&request, &mut outputs)?);
        report.traces.push(prepared.described);
    }
    report.write(request.format, &mut outputs.results).context("the results cannot be written")?;
    outputs.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// How the results are printed. A table shows one measure, which has to be one of pages.
fn format(args: &Args) -> anyhow::Result<Format<Measure>> {
    args.format.showing(|| {
        Ok(match args.measure {
            MeasureName::Faults => Measure::Faults,
            MeasureName::Refaults => Measure::Refaults,
            MeasureName::HitRatio => Measure::HitRatio,
            MeasureName::FaultsPerMillionInstructions => Measure::FaultsPerMillionInstructions,
            MeasureName::Time => Measure::Time,
            MeasureName::MissRatio | MeasureName::ByteMissRatio => {
                bail!("--measure: that is for whole objects; add --whole-objects")
            }
        })
    })
}

/// Whether a policy has what `--trajectory` writes: a cold allocation or a leader.
fn has_trajectory(spec: &Spec) -> bool {
    spec.name().starts_with("clock-pro") || spec.expert(0).is_some()
}

/// Where the results go.
struct Outputs<'a> {
    results: Output,
    trajectory: Option<csv::Writer<Output>>,
    /// Taken when the one trace that it is made of is simulated.
    misses: Option<Misses<'a>>,
    /// The trace of misses once it is complete.
    complete_misses: Option<Output>,
    over_time: Option<OverTime>,
}

impl<'a> Outputs<'a> {
    /// Opens all files before the first trace is read. None of them may be one that the command
    /// uses already.
    fn create(args: &'a Args) -> anyhow::Result<Self> {
        let device_file = args.time.file();
        let mut in_use: Vec<&Path> = args.traces.iter().map(PathBuf::as_path).collect();
        in_use.extend(device_file.as_deref());
        let results = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
        in_use.extend(args.output.as_deref());
        let trajectory = args.trajectory.as_deref().map(|path| Output::create(path, &in_use));
        let mut trajectory = trajectory.transpose()?.map(csv::Writer::from_writer);
        if let Some(csv) = &mut trajectory {
            csv.write_record(TRAJECTORY_COLUMNS)?;
        }
        let misses = match &args.misses {
            Some(path) if args.traces.len() == 1 => Some(Misses::create(path, args.evictions, &in_use)?),
            Some(_) => bail!("--misses: {} traces, and it is for one", args.traces.len()),
            None => None,
        };
        in_use.extend(args.misses.as_deref());
        in_use.extend(args.trajectory.as_deref());
        let over_time = args.over_time.as_deref();
        let over_time = over_time.map(|path| OverTime::create(path, args.windows, false, &in_use));
        let over_time = over_time.transpose()?;
        Ok(Self { results, trajectory, misses, complete_misses: None, over_time })
    }

    /// Everything has been written: all files take their names, the results last.
    fn commit(self) -> anyhow::Result<()> {
        if let Some(csv) = self.trajectory {
            csv.into_inner()
                .map_err(|error| anyhow!("the trajectory cannot be written: {}", error.error()))?
                .commit()?;
        }
        if let Some(misses) = self.complete_misses {
            misses.commit()?;
        }
        if let Some(over_time) = self.over_time {
            over_time.commit()?;
        }
        Ok(self.results.commit()?)
    }
}

/// What is asked for, the same of every trace.
struct Request<'a> {
    args: &'a Args,
    specs: Vec<Spec>,
    sizes: Vec<MemorySize>,
    format: Format<Measure>,
    device: Option<Device>,
    sampling: Option<Sampling>,
}

impl<'a> Request<'a> {
    /// Reads the options. What is wrong with them is found out before a file is opened.
    fn of(args: &'a Args) -> anyhow::Result<Self> {
        let specs = Spec::parse_list(&args.policy)?;
        let sizes = MemorySize::parse_list(&args.memory)?;
        let format = format(args)?;
        let device = args.time.device()?;
        if matches!(args.measure, MeasureName::Time) && device.is_none() {
            bail!("--measure time: needs a device: add --device hdd, cloud, ssd, nvme, zram or a file");
        }
        let sampling = args.sample.map(|size| Sampling { size, seed: args.sample_seed });
        Ok(Self { args, specs, sizes, format, device, sampling })
    }

    /// Opens a trace and makes the sweep over it. What the trace does not allow is found out here,
    /// before the long run.
    fn prepare(&self, path: &Path, outputs: &Outputs<'_>) -> anyhow::Result<Prepared> {
        let trace = open(path)?;
        let told_apart = |sampling: Sampling| sampling.told_apart(&self.sizes, &trace);
        let sizes = self.sampling.map_or_else(|| self.sizes.clone(), told_apart);
        let sweep = Sweep::over(&trace, &self.specs, &sizes).map_err(|error| match error {
            SweepError::TooManySizes { .. } => anyhow!("--memory: {error}"),
            error => error.into(),
        })?;
        if let Some(sampling) = &self.sampling {
            sampling.check(&trace, &sweep.cells)?;
        }
        let mut described = describe(path, &trace);
        let columns = sweep.cells.len() / self.specs.len();
        if matches!(self.format, Format::Table(_)) && columns > MOST_COLUMNS {
            bail!("--memory: {columns} sizes are too many for a table; use --format csv");
        }
        let sample_records = self.sample_records(trace.header().totals.records)?;
        if let Some(note) = sweep.note_on_small_memories(&trace) {
            eprint_line!("sweephand: note: {note}");
        }
        let start = self.args.warmup.map(|warmup| warmup.end(&trace)).transpose()?;
        start.iter().for_each(|start| described.warmed_up(start));
        let windows = outputs.over_time.as_ref().map(|over_time| over_time.windows(&trace)).transpose()?;
        let windows = windows.unwrap_or_default();
        let warmup = start.map(|start| start.records);
        let mut cuts: Vec<u64> = windows.iter().map(|window| window.record).chain(warmup).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let sweep = Sweep { collapse: self.args.collapse, sample_records, cuts, ..sweep };
        Ok(Prepared { trace, described, sweep, windows, warmup })
    }

    /// Records between two samples of the trajectory in a trace of `records` records; 0 if there is
    /// none.
    fn sample_records(&self, records: u64) -> anyhow::Result<u64> {
        Ok(match (&self.args.trajectory, self.args.trajectory_step) {
            (None, _) => 0,
            (Some(_), Some(0)) => bail!("--trajectory-step: must be at least 1"),
            (Some(_), Some(step)) => step,
            (Some(_), None) => (records / 1000).max(1),
        })
    }
}

/// A trace that is ready to be simulated.
struct Prepared {
    trace: Trace,
    described: SimulatedTrace,
    sweep: Sweep,
    /// Those of `--over-time`.
    windows: Vec<WindowStart>,
    /// Records before those that count, with `--warmup`.
    warmup: Option<u64>,
}

impl Prepared {
    /// Simulates all cells in the way that is asked for. Returns their rows of the report.
    fn simulate(
        &mut self,
        request: &Request<'_>,
        outputs: &mut Outputs<'_>,
    ) -> anyhow::Result<Vec<SimulationRow>> {
        if let Some(misses) = outputs.misses.take() {
            let (outcome, out) = misses.write(&self.trace, &self.sweep)?;
            outputs.complete_misses = Some(out);
            let cell = &self.sweep.cells[0];
            return Ok(vec![self.described.row(&cell.spec, cell.frames, &outcome)]);
        }
        let bar = progress::bar(self.trace.header().totals.records, "references");
        bar.set_message(self.described.trace.clone());
        let progress = |records| bar.set_position(records);
        let rows = if let Some(sampling) = &request.sampling {
            self.estimate(sampling, &progress)?
        } else if let Some(device) = &request.device {
            let model = request.args.time.model(&self.trace, device.clone(), request.args.paged_by)?;
            self.predict(&model, &progress)?
        } else {
            self.count(outputs, &progress)?
        };
        bar.finish_and_clear();
        Ok(rows)
    }

    /// Estimates the counts from a sample of the pages.
    fn estimate(
        &mut self,
        sampling: &Sampling,
        progress: &dyn Fn(u64),
    ) -> anyhow::Result<Vec<SimulationRow>> {
        let estimates = sampling.run(&self.trace, &self.sweep, progress)?;
        self.described.sampled(&estimates);
        let cells = self.sweep.cells.iter().zip(&estimates.cells);
        let row = |(cell, estimate): (&Cell, &Estimate)| {
            self.described.estimated_row(&cell.spec, cell.frames, estimate)
        };
        Ok(cells.map(row).collect())
    }

    /// Counts faults, and predicts how long the program takes with them.
    fn predict(&self, model: &TimeModel, progress: &dyn Fn(u64)) -> anyhow::Result<Vec<SimulationRow>> {
        let records = self.trace.header().totals.records;
        let outcomes = self.sweep.run(&self.trace, &|done| progress(done / 3))?;
        // The model simulates each cell twice.
        let predicted = model.predict(&self.sweep, &|done| progress((records + 2 * done) / 3))?;
        let mut rows = Vec::new();
        for ((cell, (outcome, _)), time) in self.sweep.cells.iter().zip(&outcomes).zip(&predicted) {
            let row = self.described.row(&cell.spec, cell.frames, outcome);
            rows.push(row.predicted(time.seconds, &time.paging));
        }
        Ok(rows)
    }

    /// Counts faults, and writes what is asked for of their course.
    fn count(&self, outputs: &mut Outputs<'_>, progress: &dyn Fn(u64)) -> anyhow::Result<Vec<SimulationRow>> {
        let mut rows = Vec::new();
        for (cell, (outcome, points)) in self.sweep.cells.iter().zip(&self.sweep.run(&self.trace, progress)?)
        {
            let at = |record: u64| points.at_cuts[self.sweep.cuts.partition_point(|cut| *cut < record)];
            let counted = self.warmup.map_or(*outcome, |warmup| outcome.since(&at(warmup)));
            if let Some(over_time) = &mut outputs.over_time {
                let at_starts: Vec<_> = self.windows.iter().map(|window| at(window.record)).collect();
                let named = (&self.described.trace[..], &self.trace);
                over_time.write(named, cell, &self.windows, &at_starts, outcome)?;
            }
            rows.push(self.described.row(&cell.spec, cell.frames, &counted));
            if let Some(file) = &mut outputs.trajectory {
                write_trajectory(file, &self.described.trace, cell, points)?;
            }
        }
        Ok(rows)
    }
}

/// Opens a trace; `-` is standard input.
pub(crate) fn open(path: &Path) -> anyhow::Result<Trace> {
    Ok(if path == Path::new("-") {
        Trace::from_reader(std::io::stdin().lock(), Path::new("standard input"))?
    } else {
        Trace::open(path)?
    })
}

/// A trace under the name that it was given by.
pub(crate) fn describe(path: &Path, trace: &Trace) -> SimulatedTrace {
    SimulatedTrace { trace: path.display().to_string(), ..SimulatedTrace::of(trace) }
}

/// What the results depend on besides the traces.
fn header(args: &Args) -> serde_json::Map<String, serde_json::Value> {
    let mut options = vec![
        ("policy", json!(args.policy)),
        ("memory", json!(args.memory)),
        ("collapse", json!(args.collapse)),
    ];
    if let Some(warmup) = args.warmup {
        options.push(("warmup", json!(warmup.to_string())));
    }
    if let Some(size) = args.sample {
        options.push(("sample", json!(size.to_string())));
        options.push(("sample_seed", json!(args.sample_seed)));
    }
    if let Some(device) = &args.time.device {
        options.push(("device", json!(device)));
        options.push(("paged_by", json!(args.paged_by.name())));
        if let Some(seconds) = args.time.native {
            options.push(("native_seconds", json!(seconds)));
        }
    }
    SimulationReport::header(options)
}

/// A field of a CSV file; empty if there is no value.
fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn write_trajectory(
    out: &mut csv::Writer<Output>,
    trace: &str,
    cell: &Cell,
    trajectory: &Trajectory,
) -> anyhow::Result<()> {
    for point in &trajectory.points {
        let cold = point.allocation.map(|allocation| allocation.resident_cold_pages);
        let leader = point.leader.and_then(|leader| cell.spec.expert(leader.expert));
        let recent_misses = point.leader.map(|leader| {
            let counts = leader.recent_misses().iter().map(u64::to_string);
            counts.collect::<Vec<_>>().join("+")
        });
        out.write_record([
            trace,
            &cell.spec.to_string(),
            &cell.frames.to_string(),
            &point.time_records.to_string(),
            &text(cold),
            &text(cold.map(|cold| format!("{:.3}", 100.0 * cold as f64 / cell.frames as f64))),
            &text(point.allocation.map(|allocation| allocation.target_pages)),
            leader.unwrap_or_default(),
            &text(point.leader.map(|leader| leader.changes)),
            &text(recent_misses),
        ])?;
    }
    Ok(())
}
