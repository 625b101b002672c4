//! How often to look, so that the cost stays below a part of the time.

use std::time::Duration;

/// The time between looks.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    every: Duration,
    /// The part of a processor's time that may be spent.
    overhead: f64,
    cost: Duration,
}

impl Pace {
    /// Once a period, as far as the budget allows. `cost`: what a look is expected to cost.
    pub fn new(every: Duration, overhead: f64, cost: Duration) -> Self {
        Self { every, overhead, cost }
    }

    /// What a look has cost. The next one is expected to cost the same.
    pub fn has_cost(&mut self, cost: Duration) {
        self.cost = cost;
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

    #[test]
    fn a_look_that_costs_too_much_is_followed_by_a_longer_epoch() {
        let mut pace = Pace::new(Duration::from_secs(1), 0.02, Duration::from_millis(20));
        assert_eq!((pace.period(), pace.is_stretched()), (Duration::from_secs(1), false));
        pace.has_cost(Duration::from_millis(50));
        assert_eq!((pace.period(), pace.is_stretched()), (Duration::from_millis(2500), true));
        pace.has_cost(Duration::from_millis(1));
        assert!(!pace.is_stretched());
    }
}
