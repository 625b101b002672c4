//! At rest: what an agent does while its memory, and the program's, is being copied by a fork.
//!
//! Its state must not change then, since what a child's agent goes on with is a copy of it, made at a moment that nobody
//! is told of. But threads of the program go on meanwhile: they miss pages, have the kernel change mappings, and call; and
//! the one that forks may miss a page itself, or wait for a lock of the C library whose holder misses one or calls.
//!
//! ```text
//!   come_to_rest           park                                                     make_up, of parent and child
//!   nothing under way  ->  a page is missed: a copy of it, and a note           ->  messages and notes in their order:
//!   limbo empty            a change is told: read, so that its thread goes on       what is where now, as is known again
//!   store's file frozen    a call: its thread is let go, and a note
//!                          the child misses a page: a copy, and it is told so
//!                          a mapping is to be moved: its thread is let go when nothing else is being changed
//! ```
//!
//! Once the thread that forks is through the others can wait. See [`fork`](crate::fork) for how it announces that it forks,
//! and for what the child's agent is told.

use crate::agent::{Agent, open_store};
use crate::failure::give_up;
use crate::fork::MOST_ANSWERED;
use crate::mailbox::{ARGUMENTS, Call, MAILBOX, SLOTS};
use crate::pages::{Flag, State, page_start};
use crate::staging::Phase;
use crate::store;
use alloc::vec::Vec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sweephand_policy::PageId;
use sweephand_uffd::{Event, Message, PAGE_BYTES, Region, Userfaultfd, scan_present};

/// Messages that may come while a fork is under way.
const MOST_MESSAGES: usize = 4096;
/// Once so much has been done meanwhile, callers have to wait.
const MOST_CALLS: usize = 1024;
/// How far back a call is looked for that this one goes on from: one for each arena, and pages brought in between.
const LATEST_NOTES: usize = 64;
/// After so many turns of waiting for a fork, how long each takes. A lock of the C library's goes to whoever is awake: threads
/// that keep taking one, and are answered at once, would keep it from the thread that forks, and use up memory beyond the limit.
const QUICK_TURNS: usize = 32;
const SLOW_TURN_NS: i64 = 1_000_000;
/// While memory is being copied, how soon it is tried again to answer a fault.
const SERVED_AGAIN_NS: i64 = 200_000;

/// What was done while the agent's state was at rest, after so many messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    told: usize,
    what: Noted,
}

#[derive(Clone, Copy, Debug)]
enum Noted {
    /// A page was brought in, or is about to be, at this address.
    BroughtIn(usize),
    /// A caller was let go.
    Called(Call, [usize; ARGUMENTS]),
}

/// Calls that have come while the agent was parked.
pub(crate) struct WaitingCalls {
    pub(crate) slots: [usize; SLOTS],
    pub(crate) count: usize,
}

impl WaitingCalls {
    const NONE: Self = Self { slots: [0; SLOTS], count: 0 };

    fn push(&mut self, slot: usize) {
        self.slots[self.count] = slot;
        self.count += 1;
    }

    fn take(&mut self) -> impl Iterator<Item = usize> + use<> {
        let Self { slots, count } = core::mem::replace(self, Self::NONE);
        slots.into_iter().take(count)
    }
}

impl Agent {
    /// Comes to rest: nothing is under way, and there is place for what will be noted.
    pub(crate) fn come_to_rest(&mut self) {
        while self.staging.batches.iter().any(|batch| batch.phase != Phase::Free) {
            self.reap_one();
        }
        self.empty_limbo();
        for batch in 0..self.staging.batches.len() {
            self.staging.drop_frames(batch, 0);
        }
        if !self.store.current_is_empty() {
            let file = open_store(self.control);
            if let Err(file) = self.store.begin_file(file) {
                self.merge_file();
                if self.store.begin_file(file).is_err() {
                    give_up(format_args!("the backing store has run out of numbers for its files"));
                }
            }
        }
        // What is left are faults; whoever waits may be waited for.
        self.catch_up();
        self.notes = Vec::with_capacity(MOST_MESSAGES + MOST_CALLS);
        self.parked = Vec::with_capacity(MOST_MESSAGES);
        self.parked.extend(self.messages.drain(..));
        self.parked.resize(MOST_MESSAGES, Message::EMPTY);
    }

    /// Maps all pages in limbo again. What other threads move meanwhile has another id then, perhaps one that has been
    /// passed.
    fn empty_limbo(&mut self) {
        let mut is_empty = false;
        while !is_empty {
            is_empty = true;
            for id in 0..self.pages.ids() {
                let page = PageId(id);
                if self.pages.state(page) == State::Limbo {
                    is_empty = false;
                    self.pages.mark(page, Flag::Trigger, false);
                    self.map_from_limbo(page);
                }
            }
        }
    }

    /// Copies what the emptiest of the old files holds to the current one, to have its number.
    fn merge_file(&mut self) {
        let Some(number) = self.store.emptiest() else { return };
        for id in 0..self.pages.ids() {
            let page = PageId(id);
            if self.pages.state(page) == State::Stored && store::location(self.pages.place(page)).0 == number
            {
                let old = self.pages.place(page);
                self.read_slot(old);
                let mut slots = Vec::with_capacity(1);
                self.store.allocate(1, &mut slots);
                self.write_slot(slots[0]);
                self.store.free(old);
                self.pages.set(page, State::Stored, slots[0]);
            }
        }
    }

    /// Is at rest until the fork has been made and the child, if there is one, can do without us.
    ///
    /// Nothing of the agent's state changes but `parked`, where messages are written, and `notes`: what a child has of
    /// them is what all of its memory is a copy of. A change by another thread that was told to go on because
    /// its message had been read is therefore known to the child as well.
    ///
    /// Returns the slots of the calls that have come meanwhile, which are yet to be answered.
    pub(crate) fn park(&mut self) -> WaitingCalls {
        let (mut calls, mut movers) = (WaitingCalls::NONE, WaitingCalls::NONE);
        let Some(socket) = self.forking.take() else { return calls };
        let (mut done, mut child, mut answered) = (false, None::<Userfaultfd>, Vec::new());
        let mut child_is_ours = true;
        // Messages told, of these those that the child knows of, and faults dealt with.
        let mut told = self.parked.iter().take_while(|message| message.event().is_some()).count();
        let (mut inherited, mut served) = (told, 0);
        let mut turns = 0;
        while !done || child_is_ours {
            turns += 1;
            if turns > QUICK_TURNS && !done {
                let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: SLOW_TURN_NS }));
            }
            // Whoever forks has gone on: the others can wait for it to be over.
            let all_served = done || self.serve_parked(&mut served, told);
            // No allocation here: the arena is being copied.
            let placeholder = self.uffd.as_fd();
            let childs = child.as_ref().map_or(placeholder, AsFd::as_fd);
            let fds = [self.uffd.as_fd(), self.staging_uffd.as_fd(), socket.as_fd(), childs];
            let mut descriptors = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // The socket is hung up for good once the child has gone on by itself.
            let watched = if child_is_ours { 4 } else { 2 };
            let soon = Timespec { tv_sec: 0, tv_nsec: SERVED_AGAIN_NS };
            let is_settled = all_served && movers.count == 0;
            match poll(&mut descriptors[..watched], (!is_settled).then_some(&soon)) {
                Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => give_up(format_args!("the pager cannot wait for a fork: {error}")),
            }
            let [has_told, called, spoken, missed] = descriptors.map(|fd| !fd.revents().is_empty());
            if has_told {
                let read = match self.uffd.read(&mut self.parked[told..]) {
                    Ok(read) => read,
                    Err(error) => give_up(format_args!("faults cannot be read: {error}")),
                };
                for position in told..told + read {
                    if let Some(Event::Fork { descriptor }) = self.parked[position].event() {
                        // SAFETY: the kernel has just put it into our table.
                        child = Some(Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(descriptor) }));
                        self.parked[position] = Message::EMPTY;
                        inherited = position;
                    }
                }
                told += read;
                if told == MOST_MESSAGES {
                    give_up(format_args!("too many changes to memory during one fork"));
                }
            }
            if missed && let Some(child) = &child {
                self.answer_child(child, inherited, &mut answered);
            }
            if spoken {
                child_is_ours = false;
                // The child's agent is ready, or there is no child any more.
                if recv(&socket, &mut [0_u8; 1][..], RecvFlags::empty()).is_ok_and(|(_, length)| length == 1)
                {
                    self.hand_over(&socket, child.take(), &answered);
                }
                child = None;
            }
            // What they have to wait for has been told, and read: whatever they do comes after it.
            if movers.count > 0 && !self.uffd.is_changing() {
                movers.take().for_each(|slot| self.release(slot, 0));
            }
            if called {
                done |= self.calls_while_parked(&mut calls, &mut movers, told);
            }
        }
        movers.take().for_each(|slot| calls.push(slot));
        self.make_up(true);
        calls
    }

    /// Answers faults among the messages told, from `served` on, by copies. Returns false if the kernel does not take any
    /// now, since memory is being copied.
    fn serve_parked(&mut self, served: &mut usize, told: usize) -> bool {
        while *served < told {
            if let Some(Event::Fault { address }) = self.parked[*served].event() {
                let address = page_start(address);
                // Noted first: if the child has the page, it has the note.
                self.notes.push(Note { told, what: Noted::BroughtIn(address) });
                if !self.bring(&self.uffd, address, &self.parked[..told]) {
                    self.notes.pop();
                    return false;
                }
            }
            *served += 1;
        }
        true
    }

    /// Answers a fault of this process or of its child by a copy, as of the state and the messages after it. Returns false if
    /// the kernel wants to be asked again.
    fn bring(&self, uffd: &Userfaultfd, address: usize, messages: &[Message]) -> bool {
        let page = origin(address, messages).and_then(|origin| self.pages.find(origin));
        let from = match page.map(|page| (self.pages.state(page), self.pages.place(page))) {
            Some((State::Stored, slot)) => {
                self.read_slot(slot);
                self.staging.scratch()
            }
            // Nothing has been there yet, or it has been dropped.
            Some((State::Absent, _)) | None => self.staging.zeros(),
            Some(_) => {
                let _ = uffd.wake(address, PAGE_BYTES);
                return true;
            }
        };
        // SAFETY: the page's contents, to a thread that waits for them.
        match unsafe { uffd.copy(address, from, PAGE_BYTES) }.error {
            Some(Errno::AGAIN) => false,
            Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
            // Another thread's fault has brought it in.
            Some(_) => {
                let _ = uffd.wake(address, PAGE_BYTES);
                true
            }
            None => true,
        }
    }

    /// A child that has no agent yet waits for a page: it gets a copy.
    fn answer_child(&self, child: &Userfaultfd, inherited: usize, answered: &mut Vec<usize>) {
        let mut buffer = [Message::EMPTY; 8];
        let count = child.read(&mut buffer).unwrap_or(0);
        for message in &buffer[..count] {
            // Before its agent is there, a child does nothing but miss pages.
            let Some(Event::Fault { address }) = message.event() else { continue };
            let address = page_start(address);
            while !self.bring(child, address, &self.parked[..inherited]) {
                rustix::thread::sched_yield();
            }
            answered.push(address);
            if answered.len() > MOST_ANSWERED {
                give_up(format_args!("a child needs too much of its memory before it has a pager"));
            }
        }
    }

    /// Notes a call to be seen to later. Returns false if there is no place for it.
    fn note_call(&mut self, call: Call, arguments: [usize; ARGUMENTS], told: usize) -> bool {
        let [start, bytes, protection, ..] = arguments;
        // An arena grows by a page or two at a time, with its lock held; while the others wait for that, by thousands.
        for note in self.notes.iter_mut().rev().take(LATEST_NOTES) {
            if let Noted::Called(Call::Grown, [first, length, same, ..]) = &mut note.what
                && call == Call::Grown
                && (*first + *length, *same) == (start, protection)
            {
                *length += bytes;
                return true;
            }
        }
        let has_place = self.notes.len() < MOST_CALLS;
        if has_place {
            self.notes.push(Note { told, what: Noted::Called(call, arguments) });
        }
        has_place
    }

    /// Lets callers go whose calls can be seen to later, and notes those that have to wait, for the end of the fork or, who
    /// moves mappings, for others' changes only; returns whether the fork is over by one of them.
    fn calls_while_parked(
        &mut self,
        waiting: &mut WaitingCalls,
        movers: &mut WaitingCalls,
        told: usize,
    ) -> bool {
        let mut done = false;
        let mut buffer = [Message::EMPTY; SLOTS];
        let count = self.staging_uffd.read(&mut buffer).unwrap_or(0);
        for message in &buffer[..count] {
            let Some(slot) = self.slot_of(message) else { continue };
            let (call, arguments) = MAILBOX.call_of(slot);
            done |= call == Some(Call::AfterFork);
            match call {
                Some(call) if call.can_be_late() && self.note_call(call, arguments, told) => {
                    self.release(slot, 0);
                }
                // It may hold a lock that the thread that forks waits for.
                Some(Call::CatchUp) => movers.push(slot),
                _ => waiting.push(slot),
            }
        }
        done
    }

    /// After the rest: takes note of the changes that were told meanwhile and of the pages brought in, in their order, then of
    /// the calls. Faults are answered later, or are not ours: of a child they are its parent's.
    pub(crate) fn make_up(&mut self, faults_are_ours: bool) {
        let (mut parked, notes) = (core::mem::take(&mut self.parked), core::mem::take(&mut self.notes));
        // Whether a page that was brought in is there is seen where it would be now. In a child nobody has moved it since.
        if faults_are_ours {
            self.hold_when(|agent| !agent.uffd.is_changing(), Self::settle);
            self.read_messages();
            let told = parked.iter().rposition(|message| message.event().is_some());
            parked.truncate(told.map_or(0, |last| last + 1));
            parked.extend(self.messages.drain(..));
        }
        let mut next = notes.iter().peekable();
        for (position, &message) in parked.iter().enumerate() {
            while let Some(note) = next.next_if(|note| note.told <= position) {
                self.adopt_noted(note, &parked[position..]);
            }
            match message.event() {
                None => {}
                Some(Event::Fault { .. }) if faults_are_ours => self.messages.push_back(message),
                Some(Event::Fault { .. }) => {}
                Some(_) => self.answer(message),
            }
        }
        next.for_each(|note| self.adopt_noted(note, &[]));
        if faults_are_ours {
            MAILBOX.let_go();
        }
        for note in notes {
            if let Noted::Called(call, arguments) = note.what {
                self.called(Some(call), arguments);
            }
        }
    }

    fn adopt_noted(&mut self, note: &Note, behind: &[Message]) {
        if let Noted::BroughtIn(address) = note.what {
            self.adopt(address, behind);
        }
    }

    /// A page was brought in at `address` while the state was at rest: it is in memory, if it still is after the messages
    /// that followed.
    pub(crate) fn adopt(&mut self, address: usize, behind: &[Message]) {
        let now = behind.iter().fold(address, |address, message| match message.event() {
            Some(Event::Remap { from, to, length }) if (from..from + length).contains(&address) => {
                address - from + to
            }
            _ => address,
        });
        let mut found = [Region { start: 0, end: 0, categories: 0 }];
        let is_here = scan_present(&self.pagemap, now, now + PAGE_BYTES, &mut found);
        if !is_here.is_ok_and(|(count, _)| count > 0) {
            return;
        }
        let page = self.pages.meet(address);
        match self.pages.state(page) {
            State::Stored => self.store.free(self.pages.place(page)),
            State::Absent => {}
            _ => return,
        }
        // Room is made for it when everything is known.
        self.pages.set(page, State::Resident, 0);
        self.arrive(page);
    }
}

/// Where what belongs to an address was before some changes; `None` if it is new since, or was dropped.
fn origin(address: usize, changes: &[Message]) -> Option<usize> {
    changes.iter().rev().try_fold(address, |address, message| match message.event() {
        Some(Event::Remove { start, end } | Event::Unmap { start, end })
            if (start..end).contains(&address) =>
        {
            None
        }
        Some(Event::Remap { from, to, length }) if (to..to + length).contains(&address) => {
            Some(address - to + from)
        }
        Some(Event::Remap { from, length, .. }) if (from..from + length).contains(&address) => None,
        _ => Some(address),
    })
}
