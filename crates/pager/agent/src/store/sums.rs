//! Which pages still have the contents that the store has, so that they need not be written.
//!
//! Private memory has no dirty bit that would do. The kernel marks every page as dirty that it puts
//! in (`UFFDIO_COPY`), and what a device writes to a page does not show in the page table. Write
//! protection shows every write, but `UFFDIO_MOVE` takes a page without telling whether it was
//! still protected, so a write between the look and the move would be lost. Protection that only
//! the agent lifts loses nothing, but each page's first write is then a fault to the agent.
//!
//! So contents are compared. A page that is read keeps its slot, and the agent keeps a checksum of
//! 64 bits. When the page is evicted, it is moved out first. Then no thread can write to it. If its
//! checksum is still the same, it is in the store already.
//!
//! **How sure that is.** The checksum is the exclusive or of two XXH3 hashes, each with a key of
//! 192 random bytes, which only this process and its forked children have. A page that was changed
//! has the same checksum with a probability of about 2^-64. Two hashes, because with some 2^-32 of
//! all keys a single one misses some simple changes, like two numbers that have changed places.
//!
//! **What it costs.** A third of a microsecond when a page is read, the same when it is evicted, 8
//! bytes for each page, and one more move for a page that has changed. That is less than a write,
//! but it is too much for a program that writes to all of its pages. So the agent counts how many
//! of the compared pages were clean. If they are less than one in eight, it compares only one page
//! in 16, until enough of these are clean.

use crate::kernel::{self, SumKeys};
use alloc::vec;
use alloc::vec::Vec;
use sweephand_policy::PageId;

/// If few pages are clean, one page in this many has a checksum.
const SAMPLE: usize = 16;
/// Comparisons after which the agent decides anew: while each page has a checksum, and while few
/// have.
const JUDGED: [u32; 2] = [1024, 64];
/// Checksums pay if at least one page in this many is clean.
const WORTHWHILE: u32 = 8;
/// In place of a checksum: there is none.
const UNKNOWN: u64 = 0;

/// Checksums of pages that were read from the store.
#[derive(Debug)]
pub(crate) struct Sums {
    keys: SumKeys,
    /// By page id, divided by `step`. An entry counts while its page has a slot: each page that
    /// comes to have one has its entry made first.
    sums: Vec<u64>,
    /// One page in this many has a checksum: 1 or `SAMPLE`.
    step: usize,
    /// Comparisons since the last decision.
    compared: u32,
    /// How many of them found a clean page.
    clean: u32,
}

impl Default for Sums {
    fn default() -> Self {
        Self { keys: SumKeys::random(), sums: Vec::new(), step: 1, compared: 0, clean: 0 }
    }
}

impl Sums {
    fn index(&self, page: PageId) -> Option<usize> {
        page.index().is_multiple_of(self.step).then_some(page.index() / self.step)
    }

    fn get(&self, page: PageId) -> u64 {
        self.index(page).and_then(|index| self.sums.get(index)).copied().unwrap_or(UNKNOWN)
    }

    fn set(&mut self, page: PageId, sum: u64) {
        let Some(index) = self.index(page) else { return };
        if index >= self.sums.len() {
            // As the arrays of `pages` grow, because allocated memory counts as used.
            let length = index + 1;
            if length > self.sums.capacity() {
                self.sums.reserve_exact(length + length / 16 - self.sums.len());
            }
            self.sums.resize(length, UNKNOWN);
        }
        self.sums[index] = sum;
    }

    /// A page has been read, and its contents are at `contents`, in the pager's own memory. Returns
    /// whether it keeps its slot.
    pub(crate) fn take(&mut self, page: PageId, contents: usize) -> bool {
        let is_due = self.index(page).is_some();
        if is_due {
            let sum = self.sum(contents);
            self.set(page, sum);
        }
        is_due
    }

    /// Whether a page that has kept its slot has still the contents that are there. They are at
    /// `contents`, in the pager's own memory.
    pub(crate) fn is_clean(&mut self, page: PageId, contents: usize) -> bool {
        let sum = self.get(page);
        if sum == UNKNOWN {
            return false;
        }
        let is_clean = self.sum(contents) == sum;
        self.compared += 1;
        self.clean += u32::from(is_clean);
        if self.compared >= JUDGED[usize::from(self.step > 1)] {
            let pays = self.clean * WORTHWHILE >= self.compared;
            (self.compared, self.clean) = (0, 0);
            self.begin(if pays { 1 } else { SAMPLE });
        }
        is_clean
    }

    /// A page that has kept its slot has another id from now on.
    pub(crate) fn renamed(&mut self, old: PageId, new: PageId) {
        let sum = self.get(old);
        self.set(new, sum);
    }

    /// From now on, one page in `step` has a checksum.
    fn begin(&mut self, step: usize) {
        if step == self.step {
            return;
        }
        let old = core::mem::take(&mut self.sums);
        let count = (old.len() * self.step).div_ceil(step);
        self.sums = vec![UNKNOWN; count];
        // Those of the pages that have one both before and after.
        for (index, sum) in old.into_iter().enumerate() {
            if (index * self.step).is_multiple_of(step) {
                self.sums[index * self.step / step] = sum;
            }
        }
        self.step = step;
    }

    fn sum(&self, contents: usize) -> u64 {
        // SAFETY: this is a page of the pager's own memory, and it is there.
        let sum = unsafe { kernel::sum_page(contents, &self.keys) };
        if sum == UNKNOWN { !UNKNOWN } else { sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::PAGE_BYTES;
    use crate::process::own;

    fn page(contents: usize) -> &'static mut [u64] {
        // SAFETY: a mapping of the test.
        unsafe { core::slice::from_raw_parts_mut(contents as *mut u64, PAGE_BYTES / 8) }
    }

    #[test]
    fn every_change_of_a_word_is_seen_and_undone() {
        let contents = own::map(PAGE_BYTES).unwrap();
        let words = page(contents);
        words.iter_mut().zip(0..).for_each(|(word, number)| *word = number % 7);
        let mut sums = Sums::default();
        // The first page is in every sample.
        assert!(sums.take(PageId(0), contents));
        assert!(sums.is_clean(PageId(0), contents));
        assert!(!sums.is_clean(PageId(1), contents), "it has no checksum");
        let bits = |index| [0, 31, 32, 63].map(|bit| (index, bit));
        for (index, bit) in (0..PAGE_BYTES / 8).flat_map(bits) {
            words[index] ^= 1 << bit;
            assert!(!sums.is_clean(PageId(0), contents), "bit {bit} of word {index}");
            words[index] ^= 1 << bit;
        }
        // Numbers that change places, as sorting does.
        for (one, other) in (0..words.len() - 8).map(|index| (index, index + 8)) {
            words.swap(one, other);
            let is_same = words[one] == words[other];
            assert_eq!(sums.is_clean(PageId(0), contents), is_same, "words {one} and {other}");
            words.swap(one, other);
        }
        assert!(sums.is_clean(PageId(0), contents));
    }

    #[test]
    fn a_page_that_moves_takes_its_checksum_along_or_has_none() {
        let [one, other] = [own::map(PAGE_BYTES).unwrap(), own::map(PAGE_BYTES).unwrap()];
        page(other)[0] = 1;
        let mut sums = Sums::default();
        sums.take(PageId(1), one);
        sums.take(PageId(2), other);
        sums.renamed(PageId(1), PageId(2));
        assert!(sums.is_clean(PageId(2), one) && !sums.is_clean(PageId(2), other));
        // One without a checksum comes to a place where another page had one.
        sums.renamed(PageId(7), PageId(2));
        assert!(!sums.is_clean(PageId(2), one) && !sums.is_clean(PageId(2), other));
    }

    #[test]
    fn where_few_pages_are_clean_few_have_checksums() {
        let [one, other] = [own::map(PAGE_BYTES).unwrap(), own::map(PAGE_BYTES).unwrap()];
        page(other)[0] = 1;
        let mut sums = Sums::default();
        let turn = |sums: &mut Sums, id, is_clean| {
            let takes = sums.take(PageId(id), one);
            if takes {
                assert_eq!(sums.is_clean(PageId(id), if is_clean { one } else { other }), is_clean);
            }
            takes
        };
        let count = |sums: &mut Sums, is_clean: &dyn Fn(u32) -> bool| {
            (0..4096).filter(|&id| turn(sums, id, is_clean(id))).count()
        };
        assert_eq!(count(&mut sums, &|id| id % 8 == 0), 4096, "one in eight is enough");
        assert!(count(&mut sums, &|_| false) < 4096 / 2);
        assert_eq!(count(&mut sums, &|_| false), 4096 / SAMPLE);
        assert!(sums.sums.capacity() < 4096 / SAMPLE + 64, "{}", sums.sums.capacity());
        sums.take(PageId(16), one);
        assert!(count(&mut sums, &|_| true) > 4096 / 2);
        assert_eq!(count(&mut sums, &|_| true), 4096);
    }

    #[test]
    fn no_checksum_is_that_of_a_page_from_before_a_change_of_step() {
        let [one, other] = [own::map(PAGE_BYTES).unwrap(), own::map(PAGE_BYTES).unwrap()];
        page(other)[0] = 1;
        let mut sums = Sums::default();
        (0..64).for_each(|id| assert!(sums.take(PageId(id), one)));
        sums.begin(SAMPLE);
        // An id that has no place in the sample gets the contents of another page.
        sums.renamed(PageId(0), PageId(5));
        sums.begin(1);
        for id in 0..64 {
            assert_eq!(sums.is_clean(PageId(id), one), id % SAMPLE as u32 == 0, "{id}");
            assert!(!sums.is_clean(PageId(id), other), "{id}");
        }
    }
}
