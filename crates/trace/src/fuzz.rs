//! What must hold of any bytes whatever: the fuzz target, and the stable test that runs it on damage.

use std::io::Cursor;
use std::path::Path;

use crate::codec::{self, Encoder};
use crate::irim;
use crate::{Chunk, EndTotals, Metadata, Trace, Writer};

/// Reads `data` as a trace of any format, as an IRIM string, and as a raw chunk of our own. Each is refused with an error, or
/// is consistent. Panics if it is not.
#[doc(hidden)]
pub fn fuzz_reader(data: &[u8]) {
    if let Ok(trace) = Trace::from_reader(data, Path::new("data")) {
        // What we converted ourselves must be sound; a native file with right checksums may still lie.
        let native = data.starts_with(&crate::format::MAGIC);
        if let Some(checksum) = consistent(&trace)
            && !native
        {
            assert_eq!(checksum, trace.header().checksum);
            trace.verify(&mut |_| {}).expect("a converted trace is sound");
        }
    }
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
