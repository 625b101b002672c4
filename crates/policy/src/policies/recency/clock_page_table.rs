//! Page-table clock: a hand over page numbers instead of frames.
//!
//! A reconstruction of the CLOCK column of Tables 1 and 2 of S. Jiang, F. Chen, X. Zhang,
//! "CLOCK-Pro: an effective improvement of the CLOCK replacement", USENIX ATC 2005. No textbook
//! CLOCK gives that column. This policy comes nearer than all of them, though not exactly, and is
//! here for comparison.
//!
//! The hand walks the page numbers in ascending order, cyclically, and looks at resident pages
//! only. Every page number keeps one bit for good. The bit is set at first. Hits set it, the
//! passing hand clears it, and loading does not change it. So a page is spared once after its first
//! load and not after later ones.
//!
//! Cost: hit nothing; fault O(log M) for every page passed. `hand_steps` counts resident pages
//! looked at. 8 bytes a page seen, and tree nodes for the resident pages.

use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};
use alloc::collections::BTreeSet;

/// A page's place in the order of page numbers. 12 bytes: there are many.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    number: u64,
    /// Tells pages of the same number apart.
    page: PageId,
}

impl Place {
    /// The place just after this one.
    fn after(self) -> Self {
        Self { page: PageId(self.page.0 + 1), ..self }
    }
}

/// CLOCK in page number order.
#[derive(Debug)]
pub struct ClockPageTable {
    frames: usize,
    /// Resident pages in page number order.
    resident: BTreeSet<Place>,
    /// Of each page, 1 + its number in the address space; 0 if it has not been loaded in this life.
    known: PageMap<u64>,
    /// The first place that the hand has not passed on this turn.
    hand: Place,
    /// Resident pages looked at by the hand.
    hand_steps: u64,
}

impl ClockPageTable {
    /// The place of a page that has been loaded.
    fn place(&self, page: PageId) -> Option<Place> {
        self.known.get(page).checked_sub(1).map(|number| Place { number, page })
    }
}

impl Registered for ClockPageTable {
    const INFO: Info = Info {
        name: "clock-page-table",
        summary: "CLOCK whose hand walks page numbers: the nearest to CLOCK-Pro's Tables 1 and 2",
        paper: "reconstructed from Jiang, Chen, Zhang, CLOCK-Pro, USENIX ATC 2005, Tables 1-2",
        parameters: &[SETTLE],
        presets: &[],
    };
    const BYTES_A_PAGE: usize = 22;

    fn configure(frames: usize, _: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            resident: BTreeSet::new(),
            known: PageMap::new(),
            hand: Place { number: 0, page: PageId(0) },
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
            candidate = Some(self.hand.page);
            if !mmu.test_and_clear_referenced(self.hand.page) {
                break;
            }
            self.hand = self.hand.after();
        }
        candidate
    }

    fn evict(&mut self, page: PageId) {
        if let Some(place) = self.place(page) {
            self.resident.remove(&place);
            self.hand = place.after();
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let Reference { page, page_number: number, .. } = reference;
        // A page goes with its bit clear, so that is what it comes back with.
        let first_load = self.known.get(page) == 0;
        self.known.set(page, 1 + number);
        self.resident.insert(Place { number, page });
        first_load
    }

    fn remove(&mut self, page: PageId) {
        if let Some(place) = self.place(page) {
            self.resident.remove(&place);
            self.known[page] = 0;
        }
    }

    /// The bit goes along.
    fn renumber(&mut self, page: PageId, page_number: u64) {
        if let Some(place) = self.place(page) {
            self.known[page] = 1 + page_number;
            if self.resident.remove(&place) {
                self.resident.insert(Place { number: page_number, page });
            }
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
        for place in &self.resident {
            ensure!(self.place(place.page) == Some(*place), "a page is resident at {place:?}");
        }
        Ok(())
    }
}
