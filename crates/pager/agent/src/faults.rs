//! Faults: what the agent does for a thread that waits for a page.

use crate::agent::Agent;
use crate::control::add;
use crate::failure::give_up;
use crate::io::{Direction, Request};
use crate::own::Patience;
use crate::pages::{Flag, State, page_start};
use crate::readahead::{StreamId, TRIGGERED_PAGES};
use crate::rlimits::{self, Raised};
use crate::staging::Phase;
use crate::store;
use rustix::fd::AsFd;
use rustix::io::Errno;
use sweephand_policy::PageId;
use sweephand_uffd::PAGE_BYTES;

/// How often a frame may be found in use before the agent copies its contents instead. If a fork
/// shares the frame, it may be in use for good.
const BUSY_PATIENCE: usize = 256;
/// How often the agent tries to put a page back when nothing explains why it fails.
const PATIENCE: usize = 16;

/// Whether a window is read because a thread waits for its first page, or in advance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    Now,
    Soon,
}

impl Agent {
    /// Answers a thread that waits for the page at this address.
    pub(crate) fn fault(&mut self, address: usize) {
        self.end_accesses();
        let address = page_start(address);
        let page = self.pages.meet(address);
        let counters = &self.control.counters;
        match self.pages.state(page) {
            State::Absent => {
                add(&counters.faults, 1);
                add(&counters.zero_fill_faults, 1);
                self.zero_fill(address);
            }
            State::Stored => {
                add(&counters.faults, 1);
                add(&counters.refaults, 1);
                self.refault(page, address);
            }
            State::Writing => {
                add(&counters.faults, 1);
                add(&counters.refaults, 1);
                add(&counters.refaults_in_flight, 1);
                self.take_back(page, address);
            }
            State::Limbo => {
                add(&counters.rescues, 1);
                self.rescue(page, address);
            }
            // The thread is woken when the read is done.
            State::Reading => {
                add(&counters.faults, 1);
                if self.pages.mark(page, Flag::Trigger, false) {
                    let (window, stream) = self.ahead.fault(address / PAGE_BYTES);
                    self.read_on(address, window, stream);
                }
            }
            State::Resident | State::Pinned => self.check_presence(page, address),
            State::Guarded if self.is_unguarded(page) => self.fault(address),
            State::Guarded => self.wake(address),
        }
    }

    /// Answers a fault on a page that the agent believes to be mapped. Mostly another thread's
    /// fault has brought it in meanwhile. But the kernel reports a drop a moment before it happens,
    /// and a thread can touch the page in that moment. Then the page was filled again and dropped
    /// afterwards, and it must read as zeros.
    fn check_presence(&mut self, page: PageId, address: usize) {
        loop {
            // SAFETY: this copies zeros to a page that the program has dropped. If the page is
            // present, it does nothing.
            let progress = unsafe { self.uffd.copy(address, self.staging.zeros(), PAGE_BYTES) };
            match progress.error {
                Some(Errno::AGAIN) => {
                    self.catch_up();
                    if !self.is_thought_mapped(page, address) {
                        break self.wake(address);
                    }
                }
                None | Some(Errno::EXIST) => break self.wake(address),
                Some(_) => break self.vanished(page),
            }
        }
    }

    /// Whether the page at an address is still this one, and mapped as far as is known.
    fn is_thought_mapped(&self, page: PageId, address: usize) -> bool {
        self.pages.find(address) == Some(page)
            && matches!(self.pages.state(page), State::Resident | State::Pinned)
    }

    /// Whether the page at an address is still this one, in this state and place.
    fn is_still(&self, page: PageId, address: usize, expected: (State, u32)) -> bool {
        self.pages.find(address) == Some(page) && (self.pages.state(page), self.pages.place(page)) == expected
    }

    /// Lets the threads that wait for a page go on. If the page is still missing, they fault again.
    pub(crate) fn wake(&self, address: usize) {
        let _ = self.uffd.wake(address, PAGE_BYTES);
    }

    /// A page that the agent believed to be mapped is missing: the program has dropped it or
    /// changed its mapping. (It may also have been touched and dropped between the kernel's report
    /// and the drop; see `check_presence`.)
    pub(crate) fn vanished(&mut self, page: PageId) {
        let address = self.pages.address(page);
        self.catch_up();
        if self.is_thought_mapped(page, address) {
            self.forget(page);
        }
        self.wake(address);
    }

    /// Puts a page's contents from the pager's memory at `from` to the address where the program
    /// expects them. If `moves`, their frame goes with them. Returns false if the program does not
    /// expect them any more, because the page's state has changed. The run ends if anything else
    /// prevents this, because the contents must not be lost.
    fn put(&mut self, page: PageId, from: usize, moves: bool) -> bool {
        let address = self.pages.address(page);
        let expected = (self.pages.state(page), self.pages.place(page));
        let (mut attempts, mut busy, mut patience) = (0, 0, Patience::new());
        loop {
            debug_assert!(!self.has_changes());
            // SAFETY: this puts the page's own contents where they belong.
            let progress = unsafe {
                match self.memfd {
                    None if moves => self.uffd.move_pages(address, from, PAGE_BYTES),
                    None => self.uffd.copy(address, from, PAGE_BYTES),
                    Some(_) => self.copy_in(address, from, PAGE_BYTES, true),
                }
            };
            let Some(mut error) = progress.error else { return true };
            busy += usize::from(error == Errno::BUSY);
            if (error == Errno::INVAL || busy > BUSY_PATIENCE) && moves {
                // The kernel moves frames only between mappings of the same kind. This one is
                // locked or not writable.
                // SAFETY: as above.
                error = match unsafe { self.uffd.copy(address, from, PAGE_BYTES) }.error {
                    None => {
                        self.staging.drop_pages(from, 1);
                        return true;
                    }
                    Some(error) => error,
                };
            }
            if error == Errno::NOMEM && patience.wait() {
                continue;
            }
            self.catch_up();
            if error == Errno::EXIST {
                self.look_for_guards(address, address + PAGE_BYTES);
            }
            if !self.is_still(page, address, expected) {
                return false;
            }
            if !matches!(error, Errno::AGAIN | Errno::BUSY) {
                attempts += 1;
                if attempts > PATIENCE {
                    give_up(format_args!("a page cannot be put back to {address:#x}: {error}"));
                }
            } else if error == Errno::BUSY {
                rustix::thread::sched_yield();
            }
        }
    }

    /// Fills a page that was never touched with zeros. Also fills the pages behind it if the
    /// program goes through its memory in order.
    fn zero_fill(&mut self, address: usize) {
        let (window, stream) = self.ahead.fault(address / PAGE_BYTES);
        let known_end = self.regions.end_of(address);
        let end = known_end.unwrap_or(address + PAGE_BYTES);
        let most = window.min((end - address) / PAGE_BYTES).min(self.room() / 8).max(1);
        let mut count = 1;
        while count < most && self.pages.state_at(address + count * PAGE_BYTES) == State::Absent {
            count += 1;
        }
        self.ahead.expect(stream, address / PAGE_BYTES + count);
        self.make_room(count);
        self.shut_gate();
        let mut count = self.before_next_guard(address, count);
        let (mut done, mut patience) = (0, Patience::new());
        while done < count {
            let at = address + done * PAGE_BYTES;
            let (zeros, length) = (self.staging.zeros(), (count - done) * PAGE_BYTES);
            // SAFETY: this copies zeros to pages that are missing where the program expects zeros.
            let progress = unsafe {
                match self.memfd {
                    None => self.uffd.copy(at, zeros, length),
                    Some(_) => self.dirty_in(at, zeros, length, done == 0),
                }
            };
            let filled = match progress.error {
                None => progress.bytes / PAGE_BYTES,
                Some(Errno::AGAIN) => {
                    self.catch_up();
                    // Something may have been moved there.
                    let is_absent =
                        |&index: &usize| self.pages.state_at(address + index * PAGE_BYTES) == State::Absent;
                    count = (done..count).take_while(is_absent).last().map_or(done, |last| last + 1);
                    if count == done {
                        self.wake(at);
                    }
                    continue;
                }
                // The page is present, because the program is about to drop it: the kernel reports
                // a drop a moment before it happens. The agent leaves the page alone. If it took
                // the page for new and paged it out now, the page would come back with its old
                // contents.
                Some(Errno::EXIST) if self.memfd.is_none() => {
                    self.wake(at);
                    done += 1;
                    continue;
                }
                // The page is still in the file.
                Some(Errno::EXIST) => {
                    self.wake(at);
                    1
                }
                Some(Errno::NOMEM) if patience.wait() => continue,
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                // This page and those behind it have been unmapped meanwhile.
                Some(_) => {
                    self.wake(at);
                    break;
                }
            };
            // A registered range has grown by itself: a stack, or a mapping that was enlarged.
            // (Otherwise the copy would have failed, because the fault was older than a change.)
            if known_end.is_none() && progress.error.is_none() {
                self.regions.add(at, at + filled * PAGE_BYTES);
            }
            for index in done..done + filled {
                let page = self.pages.meet(address + index * PAGE_BYTES);
                self.pages.set(page, State::Resident, 0);
                self.came_in(page, index == 0);
            }
            done += filled;
        }
        self.open_gate();
    }

    /// A thread has touched a page in limbo. The agent maps the page again and sets its reference
    /// bit. If the program goes through its memory in order, it does the same for the following
    /// pages that are in limbo too.
    fn rescue(&mut self, page: PageId, address: usize) {
        let triggered = self.pages.mark(page, Flag::Trigger, false);
        let (window, stream) = self.ahead.fault(address / PAGE_BYTES);
        let mut next = address;
        for rescued in 0..self.rescue_run(page, window) {
            let page = PageId(page.0 + rescued as u32);
            self.pages.mark(page, Flag::Referenced, true);
            // The policy gave this page up too early. To the policy it comes in anew.
            if self.pages.mark(page, Flag::Condemned, false) {
                self.arrive(page);
            }
            next += PAGE_BYTES;
        }
        self.ahead.expect(stream, next.max(address + PAGE_BYTES) / PAGE_BYTES);
        if triggered {
            self.read_on(address, window, stream);
        }
    }

    /// Maps a page in limbo again, with up to a window of its neighbours there. Returns how many.
    fn rescue_run(&mut self, page: PageId, window: usize) -> usize {
        if self.memfd.is_some() {
            return usize::from(self.map_from_limbo(page));
        }
        let address = self.pages.address(page);
        let limbo = self.limbo(page);
        let mut count = 1;
        while count < window {
            let next = PageId(page.0 + count as u32);
            if self.pages.find(address + count * PAGE_BYTES) != Some(next)
                || self.pages.state(next) != State::Limbo
                || self.pages.has(next, Flag::Trigger)
                || self.limbo(next) != limbo + count * PAGE_BYTES
            {
                break;
            }
            count += 1;
        }
        debug_assert!(!self.has_changes());
        // SAFETY: this moves the pages' own contents to where they belong.
        let progress = unsafe { self.uffd.move_pages(address, limbo, count * PAGE_BYTES) };
        if progress.error.is_some() {
            // Try a single page and handle each error.
            return usize::from(self.map_from_limbo(page));
        }
        let moved = progress.bytes / PAGE_BYTES;
        for id in page.0..page.0 + moved as u32 {
            self.pages.set(PageId(id), State::Resident, 0);
        }
        moved
    }

    /// The program has reached the first page of a window that was read ahead. Now the next window
    /// is read.
    fn read_on(&mut self, address: usize, window: usize, stream: StreamId) {
        let mut next = address + PAGE_BYTES;
        let farthest = address + 2 * self.staging.batch_pages() * PAGE_BYTES;
        while next < farthest && !matches!(self.pages.state_at(next), State::Stored | State::Absent) {
            next += PAGE_BYTES;
        }
        self.read(next, window, Need::Soon);
        self.ahead.expect(stream, next / PAGE_BYTES);
    }

    /// Moves a page from limbo to its address. Returns false if the address is not mapped any more.
    pub(crate) fn map_from_limbo(&mut self, page: PageId) -> bool {
        let limbo = self.limbo(page);
        let address = self.pages.address(page);
        let put = self.put(page, limbo, self.memfd.is_none());
        if put {
            if self.memfd.is_some() {
                self.staging.drop_pages(limbo, 1);
            }
            self.pages.set(page, State::Resident, self.pages.place(page));
        } else {
            self.wake(address);
        }
        put
    }

    /// A thread has touched a page that is on its way to the store. The page comes back from the
    /// staging area.
    fn take_back(&mut self, page: PageId, address: usize) {
        let (_, stream) = self.ahead.fault(address / PAGE_BYTES);
        self.ahead.expect(stream, address / PAGE_BYTES + 1);
        self.make_room(1);
        // Making room may have waited for the store.
        if self.pages.state(page) != State::Writing {
            return self.retry(page, address);
        }
        let (batch, index) = self.staging.batch_of(self.pages.place(page));
        let expected = (State::Writing, self.pages.place(page));
        let (mut attempts, mut patience) = (0, Patience::new());
        loop {
            debug_assert!(!self.has_changes());
            // SAFETY: these are the page's contents, copied to where they belong. The batch keeps
            // them until it is written.
            let progress = unsafe { self.uffd.copy(address, self.staging.address(batch, index), PAGE_BYTES) };
            match progress.error {
                None => break,
                Some(Errno::NOMEM) if patience.wait() => {}
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                Some(error) => {
                    self.catch_up();
                    if !self.is_still(page, address, expected) {
                        return self.wake(address);
                    }
                    attempts += usize::from(error != Errno::AGAIN);
                    if attempts > PATIENCE {
                        give_up(format_args!("a page cannot be put back to {address:#x}: {error}"));
                    }
                }
            }
        }
        // The slot is freed when the write ends.
        self.pages.set(page, State::Resident, 0);
        self.arrive(page);
    }

    /// A page's state has changed while the agent made room for it.
    fn retry(&mut self, page: PageId, address: usize) {
        if self.pages.state(page) == State::Stored {
            self.refault(page, address);
        } else {
            self.wake(address);
        }
    }

    /// A thread has touched a page in the store.
    fn refault(&mut self, page: PageId, address: usize) {
        let (window, stream) = self.ahead.fault(address / PAGE_BYTES);
        let count = self.read(address, window, Need::Now);
        if count == 0 {
            // The page's state has changed while the agent made room.
            debug_assert_ne!(self.pages.state(page), State::Stored);
            return self.wake(address);
        }
        let next = address + count * PAGE_BYTES;
        self.ahead.expect(stream, next / PAGE_BYTES);
        if window >= TRIGGERED_PAGES {
            self.read(next, window, Need::Soon);
        }
    }

    /// Starts to read pages of the store from an address on, at most a window of them. Returns how
    /// many.
    fn read(&mut self, address: usize, window: usize, need: Need) -> usize {
        let most = window.min(self.staging.batch_pages()).min(self.room() / 8).max(1);
        if self.pages.state_at(address) != State::Stored {
            return 0;
        }
        // No thread waits for a window that is read in advance. So the agent does not wait for
        // staging either.
        if need == Need::Soon
            && self.staging.batches.iter().filter(|batch| batch.phase == Phase::Free).count() < 2
        {
            return 0;
        }
        self.make_room(most);
        let mut count = 0;
        while count < most && self.pages.state_at(address + count * PAGE_BYTES) == State::Stored {
            count += 1;
        }
        if count == 0 {
            return 0;
        }
        // There may be no free batch yet. Then the agent waits, and pages in other batches are read
        // meanwhile, but none of this window.
        let batch = loop {
            match self.staging.take_filled(count, &self.staging_uffd) {
                Some(batch) => break batch,
                None => self.reap_one(),
            }
        };
        self.incoming += count;
        let mut slots = core::mem::take(&mut self.staging.batches[batch].slots);
        slots.clear();
        for index in 0..count {
            let page = self.pages.meet(address + index * PAGE_BYTES);
            slots.push(self.pages.place(page));
            self.staging.batches[batch].pages.push(page);
            self.pages.set(page, State::Reading, self.staging.place(batch, index));
        }
        self.staging.batches[batch].phase = Phase::Reading;
        // A first page without this flag is one that a thread waits for.
        if need == Need::Soon {
            let first = self.staging.batches[batch].pages[0];
            self.pages.mark(first, Flag::Trigger, true);
        }
        self.staging.batches[batch].slots = slots;
        self.transfer(Direction::Read, batch);
        add(&self.control.counters.pages_read, count as u64);
        count
    }

    /// Starts to read or write the pages of a batch, from or to their slots. Neighbouring slots
    /// make one request.
    pub(crate) fn transfer(&mut self, direction: Direction, batch: usize) {
        let slots = core::mem::take(&mut self.staging.batches[batch].slots);
        let is_limited = direction == Direction::Write && rlimits::are_files_limited();
        let mut index = 0;
        for run in slots.chunk_by(|one, other| one + 1 == *other) {
            let (file, first) = store::location(run[0]);
            let request = Request {
                direction,
                file: self.store.file(file).as_fd(),
                offset: first * PAGE_BYTES as u64,
                address: self.staging.address(batch, index),
                length: (run.len() * PAGE_BYTES) as u32,
                tag: self.staging.place(batch, index) | (run.len() as u32) << 20,
            };
            self.staging.batches[batch].requests += 1;
            // SAFETY: the batch keeps these pages for the request until its completion is handled.
            unsafe {
                match is_limited {
                    true => rlimits::without(Raised::FileSize, || self.io.request_now(&request)),
                    false => self.io.request(&request),
                }
            }
            index += run.len();
        }
        self.staging.batches[batch].slots = slots;
        self.io.submit();
    }

    /// Puts the pages of a window that has been read where they belong.
    pub(crate) fn read_done(&mut self, batch: usize) {
        self.shut_gate();
        let count = self.staging.batches[batch].pages.len();
        let first = self.pages.address(self.staging.batches[batch].pages[0]);
        self.before_next_guard(first, count);
        let mut index = 0;
        while index < count {
            let page = self.staging.batches[batch].pages[index];
            if !self.is_being_read(batch, index) {
                // The program has dropped this page while it was read. Its slot is free already.
                self.wake(self.pages.address(page));
                index += 1;
            } else if index == 0 && self.pages.has(page, Flag::Trigger) {
                self.leave_trigger(page, batch);
                index += 1;
            } else {
                index += self.install(batch, index);
            }
        }
        let entry = &mut self.staging.batches[batch];
        entry.phase = Phase::Free;
        entry.pages.clear();
        self.open_gate();
    }

    /// Whether a thread waits for a page that is being read.
    pub(crate) fn is_read_awaited(&self) -> bool {
        let is_awaited = |page: &PageId| !self.pages.has(*page, Flag::Trigger);
        let mut reading = self.staging.batches.iter().filter(|batch| batch.phase == Phase::Reading);
        reading.any(|batch| batch.pages.first().is_some_and(is_awaited))
    }

    pub(crate) fn is_being_read(&self, batch: usize, index: usize) -> bool {
        let page = self.staging.batches[batch].pages[index];
        self.pages.state(page) == State::Reading && self.pages.place(page) == self.staging.place(batch, index)
    }

    /// Puts a run of pages that have been read, from `first` of a batch on, to their addresses.
    /// Returns how many it has put there. The caller has to look at the others again.
    fn install(&mut self, batch: usize, first: usize) -> usize {
        let pages = &self.staging.batches[batch].pages;
        let address = self.pages.address(pages[first]);
        let follows = |index: &usize| {
            self.is_being_read(batch, *index)
                && self.pages.address(pages[*index]) == address + (index - first) * PAGE_BYTES
        };
        let end = (first + 1..pages.len()).find(|index| !follows(index)).unwrap_or(pages.len());
        let from = self.staging.address(batch, first);
        let length = (end - first) * PAGE_BYTES;
        debug_assert!(!self.has_changes());
        // SAFETY: this copies the pages' contents, just read, to where they belong.
        let progress = unsafe {
            match self.memfd {
                None => self.uffd.copy(address, from, length),
                Some(_) => self.copy_in(address, from, length, first == 0),
            }
        };
        let installed = match progress.error {
            None => progress.bytes / PAGE_BYTES,
            Some(Errno::AGAIN) => {
                self.catch_up();
                return 0;
            }
            Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
            // The program has protected, unmapped or moved pages while they were read. Put a single
            // page and handle each error.
            Some(_) => usize::from(self.put(self.staging.batches[batch].pages[first], from, false)),
        };
        for index in first..first + installed {
            let page = self.staging.batches[batch].pages[index];
            let kept = self.keep_or_free(self.staging.batches[batch].slots[index]);
            self.incoming -= 1;
            self.pages.set(page, State::Resident, kept);
            self.came_in(page, index == 0);
        }
        installed
    }

    /// Puts the first page of a window that no thread waits for into limbo. When a thread touches
    /// it, the agent reads the next window. A thread that came to the page meanwhile is woken and
    /// faults again.
    fn leave_trigger(&mut self, page: PageId, batch: usize) {
        let (slot, from) = (self.staging.batches[batch].slots[0], self.staging.address(batch, 0));
        let limbo = self.limbo(page);
        self.copy_own(limbo, from);
        let kept = self.keep_or_free(slot);
        self.incoming -= 1;
        self.pages.set(page, State::Limbo, kept);
        self.pages.mark(page, Flag::Trigger, true);
        self.arrive(page);
        self.wake(self.pages.address(page));
    }

    /// Copies a page of the pager to a place in the pager's own areas where a page is missing.
    pub(crate) fn copy_own(&self, to: usize, from: usize) {
        // SAFETY: both places are in the pager's own areas.
        if let Some(error) = unsafe { self.staging_uffd.copy(to, from, PAGE_BYTES) }.error {
            give_up(format_args!("a page cannot be copied to limbo: {error}"));
        }
    }

    /// Moves a page within the pager's own areas.
    pub(crate) fn move_own(&self, to: usize, from: usize) {
        loop {
            // SAFETY: this moves a frame of the pager itself to a place where a page is missing.
            match unsafe { self.staging_uffd.move_pages(to, from, PAGE_BYTES) }.error {
                None => break,
                Some(Errno::AGAIN | Errno::BUSY) => rustix::thread::sched_yield(),
                Some(error) => give_up(format_args!("a page cannot be moved to limbo: {error}")),
            }
        }
    }

    /// What a page keeps of the slot from which it was read. With a memfd that is the slot, because
    /// the agent then knows whether the page was written to before its next eviction. Otherwise it
    /// is nothing, and the slot is freed.
    fn keep_or_free(&mut self, slot: u32) -> u32 {
        if self.memfd.is_some() {
            return slot + 1;
        }
        self.store.free(slot);
        0
    }

    pub(crate) fn limbo(&mut self, page: PageId) -> usize {
        self.staging
            .limbo(page, &self.staging_uffd)
            .unwrap_or_else(|error| give_up(format_args!("no address space for limbo: {error}")))
    }
}
