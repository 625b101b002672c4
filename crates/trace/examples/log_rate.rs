//! How fast a log with columns is imported, beside the csv crate: `lab/bench/logs/README.md`.
//!
//!     log_rate make BYTES FILE      writes a log of requests for objects
//!     log_rate csv FILE             reads it with the csv crate, as records of bytes, and counts
//!     log_rate import COLUMNS FILE  imports it
//!
//! The last two print: what, bytes, rows, seconds elapsed, seconds of processor time, peak memory.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use sweephand_trace::{ImportOptions, Metadata, Writer, import};

/// Popular objects have small numbers: e to the power of a uniform number below this.
const SPREAD: f64 = 16.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", bytes, file] => make(bytes.parse()?, file),
        ["csv", file] => measured("csv crate", file, || {
            let mut reader = csv::Reader::from_path(file)?;
            let (mut record, mut rows) = (csv::ByteRecord::new(), 0);
            while reader.read_byte_record(&mut record)? {
                rows += 1;
            }
            Ok(rows)
        }),
        ["import", columns, file] => measured("import", file, || {
            let out = Path::new(file).with_extension("swt");
            let mut writer = Writer::new(File::create(&out)?, Metadata::default())?;
            let options = ImportOptions { columns: Some(columns.parse()?), ..ImportOptions::default() };
            let end = import(File::open(file)?, &mut writer, &options, &mut |_| {})?;
            let (_, header) = writer.finish(end)?;
            fs::remove_file(out)?;
            let requests = header.metadata.notes[0].split(' ').next().expect("a note counts the requests");
            Ok(requests.parse()?)
        }),
        _ => Err("log_rate make BYTES FILE | csv FILE | import COLUMNS FILE".into()),
    }
}

fn make(bytes: u64, file: &str) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(File::create(file)?);
    let mut random = SplitMix64::seed_from_u64(7);
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut written = out.write(b"time,key,size,op\n")? as u64;
    let mut time = 1_700_000_000.0;
    while written < bytes {
        time += 0.001;
        let object = (uniform() * SPREAD).exp() as u64;
        let op = if uniform() < 0.1 { "set" } else { "get" };
        let row = format!("{time:.3},user:{object}:profile,{},{op}\n", 100 + object % 4000);
        written += out.write(row.as_bytes())? as u64;
    }
    Ok(out.flush()?)
}

/// Runs it and prints what it took.
fn measured(
    what: &str,
    file: &str,
    work: impl FnOnce() -> Result<u64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let rows = work()?;
    let seconds = start.elapsed().as_secs_f64();
    let bytes = fs::metadata(file)?.len();
    // Ticks of user and system time stand behind the name, which is in parentheses.
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let processor = (fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    let rate = bytes as f64 / 1e6 / processor;
    println!("{what},{bytes},{rows},{seconds:.2},{processor:.2},{rate:.0},{}", peak.trim_end_matches(" kB"));
    Ok(())
}
