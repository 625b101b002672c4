//! Places of objects and of code: from the recorder's stream into a trace.

use std::io::Cursor;
use std::path::Path;
use sweephand_trace::format::CHUNK_REFERENCES;
use sweephand_trace::objects::objects;
use sweephand_trace::places::{Collector, Frame};
use sweephand_trace::reduce::Reducer;
use sweephand_trace::{Chunk, EndTotals, Error, Metadata, Trace, Writer};

/// A stream of objects without references: after the header, these records, and END.
fn stream(records: &[&[u8]], objects: u8) -> Vec<u8> {
    let mut bytes = b"PGTR\x01\x0c\x01\x00\x01p".to_vec();
    records.iter().for_each(|record| bytes.extend_from_slice(record));
    bytes.extend_from_slice(&[1, 0, 0, 0, 0, objects, 0, 0]);
    bytes
}

/// PLACE, operation 7, called by one more than this place; 0 if by none.
fn place(caller: u8, text: &str) -> Vec<u8> {
    let mut bytes = vec![7 << 1 | 1, caller, u8::try_from(text.len()).unwrap()];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// ALLOC, operation 1: 32 bytes at this address, by malloc.
fn alloc(address: u8) -> Vec<u8> {
    vec![1 << 1 | 1, address, 32, 0]
}

/// MADE, operation 8.
fn made(place: u8) -> Vec<u8> {
    vec![8 << 1 | 1, place]
}

/// CODE, operation 9.
fn code(place: u8) -> Vec<u8> {
    vec![9 << 1 | 1, place]
}

/// A read of the page after the one before.
const NEXT_PAGE: &[u8] = &[2 << 2];

fn read(bytes: &[u8]) -> Result<Trace, Error> {
    Trace::from_reader(bytes, Path::new("p"))
}

const MALLOC: &str = "malloc (malloc.c:9)\t/lib/libc.so\t1f\n";

#[test]
fn objects_know_their_places() {
    let grid = place(0, "grid (/src/a.c:6)\t/bin/a\t10\n");
    let made_by_grid = place(1, MALLOC);
    let other = place(0, &format!("{MALLOC}??? (in /bin/a)\t/bin/a\t2c\n"));
    let records =
        [grid, made_by_grid, alloc(1), made(1), alloc(2), other, alloc(3), made(2), alloc(4), made(1)];
    let records: Vec<_> = records.iter().map(Vec::as_slice).collect();
    let trace = read(&stream(&records, 4)).unwrap();
    let made_at: Vec<_> = objects(&trace)
        .unwrap()
        .iter()
        .map(|object| Some(object.made_at.as_ref()?.place()?.to_string()))
        .collect();
    let expected = [Some("a.c:6 in grid"), None, Some("a+0x2c"), Some("a.c:6 in grid")];
    assert_eq!(made_at, expected.map(|place| place.map(str::to_owned)));
}

#[test]
fn a_place_that_cannot_be_is_damage() {
    let grid = place(0, MALLOC);
    for (records, reason) in [
        (vec![alloc(1), made(0)], "a place that has not come"),
        (vec![grid.clone(), made(0)], "before the first"),
        (vec![place(0, "no code")], "no code"),
        (vec![place(0, "")], "without code"),
        (vec![place(1, MALLOC)], "a place that has not come"),
        (vec![code(0)], "a place that has not come"),
        (vec![vec![15, 0, 0xff, 0xff, 0xff, 0x0f]], "longer than any"),
    ] {
        let records: Vec<_> = records.iter().map(Vec::as_slice).collect();
        let error = read(&stream(&records, 1)).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    let whole = stream(&[&grid, &alloc(1), &made(0)], 1);
    for length in 1..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length} bytes");
    }
}

/// For each reference, the function that makes it.
fn functions(trace: &Trace) -> Vec<String> {
    let places = trace.header().metadata.places.as_ref().unwrap();
    let mut chunk = Chunk::new();
    let mut names = Vec::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        let code = chunk.code().unwrap();
        for at in 0..chunk.references.len() {
            let change = code.iter().rfind(|(from, _)| *from as usize <= at);
            let stack = change.map(|(_, place)| places.stack(*place));
            let function = |stack: sweephand_trace::places::Stack| stack.0[0].function.clone();
            names.push(stack.and_then(function).unwrap_or_default());
        }
    }
    names
}

/// A stream whose first reference is by code that is not known.
fn with_code() -> Vec<u8> {
    let records: [&[u8]; 12] = [
        NEXT_PAGE,
        &place(0, "f (a.c:1)\t/bin/a\t10\n"),
        &place(1, "g (a.c:2)\t/bin/a\t20\n"),
        &code(0),
        NEXT_PAGE,
        NEXT_PAGE,
        &code(1),
        NEXT_PAGE,
        &[10 << 1 | 1, 2, b'n', b'o'],
        &code(0),
        NEXT_PAGE,
        &code(1),
    ];
    let mut bytes = b"PGTR\x01\x0c\x01\x00\x01p".to_vec();
    records.iter().for_each(|record| bytes.extend_from_slice(record));
    bytes.extend_from_slice(&[1, 0, 5, 5, 5, 0, 0, 0]);
    bytes
}

#[test]
fn references_know_the_code_that_makes_them() {
    let trace = read(&with_code()).unwrap();
    assert_eq!(functions(&trace), ["", "f", "f", "g", "f"]);
    assert_eq!((trace.header().version, &trace.header().metadata.notes[..]), (2, &["no".to_owned()][..]));
    trace.verify(&mut |_| ()).unwrap();
    // Written again, reduced on the way: the last run of a page does not say.
    let mut writer = Writer::new(Cursor::new(Vec::new()), trace.header().metadata.clone()).unwrap();
    let mut reducer = Reducer::new(&mut writer, 4);
    trace.replay(&mut reducer, &mut |_| ()).unwrap();
    reducer.finish().unwrap();
    let (file, header) = writer.finish(EndTotals::default()).unwrap();
    let again = Trace::from_bytes(file.into_inner()).unwrap();
    assert_eq!(functions(&again), functions(&trace));
    assert_eq!(header.checksum, trace.header().checksum, "code is no part of the identity");
}

#[test]
fn code_goes_on_in_the_next_chunk() {
    let mut collector = Collector::default();
    for name in ["f", "g"] {
        collector.place(None, Frame { function: Some(name.to_owned()), ..Frame::default() });
    }
    let metadata = Metadata { places: Some(collector.finish()), ..Metadata::default() };
    let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
    writer.code(1);
    for page in 0..CHUNK_REFERENCES as u64 + 5 {
        writer.reference(page, false).unwrap();
    }
    writer.code(0);
    writer.code(1);
    writer.reference(1, false).unwrap();
    let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
    let trace = Trace::from_bytes(bytes).unwrap();
    assert_eq!(trace.chunks(), 2);
    let functions = functions(&trace);
    assert_eq!(functions.len(), CHUNK_REFERENCES + 6);
    assert!(functions.iter().all(|name| name == "g"));
    trace.verify(&mut |_| ()).unwrap();
}
