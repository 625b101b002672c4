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
}

/// What came of a simulation, or what the bound says.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SizedOutcome {
    /// Requests for objects that were not in the cache.
    pub misses: u64,
    /// Their bytes.
    pub missed_bytes: u64,
    /// Misses after which the object did not come in: it is larger than the cache, or the policy
    /// refused it. None for the bound.
    pub passed: Option<u64>,
    /// Objects given up. None for the bound.
    pub evictions: Option<u64>,
}

/// A request for an object of so many bytes, or, with no bytes, its deletion.
type Step = (PageId, u64);

/// Finds the sizes of requests while a trace is read.
#[derive(Default)]
struct Sizes {
    /// Bytes of the object that begins at each address.
    at: FxHashMap<u64, u64>,
    /// Page number and bytes of each page id; no bytes before they are looked up.
    of: Vec<(u64, u64)>,
}

impl Sizes {
    /// The requests and deletions of a chunk, in order, instead of what `steps` holds.
    fn steps(&mut self, trace: &Trace, chunk: &Chunk, steps: &mut Vec<Step>) -> Result<(), SizedError> {
        steps.clear();
        self.of.extend(chunk.new_pages.iter().map(|&number| (number, 0)));
        let page_bytes = trace.header().metadata.page_size;
        let mut events = chunk.events.iter().peekable();
        for (position, reference) in chunk.references.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= position) {
                self.event(event, steps);
            }
            let (number, bytes) = &mut self.of[reference.page() as usize];
            if *bytes == 0 {
                *bytes =
                    *number.checked_mul(page_bytes).and_then(|address| self.at.get(&address)).ok_or_else(
                        || SizedError::NoSize { path: trace.name().to_owned(), page_number: *number },
                    )?;
            }
            steps.push((PageId(reference.page()), *bytes));
        }
        events.for_each(|(_, event)| self.event(event, steps));
        Ok(())
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
                        steps.push((PageId(page), 0));
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
/// The trace cannot be read, has no references, or is not one of whole objects.
pub fn sized_totals(trace: &Trace, interrupt: &Interrupt) -> Result<SizedTotals, SizedError> {
    let mut totals = SizedTotals::default();
    let mut last: Vec<u64> = Vec::new();
    for_each_batch(trace, interrupt, |steps| {
        for &(object, bytes) in steps.iter().filter(|(_, bytes)| *bytes > 0) {
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

/// Simulates each policy with each capacity, in this order. `progress` is called now and then with
/// the number of records of the trace that are done.
///
/// # Errors
/// As for [`sized_totals`].
pub fn simulate_sized(
    trace: &Trace,
    policies: &[SizedPolicyName],
    capacities: &[u64],
    interrupt: &Interrupt,
    progress: &dyn Fn(u64),
) -> Result<Vec<SizedOutcome>, SizedError> {
    let mut runs: Vec<Run> = policies.iter().flat_map(|policy| Run::of(*policy, capacities)).collect();
    let mut done = 0;
    for_each_batch(trace, interrupt, |steps| {
        runs.par_iter_mut().with_max_len(1).for_each(|run| steps.iter().for_each(|step| run.step(*step)));
        done += steps.iter().filter(|(_, bytes)| *bytes > 0).count() as u64;
        progress(done);
    })?;
    Ok(runs.into_iter().flat_map(|run| run.outcomes(capacities)).collect())
}

fn for_each_batch(
    trace: &Trace,
    interrupt: &Interrupt,
    mut take: impl FnMut(&[Step]),
) -> Result<(), SizedError> {
    let (mut sizes, mut chunk, mut steps) = (Sizes::default(), Chunk::new(), Vec::new());
    for number in 0..trace.chunks() {
        trace.read_chunk(number, &mut chunk)?;
        sizes.steps(trace, &chunk, &mut steps)?;
        take(&steps);
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted.into());
        }
    }
    Ok(())
}

/// What takes all requests once.
enum Run {
    Policy { cache: SizedCache, outcome: SizedOutcome },
    Bound(Bound),
}

impl Run {
    fn of(policy: SizedPolicyName, capacities: &[u64]) -> Vec<Self> {
        match policy {
            SizedPolicyName::Bound => vec![Self::Bound(Bound::default())],
            SizedPolicyName::Policy(entry) => {
                let cache = |&bytes| SizedCache::new(entry.make(bytes), bytes);
                let outcome = SizedOutcome { passed: Some(0), ..SizedOutcome::default() };
                capacities.iter().map(|bytes| Self::Policy { cache: cache(bytes), outcome }).collect()
            }
        }
    }

    fn step(&mut self, (object, bytes): Step) {
        match self {
            Self::Bound(bound) => bound.step(object, bytes),
            Self::Policy { cache, .. } if bytes == 0 => cache.remove(object),
            Self::Policy { cache, outcome } => {
                let access = cache.request(object, bytes);
                if access != Access::Hit {
                    outcome.misses += 1;
                    outcome.missed_bytes += bytes;
                }
                if access == Access::Passed {
                    outcome.passed = outcome.passed.map(|passed| passed + 1);
                }
            }
        }
    }

    fn outcomes(self, capacities: &[u64]) -> Vec<SizedOutcome> {
        match self {
            Self::Policy { cache, outcome } => {
                vec![SizedOutcome { evictions: Some(cache.evictions()), ..outcome }]
            }
            Self::Bound(bound) => bound.outcomes(capacities),
        }
    }
}

/// Finds the lower bounds.
#[derive(Default)]
struct Bound {
    /// Requests so far, and their bytes.
    requests: u64,
    bytes: u64,
    /// When each object was last requested, counted from 1, and its size; 0 if it is not there.
    last: Vec<(u64, u64)>,
    /// Requests from one request for an object to the next, and its bytes.
    intervals: Vec<(u64, u64)>,
}

impl Bound {
    fn step(&mut self, object: PageId, bytes: u64) {
        if self.last.len() <= object.index() {
            self.last.resize(object.index() + 1, (0, 0));
        }
        let last = &mut self.last[object.index()];
        if bytes == 0 {
            *last = (0, 0);
            return;
        }
        self.requests += 1;
        self.bytes += bytes;
        if last.0 > 0 && last.1 == bytes {
            self.intervals.push((self.requests - last.0, bytes));
        }
        *last = (self.requests, bytes);
    }

    fn outcomes(mut self, capacities: &[u64]) -> Vec<SizedOutcome> {
        let volume = |&(length, bytes): &(u64, u64)| u128::from(length) * u128::from(bytes);
        let budget = |capacity: u64| u128::from(capacity) * u128::from(self.requests);
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
            misses: self.requests - hits,
            missed_bytes: self.bytes - hit_bytes,
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
        simulate_sized(&trace(requests), &policies, capacities, &Interrupt::default(), &|_| {}).unwrap()
    }

    #[test]
    fn requests_and_bytes_are_counted() {
        let requests = [(1, 70), (2, 40), (2, 40), (1, 70), (3, 101), (2, 0), (2, 40), (2, 50), (1, 70)];
        let totals = sized_totals(&trace(&requests), &Interrupt::default()).unwrap();
        let expected = SizedTotals { requests: 8, requested_bytes: 481, objects: 3, object_bytes: 221 };
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
