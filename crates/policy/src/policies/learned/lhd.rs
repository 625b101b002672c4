//! LHD: evicts the page that is expected to bring the fewest hits for the time it will still take
//! up a frame.
//!
//! Paper: N. Beckmann, H. Chen, A. Cidon, "LHD: improving cache hit rate by maximizing hit
//! density", USENIX NSDI 2018.
//!
//! The age of a page is the time since its last reference, counted in references and coarsened. The
//! policy counts at which ages pages are hit and evicted. From these counts follows, for each age,
//! the *hit density*: the probability that a page of this age will be hit, divided by the time that
//! it is expected to stay. Pages are divided into 16 classes by the ages at their last two hits,
//! and each class has counts of its own. Every `interval` references, the densities are computed
//! anew and the counts are multiplied by 0.9.
//!
//! ```text
//!   counts of a class by age:    hits h(a)        evictions e(a)
//!   hit density at age a:        sum over b >= a of h(b)
//!                                ---------------------------------------------
//!                                sum over b >= a of the events at b and later
//! ```
//!
//! An eviction looks at `sample` pages drawn at random, and at the last 8 pages admitted whose
//! density was below that of a usual victim. The page with the lowest density goes. So that the
//! densities of old pages stay known, one page in 32 referenced becomes an *explorer*, which is
//! hardly ever evicted, while explorers have less than 1 % of the frames, and until the 50th
//! computation.
//!
//! This follows the authors' code as libCacheSim contains it. Before the first computation the
//! density at age a in class c (from 0) is (c + 1) / (a + 1). Differences: the code tunes the
//! coarsening of ages at its 5th and 25th computation by the number of objects; here the number of
//! frames is known, so the coarsening that the code tunes to is there from the start. It tells ages
//! apart up to about `span` times as many references as there are frames. The code looks at only 8
//! pages until its 50th computation, to end its experiments' warm-up earlier. That is left out, as
//! are sizes and applications, which pages do not have. A page older than the ages told apart goes
//! first, but counts as density 0 in the density of a usual victim.
//!
//! Programs hit most pages far more often than caches are hit. Where they make hundreds of
//! references for each fault, pages stay longer than `span`, and those go first whatever their
//! history. A larger `span` tells them apart.
//!
//! Cost: hit O(1); fault O(`sample`); each computation O(16 `ages`). 28 bytes a page seen, and
//! 24 for each class and age that has occurred. `hand_steps` counts the pages looked at.

use crate::arguments::Parameter;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::policies::recency::random::{SEED, generator};
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, SplitMix64, Violation,
};
use alloc::vec::Vec;

/// Classes of pages, by the ages at their last two hits.
const CLASSES: usize = 16;
/// Admitted pages that are remembered as likely victims.
const ADMITTED: usize = 8;
/// What counts of the past, and of the density of earlier victims, are multiplied by.
const DECAY: f64 = 0.9;
/// One page referenced in this many becomes an explorer.
const ONE_IN: u64 = 32;
/// The share of frames that explorers have at most.
const EXPLORERS: f64 = 0.01;
/// Computations after which there are no more explorers.
const EXPLORING: u32 = 50;
/// A class with fewer events than this at an age and above has density 0 there.
const FEWEST_EVENTS: f64 = 1e-5;

/// What is known of a resident page; stale for others.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The time of the last reference.
    time: u64,
    /// The age at the last hit; 0 before the first.
    age: u32,
    /// The age at the hit before; [`Lhd::ages`] before the first hit, 0 after it.
    age_before: u32,
    explorer: bool,
}

/// The events of one age in a class.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    hits: f64,
    evictions: f64,
    /// The hit density at this age, as last computed.
    density: f64,
}

/// Least hit density. The fields are the parameters of the paper, the histograms of ages and the
/// sample that a victim comes from.
#[derive(Debug)]
pub struct Lhd {
    frames: usize,
    /// Resident pages by place.
    resident: Vec<PageId>,
    /// 1 + the place of each page; 0 for pages that are not resident.
    place: PageMap<u32>,
    entries: PageMap<Entry>,
    /// The events of each class, by age, up to the largest age that has occurred.
    classes: [Vec<Events>; CLASSES],
    /// Ages told apart.
    ages: u32,
    /// An age is a time shifted right by this.
    coarsening: u32,
    /// References between computations.
    interval: u64,
    /// Computations so far.
    computations: u32,
    /// References so far.
    time: u64,
    /// Pages drawn for an eviction.
    sample: usize,
    /// The latest pages admitted with a low density, in a ring.
    admitted: [Option<PageId>; ADMITTED],
    /// The place of that ring to be filled next.
    next_admitted: usize,
    /// The density of victims, averaged with weights that decay.
    victim_density: f64,
    /// Frames that explorers may still take.
    explorers_left: i64,
    random: SplitMix64,
    /// Pages looked at.
    hand_steps: u64,
}

impl Registered for Lhd {
    const INFO: Info = Info {
        name: "lhd",
        summary: "evicts the page with the fewest hits to expect for its time in memory, of a sample",
        paper: "Beckmann, Chen, Cidon, LHD, USENIX NSDI 2018",
        parameters: &[
            Parameter { name: "sample", default: "32", meaning: "pages looked at for an eviction" },
            Parameter {
                name: "interval",
                default: "1048576",
                meaning: "references between computations of the hit densities",
            },
            Parameter { name: "ages", default: "20000", meaning: "ages told apart, at least 2" },
            Parameter {
                name: "span",
                default: "100",
                meaning: "the largest age told apart, as a multiple of memory in references",
            },
            SEED,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let ages = arguments.whole("ages", 2..=1 << 24)? as u32;
        let references_an_age = arguments.factor("span")? * frames as f64 / f64::from(ages);
        let coarsening = (1..40).find(|&shift| (1_u64 << shift) as f64 >= references_an_age).unwrap_or(40);
        let interval = arguments.references("interval")?;
        if interval == 0 {
            return Err(arguments.bad("interval", "0", "a whole number of 1 or more"));
        }
        Ok(Self {
            frames,
            resident: Vec::new(),
            place: PageMap::new(),
            entries: PageMap::new(),
            classes: Default::default(),
            ages,
            coarsening,
            interval,
            computations: 0,
            time: 0,
            sample: arguments.whole("sample", 1..=1 << 20)? as usize,
            admitted: [None; ADMITTED],
            next_admitted: 0,
            victim_density: 0.0,
            explorers_left: (frames as f64 * EXPLORERS) as i64,
            random: generator(arguments)?,
            hand_steps: 0,
        })
    }
}

impl Lhd {
    fn age(&self, page: PageId) -> u32 {
        ((self.time - self.entries[page].time) >> self.coarsening).min(u64::from(self.ages - 1)) as u32
    }

    /// The class of a page: the larger, the younger it was at its last two hits.
    fn class(&self, page: PageId) -> usize {
        let Entry { age, age_before, .. } = self.entries[page];
        let mut sum = u64::from(age) + u64::from(age_before);
        if sum == 0 {
            return CLASSES - 1;
        }
        let mut class = 0;
        while sum < u64::from(self.ages) && class < CLASSES - 1 {
            sum *= 2;
            class += 1;
        }
        class
    }

    /// The events of a page's class at its age.
    fn events(&mut self, page: PageId) -> &mut Events {
        let (class, age) = (self.class(page), self.age(page) as usize);
        let events = &mut self.classes[class];
        if events.len() <= age {
            let density =
                |age| if self.computations == 0 { (class + 1) as f64 / (age + 1) as f64 } else { 0.0 };
            let (from, new) = (events.len(), age + 1 - events.len());
            events
                .extend((from..from + new).map(|age| Events { density: density(age), ..Events::default() }));
        }
        &mut events[age]
    }

    /// The density that decides about a page; `None` if the page is older than ages are told apart.
    fn density(&self, page: PageId) -> Option<f64> {
        let (class, age) = (self.class(page), self.age(page));
        if age == self.ages - 1 {
            return None;
        }
        let known = self.classes[class].get(age as usize).map(|events| events.density);
        let unknown = if self.computations == 0 { (class + 1) as f64 / f64::from(age + 1) } else { 0.0 };
        let explorer = f64::from(u8::from(self.entries[page].explorer));
        Some(known.unwrap_or(unknown) + explorer)
    }

    /// What every reference does to a resident page, after its own.
    fn touch(&mut self, page: PageId) -> bool {
        self.entries[page].time = self.time;
        let explore = self.random.below(ONE_IN) == 0;
        let explorer = explore && self.explorers_left > 0 && self.computations < EXPLORING;
        self.entries[page].explorer = explorer;
        self.explorers_left -= i64::from(explorer);
        explore
    }

    /// The end of a reference.
    fn tick(&mut self) {
        self.time += 1;
        if self.time.is_multiple_of(self.interval) {
            self.compute();
        }
    }

    /// A page that was an explorer is none any more.
    fn end_exploring(&mut self, page: PageId) {
        self.explorers_left += i64::from(self.entries[page].explorer);
        self.entries[page].explorer = false;
    }

    /// Computes the hit densities from the counts.
    fn compute(&mut self) {
        let oldest = self.ages as usize - 1;
        for events in &mut self.classes {
            let (mut hits, mut all, mut lifetime) = (0.0, 0.0, 0.0);
            for (age, at) in events.iter_mut().enumerate().rev() {
                at.hits *= DECAY;
                at.evictions *= DECAY;
                hits += at.hits;
                all += at.hits + at.evictions;
                lifetime += all;
                if age < oldest {
                    at.density = if all > FEWEST_EVENTS { hits / lifetime } else { 0.0 };
                }
            }
        }
        self.computations += 1;
    }
}

impl Policy for Lhd {
    type Model = ExactModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let pages = self.resident.len();
        let mut lowest: Option<(Option<f64>, PageId)> = None;
        for draw in 0..self.sample + ADMITTED {
            let page = if draw < self.sample {
                *self.resident.get(self.random.below(pages as u64) as usize)?
            } else {
                match self.admitted[draw - self.sample] {
                    Some(page) if self.place.get(page) > 0 => page,
                    _ => continue,
                }
            };
            self.hand_steps += 1;
            let density = self.density(page);
            // None, for a page too old, is below all others.
            if lowest.is_none_or(|(lowest, _)| density < lowest) {
                lowest = Some((density, page));
            }
        }
        lowest.map(|(_, page)| page)
    }

    fn evict(&mut self, page: PageId) {
        let density = self.density(page).unwrap_or(0.0);
        self.victim_density = DECAY * self.victim_density + (1.0 - DECAY) * density;
        self.events(page).evictions += 1.0;
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let page = reference.page;
        self.resident.push(page);
        self.place.set(page, self.resident.len() as u32);
        self.entries.set(page, Entry { time: self.time, age: 0, age_before: self.ages, explorer: false });
        let explore = self.touch(page);
        if !explore && self.density(page).unwrap_or(0.0) < self.victim_density {
            self.admitted[self.next_admitted] = Some(page);
            self.next_admitted = (self.next_admitted + 1) % ADMITTED;
        }
        self.tick();
        false
    }

    fn hit(&mut self, reference: Reference) {
        let page = reference.page;
        self.events(page).hits += 1.0;
        self.end_exploring(page);
        let age = self.age(page);
        let entry = &mut self.entries[page];
        entry.age_before = core::mem::replace(&mut entry.age, age);
        self.touch(page);
        self.tick();
    }

    fn remove(&mut self, page: PageId) {
        let Some(place) = (self.place.get(page) as usize).checked_sub(1) else { return };
        self.end_exploring(page);
        self.resident.swap_remove(place);
        self.place.set(page, 0);
        if let Some(&moved) = self.resident.get(place) {
            self.place.set(moved, place as u32 + 1);
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
        let mut explorers = 0;
        for (place, &page) in self.resident.iter().enumerate() {
            let points_to = self.place.get(page) as usize;
            ensure!(points_to == place + 1, "page {page} is at {place} and points to {points_to}");
            ensure!(self.entries[page].time <= self.time, "page {page}: {:?}", self.entries[page]);
            explorers += i64::from(self.entries[page].explorer);
        }
        let placed = self.place.iter().filter(|&(_, place)| place > 0).count();
        ensure!(placed == self.resident.len(), "{placed} pages have places");
        let most = (self.frames as f64 * EXPLORERS) as i64;
        ensure!(self.explorers_left + explorers == most, "{explorers} explorers of {most}");
        for events in &self.classes {
            ensure!(events.len() <= self.ages as usize, "{} ages", events.len());
            let sane = events.iter().all(|at| at.hits >= 0.0 && at.evictions >= 0.0 && at.density >= 0.0);
            ensure!(sane, "a negative count");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, faults};

    /// The densities after six references, at two references an age. Page 1 is hit at ages 0 (in
    /// class 0: it had no hit before), 0 and 1 (in class 15: two hits at age 0 before, or one), and
    /// 0 (in class 3: the hit before was at age 1 of 8). All counts are multiplied by 0.9.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Lhd>::new("lhd:ages=8,interval=6,span=0", 2);
        for page in [1, 1, 1, 2, 1, 1] {
            machine.access(page);
        }
        let lhd = machine.policy();
        let classes = lhd.classes.iter().enumerate().filter(|(_, events)| !events.is_empty());
        let shown = classes.map(|(class, events)| {
            let densities: Vec<_> = events.iter().map(|at| format!("{:.3}", at.density)).collect();
            format!("{class}: {}", densities.join(" "))
        });
        // Class 15: 1.8 hits over 0.9 + 1.8 at age 0, 0.9 over 0.9 at age 1.
        assert_eq!(shown.collect::<Vec<_>>(), ["0: 1.000", "3: 1.000", "15: 0.667 1.000"]);
    }

    /// Once it knows the densities, pages of a scan leave before pages that are hit again.
    #[test]
    fn it_learns_that_a_scan_is_not_used_again() {
        let string: Vec<u32> =
            (0..30_000).map(|time| if time % 2 == 0 { time / 2 % 30 } else { 100 + time }).collect();
        let lhd = faults("lhd:interval=1000,seed=1", &string, 50);
        let lru = faults("lru", &string, 50);
        assert!(lhd < 18_000 && lru > 29_000, "{lhd} faults, LRU {lru}");
    }
}
