//! A trace returns everything that was written to it.

use std::collections::HashMap;
use std::io::Cursor;
use sweephand_checks::trying;

use crate::common::{Random, Step, decoded, perform, pgtr, written};
use proptest::prelude::*;
use sweephand_trace::{
    AllocKind, Chunk, EndTotals, Event, ImportOptions, Metadata, PackedReference, Trace, Writer, import,
};

fn page() -> impl Strategy<Value = u64> {
    // Neighbours, pages far away, and both sides of a leaf of the address table.
    prop_oneof![4 => 0..70u64, 1 => (1u64 << 40)..(1 << 40) + 40]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (page(), any::<bool>()).prop_map(|(page, write)| Step::Reference(page, write)),
        1 => (any::<u32>(), any::<u32>(), 0..6u64).prop_map(|(address, length, kind)| {
            Step::Alloc(address.into(), length.into(), AllocKind::from_code(kind).unwrap())
        }),
        1 => any::<u32>().prop_map(|address| Step::Free(address.into())),
        1 => (0..1u64 << 40, 0..1u64 << 40).prop_map(|(a, b)| Step::Mark(a, b)),
        1 => (page(), 0..1000u64).prop_map(|(first, pages)| Step::Map(first, pages)),
        2 => (page(), 0..40u64).prop_map(|(first, pages)| Step::Unmap(first, pages)),
        1 => Just(Step::Unmap(0, 1 << 51)),
        2 => (page(), page(), 0..40u64).prop_map(|(from, to, pages)| Step::Remap(from, to, pages)),
    ]
}

/// Page contents as a plain model keeps them: every life of a page is a fresh number. Gives the
/// life each reference touches.
fn lives(steps: &[Step]) -> Vec<u64> {
    let (mut at, mut next, mut touched): (HashMap<u64, u64>, u64, Vec<u64>) = (HashMap::new(), 0, Vec::new());
    for step in steps {
        match *step {
            Step::Reference(page, _) => touched.push(*at.entry(page).or_insert_with(|| {
                next += 1;
                next
            })),
            Step::Unmap(first, pages) => at.retain(|page, _| !(first..first + pages).contains(page)),
            Step::Remap(from, to, pages) if from != to => {
                let moving: Vec<_> =
                    (0..pages).filter_map(|i| Some((to + i, at.remove(&(from + i))?))).collect();
                at.retain(|page, _| !(to..to + pages).contains(page));
                at.extend(moving);
            }
            _ => {}
        }
    }
    touched
}

/// The same from a trace: a life is an id between two drops.
fn lives_of_ids(trace: &Trace) -> Vec<u64> {
    let (references, events) = decoded(trace);
    let (mut life, mut next, mut touched): (HashMap<u32, u64>, u64, Vec<u64>) =
        (HashMap::new(), 0, Vec::new());
    let mut events = events.into_iter().peekable();
    for (record, (page, _)) in references.into_iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(at, _)| *at <= record as u64) {
            if let Event::Drop { pages } = event {
                for page in pages {
                    assert!(life.remove(&page).is_some(), "page {page} was dropped without contents");
                }
            }
        }
        touched.push(*life.entry(page).or_insert_with(|| {
            next += 1;
            next
        }));
    }
    touched
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_program_round_trips(steps in prop::collection::vec(step(), 0..300)) {
        let bytes = written(&steps, 1);
        let trace = Trace::from_bytes(bytes).unwrap();
        let totals = &trace.header().totals;

        // The references touch the same contents, and write the same.
        prop_assert_eq!(lives_of_ids(&trace), lives(&steps));
        let writes: Vec<bool> = decoded(&trace).0.into_iter().map(|(_, write)| write).collect();
        let expected: Vec<_> = steps
            .iter()
            .filter_map(|step| if let Step::Reference(page, write) = step { Some((*page, *write)) } else { None })
            .collect();
        prop_assert!(writes.iter().eq(expected.iter().map(|(_, write)| write)));

        // The totals are those of page numbers.
        let distinct = |only_writes: bool| {
            let mut pages: Vec<_> =
                expected.iter().filter(|(_, write)| *write || !only_writes).map(|(page, _)| *page).collect();
            pages.sort_unstable();
            pages.dedup();
            pages.len() as u64
        };
        prop_assert_eq!(totals.distinct_pages, distinct(false));
        prop_assert_eq!(totals.written_pages, distinct(true));
        let count = |pick: fn(&Step) -> bool| steps.iter().filter(|step| pick(step)).count() as u64;
        prop_assert_eq!(totals.unmaps, count(|step| matches!(step, Step::Unmap(..))));
        prop_assert_eq!(totals.remaps, count(|step| matches!(step, Step::Remap(..))));
        prop_assert_eq!(totals.objects, count(|step| matches!(step, Step::Alloc(..))));
        let runs = expected.chunk_by(|a, b| a.0 == b.0).count() as u64;
        prop_assert_eq!(totals.runs, runs);

        // Ids are dense, and never more than page numbers were touched or moved to.
        let ids = decoded(&trace).0.iter().map(|(page, _)| page + 1).max().unwrap_or(0);
        prop_assert_eq!(totals.page_ids, ids);

        // Written again it is the same trace; at another level it has another size and the same
        // identity.
        trace.verify(&mut |_| {}).unwrap();
        let other = Trace::from_bytes(written(&steps, 12)).unwrap();
        prop_assert_eq!(other.header().checksum, trace.header().checksum);
    }

    #[test]
    fn pgtr_is_the_same_program(steps in prop::collection::vec(step(), 0..200)) {
        let direct = Trace::from_bytes(written(&steps, 1)).unwrap();
        let stream = Trace::from_bytes(pgtr(&steps, 1)).unwrap();
        prop_assert_eq!(stream.header().checksum, direct.header().checksum);
        prop_assert_eq!(&stream.header().metadata.program, "prog");
        let totals = &stream.header().totals;
        prop_assert_eq!(
            (totals.instructions, totals.references, totals.runs, totals.peak_object_bytes, totals.system_call_touches),
            (Some(7_000), 9_000, 5_000, 123_456, 3)
        );
    }
}

/// References beyond one chunk, with ids that need every number of byte planes, in both encodings.
#[test]
fn long_strings_of_every_width_round_trip() {
    for (pages, n) in [(1u64, 300_000usize), (200, 300_000), (40_000, 300_000), (20_000_000, 700_000)] {
        for random in [false, true] {
            let _input = trying(|| format!("{n} references to {pages} pages, random: {random}"));
            let mut source = Random(pages);
            let string: Vec<(u64, bool)> = (0..n)
                .map(|i| {
                    let page = if random { source.below(pages) } else { i as u64 * 97 % pages };
                    (page, random && source.below(3) == 0)
                })
                .collect();
            let mut writer = Writer::with_level(Cursor::new(Vec::new()), Metadata::default(), 1).unwrap();
            string.iter().for_each(|(page, write)| writer.reference(*page, *write).unwrap());
            let (out, header) = writer.finish(EndTotals::default()).unwrap();
            let trace = Trace::from_bytes(out.into_inner()).unwrap();
            assert_eq!(trace.header(), &header);
            assert_eq!(trace.chunks(), n.div_ceil(1 << 18));

            // Chunks in any order, with one buffer.
            let mut chunk = Chunk::new();
            let mut numbers = Vec::new();
            for index in 0..trace.chunks() {
                trace.read_chunk(index, &mut chunk).unwrap();
                assert_eq!(chunk.first_new_page as usize, numbers.len());
                numbers.extend_from_slice(&chunk.new_pages);
            }
            for index in (0..trace.chunks()).rev() {
                trace.read_chunk(index, &mut chunk).unwrap();
                let expected = &string[chunk.first_record as usize..][..chunk.references.len()];
                let same = |(r, (page, write)): (&PackedReference, &(u64, bool))| {
                    numbers[r.page() as usize] == *page && r.is_write() == *write
                };
                assert!(chunk.references.iter().zip(expected).all(same), "chunk {index}");
                assert_eq!(trace.chunk_of(chunk.first_record), Some(index));
            }
            assert_eq!(trace.chunk_of(n as u64), None);
        }
    }
}

#[test]
fn more_events_than_a_chunk_holds_make_more_chunks() {
    // Scattered ids: every second page of a range goes, one drop each.
    let mut steps: Vec<Step> =
        (0..150_000).map(|i| Step::Reference(i % 2 * 1_000_000 + i / 2, true)).collect();
    steps.push(Step::Unmap(0, 100_000));
    steps.push(Step::Reference(3, false));
    let trace = Trace::from_bytes(written(&steps, 1)).unwrap();
    assert_eq!((trace.chunks(), trace.header().totals.events), (2, 75_000));
    assert_eq!(lives_of_ids(&trace), lives(&steps));
    trace.verify(&mut |_| {}).unwrap();
}

#[test]
fn drops_of_neighbouring_ids_are_one_event() {
    let mut steps: Vec<Step> = (0..10).map(|page| Step::Reference(page, false)).collect();
    steps.extend([Step::Unmap(0, 3), Step::Unmap(3, 3), Step::Unmap(8, 2), Step::Unmap(0, 100)]);
    let trace = Trace::from_bytes(written(&steps, 1)).unwrap();
    let drops = [0..6, 8..10, 6..8].map(|pages| (10, Event::Drop { pages }));
    assert_eq!(decoded(&trace).1, drops);
}

/// A huge unmapping costs no more than the pages it hits, however often it comes.
#[test]
fn huge_unmappings_are_cheap() {
    let mut steps: Vec<Step> = (0..10_000).map(|page| Step::Reference(page * 1_000_003, false)).collect();
    steps.extend((0..100_000).map(|_| Step::Unmap(0, 1 << 51)));
    let start = std::time::Instant::now();
    let trace = Trace::from_bytes(pgtr(&steps, 1)).unwrap();
    assert_eq!(trace.header().totals.unmaps, 100_000);
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn an_empty_trace_is_a_trace() {
    let trace = Trace::from_bytes(written(&[], 1)).unwrap();
    assert_eq!((trace.chunks(), trace.header().totals.records), (0, 0));
    trace.verify(&mut |_| {}).unwrap();
    assert_eq!(Trace::from_bytes(pgtr(&[], 1)).unwrap().header().totals.records, 0);
}

#[test]
fn metadata_and_marks_come_back() {
    let metadata = Metadata {
        program: "käse".into(),
        command: vec!["käse".into(), "--hard".into()],
        window: 16,
        complete: false,
        ended: "SIGKILL".into(),
        notes: vec!["a note".into()],
        ..Metadata::default()
    };
    let mut writer = Writer::new(Cursor::new(Vec::new()), metadata.clone()).unwrap();
    let steps: Vec<Step> = (0..600_000u64)
        .flat_map(|i| {
            [(i % 100_000 == 0).then_some(Step::Mark(1_000, 900)), Some(Step::Reference(i % 50, false))]
        })
        .flatten()
        .collect();
    perform(&steps, &mut writer);
    let (out, _) = writer.finish(EndTotals::default()).unwrap();
    // Behind something else in the same file, too.
    let trace = Trace::from_bytes(out.into_inner()).unwrap();
    assert_eq!(trace.header().metadata, metadata);
    assert_eq!(trace.header().totals.instructions, Some(6_000));
    assert_eq!(
        (0..3).map(|i| trace.marks_before(i)).collect::<Vec<_>>(),
        [(0, 0), (3_000, 2_700), (6_000, 5_400)]
    );
}

/// A live pipe may end anywhere: what came before the end is kept, and the trace says so.
#[test]
fn a_live_stream_may_end_without_end() {
    let steps: Vec<Step> = (0..1_000).map(|i| Step::Reference(1_000 * (i % 7), false)).collect();
    let stream = pgtr(&steps, 1);
    let end = stream.len() - 20;
    for length in [end, end / 2] {
        let _input = trying(|| format!("{length} of {} bytes", stream.len()));
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        let options = ImportOptions { tolerate_missing_end: true, ..ImportOptions::default() };
        let totals = import(&stream[..length], &mut writer, &options, &mut |_| {}).unwrap();
        let (_, header) = writer.finish(totals).unwrap();
        assert!(!header.metadata.complete);
        assert!(
            header.metadata.ended.contains("without END")
                || header.metadata.ended.contains("inside a record")
        );
        assert!(header.totals.records > 0 && header.totals.references == header.totals.records);
    }
}

/// A file of every version stays readable. To make one:
/// `SWEEPHAND_FIXTURE=path cargo test ... fixture`.
#[test]
fn the_fixture_of_version_1_reads_as_it_did() {
    let mut random = Random(11);
    let mut steps =
        vec![Step::Map(0, 500), Step::Alloc(65_536, 99_999, AllocKind::Calloc), Step::Mark(9_000, 4_000)];
    steps.extend(
        (0..3_000).map(|_| Step::Reference(random.below(90) * random.below(90), random.below(3) == 0)),
    );
    steps.extend([Step::Unmap(100, 2_000), Step::Remap(20, 9_000, 30), Step::Free(65_536)]);
    steps.extend((0..500).map(|i| Step::Reference(9_000 + i % 60, i % 2 == 0)));
    if let Some(path) = std::env::var_os("SWEEPHAND_FIXTURE") {
        std::fs::write(path, written(&steps, 19)).unwrap();
    }
    let bytes = include_bytes!("../fixtures/version-1.swt");
    let trace = Trace::from_bytes(bytes.to_vec()).unwrap();
    trace.verify(&mut |_| {}).unwrap();
    assert_eq!((trace.header().version, trace.header().totals.records), (1, 3_500));
    assert_eq!(format!("{:016x}", trace.header().checksum), "ff7d1be0546443eb");
    assert_eq!(lives_of_ids(&trace), lives(&steps));
}

/// Page ids without a pattern are in frames of their own, which the first version does not have.
#[test]
fn the_fixture_of_version_2_reads_as_it_did() {
    let mut random = Random(12);
    let steps: Vec<Step> = (0..6_000).map(|_| Step::Reference(random.below(5_000), false)).collect();
    let trace = Trace::from_bytes(include_bytes!("../fixtures/version-2.swt").to_vec()).unwrap();
    let again = Trace::from_bytes(written(&steps, 6)).unwrap();
    for trace in [trace, again] {
        trace.verify(&mut |_| {}).unwrap();
        assert_eq!((trace.header().version, trace.header().totals.records), (2, 6_000));
        assert_eq!(format!("{:016x}", trace.header().checksum), "a6fad8b108783b1a");
        assert_eq!(lives_of_ids(&trace), lives(&steps));
    }
}

/// Times and times to live are in frames of their own.
#[test]
fn the_fixture_of_version_3_reads_as_it_did() {
    let mut random = Random(14);
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    for number in 0..2_000_i64 {
        writer.time(number / 3 * 700 - 9_000);
        writer.time_to_live(1_000 * random.below(3));
        writer.reference(random.below(400), random.below(4) == 0).unwrap();
    }
    let written = writer.finish(EndTotals::default()).unwrap().0.into_inner();
    if let Some(path) = std::env::var_os("SWEEPHAND_FIXTURE_3") {
        std::fs::write(path, &written).unwrap();
    }
    let fixture = include_bytes!("../fixtures/version-3.swt");
    let [old, new] = [fixture.to_vec(), written].map(|bytes| Trace::from_bytes(bytes).unwrap());
    let content = |trace: &Trace| {
        trace.verify(&mut |_| {}).unwrap();
        let times = trace.header().metadata.times.unwrap();
        assert_eq!((trace.header().version, trace.header().totals.records), (3, 2_000));
        assert_eq!((times.first_ms, times.last_ms), (-9_000, 457_200));
        let mut chunk = Chunk::new();
        let read = (0..trace.chunks()).map(|index| {
            trace.read_chunk(index, &mut chunk).unwrap();
            (chunk.references.clone(), chunk.times().unwrap(), chunk.times_to_live().unwrap())
        });
        read.collect::<Vec<_>>()
    };
    assert_eq!(content(&old), content(&new));
    assert_eq!(old.header().checksum, new.header().checksum);
}

/// Times and times to live come back, also where a chunk begins, and a time does not go back. They
/// need version 3; the checksum leaves them out.
#[test]
fn times_come_back() {
    let mut random = Random(13);
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let mut plain = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let (mut now, mut lives, mut expected) = (-5_000_i64, 0, Vec::new());
    for _ in 0..600_000 {
        match random.below(1_000) {
            0 => now += random.below(10_000) as i64,
            1 => writer.time(now - 1 - random.below(100) as i64),
            2 => lives = random.below(3) * 1_000,
            _ => {}
        }
        writer.time(now);
        writer.time_to_live(lives);
        let page = random.below(50);
        writer.reference(page, false).unwrap();
        plain.reference(page, false).unwrap();
        expected.push((now, lives as i64));
    }
    let (file, header) = writer.finish(EndTotals::default()).unwrap();
    let (_, plain) = plain.finish(EndTotals::default()).unwrap();
    assert_eq!((header.version, plain.version, plain.metadata.times), (3, 1, None));
    assert_eq!(header.checksum, plain.checksum);
    let times = header.metadata.times.unwrap();
    assert_eq!((times.first_ms, times.last_ms), (-5_000, now));
    let trace = Trace::from_bytes(file.into_inner()).unwrap();
    trace.verify(&mut |_| {}).unwrap();
    let mut again = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    trace.replay(&mut again, &mut |_| {}).unwrap();
    let again = Trace::from_bytes(again.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap();
    for trace in [trace, again] {
        let (mut found, mut chunk) = (Vec::new(), Chunk::new());
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk).unwrap();
            let (times, lives) = (chunk.times().unwrap(), chunk.times_to_live().unwrap());
            let at = |changes: &[(u32, i64)], record: u32| {
                let after = changes.partition_point(|(at, _)| *at <= record);
                after.checked_sub(1).map_or(0, |last| changes[last].1)
            };
            let records = 0..chunk.references.len() as u32;
            found.extend(records.map(|record| (at(&times, record), at(&lives, record))));
        }
        assert!(found == expected);
    }
}
