//! Page replacement policies. Each is written once and serves both simulation and live paging.
//!
//! A policy sees what a virtual-memory system can see. Its driver (a simulator, or a pager for a
//! real program) owns the page table. The policy owns lists and hands, and decides which page to
//! evict.
//!
//! ```text
//!            hit                     fault on x, no free frame               fault on x, frame at hand
//!   VM model: the driver sets   victim(mmu) -> v   the policy's proposal    insert(x, mmu) -> x's reference bit
//!   a bit; the policy is not    evict(v)           the driver confirms
//!   called                      (a lost race costs nothing: call victim again)
//! ```
//!
//! [`Policy::Model`] states in types what a policy needs. [`VmModel`] policies need only faults and
//! [`Mmu::test_and_clear_referenced`], so they can run on real hardware. [`ExactModel`] policies
//! must see every hit, and [`OfflineModel`] policies must see the future, so both are for
//! simulation only.
//!
//! For many tasks in one memory, [`TaskPolicy`] replaces [`Policy`] and [`TaskMmu`] replaces
//! [`Mmu`]. They add dirty bits and virtual time. Such a policy may also answer "wait" or
//! "deactivate a task". WSCLOCK is an example.
//!
//! Start reading at [`interface`](Policy), then [`policies::recency::fifo`] (the smallest policy)
//! and [`policies::reuse_distance::clock_pro`] (the largest). [`registry`] and [`task_registry`]
//! list all policies. `conformance` (a feature) is the test suite that all of them pass.
//! [`plugin`] takes policies from other crates and languages.
//!
//! The crate needs only `alloc`. It has no dependencies, except serde with the feature `serde`.
#![cfg_attr(not(any(test, feature = "conformance", feature = "registration")), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod arguments;
mod catalogue;
pub mod collections;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod interface;
pub mod line;
pub mod load_control;
mod math;
pub mod near;
pub mod plugin;
pub mod policies;
#[allow(unsafe_code)]
mod prefetch;
mod random;
mod registered;
pub mod registry;
mod settled;
mod task_list;
pub mod task_registry;
mod tasks;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod told;

pub use arguments::{ArgumentError, Arguments, Info, Parameter, Preset};
pub use interface::{
    ColdAllocation, ExactModel, Leader, Mmu, Model, NEVER, OfflineModel, PageId, Policy, Reference,
    Violation, VmModel,
};
pub use policies::tasks::{CleaningClock, Shared};
pub use prefetch::prefetch;
pub use random::SplitMix64;
pub use settled::Settled;
pub use tasks::{Claim, ExactMmu, LoadControl, Reclaim, TaskId, TaskMmu, TaskPolicy, VirtualTime};

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
