//! Faults by object and by code: which object's pages the faults of a few simulations are on, and
//! which code made the references.
//!
//! A simulation counts faults and knows neither. So it is given the references of one piece of code
//! to one object at a time: see `stretches`.

use crate::live_objects::LiveObjects;
use crate::stretches::{Stretch, advance, stretches};
use crate::sweep::future_of;
use crate::{Cell, SweepError, simulation};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use sweephand_trace::small::SmallBlocks;
use sweephand_trace::{Chunk, Event, Header, Interrupt, Trace};

/// What one object was to a program and to some simulations of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// References stored to its pages.
    pub records: u64,
    /// Different pages referenced while they were its own; one that it lost and got back counts
    /// again.
    pub pages: u64,
    /// Of the references, those that went on from one of its pages to another.
    pub moves: u64,
    /// Of these, those to a page that is neither beside one of the last four nor as far from the
    /// last as that was from the one before, give or take a page: the steps of a stride of 2.3
    /// pages are 2, 2 and 3.
    pub jumps: u64,
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

/// What some code was to one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCounts {
    /// The [place](sweephand_trace::places) of the code; `None` if it is not known.
    pub place: Option<u32>,
    /// The object's number in [`Attribution::objects`].
    pub object: usize,
    /// References stored to its pages by this code.
    pub records: u64,
    /// Faults of these references, by simulation.
    pub faults: Vec<ObjectFaults>,
}

/// References and faults by object and by code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Index 0 is what belongs to no object, n the n-th allocated. Behind the last of them are the
    /// small allocations, in the order of [`Attribution::small`].
    pub objects: Vec<ObjectCounts>,
    /// The [places](sweephand_trace::places) that made small allocations. A page that is in no
    /// object belongs to the place that has most of it.
    pub small: Vec<u32>,
    /// Each code with each object whose pages it referenced.
    pub code: Vec<CodeCounts>,
}

/// The faults of each cell by object and by code. A page belongs to the object allocated last among
/// those that touch it at the time. `progress` is called with the records done.
pub fn attribute(trace: &Trace, cells: &[Cell], progress: &dyn Fn(u64)) -> Result<Attribution, SweepError> {
    let page_bytes = trace.header().metadata.page_size;
    let mut runs = Vec::new();
    for Cell { spec, frames } in cells {
        runs.push((simulation(spec, *frames, false, page_bytes)?, Vec::<ObjectFaults>::new()));
    }
    let needs_future = runs.iter().any(|(simulation, _)| simulation.needs_future());
    let future = if needs_future { Some(future_of(trace, &Interrupt::default())?) } else { None };
    let mut owners = Owners::new(trace);
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        let stretches = owners.stretches(&chunk, trace.code(index, &chunk)?);
        let next_uses = future.as_ref().map_or(&[][..], |future| future.of_chunk(&chunk));
        runs.par_iter_mut().with_max_len(1).for_each(|(simulation, faults)| {
            faults.resize(owners.pairs.len(), ObjectFaults::default());
            let stretches = stretches.iter().copied();
            advance(simulation.as_mut(), &chunk, stretches, next_uses, |pair, before, after| {
                faults[pair].faults += after.faults - before.faults;
                faults[pair].first_touch_faults += after.first_touch_faults - before.first_touch_faults;
            });
        });
        progress(chunk.first_record + chunk.references.len() as u64);
    }
    let Owners { counts: mut objects, pairs: mut code, small, .. } = owners;
    for object in &mut objects {
        object.faults = vec![ObjectFaults::default(); runs.len()];
    }
    for (pair, counts) in code.iter_mut().enumerate() {
        let of_run = |(_, faults): &(_, Vec<ObjectFaults>)| faults.get(pair).copied().unwrap_or_default();
        counts.faults = runs.iter().map(of_run).collect();
        let object = &mut objects[counts.object];
        object.records += counts.records;
        for (sum, faults) in object.faults.iter_mut().zip(&counts.faults) {
            sum.faults += faults.faults;
            sum.first_touch_faults += faults.first_touch_faults;
        }
    }
    Ok(Attribution { objects, small: small.places, code })
}

/// Where a program is in an object: in several places, if it goes over several parts of it at once.
#[derive(Clone, Copy, Debug)]
struct Heads {
    /// Pages, the one used last first.
    pages: [u64; HEADS],
    step: u64,
}

const HEADS: usize = 4;

impl Heads {
    const NOWHERE: Self = Self { pages: [u64::MAX - 1; HEADS], step: 0 };

    /// Goes to a page, and counts how.
    fn go(&mut self, page: u64, counts: &mut ObjectCounts) {
        if page == self.pages[0] {
            return;
        }
        let step = page.wrapping_sub(self.pages[0]);
        let beside = self.pages.iter().position(|head| page.wrapping_sub(*head).wrapping_add(1) <= 2);
        counts.moves += 1;
        let is_stride = step.wrapping_sub(self.step).wrapping_add(1) <= 2;
        counts.jumps += u64::from(beside.is_none() && !is_stride);
        self.step = step;
        self.pages[..=beside.unwrap_or(HEADS - 1)].rotate_right(1);
        self.pages[0] = page;
    }
}

/// The small allocations of a trace, as if those of each place were an object.
struct Small {
    blocks: SmallBlocks,
    places: Vec<u32>,
    /// The object that stands for the first place.
    first: usize,
}

impl Small {
    fn of(trace: &Trace) -> Self {
        let Header { metadata, totals, .. } = trace.header();
        let blocks = metadata.places.as_ref().map(|places| places.small.clone()).unwrap_or_default();
        Self { places: blocks.places(), blocks, first: 1 + totals.objects as usize }
    }

    /// The object that stands for what a page has; 0 if it has nothing.
    fn owner(&self, page: u64) -> usize {
        let place = self.blocks.of_page(page);
        place.and_then(|place| self.places.binary_search(&place).ok()).map_or(0, |index| self.first + index)
    }
}

/// Which object each page belongs to, as a trace goes on.
pub(crate) struct Owners {
    objects: LiveObjects,
    small: Small,
    /// The objects that have come, and one for none.
    known: usize,
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
    /// By object, as far as they have been needed.
    heads: Vec<Heads>,
    /// The code that makes the references now.
    place: Option<u32>,
    /// Each code with each object, and their numbers.
    pairs: Vec<CodeCounts>,
    number: FxHashMap<(usize, Option<u32>), usize>,
}

impl Owners {
    pub(crate) fn new(trace: &Trace) -> Self {
        let small = Small::of(trace);
        Self {
            objects: LiveObjects::new(trace.header().metadata.page_size),
            known: 1,
            index: vec![0],
            numbers: Vec::new(),
            owner: Vec::new(),
            counted: Vec::new(),
            // 0 is for what was never looked up.
            changes: 1,
            counts: vec![ObjectCounts::default(); small.first + small.places.len()],
            small,
            heads: Vec::new(),
            place: None,
            pairs: Vec::new(),
            number: FxHashMap::default(),
        }
    }

    /// The object of each reference of a chunk; chunks come in order.
    pub(crate) fn objects(&mut self, chunk: &Chunk) -> Vec<usize> {
        self.begin(chunk);
        let mut events = chunk.events.iter().peekable();
        let mut objects = Vec::with_capacity(chunk.references.len());
        for (at, reference) in chunk.references.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize <= at) {
                self.event(event);
            }
            objects.push(self.owner(reference.page() as usize));
        }
        events.for_each(|(_, event)| self.event(event));
        objects
    }

    fn begin(&mut self, chunk: &Chunk) {
        self.numbers.extend_from_slice(&chunk.new_pages);
        self.owner.resize(self.numbers.len(), (0, 0));
        self.counted.resize(self.numbers.len(), 0);
    }

    /// Cuts a chunk where references pass from one object to another, or from one code to another.
    fn stretches(&mut self, chunk: &Chunk, code: Vec<(u32, u32)>) -> Vec<Stretch> {
        self.begin(chunk);
        let mut events = chunk.events.iter().peekable();
        let mut code = code.into_iter().peekable();
        let mut last = None;
        let pairs = chunk.references.iter().enumerate().map(|(at, reference)| {
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize <= at) {
                self.event(event);
            }
            let object = self.owner(reference.page() as usize);
            self.go(object, reference.page() as usize);
            while let Some((_, place)) = code.next_if(|(from, _)| *from as usize <= at) {
                self.place = Some(place);
            }
            let pair = match last {
                Some((of, place, pair)) if (of, place) == (object, self.place) => pair,
                _ => self.pair(object),
            };
            last = Some((object, self.place, pair));
            self.pairs[pair].records += 1;
            pair
        });
        let stretches = stretches(pairs).collect();
        events.for_each(|(_, event)| self.event(event));
        stretches
    }

    /// A page of an object is referenced.
    fn go(&mut self, object: usize, page: usize) {
        if object >= self.heads.len() {
            self.heads.resize(object + 1, Heads::NOWHERE);
        }
        if object > 0 {
            self.heads[object].go(self.numbers[page], &mut self.counts[object]);
        }
    }

    /// The number of an object with the code of now.
    fn pair(&mut self, object: usize) -> usize {
        *self.number.entry((object, self.place)).or_insert_with(|| {
            self.pairs.push(CodeCounts { place: self.place, object, ..CodeCounts::default() });
            self.pairs.len() - 1
        })
    }

    fn owner(&mut self, page: usize) -> usize {
        let (changes, object) = self.owner[page];
        if changes == self.changes {
            return object;
        }
        let number = self.numbers[page];
        let object = match self.index[self.objects.of(number) as usize] {
            0 => self.small.owner(number),
            object => object,
        };
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
                // A sound trace has no more objects than it says.
                let is_sound = self.known < self.small.first;
                self.index[number] = if is_sound { self.known } else { 0 };
                self.known += usize::from(is_sound);
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

    #[test]
    fn equal_strides_count_as_no_jumps() {
        let jumps = |pages: &mut dyn Iterator<Item = u64>| {
            let (mut heads, mut counts) = (Heads::NOWHERE, ObjectCounts::default());
            pages.for_each(|page| heads.go(page, &mut counts));
            (counts.moves, counts.jumps)
        };
        assert_eq!(jumps(&mut (0..100)), (100, 1), "in order");
        assert_eq!(jumps(&mut (0..100).rev()), (100, 1), "backwards");
        assert_eq!(jumps(&mut (0..100).map(|n| n * 7)), (100, 2), "with a stride");
        assert_eq!(jumps(&mut (0..100).map(|n| 50 + n * 234 / 100)), (100, 2), "with a stride of 2.34 pages");
        assert_eq!(jumps(&mut (0..100).flat_map(|n| [n, n + 500, n + 900, n])), (400, 3), "a stencil");
        let mut random = SplitMix64::new(7);
        let (moves, jumped) = jumps(&mut std::iter::repeat_with(|| random.next_u64() % 1000).take(1000));
        assert!(jumped > moves * 9 / 10, "at random: {jumped} of {moves}");
    }
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
        assert_eq!(told(&counts.objects), [(4, 3, 4, 2), (2, 1, 1, 1), (2, 2, 1, 1)]);
    }

    #[test]
    fn faults_belong_to_the_code_that_made_the_reference() {
        let trace = trace(|writer| {
            writer.alloc(0x1000, 0x2000, AllocKind::Malloc).unwrap();
            writer.reference(9, false).unwrap();
            writer.code(0);
            for page in [1, 2, 9] {
                writer.reference(page, false).unwrap();
            }
            writer.code(1);
            for page in [1, 2, 2] {
                writer.reference(page, false).unwrap();
            }
            writer.code(0);
            writer.reference(1, false).unwrap();
        });
        // FIFO with 2 frames: 9, 1, 2 (9 goes), 9 (1 goes), 1 (2 goes), 2 (9 goes), (2), (1).
        let Attribution { objects, code, .. } = attribute(&trace, &cells("fifo", 2), &|_| {}).unwrap();
        assert_eq!(told(&objects), [(2, 1, 2, 1), (6, 2, 4, 2)]);
        let mut told: Vec<_> =
            code.iter().map(|of| (of.place, of.object, of.records, of.faults[0].faults)).collect();
        told.sort_unstable();
        assert_eq!(told, [(None, 0, 1, 1), (Some(0), 0, 1, 1), (Some(0), 1, 3, 2), (Some(1), 1, 3, 2)]);
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
        let counts = attribute(&trace, &cells, &|_| {}).unwrap().objects;
        let swept = Sweep { cells, ..Sweep::default() }.run(&trace, &|_| {}).unwrap();
        for (at, (outcome, _)) in swept.iter().enumerate() {
            let sum = |field: fn(&ObjectFaults) -> u64| -> u64 {
                counts.iter().map(|object| field(&object.faults[at])).sum()
            };
            assert_eq!(sum(|object| object.faults), outcome.faults, "policy {at}");
            assert_eq!(sum(|object| object.first_touch_faults), outcome.first_touch_faults, "policy {at}");
        }
        let records: u64 = counts.iter().map(|object| object.records).sum();
        assert_eq!(records, trace.header().totals.records);
        assert!(counts.len() > 300 && counts[1..].iter().any(|object| object.faults[0].faults > 0));
    }
}
