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
//!   eviction             its work; where writes pile up, the wait for the oldest
//! ```
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
use crate::{Device, Figures, Paging};
use std::collections::VecDeque;
use std::sync::Arc;
use sweephand_pager_interface::division::{BATCHES, Division, Waiting};
use sweephand_pager_interface::readahead::{Course, ReadAhead, Run, TRIGGERED_PAGES};
use sweephand_pager_interface::readaround::ReadAround;
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
            Paging::Run => Division::of(frames, false, Waiting::Unasked).batch_pages,
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
            is_short: false,
            worker_free_at: 0,
            device_free_at: 0,
            staged_pages: 0,
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
    /// On the device only.
    Stored,
    /// Read ahead, or on its way; the policy does not have it yet.
    Unasked,
    /// Filled with zeros ahead of the program.
    Filled,
}

#[derive(Clone, Copy, Default, Debug)]
struct Page {
    place: Place,
    /// Its contents differ from those on the device, or are not there.
    dirty: bool,
    /// A touch asks for the next window of its run.
    trigger: bool,
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
    /// Memory has been full, so paging has begun.
    is_short: bool,
    /// When the thread that pages has done what it has to do.
    worker_free_at: u64,
    /// When the device can take the next request.
    device_free_at: u64,
    /// Evicted pages that wait for their batch to be full.
    staged_pages: usize,
    /// When each batch under way will be written.
    writes: VecDeque<u64>,
    seen: PagingTime,
}

/// The time on the device of a request that has it to itself, and how long it keeps others out.
fn service(figures: &Figures, bytes: u64, first: u64) -> (u64, u64) {
    let beyond = bytes.saturating_sub(first) as f64;
    let alone_ns = 1e3 * figures.latency_us + 1e9 * beyond / figures.stream_bytes_per_second;
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
        let (alone_ns, occupied_ns) = service(figures, pages as u64 * page_bytes, page_bytes);
        let start = self.device_free_at.max(from);
        self.device_free_at = start + occupied_ns;
        start + alone_ns
    }

    /// Starts to read pages; returns when they are there. The first has been asked for, if `asked`.
    fn read(&mut self, now: &mut u64, pages: &[PageId], asked: bool) -> u64 {
        if pages.is_empty() {
            return *now;
        }
        self.seen.pages_read += pages.len() as u64;
        let read_at = self.request(*now, pages.len(), false);
        let done = if self.costs.has_own_thread {
            read_at + pages.len() as u64 * self.costs.page_in_ns
        } else {
            read_at
        };
        for page in &pages[usize::from(asked)..] {
            self.pages[page.index()] = Page { place: Place::Unasked, dirty: false, trigger: false };
            self.arrivals[page.index()] = done;
            self.unasked.push_back(*page);
            self.pages_ahead += 1;
        }
        // What was not used in time is gone again. The device still has it.
        while self.unasked.len() > self.most_unasked {
            let page = self.unasked.pop_front().expect("there are some");
            if self.pages[page.index()].place == Place::Unasked {
                self.pages[page.index()].place = Place::Stored;
                self.pages_ahead -= 1;
                self.around.was_used(self.number(page), false);
            }
        }
        done
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

    /// A page on the device is needed.
    fn refault(&mut self, now: &mut u64, page: PageId) {
        let number = self.number(page);
        let run = self.ahead.fault(number);
        let pages = self.window(number, run);
        let fault_ns = self.costs.fault_ns;
        let from = *now;
        let asked_at = self.work(now, from, fault_ns / 2);
        self.wait_until(now, asked_at);
        let next = run.course.after(pages.last().map_or(number, |page| self.number(*page)), 1);
        self.ahead.expect(run, next);
        let mut batch = pages.clone();
        if run.window == 1 {
            let around = self.around.fault(number);
            let near = self.model.space.within(around.start as u64..around.end as u64);
            let near: Vec<_> = near
                .filter(|other| *other != page && self.pages[other.index()].place == Place::Stored)
                .collect();
            batch.extend(near.into_iter().take(self.batch_pages));
        }
        let done = self.read(now, &batch, true);
        if run.window >= TRIGGERED_PAGES && self.costs.reads_on {
            self.read_behind(now, next, run);
        }
        let mapped = self.work(now, done, fault_ns / 2 + self.costs.page_in_ns);
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

    /// Evicted pages are written, a batch at a time.
    fn write(&mut self, now: &mut u64) {
        self.seen.pages_written += 1;
        self.staged_pages += 1;
        if self.staged_pages < self.batch_pages {
            return;
        }
        self.staged_pages = 0;
        while self.writes.front().is_some_and(|done| *done <= *now) {
            self.writes.pop_front();
        }
        if self.writes.len() >= BATCHES {
            let oldest = self.writes.pop_front().expect("there are some");
            self.wait_until(now, oldest);
        }
        let done = self.request(*now, self.batch_pages, true);
        if self.model.device.synchronous {
            self.wait_until(now, done);
        }
        self.writes.push_back(done);
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
        let before = self.pages[page.index()];
        if self.is_short {
            self.faults += 1;
            self.ahead_at_faults += self.pages_ahead;
        }
        if matches!(before.place, Place::Unasked | Place::Filled) {
            self.pages_ahead -= 1;
            // What it sets off may not take it for one that was never used.
            self.pages[page.index()].place = Place::Resident;
        }
        match before.place {
            Place::Nowhere => self.fill(&mut now, page),
            Place::Stored => self.refault(&mut now, page),
            Place::Unasked => self.arrive(&mut now, page),
            Place::Filled | Place::Resident => {}
        }
        let is_new = matches!(before.place, Place::Nowhere | Place::Filled);
        self.pages[page.index()] = Page { place: Place::Resident, dirty: is_new, trigger: false };
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
        let dirty = self.pages[page.index()].dirty;
        if dirty || self.costs.writes_clean_pages {
            self.write(&mut now);
        }
        self.pages[page.index()] = Page { place: Place::Stored, dirty: false, trigger: false };
    }

    fn dropped(&mut self, page: PageId) {
        let is_ahead = matches!(self.pages[page.index()].place, Place::Unasked | Place::Filled);
        self.pages_ahead -= u64::from(is_ahead);
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

    /// Two pages far apart take turns in one frame. The kernel takes a fault and a read for each,
    /// and a write only for what was written to.
    #[test]
    fn a_fault_waits_for_a_read_and_only_what_changed_is_written() {
        let costs = Paging::Kernel.costs();
        let far = trace((0..100).map(|turn| (1 + 5000 * (turn % 2), turn < 2)));
        let kernel = predict(&far, device(), Paging::Kernel, "fifo", 1);
        assert_eq!((kernel.paging.pages_read, kernel.paging.pages_written), (98, 2));
        let each = 100_000 + costs.fault_ns + costs.page_in_ns + costs.evict_ns;
        // Both first touches come before anything was evicted. The second evicts the first.
        let expected = costs.evict_ns + 98 * each;
        assert!(kernel.paging.stall_ns.abs_diff(expected) < 100, "{} {expected}", kernel.paging.stall_ns);
        assert!((kernel.seconds - 1.0 - kernel.paging.stall_ns as f64 / 1e9).abs() < 1e-9);
        // The pager writes all that it evicts.
        let run = predict(&far, device(), Paging::Run, "fifo", 1);
        assert_eq!((run.paging.pages_read, run.paging.pages_written), (98, 99));
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

    /// Every second page of what is read around a fault is used at once, the others never: they
    /// take frames until they are gone.
    #[test]
    fn pages_read_ahead_take_frames() {
        let mut random = sweephand_policy::SplitMix64::new(3);
        let pairs = trace((0..40_000).flat_map(|_| {
            let page = 8 * random.below(500);
            [(page, true), (page + 1, true)]
        }));
        let prediction = predict(&pairs, device(), Paging::Run, "clock", 600);
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
