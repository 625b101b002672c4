//! Page against time as a picture: pages only read in one colour, pages written in another, fainter
//! if fewer of a cell's pages are touched. Each colour is a picture of its own with a transparent
//! ground, so a viewer can show them one at a time and on light or dark.

use crate::axis::{Axis, short};
use crate::fault_chart::unit;
use crate::ink::{Anchor, Canvas, Colour, MUTED, Medium, READ, RULE, WRITTEN};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sweephand_trace::picture::{Cell, Picture};

/// How strong the colour is, by the share of a cell's pages: none, then up to a fifteenth each.
const STEPS: u8 = 15;
/// The faintest that is seen, of 255.
const FAINTEST: u8 = 75;

/// The two layers of a picture, as PNG files.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) read: Vec<u8>,
    pub(crate) written: Vec<u8>,
}

impl Layers {
    pub(crate) fn of(picture: &Picture) -> Self {
        Self {
            read: layer(picture, READ, |cell| cell.touched - cell.written),
            written: layer(picture, WRITTEN, |cell| cell.written),
        }
    }
}

/// A PNG as it may stand in a page.
pub(crate) fn data_uri(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}

/// High addresses on top. Four bits a cell.
fn layer(picture: &Picture, colour: Colour, pages: impl Fn(Cell) -> u32) -> Vec<u8> {
    let (columns, rows) = (picture.columns.max(1), picture.rows.len().max(1));
    let mut data = vec![0u8; columns.div_ceil(2) * rows];
    for (y, row) in picture.rows.iter().rev().enumerate() {
        for (x, cell) in row.cells.iter().enumerate() {
            let strength = (u64::from(pages(*cell)) * u64::from(STEPS)).div_ceil(u64::from(row.pages.max(1)));
            data[y * columns.div_ceil(2) + x / 2] |= (strength as u8) << (4 - 4 * (x % 2));
        }
    }
    let channel = |at: usize| u8::from_str_radix(&colour.1[at..at + 2], 16).expect("a colour");
    let palette = [1, 3, 5].map(channel).repeat(usize::from(STEPS) + 1);
    let strength = |step: u8| if step == 0 { 0 } else { FAINTEST + (255 - FAINTEST) / STEPS * step };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, columns as u32, rows as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Four);
    encoder.set_palette(palette);
    encoder.set_trns((0..=STEPS).map(strength).collect::<Vec<u8>>());
    encoder.set_compression(png::Compression::High);
    // Filters help with photographs, not with steps of a palette.
    encoder.set_filter(png::Filter::NoFilter);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&data));
    written.expect("a picture of fixed size goes into memory");
    file
}

/// Where cells are on the picture with axes: left, top, width, height.
pub(crate) const PLANE: (f64, f64, f64, f64) = (44.0, 36.0, 702.0, 394.0);

/// The picture with axes, as an SVG of its own. On its way to pixels it has no cells: they are
/// pixels already.
pub(crate) fn svg(name: &str, picture: &Picture, records: u64, page_bytes: u64, medium: Medium) -> String {
    let (width, height) = (760.0, 470.0);
    let (left, top, right, bottom) = (PLANE.0, PLANE.1, PLANE.0 + PLANE.2, PLANE.1 + PLANE.3);
    let mut canvas = Canvas::new(medium);
    let pages: u64 = picture.rows.iter().map(|row| u64::from(row.pages)).sum();
    let (unit, unit_name) = unit(pages * page_bytes);
    let y = Axis::linear((pages * page_bytes) as f64 / unit, bottom, top);
    for tick in y.ticks(6) {
        canvas.line((left - 4.0, y.place(tick)), (left, y.place(tick)), MUTED, "");
        canvas.text((left - 7.0, y.place(tick) + 4.0), 12.0, Anchor::End, MUTED, &short(tick), "");
    }
    let x = Axis::linear(records as f64, left, right);
    for tick in x.ticks(7) {
        canvas.line((x.place(tick), bottom), (x.place(tick), bottom + 4.0), MUTED, "");
        canvas.text((x.place(tick), bottom + 17.0), 12.0, Anchor::Middle, MUTED, &short(tick), "");
    }
    canvas.text((right, bottom + 34.0), 12.0, Anchor::End, MUTED, "time, references stored", "");
    let words = format!("pages touched, in order of address, {unit_name}");
    canvas.text((0.0, 13.0), 12.0, Anchor::Start, MUTED, &words, "");
    if medium != Medium::Pixels {
        let Layers { read, written } = Layers::of(picture);
        for layer in [read, written] {
            let (x, y, width, height) = PLANE;
            canvas.raw(format_args!(
                r#"<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" href="{}"/>"#,
                data_uri(&layer)
            ));
        }
    }
    canvas.line((left, top), (left, bottom), RULE, "");
    canvas.line((left, bottom), (right, bottom), RULE, "");
    for (place, colour, words) in [(right - 170.0, READ, "only read"), (right - 70.0, WRITTEN, "written")] {
        canvas.rect((place, 4.0), (11.0, 11.0), colour, "");
        canvas.text((place + 16.0, 13.0), 12.0, Anchor::Start, MUTED, words, "");
    }
    canvas.finish(width, height, &format!("Pages of {name} against time"), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_trace::picture::Row;

    #[test]
    fn cells_only_read_and_cells_written_are_layers_of_their_own() {
        let cell = |touched, written| Cell { touched, written };
        let picture = Picture {
            columns: 3,
            rows: vec![
                Row { first_page: 1, pages: 30, cells: vec![cell(30, 30), cell(0, 0), cell(1, 0)] },
                Row { first_page: 31, pages: 30, cells: vec![cell(0, 0), cell(30, 2), cell(15, 0)] },
            ],
        };
        let layers = Layers::of(&picture);
        let cells = |png: &[u8]| {
            let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
            let mut data = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut data).unwrap();
            assert_eq!(reader.info().trns.as_deref().unwrap()[..2], [0, 87]);
            data
        };
        // The upper row, two cells a byte, then the lower one.
        assert_eq!(cells(&layers.read), [0x0e, 0x80, 0x00, 0x10]);
        assert_eq!(cells(&layers.written), [0x01, 0x00, 0xf0, 0x00]);
    }

    #[test]
    fn the_legend_names_the_colours_of_the_layers() {
        let cell = Cell { touched: 1, written: 1 };
        let picture = Picture { columns: 1, rows: vec![Row { first_page: 0, pages: 1, cells: vec![cell] }] };
        let svg = svg("job", &picture, 1, 4096, Medium::File);
        let after = |colour: &str| &svg[svg.rfind(colour).unwrap()..];
        assert!(after(READ.1).find("only read") < after(READ.1).find("written"), "{svg}");
        assert!(!after(WRITTEN.1).contains("only read"), "{svg}");
    }
}
