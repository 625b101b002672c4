//! The inter-reference interval model: a reference string reduced to the moments at which a page's
//! use changes.
//!
//! From R. W. Carr and J. L. Hennessy, *WSCLOCK: A simple and effective algorithm for virtual
//! memory management*, SOSP 1981. Their simulations ran on such strings, which were about 600 times
//! shorter than the references they stand for.
//!
//! # States
//! At every virtual time, a page is in one of three states. `omega` references are the measure of
//! "long":
//!
//! * [`Idle`](PageState::Idle) within an interval of `omega` or more references that do not touch
//!   it;
//! * [`Clean`](PageState::Clean) when not idle, within an interval of `omega` or more references
//!   that do not write to it;
//! * [`Dirty`](PageState::Dirty) otherwise.
//!
//! A [`Transition`] says from when on a page is in a state. Every page is idle at time 0. To find a
//! state, the model looks ahead. The change to `Idle` lies at the *beginning* of the interval,
//! right after the last reference before it. The change from `Dirty` to `Clean` lies right after
//! the last write before the interval.
//!
//! ```text
//!                        a read                               a write
//!        Idle ──────────────────────────▶ Clean ──────────────────────────▶ Dirty
//!          ▲   ◀─── last read before ────┘   ◀──── last write before ──────┘  │
//!          │        omega without page             omega without a write      │
//!          └───────────── last write before omega without the page ───────────┘      (a write: Idle to Dirty)
//! ```
//!
//! "An interval of omega or more references without the page" between its references number i and j
//! means j - i - 1 >= omega. After the last reference there is always such an interval.
//!
//! # Time
//! Virtual time counts references, as [`VirtualTime`] maps records to them. It is exact if the
//! trace holds every reference (window 0). Otherwise references are spread evenly between marks. A
//! trace that was reduced to a window of many pages lacks references that this model looks for, so
//! a page can seem idle when its references were only left out.
//!
//! # Dropped contents
//! When a mapping goes away ([`Event::Drop`]), a page's life ends. The page is idle from its last
//! reference before that, as at the end of the string. A later reference to the page number begins
//! a new life with a transition from `Idle`. [`Irim::drops`] says when the contents went. From then
//! on there is nothing to keep, to write back or to read.
//!
//! # Use
//! A simulation treats a page that is not idle as referenced all the time, and a dirty page as
//! written all the time. A transition from `Idle` on a page that is not in memory is a fault. This
//! is valid for policies that look back much further than `omega`.
//!
//! # Cost
//! One pass; a few steps a reference, 24 bytes a page and 16 bytes a transition. The transitions
//! are sorted at the end, because the model finds a transition later than it takes effect.
//!
//! # The `.irim` format, version 1
//! This is not a kind of `.swt`: a string is a few kilobytes, is always read as a whole, and needs
//! neither chunks nor an index nor page numbers. All integers are little-endian; "varint" is LEB128
//! in its shortest form.
//!
//! ```text
//! header    0 magic, 8 u32 version, 12 u32 header length (112), then u64: 16 omega, 24 references, 32 records of the
//!           trace, 40 checksum of the trace, 48 pages, 56 transitions, 64 drops, 72 metadata length, 80 payload length,
//!           88 raw length, 96 xxh3-64 of metadata and payload, 104 xxh3-64 of bytes 0 to 103
//! metadata  JSON, the trace's own
//! payload   a zstd frame of the raw bytes, which end the file:
//!             each transition: varint time less that of the one before, varint page << 2 | state (0 idle, 1 clean, 2 dirty)
//!             each drop: varint time less that of the one before, varint first page, varint number of pages - 1
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::bytes::read_error;
use crate::varint::{self, put};
use crate::{Chunk, Error, Event, MAX_PAGES, Metadata, Trace, VirtualTime};

/// First bytes of every file.
pub const MAGIC: [u8; 8] = *b"\x89IRM\r\n\x1a\n";

/// The version of the format this library writes, and the only one there is to read.
pub const VERSION: u32 = 1;

const HEADER: usize = 112;
const CHECKED: usize = HEADER - 8;
/// No metadata is longer.
const MAX_METADATA: u64 = crate::format::MAX_METADATA;
const LEVEL: i32 = 19;

/// What use is made of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum PageState {
    /// None for at least omega references.
    Idle = 0,
    /// It is read at least every omega references, and not written for at least as many.
    Clean = 1,
    /// It is written at least every omega references.
    Dirty = 2,
}

impl PageState {
    fn from_code(code: u64) -> Option<Self> {
        [Self::Idle, Self::Clean, Self::Dirty].get(usize::try_from(code).ok()?).copied()
    }
}

/// A page changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// Virtual time from which the state holds: references completed before it.
    pub time: u64,
    /// The page's dense id, as in the trace.
    pub page: u32,
    /// Its state from then on; another one than before.
    pub state: PageState,
}

/// The contents of pages are given up (munmap and the like).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageDrop {
    /// Virtual time at which: references completed before it.
    pub time: u64,
    /// The pages' dense ids; never empty. All of them are idle.
    pub pages: Range<u32>,
}

/// An IRIM string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Irim {
    /// How many references are a long time.
    pub omega: u64,
    /// References it stands for: the virtual time at its end.
    pub references: u64,
    /// Page ids in use: every page is below this.
    pub pages: u32,
    /// In the order of time. Of two at one time the end of a state, which belongs to the reference
    /// before, comes first; then the one that the reference at this time makes.
    pub transitions: Vec<Transition>,
    /// In the order of time. At one time, a drop comes after an end of a state and before what a
    /// reference makes.
    pub drops: Vec<PageDrop>,
    /// Records of the trace it was made from.
    pub records: u64,
    /// Checksum of that trace: its identity.
    pub source_checksum: u64,
    /// Metadata of that trace.
    pub metadata: Metadata,
}

impl Irim {
    /// Makes the string of a trace.
    ///
    /// # Errors
    /// [`Error::NoWrites`] if the trace has no write flags, [`Error::WholeObjects`] if its pages
    /// are none, and what reading the trace says.
    pub fn from_trace(trace: &Trace, omega: u64) -> Result<Self, Error> {
        Self::with_progress(trace, omega, &mut |_| {})
    }

    /// As [`Irim::from_trace`]; `progress` is called after every chunk with the number of records
    /// so far.
    ///
    /// # Errors
    /// As [`Irim::from_trace`].
    pub fn with_progress(trace: &Trace, omega: u64, progress: &mut dyn FnMut(u64)) -> Result<Self, Error> {
        let header = trace.header();
        trace.check_pages()?;
        if header.totals.written_pages == 0 {
            return Err(Error::no_writes().in_file(trace.name()));
        }
        let time = VirtualTime::of(trace)?;
        // The usual case compiles to a subtraction.
        let (transitions, drops) = if time.is_exact() {
            transitions(trace, omega, |record| record, progress)?
        } else {
            transitions(trace, omega, time.forward(), progress)?
        };
        Ok(Self {
            omega,
            references: time.total(),
            pages: header.totals.page_ids,
            transitions,
            drops,
            records: header.totals.records,
            source_checksum: header.checksum,
            // A string has no objects, so it has no use for the places where they were made.
            metadata: Metadata { places: None, contents: None, ..header.metadata.clone() },
        })
    }

    /// References a transition stands for: how much shorter the string is.
    #[must_use]
    pub fn reduction(&self) -> f64 {
        self.references as f64 / self.transitions.len().max(1) as f64
    }

    /// Whether a file with these first bytes is meant to be an IRIM string.
    #[must_use]
    pub fn recognise(head: &[u8]) -> bool {
        head.starts_with(&MAGIC[..4])
    }

    /// Writes it to a file of its own format.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&self, mut out: impl Write) -> Result<(), Error> {
        let mut raw = Vec::new();
        let mut before = 0;
        for Transition { time, page, state } in &self.transitions {
            put(&mut raw, time - before);
            put(&mut raw, u64::from(*page) << 2 | *state as u64);
            before = *time;
        }
        let mut before = 0;
        for PageDrop { time, pages } in &self.drops {
            put(&mut raw, time - before);
            put(&mut raw, pages.start.into());
            put(&mut raw, u64::from(pages.end - pages.start) - 1);
            before = *time;
        }
        let payload = zstd::bulk::compress(&raw, LEVEL).map_err(Error::write)?;
        let metadata = serde_json::to_vec(&self.metadata).expect("metadata is plain data");
        let header = FixedHeader {
            omega: self.omega,
            references: self.references,
            records: self.records,
            source_checksum: self.source_checksum,
            pages: self.pages.into(),
            transitions: self.transitions.len() as u64,
            drops: self.drops.len() as u64,
            metadata: metadata.len() as u64,
            payload: payload.len() as u64,
            raw: raw.len() as u64,
            checksum: checksum(&metadata, &payload),
        };
        [&header.encode()[..], &metadata, &payload]
            .iter()
            .try_for_each(|part| out.write_all(part))
            .and_then(|()| out.flush())
            .map_err(Error::write)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Whatever is wrong with it, in one line with the file's name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        File::open(path).map_err(Error::from).and_then(Self::read).map_err(|error| error.in_file(path))
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// Whatever is wrong with it, and where.
    pub fn read(mut reader: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Self::from_bytes(&bytes)
    }

    /// A string held in memory.
    ///
    /// # Errors
    /// Whatever is wrong with it, and where.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let header = FixedHeader::decode(bytes)?;
        let length = header.metadata.checked_add(header.payload).and_then(|n| n.checked_add(HEADER as u64));
        let length = length.ok_or_else(|| Error::damaged(72, "the header's lengths are absurd"))?;
        let here = bytes.len() as u64;
        if here < length {
            return Err(Error::truncated(here, format!("of {length}")));
        }
        if here > length {
            return Err(Error::damaged(length, "the string is over, and more follows"));
        }
        let body = HEADER + header.metadata as usize;
        let (metadata, payload) = (&bytes[HEADER..body], &bytes[body..]);
        if checksum(metadata, payload) != header.checksum {
            return Err(Error::damaged(HEADER as u64, "the checksum of metadata and payload is wrong"));
        }
        let metadata: Metadata = serde_json::from_slice(metadata).map_err(|error| {
            Error::damaged(HEADER as u64, format!("the metadata cannot be read: {error}"))
        })?;
        let raw = decompress(payload, header.raw).map_err(|error| match error {
            Error::Damaged { reason, .. } => Error::damaged(body as u64, reason),
            other => other,
        })?;
        let (transitions, drops) =
            decode(&raw, &header).map_err(|reason| Error::damaged(body as u64, reason))?;
        Ok(Self {
            omega: header.omega,
            references: header.references,
            pages: header.pages as u32,
            transitions,
            drops,
            records: header.records,
            source_checksum: header.source_checksum,
            metadata,
        })
    }
}

/// What is known of a page so far. Moments are boundaries between records: number i lies before
/// record i.
#[derive(Clone, Debug)]
struct PageHistory {
    state: PageState,
    /// Right after the last reference.
    referenced: u64,
    /// Right after the last write.
    written: u64,
}

const UNUSED: PageHistory = PageHistory { state: PageState::Idle, referenced: 0, written: 0 };

/// A transition whose place in the string is found later.
struct Found {
    /// Boundary << 1, plus 1 if a reference makes it rather than ends before it. No two have the
    /// same: a reference makes at most one transition and ends at most one state.
    order: u64,
    page: u32,
    state: PageState,
}

struct Generator<T> {
    omega: u64,
    time: T,
    pages: Vec<PageHistory>,
    found: Vec<Found>,
}

impl<T: Fn(u64) -> u64> Generator<T> {
    /// Record number `now`.
    #[inline]
    fn reference(&mut self, now: u64, page: u32, write: bool) {
        let history = &self.pages[page as usize];
        if history.state != PageState::Idle && self.is_long(history.referenced, now) {
            self.end_use(page);
        }
        let history = &self.pages[page as usize];
        let enters = match (history.state, write) {
            (PageState::Idle, false) => Some(PageState::Clean),
            (PageState::Idle | PageState::Clean, true) => Some(PageState::Dirty),
            (PageState::Dirty, true) if self.is_long(history.written, now) => {
                let since = history.written;
                self.found.push(Found { order: since << 1, page, state: PageState::Clean });
                Some(PageState::Dirty)
            }
            _ => None,
        };
        let history = &mut self.pages[page as usize];
        if let Some(state) = enters {
            history.state = state;
            self.found.push(Found { order: now << 1 | 1, page, state });
        }
        history.referenced = now + 1;
        if write {
            history.written = now + 1;
        }
    }

    fn is_long(&self, from: u64, to: u64) -> bool {
        (self.time)(to) - (self.time)(from) >= self.omega
    }

    /// The page was not touched again after its last reference, or for a long time.
    fn end_use(&mut self, page: u32) {
        let history = &mut self.pages[page as usize];
        let PageHistory { state, referenced, written } = *history;
        history.state = PageState::Idle;
        if state == PageState::Dirty && written < referenced {
            self.found.push(Found { order: written << 1, page, state: PageState::Clean });
        }
        if state != PageState::Idle {
            self.found.push(Found { order: referenced << 1, page, state: PageState::Idle });
        }
    }
}

/// Makes the transitions and drops of a trace; `time` gives the virtual time of a boundary between
/// records.
fn transitions(
    trace: &Trace,
    omega: u64,
    time: impl Fn(u64) -> u64,
    progress: &mut dyn FnMut(u64),
) -> Result<(Vec<Transition>, Vec<PageDrop>), Error> {
    let mut generator = Generator { omega, time, pages: Vec::new(), found: Vec::new() };
    let mut drops = Vec::new();
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        generator.pages.resize(chunk.pages as usize, UNUSED);
        let mut done = 0;
        let mut references = |generator: &mut Generator<_>, end: usize| {
            for (at, reference) in chunk.references.iter().enumerate().take(end).skip(done) {
                generator.reference(chunk.first_record + at as u64, reference.page(), reference.is_write());
            }
            done = end;
        };
        for (at, event) in &chunk.events {
            if let Event::Drop { pages } = event {
                references(&mut generator, *at as usize);
                pages.clone().for_each(|page| generator.end_use(page));
                let time = (generator.time)(chunk.first_record + u64::from(*at));
                drops.push(PageDrop { time, pages: pages.clone() });
            }
        }
        references(&mut generator, chunk.references.len());
        progress(chunk.first_record + chunk.references.len() as u64);
    }
    (0..generator.pages.len()).for_each(|page| generator.end_use(page as u32));
    let Generator { mut found, time, .. } = generator;
    found.sort_unstable_by_key(|found| found.order);
    let transition = |Found { order, page, state }| Transition { time: time(order >> 1), page, state };
    Ok((found.into_iter().map(transition).collect(), drops))
}

/// The header as it stands in the file.
struct FixedHeader {
    omega: u64,
    references: u64,
    records: u64,
    source_checksum: u64,
    pages: u64,
    transitions: u64,
    drops: u64,
    metadata: u64,
    payload: u64,
    raw: u64,
    checksum: u64,
}

impl FixedHeader {
    fn encode(&self) -> [u8; HEADER] {
        let words = [
            self.omega,
            self.references,
            self.records,
            self.source_checksum,
            self.pages,
            self.transitions,
            self.drops,
            self.metadata,
            self.payload,
            self.raw,
            self.checksum,
        ];
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER as u32).to_le_bytes());
        for (at, word) in bytes[16..CHECKED].chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let shown = bytes.len().min(MAGIC.len());
        if bytes.is_empty() {
            return Err(Error::empty());
        }
        if bytes[..shown] != MAGIC[..shown] {
            return Err(Error::damaged(0, "an IRIM string begins with other bytes"));
        }
        let Some(bytes) = bytes.first_chunk::<HEADER>() else {
            return Err(Error::truncated(bytes.len() as u64, "inside the header"));
        };
        let (fours, _) = bytes[8..16].as_chunks::<4>();
        let [version, length] = [0, 1].map(|i: usize| u32::from_le_bytes(fours[i]));
        if version != VERSION {
            return Err(Error::version(version, VERSION));
        }
        let (words, _) = bytes[16..].as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        if length != HEADER as u32 || xxh3_64(&bytes[..CHECKED]) != word(11) {
            return Err(Error::damaged(0, "the header's checksum is wrong"));
        }
        let header = Self {
            omega: word(0),
            references: word(1),
            records: word(2),
            source_checksum: word(3),
            pages: word(4),
            transitions: word(5),
            drops: word(6),
            metadata: word(7),
            payload: word(8),
            raw: word(9),
            checksum: word(10),
        };
        // A transition takes two bytes or more, a drop three.
        let least = header.transitions.checked_mul(2).zip(header.drops.checked_mul(3));
        let sound = least
            .and_then(|(transitions, drops)| transitions.checked_add(drops))
            .is_some_and(|least| least <= header.raw)
            && header.pages <= MAX_PAGES.into()
            && header.metadata <= MAX_METADATA;
        if sound { Ok(header) } else { Err(Error::damaged(0, "the header contradicts itself")) }
    }
}

fn checksum(metadata: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(metadata);
    hash.update(payload);
    hash.digest()
}

/// Takes no more memory than there turn out to be bytes, nor more than one byte too many.
fn decompress(payload: &[u8], length: u64) -> Result<Vec<u8>, Error> {
    let mut raw = Vec::new();
    zstd::stream::read::Decoder::with_buffer(payload)?
        .take(length.saturating_add(1))
        .read_to_end(&mut raw)
        .map_err(|error| read_error(error, 0))?;
    if raw.len() as u64 == length { Ok(raw) } else { Err(Error::damaged(0, "the payload's length is wrong")) }
}

/// The raw bytes, of which nothing is believed: times are within the string, pages are there, every
/// transition changes the state of its page.
fn decode(raw: &[u8], header: &FixedHeader) -> Result<(Vec<Transition>, Vec<PageDrop>), &'static str> {
    let mut at = 0;
    let mut number = || varint::get_shortest(raw, &mut at).map_err(|_| "a number is cut off or too long");
    let later = |time: u64, by: u64| {
        let time = time.checked_add(by).filter(|time| *time <= header.references);
        time.ok_or("a time after the end of the string")
    };
    // Their number was checked against the raw length.
    let mut transitions = Vec::with_capacity(header.transitions as usize);
    // Grows with the pages in use, whatever the header says.
    let mut states = Vec::new();
    let mut time = 0;
    for _ in 0..header.transitions {
        time = later(time, number()?)?;
        let code = number()?;
        let state = PageState::from_code(code & 3).ok_or("a state that no page has")?;
        let page = code >> 2;
        // Ids are given out by first touch, and a first touch is a transition.
        if page == states.len() as u64 && page < header.pages {
            states.push(PageState::Idle);
        }
        let before = usize::try_from(page).ok().and_then(|page| states.get_mut(page));
        if std::mem::replace(before.ok_or("a page id that no page has, or not yet")?, state) == state {
            return Err("a transition that changes nothing");
        }
        transitions.push(Transition { time, page: page as u32, state });
    }
    let mut drops = Vec::with_capacity(header.drops as usize);
    let mut time = 0;
    for _ in 0..header.drops {
        time = later(time, number()?)?;
        let start = number()?;
        let end = number()?.checked_add(start).and_then(|last| last.checked_add(1));
        let end = end.filter(|end| *end <= header.pages).ok_or("a page id that no page has")?;
        drops.push(PageDrop { time, pages: start as u32..end as u32 });
    }
    if states.len() as u64 != header.pages {
        return Err("fewer pages than the header says");
    }
    if at == raw.len() { Ok((transitions, drops)) } else { Err("bytes left over at the end") }
}

/// Takes `data` as the raw bytes of a string, which no checksum guards, and its first bytes as the
/// header's counts. What is not refused is written, and read again as it was.
pub(crate) fn fuzz(data: &[u8]) {
    let Some(([references, pages, transitions, drops], raw)) = data.split_first_chunk() else { return };
    let header = FixedHeader {
        omega: 1,
        references: u64::from(*references) << 8,
        records: 0,
        source_checksum: 0,
        pages: u64::from(*pages),
        transitions: u64::from(*transitions),
        drops: u64::from(*drops),
        metadata: 0,
        payload: 0,
        raw: raw.len() as u64,
        checksum: 0,
    };
    if let Ok((transitions, drops)) = decode(raw, &header) {
        let string = Irim {
            omega: header.omega,
            references: header.references,
            pages: header.pages as u32,
            transitions,
            drops,
            records: 0,
            source_checksum: 0,
            metadata: Metadata::default(),
        };
        let mut file = Vec::new();
        string.write(&mut file).expect("memory does not fail");
        assert_eq!(Irim::from_bytes(&file).expect("what was written can be read"), string);
    }
}
