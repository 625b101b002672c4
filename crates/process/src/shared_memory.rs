//! Shared memory that processes have, with the pages that none of them has mapped: a page of it
//! stays when the process that used it ends.

use rustix::fs::fstatfs;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;

/// The file system of shared memory of all kinds, and of tmpfs.
const TMPFS: u64 = 0x0102_1994;

/// Device and inode of a file, as `/proc/PID/maps` writes them.
type Inode = (String, u64);

/// Pages of shared memory that these processes have in memory or in the page cache, each once.
/// `None`: the kernel does not tell (before Linux 6.5).
pub fn pages(processes: impl Iterator<Item = u32>) -> Option<u64> {
    let mut known: BTreeSet<Inode> = BTreeSet::new();
    let mut all = 0;
    for process in processes {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        for (range, inode) in maps.lines().filter_map(shared) {
            if !known.insert(inode) {
                continue;
            }
            // It may have been unmapped meanwhile.
            let Ok(file) = File::open(format!("/proc/{process}/map_files/{range}")) else { continue };
            if fstatfs(&file).is_ok_and(|of| of.f_type as u64 == TMPFS) {
                all += cached_pages(&file)?;
            }
        }
    }
    Some(all)
}

/// The addresses and the inode of a shared mapping of a file, from a line of `/proc/PID/maps`.
fn shared(line: &str) -> Option<(&str, Inode)> {
    let mut words = line.split_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let (device, inode) = (words.nth(1)?, words.next()?.parse().ok()?);
    (rights.ends_with('s') && inode != 0).then(|| (range, (device.to_string(), inode)))
}

/// Pages of a file that are in the page cache.
fn cached_pages(file: &File) -> Option<u64> {
    /// The number of the call, which is the same on all processors.
    const CACHESTAT: libc::c_long = 451;
    /// Bytes from an offset on; 0: to the end of the file.
    #[repr(C)]
    struct Range {
        offset: u64,
        bytes: u64,
    }
    /// `struct cachestat` of the kernel: pages in the cache, dirty, in write-back, evicted, and
    /// evicted lately.
    #[repr(C)]
    #[derive(Default)]
    struct Counts([u64; 5]);
    let (range, mut counts) = (Range { offset: 0, bytes: 0 }, Counts::default());
    // SAFETY: the kernel reads the one and writes the other.
    let answer = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    (answer == 0).then_some(counts.0[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::ptr;
    use sweephand_pager_interface::memory::PAGE_BYTES;

    #[test]
    fn a_line_of_a_shared_mapping_is_told_from_a_private_one() {
        let line = "7f1000-7f3000 rw-s 00000000 00:01 1034       /dev/zero (deleted)";
        assert_eq!(shared(line), Some(("7f1000-7f3000", ("00:01".to_string(), 1034))));
        assert_eq!(shared("7f1000-7f3000 r-xp 00001000 fe:01 12    /usr/lib/a.so"), None);
        assert_eq!(shared("7f1000-7f3000 rw-s 00000000 00:00 0 "), None);
    }

    #[test]
    fn pages_of_shared_memory_stay_when_nobody_has_them_mapped() {
        const PAGES: usize = 2000;
        let own = std::process::id();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = PAGES * PAGE_BYTES as usize;
        // SAFETY: a new mapping.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, MapFlags::SHARED) }.unwrap();
        // SAFETY: all of it is that mapping's; behind the first page, it is unmapped then.
        unsafe {
            start.write_bytes(1, bytes);
            munmap(start.byte_add(PAGE_BYTES as usize), bytes - PAGE_BYTES as usize).unwrap();
        }
        // Only root may look at the files that are mapped.
        let found = pages([own, own].into_iter());
        // SAFETY: nothing refers to it any more.
        unsafe { munmap(start, PAGE_BYTES as usize) }.unwrap();
        if !rustix::process::geteuid().is_root() {
            return sweephand_checks::skip(sweephand_checks::Need::Root, "map_files is for root");
        }
        let (with, without) = (found.unwrap(), pages([own].into_iter()).unwrap());
        assert!(with >= without + PAGES as u64, "{with} {without}");
    }
}
