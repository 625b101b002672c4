//! Trials of services that are functions: of their memory, and of the time on a clock of ours.

use super::*;
use sweephand_checks::trying;

const MIB: u64 = 1 << 20;
const ROUND: Duration = Duration::from_secs(1);

/// A service, by its latency in some memory (MiB) at some time (seconds).
struct Service<F: Fn(f64, f64) -> f64> {
    latency: F,
    /// The latency varies by this share: a standard deviation.
    noise: f64,
    seed: u64,
    /// It reads pages in less memory than this (MiB).
    pages_below: f64,
}

/// What a trial was: its verdict, the limits in order (0: the reference), and the rounds at each
/// that were too slow by far.
struct Tried {
    verdict: Verdict,
    smallest_slowdown: f64,
    limits: Vec<u64>,
    slow_rounds: u32,
    took: Duration,
}

impl Tried {
    fn least_mib(&self) -> f64 {
        self.verdict.least_bytes.expect("some limit is good") as f64 / MIB as f64
    }
}

impl<F: Fn(f64, f64) -> f64> Service<F> {
    fn of(latency: F) -> Self {
        Self { latency, noise: 0.0, seed: 1, pages_below: 64.0 }
    }

    /// Nearly normal: the sum of a few numbers that are evenly distributed.
    fn random(&mut self) -> f64 {
        let mut even = || {
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        (0..12).map(|_| even()).sum()
    }

    fn cost(&mut self, bytes: u64, now: Duration) -> f64 {
        let noise = 1.0 + self.noise * self.random();
        (self.latency)(bytes as f64 / MIB as f64, now.as_secs_f64()) * noise.max(0.1)
    }

    /// Does as the command does, on a clock that only counts rounds.
    fn tried(&mut self, rules: Rules) -> Tried {
        let mut now = Duration::ZERO;
        let (mut trial, mut order) = Trial::begin(rules, now);
        let (mut limits, mut slow_rounds) = (Vec::new(), 0);
        loop {
            let (bytes, rounds, settling) = match order {
                Order::Reference { rounds } => (0, rounds, 2),
                Order::At { bytes, rounds } => (bytes, rounds, 1),
                Order::End(verdict) => {
                    let smallest_slowdown = trial.smallest_slowdown();
                    return Tried { verdict, smallest_slowdown, limits, slow_rounds, took: now };
                }
            };
            limits.push(bytes);
            assert!(limits.len() < 200 && bytes <= rules.start_bytes);
            assert!(bytes == 0 || bytes >= rules.floor_bytes);
            let is_paging = bytes > 0 && (bytes as f64) < self.pages_below * MIB as f64;
            let (mut costs, mut alarm) = (Vec::new(), None);
            for round in 0..settling + rounds {
                now += rules.round;
                let cost = self.cost(if bytes == 0 { rules.start_bytes } else { bytes }, now);
                alarm = trial.alarm(cost, round < settling).filter(|_| is_paging);
                if alarm.is_some() {
                    slow_rounds += 1;
                    break;
                }
                if round >= settling {
                    costs.push(cost);
                }
            }
            let outcome = alarm.map_or(Outcome::Measured { costs, is_paging }, Outcome::Raised);
            order = trial.next(outcome, now);
        }
    }
}

fn rules(predicted_mib: Option<u64>, deadline_s: u64) -> Rules {
    Rules {
        slowdown: 1.05,
        start_bytes: 64 * MIB,
        floor_bytes: 4 * MIB,
        predicted_bytes: predicted_mib.map(|mib| mib * MIB),
        round: ROUND,
        deadline: Duration::from_secs(deadline_s),
    }
}

/// It gets slower little by little below 40 MiB: by 5 % at 36.8 MiB.
fn gentle(mib: f64, _: f64) -> f64 {
    1.0 + 0.6 * (1.0 - mib / 40.0).max(0.0)
}

/// Whatever the prediction was, the trial finds what is true.
#[test]
fn the_least_memory_within_the_slowdown_is_found() {
    for predicted in [None, Some(10), Some(30), Some(37), Some(50), Some(200)] {
        let _input = trying(|| format!("predicted {predicted:?}"));
        let tried = Service::of(gentle).tried(rules(predicted, 600));
        assert!((36.6..38.8).contains(&tried.least_mib()), "{}", tried.least_mib());
        assert!(tried.verdict.is_confirmed && tried.verdict.end == End::TooSlow, "{:?}", tried.verdict);
        assert!(tried.took <= Duration::from_secs(600), "{:?}", tried.took);
    }
}

/// One step too far, and everything takes ten times as long: one round of that, not more, and the
/// advice is the step before.
#[test]
fn at_a_cliff_the_limit_goes_up_at_once() {
    for predicted in [None, Some(24), Some(40)] {
        let _input = trying(|| format!("predicted {predicted:?}"));
        let tried = Service::of(|mib, _| if mib < 24.0 { 10.0 } else { 1.0 }).tried(rules(predicted, 900));
        assert!((24.0..26.5).contains(&tried.least_mib()), "{}", tried.least_mib());
        assert!(tried.verdict.is_confirmed);
        // Halfway back once or twice, if steps had grown.
        assert!((1..=3).contains(&tried.slow_rounds), "{}", tried.slow_rounds);
        let cliffs: Vec<usize> =
            (0..tried.limits.len()).filter(|&index| (1..24 * MIB).contains(&tried.limits[index])).collect();
        assert!(cliffs.iter().all(|&index| tried.limits[index + 1] == 0), "{:?}", tried.limits);
    }
}

/// A load that goes up and down by a fifth in an hour, or in ten minutes.
#[test]
fn the_hours_of_a_service_are_not_taken_for_slowdown() {
    for period_s in [3600.0, 600.0] {
        for phase in 0..8 {
            let _input = trying(|| format!("a cycle of {period_s} s, begun at {phase}/8"));
            let load = move |time: f64| {
                1.0 + 0.2 * (std::f64::consts::TAU * (time / period_s + f64::from(phase) / 8.0)).sin()
            };
            let tried = Service::of(|mib, time| gentle(mib, time) * load(time)).tried(rules(Some(38), 1500));
            let (low, high) = if period_s > 1000.0 { (34.5, 41.5) } else { (31.0, 46.0) };
            assert!((low..high).contains(&tried.least_mib()), "{}", tried.least_mib());
        }
    }
}

#[test]
fn noise_takes_more_rounds_and_is_said() {
    let mut least = Vec::new();
    for seed in 1..=20 {
        let mut service = Service { noise: 0.02, seed, ..Service::of(gentle) };
        let tried = service.tried(rules(Some(37), 1800));
        assert!(tried.smallest_slowdown < 1.06, "{}", tried.smallest_slowdown);
        least.push(tried.least_mib());
    }
    assert!((35.0..39.5).contains(&median(&least)), "{least:?}");
    assert!(least.iter().all(|mib| (30.0..46.0).contains(mib)), "{least:?}");
    // A slowdown of 5 % cannot be told at all, which is what the command says then.
    let tried = Service { noise: 0.3, ..Service::of(gentle) }.tried(rules(Some(37), 1800));
    assert!(tried.smallest_slowdown > 1.1, "{}", tried.smallest_slowdown);
}

#[test]
fn a_trial_ends_at_its_floor_and_in_its_time() {
    let tried = Service::of(|_, _| 1.0).tried(rules(Some(20), 900));
    assert_eq!(tried.verdict.end, End::Floor);
    assert!(tried.verdict.is_confirmed && tried.least_mib() < 4.2, "{:?}", tried.verdict);
    for deadline_s in [10, 20, 40, 60, 120] {
        let _input = trying(|| format!("{deadline_s} s"));
        let tried = Service::of(gentle).tried(rules(Some(37), deadline_s));
        assert!(tried.took <= Duration::from_secs(deadline_s.max(20)), "{:?}", tried.took);
        let is_late = deadline_s <= 60;
        assert_eq!(tried.verdict.end == End::Time, is_late, "{:?}", tried.verdict);
    }
}

/// A round that takes longer than all others together does not keep the trial from ending.
#[test]
fn what_takes_too_long_ends_the_trial() {
    let (mut trial, _) = Trial::begin(rules(Some(37), 100), Duration::ZERO);
    let steady = || Outcome::Measured { costs: vec![1.0; 7], is_paging: false };
    let Order::At { bytes, .. } = trial.next(steady(), ROUND * 9) else { panic!("a step") };
    let Order::At { .. } = trial.next(steady(), ROUND * 18) else { panic!("a step") };
    let order = trial.next(Outcome::Raised(Alarm::Time), ROUND * 100);
    let verdict = Verdict { least_bytes: Some(bytes), is_confirmed: false, end: End::Time };
    assert_eq!(order, Order::End(verdict));
    assert_eq!(trial.next(steady(), ROUND * 101), Order::End(verdict));
    // Before anything is known.
    let (mut trial, _) = Trial::begin(rules(None, 10), Duration::ZERO);
    let verdict = Verdict { least_bytes: None, is_confirmed: false, end: End::Time };
    assert_eq!(trial.next(Outcome::Raised(Alarm::Time), ROUND * 10), Order::End(verdict));
}

#[test]
fn a_service_that_needs_all_that_it_has_keeps_it() {
    let tried = Service::of(|mib, _| 64.0 / mib * 64.0 / mib).tried(rules(None, 900));
    assert_eq!((tried.verdict.least_bytes, tried.verdict.end), (None, End::TooSlow));
}

/// A round is slow now and then: by itself, it is no reason to stop.
#[test]
fn one_slow_round_is_measured_again() {
    let hiccup = |mib: f64, time: f64| if (time as u64).is_multiple_of(41) { 1.9 } else { gentle(mib, time) };
    let tried = Service::of(hiccup).tried(rules(Some(37), 1800));
    assert!((36.0..41.0).contains(&tried.least_mib()), "{}", tried.least_mib());
}

/// Something else on the machine slows it down for half a minute, again and again.
#[test]
fn slow_rounds_without_paging_are_no_alarm() {
    let busy = |mib: f64, time: f64| {
        let other = if (time as u64 / 30).is_multiple_of(6) && time > 60.0 { 2.5 } else { 1.0 };
        gentle(mib, time) * other
    };
    let tried = Service { pages_below: 40.0, ..Service::of(busy) }.tried(rules(Some(37), 1800));
    assert!((36.0..41.0).contains(&tried.least_mib()), "{}", tried.least_mib());
}

/// The cost of a throughput of 0 is infinite: against that, whatever is slow would be good.
#[test]
fn a_reference_without_work_is_ignored() {
    let (mut trial, _) = Trial::begin(rules(Some(37), 900), Duration::ZERO);
    assert!(trial.lacks_reference());
    let of = |cost: f64| Outcome::Measured { costs: vec![cost; 7], is_paging: true };
    let Order::At { .. } = trial.next(of(1.0), ROUND * 9) else { panic!("a step") };
    assert!(!trial.lacks_reference());
    let Order::Reference { .. } = trial.next(of(1.2), ROUND * 18) else { panic!("a reference") };
    let Order::At { .. } = trial.next(of(f64::INFINITY), ROUND * 27) else { panic!("a step") };
    assert_eq!(trial.judge(&of(1.2)), Judgement::TooSlow);
    // Of the rounds at the start, those that were first may be enough.
    let (mut trial, _) = Trial::begin(rules(Some(37), 900), Duration::ZERO);
    let noisy = Outcome::Measured { costs: vec![0.7, 1.0, 1.3, 0.8, 1.2, 0.9, 1.1], is_paging: false };
    let Order::Reference { .. } = trial.next(noisy, ROUND * 9) else { panic!("more rounds") };
    let idle = Outcome::Measured { costs: vec![f64::INFINITY; 18], is_paging: false };
    let Order::At { .. } = trial.next(idle, ROUND * 30) else { panic!("a step") };
    assert_eq!(trial.judge(&of(2.0)), Judgement::TooSlow);
}

#[test]
fn memory_that_cannot_be_taken_back_is_not_asked_for_again() {
    let (mut trial, _) = Trial::begin(rules(None, 900), Duration::ZERO);
    let steady = || Outcome::Measured { costs: vec![1.0; 7], is_paging: false };
    let Order::At { bytes, .. } = trial.next(steady(), ROUND * 9) else { panic!("a step") };
    assert_eq!(trial.judge(&Outcome::Raised(Alarm::Refused)), Judgement::Raised(Alarm::Refused));
    let order = trial.next(Outcome::Raised(Alarm::Refused), ROUND * 18);
    assert!(matches!(order, Order::Reference { .. }));
    let Order::At { bytes: next, .. } = trial.next(steady(), ROUND * 27) else { panic!("a step") };
    assert!(next > bytes, "{next} after {bytes}");
}

#[test]
fn the_spread_does_not_count_what_is_far_off() {
    assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[1.0, 2.0])), (0.0, 2.0, 1.5));
    assert!((spread(&[9.0, 10.0, 11.0, 1000.0, 10.0]) - 0.14826).abs() < 1e-6);
    assert_eq!(spread(&[0.0, 0.0]), 0.0);
}
