//! What the epochs so far say: working sets, and bounds on the faults in less memory.
//!
//! An epoch says which pages were used in it, and neither how often nor in which order. Between the
//! last use of a page in one epoch and its first use in a later one, at least the pages of the
//! epochs strictly between were used, and at most those of all epochs from the one to the other:
//!
//! ```text
//!     epoch     1      2      3      4
//!     pages     A B    C D    C      A E        A again: 2 others at least (C, D),
//!                                               and 4 at most (B, C, D, E)
//! ```
//!
//! LRU faults on a page if at least as many others were used since as there are frames. So each
//! reuse gives a bound below and one above. A page that is used several times in one epoch is found
//! by LRU if memory holds all pages of that epoch. In smaller memories there are further faults
//! that nobody has seen, and no bound above.
//!
//! If only a sample of the pages is looked at, each of its pages stands for some: the *weight*.
//! Numbers of pages and of reuses are multiplied by it when they are counted, so bounds are
//! estimates then.
//!
//! Only reuse within the watch counts. Whether the first use of a page would have been a fault
//! depends on what was before.

use crate::look::{BLOCK_PAGES as SAMPLE_BLOCK_PAGES, Sample, UsedPage};
use crate::uses::Uses;
use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::time::Duration;

/// Pages of a block of [`History::last`].
const BLOCK_PAGES: u64 = 512;
/// Pages with this number or a higher one keep it while they are not in memory, as pages of files
/// do. Frames are below: this would be 4 PiB of memory.
pub(crate) const FIRST_KEPT: u64 = 1 << 40;
/// No epoch: the page has not been used, or its contents are gone.
const NEVER: u32 = 0;

/// The epochs so far.
#[derive(Clone, Debug)]
pub struct History {
    /// For each page of the sample in some blocks, the epoch in which it was used last. The first
    /// is 1.
    last: BTreeMap<u64, Box<[u32; BLOCK_PAGES as usize]>>,
    /// The pages of the sample that were used last in an epoch, by epoch.
    pages_by_last: Vec<u64>,
    /// Pages whose contents are gone, by the epoch in which they were used last. They took memory
    /// until then.
    gone_by_last: Vec<u64>,
    /// When each epoch ended, from the start of the watch.
    ends: Vec<Duration>,
    /// Reuses by the least and by the most pages that memory must have for LRU to find the page.
    reuses_by_least: BTreeMap<u64, u64>,
    reuses_by_most: BTreeMap<u64, u64>,
    most_there: MostThere,
    /// The pages used in each epoch, as far as they were there at a time, and the most of them.
    epoch_pages: Vec<u64>,
    largest_epoch_pages: u64,
    first_uses: u64,
    /// The most pages that were known at a time.
    most_known_pages: u64,
    /// The pages used in each epoch, if they are kept.
    uses: Option<Uses>,
    /// How many pages a page of the sample stands for, by the last epoch.
    weight: f64,
}

/// How many pages can have been there at a time.
#[derive(Clone, Debug, Default)]
struct MostThere {
    /// The most that were in memory at a time, if that is known.
    resident: Option<u64>,
    /// Pages from [`FIRST_KEPT`] on that are known now.
    kept: u64,
    /// How many of them can have been in memory at the last look.
    kept_in_memory: u64,
    /// The most of them that were not, at any look.
    most_evicted: u64,
}

impl MostThere {
    /// An epoch has used some kept pages for the first time.
    fn add(&mut self, new: u64) {
        self.kept += new;
        self.most_evicted = self.most_evicted.max(self.kept.saturating_sub(self.kept_in_memory));
    }

    fn pages(&self) -> Option<u64> {
        self.resident.map(|resident| resident + self.most_evicted)
    }
}

/// Bounds on a number of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// LRU takes at least this many.
    pub at_least: u64,
    /// It takes at most this many. `None`: there is no such bound.
    pub at_most: Option<u64>,
}

/// How much memory is enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnoughPages {
    /// Less is not enough.
    pub at_least: u64,
    /// More is not needed.
    pub at_most: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            last: BTreeMap::new(),
            pages_by_last: vec![0],
            gone_by_last: vec![0],
            ends: vec![Duration::ZERO],
            reuses_by_least: BTreeMap::new(),
            reuses_by_most: BTreeMap::new(),
            most_there: MostThere::default(),
            epoch_pages: Vec::new(),
            largest_epoch_pages: 0,
            first_uses: 0,
            most_known_pages: 0,
            uses: None,
            weight: 1.0,
        }
    }
}

impl History {
    /// Keeps the pages used in each epoch from now on, as far as a budget of memory allows, so that
    /// other policies than LRU can be estimated ([`Estimates`](crate::Estimates)).
    pub fn keep_uses(&mut self) {
        self.uses = Some(Uses::default());
    }

    /// A history that keeps uses within a budget.
    #[cfg(test)]
    pub(crate) fn with(uses: Uses) -> Self {
        Self { uses: Some(uses), ..Self::default() }
    }

    pub(crate) fn uses(&self) -> Option<&Uses> {
        self.uses.as_ref()
    }

    /// No more than this many pages were in memory at a time until now, those included that were
    /// not used. A program that takes and gives back memory may use more pages in an epoch than are
    /// ever there, and with memory for all that are there, LRU never faults.
    ///
    /// Pages of services' files are known by the same number after they were evicted, and these may
    /// have to fit besides. `in_memory`: how many pages of files were not evicted at the last look.
    pub fn bound(&mut self, most_pages: u64, in_memory: u64) {
        self.most_there.resident = self.most_there.resident.max(Some(most_pages));
        self.most_there.kept_in_memory = in_memory;
    }

    /// Adds an epoch: the pages used in it, ascending, how many pages each of them stands for, and
    /// when the epoch ended. Returns how many pages were used for the first time.
    pub fn add(&mut self, pages: &[UsedPage], weight: f64, end: Duration) -> u64 {
        self.weight = weight;
        let epoch = self.ends.len() as u32;
        // Of the pages of this epoch, those that were used last in each of the others.
        let mut reused = vec![0_u64; epoch as usize];
        let (mut new_kept, mut new_written) = (0, 0);
        for pages in pages.chunk_by(|a, b| a.number / BLOCK_PAGES == b.number / BLOCK_PAGES) {
            let never = || Box::new([NEVER; BLOCK_PAGES as usize]);
            let block = self.last.entry(pages[0].number / BLOCK_PAGES).or_insert_with(never);
            for page in pages {
                let last = &mut block[(page.number % BLOCK_PAGES) as usize];
                reused[*last as usize] += 1;
                let is_new_of_file = *last == NEVER && page.number >= FIRST_KEPT;
                new_kept += u64::from(is_new_of_file);
                new_written += u64::from(is_new_of_file && page.dirty);
                *last = epoch;
            }
        }
        self.most_there.add(new_kept);
        let first_uses = self.of_all(reused[NEVER as usize]);
        // Pages used in epochs after the one at hand and before this one.
        let (mut after, mut gone_after) = (0, 0);
        let mut of_earlier: u64 = reused.iter().sum();
        for last in (1..epoch as usize).rev() {
            of_earlier -= reused[last];
            let from = after + self.pages_by_last[last];
            gone_after += self.gone_by_last[last];
            if reused[last] > 0 {
                let reuses = self.of_all(reused[last]);
                *self.reuses_by_least.entry(self.of_all(after) + 1).or_default() += reuses;
                // What is new in this epoch, or was used before all these, comes to the others.
                let most = self.of_all(from + gone_after + of_earlier);
                *self.reuses_by_most.entry(self.there(most)).or_default() += reuses;
            }
            after = from;
        }
        self.pages_by_last.iter_mut().zip(&reused).skip(1).for_each(|(pages, reused)| *pages -= reused);
        self.pages_by_last.push(pages.len() as u64);
        self.gone_by_last.push(0);
        self.ends.push(end);
        // A file that is being written is hardly read in the same epoch.
        let epoch_pages = self.there(self.of_all(pages.len() as u64 - new_written));
        self.epoch_pages.push(epoch_pages);
        self.largest_epoch_pages = self.largest_epoch_pages.max(epoch_pages);
        self.most_known_pages = self.most_known_pages.max(self.known_pages());
        self.first_uses += first_uses;
        if let Some(uses) = &mut self.uses {
            uses.add(pages.iter().map(|page| page.number), reused[NEVER as usize]);
        }
        first_uses
    }

    /// The epoch in which a page of the sample was used last.
    pub fn last_use(&self, page: u64) -> Option<u64> {
        let last = self.last.get(&(page / BLOCK_PAGES))?[(page % BLOCK_PAGES) as usize];
        (last != NEVER).then_some(last.into())
    }

    /// The contents of pages are gone: their next use is a first one.
    pub fn forget(&mut self, pages: Range<u64>) {
        let blocks = pages.start / BLOCK_PAGES..pages.end.div_ceil(BLOCK_PAGES);
        for (block, epochs) in self.last.range_mut(blocks) {
            for (page, last) in (block * BLOCK_PAGES..).zip(epochs.iter_mut()) {
                if pages.contains(&page) && *last != NEVER {
                    self.pages_by_last[*last as usize] -= 1;
                    self.gone_by_last[*last as usize] += 1;
                    self.most_there.kept -= u64::from(page >= FIRST_KEPT);
                    *last = NEVER;
                    self.uses.iter_mut().for_each(|uses| uses.forget(page));
                }
            }
        }
    }

    /// Everything is gone: the process has become another program.
    pub fn forget_all(&mut self) {
        if let Some(uses) = &mut self.uses {
            let all = self.last.iter().flat_map(|(block, epochs)| (block * BLOCK_PAGES..).zip(epochs.iter()));
            all.filter(|(_, last)| **last != NEVER).for_each(|(page, _)| uses.forget(page));
        }
        self.last.clear();
        self.most_there.kept = 0;
        self.gone_by_last
            .iter_mut()
            .zip(&mut self.pages_by_last)
            .for_each(|(gone, pages)| *gone += take(pages));
    }

    /// Leaves out what is not in a thinner sample. Returns it.
    pub fn keep_only(&mut self, sample: Sample, was: Sample) -> Vec<Range<u64>> {
        let mut left_out: Vec<Range<u64>> = Vec::new();
        for (block, epochs) in &mut self.last {
            let parts = epochs.chunks_mut(SAMPLE_BLOCK_PAGES as usize);
            for (first, part) in (block * BLOCK_PAGES..).step_by(SAMPLE_BLOCK_PAGES as usize).zip(parts) {
                if sample.contains(first) || part.iter().all(|last| *last == NEVER) {
                    continue;
                }
                for last in part.iter_mut().map(take).filter(|last| *last != NEVER) {
                    self.pages_by_last[last as usize] -= 1;
                    self.most_there.kept -= u64::from(first >= FIRST_KEPT);
                }
                let end = first + SAMPLE_BLOCK_PAGES;
                match left_out.last_mut() {
                    Some(before) if before.end == first => before.end = end,
                    _ => left_out.push(first..end),
                }
            }
        }
        let thinner = sample.one_page_in() / was.one_page_in().min(sample.one_page_in());
        self.gone_by_last.iter_mut().for_each(|gone| *gone /= thinner);
        self.weight *= thinner as f64;
        if let Some(uses) = &mut self.uses {
            uses.keep_only(|_, page| sample.contains(page));
        }
        left_out
    }

    /// Of this many pages, those that can have been there at a time.
    fn there(&self, pages: u64) -> u64 {
        self.most_there.pages().map_or(pages, |most| most.min(pages))
    }

    /// How many pages of the process this many pages of the sample stand for.
    fn of_all(&self, sampled: u64) -> u64 {
        (sampled as f64 * self.weight).round() as u64
    }

    /// Epochs so far.
    pub fn epochs(&self) -> u64 {
        self.ends.len() as u64 - 1
    }

    /// The time from the start of the watch to the end of the last epoch.
    pub fn watched(&self) -> Duration {
        self.ends[self.ends.len() - 1]
    }

    /// Pages used in the last epochs that together last as long as this, or longer.
    pub fn working_set(&self, time: Duration) -> u64 {
        let now = self.watched();
        let is_earlier = |end: &Duration| *end + time <= now;
        let from = self.ends.partition_point(is_earlier).max(1);
        self.of_all(self.pages_by_last[from.min(self.pages_by_last.len() - 1)..].iter().sum())
    }

    /// Pages that have been used in the watch and are still there.
    pub fn known_pages(&self) -> u64 {
        self.of_all(self.pages_by_last.iter().skip(1).sum())
    }

    /// Pages that were used for the first time, or for the first time since their contents were
    /// gone.
    pub fn first_uses(&self) -> u64 {
        self.first_uses
    }

    /// The most pages that were there at a time of those used in the watch.
    pub fn most_known_pages(&self) -> u64 {
        self.most_known_pages
    }

    /// The pages used in each epoch.
    pub(crate) fn epoch_pages(&self) -> &[u64] {
        &self.epoch_pages
    }

    /// When each epoch ended, from the start of the watch; before the first one, 0.
    pub(crate) fn ends(&self) -> &[Duration] {
        &self.ends
    }

    /// How many pages a page of the history stands for.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// Pages of the epoch that has the most, as far as they were there at a time.
    pub fn largest_epoch_pages(&self) -> u64 {
        self.largest_epoch_pages
    }

    /// Pages of the sample in a range that were used in the last epoch, and those that were used
    /// before in the watch.
    pub fn used_in(&self, pages: Range<u64>) -> (u64, u64) {
        let now = self.ends.len() as u32 - 1;
        let blocks = pages.start / BLOCK_PAGES..pages.end.div_ceil(BLOCK_PAGES);
        let (mut hot, mut cold) = (0, 0);
        for (block, epochs) in self.last.range(blocks) {
            for (page, &last) in (block * BLOCK_PAGES..).zip(epochs.iter()) {
                if last != NEVER && pages.contains(&page) {
                    if last == now { hot += 1 } else { cold += 1 }
                }
            }
        }
        (hot, cold)
    }

    /// Faults that LRU with this many frames would have taken so far, on pages that were used
    /// before in the watch.
    pub fn faults(&self, frames: u64) -> Bounds {
        let above = |reuses: &BTreeMap<u64, u64>| reuses.range(frames + 1..).map(|(_, count)| count).sum();
        Bounds {
            at_least: above(&self.reuses_by_least),
            at_most: (frames >= self.largest_epoch_pages).then(|| above(&self.reuses_by_most)),
        }
    }

    /// The least memory in which LRU takes at most this many faults.
    pub fn enough(&self, faults: u64) -> EnoughPages {
        // The number of faults changes only at the memory sizes that some reuse needs.
        let least = |reuses: &BTreeMap<u64, u64>| {
            let mut above = 0;
            for (&pages, count) in reuses.iter().rev() {
                above += count;
                if above > faults {
                    return pages;
                }
            }
            0
        };
        EnoughPages {
            at_least: least(&self.reuses_by_least),
            at_most: least(&self.reuses_by_most).max(self.largest_epoch_pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(epochs: &[&[u64]]) -> History {
        let mut history = History::default();
        for (index, pages) in epochs.iter().enumerate() {
            let pages: Vec<UsedPage> =
                pages.iter().map(|&number| UsedPage { number, dirty: false }).collect();
            history.add(&pages, 1.0, Duration::from_secs(index as u64 + 1));
        }
        history
    }

    /// The example at the head: A to E are pages 1 to 5.
    #[test]
    fn a_reuse_needs_the_pages_between_and_at_most_those_around() {
        let history = history(&[&[1, 2], &[3, 4], &[3], &[1, 5]]);
        // C again: itself at least, itself and D at most. A: 2 others at least, 4 at most.
        assert_eq!(history.reuses_by_least, BTreeMap::from([(1, 1), (3, 1)]));
        assert_eq!(history.reuses_by_most, BTreeMap::from([(2, 1), (5, 1)]));
        assert_eq!(history.faults(1), Bounds { at_least: 1, at_most: None });
        assert_eq!(history.faults(2), Bounds { at_least: 1, at_most: Some(1) });
        assert_eq!(history.faults(4), Bounds { at_least: 0, at_most: Some(1) });
        assert_eq!(history.faults(5), Bounds { at_least: 0, at_most: Some(0) });
        assert_eq!(history.enough(0), EnoughPages { at_least: 3, at_most: 5 });
        assert_eq!(history.enough(1), EnoughPages { at_least: 1, at_most: 2 });
        assert_eq!((history.first_uses(), history.known_pages()), (5, 5));
    }

    /// Short processes, one after another: each has three pages of its own, and all use page 9.
    #[test]
    fn what_was_not_there_at_a_time_does_not_have_to_fit() {
        let enough_with = |most_there: Option<u64>| {
            let mut history = History::default();
            for epoch in 0..8 {
                most_there.into_iter().for_each(|pages| history.bound(pages, 0));
                let pages = [9, 10 + 3 * epoch, 11 + 3 * epoch, 12 + 3 * epoch];
                let pages = pages.map(|number| UsedPage { number, dirty: false });
                history.add(&pages, 1.0, Duration::from_secs(epoch + 1));
            }
            (history.enough(0).at_most, history.faults(3).at_most, history.largest_epoch_pages())
        };
        assert_eq!(enough_with(None), (7, None, 4));
        assert_eq!(enough_with(Some(5)), (5, None, 4));
        assert_eq!(enough_with(Some(2)), (2, Some(0), 2));
    }

    /// A loop over a file in a memory that holds an eighth of it: the kernel evicts its pages, and
    /// they come back with their numbers.
    #[test]
    fn pages_that_were_evicted_have_to_fit() {
        let mut history = History::default();
        let add = |history: &mut History, first: u64| {
            let pages = (first..first + 100).map(|number| UsedPage { number, dirty: false });
            history.add(&pages.collect::<Vec<_>>(), 1.0, Duration::from_secs(history.epochs() + 1));
        };
        for epoch in 0..12 {
            history.bound(if epoch == 0 { 50 } else { 40 }, 40);
            add(&mut history, FIRST_KEPT + epoch % 4 * 100);
        }
        for frames in 1..400 {
            let Bounds { at_least, at_most } = history.faults(frames);
            assert!(at_most.is_none_or(|most| most >= at_least), "{frames}: {at_least}, {at_most:?}");
        }
        assert_eq!(history.faults(300), Bounds { at_least: 800, at_most: Some(800) });
        assert_eq!((history.faults(400).at_most, history.largest_epoch_pages()), (Some(0), 100));
        // Pages of the file that is gone do not have to fit beside others that come later.
        history.forget(FIRST_KEPT..FIRST_KEPT + 400);
        (0..8).for_each(|epoch| add(&mut history, FIRST_KEPT + 1000 + epoch % 2 * 100));
        assert_eq!(history.most_there.pages(), Some(50 + 400 - 40));
        (0..2).for_each(|_| add(&mut history, 0));
        assert_eq!((history.most_there.pages(), history.most_there.kept), (Some(410), 200));
    }

    /// A service that writes one file after another, each of which takes the place of the one
    /// before, and has 50 pages besides.
    #[test]
    fn files_that_are_written_and_removed_do_not_have_to_fit() {
        let mut history = History::default();
        for epoch in 0..10 {
            let file = FIRST_KEPT + 300 * epoch;
            let written = (file..file + 300).map(|number| UsedPage { number, dirty: true });
            let others = (0..50).map(|number| UsedPage { number, dirty: false });
            history.bound(200, 100);
            let pages: Vec<UsedPage> = others.chain(written).collect();
            history.add(&pages, 1.0, Duration::from_secs(epoch + 1));
            history.forget(file..file + 250);
        }
        assert_eq!(history.largest_epoch_pages(), 50);
        assert!(history.enough(0).at_most <= 1000, "{:?}", history.enough(0));
    }

    #[test]
    fn a_working_set_is_what_was_used_in_the_last_epochs() {
        let history = history(&[&[1, 2], &[3, 4], &[3], &[1, 5]]);
        let sizes = [0, 1, 2, 3, 4, 100].map(|seconds| history.working_set(Duration::from_secs(seconds)));
        assert_eq!(sizes, [2, 2, 3, 4, 5, 5]);
        assert_eq!(History::default().working_set(Duration::from_secs(1)), 0);
        assert_eq!((history.used_in(1..3), history.used_in(4..600)), ((1, 1), (1, 1)));
    }

    #[test]
    fn pages_whose_contents_are_gone_are_new() {
        let mut history = history(&[&[1, 2, 600], &[1]]);
        history.forget(1..513);
        assert_eq!(history.known_pages(), 1);
        let page = |number| UsedPage { number, dirty: false };
        assert_eq!(history.add(&[page(1), page(600)], 1.0, Duration::from_secs(3)), 1);
        history.forget_all();
        assert_eq!(history.add(&[page(600)], 1.0, Duration::from_secs(4)), 1);
        assert_eq!(history.known_pages(), 1);
    }

    /// A sample of a loop over parts of 1,024 blocks of pages says what all pages say. Of one part,
    /// a quarter of the blocks has a standard error of 5 %.
    #[test]
    fn a_sample_says_what_all_pages_say() {
        let part = |number: u64| number * 100_000..number * 100_000 + 65_536;
        let pages = |number: u64, sample: Sample| -> Vec<UsedPage> {
            let pages = part(number % 4).filter(|page| sample.contains(*page));
            pages.map(|number| UsedPage { number, dirty: false }).collect()
        };
        let (mut all, mut some, mut sample) = (History::default(), History::default(), Sample::ALL);
        for epoch in 0..12 {
            if epoch == 6 {
                let thinner = Sample::at_most(0.25);
                let left_out = some.keep_only(thinner, sample);
                assert!(
                    left_out.iter().cloned().flatten().all(|page| !thinner.contains(page)),
                    "epoch {epoch}"
                );
                sample = thinner;
            }
            let end = Duration::from_secs(epoch + 1);
            all.add(&pages(epoch, Sample::ALL), 1.0, end);
            some.add(&pages(epoch, sample), sample.one_page_in() as f64, end);
        }
        let near = |of: fn(&History) -> u64| {
            let (all, some) = (of(&all) as f64, of(&some) as f64);
            assert!((some / all - 1.0).abs() < 0.2, "{some} of {all}");
        };
        near(History::known_pages);
        near(History::first_uses);
        near(History::largest_epoch_pages);
        near(|of| of.working_set(Duration::from_secs(2)));
        near(|of| of.faults(160_000).at_least);
        near(|of| of.enough(8000).at_least);
        near(|of| of.enough(8000).at_most);
    }

    /// Whatever the order and number of uses within epochs, what LRU takes is within the bounds.
    #[test]
    fn no_order_within_epochs_leaves_the_bounds() {
        let mut seed = 7_u64;
        let mut below = |limit: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % limit
        };
        for _ in 0..200 {
            let (pages, epochs) = (2 + below(8), 2 + below(6));
            let mut history = History::default();
            let mut stack: Vec<u64> = Vec::new();
            // Reuses by the frames that LRU needs.
            let mut needs = Vec::new();
            for epoch in 0..epochs {
                let mut used: Vec<u64> = Vec::new();
                for _ in 0..1 + below(12) {
                    let page = below(pages);
                    if let Some(depth) = stack.iter().position(|&other| other == page) {
                        needs.push(depth as u64 + 1);
                        stack.remove(depth);
                    }
                    stack.insert(0, page);
                    used.push(page);
                }
                used.sort_unstable();
                used.dedup();
                let used: Vec<UsedPage> =
                    used.into_iter().map(|number| UsedPage { number, dirty: false }).collect();
                history.add(&used, 1.0, Duration::from_secs(epoch + 1));
            }
            for frames in 1..=pages {
                let faults = needs.iter().filter(|&&need| need > frames).count() as u64;
                let Bounds { at_least, at_most } = history.faults(frames);
                assert!(at_least <= faults, "{frames} frames: {faults} faults, {at_least} at least");
                assert!(at_most.is_none_or(|most| faults <= most), "{frames}: {faults}, {at_most:?}");
            }
            for allowed in 0..5 {
                let enough = history.enough(allowed);
                assert!(
                    history.faults(enough.at_most).at_most.unwrap() <= allowed,
                    "{allowed} faults allowed: {enough:?}"
                );
                assert!(
                    enough.at_least == 0 || history.faults(enough.at_least - 1).at_least > allowed,
                    "{allowed} faults allowed: {enough:?}"
                );
            }
        }
    }
}
