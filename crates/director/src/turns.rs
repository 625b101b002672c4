//! Whose turn it is to choose the pages that go: that of the kernel, or that of the policy. And
//! whether a zram device is used.

use crate::budget::Budget;
use crate::compression::Compression;
use crate::parts::{Choosers, Parts};
use crate::trial::{Chooser, Progress, Trials};
use std::time::{Duration, Instant};
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_process::family::UserTimes;

/// How often the director looks how far the program has come, if something depends on that.
const PROGRESS_PERIOD: Duration = Duration::from_millis(10);
/// A look at many processes takes long. Looks take this part of the time at most.
const PROGRESS_PART: u32 = 50;
/// The longest turn of the director in which nothing happens, if nothing does.
const QUIET_PERIOD: Duration = Duration::from_millis(50);

/// Whose turn it is.
pub(crate) struct Turns {
    /// Who chooses the pages. `None`: always the policy.
    trials: Option<Trials>,
    /// The zram device, if it is only used while it pays.
    compression: Option<Compression>,
    began: Instant,
    users: UserTimes,
    /// When it is time to look at the program again.
    due: Instant,
    /// How far the program had come at the last look, and when the director began to watch it.
    progress: Progress,
    watched_from: Progress,
}

impl Turns {
    /// Begins.
    pub(crate) fn new(parts: &Parts) -> Self {
        let (began, mut users) = (Instant::now(), UserTimes::default());
        let start = parts.budget.progress(Duration::ZERO, 0, &mut users);
        let trials = match parts.choosers {
            Choosers::Policy => None,
            Choosers::Both { read } => Some(Trials::new(start, read)),
        };
        let tried = parts.budget.zram().cloned().zip(parts.zram_trial.clone());
        let limit_bytes = parts.budget.limit_pages() as u64 * PAGE_BYTES;
        let compression = tried.map(|(zram, trial)| Compression::new(zram, trial, limit_bytes, start));
        Self { trials, compression, began, users, due: began, progress: start, watched_from: start }
    }

    /// Whether it is the policy's turn. Looks at the program, if it is time. `rounds`: how often it
    /// has been through its memory.
    pub(crate) fn is_policys(&mut self, budget: &Budget, rounds: u64) -> bool {
        let now = Instant::now();
        if self.goes_by_progress() && now >= self.due {
            let progress = budget.progress(now - self.began, rounds, &mut self.users);
            self.progress = progress;
            if let Some(compression) = &mut self.compression {
                compression.look(progress, || budget.processes());
            }
            let is_disturbed = self.compression.as_ref().is_some_and(Compression::is_changing);
            if let Some(trials) = &mut self.trials {
                if is_disturbed { trials.skip(progress) } else { trials.look(progress) }
            }
            self.due = now + PROGRESS_PERIOD.max(now.elapsed() * PROGRESS_PART);
        }
        self.trials.as_ref().is_none_or(|trials| trials.chooser() == Chooser::Policy)
    }

    fn goes_by_progress(&self) -> bool {
        self.trials.is_some() || self.compression.is_some()
    }

    /// The director begins to watch the program's faults.
    pub(crate) fn begin_to_watch(&mut self) {
        self.watched_from = self.progress;
    }

    /// Whether the trials need a round of the program, and none has been counted.
    pub(crate) fn need_a_round(&self) -> bool {
        self.trials.is_some()
            && self.progress.rounds == 0
            && self.progress.since(self.watched_from).hardly_computes()
    }

    /// Pages that had come back from the disk at the last look, as the kernel counts them, if there
    /// are looks. To read ahead from a zram device hardly pays.
    pub(crate) fn refaults(&self) -> u64 {
        self.progress.disk_refaults()
    }

    /// How often the use of the zram device has changed.
    pub(crate) fn compression_changes(&self) -> u64 {
        self.compression.as_ref().map_or(0, Compression::changes)
    }

    /// How long a turn of the director may take in which nothing happens.
    pub(crate) fn longest_period(&self) -> Duration {
        if self.goes_by_progress() { PROGRESS_PERIOD } else { QUIET_PERIOD }
    }
}
