//! CLOCK, second chance: an array of frames, a reference bit per frame, one hand.
//!
//! On a fault with memory full the hand clears set bits and advances until it meets a clear one;
//! that frame's page is evicted, the new page takes the same frame with its bit at `init`, and the
//! hand advances by one.
//!
//! Decision: while frames are free the hand stays at frame 0 and the bit of a loaded page is
//! `fill_init`.

use super::{Given, Step};

/// CLOCK with a state that can be printed.
#[derive(Clone, Debug)]
pub struct ClockModel {
    frames: usize,
    init: bool,
    fill_init: bool,
    ring: Vec<(u32, bool)>, // page and reference bit of the occupied frames
    hand: usize,            // the frame looked at first by the next replacement
}

impl ClockModel {
    /// An empty memory. `init` is the reference bit of a page loaded by a replacement, `fill_init`
    /// that of a page loaded into a free frame.
    pub fn new(frames: usize, init: bool, fill_init: bool) -> ClockModel {
        assert!(frames >= 1, "a memory has at least one frame");
        ClockModel { frames, init, fill_init, ring: Vec::new(), hand: 0 }
    }

    /// One reference.
    pub fn access(&mut self, page: u32) -> Step {
        if let Some(frame) = self.ring.iter_mut().find(|frame| frame.0 == page) {
            frame.1 = true;
            return Step::hit();
        }
        if self.ring.len() < self.frames {
            self.ring.push((page, self.fill_init));
            return Step::fault(None);
        }
        while self.ring[self.hand].1 {
            self.ring[self.hand].1 = false;
            self.hand = (self.hand + 1) % self.frames;
        }
        let victim = self.ring[self.hand].0;
        self.ring[self.hand] = (page, self.init);
        self.hand = (self.hand + 1) % self.frames;
        Step::fault(Some(victim))
    }

    /// The frames as (page, bit), then the hand: `[(4, 1), (2, 0), (3, 0)] hand 1`.
    pub fn state(&self) -> String {
        let frames: Vec<(u32, u8)> = self.ring.iter().map(|&(page, bit)| (page, u8::from(bit))).collect();
        format!("{frames:?} hand {}", self.hand)
    }
}

/// CLOCK with `frames` frames; the bits are explained at [`ClockModel::new`].
pub fn clock(references: &[u32], frames: usize, init: bool, fill_init: bool) -> Vec<Step> {
    let mut model = ClockModel::new(frames, init, fill_init);
    references.iter().map(|&page| model.access(page)).collect()
}

/// The model with the policy's arguments.
pub(super) fn model(given: &Given<'_>, references: &[u32]) -> Vec<Step> {
    let frames = given.frames;
    let init = given.on("init");
    let fill_init = if given.arguments.is_given("fill-init") { given.on("fill-init") } else { init };
    clock(references, frames, init, fill_init)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{E1, SECOND, outcome, outcomes_on_examples, trace};
    use super::{ClockModel, clock};

    #[test]
    fn takes_the_known_victims_on_the_examples() {
        let rows =
            [false, true].map(|init| outcomes_on_examples(|refs, frames| clock(refs, frames, init, init)));
        assert_eq!(rows[0], "10:1234512 | 15:12345123451 | 10:345678");
        assert_eq!(rows[1], "9:123412 | 15:12345123451 | 12:13425678");
    }

    #[test]
    fn takes_the_known_victims_on_the_second_string() {
        assert_eq!(outcome(&clock(SECOND, 4, false, false)), "17:1235624751634");
        assert_eq!(outcome(&clock(SECOND, 4, true, true)), "16:123462571634");
    }

    #[test]
    fn goes_through_the_known_states_with_init_0() {
        let mut model = ClockModel::new(3, false, false);
        let lines = trace(E1, |page| (model.access(page), model.state()));
        let expected = "\
1 F [] [(1, 0)] hand 0
2 F [] [(1, 0), (2, 0)] hand 0
3 F [] [(1, 0), (2, 0), (3, 0)] hand 0
4 F [1] [(4, 0), (2, 0), (3, 0)] hand 1
1 F [2] [(4, 0), (1, 0), (3, 0)] hand 2
2 F [3] [(4, 0), (1, 0), (2, 0)] hand 0
5 F [4] [(5, 0), (1, 0), (2, 0)] hand 1
1 h [] [(5, 0), (1, 1), (2, 0)] hand 1
2 h [] [(5, 0), (1, 1), (2, 1)] hand 1
3 F [5] [(3, 0), (1, 0), (2, 0)] hand 1
4 F [1] [(3, 0), (4, 0), (2, 0)] hand 2
5 F [2] [(3, 0), (4, 0), (5, 0)] hand 0";
        assert_eq!(lines, expected);
    }

    #[test]
    fn goes_through_the_known_states_with_init_1() {
        let mut model = ClockModel::new(3, true, true);
        let lines = trace(E1, |page| (model.access(page), model.state()));
        let expected = "\
1 F [] [(1, 1)] hand 0
2 F [] [(1, 1), (2, 1)] hand 0
3 F [] [(1, 1), (2, 1), (3, 1)] hand 0
4 F [1] [(4, 1), (2, 0), (3, 0)] hand 1
1 F [2] [(4, 1), (1, 1), (3, 0)] hand 2
2 F [3] [(4, 1), (1, 1), (2, 1)] hand 0
5 F [4] [(5, 1), (1, 0), (2, 0)] hand 1
1 h [] [(5, 1), (1, 1), (2, 0)] hand 1
2 h [] [(5, 1), (1, 1), (2, 1)] hand 1
3 F [1] [(5, 0), (3, 1), (2, 0)] hand 2
4 F [2] [(5, 0), (3, 1), (4, 1)] hand 0
5 h [] [(5, 1), (3, 1), (4, 1)] hand 0";
        assert_eq!(lines, expected);
    }
}
