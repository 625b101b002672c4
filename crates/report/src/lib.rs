//! What Sweephand draws: pictures, charts, and the HTML report.
//!
//! - [`plot_faults`], [`plot_pages`] and [`plot_distances`] draw single pictures, as SVG or PNG.
//! - [`plot_lines`] draws lines with published points among them, as SVG.
//! - [`HtmlReport`] is the report on one trace or more, a page that needs no other file.
//!   [`html_style`] is the style sheet that all pages of Sweephand share.
//!
//! The numbers come from `sweephand-advice`, which simulates, and `sweephand-results`.
#![forbid(unsafe_code)]

mod axis;
mod distance_chart;
mod fault_chart;
mod html;
mod ink;
mod line_chart;
mod map_chart;
mod plot;

pub use html::{HtmlReport, html_style};
pub use line_chart::{ChartLine, LineChart, plot_lines};
pub use plot::{PictureFormat, plot_distances, plot_faults, plot_pages};
