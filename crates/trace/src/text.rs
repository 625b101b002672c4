//! Text: page numbers, one a line.
//!
//! A line is a number, decimal or hexadecimal after `0x`. Blank lines, lines that begin with `#`, and lines of
//! nothing but `*` (a marker in the traces of the LIRS papers) are skipped; white space around a number and
//! carriage returns are ignored. Anything else is an error. Every line is one reference, a read; nothing is
//! collapsed. How large a page is, the file does not say: 4 KiB is assumed.

use std::io::Read;
use std::path::PathBuf;

use crate::bytes::ByteStream;
use crate::import::{Imported, Progress};
use crate::{Error, Sink};

/// How much of a line an error shows.
const SHOWN: usize = 40;

/// Reads a stream into `sink`.
pub(crate) fn read<R: Read>(
    mut stream: ByteStream<R>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut line = 0;
    let mut records = 0;
    loop {
        // Whole lines, as many as are buffered.
        let bytes = stream.buffered();
        let mut start = 0;
        while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
            line += 1;
            let content = &bytes[start..start + length];
            match parse(content) {
                Ok(Some(page)) => {
                    sink.reference(page, false)?;
                    records += 1;
                }
                Ok(None) => {}
                Err(reason) => return Err(wrong(line, stream.offset() + start as u64, reason, content)),
            }
            start += length + 1;
        }
        stream.consume(start);
        progress(Progress { bytes: stream.offset(), records, instructions: 0 });
        if !stream.ended() {
            if stream.full() {
                return Err(wrong(line + 1, stream.offset(), "an endless line", stream.buffered()));
            }
            stream.fill()?;
            continue;
        }
        // The last line need not end.
        let content = stream.buffered();
        match parse(content) {
            Ok(Some(page)) => {
                sink.reference(page, false)?;
                records += 1;
            }
            Ok(None) => {}
            Err(reason) => return Err(wrong(line + 1, stream.offset(), reason, content)),
        }
        if records == 0 {
            return Err(Error::unrecognised("text without a single page number"));
        }
        return Ok(Imported { page_size: 4096, source: "text", ..Imported::default() });
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
        return Err("not a page number");
    }
    digits
        .iter()
        .filter_map(digit)
        .try_fold(0u64, |page, digit| page.checked_mul(radix.into())?.checked_add(digit))
        .map(Some)
        .ok_or("a page number that does not fit 64 bits")
}

fn wrong(line: u64, offset: u64, reason: &'static str, content: &[u8]) -> Error {
    let content = content.trim_ascii();
    let mut found = String::from_utf8_lossy(&content[..content.len().min(SHOWN)]).into_owned();
    if content.len() > SHOWN {
        found.push('…');
    }
    Error::Line { path: PathBuf::new(), line, offset, reason, found }
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
