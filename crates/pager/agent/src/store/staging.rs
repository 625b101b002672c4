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

use crate::kernel::syscall::advise;
use crate::kernel::{self, PAGE_BYTES, Userfaultfd};
use crate::process::failure::abort;
use crate::process::moves::Mover;
use crate::process::own;
use crate::store::backing::Slot;

use alloc::vec;
use alloc::vec::Vec;
use linux_raw_sys::general::MADV_DONTNEED;
use rustix::io::Errno;
use sweephand_policy::PageId;

/// Pages of a limbo segment.
const SEGMENT_PAGES: usize = 1 << 16;

/// Bytes of a limbo segment.
pub const SEGMENT_BYTES: usize = SEGMENT_PAGES * PAGE_BYTES;

/// A page's place in the staging area: its batch and its index there, as one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staged(pub(crate) u32);

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
    pub slots: Vec<Slot>,
    /// Requests under way.
    pub requests: usize,
    /// Which of the pages a fault has asked for, if one has. No fault had asked for the others when
    /// the read began.
    pub asked_for: Option<usize>,
    /// Whether a thread waits for one of the pages.
    pub is_awaited: bool,
    /// Since when, in nanoseconds, if that is measured; or else 0.
    pub awaited_ns: u64,
    /// Whether the pages are read along a stream.
    pub is_stream: bool,
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
    /// Address of a batch's size where pages are compared with what the store has. All are missing
    /// there but during a comparison.
    scales: usize,
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
            asked_for: None,
            is_awaited: false,
            awaited_ns: 0,
            is_stream: false,
            filled: 0,
        };
        Some(Self {
            start: own::map(batches * batch_pages * PAGE_BYTES)?,
            batch_pages,
            batches: (0..batches).map(|_| batch()).collect(),
            limbo: vec![],
            zeros: own::map(batch_pages * PAGE_BYTES)?,
            scratch: own::map(PAGE_BYTES)?,
            scales: own::map(batch_pages * PAGE_BYTES)?,
        })
    }

    /// Registers the areas with a userfaultfd for a new process, or after a fork.
    pub fn register(&self, staging: &Userfaultfd) -> Result<(), Errno> {
        staging.register(self.start, self.pages() * PAGE_BYTES)?;
        staging.register(self.scales, self.batch_pages * PAGE_BYTES)?;
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

    /// The place of page `index` of a batch.
    pub fn place(&self, batch: usize, index: usize) -> Staged {
        Staged((batch * self.batch_pages + index) as u32)
    }

    /// The batch and index of a place.
    pub fn batch_of(&self, place: Staged) -> (usize, usize) {
        (place.0 as usize / self.batch_pages, place.0 as usize % self.batch_pages)
    }

    /// The slot of a page that is being written or read.
    pub fn slot_of(&self, place: Staged) -> Slot {
        let (batch, index) = self.batch_of(place);
        self.batches[batch].slots[index]
    }

    /// The page at a place is known by another id from now on.
    pub fn rename(&mut self, place: Staged, page: PageId) {
        let (batch, index) = self.batch_of(place);
        self.batches[batch].pages[index] = page;
    }

    /// Puts a page at the end of a batch. Returns its place there.
    pub fn push(&mut self, batch: usize, page: PageId) -> Staged {
        let place = self.place(batch, self.batches[batch].pages.len());
        self.batches[batch].pages.push(page);
        place
    }

    /// How many batches do this.
    pub fn count(&self, phase: Phase) -> usize {
        self.batches.iter().filter(|batch| batch.phase == phase).count()
    }

    /// Whether a request is under way, so that a completion will come.
    pub fn has_requests(&self) -> bool {
        self.batches.iter().any(|batch| batch.requests > 0)
    }

    /// A batch has done its work.
    pub fn release(&mut self, batch: usize) {
        self.batches[batch].pages.clear();
        self.batches[batch].phase = Phase::Free;
    }

    /// Address of readable zeros, as many as a batch takes.
    pub fn zeros(&self) -> usize {
        self.zeros
    }

    /// Address of a page for transfers of single pages.
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// Address of a batch's size for pages that are compared with what the store has.
    pub fn scales(&self) -> usize {
        self.scales
    }

    /// The address of a page in limbo.
    pub fn limbo(&mut self, page: PageId, staging: &Userfaultfd) -> usize {
        let segment = page.index() / SEGMENT_PAGES;
        while self.limbo.len() <= segment {
            let mapped = own::map(SEGMENT_PAGES * PAGE_BYTES).ok_or(Errno::NOMEM);
            let registered = mapped.and_then(|start| {
                staging.register(start, SEGMENT_PAGES * PAGE_BYTES)?;
                Ok(start)
            });
            match registered {
                Ok(start) => self.limbo.push(start),
                Err(error) => abort(format_args!("no address space for limbo: {error}")),
            }
        }
        self.limbo[segment] + page.index() % SEGMENT_PAGES * PAGE_BYTES
    }

    /// Takes a free batch for evicted pages: the one with the fewest frames, which it gives back.
    pub fn take_empty(&mut self) -> Option<usize> {
        let free = self.batches.iter().enumerate().filter(|(_, batch)| batch.phase == Phase::Free);
        let (index, _) = free.min_by_key(|(_, batch)| batch.filled)?;
        self.drop_frames(index);
        Some(index)
    }

    /// Takes a free batch for reading. Its first `pages` pages have frames of the pager itself.
    /// Ends: each turn fills a page, or waits as `Retry` says.
    pub fn take_filled(&mut self, pages: usize, staging: &Userfaultfd) -> Option<usize> {
        let free = self.batches.iter().enumerate().filter(|(_, batch)| batch.phase == Phase::Free);
        let (index, _) = free.max_by_key(|(_, batch)| batch.filled)?;
        let (mut filled, mut retry) = (self.batches[index].filled, own::Retry::new());
        while filled < pages {
            let length = (pages - filled) * PAGE_BYTES;
            // SAFETY: this copies zeros to the pager's own area, where pages are missing.
            let progress = unsafe { staging.copy(self.address(index, filled), self.zeros, length) };
            if let Some(error) = progress.error {
                if error == Errno::NOMEM && retry.wait() {
                    continue;
                }
                abort(format_args!("no memory for the pager's own use: {error}"));
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
            drop_pages(self.address(batch, 0), filled);
        }
    }
}

/// Makes pages of the pager's own areas missing.
pub(crate) fn drop_pages(address: usize, pages: usize) {
    // SAFETY: these are the pager's own pages, and their contents are not needed.
    let _ = unsafe { advise(address, pages * PAGE_BYTES, MADV_DONTNEED) };
}

/// Copies a page of the pager to a place in the pager's own areas where a page is missing. Ends:
/// the kernel lacks memory for as long as `Retry` says at most.
pub(crate) fn copy_own(uffd: &Userfaultfd, to: usize, from: usize) {
    let mut retry = own::Retry::new();
    loop {
        // SAFETY: both places are in the pager's own areas.
        match unsafe { uffd.copy(to, from, PAGE_BYTES) }.error {
            None => return,
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(error) => abort(format_args!("a page of the pager's own cannot be copied: {error}")),
        }
    }
}

/// Moves a page within the pager's own areas.
pub(crate) fn move_own(mover: Mover<'_>, to: usize, from: usize) {
    move_all_own(mover, to, from, 1);
}

/// Moves pages within the pager's own areas. Ends: the kernel asks for another try only while a
/// fork copies these areas, or while it has a page for a moment itself, or as `Retry` says.
pub(crate) fn move_all_own(mover: Mover<'_>, to: usize, from: usize, pages: usize) {
    let (mut done, mut retry) = (0, own::Retry::new());
    while done < pages * PAGE_BYTES {
        // SAFETY: this moves frames within the pager's own areas, to where pages are missing.
        let progress = unsafe { mover.give(to + done, from + done, pages * PAGE_BYTES - done) };
        done += progress.bytes;
        match progress.error {
            None => {}
            Some(Errno::AGAIN | Errno::BUSY) => kernel::sched_yield(),
            // The kernel may need a page table.
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(error) => abort(format_args!("a page of the pager's own cannot be moved: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_places_encode_batch_and_index() {
        let mut staging = Staging::new(3, 8).unwrap();
        for (batch, index) in [(0, 0), (0, 7), (1, 0), (2, 7)] {
            let place = staging.place(batch, index);
            assert_eq!(staging.batch_of(place), (batch, index));
        }
        assert_eq!(staging.address(1, 2) - staging.address(0, 0), 10 * PAGE_BYTES);
        let place = staging.push(1, PageId(5));
        assert_eq!((staging.batch_of(place), staging.push(1, PageId(6)).0), ((1, 0), place.0 + 1));
        staging.rename(place, PageId(9));
        assert_eq!(staging.batches[1].pages, [PageId(9), PageId(6)]);
    }

    #[test]
    fn the_frames_of_the_area_are_those_that_batches_have() {
        let mut staging = Staging::new(2, 8).unwrap();
        assert_eq!((staging.pages(), staging.frames(), staging.count(Phase::Free)), (16, 0, 2));
        staging.batches[0].filled = 3;
        staging.batches[1].phase = Phase::Writing;
        (0..5).for_each(|id| _ = staging.push(1, PageId(id)));
        assert_eq!((staging.frames(), staging.count(Phase::Writing)), (8, 1));
        assert_eq!(staging.take_empty(), Some(0), "the other one is being written");
        assert_eq!(staging.frames(), 5, "its frames were given back");
        staging.release(1);
        assert_eq!((staging.frames(), staging.count(Phase::Free)), (0, 2));
        assert!(!staging.has_requests());
    }
}
