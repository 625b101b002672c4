//! Errors. Every message is one line that names the file, the place and the reason.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::{in_shell, shown};

/// What can go wrong with a trace. `path` is empty until [`Error::in_file`] fills it in, or for
/// what was being written, [`Error::in_output`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("{}{reason}", named(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The trace that was being written could not be.
    #[error("{}cannot be written: {reason}", named(path))]
    Write {
        /// The file; not the one that was being read.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// There is nothing in it.
    #[error("{}is empty: there is no trace in it", named(path))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is something else.
    #[error(
        "{}is {found}, not a trace: .swt, PGTR, text (a page number a line), lackey, drmemtrace, SPC, MSR, \
             fio's iologs and blkparse's output are read, plain or compressed by gzip, xz, zstd, bzip2, lz4 or zip; oracleGeneral and ChampSim by `sweephand import --format`, \
             other logs by `sweephand import --columns`",
        named(path)
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        found: String,
    },
    /// It was written by a later version.
    #[error("{}byte 8: format version {found}; this program reads versions up to {known}", named(path))]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u32,
        /// The latest version there is to read.
        known: u32,
    },
    /// Its writer died before it was done.
    #[error(
        "{}was never finished: its writer was stopped before the end; record or import it again",
        named(path)
    )]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
    /// It ends too soon.
    #[error("{}ends too soon, at byte {offset}, {place}", named(path))]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length (after decompression).
        offset: u64,
        /// What was being read.
        place: String,
    },
    /// Its bytes contradict themselves.
    #[error("{}damaged at byte {offset}: {reason}", named(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where (after decompression; of a chunk, where the chunk begins).
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A record of a PGTR stream, or of another binary format, makes no sense.
    #[error("{}record {record} at byte {offset}: {reason}", named(path))]
    Record {
        /// The file.
        path: PathBuf,
        /// References before it.
        record: u64,
        /// Where it begins (after decompression).
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a text file is not what its format has.
    #[error("{}line {line} (byte {offset}): {reason}: {found:?}", named(path))]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Where it begins (after decompression).
        offset: u64,
        /// What is wrong with it.
        reason: Cow<'static, str>,
        /// What it says, shortened.
        found: String,
    },
    /// The columns that were named are not those of the file.
    #[error("{}{reason}", named(path))]
    Columns {
        /// The file.
        path: PathBuf,
        /// Which column is not there, and which are.
        reason: String,
    },
    /// The trace has something that what was asked for cannot have.
    #[error("{}{reason}", named(path))]
    Unfit {
        /// The trace.
        path: PathBuf,
        /// What that is, and what to do.
        reason: String,
    },
    /// A page number that the pages of another trace need.
    #[error(
        "{}touches page {page}: only pages below {limit} leave room for the pages of another trace",
        named(path)
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The page number.
        page: u64,
        /// Where the other pages begin.
        limit: u64,
    },
    /// More pages than a trace can hold.
    #[error(
        "{}touches more than {} distinct pages, the most a trace can hold",
        named(path),
        crate::MAX_PAGES
    )]
    TooManyPages {
        /// The file.
        path: PathBuf,
    },
    /// Nothing in it is a write, and what was asked for tells pages that are written from pages
    /// that are read.
    #[error(
        "{}does not say which references are writes: take a recorded trace (`sweephand record`)",
        named(path)
    )]
    NoWrites {
        /// The file.
        path: PathBuf,
    },
    /// It is intact, and another program has to make something of it that is read.
    #[error("{}is {what}, which is not read; with the same options, {}", named(path), piped(filter, path))]
    NotRead {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
        /// The command that makes something else of it; `FILE` stands for the file.
        filter: String,
    },
    /// There is no room for a copy of it that can be read at places.
    #[error(
        "{}cannot be copied to {}: {reason} (TMPDIR names another folder)",
        named(path),
        shown(&folder.to_string_lossy())
    )]
    NoCopy {
        /// The file.
        path: PathBuf,
        /// The folder for temporary files.
        folder: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// Its pages stand for whole objects, and what was asked for counts pages.
    #[error(
        "{}is of whole objects: `sweephand simulate --whole-objects` counts their misses; to count pages, or to \
         import with --window, import the log again without --whole-objects",
        named(path)
    )]
    WholeObjects {
        /// The file.
        path: PathBuf,
    },
}

/// What stands before a message: the file, if it is known.
fn named(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => String::new(),
        false => format!("{}: ", shown(&path.to_string_lossy())),
    }
}

/// What stands for the file in a filter.
pub(crate) const FILE: &str = "FILE";

/// The import of what a filter makes of a file.
fn piped(filter: &str, path: &Path) -> String {
    let file = match path.as_os_str().is_empty() {
        false if path.exists() => in_shell(path),
        _ => FILE.to_owned(),
    };
    format!("`{} | sweephand import -` reads it", filter.replace(FILE, &file))
}

/// What is said about a file may quote it.
fn escaped(words: impl Into<String>) -> String {
    shown(&words.into()).into_owned()
}

impl Error {
    /// The same error with the name of the file that was read in it, unless it has one already.
    #[must_use]
    pub fn in_file(self, name: &Path) -> Self {
        if matches!(self, Self::Write { .. }) { self } else { self.with_path(name) }
    }

    /// The same error with the name of the file that was written in it, if it is about that.
    #[must_use]
    pub fn in_output(self, name: &Path) -> Self {
        if matches!(self, Self::Write { .. }) { self.with_path(name) } else { self }
    }

    fn with_path(mut self, name: &Path) -> Self {
        let (Self::Io { path, .. }
        | Self::Write { path, .. }
        | Self::Empty { path }
        | Self::Unrecognised { path, .. }
        | Self::Version { path, .. }
        | Self::Unfinished { path }
        | Self::Truncated { path, .. }
        | Self::Damaged { path, .. }
        | Self::Record { path, .. }
        | Self::Line { path, .. }
        | Self::Columns { path, .. }
        | Self::Unfit { path, .. }
        | Self::NoRoom { path, .. }
        | Self::TooManyPages { path }
        | Self::NoWrites { path }
        | Self::NotRead { path, .. }
        | Self::NoCopy { path, .. }
        | Self::WholeObjects { path }) = &mut self;
        if path.as_os_str().is_empty() {
            name.clone_into(path);
        }
        self
    }

    /// Where in its input the error is, in bytes, if it is about a place.
    pub(crate) fn place(&self) -> Option<u64> {
        match self {
            Self::Line { offset, .. }
            | Self::Damaged { offset, .. }
            | Self::Record { offset, .. }
            | Self::Truncated { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// The same error, if the input begins this many lines and bytes into what was read.
    pub(crate) fn moved_back(mut self, lines: u64, bytes: u64) -> Self {
        if let Self::Line { line, .. } = &mut self {
            *line -= lines;
        }
        if let Self::Line { offset, .. }
        | Self::Damaged { offset, .. }
        | Self::Record { offset, .. }
        | Self::Truncated { offset, .. } = &mut self
        {
            *offset -= bytes;
        }
        self
    }

    pub(crate) fn write(reason: io::Error) -> Self {
        Self::Write { path: PathBuf::new(), reason }
    }

    pub(crate) fn empty() -> Self {
        Self::Empty { path: PathBuf::new() }
    }

    pub(crate) fn unrecognised(found: impl Into<String>) -> Self {
        Self::Unrecognised { path: PathBuf::new(), found: escaped(found) }
    }

    pub(crate) fn version(found: u32, known: u32) -> Self {
        Self::Version { path: PathBuf::new(), found, known }
    }

    pub(crate) fn unfinished() -> Self {
        Self::Unfinished { path: PathBuf::new() }
    }

    pub(crate) fn truncated(offset: u64, place: impl Into<String>) -> Self {
        Self::Truncated { path: PathBuf::new(), offset, place: escaped(place) }
    }

    pub(crate) fn damaged(offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { path: PathBuf::new(), offset, reason: escaped(reason) }
    }

    pub(crate) fn record(record: u64, offset: u64, reason: impl Into<String>) -> Self {
        Self::Record { path: PathBuf::new(), record, offset, reason: escaped(reason) }
    }

    pub(crate) fn columns(reason: String) -> Self {
        Self::Columns { path: PathBuf::new(), reason: escaped(reason) }
    }

    pub(crate) fn unfit(reason: String) -> Self {
        Self::Unfit { path: PathBuf::new(), reason }
    }

    pub(crate) fn no_room(page: u64, limit: u64) -> Self {
        Self::NoRoom { path: PathBuf::new(), page, limit }
    }

    pub(crate) fn too_many_pages() -> Self {
        Self::TooManyPages { path: PathBuf::new() }
    }

    pub(crate) fn not_read(what: impl Into<String>, filter: String) -> Self {
        Self::NotRead { path: PathBuf::new(), what: escaped(what), filter }
    }

    pub(crate) fn no_copy(reason: io::Error) -> Self {
        Self::NoCopy { path: PathBuf::new(), folder: std::env::temp_dir(), reason }
    }

    pub(crate) fn whole_objects() -> Self {
        Self::WholeObjects { path: PathBuf::new() }
    }

    pub(crate) fn no_writes() -> Self {
        Self::NoWrites { path: PathBuf::new() }
    }
}

impl From<io::Error> for Error {
    fn from(reason: io::Error) -> Self {
        Self::Io { path: PathBuf::new(), reason }
    }
}
