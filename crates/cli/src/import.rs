//! `sweephand import`: converts a trace of another format to ours or, with `--irim`, to an IRIM
//! string.

use crate::progress;
use crate::talk::say;
use anyhow::Context;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_results::grouped;
use sweephand_trace::{Error, Format, ImportOptions, Irim, Metadata, Writer, import};

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
    /// Keep only the first and last run of each page in every stretch of K distinct pages. Faults
    /// of LRU and OPT stay exact from K pages of memory up, those of other policies nearly exact
    /// from 4 to 8 K up
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    window: u64,
    /// Write an IRIM string instead: only the moments at which the use of a page changes. A page is
    /// idle after OMEGA references without it (5000 is usual). Multiprogramming simulations run on
    /// such a string many times faster
    #[arg(long, value_name = "OMEGA", conflicts_with_all = ["window", "format"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    irim: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FormatName {
    /// Found by content
    Auto,
    /// Page numbers, one a line, decimal or 0x hexadecimal
    Text,
    /// What the recorder sends
    Pgtr,
    /// What valgrind --tool=lackey --trace-mem=yes prints, without the output of the program
    Lackey,
    /// What DynamoRIO's view tool prints of a drmemtrace trace
    Drmemtrace,
    /// Requests to disks: unit,block,size,R or W,time (Storage Performance Council)
    Spc,
    /// Requests to disks: time,host,disk,Read or Write,offset,size,response time (MSR Cambridge)
    Msr,
    /// Requests for objects, binary (libCacheSim); not found by content
    OracleGeneral,
}

impl FormatName {
    fn format(self) -> Option<Format> {
        match self {
            Self::Auto => None,
            Self::Text => Some(Format::Text),
            Self::Pgtr => Some(Format::Pgtr),
            Self::Lackey => Some(Format::Lackey),
            Self::Drmemtrace => Some(Format::Drmemtrace),
            Self::Spc => Some(Format::Spc),
            Self::Msr => Some(Format::Msr),
            Self::OracleGeneral => Some(Format::OracleGeneral),
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let out = Output::create(&args.output, &[&args.input])?;
    if let Some(omega) = args.irim {
        return write_irim(&args, omega, out);
    }
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
        format: args.format.format(),
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
    say!(
        "{}: {} references to {} pages, {} stored",
        args.output.display(),
        totals.references,
        totals.distinct_pages,
        totals.records
    );
    Ok(ExitCode::SUCCESS)
}

fn write_irim(args: &Args, omega: u64, mut out: Output) -> anyhow::Result<ExitCode> {
    let trace = crate::simulate::open(&args.input)?;
    let bar = progress::bar(trace.header().totals.records, "references");
    let made = Irim::with_progress(&trace, omega, &mut |records| bar.set_position(records));
    bar.finish_and_clear();
    let string = made?;
    string.write(&mut out).map_err(|error| error.in_output(&args.output))?;
    out.commit()?;
    let shown = args.output.display();
    say!(
        "{shown}: {} transitions for {} references ({:.0} to one) of {} pages",
        grouped(string.transitions.len() as u64),
        grouped(string.references),
        string.reduction(),
        string.pages
    );
    if string.metadata.window > 0 {
        say!(
            "{shown}: note: the trace does not store every reference, so their times are estimates \
             (record with --window 0 for exact ones)"
        );
    }
    Ok(ExitCode::SUCCESS)
}
