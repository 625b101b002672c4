//! How much of the memory evicted pages have, compressed: what pays, by what came back lately.
//!
//! ```text
//!   used last <----------------- all pages, by last use -----------------> used longest ago
//!   | pages as they are        | compressed | on the disk                                 |
//!   | pages as they are   |    compressed       | on the disk                (larger pool) |
//!                         ^         extrapolated: used, and compressed in the larger pool
//! ```
//!
//! **What is known.** Of each page that comes back it is known how many pages have been evicted
//! since its own eviction: its *age*. Some of these have come back before it. The others are in
//! front of it, so their number is its *position* behind the end of memory. A pool holds the pages
//! of the first positions. So a histogram of ages tells what any pool would have held, without one.
//! Nothing is known of what is in front of the end of memory, and a larger pool takes that. Its
//! density is extrapolated from that of the first positions, and rises as it has risen there. A
//! pool that is there moves the end of memory, and then these pages are seen: to make a pool
//! smaller, nothing is extrapolated.
//!
//! **What it costs.** A page of the disk costs what threads have waited for such reads. A page of
//! the pool costs a fault and a decompression, and each page that goes to the pool a compression.
//! Pages that come back along a stream are never in the pool. They cost what their windows were
//! waited for, and a larger pool makes more of them come back.
//!
//! **The decision.** It is made after each thirty-second of memory that was evicted. The pool
//! becomes larger, by one step, if the best size would save a clear part of what the program waits
//! and of the time on the clock. The step has to prove itself: for the same time that the program
//! computes, it may not take clearly longer than before, and what comes back then may not show that
//! it was better before. If it fails, the next one waits for a while, twice as long each time. The
//! pool becomes smaller by one step if that would save a clear part, after pauses that grow too. It
//! goes at once if it saves next to nothing, or less than it costs.
//!
//! Ages are those of P. R. Wilson, S. F. Kaplan, Y. Smaragdakis, "The case for compressed caching
//! in virtual memory systems" (USENIX 1999), section 3, seen from the other side: they know the
//! order of resident pages, which an agent without a fault for each touch does not.

use alloc::vec::Vec;
use sweephand_policy::PageId;

/// The sizes of the pool, in thirty-seconds of memory. The first step is small: there are programs
/// whose loop just fits.
const SIZES: [usize; 8] = [0, 1, 2, 4, 6, 8, 12, 16];
const SIZES_OF: usize = 32;
/// Units of age to a memory, and buckets: up to 8 units one each, then 8 to each doubling, up to 8
/// memories. All that is older is in the last.
const UNITS_A_MEMORY: usize = 128;
const BUCKETS: usize = 64;
const BUCKETS_A_DOUBLING: usize = 8;
/// Decisions for each memory of evictions.
const DECISIONS_A_MEMORY: usize = 32;
/// What counts have left of their weight after that time: a fifth after a memory of evictions, as
/// in section 4.1 of the paper.
const DECAY: f64 = 0.951;
/// What they have left when the size changes, because pages are seen then that were not seen
/// before.
const DECAY_OF_CHANGE: f64 = 0.125;
/// Evictions before the first step up, in decisions.
const FIRST_DECISIONS: u32 = 8;
/// One page in this many is compressed to see how well pages compress, while there is no pool.
const SAMPLED: u64 = 64;
/// A cost moves by one part in this many of the difference to a new measurement. One that is many
/// times as long counts as this many times the mean: another program had the processor.
const MEASUREMENTS_OF_MEAN: f64 = 32.0;
const MOST_MEANS: f64 = 8.0;
/// A fault that is answered from memory, in nanoseconds: two switches between threads, 4 µs, and a
/// copy, 6 to 12 µs (`lab/bench/pager`).
const FAULT_NS: f64 = 12_000.0;
/// The part of a fault that counts as the program's processor time. It is no progress.
const FAULT_OF_PROGRAM_NS: u64 = 2_000;
/// The parts of a memory by which the density in front of the end of memory is extrapolated, and by
/// what it rises at most from one of them to the next.
const EXTRAPOLATED: f64 = 1.0 / 16.0;
const MOST_RISE: f64 = 2.0;
/// A larger pool must save this part of what threads have waited, and this part of the time on the
/// clock. If the present pool saves less than the last part of what all costs without one, it goes.
const LEAST_OF_WAITS: f64 = 0.1;
const LEAST_OF_TIME: f64 = 0.05;
const LEAST_TO_KEEP: f64 = 0.02;
/// A step up may take this many times as long for the same progress.
const MOST_SLOWER: f64 = 1.03;
/// Decisions after a change until the next that makes the pool smaller.
const SETTLED: u32 = 4;
/// Decisions of a warm-up, which do not count, and of a stretch; and the time that a program must
/// have computed in a stretch.
const WARM_UP: u32 = 2;
const STRETCH: u32 = 4;
const STRETCH_COMPUTED_NS: u64 = 20_000_000;
/// Decisions until the next step up after the pool has become smaller.
const FIRST_REST: u32 = 8;
const LONGEST_REST: u32 = 1024;
/// A size that has been kept for this many decisions has proved itself.
const KEPT: u32 = 128;
/// What has failed is followed by at least this many times its time without another try. So all of
/// them cost a program less than a twenty-fifth of its time.
const TRIALS_REST: u64 = 25;

/// A moment in the life of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moment {
    /// Time, in nanoseconds.
    pub(crate) clock_ns: u64,
    /// The time that it has computed until then.
    pub(crate) computed_ns: u64,
}

/// A mean that follows what is measured, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Mean(f64);

impl Mean {
    fn add(&mut self, ns: u64) {
        let ns = ns as f64;
        self.0 = match self.0 {
            0.0 => ns,
            mean => mean + (ns.min(mean * MOST_MEANS) - mean) / MEASUREMENTS_OF_MEAN,
        };
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// A page for which a thread waits while it is read.
    read: Mean,
    compression: Mean,
    decompression: Mean,
}

/// Counts of the last memory or so of evictions, which lose weight with each decision.
#[derive(Clone, Debug)]
struct Counts {
    /// Evictions, and those of them that a pool would get.
    evictions: f64,
    singles: f64,
    /// Pages that came back, by age: those that a pool would have got, those of them for which a
    /// thread waited, and those that go to the disk because they are foreseen.
    single: [f64; BUCKETS],
    awaited: [f64; BUCKETS],
    foreseen: [f64; BUCKETS],
    /// What threads waited for windows that were read along streams, in nanoseconds, and the pages
    /// in these.
    stream_ns: f64,
    stream_pages: f64,
    /// Pages that were compressed, those of them that a pool keeps, and the pages of memory that
    /// these take.
    compressed: f64,
    kept: f64,
    kept_memory: f64,
    /// Time on the clock.
    clock_ns: f64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            evictions: 0.0,
            singles: 0.0,
            single: [0.0; BUCKETS],
            awaited: [0.0; BUCKETS],
            foreseen: [0.0; BUCKETS],
            stream_ns: 0.0,
            stream_pages: 0.0,
            compressed: 0.0,
            kept: 0.0,
            kept_memory: 0.0,
            clock_ns: 0.0,
        }
    }
}

impl Counts {
    /// All counts lose weight.
    fn fade(&mut self, to: f64) {
        let Self { evictions, singles, stream_ns, stream_pages, compressed, kept, kept_memory, .. } = self;
        for count in [evictions, singles, stream_ns, stream_pages, compressed, kept, kept_memory] {
            *count *= to;
        }
        self.clock_ns *= to;
        for of in [&mut self.single, &mut self.awaited, &mut self.foreseen] {
            of.iter_mut().for_each(|count| *count *= to);
        }
    }
}

/// The fewest positions of a bucket: something to divide by.
const LEAST_WIDTH: f64 = 0.001;

/// The bucket of an age, in units.
fn bucket(age: usize) -> usize {
    match age.checked_ilog2() {
        Some(doubling) if age >= BUCKETS_A_DOUBLING => {
            let within = (age >> (doubling - 3)) % BUCKETS_A_DOUBLING;
            (BUCKETS_A_DOUBLING * (doubling as usize - 2) + within).min(BUCKETS - 1)
        }
        _ => age,
    }
}

/// The first age of a bucket, in units.
fn first_age(bucket: usize) -> usize {
    match bucket / BUCKETS_A_DOUBLING {
        0 => bucket,
        doubling => (BUCKETS_A_DOUBLING + bucket % BUCKETS_A_DOUBLING) << (doubling - 1),
    }
}

/// The part of a range that is in front of a limit.
fn part_before(range: (f64, f64), limit: f64) -> f64 {
    ((limit - range.0) / (range.1 - range.0)).clamp(0.0, 1.0)
}

/// How fast the program gets on.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    start: Moment,
    decisions: u32,
    /// Time on the clock for the time computed, in the last stretch that is over.
    cost: Option<f64>,
}

impl Pace {
    fn begin(&mut self, now: Moment) {
        *self = Self { start: now, decisions: 0, cost: None };
    }

    fn note(&mut self, now: Moment) {
        self.decisions += 1;
        let Some(computed) = now.computed_ns.checked_sub(self.start.computed_ns) else {
            // A child, which has computed nothing yet.
            return self.begin(now);
        };
        if self.decisions >= STRETCH && computed >= STRETCH_COMPUTED_NS {
            let clock = now.clock_ns.saturating_sub(self.start.clock_ns);
            *self = Self { start: now, decisions: 0, cost: Some(clock as f64 / computed as f64) };
        }
    }
}

/// Decisions for which something is not tried again. They double each time.
#[derive(Clone, Copy, Debug)]
struct Rest {
    left: u32,
    next: u32,
}

impl Rest {
    fn of(left: u32) -> Self {
        Self { left, next: FIRST_REST }
    }

    fn pass(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    fn begin(&mut self) {
        *self = Self { left: self.next, next: (2 * self.next).min(LONGEST_REST) };
    }
}

/// A step up that has not proved itself.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The size before it.
    from: usize,
    /// The pace before it, if that is known.
    cost: Option<f64>,
    decisions: u32,
    began_ns: u64,
}

/// When pages were evicted.
#[derive(Debug)]
struct Ages {
    /// Evictions to a unit of age.
    unit: u64,
    /// Evictions so far, and those that a pool would get.
    clock: u64,
    singles: u64,
    /// By page id: when it was evicted, in units, plus one. It begins anew after 512 memories.
    stamps: Vec<u16>,
}

impl Ages {
    fn stamp(&self) -> u16 {
        (self.clock / self.unit % u64::from(u16::MAX)) as u16 + 1
    }

    fn set(&mut self, page: PageId, stamp: u16) {
        if page.index() >= self.stamps.len() {
            // As the arrays of `pages` grow, because allocated memory counts as used.
            let length = page.index() + 1;
            if length > self.stamps.capacity() {
                self.stamps.reserve_exact(length + length / 16 - self.stamps.len());
            }
            self.stamps.resize(length, 0);
        }
        self.stamps[page.index()] = stamp;
    }

    fn take(&mut self, page: PageId) -> Option<u16> {
        self.stamps.get_mut(page.index()).map(core::mem::take).filter(|&stamp| stamp > 0)
    }
}

/// The split of memory between pages as they are and compressed ones.
#[derive(Debug)]
pub(crate) struct Split {
    ages: Ages,
    /// Evictions since the last decision.
    since_decision: u64,
    /// Faults so far.
    faults: u64,
    counts: Counts,
    costs: Costs,
    /// The size, as a place in `SIZES`.
    size: usize,
    pace: Pace,
    trial: Option<Trial>,
    /// After a step up that has failed, and after one down that leaves a pool.
    rest: Rest,
    rest_below: Rest,
    /// The pace without a pool, when there was none for the last time.
    cost_without: Option<f64>,
    /// When the pool was last begun.
    since_ns: u64,
    /// The time on the clock before which no step up is tried.
    not_before_ns: u64,
    latest: Moment,
    /// Decisions since the size changed.
    settled: u32,
}

impl Split {
    /// No pool, in this many pages of memory.
    pub(crate) fn new(memory_pages: usize, now: Moment) -> Self {
        Self {
            ages: Ages {
                unit: (memory_pages / UNITS_A_MEMORY).max(1) as u64,
                clock: 0,
                singles: 0,
                stamps: Vec::new(),
            },
            since_decision: 0,
            faults: 0,
            counts: Counts::default(),
            costs: Costs::default(),
            size: 0,
            pace: Pace { start: now, ..Pace::default() },
            trial: None,
            rest: Rest::of(FIRST_DECISIONS),
            rest_below: Rest::of(0),
            cost_without: None,
            since_ns: 0,
            not_before_ns: 0,
            latest: now,
            settled: 0,
        }
    }

    // What happens.

    /// A page is evicted that a pool would get (`is_single`), or one that is foreseen. Returns
    /// whether it is one of the sample.
    pub(crate) fn evicted(&mut self, page: PageId, is_single: bool) -> bool {
        self.ages.set(page, self.ages.stamp());
        self.ages.clock += 1;
        self.since_decision += 1;
        self.counts.evictions += 1.0;
        if is_single {
            self.counts.singles += 1.0;
            self.ages.singles += 1;
        }
        is_single && self.ages.singles.is_multiple_of(SAMPLED)
    }

    /// An evicted page comes back. `is_awaited`: a thread waits for it.
    pub(crate) fn came_back(&mut self, page: PageId, is_single: bool, is_awaited: bool) {
        let now = self.ages.stamp();
        let Some(then) = self.ages.take(page) else { return };
        let units = if then <= now { now - then } else { u16::MAX - then + now };
        let bucket = bucket(units.into());
        let of = if is_single { &mut self.counts.single } else { &mut self.counts.foreseen };
        of[bucket] += 1.0;
        if is_single && is_awaited {
            self.counts.awaited[bucket] += 1.0;
        }
    }

    /// A page is no longer evicted, or it was dropped and is another one now.
    pub(crate) fn forget(&mut self, page: PageId) {
        self.ages.take(page);
    }

    /// The agent answers a fault, of whichever kind.
    pub(crate) fn faulted(&mut self) {
        self.faults += 1;
    }

    /// A page is known by another id from now on.
    pub(crate) fn rename(&mut self, old: PageId, new: PageId) {
        let stamp = self.ages.take(old).unwrap_or_default();
        self.ages.set(new, stamp);
    }

    /// A page was compressed. It takes this many pages of memory in a pool, if that keeps it.
    pub(crate) fn compressed(&mut self, memory: Option<f64>) {
        self.counts.compressed += 1.0;
        if let Some(memory) = memory {
            self.counts.kept += 1.0;
            self.counts.kept_memory += memory;
        }
    }

    /// How long a compression took.
    pub(crate) fn compression_took(&mut self, ns: u64) {
        self.costs.compression.add(ns);
    }

    /// How long a decompression took.
    pub(crate) fn decompression_took(&mut self, ns: u64) {
        self.costs.decompression.add(ns);
    }

    /// A thread has waited for a window of pages. `is_stream`: it was read along a stream.
    pub(crate) fn waited(&mut self, ns: u64, is_stream: bool) {
        match is_stream {
            true => self.counts.stream_ns += ns as f64,
            false => self.costs.read.add(ns),
        }
    }

    /// A window of a stream has been read.
    pub(crate) fn streamed(&mut self, pages: usize) {
        self.counts.stream_pages += pages as f64;
    }

    // What it comes to.

    /// The pages of memory that a pool of this size has.
    fn pages_of(size: usize, memory_pages: usize) -> usize {
        memory_pages * SIZES[size] / SIZES_OF
    }

    /// Goes through the buckets, by position: the range of positions of each.
    fn positions(&self) -> impl Iterator<Item = (usize, (f64, f64))> {
        let Counts { evictions, single, foreseen, .. } = &self.counts;
        // While memory fills that the pool has given back, none is evicted for those that come.
        let all = single.iter().chain(foreseen).sum::<f64>().max(*evictions).max(1.0);
        let (mut position, mut came_back) = (0.0, 0.0);
        (0..BUCKETS).map(move |bucket| {
            let units = (first_age(bucket + 1) - first_age(bucket)) as f64;
            let mass = single[bucket] + foreseen[bucket];
            // Those that come back in this range are there for half of it.
            let left = 1.0 - (came_back + mass / 2.0) / all;
            came_back += mass;
            let start = position;
            position += (units * self.ages.unit as f64 * left).max(LEAST_WIDTH);
            (bucket, (start, position))
        })
    }

    /// How many of the pages that come back would be added by this many pages of memory less.
    fn extrapolated(&self, of: &[f64; BUCKETS], pages: f64, memory_pages: f64) -> f64 {
        let part = (memory_pages * EXTRAPOLATED).max(1.0);
        let (mut first, mut second) = (0.0, 0.0);
        for (bucket, range) in self.positions() {
            let before = part_before(range, part);
            first += of[bucket] * before;
            second += of[bucket] * (part_before(range, 2.0 * part) - before);
        }
        let rise = if second > 0.0 { (first / second).clamp(1.0, MOST_RISE) } else { MOST_RISE };
        let (mut sum, mut density, mut left) = (0.0, first, pages / part);
        while left > 0.0 {
            density *= rise;
            sum += density * left.min(1.0);
            left -= 1.0;
        }
        sum
    }

    /// What the pages that came back would have cost with a pool of some pages, in nanoseconds.
    fn cost(&self, pool_pages: f64, present_pages: f64, memory_pages: f64) -> f64 {
        let Counts { evictions, singles, compressed, kept, kept_memory, .. } = self.counts;
        let shift = pool_pages - present_pages;
        let kept_part = if compressed > 0.0 { kept / compressed } else { 0.0 };
        let single_part = singles / evictions.max(1.0);
        let is_open = pool_pages > 0.0;
        // In positions: what a page takes of the pool, on average.
        let taken = single_part * kept_part * (kept_memory / kept.max(f64::MIN_POSITIVE));
        let held = if is_open { pool_pages / taken.max(f64::MIN_POSITIVE) } else { 0.0 };
        let disk_ns = FAULT_NS + self.costs.read.0;
        let pool_ns = FAULT_NS + self.costs.decompression.0;
        let stream_ns = self.stream_page_ns();
        let mut cost = 0.0;
        for (bucket, range) in self.positions() {
            let in_memory = part_before(range, -shift);
            let in_pool = if is_open { (part_before(range, held - shift) - in_memory).max(0.0) } else { 0.0 };
            let on_disk = 1.0 - in_memory - in_pool * kept_part;
            cost += self.counts.single[bucket] * in_pool * kept_part * pool_ns
                + self.counts.awaited[bucket] * on_disk * disk_ns
                + self.counts.foreseen[bucket] * (1.0 - in_memory) * stream_ns;
        }
        let more = self.extrapolated(&self.counts.single, shift, memory_pages);
        let more_foreseen = self.extrapolated(&self.counts.foreseen, shift, memory_pages);
        cost += more * (kept_part * pool_ns + (1.0 - kept_part) * disk_ns) + more_foreseen * stream_ns;
        cost + if is_open { (singles + more) * self.costs.compression.0 } else { 0.0 }
    }

    /// What threads wait for a page of a stream.
    fn stream_page_ns(&self) -> f64 {
        self.counts.stream_ns / self.counts.stream_pages.max(1.0)
    }

    // The decision.

    /// In a forked child, which has computed nothing yet. What was learnt of pages and costs holds.
    pub(crate) fn begin_in_child(&mut self, now: Moment) {
        (self.faults, self.trial, self.cost_without) = (0, None, None);
        (self.latest, self.since_ns) = (now, now.clock_ns);
        self.pace.begin(now);
    }

    /// Whether enough pages have been evicted for a decision, in this many pages of memory.
    pub(crate) fn is_due(&self, memory_pages: usize) -> bool {
        self.since_decision >= (memory_pages / DECISIONS_A_MEMORY).max(1) as u64
    }

    /// How many pages of memory the pool should have, if the pool and the program together have
    /// `memory_pages`.
    pub(crate) fn pages(&self, memory_pages: usize) -> usize {
        Self::pages_of(self.size, memory_pages)
    }

    /// Decides. `now` has the processor time of the program.
    pub(crate) fn decide(&mut self, now: Moment, memory_pages: usize) {
        let in_faults = self.faults * FAULT_OF_PROGRAM_NS;
        let now = Moment { computed_ns: now.computed_ns.saturating_sub(in_faults), ..now };
        self.since_decision = 0;
        self.counts.clock_ns += now.clock_ns.saturating_sub(self.latest.clock_ns) as f64;
        self.latest = now;
        self.pace.note(now);
        self.settled += 1;
        self.rest.pass();
        self.rest_below.pass();
        let next = self.best(memory_pages);
        let next = if next < self.size && self.settled < SETTLED { self.size } else { next };
        if self.size > 0 && self.settled >= KEPT {
            self.rest.next = FIRST_REST;
            self.since_ns = now.clock_ns;
        }
        if self.size > 0 && (next == 0 || self.is_slower_than_without()) {
            self.trial = None;
            self.rest_below = Rest::of(0);
            self.retreat(0, self.since_ns, now, memory_pages);
        } else if let Some(trial) = self.trial.filter(|_| self.has_failed(now) || next < self.size) {
            self.trial = None;
            self.retreat(trial.from.min(next), trial.began_ns, now, memory_pages);
        } else if next > self.size && self.trial.is_none() && self.may_try(now) {
            let began_ns = now.clock_ns;
            self.trial = Some(Trial { from: self.size, cost: self.pace.cost, decisions: 0, began_ns });
            self.change(next, now, memory_pages);
        } else if next < self.size && self.rest_below.left == 0 {
            self.rest_below.begin();
            self.change(next, now, memory_pages);
        }
        self.counts.fade(DECAY);
    }

    /// Whether the program gets on more slowly than it did without a pool, as far as that is known:
    /// a step that seemed to do no harm may have done some, above all to a loop, whose rounds take
    /// longer than a stretch. If that is because it does something else now, the pool comes again.
    fn is_slower_than_without(&self) -> bool {
        let costs = self.pace.cost.zip(self.cost_without);
        costs.is_some_and(|(cost, without)| cost > MOST_SLOWER * without)
    }

    /// Goes back to a size after what has failed since a time.
    fn retreat(&mut self, to: usize, since_ns: u64, now: Moment, memory_pages: usize) {
        self.rest.begin();
        self.not_before_ns = now.clock_ns + TRIALS_REST * (now.clock_ns - since_ns);
        self.change(to, now, memory_pages);
    }

    fn may_try(&self, now: Moment) -> bool {
        self.rest.left == 0 && now.clock_ns >= self.not_before_ns
    }

    /// The size that is best by what is known: at most a step above the present one.
    fn best(&self, memory_pages: usize) -> usize {
        let memory = memory_pages as f64;
        let present = Self::pages_of(self.size, memory_pages) as f64;
        let cost_of = |size: usize| self.cost(Self::pages_of(size, memory_pages) as f64, present, memory);
        let costs: [f64; SIZES.len()] = core::array::from_fn(cost_of);
        let cheapest = |sizes: core::ops::Range<usize>| {
            sizes.fold(
                (0, costs[0]),
                |best, size| if costs[size] < best.1 { (size, costs[size]) } else { best },
            )
        };
        let (best, best_cost) = cheapest(0..SIZES.len());
        let (smaller, smaller_cost) = cheapest(0..self.size.max(1));
        let now = costs[self.size];
        // A step may save nothing by itself where a larger pool holds all.
        let least = now.min(smaller_cost);
        let gain = least - best_cost;
        if best > self.size && gain > LEAST_OF_WAITS * least && gain > LEAST_OF_TIME * self.counts.clock_ns {
            self.size + 1
        } else if self.size > 0 && costs[0] - now < LEAST_TO_KEEP * costs[0] {
            0
        } else if now - smaller_cost > LEAST_OF_WAITS * now {
            // One step, because it costs more to have too little than too much.
            if smaller == 0 { 0 } else { self.size - 1 }
        } else if self.size > 0 && best > self.size && now - best_cost > LEAST_TO_KEEP * now {
            // What is worth another step was worth one when there was no pool.
            self.size + 1
        } else {
            self.size
        }
    }

    /// Whether a step up has made the program slower. Ends the trial if it is over.
    fn has_failed(&mut self, now: Moment) -> bool {
        let Some(trial) = &mut self.trial else { return false };
        trial.decisions += 1;
        if trial.decisions <= WARM_UP {
            self.pace.begin(now);
            return false;
        }
        let Some((before, after)) = trial.cost.zip(self.pace.cost) else {
            // A program that hardly computes is judged by what is known of its pages.
            if trial.decisions > WARM_UP + STRETCH {
                self.trial = None;
            }
            return false;
        };
        let failed = after > MOST_SLOWER * before;
        if !failed {
            self.trial = None;
        }
        failed
    }

    /// The pool gets another size. What is known of positions moves with the end of memory.
    fn change(&mut self, size: usize, now: Moment, memory_pages: usize) {
        let pages = |size| Self::pages_of(size, memory_pages) as f64;
        let shift = pages(size) - pages(self.size);
        if self.size == 0 {
            self.since_ns = now.clock_ns;
            self.cost_without = self.pace.cost;
        }
        (self.size, self.settled) = (size, 0);
        self.pace.begin(now);
        // Those that come back sooner now were not evicted.
        let kinds = [&self.counts.single, &self.counts.foreseen];
        let [single, foreseen] = kinds.map(|of| self.extrapolated(of, shift, memory_pages as f64));
        let shift = shift / self.ages.unit as f64;
        let Counts { single: singles, awaited, foreseen: streams, .. } = &mut self.counts;
        let [less, _, less_foreseen] = [singles, awaited, streams].map(|of| shift_ages(of, shift));
        self.counts.singles += single - less;
        self.counts.evictions += single - less + foreseen - less_foreseen;
        self.counts.fade(DECAY_OF_CHANGE);
    }
}

/// All ages become longer by this many units, or shorter. Returns the sum of those that would be
/// less than 0, and are gone.
fn shift_ages(of: &mut [f64; BUCKETS], units: f64) -> f64 {
    let mut gone = 0.0;
    let before = core::mem::replace(of, [0.0; BUCKETS]);
    for (from, count) in before.into_iter().enumerate() {
        let middle = (first_age(from) + first_age(from + 1)) as f64 / 2.0 + units;
        match middle >= 0.0 {
            true => of[bucket(middle as usize)] += count,
            false => gone += count,
        }
    }
    gone
}

#[cfg(test)]
mod tests;
