//! SEQ: finds runs of faults on consecutive pages and evicts near their growing ends, as MRU would.
//!
//! Paper: G. Glass, P. Cao, "Adaptive page replacement based on memory reference behavior", ACM SIGMETRICS 1997.
//! A fault next to the end of a known sequence extends it; any other starts a sequence of one page, and breaks the
//! sequence that it falls into. Of the sequences that are long enough the one whose n-th last fault is latest gives
//! up the first resident page at some distance behind its growing end. Without such a page another policy, the default
//! policy, decides: CLOCK in `seq`, which needs faults and reference bits only, and LRU, the paper's own, in `seq-lru`.
//!
//! ```text
//!   fault on 7 next to an end          any other fault (say 5)           eviction, distance 2
//!   [ 3 4 5 6 ]> 7  =>  [ 3 .. 7 ]>    [ 3 .. 7 ]>  =>  [ 5 ]  alone     [ 3 4 5 6 7 ]>
//!                                                                              ^ this if resident, else 4, 3
//! ```
//!
//! What was filled in: the constants (L = 20 pages, N = 5 faults, distance 20), which are quoted from memory. A sequence of
//! one page grows either way. A fault next to two sequences extends the rising one that ends there. A sequence that
//! grows into another deletes it, so sequences are disjoint. At most 4 M + 16 are kept; the one whose last
//! fault is longest ago is dropped. Sequences do not cross objects, and a page unmapped stays part of its
//! sequence. The frame of a victim behind a sequence is filled in place, and CLOCK's hand does not move.
//!
//! Cost: hit that of the default policy; fault that and O(log M) for the sequences. Tree nodes for resident pages and
//! sequences, and 16 bytes a page seen.

use super::{Clock, Lru};
use crate::arguments::Parameter;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registry::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::collections::{BTreeMap, VecDeque};

/// An object and a page number in it.
type Place = (u32, u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    /// Of one page yet.
    Unknown,
    Up,
    Down,
}

/// Faults on the pages from its key, the lowest, to `high`.
#[derive(Clone, Debug)]
struct Sequence {
    high: u64,
    direction: Direction,
    /// Times of its last N faults, the earliest in front.
    faults: VecDeque<u64>,
}

/// SEQ over a default policy.
#[derive(Debug)]
pub struct Seq<D> {
    frames: usize,
    default: D,
    /// L: pages that make a sequence count.
    length: u64,
    /// N: which last fault counts.
    nth: usize,
    /// How far behind the growing end pages are evicted.
    distance: u64,
    /// By object and lowest page number.
    sequences: BTreeMap<Place, Sequence>,
    /// Every sequence by the time of its last fault.
    by_last_fault: BTreeMap<u64, Place>,
    /// The sequences that have a victim to offer, by the time of their n-th last fault.
    offering: BTreeMap<u64, Place>,
    /// Resident pages by place.
    resident: BTreeMap<Place, PageId>,
    /// The place of each resident page.
    place: PageMap<Option<Place>>,
    /// Faults so far.
    time: u64,
    /// The latest proposal, if it came from a sequence.
    proposed: Option<PageId>,
}

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "length", default: "20", meaning: "pages that make a sequence count (L)" },
    Parameter { name: "faults", default: "5", meaning: "which last fault of a sequence ranks it (N)" },
    Parameter { name: "distance", default: "20", meaning: "pages left alone at its growing end (M)" },
];
const PAPER: &str =
    "Glass, Cao, Adaptive page replacement based on memory reference behavior, ACM SIGMETRICS 1997";

impl Registered for Seq<Clock> {
    const INFO: Info = Info {
        name: "seq",
        summary: "evicts near the growing ends of sequences of faults; CLOCK otherwise",
        paper: PAPER,
        parameters: PARAMETERS,
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Self::over_default(frames, arguments)
    }
}

impl Registered for Seq<Lru> {
    const INFO: Info = Info {
        name: "seq-lru",
        summary: "evicts near the growing ends of sequences of faults; LRU otherwise",
        paper: PAPER,
        parameters: PARAMETERS,
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Self::over_default(frames, arguments)
    }
}

/// SEQ over LRU, as in the paper.
pub type SeqLru = Seq<Lru>;
/// SEQ over CLOCK.
pub type SeqClock = Seq<Clock>;

impl<D: Registered> Seq<D> {
    fn over_default(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            default: D::configure(frames, &Arguments::parse(&D::INFO, "")?)?,
            length: arguments.whole("length", 1..=u64::MAX)?,
            nth: arguments.whole("faults", 1..=1000)? as usize,
            distance: arguments.whole("distance", 0..=u64::MAX)?,
            sequences: BTreeMap::new(),
            by_last_fault: BTreeMap::new(),
            offering: BTreeMap::new(),
            resident: BTreeMap::new(),
            place: PageMap::new(),
            time: 0,
            proposed: None,
        })
    }
}

impl<D> Seq<D> {
    /// The lowest place of the sequence that covers a place.
    fn covering(&self, (object, number): Place) -> Option<Place> {
        let (&key, sequence) = self.sequences.range((object, 0)..=(object, number)).next_back()?;
        (number <= sequence.high).then_some(key)
    }

    /// The page that a sequence offers: the first resident one far enough behind its growing end.
    fn offer(&self, (object, low): Place, sequence: &Sequence) -> Option<PageId> {
        let high = sequence.high;
        if high - low + 1 < self.length || sequence.faults.len() < self.nth {
            return None;
        }
        match sequence.direction {
            Direction::Down => {
                let first = low.checked_add(self.distance).filter(|first| *first <= high)?;
                self.resident.range((object, first)..=(object, high)).next()
            }
            Direction::Up | Direction::Unknown => {
                let last = high.checked_sub(self.distance).filter(|last| *last >= low)?;
                self.resident.range((object, low)..=(object, last)).next_back()
            }
        }
        .map(|(_, &page)| page)
    }

    /// Enters a sequence among those that offer a victim, or not, after it or the residence of a page in it changed.
    fn reconsider(&mut self, key: Place) {
        let sequence = &self.sequences[&key];
        let Some(&nth_last) = sequence.faults.front().filter(|_| sequence.faults.len() == self.nth) else {
            return;
        };
        if self.offer(key, sequence).is_some() {
            self.offering.insert(nth_last, key);
        } else {
            self.offering.remove(&nth_last);
        }
    }

    /// Takes a sequence out of all indexes.
    fn take(&mut self, key: Place) -> Option<Sequence> {
        let sequence = self.sequences.remove(&key)?;
        let (first, last) = (sequence.faults.front()?, sequence.faults.back()?);
        self.by_last_fault.remove(last);
        // An earlier first fault than the n-th last is no key here.
        self.offering.remove(first);
        Some(sequence)
    }

    /// Gives a sequence the present fault and enters it into the indexes.
    fn put(&mut self, key: Place, mut sequence: Sequence) {
        if sequence.faults.len() == self.nth {
            sequence.faults.pop_front();
        }
        sequence.faults.push_back(self.time);
        self.by_last_fault.insert(self.time, key);
        self.sequences.insert(key, sequence);
        self.reconsider(key);
    }

    /// A fault: extends a sequence or starts one.
    fn note_fault(&mut self, (object, number): Place) {
        self.time += 1;
        let covering = self.covering((object, number));
        let below = number.checked_sub(1).and_then(|below| self.covering((object, below))).filter(|key| {
            let sequence = &self.sequences[key];
            sequence.high + 1 == number && sequence.direction != Direction::Down
        });
        let above = number.checked_add(1).map(|above| (object, above)).filter(|key| {
            self.sequences.get(key).is_some_and(|sequence| sequence.direction != Direction::Up)
        });
        if let Some(covering) = covering {
            self.take(covering);
        }
        if let Some(key) = below
            && let Some(sequence) = self.take(key)
        {
            self.put(key, Sequence { high: number, direction: Direction::Up, ..sequence });
        } else if let Some(key) = above
            && let Some(sequence) = self.take(key)
        {
            self.put((object, number), Sequence { direction: Direction::Down, ..sequence });
        } else {
            let alone = Sequence {
                high: number,
                direction: Direction::Unknown,
                faults: VecDeque::with_capacity(self.nth),
            };
            self.put((object, number), alone);
        }
        if self.sequences.len() > 4 * self.frames + 16
            && let Some((_, &oldest)) = self.by_last_fault.first_key_value()
        {
            self.take(oldest);
        }
    }

    /// Notes that a page is at a place, or (`None`) not resident.
    fn set_place(&mut self, page: PageId, place: Option<Place>) {
        self.place.cover(page);
        let old = core::mem::replace(&mut self.place[page], place);
        if let Some(old) = old {
            self.resident.remove(&old);
        }
        if let Some(new) = place {
            self.resident.insert(new, page);
        }
        for changed in [old, place].into_iter().flatten() {
            if let Some(key) = self.covering(changed) {
                self.reconsider(key);
            }
        }
    }
}

impl<D: Policy> Policy for Seq<D> {
    type Model = D::Model;

    const NEEDS_PAGE_NUMBERS: bool = true;
    const NEEDS_OBJECTS: bool = true;
    const NOT_SAMPLED: Option<&'static str> =
        Some("it looks for faults on neighbouring pages, and a sample has no neighbours");

    fn fault(&mut self, reference: Reference) {
        self.default.fault(reference);
        self.note_fault((reference.object, reference.page_number));
    }

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        self.proposed =
            self.offering.last_key_value().and_then(|(_, key)| self.offer(*key, &self.sequences[key]));
        self.proposed.or_else(|| self.default.victim(mmu))
    }

    fn evict(&mut self, page: PageId) {
        self.set_place(page, None);
        // The default policy has not proposed a page that a sequence did.
        if self.proposed.take() == Some(page) {
            self.default.remove(page);
        } else {
            self.default.evict(page);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        self.set_place(reference.page, Some((reference.object, reference.page_number)));
        self.default.insert(reference, mmu)
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.default.hit(reference);
    }

    fn remove(&mut self, page: PageId) {
        self.set_place(page, None);
        self.default.remove(page);
    }

    /// A page's sequence, if it is in one, is left behind.
    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        if let Some((_, number)) = self.place.get(page) {
            self.set_place(page, Some((object, number)));
        }
        self.default.assign(page, object, mmu);
    }

    /// Its sequence is left behind here, too.
    fn renumber(&mut self, page: PageId, page_number: u64) {
        if let Some((object, _)) = self.place.get(page) {
            self.set_place(page, Some((object, page_number)));
        }
        self.default.renumber(page, page_number);
    }

    /// Its sequences end.
    fn free_object(&mut self, object: u32) {
        while let Some((&key, _)) = self.sequences.range((object, 0)..=(object, u64::MAX)).next() {
            self.take(key);
        }
        self.default.free_object(object);
    }

    fn hand_steps(&self) -> u64 {
        self.default.hand_steps()
    }

    fn check(&self) -> Result<(), Violation> {
        self.default.check()?;
        let residents = self.resident.len();
        ensure!(residents <= self.frames, "{residents} pages resident");
        let placed = || self.place.iter().filter_map(|(page, place)| place.map(|place| (place, page)));
        ensure!(
            placed().count() == residents
                && placed().all(|(place, page)| self.resident.get(&place) == Some(&page)),
            "pages and places do not agree"
        );
        let sequences = self.sequences.len();
        ensure!(sequences <= 4 * self.frames + 16, "{sequences} sequences");
        ensure!(self.by_last_fault.len() == sequences, "{} sequences by time", self.by_last_fault.len());
        let mut previous: Option<Place> = None;
        let mut offering = 0;
        for (&key, sequence) in &self.sequences {
            let (object, low) = key;
            ensure!(low <= sequence.high, "sequence {key:?} ends at {}", sequence.high);
            ensure!(
                previous.is_none_or(|end| end < key),
                "sequence {key:?} overlaps the one to {previous:?}"
            );
            previous = Some((object, sequence.high));
            let is_single = low == sequence.high;
            ensure!(
                is_single == (sequence.direction == Direction::Unknown),
                "sequence {key:?}: {sequence:?}"
            );
            let faults = &sequence.faults;
            ensure!(
                (1..=self.nth).contains(&faults.len()) && faults.iter().is_sorted(),
                "sequence {key:?}: faults {faults:?}"
            );
            ensure!(
                faults.back().and_then(|last| self.by_last_fault.get(last)) == Some(&key),
                "sequence {key:?} is not known by its last fault"
            );
            if self.offer(key, sequence).is_some() {
                offering += 1;
                ensure!(self.offering.get(&faults[0]) == Some(&key), "the offer of {key:?} is not known");
            }
        }
        ensure!(offering == self.offering.len(), "{offering} of {} sequences offer", self.offering.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, naive, run};

    /// The sequences, each with its direction and the number of faults counted, and the victim.
    #[test]
    fn worked_example() {
        let mut machine = Machine::<SeqClock>::new("seq:length=3,faults=2,distance=1", 4);
        let states: Vec<_> = [5, 6, 7, 8, 9, 2, 1, 7, 10]
            .iter()
            .map(|&page| {
                let victim = machine.access(page).victim;
                let sequence = |((_, low), sequence): (&Place, &Sequence)| {
                    format!("{low}-{} {:?} {}", sequence.high, sequence.direction, sequence.faults.len())
                };
                let sequences: Vec<_> = machine.policy().sequences.iter().map(sequence).collect();
                format!("{} / {victim:?}", sequences.join(", "))
            })
            .collect();
        assert_eq!(
            states,
            [
                "5-5 Unknown 1 / None",
                "5-6 Up 2 / None",
                "5-7 Up 2 / None",
                "5-8 Up 2 / None",
                "5-9 Up 2 / Some(8)",
                "2-2 Unknown 1, 5-9 Up 2 / Some(7)", // 9 is the end, 8 has gone
                "1-2 Down 2, 5-9 Up 2 / Some(6)",
                "1-2 Down 2, 7-7 Unknown 1 / Some(5)", // the pattern is broken: CLOCK's choice
                // The frames hold 7 1 2 9, and CLOCK's hand has moved one frame only.
                "1-2 Down 2, 7-7 Unknown 1, 10-10 Unknown 1 / Some(1)",
            ]
        );
    }

    /// Several objects: the plain model says the same.
    #[test]
    fn agrees_with_the_naive_model_on_several_objects() {
        for_random_strings(|string, frames| {
            let object = |page| page / 7;
            let mut machine =
                Machine::<SeqClock>::new("seq:length=3,faults=2,distance=1", frames).with_objects(object);
            let victims: Vec<_> = string.iter().map(|&page| machine.access(page).victim).collect();
            let options = naive::SeqOptions { length: 3, faults: 2, distance: 1, lru: false };
            let model = naive::seq(string, frames, &options, object);
            let expected: Vec<_> = model.iter().map(|step| step.victims.first().copied()).collect();
            assert_eq!(victims, expected);
        });
    }

    /// No run of 400 faults: the default policy decides throughout.
    #[test]
    fn without_sequences_it_is_the_default_policy() {
        for_random_strings(|string, frames| {
            assert_eq!(run("seq:length=400", string, frames), run("clock", string, frames));
            assert_eq!(run("seq-lru:length=400", string, frames), run("lru", string, frames));
        });
    }
}
