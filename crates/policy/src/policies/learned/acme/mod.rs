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
//! Cost: hit O(1). A fault would have to look at all M pages, because every reference moves ranks
//! and weights. Instead, pages are grouped in blocks of up to 32 that were used in succession, and
//! blocks in groups of up to 32. A block remembers, for each cache, a lower bound of its pages'
//! ranks, and a lower bound of the sum of ranks. How far ranks can have fallen since then is known.
//! This bounds the score of every page in the block, so a fault looks only into blocks that could
//! beat the best score found. The same holds for a group. A fault looks at the groups, at the
//! blocks of few of them, and into few of those; O(M) at worst. About 70 bytes a page seen.

mod lfu_list;
mod ranked_list;

use crate::arguments::Parameter;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::vec::Vec;
use lfu_list::LfuList;
use ranked_list::RankedList;

/// The virtual caches, by index of their weights.
const LRU: usize = 0;
const LFU: usize = 1;
const FIFO: usize = 2;
const MRU: usize = 3;
const EXPERTS: usize = 4;

/// More than rounding can put between a bound and a score.
const SLACK: f64 = 1e-9;

/// Ranks that the pages of a block are not below.
#[derive(Clone, Copy, Debug)]
struct Floors {
    /// In each virtual cache.
    ranks: [u64; EXPERTS],
    /// What the ranks of a page add up to is not below this: more than the sum of `ranks` if no
    /// page is low in all.
    sum: u64,
}

impl Floors {
    /// Those of no page.
    const NONE: Self = Self { ranks: [u64::MAX; EXPERTS], sum: u64::MAX };

    /// Those of the pages of both.
    #[inline]
    fn least(self, other: Self) -> Self {
        Self {
            ranks: core::array::from_fn(|expert| self.ranks[expert].min(other.ranks[expert])),
            sum: self.sum.min(other.sum),
        }
    }
}

/// Sets an element of a table that grows.
fn store(summaries: &mut Vec<Option<Summary>>, index: usize, summary: Summary) {
    if index >= summaries.len() {
        summaries.resize(index + 1, None);
    }
    summaries[index] = Some(summary);
}

/// What is remembered of a block of resident pages, or of a group of blocks.
#[derive(Clone, Copy, Debug)]
struct Summary {
    /// The version of the block or group that this is about: it has taken in no page since.
    version: u64,
    /// The floors, plus how far ranks could have fallen until they were found.
    floors: Floors,
}

/// Adaptive caching using multiple experts.
#[derive(Clone, Debug)]
pub struct Acme {
    frames: usize,
    /// The pages of the virtual LRU cache, the next to go in front.
    lru: RankedList,
    lfu: LfuList,
    fifo: RankedList,
    /// The pages of the virtual MRU cache, the next to go at the back.
    mru: RankedList,
    /// Resident pages, the least recently used in front.
    resident: RankedList,
    /// By block of `resident`.
    summaries: Vec<Option<Summary>>,
    /// By group of `resident`.
    group_summaries: Vec<Option<Summary>>,
    /// The block of the page chosen last.
    latest: usize,
    /// How far the rank of a page can have fallen in each virtual cache since the start, while the
    /// page was not used.
    falls: [u64; EXPERTS],
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
            lru: RankedList::new(),
            lfu: LfuList::new(),
            fifo: RankedList::new(),
            mru: RankedList::new(),
            resident: RankedList::new(),
            summaries: Vec::new(),
            group_summaries: Vec::new(),
            latest: 0,
            falls: [0; EXPERTS],
            weights: [1.0 / EXPERTS as f64; EXPERTS],
            beta: share("beta")?,
            alpha: share("alpha")?,
        })
    }
}

impl Acme {
    /// Shows a reference to the virtual caches and moves weights.
    fn consult(&mut self, page: PageId) {
        let hit = [
            self.lru.contains(page),
            self.lfu.order().contains(page),
            self.fifo.contains(page),
            self.mru.contains(page),
        ];
        // A page that leaves its place lets those behind it fall by one. Not so in MRU: what
        // precedes a page there was used after it, and leaves only when the page that comes in
        // takes its place.
        self.falls[LRU] += 1;
        self.falls[LFU] += 1;
        self.falls[FIFO] += u64::from(!hit[FIFO]);
        for (expert, hit) in hit.into_iter().enumerate() {
            if !hit && self.sizes()[expert] == self.frames {
                self.evict_virtually(expert);
            }
        }
        if hit[LRU] {
            self.lru.move_to_back(page)
        } else {
            self.lru.push_back(page)
        }
        if hit[LFU] {
            self.lfu.use_once_more(page)
        } else {
            self.lfu.insert(page)
        }
        if !hit[FIFO] {
            self.fifo.push_back(page);
        }
        if hit[MRU] {
            self.mru.move_to_back(page)
        } else {
            self.mru.push_back(page)
        }
        self.weigh(hit);
    }

    /// Drops the next page of a virtual cache. Its rank was 0, and it counts as of rank 0 from now
    /// on.
    fn evict_virtually(&mut self, expert: usize) {
        let victim = match expert {
            LRU => self.lru.front(),
            LFU => self.lfu.order().front(),
            FIFO => self.fifo.front(),
            _ => self.mru.back(),
        };
        let Some(page) = victim else { return };
        match expert {
            LRU => self.lru.remove(page),
            LFU => self.lfu.remove(page),
            FIFO => self.fifo.remove(page),
            _ => self.mru.remove(page),
        }
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
    fn sizes(&self) -> [usize; EXPERTS] {
        [self.lru.len(), self.lfu.order().len(), self.fifo.len(), self.mru.len()]
    }

    /// Counts ranks, for the functions below.
    fn count(&mut self) {
        self.lru.count();
        self.lfu.count();
        self.fifo.count();
        self.mru.count();
    }

    /// A page's rank in each virtual cache that holds it.
    fn ranks(&mut self, page: PageId) -> [Option<usize>; EXPERTS] {
        let from_back = self.mru.rank(page).map(|rank| self.mru.len() - 1 - rank);
        [self.lru.rank(page), self.lfu.rank(page), self.fifo.rank(page), from_back]
    }

    /// Ranks that those of a page are not below, by the blocks that it is in.
    #[inline]
    fn least_ranks(&mut self, page: PageId) -> [u64; EXPERTS] {
        let ranks = [
            self.lru.least_rank(page),
            self.lfu.least_rank(page),
            self.fifo.least_rank(page),
            self.mru.least_rank_from_back(page),
        ];
        ranks.map(|rank| rank.unwrap_or(0) as u64)
    }

    /// The weighted sum over the virtual caches of 1 - rank / size, a page that a cache does not
    /// hold having rank 0.
    fn score(&mut self, page: PageId) -> f64 {
        let ranks = self.ranks(page);
        let mut sum = 0.0;
        for ((weight, size), rank) in self.weights.iter().zip(self.sizes()).zip(ranks) {
            // A cache whose pages have all been unmapped is of size 0.
            sum += weight * (1.0 - rank.unwrap_or(0) as f64 / size.max(1) as f64);
        }
        sum
    }

    /// The floors of a block or group, as far as they are remembered.
    #[inline]
    fn remembered(&self, summary: Option<&Option<Summary>>, version: u64) -> Floors {
        match summary {
            Some(Some(Summary { version: known, floors })) if *known == version => Floors {
                ranks: core::array::from_fn(|expert| floors.ranks[expert].saturating_sub(self.falls[expert])),
                sum: floors.sum.saturating_sub(self.falls.iter().sum()),
            },
            _ => Floors { ranks: [0; EXPERTS], sum: 0 },
        }
    }

    fn remember(&mut self, block: usize, version: u64, floors: Floors) {
        let ranks = core::array::from_fn(|expert| floors.ranks[expert] + self.falls[expert]);
        let floors = Floors { ranks, sum: floors.sum + self.falls.iter().sum::<u64>() };
        store(&mut self.summaries, block, Summary { version, floors });
    }

    /// Remembers of a group what is remembered of its blocks, all of which have been looked at.
    fn remember_group(&mut self, group: usize, version: u64) {
        let mut floors = Floors::NONE;
        for &block in self.resident.blocks_of(group) {
            if let Some(Some(summary)) = self.summaries.get(block as usize) {
                floors = floors.least(summary.floors);
            }
        }
        store(&mut self.group_summaries, group, Summary { version, floors });
    }

    /// The page with the largest score; the least recently used of several.
    fn best(&mut self) -> Option<PageId> {
        self.count();
        let sizes = self.sizes();
        let slopes: [f64; EXPERTS] =
            core::array::from_fn(|expert| self.weights[expert] / sizes[expert].max(1) as f64);
        // What all caches weigh alike goes by the sum of ranks, the rest of their weights by rank.
        let common = slopes.into_iter().fold(f64::MAX, f64::min);
        let total: f64 = self.weights.iter().sum();
        // What no page with these floors scores more than.
        let bound = |Floors { ranks, sum }: Floors| {
            let lost: f64 =
                ranks.iter().zip(slopes).map(|(&rank, slope)| rank as f64 * (slope - common)).sum();
            total - lost - sum as f64 * common + SLACK
        };
        // The best page is often near the one before it. What scores less than some page there need
        // not be looked at.
        let mut enough = 0.0_f64;
        for index in 0..self.resident.pages_of(self.latest).len() {
            enough = enough.max(self.score(self.resident.pages_of(self.latest)[index]));
        }
        let mut best = None;
        let mut most = 0.0;
        for place in 0..self.resident.groups() {
            let (group, group_version) = self.resident.group(place);
            let floors = self.remembered(self.group_summaries.get(group), group_version);
            if bound(floors) < enough.max(most) {
                continue;
            }
            for index in 0..self.resident.blocks_of(group).len() {
                let block = self.resident.blocks_of(group)[index] as usize;
                let version = self.resident.version_of(block);
                if bound(self.remembered(self.summaries.get(block), version)) < enough.max(most) {
                    continue;
                }
                let mut floors = Floors::NONE;
                for index in 0..self.resident.pages_of(block).len() {
                    let page = self.resident.pages_of(block)[index];
                    let ranks = self.least_ranks(page);
                    let own = Floors { ranks, sum: ranks.iter().sum() };
                    floors = floors.least(own);
                    if bound(own) >= enough.max(most) {
                        let score = self.score(page);
                        if best.is_none() || score > most {
                            (best, most) = (Some(page), score);
                            self.latest = block;
                        }
                    }
                }
                self.remember(block, version, floors);
            }
            self.remember_group(group, group_version);
        }
        best
    }
}

impl Policy for Acme {
    type Model = ExactModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.best()
    }

    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.consult(reference.page);
        self.resident.push_back(reference.page);
        false
    }

    fn hit(&mut self, reference: Reference) {
        self.consult(reference.page);
        // Also if it is the last: its block takes it in again, with other ranks.
        self.resident.remove(reference.page);
        self.resident.push_back(reference.page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        for list in [&self.lru, self.lfu.order(), &self.fifo, &self.mru, &self.resident] {
            list.prefetch(page);
        }
    }

    fn remove(&mut self, page: PageId) {
        self.lru.remove(page);
        self.lfu.remove(page);
        self.fifo.remove(page);
        self.mru.remove(page);
        self.resident.remove(page);
        self.falls = self.falls.map(|falls| falls + 1);
    }

    fn check(&self) -> Result<(), Violation> {
        for list in [&self.lru, self.lfu.order(), &self.fifo, &self.mru, &self.resident] {
            list.check()?;
            ensure!(list.len() <= self.frames, "{} entries in {} frames", list.len(), self.frames);
        }
        self.lfu.check()?;
        let sum: f64 = self.weights.iter().sum();
        ensure!((1.0 - 1e-9..1.0 + 1e-9).contains(&sum), "weights {:?} sum to {sum}", self.weights);
        let ranks = |pages: &mut dyn Iterator<Item = PageId>| {
            let mut ranks = PageMap::<u64>::new();
            pages.zip(0..).for_each(|(page, rank)| ranks.set(page, rank));
            ranks
        };
        let mut mru: Vec<_> = self.mru.iter().collect();
        mru.reverse();
        let ranks = [
            ranks(&mut self.lru.iter()),
            ranks(&mut self.lfu.order().iter()),
            ranks(&mut self.fifo.iter()),
            ranks(&mut mru.into_iter()),
        ];
        for (block, pages, version) in self.resident.blocks() {
            let (group, group_version) = self.resident.group_of(block);
            for (floors, &page) in [
                self.remembered(self.summaries.get(block), version),
                self.remembered(self.group_summaries.get(group), group_version),
            ]
            .into_iter()
            .flat_map(|floors| pages.iter().map(move |page| (floors, page)))
            {
                let of_page: [u64; EXPERTS] = core::array::from_fn(|expert| ranks[expert].get(page));
                let holds = of_page.iter().zip(floors.ranks).all(|(rank, floor)| *rank >= floor);
                ensure!(holds, "block {block}: page {page} has ranks {of_page:?}, below {floors:?}");
                ensure!(of_page.iter().sum::<u64>() >= floors.sum, "block {block}, page {page}: {of_page:?}");
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
        let resident: Vec<_> = acme.resident.iter().collect();
        let pages: Vec<_> =
            resident.into_iter().map(|page| format!("{page}:{:.3}", acme.score(page))).collect();
        format!("{} ; {:.4?}", pages.join(" "), acme.weights)
    }

    #[test]
    fn worked_example() {
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
        assert_eq!(machine.policy().mru.len(), 0);
        machine.evict_ahead(1).unwrap();
        assert_eq!(machine.policy().resident.len(), 0);
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
