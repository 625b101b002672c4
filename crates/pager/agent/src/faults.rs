//! Faults: what to do for a thread that waits for a page.

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

/// Times that a frame is found in use before its contents are copied instead: that may be for good, if it was shared by a fork.
const BUSY_PATIENCE: usize = 256;
/// Times that a page is tried to be put back, when nothing explains why it cannot be.
const PATIENCE: usize = 16;

/// Whether a window is read for a page that is waited for, or in good time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    Now,
    Soon,
}

impl Agent {
    /// A thread waits for the page at this address.
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
            // It will be woken when the read is done.
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

    /// A fault on a page that is thought to be mapped. Mostly another thread's fault has brought it in meanwhile. But a
    /// page that the program dropped can have been touched between the news of that and the deed: it was filled anew,
    /// then dropped, and has to read as zeros.
    fn check_presence(&mut self, page: PageId, address: usize) {
        loop {
            // SAFETY: zeros to a page that the program has dropped, or nothing if it is there.
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

    /// Lets the threads go on that wait for a page, to see for themselves.
    pub(crate) fn wake(&self, address: usize) {
        let _ = self.uffd.wake(address, PAGE_BYTES);
    }

    /// A page that is thought to be mapped is not there: the program has dropped it, or changed its mapping. (What was
    /// dropped may have been touched and dropped between the news and the deed; see `check_presence`.)
    pub(crate) fn vanished(&mut self, page: PageId) {
        let address = self.pages.address(page);
        self.catch_up();
        if self.is_thought_mapped(page, address) {
            self.forget(page);
        }
        self.wake(address);
    }

    /// Puts a page's contents, in the pager's memory at `from`, to where the program expects them; with their frame if that
    /// `moves`. Returns false if the program does not expect them any more: the page's state has changed. Anything else
    /// that keeps contents from their place is the end; they must not be forgotten.
    fn put(&mut self, page: PageId, from: usize, moves: bool) -> bool {
        let address = self.pages.address(page);
        let expected = (self.pages.state(page), self.pages.place(page));
        let (mut attempts, mut busy, mut patience) = (0, 0, Patience::new());
        loop {
            debug_assert!(!self.has_changes());
            // SAFETY: the page's own contents to where they belong.
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
                // Frames change hands only between memory that is used in the same way. This is not writable, or locked.
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
            if self.pages.find(address) != Some(page)
                || (self.pages.state(page), self.pages.place(page)) != expected
            {
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

    /// Zeros for a page never touched, and for those behind it if that is how the program goes on.
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
        self.hold();
        let mut count = self.before_next_guard(address, count);
        let (mut done, mut patience) = (0, Patience::new());
        while done < count {
            let at = address + done * PAGE_BYTES;
            let (zeros, length) = (self.staging.zeros(), (count - done) * PAGE_BYTES);
            // SAFETY: zeros to pages that are missing where the program expects zeros.
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
                // It is there, since the program is about to drop it: the kernel tells of that a moment
                // before. It is left alone: taken for new and paged out meanwhile, it would come back
                // as it was.
                Some(Errno::EXIST) if self.memfd.is_none() => {
                    self.wake(at);
                    done += 1;
                    continue;
                }
                // The file has kept it.
                Some(Errno::EXIST) => {
                    self.wake(at);
                    1
                }
                Some(Errno::NOMEM) if patience.wait() => continue,
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                // Unmapped meanwhile, with all that comes behind.
                Some(_) => {
                    self.wake(at);
                    break;
                }
            };
            // What is registered has grown by itself: a stack, or a mapping that was enlarged. (Had it
            // not, nothing could have been put there: the fault was one of before a change.)
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
        self.let_go();
    }

    /// A page in limbo has been touched: it is mapped again, and counts as referenced. So do the pages behind it that are
    /// in limbo too, if the program goes through its memory in order.
    fn rescue(&mut self, page: PageId, address: usize) {
        let triggered = self.pages.mark(page, Flag::Trigger, false);
        let (window, stream) = self.ahead.fault(address / PAGE_BYTES);
        let mut next = address;
        for rescued in 0..self.rescue_run(page, window) {
            let page = PageId(page.0 + rescued as u32);
            self.pages.mark(page, Flag::Referenced, true);
            // Given up too early: for the policy it comes in anew.
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

    /// Maps a page in limbo again, and up to a window of its neighbours there. Returns how many.
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
        // SAFETY: the pages' own contents, to where they belong.
        let progress = unsafe { self.uffd.move_pages(address, limbo, count * PAGE_BYTES) };
        if progress.error.is_some() {
            // One page, with care.
            return usize::from(self.map_from_limbo(page));
        }
        let moved = progress.bytes / PAGE_BYTES;
        for id in page.0..page.0 + moved as u32 {
            self.pages.set(PageId(id), State::Resident, 0);
        }
        moved
    }

    /// The program has come to the first page of a window read ahead: time for the one behind it.
    fn read_on(&mut self, address: usize, window: usize, stream: StreamId) {
        let mut next = address + PAGE_BYTES;
        let farthest = address + 2 * self.staging.batch_pages() * PAGE_BYTES;
        while next < farthest && !matches!(self.pages.state_at(next), State::Stored | State::Absent) {
            next += PAGE_BYTES;
        }
        self.read(next, window, Need::Soon);
        self.ahead.expect(stream, next / PAGE_BYTES);
    }

    /// Moves a page from limbo to its address. Returns false if there is no such place any more.
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

    /// A page that is on its way to the store is touched: it comes back from there.
    fn take_back(&mut self, page: PageId, address: usize) {
        let (_, stream) = self.ahead.fault(address / PAGE_BYTES);
        self.ahead.expect(stream, address / PAGE_BYTES + 1);
        self.make_room(1);
        // Making room may have meant to wait for the store.
        if self.pages.state(page) != State::Writing {
            return self.retry(page, address);
        }
        let (batch, index) = self.staging.batch_of(self.pages.place(page));
        let expected = self.pages.place(page);
        let (mut attempts, mut patience) = (0, Patience::new());
        loop {
            debug_assert!(!self.has_changes());
            // SAFETY: the page's contents, which the batch holds until it is written, to where they belong.
            let progress = unsafe { self.uffd.copy(address, self.staging.address(batch, index), PAGE_BYTES) };
            match progress.error {
                None => break,
                Some(Errno::NOMEM) if patience.wait() => {}
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                Some(error) => {
                    self.catch_up();
                    if self.pages.find(address) != Some(page)
                        || self.pages.state(page) != State::Writing
                        || self.pages.place(page) != expected
                    {
                        return self.wake(address);
                    }
                    attempts += usize::from(error != Errno::AGAIN);
                    if attempts > PATIENCE {
                        give_up(format_args!("a page cannot be put back to {address:#x}: {error}"));
                    }
                }
            }
        }
        // The slot is freed when the write is done.
        self.pages.set(page, State::Resident, 0);
        self.arrive(page);
    }

    /// A page's state has changed while room was made for it.
    fn retry(&mut self, page: PageId, address: usize) {
        if self.pages.state(page) == State::Stored {
            self.refault(page, address);
        } else {
            self.wake(address);
        }
    }

    /// A page in the store is touched.
    fn refault(&mut self, page: PageId, address: usize) {
        let (window, stream) = self.ahead.fault(address / PAGE_BYTES);
        let count = self.read(address, window, Need::Now);
        if count == 0 {
            // Making room has changed what was known of the page.
            debug_assert_ne!(self.pages.state(page), State::Stored);
            return self.wake(address);
        }
        let next = address + count * PAGE_BYTES;
        self.ahead.expect(stream, next / PAGE_BYTES);
        if window >= TRIGGERED_PAGES {
            self.read(next, window, Need::Soon);
        }
    }

    /// Asks for pages of the store, from an address on, at most a window of them. Returns how many.
    fn read(&mut self, address: usize, window: usize, need: Need) -> usize {
        let most = window.min(self.staging.batch_pages()).min(self.room() / 8).max(1);
        if self.pages.state_at(address) != State::Stored {
            return 0;
        }
        // Nobody waits for a window read in good time; so it does not wait for staging either.
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
        // A batch may have to be waited for, and what waits beside it is read meanwhile; but nothing of this window.
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
        // Whether the first page is waited for is told by the flag that every other first page has.
        if need == Need::Soon {
            let first = self.staging.batches[batch].pages[0];
            self.pages.mark(first, Flag::Trigger, true);
        }
        self.staging.batches[batch].slots = slots;
        self.transfer(Direction::Read, batch);
        add(&self.control.counters.pages_read, count as u64);
        count
    }

    /// Asks for the pages of a batch, from or to their slots: neighbours in one request.
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
            // SAFETY: the batch keeps these pages for the request until it is reaped.
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

    /// A window has been read: its pages go where they belong.
    pub(crate) fn read_done(&mut self, batch: usize) {
        self.hold();
        let count = self.staging.batches[batch].pages.len();
        let first = self.pages.address(self.staging.batches[batch].pages[0]);
        self.before_next_guard(first, count);
        let mut index = 0;
        while index < count {
            let page = self.staging.batches[batch].pages[index];
            if !self.is_being_read(batch, index) {
                // Dropped by the program while it was read; its slot went with it.
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
        self.let_go();
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

    /// Brings a run of pages that have been read, from `first` of a batch on, to their addresses. Returns how many are
    /// there; the others have to be looked at again.
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
        // SAFETY: the pages' contents, just read, to where they belong.
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
            // One page at a time, with care: protected, unmapped, or moved by the program while it was read.
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

    /// The first page of a window that nobody waits for goes to limbo: its touch asks for the next window. If somebody
    /// has come to it meanwhile, it was woken in vain and faults again.
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

    /// Copies a page of the pager's own to where it is missing.
    pub(crate) fn copy_own(&self, to: usize, from: usize) {
        // SAFETY: the pager's own areas.
        if let Some(error) = unsafe { self.staging_uffd.copy(to, from, PAGE_BYTES) }.error {
            give_up(format_args!("a page cannot be copied to limbo: {error}"));
        }
    }

    /// Moves a page within the pager's own areas.
    pub(crate) fn move_own(&self, to: usize, from: usize) {
        loop {
            // SAFETY: a frame of the pager's own, to a place that is missing.
            match unsafe { self.staging_uffd.move_pages(to, from, PAGE_BYTES) }.error {
                None => break,
                Some(Errno::AGAIN | Errno::BUSY) => rustix::thread::sched_yield(),
                Some(error) => give_up(format_args!("a page cannot be moved to limbo: {error}")),
            }
        }
    }

    /// What the page of a slot that has been read has to remember: the slot, where it is known whether the page has been
    /// written to when it goes again; otherwise nothing, and the slot is free.
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
