//! Reading any format: decompression, detection by content, and the choice of the importer.
//!
//! File names do not matter. Compression is recognised by its magic bytes and may be nested. PGTR
//! and our own format are recognised by theirs. If the first bytes could be text, the first line
//! decides the format. A format without such marks ([`Format::OracleGeneral`]) has to be asked for,
//! and so have the columns of a log ([`Columns`]).

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::bytes::{ByteStream, read_error};
#[cfg(feature = "parquet")]
use crate::columns::Table;
use crate::columns::{self, Columns, KnownLog};
use crate::format::{FixedHeader, MAGIC};
use crate::imported::{Imported, Progress};
use crate::intake::{BadRows, Intake};
use crate::members::{self, is_text};
use crate::not_read;
use crate::reduce::Reducer;
#[cfg(feature = "parquet")]
use crate::source::Plain;
use crate::source::Source as Members;
use crate::{EndTotals, Error, Header, Metadata, Sink, Trace, TraceSink};
use crate::{blkparse, champsim, drmemtrace, fio, irim, lackey, msr, oracle_general, pgtr, spc, text};

/// A format that is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The recorder's stream ([`crate::pgtr`]).
    Pgtr,
    /// Page numbers, one a line ([`crate::text`]).
    Text,
    /// What Valgrind's lackey prints ([`crate::lackey`]).
    Lackey,
    /// DynamoRIO's drmemtrace, as it is stored or as its view tool prints it
    /// ([`crate::drmemtrace`]).
    Drmemtrace,
    /// Requests to disks, as the Storage Performance Council has them ([`crate::spc`]).
    Spc,
    /// Requests to disks, as Microsoft Research Cambridge has them ([`crate::msr`]).
    Msr,
    /// Requests to files, as fio logs them ([`crate::fio`]).
    Fio,
    /// Requests to block devices, as blkparse prints them ([`crate::blkparse`]).
    Blkparse,
    /// Requests for objects, as libCacheSim has them ([`crate::oracle_general`]); never found by
    /// content.
    OracleGeneral,
    /// Executed instructions, as ChampSim has them ([`crate::champsim`]); never found by content.
    ChampSim,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 10] = [
        Self::Pgtr,
        Self::Text,
        Self::Lackey,
        Self::Drmemtrace,
        Self::Spc,
        Self::Msr,
        Self::Fio,
        Self::Blkparse,
        Self::OracleGeneral,
        Self::ChampSim,
    ];
}

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// What errors call the input, and the program's name where the input has none.
    pub name: PathBuf,
    /// The format; found by content if `None`.
    pub format: Option<Format>,
    /// The input is a log with these columns, whatever `format` says.
    pub columns: Option<Columns>,
    /// The input as a file, if it is one: a Parquet file is then read where it is.
    pub file: Option<Arc<File>>,
    /// Reduce to this window ([`crate::reduce`]); 0 does not.
    pub window: u64,
    /// Accept a PGTR stream that ends without END, after a record or inside one. For live pipes:
    /// the program may have been killed. The trace then says that it is not complete.
    pub tolerate_missing_end: bool,
    /// What happens at a row or a record that cannot be read.
    pub bad_rows: BadRows,
}

/// Reads `reader`, of any format, into `writer`, and fills in the writer's metadata. Hand what it
/// returns to [`Writer::finish`](crate::Writer::finish). `progress` is called now and then.
pub fn import(
    reader: impl Read,
    writer: &mut impl TraceSink,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<EndTotals, Error> {
    Input::new(reader)
        .and_then(|input| input.import(writer, options, progress))
        .map_err(|error| error.in_file(&options.name))
}

/// An input as its members, whose beginning has been looked at.
pub(crate) struct Input<'a> {
    head: Vec<u8>,
    members: Box<dyn Members + 'a>,
    intake: Rc<RefCell<Intake>>,
}

impl<'a> Input<'a> {
    /// Takes compression and archives off.
    pub(crate) fn new(reader: impl Read + 'a) -> Result<Self, Error> {
        let intake = Rc::<RefCell<Intake>>::default();
        let (head, members) = members::open(Box::new(reader), &intake)?;
        Ok(Self { head, members, intake })
    }

    /// Our own format?
    pub(crate) fn is_native(&self) -> bool {
        self.head.starts_with(&MAGIC[..4])
    }

    /// All of a trace in our own format, and a byte more if there is more: its header says how long
    /// it is.
    pub(crate) fn native_bytes(self) -> Result<Vec<u8>, Error> {
        let mut reader = self.stream();
        reader.join_compressed();
        let mut bytes = Vec::new();
        let failed = |error, bytes: &[u8]| read_error(error, bytes.len() as u64);
        let front = (&mut reader).take(FixedHeader::LENGTH as u64).read_to_end(&mut bytes);
        front.map_err(|error| failed(error, &bytes))?;
        let length = FixedHeader::decode(&bytes)?.file_length().unwrap_or(0);
        let more = length.saturating_sub(bytes.len() as u64).saturating_add(1);
        let rest = (&mut reader).take(more).read_to_end(&mut bytes);
        rest.map_err(|error| failed(error, &bytes))?;
        reader.last_member("trace")?;
        Ok(bytes)
    }

    /// All of its members.
    pub(crate) fn stream(self) -> ByteStream<'a> {
        ByteStream::of(self.head, self.members, self.intake)
    }

    /// The beginning as text: without a byte-order mark, in UTF-8, without lines that begin with
    /// `#`.
    pub(crate) fn text_head(&self) -> Vec<u8> {
        let mut stream = ByteStream::new(&self.head[..]);
        if stream.begin_text().is_err() {
            return self.head.clone();
        }
        let mut text = stream.buffered();
        while text.trim_ascii_start().starts_with(b"#")
            && let Some(end) = memchr::memchr(b'\n', text)
        {
            text = &text[end + 1..];
        }
        text.to_vec()
    }

    /// The Parquet file that it is, if it is one. `file` is the input itself, which need not be
    /// copied then.
    #[cfg(feature = "parquet")]
    pub(crate) fn table(&mut self, file: Option<&Arc<File>>) -> Result<Option<Table>, Error> {
        if !self.head.starts_with(Table::MARK) {
            return Ok(None);
        }
        if let Some(table) = self.table_in_place(file)? {
            return Ok(Some(table));
        }
        let members = std::mem::replace(&mut self.members, Box::new(Plain(std::io::empty())));
        let stream = ByteStream::of(std::mem::take(&mut self.head), members, self.intake.clone());
        Table::copy_of(stream).map(Some)
    }

    /// The same, if it is `file` as a whole.
    #[cfg(feature = "parquet")]
    fn table_in_place(&self, file: Option<&Arc<File>>) -> Result<Option<Table>, Error> {
        match file {
            Some(file) if self.head.starts_with(Table::MARK) && self.members.is_plain() => {
                Table::in_file(file.try_clone()?).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What it is, if other programs have to make something of it that is read.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        not_read::by_head(&self.head).map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// The log with a name that it is, if it has a mark.
    pub(crate) fn known_log(&self) -> Option<&'static KnownLog> {
        KnownLog::found(&self.head).or_else(|| KnownLog::found(&self.text_head()))
    }

    /// Which format to convert from.
    pub(crate) fn detect(&self) -> Result<Format, Error> {
        let head = &self.head;
        let known: &[(&[u8], &str)] = &[
            (
                &irim::MAGIC[..4],
                "an IRIM string (`sweephand import --irim`), which has no references any more",
            ),
            (b"\x7fELF", "an ELF file (a program or a library)"),
            (b"PK\x03\x04", "compressed by zip several times over"),
            (b"PK\x05\x06", "a zip archive without a file"),
            (b"BZh", "compressed by bzip2 several times over"),
            (b"PAR1", "a Parquet file"),
            (b"\x1f\x8b", "compressed by gzip several times over"),
            (b"\x28\xb5\x2f\xfd", "compressed by zstd several times over"),
            (b"\xfd7zXZ\0", "compressed by xz several times over"),
            (b"\x04\x22\x4d\x18", "compressed by lz4 several times over"),
        ];
        if head.is_empty() {
            Err(Error::empty())
        } else if head.starts_with(&pgtr::MAGIC) {
            Ok(Format::Pgtr)
        } else if let Some((_, found)) = known.iter().find(|(magic, _)| head.starts_with(magic)) {
            Err(Error::unrecognised(*found))
        } else if drmemtrace::is(head) {
            Ok(Format::Drmemtrace)
        } else if is_text(&self.text_head()) {
            let head = &self.text_head()[..];
            let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
            Ok(match () {
                () if lackey::is(head) => Format::Lackey,
                () if fio::is(head) => Format::Fio,
                () if blkparse::is(first_line) => Format::Blkparse,
                () if spc::is(first_line) => Format::Spc,
                () if msr::is(first_line) => Format::Msr,
                () => Format::Text,
            })
        } else {
            Err(Error::unrecognised("binary data of no known format"))
        }
    }

    pub(crate) fn import(
        self,
        writer: &mut impl TraceSink,
        options: &ImportOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<EndTotals, Error> {
        if self.is_native() {
            if options.columns.is_some() {
                return Err(Error::columns("it is a trace already, and has no columns".into()));
            }
            if options.format.is_some() {
                return Err(Error::columns("it is a trace already: leave --format out".into()));
            }
            options.bad_rows.check("it is a trace already, and has no rows")?;
            let trace = Trace::in_memory(self.native_bytes()?, Path::new(""))?;
            return import_trace(&trace, writer, options.window, progress);
        }
        if options.format.is_none() && options.columns.as_ref().is_none_or(Columns::is_text) {
            self.check_read()?;
        }
        let found = self.known_log().map(KnownLog::columns);
        let source = match (&options.columns, options.format) {
            (Some(_), _) | (_, Some(_)) if self.head.is_empty() => return Err(Error::empty()),
            (Some(columns), _) => Source::Columns(columns),
            (None, Some(format)) => Source::Format(format),
            (None, None) => match &found {
                Some(columns) => Source::Columns(columns),
                None => Source::Format(self.detect()?),
            },
        };
        if options.window > 0 && options.columns.as_ref().is_some_and(|columns| columns.whole_objects) {
            return Err(Error::whole_objects());
        }
        #[cfg(feature = "parquet")]
        let table = match source {
            Source::Columns(columns) if columns.is_text() => self.table_in_place(options.file.as_ref())?,
            _ => None,
        };
        #[cfg(feature = "parquet")]
        let source = match (&table, source) {
            (Some(table), Source::Columns(columns)) => Source::Table(columns, table),
            _ => source,
        };
        let intake = self.intake.clone();
        intake.borrow_mut().bad_rows = options.bad_rows;
        let stream = self.stream();
        let tolerant = options.tolerate_missing_end;
        let in_member = |error: Error| intake.borrow().locate(error, &options.name);
        let mut imported = if options.window == 0 {
            source.convert(stream, writer, tolerant, progress).map_err(in_member)?
        } else {
            let mut reducer = Reducer::new(writer, options.window);
            let mut imported = source.convert(stream, &mut reducer, tolerant, progress).map_err(in_member)?;
            let counts = reducer.finish()?;
            imported.end.references.get_or_insert(counts.references);
            imported.end.runs.get_or_insert(counts.runs);
            imported.window = imported.window.max(options.window);
            imported
        };
        intake.borrow_mut().finish(&mut imported.notes, |error| error)?;
        imported.describe(writer.metadata_mut(), &options.name);
        Ok(imported.end)
    }
}

/// What an input is taken for.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Format(Format),
    Columns(&'a Columns),
    #[cfg(feature = "parquet")]
    Table(&'a Columns, &'a Table),
}

impl Source<'_> {
    pub(crate) fn convert(
        self,
        stream: ByteStream<'_>,
        sink: &mut impl Sink,
        tolerate_missing_end: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Imported, Error> {
        match self {
            Self::Format(format) => convert(format, stream, sink, tolerate_missing_end, progress),
            Self::Columns(columns) => columns::read(columns, stream, sink, progress),
            #[cfg(feature = "parquet")]
            Self::Table(columns, table) => {
                columns::read_table(columns, table, &stream.intake, sink, progress)
            }
        }
    }
}

/// Reads a stream of a format into `sink`.
pub(crate) fn convert(
    format: Format,
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    tolerate_missing_end: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    if matches!(format, Format::Pgtr | Format::OracleGeneral | Format::ChampSim) {
        stream.intake.borrow().bad_rows.check("this format has no rows that can be skipped")?;
    }
    match format {
        Format::Pgtr => pgtr::read(stream, sink, tolerate_missing_end, progress),
        Format::Text => text::read(stream, sink, progress),
        Format::Lackey => lackey::read(stream, sink, progress),
        Format::Drmemtrace => drmemtrace::read(stream, sink, progress),
        Format::Spc => spc::read(stream, sink, progress),
        Format::Msr => msr::read(stream, sink, progress),
        Format::Fio => fio::read(stream, sink, progress),
        Format::Blkparse => blkparse::read(stream, sink, progress),
        Format::OracleGeneral => oracle_general::read(stream, sink, progress),
        Format::ChampSim => champsim::read(stream, sink, progress),
    }
}

/// The note in a trace of whole objects if a window was asked for.
const KEPT_WHOLE: &str =
    "requests for whole objects are all kept: a window leaves out references to pages only";

/// Copies a trace, metadata and all, reduced to `window` unless that is 0. A trace of whole objects
/// is copied as it is, because each of its references is a request that counts; a note says so.
///
/// # Errors
/// What reading and writing say.
pub fn import_trace(
    trace: &Trace,
    writer: &mut impl TraceSink,
    window: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<EndTotals, Error> {
    let Header { totals, metadata, .. } = trace.header();
    let kept_whole = window > 0 && metadata.whole_objects;
    let window = if kept_whole { 0 } else { window };
    let mut report = |records| progress(Progress { records, ..Progress::default() });
    if window == 0 {
        trace.replay(writer, &mut report)?;
    } else {
        let mut reducer = Reducer::new(writer, window);
        trace.replay(&mut reducer, &mut report)?;
        reducer.finish()?;
    }
    *writer.metadata_mut() = Metadata { window: metadata.window.max(window), ..metadata.clone() };
    let notes = &mut writer.metadata_mut().notes;
    if kept_whole && !notes.iter().any(|note| note == KEPT_WHOLE) {
        notes.push(KEPT_WHOLE.to_owned());
    }
    Ok(EndTotals::from(totals))
}
