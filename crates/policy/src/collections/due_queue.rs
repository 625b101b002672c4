//! Pages by the time at which they are due, the latest first.

use super::BitTree;
use crate::PageId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// When a page is due, and the page. No two pages are due at the same time.
pub type Due = (u32, PageId);

/// Times in a bucket.
const TIMES: usize = 1 << 12;
/// Words of a bit for each of them.
const WORDS: usize = TIMES / 64;
/// A bucket with at most this many entries is searched. One with more is put in order.
const FEW: usize = 32;

/// The entries of a span of time.
#[derive(Clone, Debug)]
enum Bucket {
    /// In the order in which they came.
    Loose(Vec<Due>),
    /// By time: since the latest of more than a few was first asked for.
    ByTime(Box<Times>),
}

/// A page for each time of a bucket, as far as there is one.
#[derive(Clone, Debug)]
struct Times {
    /// A bit for each word of `bits` that is not 0.
    words: u64,
    /// A bit for each time with an entry.
    bits: [u64; WORDS],
    pages: [PageId; TIMES],
    len: usize,
}

impl Times {
    fn of(entries: &[Due]) -> Box<Self> {
        let mut times = Box::new(Self { words: 0, bits: [0; WORDS], pages: [PageId(0); TIMES], len: 0 });
        entries.iter().for_each(|&due| {
            times.insert(due);
        });
        times
    }

    /// Adds an entry; says whether there was none of its time.
    #[inline]
    fn insert(&mut self, (time, page): Due) -> bool {
        let at = time as usize % TIMES;
        let (word, bit) = (at / 64, 1 << (at % 64));
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.words |= 1 << word;
        self.pages[at] = page;
        self.len += usize::from(is_new);
        is_new
    }

    /// The place of the latest entry. There is one.
    #[inline]
    fn latest(&self) -> usize {
        let word = (63 - self.words.leading_zeros()) as usize;
        word * 64 + (63 - self.bits[word].leading_zeros()) as usize
    }

    #[inline]
    fn remove(&mut self, at: usize) {
        let word = at / 64;
        self.bits[word] &= !(1 << (at % 64));
        if self.bits[word] == 0 {
            self.words &= !(1 << word);
        }
        self.len -= 1;
    }

    fn iter(&self, first_time: u32) -> impl Iterator<Item = Due> + '_ {
        let filled = (0..TIMES).filter(move |at| self.bits[at / 64] & 1 << (at % 64) != 0);
        filled.map(move |at| (first_time + at as u32, self.pages[at]))
    }
}

/// The place of the latest of some entries, of which there is one.
#[inline]
fn place_of_latest(entries: &[Due]) -> usize {
    (1..entries.len()).fold(0, |latest, at| if entries[at].0 > entries[latest].0 { at } else { latest })
}

impl Bucket {
    const EMPTY: Self = Self::Loose(Vec::new());

    fn len(&self) -> usize {
        match self {
            Self::Loose(entries) => entries.len(),
            Self::ByTime(times) => times.len,
        }
    }
}

/// A queue for simulations of the future: entries come in for any time to come, only the latest is
/// taken out, and the others end when their time has passed.
///
/// Entries are in buckets of 4096 successive times. Most are appended to a bucket, and never looked
/// at again: they end before the bucket is the last. Only in the last bucket the entries are put in
/// order, if they are more than a few, which takes a bit and a place for each of its times. So
/// every operation is amortised O(1). 8 bytes an entry, 24 bytes a bucket, and 16 KiB for a bucket
/// that has been put in order.
#[derive(Clone, Debug, Default)]
pub struct DueQueue {
    buckets: Vec<Bucket>,
    /// The buckets that have entries.
    filled: BitTree,
    /// Buckets before this one are past, and empty.
    present: usize,
    len: usize,
}

impl DueQueue {
    /// No entries.
    pub const fn new() -> Self {
        Self { buckets: Vec::new(), filled: BitTree::new(), present: 0, len: 0 }
    }

    /// Entries, those whose time has passed among them until their bucket ends.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry. Its time has not passed.
    #[inline]
    pub fn push(&mut self, due: Due) {
        let number = due.0 as usize / TIMES;
        if number >= self.buckets.len() {
            self.buckets.resize(number + 1, Bucket::EMPTY);
        }
        self.len += match &mut self.buckets[number] {
            Bucket::Loose(entries) => {
                if entries.is_empty() {
                    self.filled.insert(number as u32);
                }
                entries.push(due);
                1
            }
            Bucket::ByTime(times) => usize::from(times.insert(due)),
        };
    }

    /// The entry that is due last.
    #[inline]
    pub fn latest(&mut self) -> Option<Due> {
        let number = self.filled.max()?;
        Some(match self.in_order(number) {
            Bucket::Loose(entries) => entries[place_of_latest(entries)],
            Bucket::ByTime(times) => {
                let at = times.latest();
                (number * TIMES as u32 + at as u32, times.pages[at])
            }
        })
    }

    /// Takes [`DueQueue::latest`] out.
    #[inline]
    pub fn pop(&mut self) -> Option<Due> {
        let number = self.filled.max()?;
        let bucket = self.in_order(number);
        let due = match bucket {
            Bucket::Loose(entries) => entries.swap_remove(place_of_latest(entries)),
            Bucket::ByTime(times) => {
                let at = times.latest();
                times.remove(at);
                (number * TIMES as u32 + at as u32, times.pages[at])
            }
        };
        if bucket.len() == 0 {
            *bucket = Bucket::EMPTY;
            self.filled.remove(number);
        }
        self.len -= 1;
        Some(due)
    }

    /// A bucket that has entries, by time if they are more than a few.
    #[inline]
    fn in_order(&mut self, number: u32) -> &mut Bucket {
        let bucket = &mut self.buckets[number as usize];
        if let Bucket::Loose(entries) = bucket
            && entries.len() > FEW
        {
            let times = Times::of(entries);
            self.len -= entries.len() - times.len;
            *bucket = Bucket::ByTime(times);
        }
        bucket
    }

    /// Time has come to `now`: entries of buckets before it are of no use.
    #[inline]
    pub fn pass(&mut self, now: u32) {
        let number = now as usize / TIMES;
        if number > self.present {
            self.end_buckets(number);
        }
    }

    #[cold]
    fn end_buckets(&mut self, present: usize) {
        for number in self.present..present.min(self.buckets.len()) {
            let bucket = core::mem::replace(&mut self.buckets[number], Bucket::EMPTY);
            if bucket.len() > 0 {
                self.filled.remove(number as u32);
                self.len -= bucket.len();
            }
        }
        self.present = present;
    }

    /// Keeps only the entries for which this holds.
    pub fn retain(&mut self, holds: impl Fn(Due) -> bool) {
        let entries: Vec<Due> = self.iter().filter(|&due| holds(due)).collect();
        *self = Self { present: self.present, ..Self::new() };
        entries.into_iter().for_each(|due| self.push(due));
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Due> + '_ {
        self.buckets.iter().zip(0..).flat_map(|(bucket, number)| {
            let (loose, by_time) = match bucket {
                Bucket::Loose(entries) => (Some(entries), None),
                Bucket::ByTime(times) => (None, Some(times)),
            };
            let by_time = by_time.map(|times| times.iter(number * TIMES as u32));
            loose.into_iter().flatten().copied().chain(by_time.into_iter().flatten())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use alloc::collections::BTreeSet;
    use sweephand_checks::trying;

    #[test]
    fn agrees_with_a_sorted_set() {
        let mut random = SplitMix64::new(3);
        let (mut queue, mut plain) = (DueQueue::new(), BTreeSet::new());
        let mut now = 0;
        for step in 0..200_000 {
            let _input = trying(|| format!("step {step}"));
            now += random.below(3) as u32;
            let reach = [50, 5_000, 100_000][random.below(3) as usize];
            let time = now + 1 + random.below(reach) as u32;
            let due = (time, PageId(time ^ 0x5555));
            match random.below(5) {
                0 | 1 if !plain.contains(&due) => {
                    queue.push(due);
                    plain.insert(due);
                }
                2 => {
                    queue.pass(now);
                    // What has passed may be there until its bucket ends.
                    let begin = now / TIMES as u32 * TIMES as u32;
                    plain = plain.split_off(&(begin, PageId(0)));
                }
                3 => assert_eq!(queue.pop(), plain.pop_last()),
                _ if step % 1000 == 4 => {
                    queue.retain(|(_, page)| page.0 % 7 != 0);
                    plain.retain(|(_, page)| page.0 % 7 != 0);
                }
                _ => assert_eq!(queue.latest(), plain.last().copied()),
            }
            assert_eq!((queue.len(), queue.is_empty()), (plain.len(), plain.is_empty()));
        }
        assert_eq!(queue.iter().collect::<BTreeSet<_>>(), plain);
    }
}
