//! The beginning of an input: what it is, and what would be read from it.

use std::io::{Cursor, Read};

use crate::bytes::{ByteStream, read_error};
#[cfg(feature = "parquet")]
use crate::columns::{self, Columns, Table};
use crate::columns::{KnownLog, Preview};
use crate::import::{Input, Source};
use crate::imported::Imported;
use crate::{AllocKind, Error, Format, ImportOptions, Sink, text};

/// Bytes that are looked at.
const SAMPLE: u64 = 1 << 18;

/// References that are shown.
const REFERENCES: usize = 8;

/// What the beginning of an input shows.
#[derive(Clone, Debug)]
pub struct Look {
    /// Its format; `None` for a log with columns and for a trace in our own format.
    pub format: Option<Format>,
    /// It is a trace in our own format.
    pub is_native: bool,
    /// A log that has a name.
    pub known: Option<&'static KnownLog>,
    /// A log: its columns and a guess.
    pub preview: Option<Preview>,
    /// The first references that an import would make, pages with whether they are written: with
    /// the columns asked for, or else with those that are guessed.
    pub references: Vec<(u64, bool)>,
}

impl Look {
    /// Looks at the first 256 KiB of an input, decompressed.
    pub fn at(reader: impl Read, options: &ImportOptions) -> Result<Self, Error> {
        Self::beginning_of(reader, options).map_err(|error| error.in_file(&options.name))
    }

    fn beginning_of(reader: impl Read, options: &ImportOptions) -> Result<Self, Error> {
        let input = Input::new(reader)?;
        let mut look =
            Self { format: None, is_native: false, known: None, preview: None, references: Vec::new() };
        if input.is_native() {
            return Ok(Self { is_native: true, ..look });
        }
        #[cfg(feature = "parquet")]
        if input.is_table() && options.format.is_none() {
            return look.table(&Table::copy_of(input.bytes())?, options.columns.as_ref());
        }
        let detected = if options.columns.is_some() { Ok(Format::Text) } else { input.detect() };
        let known = input.known_log();
        let sample = input.beginning(SAMPLE)?;
        let whole = (sample.len() as u64) < SAMPLE;
        // The rest of the last line is elsewhere.
        let lines = match sample.iter().rposition(|byte| *byte == b'\n') {
            Some(end) if !whole => &sample[..=end],
            _ => &sample[..],
        };
        if let Some(columns) = &options.columns {
            look.preview = columns.is_text().then(|| Preview::of(lines)).flatten();
            let rows = if columns.is_text() { lines } else { columns.whole_structs(&sample) };
            look.references = first_references(Source::Columns(columns), rows)?;
            return Ok(look);
        }
        if let (Some(log), None) = (known, options.format) {
            let columns = log.columns();
            let rows = if columns.is_text() { lines } else { columns.whole_structs(&sample) };
            look.known = Some(log);
            look.references = first_references(Source::Columns(&columns), rows).unwrap_or_default();
            return Ok(look);
        }
        let format = options.format.map_or(detected, Ok)?;
        let first_line = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if options.format.is_some() || format != Format::Text || text::is(first_line) {
            look.format = Some(format);
            look.references = first_references(Source::Format(format), lines).unwrap_or_default();
            return Ok(look);
        }
        look.preview = Preview::of(lines);
        if let Some(columns) = look.preview.as_ref().and_then(Preview::guessed) {
            look.references = first_references(Source::Columns(&columns), lines).unwrap_or_default();
        }
        Ok(look)
    }

    /// Looks at a Parquet file.
    #[cfg(feature = "parquet")]
    fn table(mut self, table: &Table, asked: Option<&Columns>) -> Result<Self, Error> {
        let preview = Preview::of_table(table)?;
        let references =
            |columns: &Columns| first(|sink| columns::read_table(columns, table, sink, &mut |_| {}));
        self.references = match (asked, preview.guessed()) {
            (Some(columns), _) => references(columns)?,
            (None, Some(columns)) => references(&columns).unwrap_or_default(),
            (None, None) => Vec::new(),
        };
        self.preview = Some(preview);
        Ok(self)
    }
}

impl Input<'_> {
    /// The first bytes, so many at most.
    fn beginning(self, most: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.bytes().take(most).read_to_end(&mut bytes);
        read.map_err(|error| read_error(error, bytes.len() as u64))?;
        Ok(bytes)
    }
}

/// The references that the first bytes of an input make. What is wrong after them does not matter.
fn first_references(source: Source<'_>, bytes: &[u8]) -> Result<Vec<(u64, bool)>, Error> {
    first(|sink| source.convert(ByteStream::new(Cursor::new(bytes)), sink, true, &mut |_| {}))
}

/// The first references that a reader makes.
fn first(read: impl FnOnce(&mut First) -> Result<Imported, Error>) -> Result<Vec<(u64, bool)>, Error> {
    let mut first = First::new(REFERENCES);
    match read(&mut first) {
        Err(error) if first.kept.len() < REFERENCES => Err(error),
        _ => Ok(first.kept),
    }
}

/// Keeps the first references, and stops: a record of a few bytes may be a request for a million
/// pages.
pub(crate) struct First {
    /// Pages, with whether they are written.
    pub(crate) kept: Vec<(u64, bool)>,
    most: usize,
}

impl First {
    /// Keeps at most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most }
    }
}

impl Sink for First {
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        self.kept.push((page_number, write));
        // Any error will do.
        if self.kept.len() < self.most { Ok(()) } else { Err(Error::too_many_pages()) }
    }
    fn alloc(&mut self, _address: u64, _length: u64, _kind: AllocKind) -> Result<(), Error> {
        Ok(())
    }
    fn free(&mut self, _address: u64) -> Result<(), Error> {
        Ok(())
    }
    fn mark(&mut self, _instructions: u64, _references: u64) -> Result<(), Error> {
        Ok(())
    }
    fn map(&mut self, _first_page: u64, _pages: u64) -> Result<(), Error> {
        Ok(())
    }
    fn unmap(&mut self, _first_page: u64, _pages: u64) -> Result<(), Error> {
        Ok(())
    }
    fn remap(&mut self, _from: u64, _to: u64, _pages: u64) -> Result<(), Error> {
        Ok(())
    }
}
