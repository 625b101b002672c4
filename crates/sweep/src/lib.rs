//! Sweeps: traces x policies x memory sizes, one cell each, computed on any processor.
//!
//! ```text
//! Plan (TOML) --> Cells --> missing? --> executor: local processes, or another (python/) --> SweepRow --> Dataset
//!                              ^             each calls Runner::run, cell by cell                            |
//!                              \-------------------------- what is there already <-------------------------/
//! ```
//!
//! A [`Cell`] says in one line of JSON everything that its result depends on. So any process on any
//! machine that can get the trace can compute it: [`Runner::run`] turns a cell into a row.
//! [`Dataset`] keeps rows safe as they come in and knows which cells are missing, so a sweep that
//! was killed continues where it was. [`local::run`] is the executor with processes of this
//! machine; these run [`worker::serve`]. Other executors (Dask, Ray) call the same code from
//! Python.
#![forbid(unsafe_code)]

mod cell;
mod dataset;
mod error;
mod hash;
pub mod local;
mod plan;
mod runner;
pub mod worker;

pub use cell::{Cell, CellKey, Sample, TraceFile, VERSION, revision};
pub use dataset::{Dataset, Failure};
pub use error::Error;
pub use hash::{Algorithm, Hash, Hasher};
pub use plan::{Cells, NamedTrace, Plan, is_url};
pub use runner::Runner;
