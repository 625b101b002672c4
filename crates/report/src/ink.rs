//! Colours, letters and strokes of all charts.
//!
//! A chart in an HTML file takes its colours from the style sheet, which knows light and dark. A
//! chart in a file of its own has its colours written out, on white.

use std::fmt::{Display, Write as _};
use std::sync::LazyLock;
use ttf_parser::{Face, OutlineBuilder};

/// What a colour is for. The first is the name of its variable in the style sheet, then its value
/// on light and on dark.
pub(crate) type Colour = (&'static str, &'static str, &'static str);

pub(crate) const GROUND: Colour = ("ground", "#ffffff", "#15181d");
pub(crate) const TEXT: Colour = ("text", "#1e2228", "#e8eaed");
pub(crate) const MUTED: Colour = ("muted", "#596069", "#a3abb5");
pub(crate) const RULE: Colour = ("rule", "#dfe2e6", "#31363d");
/// Pages only read, and pages written: one value for both grounds, as they are stored in pictures.
pub(crate) const READ: Colour = ("read", "#3d84c6", "#3d84c6");
pub(crate) const WRITTEN: Colour = ("written", "#d9622b", "#d9622b");
/// One a policy. Told apart by readers who see no red, no green or no blue, and on either ground.
pub(crate) const LINES: [Colour; 7] = [
    ("line-1", "#185fec", "#9bb4d9"),
    ("line-2", "#e06324", "#cb804d"),
    ("line-3", "#1f9f6c", "#38c29d"),
    ("line-4", "#7317a1", "#bd55f1"),
    ("line-5", "#534918", "#ceb32c"),
    ("line-6", "#ce55a9", "#c92c5c"),
    ("line-7", "#155165", "#2e739e"),
];
/// Strokes, for when there are more policies than colours.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// Every colour. The style sheet of the HTML files has a variable for each.
pub(crate) fn colours() -> impl Iterator<Item = Colour> {
    [GROUND, TEXT, MUTED, RULE, READ, WRITTEN].into_iter().chain(LINES)
}

/// Where a chart is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Medium {
    /// In an HTML file: colours are variables of the style sheet.
    Html,
    /// In an SVG file: colours are written out.
    File,
    /// In a picture made of pixels: colours are written out, and letters are outlines.
    Pixels,
}

/// The looks of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stroke {
    colour: Colour,
    dash: &'static str,
}

impl Stroke {
    /// That of the n-th policy; OPT, which is no policy to choose, is dashed in the colour of the
    /// text.
    pub(crate) fn of_line(line: usize, offline: bool) -> Self {
        if offline {
            return Self { colour: TEXT, dash: "5 4" };
        }
        Self { colour: LINES[line % LINES.len()], dash: DASHES[line / LINES.len() % DASHES.len()] }
    }

    /// The same with gaps, for a stretch where `lines` other lines, drawn before, lie in the same
    /// place: they show through the gaps.
    pub(crate) fn over(self, lines: usize) -> Self {
        const GAPS: [&str; 3] = ["8 8", "4 12", "2 14"];
        if lines == 0 || !self.dash.is_empty() {
            return self;
        }
        Self { dash: GAPS[(lines - 1).min(GAPS.len() - 1)], ..self }
    }

    /// Its colour, for areas.
    pub(crate) fn colour(self) -> Colour {
        self.colour
    }
}

/// How a text stands to the point given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG in the making.
#[derive(Debug)]
pub(crate) struct Canvas {
    medium: Medium,
    body: String,
}

impl Canvas {
    pub(crate) fn new(medium: Medium) -> Self {
        Self { medium, body: String::new() }
    }

    pub(crate) fn colour(&self, (name, light, _): Colour) -> String {
        match self.medium {
            Medium::Html => format!("var(--{name})"),
            Medium::File | Medium::Pixels => light.to_string(),
        }
    }

    /// Adds elements as they stand.
    pub(crate) fn raw(&mut self, elements: impl Display) {
        write!(self.body, "{elements}").expect("a string");
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour, attributes: &str) {
        let style = self.colour(colour);
        self.raw(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" style="stroke:{style}" {attributes}/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    pub(crate) fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        colour: Colour,
        title: &str,
    ) {
        let style = self.colour(colour);
        let title =
            if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
        self.raw(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" style="fill:{style}">{title}</rect>"#
        ));
    }

    pub(crate) fn curve(&mut self, points: &[(f64, f64)], stroke: Stroke, attributes: &str) {
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (style, dash) = (self.colour(stroke.colour), dash(stroke));
        self.raw(format_args!(
            r#"<polyline points="{}" style="stroke:{style}" fill="none" stroke-width="1.8" stroke-linejoin="round" {dash} {attributes}/>"#,
            path.join(" ")
        ));
    }

    /// The lines of a chart. In a page they have numbers and names, and where several coincide,
    /// each can be seen.
    pub(crate) fn curves(&mut self, lines: &[Vec<(f64, f64)>], looks: &[(Stroke, &str)]) {
        for (index, (line, (stroke, name))) in lines.iter().zip(looks).enumerate() {
            let number = format!(r#"data-line="{index}""#);
            if self.medium != Medium::Html {
                self.curve(line, *stroke, &number);
                continue;
            }
            let mut named = format!(r#"{number} data-name="{}""#, escaped(name));
            for (stretch, shared) in stretches(line, &lines[..index]) {
                self.curve(stretch, stroke.over(shared), &named);
                named.clone_from(&number);
            }
        }
    }

    pub(crate) fn dot(&mut self, (x, y): (f64, f64), radius: f64, stroke: Stroke, attributes: &str) {
        let style = self.colour(stroke.colour);
        self.raw(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" style="fill:{style}" {attributes}/>"#
        ));
    }

    pub(crate) fn ring(&mut self, (x, y): (f64, f64), radius: f64, stroke: Stroke) {
        let style = self.colour(stroke.colour);
        self.raw(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" style="fill:none;stroke:{style};stroke-width:2.2"/>"#
        ));
    }

    /// The sample of a line in a legend.
    pub(crate) fn swatch(&mut self, (x, y): (f64, f64), stroke: Stroke) {
        let (style, dash) = (self.colour(stroke.colour), dash(stroke));
        self.raw(format_args!(
            r#"<line x1="{x:.1}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" style="stroke:{style}" stroke-width="2.4" {dash}/>"#,
            x + 18.0
        ));
    }

    pub(crate) fn text(
        &mut self,
        at: (f64, f64),
        size: f64,
        anchor: Anchor,
        colour: Colour,
        text: &str,
        attributes: &str,
    ) {
        let style = self.colour(colour);
        if self.medium == Medium::Pixels {
            let shift = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => text_width(text, size) / 2.0,
                Anchor::End => text_width(text, size),
            };
            let outline = outline(text, size, (at.0 - shift, at.1));
            return self.raw(format_args!(r#"<path d="{outline}" style="fill:{style}"/>"#));
        }
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.raw(format_args!(
            r#"<text x="{:.1}" y="{:.1}" font-size="{size}" text-anchor="{anchor}" style="fill:{style}" {attributes}>{}</text>"#,
            at.0,
            at.1,
            escaped(text)
        ));
    }

    /// The whole SVG. `name` is what screen readers call it.
    pub(crate) fn finish(self, width: f64, height: f64, name: &str, attributes: &str) -> String {
        let name = escaped(name);
        let style = format!(r#"font-family="{FONTS}" {attributes}"#);
        if self.medium == Medium::Html {
            return format!(
                r#"<svg role="img" aria-label="{name}" viewBox="0 0 {width:.0} {height:.0}" {style}>{}</svg>"#,
                self.body
            );
        }
        let (width, height, ground) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN, GROUND.1);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="{:.0} {:.0} {width:.0} {height:.0}" {style}><title>{name}</title><rect x="{:.0}" y="{:.0}" width="{width:.0}" height="{height:.0}" fill="{ground}"/>{}</svg>"#,
            -MARGIN, -MARGIN, -MARGIN, -MARGIN, self.body
        )
    }
}

/// Around a chart in a file of its own. In a page there is room already.
pub(crate) const MARGIN: f64 = 14.0;

/// The letters of whatever system there is, and their like.
pub(crate) const FONTS: &str = "system-ui, 'Segoe UI', Roboto, Inter, 'Helvetica Neue', Arial, sans-serif";

/// The stretches of a line, each with the number of other lines that it shares with all of its
/// points.
fn stretches<'a>(line: &'a [(f64, f64)], others: &[Vec<(f64, f64)>]) -> Vec<(&'a [(f64, f64)], usize)> {
    /// Lines as near as this look like one.
    const NEAR: f64 = 1.5;
    let shares = |other: &&Vec<(f64, f64)>, at: usize| {
        other.len() == line.len() && (at..at + 2).all(|at| (other[at].1 - line[at].1).abs() < NEAR)
    };
    let shared = |at: usize| others.iter().filter(|other| shares(other, at)).count();
    let steps: Vec<usize> = (0..line.len().saturating_sub(1)).map(shared).collect();
    let mut found = Vec::new();
    let mut from = 0;
    for run in steps.chunk_by(|a, b| a == b) {
        found.push((&line[from..=from + run.len()], run[0]));
        from += run.len();
    }
    if found.is_empty() { vec![(line, 0)] } else { found }
}

fn dash(stroke: Stroke) -> String {
    if stroke.dash.is_empty() { String::new() } else { format!(r#"stroke-dasharray="{}""#, stroke.dash) }
}

/// Text as it may stand in SVG and HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Inter (assets/README.md), cut down to the letters of our charts: it measures them, and draws
/// them where there is no system to ask.
static FACE: LazyLock<Face<'static>> = LazyLock::new(|| {
    Face::parse(include_bytes!("../assets/Inter-Regular-subset.otf"), 0).expect("the font that we ship")
});

/// The width of a text. System fonts differ by a few percent.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let advance = |letter| {
        f64::from(FACE.glyph_index(letter).and_then(|glyph| FACE.glyph_hor_advance(glyph)).unwrap_or(0))
    };
    text.chars().map(advance).sum::<f64>() * size / f64::from(FACE.units_per_em())
}

/// The outlines of a text that starts at a point, as the data of an SVG path. Letters that the font
/// lacks become `?`.
fn outline(text: &str, size: f64, at: (f64, f64)) -> String {
    let scale = size / f64::from(FACE.units_per_em());
    let mut pen = Pen { data: String::new(), at, scale };
    for letter in text.chars() {
        let glyph =
            FACE.glyph_index(letter).or_else(|| FACE.glyph_index('?')).expect("the font has a question mark");
        FACE.outline_glyph(glyph, &mut pen);
        pen.at.0 += f64::from(FACE.glyph_hor_advance(glyph).unwrap_or(0)) * scale;
    }
    pen.data
}

struct Pen {
    data: String,
    at: (f64, f64),
    scale: f64,
}

impl Pen {
    fn add(&mut self, command: char, points: &[(f32, f32)]) {
        self.data.push(command);
        for (x, y) in points {
            let (x, y) = (self.at.0 + f64::from(*x) * self.scale, self.at.1 - f64::from(*y) * self.scale);
            write!(self.data, "{x:.2} {y:.2} ").expect("a string");
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.add('M', &[(x, y)]);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.add('L', &[(x, y)]);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.add('Q', &[(x1, y1), (x, y)]);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.add('C', &[(x1, y1), (x2, y2), (x, y)]);
    }
    fn close(&mut self) {
        self.data.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// Linear light, 0 to 1.
    fn linear(colour: &str) -> Rgb {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Contrast as WCAG 2 defines it.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b): (f64, f64) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_lines_stand_out_from_either_ground() {
        for ground in [|colour: Colour| colour.1, |colour: Colour| colour.2] {
            for text in [TEXT, MUTED] {
                assert!(contrast(ground(text), ground(GROUND)) >= 4.5, "{}", text.0);
            }
            for colour in LINES.into_iter().chain([READ, WRITTEN]) {
                let contrast = contrast(ground(colour), ground(GROUND));
                assert!(contrast >= 3.0, "{} {contrast}", colour.0);
            }
        }
    }

    /// How colours look to all, to those without red, green and blue cones: G. M. Machado et al.,
    /// "A physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6),
    /// 2009, severity 1.
    const SIGHTS: [[Rgb; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// CIE L*a*b*, in which distances are about what eyes make of them.
    fn lab(sight: &[Rgb; 3], colour: &str) -> Rgb {
        let light = linear(colour);
        let [r, g, b] = sight.map(|row| (0..3).map(|i| row[i] * light[i]).sum::<f64>().clamp(0.0, 1.0));
        let bend = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = bend((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
        let y = bend(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = bend((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn lines_are_told_apart_by_all_kinds_of_eyes() {
        for ground in [|colour: Colour| colour.1, |colour: Colour| colour.2] {
            for (index, a) in LINES.iter().enumerate() {
                for b in LINES[..index].iter().chain([&TEXT]) {
                    for sight in &SIGHTS {
                        let [p, q] = [a, b].map(|colour| lab(sight, ground(*colour)));
                        let distance = (0..3).map(|i| (p[i] - q[i]).powi(2)).sum::<f64>().sqrt();
                        assert!(distance > 20.0, "{} {} {distance}", ground(*a), ground(*b));
                    }
                }
            }
        }
    }

    #[test]
    fn stretches_that_lines_share_have_gaps() {
        let line = |heights: [f64; 4]| -> Vec<(f64, f64)> {
            heights.iter().enumerate().map(|(at, height)| (at as f64, *height)).collect()
        };
        let [first, second, third] =
            [[9.0, 5.0, 5.0, 1.0], [8.0, 5.0, 5.0, 1.0], [0.0, 5.0, 5.0, 9.0]].map(line);
        let found = |line: &[(f64, f64)], others: &[Vec<(f64, f64)>]| -> Vec<(usize, usize)> {
            stretches(line, others).into_iter().map(|(points, shared)| (points.len(), shared)).collect()
        };
        assert_eq!(found(&first, &[]), [(4, 0)]);
        assert_eq!(found(&second, std::slice::from_ref(&first)), [(4, 1)]);
        assert_eq!(found(&third, &[first, second]), [(2, 0), (2, 2), (2, 0)]);
        assert_eq!(found(&third[..1], &[]), [(1, 0)]);
    }

    #[test]
    fn letters_are_measured_and_outlined() {
        assert!(text_width("clock-pro", 12.0) > 1.5 * text_width("clock", 12.0));
        assert_eq!(text_width("", 12.0), 0.0);
        let data = outline("1", 10.0, (100.0, 50.0));
        assert!(data.starts_with('M') && data.ends_with('Z'), "{data}");
        assert_eq!(outline("é", 10.0, (0.0, 0.0)), outline("?", 10.0, (0.0, 0.0)));
    }
}
