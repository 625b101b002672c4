//! Two traces side by side: what a change of a program, of its input or of its machine has changed.

use crate::code::CodeStudy;
use crate::object_study::ObjectStudy;
use crate::short_name;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use sweephand_policy::registry::Spec;
use sweephand_sim::{Cell, MemorySize, Sweep, SweepError};
use sweephand_trace::{Interrupt, Trace};

/// Policies that two traces are compared under, unless others are asked for.
pub const DIFF_POLICIES: &str = "clock-pro-strict,lru,opt";

/// Why two traces cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// Pages of different sizes.
    #[error("pages have {before} bytes in the first trace and {after} in the second: make both of one size")]
    PageSize {
        /// Those of the first trace.
        before: u64,
        /// Those of the second.
        after: u64,
    },
    /// A trace cannot be simulated.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

/// Two traces side by side. Memory sizes are the same for both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceDiff {
    /// Memory sizes in bytes, ascending.
    pub memory_bytes: Vec<u64>,
    /// The policies.
    pub policies: Vec<String>,
    /// The first trace.
    pub before: DiffSide,
    /// The second.
    pub after: DiffSide,
    /// The size of `lines` and `places`, an index into `memory_bytes`: where faults under the first
    /// policy have changed most.
    pub size: usize,
    /// Faults under the first policy by line of code, those that changed most first. Empty if one
    /// of the traces does not know its code.
    pub lines: Vec<Changed>,
    /// Faults under the first policy by the place that made the memory, in the same order.
    pub places: Vec<Changed>,
}

/// A trace of a [`TraceDiff`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffSide {
    /// What it is called; see [`short_name`].
    pub name: String,
    /// Distinct pages.
    pub pages: u64,
    /// References.
    pub references: u64,
    /// Faults that no memory avoids: first touches.
    pub first_touch_faults: u64,
    /// Faults by policy and memory size, first touches among them.
    pub faults: Vec<Vec<u64>>,
}

/// Faults of something in both traces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// What it is, as `relax.c:12 in step`. If the line's number is not the same in both, it is
    /// left out.
    pub name: String,
    /// Its faults in the first trace.
    pub before: u64,
    /// Its faults in the second.
    pub after: u64,
}

impl TraceDiff {
    /// Simulates both traces. Shares among `sizes` are of the program with more pages.
    /// `progress` is called with the share done, from 0 to 1.
    pub fn of(
        [before, after]: [&Trace; 2],
        specs: &[Spec],
        sizes: &[MemorySize],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, DiffError> {
        let page_bytes = [before, after].map(|trace| trace.header().metadata.page_size);
        if page_bytes[0] != page_bytes[1] {
            return Err(DiffError::PageSize { before: page_bytes[0], after: page_bytes[1] });
        }
        let pages = [before, after].map(|trace| trace.header().totals.distinct_pages);
        let mut frames = Vec::new();
        for size in sizes {
            frames.extend(size.frames(pages[0].max(pages[1]), page_bytes[0]).map_err(SweepError::from)?);
        }
        frames.sort_unstable();
        frames.dedup();
        let first = DiffSide::of(before, specs, &frames, &|share| progress(0.3 * share))?;
        let second = DiffSide::of(after, specs, &frames, &|share| progress(0.3 + 0.3 * share))?;
        let change = |size: &usize| first.faults[0][*size].abs_diff(second.faults[0][*size]);
        // Of equal ones the smallest.
        let size = (0..frames.len()).rev().max_by_key(change).unwrap_or_default();
        let cell = [Cell { spec: specs[0].clone(), frames: frames[size] }];
        let old = ObjectStudy::at(before, &cell, &|share| progress(0.6 + 0.2 * share))?;
        let new = ObjectStudy::at(after, &cell, &|share| progress(0.8 + 0.2 * share))?;
        let knows_code = !old.code.is_empty() && !new.code.is_empty();
        let lines = if knows_code { changes(lines(&old.code), lines(&new.code)) } else { Vec::new() };
        Ok(Self {
            memory_bytes: frames.iter().map(|frames| *frames as u64 * page_bytes[0]).collect(),
            policies: specs.iter().map(ToString::to_string).collect(),
            before: first,
            after: second,
            size,
            lines,
            places: changes(places(&old), places(&new)),
        })
    }
}

impl DiffSide {
    fn of(
        trace: &Trace,
        specs: &[Spec],
        frames: &[usize],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, SweepError> {
        let sizes: Vec<_> = frames.iter().map(|frames| MemorySize::Pages(*frames as u64)).collect();
        let sweep = Sweep { interrupt: Interrupt::default(), ..Sweep::over(trace, specs, &sizes)? };
        let totals = &trace.header().totals;
        let outcomes = sweep.run(trace, &|done| progress(done as f64 / totals.records.max(1) as f64))?;
        let by_policy = outcomes.chunks(frames.len());
        Ok(Self {
            name: short_name(trace),
            pages: totals.distinct_pages,
            references: totals.references,
            first_touch_faults: outcomes.first().map_or(0, |(outcome, _)| outcome.first_touch_faults),
            faults: by_policy
                .map(|cells| cells.iter().map(|(outcome, _)| outcome.faults).collect())
                .collect(),
        })
    }
}

fn lines(code: &CodeStudy) -> BTreeMap<String, u64> {
    code.lines().iter().map(|line| (line.code.clone(), line.faults[0])).collect()
}

fn places(objects: &ObjectStudy) -> BTreeMap<String, u64> {
    objects.places().into_iter().map(|place| (place.made_at, place.faults[0])).collect()
}

/// Brings together what has the same name in both. What only one has loses the number of its line,
/// because a line moves when another is added above it.
fn changes(before: BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> Vec<Changed> {
    let name = |name: &String, other: &BTreeMap<String, u64>| {
        if other.contains_key(name) { name.clone() } else { without_line(name) }
    };
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (line, faults) in &before {
        sums.entry(name(line, &after)).or_default()[0] += faults;
    }
    for (line, faults) in &after {
        sums.entry(name(line, &before)).or_default()[1] += faults;
    }
    let changed = sums.into_iter().map(|(name, [before, after])| Changed { name, before, after });
    let mut changed: Vec<_> = changed.filter(|changed| changed.before != changed.after).collect();
    changed.sort_by_key(|changed| Reverse(changed.before.abs_diff(changed.after)));
    changed
}

/// `relax.c:12 in step` without its number: `relax.c in step`. Other names stay.
fn without_line(name: &str) -> String {
    let Some((place, function)) = name.split_once(" in ") else { return name.to_string() };
    match place.rsplit_once(':') {
        Some((file, line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{file} in {function}")
        }
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, faults)| (name.to_string(), *faults)).collect()
    }

    #[test]
    fn a_line_that_has_moved_is_found_by_its_function() {
        let before = counts(&[("a.c:10 in step", 100), ("a.c:20 in step", 7), ("a.c:5 in main", 3)]);
        let after = counts(&[("a.c:11 in step", 40), ("a.c:20 in step", 7), ("a.c:5 in main", 4)]);
        let found = changes(before, after);
        let found: Vec<_> = found.iter().map(|row| (&row.name[..], row.before, row.after)).collect();
        assert_eq!(found, [("a.c in step", 100, 40), ("a.c:5 in main", 3, 4)]);
    }

    #[test]
    fn names_without_a_line_stay() {
        for name in ["libc.so.6+0x1a2b", "memset in libc.so.6", "x:y in f"] {
            assert_eq!(without_line(name), name);
        }
    }
}
