//! MSR: the traces of disks in servers of Microsoft Research Cambridge (Narayanan, Donnelly,
//! Rowstron, *Write Off-Loading*, FAST 2008).
//!
//! ```text
//! 128166372003061629,hm,0,Read,383496192,32768,331
//! ```
//!
//! A line is a request: time (Windows file time), host, disk number, `Read` or `Write`, offset in
//! bytes, size in bytes, response time. Every page that a request covers is one reference; a
//! request of no bytes is none. Each disk of each host has pages of its own, of 4 KiB. Times are
//! kept in milliseconds; they may have a fraction or an exponent, and the response time may be
//! missing. Lines with the names of the columns are skipped. (README of the distribution at SNIA
//! IOTTA, set 388.)

use crate::accesses::{Accesses, Disks};
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused, decimal};
use crate::{Error, Sink};

/// The names of the columns, where a file has them.
const NAMES: &[u8] = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size";

/// Whether a line has the names of the columns.
fn is_names(line: &[u8]) -> bool {
    line.trim_ascii().get(..NAMES.len()).is_some_and(|names| names.eq_ignore_ascii_case(NAMES))
}

struct Msr<'a, S> {
    accesses: Accesses<'a, S>,
    /// Named `host,disk`.
    disks: Disks,
}

/// Whether a stream whose first line is this is MSR.
pub(crate) fn is(first_line: &[u8]) -> bool {
    is_names(first_line) || parse(first_line).is_ok()
}

/// Reads a stream into `sink`.
pub(crate) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut msr = Msr { accesses: Accesses::new(sink), disks: Disks::default() };
    lines::read(stream, &mut msr, progress)?;
    let page_size = msr.accesses.page_size();
    let end = msr.accesses.finish("an MSR trace")?;
    Ok(Imported { end, page_size, source: "msr", ..Imported::default() })
}

impl<S: Sink> Lines for Msr<'_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.trim_ascii().is_empty() || is_names(line) {
            return Ok(());
        }
        let Request { time, disk, write, offset, bytes } = parse(line)?;
        self.accesses.time((time / 10_000) as i64);
        let number = self.disks.number(disk);
        self.accesses.request(number, offset, bytes, write)
    }

    fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }
}

/// A number, maybe with a fraction or an exponent.
fn number(text: &[u8]) -> Option<f64> {
    let number = str::from_utf8(text).ok()?.parse::<f64>().ok()?;
    Some(number).filter(|number| number.is_finite() && *number >= 0.0)
}

struct Request<'a> {
    /// In units of 100 ns.
    time: u64,
    /// Host and number, with the comma between.
    disk: &'a [u8],
    write: bool,
    offset: u64,
    bytes: u64,
}

fn parse(line: &[u8]) -> Result<Request<'_>, &'static str> {
    let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut field = || fields.next().filter(|field| !field.is_empty()).ok_or("not seven fields, as MSR has");
    let [time, _host, disk, kind, offset, bytes] =
        [field()?, field()?, field()?, field()?, field()?, field()?];
    let response = fields.next();
    if fields.next().is_some() {
        return Err("more than seven fields");
    }
    let time = number(time).ok_or("not a time in the first field")? as u64;
    decimal(disk).ok_or("not the number of a disk in the third field")?;
    response
        .is_none_or(|response| number(response).is_some())
        .then_some(())
        .ok_or("not a time in the seventh field")?;
    let mut commas = (0..line.len()).filter(|at| line[*at] == b',');
    let [before_host, _, after_disk] = [(); 3].map(|()| commas.next().expect("seven fields"));
    Ok(Request {
        time,
        disk: &line[before_host + 1..after_disk],
        write: match kind {
            kind if kind.eq_ignore_ascii_case(b"read") => false,
            kind if kind.eq_ignore_ascii_case(b"write") => true,
            _ => return Err("neither Read nor Write in the fourth field"),
        },
        offset: decimal(offset).ok_or("not an offset in the fifth field")?,
        bytes: decimal(bytes).ok_or("not a number of bytes in the sixth field")?,
    })
}
