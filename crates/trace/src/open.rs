//! Opening traces of any format. What is not in our own is converted, through the ordinary
//! [`Writer`], into a trace in memory.

use crate::format::MAGIC;
use crate::import::{ImportOptions, Input};
use crate::reader::MEMORY_LEVEL;
use crate::{Error, Metadata, Trace, Writer};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

impl Trace {
    /// Opens a trace of any format; which one is found by its content, never by its name.
    pub fn open(path: &Path) -> Result<Trace, Error> {
        Self::open_file(path).map_err(|error| error.in_file(path))
    }

    fn open_file(path: &Path) -> Result<Trace, Error> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Error::unrecognised("a directory"));
        }
        let mut head = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut head)?;
        // A pipe has no places to seek to: it is read like standard input.
        if head.starts_with(&MAGIC[..4]) && file.metadata()?.is_file() {
            Self::in_file(file, path)
        } else {
            Self::read(Cursor::new(head).chain(file), path)
        }
    }

    /// Whether a file in our own format has pages of memory; nothing else is asked of it.
    ///
    /// # Errors
    /// [`Error::WholeObjects`] if its pages stand for objects of any size.
    pub fn check_pages_of(path: &Path) -> Result<(), Error> {
        let is_native = |mut file: &File| {
            let mut head = [0; 4];
            file.read_exact(&mut head).is_ok() && head == MAGIC[..4]
        };
        let file = File::open(path).and_then(|file| Ok((file.metadata()?.is_file(), file)));
        match file {
            // What else is wrong with it, whoever reads it is told.
            Ok((true, file)) if is_native(&file) => {
                Self::in_file(file, path).map_or(Ok(()), |trace| trace.check_pages())
            }
            _ => Ok(()),
        }
    }

    /// Reads a whole trace of any format; `name` is what errors call it.
    pub fn from_reader(reader: impl Read, name: &Path) -> Result<Trace, Error> {
        Self::read(reader, name).map_err(|error| error.in_file(name))
    }

    /// A trace of any format held in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Trace, Error> {
        let name = Path::new("");
        if bytes.starts_with(&MAGIC[..4]) {
            Self::in_memory(bytes, name)
        } else {
            Self::read(&bytes[..], name)
        }
    }

    fn read(reader: impl Read, name: &Path) -> Result<Trace, Error> {
        let input = Input::new(reader)?;
        if input.is_native() {
            return Self::in_memory(input.native_bytes()?, name);
        }
        let mut writer = Writer::with_level(Cursor::new(Vec::new()), Metadata::default(), MEMORY_LEVEL)?;
        let options = ImportOptions { name: name.to_owned(), ..ImportOptions::default() };
        let end = input.import(&mut writer, &options, &mut |_| {})?;
        let (out, _) = writer.finish(end)?;
        Self::in_memory(out.into_inner(), name)
    }
}
