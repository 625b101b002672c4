//! Caches of whole objects that have sizes, and memories that tenants share.
//!
//! The traces come from logs of requests ([`sweephand_trace::columns`]). In a log with sizes, a
//! policy gives up objects until enough *bytes* are free, so pages and frames do not describe it.
//!
//! ```text
//! Trace -- requests with sizes --> simulate, a SizedCache a (policy, capacity) --> SizedRun
//!   \----- references of tenants --> Tenancy, an LRU stack a tenant --> TenantShare
//! ```
//!
//! - [`policies`] lists the policies that know sizes. A [`SizedCache`] drives one.
//! - [`simulate`] runs a trace through caches of several capacities.
//! - [`Tenancy`] divides a memory of pages among the tenants of a log.
#![forbid(unsafe_code)]

mod bound;
mod cache;
mod outcome;
pub mod policies;
mod requests;
mod simulation;
mod tenants;

pub use cache::{Access, SizedCache};
pub use outcome::SizedOutcome;
pub use requests::{SizedError, SizedTotals, totals};
pub use simulation::{BOUND, SizedPolicyName, SizedRun, simulate};
pub use tenants::{PartitionError, Tenancy, TenantShare, divide};

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
