//! A stream of text, taken line by line.

use std::path::PathBuf;

use crate::Error;
use crate::bytes::{ByteStream, MARK};
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

/// Gives every line of every member of a stream to `lines`. The last one of a member need not end.
/// Lines that begin with `#` are skipped.
pub(crate) fn read(
    mut stream: ByteStream<'_>,
    lines: &mut impl Lines,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    loop {
        read_member(&mut stream, lines, progress)?;
        if !stream.next_member()? {
            return Ok(());
        }
    }
}

/// Gives every line of the member to `lines`.
pub(crate) fn read_member(
    stream: &mut ByteStream<'_>,
    lines: &mut impl Lines,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    stream.begin_text()?;
    loop {
        // Whole lines, as many as are buffered.
        let bytes = stream.buffered();
        let (mut start, mut number) = (0, stream.line);
        while let Some(length) = memchr::memchr(b'\n', &bytes[start..]) {
            number += 1;
            take(lines, stream, number, start, &bytes[start..start + length])?;
            start += length + 1;
        }
        if stream.ended() && start < bytes.len() {
            number += 1;
            take(lines, stream, number, start, &bytes[start..])?;
            start = bytes.len();
        }
        stream.intake.borrow_mut().rows += number - stream.line;
        stream.line = number;
        stream.consume(start);
        let (records, instructions) = lines.counts();
        progress(Progress { bytes: stream.taken(), records, instructions });
        if stream.ended() {
            return Ok(());
        }
        if stream.full() {
            return Err(wrong(number + 1, stream.offset(), TOO_LONG.into(), stream.buffered()));
        }
        stream.fill_row()?;
    }
}

/// Gives a line to `lines`. It begins `start` bytes behind the first buffered one.
#[inline]
fn take(
    lines: &mut impl Lines,
    stream: &ByteStream<'_>,
    number: u64,
    start: usize,
    line: &[u8],
) -> Result<(), Error> {
    let line = line.strip_prefix(MARK).unwrap_or(line);
    if line.trim_ascii_start().starts_with(b"#") {
        stream.intake.borrow_mut().comments += 1;
        return Ok(());
    }
    lines.line(line).or_else(|refused| {
        let error = wrong(number, stream.offset() + start as u64, refused, line);
        stream.intake.borrow_mut().refuse(error)
    })
}

/// Why a row is refused that does not end.
pub(crate) const TOO_LONG: &str = "a row of more than 16 MiB: a quote that is not closed, or no text?";

/// The error of a line.
pub(crate) fn wrong(line: u64, offset: u64, refused: Refused, content: &[u8]) -> Error {
    let reason = match refused {
        Refused::Line(reason) => reason,
        Refused::Sink(error) => return error,
    };
    // What these bytes are explains more than what they are not.
    let reason = match content {
        _ if memchr::memchr(0, content).is_some() => "NUL bytes, which no text has: binary or damaged",
        _ if memchr::memchr(b'\r', content.trim_ascii_end()).is_some() => {
            "a carriage return within the line: `tr '\\r' '\\n'` makes it an end of a line"
        }
        _ => reason,
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
