//! `sweephand import`: converts a trace of another format, or a log with columns, to ours or, with
//! `--irim`, to an IRIM string. `--show` shows what an input is.

mod args;
mod show;
mod together;

pub(crate) use args::Args;

use crate::progress;
use crate::stderr::eprint_line;
use anyhow::bail;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_output::Output;
use sweephand_results::grouped;
use sweephand_trace::columns::Columns;
use sweephand_trace::several::{Order, import_several};
use sweephand_trace::{Error, Header, ImportOptions, Irim, Metadata, Writer, import};

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    together::check(|option| args.has(option))?;
    let columns = args.columns()?;
    let files = args.files()?;
    if let (true, [_, ..]) = (args.show || args.irim.is_some(), &files[1..]) {
        let option = if args.show { "--show" } else { "--irim" };
        bail!("{option}: is for one input; there are {}", files.len());
    }
    let args = Args { input: files[0].clone(), ..args };
    let Some(output) = &args.output else {
        return show::run(&args, columns);
    };
    let in_use: Vec<&Path> = files.iter().map(|file| &**file).chain(args.columns_file()).collect();
    let out = Output::create(output, &in_use)?;
    if let Some(omega) = args.irim {
        return write_irim(&args.input, output, omega, out);
    }
    let mut writer = Writer::new(out, Metadata::default()).map_err(|error| error.in_output(output))?;
    if files.len() > 1 {
        return run_several(&args, &files, columns, output, writer);
    }
    let (reader, length, options) = args.open(columns)?;
    // What is done is known in bytes read from the file, whatever they expand to.
    let bar = if length > 0 { progress::bar(length, "bytes") } else { indicatif::ProgressBar::hidden() };
    let finish = |writer: &mut Writer<Output>| import(bar.wrap_read(reader), writer, &options, &mut |_| {});
    let imported = finish(&mut writer).and_then(|end| writer.finish(end));
    bar.finish_and_clear();
    let (out, header) = imported.map_err(|error: Error| error.in_output(output))?;
    out.commit()?;
    report(&header, output)
}

/// Merges several inputs, or reads one after another.
fn run_several(
    args: &Args,
    files: &[PathBuf],
    columns: Option<Columns>,
    output: &Path,
    mut writer: Writer<Output>,
) -> anyhow::Result<ExitCode> {
    let options = ImportOptions {
        name: args.input.clone(),
        format: args.format.format(),
        columns,
        window: args.window,
        bad_rows: args.bad_rows.unwrap_or_default(),
        ..ImportOptions::default()
    };
    let length = files.iter().map(|file| fs::metadata(file).map_or(0, |metadata| metadata.len())).sum();
    let bar = progress::bar(length, "bytes");
    let order = if args.in_order { Order::OneAfterAnother } else { Order::ByTime };
    let open = |file: &Path| -> io::Result<Box<dyn Read>> { Ok(Box::new(bar.wrap_read(File::open(file)?))) };
    let imported = import_several(files, &open, order, &mut writer, &options, &mut |_| {});
    let imported = imported.and_then(|end| writer.finish(end));
    bar.finish_and_clear();
    let (out, header) = imported.map_err(|error: Error| error.in_output(output))?;
    out.commit()?;
    report(&header, output)
}

/// Says what was imported.
fn report(header: &Header, output: &Path) -> anyhow::Result<ExitCode> {
    let totals = &header.totals;
    let shown = output.display();
    eprint_line!(
        "{shown}: {} references to {} pages, {} stored",
        totals.references,
        totals.distinct_pages,
        totals.records
    );
    for note in &header.metadata.notes {
        eprint_line!("{shown}: {note}");
    }
    Ok(ExitCode::SUCCESS)
}

fn write_irim(input: &Path, output: &Path, omega: u64, mut out: Output) -> anyhow::Result<ExitCode> {
    let trace = crate::simulate::open(input)?;
    let bar = progress::bar(trace.header().totals.records, "references");
    let made = Irim::with_progress(&trace, omega, &mut |records| bar.set_position(records));
    bar.finish_and_clear();
    let string = made?;
    string.write(&mut out).map_err(|error| error.in_output(output))?;
    out.commit()?;
    let shown = output.display();
    eprint_line!(
        "{shown}: {} transitions for {} references ({:.0} to one) of {} pages",
        grouped(string.transitions.len() as u64),
        grouped(string.references),
        string.reduction(),
        string.pages
    );
    if string.metadata.window > 0 {
        eprint_line!(
            "{shown}: note: the trace does not store every reference, so their times are estimates \
             (record with --window 0 for exact ones)"
        );
    }
    Ok(ExitCode::SUCCESS)
}
