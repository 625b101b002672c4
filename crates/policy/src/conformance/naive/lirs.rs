//! LIRS: pages of low inter-reference recency keep their frames, the others pass through
//! a queue.
//!
//! Stack S holds, by recency, all LIR pages and the HIR pages (resident or not) referenced since
//! the bottom page; queue Q holds the resident HIR pages and is evicted at its front.
//!
//! Decisions:
//! * `hir_frames` is clamped to 1 ..= M - 1, and is 1 for M = 1. For M = 1 the general rules
//!   suffice: a page found in S becomes LIR and, there being no room for LIR pages, turns back at
//!   once.
//! * "The S-bottom LIR page" is the LIR page nearest the bottom. Pruning an S without LIR pages
//!   empties it, as the rule says; this happens only for M = 1.
//! * The bound `smax` acts at the end of each reference: while S holds more than `smax` pages, its
//!   HIR page nearest the bottom leaves S (a resident one stays in Q). It may be the page just
//!   referenced; LIR pages never leave.

use super::{Given, Step};
use crate::arguments::Rounding;

/// What a page in S is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Lir,
    ResidentHir,
    NonResidentHir,
}

/// LIRS with a state that can be printed.
#[derive(Clone, Debug)]
pub struct LirsModel {
    frames: usize,
    hir_frames: usize, // Lhirs: frames left to resident HIR pages by the initial fill
    smax: Option<usize>,
    stack: Vec<(u32, Status)>, // S, bottom first
    queue: Vec<u32>,           // Q, front first
    lir_count: usize,          // LIR pages; all of them are resident and in S
}

impl LirsModel {
    /// An empty memory with `hir_frames` of its frames for HIR pages; `smax` bounds the pages in S.
    pub fn new(frames: usize, hir_frames: usize, smax: Option<usize>) -> LirsModel {
        assert!(frames >= 1, "a memory has at least one frame");
        let hir_frames = hir_frames.min(frames - 1).max(1);
        LirsModel { frames, hir_frames, smax, stack: Vec::new(), queue: Vec::new(), lir_count: 0 }
    }

    /// One reference.
    pub fn access(&mut self, page: u32) -> Step {
        // The page leaves S and Q; what it was decides where it returns.
        let in_stack = self.stack.iter().rposition(|entry| entry.0 == page);
        let status_in_stack = in_stack.map(|position| self.stack[position].1);
        let in_queue = self.queue.iter().position(|&resident| resident == page);
        let was_lir = status_in_stack == Some(Status::Lir);
        let fault = !was_lir && in_queue.is_none();

        let mut victim = None;
        let mut fills = false;
        if fault {
            let resident = self.lir_count + self.queue.len();
            fills = self.frames - resident > self.hir_frames;
            if resident == self.frames {
                victim = Some(self.evict());
            }
        }
        if let Some(position) = in_queue {
            self.queue.remove(position);
        }
        if let Some(position) = in_stack {
            self.stack.remove(position);
        }

        if was_lir || fills {
            self.stack.push((page, Status::Lir));
            if !was_lir {
                self.lir_count += 1;
            }
            self.prune();
        } else if in_stack.is_some() {
            self.stack.push((page, Status::Lir));
            self.lir_count += 1;
            if self.lir_count > self.frames - self.hir_frames {
                self.demote_bottom_lir();
            }
            self.prune();
        } else {
            self.stack.push((page, Status::ResidentHir));
            self.queue.push(page);
        }
        self.bound_stack();
        if fault { Step::fault(victim) } else { Step::hit() }
    }

    /// Evicts the front of Q; in S it stays as a non-resident page.
    fn evict(&mut self) -> u32 {
        let victim = self.queue.remove(0);
        if let Some(entry) = self.stack.iter_mut().find(|entry| entry.0 == victim) {
            entry.1 = Status::NonResidentHir;
        }
        victim
    }

    /// The LIR page nearest the bottom of S becomes a resident HIR page: out of S, to the end of Q.
    fn demote_bottom_lir(&mut self) {
        let bottom = self.stack.iter().position(|entry| entry.1 == Status::Lir);
        let (page, _) = self.stack.remove(bottom.expect("called with a LIR page in S"));
        self.lir_count -= 1;
        self.queue.push(page);
    }

    /// Removes pages from the bottom of S until a LIR page is there.
    fn prune(&mut self) {
        let bottom = self.stack.iter().position(|entry| entry.1 == Status::Lir).unwrap_or(self.stack.len());
        self.stack.drain(..bottom);
    }

    fn bound_stack(&mut self) {
        let Some(smax) = self.smax else { return };
        while self.stack.len() > smax {
            let Some(lowest) = self.stack.iter().position(|entry| entry.1 != Status::Lir) else { return };
            self.stack.remove(lowest);
        }
    }

    /// S with L for LIR, h for resident and n for non-resident HIR pages, then Q:
    /// `S(bottom..top) ['2L', '3n', '1L', '4h'] Q [4]`.
    pub fn state(&self) -> String {
        let letter = |status| match status {
            Status::Lir => 'L',
            Status::ResidentHir => 'h',
            Status::NonResidentHir => 'n',
        };
        let pages: Vec<String> =
            self.stack.iter().map(|&(page, status)| format!("'{page}{}'", letter(status))).collect();
        format!("S(bottom..top) [{}] Q {:?}", pages.join(", "), self.queue)
    }
}

/// LIRS with `frames` frames; the parameters are explained at [`LirsModel::new`].
pub fn lirs(references: &[u32], frames: usize, hir_frames: usize, smax: Option<usize>) -> Vec<Step> {
    let mut model = LirsModel::new(frames, hir_frames, smax);
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let hir = given.pages("hir", Rounding::Down).max(given.pages("hir-min", Rounding::Nearest));
    let smax = given.arguments.factor("stack-limit").ok().map(|limit| (limit * frames as f64) as usize);
    lirs(references, frames, hir, smax)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{THIRD, for_random_strings, outcome, outcomes_on_examples, trace};
    use super::{LirsModel, Status, lirs};
    use sweephand_checks::trying;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let rows = [1, 2]
            .map(|hir_frames| outcomes_on_examples(|refs, frames| lirs(refs, frames, hir_frames, None)));
        assert_eq!(rows[0], "8:34534 | 9:45454 | 9:45678");
        assert_eq!(rows[1], "9:234523 | 11:3453453 | 10:345678");
    }

    #[test]
    fn goes_through_the_known_states() {
        let mut model = LirsModel::new(3, 1, None);
        let lines = trace(THIRD, |page| (model.access(page), model.state()));
        let expected = "\
1 F [] S(bottom..top) ['1L'] Q []
2 F [] S(bottom..top) ['1L', '2L'] Q []
3 F [] S(bottom..top) ['1L', '2L', '3h'] Q [3]
1 h [] S(bottom..top) ['2L', '3h', '1L'] Q [3]
4 F [3] S(bottom..top) ['2L', '3n', '1L', '4h'] Q [4]
2 h [] S(bottom..top) ['1L', '4h', '2L'] Q [4]
5 F [4] S(bottom..top) ['1L', '4n', '2L', '5h'] Q [5]
1 h [] S(bottom..top) ['2L', '5h', '1L'] Q [5]
6 F [5] S(bottom..top) ['2L', '5n', '1L', '6h'] Q [6]
3 F [6] S(bottom..top) ['2L', '5n', '1L', '6n', '3h'] Q [3]
2 h [] S(bottom..top) ['1L', '6n', '3h', '2L'] Q [3]
4 F [3] S(bottom..top) ['1L', '6n', '3n', '2L', '4h'] Q [4]";
        assert_eq!(lines, expected);
    }

    #[test]
    fn one_frame_holds_the_last_page() {
        assert_eq!(outcome(&lirs(&[1, 2, 1, 1, 2, 3, 3, 1], 1, 1, None)), "6:12123");
    }

    #[test]
    fn the_bound_on_s_drops_a_page_that_is_not_resident() {
        let mut model = LirsModel::new(3, 1, Some(4));
        for &page in THIRD {
            model.access(page);
        }
        assert_eq!(model.state(), "S(bottom..top) ['1L', '3n', '2L', '4h'] Q [4]");
    }

    #[test]
    fn invariants_hold() {
        for_random_strings(|references, frames| {
            for (hir_frames, smax) in [(1, None), (2, None), (1, Some(2 * frames)), (3, Some(frames))] {
                let _input = trying(|| format!("{hir_frames} frames for HIR pages, S bounded by {smax:?}"));
                let mut model = LirsModel::new(frames, hir_frames, smax);
                for &page in references {
                    model.access(page);
                    let in_stack = |status| model.stack.iter().filter(|entry| entry.1 == status).count();
                    assert_eq!(in_stack(Status::Lir), model.lir_count);
                    assert!(model.lir_count <= frames - model.hir_frames);
                    assert!(model.lir_count + model.queue.len() <= frames);
                    assert!(model.lir_count == 0 || model.stack[0].1 == Status::Lir);
                    for (page, status) in &model.stack {
                        assert_eq!(model.queue.contains(page), *status == Status::ResidentHir);
                    }
                    assert!(smax.is_none_or(|smax| model.stack.len() <= smax.max(model.lir_count)));
                }
            }
        });
    }
}
