//! Moves what a program has not used for a while from a zram device to the disk.
//!
//! The kernel itself can only switch the device off, which brings all of its pages back to memory,
//! and drives out others that are in use. Here each page that stays away for some looks is brought
//! back from outside and paged out again at once, when the kernel already prefers an area on the
//! disk. So memory has a few of them at a time.

use rustc_hash::FxHashMap;
use std::thread;
use std::time::{Duration, Instant};
use sweephand_process::space::{Advice, Space, ranges};
use sweephand_uffd::SWAPPED;

/// Looks in which a page has to be away, and the time between them. sqlite3 rows comes back to each
/// of its 7,000 pages that do not fit some three times a second.
const LOOKS: u32 = 4;
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// Pages that are moved at a time.
const BATCH: usize = 256;

/// Pages of the program in each swap area, by the number by which the kernel knows the area. Only
/// the kernel knows which area has which number.
#[derive(Debug, Default)]
pub(crate) struct SwapAreas(FxHashMap<u8, u64>);

impl SwapAreas {
    /// A page is in this one.
    pub(crate) fn add(&mut self, area: u8) {
        *self.0.entry(area).or_default() += 1;
    }

    /// The area that has about this many pages.
    pub(crate) fn nearest(&self, pages: u64) -> Option<u8> {
        self.0.iter().min_by_key(|&(_, &has)| has.abs_diff(pages)).map(|(&area, _)| area)
    }
}

/// The pages of a program that are in the device, and stay there.
#[derive(Debug)]
pub(crate) struct Idle {
    spaces: Vec<(Space, Vec<u64>)>,
    device: Option<u8>,
    looks: u32,
    latest: Instant,
}

impl Idle {
    /// All that are in the device. `held_pages`: how many pages it has, by which it is told from
    /// other swap areas.
    pub(crate) fn find(processes: &[u32], held_pages: u64) -> Self {
        let opened = processes.iter().filter_map(|&process| Space::open(process).ok());
        let spaces: Vec<(Space, Vec<u64>)> = opened
            .map(|space| {
                let numbers = space.pages(SWAPPED);
                (space, numbers)
            })
            .collect();
        let mut areas = SwapAreas::default();
        for (space, numbers) in &spaces {
            let entries = space.entries(numbers);
            entries.iter().filter_map(|entry| entry.swap_area()).for_each(|area| areas.add(area));
        }
        let mut idle = Self { spaces, device: areas.nearest(held_pages), looks: 0, latest: Instant::now() };
        idle.look();
        idle
    }

    /// Leaves out those that are not there any more.
    pub(crate) fn look(&mut self) {
        for (space, numbers) in &mut self.spaces {
            let entries = space.entries(numbers);
            let mut entries = entries.iter();
            let is_in_device = |_: &u64| entries.next().and_then(|entry| entry.swap_area()) == self.device;
            numbers.retain(is_in_device);
        }
        (self.looks, self.latest) = (self.looks + 1, Instant::now());
    }

    /// Looks until it is clear that the rest is not in use.
    pub(crate) fn settled(mut self) -> Self {
        while self.looks < LOOKS {
            thread::sleep(LOOK_PERIOD.saturating_sub(self.latest.elapsed()));
            self.look();
        }
        self
    }

    /// Moves them.
    pub(crate) fn write_back(&self) {
        for (space, numbers) in &self.spaces {
            for batch in numbers.chunks(BATCH) {
                space.touch(batch);
                space.advise(&ranges(batch.iter().copied(), 0), Advice::PageOut);
            }
        }
    }
}
