//! Page aging: a scan raises the age of pages found referenced and lowers that of the others.
//!
//! The mechanism of Linux 2.0 to 2.4 (`age`, mm/vmscan.c) and of FreeBSD (`act_count`,
//! vm_pageout.c; M. K. McKusick, G. V. Neville-Neil, "The design and implementation of the FreeBSD
//! operating system", 2004). When memory is needed, a hand goes round the frames. If a page's bit
//! is set, the hand clears it and raises the age by `advance`, to at most `max`. If the bit is
//! clear, the hand lowers the age by `decline` (or halves it), and evicts the page if that
//! leaves 0.
//!
//! There is no paper, and kernels differ from version to version. The constants here are those of
//! Linux 2.2 (start 2, advance 3, decline 1, max 20) and of FreeBSD (start 5, advance 3, decline 1,
//! max 64). `decline=halve` is the exponential decline of Linux 2.4. A new page takes the victim's
//! place, with its bit clear. The kernels' several lists and background scans are left out.
//!
//! Cost: hit nothing; fault as many steps as it takes to bring an age to 0, at worst M `max`.
//! `hand_steps` counts frames looked at.
//!
//! ```text
//! frames  a2  B5  c1  D0       upper case: bit set     B: age 5 + 3, bit cleared, on
//!             ^ hand                                   c: 1 - 1 = 0, the victim; the hand goes on
//! ```

use crate::arguments::Parameter;
use crate::collections::{FrameClock, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decline {
    By(u32),
    Halve,
}

/// Page aging.
#[derive(Debug)]
pub struct Aging {
    clock: FrameClock,
    /// The age of each resident page; stale for others.
    age: PageMap<u32>,
    /// Age of a new page.
    start: u32,
    /// What a referenced page gains when it is looked at.
    advance: u32,
    /// What an unreferenced page loses.
    decline: Decline,
    /// The largest age.
    max: u32,
}

const BY_FLAVOUR: &str = "flavour";

impl Registered for Aging {
    const INFO: Info = Info {
        name: "aging",
        summary: "raises the age of pages found referenced, lowers that of others, evicts at 0",
        paper: "mechanism of Linux 2.0-2.4 and FreeBSD",
        parameters: &[
            Parameter {
                name: "flavour",
                default: "linux",
                meaning: "which kernel's constants: linux or freebsd",
            },
            Parameter { name: "start", default: BY_FLAVOUR, meaning: "age of a new page" },
            Parameter { name: "advance", default: BY_FLAVOUR, meaning: "gain of a page found referenced" },
            Parameter {
                name: "decline",
                default: BY_FLAVOUR,
                meaning: "loss of a page found unreferenced: a number, or halve",
            },
            Parameter { name: "max", default: BY_FLAVOUR, meaning: "largest age" },
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let (start, advance, max) =
            arguments.choice("flavour", &[("linux", (2, 3, 20)), ("freebsd", (5, 3, 64))])?;
        let constant = |name, default, range| match arguments.value(name) {
            BY_FLAVOUR => Ok(default),
            _ => arguments.whole(name, range),
        };
        let max = constant("max", max, 0..=65535)?;
        let decline = match arguments.value("decline") {
            "halve" => Decline::Halve,
            BY_FLAVOUR => Decline::By(1),
            _ => Decline::By(arguments.whole("decline", 1..=65535)? as u32),
        };
        Ok(Self {
            clock: FrameClock::new(frames),
            age: PageMap::new(),
            start: constant("start", start.min(max), 0..=max)? as u32,
            advance: constant("advance", advance, 0..=65535)? as u32,
            decline,
            max: max as u32,
        })
    }
}

impl Policy for Aging {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let Self { clock, age, advance, decline, max, .. } = self;
        // The first turn clears every bit; each further one lowers every age. If pages are used
        // behind the hand all the time, the page where the last turn ends goes.
        let looks = clock.used() * (*max as usize + 2);
        clock.find(looks, |page, _| {
            let referenced = mmu.test_and_clear_referenced(page);
            let age = &mut age[page];
            *age = match *decline {
                _ if referenced => (*age + *advance).min(*max),
                Decline::By(decline) => age.saturating_sub(decline),
                Decline::Halve => *age / 2,
            };
            referenced || *age > 0
        })
    }

    fn evict(&mut self, page: PageId) {
        self.clock.evict(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.clock.insert(reference.page);
        self.age.set(reference.page, self.start);
        false
    }

    fn remove(&mut self, page: PageId) {
        self.clock.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.clock.steps()
    }

    fn check(&self) -> Result<(), Violation> {
        for (page, _) in self.clock.pages() {
            ensure!(self.age[page] <= self.max, "page {page} has age {}", self.age[page]);
        }
        self.clock.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, outcome, run};

    /// Each page with its age; `*` marks a set bit, brackets the hand.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Aging>::new("aging", 3);
        let states = machine.trace(&[1, 2, 3, 1, 4, 3, 5], |machine| {
            let aging = machine.policy();
            let frame = |(page, has_hand)| {
                let bit = if machine.is_referenced(page) { "*" } else { "" };
                let text = format!("{page}:{}{bit}", aging.age[page]);
                if has_hand { format!("[{text}]") } else { text }
            };
            aging.clock.pages().map(frame).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "[1:2]",
                "[1:2] 2:2",
                "[1:2] 2:2 3:2",
                "[1:2*] 2:2 3:2",
                "1:4 4:2 [3:1]", // 1: 2 + 3 - 1; 2: 2 - 1 - 1; 3: 2 - 1
                "1:4 4:2 [3:1*]",
                "1:2 5:2 [3:3]", // 3: 1 + 3 - 1; 1: 4 - 1 - 1; 4: 2 - 1 - 1
            ]
        );
    }

    /// Without gain or start, a page goes when it is found unreferenced.
    #[test]
    fn without_ages_it_is_clock() {
        for_random_strings(|string, frames| {
            assert_eq!(run("aging:start=0,advance=0", string, frames), run("clock", string, frames));
        });
    }

    #[test]
    fn halving_forgets_faster_than_counting_down() {
        let string = [1, 2, 1, 3, 1, 4, 1, 5, 6, 5, 6, 5, 6];
        let outcomes =
            ["aging:max=64", "aging:decline=halve,max=64"].map(|spec| outcome(&run(spec, &string, 2)));
        // Counted down, page 1 lives off its early hits; halved, it goes as soon as the loop of 5
        // and 6 begins.
        assert_eq!(outcomes, ["9:2345651", "6:2341"]);
    }
}
