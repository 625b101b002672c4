//! Checks that hold for any input bytes. The fuzz target uses them, and so does the ordinary test
//! that damages files.

use std::io::{self, Cursor, Read};
use std::path::Path;

use crate::bytes::ByteStream;
use crate::codec::{self, Encoder};
use crate::columns::{self, Columns, KNOWN};
use crate::import::convert;
use crate::irim;
use crate::look::First;
use crate::{Chunk, EndTotals, Format, ImportOptions, Look, Metadata, Trace, Writer};

/// References that are read of an input in one of the formats that are converted.
const REFERENCES: usize = 1 << 12;

/// Reads `data` as a trace of the format that it seems to have, as one of each format that is
/// converted, as an IRIM string, and as a raw chunk of our own. Each is refused with an error, or
/// is consistent. Panics if it is not.
#[doc(hidden)]
pub fn fuzz_reader(data: &[u8]) {
    if let Ok(trace) = Trace::from_reader(data, Path::new("data")) {
        // What we converted ourselves must be sound; a native file with right checksums may still
        // lie.
        let native = data.starts_with(&crate::format::MAGIC);
        if let Some(checksum) = consistent(&trace)
            && !native
        {
            assert_eq!(checksum, trace.header().checksum);
            trace.verify(&mut |_| {}).expect("a converted trace is sound");
        }
    }
    // As each format and each log, whatever it looks like.
    for format in Format::ALL {
        as_format(format, data);
    }
    for (text, header, whole_objects) in LOGS {
        as_log(&log(text, *header, *whole_objects), data);
    }
    let _ = Look::at(data, &ImportOptions::default());
    // As an IRIM string.
    let _ = irim::Irim::from_bytes(data);
    irim::fuzz(data);
    // The same bytes as a chunk, which no checksum guards.
    let mut chunk = Chunk::new();
    if codec::decode(data, &mut chunk).is_ok() {
        check(&chunk);
        let mut raw = Vec::new();
        Encoder::new().expect("zstd").encode(&chunk, &mut raw);
        let mut again = Chunk::new();
        codec::decode(&raw, &mut again).expect("what was encoded can be decoded");
        assert_eq!(chunk, again);
    }
}

/// What [`fuzz_input`] takes: a format, a kind of logs with columns, logs with names, archives and
/// compressed files, IRIM strings; with the feature `parquet`, Parquet files.
#[doc(hidden)]
pub fn fuzz_inputs() -> Vec<String> {
    let formats = Format::ALL.iter().map(|format| format!("{format:?}").to_lowercase());
    let others = ["separated", "json", "structs", "known", "compressed", "irim"];
    let others = others.into_iter().chain(cfg!(feature = "parquet").then_some("parquet"));
    formats.chain(others.map(str::to_owned)).collect()
}

/// Reads `data` as one of [`fuzz_inputs`], so that a fuzzer gives all its time to it. Panics if
/// what comes out is not consistent, or if there is no such input.
#[doc(hidden)]
pub fn fuzz_input(input: &str, data: &[u8]) {
    let each = |wanted: fn(&str) -> bool| {
        for (text, header, whole_objects) in LOGS.iter().filter(|(text, ..)| wanted(text)) {
            as_log(&log(text, *header, *whole_objects), data);
        }
    };
    match input {
        "separated" => each(|text| !text.contains('@') && !text.contains('.')),
        // Columns without names are refused: all that is left is JSON.
        "json" => each(|text| text.contains(".b")),
        "structs" => each(|text| text.contains('@')),
        "known" => KNOWN.iter().for_each(|known| as_log(&known.columns(), data)),
        "compressed" => drop(Trace::from_reader(data, Path::new("data")).map(|trace| consistent(&trace))),
        "irim" => {
            let _ = irim::Irim::from_bytes(data);
            irim::fuzz(data);
        }
        #[cfg(feature = "parquet")]
        "parquet" => as_log(&log("key=1,offset=2,size=3,op=4:x,time=5", false, false), data),
        _ => {
            let named = |format: &Format| format!("{format:?}").to_lowercase() == input;
            as_format(Format::ALL.into_iter().find(named).expect("an input of fuzz_inputs"), data);
        }
    }
}

/// Reads `data` as a format: the same however the bytes arrive.
fn as_format(format: Format, data: &[u8]) {
    let [mut of_whole, mut of_pieces] = [First::new(REFERENCES), First::new(REFERENCES)];
    let whole = convert(format, ByteStream::new(data), &mut of_whole, true, &mut |_| {});
    let in_pieces = ByteStream::new(Pieces(data));
    let pieces = convert(format, in_pieces, &mut of_pieces, true, &mut |_| {});
    assert_eq!(of_whole.kept, of_pieces.kept, "{format:?}");
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => {
            assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
            assert!(whole.page_size.is_power_of_two());
        }
        (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string(), "{format:?}"),
        (whole, pieces) => panic!("{format:?}: {whole:?}, in pieces {pieces:?}"),
    }
}

/// Reads `data` as a log with these columns: the same however the bytes arrive.
fn as_log(columns: &Columns, data: &[u8]) {
    let [mut of_whole, mut of_pieces] = [First::new(REFERENCES), First::new(REFERENCES)];
    let whole = columns::read(columns, ByteStream::new(data), &mut of_whole, &mut |_| {});
    let in_pieces = ByteStream::new(Pieces(data));
    let pieces = columns::read(columns, in_pieces, &mut of_pieces, &mut |_| {});
    assert_eq!(of_whole.kept, of_pieces.kept, "{columns:?}");
    assert_eq!(format!("{whole:?}"), format!("{pieces:?}"), "{columns:?}");
}

fn log(text: &str, header: bool, whole_objects: bool) -> Columns {
    let mut columns: Columns = text.parse().expect("the columns are right");
    columns.header = header;
    columns.whole_objects = whole_objects;
    columns
}

/// Columns that any bytes are read with, whether there is a header, and whether objects are kept
/// whole.
const LOGS: &[(&str, bool, bool)] = &[
    ("key=1", false, false),
    ("key=2,size=1,op=3,tenant=4,time=5", true, false),
    ("offset=lba*512,size=bytes,op=op:w|x", false, false),
    ("key=a.b,size=c,ttl=d", false, false),
    ("record=7,skip=1,key=text3@4,size=u16be@2,op=u8@0:1,time=f32@2", false, false),
    ("record=9,offset=u64@0,tenant=u8@8", false, false),
    ("key=1,offset=2,size=3,count=4", false, false),
    ("key=1,size=2,op=3,tenant=4", false, true),
    ("record=9,key=u32@0,size=u16@4,op=u8@6:1,count=u8@8", false, true),
];

/// Decodes every chunk; gives the checksum of the trace written again, unless a chunk is refused.
fn consistent(trace: &Trace) -> Option<u64> {
    let totals = &trace.header().totals;
    let (mut chunk, mut records, mut pages) = (Chunk::new(), 0, 0);
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).ok()?;
        assert_eq!((chunk.first_record, chunk.first_new_page), (records, pages));
        check(&chunk);
        records += chunk.references.len() as u64;
        pages = chunk.pages;
    }
    assert_eq!((records, pages), (totals.records, totals.page_ids));
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).expect("memory");
    trace.replay(&mut writer, &mut |_| {}).ok()?;
    let (_, again) = writer.finish(EndTotals::default()).expect("memory");
    Some(again.checksum)
}

/// Positions ascend within the chunk; ids are below the number of pages.
fn check(chunk: &Chunk) {
    assert!(chunk.references.iter().all(|r| r.page() < chunk.pages));
    assert_eq!(chunk.first_new_page as usize + chunk.new_pages.len(), chunk.pages as usize);
    assert!(chunk.events.is_sorted_by_key(|(at, _)| *at));
    assert!(chunk.events.iter().all(|(at, _)| *at as usize <= chunk.references.len()));
}

/// Gives a few bytes at a time, as a pipe may.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(7);
        self.0.read(&mut buffer[..most])
    }
}
