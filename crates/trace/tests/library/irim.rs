//! IRIM strings: the worked example, a model that follows the definition slot by slot, the file
//! format and damaged files.

use std::io::{Cursor, Write};
use std::path::Path;
use sweephand_checks::trying;

use crate::common::{Random, Step, perform, written};
use sweephand_trace::irim::PageDrop;
use sweephand_trace::{EndTotals, Error, Irim, Metadata, PageState, Trace, Transition, Writer};

use PageState::{Clean, Dirty, Idle};

fn trace(steps: &[Step]) -> Trace {
    Trace::from_bytes(written(steps, 1)).unwrap()
}

fn string(steps: &[Step], omega: u64) -> Irim {
    Irim::from_trace(&trace(steps), omega).unwrap()
}

/// Pages 0 (a) and 1 (b); `w` is a write.
fn references(text: &str) -> Vec<Step> {
    let page = |c: u8| u64::from(c - b'a');
    text.split_whitespace().map(|r| Step::Reference(page(r.as_bytes()[0]), r.ends_with('w'))).collect()
}

fn shown(string: &Irim) -> String {
    let one = |t: &Transition| format!("{} {} {:?}", t.time, (b'a' + t.page as u8) as char, t.state);
    string.transitions.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_ends_stands_before_what_the_next_reference_begins() {
    // What ends at time 8 (b's use, with reference 7) stands before what reference 8 begins.
    let string = string(&references("a bw a aw b b b b a"), 3);
    assert_eq!(
        shown(&string),
        "0 a Clean, 1 b Dirty, 2 b Clean, 3 a Dirty, 4 a Idle, 8 b Idle, 8 a Clean, 9 a Idle"
    );
    assert_eq!((string.omega, string.references, string.records, string.pages), (3, 9, 9, 2));
    assert!(string.drops.is_empty());
}

#[test]
fn an_interval_is_long_if_omega_references_lie_in_between() {
    // Between the two a lie 2 references: as long as omega, and shorter.
    let steps = references("aw b bw a");
    assert_eq!(shown(&string(&steps, 2)).matches("a Idle").count(), 2);
    assert_eq!(shown(&string(&steps, 3)), "0 a Dirty, 1 a Clean, 1 b Clean, 2 b Dirty, 3 b Idle, 4 a Idle");
}

#[test]
fn a_dropped_page_is_idle_from_its_last_reference_and_begins_anew() {
    let mut steps = references("aw b a");
    steps.push(Step::Unmap(0, 1));
    steps.extend(references("aw b"));
    let string = string(&steps, 10);
    assert_eq!(shown(&string), "0 a Dirty, 1 a Clean, 1 b Clean, 3 a Idle, 3 a Dirty, 4 a Idle, 5 b Idle");
    assert_eq!(string.drops, [PageDrop { time: 3, pages: 0..1 }]);
}

/// The definition, for each page and each slot (the time of one reference): what state is it in?
/// Quadratic.
fn model(steps: &[Step], omega: u64) -> Vec<(u64, u32, PageState)> {
    // Page ids in order of first touch, page by page; lives end where contents are dropped.
    let mut ids: Vec<u64> = Vec::new();
    let mut uses: Vec<(u64, u32, u32, bool)> = Vec::new(); // slot, id, life, write
    let mut lives: Vec<u32> = Vec::new();
    let mut ends: Vec<(u64, u32)> = Vec::new(); // boundary, id
    let mut slots = 0;
    for step in steps {
        match *step {
            Step::Reference(page, write) => {
                let id = ids.iter().position(|known| *known == page).unwrap_or_else(|| {
                    ids.push(page);
                    lives.push(0);
                    ids.len() - 1
                });
                uses.push((slots, id as u32, lives[id], write));
                slots += 1;
            }
            Step::Unmap(first, pages) => {
                for id in (0..ids.len()).filter(|id| (first..first + pages).contains(&ids[*id])) {
                    lives[id] += 1;
                    ends.push((slots, id as u32));
                }
            }
            _ => {}
        }
    }
    let state = |slot: u64, id: u32| {
        // The life that slot is in: number of ends up to it.
        let life = ends.iter().filter(|(at, of)| *of == id && *at <= slot).count() as u32;
        let of_life = || uses.iter().filter(|(_, of, in_life, _)| (*of, *in_life) == (id, life));
        let long = |only_writes: bool| {
            let at = || of_life().filter(|(.., write)| *write || !only_writes).map(|(at, ..)| *at);
            if at().any(|at| at == slot) {
                return false;
            }
            match (at().filter(|at| *at < slot).max(), at().find(|at| *at > slot)) {
                (Some(before), Some(after)) => after - before > omega,
                _ => true,
            }
        };
        match (long(false), long(true)) {
            (true, _) => Idle,
            (false, true) => Clean,
            (false, false) => Dirty,
        }
    };
    let mut transitions = Vec::new();
    let mut last = vec![Idle; ids.len()];
    for slot in 0..=slots {
        let (mut ending, mut entering) = (Vec::new(), Vec::new());
        for id in 0..ids.len() as u32 {
            let mut before = last[id as usize];
            let now = if slot < slots { state(slot, id) } else { Idle };
            if before != Idle && now != Idle && ends.contains(&(slot, id)) {
                ending.push((slot, id, Idle));
                before = Idle;
            }
            if now != before {
                let of_this_reference = slot < slots && uses[slot as usize].1 == id;
                if of_this_reference { &mut entering } else { &mut ending }.push((slot, id, now));
            }
            last[id as usize] = now;
        }
        transitions.append(&mut ending);
        transitions.append(&mut entering);
    }
    transitions
}

fn random_steps(random: &mut Random) -> Vec<Step> {
    let (length, pages) = (random.below(60), 1 + random.below(5));
    let (writes, drops) = (1 + random.below(4), random.below(2) * 8);
    let mut steps = vec![Step::Reference(0, true)];
    for _ in 0..length {
        if random.below(100) < drops {
            steps.push(Step::Unmap(random.below(pages), 1 + random.below(2)));
        }
        // Now and then the same page for a while.
        let page = random.below(pages);
        for _ in 0..1 + random.below(5).saturating_sub(2) * 2 {
            steps.push(Step::Reference(page, random.below(writes) == 0));
        }
    }
    steps
}

#[test]
fn random_strings_agree_with_the_definition() {
    for seed in 0..3_000 {
        let steps = random_steps(&mut Random(seed));
        let omega = 1 + Random(seed + 1_000_000).below(12);
        let found: Vec<_> =
            string(&steps, omega).transitions.iter().map(|t| (t.time, t.page, t.state)).collect();
        assert_eq!(found, model(&steps, omega), "seed {seed}, omega {omega}");
    }
}

#[test]
fn chunk_boundaries_do_not_change_the_intervals() {
    // Over two chunks: a is used every 1,000 references, b in two stretches.
    let mut steps = Vec::new();
    for i in 0..600_000u64 {
        let b = !(100_000..500_000).contains(&i);
        steps.push(Step::Reference(
            if i % 1_000 == 0 {
                0
            } else if b {
                1
            } else {
                2
            },
            i % 3 == 0,
        ));
    }
    assert_eq!(
        shown(&string(&steps, 5_000)),
        "0 a Dirty, 1 b Clean, 3 b Dirty, 100000 b Idle, 100001 c Clean, 100002 c Dirty, 499999 c Clean, \
         500000 c Idle, 500001 b Dirty, 597001 a Clean, 599001 a Idle, 599998 b Clean, 600000 b Idle"
    );
}

#[test]
fn without_write_flags_it_is_refused_in_one_line() {
    let reads: Vec<Step> = (0..10).map(|page| Step::Reference(page, false)).collect();
    let trace = Trace::from_reader(&written(&reads, 1)[..], Path::new("reads.swt")).unwrap();
    let message = Irim::from_trace(&trace, 5).unwrap_err().to_string();
    assert!(message.starts_with("reads.swt: does not say which references are writes"), "{message}");
    assert!(!message.contains('\n'));
}

#[test]
fn of_a_trace_of_runs_virtual_time_is_spread_between_marks() {
    let metadata = Metadata { window: 1, ..Metadata::default() };
    let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
    // 4 records stand for 400 references, 2 for 20.
    let mut steps = references("aw b a b");
    steps.push(Step::Mark(1_000_000, 400));
    steps.extend(references("a bw"));
    perform(&steps, &mut writer);
    let end = EndTotals { references: Some(420), ..EndTotals::default() };
    let bytes = writer.finish(end).unwrap().0.into_inner();
    let string = Irim::from_trace(&Trace::from_bytes(bytes).unwrap(), 150).unwrap();
    assert_eq!((string.references, string.records), (420, 6));
    assert_eq!(shown(&string), "0 a Dirty, 100 a Clean, 100 b Clean, 410 a Idle, 410 b Dirty, 420 b Idle");
}

/// A string with everything in it.
fn sample() -> Irim {
    let mut random = Random(5);
    let mut steps = Vec::new();
    for _ in 0..12 {
        steps.append(&mut random_steps(&mut random));
        steps.push(Step::Unmap(1, 2));
    }
    string(&steps, 4)
}

fn bytes_of(string: &Irim) -> Vec<u8> {
    let mut bytes = Vec::new();
    string.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_written_is_read_again() {
    let string = sample();
    assert!(string.drops.len() > 5 && string.transitions.len() > 100);
    let bytes = bytes_of(&string);
    assert!(Irim::recognise(&bytes));
    assert_eq!(Irim::from_bytes(&bytes).unwrap(), string);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.irim");
    std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
    assert_eq!(Irim::open(&path).unwrap(), string);
    // It is not taken for a trace, nor a trace for it.
    let message = Trace::open(&path).unwrap_err().to_string();
    assert!(message.contains("is an IRIM string") && message.contains("task.irim"), "{message}");
    let native = written(&references("a bw"), 1);
    assert!(!Irim::recognise(&native));
    let message = Irim::from_bytes(&native).unwrap_err().to_string();
    assert!(message.contains("begins with other bytes"), "{message}");
}

fn says_where(error: &Error) -> bool {
    let message = error.to_string();
    !message.contains('\n') && (matches!(error, Error::Empty { .. }) || message.contains("byte"))
}

#[test]
fn truncated_anywhere_it_says_so() {
    let whole = bytes_of(&sample());
    for length in 0..whole.len() {
        let error = Irim::from_bytes(&whole[..length]).expect_err("shorter");
        assert!(says_where(&error), "{length}: {error}");
        assert!(length == 0 || error.to_string().contains("ends too soon"), "{length}: {error}");
    }
    let longer = [&whole[..], b"x"].concat();
    let error = Irim::from_bytes(&longer).unwrap_err();
    assert!(error.to_string().contains("more follows"), "{error}");
}

#[test]
fn with_any_bit_flipped_it_says_so() {
    let whole = bytes_of(&sample());
    for bit in 0..8 * whole.len() {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Irim::from_bytes(&bytes).expect_err("damaged");
        assert!(says_where(&error), "bit {bit}: {error}");
    }
}

/// Damage that checksums do not catch, because the checksums were computed after it: the reader
/// refuses it or returns a consistent string. It never panics.
#[test]
fn random_damage_under_right_checksums_never_panics() {
    let string = sample();
    let (mut random, mut refused) = (Random(11), 0);
    for _ in 0..3_000 {
        let mut liar = string.clone();
        match random.below(4) {
            0 => liar.references = random.below(liar.references * 2),
            1 => liar.pages = random.below(u64::from(liar.pages) * 2) as u32,
            2 => {
                let at = random.below(liar.transitions.len() as u64) as usize;
                liar.transitions[at].page = random.next() as u32;
            }
            _ => {
                let at = random.below(liar.transitions.len() as u64) as usize;
                liar.transitions[at].state = [Idle, Clean, Dirty][random.below(3) as usize];
            }
        }
        match Irim::from_bytes(&bytes_of(&liar)) {
            Ok(read) => assert_eq!(read, liar),
            Err(error) => {
                assert!(says_where(&error), "{liar:?}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn bytes_without_checksums_are_refused_or_consistent() {
    let mut random = Random(13);
    for _ in 0..20_000 {
        // Small numbers make sense more often.
        let bytes: Vec<u8> = (0..random.below(24)).map(|_| random.below(1 + random.0 % 14) as u8).collect();
        let _input = trying(|| format!("{bytes:?}"));
        sweephand_trace::fuzz_reader(&bytes);
    }
}
