//! Changes that the program makes to its address space, told by the kernel, and memory that it gets.

use crate::agent::{Agent, LEAST_FRAMES, make_policy};
use crate::bits::Bits;
use crate::clock;
use crate::control::add;
use crate::failure::give_up;
use crate::last::program_threads;
use crate::mailbox::{ARGUMENTS, Call, MAILBOX};
use crate::maps;
use crate::memfd;
use crate::own::{self, Patience};
use crate::pages::{Flag, State, page_start};
use crate::regions::Regions;
use crate::rlimits;
use crate::staging::SEGMENT_BYTES;
use alloc::vec::Vec;
use rustix::io::Errno;
use sweephand_policy::PageId;
use sweephand_uffd::{PAGE_BYTES, Region};

/// Of a user's addresses.
const ADDRESS_BITS: u32 = 47;
/// Most bytes of the pager's tables and of the policy's for a page, as arrays double.
const TABLE_BYTES: usize = 96;
/// Bytes for stacks and what else comes with children.
const SPARE_BYTES: usize = 16 << 20;
/// Bytes of what is not listed as the pager's own: rings, blocks shared with the command.
const UNLISTED_BYTES: usize = 2 << 20;

/// Private memory beyond what was known of that is worth a look at the mappings: one part in so many of all memory, within
/// bounds.
const STRAY_PART: usize = 64;
const LEAST_STRAY_PAGES: usize = 64;
const MOST_STRAY_PAGES: usize = 1024;
/// While nothing is managed: one part in so many of all memory is left to what grows between two looks.
const NEARLY_FULL: usize = 16;

impl Agent {
    /// Forgets what is known of a page: what it held is not needed any more.
    pub(crate) fn forget(&mut self, page: PageId) {
        match self.pages.state(page) {
            State::Absent | State::Guarded => return,
            State::Stored => self.store.free(self.pages.place(page)),
            State::Reading => {
                let (batch, index) = self.staging.batch_of(self.pages.place(page));
                self.store.free(self.staging.batches[batch].slots[index]);
                self.incoming -= 1;
            }
            State::Limbo => {
                let limbo = self.limbo(page);
                self.staging.drop_pages(limbo, 1);
            }
            // Its slot is freed when it is written.
            State::Writing | State::Resident | State::Pinned => {}
        }
        if let (State::Resident | State::Limbo, Some(slot)) =
            (self.pages.state(page), self.pages.kept_slot(page))
        {
            self.store.free(slot);
        }
        self.policy.remove(page);
        self.pages.set(page, State::Absent, 0);
    }

    /// The pages of a range that something is known of, in address order.
    fn known(&mut self, start: usize, end: usize) -> Vec<PageId> {
        let mut known = Vec::new();
        self.pages.for_each_in(start, end, |pages, page| {
            if pages.state(page) != State::Absent {
                known.push(page);
            }
        });
        known
    }

    /// The program drops the contents of a range, which stays mapped. Guards stay as well.
    pub(crate) fn drop_contents(&mut self, start: usize, end: usize) {
        if let Some(memfd) = &self.memfd {
            memfd.punch(start, end - start);
        }
        for page in self.known(start, end) {
            self.forget(page);
        }
    }

    /// The program has unmapped a range.
    pub(crate) fn unmapped(&mut self, start: usize, end: usize) {
        self.drop_contents(start, end);
        self.forget_guards(start, end);
        self.pages.forget_chunks(start, end);
        self.regions.remove(start, end);
        self.kept.retain(|page, _| !(start..end).contains(page));
        let ended = self.objects.remove(start, end);
        self.end_objects(&ended);
        let stacks: Vec<usize> = self.exempt.range(start..end).copied().collect();
        stacks.iter().for_each(|page| {
            self.exempt.remove(page);
        });
        if let Some(memfd) = &mut self.memfd {
            memfd.stacks.remove(start, end);
        }
    }

    /// Objects are gone, and their pages with them or handed to others.
    pub(crate) fn end_objects(&mut self, ended: &[u32]) {
        ended.iter().for_each(|&object| self.policy.free_object(object));
    }

    /// The program has an object at `start`, new or with another end.
    fn object(&mut self, call: Call, start: usize, end: usize) {
        // Changes at this address that came before must be known before what came after.
        if self.managed {
            self.catch_up();
        }
        let ended = match call {
            Call::Object => self.objects.add(start, end),
            _ => self.objects.extend(start, end),
        };
        add(&self.control.counters.objects, u64::from(call == Call::Object));
        // Where there are pages already (they were mapped in place of others), they are the object's.
        for page in self.known(start, end) {
            let object = self.objects.at(start);
            let exact = self.memfd.as_mut().map(|memfd| memfd.bits(self.pagemap.file()));
            let mut bits =
                Bits { pages: &mut self.pages, sampler: &mut self.sampler, exact, choosing: false };
            self.policy.assign(page, object, &mut bits);
        }
        self.end_objects(&ended);
    }

    /// The program has moved a range. Its pages are new to the policy where they are now.
    pub(crate) fn remapped(&mut self, from: usize, to: usize, length: usize) {
        if self.memfd.is_some() {
            give_up(format_args!("{}", memfd::UNSEEN_REMAP));
        }
        let managed = |(start, end): (usize, usize)| (start.max(from), end.min(from + length));
        let moved: Vec<_> = self.regions.iter().map(managed).filter(|(start, end)| start < end).collect();
        self.drop_contents(to, to + length);
        self.forget_guards(to, to + length);
        let ended = self.objects.relocate(from, to, length);
        self.end_objects(&ended);
        for (start, end) in moved {
            self.regions.remove(start, end);
            self.regions.add(start - from + to, end - from + to);
        }
        for old in self.known(from, from + length) {
            let new = self.pages.meet(self.pages.address(old) - from + to);
            let (state, place) = (self.pages.state(old), self.pages.place(old));
            let referenced = self.pages.has(old, Flag::Referenced);
            if state == State::Limbo {
                let (from, to) = (self.limbo(old), self.limbo(new));
                self.move_own(to, from);
            }
            self.policy.remove(old);
            self.pages.set(old, State::Absent, 0);
            self.pages.set(new, state, place);
            match state {
                State::Resident | State::Limbo => {
                    self.pages.mark(new, Flag::Referenced, referenced);
                    self.arrive(new);
                }
                State::Writing | State::Reading => {
                    let (batch, index) = self.staging.batch_of(place);
                    self.staging.batches[batch].pages[index] = new;
                }
                State::Pinned => self.pinned.push_back(new.0),
                State::Stored | State::Absent | State::Guarded => {}
            }
        }
        self.pages.forget_chunks(from, from + length);
    }

    /// A thread of the program has called.
    pub(crate) fn called(&mut self, call: Call, arguments: [usize; ARGUMENTS]) -> isize {
        let [first, second, ..] = arguments;
        match call {
            Call::Grown if self.managed && self.memfd.is_some() => {
                self.convert(first, first + second, arguments[2] as u32);
            }
            Call::Grown if self.managed => {
                // Changes at this address that came before must be known before what came after.
                self.catch_up();
                self.manage(first, first + second);
            }
            Call::Grown => self.count_or_manage(),
            Call::Stack => {
                self.exempt.insert(first);
                if let Some(memfd) = &mut self.memfd {
                    memfd.stacks.add(first + PAGE_BYTES - second, first + PAGE_BYTES);
                }
            }
            Call::NotInherited => self.not_inherited.add(first, first + second),
            Call::Inherited => self.not_inherited.remove(first, first + second),
            call @ (Call::Object | Call::Resized) => self.object(call, first, first + second),
            Call::BeforeFork => self.before_fork(first, second),
            Call::Drop => return self.drop_private(first, second, arguments[2] as u32),
            Call::Remap => return self.remap(arguments),
            Call::Credentials => self.follow_credentials(),
            Call::Reserve => return self.reserve(first) as isize,
            Call::Keep => self.keep(first, first + second),
            Call::LetGo => self.let_pages_go(first, first + second),
            Call::Threads => return program_threads().map_or(-1, |count| count as isize),
            Call::Guard => return self.guard(first, second, arguments[2] as u32),
            Call::CatchUp if self.managed => self.catch_up(),
            Call::CatchUp => {}
            // `park` has waited for it.
            Call::AfterFork => {}
        }
        0
    }

    /// What has been told of may not fit: look what there is, and manage it all if it does not.
    fn count_or_manage(&mut self) {
        let told = MAILBOX.native_bytes();
        let bytes: usize = self.native().iter().map(|&(start, end)| end - start).sum();
        MAILBOX.correct_native_bytes(bytes as i64 - told);
        if bytes as i64 > self.room_bytes() {
            self.manage_all();
        }
    }

    /// Looks, when it is time, what the process takes besides what is managed, and for memory that nobody told of: from
    /// system calls that are not made through the C library.
    pub(crate) fn watch(&mut self) {
        if !self.account.is_due(clock::coarse_ms()) {
            return;
        }
        let Some(anonymous) = self.look() else { return };
        let budget = self.control.order.budget_pages();
        let stray = (budget / STRAY_PART).clamp(LEAST_STRAY_PAGES, MOST_STRAY_PAGES);
        if !self.managed {
            let told = MAILBOX.native_bytes() as usize / PAGE_BYTES;
            // What counts has grown as well.
            MAILBOX.allow(self.room_bytes());
            // It may come from files, of which nobody tells.
            let soon = self.staging.pages() + budget / NEARLY_FULL;
            let is_full =
                self.policy.granted().is_none() && anonymous + self.account.others() + soon > budget;
            if is_full {
                self.manage_all();
            } else if anonymous > self.account.searched.max(told + self.own_pages()) + stray {
                self.account.searched = anonymous;
                self.count_or_manage();
            }
            return;
        }
        let Some(private) = self.account.private() else { return };
        if private > self.account.searched.max(self.own_pages()) + stray {
            // What is found is counted page by page, and no longer here.
            self.account.forget_private();
            self.manage_all();
            self.look();
        }
        self.account.searched = self.account.private().unwrap_or(private);
    }

    /// Pages that must not be missing from now on. (Until they are touched they may be.)
    fn keep(&mut self, start: usize, end: usize) {
        // With a memfd what is dropped from memory is found in the file.
        if self.memfd.is_some() {
            return;
        }
        for address in (page_start(start)..end).step_by(PAGE_BYTES) {
            *self.kept.entry(address).or_default() += 1;
            let Some(page) = self.pages.find(address) else { continue };
            if self.pages.state(page) == State::Limbo && !self.map_from_limbo(page) {
                continue;
            }
            if self.pages.state(page) == State::Resident {
                self.policy.remove(page);
                self.pages.mark(page, Flag::Condemned, false);
                self.pages.mark(page, Flag::Arriving, false);
                self.pages.set(page, State::Pinned, 0);
            }
        }
    }

    /// The same pages may be missing again, if nobody else has them kept.
    fn let_pages_go(&mut self, start: usize, end: usize) {
        for address in (page_start(start)..end).step_by(PAGE_BYTES) {
            match self.kept.get_mut(&address) {
                None => continue,
                Some(1) => _ = self.kept.remove(&address),
                Some(count) => {
                    *count -= 1;
                    continue;
                }
            }
            if let Some(page) = self.pages.find(address)
                && self.pages.state(page) == State::Pinned
            {
                self.pages.set(page, State::Resident, 0);
                self.arrive(page);
            }
        }
    }

    /// Reserves address space for whatever the pager will need for so many bytes of the program's.
    /// Returns how many bytes it has then.
    fn reserve(&mut self, bytes: usize) -> usize {
        // A place in limbo for each page, in whole segments, and the tables.
        let pages = bytes.min(1 << ADDRESS_BITS) / PAGE_BYTES;
        own::reserve(bytes.min(1 << ADDRESS_BITS) + 2 * SEGMENT_BYTES + pages * TABLE_BYTES + SPARE_BYTES);
        let library = own::library().map_or(0, |(start, end)| end - start);
        own::mappings().map(|(start, end)| end - start).sum::<usize>() + library + UNLISTED_BYTES
    }

    /// The program's writable anonymous memory that is not managed.
    pub(crate) fn native(&self) -> Vec<(usize, usize)> {
        let Some((mappings, text)) = maps::read() else {
            give_up(format_args!("/proc/self/maps: cannot be read"))
        };
        let mut writable = Regions::new();
        mappings.iter().for_each(|mapping| writable.add(mapping.start, mapping.end));
        own::mappings().chain(own::library()).for_each(|(start, end)| writable.remove(start, end));
        drop((mappings, text));
        writable.iter().flat_map(|(start, end)| self.regions.gaps(start, end)).collect()
    }

    /// From now on all memory of the program comes through here.
    pub(crate) fn manage_all(&mut self) {
        let is_first = !core::mem::replace(&mut self.managed, true);
        if is_first {
            rlimits::refuse_cores();
        }
        // Whoever moves a mapping from now on asks first; whoever does so now is through before the kernel tells of anything.
        self.hold_mappings();
        MAILBOX.allow(-1);
        MAILBOX.let_go();
        // Pages are what is managed; huge ones would only be split. A kernel without them refuses, and that is well.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
        if self.memfd.is_some() {
            return self.convert_all();
        }
        self.catch_up();
        let native = self.native();
        if is_first && self.policy.granted().is_none() {
            // It has seen nothing yet, and now it is known how many frames it will have.
            let present: usize = native.iter().map(|&(start, end)| self.present(start, end)).sum();
            let anonymous = self.look().unwrap_or_default();
            self.account.forget_private();
            let staging = self.staging.pages() - self.staging.frames();
            let apart = anonymous.saturating_sub(present) + staging;
            self.policy_frames = self.frames_beside(apart).max(LEAST_FRAMES);
            self.policy = make_policy(self.control, self.policy_frames);
        }
        // All of it at first: what is registered grows no more without us, while pages are counted.
        let taken: Vec<(usize, usize)> =
            native.into_iter().flat_map(|(start, end)| self.register(start, end)).collect();
        taken.into_iter().for_each(|(start, end)| self.take_stock(start, end));
        self.make_room(0);
    }

    /// Pages that are there in a range.
    pub(crate) fn present(&self, start: usize, end: usize) -> usize {
        let (mut from, mut pages) = (start, 0);
        while from < end {
            let mut found = [Region { start: 0, end: 0, categories: 0 }; 64];
            // What has gone meanwhile has no pages.
            let Ok((count, to)) = self.pagemap.present(from, end, &mut found) else { break };
            let bytes = |region: &Region| (region.end - region.start) as usize;
            pages += found[..count].iter().map(bytes).sum::<usize>() / PAGE_BYTES;
            from = to.max(from + PAGE_BYTES);
        }
        pages
    }

    /// Takes a range under management, with the pages that are there, except for pages that must not be.
    fn manage(&mut self, start: usize, end: usize) {
        self.register(start, end).into_iter().for_each(|(start, end)| self.take_stock(start, end));
        self.make_room(0);
    }

    /// Has missing pages of a range come through here, except for pages that must not be. Returns what is new of it.
    fn register(&mut self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let (mut from, end) = (start, end.next_multiple_of(PAGE_BYTES));
        let exempt: Vec<usize> = self.exempt.range(start..end).copied().collect();
        let mut registered = Vec::new();
        for page in exempt {
            self.register_part(from, page, &mut registered);
            from = page + PAGE_BYTES;
        }
        self.register_part(from, end, &mut registered);
        registered
    }

    fn register_part(&mut self, start: usize, end: usize, registered: &mut Vec<(usize, usize)>) {
        if start >= end {
            return;
        }
        for (start, end) in self.regions.gaps(start, end) {
            let mut patience = Patience::new();
            let answer = loop {
                match self.uffd.register(start, end - start) {
                    Err(Errno::NOMEM) if patience.wait() => {}
                    answer => break answer,
                }
            };
            match answer {
                Ok(()) => self.regions.add(start, end),
                // Not anonymous, or gone again: it is no business of ours.
                Err(Errno::INVAL | Errno::NOENT | Errno::PERM | Errno::BUSY) => continue,
                Err(error) => give_up(format_args!(
                    "memory at {start:#x} cannot be managed: {error}{}",
                    if error == Errno::NOMEM { "; raise the sysctl vm.max_map_count" } else { "" }
                )),
            }
            self.look_for_guards(start, end);
            registered.push((start, end));
        }
    }

    /// Hands the pages that are there, in a range just registered, to the policy.
    ///
    /// Nothing is heard of changes meanwhile: what a program drops it drops a moment after the kernel has told of it, and a
    /// page that was counted in between, and paged out, would be what it was.
    pub(crate) fn take_stock(&mut self, start: usize, end: usize) {
        let mut from = start;
        while from < end {
            let mut found = [Region { start: 0, end: 0, categories: 0 }; 64];
            let (count, to) = match self.pagemap.present(from, end, &mut found) {
                Ok(result) => result,
                Err(error) => give_up(format_args!("/proc/self/pagemap: cannot be scanned: {error}")),
            };
            for region in &found[..count] {
                for address in (region.start as usize..region.end as usize).step_by(PAGE_BYTES) {
                    let page = self.pages.meet(address);
                    if self.pages.state(page) == State::Absent {
                        // What is lent has to be asked for.
                        if self.policy.granted().is_some() {
                            self.make_room(1);
                        }
                        self.pages.set(page, State::Resident, 0);
                        self.arrive(page);
                    }
                }
            }
            from = to.max(from + PAGE_BYTES);
        }
    }
}
