//! The mappings of a process, from `/proc/PID/maps`.

use std::ops::Range;
use std::{fs, io};
use sweephand_pager_interface::memory::PAGE_BYTES;

/// A line of `/proc/PID/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its pages, by number.
    pub pages: Range<u64>,
    /// The file, or the kernel's name in brackets. Empty: anonymous memory.
    pub name: String,
}

impl Mapping {
    /// Takes a line apart: addresses, rights, offset, device, inode, name.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let page = |text| u64::from_str_radix(text, 16).ok().map(|address| address / PAGE_BYTES);
        let name = words.nth(4).unwrap_or_default().trim().to_string();
        Some(Self { pages: page(start)?..page(end)?, name })
    }
}

/// The mappings of a process, seen through one of its threads, ascending. None if it has ended.
pub fn mappings(process: u32, thread: u32) -> io::Result<Vec<Mapping>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/maps"))?;
    Ok(text.lines().filter_map(Mapping::parse).collect())
}

/// The mapping that a page is in, of some that are ascending.
pub fn mapping_of(mappings: &[Mapping], page: u64) -> Option<&Mapping> {
    let after = mappings.partition_point(|mapping| mapping.pages.start <= page);
    mappings[..after].last().filter(|mapping| mapping.pages.contains(&page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let file =
            Mapping::parse("7f1000-7f3000 r-xp 00001000 fe:01 12    /usr/lib/a b.so (deleted)").unwrap();
        assert_eq!((file.pages.clone(), file.name.as_str()), (0x7f1..0x7f3, "/usr/lib/a b.so (deleted)"));
        let anonymous = Mapping::parse("7f1000-7f3000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.pages.clone(), anonymous.name.as_str()), (0x7f1..0x7f3, ""));
        let heap = Mapping::parse("1000-2000 rw-p 00000000 00:00 0     [heap]").unwrap();
        assert_eq!(heap.name, "[heap]");
        let all = [heap, file];
        assert_eq!(
            [0, 1, 2, 0x7f2, 0x7f3].map(|page| mapping_of(&all, page).map(|of| of.pages.start)),
            [None, Some(1), None, Some(0x7f1), None]
        );
    }
}
