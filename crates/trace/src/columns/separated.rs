//! Separated text: CSV, TSV, and columns between spaces.
//!
//! A row without a quote is cut at its separators here. A row of CSV with a quote goes through
//! `csv-core`, which knows quotes, doubled quotes, and newlines inside them. Both give the same
//! columns (a test compares them). Between spaces, what stands in quotes or brackets is one column,
//! as web servers and Redis's MONITOR write it.
//!
//! Quotes mean something between commas and between spaces only, unless [`Columns::quote`] says
//! otherwise: in a TSV file they are characters like others.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::description::{Columns, Place, Quote, ROLES, Role, column_named};
use super::requests::Requests;
use super::value::{Row, Value};
use crate::bytes::{ByteStream, MARK};
use crate::imported::Progress;
use crate::lines::{Refused, TOO_LONG, wrong};
use crate::{Error, Sink};

/// Most columns of a record.
const MOST_COLUMNS: usize = 1 << 14;

/// What separates columns, in order of preference.
pub(super) const SEPARATORS: [u8; 5] = *b"\t,;| ";

/// Separates nothing: a whole line is a column.
pub const WHOLE_LINES: u8 = b'\n';

/// Rows that decide what separates columns, and their bytes.
const SAMPLE_ROWS: usize = 100;
const SAMPLE: usize = 1 << 16;

/// The first lines that are rows.
fn first_rows<'a>(stream: &'a mut ByteStream<'_>) -> Result<Vec<&'a [u8]>, Error> {
    let rows = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
    while stream.buffered().len() < SAMPLE && rows(stream.buffered()) < 4 * SAMPLE_ROWS && !stream.ended() {
        stream.fill()?;
    }
    let bytes = stream.buffered();
    let is_all = stream.ended() && bytes.len() <= SAMPLE;
    let bytes = &bytes[..bytes.len().min(SAMPLE)];
    // The rest of the last line is elsewhere.
    let end = memchr::memrchr(b'\n', bytes).filter(|_| !is_all).unwrap_or(bytes.len());
    let lines = bytes[..end].split(|byte| *byte == b'\n').take(4 * SAMPLE_ROWS);
    Ok(lines.filter(|line| !is_empty(line) && !is_comment(line)).take(SAMPLE_ROWS).collect())
}

/// What separates columns, of a line that says nothing else: `sep=;`, as Excel begins a file.
pub(super) fn said(line: &[u8]) -> Option<u8> {
    match line.strip_prefix(MARK).unwrap_or(line).trim_ascii_end() {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', separator] => Some(*separator),
        // A tab looks like the end of the line.
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'='] => Some(b'\t'),
        _ => None,
    }
}

fn is_empty(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

pub(super) fn is_comment(line: &[u8]) -> bool {
    line.strip_prefix(MARK).unwrap_or(line).trim_ascii_start().starts_with(b"#")
}

/// The first two bytes of rows that are not white space, as far as there are any, without taking
/// anything.
pub(super) fn first_bytes(stream: &mut ByteStream<'_>) -> Result<[Option<u8>; 2], Error> {
    loop {
        let rows = stream.buffered().split(|byte| *byte == b'\n').filter(|line| !is_comment(line));
        let mut bytes = rows.flatten().filter(|byte| !byte.is_ascii_whitespace()).copied();
        let first = [bytes.next(), bytes.next()];
        if first[1].is_some() || stream.ended() || stream.full() {
            return Ok(first);
        }
        stream.fill_row()?;
    }
}

/// The columns that a line has if it is cut there. What stands in double quotes is not cut.
fn count_columns(line: &[u8], separator: u8) -> usize {
    if separator == b' ' {
        return words(line, Some(b'"'), true).count();
    }
    if separator == b'\t' {
        return 1 + memchr::memchr_iter(separator, line).count();
    }
    let mut quoted = false;
    let cuts = line.iter().filter(|byte| {
        quoted ^= **byte == b'"';
        **byte == separator && !quoted
    });
    1 + cuts.count()
}

/// Every comma stands between digits.
fn has_decimal_commas(lines: &[&[u8]]) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    lines.iter().all(|line| {
        memchr::memchr_iter(b',', line)
            .all(|at| at > 0 && is_digit(line.get(at - 1)) && is_digit(line.get(at + 1)))
    })
}

/// What separates the columns of these rows, of which `least` are wanted: what gives each row the
/// same number of columns. A comma if nothing does.
pub(super) fn separator_of(lines: &[&[u8]], least: usize) -> u8 {
    let counts: Vec<Vec<usize>> = SEPARATORS
        .iter()
        .map(|separator| lines.iter().map(|line| count_columns(line.trim_ascii_end(), *separator)).collect())
        .collect();
    let most_of = |index: usize| counts[index].iter().max().copied().unwrap_or(1);
    let is_constant =
        |index: usize| most_of(index) > 1 && counts[index].iter().all(|count| *count == most_of(index));
    let at = |separator| SEPARATORS.iter().position(|known| *known == separator).expect("it is listed");
    let [tab, comma, semicolon, bar, space] = [b'\t', b',', b';', b'|', b' '].map(at);
    if is_constant(tab) {
        return b'\t';
    }
    if is_constant(semicolon) && is_constant(comma) && has_decimal_commas(lines) {
        return b';';
    }
    // The first of those with the most columns. Spaces also stand inside columns.
    let constant = [bar, semicolon, comma].into_iter().filter(|index| is_constant(*index));
    if let Some(index) = constant.max_by_key(|index| most_of(*index)) {
        return SEPARATORS[index];
    }
    if is_constant(space) {
        return b' ';
    }
    // Rows of different lengths: the separator that agrees with itself most often.
    let agreement = |index: usize| {
        let enough = counts[index].iter().filter(|count| **count > 1 && **count >= least);
        let mut kinds = std::collections::HashMap::new();
        enough.for_each(|count| *kinds.entry(*count).or_insert(0usize) += 1);
        kinds.into_values().max().unwrap_or(0)
    };
    let best = [space, bar, semicolon, comma, tab].into_iter().max_by_key(|index| agreement(*index));
    let best = best.filter(|index| agreement(*index) > 0).unwrap_or(comma);
    let some_have_none = counts[best].contains(&1) && most_of(best) > 1;
    // A quote that begins a line is one of CSV.
    let some_have_none = some_have_none && !lines.iter().any(|line| line.starts_with(b"\""));
    // Where only the first column is wanted, whole lines are the reading that all rows agree on.
    if least == 1 && some_have_none { WHOLE_LINES } else { SEPARATORS[best] }
}

/// The columns of one record, white space around each taken off.
pub(super) fn split(record: &[u8], separator: u8) -> Vec<Vec<u8>> {
    split_quoted(record, separator, quote_of(separator, None))
}

fn split_quoted(record: &[u8], separator: u8, quote: Option<u8>) -> Vec<Vec<u8>> {
    if separator == b' ' {
        return words(record, quote, true).map(<[u8]>::to_vec).collect();
    }
    let Some(quote) = quote else {
        return record.split(|byte| *byte == separator).map(|column| column.trim_ascii().to_vec()).collect();
    };
    let mut quoted = Quoted::new(separator, quote);
    quoted.record(record, true);
    (0..quoted.columns).map(|column| quoted.column(column).to_vec()).collect()
}

/// What quotes are, if they are anything: between commas and between spaces, unless asked for.
fn quote_of(separator: u8, asked: Option<Quote>) -> Option<u8> {
    match asked {
        Some(Quote::Off) => None,
        Some(Quote::Mark(quote)) => Some(quote),
        None => matches!(separator, b',' | b' ').then_some(b'"'),
    }
}

/// The columns between spaces and tabs. What begins with a quote or a bracket, and has its partner
/// before a space, is one column; quotes are taken off, and brackets are not.
fn words(line: &[u8], quote: Option<u8>, brackets: bool) -> impl Iterator<Item = &[u8]> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !is_space(byte))?;
        rest = &rest[start..];
        let closed = quote.and_then(|quote| {
            let partner = match rest[0] {
                b'[' if brackets => b']',
                first if first == quote => quote,
                _ => return None,
            };
            memchr::memchr_iter(partner, rest).find(|end| {
                let is_escaped = partner == quote && rest[*end - usize::from(*end > 0)] == b'\\';
                *end > 0 && !is_escaped && rest.get(end + 1).is_none_or(is_space)
            })
        });
        let word = match closed {
            Some(end) if rest[0] == b'[' => (&rest[..=end], end + 1),
            Some(end) => (&rest[1..end], end + 1),
            None => {
                let end = rest.iter().position(is_space).unwrap_or(rest.len());
                (&rest[..end], end)
            }
        };
        rest = &rest[word.1..];
        Some(word.0)
    })
}

/// Records with quotes.
struct Quoted {
    reader: Reader,
    output: Vec<u8>,
    ends: Vec<usize>,
    columns: usize,
}

/// What became of a record with quotes.
enum Found {
    /// It has this many bytes.
    Record(usize),
    /// Its end is not there yet.
    Cut,
    /// Its end never comes.
    Open,
    TooManyColumns,
}

impl Quoted {
    fn new(separator: u8, quote: u8) -> Self {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(separator).quote(quote).terminator(Terminator::Any(b'\n'));
        Self { reader: builder.build(), output: Vec::new(), ends: vec![0; MOST_COLUMNS], columns: 0 }
    }

    /// The record at the beginning of `bytes`; `ended` if nothing comes after them.
    fn record(&mut self, bytes: &[u8], ended: bool) -> Found {
        // A record is not longer than its text, and a newline.
        if self.output.len() <= bytes.len() {
            self.output.resize(bytes.len() + 1, 0);
        }
        self.reader.reset();
        let (mut result, taken, written, mut ends) =
            self.reader.read_record(bytes, &mut self.output, &mut self.ends);
        if matches!(result, ReadRecordResult::InputEmpty) && ended {
            // A newline ends the record, unless it stands in quotes.
            let (output, more) = (&mut self.output[written..], &mut self.ends[ends..]);
            let (last, _, _, ended) = self.reader.read_record(b"\n", output, more);
            if matches!(last, ReadRecordResult::InputEmpty) {
                return Found::Open;
            }
            (result, ends) = (last, ends + ended);
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
                if found.is_none() && column.optional {
                    continue;
                }
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

/// The wanted columns of a row, and how many columns the row has.
struct Cut<'a> {
    row: Row<'a>,
    columns: usize,
}

/// The wanted columns of a line without quotes.
#[inline]
fn cut<'a>(line: &'a [u8], dialect: &Dialect, wanted: &Wanted) -> Cut<'a> {
    let Dialect { separator, quote, brackets } = *dialect;
    let mut row = [Value::Absent; ROLES];
    let mut next = 0;
    let mut take = |index: usize, column: &'a [u8]| {
        while let Some((_, role)) = wanted.get(next).filter(|(wanted, _)| *wanted == index) {
            row[*role] = Value::Text(column.trim_ascii());
            next += 1;
        }
    };
    let mut columns = 0;
    if separator == b' ' {
        for word in words(line, quote, brackets) {
            take(columns, word);
            columns += 1;
        }
    } else {
        let mut start = 0;
        for end in memchr::memchr_iter(separator, line) {
            take(columns, &line[start..end]);
            (columns, start) = (columns + 1, end + 1);
        }
        take(columns, &line[start..]);
        columns += 1;
    }
    Cut { row, columns }
}

/// What is known of a log's rows, and what has been noticed.
#[derive(Default)]
pub(super) struct Layout {
    /// What the columns are called, and the text of that row.
    header: Option<(Vec<Vec<u8>>, Vec<u8>)>,
    places: Wanted,
    /// Fewest and most columns of a row, and what is between them.
    widths: Option<(usize, usize, u8)>,
    /// Nobody said what separates columns.
    guessed: bool,
}

impl Layout {
    /// What there is to say about the rows.
    pub(super) fn note(&self, columns: &Columns) -> Option<String> {
        let (least, most, separator) = self.widths?;
        let only_first = columns.columns.iter().all(|column| column.place == Place::Number(1));
        let name = separator_name(separator);
        if separator == WHOLE_LINES {
            self.guessed.then(|| {
                "whole lines are keys, because not all of them have columns (--separator says otherwise)"
                    .into()
            })
        } else if least < most {
            Some(format!("rows have {least} to {most} columns, split at {name}"))
        } else if self.guessed && only_first && most > 1 {
            Some(format!("rows have {most} columns, split at {name} (--separator none takes whole lines)"))
        } else {
            None
        }
    }

    fn width(&mut self, columns: usize, separator: u8) {
        let (least, most, _) = self.widths.unwrap_or((columns, columns, separator));
        self.widths = Some((least.min(columns), most.max(columns), separator));
    }

    /// Takes the header of a file. Refused if a column that is named is not there.
    fn take_header(&mut self, columns: &Columns, names: Vec<Vec<u8>>, text: &[u8]) -> Result<(), String> {
        self.places = wanted(columns, Some(&names))?;
        self.header = Some((names, text.trim_ascii().to_vec()));
        Ok(())
    }

    /// Whether the wanted columns of a row hold their own names.
    #[inline]
    fn is_header(&self, row: &Row<'_>) -> bool {
        let Some((names, _)) = &self.header else { return false };
        let holds_its_name = |(index, role): &(usize, usize)| match row[*role] {
            Value::Text(text) => names.get(*index).is_some_and(|name| text == name),
            _ => false,
        };
        // One value alone may be a key that is called like its column.
        self.places.len() > 1 && self.places.iter().all(holds_its_name)
    }
}

fn separator_name(separator: u8) -> String {
    match separator {
        b'\t' => "tabs".into(),
        b' ' => "spaces".into(),
        other => format!("'{}'", other.escape_ascii()),
    }
}

/// How the rows of a member are cut.
struct Dialect {
    separator: u8,
    quote: Option<u8>,
    /// Between spaces, what stands in brackets is one column.
    brackets: bool,
}

/// Whether rows between spaces have the columns that are wanted if what stands in brackets is one
/// column. If they have them only otherwise, it was counted as several.
fn has_brackets(stream: &mut ByteStream<'_>, quote: Option<u8>, least: usize) -> Result<bool, Error> {
    let rows = first_rows(stream)?;
    let have = |brackets| rows.iter().all(|row| words(row, quote, brackets).count() >= least);
    Ok(have(true) || !have(false))
}

impl Dialect {
    fn of(stream: &mut ByteStream<'_>, columns: &Columns) -> Result<Self, Error> {
        let numbers = columns.columns.iter().map(|column| match column.place {
            Place::Number(number) => number,
            _ => 2,
        });
        let least = numbers.max().unwrap_or(1);
        let rows = first_rows(stream)?;
        let said = rows.first().and_then(|row| said(row));
        let separator = match columns.separator.or(said) {
            Some(separator) => separator,
            None => separator_of(&rows, least),
        };
        let quote = quote_of(separator, columns.quote);
        Ok(Self { separator, quote, brackets: separator != b' ' || has_brackets(stream, quote, least)? })
    }

    /// A line with `#` before the names of the columns, as W3C's logs and some data sets have it.
    fn names(&self, comment: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let text = comment.trim_ascii().trim_ascii_start();
        let text = text.strip_prefix(b"#").unwrap_or(text);
        let text = text.trim_ascii_start();
        let text = text.strip_prefix(b"Fields:").unwrap_or(text).trim_ascii();
        vec![split_quoted(text, self.separator, self.quote), split_quoted(text, b' ', None)]
    }
}

/// The end of a row at the beginning of `bytes`.
enum End {
    /// A row without a quote: its length without the newline, and with it. The last row may have no
    /// newline.
    Plain(usize, usize),
    /// A row of this many bytes, whose columns are in [`Quoted`].
    Quoted(usize),
    /// It has not arrived.
    Cut,
}

fn end_of(bytes: &[u8], ended: bool, quoted: Option<&mut Quoted>, quote: u8) -> Result<End, &'static str> {
    let Some(quoted) = quoted.filter(|_| !is_comment(bytes)) else {
        return Ok(match memchr::memchr(b'\n', bytes) {
            Some(length) => End::Plain(length, length + 1),
            None if ended => End::Plain(bytes.len(), bytes.len()),
            None => End::Cut,
        });
    };
    match memchr::memchr2(quote, b'\n', bytes) {
        Some(length) if bytes[length] == b'\n' => Ok(End::Plain(length, length + 1)),
        None if ended => Ok(End::Plain(bytes.len(), bytes.len())),
        None => Ok(End::Cut),
        Some(_) => match quoted.record(bytes, ended) {
            Found::Record(length) => Ok(End::Quoted(length)),
            Found::Cut => Ok(End::Cut),
            Found::Open => Err("a quote that is not closed (--quote off: quotes mean nothing)"),
            Found::TooManyColumns => Err("too many columns"),
        },
    }
}

/// Reads the member's rows into `requests`.
pub(super) fn read_member<S: Sink>(
    stream: &mut ByteStream<'_>,
    columns: &Columns,
    layout: &mut Layout,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let dialect = Dialect::of(stream, columns)?;
    let separator = dialect.separator;
    let mut quoted = dialect.quote.filter(|_| separator != b' ' && separator != WHOLE_LINES);
    let quote = quoted.take();
    let mut quoted = quote.map(|quote| Quoted::new(separator, quote));
    layout.guessed |= columns.separator.is_none();
    if !columns.has_header() {
        layout.places = wanted(columns, None).map_err(Error::columns)?;
    }
    let mut reader = Rows { columns, dialect, layout, requests, is_first: true };
    loop {
        let (bytes, ended) = (stream.buffered(), stream.ended());
        let (mut start, mut line, mut rows) = (0, stream.line, 0);
        // Records that are whole.
        while start < bytes.len() {
            let rest = &bytes[start..];
            let at = stream.offset() + start as u64;
            let (plain, length) = match end_of(rest, ended, quoted.as_mut(), quote.unwrap_or(b'"')) {
                Ok(End::Plain(plain, length)) => (Some(&rest[..plain]), length),
                Ok(End::Quoted(length)) => (None, length),
                Ok(End::Cut) => break,
                Err(reason) => return Err(wrong(line + 1, at, reason.into(), rest)),
            };
            let record = &rest[..length];
            let taken = match (plain, &quoted) {
                (Some(plain), _) => reader.plain(plain, stream),
                (None, Some(quoted)) => reader.quoted(record, quoted, stream),
                (None, None) => unreachable!("only a row with quotes is not plain"),
            };
            if let Err(refused) = taken {
                let error = refuse(line + 1, at, refused, record, columns.has_header());
                stream.intake.borrow_mut().refuse(error)?;
            }
            rows += 1;
            line +=
                if plain.is_some() { 1 } else { memchr::memchr_iter(b'\n', record).count().max(1) as u64 };
            start += length;
        }
        stream.consume(start);
        stream.line = line;
        stream.intake.borrow_mut().rows += rows;
        let (records, instructions) = reader.requests.counts();
        progress(Progress { bytes: stream.taken(), records, instructions });
        if stream.ended() && stream.buffered().is_empty() {
            return Ok(());
        }
        if stream.full() {
            return Err(wrong(line + 1, stream.offset(), TOO_LONG.into(), stream.buffered()));
        }
        stream.fill_row()?;
    }
}

/// Takes the rows of a member.
struct Rows<'a, 'b, S> {
    columns: &'a Columns,
    dialect: Dialect,
    layout: &'a mut Layout,
    requests: &'a mut Requests<'b, S>,
    /// No row of the member has been taken.
    is_first: bool,
}

impl<S: Sink> Rows<'_, '_, S> {
    fn plain(&mut self, line: &[u8], stream: &ByteStream<'_>) -> Result<(), Refused> {
        let line = line.strip_prefix(MARK).unwrap_or(line);
        match line.trim_ascii_start().first() {
            None => return Ok(()),
            Some(b'#') => {
                self.comment(line);
                stream.intake.borrow_mut().comments += 1;
                return Ok(());
            }
            Some(_) if self.is_first && said(line).is_some() => return Ok(()),
            Some(_) => {}
        }
        if self.takes_header(line, stream)? {
            return Ok(());
        }
        let cut = cut(line, &self.dialect, &self.layout.places);
        self.row(cut, line, stream)
    }

    fn quoted(&mut self, record: &[u8], quoted: &Quoted, stream: &ByteStream<'_>) -> Result<(), Refused> {
        if self.takes_header(record, stream)? {
            return Ok(());
        }
        let mut row = [Value::Absent; ROLES];
        for (index, role) in self.layout.places.iter().filter(|(index, _)| *index < quoted.columns) {
            row[*role] = Value::Text(quoted.column(*index));
        }
        self.row(Cut { row, columns: quoted.columns }, record, stream)
    }

    /// Some logs have the names of their columns in a comment.
    fn comment(&mut self, line: &[u8]) {
        if self.is_first {
            for names in self.dialect.names(line) {
                if self.columns.any_named(&names)
                    && self.layout.take_header(self.columns, names, line).is_ok()
                {
                    self.is_first = false;
                    break;
                }
            }
        }
    }

    /// Whether a row has the names of the columns: the first one of a log that has them, and the
    /// same text again wherever it stands.
    fn takes_header(&mut self, record: &[u8], stream: &ByteStream<'_>) -> Result<bool, Error> {
        let is_first = std::mem::take(&mut self.is_first);
        let text = record.trim_ascii();
        let names = || split_quoted(text, self.dialect.separator, self.dialect.quote);
        match &self.layout.header {
            None if self.columns.has_header() => {
                let names = names();
                self.layout.take_header(self.columns, names, text).map_err(Error::columns)?;
            }
            Some((_, header)) if text == header => stream.intake.borrow_mut().headers += 1,
            // A file of an archive may have the same columns in another order.
            Some(_) if is_first => {
                let names = names();
                let by_name = |column: &super::description::Column| matches!(column.place, Place::Name(_));
                let is_header = self.columns.columns.iter().all(by_name)
                    && self.layout.take_header(self.columns, names, text).is_ok();
                return Ok(is_header);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn row(&mut self, cut: Cut<'_>, record: &[u8], stream: &ByteStream<'_>) -> Result<(), Refused> {
        let Cut { row, columns } = cut;
        if self.layout.is_header(&row) {
            stream.intake.borrow_mut().headers += 1;
            let names = split_quoted(record.trim_ascii(), self.dialect.separator, self.dialect.quote);
            self.layout.take_header(self.columns, names, record).map_err(Error::columns)?;
            return Ok(());
        }
        for role in [Role::Key, Role::Tenant, Role::Part] {
            if let Value::Text(text) = row[role as usize] {
                check_text(text)?;
            }
        }
        if self.layout.places.last().is_some_and(|(index, _)| *index >= columns)
            && !self.requests.needs_no_size(&row, &self.layout.places, columns)?
        {
            return Err(FEWER.into());
        }
        self.requests.row(&row)?;
        self.layout.width(columns, self.dialect.separator);
        Ok(())
    }
}

/// What no key, no part and no tenant of a text has.
#[inline]
fn check_text(text: &[u8]) -> Result<(), Refused> {
    if memchr::memchr2(0, b'\r', text).is_some() {
        return Err("a NUL byte or a carriage return within a row".into());
    }
    if str::from_utf8(text).is_err() {
        return Err("text that is not UTF-8 (`iconv -f latin1 -t utf-8` converts Latin-1)".into());
    }
    Ok(())
}

/// Why a row is refused. What is wrong with the first one may be that it is none.
fn refuse(line: u64, offset: u64, refused: Refused, record: &[u8], has_header: bool) -> Error {
    let mut error = wrong(line, offset, refused, record);
    if !has_header && let Error::Line { line: 1, reason, .. } = &mut error {
        *reason.to_mut() += " (if the line has the names of the columns: --header)";
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_gives_each_row_the_same_number_of_columns() {
        for (line, separator) in [
            ("a,b,c", b','),
            ("a\tb, c\td", b'\t'),
            ("a;b;\"c,d,e,f\"", b';'),
            ("a b  c", b' '),
            ("a b,c d", b','),
            ("a", b','),
            ("a|b", b'|'),
        ] {
            assert_eq!(separator_of(&[line.as_bytes()], 2), separator, "{line}");
        }
        for (lines, least, separator) in [
            ("a,b\t1\na,c\t2", 1, b'\t'),
            ("a;1,5\na;2,5", 2, b';'),
            ("a;b,1\na;c,2", 2, b','),
            ("/a,1 7\n/b 8", 1, b' '),
            ("http://h/a\nhttp://h/b,c", 1, WHOLE_LINES),
            ("a,b\nc", 2, b','),
            ("a,b,c\nd,e,f\ng,h", 2, b','),
            ("x [a, b] \"c, d\" 1\ny [e] \"f\" 2", 1, b' '),
            ("1|a,b|c\n2|d|e", 2, b'|'),
        ] {
            let lines: Vec<_> = lines.lines().map(str::as_bytes).collect();
            assert_eq!(separator_of(&lines, least), separator, "{lines:?}");
        }
    }

    #[test]
    fn quotes_and_brackets_make_one_column_between_spaces() {
        for (line, expected) in [
            (r#"1.5 [0 ::1:6] "GET" "user 1""#, &["1.5", "[0 ::1:6]", "GET", "user 1"][..]),
            (r#"a "say \"hi\" now" b"#, &["a", r#"say \"hi\" now"#, "b"]),
            (r#"a "open [x y"#, &["a", "\"open", "[x", "y"]),
            (r#"5" 6" -"#, &["5\"", "6\"", "-"]),
            (r#""" [] x"#, &["", "[]", "x"]),
        ] {
            let found: Vec<_> =
                words(line.as_bytes(), Some(b'"'), true).map(|word| str::from_utf8(word).unwrap()).collect();
            assert_eq!(found, expected, "{line}");
        }
        assert_eq!(words(b"a \"b c\"", None, true).count(), 3);
    }

    #[test]
    fn plain_lines_are_cut_as_csv_cuts_them() {
        for line in ["a,b,c", "a,,c", ",", "a", "a, b ,c\r", ",,,,", "x\r"] {
            let columns = split(line.as_bytes(), b',');
            for (index, column) in columns.iter().enumerate() {
                let dialect = Dialect { separator: b',', quote: None, brackets: true };
                let cut = cut(line.as_bytes(), &dialect, &vec![(index, 0)]);
                assert_eq!(cut.row[0], Value::Text(column), "{line:?} {index}");
                assert_eq!(cut.columns, columns.len(), "{line:?}");
            }
        }
    }
}
