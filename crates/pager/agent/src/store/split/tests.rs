//! Streams that are known: a loop, a Zipf stream, single pages, pages that do not compress.

use super::*;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use sweephand_policy::SplitMix64;

const MEMORY: usize = 1024;
const CLOUD_NS: u64 = 500_000;
const FAST_NS: u64 = 27_000;
const FAULT: u64 = FAULT_NS as u64;

/// Who says how large the pool is.
enum Size {
    Fixed(usize),
    Auto(Box<Split>),
}

/// A program under LRU, with a pool, on a disk. All of its pages are alike.
struct World {
    size: Size,
    read_ns: u64,
    /// What the program computes for each use.
    computing_ns: u64,
    /// What a page takes of a pool; `None` if pages do not compress.
    taken: Option<f64>,
    now: Moment,
    /// By page: its last use, and whether it was ever evicted.
    used: Vec<(u64, bool)>,
    resident: BTreeMap<u64, u32>,
    pool: BTreeMap<u64, u32>,
    uses: u64,
    /// The largest pool there was.
    peak_pages: usize,
}

impl World {
    fn new(is_auto: bool, pool_pages: usize, read_ns: u64, taken: Option<f64>) -> Self {
        let size = match is_auto {
            true => Size::Auto(Box::new(Split::new(MEMORY, Moment::default()))),
            false => Size::Fixed(pool_pages),
        };
        let (resident, pool) = (BTreeMap::new(), BTreeMap::new());
        Self {
            size,
            read_ns,
            computing_ns: 1000,
            taken,
            now: Moment::default(),
            used: Vec::new(),
            resident,
            pool,
            uses: 0,
            peak_pages: 0,
        }
    }

    fn pool_pages(&self) -> usize {
        match &self.size {
            Size::Fixed(pages) => *pages,
            Size::Auto(split) => split.pages(MEMORY),
        }
    }

    fn split(&mut self, act: impl FnOnce(&mut Split)) {
        if let Size::Auto(split) = &mut self.size {
            act(split);
        }
    }

    fn touch(&mut self, page: u32) {
        self.uses += 1;
        self.now.clock_ns += self.computing_ns;
        self.now.computed_ns += self.computing_ns;
        if page as usize >= self.used.len() {
            self.used.resize(page as usize + 1, (0, false));
        }
        let (before, was_evicted) = core::mem::replace(&mut self.used[page as usize], (self.uses, false));
        if self.resident.remove(&before).is_none() {
            self.now.clock_ns += FAULT;
            if self.pool.remove(&before).is_some() {
                self.now.clock_ns += 700;
            } else if was_evicted {
                let read_ns = self.read_ns;
                self.now.clock_ns += read_ns;
                self.split(|split| split.waited(read_ns, false));
            }
            self.split(|split| split.came_back(PageId(page), true, true));
        }
        self.resident.insert(self.uses, page);
        self.make_room();
    }

    fn make_room(&mut self) {
        let now = self.now;
        self.split(|split| {
            if split.is_due(MEMORY) {
                split.decide(now, MEMORY);
            }
        });
        let pool_pages = self.pool_pages();
        self.peak_pages = self.peak_pages.max(pool_pages);
        while self.resident.len() > MEMORY - pool_pages {
            let (used, page) = self.resident.pop_first().unwrap();
            self.used[page as usize].1 = true;
            let mut is_sampled = false;
            self.split(|split| is_sampled = split.evicted(PageId(page), true));
            self.now.clock_ns += 2000 * (u64::from(is_sampled) + u64::from(pool_pages > 0));
            if is_sampled {
                let taken = self.taken;
                self.split(|split| {
                    split.compression_took(2000);
                    split.decompression_took(700);
                    split.compressed(taken);
                });
            }
            if pool_pages > 0 && self.taken.is_some() {
                self.pool.insert(used, page);
            }
        }
        while self.pool.len() as f64 * self.taken.unwrap_or(1.0) > pool_pages as f64 {
            self.pool.pop_first();
        }
    }

    /// Seconds from now on for these uses.
    fn seconds(&mut self, pages: &[u32]) -> f64 {
        let before = self.now.clock_ns;
        pages.iter().for_each(|&page| self.touch(page));
        (self.now.clock_ns - before) as f64 / 1e9
    }
}

fn a_loop(pages: u32, rounds: usize) -> Vec<u32> {
    (0..rounds).flat_map(|_| 0..pages).collect()
}

/// Pages of which a few are used often, and each of the others more seldom than the one before.
fn zipf(pages: u32, uses: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    let mut page = || {
        let uniform = (random.below(1 << 30) + 1) as f64 / (1_u64 << 30) as f64;
        // The inverse of a power law: half of the uses have a seventieth of the pages.
        (f64::from(pages) * uniform * uniform * uniform * uniform * uniform * uniform) as u32 * 7 % pages
    };
    (0..uses).map(|_| page()).collect()
}

fn random(pages: u32, uses: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    (0..uses).map(|_| random.below(u64::from(pages)) as u32).collect()
}

/// Seconds without a pool, with the best of the fixed sizes, and with one that adapts, for the
/// second half of the uses; and the peak of the pool that adapts. In the whole it may never be
/// much slower than without.
fn compare(pages: &[u32], read_ns: u64, taken: Option<f64>) -> ([f64; 3], usize) {
    let (first, second) = pages.split_at(pages.len() / 2);
    let of = |mut world: World| {
        let seconds = [first, second].map(|pages| world.seconds(pages));
        (seconds[1], seconds[0] + seconds[1], world.peak_pages)
    };
    let fixed = SIZES.map(|size| of(World::new(false, MEMORY * size / SIZES_OF, read_ns, taken)));
    let (auto, whole, peak) = of(World::new(true, 0, read_ns, taken));
    assert!(whole < 1.05 * fixed[0].1, "{whole} s in all, {} without a pool", fixed[0].1);
    let best = fixed.iter().map(|fixed| fixed.0).fold(f64::INFINITY, f64::min);
    ([fixed[0].0, best, auto], peak)
}

#[test]
fn ages_are_in_buckets_that_follow_one_another() {
    for age in 0..1024 {
        let bucket = bucket(age);
        assert!((first_age(bucket)..first_age(bucket + 1)).contains(&age), "{age}: {bucket}");
    }
    assert_eq!((bucket(1024), bucket(1 << 16)), (BUCKETS - 1, BUCKETS - 1));
}

#[test]
fn a_loop_a_little_larger_than_memory_is_compressed() {
    for pages in [1100, 1400, 2000] {
        let ([none, best, auto], peak) = compare(&a_loop(pages, 60), CLOUD_NS, Some(0.3));
        assert!(best < 0.2 * none && auto < 1.1 * best, "{pages} pages, pool of {peak}");
    }
}

#[test]
fn single_pages_have_a_pool_on_a_slow_disk_if_it_pays() {
    for (pages, of) in [
        (zipf(6000, 400_000, 1), "zipf"),
        (random(1500, 100_000, 2), "random"),
        (random(8000, 60_000, 3), "more"),
    ] {
        let ([none, best, auto], peak) = compare(&pages, CLOUD_NS, Some(0.3));
        assert!(auto < 1.05 * none && auto < 1.1 * best, "{of}: {none} {best} {auto}, pool of {peak}");
    }
}

#[test]
fn pages_that_do_not_compress_have_no_pool() {
    for pages in [a_loop(1400, 20), zipf(6000, 100_000, 1)] {
        let ([none, _, auto], peak) = compare(&pages, CLOUD_NS, None);
        assert!(auto < 1.001 * none, "{none} {auto}");
        assert_eq!(peak, 0);
    }
}

#[test]
fn on_a_fast_disk_single_pages_are_no_slower() {
    let ([none, _, auto], peak) = compare(&zipf(6000, 400_000, 1), FAST_NS, Some(0.3));
    assert!(auto < 1.05 * none, "{none} {auto}, pool of {peak}");
}

/// What a pool takes is what the loop needs.
#[test]
fn a_loop_that_just_fits_is_left_alone_or_no_slower() {
    let mut random = SplitMix64::new(7);
    let mut pages = a_loop(990, 300);
    for index in (0..pages.len()).step_by(20) {
        pages[index] = 1000 + random.below(800) as u32;
    }
    for (read_ns, taken) in [(CLOUD_NS, 0.3), (FAST_NS, 0.3), (CLOUD_NS, 0.7), (FAST_NS, 0.7)] {
        let [none, auto] = [false, true].map(|is_auto| {
            let mut world = World::new(is_auto, 0, read_ns, Some(taken));
            world.computing_ns = 10_000;
            world.seconds(&pages)
        });
        assert!(auto < 1.05 * none, "{none} s without, {auto} with, {read_ns} ns, {taken}");
    }
}

#[test]
fn a_pool_whose_gain_is_gone_goes_and_comes_back() {
    let mut world = World::new(true, 0, CLOUD_NS, Some(0.3));
    let the_loop = a_loop(1400, 20);
    world.seconds(&the_loop);
    assert!(world.pool_pages() > 0, "a loop");
    // Pages that are used once.
    let once: Vec<u32> = (2000..10_000).collect();
    world.seconds(&once);
    assert_eq!(world.pool_pages(), 0, "pages that are used once");
    world.seconds(&a_loop(1400, 30));
    assert!(world.pool_pages() > 0, "the loop again");
    world.taken = None;
    world.seconds(&the_loop);
    assert_eq!(world.pool_pages(), 0, "pages that do not compress any more");
}

#[test]
fn a_page_is_no_older_by_another_name_and_has_no_age_once_it_is_forgotten() {
    let mut split = Split::new(MEMORY, Moment::default());
    for page in 0..100 {
        split.evicted(PageId(page), true);
    }
    split.rename(PageId(3), PageId(500));
    split.forget(PageId(4));
    for page in [3, 4, 500, 501] {
        split.came_back(PageId(page), true, true);
    }
    assert_eq!(split.counts.single.iter().sum::<f64>(), 1.0);
    assert_eq!(split.counts.awaited[bucket(97 / 8)], 1.0);
}

/// A moment after this many milliseconds, of which the program has computed half.
fn after_ms(ms: u64) -> Moment {
    Moment { clock_ns: ms * 1_000_000, computed_ns: ms * 500_000 }
}

#[test]
fn a_pool_that_was_kept_for_long_has_not_failed_for_long() {
    let mut split = Split::new(MEMORY, Moment::default());
    split.change(1, after_ms(1), MEMORY);
    // Another phase has begun, and the program is slower than it was without a pool.
    (split.cost_without, split.pace.cost) = (Some(1.0), Some(9.0));
    split.settled = KEPT + 50;
    split.decide(after_ms(1_000_000), MEMORY);
    assert_eq!(split.size, 0);
    // It has been good until now: the next try does not wait for 25 times its whole life.
    assert!(split.not_before_ns <= after_ms(1_000_000).clock_ns, "{}", split.not_before_ns);
    // Without a pool, a long time proves nothing.
    split.rest.next = 64;
    split.settled = KEPT + 50;
    split.decide(after_ms(1_000_010), MEMORY);
    assert_eq!((split.size, split.rest.next), (0, 64));
}

#[test]
fn a_child_begins_to_compute_anew() {
    let mut split = Split::new(MEMORY, Moment::default());
    split.faults = 1_000_000;
    split.cost_without = Some(2.0);
    split.begin_in_child(Moment { clock_ns: 9_000_000, computed_ns: 0 });
    split.decide(Moment { clock_ns: 30_000_000, computed_ns: 20_000_000 }, MEMORY);
    assert_eq!((split.latest.computed_ns, split.cost_without), (20_000_000, None));
}
