//! What is known of the pages of a block, so that most blocks need not be looked into.

/// Most corners of a summary.
const CORNERS: usize = 8;

/// When a page came into the virtual FIFO cache, how often it was used, and whether the virtual MRU
/// cache holds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Corner {
    /// Its place in the log of arrivals.
    pub(super) arrival: u32,
    /// The place in the log of uses of a page that is used as often. It says where that page is in
    /// the virtual LFU cache.
    pub(super) place: u32,
    /// Its use count in the virtual LFU cache; 0 if that does not hold it.
    pub(super) uses: u64,
    /// Otherwise its rank in MRU is 0.
    pub(super) in_mru: bool,
}

impl Corner {
    /// Whether a page with another corner precedes this one neither in FIFO nor in LFU nor in MRU,
    /// wherever it is in the block.
    #[inline]
    fn is_below(&self, other: &Self) -> bool {
        self.arrival <= other.arrival
            && (self.uses, self.place) <= (other.uses, other.place)
            && self.in_mru <= other.in_mru
    }

    /// The corner that is below both.
    #[inline]
    fn below(self, other: Self) -> Self {
        let Self { uses, place, .. } =
            if (self.uses, self.place) <= (other.uses, other.place) { self } else { other };
        let in_mru = self.in_mru && other.in_mru;
        Self { arrival: self.arrival.min(other.arrival), place, uses, in_mru }
    }
}

/// What is known of the resident pages of a block of the log of uses, or of a group of blocks, as
/// long as it takes in no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    /// By rising arrival. One of them is below each page.
    corners: [Corner; CORNERS],
    len: usize,
}

impl Summary {
    /// That of no page.
    pub(super) const NONE: Self =
        Self { corners: [Corner { arrival: 0, place: 0, uses: 0, in_mru: false }; CORNERS], len: 0 };

    /// The corners, by rising arrival.
    #[inline]
    pub(super) fn corners(&self) -> &[Corner] {
        &self.corners[..self.len]
    }

    /// The corners, whose order must stay.
    pub(super) fn corners_mut(&mut self) -> &mut [Corner] {
        &mut self.corners[..self.len]
    }

    /// Takes in a page or the corner of several.
    #[inline]
    pub(super) fn take(&mut self, new: Corner) {
        if !self.corners().iter().any(|corner| corner.is_below(&new)) {
            self.add(new);
        }
    }

    /// Adds a corner, and joins the two that are closest in arrival if there are too many.
    fn add(&mut self, new: Corner) {
        let mut corners = [new; CORNERS + 1];
        let mut len = 0;
        let kept = self.corners().iter().filter(|corner| !new.is_below(corner));
        for corner in kept.clone().filter(|corner| corner.arrival < new.arrival) {
            corners[len] = *corner;
            len += 1;
        }
        len += 1;
        for corner in kept.filter(|corner| corner.arrival >= new.arrival) {
            corners[len] = *corner;
            len += 1;
        }
        if len > CORNERS {
            let gap = |index: &usize| {
                let [one, next] = [corners[*index], corners[index + 1]];
                (one.in_mru != next.in_mru, next.arrival - one.arrival)
            };
            let closest = (0..CORNERS).min_by_key(gap).expect("there are several");
            corners[closest] = corners[closest].below(corners[closest + 1]);
            corners.copy_within(closest + 2.., closest + 1);
            len = CORNERS;
        }
        self.corners.copy_from_slice(&corners[..CORNERS]);
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use alloc::vec::Vec;

    /// Whatever is joined, one of the corners is below each page taken in.
    #[test]
    fn a_corner_is_below_each_page() {
        let mut random = SplitMix64::new(1);
        let mut most = 0;
        for _ in 0..1000 {
            let mut summary = Summary::NONE;
            let pages: Vec<Corner> = (0..64)
                .map(|place| Corner {
                    arrival: random.below(1000) as u32,
                    place,
                    uses: random.below(50),
                    in_mru: random.below(3) > 0,
                })
                .collect();
            for page in &pages {
                summary.take(*page);
            }
            most = most.max(summary.corners().len());
            assert!(summary.corners().is_sorted_by_key(|corner| corner.arrival), "{pages:?}");
            for page in &pages {
                assert!(summary.corners().iter().any(|corner| corner.is_below(page)), "{page:?}");
            }
        }
        assert_eq!(most, CORNERS);
    }
}
