//! What the commands print: tables for people, CSV and JSON for programs.
//!
//! [`SimulationReport`] holds the rows of `sweephand simulate`; [`Table`] is a table of words and numbers that can be
//! drawn for a terminal or written as Markdown.
#![forbid(unsafe_code)]

mod simulation;
mod table;

pub use simulation::{Format, Measure, SimulatedTrace, SimulationReport, SimulationRow, bytes};
pub use table::{Table, grouped};
