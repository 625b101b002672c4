//! Virtual time: how many references a program has completed before a record of its trace.
//!
//! Working sets, and everything else that lets a page grow old, count in virtual time, whose unit
//! is one reference. What a record stands for depends on the trace's window
//! ([`Metadata::window`](crate::Metadata::window)):
//!
//! * **0, every reference is stored**: a record is a reference, and virtual time is exactly the
//!   record's number. (A reference that straddles two pages counts as two, and so does each page
//!   that a system call touches. The header's `references` counts instructions' operands, so it can
//!   differ by a few in a thousand.)
//! * **1 and more, runs are stored, or some of them**: the length of each run is unknown, but every
//!   MARK says how many references the program made since the mark before. Marks are about a
//!   million instructions apart. The references between two marks are spread evenly over the
//!   records between them. Those after the last mark, up to the header's `references`, are spread
//!   over the records after it. So virtual time is right at each mark and an estimate in between.
//!
//! Without marks only the header's two counts are known, and the references are spread evenly over
//! the whole trace.

use std::cell::Cell;

use crate::{Error, Event, Trace};

/// The virtual time of each record of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualTime {
    /// (records, references) at each mark and at both ends, ascending in both. Empty: a record is a
    /// reference.
    points: Vec<(u64, u64)>,
    total: u64,
}

impl VirtualTime {
    /// Of this trace. Decodes it once if its records are not references.
    ///
    /// # Errors
    /// What reading the trace says.
    pub fn of(trace: &Trace) -> Result<Self, Error> {
        let totals = &trace.header().totals;
        if trace.header().metadata.window == 0 {
            return Ok(Self { points: Vec::new(), total: totals.records });
        }
        let mut points = vec![(0, 0)];
        let mut marked = 0u64;
        trace.for_each_event(&mut |record, event| {
            if let Event::Mark { references, .. } = event {
                marked = marked.saturating_add(*references);
                // Of marks without a record between them the last one counts; at the very front
                // there is no record that could have taken time.
                match points.last_mut() {
                    Some((at, references)) if *at == record => {
                        *references = if record == 0 { 0 } else { marked };
                    }
                    _ => points.push((record, marked)),
                }
            }
        })?;
        // The program's own count at its end, unless it contradicts the marks.
        let end = totals.references.max(marked);
        match points.last_mut() {
            Some((at, references)) if *at == totals.records && *at > 0 => *references = end,
            _ if totals.records > 0 => points.push((totals.records, end)),
            _ => {}
        }
        let total = points.last().map_or(0, |(_, references)| *references);
        Ok(Self { points, total })
    }

    /// Whether each record is one reference, so that virtual time is exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.points.is_empty()
    }

    /// References completed before record number `record`; of the whole trace if there is no such
    /// record.
    #[inline]
    #[must_use]
    pub fn before(&self, record: u64) -> u64 {
        if self.points.is_empty() { record.min(self.total) } else { self.between_marks(record) }
    }

    /// References of the whole trace.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// [`VirtualTime::before`] for a caller that goes through the trace in order and asks about its
    /// present record or a recent one.
    pub(crate) fn forward(&self) -> impl Fn(u64) -> u64 {
        let latest = Cell::new(0_usize);
        move |record| {
            let after = latest.get();
            let (from, to) = (self.points.get(after.wrapping_sub(1)), self.points.get(after));
            if from.is_some_and(|(at, _)| *at <= record) && to.is_none_or(|(at, _)| record < *at) {
                return self.after_point(after, record);
            }
            let after = self.points_before(record);
            latest.set(latest.get().max(after));
            self.after_point(after, record)
        }
    }

    fn between_marks(&self, record: u64) -> u64 {
        self.after_point(self.points_before(record), record)
    }

    /// Points at or before a record; the first one always is.
    fn points_before(&self, record: u64) -> usize {
        self.points.partition_point(|(at, _)| *at <= record)
    }

    /// Of a record that has `after` points at or before it.
    fn after_point(&self, after: usize, record: u64) -> u64 {
        let (Some((from, low)), Some((to, high))) = (self.points.get(after - 1), self.points.get(after))
        else {
            return self.total;
        };
        let (references, passed, records) = (high - low, record - from, to - from);
        // Dividing 128 bits is slow, and marks are so near to each other that 64 do.
        let share = references.checked_mul(passed).map(|product| product / records);
        low + share
            .unwrap_or_else(|| (u128::from(references) * u128::from(passed) / u128::from(records)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::{EndTotals, Metadata, Writer};

    /// `Some(references)` is a mark, `None` a record.
    fn trace(window: u64, references: u64, steps: &[Option<u64>]) -> Trace {
        let metadata = Metadata { window, ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        for (i, step) in steps.iter().enumerate() {
            match step {
                Some(references) => writer.mark(1_000_000, *references).unwrap(),
                None => writer.reference(i as u64 % 3, false).unwrap(),
            }
        }
        let end = EndTotals { references: Some(references), ..EndTotals::default() };
        Trace::from_bytes(writer.finish(end).unwrap().0.into_inner()).unwrap()
    }

    fn times(time: &VirtualTime, records: u64) -> Vec<u64> {
        (0..=records + 1).map(|record| time.before(record)).collect()
    }

    #[test]
    fn where_every_reference_is_stored_a_record_is_a_reference() {
        let time = VirtualTime::of(&trace(0, 100, &[None, None, Some(50), None])).unwrap();
        assert!(time.is_exact());
        assert_eq!(times(&time, 3), [0, 1, 2, 3, 3]);
    }

    #[test]
    fn otherwise_references_between_marks_are_spread_over_the_records_between_them() {
        let steps = [None, None, Some(20), None, None, None, None, Some(10), None];
        let time = VirtualTime::of(&trace(1, 37, &steps)).unwrap();
        assert!(!time.is_exact());
        assert_eq!(times(&time, 7), [0, 10, 20, 22, 25, 27, 30, 37, 37]);
        let forward = time.forward();
        for record in [0, 1, 0, 3, 2, 6, 1, 7, 8, 6, 4] {
            assert_eq!(forward(record), time.before(record), "{record}");
        }
        assert_eq!(time.total(), 37);
    }

    #[test]
    fn marks_before_the_first_and_after_the_last_record_take_no_time_of_their_own() {
        let time = VirtualTime::of(&trace(4, 8, &[Some(3), None, None, Some(2), Some(1)])).unwrap();
        assert_eq!(times(&time, 2), [0, 4, 8, 8]);
        let time = VirtualTime::of(&trace(4, 8, &[None, None])).unwrap();
        assert_eq!(times(&time, 2), [0, 4, 8, 8]);
        let time = VirtualTime::of(&trace(4, 8, &[])).unwrap();
        assert_eq!((time.before(0), time.total()), (0, 0));
    }
}
