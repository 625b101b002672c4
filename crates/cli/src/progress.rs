//! The progress bar of long work. It appears on a terminal only, and only if the work takes long.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` steps of `unit`, on standard error.
pub(crate) fn bar(total: u64, unit: &str) -> ProgressBar {
    let template = format!("{{msg}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a fixed template");
    // indicatif hides it where standard error is no terminal.
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5)).with_style(style)
}

/// A line that says how far work of unknown length has come, on standard error.
pub(crate) fn line() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}, {elapsed}").expect("a fixed template");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5)).with_style(style)
}

/// A bar over `total` steps that mean nothing to the reader, on standard error.
pub(crate) fn share(total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg} {wide_bar} {percent}%, {eta} left").expect("a fixed template");
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5)).with_style(style)
}
