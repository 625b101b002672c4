//! Sweeps: traces x policies x memory sizes, a cell each, computed wherever there is a processor.
//!
//! ```text
//! Plan (TOML) --> Cells --> missing? --> executor: local processes, or another (python/) --> SweepRow --> Dataset
//!                              ^             each calls Runner::run, cell by cell                            |
//!                              \-------------------------- what is there already <-------------------------/
//! ```
//!
//! A [`Cell`] says everything that its result depends on, in a line of JSON, so it can be computed
//! by any process on any machine that can get the trace: [`Runner::run`] makes a row of it.
//! [`Dataset`] keeps rows safe as they come in and knows which cells are missing, so a sweep that
//! was killed goes on where it was. [`local::run`] is the executor with processes of this machine,
//! [`worker::serve`] what these do. Executors of others (Dask, Ray) call the same from Python.
#![forbid(unsafe_code)]

mod cell;
mod dataset;
mod error;
mod hash;
pub mod local;
mod plan;
mod runner;
pub mod worker;

pub use cell::{Cell, CellKey, Sample, VERSION};
pub use dataset::{Dataset, Failure};
pub use error::Error;
pub use hash::{Algorithm, Hash, Hasher};
pub use plan::{Cells, NamedTrace, Plan, TraceFile, is_url};
pub use runner::Runner;
