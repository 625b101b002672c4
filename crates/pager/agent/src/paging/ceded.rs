//! Memory that the program pages itself: it has a userfaultfd of its own.
//!
//! The kernel registers a range with one userfaultfd only. So when the program registers a range
//! that the agent manages, the agent gives the range up. It brings back what is paged out, leaves
//! missing what was never touched (the program waits for just these faults), and does not register
//! the range again. (Where the program has gone through memory in order, the pager has filled some
//! pages ahead with zeros, and they are there.) Until the program unregisters it, this memory stays
//! in memory and is counted, like memory that is locked.
//!
//! The kernel is asked first, so what it refuses changes nothing. `EBUSY` says that the agent, or
//! somebody else, has registered the range:
//!
//! ```text
//!   thread:  ioctl(UFFDIO_REGISTER) = EBUSY  -> Call::Cede ->  agent: brings back, unregisters
//!            ioctl(UFFDIO_REGISTER) again
//!            ioctl(UFFDIO_UNREGISTER) = 0    -> Call::Resume -> agent: manages it again
//! ```
//!
//! `UFFDIO_MOVE` from memory that is paged out finds nothing there. So the agent brings it back,
//! and the kernel is asked again. A program that calls `ioctl` without the C library gets `EBUSY`.
//! What a program has registered stays ceded when it closes its userfaultfd.

use crate::kernel::syscall::{call, refused};
use crate::mailbox::{Call, MAILBOX};
use crate::paging::changes::{catch_up, forget};
use crate::paging::faults;
use crate::paging::lifecycle::{arrive, withdraw};
use crate::paging::manage;
use crate::paging::pager::Pager;
use crate::paging::transfer::{map_from_limbo, reap_one};
use crate::state::pages::State;
use linux_raw_sys::general as raw;
use rustix::io::Errno;

/// `UFFDIO_REGISTER`, `UFFDIO_UNREGISTER` and `UFFDIO_MOVE`.
const REGISTER: u32 = 0xc020_aa00;
const UNREGISTER: u32 = 0x8010_aa01;
const MOVE: u32 = 0xc028_aa05;
/// How often a move is tried again whose pages were paged out.
const MOVE_TRIES: usize = 4;

/// Gives a range up, for the program to register.
pub(crate) fn cede(pager: &mut Pager, start: usize, end: usize) {
    pager.memory.ceded.add(start, end);
    if !pager.memory.managed {
        return;
    }
    catch_up(pager);
    for (start, end) in pager.memory.managed_parts(start, end) {
        pin_all(pager, start, end);
        let _ = pager.program.uffd.unregister(start, end - start);
        for page in pager.memory.known(start, end) {
            forget(pager, page);
        }
        pager.memory.forget_guards(start, end);
        pager.memory.pages.forget_chunks(start, end);
        pager.memory.regions.remove(start, end);
    }
    // They are counted with what cannot be paged out from now on.
    pager.account.forget_private();
    pager.look();
    crate::paging::reclaim::make_room(pager, 0);
}

/// Brings back all pages of a range that are not in memory, and pins all of them. Ends: each turn
/// brings a page back, or ends a request, and a page that is pinned stays.
fn pin_all(pager: &mut Pager, start: usize, end: usize) {
    for page in pager.memory.known(start, end) {
        let address = pager.memory.pages.address(page);
        let mut is_away = true;
        // What was moved or dropped meanwhile is not there any more.
        while is_away && pager.memory.pages.find(address) == Some(page) {
            match pager.memory.pages.state(page) {
                State::Reading(_) => reap_one(pager),
                State::Limbo { .. } if map_from_limbo(pager, page) => {}
                State::Stored(_) | State::Pooled(_) | State::Writing(_) | State::Limbo { .. } => {
                    faults::answer(pager, address);
                }
                State::Resident { .. } => withdraw(pager, page),
                State::Absent | State::Guarded | State::Pinned | State::Lost => is_away = false,
            }
        }
    }
}

/// Brings back all pages of a range that are not in memory. They may be paged out again.
pub(crate) fn bring_back(pager: &mut Pager, start: usize, end: usize) {
    if !pager.memory.managed {
        return;
    }
    catch_up(pager);
    pin_all(pager, start, end);
    for page in pager.memory.known(start, end) {
        if pager.memory.pages.state(page) == State::Pinned && !pager.memory.is_kept(page) {
            pager.memory.pages.set(page, State::RESIDENT);
            arrive(pager, page);
        }
    }
}

/// The program does not page a range any more.
pub(crate) fn resume(pager: &mut Pager, start: usize, end: usize) {
    pager.memory.ceded.remove(start, end);
    if pager.memory.managed {
        manage::grown(pager, start, end, false);
    }
}

/// The program's `ioctl`.
///
/// # Safety
/// As for the system call.
pub unsafe fn ioctl(file: usize, request: usize, argument: usize) -> isize {
    // SAFETY: as the caller promises.
    let make = || unsafe { call(raw::__NR_ioctl, [file, request, argument, 0, 0, 0]) };
    let result = make();
    // Of an argument that the kernel has read, the first words are addresses.
    // SAFETY: the kernel has just read these words.
    let word = |index: usize| unsafe { (argument as *const usize).add(index).read_unaligned() };
    match request as u32 {
        REGISTER if result == refused(Errno::BUSY) => {
            let (start, length) = (word(0), word(1));
            MAILBOX.call(Call::Cede, start, length);
            let result = make();
            if result < 0 {
                MAILBOX.call(Call::Resume, start, length);
            }
            result
        }
        UNREGISTER if result == 0 => {
            MAILBOX.call(Call::Resume, word(0), word(1));
            0
        }
        MOVE if result == refused(Errno::NOENT) => {
            let mut result = result;
            // Under pressure they may be gone again by then.
            for _ in 0..MOVE_TRIES {
                MAILBOX.call(Call::BringBack, word(1), word(2));
                result = make();
                if result != refused(Errno::NOENT) {
                    break;
                }
            }
            result
        }
        _ => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::transfer::reap;
    use crate::testing::{at, pager};

    /// What was paged out is back, what was never touched is missing, and nothing of it is paged
    /// out again.
    #[test]
    fn a_range_that_is_given_up_is_as_without_a_pager() {
        let (mut pager, world) = pager();
        for number in (0..80).filter(|number| number % 5 != 2) {
            faults::answer(&mut pager, at(number));
            world.borrow_mut().mapped.insert(at(number), number as u8);
            reap(&mut pager);
        }
        cede(&mut pager, at(0), at(20));
        let mapped = world.borrow().mapped.clone();
        for number in 0..20 {
            let byte = (number % 5 != 2).then_some(number as u8);
            assert_eq!(mapped.get(&at(number)).copied(), byte, "{number}");
            assert_eq!(pager.memory.pages.state_at(at(number)), State::Absent, "{number}");
        }
        assert!(pager.memory.kept.is_empty());
        assert_eq!(pager.memory.regions.end_of(at(0)), None);
        assert_eq!(pager.memory.regions.end_of(at(20)), Some(at(1 << 20)));
        assert_eq!(pager.memory.pages.resident(), mapped.len() - mapped.range(..at(20)).count());
    }
}
