//! Refault distances: how long evicted pages stay away.
//!
//! The refault distance of an eviction is the number of references that the program makes between
//! the eviction and the fault that brings the page back, by the trace's [`VirtualTime`]. A policy
//! that evicts the right pages has large refault distances. (The APR thesis of 2020, Figure 4.2.)

use crate::{Observer, Outcome, RefaultDistances};
use std::sync::Arc;
use sweephand_policy::PageId;
use sweephand_trace::VirtualTime;

/// The time of eviction of a page that is resident or was never evicted.
const NOT_EVICTED: u64 = u64::MAX;

/// Measures refault distances.
#[derive(Debug)]
pub struct RefaultObserver {
    time: Arc<VirtualTime>,
    /// When each page that is away was evicted, by page id.
    evicted_at: Vec<u64>,
    /// `never_refaulted` counts those that are known not to come back: contents dropped.
    distances: RefaultDistances,
}

impl RefaultObserver {
    /// An observer of a simulation of the trace that `time` is of.
    pub fn new(time: Arc<VirtualTime>) -> Self {
        Self { time, evicted_at: Vec::new(), distances: RefaultDistances::default() }
    }

    /// Takes the time of eviction of a page that is away.
    fn take(&mut self, page: PageId) -> Option<u64> {
        let evicted_at = self.evicted_at.get_mut(page.index())?;
        Some(std::mem::replace(evicted_at, NOT_EVICTED)).filter(|evicted_at| *evicted_at != NOT_EVICTED)
    }
}

impl Observer for RefaultObserver {
    fn fault(&mut self, page: PageId, record: u64) {
        if let Some(evicted_at) = self.take(page) {
            self.distances.refaults += 1;
            self.distances.references += u128::from(self.time.before(record) - evicted_at);
        }
    }

    fn evicted(&mut self, page: PageId, record: u64) {
        if self.evicted_at.len() <= page.index() {
            self.evicted_at.resize(page.index() + 1, NOT_EVICTED);
        }
        self.evicted_at[page.index()] = self.time.before(record);
    }

    fn dropped(&mut self, page: PageId) {
        if let Some(evicted_at) = self.take(page) {
            self.distances.never(evicted_at, self.time.total());
        }
    }

    fn report(&self, outcome: &mut Outcome) {
        let mut distances = self.distances;
        let away = self.evicted_at.iter().filter(|evicted_at| **evicted_at != NOT_EVICTED);
        away.for_each(|evicted_at| distances.never(*evicted_at, self.time.total()));
        outcome.refault_distances = Some(distances);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Sweep};
    use std::io::Cursor;
    use sweephand_policy::registry::Spec;
    use sweephand_trace::{EndTotals, Metadata, Trace, Writer};

    fn trace(fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Trace {
        reduced(0, fill)
    }

    /// A trace that says that it was reduced to a window.
    fn reduced(window: u64, fill: impl FnOnce(&mut Writer<Cursor<Vec<u8>>>)) -> Trace {
        let metadata = Metadata { window, ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        fill(&mut writer);
        let (file, _) = writer.finish(EndTotals::default()).unwrap();
        Trace::from_bytes(file.into_inner()).unwrap()
    }

    fn distances(trace: &Trace, policy: &str, frames: usize) -> RefaultDistances {
        let cells = vec![Cell { spec: Spec::parse(policy).unwrap(), frames }];
        let sweep = Sweep { cells, refault_distances: true, ..Sweep::default() };
        sweep.run(trace, &|_| {}).unwrap()[0].0.refault_distances.unwrap()
    }

    /// FIFO with two frames, the fault of each reference and what it evicts:
    ///
    /// | time  | 0 | 1 | 2     | 3 | 4     | 5     |
    /// |-------|---|---|-------|---|-------|-------|
    /// | page  | 1 | 2 | 3     | 2 | 1     | 2     |
    /// | fault | 1 | 2 | 3, -1 |   | 1, -2 | 2, -3 |
    #[test]
    fn distances_run_from_eviction_to_refault_and_to_the_end() {
        let trace = trace(|writer| {
            [1, 2, 3, 2, 1, 2].into_iter().for_each(|page| writer.reference(page, false).unwrap());
        });
        let expected = RefaultDistances {
            refaults: 2,
            references: (4 - 2) + (5 - 4),
            never_refaulted: 1,
            references_to_end: 6 - 5,
        };
        let measured = distances(&trace, "fifo", 2);
        assert_eq!(measured, expected);
        assert_eq!(measured.mean(), Some(1.5));
        assert_eq!(measured.mean_with_end(), Some(4.0 / 3.0));
        assert_eq!(distances(&trace, "fifo", 3).mean(), None, "nothing was evicted");
    }

    /// The same string reduced, as it were: ten references before the first mark, at three records,
    /// and 60 after it.
    #[test]
    fn distances_count_references_where_records_stand_for_several() {
        let trace = reduced(1, |writer| {
            [1, 2, 3].into_iter().for_each(|page| writer.reference(page, false).unwrap());
            writer.mark(1000, 10).unwrap();
            [2, 1, 2].into_iter().for_each(|page| writer.reference(page, false).unwrap());
            writer.mark(1000, 60).unwrap();
        });
        // Record 2 is at reference 2/3 of 10, record 4 at 10 + 1/3 of 60, record 5 at 10 + 2/3
        // of 60.
        let measured = distances(&trace, "fifo", 2);
        assert_eq!((measured.refaults, measured.references), (2, (30 - 6) + (50 - 30)));
        assert_eq!((measured.never_refaulted, measured.references_to_end), (1, 70 - 50));
    }

    #[test]
    fn contents_that_are_dropped_never_come_back() {
        let trace = trace(|writer| {
            [1, 2, 3].into_iter().for_each(|page| writer.reference(page, false).unwrap());
            writer.unmap(1, 1).unwrap();
            [1, 1].into_iter().for_each(|page| writer.reference(page, false).unwrap());
        });
        // Page 1 is evicted at 2; when it is touched again at 3 it is a new page, for which 2 goes.
        let expected = RefaultDistances {
            refaults: 0,
            references: 0,
            never_refaulted: 2,
            references_to_end: (5 - 2) + (5 - 3),
        };
        assert_eq!(distances(&trace, "fifo", 2), expected);
    }

    #[test]
    fn opt_is_measured_by_simulation_and_sends_pages_furthest_away() {
        // A loop one page larger than memory.
        let trace = trace(|writer| {
            (0..12).for_each(|time| writer.reference(time % 4, false).unwrap());
        });
        // FIFO: every page comes back at once, that is, at the reference after its eviction.
        assert_eq!(distances(&trace, "fifo", 3).mean(), Some(1.0));
        // OPT evicts the page referenced just before, which is away for as many references as there
        // are other pages: 3.
        assert_eq!(distances(&trace, "opt", 3).mean(), Some(3.0));
        let sizes = [1, 2, 3, 4];
        let cells = sizes.map(|frames| Cell { spec: Spec::parse("opt").unwrap(), frames }).to_vec();
        let sweep = |refault_distances| Sweep { cells: cells.clone(), refault_distances, ..Sweep::default() };
        let faults = |refault_distances| -> Vec<u64> {
            let results = sweep(refault_distances).run(&trace, &|_| {}).unwrap();
            results.iter().map(|(outcome, _)| outcome.faults).collect()
        };
        assert_eq!(faults(true), faults(false), "one simulation a size counts what one pass for all does");
    }
}
