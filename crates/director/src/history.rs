//! Read-ahead by history: pages come back in the order in which they came the last time.
//!
//! ```text
//!   the log:   ... a b c d e f g h ... x y   a b c
//!                        ^ read ahead              ^ now
//! ```
//!
//! The log has every fault, in order. When a page comes that came before, the pages that followed
//! it then are likely to follow it now. A run of faults that goes along an earlier part of the log
//! is a stream. Pages are read ahead along it, more of them each time that one is used, and half as
//! many each time that one is not.
//!
//! Addresses play no part. So this also foresees programs that go through several arrays at once,
//! or follow pointers in an order that repeats. Processors prefetch cache lines in the same way:
//! Wenisch et al., "Temporal Streaming of Shared Memory", ISCA 2005.

use crate::pages::make_space;
use std::collections::VecDeque;
use std::ops::Range;
use sweephand_policy::PageId;

/// Streams that are followed at a time.
const STREAMS: usize = 16;
/// A stream may go on up to this many faults further: the pages between are still in memory.
const SKIPPED: usize = 16;
/// Or up to this many back, if pages come in a slightly different order.
const BACK: usize = 4;
/// A page that came at most this many faults ago has come twice for one use.
const SAME: usize = 8;
/// A stream's depth, half of the pages that are read ahead at most: at first, where reading begins,
/// and at least.
const FIRST_DEPTH: f32 = 0.45;
const READS_FROM: f32 = 0.5;
const LEAST_DEPTH: f32 = 0.1;
/// What a used page does to the depth, and an unused one: a stream of which fewer than 7 in 8 pages
/// are used becomes ever shallower.
const GROWTH: f32 = 1.1;
const GROWTH_STEP: f32 = 0.2;
const SHRINKAGE: f32 = 0.5;
/// What a fault adds that comes in turn, until something is read. It may skip some.
const TRUST: f32 = 0.05;
const IN_TURN: usize = 4;
/// With fewer pages to read ahead at most, nothing is remembered.
const LEAST_WINDOW: u32 = 2;
const NONE: u32 = u32::MAX;
const NO_STREAM: u8 = u8::MAX;
/// What read a page ahead that no stream did.
const OTHER: u8 = NO_STREAM - 1;

/// A run of faults along an earlier part of the log.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The place of its last fault.
    at: usize,
    /// The first place beyond which nothing has been read ahead.
    next: usize,
    /// Half of the pages that are read ahead at most.
    depth: f32,
    /// When it was last followed.
    time: u64,
}

/// Pages to be read ahead.
#[derive(Debug)]
pub(crate) struct Window {
    stream: u8,
    pub(crate) pages: Vec<PageId>,
}

/// Pages that came back, and those of them that had been read ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returns {
    pub(crate) all: u64,
    pub(crate) ahead: u64,
}

/// The faults so far, and where they repeat.
#[derive(Debug)]
pub(crate) struct History {
    /// A ring of `capacity` faults. `head` is the place of the next one.
    log: Vec<PageId>,
    capacity: usize,
    head: usize,
    /// The places of the log that no fault has filled.
    recalled: Range<usize>,
    /// By page: its last place in the log.
    last: Vec<u32>,
    /// By page: the stream that had it read ahead, or `OTHER`, until it is used.
    reader: Vec<u8>,
    streams: Vec<Stream>,
    /// Pages that were read ahead, the oldest first.
    ahead: VecDeque<PageId>,
    /// Most pages to read ahead along a stream.
    most: u32,
    time: u64,
    returns: Returns,
    unused: u64,
    /// Pages that have left the log since they were last taken.
    lost: Vec<PageId>,
}

impl Window {
    /// Pages that were found in another way.
    pub(crate) fn found_otherwise(pages: Vec<PageId>) -> Self {
        Self { stream: OTHER, pages }
    }
}

impl History {
    /// A history of at most `capacity` faults. It reads up to `most` pages ahead along a stream.
    pub(crate) fn new(capacity: usize, most: u32) -> Self {
        Self {
            log: Vec::new(),
            capacity: capacity.clamp(2 * (SKIPPED + BACK), NONE as usize - 1),
            head: 0,
            recalled: 0..0,
            last: Vec::new(),
            reader: Vec::new(),
            streams: Vec::with_capacity(STREAMS),
            ahead: VecDeque::new(),
            most,
            time: 0,
            returns: Returns::default(),
            unused: 0,
            lost: Vec::new(),
        }
    }

    /// A page was there before the first fault: it counts as if it had come now. Returns whether
    /// there is room for more.
    pub(crate) fn recall(&mut self, page: PageId) -> bool {
        if self.most < LEAST_WINDOW || self.is_full() {
            return false;
        }
        self.know(page);
        if self.last[page.index()] == NONE {
            self.append(page);
            self.recalled.end = self.log.len();
        }
        true
    }

    fn is_full(&self) -> bool {
        self.log.len() == self.capacity
    }

    /// Whether the log has a page.
    pub(crate) fn has(&self, page: PageId) -> bool {
        self.last.get(page.index()).is_some_and(|&last| last != NONE)
    }

    /// A page came because it was touched. Returns pages that are likely to follow, and that have
    /// not been read ahead. Some of them may be in memory.
    pub(crate) fn fault(&mut self, page: PageId) -> Option<Window> {
        if self.most < LEAST_WINDOW {
            return None;
        }
        self.know(page);
        let before = self.last[page.index()];
        if before != NONE && (1..=SAME).contains(&self.distance(before as usize, self.head)) {
            self.reader[page.index()] = NO_STREAM;
            return None;
        }
        // A page that the log has lost was not foreseen. Until the log is full, such a page is new.
        // Whether a page is foreseen that was not seen to come says nothing.
        let is_return =
            if before == NONE { self.is_full() } else { !self.recalled.contains(&(before as usize)) };
        self.returns.all += u64::from(is_return);
        self.returns.ahead += u64::from(is_return && self.is_ahead(page));
        if let Some(stream) = self.streams.get_mut(usize::from(self.reader[page.index()])) {
            stream.depth = (stream.depth * GROWTH + GROWTH_STEP).min(self.most as f32 / 2.0);
        }
        self.append(page);
        if before == NONE { None } else { self.follow(before as usize) }
    }

    fn know(&mut self, page: PageId) {
        while self.last.len() <= page.index() {
            make_space(&mut self.last);
            make_space(&mut self.reader);
            self.last.push(NONE);
            self.reader.push(NO_STREAM);
        }
    }

    /// Pages from one place of the log to a later one.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.capacity - from }
    }

    fn after(&self, place: usize, pages: usize) -> usize {
        (place + pages) % self.capacity
    }

    fn append(&mut self, page: PageId) {
        let place = self.head;
        if self.recalled.contains(&place) {
            self.recalled.start = place + 1;
        }
        if let Some(oldest) = self.log.get_mut(place) {
            let oldest = std::mem::replace(oldest, page);
            if self.last[oldest.index()] == place as u32 {
                self.last[oldest.index()] = NONE;
                self.lost.push(oldest);
            }
        } else {
            make_space(&mut self.log);
            self.log.push(page);
        }
        self.last[page.index()] = place as u32;
        self.reader[page.index()] = NO_STREAM;
        self.head = self.after(place, 1);
    }

    /// A fault repeats the one at a place.
    fn follow(&mut self, place: usize) -> Option<Window> {
        self.time += 1;
        let goes_on = |stream: &Stream| {
            self.distance(stream.at, place) <= SKIPPED || self.distance(place, stream.at) <= BACK
        };
        let Some(index) = self.streams.iter().position(goes_on) else {
            self.begin(place);
            return None;
        };
        let mut stream = Stream { at: place, time: self.time, ..self.streams[index] };
        let skipped = self.distance(self.streams[index].at, place);
        if stream.depth < READS_FROM && (1..=IN_TURN).contains(&skipped) {
            stream.depth += TRUST;
        }
        // How many faults of the log there are from this one on, and how many of them have been
        // looked at.
        let there = self.distance(place, self.head);
        let mut done = self.distance(place, stream.next);
        if done == 0 || done > there {
            // It has gone beyond what was read ahead.
            done = 1;
        }
        let mut pages = Vec::new();
        if (done - 1) as f32 <= stream.depth {
            let end = (1 + (2.0 * stream.depth) as usize).min(there.saturating_sub(SAME));
            while done < end {
                let page = self.log[self.after(place, done)];
                // If it came again later, it is foreseen there.
                let is_last = self.last[page.index()] as usize == self.after(place, done);
                if is_last && !self.is_ahead(page) {
                    pages.push(page);
                }
                done += 1;
            }
        }
        stream.next = self.after(place, done);
        self.streams[index] = stream;
        (!pages.is_empty()).then_some(Window { stream: index as u8, pages })
    }

    fn begin(&mut self, place: usize) {
        let next = self.after(place, 1);
        let stream = Stream { at: place, next, depth: FIRST_DEPTH, time: self.time };
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.time) {
            *oldest = stream;
        }
    }

    /// Whether a page has been read ahead and not been used since.
    pub(crate) fn is_ahead(&self, page: PageId) -> bool {
        self.reader.get(page.index()).is_some_and(|&reader| reader != NO_STREAM)
    }

    /// A page that was read ahead is not in memory any more.
    pub(crate) fn is_gone(&mut self, page: PageId) {
        if let Some(reader) = self.reader.get_mut(page.index()) {
            *reader = NO_STREAM;
        }
    }

    /// These pages of a window are being read. At most `room` pages may have been read ahead and
    /// not been used: the oldest beyond that count as unused.
    pub(crate) fn asked(&mut self, window: &Window, room: usize) {
        let room = room.max(2 * self.most as usize);
        for &page in &window.pages {
            self.know(page);
            self.reader[page.index()] = window.stream;
            self.ahead.push_back(page);
        }
        while self.ahead.len() > room {
            let Some(oldest) = self.ahead.pop_front() else { break };
            let reader = std::mem::replace(&mut self.reader[oldest.index()], NO_STREAM);
            self.unused += u64::from(reader != NO_STREAM);
            if let Some(stream) = self.streams.get_mut(usize::from(reader)) {
                stream.depth = (stream.depth * SHRINKAGE).max(LEAST_DEPTH);
            }
        }
    }

    /// Nothing has happened yet, but for what was counted.
    pub(crate) fn forget_all(&mut self) {
        let counted = (self.returns, self.unused);
        *self = Self::new(self.capacity, self.most);
        (self.returns, self.unused) = counted;
    }

    /// A page is gone, and its id may become another's.
    pub(crate) fn forget(&mut self, page: PageId) {
        if page.index() < self.last.len() {
            (self.last[page.index()], self.reader[page.index()]) = (NONE, NO_STREAM);
        }
    }

    /// Pages that have left the log since they were last taken, and did not come again.
    pub(crate) fn take_lost(&mut self) -> Vec<PageId> {
        let mut lost = std::mem::take(&mut self.lost);
        lost.sort_unstable();
        lost.dedup();
        lost.retain(|page| self.last[page.index()] == NONE);
        lost
    }

    /// Pages that came back.
    pub(crate) fn returns(&self) -> Returns {
        self.returns
    }

    /// Pages that were read ahead and not used.
    pub(crate) fn unused(&self) -> u64 {
        self.unused
    }

    /// Bytes that this takes.
    pub(crate) fn bytes(&self) -> usize {
        self.log.capacity() * size_of::<PageId>()
            + self.last.capacity() * (size_of::<u32>() + size_of::<u8>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 200;

    /// Faults of some pages, where pages that were read ahead are used. Returns how many of them
    /// had been, and how many were read.
    fn run(history: &mut History, pages: impl Iterator<Item = u32>) -> (usize, usize) {
        let (mut used, mut read) = (0, 0);
        for page in pages {
            used += usize::from(history.is_ahead(PageId(page)));
            if let Some(window) = history.fault(PageId(page)) {
                read += window.pages.len();
                history.asked(&window, ROOM);
            }
        }
        (used, read)
    }

    /// Pages in an order that has nothing to do with their numbers.
    fn shuffled(count: u32) -> impl Iterator<Item = u32> + Clone {
        (0..count).map(move |step| step * 7919 % count)
    }

    #[test]
    fn repeated_faults_are_read_ahead() {
        let mut history = History::new(10_000, 128);
        assert_eq!(run(&mut history, shuffled(4000)), (0, 0));
        let (used, read) = run(&mut history, shuffled(4000));
        assert!(used > 3900 && read < 4100, "{used} {read}");
    }

    #[test]
    fn pages_that_stayed_and_an_order_that_differs_a_little_do_no_harm() {
        let mut history = History::new(10_000, 128);
        run(&mut history, shuffled(4000));
        let order: Vec<u32> = shuffled(4000).enumerate().filter(|(n, _)| n % 5 > 0).map(|(_, p)| p).collect();
        let swapped = order.chunks(2).flat_map(|two| two.iter().rev().copied());
        let (used, read) = run(&mut history, swapped);
        assert!(used > 2800, "{used} {read}");
    }

    #[test]
    fn unrepeated_faults_are_rarely_read_ahead() {
        let mut history = History::new(10_000, 128);
        run(&mut history, shuffled(4001));
        let (_, read) = run(&mut history, (0..4001).map(|step| step * 1009 % 4001));
        assert!(read < 200, "{read}");
    }

    #[test]
    fn a_ring_that_is_too_small_foresees_nothing_and_forgets_pages() {
        let mut history = History::new(1000, 128);
        for _ in 0..3 {
            assert_eq!(run(&mut history, shuffled(4000)), (0, 0));
        }
        assert!(history.log.len() == 1000);
        assert_eq!(history.last.iter().filter(|&&last| last != NONE).count(), 1000);
    }

    #[test]
    fn a_ring_that_has_turned_many_times_foresees_as_well() {
        let mut history = History::new(1500, 128);
        for round in 0..20 {
            let (used, _) = run(&mut history, shuffled(1000));
            assert!(round == 0 || used > 900, "{round}: {used}");
        }
    }

    #[test]
    fn recalled_pages_are_foreseen_and_do_not_count_as_returns() {
        let mut history = History::new(10_000, 128);
        assert!((0..4000).all(|page| history.recall(PageId(page))));
        let (used, _) = run(&mut history, 0..2000);
        assert!(used > 1900 && history.returns().all == 0, "{used}");
        let (used, _) = run(&mut history, 0..2000);
        let returns = history.returns();
        assert!(used > 1900 && returns.all == 2000 && returns.ahead > 1900, "{returns:?}");
    }

    #[test]
    fn no_more_is_recalled_than_the_log_holds() {
        let mut history = History::new(1000, 128);
        assert_eq!((0..3000).filter(|&page| history.recall(PageId(page))).count(), 1000);
        // What was not recalled was not foreseen, and none of it was seen to come before.
        run(&mut history, 2000..2600);
        let returns = history.returns();
        assert!(returns.all == 600 && returns.ahead == 0, "{returns:?}");
    }

    #[test]
    fn nothing_is_remembered_if_nothing_is_read_ahead() {
        let mut history = History::new(1000, 1);
        assert!(!history.recall(PageId(0)));
        assert_eq!(run(&mut history, (0..500).chain(0..500)), (0, 0));
        assert_eq!(history.bytes(), 0);
    }

    #[test]
    fn unused_pages_make_streams_shallow() {
        let mut history = History::new(10_000, 128);
        run(&mut history, shuffled(2000));
        run(&mut history, shuffled(2000).take(500));
        let deep = history.streams.iter().map(|stream| stream.depth).fold(0.0, f32::max);
        assert_eq!(deep, 64.0);
        // Each page of the old order is followed by others now.
        let others = shuffled(2000).skip(500).flat_map(|page| [page, 5000 + page, 8000 + page]);
        run(&mut history, others.take(600));
        assert!(history.unused() == 0);
        run(&mut history, shuffled(2000).skip(900).step_by(20).chain(9000..9200));
        assert!(history.streams.iter().any(|stream| stream.depth < 64.0));
    }

    #[test]
    fn a_page_that_is_forgotten_is_another() {
        let mut history = History::new(1000, 128);
        run(&mut history, 0..100);
        history.forget(PageId(1));
        let (used, _) = run(&mut history, [0, 2, 3, 4, 5, 6, 7, 8, 1, 9, 10].into_iter());
        assert!(used > 3);
        assert!((0..100).all(|page| history.last[page] != NONE));
    }
}
