//! UBM: partitions for sequential, looping and other pages; the one whose page is worth least gives
//! it up.
//!
//! Decisions: a reference is classified, and counted, after its victim has been chosen; the hit
//! rate at the LRU end of the other pages is a plain decaying average.

use super::{Given, Step};
use crate::arguments::Rounding;
use std::collections::BTreeMap;

/// The parameters of UBM.
#[derive(Clone, Debug)]
pub struct UbmOptions {
    /// Blocks in order that make a sequence.
    pub sequence: u64,
    /// Pages at the LRU end whose hits count.
    pub segment: usize,
    /// What a reference leaves of the hit rate before it.
    pub decay: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    Sequential,
    Looping { period: u64 },
    Other,
}

struct File {
    start: u32,
    last: u32,
    longest: u32,
    started: u64,
    period: Option<u64>,
}

/// UBM with `frames` frames; `object` tells which file a page belongs to, and its block is the page
/// itself.
pub fn ubm(
    references: &[u32],
    frames: usize,
    options: &UbmOptions,
    object: impl Fn(u32) -> u32,
) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let mut files: BTreeMap<u32, File> = BTreeMap::new();
    let mut memory: Vec<(u32, Class)> = Vec::new(); // least recently used first
    let mut rate = 0.0;
    let mut steps = Vec::new();
    for (time, &page) in (1_u64..).zip(references) {
        let hit = memory.iter().any(|frame| frame.0 == page);
        let mut victim = None;
        if !hit && memory.len() == frames {
            let index = choose(&memory, rate / options.segment as f64);
            victim = Some(memory.remove(index).0);
        }
        let at_the_end = memory.iter().filter(|frame| frame.1 == Class::Other).take(options.segment);
        let counts = at_the_end.clone().any(|frame| frame.0 == page);
        rate = options.decay * rate + if counts { 1.0 - options.decay } else { 0.0 };

        let file = files.entry(object(page)).or_insert(File {
            start: page,
            last: u32::MAX, // block 0 extends nothing
            longest: 0,
            started: time,
            period: None,
        });
        if file.longest > 0 && page == file.last + 1 {
            file.last = page;
        } else if page == file.start && u64::from(file.longest) >= options.sequence {
            *file = File { last: page, started: time, period: Some(time - file.started), ..*file };
        } else {
            *file = File { start: page, last: page, longest: 0, started: time, period: None };
        }
        let run = file.last - file.start + 1;
        file.longest = file.longest.max(run);
        let class = match file.period {
            Some(period) => Class::Looping { period },
            None if u64::from(run) >= options.sequence => Class::Sequential,
            None => Class::Other,
        };
        if class == Class::Sequential {
            for frame in &mut memory {
                if object(frame.0) == object(page) && (file.start..page).contains(&frame.0) {
                    frame.1 = Class::Sequential;
                }
            }
        }
        memory.retain(|frame| frame.0 != page);
        memory.push((page, class));
        steps.push(if hit { Step::hit() } else { Step::fault(victim) });
    }
    steps
}

/// The index of the victim.
fn choose(memory: &[(u32, Class)], gain_of_other: f64) -> usize {
    if let Some(sequential) = memory.iter().rposition(|frame| frame.1 == Class::Sequential) {
        return sequential;
    }
    let other = memory.iter().position(|frame| frame.1 == Class::Other);
    let period = |frame: &(u32, Class)| match frame.1 {
        Class::Looping { period } => period,
        _ => 0,
    };
    let longest = memory.iter().map(period).max().unwrap_or(0);
    match other {
        Some(other) if longest == 0 || gain_of_other < 1.0 / longest as f64 => other,
        _ => memory.iter().rposition(|frame| period(frame) == longest).expect("memory is full"),
    }
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let options = UbmOptions {
        sequence: given.whole("sequence"),
        segment: given.pages("segment", Rounding::Down).max(1),
        decay: given.factor("decay"),
    };
    ubm(references, frames, &options, |_| 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::{UbmOptions, ubm};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| {
            let options = UbmOptions { sequence: 3, segment: (frames / 8).max(1), decay: 0.999 };
            ubm(refs, frames, &options, |_| 0)
        });
        assert_eq!(row, "8:34534 | 8:4543 | 10:345678");
    }
}
