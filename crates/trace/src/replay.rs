//! Turns a decoded trace back into calls with page numbers.
//!
//! This serves to reduce a native trace and to check one. [`crate::Trace::replay`] into a
//! [`crate::Writer`] makes the same trace again, to the byte. Drops go back one page at a time, in
//! the order of the ids, and the writer joins them. A move goes back as the move of one page; the
//! second half of an exchange is then already done.

use crate::{Chunk, Error, Event, Sink};

#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// The page number each page id has now.
    number: Vec<u64>,
    /// The last move: id, from, to.
    moved: Option<(u32, u64, u64)>,
}

/// The sink's error, or why the trace makes no sense.
pub(crate) type Failure = Result<Error, &'static str>;

impl Replay {
    pub(crate) fn chunk(&mut self, chunk: &Chunk, sink: &mut impl Sink) -> Result<(), Failure> {
        if self.number.len() != chunk.first_new_page as usize {
            return Err(Err("its first new page is not the next one"));
        }
        // Ids of this chunk that have not been touched yet have a number already: a chunk that
        // names one too early comes out differently, which is for the caller to see.
        self.number.extend_from_slice(&chunk.new_pages);
        let mut done = 0;
        for (at, event) in &chunk.events {
            self.references(&chunk.references[done..*at as usize], sink)?;
            done = *at as usize;
            self.event(event, sink)?;
        }
        self.references(&chunk.references[done..], sink)
    }

    fn references(&self, references: &[crate::PackedReference], sink: &mut impl Sink) -> Result<(), Failure> {
        references
            .iter()
            .try_for_each(|r| sink.reference(self.number[r.page() as usize], r.is_write()))
            .map_err(Ok)
    }

    fn event(&mut self, event: &Event, sink: &mut impl Sink) -> Result<(), Failure> {
        match event {
            Event::Alloc { address, length, kind } => sink.alloc(*address, *length, *kind),
            Event::Free { address } => sink.free(*address),
            Event::Mark { instructions, references } => sink.mark(*instructions, *references),
            Event::Map { first_page, pages } => sink.map(*first_page, *pages),
            Event::Drop { pages } => {
                pages.clone().try_for_each(|page| sink.unmap(self.number[page as usize], 1))
            }
            Event::Move { page, to } => {
                let from = std::mem::replace(&mut self.number[*page as usize], *to);
                let second_half =
                    self.moved.is_some_and(|(other, a, b)| other != *page && (a, b) == (*to, from));
                self.moved = Some((*page, from, *to));
                if second_half { Ok(()) } else { sink.remap(from, *to, 1) }
            }
        }
        .map_err(Ok)
    }
}
