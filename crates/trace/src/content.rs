//! The identity of a trace: a checksum of its contents that does not depend on how they are stored.
//!
//! Three streams are hashed with xxh3-64 while the trace is written:
//! - the references (id << 1 | write, four bytes each, little-endian);
//! - the page numbers of new ids, in the order of the ids (eight bytes each);
//! - the events (varint references since the event before, then kind and operands as a chunk stores
//!   them).
//!
//! The identity is xxh3-64 of the three hashes, eight bytes each. So it does not depend on the
//! compression, on the division into chunks, or on the choice of an encoding.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{Chunk, codec, varint};

/// The hashes so far.
#[derive(Default)]
pub(crate) struct Content {
    references: Xxh3,
    pages: Xxh3,
    events: Xxh3,
    /// Record number of the last event.
    last_event: u64,
    buffer: Vec<u8>,
}

impl Content {
    /// Takes in the next chunk.
    pub(crate) fn chunk(&mut self, chunk: &Chunk) {
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.extend(chunk.references.iter().flat_map(|r| r.bits().to_le_bytes()));
        self.references.update(buffer);
        buffer.clear();
        buffer.extend(chunk.new_pages.iter().flat_map(|page| page.to_le_bytes()));
        self.pages.update(buffer);
        buffer.clear();
        for (at, event) in &chunk.events {
            let record = chunk.first_record + u64::from(*at);
            varint::put(buffer, record - self.last_event);
            self.last_event = record;
            codec::encode_event(event, buffer);
        }
        self.events.update(buffer);
    }

    pub(crate) fn identity(&self) -> u64 {
        let hashes = [&self.references, &self.pages, &self.events].map(|hash| hash.digest().to_le_bytes());
        xxh3_64(hashes.as_flattened())
    }
}
