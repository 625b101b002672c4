//! Reclaim: makes room for pages. The policy chooses the victims.
//!
//! The policy proposes a victim, and the agent confirms it. The agent moves the victim to a batch
//! of the staging area, along with neighbours that are victims too. The batch is written while the
//! program runs. A page that cannot be moved becomes pinned and leaves the policy until it is tried
//! again.

use crate::agent::Agent;
use crate::control::add;
use crate::failure::{give_up, tell};
use crate::io::{Completion, Direction};
use crate::mailbox::MAILBOX;
use crate::memfd::Memfd;
use crate::own::Patience;
use crate::pages::{Flag, State};
use crate::rlimits::{self, Raised};
use crate::staging::Phase;
use crate::store::Growth;
use alloc::vec::Vec;
use core::ffi::c_void;
use rustix::event::Timespec;
use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use rustix::thread::nanosleep;
use sweephand_policy::PageId;
use sweephand_uffd::PAGE_BYTES;

/// The most pages to unmap for each evicted page, to see whether they are in use.
const SAMPLED_PER_EVICTION: usize = 4;
/// How many pages to evict at a time for each page of the window for which the program waits. This
/// many can be evicted while the window is read.
const EVICTED_PER_PAGE_READ: usize = 16;
/// How often to look for a victim in vain before giving up, with a pause before each try. Together
/// this takes at least a second.
const PATIENCE: usize = 100;
const PAUSE_NS: i64 = 10_000_000;

impl Agent {
    /// Makes room for this many more pages.
    pub(crate) fn make_room(&mut self, pages: usize) {
        if self.policy.granted().is_some() {
            return self.borrow_room(pages);
        }
        let mut in_vain = 0;
        loop {
            let room = self.room();
            let wanted = (self.pages.resident() + self.incoming + pages).saturating_sub(room);
            if wanted == 0 {
                return;
            }
            let batch = self.staging.batch_pages();
            self.condemn_some(wanted.min(batch));
            let is_choice_left = !self.condemned.is_empty();
            // Pages that turn out to be gone make room too.
            if self.evict() > 0 || self.pages.resident() + self.incoming + pages < room + wanted {
                in_vain = 0;
            } else if is_choice_left {
                // The pages that could not be moved are pinned now, so there are fewer candidates.
                // Or pages were touched.
                continue;
            } else if self.incoming > 0 {
                self.reap_one();
            } else if in_vain < PATIENCE {
                // None of the pages left could be moved. A device may have finished with some of
                // them.
                in_vain += 1;
                let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: PAUSE_NS });
                self.unpin(usize::MAX);
            } else {
                self.no_more_room();
            }
        }
    }

    /// Ends the run, because nothing more can be evicted and there is still no room.
    fn no_more_room(&self) -> ! {
        let mib = |pages: usize| (pages * PAGE_BYTES).div_ceil(1 << 20);
        let others =
            self.apart_pages().saturating_sub(self.account.others()).saturating_sub(self.own_pages());
        give_up(format_args!(
            "the limit is too small: {} MiB of the program's memory cannot be paged out (locked, in use by a device, or not \
             both readable and writable), {} MiB are private pages of files, {} MiB shared memory, {} MiB page tables and the \
             like, {} MiB the pager's own; give it more with --memory",
            mib(self.pages.pinned()),
            mib(others),
            mib(self.account.shared()),
            mib(self.account.of_kernel()),
            mib(self.own_pages()),
        ))
    }

    /// Condemns pages until there are this many. If the policy has none to give, pages that are on
    /// their way to the policy go to it.
    fn condemn_some(&mut self, count: usize) {
        // Many of these pages may have gone or moved meanwhile. They make no room.
        self.condemned.retain(|&page| self.pages.has(page, Flag::Condemned));
        while self.condemned.len() < count {
            if !self.condemn() {
                match self.arrivals.leave(&mut self.pages, 0) {
                    Some(page) => self.insert(page),
                    None => return,
                }
            }
        }
    }

    /// Evicts condemned pages if there are enough of them for a write.
    pub(crate) fn evict_batch(&mut self) {
        let enough = EVICTED_PER_PAGE_READ * self.ahead.latest_window();
        if self.condemned.len() >= enough.min(self.staging.batch_pages()) {
            self.evict();
        }
    }

    /// Evicts condemned pages, up to a batch. Returns how many.
    pub(crate) fn evict(&mut self) -> usize {
        let count = self.condemned.len().min(self.staging.batch_pages());
        let batch = loop {
            let taken = match self.memfd {
                None => self.staging.take_empty(),
                Some(_) => self.staging.take_filled(count, &self.staging_uffd),
            };
            match taken {
                Some(batch) => break batch,
                None => self.reap_one(),
            }
        };
        self.staging.batches[batch].phase = Phase::Writing;
        self.block_moves();
        let mut victims: Vec<PageId> = self.condemned.drain(..count).collect();
        victims.retain(|&page| self.pages.has(page, Flag::Condemned));
        self.spare_touched(&mut victims);
        // The pages go in address order, whatever the policy's order. So one call moves neighbours,
        // and one request reads them back.
        victims.sort_unstable_by_key(|&page| self.pages.address(page));
        let mut next = 0;
        while next < victims.len() {
            next += self.move_out(&victims[next..], batch);
        }
        match self.memfd {
            None => self.sample(SAMPLED_PER_EVICTION * count),
            Some(_) => self.unmap_cleared(),
        }
        MAILBOX.allow_moves();
        let to_write = self.staging.batches[batch].pages.len();
        let evicted = to_write + self.memfd.as_mut().map_or(0, Memfd::take_dropped);
        self.account.moved(evicted);
        // Both counters change together and before the write, because the program may end at any
        // time.
        add(&self.control.counters.evictions, evicted as u64);
        add(&self.control.counters.pages_written, to_write as u64);
        if to_write > 0 {
            self.write(batch);
        } else {
            self.staging.batches[batch].phase = Phase::Free;
        }
        if evicted > 0 && self.pages.pinned() > 0 {
            self.unpin(1);
        }
        evicted
    }

    /// The address where a condemned page is, mapped or in limbo. (Its id may belong to another
    /// page by now.)
    fn whereabouts(&mut self, page: PageId) -> Option<usize> {
        match self.pages.state(page) {
            _ if !self.pages.has(page, Flag::Condemned) => None,
            State::Resident => Some(self.pages.address(page)),
            State::Limbo => Some(self.limbo(page)),
            _ => None,
        }
    }

    /// Moves the first victim and the neighbours behind it to the end of a batch. Returns how many
    /// victims are done.
    fn move_out(&mut self, victims: &[PageId], batch: usize) -> usize {
        if self.memfd.is_some() {
            return self.take_out(victims, batch);
        }
        let Some(from) = self.whereabouts(victims[0]) else { return 1 };
        let mut run = 1;
        while run < victims.len() && self.whereabouts(victims[run]) == Some(from + run * PAGE_BYTES) {
            run += 1;
        }
        let index = self.staging.batches[batch].pages.len();
        let to = self.staging.address(batch, index);
        let (mut unshared, mut patience) = (false, Patience::new());
        let moved = loop {
            // SAFETY: these are pages of the program, which gets them back when it touches them.
            // They go to a place where pages are missing.
            let progress = unsafe { self.staging_uffd.move_pages(to, from, run * PAGE_BYTES) };
            match progress.error {
                None => break progress.bytes / PAGE_BYTES,
                Some(Errno::AGAIN) => rustix::thread::sched_yield(),
                // The frame is shared with a child or a parent. A copy of its own can be moved.
                // (The page is present, or the error would be another one. So the agent gets no
                // fault when it is written to.)
                Some(Errno::BUSY) if !unshared && self.pages.state(victims[0]) == State::Resident => {
                    unshared = true;
                    let advice = Advice::LinuxPopulateWrite;
                    // SAFETY: this leaves the contents as they are.
                    let _ = unsafe { madvise(from as *mut c_void, PAGE_BYTES, advice) };
                }
                Some(Errno::BUSY | Errno::INVAL) => {
                    self.pin(victims[0]);
                    return 1;
                }
                Some(Errno::NOMEM) if patience.wait() => {}
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                Some(_) if self.pages.state(victims[0]) == State::Resident => {
                    self.vanished(victims[0]);
                    return 1;
                }
                Some(error) => give_up(format_args!("a page in limbo cannot be evicted: {error}")),
            }
        };
        for (offset, &page) in victims[..moved].iter().enumerate() {
            self.pages.set(page, State::Writing, self.staging.place(batch, index + offset));
            self.staging.batches[batch].pages.push(page);
        }
        moved
    }

    /// Leaves a page that cannot be moved where it is, and takes it from the policy.
    fn pin(&mut self, page: PageId) {
        self.policy.remove(page);
        self.pages.mark(page, Flag::Condemned, false);
        self.pages.set(page, State::Pinned, 0);
        self.pinned.push_back(page.0);
    }

    /// Gives up to this many pages that could not be moved back to the policy.
    fn unpin(&mut self, count: usize) {
        for _ in 0..count.min(self.pinned.len()) {
            let Some(page) = self.pinned.pop_front().map(PageId) else { break };
            if self.pages.state(page) == State::Pinned {
                self.pages.set(page, State::Resident, 0);
                self.arrive(page);
            }
        }
    }

    /// Writes a batch of evicted pages to the store.
    fn write(&mut self, batch: usize) {
        let mut slots = core::mem::take(&mut self.staging.batches[batch].slots);
        slots.clear();
        let count = self.staging.batches[batch].pages.len();
        if let Some(growth) = self.store.allocate(count, &mut slots) {
            self.grow_store(growth);
        }
        self.staging.batches[batch].slots = slots;
        self.transfer(Direction::Write, batch);
    }

    /// Reserves disk space for the slots by which the store has grown. So the agent finds a full
    /// disk before pages are on their way.
    fn grow_store(&mut self, Growth { file, from, least, wished }: Growth) {
        let reserve = |to: usize| {
            let [offset, end] = [from, to].map(|slots| slots as u64 * PAGE_BYTES as u64);
            let store = self.store.file(file).as_fd();
            let grow = || fallocate(store, FallocateFlags::empty(), offset, end - offset);
            match rlimits::without(Raised::FileSize, grow) {
                // Some file systems cannot reserve space. If there is none, writing will fail.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(to),
                result => result.map(|()| to),
            }
        };
        match reserve(wished).or_else(|_| reserve(least)) {
            Ok(slots) => self.store.grown(file, slots),
            Err(error) => self.store_failed("grown", error),
        }
    }

    pub(crate) fn store_failed(&self, what: &str, error: Errno) -> ! {
        let directory = self.control.order.directory.as_str();
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => give_up(format_args!(
                "{directory}: the backing store is full; make space, or name another place with --swap"
            )),
            _ => give_up(format_args!("{directory}: the backing store cannot be {what}: {error}")),
        }
    }

    /// Handles requests that are complete. With `wait`, waits for the first one.
    pub(crate) fn reap(&mut self, wait: bool) {
        let mut wait = wait;
        while let Some(completion) = self.io.reap(wait) {
            self.complete(completion);
            wait = false;
        }
    }

    /// Waits until the store has completed a request.
    pub(crate) fn reap_one(&mut self) {
        assert!(
            self.staging.batches.iter().any(|batch| batch.requests > 0),
            "the pager waits for the store, which has nothing to do"
        );
        self.io.submit();
        self.reap(true);
    }

    fn complete(&mut self, completion: Completion) {
        let (place, pages) = (completion.tag & 0xf_ffff, completion.tag >> 20);
        let (batch, _) = self.staging.batch_of(place);
        let phase = self.staging.batches[batch].phase;
        let error = match completion.result {
            Ok(bytes) if bytes as usize == pages as usize * PAGE_BYTES => None,
            // A short write means that there is no space left.
            Ok(_) if phase == Phase::Writing => Some(Errno::NOSPC),
            Ok(_) => Some(Errno::IO),
            Err(error) => Some(error),
        };
        match error {
            None => {}
            Some(error) if phase == Phase::Reading => self.poison(place, pages as usize, error),
            Some(error) => self.store_failed("written", error),
        }
        self.staging.batches[batch].requests -= 1;
        if self.staging.batches[batch].requests > 0 {
            return;
        }
        match phase {
            Phase::Reading => self.read_done(batch),
            Phase::Writing => self.write_done(batch),
            Phase::Free => unreachable!("a request of a free batch"),
        }
    }

    /// Poisons pages that cannot be read. A thread that touches one gets a SIGBUS, and the command
    /// reports why. The contents are lost, and the slots are not used again.
    fn poison(&mut self, place: u32, pages: usize, error: Errno) {
        let directory = self.control.order.directory.as_str();
        tell(format_args!("{directory}: the backing store cannot be read: {error}; what was there is lost"));
        for place in place..place + pages as u32 {
            let (batch, index) = self.staging.batch_of(place);
            let page = self.staging.batches[batch].pages[index];
            let address = self.pages.address(page);
            while self.is_being_read(batch, index) {
                match self.uffd.poison(address, PAGE_BYTES) {
                    Err(Errno::AGAIN) => {
                        self.catch_up();
                        continue;
                    }
                    Ok(()) | Err(Errno::NOENT) => break,
                    Err(Errno::EXIST) if self.memfd.is_none() => break,
                    // The kernel has no poison, or a marker says that the page was clean. The
                    // program must not read anything else, so the run ends.
                    Err(_) => self.store_failed("read", error),
                }
            }
            if self.is_being_read(batch, index) {
                self.incoming -= 1;
                self.policy.remove(page);
                self.pages.set(page, State::Absent, 0);
            }
            self.wake(address);
        }
    }

    /// Handles a batch that has been written. Its pages are in the store, except for those that
    /// came back meanwhile or were dropped.
    fn write_done(&mut self, batch: usize) {
        let count = self.staging.batches[batch].pages.len();
        for index in 0..count {
            let (page, slot) =
                (self.staging.batches[batch].pages[index], self.staging.batches[batch].slots[index]);
            if self.pages.state(page) == State::Writing
                && self.pages.place(page) == self.staging.place(batch, index)
            {
                self.pages.set(page, State::Stored, slot);
            } else {
                self.store.free(slot);
            }
        }
        if self.memfd.is_none() {
            // These frames were the program's, and the kernel may still use them. With a memfd they
            // are copies.
            self.staging.drop_pages(self.staging.address(batch, 0), count);
        }
        let entry = &mut self.staging.batches[batch];
        entry.pages.clear();
        entry.phase = Phase::Free;
    }

    /// Unmaps pages whose reference bits are clear, to see whether they are in use.
    fn sample(&mut self, count: usize) {
        let mut run: Vec<PageId> = Vec::with_capacity(self.staging.batch_pages());
        for _ in 0..count {
            let Some(page) = self.sampler.next(&mut self.pages, &mut self.arrivals) else { break };
            let follows = run.last().is_some_and(|last| {
                last.0 + 1 == page.0 && self.pages.address(*last) + PAGE_BYTES == self.pages.address(page)
            });
            if !follows {
                self.unmap(&run);
                run.clear();
            }
            run.push(page);
        }
        self.unmap(&run);
    }

    /// Unmaps neighbours to limbo. Pages that cannot be moved stay mapped and read as not
    /// referenced.
    pub(crate) fn unmap(&mut self, run: &[PageId]) {
        let mut next = 0;
        while next < run.len() {
            let page = run[next];
            if self.pages.state(page) != State::Resident {
                next += 1;
                continue;
            }
            // Segments of limbo need not be neighbours.
            let limbo = self.limbo(page);
            let mut length = 1;
            while next + length < run.len() && self.limbo(run[next + length]) == limbo + length * PAGE_BYTES {
                length += 1;
            }
            let from = self.pages.address(page);
            // SAFETY: these are pages of the program, which gets them back when it touches them.
            // They go to places where pages are missing.
            let progress = unsafe { self.staging_uffd.move_pages(limbo, from, length * PAGE_BYTES) };
            match progress.error {
                None => {
                    let moved = progress.bytes / PAGE_BYTES;
                    for page in &run[next..next + moved] {
                        self.pages.set(*page, State::Limbo, 0);
                    }
                    next += moved;
                }
                Some(Errno::AGAIN) => rustix::thread::sched_yield(),
                // If the page has vanished, the agent finds out when the page is touched or
                // evicted.
                Some(_) => next += 1,
            }
        }
    }
}
