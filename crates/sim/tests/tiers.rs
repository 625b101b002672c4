//! Tiers agree with a naive model of zswap and zram that shares no code with them: on all strings
//! of up to 7 references to 4 pages, at every small split, and on random strings with pages
//! unmapped. So does the adaptive split, with a naive model of its own: LRU at every size decides
//! what each pool would have had. With `SWEEPHAND_AT_LENGTH` the small strings have pages of more
//! sizes.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::{Arc, LazyLock};
use sweephand_checks::at_length;
use sweephand_policy::conformance::Machine;
use sweephand_policy::registry::{Registered, Spec, Visitor};
use sweephand_policy::{PageId, SplitMix64};
use sweephand_sim::{
    Cell, CompressedSizes, Compressibility, Outcome, Resident, Split, SplitCosts, Sweep, TierCounts,
    TierKind, TierSpec, Tiers, TiersError,
};
use sweephand_trace::{EndTotals, Interrupt, Metadata, Trace, Writer};

const ZSWAP: TierKind = TierKind::Zswap { accept_percent: 100 };
const ZRAM: TierKind = TierKind::Zram { disksize_percent: None };
const KINDS: [TierKind; 4] =
    [ZSWAP, TierKind::Zswap { accept_percent: 50 }, ZRAM, TierKind::Zram { disksize_percent: Some(60) }];
const PAGE_BYTES: u32 = 4096;

/// What a program does. Pages are numbered by first touch.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reference(u32),
    Unmap(u32),
}

fn trace_of(steps: &[Step], page_size: u64) -> Trace {
    let metadata = Metadata { page_size, ..Metadata::default() };
    let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
    for step in steps {
        match *step {
            Step::Reference(page) => writer.reference(page.into(), false).unwrap(),
            Step::Unmap(page) => writer.unmap(page.into(), 1).unwrap(),
        }
    }
    let (file, _) = writer.finish(EndTotals::default()).unwrap();
    Trace::from_bytes(file.into_inner()).unwrap()
}

/// What a memory asks of the tiers below it.
#[derive(Clone, Copy, Debug)]
enum Event {
    Fault(u32),
    Evicted(u32),
    Dropped(u32),
}

/// What a policy asks with `frames` frames, by the conformance machine.
fn events(spec: &Spec, steps: &[Step], frames: usize) -> Vec<Event> {
    struct Ask<'a>(&'a [Step], &'a Spec, usize);
    impl Visitor for Ask<'_> {
        type Output = Vec<Event>;
        fn visit<P: Registered + Send + 'static>(self) -> Vec<Event> {
            let Ask(steps, spec, frames) = self;
            let mut machine = Machine::<P>::with_arguments(spec.arguments(), frames);
            let mut events = Vec::new();
            for step in steps {
                match *step {
                    Step::Reference(page) => {
                        let step = machine.access(page);
                        events.extend(step.fault.then_some(Event::Fault(page)));
                        events.extend(step.victim.map(Event::Evicted));
                    }
                    Step::Unmap(page) => {
                        machine.unmap(page).unwrap();
                        events.push(Event::Dropped(page));
                    }
                }
            }
            events
        }
    }
    spec.visit(Ask(steps, spec, frames))
}

/// The zspages that an object is stored in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Zspage {
    pages: usize,
    objects: usize,
    /// Which group of merged classes: 0 has whole pages.
    group: usize,
}

/// Those of an object, as `zs_create_pool` finds them, class by class from the largest.
fn find_zspage(bytes: usize) -> Zspage {
    let page = PAGE_BYTES as usize;
    let shape = |size: usize| {
        let waste = |pages: &usize| if size.is_power_of_two() { 0 } else { pages * page % size };
        let pages = (1..=8).min_by_key(waste).unwrap();
        (pages, pages * page / size)
    };
    let (mut size, mut group) = (page, 0);
    // Down to the smallest class that holds the object and its handle.
    while size > 32 && size - 16 >= bytes + 8 {
        group += usize::from(shape(size - 16) != shape(size));
        size -= 16;
    }
    let (pages, objects) = shape(size);
    Zspage { pages, objects, group }
}

fn zspage(bytes: u32) -> Zspage {
    static BY_BYTES: LazyLock<Vec<Zspage>> =
        LazyLock::new(|| (0..=PAGE_BYTES as usize).map(find_zspage).collect());
    BY_BYTES[bytes as usize]
}

/// Pages of memory that the contents of a pool take.
fn contents_pages(pool: &[(u32, u32)]) -> usize {
    // What is zero takes none.
    let used: BTreeSet<_> =
        pool.iter().filter(|(_, bytes)| *bytes > 0).map(|(_, bytes)| zspage(*bytes)).collect();
    let pages_of_group = |group: &Zspage| {
        let is_member = |bytes: u32| bytes > 0 && zspage(bytes) == *group;
        let members = pool.iter().filter(|(_, bytes)| is_member(*bytes)).count();
        members.div_ceil(group.objects) * group.pages
    };
    used.iter().map(pages_of_group).sum()
}

/// The naive model: three lists, searched from end to end.
struct Naive<'a> {
    kind: TierKind,
    limit_pages: usize,
    /// zram's size before compression, if it has one.
    disksize: Option<usize>,
    bytes_of: &'a dyn Fn(u32) -> u32,
    same_filled: Vec<u32>,
    /// Pages in the pool with their bytes, in the order of their evictions.
    pool: Vec<(u32, u32)>,
    disk: Vec<u32>,
    counts: TierCounts,
    /// The most pages that were in each of the first two lists.
    most_same_filled: usize,
    most_in_pool: usize,
}

impl<'a> Naive<'a> {
    fn new(
        kind: TierKind,
        memory_pages: usize,
        limit_pages: usize,
        bytes_of: &'a dyn Fn(u32) -> u32,
    ) -> Self {
        let disksize = match kind {
            TierKind::Zram { disksize_percent } => disksize_percent,
            TierKind::Zswap { .. } => None,
        };
        let disksize = disksize.map(|percent| memory_pages * percent as usize / 100);
        Self {
            kind,
            limit_pages,
            disksize,
            bytes_of,
            same_filled: Vec::new(),
            pool: Vec::new(),
            disk: Vec::new(),
            counts: TierCounts::default(),
            most_same_filled: 0,
            most_in_pool: 0,
        }
    }

    fn counts(mut self, events: &[Event]) -> TierCounts {
        self.note_peak();
        for event in events {
            match *event {
                Event::Fault(page) => self.fault(page),
                Event::Evicted(page) => self.evicted(page),
                Event::Dropped(page) => self.dropped(page),
            }
            assert!(self.pages() <= self.limit_pages);
            self.note_peak();
        }
        self.counts
    }

    fn pages(&self) -> usize {
        self.pages_of(&self.pool)
    }

    /// Pages of memory that some pages in the pool take, with the kernel's tables.
    fn pages_of(&self, pool: &[(u32, u32)]) -> usize {
        let table_bytes = match (self.kind, self.disksize) {
            (TierKind::Zswap { .. }, _) => 64 * pool.len(),
            (TierKind::Zram { .. }, None) => 16 * pool.len(),
            (TierKind::Zram { .. }, Some(disksize)) => 16 * disksize,
        };
        contents_pages(pool) + table_bytes / PAGE_BYTES as usize
    }

    fn note_peak(&mut self) {
        if self.limit_pages > 0 {
            self.counts.peak_pool_pages = self.counts.peak_pool_pages.max(self.pages() as u64);
        }
        self.most_same_filled = self.most_same_filled.max(self.same_filled.len());
        self.most_in_pool = self.most_in_pool.max(self.pool.len());
        self.counts.peak_stored_pages = (self.most_same_filled + self.most_in_pool) as u64;
    }

    fn dropped(&mut self, page: u32) {
        self.same_filled.retain(|other| *other != page);
        self.pool.retain(|(other, _)| *other != page);
        self.disk.retain(|other| *other != page);
    }

    fn fault(&mut self, page: u32) {
        if self.same_filled.contains(&page) {
            self.same_filled.retain(|other| *other != page);
            self.counts.same_filled_faults += 1;
        } else if let Some(at) = self.pool.iter().position(|(other, _)| *other == page) {
            let (_, bytes) = self.pool.remove(at);
            if bytes == 0 {
                self.counts.same_filled_faults += 1;
            } else {
                self.counts.pool_faults += 1;
                self.decompress(bytes);
            }
        } else if self.disk.contains(&page) {
            self.disk.retain(|other| *other != page);
            self.counts.disk_faults += 1;
        }
    }

    fn evicted(&mut self, page: u32) {
        let bytes = (self.bytes_of)(page);
        if self.limit_pages == 0 {
            self.counts.turned_away += 1;
            self.disk.push(page);
        } else if bytes == 0 && self.disksize.is_none() {
            self.same_filled.push(page);
        } else if bytes >= PAGE_BYTES && matches!(self.kind, TierKind::Zswap { .. }) {
            self.counts.compressions += 1;
            self.counts.rejected += 1;
            self.disk.push(page);
        } else {
            self.store(page, bytes);
        }
    }

    fn store(&mut self, page: u32, bytes: u32) {
        let mut enters = self.fits(page, bytes, false);
        if let TierKind::Zswap { accept_percent } = self.kind
            && !enters
            && self.fits(page, bytes, true)
        {
            let accept_pages = self.limit_pages * usize::from(accept_percent) / 100;
            while self.pages() > accept_pages || !self.fits(page, bytes, false) {
                self.write_back();
            }
            enters = accept_percent == 100;
        }
        if enters {
            self.counts.compressions += u64::from(bytes > 0);
            self.pool.push((page, bytes));
        } else {
            self.counts.turned_away += 1;
            self.disk.push(page);
        }
    }

    /// Whether there is room for a page, or would be if the pool were empty.
    fn fits(&self, page: u32, bytes: u32, if_empty: bool) -> bool {
        let others = if if_empty { &[][..] } else { &self.pool[..] };
        let pool = [others, &[(page, bytes)]].concat();
        self.pages_of(&pool) <= self.limit_pages && self.disksize.is_none_or(|most| pool.len() <= most)
    }

    fn write_back(&mut self) {
        let (oldest, bytes) = self.pool.remove(0);
        self.counts.write_backs += 1;
        self.decompress(bytes);
        self.disk.push(oldest);
    }

    /// zram keeps what would have a page to itself as it is.
    fn decompress(&mut self, bytes: u32) {
        let is_whole = matches!(self.kind, TierKind::Zram { .. }) && zspage(bytes).group == 0;
        self.counts.decompressions += u64::from(!is_whole);
    }
}

/// Every policy at every resident size with every pool.
fn splits(policies: &str, resident: &[usize], pools: &[usize]) -> Vec<Split> {
    let mut splits = Vec::new();
    for spec in Spec::parse_list(policies).unwrap() {
        for &resident_pages in resident {
            let resident = Resident::Pages(resident_pages);
            let split = |pool| Split { spec: spec.clone(), memory_pages: resident_pages + pool, resident };
            splits.extend(pools.iter().map(|&pool| split(pool)));
        }
    }
    splits
}

fn run(
    kind: TierKind,
    sizes: Arc<dyn CompressedSizes>,
    trace: &Trace,
    splits: &[Split],
) -> Vec<(Outcome, TierCounts)> {
    Tiers { kind, sizes }.run(trace, splits, false, &Interrupt::default(), &|_| {}).unwrap()
}

fn resident_pages(split: &Split) -> usize {
    split.resident_pages().expect("a fixed split")
}

fn pool_pages(split: &Split) -> usize {
    split.memory_pages - resident_pages(split)
}

/// Compares all splits with the naive model, for each kind of pool.
fn compare(sizes: &Arc<dyn CompressedSizes>, steps: &[Step], splits: &[Split]) {
    let trace = trace_of(steps, PAGE_BYTES.into());
    let bytes_of = |page: u32| sizes.bytes(PageId(page), PAGE_BYTES);
    let asked: Vec<_> =
        splits.iter().map(|split| events(&split.spec, steps, resident_pages(split))).collect();
    for kind in KINDS {
        let told = run(kind, Arc::clone(sizes), &trace, splits);
        for ((split, events), (outcome, counts)) in splits.iter().zip(&asked).zip(told) {
            let naive = Naive::new(kind, split.memory_pages, pool_pages(split), &bytes_of);
            let expected = naive.counts(events);
            assert_eq!(counts, expected, "{kind:?} {split:?}\n{steps:?}");
            let faults = counts.same_filled_faults + counts.pool_faults + counts.disk_faults;
            assert_eq!(outcome.refaults(), faults, "{kind:?} {split:?}");
        }
    }
}

/// All strings of a length over 4 pages, numbered by first touch. Others have other names only.
fn strings(length: usize) -> Vec<Vec<u32>> {
    let mut strings = vec![Vec::new()];
    for _ in 0..length {
        let longer = |string: &Vec<u32>| {
            let fresh = string.iter().max().map_or(0, |page| page + 1);
            let string = string.clone();
            (0..=fresh.min(3)).map(move |page| [&string[..], &[page]].concat()).collect::<Vec<_>>()
        };
        strings = strings.iter().flat_map(longer).collect();
    }
    strings
}

#[test]
fn all_small_strings_at_all_small_splits_agree_with_the_naive_model() {
    let splits = splits("fifo,lru,clock", &[1, 2, 3], &[0, 1, 2, 8]);
    let tables = [
        [2040_u32, 1352, 4096, 0],
        [1352, 2040, 2040, 3700],
        [2040, 2040, 2040, 2040],
        [100, 4096, 2040, 4096],
    ];
    for table in tables.into_iter().take(if at_length() { 4 } else { 2 }) {
        let sizes: Arc<dyn CompressedSizes> = Arc::new(move |page: PageId| table[page.index()]);
        for length in 1..=7 {
            for string in strings(length) {
                let steps: Vec<_> = string.into_iter().map(Step::Reference).collect();
                compare(&sizes, &steps, &splits);
            }
        }
    }
}

/// Some hot pages and some cold ones, and if asked for, pages unmapped.
fn random_steps(random: &mut SplitMix64, length: usize, pages: u64, unmaps: bool) -> Vec<Step> {
    let (mut numbers, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..length {
        let near = 1 + random.below(pages);
        let address = random.below(near);
        let number = numbers.iter().position(|known| *known == address);
        // What is unmapped keeps its number here as in a trace.
        let unmapped = number.filter(|_| unmaps && random.below(12) == 0);
        steps.push(match unmapped {
            Some(number) => Step::Unmap(number as u32),
            None => Step::Reference(number.unwrap_or_else(|| {
                numbers.push(address);
                numbers.len() - 1
            }) as u32),
        });
    }
    steps
}

/// Sizes that are known in advance take one pass, and those of a function one for each pool.
#[test]
fn random_strings_agree_with_the_naive_model_and_with_one_pass_for_all_pools() {
    let mut random = SplitMix64::new(1);
    let splits = splits("fifo,lru,clock,car", &[1, 3, 8], &[0, 1, 2, 3, 4, 5, 7, 9, 12]);
    let kinds = [(2.0, 0.0, 0.0), (3.0, 0.0, 0.0), (3.0, 20.0, 20.0), (1.05, 10.0, 30.0), (2.6, 0.0, 30.0)];
    for round in 0..20 {
        let (ratio, same_filled_percent, incompressible_percent) = kinds[round % kinds.len()];
        let known = Compressibility { ratio, same_filled_percent, incompressible_percent, spread: None };
        let function = move |page: PageId| known.bytes(page, PAGE_BYTES);
        let pages = 2 + random.below(40);
        let steps = random_steps(&mut random, 400, pages, round % 2 == 0);
        compare(&(Arc::new(known) as Arc<dyn CompressedSizes>), &steps, &splits);
        compare(&(Arc::new(function) as Arc<dyn CompressedSizes>), &steps, &splits);
        let any = move |page: PageId| [0_u32, 4096, 700, 1900, 3300, 60][page.index() % 6];
        compare(&(Arc::new(any) as Arc<dyn CompressedSizes>), &steps, &splits);
    }
}

/// The resident pages are the top of the stack, and the pool is the part below.
#[test]
fn under_lru_with_zswap_the_disk_sees_what_lru_misses_in_all_places() {
    let mut random = SplitMix64::new(2);
    let trace = trace_of(&random_steps(&mut random, 3000, 60, false), 4096);
    let splits = splits("lru", &[1, 5, 10, 20], &[1, 2, 3, 10]);
    // Three pages in each page of the pool.
    let sizes = Compressibility { ratio: 3.03, ..Compressibility::default() };
    for (split, (outcome, counts)) in splits.iter().zip(run(ZSWAP, Arc::new(sizes), &trace, &splits)) {
        let frames = resident_pages(split) + 3 * pool_pages(split);
        let cells = vec![Cell { spec: split.spec.clone(), frames }];
        let swept = Sweep { cells, ..Sweep::default() }.run(&trace, &|_| {}).unwrap()[0].0;
        assert_eq!(counts.disk_faults, swept.refaults(), "{split:?}");
        assert_eq!(counts.pool_faults, outcome.faults - swept.faults, "{split:?}");
        assert_eq!(counts.write_backs, swept.evictions, "{split:?}");
    }
}

/// A pool of zswap that holds every page has what a smaller one has, whatever the sizes are. zram
/// does not: a page that it has turned away leaves room for smaller ones.
#[test]
fn a_larger_pool_reads_no_more_from_the_disk_but_with_zram_and_pages_of_different_sizes() {
    let mut random = SplitMix64::new(3);
    let pools: Vec<usize> = (8..30).collect();
    let splits = splits("lru,clock", &[2, 6], &pools);
    let sizes = |page: PageId| [4000_u32, 700, 1900, 3300, 60, 2500][page.index() % 6];
    let mut zram_rises = false;
    for round in 0..20 {
        let trace = trace_of(&random_steps(&mut random, 1000, 90, round % 2 == 0), 4096);
        let rises = |kind| {
            let told = run(kind, Arc::new(sizes), &trace, &splits);
            let by_pool = told.chunks(pools.len());
            by_pool.flat_map(|told| told.windows(2)).any(|pair| pair[1].1.disk_faults > pair[0].1.disk_faults)
        };
        assert!(!rises(ZSWAP), "round {round}");
        zram_rises |= rises(ZRAM);
    }
    assert!(zram_rises);
}

/// Page 0 is used once and fills zram, which leaves a loop of two pages to the disk. zswap writes
/// page 0 back.
#[test]
fn cold_pages_fill_zram_and_hot_ones_go_to_the_disk() {
    let steps: Vec<_> =
        [0].into_iter().chain((0..20).map(|time| 1 + time % 2)).map(Step::Reference).collect();
    let trace = trace_of(&steps, 4096);
    let split = splits("lru", &[1], &[1]);
    let counts = |kind| run(kind, Arc::new(|_: PageId| 3900_u32), &trace, &split)[0].1;
    let zram = counts(ZRAM);
    assert_eq!((zram.pool_faults, zram.disk_faults, zram.turned_away, zram.write_backs), (0, 18, 19, 0));
    let zswap = counts(ZSWAP);
    assert_eq!((zswap.pool_faults, zswap.disk_faults, zswap.turned_away, zswap.write_backs), (18, 0, 0, 1));
    assert_eq!((zram.compressions, zram.decompressions), (1, 0), "zram has such a page as it is");
    assert_eq!((zswap.compressions, zswap.decompressions, zswap.disk_writes()), (20, 19, 1));
}

/// With more than 256 entries of 16 bytes, and 64 of 64 bytes, tables take whole pages.
#[test]
fn pools_with_whole_pages_of_tables_agree_with_the_naive_model() {
    let mut random = SplitMix64::new(4);
    let splits = splits("fifo,lru", &[10, 40], &[20, 57, 120]);
    for round in 0..4 {
        let known = Compressibility { ratio: [3.0, 8.0][round / 2], ..Compressibility::default() };
        let steps = random_steps(&mut random, 2500, 500, round % 2 == 0);
        compare(&(Arc::new(known) as Arc<dyn CompressedSizes>), &steps, &splits);
        let any = move |page: PageId| [0_u32, 4096, 700, 1300, 60][page.index() % 5];
        compare(&(Arc::new(any) as Arc<dyn CompressedSizes>), &steps, &splits);
    }
}

/// 40 pages of memory, of which zram may take half, and its size of 10 pages less.
#[test]
fn zram_that_is_full_before_its_memory_is_turns_pages_away() {
    let steps: Vec<_> = (0..200).map(|time| Step::Reference(time % 50)).collect();
    let trace = trace_of(&steps, 4096);
    let zram = TierKind::Zram { disksize_percent: Some(25) };
    let (_, counts) = run(zram, Arc::new(|_: PageId| 1000_u32), &trace, &splits("fifo", &[20], &[20]))[0];
    // Ten places. A page is used again 30 references after it was evicted. For each of ten pages
    // that leave for a fault, another comes; the evictions between are turned away.
    assert_eq!((counts.peak_pool_pages, counts.pool_faults), (3, 50));
    assert_eq!(counts.disk_faults, 100);
    assert_eq!(counts.turned_away + counts.compressions, 180);
}

/// The adaptive split, with a list for each thing. `lru[m - 1]` has the pages of LRU with m frames.
struct NaiveAdaptive<'a> {
    memory_pages: usize,
    costs: SplitCosts,
    lru: Vec<Vec<u32>>,
    resident: Vec<u32>,
    below: Naive<'a>,
    /// By target: what each event would have saved, less what it would have cost.
    gains: [Vec<f64>; 4],
    evicted_bytes: Vec<usize>,
}

impl<'a> NaiveAdaptive<'a> {
    fn new(
        memory_pages: usize,
        costs: SplitCosts,
        most_pages: usize,
        bytes_of: &'a dyn Fn(u32) -> u32,
    ) -> Self {
        Self {
            memory_pages,
            costs,
            lru: vec![Vec::new(); most_pages],
            resident: Vec::new(),
            below: Naive::new(ZSWAP, memory_pages, 0, bytes_of),
            gains: [const { Vec::new() }; 4],
            evicted_bytes: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Unmap(page) => {
                self.lru.iter_mut().for_each(|memory| memory.retain(|other| *other != page));
                self.resident.retain(|other| *other != page);
                self.below.dropped(page);
            }
            Step::Reference(page) => {
                let distance = self.lru.iter().position(|memory| memory.contains(&page));
                self.weigh(distance.map(|frames| frames + 1));
                for (frames, memory) in self.lru.iter_mut().enumerate() {
                    memory.retain(|other| *other != page);
                    memory.drain(..(memory.len() + 1).saturating_sub(frames + 1));
                    memory.push(page);
                }
                let was_resident = self.resident.contains(&page);
                self.resident.retain(|other| *other != page);
                self.resident.push(page);
                if !was_resident {
                    self.below.fault(page);
                    let is_full = self.resident.len() + self.below.pages() > self.memory_pages;
                    if distance.is_none() && is_full {
                        let costs_ns = self.costs.compression_ns as f64;
                        self.gains.iter_mut().for_each(|gains| gains.push(-costs_ns));
                    }
                    self.make_room();
                }
            }
        }
        assert!(self.resident.len() + self.below.pages() <= self.memory_pages);
        self.below.note_peak();
    }

    fn targets(&self) -> [usize; 4] {
        [10, 23, 37, 50].map(|percent| self.memory_pages * percent / 100)
    }

    /// Pages in memory with a pool of some pages.
    fn held(&self, pool_pages: usize) -> usize {
        let (count, bytes) = (self.evicted_bytes.len(), self.evicted_bytes.iter().sum::<usize>());
        let compressed = match (count, bytes) {
            (0, _) => pool_pages,
            (_, 0) => 1 << 40,
            _ => pool_pages * PAGE_BYTES as usize * count / bytes,
        };
        self.memory_pages - pool_pages + compressed
    }

    fn weigh(&mut self, distance: Option<usize>) {
        let Some(distance) = distance else { return };
        let targets = self.targets();
        if distance <= self.memory_pages - targets[3] {
            return;
        }
        let SplitCosts { fault_ns, compression_ns, disk_read_ns } = self.costs;
        for (target, pool) in targets.into_iter().enumerate() {
            let mut gain = 0.0;
            if distance > self.memory_pages {
                gain += (fault_ns + disk_read_ns) as f64;
            }
            if distance > self.memory_pages - pool {
                gain -= (fault_ns + compression_ns) as f64;
            }
            if distance > self.held(pool) {
                gain -= disk_read_ns as f64;
            }
            self.gains[target].push(gain);
        }
    }

    fn target(&self) -> usize {
        let decay = libm::pow(0.2, 1.0 / self.memory_pages as f64);
        let mut best = (0, 0.0);
        for (pool, gains) in self.targets().into_iter().zip(&self.gains) {
            let sum = gains.iter().fold(0.0, |sum, gain| sum * decay + gain);
            if sum > best.1 {
                best = (pool, sum);
            }
        }
        best.0
    }

    fn make_room(&mut self) {
        let target = self.target();
        while self.resident.len() + self.below.pages() > self.memory_pages {
            if self.below.pages() > target {
                self.below.write_back();
                continue;
            }
            let oldest = self.resident.remove(0);
            let bytes = (self.below.bytes_of)(oldest);
            let Zspage { pages, objects, .. } = zspage(bytes.min(PAGE_BYTES));
            self.evicted_bytes.push(match bytes {
                0 => 0,
                PAGE_BYTES.. => PAGE_BYTES as usize,
                _ => pages * PAGE_BYTES as usize / objects + 64,
            });
            self.below.limit_pages = target;
            self.below.evicted(oldest);
            self.below.limit_pages = self.memory_pages;
            self.below.note_peak();
        }
    }
}

/// A disk that is much slower than compression, one that is not, and one for which nothing pays.
const COSTS: [SplitCosts; 3] = [
    SplitCosts { fault_ns: 5000, compression_ns: 8400, disk_read_ns: 12_660_000 },
    SplitCosts { fault_ns: 5000, compression_ns: 8400, disk_read_ns: 27_000 },
    SplitCosts { fault_ns: 5000, compression_ns: 8400, disk_read_ns: 8000 },
];

/// Compares adaptive splits of some memories with the naive model. Returns how many pages came from
/// a pool.
fn compare_adaptive(sizes: &Arc<dyn CompressedSizes>, steps: &[Step], memories: &[usize]) -> u64 {
    let trace = trace_of(steps, PAGE_BYTES.into());
    let bytes_of = |page: u32| sizes.bytes(PageId(page), PAGE_BYTES);
    let lru = Spec::parse("lru").unwrap();
    let of_memory = |frames| COSTS.map(|costs| Split::adaptive(&Cell { spec: lru.clone(), frames }, costs));
    let splits: Vec<_> = memories.iter().copied().flat_map(of_memory).collect();
    let mut pool_faults = 0;
    for (split, (outcome, counts)) in splits.iter().zip(run(ZSWAP, Arc::clone(sizes), &trace, &splits)) {
        let Resident::Adaptive(costs) = split.resident else { unreachable!() };
        let most_pages = trace.header().totals.distinct_pages as usize;
        let mut naive = NaiveAdaptive::new(split.memory_pages, costs, most_pages, &bytes_of);
        steps.iter().for_each(|step| naive.step(*step));
        assert_eq!(counts, naive.below.counts, "{split:?}\n{steps:?}");
        let faults = counts.same_filled_faults + counts.pool_faults + counts.disk_faults;
        assert_eq!(outcome.refaults(), faults, "{split:?}");
        pool_faults += counts.pool_faults;
    }
    pool_faults
}

#[test]
fn adaptive_splits_agree_with_their_naive_model_on_small_strings() {
    let sizes: Arc<dyn CompressedSizes> = Arc::new(|page: PageId| [500_u32, 1352, 4096, 0][page.index()]);
    let mut pool_faults = 0;
    for length in 1..=8 {
        for string in strings(length) {
            let steps: Vec<_> = string.into_iter().map(Step::Reference).collect();
            pool_faults += compare_adaptive(&sizes, &steps, &[1, 2, 3]);
        }
    }
    assert!(pool_faults > 0);
}

#[test]
fn adaptive_splits_agree_with_their_naive_model_on_random_strings() {
    let mut random = SplitMix64::new(5);
    let mut pool_faults = 0;
    for round in 0..24 {
        let ratio = [2.0, 3.0, 1.1, 8.0][round % 4];
        let pages = 10 + random.below(60);
        let steps = random_steps(&mut random, 600, pages, round % 3 == 0);
        let known = Compressibility { ratio, ..Compressibility::default() };
        pool_faults +=
            compare_adaptive(&(Arc::new(known) as Arc<dyn CompressedSizes>), &steps, &[2, 7, 10, 20, 31]);
        let any = move |page: PageId| [0_u32, 4096, 700, 1900, 3300, 60][page.index() % 6];
        pool_faults += compare_adaptive(&(Arc::new(any) as Arc<dyn CompressedSizes>), &steps, &[5, 12, 20]);
    }
    assert!(pool_faults > 1000);
}

/// First the program uses 30 pages over and over, then 18. In 20 pages of memory, a pool pays at
/// first. Then it costs a fault at each reference, until these weigh more than what it saved.
#[test]
fn the_split_follows_the_phases_of_a_program() {
    let phase = |pages: u32| (0..3000).map(move |time| Step::Reference(time % pages));
    let lru = Cell { spec: Spec::parse("lru").unwrap(), frames: 20 };
    let count = |steps: Vec<Step>| {
        let trace = trace_of(&steps, 4096);
        let splits = [Split::adaptive(&lru, COSTS[0])];
        run(ZSWAP, Arc::new(|_: PageId| 1300_u32), &trace, &splits)[0]
    };
    let (first, tiers) = count(phase(30).collect());
    assert!(tiers.pool_faults > 2800 && tiers.disk_faults < 100, "{tiers:?}");
    let (both, _) = count(phase(30).chain(phase(18)).collect());
    let late = both.faults - first.faults;
    assert!((18..200).contains(&late), "{late}");
}

#[test]
fn a_split_that_cannot_adapt_is_refused() {
    let trace = trace_of(&[Step::Reference(0)], 4096);
    let adaptive =
        |policy: &str| Split::adaptive(&Cell { spec: Spec::parse(policy).unwrap(), frames: 20 }, COSTS[0]);
    for (kind, policy) in [(ZSWAP, "clock"), (KINDS[1], "lru"), (ZRAM, "lru")] {
        let tiers = Tiers { kind, sizes: Arc::new(Compressibility::default()) };
        let told = tiers.run(&trace, &[adaptive(policy)], false, &Interrupt::default(), &|_| {});
        assert!(matches!(told, Err(TiersError::NotAdaptive { .. })), "{kind:?} {policy}");
    }
}

#[test]
fn a_memory_is_split_into_shares_that_differ() {
    let cell = Cell { spec: Spec::parse("lru").unwrap(), frames: 10 };
    let splits = Split::of(&cell, &[100.0, 90.0, 88.0, 50.0, 1.0]);
    let pages: Vec<_> = splits.iter().map(|split| (resident_pages(split), pool_pages(split))).collect();
    assert_eq!(pages, [(10, 0), (9, 1), (5, 5), (1, 9)]);
}

#[test]
fn pages_of_a_size_that_no_kernel_has_are_refused() {
    let trace = trace_of(&[Step::Reference(0)], 512);
    let error = "zswap"
        .parse::<TierSpec>()
        .unwrap()
        .tiers(None)
        .run(&trace, &splits("lru", &[1], &[1]), false, &Interrupt::default(), &|_| {})
        .unwrap_err();
    assert!(matches!(error, TiersError::PageBytes { page_bytes: 512, .. }), "{error}");
}
