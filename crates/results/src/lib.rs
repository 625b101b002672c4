//! Results apart from pages: rows with named columns, as tables for people and as CSV, JSON and
//! Parquet for programs.
//!
//! - [`SimulationReport`] holds the rows of `sweephand simulate`, [`ObjectsReport`] those of
//!   `sweephand simulate --whole-objects`, [`TiersReport`] those of `sweephand simulate --tiers`,
//!   [`PartitionReport`] those of `sweephand partition`, [`MultiprogramReport`] those of
//!   `sweephand multiprogram`, [`SweepRow`] those of `sweephand sweep`, and [`LiveReport`] the runs
//!   of `sweephand compare`.
//! - [`TraceReport`] is what `sweephand info` says of a trace, [`PolicyListing`] what
//!   `sweephand policies` says of a policy.
//! - A [`Column`] is a name and a [`Field`] of a row. CSV, Parquet and Python take the same list.
//! - [`Table`] is a table of words and numbers. It can be drawn for a terminal or written as
//!   Markdown. [`bytes`] and [`grouped`] write its numbers.
//!
//! ```
//! use sweephand_results::{Table, bytes, grouped};
//!
//! let mut table = Table::new(["policy", &bytes(64 << 20)]);
//! table.row(["clock".to_string(), grouped(12_345)]);
//! assert_eq!(table.to_string(), " policy  64.0 MiB\n clock     12,345\n");
//! ```
#![forbid(unsafe_code)]

mod columns;
mod compressibility;
mod format;
mod live;
mod machine_readable;
mod multiprogram;
mod objects;
#[cfg(feature = "parquet")]
mod parquet;
mod partition;
mod policies;
mod simulation;
#[cfg(feature = "parquet")]
mod sweep;
mod table;
mod tiers;
mod trace;
mod units;

pub use columns::{Column, Field};
pub use compressibility::{TimedPages, TracePages};
pub use format::{Format, TextFormat};
pub use live::{LiveReport, LiveRun, median};
pub use machine_readable::{SCHEMA_VERSION, header, json};
pub use multiprogram::{MultiprogramReport, MultiprogramRow};
pub use objects::{ObjectsMeasure, ObjectsReport, ObjectsRow, ObjectsTrace};
pub use partition::{PartitionReport, PartitionRow};
pub use policies::PolicyListing;
pub use simulation::{
    Measure, SimulatedSample, SimulatedTrace, SimulatedWarmup, SimulationReport, SimulationRow,
};
#[cfg(feature = "parquet")]
pub use sweep::{CellColumns, SweepRow};
pub use table::Table;
pub use tiers::{TiersReport, TiersRow};
pub use trace::TraceReport;
pub use units::{bytes, grouped, seconds};
