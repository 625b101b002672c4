//! EE-CLOCK: early eviction as in EELRU, from faults and reference bits alone.
//!
//! Paper: none. After Y. Smaragdakis, S. Kaplan, P. Wilson, "EELRU: simple and effective adaptive
//! page replacement", ACM SIGMETRICS 1999, which sees every reference.
//!
//! A queue has the pages in the order of their last known use, evicted pages included. It is cut
//! into regions. Those in memory are a `parts`-th of it long, and those behind it four times that.
//! A page that comes in goes to the front, and so the cuts move over the pages before them. A
//! resident page is looked at when a cut passes it, and when it is proposed as a victim. If its bit
//! is set, it was used and goes to the front. So what a hit costs LRU is done once a region, and
//! only if somebody faults.
//!
//! Nothing is moved when a cut passes. Of each page the policy knows its generation: a number that
//! goes up by one each time that a quarter of a part has come to the front. It counts the pages of
//! each generation, and so finds the generation that a cut has come to. The region of a page
//! follows from its generation. The pages that come to the front are written to a log, one after
//! another, where the cuts are hands. An entry counts while its page is resident and of the
//! generation that the entry is of; the others are thrown out now and then.
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
//! the resident pages that came so far, and uses of evicted pages do not count there. Cuts never
//! move back. Pages that were found used when a generation ends go to the front after it, the one
//! found last first. Memories of fewer frames than `parts` have as many parts as frames. When there
//! are 1,024 generations, those that have few pages together are taken as one. After 2^30
//! generations their numbers begin anew.
//!
//! Cost: hit nothing. Fault amortised O(`parts` x (1 + (`reach` - 1) / 4)): a cut passes each entry
//! once, and a look that finds a set bit takes it back. But what is passed lies in a row, so that
//! the processor fetches it ahead. `hand_steps` counts resident pages that a cut passes and victims
//! looked at. 4 bytes a page seen, up to 4.8 a frame, and 12 KiB.

use crate::arguments::Parameter;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation, VmModel};
use alloc::vec::Vec;

/// Most regions.
const MOST_REGIONS: usize = 64;
/// Generations that a part of memory is divided into.
const GRAINS: usize = 4;
/// Parts that a region behind memory is long.
const LATE_STEP: usize = 4;
/// Fewest uses between two choices.
const LEAST_PERIOD: usize = 128;
/// What a use counts; what the counts lose each time is rounded down.
const USE: u64 = 1 << 16;
/// After each choice, the counts lose one part in this many.
const FADE: u64 = 10;
/// Entries of the log between one and that whose page is fetched meanwhile.
const AHEAD: usize = 12;
/// Most groups of generations.
const MOST_GROUPS: usize = 1024;

/// The number of a generation is below the flags of [`Place`].
const LAST_GENERATION: u32 = Place::KNOWN - 1;

/// What is known of a page: the number of its generation, and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Place(u32);

impl Place {
    const RESIDENT: u32 = 1 << 31;
    /// Not forgotten.
    const KNOWN: u32 = 1 << 30;

    fn is_resident(self) -> bool {
        self.0 & Self::RESIDENT != 0
    }

    fn is_known(self) -> bool {
        self.0 & Self::KNOWN != 0
    }

    fn generation(self) -> u32 {
        self.0 & (Self::KNOWN - 1)
    }
}

/// Generations that follow one another, and are counted together.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The first of the generations.
    first: u32,
    /// The known pages in them.
    pages: u32,
    /// The first entry of the log that is of these generations or of later ones.
    entry: u32,
}

/// The entries of a group in the log.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// The first entry, and that behind the last.
    entries: (usize, usize),
    /// The first generation, and that behind the last.
    generations: (u32, u32),
}

/// Early eviction from faults and bits. The fields are the parameters, the log of uses with its
/// regions and the counts by region that the cuts come from.
#[derive(Debug)]
pub struct EeClock {
    frames: usize,
    /// Regions of memory.
    parts: usize,
    /// The last region, which has no end.
    beyond: usize,
    /// Pages of a generation.
    grain: usize,
    /// Where each region begins, in parts of memory.
    cut_at: [usize; MOST_REGIONS],
    /// Where each region begins, in pages.
    cut_pages: [usize; MOST_REGIONS],
    places: PageMap<Place>,
    /// The pages that came to the front, in that order. An entry counts while its page is resident
    /// and of the same generation.
    log: Vec<u32>,
    /// The first entry of the log that may count.
    head: usize,
    /// Where that is, unless the head has left it.
    head_stretch: Stretch,
    /// Length of the log at which entries that do not count are thrown out.
    log_limit: usize,
    groups: Vec<Group>,
    now: u32,
    /// Entries of this generation.
    came: usize,
    /// The boundary in front of each region: pages of this generation and of later ones are before
    /// it. 0 for the first region, and for those that there are not.
    cuts: [u32; MOST_REGIONS],
    /// The first entry of the log before each of these.
    entries: [u32; MOST_REGIONS],
    /// Stretches of the log that have no entries that count, from the old end. For early evictions.
    gone: Vec<(usize, usize)>,
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
        let mut cut_at = [0; MOST_REGIONS];
        let mut cut_pages = [0; MOST_REGIONS];
        cut_at[..cuts.len()].copy_from_slice(&cuts);
        for (pages, at) in cut_pages.iter_mut().zip(&cuts) {
            *pages = at * frames / parts;
        }
        Ok(Self {
            frames,
            parts,
            beyond: cuts.len() - 1,
            grain: (frames / (parts * GRAINS)).max(1),
            cut_at,
            cut_pages,
            places: PageMap::new(),
            log: Vec::new(),
            head: 0,
            head_stretch: Stretch::default(),
            log_limit: frames + frames / 8 + 16,
            groups: alloc::vec![Group { first: 1, pages: 0, entry: 0 }],
            now: 1,
            came: 0,
            cuts: [0; MOST_REGIONS],
            entries: [0; MOST_REGIONS],
            gone: Vec::new(),
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
    /// The region of a generation.
    #[inline]
    fn region(&self, generation: u32) -> usize {
        self.cuts.iter().map(|&cut| u32::from(generation < cut)).sum::<u32>() as usize
    }

    /// The group of a generation.
    #[inline]
    fn group(&mut self, generation: u32) -> &mut Group {
        let behind = self.groups.partition_point(|group| group.first <= generation);
        &mut self.groups[behind - 1]
    }

    /// The group that an entry of the log is of.
    #[inline]
    fn stretch(&self, entry: usize) -> Stretch {
        let behind = self.groups.partition_point(|group| group.entry as usize <= entry);
        let group = &self.groups[behind - 1];
        let (end, next) = match self.groups.get(behind) {
            Some(next) => (next.entry as usize, next.first),
            None => (self.log.len(), self.now + 1),
        };
        Stretch { entries: (group.entry as usize, end), generations: (group.first, next) }
    }

    /// Whether an entry of this stretch counts.
    #[inline]
    fn counts(&self, entry: usize, stretch: Stretch) -> bool {
        let place = self.places[PageId(self.log[entry])];
        let (first, next) = stretch.generations;
        place.is_resident() && first <= place.generation() && place.generation() < next
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
        let was = self.early.take();
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
        if self.early.map(|cuts| cuts.0) != was.map(|cuts| cuts.0) {
            self.gone.clear();
        }
    }

    /// Puts a resident page to the front, and then all that are found used on the way.
    fn bring_to_front<M: Mmu>(&mut self, page: PageId, mmu: &mut M) {
        self.found.push(page);
        // A running program may set bits as fast as they are taken back.
        for _ in 0..=2 * self.frames {
            let Some(page) = self.found.pop() else { return };
            self.put(page);
            if self.came == self.grain {
                self.begin_generation(mmu);
            }
        }
        self.found.clear();
    }

    /// Puts a resident page to the front.
    #[inline]
    fn put(&mut self, page: PageId) {
        let place = self.places[page];
        let was_here = place.generation() == self.now;
        if was_here && !place.is_resident() {
            // Its entry counts once more, and the head may have passed it.
            let newest = self.groups.last().expect("there is one").entry as usize;
            self.head = self.head.min(newest);
            self.head_stretch = Stretch::default();
        }
        if place.is_known() {
            if was_here {
                self.places[page] = Place(self.now | Place::RESIDENT | Place::KNOWN);
                return;
            }
            let group = self.group(place.generation());
            group.pages = group.pages.saturating_sub(1);
        }
        self.places[page] = Place(self.now | Place::RESIDENT | Place::KNOWN);
        let last = self.groups.last_mut().expect("there is one");
        last.pages += 1;
        if !was_here {
            self.came += 1;
            if self.log.len() == self.log.capacity() {
                // As arrays of pages grow: a live pager pays for what is allocated.
                self.log.reserve_exact(self.log.len() / 16 + 16);
            }
            self.log.push(page.0);
        }
    }

    /// Closes the newest generation. The cuts move on, and pages that they pass are looked at.
    fn begin_generation<M: Mmu>(&mut self, mmu: &mut M) {
        if self.log.len() >= self.log_limit {
            self.throw_out();
        }
        if self.groups.len() >= MOST_GROUPS {
            self.merge();
        }
        if self.now == LAST_GENERATION {
            self.number_anew();
        }
        let mut region = 1;
        let mut pages = 0;
        let mut number = self.groups.len();
        let mut looks = [(0, 0); MOST_REGIONS];
        while region <= self.beyond && number > 0 {
            number -= 1;
            let group = self.groups[number];
            pages += group.pages as usize;
            while region <= self.beyond && pages >= self.cut_pages[region] {
                if group.first > self.cuts[region] {
                    looks[region] = (self.entries[region] as usize, group.entry as usize);
                    (self.cuts[region], self.entries[region]) = (group.first, group.entry);
                }
                region += 1;
            }
        }
        for (region, (from, to)) in looks.into_iter().enumerate().skip(1) {
            self.look(from, to, region - 1, mmu);
        }
        self.now += 1;
        self.came = 0;
        self.groups.push(Group { first: self.now, pages: 0, entry: self.log.len() as u32 });
    }

    /// Looks at the pages of these entries of the log, which leave a region.
    #[inline]
    fn look<M: Mmu>(&mut self, from: usize, to: usize, region: usize, mmu: &mut M) {
        let mut entry = from.max(self.head);
        while entry < to {
            let stretch = self.stretch(entry);
            for entry in entry..to.min(stretch.entries.1) {
                if let Some(&ahead) = self.log.get(entry + AHEAD) {
                    self.places.prefetch(PageId(ahead));
                    mmu.prefetch(PageId(ahead));
                }
                if !self.counts(entry, stretch) {
                    continue;
                }
                self.hand_steps += 1;
                let page = PageId(self.log[entry]);
                if mmu.test_and_clear_referenced(page) {
                    self.count(region);
                    self.found.push(page);
                }
            }
            entry = stretch.entries.1;
        }
    }

    /// Throws out what does not count from the log.
    #[cold]
    fn throw_out(&mut self) {
        let mut kept = 0;
        let mut cut = self.beyond;
        for number in 0..self.groups.len() {
            let start = self.groups[number].entry as usize;
            let end = self.groups.get(number + 1).map_or(self.log.len(), |next| next.entry as usize);
            // The newest generation has each of its pages once, resident or not.
            let is_newest = number + 1 == self.groups.len();
            let next = if is_newest { u32::MAX } else { self.groups[number + 1].first };
            let stretch = Stretch { entries: (start, end), generations: (self.groups[number].first, next) };
            self.groups[number].entry = kept as u32;
            for entry in start..end {
                while self.entries[cut] as usize == entry && cut > 0 {
                    self.entries[cut] = kept as u32;
                    cut -= 1;
                }
                if let Some(&ahead) = self.log.get(entry + AHEAD) {
                    self.places.prefetch(PageId(ahead));
                }
                if is_newest || self.counts(entry, stretch) {
                    self.log[kept] = self.log[entry];
                    kept += 1;
                }
            }
        }
        self.entries[1..=cut].fill(kept as u32);
        self.log.truncate(kept);
        self.head = 0;
        self.head_stretch = Stretch::default();
        self.gone.clear();
    }

    /// Puts generations together that have few pages.
    #[cold]
    fn merge(&mut self) {
        // What has come to the front twice within a group must be in the log once.
        self.throw_out();
        let mut pages = 0;
        let mut kept: Vec<Group> = Vec::new();
        for &group in self.groups.iter().rev() {
            let limit = match pages {
                pages if pages < self.frames => self.grain,
                pages if pages < self.cut_pages[self.beyond] => LATE_STEP * self.grain,
                _ => usize::MAX,
            };
            pages += group.pages as usize;
            match kept.last_mut() {
                Some(last) if last.first != self.now && (last.pages + group.pages) as usize <= limit => {
                    *last = Group { pages: last.pages + group.pages, ..group };
                }
                _ => kept.push(group),
            }
        }
        kept.reverse();
        self.groups = kept;
    }

    /// Numbers the groups from 1 on, when the newest generation ends and has the last number.
    #[cold]
    fn number_anew(&mut self) {
        let groups = &self.groups;
        self.places.change_all(|place| match place.is_known() {
            true => {
                let number = groups.partition_point(|group| group.first <= place.generation());
                Place(place.0 & !LAST_GENERATION | number as u32)
            }
            false => Place::default(),
        });
        for cut in self.cuts.iter_mut().filter(|cut| **cut > 0) {
            *cut = groups.partition_point(|group| group.first < *cut) as u32 + 1;
        }
        for (number, group) in (1..).zip(&mut self.groups) {
            group.first = number;
        }
        self.now = self.groups.len() as u32;
        self.head_stretch = Stretch::default();
    }

    /// The oldest resident page.
    #[inline]
    fn oldest(&mut self) -> Option<PageId> {
        while self.head < self.log.len() {
            // The end of the newest stretch moves.
            if self.head >= self.head_stretch.entries.1 {
                self.head_stretch = self.stretch(self.head);
            }
            if self.counts(self.head, self.head_stretch) {
                return Some(PageId(self.log[self.head]));
            }
            self.head += 1;
        }
        None
    }

    /// The page to give up by the cuts, whether it was used or not.
    #[inline]
    fn candidate(&mut self) -> Option<PageId> {
        let oldest = self.oldest()?;
        let Some((early, late)) = self.early else { return Some(oldest) };
        if self.places[oldest].generation() < self.cuts[late] {
            return Some(oldest);
        }
        Some(self.newest_behind(early).unwrap_or(oldest))
    }

    /// The newest resident page that has passed a cut.
    #[inline]
    fn newest_behind(&mut self, cut: usize) -> Option<PageId> {
        let start = self.entries[cut] as usize;
        let mut entry = start;
        let mut stretch = Stretch::default();
        let newest = loop {
            if let Some(&(from, to)) = self.gone.last()
                && to == entry
            {
                self.gone.pop();
                entry = from;
            }
            if entry <= self.head {
                break None;
            }
            if entry <= stretch.entries.0 || stretch.entries.1 == 0 {
                stretch = self.stretch(entry - 1);
            }
            if self.counts(entry - 1, stretch) {
                break Some(PageId(self.log[entry - 1]));
            }
            entry -= 1;
        };
        if entry < start {
            self.gone.push((entry, start));
        }
        newest
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
            let region = self.region(self.places[page].generation());
            self.count(region);
            self.bring_to_front(page, mmu);
        }
        self.candidate()
    }

    fn evict(&mut self, page: PageId) {
        let place = &mut self.places[page];
        if place.is_resident() {
            place.0 &= !Place::RESIDENT;
            self.held -= 1;
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        self.places.cover(reference.page);
        let place = self.places[reference.page];
        if place.is_known() {
            let region = self.region(place.generation());
            if region < self.beyond {
                self.count(region);
            }
        }
        self.held += 1;
        self.bring_to_front(reference.page, mmu);
        false
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.places.prefetch(page);
    }

    fn remove(&mut self, page: PageId) {
        let place = self.places.get(page);
        self.held -= usize::from(place.is_resident());
        if place.is_known() {
            let group = self.group(place.generation());
            group.pages = group.pages.saturating_sub(1);
            self.places[page] = Place(place.generation());
        }
    }

    fn hand_steps(&self) -> u64 {
        self.hand_steps
    }

    fn check(&self) -> Result<(), Violation> {
        let held = self.places.iter().filter(|(_, place)| place.is_resident()).count();
        ensure!(held == self.held && held <= self.frames, "{held} pages resident, {} counted", self.held);
        ensure!(self.found.is_empty(), "{} pages wait for the front", self.found.len());
        let mut pages_of = alloc::vec![0; self.groups.len()];
        for (_, place) in self.places.iter().filter(|(_, place)| place.is_known()) {
            let begun = self.groups.partition_point(|group| group.first <= place.generation());
            ensure!(begun > 0, "generation {} is before all groups", place.generation());
            pages_of[begun - 1] += 1;
        }
        let mut entries = 0;
        for (number, (group, pages)) in self.groups.iter().zip(pages_of).enumerate() {
            let next = self.groups.get(number + 1);
            let behind = next.map_or(u32::MAX, |next| next.first);
            ensure!(group.first < behind, "group {number} begins behind the next");
            ensure!(pages == group.pages, "{pages} pages in group {number}, counted {}", group.pages);
            let end = next.map_or(self.log.len(), |next| next.entry as usize);
            for entry in group.entry as usize..end {
                let stretch =
                    Stretch { entries: (group.entry as usize, end), generations: (group.first, behind) };
                let counts = self.counts(entry, stretch);
                entries += usize::from(counts);
                ensure!(!counts || entry >= self.head, "entry {entry} is before the head");
                let is_gone = self.gone.iter().any(|&(from, to)| from <= entry && entry < to);
                ensure!(!counts || !is_gone, "entry {entry} is not gone");
            }
        }
        ensure!(entries == held, "{entries} entries of the log count, {held} pages are resident");
        let is_in_order = self.cuts[1..].is_sorted_by(|a, b| a >= b);
        ensure!(is_in_order, "the cuts are not in order: {:?}", self.cuts);
        for (cut, entry) in self.cuts.iter().zip(self.entries) {
            let newer = self.groups.iter().find(|group| group.first >= *cut);
            let expected = newer.map_or(self.log.len(), |group| group.entry as usize);
            ensure!(
                *cut == 0 || entry as usize <= expected,
                "the cut at {cut} is at entry {entry}, its group at {expected}"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use crate::conformance::{Machine, naive_model, run};
    use crate::registry::Spec;
    use alloc::{collections::BTreeMap, format, string::String};
    use sweephand_checks::trying;

    /// The queue, oldest page first, with `|` at the cuts; `*` for a set bit, brackets round
    /// evicted pages.
    fn show(machine: &Machine<EeClock>) -> String {
        let policy = machine.policy();
        let mut text = String::new();
        for region in (0..=policy.beyond).rev() {
            for (entry, &page) in policy.log.iter().enumerate() {
                let place = policy.places[PageId(page)];
                let (first, next) = policy.stretch(entry).generations;
                let is_here = first <= place.generation() && place.generation() < next;
                if !is_here || policy.region(place.generation()) != region {
                    continue;
                }
                text += &match place.is_resident() {
                    false => format!("({page})"),
                    true if machine.is_referenced(PageId(page)) => format!("{page}*"),
                    true => format!("{page}"),
                };
            }
            text += if region > 0 { "|" } else { "" };
        }
        text
    }

    #[test]
    fn follows_the_worked_example() {
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
                // 1 is the oldest and was used: it goes to the front. 2 leaves memory, and 5 comes.
                "|(2)|34|15",
                "|(3)|41|52", // 2 comes back, and 3 leaves
                "|(3)(4)|15|26",
                "|(3)(4)(1)|52|67", // behind memory there is room for eight
                "|(3)(4)(1)(5)|26|78",
                "|(3)(4)(1)(5)(2)|67|89",
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

    /// A pager may ask for victims while few pages are in memory, so that all of them are of the
    /// newest generation. One that left and comes back there keeps its place.
    #[test]
    fn every_step_is_sound_with_few_pages_in_a_large_memory() {
        for seed in 0..50 {
            let _input = trying(|| format!("seed {seed}"));
            let mut machine = Machine::<EeClock>::new("ee-clock:parts=2", 160);
            let mut random = SplitMix64::new(seed);
            for _ in 0..600 {
                match random.below(8) {
                    0 => machine.unmap(random.below(12) as u32).unwrap(),
                    1 | 2 => machine.evict_ahead(1).unwrap(),
                    3 => machine.lose_race().unwrap(),
                    _ => drop(machine.access(random.below(12) as u32)),
                }
            }
        }
    }

    /// The pages that the policy proposes for this string, from some generation on.
    fn victims_from(generation: u32, string: &[u32], frames: usize) -> Vec<PageId> {
        let spec = Spec::parse("ee-clock:parts=4").unwrap();
        let mut policy = EeClock::configure(frames, spec.arguments()).unwrap();
        policy.now = generation;
        policy.groups[0].first = generation;
        let (mut memory, mut victims) = (Bits::default(), Vec::new());
        for (time, &page) in string.iter().enumerate() {
            let page = PageId(page);
            if let Some(bit) = memory.0.get_mut(&page) {
                *bit = true;
                continue;
            }
            if time % 50 == 0 {
                let unmapped = PageId(string[time / 2]);
                memory.0.remove(&unmapped);
                policy.remove(unmapped);
            }
            if memory.0.len() == frames {
                let victim = policy.victim(&mut memory).unwrap();
                memory.0.remove(&victim);
                policy.evict(victim);
                victims.push(victim);
            }
            memory.0.insert(page, false);
            let reference = Reference { page, page_number: 0, object: 0, next_use: crate::NEVER };
            policy.insert(reference, &mut memory);
            policy.check().unwrap();
        }
        victims
    }

    #[derive(Default)]
    struct Bits(BTreeMap<PageId, bool>);

    impl Mmu for Bits {
        fn test_and_clear_referenced(&mut self, page: PageId) -> bool {
            self.0.get_mut(&page).is_some_and(core::mem::take)
        }
    }

    /// Where numbers of generations run out, they begin anew, and nothing else changes.
    #[test]
    fn generations_are_numbered_anew() {
        let mut random = SplitMix64::new(11);
        let string: Vec<u32> = (0..6000)
            .map(|time| if random.below(4) == 0 { random.below(60) as u32 } else { time % 50 })
            .collect();
        let expected = victims_from(1, &string, 40);
        for left in [0, 1, 7, 100, 900, 1500] {
            assert_eq!(victims_from(LAST_GENERATION - left, &string, 40), expected, "{left} left");
        }
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
