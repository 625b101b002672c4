//! Text: page numbers, one a line.
//!
//! A line is a number, decimal or hexadecimal after `0x`. Blank lines, lines that begin with `#`,
//! and lines of nothing but `*` (a marker in the traces of the LIRS papers) are skipped; white
//! space around a number and carriage returns are ignored. Anything else is an error. Every line is
//! one reference, a read; nothing is collapsed. How large a page is, the file does not say: 4 KiB
//! is assumed.

use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused};
use crate::{Error, Sink};

struct Text<'a, S> {
    sink: &'a mut S,
    references: u64,
}

/// Whether a first line is a page number, or one that is skipped.
pub(crate) fn is(first_line: &[u8]) -> bool {
    parse(first_line).is_ok()
}

/// Reads a stream into `sink`.
pub(crate) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut text = Text { sink, references: 0 };
    lines::read(stream, &mut text, progress)?;
    if text.references == 0 {
        return Err(Error::unrecognised("text without a single page number"));
    }
    Ok(Imported { page_size: 4096, source: "text", ..Imported::default() })
}

impl<S: Sink> Lines for Text<'_, S> {
    #[inline]
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if let Some(page) = parse(line)? {
            self.sink.reference(page, false)?;
            self.references += 1;
        }
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        (self.references, 0)
    }
}

/// The page number on a line, if it has one.
fn parse(line: &[u8]) -> Result<Option<u64>, &'static str> {
    // The usual line, quickly.
    if (1..=19).contains(&line.len()) && line.iter().all(u8::is_ascii_digit) {
        return Ok(Some(line.iter().fold(0, |page, digit| 10 * page + u64::from(digit - b'0'))));
    }
    let line = line.trim_ascii();
    if line.first().is_none_or(|first| *first == b'#') || line.iter().all(|byte| *byte == b'*') {
        return Ok(None);
    }
    let (digits, radix) = match line {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        digits => (digits, 10),
    };
    let digit = |byte: &u8| (*byte as char).to_digit(radix).map(u64::from);
    if digits.is_empty() || !digits.iter().all(|byte| digit(byte).is_some()) {
        let has_columns = line.iter().any(|byte| matches!(byte, b',' | b';' | b'|' | b'\t'));
        return Err(if has_columns {
            "not a page number (a log with columns? `sweephand import --show` tells what to do)"
        } else {
            "not a page number"
        });
    }
    digits
        .iter()
        .filter_map(digit)
        .try_fold(0u64, |page, digit| page.checked_mul(radix.into())?.checked_add(digit))
        .map(Some)
        .ok_or("a page number that does not fit 64 bits")
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_numbers_or_nothing() {
        for (line, page) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("00000000000000000000000000000000007", Some(7)),
            (" 12\t\r", Some(12)),
            ("0xfF", Some(255)),
            ("", None),
            ("  ", None),
            ("# 12", None),
            ("*", None),
            ("***", None),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok(page), "{line:?}");
        }
        for line in
            ["-1", "1 2", "0x", "1f", "1,2", "* 1", "18446744073709551616", "0x10000000000000000", "12#"]
        {
            assert!(parse(line.as_bytes()).is_err(), "{line:?}");
        }
    }
}
