//! Demand paging of one reference string: every policy, every memory size.
//!
//! ```text
//! Trace -- decoded once, a batch of chunks at a time --> Sweep --> a Simulation a (policy, memory size) --> Outcome
//!                                                          \----> LruStack, MruStack, OptStack: all sizes in one pass
//! ```
//!
//! - [`Engine`] runs one policy with one memory size. It dispatches statically for each reference
//!   and dynamically for each chunk.
//! - [`Sweep`] runs many engines in parallel. It can count by class of reference; [`attribute`]
//!   counts by object.
//! - [`Warmup`] says where counting begins. [`Windows`] cut a trace for series over time.
//! - [`Future`] holds the next uses, for offline policies.
//! - An [`Observer`] watches a simulation. Simulations without one do not pay for it.
//!   [`RefaultObserver`] measures refault distances.
//! - [`write_misses`] writes what a memory asks of the memory below it as a trace.
//! - [`what_if`] and [`with_huge_pages`] count faults as they would be if the program treated some
//!   of its objects otherwise.
//! - [`Tiers`] are below the resident pages: a pool of compressed pages and a disk, at equal total
//!   memory.
//! - [`Sampling`] estimates the counts of a sweep from a sample of the pages.
#![forbid(unsafe_code)]

/// Grows with every change of the simulation that changes what it counts. Results that are kept are
/// computed again then, as with [`Registered::REVISION`](sweephand_policy::registry::Registered).
pub const REVISION: u32 = 1;

mod attribution;
mod classes;
mod engine;
mod future;
mod huge_pages;
mod live_objects;
mod lru_stack;
mod memory;
mod misses;
mod mru_stack;
mod opt_stack;
mod outcome;
mod refault;
mod sampling;
mod stack_counts;
mod stretches;
mod sweep;
mod threads;
mod tiers;
mod warmup;
mod what_if;
mod windows;

pub use attribution::{Attribution, CodeCounts, ObjectCounts, ObjectFaults, attribute};
pub use classes::ClassCounts;
pub use engine::{Engine, Observer, Simulation, observed, simulation};
pub use future::{Future, TooLong};
pub use huge_pages::{HUGE_BYTES, HugePageFaults, with_huge_pages};
pub use lru_stack::LruStack;
pub use memory::{MemorySize, MemorySizeError};
pub use misses::{Evictions, write_misses};
pub use mru_stack::MruStack;
pub use opt_stack::OptStack;
pub use outcome::{Outcome, PagingTime, RefaultDistances};
pub use refault::RefaultObserver;
pub use sampling::{
    DEFAULT_SEED, Estimate, Estimates, GROUPS, LEAST_FRAMES, LEAST_PAGES, MeasuredError, SampleSize,
    SampleSizeError, Sampling, SamplingError,
};
pub use sweep::{Cell, DEFAULT_POLICIES, DEFAULT_SIZES, Sweep, SweepError, Trajectory, TrajectoryPoint};
pub use threads::{bounded_threads, rayon_threads};
pub use tiers::{
    Codec, CompressedSizes, Compressibility, Resident, SizeSpread, Split, SplitCosts, TierCounts, TierKind,
    TierSpec, TierSpecError, Tiers, TiersError,
};
pub use warmup::{CountingStart, Span, Warmup, WarmupError};
pub use what_if::{Change, WhatIf, what_if};
pub use windows::{MOST_WINDOWS, WindowStart, Windows, WindowsError};

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
