//! How private memory becomes shared.

use super::NOTHING;
use crate::agent::{Agent, LEAST_FRAMES, make_policy};
use crate::failure::give_up;
use crate::mailbox::NEW;
use crate::maps::{self, Mapping};
use crate::pages::State;
use crate::regions::Regions;
use alloc::vec::Vec;
use core::ffi::c_void;
use linux_raw_sys::general as raw;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};
use sweephand_uffd::PAGE_BYTES;

/// How often the agent retries a page under DMA before it leaves the memory native.
const PATIENCE: usize = 64;

impl Agent {
    /// Starts to manage all memory of the program that can be shared.
    pub(crate) fn convert_all(&mut self) {
        self.shut_gate();
        if self.regions.iter().next().is_none() {
            // The policy has seen no page yet, and it is now known how many frames it will have.
            self.count_native(|mapping| mapping.can_be_shared());
            let native = self.memfd.as_ref().map_or(0, |memfd| memfd.native_pages);
            self.policy_frames = self.frames_beside(self.own_pages() + native);
            if self.policy_frames < LEAST_FRAMES {
                give_up(format_args!(
                    "{} MiB of stacks and the like cannot be paged: the limit is too small for them",
                    (native * PAGE_BYTES) >> 20
                ));
            }
            self.policy = make_policy(self.control, self.policy_frames);
        }
        for mapping in self.mappings().into_iter().filter(Mapping::can_be_shared) {
            self.convert(mapping.start, mapping.end, mapping.protection);
        }
        self.count_native(|_| false);
        self.open_gate();
    }

    /// Makes a range of the program's memory shared, except for stacks and parts that are shared
    /// already. `protection` is 0 if it is unknown.
    pub(crate) fn convert(&mut self, start: usize, end: usize, protection: u32) {
        let end = end.next_multiple_of(PAGE_BYTES);
        self.shut_gate();
        if let Some(memfd) = self.memfd.as_mut().filter(|_| protection & NEW != 0) {
            // The range is new, so a stack that was there is gone. No hook reports that.
            memfd.stacks.remove(start, end);
        }
        let protection = protection & !NEW;
        let mut parts = Regions::new();
        self.regions.gaps(start, end).into_iter().for_each(|(start, end)| parts.add(start, end));
        if let Some(memfd) = &self.memfd {
            memfd.stacks.iter().for_each(|(start, end)| parts.remove(start, end));
        }
        self.exempt.iter().for_each(|&page| parts.remove(page, page + PAGE_BYTES));
        for (start, end) in parts.iter().collect::<Vec<_>>() {
            let protection = match protection {
                0 => self.protection_of(start, end),
                known => Some(known),
            };
            if let Some(protection) = protection {
                self.share(start, end, protection);
            }
        }
        self.open_gate();
    }

    /// Makes a range shared that is one mapping. Pages that cannot be moved stay private.
    fn share(&mut self, start: usize, end: usize, protection: u32) {
        // From here on, a missing page stays missing until the agent fills it.
        match self.staging_uffd.register(start, end - start) {
            Ok(()) => {}
            // The range is not anonymous, or it has disappeared. The agent does not manage it.
            Err(Errno::INVAL | Errno::NOENT | Errno::PERM | Errno::BUSY) => return,
            Err(error) => cannot_be_shared(start, error),
        }
        let mut from = start;
        while from < end {
            let mut found = [NOTHING];
            let (count, to) = match self.pagemap.present(from, end, &mut found) {
                Ok(result) => result,
                Err(error) => give_up(format_args!("/proc/self/pagemap: cannot be scanned: {error}")),
            };
            let first = if count > 0 { found[0].start as usize } else { to };
            if first > from {
                self.map_file(from, first - from, protection);
                self.take_stock(from, first);
                from = first;
                continue;
            }
            let pages = ((found[0].end as usize - from) / PAGE_BYTES).min(self.staging.batch_pages());
            self.make_room(pages);
            if !self.move_to_file(from, pages, protection) {
                // This part is left to the kernel, with everything behind it.
                let _ = self.staging_uffd.unregister(from, end - from);
                break;
            }
            from += pages * PAGE_BYTES;
        }
        let _ = self.staging_uffd.wake(start, end - start);
    }

    /// Moves present pages to the file, and maps the file in their place. Returns false if they
    /// cannot be moved. They are then where they were.
    fn move_to_file(&mut self, from: usize, pages: usize, protection: u32) -> bool {
        let batch = loop {
            match self.staging.take_empty() {
                Some(batch) => break batch,
                None => self.reap_one(),
            }
        };
        let (staged, length) = (self.staging.address(batch, 0), pages * PAGE_BYTES);
        let (mut done, mut attempts) = (0, 0);
        while done < length {
            // SAFETY: these are pages of the program, which waits if it touches them. They go to a
            // place where pages are missing.
            let progress = unsafe { self.staging_uffd.move_pages(staged + done, from + done, length - done) };
            match progress.error {
                None => done += progress.bytes,
                Some(Errno::AGAIN) => rustix::thread::sched_yield(),
                Some(Errno::NOMEM) => give_up(format_args!("the system has run out of memory")),
                Some(Errno::BUSY) if attempts < PATIENCE => {
                    attempts += 1;
                    // The frame is shared with a parent or a child. A copy of its own can be moved.
                    // SAFETY: this leaves the contents as they are. The page is present, so the
                    // agent gets no fault.
                    let _ = unsafe {
                        madvise((from + done) as *mut c_void, PAGE_BYTES, Advice::LinuxPopulateWrite)
                    };
                }
                Some(_) => {
                    self.move_back(from, staged, done);
                    return false;
                }
            }
        }
        // SAFETY: this is the batch, whose frames are present.
        let bytes = unsafe { core::slice::from_raw_parts(staged as *const u8, length) };
        let Some(memfd) = &self.memfd else { return false };
        let mut written = 0;
        while written < length {
            match rustix::io::pwrite(&memfd.file, &bytes[written..], (from + written) as u64) {
                Ok(count) if count > 0 => written += count,
                Err(Errno::INTR) => {}
                Ok(_) => cannot_be_shared(from, Errno::IO),
                Err(error) => cannot_be_shared(from, error),
            }
        }
        // A frame may still be held by others, so it is given back to the kernel.
        self.staging.drop_pages(staged, pages);
        self.map_file(from, length, protection);
        for address in (from..from + length).step_by(PAGE_BYTES) {
            let page = self.pages.meet(address);
            self.pages.set(page, State::Resident, 0);
            self.arrive(page);
        }
        true
    }

    /// Moves pages back that were moved out in vain.
    fn move_back(&self, to: usize, from: usize, length: usize) {
        let mut done = 0;
        while done < length {
            // SAFETY: the pages came from there.
            let progress = unsafe { self.staging_uffd.move_pages(to + done, from + done, length - done) };
            match progress.error {
                None => done += progress.bytes,
                Some(Errno::AGAIN | Errno::BUSY) => rustix::thread::sched_yield(),
                Some(error) => give_up(format_args!("pages cannot be put back to {to:#x}: {error}")),
            }
        }
    }

    /// Maps the file where private memory was.
    pub(super) fn map_file(&mut self, start: usize, length: usize, protection: u32) {
        let Some(memfd) = &self.memfd else { return };
        let (at, flags) = (start as *mut c_void, MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE);
        let protection = ProtFlags::from_bits_retain(protection);
        // SAFETY: this replaces private memory of the program whose contents are now in the file.
        // The gate is shut.
        let mapped = unsafe { mmap(at, length, protection, flags, &memfd.file, start as u64) };
        if let Err(error) = mapped {
            cannot_be_shared(start, error);
        }
        // SAFETY: this is advice. A kernel without huge pages refuses it, which does no harm.
        let _ = unsafe { madvise(at, length, Advice::LinuxNoHugepage) };
        if let Err(error) = self.uffd.register_shared(start, length) {
            cannot_be_shared(start, error);
        }
        self.regions.add(start, start + length);
    }

    /// The program's private anonymous writable memory, without the pager's own.
    fn mappings(&self) -> Vec<Mapping> {
        let Some((mappings, text)) = maps::read() else {
            give_up(format_args!("/proc/self/maps: cannot be read"))
        };
        let mut own = Regions::new();
        crate::own::mappings().chain(crate::own::library()).for_each(|(start, end)| own.add(start, end));
        drop(text);
        let parts = |mapping: Mapping| {
            own.gaps(mapping.start, mapping.end).into_iter().map(move |(start, end)| Mapping {
                start,
                end,
                ..mapping
            })
        };
        mappings.into_iter().flat_map(parts).collect()
    }

    /// Counts the present pages of memory that is not managed, except for mappings that
    /// `is_not_counted` selects.
    pub(crate) fn count_native(&mut self, is_not_counted: impl Fn(&Mapping) -> bool) {
        let counted = self.mappings().into_iter().filter(|mapping| !is_not_counted(mapping));
        let native_pages = counted.map(|mapping| self.present(mapping.start, mapping.end)).sum();
        if let Some(memfd) = &mut self.memfd {
            memfd.native_pages = native_pages;
            memfd.uncounted = 0;
        }
    }

    /// The protection of a range, if it is the same everywhere in the range.
    pub(super) fn protection_of(&self, start: usize, end: usize) -> Option<u32> {
        maps::protection_of(start, end)
    }
}

fn cannot_be_shared(start: usize, error: Errno) -> ! {
    give_up(format_args!(
        "memory at {start:#x} cannot be managed: {error}{}",
        if error == Errno::NOMEM { "; raise the sysctl vm.max_map_count" } else { "" }
    ))
}

impl Mapping {
    /// Whether the mapping can be shared: it is neither the main stack nor code.
    fn can_be_shared(&self) -> bool {
        !self.is_stack && self.protection & raw::PROT_EXEC == 0
    }
}
