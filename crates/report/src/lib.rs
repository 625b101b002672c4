//! What the commands print: tables for people, CSV, JSON and Parquet for programs, pictures and a
//! page for both.
//!
//! [`SimulationReport`] holds the rows of `sweephand simulate`, [`MultiprogramReport`] those of
//! `sweephand multiprogram`, [`SweepRow`] those of `sweephand sweep`, [`LiveReport`] the runs of
//! `sweephand compare`; [`Table`] is a table of words and numbers that can be drawn for a terminal
//! or written as Markdown. [`Study`] is all that a report on a trace shows and [`Page`] the report;
//! [`Conclusion`] is what fault curves come to, in words.
#![forbid(unsafe_code)]

mod axis;
mod columns;
mod conclusion;
mod distance_chart;
mod fault_chart;
mod ink;
mod live;
mod machine_readable;
mod map_chart;
mod multiprogram;
mod page;
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
pub use live::{LiveFormat, LiveReport, LiveRun};
pub use machine_readable::{header, json};
pub use multiprogram::{MultiprogramFormat, MultiprogramReport, MultiprogramRow};
pub use page::{Page, page_style};
pub use plot::{PictureFormat, plot_distances, plot_faults, plot_pages};
pub use simulation::{
    Format, Measure, SimulatedSample, SimulatedTrace, SimulationReport, SimulationRow, bytes,
};
pub use study::{CurveStudy, Distances, ObjectStudy, StudiedObject, Study, short_name};
#[cfg(feature = "parquet")]
pub use sweep::{CellColumns, SweepRow};
pub use table::{Table, grouped};
