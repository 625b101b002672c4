//! The service under trial: its limit is set, and what it does then is measured in rounds.

use super::metric::{IDLE, Metric};
use super::stalls::{Stalls, Waited, cost_of_share};
use super::trial::{Alarm, Order, Outcome, Trial, median};
use anyhow::anyhow;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use sweephand_process::family::faults;
use sweephand_process::group::Group;
use sweephand_process::limit::{LimitError, ServiceCounts, ServiceLimit};
use sweephand_program::wait_for;

/// How often a round looks whether all is well.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// A wait that is shorter says nothing about pressure.
const LEAST_WINDOW: Duration = Duration::from_millis(500);
/// The limit goes down by at most this part at a time, with a pause.
const PART: f64 = 0.03;
const MOST_PART_BYTES: u64 = 256 << 20;
const LEAST_PART_BYTES: u64 = 256 << 10;
const PAUSE: Duration = Duration::from_millis(30);
/// Rounds in which the service gets used to a limit, which do not count.
const SETTLING_ROUNDS: u32 = 1;
const SETTLING_ROUNDS_AT_START: u32 = 2;

/// A service pages if it waits for this many more pages a second than twice those at the start, or
/// for this much more of its time.
const PAGING_FAULTS: f64 = 5.0;
const PAGING_SHARE: f64 = 0.02;

/// Why a trial stops before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// A signal came.
    Signal,
    /// The service has ended, or its cgroup is gone.
    Ended,
    /// Something is wrong: the metric, or the limit, which somebody else has changed.
    Error(anyhow::Error),
}

impl From<LimitError> for Halt {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Gone(_) => Self::Ended,
            error => Self::Error(error.into()),
        }
    }
}

/// What a measurement has found, for the report.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// The metric of each round.
    pub(super) values: Vec<f64>,
    /// The share of the time that was waits.
    pub(super) stalled: Option<f64>,
    pub(super) major_faults_per_second: f64,
    pub(super) refaults_per_second: Option<f64>,
    /// Memory that was charged at the end.
    pub(super) usage_bytes: u64,
}

/// The service.
pub(super) struct Subject {
    pub(super) limit: ServiceLimit,
    pub(super) group: Group,
    pub(super) stalls: Option<Stalls>,
    pub(super) metric: Option<Metric>,
    pub(super) signals: OwnedFd,
    /// When the trial has to be over.
    pub(super) deadline: Instant,
    /// How long a round is at least.
    pub(super) every: Duration,
    /// The share of waits above that at the start at which the limit is raised at once.
    pub(super) most_stalled: f64,
    /// The share at the start, and the faults a second.
    pub(super) usually_stalled: f64,
    pub(super) usual_faults: f64,
}

/// A round.
struct Round {
    cost: f64,
    value: Option<f64>,
    alarm: Option<Alarm>,
    is_paging: bool,
}

/// What is looked at from a moment on: whether the limit has to be raised, or the time is over.
struct Lookout {
    began: Instant,
    /// When waits were last read.
    looked: Instant,
    kills_before: u64,
    waited: Option<Waited>,
    /// The share of waits since it began. `None`: it is not known yet.
    share: Option<f64>,
    /// The share above that at the start at which the limit is raised. `None`: none is too much.
    most_stalled: Option<f64>,
    /// The limit is lower, and can be raised.
    is_lowered: bool,
}

impl Subject {
    /// Carries an order out.
    pub(super) fn measure(&mut self, order: Order, trial: &Trial) -> Result<(Outcome, Measured), Halt> {
        let (bytes, rounds) = match order {
            Order::Reference { rounds } => (None, rounds),
            Order::At { bytes, rounds } => (Some(bytes), rounds),
            Order::End(_) => (None, 0),
        };
        let (began, before) = (Instant::now(), self.limit.counts()?);
        let waited = self.waited()?;
        let (mut costs, mut is_paging) = (Vec::new(), false);
        let mut measured = Measured::default();
        let mut alarm = match bytes {
            None => {
                self.limit.restore()?;
                None
            }
            Some(bytes) => self.lower_to(bytes)?,
        };
        let settling = if bytes.is_some() { SETTLING_ROUNDS } else { SETTLING_ROUNDS_AT_START };
        let mut start = (began, before, waited);
        for number in 0..settling + rounds {
            if alarm.is_some() {
                break;
            }
            let is_settling = number < settling;
            if number == settling {
                start = (Instant::now(), self.limit.counts()?, self.waited()?);
            }
            let round = self.round(bytes.is_some(), is_settling)?;
            let is_slow = || trial.alarm(round.cost, is_settling).filter(|_| round.is_paging);
            alarm = round.alarm.or_else(|| is_slow().filter(|_| bytes.is_some()));
            is_paging |= round.is_paging && !is_settling;
            if !is_settling || alarm.is_some() {
                costs.push(round.cost);
                measured.values.extend(round.value);
            }
        }
        if alarm.is_some() {
            self.limit.restore()?;
        } else if bytes.is_none() && trial.lacks_reference() && !median(&costs).is_finite() {
            return Err(Halt::Error(anyhow!(IDLE)));
        }
        let (began, before, waited) = start;
        let (time, now) = (began.elapsed(), self.limit.counts()?);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / time.as_secs_f64().max(1e-9);
        measured.stalled = self.waited()?.zip(waited).map(|(now, before)| now.share_since(before, time));
        measured.major_faults_per_second = rate(now.major_faults, before.major_faults);
        measured.refaults_per_second =
            now.refaults.zip(before.refaults).map(|(now, before)| rate(now, before));
        measured.usage_bytes = now.usage_bytes;
        if bytes.is_none() {
            self.usually_stalled = measured.stalled.unwrap_or_default();
            self.usual_faults = measured.major_faults_per_second;
        }
        Ok((alarm.map_or(Outcome::Measured { costs, is_paging }, Outcome::Raised), measured))
    }

    fn waited(&mut self) -> Result<Option<Waited>, Halt> {
        let processes = self.group.members().map_err(|error| Halt::Error(error.into()))?;
        if processes.is_empty() {
            return Err(Halt::Ended);
        }
        Ok(self.stalls.as_mut().map(|stalls| stalls.read(&processes)))
    }

    /// Faults so far for which its processes have waited. The cgroup's own count is told some
    /// seconds late.
    fn major_faults(&mut self) -> u64 {
        let processes = self.group.members().unwrap_or_default();
        processes.into_iter().filter_map(faults).map(|(_, major)| major).sum()
    }

    /// Lowers the limit in small parts. Each has the kernel take memory back in this thread.
    fn lower_to(&mut self, bytes: u64) -> Result<Option<Alarm>, Halt> {
        let usage_bytes = self.limit.counts()?.usage_bytes;
        let part = (usage_bytes as f64 * PART) as u64;
        let part = part.clamp(LEAST_PART_BYTES, MOST_PART_BYTES);
        let mut lookout = self.lookout(true, true)?;
        // Taking memory back is a wait of this command.
        if self.stalls.as_ref().is_some_and(Stalls::is_of_machine) {
            lookout.most_stalled = None;
        }
        // In version 2 a service may use more than its limit.
        let mut next = usage_bytes.min(self.limit.original_bytes().unwrap_or(u64::MAX));
        loop {
            next = next.saturating_sub(part).max(bytes);
            match self.limit.set(next) {
                Err(LimitError::Refused(_)) => return Ok(Some(Alarm::Refused)),
                set => set?,
            }
            let alarm = self.look(&mut lookout, false)?;
            if alarm.is_some() || next == bytes {
                return Ok(alarm);
            }
            pause(&self.signals, PAUSE)?;
        }
    }

    /// Begins to look.
    fn lookout(&mut self, is_lowered: bool, is_settling: bool) -> Result<Lookout, Halt> {
        let most_stalled =
            if is_settling { f64::midpoint(self.most_stalled, 1.0) } else { self.most_stalled };
        let now = Instant::now();
        Ok(Lookout {
            began: now,
            looked: now,
            kills_before: self.limit.counts()?.oom_kills,
            waited: self.waited()?,
            share: None,
            most_stalled: Some(most_stalled),
            is_lowered,
        })
    }

    /// Looks whether all is well. `is_over`: it is the last time.
    fn look(&mut self, lookout: &mut Lookout, is_over: bool) -> Result<Option<Alarm>, Halt> {
        if is_over || lookout.looked.elapsed() >= LEAST_WINDOW {
            lookout.looked = Instant::now();
            let time = lookout.looked - lookout.began;
            lookout.share =
                self.waited()?.zip(lookout.waited).map(|(now, before)| now.share_since(before, time));
        }
        let is_pressed = lookout
            .share
            .zip(lookout.most_stalled)
            .is_some_and(|(share, most)| share - self.usually_stalled > most);
        let counts = self.limit.counts()?;
        let alarm = no_memory(&counts, lookout.kills_before).or(is_pressed.then_some(Alarm::Pressure));
        let is_late = Instant::now() >= self.deadline;
        Ok(alarm.filter(|_| lookout.is_lowered).or(is_late.then_some(Alarm::Time)))
    }

    /// A round: until the metric is there, and for as long as a round is.
    fn round(&mut self, is_lowered: bool, is_settling: bool) -> Result<Round, Halt> {
        let mut lookout = self.lookout(is_lowered, is_settling)?;
        let began = lookout.began;
        let faults_before = self.major_faults();
        let mut run = self.metric.as_ref().map(Metric::start).transpose().map_err(Halt::Error)?;
        let mut value = None;
        loop {
            pause(&self.signals, LOOK)?;
            self.limit.check()?;
            if let (Some(metric), Some(running)) = (&self.metric, &mut run) {
                value = match metric.value(running) {
                    Ok(value) => value,
                    // A service that has ended has no figure.
                    Err(error) => return Err(self.waited().err().unwrap_or(Halt::Error(error))),
                };
                if value.is_some() {
                    run = None;
                }
            }
            let is_over = run.is_none() && began.elapsed() >= self.every;
            let alarm = self.look(&mut lookout, is_over)?;
            if alarm.is_some() || is_over {
                let share = lookout.share;
                let cost = match (&self.metric, value) {
                    (Some(metric), Some(value)) => metric.is.cost(value),
                    (Some(_), None) => f64::INFINITY,
                    (None, _) => cost_of_share(share.unwrap_or_default()),
                };
                let faults = self.major_faults().saturating_sub(faults_before) as f64;
                let is_paging = faults
                    > (2.0 * self.usual_faults + PAGING_FAULTS) * began.elapsed().as_secs_f64()
                    || share.is_some_and(|share| share > self.usually_stalled + PAGING_SHARE);
                return Ok(Round { cost, value, alarm, is_paging });
            }
        }
    }
}

/// Waits, unless a signal comes. It stays in the pipe, and ends the next wait as well.
pub(super) fn pause(signals: &OwnedFd, time: Duration) -> Result<(), Halt> {
    let [is_signal] = wait_for([signals], time);
    if is_signal { Err(Halt::Signal) } else { Ok(()) }
}

impl Measured {
    /// The median of the metric.
    pub(super) fn value(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| median(&self.values))
    }
}

/// Whether processes find no memory, or have been killed for that.
fn no_memory(counts: &ServiceCounts, kills_before: u64) -> Option<Alarm> {
    (counts.is_out_of_memory || counts.oom_kills > kills_before).then_some(Alarm::OutOfMemory)
}

#[cfg(test)]
mod tests;
