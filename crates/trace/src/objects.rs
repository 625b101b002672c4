//! The objects of a program: its large allocations, from the events of a trace.

use crate::places::Stack;
use crate::{AllocKind, Chunk, Error, Event, Trace};
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

/// What a page belongs to that is in no object.
pub const NO_OBJECT: &str = "no object: stack, globals, small blocks";

/// An object of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its first byte.
    pub address: u64,
    /// Its length in bytes; can be far more than the pages ever touched.
    pub length_bytes: u64,
    /// The call that made it.
    pub kind: AllocKind,
    /// Where in the program it was made, if the trace has it.
    pub made_at: Option<Stack>,
    /// References stored before it came.
    pub from_record: u64,
    /// References stored before it went; `None` if it stayed to the end.
    pub to_record: Option<u64>,
    /// Pages that it has a part of and that are ever touched, by whatever lived there.
    pub touched_pages: u64,
}

impl Object {
    /// The numbers of the pages that it has a part of.
    pub fn pages(&self, page_bytes: u64) -> Range<u64> {
        let pages = pages_of(self.address, self.length_bytes, page_bytes);
        *pages.start()..pages.end().saturating_add(1)
    }
}

/// The numbers of the pages that an object touches, however little of them is its own; an empty one
/// has the page where it begins.
pub fn pages_of(address: u64, length_bytes: u64, page_bytes: u64) -> RangeInclusive<u64> {
    let last_byte = address.saturating_add(length_bytes.max(1) - 1);
    address / page_bytes..=last_byte / page_bytes
}

/// Whether a trace is one of whole objects: the log that it was imported from has objects with
/// sizes, and each reference is a request for all of one.
pub fn is_of_whole_objects(trace: &Trace) -> bool {
    trace.header().metadata.whole_objects
}

/// The objects of a trace in order of allocation. Decodes everything once.
pub fn objects(trace: &Trace) -> Result<Vec<Object>, Error> {
    let mut objects: Vec<Object> = Vec::new();
    let mut live = HashMap::new();
    let places = trace.header().metadata.places.as_ref();
    let mut numbers = Vec::new();
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        numbers.extend_from_slice(&chunk.new_pages);
        for (at, event) in &chunk.events {
            let now = chunk.first_record + u64::from(*at);
            match *event {
                Event::Alloc { address, length, kind } => {
                    live.insert(address, objects.len());
                    objects.push(Object {
                        address,
                        length_bytes: length,
                        kind,
                        made_at: places.and_then(|places| places.of_object(objects.len())),
                        from_record: now,
                        to_record: None,
                        touched_pages: 0,
                    });
                }
                Event::Free { address } => {
                    if let Some(index) = live.remove(&address) {
                        objects[index].to_record = Some(now);
                    }
                }
                _ => {}
            }
        }
    }
    numbers.sort_unstable();
    let page_bytes = trace.header().metadata.page_size;
    for object in &mut objects {
        let pages = object.pages(page_bytes);
        let place = |page| numbers.partition_point(|number| *number < page);
        object.touched_pages = (place(pages.end) - place(pages.start)) as u64;
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndTotals, Metadata, Writer};
    use std::io::Cursor;

    #[test]
    fn objects_come_and_go_and_share_pages() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        writer.reference(1, false).unwrap();
        writer.alloc(0x10010, 0x2000, AllocKind::Malloc).unwrap();
        for page in [0x10, 0x12, 0x13] {
            writer.reference(page, true).unwrap();
        }
        writer.free(0x10010).unwrap();
        writer.alloc(0x13000, 0x1000, AllocKind::Calloc).unwrap();
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let objects = objects(&Trace::from_bytes(bytes).unwrap()).unwrap();
        let told: Vec<_> = objects
            .iter()
            .map(|object| (object.pages(4096), object.touched_pages, object.from_record, object.to_record))
            .collect();
        assert_eq!(told, [(0x10..0x13, 2, 1, Some(4)), (0x13..0x14, 1, 4, None)]);
    }
}
