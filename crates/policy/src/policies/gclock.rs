//! GCLOCK: CLOCK with a counter in place of the reference bit.
//!
//! Papers: A. J. Smith, "Sequentiality and prefetching in database systems", ACM Transactions on Database Systems 3(3),
//! 1978; V. F. Nicola, A. Dan, D. M. Dias, "Analysis of the generalized clock buffer replacement scheme for database
//! transaction processing", ACM SIGMETRICS 1992.
//! A hit adds `increment` to the page's counter, up to `max`; the hand takes 1 off every counter that it passes and
//! evicts the first page found at 0.
//!
//! What the papers leave open: the counter of a new page (`init`, 1), the increment and the bound, which they treat as
//! weights to be tuned. With `max=1` this is CLOCK with `init=1`.
//!
//! Cost: hit O(1); fault amortised O(1) in the hits counted, at worst M `max` steps. `hand_steps` counts frames
//! looked at.
//!
//! ```text
//! frames  a0  b2  c1  d0         b: 2 -> 1, on    c: 1 -> 0, on
//!             ^ hand             d: the victim; its frame is filled, the hand goes on
//! ```

use crate::arguments::Parameter;
use crate::collections::{FrameTable, PageMap};
use crate::interface::ensure;
use crate::registry::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

/// Generalized CLOCK.
#[derive(Debug)]
pub struct GClock {
    frames: FrameTable,
    /// The next frame to look at.
    hand: usize,
    /// The counter of each resident page; stale for others.
    count: PageMap<u32>,
    /// The counter of a new page.
    init: u32,
    /// What a hit adds.
    increment: u32,
    /// The largest counter.
    max: u32,
    /// Frames looked at by the hand.
    hand_steps: u64,
}

impl Registered for GClock {
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
            frames: FrameTable::new(frames),
            hand: 0,
            count: PageMap::new(),
            init: arguments.whole("init", 0..=max)? as u32,
            increment: arguments.whole("increment", 0..=65535)? as u32,
            max: max as u32,
            hand_steps: 0,
        })
    }
}

impl Policy for GClock {
    type Model = ExactModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        if self.frames.is_empty() {
            return None;
        }
        // Each turn takes 1 off every counter.
        for _ in 0..=self.frames.used() * (self.max as usize + 1) {
            if let Some(page) = self.frames.page(self.hand) {
                self.hand_steps += 1;
                if self.count[page] == 0 {
                    return Some(page);
                }
                self.count[page] -= 1;
            }
            self.hand = self.frames.after(self.hand);
        }
        unreachable!("all counters reach 0")
    }

    fn evict(&mut self, page: PageId) {
        // The hand rests on the victim, so its frame need not be looked up.
        debug_assert_eq!(self.frames.page(self.hand), Some(page));
        self.frames.vacate(self.hand);
        self.hand = self.frames.after(self.hand);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.frames.occupy(reference.page);
        self.count.set(reference.page, self.init);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        let count = &mut self.count[reference.page];
        *count = (*count + self.increment).min(self.max);
    }

    fn remove(&mut self, page: PageId) {
        if let Some(frame) = self.frames.frame_of(page) {
            self.frames.vacate(frame);
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        for page in self.frames.pages() {
            ensure!(self.count[page] <= self.max, "page {page} has counter {}", self.count[page]);
        }
        self.frames.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E1, Machine, for_random_strings, run};

    /// Each page with its counter; brackets mark the hand.
    #[test]
    fn worked_example() {
        let mut machine = Machine::<GClock>::new("gclock", 3);
        let states = machine.trace(&[E1, &[5, 1]].concat(), |machine| {
            let gclock = machine.policy();
            let frame = |frame| {
                let page = gclock.frames.page(frame)?;
                let text = format!("{page}:{}", gclock.count[page]);
                Some(if frame == gclock.hand { format!("[{text}]") } else { text })
            };
            (0..3).filter_map(frame).collect::<Vec<_>>().join(" ")
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

    #[test]
    fn with_one_bit_it_is_clock() {
        for_random_strings(|string, frames| {
            for init in [0, 1] {
                let gclock = run(&format!("gclock:max=1,init={init}"), string, frames);
                assert_eq!(gclock, run(&format!("clock:init={init}"), string, frames));
            }
        });
    }
}
