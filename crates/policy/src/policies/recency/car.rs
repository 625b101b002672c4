//! CAR: clock with adaptive replacement, ARC's idea on reference bits.
//!
//! Paper: S. Bansal, D. S. Modha, "CAR: clock with adaptive replacement", USENIX FAST 2004.
//!
//! Two clocks hold the resident pages: T1 those seen once recently, T2 those seen at least twice.
//! The ghosts B1 and B2 remember the pages that left them. A fault on a ghost says which clock is
//! too small and moves the target p.
//!
//! Choices where the paper is silent: with `integer-ratio=on` (the default), |B2|/|B1| is an
//! integer division; then, with collapsed references, Tables 1 and 2 of CLOCK-Pro (USENIX ATC 2005)
//! come out exactly. The reference bit of a new page is always clear; if it were set, the policy
//! would degenerate to CLOCK.
//!
//! Cost: hit nothing; fault amortised O(1). `hand_steps` counts clock entries looked at.
//!
//! ```text
//!             insert (unseen)          evict, bit clear          forgotten
//!                  |        +--------+ ------------------> [ B1 ] -->
//!                  +------> | T1 <=p |                       | fault: p grows
//!                           +--------+                       v
//!                               | bit set (cleared)       +----+
//!                               +-----------------------> | T2 | (bit set: cleared, round again)
//!                                                         +----+
//!                                                  evict |    ^ fault: p shrinks
//!                                                        v    |
//!                                                        [ B2 ] --> forgotten
//! ```

use super::arc::{B1, B2, T1, T2, check_directory};
use crate::arguments::Parameter;
use crate::collections::Lists;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// Clock with adaptive replacement.
#[derive(Debug)]
pub struct Car {
    frames: usize,
    /// T1 and T2 with their hands in front; B1 and B2 with the oldest ghost in front.
    lists: Lists<4>,
    /// Target size of T1, 0 to `frames`. Grows at faults on B1, shrinks at faults on B2.
    p: f64,
    integer_ratio: bool,
    /// Entries of T1 and T2 looked at.
    hand_steps: u64,
}

impl Registered for Car {
    const INFO: Info = Info {
        name: "car",
        summary: "two clocks, for pages seen once and seen again, whose sizes adapt by ghosts",
        paper: "Bansal, Modha, CAR: clock with adaptive replacement, USENIX FAST 2004",
        parameters: &[
            Parameter {
                name: "integer-ratio",
                default: "on",
                meaning: "whether the ratio of ghost list sizes that moves the target is an integer division",
            },
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let integer_ratio = arguments.switch("integer-ratio")?;
        Ok(Self { frames, lists: Lists::new(), p: 0.0, integer_ratio, hand_steps: 0 })
    }
}

impl Car {
    /// How far a fault on a ghost of a list of `own` moves p, where the other ghost list has
    /// `other` entries.
    fn step(&self, other: usize, own: usize) -> f64 {
        let ratio = if self.integer_ratio { (other / own) as f64 } else { other as f64 / own as f64 };
        ratio.max(1.0)
    }

    fn resident(&self) -> usize {
        self.lists.len(T1) + self.lists.len(T2)
    }

    /// Keeps the ghosts within their bounds before an unseen page comes in.
    fn forget_ghosts(&mut self) {
        if self.lists.len(T1) + self.lists.len(B1) >= self.frames {
            self.lists.pop_front(B1);
        } else if self.resident() + self.lists.len(B1) + self.lists.len(B2) >= 2 * self.frames {
            self.lists.pop_front(B2);
        }
    }
}

impl Policy for Car {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let mut candidate = None;
        for _ in 0..=2 * self.resident() {
            let t1_is_large = self.lists.len(T1) as f64 >= self.p.max(1.0);
            let clock = if t1_is_large || self.lists.is_empty(T2) { T1 } else { T2 };
            let page = self.lists.front(clock)?;
            self.hand_steps += 1;
            candidate = Some(page);
            if !mmu.test_and_clear_referenced(page) {
                break;
            }
            self.lists.move_to_back(T2, page);
        }
        candidate
    }

    fn evict(&mut self, page: PageId) {
        let ghosts = if self.lists.list_of(page) == Some(T1) { B1 } else { B2 };
        self.lists.move_to_back(ghosts, page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let (b1, b2) = (self.lists.len(B1), self.lists.len(B2));
        let clock = match self.lists.list_of(reference.page) {
            Some(B1) => {
                self.p = (self.p + self.step(b2, b1)).min(self.frames as f64);
                T2
            }
            Some(B2) => {
                self.p = (self.p - self.step(b1, b2)).max(0.0);
                T2
            }
            _ => {
                self.forget_ghosts();
                T1
            }
        };
        self.lists.move_to_back(clock, reference.page);
        false
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.lists.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        self.lists.remove(page);
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let (t1, b1) = (self.lists.len(T1), self.lists.len(B1));
        ensure!(b1 == 0 || t1 + b1 <= self.frames, "|T1| + |B1| = {t1} + {b1} > {}", self.frames);
        check_directory(&self.lists, self.frames, self.p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `T1 | T2 | B1 | B2, p` after each reference; `*` marks a set bit.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Car>::new("car", 3);
        let states = [1, 2, 3, 1, 4, 2, 5, 1, 6, 3, 2, 4].map(|page| {
            machine.access(page);
            let car = machine.policy();
            let list = |list| {
                let page = |page| {
                    if machine.is_referenced(page) { format!("{page}*") } else { page.to_string() }
                };
                car.lists.iter(list).map(page).collect::<Vec<_>>().join(" ")
            };
            format!("{} | {} | {} | {}, {}", list(T1), list(T2), list(B1), list(B2), car.p)
        });
        assert_eq!(
            states,
            [
                "1 |  |  | , 0",
                "1 2 |  |  | , 0",
                "1 2 3 |  |  | , 0",
                "1* 2 3 |  |  | , 0",
                "3 4 | 1 | 2 | , 0",
                "4 | 1 2 | 3 | , 1",
                "5 | 1 2 | 3 4 | , 1",
                "5 | 1* 2 | 3 4 | , 1",
                "6 | 1* 2 | 4 5 | , 1",
                "3 | 1* 2 | 5 6 | , 1",
                "3 | 1* 2* | 5 6 | , 1",
                "4 | 1* 2* | 6 3 | , 1",
            ]
        );
    }
}
