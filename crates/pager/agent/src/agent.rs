//! The agent: one thread, one loop, owner of all that is known about the program's pages.
//!
//! ```text
//!   uffd (the program's memory) ----> events, faults ---+
//!   staging uffd (doorbells) -------> calls ------------+--> one after another: faults, reclaim, changes
//!   ring (backing store) -----------> completions ------+
//!   supervisor's pidfd --------------> the end
//! ```
//!
//! At first nothing is managed: while the program's writable memory, touched or not, fits the limit, the kernel serves it
//! as it always does, and the agent only adds up how much there is. Once it may not fit, all of it is registered,
//! what is there is counted, and from then on every missing page comes through here.

use crate::account::{Account, Known};
use crate::bits::{Arrivals, Bits, Sampler};
use crate::cgroup;
use crate::clock;
use crate::control::{Control, add};
use crate::environment;
use crate::failure::{give_up, orphaned};
use crate::fork::Forking;
use crate::io::{self, Direction, Io, Request};
use crate::last;
use crate::live::{LivePolicy, LiveSpec};
use crate::mailbox::{MAILBOX, SLOTS};
use crate::memfd::{self, Memfd, advise, open_direct};
use crate::objects::Objects;
use crate::own;
use crate::pagemap::Pagemap;
use crate::pages::{Flag, Pages, State};
use crate::readahead::ReadAhead;
use crate::regions::Regions;
use crate::rest::Note;
use crate::rlimits::{self, Raised};
use crate::roots;
use crate::staging::Staging;
use crate::store::{self, Store};
use crate::tenant::Tenant;
use crate::wait::poll;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::ffi::CString;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linux_raw_sys::general::MADV_DONTNEED;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::sched_getaffinity;
use sweephand_policy::{NEVER, PageId, Reference};
use sweephand_uffd::{
    EVENT_FORK, EVENT_REMAP, EVENT_REMOVE, EVENT_UNMAP, Event, MOVE, Message, OpenError, PAGE_BYTES, THREAD,
    Userfaultfd,
};

/// Batches of the staging area.
const BATCHES: usize = 8;
/// Pages, in batches, that have come in so lately that the program may not have used them: two windows read ahead.
const FRESH_BATCHES: usize = 2;
/// Pages that the agent takes beside its arrays and staging: its stack, doorbells.
const FIXED_PAGES: usize = 32;
/// Bytes by which arrays and page tables may still grow for each page of memory, once all memory is managed: for as much
/// again outside of memory as in it.
const GROWTH_BYTES: usize = 40;
/// The least memory that a program can be run in.
pub const LEAST_PAGES: u64 = 1024;
/// How often the agent looks for something to do before it sleeps: for the time of a few faults.
const LOOKS: usize = 128;
/// How often, while a thread waits for a page that is being read: for the time of a slow read.
const LOOKS_FOR_READ: usize = 1024;
/// How often the agent looks whether a mapping is still being moved, before it goes on all the same.
const HELD_LOOKS: usize = 1000;
/// After so many of these it sleeps in between: the thread that moves the mapping may have to wait for a processor.
const HELD_LOOKS_AWAKE: usize = 100;
/// The fewest frames that a policy is made for.
pub(crate) const LEAST_FRAMES: usize = 64;
/// Of memory the program is left one part in so many, whatever else takes it.
const LEAST_ROOM: usize = 8;
/// Messages read at a time.
const MESSAGES: usize = 64;

/// Whether to look about is worth the processor's time: as long as one time in three something comes meanwhile, and else as a
/// rare try.
#[derive(Clone, Copy, Debug)]
struct Luck {
    score: u32,
    left_out: u32,
}

impl Default for Luck {
    fn default() -> Self {
        Self { score: Self::MOST, left_out: 0 }
    }
}

impl Luck {
    const MOST: u32 = 32;
    /// While there is no luck, one time in so many is tried.
    const RARELY: u32 = 16;

    fn is_worth_a_try(&mut self) -> bool {
        if self.score > 0 || self.left_out >= Self::RARELY {
            self.left_out = 0;
            return true;
        }
        self.left_out += 1;
        false
    }

    fn had(&mut self, luck: bool) {
        self.score = match luck {
            true => (self.score + 2).min(Self::MOST),
            false => self.score.saturating_sub(1),
        };
    }
}

/// The agent's state. All of it is the agent thread's own.
pub struct Agent {
    pub(crate) control: &'static Control,
    /// The program's memory, with events.
    pub(crate) uffd: Userfaultfd,
    /// The pager's own areas and the doorbells. Of events it tells of forks only.
    pub(crate) staging_uffd: Userfaultfd,
    /// The command. None: it has ended, and left its program's other processes to themselves.
    pub(crate) supervisor: Option<OwnedFd>,
    pub(crate) pagemap: Pagemap,
    pub(crate) doorbells: usize,
    /// A page that is registered with `uffd` from the beginning and never touched: so a child gets a
    /// userfaultfd from the kernel, which it might not be allowed to make.
    anchor: usize,
    /// Doorbells with a page, a bit each.
    pub(crate) bells: u64,
    /// Whether there are faults at doorbells to be read.
    is_rung: bool,

    /// Whether the program's memory is managed, rather than left to the kernel.
    pub(crate) managed: bool,
    pub(crate) regions: Regions,
    /// Memory that children do not get, or get wiped.
    pub(crate) not_inherited: Regions,
    /// Large allocations, where the policy tells them apart.
    pub(crate) objects: Objects,
    /// Pages that must never be missing: thread descriptors, which the kernel writes to when a thread is gone.
    pub(crate) exempt: BTreeSet<usize>,
    /// Pages that must not be missing once they have been touched, and for how many reasons.
    pub(crate) kept: BTreeMap<usize, usize>,
    pub(crate) pages: Pages,
    pub(crate) policy: Box<dyn LivePolicy>,
    /// Frames that the policy was made for.
    pub(crate) policy_frames: usize,
    pub(crate) sampler: Sampler,
    /// Pages that have come in and are not the policy's yet.
    pub(crate) arrivals: Arrivals,
    /// Pages that the policy has given up and that have not gone yet. An entry counts while the page has the flag
    /// `Condemned`.
    pub(crate) condemned: Vec<PageId>,
    /// The memfd backend; none: the program's memory stays anonymous.
    pub(crate) memfd: Option<Memfd>,
    pub(crate) ahead: ReadAhead,
    pub(crate) staging: Staging,
    pub(crate) store: Store,
    pub(crate) io: Io,

    /// Frames promised to pages that are being read or zero-filled.
    pub(crate) incoming: usize,
    /// Pinned pages, the one to try again next in front. An entry counts while its page is pinned.
    pub(crate) pinned: VecDeque<u32>,
    /// Messages read and not yet dealt with.
    pub(crate) messages: VecDeque<Message>,
    /// Descriptors of children whose fork was not announced: they must wait, not read zeros.
    pub(crate) orphans: Vec<Userfaultfd>,
    /// While a fork is under way: whose it is.
    pub(crate) forking: Option<Forking>,
    /// Messages read while a fork is under way.
    pub(crate) parked: Vec<Message>,
    /// What was done meanwhile, to be made up for.
    pub(crate) notes: Vec<Note>,
    /// What counts beside the program's pages.
    pub(crate) account: Account,
    hand_steps_told: u64,
    /// Whether looking about has been of use lately: while no thread waits for a read, and while one does.
    luck: [Luck; 2],
    /// Whether the agent may use one processor only, which then is the program's as well.
    has_one_processor: bool,
    /// Pages of the pager's own arrays before it knew of any page.
    heap_pages_at_first: usize,
}

/// How a process's memory is divided between the pager and the program.
struct Division {
    batch_pages: usize,
    /// Most pages that are neither staged nor the policy's yet.
    most: usize,
    /// Of these, those that the program may not have used.
    fresh: usize,
    /// What is left for the policy.
    policy_frames: usize,
}

impl Division {
    fn of(limit_pages: usize, lends: bool, is_memfd: bool) -> Self {
        // What is shared by several has to do with less for each.
        let (least, most, share) = if lends { (8, 64, 1024) } else { (8, 128, 512) };
        let batch_pages = (limit_pages / share).clamp(least, most);
        // What the memfd backend lets in is the policy's at once: its bits need no time to be seen.
        // So is what comes in where the policy is the command's, which waits by itself.
        let (most, fresh) = match is_memfd || lends {
            false => ((FRESH_BATCHES + 1) * batch_pages, FRESH_BATCHES * batch_pages),
            true => (0, 0),
        };
        let others = (BATCHES + 1) * batch_pages + most + FIXED_PAGES;
        // The policy is made anew when all memory is managed, and it is known how much is left for it.
        let arrays = limit_pages * GROWTH_BYTES / PAGE_BYTES;
        Self { batch_pages, most, fresh, policy_frames: limit_pages.saturating_sub(others + arrays) }
    }
}

/// Frames that the policy of a single program has where program and pager have so many pages
/// together.
pub fn policy_frames(limit_pages: u64) -> u64 {
    Division::of(limit_pages as usize, false, false).policy_frames as u64
}

impl Agent {
    /// Makes an agent for this process as it is.
    pub fn new(control: &'static Control, supervisor: Option<OwnedFd>) -> Self {
        open_roots(control);
        let order = &control.order;
        let limit = order.limit_pages as usize;
        let lends = !order.lender.as_str().is_empty();
        let Division { batch_pages, most, fresh, policy_frames } =
            Division::of(limit, lends, order.is_memfd());
        let arrivals = Arrivals::new(most, fresh);
        let mut policy = match lends {
            false => make_policy(control, policy_frames),
            true => Box::new(Tenant::connect(control, 0)),
        };
        let mut pages = Pages::new();
        pages.board = policy.tenant().map(|tenant| tenant.board);
        let staging = Staging::new(BATCHES, batch_pages).unwrap_or_else(|| no_room("staging"));
        let doorbells = own::map(SLOTS * PAGE_BYTES).unwrap_or_else(|| no_room("doorbells"));
        let anchor = own::map(PAGE_BYTES).unwrap_or_else(|| no_room("doorbells"));
        let agent = Self {
            control,
            uffd: open_uffd(features(control)),
            staging_uffd: open_uffd(MOVE | EVENT_FORK),
            supervisor,
            pagemap: Pagemap::open(),
            doorbells,
            anchor,
            bells: 0,
            is_rung: false,
            managed: false,
            regions: Regions::new(),
            not_inherited: Regions::new(),
            objects: Objects::default(),
            exempt: BTreeSet::new(),
            kept: BTreeMap::new(),
            pages,
            policy,
            policy_frames,
            sampler: Sampler::default(),
            arrivals,
            condemned: Vec::with_capacity(2 * batch_pages),
            memfd: order.is_memfd().then(|| Memfd::open(batch_pages)),
            ahead: ReadAhead::new((order.prefetch_pages as usize).min(batch_pages)),
            staging,
            store: Store::new(open_store(control)),
            io: Io::new(order.use_ring != 0),
            incoming: 0,
            pinned: VecDeque::new(),
            messages: VecDeque::with_capacity(2 * MESSAGES),
            orphans: Vec::new(),
            forking: None,
            parked: Vec::new(),
            notes: Vec::new(),
            account: Account::open(),
            hand_steps_told: 0,
            luck: [Luck::default(); 2],
            has_one_processor: sched_getaffinity(None).is_ok_and(|processors| processors.count() == 1),
            heap_pages_at_first: own::heap_pages(),
        };
        agent.register_own();
        agent
    }

    /// Registers the pager's own areas, with a staging userfaultfd that does not know them yet.
    pub(crate) fn register_own(&self) {
        let own = self.staging.register(&self.staging_uffd);
        let bells = self.staging_uffd.register(self.doorbells, SLOTS * PAGE_BYTES);
        let anchor = self.uffd.register(self.anchor, PAGE_BYTES);
        if let Err(error) = own.and(bells).and(anchor) {
            give_up(format_args!("the pager's own memory cannot be registered: {error}"));
        }
    }

    /// Serves the program until it ends.
    pub fn run(&mut self) -> ! {
        if self.policy.needs_objects() {
            MAILBOX.want_objects();
        }
        self.make_room(0);
        MAILBOX.allow(if self.managed { -1 } else { self.room_bytes() });
        add(&self.control.counters.agents, 1);
        cgroup::widen(self.control);
        MAILBOX.open(self.doorbells);
        loop {
            self.read_messages();
            self.apply_changes();
            self.heed();
            while let Some(message) = self.messages.pop_front() {
                self.answer(message);
                self.reap(false);
            }
            if MAILBOX.is_ringing() || self.is_rung {
                self.calls();
            }
            self.reap(false);
            self.unmap_cleared();
            // For the next fault, and since what is not the program's may have grown. Whoever waits for a page has been
            // seen to.
            self.evict_batch();
            self.watch();
            let is_lent = self.policy.granted().is_some();
            self.make_room(if self.managed && !is_lent { self.ahead.latest_window() } else { 0 });
            self.io.submit();
            self.tell();
            self.report(false);
            if !self.look_about() {
                self.sleep();
            }
        }
    }

    /// Looks for something to do for a short while: a fault seldom comes alone, and to be put to sleep and woken again takes
    /// longer than the read that it asks for. Returns whether there is.
    fn look_about(&mut self) -> bool {
        let is_awaited = self.is_read_awaited();
        let looks = match is_awaited {
            true => LOOKS_FOR_READ,
            // The program cannot go on meanwhile.
            false if self.has_one_processor => 0,
            false => LOOKS,
        };
        let luck = &mut self.luck[usize::from(is_awaited)];
        if looks == 0 || !luck.is_worth_a_try() {
            return false;
        }
        for _ in 0..looks {
            if !self.messages.is_empty() || self.io.has_completions() || MAILBOX.is_ringing() {
                self.luck[usize::from(is_awaited)].had(true);
                return true;
            }
            self.read_messages();
        }
        self.luck[usize::from(is_awaited)].had(false);
        false
    }

    /// Waits until there is something to do.
    fn sleep(&mut self) {
        if !self.messages.is_empty() {
            return;
        }
        self.clear_bells();
        let mut descriptors = Vec::with_capacity(5 + self.orphans.len());
        let orders = self.policy.tenant().map(Tenant::orders);
        let mut watch = |fd| descriptors.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        watch(self.uffd.as_fd());
        watch(self.staging_uffd.as_fd());
        self.io.descriptor().map(AsFd::as_fd).map(&mut watch);
        self.orphans.iter().map(AsFd::as_fd).for_each(&mut watch);
        self.supervisor.as_ref().map(AsFd::as_fd).map(&mut watch);
        orders.map(&mut watch);
        let timeout = Timespec { tv_sec: 0, tv_nsec: self.account.period_ms() as i64 * 1_000_000 };
        let ready = match poll(&mut descriptors, Some(&timeout)) {
            Ok(ready) => ready,
            Err(Errno::INTR | Errno::AGAIN) => return,
            Err(error) => give_up(format_args!("the pager cannot wait for faults: {error}")),
        };
        let is_ready = |fd: &PollFd| !fd.revents().is_empty();
        let is_rung = is_ready(&descriptors[1]);
        let first_orphan = 2 + usize::from(self.io.descriptor().is_some());
        let behind_orphans = first_orphan + self.orphans.len();
        if descriptors[first_orphan..behind_orphans].iter().any(|fd| fd.revents().contains(PollFlags::IN)) {
            give_up(format_args!(
                "a child made by a bare clone system call has touched memory that is paged out; such children have \
                 no pager"
            ));
        }
        if descriptors.get(behind_orphans).is_some_and(is_ready) {
            if !self.control.is_released() {
                orphaned();
            }
            drop(descriptors);
            self.supervisor = None;
            environment::forget_run(self.control);
        }
        self.is_rung = is_rung;
        if ready == 0 {
            self.report(true);
            last::end_if_alone();
            self.follow_credentials();
        }
    }

    /// Reads what the kernel has to tell.
    pub(crate) fn read_messages(&mut self) {
        let mut buffer = [Message::EMPTY; MESSAGES];
        loop {
            let mut read = self.uffd.read(&mut buffer);
            if read == Err(Errno::MFILE) {
                read = rlimits::without(Raised::Descriptors, || self.uffd.read(&mut buffer));
            }
            match read {
                Ok(count) => {
                    self.messages.extend(&buffer[..count]);
                    if count < MESSAGES {
                        return;
                    }
                }
                Err(error) => give_up(format_args!("faults cannot be read: {error}")),
            }
        }
    }

    /// Lets changes to the address space get on that keep copies and moves waiting. The caller applies
    /// them before it puts anything into the program's memory.
    pub(crate) fn settle(&mut self) {
        self.read_messages();
        rustix::thread::sched_yield();
    }

    /// Knows all changes to the address space as of now. What a page was thought to be may have changed.
    pub(crate) fn catch_up(&mut self) {
        while self.uffd.is_changing() {
            self.settle();
        }
        self.read_messages();
        self.apply_changes();
    }

    /// Whether there are changes that have been read and not applied.
    ///
    /// While there are, nothing may be put into the program's memory. The kernel refuses that until
    /// a change has been read, and then drops the old contents at any time: what is put there
    /// afterwards would be there again.
    pub(crate) fn has_changes(&self) -> bool {
        self.messages.iter().any(|message| !matches!(message.event(), Some(Event::Fault { .. }) | None))
    }

    /// Applies the changes among the messages read so far, ahead of faults.
    fn apply_changes(&mut self) {
        if !self.has_changes() {
            return;
        }
        let mut later = VecDeque::with_capacity(self.messages.len());
        while let Some(message) = self.messages.pop_front() {
            match message.event() {
                Some(Event::Fault { .. }) | None => later.push_back(message),
                Some(_) => self.answer(message),
            }
        }
        self.messages.append(&mut later);
    }

    /// Has no mapping moved until [`MAILBOX`] is let go, and knows of all that have been. A thread that is held up by a fault
    /// or a signal handler just before it moves one is not waited for: what it waits for may be us.
    pub(crate) fn hold_mappings(&mut self) {
        for look in 0..HELD_LOOKS {
            if MAILBOX.hold() && !self.has_changes() {
                return;
            }
            MAILBOX.let_go();
            self.catch_up();
            if look < HELD_LOOKS_AWAKE {
                rustix::thread::sched_yield();
            } else {
                let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                let _ = poll(&mut [], Some(&pause));
            }
        }
        MAILBOX.forget_moves();
        self.catch_up();
        MAILBOX.hold();
    }

    pub(crate) fn answer(&mut self, message: Message) {
        match message.event() {
            Some(Event::Fault { address }) => self.fault(address),
            Some(Event::Remove { start, end }) => self.drop_contents(start, end),
            Some(Event::Unmap { start, end }) => self.unmapped(start, end),
            Some(Event::Remap { from, to, length }) => self.remapped(from, to, length),
            Some(Event::Fork { descriptor }) => self.forked(descriptor),
            None => {}
        }
    }

    /// Answers the threads of the program that have called.
    fn calls(&mut self) {
        self.clear_bells();
        self.is_rung = false;
        // A child that comes without a fork that was announced has no agent, and nobody to call.
        let (rung, _) = self.read_bells();
        let mut slots = rung | MAILBOX.take_posted();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Some((call, arguments)) = MAILBOX.call_of(slot) {
                let answer = self.called(call, arguments);
                MAILBOX.answer(slot, answer);
            }
            // Whoever waits there goes on, also if the call was answered before.
            self.put_bell(slot);
            // Who calls while a fork is under way has its turn now; none of them announces another.
            slots |= self.park();
        }
    }

    /// Reads what has been told of doorbells: the slots, a bit each. Beside that, what a child has of
    /// `staging_uffd`, if there has been a fork.
    pub(crate) fn read_bells(&self) -> (u64, Option<Userfaultfd>) {
        let (mut slots, mut child) = (0, None);
        loop {
            let mut buffer = [Message::EMPTY; SLOTS];
            let mut read = self.staging_uffd.read(&mut buffer);
            if read == Err(Errno::MFILE) {
                let again = || self.staging_uffd.read(&mut buffer);
                read = rlimits::without(Raised::Descriptors, again);
            }
            let count = match read {
                Ok(count) => count,
                Err(error) => give_up(format_args!("calls cannot be read: {error}")),
            };
            for message in &buffer[..count] {
                if let Some(Event::Fork { descriptor }) = message.event() {
                    // SAFETY: the kernel has just put it into our table.
                    child = Some(Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(descriptor) }));
                }
                slots |= self.slot_of(message).map_or(0, |slot| 1 << slot);
            }
            if count < buffer.len() {
                return (slots, child);
            }
        }
    }

    /// The slot whose doorbell a message is about.
    fn slot_of(&self, message: &Message) -> Option<usize> {
        let Some(Event::Fault { address }) = message.event() else { return None };
        let slot = address.checked_sub(self.doorbells).map(|offset| offset / PAGE_BYTES);
        match slot {
            Some(slot) if slot < SLOTS => Some(slot),
            _ => give_up(format_args!("the pager has touched a page of its own that is missing")),
        }
    }

    /// Lets threads go on that wait at a doorbell.
    fn put_bell(&mut self, slot: usize) {
        let bell = self.doorbells + slot * PAGE_BYTES;
        // SAFETY: zeros to a doorbell, which nobody relies on to be missing.
        let put = unsafe { self.staging_uffd.copy(bell, self.staging.zeros(), PAGE_BYTES) };
        if put.error.is_some() {
            // There is a page: they have only not seen it yet.
            let _ = self.staging_uffd.wake(bell, PAGE_BYTES);
        }
        self.bells |= 1 << slot;
    }

    /// In a child: its doorbells are copies of the parent's, some with a page.
    pub(crate) fn drop_bells(&mut self) {
        // SAFETY: the doorbells, where no thread of this process waits.
        let _ = unsafe { advise(self.doorbells, SLOTS * PAGE_BYTES, MADV_DONTNEED) };
        self.bells = 0;
    }

    /// Takes the pages from the doorbells whose threads have gone on.
    fn clear_bells(&mut self) {
        let with_page = (0..SLOTS).filter(|slot| self.bells >> slot & 1 != 0);
        for slot in with_page.filter(|&slot| MAILBOX.is_at_rest(slot)).collect::<Vec<_>>() {
            // SAFETY: a doorbell. A thread that reads it finds it missing, and is answered.
            let _ = unsafe { advise(self.doorbells + slot * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED) };
            self.bells &= !(1 << slot);
            MAILBOX.free(slot);
        }
    }

    /// Pages of the pager's own.
    pub(crate) fn own_pages(&self) -> usize {
        let pinned = self.memfd.as_ref().map_or(0, Memfd::own_pages);
        self.staging.pages() + own::heap_pages() + FIXED_PAGES + pinned
    }

    /// Pages that count and that the pager cannot page out: its own, and what the kernel says there is besides.
    pub(crate) fn apart_pages(&self) -> usize {
        let native = self.memfd.as_ref().map_or(0, |memfd| memfd.native_pages);
        let own = self.own_pages() + native;
        match self.policy.granted() {
            // Of what is lent the kernel's share is no part.
            Some(_) => own,
            None => self.account.private().unwrap_or(own) + self.account.others(),
        }
    }

    /// How many pages the program may have in memory. It is left some, whatever else there is: should that be too much, the
    /// cgroup says so.
    pub(crate) fn room(&self) -> usize {
        match self.policy.granted() {
            Some(granted) => granted.saturating_sub(self.apart_pages()),
            None => {
                let budget = self.control.order.budget_pages();
                budget.saturating_sub(self.apart_pages()).max(budget / LEAST_ROOM)
            }
        }
    }

    /// How many frames the policy can count on, where so many pages are not the program's.
    pub(crate) fn frames_beside(&self, apart: usize) -> usize {
        let budget = self.control.order.budget_pages();
        let growth = budget * GROWTH_BYTES / PAGE_BYTES;
        let others = self.arrivals.most() + self.staging.batch_pages() + growth + self.account.others();
        budget.saturating_sub(others + apart)
    }

    /// Looks what the process takes; see [`Account`]. Returns its private pages, if the kernel says how many.
    pub(crate) fn look(&mut self) -> Option<usize> {
        let known = match (&self.memfd, self.managed) {
            (_, false) => Known::default(),
            (None, true) => {
                let reserve = self.staging.pages() - self.staging.frames();
                Known { private: Some(self.pages.resident()), shared: 0, reserve }
            }
            (Some(memfd), true) => {
                Known { private: Some(0), shared: self.pages.resident(), reserve: memfd.own_pages() }
            }
        };
        self.account.look(known, clock::coarse_ms())
    }

    pub(crate) fn room_bytes(&self) -> i64 {
        (self.room() * PAGE_BYTES) as i64
    }

    /// A page as the policy is shown it.
    pub(crate) fn reference(&self, page: PageId) -> Reference {
        let address = self.pages.address(page);
        let page_number = (address / PAGE_BYTES) as u64;
        Reference { page, page_number, object: self.objects.at(address), next_use: NEVER }
    }

    /// A page is in memory now. The one that has been longest on its way to the policy arrives there.
    pub(crate) fn arrive(&mut self, page: PageId) {
        if !self.kept.is_empty() && self.kept.contains_key(&self.pages.address(page)) {
            return self.pages.set(page, State::Pinned, 0);
        }
        self.arrivals.add(&mut self.pages, page);
        while let Some(page) = self.arrivals.leave(&mut self.pages, self.arrivals.most()) {
            self.insert(page);
        }
    }

    /// A page is in memory now, where nothing was. `awaited`: a thread waits for it.
    pub(crate) fn came_in(&mut self, page: PageId, awaited: bool) {
        if let Some(memfd) = self.memfd.as_mut().filter(|_| awaited) {
            memfd.awaited(&mut self.pages, page);
        }
        self.account.moved(1);
        self.arrive(page);
    }

    /// Hands a page to the policy: the fault, the eviction that it calls for, the page itself. (It has not been counted
    /// as the policy's until now, but is when this is called.)
    pub(crate) fn insert(&mut self, page: PageId) {
        let reference = self.reference(page);
        self.policy.fault(reference);
        let most = self.policy_pages();
        while self.pages.owned() > most && self.condemn() {}
        let exact = self.memfd.as_mut().map(|memfd| memfd.bits(self.pagemap.file()));
        let mut bits = Bits { pages: &mut self.pages, sampler: &mut self.sampler, exact, choosing: false };
        if self.policy.insert(reference, &mut bits) {
            self.pages.mark(page, Flag::Referenced, true);
        }
    }

    /// Has the policy choose a page to go. Returns false if it has none.
    pub(crate) fn condemn(&mut self) -> bool {
        let exact = self.memfd.as_mut().map(|memfd| memfd.bits(self.pagemap.file()));
        let mut bits = Bits { pages: &mut self.pages, sampler: &mut self.sampler, exact, choosing: true };
        let Some(page) = self.policy.victim(&mut bits) else { return false };
        self.policy.evict(page);
        self.pages.mark(page, Flag::Condemned, true);
        self.condemned.push(page);
        if let Some(memfd) = &mut self.memfd {
            memfd.condemned(&mut self.pages, page);
        }
        true
    }

    /// How many pages the policy may have: the others have just come in, or are about to go.
    fn policy_pages(&self) -> usize {
        if self.policy.granted().is_some() {
            return usize::MAX;
        }
        let others = self.arrivals.most() + self.staging.batch_pages();
        self.policy_frames.min(self.room().saturating_sub(others))
    }

    /// Reads a slot of the store to the scratch page, at once.
    pub(crate) fn read_slot(&self, slot: u32) {
        self.scratch_io(slot, Direction::Read);
    }

    /// Writes the scratch page to a slot of the store, at once.
    pub(crate) fn write_slot(&self, slot: u32) {
        self.scratch_io(slot, Direction::Write);
    }

    fn scratch_io(&self, slot: u32, direction: Direction) {
        let (file, index) = store::location(slot);
        let request = Request {
            direction,
            file: self.store.file(file).as_fd(),
            offset: index * PAGE_BYTES as u64,
            address: self.staging.scratch(),
            length: PAGE_BYTES as u32,
            tag: 0,
        };
        // SAFETY: the scratch page is used by nothing else, and the transfer is over when this returns.
        match rlimits::without(Raised::FileSize, || unsafe { io::transfer(&request) }) {
            Ok(bytes) if bytes as usize == PAGE_BYTES => {}
            Ok(_) => self.store_failed("used", Errno::IO),
            Err(error) => self.store_failed("used", error),
        }
    }

    /// Brings the shared counters up to date that are not added to as things happen.
    fn tell(&mut self) {
        let counters = &self.control.counters;
        let resident = self.pages.resident();
        counters.resident_pages.store(resident as u64, Ordering::Relaxed);
        counters.peak_resident_pages.fetch_max(resident as u64, Ordering::Relaxed);
        let own = self.own_pages();
        counters.peak_own_pages.fetch_max(own as u64, Ordering::Relaxed);
        if self.managed {
            let all = resident + self.apart_pages();
            counters.peak_memory_pages.fetch_max(all as u64, Ordering::Relaxed);
        }
        let bookkeeping = own::heap_pages().saturating_sub(self.heap_pages_at_first) * PAGE_BYTES;
        counters.peak_bookkeeping_bytes.fetch_max(bookkeeping as u64, Ordering::Relaxed);
        counters.peak_managed_pages.fetch_max(u64::from(self.pages.ids()), Ordering::Relaxed);
        counters.peak_pinned_pages.fetch_max(self.pages.pinned() as u64, Ordering::Relaxed);
        let steps = self.policy.hand_steps();
        add(&counters.hand_steps, steps - self.hand_steps_told);
        self.hand_steps_told = steps;
    }
}

fn no_room(what: &str) -> ! {
    give_up(format_args!("no address space for the pager's {what}; raise ulimit -v"))
}

/// The policy asked for, for so many frames.
pub(crate) fn make_policy(control: &Control, frames: usize) -> Box<dyn LivePolicy> {
    let policy = LiveSpec::parse(control.order.policy.as_str()).and_then(|spec| spec.make(frames));
    policy.unwrap_or_else(|error| give_up(format_args!("{error}")))
}

/// What the userfaultfd of the program's memory has to do.
pub(crate) fn features(control: &Control) -> u64 {
    if control.order.is_memfd() {
        return memfd::FEATURES;
    }
    EVENT_FORK | EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP | MOVE | THREAD
}

pub(crate) fn open_uffd(features: u64) -> Userfaultfd {
    match Userfaultfd::open(features) {
        Ok(uffd) => uffd,
        Err(OpenError::NotPermitted) => give_up(format_args!(
            "userfaultfd is not allowed here: run as root, or give sweephand and the program CAP_SYS_PTRACE"
        )),
        Err(OpenError::NotSupported) => give_up(format_args!(
            "this kernel cannot move pages for user space: Linux 6.8 or later is needed"
        )),
        Err(OpenError::Other(error)) => give_up(format_args!("userfaultfd cannot be opened: {error}")),
    }
}

/// A new backing store file, without a name: its space is free again when the last process has closed it.
pub(crate) fn open_store(control: &Control) -> OwnedFd {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let made = roots::store().ok_or(Errno::NOENT).and_then(|directory| {
        let open = || open_direct(directory, flags, Mode::RUSR | Mode::WUSR);
        rlimits::without(Raised::Descriptors, open)
    });
    made.unwrap_or_else(|error| {
        let directory = control.order.directory.as_str();
        give_up(format_args!(
            "{directory}: no backing store can be made there: {error}; name another place with --swap"
        ))
    })
}

/// Opens the directories that the agent makes and reads files in.
fn open_roots(control: &Control) {
    let directory = control.order.directory.as_str();
    let path = CString::new(directory).unwrap_or_default();
    if let Err(error) = roots::begin(&path) {
        give_up(format_args!("{directory}, or /proc: cannot be opened: {error}"));
    }
}

/// A vector of so many equal values; shorter to write where the type is known.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    vec![value; count]
}
