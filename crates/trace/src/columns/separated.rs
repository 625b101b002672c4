//! Separated text: CSV, TSV, and columns between spaces.
//!
//! A line without a quote is cut at its separators here, and no further than the last column that
//! is wanted. A record with a quote goes through `csv-core`, which knows quotes, doubled quotes,
//! and newlines inside them. Both give the same columns (a test compares them).

use std::io::Read;

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};

use super::description::{Columns, Place, ROLES, column_named};
use super::requests::{Requests, Row, Value};
use crate::bytes::ByteStream;
use crate::imported::Progress;
use crate::lines::{Refused, wrong};
use crate::{Error, Sink};

/// A record may have so many columns.
const MOST_COLUMNS: usize = 1 << 14;

/// What separates columns, the usual ones first.
pub(super) const SEPARATORS: [u8; 5] = *b",\t;| ";

/// Skips the mark that some programs begin text with.
pub(super) fn skip_byte_order_mark<R: Read>(stream: &mut ByteStream<R>) -> Result<(), Error> {
    stream.fill_to(3)?;
    if stream.buffered().starts_with(b"\xef\xbb\xbf") {
        stream.consume(3);
    }
    Ok(())
}

/// The first byte that is not white space, without taking anything.
pub(super) fn first_byte<R: Read>(stream: &mut ByteStream<R>) -> Result<Option<u8>, Error> {
    loop {
        let first = stream.buffered().iter().find(|byte| !byte.is_ascii_whitespace()).copied();
        if first.is_some() || stream.ended() || stream.full() {
            return Ok(first);
        }
        stream.fill()?;
    }
}

/// The separator that a line has most of; a comma if it has none.
pub(super) fn guess_separator(line: &[u8]) -> u8 {
    let mut counts = [0usize; SEPARATORS.len()];
    let mut quoted = false;
    for byte in line.trim_ascii() {
        quoted ^= *byte == b'"';
        if let Some(index) = SEPARATORS.iter().position(|separator| separator == byte)
            && !quoted
        {
            counts[index] += 1;
        }
    }
    // Spaces also stand inside columns: they separate only if nothing else does.
    let [others @ .., _] = &counts;
    let most = others.iter().max().copied().unwrap_or(0);
    match others.iter().position(|count| *count == most) {
        Some(index) if most > 0 => SEPARATORS[index],
        _ if counts[SEPARATORS.len() - 1] > 0 => b' ',
        _ => b',',
    }
}

/// The columns of one record, white space around each taken off.
pub(super) fn split(record: &[u8], separator: u8) -> Vec<Vec<u8>> {
    if separator == b' ' {
        let words = record.split(|byte| matches!(byte, b' ' | b'\t'));
        return words.map(<[u8]>::trim_ascii).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect();
    }
    let mut quoted = Quoted::new(separator);
    quoted.record(record, true);
    (0..quoted.columns).map(|column| quoted.column(column).to_vec()).collect()
}

/// Records with quotes.
struct Quoted {
    builder: ReaderBuilder,
    output: Vec<u8>,
    ends: Vec<usize>,
    columns: usize,
}

/// What became of a record with quotes.
enum Found {
    /// It has so many bytes.
    Record(usize),
    /// Its end is not there yet.
    Cut,
    TooManyColumns,
}

impl Quoted {
    fn new(separator: u8) -> Self {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(separator).terminator(Terminator::Any(b'\n'));
        Self { builder, output: Vec::new(), ends: vec![0; MOST_COLUMNS], columns: 0 }
    }

    /// The record at the beginning of `bytes`; `ended` if nothing comes after them.
    fn record(&mut self, bytes: &[u8], ended: bool) -> Found {
        // A record is not longer than its text.
        self.output.resize(bytes.len().max(1), 0);
        let mut reader = self.builder.build();
        let (mut result, mut taken, written, mut ends) =
            reader.read_record(bytes, &mut self.output, &mut self.ends);
        if matches!(result, ReadRecordResult::InputEmpty) && ended {
            // That nothing comes is said by giving nothing.
            let (output, more) = (&mut self.output[written..], &mut self.ends[ends..]);
            let (last, took, _, ended) = reader.read_record(&[], output, more);
            (result, taken, ends) = (last, taken + took, ends + ended);
        }
        self.columns = ends;
        match result {
            ReadRecordResult::Record | ReadRecordResult::End => Found::Record(taken),
            ReadRecordResult::InputEmpty => Found::Cut,
            ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => Found::TooManyColumns,
        }
    }

    fn column(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.output[start..self.ends[index]].trim_ascii()
    }
}

/// The columns that are wanted, in ascending order: index and role.
type Wanted = Vec<(usize, usize)>;

/// Where the columns are. `header` is the first record, where it has names.
fn wanted(columns: &Columns, header: Option<&[Vec<u8>]>) -> Result<Wanted, String> {
    let mut wanted = Vec::new();
    for column in &columns.columns {
        let index = match &column.place {
            Place::Number(number) => number - 1,
            Place::Name(name) => {
                let header = header.unwrap_or_default();
                let found = column_named(name, header).map_err(|reason| format!("line 1: {reason}"))?;
                found.ok_or_else(|| {
                    let names: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name)).collect();
                    format!("line 1: no column '{name}' in the header; it has: {}", names.join(", "))
                })?
            }
            Place::Bytes(..) => return Err("binary columns, but the file is text".into()),
        };
        if index >= MOST_COLUMNS {
            return Err(format!("column {}: a row has {MOST_COLUMNS} columns at most", index + 1));
        }
        wanted.push((index, column.role as usize));
    }
    wanted.sort_unstable();
    Ok(wanted)
}

/// Why a row is refused in which a column is missing.
const FEWER: &str = "fewer columns than are named";

/// The wanted columns of a line without quotes.
#[inline]
fn cut<'a>(line: &'a [u8], separator: u8, wanted: &Wanted) -> Result<Row<'a>, Refused> {
    let mut row = [Value::Absent; ROLES];
    let mut next = 0;
    let mut take = |index: usize, column: &'a [u8]| {
        while let Some((_, role)) = wanted.get(next).filter(|(wanted, _)| *wanted == index) {
            row[*role] = Value::Text(column);
            next += 1;
        }
        next < wanted.len()
    };
    if separator == b' ' {
        let words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        for (index, word) in words.enumerate() {
            if !take(index, word.trim_ascii()) {
                break;
            }
        }
    } else {
        let (mut index, mut start) = (0, 0);
        loop {
            let end = memchr::memchr(separator, &line[start..]).map_or(line.len(), |length| start + length);
            if !take(index, line[start..end].trim_ascii()) || end == line.len() {
                break;
            }
            (index, start) = (index + 1, end + 1);
        }
    }
    if next < wanted.len() { Err(FEWER.into()) } else { Ok(row) }
}

/// Reads a stream into `requests`.
pub(super) fn read<R: Read, S: Sink>(
    mut stream: ByteStream<R>,
    columns: &Columns,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    // The first line that is not blank says what separates columns.
    let first_line = |bytes: &[u8]| {
        let text = bytes.trim_ascii_start();
        memchr::memchr(b'\n', text).map(|end| guess_separator(&text[..end]))
    };
    while first_line(stream.buffered()).is_none() && !stream.ended() && !stream.full() {
        stream.fill()?;
    }
    let guessed = || first_line(stream.buffered()).unwrap_or_else(|| guess_separator(stream.buffered()));
    let separator = columns.separator.unwrap_or_else(guessed);
    let spaces = separator == b' ';
    let mut quoted = Quoted::new(separator);
    let mut header = columns.has_header();
    let mut places = if header { Wanted::new() } else { wanted(columns, None).map_err(Error::columns)? };
    let mut line = 1;
    loop {
        let bytes = stream.buffered();
        let mut start = 0;
        // Records that are whole.
        while start < bytes.len() {
            let rest = &bytes[start..];
            let next = if spaces { memchr::memchr(b'\n', rest) } else { memchr::memchr2(b'"', b'\n', rest) };
            let at = stream.offset() + start as u64;
            let has_quote = next.is_some_and(|place| rest[place] == b'"');
            let (length, plain) = match next {
                Some(length) if !has_quote => (length + 1, Some(&rest[..length])),
                None if stream.ended() => (rest.len(), Some(rest)),
                None => break,
                Some(_) => match quoted.record(rest, stream.ended()) {
                    Found::Record(length) => (length, None),
                    Found::Cut => break,
                    Found::TooManyColumns => return Err(wrong(line, at, "too many columns".into(), rest)),
                },
            };
            let record = &rest[..length];
            let empty = plain.is_some_and(|plain| plain.trim_ascii().is_empty());
            if header && !empty {
                places = wanted(columns, Some(&split(record, separator))).map_err(Error::columns)?;
                header = false;
            } else if !empty {
                let taken = match plain {
                    Some(plain) => cut(plain, separator, &places),
                    None => {
                        let mut row = [Value::Absent; ROLES];
                        let complete = places.iter().all(|(index, role)| {
                            let there = *index < quoted.columns;
                            if there {
                                row[*role] = Value::Text(quoted.column(*index));
                            }
                            there
                        });
                        if complete { Ok(row) } else { Err(FEWER.into()) }
                    }
                };
                taken
                    .and_then(|row| requests.row(&row))
                    .map_err(|refused| refuse(line, at, refused, record))?;
            }
            line += if plain.is_some() { 1 } else { memchr::memchr_iter(b'\n', record).count() as u64 };
            start += length;
        }
        stream.consume(start);
        let (records, instructions) = requests.counts();
        progress(Progress { bytes: stream.offset(), records, instructions });
        if stream.ended() && stream.buffered().is_empty() {
            return Ok(());
        }
        if stream.full() {
            let reason = "a row of more than 256 KiB: a quote that is not closed?";
            return Err(wrong(line, stream.offset(), reason.into(), stream.buffered()));
        }
        stream.fill()?;
    }
}

/// Why a row is refused. What is wrong with the first one may be that it is none.
fn refuse(line: u64, offset: u64, refused: Refused, record: &[u8]) -> Error {
    let mut error = wrong(line, offset, refused, record);
    if let Error::Line { line: 1, reason, .. } = &mut error {
        *reason.to_mut() += " (if the line has the names of the columns: --header)";
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_the_one_that_a_line_has_most_of() {
        for (line, separator) in [
            ("a,b,c", b','),
            ("a\tb, c\td", b'\t'),
            ("a;b;\"c,d,e,f\"", b';'),
            ("a b  c", b' '),
            ("a b,c d", b','),
            ("a", b','),
            ("a|b", b'|'),
        ] {
            assert_eq!(guess_separator(line.as_bytes()), separator, "{line}");
        }
    }

    #[test]
    fn plain_lines_are_cut_as_csv_cuts_them() {
        for line in ["a,b,c", "a,,c", ",", "a", "a, b ,c\r", ",,,,", "x\r"] {
            let columns = split(line.as_bytes(), b',');
            for (index, column) in columns.iter().enumerate() {
                let row = cut(line.as_bytes(), b',', &vec![(index, 0)]).unwrap();
                assert_eq!(row[0], Value::Text(column), "{line:?} {index}");
            }
            assert!(cut(line.as_bytes(), b',', &vec![(columns.len(), 0)]).is_err(), "{line:?}");
        }
    }
}
