//! `sweephand simulate --tiers`: resident pages, compressed ones and a disk, at equal total memory.

use crate::progress;
use crate::simulate::{Args, describe, open};
use crate::stderr::eprint_line;
use anyhow::{Context, anyhow, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_policy::registry::Spec;
use sweephand_results::{TiersReport, TiersRow, TracePages};
use sweephand_sim::{Cell, MemorySize, Split, Sweep, SweepError, TierSpec, TierSpecError};
use sweephand_time::{Device, POOL_DEVICE, TierCosts};
use sweephand_trace::{Interrupt, Trace};

/// Splits unless others are asked for: no pool, and the pools of the paper on compressed caching,
/// 10, 23, 37 and 50 % of memory (Wilson, Kaplan, Smaragdakis, USENIX 1999).
const DEFAULT_RESIDENT_PERCENTS: [f64; 5] = [100.0, 90.0, 77.0, 63.0, 50.0];
/// The split that adapts, as users write it.
const ADAPTIVE: &str = "adaptive";

/// Simulates what is below each split of each memory.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let request = Request::of(args)?;
    let format = args.format.showing(|| Ok(()))?;
    let device_files = [args.time.file(), args.pool_device.as_deref().and_then(Device::file_of)];
    let mut in_use: Vec<&Path> = args.traces.iter().map(PathBuf::as_path).collect();
    in_use.extend(device_files.iter().flatten().map(PathBuf::as_path));
    let mut out = Output::create(args.output.as_deref().unwrap_or(Path::new("-")), &in_use)?;
    let sweephand = TiersReport::header(options(args, &request));
    let mut report =
        TiersReport { sweephand, traces: Vec::new(), compressibility: Vec::new(), rows: Vec::new() };
    for path in &args.traces {
        let trace = open(path)?;
        let contents = trace.header().metadata.contents.as_ref();
        let costs = request.costs(&trace);
        let splits = request.splits(&trace, costs.as_ref())?;
        let described = describe(path, &trace);
        let bar = progress::bar(trace.header().totals.records, "references");
        bar.set_message(described.trace.clone());
        let progress = |records| bar.set_position(records);
        let told = request.tiers.tiers(contents).run(
            &trace,
            &splits,
            args.collapse,
            &Interrupt::default(),
            &progress,
        )?;
        bar.finish_and_clear();
        for (split, (outcome, counts)) in splits.iter().zip(&told) {
            let seconds = costs.map(|costs| costs.seconds(outcome, counts));
            report.rows.push(TiersRow::new(&described, split, outcome, counts, seconds));
        }
        report.traces.push(described);
        let pages = TracePages::of(&request.tiers, contents);
        report.compressibility.push(match &costs {
            Some(costs) => pages.timed(costs.are_of_program),
            None => pages,
        });
    }
    report.write(format, &mut out).context("the results cannot be written")?;
    out.commit()?;
    Ok(ExitCode::SUCCESS)
}

/// What is asked for, the same of every trace.
struct Request {
    tiers: TierSpec,
    specs: Vec<Spec>,
    sizes: Vec<MemorySize>,
    /// `None`: the splits that there are unless others are asked for.
    resident: Option<ResidentList>,
    /// What compresses pages and what is behind the pool, if time is predicted.
    devices: Option<Devices>,
}

struct Devices {
    pool: Device,
    disk: Device,
}

impl Request {
    /// Reads the options. What is wrong with them is found out before a file is opened.
    fn of(args: &Args) -> anyhow::Result<Self> {
        let tiers = args.tiers.as_deref().unwrap_or_default().parse();
        let tiers = tiers.map_err(|error: TierSpecError| anyhow!("--{error}"))?;
        let specs = Spec::parse_list(&args.policy)?;
        let sizes = MemorySize::parse_list(&args.memory)?;
        if sizes.contains(&MemorySize::All) {
            bail!("--memory: all sizes are too many to split; name some");
        }
        let resident = args.resident.as_deref().map(ResidentList::parse).transpose()?;
        let request = Self { tiers, specs, sizes, resident, devices: devices(args)? };
        request.check_adaptive()?;
        Ok(request)
    }

    /// Refuses an adaptive split that was asked for and that there is not.
    fn check_adaptive(&self) -> anyhow::Result<()> {
        if !self.resident.as_ref().is_some_and(|list| list.adaptive) {
            return Ok(());
        }
        if !self.tiers.kind.adapts() {
            bail!("--resident {ADAPTIVE}: only zswap gives memory back, without accept; give --tiers zswap");
        }
        if let Some(other) = self.specs.iter().find(|spec| !adapts(spec)) {
            bail!("--resident {ADAPTIVE}: {other} has no such split; give --policy lru");
        }
        if self.devices.is_none() {
            bail!("--resident {ADAPTIVE}: the split weighs costs; name the disk with --device");
        }
        Ok(())
    }

    /// The splits of all memories for a trace.
    fn splits(&self, trace: &Trace, costs: Option<&TierCosts>) -> anyhow::Result<Vec<Split>> {
        let sweep = Sweep::over(trace, &self.specs, &self.sizes).map_err(|error| match error {
            SweepError::TooManySizes { .. } => anyhow!("--memory: {error}"),
            error => error.into(),
        })?;
        let splits: Vec<_> = sweep.cells.iter().flat_map(|cell| self.splits_of(cell, costs)).collect();
        let resident = |split: &Split| Cell {
            spec: split.spec.clone(),
            frames: split.resident_pages().unwrap_or(split.memory_pages),
        };
        let resident = Sweep { cells: splits.iter().map(resident).collect(), ..sweep };
        if let Some(note) = resident.note_on_small_memories(trace) {
            eprint_line!("sweephand: note: {note}");
        }
        Ok(splits)
    }

    fn splits_of(&self, cell: &Cell, costs: Option<&TierCosts>) -> Vec<Split> {
        let (percents, adaptive) = match &self.resident {
            Some(list) => (&list.percents[..], list.adaptive),
            None => (&DEFAULT_RESIDENT_PERCENTS[..], self.tiers.kind.adapts() && adapts(&cell.spec)),
        };
        let mut splits = Split::of(cell, percents);
        splits.extend(costs.filter(|_| adaptive).map(|costs| Split::adaptive(cell, costs.of_splits())));
        splits
    }

    /// The costs of paging, if time is predicted.
    fn costs(&self, trace: &Trace) -> Option<TierCosts> {
        let Devices { pool, disk } = self.devices.as_ref()?;
        let metadata = &trace.header().metadata;
        let own = self.tiers.codec_time(metadata.contents.as_ref());
        Some(TierCosts::of(pool, disk, metadata.page_size, own))
    }
}

/// Whether a policy has an adaptive split.
fn adapts(spec: &Spec) -> bool {
    spec.to_string() == "lru"
}

/// The devices that are asked for.
fn devices(args: &Args) -> anyhow::Result<Option<Devices>> {
    let Some(disk) = args.time.device()? else { return Ok(None) };
    if disk.synchronous {
        bail!("--device: {} compresses pages, as the pool does; name the disk behind the pool", disk.name);
    }
    let pool = Device::named(args.pool_device.as_deref().unwrap_or(POOL_DEVICE));
    let pool = pool.map_err(|error| anyhow::Error::from(error).context("--pool-device"))?;
    if !pool.synchronous {
        bail!("--pool-device: {} is a disk; measure a folder on zram with sweephand devices", pool.name);
    }
    Ok(Some(Devices { pool, disk }))
}

/// Splits as users list them.
struct ResidentList {
    /// Shares of memory that are resident.
    percents: Vec<f64>,
    /// Whether a split that adapts is among them. It comes last.
    adaptive: bool,
}

impl ResidentList {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut list = Self { percents: Vec::new(), adaptive: false };
        for item in text.split(',').map(str::trim) {
            if item == ADAPTIVE {
                list.adaptive = true;
                continue;
            }
            let share = item.strip_suffix('%').and_then(|share| share.parse().ok());
            let share = share.filter(|share: &f64| *share > 0.0 && *share <= 100.0);
            list.percents.push(share.ok_or_else(|| {
                anyhow!(
                    "--resident '{item}': write shares of memory, at most all of it, or {ADAPTIVE}, as in \
                     100%,75%,{ADAPTIVE}"
                )
            })?);
        }
        Ok(list)
    }
}

/// What the results depend on besides the traces.
fn options(args: &Args, request: &Request) -> Vec<(&'static str, serde_json::Value)> {
    let mut options = vec![
        ("policy", json!(args.policy)),
        ("memory", json!(args.memory)),
        ("collapse", json!(args.collapse)),
        ("tiers", json!(request.tiers.to_string())),
    ];
    options.extend(args.resident.as_ref().map(|resident| ("resident", json!(resident))));
    if let Some(devices) = &request.devices {
        options.push(("device", json!(args.time.device)));
        options.push(("pool_device", json!(args.pool_device.as_deref().unwrap_or(&devices.pool.name))));
    }
    options
}
