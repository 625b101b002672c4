//! What a program's faults would be if some of its objects were in huge pages, of 2 MiB.
//!
//! A huge page is one unit: a fault brings in all of it, and all of it goes at once. So it pays
//! where its pages are used together, and wastes memory and transfers where they are not. Policies
//! of the registry know pages of one size only. So this is CLOCK over units of two sizes: a queue,
//! from whose front units go until there is room, and to whose end those go that were referenced.
//! Without huge pages it is the policy `clock`, but for pages that are given up: `clock` fills
//! their frames where they are, and here what comes next goes to the end.
//!
//! A region of 2 MiB is a huge page if it lies wholly in one of the objects, at an address that is
//! a multiple of 2 MiB, as with Linux. What does not is in small pages.

use crate::SweepError;
use crate::attribution::Owners;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;
use sweephand_trace::{Chunk, Event, Trace};

/// Bytes of a huge page.
pub const HUGE_BYTES: u64 = 2 << 20;

/// Faults with some objects in huge pages, and what they bring in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePageFaults {
    /// All faults.
    pub faults: u64,
    /// Those that brought in a huge page.
    pub huge_faults: u64,
    /// Pages that refaults read, a huge page counted as the pages it has.
    pub pages_read: u64,
    /// Of the huge pages that went again: the pages that they have in all.
    pub pages_held: u64,
    /// And those of them that the program used before they went.
    pub pages_used: u64,
}

/// The faults in `frames` frames, under CLOCK, for each choice of objects in huge pages. A choice
/// has a value for each object, by number, as in
/// [`Attribution::objects`](crate::Attribution::objects): `true` if it is in huge pages. `progress`
/// is called with the records done.
///
/// # Errors
/// If the trace cannot be read.
pub fn with_huge_pages(
    trace: &Trace,
    frames: usize,
    choices: &[Vec<bool>],
    progress: &dyn Fn(u64),
) -> Result<Vec<HugePageFaults>, SweepError> {
    let page_bytes = trace.header().metadata.page_size;
    let huge = (HUGE_BYTES / page_bytes).max(1);
    let mut owners = Owners::new(trace);
    let mut space = Space { huge, numbers: Vec::new(), regions: std::iter::once(0..0).collect() };
    let mut runs: Vec<Run<'_>> = choices.iter().map(|which| Run::new(which, frames as u64, huge)).collect();
    let mut chunk = Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk)?;
        space.begin(&chunk, page_bytes);
        let objects = owners.objects(&chunk);
        runs.par_iter_mut().with_max_len(1).for_each(|run| run.advance(&chunk, &objects, &space));
        space.end(&chunk);
        progress(chunk.first_record + chunk.references.len() as u64);
    }
    Ok(runs.into_iter().map(|run| run.counts).collect())
}

/// Where pages and objects are.
struct Space {
    /// Pages of a huge page.
    huge: u64,
    /// The number of each page at the beginning of the chunk, by id.
    numbers: Vec<u64>,
    /// The regions that lie wholly in each object, by its number; none in the first, which stands
    /// for no object. Small allocations have none.
    regions: Vec<Range<u64>>,
}

impl Space {
    fn begin(&mut self, chunk: &Chunk, page_bytes: u64) {
        self.numbers.extend_from_slice(&chunk.new_pages);
        for (_, event) in &chunk.events {
            if let Event::Alloc { address, length, .. } = *event {
                let bytes = self.huge * page_bytes;
                let (first, end) = (address.div_ceil(bytes), address.saturating_add(length) / bytes);
                self.regions.push(first..end.max(first));
            }
        }
    }

    fn end(&mut self, chunk: &Chunk) {
        for (_, event) in &chunk.events {
            if let Event::Move { page, to } = *event {
                self.numbers[page as usize] = to;
            }
        }
    }

    /// The region of a page, if it could be huge in this object.
    fn region(&self, page: u32, object: usize) -> Option<u64> {
        let region = self.numbers[page as usize] / self.huge;
        self.regions.get(object)?.contains(&region).then_some(region)
    }
}

/// A page or a huge page.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    pages: u32,
    is_resident: bool,
    is_referenced: bool,
    /// How often it has come in: an entry of the queue with another number is void.
    visit: u32,
    /// Its pages that have contents.
    pages_with_contents: u32,
    /// Its pages that were used since it came in.
    pages_used: u32,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// One more than the unit that it was last in.
    unit: u32,
    /// The visit of this unit in which it was last used.
    visit: u32,
    has_contents: bool,
}

/// One simulation.
struct Run<'a> {
    which: &'a [bool],
    frames: u64,
    huge: u64,
    used_frames: u64,
    pages: Vec<Page>,
    units: Vec<Unit>,
    /// The unit of each huge page, by region.
    of_region: FxHashMap<u64, u32>,
    /// The unit of each small page, by page id; one more, or 0.
    of_page: Vec<u32>,
    queue: VecDeque<(u32, u32)>,
    counts: HugePageFaults,
}

impl<'a> Run<'a> {
    fn new(which: &'a [bool], frames: u64, huge: u64) -> Self {
        Self {
            which,
            frames,
            huge,
            used_frames: 0,
            pages: Vec::new(),
            units: Vec::new(),
            of_region: FxHashMap::default(),
            of_page: Vec::new(),
            queue: VecDeque::new(),
            counts: HugePageFaults::default(),
        }
    }

    fn advance(&mut self, chunk: &Chunk, objects: &[usize], space: &Space) {
        self.pages.resize(space.numbers.len(), Page::default());
        self.of_page.resize(space.numbers.len(), 0);
        let mut events = chunk.events.iter().peekable();
        for (at, reference) in chunk.references.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize <= at) {
                self.event(event);
            }
            let page = reference.page();
            let Page { unit, visit, has_contents } = self.pages[page as usize];
            // The usual case: it is where it was, and was used there before.
            if let Some(known) = self.units.get_mut((unit as usize).wrapping_sub(1))
                && known.is_resident
                && known.visit == visit
                && has_contents
            {
                known.is_referenced = true;
                continue;
            }
            self.touch(page, objects[at], space);
        }
        events.for_each(|(_, event)| self.event(event));
    }

    fn touch(&mut self, page: u32, object: usize, space: &Space) {
        let is_huge = self.which.get(object).copied().unwrap_or_default() && self.huge <= self.frames;
        let region = is_huge.then(|| space.region(page, object)).flatten();
        let unit = self.unit(page, region);
        if !self.units[unit as usize].is_resident {
            self.fault(unit);
        } else {
            self.units[unit as usize].is_referenced = true;
        }
        let before = self.pages[page as usize];
        let is_new = !before.has_contents || before.unit != unit + 1;
        if is_new {
            // It may have passed to another object.
            self.drop_contents(page);
        }
        let of = &mut self.units[unit as usize];
        of.pages_with_contents += u32::from(is_new);
        of.pages_used += 1;
        self.pages[page as usize] = Page { unit: unit + 1, visit: of.visit, has_contents: true };
    }

    /// The unit that a page is in, or would be in.
    fn unit(&mut self, page: u32, region: Option<u64>) -> u32 {
        let next = self.units.len() as u32;
        let (unit, pages) = match region {
            Some(region) => (*self.of_region.entry(region).or_insert(next), self.huge as u32),
            None => {
                let known = &mut self.of_page[page as usize];
                if *known == 0 {
                    *known = next + 1;
                }
                (*known - 1, 1)
            }
        };
        if unit == next {
            self.units.push(Unit { pages, ..Unit::default() });
        }
        unit
    }

    fn fault(&mut self, unit: u32) {
        let pages = u64::from(self.units[unit as usize].pages);
        while self.used_frames + pages > self.frames {
            self.evict();
        }
        self.used_frames += pages;
        let of = &mut self.units[unit as usize];
        self.counts.faults += 1;
        self.counts.huge_faults += u64::from(of.pages > 1);
        self.counts.pages_read += if of.pages_with_contents > 0 { pages } else { 0 };
        of.visit += 1;
        (of.is_resident, of.is_referenced, of.pages_used) = (true, false, 0);
        self.queue.push_back((unit, of.visit));
    }

    /// Takes the first unit that was not referenced since it was looked at last.
    fn evict(&mut self) {
        loop {
            let (unit, visit) = self.queue.pop_front().expect("what has frames is in the queue");
            let of = &mut self.units[unit as usize];
            if !of.is_resident || of.visit != visit {
                continue;
            }
            if of.is_referenced {
                of.is_referenced = false;
                self.queue.push_back((unit, visit));
                continue;
            }
            if of.pages > 1 {
                self.counts.pages_held += u64::from(of.pages);
                self.counts.pages_used += u64::from(of.pages_used.min(of.pages));
            }
            return self.leave(unit);
        }
    }

    fn leave(&mut self, unit: u32) {
        let of = &mut self.units[unit as usize];
        of.is_resident = false;
        self.used_frames -= u64::from(of.pages);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Drop { pages } => pages.clone().for_each(|page| self.drop_contents(page)),
            Event::Move { page, .. } => {
                // It is a unit of its own from now on, read at its next use.
                let unit = self.pages[*page as usize].unit;
                if unit > 0 && self.units[unit as usize - 1].pages > 1 {
                    self.drop_contents(*page);
                }
            }
            _ => {}
        }
    }

    /// The contents of a page are gone. A unit without any leaves its frames.
    fn drop_contents(&mut self, page: u32) {
        let Some(known) = self.pages.get_mut(page as usize).filter(|known| known.has_contents) else {
            return;
        };
        known.has_contents = false;
        let unit = known.unit - 1;
        let of = &mut self.units[unit as usize];
        of.pages_with_contents = of.pages_with_contents.saturating_sub(1);
        if of.pages_with_contents == 0 && of.is_resident {
            self.leave(unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Sweep};
    use std::io::Cursor;
    use sweephand_policy::SplitMix64;
    use sweephand_policy::registry::Spec;
    use sweephand_trace::{AllocKind, EndTotals, Metadata, Writer};

    fn trace(fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        fill(&mut writer);
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    fn huge(trace: &Trace, frames: usize) -> HugePageFaults {
        with_huge_pages(trace, frames, &[vec![false, true]], &|_| {}).unwrap()[0]
    }

    #[test]
    fn without_huge_pages_it_is_clock() {
        for (gives_up, most_apart) in [(false, 0), (true, 10)] {
            let mut random = SplitMix64::new(5);
            let trace = trace(|writer| {
                for time in 0..200_000u64 {
                    let block = random.below(8) * 0x8000;
                    match random.below(400) {
                        0 => writer.alloc(block + 16, 0x7000, AllocKind::Mmap).unwrap(),
                        1 => writer.free(block + 16).unwrap(),
                        2 if gives_up => writer.unmap(random.below(64), 3).unwrap(),
                        3 if gives_up => writer.remap(random.below(64), 100 + random.below(64), 2).unwrap(),
                        _ => {}
                    }
                    writer.reference(random.below(1 + time % 64), false).unwrap();
                }
            });
            for frames in [1, 7, 20, 60] {
                let cells = vec![Cell { spec: Spec::parse("clock").unwrap(), frames }];
                let swept = Sweep { cells, ..Sweep::default() }.run(&trace, &|_| {}).unwrap()[0].0;
                let ours = with_huge_pages(&trace, frames, &[vec![]], &|_| {}).unwrap()[0];
                let apart = ours.faults.abs_diff(swept.faults);
                assert!(
                    apart * most_apart.max(1) <= swept.faults * u64::from(gives_up),
                    "{frames}: {ours:?}"
                );
                let first = ours.faults - ours.pages_read;
                assert_eq!(first, swept.first_touch_faults, "{frames} frames");
            }
        }
    }

    /// A loop over five huge pages where two fit: each is used as a whole before it goes.
    #[test]
    fn pages_that_are_used_together_are_brought_in_together() {
        let trace = trace(|writer| {
            // Its first and its last page are in regions that it has only parts of.
            writer.alloc(0x40_0000 - 4096, 5 * HUGE_BYTES + 8192, AllocKind::Mmap).unwrap();
            for turn in 0..4 {
                for page in 1024..1024 + 2560 {
                    writer.reference(page, turn == 0).unwrap();
                }
            }
        });
        let told = huge(&trace, 1100);
        assert_eq!((told.faults, told.huge_faults, told.pages_read), (20, 20, 15 * 512));
        assert_eq!((told.pages_held, told.pages_used), (18 * 512, 18 * 512));
        assert_eq!(huge(&trace, 500).huge_faults, 0, "a huge page does not fit");
    }

    /// One page of each region is used: of every fault 511 pages are in vain.
    #[test]
    fn pages_that_are_far_apart_are_brought_in_in_vain() {
        let trace = trace(|writer| {
            writer.alloc(0x40_0000, 4 * HUGE_BYTES, AllocKind::Mmap).unwrap();
            for turn in 0..40 {
                writer.reference(1024 + turn % 4 * 512, false).unwrap();
            }
        });
        let told = huge(&trace, 1024);
        assert_eq!((told.faults, told.pages_read), (40, 36 * 512));
        assert_eq!((told.pages_held, told.pages_used), (38 * 512, 38));
        let small = with_huge_pages(&trace, 1024, &[vec![]], &|_| {}).unwrap()[0];
        assert_eq!((small.faults, small.pages_read), (4, 0), "in small pages all four fit");
    }

    #[test]
    fn what_is_dropped_leaves_its_frames_and_comes_back_empty() {
        let trace = trace(|writer| {
            writer.alloc(0x40_0000, 2 * HUGE_BYTES, AllocKind::Mmap).unwrap();
            for page in [1024, 1025, 1536] {
                writer.reference(page, true).unwrap();
            }
            writer.unmap(1024, 2).unwrap();
            writer.reference(1024, true).unwrap();
        });
        let told = huge(&trace, 1024);
        assert_eq!((told.faults, told.pages_read, told.pages_held), (3, 0, 0));
    }
}
