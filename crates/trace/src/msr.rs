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

use crate::bytes::ByteStream;
use crate::disks::{Action, Disk, Request, Requests, Time};
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused, decimal};
use crate::{Error, Sink};

/// The names of the columns, where a file has them.
const NAMES: &[u8] = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size";

/// Whether a line has the names of the columns.
fn is_names(line: &[u8]) -> bool {
    line.trim_ascii().get(..NAMES.len()).is_some_and(|names| names.eq_ignore_ascii_case(NAMES))
}

struct Msr<'r, 'a, S> {
    requests: &'r mut Requests<'a, S>,
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
    let mut requests = Requests::new(sink);
    read_requests(stream, &mut requests, progress)?;
    finish(requests)
}

/// Reads a stream into `requests`.
pub(crate) fn read_requests<S: Sink>(
    stream: ByteStream<'_>,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    lines::read(stream, &mut Msr { requests }, progress)
}

/// What has been read.
pub(crate) fn finish<S: Sink>(requests: Requests<'_, S>) -> Result<Imported, Error> {
    requests.imported("an MSR trace", "msr")
}

impl<S: Sink> Lines for Msr<'_, '_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.trim_ascii().is_empty() || is_names(line) {
            return Ok(());
        }
        self.requests.take(&parse(line)?)
    }

    fn counts(&self) -> (u64, u64) {
        self.requests.counts()
    }
}

/// A number, maybe with a fraction or an exponent.
fn number(text: &[u8]) -> Option<f64> {
    let number = str::from_utf8(text).ok()?.parse::<f64>().ok()?;
    Some(number).filter(|number| number.is_finite() && *number >= 0.0)
}

/// The beginning of the year 2000, in units of 100 ns: a double tells all moments apart that are
/// within 28 years of it.
const ORIGIN: i64 = 125_911_584_000_000_000;

/// A time, in units of 100 ns.
fn time(text: &[u8]) -> Option<Time> {
    let time = decimal(text).or_else(|| number(text).map(|number| number as u64))?;
    let time = i64::try_from(time).unwrap_or(i64::MAX);
    Some(Time { moment: time.saturating_sub(ORIGIN) as f64, milliseconds: time / 10_000 })
}

fn parse(line: &[u8]) -> Result<Request<'_>, &'static str> {
    let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut field = || fields.next().filter(|field| !field.is_empty()).ok_or("not seven fields, as MSR has");
    let [at, _host, disk, kind, offset, bytes] = [field()?, field()?, field()?, field()?, field()?, field()?];
    let response = fields.next();
    if fields.next().is_some() {
        return Err("more than seven fields");
    }
    let time = time(at).ok_or("not a time in the first field")?;
    decimal(disk).ok_or("not the number of a disk in the third field")?;
    response
        .is_none_or(|response| number(response).is_some())
        .then_some(())
        .ok_or("not a time in the seventh field")?;
    let mut commas = (0..line.len()).filter(|at| line[*at] == b',');
    let [before_host, _, after_disk] = [(); 3].map(|()| commas.next().expect("seven fields"));
    Ok(Request {
        time: Some(time),
        // Host and number, with the comma between.
        disk: Disk::Name(&line[before_host + 1..after_disk]),
        action: match kind {
            kind if kind.eq_ignore_ascii_case(b"read") => Action::Read,
            kind if kind.eq_ignore_ascii_case(b"write") => Action::Write,
            _ => return Err("neither Read nor Write in the fourth field"),
        },
        offset: decimal(offset).ok_or("not an offset in the fifth field")?,
        bytes: decimal(bytes).ok_or("not a number of bytes in the sixth field")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_units_of_100_ns() {
        let time = time(b"128166372003061629").unwrap();
        assert_eq!(time.milliseconds, 12_816_637_200_306);
        assert_eq!(time.moment, 2_254_788_003_061_629.0);
        let request = parse(b"128166372003061629,usr,0,Read,7014609920,24576,41286").unwrap();
        assert_eq!(request.time.unwrap().milliseconds, time.milliseconds);
    }

    #[test]
    fn a_disk_is_named_by_host_and_number() {
        let request = parse(b"128166372003061629,usr, 0,Read,7014609920,24576,41286").unwrap();
        assert!(matches!(request.disk, Disk::Name(b"usr, 0")));
    }
}
