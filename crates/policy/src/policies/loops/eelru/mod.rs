//! EELRU, early eviction LRU: LRU, unless most hits are missed just beyond memory. Then it evicts
//! recent pages, so that older pages stay until they are needed.
//!
//! Paper: Y. Smaragdakis, S. Kaplan, P. Wilson, "EELRU: simple and effective adaptive page
//! replacement", ACM SIGMETRICS 1999.
//!
//! EELRU counts at which positions of the LRU queue, evicted pages included, references hit. Take
//! an early point e and a late point l with e < M < l. If the e-th page is evicted instead of the
//! last, each page between e and l stays in memory with probability (M - e) / (l - e). So the
//! policy would get this share of the hits between e and l:
//!
//! ```text
//!   most recent                                                             least recent
//!   |--------------- e ------------------------ M --------------------- l -----------|
//!     hit either way |<- LRU has all of these ->|<- LRU has none of these ->|   forgotten
//!                    |<--- early eviction has (M - e) / (l - e) of these -->|
//!   benefit (e, l) = hits (e, l] x (M - e) / (l - e) - hits (e, M]
//! ```
//!
//! At a fault, the pair of points with the largest benefit decides if its benefit is above 0. If
//! the least recently used resident page is as old as l, it goes. Otherwise the e-th most recently
//! used resident page goes. If no benefit is above 0, LRU decides.
//!
//! Choices where the paper is silent: the points (`early` times `late`, 12 pairs) and how hits
//! fade. Each counted hit leaves a share of 1 - 1 / (`decay` M) of those before it. Hits at
//! positions up to the smallest e are not counted and cost nothing. Points are rounded down; those
//! on the wrong side of M are left out, and e = 0 evicts the most recently used page. A fault is
//! counted before the victim is chosen, and its page moves to the front of the queue afterwards. Of
//! pairs with the same benefit, the one with the smaller e, then the smaller l, counts. The queue
//! forgets a page deeper than the largest l, resident or not.
//!
//! The paper's queue is 2.5 M deep, as the authors of DIP report; the last point here is 3 M. With
//! `late=1.25/1.5/2/2.5` faults are equal in 33 of 36 cells (cpp, glimpse, multi2 and sprite at 10
//! to 90 % of their pages); the other 3, all of glimpse, differ by -2.6 to +5.1 %. How hits fade
//! matters more: with `decay=2` faults change by -12.5 to +1.6 % (mean -1.2 %), with `decay=32` by
//! -1.3 to +7.7 % (mean +0.3 %).
//!
//! Two choices fix the rounding. The sums over (e, M] and (M, l] are kept separately, one a point,
//! in the order of the references; their sum is that over (e, l]. Later hits weigh more instead of
//! earlier ones fading.
//!
//! Cost: hit O(1) up to the smallest e, one list move a point deeper down; fault O(number of
//! pairs). 20 bytes a page seen.

mod segmented_stack;

use super::fading::Fading;
use crate::arguments::Parameter;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, Violation};
use alloc::vec::Vec;
use segmented_stack::SegmentedStack;

/// Most early points, and most late points.
const MOST_POINTS: usize = 8;

/// A point of the queue and the hits between it and M.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The last position before, or at, the point.
    position: usize,
    /// Hits, fading, between the point and M: in (e, M] or in (M, l].
    hits: f64,
}

/// Early eviction LRU.
#[derive(Debug)]
pub struct Eelru {
    frames: usize,
    /// The most recently used pages, resident or not, cut at all early points, at M and at all late
    /// points.
    queue: SegmentedStack<{ 2 * MOST_POINTS + 2 }>,
    /// The resident pages, cut at the early points.
    resident: SegmentedStack<{ MOST_POINTS + 1 }>,
    /// The points e < M, rising.
    early: Vec<Point>,
    /// The points l > M, rising.
    late: Vec<Point>,
    /// What a hit weighs.
    fading: Fading,
}

impl Registered for Eelru {
    const INFO: Info = Info {
        name: "eelru",
        summary: "LRU that evicts early where hits are missed just beyond memory",
        paper: "Smaragdakis, Kaplan, Wilson, EELRU: simple and effective adaptive page replacement, SIGMETRICS 1999",
        parameters: &[
            Parameter {
                name: "early",
                default: "0.25/0.5/0.75",
                meaning: "early points, as multiples of memory below 1",
            },
            Parameter {
                name: "late",
                default: "1.25/1.5/2/3",
                meaning: "late points, as multiples of memory above 1",
            },
            Parameter {
                name: "decay",
                default: "8",
                meaning: "counted hits, as a multiple of memory, in which a count falls to 1/e; 2 or more",
            },
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let early = points(arguments, "early", frames, |multiple| (0.0..1.0).contains(&multiple))?;
        let late = points(arguments, "late", frames, |multiple| multiple > 1.0 && multiple <= 1000.0)?;
        let decay_pages = arguments.factor("decay")? * frames as f64;
        if decay_pages < 2.0 * frames as f64 {
            return Err(arguments.bad("decay", arguments.value("decay"), "a number of 2 or more"));
        }
        let late: Vec<Point> = late.into_iter().filter(|point| point.position > frames).collect();
        let positions = |points: &[Point]| points.iter().map(|point| point.position).collect::<Vec<_>>();
        let inner: Vec<_> = positions(&early).into_iter().filter(|position| *position > 0).collect();
        let mut evicted_at: Vec<_> = positions(&early).iter().map(|position| (*position).max(1)).collect();
        evicted_at.dedup();
        Ok(Self {
            frames,
            queue: SegmentedStack::new([inner, [frames].to_vec(), positions(&late)].concat()),
            resident: SegmentedStack::new(evicted_at),
            early,
            late,
            fading: Fading::new(1.0 - 1.0 / decay_pages),
        })
    }
}

/// Reads points as in `0.25/0.5`; they come out rising, each once.
fn points(
    arguments: &Arguments,
    name: &str,
    frames: usize,
    is_valid: impl Fn(f64) -> bool,
) -> Result<Vec<Point>, ArgumentError> {
    let value = arguments.value(name);
    let multiples: Result<Vec<f64>, _> = value.split('/').map(str::parse).collect();
    let multiples = multiples.unwrap_or_default();
    if multiples.is_empty() || multiples.len() > MOST_POINTS || !multiples.iter().all(|&one| is_valid(one)) {
        let side = if name == "early" { "from 0 to below 1" } else { "above 1" };
        let wanted = alloc::format!("1 to {MOST_POINTS} multiples of memory {side}, as in 0.5/0.75");
        return Err(arguments.bad(name, value, &wanted));
    }
    let mut positions: Vec<_> =
        multiples.iter().map(|multiple| (multiple * frames as f64) as usize).collect();
    positions.sort_unstable();
    positions.dedup();
    Ok(positions.into_iter().map(|position| Point { position, hits: 0.0 }).collect())
}

impl Eelru {
    /// Counts a hit on the queue, if the page is in it.
    #[inline]
    fn count(&mut self, page: PageId) {
        let Some(segment) = self.queue.segment_of(page) else { return };
        // The page's position is in a segment that ends here, and points lie at the ends of
        // segments only.
        let end = self.queue.cuts()[segment];
        if end <= self.early[0].position {
            return;
        }
        let weight = self.fading.weight();
        if end <= self.frames {
            self.early.iter_mut().filter(|e| e.position < end).for_each(|e| e.hits += weight);
        } else {
            self.late.iter_mut().filter(|l| end <= l.position).for_each(|l| l.hits += weight);
        }
        let points = self.early.iter_mut().chain(&mut self.late);
        self.fading.step(points.map(|point| &mut point.hits));
    }

    /// The pair of points with the largest benefit above 0.
    fn best_pair(&self) -> Option<(usize, usize)> {
        let mut best = None;
        let mut most = 0.0;
        for e in &self.early {
            for l in &self.late {
                let kept = (self.frames - e.position) as f64 / (l.position - e.position) as f64;
                let benefit = (e.hits + l.hits) * kept - e.hits;
                if benefit > most {
                    most = benefit;
                    best = Some((e.position, l.position));
                }
            }
        }
        best
    }

    /// Whether a page's position in the queue is `late` or beyond it.
    fn is_as_old_as(&self, page: PageId, late: usize) -> bool {
        self.queue.segment_of(page).is_none_or(|segment| {
            let end = self.queue.cuts()[segment];
            end > late || (end == late && self.queue.at_cut(segment) == Some(page))
        })
    }

    fn touch(&mut self, page: PageId) {
        self.queue.touch(page);
        self.queue.truncate();
        self.resident.touch(page);
    }
}

impl Policy for Eelru {
    type Model = ExactModel;

    fn fault(&mut self, reference: Reference) {
        self.count(reference.page);
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        let least_recent = self.resident.bottom()?;
        match self.best_pair() {
            Some((early, late)) if !self.is_as_old_as(least_recent, late) => {
                let cut = self.resident.cuts().binary_search(&early.max(1)).expect("cut at every e");
                // Memory can be less than full when a driver evicts ahead of need.
                self.resident.at_cut(cut).or(Some(least_recent))
            }
            _ => Some(least_recent),
        }
    }

    fn evict(&mut self, page: PageId) {
        self.resident.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        self.touch(reference.page);
        false
    }

    #[inline]
    fn hit(&mut self, reference: Reference) {
        self.count(reference.page);
        self.touch(reference.page);
    }

    fn remove(&mut self, page: PageId) {
        self.queue.remove(page);
        self.resident.remove(page);
    }

    fn check(&self) -> Result<(), Violation> {
        self.queue.check()?;
        self.resident.check()?;
        let residents = self.resident.len();
        ensure!(residents <= self.frames, "{residents} pages resident");
        let queued = self.queue.len();
        let deepest = self.queue.cuts().last().copied().unwrap_or(0);
        ensure!(queued <= deepest, "{queued} pages in a queue of {deepest}");
        let falls = |points: &[Point]| points.is_sorted_by(|a, b| a.hits >= b.hits);
        let rises = |points: &[Point]| points.is_sorted_by(|a, b| a.hits <= b.hits);
        ensure!(falls(&self.early), "more hits from a later early point on: {:?}", self.early);
        ensure!(rises(&self.late), "fewer hits up to a later late point: {:?}", self.late);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E2, Machine, faults, for_random_strings, run};

    /// The queue, the resident pages in brackets and `|` at M, with hits (e, M] and (M, l] for one
    /// pair.
    fn state(machine: &Machine<Eelru>) -> String {
        let eelru = machine.policy();
        let show = |(position, page): (usize, PageId)| {
            let is_resident = eelru.resident.segment_of(page).is_some();
            let page = if is_resident { format!("[{page}]") } else { page.to_string() };
            if position == eelru.frames { format!("| {page}") } else { page }
        };
        let queue: Vec<_> = eelru.queue.pages().into_iter().enumerate().map(show).collect();
        let hits = |points: &[Point]| points[0].hits / eelru.fading.weight();
        format!("{} ; {:.2} {:.2}", queue.join(" "), hits(&eelru.early), hits(&eelru.late))
    }

    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Eelru>::new("eelru:early=0.25,late=1.5,decay=1000", 4);
        let states = machine.trace(&[1, 2, 3, 4, 3, 4, 5, 1, 2, 6, 7, 7], state);
        assert_eq!(
            states[3..],
            [
                "[4] [3] [2] [1] ; 0.00 0.00",
                "[3] [4] [2] [1] ; 1.00 0.00", // position 2 of 4
                "[4] [3] [2] [1] ; 2.00 0.00",
                "[5] [4] [3] [2] | 1 ; 2.00 0.00", // LRU
                // 1 at position 5: 3 hits x (4 - 1) / (6 - 1) - 2 hits is no benefit: LRU.
                "[1] [5] [4] [3] | 2 ; 2.00 1.00",
                // 2 at position 5: 4 x 3/5 - 2: 1, the most recent page, goes, as 3 is not at
                // position 6 yet.
                "[2] 1 [5] [4] | [3] ; 2.00 2.00",
                "[6] 2 1 [5] | [4] [3] ; 2.00 2.00", // 3 has position 5: 2 goes
                "[7] [6] 2 1 | [5] [4] ; 2.00 2.00", // 3 has lasted to position 6: it goes
                "[7] [6] 2 1 | [5] [4] ; 2.00 2.00", // position 1 is not counted
            ]
        );
    }

    /// 60 pages in 40 frames, 30 rounds: LRU never hits, and OPT takes 640.
    #[test]
    fn keeps_part_of_a_loop() {
        let string: Vec<u32> = (0..30).flat_map(|_| 0..60).collect();
        assert_eq!(["eelru", "lru", "opt"].map(|policy| faults(policy, &string, 40)), [760, 1800, 640]);
        assert_eq!(faults("eelru", E2, 4), 8);
    }

    /// Nothing is ever hit beyond memory if the queue ends there: the late point rounds down to M.
    #[test]
    fn without_a_late_point_it_is_lru() {
        for_random_strings(|string, frames| {
            assert_eq!(run("eelru:late=1.01", string, frames), run("lru", string, frames));
        });
    }

    /// Hits weigh up to 2^63 times the first before all are scaled back.
    #[test]
    fn weights_stay_finite() {
        let mut machine = Machine::<Eelru>::new("eelru", 2);
        for time in 0..4000 {
            machine.access(time % 3);
        }
        let eelru = machine.policy();
        assert!(eelru.fading.weight() < 2_f64.powi(64));
        assert!(!eelru.late.is_empty());
        assert!(eelru.late.iter().all(|point| point.hits.is_finite() && point.hits > 0.0));
    }
}
