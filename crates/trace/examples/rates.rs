//! How fast traces are imported and decoded, how large they become.
//!
//! `cargo run --release -p sweephand-trace --example rates -- [--level N] TRACE...`: imports each
//! file at the given zstd level and prints seconds, bytes, and references decoded a second from the
//! file it made.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use sweephand_trace::{Chunk, ImportOptions, Metadata, Trace, Writer, import};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let level = match arguments.next_if(|argument| argument == "--level") {
        Some(_) => arguments.next().ok_or("a level")?.parse()?,
        None => Writer::<File>::DEFAULT_LEVEL,
    };
    let target = std::env::temp_dir().join(format!("sweephand-rates-{}.swt", std::process::id()));
    println!("trace,level,records,import_s,import_millions_per_s,bytes_in,bytes_out,decode_millions_per_s");
    for name in arguments {
        let start = Instant::now();
        let mut writer =
            Writer::with_level(BufWriter::new(File::create(&target)?), Metadata::default(), level)?;
        let options = ImportOptions { name: name.clone().into(), ..ImportOptions::default() };
        let end = import(File::open(&name)?, &mut writer, &options, &mut |_| {})?;
        let (_, header) = writer.finish(end)?;
        let records = header.totals.records;
        let seconds = start.elapsed().as_secs_f64();

        let trace = Trace::open(&target)?;
        let mut chunk = Chunk::new();
        let mut best = f64::MAX;
        for _ in 0..3 {
            let start = Instant::now();
            for index in 0..trace.chunks() {
                trace.read_chunk(index, &mut chunk)?;
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "{},{level},{records},{seconds:.2},{:.0},{},{},{:.0}",
            Path::new(&name).file_name().unwrap_or_default().display(),
            records as f64 / seconds / 1e6,
            std::fs::metadata(&name)?.len(),
            std::fs::metadata(&target)?.len(),
            records as f64 / best / 1e6
        );
    }
    std::fs::remove_file(target)?;
    Ok(())
}
