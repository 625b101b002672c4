//! RANDOM: evicts any page.
//!
//! L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
//! Journal 5(2), 1966. No string is particularly bad for it, so on loops it is better than LRU.
//!
//! One random number is drawn for each replacement and none otherwise. It names a frame, and the
//! new page takes that frame. The number stays until a page has been evicted, so asking again gives
//! the same answer. While frames are free, pages move up to fill the gaps, and the number names a
//! place among them.
//!
//! Cost: hit nothing; fault O(1).
//!
//! ```text
//! frames  a b c d     below(4) = 2: c goes, x takes its place: a b x d
//! ```

use crate::arguments::Parameter;
use crate::collections::PageMap;
use crate::interface::ensure;
use crate::registered::Registered;
use crate::{ArgumentError, Arguments, Info, Mmu, PageId, Policy, Reference, SplitMix64, Violation, VmModel};
use alloc::vec::Vec;

/// Random replacement.
#[derive(Debug)]
pub struct Random {
    frames: usize,
    /// Resident pages by place.
    resident: Vec<PageId>,
    /// 1 + the place of each page; 0 for pages that are not resident.
    place: PageMap<u32>,
    /// Places vacated and not refilled. New pages take them, the latest first.
    vacated: Vec<u32>,
    random: SplitMix64,
    /// The random number of the replacement under way.
    draw: Option<u64>,
}

impl Registered for Random {
    const INFO: Info = Info {
        name: "random",
        summary: "evicts any page",
        paper: "Belady, A study of replacement algorithms for a virtual-storage computer, 1966",
        parameters: &[SEED],
        presets: &[],
    };

    fn configure(frames: usize, arguments: &Arguments) -> Result<Self, ArgumentError> {
        Ok(Self {
            frames,
            resident: Vec::new(),
            place: PageMap::new(),
            vacated: Vec::new(),
            random: generator(arguments)?,
            draw: None,
        })
    }
}

pub(in crate::policies) const SEED: Parameter =
    Parameter { name: "seed", default: "1", meaning: "where the random numbers start" };

/// The random numbers of a policy that takes [`SEED`].
pub(in crate::policies) fn generator(arguments: &Arguments) -> Result<SplitMix64, ArgumentError> {
    Ok(SplitMix64::new(arguments.whole(SEED.name, 0..=u64::MAX)?))
}

impl Policy for Random {
    type Model = VmModel;

    fn victim<M: Mmu>(&mut self, _: &mut M) -> Option<PageId> {
        if self.resident.is_empty() {
            return None;
        }
        let draw = *self.draw.get_or_insert_with(|| self.random.next_u64());
        // As SplitMix64::below does it, for as many pages as there are now.
        let place = (u128::from(draw) * self.resident.len() as u128) >> 64;
        Some(self.resident[place as usize])
    }

    fn evict(&mut self, page: PageId) {
        self.draw = None;
        self.remove(page);
    }

    fn insert<M: Mmu>(&mut self, reference: Reference, _: &mut M) -> bool {
        let last = self.resident.len();
        let place = self.vacated.pop().map_or(last, |place| place as usize);
        // Undoes, for the latest vacated place, what `remove` did.
        self.resident.push(reference.page);
        self.resident.swap(place, last);
        self.place.set(self.resident[last], last as u32 + 1);
        self.place.set(reference.page, place as u32 + 1);
        false
    }

    fn remove(&mut self, page: PageId) {
        let Some(place) = self.place.get(page).checked_sub(1) else { return };
        self.place[page] = 0;
        self.resident.swap_remove(place as usize);
        if let Some(&moved) = self.resident.get(place as usize) {
            self.place[moved] = place + 1;
        }
        self.vacated.push(place);
    }

    fn check(&self) -> Result<(), Violation> {
        ensure!(self.resident.len() <= self.frames, "{} pages resident", self.resident.len());
        ensure!(
            self.resident.len() + self.vacated.len() <= self.frames,
            "{} vacated places beside {} pages",
            self.vacated.len(),
            self.resident.len()
        );
        for (place, &page) in (1..).zip(&self.resident) {
            let known = self.place[page];
            ensure!(known == place, "page {page} is at place {place} and known at {known} (from 1)");
        }
        let known = self.place.iter().filter(|(_, place)| *place != 0).count();
        ensure!(known == self.resident.len(), "{known} pages have a place");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{E1, Machine, for_random_strings, outcome, run};

    /// The first numbers below 3 from seed 1 name the frames of the victims.
    #[test]
    fn follows_the_worked_example() {
        let mut machine = Machine::<Random>::new("random", 3);
        let states = machine.trace(E1, |machine| {
            format!("{:?}", machine.policy().resident.iter().map(|page| page.0).collect::<Vec<_>>())
        });
        let mut random = SplitMix64::new(1);
        let draws: Vec<u64> = (0..7).map(|_| random.below(3)).collect();
        assert_eq!(draws, [1, 2, 2, 1, 1, 2, 2]);
        assert_eq!(
            states,
            [
                "[1]",
                "[1, 2]",
                "[1, 2, 3]",
                "[1, 4, 3]",
                "[1, 4, 3]", // a hit
                "[1, 4, 2]",
                "[1, 4, 5]",
                "[1, 4, 5]",
                "[1, 2, 5]",
                "[1, 3, 5]",
                "[1, 3, 4]",
                "[1, 3, 5]",
            ]
        );
    }

    #[test]
    fn one_frame_leaves_no_choice() {
        for_random_strings(|string, _| assert_eq!(run("random", string, 1), run("fifo", string, 1)));
    }

    #[test]
    fn another_seed_is_another_choice() {
        assert_ne!(outcome(&run("random", E1, 3)), outcome(&run("random:seed=2", E1, 3)));
    }
}
