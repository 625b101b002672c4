//! The hand of WSCLOCK and its relatives. It goes once round the frames and cleans dirty pages on
//! the way.

use crate::collections::FrameTable;
use crate::{PageId, Reclaim, TaskMmu, Violation};

/// Frames in a circle with a pointer that rests on the page replaced last (Carr and Hennessy 1981).
/// What makes a page replaceable is the policy's business.
///
/// ```text
/// frames  a  b  c  d  e  f      a: not replaceable         on    d: replaceable, dirty  clean it, on
///         ^ pointer             b: replaceable, busy       on    e: replaceable, clean  the victim
/// ```
///
/// 8 bytes a frame and 4 a page.
#[derive(Clone, Debug)]
pub struct CleaningClock {
    frames: FrameTable,
    /// The frame looked at last.
    hand: usize,
    /// Pages looked at.
    steps: u64,
}

impl CleaningClock {
    /// A clock over that many vacant frames; the first look will be at frame 0.
    pub fn new(frames: usize) -> Self {
        Self { frames: FrameTable::new(frames), hand: frames.saturating_sub(1), steps: 0 }
    }

    /// Goes round once at most and stops at the first page that is replaceable, clean and not busy.
    /// Replaceable dirty pages are cleaned and passed. `replaceable(page, frame, mmu)` is asked
    /// once a page.
    #[inline]
    pub fn circuit<M: TaskMmu>(
        &mut self,
        mmu: &mut M,
        mut replaceable: impl FnMut(PageId, usize, &mut M) -> bool,
    ) -> Reclaim {
        let mut awaited = false;
        for _ in 0..self.frames.used() {
            self.hand = self.frames.after(self.hand);
            let Some(page) = self.frames.page(self.hand) else { continue };
            self.steps += 1;
            if replaceable(page, self.hand, mmu) {
                match available(page, mmu) {
                    true => return Reclaim::Evict(page),
                    false => awaited = true,
                }
            }
        }
        if awaited { Reclaim::Wait } else { Reclaim::Overcommitted }
    }

    /// The frame of a resident page.
    pub fn frame_of(&mut self, page: PageId) -> Option<usize> {
        self.frames.frame_of(page)
    }

    /// Puts a page into a vacant frame, which is returned: that of the page replaced last, if it is
    /// the only one.
    pub fn insert(&mut self, page: PageId) -> usize {
        self.frames.occupy(page)
    }

    /// Empties the frame of a page, if it has one.
    pub fn remove(&mut self, page: PageId) {
        // The victim is found under the hand; elsewhere are pages of tasks that end.
        let frame = match self.frames.page(self.hand) {
            Some(under_hand) if under_hand == page => Some(self.hand),
            _ => self.frames.frame_of(page),
        };
        if let Some(frame) = frame {
            self.frames.vacate(frame);
        }
    }

    /// The page in a frame.
    pub fn page(&self, frame: usize) -> Option<PageId> {
        self.frames.page(frame)
    }

    /// The pages with their frames, by frame.
    pub fn pages(&self) -> impl Iterator<Item = (usize, PageId)> {
        (0..self.frames.used()).filter_map(|frame| Some((frame, self.frames.page(frame)?)))
    }

    /// Pages looked at since the start.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Checks the frames.
    pub fn check(&self) -> Result<(), Violation> {
        self.frames.check()
    }
}

/// Whether a replaceable page can be replaced at once. If it is dirty its cleaning begins.
#[inline]
pub(crate) fn available<M: TaskMmu>(page: PageId, mmu: &mut M) -> bool {
    if mmu.is_busy(page) {
        return false;
    }
    let clean = !mmu.is_dirty(page);
    if !clean {
        mmu.start_cleaning(page);
    }
    clean
}
