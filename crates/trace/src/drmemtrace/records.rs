//! The records of a drmemtrace trace, as DynamoRIO stores them for offline analysis:
//! `DIR/trace/drmemtrace.*.trace.zip` (chunks of one stream), `.trace.gz` or `.trace.lz4`.
//!
//! A record is 12 bytes, little endian:
//!
//! | bytes | what |
//! |-------|------|
//! | 0..2  | type |
//! | 2..4  | length of the access or of the instruction; of a marker, its kind |
//! | 4..12 | address; of a thread or process, its number; of a marker, its value |
//!
//! The first record is a header with the version, the last one a footer; a stream without a footer
//! is cut off. An instruction stands before its accesses. One of no bytes only says where the
//! accesses behind it are made. One that is not fetched (the later rounds of a `rep movs`) touches
//! no page, and is not counted. A file has one thread, or what one core executed. Programs of 32
//! bits have records of 8 bytes, and are refused. (DynamoRIO 11.91,
//! `clients/drcachesim/common/trace_entry.h` and `reader/reader.cpp`.)

use crate::accesses::Accesses;
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::Refused;
use crate::{Error, Sink};

/// Bytes of a record.
pub(super) const RECORD: usize = 12;

/// Types of records (`trace_type_t`).
const READ: u16 = 0;
const WRITE: u16 = 1;
const INSTRUCTION: u16 = 10;
const RETURN: u16 = 16;
const BUNDLE: u16 = 17;
const PROCESS: u16 = 24;
const HEADER: u16 = 25;
const FOOTER: u16 = 26;
const MARKER: u16 = 28;
const NOT_FETCHED: u16 = 29;
const MAYBE_FETCHED: u16 = 30;
const SYSENTER: u16 = 31;
const TAKEN_JUMP: u16 = 48;
const UNTAKEN_JUMP: u16 = 49;
/// The types below are known.
const TYPES: u16 = 50;

/// The marker with the size of a page (`trace_marker_type_t`).
const PAGE_SIZE: u16 = 18;

/// Versions of the format are small numbers: the header tells the format from other bytes.
const MOST_VERSION: u64 = 1 << 10;

/// A record.
#[derive(Clone, Copy)]
struct Record {
    kind: u16,
    size: u16,
    value: u64,
}

impl Record {
    fn decode(bytes: &[u8; RECORD]) -> Self {
        Self {
            kind: u16::from_le_bytes([bytes[0], bytes[1]]),
            size: u16::from_le_bytes([bytes[2], bytes[3]]),
            value: u64::from_le_bytes(bytes[4..].try_into().expect("8 bytes")),
        }
    }
}

/// Whether a stream begins like this.
pub(super) fn is(head: &[u8]) -> bool {
    let Some(first) = head.first_chunk::<RECORD>() else { return false };
    let Record { kind, size, value } = Record::decode(first);
    // The first record of 32 bits is followed by a marker or a thread.
    let version = if is_narrow(value) { value & u64::from(u32::MAX) } else { value };
    kind == HEADER && size == 0 && (1..MOST_VERSION).contains(&version)
}

/// Whether what stands behind the version is another record, of a program of 32 bits.
fn is_narrow(value: u64) -> bool {
    value >> 32 != 0
}

struct Records<'a, S> {
    accesses: Accesses<'a, S>,
    /// The process whose records these are.
    process: Option<u64>,
    /// Where the last instruction is, and where it ends.
    instruction: (u64, u64),
    /// The last record was a footer.
    ended: bool,
}

/// Reads a stream into `sink`.
pub(super) fn read(
    mut stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let accesses = Accesses::new(sink);
    let mut records = Records { accesses, process: None, instruction: (0, 0), ended: false };
    let mut number = 0;
    loop {
        stream.fill_to(RECORD)?;
        let (whole, rest) = stream.buffered().as_chunks::<RECORD>();
        let (taken, left) = (whole.len() * RECORD, rest.len());
        for (index, bytes) in whole.iter().enumerate() {
            records.record(Record::decode(bytes)).map_err(|refused| match refused {
                Refused::Line(reason) => {
                    Error::record(number, stream.offset() + (index * RECORD) as u64, reason)
                }
                Refused::Sink(error) => error,
            })?;
            number += 1;
        }
        stream.consume(taken);
        let (references, instructions) = records.accesses.counts();
        progress(Progress { bytes: stream.taken(), records: references, instructions });
        if stream.ended() {
            let end = stream.offset() + left as u64;
            if left > 0 {
                return Err(Error::truncated(end, format!("inside record {number}")));
            }
            // The chunks of an archive are one stream.
            if stream.next_member()? {
                continue;
            }
            if !records.ended {
                return Err(Error::truncated(end, "without the footer of a drmemtrace trace"));
            }
            let page_size = records.accesses.page_size();
            let end = records.accesses.finish("a drmemtrace trace")?;
            let source = "drmemtrace";
            return Ok(Imported { end, page_size, instruction_fetches: true, source, ..Imported::default() });
        }
    }
}

impl<S: Sink> Records<'_, S> {
    fn record(&mut self, Record { kind, size, value }: Record) -> Result<(), Refused> {
        self.ended = kind == FOOTER;
        match kind {
            READ | WRITE => self.accesses.access(value, size.into(), kind == WRITE),
            INSTRUCTION..=RETURN | SYSENTER | TAKEN_JUMP | UNTAKEN_JUMP => self.fetch(value, size.into()),
            MAYBE_FETCHED if value != self.instruction.0 => self.fetch(value, size.into()),
            NOT_FETCHED | MAYBE_FETCHED => {
                self.instruction = (value, value.wrapping_add(size.into()));
                Ok(())
            }
            BUNDLE => {
                let lengths = value.to_le_bytes();
                let lengths = lengths.get(..size.into()).ok_or("a bundle of more than 8 instructions")?;
                lengths.iter().try_for_each(|length| self.fetch(self.instruction.1, (*length).into()))
            }
            PROCESS => {
                let first = *self.process.get_or_insert(value);
                if first == value { Ok(()) } else { Err("another program: import one at a time".into()) }
            }
            HEADER if is_narrow(value) => {
                Err("a trace of a program of 32 bits: only those of 64 are read".into())
            }
            MARKER if size == PAGE_SIZE => Ok(self.accesses.set_page_size(value)?),
            // Threads, other markers, code, prefetches, flushes.
            _ if kind < TYPES => Ok(()),
            _ => Err("a record of no known type".into()),
        }
    }

    /// An instruction is fetched, and executed.
    fn fetch(&mut self, address: u64, bytes: u64) -> Result<(), Refused> {
        self.instruction = (address, address.wrapping_add(bytes));
        if bytes == 0 {
            return Ok(());
        }
        self.accesses.instruction()?;
        self.accesses.access(address, bytes, false)
    }
}
