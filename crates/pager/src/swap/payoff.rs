//! Whether it pays to read ahead for a program that is left to the kernel.
//!
//! To foresee pages takes memory: the director has to know what came when. The program has that
//! much less. If its memory is nearly as large as its working set, a hundredth less can cost a
//! fifth more reads. So the director goes on only if many of the pages that come back had been read
//! ahead. Otherwise it frees its memory, and tries again after a pause, which is twice as long each
//! time.

use std::time::Instant;

/// Of the pages that come back, so many had to be read ahead: one in so many.
const USED_PART: u64 = 4;
/// The share is taken over so many pages that come back, as part of the limit, and at least.
const SAMPLE_PART: u64 = 8;
const LEAST_SAMPLE: u64 = 1024;
/// A pause is so many times as long as what showed that it does not pay, at first and at most.
const FIRST_PAUSE: u32 = 3;
const LONGEST_PAUSE: u32 = 1024;

/// Pages that came back, and those of them that had been read ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returns {
    pub(super) all: u64,
    pub(super) ahead: u64,
}

/// Whether it pays.
#[derive(Debug)]
pub(super) struct Payoff {
    sample: u64,
    /// The counts and the time when the sample began, if the director reads ahead.
    start: Option<(Returns, Instant)>,
    /// Otherwise when it tries again.
    again: Instant,
    pause: u32,
}

impl Payoff {
    /// The director reads ahead at first.
    pub(super) fn new(limit_pages: usize, now: Instant) -> Self {
        let sample = (limit_pages as u64 / SAMPLE_PART).max(LEAST_SAMPLE);
        Self { sample, start: Some((Returns::default(), now)), again: now, pause: FIRST_PAUSE }
    }

    /// The sample begins anew: something else has happened meanwhile.
    pub(super) fn restart(&mut self, returns: Returns, now: Instant) {
        self.start = Some((returns, now));
    }

    /// Whether to read ahead from now on.
    pub(super) fn look(&mut self, returns: Returns, now: Instant) -> bool {
        let Some((before, began)) = self.start else { return now >= self.again };
        let all = returns.all.saturating_sub(before.all);
        if all < self.sample {
            return true;
        }
        if USED_PART * returns.ahead.saturating_sub(before.ahead) >= all {
            self.pause = FIRST_PAUSE;
            self.start = Some((returns, now));
            return true;
        }
        self.again = now + (now - began) * self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        self.start = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PAGES: usize = 40_000;

    #[test]
    fn what_pays_goes_on() {
        let start = Instant::now();
        let mut payoff = Payoff::new(PAGES, start);
        for step in 1..100 {
            let returns = Returns { all: 1000 * step, ahead: 400 * step };
            assert!(payoff.look(returns, start + Duration::from_millis(10 * step)));
        }
    }

    #[test]
    fn what_does_not_pay_ends_and_is_tried_again_ever_more_rarely() {
        let start = Instant::now();
        let mut payoff = Payoff::new(PAGES, start);
        let (mut returns, mut on, mut tries) = (Returns::default(), true, Vec::new());
        for step in 1..100_000 {
            let now = start + Duration::from_millis(step);
            if on {
                returns.all += 100;
                returns.ahead += 20;
            }
            let is_on = payoff.look(returns, now);
            if is_on && !on {
                payoff.restart(returns, now);
                tries.push(step);
            }
            on = is_on;
        }
        let pauses: Vec<u64> = tries.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(tries.len() > 3 && tries.len() < 12, "{tries:?}");
        assert!(pauses.windows(2).all(|two| two[1] > two[0] * 3 / 2), "{pauses:?}");
    }

    #[test]
    fn a_program_that_needs_few_pages_is_not_judged() {
        let start = Instant::now();
        let mut payoff = Payoff::new(PAGES, start);
        assert!(payoff.look(Returns { all: 4000, ahead: 0 }, start + Duration::from_secs(60)));
    }
}
