//! A backend: how pages are taken out of the program's memory and put back, and what is known of
//! their use.
//!
//! | | `anon` | `memfd` |
//! |---|---|---|
//! | the program's memory | stays private and anonymous | becomes a shared mapping of a file in memory |
//! | taking a page out | moves its frame to the staging area | copies it there, if it was written to |
//! | what was not written to | has its checksum (`sums`) | is still write-protected |
//! | reference bits | the processor's, or the kernel's protection (`exact_bits`), or in software, by unmapping pages to limbo (`bits`) | exact: a page that is mapped was referenced |
//! | a fork | copies the state (`rest`) | ends the program once memory is paged |
//!
//! A backend knows pages and frames. It knows neither the policy nor why a page goes.

use crate::account::Known;
use crate::control::Control;
use crate::division::Waiting;
use crate::exact_bits::{ExactBits, Queue, Queues};
use crate::kernel::{Progress, Userfaultfd};
use crate::pagemap::Pagemap;
use crate::pages::Pages;
use crate::program::Program;
use crate::staging::Staging;
use crate::store::Store;
use core::any::Any;
use rustix::fd::{BorrowedFd, OwnedFd};
use sweephand_policy::PageId;

/// Whether the store has the contents that are put into memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    /// It has them, in the slot from which they came.
    Stored,
    /// It has not: they are zeros, or were taken back before they were written.
    New,
}

/// What a backend works on when it takes pages out.
pub(crate) struct Work<'a> {
    /// The page table.
    pub(crate) pages: &'a mut Pages,
    /// Where pages go.
    pub(crate) staging: &'a mut Staging,
    /// Who has the contents of pages that need not be written.
    pub(crate) store: &'a mut Store,
    /// The userfaultfds and the pagemap.
    pub(crate) program: &'a Program,
}

/// What has become of victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// The first ones are dealt with.
    Done {
        /// So many of the victims. Those of them that are no victims any more were left alone.
        victims: usize,
        /// So many left without a write, because the store has their contents.
        clean: usize,
    },
    /// The first one cannot be moved now.
    Stuck,
    /// The first one was thought to be mapped, and is missing.
    Missing,
}

impl Taken {
    /// The first victim is no victim any more.
    pub(crate) const LEFT_ALONE: Self = Self::Done { victims: 1, clean: 0 };
}

/// A backend. What has a default is as it is for private anonymous memory.
pub(crate) trait Backend: Any {
    /// Copies contents to where pages are missing. `awaited`: a thread waits for the first page, so
    /// that it is left mapped.
    ///
    /// # Safety
    /// As for [`Userfaultfd::copy`].
    unsafe fn put_in(
        &self,
        uffd: &Userfaultfd,
        to: usize,
        from: usize,
        length: usize,
        contents: Contents,
        awaited: bool,
    ) -> Progress;

    /// Maps pages again that are in limbo at `limbo`. They are missing there afterwards.
    ///
    /// # Safety
    /// As for [`Mover::give`](crate::moves::Mover::give).
    unsafe fn map_again(&self, program: &Program, to: usize, limbo: usize, length: usize) -> Progress;

    /// How many pages [`Self::map_again`] may map at once.
    fn most_mapped_again(&self) -> usize;

    /// Takes a free batch for this many victims.
    fn take_batch(&self, staging: &mut Staging, uffd: &Userfaultfd, victims: usize) -> Option<usize>;

    /// Takes the first of the victims out of memory, and those behind it that are its neighbours.
    /// They go to the end of a batch, unless the store has their contents.
    fn take_out(&mut self, work: &mut Work, victims: &[PageId], batch: usize) -> Taken;

    /// This many pages of a batch that [`Self::take_batch`] gave have been written.
    fn written(&self, staging: &Staging, batch: usize, pages: usize);

    /// Whether a page that is found present where it was thought to be absent is the agent's to
    /// page. If not, the program is about to drop it: the kernel reports a drop a moment before it
    /// happens. If the agent took the page for new and paged it out now, it would come back with
    /// its old contents.
    fn owns_present_pages(&self) -> bool {
        false
    }

    /// Whether a page keeps the slot from which it was read, because it is known later whether the
    /// page was written to. Its contents are at `contents`, in the pager's own memory.
    fn keeps_slot(&mut self, page: PageId, contents: usize) -> bool {
        let _ = (page, contents);
        false
    }

    /// A page that has kept its slot has another id from now on.
    fn renamed(&mut self, old: PageId, new: PageId) {
        let _ = (old, new);
    }

    /// Whether the program may have guards in its memory.
    fn has_guards(&self) -> bool {
        true
    }

    /// Whether the kernel itself finds a page that is missing in the page table. If so, no page
    /// must be kept in memory for the kernel's sake.
    fn serves_kernel(&self) -> bool {
        false
    }

    /// Whether memory comes under management by being taken over (`takeover`). Otherwise it is
    /// registered as it is.
    fn takes_over(&self) -> bool {
        false
    }

    /// The reference bits, if they can be read.
    fn bits<'a>(&'a mut self, pagemap: &'a Pagemap) -> Option<ExactBits<'a>> {
        let _ = pagemap;
        None
    }

    /// Where pages wait whose bits are to be cleared, if bits can be read.
    fn queues(&mut self) -> Option<&mut Queues> {
        None
    }

    /// Whether a page has been referenced since its bit was cleared, as far as that can be read.
    fn is_touched(&mut self, pagemap: &Pagemap, address: usize) -> bool {
        let _ = (pagemap, address);
        false
    }

    /// Whether a bit is cleared by unmapping its page.
    fn clears_by_unmapping(&self) -> bool {
        false
    }

    /// Clears the bits of the first pages in a queue, at most `count`. The gate is shut.
    fn clear_queued(&mut self, program: &Program, pages: &mut Pages, queue: Queue, count: usize) {
        let _ = (program, pages, queue, count);
    }

    /// A thread has come to a fault. Returns whether it is time to count native memory.
    fn is_count_due(&mut self) -> bool {
        false
    }

    /// How many present pages are left to the kernel.
    fn set_native_pages(&mut self, pages: usize) {
        let _ = pages;
    }

    /// The number last set by [`Self::set_native_pages`].
    fn native_pages(&self) -> usize {
        0
    }

    /// Pages that are in memory for the backend's own sake.
    fn own_pages(&self) -> usize {
        0
    }

    /// What the agent knows of the process's memory, of which so many pages are resident, when
    /// `missing` pages of the staging area have no frame.
    fn known(&self, resident: usize, missing: usize) -> Known;

    /// A thread has this range for its stack.
    fn has_stack(&mut self, start: usize, end: usize) {
        let _ = (start, end);
    }

    /// The program has dropped the contents of a range.
    fn dropped(&self, start: usize, length: usize) {
        let _ = (start, length);
    }

    /// The program has unmapped a range.
    fn unmapped(&mut self, start: usize, end: usize) {
        let _ = (start, end);
    }

    /// The kernel reports that a mapping has moved. Ends the program if that cannot be followed.
    fn allow_move(&self) {}

    /// This process has the memory for itself, and it is about to be paged. Returns which pages
    /// wait for the policy. That depends on where reference bits come from.
    fn begin_to_page(&mut self, control: &Control, program: &Program) -> Waiting {
        let _ = (control, program);
        Waiting::None
    }

    /// The program forks. Ends the program if memory that is `managed` cannot have a copy.
    fn hold_for_fork(&mut self, managed: bool) {
        let _ = managed;
    }

    /// The program that reads accessed bits, or the way to it, for a child.
    fn accessed_bits(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// In a child, whose copies of descriptor numbers are worth nothing: begins anew, with what
    /// [`Self::accessed_bits`] was in the parent.
    fn begin_in_child(
        &mut self,
        control: &Control,
        program: &Program,
        batch_pages: usize,
        accessed_bits: Option<OwnedFd>,
    ) {
        let _ = (control, program, batch_pages, accessed_bits);
    }
}
