//! Writing traces in formats of others: CSV, libCacheSim's oracleGeneral, lackey.
//!
//! What a format has no place for is left out, and counted ([`Exported::left_out`]). What it has a
//! place for comes back when the file is imported: the same references to the same pages, in the
//! same order. (oracleGeneral is an exception: importing it gives objects numbers of their own, by
//! first request.)

use crate::objects::is_of_whole_objects;
use crate::tenants::{TenantOfPage, Tenants};
use crate::{Chunk, Error, Event, PackedReference, Trace};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// A format that traces are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A row for each reference, with the names of the columns in the first.
    Csv,
    /// libCacheSim's binary format ([`crate::oracle_general`]).
    OracleGeneral,
    /// What Valgrind's lackey prints ([`crate::lackey`]). Pages have 4 KiB.
    Lackey,
}

/// What became of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// References written.
    pub references: u64,
    /// The options by which `import` reads it.
    pub import_options: String,
    /// What the format has no place for, each as `3 writes`.
    pub left_out: Vec<String>,
}

/// Bytes of address space that a disk has when a log is imported, as a power of two.
const DISK_SHIFT: u32 = 52;

/// Writes a trace. `progress` is called now and then with the number of references so far.
///
/// # Errors
/// The trace cannot be read, the format cannot have it, or the output cannot be written.
pub fn export(
    trace: &Trace,
    format: ExportFormat,
    out: &mut impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Exported, Error> {
    let found = Found::of(trace)?;
    let refused = |reason: &str| Err(Error::unfit(reason.to_owned()).in_file(trace.name()));
    let page_bytes = trace.header().metadata.page_size;
    let mut walk = Walk::new(trace, found.is_whole);
    match format {
        ExportFormat::Csv => {
            let mut rows = Csv::begin(trace, &found, out)?;
            walk.run(&mut |step| rows.step(step), progress)?;
        }
        ExportFormat::OracleGeneral => {
            let mut records = OracleGeneral { out, next: next_requests(trace)?, number: 0, page_bytes };
            walk.run(&mut |step| records.step(step), progress)?;
        }
        ExportFormat::Lackey if found.is_whole => {
            return refused("is of whole objects, which lackey does not have; export csv or oracle-general");
        }
        ExportFormat::Lackey if page_bytes != 4096 => {
            return refused("has pages of another size than 4 KiB, and lackey's have that; export csv");
        }
        ExportFormat::Lackey => {
            let mut accesses = Lackey::begin(trace, out)?;
            walk.run(&mut |step| accesses.step(step), progress)?;
        }
    }
    out.flush().map_err(Error::write)?;
    Ok(Exported {
        references: trace.header().totals.records,
        import_options: import_options(trace, format, &found),
        left_out: found.left_out(trace, format),
    })
}

/// What is in a trace beside plain references.
#[derive(Default)]
struct Found {
    is_whole: bool,
    writes: u64,
    /// Pages whose contents were dropped.
    drops: u64,
    moves: u64,
    has_times_to_live: bool,
    /// Times that are no whole seconds, or that a number of 32 bits does not hold.
    has_odd_times: bool,
    highest_page: u64,
}

impl Found {
    fn of(trace: &Trace) -> Result<Self, Error> {
        let mut found = Self { is_whole: is_of_whole_objects(trace), ..Self::default() };
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            found.writes += chunk.references.iter().filter(|reference| reference.is_write()).count() as u64;
            found.has_times_to_live |= !trace.times_to_live(index, &chunk)?.is_empty();
            let is_odd = |(_, time): &(u32, i64)| time % 1000 != 0 || u32::try_from(time / 1000).is_err();
            found.has_odd_times |= trace.times(index, &chunk)?.iter().any(is_odd);
            let mut highest = chunk.new_pages.iter().copied().max().unwrap_or(0);
            for (_, event) in &chunk.events {
                match event {
                    Event::Drop { pages } => found.drops += u64::from(pages.end - pages.start),
                    Event::Move { to, .. } => {
                        found.moves += 1;
                        highest = highest.max(*to);
                    }
                    _ => {}
                }
            }
            found.highest_page = found.highest_page.max(highest);
        }
        Ok(found)
    }

    /// What a format has no place for.
    fn left_out(&self, trace: &Trace, format: ExportFormat) -> Vec<String> {
        let header = trace.header();
        let (totals, metadata) = (&header.totals, &header.metadata);
        let is_csv = format == ExportFormat::Csv;
        let has_objects = totals.objects > 0 && !self.is_whole;
        let counts = [
            (self.writes, "write", format == ExportFormat::OracleGeneral),
            (self.drops, "page dropped", !is_csv),
            (self.moves, "page moved", true),
            (totals.objects, "object", has_objects),
            (totals.maps, "mapping", true),
        ];
        let mut left_out: Vec<String> = counts
            .into_iter()
            .filter(|(count, _, is_left_out)| *is_left_out && *count > 0)
            .map(|(count, what, _)| match what.split_once(' ') {
                Some((noun, rest)) if count != 1 => format!("{count} {noun}s {rest}"),
                _ => format!("{count} {what}{}", if count == 1 { "" } else { "s" }),
            })
            .collect();
        let parts = [
            (totals.instructions.is_some(), "instructions"),
            (metadata.times.is_some() && format == ExportFormat::Lackey, "times"),
            (
                self.has_odd_times && format == ExportFormat::OracleGeneral,
                "times but whole seconds of 32 bits",
            ),
            (self.has_times_to_live && !is_csv, "times to live"),
            (metadata.tenants.is_some() && !is_csv, "tenants"),
            (metadata.places.is_some(), "places in the program"),
            (metadata.window > 0, "how the trace was reduced"),
        ];
        left_out.extend(parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, what)| what.to_owned()));
        left_out
    }
}

/// The options of `import` for what was written.
fn import_options(trace: &Trace, format: ExportFormat, found: &Found) -> String {
    let metadata = &trace.header().metadata;
    match format {
        ExportFormat::Csv => {
            let names = Layout::of(trace, found).columns(metadata.times.is_some(), found.has_times_to_live);
            let columns: Vec<_> = names.iter().map(|name| format!("{name}={name}")).collect();
            let rest = match metadata.page_size {
                _ if found.is_whole => " --whole-objects".to_owned(),
                4096 => String::new(),
                bytes => format!(" --page-size {bytes}B"),
            };
            format!("--columns {}{rest}", columns.join(","))
        }
        ExportFormat::OracleGeneral if found.is_whole => {
            "--columns record=24,time=u32@0,key=u64@4,size=u32@12 --whole-objects".to_owned()
        }
        ExportFormat::OracleGeneral if metadata.page_size == 4096 => "--format oracle-general".to_owned(),
        ExportFormat::OracleGeneral => {
            let bytes = metadata.page_size;
            format!("--columns record=24,time=u32@0,key=u64@4,size=u32@12 --page-size {bytes}B")
        }
        ExportFormat::Lackey => "--format lackey".to_owned(),
    }
}

/// A reference or a page that was dropped, as a row has it.
struct Step {
    page_number: u64,
    /// Bytes of the object, if it is one.
    object_bytes: Option<u64>,
    op: Op,
    time_ms: i64,
    time_to_live_ms: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Read,
    Write,
    Delete,
}

/// Goes through a trace.
struct Walk<'a> {
    trace: &'a Trace,
    is_whole: bool,
    /// The page number each page id has now.
    numbers: Vec<u64>,
    /// Bytes of the object that begins at each address.
    sizes: FxHashMap<u64, u64>,
    time_ms: i64,
    time_to_live_ms: i64,
}

impl<'a> Walk<'a> {
    fn new(trace: &'a Trace, is_whole: bool) -> Self {
        let (numbers, sizes) = (Vec::new(), FxHashMap::default());
        let time_ms = trace.header().metadata.times.map_or(0, |times| times.first_ms);
        Self { trace, is_whole, numbers, sizes, time_ms, time_to_live_ms: 0 }
    }

    fn run(
        &mut self,
        take: &mut dyn FnMut(&Step) -> Result<(), Error>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let trace = self.trace;
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            self.numbers.extend_from_slice(&chunk.new_pages);
            let mut times = trace.times(index, &chunk)?.into_iter().peekable();
            let mut lives = trace.times_to_live(index, &chunk)?.into_iter().peekable();
            let mut events = chunk.events.iter().peekable();
            for (at, reference) in chunk.references.iter().enumerate() {
                while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
                    self.event(event, take)?;
                }
                if let Some((_, time)) = times.next_if(|(place, _)| *place as usize <= at) {
                    self.time_ms = time;
                }
                if let Some((_, time)) = lives.next_if(|(place, _)| *place as usize <= at) {
                    self.time_to_live_ms = time;
                }
                self.reference(*reference, take)?;
            }
            events.try_for_each(|(_, event)| self.event(event, take))?;
            progress(chunk.first_record + chunk.references.len() as u64);
        }
        Ok(())
    }

    fn reference(
        &self,
        reference: PackedReference,
        take: &mut dyn FnMut(&Step) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let op = if reference.is_write() { Op::Write } else { Op::Read };
        take(&self.step(reference.page(), op))
    }

    fn step(&self, page: u32, op: Op) -> Step {
        let page_number = self.numbers[page as usize];
        let address = page_number.wrapping_mul(self.trace.header().metadata.page_size);
        let object_bytes =
            if self.is_whole { Some(self.sizes.get(&address).map_or(1, |bytes| *bytes)) } else { None };
        let (time_ms, time_to_live_ms) = (self.time_ms, self.time_to_live_ms);
        Step { page_number, object_bytes, op, time_ms, time_to_live_ms }
    }

    fn event(
        &mut self,
        event: &Event,
        take: &mut dyn FnMut(&Step) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match event {
            Event::Alloc { address, length, .. } if self.is_whole => {
                self.sizes.insert(*address, (*length).max(1));
            }
            Event::Move { page, to } => self.numbers[*page as usize] = *to,
            Event::Drop { pages } => {
                return pages.clone().try_for_each(|page| take(&self.step(page, Op::Delete)));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The columns of a CSV, beside times and what is done.
enum Layout {
    /// Objects with their sizes, of tenants if there are any.
    Whole { pages_each: u64, tenants: Option<(Vec<String>, TenantOfPage)> },
    /// Objects of tenants, and places within them.
    OfTenants { pages_each: u64, names: Vec<String>, of: TenantOfPage },
    /// Places on disks with names.
    Disks { pages_each: u64, names: Vec<String> },
    /// Places in one address space; if that is large, on disks with numbers.
    Places { is_large: bool },
}

impl Layout {
    fn of(trace: &Trace, found: &Found) -> Self {
        let metadata = &trace.header().metadata;
        let page_shift = metadata.page_size.trailing_zeros();
        let tenants = metadata.tenants.as_ref();
        let named = |tenants: &Tenants| (tenants.names.clone(), tenants.by_page());
        if found.is_whole {
            return Self::Whole { pages_each: 1 << (32 - page_shift), tenants: tenants.map(named) };
        }
        match tenants {
            Some(tenants) if tenants.of_objects.is_empty() => {
                Self::Disks { pages_each: tenants.pages_each.max(1), names: tenants.names.clone() }
            }
            Some(tenants) => {
                let (names, of) = named(tenants);
                Self::OfTenants { pages_each: tenants.pages_each.max(1), names, of }
            }
            None => Self::Places { is_large: found.highest_page >= 1 << (DISK_SHIFT - page_shift) },
        }
    }

    /// The names of the columns: those that `import` knows.
    fn columns(&self, has_times: bool, has_times_to_live: bool) -> Vec<&'static str> {
        let mut names = if has_times { vec!["time"] } else { Vec::new() };
        names.extend_from_slice(match self {
            Self::Whole { tenants: None, .. } => &["key", "size", "op"][..],
            Self::Whole { .. } => &["tenant", "key", "size", "op"],
            Self::OfTenants { pages_each: 1, .. } => &["tenant", "key", "op"],
            Self::OfTenants { .. } => &["tenant", "key", "offset", "size", "op"],
            Self::Disks { .. } | Self::Places { is_large: true } => &["tenant", "offset", "size", "op"],
            Self::Places { .. } => &["offset", "size", "op"],
        });
        names.extend(has_times_to_live.then_some("ttl"));
        names
    }
}

/// Writes rows.
struct Csv<'a, W> {
    out: &'a mut W,
    layout: Layout,
    page_bytes: u64,
    has_times: bool,
    has_times_to_live: bool,
    row: String,
    /// Of objects: the one that `import` gives a number to next.
    next_object: u64,
}

impl<'a, W: Write> Csv<'a, W> {
    fn begin(trace: &Trace, found: &Found, out: &'a mut W) -> Result<Self, Error> {
        let metadata = &trace.header().metadata;
        let layout = Layout::of(trace, found);
        let (has_times, has_times_to_live) = (metadata.times.is_some(), found.has_times_to_live);
        writeln!(out, "{}", layout.columns(has_times, has_times_to_live).join(",")).map_err(Error::write)?;
        let page_bytes = metadata.page_size;
        Ok(Self { out, layout, page_bytes, has_times, has_times_to_live, row: String::new(), next_object: 0 })
    }

    /// The row of a step. Before it come rows for objects whose numbers would otherwise be given to
    /// others: the log deleted them before any request.
    fn step(&mut self, step: &Step) -> Result<(), Error> {
        if let Layout::Whole { pages_each, .. } | Layout::OfTenants { pages_each, .. } = &self.layout {
            let pages_each = *pages_each;
            let object = step.page_number / pages_each;
            for missing in self.next_object..object {
                let page_number = missing * pages_each;
                let op = Op::Delete;
                self.row(&Step { page_number, op, object_bytes: None, ..*step })?;
            }
            self.next_object = self.next_object.max(object + 1);
        }
        self.row(step)
    }

    fn row(&mut self, step: &Step) -> Result<(), Error> {
        let Self { layout, page_bytes, row, .. } = self;
        row.clear();
        if self.has_times {
            seconds(row, step.time_ms);
            row.push(',');
        }
        let page = step.page_number;
        match layout {
            Layout::Whole { pages_each, tenants } => {
                if let Some((names, of)) = tenants {
                    name(row, of.of(page).and_then(|tenant| names.get(tenant as usize)));
                }
                let _ = write!(row, "{},{},", page / *pages_each, step.object_bytes.unwrap_or(1));
            }
            Layout::OfTenants { pages_each, names, of } => {
                name(row, of.of(page).and_then(|tenant| names.get(tenant as usize)));
                let _ = write!(row, "{},", page / *pages_each);
                if *pages_each > 1 {
                    let _ = write!(row, "{},{page_bytes},", page % *pages_each * *page_bytes);
                }
            }
            Layout::Disks { pages_each, names } => {
                name(row, names.get((page / *pages_each) as usize));
                let _ = write!(row, "{},{page_bytes},", page % *pages_each * *page_bytes);
            }
            Layout::Places { is_large } => {
                let pages_each = 1u64 << (DISK_SHIFT - page_bytes.trailing_zeros());
                if *is_large {
                    let _ = write!(row, "{},", page / pages_each);
                }
                let _ = write!(row, "{},{page_bytes},", page % pages_each * *page_bytes);
            }
        }
        row.push_str(match step.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Delete => "delete",
        });
        if self.has_times_to_live {
            row.push(',');
            seconds(row, step.time_to_live_ms);
        }
        row.push('\n');
        self.out.write_all(row.as_bytes()).map_err(Error::write)
    }
}

/// A name and a comma, in quotes if need be.
fn name(row: &mut String, name: Option<&String>) {
    let name = name.map_or("", String::as_str);
    if name.contains([',', '"', '\n', '\r', '#', ' ', '\t', ';', '|']) {
        let _ = write!(row, "\"{}\",", name.replace('"', "\"\""));
    } else {
        let _ = write!(row, "{name},");
    }
}

/// Milliseconds as seconds, with as few decimals as there are.
fn seconds(row: &mut String, milliseconds: i64) {
    let sign = if milliseconds < 0 { "-" } else { "" };
    let absolute = milliseconds.unsigned_abs();
    let _ = write!(row, "{sign}{}", absolute / 1000);
    if !absolute.is_multiple_of(1000) {
        let decimals = format!("{:03}", absolute % 1000);
        let _ = write!(row, ".{}", decimals.trim_end_matches('0'));
    }
}

/// Writes records of 24 bytes.
struct OracleGeneral<'a, W> {
    out: &'a mut W,
    /// By request: the next one for the same object; none if there is none.
    next: Vec<u32>,
    number: usize,
    page_bytes: u64,
}

/// No request.
const NONE: u32 = u32::MAX;

impl<W: Write> OracleGeneral<'_, W> {
    fn step(&mut self, step: &Step) -> Result<(), Error> {
        if step.op == Op::Delete {
            return Ok(());
        }
        let next = self.next[self.number];
        self.number += 1;
        let next = if next == NONE { -1 } else { i64::from(next) };
        let seconds = (step.time_ms / 1000).clamp(0, i64::from(u32::MAX)) as u32;
        let bytes = step.object_bytes.unwrap_or(self.page_bytes).min(u64::from(u32::MAX)) as u32;
        let mut record = [0; 24];
        record[..4].copy_from_slice(&seconds.to_le_bytes());
        record[4..12].copy_from_slice(&step.page_number.to_le_bytes());
        record[12..16].copy_from_slice(&bytes.to_le_bytes());
        record[16..].copy_from_slice(&next.to_le_bytes());
        self.out.write_all(&record).map_err(Error::write)
    }
}

/// The next request for the object of each request.
fn next_requests(trace: &Trace) -> Result<Vec<u32>, Error> {
    let records = trace.header().totals.records;
    if records >= u64::from(NONE) {
        let reason = "has more references than 4,294,967,294: too many to look for the next use of each";
        return Err(Error::unfit(reason.to_owned()).in_file(trace.name()));
    }
    let mut next = vec![NONE; records as usize];
    let mut last: Vec<u32> = Vec::new();
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        last.resize(chunk.pages as usize, NONE);
        for (at, reference) in chunk.references.iter().enumerate() {
            let now = chunk.first_record as u32 + at as u32;
            let before = std::mem::replace(&mut last[reference.page() as usize], now);
            if before != NONE {
                next[before as usize] = now;
            }
        }
    }
    Ok(next)
}

/// Writes loads and stores.
struct Lackey<'a, W> {
    out: &'a mut W,
}

impl<'a, W: Write> Lackey<'a, W> {
    fn begin(trace: &Trace, out: &'a mut W) -> Result<Self, Error> {
        let metadata = &trace.header().metadata;
        let program: String = metadata.program.chars().filter(|letter| !letter.is_control()).collect();
        let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        writeln!(out, "==1== Command: {program}").map_err(Error::write)?;
        Ok(Self { out })
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        let kind = match step.op {
            Op::Read => 'L',
            Op::Write => 'S',
            Op::Delete => return Ok(()),
        };
        let address = u128::from(step.page_number) << 12;
        if address > u128::from(u64::MAX) {
            return Err(Error::unfit(format!("page {} has no address of 64 bits", step.page_number)));
        }
        writeln!(self.out, " {kind} {address:08x},1").map_err(Error::write)
    }
}
