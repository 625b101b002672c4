//! System calls that do one thing to shared memory and another to private memory. The agent makes
//! them itself, so that shared memory behaves as private memory would.

use super::{of, takeover::map_file, written};
use crate::backend::Contents;
use crate::changes::{change_id, drop_contents, open_gate, shut_gate, unmapped};
use crate::choose::arrive;
use crate::failure::give_up;
use crate::kernel::PAGE_BYTES;
use crate::mailbox::ARGUMENTS;
use crate::maps::protection_of;
use crate::pages::State;
use crate::rooms::Rooms;
use crate::store::Slot;
use crate::syscall::{advise, call, refused};
use crate::transfer::take_filled;
use linux_raw_sys::general as raw;
use rustix::io::Errno;
use sweephand_policy::PageId;

fn is_page_start(address: usize) -> bool {
    address.is_multiple_of(PAGE_BYTES)
}

/// Does for shared memory what `madvise(MADV_DONTNEED)` does for private memory. Refuses
/// `MADV_REMOVE`, which private memory does not have.
pub(crate) fn drop_private(rooms: &mut Rooms, start: usize, length: usize, advice: u32) -> isize {
    let Some(end) = start.checked_add(length).map(|end| end.next_multiple_of(PAGE_BYTES)) else {
        return refused(Errno::INVAL);
    };
    if !is_page_start(start) {
        return refused(Errno::INVAL);
    }
    shut_gate(rooms);
    let gaps = rooms.memory.regions.gaps(start, end);
    let managed = rooms.memory.managed_parts(start, end);
    let mut result = 0;
    if advice == raw::MADV_REMOVE && !managed.is_empty() {
        result = refused(Errno::INVAL);
    } else {
        for (start, end) in managed {
            drop_contents(rooms, start, end);
        }
        for (start, end) in gaps {
            // SAFETY: this is what the program asks for, and the memory is left to the kernel.
            let answer = unsafe { advise(start, end - start, advice) };
            result = if answer < 0 { answer } else { result };
        }
    }
    open_gate(rooms);
    result
}

/// Leaves a range to the kernel and forgets its contents. Then the agent can change its mapping
/// without an event, for which the agent would wait itself.
fn abandon(rooms: &mut Rooms, start: usize, end: usize) {
    for (start, end) in rooms.memory.managed_parts(start, end) {
        let _ = rooms.program.uffd.unregister(start, end - start);
        unmapped(rooms, start, end);
    }
}

/// Does an `mremap`. The kernel enlarges or shrinks shared memory in place. If the memory must
/// go elsewhere, the agent moves its pages to new memory.
pub(crate) fn remap(rooms: &mut Rooms, arguments: [usize; ARGUMENTS]) -> isize {
    let [old, old_length, length, flags, new] = arguments;
    let Some((old_length, length)) =
        old_length.checked_next_multiple_of(PAGE_BYTES).zip(length.checked_next_multiple_of(PAGE_BYTES))
    else {
        return refused(Errno::INVAL);
    };
    let flags = flags as u32;
    let fixed = flags & raw::MREMAP_FIXED != 0;
    let ends = old.checked_add(old_length).zip(new.checked_add(length).filter(|_| fixed).or(Some(0)));
    let Some((old_end, new_end)) = ends else { return refused(Errno::INVAL) };
    shut_gate(rooms);
    let result = if rooms.memory.managed_parts(old, old_end.max(old + 1)).is_empty() {
        if fixed && is_page_start(old) && is_page_start(new) {
            abandon(rooms, new, new_end);
        }
        // SAFETY: this is what the program asks for, and the memory is left to the kernel.
        unsafe { call(raw::__NR_mremap, [old, old_length, length, flags as usize, new, 0]) }
    } else {
        remap_shared(rooms, (old, old_length), (new, length), flags)
    };
    open_gate(rooms);
    result
}

/// Whether an `mremap` has no meaning for private memory.
fn is_invalid((old, old_length): (usize, usize), (new, length): (usize, usize), flags: u32) -> bool {
    let may_move = flags & raw::MREMAP_MAYMOVE != 0;
    let fixed = flags & raw::MREMAP_FIXED != 0;
    let stays = flags & raw::MREMAP_DONTUNMAP != 0;
    let overlaps = fixed && new < old + old_length && old < new + length;
    // An old length of 0 asks for a second mapping of shared memory, which private memory does not
    // have.
    !is_page_start(old)
        || length == 0
        || old_length == 0
        || (fixed || stays) && !may_move
        || stays && old_length != length
        || fixed && !is_page_start(new)
        || overlaps
}

/// Does an `mremap` of shared memory, in place if that is possible.
fn remap_shared(
    rooms: &mut Rooms,
    (old, old_length): (usize, usize),
    (new, length): (usize, usize),
    flags: u32,
) -> isize {
    if is_invalid((old, old_length), (new, length), flags) {
        return refused(Errno::INVAL);
    }
    if !rooms.memory.regions.gaps(old, old + old_length).is_empty() {
        return refused(Errno::FAULT);
    }
    let Some(protection) = protection_of(old, old + old_length) else {
        return refused(Errno::FAULT);
    };
    if flags & (raw::MREMAP_FIXED | raw::MREMAP_DONTUNMAP) == 0 {
        if length < old_length {
            abandon(rooms, old + length, old + old_length);
        }
        // SAFETY: this stays in place. It shrinks the mapping, or enlarges it where nothing is
        // mapped.
        let result = unsafe { call(raw::__NR_mremap, [old, old_length, length, 0, 0, 0]) };
        if result > 0 {
            rooms.memory.regions.add(old, old + length);
            return result;
        }
        if flags & raw::MREMAP_MAYMOVE == 0 || result != refused(Errno::NOMEM) {
            return result;
        }
    }
    move_elsewhere(rooms, (old, old_length), (new, length), flags, protection)
}

/// Moves shared memory to another place, which is `new` if that is what the program asks for.
fn move_elsewhere(
    rooms: &mut Rooms,
    (old, old_length): (usize, usize),
    (new, length): (usize, usize),
    flags: u32,
    protection: u32,
) -> isize {
    let fixed = flags & raw::MREMAP_FIXED != 0;
    let stays = flags & raw::MREMAP_DONTUNMAP != 0;
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | raw::MAP_NORESERVE;
    let flags = if fixed { flags | raw::MAP_FIXED } else { flags };
    if fixed {
        abandon(rooms, new, new + length);
    }
    // The kernel or the program chooses the place. (If the program names none, `new` is
    // whatever was in the register. As a hint, it could put the mapping where the heap grows.)
    let hint = if fixed { new } else { 0 };
    // SAFETY: this is new memory, which replaces only memory that the program has named.
    let place = unsafe {
        call(raw::__NR_mmap, [hint, length, raw::PROT_NONE as usize, flags as usize, usize::MAX, 0])
    };
    if place < 0 {
        return place;
    }
    let new = place as usize;
    map_file(rooms, new, length, protection);
    let ended = rooms.memory.objects.relocate(old, new, old_length.min(length));
    rooms.choice.end_objects(&ended);
    move_shared(rooms, old, new, old_length.min(length));
    if stays {
        drop_contents(rooms, old, old + old_length);
    } else {
        abandon(rooms, old, old + old_length);
        // SAFETY: the program has moved this memory away.
        unsafe { call(raw::__NR_munmap, [old, old_length, 0, 0, 0, 0]) };
    }
    place
}

/// Moves the pages of a range. To the policy, they are new at the new place.
fn move_shared(rooms: &mut Rooms, from: usize, to: usize, length: usize) {
    let known = rooms.memory.known(from, from + length);
    // Only one page is needed for copies. But the agent may have to wait for a batch, and reads may
    // end meanwhile.
    let batch = take_filled(rooms, 1);
    let copy = rooms.disk.staging.address(batch, 0);
    for old in known {
        let address = rooms.memory.pages.address(old) - from + to;
        match rooms.memory.pages.state(old) {
            State::Resident { kept } => move_resident(rooms, old, kept, address, copy),
            _ => change_id(rooms, old, address),
        }
    }
}

/// Moves a page in memory through a page of the pager.
fn move_resident(rooms: &mut Rooms, old: PageId, kept: Option<Slot>, to: usize, copy: usize) {
    let from = rooms.memory.pages.address(old);
    let memfd = of(&mut *rooms.backend);
    memfd.pin(from, PAGE_BYTES);
    memfd.punch(from, PAGE_BYTES);
    memfd.unpin(copy, PAGE_BYTES);
    let kept = kept.filter(|&slot| {
        let is_clean = !written(&rooms.program.pagemap, from, 1)[0];
        if !is_clean {
            rooms.disk.store.free(slot);
        }
        is_clean
    });
    rooms.choice.remove(old);
    rooms.memory.pages.set(old, State::Absent);
    let contents = if kept.is_some() { Contents::Stored } else { Contents::New };
    // Ends: AGAIN lasts as long as the program changes its address space.
    loop {
        let uffd = &rooms.program.uffd;
        // SAFETY: the memory at `to` is new to the program, and missing.
        let progress = unsafe { rooms.backend.put_in(uffd, to, copy, PAGE_BYTES, contents, false) };
        match progress.error {
            None => break,
            Some(Errno::AGAIN) => rooms.program.settle(),
            Some(error) => give_up(format_args!("a page cannot be moved to {to:#x}: {error}")),
        }
    }
    let new = rooms.memory.pages.meet(to);
    rooms.memory.pages.set(new, State::Resident { kept });
    arrive(rooms, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_that_mean_nothing_are_refused() {
        const PAGE: usize = PAGE_BYTES;
        const FIXED: u32 = raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED;
        let old = (16 * PAGE, 4 * PAGE);
        assert!(!is_invalid(old, (0, 8 * PAGE), raw::MREMAP_MAYMOVE));
        assert!(!is_invalid(old, (32 * PAGE, 4 * PAGE), FIXED));
        assert!(!is_invalid(old, (0, 4 * PAGE), raw::MREMAP_MAYMOVE | raw::MREMAP_DONTUNMAP));
        assert!(is_invalid((16 * PAGE + 1, 4 * PAGE), (0, PAGE), 0), "not the start of a page");
        assert!(is_invalid(old, (0, 0), 0), "nothing is left");
        assert!(is_invalid((16 * PAGE, 0), (0, PAGE), raw::MREMAP_MAYMOVE), "a second mapping");
        assert!(is_invalid(old, (32 * PAGE, PAGE), raw::MREMAP_FIXED), "fixed, but may not move");
        assert!(is_invalid(old, (19 * PAGE, PAGE), FIXED), "onto itself");
        assert!(
            is_invalid(old, (0, PAGE), raw::MREMAP_MAYMOVE | raw::MREMAP_DONTUNMAP),
            "stays, but shrinks"
        );
    }
}
