//! A trace with other references in the place of its own, and everything else as it was: what a
//! cache below another one sees.

use crate::replay::Replay;
use crate::{Chunk, Error, Event, PackedReference, Sink};
use std::path::Path;

/// Hands on a trace, chunk by chunk, with chosen references.
#[derive(Debug, Default)]
pub struct Chosen {
    replay: Replay,
    chunk: Chunk,
    /// References chosen since the last mark.
    since_mark: u64,
}

impl Chosen {
    /// Hands on the next chunk of the trace `name`. `chosen` takes the place of the chunk's
    /// references: each with the number of references of the chunk before it, ascending. Its pages
    /// are ids of the trace, and a page that is first touched in this chunk is among them, if it is
    /// ever to be. Events stay where they are. Marks count the chosen references.
    ///
    /// # Errors
    /// The sink does not take it, or the chunk makes no sense.
    pub fn chunk(
        &mut self,
        name: &Path,
        chunk: &Chunk,
        chosen: &[(u32, PackedReference)],
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        let damaged = |reason: &str| Error::damaged(0, reason).in_file(name);
        let place = |at: u32| chosen.partition_point(|(before, _)| *before < at) as u32;
        let other = &mut self.chunk;
        other.restart(chunk.first_record, chunk.first_new_page);
        other.pages = chunk.pages;
        other.new_pages.extend_from_slice(&chunk.new_pages);
        other.references.extend(chosen.iter().map(|(_, reference)| *reference));
        let mut marked = 0;
        for (at, event) in &chunk.events {
            let at = place(*at);
            let event = match event {
                Event::Mark { instructions, .. } => {
                    let references = self.since_mark + u64::from(at - marked);
                    (self.since_mark, marked) = (0, at);
                    Event::Mark { instructions: *instructions, references }
                }
                event => event.clone(),
            };
            other.events.push((at, event));
        }
        self.since_mark += chosen.len() as u64 - u64::from(marked);
        other.code.extend(chunk.code().map_err(damaged)?.iter().map(|(at, of)| (place(*at), *of)));
        other.times.extend(chunk.times().map_err(damaged)?.iter().map(|(at, of)| (place(*at), *of)));
        let lives = chunk.times_to_live().map_err(damaged)?;
        other.times_to_live.extend(lives.iter().map(|(at, of)| (place(*at), *of)));
        self.replay
            .chunk(other, sink)
            .map_err(|failure| failure.unwrap_or_else(|reason| Error::damaged(0, reason)).in_file(name))
    }
}
