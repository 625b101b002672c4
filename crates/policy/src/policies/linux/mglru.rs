//! MGLRU: generations of pages. The oldest generation is evicted, and a walk through the page
//! tables starts a new one.
//!
//! The multi-generational LRU of Linux as of version 6.14 (mm/vmscan.c, mm/workingset.c,
//! include/linux/mm_inline.h; Yu Zhao, "mm/mglru: rework workingset protection" and other patches
//! of December 2024), for one type of page that is reached through page tables only. There is no
//! paper.
//!
//! Generations are numbered by `min_seq` to `max_seq`. There are three of them. The rules,
//! with the kernel's functions:
//! - The two youngest generations are not evicted. When only they are left, because the oldest is
//!   empty (`try_to_inc_min_seq`), the pages are aged (`scan_folios`, `should_run_aging`): a walk
//!   reads all bits, and then a new, empty generation begins (`try_to_inc_max_seq`).
//! - A page found referenced for the first time is marked as referenced, and no more. Found
//!   referenced again, it belongs to the working set and to the generation that is the youngest
//!   then (`folio_update_gen`, `lru_gen_set_refs`).
//! - The walk does not move pages between lists. A page moves to the end of its generation's list
//!   when eviction comes to it (`sort_folio`).
//! - If eviction finds a bit set, the page goes to the youngest generation, or to the second
//!   youngest the first time (`lru_gen_folio_check_references`, `lru_gen_folio_seq`).
//! - A page faulted on enters the second youngest generation. It enters the youngest if it belonged
//!   to the working set when it was evicted and fewer than four generations lie between
//!   (`lru_gen_refault`, `lru_gen_test_recent`, `lru_gen_folio_seq`).
//!
//! `sightings=1` is the rule before December 2024: a page moves to the youngest generation the
//! first time, and evicted pages are not remembered.
//!
//! Left out: the kernel reclaims in batches, and ages ahead of need while three generations are
//! left if reclaim goes badly, or on kswapd's account. It looks for other referenced pages around
//! one that it finds referenced. Tiers are for files that are read and written. The access that
//! faults does not count as referenced here, as in our CLOCK (`init=1` counts it).
//!
//! Cost: hit nothing; fault amortised O(1) in references: a page that a walk passes without
//! finding it referenced is evicted, or found referenced, before the third walk after it. A walk
//! reads all bits, so a single fault can take O(M). `hand_steps` counts pages that are looked at,
//! by eviction or by the walk. 17 bytes a page seen.
//!
//! ```text
//!   insert: was in working set -->+
//!                                 |        insert: others -->+
//!                                 v                          v                            bit clear
//!   (oldest empty: walk) --> [ youngest ] ---aged---> [ 2nd youngest ] ---aged---> [ oldest ] --> evict
//!                                 ^                          ^                          |
//!                                 |                          +--- bit set for the first time
//!                                 +--- bit set again, found by eviction or by the walk
//! ```

use crate::arguments::Parameter;
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};

/// Generations that are never evicted (the kernel's `MIN_NR_GENS`).
const KEPT_GENERATIONS: u32 = 2;
/// Generations within which an evicted page's past counts (the kernel's `MAX_NR_GENS`).
const RECENT_GENERATIONS: u32 = 4;
/// Lists, one a generation: those that are kept and the one that is evicted.
const LISTS: usize = 3;

/// What is known of a page's references.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Seen {
    /// It was not found referenced, or that is too long ago.
    #[default]
    Never,
    /// It was found referenced once.
    Once,
    /// It was found referenced again: it belongs to the working set.
    Again,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Entry {
    /// The generation of a resident page; its list can be that of an older one. For a page that was
    /// evicted, `min_seq` at that time.
    generation: u32,
    seen: Seen,
}

impl Entry {
    /// Notes that the page was found referenced. Whether it belongs to the working set now.
    fn see(&mut self, sightings: u64) -> bool {
        self.seen = if self.seen == Seen::Never && sightings > 1 { Seen::Once } else { Seen::Again };
        self.seen == Seen::Again
    }
}

/// Multi-generational LRU.
#[derive(Debug)]
pub struct Mglru {
    frames: usize,
    /// The pages of generation g are in list g modulo 3, those that have been there longest in
    /// front.
    lists: Lists<LISTS>,
    entries: PageMap<Entry>,
    /// The oldest generation.
    min_seq: u32,
    /// The youngest generation.
    max_seq: u32,
    /// How often a page is found referenced until it belongs to the working set.
    sightings: u64,
    /// The bit of a new page.
    init: bool,
    /// Pages looked at.
    hand_steps: u64,
}

impl Registered for Mglru {
    const INFO: Info = Info {
        name: "mglru",
        summary: "generations of pages as in Linux's multi-generational LRU",
        paper: "Yu Zhao, Multi-Gen LRU, Linux 6.14 (mm/vmscan.c; Documentation/mm/multigen_lru.rst)",
        parameters: &[
            Parameter {
                name: "sightings",
                default: "2",
                meaning: "how often a page is found referenced until it moves to the youngest generation: 1 before Linux 6.14",
            },
            Parameter { name: "init", default: "0", meaning: "reference bit of a new page" },
            SETTLE,
        ],
        presets: &[],
    };
    const BYTES_A_PAGE: usize = 19;

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            lists: Lists::new(),
            entries: PageMap::new(),
            min_seq: 0,
            max_seq: KEPT_GENERATIONS,
            sightings: arguments.whole("sightings", 1..=2)?,
            init: arguments.whole("init", 0..=1)? == 1,
            hand_steps: 0,
        })
    }
}

fn list_of_generation(generation: u32) -> usize {
    generation as usize % LISTS
}

impl Mglru {
    fn residents(&self) -> usize {
        (0..LISTS).map(|list| self.lists.len(list)).sum()
    }

    /// Moves a page to the end of its generation's list.
    fn sort(&mut self, page: PageId) {
        self.lists.remove(page);
        self.lists.push_back(list_of_generation(self.entries[page].generation), page);
    }

    /// The oldest generation is empty: the walk, and a new generation.
    fn age<M: Mmu>(&mut self, mmu: &mut M) {
        self.min_seq += 1;
        for generation in self.min_seq..=self.max_seq {
            for page in self.lists.iter(list_of_generation(generation)) {
                self.hand_steps += 1;
                if mmu.test_and_clear_referenced(page) && self.entries[page].see(self.sightings) {
                    self.entries[page].generation = self.max_seq;
                }
            }
        }
        self.max_seq += 1;
    }
}

impl Policy for Mglru {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let residents = self.residents();
        if residents == 0 {
            return None;
        }
        // The first walk clears all bits. Then each page moves to its generation's list at most
        // once more, and before the fourth further walk eviction comes to every page.
        for _ in 0..3 * residents + 8 {
            let oldest = list_of_generation(self.min_seq);
            let Some(page) = self.lists.front(oldest) else {
                self.age(mmu);
                continue;
            };
            self.hand_steps += 1;
            if self.entries[page].generation == self.min_seq {
                if !mmu.test_and_clear_referenced(page) {
                    return Some(page);
                }
                let young = self.entries[page].see(self.sightings);
                self.entries[page].generation = self.max_seq - u32::from(!young);
            }
            self.sort(page);
        }
        unreachable!("all bits are clear after a walk")
    }

    fn evict(&mut self, page: PageId) {
        self.lists.remove(page);
        if self.sightings == 1 {
            self.entries[page] = Entry::default();
        } else {
            self.entries[page].generation = self.min_seq;
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        let Entry { generation, seen } = self.entries.get(page);
        let in_working_set = seen == Seen::Again && self.max_seq - generation < RECENT_GENERATIONS;
        let entry = if in_working_set {
            Entry { generation: self.max_seq, seen }
        } else {
            Entry { generation: self.max_seq - 1, seen: Seen::Never }
        };
        self.entries.set(page, entry);
        self.sort(page);
        self.init
    }

    fn remove(&mut self, page: PageId) {
        self.lists.remove(page);
        if self.entries.get(page) != Entry::default() {
            self.entries[page] = Entry::default();
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let residents = self.residents();
        ensure!(residents <= self.frames, "{residents} pages resident");
        let (min, max) = (self.min_seq, self.max_seq);
        ensure!(max - min == KEPT_GENERATIONS, "generations {min} to {max}");
        for listed in min..=max {
            for page in self.lists.iter(list_of_generation(listed)) {
                let Entry { generation, .. } = self.entries[page];
                let in_range = (listed..=max).contains(&generation);
                ensure!(in_range, "page {page} of generation {generation} is listed in {listed}");
            }
        }
        for (page, entry) in self.entries.iter() {
            let resident = self.lists.list_of(page).is_some();
            ensure!(resident || entry.generation <= min, "page {page} left in {entry:?}");
        }
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// `oldest | second youngest | youngest`: the lists. `*` marks a set bit, `+` a page found
    /// referenced once, `w` one of the working set, `>` one that is in its list only until eviction
    /// comes to it.
    fn states(spec: &str, frames: usize, references: &[u32]) -> Vec<String> {
        let mut machine = Machine::<Mglru>::new(spec, frames);
        machine.trace(references, |machine| {
            let mglru = machine.policy();
            let list = |generation| {
                let show = |page: PageId| {
                    let entry = mglru.entries[page];
                    let seen = match entry.seen {
                        Seen::Never => "",
                        Seen::Once => "+",
                        Seen::Again => "w",
                    };
                    let bit = if machine.is_referenced(page) { "*" } else { "" };
                    let moves = if entry.generation == generation { "" } else { ">" };
                    format!("{page}{seen}{bit}{moves}")
                };
                mglru.lists.iter(list_of_generation(generation)).map(show).collect::<Vec<_>>().join(" ")
            };
            (mglru.min_seq..=mglru.max_seq).map(list).collect::<Vec<_>>().join(" | ")
        })
    }

    #[test]
    fn follows_the_worked_example() {
        let states = states("mglru", 3, &[1, 2, 3, 1, 4, 1, 5, 1, 6, 1, 7, 8, 9, 2, 1]);
        assert_eq!(
            states,
            [
                " | 1 | ",
                " | 1 2 | ",
                " | 1 2 3 | ",
                " | 1* 2 3 | ",
                "2 3 | 4 | ", // the walk sees 1 for the first time; that does not save it
                "3 | 4 1 | ",
                " | 4 1 5 | ",
                " | 4 1* 5 | ",
                "1+ 5 | 6 | ",
                "1+* 5 | 6 | ",
                " | 6 7 | 1w", // eviction finds 1 referenced again; 5 goes
                "7 | 1w 8 | ",
                " | 1w 8 9 | ",
                "8 9 | 2 | ",
                "9 | 2 | 1w", // 1 is back soon, and belongs to the working set
            ]
        );
    }

    #[test]
    fn one_sighting_is_enough_before_linux_6_14() {
        let states = states("mglru:sightings=1", 3, &[1, 2, 3, 3, 4, 5, 6]);
        assert_eq!(
            states,
            [
                " | 1 | ",
                " | 1 2 | ",
                " | 1 2 3 | ",
                " | 1 2 3* | ",
                "2 3w> | 4 | ", // the walk sees 3; 1 goes
                "3w> | 4 5 | ",
                "5 3w | 6 | ", // 3 moves, the oldest is empty, the pages are aged; 4 goes
            ]
        );
    }
}
