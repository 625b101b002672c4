//! RRIP, re-reference interval prediction: predicts how soon each page is used again and evicts a
//! page whose use is predicted to be distant.
//!
//! Paper: A. Jaleel, K. B. Theobald, S. C. Steely Jr., J. Emer, "High performance cache replacement
//! using re-reference interval prediction (RRIP)", ISCA 2010, with hit priority.
//!
//! Every page has a prediction RRPV of `bits` bits, from 0 (soon) to max (distant). A hit sets it
//! to 0. The victim is the first frame with max. If there is none, all predictions grow by 1 until
//! there is.
//! - `variant=srrip` (static) loads pages with max - 1, which resists scans.
//! - `brrip` (bimodal) loads pages with max, but one in 32 with max - 1, which resists thrashing.
//! - `drrip` (dynamic) always uses the first for pages with id mod 64 = 0 and the second for pages
//!   with id mod 64 = 1. A counter of the faults on these samples (PSEL, 10 bits) chooses for all
//!   other pages.
//!
//! Choices where the paper is silent: in a processor cache, samples are sets. Memory is one set, so
//! here samples are pages. PSEL starts at 512, which means brrip. The policy has to see every hit.
//! If it read bits at a fault, it would have to read all of them to age the right pages.
//!
//! ChampSim's DRRIP ages and evicts by the same rule. Its PSEL starts at 0, which means srrip, and
//! it counts to 32 where one in 32 is drawn here. A model written for the comparison equals this
//! policy in 23 of 23 cells of cpp, glimpse and multi2 (10 to 90 % of their pages). With both of
//! ChampSim's rules its faults change by -10.6 to +25.8 % (mean +5.6 %), because it stays with
//! srrip on traces as short as these. With the counter alone they change by -12.9 to +3.4 % (mean
//! -0.4 %).
//!
//! Frames with the same prediction are a bit tree, which finds the first at once. When all
//! predictions grow, the trees change their meaning and nothing moves.
//!
//! Cost: hit and fault a few words of two trees of depth 5 for 10^9 frames. `hand_steps` is 0.
//!
//! ```text
//!   insert --> max or max - 1      hit: 0
//!      0 --> 1 --> ... --> max     all together, when no page is at max
//!                           +--> evict the first frame
//! ```

use super::dip::Duel;
use crate::arguments::Parameter;
use crate::collections::{BitTree, FrameTable};
use crate::interface::ensure;
use crate::policies::recency::random::{SEED, generator};
use crate::registered::Registered;
use crate::{
    ArgumentError, Arguments, ExactModel, Info, Mmu, PageId, Policy, Reference, SplitMix64, Violation,
};
use alloc::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Static,
    Bimodal,
    Dynamic,
}

/// Re-reference interval prediction.
#[derive(Debug)]
pub struct Rrip {
    frames: FrameTable,
    /// For each tree the occupied frames in it. The frames with RRPV v are in tree (`zero` + v) mod
    /// (max + 1).
    trees: Vec<BitTree>,
    /// How many frames are in each tree.
    counts: Vec<usize>,
    /// The tree of each occupied frame; stale for others.
    tree: Vec<u8>,
    /// The tree of RRPV 0.
    zero: usize,
    variant: Variant,
    duel: Duel,
    random: SplitMix64,
}

impl Registered for Rrip {
    const INFO: Info = Info {
        name: "rrip",
        summary: "predicts when pages are used again: late for new ones, soon after a hit",
        paper: "Jaleel et al., High performance cache replacement using re-reference interval prediction, ISCA 2010",
        parameters: &[
            Parameter { name: "variant", default: "srrip", meaning: "srrip, brrip or drrip" },
            Parameter { name: "bits", default: "2", meaning: "bits of a prediction, 1 to 8" },
            SEED,
        ],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        let variants = [("srrip", Variant::Static), ("brrip", Variant::Bimodal), ("drrip", Variant::Dynamic)];
        let values = 1 << arguments.whole("bits", 1..=8)?;
        Ok(Self {
            frames: FrameTable::new(frames),
            trees: alloc::vec![BitTree::new(); values],
            counts: alloc::vec![0; values],
            tree: alloc::vec![0; frames],
            zero: 0,
            variant: arguments.choice("variant", &variants)?,
            duel: Duel::default(),
            random: generator(arguments)?,
        })
    }
}

/// Where loading is bimodal, one page in this many is loaded by the other rule.
const ONE_IN: u64 = 32;

impl Rrip {
    /// The tree of the largest RRPV less `steps`.
    fn tree_below_max(&self, steps: usize) -> usize {
        (self.zero + self.trees.len() - 1 - steps) % self.trees.len()
    }

    /// Files an occupied frame in a tree. The only place, with `unfile`, where trees and counts
    /// change.
    fn file(&mut self, frame: usize, tree: usize) {
        self.trees[tree].insert(frame as u32);
        self.counts[tree] += 1;
        self.tree[frame] = tree as u8;
    }

    fn unfile(&mut self, frame: usize) {
        let tree = usize::from(self.tree[frame]);
        self.trees[tree].remove(frame as u32);
        self.counts[tree] -= 1;
    }
}

impl Policy for Rrip {
    type Model = ExactModel;
    const IDS_MATTER_MODULO: u32 = Duel::PAGES_A_SAMPLE;

    fn fault(&mut self, reference: Reference) {
        self.duel.count_fault(reference.page);
    }

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        for _ in 0..self.trees.len() {
            if let Some(frame) = self.trees[self.tree_below_max(0)].min() {
                return self.frames.page(frame as usize);
            }
            // The tree of max is empty: as that of 0 it makes all the others mean one more.
            self.zero = self.tree_below_max(0);
        }
        None
    }

    fn evict(&mut self, page: PageId) {
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let bimodal = match self.variant {
            Variant::Static => false,
            Variant::Bimodal => true,
            Variant::Dynamic => self.duel.is_second(reference.page),
        };
        let distant = bimodal && self.random.below(ONE_IN) != 0;
        let frame = self.frames.occupy(reference.page);
        self.file(frame, self.tree_below_max(usize::from(!distant)));
        false
    }

    fn hit(&mut self, reference: Reference) {
        if let Some(frame) = self.frames.frame_of(reference.page) {
            self.unfile(frame);
            self.file(frame, self.zero);
        }
    }

    fn remove(&mut self, page: PageId) {
        if let Some(frame) = self.frames.frame_of(page) {
            self.unfile(frame);
            self.frames.vacate(frame);
        }
    }

    fn check(&self) -> Result<(), Violation> {
        let mut counts = alloc::vec![0; self.trees.len()];
        for frame in (0..self.frames.used()).filter(|&frame| self.frames.page(frame).is_some()) {
            counts[usize::from(self.tree[frame])] += 1;
        }
        ensure!(counts == self.counts, "trees have {:?} frames, but {counts:?} are occupied", self.counts);
        for (tree, &count) in self.trees.iter().zip(&self.counts) {
            let first = tree.min().map(|frame| frame as usize);
            ensure!(first.is_some() == (count > 0), "a tree of {count} frames begins with {first:?}");
            let occupied = first.is_none_or(|frame| self.frames.page(frame).is_some());
            ensure!(occupied, "vacant frame {first:?} has a prediction");
        }
        self.frames.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Machine;

    /// Each page with its RRPV by frame.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Rrip>::new("rrip", 3);
        let states = machine.trace(&[1, 2, 3, 1, 4, 5, 2, 6], |machine| {
            let rrip = machine.policy();
            let frame = |frame| {
                let values = rrip.trees.len();
                let value = (usize::from(rrip.tree[frame]) + values - rrip.zero) % values;
                Some(format!("{}:{value}", rrip.frames.page(frame)?))
            };
            (0..3).filter_map(frame).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(
            states,
            [
                "1:2",
                "1:2 2:2",
                "1:2 2:2 3:2",
                "1:0 2:2 3:2",
                "1:1 4:2 3:3", // all grow by 1; 2 is the first with 3
                "1:1 4:2 5:2",
                "1:2 2:2 5:3",
                "1:2 2:2 6:2",
            ]
        );
    }

    /// With a single bit all pages are loaded with 0: not recently used.
    #[test]
    fn one_bit_marks_the_pages_used_lately() {
        let mut machine = Machine::<Rrip>::new("rrip:bits=1", 3);
        let victims = [1, 2, 3, 4, 3, 5].map(|page| machine.access(page).victim);
        assert_eq!(victims, [None, None, None, Some(1), None, Some(2)]);
    }
}
