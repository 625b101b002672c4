//! LIRS2: LIRS with two references to each page in the stack.
//!
//! Decisions: a page that fills memory is LIR with one instance. The LIR page to demote is that of
//! the bottom of the pruned stack.

use super::{Given, Step};
use crate::arguments::Rounding;

#[derive(Debug)]
struct Model {
    frames: usize,
    hir_frames: usize,
    stack: Vec<u32>, // S, bottom first; a page is there up to twice
    lir: Vec<u32>,
    queue: Vec<u32>, // Q, front first
}

impl Model {
    fn prune(&mut self) {
        while self.stack.first().is_some_and(|page| !self.lir.contains(page)) {
            self.stack.remove(0);
        }
    }

    fn access(&mut self, page: u32) -> Step {
        let instances = self.stack.iter().filter(|&&other| other == page).count();
        let was_lir = self.lir.contains(&page);
        let fault = !was_lir && !self.queue.contains(&page);
        let resident = self.lir.len() + self.queue.len();
        let mut victim = None;
        if fault && resident == self.frames {
            victim = Some(self.queue.remove(0));
        }
        self.queue.retain(|&other| other != page);
        if instances == 2 {
            let older = self.stack.iter().position(|&other| other == page);
            self.stack.remove(older.expect("two were counted"));
        }
        self.stack.push(page);
        if fault && self.frames - resident > self.hir_frames {
            self.lir.push(page);
        } else if !was_lir && instances == 2 {
            self.lir.push(page);
            self.prune();
            if self.lir.len() > self.frames - self.hir_frames {
                let bottom = self.stack[0];
                self.stack.retain(|&other| other != bottom);
                self.lir.retain(|&other| other != bottom);
                self.queue.push(bottom);
            }
        } else if !was_lir {
            self.queue.push(page);
        }
        self.prune();
        if fault { Step::fault(victim) } else { Step::hit() }
    }
}

/// LIRS2 with `frames` frames, `hir_frames` of them for HIR pages.
pub fn lirs2(references: &[u32], frames: usize, hir_frames: usize) -> Vec<Step> {
    assert!(frames >= 1, "a memory has at least one frame");
    let hir_frames = hir_frames.min(frames - 1).max(1);
    let mut model = Model { frames, hir_frames, stack: Vec::new(), lir: Vec::new(), queue: Vec::new() };
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let hir = given.pages("hir", Rounding::Down).max(given.pages("hir-min", Rounding::Nearest));
    lirs2(references, given.frames, hir)
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes_on_examples;
    use super::lirs2;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let row = outcomes_on_examples(|refs, frames| lirs2(refs, frames, 1));
        assert_eq!(row, "8:34534 | 9:45454 | 9:45678");
    }
}
