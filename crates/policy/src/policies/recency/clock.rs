//! CLOCK, or second chance: FIFO that spares a page once if its reference bit is set.
//!
//! Paper: F. J. Corbató, "A paging experiment with the Multics system", MIT Project MAC report
//! MAC-M-384, 1968.
//!
//! CLOCK is nearly LRU at no cost per hit. The other policies of the CLOCK family, such as
//! CLOCK-Pro, start from it.
//!
//! Choices where the papers are silent: does the access that faults leave the reference bit set?
//! Real hardware sets it when it restarts the instruction (`init=1`, as in Carr and Hennessy 1981
//! and in most kernels). Simulators of buffer caches clear it (`init=0`, the default, as in the
//! CLOCK-Pro comparisons). `fill-init` is the bit of pages that come in while memory fills for the
//! first time. The hand advances past the frame that has just been filled.
//!
//! Cost: hit nothing; fault amortised O(1), at worst one turn. `hand_steps` counts frames looked
//! at.
//!
//! ```text
//! frames  a  b  C  d     upper case: bit set         C: clear the bit, go on
//!               ^ hand                               d: the victim; its frame is filled, the hand goes on
//! ```

use crate::arguments::Parameter;
use crate::collections::FrameClock;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// CLOCK over the frames of memory.
#[derive(Debug)]
pub struct Clock {
    clock: FrameClock,
    /// Reference bit of a page loaded into a frame that has been used before.
    init: bool,
    /// Reference bit of a page loaded into a frame for the first time.
    fill_init: bool,
}

impl Registered for Clock {
    const INFO: Info = Info {
        name: "clock",
        summary: "FIFO that gives a referenced page a second chance",
        paper: "Corbató, A paging experiment with the Multics system, MIT Project MAC, 1968",
        parameters: &[
            Parameter { name: "init", default: "0", meaning: "reference bit of a newly loaded page" },
            Parameter { name: "fill-init", default: "init", meaning: "that bit while memory first fills" },
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let init = arguments.switch("init")?;
        let fill_init = if arguments.is_given("fill-init") { arguments.switch("fill-init")? } else { init };
        Ok(Self { clock: FrameClock::new(frames), init, fill_init })
    }
}

impl Policy for Clock {
    type Model = VmModel;

    #[inline(always)]
    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        if let Some(page) = self.clock.soon() {
            mmu.prefetch(page);
        }
        // One turn clears every bit, so the next page is a victim, unless bits are set behind the
        // hand meanwhile: then the page where the second turn ends goes, as in FIFO.
        self.clock.find(2 * self.clock.used(), |page, _| mmu.test_and_clear_referenced(page))
    }

    #[inline(always)]
    fn evict(&mut self, page: PageId) {
        self.clock.evict(page);
    }

    #[inline(always)]
    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let filling = self.clock.is_filling();
        self.clock.insert(reference.page);
        if filling { self.fill_init } else { self.init }
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.clock.steps()
    }

    fn check(&self) -> Result<(), Violation> {
        self.clock.check()
    }
}

#[cfg(test)]
mod tests {
    use crate::conformance::{E1, Machine};

    /// The textbook trace: brackets mark the hand, `*` a set bit.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<super::Clock>::new("clock:init=1", 3);
        let states: Vec<String> = E1
            .iter()
            .map(|&page| {
                machine.access(page);
                let frame = |(page, has_hand)| {
                    let text = format!("{page}{}", if machine.is_referenced(page) { "*" } else { "" });
                    if has_hand { format!("[{text}]") } else { text }
                };
                machine.policy().clock.pages().map(frame).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(
            states,
            [
                "[1*]",
                "[1*] 2*",
                "[1*] 2* 3*", // filling; the hand stays on the first frame
                "4* [2] 3",
                "4* 1* [3]",
                "[4*] 1* 2*",
                "5* [1] 2", // 4: everything cleared, 1 goes
                "5* [1*] 2",
                "5* [1*] 2*", // hits
                "5 3* [2]",
                "[5] 3* 4*", // 3: hand clears 1 and 2 and 5, back to 1
                "[5*] 3* 4*",
            ]
        );
    }
}
