//! How pages leave the program's memory and come back, and what is known of their use.
//!
//! The program's memory stays as it is: private and anonymous. Pages are moved to the staging area
//! with their frames, and copied back. `bit_source` says where reference bits come from, and `sums`
//! which pages need not be written. Nothing here knows the policy, or why a page goes.

use crate::bit_source::BitSource;
use crate::control::Control;
use crate::division::Waiting;
use crate::exact_bits::{ExactBits, Queue, Queues};
use crate::failure::give_up;
use crate::kernel::{self, PAGE_BYTES, Progress, Userfaultfd};
use crate::own::Retry;
use crate::pagemap::Pagemap;
use crate::pages::{Flag, Pages, State};
use crate::program::Program;
use crate::staging::{Staging, drop_pages, move_all_own};
use crate::store::Store;
use crate::sums::Sums;
use alloc::vec::Vec;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use sweephand_policy::PageId;

/// What it takes to take pages out.
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

/// Private anonymous memory.
#[derive(Debug, Default)]
pub(crate) struct Anon {
    /// Where reference bits come from.
    bit_source: BitSource,
    /// Pages whose bits are to be cleared.
    queues: Queues,
    /// Which pages need not be written.
    sums: Sums,
}

impl Anon {
    /// Nothing is paged yet. `command` is known if this process has the memory for itself.
    pub(crate) fn open(control: &Control, command: Option<&OwnedFd>) -> Self {
        Self { bit_source: BitSource::open(control, command), ..Self::default() }
    }

    /// Pages with slots have been moved to the scales. Those that have changed go on to the end of
    /// a batch. Returns how many have not.
    fn compare(&mut self, work: &mut Work, pages: &[PageId], batch: usize) -> usize {
        let scales = work.staging.scales();
        let is_clean = |(index, &page)| self.sums.is_clean(page, scales + index * PAGE_BYTES);
        let clean: Vec<bool> = pages.iter().enumerate().map(is_clean).collect();
        let (mut index, mut left_clean) = (0, 0);
        for part in clean.chunk_by(|one, other| one == other) {
            let from = scales + index * PAGE_BYTES;
            let end = work.staging.batches[batch].pages.len();
            match part[0] {
                true => drop_pages(from, part.len()),
                false => {
                    let to = work.staging.address(batch, end);
                    move_all_own(work.program.staging_mover(), to, from, part.len());
                }
            }
            for &page in &pages[index..index + part.len()] {
                match work.pages.state(page).kept() {
                    Some(slot) if part[0] => {
                        left_clean += 1;
                        work.pages.set(page, State::Stored(slot));
                        continue;
                    }
                    Some(slot) => work.store.free(slot),
                    None => {}
                }
                let place = work.staging.push(batch, page);
                work.pages.set(page, State::Writing(place));
            }
            index += part.len();
        }
        left_clean
    }

    /// Copies contents to where pages are missing. `awaited`: a thread waits for the first page, so
    /// that its bit stays set.
    ///
    /// # Safety
    /// As for [`Userfaultfd::copy`].
    pub(crate) unsafe fn put_in(
        &self,
        uffd: &Userfaultfd,
        to: usize,
        from: usize,
        length: usize,
        awaited: bool,
    ) -> Progress {
        let untouched = if awaited { PAGE_BYTES } else { 0 };
        if !self.bit_source.can_be_read() || length <= untouched {
            // SAFETY: as the caller promises.
            return unsafe { uffd.copy(to, from, length) };
        }
        // The kernel maps what it copies as if it had been used.
        // SAFETY: as the caller promises.
        let progress = unsafe { uffd.copy_asleep(to, from, length) };
        if progress.bytes > untouched {
            self.bit_source.clear(uffd, to + untouched, (progress.bytes - untouched) / PAGE_BYTES);
        }
        if progress.bytes > 0 {
            let _ = uffd.wake(to, progress.bytes);
        }
        progress
    }

    /// Takes the first of the victims out of memory, and those behind it that are its neighbours.
    /// They go to the end of a batch, unless the store has their contents.
    pub(crate) fn take_out(&mut self, work: &mut Work, victims: &[PageId], batch: usize) -> Taken {
        let Some(from) = address_in_memory(work, victims[0]) else { return Taken::LEFT_ALONE };
        let has_slot = |work: &Work, page| work.pages.state(page).kept().is_some();
        let is_compared = has_slot(work, victims[0]);
        let mut run = 1;
        while run < victims.len()
            && has_slot(work, victims[run]) == is_compared
            && address_in_memory(work, victims[run]) == Some(from + run * PAGE_BYTES)
        {
            run += 1;
        }
        let to = match is_compared {
            true => work.staging.scales(),
            false => work.staging.address(batch, work.staging.batches[batch].pages.len()),
        };
        let is_mapped = work.pages.is_resident(victims[0]);
        let (mut unshared, mut retry) = (false, Retry::new());
        // Ends: AGAIN lasts only while a fork copies the pager's own areas, and every other error
        // is met once or for as long as `Retry` says.
        let moved = loop {
            // SAFETY: these are pages of the program, which gets them back when it touches them.
            // They go to a place where pages are missing.
            let progress = unsafe { work.program.staging_mover().take(to, from, run * PAGE_BYTES) };
            match progress.error {
                None => break progress.bytes / PAGE_BYTES,
                Some(Errno::AGAIN) => kernel::sched_yield(),
                // The frame is shared with a child or a parent. A copy of its own can be moved.
                Some(Errno::BUSY) if !unshared && is_mapped => {
                    unshared = true;
                    let _ = kernel::unshare(from);
                }
                Some(Errno::BUSY | Errno::INVAL) => return Taken::Stuck,
                Some(Errno::NOMEM) if retry.wait() => {}
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                Some(_) if is_mapped => return Taken::Missing,
                Some(error) => give_up(format_args!("a page in limbo cannot be evicted: {error}")),
            }
        };
        if is_compared {
            return Taken::Done { victims: moved, clean: self.compare(work, &victims[..moved], batch) };
        }
        for &page in &victims[..moved] {
            let place = work.staging.push(batch, page);
            work.pages.set(page, State::Writing(place));
        }
        Taken::Done { victims: moved, clean: 0 }
    }

    /// Whether a page keeps the slot from which it was read, because it is known later whether the
    /// page was written to. Its contents are at `contents`, in the pager's own memory.
    pub(crate) fn keeps_slot(&mut self, page: PageId, contents: usize) -> bool {
        self.sums.take(page, contents)
    }

    /// A page that has kept its slot has another id from now on.
    pub(crate) fn renamed(&mut self, old: PageId, new: PageId) {
        self.sums.renamed(old, new);
    }

    /// The reference bits, if they can be read.
    pub(crate) fn bits<'a>(&'a mut self, pagemap: &'a Pagemap) -> Option<ExactBits<'a>> {
        let source = self.bit_source.source(pagemap)?;
        Some(ExactBits::new(source, &mut self.queues))
    }

    /// Where pages wait whose bits are to be cleared, if bits can be read.
    pub(crate) fn queues(&mut self) -> Option<&mut Queues> {
        self.bit_source.can_be_read().then_some(&mut self.queues)
    }

    /// Whether a page has been referenced since its bit was cleared, as far as that can be read.
    pub(crate) fn is_touched(&mut self, pagemap: &Pagemap, address: usize) -> bool {
        let source = self.bit_source.source(pagemap);
        source.is_some_and(|source| self.queues.is_touched(source, address))
    }

    /// Clears the bits of the first pages in a queue, at most `count`. Neighbours are dealt with by
    /// one call.
    pub(crate) fn clear_queued(&mut self, program: &Program, pages: &mut Pages, queue: Queue, count: usize) {
        let mut shared = Vec::new();
        let Self { bit_source, queues, .. } = self;
        let looks = queues.has_shared_pages;
        queues.drain(pages, (queue, count), |start, count| {
            bit_source.clear(&program.uffd, start, count);
            if let (true, Some(source)) = (looks, bit_source.source(&program.pagemap)) {
                shared.extend(source.referenced(start, count));
            }
        });
        for address in shared {
            if let Some(page) = pages.find(address) {
                pages.mark(page, Flag::Queued, true);
            }
        }
    }

    /// This process has the memory for itself, and it is about to be paged. Returns which pages
    /// wait for the policy. That depends on where reference bits come from.
    pub(crate) fn begin_to_page(&mut self, control: &Control, program: &Program) -> Waiting {
        self.bit_source.choose(control, program);
        match self.bit_source.can_be_read() {
            true => Waiting::Unasked,
            false => Waiting::All,
        }
    }

    /// The program forks, so pages may be shared from now on.
    pub(crate) fn hold_for_fork(&mut self) {
        self.queues.has_shared_pages = true;
    }

    /// In a child, whose copies of descriptor numbers are worth nothing: begins anew, with what
    /// [`Self::accessed_bits`] was in the parent.
    pub(crate) fn begin_in_child(&mut self, control: &Control, program: &Program, bits: Option<OwnedFd>) {
        self.bit_source.begin_in_child(control, program, bits);
        self.queues.has_shared_pages = true;
    }

    /// The program that reads accessed bits, or the way to it, for a child.
    pub(crate) fn accessed_bits(&self) -> Option<BorrowedFd<'_>> {
        self.bit_source.descriptor()
    }
}

/// The address where a condemned page is, mapped or in limbo. (Its id may belong to another page by
/// now.)
fn address_in_memory(work: &mut Work, page: PageId) -> Option<usize> {
    match work.pages.state(page) {
        _ if !work.pages.has(page, Flag::Condemned) => None,
        State::Resident { .. } => Some(work.pages.address(page)),
        State::Limbo { .. } => Some(work.staging.limbo(page, &work.program.staging_uffd)),
        _ => None,
    }
}
