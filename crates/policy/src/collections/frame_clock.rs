//! Frames in a circle, and a hand.

use super::FrameTable;
use crate::{PageId, Violation};

/// The frames between the hand and that whose page is fetched meanwhile.
const AHEAD: usize = 16;

/// The frames of memory in a circle, with a hand that looks for a victim.
///
/// ```text
/// frames  a  b  c  d      b: spared, on      c: the victim; its frame is filled, the hand goes on
///            ^ hand
/// ```
///
/// What spares a page is the policy's business. 4 bytes a frame, as [`FrameTable`].
#[derive(Clone, Debug)]
pub struct FrameClock {
    frames: FrameTable,
    /// The next frame to look at.
    hand: usize,
    /// Frames looked at.
    steps: u64,
}

impl FrameClock {
    /// A clock over `frames` vacant frames, with the hand at the first.
    pub fn new(frames: usize) -> Self {
        Self { frames: FrameTable::new(frames), hand: 0, steps: 0 }
    }

    /// Frames that have been used: a turn of the hand.
    #[inline]
    pub fn used(&self) -> usize {
        self.frames.used()
    }

    /// Whether some frame was never used.
    #[inline]
    pub fn is_filling(&self) -> bool {
        self.frames.is_filling()
    }

    /// The page at which the hand stops: the first that is not spared, or after `looks` frames any.
    /// `is_spared(page, can_be)` is asked once for each page that the hand comes to; at the end
    /// `can_be` is false. `None` if no frame is occupied.
    #[inline(always)]
    pub fn find(
        &mut self,
        mut looks: usize,
        mut is_spared: impl FnMut(PageId, bool) -> bool,
    ) -> Option<PageId> {
        if self.frames.is_empty() {
            return None;
        }
        loop {
            if let Some(page) = self.frames.page(self.hand) {
                self.steps += 1;
                if !is_spared(page, looks > 0) || looks == 0 {
                    return Some(page);
                }
            }
            self.hand = self.frames.after(self.hand);
            looks = looks.saturating_sub(1);
        }
    }

    /// A page that the hand comes to soon, if it is still there.
    #[inline]
    pub fn soon(&self) -> Option<PageId> {
        self.frames.page(self.hand + AHEAD)
    }

    /// Empties the frame under the hand, which is the victim's. The hand goes on.
    #[inline(always)]
    pub fn evict(&mut self, page: PageId) {
        // The hand rests on the victim, so its frame need not be looked up.
        debug_assert_eq!(self.frames.page(self.hand), Some(page));
        self.frames.vacate(self.hand);
        self.hand = self.frames.after(self.hand);
    }

    /// Puts a page into a vacant frame: that of the latest victim, if it is the only one.
    #[inline(always)]
    pub fn insert(&mut self, page: PageId) {
        self.frames.occupy(page);
    }

    /// Empties the frame of a page, if it has one.
    pub fn remove(&mut self, page: PageId) {
        if let Some(frame) = self.frames.frame_of(page) {
            self.frames.vacate(frame);
        }
    }

    /// The pages by frame, and whether the hand is there.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, bool)> {
        (0..self.frames.used()).filter_map(|frame| Some((self.frames.page(frame)?, frame == self.hand)))
    }

    /// Frames looked at since the start.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Checks the frames.
    pub fn check(&self) -> Result<(), Violation> {
        self.frames.check()
    }
}
