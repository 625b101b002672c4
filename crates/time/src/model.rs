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

use crate::observer::{PagedProgram, PagingObserver};
use crate::space::Space;
use crate::{Device, Paging};
use std::sync::Arc;
use sweephand_sim::{Cell, PagingTime, Sweep, SweepError};
use sweephand_trace::{Error, Trace, VirtualTime, written_pages};

/// Instructions that a processor executes in a second where nothing better is known: one for each
/// cycle at 3 GHz. It is an assumption, not a measurement. Programs differ by three times and more.
pub const ASSUMED_INSTRUCTIONS_PER_SECOND: f64 = 3e9;

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
    program: PagedProgram,
    is_assumed: bool,
    /// The trace without pages that are not paged.
    paged: Trace,
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
            program: PagedProgram {
                device: Arc::new(device),
                paging,
                native_ns: (seconds * 1e9) as u64,
                page_bytes: trace.header().metadata.page_size,
                time: Arc::new(VirtualTime::of(&paged)?),
                space: Arc::new(Space::of(&paged)?),
            },
            is_assumed: native_seconds.is_none(),
            paged,
        })
    }

    /// The same program, paged otherwise or to another device.
    pub fn with(&self, device: Device, paging: Paging) -> Self {
        let program = PagedProgram { device: Arc::new(device), paging, ..self.program.clone() };
        Self { program, ..self.clone() }
    }

    /// How long the program takes with all memory, in seconds.
    pub fn native_seconds(&self) -> f64 {
        self.program.native_ns as f64 / 1e9
    }

    /// Whether that comes from the count of instructions alone.
    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// The trace without pages that are not paged.
    pub fn paged(&self) -> &Trace {
        &self.paged
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.program.device
    }

    /// What is paging.
    pub fn paging(&self) -> Paging {
        self.program.paging
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
            let told = sweep.run_watched(
                &self.paged,
                |Cell { frames, .. }| PagingObserver::new(self.program.clone(), *frames),
                progress,
            )?;
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
        let seconds = |paging: &PagingTime| (self.program.native_ns + paging.stall_ns) as f64 / 1e9;
        Ok(paging.into_iter().map(|paging| Prediction { seconds: seconds(&paging), paging }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Figures;
    use std::cell::RefCell;
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
            compressor: None,
            codec_times: None,
            rotational: false,
            disk: None,
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
        let run = predict(&far, device(), Paging::Run, "fifo", 96);
        assert_eq!((run.paging.pages_read, run.paging.pages_written), (864, 288));
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

    /// The kernel asks for the next window when the program needs it, and the program waits for
    /// each. The pager has asked for it before.
    #[test]
    fn only_the_pager_reads_the_next_window_ahead() {
        let run = trace((0..16_000).map(|turn| (turn % 4000, true)));
        let [kernel, pager] = [Paging::Kernel, Paging::Run].map(|paging| {
            let PagingTime { pages_read, stall_ns, .. } =
                predict(&run, device(), paging, "fifo", 2000).paging;
            (stall_ns - paging.costs().start_ns) as f64 / (pages_read / 8 * 100_000) as f64
        });
        assert!(kernel > 1.0 && pager < 0.5, "shares of the reads that are waited for: {kernel} {pager}");
    }

    /// All memory: no wait, whatever the device.
    #[test]
    fn with_all_memory_nothing_is_paged() {
        let all = trace((0..1000).map(|turn| (turn % 100, true)));
        for paging in [Paging::Run, Paging::Kernel] {
            let prediction = predict(&all, Device::named("hdd").unwrap(), paging, "lru", 100);
            assert_eq!(prediction, Prediction { seconds: 1.0, paging: PagingTime::default() }, "{paging:?}");
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
    /// it is gone. So the policy has as many less, in those cells that this concerns.
    #[test]
    fn pages_read_ahead_take_frames() {
        let mut random = sweephand_policy::SplitMix64::new(3);
        let all = (1..4001).map(|page| (page, true));
        let pairs = (0..40_000).flat_map(|_| {
            let page = 1 + 8 * random.below(500);
            [(page, true), (page + 1, true)]
        });
        let trace = trace(all.chain(pairs));
        let model = TimeModel::of(&trace, device(), Paging::Run, Some(1.0)).unwrap();
        let sweep = |sizes: &[usize]| {
            let cell = |&frames: &usize| Cell { spec: Spec::parse("clock").unwrap(), frames };
            Sweep { cells: sizes.iter().map(cell).collect(), ..Sweep::default() }
        };
        let once = |frames: usize| {
            let watch = |Cell { frames, .. }: &Cell| PagingObserver::new(model.program.clone(), *frames);
            sweep(&[frames]).run_watched(&model.paged, watch, &|_| {}).unwrap()[0].paging.unwrap()
        };
        for frames in [199, 600] {
            let first = once(frames);
            let second = once(frames - first.pages_ahead as usize);
            assert!(first.pages_ahead > 3 && first != second, "{first:?}, {second:?}");
            let [all, less] = model.predict(&sweep(&[4000, frames]), &|_| {}).unwrap()[..] else {
                panic!("two cells")
            };
            assert_eq!(all, Prediction { seconds: 1.0, paging: PagingTime::default() });
            assert_eq!(less.paging, second);
        }
        // Both rounds are half of the work.
        let seen = RefCell::new(Vec::new());
        model.predict(&sweep(&[600]), &|records| seen.borrow_mut().push(records)).unwrap();
        let (seen, records) = (seen.into_inner(), model.paged.header().totals.records);
        assert!(seen.is_sorted() && seen.contains(&(records / 2)), "{seen:?}");
        assert_eq!(seen.last(), Some(&records));
    }

    /// A page that is used sets off the next window, for which the oldest pages read ahead have to
    /// go: it is not one of them any more.
    #[test]
    fn a_page_that_is_used_is_not_gone_at_the_same_time() {
        let page = |time: u64| if time.is_multiple_of(50) { 1 + time / 600 } else { 256 + time % 40 };
        let small = trace((0..3000).map(|time| (page(time), time % 3 == 0)));
        for (paging, frames) in [(Paging::Run, 2), (Paging::Run, 22), (Paging::Kernel, 22)] {
            let prediction = predict(&small, device(), paging, "clock", frames);
            assert!(prediction.paging.pages_ahead <= 45, "{paging:?}, {frames} frames: {prediction:?}");
        }
    }

    #[test]
    fn same_program_with_another_device_is_as_if_made_with_it() {
        let far = trace((0..1152).map(|turn| (1 + 5000 * (turn % 288), true)));
        let slow = Device { read: Figures { latency_us: 700.0, ..device().read }, ..device() };
        let model = TimeModel::of(&far, device(), Paging::Run, Some(2.5)).unwrap();
        let model = model.with(slow.clone(), Paging::Kernel);
        assert_eq!((model.device(), model.paging()), (&slow, Paging::Kernel));
        assert_eq!((model.native_seconds(), model.is_assumed()), (2.5, false));
        let cells = vec![Cell { spec: Spec::parse("fifo").unwrap(), frames: 96 }];
        let sweep = Sweep { cells, ..Sweep::default() };
        let made = TimeModel::of(&far, slow, Paging::Kernel, Some(2.5)).unwrap();
        let [with, made] = [model, made].map(|model| model.predict(&sweep, &|_| {}).unwrap());
        assert_eq!(with, made);
    }

    #[test]
    fn without_a_time_instructions_are_counted_at_3_gigahertz() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        writer.reference(1, true).unwrap();
        let end = EndTotals { instructions: Some(6_000_000_000), ..EndTotals::default() };
        let trace = Trace::from_bytes(writer.finish(end).unwrap().0.into_inner()).unwrap();
        let model = TimeModel::of(&trace, device(), Paging::Run, None).unwrap();
        assert_eq!((model.native_seconds(), model.is_assumed()), (2.0, true));
    }

    #[test]
    fn a_trace_without_instructions_wants_to_be_told() {
        let plain = trace([(1, false)]);
        let error = TimeModel::of(&plain, device(), Paging::Run, None).unwrap_err();
        assert!(error.to_string().ends_with("--native SECONDS"), "{error}");
    }
}
