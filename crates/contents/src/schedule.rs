//! When pages are read, and how many.
//!
//! How long a run becomes is not known. So moments come at even steps, and when there are
//! [`MOST_MOMENTS`] of them, every other one is forgotten, and the step becomes that between those
//! that remain. From half as many up are there at the end, spread evenly over the run.
//!
//! A moment reads as many pages as fit the budget: a part of the time so far, less what earlier
//! moments have cost. So the first moments of a run read only a few.

use std::time::Duration;

/// Moments that are kept at most.
pub(crate) const MOST_MOMENTS: usize = 64;
/// Pages of a moment at most, and at least: for fewer, a moment is left out.
const MOST_PAGES: u32 = 256;
const LEAST_PAGES: u32 = 4;
/// The first step.
const FIRST_STEP: Duration = Duration::from_millis(25);
/// What a page costs as long as nothing is known.
const USUAL_PAGE: Duration = Duration::from_micros(25);

/// The moments of a run.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The part of the time that reading may take.
    share: f64,
    step: Duration,
    /// When the last moment was, and when the next is, from the start.
    last: Duration,
    next: Duration,
    /// Processor time that moments have taken, and the pages that they have read.
    spent: Duration,
    pages: u32,
    kept: usize,
}

impl Schedule {
    pub(crate) fn new(share: f64) -> Self {
        let (last, next) = (Duration::ZERO, FIRST_STEP);
        Self { share, step: FIRST_STEP, last, next, spent: Duration::ZERO, pages: 0, kept: 0 }
    }

    /// How many pages to read at this time, from the start of the run. `None`: it is no moment.
    pub(crate) fn pages_at(&mut self, time: Duration) -> Option<usize> {
        if time < self.next {
            return None;
        }
        (self.last, self.next) = (time, time + self.step);
        let page = self.spent.checked_div(self.pages).unwrap_or(USUAL_PAGE).max(Duration::from_nanos(1));
        let left = time.mul_f64(self.share).saturating_sub(self.spent);
        let pages = (left.div_duration_f64(page) as u32).min(MOST_PAGES);
        (pages >= LEAST_PAGES).then_some(pages as usize)
    }

    /// A moment has taken this much processor time for some pages.
    pub(crate) fn took(&mut self, cost: Duration, pages: usize) {
        self.spent += cost;
        self.pages = self.pages.saturating_add(pages as u32);
    }

    /// The moment is kept. Returns whether every other one has to be forgotten.
    pub(crate) fn keep(&mut self) -> bool {
        self.kept += 1;
        let is_full = self.kept == MOST_MOMENTS;
        if is_full {
            self.kept /= 2;
            self.step = self.last / self.kept as u32;
        }
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    /// The moments that remain of a run, and what all have cost, if a page costs 20 us and a moment
    /// 100 us more.
    fn run(length: Duration, share: f64) -> (Vec<Duration>, Duration) {
        let mut schedule = Schedule::new(share);
        let (mut moments, mut spent) = (Vec::new(), Duration::ZERO);
        let every = Duration::from_millis(5).max(length / 100_000);
        for time in (1..).map(|turn| every * turn).take_while(|time| *time < length) {
            let Some(pages) = schedule.pages_at(time) else { continue };
            let cost = Duration::from_micros(100 + 20 * pages as u64);
            spent += cost;
            moments.push(time);
            schedule.took(cost, pages);
            if schedule.keep() {
                let mut number = 0;
                moments.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
            }
        }
        (moments, spent)
    }

    #[test]
    fn moments_are_spread_over_runs_of_any_length_and_cost_their_share() {
        for seconds in [2, 10, 100, 3_600, 100_000] {
            let _input = trying(|| format!("{seconds} s"));
            let length = Duration::from_secs(seconds);
            let (moments, spent) = run(length, 0.005);
            assert!((MOST_MOMENTS / 2 - 1..MOST_MOMENTS).contains(&moments.len()), "{}", moments.len());
            assert!(spent <= length.mul_f64(0.0055), "{spent:?}");
            let gaps = moments.windows(2).map(|pair| pair[1] - pair[0]);
            let longest = gaps.max().unwrap().max(moments[0]).max(length - moments[moments.len() - 1]);
            assert!(longest < length / 10, "{longest:?}");
        }
    }

    #[test]
    fn a_budget_that_is_spent_leaves_moments_out() {
        let mut schedule = Schedule::new(0.005);
        let at = Duration::from_secs;
        assert_eq!(schedule.pages_at(at(1)), Some(200), "of 25 us each, as is supposed");
        schedule.took(Duration::from_millis(50), 200);
        assert_eq!(schedule.pages_at(at(1)), None, "the next is later");
        assert_eq!(schedule.pages_at(at(2)), None, "too much is spent");
        assert_eq!(schedule.pages_at(at(30)), Some(256));
        assert_eq!(Schedule::new(0.0).pages_at(at(1000)), None);
    }
}
