//! A buffered byte stream that knows its position, member by member.
//!
//! Parsers look at [`ByteStream::buffered`] and take what they understand with
//! [`ByteStream::consume`]. They ask for more with [`ByteStream::fill`] only when the rest could be
//! cut off. `fill` reads once, so a parser on a live pipe works on what has arrived.
//!
//! A stream has one member or several: the files of an archive, or compressed files one behind the
//! other. [`ByteStream::ended`] speaks of the member; [`ByteStream::next_member`] goes on. So no
//! row and no record can cross from one member into the next.
//!
//! A reader of text says so at the beginning of each member ([`ByteStream::begin_text`]). The
//! stream then takes off a byte-order mark, turns UTF-16 into UTF-8, and carriage returns that end
//! lines on their own into newlines.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::rc::Rc;

use encoding_rs::{Decoder, DecoderResult, UTF_16BE, UTF_16LE};

use crate::Error;
use crate::intake::Intake;
use crate::not_read::NotRead;
use crate::source::{Plain, Source};

const BUFFER: usize = 1 << 18;

/// The longest row: the buffer grows until it holds one.
pub(crate) const MOST_ROW: usize = 1 << 24;

/// Bytes of UTF-16 that are decoded at a time.
const RAW: usize = 1 << 15;

/// How the text of the member is stored.
enum Encoding {
    /// As it is read.
    Utf8,
    Utf16(Utf16),
}

/// Text in UTF-16, read as UTF-8.
struct Utf16 {
    /// `None` when all is decoded.
    decoder: Option<Decoder>,
    /// What has been read for it.
    raw: Vec<u8>,
    /// What comes next is no UTF-16.
    wrong: bool,
}

pub(crate) struct ByteStream<'a> {
    source: Box<dyn Source + 'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed.
    taken: u64,
    /// Of these, the ones before the member, or before the archive's file that it is in.
    before: u64,
    ended: bool,
    encoding: Encoding,
    /// Carriage returns end lines.
    returns: bool,
    /// Compressed files one behind the other are one member.
    joins: bool,
    /// Lines before, of the member or of the archive's file that it is in.
    pub(crate) line: u64,
    pub(crate) intake: Rc<RefCell<Intake>>,
}

impl<'a> ByteStream<'a> {
    /// A stream of one member.
    pub(crate) fn new(reader: impl Read + 'a) -> Self {
        Self::of(Vec::new(), Box::new(Plain(reader)), Rc::default())
    }

    /// The members of a source, of whose first one the beginning has been read.
    pub(crate) fn of(head: Vec<u8>, source: Box<dyn Source + 'a>, intake: Rc<RefCell<Intake>>) -> Self {
        let end = head.len();
        // Zeroed memory from the allocator: filling a vector is slow where it is not optimised.
        let mut buffer = vec![0; BUFFER.max(end)];
        buffer[..end].copy_from_slice(&head);
        Self {
            source,
            buffer,
            start: 0,
            end,
            taken: 0,
            before: 0,
            ended: false,
            encoding: Encoding::Utf8,
            returns: false,
            joins: false,
            line: 0,
            intake,
        }
    }

    /// What has been read of the member and not consumed.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.taken += bytes as u64;
        debug_assert!(self.start <= self.end);
    }

    /// Where the first buffered byte stands in the member, or in the archive's file that it is in.
    pub(crate) fn offset(&self) -> u64 {
        self.taken - self.before
    }

    /// Bytes consumed, of all members.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Nothing of the member comes after what is buffered.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// No room for more: what is buffered is as long as it can be.
    pub(crate) fn full(&self) -> bool {
        self.end - self.start + 4 > MOST_ROW
    }

    /// Goes to the next member, if there is one. What is left of this one is passed over.
    pub(crate) fn next_member(&mut self) -> Result<bool, Error> {
        if !self.source.next()? {
            return Ok(false);
        }
        self.taken += (self.end - self.start) as u64;
        (self.start, self.end, self.ended) = (0, 0, false);
        (self.encoding, self.returns) = (Encoding::Utf8, false);
        if self.source.is_file() {
            (self.before, self.line) = (self.taken, 0);
        }
        Ok(true)
    }

    /// What is read says itself where it ends. So compressed files one behind the other, which a
    /// compressor may cut anywhere, are one.
    pub(crate) fn join_compressed(&mut self) {
        self.joins = true;
    }

    /// The member is the last one: `what` there is one of.
    pub(crate) fn last_member(&mut self, what: &str) -> Result<(), Error> {
        while self.next_member()? {
            self.fill_to(1)?;
            if self.buffered().is_empty() {
                continue;
            }
            return Err(Error::columns(format!("a second {what}: import one at a time")));
        }
        Ok(())
    }

    /// Reads once, unless the member has ended or the buffer is full.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // Room for a character at least, however it is stored.
        if self.end + 4 > self.buffer.len() && !self.full() {
            self.buffer.resize((2 * self.buffer.len()).min(MOST_ROW), 0);
        }
        while !self.ended && self.end < self.buffer.len() {
            let into = &mut self.buffer[self.end..];
            let read = match &mut self.encoding {
                Encoding::Utf8 => self.source.read(into),
                Encoding::Utf16(text) => text.read(&mut *self.source, into),
            };
            match read {
                Ok(0) if self.joins && !self.source.is_file() && self.source.next()? => {}
                Ok(0) => self.ended = true,
                Ok(bytes) => {
                    if self.returns {
                        newlines(&mut self.buffer[self.end..self.end + bytes]);
                    }
                    self.end += bytes;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error, self.offset() + self.end as u64)),
            }
        }
        Ok(())
    }

    /// Reads until at least `bytes` are buffered or the member has ended.
    pub(crate) fn fill_to(&mut self, bytes: usize) -> Result<(), Error> {
        while self.end - self.start < bytes.min(MOST_ROW) && !self.ended {
            self.fill()?;
        }
        Ok(())
    }

    /// Reads on when what is buffered is only a part of a row: a little if the row can be short,
    /// and as much again if it is long, so that it is not looked at many times over.
    pub(crate) fn fill_row(&mut self) -> Result<(), Error> {
        let length = self.end - self.start;
        if length < BUFFER / 4 { self.fill() } else { self.fill_to(2 * length) }
    }

    /// The member is text: takes off what stands before it, and finds out how it is stored.
    pub(crate) fn begin_text(&mut self) -> Result<(), Error> {
        self.fill_to(4)?;
        let utf16 = match self.buffered() {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
                return Err(Error::columns("text in UTF-32: `iconv -f utf-32 -t utf-8` converts it".into()));
            }
            [0xff, 0xfe, ..] => Some(UTF_16LE),
            [0xfe, 0xff, ..] => Some(UTF_16BE),
            [first, 0, second, 0, ..] if is_printed(*first) && is_printed(*second) => Some(UTF_16LE),
            [0, first, 0, second, ..] if is_printed(*first) && is_printed(*second) => Some(UTF_16BE),
            bytes if bytes.starts_with(MARK) => {
                self.consume(MARK.len());
                None
            }
            _ => None,
        };
        if let Some(encoding) = utf16 {
            let raw = self.buffered().to_vec();
            (self.start, self.end) = (0, 0);
            // The decoder takes the mark off.
            let decoder = Some(encoding.new_decoder());
            self.encoding = Encoding::Utf16(Utf16 { decoder, raw, wrong: false });
            self.ended = false;
        }
        self.find_returns()
    }

    /// Do carriage returns end lines? The first end of a line decides.
    fn find_returns(&mut self) -> Result<(), Error> {
        let mut looked = 0;
        loop {
            let bytes = self.buffered();
            if let Some(place) = memchr::memchr2(b'\n', b'\r', &bytes[looked..]) {
                let place = looked + place;
                if bytes[place] == b'\n' {
                    return Ok(());
                }
                if let Some(next) = bytes.get(place + 1) {
                    self.returns = *next != b'\n';
                    if self.returns {
                        newlines(&mut self.buffer[self.start..self.end]);
                    }
                    return Ok(());
                }
                looked = place;
            } else {
                looked = bytes.len();
            }
            if self.ended || self.full() {
                return Ok(());
            }
            self.fill_row()?;
        }
    }
}

/// The rest of the member.
impl Read for ByteStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end && !self.ended {
            self.fill().map_err(io::Error::other)?;
        }
        let bytes = buffer.len().min(self.end - self.start);
        buffer[..bytes].copy_from_slice(&self.buffered()[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}

/// The byte-order mark of UTF-8.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

fn is_printed(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')
}

fn newlines(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
}

impl Utf16 {
    /// Reads a part; 0 bytes are the end. What stands before an error is read first.
    fn read(&mut self, source: &mut dyn Source, into: &mut [u8]) -> io::Result<usize> {
        let Self { decoder, raw, wrong } = self;
        while let Some(decode) = decoder {
            if *wrong {
                let reason = "text that begins like UTF-16 and goes on otherwise, or is cut off";
                return Err(io::Error::other(Error::columns(reason.into())));
            }
            let before = raw.len();
            let mut last = false;
            if before < RAW {
                raw.resize(RAW, 0);
                let read = source.read(&mut raw[before..]);
                raw.truncate(before + *read.as_ref().unwrap_or(&0));
                last = read? == 0;
            }
            let (result, taken, written) = decode.decode_to_utf8_without_replacement(raw, into, last);
            raw.drain(..taken);
            match result {
                DecoderResult::Malformed(..) => *wrong = true,
                DecoderResult::InputEmpty if last => *decoder = None,
                DecoderResult::InputEmpty | DecoderResult::OutputFull => {}
            }
            // A character has up to four bytes, which may not fit.
            if written > 0 || into.len() < 4 {
                return Ok(written);
            }
        }
        Ok(0)
    }
}

/// What a failed read means: what the system says has a number, what a decompressor says has none
/// and is about the data.
pub(crate) fn read_error(error: io::Error, offset: u64) -> Error {
    let not_read = error.get_ref().and_then(|reason| reason.downcast_ref::<NotRead>());
    if let Some(reason) = not_read {
        return reason.clone().into();
    }
    match error.kind() {
        _ if error.raw_os_error().is_some() => error.into(),
        ErrorKind::UnexpectedEof => Error::truncated(offset, "inside compressed data"),
        ErrorKind::OutOfMemory => error.into(),
        _ => match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => Error::damaged(offset, format!("decompression failed: {error}")),
        },
    }
}
