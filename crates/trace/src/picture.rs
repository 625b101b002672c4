//! Page against time: how much of which memory is touched when.
//!
//! Time, in references stored, runs along columns; pages, in the order of their numbers and without the gaps
//! between them, along rows. A cell counts the pages of its row touched, and those written, in its column's
//! time. Two passes over the trace: the first learns the page numbers, the second counts.

use crate::{Chunk, Error, PackedReference, Trace};

/// The counts of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Columns: as many as were asked for, or a reference each if there are fewer references.
    pub columns: usize,
    /// From the lowest page numbers up: as many as were asked for, or a page each if there are fewer pages.
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

impl Picture {
    /// The picture of `trace` in at most `columns` (up to 65,534) times `rows` cells. Decodes everything twice.
    pub fn of(trace: &Trace, columns: usize, rows: usize) -> Result<Self, Error> {
        let records = trace.header().totals.records;
        let mut chunk = Chunk::new();
        let mut numbers = Vec::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            numbers.extend_from_slice(&chunk.new_pages);
        }
        let columns =
            columns.clamp(1, usize::from(u16::MAX - 1)).min(usize::try_from(records).unwrap_or(usize::MAX));
        let mut counts = Counts::new(&numbers, rows.max(1), columns);
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            let mut references = &chunk.references[..];
            let mut record = chunk.first_record;
            while !references.is_empty() {
                // Column c begins at the first record of which record * columns / records is c.
                let column = (u128::from(record) * columns as u128 / u128::from(records)) as usize;
                let next = ((column as u128 + 1) * u128::from(records)).div_ceil(columns as u128) as u64;
                let (now, later) = references.split_at((next - record).min(references.len() as u64) as usize);
                counts.column(column, now);
                record = next;
                references = later;
            }
        }
        Ok(Self { columns, rows: counts.rows })
    }
}

struct Counts {
    /// The row of each page id.
    row: Vec<u32>,
    /// One more than the column in which each page was last touched, and last written.
    seen: Vec<(u16, u16)>,
    rows: Vec<Row>,
}

impl Counts {
    fn new(numbers: &[u64], rows: usize, columns: usize) -> Self {
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        order.sort_unstable_by_key(|id| numbers[*id as usize]);
        let rows = rows.min(order.len());
        let mut row = vec![0; order.len()];
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
            let (touched, written) = &mut self.seen[page];
            if *touched != now || (reference.is_write() && *written != now) {
                let cell = &mut self.rows[self.row[page] as usize].cells[column];
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

    fn picture(string: &[(u64, bool)], columns: usize, rows: usize) -> Picture {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        string.iter().for_each(|(page, write)| writer.reference(*page, *write).unwrap());
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        Picture::of(&Trace::from_bytes(bytes).unwrap(), columns, rows).unwrap()
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
}
