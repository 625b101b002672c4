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
//! | `count` | requests that the row stands for, one behind the other | so many |
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
#[cfg(feature = "parquet")]
mod parquet;
mod preview;
mod requests;
mod separated;
mod spool;
mod structs;

use std::io::Read;

pub use description::{Columns, ColumnsError};
pub use known::{KNOWN, KnownLog};
#[cfg(feature = "parquet")]
pub(crate) use parquet::Table;
pub use preview::{Preview, PreviewColumn};

use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::Refused;
use crate::{AllocKind, Error, Sink};
use description::Shape;
use requests::{Requests, Row};
use spool::Spool;

/// Reads a stream into `sink`.
pub(crate) fn read<R: Read>(
    columns: &Columns,
    stream: ByteStream<R>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut requests = requests(columns, sink)?;
    let source = read_rows(columns, stream, &mut requests, progress)?;
    requests.finish(source)
}

/// Gives the rows of a stream to `requests`, and says what they are.
fn read_rows<R: Read, S: Sink>(
    columns: &Columns,
    mut stream: ByteStream<R>,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<&'static str, Error> {
    #[cfg(feature = "parquet")]
    {
        stream.fill_to(Table::MARK.len())?;
        if columns.shape() == Shape::Text && stream.buffered().starts_with(Table::MARK) {
            Table::copy_of(stream.rest())?.read(columns, requests, progress)?;
            return Ok("Parquet");
        }
    }
    Ok(match columns.shape() {
        Shape::Structs => {
            refuse_separated(columns, "structs have")?;
            structs::read(stream, columns, requests, progress)?;
            "binary structs"
        }
        Shape::Text => {
            separated::skip_byte_order_mark(&mut stream)?;
            if separated::first_byte(&mut stream)? == Some(b'{') {
                refuse_separated(columns, "JSON has")?;
                json::read(stream, columns, requests, progress)?;
                "JSON lines"
            } else {
                separated::read(stream, columns, requests, progress)?;
                "separated columns"
            }
        }
    })
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

    /// Reads a log, and keeps its rows.
    pub(crate) fn keep<R: Read>(
        &mut self,
        columns: &Columns,
        stream: ByteStream<R>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let mut nowhere = Nowhere;
        self.spool.begin();
        let mut keep = |time: f64, row: &Row<'_>| self.spool.push(time, row);
        let mut requests = requests(columns, &mut nowhere)?;
        requests.keep(&mut keep);
        self.source = read_rows(columns, stream, &mut requests, progress)?;
        Ok(())
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
struct Nowhere;

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
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    refuse_separated(columns, "a Parquet file has")?;
    let mut requests = requests(columns, sink)?;
    table.read(columns, &mut requests, progress)?;
    requests.finish("Parquet")
}

/// Refuses what only separated text has.
fn refuse_separated(columns: &Columns, what_has: &str) -> Result<(), Error> {
    match (columns.header, columns.separator) {
        (true, _) => Err(Error::columns(format!("{what_has} no row of names: leave --header out"))),
        (_, Some(_)) => Err(Error::columns(format!("{what_has} no separators: leave --separator out"))),
        _ => Ok(()),
    }
}

fn requests<'a, S: Sink>(columns: &'a Columns, sink: &'a mut S) -> Result<Requests<'a, S>, Error> {
    Requests::new(columns, sink).map_err(|reason| Error::columns(reason.into()))
}
