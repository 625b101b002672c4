//! Binary structs of one length, one after another.

use super::description::{Columns, Kind, Place, ROLES};
use super::requests::Requests;
use super::value::Value;
use crate::bytes::ByteStream;
use crate::imported::Progress;
use crate::lines::Refused;
use crate::{Error, Sink};

/// Reads the member's structs into `requests`.
pub(super) fn read_member<S: Sink>(
    stream: &mut ByteStream<'_>,
    columns: &Columns,
    requests: &mut Requests<'_, S>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let mut skip = columns.skip_bytes;
    while skip > 0 {
        stream.fill_to(1)?;
        let here = stream.buffered().len().min(usize::try_from(skip).unwrap_or(usize::MAX));
        if here == 0 {
            return Err(Error::truncated(stream.offset(), "before the first struct"));
        }
        stream.consume(here);
        skip -= here as u64;
    }
    let length = columns.record_bytes;
    let mut record = 0;
    loop {
        stream.fill_to(length)?;
        let bytes = stream.buffered();
        let mut taken = 0;
        for one in bytes.chunks_exact(length) {
            let mut row = [Value::Absent; ROLES];
            for column in &columns.columns {
                if let Place::Bytes(at, kind) = column.place {
                    row[column.role as usize] = value(&one[at..at + kind.bytes()], kind);
                }
            }
            let offset = stream.offset() + taken as u64;
            requests.row(&row).or_else(|refused| match refused {
                Refused::Line(reason) => {
                    stream.intake.borrow_mut().refuse(Error::record(record, offset, reason))
                }
                Refused::Sink(error) => Err(error),
            })?;
            record += 1;
            taken += length;
        }
        let left = bytes.len() - taken;
        stream.consume(taken);
        stream.intake.borrow_mut().rows += (taken / length) as u64;
        let (records, instructions) = requests.counts();
        progress(Progress { bytes: stream.taken(), records, instructions });
        if stream.ended() {
            if left > 0 {
                return Err(Error::truncated(
                    stream.offset() + left as u64,
                    format!("inside struct {record} of {length} bytes"),
                ));
            }
            return Ok(());
        }
    }
}

fn value(bytes: &[u8], kind: Kind) -> Value<'_> {
    match kind {
        Kind::Unsigned(_) => {
            Value::Number(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        Kind::BigEndian(_) => {
            Value::Number(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        Kind::Real(_) => match *bytes {
            [a, b, c, d] => Value::single(f32::from_le_bytes([a, b, c, d])),
            _ => Value::double(f64::from_le_bytes(bytes.try_into().expect("4 or 8 bytes"))),
        },
        Kind::Text(_) => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            Value::Text(bytes[..end].trim_ascii())
        }
    }
}
