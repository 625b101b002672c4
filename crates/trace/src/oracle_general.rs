//! oracleGeneral: libCacheSim's binary traces of requests for objects, with the next request of
//! each.
//!
//! A record is 24 bytes, little endian, without a header before or between:
//!
//! | bytes | what | |
//! |-------|------|-|
//! | 0..4  | time in seconds | |
//! | 4..12 | object | any number |
//! | 12..16 | its size in bytes | |
//! | 16..24 | number of the request that wants it next, signed | -1 or the largest number: none |
//!
//! An object takes as many pages of 4 KiB as its size needs, pages of its own, and a request for it
//! touches each of them in ascending order. So a trace of blocks is one of pages; and an object of
//! less than a page, even of no size, takes one. Which requests write the format does not say: all
//! are reads. It has no magic number and is never guessed: the next requests, which must lie in the
//! future, tell damage and other formats. (libCacheSim, `oracleGeneralBin.h`.)

use rustc_hash::FxHashMap;

use crate::accesses::Accesses;
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::Refused;
use crate::{Error, Sink};

/// Bytes of a record.
const RECORD: usize = 24;

/// Addresses an object has to itself: as many as its size can say, so that its first byte begins a
/// page.
const OBJECT_SHIFT: u32 = 32;

/// No trace has this many requests. Text and other bytes read as numbers are beyond it. So they are
/// refused at once, and their sizes are not taken for those of large objects.
const MOST_REQUESTS: u64 = 1 << 48;

/// Reads a stream into `sink`.
pub(crate) fn read(
    mut stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut accesses = Accesses::new(sink);
    // Numbers of objects in the order of their first requests.
    let mut objects: FxHashMap<u64, u64> = FxHashMap::default();
    // Requests of the member, which its next requests count.
    let mut request = 0;
    loop {
        stream.fill_to(RECORD)?;
        let (records, rest) = stream.buffered().as_chunks::<RECORD>();
        let taken = records.len() * RECORD;
        let left = rest.len();
        for (index, record) in records.iter().enumerate() {
            let offset = stream.offset() + (index * RECORD) as u64;
            let (time, object, bytes, next) = decode(record);
            let is_none = next == -1 || next == i64::MAX;
            if !is_none && u64::try_from(next).map_or(true, |next| next < request || next > MOST_REQUESTS) {
                let place =
                    if next > 0 && next as u64 > MOST_REQUESTS { "beyond any trace" } else { "in the past" };
                let reason = format!(
                    "request {next} wants the object next, which lies {place}: two traces one behind the \
                     other, or not oracleGeneral"
                );
                return Err(Error::record(request, offset, reason));
            }
            let fresh = objects.len() as u64;
            accesses.time(i64::from(time) * 1000);
            let number = *objects.entry(object).or_insert(fresh);
            accesses.access(number << OBJECT_SHIFT, bytes.max(1).into(), false).map_err(|refused| {
                match refused {
                    Refused::Line(reason) => Error::record(request, offset, reason),
                    Refused::Sink(error) => error,
                }
            })?;
            request += 1;
        }
        stream.consume(taken);
        progress(Progress { bytes: stream.taken(), records: accesses.counts().0, instructions: 0 });
        if stream.ended() {
            if left > 0 {
                return Err(Error::truncated(
                    stream.offset() + left as u64,
                    format!("inside record {request}"),
                ));
            }
            if stream.next_member()? {
                request = 0;
                continue;
            }
            let page_size = accesses.page_size();
            let end = accesses.finish("an oracleGeneral trace")?;
            return Ok(Imported { end, page_size, source: "oracle-general", ..Imported::default() });
        }
    }
}

/// Time, object, size, next request.
fn decode(record: &[u8; RECORD]) -> (u32, u64, u32, i64) {
    let (time, object, size, next) = (&record[..4], &record[4..12], &record[12..16], &record[16..24]);
    (
        u32::from_le_bytes(time.try_into().expect("4 bytes")),
        u64::from_le_bytes(object.try_into().expect("8 bytes")),
        u32::from_le_bytes(size.try_into().expect("4 bytes")),
        i64::from_le_bytes(next.try_into().expect("8 bytes")),
    )
}
