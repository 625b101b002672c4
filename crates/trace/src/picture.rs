//! Page against time: which memory the program touches when.
//!
//! Columns are time, in references stored. Rows are pages, in the order of their numbers and
//! without the gaps between them. A cell counts the pages of its row that are touched, and those
//! that are written, in the time of its column. Two passes over the trace make the picture: the
//! first learns the page numbers, the second counts.

use crate::{Chunk, Error, PackedReference, Trace};
use std::ops::Range;

/// The counts of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Columns: as many as were asked for, or a reference each if there are fewer references.
    pub columns: usize,
    /// From the lowest page numbers up: as many as were asked for, or a page each if there are
    /// fewer pages.
    pub rows: Vec<Row>,
}

/// Neighbouring pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of its first page. A page that moved counts where it was first touched.
    pub first_page: u64,
    /// Pages in it.
    pub pages: u32,
    /// A cell a column.
    pub cells: Vec<Cell>,
}

/// A row's pages in a column's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Pages touched.
    pub touched: u32,
    /// Pages written.
    pub written: u32,
}

/// What a picture shows of a trace. Time runs along the whole trace all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The numbers of the pages that have rows.
    pub pages: Range<u64>,
    /// The references that count.
    pub records: Range<u64>,
    /// Rows, at most.
    pub rows: usize,
}

impl Picture {
    /// The picture of `trace` in at most `columns` (up to 65,534) times `rows` cells. Decodes
    /// everything twice.
    pub fn of(trace: &Trace, columns: usize, rows: usize) -> Result<Self, Error> {
        let all = Part { pages: 0..u64::MAX, records: 0..u64::MAX, rows };
        Self::of_parts(trace, columns, &[all]).map(|mut pictures| pictures.remove(0))
    }

    /// A picture of each part. Decodes everything twice, whatever the number of parts.
    pub fn of_parts(trace: &Trace, columns: usize, parts: &[Part]) -> Result<Vec<Self>, Error> {
        let records = trace.header().totals.records;
        let mut chunk = Chunk::new();
        let mut numbers = Vec::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            numbers.extend_from_slice(&chunk.new_pages);
        }
        let columns =
            columns.clamp(1, usize::from(u16::MAX - 1)).min(usize::try_from(records).unwrap_or(usize::MAX));
        let mut counts: Vec<_> = parts.iter().map(|part| Counts::new(&numbers, part, columns)).collect();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            let mut references = &chunk.references[..];
            let mut record = chunk.first_record;
            while !references.is_empty() {
                // Column c begins at the first record of which record * columns / records is c.
                let column = (u128::from(record) * columns as u128 / u128::from(records)) as usize;
                let next = ((column as u128 + 1) * u128::from(records)).div_ceil(columns as u128) as u64;
                let (now, later) = references.split_at((next - record).min(references.len() as u64) as usize);
                for (part, counts) in parts.iter().zip(&mut counts) {
                    let at = |end: u64| (end.saturating_sub(record) as usize).min(now.len());
                    let (start, end) = (at(part.records.start), at(part.records.end));
                    counts.column(column, &now[start.min(end)..end]);
                }
                record = next;
                references = later;
            }
        }
        Ok(counts.into_iter().map(|counts| Self { columns, rows: counts.rows }).collect())
    }
}

/// The row of pages that have none.
const NO_ROW: u32 = u32::MAX;

struct Counts {
    /// The row of each page id.
    row: Vec<u32>,
    /// One more than the column in which each page was last touched, and last written.
    seen: Vec<(u16, u16)>,
    rows: Vec<Row>,
}

impl Counts {
    fn new(numbers: &[u64], part: &Part, columns: usize) -> Self {
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        order.retain(|id| part.pages.contains(&numbers[*id as usize]));
        order.sort_unstable_by_key(|id| numbers[*id as usize]);
        let rows = part.rows.max(1).min(order.len());
        let mut row = vec![NO_ROW; numbers.len()];
        let rows = (0..rows)
            .map(|r| {
                let ids = &order[r * order.len() / rows..(r + 1) * order.len() / rows];
                ids.iter().for_each(|id| row[*id as usize] = r as u32);
                let first_page = numbers[ids[0] as usize];
                Row { first_page, pages: ids.len() as u32, cells: vec![Cell::default(); columns] }
            })
            .collect();
        Self { row, seen: vec![(0, 0); numbers.len()], rows }
    }

    fn column(&mut self, column: usize, references: &[PackedReference]) {
        let now = column as u16 + 1;
        for reference in references {
            let page = reference.page() as usize;
            let row = self.row[page];
            if row == NO_ROW {
                continue;
            }
            let (touched, written) = &mut self.seen[page];
            if *touched != now || (reference.is_write() && *written != now) {
                let cell = &mut self.rows[row as usize].cells[column];
                cell.touched += u32::from(*touched != now);
                *touched = now;
                if reference.is_write() {
                    cell.written += u32::from(*written != now);
                    *written = now;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndTotals, Metadata, Writer};
    use std::io::Cursor;

    fn trace(string: &[(u64, bool)]) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        string.iter().for_each(|(page, write)| writer.reference(*page, *write).unwrap());
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        Trace::from_bytes(bytes).unwrap()
    }

    fn picture(string: &[(u64, bool)], columns: usize, rows: usize) -> Picture {
        Picture::of(&trace(string), columns, rows).unwrap()
    }

    #[test]
    fn cells_count_pages_not_references() {
        // Pages 900, 10, 11 by number: 10, 11 | 900.
        let string = [(900, false), (10, true), (10, true), (11, false), (900, false), (900, true)];
        let picture = picture(&string, 2, 2);
        let cells =
            |row: usize| picture.rows[row].cells.iter().map(|c| (c.touched, c.written)).collect::<Vec<_>>();
        assert_eq!((picture.rows[0].first_page, picture.rows[0].pages), (10, 1));
        assert_eq!((picture.rows[1].first_page, picture.rows[1].pages), (11, 2));
        assert_eq!(cells(0), [(1, 1), (0, 0)]);
        assert_eq!(cells(1), [(1, 0), (2, 1)]);
    }

    #[test]
    fn small_traces_get_small_pictures() {
        let picture = picture(&[(5, false), (6, true)], 72, 20);
        assert_eq!((picture.columns, picture.rows.len()), (2, 2));
        let empty = super::tests::picture(&[], 72, 20);
        assert_eq!((empty.columns, empty.rows.len()), (0, 0));
    }

    #[test]
    fn parts_show_their_pages_in_their_time() {
        let string = [(900, false), (10, true), (11, false), (10, true), (11, false), (900, true)];
        let part = |pages, records| Part { pages, records, rows: 9 };
        let parts = [part(10..12, 0..6), part(10..11, 2..6), part(800..1000, 1..1)];
        let pictures = Picture::of_parts(&trace(&string), 3, &parts).unwrap();
        let cells = |picture: &Picture| -> Vec<Vec<(u32, u32)>> {
            let row = |row: &Row| row.cells.iter().map(|cell| (cell.touched, cell.written)).collect();
            picture.rows.iter().map(row).collect()
        };
        assert_eq!(cells(&pictures[0]), [[(1, 1), (1, 1), (0, 0)], [(0, 0), (1, 0), (1, 0)]]);
        assert_eq!(cells(&pictures[1]), [[(0, 0), (1, 1), (0, 0)]]);
        assert_eq!(cells(&pictures[2]), [[(0, 0), (0, 0), (0, 0)]]);
    }
}
