//! EE-CLOCK over one list of all pages, the most recent first.
//!
//! Decisions: a page belongs to a region from the moment that it passes the cut, so the queue says
//! the region of each page. Regions in memory are one part of it long, those behind it four. Counts
//! are whole numbers that lose a tenth, rounded down. Pages found used while one page goes to the
//! front follow it, the last first, each with what is found on its own way.

use super::{Given, Step};
use alloc::vec::Vec;

#[derive(Clone, Debug)]
struct Entry {
    page: u32,
    region: usize,
    resident: bool,
    referenced: bool,
}

struct Model {
    frames: usize,
    parts: usize,
    beyond: usize,
    queue: Vec<Entry>, // most recent first
    uses: Vec<u64>,    // by region
    counted: usize,
    cuts: Option<(usize, usize)>,
}

impl Model {
    /// Where a region begins, in parts of memory.
    fn cut(&self, region: usize) -> usize {
        region + 3 * region.saturating_sub(self.parts)
    }

    fn room(&self, region: usize) -> usize {
        self.cut(region + 1) * self.frames / self.parts - self.cut(region) * self.frames / self.parts
    }

    fn count(&mut self, region: usize) {
        self.uses[region] += 65536;
        self.counted += 1;
        if self.counted == (self.frames / 8).max(128) {
            self.counted = 0;
            self.choose();
            self.uses.iter_mut().for_each(|uses| *uses -= *uses / 10);
        }
    }

    fn choose(&mut self) {
        let sum = |from: usize, to: usize| self.uses[from..to].iter().sum::<u64>() as f64;
        let mut best = (sum(0, self.parts), None);
        for e in 1..self.parts {
            for l in self.parts + 1..=self.beyond {
                let share = (self.parts - e) as f64 / (self.cut(l) - e) as f64;
                let seen = sum(0, e) + sum(e, l) * share;
                if seen > best.0 {
                    best = (seen, Some((e, l)));
                }
            }
        }
        self.cuts = best.1;
    }

    /// Takes a resident page to the front, and then those found used meanwhile.
    fn bring_to_front(&mut self, page: u32) {
        self.queue.retain(|entry| entry.page != page);
        self.queue.insert(0, Entry { page, region: 0, resident: true, referenced: false });
        let mut found = Vec::new();
        for region in 0..self.beyond {
            let pages = self.queue.iter().filter(|entry| entry.region == region).count();
            if pages <= self.room(region) {
                break;
            }
            let oldest = self.queue.iter().rposition(|entry| entry.region == region).expect("it has pages");
            let entry = &mut self.queue[oldest];
            entry.region += 1;
            if entry.referenced {
                entry.referenced = false;
                found.push(entry.page);
                self.count(region);
            } else if !entry.resident && entry.region == self.beyond {
                self.queue.remove(oldest);
            }
        }
        found.iter().rev().for_each(|&page| self.bring_to_front(page));
    }

    fn candidate(&self) -> usize {
        let oldest = self.queue.iter().rposition(|entry| entry.resident).expect("memory is full");
        if let Some((e, l)) = self.cuts
            && self.queue[oldest].region < l
            && let Some(place) = self.queue.iter().position(|entry| entry.resident && entry.region >= e)
        {
            return place;
        }
        oldest
    }

    fn access(&mut self, page: u32) -> Step {
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.page == page && entry.resident) {
            entry.referenced = true;
            return Step::hit();
        }
        let mut victim = None;
        while victim.is_none() && self.queue.iter().filter(|entry| entry.resident).count() == self.frames {
            let place = self.candidate();
            let Entry { page, region, referenced, .. } = self.queue[place];
            if referenced {
                self.count(region);
                self.bring_to_front(page);
                continue;
            }
            victim = Some(page);
            let entry = Entry { resident: false, ..self.queue.remove(place) };
            if region < self.beyond {
                // It becomes the newest of its region.
                let newest = self.queue.iter().position(|other| other.region >= region);
                self.queue.insert(newest.unwrap_or(self.queue.len()), entry);
            }
        }
        if let Some(place) = self.queue.iter().position(|entry| entry.page == page) {
            let region = self.queue.remove(place).region;
            self.count(region);
        }
        self.bring_to_front(page);
        Step::fault(victim)
    }
}

/// EE-CLOCK with `frames` frames, memory in `parts` regions, and a queue of `reach` memories.
pub fn ee_clock(references: &[u32], frames: usize, parts: usize, reach: usize) -> Vec<Step> {
    let parts = parts.min(frames);
    // As many cuts as lie before the end of the queue.
    let beyond = parts + (1..).take_while(|behind| 4 * behind < parts * (reach - 1)).count();
    let uses = alloc::vec![0; beyond + 1];
    let mut model = Model { frames, parts, beyond, queue: Vec::new(), uses, counted: 0, cuts: None };
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    ee_clock(references, given.frames, given.whole("parts") as usize, given.whole("reach") as usize)
}
