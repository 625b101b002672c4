//! Writing traces: page numbers in, chunks of page ids out.

use std::fmt;
use std::io::{Seek, SeekFrom, Write};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;
use zstd::bulk::Compressor;

use crate::codec::Encoder;
use crate::content::Content;
use crate::format::{
    self, CHUNK_EVENTS, CHUNK_REFERENCES, CODE_VERSION, ChunkHead, FIRST_VERSION, FixedHeader, IndexEntry,
    TIMES_VERSION,
};
use crate::header::Times;
use crate::pages::{Pages, Touch};
use crate::payload::pack;
use crate::small::SmallBlocks;
use crate::{AllocKind, Chunk, Error, Event, Header, Metadata, PackedReference, Totals};

/// Whatever takes what a program did, in order. [`Writer`] does; so does
/// [`crate::reduce::Reducer`], which hands on less.
pub trait Sink {
    /// What follows has been [reduced](crate::reduce) to this window; 0 if it has not.
    fn reduced_to(&mut self, window: u64) {
        let _ = window;
    }
    /// What follows is done by the code at this [place](crate::places).
    fn code(&mut self, place: u32) {
        let _ = place;
    }
    /// What follows happens at this time or later, in milliseconds of the clock of the source. A
    /// time before the last one is taken for the last one.
    fn time(&mut self, milliseconds: i64) {
        let _ = milliseconds;
    }
    /// An object that one of the next references loads lives for this many milliseconds. 0 is for
    /// ever.
    fn time_to_live(&mut self, milliseconds: u64) {
        let _ = milliseconds;
    }
    /// A reference to a page number.
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error>;
    /// An object was allocated.
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error>;
    /// The object that began at `address` was freed.
    fn free(&mut self, address: u64) -> Result<(), Error>;
    /// The program's progress since the last mark.
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error>;
    /// A mapping appeared.
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error>;
    /// The contents of these pages are gone.
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error>;
    /// The contents of these pages moved.
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error>;
}

/// A sink that becomes a trace, which says where it comes from.
pub trait TraceSink: Sink {
    /// Where the trace comes from; can be filled in until the end.
    fn metadata_mut(&mut self) -> &mut Metadata;
}

/// What only the source of a trace knows; `None` takes the writer's own count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndTotals {
    /// References the program made.
    pub references: Option<u64>,
    /// Runs of references to one page.
    pub runs: Option<u64>,
    /// Instructions executed.
    pub instructions: Option<u64>,
    /// Largest number of bytes in objects at one time.
    pub peak_object_bytes: Option<u64>,
    /// Pages touched by system calls.
    pub system_call_touches: Option<u64>,
    /// Mappings whose contents were given up.
    pub unmaps: Option<u64>,
    /// Mappings that moved.
    pub remaps: Option<u64>,
}

/// The metadata as JSON. If they do not fit into a file, stacks are left out.
fn fitting(metadata: &mut Metadata) -> Vec<u8> {
    let to_json = |metadata: &Metadata| serde_json::to_vec(metadata).expect("metadata is plain data");
    let fits = |json: &[u8]| json.len() as u64 <= format::MAX_METADATA;
    let mut json = to_json(metadata);
    if let Some(places) = metadata.places.as_mut().filter(|places| !places.small.is_empty() && !fits(&json)) {
        places.small = SmallBlocks::default();
        metadata.notes.push("places of small allocations are left out: there are too many".to_owned());
        json = to_json(metadata);
    }
    if let Some(places) = metadata.places.as_mut().filter(|_| !fits(&json)) {
        places.without_callers();
        metadata.notes.push("callers of places are left out: there are too many".to_owned());
        json = to_json(metadata);
    }
    if metadata.places.is_some() && !fits(&json) {
        metadata.places = None;
        metadata.notes.push("places are left out: there are too many".to_owned());
        json = to_json(metadata);
    }
    json
}

/// Notes a change at a place of a chunk; the last one at a place counts.
fn change(changes: &mut Vec<(u32, i64)>, place: usize, value: i64) {
    let now = place as u32;
    match changes.last_mut() {
        Some((at, last)) if *at == now => *last = value,
        _ => changes.push((now, value)),
    }
}

/// Those of a trace that is written again.
impl From<&Totals> for EndTotals {
    fn from(totals: &Totals) -> Self {
        Self {
            references: Some(totals.references),
            runs: Some(totals.runs),
            instructions: totals.instructions,
            peak_object_bytes: Some(totals.peak_object_bytes),
            system_call_touches: Some(totals.system_call_touches),
            unmaps: Some(totals.unmaps),
            remaps: Some(totals.remaps),
        }
    }
}

/// Writes a trace. Until [`finish`](Writer::finish) returns, the file says that it is unfinished.
pub struct Writer<W: Write + Seek> {
    out: W,
    /// Where the trace begins in `out`.
    base: u64,
    metadata: Metadata,
    pages: Pages,
    /// The first version of the format that has all that was written so far.
    version: u32,
    /// The chunk being filled.
    chunk: Chunk,
    /// Bytes written since `base`.
    offset: u64,
    index: Vec<IndexEntry>,
    content: Content,
    /// Sums of the marks before the current chunk.
    marked: Marked,
    /// Sums of the marks so far.
    marks: Marked,
    totals: Totals,
    objects: Objects,
    told: Told,
    packer: Packer,
}

/// What holds for the next reference until something else is told.
#[derive(Debug, Default)]
struct Told {
    /// The place of the code that makes the references; `None` until one is told.
    code: Option<u32>,
    /// The first time, and that of the next reference.
    times: Option<(i64, i64)>,
    /// How long an object lives that the next reference loads; 0 for ever. `None` until one is
    /// told.
    time_to_live: Option<i64>,
    /// The page of the reference before; `None` at first.
    last_page: Option<u64>,
}

/// Makes the bytes of a chunk.
struct Packer {
    encoder: Encoder,
    compressor: Compressor<'static>,
    raw: Vec<u8>,
    payload: Vec<u8>,
}

impl Packer {
    /// Encodes and compresses a chunk. Returns the head of its payload, and whether the payload
    /// needs a reader of [`CODE_VERSION`].
    fn pack(&mut self, chunk: &Chunk) -> Result<(ChunkHead, bool), Error> {
        let Self { encoder, compressor, raw, payload } = self;
        encoder.encode(chunk, raw);
        payload.clear();
        let is_split = pack(compressor, raw, encoder.ends(), payload).map_err(Error::write)?;
        let head = ChunkHead { payload: payload.len() as u32, raw: raw.len() as u32, hash: xxh3_64(raw) };
        Ok((head, is_split))
    }
}

/// Sums of the operands of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marked {
    any: bool,
    instructions: u64,
    references: u64,
}

/// Live objects, for the peak.
#[derive(Debug, Default)]
struct Objects {
    live: FxHashMap<u64, u64>,
    bytes: u64,
    peak: u64,
}

impl<W: Write + Seek> Writer<W> {
    /// The zstd level unless another is asked for.
    pub const DEFAULT_LEVEL: i32 = 6;

    /// Begins a trace at the place where `out` stands.
    pub fn new(out: W, metadata: Metadata) -> Result<Self, Error> {
        Self::with_level(out, metadata, Self::DEFAULT_LEVEL)
    }

    /// Begins a trace, compressed at this zstd level (1 to 19).
    pub fn with_level(mut out: W, metadata: Metadata, level: i32) -> Result<Self, Error> {
        let base = out.stream_position().map_err(Error::write)?;
        out.write_all(&FixedHeader::unfinished().encode()).map_err(Error::write)?;
        Ok(Self {
            out,
            base,
            metadata,
            pages: Pages::new(),
            version: FIRST_VERSION,
            chunk: Chunk::new(),
            offset: FixedHeader::LENGTH as u64,
            index: Vec::new(),
            content: Content::default(),
            marked: Marked::default(),
            marks: Marked::default(),
            totals: Totals::default(),
            objects: Objects::default(),
            told: Told::default(),
            packer: Packer {
                encoder: Encoder::new()?,
                compressor: Compressor::new(level)?,
                raw: Vec::new(),
                payload: Vec::new(),
            },
        })
    }

    /// Where the trace comes from; can be filled in until the end.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// References written so far.
    pub fn records(&self) -> u64 {
        self.chunk.first_record + self.chunk.references.len() as u64
    }

    /// Instructions executed so far, as far as marks tell.
    pub fn instructions(&self) -> u64 {
        self.marks.instructions
    }

    /// What follows is done by the code at this [place](crate::places).
    pub fn code(&mut self, place: u32) {
        if self.told.code == Some(place) {
            return;
        }
        self.told.code = Some(place);
        let now = self.chunk.references.len() as u32;
        match self.chunk.code.last_mut() {
            Some((at, last)) if *at == now => *last = place,
            _ => self.chunk.code.push((now, place)),
        }
    }

    /// What follows happens at this time or later: see [`Sink::time`].
    pub fn time(&mut self, milliseconds: i64) {
        let (first, last) = self.told.times.unwrap_or((milliseconds, i64::MIN));
        if milliseconds > last {
            self.told.times = Some((first, milliseconds));
            change(&mut self.chunk.times, self.chunk.references.len(), milliseconds);
        }
    }

    /// How long objects live that are loaded from here on: see [`Sink::time_to_live`].
    pub fn time_to_live(&mut self, milliseconds: u64) {
        let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
        if milliseconds != self.told.time_to_live.unwrap_or(0) {
            self.told.time_to_live = Some(milliseconds);
            change(&mut self.chunk.times_to_live, self.chunk.references.len(), milliseconds);
        }
    }

    /// A reference to a page number.
    #[inline]
    pub fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        let id = match self.pages.touch(page_number, write) {
            Ok(Touch::Known(id)) => id,
            Ok(Touch::New(id)) => {
                self.chunk.new_pages.push(page_number);
                id
            }
            Err(_) => return Err(Error::too_many_pages()),
        };
        self.totals.runs += u64::from(self.told.last_page != Some(page_number));
        self.told.last_page = Some(page_number);
        self.chunk.references.push(PackedReference::new(id, write));
        if self.chunk.references.len() == CHUNK_REFERENCES { self.flush() } else { Ok(()) }
    }

    /// An object was allocated. An object that is live at the same address is taken to be gone.
    pub fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        self.totals.objects += 1;
        let length = length.min(u64::MAX - address);
        let replaced = self.objects.live.insert(address, length).unwrap_or(0);
        self.objects.bytes = self.objects.bytes.saturating_sub(replaced).saturating_add(length);
        self.objects.peak = self.objects.peak.max(self.objects.bytes);
        self.event(Event::Alloc { address, length, kind })
    }

    /// The object that began at `address` was freed.
    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        self.totals.frees += 1;
        let length = self.objects.live.remove(&address).unwrap_or(0);
        self.objects.bytes = self.objects.bytes.saturating_sub(length);
        self.event(Event::Free { address })
    }

    /// The program's progress since the last mark.
    pub fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        self.marks.any = true;
        self.marks.instructions = self.marks.instructions.saturating_add(instructions);
        self.marks.references = self.marks.references.saturating_add(references);
        self.event(Event::Mark { instructions, references })
    }

    /// A mapping appeared.
    pub fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.totals.maps += 1;
        self.event(Event::Map { first_page, pages: pages.min(u64::MAX - first_page) })
    }

    /// The contents of these pages are gone.
    pub fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.totals.unmaps += 1;
        let dropped = self.pages.unmap(first_page..first_page.saturating_add(pages));
        self.drop_pages(&dropped)
    }

    /// The contents of these pages moved: their ids with them. What was at the target is dropped.
    pub fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        self.totals.remaps += 1;
        let pages = pages.min(u64::MAX - from).min(u64::MAX - to);
        let remapped = self.pages.remap(from, to, pages);
        self.drop_pages(&remapped.dropped)?;
        remapped.moved.into_iter().try_for_each(|(page, to)| self.event(Event::Move { page, to }))
    }

    /// Ascending ids, stored as ranges. A range that continues the event before it is joined to it,
    /// so that the same pages dropped by one call or by several make the same trace.
    fn drop_pages(&mut self, ids: &[u32]) -> Result<(), Error> {
        let now = self.chunk.references.len() as u32;
        for range in ids.chunk_by(|a, b| a + 1 == *b) {
            let (start, end) = (range[0], range[range.len() - 1] + 1);
            match self.chunk.events.last_mut() {
                Some((at, Event::Drop { pages })) if *at == now && pages.end == start => pages.end = end,
                _ => self.event(Event::Drop { pages: start..end })?,
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), Error> {
        // Before, not after: the last event may still grow.
        if self.chunk.events.len() == CHUNK_EVENTS {
            self.flush()?;
        }
        self.totals.events += 1;
        self.chunk.events.push((self.chunk.references.len() as u32, event));
        Ok(())
    }

    /// Writes the chunk, begins the next.
    fn flush(&mut self) -> Result<(), Error> {
        self.chunk.pages = self.pages.ids();
        if self.chunk.code.last().is_some_and(|(at, _)| *at as usize == self.chunk.references.len()) {
            self.chunk.code.pop(); // the next chunk begins with it
        }
        // Likewise; and a chunk that holds only events has no times.
        let references = self.chunk.references.len();
        for times in [&mut self.chunk.times, &mut self.chunk.times_to_live] {
            if times.last().is_some_and(|(at, _)| *at as usize == references) {
                times.pop();
            }
        }
        self.content.chunk(&self.chunk);
        let (head, is_split) = self.packer.pack(&self.chunk)?;
        if is_split || !self.chunk.code.is_empty() {
            self.version = self.version.max(CODE_VERSION);
        }
        if !self.chunk.times.is_empty() || !self.chunk.times_to_live.is_empty() {
            self.version = self.version.max(TIMES_VERSION);
        }
        self.out.write_all(&head.encode()).map_err(Error::write)?;
        self.out.write_all(&self.packer.payload).map_err(Error::write)?;
        self.index.push(IndexEntry {
            offset: self.offset,
            hash: head.hash,
            first_record: self.chunk.first_record,
            instructions: self.marked.instructions,
            references: self.marked.references,
            pages: self.chunk.first_new_page,
            events: self.chunk.events.len() as u32,
        });
        self.offset += (format::CHUNK_HEAD + self.packer.payload.len()) as u64;
        self.marked = self.marks;
        self.chunk.restart(self.records(), self.pages.ids());
        self.chunk.code.extend(self.told.code.map(|place| (0, place)));
        self.chunk.times.extend(self.told.times.map(|(_, time)| (0, time)));
        self.chunk.times_to_live.extend(self.told.time_to_live.map(|time| (0, time)));
        Ok(())
    }

    /// Writes what is left, the index, the metadata and the header.
    pub fn finish(mut self, end: EndTotals) -> Result<(W, Header), Error> {
        if !self.chunk.references.is_empty() || !self.chunk.events.is_empty() {
            self.flush()?;
        }
        let records = self.records();
        let counted = self.marks.any && self.metadata.epochs.is_none();
        let totals = Totals {
            records,
            references: end.references.unwrap_or(records.max(self.marks.references)),
            runs: end.runs.unwrap_or(self.totals.runs),
            // Marks behind epochs say nothing of instructions.
            instructions: end.instructions.or(counted.then_some(self.marks.instructions)),
            distinct_pages: self.pages.touched(),
            page_ids: self.pages.ids(),
            written_pages: self.pages.written(),
            peak_object_bytes: end.peak_object_bytes.unwrap_or(self.objects.peak),
            system_call_touches: end.system_call_touches.unwrap_or(0),
            unmaps: end.unmaps.unwrap_or(self.totals.unmaps),
            remaps: end.remaps.unwrap_or(self.totals.remaps),
            chunks: self.index.len() as u64,
            ..self.totals
        };
        let mut index = Vec::with_capacity(self.index.len() * IndexEntry::LENGTH);
        self.index.iter().for_each(|entry| entry.encode(&mut index));
        self.metadata.times = self.told.times.map(|(first_ms, last_ms)| Times { first_ms, last_ms });
        let metadata = fitting(&mut self.metadata);
        let checksum = self.content.identity();
        let header = FixedHeader {
            version: self.version,
            finished: true,
            totals: totals.clone(),
            index_offset: self.offset,
            index_length: index.len() as u64,
            index_checksum: xxh3_64(&index),
            metadata_length: metadata.len() as u64,
            metadata_checksum: xxh3_64(&metadata),
            content_checksum: checksum,
        };
        self.out.write_all(&index).map_err(Error::write)?;
        self.out.write_all(&metadata).map_err(Error::write)?;
        self.out.seek(SeekFrom::Start(self.base)).map_err(Error::write)?;
        self.out.write_all(&header.encode()).map_err(Error::write)?;
        self.out.seek(SeekFrom::End(0)).map_err(Error::write)?;
        self.out.flush().map_err(Error::write)?;
        Ok((self.out, Header { version: self.version, checksum, totals, metadata: self.metadata }))
    }
}

impl<W: Write + Seek> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("metadata", &self.metadata)
            .field("records", &self.records())
            .field("pages", &self.pages.ids())
            .finish_non_exhaustive()
    }
}

impl<W: Write + Seek> TraceSink for Writer<W> {
    fn metadata_mut(&mut self) -> &mut Metadata {
        Writer::metadata_mut(self)
    }
}

impl<W: Write + Seek> Sink for Writer<W> {
    fn code(&mut self, place: u32) {
        Writer::code(self, place);
    }
    fn time(&mut self, milliseconds: i64) {
        Writer::time(self, milliseconds);
    }
    fn time_to_live(&mut self, milliseconds: u64) {
        Writer::time_to_live(self, milliseconds);
    }
    #[inline]
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        Writer::reference(self, page_number, write)
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        Writer::alloc(self, address, length, kind)
    }
    fn free(&mut self, address: u64) -> Result<(), Error> {
        Writer::free(self, address)
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        Writer::mark(self, instructions, references)
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        Writer::map(self, first_page, pages)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        Writer::unmap(self, first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        Writer::remap(self, from, to, pages)
    }
}
