//! Fault curves by memory size, with a legend that shows the values at one size: in an HTML file
//! the size under the pointer, in a picture the size that shows most. Below them, for each policy
//! that follows others, a band: which it follows at each size, and for how much of the time.

use crate::axis::{Axis, short};
use crate::ink::{Anchor, Canvas, MUTED, Medium, RULE, Stroke, TEXT, escaped, text_width};
use sweephand_advice::{CurveStudy, Leaders};
use sweephand_results::{bytes, grouped};

/// How wide a chart is, how high without a legend below, and the letters on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) letters: f64,
}

impl Frame {
    /// For a desktop, and for files.
    pub(crate) const WIDE: Frame = Frame { width: 760.0, height: 400.0, letters: 12.0 };
    /// For a phone.
    pub(crate) const NARROW: Frame = Frame { width: 360.0, height: 310.0, letters: 12.0 };
}

/// Fault curves.
#[derive(Debug)]
pub(crate) struct FaultChart<'a> {
    pub(crate) study: &'a CurveStudy,
    pub(crate) logarithmic: bool,
    pub(crate) frame: Frame,
    pub(crate) medium: Medium,
}

const LINE_HEIGHT: f64 = 18.0;
const SWATCH: f64 = 26.0;
/// Between a legend and whatever is near it.
const AIR: f64 = 8.0;
/// The height of a band of leaders.
const BAND: f64 = 24.0;

/// A rectangle: left, top, width, height.
type Area = (f64, f64, f64, f64);

impl FaultChart<'_> {
    /// The chart as an SVG.
    pub(crate) fn svg(&self) -> String {
        let Self { study, frame, .. } = self;
        let curves = &study.curves;
        let most = curves.curves.iter().flat_map(|curve| &curve.faults).copied().max().unwrap_or(1) as f64;
        let least = curves.first_touch_faults.max(1) as f64;
        let (top, bottom) = (44.0, frame.height - 40.0);
        let y = if self.logarithmic {
            Axis::logarithmic(least, most, bottom, top)
        } else {
            Axis::linear(most, bottom, top).rounded(5)
        };
        let y_ticks: Vec<(f64, String)> =
            y.ticks(5).into_iter().map(|tick| (y.place(tick), short(tick))).collect();
        let widest = y_ticks.iter().map(|(_, text)| text_width(text, frame.letters)).fold(0.0, f64::max);
        let (left, right) = (widest + 14.0, frame.width - 14.0);
        let (unit, unit_name) = unit(curves.distinct_pages * curves.page_bytes);
        let memory = |pages: u64| (pages * curves.page_bytes) as f64 / unit;
        let x = Axis::linear(memory(curves.distinct_pages), left, right);
        let at = |size: usize| x.place(memory(curves.memory_pages[size]));

        let mut canvas = Canvas::new(self.medium);
        for (place, text) in &y_ticks {
            canvas.line((left, *place), (right, *place), RULE, "");
            canvas.text((left - 6.0, place + 4.0), frame.letters, Anchor::End, MUTED, text, "");
        }
        for tick in x.ticks((frame.width / 75.0) as usize) {
            let place = x.place(tick);
            canvas.line((place, bottom), (place, bottom + 4.0), MUTED, "");
            canvas.text((place, bottom + 17.0), frame.letters, Anchor::Middle, MUTED, &short(tick), "");
        }
        let words = format!("memory, {unit_name}");
        canvas.text((right, bottom + 34.0), frame.letters, Anchor::End, MUTED, &words, "");
        let scale = if self.logarithmic { "page faults, logarithmic" } else { "page faults" };
        canvas.text((0.0, 13.0), frame.letters, Anchor::Start, MUTED, scale, "");

        let floor = y.place(least);
        canvas.line((left, floor), (right, floor), MUTED, r#"stroke-dasharray="1 3""#);
        let enough = x.place(memory(study.conclusion.enough.memory_pages));
        canvas.line((enough, top - 6.0), (enough, bottom), MUTED, r#"stroke-dasharray="4 3""#);
        let words = format!("enough: {}", bytes(study.conclusion.enough.memory_pages * curves.page_bytes));
        let half = text_width(&words, frame.letters) / 2.0;
        let place = enough.clamp(left + half, right - half);
        canvas.text((place, top - 11.0), frame.letters, Anchor::Middle, TEXT, &words, "");

        let selected = study.telling_size();
        canvas.line(
            (at(selected), top),
            (at(selected), bottom),
            TEXT,
            r#"class="hand" stroke-opacity="0.55""#,
        );
        let lines: Vec<Vec<(f64, f64)>> = curves
            .curves
            .iter()
            .map(|curve| {
                (0..curve.faults.len()).map(|size| (at(size), y.place(curve.faults[size] as f64))).collect()
            })
            .collect();
        let looks: Vec<_> =
            (0..lines.len()).map(|line| (self.stroke(line), curves.curves[line].policy.as_str())).collect();
        canvas.curves(&lines, &looks);
        for (index, line) in lines.iter().enumerate() {
            let places: Vec<_> = line.iter().map(|(_, y)| format!("{y:.1}")).collect();
            let attributes = format!(r#"class="dot" data-line="{index}" data-y="{}""#, places.join(" "));
            canvas.dot(line[selected], 3.6, self.stroke(index), &attributes);
        }
        let plot = (left, top, right - left, bottom - top);
        let (height, free) = self.legend(&mut canvas, plot, &lines, selected);
        let letters = frame.letters - 1.0;
        canvas.text((free + 4.0, floor - 5.0), letters, Anchor::Start, MUTED, "first touches", "");
        let middles: Vec<f64> = (0..curves.memory_pages.len()).map(at).collect();
        let height = study.leaders.iter().fold(height, |top, leaders| {
            self.band(&mut canvas, leaders, (left, top + AIR, right - left), &middles)
        });
        let places: Vec<_> = middles.iter().map(|place| format!("{place:.1}")).collect();
        let name = format!("Page faults of {} against memory size", study.name);
        canvas.finish(frame.width, height, &name, &format!(r#"data-x="{}""#, places.join(" ")))
    }

    fn stroke(&self, line: usize) -> Stroke {
        let curves = &self.study.curves.curves;
        let online = curves[..line].iter().filter(|curve| !curve.offline).count();
        Stroke::of_line(online, curves[line].offline)
    }

    /// Draws whom a policy follows, under the curves: a column for each size, in it a part for each
    /// expert as high as its share of the time. Returns where it ends.
    fn band(
        &self,
        canvas: &mut Canvas,
        leaders: &Leaders,
        (left, top, width): (f64, f64, f64),
        middles: &[f64],
    ) -> f64 {
        let letters = self.frame.letters;
        let words = format!("{} follows, by share of time", short_policy(&leaders.policy));
        canvas.text((left, top + 13.0), letters, Anchor::Start, MUTED, &words, "");
        let (top, right) = (top + 20.0, left + width);
        // A size's column reaches half-way to its neighbours.
        let between = |a: f64, b: f64| (a + b) / 2.0;
        for (size, seen) in leaders.sizes.iter().enumerate() {
            let from = size.checked_sub(1).map_or(left, |before| between(middles[before], middles[size]));
            let to = middles.get(size + 1).map_or(right, |next| between(middles[size], *next));
            let mut y = top;
            for (expert, share) in seen.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let height = share * BAND;
                let colour = self.expert_stroke(leaders, expert).colour();
                canvas.rect((from, y), ((to - from - 1.0).max(0.5), height), colour, "");
                y += height;
            }
        }
        let mut place = (left, top + BAND + LINE_HEIGHT);
        for (expert, name) in leaders.experts.iter().enumerate() {
            let wide = SWATCH + text_width(name, letters);
            if place.0 > left && place.0 + wide > right {
                place = (left, place.1 + LINE_HEIGHT);
            }
            canvas.swatch((place.0, place.1 - 4.0), self.expert_stroke(leaders, expert));
            canvas.text((place.0 + SWATCH, place.1), letters, Anchor::Start, TEXT, name, "");
            place.0 += wide + 2.0 * AIR;
        }
        place.1 + AIR
    }

    /// How an expert is drawn: as the curve of the same policy, or else as no curve is.
    fn expert_stroke(&self, leaders: &Leaders, expert: usize) -> Stroke {
        let curves = &self.study.curves.curves;
        let curve_of = |name: &String| curves.iter().position(|curve| curve.policy == *name);
        if let Some(line) = curve_of(&leaders.experts[expert]) {
            return self.stroke(line);
        }
        let online = curves.iter().filter(|curve| !curve.offline).count();
        let before = leaders.experts[..expert].iter().filter(|name| curve_of(name).is_none()).count();
        Stroke::of_line(online + before, false)
    }

    /// Draws the legend where no line is, or else below the plot; returns the height of the whole,
    /// and how far it takes up the plot's foot from the left.
    fn legend(
        &self,
        canvas: &mut Canvas,
        plot: Area,
        lines: &[Vec<(f64, f64)>],
        selected: usize,
    ) -> (f64, f64) {
        let curves = &self.study.curves;
        let letters = self.frame.letters;
        let names = curves.curves.iter().map(|curve| text_width(&curve.policy, letters)).fold(0.0, f64::max);
        let largest = curves.curves.iter().flat_map(|curve| &curve.faults).max().copied().unwrap_or_default();
        let width = SWATCH + names + 16.0 + text_width(&grouped(largest), letters);
        let heading = heading(self.study, selected);
        let width = width.max(text_width(&heading, letters));
        let rows = curves.curves.len() + 1;
        let size = (width, rows as f64 * LINE_HEIGHT);
        // The highest line is named first.
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|line| std::cmp::Reverse(curves.curves[*line].faults[selected]));
        let (left, top, plot_width, plot_height) = plot;
        let row = |canvas: &mut Canvas, line: usize, (x, y): (f64, f64), width: f64| {
            let curve = &curves.curves[line];
            canvas.swatch((x, y - 4.0), self.stroke(line));
            canvas.text(
                (x + SWATCH, y),
                letters,
                Anchor::Start,
                TEXT,
                &curve.policy,
                &format!(r#"data-line="{line}""#),
            );
            let value = grouped(curve.faults[selected]);
            let attributes = format!(r#"class="value" data-line="{line}""#);
            canvas.text((x + width, y), letters, Anchor::End, TEXT, &value, &attributes);
        };
        let corner = |right: bool, below: bool| -> (f64, f64) {
            (
                if right { left + plot_width - size.0 - AIR } else { left + AIR },
                if below { top + plot_height - size.1 - 2.5 * AIR } else { top + AIR },
            )
        };
        let places = [corner(true, false), corner(false, true)];
        let free = places.into_iter().find(|(x, y)| {
            let area = (x - AIR, y - AIR, size.0 + 2.0 * AIR, size.1 + 2.0 * AIR);
            area.0 >= left && area.1 >= top - AIR && !lines.iter().any(|line| crosses(line, area))
        });
        match free {
            Some((x, y)) => {
                // Rules and the mark of what is enough do not run through the words.
                let ground = crate::ink::GROUND;
                canvas.rect((x - AIR, y - 2.0), (size.0 + 2.0 * AIR, size.1 + 6.0), ground, "");
                canvas.text((x, y + 13.0), letters, Anchor::Start, MUTED, &heading, r#"class="heading""#);
                for (index, line) in order.into_iter().enumerate() {
                    row(canvas, line, (x, y + 13.0 + LINE_HEIGHT * (index + 1) as f64), size.0);
                }
                (self.frame.height, if y > top + AIR { x + size.0 + AIR } else { left })
            }
            None => {
                let y = self.frame.height + 14.0;
                canvas.text((left, y), letters, Anchor::Start, MUTED, &heading, r#"class="heading""#);
                let columns =
                    ((plot_width + 2.0 * AIR) / (size.0 + 2.0 * AIR)).floor().clamp(1.0, 3.0) as usize;
                let rows = order.len().div_ceil(columns);
                let step = (plot_width + 2.0 * AIR) / columns as f64;
                for (index, line) in order.into_iter().enumerate() {
                    let place =
                        (left + step * (index / rows) as f64, y + LINE_HEIGHT * (index % rows + 1) as f64);
                    row(canvas, line, place, (step - 2.0 * AIR).min(1.3 * size.0));
                }
                (y + LINE_HEIGHT * rows as f64 + AIR, left)
            }
        }
    }
}

/// A policy without its arguments.
fn short_policy(policy: &str) -> &str {
    policy.split(':').next().unwrap_or(policy)
}

/// What a legend says above its values.
pub(crate) fn heading(study: &CurveStudy, size: usize) -> String {
    let pages = study.curves.memory_pages[size];
    let share = 100.0 * pages as f64 / study.curves.distinct_pages.max(1) as f64;
    let decimals = if share < 10.0 && share.fract() != 0.0 { 1 } else { 0 };
    format!("faults at {} ({share:.decimals$}%)", bytes(pages * study.curves.page_bytes))
}

/// Whether a line passes through an area.
fn crosses(line: &[(f64, f64)], (left, top, width, height): Area) -> bool {
    line.windows(2).any(|ends| {
        let [(x0, y0), (x1, y1)] = [ends[0], ends[1]];
        // What there is of this stretch above the area's width.
        let (from, to) = (x0.max(left), x1.min(left + width));
        if from > to {
            return false;
        }
        let at = |x: f64| if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 };
        let (a, b) = (at(from), at(to));
        a.min(b) <= top + height && a.max(b) >= top
    })
}

/// The largest unit of which so many bytes are one or more, and its name.
pub(crate) fn unit(most_bytes: u64) -> (f64, &'static str) {
    [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
        .into_iter()
        .find(|(_, unit)| most_bytes >= *unit)
        .map_or((1.0, "bytes"), |(name, unit)| (unit as f64, name))
}

/// The same as a table of HTML: what the chart says to those who do not see it, and to those who
/// want the numbers.
pub(crate) fn table(study: &CurveStudy) -> String {
    let curves = &study.curves;
    let head: String = curves
        .curves
        .iter()
        .map(|curve| {
            let name = short_policy(&curve.policy);
            format!(r##"<th scope="col"><a href="#policy-{name}">{}</a></th>"##, escaped(&curve.policy))
        })
        .collect();
    let row = |size: usize| {
        let pages = curves.memory_pages[size];
        let share = 100.0 * pages as f64 / curves.distinct_pages.max(1) as f64;
        let cells: String =
            curves.curves.iter().map(|curve| format!("<td>{}</td>", grouped(curve.faults[size]))).collect();
        format!(
            r#"<tr><th scope="row">{}</th><td>{}</td><td>{share:.0}%</td>{cells}</tr>"#,
            bytes(pages * curves.page_bytes),
            grouped(pages)
        )
    };
    let rows: String = (0..curves.memory_pages.len()).map(row).collect();
    format!(
        r#"<table><thead><tr><th scope="col">memory</th><th scope="col">pages</th><th scope="col">of all</th>{head}</tr></thead><tbody>{rows}</tbody></table>"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_is_in_the_way_of_lines_that_pass_through_it() {
        let falling = [(0.0, 0.0), (50.0, 90.0), (100.0, 100.0)];
        assert!(!crosses(&falling, (60.0, 0.0, 40.0, 50.0)), "above it");
        assert!(!crosses(&falling, (0.0, 60.0, 20.0, 30.0)), "below it");
        assert!(crosses(&falling, (20.0, 30.0, 20.0, 20.0)));
        assert!(crosses(&falling, (40.0, 85.0, 30.0, 10.0)), "at a bend");
        assert!(!crosses(&falling, (101.0, 0.0, 20.0, 200.0)), "beside it");
    }

    #[test]
    fn units_keep_numbers_small() {
        assert_eq!(unit(3 << 30), ((1u64 << 30) as f64, "GiB"));
        assert_eq!(unit(65 << 20).1, "MiB");
        assert_eq!(unit(20_480).1, "KiB");
        assert_eq!(unit(100).1, "bytes");
    }
}
