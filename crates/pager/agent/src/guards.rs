//! Guards: pages that end a thread that touches them with a SIGSEGV, though they are mapped
//! (`MADV_GUARD_INSTALL`). C libraries put them at the ends of stacks.
//!
//! Installing a guard drops the page's contents, and the page reads as zeros when the guard is
//! removed. The kernel sends userfaultfd no event for either call, and `UFFDIO_COPY` overwrites a
//! guard. So the agent makes these calls for the program. It then knows which pages it must not
//! fill and which contents it may forget. Such a page is in [`State::Guarded`].
//!
//! The agent does not see guards that a program installs by bare system calls. So it asks the
//! kernel for guards before it fills pages that no thread waits for. (A page that a thread waits
//! for has no guard, or the thread would not wait.) One case is left: if a program installs and
//! removes a guard and the agent fills nothing there in between, the page's old contents come back.
//!
//! The kernel lists guards from Linux 6.15 on. Linux 6.13 and 6.14 have guards and do not list
//! them: there the agent refuses the call, as older kernels do. The memfd backend refuses it too.

use crate::agent::Agent;
use crate::memfd::advise;
use crate::pages::State;
use crate::regions::Regions;
use alloc::vec::Vec;
use linux_raw_sys::general::{MADV_GUARD_INSTALL, MADV_GUARD_REMOVE};
use rustix::io::Errno;
use sweephand_policy::PageId;
use sweephand_uffd::{PAGE_BYTES, Region};

const NOTHING: Region = Region { start: 0, end: 0, categories: 0 };

/// Whether an advice of `madvise` is about guards.
pub(crate) fn is_about_guards(advice: u32) -> bool {
    matches!(advice, MADV_GUARD_INSTALL | MADV_GUARD_REMOVE)
}

impl Agent {
    /// `madvise` about guards, for the program; with any other advice it only looks what guards
    /// there are. The answer is that of the system call.
    pub(crate) fn guard(&mut self, start: usize, length: usize, advice: u32) -> isize {
        let end = start.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE_BYTES));
        let end = end.filter(|&end| self.managed && end > start);
        let is_refused = start.is_multiple_of(PAGE_BYTES)
            && self.pagemap.guards(start, start + PAGE_BYTES, &mut [NOTHING]) == Err(Errno::INVAL);
        if is_refused {
            return -(Errno::INVAL.raw_os_error() as isize);
        }
        if self.managed {
            // Changes at this address that came before must be known before what comes after.
            self.catch_up();
        }
        if let Some(end) = end.filter(|_| advice == MADV_GUARD_REMOVE) {
            // Where there is one that has not been seen, nothing is left of what was there.
            self.look_for_guards(start, end);
        }
        let result = match is_about_guards(advice) {
            // SAFETY: what the program asks for.
            true => unsafe { advise(start, length, advice) },
            false => 0,
        };
        if let Some(end) = end {
            // Some of it may have been done where not all could be.
            let guarded = self.guards_in(start, end).unwrap_or_else(|| {
                let mut guarded = Regions::new();
                if result == 0 && advice == MADV_GUARD_INSTALL {
                    guarded.add(start, end);
                }
                guarded
            });
            self.note_guards(start, end, &guarded);
        }
        result
    }

    /// The guards in a range, where that can be told.
    pub(crate) fn guards_in(&self, start: usize, end: usize) -> Option<Regions> {
        let mut guarded = Regions::new();
        let mut from = start;
        while from < end {
            let mut found = [NOTHING; 32];
            let (count, to) = self.pagemap.guards(from, end, &mut found).ok()?;
            found[..count].iter().for_each(|run| guarded.add(run.start as usize, run.end as usize));
            from = to.max(from + PAGE_BYTES);
        }
        Some(guarded)
    }

    /// Takes note of the guards in a range, and of those that are there no more.
    pub(crate) fn look_for_guards(&mut self, start: usize, end: usize) {
        if let Some(guarded) = self.guards_in(start, end) {
            self.note_guards(start, end, &guarded);
        }
    }

    fn note_guards(&mut self, start: usize, end: usize, guarded: &Regions) {
        for (start, end) in guarded.gaps(start, end) {
            self.forget_guards(start, end);
        }
        for (start, end) in guarded.iter().collect::<Vec<_>>() {
            // Memory that is left to the kernel goes without a word, and guards with it.
            for (start, end) in self.managed_parts(start, end) {
                self.drop_contents(start, end);
                for address in (start..end).step_by(PAGE_BYTES) {
                    let page = self.pages.meet(address);
                    self.pages.set(page, State::Guarded, 0);
                }
            }
        }
    }

    /// There are no guards in a range any more.
    pub(crate) fn forget_guards(&mut self, start: usize, end: usize) {
        self.pages.for_each_in(start, end, |pages, page| {
            if pages.state(page) == State::Guarded {
                pages.set(page, State::Absent, 0);
            }
        });
    }

    /// Of so many pages that are about to be filled from an address on, how many there are before
    /// the next guard. The first has none.
    pub(crate) fn before_next_guard(&mut self, address: usize, count: usize) -> usize {
        let (start, end) = (address + PAGE_BYTES, address + count * PAGE_BYTES);
        let mut found = [NOTHING];
        if count < 2
            || self.memfd.is_some()
            || !matches!(self.pagemap.guards(start, end, &mut found), Ok((1.., _)))
        {
            return count;
        }
        self.look_for_guards(start, end);
        (found[0].start as usize - address) / PAGE_BYTES
    }

    /// A thread waits for a page where a guard is thought to be. If it has been removed, the page
    /// is absent. Returns whether it has.
    pub(crate) fn is_unguarded(&mut self, page: PageId) -> bool {
        let address = self.pages.address(page);
        let told = self.pagemap.guards(address, address + PAGE_BYTES, &mut [NOTHING]);
        let is_there = matches!(told, Ok((1.., _)));
        if !is_there {
            self.pages.set(page, State::Absent, 0);
        }
        !is_there
    }
}
