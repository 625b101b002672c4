//! Several inputs as one: merged by time, or read one after another.

use crate::bytes::ByteStream;
use crate::columns::{Columns, KnownLog, Nowhere, Row, Several, Spool, have_times};
use crate::disks::Requests;
use crate::import::{Input, convert};
use crate::imported::{Imported, Progress};
use crate::reduce::Reducer;
use crate::{EndTotals, Error, Format, ImportOptions, Sink, Writer, blkparse, msr, spc};
use std::cell::RefCell;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The order in which the references of several inputs come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By time. Of references of the same moment, those of the input named first come first.
    ByTime,
    /// One input after another.
    OneAfterAnother,
}

/// Inputs that a note names; the rest are counted.
const NAMED: usize = 5;

/// Reads several inputs of one kind into `writer`, as [`import`](crate::import()) reads one.
/// `inputs` are their names, and `open` opens one.
///
/// # Errors
/// An input cannot be read, is of another kind than the first, or has no times to merge by.
pub fn import_several<'a, W: Write + Seek>(
    inputs: &[PathBuf],
    open: &dyn Fn(&Path) -> io::Result<Box<dyn Read + 'a>>,
    order: Order,
    writer: &mut Writer<W>,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<EndTotals, Error> {
    let mut imported = if options.window == 0 {
        read(inputs, open, order, writer, options, progress)?
    } else {
        let mut reducer = Reducer::new(writer, options.window);
        let mut imported = read(inputs, open, order, &mut reducer, options, progress)?;
        let counts = reducer.finish()?;
        imported.end.references.get_or_insert(counts.references);
        imported.end.runs.get_or_insert(counts.runs);
        imported.window = imported.window.max(options.window);
        imported
    };
    let mut names: Vec<_> = inputs.iter().take(NAMED).map(|name| name.display().to_string()).collect();
    if inputs.len() > NAMED {
        names.push(format!("{} more", inputs.len() - NAMED));
    }
    let how = if order == Order::ByTime { "merged by time" } else { "one after another" };
    imported.notes.push(format!("{} inputs, {how}: {}", inputs.len(), names.join(", ")));
    imported.describe(writer.metadata_mut(), &options.name);
    Ok(imported.end)
}

/// What all inputs are.
enum Kind {
    Columns(Columns),
    Format(Format),
}

fn read<'a>(
    inputs: &[PathBuf],
    open: &dyn Fn(&Path) -> io::Result<Box<dyn Read + 'a>>,
    order: Order,
    sink: &mut impl Sink,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut kind = None;
    let mut rows = Several::new()?;
    let mut notes = Vec::new();
    for name in inputs {
        let in_file = |error: Error| error.in_file(name);
        let input = Input::new(open(name).map_err(|error| in_file(error.into()))?).map_err(in_file)?;
        let columns = match (kind.take(), kind_of(&input, options).map_err(in_file)?) {
            (None | Some(Kind::Columns(_)), Kind::Columns(columns)) => columns,
            (None, Kind::Format(format)) => {
                let inputs = Inputs { names: inputs, open, format, options, first: Some(input) };
                return match order {
                    Order::ByTime => inputs.merge(sink, progress),
                    Order::OneAfterAnother => inputs.chain(sink, progress),
                };
            }
            _ => return Err(in_file(Error::unfit("is of another kind than the input before it".to_owned()))),
        };
        if order == Order::ByTime && !have_times(&columns) {
            return Err(in_file(no_times()));
        }
        let stream = input.stream();
        let intake = Rc::clone(&stream.intake);
        intake.borrow_mut().bad_rows = options.bad_rows;
        let kept = rows.keep(&columns, stream, progress);
        let mut said: Vec<String> =
            kept.map_err(|error| intake.borrow().locate(error, name))?.into_iter().collect();
        intake.borrow_mut().finish(&mut said, |error| error).map_err(in_file)?;
        notes.extend(said.into_iter().map(|note| format!("{}: {note}", name.display())));
        kind = Some(Kind::Columns(columns));
    }
    match kind {
        Some(Kind::Columns(columns)) => {
            let mut imported = rows.merge(&columns, order == Order::ByTime, sink, progress)?;
            imported.notes.extend(notes);
            Ok(imported)
        }
        _ => Err(Error::empty()),
    }
}

fn no_times() -> Error {
    let reason = "several inputs are merged by time, and this one has no column of times: name it, as in --columns \
                  time=1, or read one input after another with --in-order";
    Error::unfit(reason.to_owned())
}

fn kind_of(input: &Input<'_>, options: &ImportOptions) -> Result<Kind, Error> {
    if input.is_native() {
        return Err(Error::unfit(
            "is a trace already; only logs and traces of other formats are merged".to_owned(),
        ));
    }
    if let Some(columns) = &options.columns {
        return Ok(Kind::Columns(columns.clone()));
    }
    if let Some(format) = options.format {
        return Ok(Kind::Format(format));
    }
    match input.known_log().map(KnownLog::columns) {
        Some(columns) => Ok(Kind::Columns(columns)),
        None => Ok(Kind::Format(input.detect()?)),
    }
}

/// Formats of lines that go on from one file to the next: places, in memory or on disks, mean the
/// same in all of them.
const OF_LINES: [Format; 6] =
    [Format::Text, Format::Lackey, Format::Spc, Format::Msr, Format::Fio, Format::Blkparse];

/// Inputs of one format.
struct Inputs<'a, 'b> {
    names: &'b [PathBuf],
    open: &'b dyn Fn(&Path) -> io::Result<Box<dyn Read + 'a>>,
    format: Format,
    options: &'b ImportOptions,
    /// The first one, which has been opened already: a pipe can be opened once.
    first: Option<Input<'a>>,
}

impl<'a> Inputs<'a, '_> {
    /// Opens the next input, and checks that it is of the format.
    fn open(&mut self, name: &Path) -> Result<Input<'a>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let input = Input::new((self.open)(name)?)?;
        match kind_of(&input, self.options)? {
            Kind::Format(other) if other == self.format => Ok(input),
            _ => Err(Error::unfit("is of another kind than the first input".to_owned())),
        }
    }

    /// Merges inputs of a format that has times.
    fn merge(mut self, sink: &mut impl Sink, progress: &mut dyn FnMut(Progress)) -> Result<Imported, Error> {
        let (mut waiting, mut notes) = (Spool::new()?, Vec::new());
        for name in self.names {
            let in_file = |error: Error| error.in_file(name);
            let stream = self.open(name).map_err(in_file)?.stream();
            let intake = Rc::clone(&stream.intake);
            intake.borrow_mut().bad_rows = self.options.bad_rows;
            waiting.begin();
            let mut nowhere = Nowhere;
            let mut keep = |moment: f64, row: &Row<'_>| waiting.push(moment, row);
            let mut requests = Requests::new(&mut nowhere);
            requests.keep(&mut keep);
            let read = match self.format {
                Format::Spc => spc::read_requests(stream, &mut requests, progress).map(|()| None),
                Format::Msr => msr::read_requests(stream, &mut requests, progress).map(|()| None),
                Format::Blkparse => blkparse::read_requests(stream, &mut requests, progress),
                format => Err(not_merged(format)),
            };
            let note = read.map_err(|error| intake.borrow().locate(error, name))?;
            let mut said: Vec<String> = note.into_iter().collect();
            intake.borrow_mut().finish(&mut said, |error| error).map_err(in_file)?;
            notes.extend(said.into_iter().map(|note| format!("{}: {note}", name.display())));
        }
        let mut requests = Requests::new(sink);
        requests.take_merged(waiting)?;
        let imported = match self.format {
            Format::Spc => spc::finish(requests),
            Format::Msr => msr::finish(requests),
            _ => blkparse::finish(requests),
        };
        imported.map(|imported| Imported { notes, ..imported })
    }

    /// Reads inputs of lines as one stream.
    fn chain(mut self, sink: &mut impl Sink, progress: &mut dyn FnMut(Progress)) -> Result<Imported, Error> {
        let (names, format, bad_rows) = (self.names, self.format, self.options.bad_rows);
        if !OF_LINES.contains(&format) {
            return Err(not_one().in_file(&names[0]));
        }
        let begins = Rc::new(RefCell::new(Vec::new()));
        let chain = Chain {
            inputs: &mut self,
            now: None,
            begins: Rc::clone(&begins),
            lines: 0,
            bytes: 0,
            last: b'\n',
        };
        let stream = ByteStream::new(chain);
        let intake = Rc::clone(&stream.intake);
        intake.borrow_mut().bad_rows = bad_rows;
        let locate = |error: Error| {
            let begins = begins.borrow();
            let place = error.place();
            match begins.iter().rev().find(|begin: &&Begin| place.is_none_or(|place| begin.bytes <= place)) {
                Some(begin) => error.moved_back(begin.lines, begin.bytes).in_file(&names[begin.input]),
                None => error,
            }
        };
        let mut imported = convert(format, stream, sink, false, progress).map_err(locate)?;
        intake.borrow_mut().finish(&mut imported.notes, locate)?;
        Ok(imported)
    }
}

/// Why inputs of a format are not merged.
fn not_merged(format: Format) -> Error {
    match format {
        Format::Text => no_times(),
        _ if OF_LINES.contains(&format) => Error::unfit(
            "several inputs are merged by time, and none are read of this format: --in-order reads one input \
             after another"
                .to_owned(),
        ),
        _ => not_one(),
    }
}

fn not_one() -> Error {
    Error::unfit("several inputs of this format cannot be read as one; import them one by one".to_owned())
}

/// Where an input begins in a chain.
struct Begin {
    input: usize,
    lines: u64,
    bytes: u64,
}

/// Inputs behind each other, each from the beginning of a line.
struct Chain<'a, 'b, 'c> {
    inputs: &'c mut Inputs<'a, 'b>,
    /// What is being read.
    now: Option<ByteStream<'a>>,
    begins: Rc<RefCell<Vec<Begin>>>,
    /// Lines ended, and bytes given, so far.
    lines: u64,
    bytes: u64,
    last: u8,
}

impl Chain<'_, '_, '_> {
    /// Goes to the next member of the input, or else to the next input.
    fn next_member(&mut self) -> Result<(), Error> {
        if let Some(stream) = &mut self.now {
            if stream.next_member()? {
                return stream.begin_text();
            }
            self.now = None;
        }
        Ok(())
    }
}

impl Read for Chain<'_, '_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let given = match &mut self.now {
                Some(input) => input.read(buffer)?,
                None => {
                    let number = self.begins.borrow().len();
                    let Some(name) = self.inputs.names.get(number) else { return Ok(0) };
                    self.begins.borrow_mut().push(Begin {
                        input: number,
                        lines: self.lines,
                        bytes: self.bytes,
                    });
                    let mut stream = self.inputs.open(name).map_err(io::Error::other)?.stream();
                    stream.begin_text().map_err(io::Error::other)?;
                    self.now = Some(stream);
                    continue;
                }
            };
            let given = match given {
                0 if self.last == b'\n' => {
                    self.next_member().map_err(io::Error::other)?;
                    continue;
                }
                // The last line of an input need not end.
                0 => {
                    buffer[0] = b'\n';
                    1
                }
                given => given,
            };
            self.lines += buffer[..given].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.bytes += given as u64;
            self.last = buffer[given - 1];
            return Ok(given);
        }
    }
}
