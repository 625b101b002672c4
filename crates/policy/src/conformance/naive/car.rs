//! CAR, Clock with Adaptive Replacement: two clocks and two ghost lists.
//!
//! T1 and T2 hold the resident pages as queues with reference bits, B1 and B2 the pages evicted
//! from them in the order of eviction, and `p` is the target size of T1. A hit sets the bit and
//! does nothing else.
//!
//! Decisions:
//! * The bit of a loaded page is 0 in all cases, also of a page found in B1 or B2.
//! * The ghost lists are trimmed, and the ratios computed, with the sizes after the eviction; the
//!   ratios before the page leaves its ghost list. Whether the page is a ghost is asked after the
//!   eviction too, which changes nothing: an eviction only adds the victim.
//! * While frames are free there are no ghosts, because nothing was evicted, so neither trimming
//!   nor adaptation happens then.
//! * With `integer_ratio` the ratio is rounded down before it is compared with 1; `p` is then
//!   always whole.

use super::Step;

/// A resident page.
#[derive(Clone, Debug)]
struct Resident {
    page: u32,
    referenced: bool,
}

/// CAR with a state that can be printed.
#[derive(Clone, Debug)]
pub struct CarModel {
    frames: usize,
    integer_ratio: bool,
    t1: Vec<Resident>, // pages seen once lately, head first
    t2: Vec<Resident>, // pages seen at least twice, head first
    b1: Vec<u32>,      // ghosts of T1, least recently evicted first
    b2: Vec<u32>,      // ghosts of T2, least recently evicted first
    p: f64,            // target size of T1, from 0 to `frames`
}

impl CarModel {
    /// An empty memory. `integer_ratio` rounds the ratio of the ghost lists' sizes down.
    pub fn new(frames: usize, integer_ratio: bool) -> CarModel {
        assert!(frames >= 1, "a memory has at least one frame");
        let empty = Vec::new;
        CarModel { frames, integer_ratio, t1: Vec::new(), t2: Vec::new(), b1: empty(), b2: empty(), p: 0.0 }
    }

    /// One reference.
    pub fn access(&mut self, page: u32) -> Step {
        if let Some(entry) = self.t1.iter_mut().chain(&mut self.t2).find(|entry| entry.page == page) {
            entry.referenced = true;
            return Step::hit();
        }
        let mut victim = None;
        if self.t1.len() + self.t2.len() == self.frames {
            victim = Some(self.replace());
            if !self.b1.contains(&page) && !self.b2.contains(&page) {
                self.trim_ghosts();
            }
        }
        let entry = Resident { page, referenced: false };
        if let Some(position) = self.b1.iter().position(|&ghost| ghost == page) {
            let raised = self.p + self.ratio(self.b2.len(), self.b1.len());
            self.p = raised.min(self.frames as f64);
            self.b1.remove(position);
            self.t2.push(entry);
        } else if let Some(position) = self.b2.iter().position(|&ghost| ghost == page) {
            let lowered = self.p - self.ratio(self.b1.len(), self.b2.len());
            self.p = lowered.max(0.0);
            self.b2.remove(position);
            self.t2.push(entry);
        } else {
            self.t1.push(entry);
        }
        Step::fault(victim)
    }

    /// Frees one frame and returns its page, which becomes a ghost.
    fn replace(&mut self) -> u32 {
        loop {
            let from_t1 = self.t1.len() as f64 >= self.p.max(1.0);
            let head = if from_t1 { self.t1.remove(0) } else { self.t2.remove(0) };
            if head.referenced {
                self.t2.push(Resident { page: head.page, referenced: false });
                continue;
            }
            let ghosts = if from_t1 { &mut self.b1 } else { &mut self.b2 };
            ghosts.push(head.page);
            return head.page;
        }
    }

    /// Makes room in the history for a page that is in neither ghost list.
    fn trim_ghosts(&mut self) {
        let resident = self.t1.len() + self.t2.len();
        if self.t1.len() + self.b1.len() == self.frames {
            self.b1.remove(0);
        } else if resident + self.b1.len() + self.b2.len() == 2 * self.frames {
            self.b2.remove(0);
        }
    }

    /// The step of `p`: the other ghost list's size over the page's own, at least 1.
    fn ratio(&self, other: usize, own: usize) -> f64 {
        let ratio = if self.integer_ratio { (other / own) as f64 } else { other as f64 / own as f64 };
        ratio.max(1.0)
    }

    /// The four lists, the oldest page first, `*` a set bit:
    /// `T1 ['3'] T2 ['1*', '2'] B1 [5, 6] B2 [] p 1`.
    pub fn state(&self) -> String {
        let show = |clock: &[Resident]| -> String {
            let pages: Vec<String> = clock
                .iter()
                .map(|entry| format!("'{}{}'", entry.page, if entry.referenced { "*" } else { "" }))
                .collect();
            format!("[{}]", pages.join(", "))
        };
        format!("T1 {} T2 {} B1 {:?} B2 {:?} p {}", show(&self.t1), show(&self.t2), self.b1, self.b2, self.p)
    }
}

/// CAR with `frames` frames; `integer_ratio` is explained at [`CarModel::new`].
pub fn car(references: &[u32], frames: usize, integer_ratio: bool) -> Vec<Step> {
    let mut model = CarModel::new(frames, integer_ratio);
    references.iter().map(|&page| model.access(page)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{THIRD, for_random_strings, outcomes_on_examples, trace};
    use super::{CarModel, car};
    use sweephand_checks::trying;

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        for integer_ratio in [true, false] {
            let row = outcomes_on_examples(|refs, frames| car(refs, frames, integer_ratio));
            assert_eq!(row, "10:1234534 | 15:12345123451 | 10:345678", "integer ratio: {integer_ratio}");
        }
    }

    #[test]
    fn goes_through_the_known_states() {
        let mut model = CarModel::new(3, true);
        let lines = trace(THIRD, |page| (model.access(page), model.state()));
        let expected = "\
1 F [] T1 ['1'] T2 [] B1 [] B2 [] p 0
2 F [] T1 ['1', '2'] T2 [] B1 [] B2 [] p 0
3 F [] T1 ['1', '2', '3'] T2 [] B1 [] B2 [] p 0
1 h [] T1 ['1*', '2', '3'] T2 [] B1 [] B2 [] p 0
4 F [2] T1 ['3', '4'] T2 ['1'] B1 [2] B2 [] p 0
2 F [3] T1 ['4'] T2 ['1', '2'] B1 [3] B2 [] p 1
5 F [4] T1 ['5'] T2 ['1', '2'] B1 [3, 4] B2 [] p 1
1 h [] T1 ['5'] T2 ['1*', '2'] B1 [3, 4] B2 [] p 1
6 F [5] T1 ['6'] T2 ['1*', '2'] B1 [4, 5] B2 [] p 1
3 F [6] T1 ['3'] T2 ['1*', '2'] B1 [5, 6] B2 [] p 1
2 h [] T1 ['3'] T2 ['1*', '2*'] B1 [5, 6] B2 [] p 1
4 F [3] T1 ['4'] T2 ['1*', '2*'] B1 [6, 3] B2 [] p 1";
        assert_eq!(lines, expected);
    }

    #[test]
    fn invariants_hold() {
        for_random_strings(|references, frames| {
            for integer_ratio in [true, false] {
                let _input = trying(|| format!("integer ratio: {integer_ratio}"));
                let mut model = CarModel::new(frames, integer_ratio);
                for &page in references {
                    model.access(page);
                    let (t1, t2) = (model.t1.len(), model.t2.len());
                    let (b1, b2) = (model.b1.len(), model.b2.len());
                    assert!(t1 + t2 <= frames);
                    assert!(t1 + b1 <= frames);
                    assert!(t1 + t2 + b1 + b2 <= 2 * frames);
                    assert!(t1 + t2 == frames || b1 + b2 == 0);
                    assert!((0.0..=frames as f64).contains(&model.p));
                }
            }
        });
    }
}
