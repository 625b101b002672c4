//! `sweephand devices`: the paging devices that time is predicted for, and the measurement of one.

use crate::progress;
use crate::stderr::eprint_line;
use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use sweephand_output::Output;
use sweephand_results::{Table, bytes, grouped};
use sweephand_time::{BUILT_IN, Device, Figures, MEASURED, calibrate, measured_path};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure the device that this directory is on, with a file that is gone afterwards; without a
    /// directory, list the devices that are known
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Seconds that the measurement may take
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Write the device to this file, not to the user's configuration; - is standard output
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(directory) = &args.directory else { return list() };
    let (path, is_own) = match (&args.output, measured_path()) {
        (Some(path), _) => (path.clone(), false),
        (None, Some(path)) => (path, true),
        (None, None) => bail!("there is no home directory to keep the device in; name a file: -o FILE.toml"),
    };
    if let Some(folder) = path.parent().filter(|_| is_own) {
        fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    }
    let mut out = Output::create(&path, &[])?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    const STEPS: f64 = 1000.0;
    let bar = progress::share(STEPS as u64);
    bar.set_message(directory.display().to_string());
    let show = |share: f64| bar.set_position((STEPS * share) as u64);
    let device = calibrate(directory, Duration::from_secs(args.seconds), &show, &stop);
    bar.finish_and_clear();
    let device = device?;
    out.write_all(device.to_toml().as_bytes()).context("the device cannot be written")?;
    out.commit()?;
    if path != Path::new("-") {
        io::stdout().write_all(table([&device].into_iter()).to_string().as_bytes())?;
        let name = if is_own { MEASURED.to_string() } else { path.display().to_string() };
        let option = if device.synchronous { "--pool-device or --device" } else { "--device" };
        eprint_line!("sweephand: the figures are in {}; use them with {option} {name}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The built-in devices, and the one that was measured.
fn list() -> anyhow::Result<ExitCode> {
    let mut devices = Vec::new();
    for (name, _) in BUILT_IN {
        devices.push(Device::named(name)?);
    }
    if measured_path().is_some_and(|path| path.exists()) {
        devices.push(Device::named(MEASURED)?);
    }
    let mut text = table(devices.iter()).to_string();
    for Device { name, source, .. } in &devices {
        text += &format!("\n{name}: {source}.\n");
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The figures of some devices.
fn table<'a>(devices: impl Iterator<Item = &'a Device>) -> Table {
    let mut table = Table::new([
        "",
        "read",
        "reads/s",
        "read, large",
        "one at a time",
        "write",
        "writes/s",
        "written, large",
        "one at a time",
    ]);
    for device in devices {
        let of = |figures: &Figures| {
            let each_second = |number: f64| format!("{}/s", bytes(number as u64));
            [
                format!("{:.0} us", figures.latency_us),
                grouped(figures.operations_per_second as u64),
                each_second(figures.bytes_per_second),
                each_second(figures.stream_bytes_per_second),
            ]
        };
        let row = [device.name.clone()].into_iter().chain(of(&device.read)).chain(of(&device.write));
        table.row(row);
    }
    table
}
