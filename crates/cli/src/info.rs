//! `sweephand info`: the contents of a trace, with a picture of page against time, or those of an
//! IRIM string.

mod contents;

use crate::progress;
use anyhow::Context;
use serde_json::json;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sweephand_results::{TraceReport, bytes, grouped};
use sweephand_trace::picture::{Cell, Picture};
use sweephand_trace::{Header, Irim, PageState, Trace, shown};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Trace of any format, or an IRIM string; - is standard input
    #[arg(value_name = "T")]
    trace: PathBuf,
    /// Decode the whole trace and check every checksum and total. Then also show the hash of the
    /// file, which a sweep's plan may name
    #[arg(long)]
    verify: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// How many of the largest objects to list, by the memory touched
    #[arg(long, default_value_t = 10, value_name = "N")]
    objects: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Size of the picture in characters.
const COLUMNS: usize = 72;
const ROWS: usize = 20;

/// Shares of a cell's pages touched, in quarters: cells in which pages are only read, cells in
/// which some are written.
const READ: [char; 4] = ['·', ':', '+', '#'];
const WRITTEN: [char; 4] = ['░', '▒', '▓', '█'];

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let trace = match open(&args.trace)? {
        Subject::Trace(trace) => trace,
        Subject::Irim(string) => return show_irim(&args, &string),
    };
    if args.verify {
        let bar = progress::bar(trace.header().totals.records, "references");
        let verified = trace.verify(&mut |records| bar.set_position(records));
        bar.finish_and_clear();
        verified?;
    }
    let report = TraceReport::of(&trace, args.objects, args.verify)?;
    let mut out = io::stdout().lock();
    match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &report.to_json()).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        Format::Table => {
            write_summary(&mut out, &report)?;
            // Whole objects have no addresses, so there is nothing to draw.
            if !trace.header().metadata.whole_objects {
                let picture = Picture::of(&trace, COLUMNS, ROWS)?;
                write_objects(&mut out, &report)?;
                trace
                    .header()
                    .metadata
                    .contents
                    .as_ref()
                    .map_or(Ok(()), |of| contents::write(&mut out, of, args.objects))?;
                write_picture(&mut out, trace.header(), &picture)?;
            }
        }
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// What there is to show.
enum Subject {
    Trace(Trace),
    Irim(Irim),
}

/// Opens a file, or reads what comes from a pipe, as what its first bytes say.
fn open(path: &Path) -> anyhow::Result<Subject> {
    let context = || path.display().to_string();
    let from_stdin = path == Path::new("-");
    if !from_stdin && !path.exists() {
        return Ok(Subject::Trace(Trace::open(path)?));
    }
    let (mut reader, name): (Box<dyn Read>, _) = if from_stdin {
        (Box::new(io::stdin().lock()), Path::new("standard input"))
    } else {
        (Box::new(File::open(path).with_context(context)?), path)
    };
    if path.is_dir() {
        return Ok(Subject::Trace(Trace::open(path)?));
    }
    let mut head = Vec::new();
    (&mut reader).take(4).read_to_end(&mut head).with_context(|| name.display().to_string())?;
    let is_irim = Irim::recognise(&head);
    let whole = Cursor::new(head).chain(reader);
    Ok(if is_irim {
        Subject::Irim(Irim::read(whole).map_err(|error| error.in_file(name))?)
    } else if path.is_file() {
        // Read at places, not through.
        Subject::Trace(Trace::open(path)?)
    } else {
        Subject::Trace(Trace::from_reader(whole, name)?)
    })
}

fn show_irim(args: &Args, string: &Irim) -> anyhow::Result<ExitCode> {
    let count = |state| string.transitions.iter().filter(|t| t.state == state).count() as u64;
    let [idle, clean, dirty] = [PageState::Idle, PageState::Clean, PageState::Dirty].map(count);
    let mut out = io::stdout().lock();
    if args.format == Format::Json {
        let report = json!({
            "irim": args.trace.display().to_string(),
            "format_version": sweephand_trace::irim::VERSION,
            "omega_refs": string.omega,
            "references": string.references,
            "transitions": string.transitions.len(),
            "to_idle": idle,
            "to_clean": clean,
            "to_dirty": dirty,
            "references_per_transition": string.reduction(),
            "page_ids": string.pages,
            "drops": string.drops.len(),
            "source_records": string.records,
            "source_checksum": format!("{:016x}", string.source_checksum),
            "metadata": string.metadata,
        });
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let mut line = |name: &str, value: String| writeln!(out, "{name:<20} {}", shown(&value));
        let metadata = &string.metadata;
        line("IRIM string", args.trace.display().to_string())?;
        line("program", metadata.program.clone())?;
        if !metadata.command.is_empty() {
            line("command", metadata.command.join(" "))?;
        }
        let records = grouped(string.records);
        line("made from", format!("trace {:016x} ({records} references stored)", string.source_checksum))?;
        line("omega", format!("{} references", grouped(string.omega)))?;
        line("references", grouped(string.references))?;
        line("pages", format!("{} of {}", grouped(string.pages.into()), bytes(metadata.page_size)))?;
        let all = grouped(string.transitions.len() as u64);
        let [idle, clean, dirty] = [idle, clean, dirty].map(grouped);
        line("transitions", format!("{all} ({clean} to clean, {dirty} to dirty, {idle} to idle)"))?;
        line("saving", format!("{:.0} references a transition", string.reduction()))?;
        let times = match metadata.window {
            0 => "exact",
            _ => "estimates: the trace does not store every reference",
        };
        line("times", times.to_owned())?;
        if !string.drops.is_empty() {
            line("contents dropped", format!("{} times", grouped(string.drops.len() as u64)))?;
        }
    }
    out.flush().context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn write_summary(out: &mut impl Write, report: &TraceReport<'_>) -> io::Result<()> {
    let TraceReport { trace, verified, file_hash, .. } = report;
    let Header { version, checksum, totals, metadata } = trace.header();
    let mut line = |name: &str, value: String| writeln!(out, "{name:<20} {}", shown(&value));
    line("trace", trace.name().display().to_string())?;
    line("program", metadata.program.clone())?;
    if !metadata.command.is_empty() {
        line("command", metadata.command.join(" "))?;
    }
    line("source", format!("{}, written by {}", metadata.source, metadata.producer))?;
    let checked = if *verified { ", every chunk verified" } else { "" };
    line(
        "checksum",
        format!("{checksum:016x} (format version {version}, {} chunks{checked})", totals.chunks),
    )?;
    file_hash.as_ref().map_or(Ok(()), |hash| line("file hash", hash.to_string()))?;
    let ended = match (metadata.complete, metadata.ended.as_str()) {
        (true, "") => "complete".to_owned(),
        (true, ended) => format!("complete: {ended}"),
        (false, ended) => format!("INCOMPLETE: {ended}"),
    };
    line("end", ended)?;
    metadata.notes.iter().try_for_each(|note| line("note", note.clone()))?;
    if let Some(epochs) = metadata.epochs {
        let (seconds, largest) = (epochs.longest_ns as f64 / 1e9, grouped(epochs.largest_pages));
        let exactness = metadata.exactness().unwrap_or_default();
        let count = grouped(epochs.epochs);
        let exactness = exactness.strip_prefix("with ").unwrap_or(&exactness);
        line("epochs", format!("{count}, up to {seconds:.1} s and {largest} pages each ({exactness})"))?;
    }
    let window = match metadata.window {
        _ if metadata.epochs.is_some_and(|epochs| epochs.ordered) => {
            "first touches of each epoch, in order".to_owned()
        }
        _ if metadata.epochs.is_some() => "none: each page is stored once an epoch".to_owned(),
        0 => "none: every reference is stored".to_owned(),
        1 => "1 (runs of references to one page are stored as one)".to_owned(),
        k => format!("{k} ({})", metadata.exactness().unwrap_or_default()),
    };
    line("window", window)?;
    let included = match (metadata.instruction_fetches, metadata.system_calls) {
        (true, true) => "data, instruction fetches, system calls",
        (true, false) => "data, instruction fetches",
        (false, true) => "data, system calls",
        (false, false) => "data",
    };
    line("references to", included.to_owned())?;
    line("references", grouped(totals.references))?;
    line("  in runs", grouped(totals.runs))?;
    line("  stored", grouped(totals.records))?;
    line("instructions", totals.instructions.map_or("unknown".to_owned(), grouped))?;
    let memory = bytes(totals.distinct_pages.saturating_mul(metadata.page_size));
    let pages = match metadata.whole_objects {
        true => "none: whole objects, for simulate --whole-objects".to_owned(),
        false => format!("{} of {} ({memory})", grouped(totals.distinct_pages), bytes(metadata.page_size)),
    };
    line("pages", pages)?;
    line("  written", grouped(totals.written_pages))?;
    line("mappings", format!("{} made, {} dropped, {} moved", totals.maps, totals.unmaps, totals.remaps))?;
    let objects = format!(
        "{} allocated, {} freed, {} at most at a time",
        totals.objects,
        totals.frees,
        bytes(totals.peak_object_bytes)
    );
    line("objects", objects)
}

fn write_objects(out: &mut impl Write, report: &TraceReport<'_>) -> io::Result<()> {
    let TraceReport { trace, objects, places, live_at_end, .. } = report;
    let header = trace.header();
    if objects.is_empty() {
        return Ok(());
    }
    let share = |record: u64| format!("{:.1}%", 100.0 * record as f64 / header.totals.records.max(1) as f64);
    writeln!(
        out,
        "\nlargest objects ({live_at_end} live at the end; from, to: share of the references stored)"
    )?;
    writeln!(
        out,
        "{:>14}  {:>12} {:>10}  {:<8} {:>7} {:>7}",
        "address", "bytes", "touched", "by", "from", "to"
    )?;
    for object in objects {
        writeln!(
            out,
            "{:#14x}  {:>12} {:>10}  {:<8} {:>7} {:>7}",
            object.address,
            bytes(object.length_bytes),
            bytes(object.touched_pages.saturating_mul(header.metadata.page_size)),
            object.kind.name(),
            share(object.from_record),
            object.to_record.map_or("end".to_owned(), share)
        )?;
        if let Some(frame) = object.made_at.as_ref().and_then(|stack| stack.place()) {
            writeln!(out, "{:>16}made at {}", "", shown(&frame.to_string()))?;
        }
    }
    if places.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nplaces that made most of them")?;
    writeln!(out, "{:>12} {:>10} {:>8}  place", "bytes", "touched", "objects")?;
    for place in places {
        let (length, objects) = (bytes(place.length_bytes), grouped(place.objects));
        let touched = bytes(place.touched_pages.saturating_mul(header.metadata.page_size));
        writeln!(out, "{length:>12} {touched:>10} {objects:>8}  {}", shown(&place.made_at))?;
    }
    Ok(())
}

/// High addresses on top, as in a process's map.
fn write_picture(out: &mut impl Write, header: &Header, picture: &Picture) -> io::Result<()> {
    if picture.rows.is_empty() {
        return Ok(());
    }
    let [read, written] = [READ, WRITTEN].map(|ramp| ramp.map(String::from).join(""));
    writeln!(
        out,
        "\npages touched, {read} read, {written} some written: up to 1/4, 1/2, 3/4, all of the pages of a cell"
    )?;
    for row in picture.rows.iter().rev() {
        let cells: String = row.cells.iter().map(|cell| glyph(*cell, row.pages)).collect();
        let address = row.first_page.saturating_mul(header.metadata.page_size);
        writeln!(out, "{address:#14x} |{cells}|")?;
    }
    let last = grouped(header.totals.records);
    let width = picture.columns.max(last.len() + 2);
    writeln!(out, "{:>14}  0{last:>fill$}", "references", fill = width - 1)
}

fn glyph(cell: Cell, pages: u32) -> char {
    let ramp = if cell.written > 0 { WRITTEN } else { READ };
    match cell.touched {
        0 => ' ',
        touched => ramp[((4 * u64::from(touched)).div_ceil(pages.into()) as usize - 1).min(3)],
    }
}
