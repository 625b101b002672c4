//! Places of objects: from the recorder's stream into a trace.

use std::path::Path;
use sweephand_trace::objects::objects;
use sweephand_trace::{Error, Trace};

/// A stream of objects without references: after the header, these records, and END.
fn stream(records: &[&[u8]], objects: u8) -> Vec<u8> {
    let mut bytes = b"PGTR\x01\x0c\x01\x00\x01p".to_vec();
    records.iter().for_each(|record| bytes.extend_from_slice(record));
    bytes.extend_from_slice(&[1, 0, 0, 0, 0, objects, 0, 0]);
    bytes
}

/// PLACE, operation 7.
fn place(text: &str) -> Vec<u8> {
    let mut bytes = vec![7 << 1 | 1, u8::try_from(text.len()).unwrap()];
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

fn read(bytes: &[u8]) -> Result<Trace, Error> {
    Trace::from_reader(bytes, Path::new("p"))
}

const MALLOC: &str = "malloc (malloc.c:9)\t/lib/libc.so\t1f\n";

#[test]
fn objects_know_their_places() {
    let grid = place(&format!("{MALLOC}grid (/src/a.c:6)\t/bin/a\t10\n"));
    let other = place(&format!("{MALLOC}??? (in /bin/a)\t/bin/a\t2c\n"));
    let records = [grid, alloc(1), made(0), alloc(2), other, alloc(3), made(1), alloc(4), made(0)];
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
    let grid = place(MALLOC);
    for (records, reason) in [
        (vec![alloc(1), made(0)], "a place that has not come"),
        (vec![grid.clone(), made(0)], "before the first"),
        (vec![place("no stack")], "no call stack"),
        (vec![vec![15, 0xff, 0xff, 0xff, 0x0f]], "longer than any"),
    ] {
        let records: Vec<_> = records.iter().map(Vec::as_slice).collect();
        let error = read(&stream(&records, 1)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let whole = stream(&[&grid, &alloc(1), &made(0)], 1);
    for length in 1..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length} bytes");
    }
}
