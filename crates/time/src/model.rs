//! The model of time: a simulation's faults and evictions, a processor, a device.
//!
//! Time is processor time and waiting. The processor time with all memory is given, or taken from
//! the trace's instructions. It is spread over the trace by virtual time, so it is known how long
//! the program computes between two faults. Each fault then waits for what it needs:
//!
//! ```text
//!   first touch          a fill of zeros, or of a window of them along a run
//!   page on the device   latency + transfer of its window, behind what the device has to do before
//!   page read ahead      the rest of its transfer, nothing if it has arrived
//!   page being written   no read: it comes back from memory
//!   eviction             its work; where writes pile up, the wait for the oldest
//! ```
//!
//! Each page has a slot on the device. It gets one when it is written, and neighbouring addresses
//! have neighbouring slots only if they went together. So a window is as many requests as it has
//! runs of slots. Slots are handed out by the pager's own code.
//!
//! Windows are those of the pager: the same code reads ahead along runs and around single faults
//! (`sweephand_pager_interface`). A page that was read ahead and is not used within a 16th of
//! memory is gone again. Until then it takes a frame that the policy does not have. A simulation
//! cannot give frames back, so each is made twice: the second time with as many frames less as were
//! taken so on average.
//!
//! Pages that are never written are left out: nearly all of them are pages of files, which are not
//! paged and which the limit does not count.
//!
//! What the model does not know:
//! - The program has one thread. With more, waits overlap.
//! - Files: what the program reads and writes itself is in neither the trace nor the model, unless
//!   it is in the processor time that was given.
//! - Cache and TLB misses that paging itself causes.
//! - Seeks: on a hard disk, each request costs one, also where places are neighbours.
//! - A page keeps the address at which it began (`mremap`).

use crate::paging::Costs;
use crate::swap_in::SwapIn;
use crate::{Device, Figures, Paging};
use std::collections::VecDeque;
use std::sync::Arc;
use sweephand_pager_interface::division::{self, BATCHES};
use sweephand_pager_interface::readahead::{Course, ReadAhead, Run, TRIGGERED_PAGES};
use sweephand_pager_interface::readaround::ReadAround;
use sweephand_pager_interface::slots::Slots;
use sweephand_policy::PageId;
use sweephand_sim::{Cell, Observer, Outcome, PagingTime, Sweep, SweepError};
use sweephand_trace::{Chunk, Error, Trace, VirtualTime, written_pages};

/// Instructions that a processor executes in a second where nothing better is known: one for each
/// cycle at 3 GHz. It is an assumption, not a measurement. Programs differ by three times and more.
pub const ASSUMED_INSTRUCTIONS_PER_SECOND: f64 = 3e9;

/// A page that was read ahead counts as unused when so many times this part of memory has come in
/// the same way since.
const UNASKED_SHARE: usize = 16;
/// Pages read ahead that take less than this part of memory hardly change what the policy does.
const LEAST_AHEAD: usize = 200;

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Nothing says how long the program takes with all memory.
    #[error(
        "{0}: the trace has no count of instructions; say how long the program takes with all memory: --native SECONDS"
    )]
    NoProcessorTime(String),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] Error),
}

/// A trace, what pages it, and to which device.
#[derive(Clone, Debug)]
pub struct TimeModel {
    device: Arc<Device>,
    paging: Paging,
    native_ns: u64,
    is_assumed: bool,
    page_bytes: u64,
    /// The trace without pages that are not paged.
    paged: Trace,
    time: Arc<VirtualTime>,
    space: Arc<Space>,
}

/// The pages by address.
#[derive(Debug)]
struct Space {
    /// The number of each page, by id.
    numbers: Vec<u64>,
    /// Numbers and ids, ascending.
    by_number: Vec<(u64, u32)>,
    /// Each page's place in `by_number`, by id.
    ranks: Vec<u32>,
}

impl Space {
    fn of(trace: &Trace) -> Result<Self, Error> {
        let mut numbers = Vec::new();
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            numbers.extend_from_slice(&chunk.new_pages);
        }
        let mut by_number: Vec<_> = numbers.iter().zip(0u32..).map(|(number, id)| (*number, id)).collect();
        by_number.sort_unstable();
        let mut ranks = vec![0; numbers.len()];
        for (rank, (_, id)) in by_number.iter().enumerate() {
            ranks[*id as usize] = rank as u32;
        }
        Ok(Self { numbers, by_number, ranks })
    }

    /// The pages behind `page` at consecutive addresses, from it on.
    fn run_from(&self, page: PageId) -> impl Iterator<Item = PageId> {
        let (first, number) = (self.ranks[page.index()] as usize, self.numbers[page.index()]);
        let run = self.by_number[first..].iter().zip(number..).take_while(|((at, _), number)| at == number);
        run.map(|((_, id), _)| PageId(*id))
    }

    /// The pages with numbers in a range.
    fn within(&self, numbers: std::ops::Range<u64>) -> impl Iterator<Item = PageId> {
        let first = self.by_number.partition_point(|(number, _)| *number < numbers.start);
        let inside = self.by_number[first..].iter().take_while(move |(number, _)| *number < numbers.end);
        inside.map(|(_, id)| PageId(*id))
    }
}

/// How long a program would take in some memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// Processor time and waiting, in seconds.
    pub seconds: f64,
    /// What paging is of that, and what it transfers.
    pub paging: PagingTime,
}

impl TimeModel {
    /// The model of a trace. `native_seconds` is how long its program takes with all memory;
    /// without it, its instructions are counted at [`ASSUMED_INSTRUCTIONS_PER_SECOND`].
    ///
    /// # Errors
    /// Neither is known, or the trace cannot be read.
    pub fn of(
        trace: &Trace,
        device: Device,
        paging: Paging,
        native_seconds: Option<f64>,
    ) -> Result<Self, ModelError> {
        let instructions = trace.header().totals.instructions.map(|count| count as f64);
        let assumed = instructions.map(|count| count / ASSUMED_INSTRUCTIONS_PER_SECOND);
        let seconds = native_seconds
            .or(assumed)
            .ok_or_else(|| ModelError::NoProcessorTime(trace.name().display().to_string()))?;
        let paged = written_pages(trace)?.unwrap_or_else(|| trace.clone());
        Ok(Self {
            device: Arc::new(device),
            paging,
            native_ns: (seconds * 1e9) as u64,
            is_assumed: native_seconds.is_none(),
            page_bytes: trace.header().metadata.page_size,
            time: Arc::new(VirtualTime::of(&paged)?),
            space: Arc::new(Space::of(&paged)?),
            paged,
        })
    }

    /// The same program, paged otherwise or to another device.
    pub fn with(&self, device: Device, paging: Paging) -> Self {
        Self { device: Arc::new(device), paging, ..self.clone() }
    }

    /// How long the program takes with all memory, in seconds.
    pub fn native_seconds(&self) -> f64 {
        self.native_ns as f64 / 1e9
    }

    /// Whether that comes from the count of instructions alone.
    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What is paging.
    pub fn paging(&self) -> Paging {
        self.paging
    }

    /// An observer of a simulation in so many frames.
    fn observer(&self, frames: usize) -> PagingObserver {
        let costs = self.paging.costs();
        let batch_pages = match self.paging {
            Paging::Run => division::batch_pages(frames, false),
            Paging::Kernel => 32,
        };
        let window = costs.most_window_pages.min(batch_pages);
        let pages = self.space.numbers.len();
        PagingObserver {
            model: self.clone(),
            costs,
            batch_pages,
            ahead: ReadAhead::new(window),
            around: ReadAround::new(window),
            most_unasked: (frames / UNASKED_SHARE).max(3 * batch_pages),
            pages: vec![Page::default(); pages],
            unasked: VecDeque::new(),
            pages_ahead: 0,
            ahead_at_faults: 0,
            faults: 0,
            arrivals: vec![0; pages],
            slots: Slots::default(),
            by_slot: Vec::new(),
            swap_in: SwapIn::new(costs.most_window_pages),
            is_short: false,
            worker_free_at: 0,
            landings: VecDeque::new(),
            device_free_at: 0,
            staged: Vec::new(),
            writes: VecDeque::new(),
            seen: PagingTime::default(),
        }
    }

    /// Predicts the time of each cell of a sweep over the trace.
    ///
    /// # Errors
    /// See [`Sweep::run`].
    pub fn predict(&self, sweep: &Sweep, progress: &dyn Fn(u64)) -> Result<Vec<Prediction>, SweepError> {
        let run = |cells: Vec<Cell>, progress: &dyn Fn(u64)| -> Result<Vec<PagingTime>, SweepError> {
            if cells.is_empty() {
                return Ok(Vec::new());
            }
            let sweep = Sweep { cells, ..sweep.clone() };
            let told =
                sweep.run_watched(&self.paged, |Cell { frames, .. }| self.observer(*frames), progress)?;
            Ok(told.iter().map(|outcome| outcome.paging.expect("an observer reports it")).collect())
        };
        let mut paging = run(sweep.cells.clone(), &|done| progress(done / 2))?;
        // Those that pages read ahead hardly take frames from stay as they are.
        let mut again = Vec::new();
        for (at, cell) in sweep.cells.iter().enumerate() {
            let ahead = paging[at].pages_ahead as usize;
            if ahead > cell.frames / LEAST_AHEAD {
                let frames = (cell.frames - ahead.min(cell.frames)).max(1);
                again.push((at, Cell { frames, ..cell.clone() }));
            }
        }
        let records = self.paged.header().totals.records;
        let (places, cells): (Vec<usize>, Vec<Cell>) = again.into_iter().unzip();
        for (at, second) in places.into_iter().zip(run(cells, &|done| progress((records + done) / 2))?) {
            paging[at] = second;
        }
        let seconds = |paging: &PagingTime| (self.native_ns + paging.stall_ns) as f64 / 1e9;
        Ok(paging.into_iter().map(|paging| Prediction { seconds: seconds(&paging), paging }).collect())
    }
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

#[derive(Clone, Copy, Debug)]
struct Page {
    place: Place,
    /// Where it is on the device, or [`NO_SLOT`].
    slot: u32,
    /// Its contents differ from those on the device, or are not there.
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
struct PagingObserver {
    model: TimeModel,
    costs: Costs,
    batch_pages: usize,
    ahead: ReadAhead,
    around: ReadAround,
    most_unasked: usize,
    pages: Vec<Page>,
    /// Pages read ahead, in order. Those used since are among them until they are met.
    unasked: VecDeque<PageId>,
    /// Pages that are in memory and not used yet, now; added up over the faults in full memory, and
    /// how many of these there were.
    pages_ahead: u64,
    ahead_at_faults: u64,
    faults: u64,
    /// When pages that were read ahead arrive, by page id.
    arrivals: Vec<u64>,
    slots: Slots,
    /// The page in each slot; of a free one, the last that was.
    by_slot: Vec<PageId>,
    swap_in: SwapIn,
    /// Memory has been full, so paging has begun.
    is_short: bool,
    /// When the thread that pages has done what it has to do.
    worker_free_at: u64,
    /// What it will have to do when reads that no thread waits for are complete: when, how long.
    landings: VecDeque<(u64, u64)>,
    /// When the device can take the next request.
    device_free_at: u64,
    /// Evicted pages that wait for their batch to be full.
    staged: Vec<PageId>,
    /// Batches under way.
    writes: VecDeque<Write>,
    seen: PagingTime,
}

/// The time on the device of a request that has it to itself, and how long it keeps others out.
fn service(figures: &Figures, latency_us: f64, bytes: u64, first: u64) -> (u64, u64) {
    let beyond = bytes.saturating_sub(first) as f64;
    let alone_ns = 1e3 * latency_us + 1e9 * beyond / figures.stream_bytes_per_second;
    let occupied_s = (1.0 / figures.operations_per_second).max(bytes as f64 / figures.bytes_per_second);
    let occupied_ns = (1e9 * occupied_s) as u64;
    ((alone_ns as u64).max(occupied_ns), occupied_ns)
}

impl PagingObserver {
    /// The present: processor time up to a record, and waiting.
    fn now(&self, record: u64) -> u64 {
        let time = &self.model.time;
        let share = u128::from(time.before(record)) * u128::from(self.model.native_ns);
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
            while let Some((landed_at, landing_ns)) = self.landings.front().filter(|(at, _)| *at <= from) {
                self.worker_free_at = self.worker_free_at.max(*landed_at) + landing_ns;
                self.landings.pop_front();
            }
            self.worker_free_at = self.worker_free_at.max(from) + work_ns;
            self.worker_free_at
        } else {
            self.wait_until(now, from.max(*now) + work_ns);
            *now
        }
    }

    /// Starts a request for so many pages; returns when it is complete.
    fn request(&mut self, from: u64, pages: usize, write: bool) -> u64 {
        let (device, page_bytes) = (&self.model.device, self.model.page_bytes);
        let figures = if write { &device.write } else { &device.read };
        let start = self.device_free_at.max(from);
        let is_beside_writes = !write && self.writes.back().is_some_and(|write| write.done > start);
        let latency_us = device.read_beside_writes_us.filter(|_| is_beside_writes);
        let latency_us = latency_us.unwrap_or(figures.latency_us);
        let (alone_ns, occupied_ns) = service(figures, latency_us, pages as u64 * page_bytes, page_bytes);
        self.device_free_at = start + occupied_ns;
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
            self.slots.free(slot as usize);
        }
    }

    /// Pages whose writes are complete by now are on the device only.
    fn settle(&mut self, now: u64) {
        while self.writes.front().is_some_and(|write| write.done <= now) {
            let write = self.writes.pop_front().expect("there is one");
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
        let by_slot = self.model.paging == Paging::Kernel && self.model.device.rotational;
        in_order.sort_unstable_by_key(|page| match by_slot {
            true => self.pages[page.index()].slot,
            false => self.model.space.ranks[page.index()],
        });
        let (asked_at, read_at) = self.requests(*now, &in_order, *first, false);
        let (landed, done) = if self.costs.has_own_thread {
            // The pager waits for all requests of a window. It keeps no slot of what it has read.
            for page in pages {
                self.free_slot(*page);
            }
            let others_ns = (pages.len() - usize::from(asked)) as u64 * self.costs.page_in_ns;
            self.landings.push_back((read_at, others_ns));
            (read_at, read_at + others_ns)
        } else {
            (asked_at, read_at)
        };
        for page in &pages[usize::from(asked)..] {
            let entry = &mut self.pages[page.index()];
            *entry = Page { place: Place::Unasked, dirty: false, trigger: false, ..*entry };
            self.arrivals[page.index()] = done;
            self.unasked.push_back(*page);
            self.pages_ahead += 1;
        }
        // What was not used in time is gone again. The device still has it.
        while self.unasked.len() > self.most_unasked {
            let page = self.unasked.pop_front().expect("there are some");
            if self.pages[page.index()].place == Place::Unasked {
                self.pages_ahead -= 1;
                self.around.was_used(self.number(page), false);
                self.leave(now, page);
            }
        }
        (landed, done)
    }

    fn number(&self, page: PageId) -> usize {
        self.model.space.numbers[page.index()] as usize
    }

    fn page(&self, number: usize) -> Option<PageId> {
        self.model.space.within(number as u64..number as u64 + 1).next()
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
        let block = self.swap_in.fault(self.pages[page.index()].slot);
        let block = block.start as usize..(block.end as usize).min(self.by_slot.len());
        let mut pages = vec![page];
        for slot in block {
            let other = self.by_slot[slot];
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
        if self.model.paging == Paging::Kernel && self.model.device.rotational {
            return self.swap_in(now, page);
        }
        let number = self.number(page);
        let run = self.ahead.fault(number);
        // At the same number there may be another page, which lay there before it was moved.
        let others = self.window(number, run).into_iter().filter(|other| self.number(*other) != number);
        let pages: Vec<_> = std::iter::once(page).chain(others).collect();
        let fault_ns = self.costs.fault_ns;
        let from = *now;
        let asked_at = self.work(now, from, fault_ns / 2);
        self.wait_until(now, asked_at);
        let next = run.course.after(pages.last().map_or(number, |page| self.number(*page)), 1);
        self.ahead.expect(run, next);
        let (landed, _) = self.read(now, &pages, true);
        if run.window == 1 {
            let around = self.around.fault(number);
            let near = self.model.space.within(around.start as u64..around.end as u64);
            let near: Vec<_> = near
                .filter(|other| {
                    self.number(*other) != number && self.pages[other.index()].place == Place::Stored
                })
                .take(self.batch_pages)
                .collect();
            self.read(now, &near, false);
        }
        if run.window >= TRIGGERED_PAGES && self.costs.reads_on {
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
        self.ahead.expect(run, first);
        let pages = self.window(first, run);
        let Some(trigger) = pages.first() else { return };
        self.read(now, &pages, false);
        self.pages[trigger.index()].trigger = true;
    }

    /// A page that was read ahead is used.
    fn arrive(&mut self, now: &mut u64, page: PageId) {
        let number = self.number(page);
        self.around.was_used(number, true);
        self.swap_in.was_used();
        self.wait_until(now, self.arrivals[page.index()]);
        let arrived_ns = self.costs.arrived_ns;
        let arrived_at = *now + arrived_ns;
        self.wait_until(now, arrived_at);
        if self.pages[page.index()].trigger {
            let run = self.ahead.fault(number);
            self.read_behind(now, run.course.after(number, 1), run);
        }
    }

    /// A page without contents is touched.
    fn fill(&mut self, now: &mut u64, page: PageId) {
        if !self.is_short {
            return;
        }
        let number = self.number(page);
        let run = self.ahead.fault(number);
        let window = if run.course == Course::Upward { run.window } else { 1 };
        let along = self.model.space.run_from(page).take(window);
        let pages: Vec<_> =
            along.take_while(|page| self.pages[page.index()].place == Place::Nowhere).collect();
        self.ahead.expect(run, run.course.after(number, pages.len()));
        if self.costs.has_own_thread {
            for page in &pages[1..] {
                self.pages[page.index()].place = Place::Filled;
            }
            self.pages_ahead += pages.len() as u64 - 1;
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
        if let Some(place) = self.staged.iter().position(|staged| *staged == page) {
            self.staged.swap_remove(place);
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
        self.staged.push(page);
        self.arrivals[page.index()] = u64::MAX;
        self.seen.pages_written += 1;
        if self.staged.len() >= self.batch_pages {
            self.write(now);
        }
    }

    /// Evicted pages are written, a batch at a time.
    fn write(&mut self, now: &mut u64) {
        self.settle(*now);
        if self.writes.len() >= BATCHES {
            let oldest = self.writes.front().expect("there are some").done;
            self.wait_until(now, oldest);
            self.settle(*now);
        }
        let mut pages = std::mem::take(&mut self.staged);
        if self.costs.has_own_thread {
            // The pager puts neighbours next to each other.
            pages.sort_unstable_by_key(|page| self.model.space.ranks[page.index()]);
        }
        let mut slots = Vec::with_capacity(pages.len());
        self.slots.allocate(pages.len(), |slot| slots.push(slot as u32));
        self.by_slot.resize(self.slots.count(), pages[0]);
        for (page, slot) in pages.iter().zip(slots) {
            self.pages[page.index()].slot = slot;
            self.by_slot[slot as usize] = *page;
        }
        let (_, done) = self.requests(*now, &pages, pages[0], true);
        if self.model.device.synchronous {
            self.wait_until(now, done);
        }
        for page in &pages {
            self.arrivals[page.index()] = done;
        }
        self.writes.push_back(Write { done, pages });
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
            self.faults += 1;
            self.ahead_at_faults += self.pages_ahead;
        }
        if matches!(before, Place::Unasked | Place::Filled) {
            self.pages_ahead -= 1;
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
        let entry = &mut self.pages[page.index()];
        let is_new = matches!(before, Place::Nowhere | Place::Filled);
        *entry = Page { place: Place::Resident, dirty: is_new, trigger: false, ..*entry };
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
        self.pages_ahead -= u64::from(matches!(place, Place::Unasked | Place::Filled));
        if let Some(place) = self.staged.iter().position(|staged| *staged == page) {
            self.staged.swap_remove(place);
            self.seen.pages_written -= 1;
        }
        self.free_slot(page);
        self.pages[page.index()] = Page::default();
    }

    fn report(&self, outcome: &mut Outcome) {
        let pages_ahead = self.ahead_at_faults / self.faults.max(1);
        outcome.paging = Some(PagingTime { pages_ahead, ..self.seen });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_policy::registry::Spec;
    use sweephand_trace::{EndTotals, Metadata, Writer};

    /// 100 us a page, 1 us for each page beyond the first; nothing else limits it.
    fn device() -> Device {
        let figures = Figures {
            latency_us: 100.0,
            operations_per_second: 1e9,
            bytes_per_second: 1e15,
            stream_bytes_per_second: 4096e6,
        };
        Device {
            name: "test".into(),
            source: "made up".into(),
            synchronous: false,
            rotational: false,
            read_beside_writes_us: None,
            read: figures,
            write: figures,
            measurements: Vec::new(),
        }
    }

    fn trace(pages: impl IntoIterator<Item = (u64, bool)>) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        pages.into_iter().for_each(|(page, write)| writer.reference(page, write).unwrap());
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        Trace::from_bytes(bytes).unwrap()
    }

    fn predict(trace: &Trace, device: Device, paging: Paging, policy: &str, frames: usize) -> Prediction {
        let model = TimeModel::of(trace, device, paging, Some(1.0)).unwrap();
        let sweep =
            Sweep { cells: vec![Cell { spec: Spec::parse(policy).unwrap(), frames }], ..Sweep::default() };
        model.predict(&sweep, &|_| {}).unwrap()[0]
    }

    /// Pages far apart in a loop that does not fit: all miss. The kernel takes a fault and a read
    /// for each, and a write only for what was written to.
    #[test]
    fn a_fault_waits_for_a_read_and_only_what_changed_is_written() {
        let costs = Paging::Kernel.costs();
        // 288 pages are nine batches of the kernel's.
        let far = trace((0..1152).map(|turn| (1 + 5000 * (turn % 288), turn < 288)));
        let kernel = predict(&far, device(), Paging::Kernel, "fifo", 96);
        assert_eq!((kernel.paging.pages_read, kernel.paging.pages_written), (864, 288));
        let reads = 864 * (100_000 + costs.fault_ns + costs.page_in_ns);
        // Of the 288 first touches, 192 come in full memory.
        let expected = reads + 1056 * costs.evict_ns + 192 * costs.zero_page_ns;
        assert!(kernel.paging.stall_ns.abs_diff(expected) < 2000, "{} {expected}", kernel.paging.stall_ns);
        assert!((kernel.seconds - 1.0 - kernel.paging.stall_ns as f64 / 1e9).abs() < 1e-9);
        // The pager writes all that it evicts.
        let run = predict(&far, device(), Paging::Run, "fifo", 96);
        assert_eq!((run.paging.pages_read, run.paging.pages_written), (864, 1056));
    }

    /// What was moved away and what came in its place have one page number, and are two pages.
    #[test]
    fn pages_that_were_first_at_the_same_place_are_read_one_by_one() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        let far = |turn: u64| 1 + 5000 * (turn % 288);
        (0..288).for_each(|turn| writer.reference(far(turn), true).unwrap());
        (0..288).for_each(|turn| writer.remap(far(turn), 5_000_000 + far(turn), 1).unwrap());
        (0..288).for_each(|turn| writer.reference(far(turn), true).unwrap());
        for turn in 0..576 {
            let moved = if turn % 2 == 0 { 0 } else { 5_000_000 };
            writer.reference(moved + far(turn / 2), false).unwrap();
        }
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        for paging in [Paging::Kernel, Paging::Run] {
            assert_eq!(predict(&trace, device(), paging, "fifo", 96).paging.pages_read, 576, "{paging:?}");
        }
    }

    /// Two pages take turns in one frame. Each is touched again before its batch is full, so
    /// nothing is read or written.
    #[test]
    fn a_page_that_waits_to_be_written_comes_back_without_a_read() {
        let far = trace((0..100).map(|turn| (1 + 5000 * (turn % 2), true)));
        for paging in [Paging::Kernel, Paging::Run] {
            let PagingTime { pages_read, pages_written, .. } =
                predict(&far, device(), paging, "fifo", 1).paging;
            assert_eq!((pages_read, pages_written), (0, 1), "{paging:?}");
        }
    }

    /// Pages that went together lie together and are one request; those that went one here and one
    /// there are a request each, and take the device longer.
    #[test]
    fn a_window_is_as_many_requests_as_it_has_runs_of_slots() {
        let mut slow = device();
        slow.read.operations_per_second = 1000.0;
        let in_order = |page: u64| page;
        // Neighbours go 500 evictions after each other.
        let apart = |page: u64| 4 * (page % 500) + page / 500;
        let fill_then_scan = |place: &dyn Fn(u64) -> u64| {
            trace((0..2000).map(|turn| (place(turn), true)).chain((0..2000).map(|turn| (turn, false))))
        };
        let stall = |trace: &Trace| predict(trace, slow.clone(), Paging::Run, "fifo", 1000).paging.stall_ns;
        let (together, scattered) = (stall(&fill_then_scan(&in_order)), stall(&fill_then_scan(&apart)));
        assert!(scattered > together + 100_000_000, "{scattered} {together}");
    }

    /// A read takes longer while something is being written.
    #[test]
    fn reads_beside_writes_take_as_long_as_measured() {
        let far = trace((0..1152).map(|turn| (1 + 5000 * (turn % 288), true)));
        let stall = |beside: Option<f64>| {
            let mut device = Device { read_beside_writes_us: beside, ..device() };
            device.write.latency_us = 2000.0;
            predict(&far, device, Paging::Run, "fifo", 96).paging.stall_ns
        };
        let (alone, beside) = (stall(None), stall(Some(300.0)));
        // A fault comes after some 980 microseconds. So each batch of 8 is written beside two
        // reads.
        let later = beside - alone;
        assert!((108 * 200_000..=3 * 132 * 200_000).contains(&later), "{alone} {beside}");
    }

    /// A loop over twice as much as fits: its reads come in windows, far cheaper than one by one.
    #[test]
    fn runs_are_read_ahead() {
        let turns = 10;
        let run = trace((0..turns * 4000).map(|turn| (turn % 4000, false)));
        let scattered = trace((0..turns * 4000).map(|turn| (600 * ((turn * 1237) % 4000), false)));
        let of = |trace: &Trace| predict(trace, device(), Paging::Run, "clock", 2000);
        let (run, scattered) = (of(&run), of(&scattered));
        assert!(run.paging.pages_read >= 36_000, "{run:?}");
        let reads = 36_000.0 * 100e-6;
        assert!(scattered.seconds > 1.0 + reads, "each waits for its read: {scattered:?}");
        assert!(run.seconds < 1.0 + 0.25 * reads, "{run:?}");
    }

    /// All memory: no wait, whatever the device.
    #[test]
    fn with_all_memory_nothing_is_paged() {
        let all = trace((0..1000).map(|turn| (turn % 100, true)));
        for paging in [Paging::Run, Paging::Kernel] {
            let prediction = predict(&all, Device::named("hdd").unwrap(), paging, "lru", 100);
            assert_eq!(prediction, Prediction { seconds: 1.0, paging: PagingTime::default() });
        }
    }

    /// A device that can hardly write keeps the program waiting, although it never reads.
    #[test]
    fn writes_that_pile_up_are_waited_for() {
        let mut slow = device();
        slow.write.bytes_per_second = 4096.0 * 1000.0;
        let scan = trace((0..20_000).map(|page| (page, true)));
        let prediction = predict(&scan, slow, Paging::Run, "fifo", 1000);
        let PagingTime { pages_read, pages_written, pages_ahead, .. } = prediction.paging;
        assert_eq!(pages_read, 0);
        // Pages filled ahead take frames, so a few more are written.
        assert!((19_000..19_129).contains(&pages_written) && pages_ahead < 129, "{prediction:?}");
        assert!(prediction.seconds > 18.0 && prediction.seconds < 20.5, "{prediction:?}");
    }

    /// Code and constants: read again and again, never written. They take no frame.
    #[test]
    fn pages_that_are_never_written_are_not_paged() {
        let with_code = trace((0..20_000).map(|turn| match turn % 2 {
            0 => (10_000 + turn / 2 % 300, false),
            _ => (turn / 2 % 100, true),
        }));
        let prediction = predict(&with_code, device(), Paging::Run, "clock", 110);
        assert_eq!((prediction.seconds, prediction.paging), (1.0, PagingTime::default()));
        assert!(predict(&with_code, device(), Paging::Run, "clock", 90).paging.pages_read > 1000);
    }

    /// Of what is read around a fault a part is used at once, the rest never: it takes frames until
    /// it is gone.
    #[test]
    fn pages_read_ahead_take_frames() {
        let mut random = sweephand_policy::SplitMix64::new(3);
        let all = (1..4001).map(|page| (page, true));
        let pairs = (0..40_000).flat_map(|_| {
            let page = 1 + 8 * random.below(500);
            [(page, true), (page + 1, true)]
        });
        let prediction = predict(&trace(all.chain(pairs)), device(), Paging::Run, "clock", 600);
        assert!(prediction.paging.pages_ahead > 0, "{prediction:?}");
    }

    /// A page that is used sets off the next window, for which the oldest pages read ahead have to
    /// go: it is not one of them any more.
    #[test]
    fn a_page_that_is_used_is_not_gone_at_the_same_time() {
        let page = |time: u64| if time.is_multiple_of(50) { 1 + time / 600 } else { 256 + time % 40 };
        let small = trace((0..3000).map(|time| (page(time), time % 3 == 0)));
        for (paging, frames) in [(Paging::Run, 2), (Paging::Run, 22), (Paging::Kernel, 22)] {
            let prediction = predict(&small, device(), paging, "clock", frames);
            assert!(prediction.paging.pages_ahead <= 45, "{prediction:?}");
        }
    }

    #[test]
    fn a_trace_without_instructions_wants_to_be_told() {
        let plain = trace([(1, false)]);
        let error = TimeModel::of(&plain, device(), Paging::Run, None).unwrap_err();
        assert!(error.to_string().ends_with("--native SECONDS"), "{error}");
    }
}
