//! The `.swt` format, versions 1 to 3: fixed header, chunks, index, metadata.
//!
//! # Why not PGTR
//! PGTR, the recorder's stream, is one chain of differences between page *addresses*. That is right
//! for a pipe, and wrong for a file that is simulated over and over: every reference costs a
//! hash-table look-up before a simulation can begin, and no part can be read without everything
//! before it. Here pages are **dense ids**, numbered by first touch, so a simulation indexes arrays
//! and hashes nothing; columns are stored apart, so decoding is a loop a compiler vectorises; and
//! chunks decode independently, so a reader can seek and several threads can read at once. PGTR
//! stays what the recorder sends and a format to import.
//!
//! # Layout
//! All integers are little-endian. The file is, without gaps and to its last byte:
//!
//! ```text
//! header     208 bytes, see `FixedHeader`; patched in when the writer finishes
//! chunks     each: u32 payload length, u32 raw length, u64 xxh3-64 of the raw bytes, payload (zstd frames)
//! index      48 bytes a chunk, see `IndexEntry`
//! metadata   JSON, see `Metadata`; last because how a recording ended is known last. Fields that a
//!            reader does not know are ignored. Older readers ignore places so.
//! ```
//!
//! The metadata may have the part `contents`: what a sample of the program's pages contained.
//! Counts there that contradict each other are damage, see `contents.rs`.
//!
//! Header, index and metadata have checksums in the header, raw chunks in the index. The header's
//! *content checksum* is the trace's identity: a hash of the references and events themselves
//! (`content.rs`), so that compression level, cut into chunks and choice of encoding do not show in
//! it. A header whose "finished" flag is not set belongs to a file whose writer died.
//!
//! # Header and index
//! ```text
//! header   0 magic, 8 u32 version, 12 u32 header length (208), 16 u32 flags (bit 0: finished), 20 u32 0, then
//!          u64: 24 records, 32 references, 40 runs, 48 instructions (2^64 - 1: unknown), 56 distinct pages,
//!          64 page ids, 72 written pages, 80 objects, 88 frees, 96 peak object bytes, 104 system-call touches,
//!          112 maps, 120 unmaps, 128 remaps, 136 events, 144 chunks, 152 index offset, 160 index length,
//!          168 index checksum, 176 metadata length, 184 metadata checksum, 192 content checksum, 200 xxh3-64
//!          of bytes 0 to 199
//! entry    u64: 0 offset of the chunk, 8 its checksum, 16 its first record, 24 instructions and 32 references
//!          before it (from marks); u32: 40 page ids in use before it, 44 events in it
//! ```
//!
//! # A raw chunk
//! At most [`CHUNK_REFERENCES`] references and [`CHUNK_EVENTS`] events. "Varint" is LEB128 in its
//! shortest form; anything longer is damage.
//!
//! ```text
//! varint     n, the number of references
//! byte       bits 0-2: p, the number of byte planes (0 to 4, as few as hold the largest value)
//!            bit 3: page ids are stored as they are, not as differences
//!            bit 4: there is a column of write flags (there is none if nothing is written)
//!            bit 5: there is a column of code, from version 2 on
//!            bit 6: there is a column of times, from version 3 on
//!            bit 7: there is a column of times to live, from version 3 on
//! varint     number of pages first used in this chunk
//! varint     number of events
//! p * n      page ids: differences to the previous reference's id (0 before the first), zig-zag coded to
//!            u32, as byte planes: all low bytes, then all second bytes, ...
//! ceil(n/8)  write flags, if bit 4: bit i % 8 of byte i / 8
//! varints    page numbers of the new ids, in the order of the ids: zig-zag differences (0 before the first)
//! events     each: varint references of this chunk before it, less those before the previous event;
//!            byte kind; operands as varints
//!              0 Alloc  address, length, kind      3 Map   first page, pages
//!              1 Free   address                    4 Drop  first id, number of ids - 1
//!              2 Mark   instructions, references   5 Move  id, page number
//! times      if bit 6: varint bytes of the rest of the column; varint number of changes, at least 1; then
//!            each change: varint references of this chunk before it, less those before the previous
//!            change; the milliseconds from there on, as a zig-zag difference (0 before the first). Times
//!            never go back.
//! lives      if bit 7: the same, with the milliseconds that an object lives if it is loaded by a reference
//!            from there on; 0: for ever
//! code       if bit 5: varint number of changes, at least 1; then each change: varint references of this
//!            chunk before it, less those before the previous change; varint number of the place (see
//!            `Places` in the metadata) of the code that makes the references from there on. Those
//!            before the first change are by code that is not known.
//! ```
//!
//! Byte planes because zstd then sees the low bytes apart from the high ones, which are nearly
//! always zero, and because putting them together again is a loop without branches. Per chunk the
//! writer looks at a sample and stores plain ids where those are likely to compress better (random
//! references to a small set).
//!
//! # Versions
//! 1. The first. The payload of a chunk is one zstd frame.
//! 2. The payload of a chunk may be several zstd frames, one after another. All of them together
//!    are the raw chunk. And a chunk may have a column of code; the content checksum leaves it out.
//! 3. A chunk may have columns of times and of times to live, for what depends on them; the content
//!    checksum leaves them out.
//!
//! A file has the first version that says all that is in it, so that older readers refuse only what
//! they cannot read.

use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Totals};

/// First bytes of every file. Like PNG's, they show what a text-mode transfer did to the rest.
pub const MAGIC: [u8; 8] = *b"\x89SWT\r\n\x1a\n";

/// The latest version of the format. Files of all versions are read.
pub const VERSION: u32 = 3;

/// The version of a file that needs no later one.
pub(crate) const FIRST_VERSION: u32 = 1;

/// The version that has chunks of several frames, and code.
pub(crate) const CODE_VERSION: u32 = 2;

/// The version that has times.
pub(crate) const TIMES_VERSION: u32 = 3;

/// Most references in a chunk.
pub const CHUNK_REFERENCES: usize = 1 << 18;

/// Most events in a chunk.
pub const CHUNK_EVENTS: usize = 1 << 16;

/// Bytes before a chunk's payload.
pub(crate) const CHUNK_HEAD: usize = 16;

/// No raw chunk is longer: every column at its longest, rounded up. What a damaged length can make
/// a reader allocate.
pub(crate) const MAX_RAW: usize = 16 << 20;

/// No metadata is longer. A large program has some hundred thousand places.
pub(crate) const MAX_METADATA: u64 = 128 << 20;

const FLAG_FINISHED: u32 = 1;

/// The header as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedHeader {
    pub(crate) version: u32,
    pub(crate) finished: bool,
    pub(crate) totals: Totals,
    pub(crate) index_offset: u64,
    pub(crate) index_length: u64,
    pub(crate) index_checksum: u64,
    pub(crate) metadata_length: u64,
    pub(crate) metadata_checksum: u64,
    pub(crate) content_checksum: u64,
}

/// `instructions` where they are not known.
const UNKNOWN: u64 = u64::MAX;

impl FixedHeader {
    pub(crate) const LENGTH: usize = 208;
    const CHECKED: usize = Self::LENGTH - 8;

    /// What stands at the front of a file that is still being written.
    pub(crate) fn unfinished() -> Self {
        Self {
            version: FIRST_VERSION,
            finished: false,
            totals: Totals::default(),
            index_offset: 0,
            index_length: 0,
            index_checksum: 0,
            metadata_length: 0,
            metadata_checksum: 0,
            content_checksum: 0,
        }
    }

    pub(crate) fn encode(&self) -> [u8; Self::LENGTH] {
        let t = &self.totals;
        let words = [
            t.records,
            t.references,
            t.runs,
            t.instructions.unwrap_or(UNKNOWN),
            t.distinct_pages,
            u64::from(t.page_ids),
            t.written_pages,
            t.objects,
            t.frees,
            t.peak_object_bytes,
            t.system_call_touches,
            t.maps,
            t.unmaps,
            t.remaps,
            t.events,
            t.chunks,
            self.index_offset,
            self.index_length,
            self.index_checksum,
            self.metadata_length,
            self.metadata_checksum,
            self.content_checksum,
        ];
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&(Self::LENGTH as u32).to_le_bytes());
        bytes[16..20].copy_from_slice(&(if self.finished { FLAG_FINISHED } else { 0 }).to_le_bytes());
        for (at, word) in bytes[24..Self::CHECKED].chunks_exact_mut(8).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..Self::CHECKED]);
        bytes[Self::CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `bytes` begin with the first four bytes of [`MAGIC`]; there may be too few of them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let shown = bytes.len().min(MAGIC.len());
        if bytes[..shown] != MAGIC[..shown] {
            return Err(Error::damaged(
                4,
                "line ends were changed on the way (a transfer in text mode?): copy the original again",
            ));
        }
        let Some(bytes) = bytes.first_chunk::<{ Self::LENGTH }>() else {
            return Err(Error::truncated(bytes.len() as u64, "inside the header"));
        };
        let version = u32_at(bytes, 8);
        if !(FIRST_VERSION..=VERSION).contains(&version) {
            return Err(Error::version(version, VERSION));
        }
        if u32_at(bytes, 12) != Self::LENGTH as u32 || u32_at(bytes, 20) != 0 {
            return Err(Error::damaged(12, "the header's length is wrong"));
        }
        if xxh3_64(&bytes[..Self::CHECKED]) != u64_at(bytes, Self::CHECKED) {
            return Err(Error::damaged(0, "the header's checksum is wrong"));
        }
        let flags = u32_at(bytes, 16);
        if flags & !FLAG_FINISHED != 0 {
            return Err(Error::damaged(16, "the header has flags that no version has"));
        }
        let word = |i: usize| u64_at(bytes, 24 + 8 * i);
        let page_ids = u32::try_from(word(5))
            .ok()
            .filter(|ids| *ids <= crate::MAX_PAGES)
            .ok_or_else(|| Error::damaged(64, "more page ids than a trace can have"))?;
        let totals = Totals {
            records: word(0),
            references: word(1),
            runs: word(2),
            instructions: Some(word(3)).filter(|instructions| *instructions != UNKNOWN),
            distinct_pages: word(4),
            page_ids,
            written_pages: word(6),
            objects: word(7),
            frees: word(8),
            peak_object_bytes: word(9),
            system_call_touches: word(10),
            maps: word(11),
            unmaps: word(12),
            remaps: word(13),
            events: word(14),
            chunks: word(15),
        };
        Ok(Self {
            version,
            finished: flags & FLAG_FINISHED != 0,
            totals,
            index_offset: word(16),
            index_length: word(17),
            index_checksum: word(18),
            metadata_length: word(19),
            metadata_checksum: word(20),
            content_checksum: word(21),
        })
    }

    /// The length the whole file must have.
    pub(crate) fn file_length(&self) -> Option<u64> {
        self.index_offset.checked_add(self.index_length)?.checked_add(self.metadata_length)
    }
}

/// One chunk's entry in the index: where it is, what state the trace is in before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Where the chunk begins in the file.
    pub(crate) offset: u64,
    /// xxh3-64 of its raw bytes.
    pub(crate) hash: u64,
    /// Number of its first reference.
    pub(crate) first_record: u64,
    /// Instructions executed before it, as far as marks tell.
    pub(crate) instructions: u64,
    /// References the program made before it, as far as marks tell.
    pub(crate) references: u64,
    /// Page ids in use before it.
    pub(crate) pages: u32,
    /// Events in it.
    pub(crate) events: u32,
}

impl IndexEntry {
    pub(crate) const LENGTH: usize = 48;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for word in [self.offset, self.hash, self.first_record, self.instructions, self.references] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.pages.to_le_bytes());
        out.extend_from_slice(&self.events.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8; Self::LENGTH]) -> Self {
        Self {
            offset: u64_at(bytes, 0),
            hash: u64_at(bytes, 8),
            first_record: u64_at(bytes, 16),
            instructions: u64_at(bytes, 24),
            references: u64_at(bytes, 32),
            pages: u32_at(bytes, 40),
            events: u32_at(bytes, 44),
        }
    }
}

/// What stands before a chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    pub(crate) payload: u32,
    pub(crate) raw: u32,
    pub(crate) hash: u64,
}

impl ChunkHead {
    pub(crate) fn encode(self) -> [u8; CHUNK_HEAD] {
        let mut bytes = [0; CHUNK_HEAD];
        bytes[..4].copy_from_slice(&self.payload.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.raw.to_le_bytes());
        bytes[8..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; CHUNK_HEAD]) -> Self {
        Self { payload: u32_at(bytes, 0), raw: u32_at(bytes, 4), hash: u64_at(bytes, 8) }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
