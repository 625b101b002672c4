//! Reading traces in our own format. Every other format is converted to it when a trace is opened
//! (`open`), so there is one decoder, and all its input has passed one set of checks.
//!
//! A file is read with positioned reads, so any number of threads can decode chunks of one
//! [`Trace`].
//!
//! Opening a trace checks everything but the chunks: header, index and metadata by their checksums,
//! the length of the file to the byte, the index against the header. Reading a chunk checks the
//! chunk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;
use zstd::bulk::Decompressor;

use crate::chunk::Scratch;
use crate::format::{self, CHUNK_HEAD, CHUNK_REFERENCES, ChunkHead, FixedHeader, IndexEntry};
use crate::replay::Replay;
use crate::{Chunk, Error, Event, Header, Metadata, Sink, Writer, codec};

/// The zstd level of traces that are made in memory.
pub(crate) const MEMORY_LEVEL: i32 = 1;

/// A trace, open for reading from any number of threads. Copies share what they read.
#[derive(Clone, Debug)]
pub struct Trace {
    name: std::path::PathBuf,
    source: Arc<Source>,
    header: Header,
    /// An entry a chunk, and one that says where the last chunk ends.
    index: Vec<IndexEntry>,
}

/// Where the bytes are.
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    fn length(&self) -> Result<u64, Error> {
        Ok(match self {
            Self::File(file) => file.metadata()?.len(),
            Self::Memory(bytes) => bytes.len() as u64,
        })
    }

    /// `length` bytes at `offset`, which are there; `buffer` may be where they are put.
    fn bytes<'a>(&'a self, offset: u64, length: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Error> {
        match self {
            Self::File(file) => {
                buffer.resize(length, 0);
                file.read_exact_at(buffer, offset)?;
                Ok(buffer)
            }
            Self::Memory(bytes) => Ok(&bytes[offset as usize..][..length]),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(file) => file.fmt(f),
            Self::Memory(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

impl Trace {
    /// A file in our own format.
    pub(crate) fn in_file(file: File, name: &Path) -> Result<Trace, Error> {
        Self::native(Source::File(file), name)
    }

    /// Bytes in our own format, as a writer makes them.
    pub(crate) fn in_memory(bytes: Vec<u8>, name: &Path) -> Result<Trace, Error> {
        Self::native(Source::Memory(bytes), name)
    }

    /// Checks header, index and metadata.
    fn native(source: Source, name: &Path) -> Result<Trace, Error> {
        let length = source.length()?;
        let mut buffer = Vec::new();
        let front = length.min(FixedHeader::LENGTH as u64) as usize;
        let fixed = FixedHeader::decode(source.bytes(0, front, &mut buffer)?)?;
        if !fixed.finished {
            return Err(Error::unfinished());
        }
        let wrong = |reason| Error::damaged(0, reason);
        let expected = fixed.file_length().ok_or_else(|| wrong("the header's lengths are absurd"))?;
        if length < expected {
            return Err(Error::truncated(length, format!("of {expected}")));
        }
        if length > expected {
            return Err(Error::damaged(expected, "the trace is over, and more follows"));
        }
        let chunks = fixed.index_length / IndexEntry::LENGTH as u64;
        if fixed.index_length % IndexEntry::LENGTH as u64 != 0
            || chunks != fixed.totals.chunks
            || fixed.index_offset < FixedHeader::LENGTH as u64
            || fixed.metadata_length > format::MAX_METADATA
        {
            return Err(wrong("the header contradicts itself"));
        }

        let bytes = source.bytes(fixed.index_offset, fixed.index_length as usize, &mut buffer)?;
        if xxh3_64(bytes) != fixed.index_checksum {
            return Err(Error::damaged(fixed.index_offset, "the index's checksum is wrong"));
        }
        let (entries, _) = bytes.as_chunks::<{ IndexEntry::LENGTH }>();
        let mut index: Vec<_> = entries.iter().map(IndexEntry::decode).collect();
        index.push(IndexEntry {
            offset: fixed.index_offset,
            hash: 0,
            first_record: fixed.totals.records,
            instructions: 0,
            references: 0,
            pages: fixed.totals.page_ids,
            events: 0,
        });
        check_index(&index, fixed.index_offset)?;

        let at = fixed.index_offset + fixed.index_length;
        let bytes = source.bytes(at, fixed.metadata_length as usize, &mut buffer)?;
        if xxh3_64(bytes) != fixed.metadata_checksum {
            return Err(Error::damaged(at, "the metadata's checksum is wrong"));
        }
        let metadata: Metadata = serde_json::from_slice(bytes)
            .map_err(|error| Error::damaged(at, format!("the metadata cannot be read: {error}")))?;
        if metadata.page_size == 0 {
            return Err(Error::damaged(at, "the metadata gives a page size of 0"));
        }
        let header = Header {
            version: fixed.version,
            checksum: fixed.content_checksum,
            metadata: metadata.completed(&fixed.totals),
            totals: fixed.totals,
        };
        Ok(Trace { name: name.to_owned(), source: Arc::new(source), header, index })
    }

    /// Totals, metadata, checksum.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether its pages are pages of memory, so that faults on them can be counted.
    ///
    /// # Errors
    /// [`Error::WholeObjects`] if they stand for objects of any size.
    pub fn check_pages(&self) -> Result<(), Error> {
        match self.header.metadata.whole_objects {
            true => Err(Error::whole_objects().in_file(&self.name)),
            false => Ok(()),
        }
    }

    /// What errors call it: the path it was opened by.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The same trace under another name.
    #[must_use]
    pub fn with_name(self, name: &Path) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The number of chunks.
    pub fn chunks(&self) -> usize {
        self.index.len() - 1
    }

    /// Number of the first reference of chunk `index`; of the end of the trace if there is no such
    /// chunk.
    pub fn first_record(&self, index: usize) -> u64 {
        self.index[index.min(self.chunks())].first_record
    }

    /// The chunk that holds reference number `record`, if the trace is that long.
    pub fn chunk_of(&self, record: u64) -> Option<usize> {
        let after = self.index.partition_point(|entry| entry.first_record <= record);
        (record < self.header.totals.records).then(|| after - 1)
    }

    /// Instructions executed and references made by the program before chunk `index`, as far as
    /// marks tell.
    pub fn marks_before(&self, index: usize) -> (u64, u64) {
        (self.index[index].instructions, self.index[index].references)
    }

    /// Decodes one chunk into `chunk`, whose former content is replaced. After an error its content
    /// is unspecified. Panics if there is no such chunk.
    pub fn read_chunk(&self, index: usize, chunk: &mut Chunk) -> Result<(), Error> {
        self.decode_chunk(index, chunk).map_err(|error| error.in_file(&self.name))
    }

    fn decode_chunk(&self, index: usize, chunk: &mut Chunk) -> Result<(), Error> {
        let (entry, next) = match &self.index[index..] {
            [entry, next, ..] => (entry, next),
            _ => panic!("chunk {index} of {}", self.chunks()),
        };
        let wrong = |reason: &str| Error::damaged(entry.offset, format!("chunk {index}: {reason}"));
        // All references are overwritten: they need not be made anew.
        let references = std::mem::take(&mut chunk.references);
        chunk.restart(entry.first_record, entry.pages);
        chunk.references = references;
        let Scratch { mut stored, mut raw, mut decompressor } = std::mem::take(&mut chunk.scratch);
        let result = (|| {
            // `check_index` has seen to it that this is a sensible length.
            let length = (next.offset - entry.offset) as usize;
            let bytes = self.source.bytes(entry.offset, length, &mut stored)?;
            let (head, payload) = bytes.split_first_chunk::<CHUNK_HEAD>().expect("checked with the index");
            let head = ChunkHead::decode(head);
            if head.payload as usize != payload.len()
                || head.hash != entry.hash
                || head.raw as usize > format::MAX_RAW
            {
                return Err(wrong("its head contradicts the index"));
            }
            raw.clear();
            raw.reserve(head.raw as usize);
            let decompressor = match &mut decompressor {
                Some(decompressor) => decompressor,
                none => none.insert(Decompressor::new()?),
            };
            let written = decompressor
                .decompress_to_buffer(payload, &mut raw)
                .map_err(|error| wrong(&format!("zstd: {error}")))?;
            if written != head.raw as usize {
                return Err(wrong("its length is wrong"));
            }
            if xxh3_64(&raw) != entry.hash {
                return Err(wrong("its checksum is wrong"));
            }
            codec::decode(&raw, chunk).map_err(|malformed| wrong(malformed.0))?;
            if chunk.references.len() as u64 != next.first_record - entry.first_record
                || chunk.pages != next.pages
                || chunk.events.len() != entry.events as usize
            {
                return Err(wrong("it has other counts than the index"));
            }
            Ok(())
        })();
        chunk.scratch = Scratch { stored, raw, decompressor };
        result
    }

    /// Which code makes the references of a chunk, which is chunk `index` of this trace: see
    /// [`Chunk::code`].
    pub fn code(&self, index: usize, chunk: &Chunk) -> Result<Vec<(u32, u32)>, Error> {
        chunk.code().map_err(|reason| self.damaged_chunk(index, reason))
    }

    fn damaged_chunk(&self, index: usize, reason: &str) -> Error {
        let reason = format!("chunk {index}: {reason}");
        Error::damaged(self.index[index].offset, reason).in_file(&self.name)
    }

    /// When the references of a chunk were made, which is chunk `index` of this trace: see
    /// [`Chunk::times`].
    pub fn times(&self, index: usize, chunk: &Chunk) -> Result<Vec<(u32, i64)>, Error> {
        chunk.times().map_err(|reason| self.damaged_chunk(index, reason))
    }

    /// How long objects live that the references of a chunk load, which is chunk `index` of this
    /// trace: see [`Chunk::times_to_live`].
    pub fn times_to_live(&self, index: usize, chunk: &Chunk) -> Result<Vec<(u32, i64)>, Error> {
        chunk.times_to_live().map_err(|reason| self.damaged_chunk(index, reason))
    }

    /// Every change of the time, with the record that it begins at, in order; none if the trace has
    /// no times. Decodes everything.
    pub fn for_each_time(&self, each: &mut dyn FnMut(u64, i64)) -> Result<(), Error> {
        let mut chunk = Chunk::new();
        for index in (0..self.chunks()).filter(|_| self.header.metadata.times.is_some()) {
            self.read_chunk(index, &mut chunk)?;
            let times = self.times(index, &chunk)?;
            times.iter().for_each(|(at, time)| each(chunk.first_record + u64::from(*at), *time));
        }
        Ok(())
    }

    /// Repeats what the program did into `sink`. `progress` is called after every chunk with the
    /// number of references so far.
    pub fn replay(&self, sink: &mut impl Sink, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        sink.reduced_to(self.header.metadata.window);
        let mut replay = Replay::default();
        let mut chunk = Chunk::new();
        for index in 0..self.chunks() {
            self.read_chunk(index, &mut chunk)?;
            replay
                .chunk(&chunk, sink)
                .map_err(|error| {
                    error.unwrap_or_else(|reason| Error::damaged(self.index[index].offset, reason))
                })
                .map_err(|error| error.in_file(&self.name))?;
            progress(self.index[index + 1].first_record);
        }
        Ok(())
    }

    /// Decodes everything and writes it again, to nowhere: the new trace must be the same as this
    /// one, down to its checksum and to every total that can be counted.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let mut writer = Writer::with_level(Nowhere::default(), self.header.metadata.clone(), MEMORY_LEVEL)?;
        self.replay(&mut writer, progress)?;
        let (_, again) = writer.finish(crate::EndTotals::default())?;
        let (old, new) = (&self.header.totals, &again.totals);
        let counted = |t: &crate::Totals| {
            [
                t.records,
                t.distinct_pages,
                t.page_ids.into(),
                t.written_pages,
                t.objects,
                t.frees,
                t.maps,
                t.events,
            ]
        };
        if counted(old) != counted(new) {
            let names = [
                "references",
                "distinct pages",
                "page ids",
                "written pages",
                "objects",
                "frees",
                "maps",
                "events",
            ];
            let (name, old, new) = (0..names.len())
                .map(|i| (names[i], counted(old)[i], counted(new)[i]))
                .find(|(_, old, new)| old != new)
                .expect("they differ");
            let reason = format!("the header counts {old} {name}, the chunks {new}");
            return Err(Error::damaged(0, reason).in_file(&self.name));
        }
        if again.checksum != self.header.checksum {
            let reason = "its content is not what a writer would have written";
            return Err(Error::damaged(0, reason).in_file(&self.name));
        }
        Ok(())
    }

    /// Every event of the trace with its record number, in order; for reports. Decodes everything.
    pub fn for_each_event(&self, each: &mut dyn FnMut(u64, &Event)) -> Result<(), Error> {
        let mut chunk = Chunk::new();
        for index in (0..self.chunks()).filter(|index| self.index[*index].events > 0) {
            self.read_chunk(index, &mut chunk)?;
            chunk.events.iter().for_each(|(at, event)| each(chunk.first_record + u64::from(*at), event));
        }
        Ok(())
    }
}

/// Chunks follow each other without gaps, and everything counted before a chunk only grows. The
/// last entry is the end.
fn check_index(index: &[IndexEntry], at: u64) -> Result<(), Error> {
    let start = IndexEntry {
        offset: FixedHeader::LENGTH as u64,
        hash: 0,
        first_record: 0,
        instructions: 0,
        references: 0,
        pages: 0,
        events: 0,
    };
    let first = &index[0];
    let sound = first.offset == start.offset
        && first.first_record == 0
        && first.pages == 0
        && index.windows(2).all(|pair| {
            let (this, next) = (&pair[0], &pair[1]);
            let length = next.offset.checked_sub(this.offset);
            let references = next.first_record.checked_sub(this.first_record);
            length.is_some_and(|length| {
                (CHUNK_HEAD as u64..=(CHUNK_HEAD + 2 * format::MAX_RAW) as u64).contains(&length)
            }) && references.is_some_and(|references| references <= CHUNK_REFERENCES as u64)
                && this.pages <= next.pages
        });
    if sound { Ok(()) } else { Err(Error::damaged(at, "the index contradicts itself")) }
}

/// Takes everything, keeps nothing.
#[derive(Debug, Default)]
struct Nowhere(u64);

impl std::io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for Nowhere {
    fn seek(&mut self, _to: std::io::SeekFrom) -> std::io::Result<u64> {
        Ok(self.0)
    }
}
