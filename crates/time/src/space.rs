//! The pages of a trace by address.

use sweephand_policy::PageId;
use sweephand_trace::{Chunk, Error, Trace};

/// The pages by address.
#[derive(Debug)]
pub(crate) struct Space {
    /// The number of each page, by id.
    pub(crate) numbers: Vec<u64>,
    /// Numbers and ids, ascending.
    by_number: Vec<(u64, u32)>,
    /// Each page's place in `by_number`, by id.
    pub(crate) ranks: Vec<u32>,
}

impl Space {
    /// Reads the pages of a trace.
    pub(crate) fn of(trace: &Trace) -> Result<Self, Error> {
        let mut numbers = Vec::new();
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            numbers.extend_from_slice(&chunk.new_pages);
        }
        let mut by_number: Vec<_> = numbers.iter().zip(0u32..).map(|(number, id)| (*number, id)).collect();
        by_number.sort_unstable();
        let mut ranks = vec![0; numbers.len()];
        for (rank, (_, id)) in by_number.iter().enumerate() {
            ranks[*id as usize] = rank as u32;
        }
        Ok(Self { numbers, by_number, ranks })
    }

    /// The pages behind `page` at consecutive addresses, from it on.
    pub(crate) fn run_from(&self, page: PageId) -> impl Iterator<Item = PageId> {
        let (first, number) = (self.ranks[page.index()] as usize, self.numbers[page.index()]);
        let run = self.by_number[first..].iter().zip(number..).take_while(|((at, _), number)| at == number);
        run.map(|((_, id), _)| PageId(*id))
    }

    /// The pages with numbers in a range.
    pub(crate) fn within(&self, numbers: std::ops::Range<u64>) -> impl Iterator<Item = PageId> {
        let first = self.by_number.partition_point(|(number, _)| *number < numbers.start);
        let inside = self.by_number[first..].iter().take_while(move |(number, _)| *number < numbers.end);
        inside.map(|(_, id)| PageId(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_trace::{EndTotals, Metadata, Writer};

    /// Ids count up in the order of the references.
    #[test]
    fn runs_and_ranges_go_by_address() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        [7, 5, 6, 9, 20].into_iter().for_each(|page| writer.reference(page, false).unwrap());
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let space = Space::of(&Trace::from_bytes(bytes).unwrap()).unwrap();
        assert_eq!(space.ranks, [2, 0, 1, 3, 4]);
        let ids = |pages: &mut dyn Iterator<Item = PageId>| pages.map(|page| page.0).collect::<Vec<_>>();
        assert_eq!(ids(&mut space.run_from(PageId(1))), [1, 2, 0], "5, 6 and 7, not 9");
        assert_eq!(ids(&mut space.run_from(PageId(2))), [2, 0]);
        assert_eq!(ids(&mut space.run_from(PageId(4))), [4]);
        assert_eq!(ids(&mut space.within(6..9)), [2, 0]);
        assert_eq!(ids(&mut space.within(6..10)), [2, 0, 3]);
        assert_eq!(ids(&mut space.within(10..20)), [0; 0]);
    }
}
