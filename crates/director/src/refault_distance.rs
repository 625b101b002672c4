//! How many other pages leave memory between the time at which a page leaves it and the time at
//! which it comes back: its refault distance. With as many pages of memory more, it would not have
//! left.
//!
//! It is measured on a sample of the program's pages, whose entries in the page table are read now
//! and then. A page that has left and come back between two looks is missed.

use crate::swap_areas::SwapAreas;
use rustc_hash::FxHashMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};
use sweephand_process::space::{Entry, Space};
use sweephand_process::zram::Zram;
use sweephand_uffd::{PRESENT, SWAPPED};

/// The sample consists of blocks of this many pages, which are read with one call.
const BLOCK_PAGES: u64 = 32;
/// At most this many, so that a look takes some 0.2 ms.
const MOST_BLOCKS: usize = 256;
/// Pages of at most this many processes are in it: each takes two descriptors.
pub(crate) const MOST_PROCESSES: usize = 64;
/// Distances count once this many times as many pages have left as are near.
const KNOWN: u64 = 3;
/// How often a look is taken, and how often the sample is chosen.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
const CHOICE_PERIOD: Duration = Duration::from_secs(1);
/// Looks, and choices, take this part of the time at most.
const PART: u32 = 50;

/// Where a page is.
#[derive(Clone, Copy, Debug)]
enum Seen {
    InMemory,
    /// In the swap area with this number.
    Away(u8),
    /// It is not there, or a file's.
    Nowhere,
}

impl Seen {
    fn of(entry: Entry) -> Self {
        match entry.swap_area() {
            Some(area) => Self::Away(area),
            None if entry.is_present() && !entry.is_file() => Self::InMemory,
            None => Self::Nowhere,
        }
    }
}

/// What is known of a page of the sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    InMemory,
    /// It was the page of the sample with this number to leave, to this swap area.
    Away(u64, u8),
    /// It has not been in memory since it was chosen.
    Unknown,
}

impl Place {
    /// The page is seen again. `left`: pages of the sample that have left so far. If it has come
    /// back, returns how many have left since it did, and from where it comes.
    fn step(&mut self, seen: Seen, left: &mut u64) -> Option<(u64, u8)> {
        let before = *self;
        *self = match (before, seen) {
            (Self::InMemory, Seen::Away(area)) => {
                *left += 1;
                Self::Away(*left, area)
            }
            (_, Seen::InMemory) => Self::InMemory,
            (Self::Away(at, _), Seen::Away(area)) => Self::Away(at, area),
            (_, Seen::Away(_) | Seen::Nowhere) => Self::Unknown,
        };
        match (before, seen) {
            (Self::Away(at, area), Seen::InMemory) => Some((*left - at, area)),
            _ => None,
        }
    }
}

/// Pages of the sample that have come back. Those are near that would not have left with as much
/// memory more as was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distances {
    /// All.
    pub(crate) all: u64,
    /// Near ones, from the zram device.
    pub(crate) near_in_device: u64,
    /// Near ones, from the disk.
    pub(crate) near_on_disk: u64,
    /// Others, from the device.
    pub(crate) far_in_device: u64,
}

impl Distances {
    /// Of a page that has come back.
    fn of(is_near: bool, is_in_device: bool) -> Self {
        Self {
            all: 1,
            near_in_device: u64::from(is_near && is_in_device),
            near_on_disk: u64::from(is_near && !is_in_device),
            far_in_device: u64::from(!is_near && is_in_device),
        }
    }
}

impl AddAssign for Distances {
    fn add_assign(&mut self, others: Self) {
        self.all += others.all;
        self.near_in_device += others.near_in_device;
        self.near_on_disk += others.near_on_disk;
        self.far_in_device += others.far_in_device;
    }
}

/// Samples of a program's processes.
#[derive(Debug)]
pub(crate) struct RefaultDistances {
    spaces: FxHashMap<u32, Sample>,
    /// One block in this many is in the sample.
    one_in: u64,
    /// Pages of the sample that have left so far.
    left: u64,
    look_due: Instant,
    choice_due: Instant,
    /// Pages that have come back since they were last asked for.
    came_back: Distances,
}

/// The sample of a process.
#[derive(Debug)]
struct Sample {
    space: Space,
    /// The pages in ascending order, and where each is.
    numbers: Vec<u64>,
    places: Vec<Place>,
}

impl RefaultDistances {
    /// Nothing is sampled yet.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let (spaces, came_back) = (FxHashMap::default(), Distances::default());
        Self { spaces, one_in: 1, left: 0, look_due: now, choice_due: now, came_back }
    }

    /// Pages that have come back since this was last called.
    pub(crate) fn take(&mut self) -> Distances {
        std::mem::take(&mut self.came_back)
    }

    /// Looks at the pages of these processes, if it is time. `more_pages`: the memory more that
    /// decides whether those that come back are near.
    pub(crate) fn look(&mut self, processes: impl Fn() -> Vec<u32>, more_pages: u64, zram: &Zram) {
        let now = Instant::now();
        if now < self.look_due {
            return;
        }
        if now >= self.choice_due {
            self.choose(&processes());
            self.choice_due = now + CHOICE_PERIOD.max(PART * now.elapsed());
        }
        let began = Instant::now();
        let mut areas = SwapAreas::default();
        let mut returns = Vec::new();
        for sample in self.spaces.values_mut() {
            let entries = sample.space.entries(&sample.numbers);
            for (place, entry) in sample.places.iter_mut().zip(entries) {
                let seen = Seen::of(entry);
                if let Seen::Away(area) = seen {
                    areas.add(area);
                }
                returns.extend(place.step(seen, &mut self.left));
            }
        }
        let (near, devices) = (more_pages / self.one_in, areas.of_devices(zram, self.one_in));
        // At first, nothing can have come back from far.
        if self.left < KNOWN * near {
            returns.clear();
        }
        for (distance, area) in returns {
            self.came_back += Distances::of(distance <= near, devices.contains(&area));
        }
        self.look_due = now + LOOK_PERIOD.max(PART * began.elapsed());
    }

    /// Chooses the pages of the sample anew. What is known of those that stay in it is kept.
    fn choose(&mut self, processes: &[u32]) {
        self.spaces.retain(|process, sample| processes.contains(process) && !sample.space.is_gone());
        for &process in processes.iter().take(MOST_PROCESSES) {
            if !self.spaces.contains_key(&process)
                && let Ok(space) = Space::open(process)
            {
                let sample = Sample { space, numbers: Vec::new(), places: Vec::new() };
                self.spaces.insert(process, sample);
            }
        }
        let blocks: Vec<_> = self
            .spaces
            .iter()
            .map(|(&process, sample)| (process, sample.space.blocks(BLOCK_PAGES as usize, PRESENT | SWAPPED)))
            .collect();
        let all: usize = blocks.iter().map(|(_, blocks)| blocks.len()).sum();
        // A power of two, so that a sample that becomes smaller keeps half of its pages.
        self.one_in = all.div_ceil(MOST_BLOCKS).next_power_of_two().max(1) as u64;
        for (process, blocks) in blocks {
            let Some(sample) = self.spaces.get_mut(&process) else { continue };
            let chosen = blocks.into_iter().filter(|&block| spread(block).is_multiple_of(self.one_in));
            let numbers: Vec<u64> =
                chosen.flat_map(|block| block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES).collect();
            let known: FxHashMap<u64, Place> =
                sample.numbers.drain(..).zip(sample.places.drain(..)).collect();
            sample.places =
                numbers.iter().map(|number| known.get(number).copied().unwrap_or(Place::Unknown)).collect();
            sample.numbers = numbers;
        }
    }
}

/// Spreads numbers evenly.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_how_many_have_left_since() {
        let mut left = 0;
        let mut places = [Place::Unknown; 4];
        // A page that was away when it was chosen says nothing.
        assert_eq!(places[3].step(Seen::Away(1), &mut left), None);
        assert_eq!(places[3].step(Seen::InMemory, &mut left), None);
        for place in &mut places {
            assert_eq!(place.step(Seen::InMemory, &mut left), None);
        }
        for place in &mut places[..3] {
            assert_eq!(place.step(Seen::Away(1), &mut left), None);
            assert_eq!(place.step(Seen::Away(2), &mut left), None);
        }
        assert_eq!(left, 3);
        assert_eq!(places[2].step(Seen::InMemory, &mut left), Some((0, 2)));
        assert_eq!(places[0].step(Seen::InMemory, &mut left), Some((2, 2)));
        assert_eq!(places[1].step(Seen::Nowhere, &mut left), None);
        assert_eq!(places[1], Place::Unknown);
    }

    #[test]
    fn pages_are_counted_by_distance_and_by_where_they_were() {
        let mut all = Distances::default();
        for (is_near, is_in_device) in
            [(true, true), (true, false), (false, false), (false, true), (false, true)]
        {
            all += Distances::of(is_near, is_in_device);
        }
        assert_eq!(all, Distances { all: 5, near_in_device: 1, near_on_disk: 1, far_in_device: 2 });
    }
}
