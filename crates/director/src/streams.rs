//! Read-ahead: runs of faults on pages that follow each other, and how far ahead of each to read.
//!
//! The kernel itself reads up to eight pages around a fault. A run that goes on is worth more: the
//! kernel is asked for a window of pages ahead of it, which doubles as long as the run goes on. It
//! is asked again when half of a window has been used, so that the disk stays ahead of the program.

use crate::pages::SpaceId;
use std::ops::Range;

/// Runs that are followed at a time.
const STREAMS: usize = 64;
/// Pages by which a fault may be ahead of where its run should go on: some pages of a run may be in
/// memory.
const SLACK: u64 = 8;
/// Faults of a run before the kernel is asked.
const SURE: u32 = 3;
/// Pages of the first window.
const FIRST_PAGES: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct Stream {
    space: SpaceId,
    /// The page that the run should go on with.
    next: u64,
    /// Whether it goes to lower addresses.
    is_downward: bool,
    /// Faults so far.
    faults: u32,
    /// Pages to ask for next.
    window: u64,
    /// The first page, in its direction, that has not been asked for.
    end: u64,
    /// When it was last followed.
    time: u64,
}

/// The runs.
#[derive(Debug)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    /// Most pages to ask for at once.
    most: u64,
    time: u64,
}

impl Streams {
    /// None yet; windows of at most `most` pages.
    pub(crate) fn new(most: u32) -> Self {
        Self { streams: Vec::with_capacity(STREAMS), most: most.into(), time: 0 }
    }

    /// A page came back into memory because it was touched. Returns the pages to be read ahead.
    pub(crate) fn fault(&mut self, space: SpaceId, number: u64) -> Option<Range<u64>> {
        self.time += 1;
        let time = self.time;
        let known = self.streams.iter_mut().find(|stream| stream.goes_on_with(space, number));
        let Some(stream) = known else {
            self.begin(space, number);
            return None;
        };
        if stream.faults == 1 && number < stream.next {
            stream.is_downward = true;
            stream.end = number;
        }
        (stream.faults, stream.time) = (stream.faults + 1, time);
        stream.next = if stream.is_downward { number.wrapping_sub(1) } else { number + 1 };
        // How much has been asked for beyond this page.
        let left = if stream.is_downward {
            (number + 1).saturating_sub(stream.end)
        } else {
            stream.end.saturating_sub(number)
        };
        if stream.faults < SURE || 2 * left > stream.window || self.most < 2 {
            return None;
        }
        let window = stream.window.min(self.most);
        stream.window = 2 * window;
        Some(if stream.is_downward {
            let end = stream.end.min(number);
            stream.end = end.saturating_sub(window);
            stream.end..end
        } else {
            let start = stream.end.max(number + 1);
            stream.end = start + window;
            start..stream.end
        })
    }

    fn begin(&mut self, space: SpaceId, number: u64) {
        let stream = Stream {
            space,
            next: number + 1,
            is_downward: false,
            faults: 1,
            window: FIRST_PAGES,
            end: number + 1,
            time: self.time,
        };
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.time) {
            *oldest = stream;
        }
    }
}

impl Stream {
    fn goes_on_with(&self, space: SpaceId, number: u64) -> bool {
        let upward = self.next..self.next + SLACK;
        let downward = (self.next + 1).saturating_sub(SLACK)..self.next + 1;
        self.space == space
            && match (self.faults, self.is_downward) {
                // Its second fault says in which direction it goes.
                (1, _) => upward.contains(&number) || (downward.contains(&number) && number + 1 < self.next),
                (_, true) => downward.contains(&number),
                (_, false) => upward.contains(&number),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(0);

    /// What is asked for during a run, in order.
    fn asked(streams: &mut Streams, numbers: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        numbers.filter_map(|number| streams.fault(SPACE, number)).collect()
    }

    #[test]
    fn windows_double_along_a_run_and_leave_nothing_out() {
        let windows = asked(&mut Streams::new(64), 1000..1400);
        let lengths: Vec<u64> = windows.iter().map(|range| range.end - range.start).collect();
        assert_eq!(lengths[..5], [8, 16, 32, 64, 64]);
        assert_eq!(windows[0].start, 1003);
        assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(windows.last().unwrap().end > 1400);
    }

    #[test]
    fn a_run_may_go_down() {
        let windows = asked(&mut Streams::new(32), (600..=1000).rev());
        let lengths: Vec<u64> = windows.iter().map(|range| range.end - range.start).collect();
        assert_eq!(lengths[..4], [8, 16, 32, 32]);
        assert_eq!(windows[0].end, 998);
        assert!(windows.windows(2).all(|pair| pair[1].end == pair[0].start));
    }

    #[test]
    fn scattered_faults_open_no_window() {
        let mut streams = Streams::new(128);
        assert!(asked(&mut streams, (0..1000).map(|step| step * 7919 % 100_003)).is_empty());
        assert!(asked(&mut Streams::new(0), 0..1000).is_empty());
    }

    #[test]
    fn runs_at_once_do_not_disturb_each_other() {
        let mut streams = Streams::new(64);
        let both = (0..200).flat_map(|step| [1000 + step, 90_000 - step]);
        assert!(asked(&mut streams, both).len() > 8);
    }
}
