//! Estimates the counts of a sweep from a sample of the pages.
//!
//! For LRU, C. A. Waldspurger et al. keep only the references to pages with a small hash, a share R
//! of the pages, and scale stack distances by 1 / R. This gives the curve at all sizes ("Efficient
//! MRC construction with SHARDS", USENIX FAST 2015). With a memory of R M frames, the same
//! references are a miniature of M frames, under any policy whose decisions depend only on the
//! order of pages ("Cache modeling and optimization using miniature simulations", USENIX ATC 2017).
//! For LRU the two methods are the same. Here one piece of code does both: a [`Sweep`] over the
//! sample.
//!
//! ```text
//!   pages, by hash    [ sample: R of them ][ not simulated                                   ]
//!   memory            R M frames, to the nearest
//!   counts            times 1 / R; hits are the program's references less the faults
//! ```
//!
//! - **Fixed rate and fixed size.** A trace says how many pages it has before the first reference
//!   is read. So a number of pages is a rate, and the threshold is known from the start. SHARDS
//!   with fixed size ends at the same threshold, but has to rescale on the way. A sample has
//!   exactly the number of pages that it should.
//! - **Correction.** Whether the most referenced pages are in a sample decides its number of
//!   references, but these references are nearly always hits. As in SHARDS-adj, the difference
//!   between the sampled and the expected references is taken to be hits. Faults are scaled, and
//!   the hit ratio is over the references of the program.
//! - **Error.** Another hash divides the sample into [`GROUPS`] groups, each a sample with a memory
//!   of its own. The spread of their estimates gives the error of the whole sample (the method of
//!   random groups: K. M. Wolter, *Introduction to Variance Estimation*, chapter 2). It does not
//!   show errors that all samples share, such as a policy that does not scale. [Errors
//!   measured](MeasuredError) against full runs do.
//!
//! A sample is refused when its result could not be right: the policy says so
//! ([`Policy::NOT_SAMPLED`](sweephand_policy::Policy::NOT_SAMPLED)), the sample has fewer than
//! [`LEAST_PAGES`] pages, or the miniature has fewer than [`LEAST_FRAMES`] frames.

use crate::sweep::BATCH;
use crate::{Cell, MemorySize, Outcome, Sweep, SweepError};
use rayon::prelude::*;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use sweephand_policy::ArgumentError;
use sweephand_policy::registry::Spec;
use sweephand_trace::{Chunk, Interrupt, PageSample, Repeats, SampleWriter, Trace};

/// Groups that the sample is dealt out to for its error.
pub const GROUPS: u32 = 4;
/// A sample of fewer pages is refused.
pub const LEAST_PAGES: u32 = 256;
/// A miniature of fewer frames is refused: each is a step of 1 / 32 of memory.
pub const LEAST_FRAMES: usize = 32;

/// How many pages are simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SampleSize {
    /// A share of the trace's pages, in percent: fixed rate.
    Percent(f64),
    /// This many pages, or all if there are fewer: fixed size.
    Pages(u32),
}

/// The size of a sample that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("sample '{text}': write a share of the pages as in 1%, or a number as in 8192p")]
pub struct SampleSizeError {
    /// The size as typed.
    pub text: String,
}

impl FromStr for SampleSize {
    type Err = SampleSizeError;

    fn from_str(text: &str) -> Result<Self, SampleSizeError> {
        let percent = |text: &str| text.parse().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
        let size = match (text.strip_suffix('%'), text.strip_suffix('p')) {
            (Some(text), _) => percent(text).map(Self::Percent),
            (None, Some(text)) => text.parse().ok().filter(|pages| *pages > 0).map(Self::Pages),
            (None, None) => None,
        };
        size.ok_or_else(|| SampleSizeError { text: text.to_string() })
    }
}

impl fmt::Display for SampleSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Pages(pages) => write!(f, "{pages}p"),
        }
    }
}

/// Why a sample does not tell what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// The policy cannot be sampled.
    #[error(
        "{policy} cannot be told from a sample of the pages: {reason}; leave out the sample, or {policy}"
    )]
    Policy {
        /// Its name.
        policy: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The sample is too small.
    #[error(
        "{}: sample {size}: {sampled} of {pages} pages are too few to tell anything (at least {LEAST_PAGES}): {}",
        path.display(),
        enough(*pages, LEAST_PAGES)
    )]
    TooFewPages {
        /// The trace.
        path: PathBuf,
        /// The sample that was asked for.
        size: SampleSize,
        /// Pages in the sample.
        sampled: u32,
        /// Pages of the trace.
        pages: u32,
    },
    /// The miniature is too small.
    #[error(
        "{}: sample {size}: {frames} of {memory} pages of memory are too few to tell anything (at least {LEAST_FRAMES}): {}",
        path.display(),
        enough(*memory as u32, LEAST_FRAMES as u32)
    )]
    TooFewFrames {
        /// The trace.
        path: PathBuf,
        /// The sample that was asked for.
        size: SampleSize,
        /// Frames of the miniature.
        frames: usize,
        /// Frames of the memory that was asked for.
        memory: usize,
    },
    /// A policy's arguments cannot be scaled.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The sweep cannot be made.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

impl From<sweephand_trace::Error> for SamplingError {
    fn from(error: sweephand_trace::Error) -> Self {
        Self::Sweep(error.into())
    }
}

/// What would be enough for `least` of `of`.
fn enough(of: u32, least: u32) -> String {
    if of <= least {
        return "leave it out".to_string();
    }
    // Half a page more than needed, rounded up to two digits, so that it is enough whatever is
    // rounded.
    let percent = 100.0 * (f64::from(least) + 0.5) / f64::from(of);
    let digit = 10f64.powf(percent.log10().floor() - 1.0);
    let percent = (percent / digit).ceil() * digit;
    if percent >= 100.0 {
        "leave it out".to_string()
    } else {
        let decimals = (-digit.log10().floor()).max(0.0) as usize;
        format!("take {percent:.decimals$}% or more, or leave it out")
    }
}

/// Which pages are simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// How many.
    pub size: SampleSize,
    /// Where the hash starts: samples of different seeds have nothing to do with each other.
    pub seed: u64,
}

/// The seed of a sample unless another is asked for.
pub const DEFAULT_SEED: u64 = 1;

/// What a sample tells of a sweep.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// Pages in the sample.
    pub sampled_pages: u32,
    /// Pages of the trace.
    pub pages: u32,
    /// References to the pages of the sample.
    pub sampled_records: u64,
    /// In the order of the cells.
    pub cells: Vec<Estimate>,
}

/// What a sample tells of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The counts that the whole trace would have, about. `records` is exact. There is no cold
    /// allocation.
    pub outcome: Outcome,
    /// Standard error of the hit ratio, 1 being all references: two times in three the truth is no
    /// further away, as far as the groups tell. 0 if all pages are simulated.
    pub hit_ratio_error: f64,
}

impl Estimates {
    /// The share of the pages that are simulated.
    pub fn rate(&self) -> f64 {
        f64::from(self.sampled_pages) / f64::from(self.pages)
    }
}

impl Sampling {
    /// How many pages of a trace are in the sample: at least 1.
    pub fn pages(&self, trace: &Trace) -> u32 {
        let pages = trace.header().totals.page_ids;
        match self.size {
            SampleSize::Percent(percent) => (percent * f64::from(pages) / 100.0).round() as u32,
            SampleSize::Pages(sampled) => sampled,
        }
        .clamp(1, pages.max(1))
    }

    /// Every memory size, in pages, that the sample can tell from the one before.
    pub fn memory_sizes(&self, trace: &Trace) -> Vec<usize> {
        let (sampled, pages) = (self.pages(trace), trace.header().totals.page_ids);
        if sampled == pages {
            return (1..=trace.header().totals.distinct_pages.max(1) as usize).collect();
        }
        let scaled = |frames: usize| (frames as f64 * f64::from(pages) / f64::from(sampled)).round() as usize;
        (LEAST_FRAMES..=sampled as usize).map(scaled).collect()
    }

    /// The sizes to simulate on the sample: for all of them, those that it tells apart.
    pub fn told_apart(&self, sizes: &[MemorySize], trace: &Trace) -> Vec<MemorySize> {
        let pages = |pages| MemorySize::Pages(pages as u64);
        let sizes = sizes.iter().flat_map(|size| match size {
            MemorySize::All => self.memory_sizes(trace).into_iter().map(pages).collect(),
            size => vec![*size],
        });
        sizes.collect()
    }

    /// Whether a sample, where it is not of all pages, can tell anything of a policy.
    pub fn check_policy(spec: &Spec) -> Result<(), SamplingError> {
        let refused = |reason| Err(SamplingError::Policy { policy: spec.name(), reason });
        spec.not_sampled().map_or(Ok(()), refused)
    }

    /// Whether the sample can tell all that is asked for.
    pub fn check(&self, trace: &Trace, cells: &[Cell]) -> Result<(), SamplingError> {
        let (sampled, pages) = (self.pages(trace), trace.header().totals.page_ids);
        if sampled == pages {
            return Ok(());
        }
        let path = || trace.name().to_owned();
        if sampled < LEAST_PAGES {
            return Err(SamplingError::TooFewPages { path: path(), size: self.size, sampled, pages });
        }
        let share = f64::from(sampled) / f64::from(pages);
        for Cell { spec, frames: memory } in cells {
            Self::check_policy(spec)?;
            let frames = miniature(*memory, share);
            if frames < LEAST_FRAMES {
                return Err(SamplingError::TooFewFrames {
                    path: path(),
                    size: self.size,
                    frames,
                    memory: *memory,
                });
            }
        }
        Ok(())
    }

    /// Estimates what `sweep` would count: its cells and `collapse`; nothing else is sampled. It is
    /// given up as the sweep would be. `progress` is called with the number of records of the trace
    /// that are done.
    pub fn run(
        &self,
        trace: &Trace,
        sweep: &Sweep,
        progress: &dyn Fn(u64),
    ) -> Result<Estimates, SamplingError> {
        self.check(trace, &sweep.cells)?;
        let totals = &trace.header().totals;
        let (sampled, pages) = (self.pages(trace), totals.page_ids);
        let mut estimates =
            Estimates { sampled_pages: sampled, pages, sampled_records: 0, cells: Vec::new() };
        if sampled == pages {
            let sweep = Sweep { collapse: sweep.collapse, ..of_cells(sweep, sweep.cells.iter().cloned()) };
            let exact = sweep.run(trace, progress)?.into_iter().map(|(outcome, _)| Estimate {
                outcome: Outcome { cold_allocation: None, leader: None, ..outcome },
                hit_ratio_error: 0.0,
            });
            estimates.cells = exact.collect();
            estimates.sampled_records = totals.records;
            return Ok(estimates);
        }

        // Repeats are hidden by taking them out before the others go: some cells want that, others
        // not.
        let mut collapsed = Vec::with_capacity(sweep.cells.len());
        for Cell { spec, .. } in &sweep.cells {
            collapsed.push(spec.arguments().collapse()?.unwrap_or(sweep.collapse));
        }
        estimates.cells =
            vec![Estimate { outcome: Outcome::default(), hit_ratio_error: 0.0 }; collapsed.len()];
        let sample = PageSample::parts(pages, &[sampled], self.seed).remove(0);
        for collapse in [false, true] {
            let cells: Vec<usize> =
                (0..collapsed.len()).filter(|&cell| collapsed[cell] == collapse).collect();
            if cells.is_empty() {
                continue;
            }
            let own = of_cells(sweep, cells.iter().map(|&cell| sweep.cells[cell].clone()));
            // Reading the whole is most of the work, and simulating a little what remains of it.
            let read = |records| progress(records - records / 16);
            let miniature = reduced(trace, &sample, collapse, &read, &sweep.interrupt)?;
            estimates.sampled_records = miniature.header().totals.records;
            let found = estimate(&miniature, estimates.rate(), &own, totals.references, self.seed)?;
            for (cell, mut estimate) in cells.into_iter().zip(found) {
                estimate.outcome.records = totals.records;
                estimates.cells[cell] = estimate;
            }
            progress(totals.records);
        }
        Ok(estimates)
    }
}

/// Frames of the miniature of a memory.
fn miniature(frames: usize, share: f64) -> usize {
    (frames as f64 * share).round() as usize
}

/// The references to some pages; with `collapse` without those that repeat the one before them.
fn reduced(
    trace: &Trace,
    sample: &PageSample,
    collapse: bool,
    progress: &dyn Fn(u64),
    interrupt: &Interrupt,
) -> Result<Trace, SweepError> {
    let mut writer = SampleWriter::new(trace)?;
    let mut batch: Vec<Chunk> = Vec::new();
    batch.resize_with(2 * BATCH, Chunk::new);
    let mut repeats = Repeats::default();
    for first in (0..trace.chunks()).step_by(batch.len()) {
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted);
        }
        let available = batch.len().min(trace.chunks() - first);
        let chunks = &mut batch[..available];
        let indexed = chunks.par_iter_mut().enumerate();
        if collapse {
            indexed.try_for_each(|(offset, chunk)| trace.read_chunk(first + offset, chunk))?;
            let mut before = Vec::with_capacity(available);
            for chunk in &*chunks {
                before.push(repeats);
                repeats.pass(chunk);
            }
            chunks
                .par_iter_mut()
                .zip(before)
                .for_each(|(chunk, repeats)| sample.reduce(chunk, Some(repeats)));
        } else {
            indexed.try_for_each(|(offset, chunk)| {
                trace.read_chunk(first + offset, chunk)?;
                sample.reduce(chunk, None);
                Ok::<_, sweephand_trace::Error>(())
            })?;
        }
        chunks.iter().try_for_each(|chunk| writer.push(chunk))?;
        progress(trace.first_record(first + available));
    }
    Ok(writer.finish()?)
}

/// A sweep over other cells, given up when `sweep` is.
fn of_cells(sweep: &Sweep, cells: impl Iterator<Item = Cell>) -> Sweep {
    Sweep { cells: cells.collect(), interrupt: sweep.interrupt.clone(), ..Sweep::default() }
}

/// What a sample, with `share` of the pages of its trace, tells of the cells of a sweep.
fn estimate(
    sample: &Trace,
    share: f64,
    sweep: &Sweep,
    references: u64,
    seed: u64,
) -> Result<Vec<Estimate>, SamplingError> {
    let whole = outcomes(sample, share, sweep)?;
    // A page that has been moved may have two ids here, so these are not the pages that were asked
    // for, but about as many.
    let ids = sample.header().totals.page_ids;
    let deal: Vec<u32> = (0..GROUPS).map(|group| (ids + group) / GROUPS).collect();
    let groups = PageSample::parts(ids, &deal, !seed);
    let by_group = groups.par_iter().map(|group| {
        let own_share = share * f64::from(group.pages()) / f64::from(ids);
        outcomes(&reduced(sample, group, false, &|_| {}, &sweep.interrupt)?, own_share, sweep)
    });
    let by_group: Vec<Vec<Outcome>> = by_group.collect::<Result<_, SamplingError>>()?;
    // Nothing is left to chance where all pages are sampled.
    let left_out = 1.0 - share;
    Ok((0..sweep.cells.len())
        .map(|cell| {
            let ratio = |outcome: &Outcome| outcome.faults as f64 / references.max(1) as f64;
            let ratios = by_group.iter().map(|outcomes| ratio(&outcomes[cell]));
            let mean = ratios.clone().sum::<f64>() / f64::from(GROUPS);
            let squares: f64 = ratios.map(|ratio| (ratio - mean).powi(2)).sum();
            let variance = squares / f64::from(GROUPS * (GROUPS - 1));
            let mut outcome = whole[cell];
            outcome.faults = outcome.faults.min(references);
            Estimate { outcome, hit_ratio_error: (variance * left_out).sqrt() }
        })
        .collect())
}

/// The counts of a sample with `share` of the pages, scaled to the whole.
fn outcomes(sample: &Trace, share: f64, sweep: &Sweep) -> Result<Vec<Outcome>, SamplingError> {
    let scaled = sweep.cells.iter().map(|Cell { spec, frames }| Cell {
        spec: spec.sampled(share),
        frames: miniature(*frames, share).max(1),
    });
    let sweep = of_cells(sweep, scaled);
    let scale = |count: u64| (count as f64 / share).round() as u64;
    let outcomes = sweep.run(sample, &|_| {})?.into_iter().map(|(outcome, _)| {
        let (faults, warmup_faults) = (scale(outcome.faults), scale(outcome.warmup_faults));
        Outcome {
            records: scale(outcome.records),
            faults,
            first_touch_faults: scale(outcome.first_touch_faults),
            warmup_faults,
            // A fault finds a free frame, or a page makes room.
            evictions: faults - warmup_faults,
            hand_steps: scale(outcome.hand_steps),
            cold_allocation: None,
            leader: None,
            refault_distances: None,
            paging: None,
        }
    });
    Ok(outcomes.collect())
}

/// How far estimates of a policy were off in `lab/bench/sampling`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredError {
    /// Pages that the samples had.
    pub sampled_pages: u64,
    /// Mean absolute error of the hit ratio, 1 being all references.
    pub mean: f64,
    /// The largest.
    pub largest: f64,
    /// Mean error of the faults, as a share of them.
    pub mean_of_faults: f64,
    /// Cells (a trace, a memory size, a seed) that were estimated and simulated in full.
    pub cells: u64,
}

/// The table, whose columns its first line names. Written by `lab/bench/sampling/run.py`.
const MEASURED: &str = include_str!("measured_errors.csv");

impl MeasuredError {
    /// What was measured of a policy, named without arguments, with the largest samples that do not
    /// have more pages than this.
    pub fn of(policy: &str, sampled_pages: u64) -> Option<Self> {
        let rows = MEASURED.lines().skip(1).filter_map(|line| {
            let mut fields = line.split(',');
            (fields.next()? == policy).then_some(())?;
            Some(Self {
                sampled_pages: fields.next()?.parse().ok()?,
                mean: fields.next()?.parse().ok()?,
                largest: fields.next()?.parse().ok()?,
                mean_of_faults: fields.next()?.parse().ok()?,
                cells: fields.next_back()?.parse().ok()?,
            })
        });
        rows.filter(|row| row.sampled_pages <= sampled_pages).max_by_key(|row| row.sampled_pages)
    }
}
