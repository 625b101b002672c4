//! Staging: where pages are between the program and the store.
//!
//! An area of batches. A batch takes evicted pages, one write or a few, or a window of pages being read. The whole area
//! counts as used memory, full or not.
//!
//! **A frame that was the program's is never written to.** Evicted pages come in by `UFFDIO_MOVE`: frames change hands,
//! bytes stay. But the kernel may hold such a frame beyond that: a pipe that it was vmspliced into, a socket that sends from it
//! without a copy. `UFFDIO_MOVE` refuses frames that are pinned; of mere references it knows nothing, and nobody else can
//! tell. So after the write the frames are given back, and whoever holds one has the last bytes that the program wrote to
//! it. Reads go to frames that only ever were the pager's, and from there by copies.
//!
//! Limbo is address space beside it, a place for every page id: a page unmapped to see whether it is still in use goes
//! there with its frame. It has segments of 256 MiB, mapped when the first id of one is met.

use crate::memfd::advise;
use crate::own;
use alloc::vec;
use alloc::vec::Vec;
use linux_raw_sys::general::MADV_DONTNEED;
use rustix::io::Errno;
use sweephand_policy::PageId;
use sweephand_uffd::{PAGE_BYTES, Userfaultfd};

/// Pages of a limbo segment.
const SEGMENT_PAGES: usize = 1 << 16;

/// Bytes of a limbo segment.
pub const SEGMENT_BYTES: usize = SEGMENT_PAGES * PAGE_BYTES;

/// What a batch is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing. Its first `filled` pages have frames of the pager's own.
    Free,
    /// Being written.
    Writing,
    /// Being read.
    Reading,
}

/// A batch.
#[derive(Debug)]
pub struct Batch {
    /// What it is doing.
    pub phase: Phase,
    /// The pages in it, in order.
    pub pages: Vec<PageId>,
    /// Their slots, while they are being written.
    pub slots: Vec<u32>,
    /// Requests under way.
    pub requests: usize,
    /// Pages from the start on that have frames, while it is free. None of these frames was ever the program's.
    pub filled: usize,
}

/// The staging area and limbo.
#[derive(Debug)]
pub struct Staging {
    /// Address of the first batch.
    start: usize,
    /// Pages of a batch.
    batch_pages: usize,
    /// The batches.
    pub batches: Vec<Batch>,
    /// Address of each limbo segment.
    limbo: Vec<usize>,
    /// Address of as many zeros as a batch takes.
    zeros: usize,
    /// Address of a page for what is read in between.
    scratch: usize,
}

impl Staging {
    /// Maps an area of `batches` batches of `batch_pages` pages, with no frames yet. `None` if there is no address
    /// space for it.
    pub fn new(batches: usize, batch_pages: usize) -> Option<Self> {
        let batch = || Batch {
            phase: Phase::Free,
            pages: Vec::with_capacity(batch_pages),
            slots: Vec::with_capacity(batch_pages),
            requests: 0,
            filled: 0,
        };
        Some(Self {
            start: own::map(batches * batch_pages * PAGE_BYTES)?,
            batch_pages,
            batches: (0..batches).map(|_| batch()).collect(),
            limbo: vec![],
            zeros: own::map(batch_pages * PAGE_BYTES)?,
            scratch: own::map(PAGE_BYTES)?,
        })
    }

    /// Makes the areas known to a userfaultfd that has no events: of a new process, or after a fork.
    pub fn register(&self, staging: &Userfaultfd) -> Result<(), Errno> {
        staging.register(self.start, self.pages() * PAGE_BYTES)?;
        self.limbo.iter().try_for_each(|&segment| staging.register(segment, SEGMENT_PAGES * PAGE_BYTES))
    }

    /// Pages of the area.
    pub fn pages(&self) -> usize {
        self.batches.len() * self.batch_pages
    }

    /// Pages of the area that have frames now.
    pub fn frames(&self) -> usize {
        let frames = |batch: &Batch| match batch.phase {
            Phase::Writing => batch.filled.max(batch.pages.len()),
            Phase::Free | Phase::Reading => batch.filled,
        };
        self.batches.iter().map(frames).sum()
    }

    /// Pages of a batch.
    pub fn batch_pages(&self) -> usize {
        self.batch_pages
    }

    /// The address of page `index` of a batch.
    pub fn address(&self, batch: usize, index: usize) -> usize {
        self.start + (batch * self.batch_pages + index) * PAGE_BYTES
    }

    /// Page `index` of a batch as one number, and back.
    pub fn place(&self, batch: usize, index: usize) -> u32 {
        (batch * self.batch_pages + index) as u32
    }

    /// The batch and index of a place.
    pub fn batch_of(&self, place: u32) -> (usize, usize) {
        (place as usize / self.batch_pages, place as usize % self.batch_pages)
    }

    /// Address of a batch's worth of readable zeros.
    pub fn zeros(&self) -> usize {
        self.zeros
    }

    /// Address of a page for what is read in between.
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// The place of a page in limbo.
    pub fn limbo(&mut self, page: PageId, staging: &Userfaultfd) -> Result<usize, Errno> {
        let segment = page.index() / SEGMENT_PAGES;
        while self.limbo.len() <= segment {
            let start = own::map(SEGMENT_PAGES * PAGE_BYTES).ok_or(Errno::NOMEM)?;
            staging.register(start, SEGMENT_PAGES * PAGE_BYTES)?;
            self.limbo.push(start);
        }
        Ok(self.limbo[segment] + page.index() % SEGMENT_PAGES * PAGE_BYTES)
    }

    /// A free batch without frames, for evicted pages; the one that had the fewest.
    pub fn take_empty(&mut self) -> Option<usize> {
        let free = self.batches.iter().enumerate().filter(|(_, batch)| batch.phase == Phase::Free);
        let (index, _) = free.min_by_key(|(_, batch)| batch.filled)?;
        self.drop_frames(index);
        Some(index)
    }

    /// A free batch whose first `pages` pages have frames of the pager's own, to be written to.
    pub fn take_filled(&mut self, pages: usize, staging: &Userfaultfd) -> Option<usize> {
        let free = self.batches.iter().enumerate().filter(|(_, batch)| batch.phase == Phase::Free);
        let (index, _) = free.max_by_key(|(_, batch)| batch.filled)?;
        let (mut filled, mut patience) = (self.batches[index].filled, own::Patience::new());
        while filled < pages {
            let length = (pages - filled) * PAGE_BYTES;
            // SAFETY: zeros into the pager's own area, which is missing there.
            let progress = unsafe { staging.copy(self.address(index, filled), self.zeros, length) };
            if let Some(error) = progress.error {
                if error == Errno::NOMEM && patience.wait() {
                    continue;
                }
                crate::failure::give_up(format_args!("no memory for the pager's own use: {error}"));
            }
            filled += progress.bytes / PAGE_BYTES;
        }
        self.batches[index].filled = filled;
        Some(index)
    }

    /// Gives back the frames of a free batch.
    pub fn drop_frames(&mut self, batch: usize) {
        let filled = core::mem::take(&mut self.batches[batch].filled);
        if filled > 0 {
            self.drop_pages(self.address(batch, 0), filled);
        }
    }

    /// Makes pages of the pager's own areas missing.
    pub fn drop_pages(&self, address: usize, pages: usize) {
        // SAFETY: the pager's own pages, whose contents nobody needs.
        let _ = unsafe { advise(address, pages * PAGE_BYTES, MADV_DONTNEED) };
    }
}
