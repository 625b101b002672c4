//! Which page is in which frame.

use super::PageMap;
use crate::interface::ensure;
use crate::{PageId, Violation};
use alloc::{collections::VecDeque, vec::Vec};

const VACANT: u32 = u32::MAX;

/// Frames by number, for policies whose hand goes round physical memory.
///
/// Frames are handed out in order 0, 1, 2, ... at first and then in the order in which they fell
/// vacant, so that with one eviction per fault a page takes the very frame of the page that it
/// replaced. Every operation is O(1). 4 bytes a frame; 4 more a page once [`FrameTable::frame_of`]
/// has been asked for the first time, which takes O(M) that once. (Only pages that are unmapped are
/// looked up, and many programs unmap none.)
#[derive(Clone, Debug)]
pub struct FrameTable {
    /// The page in each frame that has been used; memory can be far larger than what is ever used
    /// of it.
    pages: Vec<u32>,
    /// How many frames there are.
    frames: usize,
    /// The frame of each page, if anyone has asked.
    frame: Option<PageMap<u32>>,
    /// The frame that has been vacant longest, or `VACANT`: with one eviction a fault the only one
    /// there is.
    next_vacant: u32,
    /// The vacant frames after that, the oldest in front.
    vacated: VecDeque<u32>,
}

impl FrameTable {
    /// A table of `frames` vacant frames.
    pub fn new(frames: usize) -> Self {
        Self { pages: Vec::new(), frames, frame: None, next_vacant: VACANT, vacated: VecDeque::new() }
    }

    /// How many frames have been used; the others are behind them.
    #[inline]
    pub fn used(&self) -> usize {
        self.pages.len()
    }

    /// Whether no frame is occupied.
    pub fn is_empty(&self) -> bool {
        self.pages.len() == self.vacant()
    }

    /// The frame after this one, for a hand that goes round those that have been used.
    #[inline(always)]
    pub fn after(&self, frame: usize) -> usize {
        if frame + 1 >= self.used() { 0 } else { frame + 1 }
    }

    /// The pages in frames, by frame.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        self.pages.iter().filter(|page| **page != VACANT).map(|page| PageId(*page))
    }

    /// The page in a frame.
    #[inline]
    pub fn page(&self, frame: usize) -> Option<PageId> {
        self.pages.get(frame).filter(|page| **page != VACANT).map(|page| PageId(*page))
    }

    /// The frame of a page.
    pub fn frame_of(&mut self, page: PageId) -> Option<usize> {
        let frames = self.frame.get_or_insert_with(|| {
            let mut frames = PageMap::new();
            let occupied = self.pages.iter().enumerate().filter(|(_, page)| **page != VACANT);
            occupied.for_each(|(frame, &page)| frames.set(PageId(page), frame as u32));
            frames
        });
        let frame = frames.get(page) as usize;
        (self.pages.get(frame) == Some(&page.0)).then_some(frame)
    }

    /// Puts a page into the next vacant frame. Panics if there is none.
    #[inline(always)]
    pub fn occupy(&mut self, page: PageId) -> usize {
        let frame = match self.next_vacant {
            VACANT => self.use_new_frame(),
            frame => frame as usize,
        };
        self.next_vacant = if self.vacated.is_empty() { VACANT } else { self.next_vacated() };
        self.pages[frame] = page.0;
        if let Some(frames) = &mut self.frame {
            frames.set(page, frame as u32);
        }
        frame
    }

    /// Empties a frame.
    #[inline(always)]
    pub fn vacate(&mut self, frame: usize) {
        debug_assert_ne!(self.pages[frame], VACANT);
        self.pages[frame] = VACANT;
        if self.next_vacant == VACANT {
            self.next_vacant = frame as u32;
        } else {
            self.vacated.push_back(frame as u32);
        }
    }

    #[cold]
    fn use_new_frame(&mut self) -> usize {
        assert!(self.is_filling(), "every frame is occupied");
        self.pages.push(VACANT);
        self.pages.len() - 1
    }

    #[cold]
    fn next_vacated(&mut self) -> u32 {
        self.vacated.pop_front().unwrap_or(VACANT)
    }

    /// Vacant frames among those that have been used.
    fn vacant(&self) -> usize {
        usize::from(self.next_vacant != VACANT) + self.vacated.len()
    }

    /// Whether some frame was never used.
    pub fn is_filling(&self) -> bool {
        self.pages.len() < self.frames
    }

    /// Checks that pages and frames point at one another and that vacant frames are accounted for.
    pub fn check(&self) -> Result<(), Violation> {
        let mut vacant = 0;
        for (frame, &page) in self.pages.iter().enumerate() {
            if page == VACANT {
                vacant += 1;
            } else if let Some(frames) = &self.frame {
                let points_to = frames.get(PageId(page)) as usize;
                ensure!(points_to == frame, "frame {frame} holds page {page}, which points to {points_to}");
            }
        }
        ensure!(vacant == self.vacant(), "{vacant} vacant frames, {} accounted for", self.vacant());
        ensure!(self.next_vacant != VACANT || self.vacated.is_empty(), "vacant frames without a first one");
        ensure!(self.pages.len() <= self.frames, "{} frames in use", self.pages.len());
        Ok(())
    }
}
