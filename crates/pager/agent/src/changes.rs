//! Changes that the program makes to its address space: those that the kernel reports, and new
//! memory.

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

/// Bits of a user space address.
const ADDRESS_BITS: u32 = 47;
/// Most bytes that the pager's and the policy's tables take for a page. Arrays double when they
/// grow.
const TABLE_BYTES: usize = 96;
/// Bytes for stacks and for what else children need.
const SPARE_BYTES: usize = 16 << 20;
/// Bytes that the pager has but does not list as its own: rings, blocks shared with the command.
const UNLISTED_BYTES: usize = 2 << 20;

/// If private memory exceeds the known amount by this part of all memory (within the two bounds
/// below), the agent searches the mappings.
const STRAY_PART: usize = 64;
const LEAST_STRAY_PAGES: usize = 64;
const MOST_STRAY_PAGES: usize = 1024;
/// While nothing is managed, the agent leaves one part in this many of all memory free for what
/// grows between two looks.
const NEARLY_FULL: usize = 16;

impl Agent {
    /// Forgets a page. The program no longer needs its contents.
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
            // The slot is freed when the write ends.
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

    /// The pages of a range about which the agent knows something, in address order.
    fn known(&mut self, start: usize, end: usize) -> Vec<PageId> {
        let mut known = Vec::new();
        self.pages.for_each_in(start, end, |pages, page| {
            if pages.state(page) != State::Absent {
                known.push(page);
            }
        });
        known
    }

    /// The program drops the contents of a range. The range stays mapped, and guards stay as well.
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

    /// Tells the policy that objects have ended. Their pages are gone or belong to other objects.
    pub(crate) fn end_objects(&mut self, ended: &[u32]) {
        ended.iter().for_each(|&object| self.policy.free_object(object));
    }

    /// The program has an object at `start`, a new one or one with another end.
    fn object(&mut self, call: Call, start: usize, end: usize) {
        // Earlier changes at this address must be applied first.
        if self.managed {
            self.catch_up();
        }
        let ended = match call {
            Call::Object => self.objects.add(start, end),
            _ => self.objects.extend(start, end),
        };
        add(&self.control.counters.objects, u64::from(call == Call::Object));
        // Pages that are here already were mapped in place of others. They belong to this object
        // now.
        for page in self.known(start, end) {
            let object = self.objects.at(start);
            let exact = self.memfd.as_mut().map(|memfd| memfd.bits(self.pagemap.file()));
            let mut bits =
                Bits { pages: &mut self.pages, sampler: &mut self.sampler, exact, choosing: false };
            self.policy.assign(page, object, &mut bits);
        }
        self.end_objects(&ended);
    }

    /// The program has moved a range. To the policy, its pages are new at the new place.
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

    /// Answers a call by a thread of the program.
    pub(crate) fn called(&mut self, call: Call, arguments: [usize; ARGUMENTS]) -> isize {
        let [first, second, ..] = arguments;
        match call {
            Call::Grown if self.managed && self.memfd.is_some() => {
                self.convert(first, first + second, arguments[2] as u32);
            }
            Call::Grown if self.managed => {
                // Earlier changes at this address must be applied first.
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
            Call::KeepResident => self.keep_resident(first, first + second),
            Call::ReleaseResident => self.release_resident(first, first + second),
            Call::Threads => return program_threads().map_or(-1, |count| count as isize),
            Call::Guard => return self.guard(first, second, arguments[2] as u32),
            Call::CatchUp if self.managed => self.catch_up(),
            Call::CatchUp => {}
            // `park` has waited for this call.
            Call::AfterFork => {}
        }
        0
    }

    /// The memory that the hooks have reported may not fit. Counts what there is, and manages all
    /// of it if it does not fit.
    fn count_or_manage(&mut self) {
        let told = MAILBOX.native_bytes();
        let bytes: usize = self.native().iter().map(|&(start, end)| end - start).sum();
        MAILBOX.correct_native_bytes(bytes as i64 - told);
        if bytes as i64 > self.room_bytes() {
            self.manage_all();
        }
    }

    /// When it is time, checks how much memory the process takes besides the managed memory. Also
    /// finds memory that no hook has reported, because the program made system calls without the C
    /// library.
    pub(crate) fn watch(&mut self) {
        if !self.account.is_due(clock::coarse_ms()) {
            return;
        }
        let Some(anonymous) = self.look() else { return };
        let budget = self.control.order.budget_pages();
        let stray = (budget / STRAY_PART).clamp(LEAST_STRAY_PAGES, MOST_STRAY_PAGES);
        if !self.managed {
            let told = MAILBOX.native_bytes() as usize / PAGE_BYTES;
            // The memory that counts may have grown as well.
            MAILBOX.allow(self.room_bytes());
            // The growth may come from files, which no hook reports.
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
            // Pages that this finds are counted one by one from now on, and no longer here.
            self.account.forget_private();
            self.manage_all();
            self.look();
        }
        self.account.searched = self.account.private().unwrap_or(private);
    }

    /// Keeps the pages of a range in memory from now on. A page that was never touched may stay
    /// missing.
    fn keep_resident(&mut self, start: usize, end: usize) {
        // With a memfd, a page that is dropped from memory is found in the file.
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

    /// Undoes [`Self::keep`]. A page may be paged out again when nothing else keeps it.
    fn release_resident(&mut self, start: usize, end: usize) {
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

    /// Reserves address space for what the pager will need to manage this many bytes of the
    /// program. Returns how many bytes the pager has then.
    fn reserve(&mut self, bytes: usize) -> usize {
        // Each page needs a place in limbo, in whole segments, and entries in the tables.
        let pages = bytes.min(1 << ADDRESS_BITS) / PAGE_BYTES;
        own::reserve(bytes.min(1 << ADDRESS_BITS) + 2 * SEGMENT_BYTES + pages * TABLE_BYTES + SPARE_BYTES);
        let library = own::library().map_or(0, |(start, end)| end - start);
        own::mappings().map(|(start, end)| end - start).sum::<usize>() + library + UNLISTED_BYTES
    }

    /// The program's writable anonymous memory that the agent does not manage.
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

    /// Starts to manage all memory of the program.
    pub(crate) fn manage_all(&mut self) {
        let is_first = !core::mem::replace(&mut self.managed, true);
        if is_first {
            rlimits::refuse_cores();
        }
        // A thread that moves a mapping from now on asks first. A thread that moves one now will be
        // done before the kernel reports any change.
        self.block_moves();
        MAILBOX.allow(-1);
        MAILBOX.allow_moves();
        // The pager manages small pages, and huge pages would only be split. A kernel without huge
        // pages refuses this call, which does no harm.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
        if self.memfd.is_some() {
            return self.convert_all();
        }
        self.catch_up();
        let native = self.native();
        if is_first && self.policy.granted().is_none() {
            // The policy has seen no page yet, and it is now known how many frames it will have.
            let present: usize = native.iter().map(|&(start, end)| self.present(start, end)).sum();
            let anonymous = self.look().unwrap_or_default();
            self.account.forget_private();
            let staging = self.staging.pages() - self.staging.frames();
            let apart = anonymous.saturating_sub(present) + staging;
            self.policy_frames = self.frames_beside(apart).max(LEAST_FRAMES);
            self.policy = make_policy(self.control, self.policy_frames);
        }
        // Registers all of the memory first. Then registered memory cannot grow unseen while pages
        // are counted.
        let taken: Vec<(usize, usize)> =
            native.into_iter().flat_map(|(start, end)| self.register(start, end)).collect();
        taken.into_iter().for_each(|(start, end)| self.take_stock(start, end));
        self.make_room(0);
    }

    /// Counts the pages that are present in a range.
    pub(crate) fn present(&self, start: usize, end: usize) -> usize {
        let (mut from, mut pages) = (start, 0);
        while from < end {
            let mut found = [Region { start: 0, end: 0, categories: 0 }; 64];
            // A range that has disappeared meanwhile has no pages.
            let Ok((count, to)) = self.pagemap.present(from, end, &mut found) else { break };
            let bytes = |region: &Region| (region.end - region.start) as usize;
            pages += found[..count].iter().map(bytes).sum::<usize>() / PAGE_BYTES;
            from = to.max(from + PAGE_BYTES);
        }
        pages
    }

    /// Manages a range and the pages that are present there, except for exempt pages.
    fn manage(&mut self, start: usize, end: usize) {
        self.register(start, end).into_iter().for_each(|(start, end)| self.take_stock(start, end));
        self.make_room(0);
    }

    /// Registers a range, except for exempt pages, so that its missing pages come through the
    /// agent. Returns the parts that were not registered before.
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
                // The range is not anonymous, or it has disappeared. The agent does not manage it.
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

    /// Hands the present pages of a range that was just registered to the policy.
    ///
    /// The agent reads no changes meanwhile. The kernel reports a drop a moment before it happens.
    /// A page that was counted and paged out in that moment would keep its old contents.
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
                        // Lent memory has to be requested.
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
