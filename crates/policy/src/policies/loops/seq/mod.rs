//! SEQ: finds runs of faults on consecutive pages and evicts near their growing ends, as MRU would.
//!
//! Paper: G. Glass, P. Cao, "Adaptive page replacement based on memory reference behavior", ACM
//! SIGMETRICS 1997.
//!
//! A fault next to the end of a known sequence extends it. Any other fault starts a sequence of one
//! page. If it falls into a known sequence, that one ends before it: the part that it would grow
//! into is cut off (`inside=truncate`), or the sequence is forgotten (`inside=delete`). Consider
//! the sequences that are long enough. The one whose n-th last fault is latest gives up the first
//! resident page at some distance behind its growing end. If there is no such page, a default
//! policy decides: CLOCK in `seq`, which needs only faults and reference bits, or LRU, the paper's
//! own, in `seq-lru`.
//!
//! ```text
//!   fault on 7 next to an end          any other fault (say 5)           eviction, distance 2
//!   [ 3 4 5 6 ]> 7  =>  [ 3 .. 7 ]>    [ 3 .. 7 ]>  =>  [ 3 4 ]> [ 5 ]   [ 3 4 5 6 7 ]>
//!                                                                              ^ this if resident, else 4, 3
//! ```
//!
//! Choices where the paper is silent: the constants (L = 20 pages, N = 5 faults, distance 20) are
//! quoted from memory. A sequence of one page grows either way. A fault next to two sequences
//! extends the rising one that ends there. A sequence that grows into another deletes it, so
//! sequences are disjoint. At most 4 M + 16 sequences are kept; the one whose last fault is longest
//! ago is dropped. A sequence that is cut keeps its direction and the times of its faults; one of a
//! single page stays, and the fault counts as one of its own. Sequences do not cross objects, and
//! an unmapped page stays part of its sequence. The frame of a victim behind a sequence is filled
//! in place, and CLOCK's hand does not move.
//!
//! Cost: hit as the default policy; fault as the default policy, and O(log M) for the sequences. 12
//! bytes a page seen, about 7 a resident page, 40 a sequence, and the last N times of those that
//! are long enough or nearly so.

mod sorted_pages;

use crate::arguments::Parameter;
use crate::collections::{Lists, PageMap};
use crate::interface::ensure;
use crate::policies::{Clock, Lru};
use crate::registered::Registered;
use crate::settled::SETTLE;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::collections::{BTreeMap, VecDeque};
use sorted_pages::SortedPages;

/// An object and a page number in it. 12 bytes: there are many.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    object: u32,
    number: u64,
}

/// Where pages are that are not resident.
const NOWHERE: Place = Place { object: u32::MAX, number: u64::MAX };

impl Default for Place {
    fn default() -> Self {
        NOWHERE
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Direction {
    /// Of one page yet.
    #[default]
    Unknown,
    Up,
    Down,
}

/// Faults on the pages from the lowest, `low`, to the page with the number `high`.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    low: Place,
    high: u64,
    direction: Direction,
}

impl Sequence {
    /// Its pages, which is how many faults it has seen.
    fn pages(self) -> u64 {
        self.high - self.low.number + 1
    }
}

/// The number of a sequence, one of those of pages for the sake of the collections.
type Number = PageId;

/// Sequences by the time of their last fault.
const KNOWN: usize = 0;
/// Numbers that no sequence has any more.
const UNUSED: usize = 1;

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
    /// Whether a fault inside a sequence ends it before the page, and not altogether.
    truncate: bool,
    /// By number.
    sequences: PageMap<Sequence>,
    /// The numbers of sequences: those that are known, the one whose last fault is longest ago in
    /// front; and the others.
    numbers: Lists<2>,
    /// Sequences by their lowest page.
    by_place: SortedPages<Place>,
    /// Times of the last N faults of each sequence, the earliest in front, but for those that count
    /// only while it is too short.
    times: BTreeMap<Number, VecDeque<u64>>,
    /// The sequences that have a victim to offer, by the time of their n-th last fault.
    offering: BTreeMap<u64, Number>,
    /// Resident pages by place.
    resident: SortedPages<(Place, PageId)>,
    /// The place of each resident page.
    place: PageMap<Place>,
    /// Faults so far.
    time: u64,
    /// The latest proposal, if it came from a sequence.
    proposed: Option<PageId>,
}

const LENGTH: Parameter =
    Parameter { name: "length", default: "20", meaning: "pages that make a sequence count (L)" };
const FAULTS: Parameter =
    Parameter { name: "faults", default: "5", meaning: "which last fault of a sequence ranks it (N)" };
const DISTANCE: Parameter =
    Parameter { name: "distance", default: "20", meaning: "pages left alone at its growing end (M)" };
const INSIDE: Parameter = Parameter {
    name: "inside",
    default: "truncate",
    meaning: "what becomes of a sequence with a fault inside: truncate (it ends before the page) or delete",
};
const PAPER: &str =
    "Glass, Cao, Adaptive page replacement based on memory reference behavior, ACM SIGMETRICS 1997";

impl Registered for Seq<Clock> {
    const INFO: Info = Info {
        name: "seq",
        summary: "evicts near the growing ends of sequences of faults; CLOCK otherwise",
        paper: PAPER,
        parameters: &[LENGTH, FAULTS, DISTANCE, INSIDE, SETTLE],
        presets: &[],
    };
    const BYTES_A_PAGE: usize = 40;

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Self::over_default(frames, arguments)
    }
}

impl Registered for Seq<Lru> {
    const INFO: Info = Info {
        name: "seq-lru",
        summary: "evicts near the growing ends of sequences of faults; LRU otherwise",
        paper: PAPER,
        parameters: &[LENGTH, FAULTS, DISTANCE, INSIDE],
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
            truncate: arguments.choice("inside", &[("truncate", true), ("delete", false)])?,
            sequences: PageMap::new(),
            numbers: Lists::new(),
            by_place: SortedPages::new(),
            times: BTreeMap::new(),
            offering: BTreeMap::new(),
            resident: SortedPages::new(),
            place: PageMap::new(),
            time: 0,
            proposed: None,
        })
    }
}

impl<D> Seq<D> {
    /// The sequence that covers a place.
    fn covering(&self, place: Place) -> Option<Number> {
        let number = self.by_place.last_to(place, |number| self.sequences[number].low)?;
        let Sequence { low, high, .. } = self.sequences[number];
        (low.object == place.object && place.number <= high).then_some(number)
    }

    /// The time of the n-th last fault of a sequence that is long enough.
    fn nth_last(&self, number: Number) -> Option<u64> {
        let times = self.times.get(&number)?;
        let is_long = self.sequences[number].pages() >= self.length;
        times.front().copied().filter(|_| is_long && times.len() == self.nth)
    }

    /// The page that a sequence offers, if it is long enough: the first resident one far enough
    /// behind its growing end.
    fn offer(&self, number: Number) -> Option<PageId> {
        let Sequence { low, high, direction } = self.sequences[number];
        let at = |number| Place { number, ..low };
        let key = |page| (self.place[page], page);
        let page = match direction {
            Direction::Down => {
                let first = low.number.checked_add(self.distance)?;
                self.resident.first_from((at(first), PageId(0)), key)?
            }
            Direction::Up | Direction::Unknown => {
                let last = high.checked_sub(self.distance)?;
                self.resident.last_to((at(last), PageId(u32::MAX)), key)?
            }
        };
        (low..=at(high)).contains(&self.place[page]).then_some(page)
    }

    /// Enters a sequence among those that offer a victim, or not, after it or the residence of a
    /// page in it changed.
    fn reconsider(&mut self, number: Number) {
        let Some(nth_last) = self.nth_last(number) else { return };
        if self.offer(number).is_some() {
            self.offering.insert(nth_last, number);
        } else {
            self.offering.remove(&nth_last);
        }
    }

    /// Begins a sequence of one page, without its fault.
    fn begin(&mut self, place: Place) -> Number {
        let next = PageId(self.numbers.len(KNOWN) as u32);
        let number = self.numbers.front(UNUSED).unwrap_or(next);
        let alone = Sequence { low: place, high: place.number, direction: Direction::Unknown };
        self.sequences.set(number, alone);
        self.by_place.insert(number, |number| self.sequences[number].low);
        number
    }

    /// Ends a sequence.
    fn end(&mut self, number: Number) {
        self.by_place.remove(number, |number| self.sequences[number].low);
        if let Some(times) = self.times.remove(&number) {
            // An earlier first fault than the n-th last is no key here.
            times.front().and_then(|first| self.offering.remove(first));
        }
        self.numbers.move_to_back(UNUSED, number);
    }

    /// Ends a sequence of several pages before a page in it, on the side that it grows to.
    fn cut(&mut self, number: Number, place: Place) {
        let Sequence { low, high, direction } = self.sequences[number];
        let is_up = direction != Direction::Down;
        if place.number == if is_up { low.number } else { high } {
            return self.end(number);
        }
        // Its offer is another one now, if it has any.
        let first = self.times.get(&number).and_then(|times| times.front());
        first.and_then(|first| self.offering.remove(first));
        if is_up {
            self.sequences[number].high = place.number - 1;
        } else {
            self.by_place.remove(number, |number| self.sequences[number].low);
            self.sequences[number].low.number = place.number + 1;
            self.by_place.insert(number, |number| self.sequences[number].low);
        }
        self.reconsider(number);
    }

    /// Gives a sequence, which has grown by a page, the present fault.
    fn note_time(&mut self, number: Number) {
        self.numbers.move_to_back(KNOWN, number);
        // The first of the n last faults, at the earliest, when it is long enough.
        if self.sequences[number].pages() + self.nth as u64 > self.length {
            let times = self.times.entry(number).or_insert_with(|| VecDeque::with_capacity(self.nth));
            if times.len() == self.nth {
                times.pop_front().and_then(|nth_last| self.offering.remove(&nth_last));
            }
            times.push_back(self.time);
        }
        self.reconsider(number);
    }

    /// A fault: extends a sequence or starts one.
    fn note_fault(&mut self, place: Place) {
        self.time += 1;
        let Place { object, number } = place;
        let below = number.checked_sub(1).and_then(|below| self.covering(Place { object, number: below }));
        let below = below.filter(|&below| {
            let Sequence { high, direction, .. } = self.sequences[below];
            high + 1 == number && direction != Direction::Down
        });
        let above = number.checked_add(1).map(|above| Place { object, number: above });
        let above = above.and_then(|place| {
            self.covering(place).filter(|&above| {
                let Sequence { low, direction, .. } = self.sequences[above];
                low == place && direction != Direction::Up
            })
        });
        if let Some(covering) = self.covering(place) {
            let is_extended = below.is_some() || above.is_some();
            if is_extended || !self.truncate {
                self.end(covering);
            } else if self.sequences[covering].direction == Direction::Unknown {
                return self.note_time(covering);
            } else {
                self.cut(covering, place);
            }
        }
        let grown = if let Some(below) = below {
            let sequence = &mut self.sequences[below];
            (sequence.high, sequence.direction) = (number, Direction::Up);
            below
        } else if let Some(above) = above {
            self.by_place.remove(above, |number| self.sequences[number].low);
            let sequence = &mut self.sequences[above];
            (sequence.low, sequence.direction) = (place, Direction::Down);
            self.by_place.insert(above, |number| self.sequences[number].low);
            above
        } else {
            self.begin(place)
        };
        self.note_time(grown);
        if self.numbers.len(KNOWN) > 4 * self.frames + 16
            && let Some(oldest) = self.numbers.front(KNOWN)
        {
            self.end(oldest);
        }
    }

    /// Notes that a page is at a place, or (`NOWHERE`) not resident.
    fn set_place(&mut self, page: PageId, place: Place) {
        self.place.cover(page);
        let old = self.place[page];
        if old != NOWHERE {
            self.resident.remove(page, |page| (self.place[page], page));
        }
        self.place[page] = place;
        if place != NOWHERE {
            self.resident.insert(page, |page| (self.place[page], page));
        }
        for changed in [old, place].into_iter().filter(|place| *place != NOWHERE) {
            if let Some(number) = self.covering(changed) {
                self.reconsider(number);
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
        self.note_fault(Place { object: reference.object, number: reference.page_number });
    }

    fn victim<M: Mmu>(&mut self, mmu: &mut M) -> Option<PageId> {
        self.proposed = self.offering.last_key_value().and_then(|(_, number)| self.offer(*number));
        self.proposed.or_else(|| self.default.victim(mmu))
    }

    fn evict(&mut self, page: PageId) {
        self.set_place(page, NOWHERE);
        // The default policy has not proposed a page that a sequence did.
        if self.proposed.take() == Some(page) {
            self.default.remove(page);
        } else {
            self.default.evict(page);
        }
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, mmu: &mut M) -> bool {
        let Reference { page, object, page_number: number, .. } = reference;
        self.set_place(page, Place { object, number });
        self.default.insert(reference, mmu)
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.default.hit(reference);
    }

    fn remove(&mut self, page: PageId) {
        self.set_place(page, NOWHERE);
        self.default.remove(page);
    }

    /// A page's sequence, if it is in one, is left behind.
    fn assign<M: Mmu>(&mut self, page: PageId, object: u32, mmu: &mut M) {
        let place = self.place.get(page);
        if place != NOWHERE {
            self.set_place(page, Place { object, ..place });
        }
        self.default.assign(page, object, mmu);
    }

    /// Its sequence is left behind here, too.
    fn renumber(&mut self, page: PageId, page_number: u64) {
        let place = self.place.get(page);
        if place != NOWHERE {
            self.set_place(page, Place { number: page_number, ..place });
        }
        self.default.renumber(page, page_number);
    }

    /// Its sequences end.
    fn free_object(&mut self, object: u32) {
        let first = Place { object, number: 0 };
        while let Some(number) = self.by_place.first_from(first, |number| self.sequences[number].low)
            && self.sequences[number].low.object == object
        {
            self.end(number);
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
        self.resident.check(|page| (self.place[page], page))?;
        let placed = self.place.iter().filter(|(_, place)| *place != NOWHERE).count();
        ensure!(
            placed == residents && self.resident.iter().all(|page| self.place[page] != NOWHERE),
            "pages and places do not agree"
        );
        self.numbers.check()?;
        self.by_place.check(|number| self.sequences[number].low)?;
        let sequences = self.by_place.len();
        ensure!(sequences <= 4 * self.frames + 16, "{sequences} sequences");
        ensure!(self.numbers.len(KNOWN) == sequences, "{} sequences by time", self.numbers.len(KNOWN));
        let mut previous: Option<Place> = None;
        let (mut offering, mut timed) = (0, 0);
        for number in self.by_place.iter() {
            let sequence = self.sequences[number];
            let Sequence { low, high, direction } = sequence;
            ensure!(low.number <= high, "sequence {low:?} ends at {high}");
            ensure!(
                previous.is_none_or(|end| end < low),
                "sequence {low:?} overlaps the one to {previous:?}"
            );
            previous = Some(Place { number: high, ..low });
            let is_single = low.number == high;
            ensure!(is_single || direction != Direction::Unknown, "{sequence:?}");
            ensure!(
                self.numbers.list_of(number) == Some(KNOWN),
                "{sequence:?} is not known by its last fault"
            );
            // As many faults as pages, or more; those of which times are kept are the last.
            let times = self.times.get(&number);
            timed += usize::from(times.is_some());
            let early = self.length.saturating_sub(self.nth as u64);
            let kept = sequence.pages().saturating_sub(early).min(self.nth as u64);
            ensure!(
                (kept..=self.nth as u64).contains(&(times.map_or(0, VecDeque::len) as u64))
                    && times.is_none_or(|times| times.iter().is_sorted()),
                "{sequence:?}: times {times:?}"
            );
            if let Some(nth_last) = self.nth_last(number).filter(|_| self.offer(number).is_some()) {
                offering += 1;
                ensure!(
                    self.offering.get(&nth_last) == Some(&number),
                    "the offer of {sequence:?} is not known"
                );
            }
        }
        ensure!(timed == self.times.len(), "{} sequences with times, not {timed}", self.times.len());
        ensure!(offering == self.offering.len(), "{offering} of {} sequences offer", self.offering.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Machine, for_random_strings, naive, run};

    /// The sequences, each with its direction and how many times are kept of its faults, and the
    /// victim.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<SeqClock>::new("seq:length=3,faults=2,distance=1", 4);
        let states: Vec<_> = [5, 6, 7, 8, 9, 2, 1, 7, 10]
            .iter()
            .map(|&page| {
                let victim = machine.access(page).victim;
                let policy = machine.policy();
                let sequence = |number: Number| {
                    let Sequence { low: Place { number: low, .. }, high, direction } =
                        policy.sequences[number];
                    format!(
                        "{low}-{high} {direction:?} {}",
                        policy.times.get(&number).map_or(0, VecDeque::len)
                    )
                };
                let sequences: Vec<_> = policy.by_place.iter().map(sequence).collect();
                format!("{} / {victim:?}", sequences.join(", "))
            })
            .collect();
        assert_eq!(
            states,
            [
                "5-5 Unknown 0 / None",
                "5-6 Up 1 / None",
                "5-7 Up 2 / None",
                "5-8 Up 2 / None",
                "5-9 Up 2 / Some(8)",
                "2-2 Unknown 0, 5-9 Up 2 / Some(7)", // 9 is the end, 8 has gone
                "1-2 Down 1, 5-9 Up 2 / Some(6)",
                // Too short to count: CLOCK's choice.
                "1-2 Down 1, 5-6 Up 2, 7-7 Unknown 0 / Some(5)",
                // The frames hold 7 1 2 9, and CLOCK's hand has moved one frame only.
                "1-2 Down 1, 5-6 Up 2, 7-7 Unknown 0, 10-10 Unknown 0 / Some(1)",
            ]
        );
    }

    /// The sequences as `low-high` with `>` or `<` for the way in which they grow, after each fault
    /// from the fifth on.
    #[test]
    fn a_fault_inside_cuts_a_sequence_or_deletes_it() {
        let states = |spec: &str, string: &[u32]| {
            let mut machine = Machine::<SeqClock>::new(spec, 3);
            let states = machine.trace(string, |machine| {
                let policy = machine.policy();
                let sequence = |number: Number| {
                    let Sequence { low: Place { number: low, .. }, high, direction } =
                        policy.sequences[number];
                    let way = match direction {
                        Direction::Unknown => "",
                        Direction::Up => ">",
                        Direction::Down => "<",
                    };
                    format!("{low}-{high}{way}")
                };
                policy.by_place.iter().map(sequence).collect::<Vec<_>>().join(" ")
            });
            states[4..].to_vec()
        };
        let cut = "seq:length=3,faults=2,distance=1";
        let delete = &format!("{cut},inside=delete");
        // When 5 has come in, memory has 1, 2 and 5.
        let rising = [1, 2, 3, 4, 5, 3, 4];
        assert_eq!(states(cut, &rising), ["1-5>", "1-2> 3-3", "1-2> 3-4>"]);
        assert_eq!(states(delete, &rising), ["1-5>", "3-3", "3-4>"]);
        let falling = [9, 8, 7, 6, 5, 7, 6];
        assert_eq!(states(cut, &falling), ["5-9<", "7-7 8-9<", "6-7< 8-9<"]);
        assert_eq!(states(delete, &falling), ["5-9<", "7-7", "6-7<"]);
    }

    /// Several objects: the plain model says the same.
    #[test]
    fn agrees_with_the_naive_model_on_several_objects() {
        for truncate in [true, false] {
            for_random_strings(|string, frames| {
                let object = |page| page / 7;
                let inside = if truncate { "truncate" } else { "delete" };
                let spec = format!("seq:length=3,faults=2,distance=1,inside={inside}");
                let mut machine = Machine::<SeqClock>::new(&spec, frames).with_objects(object);
                let victims: Vec<_> = string.iter().map(|&page| machine.access(page).victim).collect();
                let options = naive::SeqOptions { length: 3, faults: 2, distance: 1, lru: false, truncate };
                let model = naive::seq(string, frames, &options, object);
                let expected: Vec<_> = model.iter().map(|step| step.victims.first().copied()).collect();
                assert_eq!(victims, expected, "{spec}");
            });
        }
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
