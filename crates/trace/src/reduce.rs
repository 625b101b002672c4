//! Reduction to a window of K pages: fewer references, the same LRU and OPT faults.
//!
//! Runs of consecutive references to one page are cut greedily into epochs of at most K distinct
//! pages. Of each page only the first and the last run of an epoch are kept, in time order. The
//! write flags of the dropped runs go into the kept last one. A dropped run lies between two kept
//! runs of the same page with fewer than K distinct pages between them (the "safely allowed drop"
//! of Kaplan, Smaragdakis and Wilson, *Flexible reference trace reduction for VM simulations*, ACM
//! TOMACS 13(1), 2003). So **LRU and OPT take exactly the same faults at every memory of K frames
//! or more**. With K = 1 every run is kept.
//!
//! The two kept runs stay two even if nothing is left between them. Joined into one, a page that is
//! loaded with a clear reference bit would look as if it had not been used again, at any memory
//! size. On cholesky, with 3,417 frames at K = 16, CLOCK would take 4 % fewer faults. For the same
//! reason they stay two when a reduced trace is reduced again.
//!
//! Policies with reference bits can differ if a hand meets a page twice between the two kept runs.
//! Give them 8 K frames. That is enough if hands go round all of memory. It is not enough for
//! a hand that comes back to the pages loaded last, as that of LIFO+ does. Reference counts (LFU,
//! LRU-2 with a correlated period) are not preserved at all.
//!
//! Epochs also end where contents go away or move (UNMAP, REMAP), because a run must not cross the
//! end of its page's life. Other events keep their place between the kept runs. (The recorder ends
//! epochs more often, for example at every event. That is as safe and keeps more: 1,764,362 runs of
//! cholesky at K = 16, instead of 1,332,476 here.)

use rustc_hash::FxHashMap;

use crate::{AllocKind, Error, Sink};

/// Most events held back; an epoch of a long loop in few pages would otherwise collect marks for
/// ever. Ending an epoch early is always safe.
const HELD_EVENTS: usize = 1 << 16;

/// Stands before a sink and hands on the reduced trace. Call [`finish`](Reducer::finish) at the
/// end.
pub struct Reducer<'a, S> {
    sink: &'a mut S,
    window: u64,
    /// Whether two references to one page in a row belong to one run; otherwise each is a run.
    joins: bool,
    /// The run that goes on.
    run: Option<Run>,
    /// The code that makes the references.
    code: Option<u32>,
    /// The epoch's pages.
    pages: FxHashMap<u64, Kept>,
    /// The epoch's events.
    held: Vec<(u64, Held)>,
    /// Runs and events so far: the time order.
    time: u64,
    /// Scratch: the runs an epoch keeps.
    kept: Vec<(u64, u64, bool, Option<u32>)>,
    counts: Counts,
}

/// A run: its page, its write flag, when it began, and by which code.
#[derive(Clone, Copy, Debug)]
struct Run {
    page: u64,
    write: bool,
    began: u64,
    code: Option<u32>,
}

/// What came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References.
    pub references: u64,
    /// Runs of references to one page.
    pub runs: u64,
}

/// What an epoch keeps of a page: (time, write) of its first and its last run, and the code of the
/// first.
#[derive(Debug)]
struct Kept {
    first: (u64, bool),
    code: Option<u32>,
    last: Option<(u64, bool)>,
}

/// An event that waits for its epoch to end.
#[derive(Debug)]
enum Held {
    Alloc(u64, u64, AllocKind),
    Free(u64),
    Mark(u64, u64),
    Map(u64, u64),
    Time(i64),
}

impl<'a, S: Sink> Reducer<'a, S> {
    /// Reduces to a window of `window` pages, at least 1.
    pub fn new(sink: &'a mut S, window: u64) -> Self {
        Self {
            sink,
            window: window.max(1),
            joins: true,
            run: None,
            code: None,
            pages: FxHashMap::default(),
            held: Vec::new(),
            time: 0,
            kept: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Hands on what is left.
    pub fn finish(mut self) -> Result<Counts, Error> {
        self.end_run()?;
        self.end_epoch()?;
        Ok(self.counts)
    }

    /// Takes the run that goes on into its epoch.
    fn end_run(&mut self) -> Result<(), Error> {
        let Some(Run { page, write, began, code }) = self.run.take() else { return Ok(()) };
        self.counts.runs += 1;
        if !self.pages.contains_key(&page) && self.pages.len() as u64 >= self.window {
            self.end_epoch()?;
        }
        self.pages
            .entry(page)
            .and_modify(|kept| {
                let dropped = kept.last.is_some_and(|(_, write)| write);
                kept.last = Some((began, write | dropped));
            })
            .or_insert(Kept { first: (began, write), code, last: None });
        Ok(())
    }

    fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// Hands the epoch's runs and events on, in time order.
    fn end_epoch(&mut self) -> Result<(), Error> {
        for (page, Kept { first, code, last }) in self.pages.drain() {
            self.kept.push((first.0, page, first.1, code));
            self.kept.extend(last.map(|(time, write)| (time, page, write, None)));
        }
        self.kept.sort_unstable();
        let mut held = self.held.drain(..).peekable();
        for (time, page, write, code) in self.kept.drain(..) {
            while let Some((_, event)) = held.next_if(|(at, _)| *at < time) {
                event.hand_on(self.sink)?;
            }
            if let Some(place) = code {
                self.sink.code(place);
            }
            self.sink.reference(page, write)?;
        }
        held.try_for_each(|(_, event)| event.hand_on(self.sink))
    }

    /// Holds a time, in the place of another that no run has come after.
    fn hold_time(&mut self, milliseconds: i64) {
        let latest = self.time;
        match self.held.last_mut() {
            Some((at, Held::Time(time))) if *at == latest => *time = milliseconds,
            _ => {
                let now = self.tick();
                self.held.push((now, Held::Time(milliseconds)));
            }
        }
    }

    fn hold(&mut self, event: Held) -> Result<(), Error> {
        let now = self.tick();
        self.held.push((now, event));
        if self.held.len() >= HELD_EVENTS {
            self.end_run()?;
            self.end_epoch()?;
        }
        Ok(())
    }
}

impl Held {
    fn hand_on(self, sink: &mut impl Sink) -> Result<(), Error> {
        match self {
            Self::Alloc(address, length, kind) => sink.alloc(address, length, kind),
            Self::Free(address) => sink.free(address),
            Self::Mark(instructions, references) => sink.mark(instructions, references),
            Self::Map(first_page, pages) => sink.map(first_page, pages),
            Self::Time(milliseconds) => {
                sink.time(milliseconds);
                Ok(())
            }
        }
    }
}

impl<S: Sink> Sink for Reducer<'_, S> {
    fn reduced_to(&mut self, window: u64) {
        // With a window of 1 every run is there, and only an event can have cut one in two.
        self.joins = window <= 1;
    }
    fn code(&mut self, place: u32) {
        self.code = Some(place);
    }
    fn time(&mut self, milliseconds: i64) {
        self.hold_time(milliseconds);
    }
    #[inline]
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        if self.held.len() >= HELD_EVENTS {
            self.end_run()?;
            self.end_epoch()?;
        }
        self.counts.references += 1;
        match &mut self.run {
            Some(run) if self.joins && run.page == page_number => run.write |= write,
            _ => {
                self.end_run()?;
                let began = self.tick();
                self.run = Some(Run { page: page_number, write, began, code: self.code });
            }
        }
        Ok(())
    }
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        self.hold(Held::Alloc(address, length, kind))
    }
    fn free(&mut self, address: u64) -> Result<(), Error> {
        self.hold(Held::Free(address))
    }
    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        self.hold(Held::Mark(instructions, references))
    }
    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.hold(Held::Map(first_page, pages))
    }
    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        self.end_run()?;
        self.end_epoch()?;
        self.sink.unmap(first_page, pages)
    }
    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        self.end_run()?;
        self.end_epoch()?;
        self.sink.remap(from, to, pages)
    }
}
