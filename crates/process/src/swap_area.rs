//! Switches swap areas on and off: see `swapon(2)`.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use sweephand_pager_interface::memory::PAGE_BYTES;

/// The flag for a priority.
const SWAP_FLAG_PREFER: i32 = 0x8000;
/// The highest priority that there is.
const MOST: i32 = 0x7fff;

/// The order in which the kernel uses a run's swap areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank {
    /// Before all areas of the ranks below.
    Top,
    /// Before a zram device that is `Zram`.
    BeforeZram,
    /// Before all files.
    Zram,
    /// A file. Its priority stays below those of zram devices.
    File(i32),
}

impl Rank {
    /// The priority; see `swapon(2)`.
    fn priority(self) -> i32 {
        match self {
            Self::Top => MOST,
            Self::BeforeZram => MOST - 1,
            Self::Zram => MOST - 2,
            Self::File(priority) => priority.clamp(0, MOST - 3),
        }
    }
}

/// Has the kernel use a swap area: a file or a device with the header of one.
///
/// # Errors
/// It is no swap area, it is on already, or this process may not do that.
pub fn switch_on(path: &Path, rank: Rank) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a path that ends with null.
    done(unsafe { libc::swapon(path.as_ptr(), SWAP_FLAG_PREFER | rank.priority()) })
}

/// Has the kernel bring back all pages of a swap area, and use it no more. That takes long if there
/// are many. No page goes there meanwhile.
///
/// # Errors
/// It is not on, this process may not do that, or memory is short. Then the kernel goes on using
/// it.
pub fn switch_off(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a path that ends with null.
    done(unsafe { libc::swapoff(path.as_ptr()) })
}

/// A swap area that the kernel uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its file or device, as `/proc/swaps` writes it.
    pub path: String,
    /// How many pages it has.
    pub pages: u64,
    /// Areas with a higher priority are used first.
    pub priority: i32,
}

/// The swap areas, in the order in which the kernel has them.
pub fn areas() -> Vec<Area> {
    parse(&std::fs::read_to_string("/proc/swaps").unwrap_or_default())
}

/// The swap areas in a text like that of `/proc/swaps`.
pub fn parse(areas: &str) -> Vec<Area> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let path = words.next()?.to_string();
        let kib: u64 = words.nth(2)?.parse().ok()?;
        Some(Area { path, pages: kib * 1024 / PAGE_BYTES, priority: words.next()?.parse().ok()? })
    };
    areas.lines().filter_map(parse).collect()
}

/// Marks a file or a device of this many pages as a swap area, as mkswap(8) does.
///
/// # Errors
/// It cannot be written.
pub fn mark(file: &File, pages: u64) -> io::Result<()> {
    file.write_all_at(&header(pages), 0)?;
    file.sync_all()
}

/// The first page of a swap area: version, last page, and the mark at its end (see mkswap(8)).
fn header(pages: u64) -> [u8; PAGE_BYTES as usize] {
    let mut page = [0; PAGE_BYTES as usize];
    let last = u32::try_from(pages - 1).unwrap_or(u32::MAX);
    // Behind 1024 bytes for a boot loader.
    page[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
    page[1028..1032].copy_from_slice(&last.to_ne_bytes());
    let mark = b"SWAPSPACE2";
    let at = page.len() - mark.len();
    page[at..].copy_from_slice(mark);
    page
}

fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_read_from_the_kernels_list() {
        let areas = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                     /dev/zram0                              partition\t49148\t\t0\t\t32765\n\
                     /var/tmp/a\\040b.swap                  file\t\t1024\t\t8\t\t101\n";
        let area = |path: &str, pages, priority| Area { path: path.to_string(), pages, priority };
        let expected = [area("/dev/zram0", 0, 32765), area("/var/tmp/a\\040b.swap", 2, 101)];
        assert_eq!(parse(areas), expected);
        assert!(parse("").is_empty());
    }

    /// As `mkswap` writes it, without the label and the identifier, which are not needed.
    #[test]
    fn the_header_is_a_swap_areas() {
        let page = header(16_384);
        assert_eq!(page.len(), 4096);
        assert_eq!(page[1024..1032], [1, 0, 0, 0, 0xff, 0x3f, 0, 0]);
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page.iter().filter(|&&byte| byte != 0).count(), 3 + 10);
    }
}
