//! LRU-K: evicts the page whose K-th last reference is longest ago; LRU-2 by default.
//!
//! Paper: E. J. O'Neil, P. E. O'Neil, G. Weikum, "The LRU-K page replacement algorithm for database
//! disk buffering", ACM SIGMOD 1993, Figure 2.1.
//!
//! A page's history block holds HIST, the times of its last K uncorrelated references, and LAST,
//! the time of its last reference of any kind. A reference within the correlated reference period
//! (`crp`) after LAST moves only LAST. The block stays when the page is evicted.
//!
//! Choices where the paper is silent: ties of HIST\[K\] go by LAST, least recent first. (Ties are
//! frequent, because HIST\[K\] is unknown for every page seen fewer than K times.) A page within
//! its correlated reference period is not a candidate; if no page is a candidate, all are. When a
//! period closes, HIST\[1..K-1\] move by its length, and unknown times stay unknown. Blocks are
//! kept for good by default; `retained` limits their age in references and `history` their number.
//!
//! HIST\[K\] and LAST only rise while a page is resident. So a page's place in the order is looked
//! up when it comes to the front, and a hit moves nothing. A page that comes to the front within
//! its correlated reference period waits until that is over.
//!
//! Cost: hit O(K), fault amortised O(log M). 8 (K + 4) bytes a page seen and 24 a resident page.
//!
//! ```text
//!   insert --> [ candidates, by HIST[K], then LAST ] -- in front, within crp of LAST --> [ waiting, by LAST ]
//!                   |        ^                                                               |
//!                   v        +------------------------- crp over ---------------------------+
//!                 evict
//! ```

use crate::arguments::Parameter;
use crate::collections::{PageMap, RisingKey, RisingQueue};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::{collections::BTreeSet, vec::Vec};

/// LRU-K.
#[derive(Debug)]
pub struct Lru2 {
    frames: usize,
    /// K.
    k: usize,
    /// References after LAST that count as correlated with it.
    correlated_period_refs: u64,
    /// References after LAST for which the block of a non-resident page is good.
    retained_refs: u64,
    /// Most blocks of non-resident pages.
    history_pages: usize,
    /// References so far.
    time: u64,
    /// HIST of each page, K times from the latest; 0 for unknown.
    hist: Vec<u64>,
    /// Time of the last reference; 0 for a page without a history block.
    last: PageMap<u64>,
    /// Resident pages in order of eviction. All are here but those that wait.
    candidates: RisingQueue,
    /// Resident pages that were within their correlated reference period, by LAST.
    waiting: RisingQueue,
    /// The same in order of eviction, for when there is no candidate.
    waiting_in_order: RisingQueue,
    /// Blocks of non-resident pages by LAST. Kept only if their number is limited.
    blocks: BTreeSet<(u64, PageId)>,
}

impl Registered for Lru2 {
    const INFO: Info = Info {
        name: "lru-2",
        summary: "LRU-K: evicts the page whose K-th last reference (K = 2) is longest ago",
        paper: "O'Neil, O'Neil, Weikum, The LRU-K page replacement algorithm, ACM SIGMOD 1993",
        parameters: &[
            Parameter { name: "k", default: "2", meaning: "which last reference counts, 1 to 16" },
            Parameter { name: "crp", default: "0", meaning: "correlated reference period, in references" },
            Parameter {
                name: "retained",
                default: "unlimited",
                meaning: "how long an evicted page's history is good, in references since its last one",
            },
            Parameter {
                name: "history",
                default: "unlimited",
                meaning: "most evicted pages remembered, as a multiple of memory",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let unlimited = |name| arguments.value(name) == "unlimited";
        let retained_refs =
            if unlimited("retained") { u64::MAX } else { arguments.references("retained")? };
        let history_pages = if unlimited("history") {
            usize::MAX
        } else {
            (arguments.factor("history")? * frames as f64) as usize
        };
        Ok(Self {
            frames,
            k: arguments.whole("k", 1..=16)? as usize,
            correlated_period_refs: arguments.references("crp")?,
            retained_refs,
            history_pages,
            time: 0,
            hist: Vec::new(),
            last: PageMap::new(),
            candidates: RisingQueue::new(),
            waiting: RisingQueue::new(),
            waiting_in_order: RisingQueue::new(),
            blocks: BTreeSet::new(),
        })
    }
}

impl Lru2 {
    fn hist(&mut self, page: PageId) -> &mut [u64] {
        &mut self.hist[page.index() * self.k..][..self.k]
    }

    /// HIST\[K\] and LAST: the order of eviction.
    fn key(&self, page: PageId) -> RisingKey {
        key(&self.hist, self.k, &self.last, page)
    }

    /// The correlated reference period of a page that waits is over.
    fn stop_waiting(&mut self, page: PageId) {
        self.waiting.remove(page);
        self.waiting_in_order.remove(page);
        self.candidates.insert(page, self.key(page));
    }

    /// A candidate is within its correlated reference period.
    fn wait(&mut self, page: PageId) {
        self.candidates.remove(page);
        self.waiting.insert(page, (self.last[page], self.last[page]));
        self.waiting_in_order.insert(page, self.key(page));
    }

    /// A page is not resident any more.
    fn leave(&mut self, page: PageId) {
        self.candidates.remove(page);
        self.waiting.remove(page);
        self.waiting_in_order.remove(page);
    }

    fn is_resident(&self, page: PageId) -> bool {
        self.candidates.contains(page) || self.waiting.contains(page)
    }

    fn forget(&mut self, page: PageId) {
        self.blocks.remove(&(self.last.get(page), page));
        self.last[page] = 0;
        self.hist(page).fill(0);
    }

    fn is_correlated(&self, page: PageId) -> bool {
        self.time - self.last[page] <= self.correlated_period_refs
    }
}

impl Policy for Lru2 {
    type Model = ExactModel;

    fn fault(&mut self, _: Reference) {
        self.time += 1;
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        while let Some(page) = self.waiting.first(|page| (self.last[page], self.last[page]))
            && !self.is_correlated(page)
        {
            self.stop_waiting(page);
        }
        while let Some(page) = self.candidates.first(|page| key(&self.hist, self.k, &self.last, page)) {
            if !self.is_correlated(page) {
                return Some(page);
            }
            self.wait(page);
        }
        self.waiting_in_order.first(|page| key(&self.hist, self.k, &self.last, page))
    }

    fn evict(&mut self, page: PageId) {
        self.leave(page);
        if self.history_pages < usize::MAX {
            self.blocks.insert((self.last[page], page));
            if self.blocks.len() > self.history_pages
                && let Some(&(_, oldest)) = self.blocks.first()
            {
                self.forget(oldest);
            }
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        // A page loaded before the first reference counts as referenced first: 0 means unknown.
        self.time = self.time.max(1);
        self.last.cover(page);
        let needed = (page.index() + 1) * self.k;
        if self.hist.len() < needed {
            self.hist.resize(needed, 0);
        }
        if self.time - self.last[page] > self.retained_refs {
            self.forget(page);
        }
        self.blocks.remove(&(self.last[page], page));
        let time = self.time;
        let hist = self.hist(page);
        hist.rotate_right(1);
        hist[0] = time;
        self.last[page] = time;
        self.candidates.insert(page, self.key(page));
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        let page = reference.page;
        self.time += 1;
        let (time, last) = (self.time, self.last[page]);
        let correlated = self.is_correlated(page);
        if !correlated {
            let hist = self.hist(page);
            let period = last - hist[0];
            hist.rotate_right(1);
            hist[0] = time;
            hist[1..].iter_mut().filter(|time| **time != 0).for_each(|time| *time += period);
        }
        self.last[page] = time;
    }

    fn remove(&mut self, page: PageId) {
        if self.last.get(page) != 0 {
            self.leave(page);
            self.forget(page);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let residents = self.candidates.len() + self.waiting.len();
        ensure!(residents <= self.frames, "{residents} pages resident");
        self.candidates.check(|page| self.key(page))?;
        self.waiting.check(|page| (self.last[page], self.last[page]))?;
        self.waiting_in_order.check(|page| self.key(page))?;
        for (page, last) in self.last.iter() {
            let [candidate, waits, waits_in_order] =
                [&self.candidates, &self.waiting, &self.waiting_in_order].map(|queue| queue.contains(page));
            ensure!(waits == waits_in_order && !(waits && candidate), "page {page} is in two states");
            let hist = &self.hist[page.index() * self.k..][..self.k];
            ensure!(hist[0] <= last && last <= self.time, "page {page}: HIST {hist:?}, LAST {last}");
            ensure!(hist.is_sorted_by(|newer, older| newer >= older), "page {page}: HIST {hist:?}");
        }
        let blocks = self.blocks.len();
        ensure!(blocks <= self.history_pages, "{blocks} blocks of non-resident pages");
        ensure!(
            self.blocks
                .iter()
                .all(|&(last, page)| last == self.last[page] && last != 0 && !self.is_resident(page)),
            "a block is kept for a page that is resident, or under another time"
        );
        Ok(())
    }
}

/// HIST\[K\] and LAST of a page.
#[inline]
fn key(hist: &[u64], k: usize, last: &PageMap<u64>, page: PageId) -> RisingKey {
    (hist[page.index() * k + k - 1], last[page])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, outcome, run};

    /// `page: HIST[1] HIST[2] (LAST)` of all known pages.
    fn blocks(machine: &Machine<Lru2>) -> String {
        let policy = machine.policy();
        let known = policy.last.iter().filter(|(_, last)| *last != 0);
        let block = |(page, last): (PageId, u64)| {
            format!(
                "{page}: {} {} ({last})",
                policy.hist[2 * page.index()],
                policy.hist[2 * page.index() + 1]
            )
        };
        known.map(block).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn histories_outlive_residence() {
        let mut machine = Machine::<Lru2>::new("lru-2", 2);
        let states = machine.trace(&[1, 2, 1, 3, 2], blocks);
        assert_eq!(
            states,
            [
                "1: 1 0 (1)",
                "1: 1 0 (1), 2: 2 0 (2)",
                "1: 3 1 (3), 2: 2 0 (2)",
                "1: 3 1 (3), 2: 2 0 (2), 3: 4 0 (4)", // 2 goes: seen once
                "1: 3 1 (3), 2: 5 2 (5), 3: 4 0 (4)", // 3 goes, and 2 has two references at once
            ]
        );
    }

    /// References at times 1 and 2 are correlated; the uncorrelated one at 5 moves HIST[1] by their
    /// distance.
    #[test]
    fn correlated_references_count_as_one() {
        let mut machine = Machine::<Lru2>::new("lru-2:crp=1", 3);
        let states = machine.trace(&[1, 1, 2, 3, 1], blocks);
        assert_eq!(states[1], "1: 1 0 (2)");
        assert_eq!(states[4], "1: 5 2 (5), 2: 3 0 (3), 3: 4 0 (4)");
    }

    /// With one page remembered, the earlier of two evicted pages is as if never seen.
    #[test]
    fn the_history_can_be_bounded() {
        let string = [1, 2, 1, 2, 3, 4, 1, 5];
        assert_eq!(outcome(&run("lru-2", &string, 2)), "6:1342");
        assert_eq!(outcome(&run("lru-2:history=0", &string, 2)), "6:1341");
        assert_eq!(outcome(&run("lru-2:retained=2", &string, 2)), "6:1341");
    }

    #[test]
    fn lru_1_is_lru() {
        crate::conformance::for_random_strings(|string, frames| {
            assert_eq!(run("lru-2:k=1", string, frames), run("lru", string, frames));
        });
    }
}
