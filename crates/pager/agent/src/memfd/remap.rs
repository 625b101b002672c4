//! System calls that do one thing to shared memory and another to private memory. The agent makes
//! them itself, so that shared memory behaves as private memory would.

use crate::agent::Agent;
use crate::failure::give_up;
use crate::hooks::call;
use crate::mailbox::ARGUMENTS;
use crate::memfd::advise;
use crate::pages::State;
use crate::regions::Regions;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use rustix::io::Errno;
use sweephand_policy::PageId;
use sweephand_uffd::PAGE_BYTES;

fn refused(error: Errno) -> isize {
    -(error.raw_os_error() as isize)
}

fn is_page_start(address: usize) -> bool {
    address.is_multiple_of(PAGE_BYTES)
}

impl Agent {
    /// Does for shared memory what `madvise(MADV_DONTNEED)` does for private memory. Refuses
    /// `MADV_REMOVE`, which private memory does not have.
    pub(crate) fn drop_private(&mut self, start: usize, length: usize, advice: u32) -> isize {
        let Some(end) = start.checked_add(length).map(|end| end.next_multiple_of(PAGE_BYTES)) else {
            return refused(Errno::INVAL);
        };
        if !is_page_start(start) {
            return refused(Errno::INVAL);
        }
        self.shut_gate();
        let gaps = self.regions.gaps(start, end);
        let managed = self.managed_parts(start, end);
        let mut result = 0;
        if advice == raw::MADV_REMOVE && !managed.is_empty() {
            result = refused(Errno::INVAL);
        } else {
            for (start, end) in managed {
                self.drop_contents(start, end);
            }
            for (start, end) in gaps {
                // SAFETY: this is what the program asks for, and the memory is left to the kernel.
                let answer = unsafe { advise(start, end - start, advice) };
                result = if answer < 0 { answer } else { result };
            }
        }
        self.open_gate();
        result
    }

    /// The parts of a range that are managed.
    pub(crate) fn managed_parts(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut parts = Regions::new();
        parts.add(start, end);
        self.regions.gaps(start, end).into_iter().for_each(|(start, end)| parts.remove(start, end));
        parts.iter().collect()
    }

    /// Leaves a range to the kernel and forgets its contents. Then the agent can change its mapping
    /// without an event, for which the agent would wait itself.
    fn abandon(&mut self, start: usize, end: usize) {
        for (start, end) in self.managed_parts(start, end) {
            let _ = self.uffd.unregister(start, end - start);
            self.unmapped(start, end);
        }
    }

    /// Does an `mremap`. The kernel enlarges or shrinks shared memory in place. If the memory must
    /// go elsewhere, the agent moves its pages to new memory.
    pub(crate) fn remap(&mut self, arguments: [usize; ARGUMENTS]) -> isize {
        let [old, old_length, length, flags, new] = arguments;
        let Some((old_length, length)) =
            old_length.checked_next_multiple_of(PAGE_BYTES).zip(length.checked_next_multiple_of(PAGE_BYTES))
        else {
            return refused(Errno::INVAL);
        };
        let flags = flags as u32;
        let fixed = flags & raw::MREMAP_FIXED != 0;
        let ends = old.checked_add(old_length).zip(new.checked_add(length).filter(|_| fixed).or(Some(0)));
        let Some((old_end, new_end)) = ends else { return refused(Errno::INVAL) };
        self.shut_gate();
        let result = if self.managed_parts(old, old_end.max(old + 1)).is_empty() {
            if fixed && is_page_start(old) && is_page_start(new) {
                self.abandon(new, new_end);
            }
            // SAFETY: this is what the program asks for, and the memory is left to the kernel.
            unsafe { call(raw::__NR_mremap, [old, old_length, length, flags as usize, new, 0]) }
        } else {
            self.remap_shared((old, old_length), (new, length), flags)
        };
        self.open_gate();
        result
    }

    fn remap_shared(
        &mut self,
        (old, old_length): (usize, usize),
        (new, length): (usize, usize),
        flags: u32,
    ) -> isize {
        let may_move = flags & raw::MREMAP_MAYMOVE != 0;
        let fixed = flags & raw::MREMAP_FIXED != 0;
        let stays = flags & raw::MREMAP_DONTUNMAP != 0;
        let overlaps = fixed && new < old + old_length && old < new + length;
        // An old length of 0 asks for a second mapping of shared memory, which private memory does
        // not have.
        if !is_page_start(old)
            || length == 0
            || old_length == 0
            || (fixed || stays) && !may_move
            || stays && old_length != length
            || fixed && !is_page_start(new)
            || overlaps
        {
            return refused(Errno::INVAL);
        }
        if !self.regions.gaps(old, old + old_length).is_empty() {
            return refused(Errno::FAULT);
        }
        let Some(protection) = self.protection_of(old, old + old_length) else {
            return refused(Errno::FAULT);
        };
        if !fixed && !stays {
            if length < old_length {
                self.abandon(old + length, old + old_length);
            }
            // SAFETY: this stays in place. It shrinks the mapping, or enlarges it where nothing is
            // mapped.
            let result = unsafe { call(raw::__NR_mremap, [old, old_length, length, 0, 0, 0]) };
            if result > 0 {
                self.regions.add(old, old + length);
                return result;
            }
            if !may_move || result != refused(Errno::NOMEM) {
                return result;
            }
        }
        let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE;
        let flags = if fixed { flags | raw::MAP_FIXED } else { flags };
        if fixed {
            self.abandon(new, new + length);
        }
        // The kernel or the program chooses the place. (If the program names none, `new` is
        // whatever was in the register. As a hint, it could put the mapping where the heap grows.)
        let hint = if fixed { new } else { 0 };
        // SAFETY: this is new memory, which replaces only memory that the program has named.
        let place = unsafe {
            call(raw::__NR_mmap, [hint, length, raw::PROT_NONE as usize, flags as usize, usize::MAX, 0])
        };
        if place < 0 {
            return place;
        }
        let new = place as usize;
        self.map_file(new, length, protection);
        let ended = self.objects.relocate(old, new, old_length.min(length));
        self.end_objects(&ended);
        self.move_shared(old, new, old_length.min(length));
        if stays {
            self.drop_contents(old, old + old_length);
        } else {
            self.abandon(old, old + old_length);
            // SAFETY: the program has moved this memory away.
            unsafe { call(raw::__NR_munmap, [old, old_length, 0, 0, 0, 0]) };
        }
        place
    }

    /// Moves the pages of a range. To the policy, they are new at the new place.
    fn move_shared(&mut self, from: usize, to: usize, length: usize) {
        let mut known = Vec::new();
        self.pages.for_each_in(from, from + length, |pages, page| {
            if pages.state(page) != State::Absent {
                known.push(page);
            }
        });
        // Only one page is needed for copies. But the agent may have to wait for a batch, and reads
        // may end meanwhile.
        let batch = loop {
            match self.staging.take_filled(1, &self.staging_uffd) {
                Some(batch) => break batch,
                None => self.reap_one(),
            }
        };
        let copy = self.staging.address(batch, 0);
        for old in known {
            let new = self.pages.meet(self.pages.address(old) - from + to);
            let (state, place) = (self.pages.state(old), self.pages.place(old));
            match state {
                State::Resident => {
                    self.move_resident(old, new, copy);
                    continue;
                }
                State::Limbo => {
                    let (from, to) = (self.limbo(old), self.limbo(new));
                    self.move_own(to, from);
                }
                State::Writing | State::Reading => {
                    let (batch, index) = self.staging.batch_of(place);
                    self.staging.batches[batch].pages[index] = new;
                }
                State::Stored | State::Pinned | State::Absent | State::Guarded => {}
            }
            self.policy.remove(old);
            self.pages.set(old, State::Absent, 0);
            self.pages.set(new, state, place);
            if state == State::Limbo {
                self.arrive(new);
            }
        }
    }

    /// Moves a page in memory through a page of the pager.
    fn move_resident(&mut self, old: PageId, new: PageId, copy: usize) {
        let (from, to) = (self.pages.address(old), self.pages.address(new));
        let Some(memfd) = &self.memfd else { return };
        memfd.pin(from, PAGE_BYTES);
        memfd.punch(from, PAGE_BYTES);
        memfd.unpin(copy, PAGE_BYTES);
        let clean = self.is_clean(old);
        if let (false, Some(slot)) = (clean, self.pages.kept_slot(old)) {
            self.store.free(slot);
        }
        let kept = if clean { self.pages.place(old) } else { 0 };
        self.policy.remove(old);
        self.pages.set(old, State::Absent, 0);
        loop {
            // SAFETY: the memory at `to` is new to the program, and missing.
            let progress = unsafe {
                match clean {
                    true => self.copy_in(to, copy, PAGE_BYTES, false),
                    false => self.dirty_in(to, copy, PAGE_BYTES, false),
                }
            };
            match progress.error {
                None => break,
                Some(Errno::AGAIN) => self.settle(),
                Some(error) => give_up(format_args!("a page cannot be moved to {to:#x}: {error}")),
            }
        }
        self.pages.set(new, State::Resident, kept);
        self.arrive(new);
    }
}
