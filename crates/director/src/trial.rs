//! Who chooses the pages that leave memory: the kernel, or the policy. The faster of the two, as
//! trials by turns show.
//!
//! ```text
//!   the kernel          | the policy, tried    | whoever was faster ...     | the other, tried | ...
//!   |-- a stretch ------| warm-up |- stretch --| stretch | stretch | ...    |
//! ```
//!
//! A stretch ends when the program has computed for a while: user time, which does not depend on
//! how long the program waits for pages. A program that hardly computes, but goes through its
//! memory over and over, is measured by its rounds instead (`rounds`): a stretch is one of them.
//! What a stretch costs is the time on the clock for this much progress. A trial begins with a
//! warm-up that does not count, since memory still holds what the other one has chosen. A trial
//! that can no longer be won ends at once. The loser is tried again after twice as many stretches
//! each time, or when the winner's stretches take much longer than they did.
//!
//! What a program does changes, and with it what a stretch costs. So the policy has to be clearly
//! faster, and the kernel has its turn again soon.
//!
//! While the kernel chooses, the director reads ahead for it. So the policy is not tried on every
//! program. Where the program waits for many pages although they are read ahead, it touches single
//! pages here and there: which of these stay makes a small difference. Where it hardly waits for
//! single pages, and computes for a part of the time only, the disk cannot bring all that is read.
//! Then a policy that keeps the right pages has less read.

use std::time::Duration;

/// User time of a stretch. The kernel counts user time in steps of 10 ms.
const STRETCH: Duration = Duration::from_millis(100);
/// A program computes for less than this part of the time if it is measured by its rounds.
const HARDLY: f64 = 0.05;
/// A challenger wins if its stretch takes this part of the time at most. The policy has to be
/// clearly faster. The kernel wins if it is nearly as fast: it takes less of the processor.
const POLICY_WINS_AT: f64 = 0.8;
const KERNEL_WINS_AT: f64 = 1.1;
/// A warm-up may take this many times as long as it would have without the change.
const SLOW_WARM_UP: f64 = 2.0;
/// Stretches until a loser is tried for the second time.
const FIRST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 1024;
/// Two stretches in a row that take this many times as long as the winner's first say that the
/// program does something else now.
const CHANGED: f64 = 1.5;
const CHANGED_STRETCHES: u32 = 2;
/// Stretches under the kernel that have to promise something before the first trial.
const FIRST_STRETCHES: u32 = 2;
/// If single reads of the pages that come back would take less than this part of the time, there
/// is nothing to be gained.
const READING: f64 = 0.05;
/// What a read takes if nobody has measured it: on a fast SSD.
const USUAL_READ: Duration = Duration::from_micros(27);
/// Nor if a stretch takes less than this many times its user time. Measured: the policy gains on
/// numpy, whose stretches take eight times as long. On mawk and sort, where they take twice as
/// long, trials cost more than the policy gains.
const SLOW: f64 = 3.0;
/// Pages that come back for each fault that waits, if nearly all of them are read ahead. Measured
/// under the kernel: numpy 57, mawk 52, ocean 13, sort 11, radix 5.7, java 4.5, fft 4.0, perl and
/// python with lists 1.8, xz 1.0.
const FORESEEN: f64 = 8.0;

/// Who chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chooser {
    /// The kernel's own replacement.
    Kernel,
    /// The policy.
    Policy,
}

impl Chooser {
    fn other(self) -> Self {
        match self {
            Self::Kernel => Self::Policy,
            Self::Policy => Self::Kernel,
        }
    }
}

/// By what a program is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measure {
    /// The user time of its processes.
    User,
    /// Its rounds.
    Rounds,
}

impl Measure {
    /// Stretches that a warm-up takes. A round in which pages are exchanged says nothing.
    fn warm_up(self) -> f64 {
        match self {
            Self::User => 0.5,
            Self::Rounds => 1.0,
        }
    }
}

/// How far a program has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Time since some moment.
    pub(crate) clock: Duration,
    /// User time of its processes.
    pub(crate) user: Duration,
    /// How often it has been through its memory, as far as the faults tell.
    pub(crate) rounds: u64,
    /// Faults that waited for a page that had been paged out.
    pub(crate) waits: u64,
    /// Pages that came back, those that were read ahead included.
    pub(crate) refaults: u64,
    /// Those of them that came from a zram device.
    pub(crate) decompressed: u64,
}

impl Progress {
    pub(crate) fn since(self, start: Self) -> Self {
        Self {
            clock: self.clock - start.clock,
            user: self.user - start.user,
            rounds: self.rounds - start.rounds,
            // A count that cannot be read is 0.
            waits: self.waits.saturating_sub(start.waits),
            refaults: self.refaults.saturating_sub(start.refaults),
            decompressed: self.decompressed.saturating_sub(start.decompressed),
        }
    }

    /// Faults that waited for the disk: each page of a zram device comes by itself.
    pub(crate) fn disk_waits(self) -> u64 {
        self.waits.saturating_sub(self.decompressed)
    }

    /// Pages that came back from the disk.
    pub(crate) fn disk_refaults(self) -> u64 {
        self.refaults.saturating_sub(self.decompressed)
    }

    /// Stretches.
    fn stretches(self, measure: Measure) -> f64 {
        match measure {
            Measure::User => self.user.as_secs_f64() / STRETCH.as_secs_f64(),
            Measure::Rounds => self.rounds as f64,
        }
    }

    /// Whether only its rounds tell how far the program comes.
    pub(crate) fn hardly_computes(self) -> bool {
        self.user.as_secs_f64() < HARDLY * self.clock.as_secs_f64()
    }

    /// By what a stretch is over. `None`: it is not.
    fn measure(self) -> Option<Measure> {
        if self.stretches(Measure::User) >= 1.0 {
            Some(Measure::User)
        } else {
            (self.hardly_computes() && self.rounds > 0).then_some(Measure::Rounds)
        }
    }

    /// Seconds on the clock for a stretch.
    fn cost(self, measure: Measure) -> f64 {
        self.clock.as_secs_f64() / self.stretches(measure).max(0.01)
    }

    /// Whether the program is slow under the kernel although what it reads is foreseen. A read
    /// takes `read`.
    fn is_promising(self, read: Duration) -> bool {
        let refaults = self.disk_refaults() as f64;
        refaults * read.as_secs_f64() >= READING * self.clock.as_secs_f64()
            && self.clock.as_secs_f64() >= SLOW * self.user.as_secs_f64()
            && refaults >= FORESEEN * self.disk_waits() as f64
    }
}

/// What is going on.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The one that was faster is at work.
    Holder,
    /// The other one is tried, against this cost by this measure; its warm-up is over or not.
    Trial { cost: f64, measure: Measure, is_warm: bool },
}

/// The trials.
#[derive(Debug)]
pub(crate) struct Trials {
    /// What a read of a page takes.
    read: Duration,
    /// Who was faster.
    holder: Chooser,
    phase: Phase,
    /// When the stretch began.
    start: Progress,
    /// Cost of the first stretch since the holder has won, or since the last trial, and its
    /// measure.
    first_cost: Option<(f64, Measure)>,
    /// Stretches in a row that took much longer than that.
    changed: u32,
    /// Stretches until the next trial, and how many there were at the beginning.
    left: u32,
    pause: u32,
}

impl Trials {
    /// The kernel begins. `read`: what a read of a page takes, if it has been measured.
    pub(crate) fn new(now: Progress, read: Option<Duration>) -> Self {
        Self {
            read: read.unwrap_or(USUAL_READ),
            holder: Chooser::Kernel,
            phase: Phase::Holder,
            start: now,
            first_cost: None,
            changed: 0,
            left: FIRST_STRETCHES,
            pause: FIRST_PAUSE,
        }
    }

    /// Decides who chooses from now on.
    pub(crate) fn look(&mut self, now: Progress) {
        let stretch = now.since(self.start);
        match self.phase {
            Phase::Holder => {
                if let Some(measure) = stretch.measure() {
                    self.holder_has_done(stretch, measure, now);
                }
            }
            Phase::Trial { cost, measure, is_warm } => {
                let wins_at = match self.holder {
                    Chooser::Kernel => POLICY_WINS_AT,
                    Chooser::Policy => KERNEL_WINS_AT,
                };
                let (length, most) = if is_warm { (1.0, wins_at) } else { (measure.warm_up(), SLOW_WARM_UP) };
                let done = stretch.stretches(measure);
                let allowed = most * cost * done.max(length);
                match (stretch.clock.as_secs_f64() > allowed, done >= length) {
                    (true, _) => self.end_trial(false, now),
                    (false, false) => {}
                    (false, true) if is_warm => self.end_trial(true, now),
                    (false, true) => {
                        self.phase = Phase::Trial { cost, measure, is_warm: true };
                        self.start = now;
                    }
                }
            }
        }
    }

    /// What has happened since the last look does not count.
    pub(crate) fn skip(&mut self, now: Progress) {
        self.start = now;
    }

    /// Who chooses, by the last look.
    pub(crate) fn chooser(&self) -> Chooser {
        match self.phase {
            Phase::Holder => self.holder,
            Phase::Trial { .. } => self.holder.other(),
        }
    }

    fn holder_has_done(&mut self, stretch: Progress, measure: Measure, now: Progress) {
        self.start = now;
        // The kernel has its turn again even if the program does not wait any more: it costs less.
        if self.holder == Chooser::Kernel && !stretch.is_promising(self.read) {
            return;
        }
        let cost = stretch.cost(measure);
        if self.first_cost.is_none_or(|(_, first)| first != measure) {
            self.first_cost = Some((cost, measure));
        }
        let first = self.first_cost.map_or(cost, |(first, _)| first);
        self.left = self.left.saturating_sub(1);
        self.changed = if cost > CHANGED * first { self.changed + 1 } else { 0 };
        if self.left == 0 || self.changed >= CHANGED_STRETCHES {
            self.phase = Phase::Trial { cost, measure, is_warm: false };
        }
    }

    fn end_trial(&mut self, is_won: bool, now: Progress) {
        if is_won {
            self.holder = self.holder.other();
            self.pause = FIRST_PAUSE;
        } else {
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
        self.phase = Phase::Holder;
        self.left = self.pause;
        self.first_cost = None;
        self.changed = 0;
        self.start = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(trials: &mut Trials, now: Progress) -> Chooser {
        trials.look(now);
        trials.chooser()
    }

    /// A program that computes `kernel` and `policy` parts of the time under each of the two.
    /// Returns the user time that it had under the policy in `seconds`, of all user time.
    fn share(
        mut trials: Trials,
        seconds: u64,
        speed: impl Fn(Chooser, f64) -> f64,
        (waits, refaults): (u64, u64),
    ) -> f64 {
        let (mut now, mut by_policy, mut chooser) = (Progress::default(), 0.0, Chooser::Kernel);
        for _ in 0..seconds * 100 {
            let step = Duration::from_millis(10);
            now.clock += step;
            let user = step.mul_f64(speed(chooser, now.clock.as_secs_f64()));
            now.user += user;
            now.waits += waits;
            now.refaults += refaults;
            if chooser == Chooser::Policy {
                by_policy += user.as_secs_f64();
            }
            chooser = looked(&mut trials, now);
        }
        by_policy / now.user.as_secs_f64()
    }

    fn speeds(kernel: f64, policy: f64) -> impl Fn(Chooser, f64) -> f64 {
        move |chooser, _| if chooser == Chooser::Kernel { kernel } else { policy }
    }

    /// Waits in 10 ms, and pages that come back.
    const STREAM: (u64, u64) = (100, 1000);

    fn trials() -> Trials {
        Trials::new(Progress::default(), None)
    }

    #[test]
    fn the_faster_of_the_two_does_most_of_the_work() {
        assert!(share(trials(), 60, speeds(0.1, 0.3), STREAM) > 0.9);
        assert!(share(trials(), 60, speeds(0.3, 0.1), STREAM) < 0.05);
    }

    #[test]
    fn a_policy_that_is_hardly_faster_is_left_alone_and_tried_ever_more_rarely() {
        let tried = share(trials(), 600, speeds(0.2, 0.21), STREAM);
        assert!(tried > 0.0 && tried < 0.1, "{tried}");
    }

    #[test]
    fn a_program_that_promises_nothing_is_the_kernels() {
        assert_eq!(share(trials(), 60, speeds(0.1, 1.0), (1, 10)), 0.0, "little comes back");
        let slow_disk = Trials::new(Progress::default(), Some(Duration::from_millis(8)));
        assert!(share(slow_disk, 60, speeds(0.1, 1.0), (1, 10)) > 0.5, "but it takes long");
        assert_eq!(share(trials(), 60, speeds(0.9, 1.0), STREAM), 0.0, "it waits for a tenth of the time");
        assert_eq!(share(trials(), 60, speeds(0.1, 1.0), (100, 120)), 0.0, "it waits for single pages");
    }

    #[test]
    fn a_program_that_computes_nothing_and_goes_round_no_more_is_the_kernels() {
        let mut trials = trials();
        let at = |second| Progress {
            clock: Duration::from_secs(second),
            user: Duration::ZERO,
            rounds: 0,
            waits: second * 10_000,
            refaults: second * 100_000,
            decompressed: 0,
        };
        assert!((0..100).all(|second| looked(&mut trials, at(second)) == Chooser::Kernel));
    }

    /// The part of 100 s in which the policy chooses for a program that hardly computes, and whose
    /// rounds take this many seconds under the kernel and under the policy.
    fn share_by_rounds(kernel: f64, policy: f64) -> f64 {
        let (mut trials, mut now, mut chooser) = (trials(), Progress::default(), Chooser::Kernel);
        let (mut rounds, mut by_policy) = (0.0, 0);
        for _ in 0..10_000 {
            now.clock += Duration::from_millis(10);
            now.user += Duration::from_micros(100);
            now.waits += 100;
            now.refaults += 1000;
            rounds += 0.01 / if chooser == Chooser::Kernel { kernel } else { policy };
            now.rounds = rounds as u64;
            let before = std::mem::replace(&mut chooser, looked(&mut trials, now));
            if chooser != before {
                // A round begins.
                rounds = rounds.floor();
            }
            by_policy += u32::from(chooser == Chooser::Policy);
        }
        f64::from(by_policy) / 10_000.0
    }

    #[test]
    fn a_program_that_hardly_computes_is_measured_by_its_rounds() {
        let won = share_by_rounds(2.0, 0.5);
        assert!(won > 0.8, "{won}");
        let lost = share_by_rounds(0.5, 2.0);
        assert!(lost < 0.1, "{lost}");
        let equal = share_by_rounds(1.0, 0.95);
        assert!(equal < 0.2, "{equal}");
    }

    #[test]
    fn a_policy_can_win_although_the_program_is_seldom_looked_at() {
        let (mut trials, mut now, mut chooser) = (trials(), Progress::default(), Chooser::Kernel);
        let mut by_policy = 0;
        for _ in 0..100 {
            let step = Duration::from_millis(500);
            now.clock += step;
            now.user += step / if chooser == Chooser::Kernel { 4 } else { 2 };
            now.waits += 5000;
            now.refaults += 50_000;
            chooser = looked(&mut trials, now);
            by_policy += u32::from(chooser == Chooser::Policy);
        }
        assert!(by_policy > 75, "{by_policy}");
    }

    #[test]
    fn the_kernel_has_the_program_again_when_it_waits_no_more() {
        let (mut trials, mut now, mut chooser) = (trials(), Progress::default(), Chooser::Kernel);
        let mut turns = [0, 0];
        for step in 0..6000 {
            now.clock += Duration::from_millis(10);
            let is_short = step < 3000;
            let slow = if chooser == Chooser::Kernel { 8 } else { 2 };
            now.user += Duration::from_millis(10) / if is_short { slow } else { 1 };
            now.waits += if is_short { 100 } else { 0 };
            now.refaults += if is_short { 1000 } else { 0 };
            chooser = looked(&mut trials, now);
            turns[usize::from(chooser == Chooser::Policy)] += u32::from(!is_short);
        }
        assert!(turns[0] > 0, "the policy is no faster now, and the kernel is tried: {turns:?}");
    }

    #[test]
    fn what_was_slower_wins_when_the_program_does_something_else() {
        let turned = |chooser, clock: f64| match (chooser, clock < 30.0) {
            (Chooser::Kernel, true) | (Chooser::Policy, false) => 0.1,
            (Chooser::Policy, true) | (Chooser::Kernel, false) => 0.4,
        };
        let by_policy = share(trials(), 60, turned, STREAM);
        assert!((0.4..0.6).contains(&by_policy), "{by_policy}");
    }

    #[test]
    fn a_trial_that_cannot_be_won_ends_soon() {
        let mut trials = trials();
        let at = |clock, user| Progress {
            clock: Duration::from_millis(clock),
            user: Duration::from_millis(user),
            rounds: 0,
            waits: clock * 10,
            refaults: clock * 100,
            decompressed: 0,
        };
        assert_eq!(looked(&mut trials, at(500, 100)), Chooser::Kernel);
        assert_eq!(looked(&mut trials, at(1500, 200)), Chooser::Policy, "the second stretch takes 1 s");
        assert_eq!(looked(&mut trials, at(2400, 210)), Chooser::Policy);
        assert_eq!(looked(&mut trials, at(2510, 220)), Chooser::Kernel, "twice as long as 50 ms would take");
    }
}
