//! How the agent hears of the program: the kernel's messages, and the calls of the program's
//! threads.

use crate::control::Order;
use crate::kernel::syscall::advise;
use crate::kernel::{
    self, EVENT_FORK, EVENT_REMAP, EVENT_REMOVE, EVENT_UNMAP, Event, MOVE, Message, OpenError, PAGE_BYTES,
    THREAD, TRACKED, Userfaultfd,
};
use crate::mailbox::{MAILBOX, SLOTS};
use crate::process::failure::abort;
use crate::process::moves::Mover;
use crate::process::outlive::Sharers;
use crate::process::own;
use crate::process::pagemap::Pagemap;
use crate::process::rlimits::{self, Raised};
use crate::store::staging::Staging;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linux_raw_sys::general::MADV_DONTNEED;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Messages read at a time.
const MESSAGES: usize = 64;

/// Features that the userfaultfd of the program's memory needs.
pub(crate) const FEATURES: u64 = EVENT_FORK | EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP | MOVE | THREAD;

/// Where threads of the program wait for the agent's answers.
#[derive(Debug)]
struct Doorbells {
    start: usize,
    /// Those that have a page, one bit each.
    with_page: u64,
}

/// A fork that has been announced.
#[derive(Debug)]
pub(crate) struct Forking {
    /// The agent's end of the child's socket.
    pub(crate) socket: OwnedFd,
    /// The thread that forks.
    pub(crate) thread: u32,
}

/// A page was brought in, or is about to be, while the agent's state was at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The number of messages before it.
    pub(crate) messages: usize,
    /// The page's address.
    pub(crate) address: usize,
    /// Whether it has been brought in.
    pub(crate) is_done: bool,
}

impl Note {
    /// Whether one of some notes says that a page was brought in. If it is missing all the same, it
    /// has been dropped since, and what is kept of it is old.
    pub(crate) fn is_among(notes: &[Self], address: usize) -> bool {
        notes.iter().any(|note| note.is_done && note.address == address)
    }
}

/// The program, as the agent hears of it.
pub(crate) struct Program {
    /// The userfaultfd of the program's memory, with events.
    pub(crate) uffd: Userfaultfd,
    /// Whether it can protect the pages that are registered, so that the kernel tells which of them
    /// are used. [`Userfaultfd::protect`] does that.
    pub(crate) tracks: bool,
    /// The userfaultfd of the pager's own areas and the doorbells. It reports forks and no other
    /// events.
    pub(crate) staging_uffd: Userfaultfd,
    /// The command that started the program. `None` when it has ended and the program's other
    /// processes go on by themselves.
    pub(crate) supervisor: Option<OwnedFd>,
    /// Which pages are present.
    pub(crate) pagemap: Pagemap,
    /// Messages that are read but not handled yet.
    pub(crate) messages: VecDeque<Message>,
    /// Descriptors of children whose fork was not announced. Such a child must wait at a missing
    /// page instead of reading zeros.
    pub(crate) orphans: Vec<Userfaultfd>,
    /// Processes that share the program's memory, if the agent has a process of its own.
    pub(crate) sharers: Sharers,
    /// The fork that is under way, if any.
    pub(crate) forking: Option<Forking>,
    /// Messages that arrived during a fork.
    pub(crate) deferred: Vec<Message>,
    /// What the agent did during a fork and has to repeat in the child.
    pub(crate) notes: Vec<Note>,
    doorbells: Doorbells,
    /// A page that is registered with `uffd` from the beginning and never touched. Because of it,
    /// the kernel makes a userfaultfd for each child, which might not be allowed to make its own.
    anchor: usize,
}

impl Program {
    /// Opens what the agent hears with.
    pub(crate) fn open(order: &Order, supervisor: Option<OwnedFd>) -> Self {
        // Most kernels refuse features that they do not know.
        let tracking = (order.may_track != 0).then(|| Userfaultfd::open(FEATURES | TRACKED).ok()).flatten();
        let area = |bytes| own::map(bytes).unwrap_or_else(|| own::no_room("doorbells"));
        Self {
            tracks: tracking.is_some(),
            uffd: tracking.unwrap_or_else(|| open_uffd(FEATURES)),
            staging_uffd: open_uffd(MOVE | EVENT_FORK),
            supervisor,
            pagemap: Pagemap::open(),
            messages: VecDeque::with_capacity(2 * MESSAGES),
            orphans: Vec::new(),
            sharers: Sharers::default(),
            forking: None,
            deferred: Vec::new(),
            notes: Vec::new(),
            doorbells: Doorbells { start: area(SLOTS * PAGE_BYTES), with_page: 0 },
            anchor: area(PAGE_BYTES),
        }
    }

    /// A program of which nothing is heard, for tests.
    #[cfg(test)]
    pub(crate) fn deaf(open: impl Fn() -> Userfaultfd) -> Self {
        Self {
            tracks: false,
            uffd: open(),
            staging_uffd: open(),
            supervisor: None,
            pagemap: Pagemap::open(),
            messages: VecDeque::new(),
            orphans: Vec::new(),
            sharers: Sharers::default(),
            forking: None,
            deferred: Vec::new(),
            notes: Vec::new(),
            doorbells: Doorbells { start: 0x1000, with_page: 0 },
            anchor: 0,
        }
    }

    /// Makes missing pages of a range of the program's memory come through the agent.
    pub(crate) fn register(&self, start: usize, length: usize) -> Result<(), Errno> {
        match self.tracks {
            true => self.uffd.register_tracked(start, length),
            false => self.uffd.register(start, length),
        }
    }

    /// Moves pages to the program's memory.
    pub(crate) fn mover(&self) -> Mover<'_> {
        Mover { uffd: &self.uffd, pagemap: &self.pagemap }
    }

    /// Moves pages to the pager's own areas.
    pub(crate) fn staging_mover(&self) -> Mover<'_> {
        Mover { uffd: &self.staging_uffd, pagemap: &self.pagemap }
    }

    /// Registers the pager's own areas with userfaultfds that do not know them yet.
    pub(crate) fn register_own(&self, staging: &Staging) {
        let own = staging.register(&self.staging_uffd);
        let bells = self.staging_uffd.register(self.doorbells.start, SLOTS * PAGE_BYTES);
        let anchor = self.uffd.register(self.anchor, PAGE_BYTES);
        if let Err(error) = own.and(bells).and(anchor) {
            abort(format_args!("the pager's own memory cannot be registered: {error}"));
        }
    }

    /// Reads the kernel's messages. Ends with the first read that does not fill the buffer: the
    /// threads that wait for an answer send no further messages, so their number is a bound.
    pub(crate) fn read_messages(&mut self) {
        let mut buffer = [Message::EMPTY; MESSAGES];
        loop {
            let count = read(&self.uffd, &mut buffer, "faults");
            self.messages.extend(&buffer[..count]);
            if count < MESSAGES {
                return;
            }
        }
    }

    /// Gives changes to the address space the time to finish. Copies and moves have to wait for
    /// them. The caller applies the changes before it puts anything into the program's memory.
    pub(crate) fn settle(&mut self) {
        self.read_messages();
        kernel::sched_yield();
    }

    /// Reads until no change is under way. Ends because the kernel finishes a change once it has
    /// been read.
    pub(crate) fn settle_all(&mut self) {
        while self.uffd.is_changing() {
            self.settle();
        }
        self.read_messages();
    }

    /// Whether there are changes that have been read and not applied. While there are, nothing may
    /// be put into the program's memory: see `changes`.
    pub(crate) fn has_changes(&self) -> bool {
        self.messages.iter().any(is_change)
    }

    /// Takes the changes out of the messages, in their order.
    pub(crate) fn take_changes(&mut self) -> VecDeque<Message> {
        let (changes, faults) = self.messages.drain(..).partition(is_change);
        self.messages = faults;
        changes
    }

    /// Lets the threads that wait for a page go on. If the page is still missing, they fault again.
    pub(crate) fn wake(&self, address: usize) {
        let _ = self.uffd.wake(address, PAGE_BYTES);
    }

    /// The address of the doorbells.
    pub(crate) fn doorbells(&self) -> usize {
        self.doorbells.start
    }

    /// Reads the faults at doorbells. Returns the slots, a bit each, and the child's copy of
    /// `staging_uffd` if there was a fork. Ends like [`Self::read_messages`].
    pub(crate) fn read_bells(&self) -> (u64, Option<Userfaultfd>) {
        let (mut slots, mut child) = (0, None);
        loop {
            let mut buffer = [Message::EMPTY; SLOTS];
            let count = read(&self.staging_uffd, &mut buffer, "calls");
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
        let slot = address.checked_sub(self.doorbells.start).map(|offset| offset / PAGE_BYTES);
        match slot {
            Some(slot) if slot < SLOTS => Some(slot),
            _ => abort(format_args!("the pager has touched a page of its own that is missing")),
        }
    }

    /// Lets the threads go on that wait at a doorbell. `zeros` is a page of zeros. Ends: the kernel
    /// lacks memory for as long as `Retry` says at most. (A thread that is not there yet would wait
    /// at a doorbell without a page. During a fork, nobody would come to it.)
    pub(crate) fn put_bell(&mut self, slot: usize, zeros: usize) {
        let bell = self.doorbells.start + slot * PAGE_BYTES;
        let mut retry = own::Retry::new();
        loop {
            // SAFETY: this copies zeros to a doorbell. No code relies on a doorbell being missing.
            match unsafe { self.staging_uffd.copy(bell, zeros, PAGE_BYTES) }.error {
                None => break,
                Some(Errno::NOMEM) if retry.wait() => {}
                Some(_) => {
                    // The doorbell has a page already, but the threads have not seen it yet.
                    let _ = self.staging_uffd.wake(bell, PAGE_BYTES);
                    break;
                }
            }
        }
        self.doorbells.with_page |= 1 << slot;
    }

    /// In a child, removes the doorbells' pages. They are copies of the parent's.
    pub(crate) fn drop_bells(&mut self) {
        // SAFETY: these are the doorbells, and no thread of this process waits there.
        let _ = unsafe { advise(self.doorbells.start, SLOTS * PAGE_BYTES, MADV_DONTNEED) };
        self.doorbells.with_page = 0;
    }

    /// Removes the pages of the doorbells whose threads have gone on.
    pub(crate) fn clear_bells(&mut self) {
        for slot in 0..SLOTS {
            if self.doorbells.with_page >> slot & 1 == 0 || !MAILBOX.is_at_rest(slot) {
                continue;
            }
            // SAFETY: this is a doorbell. A thread that reads it finds it missing and gets an
            // answer.
            let _ = unsafe { advise(self.doorbells.start + slot * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED) };
            self.doorbells.with_page &= !(1 << slot);
            MAILBOX.free(slot);
        }
    }
}

/// Reads messages, although each message about a fork needs a descriptor.
pub(crate) fn read(uffd: &Userfaultfd, buffer: &mut [Message], what: &str) -> usize {
    let read = match uffd.read(buffer) {
        Err(Errno::MFILE) => rlimits::without(Raised::Descriptors, || uffd.read(buffer)),
        read => read,
    };
    read.unwrap_or_else(|error| abort(format_args!("{what} cannot be read: {error}")))
}

/// Whether a message is about a change of the address space.
fn is_change(message: &Message) -> bool {
    !matches!(message.event(), Some(Event::Fault { .. }) | None)
}

fn open_uffd(features: u64) -> Userfaultfd {
    match Userfaultfd::open(features) {
        Ok(uffd) => uffd,
        Err(OpenError::NotPermitted) => abort(format_args!(
            "userfaultfd is not allowed here: run as root, or allow it to all: sudo sysctl -w \
             vm.unprivileged_userfaultfd=1"
        )),
        Err(OpenError::NotSupported) => {
            abort(format_args!("this kernel cannot move pages for user space: Linux 6.8 or later is needed"))
        }
        Err(OpenError::Other(error)) => abort(format_args!("userfaultfd cannot be opened: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, message, pager};

    #[test]
    fn changes_go_ahead_of_faults_and_keep_their_order() {
        let (mut pager, _) = pager();
        let program = &mut pager.program;
        let fault = |page| message(Event::Fault { address: at(page) }, 7);
        let remove = |page| message(Event::Remove { start: at(page), end: at(page + 1) }, 0);
        program.messages.extend([fault(0), remove(1), fault(2), remove(3)]);
        assert!(program.has_changes());
        let changes: Vec<_> = program.take_changes().iter().map(Message::event).collect();
        assert_eq!(changes, [remove(1).event(), remove(3).event()]);
        assert!(!program.has_changes());
        let faults: Vec<_> = program.messages.iter().map(Message::event).collect();
        assert_eq!(faults, [fault(0).event(), fault(2).event()]);
        assert_eq!(program.messages[0].thread(), 7);
    }

    #[test]
    fn a_fault_at_a_doorbell_is_its_slot() {
        let (pager, _) = pager();
        let address = pager.program.doorbells() + 5 * PAGE_BYTES + 8;
        assert_eq!(pager.program.slot_of(&message(Event::Fault { address }, 0)), Some(5));
        assert_eq!(pager.program.slot_of(&message(Event::Fork { descriptor: 3 }, 0)), None);
    }
}
