//! The requests in a trace of whole objects.
//!
//! The trace has an object's size where the object begins ([`Event::Alloc`]), and a reference to
//! the object's first page for each request. `import` writes such traces of logs that have sizes
//! ([`sweephand_trace::columns::Columns::whole_objects`]).

use rustc_hash::FxHashMap;
use std::path::PathBuf;
use sweephand_policy::PageId;
use sweephand_sim::SweepError;
use sweephand_trace::{Chunk, Event, Interrupt, Trace};

/// Why whole objects cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SizedError {
    /// The trace cannot be read, has no references, or the user interrupted.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Requests were left out of the trace.
    #[error(
        "{}: is reduced with a window of {window}, and every request counts; import the log again with \
         --whole-objects and without --window",
        path.display()
    )]
    Reduced {
        /// The trace.
        path: PathBuf,
        /// Its window.
        window: u64,
    },
    /// A page is not the first page of an object.
    #[error(
        "{}: page {page_number} is not an object with a size; import the log again with --whole-objects",
        path.display()
    )]
    NoSize {
        /// The trace.
        path: PathBuf,
        /// The page.
        page_number: u64,
    },
}

impl From<sweephand_trace::Error> for SizedError {
    fn from(error: sweephand_trace::Error) -> Self {
        Self::Sweep(error.into())
    }
}

/// How much there is in a trace.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SizedTotals {
    /// Requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Different objects.
    pub objects: u64,
    /// Their bytes, each object counted once, with the last of its sizes.
    pub object_bytes: u64,
    /// Whether any of them has a time to live.
    pub expire: bool,
}

/// Counts what is in a trace of whole objects.
///
/// # Errors
/// The trace cannot be read, has no references, is not one of whole objects, or is reduced.
pub fn totals(trace: &Trace, interrupt: &Interrupt) -> Result<SizedTotals, SizedError> {
    let mut totals = SizedTotals::default();
    let mut last: Vec<u64> = Vec::new();
    for_each_batch(trace, interrupt, |steps| {
        for &Step { object, bytes, lives_ms, .. } in steps.iter().filter(|step| step.is_request()) {
            totals.expire |= lives_ms > 0;
            totals.requests += 1;
            totals.requested_bytes += bytes;
            if last.len() <= object.index() {
                last.resize(object.index() + 1, 0);
            }
            last[object.index()] = bytes;
        }
    })?;
    if totals.requests == 0 {
        return Err(SweepError::Empty { path: trace.name().to_owned() }.into());
    }
    totals.objects = last.iter().filter(|bytes| **bytes > 0).count() as u64;
    totals.object_bytes = last.iter().sum();
    Ok(totals)
}

/// A request for an object of `bytes` bytes. With 0 bytes, the object is deleted.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) object: PageId,
    pub(crate) bytes: u64,
    pub(crate) is_write: bool,
    /// When it comes, in milliseconds.
    pub(crate) now_ms: i64,
    /// How long the object lives if it is loaded or written now, in milliseconds; 0: for ever.
    pub(crate) lives_ms: i64,
}

impl Step {
    pub(crate) fn is_request(&self) -> bool {
        self.bytes > 0
    }

    /// The last moment at which the object lives.
    pub(crate) fn end_ms(&self) -> i64 {
        if self.lives_ms == 0 { i64::MAX } else { self.now_ms.saturating_add(self.lives_ms) }
    }
}

/// Finds the sizes of requests while a trace is read.
#[derive(Default)]
struct Sizes {
    /// Bytes of the object that begins at each address.
    at: FxHashMap<u64, u64>,
    /// Page number and bytes of each page id; no bytes before they are looked up.
    of: Vec<(u64, u64)>,
    now_ms: i64,
    lives_ms: i64,
}

impl Sizes {
    /// The requests and deletions of chunk `index`, in order, instead of what `steps` holds.
    fn steps(
        &mut self,
        trace: &Trace,
        index: usize,
        chunk: &Chunk,
        steps: &mut Vec<Step>,
    ) -> Result<(), SizedError> {
        steps.clear();
        let mut times = trace.times(index, chunk)?.into_iter().peekable();
        let mut lives = trace.times_to_live(index, chunk)?.into_iter().peekable();
        self.of.extend(chunk.new_pages.iter().map(|&number| (number, 0)));
        let page_bytes = trace.header().metadata.page_size;
        let mut events = chunk.events.iter().peekable();
        for (position, reference) in chunk.references.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= position) {
                self.event(event, steps);
            }
            if let Some((_, time)) = times.next_if(|(at, _)| *at as usize <= position) {
                self.now_ms = time;
            }
            if let Some((_, time)) = lives.next_if(|(at, _)| *at as usize <= position) {
                self.lives_ms = time;
            }
            let (number, bytes) = &mut self.of[reference.page() as usize];
            if *bytes == 0 {
                *bytes =
                    *number.checked_mul(page_bytes).and_then(|address| self.at.get(&address)).ok_or_else(
                        || SizedError::NoSize { path: trace.name().to_owned(), page_number: *number },
                    )?;
            }
            let bytes = *bytes;
            steps.push(self.step(reference.page(), bytes, reference.is_write()));
        }
        events.for_each(|(_, event)| self.event(event, steps));
        Ok(())
    }

    fn step(&self, page: u32, bytes: u64, is_write: bool) -> Step {
        Step { object: PageId(page), bytes, is_write, now_ms: self.now_ms, lives_ms: self.lives_ms }
    }

    fn event(&mut self, event: &Event, steps: &mut Vec<Step>) {
        match event {
            Event::Alloc { address, length, .. } => {
                self.at.insert(*address, (*length).max(1));
            }
            Event::Free { address } => {
                self.at.remove(address);
            }
            Event::Drop { pages } => {
                for page in pages.clone() {
                    if let Some((_, bytes)) = self.of.get_mut(page as usize) {
                        *bytes = 0;
                        steps.push(self.step(page, 0, false));
                    }
                }
            }
            Event::Move { page, to } => {
                if let Some(of) = self.of.get_mut(*page as usize) {
                    *of = (*to, 0);
                }
            }
            Event::Mark { .. } | Event::Map { .. } => {}
        }
    }
}

/// Gives `take` the requests and deletions of a trace, a chunk at a time.
pub(crate) fn for_each_batch(
    trace: &Trace,
    interrupt: &Interrupt,
    mut take: impl FnMut(&[Step]),
) -> Result<(), SizedError> {
    let window = trace.header().metadata.window;
    if window > 0 {
        return Err(SizedError::Reduced { path: trace.name().to_owned(), window });
    }
    let (mut sizes, mut chunk, mut steps) = (Sizes::default(), Chunk::new(), Vec::new());
    for number in 0..trace.chunks() {
        trace.read_chunk(number, &mut chunk)?;
        sizes.steps(trace, number, &chunk, &mut steps)?;
        take(&steps);
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted.into());
        }
    }
    Ok(())
}
