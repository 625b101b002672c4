//! ACME, adaptive caching using multiple experts: virtual caches under other policies vote on the
//! victim, with weights that follow their success.
//!
//! Paper: I. Ari, A. Amer, R. Gramacy, E. L. Miller, S. A. Brandt, D. D. E. Long, "ACME: adaptive
//! caching using multiple experts", Workshop on Distributed Data and Structures (WDAS) 2002.
//!
//! Four virtual caches of M entries, without contents, see every reference: LRU, LFU, FIFO and MRU.
//! Each gives every resident page a vote of 1 - rank / size, where the page that it would evict
//! next has rank 0. A page that it does not hold gets a vote of 1. The page with the largest
//! weighted sum is evicted; among equals, the least recently used. After a reference, the weight of
//! each cache that missed is multiplied by `beta`. The weights are scaled to sum to 1, and a share
//! `alpha` of them is divided evenly, so that no expert loses its vote for good.
//!
//! Choices where the paper is silent: the four experts (the paper has a pool of many), votes by
//! rank, and the constants. The caches vote before they see the reference that faults. LFU breaks
//! ties by LRU and forgets a page that leaves its virtual cache. An unmapped page leaves all
//! virtual caches.
//!
//! ```text
//!              LRU   [ next ...... last ]  w = .30   --+
//!   reference  LFU   [ next ...... last ]  w = .25   --+-- sum of w x (1 - rank / size) --> the largest is evicted
//!              FIFO  [ next ...... last ]  w = .25   --+
//!              MRU   [ next ...... last ]  w = .20   --+
//! ```
//!
//! Three of the orders are orders of last use: that of LRU, that of MRU, and that of the resident
//! pages, which breaks ties. One log holds all three. A use appends the page to it, and a mark says
//! whether each of the three holds the page; how many marks come before or after is the rank. FIFO
//! has such a log of its own.
//!
//! Cost: hit O(1). A fault would have to look at all M pages, because every reference moves ranks
//! and weights. Instead, the log is looked at in blocks of 64 places, and in groups of 8 blocks. As
//! long as a page is not used, neither its place nor its use count nor its arrival in FIFO changes.
//! Once a block is full, it gets a summary of up to 8 corners. A corner is an arrival and a use
//! count, and for each page of the block there is a corner that is not above it. So corners bound
//! the scores of the pages. A fault looks only into blocks that could beat the best score found.
//! The same holds for a group. A fault looks at the groups, at the blocks of few of them, and into
//! few of those; O(M) at worst. About 60 bytes a page seen.

mod lfu_list;
mod ranked_list;
mod ranked_log;
mod summary;

use crate::arguments::Parameter;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::vec::Vec;
use lfu_list::LfuList;
use ranked_log::{BLOCK_PLACES, GROUP_BLOCKS, RankedLog, bits};
use summary::{Corner, Summary};

/// The virtual caches, by index of their weights.
const LRU: usize = 0;
const LFU: usize = 1;
const FIFO: usize = 2;
const MRU: usize = 3;
const EXPERTS: usize = 4;

/// The sets of the log of uses: the virtual LRU and MRU caches, and memory.
const IN_LRU: usize = 0;
const IN_MRU: usize = 1;
const RESIDENT: usize = 2;
/// The set of the log of arrivals: the virtual FIFO cache.
const IN_FIFO: usize = 0;

/// More than rounding can put between a bound and a score.
const SLACK: f64 = 1e-9;

/// The search for the page with the largest score.
struct Search {
    /// What a rank takes from the score, by virtual cache.
    slopes: [f64; EXPERTS],
    /// The score of a page with rank 0 everywhere.
    total: f64,
    /// The best page so far, and its place.
    best: Option<(PageId, usize)>,
    /// Its score.
    most: f64,
}

impl Search {
    /// What no page with at least these ranks scores more than.
    #[inline]
    fn bound(&self, ranks: [usize; EXPERTS]) -> f64 {
        let lost: f64 = ranks.iter().zip(self.slopes).map(|(&rank, slope)| rank as f64 * slope).sum();
        self.total - lost + SLACK
    }

    /// Takes a page for the best if its score is the largest, and among equals if its place is the
    /// first.
    #[inline]
    fn offer(&mut self, page: PageId, place: usize, score: f64) {
        let is_better = match self.best {
            Some((_, best)) => score > self.most || (score == self.most && place < best),
            None => true,
        };
        if is_better {
            (self.best, self.most) = (Some((page, place)), score);
        }
    }
}

/// Adaptive caching using multiple experts.
#[derive(Clone, Debug)]
pub struct Acme {
    frames: usize,
    /// Pages by their last use: those of the virtual LRU cache, whose first is the next to go, of
    /// the virtual MRU cache, whose last is the next to go, and the resident ones.
    uses: RankedLog<3>,
    lfu: LfuList,
    /// The pages of the virtual FIFO cache, the next to go in front.
    arrivals: RankedLog<1>,
    /// By block of `uses`, as far as one was looked into since it was full.
    summaries: Vec<Option<Summary>>,
    /// By group of `uses`, the same.
    group_summaries: Vec<Option<Summary>>,
    /// The block of `uses` that the page chosen last was in.
    latest: usize,
    /// Trust in each expert; they sum to 1.
    weights: [f64; EXPERTS],
    /// What a miss leaves of a weight.
    beta: f64,
    /// The share of weight that is dealt out evenly.
    alpha: f64,
}

impl Registered for Acme {
    const INFO: Info = Info {
        name: "acme",
        summary: "virtual LRU, LFU, FIFO and MRU caches vote, weighed by their misses",
        paper: "Ari et al., ACME: adaptive caching using multiple experts, WDAS 2002",
        parameters: &[
            Parameter {
                name: "beta",
                default: "0.9",
                meaning: "what a miss leaves of an expert's weight, above 0 to 1",
            },
            Parameter {
                name: "alpha",
                default: "0.02",
                meaning: "share of weight dealt out evenly at each reference, above 0 to 1",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let share = |name| match arguments.factor(name)? {
            share if share > 0.0 && share <= 1.0 => Ok(share),
            _ => Err(arguments.bad(name, arguments.value(name), "a number above 0, up to 1")),
        };
        Ok(Self {
            frames,
            uses: RankedLog::new(),
            lfu: LfuList::new(),
            arrivals: RankedLog::new(),
            summaries: Vec::new(),
            group_summaries: Vec::new(),
            latest: 0,
            weights: [1.0 / EXPERTS as f64; EXPERTS],
            beta: share("beta")?,
            alpha: share("alpha")?,
        })
    }
}

impl Acme {
    /// Shows a reference to the virtual caches and moves weights. The page is resident from now on.
    fn consult(&mut self, page: PageId) {
        let hit = [
            self.uses.contains(page, IN_LRU),
            self.lfu.order().contains(page),
            self.arrivals.contains(page, IN_FIFO),
            self.uses.contains(page, IN_MRU),
        ];
        for (expert, hit) in hit.into_iter().enumerate() {
            if !hit && self.sizes()[expert] == self.frames {
                self.evict_virtually(expert);
            }
        }
        if hit[LFU] {
            self.lfu.use_once_more(page);
        } else {
            self.lfu.insert(page);
        }
        if !hit[FIFO] {
            if self.arrivals.is_full() {
                self.compact_arrivals();
            }
            self.arrivals.append(page);
        }
        if self.uses.is_full() {
            self.compact_uses();
        }
        let place = self.uses.append(page);
        if place.is_multiple_of(BLOCK_PLACES) {
            self.summaries.push(None);
            if (place / BLOCK_PLACES).is_multiple_of(GROUP_BLOCKS) {
                self.group_summaries.push(None);
            }
        }
        self.weigh(hit);
    }

    /// Drops the next page of a virtual cache.
    fn evict_virtually(&mut self, expert: usize) {
        match expert {
            LRU => {
                if let Some((_, page)) = self.uses.first(IN_LRU) {
                    self.uses.unmark(page, IN_LRU);
                }
            }
            LFU => {
                if let Some(page) = self.lfu.order().front() {
                    self.lfu.remove(page);
                }
            }
            FIFO => {
                if let Some((_, page)) = self.arrivals.first(IN_FIFO) {
                    self.arrivals.unmark(page, IN_FIFO);
                }
            }
            MRU => {
                if let Some((place, page)) = self.uses.last(IN_MRU) {
                    self.uses.unmark(page, IN_MRU);
                    let block = place / BLOCK_PLACES;
                    let summaries =
                        [&mut self.summaries[block], &mut self.group_summaries[block / GROUP_BLOCKS]];
                    for corner in summaries.into_iter().flatten().flat_map(Summary::corners_mut) {
                        corner.in_mru = false;
                    }
                }
            }
            _ => unreachable!("there are four experts"),
        }
    }

    /// Makes room in the log of arrivals. Places move.
    fn compact_arrivals(&mut self) {
        self.arrivals.count();
        for summary in self.summaries.iter_mut().chain(&mut self.group_summaries).flatten() {
            for corner in summary.corners_mut() {
                corner.arrival = self.arrivals.rank(corner.arrival as usize, IN_FIFO) as u32;
            }
        }
        self.arrivals.compact();
    }

    /// Makes room in the log of uses. All places move.
    fn compact_uses(&mut self) {
        self.uses.compact();
        let blocks = self.uses.places().div_ceil(BLOCK_PLACES);
        self.summaries = alloc::vec![None; blocks];
        self.group_summaries = alloc::vec![None; blocks.div_ceil(GROUP_BLOCKS)];
        self.latest = 0;
    }

    /// Moves weights after a reference that some of the virtual caches hit.
    #[inline]
    fn weigh(&mut self, hit: [bool; EXPERTS]) {
        for (weight, hit) in self.weights.iter_mut().zip(hit) {
            *weight *= if hit { 1.0 } else { self.beta };
        }
        let sum: f64 = self.weights.iter().sum();
        for weight in &mut self.weights {
            *weight = (1.0 - self.alpha) * (*weight / sum) + self.alpha / EXPERTS as f64;
        }
    }

    /// Entries of the virtual caches.
    #[inline]
    fn sizes(&self) -> [usize; EXPERTS] {
        [self.uses.len(IN_LRU), self.lfu.order().len(), self.arrivals.len(IN_FIFO), self.uses.len(IN_MRU)]
    }

    /// Counts ranks, for the functions below.
    fn count(&mut self) {
        self.uses.count();
        self.lfu.count();
        self.arrivals.count();
    }

    /// A page's rank in each virtual cache that holds it.
    fn ranks(&mut self, place: usize, page: PageId) -> [Option<usize>; EXPERTS] {
        let among = |set| self.uses.contains(page, set).then(|| self.uses.rank(place, set));
        let from_back = among(IN_MRU).map(|rank| self.uses.len(IN_MRU) - 1 - rank);
        let arrival = self.arrivals.place_of(page).map(|place| self.arrivals.rank(place, IN_FIFO));
        [among(IN_LRU), self.lfu.rank(page), arrival, from_back]
    }

    /// The weighted sum over the virtual caches of 1 - rank / size, a page that a cache does not
    /// hold having rank 0.
    fn score(&self, ranks: [usize; EXPERTS]) -> f64 {
        let mut sum = 0.0;
        for ((weight, size), rank) in self.weights.iter().zip(self.sizes()).zip(ranks) {
            // A cache whose pages have all been unmapped is of size 0.
            sum += weight * (1.0 - rank as f64 / size.max(1) as f64);
        }
        sum
    }

    /// Whether a page of a block or group could be the best, with its summary, if there is one, and
    /// the marks before it and in it.
    fn could_win(
        uses: &RankedLog<3>,
        arrivals: &RankedLog<1>,
        lfu: &mut LfuList,
        summary: Option<&Summary>,
        [before, within]: [[u32; 3]; 2],
        search: &Search,
    ) -> bool {
        let Some(summary) = summary else { return true };
        // The virtual LRU cache holds all from its first page on.
        let lru = before[IN_LRU] as usize;
        let behind = uses.len(IN_MRU) - (before[IN_MRU] + within[IN_MRU]) as usize;
        let could = |lfu, fifo, mru| search.bound([lru, lfu, fifo, mru]) >= search.most;
        could(0, 0, 0)
            && summary.corners().iter().any(|corner| {
                let fifo = arrivals.rank(corner.arrival as usize, IN_FIFO);
                let mru = if corner.in_mru { behind } else { 0 };
                could(0, fifo, mru) && could(Self::least_rank_in_lfu(uses, lfu, corner), fifo, mru)
            })
    }

    /// What the ranks in LFU of all pages that a corner is below are not below.
    #[inline]
    fn least_rank_in_lfu(uses: &RankedLog<3>, lfu: &mut LfuList, corner: &Corner) -> usize {
        let place = corner.place as usize;
        if uses.is_marked(place) {
            lfu.least_rank(uses.page(place)).unwrap_or(0)
        } else {
            0 // The page that stood for the others was used again.
        }
    }

    /// Looks for better pages in a block, and summarises it. `before`: the marks of each set that
    /// the blocks before it have.
    fn look_into(&mut self, block: usize, before: [u32; 3], search: &mut Search) {
        // A summary is worth something as long as the pages at its corners are resident.
        let is_resident = |corner: &Corner| self.uses.holds(corner.place as usize, RESIDENT);
        let holds = |summary: &Summary| summary.corners().iter().all(is_resident);
        let is_full = (block + 1) * BLOCK_PLACES <= self.uses.places();
        if is_full && !self.summaries[block].as_ref().is_some_and(holds) {
            self.summaries[block] = Some(self.summarise(block));
        }
        let marks = self.uses.marks(block);
        for bit in bits(marks[RESIDENT]) {
            let page = self.uses.page(block * BLOCK_PLACES + bit as usize);
            let preceding =
                |set: usize| (before[set] + (marks[set] & !(u64::MAX << bit)).count_ones()) as usize;
            let holds = |set: usize| marks[set] >> bit & 1 != 0;
            let lru = if holds(IN_LRU) { preceding(IN_LRU) } else { 0 };
            let mru = if holds(IN_MRU) { self.uses.len(IN_MRU) - 1 - preceding(IN_MRU) } else { 0 };
            let fifo = self.arrivals.rank(self.arrivals.last_place_of(page), IN_FIFO);
            let could = |lfu| search.bound([lru, lfu, fifo, mru]) >= search.most;
            if could(0) && could(self.lfu.least_rank(page).unwrap_or(0)) {
                let lfu = self.lfu.rank(page).unwrap_or(0);
                search.offer(page, block * BLOCK_PLACES + bit as usize, self.score([lru, lfu, fifo, mru]));
            }
        }
    }

    /// Summarises a block.
    fn summarise(&self, block: usize) -> Summary {
        let marks = self.uses.marks(block);
        let mut summary = Summary::NONE;
        for bit in bits(marks[RESIDENT]) {
            let place = block * BLOCK_PLACES + bit as usize;
            let page = self.uses.page(place);
            summary.take(Corner {
                arrival: self.arrivals.last_place_of(page) as u32,
                place: place as u32,
                uses: self.lfu.frequency(page),
                in_mru: marks[IN_MRU] >> bit & 1 != 0,
            });
        }
        summary
    }

    /// Looks for better pages in a group, and summarises it.
    fn look_into_group(&mut self, group: usize, search: &mut Search) {
        let (_, mut before) = self.uses.group(group);
        for block in self.uses.blocks_of(group) {
            let marks = self.uses.marks(block);
            let within = marks.map(u64::count_ones);
            if marks[RESIDENT] != 0 && block != self.latest {
                let Self { uses, arrivals, lfu, summaries, .. } = self;
                let summary = summaries[block].as_ref();
                if Self::could_win(uses, arrivals, lfu, summary, [before, within], search) {
                    self.look_into(block, before, search);
                }
            }
            (0..before.len()).for_each(|set| before[set] += within[set]);
        }
        let is_resident = |corner: &Corner| self.uses.holds(corner.place as usize, RESIDENT);
        let holds = |summary: &Summary| summary.corners().iter().all(is_resident);
        let is_full = self.uses.blocks_of(group + 1).start * BLOCK_PLACES <= self.uses.places();
        if is_full && !self.group_summaries[group].as_ref().is_some_and(holds) {
            self.group_summaries[group] = self.summarise_group(group);
        }
    }

    /// Summarises a group, if all of its blocks are.
    fn summarise_group(&self, group: usize) -> Option<Summary> {
        let mut of_group = Summary::NONE;
        for block in self.uses.blocks_of(group) {
            if self.uses.marks(block)[RESIDENT] != 0 {
                for corner in self.summaries[block].as_ref()?.corners() {
                    let is_known = self.uses.is_marked(corner.place as usize);
                    of_group.take(Corner { uses: if is_known { corner.uses } else { 0 }, ..*corner });
                }
            }
        }
        Some(of_group)
    }

    /// The page with the largest score; the least recently used of several.
    fn best(&mut self) -> Option<PageId> {
        self.count();
        let sizes = self.sizes();
        let mut search = Search {
            slopes: core::array::from_fn(|expert| self.weights[expert] / sizes[expert].max(1) as f64),
            total: self.weights.iter().sum(),
            best: None,
            most: 0.0,
        };
        // The best page is often near the one before it.
        if self.latest < self.summaries.len() {
            let before = core::array::from_fn(|set| self.uses.rank(self.latest * BLOCK_PLACES, set) as u32);
            self.look_into(self.latest, before, &mut search);
        }
        for group in 0..self.uses.groups() {
            let (marks, before) = self.uses.group(group);
            if marks[RESIDENT] != 0 {
                let Self { uses, arrivals, lfu, group_summaries, .. } = self;
                let summary = group_summaries[group].as_ref();
                if Self::could_win(uses, arrivals, lfu, summary, [before, marks], &search) {
                    self.look_into_group(group, &mut search);
                }
            }
        }
        let (page, place) = search.best?;
        self.latest = place / BLOCK_PLACES;
        Some(page)
    }
}

impl Policy for Acme {
    type Model = ExactModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.best()
    }

    fn evict(&mut self, page: PageId) {
        self.uses.unmark(page, RESIDENT);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.consult(reference.page);
        false
    }

    fn hit(&mut self, reference: Reference) {
        self.consult(reference.page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.uses.prefetch(page);
        self.lfu.order().prefetch(page);
        self.arrivals.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        [IN_LRU, IN_MRU, RESIDENT].into_iter().for_each(|set| self.uses.unmark(page, set));
        self.arrivals.unmark(page, IN_FIFO);
        self.lfu.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        self.uses.check()?;
        self.arrivals.check()?;
        self.lfu.check()?;
        let memory = self.uses.len(RESIDENT);
        ensure!(memory <= self.frames, "{memory} resident pages in {} frames", self.frames);
        let sizes = self.sizes();
        ensure!(
            sizes.iter().all(|size| *size <= self.frames),
            "{sizes:?} entries for {} frames",
            self.frames
        );
        let sum: f64 = self.weights.iter().sum();
        ensure!((1.0 - 1e-9..1.0 + 1e-9).contains(&sum), "weights {:?} sum to {sum}", self.weights);
        let mut counted = self.clone();
        counted.count();
        for (place, page) in self.uses.iter(RESIDENT) {
            let ranks = counted.ranks(place, page);
            let block = place / BLOCK_PLACES;
            let summaries = [self.summaries[block], self.group_summaries[block / GROUP_BLOCKS]];
            for summary in summaries.into_iter().flatten() {
                let is_below = summary.corners().iter().any(|corner| {
                    let fifo = counted.arrivals.rank(corner.arrival as usize, IN_FIFO);
                    fifo <= ranks[FIFO].unwrap_or(0)
                        && Self::least_rank_in_lfu(&counted.uses, &mut counted.lfu, corner)
                            <= ranks[LFU].unwrap_or(0)
                        && corner.in_mru <= ranks[MRU].is_some()
                });
                ensure!(is_below, "page {page} has ranks {ranks:?}, below all of {summary:?}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, faults, for_random_strings, outcome, run};

    /// Resident pages with their scores, the least recently used first, and the weights.
    fn state(machine: &Machine<Acme>) -> String {
        let mut acme = machine.policy().clone();
        acme.count();
        let resident: Vec<_> = acme.uses.iter(RESIDENT).collect();
        let pages: Vec<_> = resident
            .into_iter()
            .map(|(place, page)| {
                let ranks = acme.ranks(place, page).map(Option::unwrap_or_default);
                format!("{page}:{:.3}", acme.score(ranks))
            })
            .collect();
        format!("{} ; {:.4?}", pages.join(" "), acme.weights)
    }

    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Acme>::new("acme", 3);
        let states = machine.trace(&[1, 2, 3, 4, 1, 2], state);
        assert_eq!(
            states[2..],
            [
                // 1 is the first choice of LRU, LFU and FIFO and the last one of MRU: 3/4 + 1/4 x
                // 1/3.
                "1:0.833 2:0.667 3:0.500 ; [0.2500, 0.2500, 0.2500, 0.2500]",
                // 1 went; MRU has dropped 3 instead, and holds 4 2 1.
                "2:0.917 3:0.750 4:0.500 ; [0.2500, 0.2500, 0.2500, 0.2500]",
                // 1 was a hit for MRU alone: .225 of .925, and 2 % of that is dealt out.
                "3:1.000 4:0.667 1:0.513 ; [0.2434, 0.2434, 0.2434, 0.2699]",
                "4:0.806 1:0.667 2:0.527 ; [0.2366, 0.2366, 0.2366, 0.2903]",
            ]
        );
    }

    /// On a loop MRU is right, and gets the largest say; it cannot decide alone.
    #[test]
    fn a_loop_raises_the_weight_of_mru() {
        let string: Vec<u32> = (0..100).flat_map(|_| 0..150).collect();
        assert_eq!(["acme", "lru", "mru"].map(|policy| faults(policy, &string, 100)), [9_021, 15_000, 5_100]);
        let mut machine = Machine::<Acme>::new("acme", 100);
        for &page in &string {
            machine.access(page);
        }
        let weights = machine.policy().weights;
        assert!(weights[..MRU].iter().all(|weight| *weight < weights[MRU]), "{weights:?}");
    }

    /// Hundreds of pages in many blocks: the same victims as of the plain model, which looks at
    /// every page.
    #[test]
    fn bounds_lose_no_victim() {
        let mut random = crate::SplitMix64::new(1);
        for (frames, pages) in [(130, 170), (200, 500)] {
            let mut string: Vec<u32> = Vec::new();
            for phase in 0..2 {
                string.extend((0..pages + pages / 3).map(|time| (time % pages) as u32));
                let skewed = |_| (random.below(pages) * random.below(pages) / pages) as u32 + 20 * phase;
                string.extend((0..1000).map(skewed));
            }
            let steps = run("acme", &string, frames);
            let spec = crate::registry::Spec::parse("acme").unwrap();
            let model = crate::conformance::naive_model(&spec, &string, frames).unwrap();
            assert_eq!(outcome(&steps), outcome(&model), "{frames} frames");
        }
    }

    /// All pages of the virtual MRU cache are unmapped: it has no opinion on the one page left.
    #[test]
    fn an_empty_virtual_cache_has_no_say() {
        let mut machine = Machine::<Acme>::new("acme", 2);
        let victims = [1, 2, 3].map(|page| machine.access(page).victim);
        assert_eq!(victims, [None, None, Some(1)]);
        machine.unmap(3).unwrap();
        machine.unmap(1).unwrap();
        assert_eq!(machine.policy().uses.len(IN_MRU), 0);
        machine.evict_ahead(1).unwrap();
        assert_eq!(machine.policy().uses.len(RESIDENT), 0);
    }

    /// With `alpha` 1 all experts have the same say for ever.
    #[test]
    fn weights_stay_even_when_all_is_dealt_out() {
        for_random_strings(|string, frames| {
            let mut machine = Machine::<Acme>::new("acme:alpha=1", frames);
            for &page in string {
                machine.access(page);
            }
            assert_eq!(machine.policy().weights, [0.25; EXPERTS]);
        });
    }
}
