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

use crate::accesses::{Accesses, Disks};
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused, decimal};
use crate::{Error, Sink};

const SECTOR_BYTES: u64 = 512;

/// Actions that each request goes through, and what a note says of them.
const STAGES: [(&[u8], &str); 3] =
    [(b"Q", "as they were queued"), (b"D", "as they were issued"), (b"C", "as they were completed")];

struct Blkparse<'a, S> {
    accesses: Accesses<'a, S>,
    /// The action that is taken, of [`STAGES`].
    stage: Option<usize>,
    devices: Disks,
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
    let accesses = Accesses::new(sink);
    let mut blkparse = Blkparse { accesses, stage: None, devices: Disks::default(), ended: false };
    lines::read(stream, &mut blkparse, progress)?;
    let page_size = blkparse.accesses.page_size();
    let end = blkparse.accesses.finish("blkparse's output")?;
    let notes = blkparse.stage.map(|stage| format!("requests {}", STAGES[stage].1)).into_iter().collect();
    Ok(Imported { end, page_size, source: "blkparse", notes, ..Imported::default() })
}

impl<S: Sink> Lines for Blkparse<'_, S> {
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
        let device = self.devices.number(event.device);
        self.accesses.time(event.milliseconds);
        match event.kind {
            [b'D', ..] => self.accesses.discard(device, offset, bytes),
            kind if kind.contains(&b'W') => self.accesses.request(device, offset, bytes, true),
            kind if kind.contains(&b'R') => self.accesses.request(device, offset, bytes, false),
            _ => Ok(()),
        }
    }

    fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }
}

struct Event<'a> {
    milliseconds: i64,
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
        let milliseconds = (seconds * 1000.0) as i64;
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
        Some(Self { milliseconds, device, action, kind, sectors })
    }
}
