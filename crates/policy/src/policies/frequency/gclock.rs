//! GCLOCK: CLOCK with a counter in place of the reference bit.
//!
//! Papers: A. J. Smith, "Sequentiality and prefetching in database systems", ACM Transactions on
//! Database Systems 3(3), 1978; V. F. Nicola, A. Dan, D. M. Dias, "Analysis of the generalized
//! clock buffer replacement scheme for database transaction processing", ACM SIGMETRICS 1992.
//!
//! A hit adds `increment` to the page's counter, up to `max`. The hand takes 1 off every counter
//! that it passes and evicts the first page found at 0.
//!
//! A virtual memory system does not see hits, only a bit that says whether there were any. So there
//! are two forms. [`GClock`] follows the papers and suits a buffer pool that is called on each
//! access. [`GClockBits`] runs live: if the hand finds a page's bit set, it adds `increment` to the
//! counter before it takes 1 off. All uses of a page between two visits of the hand count once.
//!
//! Choices where the papers are silent: the counter of a new page (`init`, 1), the increment and
//! the bound, which the papers treat as weights to be tuned. With `max=1` this is CLOCK with
//! `init=1`.
//!
//! Cost: hit O(1); fault amortised O(1) in the hits counted, at worst M `max` steps. `hand_steps`
//! counts frames looked at.
//!
//! ```text
//! frames  a0  b2  c1  d0         b: 2 -> 1, on    c: 1 -> 0, on
//!             ^ hand             d: the victim; its frame is filled, the hand goes on
//! ```

use crate::arguments::Parameter;
use crate::collections::{FrameClock, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ExactModel, Info, Mmu, Model, PageId, Policy, Reference, Violation, VmModel,
};
use core::marker::PhantomData;

/// Generalized CLOCK that counts hits.
pub type GClock = CountingClock<ExactModel>;
/// Generalized CLOCK that counts the visits of its hand at which a page had been used.
pub type GClockBits = CountingClock<VmModel>;

/// Generalized CLOCK, in the form for a model.
#[derive(Debug)]
pub struct CountingClock<M> {
    clock: FrameClock,
    /// The counter of each resident page; stale for others.
    count: PageMap<u32>,
    /// The counter of a new page.
    init: u32,
    /// What a hit adds.
    increment: u32,
    /// The largest counter.
    max: u32,
    model: PhantomData<M>,
}

impl<M: Model> Registered for CountingClock<M> {
    const INFO: Info = Info {
        name: "gclock",
        summary: "CLOCK with a counter of hits in place of the reference bit",
        paper: "Smith, Sequentiality and prefetching in database systems, 1978; Nicola et al., SIGMETRICS 1992",
        parameters: &[
            Parameter { name: "init", default: "1", meaning: "counter of a newly loaded page" },
            Parameter { name: "increment", default: "1", meaning: "what a hit adds to the counter" },
            Parameter { name: "max", default: "7", meaning: "largest counter" },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let max = arguments.whole("max", 1..=65535)?;
        Ok(Self {
            clock: FrameClock::new(frames),
            count: PageMap::new(),
            init: arguments.whole("init", 0..=max)? as u32,
            increment: arguments.whole("increment", 0..=65535)? as u32,
            max: max as u32,
            model: PhantomData,
        })
    }
}

impl<M: Model> Policy for CountingClock<M> {
    type Model = M;

    fn victim<U: Mmu>(&mut self, mmu: &mut U) -> Option<PageId> {
        let Self { clock, count, max, increment, .. } = self;
        // Each turn takes 1 off every counter. If pages are used behind the hand all the time, the
        // page where the last turn ends goes.
        let looks = clock.used() * (*max as usize + 2);
        clock.find(looks, |page, can_be_spared| {
            let count = &mut count[page];
            if !M::SEES_HITS && can_be_spared && mmu.test_and_clear_referenced(page) {
                *count = (*count + *increment).min(*max);
            }
            let is_spared = *count > 0 && can_be_spared;
            *count -= u32::from(is_spared);
            is_spared
        })
    }

    fn evict(&mut self, page: PageId) {
        self.clock.evict(page);
    }

    fn insert<U: Mmu>(&mut self, reference: Reference, _: &mut U) -> bool {
        self.clock.insert(reference.page);
        self.count.set(reference.page, self.init);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        let count = &mut self.count[reference.page];
        *count = (*count + self.increment).min(self.max);
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.clock.steps()
    }

    fn check(&self) -> Result<(), Violation> {
        for (page, _) in self.clock.pages() {
            ensure!(self.count[page] <= self.max, "page {page} has counter {}", self.count[page]);
        }
        self.clock.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E1, Machine, for_random_strings, run};
    use crate::policies::Clock;

    /// Each page with its counter; brackets mark the hand.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<GClock>::new("gclock", 3);
        let states = machine.trace(&[E1, &[5, 1]].concat(), |machine| {
            let gclock = machine.policy();
            let frame = |(page, has_hand)| {
                let text = format!("{page}:{}", gclock.count[page]);
                if has_hand { format!("[{text}]") } else { text }
            };
            gclock.clock.pages().map(frame).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "[1:1]",
                "[1:1] 2:1",
                "[1:1] 2:1 3:1",
                "4:1 [2:0] 3:0", // everything counted down, 1 goes
                "4:1 1:1 [3:0]",
                "[4:1] 1:1 2:1",
                "5:1 [1:0] 2:0",
                "5:1 [1:1] 2:0", // hits
                "5:1 [1:1] 2:1",
                "5:0 3:1 [2:0]", // 1 and 2 and 5 counted down, 1 goes
                "[5:0] 3:1 4:1",
                "[5:1] 3:1 4:1",
                "[5:2] 3:1 4:1",
                "5:0 1:1 [4:0]", // counted down twice at 5; 3 is the first at 0
            ]
        );
    }

    /// The same, by bits: `*` marks one.
    #[test]
    fn follows_the_worked_example_by_bits() {
        let mut machine = Machine::<GClockBits>::new("gclock:init=0", 3);
        let states = machine.trace(&[1, 2, 3, 1, 1, 4, 1, 5, 1, 6], |machine| {
            let gclock = machine.policy();
            let frame = |(page, has_hand)| {
                let bit = if machine.is_referenced(page) { "*" } else { "" };
                let text = format!("{page}:{}{bit}", gclock.count[page]);
                if has_hand { format!("[{text}]") } else { text }
            };
            gclock.clock.pages().map(frame).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "[1:0]",
                "[1:0] 2:0",
                "[1:0] 2:0 3:0",
                "[1:0*] 2:0 3:0",
                "[1:0*] 2:0 3:0", // two uses, one bit
                "1:0 4:0 [3:0]",  // 1 is counted up and down again, 2 goes
                "1:0* 4:0 [3:0]",
                "[1:0*] 4:0 5:0",
                "[1:0*] 4:0 5:0",
                "1:0 6:0 [5:0]",
            ]
        );
    }

    #[test]
    fn with_one_bit_the_form_that_runs_live_is_clock() {
        for_random_strings(|string, frames| {
            for init in [0, 1] {
                let faults = |spec: &str| {
                    let mut machine = Machine::<GClockBits>::new(spec, frames);
                    string.iter().map(|&page| machine.access(page).victim).collect::<Vec<_>>()
                };
                let mut clock = Machine::<Clock>::new(&format!("clock:init={init}"), frames);
                let clock: Vec<_> = string.iter().map(|&page| clock.access(page).victim).collect();
                assert_eq!(faults(&format!("gclock:max=1,init={init}")), clock, "init={init}");
            }
        });
    }

    #[test]
    fn with_one_bit_it_is_clock() {
        for_random_strings(|string, frames| {
            for init in [0, 1] {
                let gclock = run(&format!("gclock:max=1,init={init}"), string, frames);
                assert_eq!(gclock, run(&format!("clock:init={init}"), string, frames), "init={init}");
            }
        });
    }
}
