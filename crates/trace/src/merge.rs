//! Merges a stream of accesses into a program's references, by time. This shows what a program
//! suffers from the file I/O of others.
//!
//! Each side has its own clock. The program's clock is its instructions: marks give them, and
//! between two marks they are spread evenly over the references stored. The stream's clock can be
//! seconds. So both are taken as shares of the whole duration. The stream's pages differ from the
//! program's: they begin at [`STREAM_PAGES`]. Everything that is not a reference belongs to the
//! program.
//!
//! (S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective improvement of the CLOCK replacement",
//! USENIX Annual Technical Conference 2005, section 5.1.2, scales a web server's I/O trace to the
//! run of a program in this way.)

use crate::{AllocKind, EndTotals, Error, Event, Sink, Trace};
use std::iter::Peekable;

/// Page numbers of the stream begin here, far above any address of a program, and low enough for a
/// byte address.
pub const STREAM_PAGES: u64 = 1 << 51;

/// An access of the stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Access {
    /// When, as a share of the program's duration, 0 to 1.
    pub time: f64,
    /// Which page, counted from [`STREAM_PAGES`].
    pub page: u64,
    /// Whether it writes.
    pub write: bool,
}

/// Accesses at equal distances over the whole duration. `accesses` are page and write flag.
pub fn evenly(accesses: impl ExactSizeIterator<Item = (u64, bool)>) -> impl Iterator<Item = Access> {
    let number = accesses.len() as f64;
    (accesses.enumerate()).map(move |(at, (page, write))| Access {
        time: (at as f64 + 0.5) / number,
        page,
        write,
    })
}

/// Hands on what the program of a trace did with the accesses of `stream` among it, which come in
/// ascending order of time; where both fall on one time the program goes first. What comes back is
/// for the writer's end: the instructions are the program's, the references those of both.
pub fn merge(
    program: &Trace,
    stream: impl IntoIterator<Item = Access>,
    sink: &mut impl Sink,
) -> Result<EndTotals, Error> {
    program.check_pages()?;
    let clock = Clock::of(program)?;
    let stream = stream.into_iter().peekable();
    let mut merging = Merging { clock, stream, sink, record: 0, streamed: 0 };
    program.replay(&mut merging, &mut |_| {})?;
    merging.stream_until(f64::INFINITY).map_err(|error| error.in_file(program.name()))?;
    let totals = &program.header().totals;
    Ok(EndTotals {
        references: Some(totals.references + merging.streamed),
        instructions: totals.instructions,
        ..EndTotals::default()
    })
}

/// Which share of a program's duration is over at each record.
struct Clock {
    /// Records and instructions at the beginning, at each mark that moves both, and at the end:
    /// both ascend strictly.
    points: Vec<(u64, u64)>,
    /// The point behind the record asked for last.
    next: usize,
}

impl Clock {
    fn of(trace: &Trace) -> Result<Self, Error> {
        let totals = &trace.header().totals;
        let mut points = vec![(0, 0)];
        let mut now = 0;
        let mut point = |record: u64, instructions: u64| {
            let (last_record, last_instructions) = *points.last().expect("the beginning");
            if record > last_record && instructions > last_instructions {
                points.push((record, instructions));
            }
        };
        trace.for_each_event(&mut |record, event| {
            if let Event::Mark { instructions, .. } = event {
                now += instructions;
                point(record, now);
            }
        })?;
        // Without marks the records are the clock.
        point(totals.records, totals.instructions.unwrap_or(totals.records).max(now + 1));
        Ok(Self { points, next: 1 })
    }

    /// Asked for ascending records.
    fn share(&mut self, record: u64) -> f64 {
        while self.next + 1 < self.points.len() && self.points[self.next].0 <= record {
            self.next += 1;
        }
        let [(from, start), (to, end)] = [self.points[self.next - 1], self.points[self.next]];
        let (_, whole) = self.points[self.points.len() - 1];
        let passed = (record - from) as f64 / (to - from) as f64;
        (start as f64 + passed * (end - start) as f64) / whole as f64
    }
}

/// The sink that the program is repeated into.
struct Merging<'a, I: Iterator<Item = Access>, S> {
    clock: Clock,
    stream: Peekable<I>,
    sink: &'a mut S,
    /// The program's references so far.
    record: u64,
    /// The stream's.
    streamed: u64,
}

impl<I: Iterator<Item = Access>, S: Sink> Merging<'_, I, S> {
    /// The accesses of the stream before a time.
    fn stream_until(&mut self, time: f64) -> Result<(), Error> {
        while let Some(access) = self.stream.next_if(|access| access.time < time) {
            self.sink.reference(STREAM_PAGES + access.page, access.write)?;
            self.streamed += 1;
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Access>, S: Sink> Sink for Merging<'_, I, S> {
    fn code(&mut self, place: u32) {
        self.sink.code(place);
    }
    fn time(&mut self, milliseconds: i64) {
        self.sink.time(milliseconds);
    }
    fn time_to_live(&mut self, milliseconds: u64) {
        self.sink.time_to_live(milliseconds);
    }
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        if page_number >= STREAM_PAGES {
            return Err(Error::no_room(page_number, STREAM_PAGES));
        }
        let now = self.clock.share(self.record);
        self.stream_until(now)?;
        self.record += 1;
        self.sink.reference(page_number, write)
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        self.sink.alloc(address, length, kind)
    }
    fn free(&mut self, address: u64) -> Result<(), Error> {
        self.sink.free(address)
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        self.sink.mark(instructions, references)
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.sink.map(first_page, pages)
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.sink.unmap(first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        self.sink.remap(from, to, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, Metadata, Writer};
    use std::io::Cursor;

    fn write(fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>) -> EndTotals) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        let end = fill(&mut writer);
        let (file, _) = writer.finish(end).unwrap();
        Trace::from_bytes(file.into_inner()).unwrap()
    }

    /// Page numbers in order; the stream's from 1000.
    fn pages(trace: &Trace) -> Vec<u64> {
        let mut chunk = Chunk::new();
        trace.read_chunk(0, &mut chunk).unwrap();
        let number = |page: u32| chunk.new_pages[page as usize];
        let shown = |page| if page >= STREAM_PAGES { 1000 + page - STREAM_PAGES } else { page };
        chunk.references.iter().map(|reference| shown(number(reference.page()))).collect()
    }

    #[test]
    fn a_stream_is_spread_over_the_instructions_and_not_over_the_references() {
        // Three references in the first million instructions, one in the nine that follow.
        let program = write(|writer| {
            for page in [1, 2, 3] {
                writer.reference(page, false).unwrap();
            }
            writer.mark(1_000_000, 30).unwrap();
            writer.reference(4, false).unwrap();
            writer.mark(9_000_000, 10).unwrap();
            EndTotals::default()
        });
        let merged = write(|writer| {
            let accesses = [(0, false), (1, true), (0, false), (2, false), (3, false)];
            merge(&program, evenly(accesses.into_iter()), writer).unwrap()
        });
        // Times of the program: 0, 1/30, 2/30, 3/30; of the stream: 1/10, 3/10, ...: at 1/10 the
        // program goes first.
        assert_eq!(pages(&merged), [1, 2, 3, 4, 1000, 1001, 1000, 1002, 1003]);
        let totals = &merged.header().totals;
        assert_eq!((totals.references, totals.instructions), (45, Some(10_000_000)));
        assert_eq!((totals.records, totals.written_pages, totals.distinct_pages), (9, 1, 8));
    }

    #[test]
    fn without_marks_references_are_the_clock() {
        let program = write(|writer| {
            (0..4).for_each(|page| writer.reference(page, false).unwrap());
            EndTotals::default()
        });
        let merged =
            write(|writer| merge(&program, evenly([(0, false), (1, false)].into_iter()), writer).unwrap());
        assert_eq!(pages(&merged), [0, 1, 1000, 2, 3, 1001]);
    }

    #[test]
    fn the_program_alone_stays_what_it_was_and_keeps_its_events() {
        let program = write(|writer| {
            writer.alloc(0x5000, 0x3000, AllocKind::Malloc).unwrap();
            for page in [5, 6, 5] {
                writer.reference(page, true).unwrap();
                writer.unmap(6, 1).unwrap();
            }
            writer.remap(5, 9, 1).unwrap();
            writer.mark(100, 3).unwrap();
            writer.free(0x5000).unwrap();
            EndTotals::default()
        });
        let merged = write(|writer| merge(&program, [], writer).unwrap());
        assert_eq!(merged.header().checksum, program.header().checksum);
        assert_eq!(merged.header().totals.instructions, Some(100));
    }

    #[test]
    fn a_program_where_the_stream_would_be_is_refused() {
        let program = write(|writer| {
            writer.reference(STREAM_PAGES, false).unwrap();
            EndTotals::default()
        });
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        let error = merge(&program, [], &mut writer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "touches page 2251799813685248: only pages below 2251799813685248 leave room for the pages of another trace"
        );
    }
}
