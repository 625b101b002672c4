//! The address space of a process, seen and advised from outside.

use crate::maps::{Mapping, mapping_of, mappings};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use sweephand_pager_interface::memory::PAGE_BYTES;
use sweephand_uffd::{PRESENT, Region, find, scan};

/// The end of the addresses that processes have. With five levels of page tables there are more,
/// but the kernel gives them only to programs that ask for them by address.
const END: usize = (1 << 47) - PAGE_BYTES as usize;
/// The most ranges of a call.
const RANGES_A_CALL: usize = 1024;
/// Pages between two of interest that are read along rather than with another call.
const GAP_PAGES: u64 = 16;

/// What the kernel should do with pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Advice {
    /// Clear their accessed bits.
    Cold = libc::MADV_COLD,
    /// Write them to the swap file and take them from memory.
    PageOut = libc::MADV_PAGEOUT,
    /// Begin to read them.
    WillNeed = libc::MADV_WILLNEED,
}

/// An entry of `/proc/PID/pagemap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry(u64);

impl Entry {
    /// Whether the page can be paged out by itself: it is in memory, it is not a file's, and no
    /// other process has it.
    pub fn is_ours(self) -> bool {
        self.is_present() && !self.is_file() && self.is_exclusive()
    }

    /// The number of the physical frame that has the page. `None`: the page is not in memory, or
    /// the reader is not root.
    pub fn frame(self) -> Option<u64> {
        const FRAME: u64 = (1 << 55) - 1;
        (self.is_present() && self.0 & FRAME != 0).then_some(self.0 & FRAME)
    }

    /// Whether the page is a file's, or shared memory.
    pub fn is_file(self) -> bool {
        const FILE: u64 = 1 << 61;
        self.0 & FILE != 0
    }

    /// Whether no other process has the page mapped.
    pub fn is_exclusive(self) -> bool {
        const EXCLUSIVE: u64 = 1 << 56;
        self.0 & EXCLUSIVE != 0
    }

    /// Whether the page is in memory.
    pub fn is_present(self) -> bool {
        self.0 & (1 << 63) != 0
    }

    /// The number by which the kernel knows the swap area that the page is in. `None`: it is in
    /// none.
    pub fn swap_area(self) -> Option<u8> {
        const AREA: u64 = (1 << 5) - 1;
        self.is_swapped().then_some((self.0 & AREA) as u8)
    }

    /// Whether the page is in the swap file, or on its way.
    pub fn is_swapped(self) -> bool {
        self.0 & (1 << 62) != 0
    }
}

/// The address space of a process.
#[derive(Debug)]
pub struct Space {
    /// The number of the process.
    pub process: u32,
    /// The number of one of its threads.
    pub thread: u32,
    descriptor: OwnedFd,
    pagemap: File,
    /// The mappings when they were last looked up.
    mappings: Vec<Mapping>,
}

impl Space {
    /// Opens that of a process, through its first thread, or another if that one has ended.
    pub fn open(process: u32) -> io::Result<Self> {
        Self::open_through(process, process).or_else(|error| {
            let others = fs::read_dir(format!("/proc/{process}/task"))?;
            let others = others.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            others.filter_map(|thread| Self::open_through(process, thread).ok()).next().ok_or(error)
        })
    }

    fn open_through(process: u32, thread: u32) -> io::Result<Self> {
        /// For a thread that is not the first. Since Linux 6.9.
        const PIDFD_THREAD: u32 = libc::O_EXCL as u32;
        let flags = if thread == process { 0 } else { PIDFD_THREAD };
        let pid = Pid::from_raw(thread as i32).ok_or(io::ErrorKind::NotFound)?;
        let descriptor = pidfd_open(pid, PidfdFlags::from_bits_retain(flags))?;
        let pagemap = File::open(format!("/proc/{process}/task/{thread}/pagemap"))?;
        // A thread that has ended has no memory.
        let has_memory = fs::read(format!("/proc/{process}/task/{thread}/statm"))?;
        if has_memory.starts_with(b"0 ") {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { process, thread, descriptor, pagemap, mappings: Vec::new() })
    }

    /// Claims the accessed bits until this is dropped. Of two that watch a process, each would
    /// clear what the other wants to read, and both would see too few uses.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: they are claimed already.
    pub fn claim_bits(&self) -> io::Result<()> {
        // All who open this file have the same inode, and so the same lock.
        flock(&self.pagemap, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => {
                let reason = "another watch clears its accessed bits; wait for the end of that";
                io::Error::new(io::ErrorKind::WouldBlock, reason)
            }
            error => error.into(),
        })
    }

    /// Reads the entries of pages, by number in ascending order. What cannot be read is nothing.
    pub fn entries(&self, numbers: &[u64]) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(numbers.len());
        let mut bytes = Vec::new();
        for run in numbers.chunk_by(|a, b| b - a <= GAP_PAGES) {
            let (first, last) = (run[0], run[run.len() - 1]);
            bytes.clear();
            bytes.resize(8 * (last - first + 1) as usize, 0);
            let read = read_at(&self.pagemap, &mut bytes, 8 * first);
            bytes[read..].fill(0);
            let words = bytes.as_chunks().0;
            entries
                .extend(run.iter().map(|number| Entry(u64::from_ne_bytes(words[(number - first) as usize]))));
        }
        entries
    }

    /// The blocks of `block_pages` pages, by number, that have pages of any of some categories
    /// ([`PRESENT`], `SWAPPED`), in ascending order.
    pub fn blocks(&self, block_pages: usize, categories: u64) -> BTreeSet<u64> {
        let block_bytes = block_pages as u64 * PAGE_BYTES;
        let mut blocks = BTreeSet::new();
        self.for_each_region(categories, |region| {
            blocks.extend(region.start / block_bytes..=(region.end - 1) / block_bytes);
        });
        blocks
    }

    /// The numbers of all pages of any of some categories, in ascending order.
    pub fn pages(&self, categories: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.for_each_region(categories, |region| {
            numbers.extend(region.start / PAGE_BYTES..region.end / PAGE_BYTES);
        });
        numbers
    }

    fn for_each_region(&self, categories: u64, mut take: impl FnMut(&Region)) {
        const NOTHING: Region = Region { start: 0, end: 0, categories: 0 };
        let mut regions = [NOTHING; 64];
        let mut from = 0;
        while from < END {
            let Ok((count, end)) = scan(&self.pagemap, from, END, categories, &mut regions) else { break };
            regions[..count].iter().for_each(&mut take);
            if end <= from {
                break;
            }
            from = end;
        }
    }

    /// The address of the first page in memory from an address on. `None`: there is none. Fails
    /// before Linux 6.7. Memory of devices that the process has mapped is passed over.
    pub fn first_present(&self, from: u64) -> io::Result<Option<u64>> {
        let found = find(&self.pagemap, from as usize, END.max(from as usize), PRESENT)?;
        Ok(found.map(|address| address as u64))
    }

    /// Advises the kernel about ranges of pages. It refuses those of which some is not mapped any
    /// more, or is locked. They are skipped, and returned.
    pub fn advise(&self, ranges: &[Range<u64>], advice: Advice) -> Vec<Range<u64>> {
        let mut refused = Vec::new();
        let mut left: Vec<libc::iovec> = ranges
            .iter()
            .map(|range| libc::iovec {
                iov_base: (range.start * PAGE_BYTES) as *mut libc::c_void,
                iov_len: ((range.end - range.start) * PAGE_BYTES) as usize,
            })
            .collect();
        while !left.is_empty() {
            let now = &left[..left.len().min(RANGES_A_CALL)];
            // SAFETY: the kernel reads the list; the advice does not change what is in the pages.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_process_madvise,
                    self.descriptor.as_raw_fd(),
                    now.as_ptr(),
                    now.len(),
                    advice as i32,
                    0,
                )
            };
            if done < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            // It stops at a range that it refuses.
            let mut bytes = done.max(0) as usize;
            let complete = now.iter().take_while(|range| {
                let fits = range.iov_len <= bytes;
                bytes = bytes.saturating_sub(range.iov_len);
                fits
            });
            let complete = complete.count();
            let at = ranges.len() - left.len() + complete;
            refused.extend(ranges.get(at).filter(|_| complete < now.len()).cloned());
            left.drain(..(complete + usize::from(complete < now.len())).min(left.len()));
        }
        refused
    }

    /// Brings pages to memory, as if the process had read a byte of each. Those that
    /// cannot be read are left out.
    pub fn touch(&self, numbers: &[u64]) {
        let bytes: Vec<libc::iovec> = numbers
            .iter()
            .map(|number| libc::iovec { iov_base: (number * PAGE_BYTES) as *mut libc::c_void, iov_len: 1 })
            .collect();
        let mut left = &bytes[..];
        while !left.is_empty() {
            let now = &left[..left.len().min(RANGES_A_CALL)];
            let mut read = [0_u8; RANGES_A_CALL];
            let here = libc::iovec { iov_base: read.as_mut_ptr().cast(), iov_len: now.len() };
            let count = now.len() as libc::c_ulong;
            // SAFETY: `here` is as long as the bytes that are read from the other process.
            let done = unsafe {
                libc::process_vm_readv(self.process as libc::pid_t, &here, 1, now.as_ptr(), count, 0)
            };
            // It stops at a page that cannot be read.
            let done = done.max(0) as usize;
            left = &left[(done + usize::from(done < now.len())).min(left.len())..];
        }
    }

    /// The processor time of all threads of the process so far.
    pub fn processor_time(&self) -> Option<Duration> {
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both calls write to a local variable.
        let read = unsafe {
            libc::clock_getcpuclockid(self.process as libc::pid_t, &mut clock) == 0
                && libc::clock_gettime(clock, &mut time) == 0
        };
        read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Whether the address space is gone: its process has ended, or has become another program.
    pub fn is_gone(&self) -> bool {
        // The file stays with the address space for which it was opened.
        !matches!(self.pagemap.read_at(&mut [0; 8], 0), Ok(1..))
    }

    /// The mapping that a page is in, by the page that it begins with. 0: none is known.
    pub fn mapping(&mut self, number: u64) -> u64 {
        let find = |mappings: &[Mapping]| mapping_of(mappings, number).map(|mapping| mapping.pages.start);
        find(&self.mappings).unwrap_or_else(|| {
            self.mappings = mappings(self.process, self.thread).unwrap_or_default();
            find(&self.mappings).unwrap_or_default()
        })
    }
}

/// Reads as much as there is. Returns how much.
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> usize {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => read += more,
        }
    }
    read
}

/// Sorted numbers as ranges, which may also have numbers between that are not among them: at most
/// `gap` in a row.
pub fn ranges(numbers: impl IntoIterator<Item = u64>, gap: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(range) if number - range.end <= gap => range.end = number + 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        let numbers = [3, 4, 5, 9, 11, 12];
        assert_eq!(ranges(numbers, 0), [3..6, 9..10, 11..13]);
        assert_eq!(ranges(numbers, 1), [3..6, 9..13]);
        assert!(ranges([], 0).is_empty());
    }

    #[test]
    fn pages_of_this_process_are_found_and_told_apart() {
        let memory = vec![1_u8; 64 * PAGE_BYTES as usize];
        let first = memory.as_ptr() as u64 / PAGE_BYTES + 1;
        let mut space = Space::open(std::process::id()).unwrap();
        let wanted: Vec<u64> = (first..first + 32).collect();
        assert!(space.entries(&wanted).iter().all(|entry| entry.is_ours() && !entry.is_swapped()));
        let blocks = space.blocks(8, PRESENT);
        let pages = space.pages(PRESENT);
        assert!(pages.is_sorted() && wanted.iter().all(|number| pages.binary_search(number).is_ok()));
        assert!(wanted.iter().all(|number| blocks.contains(&(number / 8))));
        // Code is a file's.
        let code = neighbours_are_one_range as fn() as usize as u64 / PAGE_BYTES;
        assert!(space.entries(&[code])[0].is_present() && !space.entries(&[code])[0].is_ours());
        assert_eq!(space.mapping(first), space.mapping(first + 31));
        assert_ne!(space.mapping(first), space.mapping(code));
        assert_eq!(space.entries(&[0]), [Entry::default()]);
        space.advise(&[first..first + 8, 0..4, first + 9..first + 12], Advice::Cold);
        assert!(memory.iter().all(|&byte| byte == 1));
    }
}
