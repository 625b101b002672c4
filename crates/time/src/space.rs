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
