//! CACHEUS: SR-LRU and CR-LFU, drawn by weights that ghosts teach.
//!
//! Decisions: one draw for every replacement, also when the experts agree; a page found in a
//! history leaves it before the replacement. The learning rate changes before the reference is
//! looked at.

use super::{Given, Step};
use crate::SplitMix64;
use crate::arguments::Rounding;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    count: u64,
    time: u64,
    new: bool,
    demoted: bool,
}

fn three_decimals(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

fn ratio(dividend: usize, divisor: usize) -> usize {
    ((dividend as f64 / divisor.max(1) as f64).round() as usize).max(1)
}

fn take(list: &mut Vec<Entry>, page: u32) -> Option<Entry> {
    let at = list.iter().position(|entry| entry.page == page)?;
    Some(list.remove(at))
}

fn count(list: &[Entry], what: impl Fn(&Entry) -> bool) -> usize {
    list.iter().filter(|entry| what(entry)).count()
}

/// CACHEUS with `frames` frames, `for_new` of them for new pages at the start.
pub fn cacheus(references: &[u32], frames: usize, for_new: usize, seed: u64) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut model = Model {
        frames,
        s: Vec::new(),
        q: Vec::new(),
        s_limit: if frames == 1 { 0 } else { frames.saturating_sub(for_new.max(1)).max(1) },
        histories: [Vec::new(), Vec::new()],
        weights: [0.5, 0.5],
        learning: LearningRate::new(frames),
        random: SplitMix64::new(seed),
    };
    (1_u64..).zip(references).map(|(time, &page)| model.step(time, page)).collect()
}

/// The state between two references.
struct Model {
    frames: usize,
    /// Resident pages that were used again, the least recently used first.
    s: Vec<Entry>,
    /// The other resident pages, new or demoted, the first to arrive first.
    q: Vec<Entry>,
    /// Frames that S may have.
    s_limit: usize,
    /// Of LRU and LFU, earliest first.
    histories: [Vec<Entry>; 2],
    /// Of LRU and LFU.
    weights: [f64; 2],
    learning: LearningRate,
    random: SplitMix64,
}

impl Model {
    fn step(&mut self, time: u64, page: u32) -> Step {
        if time.is_multiple_of(self.frames as u64) {
            self.learning.adapt(self.frames, &mut self.random);
        }
        if self.hit(time, page) {
            self.learning.hits += 1;
            return Step::hit();
        }
        let known_count = self.learn(page);
        let full = self.s.len() + self.q.len() == self.frames;
        let victim = if full { Some(self.evict()) } else { None };
        self.insert(time, page, known_count, full);
        Step::fault(victim)
    }

    /// Moves a resident page to the end of S. One that was demoted makes room for S.
    fn hit(&mut self, time: u64, page: u32) -> bool {
        if let Some(entry) = take(&mut self.s, page) {
            self.s.push(Entry { count: entry.count + 1, time, ..entry });
            return true;
        }
        let Some(entry) = self.q.iter().copied().find(|entry| entry.page == page) else { return false };
        if entry.demoted {
            let demoted = count(&self.q, |entry| entry.demoted);
            let new = count(&self.histories[0], |entry| entry.new);
            self.s_limit = (self.s_limit + ratio(new, demoted)).min(self.frames - 1);
        }
        take(&mut self.q, page);
        let entry = Entry { count: entry.count + 1, time, demoted: false, ..entry };
        if self.frames == 1 {
            self.q.push(entry);
        } else {
            if self.s.len() >= self.s_limit {
                self.demote();
            }
            self.s.push(entry);
        }
        true
    }

    /// Moves the least recently used page of S to the end of Q.
    fn demote(&mut self) {
        let front = self.s.remove(0);
        self.q.push(Entry { demoted: true, ..front });
    }

    /// If a page is in a history, the expert that evicted it loses weight. A new page that LRU
    /// evicted makes room for Q. Returns how often the page had been used.
    fn learn(&mut self, page: u32) -> Option<u64> {
        let mut known_count = None;
        for expert in [0, 1] {
            let Some(ghost) = take(&mut self.histories[expert], page) else { continue };
            if expert == 0 && ghost.new {
                let demoted = count(&self.q, |entry| entry.demoted);
                let new = count(&self.histories[0], |entry| entry.new);
                let q_limit = self.frames - self.s_limit + ratio(demoted, new);
                self.s_limit = self.frames - q_limit.min(self.frames - 1);
            }
            self.weights[expert] *= crate::math::exp(-self.learning.rate);
            let sum = self.weights[0] + self.weights[1];
            self.weights = self.weights.map(|weight| weight / sum);
            for expert in [0, 1] {
                if self.weights[expert] >= 0.99 {
                    self.weights[expert] = 0.99;
                    self.weights[1 - expert] = 1.0 - 0.99;
                }
            }
            known_count = Some(ghost.count);
        }
        known_count
    }

    /// Evicts the page that one of the experts names, drawn by weight. If they differ, the history
    /// of that expert remembers it.
    fn evict(&mut self) -> u32 {
        let expert = usize::from(self.random.unit() >= self.weights[0]);
        let by_count = |entry: &&Entry| (entry.count, u64::MAX - entry.time);
        let lfu = self.s.iter().chain(&self.q).min_by_key(by_count).expect("memory is full").page;
        let lru = self.q[0].page;
        let chosen = [lru, lfu][expert];
        let leaving =
            take(&mut self.q, chosen).or_else(|| take(&mut self.s, chosen)).expect("it is resident");
        if lru != lfu {
            let history = &mut self.histories[expert];
            if history.len() == self.frames / 2 {
                history.remove(0);
            }
            history.push(Entry { demoted: false, ..leaving });
        }
        chosen
    }

    /// Takes in a page that faulted. `full`: whether another was evicted for it.
    fn insert(&mut self, time: u64, page: u32, known_count: Option<u64>, full: bool) {
        let entry = Entry { page, count: known_count.unwrap_or(1), time, new: false, demoted: false };
        if known_count.is_some() {
            self.s.push(entry);
            while self.s.len() >= self.s_limit {
                self.demote();
            }
        } else if !full && self.s.len() < self.s_limit && self.q.is_empty() {
            self.s.push(entry);
        } else if !full && self.q.len() < self.frames - self.s_limit {
            self.q.push(entry);
        } else {
            self.q.push(Entry { new: true, ..entry });
            while !self.s.is_empty() && self.s.len() >= self.s_limit {
                self.demote();
            }
        }
    }
}

/// How much a ghost teaches. It changes after every `frames` references, by what the last change
/// did to the hit ratio.
struct LearningRate {
    rate: f64,
    /// Where it starts, and starts again.
    start: f64,
    previous_rate: f64,
    previous_ratio: f64,
    /// Since the last change.
    hits: u32,
    /// Periods without success since the rate last changed or started again.
    without: u32,
    /// Periods in which the hit ratio fell, since then.
    losses: u32,
}

impl LearningRate {
    fn new(frames: usize) -> Self {
        let rate = crate::math::pow(2.0 * core::f64::consts::LN_2 / frames as f64, 0.5);
        let start = rate.clamp(0.001, 1.0);
        Self { rate, start, previous_rate: 0.0, previous_ratio: 0.0, hits: 0, without: 0, losses: 0 }
    }

    fn adapt(&mut self, frames: usize, random: &mut SplitMix64) {
        let hit_ratio = three_decimals(f64::from(self.hits) / frames as f64);
        let gain = three_decimals(hit_ratio - self.previous_ratio);
        let change = three_decimals(self.rate) - three_decimals(self.previous_rate);
        self.previous_rate = self.rate;
        if change * gain > 0.0 {
            self.rate = (self.rate + (self.rate * change).abs()).min(1.0);
            (self.without, self.losses) = (0, 0);
        } else if change * gain < 0.0 {
            self.rate = (self.rate - (self.rate * change).abs()).max(0.001);
            (self.without, self.losses) = (0, 0);
        } else if gain < 0.0 || gain == 0.0 && hit_ratio == 0.0 {
            self.without += 1;
            self.losses += u32::from(gain < 0.0);
            if self.without >= 10 {
                self.rate = self.start;
                self.without = 0;
            } else if gain < 0.0 && self.losses >= 10 {
                self.rate = self.start;
                self.losses = 0;
            } else if gain < 0.0 {
                self.rate = match self.rate {
                    1.0.. => 0.9,
                    ..=0.001 => 0.005,
                    _ if random.below(2) == 0 => (self.rate * 1.25).min(1.0),
                    _ => (self.rate * 0.75).max(0.001),
                };
            }
        }
        self.previous_ratio = hit_ratio;
        self.hits = 0;
    }
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    cacheus(references, given.frames, given.pages("new", Rounding::Nearest), given.whole("seed"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::cacheus;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| cacheus(refs, frames, 1, 1));
        assert_eq!(row, "8:34534 | 9:45454 | 10:456383");
    }
}
