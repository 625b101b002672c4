//! Reclaim: frames for pages to come, by the policy's choice.
//!
//! A victim is proposed, confirmed and moved to a batch of the staging area, with its neighbours where they are victims
//! too; the batch is written behind the program's back. A page that cannot be moved is the policy's no more, until it is
//! tried again: it is pinned.

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

/// Most pages unmapped to see whether they are in use, for each page evicted.
const SAMPLED_PER_EVICTION: usize = 4;
/// Pages evicted at a time, for each page of the window that the program waits for: as many as can be done while it is
/// read.
const EVICTED_PER_PAGE_READ: usize = 16;
/// Times that nothing is found to evict before that is taken for final, with a pause before each: a few seconds.
const PATIENCE: usize = 100;
const PAUSE_NS: i64 = 10_000_000;

impl Agent {
    /// Sees to it that so many more pages fit.
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
                // What would not go is pinned now, and there is less to choose from; or it was touched.
                continue;
            } else if self.incoming > 0 {
                self.reap_one();
            } else if in_vain < PATIENCE {
                // All that is left could not be moved. A device may be done with some of it.
                in_vain += 1;
                let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: PAUSE_NS });
                self.unpin(usize::MAX);
            } else {
                self.no_more_room();
            }
        }
    }

    /// Nothing more can be evicted, and that is not enough.
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

    /// Sees to it that so many pages are condemned; if the policy has none to give, those go to it that are on their way.
    fn condemn_some(&mut self, count: usize) {
        // Those that have gone or moved meanwhile may be many, and make no room.
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

    /// Evicts pages that are condemned, up to a batch; returns how many.
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
        self.hold_mappings();
        let mut victims: Vec<PageId> = self.condemned.drain(..count).collect();
        victims.retain(|&page| self.pages.has(page, Flag::Condemned));
        self.spare_touched(&mut victims);
        // In the order of addresses, whatever the policy's: neighbours move by one call, and are read back by one request.
        victims.sort_unstable_by_key(|&page| self.pages.address(page));
        let mut next = 0;
        while next < victims.len() {
            next += self.move_out(&victims[next..], batch);
        }
        match self.memfd {
            None => self.sample(SAMPLED_PER_EVICTION * count),
            Some(_) => self.unmap_cleared(),
        }
        MAILBOX.let_go();
        let to_write = self.staging.batches[batch].pages.len();
        let evicted = to_write + self.memfd.as_mut().map_or(0, Memfd::take_dropped);
        self.account.moved(evicted);
        // Together, and first: the program may end at any time.
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

    /// The address where a condemned page is, mapped or in limbo. (Its number may be another page's by now.)
    fn whereabouts(&mut self, page: PageId) -> Option<usize> {
        match self.pages.state(page) {
            _ if !self.pages.has(page, Flag::Condemned) => None,
            State::Resident => Some(self.pages.address(page)),
            State::Limbo => Some(self.limbo(page)),
            _ => None,
        }
    }

    /// Moves the first of the victims, and those behind it that are its neighbours, to the end of a batch. Returns how
    /// many of them are dealt with.
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
            // SAFETY: pages of the program, which it gets back when it touches them, to a place that is missing.
            let progress = unsafe { self.staging_uffd.move_pages(to, from, run * PAGE_BYTES) };
            match progress.error {
                None => break progress.bytes / PAGE_BYTES,
                Some(Errno::AGAIN) => rustix::thread::sched_yield(),
                // Shared with a child or a parent: a copy of its own can be moved. (It is there, or the kernel would
                // not have said so; written to, it does not fault to us.)
                Some(Errno::BUSY) if !unshared && self.pages.state(victims[0]) == State::Resident => {
                    unshared = true;
                    let advice = Advice::LinuxPopulateWrite;
                    // SAFETY: contents stay as they are.
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

    /// A page that cannot be moved stays where it is, out of the policy's sight.
    fn pin(&mut self, page: PageId) {
        self.policy.remove(page);
        self.pages.mark(page, Flag::Condemned, false);
        self.pages.set(page, State::Pinned, 0);
        self.pinned.push_back(page.0);
    }

    /// Gives the policy back up to so many pages that could not be moved.
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

    /// Space for the slots that the store has grown by, so that a full disk is found before pages are on their way.
    fn grow_store(&mut self, Growth { file, from, least, wished }: Growth) {
        let reserve = |to: usize| {
            let [offset, end] = [from, to].map(|slots| slots as u64 * PAGE_BYTES as u64);
            let store = self.store.file(file).as_fd();
            let grow = || fallocate(store, FallocateFlags::empty(), offset, end - offset);
            match rlimits::without(Raised::FileSize, grow) {
                // Some file systems cannot; they will say so when written to, if there is no space.
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

    /// Deals with requests that are complete; waits for one with `wait`.
    pub(crate) fn reap(&mut self, wait: bool) {
        let mut wait = wait;
        while let Some(completion) = self.io.reap(wait) {
            self.complete(completion);
            wait = false;
        }
    }

    /// Waits for the store to come forward with something.
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
            // A write that ends early has run out of space.
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

    /// Pages cannot be read: whoever touches them gets a SIGBUS, and the command tells why. What they held is lost, and so
    /// are their slots.
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
                    // A kernel without poison, or a marker that says the page was clean: the program must not read
                    // anything else.
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

    /// A batch has been written: its pages are in the store, but for those that came back meanwhile or were dropped.
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
            // They were the program's: somebody else may hold these frames. With a memfd they are copies.
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

    /// Unmaps neighbours to limbo. Those that will not go stay mapped, and read as not referenced.
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
            // SAFETY: pages of the program, which it gets back when it touches them, to places that are missing.
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
                // If it has vanished, that will be found out when it is touched or evicted.
                Some(_) => next += 1,
            }
        }
    }
}
