//! Zip archives: the contents of their files, one after the other.
//!
//! An archive is read from start to end, so it may come through a pipe. That is possible because a
//! header stands before the contents of each file. The directory behind the files says nothing
//! more. But it must be there, and be the end: an archive without it is cut off. Contents are
//! stored or deflated. Their length and CRC-32 are checked. (PKWARE, APPNOTE.TXT 6.3.10, section
//! 4.3.)

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::buffered::Buffered;
use crate::not_read::NotRead;
use crate::source::Archive;
use crate::tar::only_zeros;

/// What an archive with a file in it begins with.
pub(crate) const MAGIC: &[u8; 4] = b"PK\x03\x04";

/// What a length in a header says if the length stands in the extra field.
const ELSEWHERE: u32 = u32::MAX;

/// The extra field with lengths of 64 bits.
const ZIP64: u16 = 1;

/// Methods of compression that archives have and that are not read.
const METHODS: [(u16, &str); 6] =
    [(9, "deflate64"), (12, "bzip2"), (14, "lzma"), (93, "zstd"), (95, "xz"), (98, "PPMd")];

/// An archive, as the contents of its files.
pub(crate) struct Zip<'a> {
    reader: Buffered<'a>,
    state: State,
}

enum State {
    /// A header comes, of a file or of the directory.
    Header,
    /// The contents of a file come.
    Inside(File),
    Ended,
}

/// A file whose contents are being read.
struct File {
    contents: Contents,
    crc: Crc,
    length: u64,
    promised: Promised,
}

enum Contents {
    /// This many bytes are still to come.
    Stored(u64),
    Deflated(Box<Decompress>),
}

/// Where CRC-32 and length are that the contents must have.
#[derive(Clone, Copy)]
enum Promised {
    Before(u32, u64),
    /// Behind the contents. A length has this many bytes.
    Behind(usize),
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("zip: {reason}"))
}

/// An intact archive that another program reads: one that begins with the directory.
fn not_read(how: &str) -> io::Error {
    NotRead::new(format!("a zip archive {how}"), "bsdtar -xOf FILE").into()
}

fn bytes<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip(reader: &mut impl Read, length: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(length), &mut io::sink())?;
    if skipped < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn two(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn four(bytes: &[u8], at: usize) -> u32 {
    u32::from(two(bytes, at)) | u32::from(two(bytes, at + 2)) << 16
}

fn eight(bytes: &[u8], at: usize) -> u64 {
    u64::from(four(bytes, at)) | u64::from(four(bytes, at + 4)) << 32
}

impl<'a> Zip<'a> {
    /// An archive that begins with [`MAGIC`].
    pub(crate) fn new(reader: Buffered<'a>) -> Self {
        Self { reader, state: State::Header }
    }

    /// Reads a header, and decides what comes behind it. The name of a file whose contents do.
    fn header(&mut self) -> io::Result<Option<String>> {
        let reader = &mut self.reader;
        match &bytes::<4>(reader)? {
            MAGIC => {
                let (name, file) = File::open(reader)?;
                self.state = State::Inside(file);
                return Ok(Some(name));
            }
            // A file in the directory.
            b"PK\x01\x02" => {
                let header: [u8; 42] = bytes(reader)?;
                let lengths = [24, 26, 28].map(|at| u64::from(two(&header, at)));
                skip(reader, lengths.iter().sum())?;
            }
            // The end of a large directory, and where that is.
            b"PK\x06\x06" => {
                let length = u64::from_le_bytes(bytes(reader)?);
                skip(reader, length)?;
            }
            b"PK\x06\x07" => skip(reader, 16)?,
            // The end of the directory, with a comment.
            b"PK\x05\x06" => {
                let end: [u8; 18] = bytes(reader)?;
                skip(reader, two(&end, 16).into())?;
                if !only_zeros(reader)? {
                    return Err(wrong("something stands behind the archive"));
                }
                self.state = State::Ended;
            }
            _ => return Err(wrong("something that is no header stands in the place of one")),
        }
        Ok(None)
    }
}

impl Archive for Zip<'_> {
    fn next_file(&mut self) -> io::Result<Option<Option<String>>> {
        let mut rest = [0; 1 << 12];
        while self.read(&mut rest)? > 0 {}
        while !matches!(self.state, State::Ended) {
            match self.header()? {
                // A folder has no contents.
                Some(name) if !name.ends_with('/') => return Ok(Some(Some(name))),
                Some(_) => while self.read(&mut rest)? > 0 {},
                None => {}
            }
        }
        Ok(None)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let State::Inside(file) = &mut self.state else { return Ok(0) };
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = file.read(&mut self.reader, buffer)?;
        if read == 0 {
            file.check(&mut self.reader)?;
            self.state = State::Header;
        }
        Ok(read)
    }
}

impl File {
    /// Reads the rest of a file's header, and its name.
    fn open(reader: &mut impl Read) -> io::Result<(String, Self)> {
        let header: [u8; 26] = bytes(reader)?;
        let (flags, method, crc) = (two(&header, 2), two(&header, 4), four(&header, 10));
        let (packed, length) = (four(&header, 14), four(&header, 18));
        let mut name = vec![0; two(&header, 22).into()];
        reader.read_exact(&mut name)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let mut extra = vec![0; two(&header, 24).into()];
        reader.read_exact(&mut extra)?;
        let large = zip64(&extra);
        let (is_encrypted, is_behind) = (flags & 1 != 0, flags & 8 != 0);
        if is_encrypted {
            return Err(not_read("with an encrypted file"));
        }
        let contents = match method {
            0 if is_behind => return Err(not_read("with a stored file whose length stands behind it")),
            0 => {
                let packed = if packed == ELSEWHERE { large.map(|(_, packed)| packed) } else { None }
                    .unwrap_or(packed.into());
                Contents::Stored(packed)
            }
            8 => Contents::Deflated(Box::new(Decompress::new(false))),
            _ => {
                let of = METHODS.iter().find(|(number, _)| *number == method);
                let of = of.map_or(format!("method {method}"), |(_, name)| (*name).to_owned());
                return Err(not_read(&format!("with a file compressed by {of}, not stored or deflated")));
            }
        };
        let promised = if is_behind {
            Promised::Behind(if large.is_some() { 8 } else { 4 })
        } else {
            let length = if length == ELSEWHERE { large.map(|(length, _)| length) } else { None }
                .unwrap_or(length.into());
            Promised::Before(crc, length)
        };
        Ok((name, Self { contents, crc: Crc::new(), length: 0, promised }))
    }

    /// Reads contents; 0 bytes are the end.
    fn read(&mut self, reader: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.contents {
            Contents::Stored(0) => 0,
            Contents::Stored(left) => {
                let most = buffer.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                let read = reader.read(&mut buffer[..most])?;
                if read == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                *left -= read as u64;
                read
            }
            Contents::Deflated(inflate) => deflated(inflate, reader, buffer)?,
        };
        self.crc.update(&buffer[..read]);
        self.length += read as u64;
        Ok(read)
    }

    /// The contents have ended: are they what was promised?
    fn check(&self, reader: &mut impl Read) -> io::Result<()> {
        let (crc, length) = match self.promised {
            Promised::Before(crc, length) => (crc, length),
            Promised::Behind(width) => {
                let mut first: [u8; 4] = bytes(reader)?;
                // A mark, which is optional.
                if &first == b"PK\x07\x08" {
                    first = bytes(reader)?;
                }
                let mut lengths = [0; 16];
                reader.read_exact(&mut lengths[..2 * width])?;
                let length = if width == 8 { eight(&lengths, 8) } else { four(&lengths, 4).into() };
                (u32::from_le_bytes(first), length)
            }
        };
        if length != self.length {
            return Err(wrong("a file has another length than the archive says"));
        }
        if crc != self.crc.sum() {
            return Err(wrong("the contents of a file do not agree with their checksum"));
        }
        Ok(())
    }
}

/// Reads what is deflated; 0 bytes are the end.
fn deflated(inflate: &mut Decompress, reader: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let input = reader.fill_buf()?;
        if input.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let before = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(input, buffer, FlushDecompress::None)
            .map_err(|_| wrong("deflated contents are damaged"))?;
        let (taken, read) = (inflate.total_in() - before.0, inflate.total_out() - before.1);
        reader.consume(taken as usize);
        if read > 0 || status == Status::StreamEnd {
            return Ok(read as usize);
        }
        if taken == 0 {
            return Err(wrong("deflated contents are damaged"));
        }
    }
}

/// Length and packed length, if an extra field has them.
fn zip64(mut extra: &[u8]) -> Option<(u64, u64)> {
    while extra.len() >= 4 {
        let (id, length) = (two(extra, 0), usize::from(two(extra, 2)));
        let field = extra.get(4..4 + length)?;
        if id == ZIP64 && length >= 16 {
            return Some((eight(field, 0), eight(field, 8)));
        }
        extra = &extra[4 + length..];
    }
    None
}
