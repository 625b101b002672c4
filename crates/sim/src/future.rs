//! The next use of every reference, for offline policies.

use sweephand_policy::NEVER;
use sweephand_trace::{Chunk, Error, Event, Interrupt, Trace};

/// For each record of a trace the number of the first record of its page after the present run of
/// records of that page, or [`NEVER`] if there is none or the page's contents are dropped before
/// it. 4 bytes a record.
#[derive(Debug)]
pub struct Future {
    next_uses: Vec<u32>,
}

/// A trace has more records than an offline policy can be told about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("has {records} records, more than the 4294967294 whose future OPT can be told")]
pub struct TooLong {
    /// Its records.
    pub records: u64,
}

impl Future {
    /// Reads a trace backwards, chunk by chunk.
    pub fn of(trace: &Trace) -> Result<Result<Self, TooLong>, Error> {
        Self::of_interruptible(trace, &Interrupt::default())
    }

    /// The same, but that it stops, and knows less of the future, when it is interrupted.
    pub(crate) fn of_interruptible(
        trace: &Trace,
        interrupt: &Interrupt,
    ) -> Result<Result<Self, TooLong>, Error> {
        let records = trace.header().totals.records;
        if records >= u64::from(NEVER) {
            return Ok(Err(TooLong { records }));
        }
        let mut next_uses = vec![NEVER; records as usize];
        // The record at which each page is used next, seen from where we are.
        let mut used_at = vec![NEVER; trace.header().totals.page_ids as usize];
        // The page of the record after this one, unless its contents were dropped between them.
        let mut following = None;
        let mut chunk = Chunk::new();
        for index in (0..trace.chunks()).rev().take_while(|_| !interrupt.is_raised()) {
            trace.read_chunk(index, &mut chunk)?;
            let mut events = chunk.events.iter().rev().peekable();
            for offset in (0..=chunk.references.len()).rev() {
                while let Some((_, event)) = events.next_if(|(position, _)| *position as usize == offset) {
                    if let Event::Drop { pages } = event {
                        used_at[pages.start as usize..pages.end as usize].fill(NEVER);
                        // Only its own page's drop ends a run: to others it is as if nothing had
                        // happened.
                        following = following.filter(|page| !pages.contains(page));
                    }
                }
                let Some(before) = offset.checked_sub(1) else { break };
                let page = chunk.references[before].page();
                let time = chunk.first_record as usize + before;
                next_uses[time] =
                    if following == Some(page) { next_uses[time + 1] } else { used_at[page as usize] };
                used_at[page as usize] = time as u32;
                following = Some(page);
            }
        }
        Ok(Ok(Self { next_uses }))
    }

    /// The next uses of a chunk's references.
    pub fn of_chunk(&self, chunk: &Chunk) -> &[u32] {
        &self.next_uses[chunk.first_record as usize..][..chunk.references.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_trace::{EndTotals, Metadata, Writer};

    /// A page's own drop ends a run of it; that of another page does not.
    #[test]
    fn a_run_ends_where_contents_are_dropped() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        writer.reference(2, false).unwrap();
        writer.reference(1, false).unwrap();
        writer.unmap(2, 1).unwrap();
        writer.reference(1, false).unwrap();
        writer.unmap(1, 1).unwrap();
        for page in [1, 1, 2, 1] {
            writer.reference(page, false).unwrap();
        }
        let trace = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let future = Future::of(&Trace::from_bytes(trace).unwrap()).unwrap().unwrap();
        assert_eq!(future.next_uses, [NEVER, NEVER, NEVER, 6, 6, NEVER, NEVER]);
    }
}
