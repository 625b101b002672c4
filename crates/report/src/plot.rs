//! Single pictures, as SVG or PNG.

use crate::distance_chart::DistanceChart;
use crate::fault_chart::{FaultChart, Frame};
use crate::ink::{MARGIN, Medium};
use crate::map_chart::{self, Layers};
use resvg::tiny_skia::{FilterQuality, Pixmap, PixmapPaint, Transform};
use resvg::usvg;
use sweephand_advice::{CurveStudy, Distances};
use sweephand_trace::picture::Picture;

/// What a picture is stored as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PictureFormat {
    /// Drawing instructions; letters are those of the system that shows it.
    Svg,
    /// Pixels, twice as many each way as an SVG has units.
    Png,
}

impl PictureFormat {
    fn medium(self) -> Medium {
        match self {
            PictureFormat::Svg => Medium::File,
            PictureFormat::Png => Medium::Pixels,
        }
    }

    fn file(self, svg: String) -> Vec<u8> {
        match self {
            PictureFormat::Svg => svg.into_bytes(),
            PictureFormat::Png => pixels(&svg, &[]),
        }
    }
}

/// Faults of the policies of a study against memory size.
pub fn plot_faults(study: &CurveStudy, logarithmic: bool, format: PictureFormat) -> Vec<u8> {
    format.file(FaultChart { study, logarithmic, frame: Frame::WIDE, medium: format.medium() }.svg())
}

/// The histogram of stack distances of a trace with this name and this page size.
pub fn plot_distances(
    name: &str,
    distances: &Distances,
    page_bytes: u64,
    logarithmic: bool,
    format: PictureFormat,
) -> Vec<u8> {
    let (frame, medium) = (Frame::WIDE, format.medium());
    format.file(DistanceChart { name, distances, page_bytes, logarithmic, frame, medium }.svg())
}

/// Page against time of a trace with this name and this many records.
pub fn plot_pages(
    name: &str,
    picture: &Picture,
    records: u64,
    page_bytes: u64,
    format: PictureFormat,
) -> Vec<u8> {
    let svg = map_chart::svg(name, picture, records, page_bytes, format.medium());
    match format {
        PictureFormat::Svg => svg.into_bytes(),
        PictureFormat::Png => {
            let Layers { read, written } = Layers::of(picture);
            pixels(&svg, &[read, written])
        }
    }
}

/// Draws an SVG, and pictures where page against time has its place.
fn pixels(svg: &str, layers: &[Vec<u8>]) -> Vec<u8> {
    const SCALE: f32 = 2.0;
    let tree = usvg::Tree::from_str(svg, &usvg::Options::default()).expect("an SVG of ours");
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let mut pixmap = Pixmap::new(pixels(size.width()), pixels(size.height())).expect("charts are not empty");
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    for layer in layers {
        let layer = Pixmap::decode_png(layer).expect("a PNG of ours");
        let (left, top, width, height) = map_chart::PLANE;
        let at = |place: f64| (place + MARGIN) as f32 * SCALE;
        let scale = |length: f64, cells: u32| length as f32 * SCALE / cells as f32;
        let (x, y) = (scale(width, layer.width()), scale(height, layer.height()));
        let place = Transform::from_row(x, 0.0, 0.0, y, at(left), at(top));
        let paint = PixmapPaint { quality: FilterQuality::Bilinear, ..PixmapPaint::default() };
        pixmap.draw_pixmap(0, 0, layer.as_ref(), &paint, place, None);
    }
    pixmap.encode_png().expect("into memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ink::{READ, WRITTEN};
    use sweephand_trace::picture::{Cell, Row};

    #[test]
    fn page_against_time_is_drawn_where_its_axes_are() {
        // Four pages: the lowest written at first, the highest read at last.
        let row = |page: u64, cells: [Cell; 2]| Row { first_page: page, pages: 1, cells: cells.to_vec() };
        let (none, read) = (Cell::default(), Cell { touched: 1, written: 0 });
        let written = Cell { touched: 1, written: 1 };
        let rows = vec![row(1, [written, none]), row(2, [none; 2]), row(3, [none; 2]), row(4, [none, read])];
        let picture = Picture { columns: 2, rows };
        let png = plot_pages("four", &picture, 1000, 4096, PictureFormat::Png);
        let pixmap = Pixmap::decode_png(&png).unwrap();
        let (left, top, width, height) = map_chart::PLANE;
        let colour = |x: f64, y: f64| {
            let at = |place: f64| (2.0 * (place + MARGIN)) as u32;
            let pixel = pixmap.pixel(at(left + x * width), at(top + y * height)).unwrap();
            format!("#{:02x}{:02x}{:02x}", pixel.red(), pixel.green(), pixel.blue())
        };
        let (corner, opposite) = (colour(0.1, 0.95), colour(0.9, 0.05));
        assert_eq!((&corner[..], &opposite[..]), (WRITTEN.1, READ.1));
        assert_eq!(colour(0.1, 0.05), "#ffffff");
        let svg = String::from_utf8(plot_pages("four", &picture, 1000, 4096, PictureFormat::Svg)).unwrap();
        assert_eq!(svg.matches("<image").count(), 2);
        assert!(svg.contains("<title>Pages of four against time</title>"));
    }
}
