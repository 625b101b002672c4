//! Whose turn it is to choose the pages that go: that of the kernel, or that of the policy.

use crate::budget::Budget;
use crate::parts::Choosers;
use crate::trial::{Chooser, Trials};
use std::time::{Duration, Instant};
use sweephand_process::family::UserTimes;

/// How often the director looks how far the program has come, if the kernel and the policy are
/// tried by turns.
const PROGRESS_PERIOD: Duration = Duration::from_millis(10);
/// A look at many processes takes long. Looks take this part of the time at most.
const PROGRESS_PART: u32 = 50;
/// The longest turn of the director in which nothing happens, if the policy always chooses.
const QUIET_PERIOD: Duration = Duration::from_millis(50);

/// Whose turn it is.
pub(crate) enum Turns {
    /// Always the policy's.
    Fixed,
    /// That of the faster one.
    Tried {
        trials: Box<Trials>,
        began: Instant,
        users: UserTimes,
        /// When it is time to look at the program again.
        due: Instant,
        /// Pages that had come back at the last look.
        refaults: u64,
    },
}

impl Turns {
    /// Begins.
    pub(crate) fn new(choosers: Choosers, budget: &Budget) -> Self {
        let Choosers::Both { read } = choosers else { return Self::Fixed };
        let (now, mut users) = (Instant::now(), UserTimes::default());
        let trials = Box::new(Trials::new(budget.progress(Duration::ZERO, 0, &mut users), read));
        Self::Tried { trials, began: now, users, due: now, refaults: 0 }
    }

    /// Whether it is the policy's turn. Looks at the program, if it is time. `rounds`: how often it
    /// has been through its memory.
    pub(crate) fn is_policys(&mut self, budget: &Budget, rounds: u64) -> bool {
        let Self::Tried { trials, began, users, due, refaults } = self else { return true };
        let now = Instant::now();
        if now >= *due {
            let progress = budget.progress(now - *began, rounds, users);
            *refaults = progress.refaults;
            trials.look(progress);
            *due = now + PROGRESS_PERIOD.max(now.elapsed() * PROGRESS_PART);
        }
        trials.chooser() == Chooser::Policy
    }

    /// Pages that had come back at the last look, as the kernel counts them, if there are looks.
    pub(crate) fn refaults(&self) -> u64 {
        match self {
            Self::Fixed => 0,
            Self::Tried { refaults, .. } => *refaults,
        }
    }

    /// How long a turn of the director may take in which nothing happens.
    pub(crate) fn longest_period(&self) -> Duration {
        match self {
            Self::Fixed => QUIET_PERIOD,
            Self::Tried { .. } => PROGRESS_PERIOD,
        }
    }
}
