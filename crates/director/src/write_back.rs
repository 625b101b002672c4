//! Moves what a program has not used for a while from a zram device to the disk.
//!
//! The kernel itself can only switch the device off, which brings all of its pages back to memory,
//! and drives out others that are in use. Here each page that stays away for some looks is brought
//! back from outside and paged out again at once, when the kernel already prefers an area on the
//! disk. So memory has a few of them at a time.

use crate::refault_distance::MOST_PROCESSES;
use crate::swap_areas::SwapAreas;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use sweephand_process::space::{Advice, Space, ranges};
use sweephand_process::zram::Zram;
use sweephand_uffd::SWAPPED;

/// Looks in which a page has to be away, and the time between them. sqlite3 rows comes back to each
/// of its 7,000 pages that do not fit some three times a second.
const LOOKS: u32 = 4;
const LOOK_PERIOD: Duration = Duration::from_millis(200);
/// Pages that are moved at a time.
const BATCH: usize = 256;

/// Looks after which they are begun anew, because other pages may have become idle.
const MOST_LOOKS: u32 = 10;
/// Looks take this part of the time at most.
const PART: u32 = 10;

/// The pages of a program that are in the zram devices, and stay there.
#[derive(Debug)]
pub(crate) struct Idle {
    spaces: Vec<(Space, Vec<u64>)>,
    devices: BTreeSet<u8>,
    looks: u32,
    due: Instant,
}

impl Idle {
    /// All that are in the devices, of as many processes as are sampled.
    pub(crate) fn find(processes: &[u32], zram: &Zram) -> Self {
        let opened = processes.iter().take(MOST_PROCESSES).filter_map(|&process| Space::open(process).ok());
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
        let mut idle = Self { spaces, devices: areas.of_devices(zram, 1), looks: 0, due: Instant::now() };
        idle.look();
        idle
    }

    /// Leaves out those that are not there any more, if it is time.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        let devices = &self.devices;
        for (space, numbers) in &mut self.spaces {
            let entries = space.entries(numbers);
            let mut entries = entries.iter();
            numbers.retain(|_| {
                let area = entries.next().and_then(|entry| entry.swap_area());
                area.is_some_and(|area| devices.contains(&area))
            });
        }
        self.looks += 1;
        self.due = now + LOOK_PERIOD.max(PART * now.elapsed());
    }

    /// Whether it is time to begin anew.
    pub(crate) fn is_stale(&self) -> bool {
        self.looks >= MOST_LOOKS
    }

    /// Looks until it is clear that the rest is not in use, or the run ends.
    pub(crate) fn settled(mut self, is_ending: &AtomicBool) -> Self {
        while self.looks < LOOKS && !is_ending.load(Relaxed) {
            thread::sleep(self.due.saturating_duration_since(Instant::now()));
            self.look();
        }
        self
    }

    /// Moves them, until the run ends.
    pub(crate) fn write_back(&self, is_ending: &AtomicBool) {
        for (space, numbers) in &self.spaces {
            for batch in numbers.chunks(BATCH) {
                if is_ending.load(Relaxed) {
                    return;
                }
                space.touch(batch);
                space.advise(&ranges(batch.iter().copied(), 0), Advice::PageOut);
            }
        }
    }
}
