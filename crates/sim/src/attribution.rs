//! Faults by object: which object's pages the faults of a few simulations are on.
//!
//! A simulation counts faults and does not know about objects. So it is given the references to one
//! object at a time: see `stretches`.

use crate::live_objects::LiveObjects;
use crate::stretches::{Stretch, advance, stretches};
use crate::sweep::future_of;
use crate::{Cell, SweepError, simulation};
use rayon::prelude::*;
use sweephand_trace::{Chunk, Event, Interrupt, Trace};

/// What one object was to a program and to some simulations of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// References stored to its pages.
    pub records: u64,
    /// Different pages referenced while they were its own; one that it lost and got back counts
    /// again.
    pub pages: u64,
    /// Faults on its pages, by simulation.
    pub faults: Vec<ObjectFaults>,
}

/// The faults of one simulation on the pages of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectFaults {
    /// All of them.
    pub faults: u64,
    /// Those that were first touches.
    pub first_touch_faults: u64,
}

/// The faults of each cell by object: index 0 is what belongs to no object, n the n-th allocated. A
/// page belongs to the object allocated last among those that touch it at the time. `progress` is
/// called with the records done.
pub fn attribute(
    trace: &Trace,
    cells: &[Cell],
    progress: &dyn Fn(u64),
) -> Result<Vec<ObjectCounts>, SweepError> {
    let page_bytes = trace.header().metadata.page_size;
    let mut runs = Vec::new();
    for Cell { spec, frames } in cells {
        runs.push((simulation(spec, *frames, false, page_bytes)?, Vec::<ObjectFaults>::new()));
    }
    let needs_future = runs.iter().any(|(simulation, _)| simulation.needs_future());
    let future = if needs_future { Some(future_of(trace, &Interrupt::default())?) } else { None };
    let mut owners = Owners::new(page_bytes);
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        let stretches = owners.stretches(&chunk);
        let next_uses = future.as_ref().map_or(&[][..], |future| future.of_chunk(&chunk));
        runs.par_iter_mut().with_max_len(1).for_each(|(simulation, faults)| {
            faults.resize(owners.counts.len(), ObjectFaults::default());
            let stretches = stretches.iter().copied();
            advance(simulation.as_mut(), &chunk, stretches, next_uses, |object, before, after| {
                faults[object].faults += after.faults - before.faults;
                faults[object].first_touch_faults += after.first_touch_faults - before.first_touch_faults;
            });
        });
        progress(chunk.first_record + chunk.references.len() as u64);
    }
    let mut counts = owners.counts;
    for (object, counts) in counts.iter_mut().enumerate() {
        counts.faults =
            runs.iter().map(|(_, faults)| faults.get(object).copied().unwrap_or_default()).collect();
    }
    Ok(counts)
}

/// Which object each page belongs to, as a trace goes on.
struct Owners {
    objects: LiveObjects,
    /// The object that has each number of `objects` now; they are used again, indices are not.
    index: Vec<usize>,
    /// Page number of each page id.
    numbers: Vec<u64>,
    /// By page id: its object, and the number of changes to `objects` or page numbers when that was
    /// looked up.
    owner: Vec<(u32, usize)>,
    /// One more than the object for which each page id was last counted in [`ObjectCounts::pages`].
    counted: Vec<usize>,
    changes: u32,
    counts: Vec<ObjectCounts>,
}

impl Owners {
    fn new(page_bytes: u64) -> Self {
        Self {
            objects: LiveObjects::new(page_bytes),
            index: vec![0],
            numbers: Vec::new(),
            owner: Vec::new(),
            counted: Vec::new(),
            // 0 is for what was never looked up.
            changes: 1,
            counts: vec![ObjectCounts::default()],
        }
    }

    /// Cuts a chunk where references pass from one object to another.
    fn stretches(&mut self, chunk: &Chunk) -> Vec<Stretch> {
        self.numbers.extend_from_slice(&chunk.new_pages);
        self.owner.resize(self.numbers.len(), (0, 0));
        self.counted.resize(self.numbers.len(), 0);
        let mut events = chunk.events.iter().peekable();
        let objects = chunk.references.iter().enumerate().map(|(at, reference)| {
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize <= at) {
                self.event(event);
            }
            let object = self.owner(reference.page() as usize);
            self.counts[object].records += 1;
            object
        });
        let stretches = stretches(objects).collect();
        events.for_each(|(_, event)| self.event(event));
        stretches
    }

    fn owner(&mut self, page: usize) -> usize {
        let (changes, object) = self.owner[page];
        if changes == self.changes {
            return object;
        }
        let object = self.index[self.objects.of(self.numbers[page]) as usize];
        self.owner[page] = (self.changes, object);
        if self.counted[page] != object + 1 {
            self.counted[page] = object + 1;
            self.counts[object].pages += 1;
        }
        object
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Alloc { address, length, .. } => {
                self.objects.free(address);
                let pages = self.objects.alloc(address, length);
                // All of its pages are its own at first.
                let number = self.objects.of(*pages.start()) as usize;
                if number == self.index.len() {
                    self.index.push(0);
                }
                self.index[number] = self.counts.len();
                self.counts.push(ObjectCounts::default());
            }
            Event::Free { address } => drop(self.objects.free(address)),
            Event::Move { page, to } => self.numbers[page as usize] = to,
            Event::Mark { .. } | Event::Map { .. } | Event::Drop { .. } => return,
        }
        self.changes = self.changes.checked_add(1).expect("fewer than 2^32 objects come and go");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sweep;
    use std::io::Cursor;
    use sweephand_policy::SplitMix64;
    use sweephand_policy::registry::Spec;
    use sweephand_trace::{AllocKind, EndTotals, Metadata, Writer};

    fn cells(policies: &str, frames: usize) -> Vec<Cell> {
        let specs = Spec::parse_list(policies).unwrap();
        specs.into_iter().map(|spec| Cell { spec, frames }).collect()
    }

    fn trace(fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        fill(&mut writer);
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    /// By object: records, pages, faults, first touches among them.
    fn told(counts: &[ObjectCounts]) -> Vec<(u64, u64, u64, u64)> {
        let tell = |object: &ObjectCounts| {
            let ObjectFaults { faults, first_touch_faults } = object.faults[0];
            (object.records, object.pages, faults, first_touch_faults)
        };
        counts.iter().map(tell).collect()
    }

    #[test]
    fn faults_belong_to_the_object_of_the_time() {
        let trace = trace(|writer| {
            writer.alloc(0x1000, 0x1000, AllocKind::Malloc).unwrap();
            for page in [1, 5, 1, 6] {
                writer.reference(page, false).unwrap();
            }
            // The block is freed; its page stays and later belongs to another object.
            writer.free(0x1000).unwrap();
            writer.reference(1, false).unwrap();
            writer.alloc(0x1000, 0x2000, AllocKind::Malloc).unwrap();
            for page in [5, 1, 2] {
                writer.reference(page, false).unwrap();
            }
        });
        // FIFO with 2 frames: 1 5 (1) 6: faults at 1, 5, 6; then 1, 5, (1), 2.
        let counts = attribute(&trace, &cells("fifo", 2), &|_| {}).unwrap();
        assert_eq!(told(&counts), [(4, 3, 4, 2), (2, 1, 1, 1), (2, 2, 1, 1)]);
    }

    #[test]
    fn the_objects_add_up_to_what_a_sweep_counts() {
        let mut random = SplitMix64::new(11);
        let trace = trace(|writer| {
            for time in 0..400_000u64 {
                let block = random.below(8) * 0x8000;
                match random.below(400) {
                    0 => writer.alloc(block + 16, 0x7000, AllocKind::Mmap).unwrap(),
                    1 => writer.free(block + 16).unwrap(),
                    2 => writer.unmap(random.below(64), 3).unwrap(),
                    3 => writer.remap(random.below(64), 100 + random.below(64), 2).unwrap(),
                    _ => {}
                }
                writer.reference(random.below(1 + time % 64), false).unwrap();
            }
        });
        assert!(trace.chunks() > 1, "events have to meet the ends of chunks");
        let cells = cells("opt,clock,lru,car", 20);
        let counts = attribute(&trace, &cells, &|_| {}).unwrap();
        let swept = Sweep { cells, ..Sweep::default() }.run(&trace, &|_| {}).unwrap();
        for (at, (outcome, _)) in swept.iter().enumerate() {
            let sum = |field: fn(&ObjectFaults) -> u64| -> u64 {
                counts.iter().map(|object| field(&object.faults[at])).sum()
            };
            assert_eq!(sum(|object| object.faults), outcome.faults);
            assert_eq!(sum(|object| object.first_touch_faults), outcome.first_touch_faults);
        }
        let records: u64 = counts.iter().map(|object| object.records).sum();
        assert_eq!(records, trace.header().totals.records);
        assert!(counts.len() > 300 && counts[1..].iter().any(|object| object.faults[0].faults > 0));
    }
}
