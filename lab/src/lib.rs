//! The experiments of the papers behind Sweephand: published numbers beside measured ones.
//!
//! Each paper has a folder in `papers/` with its published numbers (CSV), its experiments (Rust)
//! and their latest results (Markdown). `sweephand-lab reproduce` runs [`all_items`]. It runs an
//! item of [`measured_items`] only if it is named.
#![forbid(unsafe_code)]

#[path = "../papers/apr-2020/experiments.rs"]
mod apr_2020;
#[path = "../papers/apr-2020/access_window.rs"]
mod apr_2020_access_window;
#[path = "../papers/clock-pro-2005/experiments.rs"]
mod clock_pro_2005;
#[path = "../papers/clock-pro-2005/page_faults/bursts.rs"]
mod clock_pro_2005_bursts;
#[path = "../papers/clock-pro-2005/page_faults/figure_4.rs"]
mod clock_pro_2005_figure_4;
#[path = "../papers/clock-pro-2005/live.rs"]
mod clock_pro_2005_live;
#[path = "../papers/clock-pro-2005/others.rs"]
mod clock_pro_2005_others;
#[path = "../papers/clock-pro-2005/page_faults/programs.rs"]
mod clock_pro_2005_programs;
#[path = "../papers/clock-pro-2005/readings.rs"]
mod clock_pro_2005_readings;
#[path = "../papers/clock-pro-2005/page_faults/streams.rs"]
mod clock_pro_2005_streams;
#[path = "../papers/clock-pro-2005/page_faults/table_6.rs"]
mod clock_pro_2005_table_6;
#[path = "../papers/compressed-caching-1999/experiments.rs"]
mod compressed_caching_1999;
mod html;
mod item;
mod kept;
mod kept_runs;
mod lab;
#[path = "../papers/linux-mm-advanced-page-replacement/experiments.rs"]
mod linux_mm;
#[path = "../papers/linux-mm-advanced-page-replacement/live.rs"]
mod linux_mm_live;
mod live;
mod papers;
mod published;
mod report;
mod reproduction;
mod verdict;
mod workload;
#[path = "../papers/wsclock-1981/experiments.rs"]
mod wsclock_1981;
#[path = "../papers/wsclock-1981/causes.rs"]
mod wsclock_1981_causes;
#[path = "../papers/wsclock-1981/conventions.rs"]
mod wsclock_1981_conventions;
#[path = "../papers/wsclock-1981/runs.rs"]
mod wsclock_1981_runs;
#[path = "../papers/wsclock-1981/speed.rs"]
mod wsclock_1981_speed;

pub use html::html_page;
pub use item::Item;
pub use lab::{Error, Input, Lab, checksum};
pub use papers::{all_items, every_item, items, measured_items, paper};
pub use published::Published;
pub use report::{
    Compared, Figure, NEAR_POINTS, NEAR_RATIO, Nearness, OFF_POINTS, OFF_RATIO, Place, Report, Scale,
};
pub use reproduction::{Machine, Origin, Program, Reproduction, State};
pub use verdict::{
    Bar, Check, Claim, Grade, Judging, Limit, Listed, Measurement, claims_page, listed_claims, verdicts_in,
};
