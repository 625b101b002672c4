//! Demand paging of one reference string: every policy, every memory size.
//!
//! ```text
//! Trace -- decoded once, a batch of chunks at a time --> Sweep --> a Simulation a (policy, memory size) --> Outcome
//!                                                          \----> LruStack, OptStack: all sizes in one pass
//! ```
//!
//! [`Engine`] runs one policy with one memory size, with static dispatch per reference and dynamic
//! dispatch per chunk. [`Sweep`] drives many of them in parallel, and tells their counts apart by
//! class of reference if asked to; [`attribute`] tells them apart by object. [`Future`] holds what
//! offline policies are told. An [`Observer`] watches a simulation without being paid for by those
//! that nobody watches; [`RefaultObserver`] measures refault distances. [`Sampling`] estimates what
//! a sweep would count from a sample of the pages.
#![forbid(unsafe_code)]

mod attribution;
mod classes;
mod engine;
mod future;
mod live_objects;
mod lru_stack;
mod memory;
mod opt_stack;
mod outcome;
mod refault;
mod sampling;
mod stretches;
mod sweep;

pub use attribution::{ObjectCounts, ObjectFaults, attribute};
pub use classes::ClassCounts;
pub use engine::{Engine, Observer, Simulation, observed, simulation};
pub use future::{Future, TooLong};
pub use lru_stack::LruStack;
pub use memory::{MemorySize, MemorySizeError};
pub use opt_stack::OptStack;
pub use outcome::Outcome;
pub use refault::{RefaultDistances, RefaultObserver};
pub use sampling::{
    DEFAULT_SEED, Estimate, Estimates, GROUPS, LEAST_FRAMES, LEAST_PAGES, MeasuredError, SampleSize,
    SampleSizeError, Sampling, SamplingError,
};
pub use sweep::{Cell, Sweep, SweepError, Trajectory, TrajectoryPoint};
