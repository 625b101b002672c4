//! Page replacement policies, each written once, for simulation and for live paging.
//!
//! A policy sees what a virtual-memory system can see. Its driver (a simulator, or a pager in front
//! of a real program) owns the page table; the policy owns lists and hands and answers one
//! question: which page goes?
//!
//! ```text
//!            hit                     fault on x, no free frame               fault on x, frame at hand
//!   VM model: the driver sets   victim(mmu) -> v   the policy's proposal    insert(x, mmu) -> x's reference bit
//!   a bit; the policy is not    evict(v)           the driver confirms
//!   called                      (a lost race costs nothing: call victim again)
//! ```
//!
//! [`Policy::Model`] says in types what a policy has to be shown: [`VmModel`] policies live on
//! faults and [`Mmu::test_and_clear_referenced`] and can run against real hardware; [`ExactModel`]
//! policies must see every hit and [`OfflineModel`] ones the future, so those are for simulation
//! only.
//!
//! Where many tasks share one memory, [`TaskPolicy`] takes the place of [`Policy`] and [`TaskMmu`]
//! that of [`Mmu`]: dirty bits and virtual time come in, and the answer can be to wait, or that a
//! task has to give way. WSCLOCK is one.
//!
//! Start reading at [`interface`](Policy), then [`policies::fifo`] (the smallest) and
//! [`policies::clock_pro`] (the largest). [`registry`] and [`task_registry`] are the lists of all
//! of them; `conformance` (a feature) is the suite they all pass.
//!
//! Policies of other crates and languages come in through [`plugin`].
//!
//! The crate has no dependencies and needs `alloc` only.
#![cfg_attr(not(any(test, feature = "conformance", feature = "registration")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod arguments;
mod cleaning_clock;
pub mod collections;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod fading;
mod interface;
mod math;
pub mod plugin;
pub mod policies;
mod random;
pub mod registry;
mod shared;
pub mod task_registry;
mod tasks;
#[cfg(test)]
mod testing;

pub use arguments::{ArgumentError, Arguments, Info, Parameter, Preset};
pub use cleaning_clock::CleaningClock;
pub use interface::{
    ColdAllocation, ExactModel, Mmu, Model, NEVER, OfflineModel, PageId, Policy, Reference, Violation,
    VmModel,
};
pub use random::SplitMix64;
pub use shared::Shared;
pub use tasks::{Claim, ExactMmu, LoadControl, Reclaim, TaskId, TaskMmu, TaskPolicy, VirtualTime};
