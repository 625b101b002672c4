//! LRFU: every past reference counts, older ones less. It lies between LFU and LRU.
//!
//! Paper: D. Lee, J. Choi, J.-H. Kim, S. H. Noh, S. L. Min, Y. Cho, C. S. Kim, "LRFU: a spectrum of
//! policies that subsumes the least recently used and least frequently used policies", IEEE
//! Transactions on Computers 50(12), 2001.
//!
//! A page's value C at time t is the sum over its references t_i of (1/2)^(lambda (t - t_i)). The
//! page with the smallest value goes. `lambda=1` is LRU, and `lambda=0` is LFU with ties by LRU.
//!
//! All values decay alike, so their order does not change with time. Pages are ordered by log2 C +
//! lambda LAST, with C as of the page's last reference LAST. Ties (also those made by rounding) go
//! by LAST, the least recent first.
//!
//! Choices where the paper is silent: lambda is 0.001. History is dropped at eviction, unless
//! `retain=on`. There is no correlated reference period.
//!
//! The order of a page only rises: a reference adds 1 to C and moves LAST. Rounding does not change
//! this in fewer than 2^40 references. The rise is at least the larger of lambda and 1 / C, far
//! more than the last digit of the sum. So a page's place is looked up when it comes to the front.
//!
//! Cost: hit O(1), fault amortised O(log M). 32 bytes a page seen and 24 a resident page.

use crate::arguments::Parameter;
use crate::collections::{PageMap, RisingKey, RisingQueue};
use crate::interface::ensure;
use crate::math::{exp2, log2};
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::vec::Vec;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// C as of `last`; 0 for a page not remembered.
    value: f64,
    /// Time of the last reference.
    last: u64,
    resident: bool,
}

impl Entry {
    /// log2 C + lambda LAST as the bits of a number that is not negative, which are in its order;
    /// LAST.
    fn key(self, lambda: f64) -> RisingKey {
        ((log2(self.value) + lambda * self.last as f64).to_bits(), self.last)
    }
}

/// Ages at which the decay is looked up instead of computed. Most hits come soon after the page's
/// last reference.
const TABLE_REFERENCES: usize = 1 << 12;

/// Least recently and frequently used.
#[derive(Debug)]
pub struct Lrfu {
    frames: usize,
    entries: PageMap<Entry>,
    /// Resident pages, the first to evict first.
    order: RisingQueue,
    lambda: f64,
    /// The part of a value that is left after this many references.
    decay: Vec<f64>,
    /// Whether C outlives the page's stay in memory.
    retain: bool,
    /// References so far.
    time: u64,
}

impl Registered for Lrfu {
    const INFO: Info = Info {
        name: "lrfu",
        summary: "values pages by all their references, each decaying with time",
        paper: "Lee et al., LRFU, IEEE Transactions on Computers 50(12), 2001",
        parameters: &[
            Parameter {
                name: "lambda",
                default: "0.001",
                meaning: "decay: a reference's worth halves every 1/lambda references (0 LFU, 1 LRU)",
            },
            Parameter { name: "retain", default: "off", meaning: "whether evicted pages keep their value" },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let lambda = arguments.factor("lambda")?;
        if lambda > 1.0 {
            return Err(arguments.bad("lambda", arguments.value("lambda"), "a number from 0 to 1"));
        }
        let retain = arguments.switch("retain")?;
        let lambda = arguments.per_reference(lambda);
        let decay = (0..TABLE_REFERENCES).map(|age| exp2(-lambda * age as f64)).collect();
        Ok(Self {
            frames,
            entries: PageMap::new(),
            order: RisingQueue::new(),
            lambda,
            decay,
            retain,
            time: 0,
        })
    }
}

impl Lrfu {
    /// Counts a reference to a page.
    #[inline]
    fn touch(&mut self, page: PageId) {
        let Entry { value, last, .. } = self.entries[page];
        let age = self.time - last;
        let decay = match self.decay.get(age as usize) {
            Some(&decay) => decay,
            None => exp2(-self.lambda * age as f64),
        };
        self.entries[page] = Entry { value: 1.0 + value * decay, last: self.time, resident: true };
    }

    fn leave(&mut self, page: PageId) {
        self.order.remove(page);
        self.entries[page].resident = false;
    }
}

impl Policy for Lrfu {
    type Model = ExactModel;

    fn fault(&mut self, _: Reference) {
        self.time += 1;
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        self.order.first(|page| self.entries[page].key(self.lambda))
    }

    fn evict(&mut self, page: PageId) {
        self.leave(page);
        if !self.retain {
            self.entries[page] = Entry::default();
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.entries.cover(reference.page);
        self.touch(reference.page);
        self.order.insert(reference.page, self.entries[reference.page].key(self.lambda));
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.time += 1;
        self.touch(reference.page);
    }

    fn remove(&mut self, page: PageId) {
        let entry = self.entries.get(page);
        if entry.resident {
            self.leave(page);
        }
        if entry.value > 0.0 {
            self.entries[page] = Entry::default();
        }
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.order.len() <= self.frames, "{} pages resident", self.order.len());
        let mut residents = 0;
        for (page, entry) in self.entries.iter() {
            ensure!(entry.value == 0.0 || entry.value >= 1.0, "page {page}: {entry:?}");
            ensure!(entry.last <= self.time, "page {page}: {entry:?} at time {}", self.time);
            ensure!(entry.resident || entry.value == 0.0 || self.retain, "page {page}: {entry:?}");
            if entry.resident {
                residents += 1;
                ensure!(self.order.contains(page), "page {page} is not in the order");
            }
        }
        ensure!(residents == self.order.len(), "{residents} pages resident, {} in order", self.order.len());
        self.order.check(|page| self.entries[page].key(self.lambda))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, run};

    /// Values as of the last reference of each page, which halve with every reference.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Lrfu>::new("lrfu:lambda=1", 2);
        let states = machine.trace(&[1, 1, 2, 1, 3], |machine| {
            let entries = machine.policy().entries.iter().filter(|(_, entry)| entry.resident);
            let show = |(page, entry): (PageId, Entry)| format!("{page}: {} at {}", entry.value, entry.last);
            entries.map(show).collect::<Vec<_>>().join(", ")
        });
        assert_eq!(
            states,
            [
                "1: 1 at 1",
                "1: 1.5 at 2",
                "1: 1.5 at 2, 2: 1 at 3",
                "1: 1.375 at 4, 2: 1 at 3",
                "1: 1.375 at 4, 3: 1 at 5",
            ]
        );
    }

    #[test]
    fn with_lambda_1_it_is_lru() {
        for_random_strings(|string, frames| {
            assert_eq!(run("lrfu:lambda=1", string, frames), run("lru", string, frames));
        });
        // A value that rounds to 2 ties with one reference a moment later; the less recent page
        // goes.
        let string = [[1; 100].as_slice(), &[2, 3]].concat();
        assert_eq!(run("lrfu:lambda=1", &string, 2).last().unwrap().victim, Some(1));
    }

    /// Two references long ago against one lately.
    #[test]
    fn lambda_weighs_frequency_against_recency() {
        let string = [1, 1, 2, 3];
        assert_eq!(run("lrfu:lambda=0", &string, 2)[3].victim, Some(2));
        assert_eq!(run("lrfu:lambda=1", &string, 2)[3].victim, Some(1));
    }
}
