//! Which pages of the process are present, by the kernel's account.
//!
//! `/proc/self/pagemap` answers for many pages at once. A program that has given up root's rights
//! may not be able to open it. Then the agents of its later children cannot open it either. They
//! ask `mincore`, page by page.

use crate::kernel::syscall::call;
use crate::kernel::{PAGE_BYTES, Region, scan, scan_present};
use crate::process::failure::abort;
use crate::process::roots::open_proc;
use linux_raw_sys::general::__NR_mincore;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// A region to be overwritten by what is found.
pub(crate) const NOTHING: Region = Region { start: 0, end: 0, categories: 0 };

/// Pages for which `mincore` is asked at a time.
const PAGES: usize = 512;

/// The open file, or none if the agent has to ask `mincore`.
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: Option<OwnedFd>,
}

impl Pagemap {
    /// Opens the file of this process.
    pub(crate) fn open() -> Self {
        match open_proc(c"self/pagemap", OFlags::RDONLY) {
            Ok(file) => Self { file: Some(file) },
            Err(Errno::ACCESS | Errno::PERM) => Self { file: None },
            Err(error) => abort(format_args!("/proc/self/pagemap: cannot be opened: {error}")),
        }
    }

    /// The file, if this process may open it.
    pub(crate) fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// Finds the pages in a range that are not missing; see [`scan_present`].
    pub(crate) fn present(
        &self,
        start: usize,
        end: usize,
        found: &mut [Region],
    ) -> Result<(usize, usize), Errno> {
        match &self.file {
            Some(file) => scan_present(file, start, end, found),
            None => look(start, end, found),
        }
    }

    /// Finds the pages of a category in a range, as `present` finds pages. `GUARD`: guards.
    /// `SWAPPED`: guards, poisoned pages, and pages that the kernel itself has swapped out.
    /// `EINVAL`: the kernel does not report guards. `EACCES`: this process may not ask.
    pub(crate) fn of(
        &self,
        category: u64,
        start: usize,
        end: usize,
        found: &mut [Region],
    ) -> Result<(usize, usize), Errno> {
        scan(self.file.as_ref().ok_or(Errno::ACCESS)?, start, end, category, found)
    }
}

/// Does the same as `present`, through `mincore`.
fn look(start: usize, end: usize, found: &mut [Region]) -> Result<(usize, usize), Errno> {
    let mut count = 0;
    let mut from = start;
    while from < end {
        let mut is_there = [0_u8; PAGES];
        let pages = ((end - from) / PAGE_BYTES).clamp(1, PAGES);
        let arguments = [from, pages * PAGE_BYTES, is_there.as_mut_ptr() as usize, 0, 0, 0];
        // SAFETY: the kernel writes a byte for each page, and there is one for each.
        match unsafe { call(__NR_mincore, arguments) } {
            0 => {}
            // Some of the range is not mapped. Ask page by page.
            _ if pages > 1 => {
                for (page, byte) in is_there[..pages].iter_mut().enumerate() {
                    let at = from + page * PAGE_BYTES;
                    // SAFETY: as above.
                    let answer =
                        unsafe { call(__NR_mincore, [at, PAGE_BYTES, (&raw mut *byte) as usize, 0, 0, 0]) };
                    if answer != 0 {
                        *byte = 0;
                    }
                }
            }
            _ => is_there[0] = 0,
        }
        for (page, &byte) in is_there[..pages].iter().enumerate() {
            let address = (from + page * PAGE_BYTES) as u64;
            if byte & 1 == 0 {
                continue;
            }
            let has_room = count < found.len();
            match found[..count].last_mut().filter(|region| region.end == address) {
                Some(region) => region.end += PAGE_BYTES as u64,
                None if has_room => {
                    let end = address + PAGE_BYTES as u64;
                    found[count] = Region { start: address, end, categories: 0 };
                    count += 1;
                }
                None => return Ok((count, address as usize)),
            }
        }
        from += pages * PAGE_BYTES;
    }
    Ok((count, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own;

    #[test]
    fn pagemap_and_mincore_find_the_same_pages() {
        const PAGES: usize = 3000;
        let start = own::map(PAGES * PAGE_BYTES).unwrap();
        for page in (0..PAGES).filter(|page| page % 7 < 3) {
            // SAFETY: this is a mapping of the test.
            unsafe { ((start + page * PAGE_BYTES) as *mut u8).write(1) };
        }
        let all = |pagemap: Pagemap| {
            let (mut regions, mut from, end) = (std::vec::Vec::new(), start, start + PAGES * PAGE_BYTES);
            while from < end {
                let mut found = [NOTHING; 5];
                let (count, to) = pagemap.present(from, end, &mut found).unwrap();
                regions.extend(found[..count].iter().map(|region| (region.start, region.end)));
                from = to;
            }
            regions
        };
        let expected: std::vec::Vec<(u64, u64)> = (0..PAGES)
            .step_by(7)
            .map(|page| {
                let at = |page: usize| (start + page * PAGE_BYTES) as u64;
                (at(page), at((page + 3).min(PAGES)))
            })
            .collect();
        assert_eq!(all(Pagemap { file: None }), expected);
        assert_eq!(all(Pagemap::open()), expected);
    }
}
