//! Whole objects of different sizes in a cache of so many bytes.
//!
//! The trace has an object's size where the object begins ([`Event::Alloc`]), and a reference to
//! the object's first page for each request. `import` writes such traces of logs that have sizes
//! ([`sweephand_trace::columns::Columns::whole_objects`]).
//!
//! **The bound.** What an optimal policy would miss is hard to compute where sizes differ. Lower
//! bounds are not: an object kept from one request to the next takes its bytes for as many
//! requests, and a cache of C bytes over N requests has C x N of that. The bound takes the
//! intervals that are the cheapest, until that is used up: for each hit, and for each byte of a
//! hit. No policy can have more. (D. S. Berger, N. Beckmann, M. Harchol-Balter, "Practical bounds
//! on optimal caching with variable object sizes", SIGMETRICS 2018: PFOO-L.)

use crate::sweep::SweepError;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use sweephand_policy::sized::{Access, SizedCache, SizedEntry};
use sweephand_policy::{ArgumentError, PageId, sized};
use sweephand_trace::{Chunk, Event, Interrupt, Trace};

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
            let policies = sized::POLICIES.iter().map(Self::Policy);
            return Ok([Self::Bound].into_iter().chain(policies).collect());
        }
        let one = |name: &str| match name.trim() {
            BOUND => Ok(Self::Bound),
            name => sized::of_name(name).map(Self::Policy),
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

/// Why whole objects cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SizedError {
    /// The trace cannot be read, has no references, or the user interrupted.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Requests were left out of the trace.
    #[error(
        "{}: is reduced with a window of {window}, and every request counts; import the log again with \
         --whole-objects and without --window",
        path.display()
    )]
    Reduced {
        /// The trace.
        path: PathBuf,
        /// Its window.
        window: u64,
    },
    /// A page is not the first page of an object.
    #[error(
        "{}: page {page_number} is not an object with a size; import the log again with --whole-objects",
        path.display()
    )]
    NoSize {
        /// The trace.
        path: PathBuf,
        /// The page.
        page_number: u64,
    },
}

impl From<sweephand_trace::Error> for SizedError {
    fn from(error: sweephand_trace::Error) -> Self {
        Self::Sweep(error.into())
    }
}

/// How much there is in a trace.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SizedTotals {
    /// Requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Different objects.
    pub objects: u64,
    /// Their bytes, each object counted once, with the last of its sizes.
    pub object_bytes: u64,
    /// Whether any of them has a time to live.
    pub expire: bool,
}

/// What came of a simulation, or what the bound says.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SizedOutcome {
    /// Requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub requested_bytes: u64,
    /// Requests for objects that were not in the cache.
    pub misses: u64,
    /// Their bytes.
    pub missed_bytes: u64,
    /// Misses after which the object did not come in: it is larger than the cache, or the policy
    /// refused it. None for the bound.
    pub passed: Option<u64>,
    /// Objects given up. None for the bound.
    pub evictions: Option<u64>,
    /// Misses of objects that were in the cache, but had lived longer than they were to. None for
    /// the bound.
    pub expired: Option<u64>,
}

impl SizedOutcome {
    /// What was counted since a moment, given the counts at that moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |count: Option<u64>, before: Option<u64>| Some(count? - before.unwrap_or(0));
        Self {
            requests: self.requests - before.requests,
            requested_bytes: self.requested_bytes - before.requested_bytes,
            misses: self.misses - before.misses,
            missed_bytes: self.missed_bytes - before.missed_bytes,
            passed: less(self.passed, before.passed),
            evictions: less(self.evictions, before.evictions),
            expired: less(self.expired, before.expired),
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

/// A request for an object of so many bytes, or, with no bytes, its deletion.
#[derive(Clone, Copy)]
struct Step {
    object: PageId,
    bytes: u64,
    is_write: bool,
    /// When it comes, in milliseconds.
    now_ms: i64,
    /// How long the object lives if it is loaded or written now, in milliseconds; 0: for ever.
    lives_ms: i64,
}

impl Step {
    fn is_request(&self) -> bool {
        self.bytes > 0
    }

    /// The last moment at which the object lives.
    fn end_ms(&self) -> i64 {
        if self.lives_ms == 0 { i64::MAX } else { self.now_ms.saturating_add(self.lives_ms) }
    }
}

/// Finds the sizes of requests while a trace is read.
#[derive(Default)]
struct Sizes {
    /// Bytes of the object that begins at each address.
    at: FxHashMap<u64, u64>,
    /// Page number and bytes of each page id; no bytes before they are looked up.
    of: Vec<(u64, u64)>,
    now_ms: i64,
    lives_ms: i64,
}

impl Sizes {
    /// The requests and deletions of chunk `index`, in order, instead of what `steps` holds.
    fn steps(
        &mut self,
        trace: &Trace,
        index: usize,
        chunk: &Chunk,
        steps: &mut Vec<Step>,
    ) -> Result<(), SizedError> {
        steps.clear();
        let mut times = trace.times(index, chunk)?.into_iter().peekable();
        let mut lives = trace.times_to_live(index, chunk)?.into_iter().peekable();
        self.of.extend(chunk.new_pages.iter().map(|&number| (number, 0)));
        let page_bytes = trace.header().metadata.page_size;
        let mut events = chunk.events.iter().peekable();
        for (position, reference) in chunk.references.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= position) {
                self.event(event, steps);
            }
            if let Some((_, time)) = times.next_if(|(at, _)| *at as usize <= position) {
                self.now_ms = time;
            }
            if let Some((_, time)) = lives.next_if(|(at, _)| *at as usize <= position) {
                self.lives_ms = time;
            }
            let (number, bytes) = &mut self.of[reference.page() as usize];
            if *bytes == 0 {
                *bytes =
                    *number.checked_mul(page_bytes).and_then(|address| self.at.get(&address)).ok_or_else(
                        || SizedError::NoSize { path: trace.name().to_owned(), page_number: *number },
                    )?;
            }
            let bytes = *bytes;
            steps.push(self.step(reference.page(), bytes, reference.is_write()));
        }
        events.for_each(|(_, event)| self.event(event, steps));
        Ok(())
    }

    fn step(&self, page: u32, bytes: u64, is_write: bool) -> Step {
        Step { object: PageId(page), bytes, is_write, now_ms: self.now_ms, lives_ms: self.lives_ms }
    }

    fn event(&mut self, event: &Event, steps: &mut Vec<Step>) {
        match event {
            Event::Alloc { address, length, .. } => {
                self.at.insert(*address, (*length).max(1));
            }
            Event::Free { address } => {
                self.at.remove(address);
            }
            Event::Drop { pages } => {
                for page in pages.clone() {
                    if let Some((_, bytes)) = self.of.get_mut(page as usize) {
                        *bytes = 0;
                        steps.push(self.step(page, 0, false));
                    }
                }
            }
            Event::Move { page, to } => {
                if let Some(of) = self.of.get_mut(*page as usize) {
                    *of = (*to, 0);
                }
            }
            Event::Mark { .. } | Event::Map { .. } => {}
        }
    }
}

/// Counts what is in a trace of whole objects.
///
/// # Errors
/// The trace cannot be read, has no references, is not one of whole objects, or is reduced.
pub fn sized_totals(trace: &Trace, interrupt: &Interrupt) -> Result<SizedTotals, SizedError> {
    let mut totals = SizedTotals::default();
    let mut last: Vec<u64> = Vec::new();
    for_each_batch(trace, interrupt, |steps| {
        for &Step { object, bytes, lives_ms, .. } in steps.iter().filter(|step| step.is_request()) {
            totals.expire |= lives_ms > 0;
            totals.requests += 1;
            totals.requested_bytes += bytes;
            if last.len() <= object.index() {
                last.resize(object.index() + 1, 0);
            }
            last[object.index()] = bytes;
        }
    })?;
    if totals.requests == 0 {
        return Err(SweepError::Empty { path: trace.name().to_owned() }.into());
    }
    totals.objects = last.iter().filter(|bytes| **bytes > 0).count() as u64;
    totals.object_bytes = last.iter().sum();
    Ok(totals)
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
/// As for [`sized_totals`].
pub fn simulate_sized(
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

fn for_each_batch(
    trace: &Trace,
    interrupt: &Interrupt,
    mut take: impl FnMut(&[Step]),
) -> Result<(), SizedError> {
    let window = trace.header().metadata.window;
    if window > 0 {
        return Err(SizedError::Reduced { path: trace.name().to_owned(), window });
    }
    let (mut sizes, mut chunk, mut steps) = (Sizes::default(), Chunk::new(), Vec::new());
    for number in 0..trace.chunks() {
        trace.read_chunk(number, &mut chunk)?;
        sizes.steps(trace, number, &chunk, &mut steps)?;
        take(&steps);
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted.into());
        }
    }
    Ok(())
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

/// Finds the lower bounds.
#[derive(Default)]
struct Bound {
    /// Requests so far, and their bytes.
    requests: u64,
    bytes: u64,
    /// The same before counting began.
    before: (u64, u64),
    /// When each object was last requested, counted from 1, and its size; 0 if it is not there.
    last: Vec<(u64, u64)>,
    /// The last moment at which each object can live that was loaded by one of its requests so far.
    ends_ms: Vec<i64>,
    /// Requests from one request for an object to the next, as far as they are counted, and its
    /// bytes.
    intervals: Vec<(u64, u64)>,
}

impl Bound {
    /// Only hits from here on count, and the requests that an object waited for one from here on.
    fn begin_counting(&mut self) {
        self.before = (self.requests, self.bytes);
        self.intervals.clear();
    }

    fn step(&mut self, step: &Step) {
        let &Step { object, bytes, now_ms, .. } = step;
        if self.last.len() <= object.index() {
            self.last.resize(object.index() + 1, (0, 0));
            self.ends_ms.resize(object.index() + 1, i64::MIN);
        }
        let (last, end_ms) = (&mut self.last[object.index()], &mut self.ends_ms[object.index()]);
        if !step.is_request() {
            (*last, *end_ms) = ((0, 0), i64::MIN);
            return;
        }
        self.requests += 1;
        self.bytes += bytes;
        if last.1 != bytes {
            *end_ms = i64::MIN;
        } else if last.0 > 0 && *end_ms >= now_ms {
            self.intervals.push((self.requests - last.0.max(self.before.0), bytes));
        }
        *last = (self.requests, bytes);
        *end_ms = step.end_ms().max(*end_ms);
    }

    fn outcomes(mut self, capacities: &[u64]) -> Vec<SizedOutcome> {
        let volume = |&(length, bytes): &(u64, u64)| u128::from(length) * u128::from(bytes);
        let (requests, bytes) = (self.requests - self.before.0, self.bytes - self.before.1);
        let budget = |capacity: u64| u128::from(capacity) * u128::from(requests);
        // The cheapest hit first, for hits; the cheapest byte first, for bytes.
        self.intervals.sort_unstable_by_key(volume);
        let most_hits = |&capacity: &u64| {
            let mut left = budget(capacity);
            let fitting = self.intervals.iter().filter(|(_, bytes)| *bytes <= capacity);
            let taken = fitting.map_while(|interval| {
                left = left.checked_sub(volume(interval))?;
                Some(())
            });
            taken.count() as u64
        };
        let hits: Vec<u64> = capacities.iter().map(most_hits).collect();
        self.intervals.sort_unstable_by_key(|(length, _)| *length);
        let most_bytes = |&capacity: &u64| {
            let mut left = budget(capacity);
            let mut hit_bytes = 0;
            for interval in self.intervals.iter().filter(|(_, bytes)| *bytes <= capacity) {
                // The last one may fit in part. A bound may count that part.
                let part = volume(interval).min(left);
                hit_bytes += part.div_ceil(u128::from(interval.0)) as u64;
                left -= part;
            }
            hit_bytes
        };
        let hit_bytes: Vec<u64> = capacities.iter().map(most_bytes).collect();
        let outcome = |(hits, hit_bytes): (&u64, &u64)| SizedOutcome {
            requests,
            requested_bytes: bytes,
            misses: requests - hits,
            missed_bytes: bytes - hit_bytes,
            ..SizedOutcome::default()
        };
        hits.iter().zip(&hit_bytes).map(outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn simulate(requests: &[(u64, u64)], policies: &str, capacities: &[u64]) -> Vec<SizedOutcome> {
        let policies = SizedPolicyName::parse_list(policies).unwrap();
        of(&trace(requests), &policies, capacities, 0)
    }

    fn of(trace: &Trace, policies: &[SizedPolicyName], capacities: &[u64], warmup: u64) -> Vec<SizedOutcome> {
        let interrupt = Interrupt::default();
        let runs = simulate_sized(trace, policies, capacities, warmup, &[], &interrupt, &|_| {}).unwrap();
        runs.into_iter().map(|run| run.outcome).collect()
    }

    #[test]
    fn requests_and_bytes_are_counted() {
        let requests = [(1, 70), (2, 40), (2, 40), (1, 70), (3, 101), (2, 0), (2, 40), (2, 50), (1, 70)];
        let totals = sized_totals(&trace(&requests), &Interrupt::default()).unwrap();
        let expected =
            SizedTotals { requests: 8, requested_bytes: 481, objects: 3, object_bytes: 221, expire: false };
        assert_eq!(totals, expected);
        // With 100 bytes, 1 and 2 push each other out; 3 never fits; 2 is deleted, and changes
        // size.
        let outcomes = simulate(&requests, "lru", &[100, 1_000]);
        let [small, large] = outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((small.misses, small.missed_bytes), (7, 441));
        assert_eq!((small.passed, small.evictions), (Some(1), Some(4)));
        // Compulsory: 1, 2, 3, 2 after its deletion, 2 with another size.
        assert_eq!((large.misses, large.missed_bytes, large.evictions), (5, 301, Some(0)));
    }

    /// One object of 10 bytes is asked for every second time, one of 90 every fourth time. A cache
    /// of 10 bytes has room for the hits of the first.
    #[test]
    fn bound_of_a_known_string() {
        let requests: Vec<(u64, u64)> = (0..40)
            .flat_map(|turn| [(1, 10), if turn % 2 == 0 { (2, 90) } else { (100 + turn, 90) }])
            .collect();
        let bounds = simulate(&requests, "bound", &[10, 100, 10_000]);
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
            let outcomes = simulate(&requests, "all", &capacities);
            let (bounds, policies) = outcomes.split_at(capacities.len());
            for (index, outcome) in policies.iter().enumerate() {
                let bound = &bounds[index % capacities.len()];
                assert!(outcome.misses >= bound.misses && outcome.missed_bytes >= bound.missed_bytes);
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
            assert_eq!(outcome.misses, less(|outcome| outcome.misses));
            assert_eq!(outcome.missed_bytes, less(|outcome| outcome.missed_bytes));
            assert_eq!(outcome.passed, Some(less(|outcome| outcome.passed.unwrap())));
            assert_eq!(outcome.evictions, Some(less(|outcome| outcome.evictions.unwrap())));
            let bound = &bounds[index % capacities.len()];
            assert!(outcome.misses >= bound.misses && outcome.missed_bytes >= bound.missed_bytes);
        }
        // The counts at a cut are those that a warm-up of that length leaves out.
        let (trace, interrupt) = (trace(&requests), Interrupt::default());
        let runs = simulate_sized(&trace, &policies, &capacities, 0, &[0, 1_500], &interrupt, &|_| {});
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
        assert!(sized_totals(&trace, &Interrupt::default()).unwrap().expire);
        let policies = SizedPolicyName::parse_list("all").unwrap();
        let outcomes = of(&trace, &policies, &[200 * 10], 0);
        assert!(expired > 500, "{expired}");
        for outcome in &outcomes[1..] {
            assert_eq!(
                (outcome.misses, outcome.expired, outcome.evictions),
                (misses, Some(expired), Some(0))
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
            let error = sized_totals(&trace, &Interrupt::default()).unwrap_err().to_string();
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
        let error = sized_totals(&trace, &Interrupt::default()).unwrap_err().to_string();
        let expected =
            "pages.swt: page 7 is not an object with a size; import the log again with --whole-objects";
        assert_eq!(error, expected);
    }
}
