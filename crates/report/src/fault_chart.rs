//! Fault curves by memory size, with a legend that shows the values at one size: in an HTML file
//! the size under the pointer, in a picture the size that shows most. Below them, for each policy
//! that follows others, a band: which it follows at each size, and for how much of the time.

use crate::axis::{Axis, short};
use crate::ink::{Anchor, Canvas, MUTED, Medium, RULE, Stroke, TEXT, escaped, text_width};
use sweephand_advice::{CurveStudy, Curves, Leaders};
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
        let scales = self.scales();
        let mut canvas = Canvas::new(self.medium);
        self.draw_axes(&mut canvas, &scales);
        self.draw_bounds(&mut canvas, &scales);
        let selected = study.telling_size();
        let lines = self.draw_curves(&mut canvas, &scales, selected);
        let (height, free) = self.legend(&mut canvas, scales.plot(), &lines, selected);
        let letters = frame.letters - 1.0;
        let place = (free + 4.0, scales.floor() - 5.0);
        canvas.text(place, letters, Anchor::Start, MUTED, "first touches", "");
        let middles = scales.middles();
        let height = study.leaders.iter().fold(height, |top, leaders| {
            self.band(&mut canvas, leaders, (scales.left, top + AIR, scales.right - scales.left), &middles)
        });
        let places: Vec<_> = middles.iter().map(|place| format!("{place:.1}")).collect();
        let name = format!("Page faults of {} against memory size", study.name);
        canvas.finish(frame.width, height, &name, &format!(r#"data-x="{}""#, places.join(" ")))
    }

    /// Where the plot lies in the frame, and what lies where in it. The labels of the y axis decide
    /// how far left it begins.
    fn scales(&self) -> Scales<'_> {
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
        let x = Axis::linear((curves.distinct_pages * curves.page_bytes) as f64 / unit, left, right);
        Scales { curves, left, right, top, bottom, x, unit, unit_name, y, y_ticks }
    }

    /// Draws both axes with their words, and a rule at each number of faults.
    fn draw_axes(&self, canvas: &mut Canvas, scales: &Scales<'_>) {
        let letters = self.frame.letters;
        let &Scales { left, right, bottom, .. } = scales;
        for (place, text) in &scales.y_ticks {
            canvas.line((left, *place), (right, *place), RULE, "");
            canvas.text((left - 6.0, place + 4.0), letters, Anchor::End, MUTED, text, "");
        }
        for tick in scales.x.ticks((self.frame.width / 75.0) as usize) {
            let place = scales.x.place(tick);
            canvas.line((place, bottom), (place, bottom + 4.0), MUTED, "");
            canvas.text((place, bottom + 17.0), letters, Anchor::Middle, MUTED, &short(tick), "");
        }
        let words = format!("memory, {}", scales.unit_name);
        canvas.text((right, bottom + 34.0), letters, Anchor::End, MUTED, &words, "");
        let scale = if self.logarithmic { "page faults, logarithmic" } else { "page faults" };
        canvas.text((0.0, 13.0), letters, Anchor::Start, MUTED, scale, "");
    }

    /// Draws the fewest faults that any memory allows, and the memory that is enough.
    fn draw_bounds(&self, canvas: &mut Canvas, scales: &Scales<'_>) {
        let letters = self.frame.letters;
        let &Scales { left, right, top, bottom, .. } = scales;
        let floor = scales.floor();
        canvas.line((left, floor), (right, floor), MUTED, r#"stroke-dasharray="1 3""#);
        let enough_pages = self.study.conclusion.enough.memory_pages;
        let enough = scales.memory(enough_pages);
        canvas.line((enough, top - 6.0), (enough, bottom), MUTED, r#"stroke-dasharray="4 3""#);
        let words = format!("enough: {}", bytes(enough_pages * scales.curves.page_bytes));
        let half = text_width(&words, letters) / 2.0;
        let place = enough.clamp(left + half, right - half);
        canvas.text((place, top - 11.0), letters, Anchor::Middle, TEXT, &words, "");
    }

    /// Draws the curves, with a dot on each at the selected size. Returns where they run.
    fn draw_curves(&self, canvas: &mut Canvas, scales: &Scales<'_>, selected: usize) -> Vec<Vec<(f64, f64)>> {
        let curves = &scales.curves.curves;
        let hand = scales.size(selected);
        let attributes = r#"class="hand" stroke-opacity="0.55""#;
        canvas.line((hand, scales.top), (hand, scales.bottom), TEXT, attributes);
        let lines: Vec<Vec<(f64, f64)>> = curves
            .iter()
            .map(|curve| {
                let points = curve.faults.iter().enumerate();
                points.map(|(size, faults)| (scales.size(size), scales.y.place(*faults as f64))).collect()
            })
            .collect();
        let looks: Vec<_> =
            (0..lines.len()).map(|line| (self.stroke(line), curves[line].policy.as_str())).collect();
        canvas.curves(&lines, &looks);
        for (index, line) in lines.iter().enumerate() {
            let places: Vec<_> = line.iter().map(|(_, y)| format!("{y:.1}")).collect();
            let attributes = format!(r#"class="dot" data-line="{index}" data-y="{}""#, places.join(" "));
            canvas.dot(line[selected], 3.6, self.stroke(index), &attributes);
        }
        lines
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
        let legend = Legend::of(self, selected);
        let (left, top, plot_width, plot_height) = plot;
        let (width, height) = legend.size;
        let corner = |right: bool, below: bool| -> (f64, f64) {
            (
                if right { left + plot_width - width - AIR } else { left + AIR },
                if below { top + plot_height - height - 2.5 * AIR } else { top + AIR },
            )
        };
        let places = [corner(true, false), corner(false, true)];
        let free = places.into_iter().find(|(x, y)| {
            let area = (x - AIR, y - AIR, width + 2.0 * AIR, height + 2.0 * AIR);
            area.0 >= left && area.1 >= top - AIR && !lines.iter().any(|line| crosses(line, area))
        });
        match free {
            Some((x, y)) => {
                legend.draw_at(canvas, (x, y));
                (self.frame.height, if y > top + AIR { x + width + AIR } else { left })
            }
            None => {
                let below = (left, self.frame.height + 14.0);
                (legend.draw_in_columns(canvas, below, plot_width), left)
            }
        }
    }
}

/// The plot of a chart: its edges, and what lies where in it.
struct Scales<'a> {
    curves: &'a Curves,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Memory, in units of `unit` bytes.
    x: Axis,
    unit: f64,
    unit_name: &'static str,
    /// Faults.
    y: Axis,
    /// Where the y axis has which numbers.
    y_ticks: Vec<(f64, String)>,
}

impl Scales<'_> {
    fn plot(&self) -> Area {
        (self.left, self.top, self.right - self.left, self.bottom - self.top)
    }

    /// The place of this many pages of memory on the x axis.
    fn memory(&self, pages: u64) -> f64 {
        self.x.place((pages * self.curves.page_bytes) as f64 / self.unit)
    }

    /// The place of a size of the curves on the x axis.
    fn size(&self, size: usize) -> f64 {
        self.memory(self.curves.memory_pages[size])
    }

    /// The places of all sizes.
    fn middles(&self) -> Vec<f64> {
        (0..self.curves.memory_pages.len()).map(|size| self.size(size)).collect()
    }

    /// The place of the fewest faults that any memory allows on the y axis.
    fn floor(&self) -> f64 {
        self.y.place(self.curves.first_touch_faults.max(1) as f64)
    }
}

/// What the curves are called, with their faults at a size.
struct Legend<'a> {
    chart: &'a FaultChart<'a>,
    selected: usize,
    heading: String,
    /// Its rows: the highest line is named first.
    order: Vec<usize>,
    /// Width and height, in one column with its heading.
    size: (f64, f64),
}

impl<'a> Legend<'a> {
    fn of(chart: &'a FaultChart<'a>, selected: usize) -> Self {
        let curves = &chart.study.curves.curves;
        let letters = chart.frame.letters;
        let names = curves.iter().map(|curve| text_width(&curve.policy, letters)).fold(0.0, f64::max);
        let largest = curves.iter().flat_map(|curve| &curve.faults).max().copied().unwrap_or_default();
        let width = SWATCH + names + 16.0 + text_width(&grouped(largest), letters);
        let heading = heading(chart.study, selected);
        let width = width.max(text_width(&heading, letters));
        let mut order: Vec<usize> = (0..curves.len()).collect();
        order.sort_by_key(|line| std::cmp::Reverse(curves[*line].faults[selected]));
        let size = (width, (curves.len() + 1) as f64 * LINE_HEIGHT);
        Self { chart, selected, heading, order, size }
    }

    /// Draws it into the plot, in one column.
    fn draw_at(&self, canvas: &mut Canvas, (x, y): (f64, f64)) {
        let (width, height) = self.size;
        // Rules and the mark of what is enough do not run through the words.
        let ground = crate::ink::GROUND;
        canvas.rect((x - AIR, y - 2.0), (width + 2.0 * AIR, height + 6.0), ground, "");
        self.draw_heading(canvas, (x, y + 13.0));
        for (index, line) in self.order.iter().enumerate() {
            self.draw_row(canvas, *line, (x, y + 13.0 + LINE_HEIGHT * (index + 1) as f64), width);
        }
    }

    /// Draws it below the plot, in as many columns as fit. Returns where it ends.
    fn draw_in_columns(&self, canvas: &mut Canvas, (left, y): (f64, f64), plot_width: f64) -> f64 {
        self.draw_heading(canvas, (left, y));
        let width = self.size.0;
        let columns = ((plot_width + 2.0 * AIR) / (width + 2.0 * AIR)).floor().clamp(1.0, 3.0) as usize;
        let rows = self.order.len().div_ceil(columns);
        let step = (plot_width + 2.0 * AIR) / columns as f64;
        for (index, line) in self.order.iter().enumerate() {
            let place = (left + step * (index / rows) as f64, y + LINE_HEIGHT * (index % rows + 1) as f64);
            self.draw_row(canvas, *line, place, (step - 2.0 * AIR).min(1.3 * width));
        }
        y + LINE_HEIGHT * rows as f64 + AIR
    }

    fn draw_heading(&self, canvas: &mut Canvas, place: (f64, f64)) {
        let letters = self.chart.frame.letters;
        canvas.text(place, letters, Anchor::Start, MUTED, &self.heading, r#"class="heading""#);
    }

    fn draw_row(&self, canvas: &mut Canvas, line: usize, (x, y): (f64, f64), width: f64) {
        let letters = self.chart.frame.letters;
        let curve = &self.chart.study.curves.curves[line];
        canvas.swatch((x, y - 4.0), self.chart.stroke(line));
        let attributes = format!(r#"data-line="{line}""#);
        canvas.text((x + SWATCH, y), letters, Anchor::Start, TEXT, &curve.policy, &attributes);
        let value = grouped(curve.faults[self.selected]);
        let attributes = format!(r#"class="value" data-line="{line}""#);
        canvas.text((x + width, y), letters, Anchor::End, TEXT, &value, &attributes);
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

/// The largest unit that is not larger than `most_bytes`, in bytes, and its name.
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
