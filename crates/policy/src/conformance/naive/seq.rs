//! SEQ: evict behind the growing end of a run of faults on consecutive pages; CLOCK or LRU without
//! one.

use super::{Given, Step};

/// The parameters of SEQ.
#[derive(Clone, Debug)]
pub struct SeqOptions {
    /// L: pages that make a sequence count.
    pub length: u64,
    /// N: which last fault ranks a sequence.
    pub faults: usize,
    /// Pages left alone at the growing end.
    pub distance: u64,
    /// LRU decides where no sequence does; otherwise CLOCK with clear initial bits.
    pub lru: bool,
    /// A fault inside a sequence ends it before the page; otherwise it deletes it.
    pub truncate: bool,
}

struct Sequence {
    object: u32,
    low: u32,
    high: u32,
    /// `None` while it has never had a second page.
    up: Option<bool>,
    /// Times of all faults, latest last.
    times: Vec<u64>,
}

impl Sequence {
    fn covers(&self, object: u32, page: u32) -> bool {
        self.object == object && self.low <= page && page <= self.high
    }
    fn may_grow(&self, up: bool) -> bool {
        self.up.is_none_or(|grows_up| grows_up == up)
    }
}

/// SEQ with `frames` frames; `object` tells which object a page belongs to, and a page's number is
/// the page itself.
pub fn seq(
    references: &[u32],
    frames: usize,
    options: &SeqOptions,
    object: impl Fn(u32) -> u32,
) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut memory: Vec<(u32, bool)> = Vec::new(); // frames in order, with reference bits
    let mut recency: Vec<u32> = Vec::new(); // least recent first
    let mut hand = 0;
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut steps = Vec::new();
    for (time, &page) in (0..).zip(references) {
        recency.retain(|other| *other != page);
        if let Some(frame) = memory.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = true;
            recency.push(page);
            steps.push(Step::hit());
            continue;
        }
        note_fault(&mut sequences, options.truncate, object(page), page, time);
        if sequences.len() > 4 * frames + 16 {
            let last = |index: &usize| sequences[*index].times.last().copied();
            let oldest = (0..sequences.len()).min_by_key(last).expect("not empty");
            sequences.remove(oldest);
        }
        if memory.len() < frames {
            memory.push((page, false));
            recency.push(page);
            steps.push(Step::fault(None));
            continue;
        }
        let resident: Vec<u32> = memory.iter().map(|frame| frame.0).collect();
        let victim = match sequence_victim(&sequences, &resident, options) {
            Some(victim) => victim,
            None if options.lru => recency[0],
            None => {
                while std::mem::take(&mut memory[hand].1) {
                    hand = (hand + 1) % frames;
                }
                let victim = memory[hand].0;
                hand = (hand + 1) % frames;
                victim
            }
        };
        *memory.iter_mut().find(|frame| frame.0 == victim).expect("resident") = (page, false);
        recency.retain(|other| *other != victim);
        recency.push(page);
        steps.push(Step::fault(Some(victim)));
    }
    steps
}

fn note_fault(sequences: &mut Vec<Sequence>, truncate: bool, object: u32, page: u32, time: u64) {
    let rising = |s: &Sequence| s.object == object && s.high + 1 == page && s.may_grow(true);
    let falling = |s: &Sequence| s.object == object && s.low == page + 1 && s.may_grow(false);
    let grows = sequences.iter().position(rising).or_else(|| sequences.iter().position(falling));
    let mut noted = match grows.map(|index| sequences.remove(index)) {
        Some(grown) if grown.high + 1 == page => Sequence { high: page, up: Some(true), ..grown },
        Some(grown) => Sequence { low: page, up: Some(false), ..grown },
        None => Sequence { object, low: page, high: page, up: None, times: Vec::new() },
    };
    if let Some(index) = sequences.iter().position(|sequence| sequence.covers(object, page)) {
        let covering = sequences.remove(index);
        if truncate && grows.is_none() {
            match covering.up {
                // It is this page alone.
                None => noted = covering,
                Some(true) if covering.low < page => {
                    sequences.push(Sequence { high: page - 1, ..covering });
                }
                Some(false) if covering.high > page => {
                    sequences.push(Sequence { low: page + 1, ..covering });
                }
                Some(_) => {}
            }
        }
    }
    noted.times.push(time);
    sequences.push(noted);
}

fn sequence_victim(sequences: &[Sequence], resident: &[u32], options: &SeqOptions) -> Option<u32> {
    let nth_last = |sequence: &Sequence| sequence.times[sequence.times.len() - options.faults];
    let mut long: Vec<&Sequence> = sequences
        .iter()
        .filter(|sequence| u64::from(sequence.high - sequence.low) + 1 >= options.length)
        .filter(|sequence| sequence.times.len() >= options.faults)
        .collect();
    long.sort_by_key(|sequence| std::cmp::Reverse(nth_last(sequence)));
    for sequence in long {
        let mut pages: Vec<u32> = (sequence.low..=sequence.high).collect();
        if sequence.up != Some(false) {
            pages.reverse();
        }
        let behind = pages.into_iter().skip(options.distance as usize);
        if let Some(victim) = behind.into_iter().find(|page| resident.contains(page)) {
            return Some(victim);
        }
    }
    None
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let options = SeqOptions {
        length: given.whole("length"),
        faults: given.whole("faults") as usize,
        distance: given.whole("distance"),
        lru: given.name() == "seq-lru",
        truncate: given.arguments.value("inside") == "truncate",
    };
    seq(references, frames, &options, |_| 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{SeqOptions, seq};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let deleting = "8:34514 | 10:451232 | 9:45678";
        for (truncate, lru, expected) in [
            (true, true, "8:34514 | 9:42343 | 9:45672"),
            (true, false, "8:34514 | 8:4241 | 9:45672"),
            (false, true, deleting),
            (false, false, deleting),
        ] {
            let options = SeqOptions { length: 3, faults: 2, distance: 1, lru, truncate };
            let row = outcomes_on_examples(|refs, frames| seq(refs, frames, &options, |_| 0));
            assert_eq!(row, expected, "truncate {truncate}, lru {lru}");
        }
    }
}
