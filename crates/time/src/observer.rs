//! What paging takes while a simulation runs: the part of the model that follows every fault.

use crate::paging::Costs;
use crate::space::Space;
use crate::swap_in::SwapIn;
use crate::{Device, Figures, Paging};
use std::collections::VecDeque;
use std::sync::Arc;
use sweephand_pager_interface::division::{self, BATCHES};
use sweephand_pager_interface::readahead::{Course, ReadAhead, Run, foresees};
use sweephand_pager_interface::readaround::ReadAround;
use sweephand_pager_interface::slots::Slots;
use sweephand_policy::PageId;
use sweephand_sim::{Observer, Outcome, PagingTime};
use sweephand_trace::VirtualTime;

/// A page that was read ahead counts as unused when this many others have been read ahead since, as
/// part of memory: a sixteenth.
const UNASKED_SHARE: usize = 16;

/// A program, what pages it, and to which device.
#[derive(Clone, Debug)]
pub(crate) struct PagedProgram {
    pub(crate) device: Arc<Device>,
    pub(crate) paging: Paging,
    /// How long it takes with all memory.
    pub(crate) native_ns: u64,
    pub(crate) page_bytes: u64,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) space: Arc<Space>,
}

/// Where a page is, as far as paging goes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Place {
    /// It has no contents.
    #[default]
    Nowhere,
    /// In memory, and the policy has it.
    Resident,
    /// Evicted. It waits for its batch to be full, or is being written.
    Leaving,
    /// On the device only.
    Stored,
    /// Read ahead, or on its way; the policy does not have it yet.
    Unasked,
    /// Filled with zeros ahead of the program.
    Filled,
}

/// The slot of a page that has none.
const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    place: Place,
    /// Where it is on the device, or [`NO_SLOT`].
    slot: u32,
    /// It was written to since it came in, so what its slot holds is old.
    dirty: bool,
    /// A touch asks for the next window of its run.
    trigger: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self { place: Place::Nowhere, slot: NO_SLOT, dirty: false, trigger: false }
    }
}

/// A batch of pages that is being written.
#[derive(Debug)]
struct Write {
    done: u64,
    pages: Vec<PageId>,
}

/// Adds up what paging takes, while a simulation runs.
#[derive(Debug)]
pub(crate) struct PagingObserver {
    program: PagedProgram,
    costs: Costs,
    frames: usize,
    batch_pages: usize,
    most_unasked: usize,
    pages: Vec<Page>,
    /// When pages that were read ahead arrive, by page id.
    arrivals: Vec<u64>,
    ahead: Ahead,
    worker: Worker,
    disk: Disk,
    /// Memory has been full, so paging has begun.
    is_short: bool,
    seen: PagingTime,
}

/// What is read before the program asks for it.
#[derive(Debug)]
struct Ahead {
    runs: ReadAhead,
    around: ReadAround,
    swap_in: SwapIn,
    /// Pages read ahead, in order. Those used since are among them until they are met.
    unasked: VecDeque<PageId>,
    /// Pages that are in memory and not used yet, now; added up over the faults in full memory, and
    /// how many of these there were.
    pages: u64,
    pages_at_faults: u64,
    faults: u64,
}

/// The thread that pages.
#[derive(Debug, Default)]
struct Worker {
    /// When it has done what it has to do.
    free_at: u64,
    /// What it will have to do when reads that no thread waits for are complete: when, how long.
    landings: VecDeque<(u64, u64)>,
}

/// The device, and what is on its way to it.
#[derive(Debug, Default)]
struct Disk {
    slots: Slots,
    /// The page in each slot; of a free one, the last that was.
    by_slot: Vec<PageId>,
    /// When it can take the next request.
    free_at: u64,
    /// Evicted pages that wait for their batch to be full.
    staged: Vec<PageId>,
    /// Batches under way.
    writes: VecDeque<Write>,
}

/// The time on the device of a request that has it to itself, and how long it keeps others out.
pub(crate) fn service(figures: &Figures, latency_us: f64, bytes: u64, first: u64) -> (u64, u64) {
    let beyond = bytes.saturating_sub(first) as f64;
    let alone_ns = 1e3 * latency_us + 1e9 * beyond / figures.stream_bytes_per_second;
    let occupied_s = (1.0 / figures.operations_per_second).max(bytes as f64 / figures.bytes_per_second);
    let occupied_ns = (1e9 * occupied_s) as u64;
    ((alone_ns as u64).max(occupied_ns), occupied_ns)
}

impl PagingObserver {
    /// An observer of a simulation in `frames` frames.
    pub(crate) fn new(program: PagedProgram, frames: usize) -> Self {
        let costs = program.paging.costs();
        let batch_pages = match program.paging {
            Paging::Run => division::batch_pages(frames, false),
            Paging::Kernel => 32,
        };
        let window = costs.most_window_pages.min(batch_pages);
        let pages = program.space.numbers.len();
        Self {
            program,
            costs,
            frames,
            batch_pages,
            most_unasked: (frames / UNASKED_SHARE).max(3 * batch_pages),
            pages: vec![Page::default(); pages],
            arrivals: vec![0; pages],
            ahead: Ahead {
                runs: ReadAhead::new(window),
                around: ReadAround::new(window),
                swap_in: SwapIn::new(costs.most_window_pages),
                unasked: VecDeque::new(),
                pages: 0,
                pages_at_faults: 0,
                faults: 0,
            },
            worker: Worker::default(),
            disk: Disk::default(),
            is_short: false,
            seen: PagingTime::default(),
        }
    }

    /// The present: processor time up to a record, and waiting.
    fn now(&self, record: u64) -> u64 {
        let time = &self.program.time;
        let share = u128::from(time.before(record)) * u128::from(self.program.native_ns);
        (share / u128::from(time.total().max(1))) as u64 + self.seen.stall_ns
    }

    /// The program waits until a moment.
    fn wait_until(&mut self, now: &mut u64, moment: u64) {
        self.seen.stall_ns += moment.saturating_sub(*now);
        *now = moment.max(*now);
    }

    /// Work on pages from a moment on, by whoever does it; returns when it is done.
    fn work(&mut self, now: &mut u64, from: u64, work_ns: u64) -> u64 {
        if self.costs.has_own_thread {
            while let Some((landed_at, landing_ns)) =
                self.worker.landings.front().filter(|(at, _)| *at <= from)
            {
                self.worker.free_at = self.worker.free_at.max(*landed_at) + landing_ns;
                self.worker.landings.pop_front();
            }
            self.worker.free_at = self.worker.free_at.max(from) + work_ns;
            self.worker.free_at
        } else {
            self.wait_until(now, from.max(*now) + work_ns);
            *now
        }
    }

    /// Starts a request for `pages` pages; returns when it is complete.
    fn request(&mut self, from: u64, pages: usize, write: bool) -> u64 {
        let (device, page_bytes) = (&self.program.device, self.program.page_bytes);
        let figures = if write { &device.write } else { &device.read };
        let start = self.disk.free_at.max(from);
        let is_beside_writes = !write && self.disk.writes.back().is_some_and(|write| write.done > start);
        let latency_us = device.read_beside_writes_us.filter(|_| is_beside_writes);
        let latency_us = latency_us.unwrap_or(figures.latency_us);
        let (alone_ns, occupied_ns) = service(figures, latency_us, pages as u64 * page_bytes, page_bytes);
        self.disk.free_at = start + occupied_ns;
        start + alone_ns
    }

    /// Starts the requests for pages: one for each run of neighbouring slots. Returns when the one
    /// with `asked` is complete, and when all are.
    fn requests(&mut self, from: u64, pages: &[PageId], asked: PageId, write: bool) -> (u64, u64) {
        let slots: Vec<_> = pages.iter().map(|page| (*page, self.pages[page.index()].slot)).collect();
        let (mut asked_done, mut done) = (from, from);
        for run in slots.chunk_by(|(_, one), (_, other)| one + 1 == *other) {
            let run_done = self.request(from, run.len(), write);
            done = done.max(run_done);
            if run.iter().any(|(page, _)| *page == asked) {
                asked_done = run_done;
            }
        }
        (asked_done, done)
    }

    /// Gives up the slot of a page.
    fn free_slot(&mut self, page: PageId) {
        let slot = std::mem::replace(&mut self.pages[page.index()].slot, NO_SLOT);
        if slot != NO_SLOT {
            self.disk.slots.free(slot as usize);
        }
    }

    /// Pages whose writes are complete by now are on the device only.
    fn settle(&mut self, now: u64) {
        while self.disk.writes.front().is_some_and(|write| write.done <= now) {
            let write = self.disk.writes.pop_front().expect("there is one");
            for page in write.pages {
                // Others came back meanwhile, or left again.
                let entry = &mut self.pages[page.index()];
                if entry.place == Place::Leaving && self.arrivals[page.index()] == write.done {
                    entry.place = Place::Stored;
                }
            }
        }
    }

    /// Starts to read pages. A thread waits for the first, if `asked`. Returns when that one is
    /// there, and when all are.
    fn read(&mut self, now: &mut u64, pages: &[PageId], asked: bool) -> (u64, u64) {
        let Some(first) = pages.first() else { return (*now, *now) };
        self.seen.pages_read += pages.len() as u64;
        let mut in_order = pages.to_vec();
        let by_slot = self.program.paging == Paging::Kernel && self.program.device.rotational;
        in_order.sort_unstable_by_key(|page| match by_slot {
            true => self.pages[page.index()].slot,
            false => self.program.space.ranks[page.index()],
        });
        let (asked_at, read_at) = self.requests(*now, &in_order, *first, false);
        let (landed, done) = if self.costs.has_own_thread {
            // The pager waits for all requests of a window.
            let others_ns = (pages.len() - usize::from(asked)) as u64 * self.costs.page_in_ns;
            self.worker.landings.push_back((read_at, others_ns));
            (read_at, read_at + others_ns)
        } else {
            (asked_at, read_at)
        };
        for page in &pages[usize::from(asked)..] {
            self.pages[page.index()].place = Place::Unasked;
            self.arrivals[page.index()] = done;
            self.ahead.unasked.push_back(*page);
            self.ahead.pages += 1;
        }
        // What was not used in time is gone again. The device still has it.
        while self.ahead.unasked.len() > self.most_unasked {
            let page = self.ahead.unasked.pop_front().expect("there are some");
            if self.pages[page.index()].place == Place::Unasked {
                self.ahead.pages -= 1;
                self.ahead.around.was_used(self.number(page), false);
                self.leave(now, page);
            }
        }
        (landed, done)
    }

    fn number(&self, page: PageId) -> usize {
        self.program.space.numbers[page.index()] as usize
    }

    fn page(&self, number: usize) -> Option<PageId> {
        self.program.space.within(number as u64..number as u64 + 1).next()
    }

    /// The pages of a window, along a run from a page number on, that are on the device.
    fn window(&self, number: usize, run: Run) -> Vec<PageId> {
        let known = run.span(number).map_while(|number| self.page(number));
        let known = known.take_while(|page| self.pages[page.index()].place != Place::Nowhere);
        let stored = known.filter(|page| self.pages[page.index()].place == Place::Stored);
        stored.take(run.window.clamp(1, self.batch_pages)).collect()
    }

    /// The kernel needs a page that is on a disk that turns.
    fn swap_in(&mut self, now: &mut u64, page: PageId) {
        let (from, fault_ns) = (*now, self.costs.fault_ns);
        self.work(now, from, fault_ns / 2);
        let block = self.ahead.swap_in.fault(self.pages[page.index()].slot);
        let block = block.start as usize..(block.end as usize).min(self.disk.by_slot.len());
        let mut pages = vec![page];
        for slot in block {
            let other = self.disk.by_slot[slot];
            let entry = &self.pages[other.index()];
            if other != page && entry.slot == slot as u32 && entry.place == Place::Stored {
                pages.push(other);
            }
        }
        let (landed, _) = self.read(now, &pages, true);
        self.work(now, landed, fault_ns / 2 + self.costs.page_in_ns);
    }

    /// A page on the device is needed.
    fn refault(&mut self, now: &mut u64, page: PageId) {
        if self.program.paging == Paging::Kernel && self.program.device.rotational {
            return self.swap_in(now, page);
        }
        let number = self.number(page);
        let run = self.ahead.runs.fault(number);
        // At the same number there may be another page, which lay there before it was moved.
        let others = self.window(number, run).into_iter().filter(|other| self.number(*other) != number);
        let pages: Vec<_> = std::iter::once(page).chain(others).collect();
        let fault_ns = self.costs.fault_ns;
        let from = *now;
        let asked_at = self.work(now, from, fault_ns / 2);
        self.wait_until(now, asked_at);
        let next = run.course.after(pages.last().map_or(number, |page| self.number(*page)), 1);
        self.ahead.runs.expect(run, next);
        let (landed, _) = self.read(now, &pages, true);
        if run.window == 1 {
            let around = self.ahead.around.fault(number, self.frames);
            let near = self.program.space.within(around.start as u64..around.end as u64);
            let near: Vec<_> = near
                .filter(|other| {
                    self.number(*other) != number && self.pages[other.index()].place == Place::Stored
                })
                .take(self.batch_pages)
                .collect();
            self.read(now, &near, false);
        }
        if foresees(run.window) && self.costs.reads_on {
            self.read_behind(now, next, run);
        }
        let mapped = self.work(now, landed, fault_ns / 2 + self.costs.page_in_ns);
        self.wait_until(now, mapped);
    }

    /// Reads the window of a run that begins at this page number or behind it.
    fn read_behind(&mut self, now: &mut u64, number: usize, run: Run) {
        let is_out = |number: &usize| {
            let place = self.page(*number).map_or(Place::Nowhere, |page| self.pages[page.index()].place);
            matches!(place, Place::Stored | Place::Nowhere)
        };
        let first = run.course.from(number, 2 * self.batch_pages).find(is_out).unwrap_or(number);
        self.ahead.runs.expect(run, first);
        let pages = self.window(first, run);
        let Some(trigger) = pages.first() else { return };
        self.read(now, &pages, false);
        self.pages[trigger.index()].trigger = true;
    }

    /// A page that was read ahead is used.
    fn arrive(&mut self, now: &mut u64, page: PageId) {
        let number = self.number(page);
        self.ahead.around.was_used(number, true);
        self.ahead.swap_in.was_used();
        self.wait_until(now, self.arrivals[page.index()]);
        let arrived_ns = self.costs.arrived_ns;
        let arrived_at = *now + arrived_ns;
        self.wait_until(now, arrived_at);
        if self.pages[page.index()].trigger {
            let run = self.ahead.runs.fault(number);
            self.read_behind(now, run.course.after(number, 1), run);
        }
    }

    /// A page without contents is touched.
    fn fill(&mut self, now: &mut u64, page: PageId) {
        if !self.is_short {
            return;
        }
        let number = self.number(page);
        let run = self.ahead.runs.fault(number);
        let window = if run.course == Course::Upward { run.window } else { 1 };
        let along = self.program.space.run_from(page).take(window);
        let pages: Vec<_> =
            along.take_while(|page| self.pages[page.index()].place == Place::Nowhere).collect();
        self.ahead.runs.expect(run, run.course.after(number, pages.len()));
        if self.costs.has_own_thread {
            for page in &pages[1..] {
                self.pages[page.index()].place = Place::Filled;
            }
            self.ahead.pages += pages.len() as u64 - 1;
        }
        let filled = if self.costs.has_own_thread { pages.len() as u64 } else { 1 };
        let work_ns = self.costs.zero_fault_ns + filled * self.costs.zero_page_ns;
        let from = *now;
        let done = self.work(now, from, work_ns);
        self.wait_until(now, done);
    }

    /// A page that is being written, or waits for that, is touched. It comes back.
    fn take_back(&mut self, now: &mut u64, page: PageId) {
        self.free_slot(page);
        if let Some(place) = self.disk.staged.iter().position(|staged| *staged == page) {
            self.disk.staged.swap_remove(place);
            self.seen.pages_written -= 1;
            // The pager has only made up its mind to evict it, and it is still mapped.
            if self.costs.has_own_thread {
                return;
            }
        }
        let (from, work_ns) = (*now, self.costs.fault_ns);
        let mapped = self.work(now, from, work_ns);
        self.wait_until(now, mapped);
    }

    /// A page leaves memory. It is written, if the device does not have it.
    fn leave(&mut self, now: &mut u64, page: PageId) {
        let entry = &mut self.pages[page.index()];
        entry.trigger = false;
        if entry.slot != NO_SLOT && !entry.dirty {
            entry.place = Place::Stored;
            return;
        }
        *entry = Page { place: Place::Leaving, dirty: false, ..*entry };
        self.free_slot(page);
        self.disk.staged.push(page);
        self.arrivals[page.index()] = u64::MAX;
        self.seen.pages_written += 1;
        if self.disk.staged.len() >= self.batch_pages {
            self.write(now);
        }
    }

    /// Evicted pages are written, a batch at a time.
    fn write(&mut self, now: &mut u64) {
        self.settle(*now);
        if self.disk.writes.len() >= BATCHES {
            let oldest = self.disk.writes.front().expect("there are some").done;
            self.wait_until(now, oldest);
            self.settle(*now);
        }
        let mut pages = std::mem::take(&mut self.disk.staged);
        if self.costs.has_own_thread {
            // The pager puts neighbours next to each other.
            pages.sort_unstable_by_key(|page| self.program.space.ranks[page.index()]);
        }
        let mut slots = Vec::with_capacity(pages.len());
        self.disk.slots.allocate(pages.len(), |slot| slots.push(slot as u32));
        self.disk.by_slot.resize(self.disk.slots.count(), pages[0]);
        for (page, slot) in pages.iter().zip(slots) {
            self.pages[page.index()].slot = slot;
            self.disk.by_slot[slot as usize] = *page;
        }
        let (_, done) = self.requests(*now, &pages, pages[0], true);
        if self.program.device.synchronous {
            self.wait_until(now, done);
        }
        for page in &pages {
            self.arrivals[page.index()] = done;
        }
        self.disk.writes.push_back(Write { done, pages });
    }
}

impl Observer for PagingObserver {
    fn sees_writes(&self) -> bool {
        true
    }

    fn written(&mut self, page: PageId) {
        self.pages[page.index()].dirty = true;
    }

    fn fault(&mut self, page: PageId, record: u64) {
        let mut now = self.now(record);
        self.settle(now);
        let before = self.pages[page.index()].place;
        if self.is_short {
            self.ahead.faults += 1;
            self.ahead.pages_at_faults += self.ahead.pages;
        }
        if matches!(before, Place::Unasked | Place::Filled) {
            self.ahead.pages -= 1;
            // What it sets off may not take it for one that was never used.
            self.pages[page.index()].place = Place::Resident;
        }
        match before {
            Place::Nowhere => self.fill(&mut now, page),
            Place::Stored => self.refault(&mut now, page),
            Place::Unasked => self.arrive(&mut now, page),
            Place::Leaving => self.take_back(&mut now, page),
            Place::Filled | Place::Resident => {}
        }
        self.pages[page.index()].place = Place::Resident;
    }

    fn evicted(&mut self, page: PageId, record: u64) {
        let mut now = self.now(record);
        if !self.is_short {
            self.is_short = true;
            let started_at = now + self.costs.start_ns;
            self.wait_until(&mut now, started_at);
        }
        let evict_ns = self.costs.evict_ns;
        let from = now;
        self.work(&mut now, from, evict_ns);
        self.leave(&mut now, page);
    }

    fn dropped(&mut self, page: PageId) {
        let place = self.pages[page.index()].place;
        self.ahead.pages -= u64::from(matches!(place, Place::Unasked | Place::Filled));
        if let Some(place) = self.disk.staged.iter().position(|staged| *staged == page) {
            self.disk.staged.swap_remove(place);
            self.seen.pages_written -= 1;
        }
        self.free_slot(page);
        self.pages[page.index()] = Page::default();
    }

    fn report(&self, outcome: &mut Outcome) {
        let pages_ahead = self.ahead.pages_at_faults / self.ahead.faults.max(1);
        outcome.paging = Some(PagingTime { pages_ahead, ..self.seen });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_trace::{EndTotals, Metadata, Trace, Writer};

    const FIGURES: Figures = Figures {
        latency_us: 7.0,
        operations_per_second: 1000.0,
        bytes_per_second: 2e6,
        stream_bytes_per_second: 1e6,
    };

    /// A page of 4000 bytes takes 100 us. Beyond it, a byte takes 1 us. A request keeps others out
    /// for 1 ms, or for 0.5 us a byte.
    #[test]
    fn a_request_takes_its_latency_its_bytes_beyond_a_page_and_no_less_than_its_turn() {
        let of = |bytes| service(&FIGURES, 100.0, bytes, 4000);
        assert_eq!(of(1000), (1_000_000, 1_000_000), "less than a page");
        assert_eq!(of(4000), (2_000_000, 2_000_000));
        assert_eq!(of(6000), (3_000_000, 3_000_000));
        assert_eq!(of(12_000), (8_100_000, 6_000_000));
        let slow = service(&FIGURES, 3000.0, 4000, 4000);
        assert_eq!(slow, (3_000_000, 2_000_000), "the latency is that of the call");
    }

    /// Of a program with four references, to a page each. A page takes 100 us to read or 200 us to
    /// write, and 1 us more for each beyond it. A request keeps others out for 100 us.
    fn observer(paging: Paging) -> PagingObserver {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        (0..4).for_each(|page| writer.reference(page, true).unwrap());
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let read = Figures {
            latency_us: 100.0,
            operations_per_second: 1e4,
            bytes_per_second: 1e15,
            stream_bytes_per_second: 4096e6,
        };
        let device = Device {
            name: "test".into(),
            source: "made up".into(),
            synchronous: false,
            compressor: None,
            codec_times: None,
            rotational: false,
            disk: None,
            read_beside_writes_us: Some(300.0),
            read,
            write: Figures { latency_us: 200.0, ..read },
            measurements: Vec::new(),
        };
        let program = PagedProgram {
            device: Arc::new(device),
            paging,
            native_ns: 1000,
            page_bytes: 4096,
            time: Arc::new(VirtualTime::of(&trace).unwrap()),
            space: Arc::new(Space::of(&trace).unwrap()),
        };
        PagingObserver::new(program, 1000)
    }

    #[test]
    fn the_present_is_processor_time_and_waiting() {
        let mut observer = observer(Paging::Run);
        assert_eq!([0, 1, 4].map(|record| observer.now(record)), [0, 250, 1000]);
        observer.seen.stall_ns = 7;
        assert_eq!(observer.now(1), 257);
        let mut now = 300;
        observer.wait_until(&mut now, 299);
        assert_eq!((now, observer.seen.stall_ns), (300, 7), "no wait for the past");
        observer.wait_until(&mut now, 340);
        assert_eq!((now, observer.seen.stall_ns), (340, 47));
    }

    #[test]
    fn a_thread_of_its_own_does_what_landed_before() {
        let mut observer = observer(Paging::Run);
        observer.worker.landings.extend([(100, 30), (200, 40)]);
        let mut now = 120;
        assert_eq!(observer.work(&mut now, 120, 7), 100 + 30 + 7);
        assert_eq!(observer.work(&mut now, 150, 5), 155, "the second read has not landed");
        assert_eq!(observer.work(&mut now, 200, 1), 200 + 40 + 1);
        assert_eq!((now, observer.seen.stall_ns), (120, 0), "the program goes on");
    }

    #[test]
    fn without_a_thread_of_its_own_the_program_does_the_work() {
        let mut observer = observer(Paging::Kernel);
        let mut now = 120;
        assert_eq!(observer.work(&mut now, 150, 7), 157);
        assert_eq!((now, observer.seen.stall_ns), (157, 37));
        assert_eq!(observer.work(&mut now, 100, 3), 160);
    }

    #[test]
    fn requests_wait_for_their_turn_and_reads_beside_writes_take_longer() {
        let mut observer = observer(Paging::Run);
        assert_eq!(observer.request(0, 1, false), 100_000);
        assert_eq!(observer.request(50_000, 3, false), 100_000 + 102_000);
        observer.disk.writes.push_back(Write { done: 500_000, pages: Vec::new() });
        assert_eq!(observer.request(300_000, 1, false), 300_000 + 300_000);
        assert_eq!(observer.request(400_000, 1, true), 400_000 + 200_000);
        assert_eq!(observer.request(500_000, 1, false), 500_000 + 100_000, "the write is done");
    }

    #[test]
    fn each_run_of_slots_is_a_request() {
        let pages = [0, 1, 2].map(PageId);
        for (asked, expected) in [(pages[0], (101_000, 200_000)), (pages[2], (200_000, 200_000))] {
            let mut observer = observer(Paging::Run);
            for (page, slot) in pages.into_iter().zip([5, 6, 8]) {
                observer.pages[page.index()].slot = slot;
            }
            assert_eq!(observer.requests(0, &pages, asked, false), expected);
        }
    }

    /// Of three pages of a batch one has come back meanwhile, and one has left again.
    #[test]
    fn pages_whose_write_is_complete_are_on_the_device_only() {
        let mut observer = observer(Paging::Run);
        let pages = [0, 1, 2].map(PageId);
        for (page, arrival) in pages.into_iter().zip([50, 50, 60]) {
            observer.pages[page.index()].place = Place::Leaving;
            observer.arrivals[page.index()] = arrival;
        }
        observer.pages[1].place = Place::Resident;
        observer.disk.writes.push_back(Write { done: 50, pages: pages.to_vec() });
        let places = |observer: &PagingObserver| [0, 1, 2].map(|page| observer.pages[page].place);
        observer.settle(49);
        assert_eq!(places(&observer), [Place::Leaving, Place::Resident, Place::Leaving]);
        observer.settle(50);
        assert_eq!(places(&observer), [Place::Stored, Place::Resident, Place::Leaving]);
        assert_eq!(observer.disk.writes.len(), 0);
    }

    #[test]
    fn a_page_is_written_unless_the_device_has_it() {
        let mut observer = observer(Paging::Run);
        let mut now = 0;
        observer.disk.slots.allocate(5, |_| ());
        let page = |slot, dirty| Page { place: Place::Resident, slot, dirty, trigger: true };
        observer.pages = vec![page(NO_SLOT, false), page(3, false), page(4, true), Page::default()];
        (0..3).for_each(|id| observer.leave(&mut now, PageId(id)));
        assert_eq!(observer.seen.pages_written, 2);
        assert_eq!(observer.disk.staged, [PageId(0), PageId(2)]);
        let left = |place, slot| Page { place, slot, dirty: false, trigger: false };
        assert_eq!(observer.pages[0], left(Place::Leaving, NO_SLOT));
        assert_eq!(observer.pages[1], left(Place::Stored, 3));
        assert_eq!(observer.pages[2], left(Place::Leaving, NO_SLOT), "the old contents lose their slot");
        // What comes back before it is written has not been written.
        observer.take_back(&mut now, PageId(2));
        assert_eq!((observer.seen.pages_written, observer.disk.staged), (1, vec![PageId(0)]));
        assert_eq!(now, 0, "the pager had not unmapped it yet");
    }

    /// Three neighbours that are read; `most_unasked` of those that nobody waits for may stay.
    fn reads(paging: Paging, asked: bool, most_unasked: usize) -> (PagingObserver, (u64, u64)) {
        let mut observer = observer(paging);
        observer.most_unasked = most_unasked;
        observer.disk.slots.allocate(3, |_| ());
        for (page, slot) in observer.pages.iter_mut().zip(0..3) {
            *page = Page { place: Place::Stored, slot, dirty: false, trigger: false };
        }
        let times = observer.read(&mut 0, &[0, 1, 2].map(PageId), asked);
        (observer, times)
    }

    /// The pager takes 1 us for each page that nobody waits for, when all are read.
    #[test]
    fn pages_read_ahead_arrive_when_they_are_in_memory() {
        let (run, times) = reads(Paging::Run, true, 9);
        assert_eq!(times, (102_000, 104_000));
        assert_eq!(run.worker.landings, [(102_000, 2000)]);
        assert_eq!(run.arrivals, [0, 104_000, 104_000, 0]);
        assert_eq!((run.seen.pages_read, run.ahead.pages), (3, 2));
        let unasked = |slot| Page { place: Place::Unasked, slot, dirty: false, trigger: false };
        assert_eq!(run.pages[1..3], [1, 2].map(unasked));
        let (kernel, times) = reads(Paging::Kernel, false, 9);
        assert_eq!(times, (102_000, 102_000));
        assert_eq!(kernel.ahead.pages, 3);
        assert_eq!(kernel.pages[..3], [0, 1, 2].map(unasked));
    }

    #[test]
    fn pages_that_were_read_ahead_in_vain_leave_the_oldest_first() {
        let places = |observer: &PagingObserver| [0, 1, 2].map(|page| observer.pages[page].place);
        for paging in [Paging::Run, Paging::Kernel] {
            let (observer, _) = reads(paging, false, 1);
            let expected = [Place::Stored, Place::Stored, Place::Unasked];
            assert_eq!(places(&observer), expected, "{paging:?}: the device has them");
            assert_eq!((observer.ahead.pages, observer.seen.pages_written), (1, 0), "{paging:?}");
        }
    }

    /// Pages 3, 2, 1 and 0 have gone to slots 0 to 3. Since then page 1 has come back, and page 0
    /// has gone to another slot. A block of four slots is due.
    #[test]
    fn on_a_disk_that_turns_the_kernel_reads_what_lies_beside_a_page() {
        let stored = |slot| Page { place: Place::Stored, slot, dirty: false, trigger: false };
        for (paging, rotational, read, stall_ns) in [
            (Paging::Kernel, true, 2, 101_000 + 3000 + 500),
            (Paging::Kernel, false, 1, 100_000 + 3000 + 500),
            (Paging::Run, true, 1, 100_000 + 14_000 + 1000),
        ] {
            let mut observer = observer(paging);
            Arc::make_mut(&mut observer.program.device).rotational = rotational;
            observer.disk.slots.allocate(10, |_| ());
            observer.disk.by_slot = [3, 2, 1, 0].map(PageId).to_vec();
            observer.pages = [9, 2, 1, 0].map(stored).to_vec();
            observer.pages[1].place = Place::Resident;
            observer.ahead.swap_in.was_used();
            observer.refault(&mut 0, PageId(2));
            let seen = (observer.seen.pages_read, observer.seen.stall_ns);
            assert_eq!(seen, (read, stall_ns), "{paging:?}, rotational: {rotational}");
            let places = [0, 1, 3].map(|page| observer.pages[page].place);
            let beside = if read == 2 { Place::Unasked } else { Place::Stored };
            assert_eq!(places, [Place::Stored, Place::Resident, beside], "{paging:?}");
        }
    }

    #[test]
    fn a_page_read_ahead_is_waited_for_and_counts_as_used() {
        let mut observer = observer(Paging::Kernel);
        observer.arrivals[2] = 5000;
        for (mut now, used) in [(4000, 5000 + 700), (6000, 6000 + 700)] {
            observer.arrive(&mut now, PageId(2));
            assert_eq!(now, used);
        }
        assert_eq!(observer.ahead.swap_in.fault(100), 100..104, "blocks grow with hits");
    }

    /// The second page without contents continues a run. The pager then fills a window; the kernel
    /// only the page.
    #[test]
    fn pages_without_contents_are_filled_a_window_at_a_time() {
        for (paging, times, ahead) in [
            (Paging::Run, [6000 + 2000, 6000 + 3 * 2000], [Place::Filled; 2]),
            (Paging::Kernel, [300, 300], [Place::Nowhere; 2]),
        ] {
            let mut observer = observer(paging);
            observer.fill(&mut 0, PageId(0));
            assert_eq!(observer.seen.stall_ns, 0, "{paging:?}: there is room");
            observer.is_short = true;
            let took = [0, 1].map(|page| {
                let (mut now, before) = (observer.seen.stall_ns, observer.seen.stall_ns);
                observer.fill(&mut now, PageId(page));
                now - before
            });
            assert_eq!(took, times, "{paging:?}");
            assert_eq!([2, 3].map(|page| observer.pages[page].place), ahead, "{paging:?}");
            assert_eq!(observer.ahead.pages, if paging == Paging::Run { 2 } else { 0 }, "{paging:?}");
        }
    }

    #[test]
    fn the_first_eviction_begins_paging() {
        for (paging, stall_ns) in [(Paging::Run, 90_000_000), (Paging::Kernel, 2 * 1500)] {
            let mut observer = observer(paging);
            (0..2).for_each(|page| observer.evicted(PageId(page), 4));
            assert!(observer.is_short, "{paging:?}");
            assert_eq!(observer.seen.stall_ns, stall_ns, "{paging:?}");
            assert_eq!(observer.disk.staged, [0, 1].map(PageId), "{paging:?}");
        }
    }

    #[test]
    fn pages_ahead_are_the_mean_over_the_faults_in_full_memory() {
        let mut observer = observer(Paging::Run);
        observer.fault(PageId(0), 0);
        observer.is_short = true;
        observer.pages[1].place = Place::Filled;
        observer.pages[2].place = Place::Unasked;
        observer.ahead.pages = 2;
        (1..4).for_each(|page| observer.fault(PageId(page), 0));
        assert_eq!((observer.ahead.pages_at_faults, observer.ahead.faults), (2 + 1, 3));
        assert!(observer.pages.iter().all(|page| page.place == Place::Resident), "{:?}", observer.pages);
        let mut outcome = Outcome::default();
        observer.report(&mut outcome);
        assert_eq!(outcome.paging, Some(PagingTime { pages_ahead: 1, ..observer.seen }));
    }

    #[test]
    fn contents_that_are_dropped_are_not_ahead_not_written_and_have_no_slot() {
        let mut observer = observer(Paging::Run);
        observer.disk.slots.allocate(1, |_| ());
        let page = |place, slot| Page { place, slot, dirty: true, trigger: true };
        let waits = page(Place::Leaving, NO_SLOT);
        observer.pages = vec![page(Place::Unasked, 0), page(Place::Filled, NO_SLOT), waits, waits];
        observer.ahead.pages = 2;
        observer.disk.staged = [2, 3].map(PageId).to_vec();
        observer.seen.pages_written = 2;
        let ahead = [0, 1, 3].map(|page| {
            observer.dropped(PageId(page));
            observer.ahead.pages
        });
        assert_eq!(ahead, [1, 0, 0]);
        assert_eq!((observer.seen.pages_written, observer.disk.staged), (1, vec![PageId(2)]));
        assert_eq!(observer.disk.slots.in_use(), 0);
        assert_eq!(observer.pages, [Page::default(), Page::default(), waits, Page::default()]);
    }
}
