//! Read-ahead: finds runs of faults on consecutive pages, and decides how far ahead of each to
//! read.
//!
//! A fault that continues a known stream doubles the stream's window. Any other fault starts a
//! stream with a window of one page. The next window follows at once, and its first page stays in
//! limbo as a trigger. When the program reaches that page, the agent asks for the window after it,
//! so the store stays ahead of the program.

/// Streams followed at a time.
const STREAMS: usize = 16;
/// Pages by which a fault may be ahead of what its stream expects.
const SLACK: usize = 4;
/// Windows of this many pages are worth a trigger.
pub const TRIGGERED_PAGES: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Page number of the next fault, if the run goes on.
    next: usize,
    /// Pages of its latest window.
    window: usize,
    /// When it was last followed.
    time: u64,
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

/// A stream that a fault belongs to.
#[derive(Clone, Copy, Debug)]
pub struct StreamId(usize);

impl ReadAhead {
    /// No streams yet; windows of at most `most` pages.
    pub fn new(most: usize) -> Self {
        Self { streams: [Stream::default(); STREAMS], most: most.max(1), time: 0, latest: 1 }
    }

    /// A fault on a page, by page number: how many pages to bring in, and the stream, which
    /// [`Self::expect`] needs when they are in.
    pub fn fault(&mut self, page_number: usize) -> (usize, StreamId) {
        self.time += 1;
        let expected = |stream: &&mut Stream| {
            stream.window > 0 && (stream.next..stream.next + SLACK).contains(&page_number)
        };
        let known = self.streams.iter_mut().enumerate().find(|(_, stream)| expected(stream));
        let (index, window) = match known {
            Some((index, stream)) => (index, (2 * stream.window).max(SLACK)),
            None => {
                let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.time);
                (oldest.map_or(0, |(index, _)| index), 1)
            }
        };
        let window = window.min(self.most);
        self.latest = window;
        self.streams[index] = Stream { next: page_number + 1, window, time: self.time };
        (window, StreamId(index))
    }

    /// Pages of the latest window: the next is likely to be as large.
    pub fn latest_window(&self) -> usize {
        self.latest
    }

    /// The latest fault had no stream, and this many pages are read for it.
    pub fn set_latest_window(&mut self, pages: usize) {
        self.latest = pages;
    }

    /// The next fault of a stream is expected at this page number.
    pub fn expect(&mut self, stream: StreamId, page_number: usize) {
        self.streams[stream.0].next = page_number;
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
            let (window, stream) = ahead.fault(page);
            windows.push(window);
            page += window;
            ahead.expect(stream, page);
        }
        assert_eq!(windows, [1, 4, 8, 16, 32, 32]);
        assert_eq!(ahead.fault(77).0, 1);
        assert_eq!(ahead.fault(page + 2).0, 32);
    }

    #[test]
    fn two_runs_at_once_do_not_disturb_each_other() {
        let mut ahead = ReadAhead::new(8);
        for step in 0..5 {
            for start in [1000, 5000] {
                let (window, stream) = ahead.fault(start + 8 * step);
                ahead.expect(stream, start + 8 * (step + 1));
                assert_eq!(window, [1, 4, 8, 8, 8][step]);
            }
        }
    }

    #[test]
    fn no_windows_when_switched_off() {
        let mut ahead = ReadAhead::new(0);
        assert!((0..10).all(|page| ahead.fault(page).0 == 1));
    }
}
