//! The data of a report on one trace. A few passes over the trace compute it, each for as much as
//! it can.

use crate::DeviceSeconds;
use crate::by_object::{ObjectAdvice, advice_by_object};
use crate::code::CodeStudy;
use crate::conclusion::{Conclusion, Curve, Curves};
use rayon::join;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use sweephand_policy::NEVER;
use sweephand_policy::registry::Spec;
use sweephand_results::{SimulatedTrace, grouped};
use sweephand_sim::{Cell, LruStack, MemorySize, ObjectCounts, Sweep, SweepError, attribute};
use sweephand_trace::objects::{Object, objects};
use sweephand_trace::picture::{Part, Picture};
use sweephand_trace::places::Stack;
use sweephand_trace::{BECAME_ANOTHER, Chunk, Error, Header, Interrupt, LargestChild, Metadata, Trace};

/// Sizes simulated between the last that is short and the first that is enough.
const REFINED_SIZES: usize = 7;
/// Objects that get a picture of their own: those with the most pages.
const OBJECT_PICTURES: usize = 8;
/// Objects with fewer pages than this get none.
const LEAST_PICTURE_PAGES: u64 = 8;
/// Width of the pictures, in columns, and their heights, in rows.
const COLUMNS: usize = 960;
const ROWS: usize = 400;
const OBJECT_ROWS: usize = 120;

/// The fault curves of a trace with what they come to.
#[derive(Clone, Debug)]
pub struct CurveStudy {
    /// The trace.
    pub trace: SimulatedTrace,
    /// What it is called; see [`short_name`].
    pub name: String,
    /// The program's name.
    pub program: String,
    /// Its command line, where known.
    pub command: Vec<String>,
    /// The policies, in the order of the curves.
    pub specs: Vec<Spec>,
    /// Faults by policy and memory size.
    pub curves: Curves,
    /// What they come to.
    pub conclusion: Conclusion,
    /// Why nothing is concluded, if the program only launches the one that works; see [`launcher`].
    pub launcher: Option<String>,
    /// What the reader should know before believing it.
    pub notes: Vec<String>,
}

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
    /// Predicted seconds on each device that was asked for; see [`DeviceSeconds::of`].
    pub seconds: Vec<DeviceSeconds>,
}

/// The faults of some policies by object, at one memory size.
#[derive(Clone, Debug)]
pub struct ObjectStudy {
    /// The memory size, an index into [`Curves::memory_pages`].
    pub size: usize,
    /// The policies, indices into [`Curves::curves`].
    pub policies: Vec<usize>,
    /// The objects with pages, most faults under the first policy first. One entry
    /// stands for pages that belong to no object.
    pub objects: Vec<StudiedObject>,
    /// Faults by the code that took them.
    pub code: CodeStudy,
}

/// The objects that one place in the program made, with their faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudiedPlace {
    /// The place, as `relax.c:12 in step`.
    pub made_at: String,
    /// How many objects with pages it made.
    pub objects: u64,
    /// Their lengths together, in bytes.
    pub length_bytes: u64,
    /// Their pages together.
    pub pages: u64,
    /// Faults on their pages, by policy.
    pub faults: Vec<u64>,
}

impl ObjectStudy {
    /// The faults by the place that made the object, most under the first policy first. Without
    /// objects whose place is not known. Empty if the trace has no places.
    pub fn places(&self) -> Vec<StudiedPlace> {
        let mut places: BTreeMap<String, StudiedPlace> = BTreeMap::new();
        for StudiedObject { object, counts, .. } in &self.objects {
            let Some(object) = object else { continue };
            let Some(frame) = object.made_at.as_ref().and_then(|stack| stack.place()) else { continue };
            let made_at = frame.to_string();
            let place = places.entry(made_at.clone()).or_insert_with(|| StudiedPlace {
                made_at,
                objects: 0,
                length_bytes: 0,
                pages: 0,
                faults: vec![0; self.policies.len()],
            });
            place.objects += 1;
            place.length_bytes = place.length_bytes.saturating_add(object.length_bytes);
            place.pages += counts.pages;
            place.faults.iter_mut().zip(&counts.faults).for_each(|(sum, counted)| *sum += counted.faults);
        }
        let mut places: Vec<_> = places.into_values().collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.faults.first().copied()));
        places
    }

    /// The faults of the first policy by call stack, in the folded format that flame graphs are
    /// drawn from: a line for each stack, the outermost function first, with `;` between functions
    /// and the faults behind a space. Stacks without faults are left out.
    pub fn folded(&self) -> String {
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        for StudiedObject { object, counts, .. } in &self.objects {
            let faults = counts.faults.first().map_or(0, |counted| counted.faults);
            let made_at = object.as_ref().map(|object| object.made_at.as_ref());
            let stack = match made_at {
                None => "[no object]".to_string(),
                Some(None) => "[place not known]".to_string(),
                Some(Some(Stack(frames))) => {
                    let names: Vec<_> =
                        frames.iter().rev().map(|frame| frame.to_string().replace(';', ":")).collect();
                    names.join(";")
                }
            };
            *stacks.entry(stack).or_default() += faults;
        }
        let lines = stacks.iter().filter(|(_, faults)| **faults > 0);
        lines.map(|(stack, faults)| format!("{stack} {faults}\n")).collect()
    }
}

/// An object with its faults.
#[derive(Clone, Debug)]
pub struct StudiedObject {
    /// Its number in order of allocation, from 1; 0 for what belongs to no object.
    pub number: usize,
    /// What it is; `None` for what belongs to no object.
    pub object: Option<Object>,
    /// Its references and its faults, in the order of [`ObjectStudy::policies`].
    pub counts: ObjectCounts,
    /// Page against time, for the largest objects.
    pub picture: Option<Picture>,
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

impl CurveStudy {
    /// Simulates `specs` at `sizes`, and the best of them at a few more to say how much memory is
    /// enough. `progress` is called with the share done, from 0 to 1.
    ///
    /// `interrupt` has it given up.
    ///
    /// Where the trace is too long for OPT it is left out, with a note. OPT and CLOCK are wanted
    /// for comparison: name them if you want all that can be concluded.
    pub fn of(
        trace: &Trace,
        specs: Vec<Spec>,
        sizes: &[MemorySize],
        progress: &(dyn Fn(f64) + Sync),
        interrupt: &Interrupt,
    ) -> Result<Self, SweepError> {
        let described = SimulatedTrace::of(trace);
        let records = described.records.max(1);
        let mut notes = Vec::new();
        let mut specs = specs;
        if records >= u64::from(NEVER) {
            specs.retain(|spec| spec.entry().model != "offline");
            notes.push(format!("OPT is left out: it can be told the future of {NEVER} references at most."));
        }
        let all = described.distinct_pages.max(1) as usize;
        let mut frames = Vec::new();
        for size in sizes {
            frames.extend(size.frames(described.distinct_pages, described.page_bytes)?);
        }
        frames.retain(|frames| *frames < all);
        frames.push(all);
        frames.sort_unstable();
        frames.dedup();
        let metadata = &trace.header().metadata;
        let exact_from_pages = metadata.nearly_exact_pages();
        if let (Some(reduction), true) = (metadata.reduction(), (frames[0] as u64) < exact_from_pages) {
            notes.push(format!("The trace {reduction}. Policies are compared from there."));
        }
        if !trace.header().metadata.complete {
            notes.push(format!(
                "The recording ends before the program does: it {}.",
                trace.header().metadata.ended
            ));
        }
        let cells =
            specs.iter().flat_map(|spec| frames.iter().map(|&frames| Cell { spec: spec.clone(), frames }));
        let sweep = Sweep { cells: cells.collect(), interrupt: interrupt.clone(), ..Sweep::default() };
        let outcomes = sweep.run(trace, &|done| progress(0.75 * done as f64 / records as f64))?;
        let mut curves = Curves {
            page_bytes: described.page_bytes,
            distinct_pages: described.distinct_pages,
            first_touch_faults: outcomes.first().map_or(0, |(outcome, _)| outcome.first_touch_faults),
            exact_from_pages,
            memory_pages: frames.iter().map(|frames| *frames as u64).collect(),
            curves: specs
                .iter()
                .zip(outcomes.chunks(frames.len()))
                .map(|(spec, outcomes)| Curve {
                    policy: spec.to_string(),
                    runs_live: spec.entry().runs_live,
                    offline: spec.entry().model == "offline",
                    faults: outcomes.iter().map(|(outcome, _)| outcome.faults).collect(),
                })
                .collect(),
        };
        let mut conclusion = Conclusion::of(&curves);
        let between = conclusion.between(REFINED_SIZES);
        let cell = |frames: &u64| Cell { spec: specs[conclusion.policy].clone(), frames: *frames as usize };
        let cells = between.iter().map(cell).collect();
        let sweep = Sweep { cells, interrupt: interrupt.clone(), ..Sweep::default() };
        let outcomes = sweep.run(trace, &|done| progress(0.75 + 0.15 * done as f64 / records as f64))?;
        let faults = outcomes.iter().map(|(outcome, _)| outcome.faults);
        conclusion.refine(&curves, &between.iter().copied().zip(faults).collect::<Vec<_>>());
        // The text speaks of that size: so the curves show it.
        if !curves.memory_pages.contains(&conclusion.enough.memory_pages) {
            let frames = conclusion.enough.memory_pages;
            let cells = specs.iter().map(|spec| Cell { spec: spec.clone(), frames: frames as usize });
            let sweep = Sweep { cells: cells.collect(), interrupt: interrupt.clone(), ..Sweep::default() };
            let outcomes = sweep.run(trace, &|done| progress(0.9 + 0.1 * done as f64 / records as f64))?;
            let faults: Vec<u64> = outcomes.iter().map(|(outcome, _)| outcome.faults).collect();
            conclusion.insert(&mut curves, frames, &faults);
        }
        progress(1.0);
        let metadata = &trace.header().metadata;
        Ok(Self {
            trace: described,
            name: short_name(trace),
            program: metadata.program.clone(),
            command: metadata.command.clone(),
            specs,
            curves,
            conclusion,
            launcher: launcher(trace.header()),
            notes,
        })
    }

    /// The size at which there is most to gain: where OPT, or else the best policy, saves the
    /// largest share of faults.
    pub fn telling_size(&self) -> usize {
        let Conclusion { headroom, best, .. } = &self.conclusion;
        headroom.or(*best).map_or(self.curves.memory_pages.len() / 2, |comparison| comparison.most_at)
    }
}

/// Why the recorded program only launches the one that works, if that is so, in a sentence. What
/// such a trace says about memory is of no use.
pub fn launcher(header: &Header) -> Option<String> {
    let Metadata { program, complete, ended, largest_child, .. } = &header.metadata;
    let own = header.totals.distinct_pages;
    if !complete && ended.starts_with(BECAME_ANOTHER) {
        return Some(format!("{program} is only a launcher: it {ended}"));
    }
    let LargestChild { program: child, pages } = largest_child.as_ref()?;
    let worked = match pages {
        Some(pages) if *pages <= own => return None,
        Some(pages) => format!("used {}", grouped(*pages)),
        None => "worked longer than it did".to_string(),
    };
    Some(format!("{program}: {} pages; its child {child} {worked}: record with --children", grouped(own)))
}

/// What a trace is called in headings: its file's name up to the first dot, or else its program's.
pub fn short_name(trace: &Trace) -> String {
    let path = trace.name();
    // What is read from a pipe has no file.
    let file = path.file_name().filter(|_| path.exists()).unwrap_or_default().to_string_lossy();
    let stem = file.split('.').next().unwrap_or_default();
    if stem.is_empty() { trace.header().metadata.program.clone() } else { stem.to_string() }
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
        let (objects, distances) = join(
            || ObjectStudy::of(trace, &curves, &|share| progress(0.6 + 0.3 * share)),
            || Distances::of(trace),
        );
        let mut objects = objects?;
        if interrupt.is_raised() {
            return Err(SweepError::Interrupted);
        }
        curves.notes.extend(objects.code.note());
        // What the recorder had to say, such as why Python's lines are not known.
        curves.notes.extend(trace.header().metadata.notes.iter().map(|note| format!("{note}.")));
        let advice = advice_by_object(trace, &curves, &objects, &|share| progress(0.9 + 0.07 * share))?;
        let picture = pictures(trace, &mut objects)?;
        progress(1.0);
        Ok(Self { curves, distances: distances?, picture, objects, advice, seconds: Vec::new() })
    }

    /// The tables of the report, for programs: faults by line, by object, and the advice.
    pub fn tables(&self) -> Value {
        let ObjectStudy { size, policies, objects, code } = &self.objects;
        let names: Vec<&str> =
            policies.iter().map(|policy| &self.curves.curves.curves[*policy].policy[..]).collect();
        let by_policy = |faults: &mut dyn Iterator<Item = u64>| -> Value {
            names.iter().zip(faults).map(|(name, faults)| ((*name).to_owned(), json!(faults))).collect()
        };
        let lines: Vec<Value> = code
            .lines()
            .iter()
            .map(|line| {
                json!({
                    "line": line.code, "inside": line.inside, "references": line.records,
                    "faults": by_policy(&mut line.faults.iter().copied()),
                })
            })
            .collect();
        let objects: Vec<Value> = objects
            .iter()
            .map(|StudiedObject { number, object, counts, .. }| {
                let place = object.as_ref().and_then(|object| object.made_at.as_ref()?.place());
                json!({
                    "object": number,
                    "made_at": place.map(ToString::to_string),
                    "kind": object.as_ref().map(|object| object.kind.name()),
                    "address": object.as_ref().map(|object| object.address),
                    "length_bytes": object.as_ref().map(|object| object.length_bytes),
                    "pages": counts.pages, "references": counts.records,
                    "faults": by_policy(&mut counts.faults.iter().map(|faults| faults.faults)),
                })
            })
            .collect();
        json!({
            "trace": self.curves.trace.trace, "memory_pages": self.curves.curves.memory_pages[*size],
            "policies": names, "lines": lines, "objects": objects, "advice": self.advice,
        })
    }
}

impl ObjectStudy {
    fn of(trace: &Trace, study: &CurveStudy, progress: &(dyn Fn(f64) + Sync)) -> Result<Self, SweepError> {
        let Conclusion { policy, best, headroom, .. } = &study.conclusion;
        let mut policies = vec![best.map_or(*policy, |best| best.baseline)];
        policies.extend(Some(*policy).filter(|policy| !policies.contains(policy)));
        policies.extend(headroom.map(|headroom| headroom.policy));
        let size = study.telling_size();
        let frames = study.curves.memory_pages[size] as usize;
        let cell = |policy: &usize| Cell { spec: study.specs[*policy].clone(), frames };
        let cells: Vec<Cell> = policies.iter().map(cell).collect();
        let records = study.trace.records.max(1) as f64;
        let (known, counts) =
            join(|| objects(trace), || attribute(trace, &cells, &|done| progress(done as f64 / records)));
        let counts = counts?;
        let code = CodeStudy::of(trace.header().metadata.places.as_ref(), &counts);
        let known = std::iter::once(None).chain(known?.into_iter().map(Some));
        let mut objects: Vec<_> = known
            .zip(counts.objects)
            .enumerate()
            .map(|(number, (object, counts))| (number, object, counts))
            .filter(|(_, _, counts)| counts.pages > 0)
            .map(|(number, object, counts)| StudiedObject { number, object, counts, picture: None })
            .collect();
        objects.sort_by_key(|object| std::cmp::Reverse(object.counts.faults[0].faults));
        Ok(Self { size, policies, objects, code })
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
    use sweephand_trace::places::{Collector, Frame, Places};
    use sweephand_trace::{AllocKind, EndTotals, Metadata, Writer};

    /// A loop over an object of 40 pages and, now and then, a page outside.
    fn study() -> Study {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
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
    fn faults_of_objects_are_those_of_the_curves() {
        let study = study();
        let objects = &study.objects;
        assert_eq!(objects.objects.len(), 2);
        let loop_ = &objects.objects[0];
        assert_eq!((loop_.counts.records, loop_.counts.pages), (2000, 40));
        assert_eq!(loop_.picture.as_ref().unwrap().rows.len(), 40);
        for (at, &policy) in objects.policies.iter().enumerate() {
            let sum: u64 = objects.objects.iter().map(|object| object.counts.faults[at].faults).sum();
            assert_eq!(sum, study.curves.curves.curves[policy].faults[objects.size]);
        }
    }

    /// Two objects of one place, one of another, one of none.
    #[test]
    fn faults_are_added_up_by_the_place_that_made_the_object() {
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
        let study = Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap();
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
        // By the code that touched the pages, each line has half.
        let code = &study.objects.code;
        let lines: Vec<_> =
            code.lines().iter().map(|line| (&line.code[..], line.records, line.faults[0])).collect();
        assert_eq!(lines, [("relax.c:12 in step", 2000, 2000), ("relax.c:30 in step", 2000, 2000)]);
        assert_eq!(code.lines()[1].objects, [(3, 1000), (4, 1000)]);
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
        assert_eq!(code.note(), None);
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
