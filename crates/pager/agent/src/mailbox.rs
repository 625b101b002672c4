//! How threads of the program call the agent: by touching a page that is not there.
//!
//! A thread writes what it wants into a slot and reads the slot's doorbell, a page that is always missing. The fault goes
//! to the agent, in one queue with the others; the agent does what is asked, writes the answer and lets the thread go on.
//! No descriptor is needed that the program could close, and no signal. Threads of the program and the agent share
//! this block; everything else of the agent's is its own.

use crate::memfd::advise;
use crate::objects;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use linux_raw_sys::general::MADV_DONTNEED;
use sweephand_uffd::PAGE_BYTES;

/// Calls that may be under way at a time. The last slot is kept for the thread that forks, whom the others wait for.
pub const SLOTS: usize = 64;

/// What a thread may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Call {
    /// The program has more writable memory: at this address, so many bytes, with this protection (0: unknown).
    Grown = 1,
    /// A thread's stack: the end of it, where its descriptor is, must stay in memory; and how many bytes it has.
    Stack = 2,
    /// A fork is about to be made; the agent's end of a socket for the child.
    BeforeFork = 3,
    /// The fork has been made, or has failed.
    AfterFork = 4,
    /// Children are not to get this memory, or get it wiped: so many bytes from this address on.
    NotInherited = 5,
    /// They are to get it again.
    Inherited = 6,
    /// There is a new object: at this address, so many bytes.
    Object = 7,
    /// The object at this address has so many bytes now.
    Resized = 8,
    /// With a memfd: the program drops what so many bytes from this address on hold. The answer is that of `madvise`.
    Drop = 9,
    /// With a memfd: an `mremap`, with its arguments. The answer is the system call's.
    Remap = 10,
    /// The caller is about to move a mapping to a place that it has taken: whatever others have unmapped or moved away, there
    /// among other places, is to be known before.
    CatchUp = 11,
}

/// In a protection: what was there before is gone. (A bit that no protection has.)
pub const NEW: u32 = 1 << 31;
/// Most arguments of a call.
pub const ARGUMENTS: usize = 5;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

struct Slot {
    state: AtomicU32,
    call: AtomicU32,
    arguments: [AtomicUsize; ARGUMENTS],
    answer: AtomicIsize,
}

/// The block.
pub struct Mailbox {
    /// Address of the doorbells; 0 while there is no agent.
    doorbells: AtomicUsize,
    /// Bytes of writable memory that the kernel gives the program without asking us, as far as has been told.
    native_bytes: AtomicI64,
    /// How many there may be before the agent has to be asked.
    allowance_bytes: AtomicI64,
    /// Calls made and not answered yet.
    ringing: AtomicU32,
    /// Threads that are about to move mappings, or doing so.
    moving: AtomicU32,
    /// Whether the agent is taking pages away: no mapping is moved meanwhile.
    held: AtomicBool,
    /// Whether the agent wants to be told of objects.
    wants_objects: AtomicBool,
    slots: [Slot; SLOTS],
}

/// The block of this process.
pub static MAILBOX: Mailbox = Mailbox {
    doorbells: AtomicUsize::new(0),
    native_bytes: AtomicI64::new(0),
    allowance_bytes: AtomicI64::new(0),
    ringing: AtomicU32::new(0),
    moving: AtomicU32::new(0),
    held: AtomicBool::new(false),
    wants_objects: AtomicBool::new(false),
    slots: [const {
        Slot {
            state: AtomicU32::new(FREE),
            call: AtomicU32::new(0),
            arguments: [const { AtomicUsize::new(0) }; ARGUMENTS],
            answer: AtomicIsize::new(0),
        }
    }; SLOTS],
};

impl Mailbox {
    /// The agent answers from now on, at these doorbells. No call is under way.
    pub fn open(&self, doorbells: usize) {
        self.slots.iter().for_each(|slot| slot.state.store(FREE, Ordering::Relaxed));
        self.ringing.store(0, Ordering::Relaxed);
        self.moving.store(0, Ordering::Relaxed);
        self.held.store(false, Ordering::Relaxed);
        self.doorbells.store(doorbells, Ordering::Release);
    }

    /// There is no agent any more: this process is a child without its parent's.
    pub fn close(&self) {
        self.doorbells.store(0, Ordering::Release);
    }

    /// Whether there is an agent.
    pub fn is_open(&self) -> bool {
        self.doorbells.load(Ordering::Acquire) != 0
    }

    /// A thread of the program has got so much more writable memory.
    pub fn grown(&self, address: usize, bytes: usize, protection: u32) {
        let before = self.native_bytes.fetch_add(bytes as i64, Ordering::AcqRel);
        if before + bytes as i64 > self.allowance_bytes.load(Ordering::Acquire) {
            self.ask(Call::Grown, [address, bytes, protection as usize, 0, 0]);
        }
    }

    /// Makes a system call that moves mappings. The kernel tells of it when it is done; were a page taken away by the agent
    /// in between, from the place that the mapping has come to, it would be taken for what was there before.
    pub fn move_mapping<R>(&self, call: impl FnOnce() -> R) -> R {
        loop {
            self.moving.fetch_add(1, Ordering::SeqCst);
            if !self.held.load(Ordering::SeqCst) {
                break;
            }
            self.moving.fetch_sub(1, Ordering::SeqCst);
            rustix::thread::sched_yield();
        }
        let result = call();
        self.moving.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// For the agent: no mapping is moved from now on, if this returns true.
    pub fn hold(&self) -> bool {
        self.held.store(true, Ordering::SeqCst);
        let is_still = self.moving.load(Ordering::SeqCst) == 0;
        if !is_still {
            self.let_go();
        }
        is_still
    }

    /// For the agent: mappings may be moved again.
    pub fn let_go(&self) {
        self.held.store(false, Ordering::SeqCst);
    }

    /// Whether the program's memory is managed: the kernel tells the agent what is unmapped and moved.
    pub fn is_managed(&self) -> bool {
        self.allowance_bytes.load(Ordering::Acquire) < 0
    }

    /// A thread of the program has a new object, or one that has grown.
    pub fn object(&self, call: Call, address: usize, bytes: usize) {
        if bytes >= objects::LEAST_BYTES && self.wants_objects() {
            self.call(call, address, bytes);
        }
    }

    /// Whether the agent wants to be told of objects.
    pub fn wants_objects(&self) -> bool {
        self.wants_objects.load(Ordering::Acquire)
    }

    /// For the agent: tell of objects.
    pub fn want_objects(&self) {
        self.wants_objects.store(true, Ordering::Release);
    }

    /// Calls the agent and waits for its answer. Does nothing if there is none.
    pub fn call(&self, call: Call, first: usize, second: usize) {
        self.ask(call, [first, second, 0, 0, 0]);
    }

    /// Calls the agent and waits for its answer; `None` if there is no agent.
    pub fn ask(&self, call: Call, arguments: [usize; ARGUMENTS]) -> Option<isize> {
        let doorbells = self.doorbells.load(Ordering::Acquire);
        if doorbells == 0 {
            return None;
        }
        let take = |slot: &&Slot| {
            slot.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let choice = match call {
            Call::BeforeFork | Call::AfterFork => SLOTS - 1..SLOTS,
            _ => 0..SLOTS - 1,
        };
        // Every call ends, so a slot comes free.
        let (index, slot) = loop {
            match choice.clone().zip(&self.slots[choice.clone()]).find(|(_, slot)| take(slot)) {
                Some(found) => break found,
                None => rustix::thread::sched_yield(),
            }
        };
        for (place, argument) in slot.arguments.iter().zip(arguments) {
            place.store(argument, Ordering::Relaxed);
        }
        slot.answer.store(0, Ordering::Relaxed);
        slot.call.store(call as u32, Ordering::Release);
        self.ringing.fetch_add(1, Ordering::Release);
        let bell = doorbells + index * PAGE_BYTES;
        // SAFETY: the doorbells are mapped readable; the read returns when the agent has put a page there.
        unsafe { core::ptr::read_volatile(bell as *const u8) };
        // SAFETY: the page that the agent put there, for this slot alone.
        let _ = unsafe { advise(bell, PAGE_BYTES, MADV_DONTNEED) };
        let answer = slot.answer.load(Ordering::Acquire);
        slot.state.store(FREE, Ordering::Release);
        Some(answer)
    }

    /// For the agent: whether a thread has called, or is about to.
    pub fn is_ringing(&self) -> bool {
        self.ringing.load(Ordering::Acquire) != 0
    }

    /// For the agent: a call has been answered.
    pub fn answered(&self) {
        self.ringing.fetch_sub(1, Ordering::Relaxed);
    }

    /// For the agent: the call of a slot, with its arguments.
    pub fn call_of(&self, slot: usize) -> (Option<Call>, [usize; ARGUMENTS]) {
        let slot = &self.slots[slot];
        let call = match slot.call.load(Ordering::Acquire) {
            1 => Some(Call::Grown),
            2 => Some(Call::Stack),
            3 => Some(Call::BeforeFork),
            4 => Some(Call::AfterFork),
            5 => Some(Call::NotInherited),
            6 => Some(Call::Inherited),
            7 => Some(Call::Object),
            8 => Some(Call::Resized),
            9 => Some(Call::Drop),
            10 => Some(Call::Remap),
            11 => Some(Call::CatchUp),
            _ => None,
        };
        let mut arguments = [0; ARGUMENTS];
        for (argument, place) in arguments.iter_mut().zip(&slot.arguments) {
            *argument = place.load(Ordering::Relaxed);
        }
        (call, arguments)
    }

    /// For the agent: answers the call of a slot, before its thread is let go on.
    pub fn answer(&self, slot: usize, answer: isize) {
        self.slots[slot].answer.store(answer, Ordering::Release);
    }

    /// For the agent: bytes told of so far.
    pub fn native_bytes(&self) -> i64 {
        self.native_bytes.load(Ordering::Acquire)
    }

    /// For the agent: of what had been told, less is true.
    pub fn correct_native_bytes(&self, by: i64) {
        self.native_bytes.fetch_add(by, Ordering::AcqRel);
    }

    /// For the agent: how much may be told before it wants to be asked; -1 once memory is managed.
    pub fn allow(&self, bytes: i64) {
        self.allowance_bytes.store(bytes, Ordering::Release);
    }
}
