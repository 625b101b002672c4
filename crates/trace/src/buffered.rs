//! A buffered reader that can look ahead.

use std::io::{self, BufRead, ErrorKind, Read};

const BUFFER: usize = 1 << 17;

pub(crate) struct Buffered<'a> {
    reader: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<'a> Buffered<'a> {
    pub(crate) fn new(reader: Box<dyn Read + 'a>) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, end: 0 }
    }

    /// What is left to read, if nothing has been buffered.
    pub(crate) fn into_read(self) -> Box<dyn Read + 'a> {
        debug_assert_eq!(self.start, self.end);
        self.reader
    }

    /// The next bytes, `most` or all that there are.
    pub(crate) fn peek(&mut self, most: usize) -> io::Result<&[u8]> {
        while self.end - self.start < most && self.more()? {}
        Ok(&self.buffer[self.start..self.end.min(self.start + most)])
    }

    /// Reads once; false at the end.
    fn more(&mut self) -> io::Result<bool> {
        self.buffer.resize(BUFFER, 0);
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.end += read;
                    return Ok(read > 0);
                }
            }
        }
    }
}

impl Read for Buffered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let taken = bytes.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&bytes[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl BufRead for Buffered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.more()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }
}
