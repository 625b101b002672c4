//! What the faults of a program would be if it treated some of its objects otherwise.
//!
//! Each change is a simulation of its own, of the same trace with a few references or events more
//! or fewer. One pass over the trace serves all of them.

use crate::attribution::Owners;
use crate::{Cell, Outcome, SweepError, simulation};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use sweephand_trace::{Chunk, Event, Trace};

/// What a program does otherwise with objects. Objects are given by number, as in
/// [`Attribution::objects`](crate::Attribution::objects): `true` for those that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// It gives each page back after it has used it for the last time (`MADV_DONTNEED`).
    GiveBack(Vec<bool>),
    /// It keeps the object in other memory.
    KeepElsewhere(Vec<bool>),
}

/// What a change comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The simulation's outcome.
    pub outcome: Outcome,
    /// Of [`Change::GiveBack`]: the code that used pages for the last time, as
    /// [places](sweephand_trace::places), with how many pages each; the most first.
    pub last_used_by: Vec<(u32, u64)>,
}

/// The outcome of a simulation under each change. `progress` is called with the records done.
///
/// # Errors
/// If the trace cannot be read, or the policy needs to know the future or refuses this many frames.
pub fn what_if(
    trace: &Trace,
    cell: &Cell,
    changes: &[Change],
    progress: &dyn Fn(u64),
) -> Result<Vec<WhatIf>, SweepError> {
    let page_bytes = trace.header().metadata.page_size;
    let last_uses = last_uses(trace)?;
    let mut runs = Vec::new();
    for change in changes {
        let simulation = simulation(&cell.spec, cell.frames, false, page_bytes)?;
        runs.push((change, simulation, Chunk::new(), FxHashMap::<u32, u64>::default()));
    }
    let mut owners = Owners::new(trace);
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        let objects = owners.objects(&chunk);
        let code = trace.code(index, &chunk)?;
        runs.par_iter_mut().with_max_len(1).for_each(|(change, simulation, changed, by)| {
            let chunk = match change {
                Change::Nothing => &chunk,
                Change::GiveBack(which) => {
                    let is_last = |at: usize, page: u32| {
                        last_uses[page as usize] == chunk.first_record + at as u64
                            && concerns(which, objects[at])
                    };
                    count_last_uses(&chunk, &code, &is_last, by);
                    give_back(&chunk, &is_last, changed)
                }
                Change::KeepElsewhere(which) => keep_elsewhere(&chunk, &objects, which, changed),
            };
            simulation.advance(chunk, 0..chunk.references.len(), &[]);
        });
        progress(chunk.first_record + chunk.references.len() as u64);
    }
    let told = runs.into_iter().map(|(_, simulation, _, by)| {
        let mut last_used_by: Vec<_> = by.into_iter().collect();
        last_used_by.sort_unstable_by_key(|(place, pages)| (std::cmp::Reverse(*pages), *place));
        WhatIf { outcome: simulation.outcome(), last_used_by }
    });
    Ok(told.collect())
}

/// The number of the last reference to each page, by id.
fn last_uses(trace: &Trace) -> Result<Vec<u64>, SweepError> {
    let mut last = vec![0; trace.header().totals.page_ids as usize];
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        for (reference, record) in chunk.references.iter().zip(chunk.first_record..) {
            last[reference.page() as usize] = record;
        }
    }
    Ok(last)
}

fn concerns(which: &[bool], object: usize) -> bool {
    which.get(object).copied().unwrap_or_default()
}

/// All but the references and events of a chunk.
fn begin_like(chunk: &Chunk, changed: &mut Chunk) {
    changed.first_record = chunk.first_record;
    changed.first_new_page = chunk.first_new_page;
    changed.new_pages.clone_from(&chunk.new_pages);
    changed.pages = chunk.pages;
    changed.references.clear();
    changed.events.clear();
}

/// Counts pages by the code that uses them for the last time.
fn count_last_uses(
    chunk: &Chunk,
    code: &[(u32, u32)],
    is_last: &dyn Fn(usize, u32) -> bool,
    by: &mut FxHashMap<u32, u64>,
) {
    for (change, (from, place)) in code.iter().enumerate() {
        let end = code.get(change + 1).map_or(chunk.references.len(), |(next, _)| *next as usize);
        let range = *from as usize..end;
        let last = range.filter(|at| is_last(*at, chunk.references[*at].page())).count() as u64;
        if last > 0 {
            *by.entry(*place).or_default() += last;
        }
    }
}

fn give_back<'a>(chunk: &Chunk, is_last: &dyn Fn(usize, u32) -> bool, changed: &'a mut Chunk) -> &'a Chunk {
    begin_like(chunk, changed);
    changed.references.extend_from_slice(&chunk.references);
    let mut events = chunk.events.iter().cloned().peekable();
    for (at, reference) in chunk.references.iter().enumerate() {
        let page = reference.page();
        if is_last(at, page) {
            while let Some(event) = events.next_if(|(position, _)| *position as usize <= at) {
                changed.events.push(event);
            }
            changed.events.push((at as u32 + 1, Event::Drop { pages: page..page + 1 }));
        }
    }
    changed.events.extend(events);
    changed
}

fn keep_elsewhere<'a>(chunk: &Chunk, objects: &[usize], which: &[bool], changed: &'a mut Chunk) -> &'a Chunk {
    begin_like(chunk, changed);
    let mut events = chunk.events.iter().peekable();
    for (at, reference) in chunk.references.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(position, _)| *position as usize <= at) {
            changed.events.push((changed.references.len() as u32, event.clone()));
        }
        if !concerns(which, objects[at]) {
            changed.references.push(*reference);
        }
    }
    let end = changed.references.len() as u32;
    changed.events.extend(events.map(|(_, event)| (end, event.clone())));
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_policy::registry::Spec;
    use sweephand_trace::{AllocKind, EndTotals, Metadata, Writer};

    /// A table of four pages that is used again and again, beside an array that is read once.
    fn trace() -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        writer.alloc(0x10_0000, 4 * 4096, AllocKind::Malloc).unwrap();
        writer.alloc(0x20_0000, 100 * 4096, AllocKind::Malloc).unwrap();
        writer.code(7);
        for turn in 0..100 {
            writer.reference(0x200 + turn, false).unwrap();
            writer.reference(0x100 + turn % 4, false).unwrap();
        }
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    #[test]
    fn an_array_that_is_given_back_leaves_memory_to_others() {
        let cell = Cell { spec: Spec::parse("fifo").unwrap(), frames: 5 };
        let array = vec![false, false, true];
        let table = vec![false, true, false];
        let changes = [
            Change::Nothing,
            Change::GiveBack(array.clone()),
            Change::GiveBack(table.clone()),
            Change::KeepElsewhere(array),
            Change::KeepElsewhere(table),
        ];
        let outcomes = what_if(&trace(), &cell, &changes, &|_| {}).unwrap();
        let faults: Vec<u64> = outcomes.iter().map(|told| told.outcome.faults).collect();
        // Five frames hold two and a half turns, and a page of the table comes back after four. A
        // page of the table that is given back at the end leaves its frame to another one of it.
        assert_eq!(faults, [200, 104, 199, 4, 100]);
        assert_eq!(
            (&outcomes[0].last_used_by[..], &outcomes[1].last_used_by[..]),
            (&[][..], &[(7, 100)][..])
        );
    }

    #[test]
    fn simulation_without_a_change_equals_a_sweep() {
        let trace = trace();
        let cells = vec![Cell { spec: Spec::parse("clock").unwrap(), frames: 6 }];
        let outcome = what_if(&trace, &cells[0], &[Change::Nothing], &|_| {}).unwrap()[0].outcome;
        let swept = crate::Sweep { cells, ..Default::default() }.run(&trace, &|_| {}).unwrap();
        assert_eq!(outcome, swept[0].0);
    }
}
