//! Hyperbolic caching: evicts the page with the fewest references for the time it has been in
//! memory.
//!
//! Paper: A. Blankstein, S. Sen, M. J. Freedman, "Hyperbolic caching: flexible caching for web
//! applications", USENIX ATC 2017, sections 2 and 3.
//!
//! A page's priority is its number of references since it came in, divided by the time since then.
//! Priorities of different pages fall at different rates, so no order of pages holds for long. Each
//! eviction looks at `sample` pages drawn at random, and the one with the lowest priority goes.
//!
//! Choices where the paper is silent: time counts references. The reference that loads the page
//! counts. Of equal priorities, the page that came in first goes. A page may be drawn twice. If
//! memory has no more than `sample` pages, all are looked at and nothing is drawn. Pages all cost
//! the same and have the same size. The paper's treatment of expiring and of related items is left
//! out. An evicted page is forgotten.
//!
//! Cost: hit O(1); fault O(`sample`). 20 bytes a page seen, and 4 a frame. `hand_steps` counts the
//! pages looked at.
//!
//! ```text
//!   insert: n = 1, t0 = now --> [ resident ] -- lowest n / (now - t0) of the pages drawn --> evict
//!                                 |      ^
//!                                 +------+ hit: n + 1
//! ```

use crate::arguments::Parameter;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::policies::recency::random::{SEED, generator};
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, SplitMix64, Violation,
};
use alloc::vec::Vec;

/// What is known of a resident page; stale for others.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// References since the page came in, with the one that loaded it.
    references: u64,
    /// The time of that one.
    since: u64,
}

/// Hyperbolic caching.
#[derive(Debug)]
pub struct Hyperbolic {
    frames: usize,
    /// Resident pages by place.
    resident: Vec<PageId>,
    /// 1 + the place of each page; 0 for pages that are not resident.
    place: PageMap<u32>,
    entries: PageMap<Entry>,
    /// Pages drawn for an eviction.
    sample: usize,
    random: SplitMix64,
    /// References so far.
    time: u64,
    /// Pages looked at.
    hand_steps: u64,
}

impl Registered for Hyperbolic {
    const INFO: Info = Info {
        name: "hyperbolic",
        summary: "evicts the page with the fewest references for its time in memory, of a sample",
        paper: "Blankstein, Sen, Freedman, Hyperbolic caching, USENIX ATC 2017",
        parameters: &[
            Parameter { name: "sample", default: "64", meaning: "pages looked at for an eviction" },
            SEED,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            resident: Vec::new(),
            place: PageMap::new(),
            entries: PageMap::new(),
            sample: arguments.whole("sample", 1..=1 << 20)? as usize,
            random: generator(arguments)?,
            time: 0,
            hand_steps: 0,
        })
    }
}

impl Hyperbolic {
    /// Whether `page` goes before `other`: it has the lower priority, or came in first.
    fn goes_before(&self, page: PageId, other: PageId) -> bool {
        let [left, right] = [page, other].map(|page| {
            let Entry { references, since } = self.entries[page];
            (u128::from(references), u128::from(self.time - since), since)
        });
        // A page that came in with the latest reference has an infinite priority.
        let (left_product, right_product) = (left.0 * right.1, right.0 * left.1);
        left_product < right_product || left_product == right_product && left.2 < right.2
    }
}

impl Policy for Hyperbolic {
    type Model = ExactModel;

    fn fault(&mut self, _: Reference) {
        self.time += 1;
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let pages = self.resident.len();
        let looked_at = pages.min(self.sample);
        let mut lowest: Option<PageId> = None;
        for draw in 0..looked_at {
            let place = if pages > self.sample { self.random.below(pages as u64) as usize } else { draw };
            let page = self.resident[place];
            if lowest.is_none_or(|lowest| self.goes_before(page, lowest)) {
                lowest = Some(page);
            }
        }
        self.hand_steps += looked_at as u64;
        lowest
    }

    fn evict(&mut self, page: PageId) {
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.resident.push(reference.page);
        self.place.set(reference.page, self.resident.len() as u32);
        self.entries.set(reference.page, Entry { references: 1, since: self.time });
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.time += 1;
        self.entries[reference.page].references += 1;
    }

    fn remove(&mut self, page: PageId) {
        let Some(place) = self.place.get(page).checked_sub(1) else { return };
        self.place[page] = 0;
        self.resident.swap_remove(place as usize);
        if let Some(&moved) = self.resident.get(place as usize) {
            self.place[moved] = place + 1;
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
        for (place, &page) in (1..).zip(&self.resident) {
            let known = self.place[page];
            ensure!(known == place, "page {page} is at place {place} and known at {known} (from 1)");
            let Entry { references, since } = self.entries[page];
            let possible = since <= self.time && (1..=self.time - since + 1).contains(&references);
            ensure!(possible, "page {page}: {references} references since {since}, now {}", self.time);
        }
        let known = self.place.iter().filter(|(_, place)| *place != 0).count();
        ensure!(known == self.resident.len(), "{known} pages have a place");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E1, Machine, outcome, run};

    /// Pages by place with references and the time since they came in.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Hyperbolic>::new("hyperbolic", 3);
        let states = machine.trace(&[1, 1, 1, 2, 3, 4, 2, 5], |machine| {
            let policy = machine.policy();
            let show = |&page: &PageId| {
                let Entry { references, since } = policy.entries[page];
                format!("{page}:{references}/{}", policy.time - since)
            };
            policy.resident.iter().map(show).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "1:1/0",
                "1:2/1",
                "1:3/2",
                "1:3/3 2:1/0",
                "1:3/4 2:1/1 3:1/0",
                // At this time 1 has 3/5, 2 has 1/2 and 3 has 1/1: 2 goes, 3 takes its place.
                "1:3/5 3:1/1 4:1/0",
                // 1 has 3/6, 3 has 1/2, equal, and 4 has 1/1: 1 came in first, and goes.
                "4:1/1 3:1/2 2:1/0",
                // 4 has 1/2, 3 has 1/3 and 2 has 1/1: 3 goes.
                "4:1/2 2:1/1 5:1/0",
            ]
        );
    }

    #[test]
    fn a_sample_of_one_is_random() {
        assert_eq!(outcome(&run("hyperbolic:sample=1", E1, 1)), outcome(&run("fifo", E1, 1)));
        assert_ne!(
            outcome(&run("hyperbolic:sample=1", E1, 3)),
            outcome(&run("hyperbolic:sample=1,seed=2", E1, 3))
        );
    }
}
