//! Advice on single objects, each with what it would save.
//!
//! Objects of one place in the program are taken together, with the small allocations of that
//! place. What would be saved is simulated: the same policy in the same memory, with the program
//! changed. (With huge pages it is CLOCK.) Advice that saves little is left out. So is advice on
//! what importing Python modules makes, advice to block code that goes over its memory only once,
//! and advice to give back what could be used in a better order, if that saves more.

use crate::code::is_editable;
use crate::conclusion::percent;
use crate::curve_study::CurveStudy;
use crate::object_study::{LEAST_SMALL, ObjectStudy, StudiedObject};
use serde::Serialize;
use std::collections::BTreeMap;
use sweephand_results::{bytes, grouped};
use sweephand_sim::{Cell, Change, HugePageFaults, SweepError, WhatIf, what_if, with_huge_pages};
use sweephand_time::ASSUMED_INSTRUCTIONS_PER_SECOND;
use sweephand_trace::Trace;
use sweephand_trace::places::Stack;

/// Groups of objects that are looked at: those with the most pages.
const GROUPS: usize = 8;
/// Advice that saves a smaller share of all faults is left out.
const LEAST_SAVED: f64 = 0.02;
/// How much longer an access to slower memory takes: a round figure for memory behind CXL or on
/// another socket.
const SLOWER_NS: f64 = 100.0;
/// Slower memory is not advised if it slows the program down by a larger share.
const MOST_SLOWDOWN: f64 = 0.1;
/// Pages are used in no order if a larger share of the moves between them are jumps.
const IN_NO_ORDER: f64 = 0.5;
/// Huge pages pay if the program reads at most this many times the bytes that it reads with small
/// ones.
const MOST_READ: f64 = 1.1;
/// They pay if they save this share of the faults.
const LEAST_FEWER: f64 = 0.1;
/// They are advised against if it reads more than this many times those bytes.
const WASTEFUL: f64 = 2.0;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Give each page back after its last use: `madvise(MADV_DONTNEED)`; small allocations are
    /// freed.
    GiveBack,
    /// Work on a part that fits as long as it is in memory, instead of on all of it in turn.
    Block,
    /// Have together what is used together, or use it in the order in which it lies.
    LayOut,
    /// Keep the objects in slower memory.
    KeepElsewhere,
    /// Have them in huge pages: their pages are used together. `madvise(MADV_HUGEPAGE)`.
    HugePages,
    /// Keep them out of huge pages: most of each would be brought in in vain.
    /// `madvise(MADV_NOHUGEPAGE)`.
    NoHugePages,
}

impl Action {
    /// The call that does it, for `length` bytes from `address`; `None` if no `madvise` does.
    pub fn call(self) -> Option<&'static str> {
        match self {
            Self::GiveBack => Some("madvise(address, length, MADV_DONTNEED)"),
            Self::HugePages => Some("madvise(address, length, MADV_HUGEPAGE)"),
            Self::NoHugePages => Some("madvise(address, length, MADV_NOHUGEPAGE)"),
            Self::Block | Self::LayOut | Self::KeepElsewhere => None,
        }
    }
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
    /// Its faults after that; for [`Action::Block`] and [`Action::LayOut`] the least that they
    /// could be. With huge pages, each brings in 2 MiB.
    pub faults_then: u64,
    /// The call that does it, if a `madvise` does: see [`Action::call`].
    pub call: Option<&'static str>,
    /// The advice as a sentence.
    pub text: String,
}

/// Objects of one place.
struct Group<'a> {
    name: String,
    /// The line that made them, if it is known.
    made_at: Option<String>,
    objects: Vec<&'a StudiedObject>,
    pages: u64,
    /// Whether there are small allocations among them, which share pages.
    has_small: bool,
    /// Whether the code that made them has an address to give to `madvise`: not of small
    /// allocations, and not if nobody can edit it.
    has_addresses: bool,
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
    let policy = objects.policies[0];
    let frames = study.curves.memory_pages[objects.size];
    let groups = groups(objects, study.curves.page_bytes);
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
    let choices: Vec<Vec<bool>> = std::iter::once(Vec::new()).chain(groups.iter().map(which)).collect();
    let cell = Cell { spec: study.specs[policy].clone(), frames: frames as usize };
    let records = study.trace.records.max(1) as f64;
    let told = what_if(trace, &cell, &changes, &|done| progress(0.6 * done as f64 / records))?;
    let huge = with_huge_pages(trace, frames as usize, &choices, &|done| {
        progress(0.6 + 0.4 * done as f64 / records);
    })?;
    let now = told[0].outcome.faults;
    let around = Surroundings { study, objects, frames, now };
    let mut advice = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let reorder = around.reorder(group);
        // Advice to give back what is used over and over comes only after all of that.
        let give_back = around.give_back(group, &told[1 + at]);
        let saves_more = |one: &ObjectAdvice| reorder.iter().all(|reorder| one.saved() > reorder.saved());
        advice.extend(give_back.filter(saves_more));
        advice.extend(reorder);
        advice.extend(around.keep_elsewhere(group, &told[1 + groups.len() + at]));
        advice.extend(around.huge_pages(group, &huge[0], &huge[1 + at]));
    }
    advice.retain(|advice| {
        let saves = advice.saved() > 0 && advice.saved() as f64 >= LEAST_SAVED * now as f64;
        saves || advice.action == Action::NoHugePages
    });
    advice.sort_by_key(|advice| std::cmp::Reverse(advice.saved()));
    Ok(advice)
}

/// What the advice on each group is measured against.
struct Surroundings<'a> {
    study: &'a CurveStudy,
    objects: &'a ObjectStudy,
    frames: u64,
    /// Faults now.
    now: u64,
}

impl Surroundings<'_> {
    fn memory(&self) -> String {
        bytes(self.frames * self.study.curves.page_bytes)
    }

    /// What is saved if `then` faults are left, in words.
    fn saved(&self, then: u64) -> String {
        let saved = self.now.saturating_sub(then);
        let share = percent(saved as f64 / self.now.max(1) as f64);
        format!("{} of {} faults fewer ({share})", grouped(saved), grouped(self.now))
    }

    fn advice(
        &self,
        action: Action,
        group: &Group<'_>,
        line: Option<String>,
        then: u64,
        text: String,
    ) -> ObjectAdvice {
        ObjectAdvice {
            action,
            objects: group.name.clone(),
            line,
            faults: self.now,
            faults_then: then,
            call: action.call().filter(|_| group.has_addresses),
            text: format!("{}: {text}", group.name),
        }
    }

    /// `None` if lines are known, and none of the program uses it last: there is no place for the
    /// call.
    fn give_back(&self, group: &Group<'_>, given_back: &WhatIf) -> Option<ObjectAdvice> {
        let then = given_back.outcome.faults;
        let line = self.objects.code.first_own(&given_back.last_used_by);
        if line.is_none() && !self.objects.code.is_empty() {
            return None;
        }
        let after = line.as_ref().map(|line| format!(" behind {line}")).unwrap_or_default();
        let how = match group.has_small {
            true => "free it after its last use",
            false => "give each page back after its last use, with madvise(.., MADV_DONTNEED)",
        };
        let text = format!("{how}{after}: {} in {}", self.saved(then), self.memory());
        Some(self.advice(Action::GiveBack, group, line, then, text))
    }

    /// What is used again and again: another order of the work, or of the memory.
    fn reorder(&self, group: &Group<'_>) -> Option<ObjectAdvice> {
        let counted = |of: fn(&sweephand_sim::ObjectFaults) -> u64| -> u64 {
            group.objects.iter().map(|object| of(&object.counts.faults[0])).sum()
        };
        let (faults, first) = (counted(|counts| counts.faults), counted(|counts| counts.first_touch_faults));
        if group.pages <= self.frames / 4 || faults <= 2 * first {
            return None;
        }
        let then = self.now - (faults - first);
        let numbers = group.objects.iter().map(|of| of.number).collect();
        let busiest = self.objects.code.busiest_on(&numbers);
        // Without places it is not known what the code does.
        if busiest.is_none() && !self.objects.code.is_empty() {
            return None;
        }
        // Code that goes over it once has no part to finish first.
        if busiest.as_ref().is_some_and(|(_, faults)| *faults <= group.pages) {
            return None;
        }
        let line = busiest.map(|(line, _)| line);
        let there = line.as_ref().map(|line| format!(", most of them at {line}")).unwrap_or_default();
        let moves: u64 = group.objects.iter().map(|object| object.counts.moves).sum();
        let jumps: u64 = group.objects.iter().map(|object| object.counts.jumps).sum();
        let (action, used, what) = match jumps as f64 > IN_NO_ORDER * moves as f64 {
            true => {
                let what =
                    "have together what is used together, or use it in the order in which it lies (sorting)";
                (Action::LayOut, "used in no order", what)
            }
            false => {
                let what = "finish a part that fits before going on to the next (blocking)";
                (Action::Block, "used over and over", what)
            }
        };
        let text = format!(
            "{used}, {} faults in {}{there}: {what}, at most {}",
            grouped(faults),
            self.memory(),
            self.saved(then)
        );
        Some(self.advice(action, group, line, then, text))
    }

    /// `None` if it would slow the program down by too much, or if the program cannot place it.
    fn keep_elsewhere(&self, group: &Group<'_>, elsewhere: &WhatIf) -> Option<ObjectAdvice> {
        if group.has_small {
            return None;
        }
        let then = elsewhere.outcome.faults;
        let visits: u64 = group.objects.iter().map(|object| object.counts.records).sum();
        let seconds = visits as f64 * SLOWER_NS / 1e9;
        let native =
            self.study.trace.instructions.map(|count| count as f64 / ASSUMED_INSTRUCTIONS_PER_SECOND);
        let slowdown = native.map(|native| seconds / native);
        if slowdown.is_some_and(|slowdown| slowdown > MOST_SLOWDOWN) {
            return None;
        }
        let slowdown = slowdown
            .map(|share| format!(", a slowdown of {} at 3 billion instructions a second", percent(share)));
        let text = format!(
            "keep it in slower memory: {} in {} for the rest; its {} stored references take at least {seconds:.3} s \
             longer, at {SLOWER_NS} ns each{}",
            self.saved(then),
            self.memory(),
            grouped(visits),
            slowdown.unwrap_or_default()
        );
        Some(self.advice(Action::KeepElsewhere, group, None, then, text))
    }

    /// For or against huge pages; `None` where no huge page would go again, or where hardly
    /// anything is read a second time.
    fn huge_pages(
        &self,
        group: &Group<'_>,
        small: &HugePageFaults,
        huge: &HugePageFaults,
    ) -> Option<ObjectAdvice> {
        // What is read once only is not a matter of memory.
        if (small.pages_read as f64) < LEAST_SAVED * small.faults as f64 {
            return None;
        }
        let read = huge.pages_read as f64 / small.pages_read.max(1) as f64;
        let fewer = 1.0 - huge.faults as f64 / small.faults.max(1) as f64;
        let action = match huge.huge_faults {
            0 => return None,
            _ if huge.pages_held > 0 && read <= MOST_READ && fewer >= LEAST_FEWER => Action::HugePages,
            _ if huge.pages_held > 0 && read > WASTEFUL => Action::NoHugePages,
            _ => return None,
        };
        let wasted = 1.0 - huge.pages_used as f64 / huge.pages_held as f64;
        let memory = self.memory();
        let reads = |faults: &HugePageFaults| bytes(faults.pages_read * self.study.curves.page_bytes);
        let told = format!(
            "huge pages take {} faults instead of {} under clock in {memory}, and read {} instead of {}; {} of each \
             2 MiB that comes in goes again unused",
            grouped(huge.faults),
            grouped(small.faults),
            reads(huge),
            reads(small),
            percent(wasted)
        );
        let text = match action {
            Action::HugePages => {
                format!(
                    "its pages are used together, so huge pages pay, with madvise(.., MADV_HUGEPAGE): {told}"
                )
            }
            _ => format!("no huge pages where memory is short, with madvise(.., MADV_NOHUGEPAGE): {told}"),
        };
        let line = group.made_at.clone();
        Some(ObjectAdvice { faults: small.faults, ..self.advice(action, group, line, huge.faults, text) })
    }
}

impl ObjectAdvice {
    /// Faults that it saves.
    pub fn saved(&self) -> u64 {
        self.faults.saturating_sub(self.faults_then)
    }
}

/// The groups with the most pages.
fn groups(objects: &ObjectStudy, page_bytes: u64) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(String, bool), Vec<&StudiedObject>> = BTreeMap::new();
    for studied in &objects.objects {
        if studied.stack().is_some_and(Stack::imports) {
            continue;
        }
        let made_at = studied.made_at();
        let is_line = made_at.is_some();
        let unnamed =
            studied.object.as_ref().map(|object| format!("{} at {:#x}", object.kind, object.address));
        let Some(name) = made_at.or(unnamed) else { continue };
        groups.entry((name, is_line)).or_default().push(studied);
    }
    let mut groups: Vec<_> = groups
        .into_iter()
        .map(|((place, is_line), mut objects)| {
            let all = objects.iter().map(|object| object.counts.pages).sum::<u64>() as f64;
            let is_much = |object: &&StudiedObject| object.counts.pages as f64 >= LEAST_SMALL * all;
            objects.retain(|object| object.object.is_some() || is_much(object));
            let pages = objects.iter().map(|object| object.counts.pages).sum::<u64>();
            let size = bytes(pages * page_bytes);
            let large = objects.iter().filter(|studied| studied.object.is_some()).count();
            let has_small = large < objects.len();
            let name = match (large, has_small) {
                (0, _) => format!("{place} ({size} of small objects)"),
                (1, false) => format!("{place} ({size})"),
                (n, false) => format!("{place} ({} objects, {size} together)", grouped(n as u64)),
                (1, true) => format!("{place} (1 object and small ones, {size} together)"),
                (n, true) => {
                    format!("{place} ({} objects and small ones, {size} together)", grouped(n as u64))
                }
            };
            let is_foreign = |studied: &&StudiedObject| {
                studied.stack().and_then(Stack::place).is_some_and(|frame| !is_editable(frame))
            };
            let has_addresses = !has_small && !objects.iter().any(is_foreign);
            Group { name, made_at: is_line.then_some(place), objects, pages, has_small, has_addresses }
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

    fn line(line: u32) -> Frame {
        Frame { function: Some("f".into()), line: Some(("a.c".to_owned(), line)), ..Frame::default() }
    }

    /// A table used in a loop beside an array that is read once, by code that is known.
    fn table_beside_array(reading: Frame) -> Study {
        let mut collector = Collector::default();
        let [table, array, read] =
            [line(1), line(2), reading].map(|frame| collector.stack(Stack(vec![frame])));
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
        Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap()
    }

    #[test]
    fn give_back_advice_names_the_line_that_reads_once() {
        let study = table_beside_array(line(3));
        let first = &study.advice[0];
        assert_eq!(first.action, Action::KeepElsewhere);
        assert_eq!((first.faults, first.faults_then), (4000, 20), "without the array the table fits");
        let second = study.advice.iter().find(|advice| advice.action == Action::GiveBack).unwrap();
        assert_eq!(second.faults_then, 2020, "{second:?}");
        assert_eq!(second.line.as_deref(), Some("a.c:3 in f"));
        assert!(second.text.starts_with("a.c:2 in f (7.8 MiB): give each page back"), "{}", second.text);
        assert_eq!(second.call, Some("madvise(address, length, MADV_DONTNEED)"));
        let block = study.advice.iter().find(|advice| advice.action == Action::Block).unwrap();
        assert!(block.objects.starts_with("a.c:1 in f") && block.faults_then == 2020, "{block:?}");
    }

    #[test]
    fn code_made_at_run_time_is_not_told_to_give_memory_back() {
        let made = Frame { offset: 0x7f_0000, ..Frame::default() };
        let study = table_beside_array(made);
        assert_eq!(study.advice[0].action, Action::KeepElsewhere);
        assert!(study.advice.iter().all(|advice| advice.action != Action::GiveBack), "{:#?}", study.advice);
    }

    /// Two objects of 8 MiB: one is gone over in order, of the other every 64th page is used.
    #[test]
    fn huge_pages_are_advised_for_what_is_used_together_and_against_for_the_rest() {
        let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
        writer.alloc(0x1000_0000, 8 << 20, AllocKind::Mmap).unwrap();
        writer.alloc(0x2000_0000, 8 << 20, AllocKind::Mmap).unwrap();
        for page in (0..6).flat_map(|_| 0..2048) {
            writer.reference(0x1_0000 + page, false).unwrap();
            if page % 512 == 0 {
                (0..2048).step_by(64).for_each(|page| writer.reference(0x2_0000 + page, false).unwrap());
            }
        }
        let bytes = writer.finish(EndTotals::default()).unwrap().0.into_inner();
        let trace = Trace::from_bytes(bytes).unwrap();
        let specs = Spec::parse_list("clock,opt").unwrap();
        let sizes = MemorySize::parse_list("1600p").unwrap();
        let study = Study::of(&trace, specs, &sizes, &|_| {}, &Interrupt::default()).unwrap();
        let of = |action| study.advice.iter().filter(move |advice| advice.action == action);
        let pay: Vec<_> = of(Action::HugePages).map(|advice| &advice.objects[..]).collect();
        let waste: Vec<_> = of(Action::NoHugePages).map(|advice| &advice.objects[..]).collect();
        assert_eq!(pay, ["mmap at 0x10000000 (8.0 MiB)"], "{:#?}", study.advice);
        assert_eq!(waste, ["mmap at 0x20000000 (128 KiB)"], "{:#?}", study.advice);
        let pay = of(Action::HugePages).next().unwrap();
        assert!(pay.faults_then < pay.faults / 20 && pay.text.contains("; 0% of each 2 MiB"), "{}", pay.text);
        assert!(pay.call.is_some());
        let waste = of(Action::NoHugePages).next().unwrap();
        assert!(waste.text.contains("; 98% of each 2 MiB"), "{}", waste.text);
    }
}
