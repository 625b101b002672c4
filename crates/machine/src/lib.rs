//! The multiprogramming model: many tasks on one virtual-memory computer.
//!
//! R. W. Carr and J. L. Hennessy, "WSCLOCK: a simple and effective algorithm for virtual memory
//! management", SOSP 1981, do not compare policies by the faults of one program. They compare the
//! work that a whole machine gets done: scheduler, memory manager, load control and paging devices
//! together. This is that machine, as a deterministic discrete-event simulation.
//!
//! ```text
//! Configuration ─▶ Workload ─▶ Machine<policy> ─▶ Outcome        one cell: a configuration, a policy, a theta, a seed
//!  (TOML)          programs     task       a program being executed, the scheduler's view of it
//!                  decoded      execute    the inner loops: hits
//!                  once         memory     page table, virtual clocks: what the policy may ask
//!                               load_control   who may be active
//!                               paging     devices and their queues
//!                               calendar   time, and the events to come
//!                               machine    what happens at an event, and who runs when
//! ```
//!
//! The policies come from [`sweephand_policy`] and see only a
//! [`TaskMmu`](sweephand_policy::TaskMmu). Start reading at [`machine`](Machine). [`configuration`]
//! holds every parameter with its default. [`analytic`] has closed forms for one task.
#![forbid(unsafe_code)]

pub mod analytic;
mod calendar;
pub mod configuration;
mod execute;
mod load_control;
mod machine;
mod memory;
mod outcome;
mod paging;
mod program;
mod sweep;
mod task;

pub use configuration::{Configuration, ConfigurationError};
pub use machine::{Job, Machine};
pub use memory::MachineMemory;
pub use outcome::{Outcome, Sample};
pub use program::{Program, ProgramError, ReferenceString};
pub use sweep::{Cell, Line, MachineError, Workload};

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
