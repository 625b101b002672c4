//! Turns a decoded trace back into calls with page numbers.
//!
//! This serves to reduce a native trace and to check one. [`crate::Trace::replay`] into a
//! [`crate::Writer`] makes the same trace again, to the byte. Drops go back one page at a time, in
//! the order of the ids, and the writer joins them. A move goes back as the move of one page; the
//! second half of an exchange is then already done.

use crate::{Chunk, Error, Event, Sink};
use std::iter::Peekable;
use std::ops::Range;

/// What is true of the references from some place of a chunk on.
enum Change {
    Code(u32),
    Time(i64),
    TimeToLive(u64),
}

/// All changes of a chunk, by place.
fn changes(chunk: &Chunk) -> Result<Vec<(u32, Change)>, &'static str> {
    let code = chunk.code()?.into_iter().map(|(at, place)| (at, Change::Code(place)));
    let times = chunk.times()?.into_iter().map(|(at, time)| (at, Change::Time(time)));
    let lives = chunk.times_to_live()?;
    let lives = lives.into_iter().map(|(at, time)| (at, Change::TimeToLive(time.max(0) as u64)));
    let mut changes: Vec<_> = code.chain(times).chain(lives).collect();
    changes.sort_by_key(|(at, _)| *at);
    Ok(changes)
}

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
        let mut changes = changes(chunk).map_err(Err)?.into_iter().peekable();
        let mut done = 0;
        for (at, event) in &chunk.events {
            self.references(chunk, done..*at as usize, &mut changes, sink)?;
            done = *at as usize;
            self.event(event, sink)?;
        }
        self.references(chunk, done..chunk.references.len(), &mut changes, sink)
    }

    fn references(
        &self,
        chunk: &Chunk,
        mut range: Range<usize>,
        changes: &mut Peekable<impl Iterator<Item = (u32, Change)>>,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        while !range.is_empty() {
            while let Some((_, change)) = changes.next_if(|(at, _)| *at as usize <= range.start) {
                match change {
                    Change::Code(place) => sink.code(place),
                    Change::Time(milliseconds) => sink.time(milliseconds),
                    Change::TimeToLive(milliseconds) => sink.time_to_live(milliseconds),
                }
            }
            let end = changes.peek().map_or(range.end, |(at, _)| range.end.min(*at as usize));
            for reference in &chunk.references[range.start..end] {
                sink.reference(self.number[reference.page() as usize], reference.is_write()).map_err(Ok)?;
            }
            range.start = end;
        }
        Ok(())
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
