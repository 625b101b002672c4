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
mod remap;
mod takeover;

pub(crate) use filter::{advise, open_direct, refuse_unseen, ring_setup};

use crate::agent::Agent;
use crate::control::add;
use crate::failure::give_up;
use crate::gate::GATE;
use crate::pages::{Flag, Pages, State};
use crate::regions::Regions;
use alloc::vec::Vec;
use linux_raw_sys::general::MADV_DONTNEED;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, ftruncate, memfd_create, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use sweephand_policy::PageId;
use sweephand_uffd::{
    Copied, EVENT_FORK, EVENT_REMAP, EVENT_UNMAP, PAGE_BYTES, PRESENT, Progress, Region, SHARED, WRITTEN,
    scan,
};

/// What the userfaultfd of shared memory has to do. Not to tell of `madvise`: it is the agent's own
/// way to clear bits.
pub const FEATURES: u64 = EVENT_FORK | EVENT_REMAP | EVENT_UNMAP | SHARED;
/// Bits of a user's address: the file is as long.
const ADDRESS_BITS: u32 = 47;
/// Faults between two counts of native memory: stacks grow, and threads come and go, without a
/// word.
const COUNTED_EVERY: usize = 4096;
/// Times that the program's changes are waited for before those that wait for us get a turn.
const PATIENCE: usize = 1 << 16;

/// Why a program ends that forks.
pub const FORKED: &str = "has forked, but memory that is paged through a memfd would be shared with its child; give it more \
                          memory, or run it with --backend anon";
/// Why a program ends that moves memory in a way that is not seen in time.
pub const UNSEEN_REMAP: &str = "has moved memory by a bare system call, which cannot be followed while it is paged through \
                                a memfd; run it with --backend anon";

/// The backend's own state.
#[derive(Debug)]
pub struct Memfd {
    /// The program's memory, by address.
    file: OwnedFd,
    /// Where pages are pinned: the end to read from, and the end to write to.
    pins: (OwnedFd, OwnedFd),
    /// How many pages can be pinned at a time.
    most_pins: usize,
    /// Pages put in with a clear bit for an access that is being made. They, and `cleared`, have
    /// the flag `Queued`.
    awaited: Vec<u32>,
    /// Pages whose bits have been cleared, to be unmapped when the hands are at rest.
    cleared: Vec<u32>,
    /// Pages evicted lately that did not have to be written.
    dropped: usize,
    /// How often the gate has been shut, less how often opened.
    gate_depth: usize,
    /// Stacks of threads, as far as known.
    pub(crate) stacks: Regions,
    /// Pages of the program's anonymous memory that are not managed, at the last count.
    pub(crate) native_pages: usize,
    /// Faults since that count.
    uncounted: usize,
}

/// The reference bits, for as long as a policy looks at them.
#[derive(Debug)]
pub struct ExactBits<'a> {
    pagemap: BorrowedFd<'a>,
    cleared: &'a mut Vec<u32>,
    /// What was seen of the pages from an address on: how many were looked at, and a bit for each
    /// that was mapped.
    seen: (usize, usize, u64),
    /// The page behind the one asked about last. Hands mostly go in the order of addresses, as
    /// pages came in.
    next: usize,
}

impl ExactBits<'_> {
    /// The same, for a shorter time.
    pub fn again(&mut self) -> ExactBits<'_> {
        ExactBits { pagemap: self.pagemap, cleared: self.cleared, seen: self.seen, next: self.next }
    }

    /// Whether a page is mapped. Of pages in a row many are looked at by one call.
    fn is_mapped(&mut self, address: usize) -> bool {
        let (from, count, _) = self.seen;
        if !(from..from + count * PAGE_BYTES).contains(&address) {
            let count = if address == self.next { MOST_SEEN } else { 1 };
            self.seen = (address, count, self.look(address, count));
        }
        self.next = address + PAGE_BYTES;
        let (from, _, mapped) = self.seen;
        mapped >> ((address - from) / PAGE_BYTES) & 1 != 0
    }

    /// Which of at most 64 pages are mapped, a bit each. Pages for which that is unknown count as
    /// mapped.
    fn look(&self, from: usize, count: usize) -> u64 {
        let mut found = [NOTHING; MOST_SEEN];
        let end = from + count * PAGE_BYTES;
        let Ok((regions, _)) = scan(self.pagemap, from, end, PRESENT, &mut found) else { return u64::MAX };
        let index = |address: u64| (address as usize - from) / PAGE_BYTES;
        let pages = found[..regions].iter().flat_map(|region| index(region.start)..index(region.end));
        pages.fold(0, |mapped, page| mapped | 1 << page)
    }

    /// Whether a page has been referenced since this was last asked.
    pub fn test_and_clear(&mut self, pages: &mut Pages, page: PageId) -> bool {
        if pages.state(page) != State::Resident || pages.has(page, Flag::Queued) {
            return false;
        }
        let referenced = self.is_mapped(pages.address(page));
        if referenced {
            pages.mark(page, Flag::Queued, true);
            self.cleared.push(page.0);
        }
        referenced
    }
}

/// Most pages that are looked at together: as many as a word has bits.
const MOST_SEEN: usize = 64;
const NOTHING: Region = Region { start: 0, end: 0, categories: 0 };

impl Memfd {
    /// Makes the file, with nothing in it yet.
    pub fn open(batch_pages: usize) -> Self {
        refuse_huge_pages();
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
            awaited: Vec::new(),
            cleared: Vec::new(),
            dropped: 0,
            gate_depth: 0,
            stacks: Regions::new(),
            native_pages: 0,
            uncounted: 0,
        }
    }

    /// Pages that are in memory for the backend's own sake: pinned while they are copied.
    pub(crate) fn own_pages(&self) -> usize {
        self.most_pins
    }

    /// The reference bits, for a policy to look at.
    pub(crate) fn bits<'a>(&'a mut self, pagemap: &'a OwnedFd) -> ExactBits<'a> {
        ExactBits { pagemap: pagemap.as_fd(), cleared: &mut self.cleared, seen: (0, 0, 0), next: 0 }
    }

    /// A page has come in, mapped, for an access that is about to be made.
    pub(crate) fn awaited(&mut self, pages: &mut Pages, page: PageId) {
        if !pages.mark(page, Flag::Queued, true) {
            self.awaited.push(page.0);
        }
    }

    /// The policy has given a page up. Until it goes it is watched for a touch.
    pub(crate) fn condemned(&mut self, pages: &mut Pages, page: PageId) {
        if pages.state(page) == State::Resident && !pages.mark(page, Flag::Queued, true) {
            self.cleared.push(page.0);
        }
    }

    /// How many pages have been evicted without a write since this was last asked.
    pub(crate) fn take_dropped(&mut self) -> usize {
        core::mem::take(&mut self.dropped)
    }

    /// Takes pages out of the file. They are missing then wherever they were mapped.
    pub(crate) fn punch(&self, start: usize, length: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
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
            // SAFETY: the pager's own memory, which is there and used by nobody else.
            let bytes = unsafe { core::slice::from_raw_parts_mut((to + done) as *mut u8, length - done) };
            match rustix::io::read(&self.pins.0, bytes) {
                Ok(0) => give_up(format_args!("pinned pages are gone")),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => give_up(format_args!("pinned pages cannot be read: {error}")),
            }
        }
    }
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

impl Agent {
    /// Keeps the program's threads off changes to the address space until [`Agent::open_gate`], and
    /// learns of those that have been made. Other backends need no such thing.
    pub(crate) fn shut_gate(&mut self) {
        let Some(memfd) = &mut self.memfd else { return };
        memfd.gate_depth += 1;
        if memfd.gate_depth > 1 {
            return;
        }
        GATE.shut();
        let mut in_vain = 0;
        while GATE.is_passed() {
            self.settle();
            in_vain += 1;
            // A signal handler on a thread that is within may want to pass.
            if in_vain % PATIENCE == 0 {
                GATE.open();
                rustix::thread::sched_yield();
                GATE.shut();
            }
        }
        self.catch_up();
    }

    /// The program's threads may change the address space again.
    pub(crate) fn open_gate(&mut self) {
        let Some(memfd) = &mut self.memfd else { return };
        memfd.gate_depth -= 1;
        if memfd.gate_depth == 0 {
            GATE.open();
        }
    }

    /// A thread has come to its next fault: the accesses that earlier ones were for have been made.
    pub(crate) fn end_accesses(&mut self) {
        let Some(memfd) = &mut self.memfd else { return };
        memfd.uncounted += 1;
        let is_time = memfd.uncounted >= COUNTED_EVERY;
        let awaited = core::mem::take(&mut memfd.awaited);
        let awaited = self.unmap_queued(awaited);
        if let Some(memfd) = &mut self.memfd {
            memfd.awaited = awaited;
        }
        if is_time {
            self.count_native(|_| false);
        }
    }

    /// Unmaps the pages whose bits the hands have cleared.
    pub(crate) fn unmap_cleared(&mut self) {
        let Some(memfd) = &mut self.memfd else { return };
        let cleared = core::mem::take(&mut memfd.cleared);
        let cleared = self.unmap_queued(cleared);
        if let Some(memfd) = &mut self.memfd {
            memfd.cleared = cleared;
        }
    }

    /// Takes those out of the victims that have been touched since the policy gave them up. For the
    /// policy they come in anew, as they would have if they had been gone already.
    pub(crate) fn spare_touched(&mut self, victims: &mut Vec<PageId>) {
        if self.memfd.is_none() {
            return;
        }
        let touched = |page: &PageId| {
            let address = self.pages.address(*page);
            self.pages.has(*page, Flag::Condemned)
                && self.pages.state(*page) == State::Resident
                && !self.pages.has(*page, Flag::Queued)
                && scan(self.pagemap.file(), address, address + PAGE_BYTES, PRESENT, &mut [NOTHING])
                    .is_ok_and(|(count, _)| count > 0)
        };
        let spared: Vec<PageId> = victims.extract_if(.., |page| touched(page)).collect();
        for page in spared {
            add(&self.control.counters.rescues, 1);
            self.pages.mark(page, Flag::Condemned, false);
            self.came_in(page, true);
        }
    }

    /// Unmaps pages that have the flag for it, neighbours by one call. Returns the list, empty.
    fn unmap_queued(&mut self, mut list: Vec<u32>) -> Vec<u32> {
        if list.is_empty() {
            return list;
        }
        self.shut_gate();
        let pages = &mut self.pages;
        list.retain(|&page| {
            pages.mark(PageId(page), Flag::Queued, false) && pages.state(PageId(page)) == State::Resident
        });
        list.sort_unstable_by_key(|&page| pages.address(PageId(page)));
        let follows = |one: &u32, other: &u32| {
            pages.address(PageId(*one)) + PAGE_BYTES == pages.address(PageId(*other))
        };
        for run in list.chunk_by(follows) {
            zap(pages.address(PageId(run[0])), run.len() * PAGE_BYTES);
        }
        self.open_gate();
        list.clear();
        list
    }

    /// Copies the contents of pages that keep their slots to where the program expects them, as
    /// clean. If the first is `awaited` by a thread, it is left mapped.
    ///
    /// # Safety
    /// As for [`sweephand_uffd::Userfaultfd::copy`].
    pub(crate) unsafe fn copy_in(&self, to: usize, from: usize, length: usize, awaited: bool) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.copy_and_unmap(to, from, length, awaited, true) }
    }

    /// The same for what the store does not have: zeros where nothing was, or what has been written
    /// to.
    ///
    /// # Safety
    /// As for [`sweephand_uffd::Userfaultfd::copy`].
    pub(crate) unsafe fn dirty_in(&self, to: usize, from: usize, length: usize, awaited: bool) -> Progress {
        // SAFETY: as the caller promises.
        unsafe { self.copy_and_unmap(to, from, length, awaited, false) }
    }

    /// The kernel maps what it copies. Pages that no thread waits for are unmapped again before any
    /// thread is woken.
    unsafe fn copy_and_unmap(
        &self,
        to: usize,
        from: usize,
        length: usize,
        awaited: bool,
        protected: bool,
    ) -> Progress {
        // SAFETY: as the caller promises.
        let progress = unsafe { self.uffd.copy_as(to, from, length, Copied { protected, asleep: true }) };
        if progress.bytes > 0 {
            let mapped = if awaited { PAGE_BYTES } else { 0 };
            if progress.bytes > mapped {
                zap(to + mapped, progress.bytes - mapped);
            }
            let _ = self.uffd.wake(to, progress.bytes);
        }
        progress
    }

    /// Takes the first of the victims out of memory, and those behind it that are its neighbours:
    /// what has been written to goes to the end of a batch, what has not is in the store already.
    /// Returns how many are dealt with.
    pub(crate) fn take_out(&mut self, victims: &[PageId], batch: usize) -> usize {
        let first = victims[0];
        match self.pages.state(first) {
            // Its number may be another page's by now.
            _ if !self.pages.has(first, Flag::Condemned) => return 1,
            State::Resident => {}
            State::Limbo => {
                self.take_out_of_limbo(first, batch);
                return 1;
            }
            _ => return 1,
        }
        let Some(memfd) = &self.memfd else { return 0 };
        let from = self.pages.address(first);
        let mut run = 1;
        while run < victims.len().min(memfd.most_pins)
            && self.pages.has(victims[run], Flag::Condemned)
            && self.pages.state(victims[run]) == State::Resident
            && self.pages.address(victims[run]) == from + run * PAGE_BYTES
        {
            run += 1;
        }
        memfd.pin(from, run * PAGE_BYTES);
        memfd.punch(from, run * PAGE_BYTES);
        let written = self.written(from, run);
        let is_clean = |index: usize| !written[index] && self.pages.kept_slot(victims[index]).is_some();
        let clean: Vec<bool> = (0..run).map(is_clean).collect();
        let mut index = 0;
        for part in clean.chunk_by(|one, other| one == other) {
            // What is clean is written over by what comes next: there is no other way to get past
            // it.
            let end = self.staging.batches[batch].pages.len();
            if let Some(memfd) = &self.memfd {
                memfd.unpin(self.staging.address(batch, end), part.len() * PAGE_BYTES);
            }
            for &page in &victims[index..index + part.len()] {
                self.leaves(page, batch, part[0]);
            }
            index += part.len();
        }
        run
    }

    /// A page is out of memory: clean, so that it is in its slot, or copied to the end of a batch.
    fn leaves(&mut self, page: PageId, batch: usize, clean: bool) {
        match self.pages.kept_slot(page) {
            Some(slot) if clean => {
                self.pages.set(page, State::Stored, slot);
                if let Some(memfd) = &mut self.memfd {
                    memfd.dropped += 1;
                }
                return;
            }
            Some(slot) => self.store.free(slot),
            None => {}
        }
        let index = self.staging.batches[batch].pages.len();
        self.pages.set(page, State::Writing, self.staging.place(batch, index));
        self.staging.batches[batch].pages.push(page);
    }

    /// A page in limbo was read ahead and never touched.
    fn take_out_of_limbo(&mut self, page: PageId, batch: usize) {
        let limbo = self.limbo(page);
        let clean = self.pages.kept_slot(page).is_some();
        if !clean {
            let end = self.staging.batches[batch].pages.len();
            let to = self.staging.address(batch, end) as *mut u8;
            // SAFETY: two pages of the pager's own, both there.
            unsafe { core::ptr::copy_nonoverlapping(limbo as *const u8, to, PAGE_BYTES) };
        }
        self.staging.drop_pages(limbo, 1);
        self.leaves(page, batch, clean);
    }

    /// Whether a page is in the slot that it keeps as it was in memory.
    fn is_clean(&self, page: PageId) -> bool {
        self.pages.kept_slot(page).is_some() && !self.written(self.pages.address(page), 1)[0]
    }

    /// Which of so many pages from an address on have been written to since they were put in.
    fn written(&self, from: usize, count: usize) -> Vec<bool> {
        let mut written = alloc::vec![false; count];
        let (mut start, end) = (from, from + count * PAGE_BYTES);
        while start < end {
            let mut found = [NOTHING; 32];
            let Ok((regions, to)) = scan(self.pagemap.file(), start, end, WRITTEN, &mut found) else {
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
}

/// Unmaps pages of the file; the next touch maps them again. Locked memory stays mapped,
/// because it is always in use.
fn zap(start: usize, length: usize) {
    // SAFETY: contents stay in the file, and the mapping is the file's: the gate is shut.
    let _ = unsafe { advise(start, length, MADV_DONTNEED) };
}
