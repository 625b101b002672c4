//! CACHEUS: chooses at random between a scan-resistant LRU and an LFU that gives up its latest
//! pages first, with odds that follow which of the two makes fewer mistakes.
//!
//! Paper: L. V. Rodriguez, F. Yusuf, S. Lyons, E. Paz, R. Rangaswami, J. Liu, M. Zhao, G.
//! Narasimhan, "Learning cache replacement with CACHEUS", USENIX FAST 2021.
//!
//! Both experts look at the same pages. SR-LRU divides them into S, the pages used again, and Q,
//! the new and the *demoted* ones, and gives up the page at the front of Q. CR-LFU gives up the
//! page with the fewest references, and of several such the one used last. The weights decide
//! which expert is drawn. Its choice is evicted and remembered in that expert's history. A fault on
//! a page in a history is that expert's mistake, and divides its weight by e^rate.
//!
//! S grows when a demoted page is hit in Q, by max(1, new pages in H_LRU / demoted pages). Q grows
//! when a page in H_LRU that was new in Q comes back, by the inverse ratio.
//!
//! The learning rate changes once every M references. It goes on in the direction in which it went
//! if the hit ratio went the same way, and else turns back, by its own last change. If it has not
//! changed, a falling hit ratio moves it up or down at random, and after ten periods without
//! success it starts anew.
//!
//! This follows the authors' code (github.com/sylab/cacheus), as far as it is clear there: a
//! page that comes back from a history keeps its count; each history holds half as many pages as
//! there are frames; weights stay within 0.01 and 0.99; hit ratios and rates are compared rounded
//! to three decimals; the ratios of counts are rounded to the nearest number; after a fault S keeps
//! one frame below its limit. Choices: one number is
//! drawn for each replacement, even when the experts agree, and stays until a page has been
//! evicted. If memory has frames to spare and Q is empty, SR-LRU gives up the front of S. With one
//! frame there is no S.
//!
//! Cost: hit O(1), fault amortised O(log M). 41 bytes a page seen and 24 a resident page.
//!
//! ```text
//!                  hit                        front, S too long: demoted
//!   Q <-- new      Q -----> S (by last use)   S ----------------------> Q (by arrival)
//!
//!                      w_LRU +--> front of Q ------> ( H_LRU ) -- fault: w_LFU grows --> S
//!   fault, no frame free --- +
//!                      w_LFU +--> fewest uses, last -> ( H_LFU ) -- fault: w_LRU grows --> S
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

/// Resident pages used again, the least recently used in front.
const S: usize = 0;
/// The other resident pages, the first to arrive in front.
const Q: usize = 1;
/// Pages evicted as SR-LRU's choice, the earliest in front.
const LRU_HISTORY: usize = 2;
/// Pages evicted as CR-LFU's choice, the earliest in front.
const LFU_HISTORY: usize = 3;
/// Pages of a history that are being loaded.
const RETURNING: usize = 4;

/// The bounds of the learning rate.
const LEAST_RATE: f64 = 0.001;
const MOST_RATE: f64 = 1.0;
/// Periods without success after which the learning rate starts anew.
const PATIENCE: u32 = 10;
/// A weight never exceeds this.
const MOST_WEIGHT: f64 = 0.99;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// References counted; 0 for a page that is neither resident nor remembered.
    count: u64,
    /// Time of the last reference.
    time: u64,
    /// Came to Q when memory was full, and was not in a history then.
    new: bool,
    /// In Q because S was too long.
    demoted: bool,
}

impl Entry {
    /// What CR-LFU goes by. It rises with every reference to a page.
    fn key(self) -> RisingKey {
        (self.count, u64::MAX - self.time)
    }
}

/// The learning rate, and what it goes by.
#[derive(Clone, Debug)]
struct LearningRate {
    rate: f64,
    /// Where it starts anew.
    start: f64,
    /// The rate of the period before.
    previous: f64,
    /// Hits in this period.
    hits: u64,
    /// The hit ratio of the period before.
    previous_hit_ratio: f64,
    /// Periods without a hit, or with fewer hits than before, since the last success.
    periods_without_hits: u32,
    /// Periods with fewer hits than before, since the last success.
    periods_of_loss: u32,
}

/// A number rounded to three decimals.
fn rounded(x: f64) -> f64 {
    let thousandths = if x < 0.0 { (x * 1000.0 - 0.5) as i64 } else { (x * 1000.0 + 0.5) as i64 };
    thousandths as f64 / 1000.0
}

fn magnitude(x: f64) -> f64 {
    if x < 0.0 { -x } else { x }
}

impl LearningRate {
    fn new(frames: usize) -> Self {
        let rate = pow(2.0 * core::f64::consts::LN_2 / frames as f64, 0.5);
        Self {
            rate,
            start: rate.clamp(LEAST_RATE, MOST_RATE),
            previous: 0.0,
            hits: 0,
            previous_hit_ratio: 0.0,
            periods_without_hits: 0,
            periods_of_loss: 0,
        }
    }

    /// A period of `frames` references is over.
    fn end_period(&mut self, frames: usize, random: &mut SplitMix64) {
        let rate = self.rate;
        let hit_ratio = rounded(self.hits as f64 / frames as f64);
        let gain = rounded(hit_ratio - self.previous_hit_ratio);
        let change = rounded(rate) - rounded(self.previous);
        if change * gain != 0.0 {
            let step = magnitude(rate * change);
            let moved = if change * gain > 0.0 { rate + step } else { rate - step };
            self.rate = if change * gain > 0.0 { moved.min(MOST_RATE) } else { moved.max(LEAST_RATE) };
            (self.periods_without_hits, self.periods_of_loss) = (0, 0);
        } else if gain <= 0.0 {
            let lost = gain < 0.0;
            self.periods_of_loss += u32::from(lost);
            self.periods_without_hits += u32::from(lost || hit_ratio <= 0.0);
            if self.periods_without_hits >= PATIENCE {
                self.rate = self.start;
                self.periods_without_hits = 0;
            } else if lost && self.periods_of_loss >= PATIENCE {
                self.rate = self.start;
                self.periods_of_loss = 0;
            } else if lost {
                self.wander(random);
            }
        }
        self.previous = rate;
        self.previous_hit_ratio = hit_ratio;
        self.hits = 0;
    }

    /// Up or down at random, or away from a bound.
    fn wander(&mut self, random: &mut SplitMix64) {
        self.rate = if self.rate >= MOST_RATE {
            0.9
        } else if self.rate <= LEAST_RATE {
            0.005
        } else if random.below(2) == 0 {
            (self.rate * 1.25).min(MOST_RATE)
        } else {
            (self.rate * 0.75).max(LEAST_RATE)
        };
    }
}

/// Adaptive, with a scan-resistant LRU and a churn-resistant LFU.
#[derive(Debug)]
pub struct Cacheus {
    frames: usize,
    lists: Lists<5>,
    entries: PageMap<Entry>,
    /// Resident pages by count, those with equal counts the last used first.
    by_count: RisingQueue,
    /// The frames meant for S.
    most_in_s: usize,
    /// Pages in Q that are demoted.
    demoted: usize,
    /// Pages in H_LRU that are new.
    new: usize,
    /// w_LRU and w_LFU, which sum to 1 but for rounding.
    weights: [f64; 2],
    learning: LearningRate,
    /// References so far.
    time: u64,
    random: SplitMix64,
    /// The random number of the replacement under way.
    draw: Option<f64>,
    /// The history for the page proposed; none if the experts agree.
    history: Option<usize>,
    /// Whether a frame was free at the latest fault.
    filling: bool,
}

impl Registered for Cacheus {
    const INFO: Info = Info {
        name: "cacheus",
        summary: "draws between a scan-resistant LRU and an LFU with odds learnt from ghosts",
        paper: "Rodriguez et al., Learning cache replacement with CACHEUS, USENIX FAST 2021",
        parameters: &[
            Parameter {
                name: "new",
                default: "1%",
                meaning: "frames meant for new pages at the start, at least 1",
            },
            SEED,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let for_new = arguments.pages("new", frames, crate::arguments::Rounding::Nearest)?.max(1);
        Ok(Self {
            frames,
            lists: Lists::new(),
            entries: PageMap::new(),
            by_count: RisingQueue::new(),
            most_in_s: frames.saturating_sub(for_new).max(1).min(frames - 1),
            demoted: 0,
            new: 0,
            weights: [0.5; 2],
            learning: LearningRate::new(frames),
            time: 0,
            random: generator(arguments)?,
            draw: None,
            history: None,
            filling: true,
        })
    }
}

/// What a list gains when a page says that it was too short: the ratio of two counts, rounded to
/// the nearest whole number, but at least 1.
fn gain(dividend: usize, divisor: usize) -> usize {
    let divisor = divisor.max(1);
    ((2 * dividend + divisor) / (2 * divisor)).max(1)
}

impl Cacheus {
    fn resident(&self) -> usize {
        self.lists.len(S) + self.lists.len(Q)
    }

    /// Puts a page at the back of a list, or in none, which forgets it. The only place where pages
    /// move between lists, and where those that are new or demoted are counted.
    fn move_to(&mut self, list: Option<usize>, page: PageId) {
        let before = self.lists.remove(page);
        match before {
            Some(S | Q) => {
                self.demoted -= usize::from(self.entries[page].demoted);
                self.entries[page].demoted = false;
            }
            Some(LRU_HISTORY) => self.new -= usize::from(self.entries[page].new),
            _ => {}
        }
        match (matches!(before, Some(S | Q)), matches!(list, Some(S | Q))) {
            (true, false) => self.by_count.remove(page),
            (false, true) => self.by_count.insert(page, self.entries[page].key()),
            _ => {}
        }
        let Some(list) = list else {
            self.entries[page] = Entry::default();
            return;
        };
        self.lists.push_back(list, page);
        if list == LRU_HISTORY {
            self.new += usize::from(self.entries[page].new);
        }
    }

    /// The front of S moves to Q.
    fn demote(&mut self) {
        if let Some(page) = self.lists.front(S) {
            self.move_to(Some(Q), page);
            self.entries[page].demoted = true;
            self.demoted += 1;
        }
    }

    /// S is left with less than it may have.
    fn shorten_s(&mut self) {
        while self.lists.len(S) > 0 && self.lists.len(S) >= self.most_in_s {
            self.demote();
        }
    }

    /// A reference: what time it is, and the learning rate.
    fn tick(&mut self) {
        self.time += 1;
        if self.time.is_multiple_of(self.frames as u64) {
            self.learning.end_period(self.frames, &mut self.random);
        }
    }

    /// One expert's mistake: it loses weight.
    fn learn(&mut self, lru_was_wrong: bool) {
        self.weights[usize::from(!lru_was_wrong)] *= exp(-self.learning.rate);
        let sum = self.weights[0] + self.weights[1];
        self.weights = self.weights.map(|weight| weight / sum);
        if self.weights[0] >= MOST_WEIGHT {
            self.weights = [MOST_WEIGHT, 1.0 - MOST_WEIGHT];
        } else if self.weights[1] >= MOST_WEIGHT {
            self.weights = [1.0 - MOST_WEIGHT, MOST_WEIGHT];
        }
    }
}

impl Policy for Cacheus {
    type Model = ExactModel;

    fn fault(&mut self, reference: Reference) {
        self.tick();
        self.filling = self.resident() < self.frames;
        let page = reference.page;
        let Some(history @ (LRU_HISTORY | LFU_HISTORY)) = self.lists.list_of(page) else { return };
        self.move_to(Some(RETURNING), page);
        if history == LRU_HISTORY && self.entries[page].new {
            // Q was too short.
            let q = self.frames - self.most_in_s + gain(self.demoted, self.new);
            self.most_in_s = self.frames - q.min(self.frames - 1);
        }
        self.entries[page].new = false;
        self.learn(history == LRU_HISTORY);
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let lru = self.lists.front(Q).or_else(|| self.lists.front(S))?;
        let lfu = self.by_count.first(|page| self.entries[page].key())?;
        let draw = *self.draw.get_or_insert_with(|| self.random.unit());
        let (history, victim) = if draw < self.weights[0] { (LRU_HISTORY, lru) } else { (LFU_HISTORY, lfu) };
        self.history = (lru != lfu).then_some(history);
        Some(victim)
    }

    fn evict(&mut self, page: PageId) {
        self.draw = None;
        let history = self.history.take();
        if let Some(history) = history
            && self.lists.len(history) >= self.frames / 2
            && let Some(earliest) = self.lists.front(history)
        {
            self.move_to(None, earliest);
        }
        self.move_to(history.filter(|_| self.frames >= 2), page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        self.entries.cover(page);
        self.entries[page].time = self.time;
        if self.lists.list_of(page) == Some(RETURNING) {
            self.move_to(Some(if self.most_in_s > 0 { S } else { Q }), page);
            self.shorten_s();
            return false;
        }
        self.entries[page].count = 1;
        let (in_s, in_q) = (self.lists.len(S), self.lists.len(Q));
        if in_s < self.most_in_s && in_q == 0 {
            self.move_to(Some(S), page);
        } else if self.filling && in_q < self.frames - self.most_in_s {
            self.move_to(Some(Q), page);
        } else {
            self.entries[page].new = true;
            self.move_to(Some(Q), page);
            self.shorten_s();
        }
        false
    }

    fn hit(&mut self, reference: Reference) {
        self.tick();
        self.learning.hits += 1;
        let page = reference.page;
        let (in_q, demoted) = (self.lists.list_of(page) == Some(Q), self.entries[page].demoted);
        if demoted {
            // S was too short.
            let s = self.most_in_s + gain(self.new, self.demoted);
            self.most_in_s = s.min(self.frames - 1);
        }
        self.entries[page].count += 1;
        self.entries[page].time = self.time;
        if in_q && self.lists.len(S) >= self.most_in_s {
            self.demote();
        }
        self.move_to(Some(if self.most_in_s > 0 { S } else { Q }), page);
    }

    fn remove(&mut self, page: PageId) {
        if self.lists.list_of(page).is_some() {
            self.move_to(None, page);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let [in_s, in_q, h_lru, h_lfu] = [S, Q, LRU_HISTORY, LFU_HISTORY].map(|list| self.lists.len(list));
        ensure!(in_s + in_q <= self.frames, "{in_s} + {in_q} pages resident");
        // S is shortened when the page that has changed its limit is loaded.
        let settled = self.lists.is_empty(RETURNING);
        ensure!(!settled || in_s <= self.most_in_s, "{in_s} pages in S, at most {}", self.most_in_s);
        ensure!(self.most_in_s < self.frames, "{} frames for S", self.most_in_s);
        ensure!(h_lru.max(h_lfu) <= self.frames / 2, "histories of {h_lru} and {h_lfu} pages");
        let [lru, lfu] = self.weights;
        let is_one = (lru + lfu - 1.0).abs() < 1e-9;
        ensure!(lru.min(lfu) > 0.009 && is_one, "w_LRU = {lru}, w_LFU = {lfu}");
        let rate = self.learning.rate;
        ensure!(rate > 0.0 && rate < 1.2, "the learning rate is {rate}");
        ensure!(self.by_count.len() == in_s + in_q, "{} pages filed", self.by_count.len());
        self.by_count.check(|page| self.entries[page].key())?;
        for page in self.lists.iter(S).chain(self.lists.iter(Q)) {
            ensure!(self.by_count.contains(page), "page {page} is not filed");
        }
        let demoted = self.entries.iter().filter(|(_, entry)| entry.demoted).count();
        let in_q = self.lists.iter(Q).filter(|&page| self.entries[page].demoted).count();
        ensure!(demoted == self.demoted && in_q == demoted, "{} demoted, {in_q} in Q", self.demoted);
        let new = self.lists.iter(LRU_HISTORY).filter(|&page| self.entries[page].new).count();
        ensure!(new == self.new, "{new} new pages in H_LRU, counted {}", self.new);
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

    /// S and Q with counts, `*` for a demoted page, then the histories, `+` for a new page, and the
    /// frames meant for S.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Cacheus>::new("cacheus", 4);
        let states = machine.trace(&[1, 2, 3, 4, 2, 5, 3, 6, 7, 5, 1], |machine| {
            let cacheus = machine.policy();
            let show = |page: PageId| {
                let Entry { count, demoted, new, .. } = cacheus.entries[page];
                let list = cacheus.lists.list_of(page);
                let mark = if demoted {
                    "*"
                } else if new && list == Some(LRU_HISTORY) {
                    "+"
                } else {
                    ""
                };
                format!("{page}:{count}{mark}")
            };
            let list = |list| cacheus.lists.iter(list).map(show).collect::<Vec<_>>().join(" ");
            let lists = [S, Q, LRU_HISTORY, LFU_HISTORY].map(list).join(" | ");
            format!("{lists}, {}", cacheus.most_in_s)
        });
        assert_eq!(
            states,
            [
                "1:1 |  |  | , 3",
                "1:1 2:1 |  |  | , 3",
                "1:1 2:1 3:1 |  |  | , 3",
                "1:1 2:1 3:1 | 4:1 |  | , 3",
                "1:1 3:1 2:2 | 4:1 |  | , 3",
                "3:1 2:2 | 5:1 1:1* |  | , 3", // both would evict 4; then S is too long
                "2:2 3:2 | 5:1 1:1* |  | , 3",
                "2:2 3:2 | 1:1* 6:1 |  | , 3",
                "2:2 3:2 | 1:1* 7:1 |  | 6:1, 3", // LFU is drawn: 6 was used after 1
                "2:2 3:2 | 7:1 5:1 | 1:1 | 6:1, 3", // LRU is drawn
                "3:2 1:1 | 7:1 2:2* |  | 6:1 5:1, 3", // LRU was wrong; LFU is drawn
            ]
        );
    }

    /// A page that was new and comes back from H_LRU says that Q is too short; a hit on a demoted
    /// page says that S is.
    #[test]
    fn the_limit_of_s_moves_both_ways() {
        let mut machine = Machine::<Cacheus>::new("cacheus:new=4", 8);
        let mut random = SplitMix64::new(1);
        let string: Vec<u32> = (0..400).map(|_| random.below(20) as u32).collect();
        let limits = machine.trace(&string, |machine| machine.policy().most_in_s.to_string());
        let limits: Vec<usize> = limits.iter().map(|limit| limit.parse().expect("a number")).collect();
        assert!(limits.windows(2).any(|pair| pair[0] < pair[1]));
        assert!(limits.windows(2).any(|pair| pair[0] > pair[1]));
    }
}
