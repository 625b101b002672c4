//! W-TinyLFU: new pages enter a small window. A page moves from the window to the main memory only
//! if it is used more often than the page that it would replace.
//!
//! Paper: G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache admission policy",
//! ACM Transactions on Storage 13(4), 2017.
//!
//! Pages come into an LRU window (1 % of memory). The page that overflows it is the candidate for
//! the main part, a segmented LRU. The candidate is admitted if it was referenced more often lately
//! than the page that the main part would evict. Otherwise it is evicted itself. A hit on probation
//! brings a page into the protected segment, whose overflow goes back to probation.
//!
//! Frequencies are counted up to 15. When the number of references counted reaches `sample` x M, it
//! and all frequencies are halved (the paper's reset). So every halving but the first comes
//! `sample` / 2 x M references after the one before.
//!
//! Different from the paper: each page has a counter of its own, where the paper has a sketch of
//! shared counters. Pages have dense ids, so this takes 8 bytes a page, hashes nothing and confuses
//! no two pages. Choices where the paper is silent: ties reject the candidate. When a page comes
//! in, the candidate is the oldest page of the window (never the page itself, because the window
//! has at least one frame).
//!
//! Cost: hit and fault O(1): counters are halved when they are next read.
//!
//! ```text
//!   insert --> [ window: LRU ] --- oldest: more often used than the oldest on probation? no --> evict
//!                                    | yes (or main not full)
//!                                    v
//!              evict <--- [ probation ] -- hit --> [ protected ] (hit: to the recent end)
//!                                  ^---- overflow ------+
//! ```

use crate::arguments::{Parameter, Rounding};
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// The largest frequency: four bits.
const MOST: u8 = 15;

/// How often a page was referenced.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u8,
    /// How often all counters had been halved when this one was written.
    halvings: u32,
}

/// W-TinyLFU.
#[derive(Debug)]
pub struct WTinyLfu {
    frames: usize,
    /// All with the least recently used page in front.
    lists: Lists<3>,
    window_pages: usize,
    protected_pages: usize,
    counters: PageMap<Counter>,
    /// References counted, halved together with the counters.
    counted: u64,
    /// The number of references counted at which all is halved.
    sample_refs: u64,
    halvings: u32,
}

impl Registered for WTinyLfu {
    const INFO: Info = Info {
        name: "w-tinylfu",
        summary: "admits a page behind a small window only if used more often than the page to evict",
        paper: "Einziger, Friedman, Manes, TinyLFU, ACM Transactions on Storage 13(4), 2017",
        parameters: &[
            Parameter { name: "window", default: "1%", meaning: "length of the window, at least a page" },
            Parameter {
                name: "protected",
                default: "80%",
                meaning: "the protected share of memory behind the window",
            },
            Parameter {
                name: "sample",
                default: "10",
                meaning: "references counted when all counts are halved, as a multiple of memory",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let window_pages = arguments.pages("window", frames, Rounding::Down)?.clamp(1, frames);
        let main_pages = frames - window_pages;
        let protected_pages = arguments.pages("protected", main_pages, Rounding::Down)?.min(main_pages);
        Ok(Self {
            frames,
            lists: Lists::new(),
            window_pages,
            protected_pages,
            counters: PageMap::new(),
            counted: 0,
            sample_refs: ((arguments.factor("sample")? * frames as f64) as u64).max(1),
            halvings: 0,
        })
    }
}

impl WTinyLfu {
    fn frequency(&self, page: PageId) -> u8 {
        let Counter { count, halvings } = self.counters.get(page);
        count.checked_shr(self.halvings - halvings).unwrap_or(0)
    }

    /// Counts a reference.
    fn count(&mut self, page: PageId) {
        let count = (self.frequency(page) + 1).min(MOST);
        self.counters.set(page, Counter { count, halvings: self.halvings });
        self.counted += 1;
        if self.counted >= self.sample_refs {
            self.counted /= 2;
            self.halvings += 1;
        }
    }

    fn move_to_back(&mut self, list: usize, page: PageId) {
        self.lists.remove(page);
        self.lists.push_back(list, page);
    }
}

impl Policy for WTinyLfu {
    type Model = ExactModel;

    fn fault(&mut self, reference: Reference) {
        self.count(reference.page);
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let candidate = self.lists.front(WINDOW);
        let main = self.lists.front(PROBATION).or_else(|| self.lists.front(PROTECTED));
        match (candidate, main) {
            (Some(candidate), Some(main)) if self.frequency(candidate) > self.frequency(main) => Some(main),
            (candidate, main) => candidate.or(main),
        }
    }

    fn evict(&mut self, page: PageId) {
        self.lists.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.lists.push_back(WINDOW, reference.page);
        // If the candidate was admitted, or memory is not full, there is room for it behind the
        // window.
        if self.lists.len(WINDOW) > self.window_pages
            && let Some(oldest) = self.lists.front(WINDOW)
        {
            self.move_to_back(PROBATION, oldest);
        }
        false
    }

    fn hit(&mut self, reference: Reference) {
        let page = reference.page;
        self.count(page);
        if self.lists.list_of(page) == Some(WINDOW) {
            self.lists.move_to_back(WINDOW, page);
            return;
        }
        self.move_to_back(PROTECTED, page);
        if self.lists.len(PROTECTED) > self.protected_pages
            && let Some(oldest) = self.lists.front(PROTECTED)
        {
            self.move_to_back(PROBATION, oldest);
        }
    }

    fn remove(&mut self, page: PageId) {
        self.lists.remove(page);
        if self.counters.get(page).count > 0 {
            self.counters[page] = Counter::default();
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let [window, probation, protected] = [WINDOW, PROBATION, PROTECTED].map(|list| self.lists.len(list));
        ensure!(window <= self.window_pages, "{window} pages in the window");
        let main = self.frames - self.window_pages;
        ensure!(probation + protected <= main, "{probation} + {protected} pages behind the window");
        ensure!(protected <= self.protected_pages, "{protected} pages protected");
        ensure!(self.counters.iter().all(|(_, counter)| counter.count <= MOST), "a counter is above {MOST}");
        self.lists.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, run};

    /// `window | probation | protected`, oldest first, each page with its frequency.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<WTinyLfu>::new("w-tinylfu", 3);
        let states = machine.trace(&[1, 2, 3, 4, 3, 3, 5, 3], |machine| {
            let policy = machine.policy();
            let show = |page| format!("{page}:{}", policy.frequency(page));
            let list = |list| policy.lists.iter(list).map(show).collect::<Vec<_>>().join(" ");
            [WINDOW, PROBATION, PROTECTED].map(list).join(" | ")
        });
        assert_eq!(
            states,
            [
                "1:1 |  | ",
                "2:1 | 1:1 | ",
                "3:1 | 1:1 2:1 | ",
                "4:1 | 1:1 2:1 | ", // 3 is not used more often than 1
                "3:2 | 1:1 2:1 | ", // nor is 4
                "3:3 | 1:1 2:1 | ",
                "5:1 | 2:1 3:3 | ", // 3 is
                "5:1 | 2:1 | 3:4",
            ]
        );
    }

    /// All counts are halved when 10 references are counted with one frame, the number of
    /// references too: 5 more do it again.
    #[test]
    fn frequencies_and_the_number_of_references_are_halved_together() {
        let mut machine = Machine::<WTinyLfu>::new("w-tinylfu", 1);
        let counts = machine.trace(&[7; 16], |machine| machine.policy().frequency(PageId(7)).to_string());
        let expected = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "5", "6", "7", "8", "9", "5", "6"];
        assert_eq!(counts, expected);
    }

    /// The window has a frame at least, so the page just loaded always stays until the next fault.
    #[test]
    fn the_page_just_loaded_is_not_rejected() {
        let steps = run("w-tinylfu", &[1, 1, 1, 2, 2, 3], 1);
        assert_eq!(steps.iter().map(|step| step.victim).collect::<Vec<_>>()[3..], [Some(1), None, Some(2)]);
    }
}
