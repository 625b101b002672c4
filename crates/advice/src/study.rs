//! The data of a report on one trace. A few passes over the trace compute it, each for as much as
//! it can.

use crate::by_object::ObjectAdvice;
use crate::curve_study::CurveStudy;
use crate::faults_in_code::{FaultsInCode, tables};
use crate::leaders::Leaders;
use crate::object_study::ObjectStudy;
use crate::over_time::OverTime;
use crate::seconds::DeviceSeconds;
use rayon::join;
use serde_json::Value;
use sweephand_policy::registry::Spec;
use sweephand_sim::{LruStack, MemorySize, SweepError};
use sweephand_trace::contents::Contents;
use sweephand_trace::picture::{Part, Picture};
use sweephand_trace::{Chunk, Error, Interrupt, Trace};

/// Objects that get a picture of their own: those with the most pages.
const OBJECT_PICTURES: usize = 8;
/// Objects with fewer pages than this get none.
const LEAST_PICTURE_PAGES: u64 = 8;
/// Width of the pictures, in columns, and their heights, in rows.
const COLUMNS: usize = 960;
const ROWS: usize = 400;
const OBJECT_ROWS: usize = 120;

/// A whole report on a trace.
#[derive(Clone, Debug)]
pub struct Study {
    /// The curves.
    pub curves: CurveStudy,
    /// How far back references look.
    pub distances: Distances,
    /// Page against time.
    pub picture: Picture,
    /// Faults by object.
    pub objects: ObjectStudy,
    /// What could be done about single objects.
    pub advice: Vec<ObjectAdvice>,
    /// What is missed over time, at the size of the tables.
    pub over_time: OverTime,
    /// Predicted seconds on each device that was asked for; see [`DeviceSeconds::of`].
    pub seconds: Vec<DeviceSeconds>,
    /// What the pages contained, if the trace says so.
    pub contents: Option<Contents>,
}

/// How many references found their page at which depth of the LRU stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// References at a stack distance of 2^n up to, but not, 2^(n+1) pages, by n.
    pub by_power_of_two: Vec<u64>,
    /// References to pages for the first time.
    pub first_touches: u64,
    /// References that the trace does not hold: what its window left out, all within that many
    /// pages.
    pub left_out: u64,
}

impl Study {
    /// Everything about `trace`; for the rest see [`CurveStudy::of`].
    pub fn of(
        trace: &Trace,
        specs: Vec<Spec>,
        sizes: &[MemorySize],
        progress: &(dyn Fn(f64) + Sync),
        interrupt: &Interrupt,
    ) -> Result<Self, SweepError> {
        let mut curves = CurveStudy::of(trace, specs, sizes, &|share| progress(0.6 * share), interrupt)?;
        let (in_code, distances) = join(
            || FaultsInCode::of(trace, &curves, &|share| progress(0.6 + 0.37 * share)),
            || Distances::of(trace),
        );
        let FaultsInCode { mut objects, advice } = in_code?;
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted);
        }
        let over_time = OverTime::of(trace, &curves, &objects, interrupt)?;
        curves.notes.extend(objects.code.notes());
        // What the recorder had to say, such as why Python's lines are not known.
        curves.notes.extend(trace.header().metadata.notes.iter().map(|note| format!("{note}.")));
        let picture = pictures(trace, &mut objects)?;
        progress(1.0);
        let (distances, seconds) = (distances?, Vec::new());
        let contents = trace.header().metadata.contents.clone();
        Ok(Self { curves, distances, picture, objects, advice, over_time, seconds, contents })
    }

    /// The tables of the report, for programs: faults by line, by object, the advice, and the
    /// leaders.
    pub fn tables(&self) -> Value {
        let mut tables = tables(&self.curves, &self.objects, &self.advice);
        tables["leaders"] = self.curves.leaders.iter().flat_map(Leaders::to_json).collect();
        tables
    }
}

/// Page against time of the whole trace; those of the largest objects are put beside them.
fn pictures(trace: &Trace, objects: &mut ObjectStudy) -> Result<Picture, Error> {
    let page_bytes = trace.header().metadata.page_size;
    let mut parts = vec![Part { pages: 0..u64::MAX, records: 0..u64::MAX, rows: ROWS }];
    let mut largest: Vec<usize> = (0..objects.objects.len())
        .filter(|index| {
            let object = &objects.objects[*index];
            object.object.is_some() && object.counts.pages >= LEAST_PICTURE_PAGES
        })
        .collect();
    largest.sort_by_key(|index| std::cmp::Reverse(objects.objects[*index].counts.pages));
    largest.truncate(OBJECT_PICTURES);
    for index in &largest {
        let object = objects.objects[*index].object.as_ref().expect("filtered above");
        let records = object.from_record..object.to_record.unwrap_or(u64::MAX);
        parts.push(Part { pages: object.pages(page_bytes), records, rows: OBJECT_ROWS });
    }
    let mut pictures = Picture::of_parts(trace, COLUMNS, &parts)?.into_iter();
    let whole = pictures.next().expect("a picture a part");
    for (index, picture) in largest.into_iter().zip(pictures) {
        objects.objects[index].picture = Some(picture);
    }
    Ok(whole)
}

impl Distances {
    /// Those of a trace: one pass.
    pub fn of(trace: &Trace) -> Result<Self, Error> {
        trace.check_pages()?;
        let mut stack = LruStack::new();
        let mut chunk = Chunk::new();
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            stack.advance(&chunk, 0..chunk.references.len());
        }
        let (counts, first_touches) = stack.distances();
        let totals = &trace.header().totals;
        Ok(Self::from_counts(
            counts,
            first_touches,
            totals.references - totals.records.min(totals.references),
        ))
    }

    /// Gathers counts by distance. The first, for distance 0, is unused.
    fn from_counts(counts: &[u64], first_touches: u64, left_out: u64) -> Self {
        let mut by_power_of_two = vec![0; counts.len().max(1).ilog2() as usize + 1];
        for (distance, count) in counts.iter().enumerate().skip(1) {
            by_power_of_two[distance.ilog2() as usize] += count;
        }
        while by_power_of_two.last() == Some(&0) {
            by_power_of_two.pop();
        }
        Self { by_power_of_two, first_touches, left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use sweephand_trace::places::{Collector, Frame, Places, Stack};
    use sweephand_trace::{AllocKind, EndTotals, Epochs, Metadata, Writer};

    /// A loop over an object of 40 pages and, now and then, a page outside.
    fn study() -> Study {
        study_of(Metadata::default())
    }

    fn study_of(metadata: Metadata) -> Study {
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        writer.alloc(0x10_0000, 40 * 4096, AllocKind::Malloc).unwrap();
        for time in 0..2000 {
            writer.reference(0x100 + time % 40, time % 3 == 0).unwrap();
            if time % 50 == 0 {
                writer.reference(1 + time / 500, false).unwrap();
            }
        }
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let specs = Spec::parse_list("opt,clock,random,lru").unwrap();
        let sizes = MemorySize::parse_list("50%,25%,300p").unwrap();
        Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap()
    }

    #[test]
    fn sizes_at_which_a_live_recording_lacks_faults_are_left_out() {
        let study = |largest_pages| {
            let epochs = Epochs { epochs: 10, largest_pages, ..Epochs::default() };
            study_of(Metadata { epochs: Some(epochs), ..Metadata::default() }).curves
        };
        let some = study(20);
        assert_eq!(some.curves.memory_pages[0], 22);
        assert!(
            some.notes.iter().any(|note| note.contains("less than 20 pages is left out")),
            "{:?}",
            some.notes
        );
        assert_eq!(some.inconclusive, None);
        let none = study(44).inconclusive.unwrap();
        assert!(none.starts_with("In less than 44 pages, faults are missing from the recording: "), "{none}");
    }

    #[test]
    fn sizes_ascend_to_all_pages() {
        let CurveStudy { curves, conclusion, .. } = study().curves;
        assert_eq!((curves.distinct_pages, &curves.memory_pages[..]), (44, &[11, 22, 44][..]));
        assert!(curves.curves.iter().all(|curve| curve.faults[2] == 44));
        assert_eq!(
            curves.curves[1].faults[0],
            2000 + 40,
            "CLOCK loses a loop that does not fit, and so each page outside"
        );
        assert!(conclusion.enough.memory_pages > 40, "{:?}", conclusion.enough);
    }

    #[test]
    fn miss_ratios_over_time_come_to_the_faults_of_the_curves() {
        let study = study();
        let OverTime { memory_pages, windows, miss_ratios } = &study.over_time;
        let size = study.curves.curves.memory_pages.iter().position(|pages| pages == memory_pages).unwrap();
        assert_eq!((windows.len(), miss_ratios.len()), (100, study.objects.policies.len()));
        for ((_, ratios), policy) in miss_ratios.iter().zip(&study.objects.policies) {
            let lengths = windows.windows(2).map(|pair| pair[1].references - pair[0].references);
            let lengths = lengths.chain([2040 - windows[99].references]);
            let faults: f64 = ratios.iter().zip(lengths).map(|(ratio, length)| ratio * length as f64).sum();
            assert_eq!(
                faults.round() as u64,
                study.curves.curves.curves[*policy].faults[size],
                "policy {policy}"
            );
        }
    }

    #[test]
    fn faults_of_objects_are_those_of_the_curves() {
        let study = study();
        let objects = &study.objects;
        assert_eq!(objects.objects.len(), 2);
        let loop_ = &objects.objects[0];
        assert_eq!((loop_.counts.records, loop_.counts.pages), (2000, 40));
        assert_eq!(loop_.picture.as_ref().unwrap().rows.len(), 40);
        for (at, &policy) in objects.policies.iter().enumerate() {
            let sum: u64 = objects.objects.iter().map(|object| object.counts.faults[at].faults).sum();
            assert_eq!(sum, study.curves.curves.curves[policy].faults[objects.size], "policy {policy}");
        }
    }

    /// A loop over four objects: two of one place, one of another, one of none. Two lines of code
    /// touch two objects each.
    fn study_with_places() -> Study {
        let stack = |line| {
            let frame = |function: &str, file: &str, line| Frame {
                function: Some(function.into()),
                line: Some((file.into(), line)),
                ..Frame::default()
            };
            Stack(vec![frame("step", "src/relax.c", line), frame("main", "src/main.c", 5)])
        };
        let mut collector = Collector::default();
        let [one, other] = [12, 30].map(|line| collector.stack(stack(line)));
        let mut places: Places = collector.finish();
        places.of_objects = vec![one, other, one, None];
        let metadata = Metadata { places: Some(places), ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        for object in 0..4 {
            writer.alloc(0x10_0000 + object * 0x10_0000, 10 * 4096, AllocKind::Malloc).unwrap();
        }
        for time in 0..4000 {
            writer.code(if time % 4 < 2 { one.unwrap() } else { other.unwrap() });
            writer.reference(0x100 + time % 4 * 0x100 + time / 4 % 10, false).unwrap();
        }
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let specs = Spec::parse_list("opt,clock").unwrap();
        let sizes = MemorySize::parse_list("20p").unwrap();
        Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap()
    }

    #[test]
    fn faults_are_added_up_by_the_place_that_made_the_object() {
        let study = study_with_places();
        let places = study.objects.places();
        let facts: Vec<_> =
            places.iter().map(|place| (&place.made_at[..], place.objects, place.pages)).collect();
        assert_eq!(facts, [("relax.c:12 in step", 2, 20), ("relax.c:30 in step", 1, 10)]);
        // CLOCK loses the loop, so each object has a quarter of the faults.
        assert_eq!((places[0].faults[0], places[1].faults[0]), (2000, 1000));
        assert_eq!(places[0].length_bytes, 2 * 10 * 4096);
        assert_eq!(
            study.objects.folded(),
            "[place not known] 1000\nmain.c:5 in main;relax.c:12 in step 2000\nmain.c:5 in main;relax.c:30 in step 1000\n"
        );
    }

    /// Each of the two lines has half.
    #[test]
    fn faults_are_added_up_by_the_code_that_touched_the_pages() {
        let study = study_with_places();
        let code = &study.objects.code;
        let lines: Vec<_> =
            code.lines().iter().map(|line| (&line.code[..], line.records, line.faults[0])).collect();
        assert_eq!(lines, [("relax.c:12 in step", 2000, 2000), ("relax.c:30 in step", 2000, 2000)]);
        assert_eq!(code.lines()[1].objects, [(3, 1000), (4, 1000)]);
        assert!(code.notes().is_empty());
    }

    #[test]
    fn flame_graphs_have_the_faults_of_each_call() {
        let study = study_with_places();
        let code = &study.objects.code;
        assert_eq!(
            code.folded(0),
            "main.c:5 in main;relax.c:12 in step 2000\nmain.c:5 in main;relax.c:30 in step 2000\n"
        );
        let flame = code.flame(0, 0.01);
        let main = &flame.calls[0];
        assert_eq!(
            (flame.faults, &main.name[..], main.faults, main.calls.len()),
            (4000, "main.c:5 in main", 4000, 2)
        );
        assert_eq!(code.flame(0, 0.6).calls[0].calls, []);
        let speedscope = code.speedscope("t", &["clock".into(), "opt".into()]);
        assert_eq!(speedscope["profiles"][0]["weights"], serde_json::json!([2000, 2000]));
        assert_eq!(speedscope["profiles"][0]["samples"], serde_json::json!([[0, 1], [0, 2]]));
        assert_eq!(speedscope["shared"]["frames"][1]["line"], 12);
    }

    #[test]
    fn nobody_is_told_to_edit_what_is_installed_without_debug_information() {
        let frame = |module: &str, line| Frame {
            function: Some("visit".into()),
            module: module.into(),
            line,
            ..Frame::default()
        };
        let is_editable = |module: &str| crate::code::is_editable(&frame(module, None));
        let judged = ["/home/me/relax", "/usr/bin/node", "/home/me/libgrid.so"].map(is_editable);
        assert_eq!(judged, [true, false, false]);
        assert!(crate::code::is_editable(&frame("/usr/bin/relax", Some(("relax.c".into(), 7)))));
    }

    /// Half of the references are Python's, which frees what is left.
    #[test]
    fn the_faults_of_an_interpreter_that_ends_are_said_with_the_way_round_them() {
        let frame = |function: &str, file: &str, module: &str| Frame {
            function: Some(function.into()),
            module: module.into(),
            line: Some((file.into(), 7)),
            ..Frame::default()
        };
        let [step, end] =
            [frame("step", "/home/me/relax.py", "[python]"), frame("Py_FinalizeEx", "l.c", "python3")];
        let mut collector = Collector::default();
        let working = collector.stack(Stack(vec![step])).unwrap();
        let ending = collector.stack(Stack(vec![frame("visit", "gc.c", "python3"), end])).unwrap();
        let metadata = Metadata { places: Some(collector.finish()), ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        for time in 0..4000 {
            writer.code(if time < 2000 { working } else { ending });
            writer.reference(0x100 + time % 40, false).unwrap();
        }
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let specs = Spec::parse_list("opt,clock").unwrap();
        let sizes = MemorySize::parse_list("20p").unwrap();
        let study = Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap();
        let code = &study.objects.code;
        let lines: Vec<_> = code.lines().iter().map(|line| (&line.code[..], line.faults[0])).collect();
        assert_eq!(lines, [("l.c:7 in Py_FinalizeEx", 2000), ("relax.py:7 in step", 2000)]);
        let [note] = &code.notes()[..] else { panic!("{:?}", code.notes()) };
        assert!(
            note.starts_with("50% of the faults come as the interpreter ends (Py_FinalizeEx): "),
            "{note}"
        );
        assert!(note.contains(" left to free it. A program ") && note.contains("os._exit(0)"), "{note}");
        assert!(study.curves.notes.contains(note));
    }

    #[test]
    fn distances_are_gathered_by_powers_of_two() {
        let distances = Distances::from_counts(&[0, 5, 1, 2, 10, 0, 0, 20, 40], 3, 7);
        assert_eq!(distances.by_power_of_two, [5, 3, 30, 40]);
        assert_eq!(Distances::from_counts(&[], 0, 0).by_power_of_two, [0; 0]);
        // The loop: its pages are 40 deep, or 41 after a page outside.
        let distances = study().distances;
        assert_eq!((distances.by_power_of_two.len(), distances.by_power_of_two[5]), (6, 1960 + 36));
        assert_eq!((distances.first_touches, distances.left_out), (44, 0));
    }
}
