//! A simulation's counts by class of reference. A class is, for example, the pages of an index, the
//! I/O stream beside a program, or the first half of a run.
//!
//! The engine does not know about classes: see `stretches`.

use crate::stretches::{advance, stretches};
use crate::sweep::feed;
use crate::{Simulation, Sweep, SweepError, simulation};
use sweephand_policy::PageId;
use sweephand_trace::{Chunk, Trace};

/// What belongs to one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// References (records of the trace).
    pub records: u64,
    /// References to pages that were not resident.
    pub faults: u64,
    /// Those of them that were the first reference to the page, or the first after its contents
    /// were dropped.
    pub first_touch_faults: u64,
    /// Those taken while a frame was free.
    pub warmup_faults: u64,
    /// Pages resident at the end, each in the class of its last reference.
    pub resident_pages: u64,
}

impl ClassCounts {
    /// Faults on pages that had been in memory before: all but the first touches.
    pub fn refaults(&self) -> u64 {
        self.faults - self.first_touch_faults
    }

    /// Hits in percent of the references; not a number if there are none.
    pub fn hit_percent(&self) -> f64 {
        100.0 * (1.0 - self.faults as f64 / self.records as f64)
    }
}

impl Sweep {
    /// Runs it as [`Sweep::run`] does, without trajectories, and counts by class: `class_of` says
    /// which class, below `classes`, the reference of a record number to a page id belongs to.
    /// Results are in the order of the cells. Costs a call more for each change of class.
    pub fn run_by_class(
        &self,
        trace: &Trace,
        classes: usize,
        class_of: impl Fn(u64, PageId) -> usize + Sync,
    ) -> Result<Vec<Vec<ClassCounts>>, SweepError> {
        let page_bytes = trace.header().metadata.page_size;
        let mut runs = Vec::new();
        for cell in &self.cells {
            let simulation = simulation(&cell.spec, cell.frames, self.collapse, page_bytes)?;
            runs.push(Run { simulation, counts: vec![ClassCounts::default(); classes] });
        }
        let needs_future = runs.iter().any(|run| run.simulation.needs_future());
        let take = |run: &mut Run, chunk: &Chunk, next_uses: &[u32]| run.take(chunk, next_uses, &class_of);
        feed(trace, &mut runs, needs_future, &take, &|_| {}, &self.interrupt)?;

        // The class of each page's last reference, once for all runs.
        let mut last_class = vec![0; trace.header().totals.page_ids as usize];
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            for (record, reference) in (chunk.first_record..).zip(&chunk.references) {
                last_class[reference.page() as usize] = class_of(record, PageId(reference.page()));
            }
        }
        Ok(runs.into_iter().map(|run| run.finish(&last_class)).collect())
    }
}

/// A simulation with its counts by class.
struct Run {
    simulation: Box<dyn Simulation>,
    counts: Vec<ClassCounts>,
}

impl Run {
    fn take(&mut self, chunk: &Chunk, next_uses: &[u32], class_of: &impl Fn(u64, PageId) -> usize) {
        let references = (chunk.first_record..).zip(&chunk.references);
        let classes = references.map(|(record, reference)| class_of(record, PageId(reference.page())));
        let Self { simulation, counts } = self;
        advance(simulation.as_mut(), chunk, stretches(classes), next_uses, |class, before, after| {
            let counts = &mut counts[class];
            counts.records += after.records - before.records;
            counts.faults += after.faults - before.faults;
            counts.first_touch_faults += after.first_touch_faults - before.first_touch_faults;
            counts.warmup_faults += after.warmup_faults - before.warmup_faults;
        });
    }

    fn finish(mut self, last_class: &[usize]) -> Vec<ClassCounts> {
        for (page, class) in (0..).map(PageId).zip(last_class) {
            self.counts[*class].resident_pages += u64::from(self.simulation.is_resident(page));
        }
        self.counts
    }
}
