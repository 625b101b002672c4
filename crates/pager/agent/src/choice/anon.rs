//! The program's private anonymous memory: what is known of the use of its pages.
//!
//! `bit_source` says where reference bits come from, and `sums` which pages need not be written.
//! Nothing here knows the policy, or why a page goes.

use crate::choice::bit_source::BitSource;
use crate::choice::exact_bits::{ExactBits, Queue, Queues};
use crate::control::Control;
use crate::division::Waiting;
use crate::kernel::{PAGE_BYTES, Progress, Userfaultfd};
use crate::process::pagemap::Pagemap;
use crate::state::pages::{Flag, Pages};
use crate::state::program::Program;
use crate::store::sums::Sums;
use alloc::vec::Vec;
use rustix::fd::{BorrowedFd, OwnedFd};

/// Private anonymous memory.
#[derive(Debug, Default)]
pub(crate) struct Anon {
    /// Where reference bits come from.
    bit_source: BitSource,
    /// Pages whose bits wait to be cleared.
    queues: Queues,
    /// Which pages need not be written.
    pub(crate) sums: Sums,
}

impl Anon {
    /// Nothing is paged yet. `command` is known if this process has the memory for itself.
    pub(crate) fn open(control: &Control, command: Option<&OwnedFd>) -> Self {
        Self { bit_source: BitSource::open(control, command), ..Self::default() }
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

    /// The reference bits, if they can be read.
    pub(crate) fn bits<'a>(&'a mut self, pagemap: &'a Pagemap) -> Option<ExactBits<'a>> {
        let source = self.bit_source.source(pagemap)?;
        Some(ExactBits::new(source, &mut self.queues))
    }

    /// The queues of pages whose bits wait to be cleared, if bits can be read.
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
