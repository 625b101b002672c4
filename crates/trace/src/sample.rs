//! A trace of some of a trace's pages: every reference to them, and none to others.
//!
//! Only a hash of a page's id decides whether the page is in the sample (spatial sampling: C. A.
//! Waldspurger et al., "Efficient MRC construction with SHARDS", USENIX FAST 2015). The sample has
//! either all references to a page or none. So it goes through the program's phases as the whole
//! trace does, with proportionally fewer pages between two references to a page.
//!
//! Ids count up by first touch, also in the sample: a page's new id is the number of sampled pages
//! with a smaller id, and ranges of ids stay ranges. Everything that is not about pages (objects,
//! mappings, marks) is left out.

use std::io::Cursor;
use std::ops::Range;

use crate::replay::Replay;
use crate::{Chunk, EndTotals, Error, Event, Metadata, PackedReference, Trace, Writer};

/// The zstd level of a sample, which is kept in memory.
const LEVEL: i32 = 1;

/// A set of page ids. A bit and a half for each page of the trace.
#[derive(Clone, Debug)]
pub struct PageSample {
    /// A bit for each page id.
    bits: Vec<u64>,
    /// How many pages of the set come before each word of `bits`; at the end, how many there are.
    ranks: Vec<u32>,
    /// Whether marks stay.
    keeps_marks: bool,
}

/// A trace without the pages that are never written, and with all marks; `None` if there are none,
/// or if no reference writes: then the trace may not say it.
///
/// Pages that are never written are nearly all pages of files: code and constants, which the kernel
/// can drop without paging.
///
/// # Errors
/// If the trace cannot be read.
pub fn written_pages(trace: &Trace) -> Result<Option<Trace>, Error> {
    let totals = &trace.header().totals;
    let mut is_written = vec![false; totals.page_ids as usize];
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        let writes = chunk.references.iter().filter(|reference| reference.is_write());
        writes.for_each(|reference| is_written[reference.page() as usize] = true);
    }
    let written = is_written.iter().filter(|is_written| **is_written).count();
    if written == 0 || written == is_written.len() {
        return Ok(None);
    }
    let pages = PageSample::of(totals.page_ids, |page| is_written[page as usize]);
    let pages = PageSample { keeps_marks: true, ..pages };
    let mut writer = SampleWriter::new(trace)?;
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        pages.reduce(&mut chunk, None);
        writer.push(&chunk)?;
    }
    let SampleWriter { writer, name, .. } = writer;
    let end = EndTotals {
        references: Some(totals.references),
        instructions: totals.instructions,
        ..EndTotals::default()
    };
    Ok(Some(Trace::in_memory(writer.finish(end)?.0.into_inner(), &name)?))
}

impl PageSample {
    /// Disjoint sets of page ids below `page_ids`, with as many pages as each of `parts` says: one
    /// after the other in the order of a hash that depends on `seed`. So the first part for some
    /// number of pages contains that for a smaller number.
    ///
    /// # Panics
    ///
    /// If the parts have more pages than there are.
    pub fn parts(page_ids: u32, parts: &[u32], seed: u64) -> Vec<Self> {
        let hash = Hash::new(seed);
        let mut hashes: Vec<u32> = (0..page_ids).map(|page| hash.of(page)).collect();
        let mut rest = &mut hashes[..];
        parts
            .iter()
            .map(|&pages| {
                let part;
                if pages > 0 && (pages as usize) < rest.len() {
                    rest.select_nth_unstable(pages as usize - 1);
                }
                (part, rest) = std::mem::take(&mut rest).split_at_mut(pages as usize);
                // No two pages have the same hash, so the bounds of a part are the part.
                let (least, most) = (part.iter().min().copied(), part.iter().max().copied());
                Self::of(page_ids, |page| (least..=most).contains(&Some(hash.of(page))))
            })
            .collect()
    }

    fn of(page_ids: u32, is_in: impl Fn(u32) -> bool) -> Self {
        let mut bits = vec![0u64; page_ids.div_ceil(64) as usize];
        (0..page_ids)
            .filter(|page| is_in(*page))
            .for_each(|page| bits[page as usize / 64] |= 1 << (page % 64));
        let counts = bits.iter().scan(0, |rank, word| {
            *rank += word.count_ones();
            Some(*rank)
        });
        let ranks = std::iter::once(0).chain(counts).collect();
        Self { bits, ranks, keeps_marks: false }
    }

    /// How many pages are in the set.
    pub fn pages(&self) -> u32 {
        *self.ranks.last().expect("one more than words")
    }

    /// Whether a page is in the set.
    #[inline]
    pub fn contains(&self, page: u32) -> bool {
        self.bits[page as usize / 64] >> (page % 64) & 1 != 0
    }

    /// How many pages of the set have a smaller id than `page`, which may be one more than the
    /// last.
    #[inline]
    fn rank(&self, page: u32) -> u32 {
        let (word, bit) = (page as usize / 64, page % 64);
        let before = self.bits.get(word).map_or(0, |bits| (bits & !(u64::MAX << bit)).count_ones());
        self.ranks[word] + before
    }

    /// Keeps only the pages of the set in a chunk, under their new ids. With `repeats` it also
    /// drops references that repeat the one before them in the whole trace. The number of the
    /// chunk's first record does not change.
    pub fn reduce(&self, chunk: &mut Chunk, mut repeats: Option<Repeats>) {
        let (mut kept, mut done, mut events) = (0, 0, 0);
        for index in 0..=chunk.events.len() {
            let end = chunk.events.get(index).map_or(chunk.references.len(), |(at, _)| *at as usize);
            kept = match &mut repeats {
                None => self.compact(&mut chunk.references, done..end, kept, |_| false),
                Some(repeats) => {
                    self.compact(&mut chunk.references, done..end, kept, |page| repeats.reference(page))
                }
            };
            done = end;
            let Some((_, event)) = chunk.events.get(index) else { break };
            if let Some(repeats) = &mut repeats {
                repeats.event(event);
            }
            if let Some(event) = self.event(event) {
                chunk.events[events] = (kept as u32, event);
                events += 1;
            }
        }
        // The code of the references that are left is not kept.
        chunk.code.clear();
        chunk.code_from = None;
        chunk.references.truncate(kept);
        for reference in &mut chunk.references {
            *reference = PackedReference::new(self.rank(reference.page()), reference.is_write());
        }
        chunk.events.truncate(events);
        let mut ids = chunk.first_new_page..;
        chunk.new_pages.retain(|_| ids.next().is_some_and(|id| self.contains(id)));
        chunk.first_new_page = self.rank(chunk.first_new_page);
        chunk.pages = self.rank(chunk.pages);
    }

    /// Moves those references of `range` that are left to `kept` and behind it; gives where they
    /// end.
    #[inline]
    fn compact(
        &self,
        references: &mut [PackedReference],
        range: Range<usize>,
        mut kept: usize,
        mut is_hidden: impl FnMut(u32) -> bool,
    ) -> usize {
        for at in range {
            let reference = references[at];
            // No branch to be guessed wrong: the next one overwrites what is not left.
            references[kept] = reference;
            kept += usize::from(self.contains(reference.page()) & !is_hidden(reference.page()));
        }
        kept
    }

    /// What is left of an event.
    fn event(&self, event: &Event) -> Option<Event> {
        match event {
            Event::Drop { pages } => {
                let pages = self.rank(pages.start)..self.rank(pages.end);
                (!pages.is_empty()).then_some(Event::Drop { pages })
            }
            Event::Move { page, to } => {
                self.contains(*page).then(|| Event::Move { page: self.rank(*page), to: *to })
            }
            Event::Mark { .. } => self.keeps_marks.then(|| event.clone()),
            Event::Alloc { .. } | Event::Free { .. } | Event::Map { .. } => None,
        }
    }
}

/// Tells references that repeat the one before them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeats {
    /// The page of the reference before, unless its contents have been dropped since.
    last: Option<u32>,
}

impl Repeats {
    /// Goes past a whole chunk.
    pub fn pass(&mut self, chunk: &Chunk) {
        if let Some(reference) = chunk.references.last() {
            self.last = Some(reference.page());
        }
        let after = chunk.events.partition_point(|(at, _)| (*at as usize) < chunk.references.len());
        chunk.events[after..].iter().for_each(|(_, event)| self.event(event));
    }

    /// Whether a reference repeats the one before it.
    #[inline]
    fn reference(&mut self, page: u32) -> bool {
        self.last.replace(page) == Some(page)
    }

    fn event(&mut self, event: &Event) {
        if let Event::Drop { pages } = event {
            self.last = self.last.filter(|page| !pages.contains(page));
        }
    }
}

/// Makes a trace of reduced chunks.
#[derive(Debug)]
pub struct SampleWriter {
    writer: Writer<Cursor<Vec<u8>>>,
    replay: Replay,
    name: std::path::PathBuf,
}

impl SampleWriter {
    /// Nothing yet of `whole`, from which the sample has its name and its metadata.
    pub fn new(whole: &Trace) -> Result<Self, Error> {
        let metadata = Metadata { source: "sample".to_owned(), ..whole.header().metadata.clone() };
        let writer = Writer::with_level(Cursor::new(Vec::new()), metadata, LEVEL)?;
        Ok(Self { writer, replay: Replay::default(), name: whole.name().to_owned() })
    }

    /// Takes the next chunk, [reduced](PageSample::reduce).
    pub fn push(&mut self, chunk: &Chunk) -> Result<(), Error> {
        self.replay
            .chunk(chunk, &mut self.writer)
            .map_err(|error| error.unwrap_or_else(|reason| Error::damaged(0, reason)))
            .map_err(|error| error.in_file(&self.name))
    }

    /// The sample.
    pub fn finish(self) -> Result<Trace, Error> {
        let (out, _) = self.writer.finish(EndTotals::default())?;
        Trace::in_memory(out.into_inner(), &self.name)
    }
}

/// A permutation of the 32-bit numbers that looks random, a different one for each seed.
#[derive(Clone, Copy, Debug)]
struct Hash {
    keys: [u32; 2],
}

impl Hash {
    fn new(seed: u64) -> Self {
        // SplitMix64's finaliser, so that neighbouring seeds have nothing in common.
        let mut key = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        key ^= key >> 31;
        Self { keys: [key as u32, (key >> 32) as u32] }
    }

    /// MurmurHash3's 32-bit finaliser twice, each time after a key: one-to-one, as every step is.
    fn of(self, page: u32) -> u32 {
        self.keys.iter().fold(page, |mut hash, key| {
            hash ^= key;
            hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
            hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
            hash ^ hash >> 16
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages 1 and 3 are written at some time, page 2 never; with code and marks.
    #[test]
    fn pages_that_are_never_written_are_left_out_and_marks_stay() {
        let metadata = Metadata { window: 1, ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        for (page, write) in [(1, false), (2, false), (3, true), (2, false), (1, true)] {
            writer.code(page as u32);
            writer.reference(page, write).unwrap();
            writer.mark(1000, 400).unwrap();
        }
        let end = EndTotals { references: Some(2000), ..EndTotals::default() };
        let trace = Trace::from_bytes(writer.finish(end).unwrap().0.into_inner()).unwrap();
        let written = written_pages(&trace).unwrap().unwrap();
        let mut chunk = Chunk::new();
        written.read_chunk(0, &mut chunk).unwrap();
        assert_eq!(chunk.new_pages, [1, 3]);
        let pages: Vec<u32> = chunk.references.iter().map(|reference| reference.page()).collect();
        assert_eq!(pages, [0, 1, 0]);
        assert_eq!(chunk.events.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 1, 2, 2, 3]);
        assert_eq!(written.header().totals.references, 2000);
        // All that is left is written, so there is nothing to leave out.
        assert!(written_pages(&written).unwrap().is_none());
    }
}
