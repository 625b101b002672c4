//! The agent: one thread with one loop. It owns everything that is known about the program's pages.
//!
//! ```text
//!   uffd (the program's memory) ----> changes, faults --+
//!   staging uffd (doorbells) -------> calls ------------+--> one after another
//!   ring (backing store) -----------> completions ------+
//!   supervisor's pidfd --------------> the end
//! ```
//!
//! At first the agent manages nothing. While the program's writable memory fits the limit, touched
//! or not, the kernel serves it as usual and the agent only adds up its size. When the sum may
//! exceed the limit, the agent registers all of this memory and counts the pages that are present.
//! From then on every missing page comes through the agent.

use crate::choice::exact_bits::Queue;
use crate::control::{Control, add};
use crate::entry::calls;
use crate::entry::hidden;
use crate::entry::polls::PollHistory;
use crate::kernel::{self, Event, PAGE_BYTES, PollFd};
use crate::mailbox::MAILBOX;
use crate::paging::changes::{self, apply_read};
use crate::paging::evict::{clear_queued, evict_batch};
use crate::paging::manage;
use crate::paging::mode;
use crate::paging::pager::{Pager, open_roots};
use crate::paging::reclaim::make_room;
use crate::paging::transfer::{is_read_awaited, reap, reap_all};
use crate::process::cgroup;
use crate::process::credentials;
use crate::process::environment;
use crate::process::failure::abort;
use crate::process::last_thread;
use crate::process::outlive;
use crate::process::own;
use crate::process::wait::poll;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering;
use rustix::event::{PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// How often the agent looks for work before it sleeps. This takes the time of a few faults.
const LOOKS: usize = 128;
/// The same while a thread waits for a page that is being read. This takes the time of a slow read.
const LOOKS_FOR_READ: usize = 1024;

/// The agent. Only its own thread uses it.
pub struct Agent {
    pager: Pager,
    /// Whether there are faults at doorbells to read.
    is_rung: bool,
    /// Whether looking for work has paid off lately. First entry: while no thread waits for a read.
    /// Second entry: while one does.
    polls: [PollHistory; 2],
    /// Whether the agent may use only one processor, which is then the program's as well.
    has_one_processor: bool,
    /// Steps of the policy's hands that are in the shared counter.
    published_hand_steps: u64,
    /// Changes of the policy's leader that are in the shared counter.
    published_leader_changes: u64,
    /// Pages of the pager's own arrays before it knew any of the program's pages.
    heap_pages_at_first: usize,
}

impl Agent {
    /// Makes an agent for this process.
    pub fn new(control: &'static Control, supervisor: Option<OwnedFd>) -> Self {
        open_roots(control, mode::of(&control.order));
        Self::make(control, supervisor)
    }

    /// Makes an agent where the directories are open in which it opens files.
    pub(crate) fn make(control: &'static Control, supervisor: Option<OwnedFd>) -> Self {
        Self {
            pager: Pager::new(control, supervisor, mode::of(&control.order)),
            is_rung: false,
            polls: [PollHistory::default(); 2],
            has_one_processor: kernel::sched_getaffinity(None)
                .is_ok_and(|processors| processors.count() == 1),
            published_hand_steps: 0,
            published_leader_changes: 0,
            heap_pages_at_first: own::heap_pages(),
        }
    }

    /// The agent's state.
    pub(crate) fn pager(&mut self) -> &mut Pager {
        &mut self.pager
    }

    /// Serves the program until it ends.
    pub fn run(&mut self) -> ! {
        let pager = &mut self.pager;
        own::take_emergency_pages();
        pager.mode.begin(pager);
        if pager.choice.chooser.policy().needs_objects() {
            MAILBOX.want_objects();
        }
        make_room(pager, 0);
        MAILBOX.allow(if pager.memory.managed { -1 } else { pager.room_bytes() });
        add(&pager.control.counters.agents, 1);
        add(&pager.control.counters.rings, u64::from(pager.disk.io.descriptor().is_some()));
        cgroup::widen(pager.control);
        hidden::begin(kernel::thread_number());
        MAILBOX.open(pager.program.doorbells());
        self.go_on()
    }

    /// Serves the program from now on.
    fn go_on(&mut self) -> ! {
        loop {
            self.serve();
            if outlive::is_asked() {
                self.move_out();
            }
            if !self.look_about() {
                self.sleep();
            }
        }
    }

    /// Goes on in a process of its own, because another process will share the program's memory.
    fn move_out(&mut self) -> ! {
        reap_all(&mut self.pager);
        self.pager.program.sharers.add(kernel::process_number());
        // SAFETY: the agent is its thread's alone, which does not use it any more.
        unsafe { outlive::move_out(move_in, ptr::from_mut(self) as usize) }
    }

    /// Does all the work that there is.
    fn serve(&mut self) {
        let pager = &mut self.pager;
        if let Some(queues) = pager.anon.queues() {
            queues.look_again();
        }
        pager.program.read_messages();
        apply_read(pager);
        pager.mode.before_faults(pager);
        // Ends: handling one message adds at most those of threads that do not wait yet.
        while let Some(message) = pager.program.messages.pop_front() {
            match message.event() {
                Some(Event::Fault { address }) => pager.mode.on_fault(pager, address, message.is_write()),
                _ => changes::apply(pager, message),
            }
            reap(pager);
        }
        if core::mem::take(&mut self.is_rung) || MAILBOX.is_ringing() {
            calls::answer_all(pager);
        }
        reap(pager);
        clear_queued(pager, Queue::Cleared, usize::MAX);
        // This makes room for the next fault, and for memory of others that may have grown. No
        // thread waits for a page at this point.
        evict_batch(pager);
        manage::watch(pager);
        pager.mode.between_faults(pager);
        pager.disk.io.submit();
        self.publish_counters();
        let pager = &mut self.pager;
        pager.mode.report(pager, false);
    }

    /// Looks for work for a short while before the agent sleeps. A fault seldom comes alone, and
    /// sleeping and waking take longer than the read that a fault needs. Returns whether there is
    /// work.
    fn look_about(&mut self) -> bool {
        let pager = &mut self.pager;
        if pager.mode.has_work(pager) {
            return true;
        }
        let is_awaited = is_read_awaited(pager);
        let looks = match is_awaited {
            true => LOOKS_FOR_READ,
            // The program could not run meanwhile.
            false if self.has_one_processor => 0,
            false => LOOKS,
        };
        let history = &mut self.polls[usize::from(is_awaited)];
        if looks == 0 || !history.is_worth_a_try() {
            return false;
        }
        let has_work = (0..looks).any(|_| {
            let has_work =
                !pager.program.messages.is_empty() || pager.disk.io.has_completions() || MAILBOX.is_ringing();
            if !has_work {
                pager.program.read_messages();
            }
            has_work
        });
        history.tried(has_work);
        has_work
    }

    /// Waits until there is something to do.
    fn sleep(&mut self) {
        let pager = &mut self.pager;
        if !pager.program.messages.is_empty() {
            return;
        }
        pager.program.clear_bells();
        let empty_ranges = changes::empty_ranges(pager);
        let program = &pager.program;
        let mut descriptors = Vec::with_capacity(5 + program.orphans.len());
        let mut watch = |fd| descriptors.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        watch(program.uffd.as_fd());
        watch(program.staging_uffd.as_fd());
        pager.disk.io.descriptor().map(AsFd::as_fd).map(&mut watch);
        program.orphans.iter().map(AsFd::as_fd).for_each(&mut watch);
        program.supervisor.as_ref().map(AsFd::as_fd).map(&mut watch);
        pager.mode.orders(pager).map(&mut watch);
        let period_ns = pager.account.period_ms() as i64 * 1_000_000;
        let nanoseconds = pager.mode.due_in_ns(pager).map_or(period_ns, |ns| period_ns.min(ns as i64));
        let timeout = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        MAILBOX.empty().publish(&empty_ranges);
        let ready = poll(&mut descriptors, Some(&timeout));
        // Before any message is read.
        MAILBOX.empty().withdraw();
        let ready = match ready {
            Ok(ready) => ready,
            Err(Errno::INTR | Errno::AGAIN) => return,
            Err(error) => abort(format_args!("the pager cannot wait for faults: {error}")),
        };
        let is_ready = |fd: &PollFd| !fd.revents().is_empty();
        let is_rung = is_ready(&descriptors[1]);
        let first_orphan = 2 + usize::from(pager.disk.io.descriptor().is_some());
        let behind_orphans = first_orphan + program.orphans.len();
        if descriptors[first_orphan..behind_orphans].iter().any(|fd| fd.revents().contains(PollFlags::IN)) {
            abort(format_args!(
                "a child made by a bare clone system call has touched memory that is paged out; such children have \
                 no pager"
            ));
        }
        if descriptors.get(behind_orphans).is_some_and(is_ready) {
            drop(descriptors);
            pager.mode.on_command_ended(pager);
            pager.program.supervisor = None;
            environment::forget_run(pager.control);
        }
        self.is_rung = is_rung;
        if ready == 0 {
            own::take_emergency_pages();
            pager.mode.report(pager, true);
            if outlive::is_process() {
                outlive::end_if_over(&mut pager.program.sharers);
            } else {
                last_thread::end_if_alone();
                credentials::take_on_rights();
            }
        }
    }

    /// Updates the shared counters that the agent does not update at each event.
    fn publish_counters(&mut self) {
        let pager = &mut self.pager;
        let counters = &pager.control.counters;
        let pages = &pager.memory.pages;
        let resident = pages.resident();
        counters.resident_pages.store(resident as u64, Ordering::Relaxed);
        counters.peak_resident_pages.fetch_max(resident as u64, Ordering::Relaxed);
        counters.peak_policy_pages.fetch_max(pages.owned() as u64, Ordering::Relaxed);
        if let Some(pool) = &pager.disk.pool {
            counters.pool_bytes.store(pool.used_bytes() as u64, Ordering::Relaxed);
            counters.peak_pool_bytes.fetch_max(pool.used_bytes() as u64, Ordering::Relaxed);
            counters.pool_pages.store(pool.pages() as u64, Ordering::Relaxed);
            counters.peak_pool_pages.fetch_max(pool.pages() as u64, Ordering::Relaxed);
        }
        counters.peak_own_pages.fetch_max(pager.own_pages() as u64, Ordering::Relaxed);
        if pager.memory.managed {
            let all = resident + pager.apart_pages();
            counters.peak_memory_pages.fetch_max(all as u64, Ordering::Relaxed);
        }
        let bookkeeping = own::heap_pages().saturating_sub(self.heap_pages_at_first) * PAGE_BYTES;
        counters.peak_bookkeeping_bytes.fetch_max(bookkeeping as u64, Ordering::Relaxed);
        counters.peak_managed_pages.fetch_max(u64::from(pages.ids()), Ordering::Relaxed);
        counters.peak_pinned_pages.fetch_max(pages.pinned() as u64, Ordering::Relaxed);
        let steps = pager.choice.chooser.policy().hand_steps();
        add(&counters.hand_steps, steps - self.published_hand_steps);
        self.published_hand_steps = steps;
        if let Some(leader) = pager.choice.chooser.policy().leader() {
            counters.leader.store(1 + leader.expert as u64, Ordering::Relaxed);
            add(&counters.leader_changes, leader.changes - self.published_leader_changes);
            self.published_leader_changes = leader.changes;
        }
    }
}

/// The agent goes on in a process of its own.
extern "C" fn move_in(agent: usize) -> ! {
    // SAFETY: the thread that was the agent has given it up.
    let agent = unsafe { &mut *(agent as *mut Agent) };
    // What the kernel says of the first process, it says no more when that has ended.
    agent.pager.account.reopen();
    outlive::begun();
    agent.go_on()
}
