//! Whether it pays to read ahead for a program that is left to the kernel.
//!
//! To foresee pages takes memory: the director has to know what came when. The program has that
//! much less. If its memory is nearly as large as its working set, a hundredth less can cost a
//! fifth more reads. So the director goes on only if many of the pages that come back had been read
//! ahead. Otherwise it frees its memory, and tries again after a pause, which is twice as long each
//! time. A program to which few pages come back is not disturbed at all.

use std::time::Instant;

/// Reading ahead pays if one in this many of the pages that come back had been read ahead.
const USED_PART: u64 = 4;
/// The share is taken over this many pages that come back: as part of the limit, and at least.
/// Before the director begins, as many have to come back.
const SAMPLE_PART: u64 = 8;
const LEAST_SAMPLE: u64 = 1024;
/// A pause is this many times as long as the attempt that showed that it does not pay: at first,
/// and at most.
const FIRST_PAUSE: u32 = 3;
const LONGEST_PAUSE: u32 = 1024;

/// Pages that came back, and those of them that had been read ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returns {
    pub(super) all: u64,
    pub(super) ahead: u64,
}

/// What is going on.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The kernel is alone. From a time on, pages that come back are counted.
    Alone { from: Instant, start: Option<u64> },
    /// The director reads ahead. The counts when the sample began, and the time.
    Ahead { start: Returns, began: Instant },
}

/// Whether it pays.
#[derive(Debug)]
pub(super) struct Payoff {
    sample: u64,
    stage: Stage,
    pause: u32,
}

impl Payoff {
    /// The kernel is alone at first.
    pub(super) fn new(limit_pages: usize, now: Instant) -> Self {
        let sample = (limit_pages as u64 / SAMPLE_PART).max(LEAST_SAMPLE);
        Self { sample, stage: Stage::Alone { from: now, start: None }, pause: FIRST_PAUSE }
    }

    /// The sample begins anew: something else has happened meanwhile.
    pub(super) fn restart(&mut self, returns: Returns, now: Instant) {
        self.stage = Stage::Ahead { start: returns, began: now };
    }

    /// Whether to read ahead from now on. `refaults`: pages that came back, as the kernel counts
    /// them. The director itself counts only while it reads ahead.
    pub(super) fn look(&mut self, refaults: u64, returns: Returns, now: Instant) -> bool {
        match &mut self.stage {
            Stage::Alone { from, .. } if now < *from => false,
            Stage::Alone { start, .. } => {
                let begins = refaults.saturating_sub(*start.get_or_insert(refaults)) >= self.sample;
                if begins {
                    self.restart(returns, now);
                }
                begins
            }
            &mut Stage::Ahead { start, began } => {
                let all = returns.all.saturating_sub(start.all);
                if all < self.sample {
                    return true;
                }
                let pays = USED_PART * returns.ahead.saturating_sub(start.ahead) >= all;
                if pays {
                    self.pause = FIRST_PAUSE;
                    self.restart(returns, now);
                } else {
                    self.stage = Stage::Alone { from: now + (now - began) * self.pause, start: None };
                    self.pause = (2 * self.pause).min(LONGEST_PAUSE);
                }
                pays
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PAGES: usize = 40_000;

    /// Plays `steps` steps of a millisecond, each with 100 pages that come back. While the director
    /// reads ahead, `ahead` of them have been read ahead. Returns the steps in which it began, and
    /// whether it reads ahead at the end.
    fn play(steps: u64, ahead: u64) -> (Vec<u64>, bool) {
        let start = Instant::now();
        let (mut payoff, mut returns) = (Payoff::new(PAGES, start), Returns::default());
        let (mut on, mut begun) = (false, Vec::new());
        for step in 1..=steps {
            if on {
                returns.all += 100;
                returns.ahead += ahead;
            }
            let is_on = payoff.look(100 * step, returns, start + Duration::from_millis(step));
            if is_on && !on {
                begun.push(step);
            }
            on = is_on;
        }
        (begun, on)
    }

    #[test]
    fn reading_ahead_goes_on_while_it_pays() {
        assert_eq!(play(10_000, 40), (vec![51], true));
    }

    #[test]
    fn reading_ahead_that_does_not_pay_is_retried_ever_more_rarely() {
        let (begun, _) = play(100_000, 20);
        let pauses: Vec<u64> = begun.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(begun.len() > 3 && begun.len() < 12, "{begun:?}");
        assert!(pauses.windows(2).all(|two| two[1] > two[0] * 3 / 2), "{pauses:?}");
    }

    #[test]
    fn a_program_that_needs_few_pages_is_not_disturbed() {
        let start = Instant::now();
        let mut payoff = Payoff::new(PAGES, start);
        for second in 1..60 {
            let now = start + Duration::from_secs(second);
            assert!(!payoff.look(80 * second, Returns::default(), now));
        }
    }
}
