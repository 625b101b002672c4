//! EE-CLOCK over one list of all pages, in the order in which they came to the front.
//!
//! Decisions: a generation is as many comings as a quarter of a part of memory has pages. Cuts are
//! moved when one ends, never back, to the newest generation with which enough pages are before the
//! cut. Generations become one, from the newest on, when there are 1,024: those that have few pages
//! together. Counts are whole numbers that lose a tenth, rounded down. Pages found used go to the
//! front one by one, the one found last first.

use super::{Given, Step};
use alloc::vec::Vec;

#[derive(Clone, Debug)]
struct Entry {
    page: u32,
    generation: u32,
    resident: bool,
    referenced: bool,
}

struct Model {
    frames: usize,
    parts: usize,
    beyond: usize,
    queue: Vec<Entry>, // oldest first, so by generation; evicted pages too
    came: usize,       // in this generation
    starts: Vec<u32>,  // the first generations of those that are taken as one; the last is this one
    cuts: Vec<u32>,    // by region
    uses: Vec<u64>,    // by region
    counted: usize,
    early: Option<(usize, usize)>,
}

impl Model {
    /// Where a region begins, in parts of memory.
    fn cut_at(&self, region: usize) -> usize {
        region + 3 * region.saturating_sub(self.parts)
    }

    fn region(&self, generation: u32) -> usize {
        (1..=self.beyond).filter(|&region| generation < self.cuts[region]).count()
    }

    /// Where the pages of this generation and of later ones begin in the queue.
    fn place_of(&self, generation: u32) -> usize {
        self.queue.partition_point(|entry| entry.generation < generation)
    }

    /// Pages of this generation and of later ones.
    fn since(&self, generation: u32) -> usize {
        self.queue.len() - self.place_of(generation)
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
                let share = (self.parts - e) as f64 / (self.cut_at(l) - e) as f64;
                let seen = sum(0, e) + sum(e, l) * share;
                if seen > best.0 {
                    best = (seen, Some((e, l)));
                }
            }
        }
        self.early = best.1;
    }

    /// Takes a resident page to the front, and then those found used meanwhile.
    fn bring_to_front(&mut self, page: u32) {
        let mut found = alloc::vec![page];
        while let Some(page) = found.pop() {
            let now = *self.starts.last().expect("there is one");
            let place = self.queue.iter().position(|entry| entry.page == page);
            if let Some(place) = place
                && self.queue[place].generation == now
            {
                self.queue[place].resident = true;
            } else {
                place.map(|place| self.queue.remove(place));
                self.queue.push(Entry { page, generation: now, resident: true, referenced: false });
                self.came += 1;
            }
            if self.came == (self.frames / (4 * self.parts)).max(1) {
                self.end_generation(now, &mut found);
            }
        }
    }

    fn end_generation(&mut self, now: u32, found: &mut Vec<u32>) {
        if self.starts.len() >= 1024 {
            self.merge();
        }
        let before = self.cuts.clone();
        for region in 1..=self.beyond {
            let target = self.cut_at(region) * self.frames / self.parts;
            let newest = self.starts.iter().rev().find(|&&start| self.since(start) >= target);
            self.cuts[region] = self.cuts[region].max(newest.copied().unwrap_or(0));
        }
        for (region, &old) in before.iter().enumerate().skip(1) {
            for place in self.place_of(old)..self.place_of(self.cuts[region]) {
                let Entry { page, resident, referenced, .. } = self.queue[place];
                if resident && referenced {
                    self.queue[place].referenced = false;
                    self.count(region - 1);
                    found.push(page);
                }
            }
        }
        self.starts.push(now + 1);
        self.came = 0;
    }

    fn merge(&mut self) {
        let grain = (self.frames / (4 * self.parts)).max(1);
        let mut newest_first = Vec::new();
        let mut pages = 0; // of the last of these
        for place in (0..self.starts.len()).rev() {
            let start = self.starts[place];
            let behind = self.starts.get(place + 1).map_or(0, |&next| self.since(next));
            let more = self.since(start) - behind;
            let limit = match behind {
                behind if behind < self.frames => grain,
                behind if behind < self.cut_at(self.beyond) * self.frames / self.parts => 4 * grain,
                _ => usize::MAX,
            };
            if newest_first.len() > 1 && pages + more <= limit {
                *newest_first.last_mut().expect("there is one") = start;
                pages += more;
            } else {
                newest_first.push(start);
                pages = more;
            }
        }
        newest_first.reverse();
        self.starts = newest_first;
    }

    fn candidate(&self) -> usize {
        let oldest = self.queue.iter().position(|entry| entry.resident).expect("memory is full");
        if let Some((e, l)) = self.early
            && self.queue[oldest].generation >= self.cuts[l]
            && let Some(place) =
                self.queue.iter().rposition(|entry| entry.resident && entry.generation < self.cuts[e])
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
            let Entry { page, generation, referenced, .. } = self.queue[place];
            if referenced {
                self.queue[place].referenced = false;
                self.count(self.region(generation));
                self.bring_to_front(page);
                continue;
            }
            victim = Some(page);
            self.queue[place].resident = false;
        }
        if let Some(place) = self.queue.iter().position(|entry| entry.page == page) {
            let region = self.region(self.queue[place].generation);
            if region < self.beyond {
                self.count(region);
            }
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
    let mut model = Model {
        frames,
        parts,
        beyond,
        queue: Vec::new(),
        came: 0,
        starts: alloc::vec![1],
        cuts: alloc::vec![0; beyond + 1],
        uses: alloc::vec![0; beyond + 1],
        counted: 0,
        early: None,
    };
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    ee_clock(references, given.frames, given.whole("parts") as usize, given.whole("reach") as usize)
}
