//! The state of rest: what an agent does while a fork copies its memory and the program's.
//!
//! During the copy the agent's state must not change, because the child's agent continues with a
//! copy of it, made at a moment that nothing reports. But the forking thread may miss a page
//! itself, and other threads of the program run until they need the agent.
//!
//! ```text
//!   come_to_rest           wait_for_fork                                            make_up, of parent and child
//!   nothing under way  ->  the forking thread misses a page: a copy, and a note  ->  messages and notes in their order:
//!   limbo empty            a change is reported: read, so copies can be made      what is where now, as is known again
//!   store's file frozen    the child misses a page: a copy, and a report to it
//!   no mapping is moved    others that miss pages, call, or move mappings: wait
//! ```
//!
//! No thread waits for those other threads, so they can wait: the forking thread has all the locks
//! that it needs. See `fork` for how it announces the fork, and for what the child's
//! agent receives.

use crate::kernel::passing::send_file;
use crate::kernel::{self, Event, Message, PAGE_BYTES, PollFd, Userfaultfd};
use crate::mailbox::MAILBOX;
use crate::paging::changes::{apply, block_moves, drop_contents};
use crate::paging::handover::{self, MOST_ANSWERED, fetch_descriptor};
use crate::paging::lifecycle::arrive;
use crate::paging::pager::{Pager, open_store};
use crate::paging::transfer::{map_from_limbo, read_slot, reap_all, write_slot};
use crate::process::failure::abort;
use crate::process::own::Retry;
use crate::process::pagemap::NOTHING;
use crate::process::rlimits::{self, Raised};
use crate::process::wait::poll;
use crate::state::pages::{Flag, State, page_start};
use crate::state::program::{self, Forking, Note};
use crate::store::backing;
use alloc::vec::Vec;
use core::mem::take;
use rustix::event::{PollFlags, Timespec};
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sweephand_policy::PageId;

/// Messages that may come while a fork is under way.
const MOST_MESSAGES: usize = 4096;
/// Pages that the thread that forks may miss meanwhile: of its stack, and of what the kernel writes
/// to for it.
const MOST_NOTES: usize = 256;
/// While memory is being copied, how soon it is tried again to answer a fault.
const SERVED_AGAIN_NS: i64 = 200_000;

/// Prepares for the fork of a thread. Nothing may be under way while the thread's memory is copied.
pub(crate) fn before_fork(pager: &mut Pager, descriptor: usize, thread: usize) {
    pager.anon.hold_for_fork();
    // Without the socket the child will have no agent.
    let fetch = || fetch_descriptor(descriptor, thread);
    let socket = fetch().or_else(|| rlimits::without(Raised::Descriptors, fetch));
    let Some(socket) = socket else { return };
    match pager.mode.before_fork(pager).map(|lease| send_file(&socket, &[0], lease?.as_fd())) {
        None | Some(Ok(())) => {}
        Some(Err(error)) => abort(format_args!("sweephand run does not hear of a child: {error}")),
    }
    pager.program.forking = Some(Forking { socket, thread: thread as u32 });
    come_to_rest(pager);
}

/// Comes to rest: nothing is under way, and there is place for what will be noted.
fn come_to_rest(pager: &mut Pager) {
    reap_all(pager);
    empty_limbo(pager);
    pager.mode.at_rest(pager);
    for batch in 0..pager.disk.staging.batches.len() {
        pager.disk.staging.drop_frames(batch);
    }
    if !pager.disk.store.current_is_empty() {
        let file = open_store(pager.control, pager.mode);
        if let Err(file) = pager.disk.store.begin_file(file) {
            merge_file(pager);
            if pager.disk.store.begin_file(file).is_err() {
                abort(format_args!("the backing store has run out of numbers for its files"));
            }
        }
    }
    // Only faults are left. If the child did not know of a move, what was moved would read as
    // zeros there, so moves matter most.
    block_moves(pager);
    let program = &mut pager.program;
    program.notes = Vec::with_capacity(MOST_NOTES);
    program.deferred = Vec::with_capacity(MOST_MESSAGES);
    program.deferred.extend(program.messages.drain(..));
    program.deferred.resize(MOST_MESSAGES, Message::EMPTY);
}

/// Maps all pages in limbo again. What other threads move meanwhile has another id then, perhaps
/// one that has been passed. Ends: no page is put into limbo meanwhile, so each turn leaves fewer.
pub(crate) fn empty_limbo(pager: &mut Pager) {
    let mut is_empty = false;
    while !is_empty {
        is_empty = true;
        for id in 0..pager.memory.pages.ids() {
            let page = PageId(id);
            if pager.memory.pages.is_in_limbo(page) {
                is_empty = false;
                pager.memory.pages.mark(page, Flag::Trigger, false);
                map_from_limbo(pager, page);
            }
        }
    }
}

/// Copies what the emptiest of the old files holds to the current one, to have its number.
fn merge_file(pager: &mut Pager) {
    let Some(number) = pager.disk.store.emptiest() else { return };
    for id in 0..pager.memory.pages.ids() {
        let page = PageId(id);
        let state = pager.memory.pages.state(page);
        if let Some(old) = state.kept().filter(|slot| backing::location(*slot).0 == number) {
            pager.disk.store.free(old);
            pager.memory.pages.set(page, state.without_slot());
        }
        if let State::Pooled(entry) = state
            && let Some(old) =
                pager.disk.pool().slot(entry).filter(|slot| backing::location(*slot).0 == number)
        {
            pager.disk.store.free(old);
            pager.disk.pool().forget_slot(entry);
        }
        let State::Stored(old) = state else { continue };
        if backing::location(old).0 == number {
            read_slot(pager, old);
            let mut slots = Vec::with_capacity(1);
            pager.disk.store.allocate(1, &mut slots);
            write_slot(pager, slots[0]);
            pager.disk.store.free(old);
            pager.memory.pages.set(page, State::Stored(slots[0]));
        }
    }
}

/// Rests until the fork has been made and the child, if there is one, no longer needs this
/// agent.
///
/// Nothing of the agent's state changes but `deferred`, where messages are written, and `notes`:
/// what a child has of them is what all of its memory is a copy of. A change by another thread
/// that went on because its message had been read is therefore known to the child as
/// well.
///
/// Returns the slots where threads have come to wait meanwhile, a bit each. Ends: the thread
/// reports that it has forked, or has failed to, and the child's agent is ready, or its socket
/// hangs up with the child.
pub(crate) fn wait_for_fork(pager: &mut Pager) -> u64 {
    let (mut waiting, mut staging) = (0, None);
    let Some(Forking { socket, thread }) = pager.program.forking.take() else { return waiting };
    let (mut done, mut child, mut child_is_ours) = (false, None::<Userfaultfd>, true);
    let mut answered = Vec::new();
    // Messages read, those of them that the child knows of, and those whose faults are answered.
    let mut received = pager.program.deferred.iter().take_while(|message| message.event().is_some()).count();
    let (mut inherited, mut served) = (received, 0);
    let mut moved = 0;
    while !done || child_is_ours {
        // The forking thread has continued, so it can wait like the others.
        let all_served = done || serve_forking_thread(pager, &mut served, received, thread);
        // No allocation here: the arena is being copied.
        let placeholder = pager.program.uffd.as_fd();
        let childs = child.as_ref().map_or(placeholder, AsFd::as_fd);
        let fds = [pager.program.uffd.as_fd(), pager.program.staging_uffd.as_fd(), socket.as_fd(), childs];
        let mut descriptors = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        if done {
            descriptors[0] = PollFd::from_borrowed_fd(placeholder, PollFlags::empty());
        }
        // The socket stays hung up once the child has continued by itself.
        let watched = if child_is_ours { 4 } else { 2 };
        let soon = Timespec { tv_sec: 0, tv_nsec: SERVED_AGAIN_NS };
        match poll(&mut descriptors[..watched], (!all_served).then_some(&soon)) {
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => abort(format_args!("the pager cannot wait for a fork: {error}")),
        }
        let [has_messages, called, spoken, missed] = descriptors.map(|fd| !fd.revents().is_empty());
        if has_messages && let Some((position, forked)) = read_during_fork(pager, &mut received, thread) {
            child = Some(forked);
            inherited = position;
            // By then the kernel has reported all moves before the fork. Ends: a change is over
            // when it has been read, and more messages than there is place for end the run.
            while pager.program.uffd.is_changing() {
                read_during_fork(pager, &mut received, thread);
            }
            moved = moves(&pager.program.deferred[..received]);
        }
        if missed && let Some(child) = &child {
            answer_child(pager, child, inherited, &mut answered);
        }
        if spoken {
            child_is_ours = false;
            // The child's agent is ready, or there is no child any more.
            if recv(&socket, &mut [0_u8; 1][..], RecvFlags::empty()).is_ok_and(|(_, length)| length == 1) {
                let from = (&pager.program, &pager.disk.store);
                let accessed_bits = pager.anon.accessed_bits();
                handover::send(
                    &socket,
                    from,
                    accessed_bits,
                    child.take().zip(staging.take()),
                    moved,
                    &answered,
                );
            }
            child = None;
        }
        if called {
            let (rung, forked) = pager.program.read_bells();
            waiting |= rung;
            staging = forked.or(staging);
        }
        done |= MAILBOX.is_fork_over();
    }
    make_up(pager, true);
    waiting
}

/// Reads the messages that come while `thread` forks. Returns the child's descriptor, if
/// the fork has been made, and after how many messages.
fn read_during_fork(pager: &mut Pager, received: &mut usize, thread: u32) -> Option<(usize, Userfaultfd)> {
    let program = &mut pager.program;
    let read = program::read(&program.uffd, &mut program.deferred[*received..], "faults");
    let mut forked = None;
    for position in *received..*received + read {
        if let Some(Event::Fork { descriptor }) = pager.program.deferred[position].event() {
            // SAFETY: the kernel has just put it into our table.
            let child = Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
            pager.program.deferred[position] = Message::EMPTY;
            forked = Some((position, child));
        }
    }
    // Signals have threads that wait fault again and again. One message of each is enough to
    // see to it later.
    let mut read = read;
    while read > 0 && is_repeated(&pager.program.deferred[..*received + read], thread) {
        read -= 1;
        pager.program.deferred[*received + read] = Message::EMPTY;
    }
    *received += read;
    if *received == MOST_MESSAGES {
        abort(format_args!("too many changes to memory during one fork"));
    }
    forked
}

/// Answers the forking thread's faults among the messages received, from `served` on, by
/// copies. Returns false if the kernel accepts no copies now, because it is copying memory.
fn serve_forking_thread(pager: &mut Pager, served: &mut usize, received: usize, thread: u32) -> bool {
    while *served < received {
        let message = pager.program.deferred[*served];
        if let Some(Event::Fault { address }) = message.event()
            && message.thread() == thread
        {
            if pager.program.notes.len() == MOST_NOTES {
                abort(format_args!("a thread that forks needs too much of its memory"));
            }
            let address = page_start(address);
            // Noted first: if the child has the page, it has the note.
            let program = &mut pager.program;
            let is_back = Note::is_among(&program.notes, address);
            program.notes.push(Note { messages: received, address, is_done: false });
            let uffd = &pager.program.uffd;
            if !bring(pager, uffd, address, is_back, &pager.program.deferred[..received]) {
                pager.program.notes.pop();
                return false;
            }
            pager.program.notes.last_mut().expect("it was pushed").is_done = true;
        }
        *served += 1;
    }
    true
}

/// Answers a fault of this process or of its child by a copy, as of the state and the messages
/// after it. `is_back`: the page has been brought in before. Returns false if the kernel wants to
/// be asked again. Ends: the kernel lacks memory for as long as `Retry` says at most.
fn bring<'a>(
    pager: &Pager,
    uffd: &Userfaultfd,
    address: usize,
    is_back: bool,
    messages: impl IntoIterator<Item = &'a Message, IntoIter: DoubleEndedIterator>,
) -> bool {
    // What is back and missing has been dropped.
    let origin = if is_back { None } else { origin(address, messages) };
    let page = origin.and_then(|origin| pager.memory.pages.find(origin));
    let from = match page.map(|page| pager.memory.pages.state(page)) {
        Some(State::Stored(slot)) => {
            read_slot(pager, slot);
            pager.disk.staging.scratch()
        }
        // Only read: the child has the pool as it is now.
        Some(State::Pooled(entry)) => {
            let pool = pager.disk.pool.as_ref().expect("a page that is pooled has a pool");
            pool.decompress(entry, pager.disk.staging.scratch());
            pager.disk.staging.scratch()
        }
        // Nothing has been there yet, or the program has dropped it. (A page that is thought to be
        // mapped and is missing was dropped just when it came in. Where a thread waits, there is no
        // guard any more. If the page is present, the kernel leaves it alone.)
        Some(State::Absent | State::Resident { .. } | State::Pinned | State::Guarded) | None => {
            pager.disk.staging.zeros()
        }
        Some(_) => {
            let _ = uffd.wake(address, PAGE_BYTES);
            return true;
        }
    };
    let mut retry = Retry::new();
    loop {
        // SAFETY: the page's contents, to a thread that waits for them.
        match unsafe { uffd.copy(address, from, PAGE_BYTES) }.error {
            None => return true,
            Some(Errno::AGAIN) => return false,
            Some(Errno::NOMEM) if retry.wait() => {}
            Some(Errno::NOMEM) => abort(format_args!("the system has run out of memory")),
            // Another thread's fault has brought it in.
            Some(_) => {
                let _ = uffd.wake(address, PAGE_BYTES);
                return true;
            }
        }
    }
}

/// A child that has no agent yet waits for a page: it gets a copy.
fn answer_child(pager: &Pager, child: &Userfaultfd, inherited: usize, answered: &mut Vec<usize>) {
    let mut buffer = [Message::EMPTY; 8];
    let count = child.read(&mut buffer).unwrap_or(0);
    for message in &buffer[..count] {
        // Before its agent is there, a child does nothing but miss pages.
        let Some(Event::Fault { address }) = message.event() else { continue };
        let address = page_start(address);
        // The kernel may report what another thread unmaps between the copy and its own report of
        // the fork before the latter. What a child misses was there when it was copied.
        let is_unmapped = |message: &&Message| matches!(message.event(), Some(Event::Unmap { .. }));
        let before = || pager.program.deferred[..inherited].iter().filter(|message| !is_unmapped(message));
        // Later notes are of pages that this child has not got.
        let notes = &pager.program.notes;
        let is_back =
            Note::is_among(&notes[..notes.partition_point(|note| note.messages <= inherited)], address);
        // Ends: the child runs, so its memory has been copied.
        while !bring(pager, child, address, is_back, before()) {
            kernel::sched_yield();
        }
        answered.push(address);
        if answered.len() > MOST_ANSWERED {
            abort(format_args!("a child needs too much of its memory before it has a pager"));
        }
    }
}

/// After the rest: records the changes reported meanwhile and the pages brought in, in their
/// order. Faults are answered later; in a child they belong to the parent.
pub(crate) fn make_up(pager: &mut Pager, faults_are_ours: bool) {
    let (mut deferred, notes) = (take(&mut pager.program.deferred), take(&mut pager.program.notes));
    // Whether a page that was brought in is there is seen where it would be now. In a child
    // no thread has moved it since.
    if faults_are_ours {
        pager.program.settle_all();
        let last = deferred.iter().rposition(|message| message.event().is_some());
        deferred.truncate(last.map_or(0, |last| last + 1));
        deferred.extend(pager.program.messages.drain(..));
    }
    let mut next = notes.iter().peekable();
    for (position, &message) in deferred.iter().enumerate() {
        while let Some(note) = next.next_if(|note| note.messages <= position) {
            adopt(pager, note.address, note.is_done, &deferred[position..]);
        }
        match message.event() {
            None => {}
            Some(Event::Fault { .. }) if faults_are_ours => pager.program.messages.push_back(message),
            Some(Event::Fault { .. }) => {}
            Some(_) => apply(pager, message),
        }
    }
    next.for_each(|note| adopt(pager, note.address, note.is_done, &[]));
    if faults_are_ours {
        MAILBOX.allow_moves();
    }
}

/// A page was brought in at `address` while the state was at rest: it is in memory, if it still
/// is after the messages that followed. `is_done`: it certainly was. Then, if it is missing, the
/// program has dropped it: the message of a drop may have been read before the rest, and the drop
/// come after the page.
pub(crate) fn adopt(pager: &mut Pager, address: usize, is_done: bool, behind: &[Message]) {
    let now = behind.iter().fold(address, |address, message| match message.event() {
        Some(Event::Remap { from, to, length }) if (from..from + length).contains(&address) => {
            address - from + to
        }
        _ => address,
    });
    let mut found = [NOTHING];
    let is_here = pager.program.pagemap.present(now, now + PAGE_BYTES, &mut found);
    if !is_here.is_ok_and(|(count, _)| count > 0) {
        if is_done {
            drop_contents(pager, address, address + PAGE_BYTES);
        }
        return;
    }
    let page = pager.memory.pages.find_or_insert(address);
    match pager.memory.pages.state(page) {
        State::Stored(slot) => pager.disk.store.free(slot),
        State::Pooled(entry) => pager.disk.forget_entry(entry),
        State::Absent | State::Guarded => {}
        _ => return,
    }
    // Room is made for it when everything is known.
    pager.memory.pages.set(page, State::RESIDENT);
    arrive(pager, page);
}

/// Whether the last of these messages is a fault that is among them before, of a thread other than
/// the one that forks.
fn is_repeated(messages: &[Message], forking: u32) -> bool {
    let fault = |message: &Message| match message.event() {
        Some(Event::Fault { address }) => Some((page_start(address), message.thread())),
        _ => None,
    };
    let Some((last, before)) = messages.split_last() else { return false };
    let last = fault(last).filter(|&(_, thread)| thread != forking);
    last.is_some() && before.iter().any(|message| fault(message) == last)
}

/// How many of these messages are about mappings that moved.
pub(crate) fn moves(messages: &[Message]) -> usize {
    messages.iter().filter(|message| matches!(message.event(), Some(Event::Remap { .. }))).count()
}

/// Where what belongs to an address was before some changes; `None` if it is new since, or was
/// dropped.
fn origin<'a>(
    address: usize,
    changes: impl IntoIterator<Item = &'a Message, IntoIter: DoubleEndedIterator>,
) -> Option<usize> {
    changes.into_iter().rev().try_fold(address, |address, message| match message.event() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::faults;
    use crate::testing::{at, message, pager};

    fn remap(from: usize, to: usize) -> Message {
        message(Event::Remap { from: at(from), to: at(to), length: PAGE_BYTES }, 0)
    }

    #[test]
    fn an_address_is_followed_back_through_changes() {
        let remove = message(Event::Remove { start: at(5), end: at(6) }, 0);
        assert_eq!(origin(at(1), &[remap(0, 1)]), Some(at(0)));
        assert_eq!(origin(at(2), &[remap(0, 1), remap(1, 2)]), Some(at(0)));
        assert_eq!(origin(at(0), &[remap(0, 1)]), None, "what is there now is new");
        assert_eq!(origin(at(5), &[remove]), None);
        assert_eq!(origin(at(5), &[remove, remap(4, 5)]), Some(at(4)));
        assert_eq!(origin(at(6), &[remove, remap(5, 6)]), None, "dropped, and then moved");
        assert_eq!(moves(&[remove, remap(5, 6), remap(6, 7)]), 2);
    }

    /// The message of the drop had been read before.
    #[test]
    fn what_was_brought_in_and_is_missing_has_been_dropped() {
        let (mut pager, _) = pager();
        let mut slots = Vec::new();
        pager.disk.store.allocate(1, &mut slots);
        let page = pager.memory.pages.find_or_insert(at(3));
        pager.memory.pages.set(page, State::Stored(slots[0]));
        adopt(&mut pager, at(3), false, &[]);
        assert_eq!(pager.memory.pages.state_at(at(3)), State::Stored(slots[0]), "it never came");
        adopt(&mut pager, at(3), true, &[]);
        assert_eq!(pager.memory.pages.state_at(at(3)), State::Absent);
        let note = |page, is_done| Note { messages: 0, address: at(page), is_done };
        let notes = [note(1, true), note(2, false)];
        assert_eq!([1, 2, 3].map(|page| Note::is_among(&notes, at(page))), [true, false, false]);
    }

    #[test]
    fn repeated_fault_of_a_waiting_thread_is_kept_once() {
        let fault = |page, thread| message(Event::Fault { address: at(page) + 8 }, thread);
        assert!(is_repeated(&[fault(1, 7), fault(2, 7), fault(1, 7)], 9));
        assert!(!is_repeated(&[fault(1, 7), fault(1, 8)], 9));
        assert!(!is_repeated(&[fault(1, 9), fault(1, 9)], 9), "the thread that forks is answered");
        assert!(!is_repeated(&[fault(1, 7), remap(1, 2)], 9));
    }

    #[test]
    fn at_rest_nothing_is_under_way_and_later_messages_are_made_up_for() {
        let (mut pager, _) = pager();
        (0..30).for_each(|number| faults::answer(&mut pager, at(number)));
        pager.program.messages.push_back(message(Event::Unmap { start: at(1), end: at(2) }, 0));
        // No pages have been evicted, so the store needs no new file.
        come_to_rest(&mut pager);
        assert!(!pager.disk.staging.has_requests() && pager.program.messages.is_empty());
        let fault = message(Event::Fault { address: at(0) }, 3);
        let program = &mut pager.program;
        program.deferred[1] = fault;
        program.deferred[2] = message(Event::Unmap { start: at(2), end: at(3) }, 0);
        make_up(&mut pager, true);
        let state = |page| pager.memory.pages.state_at(at(page));
        assert_eq!([0, 1, 2].map(state), [State::RESIDENT, State::Absent, State::Absent]);
        let left: Vec<_> = pager.program.messages.iter().map(Message::event).collect();
        assert_eq!(left, [fault.event()]);
    }
}
