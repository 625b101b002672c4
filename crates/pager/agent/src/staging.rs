//! Staging: the place of pages between the program and the store.
//!
//! The area consists of batches. A batch contains either evicted pages, for one write or a few, or
//! a window of pages that are being read. The whole area counts as used memory, whether it is full
//! or not.
//!
//! **The pager never writes to a frame that was the program's.** Evicted pages come in by
//! `UFFDIO_MOVE`, which moves the frame and copies nothing. But the kernel may still use such a
//! frame: a pipe into which it was vmspliced, or a socket that sends from it without a copy.
//! `UFFDIO_MOVE` refuses frames that are pinned, but not frames that are only referenced, and user
//! space cannot tell which frames are. So the agent gives the frames back to the kernel after the
//! write. A pipe or socket that uses one still has the last bytes that the program wrote to it.
//! Reads go to frames that only ever were the pager's, and are copied from there.
//!
//! Limbo is address space beside the area, with a place for every page id. When the agent unmaps a
//! page to see whether it is still in use, the page goes there with its frame. Limbo has segments
//! of 256 MiB. A segment is mapped when its first id is met.

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
    /// Nothing. Its first `filled` pages have frames of the pager itself.
    Free,
    /// Being written.
    Writing,
    /// Being read.
    Reading,
}

/// A batch.
#[derive(Debug)]
pub struct Batch {
    /// What the batch is doing.
    pub phase: Phase,
    /// The pages in it, in order.
    pub pages: Vec<PageId>,
    /// The pages' slots in the store, while they are being written or read.
    pub slots: Vec<u32>,
    /// Requests under way.
    pub requests: usize,
    /// Pages from the start on that have frames, while the batch is free. None of these frames was
    /// ever the program's.
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
    /// Address of a batch's size of zeros.
    zeros: usize,
    /// Address of a page for transfers of single pages.
    scratch: usize,
}

impl Staging {
    /// Maps an area of `batches` batches of `batch_pages` pages, with no frames yet. Returns `None`
    /// if there is no address space for it.
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

    /// Registers the areas with a userfaultfd for a new process, or after a fork.
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

    /// Page `index` of a batch as one number.
    pub fn place(&self, batch: usize, index: usize) -> u32 {
        (batch * self.batch_pages + index) as u32
    }

    /// The batch and index of a place.
    pub fn batch_of(&self, place: u32) -> (usize, usize) {
        (place as usize / self.batch_pages, place as usize % self.batch_pages)
    }

    /// Address of readable zeros, as many as a batch takes.
    pub fn zeros(&self) -> usize {
        self.zeros
    }

    /// Address of a page for transfers of single pages.
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

    /// Takes a free batch for evicted pages: the one with the fewest frames, which it gives back.
    pub fn take_empty(&mut self) -> Option<usize> {
        let free = self.batches.iter().enumerate().filter(|(_, batch)| batch.phase == Phase::Free);
        let (index, _) = free.min_by_key(|(_, batch)| batch.filled)?;
        self.drop_frames(index);
        Some(index)
    }

    /// Takes a free batch for reading. Its first `pages` pages have frames of the pager itself.
    pub fn take_filled(&mut self, pages: usize, staging: &Userfaultfd) -> Option<usize> {
        let free = self.batches.iter().enumerate().filter(|(_, batch)| batch.phase == Phase::Free);
        let (index, _) = free.max_by_key(|(_, batch)| batch.filled)?;
        let (mut filled, mut patience) = (self.batches[index].filled, own::Patience::new());
        while filled < pages {
            let length = (pages - filled) * PAGE_BYTES;
            // SAFETY: this copies zeros to the pager's own area, where pages are missing.
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
        // SAFETY: these are the pager's own pages, and their contents are not needed.
        let _ = unsafe { advise(address, pages * PAGE_BYTES, MADV_DONTNEED) };
    }
}
