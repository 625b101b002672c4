//! How private memory becomes shared.

use super::of;
use crate::changes::{open_gate, shut_gate};
use crate::choose::arrive;
use crate::division::LEAST_FRAMES;
use crate::failure::give_up;
use crate::kernel::{self, PAGE_BYTES};
use crate::mailbox::NEW;
use crate::maps::{self, Mapping};
use crate::pagemap::NOTHING;
use crate::pages::State;
use crate::program::Program;
use crate::reclaim::make_room;
use crate::regions::Regions;
use crate::rooms::Rooms;
use crate::staging::drop_pages;
use crate::stock::{count_native, look_up, mappings, take_stock};
use crate::transfer::take_batch;

use core::ffi::c_void;
use linux_raw_sys::general as raw;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};

/// How often the agent retries a page under DMA before it leaves the memory native.
const MOST_BUSY_ATTEMPTS: usize = 64;

/// Starts to manage all memory of the program that can be shared.
pub(crate) fn convert_all(rooms: &mut Rooms) {
    shut_gate(rooms);
    if rooms.memory.regions.iter().next().is_none() {
        // The policy has seen no page yet, and it is now known how many frames it will have.
        count_native(rooms, can_be_shared);
        let native = rooms.backend.native_pages();
        if rooms.renew_policy(rooms.own_pages() + native, 1) < LEAST_FRAMES {
            give_up(format_args!(
                "{} MiB of stacks and the like cannot be paged: the limit is too small for them",
                (native * PAGE_BYTES) >> 20
            ));
        }
    }
    for mapping in mappings().into_iter().filter(can_be_shared) {
        convert(rooms, mapping.start, mapping.end, mapping.protection);
    }
    count_native(rooms, |_| false);
    open_gate(rooms);
}

/// Makes a range of the program's memory shared, except for stacks and parts that are shared
/// already. `protection` is 0 if it is unknown.
pub(crate) fn convert(rooms: &mut Rooms, start: usize, end: usize, protection: u32) {
    let end = end.next_multiple_of(PAGE_BYTES);
    shut_gate(rooms);
    let stacks = &mut of(&mut *rooms.backend).stacks;
    if protection & NEW != 0 {
        // The range is new, so a stack that was there is gone. No hook reports that.
        stacks.remove(start, end);
    }
    let protection = protection & !NEW;
    let mut parts = Regions::new();
    rooms.memory.regions.gaps(start, end).into_iter().for_each(|(start, end)| parts.add(start, end));
    stacks.iter().for_each(|(start, end)| parts.remove(start, end));
    rooms.memory.exempt.iter().for_each(|&page| parts.remove(page, page + PAGE_BYTES));
    for (start, end) in parts.iter() {
        let protection = match protection {
            0 => maps::protection_of(start, end),
            known => Some(known),
        };
        if let Some(protection) = protection {
            share(rooms, start, end, protection);
        }
    }
    open_gate(rooms);
}

/// Makes a range shared that is one mapping. Pages that cannot be moved stay private.
fn share(rooms: &mut Rooms, start: usize, end: usize, protection: u32) {
    // From here on, a missing page stays missing until the agent fills it.
    match rooms.program.staging_uffd.register(start, end - start) {
        Ok(()) => {}
        // The range is not anonymous, or it has disappeared. The agent does not manage it.
        Err(Errno::INVAL | Errno::NOENT | Errno::PERM | Errno::BUSY) => return,
        Err(error) => cannot_be_managed(start, error),
    }
    let mut from = start;
    while from < end {
        let mut found = [NOTHING];
        let (count, to) = look_up(rooms, from, end, &mut found);
        let first = if count > 0 { found[0].start as usize } else { to };
        if first > from {
            map_file(rooms, from, first - from, protection);
            take_stock(rooms, from, first);
            from = first;
            continue;
        }
        let pages = ((found[0].end as usize - from) / PAGE_BYTES).min(rooms.disk.staging.batch_pages());
        make_room(rooms, pages);
        if !move_to_file(rooms, from, pages, protection) {
            // This part is left to the kernel, with everything behind it.
            let _ = rooms.program.staging_uffd.unregister(from, end - from);
            break;
        }
        from += pages * PAGE_BYTES;
    }
    let _ = rooms.program.staging_uffd.wake(start, end - start);
}

/// Moves present pages to the file, and maps the file in their place. Returns false if they cannot
/// be moved. They are then where they were.
fn move_to_file(rooms: &mut Rooms, from: usize, pages: usize, protection: u32) -> bool {
    let batch = take_batch(rooms, |rooms| rooms.disk.staging.take_empty());
    let (staged, length) = (rooms.disk.staging.address(batch, 0), pages * PAGE_BYTES);
    let (mut done, mut attempts) = (0, 0);
    // Ends: AGAIN lasts only while a fork copies the pager's own areas, and BUSY is counted.
    while done < length {
        // SAFETY: these are pages of the program, which waits if it touches them. They go to a
        // place where pages are missing.
        let progress =
            unsafe { rooms.program.staging_mover().take(staged + done, from + done, length - done) };
        match progress.error {
            None => done += progress.bytes,
            Some(Errno::AGAIN) => kernel::sched_yield(),
            Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
            Some(Errno::BUSY) if attempts < MOST_BUSY_ATTEMPTS => {
                attempts += 1;
                // The frame is shared with a parent or a child. A copy of its own can be moved.
                let _ = kernel::unshare(from + done);
            }
            Some(_) => {
                move_back(&rooms.program, from, staged, done);
                return false;
            }
        }
    }
    // SAFETY: this is the batch, whose frames are present.
    let bytes = unsafe { core::slice::from_raw_parts(staged as *const u8, length) };
    let file = &of(&mut *rooms.backend).file;
    let mut written = 0;
    while written < length {
        match rustix::io::pwrite(file, &bytes[written..], (from + written) as u64) {
            Ok(count) if count > 0 => written += count,
            Err(Errno::INTR) => {}
            Ok(_) => cannot_be_managed(from, Errno::IO),
            Err(error) => cannot_be_managed(from, error),
        }
    }
    // A frame may still be held by others, so it is given back to the kernel.
    drop_pages(staged, pages);
    map_file(rooms, from, length, protection);
    for address in (from..from + length).step_by(PAGE_BYTES) {
        let page = rooms.memory.pages.meet(address);
        rooms.memory.pages.set(page, State::RESIDENT);
        arrive(rooms, page);
    }
    true
}

/// Moves pages back that were moved out in vain. Ends: nothing but the agent uses the pages, so the
/// kernel asks for another try only for a moment.
fn move_back(program: &Program, to: usize, from: usize, length: usize) {
    let mut done = 0;
    while done < length {
        // SAFETY: the pages came from there.
        let progress = unsafe { program.staging_mover().give(to + done, from + done, length - done) };
        match progress.error {
            None => done += progress.bytes,
            Some(Errno::AGAIN | Errno::BUSY) => kernel::sched_yield(),
            Some(error) => give_up(format_args!("pages cannot be put back to {to:#x}: {error}")),
        }
    }
}

/// Maps the file where private memory was.
pub(super) fn map_file(rooms: &mut Rooms, start: usize, length: usize, protection: u32) {
    let (at, flags) = (start as *mut c_void, MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE);
    let protection = ProtFlags::from_bits_retain(protection);
    let file = &of(&mut *rooms.backend).file;
    // SAFETY: this replaces private memory of the program whose contents are now in the file. The
    // gate is shut.
    let mapped = unsafe { mmap(at, length, protection, flags, file, start as u64) };
    if let Err(error) = mapped {
        cannot_be_managed(start, error);
    }
    // SAFETY: this is advice. A kernel without huge pages refuses it, which does no harm.
    let _ = unsafe { madvise(at, length, Advice::LinuxNoHugepage) };
    if let Err(error) = rooms.program.uffd.register_shared(start, length) {
        cannot_be_managed(start, error);
    }
    rooms.memory.regions.add(start, start + length);
}

/// Ends the run, because the kernel refuses to have memory managed.
pub(crate) fn cannot_be_managed(start: usize, error: Errno) -> ! {
    give_up(format_args!(
        "memory at {start:#x} cannot be managed: {error}{}",
        if error == Errno::NOMEM { "; raise the sysctl vm.max_map_count" } else { "" }
    ))
}

/// Whether a mapping can be shared: it is neither the main stack nor code.
fn can_be_shared(mapping: &Mapping) -> bool {
    !mapping.is_stack && mapping.protection & raw::PROT_EXEC == 0
}
