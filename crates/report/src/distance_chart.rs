//! The chart of LRU stack distances: one bar for each power of two.

use crate::axis::{Axis, short};
use crate::fault_chart::Frame;
use crate::ink::{Anchor, Canvas, MUTED, Medium, READ, RULE, escaped, text_width};
use sweephand_advice::Distances;
use sweephand_results::{bytes, grouped};

/// A histogram of stack distances.
#[derive(Debug)]
pub(crate) struct DistanceChart<'a> {
    pub(crate) name: &'a str,
    pub(crate) distances: &'a Distances,
    pub(crate) page_bytes: u64,
    pub(crate) logarithmic: bool,
    pub(crate) frame: Frame,
    pub(crate) medium: Medium,
}

/// How much memory LRU needs to hit the references of a bar.
fn span(power: usize, page_bytes: u64) -> String {
    let size = |pages: u64| bytes(pages * page_bytes);
    format!("{} to {}", size(1 << power), size(2 << power))
}

impl DistanceChart<'_> {
    /// The chart as an SVG.
    pub(crate) fn svg(&self) -> String {
        let Self { distances, frame, .. } = self;
        let bars = &distances.by_power_of_two;
        let most = bars.iter().copied().chain([distances.first_touches]).max().unwrap_or(1) as f64;
        let (top, bottom) = (30.0, frame.height - 90.0);
        let y = if self.logarithmic {
            let least = bars.iter().copied().filter(|count| *count > 0).min().unwrap_or(1);
            Axis::logarithmic((least.min(distances.first_touches.max(1)) as f64) / 2.0, most, bottom, top)
        } else {
            Axis::linear(most, bottom, top).rounded(4)
        };
        let ticks: Vec<(f64, String)> =
            y.ticks(4).into_iter().map(|tick| (y.place(tick), short(tick))).collect();
        let widest = ticks.iter().map(|(_, text)| text_width(text, frame.letters)).fold(0.0, f64::max);
        let (left, right) = (widest + 14.0, frame.width - 14.0);
        let mut canvas = Canvas::new(self.medium);
        for (place, text) in &ticks {
            canvas.line((left, *place), (right, *place), RULE, "");
            canvas.text((left - 6.0, place + 4.0), frame.letters, Anchor::End, MUTED, text, "");
        }
        let scale = if self.logarithmic { "references, logarithmic" } else { "references" };
        canvas.text((0.0, 13.0), frame.letters, Anchor::Start, MUTED, scale, "");
        // Two more: one left free, one for first touches.
        let step = (right - left) / (bars.len() + 2) as f64;
        let mut bar = |place: usize, count: u64, colour, what: &str| {
            if count > 0 {
                let (x, y) = (left + step * place as f64 + 1.0, y.place(count as f64).min(bottom - 1.0));
                let title = format!("{}: {} references", what, grouped(count));
                canvas.rect((x, y), ((step - 2.0).max(1.0), bottom - y), colour, &title);
            }
        };
        for (power, &count) in bars.iter().enumerate() {
            bar(power, count, READ, &span(power, self.page_bytes));
        }
        bar(bars.len() + 1, distances.first_touches, MUTED, "first touches");
        canvas.line((left, bottom), (right, bottom), MUTED, "");
        // As many labels as there is room for, with a free one before that of the first touches.
        let label = |power: usize| bytes((1 << power) * self.page_bytes);
        let width = |text: &str| text_width(text, frame.letters) + 12.0;
        let widest = (0..=bars.len()).map(|power| width(&label(power))).fold(1.0, f64::max);
        for power in (0..=bars.len()).step_by((widest / step).ceil() as usize) {
            let place = left + step * power as f64;
            canvas.line((place, bottom), (place, bottom + 4.0), MUTED, "");
            if place + widest / 2.0 < right - width("first touches") {
                canvas.text((place, bottom + 17.0), frame.letters, Anchor::Middle, MUTED, &label(power), "");
            }
        }
        canvas.text((right, bottom + 17.0), frame.letters, Anchor::End, MUTED, "first touches", "");
        let words = "memory that LRU needs to hit them";
        canvas.text((left, bottom + 34.0), frame.letters, Anchor::Start, MUTED, words, "");
        let height = bottom + 44.0;
        canvas.finish(frame.width, height, &format!("Reuse distances of {}", self.name), "")
    }
}

/// The same as a table of HTML.
pub(crate) fn table(distances: &Distances, page_bytes: u64) -> String {
    let row = |what: &str, count: u64| {
        format!(r#"<tr><th scope="row">{}</th><td>{}</td></tr>"#, escaped(what), grouped(count))
    };
    let bars: String = distances
        .by_power_of_two
        .iter()
        .enumerate()
        .map(|(power, count)| row(&span(power, page_bytes), *count))
        .collect();
    format!(
        r#"<table><thead><tr><th scope="col">memory that LRU needs</th><th scope="col">references</th></tr></thead><tbody>{bars}{}</tbody></table>"#,
        row("first touches", distances.first_touches)
    )
}
