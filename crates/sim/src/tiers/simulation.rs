//! Simulations of policies with tiers below their memory, at equal total memory.

use super::adaptive::AdaptiveLru;
use super::balance::SplitCosts;
use super::compressed_sizes::CompressedSizes;
use super::counts::TierCounts;
use super::kind::TierKind;
use super::limits::Limits;
use super::observer::TierObserver;
use super::size_classes::SizeClasses;
use crate::engine::observed;
use crate::sweep::feed;
use crate::{Cell, Outcome, Simulation, SweepError};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use sweephand_policy::registry::Spec;
use sweephand_trace::{Chunk, Interrupt, Trace};

/// More bytes of state than this are refused.
const MOST_STATE_BYTES: u64 = 4 << 30;
/// State of a page in a simulation, and in each pool that is simulated by itself.
const STATE_BYTES: u64 = 24;
/// Pages are at least this large.
const LEAST_PAGE_BYTES: u64 = 4096;
/// Pages are at most this large: more than any kernel's.
const MOST_PAGE_BYTES: u64 = 1 << 20;

/// A memory that is split: resident pages under a policy, and a pool of compressed ones.
#[derive(Clone, Debug)]
pub struct Split {
    /// The policy.
    pub spec: Spec,
    /// All memory, in pages.
    pub memory_pages: usize,
    /// What of it has resident pages. The pool has the rest.
    pub resident: Resident,
}

/// How much of a memory has resident pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resident {
    /// As many pages, at least 1.
    Pages(usize),
    /// As many as would have paid best lately, by these costs: the adaptive split of Wilson, Kaplan
    /// and Smaragdakis, for LRU before [a pool that adapts](TierKind::adapts).
    Adaptive(SplitCosts),
}

impl Split {
    /// The memory of a cell, split so that these shares of it, in percent, are resident. Shares are
    /// rounded to the nearest page, and to at least one. Those that come to the same are one.
    pub fn of(cell: &Cell, resident_percents: &[f64]) -> Vec<Self> {
        let memory_pages = cell.frames;
        let resident = |percent: &f64| {
            let pages = (percent * memory_pages as f64 / 100.0).round() as usize;
            pages.clamp(1, memory_pages)
        };
        let mut sizes: Vec<_> = resident_percents.iter().map(resident).collect();
        let mut seen = HashSet::new();
        sizes.retain(|size| seen.insert(*size));
        let split = |pages| Self { spec: cell.spec.clone(), memory_pages, resident: Resident::Pages(pages) };
        sizes.into_iter().map(split).collect()
    }

    /// The memory of a cell, with a split that adapts.
    pub fn adaptive(cell: &Cell, costs: SplitCosts) -> Self {
        Self { spec: cell.spec.clone(), memory_pages: cell.frames, resident: Resident::Adaptive(costs) }
    }

    /// What has resident pages, in pages, if that does not change.
    pub fn resident_pages(&self) -> Option<usize> {
        match self.resident {
            Resident::Pages(pages) => Some(pages),
            Resident::Adaptive(_) => None,
        }
    }
}

/// Why memories cannot be simulated in tiers.
#[derive(Debug, thiserror::Error)]
pub enum TiersError {
    /// The pages are not those of an allocator that the model knows.
    #[error(
        "{}: has pages of {page_bytes} bytes; tiers are for pages of 4 KiB to 1 MiB, a power of two",
        path.display()
    )]
    PageBytes {
        /// The trace.
        path: PathBuf,
        /// Bytes a page.
        page_bytes: u64,
    },
    /// More simulations at once than there is memory for.
    #[error(
        "{simulations} simulations and {pools} pools of {pages} pages are too many; name fewer memories or splits"
    )]
    TooMany {
        /// Simulations of a policy.
        simulations: usize,
        /// Pools below them.
        pools: usize,
        /// Pages of the trace.
        pages: u64,
    },
    /// There is no adaptive split of this policy, or of this kind of pool.
    #[error("{spec}: only lru has an adaptive split, before zswap without an accept threshold")]
    NotAdaptive {
        /// The policy.
        spec: Spec,
    },
    /// The policies cannot be simulated.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

/// What is below resident pages: a pool of compressed pages, and a disk.
#[derive(Clone)]
pub struct Tiers {
    /// What keeps compressed pages.
    pub kind: TierKind,
    /// What pages come to.
    pub sizes: Arc<dyn CompressedSizes>,
}

/// A simulation, and the pools below it.
struct Pass {
    spec: Spec,
    resident: Resident,
    pools: Vec<Limits>,
}

/// A pass that is under way.
struct Run {
    simulation: Box<dyn Simulation>,
    counts: Arc<Mutex<Vec<TierCounts>>>,
}

impl Tiers {
    /// Simulates each split of a memory. Results are in the order of the splits. Fixed splits with
    /// the same policy and as many resident pages share one simulation.
    ///
    /// `collapse`, `interrupt` and `progress` are as in a [`Sweep`](crate::Sweep).
    ///
    /// # Errors
    /// The pages of the trace are too small or too large, there are too many splits, one cannot
    /// adapt, or a policy cannot be simulated: see [`Sweep::run`](crate::Sweep::run).
    pub fn run(
        &self,
        trace: &Trace,
        splits: &[Split],
        collapse: bool,
        interrupt: &Interrupt,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<(Outcome, TierCounts)>, TiersError> {
        let classes = Arc::new(SizeClasses::new(page_bytes(trace)?));
        let (passes, places) = self.passes(splits, classes.page_bytes());
        check_state(trace, &passes)?;
        let run = |pass| self.start(pass, &classes, collapse);
        let mut runs = passes.into_iter().map(run).collect::<Result<Vec<_>, _>>()?;
        let needs_future = runs.iter().any(|run| run.simulation.needs_future());
        let advance = |run: &mut Run, chunk: &Chunk, next_uses: &[u32]| {
            run.simulation.advance(chunk, 0..chunk.references.len(), next_uses);
        };
        feed(trace, &mut runs, needs_future, &advance, progress, interrupt)?;
        let told = runs.into_iter().map(|run| {
            let outcome = run.simulation.outcome();
            (outcome, std::mem::take(&mut *run.counts.lock().unwrap_or_else(PoisonError::into_inner)))
        });
        let told: Vec<(Outcome, Vec<TierCounts>)> = told.collect();
        Ok(places.into_iter().map(|(pass, pool)| (told[pass].0, told[pass].1[pool])).collect())
    }

    /// The passes that splits take, and for each split its pass and its pool there.
    fn passes(&self, splits: &[Split], page_bytes: u32) -> (Vec<Pass>, Vec<(usize, usize)>) {
        let mut passes: Vec<Pass> = Vec::new();
        let mut known = HashMap::new();
        let mut places = Vec::new();
        for split in splits {
            // An adaptive split has a simulation of its own, of all memory.
            let pass = match split.resident {
                Resident::Pages(pages) => {
                    *known.entry((split.spec.to_string(), pages)).or_insert(passes.len())
                }
                Resident::Adaptive(_) => passes.len(),
            };
            if pass == passes.len() {
                let (spec, resident) = (split.spec.clone(), split.resident);
                passes.push(Pass { spec, resident, pools: Vec::new() });
            }
            places.push((pass, passes[pass].pools.len()));
            let pool_pages = split.memory_pages - split.resident_pages().unwrap_or(0);
            passes[pass].pools.push(Limits::new(self.kind, split.memory_pages, pool_pages, page_bytes));
        }
        (passes, places)
    }

    /// Begins a pass.
    fn start(&self, pass: Pass, classes: &Arc<SizeClasses>, collapse: bool) -> Result<Run, TiersError> {
        let Pass { spec, resident, pools } = pass;
        let page_bytes = classes.page_bytes();
        let counts = Arc::new(Mutex::new(Vec::new()));
        let (sizes, classes, told) = (Arc::clone(&self.sizes), Arc::clone(classes), Arc::clone(&counts));
        let simulation = match resident {
            Resident::Pages(frames) => {
                let observer = TierObserver::new(self.kind, sizes, classes, pools, told);
                observed(&spec, frames, collapse, page_bytes.into(), Box::new(observer))
                    .map_err(SweepError::from)?
            }
            Resident::Adaptive(costs) if self.kind.adapts() && spec.to_string() == "lru" => {
                let below = TierObserver::with_only_pool(self.kind, sizes, classes, pools[0], told);
                Box::new(AdaptiveLru::new(pools[0].pages, page_bytes, costs, below))
            }
            Resident::Adaptive(_) => return Err(TiersError::NotAdaptive { spec }),
        };
        Ok(Run { simulation, counts })
    }
}

fn page_bytes(trace: &Trace) -> Result<u32, TiersError> {
    let page_bytes = trace.header().metadata.page_size;
    let is_known = page_bytes.is_power_of_two() && (LEAST_PAGE_BYTES..=MOST_PAGE_BYTES).contains(&page_bytes);
    let error = || TiersError::PageBytes { path: trace.name().to_owned(), page_bytes };
    is_known.then_some(page_bytes as u32).ok_or_else(error)
}

fn check_state(trace: &Trace, passes: &[Pass]) -> Result<(), TiersError> {
    let (simulations, pages) = (passes.len(), trace.header().totals.distinct_pages);
    let pools = passes.iter().map(|pass| pass.pools.len()).sum::<usize>();
    if (simulations + pools) as u64 * pages * STATE_BYTES > MOST_STATE_BYTES {
        return Err(TiersError::TooMany { simulations, pools, pages });
    }
    Ok(())
}
