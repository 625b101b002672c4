//! Page-table clock: a hand over page numbers instead of frames.
//!
//! A reconstruction of the CLOCK column of Tables 1 and 2 of S. Jiang, F. Chen, X. Zhang, "CLOCK-Pro: an effective
//! improvement of the CLOCK replacement", USENIX ATC 2005, which no textbook CLOCK matches. It comes nearer than
//! all of those, though not exactly, and is here for comparison.
//!
//! The hand walks the page numbers in ascending order, cyclically, and looks at resident pages only. Every page
//! number has one bit for good: set at first, set by hits, cleared when the hand passes, and not touched by
//! loading. So a page is spared once after its first load and not after later ones.
//!
//! Cost: hit nothing; fault O(log M) for every page passed. `hand_steps` counts resident pages looked at.

use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registry::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};
use alloc::collections::BTreeSet;

/// What is remembered of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Its number in the address space.
    number: u64,
    /// Whether it has been loaded in this life.
    known: bool,
}

/// CLOCK in page number order.
#[derive(Debug)]
pub struct ClockPageTable {
    frames: usize,
    /// Resident pages in page number order.
    resident: BTreeSet<(u64, PageId)>,
    entries: PageMap<Entry>,
    /// The first place that the hand has not passed on this turn.
    hand: (u64, PageId),
    /// Resident pages looked at by the hand.
    hand_steps: u64,
}

impl Registered for ClockPageTable {
    const INFO: Info = Info {
        name: "clock-page-table",
        summary: "CLOCK whose hand walks page numbers: the nearest to CLOCK-Pro's Tables 1 and 2",
        paper: "reconstructed from Jiang, Chen, Zhang, CLOCK-Pro, USENIX ATC 2005, Tables 1-2",
        parameters: &[],
        presets: &[],
    };

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            resident: BTreeSet::new(),
            entries: PageMap::new(),
            hand: (0, PageId(0)),
            hand_steps: 0,
        })
    }
}

impl Policy for ClockPageTable {
    type Model = VmModel;
    const NEEDS_PAGE_NUMBERS: bool = true;

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        let mut candidate = None;
        for _ in 0..=2 * self.resident.len() {
            self.hand = *self.resident.range(self.hand..).next().or_else(|| self.resident.first())?;
            self.hand_steps += 1;
            candidate = Some(self.hand.1);
            if !mmu.test_and_clear_referenced(self.hand.1) {
                break;
            }
            self.hand = after(self.hand);
        }
        candidate
    }

    fn evict(&mut self, page: PageId) {
        let place = (self.entries[page].number, page);
        self.resident.remove(&place);
        self.hand = after(place);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let Reference { page, page_number: number, .. } = reference;
        // A page goes with its bit clear, so that is what it comes back with.
        let first_load = !self.entries.get(page).known;
        self.entries.set(page, Entry { number, known: true });
        self.resident.insert((number, page));
        first_load
    }

    fn remove(&mut self, page: PageId) {
        let entry = self.entries.get(page);
        if entry.known {
            self.resident.remove(&(entry.number, page));
            self.entries[page] = Entry::default();
        }
    }

    /// The bit goes along.
    fn renumber(&mut self, page: PageId, page_number: u64) {
        let Entry { number, known } = self.entries.get(page);
        if known {
            self.entries[page].number = page_number;
            if self.resident.remove(&(number, page)) {
                self.resident.insert((page_number, page));
            }
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
        for &(number, page) in &self.resident {
            let entry = self.entries[page];
            ensure!(entry.known && entry.number == number, "page {page} is resident as number {number}");
        }
        Ok(())
    }
}

/// The place just after one.
fn after((number, page): (u64, PageId)) -> (u64, PageId) {
    (number, PageId(page.0 + 1))
}
