//! For models of the mailbox: doorbells, as the kernel has them, on the threads of `loom`.
//!
//! A thread that reads a doorbell waits until there is a page, and the agent learns of it. Each
//! doorbell has a lock of its own, as page tables have, so what two threads do at different
//! doorbells is in no order.

use crate::kernel::PAGE_BYTES;
use crate::mailbox::SLOTS;
use linux_raw_sys::general::{__NR_madvise, MADV_DONTNEED};
use loom::sync::{Condvar, Mutex};

/// Where the doorbells seem to be.
pub const BELLS: usize = 0x1000_0000;

#[derive(Default)]
struct Bell {
    has_page: Mutex<bool>,
    is_answered: Condvar,
}

#[derive(Default)]
struct Faults {
    /// Slots whose doorbells threads wait at, a bit each, that the agent has not heard of.
    unheard: Mutex<u64>,
    has_some: Condvar,
}

loom::lazy_static! {
    static ref ALL: [Bell; SLOTS] = core::array::from_fn(|_| Bell::default());
    static ref FAULTS: Faults = Faults::default();
}

/// Makes all of this before there are other threads.
pub fn make_bells() {
    ALL.iter().for_each(|bell| *bell.has_page.lock().unwrap() = false);
    *FAULTS.unheard.lock().unwrap() = 0;
}

fn slot_at(address: usize) -> usize {
    (address - BELLS) / PAGE_BYTES
}

/// Touches a doorbell.
///
/// # Safety
/// As for the real one.
pub unsafe fn touch(address: usize) {
    let slot = slot_at(address);
    let bell = &ALL[slot];
    let mut has_page = bell.has_page.lock().unwrap();
    while !*has_page {
        ring_bell(slot);
        has_page = bell.is_answered.wait(has_page).unwrap();
    }
}

/// A thread waits at a doorbell, as the agent learns. (It may be interrupted and never come back.)
pub fn ring_bell(slot: usize) {
    *FAULTS.unheard.lock().unwrap() |= 1 << slot;
    FAULTS.has_some.notify_one();
}

/// For the agent: waits until there are faults, and takes them.
pub fn wait_for_bells() -> u64 {
    let mut unheard = FAULTS.unheard.lock().unwrap();
    while *unheard == 0 {
        unheard = FAULTS.has_some.wait(unheard).unwrap();
    }
    core::mem::take(&mut unheard)
}

/// For the agent: puts a page at a doorbell. The threads that wait there go on.
pub fn put_bell(slot: usize) {
    *ALL[slot].has_page.lock().unwrap() = true;
    ALL[slot].is_answered.notify_all();
}

/// Makes a system call. Of all there are, `madvise` removes a doorbell's page.
///
/// # Safety
/// As for the real one.
pub unsafe fn call(number: u32, arguments: [usize; 6]) -> isize {
    if number == __NR_madvise && arguments[2] == MADV_DONTNEED as usize {
        *ALL[slot_at(arguments[0])].has_page.lock().unwrap() = false;
    }
    0
}

/// Lets other threads run.
pub fn sched_yield() {
    loom::thread::yield_now();
}
