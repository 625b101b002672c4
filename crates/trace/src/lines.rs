//! A stream of text, taken line by line.

use std::io::Read;
use std::path::PathBuf;

use crate::Error;
use crate::bytes::ByteStream;
use crate::imported::Progress;

/// How much of a line an error shows.
const SHOWN: usize = 40;

/// Why a line is not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The line is wrong.
    Line(&'static str),
    /// Its references could not be passed on.
    Sink(Error),
}

impl From<&'static str> for Refused {
    fn from(reason: &'static str) -> Self {
        Self::Line(reason)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Sink(error)
    }
}

/// Takes lines.
pub(crate) trait Lines {
    /// Takes a line, which has lost its newline but maybe not its carriage return.
    fn line(&mut self, line: &[u8]) -> Result<(), Refused>;

    /// References and instructions so far.
    fn counts(&self) -> (u64, u64);
}

/// Gives every line of a stream to `lines`. The last one need not end.
pub(crate) fn read<R: Read>(
    mut stream: ByteStream<R>,
    lines: &mut impl Lines,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let mut number = 0;
    loop {
        // Whole lines, as many as are buffered.
        let bytes = stream.buffered();
        let mut start = 0;
        while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
            number += 1;
            let line = &bytes[start..start + length];
            lines
                .line(line)
                .map_err(|refused| wrong(number, stream.offset() + start as u64, refused, line))?;
            start += length + 1;
        }
        stream.consume(start);
        let (records, instructions) = lines.counts();
        progress(Progress { bytes: stream.offset(), records, instructions });
        if stream.ended() {
            let line = stream.buffered();
            if !line.is_empty() {
                lines.line(line).map_err(|refused| wrong(number + 1, stream.offset(), refused, line))?;
            }
            return Ok(());
        }
        if stream.full() {
            let endless = "an endless line".into();
            return Err(wrong(number + 1, stream.offset(), endless, stream.buffered()));
        }
        stream.fill()?;
    }
}

/// The error of a line.
pub(crate) fn wrong(line: u64, offset: u64, refused: Refused, content: &[u8]) -> Error {
    let reason = match refused {
        Refused::Line(reason) => reason,
        Refused::Sink(error) => return error,
    };
    let content = content.trim_ascii();
    let mut found = String::from_utf8_lossy(&content[..content.len().min(SHOWN)]).into_owned();
    if content.len() > SHOWN {
        found.push('…');
    }
    Error::Line { path: PathBuf::new(), line, offset, reason: reason.into(), found }
}

/// A decimal number, with white space around it.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    number(digits.trim_ascii(), 10)
}

/// A hexadecimal number.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    number(digits, 16)
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = (*byte as char).to_digit(radix)?;
        number.checked_mul(radix.into())?.checked_add(digit.into())
    })
}
