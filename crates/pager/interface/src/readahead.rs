//! Read-ahead: finds runs of faults, and decides how far ahead of each to read.
//!
//! A fault that continues a known stream doubles the stream's window. Any other fault starts a
//! stream with a window of one page. The next window follows at once, and its first page stays in
//! limbo as a trigger. When the program reaches that page, the agent asks for the window after it,
//! so the store stays ahead of the program.
//!
//! A stream goes to higher addresses or to lower ones; its second fault says which. A run may have
//! gaps: a program that uses every second page, or pages of which some have stayed in memory. So a
//! window is a number of pages to bring in, and the pages in memory between them do not count.

/// Streams followed at a time.
const STREAMS: usize = 64;
/// Pages by which a fault may be ahead of what its stream expects.
const SLACK: usize = 8;
/// Pages of a stream's second window.
const FIRST_PAGES: usize = 4;
/// A window is looked for in this many times its pages: the others may be in memory.
const SPAN: usize = 4;
/// Windows of this many pages are worth a trigger.
pub const TRIGGERED_PAGES: usize = 8;

/// Whether the pages of a window of this many pages are read in advance: the first of them is a
/// trigger, and no thread waits for them as long as the store keeps up.
pub const fn foresees(window: usize) -> bool {
    window >= TRIGGERED_PAGES
}

/// Where a run of faults goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Course {
    /// To higher addresses.
    #[default]
    Upward,
    /// To lower addresses.
    Downward,
}

impl Course {
    /// The page number that comes `pages` pages after another.
    pub fn after(self, page_number: usize, pages: usize) -> usize {
        match self {
            Self::Upward => page_number + pages,
            Self::Downward => page_number.saturating_sub(pages),
        }
    }

    /// `pages` page numbers one after another, from the given one on.
    pub fn from(self, page_number: usize, pages: usize) -> impl Iterator<Item = usize> {
        (0..pages).map(move |index| self.after(page_number, index))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Page number of the latest fault.
    latest: usize,
    /// Page number of the next fault, if the run goes on.
    next: usize,
    /// Pages of its latest window. 0: no stream.
    window: usize,
    course: Course,
    /// When it was last followed.
    time: u64,
}

impl Stream {
    /// Which way the stream goes on with a fault on this page, if it does.
    fn goes_on_with(&self, page_number: usize) -> Option<Course> {
        let is_upward = (self.next..self.next + SLACK).contains(&page_number);
        // After one fault, a stream may still go either way.
        let is_downward = match self.course {
            Course::Upward => {
                self.window == 1 && (page_number + 1..=page_number + SLACK).contains(&self.latest)
            }
            Course::Downward => (page_number..page_number + SLACK).contains(&self.next),
        };
        match (self.window, self.course) {
            (0, _) => None,
            (_, Course::Upward) if is_upward => Some(Course::Upward),
            _ => is_downward.then_some(Course::Downward),
        }
    }
}

/// The streams.
#[derive(Debug)]
pub struct ReadAhead {
    streams: [Stream; STREAMS],
    /// Most pages of a window.
    most: usize,
    /// Faults so far.
    time: u64,
    /// Pages of the latest window.
    latest: usize,
}

/// The stream that a fault belongs to, and what to bring in for it.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    stream: usize,
    /// Pages to bring in at once, the one of the fault included.
    pub window: usize,
    /// Where they are.
    pub course: Course,
}

impl Run {
    /// The page numbers among which a window is looked for, the given one first.
    pub fn span(&self, page_number: usize) -> impl Iterator<Item = usize> {
        self.course.from(page_number, if self.window > 1 { SPAN * self.window } else { 1 })
    }
}

impl ReadAhead {
    /// No streams yet; windows of at most `most` pages.
    pub fn new(most: usize) -> Self {
        Self { streams: [Stream::default(); STREAMS], most: most.max(1), time: 0, latest: 1 }
    }

    /// A fault on a page, by page number: how many pages to bring in, and the stream, which
    /// [`Self::expect`] needs when they are in.
    pub fn fault(&mut self, page_number: usize) -> Run {
        self.time += 1;
        let expected = |(index, stream): (usize, &Stream)| Some((index, stream.goes_on_with(page_number)?));
        let (index, window, course) = match self.streams.iter().enumerate().find_map(expected) {
            Some((index, course)) => (index, (2 * self.streams[index].window).max(FIRST_PAGES), course),
            None => {
                let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.time);
                (oldest.map_or(0, |(index, _)| index), 1, Course::Upward)
            }
        };
        let window = window.min(self.most);
        self.latest = window;
        let next = course.after(page_number, 1);
        self.streams[index] = Stream { latest: page_number, next, window, course, time: self.time };
        Run { stream: index, window, course }
    }

    /// Pages of the latest window: the next is likely to be as large.
    pub fn latest_window(&self) -> usize {
        self.latest
    }

    /// The latest fault had no stream, and this many pages are read for it.
    pub fn set_latest_window(&mut self, pages: usize) {
        self.latest = pages;
    }

    /// The next fault of a run is expected at this page number.
    pub fn expect(&mut self, run: Run, page_number: usize) {
        self.streams[run.stream].next = page_number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn windows_double_along_a_run_and_start_anew_elsewhere() {
        let mut ahead = ReadAhead::new(32);
        let mut page = 1000;
        let mut windows = Vec::new();
        for _ in 0..6 {
            let run = ahead.fault(page);
            windows.push(run.window);
            page += run.window;
            ahead.expect(run, page);
        }
        assert_eq!(windows, [1, 4, 8, 16, 32, 32]);
        assert_eq!(ahead.fault(77).window, 1);
        assert_eq!(ahead.fault(page + 2).window, 32);
    }

    #[test]
    fn a_run_may_go_to_lower_addresses() {
        let mut ahead = ReadAhead::new(32);
        let mut page = 1000;
        for window in [1, 4, 8, 16, 32, 32] {
            let run = ahead.fault(page);
            assert_eq!(run.window, window);
            assert_eq!(
                run.course,
                if window == 1 { Course::Upward } else { Course::Downward },
                "window {window}"
            );
            ahead.expect(run, run.course.after(page, run.window));
            page -= run.window;
        }
        // It keeps its course.
        assert_eq!(ahead.fault(page + 2).window, 1);
        let run = ahead.fault(3);
        assert_eq!(Course::Downward.from(3, 2).collect::<Vec<_>>(), [3, 2]);
        ahead.expect(run, 4);
        assert_eq!(ahead.fault(0).course, Course::Downward);
    }

    #[test]
    fn two_runs_at_once_do_not_disturb_each_other() {
        let mut ahead = ReadAhead::new(8);
        for step in 0..5 {
            for start in [1000, 5000] {
                let run = ahead.fault(start + 8 * step);
                ahead.expect(run, start + 8 * (step + 1));
                assert_eq!(run.window, [1, 4, 8, 8, 8][step], "step {step} from {start}");
            }
        }
    }

    /// Every second page: the pages between may be in memory, so a window is looked for in more
    /// pages than it has.
    #[test]
    fn a_window_is_looked_for_beyond_its_own_pages() {
        let mut ahead = ReadAhead::new(128);
        assert_eq!(ahead.fault(1000).span(1000).count(), 1);
        let run = ahead.fault(1002);
        assert_eq!((run.window, run.span(1002).last()), (4, Some(1017)));
    }

    #[test]
    fn switched_off_it_opens_no_windows() {
        let mut ahead = ReadAhead::new(0);
        assert!((0..10).all(|page| ahead.fault(page).window == 1));
    }
}
