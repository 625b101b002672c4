//! The beginning of an input: what it is, and what would be read from it.

#[cfg(feature = "parquet")]
use std::cell::RefCell;
use std::io::{Cursor, Read};

use crate::bytes::{ByteStream, read_error};
#[cfg(feature = "parquet")]
use crate::columns::{self, Table};
use crate::columns::{Columns, KnownLog, Preview};
use crate::import::{Input, Source};
use crate::imported::Imported;
use crate::members::is_text;
use crate::{AllocKind, Error, Format, ImportOptions, Sink, text};

/// Bytes that are looked at.
const SAMPLE: u64 = 1 << 18;

/// So long may the first row be, if it is longer than that.
const LONGEST_ROW: u64 = 1 << 24;

/// References that are shown.
const REFERENCES: usize = 8;

/// References after which a guess counts as proved.
const PROVED: usize = 1 << 20;

/// What the beginning of an input shows.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Its format; `None` for a log with columns and for a trace in our own format.
    pub format: Option<Format>,
    /// It is a trace in our own format.
    pub is_native: bool,
    /// A log that has a name.
    pub known: Option<&'static KnownLog>,
    /// The columns of such a log, as [`Columns`] reads them: by number, if its first row has names.
    pub known_columns: String,
    /// A log: its columns and a guess.
    pub preview: Option<Preview>,
    /// The first references that an import would make, pages with whether they are written: with
    /// the columns asked for, or else with those that are guessed.
    pub references: Vec<(u64, bool)>,
    /// Why the first guess was refused by the reader, if it was.
    pub refused: Option<String>,
}

impl Look {
    /// Looks at the first 256 KiB of an input, decompressed.
    pub fn at(reader: impl Read, options: &ImportOptions) -> Result<Self, Error> {
        Self::beginning_of(reader, options).map_err(|error| error.in_file(&options.name))
    }

    fn beginning_of(reader: impl Read, options: &ImportOptions) -> Result<Self, Error> {
        #[cfg_attr(not(feature = "parquet"), expect(unused_mut))]
        let mut input = Input::new(reader)?;
        let mut look = Self::default();
        if input.is_native() {
            return Ok(Self { is_native: true, ..look });
        }
        if options.format.is_none() && options.columns.as_ref().is_none_or(Columns::is_text) {
            #[cfg(feature = "parquet")]
            if let Some(table) = input.table(options.file.as_ref())? {
                return look.table(&table, options.columns.as_ref());
            }
            input.check_read()?;
        }
        let detected = if options.columns.is_some() { Ok(Format::Text) } else { input.detect() };
        let known = input.known_log();
        let columns = options.columns.clone().or_else(|| known.map(KnownLog::columns));
        let (sample, whole) = input.beginning(columns.as_ref().is_none_or(Columns::is_text))?;
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
            look.known_columns = Preview::numbered(&columns, lines).unwrap_or_else(|| log.columns.to_owned());
            look.references = first_references(Source::Columns(&columns), rows).unwrap_or_default();
            return Ok(look);
        }
        let format = options.format.map_or(detected, Ok)?;
        let is_row = |line: &&[u8]| !matches!(line.trim_ascii_start().first(), None | Some(b'#'));
        let first_line = lines.split(|byte| *byte == b'\n').find(is_row).unwrap_or_default();
        if options.format.is_some() || format != Format::Text || text::is(first_line) {
            look.format = Some(format);
            look.references = first_references(Source::Format(format), lines).unwrap_or_default();
            return Ok(look);
        }
        look.preview = Some(Preview::of(lines).ok_or_else(|| Error::unrecognised("no text with columns"))?);
        look.prove(|columns, sink| {
            let stream = ByteStream::new(Cursor::new(lines));
            Source::Columns(columns).convert(stream, sink, true, &mut |_| {})
        });
        Ok(look)
    }

    /// Reads the first rows as is guessed. If the reader refuses that, guesses otherwise.
    fn prove(&mut self, read: impl Fn(&Columns, &mut First) -> Result<Imported, Error>) {
        let Some(mut preview) = self.preview.take() else { return };
        let proved = |preview: &Preview| -> Result<Vec<(u64, bool)>, String> {
            let columns = preview.guessed().ok_or("there is no guess")?;
            let mut first = First { shown: REFERENCES, ..First::new(PROVED) };
            match read(&columns, &mut first) {
                Err(error) if first.counted < PROVED => Err(error.to_string()),
                _ => Ok(first.kept),
            }
        };
        while preview.guess().is_some() {
            let alternatives = preview.alternatives();
            let candidates = std::iter::once(&preview).chain(&alternatives);
            let tried = candidates.map(|candidate| (candidate, proved(candidate)));
            let mut right = None;
            for (candidate, outcome) in tried {
                match outcome {
                    Ok(references) => {
                        self.references = references;
                        right = Some(candidate.clone());
                        break;
                    }
                    Err(reason) => {
                        self.refused.get_or_insert(reason);
                    }
                }
            }
            if let Some(right) = right {
                preview = right;
                break;
            }
            preview = match alternatives.into_iter().next() {
                Some(less) => less,
                None => preview.without_guess(),
            };
        }
        self.preview = Some(preview);
    }

    /// Looks at a Parquet file.
    #[cfg(feature = "parquet")]
    fn table(mut self, table: &Table, asked: Option<&Columns>) -> Result<Self, Error> {
        self.preview = Some(Preview::of_table(table)?);
        match asked {
            Some(columns) => {
                self.references = first(|sink| {
                    columns::read_table(columns, table, &RefCell::default(), sink, &mut |_| {})
                })?;
            }
            None => self.prove(|columns, sink| {
                columns::read_table(columns, table, &RefCell::default(), sink, &mut |_| {})
            }),
        }
        Ok(self)
    }
}

impl Input<'_> {
    /// The first bytes, with a whole line if there is one, and whether that is all. What can be
    /// text comes in UTF-8, with newlines that end lines.
    fn beginning(self, can_be_text: bool) -> Result<(Vec<u8>, bool), Error> {
        let mut bytes = Vec::new();
        let is_text = can_be_text && is_text(&self.text_head());
        let mut input = self.stream();
        if is_text {
            input.begin_text()?;
        }
        loop {
            let before = bytes.len() as u64;
            let read = (&mut input).take(SAMPLE).read_to_end(&mut bytes);
            read.map_err(|error| read_error(error, bytes.len() as u64))?;
            let length = bytes.len() as u64;
            if length - before < SAMPLE {
                return Ok((bytes, true));
            }
            if length >= LONGEST_ROW || bytes[before as usize..].contains(&b'\n') {
                return Ok((bytes, false));
            }
        }
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
    /// How many are kept.
    shown: usize,
    /// How many there were.
    counted: usize,
    /// It stops after this many.
    most: usize,
}

impl First {
    /// Keeps at most this many, and stops after them.
    pub(crate) fn new(most: usize) -> Self {
        Self { kept: Vec::new(), shown: most, counted: 0, most }
    }
}

impl Sink for First {
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        self.counted += 1;
        if self.kept.len() < self.shown {
            self.kept.push((page_number, write));
        }
        // Any error will do.
        if self.counted < self.most { Ok(()) } else { Err(Error::too_many_pages()) }
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
