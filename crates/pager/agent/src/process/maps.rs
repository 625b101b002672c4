//! The process's mappings, as the kernel lists them.

use crate::process::own::{Retry, filled};
use crate::process::roots::open_proc;
use alloc::vec::Vec;
use linux_raw_sys::general as raw;
use rustix::fs::OFlags;
use rustix::io::{Errno, read as read_file};

/// A mapping of private, anonymous, writable memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// First address after it.
    pub end: usize,
    /// Its protection, as for `mmap`.
    pub protection: u32,
}

/// The mappings of this process, and the buffer through which they were read. The caller must keep
/// the buffer while it compares them with the list of the pager's own mappings. If the buffer were
/// freed first, its memory could have become something else.
pub fn read() -> Result<(Vec<Mapping>, Vec<u8>), Errno> {
    let mut mappings = Vec::with_capacity(4096);
    let text = for_each_line(|line| mappings.extend(parse(line)))?;
    Ok((mappings, text))
}

/// All mappings of this process but the kernel's own, and the buffer, as [`read`].
pub(crate) fn read_all() -> Result<(Vec<Mapping>, Vec<u8>), Errno> {
    let mut mappings = Vec::with_capacity(4096);
    let text = for_each_line(|line| {
        let is_kernels = line.windows(2).any(|two| two == b"[v");
        mappings.extend(parse_any(line).filter(|_| !is_kernels).map(|(mapping, _)| mapping));
    })?;
    Ok((mappings, text))
}

/// The number of mappings of this process.
pub(crate) fn count() -> Option<usize> {
    let mut lines = 0;
    for_each_line(|line| lines += usize::from(!line.is_empty())).ok()?;
    Some(lines)
}

/// Visits the lines of the list. Returns the buffer through which they were read.
fn for_each_line(mut visit: impl FnMut(&[u8])) -> Result<Vec<u8>, Errno> {
    let mut retry = Retry::new();
    let file = loop {
        match open_proc(c"self/maps", OFlags::RDONLY) {
            Ok(file) => break file,
            Err(Errno::NOMEM) if retry.wait() => {}
            Err(error) => return Err(error),
        }
    };
    let mut text = filled(0_u8, 64 << 10);
    let mut length = 0;
    // Ends with the file, with a line too long, or after as many tries as `Retry` allows.
    loop {
        match read_file(&file, &mut text[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(Errno::INTR) => continue,
            // FAULT: there was no memory for a page of the buffer. The lines that belong there can
            // still be read.
            Err(Errno::NOMEM | Errno::FAULT) if retry.wait() => continue,
            Err(error) => return Err(error),
        }
        // Whole lines are visited. An incomplete one waits for its end.
        let whole = text[..length].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        text[..whole].split(|&byte| byte == b'\n').for_each(&mut visit);
        text.copy_within(whole..length, 0);
        length -= whole;
        if length == text.len() {
            return Err(Errno::TOOBIG);
        }
    }
    Ok(text)
}

/// Reads a line. Returns the mapping if it is private, anonymous and writable.
fn parse(line: &[u8]) -> Option<Mapping> {
    let (mapping, is_private) = parse_any(line)?;
    (is_private && mapping.protection & raw::PROT_WRITE != 0).then_some(mapping)
}

/// Reads a line like `7ffc1000-7ffc3000 rw-p 00000000 00:00 0    [stack]`: start, end, permissions,
/// offset, device, inode, name.
///
/// Also returns whether the mapping is private, anonymous and not one of the kernel's own.
fn parse_any(line: &[u8]) -> Option<(Mapping, bool)> {
    let line = core::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    let is_kernels = words.next().is_some_and(|name| name.starts_with("[v"));
    let bit = |at: usize, letter: u8, bit: u32| if permissions.get(at) == Some(&letter) { bit } else { 0 };
    let protection =
        bit(0, b'r', raw::PROT_READ) | bit(1, b'w', raw::PROT_WRITE) | bit(2, b'x', raw::PROT_EXEC);
    let is_private = permissions.get(3) == Some(&b'p') && inode == "0" && !is_kernels;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    Some((Mapping { start, end, protection }, is_private))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_anonymous_writable_memory_counts() {
        let mapping = |line: &str| parse(line.as_bytes());
        assert_eq!(
            mapping("55d0-56d0 rw-p 00000000 00:00 0                          [heap]"),
            Some(Mapping { start: 0x55d0, end: 0x56d0, protection: 3 })
        );
        assert!(mapping("7ffc1000-7ffc3000 rw-p 00000000 00:00 0    [stack]").is_some());
        assert!(mapping("7000-8000 rwxp 00000000 00:00 0 ").is_some());
        assert_eq!(mapping("7000-8000 r--p 00000000 00:00 0 "), None);
        assert_eq!(mapping("7000-8000 rw-s 00000000 00:00 0 "), None);
        assert_eq!(mapping("7000-8000 rw-p 00000000 08:01 1234 /usr/lib/libc.so.6"), None);
        assert_eq!(mapping("7000-8000 rw-p 00000000 00:00 0 [vvar]"), None);
        assert_eq!(mapping(""), None);
    }

    #[test]
    fn the_maps_of_this_process_hold_its_stack() {
        let here = 0_u8;
        let address = &raw const here as usize;
        let (mappings, _) = read().unwrap();
        assert!(count().unwrap() > mappings.len(), "not all are private, anonymous and writable");
        assert!(mappings.iter().any(|mapping| (mapping.start..mapping.end).contains(&address)));
    }
}
