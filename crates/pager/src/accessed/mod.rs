//! Accessed bits: a BPF program that tells a process which of its own pages the processor has used.
//!
//! The processor sets a bit in the page table when it uses a page. The kernel shows these bits to
//! nobody, but a BPF program may read kernel memory. The command loads such a program and gives it
//! to the agents. It walks the page table of the process that runs it, and gives back nothing but
//! bits. So an agent cannot read the kernel with it, nor another process.
//!
//! ```text
//!   command                                        agent
//!   server: waits for agents             <------  begins to page, and asks
//!   btf   offsets in task_struct, mm_struct
//!   peek  where the kernel sees all memory
//!   walk  the program for agents, tried  ---fd-->  BPF_PROG_TEST_RUN: 64 pages a query
//!                                                  MADV_COLD: clears bits
//!   walk  the program for the command              the same, of any process by its number
//! ```
//!
//! Loading lasts milliseconds, and most programs fit into their memory. So they start without it,
//! and it is loaded when the first of their processes begins to page. `--reference-bits hardware`
//! loads it first, because without it there is no run.
//!
//! The command has the second program to direct the kernel's paging from outside (`swap`), and a
//! third, which reads whole tables, to watch a process (`watch`). They never leave the command.
//!
//! Loading takes root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, and a kernel with BTF. Running
//! takes the descriptor alone. Where there is no such program, agents get reference bits from the
//! kernel's read-write protection, or keep them in software (`bit_source` in the agent).
//!
//! **What can be missed.** To read a bit and to clear it are two steps. A page that is used between
//! the two loses that reference. The agent clears what it has read as used at the end of the same
//! turn of its loop, before it waits for anything. While the program unmaps memory, the walk may
//! read a page table that has just been freed: then bits of pages that are being unmapped are
//! wrong. The kernel clears bits for its own purposes when it reclaims memory or samples its use
//! (DAMON).
//!
//! **What can be seen twice.** `MADV_COLD` leaves the bit of a page alone that waits in another
//! processor's list for its place among the pages by age. Each list has at most 31 pages. Such a
//! page counts as used once more. Nor does it clear the bits of pages that are shared since a fork:
//! these count as used until one of the processes has written to its copy or has ended. A huge page
//! has one bit: if a part is used, all of it is.
//!
//! None of this can make contents wrong: bits only tell a policy what is in use.

mod btf;
mod layout;
mod program;
mod server;
mod walk;

use crate::PAGE_BYTES;
use layout::{Layout, TaskFunctions};
use program::Program;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
pub(crate) use server::ProgramServer;
use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use sweephand_pager_interface::accessed::{GROUP_PAGES, Query};
pub(crate) use walk::TABLE_PAGES;
use walk::{ProcessQuery, TableQuery};

/// Why there are no accessed bits to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoBits {
    /// The kernel's description of its own types.
    #[error("/sys/kernel/btf/vmlinux: {0}")]
    Types(String),
    /// A BPF program.
    #[error("BPF program: {0}")]
    Program(io::Error),
    /// Page tables are not where they are expected.
    #[error("{0}")]
    Layout(&'static str),
}

/// The program that tells a process which of its pages were used.
#[derive(Debug)]
pub(crate) struct AccessedBits {
    program: Program,
}

impl AccessedBits {
    /// Loads the program, and tries it on memory of this process.
    pub(crate) fn load() -> Result<Self, NoBits> {
        let layout = Layout::find()?;
        let bits = Self { program: Program::load(&walk::walk(&layout)).map_err(NoBits::Program)? };
        // Twice, because the kernel itself may clear a bit meanwhile.
        bits.try_out().or_else(|_| bits.try_out())?;
        Ok(bits)
    }

    /// The program, for an agent.
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.program.descriptor()
    }

    /// Which pages of a group the calling process has used.
    fn query(&self, address: usize) -> io::Result<u64> {
        let mut query = Query { address: address as u64, accessed: 0 };
        self.program.run(&mut query)?;
        Ok(query.accessed)
    }

    /// Uses some pages of two groups, and compares.
    fn try_out(&self) -> Result<(), NoBits> {
        let _stay = OneProcessor::here();
        let memory = Memory::map(3 * GROUP_PAGES).map_err(NoBits::Program)?;
        let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
        let at = |page: usize| start + page * PAGE_BYTES as usize;
        (0..2 * GROUP_PAGES).for_each(|page| memory.write(at(page), page as u64));
        let look = || -> io::Result<[u64; 2]> { Ok([self.query(at(0))?, self.query(at(GROUP_PAGES + 5))?]) };
        let touched = look().map_err(NoBits::Program)?;
        memory.cool();
        let cold = look().map_err(NoBits::Program)?;
        let pattern = [0x8000_0000_dead_beef, 0x0123_4567_89ab_cdee];
        // Listed first: a processor that guesses a branch wrong uses a page that it should not.
        let is_used = |page: &usize| pattern[page / 64] >> (page % 64) & 1 != 0;
        let pages: Vec<usize> = (0..2 * GROUP_PAGES).filter(is_used).collect();
        pages.iter().for_each(|&page| memory.write(at(page), 1));
        let used = look().map_err(NoBits::Program)?;
        match (touched, cold, used == pattern) {
            ([u64::MAX, u64::MAX], [0, 0], true) => Ok(()),
            _ => Err(NoBits::Layout("accessed bits of pages that were used are not found")),
        }
    }
}

/// Keeps the calling thread on the processor where it is.
///
/// The kernel does not clear the bit of a page that is in a list of another processor, on its way
/// to the lists of pages by age: new pages are, up to 31 for each processor. It first empties the
/// list of the processor that asks. To go to another processor takes long if that has other work.
pub(crate) struct OneProcessor {
    before: CpuSet,
}

impl OneProcessor {
    pub(crate) fn here() -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }

    /// Has the calling thread, which another one has started on its processor, leave that one.
    pub(crate) fn leave(&self) -> io::Result<()> {
        let (mut others, one) = (self.before, sched_getaffinity(None)?);
        (0..CpuSet::MAX_CPU).filter(|&processor| one.is_set(processor)).for_each(|one| others.unset(one));
        Ok(sched_setaffinity(None, &others)?)
    }

    /// Has every processor that the calling thread may run on move the pages in its list to their
    /// places, so that their bits can be cleared.
    pub(crate) fn empty_all_lists() -> io::Result<()> {
        let all = Self { before: sched_getaffinity(None)? };
        let memory = Memory::map(1)?;
        for processor in (0..CpuSet::MAX_CPU).filter(|&processor| all.before.is_set(processor)) {
            let mut one = CpuSet::new();
            one.set(processor);
            sched_setaffinity(None, &one)?;
            memory.cool();
        }
        Ok(())
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The program that tells the command which of their pages other processes have used.
#[derive(Debug)]
pub(crate) struct ProcessBits {
    program: Program,
}

impl ProcessBits {
    /// Loads the program.
    pub(crate) fn load() -> Result<Self, NoBits> {
        let layout = Layout::find()?;
        let code = walk::walk_of_process(&layout, TaskFunctions::find()?);
        let bits = Self { program: Program::load(&code).map_err(NoBits::Program)? };
        bits.query(std::process::id(), 0).map_err(NoBits::Program)?;
        Ok(bits)
    }

    /// Which pages a process has used, of the [`GROUP_PAGES`] pages, aligned to as many, among
    /// which an address is. The first page has the lowest bit.
    pub(crate) fn query(&self, process: u32, address: u64) -> io::Result<u64> {
        let query = Query { address, accessed: 0 };
        let mut query = ProcessQuery { query, process: process.into() };
        self.program.run(&mut query)?;
        Ok(query.query.accessed)
    }
}

/// The program that tells the command which of their pages other processes have used and written
/// to, a whole table of the lowest level at a time.
#[derive(Debug)]
pub(crate) struct TableBits {
    program: Program,
}

/// What a page table says of some addresses of a process.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// The bits of [`TABLE_PAGES`] pages.
    Table(Table),
    /// Nothing is mapped up to this address.
    NothingUpTo(u64),
}

/// The bits of a table of the lowest level: one for each page, the first page's lowest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The processor has used the page since this bit was last cleared.
    pub(crate) accessed: Mask,
    /// The page was written to since it came into memory or, if it is a file's, since it was last
    /// written back.
    pub(crate) dirty: Mask,
    /// The page is mapped.
    pub(crate) present: Mask,
    /// These are the pages of a large page, which has one bit of each kind.
    pub(crate) is_large: bool,
}

/// A bit for each page of a table.
pub(crate) type Mask = [u64; TABLE_PAGES / 64];

impl TableBits {
    /// Loads the program.
    pub(crate) fn load() -> Result<Self, NoBits> {
        let layout = Layout::find()?;
        let code = walk::walk_to_table(&layout, TaskFunctions::find()?);
        let bits = Self { program: Program::load(&code).map_err(NoBits::Program)? };
        bits.find(std::process::id(), 0).map_err(NoBits::Program)?;
        Ok(bits)
    }

    /// What the page table of a process says of an address and those around it.
    pub(crate) fn find(&self, process: u32, address: u64) -> io::Result<Found> {
        let mut query = TableQuery { address, process: process.into(), ..TableQuery::default() };
        self.program.run(&mut query)?;
        let TableQuery { accessed, dirty, present, absent_from, is_large, .. } = query;
        Ok(match absent_from {
            0 => Found::Table(Table { accessed, dirty, present, is_large: is_large != 0 }),
            bit => Found::NothingUpTo(((address >> bit) + 1) << bit),
        })
    }
}

/// Memory of this process to try things on.
pub(crate) struct Memory {
    pub(crate) start: usize,
    bytes: usize,
}

impl Memory {
    pub(crate) fn map(pages: usize) -> io::Result<Self> {
        let bytes = pages * PAGE_BYTES as usize;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        let memory = Self { start: start as usize, bytes };
        memory.advise(Advice::LinuxNoHugepage);
        Ok(memory)
    }

    fn advise(&self, advice: Advice) {
        // SAFETY: this changes how the kernel keeps the pages, and not what is in them.
        let _ = unsafe { madvise(self.start as *mut c_void, self.bytes, advice) };
    }

    /// Clears the accessed bits of some pages.
    pub(crate) fn cool_pages(&self, address: usize, pages: usize) {
        let bytes = pages * PAGE_BYTES as usize;
        assert!(address >= self.start && address + bytes <= self.start + self.bytes);
        // SAFETY: as above.
        let _ = unsafe { madvise(address as *mut c_void, bytes, Advice::LinuxCold) };
    }

    /// Clears all accessed bits, if the thread has been on [`OneProcessor`] since it mapped this.
    pub(crate) fn cool(&self) {
        self.advise(Advice::LinuxCold);
    }

    /// Adds 1 to each of some words.
    pub(crate) fn increment(&self, address: usize, words: usize) {
        assert!(address >= self.start && address + 8 * words <= self.start + self.bytes);
        // SAFETY: within the mapping, which nothing else refers to, and aligned to pages.
        let words = unsafe { std::slice::from_raw_parts_mut(address as *mut u64, words) };
        words.iter_mut().for_each(|word| *word = word.wrapping_add(1));
    }

    pub(crate) fn write(&self, address: usize, word: u64) {
        assert!((self.start..self.start + self.bytes).contains(&address));
        // SAFETY: within the mapping.
        unsafe { (address as *mut u64).write_volatile(word) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        let _ = unsafe { munmap(self.start as *mut c_void, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use sweephand_checks::{Need, skip};

    /// One test at a time: a fork copies the memory of all, and the kernel clears no bit of a page
    /// that two processes have.
    static ALONE: Mutex<()> = Mutex::new(());

    /// `None` where that is not permitted.
    fn bits() -> Option<(MutexGuard<'static, ()>, AccessedBits)> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        match AccessedBits::load() {
            Err(NoBits::Program(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                skip(Need::Root, error);
                None
            }
            bits => Some((alone, bits.unwrap())),
        }
    }

    /// Runs a function in a child process, which then ends.
    fn fork(function: impl FnOnce()) -> libc::pid_t {
        // SAFETY: the child writes to memory, waits and ends, and does nothing else.
        match unsafe { libc::fork() } {
            0 => {
                function();
                // SAFETY: ends the child, without what a program does when it ends.
                unsafe { libc::_exit(0) }
            }
            child => {
                assert!(child > 0, "{}", io::Error::last_os_error());
                child
            }
        }
    }

    fn wait_for(child: libc::pid_t) {
        // SAFETY: waits for a child of this process.
        let ended = unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
        assert_eq!(ended, child);
    }

    /// A million pages, used or not by a pattern that the test knows, while another thread changes
    /// the address space, and children use other pages of their copies. The kernel may clear some
    /// bits meanwhile for its own purposes: a machine with DAMON on loses some ten of this million.
    /// The pages that are used are listed before, because a processor that guesses a branch wrong
    /// sets the bit of a page that is not.
    #[test]
    fn bits_are_those_of_the_pages_that_were_used() {
        const GROUPS: usize = 64;
        const ROUNDS: u64 = 256;
        let Some((_alone, bits)) = bits() else { return };
        let stay = OneProcessor::here().unwrap();
        let memory = Memory::map((GROUPS + 1) * GROUP_PAGES).unwrap();
        let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
        let at = |page: usize| start + page * PAGE_BYTES as usize;
        (0..GROUPS * GROUP_PAGES).for_each(|page| memory.write(at(page), 0));
        let mut random = sweephand_policy::SplitMix64::new(7);
        let (mut unused, mut lost, mut looked_at) = (0, 0, 0);
        let has_ended = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let everywhere = stay.before;
            scope.spawn(move || {
                let _ = sched_setaffinity(None, &everywhere);
                while !has_ended.load(Relaxed) {
                    let other = Memory::map(700).unwrap();
                    (0..700).for_each(|page| other.write(other.start + page * PAGE_BYTES as usize, 1));
                }
            });
            for round in 0..ROUNDS {
                memory.cool();
                let pattern: Vec<u64> = (0..GROUPS).map(|_| random.below(u64::MAX)).collect();
                let is_used = |page: &usize| pattern[page / GROUP_PAGES] >> (page % GROUP_PAGES) & 1 != 0;
                let used: Vec<usize> = (0..GROUPS * GROUP_PAGES).filter(is_used).collect();
                used.iter().for_each(|&page| memory.write(at(page), 1));
                if round % 16 == 0 {
                    wait_for(fork(|| (0..GROUPS * GROUP_PAGES).for_each(|page| memory.write(at(page), 2))));
                }
                for (group, &expected) in pattern.iter().enumerate() {
                    let seen = bits.query(at(group * GROUP_PAGES + group)).unwrap();
                    unused += (seen & !expected).count_ones();
                    lost += (expected & !seen).count_ones();
                    looked_at += GROUP_PAGES;
                }
            }
            has_ended.store(true, Relaxed);
        });
        assert_eq!((unused, looked_at), (0, 1 << 20), "{lost} lost");
        assert!(lost < 200, "{lost} lost");
    }

    /// A huge page has one bit. It is told for each page of it, and clearing it leaves the page as
    /// it is.
    #[test]
    fn a_huge_page_is_used_as_a_whole() {
        const HUGE_PAGES: usize = 512;
        let Some((_alone, bits)) = bits() else { return };
        let kinds =
            std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if !kinds.contains("[always]") && !kinds.contains("[madvise]") {
            return skip(Need::Machine, format_args!("transparent huge pages: {kinds}"));
        }
        let _stay = OneProcessor::here().unwrap();
        let memory = Memory::map(4 * HUGE_PAGES).unwrap();
        memory.advise(Advice::LinuxHugepage);
        let start = memory.start.next_multiple_of(HUGE_PAGES * PAGE_BYTES as usize);
        let at = |page: usize| start + page * PAGE_BYTES as usize;
        let seen = || -> Vec<u64> {
            (0..3 * HUGE_PAGES).step_by(GROUP_PAGES).map(|page| bits.query(at(page)).unwrap()).collect()
        };
        (0..3 * HUGE_PAGES).for_each(|page| memory.write(at(page), 1));
        let groups = HUGE_PAGES / GROUP_PAGES;
        assert_eq!(seen(), [u64::MAX; 3 * HUGE_PAGES / GROUP_PAGES]);
        memory.cool();
        assert_eq!(seen(), [0; 3 * HUGE_PAGES / GROUP_PAGES]);
        memory.write(at(HUGE_PAGES + 77), 2);
        let used: Vec<u64> =
            (0..3 * groups).map(|group| if group / groups == 1 { u64::MAX } else { 0 }).collect();
        assert_eq!(seen(), used);
    }

    /// The kernel clears no bit of a page that two processes have, and does again when one has
    /// ended.
    #[test]
    fn pages_shared_since_a_fork_count_as_used() {
        let Some((_alone, bits)) = bits() else { return };
        let _stay = OneProcessor::here().unwrap();
        let memory = Memory::map(2 * GROUP_PAGES).unwrap();
        let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
        let at = |page: usize| start + page * PAGE_BYTES as usize;
        (0..GROUP_PAGES).for_each(|page| memory.write(at(page), 1));
        let (here, there) = io::pipe().unwrap();
        let child = fork(|| {
            let mut byte = [0; 1];
            // SAFETY: reads a byte, or the end of the pipe when the parent has gone.
            unsafe {
                libc::close(there.as_raw_fd());
                libc::read(here.as_raw_fd(), byte.as_mut_ptr().cast(), 1)
            };
        });
        // Its own copies, of two pages.
        memory.write(at(3), 2);
        memory.write(at(17), 2);
        memory.cool();
        let shared = bits.query(start).unwrap();
        drop(there);
        wait_for(child);
        memory.cool();
        assert_eq!((shared, bits.query(start).unwrap()), (!(1 << 3 | 1 << 17), 0));
    }

    /// The command sees of another process, here itself, what that process would see.
    #[test]
    fn bits_of_a_process_are_those_that_it_sees_itself() {
        let (Some((_alone, bits)), Ok(of_process)) = (bits(), ProcessBits::load()) else { return };
        let memory = Memory::map(2 * GROUP_PAGES).unwrap();
        let start = memory.start.next_multiple_of(GROUP_PAGES * PAGE_BYTES as usize);
        for page in [0, 3, 17, 63] {
            memory.write(start + page * PAGE_BYTES as usize, 1);
        }
        let seen = of_process.query(std::process::id(), start as u64).unwrap();
        assert_eq!(seen, 1 | 1 << 3 | 1 << 17 | 1 << 63);
        assert_eq!(seen, bits.query(start).unwrap());
        // There is no process with this number.
        assert!(of_process.query(i32::MAX as u32, start as u64).is_err());
    }

    #[test]
    fn what_is_not_mapped_was_not_used_and_the_kernels_memory_is_not_told() {
        let Some((_alone, bits)) = bits() else { return };
        let memory = Memory::map(1).unwrap();
        let start = memory.start;
        drop(memory);
        let _ = bits.query(start).unwrap();
        assert_eq!(bits.query(0).unwrap(), 0);
        assert_eq!(bits.query(0xffff_8880_0000_0000_u64 as usize).unwrap(), 0);
    }
}
