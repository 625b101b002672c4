//! SPC: traces of disks in the format of the Storage Performance Council, such as Financial1 and
//! WebSearch1.
//!
//! ```text
//! 0,20941264,8192,W,0.551706,...
//! ```
//!
//! A line is a request: application-specific unit (a disk), logical block address, size in bytes,
//! `R` or `W` in either case, time in seconds; further fields are optional, as is white space
//! around a field. Blocks have 512 bytes. Every page that a request covers is one reference; a
//! request of no bytes is none. Each unit has pages of its own, of 4 KiB. Times are kept in
//! milliseconds. (SPC Trace File Format Specification, revision 1.0.1, 2002, which leaves the block
//! size to the trace's description: all those in circulation have 512.)

use crate::bytes::ByteStream;
use crate::disks::{Action, Disk, Request, Requests, Time};
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused, decimal};
use crate::{Error, Sink};

const BLOCK_BYTES: u64 = 512;

struct Spc<'r, 'a, S> {
    requests: &'r mut Requests<'a, S>,
}

/// Whether a stream whose first line is this is SPC.
pub(crate) fn is(first_line: &[u8]) -> bool {
    parse(first_line).is_ok()
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
    lines::read(stream, &mut Spc { requests }, progress)
}

/// What has been read.
pub(crate) fn finish<S: Sink>(requests: Requests<'_, S>) -> Result<Imported, Error> {
    requests.imported("an SPC trace", "spc")
}

impl<S: Sink> Lines for Spc<'_, '_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.requests.take(&parse(line)?)
    }

    fn counts(&self) -> (u64, u64) {
        self.requests.counts()
    }
}

fn parse(line: &[u8]) -> Result<Request<'static>, &'static str> {
    let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut field =
        || fields.next().filter(|field| !field.is_empty()).ok_or("not unit,block,size,R or W,time");
    let [unit, block, bytes, opcode, time] = [field()?, field()?, field()?, field()?, field()?];
    if !time[0].is_ascii_digit() && time[0] != b'.' {
        return Err("not a time in the fifth field");
    }
    let seconds = str::from_utf8(time).ok().and_then(|time| time.parse::<f64>().ok());
    let block = decimal(block).ok_or("not a block in the second field")?;
    Ok(Request {
        time: seconds
            .map(|seconds| Time { moment: seconds, milliseconds: (seconds * 1000.0).round() as i64 }),
        disk: Disk::Number(decimal(unit).ok_or("not a unit in the first field")?),
        action: match opcode {
            b"R" | b"r" => Action::Read,
            b"W" | b"w" => Action::Write,
            _ => return Err("neither R nor W in the fourth field"),
        },
        offset: block.checked_mul(BLOCK_BYTES).ok_or("a block behind the end of any disk")?,
        bytes: decimal(bytes).ok_or("not a number of bytes in the third field")?,
    })
}
