//! The state of rest: what an agent does while a fork copies its memory and the program's.
//!
//! During the copy the agent's state must not change, because the child's agent continues with a
//! copy of it, made at a moment that nothing reports. But the forking thread may miss a page
//! itself, and other threads of the program run until they need the agent.
//!
//! ```text
//!   come_to_rest           park                                                     make_up, of parent and child
//!   nothing under way  ->  the forking thread misses a page: a copy, and a note  ->  messages and notes in their order:
//!   limbo empty            a change is told: read, so that copies can be made        what is where now, as is known again
//!   store's file frozen    the child misses a page: a copy, and it is told so
//!   no mapping is moved    others that miss pages, call, or move mappings: wait
//! ```
//!
//! No thread waits for those other threads, so they can wait: the forking thread has all the locks
//! that it needs. See `fork` for how it announces the fork, and for what the child's
//! agent receives.

use crate::agent::{Agent, open_store};
use crate::failure::give_up;
use crate::fork::{Forking, MOST_ANSWERED};
use crate::mailbox::MAILBOX;
use crate::pages::{Flag, State, page_start};
use crate::rlimits::{self, Raised};
use crate::staging::Phase;
use crate::store;
use crate::wait::poll;
use alloc::vec::Vec;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sweephand_policy::PageId;
use sweephand_uffd::{Event, Message, PAGE_BYTES, Region, Userfaultfd};

/// Messages that may come while a fork is under way.
const MOST_MESSAGES: usize = 4096;
/// Pages that the thread that forks may miss meanwhile: of its stack, and of what the kernel writes
/// to for it.
const MOST_NOTES: usize = 256;
/// While memory is being copied, how soon it is tried again to answer a fault.
const SERVED_AGAIN_NS: i64 = 200_000;

/// A page was brought in, or is about to be, while the agent's state was at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The number of messages before it.
    told: usize,
    address: usize,
}

impl Agent {
    /// Comes to rest: nothing is under way, and there is place for what will be noted.
    pub(crate) fn come_to_rest(&mut self) {
        while self.staging.batches.iter().any(|batch| batch.phase != Phase::Free) {
            self.reap_one();
        }
        self.empty_limbo();
        for batch in 0..self.staging.batches.len() {
            self.staging.drop_frames(batch);
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
        // Only faults are left. If the child did not know of a move, what was moved would read as
        // zeros there, so moves matter most.
        self.block_moves();
        self.notes = Vec::with_capacity(MOST_NOTES);
        self.parked = Vec::with_capacity(MOST_MESSAGES);
        self.parked.extend(self.messages.drain(..));
        self.parked.resize(MOST_MESSAGES, Message::EMPTY);
    }

    /// Maps all pages in limbo again. What other threads move meanwhile has another id then,
    /// perhaps one that has been passed.
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

    /// Rests until the fork has been made and the child, if there is one, no longer needs this
    /// agent.
    ///
    /// Nothing of the agent's state changes but `parked`, where messages are written, and `notes`:
    /// what a child has of them is what all of its memory is a copy of. A change by another thread
    /// that was told to go on because its message had been read is therefore known to the child as
    /// well.
    ///
    /// Returns the slots where threads have come to wait meanwhile, a bit each.
    pub(crate) fn park(&mut self) -> u64 {
        let (mut waiting, mut staging) = (0, None);
        let Some(Forking { socket, thread }) = self.forking.take() else { return waiting };
        let (mut done, mut child, mut child_is_ours) = (false, None::<Userfaultfd>, true);
        let mut answered = Vec::new();
        // Messages told, of these those that the child knows of, and faults seen to.
        let mut told = self.parked.iter().take_while(|message| message.event().is_some()).count();
        let (mut inherited, mut served) = (told, 0);
        let mut moved = 0;
        while !done || child_is_ours {
            // The forking thread has continued, so it can wait like the others.
            let all_served = done || self.serve_parked(&mut served, told, thread);
            // No allocation here: the arena is being copied.
            let placeholder = self.uffd.as_fd();
            let childs = child.as_ref().map_or(placeholder, AsFd::as_fd);
            let fds = [self.uffd.as_fd(), self.staging_uffd.as_fd(), socket.as_fd(), childs];
            let mut descriptors = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            if done {
                descriptors[0] = PollFd::from_borrowed_fd(placeholder, PollFlags::empty());
            }
            // The socket stays hung up once the child has continued by itself.
            let watched = if child_is_ours { 4 } else { 2 };
            let soon = Timespec { tv_sec: 0, tv_nsec: SERVED_AGAIN_NS };
            match poll(&mut descriptors[..watched], (!all_served).then_some(&soon)) {
                Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => give_up(format_args!("the pager cannot wait for a fork: {error}")),
            }
            let [has_told, called, spoken, missed] = descriptors.map(|fd| !fd.revents().is_empty());
            if has_told && let Some((position, forked)) = self.read_parked(&mut told, thread) {
                child = Some(forked);
                inherited = position;
                // By then the kernel has reported all moves before the fork.
                while self.uffd.is_changing() {
                    self.read_parked(&mut told, thread);
                }
                moved = moves(&self.parked[..told]);
            }
            if missed && let Some(child) = &child {
                self.answer_child(child, inherited, &mut answered);
            }
            if spoken {
                child_is_ours = false;
                // The child's agent is ready, or there is no child any more.
                if recv(&socket, &mut [0_u8; 1][..], RecvFlags::empty()).is_ok_and(|(_, length)| length == 1)
                {
                    self.hand_over(&socket, child.take().zip(staging.take()), moved, &answered);
                }
                child = None;
            }
            if called {
                let (rung, forked) = self.read_bells();
                waiting |= rung;
                staging = forked.or(staging);
            }
            done |= MAILBOX.is_fork_over();
        }
        self.make_up(true);
        waiting
    }

    /// Reads what the kernel has to tell while `thread` forks. Returns the child's descriptor, if
    /// the fork has been made, and after how many messages.
    fn read_parked(&mut self, told: &mut usize, thread: u32) -> Option<(usize, Userfaultfd)> {
        let mut read = self.uffd.read(&mut self.parked[*told..]);
        if read == Err(Errno::MFILE) {
            let again = || self.uffd.read(&mut self.parked[*told..]);
            read = rlimits::without(Raised::Descriptors, again);
        }
        let read = match read {
            Ok(read) => read,
            Err(error) => give_up(format_args!("faults cannot be read: {error}")),
        };
        let mut forked = None;
        for position in *told..*told + read {
            if let Some(Event::Fork { descriptor }) = self.parked[position].event() {
                // SAFETY: the kernel has just put it into our table.
                let child = Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
                self.parked[position] = Message::EMPTY;
                forked = Some((position, child));
            }
        }
        // Signals have threads that wait fault again and again. One message of each is enough to
        // see to it later.
        let mut read = read;
        while read > 0 && is_told_already(&self.parked[..*told + read], thread) {
            read -= 1;
            self.parked[*told + read] = Message::EMPTY;
        }
        *told += read;
        if *told == MOST_MESSAGES {
            give_up(format_args!("too many changes to memory during one fork"));
        }
        forked
    }

    /// Answers the forking thread's faults among the messages received, from `served` on, by
    /// copies. Returns false if the kernel accepts no copies now, because it is copying memory.
    fn serve_parked(&mut self, served: &mut usize, told: usize, thread: u32) -> bool {
        while *served < told {
            let message = self.parked[*served];
            if let Some(Event::Fault { address }) = message.event()
                && message.thread() == thread
            {
                if self.notes.len() == MOST_NOTES {
                    give_up(format_args!("a thread that forks needs too much of its memory"));
                }
                let address = page_start(address);
                // Noted first: if the child has the page, it has the note.
                self.notes.push(Note { told, address });
                if !self.bring(&self.uffd, address, &self.parked[..told]) {
                    self.notes.pop();
                    return false;
                }
            }
            *served += 1;
        }
        true
    }

    /// Answers a fault of this process or of its child by a copy, as of the state and the messages
    /// after it. Returns false if the kernel wants to be asked again.
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

    /// After the rest: records the changes reported meanwhile and the pages brought in, in their
    /// order. Faults are answered later; in a child they belong to the parent.
    pub(crate) fn make_up(&mut self, faults_are_ours: bool) {
        let (mut parked, notes) = (core::mem::take(&mut self.parked), core::mem::take(&mut self.notes));
        // Whether a page that was brought in is there is seen where it would be now. In a child
        // nobody has moved it since.
        if faults_are_ours {
            while self.uffd.is_changing() {
                self.settle();
            }
            self.read_messages();
            let told = parked.iter().rposition(|message| message.event().is_some());
            parked.truncate(told.map_or(0, |last| last + 1));
            parked.extend(self.messages.drain(..));
        }
        let mut next = notes.iter().peekable();
        for (position, &message) in parked.iter().enumerate() {
            while let Some(note) = next.next_if(|note| note.told <= position) {
                self.adopt(note.address, &parked[position..]);
            }
            match message.event() {
                None => {}
                Some(Event::Fault { .. }) if faults_are_ours => self.messages.push_back(message),
                Some(Event::Fault { .. }) => {}
                Some(_) => self.answer(message),
            }
        }
        next.for_each(|note| self.adopt(note.address, &[]));
        if faults_are_ours {
            MAILBOX.allow_moves();
        }
    }

    /// A page was brought in at `address` while the state was at rest: it is in memory, if it still
    /// is after the messages that followed.
    pub(crate) fn adopt(&mut self, address: usize, behind: &[Message]) {
        let now = behind.iter().fold(address, |address, message| match message.event() {
            Some(Event::Remap { from, to, length }) if (from..from + length).contains(&address) => {
                address - from + to
            }
            _ => address,
        });
        let mut found = [Region { start: 0, end: 0, categories: 0 }];
        let is_here = self.pagemap.present(now, now + PAGE_BYTES, &mut found);
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

/// Whether the last of these messages is a fault that is among them before, of a thread other than
/// the one that forks.
fn is_told_already(messages: &[Message], forking: u32) -> bool {
    let fault = |message: &Message| match message.event() {
        Some(Event::Fault { address }) => Some((page_start(address), message.thread())),
        _ => None,
    };
    let Some((last, before)) = messages.split_last() else { return false };
    let last = fault(last).filter(|&(_, thread)| thread != forking);
    last.is_some() && before.iter().any(|message| fault(message) == last)
}

/// How many of these messages tell of mappings moved.
pub(crate) fn moves(messages: &[Message]) -> usize {
    messages.iter().filter(|message| matches!(message.event(), Some(Event::Remap { .. }))).count()
}

/// Where what belongs to an address was before some changes; `None` if it is new since, or was
/// dropped.
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
