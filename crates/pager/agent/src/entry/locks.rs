//! `mlockall`: memory that the program wants to stay in memory, all of it.
//!
//! The kernel would lock the pager's memory as well. It would fill places that are empty on
//! purpose, the pager's own thread would wait for pages that only it can bring, and what it maps
//! later would be filled too. So the hook locks each of the program's mappings by itself, on the
//! program's thread. What is mapped later is locked when it has been mapped, by the hooks of `mmap`
//! and `brk`. The pager then finds that it cannot page that memory out, and counts it. A program
//! that locks more than there is room for ends with a line that has the sizes (`reclaim`).
//!
//! An `mlockall` by a system call of the program's own goes unseen, and the kernel locks
//! everything.

use crate::kernel::PAGE_BYTES;
use crate::kernel::symbols::c_result;
use crate::kernel::syscall::{call, refused};
use crate::mailbox::{ARGUMENTS, Call, MAILBOX};
use crate::process::failure::abort;
use crate::process::maps::{self, Mapping};
use crate::process::own;
use crate::process::rlimits;
use crate::state::regions::Regions;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use linux_raw_sys::general as raw;
use rustix::io::Errno;

/// What the program wants of memory that it maps later: bits of `mlockall`, or 0.
static FUTURE: AtomicU32 = AtomicU32::new(0);
/// Ranges that the agent tells of at a time.
const MOST_RANGES: usize = 64;
/// The ranges that it has told of last: start, end, and whether the program may use the range.
static RANGES: [[AtomicUsize; 3]; MOST_RANGES] = [const { [const { AtomicUsize::new(0) }; 3] }; MOST_RANGES];
/// Whether a thread reads them.
static IS_READ: AtomicBool = AtomicBool::new(false);

/// For the agent: puts the program's mappings from an address on into the list, as far as there is
/// place. Returns how many ranges there are. Neighbours of the same kind are one.
pub(crate) fn list(from: usize) -> isize {
    let (mappings, text) = maps::read_all()
        .unwrap_or_else(|error| abort(format_args!("/proc/self/maps: cannot be read: {error}")));
    let mut own = Regions::new();
    own::mappings().chain(own::library()).chain([own::SHARED]).for_each(|(start, end)| own.add(start, end));
    // Only now: see `maps::read`.
    drop(text);
    let mut ranges: Vec<(usize, usize, bool)> = Vec::new();
    for Mapping { start, end, protection, .. } in mappings.into_iter().filter(|mapping| mapping.end > from) {
        let is_usable = protection & raw::PROT_READ != 0;
        for (start, end) in own.gaps(start.max(from), end) {
            match ranges.last_mut() {
                Some((_, last, kind)) if *last == start && *kind == is_usable => *last = end,
                _ => ranges.push((start, end, is_usable)),
            }
        }
        if ranges.len() > MOST_RANGES {
            break;
        }
    }
    ranges.truncate(MOST_RANGES);
    for ([start, end, kind], range) in RANGES.iter().zip(&ranges) {
        start.store(range.0, Ordering::Relaxed);
        end.store(range.1, Ordering::Relaxed);
        kind.store(usize::from(range.2), Ordering::Relaxed);
    }
    ranges.len() as isize
}

/// Visits the program's mappings; `None` if there is no agent. Ends: each turn begins behind the
/// last range of the turn before.
fn for_each_range(mut visit: impl FnMut(usize, usize, bool)) -> Option<()> {
    while IS_READ.swap(true, Ordering::Acquire) {
        crate::kernel::sched_yield();
    }
    let mut from = 0;
    let result = loop {
        let mut arguments = [0; ARGUMENTS];
        arguments[0] = from;
        match MAILBOX.ask(Call::Mappings, arguments) {
            None => break None,
            Some(..=0) => break Some(()),
            Some(count) => {
                for range in RANGES.iter().take(count as usize) {
                    let [start, end, kind] = range.each_ref().map(|word| word.load(Ordering::Relaxed));
                    visit(start, end, kind != 0);
                    from = end;
                }
            }
        }
    };
    IS_READ.store(false, Ordering::Release);
    result
}

/// Locks a range: at once, or what of it will be touched.
///
/// # Safety
/// As for the system call. (It changes nothing but what stays in memory.)
unsafe fn lock(start: usize, end: usize, on_touch: bool) -> isize {
    let flags = if on_touch { raw::MLOCK_ONFAULT as usize } else { 0 };
    // SAFETY: as the caller promises.
    unsafe { call(raw::__NR_mlock2, [start, end - start, flags, 0, 0, 0]) }
}

/// The program's `mlockall`.
pub(crate) fn lock_all(flags: u32) -> isize {
    const ALL: u32 = raw::MCL_CURRENT | raw::MCL_FUTURE | raw::MCL_ONFAULT;
    // SAFETY: this is the program's own call.
    let make = || unsafe { call(raw::__NR_mlockall, [flags as usize, 0, 0, 0, 0, 0]) };
    if !MAILBOX.is_open() || flags & !ALL != 0 || flags & !raw::MCL_ONFAULT == 0 {
        // There is no agent, or the kernel refuses it.
        return make();
    }
    if let Err(error) = may_lock(flags & raw::MCL_CURRENT != 0) {
        return refused(error);
    }
    let is_future = flags & raw::MCL_FUTURE != 0;
    FUTURE.store(if is_future { flags } else { 0 }, Ordering::Release);
    if flags & raw::MCL_CURRENT != 0 {
        // What is not mapped any more, or cannot be filled, does not matter to the kernel either.
        // SAFETY: the program's memory, which it has locked.
        for_each_range(|start, end, _| _ = unsafe { lock(start, end, flags & raw::MCL_ONFAULT != 0) });
    }
    0
}

/// Whether the kernel would let the program lock all of its memory, or what it maps later.
fn may_lock(is_current: bool) -> Result<(), Errno> {
    let Some(most) = rlimits::lockable_bytes() else { return Ok(()) };
    if most == 0 {
        return Err(Errno::PERM);
    }
    let mut bytes = 0;
    if is_current {
        for_each_range(|start, end, _| bytes += (end - start) as u64);
    }
    if bytes / PAGE_BYTES as u64 > most / PAGE_BYTES as u64 { Err(Errno::NOMEM) } else { Ok(()) }
}

/// The program's `munlockall`.
pub(crate) fn unlock_all() -> isize {
    FUTURE.store(0, Ordering::Release);
    // SAFETY: this is the program's own call, and nothing of the pager's is locked.
    unsafe { call(raw::__NR_munlockall, [0; 6]) }
}

/// The program has mapped memory. Locks it, if that is what the program wants. Returns `EAGAIN`, as
/// `mmap` does, if it would have more locked memory than it may.
pub(crate) fn lock_new(start: usize, length: usize, protection: u32) -> Result<(), Errno> {
    let future = FUTURE.load(Ordering::Acquire);
    if future == 0 {
        return Ok(());
    }
    // SAFETY: the program's own memory.
    let result = unsafe { lock(start, start + length, future & raw::MCL_ONFAULT != 0) };
    // What cannot be read cannot be filled, and is locked all the same.
    let is_refused = result == refused(Errno::NOMEM) && protection & raw::PROT_READ != 0;
    if is_refused || result == refused(Errno::PERM) { Err(Errno::AGAIN) } else { Ok(()) }
}

/// In a child, which inherits no locks.
pub(crate) fn in_child() {
    FUTURE.store(0, Ordering::Release);
    IS_READ.store(false, Ordering::Release);
}

pub(crate) extern "C" fn hook_mlockall(flags: c_int) -> c_int {
    c_result(lock_all(flags as u32)) as c_int
}

pub(crate) extern "C" fn hook_munlockall() -> c_int {
    c_result(unlock_all()) as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_mappings_are_listed_without_the_pagers() {
        let own = own::map(2 * PAGE_BYTES).unwrap();
        let here = 0_u8;
        let stack = &raw const here as usize;
        let (mut from, mut has_stack, mut has_own) = (0, false, false);
        loop {
            let count = list(from) as usize;
            for range in RANGES.iter().take(count) {
                let [start, end, _] = range.each_ref().map(|word| word.load(Ordering::Relaxed));
                assert!(start >= from && end > start, "{start:#x} to {end:#x}, from {from:#x}");
                has_stack |= (start..end).contains(&stack);
                has_own |= (start..end).contains(&own);
                from = end;
            }
            if count == 0 {
                break;
            }
        }
        assert!(has_stack && !has_own);
    }

    #[test]
    fn new_memory_is_locked_only_if_the_program_wants_that() {
        assert_eq!(lock_new(1 << 20, PAGE_BYTES, 3), Ok(()));
    }
}
