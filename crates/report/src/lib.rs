//! What the commands print: tables for people, CSV, JSON and Parquet for programs, pictures, and
//! the HTML report.
//!
//! - [`SimulationReport`] holds the rows of `sweephand simulate`, [`MultiprogramReport`] those of
//!   `sweephand multiprogram`, [`SweepRow`] those of `sweephand sweep`, and [`LiveReport`] the runs
//!   of `sweephand compare`.
//! - [`Table`] is a table of words and numbers. It can be drawn for a terminal or written as
//!   Markdown.
//! - [`Study`] holds everything that a report on one trace shows. [`HtmlReport`] is the report.
//! - [`Conclusion`] states in words what the fault curves show.
#![forbid(unsafe_code)]

mod axis;
mod columns;
mod conclusion;
mod distance_chart;
mod fault_chart;
mod html;
mod ink;
mod live;
mod machine_readable;
mod map_chart;
mod multiprogram;
#[cfg(feature = "parquet")]
mod parquet;
mod plot;
mod simulation;
mod study;
#[cfg(feature = "parquet")]
mod sweep;
mod table;

pub use columns::{Column, Field};
pub use conclusion::{Comparison, Conclusion, Curve, Curves, Enough, NEARLY_ALL, SLACK, Sentences, WORTH_IT};
pub use html::{HtmlReport, html_style};
pub use live::{LiveFormat, LiveReport, LiveRun};
pub use machine_readable::{SCHEMA_VERSION, header, json};
pub use multiprogram::{MultiprogramFormat, MultiprogramReport, MultiprogramRow};
pub use plot::{PictureFormat, plot_distances, plot_faults, plot_pages};
pub use simulation::{
    Format, Measure, SimulatedSample, SimulatedTrace, SimulationReport, SimulationRow, bytes,
};
pub use study::{CurveStudy, Distances, ObjectStudy, StudiedObject, Study, launcher, short_name};
#[cfg(feature = "parquet")]
pub use sweep::{CellColumns, SweepRow};
pub use table::{Table, grouped};
