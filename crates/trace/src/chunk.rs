//! A decoded chunk, from which simulations read references and events.

use std::fmt;
use std::ops::Range;

use zstd::bulk::Decompressor;

use crate::{Event, PackedReference};

/// A decoded chunk, reused between reads (no allocation once grown).
#[derive(Default)]
pub struct Chunk {
    /// Number of its first reference in the trace.
    pub first_record: u64,
    /// The references.
    pub references: Vec<PackedReference>,
    /// Events, each with the number of references of this chunk before it; ascending.
    pub events: Vec<(u32, Event)>,
    /// Id of the first page first used here.
    pub first_new_page: u32,
    /// Page numbers of the ids `first_new_page ..`.
    pub new_pages: Vec<u64>,
    /// Page ids in use after this chunk: every id in it is below this.
    pub pages: u32,
    /// While the chunk is written: where the code changes, see [`code`](Self::code).
    pub(crate) code: Vec<(u32, u32)>,
    /// While the chunk is written: where the time changes, see [`times`](Self::times).
    pub(crate) times: Vec<(u32, i64)>,
    /// Likewise, see [`times_to_live`](Self::times_to_live).
    pub(crate) times_to_live: Vec<(u32, i64)>,
    /// Of a chunk that was read: where its columns of times and of times to live are in
    /// `scratch.raw`.
    pub(crate) times_at: [Option<Range<usize>>; 2],
    /// Of a chunk that was read: where its column of code begins in `scratch.raw`.
    pub(crate) code_from: Option<usize>,
    /// What reading a chunk needs besides.
    pub(crate) scratch: Scratch,
}

/// Buffers that live as long as the chunk they fill.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Head and payload as they stand in the file.
    pub(crate) stored: Vec<u8>,
    /// The raw chunk.
    pub(crate) raw: Vec<u8>,
    /// The zstd context; made at the first read.
    pub(crate) decompressor: Option<Decompressor<'static>>,
}

impl Chunk {
    /// An empty chunk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it; what follows begins at this record and this page id.
    pub(crate) fn restart(&mut self, first_record: u64, pages: u32) {
        self.first_record = first_record;
        self.references.clear();
        self.events.clear();
        self.first_new_page = pages;
        self.new_pages.clear();
        self.pages = pages;
        self.code.clear();
        self.code_from = None;
        self.times.clear();
        self.times_to_live.clear();
        self.times_at = [None, None];
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk")
            .field("first_record", &self.first_record)
            .field("references", &self.references)
            .field("events", &self.events)
            .field("first_new_page", &self.first_new_page)
            .field("new_pages", &self.new_pages)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// Content only: what was needed to read it does not count.
impl PartialEq for Chunk {
    fn eq(&self, other: &Self) -> bool {
        self.first_record == other.first_record
            && self.first_new_page == other.first_new_page
            && self.pages == other.pages
            && self.references == other.references
            && self.events == other.events
            && self.new_pages == other.new_pages
    }
}
