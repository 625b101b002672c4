//! Whole objects of different sizes in caches of several capacities.

use crate::bound::Bound;
use crate::cache::{Access, SizedCache};
use crate::outcome::SizedOutcome;
use crate::policies::{self, SizedEntry};
use crate::requests::{SizedError, Step, for_each_batch};
use rayon::prelude::*;
use sweephand_policy::ArgumentError;
use sweephand_trace::{Interrupt, Trace};

/// The name of the lower bounds, beside those of policies.
pub const BOUND: &str = "bound";

/// What is simulated: a policy, or the bound of all.
#[derive(Clone, Copy, Debug)]
pub enum SizedPolicyName {
    /// A lower bound on the misses, and one on the bytes missed, of every policy.
    Bound,
    /// A policy.
    Policy(&'static SizedEntry),
}

impl SizedPolicyName {
    /// Reads a comma list; `all` is the bound and every policy.
    ///
    /// # Errors
    /// There is no such policy, or none for objects of different sizes.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ArgumentError> {
        if text == "all" {
            let policies = policies::POLICIES.iter().map(Self::Policy);
            return Ok([Self::Bound].into_iter().chain(policies).collect());
        }
        let one = |name: &str| match name.trim() {
            BOUND => Ok(Self::Bound),
            name => policies::of_name(name).map(Self::Policy),
        };
        text.split(',').map(one).collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bound => BOUND,
            Self::Policy(entry) => entry.name,
        }
    }
}

/// What came of a simulation, at its end and before.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SizedRun {
    /// The counts behind the warm-up.
    pub outcome: SizedOutcome,
    /// The counts from the first request on, at the end and at each of the cuts. The bound has no
    /// cuts.
    pub end: SizedOutcome,
    /// See `end`.
    pub at_cuts: Vec<SizedOutcome>,
}

/// Simulates each policy with each capacity, in this order. `warmup` requests come before counting
/// begins. `cuts` are numbers of requests, ascending, before which the counts are kept.
/// `progress` is called now and then with the number of requests that are done.
///
/// An object whose time to live is over is a miss when it is requested again. It takes its room
/// until then, or until it is evicted. Its time begins when it comes in, and anew when a request
/// writes it.
///
/// # Errors
/// As for [`totals`](crate::totals).
pub fn simulate(
    trace: &Trace,
    policies: &[SizedPolicyName],
    capacities: &[u64],
    warmup: u64,
    cuts: &[u64],
    interrupt: &Interrupt,
    progress: &dyn Fn(u64),
) -> Result<Vec<SizedRun>, SizedError> {
    let mut runs: Vec<Run> = policies.iter().flat_map(|policy| Run::of(*policy, capacities)).collect();
    let mut done = 0;
    for_each_batch(trace, interrupt, |steps| {
        runs.par_iter_mut().with_max_len(1).for_each(|run| {
            let mut request = done;
            let mut cuts = cuts[cuts.partition_point(|cut| *cut < done)..].iter().peekable();
            for step in steps {
                if step.is_request() {
                    if request == warmup {
                        run.begin_counting();
                    }
                    if cuts.next_if(|cut| **cut == request).is_some() {
                        run.cut();
                    }
                    request += 1;
                }
                run.step(step);
            }
        });
        done += steps.iter().filter(|step| step.is_request()).count() as u64;
        progress(done);
    })?;
    Ok(runs.into_iter().flat_map(|run| run.finish(capacities)).collect())
}

/// What takes all requests once.
enum Run {
    Policy(Box<Simulated>),
    Bound(Bound),
}

/// A cache, and what was counted.
struct Simulated {
    cache: SizedCache,
    /// The counts from the first request on.
    outcome: SizedOutcome,
    /// The same when counting began.
    before: SizedOutcome,
    at_cuts: Vec<SizedOutcome>,
    /// The last moment at which each object in the cache lives; for ever, if there is none.
    ends_ms: Vec<i64>,
}

impl Run {
    fn of(policy: SizedPolicyName, capacities: &[u64]) -> Vec<Self> {
        match policy {
            SizedPolicyName::Bound => vec![Self::Bound(Bound::default())],
            SizedPolicyName::Policy(entry) => {
                let none = Some(0);
                let outcome =
                    SizedOutcome { passed: none, evictions: none, expired: none, ..SizedOutcome::default() };
                let run = |&bytes: &u64| {
                    let cache = SizedCache::new(entry.make(bytes), bytes);
                    let (at_cuts, ends_ms) = (Vec::new(), Vec::new());
                    Self::Policy(Box::new(Simulated { cache, outcome, before: outcome, at_cuts, ends_ms }))
                };
                capacities.iter().map(run).collect()
            }
        }
    }

    /// What came so far was the warm-up.
    fn begin_counting(&mut self) {
        match self {
            Self::Policy(simulated) => simulated.before = simulated.outcome(),
            Self::Bound(bound) => bound.begin_counting(),
        }
    }

    /// Keeps the counts.
    fn cut(&mut self) {
        if let Self::Policy(simulated) = self {
            simulated.at_cuts.push(simulated.outcome());
        }
    }

    fn step(&mut self, step: &Step) {
        match self {
            Self::Policy(simulated) => simulated.step(step),
            Self::Bound(bound) => bound.step(step),
        }
    }

    fn finish(self, capacities: &[u64]) -> Vec<SizedRun> {
        match self {
            Self::Policy(simulated) => {
                let end = simulated.outcome();
                let outcome = end.since(&simulated.before);
                vec![SizedRun { outcome, end, at_cuts: simulated.at_cuts }]
            }
            Self::Bound(bound) => {
                let outcomes = bound.outcomes(capacities).into_iter();
                outcomes.map(|outcome| SizedRun { outcome, end: outcome, at_cuts: Vec::new() }).collect()
            }
        }
    }
}

impl Simulated {
    fn outcome(&self) -> SizedOutcome {
        SizedOutcome { evictions: Some(self.cache.evictions()), ..self.outcome }
    }

    fn step(&mut self, step: &Step) {
        let &Step { object, bytes, is_write, now_ms, lives_ms } = step;
        let Self { cache, outcome, ends_ms, .. } = self;
        if !step.is_request() {
            return cache.remove(object);
        }
        outcome.requests += 1;
        outcome.requested_bytes += bytes;
        if ends_ms.get(object.index()).is_some_and(|end| *end < now_ms) && cache.contains(object) {
            cache.remove(object);
            outcome.expired = outcome.expired.map(|expired| expired + 1);
        }
        let access = cache.request(object, bytes);
        if access != Access::Hit {
            outcome.misses += 1;
            outcome.missed_bytes += bytes;
        }
        if access == Access::Passed {
            outcome.passed = outcome.passed.map(|passed| passed + 1);
        }
        if access == Access::Admitted || (access == Access::Hit && is_write) {
            // Without times to live there is no table.
            if ends_ms.len() <= object.index() && lives_ms > 0 {
                ends_ms.resize(object.index() + 1, i64::MAX);
            }
            if let Some(end) = ends_ms.get_mut(object.index()) {
                *end = step.end_ms();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SizedTotals, totals};
    use std::collections::HashMap;
    use std::io::Cursor;
    use std::path::Path;
    use sweephand_policy::SplitMix64;
    use sweephand_trace::{AllocKind, EndTotals, Metadata, Writer};

    /// A trace of requests; no bytes is a deletion.
    fn trace(requests: &[(u64, u64)]) -> Trace {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        let mut sizes = HashMap::new();
        for &(object, bytes) in requests {
            let page = object << 20;
            if sizes.get(&object).is_some_and(|known| *known != bytes) {
                writer.free(page * 4096).unwrap();
                writer.unmap(page, 1).unwrap();
                sizes.remove(&object);
            }
            if bytes > 0 {
                if sizes.insert(object, bytes).is_none() {
                    writer.alloc(page * 4096, bytes, AllocKind::Malloc).unwrap();
                }
                writer.reference(page, false).unwrap();
            }
        }
        let (bytes, _) = writer.finish(EndTotals::default()).unwrap();
        Trace::from_bytes(bytes.into_inner()).unwrap()
    }

    fn simulated(requests: &[(u64, u64)], policies: &str, capacities: &[u64]) -> Vec<SizedOutcome> {
        let policies = SizedPolicyName::parse_list(policies).unwrap();
        of(&trace(requests), &policies, capacities, 0)
    }

    fn of(trace: &Trace, policies: &[SizedPolicyName], capacities: &[u64], warmup: u64) -> Vec<SizedOutcome> {
        let interrupt = Interrupt::default();
        let runs = simulate(trace, policies, capacities, warmup, &[], &interrupt, &|_| {}).unwrap();
        runs.into_iter().map(|run| run.outcome).collect()
    }

    #[test]
    fn requests_and_bytes_are_counted() {
        let requests = [(1, 70), (2, 40), (2, 40), (1, 70), (3, 101), (2, 0), (2, 40), (2, 50), (1, 70)];
        let totals = totals(&trace(&requests), &Interrupt::default()).unwrap();
        let expected =
            SizedTotals { requests: 8, requested_bytes: 481, objects: 3, object_bytes: 221, expire: false };
        assert_eq!(totals, expected);
        // With 100 bytes, 1 and 2 push each other out; 3 never fits; 2 is deleted, and changes
        // size.
        let outcomes = simulated(&requests, "lru", &[100, 1_000]);
        let [small, large] = outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((small.misses, small.missed_bytes), (7, 441));
        assert_eq!((small.passed, small.evictions), (Some(1), Some(4)));
        // Compulsory: 1, 2, 3, 2 after its deletion, 2 with another size.
        assert_eq!((large.misses, large.missed_bytes, large.evictions), (5, 301, Some(0)));
    }

    /// One object of 10 bytes is asked for every second time, one of 90 every fourth time. A cache
    /// of 10 bytes has room for the hits of the first.
    #[test]
    fn the_bound_of_a_known_string_is_that_worked_by_hand() {
        let requests: Vec<(u64, u64)> = (0..40)
            .flat_map(|turn| [(1, 10), if turn % 2 == 0 { (2, 90) } else { (100 + turn, 90) }])
            .collect();
        let bounds = simulated(&requests, "bound", &[10, 100, 10_000]);
        let hits: Vec<u64> = bounds.iter().map(|bound| 80 - bound.misses).collect();
        // 39 intervals of 2 x 10 take 780 of 10 x 80.
        assert_eq!(hits, [39, 58, 58]);
        // All 39 hits on object 1 and 19 on object 2 fit into 100 bytes: 58 hits.
        assert_eq!(bounds[0].missed_bytes, 4_000 - 390);
        assert_eq!(bounds[1].missed_bytes, 4_000 - 390 - 19 * 90);
    }

    /// No policy misses less than the bounds, and an infinite cache misses what they say.
    #[test]
    fn no_policy_is_better_than_the_bound() {
        for seed in 0..10 {
            let mut random = SplitMix64::new(seed);
            let sizes: Vec<u64> = (0..100).map(|_| 1 + random.below(1_000)).collect();
            let requests: Vec<(u64, u64)> = (0..5_000)
                .map(|_| {
                    let most = 2 << random.below(6);
                    let object = random.below(most);
                    (object, if random.below(100) == 0 { 0 } else { sizes[object as usize] })
                })
                .collect();
            let capacities = [500, 2_000, 10_000, 1 << 30];
            let outcomes = simulated(&requests, "all", &capacities);
            let (bounds, policies) = outcomes.split_at(capacities.len());
            for (index, outcome) in policies.iter().enumerate() {
                let bound = &bounds[index % capacities.len()];
                let is_above = outcome.misses >= bound.misses && outcome.missed_bytes >= bound.missed_bytes;
                assert!(is_above, "seed {seed}: {outcome:?}, {bound:?}");
                if index % capacities.len() == 3 {
                    let least = (bound.misses, bound.missed_bytes);
                    assert_eq!((outcome.misses, outcome.missed_bytes), least, "seed {seed}");
                }
            }
        }
    }

    /// What is counted behind a warm-up is the whole less the trace that ends there; and it is not
    /// below the bound.
    #[test]
    fn a_warm_up_is_not_counted() {
        let mut random = SplitMix64::new(3);
        let requests: Vec<(u64, u64)> = (0..4_000)
            .map(|_| {
                let most = 2 << random.below(7);
                let object = random.below(most);
                (object, if random.below(80) == 0 { 0 } else { 1 + object * 37 % 700 })
            })
            .collect();
        let (capacities, warmup) = ([300, 3_000, 20_000], 1_500);
        let policies = SizedPolicyName::parse_list("all").unwrap();
        let of = |requests: &[(u64, u64)], warmup| of(&trace(requests), &policies, &capacities, warmup);
        let is_request = |(_, bytes): &&(u64, u64)| *bytes > 0;
        let end = (1..).find(|end| requests[..*end].iter().filter(is_request).count() == warmup).unwrap();
        let (whole, beginning) = (of(&requests, 0), of(&requests[..end], 0));
        let counted = of(&requests, warmup as u64);
        let (bounds, rest) = counted.split_at(capacities.len());
        for (index, outcome) in rest.iter().enumerate() {
            let (all, before) = (&whole[index + capacities.len()], &beginning[index + capacities.len()]);
            let less = |of: fn(&SizedOutcome) -> u64| of(all) - of(before);
            let counts = (outcome.misses, outcome.missed_bytes, outcome.passed, outcome.evictions);
            let expected = (
                less(|outcome| outcome.misses),
                less(|outcome| outcome.missed_bytes),
                Some(less(|outcome| outcome.passed.unwrap())),
                Some(less(|outcome| outcome.evictions.unwrap())),
            );
            assert_eq!(counts, expected, "outcome {index}");
            let bound = &bounds[index % capacities.len()];
            let is_above = outcome.misses >= bound.misses && outcome.missed_bytes >= bound.missed_bytes;
            assert!(is_above, "outcome {index}: {outcome:?}, {bound:?}");
        }
        // The counts at a cut are those that a warm-up of that length leaves out.
        let (trace, interrupt) = (trace(&requests), Interrupt::default());
        let runs = simulate(&trace, &policies, &capacities, 0, &[0, 1_500], &interrupt, &|_| {});
        for (run, counted) in runs.unwrap().iter().zip(&counted).skip(capacities.len()) {
            assert_eq!((run.at_cuts[0].requests, run.at_cuts[0].misses), (0, 0));
            assert_eq!(run.outcome.since(&run.at_cuts[1]), *counted);
        }
    }

    /// Requests with times to live, beside a cache that is written out here.
    #[test]
    fn objects_expire() {
        let mut random = SplitMix64::new(5);
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        // By object: the last moment at which it lives. The cache is large enough for all.
        let mut cache: HashMap<u64, i64> = HashMap::new();
        let (mut misses, mut expired) = (0, 0);
        for number in 0..5_000_i64 {
            let object = random.below(200);
            let (now, lives, write) = (number / 7 * 7, 100 * random.below(4), random.below(5) == 0);
            let page = object << 20;
            if !cache.contains_key(&object) {
                writer.alloc(page * 4096, 10, AllocKind::Malloc).unwrap();
            }
            writer.time(now);
            writer.time_to_live(lives);
            writer.reference(page, write).unwrap();
            let known = cache.get(&object).copied();
            let is_hit = known.is_some_and(|end| end >= now);
            misses += u64::from(!is_hit);
            expired += u64::from(!is_hit && known.is_some());
            if !is_hit || write {
                cache.insert(object, if lives == 0 { i64::MAX } else { now + lives as i64 });
            }
        }
        let (bytes, _) = writer.finish(EndTotals::default()).unwrap();
        let trace = Trace::from_bytes(bytes.into_inner()).unwrap();
        assert!(totals(&trace, &Interrupt::default()).unwrap().expire);
        let policies = SizedPolicyName::parse_list("all").unwrap();
        let outcomes = of(&trace, &policies, &[200 * 10], 0);
        assert!(expired > 500, "{expired}");
        for outcome in &outcomes[1..] {
            assert_eq!(
                (outcome.misses, outcome.expired, outcome.evictions),
                (misses, Some(expired), Some(0)),
                "{outcome:?}"
            );
        }
        assert!((200..=misses).contains(&outcomes[0].misses), "{:?} {misses}", outcomes[0]);
        // In little room, too, nothing misses less than the bound.
        let small = of(&trace, &policies, &[300], 0);
        assert!(small[1..].iter().all(|outcome| outcome.misses >= small[0].misses));
    }

    /// Older versions reduced traces of whole objects.
    #[test]
    fn reduced_traces_are_refused() {
        for window in [1, 100] {
            let metadata = Metadata { window, whole_objects: true, ..Metadata::default() };
            let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
            writer.alloc(4096, 10, AllocKind::Malloc).unwrap();
            writer.reference(1, false).unwrap();
            let (bytes, _) = writer.finish(EndTotals::default()).unwrap();
            let trace = Trace::from_reader(&bytes.into_inner()[..], Path::new("old.swt")).unwrap();
            let error = totals(&trace, &Interrupt::default()).unwrap_err().to_string();
            let expected = format!(
                "old.swt: is reduced with a window of {window}, and every request counts; import the log again \
                 with --whole-objects and without --window"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn traces_of_pages_are_refused() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        writer.reference(7, false).unwrap();
        let (bytes, _) = writer.finish(EndTotals::default()).unwrap();
        let trace = Trace::from_reader(&bytes.into_inner()[..], Path::new("pages.swt")).unwrap();
        let error = totals(&trace, &Interrupt::default()).unwrap_err().to_string();
        let expected =
            "pages.swt: page 7 is not an object with a size; import the log again with --whole-objects";
        assert_eq!(error, expected);
    }
}
