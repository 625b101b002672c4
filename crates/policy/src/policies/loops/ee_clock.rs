//! EE-CLOCK: early eviction as in EELRU, from faults and reference bits alone.
//!
//! Paper: none. After Y. Smaragdakis, S. Kaplan, P. Wilson, "EELRU: simple and effective adaptive
//! page replacement", ACM SIGMETRICS 1999, which sees every reference.
//!
//! A queue has the pages in the order of their last known use, evicted pages included. It is cut
//! into regions. Those in memory are a `parts`-th of it long, and those behind it four times that.
//! A page that comes in goes to the front, and so each region passes its oldest page on to the
//! next. A resident page is looked at when it passes from one region to the next, and when it is
//! proposed as a victim. If its bit is set, it was used and goes to the front. So what a hit costs
//! LRU is done once a region, and only if somebody faults.
//!
//! ```text
//!   front                                     M                                       end
//!   | 0 | 1 | 2 | ...    | e | ...           | |  ...                    | l |  ...  beyond |
//!     a use here counts   |<- kept in part: (M - e) / (l - e) of the uses ->|
//!     either way          |<- early eviction takes the newest of these first
//! ```
//!
//! Each use counts for the region in which the page was. As in EELRU, let e be a cut before M and
//! l one behind it. If pages leave memory as soon as they pass e, a page between e and l stays
//! with a chance of (M - e) / (l - e). So early eviction would see
//! uses (0, e] + uses (e, l] x (M - e) / (l - e), and LRU sees uses (0, M]. The best pair decides,
//! if it is better than LRU. Then a resident page older than l goes first, if there is one, and
//! otherwise the newest one that has passed e. Under LRU the oldest resident page goes.
//!
//! Choices: the pair is chosen anew after as many uses as an eighth of memory, at least 128; then
//! the counts lose a tenth. The queue is `reach` memories long. Its last region has no end: it has
//! the resident pages that came so far, and evicted pages are forgotten there. Pages that were
//! found used during one round go to the front after it, the one found last first. An evicted page
//! becomes the newest of its region. Memories of fewer frames than `parts` have as many parts as
//! frames. The oldest page of a region is found by stamps of two bytes: where the regions behind
//! memory are longer than 4,095 pages, pages that came close together count as equally old, and of
//! those an evicted page is taken first; a page that stays while sixteen times as many pages come
//! as such a region has may be taken late.
//!
//! What was tried, in warm faults over OPT's (`bench/auto`, tuning side without lu_ncb and
//! ocean_ncp, 53 cells; CLOCK-Pro has 2.357, settled 1.988, EELRU 2.215):
//! - 8, 16, 32 parts: 2.03 (on all 61 cells), 1.950, 1.895 with a queue of 2.5 memories. Queues of
//!   4 or 5 memories: 1.912 with 16 parts, 1.881 with 32. 64 parts and 3 memories: 1.884.
//! - Looks only at victims, not between regions: 2.491 (8 parts, 61 cells).
//! - Counts that lose 2 %, 20 %, 30 % each time: 2.091, 1.968, 2.026; with 10 %: 2.027 (8 parts, 61
//!   cells) and 1.950 (16 parts).
//! - Settling, so that the bit of a page that leaves region 0 is ignored the first time, or each
//!   time: 1.913, 1.950.
//! - The region with the least uses a frame from there on (a Gittins index) gives up a page, in
//!   place of a pair of cuts: 1.979 where the pair has 1.950.
//! - A bias of 2 % for LRU: 1.897 where none has 1.881.
//! - Every fourth late cut only: 1.892 where all have 1.881. Evicted pages that become the newest
//!   of their region, which saves a list of resident pages and 5 bytes a page: 1.894. No regions
//!   but those between these cuts, which halves the time: 1.935.
//!
//! Cost: hit nothing. Fault amortised O(`parts` x (1 + (`reach` - 1) / 4)), 55 with the defaults: a
//! page passes each cut once, and a look that finds a set bit takes it back. `hand_steps` counts
//! pages that pass a cut and victims looked at. 9 bytes a page seen.

use crate::arguments::Parameter;
use crate::collections::{Lists, Packed, PageMap};
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};
use alloc::vec::Vec;

/// Most regions: there is a bit for each in [`EeClock::occupied`].
const MOST_REGIONS: usize = 64;
/// The list of the evicted pages of region 0; those of the others follow. The last has none.
const EVICTED: usize = MOST_REGIONS;
const LISTS: usize = 2 * MOST_REGIONS - 1;
/// Parts that a region behind memory is long.
const LATE_STEP: usize = 4;
/// Fewest uses between two choices.
const LEAST_PERIOD: usize = 128;
/// What a use counts; what the counts lose each time is rounded down.
const USE: u64 = 1 << 16;
/// The counts lose one part of so many after each choice.
const FADE: u64 = 10;

/// Early eviction from faults and bits.
#[derive(Debug)]
pub struct EeClock {
    frames: usize,
    /// Regions of memory.
    parts: usize,
    /// The last region, which has no end.
    beyond: usize,
    /// Most pages of each region, resident or not.
    room: [usize; MOST_REGIONS],
    /// Where each region begins, in parts of memory.
    cut_at: [usize; MOST_REGIONS],
    /// The queue: for each region a list of its resident pages and one of its evicted pages, the
    /// oldest page of each in front. Resident pages have the number of their region.
    queue: Lists<LISTS, Packed>,
    /// For each page in the queue the [`EeClock::stamp`] of the moment at which it came into its
    /// list.
    came: PageMap<u16>,
    /// Pages that have come into the lists of each region.
    comings: [u64; MOST_REGIONS],
    /// A stamp stands for 2 to the power of this comings.
    shift: u32,
    /// A bit for each region with resident pages.
    occupied: u64,
    /// Resident pages.
    held: usize,
    /// Uses by region, fading.
    uses: [u64; MOST_REGIONS],
    /// Uses until the cuts are chosen anew.
    until_choice: usize,
    /// The cuts e and l, while early eviction is better than LRU.
    early: Option<(usize, usize)>,
    /// Pages found used that have yet to go to the front.
    found: Vec<PageId>,
    hand_steps: u64,
}

impl Registered for EeClock {
    const INFO: Info = Info {
        name: "ee-clock",
        summary: "EELRU from faults and bits: evicts early when most uses come just too late",
        paper: "none; after Smaragdakis, Kaplan, Wilson, EELRU, SIGMETRICS 1999",
        parameters: &[
            Parameter {
                name: "parts",
                default: "32",
                meaning: "regions that memory is cut into, at most 32",
            },
            Parameter { name: "reach", default: "4", meaning: "length of the queue, in memories, 2 to 4" },
            SETTLE,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let parts = frames.min(arguments.whole("parts", 1..=32)? as usize);
        let reach = arguments.whole("reach", 2..=4)? as usize;
        // The cuts, in parts of memory.
        let cuts = cuts(parts, reach);
        let beyond = cuts.len() - 1;
        let mut room = [usize::MAX; MOST_REGIONS];
        let mut cut_at = [0; MOST_REGIONS];
        for region in 0..beyond {
            room[region] = cuts[region + 1] * frames / parts - cuts[region] * frames / parts;
        }
        cut_at[..cuts.len()].copy_from_slice(&cuts);
        Ok(Self {
            frames,
            parts,
            beyond,
            room,
            cut_at,
            queue: Lists::default(),
            came: PageMap::new(),
            comings: [0; MOST_REGIONS],
            shift: (LATE_STEP * frames / parts).ilog2().saturating_sub(11),
            occupied: 0,
            held: 0,
            uses: [0; MOST_REGIONS],
            until_choice: period(frames),
            early: None,
            found: Vec::new(),
            hand_steps: 0,
        })
    }
}

/// Where the regions begin, in parts of memory.
fn cuts(parts: usize, reach: usize) -> Vec<usize> {
    let behind = (parts + LATE_STEP..parts * reach).step_by(LATE_STEP);
    (0..=parts).chain(behind).collect()
}

/// Uses between two choices of the cuts.
fn period(frames: usize) -> usize {
    LEAST_PERIOD.max(frames / 8)
}

impl EeClock {
    /// Takes a page out of the queue. Returns the list that it was in.
    #[inline]
    fn take_out(&mut self, page: PageId) -> Option<usize> {
        let list = self.queue.remove(page)?;
        if list < EVICTED && self.queue.is_empty(list) {
            self.occupied &= !(1 << list);
        }
        Some(list)
    }

    /// Puts a page that is in no list into one.
    #[inline]
    fn put(&mut self, list: usize, page: PageId) {
        self.queue.push_back(list, page);
        let region = list % EVICTED;
        self.comings[region] += 1;
        self.came.set(page, self.stamp(region));
        if list < EVICTED {
            self.occupied |= 1 << list;
        }
    }

    /// Pages of a region, not the last.
    #[inline]
    fn len(&self, region: usize) -> usize {
        self.queue.len(region) + self.queue.len(EVICTED + region)
    }

    /// The time in a region, which is counted by the pages that come.
    #[inline]
    fn stamp(&self, region: usize) -> u16 {
        (self.comings[region] >> self.shift) as u16
    }

    /// The oldest page of a region that has pages, not the last.
    #[inline]
    fn oldest(&self, region: usize) -> Option<PageId> {
        let now = self.stamp(region);
        let age = |page: &PageId| now.wrapping_sub(self.came[*page]);
        let fronts = [self.queue.front(region), self.queue.front(EVICTED + region)];
        fronts.into_iter().flatten().max_by_key(age)
    }

    /// A use of a page in the region.
    #[inline]
    fn count(&mut self, region: usize) {
        self.uses[region] += USE;
        self.until_choice -= 1;
        if self.until_choice == 0 {
            self.until_choice = period(self.frames);
            self.choose();
            for uses in &mut self.uses {
                *uses -= *uses / FADE;
            }
        }
    }

    /// Chooses the cuts.
    fn choose(&mut self) {
        // Uses before each cut.
        let mut before = [0; MOST_REGIONS];
        for region in 0..self.beyond {
            before[region + 1] = before[region] + self.uses[region];
        }
        self.early = None;
        let mut most = before[self.parts] as f64;
        for early in 1..self.parts {
            for late in self.parts + 1..=self.beyond {
                let share = (self.parts - early) as f64 / (self.cut_at[late] - early) as f64;
                let seen = before[early] as f64 + (before[late] - before[early]) as f64 * share;
                if seen > most {
                    most = seen;
                    self.early = Some((early, late));
                }
            }
        }
    }

    /// Puts a resident page that is not in the queue to its front, and then all that are found used
    /// on the way.
    fn bring_to_front<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        self.found.push(page);
        // A running program may set bits as fast as they are taken back.
        for _ in 0..=2 * self.frames {
            let Some(page) = self.found.pop() else { return };
            self.take_out(page);
            self.put(0, page);
            self.pass_on(mmu);
        }
        self.found.clear();
    }

    /// Each region that is too long passes its oldest page on.
    #[inline]
    fn pass_on<M: Mmu>(&mut self, mmu: &mut M) {
        for region in 0..self.beyond {
            if self.len(region) <= self.room[region] {
                return;
            }
            let page = self.oldest(region).expect("it is too long");
            self.hand_steps += 1;
            let list = self.take_out(page).expect("it is in the queue");
            // The page that will be the oldest after the next one passes.
            if let Some(next) = self.queue.front(list).and_then(|front| self.queue.next(front)) {
                self.queue.prefetch(next);
                self.came.prefetch(next);
                mmu.prefetch(next);
            }
            if list == region {
                self.put(region + 1, page);
                if mmu.test_and_clear_referenced(page) {
                    self.count(region);
                    self.found.push(page);
                }
            } else if region + 1 < self.beyond {
                self.put(EVICTED + region + 1, page);
            }
        }
    }

    /// The page to give up by the cuts, whether it was used or not.
    #[inline]
    fn candidate(&self) -> Option<PageId> {
        let oldest = self.occupied.checked_ilog2()? as usize;
        if let Some((early, late)) = self.early
            && oldest < late
            && self.occupied >> early != 0
        {
            let region = early + (self.occupied >> early).trailing_zeros() as usize;
            return self.queue.back(region);
        }
        self.queue.front(oldest)
    }
}

impl Policy for EeClock {
    type Model = VmModel;

    const NOT_SAMPLED: Option<&'static str> = Some(
        "it chooses its cuts after 128 uses or more, however small the memory, and the error was not measured",
    );

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        for _ in 0..=2 * self.held {
            let page = self.candidate()?;
            self.hand_steps += 1;
            if !mmu.test_and_clear_referenced(page) {
                return Some(page);
            }
            let region = self.queue.list_of(page).expect("resident pages are in the queue");
            self.count(region);
            self.bring_to_front(page, mmu);
        }
        self.candidate()
    }

    fn evict(&mut self, page: PageId) {
        let Some(region) = self.take_out(page) else { return };
        self.held -= 1;
        if region != self.beyond {
            self.put(EVICTED + region, page);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        if let Some(list) = self.take_out(reference.page) {
            self.count(list - EVICTED);
        }
        self.held += 1;
        self.bring_to_front(reference.page, mmu);
        false
    }

    fn remove(&mut self, page: PageId) {
        self.held -= usize::from(self.take_out(page).is_some_and(|list| list < EVICTED));
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let mut held = 0;
        for region in 0..MOST_REGIONS {
            let resident = self.queue.len(region);
            let evicted = if region + 1 < MOST_REGIONS { self.queue.len(EVICTED + region) } else { 0 };
            let len = resident + evicted;
            ensure!(len <= self.room[region], "{len} pages in region {region}");
            ensure!(region <= self.beyond || len == 0, "{len} pages in region {region}");
            ensure!(region != self.beyond || evicted == 0, "{evicted} evicted pages in the last region");
            ensure!(
                (self.occupied >> region & 1 == 1) == (resident > 0),
                "region {region}: {resident} resident"
            );
            held += resident;
        }
        ensure!(held == self.held && held <= self.frames, "{held} pages resident, {} counted", self.held);
        ensure!(self.found.is_empty(), "{} pages wait for the front", self.found.len());
        for list in 0..LISTS {
            let now = self.comings[list % EVICTED];
            let age = |page| self.stamp(list % EVICTED).wrapping_sub(self.came[page]);
            let is_exact = now >> self.shift <= u64::from(u16::MAX);
            ensure!(
                !is_exact || self.queue.iter(list).map(age).is_sorted_by(|a, b| a >= b),
                "list {list} is not in order"
            );
        }
        self.queue.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use crate::conformance::{Machine, naive_model, run};
    use crate::registry::Spec;
    use alloc::{format, string::String};

    /// The queue, oldest page first, with `|` at the cuts; `*` for a set bit, brackets round
    /// evicted pages.
    fn show(machine: &Machine<EeClock>) -> String {
        let policy = machine.policy();
        let mut text = String::new();
        for region in (0..=policy.beyond).rev() {
            let evicted = (region < policy.beyond).then(|| policy.queue.iter(EVICTED + region));
            let mut pages: Vec<PageId> =
                evicted.into_iter().flatten().chain(policy.queue.iter(region)).collect();
            pages.sort_by_key(|&page| policy.came[page]);
            for page in pages {
                text += &match policy.queue.list_of(page) {
                    Some(EVICTED..) => format!("({page})"),
                    _ if machine.is_referenced(page) => format!("{page}*"),
                    _ => format!("{page}"),
                };
            }
            text += if region > 0 { "|" } else { "" };
        }
        text
    }

    #[test]
    fn worked_example() {
        let mut machine = Machine::<EeClock>::new("ee-clock:parts=2,reach=4", 4);
        let states = machine.trace(&[1, 2, 3, 1, 4, 5, 2, 6, 7, 8, 9], show);
        assert_eq!(
            states,
            [
                "|||1",
                "|||12",
                "||1|23", // 1 passes the first cut
                "||1*|23",
                "||1*2|34",
                // 1 is the oldest and was used: it goes to the front. 2 leaves memory, and becomes
                // the newest of its region; 3 passes the second cut.
                "|3|(2)4|15",
                "|(3)|41|52", // 2 comes back, and 3 leaves
                "|(3)1|(4)5|26",
                "|(3)(1)(4)|52|67", // behind memory there is room for eight
                "|(3)(1)(4)2|(5)6|78",
                "|(3)(1)(4)(2)(5)|67|89",
            ]
        );
    }

    /// With memory for 64 of 80 pages of a loop, CLOCK misses each time.
    #[test]
    fn it_evicts_early_on_a_loop_and_not_on_a_hot_set() {
        let references: Vec<u32> = (0..8000).map(|time| time % 80).collect();
        let faults = |spec, string: &[u32]| run(spec, string, 64).iter().filter(|step| step.fault).count();
        assert_eq!(faults("clock", &references), 8000);
        let early = faults("ee-clock", &references);
        assert!(early < 8000 / 2, "{early} faults");
        // Most references go to 50 pages, which change slowly.
        let mut random = SplitMix64::new(5);
        let references: Vec<u32> = (0..20_000).map(|time| time / 100 + random.below(50) as u32).collect();
        let [early, clock] = ["ee-clock", "clock"].map(|spec| faults(spec, &references));
        assert!(early * 100 <= clock * 105, "{early} faults, CLOCK {clock}");
    }

    /// The cuts change several times.
    #[test]
    fn long_strings_agree_with_the_naive_model() {
        let mut random = SplitMix64::new(7);
        for (spec, frames) in [("ee-clock", 40), ("ee-clock:parts=4,reach=3", 33), ("ee-clock:parts=7", 21)] {
            let mut string = Vec::new();
            for phase in 0..8 {
                let pages = frames as u64 * (6 + phase % 4 * 3) / 6;
                for time in 0..600 {
                    let page = if random.below(4) == 0 { random.below(pages) } else { time % pages };
                    string.push(page as u32);
                }
            }
            let expected = naive_model(&Spec::parse(spec).unwrap(), &string, frames).unwrap();
            assert_eq!(run(spec, &string, frames), expected, "{spec}");
        }
    }
}
