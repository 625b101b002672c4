//! The decisions of a trial: which limit is tried next, whether it slows the service down too much,
//! and when the trial is over. It reads no clock and no file.
//!
//! ```text
//!   reference ──▶ step ──good──▶ step ── ... ──▶ too slow, or an alarm
//!       ▲                                              │ up to the start at once
//!       └──────────── reference ◀──────────────────────┘ judged by the references around it
//!
//!   the least good limit ──▶ reference, limit, reference: confirmed, or the one before it
//! ```
//!
//! A *cost* is a number that grows as the service slows down: its latency, the reciprocal of its
//! throughput, or what its waits come to. The slowdown of a limit is the median cost at it divided
//! by that at the start, the *reference*. Services have hours and days: so the reference is
//! measured again after each step that is too slow, and every [`STEPS_A_REFERENCE`] steps. What the
//! trial ends with is measured once more between two references.
//!
//! A slow round is no alarm if the service read no more pages than at the start: something else has
//! slowed it down, and the step is measured again.
//!
//! Above the prediction, the first step is a long one. From there on the limit goes down by
//! [`STEP`], by more where nothing is felt, and halfway back where a step is too slow.

use std::time::Duration;

/// A step is this part of the limit.
const STEP: f64 = 0.04;
/// Where nothing is felt, steps grow to this.
const LONGEST_STEP: f64 = 0.10;
/// The first step goes this much above what is predicted to be enough.
const ABOVE_PREDICTION: f64 = 1.3;
/// Without a prediction the first step is this part of the limit.
const FIRST_STEP: f64 = 0.10;
/// The reference is measured again after this many steps.
const STEPS_A_REFERENCE: u32 = 4;
/// Rounds of a measurement: at least, for the first reference, and at most.
const LEAST_ROUNDS: u32 = 3;
const FIRST_ROUNDS: u32 = 7;
const USUAL_ROUNDS: u32 = 5;
const MOST_ROUNDS: u32 = 25;
/// The time left is enough for this many measurements, if need be with fewer rounds.
const LEAST_MEASUREMENTS: u32 = 14;
/// A step that is only a little too slow is measured again this often.
const RETRIES: u32 = 1;
/// The same of a step that was too slow although no page was read: it was hardly the memory.
const RETRIES_WITHOUT_PAGING: u32 = 3;
/// A slowdown of this many times the one asked for (less 1) in one round is an alarm.
const ALARM: f64 = 4.0;
/// While the service gets used to a limit, that is wider, and this at least.
const ALARM_WHILE_SETTLING: f64 = 12.0;
const LEAST_ALARM_WHILE_SETTLING: f64 = 2.0;
/// Above this slowdown, a limit is not tried again.
const CLIFF: f64 = 3.0;
/// Limits that are tried for confirmation.
const MOST_CONFIRMATIONS: u32 = 3;

/// What a trial keeps to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The service may take this many times as long.
    pub(super) slowdown: f64,
    /// The memory that the service has at the start.
    pub(super) start_bytes: u64,
    /// The limit does not go below this.
    pub(super) floor_bytes: u64,
    /// What is predicted to be enough.
    pub(super) predicted_bytes: Option<u64>,
    /// How long a round is, with the run of the metric.
    pub(super) round: Duration,
    /// When the trial has to be over, by the clock of `now`.
    pub(super) deadline: Duration,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Order {
    /// Put the limit back as it was, and measure.
    Reference { rounds: u32 },
    /// Set this limit, and measure.
    At { bytes: u64, rounds: u32 },
    /// Put the limit back. The trial is over.
    End(Verdict),
}

/// How a trial ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Verdict {
    /// The least limit that kept within the slowdown. `None`: none below what the service has.
    pub(super) least_bytes: Option<u64>,
    /// It was measured between two references.
    pub(super) is_confirmed: bool,
    /// Why nothing less was tried.
    pub(super) end: End,
}

/// Why a trial tries nothing less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Less memory slows the service down too much.
    TooSlow,
    /// Less would not be safe.
    Floor,
    /// The time is over.
    Time,
}

/// Why a limit was raised at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// A round was too slow by far.
    Slow,
    /// A round took several times as long: one step more, and nothing is as it was.
    Cliff,
    /// The service waited for memory too much.
    Pressure,
    /// Processes found no memory.
    OutOfMemory,
    /// The kernel could not take back enough memory.
    Refused,
    /// The time of the trial is over.
    Time,
}

/// What a measurement has found: the cost of each round, or why it was broken off.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    Measured {
        costs: Vec<f64>,
        /// The service read more pages, or waited more, than at the start.
        is_paging: bool,
    },
    Raised(Alarm),
}

impl Outcome {
    /// The median cost. `None`: it was broken off.
    pub(super) fn cost(&self) -> Option<f64> {
        match self {
            Self::Measured { costs, .. } => Some(median(costs)),
            Self::Raised(_) => None,
        }
    }
}

/// What a step was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judgement {
    Good,
    TooSlow,
    Raised(Alarm),
}

#[derive(Clone, PartialEq, Debug)]
enum Phase {
    /// The reference, at the start.
    First(Vec<f64>),
    /// The reference, after some steps.
    Again,
    Step(u64),
    /// The reference after a step that was too slow.
    Judge(u64, Outcome),
    /// The reference before the last limit, that limit, and the reference after it.
    Before(u64),
    Confirm(u64),
    After(u64, Vec<f64>),
    /// Over.
    Ended(Verdict),
}

/// A trial.
#[derive(Debug)]
pub(super) struct Trial {
    rules: Rules,
    phase: Phase,
    /// The cost at the start, as last measured, and its spread as a share.
    reference: f64,
    spread: f64,
    /// Limits that were good, the least last. The first is what the service had.
    good: Vec<u64>,
    /// The largest that was not.
    bad: Option<u64>,
    step: f64,
    steps_since_reference: u32,
    /// The limit that is measured again, and how often it was.
    retried: (u64, u32),
    confirmations: u32,
    end: End,
    rounds: u32,
    /// The longest that a measurement took, and when the present one began.
    measurement: Duration,
    began: Duration,
}

/// The middle of some numbers. 0: there is none.
pub(super) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (_, _) if sorted.is_empty() => 0.0,
        (half, 0) => f64::midpoint(sorted[half - 1], sorted[half]),
        (half, _) => sorted[half],
    }
}

/// How much numbers vary, as a share of their median: their standard deviation, if they are
/// distributed normally. Single ones far off do not count.
pub(super) fn spread(numbers: &[f64]) -> f64 {
    const OF_NORMAL: f64 = 1.4826;
    let middle = median(numbers);
    let off: Vec<f64> = numbers.iter().map(|number| (number - middle).abs()).collect();
    if middle > 0.0 { OF_NORMAL * median(&off) / middle } else { 0.0 }
}

/// The smallest slowdown (less 1) that can be told from noise with this many rounds: twice the
/// standard error of the difference of two medians.
fn smallest_told(spread: f64, rounds: u32) -> f64 {
    const OF_MEDIAN: f64 = 1.2533;
    2.0 * OF_MEDIAN * spread * (2.0 / f64::from(rounds.max(1))).sqrt()
}

impl Trial {
    /// A trial that begins now, and what it begins with.
    pub(super) fn begin(rules: Rules, now: Duration) -> (Self, Order) {
        let trial = Self {
            rules,
            phase: Phase::First(Vec::new()),
            reference: 0.0,
            spread: 0.0,
            good: vec![rules.start_bytes],
            bad: None,
            step: STEP,
            steps_since_reference: 0,
            retried: (0, 0),
            confirmations: 0,
            end: End::TooSlow,
            rounds: USUAL_ROUNDS,
            measurement: Duration::ZERO,
            began: now,
        };
        let rounds = FIRST_ROUNDS.min(trial.affordable(now));
        (trial, Order::Reference { rounds })
    }

    /// Rounds of a measurement for which the time suffices.
    fn affordable(&self, now: Duration) -> u32 {
        let left = self.rules.deadline.saturating_sub(now);
        let each = left.as_secs_f64() / (self.rules.round.as_secs_f64() * f64::from(LEAST_MEASUREMENTS));
        // The service gets used to a limit for a round or two.
        (each as u32).saturating_sub(2).clamp(LEAST_ROUNDS, MOST_ROUNDS)
    }

    /// The slowdown of some costs against the present reference.
    pub(super) fn slowdown(&self, costs: &[f64]) -> f64 {
        if self.reference > 0.0 { median(costs) / self.reference } else { 1.0 }
    }

    /// The slowdown that a measurement found. Infinite: it was broken off.
    pub(super) fn slowdown_of(&self, outcome: &Outcome) -> f64 {
        match outcome {
            Outcome::Measured { costs, .. } => self.slowdown(costs),
            Outcome::Raised(_) => f64::INFINITY,
        }
    }

    /// Whether the start has not been measured yet.
    pub(super) fn lacks_reference(&self) -> bool {
        self.reference <= 0.0
    }

    /// How much the metric varies at the start, as a share.
    pub(super) fn spread(&self) -> f64 {
        self.spread
    }

    /// The smallest slowdown that the trial can tell from noise.
    pub(super) fn smallest_slowdown(&self) -> f64 {
        1.0 + smallest_told(self.spread, self.rounds)
    }

    /// Whether a round is so slow that the limit has to be raised at once.
    pub(super) fn alarm(&self, cost: f64, is_settling: bool) -> Option<Alarm> {
        let asked = self.rules.slowdown - 1.0;
        let most = match is_settling {
            true => (ALARM_WHILE_SETTLING * asked).max(LEAST_ALARM_WHILE_SETTLING - 1.0),
            false => ALARM * asked,
        };
        let slowdown = self.slowdown(&[cost]);
        match slowdown > 1.0 + most + 4.0 * self.spread {
            false => None,
            true if slowdown > CLIFF => Some(Alarm::Cliff),
            true => Some(Alarm::Slow),
        }
    }

    /// What a step is by the present reference.
    pub(super) fn judge(&self, outcome: &Outcome) -> Judgement {
        match outcome {
            Outcome::Raised(alarm) => Judgement::Raised(*alarm),
            Outcome::Measured { costs, .. } if self.slowdown(costs) <= self.rules.slowdown => Judgement::Good,
            Outcome::Measured { .. } => Judgement::TooSlow,
        }
    }

    /// Takes in what a measurement has found, and says what to do next.
    pub(super) fn next(&mut self, outcome: Outcome, now: Duration) -> Order {
        if now >= self.rules.deadline {
            return self.out_of_time(&outcome);
        }
        self.measurement = self.measurement.max(now.saturating_sub(self.began));
        self.began = now;
        let phase = std::mem::replace(&mut self.phase, Phase::Again);
        match phase {
            Phase::First(before) => self.first(before, outcome, now),
            Phase::Again => {
                self.take_reference(&outcome);
                self.choose(now)
            }
            Phase::Step(bytes) => match self.judge(&outcome) {
                Judgement::Good => {
                    self.take_good(bytes, &outcome);
                    self.choose(now)
                }
                _ => self.enter(Phase::Judge(bytes, outcome)),
            },
            Phase::Judge(bytes, found) => {
                self.settle_doubt(bytes, &found, &outcome);
                self.choose(now)
            }
            Phase::Before(bytes) => {
                self.take_reference(&outcome);
                self.enter(Phase::Confirm(bytes))
            }
            Phase::Confirm(bytes) => match outcome {
                Outcome::Measured { costs, .. } => self.enter(Phase::After(bytes, costs)),
                Outcome::Raised(_) => self.deny(bytes, now),
            },
            Phase::After(bytes, costs) => {
                let before = self.reference;
                self.take_reference(&outcome);
                self.reference = f64::midpoint(before, self.reference);
                let is_between = outcome.cost().is_some_and(f64::is_finite);
                match self.slowdown(&costs) <= self.rules.slowdown {
                    true => self.over(Some(bytes), is_between),
                    false => self.deny(bytes, now),
                }
            }
            Phase::Ended(verdict) => self.enter(Phase::Ended(verdict)),
        }
    }

    /// Goes on to a phase.
    fn enter(&mut self, phase: Phase) -> Order {
        let rounds = self.rounds;
        let order = match &phase {
            Phase::Step(bytes) | Phase::Confirm(bytes) => Order::At { bytes: *bytes, rounds },
            Phase::Ended(verdict) => Order::End(*verdict),
            _ => Order::Reference { rounds },
        };
        self.phase = phase;
        order
    }

    fn over(&mut self, least_bytes: Option<u64>, is_confirmed: bool) -> Order {
        self.enter(Phase::Ended(Verdict { least_bytes, is_confirmed, end: self.end }))
    }

    /// The time is over: whatever was being measured, the trial ends with what it has.
    fn out_of_time(&mut self, outcome: &Outcome) -> Order {
        match std::mem::replace(&mut self.phase, Phase::Again) {
            Phase::Ended(verdict) => return self.enter(Phase::Ended(verdict)),
            Phase::Step(bytes) if self.judge(outcome) == Judgement::Good => self.good.push(bytes),
            _ => {}
        }
        self.end = if self.is_narrow() { End::TooSlow } else { End::Time };
        let least = self.least();
        self.over((least < self.rules.start_bytes).then_some(least), false)
    }

    fn take_reference(&mut self, outcome: &Outcome) {
        // Nothing raises the limit of a reference. One without work says nothing of the service.
        if let Some(reference) = outcome.cost().filter(|cost| cost.is_finite()) {
            self.reference = reference;
            self.steps_since_reference = 0;
        }
    }

    /// The first reference says how many rounds a measurement needs, and may need more itself.
    fn first(&mut self, mut costs: Vec<f64>, outcome: Outcome, now: Duration) -> Order {
        let is_first = costs.is_empty();
        if let Outcome::Measured { costs: more, .. } = outcome {
            costs.extend(more);
        }
        if median(&costs).is_finite() {
            (self.reference, self.spread) = (median(&costs), spread(&costs));
        }
        let told = |&rounds: &u32| smallest_told(self.spread, rounds) <= self.rules.slowdown - 1.0;
        let wanted = (USUAL_ROUNDS..MOST_ROUNDS).find(told).unwrap_or(MOST_ROUNDS);
        self.rounds = wanted.min(self.affordable(now));
        let more = self.rounds.saturating_sub(costs.len() as u32);
        if is_first && more > 0 {
            self.phase = Phase::First(costs);
            return Order::Reference { rounds: more };
        }
        self.choose(now)
    }

    fn take_good(&mut self, bytes: u64, outcome: &Outcome) {
        self.good.push(bytes);
        self.steps_since_reference += 1;
        if let Outcome::Measured { costs, .. } = outcome {
            let is_felt = self.slowdown(costs) - 1.0 > (self.rules.slowdown - 1.0) / 3.0;
            self.step = if is_felt { STEP } else { (self.step * 1.25).min(LONGEST_STEP) };
        }
    }

    /// A step was too slow. Was it the service itself, which has become slower meanwhile?
    fn settle_doubt(&mut self, bytes: u64, found: &Outcome, after: &Outcome) {
        let before = self.reference;
        self.take_reference(after);
        let slowdown = match found {
            Outcome::Measured { costs, .. } => median(costs) / f64::midpoint(before, self.reference),
            // It may have been one round.
            Outcome::Raised(Alarm::Slow | Alarm::Pressure) => self.rules.slowdown,
            Outcome::Raised(_) => f64::INFINITY,
        };
        if slowdown <= self.rules.slowdown && matches!(found, Outcome::Measured { .. }) {
            return self.good.push(bytes);
        }
        let (near, most_retries) = match found {
            Outcome::Measured { is_paging: false, .. } => (f64::INFINITY, RETRIES_WITHOUT_PAGING),
            _ => (self.rules.slowdown + smallest_told(self.spread, self.rounds), RETRIES),
        };
        let retries = if self.retried.0 == bytes { self.retried.1 } else { 0 };
        self.retried = (bytes, retries + 1);
        if slowdown > near || retries >= most_retries {
            self.bad = Some(bytes);
            self.step = STEP;
        }
    }

    /// The next limit, or what comes at the end.
    fn choose(&mut self, now: Duration) -> Order {
        let least = self.least();
        let left = self.rules.deadline.saturating_sub(now);
        // A step with the reference after it, and what confirms the last one.
        let is_late = self.measurement * 2 + self.confirmation() > left;
        let Some(target) = self.target().filter(|_| !is_late) else {
            let is_at_floor = self.bad.is_none() && !is_late;
            self.end = if is_late && !self.is_narrow() {
                End::Time
            } else if is_at_floor {
                End::Floor
            } else {
                End::TooSlow
            };
            return self.conclude(least, now);
        };
        if self.steps_since_reference >= STEPS_A_REFERENCE {
            return self.enter(Phase::Again);
        }
        self.enter(Phase::Step(target))
    }

    fn least(&self) -> u64 {
        *self.good.last().unwrap_or(&self.rules.start_bytes)
    }

    fn confirmation(&self) -> Duration {
        self.measurement * 3
    }

    /// Whether the least good limit and the one that was too slow are a step apart.
    fn is_narrow(&self) -> bool {
        self.bad.is_some_and(|bad| {
            let least = self.least();
            least.saturating_sub(bad) as f64 <= 1.1 * STEP * least as f64
        })
    }

    /// The next limit to try. `None`: there is none.
    fn target(&self) -> Option<u64> {
        let least = self.least();
        // What is being measured again.
        if self.retried.1 > 0 && self.bad != Some(self.retried.0) && self.retried.0 < least {
            return Some(self.retried.0);
        }
        if self.is_narrow() {
            return None;
        }
        let down = |part: f64| (least as f64 * (1.0 - part)) as u64;
        let target = match (self.bad, self.rules.predicted_bytes) {
            (Some(bad), _) => u64::midpoint(bad, least),
            (None, Some(predicted)) if self.good.len() == 1 => {
                ((predicted as f64 * ABOVE_PREDICTION) as u64).min(down(STEP))
            }
            (None, None) if self.good.len() == 1 => down(FIRST_STEP),
            (None, _) => down(self.step),
        };
        // Less than half a step above the floor is no step.
        let target = target.max(self.rules.floor_bytes);
        (target < down(STEP / 2.0)).then_some(target)
    }

    /// Has the least good limit confirmed, if there is one and the time suffices.
    fn conclude(&mut self, least: u64, now: Duration) -> Order {
        if least >= self.rules.start_bytes {
            return self.over(None, false);
        }
        let left = self.rules.deadline.saturating_sub(now);
        if self.confirmations >= MOST_CONFIRMATIONS || self.confirmation() > left {
            return self.over(Some(least), false);
        }
        self.confirmations += 1;
        // The reference has just been measured after a step that was too slow.
        if self.steps_since_reference == 0 {
            return self.enter(Phase::Confirm(least));
        }
        self.enter(Phase::Before(least))
    }

    /// The limit was too slow after all: the one before it may do.
    fn deny(&mut self, bytes: u64, now: Duration) -> Order {
        self.good.retain(|good| *good > bytes);
        self.bad = Some(bytes);
        self.end = End::TooSlow;
        self.steps_since_reference = 1;
        self.conclude(self.least(), now)
    }
}

#[cfg(test)]
mod tests;
