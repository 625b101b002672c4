//! What one memory asks of the memory below it: its misses, and its evictions, as a trace.

use crate::engine::observed;
use crate::sweep::future_of;
use crate::{Cell, Observer, Outcome, SweepError};
use std::io::{Seek, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sweephand_policy::PageId;
use sweephand_trace::{Chosen, Chunk, EndTotals, Interrupt, Metadata, PackedReference, Trace, Writer};

/// Which evictions are part of a trace of misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evictions {
    /// Those of pages that were written to since they came: the memory below has an old copy.
    Written,
    /// All of them: the memory below has what this one gives up (an exclusive cache).
    All,
    /// None.
    None,
}

/// Simulates one policy at one memory size, and writes what it asks of the memory below it:
///
/// - a miss is a read of the page, even if a write missed: the page is fetched first;
/// - an eviction is a write to the page, and comes before the miss that takes its frame.
///
/// Everything else of the trace stays: unmapped pages, objects, times, marks. Pages that are in
/// memory at the end are not evicted. Give what comes back to the writer's
/// [`finish`](Writer::finish).
///
/// # Errors
/// As for [`Sweep::run`](crate::Sweep::run).
pub fn write_misses<W: Write + Seek>(
    trace: &Trace,
    cell: &Cell,
    collapse: bool,
    evictions: Evictions,
    writer: &mut Writer<W>,
    interrupt: &Interrupt,
    progress: &dyn Fn(u64),
) -> Result<(Outcome, EndTotals), SweepError> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watch = Watch { seen: Arc::clone(&seen), evictions, written: Vec::new() };
    let page_bytes = trace.header().metadata.page_size;
    let mut simulation = observed(&cell.spec, cell.frames, collapse, page_bytes, Box::new(watch))?;
    let future = if simulation.needs_future() { Some(future_of(trace, interrupt)?) } else { None };
    let (mut chunk, mut chosen, mut asked) = (Chunk::new(), Chosen::default(), Vec::new());
    for index in 0..trace.chunks() {
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted);
        }
        trace.read_chunk(index, &mut chunk)?;
        let next_uses = future.as_ref().map_or(&[][..], |future| future.of_chunk(&chunk));
        simulation.advance(&chunk, 0..chunk.references.len(), next_uses);
        asked.clear();
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        asked.extend(seen.drain(..).map(|(record, page)| ((record - chunk.first_record) as u32, page)));
        drop(seen);
        chosen.chunk(trace.name(), &chunk, &asked, writer)?;
        progress(chunk.first_record + chunk.references.len() as u64);
    }
    *writer.metadata_mut() = metadata(trace, cell, evictions);
    let end = EndTotals {
        references: Some(writer.records()),
        instructions: trace.header().totals.instructions,
        ..EndTotals::default()
    };
    Ok((simulation.outcome(), end))
}

/// What is true of the program is true of its misses; how references were recorded is not.
fn metadata(trace: &Trace, cell: &Cell, evictions: Evictions) -> Metadata {
    let of = &trace.header().metadata;
    let evictions = match evictions {
        Evictions::Written => "evictions of written pages",
        Evictions::All => "all evictions",
        Evictions::None => "no evictions",
    };
    let mut notes = of.notes.clone();
    notes.push(format!("misses of {} in {} pages, and {evictions}", cell.spec, cell.frames));
    notes.extend(of.reduction().map(|reduction| format!("the trace of the references {reduction}")));
    Metadata {
        window: 0,
        source: "misses".to_owned(),
        epochs: None,
        windows: Vec::new(),
        notes,
        ..of.clone()
    }
}

/// What is asked of the memory below: by which record, and what.
type Asked = (u64, PackedReference);

/// Notes what a simulation asks of the memory below.
struct Watch {
    seen: Arc<Mutex<Vec<Asked>>>,
    evictions: Evictions,
    /// By page id: whether it was written to since it came.
    written: Vec<bool>,
}

impl Watch {
    fn seen(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_written(&mut self, page: PageId) -> bool {
        self.written.get_mut(page.index()).is_some_and(std::mem::take)
    }
}

impl Observer for Watch {
    fn sees_writes(&self) -> bool {
        self.evictions == Evictions::Written
    }

    fn written(&mut self, page: PageId) {
        if self.written.len() <= page.index() {
            self.written.resize(page.index() + 1, false);
        }
        self.written[page.index()] = true;
    }

    fn fault(&mut self, page: PageId, record: u64) {
        self.seen().push((record, PackedReference::new(page.0, false)));
    }

    fn evicted(&mut self, page: PageId, record: u64) {
        let was_written = self.was_written(page);
        if self.evictions == Evictions::All || was_written {
            // The miss has been seen, and comes behind.
            let mut seen = self.seen();
            let before_the_miss = seen.len() - 1;
            seen.insert(before_the_miss, (record, PackedReference::new(page.0, true)));
        }
    }

    fn dropped(&mut self, page: PageId) {
        self.was_written(page);
    }
}
