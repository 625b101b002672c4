//! `sweephand export`: a trace in a format of others.

use crate::progress;
use crate::stderr::eprint_line;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_results::grouped;
use sweephand_trace::Error;
use sweephand_trace::export::{ExportFormat, export};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace of any format; - is standard input
    trace: PathBuf,
    /// Format to write
    #[arg(long, value_enum)]
    format: FormatName,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FormatName {
    /// A row for each reference, under the names of the columns
    Csv,
    /// Requests for objects, binary, with the next request of each (libCacheSim)
    OracleGeneral,
    /// Loads and stores, as valgrind --tool=lackey prints them
    Lackey,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { trace: path, format, output } = args;
    let mut out = Output::create(output, &[path])?;
    let trace = crate::simulate::open(path)?;
    let format = match format {
        FormatName::Csv => ExportFormat::Csv,
        FormatName::OracleGeneral => ExportFormat::OracleGeneral,
        FormatName::Lackey => ExportFormat::Lackey,
    };
    let bar = progress::bar(trace.header().totals.records, "references");
    let exported = export(&trace, format, &mut out, &mut |records| bar.set_position(records));
    bar.finish_and_clear();
    let exported = exported.map_err(|error: Error| error.in_output(output))?;
    out.commit()?;
    let is_stdout = output == Path::new("-");
    let shown = if is_stdout { "standard output".into() } else { output.display().to_string() };
    eprint_line!("{shown}: {} references of {}", grouped(exported.references), path.display());
    if !exported.left_out.is_empty() {
        eprint_line!(
            "{shown}: left out, because the format has no place for it: {}",
            exported.left_out.join(", ")
        );
    }
    let file = if is_stdout { "FILE".into() } else { shown.clone() };
    eprint_line!("{shown}: read it with: sweephand import {file} {} -o T.swt", exported.import_options);
    Ok(ExitCode::SUCCESS)
}
