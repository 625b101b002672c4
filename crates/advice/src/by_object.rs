//! Advice on single objects, each with what it would save.
//!
//! Objects of one place in the program are taken together. What would be saved is simulated: the
//! same policy in the same memory, with the program changed. Advice that saves little is left out.

use crate::conclusion::percent;
use crate::curve_study::CurveStudy;
use crate::object_study::{ObjectStudy, StudiedObject};
use serde::Serialize;
use std::collections::BTreeMap;
use sweephand_results::{bytes, grouped};
use sweephand_sim::{Cell, Change, SweepError, what_if};
use sweephand_trace::Trace;

/// Groups of objects that are looked at: those with the most pages.
const GROUPS: usize = 8;
/// Advice that saves a smaller share of all faults is left out.
const LEAST_SAVED: f64 = 0.02;
/// How much longer an access to slower memory takes: a round figure for memory behind CXL or on
/// another socket.
const SLOWER_NS: f64 = 100.0;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Give each page back after its last use: `madvise(MADV_DONTNEED)`.
    GiveBack,
    /// Work on a part that fits as long as it is in memory, instead of on all of it in turn.
    Block,
    /// Keep the objects in slower memory.
    KeepElsewhere,
}

/// One piece of advice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ObjectAdvice {
    /// What to do.
    pub action: Action,
    /// Which objects: where they were made, how many there are, and their size.
    pub objects: String,
    /// The line of the program where to do it, if it is known.
    pub line: Option<String>,
    /// The program's faults now.
    pub faults: u64,
    /// Its faults after that; for [`Action::Block`] the least that they could be.
    pub faults_then: u64,
    /// The advice as a sentence.
    pub text: String,
}

/// Objects of one place.
struct Group<'a> {
    name: String,
    objects: Vec<&'a StudiedObject>,
    pages: u64,
}

/// The advice on the objects of a trace, in the memory and under the first policy of `objects`;
/// what saves most comes first.
///
/// # Errors
/// See [`what_if`].
pub fn advice_by_object(
    trace: &Trace,
    study: &CurveStudy,
    objects: &ObjectStudy,
    progress: &dyn Fn(f64),
) -> Result<Vec<ObjectAdvice>, SweepError> {
    let page_bytes = study.curves.page_bytes;
    let policy = objects.policies[0];
    let frames = study.curves.memory_pages[objects.size] as usize;
    let groups = groups(objects, page_bytes);
    let last = objects.objects.iter().map(|object| object.number).max().unwrap_or_default();
    let which = |group: &Group<'_>| {
        let mut which = vec![false; last + 1];
        group.objects.iter().for_each(|object| which[object.number] = true);
        which
    };
    let changes: Vec<Change> = std::iter::once(Change::Nothing)
        .chain(groups.iter().map(|group| Change::GiveBack(which(group))))
        .chain(groups.iter().map(|group| Change::KeepElsewhere(which(group))))
        .collect();
    let cell = Cell { spec: study.specs[policy].clone(), frames };
    let records = study.trace.records.max(1) as f64;
    let told = what_if(trace, &cell, &changes, &|done| progress(done as f64 / records))?;
    let now = told[0].outcome.faults;
    let memory = bytes(frames as u64 * page_bytes);
    let mut advice = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let (given_back, elsewhere) = (&told[1 + at], &told[1 + groups.len() + at]);
        let saved = |then: u64| grouped(now.saturating_sub(then));
        let share = |then: u64| percent(now.saturating_sub(then) as f64 / now.max(1) as f64);
        let then = given_back.outcome.faults;
        let place = given_back.last_used_by.first();
        let line = place.and_then(|(place, _)| objects.code.line_of(*place));
        let after = line.as_ref().map(|line| format!(" behind {line}")).unwrap_or_default();
        advice.push(ObjectAdvice {
            action: Action::GiveBack,
            objects: group.name.clone(),
            faults: now,
            faults_then: then,
            text: format!(
                "{}: give each page back after its last use, with madvise(.., MADV_DONTNEED){after}: {} of {} faults \
                 fewer ({}) in {memory}",
                group.name, saved(then), grouped(now), share(then)
            ),
            line,
        });
        let counted = |of: fn(&sweephand_sim::ObjectFaults) -> u64| -> u64 {
            group.objects.iter().map(|object| of(&object.counts.faults[0])).sum()
        };
        let (faults, first) = (counted(|counts| counts.faults), counted(|counts| counts.first_touch_faults));
        if group.pages > frames as u64 / 4 && faults > 2 * first {
            let then = now - (faults - first);
            let line = objects.code.busiest_on(&group.objects.iter().map(|of| of.number).collect::<Vec<_>>());
            let there = line.as_ref().map(|line| format!(", most of them at {line}")).unwrap_or_default();
            advice.push(ObjectAdvice {
                action: Action::Block,
                objects: group.name.clone(),
                faults: now,
                faults_then: then,
                text: format!(
                    "{}: used over and over, {} faults in {memory}{there}: finish a part that fits before going on \
                     to the next (blocking), at most {} of {} faults fewer ({})",
                    group.name, grouped(faults), saved(then), grouped(now), share(then)
                ),
                line,
            });
        }
        let then = elsewhere.outcome.faults;
        let visits: u64 = group.objects.iter().map(|object| object.counts.records).sum();
        advice.push(ObjectAdvice {
            action: Action::KeepElsewhere,
            objects: group.name.clone(),
            line: None,
            faults: now,
            faults_then: then,
            text: format!(
                "{}: keep it in slower memory: {} of {} faults fewer ({}) in {memory} for the rest; its {} stored \
                 references take at least {:.3} s longer, at {SLOWER_NS} ns each",
                group.name, saved(then), grouped(now), share(then), grouped(visits),
                visits as f64 * SLOWER_NS / 1e9
            ),
        });
    }
    advice.retain(|advice| advice.saved() as f64 >= LEAST_SAVED * now as f64 && advice.saved() > 0);
    advice.sort_by_key(|advice| std::cmp::Reverse(advice.saved()));
    Ok(advice)
}

impl ObjectAdvice {
    /// Faults that it saves.
    pub fn saved(&self) -> u64 {
        self.faults.saturating_sub(self.faults_then)
    }
}

/// The groups with the most pages.
fn groups(objects: &ObjectStudy, page_bytes: u64) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<String, Vec<&StudiedObject>> = BTreeMap::new();
    for studied in &objects.objects {
        let Some(object) = &studied.object else { continue };
        let place = object.made_at.as_ref().and_then(|stack| stack.place());
        let name =
            place.map_or_else(|| format!("{} at {:#x}", object.kind, object.address), ToString::to_string);
        groups.entry(name).or_default().push(studied);
    }
    let mut groups: Vec<_> = groups
        .into_iter()
        .map(|(place, objects)| {
            let pages = objects.iter().map(|object| object.counts.pages).sum::<u64>();
            let size = bytes(pages * page_bytes);
            let name = match objects.len() {
                1 => format!("{place} ({size})"),
                n => format!("{place} ({} objects, {size} together)", grouped(n as u64)),
            };
            Group { name, objects, pages }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.pages));
    groups.truncate(GROUPS);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Study;
    use std::io::Cursor;
    use sweephand_policy::registry::Spec;
    use sweephand_sim::MemorySize;
    use sweephand_trace::places::{Collector, Frame, Places, Stack};
    use sweephand_trace::{AllocKind, EndTotals, Interrupt, Metadata, Writer};

    /// A table used in a loop beside an array that is read once, by lines that are known.
    #[test]
    fn what_is_read_once_is_to_be_given_back_where_it_was_read() {
        let mut collector = Collector::default();
        let mut place = |line| {
            let line = Some(("a.c".to_owned(), line));
            collector.stack(Stack(vec![Frame { function: Some("f".into()), line, ..Frame::default() }]))
        };
        let [table, array, read] = [1, 2, 3].map(&mut place);
        let mut places: Places = collector.finish();
        places.of_objects = vec![table, array];
        let metadata = Metadata { places: Some(places), ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        writer.alloc(0x10_0000, 20 * 4096, AllocKind::Malloc).unwrap();
        writer.alloc(0x20_0000, 2000 * 4096, AllocKind::Malloc).unwrap();
        writer.code(read.unwrap());
        for turn in 0..2000 {
            writer.reference(0x200 + turn, false).unwrap();
            writer.reference(0x100 + turn % 20, false).unwrap();
        }
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let specs = Spec::parse_list("fifo,opt").unwrap();
        let sizes = MemorySize::parse_list("25p").unwrap();
        let study = Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap();
        let first = &study.advice[0];
        assert_eq!(first.action, Action::KeepElsewhere);
        assert_eq!((first.faults, first.faults_then), (4000, 20), "without the array the table fits");
        let second = study.advice.iter().find(|advice| advice.action == Action::GiveBack).unwrap();
        assert_eq!(second.faults_then, 2020, "{second:?}");
        assert_eq!(second.line.as_deref(), Some("a.c:3 in f"));
        assert!(second.text.starts_with("a.c:2 in f (7.8 MiB): give each page back"), "{}", second.text);
        let block = study.advice.iter().find(|advice| advice.action == Action::Block).unwrap();
        assert!(block.objects.starts_with("a.c:1 in f") && block.faults_then == 2020, "{block:?}");
    }
}
