//! DLIRS: LIRS whose number of frames for HIR pages moves.
//!
//! Decisions: the page faulted on leaves S before anything else moves, and counts as non-resident
//! in the ratio. Frames are resized before the eviction.

use super::{Given, Step};
use crate::arguments::Rounding;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Lir,
    Resident,
    NonResident,
}

#[derive(Debug)]
struct Model {
    frames: usize,
    hir_frames: usize,
    stack: Vec<(u32, Status)>, // S, bottom first
    queue: Vec<(u32, bool)>,   // Q, front first, and whether the page was demoted
}

impl Model {
    fn lir_pages(&self) -> usize {
        self.stack.iter().filter(|entry| entry.1 == Status::Lir).count()
    }

    fn prune(&mut self) {
        while !self.stack.is_empty() && self.stack[0].1 != Status::Lir {
            self.stack.remove(0);
        }
    }

    /// Demotes LIR pages at the bottom of S until at most `most` are left.
    fn demote_to(&mut self, most: usize) {
        while self.lir_pages() > most {
            self.prune();
            let (page, _) = self.stack.remove(0);
            self.queue.push((page, true));
        }
        self.prune();
    }

    fn resize(&mut self, hir_frames: isize) {
        self.hir_frames = hir_frames.clamp(1, (self.frames as isize - 1).max(1)) as usize;
        self.demote_to(self.frames - self.hir_frames);
    }

    fn access(&mut self, page: u32) -> Step {
        let at = self.stack.iter().position(|entry| entry.0 == page);
        let status = at.map(|at| self.stack[at].1);
        let queued = self.queue.iter().position(|entry| entry.0 == page);
        let demoted = self.queue.iter().filter(|entry| entry.1).count() as f64;
        let non_resident = self.stack.iter().filter(|entry| entry.1 == Status::NonResident).count() as f64;
        if let Some(at) = at {
            self.stack.remove(at);
        }
        let was_demoted = queued.is_some_and(|queued| self.queue.remove(queued).1);
        if was_demoted {
            self.resize(self.hir_frames as isize - (non_resident / demoted).round().max(1.0) as isize);
        }
        if status == Some(Status::NonResident) {
            self.resize(self.hir_frames as isize + (demoted / non_resident).round().max(1.0) as isize);
        }
        let fault = status != Some(Status::Lir) && queued.is_none();
        let resident = self.lir_pages() + self.queue.len();
        let mut victim = None;
        if fault && resident == self.frames {
            let (evicted, _) = self.queue.remove(0);
            if let Some(entry) = self.stack.iter_mut().find(|entry| entry.0 == evicted) {
                entry.1 = Status::NonResident;
            }
            victim = Some(evicted);
        }
        let fills = fault && self.frames - resident > self.hir_frames;
        if fills || status.is_some() {
            self.stack.push((page, Status::Lir));
            self.demote_to(self.frames - self.hir_frames);
        } else {
            self.stack.push((page, Status::Resident));
            self.queue.push((page, false));
        }
        let is_non_resident = |entry: &(u32, Status)| entry.1 == Status::NonResident;
        if self.stack.iter().copied().filter(|entry| is_non_resident(entry)).count() > self.frames {
            let lowest = self.stack.iter().position(is_non_resident);
            self.stack.remove(lowest.expect("there are some"));
        }
        if fault { Step::fault(victim) } else { Step::hit() }
    }
}

/// DLIRS with `frames` frames, `hir_frames` of them for HIR pages at the start.
pub fn dlirs(references: &[u32], frames: usize, hir_frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let hir_frames = hir_frames.min(frames - 1).max(1);
    let mut model = Model { frames, hir_frames, stack: Vec::new(), queue: Vec::new() };
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let hir = given.pages("hir", Rounding::Down).max(given.pages("hir-min", Rounding::Nearest));
    dlirs(references, given.frames, hir)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::dlirs;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| dlirs(refs, frames, 2));
        assert_eq!(row, "9:234523 | 11:3453453 | 10:345678");
    }
}
