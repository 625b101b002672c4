//! What the director does for the program at a time, and how that changes.
//!
//! ```text
//!   stage       who chooses   the director         next
//!   Alone       the kernel    does nothing         Beside      pages come back: see below
//!                                                  Directing   the policy has its turn
//!   Beside      the kernel    reads ahead          Alone       it does not pay
//!                                                  Directing   the policy has its turn
//!   Directing   the policy    pages out what the   Beside      the kernel has its turn
//!                             policy gives up,
//!                             reads ahead
//! ```
//!
//! **Whose turn it is.** Trials decide (`trial`, `turns`). If processes wait for memory, the kernel
//! has given up, and the policy chooses.
//!
//! **Whether it pays** to read ahead beside the kernel. To foresee pages takes memory: the director
//! has to know what came when. The program has that much less. If its memory is nearly as large as
//! its working set, a hundredth less can cost a fifth more reads. So the director goes on only if
//! many of the pages that come back had been read ahead. Otherwise it frees its memory, and tries
//! again after a pause, which is twice as long each time. Where only rounds can tell how far the
//! program comes, it goes on for two of them. A program to which few pages come back is not
//! disturbed at all.

use crate::history::Returns;
use std::time::{Duration, Instant};

/// Reading ahead pays if one in this many of the pages that come back had been read ahead.
const USED_PART: u64 = 4;
/// The share is taken over this many pages that come back: as part of the limit, and at least.
/// Before the director begins, as many have to come back.
const SAMPLE_PART: u64 = 8;
const LEAST_SAMPLE: u64 = 1024;
/// It is this many times the limit while nothing but rounds can tell how far the program comes, and
/// none has been counted: for two rounds of pages that take one and a half times the limit.
const FOR_ROUNDS: u64 = 3;
/// A pause is this many times as long as the attempt that showed that it does not pay: at first,
/// and at most.
const FIRST_PAUSE: u32 = 3;
const LONGEST_PAUSE: u32 = 1024;

/// What the director does.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The kernel is alone. From a time on, pages that come back are counted.
    Alone { from: Instant, start: Option<u64> },
    /// The kernel chooses, and the director reads ahead. The counts when the sample began, and the
    /// time.
    Beside { start: Returns, began: Instant },
    /// The policy chooses, since this time.
    Directing { since: Instant },
}

/// What the director has to do beside the kernel, because the stage has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// It reads ahead from now on.
    Begins,
    /// It stops.
    Ends,
}

/// The stage, and what decides on the next one.
#[derive(Debug)]
pub(crate) struct Stages {
    stage: Stage,
    /// Pages that come back in a sample, and in one that waits for a round.
    sample: u64,
    rounds_sample: u64,
    /// The next pause, as a multiple of the time that the failed sample takes.
    pause: u32,
    /// How long the policy has chosen in earlier turns.
    earlier: Duration,
}

impl Stages {
    /// The kernel is alone at first.
    pub(crate) fn new(limit_pages: usize, now: Instant) -> Self {
        let sample = (limit_pages as u64 / SAMPLE_PART).max(LEAST_SAMPLE);
        let rounds_sample = sample.max(FOR_ROUNDS * limit_pages as u64);
        let stage = Stage::Alone { from: now, start: None };
        Self { stage, sample, rounds_sample, pause: FIRST_PAUSE, earlier: Duration::ZERO }
    }

    /// Whether the policy chooses.
    pub(crate) fn directs(&self) -> bool {
        matches!(self.stage, Stage::Directing { .. })
    }

    /// Whether the director looks at faults, and reads ahead.
    pub(crate) fn watches(&self) -> bool {
        !matches!(self.stage, Stage::Alone { .. })
    }

    /// Whether the policy has had a turn before this one.
    pub(crate) fn has_directed(&self) -> bool {
        !self.earlier.is_zero()
    }

    /// How long the policy has chosen, this turn included.
    pub(crate) fn directed(&self) -> Duration {
        match self.stage {
            Stage::Directing { since } => self.earlier + since.elapsed(),
            _ => self.earlier,
        }
    }

    /// The policy chooses from now on.
    pub(crate) fn begin_directing(&mut self) {
        self.stage = Stage::Directing { since: Instant::now() };
    }

    /// The kernel chooses from now on. `false`: it does already.
    pub(crate) fn let_go(&mut self, returns: Returns) -> bool {
        let directed = self.directs();
        if directed {
            self.earlier = self.directed();
            self.sample_anew(returns, Instant::now());
        }
        directed
    }

    /// The director reads ahead beside the kernel, and the sample begins: what came before, or
    /// during a change, says nothing.
    pub(crate) fn sample_anew(&mut self, returns: Returns, now: Instant) {
        self.stage = Stage::Beside { start: returns, began: now };
    }

    /// Decides whether to read ahead from now on, while the kernel chooses. `refaults`: pages that
    /// came back, as the kernel counts them. The director itself counts only while it reads ahead.
    /// `needs_round`: see [`Turns::need_a_round`](crate::turns::Turns::need_a_round).
    pub(crate) fn look(
        &mut self,
        refaults: u64,
        returns: Returns,
        needs_round: bool,
        now: Instant,
    ) -> Option<Change> {
        match &mut self.stage {
            Stage::Directing { .. } => None,
            Stage::Alone { from, .. } if now < *from => None,
            Stage::Alone { start, .. } => {
                let begins = refaults.saturating_sub(*start.get_or_insert(refaults)) >= self.sample;
                begins.then(|| {
                    self.sample_anew(returns, now);
                    Change::Begins
                })
            }
            &mut Stage::Beside { start, began } => {
                let all = returns.all.saturating_sub(start.all);
                if all < if needs_round { self.rounds_sample } else { self.sample } {
                    return None;
                }
                if USED_PART * returns.ahead.saturating_sub(start.ahead) >= all {
                    self.pause = FIRST_PAUSE;
                    self.sample_anew(returns, now);
                    return None;
                }
                self.stage = Stage::Alone { from: now + (now - began) * self.pause, start: None };
                self.pause = (2 * self.pause).min(LONGEST_PAUSE);
                Some(Change::Ends)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const PAGES: usize = 40_000;

    /// Plays `steps` steps of a millisecond, each with 100 pages that come back. While the director
    /// reads ahead, `ahead` of them have been read ahead. Returns the steps in which it began, and
    /// whether it reads ahead at the end.
    fn play(steps: u64, ahead: u64) -> (Vec<u64>, bool) {
        let start = Instant::now();
        let (mut stages, mut returns) = (Stages::new(PAGES, start), Returns::default());
        let (mut on, mut begun) = (false, Vec::new());
        for step in 1..=steps {
            if on {
                returns.all += 100;
                returns.ahead += ahead;
            }
            let change = stages.look(100 * step, returns, false, start + Duration::from_millis(step));
            if change == Some(Change::Begins) {
                begun.push(step);
            }
            on = stages.watches();
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

    /// Nothing is read ahead, and the director goes on until this many pages have come back.
    #[test]
    fn a_program_that_goes_by_rounds_is_watched_for_two_of_them() {
        let now = Instant::now();
        for (needs_round, pages) in [(false, PAGES / 8), (true, 3 * PAGES)] {
            let mut stages = Stages::new(PAGES, now);
            stages.sample_anew(Returns::default(), now);
            let mut look = |all| stages.look(0, Returns { all, ahead: 0 }, needs_round, now);
            assert_eq!(look(pages as u64 - 1), None, "{needs_round}");
            assert_eq!(look(pages as u64), Some(Change::Ends), "{needs_round}");
        }
    }

    #[test]
    fn a_program_that_needs_few_pages_is_not_disturbed() {
        let start = Instant::now();
        let mut stages = Stages::new(PAGES, start);
        for second in 1..60 {
            let now = start + Duration::from_secs(second);
            assert_eq!(stages.look(80 * second, Returns::default(), false, now), None, "second {second}");
            assert!(!stages.watches(), "second {second}");
        }
    }

    #[test]
    fn the_policy_takes_over_at_any_time_and_the_kernel_is_not_alone_afterwards() {
        let mut stages = Stages::new(PAGES, Instant::now());
        assert!(!stages.let_go(Returns::default()), "it is the kernel's already");
        for _ in 0..2 {
            stages.begin_directing();
            assert!(stages.directs() && stages.watches());
            assert_eq!(stages.look(1 << 20, Returns::default(), false, Instant::now()), None);
            assert!(stages.let_go(Returns::default()) && stages.has_directed());
            assert!(!stages.directs() && stages.watches());
        }
        let directed = stages.directed();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(stages.directed(), directed, "it does not grow under the kernel");
    }
}
