//! ARC, Adaptive Replacement Cache: LRU lists T1 and T2, ghost lists B1 and B2, and the target size
//! of T1.

use super::Step;

/// ARC with a state that can be printed.
#[derive(Clone, Debug)]
pub struct ArcModel {
    frames: usize,
    t1: Vec<u32>, // all four: least recent first
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
    p: f64, // target size of T1
}

fn take(list: &mut Vec<u32>, page: u32) -> bool {
    let before = list.len();
    list.retain(|&other| other != page);
    list.len() < before
}

impl ArcModel {
    /// An empty memory.
    pub fn new(frames: usize) -> ArcModel {
        assert!(frames >= 1, "a memory has at least one frame");
        let empty = Vec::new;
        ArcModel { frames, t1: empty(), t2: empty(), b1: empty(), b2: empty(), p: 0.0 }
    }

    /// One reference: the four cases of the paper's Figure 4.
    pub fn access(&mut self, page: u32) -> Step {
        let m = self.frames;
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
            return Step::hit();
        }
        if self.b1.contains(&page) {
            let ratio = self.b2.len() as f64 / self.b1.len() as f64;
            self.p = (self.p + ratio.max(1.0)).min(m as f64);
            let victim = self.replace(false);
            take(&mut self.b1, page);
            self.t2.push(page);
            return Step::fault(victim);
        }
        if self.b2.contains(&page) {
            let ratio = self.b1.len() as f64 / self.b2.len() as f64;
            self.p = (self.p - ratio.max(1.0)).max(0.0);
            let victim = self.replace(true);
            take(&mut self.b2, page);
            self.t2.push(page);
            return Step::fault(victim);
        }
        let victim;
        if self.t1.len() + self.b1.len() == m {
            if self.t1.len() < m {
                self.b1.remove(0);
                victim = self.replace(false);
            } else {
                victim = Some(self.t1.remove(0));
            }
        } else {
            if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() == 2 * m {
                self.b2.remove(0);
            }
            victim = self.replace(false);
        }
        self.t1.push(page);
        Step::fault(victim)
    }

    /// Frees a frame if none is free and returns its page, which becomes a ghost.
    fn replace(&mut self, in_b2: bool) -> Option<u32> {
        if self.t1.len() + self.t2.len() < self.frames {
            return None;
        }
        let t1 = self.t1.len() as f64;
        let (list, ghosts) = if !self.t1.is_empty() && (t1 > self.p || (in_b2 && t1 == self.p)) {
            (&mut self.t1, &mut self.b1)
        } else {
            (&mut self.t2, &mut self.b2)
        };
        let victim = list.remove(0);
        ghosts.push(victim);
        Some(victim)
    }

    /// `T1 [3] T2 [1, 2] B1 [5, 6] B2 [] p 0`, the oldest page first.
    pub fn state(&self) -> String {
        format!("T1 {:?} T2 {:?} B1 {:?} B2 {:?} p {}", self.t1, self.t2, self.b1, self.b2, self.p)
    }
}

/// ARC with `frames` frames.
pub fn arc(references: &[u32], frames: usize) -> Vec<Step> {
    let mut model = ArcModel::new(frames);
    references.iter().map(|&page| model.access(page)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{THIRD, outcomes_on_examples, trace};
    use super::{ArcModel, arc};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        assert_eq!(outcomes_on_examples(arc), "10:1234531 | 15:12345123451 | 10:345678");
    }

    #[test]
    fn goes_through_the_known_states() {
        let mut model = ArcModel::new(3);
        let lines = trace(THIRD, |page| (model.access(page), model.state()));
        let expected = "\
1 F [] T1 [1] T2 [] B1 [] B2 [] p 0
2 F [] T1 [1, 2] T2 [] B1 [] B2 [] p 0
3 F [] T1 [1, 2, 3] T2 [] B1 [] B2 [] p 0
1 h [] T1 [2, 3] T2 [1] B1 [] B2 [] p 0
4 F [2] T1 [3, 4] T2 [1] B1 [2] B2 [] p 0
2 F [3] T1 [4] T2 [1, 2] B1 [3] B2 [] p 1
5 F [1] T1 [4, 5] T2 [2] B1 [3] B2 [1] p 1
1 F [4] T1 [5] T2 [2, 1] B1 [3, 4] B2 [] p 0
6 F [5] T1 [6] T2 [2, 1] B1 [4, 5] B2 [] p 0
3 F [6] T1 [3] T2 [2, 1] B1 [5, 6] B2 [] p 0
2 h [] T1 [3] T2 [1, 2] B1 [5, 6] B2 [] p 0
4 F [3] T1 [4] T2 [1, 2] B1 [6, 3] B2 [] p 0";
        assert_eq!(lines, expected);
    }
}
