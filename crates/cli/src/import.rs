//! `sweephand import`: a trace of another format becomes one of ours.

use crate::output::Output;
use crate::progress;
use anyhow::Context;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_trace::{Error, Format, ImportOptions, Metadata, Writer, import};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace to import, plain or compressed by gzip, xz or zstd; - is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Trace to write
    #[arg(short, long, value_name = "T")]
    output: PathBuf,
    /// Format of the input
    #[arg(long, value_enum, default_value = "auto")]
    format: FormatName,
    /// Keep only the first and last run of each page in every stretch of K distinct pages: LRU and OPT faults
    /// stay the same at every memory of K pages or more; other policies want at least 4 to 8 K
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    window: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FormatName {
    /// Found by content
    Auto,
    /// Page numbers, one a line, decimal or 0x hexadecimal
    Text,
    /// What the recorder sends
    Pgtr,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let out = Output::create(&args.output)?;
    let mut writer = Writer::new(out, Metadata::default()).map_err(|error| error.in_output(&args.output))?;
    let from_stdin = args.input == Path::new("-");
    let (reader, length): (Box<dyn Read>, u64) = if from_stdin {
        (Box::new(io::stdin().lock()), 0)
    } else {
        let file = File::open(&args.input).with_context(|| args.input.display().to_string())?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(file), length)
    };
    let options = ImportOptions {
        name: if from_stdin { PathBuf::from("standard input") } else { args.input },
        format: match args.format {
            FormatName::Auto => None,
            FormatName::Text => Some(Format::Text),
            FormatName::Pgtr => Some(Format::Pgtr),
        },
        window: args.window,
        tolerate_missing_end: false,
    };
    // What is done is known in bytes read from the file, whatever they expand to.
    let bar = if length > 0 { progress::bar(length, "bytes") } else { indicatif::ProgressBar::hidden() };
    let finish = |writer: &mut Writer<Output>| import(bar.wrap_read(reader), writer, &options, &mut |_| {});
    let imported = finish(&mut writer).and_then(|end| writer.finish(end));
    bar.finish_and_clear();
    let (out, header) = imported.map_err(|error: Error| error.in_output(&args.output))?;
    out.commit()?;
    let totals = &header.totals;
    eprintln!(
        "{}: {} references to {} pages, {} stored",
        args.output.display(),
        totals.references,
        totals.distinct_pages,
        totals.records
    );
    Ok(ExitCode::SUCCESS)
}
