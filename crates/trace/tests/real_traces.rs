//! The traces of real programs: the reader finds every published count.
//!
//! The traces are large and not part of this crate. `SWEEPHAND_TRACES` names their folder.

mod common;

use std::fs;
use std::io::Cursor;

use sweephand_checks::{read_text, traces, trying};
use sweephand_trace::{Event, ImportOptions, Metadata, Trace, Writer, import};

#[test]
fn splash_counts_are_those_recorded_beside_them() {
    let Some(folder) = traces() else { return };
    let mut seen = 0;
    for entry in fs::read_dir(folder.join("splash")).unwrap() {
        let description = entry.unwrap().path();
        if description.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let _input = trying(|| description.display().to_string());
        let expected: serde_json::Value = serde_json::from_str(&read_text(&description)).unwrap();
        let trace = Trace::open(&description.with_extension("pt.zst")).unwrap();
        let (totals, metadata) = (&trace.header().totals, &trace.header().metadata);
        for (name, found) in [
            ("refs", totals.references),
            ("collapsed_refs", totals.runs),
            ("records", totals.records),
            ("instructions", totals.instructions.unwrap()),
            ("distinct_pages", totals.distinct_pages),
            ("written_pages", totals.written_pages),
            ("objects", totals.objects),
            ("object_frees", totals.frees),
            ("object_peak_bytes", totals.peak_object_bytes),
            ("sys_page_refs", totals.system_call_touches),
            ("maps", totals.maps),
            ("unmaps", totals.unmaps),
            ("remaps", totals.remaps),
            ("window", metadata.window),
            ("page_size", metadata.page_size),
        ] {
            assert_eq!(expected[name].as_u64(), Some(found), "{name}");
        }
        assert_eq!(expected["ifetch"].as_bool(), Some(metadata.instruction_fetches));
        let (mut instructions, mut references) = (0, 0);
        trace
            .for_each_event(&mut |_, event| {
                if let Event::Mark { instructions: i, references: r } = event {
                    instructions += i;
                    references += r;
                }
            })
            .unwrap();
        assert_eq!((Some(instructions), references), (totals.instructions, totals.references));
        if totals.records < 20_000_000 {
            trace.verify(&mut |_| {}).unwrap();
        }
        seen += 1;
    }
    assert_eq!(seen, 9);
}

/// `gli` is known as 6,016 references to 2,530 blocks: that count took the empty line at the end
/// of the file for a block of its own.
#[test]
fn lirs_counts_are_the_published_ones() {
    let Some(folder) = traces() else { return };
    for (name, references, pages) in
        [("cpp", 9_047, 1_223), ("sprite", 133_996, 7_075), ("gli", 6_015, 2_529), ("multi2", 26_311, 5_684)]
    {
        let trace = Trace::open(&folder.join(format!("lirs/{name}.trace.gz"))).unwrap();
        let totals = &trace.header().totals;
        assert_eq!((totals.references, totals.distinct_pages), (references, pages), "{name}");
        assert_eq!(trace.header().metadata.program, name);
        trace.verify(&mut |_| {}).unwrap();
    }
}

/// `cholesky-k1` reduced to 16 takes the LRU faults of what the recorder reduced to 16 itself.
#[test]
fn reducing_does_what_the_recorder_does() {
    let Some(folder) = traces() else { return };
    let recorded = Trace::open(&folder.join("splash/cholesky.pt.zst")).unwrap();
    let whole = fs::File::open(folder.join("splash/cholesky-k1.pt.zst")).unwrap();
    let mut writer = Writer::with_level(Cursor::new(Vec::new()), Metadata::default(), 1).unwrap();
    let options = ImportOptions { window: 16, ..ImportOptions::default() };
    let end = import(whole, &mut writer, &options, &mut |_| {}).unwrap();
    let (out, header) = writer.finish(end).unwrap();
    let reduced = Trace::from_bytes(out.into_inner()).unwrap();
    let (ours, theirs) = (&header.totals, &recorded.header().totals);
    assert_eq!(header.metadata.window, 16);
    assert_eq!((ours.distinct_pages, ours.written_pages), (theirs.distinct_pages, theirs.written_pages));
    assert!(ours.records < theirs.records);
    for frames in [16, 64, 1_000, 8_000] {
        let (ours, theirs) = (lru_faults(&reduced, frames), lru_faults(&recorded, frames));
        // Two runs of one program, which differ by 12 references of 365 million: none of them a
        // fault.
        assert_eq!(ours, theirs, "{frames} frames");
    }
}

/// LRU by time stamps: the oldest of a queue that is cleaned as it is read.
fn lru_faults(trace: &Trace, frames: usize) -> u64 {
    let (references, events) = common::decoded(trace);
    let mut events = events.into_iter().peekable();
    let mut last = vec![0; trace.header().totals.page_ids as usize];
    let (mut queue, mut resident, mut faults) = (std::collections::VecDeque::new(), 0, 0);
    for (now, (page, _)) in (1..).zip(references) {
        while let Some((_, event)) = events.next_if(|(at, _)| *at < now) {
            if let Event::Drop { pages } = event {
                for page in pages {
                    resident -= usize::from(last[page as usize] != 0);
                    last[page as usize] = 0;
                }
            }
        }
        if last[page as usize] == 0 {
            faults += 1;
            while resident == frames {
                let (oldest, time) = queue.pop_front().unwrap();
                if last[oldest as usize] == time {
                    last[oldest as usize] = 0;
                    resident -= 1;
                }
            }
            resident += 1;
        }
        last[page as usize] = now;
        queue.push_back((page, now));
    }
    faults
}
