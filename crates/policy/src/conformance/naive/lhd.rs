//! LHD: hit densities from counts of hits and evictions by age and class.
//!
//! Decisions: a page that leaves is replaced, in the row that is drawn from, by the last page of
//! it, and the new page goes to the end. Numbers are drawn for the victim first, then one for the
//! page referenced. Sums run from the largest age down, so that they round alike.

use std::collections::BTreeMap;

use super::{Given, Step};
use crate::SplitMix64;

/// The constants of LHD.
#[derive(Clone, Copy, Debug)]
pub struct LhdOptions {
    /// Pages drawn for an eviction.
    pub sample: u64,
    /// References between computations.
    pub interval: u64,
    /// Ages told apart.
    pub ages: u64,
    /// The references that are told apart, as a multiple of memory.
    pub span: f64,
    /// Of the random numbers.
    pub seed: u64,
}

/// Hits and evictions by class and age.
type Counts = BTreeMap<(usize, u64), (f64, f64)>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    time: u64,
    ages: [u64; 2], // at the last hit and the one before
    explorer: bool,
}

#[derive(Debug)]
struct Model {
    options: LhdOptions,
    references_an_age: u64,
    counts: Counts,
    /// The counts at the last computation.
    computed: Option<Counts>,
    time: u64,
}

impl Model {
    fn age(&self, entry: &Entry) -> u64 {
        ((self.time - entry.time) / self.references_an_age).min(self.options.ages - 1)
    }

    fn class(&self, entry: &Entry) -> usize {
        let sum = entry.ages[0] + entry.ages[1];
        (0..15).find(|&class| sum << class >= self.options.ages).unwrap_or(15)
    }

    /// `None` for a page older than ages are told apart.
    fn density(&self, entry: &Entry) -> Option<f64> {
        let (class, age) = (self.class(entry), self.age(entry));
        if age == self.options.ages - 1 {
            return None;
        }
        let density = match &self.computed {
            None => (class + 1) as f64 / (age + 1) as f64,
            Some(counts) => {
                let top = counts.keys().filter(|key| key.0 == class).map(|key| key.1).max().unwrap_or(0);
                let (mut hits, mut events, mut lifetime) = (0.0, 0.0, 0.0);
                for age in (age..=top).rev() {
                    let (h, e) = counts.get(&(class, age)).copied().unwrap_or_default();
                    hits += h;
                    events += h + e;
                    lifetime += events;
                }
                if events > 1e-5 { hits / lifetime } else { 0.0 }
            }
        };
        Some(density + if entry.explorer { 1.0 } else { 0.0 })
    }
}

/// LHD with `frames` frames.
pub fn lhd(references: &[u32], frames: usize, options: &LhdOptions) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut references_an_age = 2;
    while (references_an_age as f64) < options.span * frames as f64 / options.ages as f64 {
        references_an_age *= 2;
    }
    let mut random = SplitMix64::new(options.seed);
    let mut model =
        Model { options: *options, references_an_age, counts: Counts::new(), computed: None, time: 0 };
    let mut row: Vec<Entry> = Vec::new();
    let mut admitted: [Option<u32>; 8] = [None; 8];
    let mut admissions = 0;
    let mut victim_density = 0.0;
    let mut computations = 0;
    let mut steps = Vec::new();
    for &page in references {
        let at = row.iter().position(|entry| entry.page == page);
        let fault = at.is_none();
        let mut victim = None;
        if let Some(at) = at {
            let (class, age) = (model.class(&row[at]), model.age(&row[at]));
            model.counts.entry((class, age)).or_default().0 += 1.0;
            row[at].ages = [age, row[at].ages[0]];
            row[at].explorer = false;
        } else if row.len() == frames {
            let drawn: Vec<usize> =
                (0..options.sample).map(|_| random.below(frames as u64) as usize).collect();
            let find = |page: &u32| row.iter().position(|entry| entry.page == *page);
            let mut lowest = drawn[0];
            for other in drawn.into_iter().chain(admitted.iter().flatten().filter_map(find)) {
                if model.density(&row[other]) < model.density(&row[lowest]) {
                    lowest = other;
                }
            }
            victim_density = 0.9 * victim_density + (1.0 - 0.9) * model.density(&row[lowest]).unwrap_or(0.0);
            let key = (model.class(&row[lowest]), model.age(&row[lowest]));
            model.counts.entry(key).or_default().1 += 1.0;
            victim = Some(row.swap_remove(lowest).page);
        }
        let at = at.unwrap_or_else(|| {
            row.push(Entry { page, time: 0, ages: [0, options.ages], explorer: false });
            row.len() - 1
        });
        row[at].time = model.time;
        let explorers = row.iter().filter(|entry| entry.explorer).count();
        let explore = random.below(32) == 0;
        row[at].explorer = explore && explorers < (frames as f64 * 0.01) as usize && computations < 50;
        if fault && !explore && model.density(&row[at]).unwrap_or(0.0) < victim_density {
            // A ring of eight: the ninth takes the place of the first.
            admitted[admissions % 8] = Some(page);
            admissions += 1;
        }
        model.time += 1;
        if model.time.is_multiple_of(options.interval) {
            for (hits, evictions) in model.counts.values_mut() {
                *hits *= 0.9;
                *evictions *= 0.9;
            }
            model.computed = Some(model.counts.clone());
            computations += 1;
        }
        steps.push(if fault { Step::fault(victim) } else { Step::hit() });
    }
    steps
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let options = LhdOptions {
        sample: given.whole("sample"),
        interval: given.whole("interval"),
        ages: given.whole("ages"),
        span: given.factor("span"),
        seed: given.whole("seed"),
    };
    lhd(references, given.frames, &options)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{LhdOptions, lhd};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let options = LhdOptions { sample: 32, interval: 1 << 20, ages: 20_000, span: 100.0, seed: 1 };
        let row = outcomes_on_examples(|refs, frames| lhd(refs, frames, &options));
        assert_eq!(row, "9:243534 | 15:12345123451 | 10:345678");
    }
}
