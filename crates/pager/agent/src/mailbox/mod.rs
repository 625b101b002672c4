//! How the program's threads call the agent: a thread touches a page that is missing.
//!
//! A thread writes its request into a slot and reads the slot's doorbell, a page that is missing.
//! The fault wakes the agent. The agent carries out the request, writes the answer and puts a page
//! there, which lets the thread go on. This needs no signal and no descriptor that the program
//! could close. The program's threads and the agent share this block. Everything else of the agent
//! is its own.
//!
//! ```text
//!          thread          thread           agent             thread           agent: drops the page
//!   Free ---------> Taken ---------> Posted ---------> Answered ---------> Done ---------> Free
//!     ^                                                   |                 |
//!     +--- next call, if no slot is free: Taken <---------+-----------------+
//! ```
//!
//! The request is in the slot, not in the fault: a fault says only that some thread waits. So
//! several faults for one call do no harm (a signal, a stop or a debugger interrupts the wait, and
//! the thread faults again). No fault at all does no harm either (the agent has seen the slot
//! first).
//!
//! Signal handlers wait while their thread is here. A handler could call the agent as well, or jump
//! out and never come back. A thread can still be lost: the process of a `vfork` is killed, or the
//! program's own filter of system calls prevents the pager from blocking signals. So when no slot
//! is free, a thread takes one whose call has been answered, even if the caller has not seen the
//! answer. A sequence number in the state tells the caller, when it comes back, that its call is
//! over.
//!
//! | file | what it holds |
//! |---|---|
//! | `model` | what threads do to each other here, in every order |
//! | `empty` | memory that can be dropped without the agent |
//! | `atomic` | the atomics: the processor's, or in models those of `loom` |

mod atomic;
pub(crate) mod empty;

use crate::kernel::syscall::advise;
use crate::kernel::thread;
use crate::kernel::{self, PAGE_BYTES};
use crate::mailbox::atomic::{
    AtomicBool, AtomicI64, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, IS_MODELLED, Ordering,
};
use crate::mailbox::empty::EmptyRanges;
use core::hint::spin_loop;
use linux_raw_sys::general::MADV_DONTNEED;
use sweephand_pager_interface::numbered;
use sweephand_pager_interface::recording::LEAST_OBJECT_BYTES;

/// The most calls at a time. The last slot is reserved for the thread that forks, because all
/// others wait for that thread.
pub const SLOTS: usize = if IS_MODELLED { 2 } else { 64 };
/// The slot of the thread that forks.
const FORKERS: usize = SLOTS - 1;
/// The most threads that may move mappings at a time.
const MOVERS: usize = if IS_MODELLED { 2 } else { 32 };

numbered! {
    /// Requests that a thread may make.
    pub enum Call {
        /// The program has more writable memory: address, bytes, 1 if it is a new mapping, so that
        /// what was there before is gone.
        Grown = 1,
        /// A thread's stack: the page at its end. It contains the thread's descriptor and must stay
        /// in memory.
        Stack = 2,
        /// The thread is about to fork: the agent's end of a socket for the child.
        BeforeFork = 3,
        /// The thread has forked, or the fork has failed.
        AfterFork = 4,
        /// Children do not inherit this memory, or inherit it wiped: address, bytes.
        NotInherited = 5,
        /// Children inherit this memory again: address, bytes.
        Inherited = 6,
        /// There is a new object: address, bytes.
        Object = 7,
        /// An object has another size: address, new size in bytes.
        Resized = 8,
        /// The caller is about to move a mapping to a place that it has reserved. The agent must
        /// first know everything that other threads have unmapped or moved.
        CatchUp = 9,
        /// The program has changed its rights.
        Credentials = 10,
        /// The program is about to limit its address space to this many bytes. The answer is how
        /// many bytes of it the pager has, including what it reserves for later.
        Reserve = 11,
        /// The kernel looks at this memory when a thread has ended, so it must not be missing:
        /// address, bytes.
        KeepResident = 12,
        /// The same memory may be missing again: address, bytes.
        ReleaseResident = 13,
        /// Asks how many threads the program has. The answer is negative if the agent cannot find
        /// out.
        Threads = 14,
        /// An `madvise` about guards, with its arguments. With any other advice, the agent only
        /// checks which guards there are. The answer is that of `madvise`.
        Guard = 15,
        /// Asks for the program's mappings from an address on: see `locks`. The answer is how many
        /// there are in the list.
        Mappings = 16,
        /// The program is about to register this memory with a userfaultfd of its own: address,
        /// bytes.
        Cede = 17,
        /// The program does not handle the faults of this memory any more: address, bytes.
        Resume = 18,
        /// Brings back what is paged out of this memory: address, bytes.
        BringBack = 19,
        /// The caller is about to make a process that shares the program's memory, and may outlive
        /// this one.
        Outlive = 20,
        /// It has made it: its number.
        Sharer = 21,
    }
}

/// The most arguments of a call.
pub const ARGUMENTS: usize = 3;

impl Call {
    /// Whether the thread needs the answer. If so, its slot is reserved until it has read it.
    fn is_question(self) -> bool {
        matches!(self, Self::Guard | Self::Reserve | Self::Threads | Self::Mappings)
    }
}

/// The progress of a slot's call. The state of a slot is this phase and the number of the call,
/// which counts up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Phase {
    /// The doorbell is missing.
    Free = 0,
    /// A thread is writing its request.
    Taken = 1,
    /// The agent has to carry out the request.
    Posted = 2,
    /// The agent has answered.
    Answered = 3,
    /// The thread has read the answer. There may be a page at the doorbell.
    Done = 4,
}

const PHASE_BITS: u32 = 3;

fn phase_of(state: u64) -> Phase {
    match state & ((1 << PHASE_BITS) - 1) {
        0 => Phase::Free,
        1 => Phase::Taken,
        2 => Phase::Posted,
        3 => Phase::Answered,
        _ => Phase::Done,
    }
}

/// The same call in another phase.
fn in_phase(state: u64, phase: Phase) -> u64 {
    state >> PHASE_BITS << PHASE_BITS | phase as u64
}

/// The next call of a slot.
fn next_call(state: u64) -> u64 {
    in_phase(state.wrapping_add(1 << PHASE_BITS), Phase::Taken)
}

struct Slot {
    state: AtomicU64,
    call: AtomicU32,
    arguments: [AtomicUsize; ARGUMENTS],
    answer: AtomicIsize,
}

impl Slot {
    const fn new() -> Self {
        Self {
            state: AtomicU64::new(Phase::Free as u64),
            call: AtomicU32::new(0),
            arguments: [const { AtomicUsize::new(0) }; ARGUMENTS],
            answer: AtomicIsize::new(0),
        }
    }

    fn go(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes the slot for a call if it is free. With `by_force`, also takes a slot whose call has
    /// been answered.
    fn take(&self, by_force: bool) -> Option<u64> {
        let state = self.state.load(Ordering::Acquire);
        let may_be_taken = match phase_of(state) {
            Phase::Free => true,
            Phase::Done => by_force,
            // The call of a slot changes only together with the state.
            Phase::Answered => {
                by_force && !Call::of(self.call.load(Ordering::Acquire)).is_some_and(Call::is_question)
            }
            Phase::Taken | Phase::Posted => false,
        };
        let taken = next_call(state);
        (may_be_taken && self.go(state, taken)).then_some(taken)
    }
}

/// A call that has been made: its slot, and the slot's state until there is an answer.
#[derive(Clone, Copy, Debug)]
struct Posted {
    slot: usize,
    state: u64,
}

/// The block that the program's threads and the agent share.
pub struct Mailbox {
    /// Address of the doorbells; 0 if there is no agent.
    doorbells: AtomicUsize,
    /// Bytes of writable memory, by the hooks' reports, that the kernel serves without the agent.
    native_bytes: AtomicI64,
    /// How many such bytes there may be before a thread must ask the agent.
    allowance_bytes: AtomicI64,
    /// A bit for each slot with a call that the agent has not looked at yet.
    posted: AtomicU64,
    /// Numbers of the moves of mappings that are about to begin or under way; 0 in a free entry.
    moves: [AtomicU64; MOVERS],
    /// Number of moves begun until now.
    moved: AtomicU64,
    /// Whether the agent is taking pages away. No thread moves a mapping meanwhile.
    moves_blocked: AtomicBool,
    /// Whether the agent wants reports about objects.
    wants_objects: AtomicBool,
    /// Calls until now that may have made mappings or divided them.
    divisions: AtomicUsize,
    /// Memory that is known to be empty, while the agent sleeps.
    empty: EmptyRanges,
    slots: [Slot; SLOTS],
}

/// The mailbox of this process.
pub static MAILBOX: Mailbox = Mailbox::new();

impl Mailbox {
    const fn new() -> Self {
        Self {
            doorbells: AtomicUsize::new(0),
            native_bytes: AtomicI64::new(0),
            allowance_bytes: AtomicI64::new(0),
            posted: AtomicU64::new(0),
            moves: [const { AtomicU64::new(0) }; MOVERS],
            moved: AtomicU64::new(0),
            moves_blocked: AtomicBool::new(false),
            wants_objects: AtomicBool::new(false),
            divisions: AtomicUsize::new(0),
            empty: EmptyRanges::new(),
            slots: [const { Slot::new() }; SLOTS],
        }
    }

    /// Opens the mailbox: the agent answers at these doorbells, which are missing. No call is under
    /// way.
    pub fn open(&self, doorbells: usize) {
        self.empty.withdraw();
        self.slots.iter().for_each(|slot| slot.state.store(Phase::Free as u64, Ordering::Relaxed));
        self.posted.store(0, Ordering::Relaxed);
        self.moves.iter().for_each(|place| place.store(0, Ordering::Relaxed));
        self.moves_blocked.store(false, Ordering::Relaxed);
        self.doorbells.store(doorbells, Ordering::Release);
    }

    /// For simulations: as it was before there was an agent.
    #[cfg(test)]
    pub(crate) fn begin_anew(&self) {
        self.close();
        self.native_bytes.store(0, Ordering::Relaxed);
        self.allowance_bytes.store(0, Ordering::Relaxed);
        self.moved.store(0, Ordering::Relaxed);
        self.wants_objects.store(false, Ordering::Relaxed);
        self.divisions.store(0, Ordering::Relaxed);
    }

    /// Closes the mailbox: this process is a child and has no agent yet.
    pub fn close(&self) {
        self.doorbells.store(0, Ordering::Release);
    }

    /// Whether there is an agent.
    pub fn is_open(&self) -> bool {
        self.doorbells.load(Ordering::Acquire) != 0
    }

    /// Reports that the program has this much more writable memory, in a new mapping or not.
    pub fn grown(&self, address: usize, bytes: usize, is_new: bool) {
        let before = self.native_bytes.fetch_add(bytes as i64, Ordering::AcqRel);
        if before + bytes as i64 > self.allowance_bytes.load(Ordering::Acquire) {
            self.ask(Call::Grown, [address, bytes, usize::from(is_new)]);
        }
    }

    /// Makes a system call that moves a mapping, or puts one in place of another. The kernel
    /// reports it when it is done. If the agent took away a page in between, at the place of the
    /// mapping, it would mistake the page for what was there before.
    pub fn move_mapping<R>(&self, call: impl FnOnce() -> R) -> R {
        thread::uninterrupted(|| self.move_now(call))
    }

    fn move_now<R>(&self, call: impl FnOnce() -> R) -> R {
        let number = self.moved.fetch_add(1, Ordering::Relaxed) + 1;
        // Ends: moves end, and the agent blocks them for the time of one eviction.
        let place = loop {
            let free = |place: &&AtomicU64| {
                place.compare_exchange(0, number, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            };
            if let Some(place) = self.moves.iter().find(free) {
                if !self.moves_blocked.load(Ordering::SeqCst) {
                    break place;
                }
                place.store(0, Ordering::SeqCst);
            }
            pause();
        };
        let result = call();
        // The agent may have stopped waiting for this move, and the entry may belong to another
        // one.
        let _ = place.compare_exchange(number, 0, Ordering::SeqCst, Ordering::Relaxed);
        result
    }

    /// For the agent: if this returns true, no thread moves a mapping until `allow_moves`.
    pub fn try_block_moves(&self) -> bool {
        self.moves_blocked.store(true, Ordering::SeqCst);
        let is_still = self.moves.iter().all(|place| place.load(Ordering::SeqCst) == 0);
        if !is_still {
            self.allow_moves();
        }
        is_still
    }

    /// For the agent: stops waiting for the moves that are under way, for good. Their threads wait
    /// for the agent themselves, or a handler has jumped out of the call.
    pub fn forget_moves(&self) {
        for place in &self.moves {
            let number = place.load(Ordering::SeqCst);
            let _ = place.compare_exchange(number, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// For the agent: allows moves of mappings again.
    pub fn allow_moves(&self) {
        self.moves_blocked.store(false, Ordering::SeqCst);
    }

    /// Whether the program's memory is managed. If so, the kernel reports unmaps and moves to the
    /// agent.
    pub fn is_managed(&self) -> bool {
        self.allowance_bytes.load(Ordering::Acquire) < 0
    }

    /// Reports that the program has a new object, or that an object has another size.
    pub fn object(&self, call: Call, address: usize, bytes: usize) {
        if bytes >= LEAST_OBJECT_BYTES && self.wants_objects() {
            self.call(call, address, bytes);
        }
    }

    /// Whether the agent wants reports about objects.
    pub fn wants_objects(&self) -> bool {
        self.wants_objects.load(Ordering::Acquire)
    }

    /// Counts a call that may have made a mapping or divided one.
    pub fn may_have_divided(&self) {
        self.divisions.fetch_add(1, Ordering::Relaxed);
    }

    /// For the agent: how many such calls there have been.
    pub fn divisions(&self) -> usize {
        self.divisions.load(Ordering::Relaxed)
    }

    /// The memory that is known to be empty, which needs no call to the agent.
    pub fn empty(&self) -> &EmptyRanges {
        &self.empty
    }

    /// For the agent: asks for reports about objects.
    pub fn want_objects(&self) {
        self.wants_objects.store(true, Ordering::Release);
    }

    /// Calls the agent and waits until it has answered. Does nothing if there is no agent.
    pub fn call(&self, call: Call, first: usize, second: usize) {
        self.ask(call, [first, second, 0]);
    }

    /// Calls the agent and returns its answer; `None` if there is no agent.
    pub fn ask(&self, call: Call, arguments: [usize; ARGUMENTS]) -> Option<isize> {
        let doorbells = self.doorbells.load(Ordering::Acquire);
        if doorbells == 0 {
            return None;
        }
        Some(thread::uninterrupted(|| self.wait(doorbells, call, arguments)))
    }

    /// Ends: the agent answers every call, and ends the process if it cannot go on.
    fn wait(&self, doorbells: usize, call: Call, arguments: [usize; ARGUMENTS]) -> isize {
        let posted = self.post(doorbells, call, arguments);
        let bell = doorbells + posted.slot * PAGE_BYTES;
        let state = &self.slots[posted.slot].state;
        while state.load(Ordering::Acquire) == posted.state {
            // SAFETY: the doorbells are mapped readable. The read returns when the agent has put a
            // page there.
            unsafe { kernel::touch(bell) };
            if state.load(Ordering::Acquire) == posted.state {
                // The page is left from an earlier call.
                drop_bell(bell);
            }
        }
        self.collect(posted).unwrap_or_default()
    }

    /// Puts a call into a slot.
    fn post(&self, doorbells: usize, call: Call, arguments: [usize; ARGUMENTS]) -> Posted {
        let (first, behind) = match call {
            Call::BeforeFork | Call::AfterFork => (FORKERS, SLOTS),
            _ => (0, FORKERS),
        };
        let take = |by_force| {
            (first..behind).find_map(|index| Some((index, self.slots[index].take(by_force)?, by_force)))
        };
        // Every call is answered, so there will be a slot to take.
        let (index, taken, by_force) = loop {
            match take(false).or_else(|| take(true)) {
                Some(found) => break found,
                None => pause(),
            }
        };
        if by_force {
            drop_bell(doorbells + index * PAGE_BYTES);
        }
        let slot = &self.slots[index];
        for (place, argument) in slot.arguments.iter().zip(arguments) {
            place.store(argument, Ordering::Relaxed);
        }
        slot.call.store(call as u32, Ordering::Release);
        let state = in_phase(taken, Phase::Posted);
        slot.state.store(state, Ordering::Release);
        self.posted.fetch_or(1 << index, Ordering::AcqRel);
        Posted { slot: index, state }
    }

    /// Takes the answer of a call that is over. Returns `None` if another call has taken its slot
    /// since.
    fn collect(&self, posted: Posted) -> Option<isize> {
        let slot = &self.slots[posted.slot];
        // The answer is overwritten only after the state has changed.
        let answer = slot.answer.load(Ordering::Acquire);
        let (answered, done) = (in_phase(posted.state, Phase::Answered), in_phase(posted.state, Phase::Done));
        slot.go(answered, done).then_some(answer)
    }

    /// For the agent: whether there is a call that it has not looked at.
    pub fn is_ringing(&self) -> bool {
        self.posted.load(Ordering::Acquire) != 0
    }

    /// For the agent: takes the list of slots with calls that it has not looked at, a bit each.
    pub fn take_posted(&self) -> u64 {
        self.posted.swap(0, Ordering::AcqRel)
    }

    /// For the agent: whether the forking thread has reported that it has forked.
    pub fn is_fork_over(&self) -> bool {
        self.call_of(FORKERS).is_some_and(|(call, _)| call == Call::AfterFork)
    }

    /// For the agent: the call that waits for an answer in a slot, with its arguments.
    pub fn call_of(&self, slot: usize) -> Option<(Call, [usize; ARGUMENTS])> {
        let slot = self.slots.get(slot)?;
        if phase_of(slot.state.load(Ordering::Acquire)) != Phase::Posted {
            return None;
        }
        let call = Call::of(slot.call.load(Ordering::Relaxed))?;
        let mut arguments = [0; ARGUMENTS];
        for (argument, place) in arguments.iter_mut().zip(&slot.arguments) {
            *argument = place.load(Ordering::Relaxed);
        }
        Some((call, arguments))
    }

    /// For the agent: answers the call of a slot. Its thread goes on only afterwards.
    pub fn answer(&self, slot: usize, answer: isize) {
        let slot = &self.slots[slot];
        slot.answer.store(answer, Ordering::Relaxed);
        // No other thread changes the state of a posted call.
        let state = slot.state.load(Ordering::Relaxed);
        slot.state.store(in_phase(state, Phase::Answered), Ordering::Release);
    }

    /// For the agent: whether no thread needs a page at a slot's doorbell.
    pub fn is_at_rest(&self, slot: usize) -> bool {
        matches!(phase_of(self.slots[slot].state.load(Ordering::Acquire)), Phase::Free | Phase::Done)
    }

    /// For the agent: marks a slot as free, because its doorbell is missing again.
    pub fn free(&self, slot: usize) {
        let slot = &self.slots[slot];
        let state = slot.state.load(Ordering::Acquire);
        if phase_of(state) == Phase::Done {
            slot.go(state, in_phase(state, Phase::Free));
        }
    }

    /// For the agent: bytes that the hooks have reported.
    pub fn native_bytes(&self) -> i64 {
        self.native_bytes.load(Ordering::Acquire)
    }

    /// For the agent: corrects the reported bytes by a difference.
    pub fn correct_native_bytes(&self, by: i64) {
        self.native_bytes.fetch_add(by, Ordering::AcqRel);
    }

    /// For the agent: how many bytes may be reported before a thread must ask it. -1 once memory is
    /// managed.
    pub fn allow(&self, bytes: i64) {
        self.allowance_bytes.store(bytes, Ordering::Release);
    }
}

/// Removes the page from a doorbell.
fn drop_bell(bell: usize) {
    // SAFETY: a doorbell contains no data. A thread that reads it finds it missing again, or finds
    // a page from the agent.
    let _ = unsafe { advise(bell, PAGE_BYTES, MADV_DONTNEED) };
}

/// Lets other threads run.
fn pause() {
    kernel::sched_yield();
    spin_loop();
}

#[cfg(loom)]
#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own;
    use alloc::vec;
    use std::sync::atomic::AtomicBool;
    use std::thread::{scope, yield_now};

    /// Opens a mailbox with doorbells that are never missing. Threads poll their slot until it has
    /// an answer.
    fn open() -> Mailbox {
        let mailbox = Mailbox::new();
        mailbox.open(own::map(SLOTS * PAGE_BYTES).unwrap());
        mailbox
    }

    /// Does the agent's work. It looks at every call twice and makes the answers from the
    /// arguments.
    fn serve(mailbox: &Mailbox, served: &mut [u32]) {
        let posted = mailbox.take_posted();
        for slot in (0..SLOTS).filter(|slot| posted >> slot & 1 != 0) {
            for _ in 0..2 {
                if let Some((_, arguments)) = mailbox.call_of(slot) {
                    assert_eq!(arguments[1], !arguments[0], "arguments of two calls");
                    served[arguments[0]] += 1;
                    mailbox.answer(slot, arguments[0] as isize + 1);
                }
            }
        }
        (0..SLOTS).filter(|&slot| mailbox.is_at_rest(slot)).for_each(|slot| mailbox.free(slot));
    }

    #[test]
    fn every_call_is_answered_once_however_many_are_given_up() {
        const THREADS: usize = if cfg!(miri) { 2 } else { 8 };
        const CALLS: usize = if cfg!(miri) { 10 } else { 500 };
        let mailbox = open();
        let stop = AtomicBool::new(false);
        let mut served = vec![0_u32; THREADS * CALLS];
        scope(|scope| {
            let (mailbox, stop, served) = (&mailbox, &stop, &mut served);
            let call = move |number: usize| {
                let arguments = [number, !number, 0];
                match number % 5 {
                    // A handler has jumped out of the wait.
                    0 => _ = mailbox.post(mailbox.doorbells.load(Ordering::Acquire), Call::Grown, arguments),
                    // Its answer must not be lost, even if other threads need a slot.
                    1 => assert_eq!(mailbox.ask(Call::Guard, arguments), Some(number as isize + 1)),
                    _ => {
                        let answer = mailbox.ask(Call::Grown, arguments).unwrap();
                        assert!(answer == 0 || answer == number as isize + 1, "{answer}");
                    }
                }
            };
            let agent = scope.spawn(move || {
                while !stop.load(Ordering::Acquire) || mailbox.is_ringing() {
                    serve(mailbox, served);
                    yield_now();
                }
            });
            let callers: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || (thread * CALLS..(thread + 1) * CALLS).for_each(call)))
                .collect();
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            stop.store(true, Ordering::Release);
            agent.join().unwrap();
        });
        assert!(served.iter().all(|&count| count == 1), "a call was lost, or answered twice");
    }

    #[test]
    fn a_thread_that_comes_back_late_leaves_the_next_call_alone() {
        let mailbox = open();
        let bells = mailbox.doorbells.load(Ordering::Acquire);
        let mut served = vec![0; 1000];
        let post = |number: usize| mailbox.post(bells, Call::Grown, [number, !number, 0]);
        let late = post(0);
        serve(&mailbox, &mut served);
        // The other calls take all other slots first, and then this one.
        let others: Vec<Posted> = (1..FORKERS).map(post).collect();
        let next = post(FORKERS);
        assert_eq!(next.slot, late.slot);
        assert_eq!(mailbox.collect(late), None);
        assert_eq!(mailbox.call_of(next.slot).map(|(_, arguments)| arguments[0]), Some(FORKERS));
        serve(&mailbox, &mut served);
        assert_eq!(mailbox.collect(late), None);
        assert_eq!(mailbox.collect(next), Some(FORKERS as isize + 1));
        for (index, other) in others.into_iter().enumerate() {
            assert_eq!(mailbox.collect(other), Some(index as isize + 2));
        }
        // The thread that forks has a slot in any case.
        assert!((100..100 + FORKERS).map(post).all(|posted| posted.slot < FORKERS));
        assert_eq!(mailbox.post(bells, Call::BeforeFork, [0; ARGUMENTS]).slot, FORKERS);
        assert!(!mailbox.is_fork_over());
    }

    #[test]
    fn a_move_that_never_ends_is_waited_for_once() {
        let mailbox = open();
        assert!(mailbox.try_block_moves());
        mailbox.allow_moves();
        mailbox.moves[1].store(7, Ordering::SeqCst);
        assert!(!mailbox.try_block_moves() && !mailbox.moves_blocked.load(Ordering::SeqCst));
        mailbox.forget_moves();
        assert!(mailbox.try_block_moves());
        mailbox.allow_moves();
        assert!(!mailbox.move_mapping(|| mailbox.try_block_moves()));
        assert!(mailbox.try_block_moves());
    }
}
