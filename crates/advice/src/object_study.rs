//! The faults of some policies by object, by the place that made it, and by the code that took
//! them.

use crate::code::{CodeStudy, IMPORTING};
use crate::conclusion::Conclusion;
use crate::curve_study::CurveStudy;
use rayon::join;
use std::collections::BTreeMap;
use sweephand_sim::{Cell, ObjectCounts, SweepError, attribute};
use sweephand_trace::Trace;
use sweephand_trace::objects::{Object, objects};
use sweephand_trace::picture::Picture;
use sweephand_trace::places::Stack;

/// The small allocations of a place are left out if they have a smaller share of what it made.
pub(crate) const LEAST_SMALL: f64 = 0.05;

/// The faults of some policies by object, at one memory size.
#[derive(Clone, Debug)]
pub struct ObjectStudy {
    /// The memory size, an index into [`Curves::memory_pages`](crate::Curves::memory_pages).
    pub size: usize,
    /// The policies, indices into [`Curves::curves`](crate::Curves::curves).
    pub policies: Vec<usize>,
    /// The objects with pages, most faults under the first policy first. The small allocations of a
    /// line count as one. One entry stands for pages that belong to nothing that is known.
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
    /// Whether it made small allocations, too, that have a notable share of the pages.
    pub small: bool,
    /// The lengths of the objects together, in bytes.
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
        let mut small_pages: BTreeMap<String, u64> = BTreeMap::new();
        for studied in &self.objects {
            let Some(made_at) = studied.made_at() else { continue };
            let StudiedObject { object, counts, .. } = studied;
            let place = places.entry(made_at.clone()).or_insert_with(|| StudiedPlace {
                made_at,
                objects: 0,
                small: false,
                length_bytes: 0,
                pages: 0,
                faults: vec![0; self.policies.len()],
            });
            place.objects += u64::from(object.is_some());
            if object.is_none() {
                *small_pages.entry(place.made_at.clone()).or_default() += counts.pages;
            }
            let length_bytes = object.as_ref().map_or(0, |object| object.length_bytes);
            place.length_bytes = place.length_bytes.saturating_add(length_bytes);
            place.pages += counts.pages;
            place.faults.iter_mut().zip(&counts.faults).for_each(|(sum, counted)| *sum += counted.faults);
        }
        for (made_at, pages) in small_pages {
            if let Some(place) = places.get_mut(&made_at) {
                place.small = pages as f64 >= LEAST_SMALL * place.pages as f64;
            }
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
        for StudiedObject { object, small, counts, .. } in &self.objects {
            let faults = counts.faults.first().map_or(0, |counted| counted.faults);
            let of_small = small.as_ref().map(Some);
            let made_at = object.as_ref().map(|object| object.made_at.as_ref()).or(of_small);
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
    /// If it is the small allocations of a line: where they were made.
    pub small: Option<Stack>,
    /// Its references and its faults, in the order of [`ObjectStudy::policies`].
    pub counts: ObjectCounts,
    /// Page against time, for the largest objects.
    pub picture: Option<Picture>,
}

impl StudiedObject {
    /// The call path that made it, if it is known.
    pub fn stack(&self) -> Option<&Stack> {
        self.object.as_ref().and_then(|object| object.made_at.as_ref()).or(self.small.as_ref())
    }

    /// The line that made it, as `relax.c:12 in step`, if it is known.
    pub fn made_at(&self) -> Option<String> {
        let stack = self.stack()?;
        let place = stack.place()?;
        Some(if stack.imports() { format!("{place}{IMPORTING}") } else { place.to_string() })
    }
}

impl ObjectStudy {
    pub(crate) fn of(
        trace: &Trace,
        study: &CurveStudy,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, SweepError> {
        let Conclusion { policy, best, headroom, .. } = &study.conclusion;
        let mut policies = vec![best.map_or(*policy, |best| best.baseline)];
        policies.extend(Some(*policy).filter(|policy| !policies.contains(policy)));
        policies.extend(headroom.map(|headroom| headroom.policy));
        let size = study.telling_size();
        let frames = study.curves.memory_pages[size] as usize;
        let cell = |policy: &usize| Cell { spec: study.specs[*policy].clone(), frames };
        let cells: Vec<Cell> = policies.iter().map(cell).collect();
        Ok(Self { size, policies, ..Self::at(trace, &cells, progress)? })
    }

    /// That of some cells: `size` is 0, and `policies` are indices into the cells.
    pub(crate) fn at(
        trace: &Trace,
        cells: &[Cell],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, SweepError> {
        let records = trace.header().totals.records.max(1) as f64;
        let (known, counts) =
            join(|| objects(trace), || attribute(trace, cells, &|done| progress(done as f64 / records)));
        let counts = counts?;
        let places = trace.header().metadata.places.as_ref();
        let code = CodeStudy::of(places, &counts);
        let small = counts.small.iter().map(|place| (None, places.map(|places| places.stack(*place))));
        let objects = known?.into_iter().map(|object| (Some(object), None));
        let mut objects: Vec<_> = std::iter::once((None, None))
            .chain(objects)
            .chain(small)
            .zip(counts.objects)
            .enumerate()
            .filter(|(_, (_, counts))| counts.pages > 0)
            .map(|(number, ((object, small), counts))| StudiedObject {
                number,
                object,
                small,
                counts,
                picture: None,
            })
            .collect();
        objects.sort_by_key(|object| std::cmp::Reverse(object.counts.faults[0].faults));
        Ok(Self { size: 0, policies: (0..cells.len()).collect(), objects, code })
    }
}
