//! Logs with columns: separated text (CSV, TSV), JSON lines, fixed binary structs, and Parquet
//! files with the feature `parquet`. The caller says which column is what ([`Columns`]);
//! [`Preview`] shows a log and guesses.
//!
//! A row is a request. It names an object (`key`) or a place on a disk (`offset`):
//!
//! | column | what | kept |
//! |--------|------|------|
//! | `key` | an object, any text or number; objects get numbers in order of first request | its number |
//! | `offset` | first byte on a disk, or, beside `key`, of the object | the page |
//! | `size` | bytes, from `offset` on or of the object; cut into pages | the pages |
//! | `op` | words that say read, write or delete | read or write; a deletion drops the contents |
//! | `tenant` | objects and offsets of each tenant are its own | |
//! | `time` | seconds | the time, in milliseconds; how long the log is and its rate, in a note |
//! | `ttl` | seconds to live | how long an object lives, of whole objects in a log with times |
//! | `part` | a part of the object, such as a shard, a version or a range: an object of its own | |
//! | `count` | requests that the row stands for, one behind the other | that many requests |
//!
//! With `size`, an object takes as many pages of its own as its size needs, at least one; without,
//! it takes one. A request touches each of its pages once, in ascending order. Memory grows with
//! the number of objects (16 bytes each over the load factor of a hash table, beside the page
//! table) and not with the log: a key is kept as a hash of 96 bits. Among 2^30 keys, two have the
//! same hash with probability 2^-37.

mod description;
mod guess;
mod json;
mod known;
mod names;
mod op;
#[cfg(feature = "parquet")]
mod parquet;
mod preview;
mod requests;
mod separated;
mod spool;
mod structs;
mod value;

#[cfg(feature = "parquet")]
use std::cell::RefCell;

pub(crate) use description::Role;
pub use description::{Columns, ColumnsError, Quote};
pub use known::{KNOWN, KnownLog};
#[cfg(feature = "parquet")]
pub(crate) use parquet::Table;
pub use preview::{Preview, PreviewColumn};
pub use separated::WHOLE_LINES;
pub(crate) use spool::Spool;
pub(crate) use value::{Keep, NO_ROW, Row, Value};

use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
#[cfg(feature = "parquet")]
use crate::intake::Intake;
use crate::lines::Refused;
use crate::{AllocKind, Error, Sink};
use description::Shape;
use requests::Requests;

/// Reads the members of a stream into `sink`.
pub(crate) fn read(
    columns: &Columns,
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut requests = requests(columns, sink)?;
    let (source, note) = read_rows(columns, stream, &mut requests, progress)?;
    let mut imported = requests.finish(source)?;
    imported.notes.extend(note);
    Ok(imported)
}

/// Gives the rows of all members to `requests`. Returns what the members are, and what there is to
/// say of their columns.
fn read_rows<S: Sink>(
    columns: &Columns,
    mut stream: ByteStream<'_>,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(&'static str, Option<String>), Error> {
    let mut layout = separated::Layout::default();
    let mut source = "";
    loop {
        source = match read_member(columns, &mut stream, &mut layout, requests, progress)? {
            // What the members are, if they are the same.
            found if source.is_empty() || source == found => found,
            _ => "a log",
        };
        if !stream.next_member()? {
            return Ok((source, layout.note(columns)));
        }
    }
}

/// Reads a member, and says what it is.
fn read_member<S: Sink>(
    columns: &Columns,
    stream: &mut ByteStream<'_>,
    layout: &mut separated::Layout,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<&'static str, Error> {
    if columns.shape() == Shape::Structs {
        refuse_separated(columns, "structs have")?;
        structs::read_member(stream, columns, requests, progress)?;
        return Ok("binary structs");
    }
    #[cfg(feature = "parquet")]
    {
        stream.fill_to(Table::MARK.len())?;
        if stream.buffered().starts_with(Table::MARK) {
            refuse_separated(columns, "a Parquet file has")?;
            let intake = stream.intake.clone();
            Table::copy_of(stream)?.read(columns, requests, &intake, progress)?;
            return Ok("Parquet");
        }
    }
    stream.begin_text()?;
    match separated::first_bytes(stream)? {
        [Some(b'{'), _] => {
            refuse_separated(columns, "JSON has")?;
            json::read_member(stream, columns, requests, progress)?;
            Ok("JSON lines")
        }
        [Some(b'['), Some(b'{')] => Err(Error::not_read("a JSON array", "jq -c '.[]' FILE".into())),
        _ => {
            separated::read_member(stream, columns, layout, requests, progress)?;
            Ok("separated columns")
        }
    }
}

/// Logs of the same columns, whose rows are merged.
pub(crate) struct Several {
    spool: Spool,
    source: &'static str,
}

impl Several {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { spool: Spool::new()?, source: "" })
    }

    /// Reads a log, and keeps its rows. Says what there is to say of it.
    pub(crate) fn keep(
        &mut self,
        columns: &Columns,
        stream: ByteStream<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<String>, Error> {
        let mut nowhere = Nowhere;
        self.spool.begin();
        let mut keep = |time: f64, row: &Row<'_>| self.spool.push(time, row);
        let mut requests = requests(columns, &mut nowhere)?;
        requests.keep(&mut keep);
        let (source, note) = read_rows(columns, stream, &mut requests, progress)?;
        self.source = source;
        Ok(note)
    }

    /// Hands on what the rows of all of them ask for: by time, or one log behind the other.
    pub(crate) fn merge(
        self,
        columns: &Columns,
        by_time: bool,
        sink: &mut impl Sink,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Imported, Error> {
        let mut requests = requests(columns, sink)?;
        let mut rows = 0u64;
        self.spool.for_each(by_time, &mut |row| {
            rows += 1;
            if rows.is_multiple_of(1 << 16) {
                let (records, instructions) = requests.counts();
                progress(Progress { bytes: 0, records, instructions });
            }
            requests.row(row).map_err(|refused| match refused {
                Refused::Line(reason) => Error::columns(reason.to_string()),
                Refused::Sink(error) => error,
            })
        })?;
        requests.finish(self.source)
    }
}

/// Rows of logs can be merged by time.
pub(crate) fn have_times(columns: &Columns) -> bool {
    columns.of(description::Role::Time).is_some()
}

/// Checks rows, and keeps nothing.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn reference(&mut self, _: u64, _: bool) -> Result<(), Error> {
        Ok(())
    }
    fn alloc(&mut self, _: u64, _: u64, _: AllocKind) -> Result<(), Error> {
        Ok(())
    }
    fn free(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }
    fn mark(&mut self, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }
    fn map(&mut self, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }
    fn unmap(&mut self, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }
    fn remap(&mut self, _: u64, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads a Parquet file into `sink`.
#[cfg(feature = "parquet")]
pub(crate) fn read_table(
    columns: &Columns,
    table: &Table,
    intake: &RefCell<Intake>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    refuse_separated(columns, "a Parquet file has")?;
    let mut requests = requests(columns, sink)?;
    table.read(columns, &mut requests, intake, progress)?;
    requests.finish("Parquet")
}

/// Refuses what only separated text has.
fn refuse_separated(columns: &Columns, what_has: &str) -> Result<(), Error> {
    match (columns.header, columns.separator) {
        (true, _) => Err(Error::columns(format!("{what_has} no row of names: leave --header out"))),
        (_, Some(_)) => Err(Error::columns(format!("{what_has} no separators: leave --separator out"))),
        _ if columns.quote.is_some() => {
            Err(Error::columns(format!("{what_has} no quotes to choose: leave --quote out")))
        }
        _ => Ok(()),
    }
}

fn requests<'a, S: Sink>(columns: &'a Columns, sink: &'a mut S) -> Result<Requests<'a, S>, Error> {
    Requests::new(columns, sink).map_err(|reason| Error::columns(reason.into()))
}
