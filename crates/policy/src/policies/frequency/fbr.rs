//! FBR: LRU that evicts, among the pages not used for a while, the one used least often.
//!
//! Paper: J. T. Robinson, M. V. Devarakonda, "Data cache management using frequency-based
//! replacement", ACM SIGMETRICS 1990.
//!
//! An LRU stack has three sections: new (its top), middle and old (its bottom). A reference to a
//! page in the new section does not count, because it correlates with the one before. A reference
//! to any other page counts. The victim is the page of the old section with the smallest count.
//! When counts average more than `max-average`, all are halved.
//!
//! Choices where the paper is silent: the sections are 25 % (new, rounded down) and 60 % of memory
//! (old, rounded up, at least 1); middle is the rest. Halving rounds up, so a count is never 0.
//! Recency breaks ties. The paper looks for the smallest count up to a limit (C_max) only; if
//! all counts are larger, the least recently used page goes. The tree here needs no such limit, so
//! the smallest count decides always. While frames are free the sections are filled from the top,
//! and the lowest section with pages gives the victim.
//!
//! A model written for the comparison has the faults of this policy in 10 of 10 cells of cpp and
//! glimpse. With a limit of 8, 9 cells stay the same, and cpp in 122 frames takes 1,898 faults
//! instead of 1,959. The crate `fbr_cache` (0.1.1) also counts from 0 and halves downwards, with
//! sections of 30 % (new) and 25 % (old). A model of it takes 1,981 faults in that cell, where
//! the rules here with its sections take 1,952; the other 9 are equal.
//!
//! Cost: hit and fault O(log M); halving O(M log M), once in more than M/2 hits. 25 bytes a page
//! seen, and tree nodes for the old section.
//!
//! ```text
//!   insert, hit --> [ new: no count ] --> [ middle: count + 1 ] --> [ old: count + 1 ] --> evict the smallest count
//!                        ^--------- hit ---------+----------------------+
//! ```

use crate::arguments::{Parameter, Rounding};
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::collections::BTreeSet;

const NEW: usize = 0;
const MIDDLE: usize = 1;
const OLD: usize = 2;

/// What is known of a resident page; stale for others.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    count: u32,
    /// Time of the last reference.
    last: u64,
}

/// Frequency-based replacement.
#[derive(Debug)]
pub struct Fbr {
    frames: usize,
    /// The sections of the stack, the least recently used page in front.
    lists: Lists<3>,
    entries: PageMap<Entry>,
    /// The old section by count and last reference.
    old: BTreeSet<(u32, u64, PageId)>,
    /// Lengths of the new and the middle section while memory is full.
    section_pages: [usize; 2],
    /// Sum of the counts of resident pages.
    sum: u64,
    /// The average count above which counts are halved.
    max_average: u64,
    /// References so far.
    time: u64,
}

impl Registered for Fbr {
    const INFO: Info = Info {
        name: "fbr",
        summary: "evicts the least often used of the pages not used lately",
        paper: "Robinson, Devarakonda, Data cache management using frequency-based replacement, SIGMETRICS 1990",
        parameters: &[
            Parameter { name: "new", default: "25%", meaning: "section where references do not count" },
            Parameter { name: "old", default: "60%", meaning: "section that gives up pages" },
            Parameter {
                name: "max-average",
                default: "100",
                meaning: "average count above which all are halved, 2 or more",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let new = arguments.pages("new", frames, Rounding::Down)?.min(frames - 1);
        let old = arguments.pages("old", frames, Rounding::Up)?.clamp(1, frames - new);
        Ok(Self {
            frames,
            lists: Lists::new(),
            entries: PageMap::new(),
            old: BTreeSet::new(),
            section_pages: [new, frames - new - old],
            sum: 0,
            max_average: arguments.whole("max-average", 2..=1 << 31)?,
            time: 0,
        })
    }
}

impl Fbr {
    fn key(&self, page: PageId) -> (u32, u64, PageId) {
        let Entry { count, last } = self.entries[page];
        (count, last, page)
    }

    /// Takes a page out of its section. With `push`, the only place where sections change.
    fn pull(&mut self, page: PageId) {
        if self.lists.remove(page) == Some(OLD) {
            self.old.remove(&self.key(page));
        }
    }

    /// Puts a page at the recent end of a section, or at the other one.
    fn push(&mut self, section: usize, page: PageId, recent: bool) {
        if recent {
            self.lists.push_back(section, page);
        } else {
            self.lists.push_front(section, page);
        }
        if section == OLD {
            self.old.insert(self.key(page));
        }
    }

    /// Moves pages across the borders until the new and the middle section have their lengths
    /// again, as far as there are pages.
    fn rebalance(&mut self) {
        for section in [NEW, MIDDLE] {
            while self.lists.len(section) > self.section_pages[section]
                && let Some(page) = self.lists.front(section)
            {
                self.pull(page);
                self.push(section + 1, page, true);
            }
            while self.lists.len(section) < self.section_pages[section]
                && let Some(page) = (section + 1..=OLD).find_map(|lower| self.lists.back(lower))
            {
                self.pull(page);
                self.push(section, page, false);
            }
        }
    }

    /// Halves all counts if they are too large on average.
    fn age(&mut self) {
        let residents: usize = [NEW, MIDDLE, OLD].map(|section| self.lists.len(section)).iter().sum();
        if self.sum <= self.max_average * residents as u64 {
            return;
        }
        self.sum = 0;
        self.old.clear();
        for section in [NEW, MIDDLE, OLD] {
            for page in self.lists.iter(section) {
                let entry = &mut self.entries[page];
                entry.count = entry.count.div_ceil(2);
                self.sum += u64::from(entry.count);
                if section == OLD {
                    self.old.insert((entry.count, entry.last, page));
                }
            }
        }
    }
}

impl Policy for Fbr {
    type Model = ExactModel;

    fn fault(&mut self, _: Reference) {
        self.time += 1;
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let least = self.old.first().map(|&(.., page)| page);
        least.or_else(|| self.lists.front(MIDDLE)).or_else(|| self.lists.front(NEW))
    }

    fn evict(&mut self, page: PageId) {
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.entries.set(reference.page, Entry { count: 1, last: self.time });
        self.sum += 1;
        self.push(NEW, reference.page, true);
        self.rebalance();
        false
    }

    fn hit(&mut self, reference: Reference) {
        let page = reference.page;
        self.time += 1;
        let counts = self.lists.list_of(page) != Some(NEW);
        self.pull(page);
        self.entries[page].last = self.time;
        self.entries[page].count += u32::from(counts);
        self.sum += u64::from(counts);
        self.push(NEW, page, true);
        self.rebalance();
        if counts {
            self.age();
        }
    }

    fn remove(&mut self, page: PageId) {
        if self.lists.list_of(page).is_some() {
            self.pull(page);
            self.sum -= u64::from(self.entries[page].count);
            self.rebalance();
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let [new, middle, old] = [NEW, MIDDLE, OLD].map(|section| self.lists.len(section));
        ensure!(new + middle + old <= self.frames, "{new} + {middle} + {old} pages resident");
        let [most_new, most_middle] = self.section_pages;
        ensure!(new == most_new || (new < most_new && middle + old == 0), "new section of {new} pages");
        ensure!(middle == most_middle || (middle < most_middle && old == 0), "middle section of {middle}");
        let mut sum = 0;
        let mut last = u64::MAX;
        for section in [NEW, MIDDLE, OLD] {
            let pages: alloc::vec::Vec<_> = self.lists.iter(section).collect();
            for &page in pages.iter().rev() {
                let entry = self.entries[page];
                sum += u64::from(entry.count);
                ensure!(entry.count >= 1, "page {page}: {entry:?}");
                ensure!(entry.last <= last, "page {page} is above a page used later");
                last = entry.last;
                let is_filed = self.old.contains(&self.key(page));
                ensure!(is_filed == (section == OLD), "page {page} is in the wrong section");
            }
        }
        ensure!(sum == self.sum, "counts add up to {sum}, not {}", self.sum);
        ensure!(self.old.len() == old, "{} pages filed as old, {old} in the section", self.old.len());
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `new | middle | old`, least recent first, each page with its count.
    fn state(machine: &Machine<Fbr>) -> String {
        let fbr = machine.policy();
        let show = |page: PageId| format!("{page}:{}", fbr.entries[page].count);
        let list = |list| fbr.lists.iter(list).map(show).collect::<Vec<_>>().join(" ");
        [NEW, MIDDLE, OLD].map(list).join(" | ")
    }

    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Fbr>::new("fbr:old=2", 4);
        let states = machine.trace(&[1, 2, 3, 4, 4, 1, 3, 5, 6], state);
        assert_eq!(
            states,
            [
                "1:1 |  | ",
                "2:1 | 1:1 | ",
                "3:1 | 2:1 | 1:1",
                "4:1 | 3:1 | 1:1 2:1",
                "4:1 | 3:1 | 1:1 2:1", // in the new section: no count
                "1:2 | 4:1 | 2:1 3:1",
                "3:2 | 1:2 | 2:1 4:1",
                "5:1 | 3:2 | 4:1 1:2", // 2 goes: least recent of those with 1
                "6:1 | 5:1 | 1:2 3:2", // 4 goes, though used later than 1 was counted
            ]
        );
    }

    #[test]
    fn counts_are_halved_when_they_average_too_much() {
        let mut machine = Machine::<Fbr>::new("fbr:max-average=2", 2);
        let states = machine.trace(&[1, 2, 1, 2, 1, 2], state);
        assert_eq!(states[3], " |  | 1:2 2:2");
        assert_eq!(states[4], " |  | 2:1 1:2"); // 3 + 2 > 2 x 2
    }
}
