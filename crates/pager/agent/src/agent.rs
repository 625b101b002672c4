//! The agent: one thread with one loop. It owns everything that is known about the program's pages.
//!
//! ```text
//!   uffd (the program's memory) ----> events, faults ---+
//!   staging uffd (doorbells) -------> calls ------------+--> one after another: faults, reclaim, changes
//!   ring (backing store) -----------> completions ------+
//!   supervisor's pidfd --------------> the end
//! ```
//!
//! At first the agent manages nothing. While the program's writable memory fits the limit, touched
//! or not, the kernel serves it as usual and the agent only adds up its size. When the sum may
//! exceed the limit, the agent registers all of this memory and counts the pages that are present.
//! From then on every missing page comes through the agent.

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
/// Batches of pages that have come in so recently that the program may not have used them yet. Two
/// batches are two read-ahead windows.
const FRESH_BATCHES: usize = 2;
/// Pages that the agent uses besides its arrays and its staging area: its stack and its doorbells.
const FIXED_PAGES: usize = 32;
/// Bytes by which arrays and page tables may still grow for each page of memory, once all memory is
/// managed. This allows for as many pages outside of memory as in it.
const GROWTH_BYTES: usize = 40;
/// The least memory that a program can run in.
pub const LEAST_PAGES: u64 = 1024;
/// How often the agent looks for work before it sleeps. This takes the time of a few faults.
const LOOKS: usize = 128;
/// The same while a thread waits for a page that is being read. This takes the time of a slow read.
const LOOKS_FOR_READ: usize = 1024;
/// How often the agent checks whether a mapping is still being moved, before it goes on regardless.
const MOVE_CHECKS: usize = 1000;
/// After this many checks the agent sleeps between them, because the thread that moves the mapping
/// may be waiting for a processor.
const MOVE_CHECKS_AWAKE: usize = 100;
/// The fewest frames for which a policy is made.
pub(crate) const LEAST_FRAMES: usize = 64;
/// The program keeps at least one part in this many of the memory, whatever else takes memory.
const LEAST_ROOM: usize = 8;
/// Messages read at a time.
const MESSAGES: usize = 64;

/// Whether it is worth the processor's time to look for work before sleeping. It is, as long as
/// about one time in three something arrives meanwhile. Otherwise the agent only tries now and
/// then.
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
    /// While no work arrives, the agent tries one time in this many.
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

/// The agent's state. Only the agent's thread uses it.
pub struct Agent {
    pub(crate) control: &'static Control,
    /// The userfaultfd of the program's memory, with events.
    pub(crate) uffd: Userfaultfd,
    /// The userfaultfd of the pager's own areas and the doorbells. It reports forks and no other
    /// events.
    pub(crate) staging_uffd: Userfaultfd,
    /// The command that started the program. `None` when it has ended and the program's other
    /// processes go on by themselves.
    pub(crate) supervisor: Option<OwnedFd>,
    pub(crate) pagemap: Pagemap,
    pub(crate) doorbells: usize,
    /// A page that is registered with `uffd` from the beginning and never touched. Because of it,
    /// the kernel makes a userfaultfd for each child, which might not be allowed to make its own.
    anchor: usize,
    /// The doorbells that have a page, one bit each.
    pub(crate) bells: u64,
    /// Whether there are faults at doorbells to read.
    is_rung: bool,

    /// Whether the agent manages the program's memory. If not, the kernel serves it.
    pub(crate) managed: bool,
    pub(crate) regions: Regions,
    /// Memory that children do not inherit, or inherit wiped.
    pub(crate) not_inherited: Regions,
    /// Large allocations, if the policy tells them apart.
    pub(crate) objects: Objects,
    /// Pages that must never be missing: thread descriptors. The kernel writes to them when a
    /// thread has ended.
    pub(crate) exempt: BTreeSet<usize>,
    /// Pages that must not be missing once they have been touched, each with its number of reasons.
    pub(crate) kept: BTreeMap<usize, usize>,
    pub(crate) pages: Pages,
    pub(crate) policy: Box<dyn LivePolicy>,
    /// Frames for which the policy was made.
    pub(crate) policy_frames: usize,
    pub(crate) sampler: Sampler,
    /// Pages that have come in and do not belong to the policy yet.
    pub(crate) arrivals: Arrivals,
    /// Pages that the policy has given up and that are not evicted yet. An entry is valid while its
    /// page has the flag `Condemned`.
    pub(crate) condemned: Vec<PageId>,
    /// The memfd backend. `None` if the program's memory stays anonymous.
    pub(crate) memfd: Option<Memfd>,
    pub(crate) ahead: ReadAhead,
    pub(crate) staging: Staging,
    pub(crate) store: Store,
    pub(crate) io: Io,

    /// Frames promised to pages that are being read or zero-filled.
    pub(crate) incoming: usize,
    /// Pinned pages. The first is the next to try again. An entry is valid while its page is
    /// pinned.
    pub(crate) pinned: VecDeque<u32>,
    /// Messages that are read but not handled yet.
    pub(crate) messages: VecDeque<Message>,
    /// Descriptors of children whose fork was not announced. Such a child must wait at a missing
    /// page instead of reading zeros.
    pub(crate) orphans: Vec<Userfaultfd>,
    /// The fork that is under way, if any.
    pub(crate) forking: Option<Forking>,
    /// Messages that arrived during a fork.
    pub(crate) parked: Vec<Message>,
    /// What the agent did during a fork and has to repeat in the child.
    pub(crate) notes: Vec<Note>,
    /// Memory that counts besides the program's pages.
    pub(crate) account: Account,
    hand_steps_told: u64,
    /// Whether looking for work has paid off lately. First entry: while no thread waits for a read.
    /// Second entry: while one does.
    luck: [Luck; 2],
    /// Whether the agent may use only one processor, which is then the program's as well.
    has_one_processor: bool,
    /// Pages of the pager's own arrays before it knew any of the program's pages.
    heap_pages_at_first: usize,
}

/// How the memory of a process is divided between the pager and the program.
struct Division {
    batch_pages: usize,
    /// Most pages that are neither staged nor the policy's yet.
    most: usize,
    /// The part of these pages that the program may not have used yet.
    fresh: usize,
    /// What is left for the policy.
    policy_frames: usize,
}

impl Division {
    fn of(limit_pages: usize, lends: bool, is_memfd: bool) -> Self {
        // If several programs share the memory, each has to manage with less.
        let (least, most, share) = if lends { (8, 64, 1024) } else { (8, 128, 512) };
        let batch_pages = (limit_pages / share).clamp(least, most);
        // With the memfd backend, a page is the policy's as soon as it comes in: its bits are exact
        // from the start. If the memory is lent, a page also goes on at once: the command's policy
        // makes it wait.
        let (most, fresh) = match is_memfd || lends {
            false => ((FRESH_BATCHES + 1) * batch_pages, FRESH_BATCHES * batch_pages),
            true => (0, 0),
        };
        let others = (BATCHES + 1) * batch_pages + most + FIXED_PAGES;
        // The agent makes the policy anew when it starts to manage all memory. It then knows how
        // many frames are left for the policy.
        let arrays = limit_pages * GROWTH_BYTES / PAGE_BYTES;
        Self { batch_pages, most, fresh, policy_frames: limit_pages.saturating_sub(others + arrays) }
    }
}

/// Frames that the policy of a single program has if the program and the pager together have this
/// many pages.
pub fn policy_frames(limit_pages: u64) -> u64 {
    Division::of(limit_pages as usize, false, false).policy_frames as u64
}

impl Agent {
    /// Makes an agent for this process.
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

    /// Registers the pager's own areas with a staging userfaultfd that does not know them yet.
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
            // This makes room for the next fault, and for memory of others that may have grown. No
            // thread waits for a page at this point.
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

    /// Looks for work for a short while before the agent sleeps. A fault seldom comes alone, and
    /// sleeping and waking take longer than the read that a fault needs. Returns whether there is
    /// work.
    fn look_about(&mut self) -> bool {
        let is_awaited = self.is_read_awaited();
        let looks = match is_awaited {
            true => LOOKS_FOR_READ,
            // The program could not run meanwhile.
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

    /// Reads the kernel's messages.
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

    /// Gives changes to the address space the time to finish. Copies and moves have to wait for
    /// them. The caller applies the changes before it puts anything into the program's memory.
    pub(crate) fn settle(&mut self) {
        self.read_messages();
        rustix::thread::sched_yield();
    }

    /// Applies the changes among the messages, ahead of the faults. Afterwards the agent knows the
    /// current address space.
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

    /// Keeps mappings from moving until [`MAILBOX`] lets go, and learns of all earlier moves. The
    /// agent does not wait forever for a thread that a fault or a signal handler stops just before
    /// it moves a mapping: the thread may be waiting for the agent.
    pub(crate) fn block_moves(&mut self) {
        for look in 0..MOVE_CHECKS {
            if MAILBOX.try_block_moves() && !self.has_changes() {
                return;
            }
            MAILBOX.allow_moves();
            self.catch_up();
            if look < MOVE_CHECKS_AWAKE {
                rustix::thread::sched_yield();
            } else {
                let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                let _ = poll(&mut [], Some(&pause));
            }
        }
        MAILBOX.forget_moves();
        self.catch_up();
        MAILBOX.try_block_moves();
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

    /// Answers the threads of the program that have made calls.
    fn calls(&mut self) {
        self.clear_bells();
        self.is_rung = false;
        // A child whose fork was not announced has no agent and makes no calls.
        let (rung, _) = self.read_bells();
        let mut slots = rung | MAILBOX.take_posted();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Some((call, arguments)) = MAILBOX.call_of(slot) {
                let answer = self.called(call, arguments);
                MAILBOX.answer(slot, answer);
            }
            // The threads that wait there go on, even if the call was answered before.
            self.put_bell(slot);
            // Calls that arrive during a fork are answered now. None of them announces another
            // fork.
            slots |= self.park();
        }
    }

    /// Reads the faults at doorbells. Returns the slots, a bit each, and the child's copy of
    /// `staging_uffd` if there was a fork.
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
                    // SAFETY: the kernel has just put this descriptor into our table.
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

    /// Lets the threads go on that wait at a doorbell.
    fn put_bell(&mut self, slot: usize) {
        let bell = self.doorbells + slot * PAGE_BYTES;
        // SAFETY: this copies zeros to a doorbell, and no code relies on a doorbell being missing.
        let put = unsafe { self.staging_uffd.copy(bell, self.staging.zeros(), PAGE_BYTES) };
        if put.error.is_some() {
            // The doorbell has a page already, but the threads have not seen it yet.
            let _ = self.staging_uffd.wake(bell, PAGE_BYTES);
        }
        self.bells |= 1 << slot;
    }

    /// In a child, removes the doorbells' pages. They are copies of the parent's.
    pub(crate) fn drop_bells(&mut self) {
        // SAFETY: these are the doorbells, and no thread of this process waits there.
        let _ = unsafe { advise(self.doorbells, SLOTS * PAGE_BYTES, MADV_DONTNEED) };
        self.bells = 0;
    }

    /// Removes the pages of the doorbells whose threads have gone on.
    fn clear_bells(&mut self) {
        let with_page = (0..SLOTS).filter(|slot| self.bells >> slot & 1 != 0);
        for slot in with_page.filter(|&slot| MAILBOX.is_at_rest(slot)).collect::<Vec<_>>() {
            // SAFETY: this is a doorbell. A thread that reads it finds it missing and gets an
            // answer.
            let _ = unsafe { advise(self.doorbells + slot * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED) };
            self.bells &= !(1 << slot);
            MAILBOX.free(slot);
        }
    }

    /// Pages of the pager itself.
    pub(crate) fn own_pages(&self) -> usize {
        let pinned = self.memfd.as_ref().map_or(0, Memfd::own_pages);
        self.staging.pages() + own::heap_pages() + FIXED_PAGES + pinned
    }

    /// Pages that count but that the pager cannot page out: its own, and others that the kernel
    /// reports.
    pub(crate) fn apart_pages(&self) -> usize {
        let native = self.memfd.as_ref().map_or(0, |memfd| memfd.native_pages);
        let own = self.own_pages() + native;
        match self.policy.granted() {
            // Lent memory does not include the kernel's share.
            Some(_) => own,
            None => self.account.private().unwrap_or(own) + self.account.others(),
        }
    }

    /// How many pages the program may have in memory. The program keeps a minimum, whatever else
    /// there is. If that exceeds the limit, the cgroup enforces it.
    pub(crate) fn room(&self) -> usize {
        match self.policy.granted() {
            Some(granted) => granted.saturating_sub(self.apart_pages()),
            None => {
                let budget = self.control.order.budget_pages();
                budget.saturating_sub(self.apart_pages()).max(budget / LEAST_ROOM)
            }
        }
    }

    /// How many frames the policy can count on if this many pages are not the program's.
    pub(crate) fn frames_beside(&self, apart: usize) -> usize {
        let budget = self.control.order.budget_pages();
        let growth = budget * GROWTH_BYTES / PAGE_BYTES;
        let others = self.arrivals.most() + self.staging.batch_pages() + growth + self.account.others();
        budget.saturating_sub(others + apart)
    }

    /// Reads what the process takes; see [`Account`]. Returns the number of its private pages if
    /// the kernel reports it.
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

    /// A page in the form in which the policy sees it.
    pub(crate) fn reference(&self, page: PageId) -> Reference {
        let address = self.pages.address(page);
        let page_number = (address / PAGE_BYTES) as u64;
        Reference { page, page_number, object: self.objects.at(address), next_use: NEVER }
    }

    /// Notes that a page is now in memory. The page that has been longest on its way to the policy
    /// gets there.
    pub(crate) fn arrive(&mut self, page: PageId) {
        if !self.kept.is_empty() && self.kept.contains_key(&self.pages.address(page)) {
            return self.pages.set(page, State::Pinned, 0);
        }
        self.arrivals.add(&mut self.pages, page);
        while let Some(page) = self.arrivals.leave(&mut self.pages, self.arrivals.most()) {
            self.insert(page);
        }
    }

    /// Notes that a page is now in memory at a place where none was. `awaited`: a thread waits for
    /// it.
    pub(crate) fn came_in(&mut self, page: PageId, awaited: bool) {
        if let Some(memfd) = self.memfd.as_mut().filter(|_| awaited) {
            memfd.awaited(&mut self.pages, page);
        }
        self.account.moved(1);
        self.arrive(page);
    }

    /// Hands a page to the policy: first the fault, then the eviction that it needs, then the page.
    /// The caller has just made the page count as the policy's.
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

    /// Lets the policy choose a page to evict. Returns false if it has none.
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

    /// How many pages the policy may have. The others have just come in or are about to be evicted.
    fn policy_pages(&self) -> usize {
        if self.policy.granted().is_some() {
            return usize::MAX;
        }
        let others = self.arrivals.most() + self.staging.batch_pages();
        self.policy_frames.min(self.room().saturating_sub(others))
    }

    /// Reads a slot of the store to the scratch page and waits for the result.
    pub(crate) fn read_slot(&self, slot: u32) {
        self.scratch_io(slot, Direction::Read);
    }

    /// Writes the scratch page to a slot of the store and waits for the result.
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
        // SAFETY: nothing else uses the scratch page, and the transfer is over when this returns.
        match rlimits::without(Raised::FileSize, || unsafe { io::transfer(&request) }) {
            Ok(bytes) if bytes as usize == PAGE_BYTES => {}
            Ok(_) => self.store_failed("used", Errno::IO),
            Err(error) => self.store_failed("used", error),
        }
    }

    /// Updates the shared counters that the agent does not update at each event.
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

/// Makes the policy that the order names, with this many frames.
pub(crate) fn make_policy(control: &Control, frames: usize) -> Box<dyn LivePolicy> {
    let policy = LiveSpec::parse(control.order.policy.as_str()).and_then(|spec| spec.make(frames));
    policy.unwrap_or_else(|error| give_up(format_args!("{error}")))
}

/// Features that the userfaultfd of the program's memory needs.
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

/// Opens a new backing store file without a name. Its space is free again when the last process has
/// closed it.
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

/// Opens the directories in which the agent reads and makes files.
fn open_roots(control: &Control) {
    let directory = control.order.directory.as_str();
    let path = CString::new(directory).unwrap_or_default();
    if let Err(error) = roots::begin(&path) {
        give_up(format_args!("{directory}, or /proc: cannot be opened: {error}"));
    }
}

/// A vector of this many equal values. It is shorter than `vec!` where the type is known.
pub(crate) fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    vec![value; count]
}
