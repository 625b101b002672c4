//! Lines of numbers against a number, with published points among them.

use crate::axis::{Axis, short};
use crate::fault_chart::Frame;
use crate::ink::{Anchor, Canvas, MUTED, Medium, RULE, Stroke, TEXT, text_width};

/// A line of a [`LineChart`].
#[derive(Clone, Debug)]
pub struct ChartLine {
    /// What it is called.
    pub name: String,
    /// Its points, x ascending.
    pub points: Vec<(f64, f64)>,
    /// Numbers that a paper publishes for the line.
    pub published: Vec<(f64, f64)>,
}

/// Lines of numbers against a number.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// What screen readers call it.
    pub name: String,
    /// What lies along the x axis.
    pub x: String,
    /// What lies along the y axis.
    pub y: String,
    /// Whether the x axis is logarithmic.
    pub logarithmic: bool,
    /// The lines.
    pub lines: Vec<ChartLine>,
}

/// Draws lines as an SVG. Published points are rings in the colour of their line.
pub fn plot_lines(chart: &LineChart) -> String {
    lines(chart, Frame::WIDE, Medium::File)
}

/// A line with more points than this has no dots on them.
const MOST_DOTS: usize = 40;

/// The same in a frame, for a medium.
pub(crate) fn lines(chart: &LineChart, frame: Frame, medium: Medium) -> String {
    let Frame { width, height, letters } = frame;
    let (top, bottom) = (44.0, height - 40.0);
    let every = || chart.lines.iter().flat_map(|line| line.points.iter().chain(&line.published));
    let least_x = every().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let most_x = every().map(|(x, _)| *x).fold(0.0, f64::max);
    // In a page small numbers fill the height, too.
    let least_top = if medium == Medium::Html { 0.0 } else { 1.0 };
    let most_y = every().map(|(_, y)| *y).fold(least_top, f64::max);
    let y = Axis::linear(most_y, bottom, top).rounded(5);
    let y_ticks: Vec<(f64, String)> =
        y.ticks(5).into_iter().map(|tick| (y.place(tick), short(tick))).collect();
    let widest = y_ticks.iter().map(|(_, text)| text_width(text, letters)).fold(0.0, f64::max);
    let (left, right) = (widest + 14.0, width - 14.0);
    let x = if chart.logarithmic {
        Axis::logarithmic(least_x, most_x, left, right)
    } else {
        Axis::linear(most_x, left, right).rounded(8)
    };

    let mut canvas = Canvas::new(medium);
    for (place, text) in &y_ticks {
        canvas.line((left, *place), (right, *place), RULE, "");
        canvas.text((left - 6.0, place + 4.0), letters, Anchor::End, MUTED, text, "");
    }
    for tick in x.ticks(8) {
        let place = x.place(tick);
        canvas.line((place, bottom), (place, bottom + 4.0), MUTED, "");
        let text = short(tick);
        // A file has a margin, a page has none. Letters there may be a little wider.
        let most = if medium == Medium::Html { width - 0.6 * text_width(&text, letters) } else { width };
        canvas.text((place.min(most), bottom + 17.0), letters, Anchor::Middle, MUTED, &text, "");
    }
    canvas.text((right, bottom + 34.0), letters, Anchor::End, MUTED, &chart.x, "");
    canvas.text((0.0, 13.0), letters, Anchor::Start, MUTED, &chart.y, "");
    draw_lines(&mut canvas, chart, |(at, value)| (x.place(*at), y.place(*value)));
    let foot = draw_legend(&mut canvas, chart, (left, height + 14.0), letters);
    canvas.finish(width, foot, &chart.name, "")
}

/// Draws the lines with their dots, and a ring at each published point. `place` says where a point
/// lies.
fn draw_lines(canvas: &mut Canvas, chart: &LineChart, place: impl Fn(&(f64, f64)) -> (f64, f64)) {
    let placed: Vec<Vec<_>> =
        chart.lines.iter().map(|line| line.points.iter().map(&place).collect()).collect();
    let names = chart.lines.iter().enumerate();
    let looks: Vec<_> =
        names.map(|(index, line)| (Stroke::of_line(index, false), line.name.as_str())).collect();
    canvas.curves(&placed, &looks);
    for (index, line) in chart.lines.iter().enumerate() {
        let stroke = Stroke::of_line(index, false);
        let dots = if line.points.len() <= MOST_DOTS { &line.points[..] } else { &[] };
        dots.iter().for_each(|point| canvas.dot(place(point), 2.6, stroke, ""));
        line.published.iter().for_each(|point| canvas.ring(place(point), 6.5, stroke));
    }
}

/// Draws the legend below the axis, in a row for each line. Returns where it ends.
fn draw_legend(canvas: &mut Canvas, chart: &LineChart, (left, top): (f64, f64), letters: f64) -> f64 {
    let mut foot = top;
    for (index, line) in chart.lines.iter().enumerate() {
        canvas.swatch((left, foot - 4.0), Stroke::of_line(index, false));
        canvas.text((left + 26.0, foot), letters, Anchor::Start, TEXT, &line.name, "");
        foot += 18.0;
    }
    if chart.lines.iter().any(|line| !line.published.is_empty()) {
        let words = "ring: published for the line of its colour";
        canvas.text((left, foot), letters, Anchor::Start, MUTED, words, "");
        foot += 18.0;
    }
    foot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_points_are_rings_on_the_scale_of_the_lines() {
        let line = |name: &str, points: &[(f64, f64)], published: &[(f64, f64)]| ChartLine {
            name: name.into(),
            points: points.to_vec(),
            published: published.to_vec(),
        };
        let lines = vec![
            line("ours", &[(10.0, 20.0), (100.0, 80.0)], &[(100.0, 80.0)]),
            line("<other>", &[(10.0, 5.0), (100.0, 10.0)], &[]),
        ];
        let chart = LineChart { name: "n".into(), x: "x".into(), y: "y".into(), logarithmic: true, lines };
        let svg = plot_lines(&chart);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("fill:none").count()), (2, 1));
        assert!(svg.contains("&lt;other>") || svg.contains("&lt;other&gt;"), "{svg}");
        // The ring lies where the line's second point lies.
        let ring = svg.split("<circle ").find(|part| part.contains("fill:none")).unwrap();
        let place = ring.split(" r=").next().unwrap();
        assert_eq!(svg.matches(&format!("<circle {place} ")).count(), 2, "{place}");
    }
}
