//! A buffered byte stream that knows its position.
//!
//! Parsers look at [`ByteStream::buffered`] and take what they understand with
//! [`ByteStream::consume`]. They ask for more with [`ByteStream::fill`] only when the rest could be
//! cut off. `fill` reads once, so a parser on a live pipe works on what has arrived.

use std::io::{ErrorKind, Read};

use crate::Error;
use crate::not_read::NotRead;

const BUFFER: usize = 1 << 18;

pub(crate) struct ByteStream<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes consumed.
    offset: u64,
    ended: bool,
}

impl<R: Read> ByteStream<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER], start: 0, end: 0, offset: 0, ended: false }
    }

    /// What has been read and not consumed.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
        debug_assert!(self.start <= self.end);
    }

    /// Where the first buffered byte stands in the stream.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Nothing comes after what is buffered.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// No room for more: what is buffered is as long as it can be.
    pub(crate) fn full(&self) -> bool {
        self.end - self.start == self.buffer.len()
    }

    /// Reads once, unless the stream has ended or the buffer is full.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while !self.ended && !self.full() {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => {
                    self.end += bytes;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error, self.offset + self.end as u64)),
            }
        }
        Ok(())
    }

    /// What is buffered, and then everything after it.
    #[cfg(feature = "parquet")]
    pub(crate) fn rest(mut self) -> impl Read {
        self.buffer.truncate(self.end);
        let mut buffered = std::io::Cursor::new(self.buffer);
        buffered.set_position(self.start as u64);
        buffered.chain(self.reader)
    }

    /// Reads until at least `bytes` are buffered or the stream has ended.
    pub(crate) fn fill_to(&mut self, bytes: usize) -> Result<(), Error> {
        while self.end - self.start < bytes && !self.ended {
            self.fill()?;
        }
        Ok(())
    }
}

/// What a failed read means: what the system says has a number, what a decompressor says has none
/// and is about the data.
pub(crate) fn read_error(error: std::io::Error, offset: u64) -> Error {
    let not_read = error.get_ref().and_then(|reason| reason.downcast_ref::<NotRead>());
    if let Some(reason) = not_read {
        return reason.clone().into();
    }
    match error.kind() {
        _ if error.raw_os_error().is_some() => error.into(),
        ErrorKind::UnexpectedEof => Error::truncated(offset, "inside compressed data"),
        ErrorKind::OutOfMemory => error.into(),
        _ => Error::damaged(offset, format!("decompression failed: {error}")),
    }
}
