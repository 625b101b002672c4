//! Whether it is worth the processor's time to look for work before sleeping. It is, as long as
//! about one time in three something arrives meanwhile. Otherwise the agent only tries now and
//! then.

/// How often looking for work has paid off lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollHistory {
    score: u32,
    left_out: u32,
}

impl Default for PollHistory {
    fn default() -> Self {
        Self { score: Self::MOST, left_out: 0 }
    }
}

impl PollHistory {
    const MOST: u32 = 32;
    /// While no work arrives, the agent tries one time in this many.
    const RARELY: u32 = 16;

    /// Whether to look for work now.
    pub(crate) fn is_worth_a_try(&mut self) -> bool {
        if self.score > 0 || self.left_out >= Self::RARELY {
            self.left_out = 0;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// The agent has looked for work.
    pub(crate) fn tried(&mut self, has_found: bool) {
        self.score = match has_found {
            true => (self.score + 2).min(Self::MOST),
            false => self.score.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_success_in_three_is_enough() {
        let mut history = PollHistory::default();
        for turn in 0..1000 {
            assert!(history.is_worth_a_try(), "turn {turn}");
            history.tried(turn % 3 == 0);
        }
    }

    #[test]
    fn without_success_it_tries_rarely_and_with_one_it_tries_again() {
        let mut history = PollHistory::default();
        let mut tries = 0;
        for _ in 0..1000 {
            if history.is_worth_a_try() {
                tries += 1;
                history.tried(false);
            }
        }
        assert!((80..110).contains(&tries), "{tries} tries: 32, and then one in 17");
        while !history.is_worth_a_try() {}
        history.tried(true);
        assert!(history.is_worth_a_try());
    }
}
