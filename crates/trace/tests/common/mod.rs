//! What the tests share: programs as lists of steps, PGTR streams, a plain model of page ids.
#![allow(dead_code)] // every test file uses its own part

use std::io::Cursor;

use sweephand_trace::{AllocKind, Chunk, EndTotals, Event, Metadata, Sink, Trace, Writer};

/// Something a program does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Reference(u64, bool),
    Alloc(u64, u64, AllocKind),
    Free(u64),
    Mark(u64, u64),
    Map(u64, u64),
    Unmap(u64, u64),
    Remap(u64, u64, u64),
}

/// Does all of it to a sink.
pub(crate) fn perform(steps: &[Step], sink: &mut impl Sink) {
    for step in steps {
        match *step {
            Step::Reference(page, write) => sink.reference(page, write),
            Step::Alloc(address, length, kind) => sink.alloc(address, length, kind),
            Step::Free(address) => sink.free(address),
            Step::Mark(instructions, references) => sink.mark(instructions, references),
            Step::Map(first, pages) => sink.map(first, pages),
            Step::Unmap(first, pages) => sink.unmap(first, pages),
            Step::Remap(from, to, pages) => sink.remap(from, to, pages),
        }
        .expect("memory does not fail");
    }
}

/// The bytes of the trace a writer makes of it.
pub(crate) fn written(steps: &[Step], level: i32) -> Vec<u8> {
    let mut writer = Writer::with_level(Cursor::new(Vec::new()), Metadata::default(), level).unwrap();
    perform(steps, &mut writer);
    writer.finish(EndTotals::default()).unwrap().0.into_inner()
}

/// References as (id, write), events as (record, event).
pub(crate) type Decoded = (Vec<(u32, bool)>, Vec<(u64, Event)>);

/// All references and all events of a trace.
pub(crate) fn decoded(trace: &Trace) -> Decoded {
    let (mut references, mut events) = (Vec::new(), Vec::new());
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        events.extend(
            chunk.events.iter().map(|(at, event)| (chunk.first_record + u64::from(*at), event.clone())),
        );
        references.extend(chunk.references.iter().map(|r| (r.page(), r.is_write())));
    }
    (references, events)
}

/// A PGTR stream of the steps, as the recorder would send it.
pub(crate) fn pgtr(steps: &[Step], window: u64) -> Vec<u8> {
    let mut out = b"PGTR".to_vec();
    for number in [1, 12, window, 2, 4] {
        varint(&mut out, number);
    }
    out.extend_from_slice(b"prog");
    let (mut page, mut records, mut objects) = (0u64, 0, 0);
    for step in steps {
        let mut control = |operation: u64, operands: &[u64]| {
            varint(&mut out, operation << 1 | 1);
            operands.iter().for_each(|operand| varint(&mut out, *operand));
        };
        match *step {
            Step::Reference(next, write) => {
                let difference = next.wrapping_sub(page) as i64;
                let zigzag = ((difference << 1) ^ (difference >> 63)) as u64;
                varint(&mut out, zigzag << 2 | u64::from(write) << 1);
                page = next;
                records += 1;
            }
            Step::Alloc(address, length, kind) => {
                objects += 1;
                control(1, &[address, length, kind.code()]);
            }
            Step::Free(address) => control(2, &[address]),
            Step::Mark(instructions, references) => control(3, &[instructions, references]),
            Step::Map(first, pages) => control(4, &[first, pages]),
            Step::Unmap(first, pages) => control(5, &[first, pages]),
            Step::Remap(from, to, pages) => control(6, &[from, to, pages]),
        }
    }
    varint(&mut out, 1);
    for number in [7_000, 9_000, 5_000, records, objects, 123_456, 3] {
        varint(&mut out, number);
    }
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// SplitMix64, for tests that want plain loops.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// An archive with one file of these contents, and an empty one.
pub(crate) fn zipped(bytes: &[u8]) -> Vec<u8> {
    zip_of(&[("a", bytes), ("c", b"")])
}

/// An archive of files: the first deflated, an empty one stored, others deflated with their lengths
/// behind them; with a directory and a comment.
pub(crate) fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (index, (name, contents)) in files.iter().enumerate() {
        let method = if contents.is_empty() { 0u16 } else { 8 };
        let flags = if index > 0 && method == 8 { 8u16 } else { 0 };
        let mut crc = flate2::Crc::new();
        crc.update(contents);
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut deflate, contents).unwrap();
        let packed = if method == 8 { deflate.finish().unwrap() } else { contents.to_vec() };
        let numbers = [crc.sum(), packed.len() as u32, contents.len() as u32].map(u32::to_le_bytes);
        let common = [20, flags, method, 0, 0x21].map(u16::to_le_bytes);
        let lengths = [name.len() as u16, 0].map(u16::to_le_bytes);
        directory.extend_from_slice(b"PK\x01\x02\x14\0");
        directory.extend_from_slice(common.as_flattened());
        directory.extend_from_slice(numbers.as_flattened());
        directory.extend_from_slice(lengths.as_flattened());
        directory.extend([0; 10]);
        directory.extend((archive.len() as u32).to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(common.as_flattened());
        archive.extend_from_slice(if flags == 0 { numbers.as_flattened() } else { &[0; 12] });
        archive.extend_from_slice(lengths.as_flattened());
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(&packed);
        if flags != 0 {
            archive.extend_from_slice(b"PK\x07\x08");
            archive.extend_from_slice(numbers.as_flattened());
        }
    }
    let start = (archive.len() as u32).to_le_bytes();
    let length = (directory.len() as u32).to_le_bytes();
    archive.extend(directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend([files.len() as u16; 2].map(u16::to_le_bytes).as_flattened());
    archive.extend([length, start].as_flattened());
    archive.extend_from_slice(b"\x02\0hi");
    archive
}
