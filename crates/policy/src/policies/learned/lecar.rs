//! LeCaR: chooses between LRU and LFU at random, with odds that follow which of the two makes fewer
//! mistakes.
//!
//! Paper: G. Vietri, L. V. Rodriguez, W. A. Martinez, S. Lyons, J. Liu, R. Rangaswami, M. Zhao, G.
//! Narasimhan, "Driving cache replacement with ML-based LeCaR", USENIX HotStorage 2018, Algorithms
//! 1 and 2.
//!
//! Both experts look at the same pages. The weights decide which expert is drawn. Its choice is
//! evicted and remembered in that expert's history. A fault on a page in a history is that expert's
//! mistake. The other expert's weight is then multiplied by e^(`rate` discount^age), where age is
//! the time since the eviction, and both weights are scaled to sum to 1.
//!
//! Choices where the paper is silent: each history holds M pages and forgets the earliest evicted
//! first. LFU breaks ties by LRU. If both experts agree on a page, neither history remembers it. A
//! page that comes back from a history keeps its count. The paper's constants are rate 0.45 and
//! discount 0.005^(1/M). One number is drawn for each replacement, even when the experts agree, and
//! stays until a page has been evicted.
//!
//! In the authors' code weights stay between 0.01 and 0.99, and each history holds M / 2 pages.
//! With both, hit ratios on three small classic traces (cpp, gli and multi2, 26 cells) are 0.3
//! points lower on average, and 5.7 at most.
//!
//! Cost: hit O(1), fault amortised O(log M). 33 bytes a page seen and 24 a resident page.
//!
//! ```text
//!                      w_LRU +--> LRU's page --> ( H_LRU ) -- fault: w_LFU grows
//!   fault, no frame free --- +
//!                      w_LFU +--> LFU's page --> ( H_LFU ) -- fault: w_LRU grows
//! ```

use crate::arguments::Parameter;
use crate::collections::{Lists, PageMap, RisingKey, RisingQueue};
use crate::interface::ensure;
use crate::math::{exp, pow};
use crate::policies::recency::random::{SEED, generator};
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, SplitMix64, Violation,
};

/// Resident pages, the least recently used in front.
const RESIDENT: usize = 0;
/// Pages evicted as LRU's choice, the earliest in front.
const LRU_HISTORY: usize = 1;
/// Pages evicted as LFU's choice, the earliest in front.
const LFU_HISTORY: usize = 2;
/// Pages of a history that are being loaded.
const RETURNING: usize = 3;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// References counted; 0 for a page that is neither resident nor remembered.
    count: u64,
    /// Time of the last reference; for a page in a history, of its eviction.
    time: u64,
}

impl Entry {
    /// What LFU goes by. It rises with every reference to a page.
    fn key(self) -> RisingKey {
        (self.count, self.time)
    }
}

/// Learning cache replacement.
#[derive(Debug)]
pub struct LeCar {
    frames: usize,
    lists: Lists<4>,
    entries: PageMap<Entry>,
    /// Resident pages by count and last reference.
    by_count: RisingQueue,
    /// w_LRU and w_LFU, which sum to 1 but for rounding. Both are kept: a weight below 1e-16 still
    /// counts.
    weights: [f64; 2],
    /// The learning rate.
    rate: f64,
    /// What a reference's time takes off a regret: a factor.
    discount: f64,
    /// References so far.
    time: u64,
    random: SplitMix64,
    /// The random number of the replacement under way.
    draw: Option<f64>,
    /// The history for the page proposed; none if the experts agree.
    history: Option<usize>,
}

impl Registered for LeCar {
    const INFO: Info = Info {
        name: "lecar",
        summary: "draws between LRU and LFU with odds learnt from ghosts",
        paper: "Vietri et al., Driving cache replacement with ML-based LeCaR, USENIX HotStorage 2018",
        parameters: &[
            Parameter { name: "rate", default: "0.45", meaning: "learning rate" },
            Parameter {
                name: "discount",
                default: "0.005",
                meaning: "what is left of a regret after as many references as there are frames, above 0 to 1",
            },
            SEED,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let discount = arguments.factor("discount")?;
        if !(discount > 0.0 && discount <= 1.0) {
            return Err(arguments.bad("discount", arguments.value("discount"), "a number above 0, up to 1"));
        }
        let rate = arguments.factor("rate")?;
        if rate > 100.0 {
            return Err(arguments.bad("rate", arguments.value("rate"), "a number from 0 to 100"));
        }
        Ok(Self {
            frames,
            lists: Lists::new(),
            entries: PageMap::new(),
            by_count: RisingQueue::new(),
            weights: [0.5; 2],
            rate,
            discount: pow(discount, 1.0 / frames as f64),
            time: 0,
            random: generator(arguments)?,
            draw: None,
            history: None,
        })
    }
}

impl LeCar {
    /// Puts a page into a list, or into none, which forgets it. The only place where pages move
    /// between lists.
    fn move_to(&mut self, list: Option<usize>, page: PageId) {
        if self.lists.remove(page) == Some(RESIDENT) {
            self.by_count.remove(page);
        }
        let Some(list) = list else {
            self.entries[page] = Entry::default();
            return;
        };
        self.lists.push_back(list, page);
        if list != RETURNING {
            self.entries[page].time = self.time;
        }
        if list == RESIDENT {
            self.entries[page].count += 1;
            self.by_count.insert(page, self.entries[page].key());
        }
    }

    /// One expert's mistake: the other gains weight.
    fn learn(&mut self, page: PageId, lru_was_wrong: bool) {
        let age = self.time - self.entries[page].time;
        let gain = exp(self.rate * pow(self.discount, age as f64));
        self.weights[usize::from(lru_was_wrong)] *= gain;
        let sum = self.weights[0] + self.weights[1];
        self.weights = self.weights.map(|weight| weight / sum);
    }
}

impl Policy for LeCar {
    type Model = ExactModel;

    fn fault(&mut self, reference: Reference) {
        self.time += 1;
        if let Some(history @ (LRU_HISTORY | LFU_HISTORY)) = self.lists.list_of(reference.page) {
            self.learn(reference.page, history == LRU_HISTORY);
            self.move_to(Some(RETURNING), reference.page);
        }
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let lru = self.lists.front(RESIDENT)?;
        let lfu = self.by_count.first(|page| self.entries[page].key())?;
        let draw = *self.draw.get_or_insert_with(|| self.random.unit());
        let (history, victim) = if draw < self.weights[0] { (LRU_HISTORY, lru) } else { (LFU_HISTORY, lfu) };
        self.history = (lru != lfu).then_some(history);
        Some(victim)
    }

    fn evict(&mut self, page: PageId) {
        self.draw = None;
        let history = self.history.take();
        self.move_to(history, page);
        if let Some(history) = history
            && self.lists.len(history) > self.frames
            && let Some(earliest) = self.lists.front(history)
        {
            self.move_to(None, earliest);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.entries.cover(reference.page);
        self.move_to(Some(RESIDENT), reference.page);
        false
    }

    fn hit(&mut self, reference: Reference) {
        self.time += 1;
        self.lists.move_to_back(RESIDENT, reference.page);
        let entry = &mut self.entries[reference.page];
        *entry = Entry { count: entry.count + 1, time: self.time };
    }

    fn remove(&mut self, page: PageId) {
        if self.lists.list_of(page).is_some() {
            self.move_to(None, page);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let [resident, h_lru, h_lfu] = [RESIDENT, LRU_HISTORY, LFU_HISTORY].map(|list| self.lists.len(list));
        ensure!(resident <= self.frames, "{resident} pages resident");
        ensure!(h_lru.max(h_lfu) <= self.frames, "histories of {h_lru} and {h_lfu} pages");
        let [lru, lfu] = self.weights;
        let is_one = (lru + lfu - 1.0).abs() < 1e-9;
        ensure!(lru >= 0.0 && lfu >= 0.0 && is_one, "w_LRU = {lru}, w_LFU = {lfu}");
        ensure!(self.by_count.len() == resident, "{} of {resident} pages filed", self.by_count.len());
        self.by_count.check(|page| self.entries[page].key())?;
        for page in self.lists.iter(RESIDENT) {
            ensure!(self.by_count.contains(page), "page {page} is not filed");
        }
        for (page, entry) in self.entries.iter() {
            ensure!((entry.count > 0) == self.lists.list_of(page).is_some(), "page {page}: {entry:?}");
        }
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// Resident pages by recency with their counts, the histories, and w_LRU.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<LeCar>::new("lecar:discount=1,rate=1", 2);
        let states = machine.trace(&[1, 2, 1, 2, 2, 3, 1, 3], |machine| {
            let lecar = machine.policy();
            let show = |page: PageId| format!("{page}:{}", lecar.entries[page].count);
            let list = |list| lecar.lists.iter(list).map(show).collect::<Vec<_>>().join(" ");
            let lists = [RESIDENT, LRU_HISTORY, LFU_HISTORY].map(list).join(" | ");
            format!("{lists}, {:.3}", lecar.weights[0])
        });
        assert_eq!(
            states,
            [
                "1:1 |  | , 0.500",
                "1:1 2:1 |  | , 0.500",
                "2:1 1:2 |  | , 0.500",
                "1:2 2:2 |  | , 0.500",
                "1:2 2:3 |  | , 0.500",
                "2:3 3:1 |  | , 0.500",    // both would evict 1
                "2:3 1:1 |  | 3:1, 0.500", // LFU is drawn
                // LFU was wrong: e / (e + 1). 3 keeps its count. LFU again.
                "2:3 3:2 |  | 1:1, 0.731",
            ]
        );
    }
}
