//! The window reduction: what it keeps, and what it must not change.

use crate::common::{Random, Step, decoded, perform, pgtr, written};
use std::io::Cursor;
use sweephand_checks::trying;
use sweephand_trace::reduce::{Counts, Reducer};
use sweephand_trace::{EndTotals, Event, ImportOptions, Metadata, Trace, Writer, import};

fn reduced(steps: &[Step], window: u64) -> (Trace, Counts) {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let mut reducer = Reducer::new(&mut writer, window);
    perform(steps, &mut reducer);
    let counts = reducer.finish().unwrap();
    (Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap(), counts)
}

fn references(string: &[(u64, bool)]) -> Vec<Step> {
    string.iter().map(|(page, write)| Step::Reference(*page, *write)).collect()
}

/// Letters are pages; capitals write.
fn letters(string: &str) -> Vec<(u64, bool)> {
    string.bytes().map(|b| (u64::from(b.to_ascii_lowercase()), b.is_ascii_uppercase())).collect()
}

fn shown(trace: &Trace) -> String {
    let mut numbers = Vec::new();
    let mut chunk = sweephand_trace::Chunk::new();
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
    }
    let letter = |(page, write): &(u32, bool)| {
        let letter = char::from(numbers[*page as usize] as u8);
        if *write { letter.to_ascii_uppercase() } else { letter }
    };
    decoded(trace).0.iter().map(letter).collect()
}

#[test]
fn each_epoch_keeps_the_first_and_last_run_of_each_page() {
    for (string, window, expected) in [
        ("aabAb", 1, "abAb"),
        // One epoch: first and last of each. a's last takes the write of the one before it.
        ("abababab", 2, "abab"),
        ("abAbab", 2, "abAb"),
        ("aBab", 2, "aBab"),
        // c ends the epoch of a and b; b's two runs stay two, though nothing is left between them.
        ("ababac", 2, "abbac"),
        ("abaBbac", 2, "abBac"),
        ("abcabcabc", 3, "abcabc"),
        // Epochs ab, ca, bc, ab, c: nothing to drop.
        ("abcabcabc", 2, "abcabcabc"),
        ("aaaa", 5, "a"),
        ("aAaa", 5, "A"),
        ("", 3, ""),
    ] {
        let (trace, counts) = reduced(&references(&letters(string)), window);
        assert_eq!(shown(&trace), expected, "{string} with window {window}");
        assert_eq!(counts.references, string.len() as u64, "{string} with window {window}");
        let runs = letters(string).chunk_by(|a, b| a.0 == b.0).count();
        assert_eq!(counts.runs, runs as u64, "{string} with window {window}");
    }
}

/// b's two runs were kept because b was used in between. With a window of 1 nothing was left out
/// between two.
#[test]
fn what_has_been_reduced_already_keeps_its_runs() {
    let reduced_again = |bytes: &[u8]| {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        let options = ImportOptions { window: 4, ..ImportOptions::default() };
        let end = import(bytes, &mut writer, &options, &mut |_| {}).unwrap();
        shown(&Trace::from_bytes(writer.finish(end).unwrap().0.into_inner()).unwrap())
    };
    let steps = references(&letters("abbac"));
    for (window, expected) in [(0, "abac"), (1, "abac"), (2, "abbac")] {
        let metadata = Metadata { window, ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        perform(&steps, &mut writer);
        let native = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        assert_eq!(reduced_again(&native), expected, "a trace of ours with window {window}");
        assert_eq!(reduced_again(&pgtr(&steps, window)), expected, "a stream with window {window}");
    }
}

#[test]
fn an_unmapping_ends_the_epoch() {
    let mut steps = references(&letters("abaab"));
    steps.push(Step::Mark(1, 1));
    steps.push(Step::Unmap(u64::from(b'a'), 1));
    steps.extend(references(&letters("aba")));
    let (trace, _) = reduced(&steps, 8);
    assert_eq!(shown(&trace), "abababa");
    let (_, events) = decoded(&trace);
    assert_eq!(events[1], (4, Event::Drop { pages: 0..1 }));
    assert_eq!(events[0].0, 4);
}

/// Faults of LRU at every memory size: the recency of every reference.
fn lru_faults(string: &[u32], frames: usize) -> usize {
    let mut stack: Vec<u32> = Vec::new();
    let mut faults = 0;
    for page in string {
        match stack.iter().rposition(|other| other == page) {
            Some(place) => drop(stack.remove(place)),
            None => {
                faults += 1;
                if stack.len() == frames {
                    stack.remove(0);
                }
            }
        }
        stack.push(*page);
    }
    faults
}

fn opt_faults(string: &[u32], frames: usize) -> usize {
    let mut resident: Vec<u32> = Vec::new();
    let mut faults = 0;
    for (now, page) in string.iter().enumerate() {
        if resident.contains(page) {
            continue;
        }
        faults += 1;
        if resident.len() == frames {
            let next =
                |page: &u32| string[now..].iter().position(|other| other == page).unwrap_or(usize::MAX);
            let victim = (0..frames).max_by_key(|place| next(&resident[*place])).unwrap();
            resident.swap_remove(victim);
        }
        resident.push(*page);
    }
    faults
}

#[test]
fn lru_and_opt_faults_are_unchanged_from_the_window_up() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let pages = 2 + random.below(14);
        // Part of the references near the one before: there must be something to drop.
        let mut page = 0;
        let string: Vec<(u64, bool)> = (0..400)
            .map(|_| {
                page =
                    if random.below(3) == 0 { random.below(pages) } else { (page + random.below(3)) % pages };
                (page, random.below(4) == 0)
            })
            .collect();
        let ids = |trace: &Trace| decoded(trace).0.into_iter().map(|(page, _)| page).collect::<Vec<u32>>();
        let whole = ids(&Trace::from_bytes(written(&references(&string), 1)).unwrap());
        for window in 1..=8 {
            let _input = trying(|| format!("seed {seed}, window {window}"));
            let (trace, _) = reduced(&references(&string), window);
            let kept = ids(&trace);
            assert!(kept.len() <= whole.len());
            for frames in window as usize..=16 {
                assert_eq!(lru_faults(&kept, frames), lru_faults(&whole, frames), "{frames} frames");
                assert_eq!(opt_faults(&kept, frames), opt_faults(&whole, frames), "{frames} frames");
            }
            // No page loses its last write, or gains one.
            let written = |trace: &Trace| trace.header().totals.written_pages;
            assert_eq!(
                written(&trace),
                written(&Trace::from_bytes(self::written(&references(&string), 1)).unwrap())
            );
        }
    }
}
