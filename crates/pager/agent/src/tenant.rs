//! The agent's side when several programs share one limit: the command has the policy and lends
//! frames.
//!
//! To the rest of the agent a [`Tenant`] is a policy. It passes reports on to the command, and
//! names the victims that the command has named. `lease` describes the messages and
//! the reasons for them.
//!
//! While an agent waits for frames, or its task is stopped, it only carries out the command's
//! orders. A task is suspended by leaving its faults unanswered, so its pages can still be taken.

use crate::agent::{Agent, filled};
use crate::bits::Bits;
use crate::control::Control;
use crate::failure::{give_up, orphaned};
use crate::lease::{
    BOARD_BYTES, Board, FIRST_FRAMES, HELLO, HELLO_WORDS, MESSAGE_WORDS, MOST_PAGES, Order, Report,
};
use crate::live::LivePolicy;
use crate::mailbox::MAILBOX;
use crate::own;
use crate::pages::{Flag, State};
use crate::staging::Phase;
use crate::wait::poll;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem::{self, MaybeUninit};
use core::sync::atomic::Ordering;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, IoSlice};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, send, sendmsg, socket_with, socketpair, sockopt,
};
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use sweephand_policy::{PageId, Reference};
use sweephand_uffd::PAGE_BYTES;

/// Reports that are not sent before more have come, unless something has to be asked.
const PATIENT_WORDS: usize = 128;
/// Fewest frames asked for beside those that are needed at once.
const LEAST_SPARE: usize = 4;

/// A process that lives on frames lent by the command.
#[derive(Debug)]
pub struct Tenant {
    socket: OwnedFd,
    /// Bits of pages, for both sides to see.
    pub(crate) board: &'static Board,
    /// Frames lent and not given back.
    granted: usize,
    /// What has not been sent yet.
    outbox: Vec<u32>,
    /// Pages that have to go.
    victims: VecDeque<PageId>,
    /// Whether a question waits for its answer.
    asked: bool,
    /// Whether the task is not active.
    is_suspended: bool,
    /// For messages that are read.
    inbox: Vec<u32>,
}

impl Tenant {
    /// Calls the command. The process has `granted` frames already.
    pub(crate) fn connect(control: &Control, granted: usize) -> Self {
        Self::begin(control, granted, knock(control))
    }

    /// Introduces the process to the command at the other end of a socket.
    fn begin(control: &Control, granted: usize, socket: Result<OwnedFd, Errno>) -> Self {
        let made = socket.and_then(|socket| {
            let board = introduce(&socket, control, granted)?;
            Ok((socket, board))
        });
        let (socket, board) = made.unwrap_or_else(|error| {
            give_up(format_args!("sweephand run cannot be asked for memory: {error}"))
        });
        Self {
            socket,
            board,
            granted,
            outbox: Vec::with_capacity(MESSAGE_WORDS),
            victims: VecDeque::new(),
            asked: false,
            is_suspended: false,
            inbox: filled(0, MESSAGE_WORDS),
        }
    }

    /// In a child, whose copy of the parent's lease is worth nothing: calls for itself, and waits
    /// until the command has made room in the cgroup. The child has pages without having asked for
    /// them.
    fn reconnect(&mut self, control: &Control, granted: usize, socket: OwnedFd) {
        // The old socket's number is one of the parent's table, and must not be closed here.
        mem::forget(mem::replace(self, Self::begin(control, granted, Ok(socket))).socket);
        let mut admitted = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        while let Err(error) = poll(&mut admitted, None) {
            if !matches!(error, Errno::INTR | Errno::AGAIN) {
                give_up(format_args!("the pager cannot wait for memory: {error}"));
            }
        }
    }

    /// Asks the command to hear another process, which is about to be forked. The child's end.
    fn announce(&mut self) -> Result<OwnedFd, Errno> {
        self.flush();
        let (theirs, childs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // So that the kernel says who speaks, whoever made the socket.
        sockopt::set_socket_passcred(&theirs, true)?;
        send_file(&self.socket, &[Report::Fork.word(0)], theirs.as_fd())?;
        Ok(childs)
    }

    /// What becomes readable when the command has an order.
    pub(crate) fn orders(&mut self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn tell(&mut self, word: u32) {
        if self.outbox.len() >= MESSAGE_WORDS {
            self.flush();
        }
        self.outbox.push(word);
    }

    /// Sends what is to be told.
    fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        loop {
            match send(&self.socket, words_as_bytes(&self.outbox), SendFlags::NOSIGNAL) {
                Ok(_) => break self.outbox.clear(),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS | Errno::NOMEM) => rustix::thread::sched_yield(),
                Err(_) => orphaned(),
            }
        }
    }

    /// The next message, if there is one. It is given back with [`Tenant::inbox`].
    fn receive(&mut self) -> Option<Vec<u32>> {
        let mut inbox = mem::take(&mut self.inbox);
        inbox.resize(MESSAGE_WORDS, 0);
        loop {
            match recv(&self.socket, words_as_bytes_mut(&mut inbox), RecvFlags::DONTWAIT) {
                Ok((0, _)) => orphaned(),
                Ok((bytes, _)) => {
                    inbox.truncate(bytes / size_of::<u32>());
                    return Some(inbox);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => orphaned(),
            }
        }
        self.inbox = inbox;
        None
    }
}

/// Calls at the command's door.
fn knock(control: &Control) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let door = control.order.lender.as_c_str().ok_or(Errno::NAMETOOLONG)?;
    connect(&socket, &SocketAddrUnix::new(door)?)?;
    // Only root or this user can have put a socket there; but it costs nothing to look.
    let command = sockopt::socket_peercred(&socket)?.uid;
    if !command.is_root() && command != geteuid() {
        return Err(Errno::PERM);
    }
    Ok(socket)
}

/// Says who this is, and sends a board.
fn introduce(socket: &OwnedFd, control: &Control, granted: usize) -> Result<&'static Board, Errno> {
    let file = memfd_create(c"sweephand-board", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, BOARD_BYTES as u64)?;
    // Whoever has mapped a file that is made shorter is ended by a signal: the command takes none
    // that can be.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which stays.
    let board =
        unsafe { mmap(own::shared_place(BOARD_BYTES), BOARD_BYTES, protection, MapFlags::SHARED, &file, 0) }?;
    // A child gets a board of its own.
    // SAFETY: advice on our own mapping.
    unsafe { madvise(board, BOARD_BYTES, Advice::LinuxDontFork) }?;
    let order = &control.order;
    let mut hello = [0; HELLO_WORDS];
    hello[..3].copy_from_slice(&[HELLO, order.task, granted as u32]);
    hello[3..].copy_from_slice(&order.secret);
    send_file(socket, &hello, file.as_fd())?;
    // SAFETY: zeros are a board, whose parts are atomic.
    Ok(unsafe { &*board.cast::<Board>() })
}

/// Sends words, and a file with them.
pub(crate) fn send_file(socket: &OwnedFd, words: &[u32], file: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(words_as_bytes(words))], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

fn words_as_bytes(words: &[u32]) -> &[u8] {
    // SAFETY: plain data.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn words_as_bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: plain data, of which any bytes are a value.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

impl LivePolicy for Tenant {
    fn fault(&mut self, reference: Reference) {
        self.tell(Report::Fault.word(reference.page.index()));
    }

    /// They are named by orders.
    fn victim(&mut self, _: &mut Bits) -> Option<PageId> {
        None
    }

    fn evict(&mut self, _: PageId) {}

    /// The policy's answer would come too late: the page counts as referenced, until the command
    /// clears the bit.
    fn insert(&mut self, reference: Reference, _: &mut Bits) -> bool {
        if reference.page.index() >= MOST_PAGES {
            give_up(format_args!("a program among others can have {} GiB of addresses", MOST_PAGES >> 18));
        }
        self.tell(Report::Insert.word(reference.page.index()));
        true
    }

    fn remove(&mut self, page: PageId) {
        self.tell(Report::Remove.word(page.index()));
    }

    fn hand_steps(&self) -> u64 {
        0
    }

    fn granted(&self) -> Option<usize> {
        Some(self.granted)
    }

    fn tenant(&mut self) -> Option<&mut Tenant> {
        Some(self)
    }
}

impl Agent {
    fn tenant(&mut self) -> &mut Tenant {
        self.policy.tenant().expect("memory is lent")
    }

    /// Frames that this process takes, with so many pages more.
    fn frames_needed(&self, pages: usize) -> usize {
        self.pages.resident() + self.incoming + self.frames_apart() + pages
    }

    /// Frames that are not for managed pages.
    fn frames_apart(&self) -> usize {
        self.own_pages() + if self.managed { 0 } else { FIRST_FRAMES }
    }

    /// What `make_room` is where memory is lent: asks for frames, and gives back those that are too
    /// many.
    pub(crate) fn borrow_room(&mut self, pages: usize) {
        let batch = self.staging.batch_pages();
        loop {
            let (needed, apart) = (self.frames_needed(pages), self.frames_apart());
            let tenant = self.tenant();
            if !tenant.asked {
                let spare = (tenant.granted / 32).clamp(LEAST_SPARE, batch);
                if needed <= tenant.granted {
                    let idle = tenant.granted - needed;
                    // Between faults only: what is being taken under management is yet to be
                    // counted page by page.
                    if pages == 0 && idle > 2 * batch {
                        tenant.granted -= idle - spare;
                        tenant.tell(Report::Give.word(idle - spare));
                        tenant.flush();
                    }
                    return;
                }
                tenant.asked = true;
                tenant.tell(Report::Own.word(apart));
                tenant.tell(Report::Ask.word(needed - tenant.granted + spare));
                tenant.flush();
            }
            self.wait_for_orders();
        }
    }

    /// Does what the command orders, and goes no further while the task is not active.
    pub(crate) fn heed(&mut self) {
        if self.policy.tenant().is_none() {
            return;
        }
        self.follow();
        while self.tenant().is_suspended {
            self.wait_for_orders();
        }
    }

    /// Lets the command know how things are. What it is told matters when it next looks for a
    /// victim, and need not be sent at once.
    pub(crate) fn report(&mut self, at_once: bool) {
        let reading = self.staging.batches.iter().filter(|batch| batch.phase == Phase::Reading).count();
        let Some(tenant) = self.policy.tenant() else { return };
        tenant.board.reading.store(reading as u32, Ordering::Relaxed);
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let time_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        tenant.board.agent_ns.store(time_ns, Ordering::Relaxed);
        if at_once || tenant.outbox.len() >= PATIENT_WORDS {
            tenant.flush();
        }
    }

    /// Waits until the command has ordered something; reads and writes go on meanwhile.
    fn wait_for_orders(&mut self) {
        self.io.submit();
        self.report(true);
        let socket = self.policy.tenant().expect("memory is lent").socket.as_fd();
        let ring = self.io.descriptor().map(AsFd::as_fd);
        let count = 1 + usize::from(ring.is_some());
        let mut descriptors =
            [socket, ring.unwrap_or(socket)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut descriptors[..count], None) {
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => give_up(format_args!("the pager cannot wait for memory: {error}")),
        }
        self.follow();
        self.reap(false);
    }

    /// Does what the command has ordered so far.
    fn follow(&mut self) {
        while let Some(message) = self.tenant().receive() {
            let mut watched = Vec::new();
            for &word in &message {
                let Some((order, operand)) = Order::parse(word) else {
                    give_up(format_args!("sweephand run is of another version"))
                };
                match order {
                    Order::Grant => self.tenant().granted += operand as usize,
                    Order::Evict if operand < self.pages.ids() => {
                        self.tenant().victims.push_back(PageId(operand));
                    }
                    Order::Give => self.give(operand as usize),
                    Order::Watch if operand < self.pages.ids() => watched.push(PageId(operand)),
                    // Ids are never taken back, so this cannot be.
                    Order::Evict | Order::Watch => {}
                    // Whoever had to wait for it has.
                    Order::Admitted => {}
                    Order::Suspend => self.tenant().is_suspended = true,
                    Order::Resume => self.tenant().is_suspended = false,
                    Order::Freeze => self.freeze(),
                    Order::Answered => {
                        self.evict_named();
                        self.tenant().asked = false;
                    }
                    Order::Refuse => give_up(format_args!(
                        "the memory that the tasks share is too small: no page can be taken from them any more"
                    )),
                }
            }
            self.evict_named();
            self.unmap_pages(watched);
            self.tenant().inbox = message;
        }
    }

    /// Evicts what the command has named.
    fn evict_named(&mut self) {
        while let Some(page) = self.tenant().victims.pop_front() {
            self.tenant().tell(Report::Evicted.word(page.index()));
            let is_here = matches!(self.pages.state(page), State::Resident | State::Limbo);
            if is_here && !self.pages.mark(page, Flag::Condemned, true) {
                self.condemned.push(page);
            }
            self.evict_batch();
        }
        while !self.condemned.is_empty() {
            self.evict();
        }
    }

    /// Gives frames to others: those of the pages just evicted, or others that are idle.
    fn give(&mut self, frames: usize) {
        self.evict_named();
        let needed = self.frames_needed(0);
        let tenant = self.tenant();
        let given = frames.min(tenant.granted.saturating_sub(needed));
        tenant.granted -= given;
        tenant.tell(Report::Give.word(given));
        tenant.tell(Report::Done.word(frames));
        tenant.flush();
    }

    /// Unmaps pages, so that their next touch is seen.
    fn unmap_pages(&mut self, mut pages: Vec<PageId>) {
        if pages.is_empty() {
            return;
        }
        self.block_moves();
        pages.sort_unstable();
        let mut rest = pages.as_slice();
        while let Some(&first) = rest.first() {
            let address = self.pages.address(first);
            let follows = |index: &usize| {
                rest[*index].0 == first.0 + *index as u32
                    && self.pages.address(rest[*index]) == address + index * PAGE_BYTES
            };
            let end = (1..rest.len()).find(|index| !follows(index)).unwrap_or(rest.len());
            let (run, behind) = rest.split_at(end);
            self.unmap(run);
            rest = behind;
        }
        MAILBOX.allow_moves();
    }

    /// Unmaps all pages: whoever goes on faults, and waits.
    fn freeze(&mut self) {
        if !self.managed {
            self.manage_all();
        }
        let mapped = (0..self.pages.ids()).map(PageId);
        let mapped: Vec<PageId> = mapped.filter(|&page| self.pages.state(page) == State::Resident).collect();
        self.unmap_pages(mapped);
    }

    /// A process is about to be forked: the socket of its lease, if memory is lent.
    pub(crate) fn announce_child(&mut self) -> Option<Result<OwnedFd, Errno>> {
        self.policy.tenant().map(Tenant::announce)
    }

    /// In a child: a lease of its own, over as many frames as it has. Its parent waits for that:
    /// what either writes to, the two do not share any more.
    pub(crate) fn renew_lease(&mut self, socket: OwnedFd) {
        let (granted, control) = (self.frames_needed(0), self.control);
        let Some(tenant) = self.policy.tenant() else { return };
        tenant.reconnect(control, granted, socket);
        self.pages.board = Some(tenant.board);
    }

    /// In a child with a lease of its own: the command is told of its pages.
    pub(crate) fn tell_pages(&mut self) {
        if self.policy.tenant().is_none() {
            return;
        }
        for page in (0..self.pages.ids()).map(PageId) {
            if matches!(self.pages.state(page), State::Resident | State::Limbo) {
                self.insert(page);
                self.pages.mark(page, Flag::Referenced, true);
            }
        }
    }
}
