//! blkparse: what happens to requests for block devices, as blkparse prints it by default
//! (`blktrace -d /dev/sda -o - | blkparse -i -`).
//!
//! ```text
//!   8,0    0        2     0.000000000   697  Q  WS 800 + 8 [kjournald]
//!   8,0    0        3     0.000001000   697  D  WS 800 + 8 [kjournald]
//!   8,0    0        6     0.000003000   697  C  WS 800 + 8 [0]
//! CPU0 (8,0):
//!  Reads Queued:           3,       12KiB  Writes Queued:           1,        4KiB
//! ```
//!
//! Columns: device, processor, number, time, process, action, kind, first sector, sectors, program.
//! A request shows up several times: queued (Q), issued to the driver (D), completed (C). The first
//! of these actions that the input has is taken, and the others are not; a note says which.
//! Requests that are queued have not been merged yet.
//!
//! A kind with a W writes, one that begins with a D drops the contents, any other with an R reads;
//! flushes have no sectors. Sectors have 512 bytes. Every page that a request covers is one
//! reference. Each device has pages of its own, of 4 KiB. Times are kept in milliseconds. What
//! `blkparse -i FILE` says of its input is skipped, and so is the summary behind the events, also
//! where several outputs stand one behind the other. (blktrace 1.2.0, `blkparse.c` and
//! `blkparse_fmt.c`.)

use crate::bytes::ByteStream;
use crate::disks::{Action, Disk, Request, Requests, Time};
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused, decimal};
use crate::{Error, Sink};

const SECTOR_BYTES: u64 = 512;

/// Actions that each request goes through, and what a note says of them.
const STAGES: [(&[u8], &str); 3] =
    [(b"Q", "as they were queued"), (b"D", "as they were issued"), (b"C", "as they were completed")];

struct Blkparse<'r, 'a, S> {
    requests: &'r mut Requests<'a, S>,
    /// The action that is taken, of [`STAGES`].
    stage: Option<usize>,
    /// The summary has begun, and no event has come since.
    ended: bool,
}

/// Whether a stream whose first line is this is the output of blkparse.
pub(crate) fn is(first_line: &[u8]) -> bool {
    Event::parse(first_line).is_some() || is_input(first_line.trim_ascii())
}

/// What blkparse says of a file that it reads.
fn is_input(line: &[u8]) -> bool {
    line.starts_with(b"Input file ") && line.ends_with(b" added")
}

/// Reads a stream into `sink`.
pub(crate) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut requests = Requests::new(sink);
    let note = read_requests(stream, &mut requests, progress)?;
    let imported = finish(requests)?;
    Ok(Imported { notes: note.into_iter().collect(), ..imported })
}

/// Reads a stream into `requests`. Says which action has been taken.
pub(crate) fn read_requests<S: Sink>(
    stream: ByteStream<'_>,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<String>, Error> {
    let mut blkparse = Blkparse { requests, stage: None, ended: false };
    lines::read(stream, &mut blkparse, progress)?;
    Ok(blkparse.stage.map(|stage| format!("requests {}", STAGES[stage].1)))
}

/// What has been read.
pub(crate) fn finish<S: Sink>(requests: Requests<'_, S>) -> Result<Imported, Error> {
    requests.imported("blkparse's output", "blkparse")
}

impl<S: Sink> Lines for Blkparse<'_, '_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let text = line.trim_ascii();
        self.ended |= text.starts_with(b"CPU") || text.starts_with(b"Total (");
        if text.is_empty() || is_input(text) {
            return Ok(());
        }
        let event = match Event::parse(line) {
            Some(event) => event,
            None if self.ended => return Ok(()),
            None => return Err("not an event as blkparse prints it".into()),
        };
        self.ended = false;
        let Some(stage) = STAGES.iter().position(|(action, _)| *action == event.action) else {
            return Ok(());
        };
        let Some((sector, sectors)) = event.sectors else { return Ok(()) };
        if *self.stage.get_or_insert(stage) != stage {
            return Ok(());
        }
        let offset = sector.checked_mul(SECTOR_BYTES).ok_or("a sector behind the end of any disk")?;
        let bytes = sectors.checked_mul(SECTOR_BYTES).ok_or("a request for 4 GiB or more")?;
        let action = match event.kind {
            [b'D', ..] => Action::Discard,
            kind if kind.contains(&b'W') => Action::Write,
            kind if kind.contains(&b'R') => Action::Read,
            _ => return Ok(()),
        };
        let (time, disk) = (Some(event.time), Disk::Name(event.device));
        self.requests.take(&Request { time, disk, action, offset, bytes })
    }

    fn counts(&self) -> (u64, u64) {
        self.requests.counts()
    }
}

struct Event<'a> {
    time: Time,
    device: &'a [u8],
    action: &'a [u8],
    kind: &'a [u8],
    /// First sector, and how many.
    sectors: Option<(u64, u64)>,
}

impl<'a> Event<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let device = words.next()?;
        let comma = device.iter().position(|byte| *byte == b',')?;
        let is_device = decimal(&device[..comma]).is_some() && decimal(&device[comma + 1..]).is_some();
        let numbers = [decimal(words.next()?), decimal(words.next()?)];
        let time = words.next()?;
        let point = time.iter().position(|byte| *byte == b'.')?;
        let is_time = decimal(&time[..point]).is_some() && decimal(&time[point + 1..]).is_some();
        let seconds: f64 = str::from_utf8(time).ok()?.parse().ok()?;
        let at = Time { moment: seconds, milliseconds: (seconds * 1000.0) as i64 };
        decimal(words.next()?)?;
        if !is_device || !is_time || numbers.contains(&None) {
            return None;
        }
        // A message has no kind, and many events have no sectors.
        let (action, kind) = (words.next()?, words.next().unwrap_or_default());
        let sectors = match (words.next().and_then(decimal), words.next(), words.next().and_then(decimal)) {
            (Some(sector), Some(b"+"), Some(sectors)) => Some((sector, sectors)),
            _ => None,
        };
        Some(Self { time: at, device, action, kind, sectors })
    }
}
