//! The memfd backend: the program's memory as a shared mapping of a file in memory, for exact
//! reference and dirty bits.
//!
//! The page at address A is the page at offset A of the file, wherever in the address space that
//! is. So mappings that touch become one again, and no table has to say what is where.
//!
//! ```text
//!                      in the file, mapped         in the file, not mapped          not in the file
//!   put in    ------>  referenced       <------->  not referenced      ---------->  in the store, or zeros
//!   (write-protected)  touched: kernel maps it     punched: the next touch faults to the agent
//!                      zapped: bit is cleared
//! ```
//!
//! **Referenced** means *mapped*. To clear the bit, the agent unmaps the page (`MADV_DONTNEED`,
//! which leaves a file's page where it is). The kernel maps it again at the next touch, without
//! telling the agent. Memory is registered for write protection as well, which keeps the kernel
//! from mapping neighbours at the same time.
//!
//! **Dirty** means *not write-protected*. A page that comes from the store is put in
//! write-protected and keeps its slot. The kernel itself lifts the protection at the first write,
//! and remembers that in a marker when the page is unmapped. If a page is still protected when it
//! is evicted, it is in the store already and is not written again.
//!
//! **Eviction** loses no write. The agent pins the page (splices it into a pipe), then punches it
//! out of the file, which unmaps it everywhere, and only then copies it from the pin. By then no
//! thread can write to it.
//!
//! A page that comes in with its bit clear is about to be used by the access that faulted. That
//! access, and others up to the program's next fault, do not count: the agent unmaps the page when
//! it answers the next fault. So in a reference string, a page's fault stands for the faulting
//! reference and those right behind it. References made while the hands look (microseconds) count
//! as made before.
//!
//! # What it cannot do
//! Shared memory has limits that private memory does not have. Each is enforced:
//! * **fork** would leave parent and child with the same pages. While everything fits, nothing is
//!   shared and fork works. Once memory is paged, a fork ends the program, with a line, before
//!   there is a child. (The alternative was to refuse the fork. But many programs take a failed
//!   fork for a brief lack of memory and try again for ever. And a fork by a bare `clone` cannot be
//!   refused, only ended.) `vfork` and `posix_spawn` work, because their children run in the
//!   parent's memory until they execute another program. That program gets a pager of its own.
//! * **madvise** with `MADV_DONTNEED` or `MADV_FREE` would drop the mapping and not the contents.
//!   The agent replaces it, and drops both. `MADV_REMOVE` is refused, as for private memory, and so
//!   are bare system calls. Advice on huge pages is ignored.
//! * **mremap** would leave a page at an address that differs from its offset. The agent replaces
//!   it, and copies pages if memory cannot be enlarged in place. A call that does not come through
//!   the C library's function ends the program.
//! * **Guards** (`MADV_GUARD_INSTALL`) are refused, as by kernels that have none: over the marks of
//!   write protection the kernel would try to install one for ever.
//! * **Direct I/O** into memory that is being punched would be lost, so it is refused: see
//!   `filter`.
//! * **Everything else** stays native and is counted: stacks, code, and memory that is locked or
//!   under DMA when the agent takes over. The brk heap and .bss are taken over like any other
//!   memory. (Memory that is locked later is still paged. Its contents are right, but the program
//!   may have to wait for them.)
//!
//! Memory becomes shared only when it may not fit. Then the agent takes over each mapping piece by
//! piece (`takeover`): it moves the pages out, writes them to the file, and maps the file in their
//! place. A thread that touches them meanwhile waits. (No thread may wait at that moment on a futex
//! in private memory that processes could share, because the futex's name changes.)

mod filter;
pub(crate) mod remap;
pub(crate) mod takeover;

pub(crate) use filter::refuse_unseen;

use crate::account::Known;
use crate::backend::{Backend, Contents, Taken, Work};
use crate::control::Control;
use crate::exact_bits::{ExactBits, Queue, Queues, Source};
use crate::failure::give_up;
use crate::kernel::{Copied, PAGE_BYTES, Progress, Userfaultfd, WRITTEN, scan};
use crate::pagemap::{NOTHING, Pagemap};
use crate::pages::{Flag, Pages, State};
use crate::program::Program;
use crate::regions::Regions;
use crate::staging::{Staging, drop_pages};
use crate::syscall::advise;
use alloc::vec::Vec;
use core::any::Any;
use linux_raw_sys::general::MADV_DONTNEED;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, ftruncate, memfd_create, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use sweephand_policy::PageId;

/// Bits of a user's address: the file is as long.
const ADDRESS_BITS: u32 = 47;
/// Faults between two counts of native memory: stacks grow, and threads come and go, without a
/// word.
const COUNTED_EVERY: usize = 4096;

/// The backend's own state.
#[derive(Debug)]
pub struct Memfd {
    /// The program's memory, by address.
    file: OwnedFd,
    /// Where pages are pinned: the end to read from, and the end to write to.
    pins: (OwnedFd, OwnedFd),
    /// How many pages can be pinned at a time.
    most_pins: usize,
    /// Pages that are to be unmapped.
    queues: Queues,
    /// Stacks of threads, as far as known.
    stacks: Regions,
    /// Pages of the program's anonymous memory that are not managed, at the last count.
    native_pages: usize,
    /// Faults since that count.
    uncounted: usize,
}

impl Memfd {
    /// Makes the file, with nothing in it yet.
    pub(crate) fn open(batch_pages: usize) -> Self {
        refuse_huge_pages();
        Self::make(batch_pages)
    }

    fn make(batch_pages: usize) -> Self {
        let no_file = |error| -> ! {
            give_up(format_args!(
                "a file in memory cannot be made for the memfd backend: {error}{}",
                if error == Errno::FBIG { "; lift the limit of file sizes (ulimit -f)" } else { "" }
            ))
        };
        let file =
            memfd_create(c"sweephand-memory", MemfdFlags::CLOEXEC).unwrap_or_else(|error| no_file(error));
        ftruncate(&file, 1 << ADDRESS_BITS).unwrap_or_else(|error| no_file(error));
        let pins = pipe_with(PipeFlags::CLOEXEC).unwrap_or_else(|error| no_file(error));
        // Unprivileged users may get less than they ask for, or nothing more.
        let _ = fcntl_setpipe_size(&pins.1, batch_pages * PAGE_BYTES);
        let pipe_bytes = fcntl_getpipe_size(&pins.1).unwrap_or(PAGE_BYTES);
        Self {
            file,
            pins,
            most_pins: (pipe_bytes / PAGE_BYTES).clamp(1, batch_pages),
            queues: Queues::default(),
            stacks: Regions::new(),
            native_pages: 0,
            uncounted: 0,
        }
    }

    /// Takes pages out of the file. They are missing then wherever they were mapped.
    pub(crate) fn punch(&self, start: usize, length: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Ends: the kernel asks to be asked again only after a signal or under pressure.
        loop {
            match fallocate(&self.file, flags, start as u64, length as u64) {
                Ok(()) => return,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => give_up(format_args!("memory cannot be taken from the program: {error}")),
            }
        }
    }

    /// Holds on to pages of the file, at most `most_pins`, so that they outlive being punched out
    /// of it. What is not there reads as zeros.
    fn pin(&self, start: usize, length: usize) {
        let (mut offset, end) = (start as u64, (start + length) as u64);
        while offset < end {
            let left = (end - offset) as usize;
            match splice(&self.file, Some(&mut offset), &self.pins.1, None, left, SpliceFlags::empty()) {
                Ok(0) => give_up(format_args!("a page of the program's file in memory cannot be read")),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => give_up(format_args!("a page of the program's file in memory: {error}")),
            }
        }
    }

    /// Copies pinned pages, the oldest first, to memory of the pager's own, and lets them go.
    fn unpin(&self, to: usize, length: usize) {
        let mut done = 0;
        while done < length {
            // SAFETY: the pager's own memory, which is there and not used otherwise.
            let bytes = unsafe { core::slice::from_raw_parts_mut((to + done) as *mut u8, length - done) };
            match rustix::io::read(&self.pins.0, bytes) {
                Ok(0) => give_up(format_args!("pinned pages are gone")),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => give_up(format_args!("pinned pages cannot be read: {error}")),
            }
        }
    }

    /// A page is out of memory: clean, so that it is in its slot, or copied to the end of a batch.
    /// Returns how many pages left clean.
    fn leaves(work: &mut Work, page: PageId, batch: usize, clean: bool) -> usize {
        match work.pages.state(page).kept() {
            Some(slot) if clean => {
                work.pages.set(page, State::Stored(slot));
                return 1;
            }
            Some(slot) => work.store.free(slot),
            None => {}
        }
        let place = work.staging.push(batch, page);
        work.pages.set(page, State::Writing(place));
        0
    }

    /// A page in limbo was read ahead and never touched.
    fn take_out_of_limbo(work: &mut Work, page: PageId, batch: usize) -> Taken {
        let limbo = work.staging.limbo(page, &work.program.staging_uffd);
        let clean = work.pages.state(page).kept().is_some();
        if !clean {
            let end = work.staging.batches[batch].pages.len();
            let to = work.staging.address(batch, end) as *mut u8;
            // SAFETY: two pages of the pager's own, both there.
            unsafe { core::ptr::copy_nonoverlapping(limbo as *const u8, to, PAGE_BYTES) };
        }
        drop_pages(limbo, 1);
        Taken::Done { victims: 1, clean: Self::leaves(work, page, batch, clean) }
    }

    /// The kernel maps what it copies. Pages that no thread waits for are unmapped again before any
    /// thread is woken.
    unsafe fn copy_and_unmap(
        uffd: &Userfaultfd,
        to: usize,
        from: usize,
        length: usize,
        awaited: bool,
        protected: bool,
    ) -> Progress {
        // SAFETY: as the caller promises.
        let progress = unsafe { uffd.copy_as(to, from, length, Copied { protected, asleep: true }) };
        if progress.bytes > 0 {
            let mapped = if awaited { PAGE_BYTES } else { 0 };
            if progress.bytes > mapped {
                zap(to + mapped, progress.bytes - mapped);
            }
            let _ = uffd.wake(to, progress.bytes);
        }
        progress
    }
}

impl Backend for Memfd {
    /// Contents that the store has are put in write-protected, as clean.
    unsafe fn put_in(
        &self,
        uffd: &Userfaultfd,
        to: usize,
        from: usize,
        length: usize,
        contents: Contents,
        awaited: bool,
    ) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { Self::copy_and_unmap(uffd, to, from, length, awaited, contents == Contents::Stored) }
    }

    unsafe fn map_again(&self, program: &Program, to: usize, limbo: usize, length: usize) -> Progress {
        // SAFETY: as the caller promises. Pages come to limbo from the store.
        let progress = unsafe { Self::copy_and_unmap(&program.uffd, to, limbo, length, true, true) };
        if progress.error.is_none() {
            drop_pages(limbo, progress.bytes / PAGE_BYTES);
        }
        progress
    }

    fn most_mapped_again(&self) -> usize {
        1
    }

    fn take_batch(&self, staging: &mut Staging, uffd: &Userfaultfd, victims: usize) -> Option<usize> {
        staging.take_filled(victims, uffd)
    }

    fn take_out(&mut self, work: &mut Work, victims: &[PageId], batch: usize) -> Taken {
        let first = victims[0];
        match work.pages.state(first) {
            // Its number may be another page's by now.
            _ if !work.pages.has(first, Flag::Condemned) => return Taken::LEFT_ALONE,
            State::Resident { .. } => {}
            State::Limbo { .. } => return Self::take_out_of_limbo(work, first, batch),
            _ => return Taken::LEFT_ALONE,
        }
        let from = work.pages.address(first);
        let mut run = 1;
        while run < victims.len().min(self.most_pins)
            && work.pages.has(victims[run], Flag::Condemned)
            && work.pages.is_resident(victims[run])
            && work.pages.address(victims[run]) == from + run * PAGE_BYTES
        {
            run += 1;
        }
        self.pin(from, run * PAGE_BYTES);
        self.punch(from, run * PAGE_BYTES);
        let written = written(&work.program.pagemap, from, run);
        let is_clean = |index: usize| !written[index] && work.pages.state(victims[index]).kept().is_some();
        let clean: Vec<bool> = (0..run).map(is_clean).collect();
        let (mut index, mut left_clean) = (0, 0);
        for part in clean.chunk_by(|one, other| one == other) {
            // What is clean is written over by what comes next: there is no other way to get past
            // it.
            let end = work.staging.batches[batch].pages.len();
            self.unpin(work.staging.address(batch, end), part.len() * PAGE_BYTES);
            for &page in &victims[index..index + part.len()] {
                left_clean += Self::leaves(work, page, batch, part[0]);
            }
            index += part.len();
        }
        Taken::Done { victims: run, clean: left_clean }
    }

    /// The staging area has copies, whose frames are the pager's own.
    fn written(&self, _: &Staging, _: usize, _: usize) {}

    /// The page is still in the file.
    fn owns_present_pages(&self) -> bool {
        true
    }

    fn keeps_slot(&mut self, _: PageId, _: usize) -> bool {
        true
    }

    fn has_guards(&self) -> bool {
        false
    }

    fn serves_kernel(&self) -> bool {
        true
    }

    fn takes_over(&self) -> bool {
        true
    }

    fn bits<'a>(&'a mut self, pagemap: &'a Pagemap) -> Option<ExactBits<'a>> {
        Some(ExactBits::new(Source::Mapped(pagemap.file().as_fd()), &mut self.queues))
    }

    fn queues(&mut self) -> Option<&mut Queues> {
        Some(&mut self.queues)
    }

    fn is_touched(&mut self, pagemap: &Pagemap, address: usize) -> bool {
        self.queues.is_touched(Source::Mapped(pagemap.file().as_fd()), address)
    }

    fn clears_by_unmapping(&self) -> bool {
        true
    }

    fn clear_queued(&mut self, _: &Program, pages: &mut Pages, queue: Queue, count: usize) {
        self.queues.drain(pages, (queue, count), |start, count| zap(start, count * PAGE_BYTES));
    }

    fn is_count_due(&mut self) -> bool {
        self.uncounted += 1;
        self.uncounted >= COUNTED_EVERY
    }

    fn set_native_pages(&mut self, pages: usize) {
        self.native_pages = pages;
        self.uncounted = 0;
    }

    fn native_pages(&self) -> usize {
        self.native_pages
    }

    /// Pages that are pinned while they are copied.
    fn own_pages(&self) -> usize {
        self.most_pins
    }

    fn known(&self, resident: usize, _: usize) -> Known {
        Known { private: Some(0), shared: resident, reserve: self.most_pins }
    }

    fn has_stack(&mut self, start: usize, end: usize) {
        self.stacks.add(start, end);
    }

    fn dropped(&self, start: usize, length: usize) {
        self.punch(start, length);
    }

    fn unmapped(&mut self, start: usize, end: usize) {
        self.stacks.remove(start, end);
    }

    fn allow_move(&self) {
        give_up(format_args!(
            "has moved memory by a bare system call, which cannot be followed while it is paged through a memfd; run it \
             with --backend anon"
        ));
    }

    fn hold_for_fork(&mut self, managed: bool) {
        if managed {
            give_up(format_args!(
                "has forked, but memory that is paged through a memfd would be shared with its child; give it more \
                 memory, or run it with --backend anon"
            ));
        }
    }

    /// Nothing is managed yet. Otherwise the fork would have ended the program.
    fn begin_in_child(&mut self, _: &Control, _: &Program, batch_pages: usize, _: Option<OwnedFd>) {
        core::mem::forget(core::mem::replace(self, Self::open(batch_pages)));
    }
}

/// The memfd backend, for what no other backend does.
fn of(backend: &mut dyn Backend) -> &mut Memfd {
    let backend: &mut dyn Any = backend;
    backend.downcast_mut().expect("only the memfd backend takes memory over")
}

/// Which of so many pages from an address on have been written to since they were put in.
fn written(pagemap: &Pagemap, from: usize, count: usize) -> Vec<bool> {
    let mut written = alloc::vec![false; count];
    let (mut start, end) = (from, from + count * PAGE_BYTES);
    while start < end {
        let mut found = [NOTHING; 32];
        let Ok((regions, to)) = scan(pagemap.file(), start, end, WRITTEN, &mut found) else {
            // To be on the safe side.
            written[(start - from) / PAGE_BYTES..].fill(true);
            break;
        };
        for region in &found[..regions] {
            let index = |address: u64| (address as usize - from) / PAGE_BYTES;
            written[index(region.start)..index(region.end)].fill(true);
        }
        start = to.max(start + PAGE_BYTES);
    }
    written
}

/// Huge pages of files in memory would come in where single ones are counted.
fn refuse_huge_pages() {
    const SETTING: &core::ffi::CStr = c"/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let Ok(file) = open(SETTING, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else { return };
    let mut text = [0_u8; 128];
    let length = rustix::io::read(&file, &mut text).unwrap_or(0);
    let text = core::str::from_utf8(&text[..length]).unwrap_or_default();
    if ["[always]", "[within_size]", "[force]"].iter().any(|setting| text.contains(setting)) {
        give_up(format_args!(
            "huge pages are on for files in memory, which the memfd backend cannot page: write never to {}",
            SETTING.to_str().unwrap_or_default()
        ));
    }
}

/// Unmaps pages of the file; the next touch maps them again. Locked memory stays mapped,
/// because it is always in use.
fn zap(start: usize, length: usize) {
    // SAFETY: contents stay in the file, and the mapping is the file's: the gate is shut.
    let _ = unsafe { advise(start, length, MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own;
    use crate::testing::at;

    #[test]
    fn pages_outlive_being_punched_out_while_they_are_pinned() {
        const PAGES: usize = 3;
        let memfd = Memfd::make(8);
        let (start, length) = (at(5), PAGES * PAGE_BYTES);
        for page in [0, 2] {
            let bytes = [page as u8 + 1; PAGE_BYTES];
            rustix::io::pwrite(&memfd.file, &bytes, at(5 + page) as u64).unwrap();
        }
        let to = own::map(length).unwrap();
        memfd.pin(start, length);
        memfd.punch(start, length);
        let mut left = [9_u8; PAGE_BYTES];
        rustix::io::pread(&memfd.file, &mut left, start as u64).unwrap();
        assert_eq!(left, [0; PAGE_BYTES]);
        memfd.unpin(to, length);
        // SAFETY: this is a mapping of the test.
        let bytes = unsafe { core::slice::from_raw_parts(to as *const u8, length) };
        let first: Vec<u8> = bytes.chunks(PAGE_BYTES).map(|page| page[7]).collect();
        assert_eq!(first, [1, 0, 3], "what is not there reads as zeros");
    }

    #[test]
    fn native_memory_is_counted_now_and_then() {
        let mut memfd = Memfd::make(8);
        assert_eq!((1..COUNTED_EVERY).filter(|_| memfd.is_count_due()).count(), 0);
        assert!(memfd.is_count_due());
        memfd.set_native_pages(12);
        assert!(!memfd.is_count_due());
        assert_eq!(memfd.native_pages(), 12);
    }
}
