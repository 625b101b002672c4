//! The pages used in each epoch, kept so that policies can be simulated over them afterwards.
//!
//! A long watch must not take all memory. So the uses are kept within a budget: when it is reached,
//! only those pages stay whose number has a small hash, half as many as before (spatial sampling;
//! see `look::sample`). An epoch takes a byte or two for each page, because it holds the distances
//! from one page number to the next.
//!
//! A page whose contents are gone is noted, if it was used before: its next use is a first one.

use std::mem::take;
use sweephand_contents::hash;

/// Bytes for the uses, unless something else is asked for.
const BUDGET_BYTES: usize = 32 << 20;
/// Pages with contents of their own that are simulated at most: each simulation has a state for
/// each of them.
const MOST_CONTENTS: u64 = 1 << 18;

/// The uses of pages, by epoch.
#[derive(Clone, Debug)]
pub(crate) struct Uses {
    /// One page in 2 to this is kept.
    halvings: u32,
    budget_bytes: usize,
    most_contents: u64,
    epochs: Vec<Kept>,
    /// Bytes of all epochs.
    bytes: usize,
    /// First uses among those that are kept, also those after contents were gone.
    contents: u64,
    /// Pages whose contents have gone since the last epoch.
    gone: Vec<u64>,
}

/// What is kept of an epoch.
#[derive(Clone, Debug)]
struct Kept {
    /// Pages whose contents were gone before the uses, ascending.
    gone: Box<[u8]>,
    /// Pages that were used, ascending.
    used: Box<[u8]>,
    /// How many of these were used for the first time, roughly after a halving.
    first_uses: u64,
}

impl Default for Uses {
    fn default() -> Self {
        Self::within(BUDGET_BYTES, MOST_CONTENTS)
    }
}

impl Uses {
    /// None so far. They will take this many bytes, and have this many contents of pages.
    pub(crate) fn within(budget_bytes: usize, most_contents: u64) -> Self {
        let (halvings, bytes, contents) = (0, 0, 0);
        Self { halvings, budget_bytes, most_contents, epochs: Vec::new(), bytes, contents, gone: Vec::new() }
    }

    /// One page in this many is kept.
    pub(crate) fn one_page_in(&self) -> u64 {
        1 << self.halvings
    }

    /// The contents of a page that was used are gone.
    pub(crate) fn forget(&mut self, page: u64) {
        if self.keeps(page) {
            self.gone.push(page);
        }
    }

    fn keeps(&self, page: u64) -> bool {
        hash(page) & (self.one_page_in() - 1) == 0
    }

    /// An epoch is over: the pages used in it, ascending. `first_uses` of them were not used
    /// before.
    pub(crate) fn add(&mut self, pages: impl Iterator<Item = u64>, first_uses: u64) {
        let mut gone = take(&mut self.gone);
        gone.sort_unstable();
        let used = packed(pages.filter(|&page| self.keeps(page)));
        let kept = Kept { gone: packed(gone.into_iter()), used, first_uses: first_uses >> self.halvings };
        self.bytes += kept.bytes();
        self.contents += kept.first_uses;
        self.epochs.push(kept);
        // Each round halves what is kept. Epochs themselves take 5 MB a day more, at most.
        while (self.bytes > self.budget_bytes || self.contents > self.most_contents) && self.halvings < 32 {
            self.halvings += 1;
            self.keep_only(|uses, page| uses.keeps(page));
            self.epochs.iter_mut().for_each(|kept| kept.first_uses /= 2);
            self.contents = self.epochs.iter().map(|kept| kept.first_uses).sum();
        }
    }

    /// Leaves out the pages that are not in a set.
    pub(crate) fn keep_only(&mut self, is_kept: impl Fn(&Self, u64) -> bool) {
        let mut epochs = take(&mut self.epochs);
        for kept in &mut epochs {
            for pages in [&mut kept.gone, &mut kept.used] {
                *pages = packed(unpacked(pages).filter(|&page| is_kept(self, page)));
            }
        }
        self.epochs = epochs;
        self.bytes = self.epochs.iter().map(Kept::bytes).sum();
        let mut gone = take(&mut self.gone);
        gone.retain(|&page| is_kept(self, page));
        self.gone = gone;
    }

    /// The epochs: pages whose contents were gone, and pages that were used after that.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = (Vec<u64>, Vec<u64>)> {
        self.epochs.iter().map(|kept| (unpacked(&kept.gone).collect(), unpacked(&kept.used).collect()))
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        self.gone.len() + self.used.len()
    }
}

/// Ascending numbers as the distances from one to the next, in 7 bits a byte; the highest bit says
/// that more follow.
fn packed(numbers: impl Iterator<Item = u64>) -> Box<[u8]> {
    let (mut bytes, mut last) = (Vec::new(), 0);
    for number in numbers {
        let mut distance = number - last;
        while distance >= 0x80 {
            bytes.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        bytes.push(distance as u8);
        last = number;
    }
    bytes.into()
}

/// What [`packed`] has packed.
fn unpacked(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (mut rest, mut last) = (bytes.iter(), 0_u64);
    std::iter::from_fn(move || {
        let (mut distance, mut shift) = (0, 0);
        loop {
            let byte = *rest.next()?;
            distance |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                last += distance;
                return Some(last);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_were() {
        for numbers in [vec![], vec![0], vec![5, 5, 132, 260, 1 << 20, u64::MAX >> 1]] {
            assert_eq!(unpacked(&packed(numbers.iter().copied())).collect::<Vec<_>>(), numbers);
        }
    }

    #[test]
    fn uses_stay_within_their_budget_and_all_uses_of_a_page_stay_or_go() {
        let (epochs, pages) = (50, 4000);
        let mut uses = Uses::within(20_000, MOST_CONTENTS);
        for epoch in 0..epochs {
            if epoch == 30 {
                (0..100).for_each(|page| uses.forget(page));
            }
            uses.add(0..pages, if epoch == 0 { pages } else { 0 });
            assert!(uses.bytes <= 20_000, "{} in epoch {epoch}", uses.bytes);
        }
        let one_in = uses.one_page_in();
        assert!((8..=64).contains(&one_in), "{one_in}");
        let kept: Vec<_> = uses.epochs().collect();
        assert_eq!(kept.len(), epochs);
        let part = pages as f64 / one_in as f64;
        assert!((kept[0].1.len() as f64 - part).abs() < 4.0 * part.sqrt(), "{} of {part}", kept[0].1.len());
        assert!(kept.iter().all(|(_, used)| used == &kept[0].1), "the same pages in each epoch");
        let gone: Vec<u64> = kept[0].1.iter().copied().filter(|page| *page < 100).collect();
        assert_eq!(kept[30].0, gone);
    }

    #[test]
    fn contents_that_come_and_go_are_bounded_too() {
        let mut uses = Uses::within(BUDGET_BYTES, 1000);
        for _ in 0..100 {
            uses.add(0..1000, 1000);
            (0..1000).for_each(|page| uses.forget(page));
        }
        assert!(uses.contents <= 1000 && uses.one_page_in() >= 64, "{uses:?}");
    }
}
