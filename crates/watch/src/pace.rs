//! How often to look, and at how many pages, so that the cost stays below a part of the time.
//!
//! A look costs something for each page in memory, whose bits are read, and more for each page of
//! the sample that was used. If a look costs more than the budget, the sample becomes thinner. If
//! the thinnest one that still says something costs too much, looks are further apart.

use crate::look::{Price, Sample};
use std::time::Duration;

/// Fewer pages in a sample say too little.
const LEAST_SAMPLED_PAGES: u64 = 4096;
/// A new sample should cost this part of the budget, because costs vary.
const PART: f64 = 0.75;

/// The time between looks, and the sample.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    every: Duration,
    /// The part of a processor's time that may be spent.
    overhead: f64,
    price: Price,
    cost: Duration,
    sample: Sample,
}

impl Pace {
    /// Looks once a period, as far as the budget allows. The process has `resident_pages` pages in
    /// memory, and may use all of them in each epoch.
    pub fn new(every: Duration, overhead: f64, price: Price, resident_pages: u64) -> Self {
        let most = price.most(resident_pages);
        let mut pace = Self { every, overhead, price, cost: most, sample: Sample::ALL };
        if most > pace.budget() {
            pace.set_sample(resident_pages, price.most_ns_in_blocks() * resident_pages as f64);
        }
        pace
    }

    /// What a look may cost.
    fn budget(&self) -> Duration {
        self.every.mul_f64(self.overhead)
    }

    /// Chooses the sample that fits the budget, if a look at all pages costs `all_ns` besides the
    /// reading of their bits.
    fn set_sample(&mut self, resident_pages: u64, all_ns: f64) {
        let reading = self.price.reading(resident_pages);
        let left = self.budget().mul_f64(PART).saturating_sub(reading);
        let least = LEAST_SAMPLED_PAGES as f64 / resident_pages.max(1) as f64;
        let part = (left.as_nanos() as f64 / all_ns.max(1.0)).min(1.0);
        self.sample = Sample::at_most(part).or_at_least(least);
        self.cost = reading + Duration::from_nanos((all_ns / self.sample.one_page_in() as f64) as u64);
    }

    /// Takes what a look has cost. The next look should cost the same, or less if the sample
    /// becomes thinner.
    pub fn has_cost(&mut self, cost: Duration, resident_pages: u64) {
        self.cost = cost;
        if cost > self.budget() {
            let before = self.sample;
            self.set_sample(resident_pages, self.all_ns(cost, resident_pages));
            // What leaves does not come back: nothing would be known of it.
            if self.sample <= before {
                (self.sample, self.cost) = (before, cost);
            }
        }
    }

    /// What a look has cost in a first epoch. From then on, the sample may be thicker.
    pub fn first_has_cost(&mut self, cost: Duration, resident_pages: u64) {
        self.set_sample(resident_pages, self.all_ns(cost, resident_pages));
    }

    /// What a look at all pages would have cost, besides the reading of their bits.
    fn all_ns(&self, cost: Duration, resident_pages: u64) -> f64 {
        let of_sample = cost.saturating_sub(self.price.reading(resident_pages));
        of_sample.as_nanos() as f64 * self.sample.one_page_in() as f64
    }

    /// The pages to look at.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// The time from this look to the next.
    pub fn period(&self) -> Duration {
        self.every.max(self.cost.div_f64(self.overhead))
    }

    /// Whether looks are further apart than was asked for.
    pub fn is_stretched(&self) -> bool {
        self.period() > self.every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price { read_ns: 10.0, clear_ns: 90.0, touch_ns: 500.0, range_ns: 3200.0 };
    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_look_that_costs_too_much_is_followed_by_looks_at_fewer_pages() {
        // 20 ms are allowed, and all of 1 GiB would cost 157 ms.
        let mut pace = Pace::new(Duration::from_secs(1), 0.02, PRICE, 1 << 18);
        assert_eq!((pace.sample().one_page_in(), pace.is_stretched()), (16, false));
        // The program uses a 16th of it.
        pace.first_has_cost(4 * MILLISECOND, 1 << 18);
        assert_eq!((pace.sample().one_page_in(), pace.is_stretched()), (2, false));
        pace.has_cost(12 * MILLISECOND, 1 << 18);
        assert_eq!(pace.sample().one_page_in(), 2);
        pace.has_cost(35 * MILLISECOND, 1 << 18);
        assert_eq!((pace.sample().one_page_in(), pace.is_stretched()), (8, false));
        pace.has_cost(4 * MILLISECOND, 1 << 18);
        assert_eq!(pace.sample().one_page_in(), 8, "what has left does not come back");
    }

    #[test]
    fn looks_are_further_apart_if_a_sample_would_say_too_little() {
        let small = Pace::new(Duration::from_millis(10), 0.0001, PRICE, 1000);
        assert_eq!((small.sample(), small.is_stretched()), (Sample::ALL, true));
        // To read the bits alone costs more than the budget.
        let huge = Pace::new(Duration::from_secs(1), 0.02, PRICE, 1 << 22);
        assert_eq!(huge.sample().one_page_in(), 1 << 10);
        assert!(huge.is_stretched() && huge.period() < Duration::from_secs(3));
        let calm = Pace::new(Duration::from_secs(1), 0.02, PRICE, 10_000);
        assert_eq!((calm.sample(), calm.period()), (Sample::ALL, Duration::from_secs(1)));
    }
}
