//! Workloads that experiments generate, and requirements that they check on a trace.

use crate::Error;
use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use sweephand_policy::PageId;
use sweephand_policy::collections::Lists;
use sweephand_sim::LruStack;
use sweephand_trace::generate::{Generator, Pattern};
use sweephand_trace::merge::{Access, STREAM_PAGES, merge};
use sweephand_trace::{AllocKind, Chunk, EndTotals, Event, Metadata, Sink, Trace, Writer};

/// The zstd level of traces that are never stored.
const LEVEL: i32 = 1;

/// A trace made and kept in memory.
pub(crate) fn in_memory(
    fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>) -> Result<EndTotals, sweephand_trace::Error>,
) -> Result<Trace, Error> {
    let mut writer = Writer::with_level(Cursor::new(Vec::new()), Metadata::default(), LEVEL)?;
    let end = fill(&mut writer)?;
    let (file, _) = writer.finish(end)?;
    Ok(Trace::from_bytes(file.into_inner())?)
}

/// The first `references` of a pattern, as `sweephand generate --seed` makes them.
pub(crate) fn generated(pattern: &Pattern, seed: u64, references: usize) -> Result<Trace, Error> {
    let generator = Generator::new(pattern, seed, 0.0).expect("a pattern of ours");
    string(generator.take(references).map(|(page, _)| page))
}

/// References to these page numbers.
pub(crate) fn string(pages: impl Iterator<Item = u64>) -> Result<Trace, Error> {
    in_memory(|writer| {
        for page in pages {
            writer.reference(page, false)?;
        }
        Ok(EndTotals::default())
    })
}

/// A trace in which `fold` neighbouring pages are one. Contents are given up where all of them are.
pub(crate) fn folded(trace: &Trace, fold: u64) -> Result<Trace, Error> {
    in_memory(|writer| {
        trace.replay(&mut Folded { writer, fold }, &mut |_| {})?;
        Ok(EndTotals::default())
    })
}

struct Folded<'a> {
    writer: &'a mut Writer<Cursor<Vec<u8>>>,
    fold: u64,
}

impl Sink for Folded<'_> {
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), sweephand_trace::Error> {
        self.writer.reference(page_number / self.fold, write)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        let (from, to) = (first_page.div_ceil(self.fold), (first_page + pages) / self.fold);
        if from < to { self.writer.unmap(from, to - from) } else { Ok(()) }
    }
    // What follows has no meaning for folded pages.
    fn remap(&mut self, _: u64, _: u64, _: u64) -> Result<(), sweephand_trace::Error> {
        Ok(())
    }
    fn alloc(&mut self, _: u64, _: u64, _: AllocKind) -> Result<(), sweephand_trace::Error> {
        Ok(())
    }
    fn free(&mut self, _: u64) -> Result<(), sweephand_trace::Error> {
        Ok(())
    }
    fn mark(&mut self, _: u64, _: u64) -> Result<(), sweephand_trace::Error> {
        Ok(())
    }
    fn map(&mut self, _: u64, _: u64) -> Result<(), sweephand_trace::Error> {
        Ok(())
    }
}

/// A trace in which each reference comes twice: every page that comes in is used again at once.
pub(crate) fn twice(trace: &Trace) -> Result<Trace, Error> {
    in_memory(|writer| {
        let reference = |writer: &mut MemoryWriter, page_number, write| {
            writer.reference(page_number, write)?;
            writer.reference(page_number, write)
        };
        trace.replay(&mut EachReference { writer, reference }, &mut |_| {})?;
        Ok(EndTotals::default())
    })
}

/// A trace without the objects that are smaller than `KIB` KiB: their pages are of no object.
pub(crate) fn of_large_objects<const KIB: u64>(trace: &Trace) -> Result<Trace, Error> {
    let totals = &trace.header().totals;
    in_memory(|writer| {
        let mut large = LargeObjects { writer, least_bytes: KIB.saturating_mul(1024), live: HashSet::new() };
        trace.replay(&mut large, &mut |_| {})?;
        Ok(EndTotals {
            references: Some(totals.references),
            instructions: totals.instructions,
            ..EndTotals::default()
        })
    })
}

struct LargeObjects<'a> {
    writer: &'a mut MemoryWriter,
    least_bytes: u64,
    /// The first addresses of objects that are large enough.
    live: HashSet<u64>,
}

impl Sink for LargeObjects<'_> {
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), sweephand_trace::Error> {
        self.writer.reference(page_number, write)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.unmap(first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.remap(from, to, pages)
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), sweephand_trace::Error> {
        if length < self.least_bytes {
            return Ok(());
        }
        self.live.insert(address);
        self.writer.alloc(address, length, kind)
    }
    fn free(&mut self, address: u64) -> Result<(), sweephand_trace::Error> {
        if self.live.remove(&address) { self.writer.free(address) } else { Ok(()) }
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.mark(instructions, references)
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.map(first_page, pages)
    }
}

/// Writes a trace in memory.
pub(crate) type MemoryWriter = Writer<Cursor<Vec<u8>>>;

/// Writes references as `reference` says, and everything else as it is.
pub(crate) struct EachReference<'a, F> {
    pub(crate) writer: &'a mut MemoryWriter,
    pub(crate) reference: F,
}

impl<F> Sink for EachReference<'_, F>
where
    F: FnMut(&mut MemoryWriter, u64, bool) -> Result<(), sweephand_trace::Error>,
{
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), sweephand_trace::Error> {
        (self.reference)(self.writer, page_number, write)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.unmap(first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.remap(from, to, pages)
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), sweephand_trace::Error> {
        self.writer.alloc(address, length, kind)
    }
    fn free(&mut self, address: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.free(address)
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.mark(instructions, references)
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.map(first_page, pages)
    }
}

/// A trace without the references to pages that are among the `window` pages used last: of a burst
/// of references to a page its first is kept.
pub(crate) fn firsts_of_bursts(trace: &Trace, window: usize) -> Result<Trace, Error> {
    let totals = &trace.header().totals;
    in_memory(|writer| {
        let mut firsts = FirstsOfBursts { writer, window, recent: Lists::new(), ids: HashMap::new() };
        trace.replay(&mut firsts, &mut |_| {})?;
        Ok(EndTotals {
            references: Some(totals.references),
            instructions: totals.instructions,
            ..EndTotals::default()
        })
    })
}

struct FirstsOfBursts<'a> {
    writer: &'a mut Writer<Cursor<Vec<u8>>>,
    window: usize,
    /// The pages used last, the least recently used in front.
    recent: Lists<1>,
    /// By page number, for the list.
    ids: HashMap<u64, PageId>,
}

impl FirstsOfBursts<'_> {
    fn id(&mut self, page_number: u64) -> PageId {
        let next = PageId(self.ids.len() as u32);
        *self.ids.entry(page_number).or_insert(next)
    }

    /// What comes to these pages next is not of the same burst.
    fn forget(&mut self, first_page: u64, pages: u64) {
        for page_number in first_page..first_page + pages {
            let page = self.id(page_number);
            self.recent.remove(page);
        }
    }
}

impl Sink for FirstsOfBursts<'_> {
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), sweephand_trace::Error> {
        let page = self.id(page_number);
        if self.recent.list_of(page).is_some() {
            self.recent.move_to_back(0, page);
            return Ok(());
        }
        self.recent.push_back(0, page);
        if self.recent.len(0) > self.window {
            self.recent.pop_front(0);
        }
        self.writer.reference(page_number, write)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        // A trace is repeated page by page here.
        self.forget(first_page, pages);
        self.writer.unmap(first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.forget(from, pages);
        self.forget(to, pages);
        self.writer.remap(from, to, pages)
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), sweephand_trace::Error> {
        self.writer.alloc(address, length, kind)
    }
    fn free(&mut self, address: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.free(address)
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.mark(instructions, references)
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), sweephand_trace::Error> {
        self.writer.map(first_page, pages)
    }
}

/// A program's trace with a stream of accesses among it.
pub(crate) fn with_stream(program: &Trace, stream: impl IntoIterator<Item = Access>) -> Result<Trace, Error> {
    in_memory(|writer| merge(program, stream, writer))
}

/// By page id: the page number it was first touched at.
pub(crate) fn page_numbers(trace: &Trace) -> Result<Vec<u64>, Error> {
    let mut numbers = Vec::new();
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        numbers.extend_from_slice(&chunk.new_pages);
    }
    Ok(numbers)
}

/// By page id: whether it is a page of a stream that was merged in.
pub(crate) fn streamed_pages(trace: &Trace) -> Result<Vec<bool>, Error> {
    Ok(page_numbers(trace)?.iter().map(|number| *number >= STREAM_PAGES).collect())
}

/// The stack distances of a trace's references.
pub(crate) fn stack_distances(trace: &Trace) -> Result<LruStack, Error> {
    let mut stack = LruStack::new();
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        stack.advance(&chunk, 0..chunk.references.len());
    }
    Ok(stack)
}

/// An object of a trace: an allocation of the recorder's least size or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// The number of the page of its first byte.
    pub(crate) first_page: u64,
    /// The pages that it reaches over.
    pub(crate) pages: u64,
    /// Records of the trace before it was allocated.
    pub(crate) from_record: u64,
    /// Records of the trace before it was freed, or all.
    pub(crate) to_record: u64,
}

impl Object {
    /// Whether a page number lies in it.
    pub(crate) fn contains(&self, page_number: u64) -> bool {
        (self.first_page..self.first_page + self.pages).contains(&page_number)
    }
}

/// The objects of a trace in the order of their allocation.
pub(crate) fn objects(trace: &Trace) -> Result<Vec<Object>, Error> {
    let page_size = trace.header().metadata.page_size;
    let mut objects: Vec<(u64, Object)> = Vec::new();
    trace.for_each_event(&mut |record, event| match *event {
        Event::Alloc { address, length, .. } => {
            let first_page = address / page_size;
            let pages = (address + length.max(1) - 1) / page_size - first_page + 1;
            let to_record = trace.header().totals.records;
            objects.push((address, Object { first_page, pages, from_record: record, to_record }));
        }
        Event::Free { address } => {
            if let Some((_, object)) = objects.iter_mut().rfind(|(start, _)| *start == address) {
                object.to_record = record;
            }
        }
        _ => {}
    })?;
    Ok(objects.into_iter().map(|(_, object)| object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_are_taken_out_with_their_ends() {
        let trace = in_memory(|writer| {
            writer.alloc(0x10000, 50 << 10, AllocKind::Malloc)?;
            writer.alloc(0x40000, 200 << 10, AllocKind::Malloc)?;
            for page in 0x10..0x80 {
                writer.reference(page, true)?;
            }
            writer.free(0x10000)?;
            writer.free(0x40000)?;
            Ok(EndTotals::default())
        });
        let trace = trace.unwrap();
        assert_eq!(objects(&trace).unwrap().len(), 2);
        let large = of_large_objects::<160>(&trace).unwrap();
        let left = objects(&large).unwrap();
        assert_eq!((left.len(), left[0].first_page, left[0].pages), (1, 0x40, 50));
        assert_eq!(large.header().totals.records, trace.header().totals.records);
        assert_eq!(objects(&of_large_objects::<{ u64::MAX }>(&trace).unwrap()).unwrap().len(), 0);
    }
}
