//! Many simulations of one trace at once.
//!
//! A sweep decodes the trace a few chunks at a time and gives each batch to all of its simulations
//! in parallel, while the next batch is decoded. So the trace is decoded once, whatever the number
//! of policies and sizes, and memory holds two batches instead of the trace.

use crate::engine::{observed, simulation};
use crate::{
    Future, LruStack, MemorySize, MemorySizeError, MruStack, Observer, OptStack, Outcome, RefaultObserver,
    Simulation, TooLong,
};
use rayon::prelude::*;
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use sweephand_policy::registry::Spec;
use sweephand_policy::{ArgumentError, ColdAllocation, Leader};
use sweephand_trace::{Chunk, Interrupt, Trace, VirtualTime};

/// The policies that are simulated unless others are asked for.
pub const DEFAULT_POLICIES: &str = "opt,lru,clock,car,lirs,clock-pro,clock-pro-strict";
/// The memory sizes that they are simulated at.
pub const DEFAULT_SIZES: &str = "10%,20%,30%,40%,50%,60%,70%,80%,90%";

/// Chunks decoded together where several simulations share processors: enough for one to work on
/// before the next takes its cache. A lone simulation takes one at a time. There can be two batches
/// at once: that which is simulated, and that which is decoded.
pub(crate) const BATCH: usize = 4;
/// With at least this many sizes, one pass for all is cheaper than a simulation of each.
const STACK_SIZES: usize = 4;
/// More bytes of page table than this are refused: `all` sizes are for policies that take them in
/// one pass.
const MOST_STATE_BYTES: u64 = 4 << 30;
/// Policies that a reduced trace gives exactly from its window on.
const EXACT_IF_REDUCED: [&str; 2] = ["lru", "opt"];
/// Policies that one pass can simulate at all sizes.
const ONE_PASS: [&str; 3] = ["lru", "mru", "opt"];

/// A policy with a memory size.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The policy.
    pub spec: Spec,
    /// Its memory, at least 1.
    pub frames: usize,
}

/// What a simulation was like over time.
#[derive(Clone, Debug, Default)]
pub struct Trajectory {
    /// The cold allocation (Figure 3 of the CLOCK-Pro paper) or the leader, sampled; in order of
    /// time.
    pub points: Vec<TrajectoryPoint>,
    /// The counts at each of [`Sweep::cuts`].
    pub at_cuts: Vec<Outcome>,
}

/// A sample of a [`Trajectory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrajectoryPoint {
    /// Records simulated before it.
    pub time_records: u64,
    /// The allocation at that time, for policies that have one.
    pub allocation: Option<ColdAllocation>,
    /// The leader at that time, for policies that follow one of several.
    pub leader: Option<Leader>,
}

/// Why a sweep cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] sweephand_trace::Error),
    /// A policy does not take its arguments.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// A memory size is too large.
    #[error(transparent)]
    Memory(#[from] MemorySizeError),
    /// The trace is too long for an offline policy.
    #[error("{}: {source}", path.display())]
    TooLong {
        /// The trace.
        path: PathBuf,
        /// How long it is.
        source: TooLong,
    },
    /// There is nothing to simulate.
    #[error("{}: has no references to simulate", path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
    },
    /// More simulations at once than there is memory for.
    #[error(
        "{simulations} simulations of {pages} pages; only lru and mru, and opt where nothing is unmapped, take all sizes in one pass"
    )]
    TooManySizes {
        /// Simulations with a page table of their own.
        simulations: usize,
        /// Pages of the trace.
        pages: u64,
    },
    /// It was asked to stop.
    #[error("was interrupted")]
    Interrupted,
}

/// What to simulate, and how.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Policies with their memory sizes.
    pub cells: Vec<Cell>,
    /// Whether references that repeat the one before them are hidden from policies that do not say
    /// otherwise.
    pub collapse: bool,
    /// Records between two samples of the trajectories; 0 for none.
    pub sample_records: u64,
    /// Whether refault distances are measured: slower, and nothing is done for all sizes in one
    /// pass.
    pub refault_distances: bool,
    /// Records of the trace, ascending and each once, before which the counts are kept
    /// ([`Trajectory::at_cuts`]). All are below the number of records.
    pub cuts: Vec<u64>,
    /// Has the sweep given up, between two chunks of the trace: then there are no results, but
    /// [`SweepError::Interrupted`].
    pub interrupt: Interrupt,
}

impl Sweep {
    /// Every policy with every memory size of a trace, in this order. Sizes that come to the same
    /// number of pages are one.
    pub fn over(trace: &Trace, specs: &[Spec], sizes: &[MemorySize]) -> Result<Self, SweepError> {
        let (totals, page_bytes) = (&trace.header().totals, trace.header().metadata.page_size);
        trace.check_pages()?;
        if totals.records == 0 {
            return Err(SweepError::Empty { path: trace.name().to_owned() });
        }
        let mut seen = HashSet::new();
        let mut frames = Vec::new();
        for size in sizes {
            frames.extend(size.frames(totals.distinct_pages, page_bytes)?);
        }
        frames.retain(|frames| seen.insert(*frames));
        let cells =
            specs.iter().flat_map(|spec| frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
        let cells: Vec<Cell> = cells.collect();
        let (simulations, pages) = (Self::simulations(&cells, trace), totals.distinct_pages);
        if simulations as u64 * pages > MOST_STATE_BYTES {
            return Err(SweepError::TooManySizes { simulations, pages });
        }
        Ok(Self { cells, ..Self::default() })
    }

    /// What a reader of the results has to know where the trace is reduced and memories are small.
    pub fn note_on_small_memories(&self, trace: &Trace) -> Option<String> {
        let metadata = &trace.header().metadata;
        let reduction = metadata.reduction()?;
        let (least, least_others) = (metadata.exact_pages(), metadata.nearly_exact_pages());
        let too_small = |cell: &Cell| {
            let frames = cell.frames as u64;
            frames < least || (frames < least_others && !EXACT_IF_REDUCED.contains(&cell.spec.name()))
        };
        let name = trace.name().display();
        let some_are = self.cells.iter().any(too_small);
        // Of epochs, all counts are estimates.
        (some_are || metadata.epochs.is_some()).then(|| format!("{name} {reduction}"))
    }

    /// Runs it. Results are in the order of the cells. `progress` is called after each batch with
    /// the number of records of the trace that are done.
    pub fn run(
        &self,
        trace: &Trace,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<(Outcome, Trajectory)>, SweepError> {
        let mut runs: Vec<_> = self.runs(trace)?.into_iter().map(|run| (run, Vec::new())).collect();
        let needs_future = runs.iter().any(|(run, _)| run.needs_future());
        let advance = |(run, at_cuts): &mut (Run, Vec<_>), chunk: &Chunk, next_uses: &[u32]| {
            let mut start = 0;
            let end = chunk.first_record + chunk.references.len() as u64;
            let first = self.cuts.partition_point(|cut| *cut < chunk.first_record);
            for cut in self.cuts[first..].iter().take_while(|cut| **cut < end) {
                let cut = (cut - chunk.first_record) as usize;
                if cut > start {
                    run.advance(chunk, start..cut, next_uses, self.sample_records);
                    start = cut;
                }
                at_cuts.push(run.outcomes(&self.cells));
            }
            run.advance(chunk, start..chunk.references.len(), next_uses, self.sample_records);
        };
        feed(trace, &mut runs, needs_future, &advance, progress, &self.interrupt)?;
        let mut results = vec![<(Outcome, Trajectory)>::default(); self.cells.len()];
        for (run, at_cuts) in runs {
            for (cell, outcome) in at_cuts.into_iter().flatten() {
                results[cell].1.at_cuts.push(outcome);
            }
            for (cell, outcome) in run.outcomes(&self.cells) {
                results[cell].0 = outcome;
            }
            if let Run::Policy { cell, points, .. } = run {
                results[cell].1.points = points;
            }
        }
        Ok(results)
    }

    /// Runs it with an observer for each simulation, made by `watch` from its cell. What an
    /// observer has seen comes back in the outcome that it reports to. Nothing is done for all
    /// sizes in one pass. There are no trajectories, and no refault distances.
    pub fn run_watched<O: Observer + Send + 'static>(
        &self,
        trace: &Trace,
        watch: impl Fn(&Cell) -> O,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<Outcome>, SweepError> {
        let page_bytes = trace.header().metadata.page_size;
        let simulation =
            |cell: &Cell| observed(&cell.spec, cell.frames, self.collapse, page_bytes, Box::new(watch(cell)));
        let mut runs = self.cells.iter().map(simulation).collect::<Result<Vec<_>, _>>()?;
        let needs_future = runs.iter().any(|run| run.needs_future());
        let advance = |run: &mut Box<dyn Simulation>, chunk: &Chunk, next_uses: &[u32]| {
            run.advance(chunk, 0..chunk.references.len(), next_uses);
        };
        feed(trace, &mut runs, needs_future, &advance, progress, &self.interrupt)?;
        Ok(runs.iter().map(|run| run.outcome()).collect())
    }

    /// How many simulations with a state of their own for each page a sweep over these cells takes.
    fn simulations(cells: &[Cell], trace: &Trace) -> usize {
        // OPT's stack has such a state for each size where contents are dropped.
        let of_all_sizes = |policy: &&&str| **policy != "opt" || !drops_contents(trace);
        let in_one_pass = ONE_PASS.iter().filter(of_all_sizes).map(|policy| in_one_pass(cells, policy).len());
        cells.len() - in_one_pass.sum::<usize>()
    }

    /// The simulations to make: one a cell, or one for all sizes of a policy.
    fn runs(&self, trace: &Trace) -> Result<Vec<Run>, SweepError> {
        let [lru, mru, opt] = if self.refault_distances {
            <[Vec<usize>; 3]>::default()
        } else {
            ONE_PASS.map(|policy| in_one_pass(&self.cells, policy))
        };
        let time = if self.refault_distances { Some(Arc::new(VirtualTime::of(trace)?)) } else { None };
        let page_bytes = trace.header().metadata.page_size;
        let mut alone = vec![true; self.cells.len()];
        lru.iter().chain(&mru).chain(&opt).for_each(|&cell| alone[cell] = false);
        let mut runs = Vec::new();
        if !lru.is_empty() {
            runs.push(Run::LruStack { cells: lru, stack: Box::new(LruStack::new()) });
        }
        if !mru.is_empty() {
            runs.push(Run::MruStack { cells: mru, stack: Box::new(MruStack::new()) });
        }
        if !opt.is_empty() {
            let mut frames: Vec<_> = opt.iter().map(|&cell| self.cells[cell].frames).collect();
            frames.dedup();
            let stack = Box::new(OptStack::new(&frames, drops_contents(trace)));
            runs.push(Run::OptStack { cells: opt, stack, frames });
        }
        for (cell, Cell { spec, frames }) in self.cells.iter().enumerate().filter(|(cell, _)| alone[*cell]) {
            let simulation = match &time {
                None => simulation(spec, *frames, self.collapse, page_bytes)?,
                Some(time) => {
                    let observer = RefaultObserver::new(Arc::clone(time));
                    observed(spec, *frames, self.collapse, page_bytes, Box::new(observer))?
                }
            };
            runs.push(Run::Policy { cell, simulation, points: Vec::new() });
        }
        Ok(runs)
    }
}

/// The cells, by ascending size, that one pass over the trace does for a policy: all of it or none.
fn in_one_pass(cells: &[Cell], policy: &str) -> Vec<usize> {
    let mut own: Vec<_> = (0..cells.len()).filter(|&at| cells[at].spec.name() == policy).collect();
    own.sort_by_key(|&at| cells[at].frames);
    if own.len() < STACK_SIZES {
        own.clear();
    }
    own
}

/// Whether contents of pages may be dropped in a trace.
fn drops_contents(trace: &Trace) -> bool {
    let totals = &trace.header().totals;
    totals.unmaps + totals.remaps > 0
}

/// The next uses of a trace, for offline policies.
pub(crate) fn future_of(trace: &Trace, interrupt: &Interrupt) -> Result<Future, SweepError> {
    let path = trace.name().to_owned();
    Future::of_interruptible(trace, interrupt)?.map_err(|source| SweepError::TooLong { path, source })
}

/// Gives a trace to all of `runs`, batch by batch, in parallel. Next uses come along if one of them
/// needs the future.
pub(crate) fn feed<R: Send>(
    trace: &Trace,
    runs: &mut [R],
    needs_future: bool,
    advance: &(impl Fn(&mut R, &Chunk, &[u32]) + Sync),
    progress: &dyn Fn(u64),
    interrupt: &Interrupt,
) -> Result<(), SweepError> {
    trace.check_pages()?;
    let future = if needs_future { Some(future_of(trace, interrupt)?) } else { None };
    let chunks = if runs.len() == 1 { 1 } else { BATCH };
    let decode = |first: usize, batch: &mut Vec<Chunk>| {
        batch.resize_with(chunks.min(trace.chunks().saturating_sub(first)), Chunk::new);
        let each = batch.par_iter_mut().enumerate();
        each.try_for_each(|(offset, chunk)| trace.read_chunk(first + offset, chunk))
    };
    let mut advance_all = |batch: &[Chunk]| {
        // One at a time, so that a slow run does not take others along to its processor.
        runs.par_iter_mut().with_max_len(1).for_each(|run| {
            for chunk in batch.iter().take_while(|_| !interrupt.is_raised()) {
                let next_uses = future.as_ref().map_or(&[][..], |future| future.of_chunk(chunk));
                advance(run, chunk, next_uses);
            }
        });
    };
    // Another thread decodes what comes next meanwhile. A thread alone takes each batch fresh from
    // the decoder.
    let decodes_ahead = rayon::current_num_threads() > 1;
    let (mut batch, mut ahead) = (Vec::new(), Vec::new());
    decode(0, &mut batch)?;
    let mut first = 0;
    while let Some(last) = batch.last() {
        let done = last.first_record + last.references.len() as u64;
        first += batch.len();
        if decodes_ahead {
            let (decoded, ()) = rayon::join(|| decode(first, &mut ahead), || advance_all(&batch));
            decoded?;
            std::mem::swap(&mut batch, &mut ahead);
        } else {
            advance_all(&batch);
            decode(first, &mut batch)?;
        }
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted);
        }
        progress(done);
    }
    Ok(())
}

/// Something that takes the trace once and gives the outcome of one cell or more.
enum Run {
    Policy {
        cell: usize,
        simulation: Box<dyn Simulation>,
        points: Vec<TrajectoryPoint>,
    },
    LruStack {
        cells: Vec<usize>,
        stack: Box<LruStack>,
    },
    MruStack {
        cells: Vec<usize>,
        stack: Box<MruStack>,
    },
    OptStack {
        cells: Vec<usize>,
        stack: Box<OptStack>,
        /// Its memory sizes, ascending.
        frames: Vec<usize>,
    },
}

impl Run {
    fn needs_future(&self) -> bool {
        match self {
            Run::Policy { simulation, .. } => simulation.needs_future(),
            Run::LruStack { .. } | Run::MruStack { .. } => false,
            Run::OptStack { .. } => true,
        }
    }

    fn advance(&mut self, chunk: &Chunk, range: Range<usize>, next_uses: &[u32], sample_records: u64) {
        match self {
            Run::LruStack { stack, .. } => stack.advance(chunk, range),
            Run::MruStack { stack, .. } => stack.advance(chunk, range),
            Run::OptStack { stack, .. } => stack.advance(chunk, range, next_uses),
            Run::Policy { simulation, points, .. } => {
                let mut start = range.start;
                while let Some(end) = next_sample(chunk.first_record, start, sample_records, range.end) {
                    simulation.advance(chunk, start..end, next_uses);
                    start = end;
                    let Outcome { cold_allocation: allocation, leader, .. } = simulation.outcome();
                    if allocation.is_some() || leader.is_some() {
                        let time_records = chunk.first_record + end as u64;
                        points.push(TrajectoryPoint { time_records, allocation, leader });
                    }
                }
                // A sample at the very end has taken the events behind the last reference along.
                if start < range.end || range.is_empty() {
                    simulation.advance(chunk, start..range.end, next_uses);
                }
            }
        }
    }

    /// The counts so far, each with its cell.
    fn outcomes(&self, cells: &[Cell]) -> Vec<(usize, Outcome)> {
        let of_sizes = |own: &[usize], outcomes: &dyn Fn(&[usize]) -> Vec<Outcome>| {
            let frames: Vec<_> = own.iter().map(|&cell| cells[cell].frames).collect();
            own.iter().copied().zip(outcomes(&frames)).collect()
        };
        match self {
            Run::Policy { cell, simulation, .. } => vec![(*cell, simulation.outcome())],
            Run::LruStack { cells: own, stack } => of_sizes(own, &|frames| stack.outcomes(frames)),
            Run::MruStack { cells: own, stack } => of_sizes(own, &|frames| stack.outcomes(frames)),
            Run::OptStack { cells: own, stack, frames } => {
                let outcomes: Vec<_> = stack.outcomes().collect();
                let of = |cell: &usize| {
                    let size = frames.binary_search(&cells[*cell].frames).expect("its own sizes");
                    (*cell, outcomes[size])
                };
                own.iter().map(of).collect()
            }
        }
    }
}

/// Where in a chunk of `len` records, which begins at record `first`, the next sample after `start`
/// is due.
fn next_sample(first: u64, start: usize, every: u64, len: usize) -> Option<usize> {
    if every == 0 {
        return None;
    }
    let done = first + start as u64;
    let end = start as u64 + (every - done % every);
    usize::try_from(end).ok().filter(|end| *end <= len)
}
