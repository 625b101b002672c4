//! Estimates of what policies would do in less memory, from the epochs of a watch.
//!
//! An epoch says which pages were used in it. Here each of them is used once, in an order that a
//! hash of the page and the epoch decides, so that the same watch gives the same numbers. Policies
//! are simulated over these uses. What comes out is an estimate, in two ways:
//!
//! - **The order is made up.** For LRU, any order gives a number within the [bounds](crate::Bounds)
//!   that the epochs allow, so this one does, too. Other policies have no bounds.
//! - **A page is used once an epoch.** In memory that holds all pages of an epoch, further uses in
//!   it are hits, and the policy misses only that there were several. In smaller memory there are
//!   faults within the epoch, which are not here.
//!
//! Faults on pages used for the first time in the watch are not counted, as in [`History`].
//!
//! Pages of files that are used in one epoch only, such as those of a backup or a dump, are left
//! out. The kernel puts a page of a file behind the others until it is used again, so these go
//! first and take the place of none. The policies here do not know files, and would let them push
//! out what is in use.
//!
//! The watch is cut into parts of equal length, so that it can be seen how the faults vary.

use crate::History;
use crate::history::FIRST_KEPT;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::time::Duration;
use sweephand_contents::hash;
use sweephand_policy::registry::Spec;
use sweephand_sim::{Cell, Sweep, SweepError};
use sweephand_trace::{EndTotals, Error, Metadata, Trace, Writer};

/// At most this many parts of a watch.
const MOST_PARTS: usize = 24;
/// At least this many epochs are a part, and it lasts for as long as this. In a shorter one, a
/// service may be slower without anybody noticing.
const LEAST_PART_EPOCHS: usize = 4;
const LEAST_PART: Duration = Duration::from_secs(4);
/// Simulations at once: each has a state for each page.
const AT_ONCE: usize = 16;
/// The zstd level of the uses, which are kept in memory for a moment.
const LEVEL: i32 = 1;

/// A part of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// When it began, from the start of the watch.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// Pages of the epoch that has the most, of those that ended in the part.
    pub largest_epoch_pages: u64,
}

impl Part {
    /// How long it is.
    pub fn length(&self) -> Duration {
        self.end - self.start
    }
}

/// What a policy would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyEstimate {
    /// The policy, as it is named on the command line.
    pub policy: String,
    /// Faults on pages used before in the watch: by memory size, then by part.
    pub faults: Vec<Vec<u64>>,
}

impl PolicyEstimate {
    /// Faults in the whole watch, at the memory size with this index.
    pub fn in_all(&self, size: usize) -> u64 {
        self.faults[size].iter().sum()
    }
}

/// Estimates of the faults of policies, by memory size and part of the watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Estimates {
    /// Memory sizes, ascending.
    pub memory_pages: Vec<u64>,
    /// The parts of the watch.
    pub parts: Vec<Part>,
    /// By policy.
    pub policies: Vec<PolicyEstimate>,
    /// One page in this many was kept of those that were looked at.
    pub one_page_in: u64,
}

impl Estimates {
    /// Simulates policies over the epochs of a history that keeps the pages used in them
    /// ([`History::keep_uses`]). `None`: it does not, or has none.
    ///
    /// # Errors
    /// See [`Sweep::run`].
    pub fn of(
        history: &History,
        policies: &[Spec],
        memory_pages: &[u64],
    ) -> Result<Option<Self>, SweepError> {
        Self::by_parts(history, policies, memory_pages, equal_parts(history))
    }

    /// The same for one part: from a time on, at evenly spaced memory sizes. What was used before
    /// is in memory then.
    pub(crate) fn since(
        history: &History,
        policies: &[Spec],
        number_of_sizes: u64,
        start: Duration,
    ) -> Result<Option<Self>, SweepError> {
        let parts = parts_until(history, &[start, history.watched()]);
        let estimates = Self::by_parts(history, policies, &sizes(history, number_of_sizes), parts)?;
        Ok(estimates.map(|mut estimates| {
            let first = estimates.parts.len() - 1;
            estimates.parts.drain(..first);
            let by_size = estimates.policies.iter_mut().flat_map(|of| &mut of.faults);
            by_size.for_each(|faults| drop(faults.drain(..first)));
            estimates
        }))
    }

    fn by_parts(
        history: &History,
        policies: &[Spec],
        memory_pages: &[u64],
        parts: Vec<Part>,
    ) -> Result<Option<Self>, SweepError> {
        let Some(uses) = history.uses() else { return Ok(None) };
        let (trace, ends) = trace_of(|| uses.epochs())?;
        let records = trace.header().totals.records;
        if records == 0 {
            return Ok(None);
        }
        // Records before the end of each part.
        let before: Vec<u64> = parts
            .iter()
            .map(|part| ends[history.ends().partition_point(|end| *end <= part.end) - 1])
            .collect();
        let cuts: Vec<u64> = before.iter().copied().filter(|cut| (1..records).contains(cut)).collect();
        let cuts: Vec<u64> = BTreeSet::from_iter(cuts).into_iter().collect();
        let scale = history.weight() * uses.one_page_in() as f64;
        let frames = |pages: &u64| ((*pages as f64 / scale).round() as usize).max(1);
        let cells: Vec<Cell> = policies
            .iter()
            .flat_map(|spec| {
                memory_pages.iter().map(|pages| Cell { spec: spec.clone(), frames: frames(pages) })
            })
            .collect();
        let mut all = Vec::new();
        for cells in cells.chunks(AT_ONCE) {
            let sweep = Sweep { cells: cells.to_vec(), cuts: cuts.clone(), ..Sweep::default() };
            all.extend(sweep.run(&trace, &|_| {})?);
        }
        let by_part = all.iter().map(|(outcome, trajectory)| {
            let until = |cut: &u64| match cuts.binary_search(cut) {
                Ok(index) => trajectory.at_cuts[index].refaults(),
                Err(_) if *cut == 0 => 0,
                Err(_) => outcome.refaults(),
            };
            let mut last = 0;
            let of_part = |cut| {
                let now = until(cut);
                let faults = (now - last) as f64 * scale;
                last = now;
                faults.round() as u64
            };
            before.iter().map(of_part).collect::<Vec<u64>>()
        });
        let faults: Vec<Vec<u64>> = by_part.collect();
        let of_policy = |(spec, faults): (&Spec, &[Vec<u64>])| PolicyEstimate {
            policy: spec.to_string(),
            faults: faults.to_vec(),
        };
        Ok(Some(Self {
            memory_pages: memory_pages.to_vec(),
            parts,
            policies: policies.iter().zip(faults.chunks(memory_pages.len())).map(of_policy).collect(),
            one_page_in: uses.one_page_in(),
        }))
    }

    /// How long the watch was.
    pub fn watched(&self) -> Duration {
        self.parts.last().map_or(Duration::ZERO, |part| part.end)
    }

    /// What one of the policies would do.
    pub fn by(&self, policy: &str) -> Option<&PolicyEstimate> {
        self.policies.iter().find(|of| of.policy == policy)
    }
}

/// Evenly spaced memory sizes, up to all pages that were there at a time.
pub(crate) fn sizes(history: &History, number: u64) -> Vec<u64> {
    let pages = history.most_known_pages();
    let mut sizes: Vec<u64> = (1..=number).map(|part| (pages * part).div_ceil(number)).collect();
    sizes.dedup();
    sizes.retain(|size| *size > 0);
    sizes
}

/// The uses as a trace, and the records before the end of each epoch; before the first, 0.
fn trace_of<E: Iterator<Item = (Vec<u64>, Vec<u64>)>>(
    epochs: impl Fn() -> E,
) -> Result<(Trace, Vec<u64>), Error> {
    let passing = passing_pages(epochs());
    let mut writer = Writer::with_level(Cursor::new(Vec::new()), Metadata::default(), LEVEL)?;
    let mut ends = vec![0];
    for (epoch, (gone, mut used)) in (1..).zip(epochs()) {
        for page in gone {
            writer.unmap(page, 1)?;
        }
        used.retain(|page| !passing.contains(&(epoch, *page)));
        used.sort_unstable_by_key(|page| hash(page ^ hash(epoch)));
        for page in used {
            writer.reference(page, false)?;
        }
        ends.push(writer.records());
    }
    let (bytes, _) = writer.finish(EndTotals::default())?;
    Ok((Trace::from_bytes(bytes.into_inner())?, ends))
}

/// Pages of files whose contents are used in one epoch only, each with that epoch. The first is 1.
fn passing_pages(epochs: impl Iterator<Item = (Vec<u64>, Vec<u64>)>) -> BTreeSet<(u64, u64)> {
    // The epoch of a page's only use so far; 0 after a second one.
    let (mut only, mut passing) = (BTreeMap::new(), BTreeSet::new());
    for (epoch, (gone, used)) in (1..).zip(epochs) {
        let gone = gone.iter().filter_map(|page| Some((only.remove(page)?, *page)));
        passing.extend(gone);
        for page in used.into_iter().filter(|page| *page >= FIRST_KEPT) {
            only.entry(page).and_modify(|only| *only = 0).or_insert(epoch);
        }
    }
    passing.extend(only.into_iter().map(|(page, epoch)| (epoch, page)));
    passing
}

/// The parts of a watch: equally long, but for the epochs that do not end with them.
fn equal_parts(history: &History) -> Vec<Part> {
    let most = history.watched().div_duration_f64(LEAST_PART) as usize;
    let number = most.min(history.epochs() as usize / LEAST_PART_EPOCHS).clamp(1, MOST_PARTS) as u32;
    let until: Vec<Duration> = (1..=number).map(|part| history.watched() * part / number).collect();
    parts_until(history, &until)
}

/// The parts of a watch that end at these times, the last of which is its end. An epoch belongs to
/// the part in which it ends. There is none without epochs.
fn parts_until(history: &History, until: &[Duration]) -> Vec<Part> {
    let ends = &history.ends()[1..];
    let mut parts: Vec<Part> = Vec::new();
    let mut first = 0;
    for until in until {
        let last = ends.partition_point(|end| end <= until);
        if last > first {
            let largest = history.epoch_pages()[first..last].iter().max();
            parts.push(Part {
                start: parts.last().map_or(Duration::ZERO, |part| part.end),
                end: ends[last - 1],
                largest_epoch_pages: largest.copied().unwrap_or_default(),
            });
        }
        first = last;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::UsedPage;
    use crate::uses::Uses;

    fn specs(names: &[&str]) -> Vec<Spec> {
        names.iter().map(|name| Spec::parse(name).unwrap()).collect()
    }

    fn add(history: &mut History, pages: impl Iterator<Item = u64>, end: Duration) {
        let pages: BTreeSet<u64> = pages.collect();
        let pages: Vec<UsedPage> =
            pages.into_iter().map(|number| UsedPage { number, dirty: false }).collect();
        history.add(&pages, 1.0, end);
    }

    #[test]
    fn parts_have_the_faults_that_are_in_them() {
        let mut history = History::default();
        history.keep_uses();
        // A loop over 400 pages in the second half, and one over 100 pages in the first.
        for epoch in 0..48 {
            let pages = if epoch < 24 { 100 } else { 400 };
            let first = epoch % 4 * pages / 4;
            add(&mut history, first..first + pages / 4, Duration::from_secs(epoch + 1));
        }
        let estimates = Estimates::of(&history, &specs(&["lru"]), &[50, 200, 400]).unwrap().unwrap();
        let seconds = |part: &Part| (part.start.as_secs(), part.end.as_secs());
        let parts: Vec<_> = estimates.parts.iter().map(seconds).collect();
        assert_eq!(parts.len(), 12);
        assert_eq!((parts[0], parts[11]), ((0, 4), (44, 48)));
        let largest = [0, 5, 6, 11].map(|part| estimates.parts[part].largest_epoch_pages);
        assert_eq!(largest, [25, 25, 100, 100]);
        let faults = &estimates.by("lru").unwrap().faults;
        // Every page comes back after 75 others or 300. Where the loop grows, some of its pages
        // are still there.
        assert_eq!(faults[0][..6], [0, 100, 100, 100, 100, 100]);
        assert!((75..=100).contains(&faults[0][6]), "{faults:?}");
        assert_eq!(faults[0][7..], [400; 5]);
        assert_eq!(faults[1], [0, 0, 0, 0, 0, 0, 0, 400, 400, 400, 400, 400]);
        assert_eq!(faults[2], [0; 12]);
    }

    /// A loop over 100 pages beside a file that is written anew in each epoch, or read once.
    #[test]
    fn files_that_pass_push_out_nothing() {
        let faults = |first: &dyn Fn(u64) -> u64, is_removed: bool| {
            let mut history = History::default();
            history.keep_uses();
            for epoch in 0..12 {
                let file = first(epoch)..first(epoch) + 200;
                add(&mut history, (0..100).chain(file.clone()), Duration::from_secs(epoch + 1));
                if is_removed {
                    history.forget(file);
                }
            }
            let estimates = Estimates::of(&history, &specs(&["clock"]), &[110, 300]).unwrap().unwrap();
            [0, 1].map(|size| estimates.policies[0].in_all(size))
        };
        assert_eq!(faults(&|_| FIRST_KEPT, true), [0, 0], "it is written anew, with the same numbers");
        assert_eq!(faults(&|epoch| FIRST_KEPT + 200 * epoch, false), [0, 0]);
        assert!(faults(&|_| FIRST_KEPT, false)[0] > 1000, "it is read again and again");
        assert!(faults(&|epoch| 1000 + 200 * epoch, true)[0] > 100, "memory of no file is in use at once");
    }

    #[test]
    fn a_sample_says_what_all_pages_say() {
        let of = |uses: Uses| {
            let mut history = History::with(uses);
            for epoch in 0..24 {
                let first = epoch % 4 * 5000;
                add(&mut history, first..first + 5000, Duration::from_secs(epoch + 1));
            }
            Estimates::of(&history, &specs(&["clock"]), &[8000, 20_000]).unwrap().unwrap()
        };
        let (all, sample) = (of(Uses::default()), of(Uses::within(10_000, 1 << 18)));
        assert!(all.one_page_in == 1 && sample.one_page_in > 8, "{sample:?}");
        let [all, sample] = [all, sample].map(|of| [0, 1].map(|size| of.policies[0].in_all(size) as f64));
        assert!((sample[0] / all[0] - 1.0).abs() < 0.05, "{sample:?}, {all:?}");
        assert!(sample[1] < 0.03 * all[0] && all[1] == 0.0, "{sample:?}, {all:?}");
    }
}
