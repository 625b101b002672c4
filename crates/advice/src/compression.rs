//! Whether compressed memory before a disk would make a program faster: which kind, and how much.
//!
//! **What is compared.** Each memory without a pool, and with pools of many sizes, zswap's and
//! zram's, at equal total memory ([`Tiers`](sweephand_sim::Tiers)). CLOCK stands in for the
//! kernel's replacement, and pages that the program never writes are left out, as in every
//! prediction of seconds.
//!
//! **Seconds.** Without a pool, they are those of [`TimeModel`] under the kernel, which knows what
//! is read ahead, and that writes take the disk's time, too. With a pool, its own work comes first
//! ([`TierCosts::pool_seconds`]). The pages that the disk still reads and writes are then taken for
//! those of a larger memory without a pool that moves as many, and take as long as there. Under LRU
//! before zswap there is such a memory: the disk sees what LRU misses in all places together.
//! Before zram, and under CLOCK, it is an approximation.
//!
//! **What pays.** A pool is advised if the program is faster with it by a twentieth ([`PAYS`]). Of
//! pools that are nearly equal, the smallest is. None is if hardly any page becomes smaller
//! ([`MOST_INCOMPRESSIBLE_PERCENT`]): zram might still be faster then, because it keeps the pages
//! that came first, as MRU does, which suits a loop. A better policy is the way to that.

use crate::CurveStudy;
use crate::conclusion::{SLACK, percent};
use crate::slowdown::kernel_policy;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use sweephand_policy::registry::Spec;
use sweephand_results::{Table, TracePages, bytes, seconds as shown_seconds};
use sweephand_sim::{Cell, Outcome, Resident, Split, Sweep, TierCounts, TierKind, TierSpec, TiersError};
use sweephand_time::{Device, POOL_DEVICE, Paging, TierCosts, TimeModel};
use sweephand_trace::Interrupt;

/// A pool pays if the program is this many times as fast with it.
pub const PAYS: f64 = 1.05;
/// Pools whose seconds differ by no more than this are equal.
const EQUAL: f64 = 1.01;
/// If more pages than these do not compress, no pool is advised.
pub const MOST_INCOMPRESSIBLE_PERCENT: f64 = 95.0;
/// Sizes that are simulated, in each doubling. The size of all pages is one of them.
const STEPS: i32 = 8;
/// The least part of memory that is resident. Below a half, each fourth size is tried.
const LEAST_RESIDENT: f64 = 0.2;
/// The kinds of pools.
const KINDS: [TierKind; 2] =
    [TierKind::Zswap { accept_percent: 100 }, TierKind::Zram { disksize_percent: None }];

/// What compressed memory would do for a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// The disk.
    pub device: String,
    /// Seconds with all memory.
    pub native_seconds: f64,
    /// Whether these come from a count of instructions alone.
    pub is_assumed: bool,
    /// How well pages compress, and how that is known.
    pub pages: TracePages,
    /// The memories that were studied and in which the program is paged, ascending.
    pub memories: Vec<CompressedMemory>,
    /// All pages that are paged.
    paged_pages: u64,
    page_bytes: u64,
    /// Counts in less memory are too rough to compare by.
    exact_from_pages: u64,
}

/// A memory without and with a pool of compressed pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompressedMemory {
    /// All of it, in pages.
    pub memory_pages: u64,
    /// Seconds without a pool.
    pub seconds: f64,
    /// The best pool of zswap, if one pays.
    pub zswap: Option<AdvisedPool>,
    /// The best pool of zram, if one pays.
    pub zram: Option<AdvisedPool>,
}

/// A pool that pays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdvisedPool {
    /// The memory that it may take, in pages.
    pub pool_pages: u64,
    /// The most memory that it takes.
    pub peak_pool_pages: u64,
    /// The most pages that are in it, before compression.
    pub peak_stored_pages: u64,
    /// The pages for which a device for swap needs room (zram's `disksize`): those that fill the
    /// pool. A kernel pages out more than the model does, and what the device has no room for goes
    /// to the disk, to which it mostly goes again.
    pub disksize_pages: u64,
    /// Seconds with it.
    pub seconds: f64,
    /// The memory that takes as long without a pool, between sizes that were predicted.
    pub as_fast_without_pages: u64,
}

impl Compression {
    /// What it would do before the disk of `model`, which is that of the studied trace. `None` if
    /// that device compresses pages itself.
    ///
    /// # Errors
    /// Tiers are not simulated for pages of this size, or for this many pages; else see
    /// [`Sweep::run`].
    pub fn of(
        study: &CurveStudy,
        model: &TimeModel,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>, TiersError> {
        if model.device().synchronous {
            return Ok(None);
        }
        let trace = model.paged();
        let metadata = &trace.header().metadata;
        let contents = metadata.contents.as_ref();
        let compresses = Device::named(POOL_DEVICE).expect("it is built in");
        let spec = TierSpec::of(KINDS[0]);
        let own = spec.codec_time(contents);
        let costs = TierCosts::of(&compresses, model.device(), metadata.page_size, own);
        let sizes = Sizes::of(study, trace.header().totals.distinct_pages as usize);
        let splits = sizes.splits();
        let run = |kind| TierSpec::of(kind).tiers(contents).run(trace, &splits, false, interrupt, &|_| {});
        let [zswap, zram] = KINDS.map(run);
        let told = [zswap?, zram?];
        let disk = Disk::of(model, &sizes, &told[0], interrupt)?;
        let pages = TracePages::of(&spec, contents).timed(costs.are_of_program);
        let in_memory = |&memory: &usize| {
            let best = |told: &[(Outcome, TierCounts)]| {
                let pools = splits.iter().zip(told).filter(|(split, _)| split.memory_pages == memory);
                disk.best_pool(memory, pools, &costs).filter(|_| !are_incompressible(&pages))
            };
            let [zswap, zram] = [best(&told[0]), best(&told[1])];
            CompressedMemory { memory_pages: memory as u64, seconds: disk.seconds_in(memory), zswap, zram }
        };
        let memories = sizes.memories.iter().map(in_memory).collect();
        Ok(Some(Self {
            device: model.device().name.clone(),
            native_seconds: model.native_seconds(),
            is_assumed: model.is_assumed(),
            pages,
            memories,
            paged_pages: trace.header().totals.distinct_pages,
            page_bytes: metadata.page_size,
            exact_from_pages: study.curves.exact_from_pages,
        }))
    }

    /// The memories that are short: without a pool, paging takes more than a tenth of the time with
    /// all memory. Where counts are exact, if they are anywhere.
    fn short(&self) -> Vec<&CompressedMemory> {
        let is_short = |memory: &&CompressedMemory| memory.seconds > (1.0 + SLACK) * self.native_seconds;
        let short: Vec<_> = self.memories.iter().filter(is_short).collect();
        let is_exact = |memory: &&&CompressedMemory| memory.memory_pages >= self.exact_from_pages;
        let exact: Vec<_> = short.iter().filter(is_exact).copied().collect();
        if exact.is_empty() { short } else { exact }
    }

    /// What it comes to: a sentence for zswap and one for zram, the better one first, or one for
    /// neither. The last says what is known of the pages.
    pub fn sentences(&self) -> Vec<String> {
        let short = self.short();
        let gains = |name, pool: fn(&CompressedMemory) -> &Option<AdvisedPool>| Gains::of(name, pool, &short);
        let mut kinds: Vec<Gains<'_>> =
            [gains("zswap", |memory| &memory.zswap), gains("zram", |memory| &memory.zram)]
                .into_iter()
                .flatten()
                .collect();
        kinds.sort_by(|a, b| b.mean.total_cmp(&a.mean));
        let mut sentences: Vec<String> = kinds.iter().map(|kind| self.sentence(kind)).collect();
        match &kinds[..] {
            [] => sentences.push(self.neither(short.is_empty())),
            [one] => {
                let other = if one.name == "zram" { "zswap" } else { "zram" };
                sentences.push(format!("{other} does not pay in any of these sizes."));
            }
            _ => {}
        }
        let how_to_know = if self.pages.is_recorded() {
            ""
        } else {
            "; a new recording with sweephand record has what the pages contain"
        };
        sentences.push(format!("Compressibility {}{how_to_know}.", self.pages));
        sentences
    }

    fn sentence(&self, gains: &Gains<'_>) -> String {
        let Gains { name, mean, most_in, pool } = gains;
        let CompressedMemory { memory_pages, seconds, .. } = most_in;
        let share = |pages: u64| percent(pages as f64 / *memory_pages as f64);
        let size = |pages: u64| bytes(pages * self.page_bytes);
        let what = if *name == "zram" {
            let (disksize, takes) = (size(pool.disksize_pages), size(pool.peak_pool_pages));
            format!("a disksize of {disksize}, which takes {takes} of that memory")
        } else {
            format!("a pool of {} of memory", share(pool.pool_pages))
        };
        format!(
            "On {}, {name} makes it {} times as fast on average where memory is short, most in {}: {} s instead of {} s, \
             with {what}; without {name}, about {} ({} more) would take as long.",
            self.device,
            times(*mean),
            size(*memory_pages),
            shown_seconds(pool.seconds),
            shown_seconds(*seconds),
            size(pool.as_fast_without_pages),
            share(pool.as_fast_without_pages - memory_pages),
        )
    }

    fn neither(&self, fits: bool) -> String {
        if fits {
            return format!(
                "Neither zswap nor zram is needed on {}: at no size simulated does paging take more than {} of \
                 the time.",
                self.device,
                percent(SLACK)
            );
        }
        if are_incompressible(&self.pages) {
            return format!(
                "Neither zswap nor zram pays on {}: {} of the pages do not compress.",
                self.device,
                percent(self.pages.incompressible_percent / 100.0)
            );
        }
        format!(
            "Neither zswap nor zram pays on {}: where memory is short, at no size simulated would the program be {} \
             faster with one.",
            self.device,
            percent(PAYS - 1.0)
        )
    }

    /// A row for each memory.
    pub fn table(&self) -> Table {
        let heading = ["memory", "disk alone, s", "zswap pool", "s", "zram disksize", "takes", "s"];
        let mut table = Table::new(heading);
        let size = |pages: u64| bytes(pages * self.page_bytes);
        for CompressedMemory { memory_pages, seconds, zswap, zram } in &self.memories {
            let mut row = vec![size(*memory_pages), shown_seconds(*seconds)];
            row.extend(match zswap {
                Some(pool) => [size(pool.pool_pages), shown_seconds(pool.seconds)],
                None => ["none", ""].map(String::from),
            });
            row.extend(match zram {
                Some(pool) => {
                    [size(pool.disksize_pages), size(pool.peak_pool_pages), shown_seconds(pool.seconds)]
                }
                None => ["none", "", ""].map(String::from),
            });
            table.row(row);
        }
        table
    }

    /// Seconds by memory in bytes, up to all that is paged: of the disk alone, and with the best
    /// pool of each kind, or none where none pays.
    pub fn lines(&self) -> [(&'static str, Vec<(u64, f64)>); 3] {
        let line = |pool: fn(&CompressedMemory) -> &Option<AdvisedPool>| {
            let seconds = |memory: &CompressedMemory| {
                let seconds = pool(memory).as_ref().map_or(memory.seconds, |pool| pool.seconds);
                (memory.memory_pages * self.page_bytes, seconds)
            };
            let all = (self.paged_pages * self.page_bytes, self.native_seconds);
            self.memories.iter().map(seconds).chain([all]).collect()
        };
        [
            ("disk alone", line(|_| &None)),
            ("with zswap", line(|memory| &memory.zswap)),
            ("with zram", line(|memory| &memory.zram)),
        ]
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "device": self.device,
            "native_seconds": self.native_seconds,
            "native_is_assumed": self.is_assumed,
            "compressibility": self.pages,
            "memory": self.memories,
            "sentences": self.sentences(),
        })
    }
}

/// The sentences and the table, behind the name of the part.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (sentence, name) in
            self.sentences().iter().zip(["compress"].into_iter().chain(std::iter::repeat("")))
        {
            writeln!(f, "{name:<9} {sentence}")?;
        }
        if self.memories.iter().any(|memory| memory.zswap.is_some() || memory.zram.is_some()) {
            write!(f, "{}", self.table())?;
        }
        Ok(())
    }
}

/// A factor, with as many digits as it deserves.
fn times(factor: f64) -> String {
    if factor < 2.0 { format!("{factor:.2}") } else { format!("{factor:.1}") }
}

/// What a kind of pool does in the memories that are short.
struct Gains<'a> {
    name: &'static str,
    /// How many times as fast the program is, on geometric average. Where no pool pays, once.
    mean: f64,
    /// The memory in which it is fastest compared with no pool, and the pool there.
    most_in: &'a CompressedMemory,
    pool: &'a AdvisedPool,
}

impl<'a> Gains<'a> {
    /// `None` if no pool pays.
    fn of(
        name: &'static str,
        pool: fn(&CompressedMemory) -> &Option<AdvisedPool>,
        short: &[&'a CompressedMemory],
    ) -> Option<Self> {
        let factor = |memory: &CompressedMemory| {
            pool(memory).as_ref().map_or(1.0, |pool| memory.seconds / pool.seconds)
        };
        let mean = short.iter().map(|memory| factor(memory).ln()).sum::<f64>() / short.len().max(1) as f64;
        let most_in = *short.iter().max_by(|a, b| factor(a).total_cmp(&factor(b)))?;
        Some(Self { name, mean: mean.exp(), most_in, pool: pool(most_in).as_ref()? })
    }
}

/// The sizes that are simulated, in pages.
struct Sizes {
    clock: Spec,
    /// The memories that are compared, ascending: in each, something is paged.
    memories: Vec<usize>,
    /// Sizes without a pool, ascending, the memories among them. The last holds all.
    without_pool: Vec<usize>,
    /// Sizes of which some are resident in each memory, ascending.
    steps: Vec<usize>,
}

impl Sizes {
    /// Those for a program that pages `whole` of its pages.
    fn of(study: &CurveStudy, whole: usize) -> Self {
        let studied = study.curves.memory_pages.iter().map(|pages| *pages as usize);
        let memories: Vec<_> = studied.filter(|pages| *pages < whole).collect();
        let least = memories.first().map_or(whole, |least| (*least as f64 * LEAST_RESIDENT) as usize);
        // In less memory, a live recording lacks faults.
        let least = least.max(study.trace.known_from_pages as usize).max(1);
        let step =
            |step: i32| (whole as f64 * 2_f64.powf(-f64::from(step) / f64::from(STEPS))).round() as usize;
        let mut steps: Vec<usize> =
            (0..).map(step).take_while(|pages| *pages >= least && *pages > 0).collect();
        steps.reverse();
        steps.dedup();
        let from = memories.first().copied().unwrap_or(whole);
        let between = steps.iter().rev().step_by(2).copied().filter(|pages| *pages > from);
        let without_pool: BTreeSet<usize> = between.chain(memories.iter().copied()).chain([whole]).collect();
        Self { clock: kernel_policy(), memories, without_pool: without_pool.into_iter().collect(), steps }
    }

    /// What is simulated: first each of `without_pool`, then the splits of each memory.
    fn splits(&self) -> Vec<Split> {
        let split = |memory_pages: usize, resident: usize| Split {
            spec: self.clock.clone(),
            memory_pages,
            resident: Resident::Pages(resident),
        };
        let mut splits: Vec<_> = self.without_pool.iter().map(|&pages| split(pages, pages)).collect();
        for &memory in &self.memories {
            let resident = self.steps.iter().rev().filter(|pages| **pages < memory).enumerate();
            let resident = resident.filter(|(at, pages)| {
                let share = **pages as f64 / memory as f64;
                share >= 0.5 || (share >= LEAST_RESIDENT && at.is_multiple_of(4))
            });
            splits.extend(resident.map(|(_, &pages)| split(memory, pages)));
        }
        splits
    }
}

/// What the disk takes without a pool: by the pages that it moves, and by memory.
struct Disk {
    native_seconds: f64,
    /// Pages read and written, and the seconds of that, ascending. The first is nothing.
    by_moved: Vec<(f64, f64)>,
    /// Memory in pages, and seconds of the program, ascending.
    by_memory: Vec<(usize, f64)>,
}

impl Disk {
    /// `told` begins with what tiers count in the sizes without a pool.
    fn of(
        model: &TimeModel,
        sizes: &Sizes,
        told: &[(Outcome, TierCounts)],
        interrupt: &Interrupt,
    ) -> Result<Self, TiersError> {
        let kernel = model.with(model.device().clone(), Paging::Kernel);
        let cell = |&frames: &usize| Cell { spec: sizes.clock.clone(), frames };
        let cells = sizes.without_pool.iter().map(cell).collect();
        let sweep = Sweep { cells, interrupt: interrupt.clone(), ..Sweep::default() };
        let seconds: Vec<f64> =
            kernel.predict(&sweep, &|_| {})?.iter().map(|prediction| prediction.seconds).collect();
        let native_seconds = model.native_seconds();
        let mut by_moved: Vec<(f64, f64)> = told
            .iter()
            .zip(&seconds)
            .map(|((_, counts), seconds)| (moved_pages(counts), (seconds - native_seconds).max(0.0)))
            .chain([(0.0, 0.0)])
            .collect();
        by_moved.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        by_moved.dedup_by_key(|(moved, _)| *moved);
        Ok(Self {
            native_seconds,
            by_moved,
            by_memory: sizes.without_pool.iter().copied().zip(seconds).collect(),
        })
    }

    /// Seconds of the program without a pool, in one of the sizes.
    fn seconds_in(&self, memory: usize) -> f64 {
        let at = self.by_memory.partition_point(|(pages, _)| *pages < memory);
        self.by_memory[at].1
    }

    /// Seconds that the disk takes to move some pages: between those that were predicted, and
    /// beyond the most of them in proportion.
    fn seconds_to_move(&self, pages: f64) -> f64 {
        let after = self.by_moved.partition_point(|(moved, _)| *moved < pages);
        let Some(&(to, to_seconds)) = self.by_moved.get(after) else {
            let &(most, seconds) = self.by_moved.last().expect("there is nothing, at least");
            return if most > 0.0 { seconds * pages / most } else { 0.0 };
        };
        let Some(&(from, from_seconds)) = after.checked_sub(1).map(|before| &self.by_moved[before]) else {
            return to_seconds;
        };
        from_seconds + (to_seconds - from_seconds) * (pages - from) / (to - from)
    }

    /// The memory above `memory` in which the program takes as long without a pool.
    fn as_fast_pages(&self, memory: usize, seconds: f64) -> u64 {
        let mut slower = (memory, self.seconds_in(memory));
        for &(pages, time) in self.by_memory.iter().filter(|(pages, _)| *pages > memory) {
            if time <= seconds {
                let part = (slower.1 - seconds) / (slower.1 - time);
                return slower.0 as u64 + (part * (pages - slower.0) as f64).ceil() as u64;
            }
            slower = (pages, time);
        }
        slower.0 as u64
    }

    /// The smallest of the best pools of a memory, if it pays: of those that have room for all that
    /// goes to them, or else of all. A page that zram has turned away mostly goes to the disk
    /// again, however hot it is, so the program may be slower than predicted.
    fn best_pool<'a>(
        &self,
        memory: usize,
        pools: impl Iterator<Item = (&'a Split, &'a (Outcome, TierCounts))> + Clone,
        costs: &TierCosts,
    ) -> Option<AdvisedPool> {
        let roomy = pools.clone().filter(|(_, (_, counts))| counts.turned_away == 0);
        self.best_pool_of(memory, roomy, costs).or_else(|| self.best_pool_of(memory, pools, costs))
    }

    fn best_pool_of<'a>(
        &self,
        memory: usize,
        pools: impl Iterator<Item = (&'a Split, &'a (Outcome, TierCounts))>,
        costs: &TierCosts,
    ) -> Option<AdvisedPool> {
        let pool = |(split, (outcome, counts)): (&Split, &(Outcome, TierCounts))| {
            let pool_pages = (memory - split.resident_pages().expect("a fixed split")) as u64;
            AdvisedPool {
                pool_pages,
                peak_pool_pages: counts.peak_pool_pages,
                peak_stored_pages: counts.peak_stored_pages,
                disksize_pages: disksize_pages(pool_pages, counts),
                seconds: self.native_seconds
                    + costs.pool_seconds(outcome, counts)
                    + self.seconds_to_move(moved_pages(counts)),
                as_fast_without_pages: 0,
            }
        };
        let pools: Vec<_> = pools.map(pool).filter(|pool| pool.pool_pages > 0).collect();
        let least = pools.iter().map(|pool| pool.seconds).min_by(f64::total_cmp)?;
        let best = pools
            .into_iter()
            .filter(|pool| pool.seconds <= EQUAL * least)
            .min_by_key(|pool| pool.pool_pages)
            .filter(|pool| self.seconds_in(memory) >= PAYS * pool.seconds)?;
        Some(AdvisedPool { as_fast_without_pages: self.as_fast_pages(memory, best.seconds), ..best })
    }
}

/// The pages that fill a pool, if all become as small as those that were in it.
fn disksize_pages(pool_pages: u64, counts: &TierCounts) -> u64 {
    match counts.peak_pool_pages {
        0 => counts.peak_stored_pages,
        peak => counts.peak_stored_pages * pool_pages.max(peak) / peak,
    }
}

/// Whether hardly any page becomes smaller.
fn are_incompressible(pages: &TracePages) -> bool {
    pages.incompressible_percent > MOST_INCOMPRESSIBLE_PERCENT
}

/// Pages that the disk reads and writes.
fn moved_pages(counts: &TierCounts) -> f64 {
    (counts.disk_faults + counts.disk_writes()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_sim::MemorySize;
    use sweephand_time::Figures;
    use sweephand_trace::contents::{
        AGES, CodecTime, CodecTimes, Contents, ObjectContents, PageContents, SampledPages,
    };
    use sweephand_trace::{EndTotals, Metadata, Trace, Writer};

    const PAGES: u64 = 600;
    const ROUNDS: u64 = 10;

    /// A disk that takes this long for each page, and hardly less for many.
    fn disk(latency_us: f64) -> Device {
        let figures = Figures {
            latency_us,
            operations_per_second: 1e6 / latency_us,
            bytes_per_second: 4096e6 / latency_us,
            stream_bytes_per_second: 4096e6 / latency_us,
        };
        Device {
            name: "test".into(),
            source: "made up".into(),
            synchronous: false,
            compressor: None,
            codec_times: None,
            rotational: false,
            disk: None,
            read_beside_writes_us: None,
            read: figures,
            write: figures,
            measurements: Vec::new(),
        }
    }

    /// A program that writes all of its pages, round after round.
    fn loop_with(contents: Option<Contents>) -> Trace {
        let metadata = Metadata { contents, ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        (0..PAGES * ROUNDS).for_each(|turn| writer.reference(1 + turn % PAGES, true).unwrap());
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    fn compression(trace: &Trace, memory: &str, device: Device) -> Option<Compression> {
        let specs = Spec::parse_list("clock").unwrap();
        let sizes = MemorySize::parse_list(memory).unwrap();
        let study = CurveStudy::of(trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap();
        let model = TimeModel::of(trace, device, Paging::Run, Some(1.0)).unwrap();
        Compression::of(&study, &model, &Interrupt::default()).unwrap()
    }

    fn contents(pages: impl IntoIterator<Item = PageContents>) -> Contents {
        let mut sampled = SampledPages::default();
        pages.into_iter().for_each(|page| sampled.add(page));
        let mut ages = vec![SampledPages::default(); AGES.len()];
        ages[0].merge(&sampled);
        Contents {
            moments: 40,
            objects: vec![ObjectContents { name: "[heap]".into(), sampled }],
            ages,
            ..Contents::default()
        }
    }

    /// A loop over 600 pages in 400, at three pages a page: 23 pages take 8. With 275 resident, 125
    /// hold the other 325. With 300, 100 would have to hold 300: 12 zspages have 276 places.
    #[test]
    fn a_loop_that_fits_compressed_takes_as_long_as_faults_and_compression_do() {
        let found = compression(&loop_with(None), "400p", disk(10_000.0)).unwrap();
        let [memory] = &found.memories[..] else { panic!("{found:?}") };
        assert_eq!(memory.memory_pages, 400);
        let zram = Device::named("zram").unwrap();
        let costs = TierCosts::of(&zram, &disk(10_000.0), 4096, None);
        let evictions = PAGES * ROUNDS - 275;
        let refaults = PAGES * (ROUNDS - 1);
        let pool_ns = refaults * (costs.fault_ns + costs.decompress_ns)
            + evictions * (costs.evict_ns + costs.compress_ns);
        for pool in [&memory.zswap, &memory.zram] {
            let pool = pool.as_ref().unwrap();
            assert_eq!((pool.pool_pages, pool.peak_stored_pages), (125, 325), "{pool:?}");
            assert!(pool.peak_pool_pages <= pool.pool_pages, "{pool:?}");
            assert!((pool.seconds - 1.0 - pool_ns as f64 / 1e9).abs() < 1e-9, "{pool:?} {pool_ns}");
            // In anything less than all, CLOCK misses every page of the loop.
            assert!((590..=600).contains(&pool.as_fast_without_pages), "{pool:?}");
        }
        // Windows of eight pages, each of which takes 10 ms.
        assert!(memory.seconds > 50.0, "{memory:?}");
        // 125 pages have room for a few more than the 325 that take 121.
        assert_eq!(memory.zram.as_ref().map(|pool| pool.disksize_pages), Some(335));
        let said = found.to_string();
        assert!(
            said.starts_with("compress  On test, z") && said.contains(" most in 1.6 MiB: 1.07 s instead of "),
            "{said}"
        );
        assert!(said.contains("a pool of 31% of memory; without zswap, about 2.3"), "{said}");
        assert!(said.contains("a disksize of 1.3 MiB, which takes 484 KiB"), "{said}");
        assert!(said.contains("Compressibility assumed: 3.00:1"), "{said}");
        assert!(said.contains("a new recording with sweephand record"), "{said}");
    }

    /// The pool of 10 pages is faster by the counts, but turns pages away.
    #[test]
    fn a_pool_with_room_for_all_is_advised_first() {
        let native = |slower: f64| Disk {
            native_seconds: 1.0,
            by_moved: vec![(0.0, 0.0), (1000.0, 1.0)],
            by_memory: vec![(100, slower), (200, 1.0)],
        };
        let costs = TierCosts::of(&Device::named("zram").unwrap(), &disk(100.0), 4096, None);
        let split = |resident| Split {
            spec: kernel_policy(),
            memory_pages: 100,
            resident: Resident::Pages(resident),
        };
        let small =
            TierCounts { disk_faults: 10, turned_away: 10, peak_pool_pages: 10, ..TierCounts::default() };
        let large = TierCounts { pool_faults: 20_000, peak_pool_pages: 50, ..TierCounts::default() };
        let told = [(split(90), 20, small), (split(50), 20_000, large)];
        let advised = |slower| {
            let with = |evictions| Outcome { evictions, ..Outcome::default() };
            let told: Vec<_> =
                told.iter().map(|(split, evictions, counts)| (split, (with(*evictions), *counts))).collect();
            let pools = told.iter().map(|(split, told)| (*split, told));
            native(slower).best_pool(100, pools, &costs).map(|pool| pool.pool_pages)
        };
        assert_eq!(advised(3.0), Some(50));
        assert_eq!(advised(1.1), Some(10), "the large one does not pay");
        assert_eq!(advised(1.0), None);
    }

    #[test]
    fn recorded_pages_are_taken_and_decide() {
        let other = |bytes| PageContents::Other { lz4_bytes: bytes, zstd_bytes: bytes };
        let small =
            compression(&loop_with(Some(contents([other(400); 10]))), "200p", disk(10_000.0)).unwrap();
        assert!(small.pages.is_recorded());
        assert!(small.memories[0].zswap.is_some() && small.memories[0].zram.is_some(), "{small:?}");
        assert!(!small.to_string().contains("a new recording"), "{small}");
        // At three pages a page, 200 pages never hold 600.
        let assumed = compression(&loop_with(None), "200p", disk(10_000.0)).unwrap();
        let seconds = |of: &Compression| of.memories[0].zswap.as_ref().map_or(f64::MAX, |pool| pool.seconds);
        assert!(seconds(&small) < 0.5 * seconds(&assumed), "{small:?} {assumed:?}");
        let lz4 = CodecTime::new(1_000_000, 2_000_000);
        let slow =
            Contents { codec_times: Some(CodecTimes { lz4, zstd: lz4 }), ..contents([other(400); 10]) };
        let slow = compression(&loop_with(Some(slow)), "200p", disk(10_000.0)).unwrap();
        assert!(seconds(&slow) > seconds(&small) + 0.003 * 300.0 * ROUNDS as f64, "{slow:?} {small:?}");
        assert!(slow.to_string().contains(", codec times of the program's pages."), "{slow}");
        assert!(small.to_string().contains(", codec times of test pages."), "{small}");
        // All pages are same-filled: the smallest pool will do, and takes nothing.
        let zero = compression(&loop_with(Some(contents([PageContents::Zero; 10]))), "200p", disk(10_000.0));
        let zero = zero.unwrap().memories.remove(0).zswap.unwrap();
        assert_eq!((zero.peak_pool_pages, zero.peak_stored_pages), (0, PAGES - (200 - zero.pool_pages)));
    }

    #[test]
    fn nothing_is_advised_where_it_cannot_help() {
        let random = PageContents::Other { lz4_bytes: 4096, zstd_bytes: 4096 };
        let incompressible = loop_with(Some(contents([random; 10])));
        // All fits, pages do not compress, or the disk is faster than compression.
        for (trace, memory, latency_us, said) in [
            (loop_with(None), "600p,700p", 10_000.0, "Neither zswap nor zram is needed on test"),
            (
                incompressible,
                "100p,300p,500p",
                10_000.0,
                "Neither zswap nor zram pays on test: 100% of the pages do not compress.",
            ),
            (loop_with(None), "300p,400p", 0.5, "Neither zswap nor zram "),
        ] {
            let found = compression(&trace, memory, disk(latency_us)).unwrap();
            let pays = |memory: &CompressedMemory| memory.zswap.is_some() || memory.zram.is_some();
            assert!(!found.memories.iter().any(pays), "{found:?}");
            assert!(found.sentences()[0].starts_with(said), "{:?}", found.sentences());
        }
        assert_eq!(compression(&loop_with(None), "300p", Device::named("zram").unwrap()), None);
    }

    #[test]
    fn lines_end_where_nothing_is_paged() {
        let found = compression(&loop_with(None), "100p,400p", disk(10_000.0)).unwrap();
        let lines = found.lines();
        assert_eq!(lines.each_ref().map(|(name, _)| *name), ["disk alone", "with zswap", "with zram"]);
        let seconds = |line: usize, at: usize| lines[line].1[at].1;
        for (line, (name, points)) in lines.iter().enumerate() {
            let memory: Vec<_> = points.iter().map(|(bytes, _)| *bytes).collect();
            assert_eq!(memory, [100 * 4096, 400 * 4096, 600 * 4096], "{name}");
            assert_eq!(seconds(line, 2), 1.0, "{name}");
        }
        assert_eq!(seconds(0, 1), found.memories[1].seconds);
        assert!(seconds(1, 1) < 2.0 && seconds(2, 1) < 2.0, "{lines:?}");
    }

    /// All memories are split into as much as they have, and each is tried without a pool, too.
    #[test]
    fn splits_come_to_the_memory_that_they_split() {
        let clock = Spec::parse("clock").unwrap();
        let sizes = Sizes {
            clock,
            memories: vec![100, 400],
            without_pool: vec![100, 400, 600],
            steps: vec![25, 50, 60, 70, 80, 90, 100, 200, 300, 390],
        };
        let splits: Vec<_> = sizes
            .splits()
            .iter()
            .map(|split| (split.memory_pages, split.resident_pages().unwrap()))
            .collect();
        let without = [(100, 100), (400, 400), (600, 600)];
        // Of sizes below a half, each fourth counts from the top.
        let hundred = [90, 80, 70, 60, 50].map(|resident| (100, resident));
        let more = [390, 300, 200].map(|resident| (400, resident));
        assert_eq!(splits, [&without[..], &hundred, &more, &[(400, 90)]].concat());
    }

    #[test]
    fn the_disk_takes_as_long_as_where_it_moves_as_many_pages() {
        let disk = Disk {
            native_seconds: 1.0,
            by_moved: vec![(0.0, 0.0), (100.0, 2.0), (300.0, 3.0)],
            by_memory: vec![(10, 4.0), (20, 3.0), (30, 3.5), (40, 1.0)],
        };
        let seconds = [0.0, 50.0, 100.0, 200.0, 600.0].map(|pages| disk.seconds_to_move(pages));
        assert_eq!(seconds, [0.0, 1.0, 2.0, 2.5, 6.0]);
        let nothing = Disk { by_moved: vec![(0.0, 0.0)], ..disk };
        assert_eq!(nothing.seconds_to_move(5.0), 0.0);
        let as_fast = |seconds| nothing.as_fast_pages(10, seconds);
        assert_eq!([4.0, 3.5, 3.0, 2.25, 1.0, 0.5].map(as_fast), [10, 15, 20, 35, 40, 40]);
    }
}
