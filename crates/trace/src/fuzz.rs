//! Checks that hold for any input bytes. The fuzz target uses them, and so does the ordinary test
//! that damages files.

use std::io::{self, Cursor, Read};
use std::path::Path;

use crate::bytes::ByteStream;
use crate::codec::{self, Encoder};
use crate::columns::{self, Columns, KNOWN};
use crate::import::{convert, import};
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
/// compressed files, the files of an archive, several logs, IRIM strings; with the feature
/// `parquet`, Parquet files.
#[doc(hidden)]
pub fn fuzz_inputs() -> Vec<String> {
    let formats = Format::ALL.iter().map(|format| format!("{format:?}").to_lowercase());
    let others = ["separated", "json", "structs", "known", "compressed", "members", "several", "irim"];
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
        "members" => members(&files(data)),
        "several" => several(&files(data)),
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

/// The files that `data` stands for: this byte, which no text has, is between them.
fn files(data: &[u8]) -> Vec<&[u8]> {
    data.split(|byte| *byte == 0xfe).take(6).collect()
}

/// Reads the files as those of a zip and of a tar archive: the same, however the bytes arrive.
fn members(files: &[&[u8]]) {
    let columns = ["key=1", "time=1,key=2,size=3", "key=k,size=s", "record=5,key=u32@0,size=u8@4"];
    let columns = columns.iter().map(|text| Some(text.parse().expect("the columns are right")));
    for columns in columns.chain([None]) {
        let options = ImportOptions { columns, name: "data".into(), ..ImportOptions::default() };
        let read = |reader: &mut dyn Read| {
            let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).expect("memory");
            let end =
                import(reader, &mut writer, &options, &mut |_| {}).map_err(|error| error.to_string())?;
            let (_, header) = writer.finish(end).map_err(|error| error.to_string())?;
            Ok::<_, String>((header.checksum, header.metadata.notes))
        };
        let (zip, tar) = (zip_of(files), tar_of(files));
        let expected = read(&mut &zip[..]);
        // What arrives first tells what the input is, unless that is said.
        if options.columns.is_some() {
            assert_eq!(read(&mut Pieces(&zip)), expected, "in pieces");
        }
        assert_eq!(read(&mut &tar[..]), expected, "in a tar archive");
    }
}

/// An archive whose files are stored.
fn zip_of(files: &[&[u8]]) -> Vec<u8> {
    let mut zip = Vec::new();
    for (name, file) in (b'a'..).zip(files) {
        let mut crc = flate2::Crc::new();
        crc.update(file);
        zip.extend_from_slice(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
        [crc.sum(), file.len() as u32, file.len() as u32, 1]
            .iter()
            .for_each(|number| zip.extend_from_slice(&number.to_le_bytes()));
        zip.push(name);
        zip.extend_from_slice(file);
    }
    zip.extend_from_slice(b"PK\x05\x06");
    zip.extend_from_slice(&[0; 18]);
    zip
}

fn tar_of(files: &[&[u8]]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, file) in (b'a'..).zip(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(file.len() as u64);
        builder.append_data(&mut header, char::from(name).to_string(), *file).expect("memory");
    }
    builder.into_inner().expect("memory")
}

/// Merges the files as logs: the same, however the bytes arrive. All rows are there.
fn several(files: &[&[u8]]) {
    for (text, by_time) in [
        ("time=1,key=2,size=3", true),
        ("time=1,key=2,size=3", false),
        ("time=1,key=2,op=3,tenant=4,ttl=5,count=6", true),
        ("time=t,key=k,size=s", true),
        ("record=6,time=u8@0,key=u32@1,size=u8@5", true),
    ] {
        let columns = log(text, false, false);
        let merged = |in_pieces: bool| {
            let mut found = First::new(REFERENCES);
            let mut logs = columns::Several::new().expect("a temporary file");
            let mut merge = || {
                for file in files {
                    let stream =
                        if in_pieces { ByteStream::new(Pieces(file)) } else { ByteStream::new(*file) };
                    logs.keep(&columns, stream, &mut |_| {})?;
                }
                Ok::<_, crate::Error>(())
            };
            let end = merge().and_then(|()| logs.merge(&columns, by_time, &mut found, &mut |_| {}));
            (found.kept, format!("{end:?}"))
        };
        let whole = merged(false);
        assert_eq!(whole, merged(true), "{text}");
        if let [one] = files
            && !by_time
        {
            let mut alone = First::new(REFERENCES);
            let _ = columns::read(&columns, ByteStream::new(*one), &mut alone, &mut |_| {});
            assert!(whole.0.is_empty() || whole.0 == alone.kept, "{text}");
        }
    }
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
